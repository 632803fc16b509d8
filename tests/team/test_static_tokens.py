"""Who is let in by a static token, and for how long?"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from spec_kit_memory.core.redact import redact
from spec_kit_memory.errors import BadParameter, FileMissing, MissingParameter
from spec_kit_memory.serve.cli.program import run
from spec_kit_memory.team.database import TeamDatabase
from spec_kit_memory.team.projects import Projects
from spec_kit_memory.team.rights import Role
from spec_kit_memory.team.static_tokens import BELIEVED_SECONDS, PREFIX, TokenCache, Tokens, read_duration


@pytest.fixture
def tokens(database: TeamDatabase, tmp_path: Path) -> Tokens:
    for name in ("shop", "bank"):
        (tmp_path / name).mkdir()
        Projects(database).add(name, repository=str(tmp_path / name))
    return Tokens(database)


def test_a_token_is_kept_as_a_hash_and_says_who_may_do_what(tokens: Tokens, database: TeamDatabase) -> None:
    made, secret = tokens.create("ana", projects=["shop", "bank", "shop"], role="writer")
    assert secret.startswith(PREFIX)
    assert len(secret) > 40
    with database.transaction() as session:
        assert secret not in repr(session.rows("SELECT * FROM token"))
    faults = tokens.check(secret)
    assert faults == made
    assert faults is not None
    assert str(faults.access.user) == "ana@local"
    assert faults.access.projects == ["bank", "shop"]
    assert faults.access.role("shop") is Role.WRITER
    assert tokens.check(secret + "x") is None
    assert secret not in repr(made)


def test_a_token_ends_when_it_expires_or_is_revoked(tokens: Tokens, database: TeamDatabase) -> None:
    made, secret = tokens.create("ana", projects=["shop"], role="reader", expires=timedelta(days=1))
    assert tokens.check(secret) is not None
    with database.transaction() as session:
        session.execute("UPDATE token SET expires_at = now() - interval '1 second'")
    assert tokens.check(secret) is None
    other, second = tokens.create("ben", projects=["shop"], role="reader")
    assert tokens.revoke(other.id).revoked_at is not None
    assert tokens.check(second) is None
    with pytest.raises(FileMissing, match="no token 999"):
        tokens.revoke(999)
    assert [one.id for one in tokens.list()] == [made.id, other.id]


def test_a_token_loses_its_right_to_a_project_that_is_removed(tokens: Tokens, database: TeamDatabase) -> None:
    _, secret = tokens.create("ana", projects=["shop", "bank"], role="writer")
    _, only = tokens.create("ben", projects=["shop"], role="admin")
    project = Projects(database).remove("shop")
    Projects(database).add("shop", repository=project.repository)
    found, other = tokens.check(secret), tokens.check(only)
    assert found is not None
    assert found.access.projects == ["bank"]
    assert other is None or other.access.projects == []


def test_a_replica_believes_what_it_saw_of_a_token_for_a_moment_only(tokens: Tokens) -> None:
    now = [100.0]
    cache = TokenCache(tokens, clock=lambda: now[0])
    made, secret = tokens.create("ana", projects=["shop"], role="reader")
    assert cache.cached(secret) is None, "the database has to be asked"
    assert cache.check(secret) is not None
    tokens.revoke(made.id)
    now[0] += BELIEVED_SECONDS / 2
    assert cache.cached(secret) == (cache.check(secret),) != (None,)
    now[0] += BELIEVED_SECONDS
    assert cache.cached(secret) is None
    assert cache.check(secret) is None
    assert cache.cached(secret) == (None,), "that it holds no more is remembered, too"
    assert BELIEVED_SECONDS < 5
    assert cache.check("eyJhbGciOi") is None


def test_what_cannot_be_a_token_is_refused(tokens: Tokens) -> None:
    with pytest.raises(FileMissing, match="no project nowhere"):
        tokens.create("ana", projects=["nowhere"], role="reader")
    with pytest.raises(MissingParameter, match="needs a project"):
        tokens.create("ana", projects=[], role="reader")
    with pytest.raises(BadParameter, match="no role"):
        tokens.create("ana", projects=["shop"], role="owner")
    with pytest.raises(BadParameter, match="no name for a user"):
        tokens.create("ana@https://issuer.example", projects=["shop"], role="reader")
    with pytest.raises(BadParameter, match="for no project"):
        tokens.create("ops", projects=["shop"], role="operator")
    with pytest.raises(BadParameter, match="no length of time"):
        read_duration("90 years")
    assert read_duration("90d") == timedelta(days=90)


def test_an_operator_reads_numbers_and_no_project(tokens: Tokens) -> None:
    _, secret = tokens.create("ops", projects=[], role="operator")
    faults = tokens.check(secret)
    assert faults is not None
    assert faults.access.operator
    assert faults.access.projects == []


def test_people_of_a_project_are_told_with_their_highest_role(tokens: Tokens) -> None:
    tokens.create("ana", projects=["shop"], role="reader")
    tokens.create("ana", projects=["shop", "bank"], role="writer")
    gone, _ = tokens.create("eve", projects=["shop"], role="admin")
    tokens.revoke(gone.id)
    assert tokens.people(["shop"]) == {"shop": {"ana": "writer"}}


def test_the_command_makes_lists_and_revokes(
    tokens: Tokens, database: TeamDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    index = ["--index", database.url]
    create = ["team", "token", "create", "--user", "ana", "--project", "shop", "--role", "writer"]
    assert run([*create, "--json", *index]) == 0
    made = json.loads(capsys.readouterr().out)["data"]
    assert tokens.check(made["token"]) is not None
    assert run([*create, "--expires", "never", *index]) == 0
    assert tokens.check(capsys.readouterr().out.strip()) is not None
    assert run(["team", "token", "list", *index]) == 0
    shown = capsys.readouterr().out
    assert "ana" in shown
    assert PREFIX not in shown
    assert run(["team", "token", "list", "--json", *index]) == 0
    assert made["token"] not in capsys.readouterr().out
    assert run(["team", "token", "revoke", str(made["id"]), *index]) == 0
    assert tokens.check(made["token"]) is None
    assert run(["team", "token", "create", "--user", "ana", "--project", "other", *index]) == 1


def test_a_token_that_ends_up_in_a_note_is_left_out_of_it(tokens: Tokens) -> None:
    _, secret = tokens.create("ana", projects=["shop"], role="reader")
    for text in (f"I use {secret} here.", f"Authorization: Bearer {secret}", f"url?x={secret}&y"):
        assert secret not in redact(text).text
