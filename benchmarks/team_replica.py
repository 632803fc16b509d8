"""One replica of a team server for `benchmarks.team`: its keeper and some agents, until it is killed.

What was acknowledged is written down, one line each, before the next call.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

from spec_kit_memory.caller import Caller
from spec_kit_memory.core.memory import Scope
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.settings.keys import Semantic, Settings
from spec_kit_memory.team.database import TeamDatabase
from spec_kit_memory.team.keeper import Keeper
from spec_kit_memory.team.project_workspace import open_project
from spec_kit_memory.team.projects import Projects
from spec_kit_memory.workspace import Workspace


class Log:
    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, **fields: Any) -> None:
        os.write(self._descriptor, json.dumps(fields).encode() + b"\n")


def agent(number: int, projects: dict[str, Workspace], log: Log, seed: int, stopping: threading.Event) -> None:
    choose = random.Random(seed * 1000 + number)
    own: list[tuple[str, int, str]] = []  # project, id, word
    while not stopping.is_set():
        name = choose.choice(list(projects))
        user = f"user{choose.randrange(4)}"
        workspace = projects[name].for_caller(Caller(scope=Scope(user=user), user=f"{user}@local"))
        word = f"{name}w{uuid4().hex[:12]}"
        kind = choose.choices(("save", "search", "update", "delete", "personal"), (45, 35, 12, 5, 3))[0]
        target = choose.choice(own) if own else None
        started = time.perf_counter()
        try:
            fields: dict[str, Any] = {"word": word}
            match kind:
                case "save" | "personal":
                    vault = "personal" if kind == "personal" else "project"
                    saved = workspace.save(text=f"Note {word} of {user}", on_similar="distinct", vault=vault)
                    fields |= {"id": saved.id}
                    if kind == "save" and saved.id is not None:
                        own.append((name, saved.id, word))
                case "search":
                    known = target[2] if target and target[0] == name else word
                    found = workspace.search(known, limit=3).results
                    fields |= {"seen": [result.text for result in found]}
                case "update" if target:
                    name, id_, word = target
                    log.write(kind="meant", project=name, word=word, user=user)
                    projects[name].for_caller(Caller(user=f"{user}@local")).update(id=id_, title=f"Title {word}")
                    fields = {"word": word}
                case "delete" if target:
                    own.remove(target)
                    name, id_, word = target
                    log.write(kind="deleting", project=name, word=word, user=user)
                    projects[name].for_caller(Caller(user=f"{user}@local")).delete(id=id_, delete_file=True)
                    fields = {"word": word}
                case _:
                    continue
        except SpecKitMemoryError as error:
            log.write(kind="refused", of=kind, project=name, code=error.code, message=error.message[:200])
            stopping.wait(0.2)
            continue
        milliseconds = (time.perf_counter() - started) * 1000
        log.write(kind=kind, project=name, user=user, at=time.time(), ms=round(milliseconds, 3), **fields)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("url", "data", "log"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--agents", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    given = parser.parse_args()
    while True:
        try:
            database = TeamDatabase(given.url)
            settings = Settings(root=Path(given.data), semantic=Semantic(model="hashing"))
            projects = {
                project.name: open_project(database, project, settings=settings)
                for project in Projects(database).list()
            }
            break
        except SpecKitMemoryError:  # PostgreSQL is being started again
            time.sleep(0.2)
    stopping, log = threading.Event(), Log(Path(given.log))
    keeper = Keeper(database, settings=settings, interval_seconds=5.0, domain="memory.example")
    work = [threading.Thread(target=keeper.run, args=(stopping,))]
    work += [
        threading.Thread(target=agent, args=(number, projects, log, given.seed, stopping))
        for number in range(given.agents)
    ]
    for thread in work:
        thread.start()
    sys.stdin.read()  # until whoever started this closes it, or kills
    stopping.set()
    for thread in work:
        thread.join()
    for workspace in projects.values():
        workspace.close()


if __name__ == "__main__":
    main()
