"""Which rows hold values that we never write: text in place of a number, invalid JSON, a time outside any year?

SQLite accepts any value in any column, so a damaged file, another program or an index that came with a repository may
contain them. This check runs when something failed for no other reason, and in the full health check.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from spec_kit_memory.advice import Advice, Text, finding
from spec_kit_memory.index.sql.dialect import fetch
from spec_kit_memory.index.sqlite.connection import Connection

_TABLES = (
    *("counter", "content", "memory", "usage", "override", "citation", "link", "history", "ledger", "session"),
    *("document", "alias", "passage", "trigger", "claim", "model", "vector", "token_state", "failure", "bad_file"),
)
_JSON = {
    ("memory", "triggers"): "array",
    ("override", "attributes"): "object",
    ("citation", "files"): "array",
    ("history", "before"): "object",
    ("history", "after"): "object",
    ("ledger", "memory_ids"): "array",
    ("ledger", "operation"): "object",
    ("session", "attention"): "array",
    ("session", "sent"): "array",
    ("document", "said"): "object",
    ("document", "warnings"): "array",
    ("alias", "triggers"): "array",
}
_KINDS = {"INTEGER": "'integer'", "REAL": "'real', 'integer'", "TEXT": "'text'", "BLOB": "'blob'"}
_LAST_MOMENT = 253_402_300_799_999_999  # the end of the year 9999 in microseconds; counts and ids are far below
_LAST_NS = 9_000_000_000_000_000_000
_LARGEST_REAL = 1e300
# Faults that hide rows from all users, or from their owner.
_INVISIBLE = {
    finding("texts-not-recorded"): "memory WHERE presence = 'live' AND content_hash NOT IN (SELECT hash FROM content)",
}
_UNREADABLE_LEDGER = {finding("times-of-ledger-unreadable"): "ledger WHERE julianday(at) IS NULL"}


def _largest(column: str) -> int:
    """The largest integer that we write to a column."""
    return _LAST_NS if column.endswith("_ns") else _LAST_MOMENT


def is_too_large(column: str, value: object) -> bool:
    """Is it a number larger than any that we write, or not a number (NaN)?"""
    if isinstance(value, int):
        return abs(value) > _largest(column)
    return isinstance(value, float) and not abs(value) <= _LARGEST_REAL


def find_invalid_values(connection: Connection) -> list[Text]:
    """One finding for each column that contains such a value."""
    messages = [message for table in _TABLES for message in _check_table(connection, table)]
    return messages or [*find_invisible(connection), *_present(connection, _UNREADABLE_LEDGER)]


def find_invisible(connection: Connection) -> list[Text]:
    """Reasons why stored memories may be invisible."""
    return _present(connection, _INVISIBLE)


def _present(connection: Connection, faults: Mapping[Advice, str]) -> list[Text]:
    return [message for message, rows in faults.items() if fetch(connection, f"SELECT 1 FROM {rows} LIMIT 1")]


def _check_table(connection: Connection, table: str) -> Iterator[Text]:
    for _, name, kind, required, _, key in fetch(connection, f'PRAGMA table_info("{table}")'):
        if kind not in _KINDS:
            continue
        wrong = _wrong_type(table, str(name), str(kind))
        empty = f'"{name}" IS NULL OR ' if required or key else ""
        sql = f'SELECT 1 FROM "{table}" WHERE {empty}("{name}" IS NOT NULL AND ({wrong})) LIMIT 1'
        if fetch(connection, sql):
            yield finding("column-unfit", table=table, column=str(name))


def _wrong_type(table: str, name: str, kind: str) -> str:
    wrong = f'typeof("{name}") NOT IN ({_KINDS[kind]})'
    if kind == "INTEGER":
        return f'{wrong} OR "{name}" NOT BETWEEN -{_largest(name)} AND {_largest(name)}'
    if kind == "REAL":
        return f'{wrong} OR abs("{name}") > {_LARGEST_REAL}'
    if shape := _JSON.get((table, name)):
        return f'{wrong} OR CASE WHEN json_valid("{name}") THEN json_type("{name}") <> \'{shape}\' ELSE 1 END'
    return wrong
