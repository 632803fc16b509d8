"""Does a link that front matter declares lead to the memory that it names, at a cost in step with their number?"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from spec_kit_memory.core.memory import LinkClaim, Relation
from spec_kit_memory.index.contract import Index
from spec_kit_memory.index.sql import declared_links
from tests.index.material import BY_USER, change, entry

COUNT = 40


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that were looked up."""
    names: list[str] = []
    look_up = declared_links._target

    def counted(connection: object, claimant: int, target: str, *more: object, **rest: object) -> int | None:
        names.append(target)
        return look_up(connection, claimant, target, *more, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(declared_links, "_target", counted)
    return names


def put_equal_titles(store: Index, folder: Callable[[int], str | None], *, minutes: int = 0) -> None:
    claims = [LinkClaim(Relation.SUPPORTS, "Same")]
    for number in range(COUNT):
        store.documents.put(
            entry(f"memory/{number:02}.md", f"text {number}", title="Same", spec_folder=folder(number), links=claims),
            change(minutes=minutes + number),
        )


@pytest.mark.parametrize("folders", ["one", "each its own"])
def test_memories_that_all_name_the_title_that_all_have_are_linked_without_looking_each_up_for_each(
    store: Index, looked_up: list[str], folders: str
) -> None:
    put_equal_titles(store, lambda number: "001-a" if folders == "one" else f"{number:03}-a")
    links = {(link.source_id, link.target_id) for link in store.record.links()}
    assert links == {(1, 2)} | {(number, 1) for number in range(2, COUNT + 1)}
    assert len(looked_up) < 8 * COUNT
    looked_up.clear()
    put_equal_titles(store, lambda number: "001-a" if folders == "one" else f"{number:03}-a", minutes=100)
    assert {(link.source_id, link.target_id) for link in store.record.links()} == links
    assert len(looked_up) < 8 * COUNT


def test_a_memory_that_names_many_titles_gains_one_link_after_the_other(store: Index, looked_up: list[str]) -> None:
    claims = [LinkClaim(Relation.SUPPORTS, f"Title {number}") for number in range(COUNT)]
    for number in range(3):
        store.documents.put(entry(f"memory/hub{number}.md", f"hub {number}", links=claims), BY_USER)
    for number in range(COUNT):
        store.documents.put(entry(f"memory/{number}.md", f"text {number}", title=f"Title {number}"), BY_USER)
    assert len(store.record.links()) == 3 * COUNT
    assert len(looked_up) < 3 * 8 * COUNT


@pytest.mark.parametrize("seed", range(12))
def test_after_any_sequence_each_link_is_what_reading_its_file_again_gives(store: Index, seed: int) -> None:
    chance = random.Random(seed)
    names = ["Same", "Other", "memory/1.md", "./memory/2.md", "3.md", "4"]
    last: dict[str, dict[str, Any]] = {}
    for step in range(40):
        path = f"memory/{chance.randrange(8)}.md"
        claims = [
            LinkClaim(chance.choice([Relation.SUPPORTS, Relation.CAUSED]), chance.choice(names), chance.random() < 0.3)
            for _ in range(chance.randrange(3))
        ]
        last[path] = {
            "title": chance.choice(["Same", "Other", "Third"]),
            "spec_folder": chance.choice([None, "001-a", "002-b"]),
            "links": claims,
        }
        store.documents.put(entry(path, f"text of {path} {step}", **last[path]), change(minutes=step))
    links = {(link.source_id, link.target_id, link.relation) for link in store.record.links()}
    for path, front in last.items():
        store.documents.put(entry(path, f"another text of {path}", **front), change(minutes=100))
    assert {(link.source_id, link.target_id, link.relation) for link in store.record.links()} == links
