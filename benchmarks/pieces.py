"""What is each piece of the relevance formula worth? Everything at its default, then without one piece at a time.

    python -m benchmarks.pieces DATASET_DIR... [--cache DIR] [--most N]

Each group is indexed once and asked as `benchmarks.retrieval` asks, with one constant of `core.relevance` set to
what leaves a piece out. Recall@10 and nDCG@10, × 100.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks import scoring
from benchmarks.caching import default_folder
from benchmarks.retrieval import DEPTH, Options, Row, Shelf, rows_of
from spec_kit_memory.core import relevance
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.workspace import Workspace

# Name of the row -> constants of core.relevance.
PIECES: Mapping[str, Mapping[str, float]] = {
    "the formula": {},
    "without text": {"TEXT_WEIGHT": 0.0},
    "without vectors": {"VECTOR_WEIGHT": 0.0},
    "every word alike": {"EVEN": 1e6},
    "without the session": {"SESSION_WEIGHT": 0.0},
    "without the words of neighbours": {"WORD_NEIGHBOUR_WEIGHT": 0.0},
    "without the length of messages": {"LENGTH_DISCOUNT": 0.0},
}

Measured = dict[str, list[dict[str, float]]]


@contextmanager
def set_to(constants: Mapping[str, float]) -> Iterator[None]:
    before = {name: getattr(relevance, name) for name in constants}
    for name, value in constants.items():
        setattr(relevance, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(relevance, name, value)


def run(folder: Path, options: Options) -> Measured:
    documents: dict[str, list[Row]] = defaultdict(list)
    for document in rows_of(folder, "corpus"):
        documents[str(document["group"])].append(document)
    questions: dict[str, list[Row]] = defaultdict(list)
    for question in rows_of(folder, "queries")[: options.most]:
        questions[str(question["group"])].append(question)
    measured: Measured = {name: [] for name in PIECES}
    for group, asked in questions.items():
        with tempfile.TemporaryDirectory() as place:
            shelf = Shelf(Path(place).resolve(), documents[group], options)
            shelf.fill()
            shelf.workspace.close()
            for name, constants in PIECES.items():
                with set_to(constants):
                    measured[name] += _ask(shelf, asked)
    return measured


def _ask(shelf: Shelf, asked: Sequence[Row]) -> list[dict[str, float]]:
    """In a workspace of its own: answers are cached, and the constants are no part of the question."""
    rows = []
    with Workspace(shelf.workspace.settings, embedder=shelf.embedder) as workspace:
        for question in asked:
            if not question["relevant"]:
                continue
            try:
                results = workspace.search(str(question["text"]), group_by="passage", limit=DEPTH).results
            except SpecKitMemoryError:
                results = ()  # an error is a zero, not a gap
            rows.append(scoring.measure(question["relevant"], shelf.documents_of(results)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("datasets", nargs="+", type=Path, metavar="DATASET_DIR")
    parser.add_argument("--cache", type=Path, default=default_folder(), help="where embeddings are kept between runs")
    parser.add_argument("--most", type=int, help="ask only the first so many questions")
    given = parser.parse_args()
    sets = {folder.name: run(folder, Options(cache=given.cache, most=given.most)) for folder in given.datasets}
    print("| | " + " | ".join(sets) + " |\n|---|" + "---|" * len(sets))
    for name in PIECES:
        cells = [
            f"{100 * scoring.average(of[name], 'recall@10'):.1f} / {100 * scoring.average(of[name], 'ndcg@10'):.1f}"
            for of in sets.values()
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
