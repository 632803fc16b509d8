"""Can anything get across a scope? Every verb of a view is tried from the other side."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest

from spec_kit_memory.core.memory import Filter, Link, LinkClaim, Presence, Relation, Scope, Session, Stamp
from spec_kit_memory.errors import BadParameter, MemoryNotFound, OutsideScope, SpecKitMemoryError
from spec_kit_memory.index.contract import BadFile, Index
from tests.index.material import BY_USER, NOON, embed_all, entry, sha

ANN = Scope(user="ann", prefixes=("memory/users/ann", "memory/shared"))
BOB = Scope(user="bob", prefixes=("memory/users/bob", "memory/shared"))


@pytest.fixture
def peopled(store: Index) -> Index:
    """1 is Ann's, 2 is Bob's, 3 is shared, 4 lies beside Ann's folder under a longer name."""
    store.documents.put(entry("memory/users/ann/x.md", "secret of ann", owner="ann", triggers=["ann phrase"]), BY_USER)
    store.documents.put(entry("memory/users/bob/x.md", "secret of bob", owner="bob", triggers=["bob phrase"]), BY_USER)
    store.documents.put(entry("memory/shared/x.md", "shared text", triggers=["our phrase"]), BY_USER)
    store.documents.put(entry("memory/users/anna/x.md", "secret of anna", triggers=["anna phrase"]), BY_USER)
    store.record.put_link(Link(0, 1, 3, Relation.CAUSED), BY_USER)
    store.record.put_link(Link(0, 2, 3, Relation.CAUSED), BY_USER)
    store.documents.scanned(bad=[BadFile("memory/users/bob/bad.md", "E012", "bad", NOON)])
    embed_all(store)
    return store


READS: dict[str, Callable[[Index], object]] = {
    "find": lambda s: [m.id for m in s.documents.find()],
    "count": lambda s: s.documents.count(),
    "many": lambda s: [m.id for m in s.documents.many([1, 2, 3, 4])],
    "passages": lambda s: {p.memory_id for p in s.documents.passages(list(range(1, 20)))},
    "passages of": lambda s: [len(s.documents.passages(memory_ids=[n])) for n in (1, 2, 3, 4)],
    "stored": lambda s: sorted(s.documents.stored()),
    "stored below": lambda s: sorted(s.documents.stored(below=["memory"])),
    "stored like": lambda s: sorted(
        p for n in ("ann", "bob") for p in s.documents.stored(alike=sha(f"secret of {n}")[:16])
    ),
    "alike": lambda s: [
        m.id for n in ("ann", "bob", "anna") for m in s.documents.many(fingerprint=sha(f"secret of {n}")[:16])
    ],
    "tally": lambda s: [one.count for one in s.documents.tally()],
    "triggers": lambda s: s.documents.triggers(),
    "links": lambda s: [(link.source_id, link.target_id) for link in s.record.links()],
    "links of": lambda s: [(link.source_id, link.target_id) for link in s.record.links([3])],
    "history": lambda s: sorted({h.memory_id for h in s.record.history()}),
    "ledger": lambda s: sorted({n for e in s.record.ledger() for n in e.memory_ids}),
    "bad files": lambda s: s.care.bad_files(),
    "text of": lambda s: [
        s.documents.text(content_hash=sha(t))
        for t in ("secret of ann", "secret of bob", "shared text", "secret of anna")
    ],
    "text match": lambda s: sorted({h.memory_id for h in s.documents.match(["secret", "shared"], Filter(), 50)}),
    "vector match": lambda s: sorted({h.memory_id for h in s.vectors.match([1.0, 1.0, 1.0], Filter(), 50)}),
    "token states": lambda s: len(s.vectors.token_states(list(range(1, 20)))),
    "vector work": lambda s: len(s.vectors.work(50)),
    "snapshot": lambda s: sorted(row["path"] for row in s.care.snapshot() if row["kind"] == "memory"),
    "stats": lambda s: (
        s.care.stats().memories,
        s.care.stats().passages,
        s.care.stats().triggers,
        s.care.stats().tiers,
    ),
}
SEEN_BY_ANN: dict[str, object] = {
    "find": [3, 1],
    "count": 2,
    "many": [1, 3],
    "passages": {1, 3},
    "passages of": [1, 0, 1, 0],
    "stored": ["memory/shared/x.md", "memory/users/ann/x.md"],
    "stored below": ["memory/shared/x.md", "memory/users/ann/x.md"],
    "stored like": ["memory/users/ann/x.md"],
    "alike": [1],
    "tally": [2],
    "triggers": [(1, "ann phrase"), (3, "our phrase")],
    "links": [(1, 3)],
    "links of": [(1, 3)],
    "history": [1, 3],
    "ledger": [1, 3],
    "bad files": [],
    "text of": ["secret of ann", None, "shared text", None],
    "text match": [1, 3],
    "vector match": [1, 3],
    "token states": 2,
    "vector work": 0,
    "snapshot": ["memory/shared/x.md", "memory/users/ann/x.md"],
    "stats": (2, 2, 2, {"normal": 2}),
}


@pytest.mark.parametrize("name", READS)
def test_a_view_reads_its_own_and_nothing_else(peopled: Index, name: str) -> None:
    assert READS[name](peopled.within(ANN)) == SEEN_BY_ANN[name]


@pytest.mark.parametrize("name", READS)
def test_an_empty_list_of_paths_sees_nothing(peopled: Index, name: str) -> None:
    result = READS[name](peopled.within(Scope(prefixes=())))
    assert result in ([], 0, set(), [0, 0, 0, 0], [None] * 4, (0, 0, 0, {}))


@pytest.mark.parametrize("name", READS)
def test_the_handle_as_opened_sees_the_whole_workspace(peopled: Index, name: str) -> None:
    assert READS[name](peopled) != READS[name](peopled.within(Scope(prefixes=()))) or name == "vector work"


def test_scores_do_not_tell_how_much_lies_on_the_other_side(peopled: Index) -> None:
    view = peopled.within(ANN)
    before = view.documents.match(["secret", "shared"], Filter(), 5)
    for number in range(20):
        text = f"secret shared {number}"
        peopled.documents.put(entry(f"memory/users/bob/{number}.md", text, owner="bob"), BY_USER)
    assert view.documents.match(["secret", "shared"], Filter(), 5) == before


WRITES: dict[str, Callable[[Index], object]] = {
    "get": lambda s: s.documents.get(2, any_presence=True),
    "text": lambda s: s.documents.text(2),
    "history": lambda s: s.record.history(2),
    "forget": lambda s: s.documents.forget(2, BY_USER),
    "recall": lambda s: s.documents.recall(2, BY_USER),
    "override": lambda s: s.record.amend(2, BY_USER, overrides={"title": "mine"}),
    "mark outdated": lambda s: s.record.amend(2, BY_USER, outdated=True),
    "trust": lambda s: s.record.amend(2, BY_USER, vouched=True),
    "validate": lambda s: s.record.amend(2, BY_USER, validation=(Decimal(1), 1)),
    "link to": lambda s: s.record.put_link(Link(0, 1, 2, Relation.CAUSED), BY_USER),
    "link from": lambda s: s.record.put_link(Link(0, 2, 1, Relation.CAUSED), BY_USER),
    "drop link": lambda s: s.record.drop_link(2, BY_USER),
    "put by id": lambda s: s.documents.put(entry("memory/users/ann/y.md", "stolen"), BY_USER, memory_id=2),
    "put by path": lambda s: s.documents.put(entry("memory/users/bob/x.md", "stolen"), BY_USER),
    "put as bob": lambda s: s.documents.put(entry("memory/users/ann/y.md", "stolen", owner="bob"), BY_USER),
    "put beside": lambda s: s.documents.put(entry("memory/users/anna/y.md", "stolen"), BY_USER),
    "restore": lambda s: s.care.restore(list(s.within(BOB).care.snapshot()), BY_USER, clear=False, where=Filter()),
}


@pytest.mark.parametrize("name", WRITES)
def test_the_other_side_cannot_be_named(peopled: Index, name: str) -> None:
    before = list(peopled.care.snapshot())
    with pytest.raises(SpecKitMemoryError) as refused:
        WRITES[name](peopled.within(ANN))
    assert isinstance(refused.value, MemoryNotFound | OutsideScope | BadParameter)
    assert "bob" not in refused.value.message or "memory/users/bob/x.md" in refused.value.message, "only what was asked"
    assert list(peopled.care.snapshot()) == before


def test_quiet_verbs_leave_the_other_side_alone(peopled: Index) -> None:
    view = peopled.within(ANN)
    view.record.use({2: 5.0}, NOON)
    view.documents.scanned({"memory/users/bob/x.md": Stamp(9, 9, 9)})
    assert view.documents.vanish("memory/users/bob/x.md", BY_USER) is None
    assert view.documents.get(path="memory/users/bob/x.md", any_presence=True) is None
    bob = peopled.documents.get(2)
    assert (bob.access_count, bob.presence) == (0.0, Presence.LIVE)
    assert peopled.documents.stored()["memory/users/bob/x.md"].stamp != Stamp(9, 9, 9)


def test_clearing_restore_keeps_to_its_scope(peopled: Index) -> None:
    view = peopled.within(ANN)
    rows = [row for row in view.care.snapshot() if row.get("path") != "memory/shared/x.md" and row["kind"] != "link"]
    assert view.care.restore(rows, BY_USER, clear=True, where=Filter())["removed"] == 1
    assert sorted(memory.id for memory in peopled.documents.find()) == [1, 2, 4]


def test_a_copy_is_not_joined_to_something_the_writer_cannot_see(peopled: Index) -> None:
    hidden = peopled.documents.put(entry("specs/001-a/spec.md", "same words", spec_folder="001-a"), BY_USER)
    view = peopled.within(Scope(prefixes=("specs/001-a/memory",)))
    seen = view.documents.put(entry("specs/001-a/memory/y.md", "same words", spec_folder="001-a"), BY_USER)
    assert seen.created
    assert seen.memory_id != hidden.memory_id


def test_front_matter_cannot_reach_another_user(peopled: Index) -> None:
    claims = [LinkClaim(Relation.CAUSED, target) for target in ("2", "memory/users/bob/x.md", "../bob/x.md")]
    peopled.documents.put(entry("memory/users/ann/z.md", "curious", owner="ann", links=claims), BY_USER)
    assert all(2 not in (link.source_id, link.target_id) or link.target_id == 3 for link in peopled.record.links())


def test_sessions_belong_to_their_user(peopled: Index) -> None:
    peopled.within(ANN).record.change_session("s1", lambda _: Session("s1", turn=3), NOON)
    assert peopled.within(BOB).record.session("s1") is None
    peopled.within(BOB).record.change_session("s1", lambda _: Session("s1", turn=9), NOON)
    mine = peopled.within(ANN).record.session("s1")
    assert mine is not None
    assert mine.turn == 3


def test_projects_are_seen_by_their_own_sessions_only(store: Index) -> None:
    store.documents.put(entry("memory/x.md", "of the project", project="p"), BY_USER)
    assert store.within(Scope(project="p")).documents.count() == 1
    assert store.within(Scope(project="q")).documents.count() == 0
    assert store.within(Scope()).documents.count() == 0


@pytest.mark.parametrize(
    ("prefix", "seen"),
    [
        ("", 3),
        (".", 3),
        ("memory", 2),
        ("memory/", 2),
        ("memory/a", 1),
        ("memory/a.md", 0),
        ("/", 1),
        ("/out", 1),
        ("chat://", 1),
        ("m", 0),
    ],
)
def test_prefixes_are_compared_by_whole_segments(store: Index, prefix: str, seen: int) -> None:
    for path in ("memory/a/x.md", "memory/ab/x.md", "MEMORY.md", "/out/x.md", "chat://1"):
        store.documents.put(entry(path, f"text of {path}"), BY_USER)
    view = store.within(Scope(prefixes=(prefix,)))
    assert view.documents.count() == seen
    assert len(view.documents.match(["text"], Filter(), 9)) == seen


def test_a_narrow_view_hears_of_faults_without_numbers(peopled: Index) -> None:
    assert all(found == [] for found in peopled.within(ANN).care.check(now=NOON).values())
