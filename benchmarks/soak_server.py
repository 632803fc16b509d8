"""What is special about a soak whose index is on PostgreSQL: the server is killed too, and is asked by verbs.

The server's first process is killed with SIGKILL, or one that serves a connection is, or all of it is restarted;
a moment later it is there again. What was acknowledged is then looked for through a handle that is opened anew.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks import soak_check
from benchmarks.soak_check import Journal, Kept
from benchmarks.soak_history import Mark, mark_of
from spec_kit_memory.core import ledger
from spec_kit_memory.core.memory import Memory, Presence
from spec_kit_memory.errors import MemoryNotFound
from spec_kit_memory.index.contract import Index
from tests.postgres_server import Server

if TYPE_CHECKING:
    from benchmarks.soak import Soak

__all__ = ["check", "is_unknown", "ledger_marks", "torment"]

DOWN_SECONDS = 0.5  # at most, until it is started again


def torment(soak: Soak, server: Server, *, kills_per_minute: float) -> None:
    chance = random.Random(f"{soak.seed} server")
    mean = 60.0 / kills_per_minute
    while not soak.over:
        soak.stop.wait(min(chance.expovariate(1 / mean), 3 * mean))
        if soak.over:
            return
        how = chance.choice(("first process", "backend", "restart"))
        match how:
            case "first process":
                server.kill()
            case "restart":
                server.stop(mode=chance.choice(("fast", "immediate")))
            case _:
                _kill_backend(server, chance)
        soak.counts[f"kills: postgresql, {how}"] += 1
        if how != "backend":
            soak.stop.wait(chance.random() * DOWN_SECONDS)
            server.start()


def _kill_backend(server: Server, chance: random.Random) -> None:
    """The server then ends all connections and recovers as after a crash."""
    with contextlib.suppress(psycopg.OperationalError, ProcessLookupError):
        rows = server.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'spec-kit-memory'")
        if rows:
            os.kill(int(str(chance.choice(rows)[0])), signal.SIGKILL)


def is_unknown(error: Mapping[str, Any]) -> bool:
    """The server went away in the middle of a call: like a killed call, it may have been done."""
    return error.get("code") == "E020" or "connections" in str(error.get("message"))


# --- afterwards ----------------------------------------------------------------------------


def check(root: Path, journal: Journal, health: Mapping[str, Any], store: Index) -> list[str]:
    """Everything that is wrong, in words."""
    return [
        *soak_check.health_faults(health),
        *soak_check.leftovers(root),
        *(f"{name}: {told[:3]}" for name, told in store.care.check().items() if told),
        *_chain(store),
        *_acknowledged(root, journal, store),
        *_twice(store),
        *soak_check.agree(root, store),
        *soak_check.files_kept(root, journal),
    ]


def _chain(store: Index) -> Iterator[str]:
    numbers = [entry.sequence for entry in store.record.ledger()]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"ledger: {len(numbers)} entries numbered {numbers[:1]} to {numbers[-1:]}"
    broken = ledger.verify(store.record.ledger())
    if broken:
        yield f"ledger: {broken.reason}"


def _acknowledged(root: Path, journal: Journal, store: Index) -> Iterator[str]:
    for kept in journal.kept:
        try:
            memory = store.documents.get(kept.id, any_presence=True)
        except MemoryNotFound:
            yield f"lost: memory {kept.id} {kept.path}"
            continue
        yield from _one(root, kept, memory, store)
    links = {(link.source_id, link.target_id) for link in store.record.links()}
    standing = {kept.id for kept in journal.kept if kept.present == {True}}
    for link in journal.links:
        if link not in links and set(link) <= standing:
            yield f"lost: link {link}"


def _one(root: Path, kept: Kept, memory: Memory, store: Index) -> Iterator[str]:
    yield from soak_check.differences(
        root,
        kept,
        path=memory.path,
        presence=str(memory.presence),
        title=memory.title,
        validations=memory.validation_count,
    )
    text = store.documents.text(content_hash=memory.content_hash)
    if text is None or kept.text not in text:
        yield f"memory {kept.id} ({kept.sign}) has lost its text"


def _twice(store: Index) -> Iterator[str]:
    live = [memory for memory in store.documents.find() if memory.presence is Presence.LIVE]
    paths = Counter(memory.path for memory in live)
    yield from (f"{path} is in the index twice" for path, count in paths.items() if count > 1)
    texts: Counter[str] = Counter()
    for memory in live:
        texts.update(set(re.findall(r"Decided (\w+x\d+) about", store.documents.text(memory.id))))
    yield from (f"{sign} is in {count} memories" for sign, count in texts.items() if count > 1)


def ledger_marks(store: Index) -> dict[Mark, list[int]]:
    states = {entry.ledger_sequence: entry.after for entry in reversed(store.record.history())}
    marks: dict[Mark, list[int]] = {}
    for entry in store.record.ledger():
        mark = mark_of(entry.memory_ids, entry.operation or {}, states.get(entry.sequence) or {})
        if mark is not None:
            marks.setdefault(mark, []).append(entry.sequence)
    return marks
