"""Several logins of one server use one database: whose are the tables, and what does each of them need?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from spec_kit_memory.index.postgres import schema
from spec_kit_memory.index.postgres.engine import PostgresIndex
from tests.faults.conftest import filled
from tests.index.material import BY_USER, entry
from tests.postgres.command import skm
from tests.postgres.kill_operations import OLDER
from tests.postgres_server import Server

OWNERS = f"SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = '{schema.NAME}'"


@pytest.fixture
def owned(server: Server) -> Iterator[tuple[str, str]]:
    """A database and the login that owns it, with an index in it."""
    name = f"owned_{uuid4().hex[:12]}"
    PostgresIndex(server.url(), "p").close()  # the role of transactions is the whole server's
    server.execute(f"CREATE ROLE {name} LOGIN; GRANT {schema.ROLE} TO {name}")
    server.execute(f"CREATE DATABASE {name} OWNER {name}")
    server.execute("CREATE EXTENSION vector", database=name)
    PostgresIndex(server.url(name, user=name), "first").close()
    yield name, name
    server.execute(f"DROP DATABASE {name} WITH (FORCE)")
    server.execute(f"DROP ROLE {name}")


def test_a_colleague_with_a_login_of_their_own_needs_one_grant(
    server: Server, owned: tuple[str, str], tmp_path: Path
) -> None:
    database, owner = owned
    colleague = f"{owner}_colleague"
    server.execute(f"CREATE ROLE {colleague} LOGIN NOINHERIT")
    root, url = filled(tmp_path / "work", count=2), server.url(database, user=colleague)
    try:
        refused = skm(root, "index", url=url, code=1)["error"]
        assert refused["code"] == "E020"
        assert "`GRANT OWNER TO USER WITH INHERIT TRUE`" in refused["hint"]
        server.execute(f"GRANT {owner} TO {colleague} WITH INHERIT TRUE")
        assert skm(root, "index", url=url)["data"]["new"] == 2
        assert skm(root, "search", "zebra1", url=url)["data"]["results"]
        assert skm(root, "save", "--text", "The gate opens at nine", url=url)["data"]["id"]
    finally:
        server.execute(f"DROP ROLE {colleague}")


def test_what_an_administrator_or_a_colleague_upgrades_still_belongs_to_the_owner(
    server: Server, owned: tuple[str, str]
) -> None:
    database, owner = owned
    server.execute(f"SET search_path = {schema.NAME}, public; {OLDER}", database=database)
    PostgresIndex(server.url(database), "second").close()  # as a superuser
    assert server.execute(OWNERS, database=database) == [(owner,)]
    index = PostgresIndex(server.url(database, user=owner), "first")
    index.documents.put(entry("memory/a.md", "zebra"), BY_USER)
    assert index.state_files.sizes("checkpoints") == {}
    index.close()
