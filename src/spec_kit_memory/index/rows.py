"""How are the product's values converted to rows and back?

Times are microseconds since 1970, so that they are exact and compare as numbers. The JSON of history entries and
checkpoints is also written and read here.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache, wraps
from typing import Any, TypeVar

from spec_kit_memory.advice import advise
from spec_kit_memory.core import ledger
from spec_kit_memory.core.citations import CitedFile
from spec_kit_memory.core.memory import (
    Actor,
    Attributes,
    ContextType,
    DocumentWarning,
    Event,
    HistoryEntry,
    LedgerEntry,
    Link,
    Memory,
    Mutation,
    Origin,
    Passage,
    Presence,
    Relation,
    Source,
    StoredPassage,
    Tier,
    VectorStatus,
)
from spec_kit_memory.errors import DatabaseCorrupt, TooLarge

T = TypeVar("T")

REBUILD = advise("rebuild")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)
ATTRIBUTES = tuple(field.name for field in fields(Attributes))

PASSAGE_COLUMNS = "id, memory_id, ordinal, first_line, last_line, hash, tokens, anchor, headings, speaker, question"
PASSAGE = f"{PASSAGE_COLUMNS}, vector_id IS NOT NULL"
LINK = (
    "link.id, link.source_id, link.target_id, link.relation, link.strength, link.evidence, link.origin, link.created_at"
)
LEDGER = (
    "sequence, at, type, memory_ids, hash_before, hash_after, actor, session, reason, previous, hash, version,"
    " operation, operation_id, history, presence"
)
HISTORY = "memory_id, event, before, after, hash_before, hash_after, actor, session, at, spec_folder"


# --- times and text


def micros(time: datetime | None) -> int | None:
    """Microseconds since 1970; a naive time is taken as UTC."""
    if time is None:
        return None
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND


def when(value: int | None) -> datetime | None:
    return None if value is None else moment(value)


def moment(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)


def iso(time: datetime) -> str:
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def clean(text: str) -> str:
    """Replace what cannot be stored: lone surrogates, and NUL characters, which not every engine accepts."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    return text.replace("\x00", "\ufffd") if "\x00" in text else text


LONGEST_TEXT = 64 * 1024 * 1024  # of one memory, in bytes


def pack(text: str) -> bytes:
    """Compress at level 1: a scan waits for it, and it takes a third of the time of level 6 for a tenth more space."""
    data = text.encode("utf-8", "replace")
    if len(data) > LONGEST_TEXT:
        raise TooLarge(f"a text of {len(data) // 1024**2} MB is too long for one memory", hint="split it into several")
    return zlib.compress(data, 1)


def unpacked(blob: bytes) -> bytes:
    """Raises ValueError if damaged or too long: an index may come with a repository and hold a decompression bomb."""
    try:
        reader = zlib.decompressobj()
        data = reader.decompress(blob, LONGEST_TEXT + 1)
    except (zlib.error, TypeError) as error:
        raise ValueError(str(error)) from error
    if len(data) > LONGEST_TEXT or not reader.eof or reader.unused_data:
        raise ValueError("it is incomplete, or longer than a text can be")
    return data


def unpack(blob: bytes) -> str:
    try:
        return unpacked(blob).decode("utf-8")
    except ValueError as error:
        raise DatabaseCorrupt(f"a recorded text is damaged: {error}", hint=REBUILD) from error


def plain(value: Any) -> str:
    """Compact JSON with sorted keys, so that equal values have equal texts."""
    return _JSON.encode(value)


# --- attributes


def attributes_json(attributes: Attributes) -> dict[str, Any]:
    return {
        "title": clean(attributes.title),
        "tier": str(attributes.tier),
        "weight": attributes.weight,
        "context_type": str(attributes.context_type),
        "triggers": [clean(phrase) for phrase in attributes.triggers],
        "created_at": micros(attributes.created_at),
        "expires_at": micros(attributes.expires_at),
        "session_id": attributes.session_id,
        "channel": attributes.channel,
    }


def attributes_from(values: Mapping[str, Any]) -> Attributes:
    return Attributes(
        title=values["title"],
        tier=Tier(values["tier"]),
        weight=float(values["weight"]),
        context_type=ContextType(values["context_type"]),
        triggers=tuple(values["triggers"]),
        created_at=when(values["created_at"]),
        expires_at=when(values["expires_at"]),
        session_id=values["session_id"],
        channel=values["channel"],
    )


def merged(
    values: Mapping[str, Any], overrides: Mapping[str, Any], *, more_triggers: Sequence[str] = (), trusted: bool = True
) -> Attributes:
    """The effective attributes: the document's own, then overrides, then the triggers of aliases, limited by trust.

    Untrusted text is never constitutional and has no triggers.
    """
    both = attributes_from({**values, **overrides})
    if not trusted:
        return replace(both, triggers=(), tier=Tier.NORMAL if both.tier is Tier.CONSTITUTIONAL else both.tier)
    triggers: dict[str, str] = {}
    for phrase in (*both.triggers, *more_triggers):
        triggers.setdefault(phrase.casefold(), phrase)
    return replace(both, triggers=tuple(triggers.values()))


# --- memories


def _readable(convert: Callable[[tuple[Any, ...]], T]) -> Callable[[tuple[Any, ...]], T]:
    """Report a row that cannot be converted as damage to the index, not as an error of the caller."""

    @wraps(convert)
    def read(row: tuple[Any, ...]) -> T:
        try:
            return convert(row)
        except (ValueError, TypeError, LookupError, ArithmeticError) as error:
            raise DatabaseCorrupt(f"row {row[0]} is damaged: {error!r}", hint=REBUILD) from error

    return read


@_readable
def memory_from(row: tuple[Any, ...]) -> Memory:
    (
        id_, path, source, spec_folder, title, tier, weight, context_type, triggers, created_at, expires_at, session_id,
        channel, presence, fingerprint, content_hash, first_indexed_at, updated_at, archived_folder, outdated, owner,
        project, trusted, access_count, last_access, validation_count, confidence, vector_status, passages, tokens,
        redactions, warnings, aliases, cited,
    ) = row  # fmt: skip
    return Memory(
        id=id_,
        path=path,
        source=Source(source),
        spec_folder=spec_folder,
        attributes=Attributes(
            title=title,
            tier=Tier(tier),
            weight=weight,
            context_type=ContextType(context_type),
            triggers=tuple(json.loads(triggers)),
            created_at=when(created_at),
            expires_at=when(expires_at),
            session_id=session_id,
            channel=channel,
        ),
        presence=Presence(presence),
        fingerprint=fingerprint,
        content_hash=content_hash,
        first_indexed_at=moment(first_indexed_at),
        updated_at=moment(updated_at),
        vector_status=VectorStatus(vector_status or "pending"),
        archived_folder=bool(archived_folder),
        outdated=bool(outdated),
        owner=owner,
        project=project,
        trusted=bool(trusted),
        access_count=access_count or 0.0,
        last_access=when(last_access),
        validation_count=validation_count or 0,
        confidence=Decimal(confidence or "0.5"),
        aliases=tuple(json.loads(aliases)) if aliases != "[]" else (),
        passages=passages or 0,
        tokens=tokens or 0,
        redactions=redactions or 0,
        warnings=tuple(DocumentWarning(*parts) for parts in json.loads(warnings))
        if warnings and warnings != "[]"
        else (),
        cited=tuple(CitedFile(*parts) for parts in json.loads(cited)) if cited and cited != "[]" else (),
    )


def state_of(memory: Memory) -> dict[str, Any]:
    """A memory as history records it: enough to know later what it was at that time."""
    return attributes_json(memory.attributes) | {
        "created_at": iso(memory.attributes.created_at) if memory.attributes.created_at else None,
        "expires_at": iso(memory.attributes.expires_at) if memory.attributes.expires_at else None,
        "path": memory.path,
        "source": str(memory.source),
        "spec_folder": memory.spec_folder,
        "presence": str(memory.presence),
        "fingerprint": memory.fingerprint,
        "content_hash": memory.content_hash,
        "first_indexed_at": iso(memory.first_indexed_at),
        "archived_folder": memory.archived_folder,
        "outdated": memory.outdated,
        "owner": memory.owner,
        "project": memory.project,
        "trusted": memory.trusted,
        "validation_count": memory.validation_count,
        "confidence": str(memory.confidence),
        "aliases": list(memory.aliases),
        "redactions": memory.redactions,
    }


# --- the others


def passage_row(passage: Passage | StoredPassage) -> dict[str, Any]:
    """A passage as checkpoints store it."""
    return {
        "first_line": passage.first_line,
        "last_line": passage.last_line,
        "hash": passage.hash,
        "tokens": passage.tokens,
        "anchor": passage.anchor,
        "headings": list(passage.headings),
        "speaker": passage.speaker,
        "question": passage.question,
    }


@_readable
def passage_from(row: tuple[Any, ...]) -> StoredPassage:
    id_, memory_id, ordinal, first, last, hash_, tokens, anchor, headings, speaker, question, has_vector = row
    return StoredPassage(
        id_, memory_id, ordinal, first, last, hash_, tokens, anchor, _headings(headings), speaker, question,
        bool(has_vector),
    )  # fmt: skip


@lru_cache(maxsize=1_024)
def _headings(text: str) -> tuple[str, ...]:
    """Cached because consecutive passages of a memory mostly have the same headings."""
    return tuple(json.loads(text))


@_readable
def link_from(row: tuple[Any, ...]) -> Link:
    id_, source_id, target_id, relation, strength, evidence, origin, created_at = row
    return Link(id_, source_id, target_id, Relation(relation), strength, evidence, Origin(origin), when(created_at))


def link_state(link: Link | None) -> dict[str, Any] | None:
    """A link as history records it."""
    if link is None:
        return None
    return {
        "id": link.id,
        "source_id": link.source_id,
        "target_id": link.target_id,
        "relation": str(link.relation),
        "strength": link.strength,
        "evidence": link.evidence,
        "origin": str(link.origin),
        "created_at": iso(link.created_at) if link.created_at else None,
    }


@_readable
def history_from(row: tuple[Any, ...]) -> HistoryEntry:
    sequence, memory_id, event, before, after, actor, at, spec_folder, ledger_sequence, operation = row
    plain = json.loads(operation) if operation else {}
    merge = plain if plain.get("kind") == "merge" else {}
    return HistoryEntry(
        id=str(sequence),
        memory_id=memory_id,
        event=Event(event),
        before=json.loads(before) if before else None,
        after=json.loads(after) if after else None,
        actor=Actor(actor),
        at=moment(at),
        spec_folder=spec_folder,
        ledger_sequence=ledger_sequence,
        user=str(plain.get("user", "")),
        merged_into=merge.get("into") if memory_id == merge.get("merged") else None,
        merged=merge.get("merged") if memory_id == merge.get("into") else None,
    )


def ledger_from(row: tuple[Any, ...]) -> LedgerEntry:
    (
        sequence, at, type_, memory_ids, hash_before, hash_after, actor, session, reason, previous, hash_, version,
        operation, operation_id, history, presence,
    ) = row  # fmt: skip
    try:
        plain_operation = json.loads(operation) if operation is not None else None
        if (plain_operation or {}).get("id") != operation_id:
            raise ValueError("its operation goes by another id")
        if version == 1 and not operation_id is history is presence is None:
            raise ValueError("it has what its version does not have")
        return LedgerEntry(
            sequence, at, Mutation(type_), tuple(json.loads(memory_ids)), hash_before, hash_after, actor, session,
            reason, previous, hash_, version, plain_operation, history, presence,
        )  # fmt: skip
    except (ValueError, TypeError, AttributeError) as error:
        raise ledger.Unreadable(sequence) from error
