"""What is each piece of the relevance formula worth? Everything at its default, then without one piece at a time.

    python -m benchmarks.pieces DATASET_DIR... [--cache DIR] [--most N]

Each group is indexed once and asked as `benchmarks.retrieval` asks, with what is measured left out.
Recall@10 and nDCG@10, × 100.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from benchmarks import scoring
from benchmarks.caching import default_folder
from benchmarks.retrieval import DEPTH, Options, Row, Shelf, groups_of
from spec_kit_memory.core import relevance
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.features import retrieve
from spec_kit_memory.workspace import Workspace

Setting = tuple[ModuleType, str, object]

# Name of the row -> what is set to what.
PIECES: Mapping[str, Sequence[Setting]] = {
    "the formula": (),
    "without text": [(relevance, "TEXT_WEIGHT", 0.0)],
    "without vectors": [(relevance, "VECTOR_WEIGHT", 0.0)],
    "without late interaction": [(retrieve, "_words", lambda *_: None)],
    "every word alike": [(relevance, "EVEN", 1e6)],
    "without the session": [(relevance, "SESSION_WEIGHT", 0.0)],
    "without the words of neighbours": [(relevance, "WORD_NEIGHBOUR_WEIGHT", 0.0)],
    "without the length of messages": [(relevance, "LENGTH_DISCOUNT", 0.0)],
    "600 candidates": [(retrieve, "ONE_QUESTION", retrieve.CandidateLimits(600, 600, 10**9, 40))],
    "half the candidates": [(retrieve, "ONE_QUESTION", retrieve.CandidateLimits(300, 80, 12_000, 40))],
}

Measured = dict[str, list[dict[str, float]]]


@contextmanager
def set_to(settings: Sequence[Setting]) -> Iterator[None]:
    before = [(module, name, getattr(module, name)) for module, name, _ in settings]
    for module, name, value in settings:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def run(folder: Path, options: Options) -> Measured:
    measured: Measured = {name: [] for name in PIECES}
    for _, documents, asked in groups_of(folder, options):
        with tempfile.TemporaryDirectory() as place:
            shelf = Shelf(Path(place).resolve(), documents, options)
            shelf.fill()
            shelf.workspace.close()
            for name, settings in PIECES.items():
                with set_to(settings):
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
    arguments = parser.parse_args()
    sets = {
        folder.name: run(folder, Options(cache=arguments.cache, most=arguments.most)) for folder in arguments.datasets
    }
    print("| | " + " | ".join(sets) + " |\n|---|" + "---|" * len(sets))
    for name in PIECES:
        cells = [
            f"{100 * scoring.average(of[name], 'recall@10'):.1f} / {100 * scoring.average(of[name], 'ndcg@10'):.1f}"
            for of in sets.values()
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
