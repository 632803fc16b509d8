"""Is the right memory among the first five, on a project's real spec folders?

    python -m benchmarks.questions WORKSPACE_DIR [--mode text|vector|hybrid] [--only memory] [--without specs/rfcs]
                                  [--also FILE] [--max-tokens NUMBER]

WORKSPACE_DIR holds the `specs` folder that two files ask about: fifty questions, on which search may be tuned
(spec_folders.jsonl), and a held-out set, on which it may not (spec_folders_held_out.jsonl). A copy is indexed and
archived folders are searched. Questions that no copied file answers (with --only or --without) are left out, and
their number is said. Lines are {question, path, note, judgement}:

- `question`: what someone of the project would ask who remembers the episode and not its wording. It must tell which
  episode is meant. It may use the everyday nouns of the project (wording.NOUNS) and as much of the common language as
  it needs, but of the telling words, those in fewer than one memory in twenty, at most two that one answer has too,
  and no word from the names of the folders and files that answer. Numbers are written as words.
- `path`: every memory that contains the answer, relative to the workspace; any of them counts. They were completed by
  pooling: the first ten of text, vector and hybrid search, with decay and without, and the rest of the answer's
  folder. Strictly: a file of the right folder that does not hold the answer is not in the list, and a file of another
  folder that does is.
- `note`: the answer in a few words. `judgement`: what was pooled, and why the nearest others do not count.

The held-out questions were made from the session files in `memory` folders, in the order of
random.Random(20261116).shuffle over their sorted paths: the first 135 less those that answer one of the fifty, those
of test fixtures, and those that hold nothing of their own (empty sessions, tool logs, copies of another session).

FILE is JSON: question -> list of texts that say it in other words, as an agent gives them. A question is named by its
text, or by its set and its line there (fifty-1 to fifty-50, held-out-1 and so on). Ours are in benchmarks/phrasings.

With --max-tokens an answer of that size is asked for, and a memory counts only if a text of it is shown there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks import scoring
from benchmarks.caching import CachingEmbedder, default_folder
from benchmarks.questions import wording
from benchmarks.retrieval import help_for, read_also
from spec_kit_memory.answers import Result
from spec_kit_memory.embed.local import LocalEmbedder
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace

HERE = Path(__file__).parent
SETS = {"fifty": HERE / "spec_folders.jsonl", "held-out": HERE / "spec_folders_held_out.jsonl"}
MODES = ("text", "vector", "hybrid")
FIRST = 5
DEPTH = 20
BUDGET = 100_000  # tokens: enough that an answer is never cut before DEPTH
LISTED = 10  # results of an answer within a smaller budget, as a host asks for them


@dataclass(frozen=True)
class Question:
    id: str  # the name of its set and its line there: fifty-1, held-out-40
    text: str
    paths: tuple[str, ...]
    note: str
    judgement: str

    def place_in(self, ranked: Sequence[str]) -> int | None:
        return next((place for place, path in enumerate(ranked, start=1) if path in self.paths), None)


@dataclass
class Outcome:
    """One set of questions, asked in one way."""

    questions: str
    mode: str
    decay: bool
    places: list[int | None] = field(default_factory=list)
    missed: list[tuple[Question, int | None, str]] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)

    def share(self, first: int) -> float:
        return scoring.average(self._found(first), "found")

    def interval(self) -> tuple[float, float]:
        return scoring.interval(self._found(FIRST), "found")

    def _found(self, first: int) -> list[dict[str, float]]:
        return [{"found": float(place is not None and place <= first)} for place in self.places]

    def as_json(self) -> dict[str, Any]:
        low, high = self.interval()
        return {
            "set": self.questions,
            "mode": self.mode,
            "decay": self.decay,
            "questions": len(self.places),
            **{f"any@{first}": round(self.share(first), 4) for first in (1, 3, 5, 10)},
            f"any@{FIRST} 95 %": [round(low, 4), round(high, 4)],
            "p50_ms": round(scoring.percentile(self.latencies_ms, 0.5), 1),
            "p95_ms": round(scoring.percentile(self.latencies_ms, 0.95), 1),
        }


def read_questions(name: str) -> list[Question]:
    rows = [json.loads(line) for line in SETS[name].read_text(encoding="utf-8").splitlines()]
    return [
        Question(f"{name}-{number}", row["question"], tuple(row["path"]), row["note"], row["judgement"])
        for number, row in enumerate(rows, 1)
    ]


def copy(source: Path, target: Path, *, only: str, without: Sequence[str]) -> None:
    """The markdown of a workspace; its own index and settings stay behind."""
    for path in sorted((source / "specs").rglob("*.md")):
        inside = path.relative_to(source)
        left_out = any(inside.is_relative_to(item) for item in without)
        if left_out or (only == "memory" and inside.parent.name != "memory"):
            continue
        (target / inside).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target / inside)  # an undated memory has its file's date


def run(
    root: Path,
    sets: dict[str, list[Question]],
    *,
    modes: Sequence[str],
    cache: Path,
    also: Mapping[str, Sequence[str]] = MappingProxyType({}),
    max_tokens: int | None = None,
) -> tuple[list[Outcome], dict[str, int]]:
    needs_vectors = modes != ["text"]
    settings = Settings(root=root, semantic=Semantic(model="local" if needs_vectors else "none"), watch="off")
    embedder = CachingEmbedder(LocalEmbedder(), cache) if needs_vectors else None
    outcomes = []
    with Workspace(settings, embedder=embedder) as workspace:
        workspace.index(progress=_tell)
        totals = workspace.stats().totals
        for outcome in _rows(sets, modes):
            workspace.search("warm up", mode=outcome.mode)
            for question in sets[outcome.questions]:
                _ask(workspace, question, outcome, help_for(also, question.id, question.text), max_tokens)
            outcomes.append(outcome)
    return outcomes, {"memories": totals["memories"], "passages": totals["passages"]}


def _rows(sets: dict[str, list[Question]], modes: Sequence[str]) -> Iterator[Outcome]:
    for name in sets:
        for mode in modes:
            for decay in (True, False):
                yield Outcome(name, mode, decay)


def _tell(step: str, done: int, of: int) -> None:
    if done % 1000 == 0 or done == of:
        print(f"  {step} {done}/{of}", file=sys.stderr)


def _ask(
    workspace: Workspace, question: Question, outcome: Outcome, also: Sequence[str], max_tokens: int | None
) -> None:
    started = time.perf_counter()
    answer = workspace.search(
        question.text,
        also=also,
        include_archived=True,
        limit=LISTED if max_tokens else DEPTH,
        mode=outcome.mode,
        use_decay=outcome.decay,
        max_tokens=max_tokens or BUDGET,
    )
    outcome.latencies_ms.append((time.perf_counter() - started) * 1000)
    results = [result for result in answer.results if isinstance(result, Result)]
    ranked = [result.path if result.text or not max_tokens else "" for result in results]
    place = question.place_in(ranked)
    outcome.places.append(place)
    if place is None or place > FIRST:
        outcome.missed.append((question, place, ranked[0] if ranked else "nothing"))


def show(outcomes: Sequence[Outcome], *, misses: bool) -> None:
    print(f"{'set':10}{'mode':8}{'decay':7}{'questions':>10}  first 1    3    5   (95 %)        10   p50 ms")
    for outcome in outcomes:
        low, high = outcome.interval()
        print(
            f"{outcome.questions:10}{outcome.mode:8}{'on' if outcome.decay else 'off':7}{len(outcome.places):10}"
            f"  {outcome.share(1):7.2f} {outcome.share(3):.2f} {outcome.share(FIRST):.2f} ({low:.2f} to {high:.2f})"
            f" {outcome.share(10):.2f}  {scoring.percentile(outcome.latencies_ms, 0.5):7.1f}"
        )
    for outcome in outcomes if misses else []:
        print(f"{outcome.questions}, {outcome.mode}, decay {'on' if outcome.decay else 'off'}:")
        for question, place, first in outcome.missed:
            print(f"  missed ({'not found' if place is None else f'place {place}'}): {question.text}")
            print(f"      wanted {question.paths[0]}\n      first  {first}")


def show_wording(name: str, found: Sequence[wording.Shared]) -> None:
    """Do the questions keep the rule on telling words?"""
    most = sorted(found, key=lambda each: -len(each.words))
    mean = sum(len(each.words) for each in found) / len(found)
    over = [each for each in most if len(each.words) > wording.LIMIT]
    print(f"{name}: telling words shared with the nearest answer, mean {mean:.2f}, most {len(most[0].words)}")
    for item in over:
        print(f"  breaks the rule ({', '.join(item.words)}): {item.question}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("workspace", type=Path, metavar="WORKSPACE_DIR")
    parser.add_argument("--mode", choices=MODES, action="append", help="only these (default: all three)")
    parser.add_argument("--only", choices=("all", "memory"), default="all", help="memory: leave spec documents out")
    parser.add_argument("--without", action="append", default=[], metavar="FOLDER", help="leave a folder out")
    parser.add_argument("--cache", type=Path, default=default_folder(), help="where embeddings are kept between runs")
    parser.add_argument("--also", type=Path, metavar="FILE", help="JSON: question id or text -> texts that help")
    parser.add_argument("--max-tokens", type=int, help="the size of an answer; only what is shown with a text counts")
    parser.add_argument("--misses", action="store_true", help="name the questions that were missed")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        root = Path(place).resolve()
        copy(arguments.workspace, root, only=arguments.only, without=arguments.without)
        texts = {path.relative_to(root).as_posix(): path.read_text("utf-8", "replace") for path in root.rglob("*.md")}
        asked = {name: read_questions(name) for name in SETS}
        sets = {name: [item for item in all_ if texts.keys() & set(item.paths)] for name, all_ in asked.items()}
        outcomes, totals = run(
            root,
            sets,
            modes=arguments.mode or list(MODES),
            cache=arguments.cache,
            also=read_also(arguments.also),
            max_tokens=arguments.max_tokens,
        )
    if arguments.json:
        print(json.dumps({**totals, "rows": [outcome.as_json() for outcome in outcomes]}))
        return
    left_out = sum(len(asked[name]) - len(sets[name]) for name in sets)
    print(f"{totals['memories']} memories, {totals['passages']} passages; {left_out} questions left out")
    show(outcomes, misses=arguments.misses)
    for name, questions in sets.items():
        show_wording(name, wording.shared(((question.text, question.paths) for question in questions), texts))


if __name__ == "__main__":
    main()
