"""Is the right memory among the first five, on a project's real spec folders?

    python -m benchmarks.questions WORKSPACE_DIR [--mode text|vector|hybrid] [--only memory] [--without specs/rfcs]

WORKSPACE_DIR holds the `specs` folder that spec_folders.jsonl asks about: lines of {question, path, note},
in words that the answer does not use. `path` is relative to the workspace; where several files answer, it is
a list and any of them counts. A copy is indexed and archived folders are searched. Questions that no copied
file answers (with --only or --without) are left out, and their number is said.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import scoring
from benchmarks.caching import CachingEmbedder, default_folder
from spec_kit_memory.answers import Result
from spec_kit_memory.embed.local import LocalEmbedder
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace

QUESTIONS = Path(__file__).parent / "spec_folders.jsonl"
FIRST = 5
DEPTH = 20


@dataclass(frozen=True)
class Question:
    text: str
    paths: tuple[str, ...]
    note: str

    def place_in(self, ranked: Sequence[str]) -> int | None:
        return next((place for place, path in enumerate(ranked, start=1) if path in self.paths), None)


@dataclass
class Outcome:
    places: list[int | None] = field(default_factory=list)
    missed: list[tuple[Question, int | None, str]] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    totals: dict[str, Any] = field(default_factory=dict)

    def share(self, first: int) -> float:
        return sum(place is not None and place <= first for place in self.places) / len(self.places)

    def as_json(self) -> dict[str, Any]:
        return {
            "questions": len(self.places),
            **{f"any@{first}": round(self.share(first), 4) for first in (1, 3, 5, 10)},
            "p50_ms": round(scoring.percentile(self.latencies_ms, 0.5), 1),
            "p95_ms": round(scoring.percentile(self.latencies_ms, 0.95), 1),
            **self.totals,
        }


def read_questions(path: Path = QUESTIONS) -> list[Question]:
    questions = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        paths = row["path"] if isinstance(row["path"], list) else [row["path"]]
        questions.append(Question(row["question"], tuple(paths), row["note"]))
    return questions


def copy(source: Path, target: Path, *, only: str, without: Sequence[str]) -> None:
    """The markdown of a workspace; its own index and settings stay behind."""
    for path in sorted((source / "specs").rglob("*.md")):
        inside = path.relative_to(source)
        left_out = any(inside.is_relative_to(each) for each in without)
        if left_out or (only == "memory" and inside.parent.name != "memory"):
            continue
        (target / inside).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / inside)


def run(root: Path, questions: Sequence[Question], *, mode: str, cache: Path) -> Outcome:
    outcome = Outcome()
    settings = Settings(root=root, semantic=Semantic(model="none" if mode == "text" else "local"), watch="off")
    embedder = None if mode == "text" else CachingEmbedder(LocalEmbedder(), cache)
    with Workspace(settings, embedder=embedder) as workspace:
        workspace.index(progress=_tell)
        stats = workspace.stats()
        outcome.totals = {"memories": stats.totals["memories"], "passages": stats.totals["passages"]}
        workspace.search("warm up", mode=mode)
        for question in questions:
            _ask(workspace, question, outcome, mode=mode)
    return outcome


def _tell(step: str, done: int, of: int) -> None:
    if done % 1000 == 0 or done == of:
        print(f"  {step} {done}/{of}", file=sys.stderr)


def _ask(workspace: Workspace, question: Question, outcome: Outcome, *, mode: str) -> None:
    started = time.perf_counter()
    answer = workspace.search(question.text, include_archived=True, limit=DEPTH, mode=mode)
    outcome.latencies_ms.append((time.perf_counter() - started) * 1000)
    ranked = [result.path for result in answer.results if isinstance(result, Result)]
    place = question.place_in(ranked)
    outcome.places.append(place)
    if place is None or place > FIRST:
        outcome.missed.append((question, place, ranked[0] if ranked else "nothing"))


def show(outcome: Outcome) -> None:
    told = outcome.as_json()
    print(f"{told['questions']} questions ({told['left_out']} left out), {told['memories']} memories")
    print(f"  {told['passages']} passages")
    print("  right memory among the first " + ", ".join(f"{n}: {told[f'any@{n}']:.2f}" for n in (1, 3, 5, 10)))
    print(f"  search p50 {told['p50_ms']} ms, p95 {told['p95_ms']} ms")
    for question, place, first in outcome.missed:
        print(f"  missed ({'not found' if place is None else f'place {place}'}): {question.text}")
        print(f"      wanted {question.paths[0]}\n      first  {first}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("workspace", type=Path, metavar="WORKSPACE_DIR")
    parser.add_argument("--mode", choices=("text", "vector", "hybrid"), default="hybrid")
    parser.add_argument("--only", choices=("all", "memory"), default="all", help="memory: leave spec documents out")
    parser.add_argument("--without", action="append", default=[], metavar="FOLDER", help="leave a folder out")
    parser.add_argument("--cache", type=Path, default=default_folder(), help="where embeddings are kept between runs")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        root = Path(place).resolve()
        copy(given.workspace, root, only=given.only, without=given.without)
        questions = read_questions()
        answerable = [each for each in questions if any((root / path).exists() for path in each.paths)]
        outcome = run(root, answerable, mode=given.mode, cache=given.cache)
        outcome.totals["left_out"] = len(questions) - len(answerable)
    if given.json:
        print(json.dumps(outcome.as_json()))
    else:
        show(outcome)


if __name__ == "__main__":
    main()
