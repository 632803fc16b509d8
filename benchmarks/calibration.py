"""How well does match tell answers from what is only near? Fit its curve on one set, check it on others.

    python -m benchmarks.calibration FOLDER... [--wrong 40] [--cache DIR] [--json FILE]

FOLDER is a dataset as for benchmarks.retrieval, or a workspace with `specs` that benchmarks.questions asks about. The
curve is fitted on the first one; all are measured with the curve that the product has. Each corpus is asked its own
questions, and `--wrong` questions of every other set, which it has nothing about. Counted is what a search shows: its
first ten results, each by its best passage.

- answered: of the questions whose first result is labelled right, the share whose first result has at least 0.5
- wrong corpus: of the other sets' questions, the share that has no result above 0.3
- by tenth of match: how many of the results of a corpus's own questions are labelled right. Labels are sparse: a
  result that nobody looked at counts as wrong.

Chats of one set are about the same kind of thing and are no wrong corpus for each other; neither are the two BEAMs.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.caching import CachingEmbedder, default_folder
from benchmarks.questions import __main__ as spec_questions
from benchmarks.retrieval import Options, Row, Shelf, groups_of, rows_of
from spec_kit_memory.core import calibration, query
from spec_kit_memory.core.calibration import MatchCurve
from spec_kit_memory.embed.local import LocalEmbedder
from spec_kit_memory.features import retrieve
from spec_kit_memory.features import search as searching
from spec_kit_memory.requests import SearchRequest
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace

FIRST = 10
# Pulls the factors towards zero, measured in spreads of what they weigh: without it a set that can be told apart
# completely would have a step for a curve.
RIDGE = 1.0
ROUNDS = 4
# What the number of passages counts, and how much less than the fit says is a half already: chosen on all sets.
SMALLNESS = 0.15
LENIENCE = 0.24
# The unit of the product's curve, in the fitted logistic one's. What is steep and what is flat is up to the curve.
UNIT = (2 / 3) / math.log(7 / 3)

Floats = npt.NDArray[np.float64]
Places = Mapping[str, Sequence[tuple[int, int, str]]]


@dataclass(frozen=True)
class Asked:
    """The first results of one question: what the legs say of each, best first, and whether it is labelled right."""

    rows: Floats  # as `calibration.evidence` has them
    right: tuple[bool, ...]


@dataclass
class Corpus:
    """One set of documents with its own questions and those of other sets."""

    name: str
    own: list[Asked] = field(default_factory=list)
    wrong: list[Asked] = field(default_factory=list)

    @property
    def answered(self) -> list[Asked]:
        return [item for item in self.own if item.right and item.right[0]]


# --- asking ---------------------------------------------------------------------------------


def ask(workspace: Workspace, text: str, relevant: Sequence[str], places: Places) -> Asked | None:
    """What a search shows first, through the product's own line of reading."""
    runtime = workspace._runtime
    request = SearchRequest(query=text, limit=FIRST, include_archived=True)
    found = searching.rank(runtime, request).memories[:FIRST]
    question = retrieve.prepare(runtime, query.read(text))
    pool = retrieve.match(runtime, question, searching.hard_filter(request))
    candidates, words = pool.readings[0]
    unrelated = question.embeddings[0].unrelated if question.embeddings else None
    if not found or words is None or unrelated is None:
        return None
    last = pool.hits.texts[0].last_vector
    passages = runtime.store.care.stats().passages
    rows = calibration.evidence(candidates, words, unrelated=unrelated, last_vector=last, passages=passages)
    at = {each.passage_id: place for place, each in enumerate(candidates)}
    expected = set(relevant)
    best = [(f.memory.path, f.matched[0]) for f in found if f.matched[0].id in at]
    right = [
        any(first <= passage.first_line <= last and id_ in expected for first, last, id_ in places.get(path, ()))
        for path, passage in best
    ]
    chosen = rows[[at[passage.id] for _, passage in best]]
    return None if np.isnan(chosen).any() else Asked(chosen, tuple(right))


def questions_of(folder: Path) -> list[Row]:
    if not (folder / "specs").is_dir():
        return rows_of(folder, "queries")
    asked = [question for name in spec_questions.SETS for question in spec_questions.read_questions(name)]
    return [{"group": folder.name, "text": item.text, "relevant": list(item.paths)} for item in asked]


def workspaces_of(folder: Path, options: Options) -> Iterator[tuple[str, Workspace, Places]]:
    """Every group of a set as a workspace, with where its documents stand."""
    if (folder / "specs").is_dir():
        with tempfile.TemporaryDirectory() as place:
            root = Path(place).resolve()
            spec_questions.copy(folder, root, only="all", without=())
            settings = Settings(root=root, semantic=Semantic(model="local"), watch="off")
            with Workspace(settings, embedder=CachingEmbedder(LocalEmbedder(), options.cache)) as workspace:
                workspace.index()
                paths = {path for item in questions_of(folder) for path in item["relevant"]}
                yield folder.name, workspace, {path: [(1, sys.maxsize, path)] for path in paths}
        return
    for group, documents, _ in groups_of(folder, options):
        with tempfile.TemporaryDirectory() as place:
            shelf = Shelf(Path(place).resolve(), documents, options)
            with shelf.workspace:
                shelf.fill()
                yield group, shelf.workspace, shelf._places


def family(folder: Path) -> str:
    """Sets of one make: their questions may be answered by each other's corpora."""
    return folder.name.split("-")[0] if folder.name.startswith("beam") else folder.name


def measure(folder: Path, others: Sequence[Path], options: Options, *, wrong: int) -> Corpus:
    corpus = Corpus(folder.name)
    chance = random.Random(folder.name)
    own = questions_of(folder)
    foreign = [item for other in others if family(other) != family(folder) for item in _some(other, wrong, chance)]
    groups = len({str(item["group"]) for item in own})
    for group, workspace, places in workspaces_of(folder, options):
        mine = [item for item in own if item["group"] == group]
        theirs = chance.sample(foreign, max(1, len(foreign) // groups))
        print(f"  {folder.name} {group}: {len(mine)} questions, {len(theirs)} of other sets", file=sys.stderr)
        for rows, kept in ((mine, corpus.own), (theirs, corpus.wrong)):
            asked = (ask(workspace, str(row["text"]), row["relevant"], places) for row in rows)
            kept += [item for item in asked if item is not None]
    return corpus


def _some(folder: Path, count: int, chance: random.Random) -> list[Row]:
    every = questions_of(folder)
    return chance.sample(every, min(count, len(every)))


# --- the curve ------------------------------------------------------------------------------


def weights_of(curve: MatchCurve) -> Floats:
    return np.array(curve.factors)


def fit(corpus: Corpus) -> MatchCurve:
    """Between first results that answer and the best results of the wrong corpus, which count alike: a logistic fit.

    All passages of a set see the same number of them, so what that counts cannot be learned from one set: it is given.
    """
    curve: MatchCurve | None = None
    for _ in range(ROUNDS):  # which result of a wrong corpus is its best depends on the curve
        best = [_best(item, curve) for item in corpus.wrong]
        rows = np.array([item.rows[0] for item in corpus.answered] + best)
        right = np.arange(len(rows)) < len(corpus.answered)
        share = np.where(right, 1 / right.sum(), 1 / (~right).sum()) * len(rows) / 2
        curve = _logistic(rows, right.astype(np.float64), share)
    assert curve is not None
    return curve


def _best(asked: Asked, curve: MatchCurve | None) -> Floats:
    best: Floats = asked.rows[0 if curve is None else int(np.argmax(asked.rows @ weights_of(curve)))]
    return best


def _logistic(rows: Floats, right: Floats, share: Floats) -> MatchCurve:
    """Newton's method on columns of mean 0 and spread 1; the last column is left out of it."""
    smallness = rows[:, -1] * SMALLNESS
    rows = rows[:, :-1]
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    columns = np.concatenate([(rows - mean) / spread, np.ones((len(rows), 1))], axis=1)
    ridge = np.array([RIDGE] * rows.shape[1] + [0.0])
    factors = np.zeros(columns.shape[1])
    for _ in range(100):
        told = 1 / (1 + np.exp(-columns @ factors))
        slope = columns.T @ (share * (right - told)) - ridge * factors
        bend = (columns * (share * told * (1 - told))[:, None]).T @ columns + np.diag(ridge + 1e-9)
        step = np.linalg.solve(bend, slope)
        factors += step
        if np.abs(step).max() < 1e-9:
            break
    weights = factors[:-1] / spread
    late, vector, text, offset = np.append(weights, factors[-1] - weights @ mean) * UNIT
    offset += LENIENCE - smallness.mean()
    return MatchCurve(*(round(float(number), 2) for number in (late, vector, text, SMALLNESS, offset)))


# --- figures --------------------------------------------------------------------------------


def figures(corpus: Corpus, curve: MatchCurve) -> dict[str, Any]:
    first = [_matches(item, curve)[0] for item in corpus.answered]
    best = [max(_matches(item, curve)) for item in corpus.wrong]
    return {
        "corpus": corpus.name,
        "questions": len(corpus.own),
        "answered": len(first),
        "answered at least 0.5": _share(first, lambda match: match >= calibration.CLEAR),
        "wrong": len(best),
        "wrong at most 0.3": _share(best, lambda match: match <= calibration.UNCLEAR),
        "median answered": float(np.median(first)) if first else None,
        "median wrong": float(np.median(best)) if best else None,
    }


def _matches(asked: Asked, curve: MatchCurve) -> list[float]:
    return [match for match in calibration.matches(curve, asked.rows) if match is not None]


def _share(numbers: Sequence[float], test: Any) -> float | None:
    return sum(map(test, numbers)) / len(numbers) if numbers else None


def tenths(corpora: Sequence[Corpus], curve: MatchCurve, *, first: int = FIRST) -> list[tuple[int, int]]:
    """For each tenth of match how many of the first results there were, and how many of them were right."""
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for asked in (item for corpus in corpora for item in corpus.own):
        for match, right in zip(_matches(asked, curve)[:first], asked.right[:first], strict=True):
            counts[min(9, int(match * 10))][0] += 1
            counts[min(9, int(match * 10))][1] += right
    return [(counts[tenth][0], counts[tenth][1]) for tenth in range(10)]


def show(corpora: Sequence[Corpus], curve: MatchCurve, title: str) -> None:
    print(
        f"{title}: late {curve.late}, vector {curve.vector}, text {curve.text}, smallness {curve.smallness}, "
        f"offset {curve.offset}"
    )
    print(f"  {'corpus':14}{'answered':>9}{'>= 0.5':>8}{'median':>8}{'wrong':>8}{'<= 0.3':>8}{'median':>8}")
    for item in (figures(corpus, curve) for corpus in corpora):
        answered, wrong = item["answered at least 0.5"], item["wrong at most 0.3"]
        print(
            f"  {item['corpus']:14}{item['answered']:9}{_number(answered):>8}{_number(item['median answered']):>8}"
            f"{item['wrong']:8}{_number(wrong):>8}{_number(item['median wrong']):>8}"
        )
    for first, what in ((1, "first results"), (FIRST, f"first {FIRST} results")):
        print(f"  share of the {what} that is right, by tenth of match; then how many there were")
        for name, some in (*((corpus.name, [corpus]) for corpus in corpora), ("all", corpora)):
            shares = tenths(some, curve, first=first)
            text = "".join(f"{right / count:6.2f}" if count >= 10 else "     -" for count, right in shares)
            print(f"  {name:14}{text}")
        print(f"  {'':14}" + "".join(f"{count:6}" for count, _ in tenths(corpora, curve, first=first)))


def _number(number: float | None) -> str:
    return "-" if number is None else f"{number:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--wrong", type=int, default=40, help="questions of each other set for a corpus")
    parser.add_argument("--cache", type=Path, default=default_folder())
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    options = Options(cache=arguments.cache)
    corpora = [measure(folder, arguments.folders, options, wrong=arguments.wrong) for folder in arguments.folders]
    fitted, shipped = fit(corpora[0]), calibration.CURVES[LocalEmbedder.name]
    show(corpora, shipped, "the product's curve")
    print(f"fitted on {corpora[0].name} now: {tuple(fitted)}")
    if arguments.json:
        told: dict[str, Any] = {"curve": shipped._asdict(), "fitted": fitted._asdict()}
        told |= {"corpora": [figures(item, shipped) for item in corpora], "tenths": tenths(corpora, shipped)}
        arguments.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
