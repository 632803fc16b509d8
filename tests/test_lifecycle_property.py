"""Whatever happens to a workspace, it verifies; and a checkpoint brings back exactly what it held.

Sequences of saves, edits, updates, deletes, links, opinions, reads, checkpoints, restores and
undos are drawn at random and done on a real workspace with real files.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from spec_kit_memory.errors import CheckpointExists, FileMissing, Invalid
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Clock, Place

NAMES = ("tokens", "broker", "lunch", "gates")
WORDS = ("harbour", "token", "broker", "soup", "gateway", "signature", "ferry", "lamp")
RELATIONS = ("caused", "supports", "supersedes", "contradicts")
QUESTIONS = ("harbour token signature", "which broker", "soup on the ferry", "gateway lamp")

Operation = tuple[str, int, int, int]
operations = st.tuples(
    st.sampled_from(
        ("write", "write", "update", "delete", "delete file", "link", "unlink", "useful", "useless", "outdated",
         "read", "session", "checkpoint", "restore", "clear", "undo", "vanish", "folder", "save", "wait")
    ),
    st.integers(0, 3),
    st.integers(0, 7),
    st.integers(0, 7),
)  # fmt: skip


@dataclass
class Life:
    place: Place
    space: Workspace

    def do(self, operation: Operation) -> None:
        name, one, two, three = operation
        try:
            self._do(name, one, two, three)
        except (Invalid, CheckpointExists, FileMissing):
            return  # nothing to undo, a file in the way or not there, a name taken: said, and nothing done

    def _do(self, name: str, one: int, two: int, three: int) -> None:
        cards = sorted(self.space.list(limit=100).memories, key=lambda card: card.id)
        card = cards[one % len(cards)] if cards else None
        other = cards[two % len(cards)] if cards else None
        match name:
            case "write":
                body = f"# About {NAMES[one]}\n\nThe {WORDS[two]} and the {WORDS[three]} of {NAMES[one]}."
                self.place.memory(NAMES[one], body, folder=f"00{1 + three % 2}-part")
                self.space.index()
            case "save":
                self.space.save(
                    text=f"Remember the {WORDS[two]} near the {WORDS[three]}.", spec_folder="001-part", create=True
                )
            case "update" if card:
                self.space.update(card.id, title=f"{WORDS[two]} {WORDS[three]}", importance_weight=one / 4)
            case "delete" if card:
                self.space.delete(card.id)
            case "delete file" if card:
                self.space.delete(card.id, delete_file=True)
            case "folder" if card and card.spec_folder:
                self.space.delete(spec_folder=card.spec_folder, confirm=True)
            case "vanish" if card:
                (self.place.root / card.path).unlink(missing_ok=True)
                self.space.index()
            case "link" if card and other and card.id != other.id:
                self.space.link(card.id, other.id, RELATIONS[three % 4], strength=two / 7)
            case "unlink" if card and self.space.why(card.id).steps:
                self.space.unlink(self.space.why(card.id).steps[0].link.id)
            case "useful" | "useless" if card:
                self.space.validate(card.id, was_useful=name == "useful")
            case "outdated" if card:
                self.space.validate(card.id, outdated=bool(two % 2))
            case "read" if card:
                self.space.load(card.id)
            case "session":
                self.space.search(WORDS[two], session_id=f"s{one}")
            case "checkpoint":
                self.space.checkpoint_create(f"c{one}", spec_folder=card.spec_folder if card and two % 2 else None)
            case "restore" | "clear":
                kept = self.space.checkpoint_list().checkpoints
                if kept:
                    self.space.checkpoint_restore(
                        kept[two % len(kept)]["name"], clear_existing=name == "clear", restore_files=bool(three % 2)
                    )
            case "undo":
                self.space.undo()
            case "wait":
                self.place.clock.pass_(minutes=two + 1)

    def verify(self) -> None:
        """What must hold whatever was done."""
        verdict = self.space.ledger_verify()
        assert verdict.ok, verdict.summary
        assert len(self.space._runtime.whole.record.history()) == verdict.entries
        wrong = [
            problem for problem in self.space.health().problems if problem["check"] not in ("held back", "stale rows")
        ]
        assert wrong == []

    def essence(self) -> dict[str, Any]:
        """Everything that a checkpoint holds, by what it is about."""
        self.space._runtime.flush()
        kept: dict[str, Any] = {}
        for row in self.space._runtime.whole.care.snapshot():
            plain = {name: value for name, value in row.items() if name not in ("stamp", "raw_hash")}
            match row["kind"]:
                case "header":
                    continue
                case "memory":
                    # A copy's stamp is its file's, and says nothing of the memory.
                    plain["aliases"] = [alias["path"] for alias in row["aliases"]]
                    kept[f"memory {row['id']}"] = plain
                case "link":
                    del plain["id"]
                    kept[f"link {row['source_id']} {row['relation']} {row['target_id']}"] = plain
                case "vector":
                    kept[f"vector {row['hash']}"] = plain
                case "session":
                    kept[f"session {row['id']}"] = plain
        return kept

    def answers(self) -> list[Any]:
        results = []
        for question in QUESTIONS:
            for mode in ("hybrid", "vector", "text"):
                answer = self.space.search(question, mode=mode, include_archived=True)
                results.append([(r.id, r.title, r.score, getattr(r, "superseded_by", ())) for r in answer.results])
        return results


def lived(folder: str) -> Life:
    root = Path(os.path.realpath(folder))
    (root / "specs").mkdir()
    place = Place(root, Clock())
    space = Workspace(Settings(root=root, semantic=Semantic(model="hashing")), now=place.clock)
    return Life(place, space)


# A failing sequence is short enough to be read as it is; making it shorter would take minutes.
QUICK = settings(
    max_examples=14,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)


@given(done=st.lists(operations, min_size=4, max_size=14))
@QUICK
def test_any_sequence_of_changes_leaves_a_workspace_that_verifies(done: list[Operation]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = lived(folder)
        try:
            for operation in done:
                life.do(operation)
            life.verify()
        finally:
            life.space.close()


@given(
    before=st.lists(operations, min_size=3, max_size=8),
    after=st.lists(operations, min_size=1, max_size=8),
    files=st.booleans(),
)
@example(
    # The index was restored and the file was not: the checkpoint holds a text that no file has.
    before=[("checkpoint", 1, 2, 2), ("update", 0, 4, 7), ("restore", 0, 2, 2)],
    after=[("vanish", 0, 0, 0)],
    files=True,
)
@QUICK
def test_restoring_a_checkpoint_is_the_identity(before: list[Operation], after: list[Operation], files: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = lived(folder)
        try:
            for operation in [("write", 0, 0, 0), ("write", 1, 1, 3), *before]:
                life.do(operation)
            life.space.index()
            held, answers, at = life.essence(), life.answers(), life.place.clock()
            life.space.checkpoint_create("the one")
            for operation in after:
                life.do(operation)
            if "the one" not in {row["name"] for row in life.space.checkpoint_list().checkpoints}:
                return  # ten others were made since
            life.place.clock.pass_(minutes=1)
            life.space.checkpoint_restore("the one", clear_existing=True, restore_files=files)
            now = life.essence()
            # Sessions that began later are nobody's to end.
            later = {key for key in now if key.startswith("session") and key not in held}
            assert {key: value for key, value in now.items() if key not in later} == held
            life.place.clock.at = at
            assert life.answers() == answers
            life.verify()
        finally:
            life.space.close()
