"""Is a document of which nothing is known written as any other is? And is what waits to be sent never too late?"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest

from spec_kit_memory.core.memory import Entry, Filter, LinkClaim, Mutation, Relation, Source, Tier
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.index.postgres.engine import PostgresIndex
from spec_kit_memory.index.sql import documents, recorder
from spec_kit_memory.index.sql.dialect import Connection
from tests.index.material import BY_USER, change, embed_all, entry
from tests.postgres_server import Server

TABLES = (
    "memory",
    "document",
    "trigger",
    "passage",
    "posting",
    "content",
    "claim",
    "link",
    "alias",
    "history",
    "ledger",
)


def notes() -> Iterator[Entry]:
    yield entry("memory/plain.md")
    yield entry("memory/copy.md")  # of the same text in the same folder
    yield entry("memory/empty.md", "", fingerprint="")
    yield entry("memory/also-empty.md", "", fingerprint="")
    yield entry("memory/rule.md", "a rule", tier=Tier.CONSTITUTIONAL, triggers=("Ünïcode", "ünïcode", "50 %"))
    yield entry("chats/told.md", "somebody said so", source=Source.CHAT, triggers=("said",), tier=Tier.CONSTITUTIONAL)
    yield entry("specs/001-a/memory/b.md", "in a folder", spec_folder="001-a", owner=None, archived_folder=True)
    yield entry("users/ana/memory/c.md", "hers", owner="ana", redactions=2)
    yield entry("memory/asks.md", "asks for one that comes later", links=[LinkClaim(Relation.SUPPORTS, "Later")])
    yield entry("memory/later.md", "the later one", title="Later")
    yield entry("memory/asks-by-number.md", "asks by number", links=[LinkClaim(Relation.SUPPORTS, "11")])
    yield entry("memory/eleventh.md", "its number is asked for")
    yield entry("memory/zero.md", "a zero", title="a\x00b")
    yield entry("memory/plain.md", "the quick brown fox changed")
    yield entry("memory/copy.md", "no longer a copy")


def fill(url: str, project: str, *, together: bool) -> PostgresIndex:
    store = PostgresIndex(url, project)
    store.vectors.use_model("test-model", 3, "weights")
    if together:
        with store.bulk(), store.together():
            for one in notes():
                store.documents.put(one, BY_USER)
    else:
        for one in notes():
            store.documents.put(one, BY_USER)
    embed_all(store)
    store.documents.put(entry("memory/known-words.md", "jumps over the lazy dog\nof new ones too"), BY_USER)
    return store


def stored(server: Server, project: str) -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = {}
    with psycopg.connect(server.url()) as connection:
        number = connection.execute("SELECT id FROM spec_kit_memory.project WHERE name = %s", (project,)).fetchone()
        assert number
        for table in TABLES:
            sql = f"SELECT to_jsonb(part) - 'project_id' - 'checkout_id' FROM spec_kit_memory.\"{table}\" AS part"
            rows = connection.execute(f"{sql} WHERE project_id = %s".encode(), number).fetchall()
            found[table] = sorted((row for (row,) in rows), key=repr)
    for row in found["link"]:
        row["checkouts"] = None
    return found


@pytest.mark.parametrize("together", [False, True])
def test_new_documents_are_written_as_any_other(
    server: Server, monkeypatch: pytest.MonkeyPatch, *, together: bool
) -> None:
    quick, slow = uuid4().hex, uuid4().hex
    taken: list[str] = []
    asked = documents.is_unknown

    def counted(connection: Connection, given: Entry) -> bool:
        result = asked(connection, given)
        taken.extend([given.path] if result else [])
        return result

    monkeypatch.setattr(documents, "is_unknown", counted)
    fill(server.url(), quick, together=together).close()
    # All but copies, what asks for links or is asked for, and what was there.
    assert {"memory/plain.md", "memory/empty.md", "memory/rule.md", "chats/told.md"} <= set(taken)
    known = {"memory/asks.md", "memory/later.md", "memory/eleventh.md"}
    assert not known & set(taken)
    assert len(taken) == len(set(taken))
    monkeypatch.setattr(documents, "is_unknown", lambda *_: False)
    fill(server.url(), slow, together=together).close()
    here, there = stored(server, quick), stored(server, slow)
    for table in TABLES:
        assert here[table] == there[table], table
    assert here["ledger"]


def test_a_write_that_waits_is_seen_by_the_next_question(server: Server) -> None:
    store = PostgresIndex(server.url(), uuid4().hex)
    with store.together():
        made = store.documents.put(entry(), BY_USER)
        again = store.documents.put(entry("memory/second.md"), BY_USER)  # a copy of what was not sent yet
        assert again.alias
        assert again.memory_id == made.memory_id
        store.documents.forget(made.memory_id, change(minutes=1))
    assert store.documents.match(["fox"], Filter(), 10) == []
    assert [row.type for row in store.record.ledger()][-1] is Mutation.DELETE
    store.close()


def test_nothing_of_a_block_that_fails_late_stays(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last write of a block is only sent with its commit: where the server refuses it, all is undone."""
    project = uuid4().hex
    store = PostgresIndex(server.url(), project)
    store.documents.put(entry(), BY_USER)
    before = stored(server, project)

    class Wrong(recorder.Recorder):
        def entry(self, *given: object, **named: object) -> object:  # type: ignore[override]
            made = super().entry(*given, **named)  # type: ignore[arg-type]
            self._connection.execute("INSERT INTO usage (project_id, memory_id) VALUES (@p, 987654321)")
            return made

    monkeypatch.setattr(documents, "Recorder", Wrong)
    with pytest.raises(SpecKitMemoryError):
        store.documents.put(entry("memory/b.md", "another"), BY_USER)
    assert stored(server, project) == before
    monkeypatch.undo()
    assert store.documents.put(entry("memory/b.md", "another"), BY_USER).memory_id == 2
    store.close()
