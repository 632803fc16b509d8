"""The one door. The MCP server, the command line and Python callers come in here.

A `Workspace` wires settings, store, files and embedder together and hands each verb to
`verbs/`. Its methods are thread safe; they answer with the dataclasses of `answers`.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from spec_kit_memory import answers
from spec_kit_memory import settings as settings_module
from spec_kit_memory.core.memory import Actor, ContextType, Source, State, Tier
from spec_kit_memory.embed import Embedder
from spec_kit_memory.errors import BadParameter, MemoryNotFound
from spec_kit_memory.features.argument_check import accepting, checked
from spec_kit_memory.features.runtime import Meaning, Runtime
from spec_kit_memory.index import open_index
from spec_kit_memory.index.contract import Index
from spec_kit_memory.settings import Settings

if TYPE_CHECKING:
    from spec_kit_memory.features.background import Background
    from spec_kit_memory.files.scan import Sync

__all__ = ["Workspace", "open_workspace", "utc_now"]

_Answer = TypeVar("_Answer", bound=answers.Answer)
_Choice = TypeVar("_Choice", bound=StrEnum)


def utc_now() -> datetime:
    return datetime.now(UTC)


def _one_of(kind: type[_Choice], value: str | None, name: str) -> _Choice | None:
    """A caller's word as one of the values there are."""
    try:
        return kind(value) if value else None
    except ValueError:
        raise BadParameter(f"{name} is {value!r}", hint=f"use one of {', '.join(kind)}") from None


@checked
def open_workspace(
    root: str | os.PathLike[str] | None = None,
    *,
    settings: Settings | None = None,
    actor: Actor = Actor.USER,
    now: Callable[[], datetime] = utc_now,
) -> Workspace:
    """Open the workspace whose root folder is `root`; without it the nearest one upwards from the working directory."""
    if settings is None:
        settings = settings_module.load(settings_module.find_root(workspace=Path(root) if root is not None else None))
    return Workspace(settings, actor=actor, now=now)


@accepting
class Workspace:
    """A project's memories. Use it as a context manager, or call `close`."""

    def __init__(
        self,
        settings: Settings,
        *,
        actor: Actor = Actor.USER,
        now: Callable[[], datetime] = utc_now,
        store: Index | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        from spec_kit_memory.files.disk import refuse_links, scope_of

        self.settings = settings
        refuse_links(settings)
        whole = store or open_index(settings.index_path)
        self._runtime = Runtime(
            settings=settings,
            store=whole.within(scope_of(settings)),
            whole=whole,
            make_sync=lambda: _sync(whole, settings, now),
            meaning=Meaning(settings, now=now, embedder=embedder),
            now=now,
            actor=actor,
            embed_soon=self._embed_soon,
        )
        self._cache = _SearchCache()
        self._background: Background | None = None
        self._closed = False
        # A caller who forgets to close still has its counts of use written.
        atexit.register(self.close)
        if _left_pending(settings):
            with whole.hurried():  # what cannot be indexed now, the next scan indexes
                self._runtime.sync.recover()

    # --- life

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        if self._background:
            self._background.stop()
        self._runtime.flush()
        if self._runtime.past:
            self._runtime.past.close()
        self._runtime.whole.close()

    def start_background(self) -> None:
        """Scan, embed and watch behind the answers; a server calls this after it started."""
        from spec_kit_memory.features.background import Background

        if self._background is None:
            self._background = Background(self._runtime)
            self._runtime.doing = self._background.doing
            self._background.start()

    def _embed_soon(self) -> None:
        if self._background:
            self._background.wake()

    # --- find and read

    def search(
        self,
        query: str | None = None,
        *,
        concepts: Sequence[str] = (),
        spec_folder: str | None = None,
        tier: Tier | str | None = None,
        context_type: ContextType | str | None = None,
        source: Source | str | None = None,
        state_filter: State | str | None = None,
        min_state: State | str | None = None,
        include_archived: bool = False,
        limit: int = 10,
        min_score: float = 0.0,
        group_by: str = "memory",
        max_tokens: int | None = None,
        anchors: Sequence[str] = (),
        include_content: bool = False,
        include_constitutional: bool = True,
        include_contiguity: bool = False,
        use_decay: bool = True,
        session_id: str | None = None,
        dedup: bool = True,
        as_of: str | None = None,
        explain: bool = False,
        mode: str = "hybrid",
    ) -> answers.SearchAnswer:
        """The memories that answer a question, best first, within a token budget."""
        from spec_kit_memory.features import search_answer
        from spec_kit_memory.features.search import Request

        request = Request(
            query=query,
            concepts=tuple(concepts),
            spec_folder=spec_folder,
            tier=_one_of(Tier, tier, "tier"),
            context_type=_one_of(ContextType, context_type, "contextType"),
            source=None if source == "all" else _one_of(Source, source, "source"),
            state_filter=_one_of(State, state_filter, "stateFilter"),
            min_state=_one_of(State, min_state, "minState"),
            include_archived=include_archived,
            limit=limit,
            min_score=min_score,
            group_by=group_by,
            max_tokens=max_tokens,
            anchors=tuple(anchors),
            include_content=include_content,
            include_constitutional=include_constitutional,
            include_contiguity=include_contiguity,
            use_decay=use_decay,
            session_id=session_id,
            dedup=dedup,
            as_of=as_of,
            explain=explain,
            mode=mode,
        )
        return self._timed(lambda: search_answer.search(self._runtime, request, self._cache))

    def load(
        self,
        memory_id: int | None = None,
        *,
        spec_folder: str | None = None,
        anchor_id: str | None = None,
        max_tokens: int = 10_000,
    ) -> answers.LoadAnswer:
        """One memory's text or section; the newest of a spec folder without an id."""
        from spec_kit_memory.features import read

        return self._timed(
            lambda: read.load(
                self._runtime, memory_id=memory_id, spec_folder=spec_folder, anchor_id=anchor_id, max_tokens=max_tokens
            )
        )

    def get(
        self, path: str, *, lines: str | None = None, from_: int | None = None, count: int | None = None
    ) -> answers.GetAnswer:
        """Exactly those lines of a memory."""
        from spec_kit_memory.features import read

        return self._timed(lambda: read.get(self._runtime, path=path, lines=lines, from_=from_, count=count))

    def list(
        self,
        *,
        spec_folder: str | None = None,
        tier: Tier | str | None = None,
        source: Source | str | None = None,
        limit: int = 20,
        offset: int = 0,
        sort_by: str = "created_at",
        forgotten: bool = False,
    ) -> answers.ListAnswer:
        """Memories, newest first unless `sort_by` says otherwise; or those that were deleted on request."""
        from spec_kit_memory.features import read

        return self._timed(
            lambda: read.list_(
                self._runtime,
                spec_folder=spec_folder,
                tier=_one_of(Tier, tier, "tier"),
                source=None if source == "all" else _one_of(Source, source, "source"),
                limit=limit,
                offset=offset,
                sort_by=sort_by,
                forgotten=forgotten,
            )
        )

    # --- keep in step

    def index(
        self,
        *,
        spec_folder: str | None = None,
        force: bool = False,
        rebuild: bool = False,
        cooldown: bool = False,
        embed: bool = True,
        progress: Callable[[str, int, int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> answers.IndexAnswer:
        """Bring the index in step with the files."""
        from spec_kit_memory.features import index_workspace

        return self._timed(
            lambda: index_workspace.index(
                self._runtime,
                spec_folder=spec_folder,
                force=force,
                rebuild=rebuild,
                cooldown=cooldown,
                embed=embed,
                progress=progress,
                cancelled=cancelled,
            )
        )

    # --- sessions

    def triggers(
        self,
        prompt: str,
        *,
        limit: int = 3,
        session_id: str | None = None,
        turn_number: int | None = None,
        include_cognitive: bool = True,
    ) -> answers.TriggerAnswer:
        """The memories whose phrases occur in a prompt; it never needs vectors."""
        from spec_kit_memory.features import sessions

        return self._timed(
            lambda: sessions.triggers(
                self._runtime,
                prompt=prompt,
                limit=limit,
                session_id=session_id,
                turn_number=turn_number,
                include_cognitive=include_cognitive,
            )
        )

    def context(
        self,
        prompt: str | None = None,
        *,
        spec_folder: str | None = None,
        session_id: str | None = None,
        max_tokens: int = 1500,
    ) -> answers.ContextAnswer:
        """The one call for an agent that starts or resumes."""
        from spec_kit_memory.features import context

        return self._timed(
            lambda: context.context(
                self._runtime, prompt=prompt, spec_folder=spec_folder, session_id=session_id, max_tokens=max_tokens
            )
        )

    # --- keep and change

    def save(
        self,
        *,
        file_path: str | None = None,
        context: Mapping[str, Any] | None = None,
        text: str | None = None,
        spec_folder: str | None = None,
        force: bool = False,
        dry_run: bool = False,
        on_similar: str = "warn",
        create: bool = False,
        by_person: bool = False,
    ) -> answers.SaveAnswer:
        """Remember a session, one fact, or an existing file. Only `by_person` may save a rule."""
        from spec_kit_memory.features import save

        return self._timed(
            lambda: save.save(
                self._runtime,
                file_path=file_path,
                context=context,
                text=text,
                spec_folder=spec_folder,
                force=force,
                dry_run=dry_run,
                on_similar=on_similar,
                create=create,
                by_person=by_person,
            )
        )

    def update(
        self,
        id: int,
        *,
        title: str | None = None,
        trigger_phrases: Sequence[str] | None = None,
        importance_weight: float | None = None,
        importance_tier: Tier | str | None = None,
        context_type: ContextType | str | None = None,
        confirm: bool = False,
    ) -> answers.UpdateAnswer:
        """Change a memory's metadata, in its file where it has one."""
        from spec_kit_memory.features import amend

        return self._timed(
            lambda: amend.update(
                self._runtime,
                memory_id=id,
                title=title,
                trigger_phrases=trigger_phrases,
                importance_weight=importance_weight,
                importance_tier=_one_of(Tier, importance_tier, "importanceTier"),
                context_type=_one_of(ContextType, context_type, "contextType"),
                confirm=confirm,
            )
        )

    def merge(self, id: int, into: int) -> answers.MergeAnswer:
        """Join two memories: `into` stays and takes in what only the other one says."""
        from spec_kit_memory.features import merge

        return self._timed(lambda: merge.merge(self._runtime, memory_id=id, into=into))

    def delete(
        self,
        id: int | None = None,
        *,
        spec_folder: str | None = None,
        confirm: bool = False,
        delete_file: bool = False,
    ) -> answers.DeleteAnswer:
        """Forget a memory, or all of a spec folder; files stay unless `delete_file`."""
        from spec_kit_memory.features import amend

        return self._timed(
            lambda: amend.delete(
                self._runtime, memory_id=id, spec_folder=spec_folder, confirm=confirm, delete_file=delete_file
            )
        )

    def validate(
        self, id: int, *, was_useful: bool | None = None, outdated: bool | None = None, promote: bool | None = None
    ) -> answers.ValidateAnswer:
        """Say whether a memory was useful, or that it is outdated."""
        from spec_kit_memory.features import validate

        return self._timed(
            lambda: validate.validate(
                self._runtime, memory_id=id, was_useful=was_useful, outdated=outdated, promote=bool(promote)
            )
        )

    def trust(self, target: int | str, *, trusted: bool = True) -> answers.UpdateAnswer:
        """Vouch for a memory of a chat or custom source; only a person calls this."""
        from spec_kit_memory.features import amend

        return self._timed(lambda: amend.trust(self._runtime, target, trusted=trusted))

    def undo(self) -> answers.UndoAnswer:
        """Take back the last delete, update, merge or restore."""
        from spec_kit_memory.features import undo

        return self._timed(lambda: undo.undo(self._runtime))

    # --- links

    def link(
        self, source_id: int, target_id: int, relation: str, *, strength: float = 1.0, evidence: str | None = None
    ) -> answers.LinkAnswer:
        """Say how one memory bears on another."""
        from spec_kit_memory.features import why

        return self._timed(
            lambda: why.link(
                self._runtime,
                source_id=source_id,
                target_id=target_id,
                relation=relation,
                strength=strength,
                evidence=evidence or "",
            )
        )

    def unlink(self, link_id: int) -> answers.LinkAnswer:
        from spec_kit_memory.features import why

        return self._timed(lambda: why.unlink(self._runtime, link_id=link_id))

    def why(
        self, memory_id: int, *, max_depth: int = 3, direction: str = "both", relations: Sequence[str] | None = None
    ) -> answers.WhyAnswer:
        """What led to a memory, and what came of it."""
        from spec_kit_memory.features import why

        return self._timed(
            lambda: why.why(
                self._runtime,
                memory_id=memory_id,
                max_depth=max_depth,
                direction=direction,
                relations=tuple(relations or ()),
            )
        )

    # --- checkpoints

    def checkpoint_create(
        self,
        name: str,
        *,
        spec_folder: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> answers.CheckpointAnswer:
        """A named snapshot of everything, or of one spec folder."""
        from spec_kit_memory.features import checkpoints

        return self._timed(
            lambda: checkpoints.create(
                self._runtime, name=name, spec_folder=spec_folder, description=description, metadata=metadata
            )
        )

    def checkpoint_list(self, *, spec_folder: str | None = None, limit: int = 50) -> answers.CheckpointListAnswer:
        from spec_kit_memory.features import checkpoints

        return self._timed(lambda: checkpoints.list_(self._runtime, spec_folder=spec_folder, limit=limit))

    def checkpoint_diff(self, name: str) -> answers.CheckpointDiffAnswer:
        """What changed since a checkpoint."""
        from spec_kit_memory.features import checkpoints

        return self._timed(lambda: checkpoints.diff(self._runtime, name=name))

    def checkpoint_restore(
        self, name: str, *, clear_existing: bool = False, restore_files: bool = False
    ) -> answers.CheckpointAnswer:
        """Bring a checkpoint back, all of it or nothing."""
        from spec_kit_memory.features import checkpoints

        return self._timed(
            lambda: checkpoints.restore(
                self._runtime, name=name, clear_existing=clear_existing, restore_files=restore_files
            )
        )

    def checkpoint_delete(self, name: str) -> answers.CheckpointAnswer:
        from spec_kit_memory.features import checkpoints

        return self._timed(lambda: checkpoints.delete(self._runtime, name=name))

    # --- record

    def history(
        self, id: int | None = None, *, spec_folder: str | None = None, limit: int = 50
    ) -> answers.HistoryAnswer:
        """What happened to a memory, a spec folder or the workspace, newest first."""
        from spec_kit_memory.features import history

        return self._timed(lambda: history.history(self._runtime, memory_id=id, spec_folder=spec_folder, limit=limit))

    def ledger_verify(self) -> answers.LedgerAnswer:
        """Check every link of the chain."""
        from spec_kit_memory.features import history

        return self._timed(lambda: history.ledger_verify(self._runtime))

    def ledger_head(self) -> answers.LedgerAnswer:
        from spec_kit_memory.features import history

        return self._timed(lambda: history.ledger_head(self._runtime))

    def ledger_export(self) -> Iterator[str]:
        """Every entry as a line of JSON."""
        from spec_kit_memory.features import history

        return history.ledger_export(self._runtime)

    # --- chat and import

    def chat_import(self, paths: Sequence[str | os.PathLike[str]]) -> answers.ChatAnswer:
        """Remember conversations from transcripts; one that grew is updated."""
        from spec_kit_memory.features import chats

        return self._timed(lambda: chats.import_(self._runtime, [Path(path) for path in paths]))

    def chat_list(self) -> answers.ListAnswer:
        from spec_kit_memory.features import chats

        return self._timed(lambda: chats.list_(self._runtime))

    def chat_forget(self, conversation: str) -> answers.DeleteAnswer:
        from spec_kit_memory.features import chats

        return self._timed(lambda: chats.forget(self._runtime, conversation))

    def import_original(self, path: str | os.PathLike[str]) -> answers.ImportAnswer:
        """Take use, validations, links and history over from the original system's database."""
        from spec_kit_memory.features import import_original

        return self._timed(lambda: import_original.import_(self._runtime, Path(path)))

    # --- look after

    def stats(self, *, folder_ranking: str = "count", limit: int = 10) -> answers.StatsAnswer:
        """What is there, in numbers."""
        from spec_kit_memory.features import health

        return self._timed(lambda: health.stats(self._runtime, folder_ranking=folder_ranking, limit=limit))

    def health(self, *, repair: bool = False, full: bool = False) -> answers.HealthAnswer:
        """What is wrong, and with `repair` what could be mended. `full` takes its time for a large index."""
        from spec_kit_memory.features import health

        return self._timed(lambda: health.health(self._runtime, repair=repair, full=full))

    def _timed(self, verb: Callable[[], _Answer]) -> _Answer:
        started = time.perf_counter()
        if self._background:
            self._background.settle()
        try:
            answer = verb()
        except MemoryNotFound as error:
            if not self._unread:
                raise
            raise MemoryNotFound(error.message, hint=f"{self._unread}; {error.hint}", **error.details) from error
        meta = replace(
            answer.meta,
            latency_ms=round((time.perf_counter() - started) * 1000, 3),
            index_generation=self._runtime.store.generation(),
        )
        return replace(answer, meta=meta, hints=(*filter(None, (self._unread,)), *answer.hints))

    @property
    def _unread(self) -> str:
        return self._background.unread if self._background else ""


def _sync(whole: Index, settings: Settings, now: Callable[[], datetime]) -> Sync:
    from spec_kit_memory.files.scan import Sync

    return Sync(whole, settings, now=now)


def _left_pending(settings: Settings) -> bool:
    """Is there a record of a save that may have died? Looked at here, so that a hook loads nothing to find none."""
    try:
        with os.scandir(settings.state_folder / "pending") as records:
            return next(records, None) is not None
    except OSError:
        return False


class _SearchCache:
    """Answers to repeated questions, thrown away as a whole when any memory changed."""

    SIZE = 256

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._generation = -1
        self._answers: dict[Any, answers.SearchAnswer] = {}

    def get(self, key: Any, generation: int) -> answers.SearchAnswer | None:
        with self._lock:
            return self._answers.get(key) if generation == self._generation else None

    def put(self, key: Any, generation: int, answer: answers.SearchAnswer) -> None:
        with self._lock:
            if generation != self._generation:
                self._generation, self._answers = generation, {}
            elif len(self._answers) >= self.SIZE:
                del self._answers[next(iter(self._answers))]
            self._answers[key] = answer
