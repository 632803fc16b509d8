"""What can be taken over from a damaged index into a new one?

All recorded rows that can be read and make sense. A memory whose row is lost is restored from its history, which
records its state after each change; so are overrides, validations and links that a person made. Rows that stay lost
are counted. If the ledger lost entries, its chain keeps the gap: verification reports it, and new entries follow
after it. Conversations, which exist in no file, are indexed again from their recorded text.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from spec_kit_memory.core import ledger, markdown, passages
from spec_kit_memory.core.memory import (
    Actor,
    Change,
    ContextType,
    Event,
    LedgerEntry,
    Mutation,
    Origin,
    Passage,
    Presence,
    Relation,
    Source,
    Tier,
)
from spec_kit_memory.core.operation import Repair
from spec_kit_memory.index import rows
from spec_kit_memory.index.contract import TableReport
from spec_kit_memory.index.sql import passage_rows
from spec_kit_memory.index.sql.dialect import fetch, first
from spec_kit_memory.index.sql.documents import set_attributes
from spec_kit_memory.index.sqlite import companions, schema, text_index
from spec_kit_memory.index.sqlite.connection import Connection
from spec_kit_memory.index.sqlite.old_rows import UNREADABLE, Check, Found, OldIndex, Record
from spec_kit_memory.index.sqlite.pages import Value

_CHAT = "chat://"
_NOBODY = (0,)  # the memory ids of a ledger entry that is about no memory


def salvage(old_file: Path, new_file: Path, change: Change, *, ids: range | None = None) -> Salvaged:
    """Build a new index from what can be read of an old file. Memories whose id is not in `ids` are not taken over."""
    with OldIndex(old_file, _CHECKS, with_log=not _has_anothers_log(old_file)) as old:
        # An older version has fewer tables.
        tables = {name: old.read(name) if name in old.layouts else Found() for name in schema.RECORDED}
        expected = {name: _expected(old, name, tables) for name in _MADE_AGAIN}
        sequences = _sequences(old)
        chats = _Chats.read(old, tables["memory"])
        version = old.version
        page_size = old.page_size
    if ids is not None:
        _drop_foreign(tables, sequences, ids)
    reports = _Mending(tables, ids).run()
    with closing(Connection(str(new_file))) as connection:
        for pragma in (f"page_size = {page_size}", "journal_mode = OFF", "synchronous = OFF", "foreign_keys = OFF"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        connection.execute("BEGIN IMMEDIATE")
        schema.migrate(connection, str(new_file), upto=version)
        _write(connection, tables, reports)
        _raise_sequences(connection, sequences, tables, ids)
        schema.migrate(connection, str(new_file))
        _count_on(connection, tables["counter"], change)
        _record_loss(connection, tables["ledger"], tables["history"], reports, change)
        chats.index(connection)
        _index_from_record(connection, live=False)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
    return Salvaged(reports, expected)


def _has_anothers_log(old_file: Path) -> bool:
    """Does the log next to this file belong to another index? SQLite would mix them."""
    if not companions.has_log_frames(old_file):
        return False
    instances = []
    for with_log in (False, True):
        with OldIndex(old_file, _CHECKS, with_log=with_log) as old:
            instances.append({row["instance"] for row in old.read("counter").rows.values()})
    return bool(instances[0]) and bool(instances[1]) and instances[0] != instances[1]


# Tables whose rows are restored when the files are read again: identifying columns, and the index that has them.
_MADE_AGAIN = {
    "content": ("hash", "sqlite_autoindex_content_1"),
    "link": ("source_id, target_id, relation", "sqlite_autoindex_link_1"),
}


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What was taken over, by table. For some tables the losses are known only after the files were read again."""

    tables: Mapping[str, TableReport]
    expected: Mapping[str, frozenset[tuple[Value, ...]]]  # the rows of the old file, for tables that lost some

    def report(self, new_file: Path) -> dict[str, TableReport]:
        """What was read, restored and lost, for the completed new file."""
        tables = dict(self.tables)
        with closing(Connection(str(new_file))) as connection:
            for name, expected in self.expected.items():
                if expected:
                    columns, _ = _MADE_AGAIN[name]
                    present = set(fetch(connection, f"SELECT {columns} FROM {name}"))
                    lost = len(expected - present)
                    restored = max(0, len(expected) - lost - tables[name].read)
                    tables[name] = replace(tables[name], lost=lost, restored=restored)
        return tables


def _expected(old: OldIndex, name: str, tables: Mapping[str, Found]) -> frozenset[tuple[Value, ...]]:
    """The rows in an index of the table; for texts also those that memories and their history refer to."""
    if tables[name].whole:
        return frozenset()
    columns, index = _MADE_AGAIN[name]
    mentioned = set[tuple[Value, ...]]()
    if name == "content":
        mentioned |= {(row["content_hash"],) for row in tables["memory"].rows.values()}
        mentioned |= {(row[side],) for row in tables["history"].rows.values() for side in ("hash_before", "hash_after")}
        if tables["memory"].whole and tables["history"].whole:  # there is no other text
            return frozenset(mentioned - {(None,)})
    entries, _ = old.entries(name, index)
    return frozenset({*(entry[: len(columns.split(","))] for entry in entries), *mentioned} - {(None,)})


# --- does a row make sense?


def _check_counter(row: Record) -> None:
    if row["id"] != 1 or not row["instance"]:
        raise ValueError("not the counter")


def _check_content(row: Record) -> None:
    _check_hash(row["hash"])
    rows.unpack(row["text"])  # it contains its own checksum


def _check_memory(row: Record) -> None:
    Source(row["source"])
    Tier(row["tier"])
    ContextType(row["context_type"])
    Presence(row["presence"])
    _check_hash(row["content_hash"])
    _list(row["triggers"])
    for name in ("created_at", "expires_at", "first_indexed_at", "updated_at"):
        rows.when(row[name])
    if row["id"] < 1 or not row["path"]:
        raise ValueError("not a memory")


def _check_usage(row: Record) -> None:
    rows.when(row["last_access"])
    if not 0 <= Decimal(row["confidence"]) <= 1 or row["validation_count"] < 0 or row["access_count"] < 0:
        raise ValueError("not a count of use")


def _check_override(row: Record) -> None:
    _object(row["attributes"])


def _check_link(row: Record) -> None:
    Relation(row["relation"])
    Origin(row["origin"])
    rows.when(row["created_at"])
    if row["source_id"] == row["target_id"]:
        raise ValueError("not a link")


def _check_history(row: Record) -> None:
    Event(row["event"])
    Actor(row["actor"])
    rows.moment(row["at"])
    for name in ("before", "after"):
        if row[name] is not None:
            _object(row[name])


def _check_ledger(row: Record) -> None:
    Mutation(row["type"])
    datetime.fromisoformat(row["at"])
    _list(row["memory_ids"])
    _check_hash(row["hash"])
    _check_hash(row["previous"])
    if row.get("operation") is not None and _object(row["operation"]).get("id") != row["operation_id"]:
        raise ValueError("not the operation that it is found by")


def _check_session(row: Record) -> None:
    rows.when(row["seen_at"])
    _list(row["attention"])
    _list(row["sent"])


def _check_hash(text: str) -> None:
    if len(text) != 64 or not all(character in "0123456789abcdef" for character in text):
        raise ValueError("not a hash")


def _list(text: str) -> list[Any]:
    value = json.loads(text)
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def _check_list(text: str) -> None:
    _list(text)


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise TypeError("not an object")
    return value


_CHECKS: Mapping[str, Check] = {
    "counter": _check_counter,
    "content": _check_content,
    "memory": _check_memory,
    "usage": _check_usage,
    "override": _check_override,
    "citation": lambda row: _check_list(row["files"]),
    "link": _check_link,
    "history": _check_history,
    "ledger": _check_ledger,
    "session": _check_session,
}


# --- restoring lost rows


class _Mending:
    """Restores lost rows of some tables from the others, and counts those that stay lost."""

    def __init__(self, tables: Mapping[str, Found], ids: range | None) -> None:
        self._found = tables
        self._ids = ids
        self._read = {name: len(table.rows) for name, table in tables.items()}
        self._history = sorted(tables["history"].rows.values(), key=lambda row: row["sequence"])

    def run(self) -> dict[str, TableReport]:
        created = dict.fromkeys(self._found, 0)
        for name, mend in (
            ("memory", self._memories),
            ("usage", self._use),
            ("override", self._overrides),
            ("link", self._links),
        ):
            if not self._found[name].whole:
                created[name] = mend()
        self._judge()
        self._settle_paths()
        dropped = self._drop_loose()
        return {
            name: TableReport(
                read=self._read[name] - dropped.get(name, 0),
                restored=created[name],
                lost=self._lost(name) + dropped.get(name, 0),
                complete=self._found[name].complete,
            )
            for name in self._found
        }

    def _judge(self) -> None:
        """Use evidence in other tables to decide which rows are missing, and whether all missing rows are known."""
        history, entries = self._found["history"], self._found["ledger"]
        if not history.whole:
            history.lost |= _gaps(history, history.lost)
        if not entries.whole:
            evidence = [row["ledger_sequence"] for row in self._history if row.get("ledger_sequence")]
            entries.lost |= _gaps(entries, evidence)
            entries.complete = history.complete and bool(evidence)  # each entry was written with its history
        if history.complete:
            self._found["override"].complete = True  # the history contains all of them
        counter = self._found["counter"]
        counter.lost, counter.complete = (set() if counter.rows else {1}), True

    def _lost(self, name: str) -> int:
        """How many rows are known to be missing, without those that were restored."""
        table = self._found[name]
        table.lost -= set(table.rows)
        return table.lost_count

    def _states(self) -> dict[int, tuple[Record, dict[str, Any]]]:
        """The last history row of each memory, and its state then."""
        states: dict[int, tuple[Record, dict[str, Any]]] = {}
        for row in self._history:
            text = row["after"] or row["before"]
            state = _object(text) if text else {}
            if "content_hash" in state and (self._ids is None or schema.is_one_of(row["memory_id"], self._ids)):
                states[row["memory_id"]] = row, state
        return states

    def _memories(self) -> int:
        memory, count = self._found["memory"], 0
        presences = self._presences()
        for id_, (row, state) in self._states().items():
            if id_ in memory.rows:
                continue
            presence = state["presence"] if row["event"] != Event.DELETE else presences.get(id_) or _left(row)
            record = _memory_from(id_, row, state, presence)
            try:
                _check_memory(record)
            except UNREADABLE:
                continue
            memory.rows[id_] = record
            count += 1
        return count

    def _settle_paths(self) -> None:
        """Keep one live memory per path: the one that changed last."""
        live = [row for row in self._found["memory"].rows.values() if row["presence"] == Presence.LIVE]
        taken: set[str] = set()
        for row in sorted(live, key=lambda row: row["updated_at"], reverse=True):
            if row["path"] in taken:
                row["presence"] = str(Presence.GONE)
            taken.add(row["path"])

    def _presences(self) -> dict[int, str]:
        """The presence of each memory after its last ledger entry."""
        presences: dict[int, str] = {}
        for row in sorted(self._found["ledger"].rows.values(), key=lambda row: row["sequence"]):
            ids = _list(row["memory_ids"])
            if ids and row.get("presence"):
                presences[ids[0]] = row["presence"]
        return presences

    def _use(self) -> int:
        """Restore validations from the history; access counts are not in it."""
        use, count = self._found["usage"], 0
        for id_, (_, state) in self._states().items():
            if id_ not in use.rows and state.get("validation_count"):
                use.rows[id_] = {
                    "memory_id": id_,
                    "access_count": 0.0,
                    "last_access": None,
                    "validation_count": state["validation_count"],
                    "confidence": str(state["confidence"]),
                    "used": 0,
                }
                count += 1
        return count

    def _overrides(self) -> int:
        overrides: dict[int, dict[str, Any]] = {}
        for row in self._history:
            state = _object(row["after"]) if row["after"] else {}
            if "overrides" in state:
                overrides[row["memory_id"]] = state["overrides"] or {}
        override, count = self._found["override"], 0
        for id_, attributes in overrides.items():
            if attributes and id_ not in override.rows:
                override.rows[id_] = {"memory_id": id_, "attributes": rows.plain(attributes)}
                count += 1
        return count

    def _links(self) -> int:
        """Restore links that a person made; the others are derived from files."""
        newest: dict[tuple[int, int, str], tuple[dict[str, Any], int]] = {}
        for row in self._history:
            before = (_object(row["before"]) if row["before"] else {}).get("link")
            after = (_object(row["after"]) if row["after"] else {}).get("link")
            if before:
                newest.pop((before["source_id"], before["target_id"], before["relation"]), None)
            if after and after["origin"] == Origin.HAND:
                newest[after["source_id"], after["target_id"], after["relation"]] = after, row["at"]
        link = self._found["link"]
        present = {(row["source_id"], row["target_id"], row["relation"]) for row in link.rows.values()}
        count = 0
        for key, (state, at) in newest.items():
            if key not in present:
                taken = [number for number in link.rows if isinstance(number, int)]
                number = max(taken) + 1 if state["id"] in taken else state["id"]
                link.rows[number] = {**state, "id": number, "claimant": None, "created_at": at}
                count += 1
        return count

    def _drop_loose(self) -> dict[str, int]:
        """Drop rows about memories that stay lost: nothing could reach these rows any more."""
        ids = set(self._found["memory"].rows)
        dropped = {}
        about = {
            "usage": ("memory_id",),
            "override": ("memory_id",),
            "citation": ("memory_id",),
            "link": ("source_id", "target_id"),
        }
        for name, columns in about.items():
            table = self._found[name]
            loose = [key for key, row in table.rows.items() if any(row[column] not in ids for column in columns)]
            for key in loose:
                del table.rows[key]
            dropped[name] = len(loose)
        for row in self._found["link"].rows.values():
            if row["claimant"] not in ids:
                row["claimant"] = None
        return dropped


def _left(row: Record) -> str:
    """The presence of a deleted memory with no other evidence: a change by the system means that its file is gone."""
    return Presence.GONE if row["actor"] == Actor.SYSTEM else Presence.FORGOTTEN


def _memory_from(id_: int, row: Record, state: Mapping[str, Any], presence: str) -> Record:
    def micros(name: str) -> int | None:
        return rows.micros(datetime.fromisoformat(state[name])) if state.get(name) else None

    return {
        "id": id_,
        **{name: state[name] for name in ("path", "source", "spec_folder", "title", "tier", "weight", "context_type")},
        "triggers": rows.plain(state["triggers"]),
        "created_at": micros("created_at"),
        "expires_at": micros("expires_at"),
        "session_id": state["session_id"],
        "channel": state["channel"],
        "presence": str(presence),
        "fingerprint": state["fingerprint"],
        "content_hash": state["content_hash"],
        "first_indexed_at": micros("first_indexed_at") or row["at"],
        "updated_at": row["at"],
        "archived_folder": int(state["archived_folder"]),
        "outdated": int(state["outdated"]),
        "owner": state["owner"],
        "project": state["project"],
        "trusted": int(state["trusted"]),
        "vouched": None,
        "forgotten_fingerprint": state["fingerprint"] if presence == Presence.FORGOTTEN else None,
        "changed": 0,
    }


def _gaps(table: Found, evidence: Iterable[Hashable]) -> set[Hashable]:
    """The missing numbers of a table whose rows are numbered consecutively."""
    ids = {key for key in table.rows if isinstance(key, int)}
    last = max((*ids, *(number for number in evidence if isinstance(number, int))), default=0)
    return {number for number in range(1, last + 1) if number not in ids}


# --- the new file


def _write(connection: Connection, tables: Mapping[str, Found], reports: dict[str, TableReport]) -> None:
    connection.execute("DELETE FROM counter")
    for name, table in tables.items():
        records = sorted(table.rows.values(), key=_newest_first)
        if not records:
            continue  # the old version may not have this table
        for record in records:
            columns = ", ".join(f'"{column}"' for column in record)
            marks = ", ".join("?" * len(record))
            connection.execute(f'INSERT OR IGNORE INTO "{name}" ({columns}) VALUES ({marks})', tuple(record.values()))
        written = first(connection, f'SELECT count(*) FROM "{name}"')[0]
        if written < len(records):  # two versions of one row: from a freed page and from the page in use
            report = reports[name]
            reports[name] = replace(report, read=report.read - (len(records) - written))
    connection.execute("DELETE FROM link WHERE origin <> 'hand'")


def _newest_first(record: Record) -> tuple[int, ...]:
    return (-record.get("changed", 0), -record.get("used", 0))


def _sequences(old: OldIndex) -> dict[str, int]:
    """The last id that each table assigned, because an id must never be reused."""
    table = old.read("sqlite_sequence")
    return {
        row["name"]: row["seq"]
        for row in table.rows.values()
        if isinstance(row["name"], str) and isinstance(row["seq"], int) and 0 < row["seq"] < 1 << 62
    }


def _drop_foreign(tables: Mapping[str, Found], sequences: dict[str, int], ids: range) -> None:
    """Drop memories with ids of another vault, and what would give the next memory such an id."""
    memory = tables["memory"]
    for id_ in [id_ for id_ in memory.rows if not schema.is_one_of(id_, ids)]:
        del memory.rows[id_]
        memory.lost.add(("of another vault", id_))
    if sequences.get("memory", ids.start) + 1 not in ids:
        del sequences["memory"]


def _raise_sequences(
    connection: Connection, sequences: Mapping[str, int], tables: Mapping[str, Found], ids: range | None
) -> None:
    mentioned = {
        "memory": (
            *tables["memory"].rows,
            *tables["memory"].lost,
            *(row["memory_id"] for row in tables["history"].rows.values()),
            *(id_ for row in tables["ledger"].rows.values() for id_ in _list(row["memory_ids"])),
        ),
        "history": (*tables["history"].rows, *tables["history"].lost),
        "link": (*tables["link"].rows, *tables["link"].lost),
    }
    for name in {*sequences, *mentioned}:
        numbers = [sequences.get(name, 0), *(number for number in mentioned.get(name, ()) if isinstance(number, int))]
        if name == "memory" and ids is not None:
            numbers = [ids.start - 1, *(number for number in numbers if number in ids)]
        connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
        connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, max(numbers)))


def _count_on(connection: Connection, counter: Found, change: Change) -> None:
    """Raise the counters: other processes compare them with known values, so each must be a new one."""
    if counter.rows:
        connection.execute("UPDATE counter SET generation = generation + 1, epoch = epoch + 1")
    else:
        now = rows.micros(change.at)
        connection.execute("UPDATE counter SET generation = ?1, used = ?1, epoch = ?1", (now,))
    connection.execute("UPDATE memory SET changed = (SELECT generation FROM counter)")
    connection.execute("UPDATE usage SET used = (SELECT used FROM counter) WHERE used > (SELECT used FROM counter)")


def _record_loss(
    connection: Connection, entries: Found, history: Found, reports: Mapping[str, TableReport], change: Change
) -> None:
    """Record the loss in the ledger. The entry skips the numbers of lost entries, so that the gap stays visible."""
    if not any(report.lost or not report.complete for report in reports.values()):
        return
    evidence = [row["ledger_sequence"] for row in history.rows.values() if row.get("ledger_sequence")]
    numbers = [number for number in (*entries.rows, *entries.lost, *evidence) if isinstance(number, int)]
    last = max(numbers, default=0)
    if not entries.complete and not entries.lost:
        last += 1  # the missing entries came after all known ones
    head = connection.execute("SELECT hash FROM ledger ORDER BY sequence DESC LIMIT 1").get
    plain = Repair().plain()
    entry = ledger.seal(
        LedgerEntry(
            sequence=last + 1,
            at=rows.iso(change.at),
            type=Mutation.REINDEX,
            memory_ids=_NOBODY,
            hash_before=None,
            hash_after=None,
            actor=str(change.actor),
            session=change.session,
            reason="rebuilt after damage: something that was recorded could not be read",
            previous=head or ledger.GENESIS,
            hash="",
            version=ledger.VERSION,
            operation=plain,
            history=ledger.history_digest([]),
        )
    )
    connection.execute(
        f"INSERT INTO ledger ({rows.LEDGER}) VALUES ({', '.join('?' * 16)})",
        (
            entry.sequence, entry.at, str(entry.type), rows.plain(list(entry.memory_ids)), None, None, entry.actor,
            entry.session, entry.reason, entry.previous, entry.hash, entry.version, ledger.canonical(plain),
            plain["id"], entry.history, entry.presence,
        ),
    )  # fmt: skip


# --- memories without a readable file


def index_remaining(new_file: Path) -> None:
    """Index memories whose file could not be read from their recorded text; the next scan tries the file again."""
    with closing(Connection(str(new_file))) as connection:
        connection.execute("BEGIN IMMEDIATE")
        _index_from_record(connection, live=True)
        connection.execute("COMMIT")


def _index_from_record(connection: Connection, *, live: bool) -> None:
    """Index memories that are not indexed yet. Gone or forgotten ones stay out of search, but can return."""
    sql = (
        f"SELECT id FROM memory WHERE presence {'=' if live else '<>'} 'live'"
        " AND id NOT IN (SELECT memory_id FROM document) ORDER BY id"
    )
    for (id_,) in fetch(connection, sql):
        text = _text(connection, id_)
        if text is not None:
            _index(connection, id_, text, passages.split(markdown.parse(text)), document={})


def _text(connection: Connection, id_: int) -> str | None:
    sql = "SELECT text FROM memory JOIN content ON content.hash = content_hash WHERE memory.id = ?"
    blob = connection.execute(sql, (id_,)).get
    return None if blob is None else rows.unpack(blob)


def _index(
    connection: Connection, id_: int, text: str, pieces: Sequence[Passage], *, document: Mapping[str, Any]
) -> None:
    title, trusted, presence = first(connection, "SELECT title, trusted, presence FROM memory WHERE id = ?", (id_,))
    values = {
        "said": _attributes(connection, id_),
        "said_trusted": trusted,
        "raw_hash": "",
        "size": 0,
        "mtime_ns": 0,
        "seen_ns": 0,
        "warnings": "[]",
        "redactions": 0,
        **document,
        "memory_id": id_,
        "passages": len(pieces),
        "embedded": 0,
        "tokens": sum(piece.tokens for piece in pieces),
        "vector_status": "pending",
    }
    marks = ", ".join(f":{name}" for name in values)
    connection.execute(f"INSERT INTO document ({', '.join(values)}) VALUES ({marks})", values)
    set_attributes(connection, id_)
    passage_rows.index(connection, id_, title, pieces, keep=False)
    if presence != Presence.LIVE:
        text_index.hide(connection, id_)


def _attributes(connection: Connection, id_: int) -> str:
    names = ", ".join(rows.ATTRIBUTES)
    values = first(connection, f"SELECT {names} FROM memory WHERE id = ?", (id_,))
    plain = dict(zip(rows.ATTRIBUTES, values, strict=True))
    return rows.plain(plain | {"triggers": _list(plain["triggers"])})


class _Chats:
    """Derived rows of conversations. No file contains these, so they are kept, or derived from the recorded text."""

    def __init__(self, documents: Mapping[Hashable, Record], pieces: Mapping[int, list[Record]]) -> None:
        self._documents = documents
        self._pieces = pieces

    @classmethod
    def read(cls, old: OldIndex, memory: Found) -> _Chats:
        chats = {id_ for id_, row in memory.rows.items() if row["path"].startswith(_CHAT)}
        if not chats:
            return cls({}, {})
        pieces: dict[int, list[Record]] = {}
        for row in old.read("passage").rows.values():
            if row["memory_id"] in chats:
                pieces.setdefault(row["memory_id"], []).append(row)
        documents = {id_: row for id_, row in old.read("document").rows.items() if id_ in chats}
        return cls(documents, pieces)

    def index(self, connection: Connection) -> None:
        connection.execute(
            "UPDATE memory SET presence = 'gone' WHERE presence = 'live' AND path GLOB 'chat://*'"
            " AND content_hash NOT IN (SELECT hash FROM content)"
        )
        for (id_,) in fetch(connection, "SELECT id FROM memory WHERE path GLOB 'chat://*' ORDER BY id"):
            text = _text(connection, id_)
            if text is not None:
                _index(connection, id_, text, self._cut(id_, text), document=self._documents.get(id_, {}))

    def _cut(self, id_: int, text: str) -> Sequence[Passage]:
        """The old passages, one for each turn; if some are lost, the text is cut like any other."""
        lines = text.split("\n")
        records = sorted(self._pieces.get(id_, ()), key=lambda row: row["ordinal"])
        try:
            if not records or records[-1]["last_line"] > len(lines):
                raise ValueError("not all passages were found")
            return [_passage(row, lines, ordinal) for ordinal, row in enumerate(records)]
        except (ValueError, TypeError):
            return passages.split(markdown.parse(text))


def _passage(row: Record, lines: list[str], ordinal: int) -> Passage:
    if row["ordinal"] != ordinal or not 1 <= row["first_line"] <= row["last_line"]:
        raise ValueError("not all passages were found")
    return Passage(
        ordinal=ordinal,
        first_line=row["first_line"],
        last_line=row["last_line"],
        text="\n".join(lines[row["first_line"] - 1 : row["last_line"]]),
        hash=row["hash"],
        tokens=row["tokens"],
        anchor=row["anchor"],
        headings=tuple(_list(row["headings"])),
        speaker=row["speaker"],
    )
