"""Is a checkpoint complete and valid? All its rows are read and checked before anything is written.

Every value is converted here once, so that no bad value can make a restore fail half-way.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from spec_kit_memory.advice import advise
from spec_kit_memory.core import long_lines
from spec_kit_memory.core.citations import Citations, CitedFile
from spec_kit_memory.core.memory import LinkClaim, Origin, Passage, Relation, Source, Stamp
from spec_kit_memory.errors import RestoreFailed
from spec_kit_memory.index import rows

FORMAT = 2  # raised when rows change so that an older program could not read them
READABLE = (1, 2)
HINT = advise("other-checkpoints")


@dataclass(frozen=True, slots=True)
class SavedMemory:
    """One memory of a checkpoint: its row as written, and the parts of it that were converted."""

    row: Mapping[str, Any]
    said: Mapping[str, Any]
    claims: tuple[LinkClaim, ...]
    passages: tuple[Passage, ...]
    cited: Citations | None  # None: the text cites no file, or the checkpoint is older than this field


@dataclass(slots=True)
class Plan:
    """The contents of a checkpoint that passed all checks."""

    instance: str = ""
    ledger_sequence: int | None = None  # None: written by version 0.1, which did not record it
    model: tuple[str, int, str] | None = None
    memories: list[SavedMemory] = field(default_factory=list)
    vectors: dict[str, tuple[bytes, bytes | None]] = field(default_factory=dict)
    links: list[Mapping[str, Any]] = field(default_factory=list)
    sessions: list[Mapping[str, Any]] = field(default_factory=list)


def read(rows: Iterable[Mapping[str, Any]]) -> Plan:
    """Read and check all rows of a checkpoint; raises RestoreFailed if anything is wrong."""
    plan = Plan()
    for number, row in enumerate(rows):
        try:
            if (number == 0) != (row["kind"] == "header"):
                raise ValueError("a checkpoint has one header, as its first row")
            _READERS[row["kind"]](plan, row)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, binascii.Error) as error:
            raise RestoreFailed(f"row {number} of the checkpoint is damaged: {error!r}", hint=HINT) from error
    if not plan.instance:
        raise RestoreFailed("the checkpoint is empty", hint=HINT)
    _judge(plan)
    return plan


def _read_header(plan: Plan, row: Mapping[str, Any]) -> None:
    if row["format"] not in READABLE:
        raise ValueError(f"format {row['format']} is not known here; upgrade spec-kit-memory")
    plan.instance = _text(row["instance"])
    sequence = row.get("ledger_sequence")
    plan.ledger_sequence = None if sequence is None else int(sequence)
    if row["model"]:
        plan.model = (_text(row["model"]["name"]), int(row["model"]["dimensions"]), _text(row["model"]["weights_hash"]))


def _read_memory(plan: Plan, row: Mapping[str, Any]) -> None:
    if hashlib.sha256(row["text"].encode()).hexdigest() != row["content_hash"]:
        raise ValueError(f"the text of {row['path']} does not fit its hash")
    for name in ("path", "fingerprint", "raw_hash", "confidence"):
        _text(row[name])
    for alias in row["aliases"]:
        _text(alias["path"]), _text(alias["fingerprint"]), _text(alias["raw_hash"]), Stamp(*alias["stamp"])
        [_text(phrase) for phrase in alias["triggers"]]
    Source(row["source"]), int(row["id"]), float(row["access_count"]), int(row["validation_count"])
    float(row["confidence"]), int(row["redactions"]), Stamp(*row["stamp"])
    for name in ("first_indexed_at", "updated_at"):
        datetime.fromisoformat(row[name])
    micros(row["last_access"])
    values = row["said"] or {**row, "created_at": micros(row["created_at"]), "expires_at": micros(row["expires_at"])}
    attributes = rows.attributes_json(rows.attributes_from(values))
    rows.attributes_from({**row, "created_at": None, "expires_at": None})
    rows.merged(attributes, row["overrides"])
    claims = tuple(
        LinkClaim(Relation(claim["relation"]), _text(claim["target"]), bool(claim["inward"]), float(claim["strength"]))
        for claim in row["claims"]
    )
    plan.memories.append(SavedMemory(row, attributes, claims, tuple(_passages(row)), _citations(row)))


def _citations(row: Mapping[str, Any]) -> Citations | None:
    files = tuple(
        CitedFile(_text(path), _text(content), int(size), _text(commit))
        for path, content, size, commit in row.get("cited", ())
    )
    for file in files:
        if not file.path or any(part in ("", ".", "..") for part in file.path.split("/")):
            raise ValueError(f"{row['path']} names a file outside the workspace, {file.path!r}")
    return Citations(row["fingerprint"] or row["content_hash"], files) if files else None


def _passages(row: Mapping[str, Any]) -> Iterable[Passage]:
    lines = row["text"].split("\n")
    for ordinal, values in enumerate(row["passages"]):
        first, last = values["first_line"], values["last_line"]
        if not 1 <= first <= last <= len(lines):
            raise ValueError(f"a passage of {row['path']} lies outside its text")
        passage = Passage(
            ordinal=ordinal,
            first_line=first,
            last_line=last,
            text="",
            hash=_text(values["hash"]),
            tokens=int(values["tokens"]),
            anchor=_text(values["anchor"]),
            headings=tuple(_text(heading) for heading in values["headings"]),
            speaker=_text(values["speaker"]),
            question=_text(values.get("question", "")),
        )
        yield replace(passage, text=long_lines.text_of(lines, passage))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def micros(text: str | None) -> int | None:
    return rows.micros(datetime.fromisoformat(text)) if text else None


def _read_vector(plan: Plan, row: Mapping[str, Any]) -> None:
    vector = base64.b64decode(row["vector"], validate=True)
    if plan.model is None or len(vector) != plan.model[1] * 4:
        raise ValueError(f"the vector of {row['hash']} has the wrong size")
    states = None if row["states"] is None else base64.b64decode(row["states"], validate=True)
    plan.vectors[_text(row["hash"])] = (vector, states)


def _read_link(plan: Plan, row: Mapping[str, Any]) -> None:
    Relation(row["relation"]), Origin(row["origin"]), _text(row["evidence"]), micros(row["created_at"]), int(row["id"])
    if not 0 <= float(row["strength"]) <= 1 or row["source_id"] == row["target_id"]:
        raise ValueError(f"link {row['id']} is not a link")
    outside = row.get("outside")
    plan.links.append({**row, "outside": None if outside is None else _text(outside)})


def _read_session(plan: Plan, row: Mapping[str, Any]) -> None:
    for name in ("id", "owner", "project", "loading"):
        _text(row[name])
    attention = [(int(id_), float(strength), int(turn), _text(via)) for id_, strength, turn, via in row["attention"]]
    int(row["turn"]), int(row["last_save_turn"]), micros(row["seen_at"]), [_text(hash_) for hash_ in row["sent"]]
    plan.sessions.append({**row, "attention": attention})


def _judge(plan: Plan) -> None:
    """Check what no single row shows: duplicate memories, and links whose ends are missing."""
    ids = [saved.row["id"] for saved in plan.memories]
    paths = [saved.row["path"] for saved in plan.memories]
    if len(set(ids)) != len(ids) or len(set(paths)) != len(paths):
        raise RestoreFailed("the checkpoint holds a memory twice", hint=HINT)
    inside = set(ids)
    ends = [(link, {link["source_id"], link["target_id"]} - inside) for link in plan.links]
    loose = {end for link, outside in ends for end in outside if link["outside"] is None or len(outside) > 1}
    if loose:
        raise RestoreFailed(f"a link of the checkpoint names memory {min(loose)}, which it does not hold", hint=HINT)


_READERS: dict[str, Callable[[Plan, Mapping[str, Any]], None]] = {
    "header": _read_header,
    "memory": _read_memory,
    "vector": _read_vector,
    "link": _read_link,
    "session": _read_session,
}
