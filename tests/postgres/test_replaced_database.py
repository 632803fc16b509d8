"""Under a process that runs on, the database is dropped and made anew, or brought back from an older dump."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from spec_kit_memory.core.memory import Filter
from spec_kit_memory.errors import DatabaseUnusable
from spec_kit_memory.index.postgres import schema
from spec_kit_memory.index.postgres.engine import PostgresIndex
from tests.index.material import BY_USER, embed_all, entry
from tests.postgres_server import Server


@pytest.fixture
def database(server: Server) -> Iterator[str]:
    name = f"replaced_{uuid4().hex}"
    server.execute(f"CREATE DATABASE {name}")
    yield name
    server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_process_never_sees_the_project_that_has_its_number_in_a_new_database(server: Server, database: str) -> None:
    url = server.url(database)
    mine = PostgresIndex(url, "mine")
    mine.documents.put(entry("memory/a.md", "zebra of mine"), BY_USER)
    assert mine.documents.match(["zebra"], Filter(), 5)
    server.execute(f"DROP SCHEMA {schema.NAME} CASCADE", database=database)
    theirs = PostgresIndex(url, "theirs")
    theirs.documents.put(entry("memory/b.md", "zebra of theirs"), BY_USER)
    assert mine._shared.database.project == theirs._shared.database.project, "the numbers begin again"
    for ask in (
        lambda: mine.documents.match(["zebra"], Filter(), 5),
        lambda: mine.documents.count(),
        lambda: mine.documents.get(1),
        lambda: list(mine.state_files.sizes("checkpoints")),
        lambda: mine.state_files.remove("checkpoints", "one"),
        lambda: mine.documents.put(entry("memory/c.md", "a zebra gone astray"), BY_USER),
        lambda: next(mine.care.snapshot(Filter())),
        lambda: list(mine.record.ledger()),
    ):
        with pytest.raises(DatabaseUnusable, match="no longer has the index that was opened") as refused:
            ask()
        assert "open it again" in refused.value.hint
    assert theirs.documents.count() == 1
    again = PostgresIndex(url, "mine")
    assert again.documents.count() == 0
    again.documents.put(entry("memory/a.md", "zebra of mine"), BY_USER)
    for index in (mine, theirs, again):
        index.close()


@pytest.mark.parametrize("warm", [False, True])
def test_a_process_answers_from_the_older_state_that_was_brought_back(
    server: Server, database: str, tmp_path: Path, warm: bool
) -> None:
    index = PostgresIndex(server.url(database), "mine")
    index.documents.put(entry("memory/a.md", "an old zebra"), BY_USER)
    kept = f"{database}_kept"
    server.execute(f"CREATE DATABASE {kept} TEMPLATE {database}") if _nobody_on(server, database) else None
    embed_all(index)
    for number in range(3):
        index.documents.put(entry(f"memory/lost{number}.md", f"a zebra that is lost {number}"), BY_USER)
    if warm:
        index.warm()
    assert len(index.documents.match(["zebra"], Filter(), 9)) == 4
    with suppress(psycopg.Error):
        server.execute(f"DROP DATABASE {database} WITH (FORCE)")
    server.execute(f"ALTER DATABASE {kept} RENAME TO {database}")
    assert len(index.documents.match(["zebra"], Filter(), 9)) == 1
    # As many changes as were lost, so that the number of the generation is the same again.
    for number in range(4):
        index.documents.put(entry(f"memory/new{number}.md", f"a new zebra {number}"), BY_USER)
    found = index.documents.match(["zebra"], Filter(), 9)
    paths = {one.path for one in index.documents.many([hit.memory_id for hit in found])}
    assert paths == {"memory/a.md", *(f"memory/new{number}.md" for number in range(4))}
    index.close()


def _nobody_on(server: Server, database: str) -> bool:
    """A template must not be in use: the connections of the pool are ended, which it gets over."""
    server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'")
    return True
