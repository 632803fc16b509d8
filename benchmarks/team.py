"""Does a team server lose, double or cross anything, and how fast is it? Agents, kills, a remote that refuses.

The replicas are processes of `skm serve --http --team`, and the agents call them over HTTP with tokens, as MCP.

python -m benchmarks.team --minutes 5                    the soak
python -m benchmarks.team --growth                       cost with projects and agents, without kills
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.team_agents import NEWER, Agent
from spec_kit_memory.caller import Caller
from spec_kit_memory.core.memory import Scope
from spec_kit_memory.settings.keys import Settings
from spec_kit_memory.team.database import TeamDatabase
from spec_kit_memory.team.keeper import Keeper
from spec_kit_memory.team.project_workspace import open_project
from spec_kit_memory.team.projects import Projects
from spec_kit_memory.team.static_tokens import Tokens
from tests import postgres_server
from tests.postgres_server import Server
from tests.team.git_remotes import Remote

SETTLE_SECONDS = 300.0
START_SECONDS = 240.0  # a busy machine may take so long to start replicas
# One push in four is refused.
_WORD = re.compile(r"p[0-9]+w[0-9a-f]{12}")  # what every note has in it
_REFUSES = "test $(($(od -An -N1 -tu1 /dev/urandom) % 4)) -ne 0 || { echo not now; exit 1; }"


class Replicas:
    """`skm serve --http --team` as often as wanted, each a process of its own that may be killed."""

    def __init__(self, url: str, folder: Path, *, count: int) -> None:
        self._url, self._folder = url, folder
        self._ports = [postgres_server.free_port() for _ in range(count)]
        self._running = [self._start(number) for number in range(count)]

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._running]

    @property
    def addresses(self) -> list[str]:
        return [f"http://127.0.0.1:{port}/mcp" for port in self._ports]

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        words = ["serve", "--http", "--team", "--port", str(self._ports[number]), "--index", self._url]
        words += ["--data", str(self._folder / f"replica-{number}")]
        with (self._folder / f"replica-{number}.log").open("ab") as log:
            return subprocess.Popen([sys.executable, "-m", "spec_kit_memory", *words], stderr=log, stdout=log)

    def is_ready(self, number: int) -> bool:
        try:
            return httpx2.get(f"http://127.0.0.1:{self._ports[number]}/readyz", timeout=5).status_code == 200
        except httpx2.TransportError:
            return False

    def keep_up(self) -> None:
        """One that found no database when it began has ended, as an operator's system would notice."""
        for number, process in enumerate(self._running):
            if process.poll() is not None:
                self._running[number] = self._start(number)

    def wait(self) -> None:
        until = time.monotonic() + START_SECONDS
        while not all(map(self.is_ready, range(len(self._ports)))):
            assert time.monotonic() < until, "the replicas do not start"
            self.keep_up()
            time.sleep(0.2)

    def kill(self, number: int) -> bool:
        """Kill one and start another in its place; one that is not ready yet is left alone."""
        if not self.is_ready(number):
            return False
        self._running[number].kill()
        self._running[number].wait()
        self._running[number] = self._start(number)
        return True

    def end(self) -> None:
        for process in self._running:
            process.terminate()
        for process in self._running:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def told(self) -> str:
        """What all of them wrote to their logs."""
        return "".join(path.read_text(encoding="utf-8") for path in sorted(self._folder.glob("replica-*.log")))


class Agents:
    """Processes of agents, which are not killed: what was acknowledged to them is what counts."""

    def __init__(self, told: dict[str, Any], folder: Path, *, processes: int, agents: int, seed: int) -> None:
        self._folder = folder
        self._running = []
        for number in range(processes):
            command = [sys.executable, "-m", "benchmarks.team_agents", "--agents", str(agents)]
            command += ["--log", str(folder / f"agents-{number}.log"), "--seed", str(seed + number)]
            process = subprocess.Popen(command, stdin=subprocess.PIPE)
            assert process.stdin is not None
            process.stdin.write(json.dumps(told).encode() + b"\n")
            process.stdin.flush()
            self._running.append(process)

    def end(self) -> None:
        for process in self._running:
            assert process.stdin is not None
            process.stdin.close()
        for process in self._running:
            process.wait(120)

    def lines(self) -> list[dict[str, Any]]:
        found = []
        for path in sorted(self._folder.glob("agents-*.log")):
            found += [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
        return found


def soak(
    *, seconds: float, seed: int = 1, replicas: int = 3, agents: int = 10, projects: int = 2, kills: bool = True
) -> dict[str, Any]:
    """For so long, and until a replica was killed and something was saved after that; `agents` of each replica."""
    server = postgres_server.started("skm-team-")
    folder = Path(tempfile.mkdtemp(prefix="skm-team-soak-"))
    try:
        return _soak(server, folder, seconds, seed, replicas, agents, projects, kills=kills)
    finally:
        postgres_server.ended(server)
        shutil.rmtree(folder, ignore_errors=True)


def _people(database: TeamDatabase, names: Sequence[str], *, apart: bool) -> dict[str, dict[str, Any]]:
    """Four who may write in every project; or two, and one for each of the first two projects alone."""
    rights = {f"user{number}": list(names) for number in range(4)}
    if apart:
        rights |= {"user2": [names[0]], "user3": [names[min(1, len(names) - 1)]]}
    tokens = Tokens(database)
    return {
        user: {"projects": own, "token": tokens.create(user, projects=own, role="writer")[1]}
        for user, own in rights.items()
    }


def _soak(
    server: Server, folder: Path, seconds: float, seed: int, replicas: int, agents: int, projects: int, *, kills: bool
) -> dict[str, Any]:
    database = TeamDatabase(server.url())
    remotes = {f"p{number}": Remote.made(folder / f"remote-{number}.git") for number in range(projects)}
    secrets = {}
    for name, remote in remotes.items():
        secrets[name] = Projects(database).add(name, repository=str(remote.folder)).hook_secret
        if kills:
            remote.hook(_REFUSES)
    people = _people(database, list(remotes), apart=kills)
    chance, killed = random.Random(seed), Counter[str]()
    running = Replicas(server.url(), folder, count=replicas)
    pushed, asking, opening, used = 0, None, list[float](), dict[str, float]()
    try:
        running.wait()
        opening = [] if kills else _opened(running.addresses, people, list(remotes))
        before = _processor(running, server)
        told = {"addresses": running.addresses, "people": people, "projects": list(remotes)}
        asking = Agents(told, folder, processes=replicas, agents=agents, seed=seed)
        until = time.monotonic() + seconds
        latest = until + START_SECONDS
        while time.monotonic() < until or (time.monotonic() < latest and not _has_seen_enough(asking, killed, kills)):
            time.sleep(chance.uniform(0.5, 2.5) if kills else 0.5)
            if not kills:
                continue
            running.keep_up()
            name = chance.choice(list(remotes))
            match chance.choices(("replica", "postgresql", "person"), (5, 1, 4))[0]:
                case "replica":
                    killed["replica"] += running.kill(chance.randrange(replicas))
                case "postgresql":
                    server.stop(mode="immediate")
                    server.start()
                    killed["postgresql"] += 1
                case "person":
                    pushed += 1
                    remotes[name].commit({f"memory/person-{pushed}.md": f"# Person\n\n{name}person{pushed}.\n"})
                    _call_hook(chance.choice(running.addresses), name, secrets[name])
        after = _processor(running, server)
        used = {} if kills else {name: after[name] - before[name] for name in after}
    finally:
        if asking is not None:
            asking.end()
        running.end()
    for remote in remotes.values():
        remote.hook("exit 0")
    lines = asking.lines()
    settled = _settle(database, folder, list(remotes))
    faults = [fault for name, remote in remotes.items() for fault in _faults(database, folder, name, remote, lines)]
    faults += [f"not in git after {SETTLE_SECONDS:.0f} seconds: {left}" for left in settled]
    faults += [f"{line['project']}: {line['user']} was not refused" for line in lines if line["kind"] == "crossed"]
    faults += _told_in_logs(running.told(), people)
    return {
        "faults": faults,
        "kills": dict(killed),
        "seconds": _span(lines),
        "pushes of people": pushed,
        "acknowledged": dict(Counter(line["kind"] for line in lines if "ms" in line)),
        "refused another project": sum(line["kind"] == "fenced" for line in lines),
        "refused": dict(Counter(f"{line['of']} {line['code']}" for line in lines if line["kind"] == "refused")),
        "milliseconds": {kind: _percentiles(lines, kind) for kind in ("save", "search", "update", "delete")},
        "first search": _shares(opening),
        "seconds of processor": used,
        "operations in git": sum(len(remote.operations()) for remote in remotes.values()),
    }


def _opened(addresses: Sequence[str], people: dict[str, dict[str, Any]], names: Sequence[str]) -> list[float]:
    """Have every replica open every project before anything is timed; returns the milliseconds that each took."""
    taken = []
    for address in addresses:
        agent = Agent([address], people, random.Random(1), NEWER)
        for name in names:
            started = time.perf_counter()
            agent.call("user0", "memory_search", query="note", project=name)
            taken.append((time.perf_counter() - started) * 1000)
        agent.close()
    return sorted(taken)


def _processor(running: Replicas, server: Server) -> dict[str, float]:
    """The seconds of processor time so far, of the replicas, of the git that they ran, and of PostgreSQL; on Linux."""
    rows: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = place.read_text(encoding="utf-8").rpartition(")")[2].split()
            rows[int(place.parent.name)] = [int(fields[number]) for number in (1, 11, 12, 13, 14)]
    second = os.sysconf("SC_CLK_TCK")
    replicas = [rows[pid] for pid in running.pids if pid in rows]
    servers = [row for pid, row in rows.items() if server.pid in (pid, row[0])]
    return {
        "replica": sum(row[1] + row[2] for row in replicas) / second,
        "git": sum(row[3] + row[4] for row in replicas) / second,
        "PostgreSQL": sum(sum(row[1:]) for row in servers) / second,
    }


def _call_hook(address: str, name: str, secret: str) -> None:
    """As a git host does after a push; it does not mind if nobody answers."""
    signature = "sha256=" + hmac.new(secret.encode(), b"{}", hashlib.sha256).hexdigest()
    with suppress(httpx2.TransportError):
        address = address.replace("/mcp", f"/hooks/{name}")
        httpx2.post(address, content=b"{}", headers={"x-hub-signature-256": signature}, timeout=10)


def _told_in_logs(text: str, people: dict[str, dict[str, Any]]) -> list[str]:
    """Logs have neither tokens nor anything of a memory in them."""
    faults = [f"the token of {user} is in a log" for user, known in people.items() if known["token"] in text]
    return faults + [f"a log has {found}" for found in sorted(set(_WORD.findall(text)))]


def _has_seen_enough(asking: Agents, killed: Counter[str], kills: bool) -> bool:
    saves = sum(line["kind"] == "save" for line in asking.lines())
    return saves > 10 and (killed["replica"] > 0 or not kills)


def _settle(database: TeamDatabase, folder: Path, names: Sequence[str]) -> list[str]:
    """Whatever was accepted gets into git now that nothing stands in the way."""
    settings = Settings(root=folder / "last")
    keeper, projects = Keeper(database, settings=settings), Projects(database)
    until = time.monotonic() + SETTLE_SECONDS
    with database.transaction() as session:
        session.execute("DELETE FROM lease")
    while time.monotonic() < until:
        for name in names:
            projects.retry(name)
            keeper.round(name)
        if not projects.waiting():
            break
    left = [f"{name}: {numbers}" for name, numbers in projects.waiting().items()]
    keeper.close()
    return left


def _faults(
    database: TeamDatabase, folder: Path, name: str, remote: Remote, lines: Sequence[dict[str, Any]]
) -> list[str]:
    own = [line for line in lines if line.get("project") == name]
    gone = {line["word"] for line in own if line["kind"] == "deleting"}
    saved = {line["word"]: line for line in own if line["kind"] == "save" and line["word"] not in gone}
    personal = {line["word"]: line for line in own if line["kind"] == "personal"}
    deleted = {line["word"] for line in own if line["kind"] == "delete"}
    faults = []
    operations = remote.operations()
    faults += [f"{name}: {one} is in git twice" for one, count in Counter(operations).items() if count > 1]
    pattern = ("grep", "-h", "-o", "-E", r"p[0-9]+w[0-9a-f]{12}", "main", "--", "memory")
    texts = remote.git(*pattern, allowed=(0, 1)).split()  # 1: nothing was saved there
    in_git = {text.rsplit(":", 1)[-1] for text in texts}
    faults += [f"{name}: {word} was acknowledged and is not in git" for word in set(saved) - in_git]
    faults += [f"{name}: {word} was deleted and is in git" for word in deleted & in_git]
    faults += [f"{name}: {word} of another project is in git" for word in in_git if not word.startswith(f"{name}w")]
    faults += [f"{name}: {word} is personal and in git" for word in set(personal) & in_git]
    settings = Settings(root=folder / "last")
    with open_project(database, Projects(database).get(name), settings=settings) as workspace:
        stranger = workspace.for_caller(Caller(scope=Scope(user="stranger")))
        indexed: set[str] = set()
        for memory in workspace._runtime.whole.documents.find():
            results = [word for word in workspace._runtime.whole.documents.text(memory.id).split() if "w" in word]
            indexed |= {word for word in results if word.startswith(f"{name}w")}
            faults += [
                f"{name}: {word} of another project is indexed"
                for word in results
                if word[:1] == "p" and word[1:2].isdigit() and not word.startswith(name)
            ]
        faults += [
            f"{name}: {word} was acknowledged and is not found" for word in (set(saved) | set(personal)) - indexed
        ]
        for word in list(personal)[:20]:
            if any(word in result.text for result in stranger.search(word).results):
                faults.append(f"{name}: the personal note {word} is found by a stranger")
        if not workspace.ledger_verify().ok:
            faults.append(f"{name}: the ledger does not hold")
    for line in own:
        crossed = [text for text in line.get("seen", ()) for part in text.split() if _is_foreign(part, name)]
        faults += [f"{name}: a search showed {text[:60]}" for text in crossed]
    return faults


def _is_foreign(word: str, name: str) -> bool:
    head, mark, tail = word.partition("w")
    return bool(mark) and len(tail) == 12 and head[:1] == "p" and head[1:].isdigit() and head != name


def _span(lines: Sequence[dict[str, Any]]) -> float:
    """From the first acknowledgement to the last."""
    times = [line["at"] for line in lines if "ms" in line]
    return round(max(times) - min(times), 3) if len(times) > 1 else 1.0


def _percentiles(lines: Sequence[dict[str, Any]], kind: str) -> dict[str, float]:
    return _shares(sorted(line["ms"] for line in lines if line["kind"] == kind))


def _shares(times: Sequence[float]) -> dict[str, float]:
    if not times:
        return {}
    return {f"p{share}": times[min(len(times) - 1, len(times) * share // 100)] for share in (50, 95)}


def growth(seconds: float) -> list[str]:
    """A table as the docs have it; what was wrong is returned."""
    faults: list[str] = []
    print(
        "| projects | agents | calls per second | save p50, p95 | search p50, p95 | update p50, p95 | first search |"
        " processor per call: replica, git, PostgreSQL |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for projects, agents in ((1, 1), (10, 1), (100, 1), (1, 8), (1, 32)):
        report = soak(seconds=seconds, replicas=1, agents=agents, projects=projects, kills=False)
        faults += report["faults"]
        times = [report["milliseconds"][kind] for kind in ("save", "search", "update")] + [report["first search"]]
        cells = [f"{item['p50']:.0f}, {item['p95']:.0f} ms" if item else "-" for item in times]
        calls = sum(report["acknowledged"].values())
        used = [f"{seconds / calls * 1000:.0f}" for seconds in report["seconds of processor"].values()]
        cells.append(f"{', '.join(used)} ms")
        print(f"| {projects} | {agents} | {calls / report['seconds']:.0f} | {' | '.join(cells)} |", flush=True)
    return faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--agents", type=int, default=10, help="of each replica")
    parser.add_argument("--growth", action="store_true")
    arguments = parser.parse_args()
    if arguments.growth:
        faults = growth(arguments.minutes * 60 / 5)
        sys.exit("\n".join(faults) or 0)
    report = soak(seconds=arguments.minutes * 60, seed=arguments.seed, agents=arguments.agents)
    print(json.dumps(report, indent=2))
    sys.exit(bool(report["faults"]))


if __name__ == "__main__":
    main()
