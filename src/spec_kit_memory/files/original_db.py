"""What does a database of the original system contain that its files do not?

Use, validations, links and history, read when it is imported. The database is opened read only. Its tables
changed over the versions, so every column may be missing; a row that makes no sense is a warning. It may have come
with a repository, so no value is trusted.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from spec_kit_memory.advice import Advice, finding
from spec_kit_memory.core.links import read_relation
from spec_kit_memory.core.memory import Actor, ContextType, Event, Relation, Tier
from spec_kit_memory.core.text_encoding import without_lone_surrogates
from spec_kit_memory.core.wording import short
from spec_kit_memory.errors import AccessDenied, DatabaseCorrupt, FileMissing, Invalid, UnknownRelation
from spec_kit_memory.index.statement_steps import TOO_MANY_ROWS, StepLimit, bytes_of

if TYPE_CHECKING:
    import apsw

_MOST_BYTES = 64_000_000  # of one row
# Forged rows can share their pages, so that a small file has gigabytes of them.
_ALWAYS_BYTES, _TIMES_ITS_SIZE, _ROW_BYTES = 1_000_000, 4, 8
_MOST_LEVELS = 20  # of a history value; the original wrote the columns of a row
_HINT = "Name the original system's context-index.sqlite or memory-index.sqlite."


@dataclass(frozen=True, slots=True)
class OriginalMemory:
    """One file in the original's database. `below_specs` is how it is matched with a file here."""

    ids: tuple[str, ...]  # one row per file, or one per anchor of it
    path: str
    spec_folder: str | None = None
    title: str = ""
    tier: Tier | None = None
    context_type: ContextType | None = None
    weight: float | None = None
    triggers: tuple[str, ...] = ()
    created_at: datetime | None = None
    access_count: float = 0.0
    last_access: datetime | None = None
    validation_count: int = 0
    confidence: Decimal = Decimal("0.5")
    content: str | None = None

    @property
    def below_specs(self) -> str:
        """The path from its last `specs/` on, independent of the machine; else the whole path."""
        path = self.path.replace("\\", "/")
        at = path.rfind("/specs/")
        if at >= 0:
            return path[at + 1 :]
        return path if path.startswith("specs/") else path.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class OriginalLink:
    source_id: str
    target_id: str
    relation: Relation
    strength: float = 1.0
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class OriginalEvent:
    memory_id: str
    event: Event
    before: Mapping[str, object] | None
    after: Mapping[str, object] | None
    actor: Actor
    at: datetime | None


@dataclass(frozen=True, slots=True)
class OriginalCheckpoint:
    """The name of a checkpoint. Its content is not imported: the original stored no vectors and few columns."""

    name: str
    description: str = ""
    created_at: datetime | None = None
    memories: int = 0


@dataclass(frozen=True, slots=True)
class OriginalData:
    memories: tuple[OriginalMemory, ...] = ()
    links: tuple[OriginalLink, ...] = ()
    history: tuple[OriginalEvent, ...] = ()
    checkpoints: tuple[OriginalCheckpoint, ...] = ()
    warnings: tuple[Advice, ...] = ()

    def by_id(self) -> dict[str, OriginalMemory]:
        """Every id of the original and the memory it stands for."""
        return {identifier: memory for memory in self.memories for identifier in memory.ids}


def read_original(path: Path) -> OriginalData:
    """Everything worth keeping of an original database."""
    import apsw

    if not os.path.isfile(path):  # unlike Path.is_file, it does not raise for an impossible name
        raise FileMissing(f"There is no file {path}.", hint=_HINT)
    try:
        connection = _open(path)
        try:
            return _Reader(connection, path).read()
        finally:
            connection.close()
    except apsw.NotADBError:
        raise Invalid(f"{path} is not an SQLite database.", hint=_HINT) from None
    except (apsw.CorruptError, apsw.TooBigError) as error:
        raise _damaged(path, error) from None
    except (apsw.CantOpenError, apsw.PermissionsError, apsw.IOError) as error:
        raise AccessDenied(
            f"{path} cannot be read: {error}.", hint="Copy the database somewhere you may read."
        ) from None


def _damaged(path: Path, reason: object) -> DatabaseCorrupt:
    return DatabaseCorrupt(f"{path} is damaged: {reason}.", hint="Recover it with sqlite3's .recover first.")


def _open(path: Path) -> apsw.Connection:
    import apsw

    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    address = f"file:{quote(str(path.resolve()))}?mode=ro"
    limit = StepLimit(path, lambda: _damaged(path, TOO_MANY_ROWS))  # for all that is read of it
    try:
        connection = apsw.Connection(address, flags=flags)
        limit.watch(connection)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        # A write-ahead log next to it cannot be opened in a read-only folder.
        connection = apsw.Connection(f"{address}&immutable=1", flags=flags)
        limit.watch(connection)
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, _MOST_BYTES)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    return connection


@dataclass(slots=True)
class _Reader:
    connection: apsw.Connection
    path: Path
    warnings: list[Advice] = field(default_factory=list)
    _left: int = 0  # more bytes that the rows may have

    def read(self) -> OriginalData:
        self._left = _ALWAYS_BYTES + _TIMES_ITS_SIZE * bytes_of(self.path)
        # Only stored tables: a virtual one, like a view, could compute rows without end.
        stored = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 LIMIT 1000"
        tables = {str(row[0]) for row in self.connection.execute(stored)}
        if "memory_index" not in tables or "file_path" not in self._columns("memory_index"):
            names = ", ".join(sorted(short(name, 40) for name in tables)[:8]) or "none"
            raise Invalid(
                f"{self.path} is a database of something else: it has no table memory_index (tables: {names}).",
                hint=_HINT,
            )
        memories = self._memories()
        links = self._read_rows("causal_edges", self._link) if "causal_edges" in tables else []
        history = self._read_rows("memory_history", self._event) if "memory_history" in tables else []
        checkpoints = self._read_rows("checkpoints", self._checkpoint) if "checkpoints" in tables else []
        return OriginalData(memories, tuple(links), tuple(history), tuple(checkpoints), tuple(self.warnings))

    def _columns(self, table: str) -> list[str]:
        return [
            str(row[1]) for row in self.connection.execute(f'PRAGMA table_info("{table}")') if '"' not in str(row[1])
        ]

    def _rows(self, table: str) -> Iterator[dict[str, Any]]:
        # Vectors are not imported: they are of another model, and large.
        names = [name for name in self._columns(table) if name not in ("embedding", "snapshot_data", "memory_snapshot")]
        # As bytes, because a text may not be UTF-8.
        chosen = ", ".join(f"""iif(typeof("{name}") = 'text', CAST("{name}" AS BLOB), "{name}")""" for name in names)
        order = ' ORDER BY "id"' if "id" in names else ""
        for row in self.connection.execute(f'SELECT {chosen} FROM "{table}"{order}'):
            self._left -= _ROW_BYTES + sum(len(value) for value in row if isinstance(value, bytes))
            if self._left < 0:
                raise _damaged(self.path, TOO_MANY_ROWS)
            texts = (value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in row)
            yield dict(zip(names, texts, strict=True))

    def _read_rows(self, table: str, read_one: Callable[[dict[str, Any]], Any]) -> list[Any]:
        rows = []
        for number, row in enumerate(self._rows(table), start=1):
            item = read_one(row)
            if item is None:
                self.warnings.append(finding("row-left-out", table=table, row=str(row.get("id", number))))
            else:
                rows.append(item)
        return rows

    def _memories(self) -> tuple[OriginalMemory, ...]:
        by_path: dict[str, list[OriginalMemory]] = {}
        for memory in self._read_rows("memory_index", _memory):
            by_path.setdefault(memory.path, []).append(memory)
        return tuple(map(_together, by_path.values()))

    def _link(self, row: dict[str, Any]) -> OriginalLink | None:
        source, target = _text(row.get("source_id")), _text(row.get("target_id"))
        try:
            relation = read_relation(_text(row.get("relation")))
        except UnknownRelation:
            return None
        if not source or not target or source == target:
            return None
        strength = _number(row.get("strength"), 1.0)
        return OriginalLink(source, target, relation, min(1.0, max(0.0, strength)), _text(row.get("evidence")))

    def _event(self, row: dict[str, Any]) -> OriginalEvent | None:
        memory_id = _text(row.get("memory_id"))
        if not memory_id:
            return None
        if "field_changed" in row:
            changed = _text(row["field_changed"]) or "value"
            before, after = _field(changed, row.get("old_value")), _field(changed, row.get("new_value"))
            return OriginalEvent(memory_id, Event.UPDATE, before, after, Actor.USER, _moment(row.get("changed_at")))
        name = _text(row.get("event")).upper()
        if name not in set(Event):
            return None
        actor = _text(row.get("actor"))
        return OriginalEvent(
            memory_id,
            Event(name),
            _value(row.get("prev_value")),
            _value(row.get("new_value")),
            Actor(actor) if actor in set(Actor) else Actor.SYSTEM,
            _moment(row.get("timestamp") or row.get("created_at") or row.get("changed_at")),
        )

    def _checkpoint(self, row: dict[str, Any]) -> OriginalCheckpoint | None:
        name = _text(row.get("name"))
        if not name:
            return None
        created = _moment(row.get("created_at"))
        return OriginalCheckpoint(
            name, _text(row.get("description")), created, int(_number(row.get("memory_count"), 0))
        )


def _memory(row: dict[str, Any]) -> OriginalMemory | None:
    path = _text(row.get("file_path"))
    if not path or row.get("id") is None:
        return None
    tier, context_type = _text(row.get("importance_tier")), _text(row.get("context_type"))
    weight = row.get("importance_weight")
    return OriginalMemory(
        ids=(_text(row["id"]),),
        path=path,
        spec_folder=_text(row.get("spec_folder")) or None,
        title=_text(row.get("title")),
        tier=Tier(tier) if tier in set(Tier) else None,
        context_type=ContextType(context_type) if context_type in set(ContextType) else None,
        weight=min(1.0, max(0.0, _number(weight, 0.5))) if weight is not None else None,
        triggers=_phrases(row.get("trigger_phrases")),
        created_at=_moment(row.get("created_at")) or _moment(row.get("created_at_epoch")),
        access_count=max(0.0, _number(row.get("access_count"), 0.0)),
        last_access=_moment(row.get("last_accessed")),
        validation_count=max(0, int(_number(row.get("validation_count"), 0))),
        confidence=_confidence(row.get("confidence_score", row.get("confidence"))),
        content=row["content"] if isinstance(row.get("content"), str) else row.get("content_text"),
    )


def _together(memories: Sequence[OriginalMemory]) -> OriginalMemory:
    """Merge the rows of one file (one per anchor): uses are added; the row with the most validations gives the rest."""
    leading = max(memories, key=lambda memory: memory.validation_count)
    return replace(
        leading,
        ids=tuple(identifier for memory in memories for identifier in memory.ids),
        triggers=tuple(dict.fromkeys(phrase for memory in memories for phrase in memory.triggers)),
        access_count=sum(memory.access_count for memory in memories),
        last_access=max((memory.last_access for memory in memories if memory.last_access), default=None),
    )


# --- values -------------------------------------------------------------------------


def _text(value: object) -> str:
    return "" if value is None else str(value).strip()


def _number(value: object, otherwise: float) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return otherwise
    return number if number == number and abs(number) < 1e15 else otherwise


def _confidence(value: object) -> Decimal:
    """Exact to the hundredth: the original added 0.1 and 0.05 as floats, so 0.8 became 0.7999999."""
    try:
        decimal = Decimal(_text(value)).quantize(Decimal("0.01"))
        return min(Decimal(1), max(Decimal(0), decimal))
    except InvalidOperation:  # also raised for NaN
        return Decimal("0.5")


def _phrases(value: object) -> tuple[str, ...]:
    try:
        loaded = without_lone_surrogates(json.loads(_text(value) or "[]"))
    except RecursionError:
        return ()
    except ValueError:
        loaded = _text(value).split(",")
    if not isinstance(loaded, list):
        return ()
    return tuple(dict.fromkeys(phrase.strip() for phrase in loaded if isinstance(phrase, str) and phrase.strip()))


def _field(name: str, value: object) -> Mapping[str, object] | None:
    if value is None:
        return None
    return {name: value if isinstance(value, int | float) and math.isfinite(value) else _text(value)}


def _value(value: object) -> Mapping[str, object] | None:
    """A stored value: an object if it is JSON for one, else the text itself, as where it is nested without sense."""
    if value is None:
        return None
    try:
        # JSON has no infinity: such numbers stay texts.
        read = json.loads(_text(value), parse_constant=str, parse_float=_finite)
        loaded = without_lone_surrogates(read)
        loaded = loaded if _levels(loaded) <= _MOST_LEVELS else _text(value)
    except (ValueError, RecursionError):
        loaded = _text(value)
    return loaded if isinstance(loaded, dict) else {"value": loaded}


def _finite(number: str) -> float | str:
    return float(number) if math.isfinite(float(number)) else number


def _levels(value: object) -> int:
    """How deep objects and lists are nested."""
    levels, within = 0, [value]
    while within := [item for item in within if isinstance(item, dict | list)]:
        levels += 1
        within = [child for item in within for child in (item.values() if isinstance(item, dict) else item)]
    return levels


def _moment(value: object) -> datetime | None:
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
            return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        except OverflowError:
            return None
        except ValueError:
            value = _number(value, 0.0)
    if not isinstance(value, int | float) or value <= 0:
        return None
    seconds = value / 1000 if value > 1e11 else value
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
