"""Are the rows that the benchmark of both engines writes in bulk those that the verbs write?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import engines
from benchmarks.engines_copied import BulkPostgres, BulkSqlite
from spec_kit_memory.core.memory import Filter
from spec_kit_memory.core.raw_hits import RawHits
from spec_kit_memory.index import open_index
from tests.postgres_server import Server

ALL, BY_VERBS = 1_200, 300  # more than one row of postings for a word


def answers(place: str | Path) -> list[RawHits]:
    index, random = open_index(place, project=engines.PROJECT), np.random.default_rng(4)
    try:
        index.warm()
        found = []
        for _ in range(20):
            words, vector = engines.question(random)
            found.append(index.documents.match(words, Filter(), 50))
            found.append(index.vectors.match(vector, Filter(), 50))
        return found
    finally:
        index.close()


def filled(place: str | Path, passages: int, material: engines.Material) -> None:
    index = open_index(place, project=engines.PROJECT)
    engines.fill(index, material, passages)
    index.close()


@pytest.mark.parametrize("engine", ["SQLite", "PostgreSQL"])
def test_what_is_written_in_bulk_is_found_as_what_the_verbs_write(engine: str, tmp_path: Path, server: Server) -> None:
    filled(tmp_path / "verbs.sqlite", ALL, engines.Material(ALL))
    wanted = answers(tmp_path / "verbs.sqlite")
    if engine == "PostgreSQL":
        server.execute("DROP DATABASE IF EXISTS bulk")
        server.execute("CREATE DATABASE bulk")
    place: str | Path = tmp_path / "bulk.sqlite" if engine == "SQLite" else server.url("bulk")
    material = engines.Material(ALL)
    filled(place, BY_VERBS, material)
    bulk = BulkSqlite(place) if isinstance(place, Path) else BulkPostgres(place, dimensions=engines.DIMENSIONS)
    engines.fill_in_bulk([bulk], material, ALL - BY_VERBS)
    got = answers(place)
    for ours, theirs in zip(got, wanted, strict=True):
        assert [(hit.passage_id, hit.memory_id) for hit in ours] == [(hit.passage_id, hit.memory_id) for hit in theirs]
        assert [hit.score for hit in ours] == pytest.approx([hit.score for hit in theirs], abs=1e-5)
    index = open_index(place, project=engines.PROJECT)
    try:  # and goes on from there
        extra = next(engines.documents(engines.PER_DOCUMENT, np.random.default_rng(99)))
        index.documents.put(replace(extra, path="memory/extra.md"), engines.CHANGE)
        assert index.care.stats().memories == ALL // engines.PER_DOCUMENT + 1
    finally:
        index.close()
