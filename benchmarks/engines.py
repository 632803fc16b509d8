"""How do the two engines of the index compare? Both in one run, alternating, on the same synthetic passages.

    python -m benchmarks.engines [--passages 10000 100000 1000000] [--questions 200] [--seconds 10] [--verbs 20000]

Words are drawn by Zipf's law, vectors are random (384 dimensions): they tell about time and room, not about finding.
PostgreSQL is the wheel's own server with its defaults (every commit is synced, as with SQLite), on this machine, over
TCP: a server elsewhere adds its way. A search is both legs and the rows of what is shown. A cold command, memory, and
readers beside writers are measured in processes of their own. Indexing is the time of a thousand passages by the verbs;
beyond `--verbs` passages the rows of both engines are written in bulk, as the verbs would have written them. Above
100,000 passages there are half of the questions, one cold command instead of three, and no dump. At the end: one table
of all sizes, what a passage more costs between the smallest and the largest, and what was not done alike at all sizes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.engines_copied import BulkPostgres, BulkRows, BulkSqlite, split
from spec_kit_memory.core.memory import (
    Actor,
    Attributes,
    Change,
    Document,
    Entry,
    Filter,
    FrontMatter,
    Passage,
    Source,
    Stamp,
    embedded,
)
from spec_kit_memory.index import open_index
from spec_kit_memory.index.contract import Index
from tests import postgres_server

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
CHANGE = Change(Actor.USER, NOW, reason="benchmark")
PROJECT = "benchmark"
READERS, WRITERS = 8, 2
TARGETS = {("p95", 100_000): 1.3}  # PostgreSQL over SQLite, at most
LABELS = {
    "texts, s": "indexing the texts of 1,000 passages, s",
    "vectors, s": "storing their vectors, s",
    "cold command": "a cold command: opening and one search, ms",
    "its memory, MB": "memory of that command, MB",
    "warm memory, MB": "memory of a process that has searched, MB",
    "p50": "warm search p50, ms",
    "p95": "warm search p95, ms",
    "after a change": "search after one document changed, ms",
    "reads": "8 readers beside 2 writers: searches a second",
    "read p95": "their p95, ms",
    "writes": "documents written a second meanwhile",
    "write p95": "their p95, ms",
    "dump, s": "pg_dump, s",
    "dump, MB": "size of the dump, MB",
    "restore, s": "pg_restore, s",
}
GROWING = ("size, MB", "dump, MB")  # memory does not: its caches are bounded, and large matrices are packed
LARGE = 100_000  # above it some measurements are repeated less often or left out
PER_DOCUMENT, WORDS, VOCABULARY, DIMENSIONS, LIMIT, BATCH = 10, 60, 30_000, 384, 100, 25


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def documents(passages: int, random: np.random.Generator) -> Iterator[Entry]:
    for number in range(passages // PER_DOCUMENT):
        drawn = np.minimum(random.zipf(1.2, (PER_DOCUMENT, WORDS)), VOCABULARY)
        lines = [" ".join(f"w{word}" for word in line) + f" n{number}" for line in drawn.tolist()]
        text = "\n".join(lines)
        yield Entry(
            path=f"memory/{number // 100}/{number}.md",
            source=Source.MEMORY,
            spec_folder=None,
            attributes=Attributes(title=f"Note {number}", created_at=NOW),
            document=Document(text=text, title="", front=FrontMatter(), body_first_line=1),
            passages=tuple(
                Passage(at, at + 1, at + 1, line, sha(embedded((), line)), WORDS) for at, line in enumerate(lines)
            ),
            raw_hash=sha(text),
            content_hash=sha(text),
            fingerprint=sha(text)[:16],
            stamp=Stamp(len(text), 1, 2),
        )


def vectors_for(hashes: Sequence[str], random: np.random.Generator) -> npt.NDArray[np.float32]:
    block = random.standard_normal((len(hashes), DIMENSIONS)).astype(np.float32)
    block /= np.linalg.norm(block, axis=1, keepdims=True)
    return block


class Material:
    """Documents and their vectors, block by block; two of these give the same."""

    def __init__(self, passages: int) -> None:
        self._documents, self._random = documents(passages, np.random.default_rng(7)), np.random.default_rng(8)

    def blocks(self, most: int, size: int) -> Iterator[tuple[list[Entry], npt.NDArray[np.float32]]]:
        """The next documents, as many as have `most` passages, `size` documents at a time."""
        left = most // PER_DOCUMENT
        while left > 0 and (entries := list(islice(self._documents, min(size, left)))):
            left -= len(entries)
            yield entries, vectors_for([passage.hash for entry in entries for passage in entry.passages], self._random)


def fill(index: Index, material: Material, passages: int) -> tuple[float, float]:
    """By the verbs: seconds for the texts of a thousand passages, and for their vectors."""
    index.vectors.use_model("synthetic", DIMENSIONS, "synthetic")
    texts = vectors = 0.0
    with index.bulk():
        for entries, block in material.blocks(passages, BATCH):
            start = time.perf_counter()
            with index.together():
                for entry in entries:
                    index.documents.put(entry, CHANGE)
            texts += time.perf_counter() - start
            start = time.perf_counter()
            hashes = [passage.hash for entry in entries for passage in entry.passages]
            index.vectors.put({hash_: (row.tobytes(), None) for hash_, row in zip(hashes, block, strict=True)})
            vectors += time.perf_counter() - start
    return 1000 * texts / passages, 1000 * vectors / passages


def fill_in_bulk(bulks: Sequence[BulkRows], material: Material, passages: int) -> None:
    for entries, block in material.blocks(passages, BATCH * 20):
        documents = [split(entry) for entry in entries]
        for bulk in bulks:
            bulk.write(documents, block)
    for bulk in bulks:
        bulk.finish()


def question(random: np.random.Generator) -> tuple[list[str], npt.NDArray[np.float32]]:
    words = np.minimum(random.zipf(1.2, 6), VOCABULARY).tolist()
    return [f"w{word}" for word in words], random.standard_normal(DIMENSIONS).astype(np.float32)


def search(index: Index, asked: tuple[list[str], npt.NDArray[np.float32]]) -> None:
    """What the index does for one search: both legs, then the rows of what is shown."""
    with index.steady():
        hits = [*index.documents.match(asked[0], Filter(), LIMIT), *index.vectors.match(asked[1], Filter(), LIMIT)]
        index.documents.passages([hit.passage_id for hit in hits])
        index.documents.many(list({hit.memory_id for hit in hits}))


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def spread(times: Sequence[float]) -> tuple[float, float]:
    """p50 and p95."""
    return statistics.median(times), statistics.quantiles(times, n=20)[18]


# --- processes of their own ------------------------------------------------------------------


def cold(place: str | Path) -> None:
    """A command that asks once: from opening the index to the answer, and the most memory that took."""
    asked = question(np.random.default_rng(1))
    took = timed(lambda: search(open_index(place, project=PROJECT), asked))
    print(json.dumps({"ms": took, "mb": _peak_mb()}))


def warm(place: str | Path) -> None:
    """A server that has its arrays: the most memory that it takes."""
    index, random = open_index(place, project=PROJECT), np.random.default_rng(3)
    index.warm()
    for _ in range(30):
        search(index, question(random))
    print(json.dumps({"mb": _peak_mb()}))


def read(place: str | Path, number: int, seconds: int) -> None:
    index, random = open_index(place, project=PROJECT), np.random.default_rng(100 + number)
    index.warm()
    _wait_for_the_others()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        asked = question(random)
        times.append(timed(lambda asked=asked: search(index, asked)))  # type: ignore[misc]
    print(json.dumps({"times": times}))


def write(place: str | Path, number: int, seconds: int) -> None:
    index, random = open_index(place, project=PROJECT), np.random.default_rng(200 + number)
    _wait_for_the_others()
    times, end = [], time.perf_counter() + seconds
    for at in range(1_000_000):
        if time.perf_counter() >= end:
            break
        made = replace(next(documents(PER_DOCUMENT, random)), path=f"memory/new/{number}-{at}.md")
        times.append(timed(lambda made=made: index.documents.put(made, CHANGE)))  # type: ignore[misc]
    print(json.dumps({"times": times}))


def _wait_for_the_others() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def _peak_mb() -> float:
    """Of this program alone: what the system counts for a process begins with what its parent had."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1e3


def child(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.engines", "--child", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def answered(process: subprocess.Popen[str]) -> Any:
    out, _ = process.communicate("go\n", timeout=900)
    return json.loads(out.splitlines()[-1])


def crowd(place: str | Path, seconds: int) -> dict[str, float]:
    """Readers and writers at once, each a process of its own: searches and writes a second, and their p95."""
    readers = [child("read", place, number, seconds) for number in range(READERS)]
    writers = [child("write", place, number, seconds) for number in range(WRITERS)]
    for process in (*readers, *writers):
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in (*readers, *writers):
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    reads = [item for process in readers for item in answered(process)["times"]]
    writes = [item for process in writers for item in answered(process)["times"]]
    found = {"reads": len(reads) / seconds, "read p95": spread(reads)[1]}
    return found | {"writes": len(writes) / seconds, "write p95": spread(writes)[1]}


def backed_up(server: postgres_server.Server, folder: Path) -> dict[str, float]:
    """How long a backup of the server's database takes, its size, and bringing it back beside it."""
    programs, file = postgres_server.binaries(), folder / "index.dump"
    there = ["-h", "127.0.0.1", "-p", str(server.port), "-U", "postgres"]
    server.execute("CREATE DATABASE restored")
    dump = [str(programs / "pg_dump"), *there, "-Fc", "-f", str(file), "postgres"]
    load = [str(programs / "pg_restore"), *there, "-d", "restored", "--exit-on-error", str(file)]
    dumped, loaded = (timed(lambda command=command: subprocess.run(command, check=True)) for command in (dump, load))  # type: ignore[misc]
    server.execute("DROP DATABASE restored")
    return {"dump, s": dumped / 1e3, "dump, MB": file.stat().st_size / 1e6, "restore, s": loaded / 1e3}


# --- the whole ---------------------------------------------------------------------------


def measure(passages: int, questions: int, seconds: int, verbs: int) -> dict[str, dict[str, float]]:
    server = postgres_server.started(settings=postgres_server.DEFAULTS)
    folder = tempfile.TemporaryDirectory(prefix="skm-engines-")
    opened: dict[str, Index] = {}
    numbers: dict[str, dict[str, float]] = {}
    try:
        places: dict[str, str | Path] = {"SQLite": Path(folder.name) / "index.sqlite", "PostgreSQL": server.url()}
        by_verbs = min(passages, verbs)
        for name, place in places.items():
            opened[name], material, begun = open_index(place, project=PROJECT), Material(passages), time.perf_counter()
            texts, vectors = fill(opened[name], material, by_verbs)
            numbers[name] = {"texts, s": texts, "vectors, s": vectors}
            print(f"{name}: {by_verbs:,} passages after {time.perf_counter() - begun:.0f} s", flush=True)
        if by_verbs < passages:
            begun = time.perf_counter()
            bulks = [BulkSqlite(Path(folder.name) / "index.sqlite"), BulkPostgres(server.url(), dimensions=DIMENSIONS)]
            fill_in_bulk(bulks, material, passages - by_verbs)
            print(f"{passages - by_verbs:,} more in bulk after {time.perf_counter() - begun:.0f} s", flush=True)
        begun = time.perf_counter()
        server.execute("VACUUM ANALYZE")  # what its own process does within a minute or so
        for name, place in places.items():
            row = numbers[name]
            row["size, MB"] = opened[name].care.stats(size=True).size_bytes / 1e6
            if name == "PostgreSQL":
                row["size, MB"] = int(str(server.execute("SELECT pg_database_size('postgres')")[0][0])) / 1e6
            runs = [answered(child("cold", place)) for _ in range(3 if passages <= LARGE else 1)]
            row["cold command"] = statistics.median(run["ms"] for run in runs)
            row["its memory, MB"] = max(run["mb"] for run in runs)
            row["warm memory, MB"] = answered(child("warm", place))["mb"]
            opened[name].warm()
        print(f"vacuum, cold and warm processes: {time.perf_counter() - begun:.0f} s", flush=True)
        times: dict[str, list[float]] = {name: [] for name in places}
        random = np.random.default_rng(11)
        for asked in [question(random) for _ in range(questions if passages <= LARGE else questions // 2)]:
            for name, index in opened.items():
                times[name].append(timed(lambda index=index, asked=asked: search(index, asked)))  # type: ignore[misc]
        extra = next(documents(PER_DOCUMENT, np.random.default_rng(99)))
        for name, index in opened.items():
            numbers[name]["p50"], numbers[name]["p95"] = spread(times[name])
            index.documents.put(replace(extra, path="memory/extra.md"), CHANGE)
            asked = question(np.random.default_rng(2))
            numbers[name]["after a change"] = timed(lambda index=index, asked=asked: search(index, asked))  # type: ignore[misc]
        if passages <= LARGE:
            numbers["PostgreSQL"] |= backed_up(server, Path(folder.name))
        for name, row in numbers.items():  # what follows may take long
            print(
                f"{name}: {', '.join(f'{LABELS.get(key, key)} {value:,.1f}' for key, value in row.items())}", flush=True
            )
        for name, place in places.items():
            opened.pop(name).close()
            if seconds:
                begun = time.perf_counter()
                numbers[name] |= crowd(place, seconds)
                print(f"{name}: readers and writers, {time.perf_counter() - begun:.0f} s", flush=True)
    finally:
        for index in opened.values():
            index.close()
        postgres_server.ended(server)
        folder.cleanup()
    return numbers


Measured = Mapping[int, Mapping[str, Mapping[str, float]]]  # by number of passages, engine and row


def show(measured: Measured) -> None:
    """One table: for each size both engines and their ratio, with the target beside it where there is one."""
    sizes = sorted(measured)
    print(f"\n| | {' | '.join(f'{size:,} passages: SQLite | PostgreSQL | ratio' for size in sizes)} |")
    print("|---" * (1 + 3 * len(sizes)) + "|")
    for name in dict.fromkeys(name for size in sizes for name in measured[size]["PostgreSQL"]):
        cells = [cell for size in sizes for cell in _cells(name, size, measured[size])]
        print(f"| {LABELS.get(name, name)} | {' | '.join(cells)} |", flush=True)


def _cells(name: str, size: int, numbers: Mapping[str, Mapping[str, float]]) -> tuple[str, str, str]:
    here, there = numbers["SQLite"].get(name), numbers["PostgreSQL"].get(name)
    if there is None:
        return "", "", ""
    if here is None:
        return "", f"{there:,.1f}", ""
    target = TARGETS.get((name, size))
    ratio = there / max(here, 1e-9)
    return f"{here:,.1f}", f"{there:,.1f}", f"{ratio:.2f}{f' (target ≤ {target})' if target else ''}"


def show_differences(measured: Measured, questions: int, verbs: int) -> None:
    """What was not done alike at all sizes."""
    copied = [size for size in sorted(measured) if size > verbs]
    large = [size for size in sorted(measured) if size > LARGE]
    print()
    for size in copied:
        print(f"- {size:,} passages: {verbs:,} by the verbs, {size - verbs:,} rows in bulk, in both engines alike")
    for size in large:
        print(f"- {size:,} passages: {questions // 2} questions instead of {questions}, one cold command, no dump")


def show_growth(measured: Measured) -> None:
    """What a passage more costs, from the smallest to the largest size, and what follows for far more of them."""
    print("\n| | per passage, KB | measured from, to | a million, GB | ten million, GB |\n|---|---|---|---|---|")
    for name in GROWING:
        for engine in ("SQLite", "PostgreSQL"):
            sizes = [size for size in sorted(measured) if name in measured[size][engine]]
            if len(sizes) > 1:
                least, most = sizes[0], sizes[-1]
                each = 1e3 * (measured[most][engine][name] - measured[least][engine][name]) / (most - least)
                between, label = f"{least:,} to {most:,}", f"{engine}: {LABELS.get(name, name)}"
                print(f"| {label} | {each:.2f} | {between} | {each:,.1f} | {10 * each:,.0f} |", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        kind, place, *rest = sys.argv[2:]
        where = place if place.startswith("postgresql") else Path(place)
        {"cold": cold, "warm": warm, "read": read, "write": write}[kind](where, *map(int, rest))  # type: ignore[operator]
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--passages", type=int, nargs="+", default=[10_000])
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=10, help="of readers beside writers; 0: not at all")
    parser.add_argument("--verbs", type=int, default=20_000, help="passages that are not written in bulk")
    arguments = parser.parse_args()
    started, load, measured = time.perf_counter(), os.getloadavg()[0], {}
    for passages in sorted(set(arguments.passages)):
        measured[passages] = measure(passages, arguments.questions, arguments.seconds, arguments.verbs)
        show(measured)  # each time: a later size may fail for want of room
    if len(measured) > 1:
        show_growth(measured)
    show_differences(measured, arguments.questions, arguments.verbs)
    took = time.perf_counter() - started
    print(
        f"\n{took:.0f} s on {os.cpu_count()} cores; load before {load:.1f}, after {os.getloadavg()[0]:.1f}", flush=True
    )


if __name__ == "__main__":
    main()
