"""What happened, and can it be proved? Every way into the memories leaves one entry; no damage goes unnoticed."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spec_kit_memory.core.memory import Conversation, Event, LedgerEntry, Turn
from spec_kit_memory.errors import MemoryNotFound
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place

PAGE = Path(__file__).parents[2] / "docs" / "explain" / "ledger.md"
TOKENS = "# Login tokens\n\nAccess tokens live fifteen minutes."
BROKER = "# Broker\n\nThe message broker is Mosquitto."


@pytest.fixture
def workspace(place: Place) -> Workspace:
    place.memory("tokens", TOKENS)
    place.memory("broker", BROKER)
    workspace = place.open()
    workspace.link(1, 2, "caused")
    place.clock.pass_(minutes=1)
    return workspace


def entries(workspace: Workspace) -> list[LedgerEntry]:
    return list(workspace._runtime.whole.record.ledger())


# --- one entry per mutation, whichever way it came ---------------------------------------------


def _new_file(space: Workspace, place: Place) -> None:
    place.memory("third", "# Third\n\nA third one.")
    space.index()


def _edited_file(space: Workspace, place: Place) -> None:
    place.memory("tokens", TOKENS + " Refresh tokens live a day.")
    space.index()


def _vanished_file(space: Workspace, place: Place) -> None:
    (place.root / "specs/001-core/memory/tokens.md").unlink()
    space.index()


def _moved_file(space: Workspace, place: Place) -> None:
    folder = place.root / "specs/001-core/memory"
    (folder / "tokens.md").rename(folder / "renamed.md")
    space.index()


def _copied_file(space: Workspace, place: Place) -> None:
    place.memory("copy", TOKENS)
    space.index()


def _returned_file(space: Workspace, place: Place) -> None:
    space._runtime.whole.documents.vanish("specs/001-core/memory/tokens.md", space._runtime.change("test"))
    space.index()


def _saved_text(space: Workspace, place: Place) -> None:
    space.save(text="The harbour office opens at eight in the morning.", spec_folder="001-core")


def _saved_file(space: Workspace, place: Place) -> None:
    space.save(file_path=str(place.memory("third", "# Third\n\nA third one.")))


def _updated_in_file(space: Workspace, place: Place) -> None:
    space.update(1, title="Other", importance_tier="critical")


def _conversation(space: Workspace, place: Place) -> None:
    runtime = space._runtime
    runtime.sync.index_conversation(
        Conversation("c1", "Talk", (Turn("user", "Hello there, harbour."),)), runtime.change("chat import")
    )


def _updated_in_index(space: Workspace, place: Place) -> None:
    _conversation(space, place)
    space.update(3, title="Other")


def _trusted(space: Workspace, place: Place) -> None:
    _conversation(space, place)
    space.trust(3)


def _cleared(space: Workspace, place: Place) -> None:
    space.checkpoint_create("c")
    _new_file(space, place)
    space.checkpoint_restore("c", clear_existing=True)


WAYS: dict[str, tuple[Callable[[Workspace, Place], object], list[str]]] = {
    "a new file": (_new_file, ["create"]),
    "an edited file": (_edited_file, ["update"]),
    "a vanished file": (_vanished_file, ["delete"]),
    "a moved file": (_moved_file, ["update"]),
    "a copy": (_copied_file, ["merge"]),
    "a file that returned": (_returned_file, ["delete", "restore"]),
    "saving a text": (_saved_text, ["create"]),
    "saving a file": (_saved_file, ["create"]),
    "updating in the file": (_updated_in_file, ["update"]),
    "a conversation": (_conversation, ["create"]),
    "updating in the index": (_updated_in_index, ["create", "update"]),
    "trusting": (_trusted, ["create", "update"]),
    "deleting": (lambda s, p: s.delete(1), ["delete"]),
    "deleting a file": (lambda s, p: s.delete(1, delete_file=True), ["delete"]),
    "deleting a folder": (lambda s, p: s.delete(spec_folder="001-core", confirm=True), ["delete", "delete"]),
    "an opinion": (lambda s, p: s.validate(1, was_useful=True), ["update"]),
    "marking outdated": (lambda s, p: s.validate(1, outdated=True), ["archive"]),
    "a link": (lambda s, p: s.link(1, 2, "supports"), ["update"]),
    "a link changed": (lambda s, p: s.link(1, 2, "caused", strength=0.5), ["update"]),
    "unlinking": (lambda s, p: s.unlink(1), ["update"]),
    "undoing a delete": (lambda s, p: (s.delete(1), s.undo()), ["delete", "restore"]),
    "undoing an update": (lambda s, p: (s.update(1, title="X"), s.undo()), ["update", "update"]),
    "a restore": (
        lambda s, p: (s.checkpoint_create("c"), s.delete(1), s.checkpoint_restore("c")),
        ["delete", "restore"],
    ),
    "a restore that clears": (_cleared, ["create", "delete"]),
    "an unchanged scan": (lambda s, p: s.index(), []),
    "a rebuild": (lambda s, p: s.index(rebuild=True), ["reindex", "reindex"]),
    "searching and reading": (
        lambda s, p: (s.search("tokens"), s.load(1), s.triggers("tokens", session_id="s"), s.why(1)),
        [],
    ),
    "a checkpoint": (lambda s, p: s.checkpoint_create("c"), []),
    "repair": (lambda s, p: s.health(repair=True), []),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_mutation_leaves_exactly_one_entry(workspace: Workspace, place: Place, way: str) -> None:
    before = len(entries(workspace))
    act, expected = WAYS[way]
    act(workspace, place)
    added = entries(workspace)[before:]
    assert [entry.type.value for entry in added] == expected
    assert len(workspace._runtime.whole.record.history()) == len(entries(workspace))
    for entry in added:
        assert entry.reason
        assert entry.at.endswith("Z")
    assert workspace.ledger_verify().ok


def test_a_failed_mutation_leaves_no_entry(workspace: Workspace) -> None:
    before = workspace.ledger_head().head
    for call in (lambda: workspace.delete(99), lambda: workspace.link(1, 99, "caused"), lambda: workspace.load(99)):
        with pytest.raises(MemoryNotFound):
            call()
    assert workspace.ledger_head().head == before


def test_an_entry_knows_the_text_before_and_after(workspace: Workspace) -> None:
    before = workspace._runtime.store.documents.get(1).content_hash
    workspace.update(1, title="Other")
    entry = entries(workspace)[-1]
    assert entry.memory_ids == (1,)
    assert entry.hash_before == before
    assert entry.hash_after == workspace._runtime.store.documents.get(1).content_hash
    assert workspace._runtime.store.documents.text(content_hash=before) is not None


# --- history ------------------------------------------------------------------------------------


def test_history_outlives_its_memory(workspace: Workspace) -> None:
    """Elsewhere deleting a memory deleted its history, so a DELETE could never be read."""
    workspace.update(1, title="Later")
    workspace.delete(1, delete_file=True)
    answer = workspace.history(1)
    assert [entry.event for entry in answer.entries][:2] == [Event.DELETE, Event.UPDATE]
    assert answer.entries[0].before is not None
    assert answer.entries[0].before["title"] == "Later"
    assert answer.entries[0].after is None
    assert answer.counts == {"total": 4, "adds": 1, "updates": 2, "deletes": 1}
    assert answer.ledger == {}


def test_history_of_a_folder_and_of_all_comes_with_a_verified_ledger(workspace: Workspace, place: Place) -> None:
    place.memory("other", "# Other\n\nIn another folder.", folder="002-other")
    workspace.index()
    folder = workspace.history(spec_folder="specs/002-other")
    assert folder.counts["total"] == 1
    whole = workspace.history(limit=2)
    assert len(whole.entries) == 2
    assert whole.counts["total"] == 4
    assert whole.ledger["ok"] is True
    assert whole.ledger["entries"] == 4


# --- the chain -------------------------------------------------------------------------------------


def exported(workspace: Workspace) -> bytes:
    return b"".join(line.encode() + b"\n" for line in workspace.ledger_export())


def program() -> str:
    match = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert match
    assert len(match[1].strip().splitlines()) <= 20
    return match[1]


def run(source: str, data: bytes, monkeypatch: pytest.MonkeyPatch) -> tuple[object, str]:
    """The program of the page, as another program would run it: what it exits with, and what it prints."""
    message = io.StringIO()
    with monkeypatch.context() as patch, contextlib.redirect_stdout(message):
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
        try:
            exec(source, {"__name__": "__main__"})  # noqa: S102  the page's own program
        except SystemExit as stop:
            return stop.code, message.getvalue()
    return 0, message.getvalue()


def test_an_export_verifies_with_the_program_of_the_page(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace.update(1, title="Größer 数 „so“")
    code, said = run(program(), exported(workspace), monkeypatch)
    assert code == 0
    head = workspace.ledger_head()
    assert said.strip() == f"{head.entries} entries, every link holds, head {head.head}"
    assert head.summary == f"{head.entries} {head.head}"


@pytest.fixture
def export(workspace: Workspace) -> bytes:
    workspace.update(1, title="Größer 数")
    return exported(workspace)


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_changed_byte_of_an_export_is_found_and_named(
    export: bytes, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    # The line end of the last entry is no part of it.
    at = data.draw(st.integers(0, len(export) - 2))
    value = data.draw(st.integers(0, 255).filter(lambda value: value != export[at]))
    code, _ = run(program(), export[:at] + bytes([value]) + export[at + 1 :], monkeypatch)
    number = export[:at].count(b"\n") + 1
    named = re.search(r"entry (\d+)", str(code))
    assert named
    # A line that was cut or joined is missed where its neighbour should be.
    assert int(named[1]) in (number, number + 1)


COLUMNS = ("at", "type", "memory_ids", "hash_before", "hash_after", "actor", "reason", "previous", "hash")


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_changed_byte_of_a_stored_entry_is_found_and_named(workspace: Workspace, data: st.DataObject) -> None:
    """Elsewhere the "hash chain" linked nothing and nothing verified it."""
    connection = apsw.Connection(str(workspace.settings.index_path))
    connection.execute("DROP TRIGGER IF EXISTS ledger_is_append_only_update")
    try:
        sequence = data.draw(st.integers(1, 3))
        column = data.draw(st.sampled_from(COLUMNS))
        good = connection.execute(f"SELECT CAST({column} AS BLOB) FROM ledger WHERE sequence = ?", (sequence,)).get
        if not good:
            return
        at = data.draw(st.integers(0, len(good) - 1))
        value = data.draw(st.integers(0, 255).filter(lambda value: value != good[at]))
        write = f"UPDATE ledger SET {column} = CAST(? AS TEXT) WHERE sequence = ?"
        connection.execute(write, (good[:at] + bytes([value]) + good[at + 1 :], sequence))
        answer = workspace.ledger_verify()
        # An altered hash is noticed in its own entry; the one after it would not follow either.
        assert (answer.ok, answer.broken_at) == (False, sequence)
        assert f"entry {sequence}" in answer.summary
        assert not workspace.health().healthy
        connection.execute(write, (good, sequence))
        assert workspace.ledger_verify().ok
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("damage", "at"),
    [
        ("DELETE FROM ledger WHERE sequence = 2", 2),
        ("UPDATE ledger SET sequence = 9 WHERE sequence = 3", 3),
        ("UPDATE ledger SET memory_ids = '7' WHERE sequence = 1", 1),
        ("UPDATE ledger SET session = '' WHERE sequence = 2", 2),
    ],
)
def test_missing_moved_and_altered_entries_are_named(workspace: Workspace, damage: str, at: int) -> None:
    connection = apsw.Connection(str(workspace.settings.index_path))
    for kind in ("update", "delete"):
        connection.execute(f"DROP TRIGGER ledger_is_append_only_{kind}")
    connection.execute(damage)
    connection.close()
    assert workspace.ledger_verify().broken_at == at


def test_an_export_is_one_object_per_line_and_canonical(workspace: Workspace) -> None:
    for line in exported(workspace).decode().splitlines():
        entry: dict[str, Any] = json.loads(line)
        assert list(entry) == sorted(entry)
        assert json.dumps(entry, sort_keys=True, separators=(",", ":"), ensure_ascii=False) == line


def test_an_empty_workspace_is_not_told_to_check_an_id(place: Place) -> None:
    assert place.open().history().hints == ()


def test_history_of_a_restored_memory_has_no_field_that_only_its_undo_needs(place: Place) -> None:
    place.memory("note", "# Note\n\nThe ferry leaves at six.")
    workspace = place.open()
    (card,) = workspace.list().memories
    workspace.checkpoint_create("c")
    workspace.update(card.id, title="Ferry")
    workspace.delete(card.id)
    workspace.checkpoint_restore("c", clear_existing=True)
    entries = workspace.history(card.id).entries
    assert [entry.event.value for entry in entries].count("ADD") == 2
    public = {"title", "presence", "content_hash", "path", "source", "trusted", "weight", "tier", "outdated", "files"}
    for entry in entries[:-1]:
        if entry.event.value != "DELETE":
            assert {*(entry.before or {}), *(entry.after or {})} <= public, entry
    workspace.undo()
    assert workspace.list(forgotten=True).memories[0].title == "Ferry"
