"""How long do checkpoint, restore, ledger verification and lineage take on a large workspace?

    python -m benchmarks.lifecycle [--memories 10000] [--entries 100000] [--links 100000]

Builds a workspace in a temporary folder: memories of five passages with vectors of 384 dimensions
and token states, written straight into the store. Each row of the table is measured in a process
of its own, so that its peak of memory is its own too. Nothing is cached by the operating system on
purpose or kept from it: compare numbers of one run only.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from spec_kit_memory.core import ledger, markdown, passages
from spec_kit_memory.core.memory import Actor, Attributes, Change, Entry, LedgerEntry, Mutation, Source, Stamp
from spec_kit_memory.index import open_index
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace

DIMENSIONS = 384
STATE_BYTES = 2_400  # about what a passage of 100 tokens has
SECTIONS, SECTION_WORDS = 5, 90
AT = datetime(2026, 1, 1, tzinfo=UTC)
BY = Change(actor=Actor.SYSTEM, at=AT, reason="benchmark")


@dataclass(frozen=True)
class Measured:
    seconds: float
    cpu_seconds: float
    peak_mb: float
    said: str


# --- building ---------------------------------------------------------------------


def entry(number: int, words: list[str], chance: random.Random) -> Entry:
    said = [
        f"## Section {section} of {number}\n\n{' '.join(chance.choices(words, k=SECTION_WORDS))}."
        for section in range(SECTIONS)
    ]
    parts = [f"# Memory {number}", *said]
    document = markdown.parse("\n\n".join(parts) + "\n")
    digest = hashlib.sha256(document.text.encode()).hexdigest()
    return Entry(
        path=f"specs/{number % 50:03d}-part/memory/m{number}.md",
        source=Source.MEMORY,
        spec_folder=f"{number % 50:03d}-part",
        attributes=Attributes(title=f"Memory {number}", triggers=(f"memory number {number}",), created_at=AT),
        document=document,
        passages=passages.split(document),
        raw_hash=digest,
        content_hash=digest,
        fingerprint=markdown.fingerprint(document),
        stamp=Stamp(len(document.text), 1, 10**18),
    )


def build(root: Path, memories: int) -> str:
    import numpy as np

    chance = random.Random(1)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 10))) for _ in range(8_000)]
    settings = settings_of(root)
    settings.state_folder.mkdir(parents=True)
    store = open_index(settings.index_path)
    made = np.random.default_rng(1)
    with store.bulk():
        for number in range(1, memories + 1):
            store.documents.put(entry(number, words, chance), BY)
        store.vectors.use_model("benchmark", DIMENSIONS, "0" * 64)
        while work := store.vectors.work(2_000):
            vectors = made.standard_normal((len(work), DIMENSIONS), dtype=np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            store.vectors.put(
                {
                    one.passage_hash: (row.tobytes(), os.urandom(STATE_BYTES))
                    for one, row in zip(work, vectors, strict=True)
                }
            )
    text = f"{store.care.stats().passages} passages"
    store.close()
    return text


def settings_of(root: Path) -> Settings:
    return Settings(root=root, semantic=Semantic(model="none"))


def fill_ledger(root: Path, entries: int) -> str:
    """Sealed entries, written at once: how they came is not what is measured."""
    import apsw

    connection = apsw.Connection(str(settings_of(root).index_path))
    last: Any = connection.execute("SELECT sequence, hash FROM ledger ORDER BY sequence DESC LIMIT 1").fetchone()
    sequence, previous = last
    rows = []
    for number in range(sequence + 1, entries + 1):
        one = ledger.seal(
            LedgerEntry(
                number, "2026-01-01T00:00:00.000000Z", Mutation.UPDATE, (number % 100 + 1,), "a" * 64, "b" * 64,
                "user", None, "validated as useful", previous, "",
            )
        )  # fmt: skip
        previous = one.hash
        plain = ledger.fields_of(one) | {"type": one.type.value, "memory_ids": f"[{one.memory_ids[0]}]"}
        rows.append(tuple(plain.values()))
    with connection:
        connection.executemany(f"INSERT INTO ledger VALUES ({', '.join('?' * 11)})", rows)
    connection.close()
    return f"{entries} entries"


def fill_links(root: Path, links: int, memories: int) -> str:
    import apsw

    chance = random.Random(2)
    connection = apsw.Connection(str(settings_of(root).index_path))
    relations = ("caused", "enabled", "supports", "derived_from")
    pairs: set[tuple[int, int, str]] = set()
    while len(pairs) < links:
        source, target = chance.randint(1, memories), chance.randint(1, memories)
        if source != target:
            pairs.add((source, target, chance.choice(relations)))
    with connection:
        connection.executemany(
            "INSERT INTO link (source_id, target_id, relation, strength, evidence, origin)"
            " VALUES (?, ?, ?, 1, '', 'hand')",
            sorted(pairs),
        )
    connection.close()
    return f"{links} links"


# --- measuring ----------------------------------------------------------------------


def create(root: Path) -> str:
    with Workspace(settings_of(root)) as workspace:
        answer = workspace.checkpoint_create("all")
    return f"{answer.memories} memories, {answer.size_bytes / 1e6:.0f} MB"


def restore_empty(root: Path) -> str:
    """Into a database that has nothing: everything is written."""
    with Workspace(settings_of(root)) as workspace:
        answer = workspace.checkpoint_restore("all")
    return f"{answer.restored} restored"


def restore_same(root: Path) -> str:
    with Workspace(settings_of(root)) as workspace:
        answer = workspace.checkpoint_restore("all", clear_existing=True)
    return f"{answer.skipped} were the same"


def compare(root: Path) -> str:
    with Workspace(settings_of(root)) as workspace:
        return workspace.checkpoint_diff("all").summary


def past(root: Path) -> str:
    with Workspace(settings_of(root)) as workspace:
        answer = workspace.search("memory section", as_of="2026-01-02")
        started = time.perf_counter()
        workspace.search("another section", as_of="2026-01-02")
        again = time.perf_counter() - started
    return f"{answer.total_found} found; a second question took {again * 1000:.0f} ms"


def verify(root: Path) -> str:
    with Workspace(settings_of(root)) as workspace:
        return workspace.ledger_verify().summary


def lineage(root: Path, depth: int) -> str:
    with Workspace(settings_of(root)) as workspace:
        answer = workspace.why(1, max_depth=depth)
    return f"{len(answer.steps)} memories reached, {len(answer.cycles)} knots of cycles"


def _timed(work: Callable[..., str], arguments: tuple[Any, ...], send: Any) -> None:
    started, used = time.perf_counter(), time.process_time()
    said = work(*arguments)
    send.send(Measured(time.perf_counter() - started, time.process_time() - used, _peak_mb(), said))


def _peak_mb() -> float:
    if sys.platform == "win32":
        return 0.0
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / (1 << 20) if sys.platform == "darwin" else used / 1024


def measured(work: Callable[..., str], *arguments: Any) -> Measured:
    spawn = multiprocessing.get_context("spawn")
    receive, send = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_timed, args=(work, arguments, send))
    process.start()
    send.close()
    results: Measured = receive.recv()
    process.join()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--links", type=int, default=100_000)
    arguments = parser.parse_args()
    print(f"{'what':<34} {'seconds':>8} {'of CPU':>8} {'peak MB':>8}  result")
    with tempfile.TemporaryDirectory(prefix="skm-lifecycle-") as folder:
        root, fresh = Path(os.path.realpath(folder)) / "one", Path(os.path.realpath(folder)) / "two"
        show("build the workspace", build, root, arguments.memories)
        show("checkpoint create", create, root)
        show("checkpoint diff", compare, root)
        show("restore, all the same", restore_same, root)
        shutil.copytree(root / ".spec-kit-memory" / "checkpoints", fresh / ".spec-kit-memory" / "checkpoints")
        show("restore into an empty index", restore_empty, fresh)
        show("search as of a date, first time", past, root)
        show("(writing ledger entries)", fill_ledger, root, arguments.entries)
        show("ledger verify", verify, root)
        show("(writing links)", fill_links, root, arguments.links, arguments.memories)
        show("why, 3 steps", lineage, root, 3)
        show("why, 10 steps", lineage, root, 10)


def show(name: str, work: Callable[..., str], *arguments: Any) -> None:
    results = measured(work, *arguments)
    print(
        f"{name:<34} {results.seconds:8.2f} {results.cpu_seconds:8.2f} {results.peak_mb:8.0f}  {results.said}",
        flush=True,
    )


if __name__ == "__main__":
    main()
