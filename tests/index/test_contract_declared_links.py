"""Does a link that front matter declares lead to the memory that it names, at a cost in step with their number?"""

from __future__ import annotations

import posixpath
import random
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from spec_kit_memory.core.memory import LinkClaim, Memory, Presence, Relation
from spec_kit_memory.index.contract import Index
from spec_kit_memory.index.sql.dialect import fetch
from tests.index.material import BY_USER, change, entry

COUNT = 40


@dataclass
class Work:
    """What following the claims took: statements, and the rows that they read or wrote."""

    statements: int = 0
    rows: int = 0


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    counted = Work()

    def counting(connection: Any, sql: str, values: Any = ()) -> list[tuple[Any, ...]]:
        rows = fetch(connection, sql, values)
        counted.statements += 1
        counted.rows += len(rows)
        return rows

    for module in ("declared_links", "link_targets"):
        monkeypatch.setattr(f"spec_kit_memory.index.sql.{module}.fetch", counting)
    return counted


def put_equal_titles(
    store: Index, *, title: str = "Same", folder: Callable[[int], str | None], minutes: int = 0, count: int = COUNT
) -> None:
    claims = [LinkClaim(Relation.SUPPORTS, title)]
    for number in range(count):
        store.documents.put(
            entry(f"memory/{number:03}.md", f"text {number}", title=title, spec_folder=folder(number), links=claims),
            change(minutes=minutes),
        )


def pairs(store: Index) -> set[tuple[int, int]]:
    return {(link.source_id, link.target_id) for link in store.record.links()}


@pytest.mark.parametrize("folders", ["one", "each its own"])
def test_memories_that_all_name_the_title_that_all_have_are_linked_without_looking_each_up_for_each(
    store: Index, work: Work, folders: str
) -> None:
    def folder(number: int) -> str:
        return "001-a" if folders == "one" else f"{number:03}-a"

    put_equal_titles(store, folder=folder)
    links = {(1, 2)} | {(number, 1) for number in range(2, COUNT + 1)}
    assert pairs(store) == links
    assert work.statements < 20 * COUNT
    work.statements = 0
    put_equal_titles(store, folder=folder, minutes=100)
    assert pairs(store) == links
    assert work.statements < 20 * COUNT


CHANGES: dict[str, dict[str, Any]] = {
    "retitled": {"title": "Other"},
    "moved to another folder": {"folder": lambda number: "002-b"},
    "moved to folders of their own": {"folder": lambda number: f"{number:03}-b"},
}


@pytest.mark.parametrize("what", [*CHANGES, "deleted", "deleted and brought back"])
def test_changing_twice_as_many_memories_of_one_title_together_takes_twice_the_work(
    factory: Callable[[str], Index], work: Work, what: str
) -> None:
    taken: dict[int, Work] = {}
    for count in (COUNT, 2 * COUNT):
        store = factory(f"of-{count}")
        with store.together():
            put_equal_titles(store, folder=lambda number: "001-a", count=count)
        if what == "deleted and brought back":
            vanish_all(store, count)
        work.statements = work.rows = 0
        if what == "deleted":
            vanish_all(store, count)
        else:
            with store.together():
                put_equal_titles(
                    store, **({"folder": lambda number: "001-a"} | CHANGES.get(what, {})), minutes=5, count=count
                )
        taken[count] = replace(work)
        expected = set() if what == "deleted" else {(1, 2)} | {(number, 1) for number in range(2, count + 1)}
        assert pairs(store) == expected
    assert taken[COUNT].rows > 0
    assert taken[2 * COUNT].statements <= taken[COUNT].statements
    assert taken[2 * COUNT].rows <= 2 * taken[COUNT].rows + 10


def vanish_all(store: Index, count: int) -> None:
    with store.together():
        for number in range(count):
            store.documents.vanish(f"memory/{number:03}.md", change(minutes=3))


def test_a_memory_that_names_many_titles_gains_one_link_after_the_other(store: Index, work: Work) -> None:
    claims = [LinkClaim(Relation.SUPPORTS, f"Title {number}") for number in range(COUNT)]
    for number in range(3):
        store.documents.put(entry(f"memory/hub{number}.md", f"hub {number}", links=claims), BY_USER)
    work.rows = 0
    for number in range(COUNT):
        store.documents.put(entry(f"memory/{number}.md", f"text {number}", title=f"Title {number}"), BY_USER)
    assert len(store.record.links()) == 3 * COUNT
    assert work.rows < 20 * COUNT


def test_a_link_leads_to_another_memory_of_that_title_as_soon_as_the_first_is_gone(store: Index) -> None:
    first = store.documents.put(entry("memory/a.md", "one", title="Plan"), BY_USER).memory_id
    second = store.documents.put(entry("memory/b.md", "two", title="Plan"), BY_USER).memory_id
    claims = [LinkClaim(Relation.SUPPORTS, "Plan")]
    third = store.documents.put(entry("memory/c.md", "three", links=claims), BY_USER).memory_id
    assert pairs(store) == {(third, first)}
    store.documents.vanish("memory/a.md", BY_USER)
    assert pairs(store) == {(third, second)}
    store.documents.put(entry("memory/a.md", "one", title="Plan"), BY_USER)
    assert pairs(store) == {(third, first)}
    store.documents.forget(first, BY_USER)
    assert pairs(store) == {(third, second)}
    store.documents.recall(first, BY_USER)
    assert pairs(store) == {(third, first)}
    store.record.amend(first, BY_USER, overrides={"title": "Another plan"})
    assert pairs(store) == {(third, second)}
    store.record.amend(first, BY_USER, overrides={"title": None})
    assert pairs(store) == {(third, first)}
    store.documents.put(entry("memory/a.md", "one", title="Plan", owner="ann"), BY_USER)
    assert pairs(store) == {(third, second)}
    store.documents.forget(second, BY_USER)
    assert pairs(store) == set()
    assert [remark.kind for remark in store.care.remarks()] == []  # it means the one that is gone


def test_a_merge_leads_links_to_another_memory_of_that_title(store: Index) -> None:
    first = store.documents.put(entry("memory/a.md", "one", title="Plan"), BY_USER).memory_id
    second = store.documents.put(entry("memory/b.md", "two", title="Plan"), BY_USER).memory_id
    claims = [LinkClaim(Relation.SUPPORTS, "Plan")]
    third = store.documents.put(entry("memory/c.md", "three", links=claims), BY_USER).memory_id
    store.documents.forget(first, BY_USER, into=second)
    assert pairs(store) == {(third, second)}


def test_a_path_that_is_no_longer_a_copy_leads_nowhere(store: Index) -> None:
    original = store.documents.put(entry("memory/a.md", "one"), BY_USER).memory_id
    assert store.documents.put(entry("memory/b.md", "one"), BY_USER).alias
    claims = [LinkClaim(Relation.SUPPORTS, "memory/b.md")]
    claimant = store.documents.put(entry("memory/c.md", "three", links=claims), BY_USER).memory_id
    assert pairs(store) == {(claimant, original)}
    store.documents.vanish("memory/b.md", BY_USER)
    assert pairs(store) == set()


def test_of_many_memories_of_a_title_one_in_the_claimants_folder_is_meant(store: Index) -> None:
    claims = [LinkClaim(Relation.SUPPORTS, "Plan")]

    def put(name: str, folder: str, **more: Any) -> int:
        document = entry(f"memory/{name}.md", name, title="Plan", spec_folder=folder, **more)
        return store.documents.put(document, BY_USER).memory_id

    first, *_ = [put(f"a{number}", "001-a") for number in range(3)]
    claimant = put("claimant", "002-b", links=claims)
    assert pairs(store) == {(claimant, first)}
    beside = put("b", "002-b")
    assert pairs(store) == {(claimant, beside)}
    put("c", "002-b")
    assert pairs(store) == {(claimant, beside)}
    store.documents.vanish("memory/b.md", BY_USER)
    put("b", "001-a")
    assert pairs(store) == {(claimant, beside + 1)}


def test_a_name_of_a_copy_leads_to_its_memory_whenever_that_is_there(store: Index) -> None:
    original = store.documents.put(entry("memory/a.md", "one", title="Plan"), BY_USER).memory_id
    assert store.documents.put(entry("memory/copy.md", "one", title="Plan"), BY_USER).alias
    namesake = store.documents.put(entry("memory/b.md", "two", title="memory/copy.md"), BY_USER).memory_id
    twice = [LinkClaim(Relation.SUPPORTS, "memory/copy.md"), LinkClaim(Relation.SUPPORTS, "Plan")]
    claimant = store.documents.put(entry("memory/c.md", "three", links=twice[:1]), BY_USER).memory_id
    both = store.documents.put(entry("memory/d.md", "four", links=twice), BY_USER).memory_id
    assert pairs(store) == {(claimant, original), (both, original)}
    store.record.amend(original, BY_USER, overrides={"title": "Other"})
    assert pairs(store) == {(claimant, original), (both, original)}
    store.documents.forget(original, BY_USER)
    assert pairs(store) == {(claimant, namesake), (both, namesake)}
    store.documents.recall(original, BY_USER)
    assert pairs(store) == {(claimant, original), (both, original)}


def test_a_file_beside_the_declaring_one_is_meant_before_a_title(store: Index) -> None:
    titled = store.documents.put(entry("memory/a.md", "one", title="plan.md"), BY_USER).memory_id
    claims = [LinkClaim(Relation.SUPPORTS, "plan.md"), LinkClaim(Relation.SUPPORTS, "Plan")]
    claimant = store.documents.put(entry("memory/c.md", "three", links=claims), BY_USER).memory_id
    assert pairs(store) == {(claimant, titled)}
    beside = store.documents.put(entry("memory/plan.md", "two", title="Plan"), BY_USER).memory_id
    assert pairs(store) == {(claimant, beside)}
    store.record.amend(beside, BY_USER, overrides={"title": "Other"})
    assert pairs(store) == {(claimant, beside)}
    store.documents.vanish("memory/plan.md", BY_USER)
    assert pairs(store) == {(claimant, titled)}


def test_links_within_a_transaction_are_those_of_what_it_wrote(store: Index) -> None:
    claims = [LinkClaim(Relation.SUPPORTS, "Plan")]
    with store.together():
        claimant = store.documents.put(entry("memory/c.md", "three", links=claims), BY_USER).memory_id
        assert pairs(store) == set()
        first = store.documents.put(entry("memory/a.md", "one", title="Plan"), BY_USER).memory_id
        second = store.documents.put(entry("memory/b.md", "two", title="Plan"), BY_USER).memory_id
        assert pairs(store) == {(claimant, first)}
        store.documents.forget(first, BY_USER)
        assert pairs(store) == {(claimant, second)}


def test_a_transaction_that_is_undone_leaves_no_link_behind(store: Index) -> None:
    claims = [LinkClaim(Relation.SUPPORTS, "Plan")]
    claimant = store.documents.put(entry("memory/c.md", "three", links=claims), BY_USER).memory_id
    with suppress(ZeroDivisionError), store.together():
        store.documents.put(entry("memory/a.md", "one", title="Plan"), BY_USER)
        raise ZeroDivisionError
    other = store.documents.put(entry("memory/d.md", "four", title="Other"), BY_USER).memory_id
    assert pairs(store) == set()
    store.record.amend(other, BY_USER, overrides={"title": "Plan"})
    assert pairs(store) == {(claimant, other)}


# --- any sequence


PATHS = [f"memory/{number}.md" for number in range(6)] + ["specs/001-a/memory/0.md", "specs/002-b/1.md"]
NAMES = ["Same", "./Same", "Other", "memory/1.md", "./memory/2.md", "3.md", "../memory/4.md", "1", "4", "007", "5.md"]


@dataclass
class World:
    """What was put into a store, and what must be linked after it."""

    store: Index
    chance: random.Random
    step: int = 0
    claims: dict[int, tuple[str, list[LinkClaim]]] = field(default_factory=dict)  # with the path that declares them
    texts: dict[int, str] = field(default_factory=dict)

    def act(self) -> None:
        self.step += 1
        at = change(minutes=self.step)
        known = [self.store.documents.get(id_, any_presence=True) for id_ in self.claims]
        forgotten = [memory for memory in known if memory.presence is Presence.FORGOTTEN]
        live = [memory for memory in known if memory.presence is Presence.LIVE]
        chance = self.chance
        what = chance.choice(["put"] * 5 + ["copy", "move", "vanish", "vanish", "forget", "recall", "retitle"])
        if what == "copy" and live:
            self.put(chance.choice(PATHS), like=chance.choice(live))
        elif what == "move" and live:
            self.put(chance.choice(PATHS), like=chance.choice(live), moved=True)
        elif what == "vanish" and live:
            self.store.documents.vanish(chance.choice(live).path, at)
        elif what == "forget" and live:
            self.store.documents.forget(chance.choice(live).id, at)
        elif what == "recall" and forgotten:
            self.store.documents.recall(chance.choice(forgotten).id, at)
        elif what == "retitle" and live:
            title = chance.choice(["Same", "Other", None])
            self.store.record.amend(chance.choice(live).id, at, overrides={"title": title})
        else:
            self.put(chance.choice(PATHS))

    def put(self, path: str, *, like: Memory | None = None, moved: bool = False) -> None:
        chance = self.chance
        kinds = [(Relation.SUPPORTS, False), (Relation.SUPERSEDES, False), (Relation.CAUSED, True)]
        claims = [
            LinkClaim(*kind, strength=chance.choice([0.5, 1.0]))
            for kind in ((relation, chance.choice(NAMES), inward) for relation, inward in chance.choices(kinds, k=2))
        ][: chance.randrange(3)]
        document = entry(
            path,
            f"text {self.step}" if like is None else self.texts[like.id],
            title=chance.choice(["Same", "Same", "Other", "Third"]),
            spec_folder=chance.choice([None, "001-a", "002-b"]) if like is None or moved else like.spec_folder,
            owner=chance.choice([None, None, None, "ann", "bob"]) if like is None else like.owner,
            links=claims,
        )
        at = change(minutes=self.step)
        result = self.store.documents.put(document, at, memory_id=like.id if like and moved else None, explicit=True)
        if not result.alias:
            self.claims[result.memory_id] = path, claims
            self.texts[result.memory_id] = document.document.text

    def expected(self) -> dict[tuple[int, int, Relation], float]:
        memories = [self.store.documents.get(id_, any_presence=True) for id_ in self.claims]
        live = [memory for memory in memories if memory.presence is Presence.LIVE]
        links = {}
        for claimant in live:
            path, claims = self.claims[claimant.id]
            for claim in claims:
                other = meant(claimant, path, claim.target, live)
                if other is not None:
                    ends = (other.id, claimant.id) if claim.inward else (claimant.id, other.id)
                    links[*ends, claim.relation] = claim.strength
        return links

    def shown(self) -> dict[tuple[int, int, Relation], float]:
        return {(link.source_id, link.target_id, link.relation): link.strength for link in self.store.record.links()}


def meant(claimant: Memory, declared_in: str, target: str, memories: list[Memory]) -> Memory | None:
    """As the documentation says it, without an index."""
    name = target.removeprefix("./")
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(declared_in), target)) if ".md" in target else ""
    number = target if target == target.lstrip("0") else ""
    ranked = [
        (
            str(memory.id) == number,
            memory.path == name,
            memory.path == beside,
            memory.spec_folder == claimant.spec_folder,
            -memory.id,
            memory,
        )
        for memory in memories
        if memory.id != claimant.id
        and memory.owner in (None, claimant.owner)
        and (str(memory.id) == number or memory.title == name or {name, beside} & {memory.path, *memory.aliases})
    ]
    return max(ranked, default=(None,), key=lambda rank: rank[:-1])[-1]


@pytest.mark.parametrize("seed", range(16))
def test_after_any_sequence_in_batches_of_any_size_each_link_is_what_its_claim_means(store: Index, seed: int) -> None:
    world = World(store, random.Random(seed))
    while world.step < 60:
        size = world.chance.choice([1, 1, 2, 5, 15])
        with store.together() if size > 1 else nullcontext():
            for _ in range(size):
                world.act()
                if world.chance.random() < 0.1:
                    assert world.shown() == world.expected()
        assert world.shown() == world.expected(), f"after step {world.step}"
