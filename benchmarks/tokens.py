"""How much of what answers a question gets through a token budget?

    python -m benchmarks.tokens FOLDER... [--most 350] [--budgets 250,500] [--cache DIR] [--json FILE] [--svg FILE]

FOLDER is a dataset as for benchmarks.retrieval, or a workspace with `specs` that benchmarks.questions asks about;
there one of the memories that hold the answer is enough.

Recall at maxTokens 250 to 4,000, through Workspace.search as a client gets it. Beside it two plain ways to spend the
same tokens on the same ranking, best first while they fit: whole files, and the best passages as a flat list. They
say of each what packing says of a result in any case, {path, lines, text, score, source} and what is out of the
ordinary (tier, state, contextType, trusted, supersededBy, contradicts), and nothing else. All three are counted as
the JSON of `data`, by one estimate (a quarter of the bytes); the envelope around it is the same for all.

The last lines are about the answer that nobody gave a size: its tokens, what of the evidence is in it, and what a flat
list of as many tokens would have; then the same where half of the best passage is enough, and how often the memory is
at least among the results, with its title and lines.

A document counts as returned when the lines in the answer have half of its words, or the passage of it that matches
the question best is there whole; a part of that passage does not count.
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

from benchmarks.caching import CachingEmbedder, default_folder
from benchmarks.plot import curves
from benchmarks.questions import __main__ as spec_questions
from benchmarks.retrieval import Options, Row, Shelf, rows_of, text_of
from spec_kit_memory.answers import FlatResult, Result, SearchAnswer
from spec_kit_memory.core.tokens import BYTES_PER_TOKEN, count
from spec_kit_memory.embed.local import LocalEmbedder
from spec_kit_memory.serve import render
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace

BUDGETS = (250, 500, 1000, 2000, 4000)
WAYS = ("packed", "top passages", "whole files")
MOST = 100  # results, files or passages asked for
AMPLE = 1_000_000  # tokens: enough for all of them
# What a result says where there is room; the plain ways do without.
OPTIONAL = frozenset(("id", "title", "specFolder", "createdAt", "passages"))
SAMPLES = 2000

Range = tuple[str, int, int]  # path, first line, last line


@dataclass
class Figures:
    """One dataset: for each way and budget a number per question."""

    name: str
    budgets: Sequence[int] = BUDGETS
    recall: dict[str, list[list[float]]] = field(init=False)
    used: list[list[float]] = field(init=False)
    envelope: list[float] = field(default_factory=list)
    # Tokens, recall, that of a flat list, recall with half of a passage, and of names.
    default: list[tuple[int, float, float, float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.recall = {way: [[] for _ in self.budgets] for way in WAYS}
        self.used = [[] for _ in self.budgets]

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
            "default": self.default_figures(),
        }

    def default_figures(self) -> dict[str, float]:
        """Of answers without a budget: how many tokens, and recall beside that of a flat list of as many."""
        sizes = sorted(int(row[0]) for row in self.default)
        names = ("packed", "top passages", "half", "named")
        recalls = {name: _mean([row[place] for row in self.default]) for place, name in enumerate(names, 1)}
        return {"median": sizes[len(sizes) // 2], "p90": sizes[len(sizes) * 9 // 10], **recalls}


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
            pieces += [(passage.lines, passage.text) for passage in result.passages]
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


def headers_of(answer: SearchAnswer) -> dict[str, Mapping[str, Any]]:
    """What is said of each result in any case, by path."""
    told = [render.value(result) for result in answer.results]
    return {item["path"]: {name: said for name, said in item.items() if name not in OPTIONAL} for item in told}


def passages_of(flat: SearchAnswer, headers: Mapping[str, Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], Range]]:
    listed = [result for result in flat.results if isinstance(result, FlatResult)]
    return [(_item(item, headers, lines=item.lines, text=item.text), _range(item.path, item.lines)) for item in listed]


def files_of(
    library: Library, flat: SearchAnswer, headers: Mapping[str, Mapping[str, Any]]
) -> list[tuple[Mapping[str, Any], Range]]:
    """The files of the same ranking, each once."""
    items: dict[str, tuple[Mapping[str, Any], Range]] = {}
    for result in flat.results:
        if result.path not in items and isinstance(result, FlatResult):
            lines = library.lines(result.path)
            item = _item(result, headers, lines=f"1-{len(lines)}", text="\n".join(lines))
            items[result.path] = item, (result.path, 1, len(lines))
    return list(items.values())


def _item(each: FlatResult, headers: Mapping[str, Mapping[str, Any]], *, lines: str, text: str) -> Mapping[str, Any]:
    header = headers.get(each.path, {"path": each.path, "source": each.source.value})
    return {**header, "lines": lines, "text": text, "score": round(each.score * 100, 2)}


def _range(path: str, lines: str) -> Range:
    first, last = lines.split("-")
    return path, int(first), int(last)


# --- what counts as returned ---------------------------------------------------------


class Library:
    """Where the documents of a workspace stand, and their lines."""

    def __init__(
        self, workspace: Workspace, places: Mapping[str, Iterable[tuple[int, int, str]]], *, archived: bool = False
    ) -> None:
        self.workspace = workspace
        self.archived = archived
        self._lines: dict[str, list[str]] = {}
        self._places: dict[str, list[Range]] = defaultdict(list)
        for path, ranges in places.items():
            for first, last, id_ in ranges:
                self._places[id_].append((path, first, last))

    def search(self, text: str, *, max_tokens: int | None, group_by: str = "memory") -> SearchAnswer:
        if max_tokens is None:  # as most ask
            return self.workspace.search(text, include_archived=self.archived)
        return self.workspace.search(
            text, group_by=group_by, limit=MOST, max_tokens=max_tokens, include_archived=self.archived
        )

    def lines(self, path: str) -> list[str]:
        if path not in self._lines:
            self._lines[path] = text_of(self.workspace, path).split("\n")
        return self._lines[path]

    def returned(self, id_: str, shown: Mapping[str, set[int]], ranked: Sequence[Range], share: float = 1.0) -> bool:
        """`share`: how much of the words of its best passage is enough."""
        for path, first, last in self._places[id_]:
            if path not in shown:
                continue
            own = range(first, min(last, len(self.lines(path))) + 1)
            if 2 * self._words(path, shown[path].intersection(own)) >= self._words(path, own) > 0:
                return True
            best = next((item for item in ranked if item[0] == path and item[1] <= own[-1] and item[2] >= own[0]), None)
            lines = range(best[1], best[2] + 1) if best else ()
            if best and self._words(path, shown[path].intersection(lines)) >= share * self._words(path, lines):
                return True
        return False

    def _words(self, path: str, numbers: Iterable[int]) -> int:
        return sum(len(self.lines(path)[n - 1].split()) for n in numbers)

    def named(self, question: Row, answer: SearchAnswer) -> float:
        """How much of what was wanted is among the results at all."""
        paths = {result.path for result in answer.results}
        named = [any(path in paths for path, _, _ in self._places[id_]) for id_ in set(question["relevant"])]
        return float(any(named)) if question.get("any") else sum(named) / len(named)

    def recall(self, question: Row, ranges: Iterable[Range], ranked: Sequence[Range], share: float = 1.0) -> float:
        shown: dict[str, set[int]] = defaultdict(set)
        for path, first, last in ranges:
            shown[path].update(range(first, last + 1))
        expected = set(question["relevant"])
        returned = sum(self.returned(id_, shown, ranked, share) for id_ in expected)
        return min(1.0, returned) if question.get("any") else returned / len(expected)


# --- a run ---------------------------------------------------------------------------


def ask(library: Library, question: Row, figures: Figures) -> None:
    text = str(question["text"])
    flat = library.search(text, max_tokens=AMPLE, group_by="passage")
    ranked = [_range(result.path, result.lines) for result in flat.results]
    headers = headers_of(library.search(text, max_tokens=AMPLE))
    passages, files = passages_of(flat, headers), files_of(library, flat, headers)
    for place, budget in enumerate(figures.budgets):
        answer = library.search(text, max_tokens=budget)
        sent = render.envelope(answer, tool="memory_search")
        figures.used[place].append(sent["meta"]["tokens"])
        figures.envelope.append(count(render.compact(sent)) - sent["meta"]["tokens"])
        for way, ranges in (
            ("packed", packed(answer)),
            ("top passages", greedy(passages, budget)),
            ("whole files", greedy(files, budget)),
        ):
            figures.recall[way][place].append(library.recall(question, ranges, ranked))
    plain = library.search(text, max_tokens=None)
    size = int(render.envelope(plain)["meta"]["tokens"])
    ours, theirs = (library.recall(question, ranges, ranked) for ranges in (packed(plain), greedy(passages, size)))
    half = library.recall(question, packed(plain), ranked, share=0.5)
    figures.default.append((size, ours, theirs, half, library.named(question, plain)))


def run(folder: Path, options: Options, budgets: Sequence[int] = BUDGETS) -> Figures:
    figures = Figures(folder.name, budgets)
    (_run_workspace if (folder / "specs").is_dir() else _run_dataset)(folder, options, figures)
    return figures


def _run_dataset(folder: Path, options: Options, figures: Figures) -> None:
    documents: dict[str, list[Row]] = defaultdict(list)
    for document in rows_of(folder, "corpus"):
        documents[str(document["group"])].append(document)
    asked: dict[str, list[Row]] = defaultdict(list)
    answerable = [item for item in rows_of(folder, "queries") if item["relevant"]]
    step = max(1, len(answerable) // (options.most or len(answerable)))
    for question in answerable[::step]:
        asked[str(question["group"])].append(question)
    for group, questions in asked.items():
        print(f"  {folder.name} {group}: {len(questions)} questions", file=sys.stderr)
        with tempfile.TemporaryDirectory() as place:
            shelf = Shelf(Path(place).resolve(), documents[group], options)
            with shelf.workspace:
                shelf.fill()
                library = Library(shelf.workspace, shelf._places)
                for question in questions:
                    ask(library, question, figures)


def _run_workspace(folder: Path, options: Options, figures: Figures) -> None:
    """Its spec folders, archived ones too, and all questions about them, tuned on and held out."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place).resolve()
        spec_questions.copy(folder, root, only="all", without=())
        settings = Settings(root=root, semantic=Semantic(model="local"), watch="off")
        with Workspace(settings, embedder=CachingEmbedder(LocalEmbedder(), options.cache)) as workspace:
            workspace.index()
            for name in spec_questions.SETS:
                asked = spec_questions.read_questions(name)
                print(f"  {folder.name} {name}: {len(asked)} questions", file=sys.stderr)
                library = Library(
                    workspace, {path: [(1, sys.maxsize, path)] for each in asked for path in each.paths}, archived=True
                )
                for item in asked:
                    ask(library, {"text": item.text, "relevant": item.paths, "any": True}, figures)


def show(figures: Figures) -> None:
    print(f"{figures.name}: {len(figures.used[0])} questions")
    print("  maxTokens          " + "".join(f"{budget:>22}" for budget in figures.budgets))
    for way in WAYS:
        print(f"  {way:18} " + "".join(f"{item:22.3f}" for item in figures.mean(way)))
    for way in WAYS[1:]:
        leads = "".join(f"{lead:+.3f} ({low:+.3f} {high:+.3f})".rjust(22) for lead, low, high in figures.lead(way))
        print(f"  ahead of {way:9} {leads}")
    print("  tokens sent        " + "".join(f"{_mean(row):22.0f}" for row in figures.used))
    print(f"  envelope           {_mean(figures.envelope):22.0f}")
    told = figures.default_figures()
    print(f"  default: {told['median']} tokens (nine in ten at most {told['p90']}), ", end="")
    print(f"recall {told['packed']:.3f}, a flat list of as many {told['top passages']:.3f}, ", end="")
    print(f"with half of the passage {told['half']:.3f}, named {told['named']:.3f}", flush=True)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--most", type=int, help="ask only about so many questions, spread over the set")
    parser.add_argument("--budgets", type=_numbers, default=BUDGETS, help="others than 250 to 4,000, with commas")
    parser.add_argument("--cache", type=Path, default=default_folder())
    parser.add_argument("--json", type=Path)
    parser.add_argument("--svg", type=Path, help="draw the curves of the first dataset")
    arguments = parser.parse_args()
    options = Options(cache=arguments.cache, most=arguments.most)
    found = []
    for folder in arguments.folders:
        found.append(run(folder, options, arguments.budgets))
        show(found[-1])
    if arguments.json:
        told = {"budgets": arguments.budgets, **{item.name: item.as_json() for item in found}}
        arguments.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    if arguments.svg:
        series = {way: list(zip(arguments.budgets, found[0].mean(way), strict=True)) for way in WAYS}
        title = f"Recall within a token budget ({found[0].name})"
        arguments.svg.write_text(curves(series, title=title, across="maxTokens", up="recall"), encoding="utf-8")


if __name__ == "__main__":
    main()
