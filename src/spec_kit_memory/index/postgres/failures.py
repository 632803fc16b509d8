"""Which of our errors does an error of PostgreSQL become? One with a hint, and never with a password."""

from __future__ import annotations

import re

import psycopg
from psycopg import errors
from psycopg_pool import PoolClosed, PoolTimeout

from spec_kit_memory.advice import advise
from spec_kit_memory.errors import DatabaseBusy, DatabaseCorrupt, DatabaseUnusable, SpecKitMemoryError

FOREIGN = (psycopg.Error, PoolTimeout, PoolClosed)
_PASSWORD = re.compile(
    r"(://[^/@:\s]*:)[^@/\s]*@|(\b(?:password|passfile|sslpassword)\s*=\s*)(?:'[^']*'|[^\s&]+)", re.I
)

# A failure to connect has no error code, only a message of the server or of a pooler.
_CONNECTING: tuple[tuple[re.Pattern[str], type[psycopg.Error]], ...] = (
    (re.compile(r'database "[^"]*" does not exist|no such database'), errors.InvalidCatalogName),
    (
        re.compile(
            r'password|role "[^"]*" (does not exist|is not permitted to log in)|no such user|no pg_hba\.conf entry'
            r"|authentication failed"
        ),
        errors.InvalidPassword,
    ),
    (re.compile(r"permission denied for database"), errors.InsufficientPrivilege),
    (
        re.compile(r"too many (clients|connections)|remaining connection slots|no more connections allowed"),
        errors.TooManyConnections,
    ),
    # The server itself needs disk space to accept a connection.
    (re.compile(r"No space left on device"), errors.DiskFull),
)


def masked(text: str) -> str:
    """The text without the password that a URL or a connection string may contain."""
    return _PASSWORD.sub(lambda match: f"{match[1]}***@" if match[1] else f"{match[2]}***", text)


def busy(where: str) -> DatabaseBusy:
    """The error for a wait for other writers that timed out."""
    return DatabaseBusy(f"another process writes to {where}", hint="try again in a moment")


def as_ours(error: BaseException, where: str) -> SpecKitMemoryError:
    match error:
        case errors.QueryCanceled() if "statement timeout" in str(error):
            return DatabaseUnusable(
                f"{where} allows no statement to take as long as this one", hint="raise statement_timeout for this user"
            )
        case psycopg.Error() if "transaction timeout" in str(error):
            return DatabaseUnusable(
                f"{where} allows no transaction to take as long as this one",
                hint="raise transaction_timeout for this user",
            )
        case errors.QueryCanceled():  # also raised for statement_timeout, if that expires just after a statement
            return DatabaseUnusable(
                f"{where} ended a statement before it was done: {_first_line(error)}",
                hint="try again; where statement_timeout is short, raise it for this user",
            )
        case errors.LockNotAvailable():
            return busy(where)
        case errors.TooManyConnections() | PoolTimeout() | errors.CannotConnectNow():
            return DatabaseBusy(
                f"{where} takes no more connections now", hint="try again; raise max_connections or use a pooler"
            )
        case errors.DiskFull():
            return DatabaseUnusable(
                f"the disk of {where} is full; nothing was changed", hint="free some space on the server and try again"
            )
        case errors.ReadOnlySqlTransaction():
            return DatabaseUnusable(
                f"{where} can only be read: it is a replica or is set so", hint="set index.url to the primary server"
            )
        case errors.InvalidPassword() | errors.InvalidAuthorizationSpecification():
            return DatabaseUnusable(
                f"{where} refused the sign-in: {_first_line(error)}",
                hint="check the user, and the password in PGPASSWORD, .pgpass or a service file",
            )
        case errors.InsufficientPrivilege():
            return DatabaseUnusable(f"{where}: {_first_line(error)}", hint=_lacking_right(str(error)))
        case errors.UndefinedTable() | errors.UndefinedColumn():
            return DatabaseUnusable(
                f"{where} has other tables than this program knows: {_first_line(error)}",
                hint="another version may have changed them: `pip install --upgrade spec-kit-memory`",
            )
        case errors.InvalidCatalogName():
            return DatabaseUnusable(
                f"{where}: {_first_line(error)}", hint="create the database first (`createdb NAME`)"
            )
        case errors.IndexCorrupted() | errors.DataCorrupted():
            return DatabaseCorrupt(f"{where} is damaged: {_first_line(error)}", hint="restore a backup of the database")
        case PoolClosed():
            return DatabaseUnusable(f"the index {where} was closed", hint="open the workspace again")
        case psycopg.OperationalError() | psycopg.InterfaceError():
            text = _first_line(error)
            for pattern, kind in _CONNECTING:
                if pattern.search(text):
                    return as_ours(kind(text), where)
            return DatabaseUnusable(
                f"{where} cannot be reached: {text}", hint="is the server running, and does this machine reach it?"
            )
    if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:  # raised before anything was sent
        hint = "index.url is `sqlite`, or postgresql://HOST/DATABASE, perhaps with parameters of PostgreSQL's own"
        return DatabaseUnusable(f"{where}: {_first_line(error)}", hint=hint)
    return DatabaseUnusable(f"{where}: {_first_line(error)}", hint=advise("health"))


def _lacking_right(text: str) -> str:
    """The command for the server's administrator. The hint names it because an installed package has no docs."""
    if "create role" in text:
        return (
            "as administrator of the server: `ALTER ROLE USER CREATEROLE`, or"
            " `CREATE ROLE spec_kit_memory_app NOLOGIN; GRANT spec_kit_memory_app TO USER`"
        )
    if "create extension" in text:
        return "as administrator of the server, in this database: `CREATE EXTENSION vector`"
    if "for database" in text:
        return "as administrator of the server: `GRANT CONNECT, CREATE ON DATABASE NAME TO USER`"
    if "grant role" in text or ("set role" in text and "spec_kit_memory_app" in text):
        return "as administrator of the server: `GRANT spec_kit_memory_app TO USER`"
    return "as administrator of the server: `GRANT OWNER TO USER WITH INHERIT TRUE`; OWNER is who owns the database"


def _first_line(error: BaseException) -> str:
    lines = [line for line in masked(str(error)).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
