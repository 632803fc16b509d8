"""How do systems that people use today do on the same data, in the same run?

    python -m benchmarks.peers DATASET_DIR... [--systems NAME,NAME] [--groups N] [--json]

Each system runs in its own environment and its own process, through its public interface, at its defaults, and
gets its vectors from a loopback endpoint that serves this project's bundled model. What cannot be installed, or
fails, is a row of the table too; a question that fails counts as a zero.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from argparse import Namespace
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import scoring
from benchmarks.caching import default_folder
from benchmarks.peers.endpoint import Endpoint
from benchmarks.peers.environments import InstallError, python_of, version_of
from benchmarks.peers.systems import OURS, SYSTEMS, System
from benchmarks.retrieval import Row, rows_of

LIMIT = 10
SHOWN = ("recall@5", "recall@10", "all@10", "ndcg@10")


class WorkerError(Exception):
    """A system answered with an error, or ended."""


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

    def as_json(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "system": self.system.name,
            "version": self.version,
            "settings": self.system.settings,
            "questions": len(self.rows),
            **{name: round(scoring.average(self.rows, name), 4) for name in SHOWN},
            "p50_ms": round(scoring.percentile(self.latencies_ms, 0.5), 1),
            "p95_ms": round(scoring.percentile(self.latencies_ms, 0.95), 1),
            "documents_per_second": round(self.documents / self.indexing_seconds, 1) if self.indexing_seconds else None,
            "peak_megabytes": round(self.peak_bytes / 1e6),
            "errors": self.errors,
            "failure": self.failure,
        }


@dataclass(frozen=True)
class Group:
    documents: Sequence[dict[str, Any]]  # id and text as a peer gets them, and the whole row for ours
    questions: Sequence[Row]


class Worker:
    """A system's process: one line in, one line out, and an end after so many minutes."""

    def __init__(self, command: Sequence[str], log: Path, *, minutes: float) -> None:
        self._ended = "its process ended"
        self._log = log.open("ab")
        # No proxy may stand between a system and the loopback endpoint.
        environment = {**os.environ, "NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, env=environment, text=True
        )
        self._limit = threading.Timer(minutes * 60, self._stop, (minutes,))
        self._limit.daemon = True
        self._limit.start()

    def _stop(self, minutes: float) -> None:
        self._ended = f"stopped after {minutes:g} minutes"
        self._process.kill()

    def ask(self, **asked: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerError(self._ended) from None
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError(self._ended)
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._limit.cancel()
        # What could not be written to a process that ended is lost with it.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._log.close()


def groups_of(folder: Path, most: int | None) -> list[Group]:
    documents: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows_of(folder, "corpus"):
        documents[str(row["group"])].append({"id": str(row["id"]), "text": _as_text(row), "row": row})
    questions: dict[str, list[Row]] = defaultdict(list)
    for question in rows_of(folder, "queries"):
        if question["relevant"]:
            questions[str(question["group"])].append(question)
    return [Group(documents[name], asked) for name, asked in questions.items()][:most]


def _as_text(row: Row) -> str:
    """Time and speaker go into the text, for the others as for us: without the speaker all do much worse."""
    said = f"{row['speaker']}: {row['text']}" if row.get("speaker") else str(row["text"])
    return f"[{row['time']}] {said}" if row.get("speaker") and row.get("time") else said


def run(system: System, folder: Path, groups: Sequence[Group], endpoint: Endpoint, *, given: Namespace) -> Figures:
    figures = Figures(system, folder.name)
    try:
        command = _command(system, figures, given.cache)
        worker = Worker(command, given.cache / "peers" / f"{system.name}.log", minutes=given.minutes)
    except InstallError as error:
        figures.failure = f"not installed: {error}"
        return figures
    try:
        for group in groups:
            _measure(worker, group, figures, endpoint)
    except WorkerError as error:
        figures.failure = f"failed: {error}"
    finally:
        worker.close()
    return figures


def _command(system: System, figures: Figures, cache: Path) -> list[str]:
    if system.name == OURS:
        figures.version = version(OURS)
        return [sys.executable, "-m", "benchmarks.peers.ours", str(cache)]
    python = python_of(system, cache / "peers")
    figures.version = version_of(system, python)
    return [str(python), str(Path(__file__).with_name("worker.py")), system.adapter]


def _measure(worker: Worker, group: Group, figures: Figures, endpoint: Endpoint) -> None:
    endpoint.caching = True
    plain = [{"id": each["id"], "text": each["text"]} for each in group.documents]
    given = group.documents if figures.system.name == OURS else plain
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        worker.ask(do="open", folder=place, url=endpoint.url, queryPrefix=figures.system.query_prefix)
        figures.indexing_seconds += float(worker.ask(do="index", documents=given)["seconds"])
        figures.documents += len(given)
        endpoint.caching = False
        worker.ask(do="ask", text="warm up", limit=LIMIT)
        for question in group.questions:
            ranked: list[str] = []
            try:
                answer = worker.ask(do="ask", text=str(question["text"]), limit=LIMIT)
                ranked = answer["ranked"]
                figures.latencies_ms.append(float(answer["seconds"]) * 1000)
            except WorkerError as error:
                figures.errors += 1
                print(f"  {figures.system.name} {question['id']}: {error}", file=sys.stderr)
            figures.rows.append(scoring.measure(question["relevant"], ranked))
        figures.peak_bytes = int(worker.ask(do="close")["peakBytes"])


def table(told: Sequence[dict[str, Any]]) -> str:
    head = "| system | version | settings | R@5 | R@10 | all@10 | nDCG@10 | p50 ms | p95 ms | documents/s | MB |"
    lines = [head, "|" + "---|" * 11]
    for row in told:
        first = f"| {row['system']} | {row['version'] or '?'} | {row['settings']} |"
        if row["failure"]:
            lines.append(f"{first} {row['failure'].splitlines()[0][:160]} |" + " |" * 7)
            continue
        quality = " | ".join(f"{row[name]:.3f}" for name in SHOWN)
        cost = f"{row['p50_ms']} | {row['p95_ms']} | {row['documents_per_second']} | {row['peak_megabytes']}"
        failed = f" ({row['errors']} questions failed)" if row["errors"] else ""
        lines.append(f"{first[:-2]}{failed} | {quality} | {cost} |")
    return "\n".join(lines)


def _chosen(names: str | None) -> list[System]:
    if not names:
        return list(SYSTEMS)
    known = {system.name: system for system in SYSTEMS}
    unknown = [name for name in names.split(",") if name not in known]
    if unknown:
        sys.exit(f"{', '.join(unknown)}: not among {', '.join(known)}")
    return [known[name] for name in names.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("datasets", nargs="+", type=Path, metavar="DATASET_DIR")
    parser.add_argument("--systems", metavar="NAME,NAME", help=", ".join(system.name for system in SYSTEMS))
    parser.add_argument("--groups", type=int, metavar="N", help="only the first so many groups of each dataset")
    parser.add_argument("--cache", type=Path, default=default_folder(), help="environments and embeddings")
    parser.add_argument("--minutes", type=float, default=15, help="the longest a system may take for a dataset")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    (given.cache / "peers").mkdir(parents=True, exist_ok=True)
    systems = _chosen(given.systems)
    with Endpoint(given.cache) as endpoint:
        for folder in given.datasets:
            groups = groups_of(folder, given.groups)
            texts = [each["text"] for group in groups for each in group.documents]
            count = sum(len(group.questions) for group in groups)
            embedded = endpoint.warm(texts)
            print(f"{folder.name}: {len(texts)} documents, {count} questions, {embedded} embedded now", file=sys.stderr)
            told = []
            for system in systems:
                print(f"  {system.name}", file=sys.stderr)
                told.append(run(system, folder, groups, endpoint, given=given).as_json())
            if given.json:
                print("\n".join(json.dumps(row) for row in told), flush=True)
            else:
                load = ", ".join(f"{number:.1f}" for number in os.getloadavg())
                print(
                    f"{folder.name}: {len(texts)} documents, {count} questions; load {load}\n\n{table(told)}\n",
                    flush=True,
                )


if __name__ == "__main__":
    main()
