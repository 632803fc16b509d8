"""How many of the trigger phrases that people gave does extraction find from the body alone?

    python -m benchmarks.phrases WORKSPACE_DIR

Taken are the memory files whose front matter or metadata block holds phrases. Their bodies are read
without that metadata, without lines that list topics or phrases, and without lines that five or more
files share (the template of the program that wrote them, which a session's own text never has).

A list counts as given by hand unless it was plainly made by a program: the same list in three files or
more, or phrases that slide over a sentence word by word. Three numbers: the same phrase (word forms
apart), a phrase that shares at least half of all words, and the share of the phrases' words found at all.
"""

from __future__ import annotations

import re
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from spec_kit_memory.core.markdown import parse
from spec_kit_memory.core.phrases import MOST_PHRASES, extract
from spec_kit_memory.core.triggers import Matcher, fold
from spec_kit_memory.core.words import stem

SHARED_BY = 5
_TELLS = re.compile(r"key topics|trigger[ _-]?phrases?", re.IGNORECASE)
_YAML = re.compile(
    r"^```ya?ml\n(?:(?!^```).*\n)*?.*trigger_?phrases(?:(?!^```).*\n)*^```", re.IGNORECASE | re.MULTILINE
)


@dataclass(frozen=True)
class Case:
    path: Path
    given: tuple[str, ...]
    lines: tuple[str, ...]
    folder: str
    title: str


def stems(phrase: str) -> frozenset[str]:
    return frozenset(stem(word) for word in re.findall(r"[^\W_]+", fold(phrase)))


def load(root: Path) -> list[Case]:
    cases = []
    for path in sorted(root.rglob("specs/**/memory/*.md")) or sorted(root.rglob("memory/*.md")):
        text = path.read_text(encoding="utf-8", errors="replace")
        document = parse(text)
        body = "\n".join(document.text.split("\n")[document.body_first_line - 1 :])
        lines = [line for line in _YAML.sub("", body).split("\n") if not _TELLS.search(line)]
        folder = path.parent.parent.as_posix().rsplit("/specs/", 1)[-1]
        given = tuple(phrase for phrase in document.front.triggers if stems(phrase))
        cases.append(Case(path, given, tuple(lines), folder, ""))
    return cases


def machine_made(given: tuple[str, ...], lists: Counter[tuple[str, ...]]) -> bool:
    slides = sum(
        len(first.split()) >= 3 and first.split()[1:3] == second.split()[:2] for first, second in pairwise(given)
    )
    return lists[given] >= 3 or slides >= 2


def report(name: str, cases: list[Case], shared: Counter[str]) -> None:
    same = near = there = total = 0
    room = sum(min(MOST_PHRASES, len(case.given)) for case in cases)
    covered = 0.0
    seconds = []
    for case in cases:
        body = "\n".join(line for line in case.lines if shared[line.strip()] < SHARED_BY)
        started = time.process_time()
        results = [stems(phrase) for phrase in extract(body, spec_folder=case.folder)]
        seconds.append(time.process_time() - started)
        every = frozenset().union(*results)
        occurring = Matcher(enumerate(case.given)).match(body)
        there += len(occurring)
        for phrase in case.given:
            words = stems(phrase)
            total += 1
            same += words in results
            near += any(2 * len(words & other) >= len(words | other) for other in results)
            covered += len(words & every) / len(words)
    if not total:
        print(f"{name}: none")
        return
    print(
        f"{name}: {len(cases)} files, {total} phrases ({there / total:.0%} occur in the body, "
        f"{MOST_PHRASES} a file can be {room / total:.0%} of them); "
        f"same {same / total:.1%}, near {near / total:.1%}, words {covered / total:.1%}; "
        f"{1000 * statistics.median(seconds):.1f} ms a file (median), {1000 * max(seconds):.1f} ms at most"
    )


def main(workspace: str) -> None:
    cases = load(Path(workspace).resolve())
    shared = Counter(line for case in cases for line in {line.strip() for line in case.lines} if line)
    with_phrases = [case for case in cases if case.given]
    lists = Counter(case.given for case in with_phrases)
    report("given by hand", [case for case in with_phrases if not machine_made(case.given, lists)], shared)
    report("all lists", with_phrases, shared)


if __name__ == "__main__":
    main(sys.argv[1])
