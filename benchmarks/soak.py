"""Does anything acknowledged get lost when many processes share a workspace and are killed at random?

Four MCP servers, two command-line writers, a watcher and an editor work on one workspace; a tormentor
kills processes with SIGKILL. A journal outside the workspace keeps what was acknowledged, and
`benchmarks.soak_check` compares it with what is there afterwards. Every call is noted with its times, and
`benchmarks.soak_history` asks whether all answers and the ledger fit one order that agrees with the clock.

    python -m benchmarks.soak --minutes 10 --seed 7

With `--engine postgresql` the index is on a server, which is killed and restarted as well (`benchmarks.soak_server`).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import apsw

from benchmarks import soak_check, soak_history, soak_server
from benchmarks.soak_check import Journal, Kept
from benchmarks.soak_history import ABSENT, DONE, REFUSED, UNKNOWN, History, Mark, Read, Write
from spec_kit_memory.index import open_index
from spec_kit_memory.settings import Settings
from tests import postgres_server
from tests.postgres_server import Server as PostgresServer

SERVERS, WRITERS = 4, 2
FOLDERS = ("001-core", "002-login", "003-storage", "004-search/001-ranking")
ANSWER_SECONDS = 120.0  # longer than the index may be busy: no answer by then is a hang
PROBE_SECONDS = 0.1
PROJECT = "soak"
SERVER_KILLS_PER_MINUTE = 6.0
NOT_THERE = "E080"
EXPECTED_ERRORS = frozenset(("E025", "E429"))  # busy, and scanning too often: said with a hint, nothing written
WORDS = tuple(
    word
    for line in (
        "token refresh session cache index vector ledger anchor passage budget folder watcher scan restore",
        "lock queue signal buffer parser header socket cursor branch merge decay tier trigger phrase link state",
    )
    for word in line.split()
)


class KilledError(Exception):
    """The process was killed before it answered: nobody knows whether it had written."""


class RefusedError(Exception):
    """The answer said no."""


@dataclass
class Soak:
    """What all actors share."""

    root: Path
    seed: int
    model: str
    deadline: float
    most: int  # operations of one actor
    kills_per_minute: float = 20.0
    server: PostgresServer | None = None  # that has the index, else it is a file
    server_kills_per_minute: float = SERVER_KILLS_PER_MINUTE
    journal: Journal = field(default_factory=Journal)
    history: History = field(default_factory=History)
    stop: threading.Event = field(default_factory=threading.Event)
    counts: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    victims: dict[int, tuple[str, subprocess.Popen[Any]]] = field(default_factory=dict)
    guard: threading.Lock = field(default_factory=threading.Lock)

    @property
    def over(self) -> bool:
        return self.stop.is_set() or time.monotonic() >= self.deadline

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SPEC_KIT_MEMORY_")}
        if self.server:
            kept |= {"SPEC_KIT_MEMORY_INDEX_URL": self.server.url(), "SPEC_KIT_MEMORY_INDEX_PROJECT": PROJECT}
        return kept | {
            "SPEC_KIT_MEMORY_WORKSPACE": str(self.root),
            "SPEC_KIT_MEMORY_USER_CONFIG": str(self.root.parent / "no-such-file"),
            "SPEC_KIT_MEMORY_SEMANTIC_MODEL": self.model,
        }

    @contextlib.contextmanager
    def mortal(self, kind: str, arguments: Sequence[str], **how: Any) -> Iterator[subprocess.Popen[Any]]:
        """A process of the product that the tormentor may kill."""
        command = [sys.executable, "-m", "spec_kit_memory", *arguments]
        process = subprocess.Popen(command, env=self.environment(), cwd=self.root, **how)
        with self.guard:
            self.victims[process.pid] = (kind, process)
        try:
            yield process
        finally:
            with self.guard:
                self.victims.pop(process.pid, None)
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    with contextlib.suppress(OSError):
                        stream.close()

    def timed(self, what: str, seconds: float) -> None:
        with self.guard:
            self.seconds.setdefault(what, []).append(seconds)

    def fault(self, message: str) -> None:
        with self.guard:
            self.faults.append(message[:600])

    def failed(self, what: str, error: Mapping[str, Any]) -> None:
        """An answer that says no. Which ones may come here is known."""
        code = str(error.get("code"))
        self.errors[code] += 1
        if code not in EXPECTED_ERRORS:
            self.fault(f"{what}: {code} {error.get('message')}")


# --- speaking to the product ------------------------------------------------------------


class Server:
    """One MCP server over stdio, spoken to with plain JSON-RPC; born again after each death."""

    def __init__(self, soak: Soak) -> None:
        self._soak = soak
        self._life = contextlib.ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._next = 0

    def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if self._process is None:
            self._start()
        return self._request("tools/call", {"name": tool, "arguments": dict(arguments)})

    def _start(self) -> None:
        # What it says about itself goes to the terminal's error stream: a traceback there must be seen.
        log = self._life.enter_context((self._soak.root.parent / f"server-{threading.get_ident()}.log").open("ab"))
        how = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
        self._process = self._life.enter_context(self._soak.mortal("server", ["serve"], **how))
        self._soak.counts["server starts"] += 1
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}}
        self._request("initialize", about)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            self.end()
            raise KilledError from None

    def _request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self._next += 1
        self._send({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        hang = threading.Timer(ANSWER_SECONDS, self._hung, args=(method, params))
        hang.start()
        try:
            return self._answer(self._next)
        finally:
            hang.cancel()

    def _answer(self, number: int) -> dict[str, Any]:
        assert self._process
        stream: IO[bytes] | None = self._process.stdout
        assert stream
        while True:
            line = stream.readline()
            if not line.endswith(b"\n"):
                self.end()
                raise KilledError
            try:
                data = json.loads(line)
            except ValueError:
                self._soak.fault(f"a server printed what is not the protocol: {line[:200]!r}")
                continue
            if data.get("id") == number:
                if "error" in data:
                    self._soak.fault(f"protocol error: {data['error']}")
                result: dict[str, Any] = data.get("result", {})
                return result

    def _hung(self, method: str, params: Mapping[str, Any]) -> None:
        self._soak.fault(f"no answer within {ANSWER_SECONDS:g} s: {method} {str(params)[:200]}")
        if self._process:
            self._process.kill()

    def end(self) -> None:
        self._process = None
        self._life.close()


def command(soak: Soak, *arguments: str) -> dict[str, Any]:
    """One run of `skm`, as {isError, structuredContent}; killed means nobody knows."""
    how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with soak.mortal("command", [*arguments, "--json"], **how) as process:
        try:
            out, problems = process.communicate(timeout=ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            soak.fault(f"a command did not end within {ANSWER_SECONDS:g} s: {arguments}")
            raise KilledError from None
    if process.returncode < 0:
        raise KilledError
    if b"Traceback" in problems:
        soak.fault(f"a command died by itself: {problems.decode(errors='replace')[-500:]}")
    try:
        data = json.loads(out)
    except ValueError:
        soak.fault(f"a command did not print JSON: {arguments[0]}: {out[:200]!r} {problems[-300:]!r}")
        return {"isError": True, "structuredContent": {"code": "E025"}}
    return {"isError": process.returncode != 0, "structuredContent": data.get("error", data)}


# --- those who write ---------------------------------------------------------------------


class Writer:
    """Saves and changes memories of its own, and reads those of everybody."""

    def __init__(self, soak: Soak, name: str, call: Callable[[str, dict[str, Any]], dict[str, Any]]) -> None:
        self._soak = soak
        self._name = name
        self._call = call
        self._chance = random.Random(f"{soak.seed} {name}")
        self._number = 0
        self._linked: set[Mark] = set()

    def run(self) -> None:
        while not self._soak.over and self._number < self._soak.most:
            self._number += 1
            mine = self._soak.journal.of(self._name)
            doing = self._chance.choices(
                (self._save, self._search, self._load, self._validate, self._update, self._delete, self._link),
                weights=(30, 20, 20, 10, 12, 6, 7),
            )[0]
            if len(mine) < 2 and doing != self._search:
                doing = self._save
            try:
                doing()
            except KilledError:
                self._soak.counts["calls cut off by a kill"] += 1

    def _asked(self, tool: str, arguments: dict[str, Any], *, expected: str = "") -> dict[str, Any] | None:
        started = time.perf_counter()
        answer = self._call(tool, arguments)
        self._soak.timed(tool, time.perf_counter() - started)
        content: dict[str, Any] = answer.get("structuredContent") or {}
        if answer.get("isError", True):
            if not expected or content.get("code") != expected:
                if self._soak.server and soak_server.is_unknown(content):
                    self._soak.errors[str(content.get("code"))] += 1
                    raise KilledError
                self._soak.failed(f"{self._name} {tool} {str(arguments)[:120]}", content)
                raise RefusedError(str(content.get("code")))
            return None
        data: dict[str, Any] = content["data"]
        return data

    def _changed(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        memory: str,
        mark: Callable[[dict[str, Any] | None], Mark | None],
        title: str | None = None,
    ) -> dict[str, Any] | None:
        """A write, noted with its times and what became of it; None: it was refused."""
        began, outcome, answer = time.monotonic(), UNKNOWN, None
        try:
            answer = self._asked(tool, arguments)
            outcome = DONE
            self._soak.counts["writes"] += 1
        except RefusedError:
            outcome = REFUSED
        finally:
            ended = time.monotonic()
            self._soak.history.add(Write(self._name, memory, began, ended, outcome, mark(answer), title))
        return answer

    def _noted_read(self, kept: Kept, began: float, title: str) -> None:
        self._soak.history.add(Read(self._name, kept.sign, began, time.monotonic(), title))

    def _one(self) -> Kept | None:
        alive = [kept for kept in self._soak.journal.of(self._name) if kept.present == {True}]
        return self._chance.choice(alive) if alive else None

    def _anybodys(self) -> Kept | None:
        """Whose memory a read is about: one of the newest half of the time, which others are still changing."""
        everything = self._soak.journal.kept
        newest = everything[-20:] if self._chance.random() < 0.5 else everything[:]
        return self._chance.choice(newest) if newest else None

    def _save(self) -> None:
        sign = f"{self._name}x{self._number}"
        words = " ".join(self._chance.choices(WORDS, k=self._chance.randrange(20, 120)))
        summary = f"Decided {sign} about {words}."
        folder = self._chance.choice(FOLDERS)
        steps = [f"next {sign} {word}" for word in self._chance.choices(WORDS, k=3)]
        title = f"Title {sign}"
        context = {"title": title, "sessionSummary": summary, "nextSteps": steps}
        asked = {"context": context, "specFolder": folder}
        done = self._changed("memory_save", asked, memory=sign, mark=lambda _: ("create", title), title=title)
        if done:
            self._soak.journal.saved(self._name, done, sign=sign, text=summary, title=title)

    def _search(self) -> None:
        kept = self._anybodys()
        query = kept.sign if kept else self._chance.choice(WORDS)
        began = time.monotonic()
        with contextlib.suppress(RefusedError):
            results = self._asked("memory_search", {"query": query, "limit": 5})
            self._soak.counts["searches"] += 1
            if kept and results is not None:
                titles = [str(row["title"]) for row in results.get("results", []) if row.get("id") == kept.id]
                self._noted_read(kept, began, titles[0] if titles else ABSENT)

    def _load(self) -> None:
        kept = self._anybodys()
        if kept is None:
            return
        began = time.monotonic()
        with contextlib.suppress(RefusedError):
            results = self._asked("memory_load", {"memoryId": kept.id}, expected=NOT_THERE)
            self._soak.counts["loads"] += 1
            self._noted_read(kept, began, str(results["memory"]["title"]) if results else ABSENT)

    def _validate(self) -> None:
        kept = self._one()
        if kept is None:
            return

        def mark(answer: dict[str, Any] | None) -> Mark | None:
            return ("validate", kept.id, int(answer["validationCount"])) if answer else None

        kept.validations_unknown += 1
        done = self._changed("memory_validate", {"id": kept.id, "wasUseful": True}, memory=kept.sign, mark=mark)
        kept.validations_unknown -= 1
        if done:
            kept.validations += 1

    def _update(self) -> None:
        kept = self._one()
        if kept is None:
            return
        title = f"Changed {kept.sign} {self._number}"
        kept.titles = kept.titles | {title}
        asked = {"id": kept.id, "title": title}
        if self._changed("memory_update", asked, memory=kept.sign, mark=lambda _: ("update", title), title=title):
            kept.titles = {title}

    def _delete(self) -> None:
        kept = self._one()
        if kept is None:
            return
        delete_file = self._chance.random() < 0.5
        kept.present, kept.file_gone = {True, False}, {False, delete_file}
        asked = {"id": kept.id, "deleteFile": delete_file}
        mark: Mark = ("delete", kept.id)
        if self._changed("memory_delete", asked, memory=kept.sign, mark=lambda _: mark, title=ABSENT):
            kept.present, kept.file_gone = {False}, {delete_file}

    def _link(self) -> None:
        source, target = self._one(), self._one()
        if source is None or target is None or source.id == target.id:
            return
        asked = {"sourceId": source.id, "targetId": target.id, "relation": "supports"}
        mark: Mark = ("link", source.id, target.id)
        if mark in self._linked:  # saying it again is another entry of the same mark
            return
        self._linked.add(mark)
        if self._changed("memory_causal_link", asked, memory=source.sign, mark=lambda _: mark):
            self._soak.journal.links.append((source.id, target.id))


def server_writer(soak: Soak, name: str) -> None:
    server = Server(soak)
    try:
        Writer(soak, name, server.call).run()
    finally:
        server.end()


def command_writer(soak: Soak, name: str) -> None:
    def call(tool: str, asked: dict[str, Any]) -> dict[str, Any]:
        match tool:
            case "memory_save":
                data = soak.root.parent / f"{name}.json"
                data.write_text(json.dumps(asked["context"]))
                return command(soak, "save", str(data), asked["specFolder"])
            case "memory_search":
                return command(soak, "search", asked["query"], "--limit", str(asked["limit"]))
            case "memory_load":
                return command(soak, "load", str(asked["memoryId"]))
            case "memory_validate":
                return command(soak, "validate", str(asked["id"]), "--was-useful")
            case "memory_update":
                return command(soak, "update", str(asked["id"]), "--title", asked["title"])
            case "memory_delete":
                return command(soak, "delete", str(asked["id"]), *(["--delete-file"] if asked["deleteFile"] else []))
        return command(soak, "link", str(asked["sourceId"]), str(asked["targetId"]), asked["relation"])

    Writer(soak, name, call).run()


def watcher(soak: Soak, name: str) -> None:
    """`skm watch`, started again whenever it was killed."""
    while not soak.over:
        log = (soak.root.parent / f"{name}.log").open("ab")
        with log, soak.mortal("watcher", ["watch"], stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process:
            while not soak.over and process.poll() is None:
                soak.stop.wait(0.2)


def editor(soak: Soak, name: str) -> None:
    """A person with an editor: files appear, change, move and go, in one step or in several."""
    chance = random.Random(f"{soak.seed} {name}")
    texts = soak.journal.files
    for number in range(soak.most):
        if soak.over:
            return
        names = sorted(texts)
        doing = chance.choices(("new", "change", "move", "delete"), weights=(4, 4, 2, 1))[0] if names else "new"
        folder = soak.root / "specs" / chance.choice(FOLDERS) / "memory"
        folder.mkdir(parents=True, exist_ok=True)
        if doing in ("new", "change"):
            path = folder / f"note-{number}.md" if doing == "new" else soak.root / chance.choice(names)
            sign = f"{name}x{number}"
            text = f"# Note {sign}\n\n" + " ".join(chance.choices(WORDS, k=60)) + f"\n\nIt is about {sign}.\n"
            _edit(path, text, replace=chance.random() < 0.5)
            texts[path.relative_to(soak.root).as_posix()] = text
        elif doing == "move":
            old, new = chance.choice(names), folder / f"moved-{number}.md"
            (soak.root / old).rename(new)
            texts[new.relative_to(soak.root).as_posix()] = texts.pop(old)
        else:
            old = chance.choice(names)
            (soak.root / old).unlink()
            del texts[old]
        soak.counts["edits"] += 1
        soak.stop.wait(chance.random() * 0.6)


def _edit(path: Path, text: str, *, replace: bool) -> None:
    if replace:
        beside = path.with_name(f".{path.name}.swp")
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    else:
        path.write_text(text, encoding="utf-8")


def tormentor(soak: Soak, name: str) -> None:
    chance = random.Random(f"{soak.seed} {name}")
    mean = 60.0 / soak.kills_per_minute
    while not soak.over:
        soak.stop.wait(min(chance.expovariate(1 / mean), 4 * mean))
        with soak.guard:
            alive = sorted((kind, pid) for pid, (kind, process) in soak.victims.items() if process.poll() is None)
            if alive and not soak.over:
                kind, pid = chance.choice(alive)
                os.kill(pid, signal.SIGKILL)
                soak.counts[f"kills: {kind}"] += 1


def probe(soak: Soak, name: str) -> None:
    """How long does a writer wait for the lock? Asked by one that writes nothing."""
    path = soak.root / ".spec-kit-memory" / "index.sqlite"
    while not soak.over and not path.exists():
        soak.stop.wait(0.2)
    while not soak.over:
        with contextlib.closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            connection.set_busy_timeout(60_000)
            while not soak.over:
                started = time.perf_counter()
                try:
                    connection.execute("BEGIN IMMEDIATE")
                except apsw.BusyError:
                    soak.fault("the write lock was held for more than 60 s")
                    break
                soak.timed("lock wait", time.perf_counter() - started)
                connection.execute("ROLLBACK")
                soak.stop.wait(PROBE_SECONDS)


# --- the whole ---------------------------------------------------------------------------


def run(soak: Soak) -> dict[str, Any]:
    for folder in FOLDERS:
        (soak.root / "specs" / folder / "memory").mkdir(parents=True, exist_ok=True)
    actors = [(server_writer, f"server{number}") for number in range(SERVERS)]
    actors += [(command_writer, f"command{number}") for number in range(WRITERS)]
    actors += [(watcher, "watch"), (editor, "editor"), (tormentor, "tormentor")]
    actors.append((server_tormentor, "server tormentor") if soak.server else (probe, "probe"))
    threads = [threading.Thread(target=_guarded, args=(soak, actor, name), name=name) for actor, name in actors]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    workers = [thread for thread in threads if re.match(r"(server|command)\d", thread.name)]
    for thread in workers:
        thread.join()
    soak.stop.set()
    for thread in threads:
        thread.join()
    ran = time.monotonic() - started
    _tracebacks(soak)
    # Whatever is left of a killed process is left for the next start, which is an ordinary one.
    first = command(soak, "index")
    if first["isError"]:
        soak.fault(f"the first start afterwards failed: {first['structuredContent']}")
    health = command(soak, "health")["structuredContent"]
    if soak.server:
        checkout = Settings(root=soak.root.resolve()).index_checkout  # the files of this folder
        with contextlib.closing(open_index(soak.server.url(), project=PROJECT, checkout=checkout)) as store:
            soak.faults += soak_server.check(soak.root, soak.journal, health, store)
            soak.faults += soak_history.check(soak.history, soak_server.ledger_marks(store))
    else:
        soak.faults += soak_check.check(soak.root, soak.journal, health)
        with contextlib.closing(soak_check.read_only(soak.root)) as connection:
            soak.faults += soak_history.check(soak.history, soak_history.ledger_marks(connection))
    return _report(soak, ran)


def server_tormentor(soak: Soak, name: str) -> None:
    assert soak.server is not None
    soak_server.torment(soak, soak.server, kills_per_minute=soak.server_kills_per_minute)


def _guarded(soak: Soak, actor: Callable[[Soak, str], None], name: str) -> None:
    try:
        actor(soak, name)
    except BaseException as error:
        soak.fault(f"{name} stopped: {type(error).__name__} {error}")
        soak.stop.set()
        raise


def _tracebacks(soak: Soak) -> None:
    for log in sorted(soak.root.parent.glob("*.log")):
        text = log.read_text(errors="replace")
        if "Traceback" in text:
            soak.fault(f"{log.name} has a traceback: {text[text.index('Traceback') :][:1500]}")


def _report(soak: Soak, ran: float) -> dict[str, Any]:
    kills = {key.removeprefix("kills: "): count for key, count in soak.counts.items() if key.startswith("kills")}
    return {
        "seed": soak.seed,
        "model": soak.model,
        "seconds": round(ran, 1),
        "kills": {"all": sum(kills.values()), **dict(sorted(kills.items()))},
        "writes acknowledged": soak.counts["writes"],
        "edits of files": soak.counts["edits"],
        "searches": soak.counts["searches"],
        "loads": soak.counts["loads"],
        "history": soak.history.summary(),
        "calls cut off by a kill": soak.counts["calls cut off by a kill"],
        "server starts": soak.counts["server starts"],
        "errors by code": dict(soak.errors),
        "milliseconds": {name: _spread(found) for name, found in sorted(soak.seconds.items())},
        "memories": soak.journal.summary(),
        "faults": soak.faults,
    }


def _spread(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    at = {"p50": 0.5, "p95": 0.95}
    found = {name: round(1000 * ordered[int(share * (len(ordered) - 1))], 1) for name, share in at.items()}
    return {"count": len(ordered), **found, "max": round(1000 * ordered[-1], 1)}


def soak(
    *,
    seconds: float,
    seed: int = 7,
    model: str = "hashing",
    most: int = 1_000_000,
    kills_per_minute: float = 20.0,
    engine: str = "sqlite",
    server_kills_per_minute: float = SERVER_KILLS_PER_MINUTE,
) -> dict[str, Any]:
    """Run it in a folder of its own, which is kept only if something was wrong."""
    place = Path(os.path.realpath(tempfile.mkdtemp(prefix="skm-soak-")))
    (place / "work").mkdir()
    server = postgres_server.started() if engine == "postgresql" else None
    try:
        made = Soak(place / "work", seed, model, time.monotonic() + seconds, most, kills_per_minute, server)
        made.server_kills_per_minute = server_kills_per_minute
        report = run(made)
    finally:
        if server:
            postgres_server.ended(server)
    if report["faults"]:
        report["kept"] = str(place)
    else:
        shutil.rmtree(place)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long; at most 600")
    parser.add_argument("--seed", type=int, default=7, help="the same seed makes the same decisions")
    parser.add_argument("--model", default="hashing", help="hashing (fast) or local (the bundled model)")
    parser.add_argument("--most", type=int, default=1_000_000, help="operations of one actor at most")
    parser.add_argument("--kills-per-minute", type=float, default=20.0)
    parser.add_argument("--engine", choices=("sqlite", "postgresql"), default="sqlite", help="where the index is")
    arguments = parser.parse_args()
    report = soak(
        seconds=min(arguments.minutes, 600.0) * 60,
        seed=arguments.seed,
        model=arguments.model,
        most=arguments.most,
        kills_per_minute=arguments.kills_per_minute,
        engine=arguments.engine,
    )
    print(json.dumps(report, indent=2))
    sys.exit(1 if report["faults"] else 0)


if __name__ == "__main__":
    main()
