"""Where do large workspaces to measure come from?

Text: sentences of this repository's own corpora, examples and pages (or of a folder that is named), mixed so that
no two passages are alike. Meaning: the first passages are embedded by the bundled model; all further vectors are
theirs with noise, with their token states. Files are not read and redacted one by one: entries go through the
real parser and splitter straight into the store. Their files are written beside it, because a server that starts there
looks for changes, and would take out of the index what has no file.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spec_kit_memory.core import markdown, passages
from spec_kit_memory.core.memory import Actor, Attributes, Change, Entry, Source, Stamp, embedded
from spec_kit_memory.embed import Embedder
from spec_kit_memory.index import open_index
from spec_kit_memory.index.contract import Index

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "tests" / "corpus"
SECTIONS = 10  # passages of a memory
SECTION_WORDS = 170
EMBEDDED = 400  # passages that the model really reads; every further vector is one of theirs with noise
PHRASES = 10_000  # trigger phrases of a workspace, whatever its size
NOISE = 0.6
WRITTEN = 1_750_000_000  # when the files were last changed, in seconds
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True)
class Shelf:
    """A workspace that was built to be measured."""

    root: Path
    passages: int
    memories: int


def sentences(folder: Path | None = None) -> list[str]:
    """Prose of a folder of markdown, else of this repository."""
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in _pages(folder)]
    if folder is None:
        rows = (CORPUS / "notes" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
        texts += [json.loads(row)["text"] for row in rows]
    found: dict[str, None] = {}
    for text in texts:
        for block in text.split("\n\n"):
            if not block.lstrip().startswith(("```", "|", "---", "<!--")):
                found.update(dict.fromkeys(_SENTENCE.split(" ".join(block.split()))))
    return [sentence for sentence in found if 4 <= len(sentence.split()) <= 60]


def _pages(folder: Path | None) -> list[Path]:
    folders = [folder] if folder else [ROOT / "docs", ROOT / "examples", CORPUS]
    return sorted(path for item in folders for path in item.rglob("*.md"))


def questions() -> list[str]:
    """What a person would ask: the questions of the labelled corpora."""
    files = (
        CORPUS / "notes" / "queries.jsonl",
        CORPUS / "changed" / "questions.jsonl",
        CORPUS / "example" / "questions.jsonl",
    )
    asked = [json.loads(row)["text"] for file in files for row in file.read_text(encoding="utf-8").splitlines()]
    random.Random(5).shuffle(asked)
    return asked


def memory_text(source: Sequence[str], number: int, *, phrases: int, sections: int = SECTIONS) -> str:
    """One memory file in markdown, the same for the same number."""
    chance = random.Random(number)
    title = " ".join(chance.choice(source).split()[:6]).strip("#*`-:., ") or f"Note {number}"
    day = datetime(2026, 3, 1) - timedelta(days=number % 80)
    lines = ["---", f"title: {json.dumps(title)}", f"created: {day:%Y-%m-%d}", "trigger_phrases:"]
    lines += [f"  - {phrase}" for phrase in _phrases(source, number, phrases)]
    lines += ["---", f"# {title}", ""]
    for _ in range(sections):
        body: list[str] = []
        while sum(len(sentence.split()) for sentence in body) < SECTION_WORDS:
            body.append(chance.choice(source))
        lines += [f"## {' '.join(body[0].split()[:4]).strip('#*`-:., ') or 'Notes'}", "", " ".join(body), ""]
    return "\n".join(lines)


def _phrases(source: Sequence[str], number: int, count: int) -> Iterator[str]:
    for item in range(count):
        chance = random.Random(f"{number}/{item}")
        words = re.findall(r"[a-z]{3,}", chance.choice(source).lower())[:2] or ["note"]
        yield f"{' '.join(words)} {number * count + item}"


def entries(source: Sequence[str], count: int) -> Iterator[Entry]:
    """Memories of together about so many passages."""
    memories = max(1, count // SECTIONS)
    for number in range(memories):
        text = memory_text(source, number, phrases=max(1, PHRASES // memories))
        document = markdown.parse(text)
        digest = hashlib.sha256(text.encode()).hexdigest()
        folder = f"{number % 100:03d}-topic"
        yield Entry(
            path=f"specs/{folder}/memory/{number:05d}.md",
            source=Source.MEMORY,
            spec_folder=folder,
            attributes=Attributes(
                title=document.title, triggers=document.front.triggers, created_at=document.front.created_at
            ),
            document=document,
            passages=passages.split(document),
            raw_hash=digest,
            content_hash=digest,
            fingerprint=markdown.fingerprint(document),
            stamp=Stamp(len(text.encode()), WRITTEN * 10**9, (WRITTEN + 60) * 10**9),
        )


def build(root: Path, source: Sequence[str], count: int, embedder: Embedder) -> Shelf:
    """A workspace of about so many passages with all their vectors; one that is there already is used again."""
    index = root / ".spec-kit-memory" / "index.sqlite"
    if index.exists():
        store = open_index(index)
        stats = store.care.stats()
        store.close()
        return Shelf(root, stats.passages, stats.memories)
    index.parent.mkdir(parents=True)
    store = open_index(index)
    change = Change(Actor.SYSTEM, datetime.now(UTC), reason="benchmark")
    words: dict[str, str] = {}
    with store.bulk():
        for entry in entries(source, count):
            _write(root / entry.path, entry.document.text)
            store.documents.put(entry, change)
            words |= {passage.hash: embedded(passage.headings, passage.text) for passage in entry.passages}
        store.vectors.use_model(embedder.name, embedder.dimensions, embedder.weights_hash)
        put_vectors(store, words, embedder)
    stats = store.care.stats()
    store.close()
    return Shelf(root, stats.passages, stats.memories)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    os.utime(path, (WRITTEN, WRITTEN))


def put_vectors(store: Index, words: Mapping[str, str], embedder: Embedder) -> None:
    hashes = list(words)
    made = embedder.embed_documents([words[hash_] for hash_ in hashes[:EMBEDDED]])
    base: npt.NDArray[np.float32] = np.array([item.vector for item in made], np.float32)
    states = [item.states for item in made]
    chance = np.random.default_rng(1)
    for start in range(0, len(hashes), 2_000):
        page = hashes[start : start + 2_000]
        chosen = np.arange(start, start + len(page)) % len(base)
        noise = chance.standard_normal((len(page), base.shape[1]), dtype=np.float32) / np.sqrt(
            np.float32(base.shape[1])
        )
        if start < len(base):
            noise[: len(base) - start] = 0.0
        block = base[chosen] + np.float32(NOISE) * noise
        block /= np.linalg.norm(block, axis=1, keepdims=True)
        store.vectors.put(
            {each: (row.tobytes(), states[at]) for each, row, at in zip(page, block, chosen.tolist(), strict=True)}
        )
