"""Is everything found that another program does to the record? A cut tail, a rewritten chain, edited rows."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import apsw
import pytest

from spec_kit_memory.core import ledger
from spec_kit_memory.errors import BadParameter
from spec_kit_memory.index import rows
from spec_kit_memory.settings import Isolation
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place


@pytest.fixture
def workspace(place: Place) -> Workspace:
    place.memory("tokens", "# Tokens\n\nAccess tokens live fifteen minutes.", title="Tokens", triggers="[token life]")
    place.memory("broker", "# Broker\n\nThe message broker is Mosquitto.")
    place.memory("gone", "# Gone\n\nIt is deleted in a moment.")
    workspace = place.open()
    workspace.update(place.id_of(workspace, "tokens"), importance_tier="critical")
    workspace.validate(place.id_of(workspace, "broker"), was_useful=True)
    tokens, broker = place.id_of(workspace, "tokens"), place.id_of(workspace, "broker")
    workspace.link(tokens, broker, "supports", strength=0.5, evidence="größer 数 „so“")
    workspace.delete(place.id_of(workspace, "gone"))
    return workspace


def tamper(workspace: Workspace, *statements: str) -> None:
    connection = apsw.Connection(str(workspace.settings.index_path))
    for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        connection.execute(f'DROP TRIGGER "{name}"')
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()


# --- the rest of the database against the ledger

COLUMNS = (
    "source, title, tier, weight, context_type, triggers, presence, fingerprint, content_hash, first_indexed_at,"
    " updated_at, archived_folder, trusted, changed"
)
EDITS = {
    "tier": "UPDATE memory SET tier = 'normal' WHERE id = (SELECT id FROM memory WHERE tier = 'critical')",
    "title": "UPDATE memory SET title = 'Another' WHERE id = 1",
    "weight": "UPDATE memory SET weight = 0.99 WHERE id = 1",
    "triggers": "UPDATE memory SET triggers = '[\"password\"]' WHERE id = 2",
    "date": "UPDATE memory SET created_at = 0 WHERE id = 1",
    "path": "UPDATE memory SET path = 'specs/001-core/memory/elsewhere.md' WHERE id = 1",
    "folder": "UPDATE memory SET spec_folder = '002-other' WHERE id = 1",
    "owner": "UPDATE memory SET owner = 'ann' WHERE id = 1",
    "outdated": "UPDATE memory SET outdated = 1 WHERE id = 1",
    "trusted": "UPDATE memory SET trusted = 0 WHERE id = 1",
    "vouched": "UPDATE memory SET vouched = 0 WHERE id = 1",
    "forgotten memory alive": "UPDATE memory SET presence = 'live' WHERE presence = 'forgotten'",
    "forgotten memory gone": "UPDATE memory SET presence = 'gone' WHERE presence = 'forgotten'",
    "live memory gone": "UPDATE memory SET presence = 'gone' WHERE id = 1",
    "another memory's text": "UPDATE memory SET content_hash = (SELECT min(hash) FROM content"
    " WHERE hash <> memory.content_hash) WHERE id = 1",
    "confidence": "UPDATE usage SET confidence = '0.95' WHERE validation_count > 0",
    "validations": "UPDATE usage SET validation_count = 5 WHERE validation_count > 0",
    "override": "INSERT OR REPLACE INTO override VALUES (1, '{\"tier\": \"deprecated\"}')",
    "link strength": "UPDATE link SET strength = 0.1 WHERE origin = 'hand'",
    "link gone": "DELETE FROM link WHERE origin = 'hand'",
    "link made": "INSERT INTO link (source_id, target_id, relation, strength, evidence, origin)"
    " VALUES (2, 1, 'caused', 1, '', 'hand')",
    "history actor": "UPDATE history SET actor = 'system' WHERE sequence = 4",
    "history time": "UPDATE history SET at = at + 1 WHERE sequence = 4",
    "history event": "UPDATE history SET event = 'ADD' WHERE sequence = 4",
    "history before": "UPDATE history SET before = replace(before, 'normal', 'critical') WHERE sequence = 4",
    "history after": "UPDATE history SET after = replace(after, 'critical', 'important') WHERE sequence = 4",
    "history session": "UPDATE history SET session = 'x' WHERE sequence = 4",
    "history folder": "UPDATE history SET spec_folder = 'x' WHERE sequence = 4",
    "history memory": "UPDATE history SET memory_id = 2 WHERE sequence = 1",
    "history hash": "UPDATE history SET hash_after = NULL WHERE sequence = 1",
    "history dropped": "DELETE FROM history WHERE sequence = 5",
    "history added": "INSERT INTO history (memory_id, event, actor, at) VALUES (1, 'UPDATE', 'user', 0)",
    "history doubled": f"INSERT INTO history ({rows.HISTORY}, ledger_sequence)"
    f" SELECT {rows.HISTORY}, ledger_sequence FROM history WHERE sequence = 2",
    "history of no entry": "UPDATE history SET ledger_sequence = 999 WHERE sequence = 2",
    "history unnumbered": "UPDATE history SET ledger_sequence = NULL WHERE sequence = 2",
    "history moved": "UPDATE history SET sequence = 900 WHERE sequence = 1",
    "memory made": f"INSERT INTO memory (path, {COLUMNS}) SELECT 'memory/x.md', {COLUMNS} FROM memory WHERE id = 1",
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_row_is_found_although_the_chain_holds(workspace: Workspace, edit: str) -> None:
    assert workspace.health(full=True).healthy, workspace.health(full=True).problems
    tamper(workspace, EDITS[edit])
    assert workspace.ledger_verify().ok
    health = workspace.health(full=True)
    assert not health.healthy
    messages = [problem["message"] for problem in health.problems if problem["check"] == "record"]
    assert messages, health.problems
    assert not any("_" in message.removeprefix("the link") for message in messages), "named as answers name them"


def test_a_broken_chain_names_its_entry_and_no_count_of_what_was_not_read(workspace: Workspace) -> None:
    tamper(workspace, "UPDATE ledger SET reason = 'another' WHERE sequence = 2")
    assert workspace.ledger_verify().summary.startswith("the chain breaks at entry 2: entry 2 was altered")


def test_an_edited_text_is_found_and_its_memory_named(place: Place, workspace: Workspace) -> None:
    other = zlib.compress(b"# Broker\n\nThe message broker is Kafka.\n")
    broker = place.id_of(workspace, "broker")
    hash_ = workspace._runtime.store.documents.get(broker).content_hash
    tamper(workspace, f"UPDATE content SET text = x'{other.hex()}' WHERE hash = '{hash_}'")
    (problem,) = (item for item in workspace.health(full=True).problems if item["check"] == "record")
    assert f"memory {broker} " in problem["message"]


@pytest.mark.parametrize("blob", ["x'00'", "x''", "x'789c'", "'text'"])
def test_a_text_that_cannot_be_unpacked_is_found(workspace: Workspace, blob: str) -> None:
    tamper(workspace, f"UPDATE content SET text = {blob} WHERE hash = (SELECT min(hash) FROM content)")
    assert not workspace.health(full=True).healthy


def test_many_findings_are_cut_short(place: Place, workspace: Workspace) -> None:
    for number in range(30):
        place.memory(f"many-{number}", f"# Many {number}\n\nNumber {number} of many.")
    workspace.index()
    tamper(workspace, "UPDATE memory SET tier = 'important'")
    results = [problem["message"] for problem in workspace.health(full=True).problems if problem["check"] == "record"]
    assert len(results) == 21
    assert results[-1].startswith("and ")


# --- the head that was kept


def test_a_kept_head_is_found_again_and_again(workspace: Workspace) -> None:
    heads = [workspace.ledger_head().summary]
    workspace.update(workspace.list().memories[0].id, title="Later")
    heads.append(workspace.ledger_head().summary)
    for line in (*heads, "\n".join(heads), f"  {heads[0]}\n\n", "0 " + "0" * 64):
        answer = workspace.ledger_verify(head=line)
        assert answer.ok, answer.summary
        assert "kept" in answer.summary
    assert workspace.ledger_verify().ok


def test_a_cut_tail_is_found_by_the_history_that_is_still_there(workspace: Workspace) -> None:
    entries = workspace.ledger_head().entries
    tamper(workspace, f"DELETE FROM ledger WHERE sequence > {entries - 2}")
    answer = workspace.ledger_verify()
    assert (answer.ok, answer.broken_at) == (False, entries - 1)
    assert answer.summary.endswith(f"the end is missing: history has a change of entry {entries}")


def test_a_tail_that_was_cut_with_its_history_is_found_by_the_head(workspace: Workspace) -> None:
    head = workspace.ledger_head()
    last = head.entries - 2
    tamper(
        workspace,
        f"DELETE FROM ledger WHERE sequence > {last}",
        f"DELETE FROM history WHERE ledger_sequence > {last}",
    )
    assert workspace.ledger_verify().ok
    answer = workspace.ledger_verify(head=head.summary)
    assert (answer.ok, answer.broken_at) == (False, head.entries - 1)
    assert str(head.entries) in answer.summary
    assert not workspace.health(full=True).healthy  # the memories are still there


def test_a_ledger_that_was_emptied_is_found_by_the_head(workspace: Workspace) -> None:
    head = workspace.ledger_head()
    tamper(workspace, "DELETE FROM ledger", "DELETE FROM history")
    assert workspace.ledger_verify().ok
    assert not workspace.ledger_verify(head=head.summary).ok
    assert not workspace.health(full=True).healthy


def test_a_ledger_rewritten_with_new_hashes_is_found_by_the_head(workspace: Workspace) -> None:
    head = workspace.ledger_head()
    entries = list(workspace._runtime.whole.record.ledger())
    previous, statements = ledger.GENESIS, []
    for entry in entries:
        changed = replace(entry, actor="system", previous=previous) if entry.sequence >= 2 else entry
        sealed = ledger.seal(replace(changed, hash=""))
        previous = sealed.hash
        statements.append(
            f"UPDATE ledger SET actor = '{sealed.actor}', previous = '{sealed.previous}', hash = '{sealed.hash}'"
            f" WHERE sequence = {sealed.sequence}"
        )
    tamper(workspace, *statements)
    assert workspace.ledger_verify().ok
    answer = workspace.ledger_verify(head=head.summary)
    assert (answer.ok, answer.broken_at) == (False, head.entries)
    assert "rewritten" in answer.summary


@pytest.mark.parametrize(
    "line", ["", "12", "x " + "0" * 64, "3 " + "g" * 64, "3 " + "0" * 63, "-1 " + "0" * 64, "3;" * 40]
)
def test_what_is_no_head_is_refused(workspace: Workspace, line: str) -> None:
    if not line:
        assert workspace.ledger_verify(head=line).ok  # as if left out
        return
    with pytest.raises(BadParameter, match="head"):
        workspace.ledger_verify(head=line)


# --- another program


def spelled(value: object) -> str:
    """Canonical JSON by the page's words alone."""
    escapes = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return '"' + "".join(escapes.get(c, c if c >= " " else f"\\u{ord(c):04x}") for c in value) + '"'
    if isinstance(value, list):
        return "[" + ",".join(map(spelled, value)) + "]"
    assert isinstance(value, dict)
    return "{" + ",".join(f"{spelled(name)}:{spelled(value[name])}" for name in sorted(value)) + "}"


def verified(lines: Iterator[str], history: dict[int, list[dict[str, object]]]) -> tuple[int, str]:
    """An independent verifier of the chain, and of the history rows that its entries vouch for."""
    previous, count = "0" * 64, 0
    for count, line in enumerate(lines, start=1):
        entry = json.loads(line)
        own = entry.pop("hash")
        assert (entry["sequence"], entry["previous"]) == (count, previous)
        assert hashlib.sha256(spelled(entry).encode()).hexdigest() == own
        if entry.get("version") == 2:
            assert hashlib.sha256(spelled(history[count]).encode()).hexdigest() == entry["history"]
        previous = own
    return count, previous


def history_rows(workspace: Workspace) -> dict[int, list[dict[str, object]]]:
    names = rows.HISTORY.split(", ")
    connection = apsw.Connection(str(workspace.settings.index_path))
    found: dict[int, list[dict[str, object]]] = {}
    for sequence, *values in connection.execute(
        f"SELECT ledger_sequence, {rows.HISTORY} FROM history ORDER BY sequence"
    ):
        found.setdefault(int(str(sequence)), []).append(dict(zip(names, values, strict=True)))
    connection.close()
    return found


def test_an_export_is_verified_by_a_program_that_knows_only_the_page(workspace: Workspace, place: Place) -> None:
    workspace.checkpoint_create("c")
    workspace.update(place.id_of(workspace, "tokens"), title='Quote " and \\ and\ttab')
    place.clock.pass_(minutes=1)
    workspace.checkpoint_restore("c", clear_existing=True, restore_files=True)
    workspace.undo()
    head = workspace.ledger_head()
    assert verified(workspace.ledger_export(), history_rows(workspace)) == (head.entries, head.head)


def test_the_page_names_every_field_of_an_entry_of_a_history_row_and_of_an_operation(workspace: Workspace) -> None:
    page = (Path(__file__).parents[2] / "docs" / "explain" / "ledger.md").read_text(encoding="utf-8")
    entries = [json.loads(line) for line in workspace.ledger_export()]
    names = {name for entry in entries for name in entry} | set(rows.HISTORY.split(", "))
    assert {name for name in names if f"`{name}`" not in page} == set()
    kinds = {entry["operation"]["kind"] for entry in entries if entry["operation"]}
    assert {kind for kind in kinds if kind not in page} == set()


def test_an_isolated_session_exports_a_whole_chain_without_what_is_anothers(place: Place) -> None:
    place.write("memory/users/ann/plan.md", "# Plan of ann\n\nSecret of ann.\n")
    place.write("memory/users/bob/plan.md", "# Plan of bob\n\nSecret of bob.\n")
    place.memory("shared", "# Shared\n\nFor both.")
    place.open()
    ann = place.open(index=False, isolation=Isolation(user_id="ann"))
    lines = list(ann.ledger_export())
    assert not any("bob" in line for line in lines)
    entries = [json.loads(line) for line in lines]
    assert [entry["sequence"] for entry in entries] == list(range(1, len(entries) + 1))
    assert {frozenset(entry) for entry in entries if "type" not in entry} == {
        frozenset(("sequence", "previous", "hash"))
    }
    for before, after in pairwise(entries):
        assert after["previous"] == before["hash"]
    head = ann.ledger_head()
    assert (head.entries, head.head) == (len(entries), entries[-1]["hash"])
    assert ann.ledger_verify(head=head.summary).ok
