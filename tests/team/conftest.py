"""A database of its own for each test: the team server's tables are the whole server's."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from spec_kit_memory.team.database import TeamDatabase
from tests.postgres_server import Server


@pytest.fixture
def database(server: Server) -> Iterator[TeamDatabase]:
    name = f"team_{uuid4().hex[:12]}"
    server.execute(f"CREATE DATABASE {name}")
    yield TeamDatabase(server.url(name))
    server.execute(f"DROP DATABASE {name} WITH (FORCE)")
