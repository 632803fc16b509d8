"""Does `health --full` find on a server what was edited behind the ledger's back? As it does in a file."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from uuid import uuid4

import pytest

from spec_kit_memory.core.memory import Filter, Link, LinkClaim, Relation, Tier
from spec_kit_memory.index.postgres import schema
from spec_kit_memory.index.postgres.engine import PostgresIndex
from tests.index.material import BY_USER, change, embed_all, entry
from tests.postgres_server import Server


@pytest.fixture
def store(server: Server) -> Iterator[PostgresIndex]:
    """Everything that leaves an entry was done once."""
    made = PostgresIndex(server.url(), uuid4().hex)
    claim = (LinkClaim(Relation.SUPPORTS, "memory/b.md"),)
    made.documents.put(entry("memory/a.md", "zebra", links=claim, triggers=["stripes"]), BY_USER)
    made.documents.put(entry("memory/b.md", "okapi"), BY_USER)
    made.documents.put(entry("memory/c.md", "giraffe"), BY_USER)
    made.record.put_link(Link(0, 1, 2, Relation.CAUSED), change(minutes=1))
    made.record.amend(1, change(minutes=2), overrides={"tier": Tier.CRITICAL}, validation=(Decimal("0.9"), 1))
    made.documents.put(entry("memory/b.md", "okapi changed"), change(minutes=3))
    made.documents.forget(3, change(minutes=4))
    made.documents.vanish("memory/b.md", change(minutes=5))
    made.documents.recall(2, change(minutes=6))
    made.care.restore(list(made.care.snapshot()), change(minutes=7), clear=True, where=Filter())
    embed_all(made)
    yield made
    made.close()


def record(store: PostgresIndex) -> list[str]:
    return list(map(str, store.care.check()["record"]))


def test_what_nobody_edited_agrees(store: PostgresIndex) -> None:
    assert record(store) == []
    assert "record" not in store.care.check(quick=True), "it takes long, and only who asks for all gets it"


EDITS = {
    "a tier": ("UPDATE {}.memory SET tier = 'constitutional' WHERE project_id = {} AND id = 1", "importanceTier of"),
    "a presence": ("UPDATE {}.memory SET presence = 'live' WHERE project_id = {} AND id = 3", "memory 3 is live"),
    "a text": ("UPDATE {}.content SET text = 'x' WHERE project_id = {}", "was altered"),
    "a link": ("UPDATE {}.link SET strength = 0.1 WHERE project_id = {} AND origin = 'hand'", "the link 1 caused 2"),
    "a link that is gone": ("DELETE FROM {}.link WHERE project_id = {} AND origin = 'hand'", "the link 1 caused 2"),
    "a validation": ("UPDATE {}.usage SET confidence = '1.0' WHERE project_id = {}", "validations of memory 1"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_was_edited_is_named(store: PostgresIndex, server: Server, edit: str) -> None:
    sql, named = EDITS[edit]
    server.execute(sql.format(schema.NAME, store._database.project))
    assert any(named in said for said in record(store)), record(store)


def test_history_that_was_edited_is_named(store: PostgresIndex, server: Server) -> None:
    server.execute(
        f"ALTER TABLE {schema.NAME}.history DISABLE TRIGGER USER;"
        f"UPDATE {schema.NAME}.history SET actor = 'nobody' WHERE project_id = {store._database.project}"
        f" AND sequence = 2; ALTER TABLE {schema.NAME}.history ENABLE TRIGGER USER"
    )
    assert record(store) == ["the history of ledger entry 2 was altered"]


def test_each_checkout_agrees_with_what_was_done_in_it(server: Server) -> None:
    project = uuid4().hex
    main, branch = (PostgresIndex(server.url(), project, checkout=name) for name in ("main", "branch"))
    main.documents.put(entry("memory/a.md", "zebra"), BY_USER)
    main.documents.put(entry("memory/b.md", "lion"), BY_USER)
    branch.documents.put(entry("memory/a.md", "okapi"), change(minutes=1))
    main.record.amend(1, change(minutes=2), overrides={"tier": Tier.CRITICAL})
    branch.record.amend(1, change(minutes=3), validation=(Decimal("0.8"), 1))
    branch.documents.vanish("memory/a.md", change(minutes=4))
    main.record.amend(1, change(minutes=5), validation=(Decimal("0.9"), 2))
    for store in (main, branch):
        assert record(store) == []
        store.close()
