"""Does every change leave exactly its trace, and only changes?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from spec_kit_memory.core import ledger, operation
from spec_kit_memory.core.citations import Citations, CitedFile
from spec_kit_memory.core.memory import (
    Actor,
    Attention,
    Change,
    Event,
    Filter,
    Link,
    LinkClaim,
    Origin,
    Relation,
    Scope,
    Session,
    Stamp,
    Tier,
)
from spec_kit_memory.core.operation import FileChange
from spec_kit_memory.errors import BadParameter, MemoryNotFound, OutOfRange, SelfLink
from spec_kit_memory.index.contract import BadFile, Index
from tests.index.material import BY_USER, NOON, change, embed_all, entry, sha

MUTATIONS: dict[str, tuple[Callable[[Index], object], str, Event]] = {
    "new file": (lambda s: s.documents.put(entry("memory/c.md", "third"), BY_USER), "create", Event.ADD),
    "changed file": (lambda s: s.documents.put(entry("memory/a.md", "other"), BY_USER), "update", Event.UPDATE),
    "several attributes": (
        lambda s: s.documents.put(
            entry("memory/a.md", "first", title="T", tier=Tier.CRITICAL, triggers=["x y"]), BY_USER
        ),
        "update",
        Event.UPDATE,
    ),
    "same file": (lambda s: s.documents.put(entry("memory/a.md", "first"), BY_USER), "reindex", Event.UPDATE),
    "copy": (lambda s: s.documents.put(entry("memory/c.md", "first"), BY_USER), "merge", Event.UPDATE),
    "vanished": (lambda s: s.documents.vanish("memory/a.md", BY_USER), "delete", Event.DELETE),
    "forgotten": (lambda s: s.documents.forget(1, BY_USER), "delete", Event.DELETE),
    "override": (lambda s: s.record.amend(1, BY_USER, overrides={"weight": 0.9, "title": "N"}), "update", Event.UPDATE),
    "outdated": (lambda s: s.record.amend(1, BY_USER, outdated=True), "archive", Event.UPDATE),
    "not outdated": (lambda s: s.record.amend(1, BY_USER, outdated=False), "update", Event.UPDATE),
    "trust": (lambda s: s.record.amend(1, BY_USER, vouched=True), "update", Event.UPDATE),
    "validated": (lambda s: s.record.amend(1, BY_USER, validation=(Decimal("0.6"), 1)), "update", Event.UPDATE),
    "link": (lambda s: s.record.put_link(Link(0, 1, 2, Relation.CAUSED), BY_USER), "update", Event.UPDATE),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_change_leaves_one_entry_in_each_record_and_a_new_generation(store: Index, name: str) -> None:
    store.documents.put(entry("memory/a.md", "first"), BY_USER)
    store.documents.put(entry("memory/b.md", "second"), BY_USER)
    before = (len(list(store.record.ledger())), len(store.record.history()), store.generation())
    act, kind, event = MUTATIONS[name]
    act(store)
    written = list(store.record.ledger(after=before[0]))
    assert [str(one.type) for one in written] == [kind]
    assert written[0].actor == "user"
    assert written[0].reason == "test"
    newest = store.record.history(limit=len(store.record.history()) - before[1])
    assert [one.event for one in newest] == [event]
    assert store.generation() > before[2]
    assert ledger.verify(store.record.ledger()) is None
    assert next(store.record.ledger(last=True), None) == written[0]


NO_MUTATIONS: dict[str, Callable[[Index], object]] = {
    "use": lambda s: s.record.use({1: 1.0, 999: 1.0}, NOON),
    "stamps": lambda s: s.documents.scanned({"memory/a.md": Stamp(1, 1, 1)}),
    "session": lambda s: s.record.change_session("s", lambda _: Session("s"), NOON),
    "bad file": lambda s: s.documents.scanned(bad=[BadFile("memory/x.md", "E012", "no text", NOON)]),
    "reading": lambda s: (
        s.documents.find(),
        s.documents.match(["first"], Filter(), 5),
        s.record.links(),
        s.care.stats(),
        s.record.history(),
    ),
}


@pytest.mark.parametrize("name", NO_MUTATIONS)
def test_what_only_counts_leaves_no_entry_and_no_generation(store: Index, name: str) -> None:
    store.documents.put(entry("memory/a.md", "first"), BY_USER)
    before = (list(store.record.ledger()), store.record.history(), store.generation())
    NO_MUTATIONS[name](store)
    assert (list(store.record.ledger()), store.record.history(), store.generation()) == before


def test_history_shows_what_it_was_and_what_it_is(store: Index) -> None:
    store.documents.put(entry("memory/a.md", "first", spec_folder="001-a"), BY_USER)
    later = Change(Actor.HOOK, NOON + timedelta(hours=1), session="s1", reason="why")
    store.documents.put(entry("memory/a.md", "second", spec_folder="001-a", tier=Tier.CRITICAL), later)
    newest = store.record.history(1)[0]
    assert (newest.event, newest.actor, newest.at, newest.spec_folder) == (Event.UPDATE, Actor.HOOK, later.at, "001-a")
    assert newest.before is not None
    assert newest.after is not None
    assert (newest.before["content_hash"], newest.after["content_hash"]) == (sha("first"), sha("second"))
    assert (newest.before["tier"], newest.after["tier"]) == ("normal", "critical")
    assert newest.after["path"] == "memory/a.md"
    assert store.documents.text(content_hash=sha("first")) == "first", "the text of then can still be read"


def test_history_outlives_its_memory(store: Index) -> None:
    store.documents.put(entry("memory/a.md", "first"), BY_USER)
    store.documents.forget(1, change(minutes=1))
    events = [one.event for one in store.record.history(1)]
    assert events == [Event.DELETE, Event.ADD]
    last = store.record.history(1)[0]
    assert last.before is not None
    assert (last.before["title"], last.after) == ("memory/a.md", None)


def test_history_is_found_by_folder_and_limited(store: Index) -> None:
    store.documents.put(entry("specs/001-a/memory/x.md", "a", spec_folder="001-a"), BY_USER)
    store.documents.put(entry("specs/002-b/memory/x.md", "b", spec_folder="002-b"), BY_USER)
    assert [one.memory_id for one in store.record.history(spec_folder="002-b")] == [2]
    assert [one.memory_id for one in store.record.history(limit=1)] == [2]
    assert store.record.history(spec_folder="001-a", limit=9) == store.record.history(spec_folder="001-a")
    with pytest.raises(MemoryNotFound):
        store.record.history(77)


def test_the_memories_that_name_files_are_found(store: Index) -> None:
    for number in range(1, 5):
        store.documents.put(entry(f"memory/{number}.md", f"text {number}"), BY_USER)
    files = (CitedFile("src/login.py", "a" * 64, 3, ""),)
    named = {1: files, 2: (), 3: files}
    store.documents.scanned(cited={id_: Citations(sha(f"text {id_}")[:16], of) for id_, of in named.items()})
    citing = Filter(cites=True)
    assert sorted(memory.id for memory in store.documents.find(citing)) == [1, 3]
    store.documents.forget(3, BY_USER)
    assert [memory.id for memory in store.documents.find(citing)] == [1]
    assert store.within(Scope(prefixes=("specs",))).documents.find(citing) == []


def test_an_entry_carries_its_operation_and_its_history_row_names_it(store: Index) -> None:
    scan = operation.Reindex()
    store.documents.put(entry("memory/a.md", "first"), change_with(scan))
    gone = operation.Delete(path="memory/a.md", files=(FileChange("memory/a.md", before="x", trash="trash/d/a.md"),))
    assert not store.record.is_committed(gone.id)
    store.documents.forget(1, change_with(gone))
    created, deleted = store.record.ledger()
    assert operation.read(created.operation or {}) == operation.Create(id=scan.id, path="memory/a.md")
    assert operation.read(deleted.operation or {}) == gone
    assert (created.version, created.presence, deleted.presence) == (ledger.VERSION, "live", "forgotten")
    assert [one.ledger_sequence for one in store.record.history()] == [2, 1]
    assert [one.event for one in store.record.history(ledger=[2])] == [Event.DELETE]
    assert store.record.is_committed(scan.id)
    assert store.record.is_committed(gone.id)


def test_an_operation_that_was_rolled_back_is_not_committed(store: Index) -> None:
    store.documents.put(entry("memory/a.md", "first"), BY_USER)
    gone = operation.Delete(path="memory/a.md")

    def forget_two() -> None:
        with store.together():
            store.documents.forget(1, change_with(gone))
            store.documents.forget(99, change_with(gone))

    with pytest.raises(MemoryNotFound):
        forget_two()
    assert not store.record.is_committed(gone.id)


def test_a_scan_says_what_became_of_each_file(store: Index) -> None:
    scan = change_with(operation.Reindex())
    store.documents.put(entry("memory/a.md", "first"), scan)
    store.documents.put(entry("memory/a.md", "first"), scan)
    store.documents.put(entry("memory/copy.md", "first"), scan)
    store.documents.put(entry("memory/b.md", "first"), scan, memory_id=1)
    store.documents.vanish("memory/copy.md", scan)
    store.documents.vanish("memory/b.md", scan)
    store.documents.put(entry("memory/b.md", "first"), scan)
    kinds = [operation.read(one.operation or {}).kind for one in store.record.ledger()]
    assert kinds == ["create", "reindex", "alias", "move", "alias", "vanish", "return"]
    assert {(one.operation or {})["id"] for one in store.record.ledger()} == {
        scan.operation.id if scan.operation else ""
    }


def test_names_of_any_kind_are_data_in_an_operation(store: Index) -> None:
    store.documents.put(entry("memory/a.md", "first"), BY_USER)
    for name in ("a; file in trash/b", "x\ny", '"}, {"', "before it", "größer 数 🚲", "half \ud83d", "'; DROP TABLE"):
        done = operation.Restore(checkpoint=name, safety=name, files=(FileChange(name, trash=name),))
        store.record.amend(1, change_with(done), overrides={"weight": 0.4})
        result = operation.read(next(iter(store.record.ledger(after=(head(store) - 1)))).operation or {})
        assert isinstance(result, operation.Restore)
        assert result.checkpoint == name.encode("utf-8", "replace").decode()
    assert ledger.verify(store.record.ledger()) is None


def head(store: Index) -> int:
    last = next(store.record.ledger(last=True), None)
    return last.sequence if last else 0


def change_with(done: operation.Operation) -> Change:
    return Change(Actor.USER, NOON, reason="test", operation=done)


def test_the_ledger_is_read_in_pages(store: Index) -> None:
    for number in range(5):
        store.documents.put(entry(f"memory/{number}.md", f"text {number}"), BY_USER)
    assert [one.sequence for one in store.record.ledger(after=2, limit=2)] == [3, 4]
    assert [one.memory_ids for one in store.record.ledger()] == [(1,), (2,), (3,), (4,), (5,)]


def test_text_with_half_characters_is_recorded_all_the_same(store: Index) -> None:
    store.documents.put(
        entry("memory/a.md", "plain", title="a\ud800b", triggers=["x\udfffy"]),
        Change(Actor.USER, NOON, reason="\ud800"),
    )
    assert ledger.verify(store.record.ledger()) is None
    assert store.documents.get(1).title == "a?b"


# --- use, validation


def test_use_adds_up_and_remembers_the_latest(store: Index) -> None:
    store.documents.put(entry(), BY_USER)
    store.record.use({1: 0.5}, NOON)
    store.record.use({1: 0.5}, NOON - timedelta(days=1))
    memory = store.documents.get(1)
    assert (memory.access_count, memory.last_access) == (1.0, NOON)


def test_confidence_is_exact(store: Index) -> None:
    store.documents.put(entry(), BY_USER)
    store.record.amend(1, BY_USER, validation=(Decimal("0.5") + Decimal("0.1") * 3, 3))
    memory = store.documents.get(1)
    assert (memory.confidence, memory.validation_count) == (Decimal("0.8"), 3)
    with pytest.raises(OutOfRange):
        store.record.amend(1, BY_USER, validation=(Decimal("1.1"), 4))
    with pytest.raises(MemoryNotFound):
        store.record.amend(99, BY_USER, validation=(Decimal("0.5"), 1))


# --- links


def two(store: Index) -> None:
    store.documents.put(entry("memory/a.md", "first", title="First"), BY_USER)
    store.documents.put(entry("memory/b.md", "second", title="Second"), BY_USER)


def test_a_link_is_unique_per_pair_and_relation(store: Index) -> None:
    two(store)
    made = store.record.put_link(Link(0, 1, 2, Relation.CAUSED, 0.4, "because"), BY_USER)
    again = store.record.put_link(Link(0, 1, 2, Relation.CAUSED, 0.9, "really"), change(minutes=1))
    other = store.record.put_link(Link(0, 1, 2, Relation.SUPPORTS), BY_USER)
    assert (again.id, again.strength, again.evidence, again.created_at) == (made.id, 0.9, "really", NOON)
    assert other.id != made.id
    assert [link.id for link in store.record.links()] == [made.id, other.id]
    assert store.record.drop_link(made.id, BY_USER) == again
    assert [link.id for link in store.record.links([2])] == [other.id]


def test_bad_links_are_refused(store: Index) -> None:
    two(store)
    with pytest.raises(SelfLink):
        store.record.put_link(Link(0, 1, 1, Relation.CAUSED), BY_USER)
    with pytest.raises(MemoryNotFound, match="99"):
        store.record.put_link(Link(0, 1, 99, Relation.CAUSED), BY_USER)
    with pytest.raises(OutOfRange):
        store.record.put_link(Link(0, 1, 2, Relation.CAUSED, 1.5), BY_USER)
    with pytest.raises(BadParameter, match="link 5"):
        store.record.drop_link(5, BY_USER)
    assert store.record.links() == []


def test_links_hide_with_their_ends_and_come_back(store: Index) -> None:
    two(store)
    store.record.put_link(Link(0, 1, 2, Relation.CAUSED), BY_USER)
    store.documents.vanish("memory/b.md", BY_USER)
    assert store.record.links() == []
    store.documents.put(entry("memory/b.md", "second"), BY_USER)
    assert len(store.record.links()) == 1


@pytest.mark.parametrize("target", ["1", "memory/a.md", "./memory/a.md", "a.md", "../memory/a.md", "First"])
def test_front_matter_names_its_target_in_any_way(store: Index, target: str) -> None:
    store.documents.put(entry("memory/a.md", "first", title="First"), BY_USER)
    store.documents.put(entry("memory/b.md", "second", links=[LinkClaim(Relation.SUPERSEDES, target)]), BY_USER)
    assert [(link.source_id, link.target_id, link.origin) for link in store.record.links()] == [(2, 1, Origin.FILE)]


def test_a_claim_waits_for_its_target(store: Index) -> None:
    claims = [LinkClaim(Relation.CAUSED, "Cause", inward=True, strength=0.5)]
    store.documents.put(entry("memory/b.md", "second", links=claims), BY_USER)
    assert store.record.links() == []
    store.documents.put(entry("memory/c.md", "cause", title="Cause"), BY_USER)
    assert [(link.source_id, link.target_id, link.strength) for link in store.record.links()] == [(2, 1, 0.5)]
    store.documents.put(entry("memory/c.md", "cause", title="Renamed"), change(minutes=1))
    assert store.record.links() == []
    store.record.amend(2, change(minutes=2), overrides={"title": "Cause"})
    assert len(store.record.links()) == 1


def test_a_claim_that_is_taken_out_takes_its_link_along_but_not_one_made_by_hand(store: Index) -> None:
    store.documents.put(entry("memory/a.md", "first", title="First"), BY_USER)
    claims = [LinkClaim(Relation.CAUSED, "First"), LinkClaim(Relation.SUPPORTS, "First")]
    store.documents.put(entry("memory/b.md", "second", links=claims), BY_USER)
    kept = store.record.put_link(Link(0, 2, 1, Relation.SUPPORTS, 0.3), BY_USER)
    store.documents.put(entry("memory/b.md", "second"), change(minutes=1))
    assert store.record.links() == [kept]
    assert kept.origin is Origin.HAND


def test_a_link_of_a_file_is_changed_in_the_file(store: Index) -> None:
    store.documents.put(entry("memory/a.md", "first", title="First"), BY_USER)
    store.documents.put(entry("memory/b.md", "second", links=[LinkClaim(Relation.CAUSED, "First")]), BY_USER)
    with pytest.raises(BadParameter, match="front matter"):
        store.record.drop_link(store.record.links()[0].id, BY_USER)


# --- sessions and bad files


def test_a_session_comes_back_as_it_was(store: Index) -> None:
    given = Session(
        "s1", turn=4, loading="auto", last_save_turn=2, attention=(Attention(1, 0.5, 3, "link"),), sent=frozenset({"h"})
    )
    store.record.change_session("s1", lambda _: given, NOON)
    result = store.record.session("s1")
    assert result is not None
    assert (result.turn, result.loading, result.last_save_turn, result.attention, result.sent) == (
        4, "auto", 2, given.attention, given.sent,
    )  # fmt: skip
    assert result.seen_at == NOON
    assert store.record.session("s2") is None


def test_a_session_is_changed_from_what_is_stored_and_made_if_there_is_none(store: Index) -> None:
    store.record.change_session("s1", lambda found: replace(found, turn=found.turn + 1), NOON)
    assert store.record.session("s1") == Session("s1", turn=1, seen_at=NOON)
    store.record.change_session("s1", lambda _: Session("s1", turn=4, sent=frozenset({"h"})), NOON)
    store.record.change_session("s1", lambda found: replace(found, sent=found.sent | {"i"}), NOON)
    assert store.record.session("s1") == Session("s1", turn=4, sent=frozenset({"h", "i"}), seen_at=NOON)


def test_bad_files_are_reported_until_they_are_mended(store: Index) -> None:
    store.documents.scanned(bad=[BadFile("memory/x.md", "E012", "no text", NOON)])
    assert store.care.bad_files() == [BadFile("memory/x.md", "E012", "no text", NOON)]
    store.documents.scanned(bad=[], cleared=["memory/x.md"])
    assert store.care.bad_files() == []


def test_stats_count_what_is_there(store: Index) -> None:
    two(store)
    store.documents.put(entry("memory/c.md", "third", tier=Tier.CRITICAL, triggers=["a b c"]), BY_USER)
    store.documents.forget(1, change(minutes=5))
    embed_all(store)
    stats = store.care.stats()
    assert (stats.memories, stats.forgotten, stats.gone, stats.passages) == (2, 1, 0, 2)
    assert stats.tiers == {"critical": 1, "normal": 1}
    assert stats.vectors == {"success": 2}
    assert (stats.triggers, stats.pending_passages, stats.model and stats.model.name) == (1, 0, "test-model")
    assert stats.last_indexed == change(minutes=5).at
    counts = ("memories", "gone", "forgotten", "passages", "tokens", "pending_passages", "failed_passages", "outdated")
    assert {type(getattr(stats, name)) for name in (*counts, "triggers", "aliases")} == {int}, "numpy computes so"
    assert store.care.stats(size=True).size_bytes > 0


def test_history_and_ledger_name_the_user_and_the_chain_vouches_for_it(store: Index) -> None:
    by_ana = replace(BY_USER, user="ana@local")
    store.documents.put(entry("memory/a.md", "first"), BY_USER)
    store.documents.put(entry("memory/b.md", "second"), by_ana)
    store.record.amend(1, replace(by_ana, operation=operation.Outdated()), outdated=True)
    nobody, created, outdated = store.record.ledger()
    assert [entry.operation for entry in (nobody,)] == [None]
    assert [(one.operation or {}).get("user") for one in (created, outdated)] == ["ana@local", "ana@local"]
    assert {row.ledger_sequence: row.user for row in store.record.history()} == {1: "", 2: "ana@local", 3: "ana@local"}
    assert ledger.verify(store.record.ledger()) is None
    forged = replace(outdated, operation={**(outdated.operation or {}), "user": "ben@local"})
    assert ledger.verify([nobody, created, forged]) is not None


def test_a_text_that_speaks_of_a_user_names_nobody(store: Index) -> None:
    done = operation.Update(keys=("title",), previous={"user": "eve"}, values={"user": "eve@local"})
    store.documents.put(entry("memory/a.md", "first"), BY_USER)
    store.record.amend(1, replace(BY_USER, operation=done), overrides={"title": "N"})
    assert [row.user for row in store.record.history()] == ["", ""]
