"""No text that was acknowledged is ever lost, and no id ever changes its meaning.

Sequences of saves, merges, deletes, undos, edits and renames are drawn at random and done on a real workspace
with real files. Every text that is written has a word of its own, by which it is found again wherever it went.
"""

from __future__ import annotations

import itertools
import os
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from spec_kit_memory.core.memory import Event, HistoryEntry, Presence
from spec_kit_memory.errors import BadParameter, Invalid
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Clock, Place

WORD = re.compile(r"word\d+x")
BASE = (
    "The message broker is small and every dock can run it. Commands to a lock are never retained. "
    "Telemetry is sent every thirty seconds and dropped when the queue is full."
)
Operation = tuple[str, int, int]
operations = st.tuples(
    st.sampled_from(
        ("save", "save", "again", "merge", "merge", "distinct", "force", "join", "join", "delete", "delete file",
         "undo", "undo", "edit", "rename", "vanish", "wait")
    ),
    st.integers(0, 5),
    st.integers(0, 5),
)  # fmt: skip


@dataclass
class Life:
    place: Place
    space: Workspace
    number: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    acknowledged: set[str] = field(default_factory=set)
    said: list[dict[str, object]] = field(default_factory=list)

    # --- what is done

    def do(self, operation: Operation) -> None:
        name, one, two = operation
        before, trashed = self.live_words(), self.trashed_words()
        try:
            self._do(name, one, two)
        except (Invalid, BadParameter):
            # Nothing to undo, or refused: then nothing has changed.
            assert self.live_words() == before
            assert self.trashed_words() >= trashed
        self.acknowledged |= self.live_words()
        if name not in ("delete", "delete file", "undo", "edit", "vanish"):
            assert before <= self.live_words(), f"{name} took a text away"
        self.verify()

    def _do(self, name: str, one: int, two: int) -> None:
        cards = sorted(self.space.list(limit=100).memories, key=lambda card: card.id)
        card = cards[one % len(cards)] if cards else None
        other = cards[two % len(cards)] if cards else None
        match name:
            case "save" | "merge" | "distinct" | "force":
                data = self._session(one, two)
                self._save(data, name)
            case "again" if self.said:
                self._save(self.said[one % len(self.said)], ("warn", "merge", "force")[two % 3])
            case "join" if card and other:
                self.space.merge(card.id, other.id)
            case "delete" if card:
                self.space.delete(card.id)
            case "delete file" if card:
                self.space.delete(card.id, delete_file=True)
            case "undo":
                self.space.undo()
            case "edit":
                self._edit(one, two)
            case "rename" | "vanish":
                paths = self.files()
                if paths:
                    path = paths[one % len(paths)]
                    if name == "rename":
                        path.rename(path.with_name(f"renamed-{next(self.number)}.md"))
                    else:
                        path.unlink()
                    self.space.index()
            case "wait":
                self.place.clock.pass_(minutes=two + 1)

    def _save(self, data: dict[str, object], how: str) -> None:
        answer = self.space.save(
            context=data,
            spec_folder="001-part",
            create=True,
            on_similar=how if how in ("merge", "distinct") else "warn",
            force=how == "force",
        )
        assert answer.id is not None
        assert answer.merged != answer.id
        assert set(WORD.findall(str(data))) <= set(WORD.findall(self.space.load(answer.id).text))

    def _session(self, one: int, two: int) -> dict[str, object]:
        """Sessions that differ in a sentence, a decision or a step are similar; others are not."""
        words = [f"word{next(self.number)}x" for _ in range(3)]
        data: dict[str, object] = {"sessionSummary": f"{BASE} The port is {words[0]} now."}
        if one % 2:
            data["keyDecisions"] = [f"Use {words[1]} as the broker", "Renew certificates weekly"]
        if two % 2:
            data["nextSteps"] = [f"measure {words[2]} again", "write the docs"]
        if one == two:
            data = {"sessionSummary": f"Lunch is {words[0]}."}
        self.said.append(data)
        return data

    def _edit(self, one: int, two: int) -> None:
        paths = self.files()
        if not paths:
            return
        path = paths[one % len(paths)]
        text = path.read_text(encoding="utf-8")
        word = f"word{next(self.number)}x"
        if two % 2:
            text = text.replace("The message broker is small", f"The message broker {word} is small")
        path.write_text(f"{text}\nAdded {word} by hand.\n", encoding="utf-8")
        self.space.index()

    # --- where texts are

    def files(self) -> list[Path]:
        return sorted(path for path in (self.place.root / "specs").rglob("*.md"))

    def live_words(self) -> set[str]:
        return {word for path in self.files() for word in WORD.findall(path.read_text(encoding="utf-8"))}

    def trashed_words(self) -> set[str]:
        trash = self.place.root / ".spec-kit-memory/trash"
        return {word for path in trash.rglob("*.md") for word in WORD.findall(path.read_text(encoding="utf-8"))}

    def recorded_words(self) -> set[str]:
        store = self.space._runtime.whole
        states = [state for entry in store.record.history() for state in (entry.before, entry.after) if state]
        texts = (store.documents.text(content_hash=str(state["content_hash"])) for state in states)
        return {word for text in texts for word in WORD.findall(text or "")}

    # --- what must hold whatever was done

    def verify(self) -> None:
        lost = self.acknowledged - self.live_words() - self.trashed_words() - self.recorded_words()
        assert lost == set()
        store = self.space._runtime.whole
        for card in self.space.list(limit=100).memories:
            path = self.place.root / card.path
            if path.exists():
                assert set(WORD.findall(path.read_text(encoding="utf-8"))) == set(
                    WORD.findall(store.documents.text(card.id))
                )
        for memory_id in {entry.memory_id for entry in store.record.history()}:
            self._one_lineage(memory_id)
        assert self.space.ledger_verify().ok

    def _one_lineage(self, memory_id: int) -> None:
        """What was merged or deleted comes back with the words that it had, or not at all."""
        store = self.space._runtime.whole
        entries = list(reversed(store.record.history(memory_id)))
        ledger = {entry.sequence: entry for entry in store.record.ledger()}
        forgotten: set[str] | None = None
        for entry in entries:
            now = self._words_of(entry)
            if entry.event is Event.DELETE:
                is_forgotten = ledger[entry.ledger_sequence or 0].presence == Presence.FORGOTTEN
                forgotten = now if is_forgotten else None
            elif forgotten is not None:
                assert now == forgotten, f"memory {memory_id} was {forgotten} and is {now}"
                forgotten = None

    def _words_of(self, entry: HistoryEntry) -> set[str]:
        state = entry.after or entry.before or {}
        return set(
            WORD.findall(self.space._runtime.whole.documents.text(content_hash=str(state["content_hash"])) or "")
        )


# A failing sequence is short enough to be read as it is; making it shorter would take minutes.
QUICK = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)


@given(done=st.lists(operations, min_size=6, max_size=18))
@example(done=[("save", 1, 0), ("again", 0, 1), ("again", 0, 2), ("undo", 0, 0)])
@example(done=[("save", 1, 0), ("merge", 1, 0), ("distinct", 1, 0), ("undo", 0, 0), ("undo", 0, 0)])
@example(done=[("save", 1, 0), ("delete", 0, 0), ("edit", 0, 1), ("undo", 0, 0), ("edit", 0, 0), ("undo", 0, 0)])
@example(done=[("save", 1, 0), ("save", 0, 1), ("join", 0, 1), ("edit", 0, 1), ("undo", 0, 0), ("join", 1, 0)])
@QUICK
def test_no_acknowledged_text_is_lost_and_no_id_names_two(done: list[Operation]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(os.path.realpath(folder))
        (root / "specs").mkdir()
        place = Place(root, Clock())
        space = Workspace(Settings(root=root, semantic=Semantic(model="none")), now=place.clock)
        life = Life(place, space)
        try:
            for operation in done:
                life.do(operation)
        finally:
            space.close()
