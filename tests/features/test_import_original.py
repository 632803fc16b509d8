"""People who come from the original system: its database brings use, validations, links and history along."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from spec_kit_memory.core.memory import HistoryEntry
from spec_kit_memory.errors import FileMissing, Invalid
from spec_kit_memory.index.sql.record import Record
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place
from tests.files.test_original_db import CAUSAL_EDGES, HISTORY_BY_EVENT, MEMORY_INDEX

KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"


@pytest.fixture
def original(tmp_path: Path) -> Path:
    path = tmp_path / "context-index.sqlite"
    connection = apsw.Connection(str(path))
    connection.execute(MEMORY_INDEX + CAUSAL_EDGES + HISTORY_BY_EVENT)
    columns = "id, spec_folder, file_path, title, access_count, last_accessed, validation_count, confidence_score"
    connection.executemany(
        f"INSERT INTO memory_index ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (11, "001-core", "/home/ann/work/specs/001-core/memory/one.md", "One", 7, "2026-02-01 10:00:00", 3, 0.8),
            (12, "001-core", "/home/ann/work/specs/001-core/memory/two.md", "Two", 2, "2026-02-02 10:00:00", 0, 0.5),
            (13, "001-core", "/home/ann/work/specs/001-core/memory/lost.md", "Lost", 9, None, 1, 0.6),
        ],
    )
    connection.executemany(
        "INSERT INTO causal_edges (source_id, target_id, relation, strength, evidence) VALUES (?, ?, ?, ?, ?)",
        [
            ("11", "12", "caused", 0.7, f"said in review, token {KEY}"),
            ("11", "13", "caused", 1.0, "one end is lost"),
            ("12", "12", "supports", 1.0, "itself"),
        ],
    )
    connection.executemany(
        "INSERT INTO memory_history (id, memory_id, event, prev_value, new_value, actor, timestamp)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            ("h1", 11, "ADD", None, '{"title": "One"}', "user", "2026-01-01 09:00:00"),
            ("h2", 11, "UPDATE", '{"title": "One"}', f'{{"title": "One with {KEY}"}}', "hook", "2026-01-02 09:00:00"),
            ("h3", 13, "DELETE", '{"title": "Lost"}', None, "user", "2026-01-03 09:00:00"),
        ],
    )
    connection.close()
    return path


@pytest.fixture
def workspace(place: Place) -> Workspace:
    place.memory("one", "# One\n\nThe first of them.")
    place.memory("two", "# Two\n\nThe second of them.")
    return place.open()


def known(workspace: Workspace) -> dict[str, tuple[int, float, int]]:
    workspace._runtime.flush()
    cards = workspace.list().memories
    return {card.title: (card.access_count, card.confidence, card.validation_count) for card in cards}


def test_what_files_do_not_say_is_taken_over(workspace: Workspace, original: Path, place: Place) -> None:
    answer = workspace.import_original(original)
    assert (answer.matched, answer.links, answer.history) == (2, 1, 2)
    assert answer.unmatched == ("/home/ann/work/specs/001-core/memory/lost.md",)
    assert known(workspace) == {"One": (7, 0.8, 3), "Two": (2, 0.5, 0)}
    one, two = (place.id_of(workspace, name) for name in ("one", "two"))
    (step,) = workspace.why(one, direction="forward").steps
    assert step.to_id == two
    events: list[HistoryEntry] = [e for e in workspace.history(one).entries if e.at.year == 2026 and e.at.month == 1]
    assert [(entry.event, entry.actor) for entry in events] == [("UPDATE", "hook"), ("ADD", "user")]
    assert workspace.ledger_verify().ok
    assert workspace.health().healthy


def test_no_secret_comes_along(workspace: Workspace, original: Path) -> None:
    workspace.import_original(original)
    assert KEY not in str(workspace.history(limit=100).entries)
    assert KEY not in str([workspace.why(card.id) for card in workspace.list().memories])
    assert KEY not in "".join(workspace.ledger_export())


def test_a_second_time_changes_nothing(workspace: Workspace, original: Path) -> None:
    workspace.import_original(original)
    before = known(workspace), workspace.history(limit=1000).counts
    answer = workspace.import_original(original)
    assert "before" in answer.summary
    assert (known(workspace), workspace.history(limit=1000).counts) == before


@pytest.mark.parametrize("verb", ["use", "put_link", "amend"])
def test_an_import_that_broke_off_goes_on_where_it_stopped(
    workspace: Workspace, original: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    real = getattr(Record, verb)
    calls: list[int] = []

    def cut(*given: object, **named: object) -> object:
        calls.append(1)
        if (verb == "use" and len(calls) == 1) or (verb == "amend" and "history" not in named):
            return real(*given, **named)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Record, verb, cut)
        with pytest.raises(KeyboardInterrupt):
            workspace.import_original(original)
    answer = workspace.import_original(original)
    uses = known(workspace)
    assert uses["One"] == (7, 0.8, 3), "counted once"
    assert uses["Two"][0] in ((2,) if verb != "use" else (0, 2)), "never twice"
    assert answer.history == 2
    assert sum(len(workspace.why(card.id, direction="forward").steps) for card in workspace.list().memories) == 1


def test_a_database_of_something_else_is_refused(workspace: Workspace, tmp_path: Path) -> None:
    with pytest.raises(FileMissing):
        workspace.import_original(tmp_path / "none.sqlite")
    other = tmp_path / "other.sqlite"
    connection = apsw.Connection(str(other))
    connection.execute("CREATE TABLE songs (id)")
    connection.close()
    with pytest.raises(Invalid):
        workspace.import_original(other)


def test_before_the_first_index_it_says_what_to_do(place: Place, original: Path) -> None:
    place.memory("one", "# One\n\nText.")
    workspace = place.open(index=False)
    answer = workspace.import_original(original)
    assert answer.matched == 0
    assert any("index()" in hint for hint in answer.hints)
    workspace.index()
    assert workspace.import_original(original).matched == 1, "it can be done again then"


def test_values_that_nest_or_cannot_be_stored_leave_the_index_sound(workspace: Workspace, original: Path) -> None:
    connection = apsw.Connection(str(original))
    for number, value in enumerate(("[" * 900 + "]" * 900, '{"a": NaN}', r'{"half": "\ud800"}', '{"big": 1e999}')):
        connection.execute(
            "INSERT INTO memory_history (id, memory_id, event, prev_value) VALUES (?, 11, 'UPDATE', ?)",
            (f"forged-{number}", value),
        )
    connection.close()
    assert workspace.import_original(original).history == 6
    assert workspace.health(full=True).healthy
    assert workspace.ledger_verify().ok
