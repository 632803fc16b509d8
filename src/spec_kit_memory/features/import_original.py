"""What does the original system's database record about our files? Use, validations, links and history.

Files are matched by their path below specs/. Importing the same database twice changes
nothing: the ledger records its hash.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spec_kit_memory.advice import advise, finding, outcome
from spec_kit_memory.answers import ImportAnswer
from spec_kit_memory.core import operation, redact
from spec_kit_memory.core.ledger_operations import operation_of
from spec_kit_memory.core.memory import Change, HistoryEntry, Link, Memory, Origin
from spec_kit_memory.core.wording import short
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files.original_db import OriginalData, OriginalMemory, read_original

_BLOCK = 1 << 20
_MOST_NAMED = 500
# The same event of the same database has the same id wherever it is imported.
_NAMESPACE = uuid.UUID("5a1f6b0e-6c0c-5c1e-9a58-0e6d7d0d5b10")


def import_(runtime: Runtime, path: Path) -> ImportAnswer:
    """Import each memory exactly once: after an interruption, a second call does the rest."""
    original = read_original(path)
    digest = _digest(path)[:16]
    done = _done(runtime, digest)
    matched = _matched(runtime, original)
    ids = {memory.id for _, memory in matched.values()}
    if ids and ids <= done.use and (done.history or not original.history):
        return ImportAnswer(outcome=outcome("original-imported-before", name=path.name), matched=0)
    used: set[int] = set(done.use)
    for old, memory in matched.values():
        if memory.id not in used:
            used.add(memory.id)
            _take_use(runtime, old, memory, digest)
    links = _take_links(runtime, original, matched, digest)
    history = 0 if done.history else _take_history(runtime, original, matched, digest)
    unmatched = sorted({m.path for m in original.memories} - {old.path for old, _ in matched.values()})
    return ImportAnswer(
        outcome=outcome("original-imported", memories=len(ids), links=links, history=history),
        advice=(
            *original.warnings[:5],
            *([finding("paths-unmatched", count=len(unmatched), named=_MOST_NAMED)] * (len(unmatched) > _MOST_NAMED)),
            *((advise("index-before-import"),) if not matched else ()),
        ),
        matched=len(ids),
        unmatched=tuple(short(path, 1_000) for path in unmatched[:_MOST_NAMED]),
        links=links,
        history=history,
    )


@dataclass(frozen=True, slots=True)
class _Done:
    """The parts that an earlier import of the same database has imported."""

    use: frozenset[int]
    history: bool


def _done(runtime: Runtime, digest: str) -> _Done:
    use: set[int] = set()
    history = False
    for entry in runtime.store.record.ledger():
        done = operation_of(entry)
        if isinstance(done, operation.Import) and done.source == digest:
            history = history or done.part == "history"
            if done.part == "use":
                use.add(entry.memory_ids[0])
    return _Done(frozenset(use), history)


def _change(runtime: Runtime, digest: str, part: str) -> Change:
    return runtime.change(f"import of {digest}; {part}", operation.Import(source=digest, part=part))


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


MatchedIds = Mapping[str, tuple[OriginalMemory, Memory]]


def _matched(runtime: Runtime, original: OriginalData) -> dict[str, tuple[OriginalMemory, Memory]]:
    """The memories of the original that have a counterpart here, by their original id."""
    here: dict[str, Memory] = {}
    for memory in runtime.store.documents.find():
        for name in (memory.path, *memory.aliases):
            here[name.removeprefix(".opencode/")] = memory
    return {
        identifier: (old, here[old.below_specs])
        for identifier, old in original.by_id().items()
        if old.below_specs in here
    }


def _take_use(runtime: Runtime, old: OriginalMemory, memory: Memory, digest: str) -> None:
    """Import use. The ledger entry is written first, so a crash may lose counts of use but never doubles them."""
    confidence = old.confidence if old.validation_count else memory.confidence
    count = memory.validation_count + old.validation_count
    runtime.store.record.amend(memory.id, _change(runtime, digest, "use"), validation=(confidence, count))
    if old.access_count:
        runtime.store.record.use({memory.id: old.access_count}, old.last_access or memory.first_indexed_at)


def _take_links(runtime: Runtime, original: OriginalData, matched: MatchedIds, digest: str) -> int:
    count = 0
    existing = {(link.source_id, link.target_id, link.relation) for link in runtime.store.record.links()}
    for old in original.links:
        if old.source_id not in matched or old.target_id not in matched:
            continue
        source, target = matched[old.source_id][1], matched[old.target_id][1]
        if source.id == target.id or (source.id, target.id, old.relation) in existing:
            continue
        existing.add((source.id, target.id, old.relation))
        link = Link(
            id=0,
            source_id=source.id,
            target_id=target.id,
            relation=old.relation,
            strength=old.strength,
            evidence=redact.redact(old.evidence).text,
            origin=Origin.HAND,
            created_at=runtime.now(),
        )
        runtime.store.record.put_link(link, _change(runtime, digest, "link"))
        count += 1
    return count


def _take_history(runtime: Runtime, original: OriginalData, matched: MatchedIds, digest: str) -> int:
    entries: dict[int, list[HistoryEntry]] = {}
    for number, event in enumerate(original.history):
        if event.memory_id not in matched:
            continue
        memory = matched[event.memory_id][1]
        entry = HistoryEntry(
            id=str(uuid.uuid5(_NAMESPACE, f"import of {digest}/{number}")),
            memory_id=memory.id,
            event=event.event,
            before=redact.redact_data(event.before, Counter()),
            after=redact.redact_data(event.after, Counter()),
            actor=event.actor,
            at=event.at or runtime.now(),
            spec_folder=memory.spec_folder,
        )
        entries.setdefault(memory.id, []).append(entry)
    change = _change(runtime, digest, "history")
    with runtime.store.together():
        for memory_id, own in sorted(entries.items()):
            runtime.store.record.amend(memory_id, change, history=own)
    return sum(map(len, entries.values()))
