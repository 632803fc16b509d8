"""How fast, how large and how quickly awake is the store, and what would the alternatives cost?

    python -m benchmarks.storage [--text DIR] [--questions FILE] [--sizes 10000 100000] [--million] [--keep DIR]

Passages are runs of 200 words, cut and mixed from real text (`--text`: a folder of markdown; else this
repository's own), ten to a memory. Vectors are synthetic: 384 dimensions, clustered. Questions are lines of
FILE, else runs of eight words of the text. Each figure of a search is from a fresh process.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spec_kit_memory.core import words
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
from spec_kit_memory.index.arrays.matching import Arrays
from spec_kit_memory.index.contract import Index
from spec_kit_memory.index.sqlite.engine import SqliteIndex

DIMENSIONS = 384
WORDS = 200  # a passage
PASSAGES = 10  # a memory
LIMIT = 300  # candidates that the ranking asks of each leg
CLUSTERS = 500
NOW = Change(Actor.SYSTEM, datetime(2026, 3, 1, tzinfo=UTC), reason="benchmark")


# --- material


def read_words(folder: Path) -> list[str]:
    files = sorted(folder.rglob("*.md"))
    return " ".join(file.read_text(encoding="utf-8", errors="replace") for file in files).split()


def passage_texts(source: list[str], count: int, *, seed: int = 1) -> Iterator[str]:
    """Once through the text; after that, halves of two places joined, so that no passage is there twice."""
    chance = random.Random(seed)
    last = max(1, len(source) - WORDS)
    for number in range(count):
        at = number * WORDS
        if at < last:
            yield " ".join(source[at : at + WORDS])
        else:
            cut, one, two = chance.randrange(WORDS), chance.randrange(last), chance.randrange(last)
            yield " ".join([*source[one : one + cut], *source[two : two + WORDS - cut]])


def entries(source: list[str], count: int, *, seed: int = 1) -> Iterator[Entry]:
    texts = passage_texts(source, count, seed=seed)
    for number in range(count // PASSAGES):
        lines = [next(texts) for _ in range(PASSAGES)]
        text = "\n".join(lines)
        digest = hashlib.sha256(text.encode()).hexdigest()
        folder = f"{number % 200:03d}-folder"
        title = " ".join(lines[0].split()[:5])
        yield Entry(
            path=f"specs/{folder}/memory/{seed}-{number}.md",
            source=Source.MEMORY,
            spec_folder=folder,
            attributes=Attributes(title=title, created_at=NOW.at),
            document=Document(text=text, title=title, front=FrontMatter(), body_first_line=1),
            passages=tuple(
                Passage(at, at + 1, at + 1, line, hashlib.sha256(embedded((), line).encode()).hexdigest(), WORDS)
                for at, line in enumerate(lines)
            ),
            raw_hash=digest,
            content_hash=digest,
            fingerprint=digest[:16],
            stamp=Stamp(len(text), 1, 1),
        )


def vectors(count: int, *, seed: int = 1) -> npt.NDArray[np.float32]:
    chance = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((CLUSTERS, DIMENSIONS), dtype=np.float32)
    made = centres[chance.integers(0, CLUSTERS, count)] + chance.standard_normal((count, DIMENSIONS), dtype=np.float32)
    unit: npt.NDArray[np.float32] = made / np.linalg.norm(made, axis=1, keepdims=True)
    return unit


def questions(source: list[str], file: Path | None, count: int = 200) -> list[tuple[str, ...]]:
    chance = random.Random(3)
    if file:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        asked = chance.sample(lines, min(count, len(lines)))
    else:
        starts = [chance.randrange(len(source) - 8) for _ in range(count)]
        asked = [" ".join(source[at : at + 8]) for at in starts]
    return [words.for_query(question) for question in asked]


# --- measuring


Times = list[tuple[float, float]]  # by the clock, and of this thread's processor time


def percentiles(times: Times) -> str:
    """By the clock; and processor time, which others on the machine do not lengthen as much."""
    clock, processor = np.array(times).T * 1000
    p50, p95, most = np.percentile(clock, [50, 95, 100])
    quiet50, quiet95 = np.percentile(processor, [50, 95])
    return f"p50 {p50:7.2f}  p95 {p95:7.2f}  max {most:7.2f} ms   processor {quiet50:6.2f} {quiet95:6.2f}"


def timed(calls: list[Callable[[], Any]]) -> Times:
    taken = []
    for call in calls:
        start, worked = time.perf_counter(), time.thread_time()
        call()
        taken.append((time.perf_counter() - start, time.thread_time() - worked))
    return taken


def build(path: Path, source: list[str], count: int) -> None:
    store = open_index(path)
    start = time.perf_counter()
    with store.bulk():
        for entry in entries(source, count):
            store.documents.put(entry, NOW)
    text_seconds = time.perf_counter() - start
    store.vectors.use_model("synthetic", DIMENSIONS, "none")
    hashes = [passage.hash for entry in entries(source, count) for passage in entry.passages]
    start = time.perf_counter()
    with store.bulk():
        for at in range(0, len(hashes), 2_000):
            block = vectors(len(hashes[at : at + 2_000]), seed=at)
            store.vectors.put({hash_: (row.tobytes(), None) for hash_, row in zip(hashes[at:], block, strict=False)})
    vector_seconds = time.perf_counter() - start
    store.close()
    rate = count / PASSAGES / text_seconds
    print(f"  index       {text_seconds:.1f} s text ({rate:.0f} files/s of {PASSAGES} passages)")
    print(f"  vectors     {vector_seconds:.1f} s ({len(hashes) / vector_seconds:.0f} a second)")
    print(f"  file        {path.stat().st_size / 1e6:.0f} MB")


def megabytes() -> float:
    status = Path("/proc/self/status")
    if status.exists():
        match = re.search(r"VmRSS:\s+(\d+)", status.read_text())
        return int(match[1]) / 1024 if match else 0.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def search(path: Path, asked: list[tuple[str, ...]]) -> None:
    """In a fresh process: from nothing to the first answer, then many."""
    before = megabytes()
    start = time.perf_counter()
    store = open_index(path)
    store.documents.match(asked[0], Filter(), LIMIT)
    first_text = time.perf_counter() - start
    with_text = megabytes()
    queries = vectors(200, seed=99)
    start = time.perf_counter()
    store.vectors.match(queries[0], Filter(), LIMIT)
    first_vector = time.perf_counter() - start
    with_vectors = megabytes()
    print(f"  start       text after {first_text * 1000:.0f} ms, vectors {first_vector * 1000:.0f} ms more")
    print(f"  memory      {with_text - before:.0f} MB for text, {with_vectors - with_text:.0f} MB more for vectors")
    everything, folder = Filter(), Filter(spec_folder="007-folder")
    ways: dict[str, list[Callable[[], Any]]] = {
        "text, words new": [partial(store.documents.match, terms, everything, LIMIT) for terms in asked],
        "text, words known": [partial(store.documents.match, terms, everything, LIMIT) for terms in asked],
        "text, one folder": [partial(store.documents.match, terms, folder, LIMIT) for terms in asked],
        "vector": [partial(store.vectors.match, query, everything, LIMIT) for query in queries],
        "vector, one folder": [partial(store.vectors.match, query, folder, LIMIT) for query in queries],
        "FTS5's own bm25": [partial(_fts5, store, terms) for terms in asked[:60]],
    }
    for name, calls in ways.items():
        print(f"  {name:<20}{percentiles(timed(calls))}")
    _tantivy(store, asked)
    store.close()
    fresh = open_index(path)
    warming = timed([fresh.warm])
    print(f"  warm()      takes {warming[0][0]:.1f} s; after it:")
    warmed = timed([partial(fresh.documents.match, terms, everything, LIMIT) for terms in asked])
    print(f"  {'text, words new':<20}{percentiles(warmed)}")


def _fts5(store: Index, asked: tuple[str, ...]) -> None:
    """The alternative: one SQL query that scores every matching row and joins the filter."""
    assert isinstance(store, SqliteIndex)
    quoted = " OR ".join('"' + term.replace('"', '""') + '"' for term in asked)
    with store._database.reading() as connection:
        connection.execute(
            "SELECT passage_fts.rowid, bm25(passage_fts) FROM passage_fts"
            " JOIN passage ON passage.id = passage_fts.rowid JOIN memory ON memory.id = passage.memory_id"
            " WHERE passage_fts MATCH ? AND presence = 'live' ORDER BY 2 LIMIT ?",
            (quoted, LIMIT),
        ).fetchall()


def _tantivy(store: Index, asked: list[tuple[str, ...]]) -> None:
    """The other alternative, where it is installed: a second index that would have to be kept in step."""
    try:
        import tantivy
    except ImportError:
        return
    schema = tantivy.SchemaBuilder()
    schema.add_text_field("body", tokenizer_name="en_stem")
    index = tantivy.Index(schema.build())
    writer = index.writer(heap_size=100_000_000)
    start = time.perf_counter()
    for memory in store.documents.find():
        for line in store.documents.text(memory.id).split("\n"):
            writer.add_document(tantivy.Document(body=line))
    writer.commit()
    index.reload()
    seconds = time.perf_counter() - start
    searcher = index.searcher()

    def ask(terms: tuple[str, ...]) -> None:
        searcher.search(index.parse_query(" ".join(re.findall(r"\w+", " ".join(terms))), ["body"]), LIMIT)

    calls: list[Callable[[], Any]] = [partial(ask, terms) for terms in asked]
    print(f"  {'tantivy':<20}{percentiles(timed(calls))}  ({seconds:.0f} s to build, no filters)")


def share(path: Path, source: list[str], asked: list[tuple[str, ...]]) -> None:
    """One process writes, this one searches: what a change costs the next search, and what waiting costs a write."""
    store = open_index(path)
    queries = vectors(50, seed=98)
    store.documents.match(asked[0], Filter(), LIMIT)
    store.vectors.match(queries[0], Filter(), LIMIT)
    waited: Times = []
    stop = threading.Event()

    def write() -> None:
        other = open_index(path)
        for entry in entries(source, 100 * PASSAGES, seed=7):
            if stop.is_set():
                break
            waited.extend(timed([partial(other.documents.put, entry, NOW)]))
        other.close()

    process = subprocess.Popen([sys.executable, "-c", _OTHER, str(path)], stdout=subprocess.DEVNULL)
    thread = threading.Thread(target=write)
    thread.start()
    seconds = timed([partial(store.documents.match, terms, Filter(), LIMIT) for terms in asked])
    near = timed([partial(store.vectors.match, query, Filter(), LIMIT) for query in queries])
    stop.set()
    thread.join()
    process.wait()
    print(f"  text while two others write   {percentiles(seconds)}")
    print(f"  vector while two others write {percentiles(near)}")
    print(f"  a synced write meanwhile      {percentiles(waited)}  ({len(waited)} writes)")
    for memory in store.documents.find(Filter(spec_folder="other")):
        store.documents.vanish(memory.path, NOW)
    store.close()


_OTHER = """
import sys
from pathlib import Path
from benchmarks.storage import NOW, entries
from dataclasses import replace
from spec_kit_memory.index import open_index
store = open_index(Path(sys.argv[1]))
for entry in entries(["some", "other", "words", "here"] * 200, 300, seed=8):
    store.documents.put(replace(entry, spec_folder="other"), NOW)
"""


def million(path: Path, count: int) -> None:
    """Vectors alone, straight into the table: how the two forms in memory behave when they are many."""
    store = SqliteIndex(path)
    store.vectors.use_model("synthetic", DIMENSIONS, "none")
    with store._database.writing() as connection:
        memory = "INSERT INTO memory (path, source, title, tier, weight, context_type, triggers, presence, fingerprint,"
        memory += " content_hash, first_indexed_at, updated_at, archived_folder, trusted, changed)"
        memory += " VALUES (?, 'memory', 't', 'normal', 0.5, 'general', '[]', 'live', '', '', 0, 0, 0, 1, 1)"
        connection.executemany(memory, ((f"memory/{number}.md",) for number in range(count // PASSAGES)))
        for at in range(0, count, 10_000):
            block = vectors(10_000, seed=at)
            connection.executemany(
                "INSERT INTO vector (model, hash, vector) VALUES (1, ?, ?)",
                ((str(at + number), row.tobytes()) for number, row in enumerate(block)),
            )
            connection.executemany(
                "INSERT INTO passage (memory_id, ordinal, first_line, last_line, hash, tokens, anchor, headings,"
                " speaker, length, vector_id) VALUES (?, ?, 1, 1, ?, 1, '', '[]', '', 1, ?)",
                (((at + n) // PASSAGES + 1, (at + n) % PASSAGES, str(at + n), at + n + 1) for n in range(10_000)),
            )
    queries = vectors(30, seed=99)
    truth = _nearest(store, "float32", queries, exact_bytes=1 << 62)
    results = _nearest(store, "bits, then exact", queries, exact_bytes=0)
    same = sum(len(a & b) for a, b in zip(truth, results, strict=True)) / sum(len(a) for a in truth)
    print(f"  of the {LIMIT} nearest, bits find {same:.4f}")
    store.close()


def _nearest(store: SqliteIndex, name: str, queries: npt.NDArray[np.float32], *, exact_bytes: int) -> list[set[int]]:
    before = megabytes()
    store._shared.loaded = Arrays(store._shared.feed, exact_bytes=exact_bytes)
    start = time.perf_counter()
    store.vectors.match(queries[0], Filter(), LIMIT)
    loading = time.perf_counter() - start
    times = timed([partial(store.vectors.match, query, Filter(), LIMIT) for query in queries])
    print(f"  {name:<18}{percentiles(times)}")
    print(f"  {'':<18}first answer after {loading:.1f} s, {megabytes() - before:+.0f} MB")
    return [{hit.passage_id for hit in store.vectors.match(query, Filter(), LIMIT)} for query in queries]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--questions", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument(
        "--million", action="store_true", help="also 1,000,000 vectors (needs 8 GB of disk and 4 GB of memory)"
    )
    parser.add_argument("--keep", type=Path, help="where to build; an index that is there already is used again")
    parser.add_argument("--search", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    source = read_words(given.text)
    asked = [terms for terms in questions(source, given.questions) if terms]
    if given.search:
        search(given.search, asked)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        for size in given.sizes:
            kind = "real, cut and mixed" if size * WORDS > len(source) else "real"
            print(f"{size:,} passages (text {kind}, vectors synthetic)", flush=True)
            path = folder / f"{size}.sqlite"
            if not path.exists():
                build(path, source, size)
            arguments = ["--search", str(path), "--text", str(given.text)]
            arguments += ["--questions", str(given.questions)] if given.questions else []
            subprocess.run([sys.executable, "-m", "benchmarks.storage", *arguments], check=True)
            share(path, source, asked)
        if given.million:
            print("1,000,000 vectors (synthetic)")
            million(folder / f"million-{json.dumps(time.time())}.sqlite", 1_000_000)


if __name__ == "__main__":
    main()
