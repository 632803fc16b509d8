"""What happens at the edges: a million passages, huge files, thousands of folders, anchors and phrases?

    python -m benchmarks.limits [--sizes 10000 100000 1000000] [--keep DIR] [--only sizes things]

Passages are synthetic (60 words drawn from a vocabulary of 30,000 with natural frequencies) and so are their
vectors (384 dimensions, clustered): these figures are about size, not about quality. Ten passages are a memory, and
each memory is a file. Everything is asked through `Workspace`, in a fresh process for each size. A column is a size,
with the machine's load beside it; the last column says how the time grew from the size before: no step may be a cliff.
A million passages need 5 GB of disk and some minutes to build.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.storage import DIMENSIONS, NOW, PASSAGES, megabytes, vectors
from spec_kit_memory.core.memory import Attributes, Document, Entry, FrontMatter, Passage, Source, Stamp, embedded
from spec_kit_memory.core.triggers import Matcher
from spec_kit_memory.embed import Embedding, QueryEmbedding
from spec_kit_memory.index.sqlite.engine import SqliteIndex
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace

WORDS, VOCABULARY, FOLDERS, PHRASES = 60, 30_000, 10_000, 10_000
QUESTIONS = 60
TOGETHER = 500  # memories in one transaction, while building
WRITTEN_NS, SEEN_NS = 1_700_000_000_000_000_000, 1_700_000_100_000_000_000
FOLDER = "007-folder-7"


class Synthetic:
    """Vectors without meaning, of the right size, in no time."""

    name, dimensions, weights_hash = "synthetic", DIMENSIONS, "none"

    def __init__(self) -> None:
        self._some = vectors(97, seed=7)

    def embed_query(self, text: str) -> QueryEmbedding:
        return QueryEmbedding(vector=self._some[sum(text.encode()) % len(self._some)])

    def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        return [Embedding(vector=self._some[sum(text.encode()) % len(self._some)]) for text in texts]


def vocabulary() -> list[str]:
    chance = random.Random(1)
    sounds = [a + b for a in "bcdfghklmnprstvwz" for b in "aeiou"]
    return ["".join(chance.choices(sounds, k=chance.randrange(2, 5))) for _ in range(VOCABULARY)]


def texts(count: int, *, seed: int = 1) -> Iterator[str]:
    """Words as often as in a language: the second half as often as the first, and so on."""
    known = np.array(vocabulary())
    chance = np.random.default_rng(seed)
    for _ in range(0, count, 1000):
        at = np.minimum((chance.zipf(1.15, (1000, WORDS)) - 1) % VOCABULARY, VOCABULARY - 1)
        yield from (" ".join(row) for row in known[at])


def questions() -> list[str]:
    """Three words of any kind and two that nearly every memory has."""
    chance = random.Random(5)
    known = vocabulary()
    return [" ".join(chance.choices(known[50:], k=3) + chance.choices(known[:200], k=2)) for _ in range(QUESTIONS)]


def entries(count: int) -> Iterator[Entry]:
    lines = texts(count)
    phrases = max(1, PHRASES * PASSAGES // count)
    for number in range(count // PASSAGES):
        mine = [f"{next(lines)} number{number}x{at}" for at in range(PASSAGES)]
        text = "\n".join(mine)
        digest = hashlib.sha256(text.encode()).hexdigest()
        folder = f"{number % 1000:03d}-folder-{number % FOLDERS}"
        named = range(number * phrases, min(PHRASES, (number + 1) * phrases))
        yield Entry(
            path=f"specs/{folder}/memory/{number}.md",
            source=Source.MEMORY,
            spec_folder=folder,
            attributes=Attributes(
                title=f"Memory {number}", created_at=NOW.at, triggers=tuple(f"phrase number {item}" for item in named)
            ),
            document=Document(text=text, title=f"Memory {number}", front=FrontMatter(), body_first_line=1),
            passages=tuple(
                Passage(at, at + 1, at + 1, line, hashlib.sha256(embedded((), line).encode()).hexdigest(), WORDS)
                for at, line in enumerate(mine)
            ),
            raw_hash=digest,
            content_hash=digest,
            fingerprint=digest[:16],
            stamp=Stamp(len(text), WRITTEN_NS, SEEN_NS),
        )


# --- building


def build(root: Path, count: int) -> dict[str, float]:
    """Files and index, without reading the one for the other: reading takes a scan most of its time."""
    store = SqliteIndex(Settings(root=root).index_path)
    started = time.perf_counter()
    hashes: list[str] = []
    made = entries(count)
    while some := list(islice(made, TOGETHER)):
        for entry in some:
            _write(root / entry.path, entry.document.text)
        with store.together():
            for entry in some:
                store.documents.put(entry, NOW)
        hashes += [passage.hash for entry in some for passage in entry.passages]
    text_seconds = time.perf_counter() - started
    store.vectors.use_model(Synthetic.name, DIMENSIONS, Synthetic.weights_hash)
    started = time.perf_counter()
    for at in range(0, len(hashes), 5_000):
        some_hashes = hashes[at : at + 5_000]
        block = vectors(len(some_hashes), seed=at)
        store.vectors.put({key: (row.tobytes(), None) for key, row in zip(some_hashes, block, strict=True)})
    store.close()
    return {"text": text_seconds, "vectors": time.perf_counter() - started}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(WRITTEN_NS, WRITTEN_NS))


# --- asking


def asked(root: Path) -> dict[str, float]:
    """In a fresh process: how long each verb takes, in milliseconds."""
    settings = Settings(root=root, semantic=Semantic(model="hashing"))
    queries = questions()
    found: dict[str, float] = {"load of the machine": round(os.getloadavg()[0], 1)}
    started = time.perf_counter()
    with Workspace(settings, embedder=Synthetic()) as workspace:
        found["opening"] = _ms(time.perf_counter() - started)
        found["first search of a process"] = _ms(_took(lambda: workspace.search("first " + queries[0])))
        _searches(workspace, queries, found)
        found["resident memory after searching, MB"] = round(megabytes())
        found["triggers, first (10,000 phrases)"] = _ms(_took(lambda: workspace.triggers("a phrase number 78")))
        found["triggers (10,000 phrases)"] = _median(lambda: workspace.triggers("a phrase number 77"))
        found["load"] = _median(lambda: workspace.load(3))
        found["list, first page of 100"] = _median(lambda: workspace.list(limit=100))
        last = workspace.stats().totals["memories"] - 100
        found["list, last page of 100"] = _median(lambda: workspace.list(limit=100, offset=last))
        found["stats"] = _median(workspace.stats)
        found["context"] = _median(lambda: workspace.context("a phrase number 77", spec_folder=FOLDER))
        saves = [_ms(_took(lambda said=query: _save(workspace, said))) for query in queries[:5]]  # type: ignore[misc]
        found["save, first of a process"], found["save"] = saves[0], sorted(saves[1:])[2]
        found["search after a save"] = _ms(_took(lambda: workspace.search("saved at the edge")))
        found["scan, nothing changed"] = _ms(_took(lambda: workspace.index(embed=False)))
        found["health"] = _ms(_took(workspace.health))
        found["health, full"] = _ms(_took(lambda: workspace.health(full=True)))
    return found


def _searches(workspace: Workspace, queries: Sequence[str], found: dict[str, float]) -> None:
    ways: dict[str, Callable[[str], Any]] = {
        "search": workspace.search,
        "text search": lambda query: workspace.search("t " + query, mode="text"),
        "search in one folder": lambda query: workspace.search("f " + query, spec_folder=FOLDER),
    }
    for name, search in ways.items():
        times = sorted(_took(lambda q=query: search(q)) for query in queries)  # type: ignore[misc]  # noqa: B023
        found[f"{name}, p50"], found[f"{name}, p95"] = _ms(times[len(times) // 2]), _ms(times[int(len(times) * 0.95)])


def _save(workspace: Workspace, words: str) -> None:
    workspace.save(context={"sessionSummary": f"Saved at the edge {time.time_ns()}: {words}"}, spec_folder=FOLDER)


def _took(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _median(work: Callable[[], Any]) -> float:
    return _ms(sorted(_took(work) for _ in range(5))[2])


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def sizes(wanted: Sequence[int], keep: Path) -> None:
    columns: list[dict[str, float]] = []
    for count in wanted:
        root = keep / str(count)
        made = root / "made.json"
        if not made.exists():
            root.mkdir(parents=True)
            made.write_text(json.dumps(build(root, count)))
        seconds = json.loads(made.read_text())
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.limits", "--ask", str(root)], capture_output=True, text=True, check=True
        )
        size = (root / ".spec-kit-memory" / "index.sqlite").stat().st_size
        columns.append(
            json.loads(done.stdout)
            | {"index file, MB": round(size / 1e6), "building, s": round(seconds["text"] + seconds["vectors"])}
        )
        print(f"{count:,} passages done at load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    heads = [
        f"{count:,} passages, {count // PASSAGES:,} memories, {min(FOLDERS, count // PASSAGES):,} folders"
        for count in wanted
    ]
    _table(
        ["milliseconds (synthetic text and vectors)", *heads, "growth"], [_row(name, columns) for name in columns[0]]
    )


def _row(name: str, columns: Sequence[Mapping[str, float]]) -> list[str]:
    values = [column[name] for column in columns]
    grown = [f"x {after / before:.1f}" for before, after in pairwise(values) if before]
    shown = [f"{value:,.1f}" if value < 100 else f"{value:,.0f}" for value in values]
    return [name, *shown, ", ".join(grown) if name != "load of the machine" else ""]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    for cells in (heads, ["---"] * len(heads), *rows):
        print("| " + " | ".join(cells) + " |", flush=True)
    print(flush=True)


# --- single things


def single_files(keep: Path) -> None:
    known = vocabulary()
    chance = random.Random(3)
    rows = []
    for name, text in (
        ("a memory of 900 KB", _long(known, chance)),
        ("1,000 anchors in a file", _anchors(known, chance)),
        ("one long line", "# One line\n\n" + " ".join(chance.choices(known, k=110_000))[:900_000]),
    ):
        root = Path(tempfile.mkdtemp(dir=keep))
        folder = root / "specs" / "001-core" / "memory"
        folder.mkdir(parents=True)
        (folder / "large.md").write_text(text, encoding="utf-8")
        with Workspace(Settings(root=root, semantic=Semantic(model="hashing"))) as workspace:
            index = _took(lambda: workspace.index(embed=False))
            embed = _took(workspace.index)
            workspace.search("warm " + known[9])
            words = iter(known[100:])  # an answer is kept, so every question is another one
            search = _median(lambda: workspace.search("anchor " + next(words), anchors=["part-500"]))  # noqa: B023
            load = _median(lambda: workspace.load(1))
            update = _took(lambda: workspace.update(1, title="Another title"))
            passages = workspace.stats().totals["passages"]
        cells = (index * 1000, embed * 1000, search, load, update * 1000)
        size = f"{len(text) / 1000:,.0f} KB, {passages:,} passages"
        rows.append([name, size, *(f"{cell:,.0f}" for cell in cells)])
    heads = ["milliseconds", "size", "text indexed", "vectors (hashing)", "search", "load", "update"]
    print(f"Load of the machine: {os.getloadavg()[0]:.1f}\n")
    _table(heads, rows)


def _long(known: list[str], chance: random.Random) -> str:
    parts = [f"## Part {number}\n\n" + " ".join(chance.choices(known, k=600)) for number in range(210)]
    return ("# Long\n\n" + "\n\n".join(parts))[:900_000]


def _anchors(known: list[str], chance: random.Random) -> str:
    parts = [
        f"<!-- ANCHOR:part-{number} -->\n## Part {number}\n\n{' '.join(chance.choices(known, k=40))}\n"
        f"<!-- /ANCHOR:part-{number} -->"
        for number in range(1000)
    ]
    return "# Anchors\n\n" + "\n\n".join(parts)


def phrases() -> None:
    chance = random.Random(4)
    known = vocabulary()
    times = {}
    for count in (1_000, 10_000, 100_000):
        matcher = Matcher([(number, " ".join(chance.choices(known, k=3))) for number in range(count)])
        prompt = " ".join(chance.choices(known, k=1500))[:10_000]
        times[f"{count:,} phrases"] = f"{min(_took(lambda: matcher.match(prompt)) for _ in range(20)) * 1000:.2f}"  # noqa: B023
    _table(["milliseconds, prompt of 10,000 characters", *times], [["matching trigger phrases", *times.values()]])


def folders(keep: Path, counts: Sequence[int] = (1_000, FOLDERS)) -> None:
    """Spec folders of one file each, scanned as a user's would be."""
    columns = []
    said_in_saves = questions()[:4]
    for count in counts:
        root = Path(tempfile.mkdtemp(dir=keep))
        for number in range(count):
            place = root / "specs" / f"{number % 1000:03d}-folder-{number}" / "memory"
            place.mkdir(parents=True)
            (place / "note.md").write_text(f"# Note {number}\n\nAbout number{number}.\n", encoding="utf-8")
        with Workspace(Settings(root=root, semantic=Semantic(model="hashing"))) as workspace:
            first = _ms(_took(lambda: workspace.index(embed=False)))
            again = _median(lambda: workspace.index(embed=False))
            saves = [_ms(_took(lambda said=said: _save(workspace, said))) for said in said_in_saves]  # type: ignore[misc]
            columns.append(
                {
                    "load of the machine": round(os.getloadavg()[0], 1),
                    "first scan": first,
                    "scan, nothing changed": again,
                    "stats": _median(workspace.stats),
                    "save, first of a process": saves[0],
                    "save": sorted(saves[1:])[1],
                }
            )
    heads = ["milliseconds", *(f"{count:,} spec folders of one file" for count in counts), "growth"]
    _table(heads, [_row(name, columns) for name in columns[0]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--only", nargs="*", choices=("sizes", "things"), default=["things", "sizes"])
    parser.add_argument("--keep", type=Path, help="where to build; what is there already is used again")
    parser.add_argument("--ask", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.ask:
        print(json.dumps(asked(arguments.ask)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        keep = arguments.keep or Path(temporary)
        keep.mkdir(parents=True, exist_ok=True)
        if "things" in arguments.only:
            phrases()
            single_files(keep)
            folders(keep)
        if "sizes" in arguments.only:
            sizes(arguments.sizes, keep)


if __name__ == "__main__":
    main()
