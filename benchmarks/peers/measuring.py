"""What does one system amount to on one dataset, and how is that shown?"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks import scoring
from benchmarks.peers.process import AnswerError, EndedError, Process
from benchmarks.peers.systems import OURS, System
from benchmarks.retrieval import Row, rows_of

LIMIT = 10
SHOWN = ("recall@5", "recall@10", "all@10", "ndcg@10")
HEAD = "| system | version | settings | R@5 | R@10 | all@10 | nDCG@10 | p50 ms | p95 ms | documents/s | MB | load |"


class Vectors(Protocol):
    """Where a system gets its vectors; from a cache while it indexes, computed while it is asked."""

    caching: bool

    @property
    def url(self) -> str: ...


@dataclass
class Figures:
    """What one system amounted to on one dataset."""

    system: System
    dataset: str
    version: str = ""
    rows: list[dict[str, float]] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    documents: int = 0
    indexing_seconds: float = 0.0
    peak_bytes: int = 0
    errors: int = 0
    failure: str = ""
    load: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "system": self.system.name,
            "version": self.version,
            "pins": list(self.system.pins),
            "settings": self.system.settings,
            "questions": len(self.rows),
            **{name: round(scoring.average(self.rows, name), 4) for name in SHOWN},
            "p50_ms": round(scoring.percentile(self.latencies_ms, 0.5), 1),
            "p95_ms": round(scoring.percentile(self.latencies_ms, 0.95), 1),
            "documents_per_second": round(self.documents / self.indexing_seconds, 1) if self.indexing_seconds else None,
            "peak_megabytes": round(self.peak_bytes / 1e6),
            "load": round(self.load, 1),
            "errors": self.errors,
            "failure": self.failure,
        }


@dataclass(frozen=True)
class Group:
    documents: Sequence[dict[str, Any]]  # id and text as a peer gets them, and the whole row for ours
    questions: Sequence[Row]


def groups_of(folder: Path, *, groups: int | None, documents: int | None) -> list[Group]:
    """With a limit, all that is relevant to a question stays and the first of the others fill up."""
    kept: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows_of(folder, "corpus"):
        kept[str(row["group"])].append({"id": str(row["id"]), "text": _as_text(row), "row": row})
    asked: dict[str, list[Row]] = defaultdict(list)
    for question in rows_of(folder, "queries"):
        if question["relevant"]:
            asked[str(question["group"])].append(question)
    chosen = list(asked.items())[:groups]
    return [Group(_thinned(kept[name], questions, documents), questions) for name, questions in chosen]


def _thinned(documents: list[dict[str, Any]], questions: Sequence[Row], most: int | None) -> list[dict[str, Any]]:
    if most is None:
        return documents
    relevant = {str(id_) for question in questions for id_ in question["relevant"]}
    room = max(0, most - sum(document["id"] in relevant for document in documents))
    others = [document["id"] for document in documents if document["id"] not in relevant][:room]
    expected = relevant | set(others)
    return [document for document in documents if document["id"] in expected]


def _as_text(row: Row) -> str:
    """Time and speaker go into the text, for the others as for us: without the speaker all do much worse."""
    said = f"{row['speaker']}: {row['text']}" if row.get("speaker") else str(row["text"])
    return f"[{row['time']}] {said}" if row.get("speaker") and row.get("time") else said


def measure(figures: Figures, process: Process, groups: Sequence[Group], vectors: Vectors) -> None:
    """Fill the figures; what goes wrong with the system is its `failure`, and never ends the run."""
    figures.load = os.getloadavg()[0]
    doing = ["opening"]
    try:
        for number, group in enumerate(groups, 1):
            _measure_group(figures, process, group, vectors, doing)
            _say(figures, f"group {number} of {len(groups)}: {len(figures.rows)} questions asked")
    except (AnswerError, EndedError) as error:
        figures.failure = f"failed while {doing[-1]}: {error}"
        _say(figures, figures.failure)


def _measure_group(figures: Figures, process: Process, group: Group, vectors: Vectors, doing: list[str]) -> None:
    system = figures.system
    vectors.caching = True
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        doing.append("opening")
        process.ask(do="open", folder=place, url=vectors.url, queryPrefix=system.query_prefix)
        doing.append(f"indexing {len(group.documents)} documents")
        figures.indexing_seconds += _number(process.ask(do="index", documents=given_to(system, group)), "seconds")
        figures.documents += len(group.documents)
        vectors.caching = False
        doing.append("asked for the first time")
        process.ask(do="ask", text="warm up", limit=system.depth)
        for number, question in enumerate(group.questions, 1):
            doing.append(f"asked question {number} of {len(group.questions)}")
            figures.rows.append(scoring.measure(question["relevant"], _ranked(figures, process, question)))
        doing.append("closing")
        figures.peak_bytes = int(_number(process.ask(do="close"), "peakBytes"))


def given_to(system: System, group: Group) -> Sequence[dict[str, Any]]:
    """Ours is told of sessions and speakers, since it has a place for them."""
    if system.name == OURS:
        return group.documents
    return [{"id": document["id"], "text": document["text"]} for document in group.documents]


def _ranked(figures: Figures, process: Process, question: Row) -> list[str]:
    try:
        answer = process.ask(do="ask", text=str(question["text"]), limit=figures.system.depth)
    except AnswerError as error:
        figures.errors += 1
        _say(figures, f"question {question['id']}: {error}")
        return []
    ranked = answer.get("ranked")
    if not isinstance(ranked, list) or not all(isinstance(item, str) for item in ranked):
        raise EndedError(f"its answer has no list of documents: {str(answer)[:60]}")
    figures.latencies_ms.append(_number(answer, "seconds") * 1000)
    return list(dict.fromkeys(ranked))[:LIMIT]


def _number(answer: dict[str, Any], name: str) -> float:
    value = answer.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise EndedError(f"its answer has no number {name!r}: {str(answer)[:60]}")
    return float(value)


def _say(figures: Figures, said: str) -> None:
    print(f"  {figures.dataset}, {figures.system.name}: {said}", file=sys.stderr, flush=True)


def table(told: Sequence[dict[str, Any]]) -> str:
    lines = [HEAD, "|" + "---|" * 12]
    for row in told:
        failed = f" ({row['errors']} questions failed)" if row["errors"] else ""
        first = f"| {row['system']} | {row['version'] or '?'} | {row['settings']}{failed} |"
        if row["failure"]:
            # A bar would begin a new cell.
            why = row["failure"].splitlines()[0][:160].replace("|", "/")
            lines.append(f"{first} {why} |" + " |" * 8)
            continue
        quality = " | ".join(f"{row[name]:.3f}" for name in SHOWN)
        cost = f"{row['p50_ms']} | {row['p95_ms']} | {row['documents_per_second']} | {row['peak_megabytes']}"
        lines.append(f"{first} {quality} | {cost} | {row['load']} |")
    return "\n".join(lines)


def pinned(told: Sequence[dict[str, Any]]) -> str:
    """What was asked of the package index, once for each environment."""
    environments = dict.fromkeys(tuple(row["pins"]) for row in told if row["pins"])
    return "\n".join(f"- {', '.join(pins)}" for pins in environments)
