"""What happens at the edges: a million passages, huge files, thousands of folders, anchors and phrases?

    python -m benchmarks.limits [--sizes 10000 100000 300000 1000000] [--keep DIR]

Passages are synthetic (60 words drawn from a vocabulary of 30,000 with natural frequencies) and so are their
vectors (384 dimensions, clustered): these figures are about size, not about quality. Everything is asked through
`Workspace`, in a fresh process. Beside each time stands how it grew from the size before: no step may be a cliff.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.storage import DIMENSIONS, NOW, PASSAGES, megabytes, vectors
from spec_kit_memory.core.memory import Attributes, Document, Entry, FrontMatter, Passage, Source, Stamp, embedded
from spec_kit_memory.core.triggers import Matcher
from spec_kit_memory.embed import Embedding, QueryEmbedding
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.store import open_store
from spec_kit_memory.workspace import Workspace

WORDS, VOCABULARY, FOLDERS, PHRASES = 60, 30_000, 10_000, 10_000
QUESTIONS = 60


class Synthetic:
    """Vectors without meaning, of the right size, in no time."""

    name, dimensions, weights_hash = "synthetic", DIMENSIONS, "none"

    def embed_query(self, text: str) -> QueryEmbedding:
        return QueryEmbedding(vector=vectors(1, seed=len(text))[0])

    def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        return [Embedding(vector=vectors(1, seed=len(text))[0]) for text in texts]


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


def entries(count: int) -> Iterator[Entry]:
    lines = texts(count)
    for number in range(count // PASSAGES):
        mine = [f"{next(lines)} number{number}x{at}" for at in range(PASSAGES)]
        text = "\n".join(mine)
        digest = hashlib.sha256(text.encode()).hexdigest()
        folder = f"{number % 1000:03d}-folder-{number % FOLDERS}"
        phrase = (f"phrase number {number}",) if number < PHRASES else ()
        yield Entry(
            path=f"specs/{folder}/memory/{number}.md",
            source=Source.MEMORY,
            spec_folder=folder,
            attributes=Attributes(title=f"Memory {number}", created_at=NOW.at, triggers=phrase),
            document=Document(text=text, title=f"Memory {number}", front=FrontMatter(), body_first_line=1),
            passages=tuple(
                Passage(at, at + 1, at + 1, line, hashlib.sha256(embedded((), line).encode()).hexdigest(), WORDS)
                for at, line in enumerate(mine)
            ),
            raw_hash=digest,
            content_hash=digest,
            fingerprint=digest[:16],
            stamp=Stamp(len(text), 1, 1),
        )


def build(root: Path, count: int) -> tuple[float, float]:
    settings = Settings(root=root, semantic=Semantic(model="hashing"))
    store = open_store(settings.index_path)
    started = time.perf_counter()
    hashes: list[str] = []
    with store.bulk():
        for entry in entries(count):
            store.put(entry, NOW)
            hashes += [passage.hash for passage in entry.passages]
    text_seconds = time.perf_counter() - started
    store.use_model("synthetic", DIMENSIONS, "none")
    started = time.perf_counter()
    with store.bulk():
        for at in range(0, len(hashes), 2_000):
            block = vectors(len(hashes[at : at + 2_000]), seed=at)
            store.put_vectors({key: (row.tobytes(), None) for key, row in zip(hashes[at:], block, strict=False)})
    store.close()
    return text_seconds, time.perf_counter() - started


def asked(root: Path) -> dict[str, Any]:
    """In a fresh process: how long each verb takes, in milliseconds."""
    settings = Settings(root=root, semantic=Semantic(model="hashing"))
    chance = random.Random(5)
    known = vocabulary()
    queries = [" ".join(chance.choices(known[50:], k=5)) for _ in range(QUESTIONS)]
    found: dict[str, Any] = {}
    started = time.perf_counter()
    with Workspace(settings, embedder=Synthetic()) as workspace:
        found["open"] = _ms(time.perf_counter() - started)
        found["first search"] = _ms(_took(lambda: workspace.search("first " + queries[0])))
        hybrid = sorted(_took(lambda q=query: workspace.search(q)) for query in queries)  # type: ignore[misc]
        text = sorted(_took(lambda q=query: workspace.search("t " + q, mode="text")) for query in queries)  # type: ignore[misc]
        one = sorted(
            _took(lambda q=query: workspace.search("f " + q, spec_folder="007-folder-7"))  # type: ignore[misc]
            for query in queries[:20]
        )
        for name, times in (("search", hybrid), ("text search", text), ("search in one folder", one)):
            found[f"{name} p50"], found[f"{name} p95"] = _ms(times[len(times) // 2]), _ms(times[int(len(times) * 0.95)])
        found["triggers (10,000 phrases)"] = _ms(
            min(_took(lambda: workspace.triggers("a phrase number 77")) for _ in range(5))
        )
        found["list"] = _ms(_took(lambda: workspace.list(limit=100)))
        found["load"] = _ms(_took(lambda: workspace.load(3)))
        found["stats"] = _ms(_took(workspace.stats))
        found["context"] = _ms(_took(lambda: workspace.context("a phrase number 77", spec_folder="007-folder-7")))
        found["save"] = _ms(
            _took(
                lambda: workspace.save(
                    text=f"Saved {time.time_ns()} at the edge", spec_folder="007-folder-7", create=True
                )
            )
        )
        found["search after a save"] = _ms(_took(lambda: workspace.search("saved at the edge")))
        found["health"] = _ms(_took(workspace.health))
        found["resident MB"] = round(megabytes())
    return found


def _took(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def sizes(wanted: Sequence[int], keep: Path) -> None:
    before: dict[str, Any] = {}
    for count in wanted:
        root = keep / str(count)
        made = root / "made.json"
        if not made.exists():
            (root / "specs" / "007-folder-7" / "memory").mkdir(parents=True)
            made.write_text(json.dumps(build(root, count)))
        text_seconds, vector_seconds = json.loads(made.read_text())
        file = root / ".spec-kit-memory" / "index.sqlite"
        print(
            f"{count:,} passages, {count // PASSAGES:,} memories, {min(FOLDERS, count // PASSAGES):,} spec folders "
            f"(synthetic): text {text_seconds:.0f} s, vectors {vector_seconds:.0f} s, "
            f"file {file.stat().st_size / 1e6:,.0f} MB",
            flush=True,
        )
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.limits", "--ask", str(root)], capture_output=True, text=True, check=True
        )
        found = json.loads(done.stdout)
        for name, value in found.items():
            grown = f"x {value / before[name]:.1f}" if before.get(name) else ""
            print(f"  {name:<28}{value:>12,.1f}  {grown}", flush=True)
        before = found


# --- single files ------------------------------------------------------------------------


def single_files(keep: Path) -> None:
    known = vocabulary()
    chance = random.Random(3)
    for name, text in (
        ("a memory of 900 KB", _long(known, chance)),
        ("1,000 anchors in a file", _anchors(known, chance)),
        ("a line of 900 KB", "# One line\n\n" + " ".join(chance.choices(known, k=110_000))[:900_000]),
    ):
        root = Path(tempfile.mkdtemp(dir=keep))
        folder = root / "specs" / "001-core" / "memory"
        folder.mkdir(parents=True)
        (folder / "large.md").write_text(text, encoding="utf-8")
        with Workspace(Settings(root=root, semantic=Semantic(model="hashing"))) as workspace:
            index = _took(lambda: workspace.index(embed=False))
            embed = _took(workspace.index)
            search = _took(lambda: workspace.search("anchor " + known[7], anchors=["part-500"]))
            load = _took(lambda: workspace.load(1))
            update = _took(lambda: workspace.update(1, title="Another title"))
            passages = workspace.stats().totals["passages"]
        print(
            f"{name}: {len(text):,} characters, {passages:,} passages: text {index:.2f} s, vectors (hashing) "
            f"{embed:.2f} s, search {search * 1000:.0f} ms, load {load * 1000:.0f} ms, update {update:.2f} s",
            flush=True,
        )


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
    before = 0.0
    for count in (1_000, 10_000, 100_000):
        matcher = Matcher([(number, " ".join(chance.choices(known, k=3))) for number in range(count)])
        prompt = " ".join(chance.choices(known, k=1500))[:10_000]
        took = min(_took(lambda: matcher.match(prompt)) for _ in range(20)) * 1000  # noqa: B023
        grown = f"  x {took / before:.1f}" if before else ""
        print(f"{count:,} trigger phrases, prompt of {len(prompt):,} characters: {took:.2f} ms{grown}", flush=True)
        before = took


def folders(keep: Path, count: int = FOLDERS) -> None:
    root = Path(tempfile.mkdtemp(dir=keep))
    for number in range(count):
        place = root / "specs" / f"{number % 1000:03d}-folder-{number}" / "memory"
        place.mkdir(parents=True)
        (place / "note.md").write_text(f"# Note {number}\n\nAbout number{number}.\n", encoding="utf-8")
    with Workspace(Settings(root=root, semantic=Semantic(model="hashing"))) as workspace:
        first = _took(lambda: workspace.index(embed=False))
        again = min(_took(lambda: workspace.index(embed=False)) for _ in range(3))
        stats = _took(workspace.stats)
        saved = _took(
            lambda: workspace.save(
                context={"sessionSummary": "About number77 of the notes"}, spec_folder="077-folder-77"
            )
        )
    print(
        f"{count:,} spec folders of one file: first scan {first:.1f} s, unchanged {again:.2f} s, stats "
        f"{stats * 1000:.0f} ms, save {saved * 1000:.0f} ms",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 100_000, 300_000, 1_000_000])
    parser.add_argument("--keep", type=Path, help="where to build; what is there already is used again")
    parser.add_argument("--ask", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.ask:
        print(json.dumps(asked(given.ask)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        keep = given.keep or Path(temporary)
        keep.mkdir(parents=True, exist_ok=True)
        phrases()
        single_files(keep)
        folders(keep)
        sizes(given.sizes, keep)


if __name__ == "__main__":
    main()
