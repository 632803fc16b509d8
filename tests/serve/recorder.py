"""A workspace that answers from memory, for what the edges do with any workspace."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from spec_kit_memory import answers
from spec_kit_memory.caller import Caller
from spec_kit_memory.core.memory import ContextType, Source, State, Tier
from spec_kit_memory.errors import MemoryNotFound, UndecidedSpecFolder
from spec_kit_memory.parameters import Request, from_call
from spec_kit_memory.requests import BY_COMMAND

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def card(memory_id: int = 1, **more: Any) -> answers.Card:
    known: dict[str, Any] = {
        "id": memory_id,
        "title": f"Memory {memory_id}",
        "path": f"specs/007-auth/memory/{memory_id}.md",
        "spec_folder": "007-auth",
        "tier": Tier.NORMAL,
        "state": State.WARM,
        "context_type": ContextType.DECISION,
        "source": Source.MEMORY,
        "weight": 0.5,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return answers.Card(**(known | more))


def taking(verb: Callable[..., Any]) -> Callable[..., Any]:
    """As a verb of a workspace takes it: a request, or its arguments; what differs from the defaults goes on."""
    kind: type[Request] = BY_COMMAND[verb.__name__.replace("_", " ")]

    def call(self: Recorder, *values: Any, **named: Any) -> Any:
        request, declared = from_call(kind, values, named), kind.declared
        given = {name: value for name, value in vars(request).items() if value != declared[name].default}
        return verb(self, **given)

    return call


@dataclass
class Recorder:
    """Records what it was called with; answers are fixed."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    closed: threading.Event = field(default_factory=threading.Event)
    started: threading.Event = field(default_factory=threading.Event)
    scanning: threading.Event = field(default_factory=threading.Event)
    scan_stopped: threading.Event = field(default_factory=threading.Event)
    hold_scan: bool = False

    def start_background(self) -> None:
        self.started.set()

    @property
    def caller(self) -> Caller:
        return Caller()

    def for_caller(self, caller: Caller) -> Recorder:
        return self

    def record_sent(self, answered: str, *, tokens: int) -> None:
        """Every answer is counted; what was asked is in `calls`."""

    def close(self) -> None:
        self.closed.set()

    @taking
    def search(self, **given: Any) -> answers.SearchAnswer:
        self.calls.append(("search", given))
        if given.get("query") == "break":
            raise RuntimeError("something nobody foresaw")
        return answers.SearchAnswer(outcome="nothing found", query=given.get("query", ""), method="text", results=())

    @taking
    def load(self, **given: Any) -> answers.LoadAnswer:
        self.calls.append(("load", given))
        if given.get("memory_id") == 404:
            raise MemoryNotFound("There is no memory 404.", hint="skm list shows what there is.")
        return answers.LoadAnswer(
            outcome="loaded", memory=card(given.get("memory_id", 1)), text="# Hé\ud800llo", lines="1-1"
        )

    @taking
    def list(self, **given: Any) -> answers.ListAnswer:
        self.calls.append(("list", given))
        cards = (card(1), card(2)) if given.get("spec_folder") in (None, "007-auth") else ()
        return answers.ListAnswer(outcome="two", memories=cards, total=len(cards))

    @taking
    def stats(self, **given: Any) -> answers.StatsAnswer:
        self.calls.append(("stats", given))
        folders = tuple(
            answers.FolderStats(name=name, count=count, newest=NOW, recency=1.0, importance=0.5, composite=0.7)
            for name, count in (("007-auth", 2), ("008-api/001-child", 1))
        )
        empty: dict[str, Any] = {}
        return answers.StatsAnswer(
            outcome="3 memories",
            totals={"memories": 3},
            tiers=empty,
            states=empty,
            sources=empty,
            vectors=empty,
            folders=folders,
            links=answers.LinkStats(total=0, relations=empty, linked=0, coverage=0, average_strength=0, orphans=0),
            embedding=answers.EmbeddingStats(
                provider="none", model=None, dimensions=None, problem=None, failures=empty
            ),
            transactions=empty,
            size_bytes=1,
            last_indexed=NOW,
        )

    @taking
    def context(self, **given: Any) -> answers.ContextAnswer:
        self.calls.append(("context", given))
        return answers.ContextAnswer(outcome="context", text="what is {remembered}", parts=())

    @taking
    def checkpoint_list(self, **given: Any) -> answers.CheckpointListAnswer:
        row = answers.CheckpointRow(
            name="before-refactor",
            spec_folder=None,
            memories=3,
            size_bytes=1,
            created_at=NOW,
            description="",
            automatic=False,
            git_branch=None,
            metadata={},
        )
        return answers.CheckpointListAnswer(outcome="one", checkpoints=(row,))

    @taking
    def save(self, **given: Any) -> answers.SaveAnswer:
        self.calls.append(("save", given))
        if "spec_folder" not in given:
            raise UndecidedSpecFolder(
                "Which folder?", hint="Name one.", alternatives=[{"name": "007-auth", "score": 40}, {"name": "008-api"}]
            )
        return answers.SaveAnswer(
            outcome="saved", id=1, path="x.md", title="T", spec_folder=given["spec_folder"], created=True
        )

    @taking
    def update(self, **given: Any) -> answers.UpdateAnswer:
        self.calls.append(("update", given))
        return answers.UpdateAnswer(outcome="updated", memory=card(), changed=("tier",), written_to="file")

    @taking
    def index(
        self,
        *,
        progress: Callable[[str, int, int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
        **given: Any,
    ) -> answers.IndexAnswer:
        self.calls.append(("index", given))
        for stage in ("text", "vectors"):
            for done in range(1, 4):
                if progress:
                    progress(stage, done, 3)
        self.scanning.set()
        while self.hold_scan and not (cancelled and cancelled()):
            self.scan_stopped.wait(0.01)
        self.scan_stopped.set()
        return answers.IndexAnswer(outcome="indexed", indexed=3)
