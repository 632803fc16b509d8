"""How do systems that people use today do on the same data, in the same run?

    python -m benchmarks.peers DATASET_DIR... [--systems NAME,NAME] [--groups N] [--documents N] [--cache DIR] [--json]

Each system runs in its own environment and its own process, through its public interface, at its defaults, and
gets its vectors from a loopback endpoint that serves this project's bundled model. Environments are made first,
from the package index with the pins in systems.py, and kept in the cache folder by a hash of these. What cannot be
installed, fails, or takes more than --minutes is a row of the table that says so, and the others go on; a question
that fails counts as a zero.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks.caching import default_folder
from benchmarks.peers.endpoint import Endpoint
from benchmarks.peers.environments import InstallError, python_of, version_of
from benchmarks.peers.measuring import Figures, Group, given_to, groups_of, measure, pinned, table
from benchmarks.peers.process import AnswerError, EndedError, Process
from benchmarks.peers.systems import OURS, SYSTEMS, System


def say(told: str) -> None:
    print(f"  {told}", file=sys.stderr, flush=True)


class Field:
    """Who takes part: a command and a version for each system that could be installed, else the reason."""

    def __init__(self, systems: Sequence[System], given: Namespace) -> None:
        self.systems = systems
        self._commands: dict[str, list[str]] = {}
        self._versions: dict[str, str] = {}
        self._reasons: dict[str, str] = {}
        self._cache: Path = given.cache
        self._embeddings: Path = given.embeddings or given.cache
        for system in systems:
            self._enter(system, minutes=given.install_minutes)

    def _enter(self, system: System, *, minutes: float) -> None:
        if system.name == OURS:
            self._commands[OURS] = self.ours()
            self._versions[system.package] = version(OURS)
            return
        if system.package not in self._versions and system.package not in self._reasons:
            self._install(system, minutes=minutes)
        if system.package in self._versions:
            python = self._cache / "peers" / system.environment / "bin" / "python"
            self._commands[system.name] = [str(python), str(Path(__file__).with_name("worker.py")), system.adapter]

    def _install(self, system: System, *, minutes: float) -> None:
        try:
            python = python_of(system, self._cache / "peers", minutes=minutes, say=say)
            self._versions[system.package] = version_of(system, python)
        except (InstallError, OSError) as error:
            self._reasons[system.package] = f"not installed: {error}"
            say(f"{system.package}: cannot be installed, its rows will say so: {error}")

    def ours(self) -> list[str]:
        return [sys.executable, "-m", "benchmarks.peers.ours", str(self._embeddings)]

    def figures(self, system: System, dataset: str) -> Figures:
        failure = self._reasons.get(system.package, "")
        return Figures(system, dataset, version=self._versions.get(system.package, ""), failure=failure)

    def start(self, system: System, *, minutes: float) -> Process:
        log = self._cache / "peers" / f"{system.name}.log"
        return Process(self._commands[system.name], log, minutes=minutes)


def embed_ours(field: Field, groups: Sequence[Group], *, minutes: float, log: Path) -> None:
    """Index once for nothing, so that our vectors too come from the cache when the indexing rate is taken."""
    with Process(field.ours(), log, minutes=minutes) as process:
        for group in groups:
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
                process.ask(do="open", folder=place, url="", queryPrefix=False)
                process.ask(do="index", documents=given_to(SYSTEMS[0], group))
                process.ask(do="close")


def run(field: Field, folder: Path, groups: Sequence[Group], endpoint: Endpoint, *, minutes: float) -> list[Figures]:
    told = []
    for system in field.systems:
        figures = field.figures(system, folder.name)
        if not figures.failure:
            try:
                with field.start(system, minutes=minutes) as process:
                    measure(figures, process, groups, endpoint)
            except EndedError as error:
                figures.failure = f"failed: {error}"
        told.append(figures)
        # Each row as soon as it is known: a run of many systems takes long, and may be stopped.
        say(table([figures.as_json()]).splitlines()[-1])
    return told


def compare(field: Field, folder: Path, endpoint: Endpoint, given: Namespace) -> None:
    groups = groups_of(folder, groups=given.groups, documents=given.documents)
    texts = [document["text"] for group in groups for document in group.documents]
    count = f"{len(texts)} documents, {sum(len(group.questions) for group in groups)} questions"
    say(f"{folder.name}: {count}; embedding what is not in the cache")
    say(f"{folder.name}: {endpoint.warm(texts)} embedded for the others")
    if any(system.name == OURS for system in field.systems):
        try:
            embed_ours(field, groups, minutes=given.minutes, log=given.cache / "peers" / "embedding.log")
        except (AnswerError, EndedError) as error:
            say(f"{folder.name}: our own vectors could not be made beforehand: {error}")
    told = [figures.as_json() for figures in run(field, folder, groups, endpoint, minutes=given.minutes)]
    if given.json:
        print("\n".join(json.dumps(row) for row in told), flush=True)
    else:
        print(f"{folder.name}: {count}{_limits(folder, groups)}\n\n{table(told)}\n\n{pinned(told)}\n", flush=True)


def _limits(folder: Path, groups: Sequence[Group]) -> str:
    """What was left out, where anything was."""
    whole = groups_of(folder, groups=None, documents=None)
    told = [f"{len(groups)} of {len(whole)} groups"] if len(groups) < len(whole) else []
    kept, there = (sum(len(group.documents) for group in some) for some in (groups, whole[: len(groups)]))
    told += [f"{kept} of their {there} documents"] if kept < there else []
    return f"; limited to {' and '.join(told)}" if told else ""


def _chosen(names: str | None) -> list[System]:
    if not names:
        return list(SYSTEMS)
    known = {system.name: system for system in SYSTEMS}
    unknown = [name for name in names.split(",") if name not in known]
    if unknown:
        sys.exit(f"{', '.join(unknown)}: not among {', '.join(known)}")
    return [known[name] for name in names.split(",")]


def _given() -> Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("datasets", nargs="+", type=Path, metavar="DATASET_DIR")
    parser.add_argument("--systems", metavar="NAME,NAME", help=", ".join(system.name for system in SYSTEMS))
    parser.add_argument("--groups", type=int, metavar="N", help="only the first so many groups of each dataset")
    parser.add_argument("--documents", type=int, metavar="N", help="only so many of each group, the relevant included")
    parser.add_argument("--cache", type=Path, default=default_folder(), help="environments, logs and embeddings")
    parser.add_argument("--embeddings", type=Path, metavar="DIR", help="another folder for embeddings than --cache")
    parser.add_argument("--minutes", type=float, default=15, help="the longest a system may take for a dataset")
    parser.add_argument("--install-minutes", type=float, default=30, help="the longest an installation may take")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> None:
    given = _given()
    given.cache = given.cache.resolve()
    (given.cache / "peers").mkdir(parents=True, exist_ok=True)
    field = Field(_chosen(given.systems), given)
    with Endpoint(given.embeddings or given.cache) as endpoint:
        for folder in given.datasets:
            compare(field, folder, endpoint, given)


if __name__ == "__main__":
    main()
