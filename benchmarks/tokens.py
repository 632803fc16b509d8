"""How much of what answers a question gets through a token budget?

    python -m benchmarks.tokens DATASET_DIR... [--most 200] [--cache DIR] [--json FILE] [--svg FILE]

Recall at maxTokens 250 to 4,000, through Workspace.search with real answers, tokens counted as they are sent. Beside it
two plain ways to spend the same tokens on the same ranking: whole files, and top passages, each best first while they
fit. A document counts as returned when the first of its lines is in the answer.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.caching import default_folder
from benchmarks.plot import curves
from benchmarks.retrieval import Options, Row, Shelf, rows_of
from spec_kit_memory.answers import FlatResult, Result, SearchAnswer
from spec_kit_memory.core.tokens import count
from spec_kit_memory.serve import render

BUDGETS = (250, 500, 1000, 2000, 4000)
WAYS = ("packed", "top passages", "whole files")
FILES = 20  # results asked for
PASSAGES = 100

Range = tuple[str, int, int]  # path, first line, last line


def sent(answer: SearchAnswer) -> int:
    """Tokens of an answer's data, as its envelope says."""
    return int(render.envelope(answer)["meta"]["tokens"])


def shown(answer: SearchAnswer) -> list[Range]:
    found = []
    for result in answer.results:
        pieces = [(result.lines, result.text)]
        if isinstance(result, Result):
            pieces += [(each.lines, each.text) for each in result.passages]
        found += [_range(result.path, lines) for lines, text in pieces if text]
    return found


def _range(path: str, lines: str) -> Range:
    first, last = lines.split("-")
    return path, int(first), int(last)


def returned(shelf: Shelf, ranges: Iterable[Range]) -> set[str]:
    """Documents whose first line was returned; of a file that is one document any line will do."""
    found = set()
    for path, first, last in ranges:
        for start, end, id_ in shelf._places.get(path, ()):
            if first <= start <= last or (end == sys.maxsize and start <= last):
                found.add(id_)
    return found


def greedy(answer: SearchAnswer, items: Sequence[tuple[FlatResult, Range]], budget: int) -> list[Range]:
    """Best first; what does not fit is passed over."""
    room = budget - sent(replace(answer, results=()))
    ranges = []
    for item, where in items:
        cost = count(render.compact(render.value(item))) + 1
        if cost <= room:
            room -= cost
            ranges.append(where)
    return ranges


def files_of(shelf: Shelf, answer: SearchAnswer) -> list[tuple[FlatResult, Range]]:
    items = []
    for result in answer.results:
        text = shelf.workspace.get(result.path).text
        lines = text.count("\n") + 1
        whole = FlatResult(
            path=result.path,
            lines=f"1-{lines}",
            text=text,
            score=result.score,
            source=result.source,
            id=result.id,
            title=result.title,
        )
        items.append((whole, (result.path, 1, lines)))
    return items


def ask(shelf: Shelf, question: Row, sums: dict[str, list[float]], used: dict[str, list[float]]) -> None:
    text, wanted = str(question["text"]), set(question["relevant"])
    flat = shelf.workspace.search(text, group_by="passage", limit=PASSAGES)
    passages = [(each, _range(each.path, each.lines)) for each in flat.results if isinstance(each, FlatResult)]
    files = files_of(shelf, shelf.workspace.search(text, limit=FILES, max_tokens=1_000_000))
    for place, budget in enumerate(BUDGETS):
        answer = shelf.workspace.search(text, limit=FILES, max_tokens=budget)
        used["packed"][place] += sent(answer)
        for way, ranges in (
            ("packed", shown(answer)),
            ("top passages", greedy(flat, passages, budget)),
            ("whole files", greedy(answer, files, budget)),
        ):
            sums[way][place] += len(returned(shelf, ranges) & wanted) / len(wanted)


def run(folder: Path, options: Options) -> dict[str, list[float]]:
    documents: dict[str, list[Row]] = defaultdict(list)
    for document in rows_of(folder, "corpus"):
        documents[str(document["group"])].append(document)
    asked: dict[str, list[Row]] = defaultdict(list)
    answerable = [each for each in rows_of(folder, "queries") if each["relevant"]]
    step = max(1, len(answerable) // (options.most or len(answerable)))
    for question in answerable[::step]:
        asked[str(question["group"])].append(question)
    sums = {way: [0.0] * len(BUDGETS) for way in WAYS}
    used = {"packed": [0.0] * len(BUDGETS)}
    for group, questions in asked.items():
        with tempfile.TemporaryDirectory() as place:
            shelf = Shelf(Path(place).resolve(), documents[group], options)
            with shelf.workspace:
                shelf.fill()
                for question in questions:
                    ask(shelf, question, sums, used)
    total = sum(map(len, asked.values()))
    print(f"{folder.name}: {total} questions")
    print("  maxTokens        " + "".join(f"{budget:>8}" for budget in BUDGETS))
    for way in WAYS:
        print(f"  {way:16} " + "".join(f"{each / total:8.3f}" for each in sums[way]))
    print("  tokens sent      " + "".join(f"{each / total:8.0f}" for each in used["packed"]), flush=True)
    return {way: [each / total for each in sums[way]] for way in WAYS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+", type=Path, metavar="DATASET_DIR")
    parser.add_argument("--most", type=int, help="ask only about so many questions, spread over the set")
    parser.add_argument("--cache", type=Path, default=default_folder())
    parser.add_argument("--json", type=Path)
    parser.add_argument("--svg", type=Path, help="draw the curves of the first dataset")
    given = parser.parse_args()
    options = Options(cache=given.cache, most=given.most)
    found = {folder.name: run(folder, options) for folder in given.datasets}
    if given.json:
        given.json.write_text(json.dumps({"budgets": BUDGETS, **found}, indent=1) + "\n", encoding="utf-8")
    if given.svg:
        name, lines = next(iter(found.items()))
        series = {way: list(zip(BUDGETS, values, strict=True)) for way, values in lines.items()}
        given.svg.write_text(
            curves(series, title=f"Recall within a token budget ({name})", across="maxTokens", up="recall"),
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
