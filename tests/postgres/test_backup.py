"""Can the database be backed up and brought back with PostgreSQL's own programs, all of it or nothing?"""

from __future__ import annotations

import subprocess
from pathlib import Path
from uuid import uuid4

from spec_kit_memory.core import ledger
from spec_kit_memory.core.memory import Filter
from spec_kit_memory.index.postgres.engine import PostgresIndex
from tests import postgres_server
from tests.index.material import BY_USER, embed_all, entry
from tests.postgres_server import Server


def program(server: Server, name: str, *arguments: str, user: str = "postgres") -> subprocess.CompletedProcess[str]:
    there = ["-h", "127.0.0.1", "-p", str(server.port), "-U", user]
    command = [str(postgres_server.binaries(server.version) / name), *there, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_a_dump_is_brought_back_with_every_project(server: Server, tmp_path: Path) -> None:
    run = uuid4().hex
    server.execute(f"CREATE ROLE owner_{run} LOGIN CREATEROLE")
    server.execute(f"CREATE DATABASE one_{run} OWNER owner_{run}")
    server.execute("CREATE EXTENSION vector", database=f"one_{run}")
    PostgresIndex(server.url(), run).close()  # the role of transactions is the whole server's
    server.execute(f"GRANT spec_kit_memory_app TO owner_{run}")
    heads = {}
    for project in ("p", "q"):
        store = PostgresIndex(server.url(f"one_{run}", user=f"owner_{run}"), project)
        for number in range(3):
            store.documents.put(entry(f"memory/{number}.md", f"zebra {project} {number}"), BY_USER)
        embed_all(store)
        heads[project] = list(store.record.ledger())
        store.close()
    file = str(tmp_path / "index.dump")
    partial = program(server, "pg_dump", "-Fc", "-f", file, f"one_{run}", user=f"owner_{run}")
    assert partial.returncode != 0, "who does not see every row is refused instead of dumping a part"
    assert "row-level security" in partial.stderr
    dumped = program(server, "pg_dump", "-Fc", "-f", file, f"one_{run}")
    assert dumped.returncode == 0, dumped.stderr
    server.execute(f"CREATE DATABASE two_{run} OWNER owner_{run}")
    restored = program(server, "pg_restore", "-d", f"two_{run}", "--exit-on-error", file)
    assert restored.returncode == 0, restored.stderr
    for project, head in heads.items():
        store = PostgresIndex(server.url(f"two_{run}", user=f"owner_{run}"), project)
        assert list(store.record.ledger()) == head
        assert ledger.verify(store.record.ledger()) is None
        assert len(store.documents.match(["zebra"], Filter(), 9)) == 3
        assert len(store.vectors.match([1.0, 1.0, 1.0], Filter(), 9)) == 3
        assert all(not told for told in store.care.check().values())
        store.documents.put(entry("memory/new.md", "goes on"), BY_USER)
        store.close()
