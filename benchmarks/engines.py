"""How do the two engines of the index compare? Both in one run, alternating, on the same synthetic passages.

    python -m benchmarks.engines [--passages 10000] [--questions 200]

Words are drawn by Zipf's law, vectors are random (384 dimensions): they tell about time and room, not about finding.
PostgreSQL is the wheel's own server with its defaults, on this machine, over TCP: a server elsewhere adds its way.
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

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


def fill(index: Index, passages: int) -> tuple[float, float]:
    """Seconds for the texts, and for the vectors."""
    random = np.random.default_rng(7)
    start = time.perf_counter()
    entries = list(documents(passages, random))
    start = time.perf_counter()
    with index.bulk():
        for at in range(0, len(entries), BATCH):
            with index.together():
                for entry in entries[at : at + BATCH]:
                    index.documents.put(entry, CHANGE)
    texts = time.perf_counter() - start
    index.vectors.use_model("synthetic", DIMENSIONS, "synthetic")
    hashes = [passage.hash for entry in entries for passage in entry.passages]
    start = time.perf_counter()
    with index.bulk():
        for at in range(0, len(hashes), 500):
            block = random.standard_normal((len(hashes[at : at + 500]), DIMENSIONS)).astype(np.float32)
            block /= np.linalg.norm(block, axis=1, keepdims=True)
            index.vectors.put(
                {hash_: (row.tobytes(), None) for hash_, row in zip(hashes[at : at + 500], block, strict=True)}
            )
    return texts, time.perf_counter() - start


def question(random: np.random.Generator) -> tuple[list[str], npt.NDArray[np.float32]]:
    words = np.minimum(random.zipf(1.2, 6), VOCABULARY).tolist()
    return [f"w{word}" for word in words], random.standard_normal(DIMENSIONS).astype(np.float32)


def search(index: Index, asked: tuple[list[str], npt.NDArray[np.float32]]) -> None:
    """What the index does for one search: both legs, then the rows of what is shown."""
    hits = [*index.documents.match(asked[0], Filter(), LIMIT), *index.vectors.match(asked[1], Filter(), LIMIT)]
    index.documents.passages([hit.passage_id for hit in hits])
    index.documents.many(list({hit.memory_id for hit in hits}))


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--passages", type=int, default=10_000)
    parser.add_argument("--questions", type=int, default=200)
    given = parser.parse_args()
    server = postgres_server.started()
    folder = tempfile.TemporaryDirectory(prefix="skm-engines-")
    try:
        places: dict[str, str | Path] = {"SQLite": Path(folder.name) / "index.sqlite", "PostgreSQL": server.url()}
        print(f"{given.passages:,} passages, {given.questions} questions, milliseconds unless said otherwise\n")
        print("| | texts, s | vectors, s | size, MB | first search | p50 | p95 | one changed, then search |")
        print("|---|---|---|---|---|---|---|---|")
        times: dict[str, list[float]] = {name: [] for name in places}
        row: dict[str, str] = {}
        opened: dict[str, Index] = {}
        for name, place in places.items():
            with_texts, with_vectors = fill(open_index(place, project="benchmark"), given.passages)
            opened[name] = open_index(place, project="benchmark")
            size = opened[name].care.stats()["size_bytes"] / 1e6
            cold = timed(lambda index=opened[name]: search(index, question(np.random.default_rng(1))))  # type: ignore[misc]
            row[name] = f"| {name} | {with_texts:.1f} | {with_vectors:.1f} | {size:.0f} | {cold:.0f} "
        random = np.random.default_rng(11)
        for asked in [question(random) for _ in range(given.questions)]:
            for name, index in opened.items():
                times[name].append(timed(lambda index=index, asked=asked: search(index, asked)))  # type: ignore[misc]
        extra = next(documents(PER_DOCUMENT, np.random.default_rng(99)))
        for name, index in opened.items():
            index.documents.put(extra, CHANGE)
            after = timed(lambda index=index: search(index, question(np.random.default_rng(2))))  # type: ignore[misc]
            cut = statistics.quantiles(times[name], n=20)
            print(f"{row[name]}| {statistics.median(times[name]):.1f} | {cut[18]:.1f} | {after:.0f} |")
        ratios = sorted(b / a for a, b in zip(times["SQLite"], times["PostgreSQL"], strict=True))
        print(f"\nPostgreSQL against SQLite, question by question: median {statistics.median(ratios):.2f}")
        print(f"most memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")
    finally:
        for index in opened.values():
            index.close()
        postgres_server.ended(server)
        folder.cleanup()


if __name__ == "__main__":
    main()
