"""Does a backup of a team server restore everything, and how long does it take?

It dumps a database, stops its server, restores the dump on another one, and checks what is there:

python -m tools.backup_drill --memories 500        on two temporary servers, which are removed at the end
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from spec_kit_memory.caller import Caller
from spec_kit_memory.core.memory import Scope
from spec_kit_memory.settings.keys import Semantic, Settings
from spec_kit_memory.team.database import TeamDatabase
from spec_kit_memory.team.keeper import Keeper
from spec_kit_memory.team.project_workspace import open_project
from spec_kit_memory.team.projects import Projects
from spec_kit_memory.team.static_tokens import Tokens
from spec_kit_memory.workspace import Workspace
from tests import postgres_server
from tests.team.git_remotes import Remote

ANA = Caller(scope=Scope(user="ana"), user="ana@local")
# As in docs/how-to/run-a-team-server.md: the server's user is no superuser, and dumps do not contain roles.
ROLES = ("CREATE ROLE memory LOGIN CREATEROLE",)
APP_ROLE = ("CREATE ROLE spec_kit_memory_app NOLOGIN", "GRANT spec_kit_memory_app TO memory")
LATE, OWN = "Herons wait for the tide", "I prefer tabs to spaces"


@dataclass(slots=True)
class Drill:
    """The result: what the restored server lacks, the seconds of each step, and the size of the dump."""

    missing: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    dump_bytes: int = 0

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.seconds[step] = round(time.perf_counter() - begun, 2)

    def require(self, what: str, *, holds: bool) -> None:
        if not holds:
            self.missing.append(what)


def drill(memories: int) -> Drill:
    result = Drill()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="skm-drill-")))
        servers = [postgres_server.started("skm-drill-") for _ in range(2)]
        for server in servers:
            stack.callback(postgres_server.ended, server)
        old, new = servers
        notes = {f"memory/note-{number}.md": f"# Note {number}\n\nFact w{number}x.\n" for number in range(memories)}
        remote = Remote.made(folder / "shop.git", notes)
        for sql in (*ROLES, "CREATE DATABASE memory OWNER memory"):
            old.execute(sql)
        old.execute("CREATE EXTENSION vector", database="memory")
        head, secret = _before(old.url("memory", user="memory"), folder / "old", remote)
        dump = folder / "memory.dump"
        with result.timed("dump"):
            _client("pg_dump", "-Fc", "-f", str(dump), old.url("memory"))
        result.dump_bytes = dump.stat().st_size
        old.stop(mode="immediate")
        with result.timed("restore to the first answer"):
            for sql in (*ROLES, *APP_ROLE, "CREATE DATABASE memory OWNER memory"):
                new.execute(sql)
            _client("pg_restore", "--exit-on-error", "-d", new.url("memory"), str(dump))
            database = TeamDatabase(new.url("memory", user="memory"))
            workspace = stack.enter_context(_opened(database, folder / "new"))
            found = workspace.search(f"w{memories - 1}x").results
        result.require("the answer", holds=bool(found) and f"w{memories - 1}x" in found[0].text)
        _compare(result, workspace, database, head=head, secret=secret)
        with result.timed("what was on its way into git"):
            _round(database, folder / "new")
        texts = remote.git("grep", "-h", LATE, "main", allowed=(0, 1))
        result.require("the save that was not in git", holds=texts.count(LATE) > 0)
    return result


def _before(url: str, folder: Path, remote: Remote) -> tuple[str, str]:
    """Fill a server: notes from git, a person's own note, a save that is not in git yet, a token. Returns the head of
    its ledger and the token."""
    database = TeamDatabase(url)
    Projects(database).add("shop", repository=str(remote.folder))
    _round(database, folder)
    secret = Tokens(database).create("ana", projects=["shop"], role="writer")[1]
    with _opened(database, folder) as workspace:
        ana = workspace.for_caller(ANA)
        ana.save(text=OWN, vault="personal")
        ana.save(text=LATE)
        ana.validate(id=1, was_useful=True)
        return workspace.ledger_head().head, secret


def _compare(report: Drill, workspace: Workspace, database: TeamDatabase, *, head: str, secret: str) -> None:
    report.require("the ledger's head", holds=workspace.ledger_head().head == head)
    report.require("the ledger's chain", holds=workspace.ledger_verify().ok)
    report.require("the token", holds=Tokens(database).check(secret) is not None)
    own = workspace.for_caller(ANA).search(OWN).results
    report.require("the own note", holds=any(OWN in result.text for result in own))
    stranger = workspace.for_caller(Caller(scope=Scope(user="eve"))).search(OWN).results
    report.require("its fence", holds=not any(OWN in result.text for result in stranger))
    report.require("use", holds=workspace.load(1).memory.validation_count == 1)


def _opened(database: TeamDatabase, folder: Path) -> Workspace:
    return open_project(database, Projects(database).get("shop"), settings=_settings(folder))


def _round(database: TeamDatabase, folder: Path) -> None:
    keeper = Keeper(database, settings=_settings(folder))
    try:
        outcome = keeper.round("shop")
        assert outcome is not None
        assert outcome.problem is None, outcome.problem
    finally:
        keeper.close()


def _settings(folder: Path) -> Settings:
    return Settings(root=folder, semantic=Semantic(model="hashing"))


def _client(program: str, *arguments: str) -> None:
    subprocess.run([str(postgres_server.binaries() / program), *arguments], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=500)
    result = drill(parser.parse_args().memories)
    for step, seconds in result.seconds.items():
        print(f"{seconds:7.2f} s  {step}")
    print(f"{result.dump_bytes:,} bytes of dump")
    if result.missing:
        raise SystemExit("not there again: " + ", ".join(result.missing))


if __name__ == "__main__":
    main()
