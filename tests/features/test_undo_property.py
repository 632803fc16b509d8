"""Does undo take back exactly what was done, whatever was done and in whatever order?

Random operations on a workspace with real files. Each undo must lead to precisely the state before the operation that
it takes back: memories, texts, metadata, links, validations and files. At the end everything is taken back.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from spec_kit_memory.core.memory import Filter, Origin, Presence
from spec_kit_memory.errors import Invalid, SpecKitMemoryError
from spec_kit_memory.features import checkpoints
from spec_kit_memory.index import record_check
from spec_kit_memory.index.sql.repair import Recorded
from tests.features.conftest import Clock, Place

FILES = {
    "specs/001-core/memory/tokens.md": "---\ntitle: Tokens\ntriggers: [token life]\n---\n# T\n\nFifteen minutes.\n",
    "specs/001-core/memory/broker.md": "# Broker\r\n\r\nThe broker is Mosquitto.\r\n",
    "specs/001-core/memory/asks.md": "---\ncausal_links: {supports: [Broker]}\n---\n# Asks\n\nIt asks for a link.\n",
    "specs/001-core/spec.md": "# Core\n\nWhat the core must do.\n",
    "specs/001-core/plan.md": "# Plan\n\nHow it is built.\n",
    "specs/002-x; file in trash/memory/odd.md": "\ufeff# Odd\n\nA folder may be called anything.\n",
    "specs/002-x; file in trash/memory/mixed.md": "# Mixed\r\n\nBoth ends\r\nof lines.\n",
    "memory/note.md": "# Note\n\nAt the root.\n",
}
TURN = {"role": "user", "content": "Where are the racks?", "timestamp": "2026-02-01T10:00:00Z"}
TITLES = ["One", "Two; file in trash/x", "before it", 'Quote " and \\']
RELATIONS = ["supports", "caused", "contradicts"]
Memories = st.integers(1, 9)


class Undoing(RuleBasedStateMachine):
    names = Bundle("names")

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.place = Place(Path(self.folder).resolve() / "work", Clock())
        self.place.root.mkdir()
        for path, text in FILES.items():
            target = self.place.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode())
        chat = self.folder / "chat.jsonl"
        chat.write_text(json.dumps(TURN) + "\n", encoding="utf-8")
        self.space = self.place.open(model="none")
        self.space.chat_import([chat])
        self.states = [self.state()]
        self.kinds: list[str] = []
        self.made = 0

    def teardown(self) -> None:
        if not hasattr(self, "space"):
            return
        try:
            while len(self.states) > 1:
                self.take_back()
            with pytest.raises(Invalid):
                self.space.undo()
        finally:
            self.space.close()
            shutil.rmtree(self.folder)

    # --- what is compared

    def state(self) -> dict[str, Any]:
        store = self.space._runtime.whole
        live = store.documents.find(Filter(), order="path")
        return {
            "memories": {
                memory.id: (
                    memory.path, memory.spec_folder, memory.attributes, memory.outdated, memory.trusted,
                    memory.validation_count, memory.confidence, memory.aliases, store.documents.text(memory.id),
                )
                for memory in live
            },
            "forgotten": {memory.id: memory.path for memory in store.documents.find(presence=Presence.FORGOTTEN)},
            "links": {
                link.key: (link.strength, link.evidence, str(link.origin))
                for link in store.record.links()
                if link.origin is not Origin.SPEC  # they are made again whenever a document is read
            },
            "files": {
                path.relative_to(self.place.root).as_posix(): path.read_bytes()
                for path in self.place.root.rglob("*")
                if path.is_file() and ".spec-kit-memory" not in path.parts
            },
        }  # fmt: skip

    def do(self, verb: str, *given: Any, **named: Any) -> None:
        """What is refused changes nothing; what changes something can be taken back."""
        self.place.clock.pass_(minutes=1)
        before, head = self.state(), self.space.ledger_head().entries
        try:
            getattr(self.space, verb)(*given, **named)
        except SpecKitMemoryError:
            assert self.state() == before
            return
        if self.space.ledger_head().entries != head:
            self.states.append(before)
            unfiled = verb == "checkpoint_restore" and not named["restore_files"]
            self.kinds.append("unfiled restore" if unfiled else verb)
        else:
            assert self.state() == before

    def take_back(self) -> None:
        self.place.clock.pass_(minutes=1)
        answer = self.space.undo()
        expected, _ = self.states.pop(), self.kinds.pop()
        now = self.state()
        for part, value in expected.items():
            assert now[part] == value, (part, answer.summary, answer.hints)

    # --- what is done

    @rule(memory=Memories, title=st.sampled_from(TITLES), tier=st.sampled_from([None, "critical", "temporary"]))
    def update(self, memory: int, title: str, tier: str | None) -> None:
        self.do("update", memory, title=title, importance_tier=tier)

    @rule(memory=Memories, phrases=st.lists(st.sampled_from(["rack size", "pier", "größer"]), max_size=2))
    def phrases(self, memory: int, phrases: list[str]) -> None:
        self.do("update", memory, trigger_phrases=phrases, importance_weight=0.25)

    @rule(memory=Memories, useful=st.none() | st.booleans(), outdated=st.none() | st.booleans())
    def validate(self, memory: int, useful: bool | None, outdated: bool | None) -> None:
        if useful is not None or outdated is not None:
            self.do("validate", memory, was_useful=useful, outdated=outdated)

    @rule(one=Memories, two=Memories, relation=st.sampled_from(RELATIONS), strength=st.sampled_from([0.25, 1.0]))
    def link(self, one: int, two: int, relation: str, strength: float) -> None:
        self.do("link", one, two, relation, strength=strength, evidence="undo of 1")

    @rule(number=st.integers(0, 5))
    def unlink(self, number: int) -> None:
        links = [link for link in self.space._runtime.whole.record.links() if link.origin is Origin.HAND]
        if links:
            self.do("unlink", links[number % len(links)].id)

    @rule(memory=Memories, file=st.booleans())
    def delete(self, memory: int, file: bool) -> None:
        self.do("delete", memory, delete_file=file)

    @rule(folder=st.sampled_from(["001-core", "002-x; file in trash"]), file=st.booleans())
    def delete_folder(self, folder: str, file: bool) -> None:
        self.do("delete", spec_folder=folder, confirm=True, delete_file=file)

    @rule(trusted=st.booleans())
    def trust(self, trusted: bool) -> None:
        chats = self.space.chat_list().memories
        if chats:
            self.do("trust", chats[0].id, trusted=trusted)

    @rule(one=Memories, two=Memories)
    def merge(self, one: int, two: int) -> None:
        self.do("merge", one, two)

    @rule(target=names, folder=st.sampled_from([None, "001-core"]))
    def checkpoint(self, folder: str | None) -> str:
        self.made += 1
        name = f"c{self.made}; before it x"
        try:
            self.space.checkpoint_create(name, spec_folder=folder)
        except SpecKitMemoryError:
            self.space.checkpoint_create(name)
        return name

    @rule(name=names, clear=st.booleans(), files=st.booleans())
    def restore(self, name: str, clear: bool, files: bool) -> None:
        files = files and not self.has_unfiled()  # it scans first
        self.do("checkpoint_restore", name, clear_existing=clear, restore_files=files)

    @precondition(lambda self: len(self.states) > 1)
    @rule()
    def undo(self) -> None:
        self.take_back()

    def has_unfiled(self) -> bool:
        """A restore without files brings memories back that have none; a scan takes them out again."""
        return "unfiled restore" in self.kinds

    @rule()
    def scan(self) -> None:
        if self.has_unfiled():
            return
        before = self.state()
        self.space.index()
        assert self.state() == before, "files and index say the same already"

    # --- what always holds

    @invariant()
    def the_ledger_holds(self) -> None:
        if not hasattr(self, "space"):
            return
        assert self.space.ledger_verify().ok
        with self.space._runtime.whole._database.apart() as connection:  # type: ignore[attr-defined]
            assert record_check.check(Recorded(connection)) == []


@pytest.fixture(autouse=True)
def _as_many_checkpoints_as_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the one before an early restore would have made room, and its undo would say so."""
    monkeypatch.setattr(checkpoints, "MOST_CHECKPOINTS", 1_000)


TestUndoing = Undoing.TestCase
TestUndoing.settings = settings(max_examples=15, stateful_step_count=12, deadline=None)
