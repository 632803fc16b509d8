"""Is every planted fault found, and mended where it can be?"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from spec_kit_memory.core.memory import Event, Filter, Link, LinkClaim, Presence, Relation, Session, Source, Tier
from spec_kit_memory.index.sqlite import maintenance, soundness
from spec_kit_memory.index.sqlite.engine import SqliteIndex
from tests.index.material import BY_USER, NOON, change, embed_all, entry


def healthy(path: Path) -> SqliteIndex:
    store = SqliteIndex(path)
    for name in "abc":
        store.documents.put(
            entry(
                f"memory/{name}.md", f"words {name}\nmore {name}", title=f"Title {name}", triggers=[f"phrase {name}"]
            ),
            BY_USER,
        )
    embed_all(store)
    store.record.put_link(Link(0, 1, 2, Relation.CAUSED), BY_USER)
    store.record.change_session("s1", lambda _: Session("s1"), NOON)
    return store


def plant(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA foreign_keys = OFF")
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()


def wrong(store: SqliteIndex) -> set[str]:
    return {name for name, found in store.care.check(now=NOON).items() if found}


def words(store: SqliteIndex, check: str) -> list[str]:
    return list(map(str, store.care.check()[check]))


def test_a_sound_index_has_no_faults(tmp_path: Path) -> None:
    store = healthy(tmp_path / "index.sqlite")
    assert wrong(store) == set()
    assert store.care.repair(change(minutes=1)) == {}


LINK = "INSERT INTO link (source_id, target_id, relation, strength, evidence, origin)"
FAULTS: dict[str, tuple[str, list[str]]] = {
    "words missing": ("text index", ["DELETE FROM passage_fts WHERE rowid = 3"]),
    "stray words": ("text index", ["INSERT INTO passage_fts (rowid, title, body) VALUES (999, 'x', 'stray')"]),
    "words of something gone": (
        "text index",
        ["UPDATE memory SET presence = 'gone' WHERE id = 2", 'DELETE FROM "trigger" WHERE memory_id = 2'],
    ),
    "trigger of something gone": (
        "text index",
        [
            "UPDATE memory SET presence = 'gone' WHERE id = 2",
            "DELETE FROM passage_fts WHERE rowid IN (SELECT id FROM passage WHERE memory_id = 2)",
        ],
    ),
    "vector lost": ("vectors", ["DELETE FROM token_state WHERE vector_id = 1", "DELETE FROM vector WHERE id = 1"]),
    "vector not used": ("vectors", ["UPDATE passage SET vector_id = NULL WHERE id = 1"]),
    "vector of the wrong size": ("vectors", ["UPDATE vector SET vector = zeroblob(8) WHERE id = 2"]),
    "stray states": ("vectors", ["INSERT INTO token_state (vector_id, states) VALUES (999, x'00')"]),
    "link without an end": (
        "links",
        [f"{LINK} VALUES (1, 77, 'caused', 1, '', 'hand')"],
    ),
    "link to itself": (
        "links",
        [f"{LINK} VALUES (1, 1, 'caused', 1, '', 'hand')"],
    ),
    "old session": ("sessions", ["UPDATE session SET seen_at = 0"]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_and_mended(tmp_path: Path, name: str) -> None:
    store = healthy(tmp_path / "index.sqlite")
    kind, statements = FAULTS[name]
    plant(tmp_path / "index.sqlite", *statements)
    assert kind in wrong(store)
    assert store.care.repair(change(minutes=1))
    embed_all(store)
    # A row that was changed behind the ledger's back is reported, and a repair does not make that good.
    assert wrong(store) == ({"record"} if "presence" in statements[0] else set())
    live = [memory.id for memory in store.documents.find(order="path")]
    assert [hit.memory_id for hit in store.documents.match(["more"], Filter(), 9)] == live
    assert len(store.vectors.match([1.0, 1, 1], Filter(), 99)) == 2 * len(live)


def test_lost_passages_are_left_for_the_next_scan(tmp_path: Path) -> None:
    store = healthy(tmp_path / "index.sqlite")
    plant(tmp_path / "index.sqlite", "DELETE FROM passage_fts WHERE rowid = 3", "DELETE FROM passage WHERE id = 3")
    assert "text index" in wrong(store)
    store.care.repair(change(minutes=1))
    assert wrong(store) == {"documents"}
    assert store.documents.stored()["memory/b.md"].raw_hash == ""
    store.documents.put(entry("memory/b.md", "words b\nmore b", title="Title b"), change(minutes=2))
    assert wrong(store) == set()


def test_a_broken_ledger_is_reported_and_never_mended(tmp_path: Path) -> None:
    store = healthy(tmp_path / "index.sqlite")
    plant(
        tmp_path / "index.sqlite",
        "DROP TRIGGER ledger_is_append_only_update",
        "UPDATE ledger SET reason = 'something else' WHERE sequence = 2",
    )
    assert words(store, "ledger") == ["entry 2 was altered: its hash does not fit its content"]
    store.care.repair(change(minutes=1))
    assert store.care.check()["ledger"] != []


def test_a_foreign_key_that_points_nowhere_is_found(tmp_path: Path) -> None:
    store = healthy(tmp_path / "index.sqlite")
    plant(tmp_path / "index.sqlite", "INSERT INTO usage (memory_id) VALUES (55)")
    assert words(store, "integrity") == ["row 55 of usage points to a missing row of memory"]


def test_a_row_without_a_number_that_points_nowhere_is_told_without_one(tmp_path: Path) -> None:
    store = healthy(tmp_path / "index.sqlite")
    plant(tmp_path / "index.sqlite", "INSERT INTO \"trigger\" (memory_id, phrase) VALUES (55, 'nobody')")
    assert words(store, "integrity") == ["a row of trigger points to a missing row of memory"]
    assert words(store, "text index") == ["1 trigger phrase belongs to a memory that is gone"]


def test_repair_is_on_the_record(tmp_path: Path) -> None:
    store = healthy(tmp_path / "index.sqlite")
    plant(tmp_path / "index.sqlite", "DELETE FROM passage_fts WHERE rowid = 3")
    store.care.repair(change(minutes=1, reason="mend"))
    assert [(str(one.type), one.memory_ids, one.reason) for one in store.record.ledger()][-1] == (
        "reindex",
        (2,),
        "mend",
    )


# --- rebuild


def test_a_rebuild_keeps_what_is_recorded_and_drops_the_rest(tmp_path: Path) -> None:
    store = healthy(tmp_path / "index.sqlite")
    store.documents.put(entry("memory/d.md", "linked", links=[LinkClaim(Relation.SUPPORTS, "Title a")]), BY_USER)
    store.record.use({1: 3.0}, NOON)
    store.record.amend(2, BY_USER, overrides={"tier": Tier.CRITICAL})
    store.documents.forget(3, change(minutes=1))
    entries, generation = len(list(store.record.ledger())), store.generation()
    store.care.rebuild(BY_USER)
    assert store.generation() > generation
    # Nobody read the files: what is found until then is what was last known of them.
    assert [hit.memory_id for hit in store.documents.match(["words"], Filter(), 9)] == [1, 2]
    assert (store.documents.triggers(), store.care.bad_files()) == ([(1, "phrase a"), (2, "phrase b")], [])
    assert [link.relation for link in store.record.links()] == [Relation.CAUSED]
    assert len(list(store.record.ledger())) == entries
    assert store.documents.stored()["memory/a.md"].raw_hash == "", "its file must be read again"
    again = store.documents.put(entry("memory/a.md", "words a\nmore a", title="Title a"), change(minutes=2))
    assert (again.memory_id, again.created, again.changed) == (1, False, False)
    assert store.documents.get(1).access_count == 3.0
    store.documents.put(entry("memory/b.md", "words b\nmore b", title="Title b"), change(minutes=2))
    assert store.documents.get(2).tier is Tier.CRITICAL
    store.documents.put(
        entry("memory/d.md", "linked", links=[LinkClaim(Relation.SUPPORTS, "Title a")]), change(minutes=2)
    )
    assert {link.relation for link in store.record.links()} == {Relation.CAUSED, Relation.SUPPORTS}
    stays = store.documents.put(entry("memory/c.md", "words c\nmore c", title="Title c"), change(minutes=3))
    assert store.documents.get(stays.memory_id, any_presence=True).presence is Presence.FORGOTTEN
    embed_all(store)
    assert wrong(store) == set()


def test_conversations_survive_a_rebuild(tmp_path: Path) -> None:
    store = SqliteIndex(tmp_path / "index.sqlite")
    store.documents.put(
        entry("chat://1", "user: hello there\nassistant: hi", source=Source.CHAT, triggers=["greeting"]), BY_USER
    )
    store.record.amend(1, BY_USER, vouched=True)  # without it a conversation has no triggers
    embed_all(store)
    store.care.rebuild(BY_USER)
    assert [hit.memory_id for hit in store.documents.match(["hello"], Filter(), 9)] == [1]
    assert store.documents.triggers() == [(1, "greeting")]
    assert len(store.vectors.work(9)) == 2
    embed_all(store)
    assert wrong(store) == set()


def test_a_rebuild_makes_a_damaged_text_index_anew(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    store = healthy(path)
    plant(path, "UPDATE passage_fts_data SET block = x'ffffffffffff' WHERE id > 1")
    assert "integrity" in wrong(store)
    store.care.rebuild(BY_USER)
    for name in "abc":
        store.documents.put(
            entry(f"memory/{name}.md", f"words {name}\nmore {name}", title=f"Title {name}"), change(minutes=1)
        )
    embed_all(store)
    assert wrong(store) == set()
    assert len(store.documents.match(["words"], Filter(), 9)) == 3


def test_metadata_can_be_changed_between_rebuild_and_scan(tmp_path: Path) -> None:
    store = healthy(tmp_path / "index.sqlite")
    store.care.rebuild(BY_USER)
    store.record.amend(1, change(minutes=1), overrides={"weight": 0.9})
    store.documents.forget(2, change(minutes=1))
    store.documents.recall(2, change(minutes=2))
    assert store.documents.get(1).attributes.weight == 0.9
    assert [one.event for one in store.record.history(2)] == [Event.ADD, Event.DELETE, Event.ADD]


def test_old_sessions_are_looked_at_only_when_the_time_is_known(tmp_path: Path) -> None:
    store = healthy(tmp_path / "index.sqlite")
    assert store.care.check()["sessions"] == []
    assert store.care.check(now=NOON + timedelta(days=31))["sessions"] != []
    assert store.care.repair(change(minutes=60 * 24 * 31))["sessions"] == 1
    assert store.record.session("s1") is None


# --- a large index


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqliteIndex:
    monkeypatch.setattr(maintenance, "LARGE", 0)
    return healthy(tmp_path / "index.sqlite")


def test_a_quick_check_of_a_large_index_says_what_it_did_not_come_to(
    large: SqliteIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "SECONDS", 0.0)
    faults = large.care.check(now=NOON, quick=True)
    assert faults.pop("unfinished") == ["links", "documents", "text index", "integrity", "ledger", "vectors"]
    assert all(said == [] for said in faults.values())
    assert "unfinished" not in large.care.check(now=NOON), "without being asked to hurry, it looks at everything"


def test_a_quick_check_that_is_cut_off_in_the_middle_leaves_the_connection_usable(
    large: SqliteIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soundness, "_STEPS", 1)
    looks = iter(range(200))
    monkeypatch.setattr(soundness.Watch, "is_over", lambda watch: next(looks, None) is None)
    assert "integrity" in large.care.check(now=NOON, quick=True)["unfinished"]
    assert [memory.id for memory in large.documents.find(order="path")] == [1, 2, 3]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_quick_check_with_enough_time_finds_what_a_whole_one_finds(
    large: SqliteIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(maintenance, "SECONDS", 3600.0)
    plant(tmp_path / "index.sqlite", *FAULTS[fault][1])
    whole = large.care.check(now=NOON)
    del whole["record"]  # takes long, and only who asks for all gets it
    assert large.care.check(now=NOON, quick=True) == whole


def test_a_quick_check_finds_damage_in_single_tables(
    large: SqliteIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "SECONDS", 3600.0)
    plant(tmp_path / "index.sqlite", "UPDATE passage_fts_data SET block = x'ffffffffffff' WHERE id > 1")
    plant(tmp_path / "index.sqlite", "INSERT INTO usage (memory_id) VALUES (55)")
    faults = large.care.check(now=NOON, quick=True)
    assert "row 55 of usage points to a missing row of memory" in map(str, faults["integrity"])
    assert len(faults["integrity"]) > 1


def test_an_index_of_ordinary_size_is_always_looked_at_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "SECONDS", 0.0)
    store = healthy(tmp_path / "index.sqlite")
    plant(tmp_path / "index.sqlite", "DELETE FROM passage_fts WHERE rowid = 3")
    faults = store.care.check(now=NOON, quick=True)
    assert list(map(str, faults["text index"])) == ["1 memory has passages that are not in the text index"]
    assert "unfinished" not in faults
