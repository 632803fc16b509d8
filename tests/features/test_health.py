"""Each fault is planted in a workspace; health finds it, and repair mends what can be mended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import apsw
import pytest

from spec_kit_memory.core import tiers
from spec_kit_memory.core.memory import Session
from spec_kit_memory.embed.hashing import HashingEmbedder
from spec_kit_memory.files.locks import Lock
from spec_kit_memory.index.sqlite import maintenance
from spec_kit_memory.settings import Settings
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place

TOKENS = "# Login tokens\n\nAccess tokens live fifteen minutes."
BROKER = "# Broker\n\nThe message broker is Mosquitto."


def plant(workspace: Workspace, *statements: str) -> None:
    """Write past the product, as a fault would."""
    connection = apsw.Connection(str(workspace.settings.index_path))
    connection.execute("PRAGMA foreign_keys = OFF")
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()


def wrong(workspace: Workspace) -> set[str]:
    return {problem["check"] for problem in workspace.health().problems}


@pytest.fixture
def workspace(place: Place) -> Workspace:
    place.memory("tokens", TOKENS, triggers="[login token]")
    place.memory("broker", BROKER)
    workspace = place.open()
    workspace.link(1, 2, "supports")
    return workspace


def _text_index(workspace: Workspace, place: Place) -> None:
    plant(workspace, "DELETE FROM passage_fts WHERE rowid = 1")


def _vectors_missing(workspace: Workspace, place: Place) -> None:
    plant(workspace, "DELETE FROM token_state", "DELETE FROM vector WHERE id = 1")


def _false_success(workspace: Workspace, place: Place) -> None:
    plant(workspace, "UPDATE passage SET vector_id = NULL")


def _row_without_file(workspace: Workspace, place: Place) -> None:
    (place.root / "specs/001-core/memory/tokens.md").unlink()


def _orphaned_link(workspace: Workspace, place: Place) -> None:
    plant(
        workspace,
        "INSERT INTO link (source_id, target_id, relation, strength, evidence, origin)"
        " VALUES (1, 999, 'caused', 1, '', 'hand')",
    )


def _old_session(workspace: Workspace, place: Place) -> None:
    workspace._runtime.store.record.change_session("old", lambda _: Session("old"), place.clock() - timedelta(days=31))


def _lost_passages(workspace: Workspace, place: Place) -> None:
    plant(workspace, "DELETE FROM passage WHERE memory_id = 1", "DELETE FROM passage_fts WHERE rowid = 1")


def _forged_trigger(workspace: Workspace, place: Place) -> None:
    plant(workspace, "INSERT INTO \"trigger\" (memory_id, phrase) VALUES (1, 'anything at all')")


def _lost_triggers(workspace: Workspace, place: Place) -> None:
    workspace.update(1, trigger_phrases=["token storage"])
    plant(workspace, 'DELETE FROM "trigger"')


FAULTS: dict[str, tuple[Callable[[Workspace, Place], None], str]] = {
    "text index out of step": (_text_index, "text index"),
    "vectors missing": (_vectors_missing, "vectors"),
    "embedded in name only": (_false_success, "vectors"),
    "a row without its file": (_row_without_file, "stale rows"),
    "a link with one end": (_orphaned_link, "links"),
    "a session that nobody uses": (_old_session, "sessions"),
    "passages lost": (_lost_passages, "text index"),
    "a trigger phrase that the memory does not have": (_forged_trigger, "text index"),
    "trigger phrases lost": (_lost_triggers, "text index"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_and_mended(workspace: Workspace, place: Place, fault: str) -> None:
    assert workspace.health().healthy
    planted, check = FAULTS[fault]
    planted(workspace, place)
    answer = workspace.health()
    assert answer.healthy is (check == "sessions")  # an old session is worth a word, and no fault
    assert check in {problem["check"] for problem in answer.problems}
    assert answer.checks[check] != "ok"
    assert all(problem["hint"] for problem in answer.problems)
    mended = workspace.health(repair=True)
    assert mended.healthy, mended.problems
    assert mended.checks[check] == "ok"
    assert mended.repaired
    assert workspace.ledger_verify().ok
    if fault != "a row without its file":
        assert workspace.search("access tokens").results[0].title == "Login tokens"
        assert workspace.search("access tokens", mode="vector").results


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM link WHERE origin = 'file'",
        "DELETE FROM link WHERE origin = 'spec'",
        "UPDATE link SET strength = 0.1 WHERE origin = 'file'",
        "UPDATE link SET strength = 0.1 WHERE origin = 'spec'",
        "UPDATE link SET relation = 'contradicts' WHERE origin = 'file'",
        "UPDATE link SET relation = 'contradicts' WHERE origin = 'spec'",
        "UPDATE link SET origin = 'file' WHERE origin = 'spec'",
        "UPDATE link SET source_id = target_id, target_id = source_id WHERE origin <> 'hand'",
        "INSERT INTO link (source_id, target_id, relation, strength, evidence, origin)"
        " VALUES (1, 2, 'contradicts', 1, '', 'spec')",
        "INSERT INTO link (source_id, target_id, relation, strength, evidence, origin)"
        " VALUES (1, 2, 'contradicts', 1, '', 'file')",
    ],
)
def test_derived_links_are_compared_with_what_they_follow_from(place: Place, statement: str) -> None:
    place.memory("tokens", TOKENS)
    place.memory("broker", BROKER)
    place.memory(
        "queue", "# Queue\n\nMessages wait in a queue.", causal_links="{caused_by: [broker.md], supports: [nowhere]}"
    )
    for name in ("spec.md", "plan.md", "tasks.md"):
        (place.root / "specs/001-core" / name).write_text(f"# {name}\n\nAbout {name}.\n", encoding="utf-8")
    workspace = place.open()
    broker, queue = place.id_of(workspace, "broker"), place.id_of(workspace, "queue")
    workspace.link(queue, broker, "supports")
    before = {(link.key, link.strength, link.origin) for link in workspace._runtime.store.record.links()}
    assert len(before) == 4
    assert workspace.health(full=True).checks["links"] == "ok"
    plant(workspace, statement)
    found = workspace.health(full=True)
    assert "links" in {problem["check"] for problem in found.problems}
    mended = workspace.health(repair=True)
    assert mended.checks["links"] == "ok", mended.problems
    assert {(link.key, link.strength, link.origin) for link in workspace._runtime.store.record.links()} == before


def test_deleted_and_moved_files_do_not_stay(place: Place) -> None:
    """Elsewhere 183 stale rows and 3,035 orphaned links had gathered."""
    for number in range(6):
        place.memory(f"n{number}", f"# Note {number}\n\nText of note {number}.")
    workspace = place.open()
    for number in range(1, 6):
        workspace.link(1, number + 1, "caused")
    (place.root / "specs/001-core/memory/n1.md").unlink()
    (place.root / "specs/001-core/memory/n2.md").rename(place.root / "specs/001-core/memory/moved.md")
    workspace.index()
    paths = {card.path for card in workspace.list().memories}
    assert len(paths) == 5
    assert all((place.root / path).exists() for path in paths)
    assert workspace.stats().links["total"] == 4
    assert workspace.stats().links["orphans"] == 0
    assert workspace.health().healthy


def test_a_broken_ledger_is_reported_and_never_mended(workspace: Workspace) -> None:
    plant(
        workspace,
        "DROP TRIGGER ledger_is_append_only_update",
        "UPDATE ledger SET reason = 'nothing happened' WHERE sequence = 2",
    )
    for repair in (False, True):
        answer = workspace.health(repair=repair)
        assert not answer.healthy
        assert "entry 2" in answer.checks["ledger"]
    assert workspace.ledger_verify().broken_at == 2


def test_records_refuse_to_be_changed(workspace: Workspace) -> None:
    connection = apsw.Connection(str(workspace.settings.index_path))
    for statement in (
        "UPDATE ledger SET reason = 'x'",
        "DELETE FROM ledger WHERE sequence = 1",
        "UPDATE history SET actor = 'x'",
        "DELETE FROM history",
    ):
        with pytest.raises(apsw.ConstraintError, match="append-only"):
            connection.execute(statement)
    connection.close()


def test_a_damaged_checkpoint_is_reported(workspace: Workspace, place: Place) -> None:
    workspace.checkpoint_create("one")
    next((place.root / ".spec-kit-memory/checkpoints").glob("*.gz")).write_bytes(b"damaged")
    assert wrong(workspace) == {"checkpoints"}


def test_a_process_at_work_is_named_and_is_no_fault(workspace: Workspace, place: Place) -> None:
    with Lock(workspace.settings, "embed.lock") as lock:
        assert lock.acquire()
        (place.root / ".spec-kit-memory/embed.lock").write_text("4242", encoding="utf-8")
        answer = workspace.health()
    assert "4242" in answer.checks["locks"]
    assert answer.healthy


def test_repair_of_a_sound_workspace_changes_nothing(workspace: Workspace) -> None:
    before = workspace.ledger_head().head
    answer = workspace.health(repair=True)
    assert answer.healthy
    assert answer.repaired == {}
    assert workspace.ledger_head().head == before


def test_what_is_worth_a_look_is_counted_and_no_fault(place: Place) -> None:
    place.memory("odd", "---\ntier: urgent\n---\n# Odd\n\nText.")
    answer = place.open().health()
    assert (answer.healthy, answer.summary) == (True, "healthy, with 1 notice")


def test_a_file_that_no_search_can_find_is_a_fault(place: Place) -> None:
    bad = place.write("specs/001-core/memory/latin.md", "x")
    bad.write_bytes(b"caf\xe9")
    workspace = place.open()
    answer = workspace.health()
    assert (answer.healthy, answer.summary) == (False, "1 problem")
    assert bad.name in answer.problems[0].message
    bad.write_text("café", encoding="utf-8")
    assert workspace.health(repair=True).healthy


def test_vectors_of_another_size_are_a_problem_until_they_are_made_anew(place: Place) -> None:
    for name in ("one", "two"):
        place.memory(name, f"# {name}\n\nThe text of {name}.")
    place.open().close()
    size = HashingEmbedder().dimensions
    other = Workspace(Settings(root=place.root), embedder=HashingEmbedder(dimensions=64), now=place.clock)
    place.opened.append(other)
    (problem,) = other.health().problems
    text = f"the index has vectors of {HashingEmbedder.name} with {size} dimensions, not with 64"
    assert (problem.check, problem["message"]) == ("meaning", text)
    assert text in str(other.search("text of one").unavailable[0])
    other.index()
    assert other.health().healthy
    assert other.search("text of one").method == "hybrid"


def test_a_repair_is_not_offered_for_vectors_that_cannot_be_made(place: Place) -> None:
    place.memory("one", "# One\n\nThe text of one.")
    workspace = place.open(model="openai", index=False)
    summary = workspace.index().summary
    again = workspace.index().summary
    assert "nothing to do" not in summary + again
    assert "without all vectors" in again
    health = workspace.health()
    assert {problem.check for problem in health.problems} == {"meaning", "pending vectors"}
    assert not any("repair" in hint for hint in health.hints)


def test_problems_and_notices_are_counted_apart_and_all_of_them(place: Place) -> None:
    place.write("specs/001-core/memory/latin.md", "x").write_bytes(b"caf\xe9")
    for number in range(25):
        place.write(f".spec-kit-memory/checkpoints/bad{number}.jsonl.gz", "nonsense")
    place.memory("odd", "---\ntier: urgent\n---\n# Odd\n\nText.")
    answer = place.open().health()
    assert answer.summary == "26 problems and 1 notice"
    assert [problem.notice for problem in answer.problems if problem.check == "file warnings"] == [True]
    assert [problem.notice for problem in answer.problems if problem.check == "bad files"] == [False], "not searchable"
    assert not any(problem.notice for problem in answer.problems if problem.check == "checkpoints")


def test_health_of_a_large_index_is_quick_and_says_so_and_full_on_request(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "LARGE", 0)
    monkeypatch.setattr(maintenance, "SECONDS", 0.0)
    plant(workspace, "DELETE FROM passage_fts WHERE rowid = 1")
    quick = workspace.health()
    assert quick.healthy
    assert str(quick.checks["text index"]) == "ok as far as a quick look goes"
    assert any("health(full=True)" in hint for hint in quick.hints)
    full = workspace.health(full=True)
    assert not full.healthy
    assert full.checks["integrity"] == "ok"
    mended = workspace.health(repair=True)
    assert (mended.healthy, mended.checks["text index"], mended.hints) == (True, "ok", ())


def test_only_files_that_are_gone_make_stale_rows(workspace: Workspace, place: Place) -> None:
    """A folder is listed once; what a listing does not show plainly is still asked for."""
    folder = place.root / "specs/001-core/memory"
    (folder / "tokens.md").rename(place.root / "elsewhere.md")
    (folder / "tokens.md").symlink_to(place.root / "elsewhere.md")
    assert wrong(workspace) == {"files"}, "a scan would call it by the path that it leads to"
    (place.root / "elsewhere.md").unlink()
    (folder / "broker.md").unlink()
    messages = [p["message"] for p in workspace.health().problems if p["check"] == "stale rows"]
    assert messages == [
        "specs/001-core/memory/broker.md is indexed, but its file is gone",
        "specs/001-core/memory/tokens.md is indexed, but its file is gone",
    ]


def test_statistics_are_those_of_all_memories_one_by_one(place: Place) -> None:
    """They are counted where they are kept; reading each memory must come to the same."""
    front = [("critical", "2026-02-28"), ("normal", "2025-11-01"), ("temporary", "2026-01-10"), ("normal", None)]
    for number, (tier, created) in enumerate(front * 2):
        dated = {"created": created} if created else {}
        folder = ("001-core", "002-more", "z_archive/003-old")[number % 3]
        place.memory(f"n{number}", f"# Note {number}\n\nText {number}.", folder=folder, tier=tier, **dated)
    place.write("memory/loose.md", "# Loose\n\nOf no folder.\n")
    workspace = place.open()
    workspace.link(1, 2, "supports")
    workspace.load(3)
    for days in (0, 20, 60, 200):
        place.clock.pass_(days=days)
        runtime, answer = workspace._runtime, workspace.stats(folder_ranking="composite", limit=50)
        memories = runtime.store.documents.find()
        assert answer.states == dict(Counter(runtime.state(memory).value for memory in memories))
        assert answer.tiers == dict(Counter(memory.tier.value for memory in memories))
        assert answer.sources == dict(Counter(memory.source.value for memory in memories))
        assert answer.links["coverage"] == round(2 / len(memories), 4)
        folders = {
            folder: [m for m in memories if m.spec_folder == folder] for folder in {m.spec_folder for m in memories}
        }
        folders.pop(None)
        assert {row["name"]: row["count"] for row in answer.folders} == {n: len(g) for n, g in folders.items()}
        for row in answer.folders:
            group = folders[row["name"]]
            assert row["newest"] == max(m.attributes.created_at or m.updated_at for m in group)
            assert row["importance"] == round(sum(tiers.TABLE[m.tier].weight for m in group) / len(group), 4)
