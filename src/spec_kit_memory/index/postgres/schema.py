"""Is the schema ours and up to date? Numbered migrations under an advisory lock, and one row per project."""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from typing import Any

import psycopg
from psycopg import errors

from spec_kit_memory.advice import advise
from spec_kit_memory.errors import DatabaseUnusable

NAME = "spec_kit_memory"  # the schema
ROLE = "spec_kit_memory_app"  # taken by every transaction; its rights are limited to the rows of one project
VERSION = 6
_LOCK = 0x534B4D  # the key of the advisory lock for migrations
_OLDEST = 160_000  # server version 16

Raw = psycopg.Connection[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Opened:
    project: int
    instance: str  # of the project: its id may be another project's in a database that was made anew
    checkout: int
    read_only: bool
    extension: str  # the schema that contains pgvector


def open_project(raw: Raw, name: str, where: str, *, checkout: str, read_only: bool) -> Opened:
    """Bring the schema up to date, and find or create the project and the checkout with these names."""
    fixed, extension = prepare(raw, where, read_only=read_only)
    project = add_project(raw, name, where, fixed=fixed)
    with raw.transaction(force_rollback=True):
        raw.execute(b"SELECT set_config('skm.project', %s, true)", (str(project),))
        instance = str(_one(raw, f"SELECT instance FROM {NAME}.counter WHERE project_id = %s", (project,)))
    return Opened(project, instance, _checkout(raw, project, checkout, fixed=fixed, where=where), fixed, extension)


def prepare(raw: Raw, where: str, *, read_only: bool = False) -> tuple[bool, str]:
    """Bring the schema up to date; returns whether it is read-only, and the schema that contains pgvector."""
    number = raw.info.server_version
    if number < _OLDEST:
        raise DatabaseUnusable(
            f"{where} is PostgreSQL {number // 10_000}", hint="16 and later are supported: upgrade the server"
        )
    encoding = raw.info.parameter_status("server_encoding")
    if encoding not in ("UTF8", None):  # a pooler may not report it
        raise DatabaseUnusable(
            f"{where} is a database in {encoding}, which cannot hold every text",
            hint="make one with `CREATE DATABASE NAME ENCODING 'UTF8' TEMPLATE template0`",
        )
    fixed = read_only or bool(_one(raw, "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::bool"))
    version = _version(raw, where)
    if version < VERSION:
        if fixed:
            raise DatabaseUnusable(f"there is no index at {where}", hint=advise("index"))
        _migrate(raw, where)
    return fixed, _extension(raw, where)


def _one(raw: Raw, sql: str, values: tuple[Any, ...] = ()) -> Any:
    row = raw.execute(sql.encode(), values).fetchone()
    return None if row is None else row[0]


def _version(raw: Raw, where: str) -> int:
    # One statement, so one snapshot: another process may be creating schema and tables right now.
    ours = _one(
        raw,
        "SELECT EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = n.oid AND relname = 'version')"
        " FROM pg_namespace n WHERE nspname = %s",
        (NAME,),
    )
    if ours is None:
        return 0
    if not ours:
        raise DatabaseUnusable(
            f"{where} has a schema {NAME} that is not ours", hint="use another database for the index"
        )
    version = int(_one(raw, f"SELECT max(number) FROM {NAME}.version"))
    require_known(version, where)
    return version


def require_known(version: int, where: str) -> None:
    """Refuse a newer schema: its rows may mean something else. It may be upgraded while this process has it open."""
    if version > VERSION:
        raise DatabaseUnusable(
            f"{where} has schema version {version}; this program knows versions up to {VERSION}",
            hint="upgrade with `pip install --upgrade spec-kit-memory`",
        )


def _migrate(raw: Raw, where: str) -> None:
    folder = resources.files("spec_kit_memory.index.postgres") / "migrations"
    scripts = sorted((path for path in folder.iterdir() if path.name.endswith(".sql")), key=lambda path: path.name)
    with raw.transaction():
        raw.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        version = _version(raw, where)  # again: another process may have been first
        if version < VERSION and not _one(raw, "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"):
            raise _no_vector(where)
        if version:
            _act_as_owner(raw)
        for number, script in enumerate(scripts, start=1):
            if number > version:
                if number == 1:
                    _make_role(raw)
                    if _one(raw, "SELECT current_schema()") is None:  # no schema of the user's search_path exists
                        raw.execute("SET LOCAL search_path = public")
                    raw.execute("CREATE EXTENSION IF NOT EXISTS vector")
                    _let_role_use_extension(raw, where)
                raw.execute(script.read_text(encoding="utf-8").replace("@role", ROLE).encode())
                raw.execute(f"INSERT INTO {NAME}.version (number) VALUES (%s)".encode(), (number,))


def _act_as_owner(raw: Raw) -> None:
    """Until the transaction ends: what an administrator or a colleague adds belongs to whom the rest belongs to."""
    owner = "SELECT quote_ident(rolname) FROM pg_namespace JOIN pg_roles r ON r.oid = nspowner WHERE nspname = %s"
    raw.execute(f"SET LOCAL ROLE {_one(raw, owner, (NAME,))}".encode())


def _make_role(raw: Raw) -> None:
    """Create the role unless it exists. Roles belong to the whole server, so another database may have created it."""
    if not _one(raw, "SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,)):
        try:
            with raw.transaction():
                raw.execute(f"CREATE ROLE {ROLE} NOLOGIN NOSUPERUSER NOBYPASSRLS".encode())
        except (errors.DuplicateObject, errors.UniqueViolation):
            pass  # another process created it at the same moment
    if _one(raw, "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = %s", (ROLE,)):
        raise DatabaseUnusable(f"the role {ROLE} may see every row", hint=f"ALTER ROLE {ROLE} NOSUPERUSER NOBYPASSRLS")
    if not _one(raw, "SELECT pg_has_role(current_user, %s, 'SET')", (ROLE,)):
        raw.execute(f"GRANT {ROLE} TO CURRENT_USER".encode())


def _extension(raw: Raw, where: str) -> str:
    """The schema that contains pgvector, which every transaction must be able to use."""
    name, is_usable = _extension_place(raw)
    if not name:
        raise _no_vector(where)
    if not is_usable:
        users = f'{ROLE}, "{_one(raw, "SELECT current_user")}"'
        raise DatabaseUnusable(
            f"{where}: permission denied for schema {name}, which contains pgvector",
            hint=f'as administrator of the server, in this database: `GRANT USAGE ON SCHEMA "{name}" TO {users}`',
        )
    return name


def _extension_place(raw: Raw) -> tuple[str, bool]:
    """The schema of pgvector, empty if there is none, and whether the role and this user may use what is in it."""
    rights = f"has_schema_privilege(n.oid, 'USAGE') AND has_schema_privilege('{ROLE}', n.oid, 'USAGE')"
    sql = f"SELECT nspname, {rights} FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace"
    row = raw.execute(f"{sql} WHERE extname = 'vector'".encode()).fetchone()
    return (str(row[0]), bool(row[1])) if row else ("", False)


def _let_role_use_extension(raw: Raw, where: str) -> None:
    """Many services keep extensions in a schema that not everybody may use: grant it, if this user may."""
    name, is_usable = _extension_place(raw)
    if not is_usable:
        with suppress(errors.InsufficientPrivilege), raw.transaction():
            raw.execute(f'GRANT USAGE ON SCHEMA "{name}" TO {ROLE}'.encode())
    _extension(raw, where)


def add_project(raw: Raw, name: str, where: str, *, fixed: bool = False) -> int:
    """The id of the project with this name, which is created if needed."""
    project_id = _one(raw, f"SELECT id FROM {NAME}.project WHERE name = %s", (name,))
    if project_id is not None:
        return int(project_id)
    if fixed:
        raise DatabaseUnusable(f"there is no project {name} at {where}", hint=advise("index"))
    with raw.transaction():
        raw.execute(f"INSERT INTO {NAME}.project (name) VALUES (%s) ON CONFLICT DO NOTHING".encode(), (name,))
        number = int(_one(raw, f"SELECT id FROM {NAME}.project WHERE name = %s", (name,)))
        raw.execute(b"SELECT set_config('skm.project', %s, true)", (str(number),))
        raw.execute(
            f"INSERT INTO {NAME}.counter (project_id, instance) VALUES (%s, %s) ON CONFLICT DO NOTHING".encode(),
            (number, secrets.token_hex(8)),
        )
    return number


def _checkout(raw: Raw, project: int, name: str, *, fixed: bool, where: str) -> int:
    with raw.transaction(force_rollback=True):
        number = _named_checkout(raw, project, name)
    if number is not None:
        return int(number)
    if fixed:
        raise DatabaseUnusable(f"this checkout was never indexed at {where}", hint=advise("index"))
    with raw.transaction():
        if _named_checkout(raw, project, name) is None:
            unnamed = f"SELECT id FROM {NAME}.checkout WHERE project_id = %s AND name IS NULL FOR UPDATE"
            taken = f"UPDATE {NAME}.checkout SET name = %s WHERE id = ({unnamed}) AND name IS NULL"
            raw.execute(taken.encode(), (name, project))
            sql = f"INSERT INTO {NAME}.checkout (project_id, name) VALUES (%s, %s) ON CONFLICT DO NOTHING"
            raw.execute(sql.encode(), (project, name))
        return int(_named_checkout(raw, project, name))


def _named_checkout(raw: Raw, project: int, name: str) -> Any:
    raw.execute(b"SELECT set_config('skm.project', %s, true)", (str(project),))
    return _one(raw, f"SELECT id FROM {NAME}.checkout WHERE project_id = %s AND name = %s", (project, name))


def _no_vector(where: str) -> DatabaseUnusable:
    return DatabaseUnusable(
        f"{where} has no extension pgvector", hint="install pgvector on the server (package postgresql-NN-pgvector)"
    )
