"""How much of what answers a question gets through a token budget?

    python -m benchmarks.tokens DATASET_DIR... [--most 200] [--cache DIR] [--json FILE] [--svg FILE]

Recall at maxTokens 250 to 4,000, through Workspace.search as a client gets it. Beside it two plain ways to spend the
same tokens on the same ranking, best first while they fit: whole files, and the best passages as a flat list, with
nothing around them but {"results": [{path, lines, text, score, source}]}. All three are counted as the JSON of
`data`, by one estimate (a quarter of the bytes); the envelope around it is the same for all.

A document counts as returned when the lines in the answer have half of its words, or the passage of it that matches
the question best is there whole.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.caching import default_folder
from benchmarks.plot import curves
from benchmarks.retrieval import Options, Row, Shelf, rows_of
from spec_kit_memory.answers import FlatResult, Result, SearchAnswer
from spec_kit_memory.core.tokens import BYTES_PER_TOKEN, count
from spec_kit_memory.serve import render

BUDGETS = (250, 500, 1000, 2000, 4000)
WAYS = ("packed", "top passages", "whole files")
MOST = 100  # results, files or passages asked for
SAMPLES = 2000

Range = tuple[str, int, int]  # path, first line, last line


@dataclass
class Figures:
    """One dataset: for each way and budget a number per question."""

    name: str
    recall: dict[str, list[list[float]]] = field(default_factory=lambda: {way: [[] for _ in BUDGETS] for way in WAYS})
    used: list[list[float]] = field(default_factory=lambda: [[] for _ in BUDGETS])
    envelope: list[float] = field(default_factory=list)

    def mean(self, way: str) -> list[float]:
        return [_mean(row) for row in self.recall[way]]

    def lead(self, way: str) -> list[tuple[float, float, float]]:
        """By how much packing is ahead of another way at each budget, with a 95 % interval over the questions."""
        pairs = zip(self.recall["packed"], self.recall[way], strict=True)
        return [_interval([ours - theirs for ours, theirs in zip(*rows, strict=True)]) for rows in pairs]

    def as_json(self) -> dict[str, Any]:
        return {
            "questions": len(self.used[0]),
            "recall": {way: self.mean(way) for way in WAYS},
            "lead": {way: self.lead(way) for way in WAYS[1:]},
            "tokens": [_mean(row) for row in self.used],
            "envelope": _mean(self.envelope),
        }


def _mean(row: Sequence[float]) -> float:
    return sum(row) / len(row)


def _interval(row: Sequence[float]) -> tuple[float, float, float]:
    chance = random.Random(7)
    means = sorted(_mean(chance.choices(row, k=len(row))) for _ in range(SAMPLES))
    return _mean(row), means[int(SAMPLES * 0.025)], means[int(SAMPLES * 0.975)]


# --- the three ways ------------------------------------------------------------------


def packed(answer: SearchAnswer) -> list[Range]:
    found = []
    for result in answer.results:
        pieces = [(result.lines, result.text)]
        if isinstance(result, Result):
            pieces += [(each.lines, each.text) for each in result.passages]
        found += [_range(result.path, lines) for lines, text in pieces if text]
    return found


def greedy(items: Iterable[tuple[Mapping[str, Any], Range]], budget: int) -> list[Range]:
    """Best first; what does not fit is passed over."""
    room = budget * BYTES_PER_TOKEN - len('{"results":[]}') + len(",")
    ranges = []
    for item, where in items:
        size = len(render.compact(item).encode()) + len(",")
        if size <= room:
            room -= size
            ranges.append(where)
    return ranges


def passages_of(flat: SearchAnswer) -> list[tuple[Mapping[str, Any], Range]]:
    names = ("path", "lines", "text", "score", "source")
    listed = [each for each in flat.results if isinstance(each, FlatResult)]
    return [
        ({name: render.value(getattr(each, name)) for name in names}, _range(each.path, each.lines)) for each in listed
    ]


def files_of(library: Library, flat: SearchAnswer) -> list[tuple[Mapping[str, Any], Range]]:
    """The files of the same ranking, each once."""
    best = {each.path: each for each in reversed(flat.results)}
    items: list[tuple[Mapping[str, Any], Range]] = []
    for path in dict.fromkeys(each.path for each in flat.results):
        lines, score, source = library.lines(path), best[path].score, best[path].source.value
        item = {"path": path, "lines": f"1-{len(lines)}", "text": "\n".join(lines), "score": score, "source": source}
        items.append((item, (path, 1, len(lines))))
    return items


def _range(path: str, lines: str) -> Range:
    first, last = lines.split("-")
    return path, int(first), int(last)


# --- what counts as returned ---------------------------------------------------------


class Library:
    """Where the documents of a group stand, and their lines."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self._lines: dict[str, list[str]] = {}
        self._places: dict[str, list[Range]] = defaultdict(list)
        for path, places in shelf._places.items():
            for first, last, id_ in places:
                self._places[id_].append((path, first, last))

    def lines(self, path: str) -> list[str]:
        if path not in self._lines:
            self._lines[path] = self.shelf.workspace.get(path).text.split("\n")
        return self._lines[path]

    def returned(self, id_: str, shown: Mapping[str, set[int]], ranked: Sequence[Range]) -> bool:
        for path, first, last in self._places[id_]:
            if path not in shown:
                continue
            own = range(first, min(last, len(self.lines(path))) + 1)
            if 2 * self._words(path, shown[path].intersection(own)) >= self._words(path, own) > 0:
                return True
            best = next((each for each in ranked if each[0] == path and each[1] <= own[-1] and each[2] >= own[0]), None)
            if best and all(
                n in shown[path] or not self.lines(path)[n - 1].strip() for n in range(best[1], best[2] + 1)
            ):
                return True
        return False

    def _words(self, path: str, numbers: Iterable[int]) -> int:
        return sum(len(self.lines(path)[n - 1].split()) for n in numbers)

    def recall(self, wanted: set[str], ranges: Iterable[Range], ranked: Sequence[Range]) -> float:
        shown: dict[str, set[int]] = defaultdict(set)
        for path, first, last in ranges:
            shown[path].update(range(first, last + 1))
        return sum(self.returned(id_, shown, ranked) for id_ in wanted) / len(wanted)


# --- a run ---------------------------------------------------------------------------


def ask(library: Library, question: Row, figures: Figures) -> None:
    workspace, text, wanted = library.shelf.workspace, str(question["text"]), set(question["relevant"])
    flat = workspace.search(text, group_by="passage", limit=MOST, max_tokens=1_000_000)
    ranked = [_range(each.path, each.lines) for each in flat.results]
    passages, files = passages_of(flat), files_of(library, flat)
    for place, budget in enumerate(BUDGETS):
        answer = workspace.search(text, limit=MOST, max_tokens=budget)
        sent = render.envelope(answer, tool="memory_search")
        figures.used[place].append(sent["meta"]["tokens"])
        figures.envelope.append(count(render.compact(sent)) - sent["meta"]["tokens"])
        for way, ranges in (
            ("packed", packed(answer)),
            ("top passages", greedy(passages, budget)),
            ("whole files", greedy(files, budget)),
        ):
            figures.recall[way][place].append(library.recall(wanted, ranges, ranked))


def run(folder: Path, options: Options) -> Figures:
    documents: dict[str, list[Row]] = defaultdict(list)
    for document in rows_of(folder, "corpus"):
        documents[str(document["group"])].append(document)
    asked: dict[str, list[Row]] = defaultdict(list)
    answerable = [each for each in rows_of(folder, "queries") if each["relevant"]]
    step = max(1, len(answerable) // (options.most or len(answerable)))
    for question in answerable[::step]:
        asked[str(question["group"])].append(question)
    figures = Figures(folder.name)
    for group, questions in asked.items():
        print(f"  {folder.name} {group}: {len(questions)} questions", file=sys.stderr)
        with tempfile.TemporaryDirectory() as place:
            shelf = Shelf(Path(place).resolve(), documents[group], options)
            with shelf.workspace:
                shelf.fill()
                library = Library(shelf)
                for question in questions:
                    ask(library, question, figures)
    return figures


def show(figures: Figures) -> None:
    print(f"{figures.name}: {len(figures.used[0])} questions")
    print("  maxTokens          " + "".join(f"{budget:>22}" for budget in BUDGETS))
    for way in WAYS:
        print(f"  {way:18} " + "".join(f"{each:22.3f}" for each in figures.mean(way)))
    for way in WAYS[1:]:
        leads = "".join(f"{lead:+.3f} ({low:+.3f} {high:+.3f})".rjust(22) for lead, low, high in figures.lead(way))
        print(f"  ahead of {way:9} {leads}")
    print("  tokens sent        " + "".join(f"{_mean(row):22.0f}" for row in figures.used))
    print(f"  envelope           {_mean(figures.envelope):22.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+", type=Path, metavar="DATASET_DIR")
    parser.add_argument("--most", type=int, help="ask only about so many questions, spread over the set")
    parser.add_argument("--cache", type=Path, default=default_folder())
    parser.add_argument("--json", type=Path)
    parser.add_argument("--svg", type=Path, help="draw the curves of the first dataset")
    given = parser.parse_args()
    options = Options(cache=given.cache, most=given.most)
    found = []
    for folder in given.datasets:
        found.append(run(folder, options))
        show(found[-1])
    if given.json:
        told = {"budgets": BUDGETS, **{each.name: each.as_json() for each in found}}
        given.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    if given.svg:
        series = {way: list(zip(BUDGETS, found[0].mean(way), strict=True)) for way in WAYS}
        title = f"Recall within a token budget ({found[0].name})"
        given.svg.write_text(curves(series, title=title, across="maxTokens", up="recall"), encoding="utf-8")


if __name__ == "__main__":
    main()
