"""Does a server answer from its rows as the arrays do? Same order, same scores, within scopes and filters."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from uuid import uuid4

import pytest

from spec_kit_memory.core.memory import Filter, Scope, Tier
from spec_kit_memory.core.raw_hits import RawHits
from spec_kit_memory.errors import BadParameter
from spec_kit_memory.index.postgres import view
from spec_kit_memory.index.postgres.engine import PostgresIndex
from tests.index.material import BY_USER, change, embed_all, entry
from tests.postgres_server import Server

WORDS = [f"word{number}" for number in range(400)]


@pytest.fixture(scope="module", params=[12, 250])
def place(request: pytest.FixtureRequest, server: Server) -> Iterator[tuple[str, str]]:
    """Notes of several people, tiers and folders; some were changed, some are gone."""
    project, drawn = uuid4().hex, random.Random(request.param)
    store = PostgresIndex(server.url(), project)
    with store.bulk(), store.together():
        for number in range(request.param):
            lines = [" ".join(drawn.choices(WORDS[: 20 + number], k=drawn.randint(3, 30))) for _ in range(5)]
            owner = drawn.choice([None, None, "ana", "bob"])
            path = f"{'' if owner is None else f'users/{owner}/'}memory/{number}.md"
            folder = drawn.choice([None, "001-a", "002-b"])
            tier = drawn.choice([Tier.NORMAL, Tier.CRITICAL])
            store.documents.put(
                entry(path, "\n".join(lines), owner=owner, spec_folder=folder, tier=tier, title=lines[0][:20]), BY_USER
            )
        for number in range(0, request.param, 7):
            store.documents.forget(number + 1, change(minutes=1))
    embed_all(store)
    yield server.url(), project
    store.close()


def answers(place: tuple[str, str], monkeypatch: pytest.MonkeyPatch, *, rows: bool) -> list[RawHits]:
    monkeypatch.setattr(view, "COLD_MATCHES", 1_000_000 if rows else 0)
    store = PostgresIndex(*place)
    drawn = random.Random(5)
    found = []
    for scope in (None, Scope(), Scope(user="ana"), Scope(prefixes=("memory",)), Scope(user="nobody", project="x")):
        handle = store if scope is None else store.within(scope)
        for where in (
            Filter(),
            Filter(spec_folder="001-a"),
            Filter(tiers=frozenset({Tier.CRITICAL})),
            Filter(without=Filter(tiers=frozenset({Tier.CRITICAL}))),
            Filter(ids=frozenset(range(1, 9))),
        ):
            words = drawn.choices(WORDS[:60], k=drawn.randint(1, 8))
            asked: tuple[list[str], ...] = (words, [" ".join(words[:2]), *words[2:]], ["nowhere"], [])
            found += [handle.documents.match(terms, where, drawn.choice([1, 20, 300])) for terms in asked]
            vector = [drawn.random() for _ in range(3)]
            found.append(handle.vectors.match(vector, where, drawn.choice([1, 20, 300])))
    assert (store._shared.loaded is None) is rows
    store.close()
    return found


def test_rows_and_arrays_answer_alike(place: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    by_rows, by_arrays = (answers(place, monkeypatch, rows=rows) for rows in (True, False))
    assert sum(map(len, by_arrays)) > 100
    for rows, arrays in zip(by_rows, by_arrays, strict=True):
        assert len(rows) == len(arrays)
        for one, other in zip(rows, arrays, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-5)
        if all(abs(a.score - b.score) > 1e-5 for a, b in pairwise(arrays)):
            assert [hit.passage_id for hit in rows] == [hit.passage_id for hit in arrays]


def test_who_asks_on_gets_the_arrays(place: tuple[str, str]) -> None:
    store = PostgresIndex(*place)
    hits = [store.documents.match(["word1"], Filter(), 5) for _ in range(view.COLD_MATCHES)]
    assert store._shared.loaded is None
    hits.append(store.documents.match(["word1"], Filter(), 5))
    assert store._shared.loaded is not None
    assert all([hit.passage_id for hit in each] == [hit.passage_id for hit in hits[0]] for each in hits)
    store.close()


def test_a_vector_of_another_size_is_refused(place: tuple[str, str]) -> None:
    store = PostgresIndex(*place)
    with pytest.raises(BadParameter, match="2 dimensions"):
        store.vectors.match([1.0, 2.0], Filter(), 5)
    store.close()


def test_a_project_that_is_too_large_for_this_process_is_searched_on_the_server(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "COLD_MATCHES", 2)
    monkeypatch.setattr(view, "_LOOK_AGAIN", 3)
    monkeypatch.setattr(view, "_PASSAGE_BYTES", 1_000_000)
    project = uuid4().hex
    stores = [PostgresIndex(server.url(), project, memory_mb=most) for most in (4, 20, None)]
    small = stores[0]
    for number in range(2):
        small.documents.put(
            entry(f"memory/{number}.md", f"a zebra\nand b {number}\nof c {number}"), BY_USER
        )  # six passages
    embed_all(small)
    for store in stores:
        store.warm()
    assert [store._shared.loaded is not None for store in stores] == [False, True, True]
    results = [
        [
            (store.documents.match(["zebra"], Filter(), 9), store.vectors.match([1.0, 0.0, 0.0], Filter(), 9))
            for _ in range(8)
        ]
        for store in stores
    ]
    assert small._shared.loaded is None
    assert results[0] == results[1] == results[2]
    assert len(results[0][0][0]) == 2
    small._shared._most_bytes = 20_000_000  # there is room now
    for _ in range(4):
        small.documents.match(["zebra"], Filter(), 9)
    assert small._shared.loaded is not None
    for store in stores:
        store.close()
