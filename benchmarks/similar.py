"""How well does the near-duplicate score tell copies from unlike files?

    python -m benchmarks.similar WORKSPACE_DIR [--pairs 20000] [--copies 500] [--seed 1]

Prints which share of random pairs of real files, and of pairs from one folder, is flagged, and
which share of planted near-copies (one to five sentences changed, added or left out) is found. The
same for short sessions that are saved in one folder: their sentences are drawn from the files.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections import defaultdict
from datetime import datetime
from itertools import combinations, pairwise
from pathlib import Path

from spec_kit_memory.core import session_document
from spec_kit_memory.core.saved_document import own_words
from spec_kit_memory.core.similar import THRESHOLD, Signature, score, signature

_BETWEEN = re.compile(r"((?<=[.!?])\s+|\n+)")


def near_copy(text: str, edits: int, sentences: list[str], chance: random.Random) -> str:
    """A copy in which some sentences were replaced, left out, followed by a new one, or changed by a word."""
    parts = _BETWEEN.split(text)
    places = [place for place in range(0, len(parts), 2) if len(parts[place].split()) >= 5]
    for place in chance.sample(places, min(edits, len(places))):
        kind = chance.choice(("replace", "replace", "drop", "add", "word"))
        if kind == "replace":
            parts[place] = chance.choice(sentences)
        elif kind == "drop":
            parts[place] = ""
        elif kind == "add":
            parts[place] += f" {chance.choice(sentences)}"
        else:
            words = parts[place].split()
            words[chance.randrange(len(words))] = "otherwise"
            parts[place] = " ".join(words)
    return "".join(parts)


def share(flags: list[bool]) -> str:
    return f"{100 * sum(flags) / max(1, len(flags)):6.2f} % of {len(flags)}"


def unlike(paths: list[Path], signatures: list[Signature], pairs: int, chance: random.Random) -> None:
    picked = [tuple(chance.sample(range(len(paths)), 2)) for _ in range(pairs)]
    print("random pairs of all files  ", share([score(signatures[a], signatures[b]) >= THRESHOLD for a, b in picked]))
    saved = [place for place, path in enumerate(paths) if path.parent.name == "memory"]
    if len(saved) > 1:
        picked = [tuple(chance.sample(saved, 2)) for _ in range(pairs)]
        flags = [score(signatures[a], signatures[b]) >= THRESHOLD for a, b in picked]
        print("pairs of memory files      ", share(flags))
    folders = defaultdict(list)
    for place, path in enumerate(paths):
        folders[path.parent].append(place)
    beside = [pair for places in folders.values() for pair in list(combinations(places, 2))[:200]]
    flags = [score(signatures[a], signatures[b]) >= THRESHOLD for a, b in beside]
    print("pairs of one folder        ", share(flags))


def saved(sentences: list[str], chance: random.Random, *, count: int, words: int) -> tuple[str, str]:
    """A short session as we save it, and the same with a word of its last sentence changed."""
    said = [" ".join(chance.choice(sentences).split()[:words]) for _ in range(count)]
    data = {"sessionSummary": ". ".join(said), "filesModified": ["src/main.py", "README.md"]}
    other = data | {"sessionSummary": ". ".join([*said[:-1], said[-1].rpartition(" ")[0] + " otherwise"])}
    when = datetime(2026, 1, 1, 12, 0)
    first, second = (
        session_document.render(session_document.read(item), now_local=when, spec_folder="001-core").text
        for item in (data, other)
    )
    return first, second


def short_saves(sentences: list[str], copies: int, chance: random.Random) -> None:
    for count, words in ((1, 5), (1, 10), (3, 10), (10, 10)):
        made = [saved(sentences, chance, count=count, words=words) for _ in range(copies)]
        signatures = [(signature(own_words(first)), signature(own_words(second))) for first, second in made]
        flags = [score(a, b) >= THRESHOLD for (a, _), (b, _) in pairwise(signatures)]
        print(f"unlike saves of {count} · {words} words ", share(flags))
        flags = [score(a, b) >= THRESHOLD for a, b in signatures]
        print("the same, one word changed ", share(flags))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--copies", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    chance = random.Random(args.seed)
    paths = sorted(args.workspace.rglob("*.md"))
    texts = [own_words(path.read_text("utf-8", errors="replace")) for path in paths]
    kept = [place for place, text in enumerate(texts) if text.strip()]
    paths, texts = [paths[place] for place in kept], [texts[place] for place in kept]
    start = time.perf_counter()
    signatures = [signature(text) for text in texts]
    seconds = time.perf_counter() - start
    print(f"{len(texts)} files, {sum(map(len, texts)) / seconds / 1e6:.1f} million characters a second")
    unlike(paths, signatures, args.pairs, chance)
    sentences = [part for text in chance.sample(texts, min(300, len(texts))) for part in _BETWEEN.split(text)]
    sentences = [sentence for sentence in sentences if 6 <= len(sentence.split()) <= 40]
    for edits in range(1, 6):
        places = [chance.randrange(len(texts)) for _ in range(args.copies)]
        copies = [signature(near_copy(texts[place], edits, sentences, chance)) for place in places]
        flags = [score(signatures[a], b) >= THRESHOLD for a, b in zip(places, copies, strict=True)]
        print(f"copies, {edits} sentences edited", share(flags))
    short_saves(sentences, args.copies, chance)
    start = time.perf_counter()
    for a, b in pairwise(signatures):
        score(a, b)
    print(f"one comparison {(time.perf_counter() - start) / max(1, len(signatures) - 1) * 1e6:.0f} µs")


if __name__ == "__main__":
    main()
