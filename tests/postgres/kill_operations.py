"""A program for test_operation_kills: cuts operations of many steps short, and looks at what the next start finds.

    python -m tests.postgres.kill_operations FOLDER KILLS RESTARTS SEED [OPERATION ...]

A step is a call that changes a file or a statement to the server. At one of them the process is killed, or the server
under it, which then comes back, or the network between them is cut (as often as the server is killed): for a moment,
or until the operation has ended. It forks, so that a kill costs no start of Python. Its last line is a JSON object.
"""

from __future__ import annotations

import hashlib
import json
import os
import pkgutil
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import psycopg

import spec_kit_memory
from spec_kit_memory import filesystem
from spec_kit_memory.core.memory import Filter
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.index.contract import Index
from spec_kit_memory.index.postgres import schema
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.settings.keys import IndexPlace
from spec_kit_memory.workspace import Workspace
from tests import postgres_server
from tests.postgres.proxy import Proxy
from tests.postgres_server import Server

NOTES = 8
DATABASE = "work"
State = dict[str, Any]
# What each begins with, and whether the index is on the server then.
OPERATIONS: dict[str, tuple[str, bool]] = {
    "rebuild": ("full", True),
    "copy to the server": ("file", False),
    "copy to a file": ("full", True),
    "checkpoint": ("full", True),
    "restore": ("full", True),
    "undo": ("restored", True),
    "delete": ("full", True),
    "undo of a delete": ("deleted", True),
    "migration": ("older", True),
}
# Of a database that a version without checkpoints on the server has made.
OLDER = (
    "DROP TABLE visit, token, state_file; DROP POLICY own_user ON memory; DROP POLICY own_user ON session;"
    " DELETE FROM version WHERE number > 3"
)


class Work:
    def __init__(self, folder: Path, server: Server) -> None:
        self.root, self.server, self.kept = folder / "work", server, folder / "kept"
        self.kept.mkdir()
        self.port: int | None = None  # of a proxy on the way

    @property
    def url(self) -> str:
        return self.server.url(DATABASE, port=self.port)

    def open(self, *, on_server: bool = True) -> Workspace:
        place = IndexPlace(url=self.url if on_server else "sqlite", project="p")
        return Workspace(Settings(root=self.root, index=place, semantic=Semantic(model="hashing"), watch="off"))

    def keep(self, name: str) -> None:
        shutil.copytree(self.root, self.kept / name)
        self.server.execute(f"CREATE DATABASE {name}_kept TEMPLATE {DATABASE}")

    def bring_back(self, name: str) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.kept / name, self.root)
        self.server.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
        self.server.execute(f"CREATE DATABASE {DATABASE} TEMPLATE {name}_kept")


# --- what is done, each in a process of its own ----------------------------------------------------


def in_a_process(server: Server, do: Callable[[], Any]) -> tuple[int, Any]:
    """How it ended, and its answer. A server that is killed meanwhile comes back."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        code = 1
        try:
            os.write(write_end, json.dumps(do()).encode())
            code = 0
        except BaseException:  # noqa: BLE001  told in the output of the process
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(write_end)
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if server.is_gone():
            server.start()
        if ended:
            break
        signal.sigtimedwait([signal.SIGCHLD], 0.02)
    with os.fdopen(read_end, "rb") as pipe:
        message = pipe.read()
    return status, json.loads(message) if message else None


def answered(server: Server, do: Callable[[], Any]) -> Any:
    status, answer = in_a_process(server, do)
    assert status == 0, f"it ended with {status}"
    return answer


def filled(work: Work, *, on_server: bool) -> None:
    """Notes, use, a link and a checkpoint, and changes since then of every kind."""
    for number in range(NOTES):
        path = work.root / f"specs/00{number % 3}-part/memory/n{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Note {number}\n\n## Why\n\nThe gate number {number} opens at nine.\n", encoding="utf-8")
    with work.open(on_server=on_server) as workspace:
        workspace.index()
        ids = sorted(card.id for card in workspace.list(limit=NOTES).memories)
        workspace.validate(ids[0], was_useful=True)
        workspace.link(ids[0], ids[1], "supports")
        workspace.checkpoint_create("one")
        workspace.save(
            spec_folder="001-part",
            context={"title": "Later", "sessionSummary": "Saved after the checkpoint was made."},
        )
        workspace.update(ids[2], title="Another title", importance_tier="important")
        workspace.delete(ids[3], delete_file=True)
        (work.root / "specs/001-part/memory/n4.md").write_text("# Note 4\n\nWritten anew by hand.\n", encoding="utf-8")
        workspace.index()


def done(work: Work, operation: str) -> None:
    with work.open(on_server=OPERATIONS[operation][1]) as workspace:
        match operation:
            case "rebuild":
                workspace.index(rebuild=True)
            case "copy to the server":
                workspace.index(copy_to=work.url)
            case "copy to a file":
                workspace.index(copy_to="sqlite")
            case "checkpoint":
                workspace.checkpoint_create("two")
            case "restore":
                workspace.checkpoint_restore("one", clear_existing=True, restore_files=True)
            case "delete":
                ids = [card.id for card in workspace.list(limit=NOTES, spec_folder="002-part").memories]
                workspace.delete(min(ids), delete_file=True)
            case "undo" | "undo of a delete":
                workspace.undo()
            case "migration":
                workspace.index()


def cut(work: Work, operation: str, step: int, *, victim: int | None = None) -> int:
    """Do it, and before this step kill the victim or this process; how many steps there were."""
    count, refusal = counted(work, operation, step, lambda: os.kill(victim or os.getpid(), signal.SIGKILL))
    assert step or not refusal, "it fails by itself"
    return count


def cut_off(work: Work, operation: str, step: int, *, comes_back: bool) -> tuple[int, str | None]:
    """Do it, and before this step cut the network; how many steps there were, and how it was refused if it was."""
    proxy = Proxy(work.server.port)
    work.port = proxy.port

    def broken() -> None:
        proxy.cut()
        if comes_back:
            proxy.restore()

    try:
        return counted(work, operation, step, broken)
    finally:
        proxy.close()


def counted(work: Work, operation: str, step: int, happens: Callable[[], object]) -> tuple[int, str | None]:
    count, refusal = 0, None

    def reached() -> None:
        nonlocal count
        count += 1
        if count == step:
            happens()

    class Counting(filesystem.System):
        def before(self, call: str, path: str) -> None:
            reached()

    plain = psycopg.Cursor.execute

    def execute(self: Any, *given: Any, **named: Any) -> Any:
        reached()
        return plain(self, *given, **named)

    psycopg.Cursor.execute = execute  # type: ignore[method-assign]
    with filesystem.using(Counting()):
        try:
            done(work, operation)
        except SpecKitMemoryError as error:
            refusal = f"{error.code} {error.message}"
    return count, refusal


# --- what is there afterwards --------------------------------------------------------------------


def state(work: Work, *, on_server: bool) -> State:
    """As the next ordinary start finds it: healthy, and with nothing left to do."""
    with work.open(on_server=on_server) as workspace:
        workspace.index()
        health = workspace.health(full=True)
        assert not health.problems, health.problems
        assert workspace.ledger_verify().ok
        again = workspace.index()
        assert (again.indexed, again.deleted) == (0, 0), "nothing was left to do"
        store = workspace._runtime.store
        files = {
            path.relative_to(work.root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(work.root.rglob("*.md"))
            if ".spec-kit-memory" not in path.parts
        }
        left = [path.name for path in work.root.rglob("*") if path.name.endswith(filesystem.TEMPORARY)]
        assert not left, left
        return {
            "files": files,
            "memories": [
                [one.id, one.path, one.title, one.tier, one.validation_count, str(one.presence)]
                for one in sorted(store.documents.find(Filter()), key=lambda one: one.id)
            ],
            "found": sorted(card.path for card in workspace.search("gate opens nine", limit=50).results),
            "trash": sorted(Path(name).name for name in _in_trash(work, store)),
            "links": sorted([one.source_id, one.target_id, str(one.relation)] for one in store.record.links()),
            "checkpoints": sorted(
                one.name for one in workspace.checkpoint_list(limit=50).checkpoints if one.name in ("one", "two")
            ),
        }


def _in_trash(work: Work, store: Index) -> set[str]:
    """Files and rows. What is a row may be a file, too: of a copy that was killed."""
    folder = work.root / ".spec-kit-memory"
    files = {
        path.relative_to(folder).as_posix() for path in folder.glob("trash/[!r]*/**/*.md")
    }  # not what it recovered
    return files | set(store.state_files.sizes("trash") if store.state_files else ())


def looked(work: Work, operation: str) -> State:
    """At both ends of a copy: what was copied from is as it was, and the target has all of it or nothing."""
    _, on_server = OPERATIONS[operation]
    result = state(work, on_server=on_server)
    if operation.startswith("copy"):
        result["copied"] = _at_target(work, on_server=not on_server)
    return result


def _at_target(work: Work, *, on_server: bool) -> Any:
    if on_server:
        try:
            with psycopg.connect(work.url) as connection:
                count = connection.execute(f"SELECT count(*) FROM {schema.NAME}.memory".encode()).fetchone()
            empty = count == (0,)
        except psycopg.errors.UndefinedTable:
            empty = True
    else:
        empty = not (work.root / ".spec-kit-memory/index.sqlite").exists() or _is_empty_file(work)
    if empty:
        return None
    return state(work, on_server=on_server)


def _is_empty_file(work: Work) -> bool:
    from spec_kit_memory.index import open_index

    opened = open_index(work.root / ".spec-kit-memory/index.sqlite")
    try:
        return opened.documents.count() == 0
    finally:
        opened.close()


def prepare(work: Work) -> None:
    server = work.server
    server.execute(f"CREATE DATABASE {DATABASE}")
    answered(server, lambda: filled(work, on_server=False))
    work.keep("file")
    shutil.rmtree(work.root)
    answered(server, lambda: filled(work, on_server=True))
    work.keep("full")
    answered(server, lambda: done(work, "restore"))
    work.keep("restored")
    work.bring_back("full")
    answered(server, lambda: done(work, "delete"))
    work.keep("deleted")
    work.bring_back("full")
    with psycopg.connect(work.url) as connection:
        connection.execute(f"SET search_path = {schema.NAME}, public".encode())
        connection.execute(OLDER.encode())
    work.keep("older")


def tried(work: Work, operation: str, kills: int, restarts: int, rng: random.Random) -> dict[str, Any]:
    begins = OPERATIONS[operation][0]
    server = work.server
    work.bring_back(begins)
    before = answered(server, lambda: looked(work, operation)) if operation != "migration" else None
    work.bring_back(begins)
    steps = answered(server, lambda: cut(work, operation, 0))
    after = answered(server, lambda: looked(work, operation))
    assert before is None or operation == "rebuild" or before != after, "it does something"
    late = [steps, steps - 1, steps - 2][: kills // 2]
    points = [("process", step) for step in (*late, *rng.choices(range(1, steps + 1), k=kills - len(late)))]
    points += [("server", step) for step in rng.choices(range(1, steps + 1), k=restarts)]
    whole = 0
    for who, step in points:
        name = f"{operation}: the {who} at step {step} of {steps}"
        while not _cut_there(work, operation, who, step):
            assert step > 1, f"{operation}: the {who} was not killed"
            step = step * 9 // 10  # it took fewer this time: what it remembers for a moment depends on the clock
        sys.stderr.write(f"{name}\n")
        result = answered(server, lambda: looked(work, operation))
        if result == after:
            whole += 1
            if operation in ("rebuild", "migration"):
                answered(server, lambda: done(work, operation))
        else:
            assert result == before, f"{name}: {different(result, before)} and {different(result, after)}"
            answered(server, lambda: done(work, operation))
        assert answered(server, lambda: looked(work, operation)) == after, f"{name}: once more"
    for number, step in enumerate((steps - 1, *rng.choices(range(1, steps + 1), k=restarts))[:restarts]):
        _try_without_network(work, operation, step, before, after, comes_back=number % 2 == 1)
    return {"steps": steps, "kills": len(points), "cuts": restarts, "done": whole}


def _try_without_network(
    work: Work, operation: str, step: int, before: State | None, after: State, *, comes_back: bool
) -> None:
    """What it answers is true: done, or refused and nothing was changed, neither index nor files."""
    name = f"{operation}: the network at step {step}, {'for a moment' if comes_back else 'until it has ended'}"
    sys.stderr.write(f"{name}\n")
    work.bring_back(OPERATIONS[operation][0])
    files = _state_names(work)
    _, refusal = answered(work.server, lambda: cut_off(work, operation, step, comes_back=comes_back))
    if refusal and OPERATIONS[operation][1] and "copy" in operation:
        assert _state_names(work) <= files, f"{name}: {refusal}, but there are new files"
    result = answered(work.server, lambda: looked(work, operation))
    if refusal is None:
        assert result == after, f"{name}: {different(result, after)}"
    elif before is not None and "not known" not in refusal:
        assert result == before, f"{name}: {refusal}, but {different(result, before)}"


def _state_names(work: Work) -> set[str]:
    """The files of checkpoints and the trash."""
    folder = work.root / ".spec-kit-memory"
    paths = (*folder.glob("checkpoints/*.gz"), *folder.glob("trash/**/*.md"))
    return {path.relative_to(folder).as_posix() for path in paths}


def _cut_there(work: Work, operation: str, who: str, step: int) -> bool:
    """From its beginning; false if it ended before that step."""
    work.bring_back(OPERATIONS[operation][0])
    victim = work.server.pid if who == "server" else None
    status, count = in_a_process(work.server, partial(cut, work, operation, step, victim=victim))
    if status == 0 and victim is not None and count >= step:
        work.server.come_back(victim)  # nothing was asked of it after the signal, which may still be on its way
    if status == 0:
        return victim is not None and count >= step
    assert victim is None, f"{operation} ended with {status} when the server went"
    assert os.WIFSIGNALED(status), f"{operation} failed by itself at step {step}"
    return True


def different(found: State, other: State | None) -> str:
    return str({key: (found[key], (other or {}).get(key)) for key in found if found[key] != (other or {}).get(key)})


def main(folder: Path, kills: int, restarts: int, seed: int, names: list[str]) -> dict[str, Any]:
    rng = random.Random(seed)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    for part in ("core", "embed", "features", "files", "index.postgres", "index.sqlite", "index.sql"):
        for module in pkgutil.iter_modules(import_module(f"{spec_kit_memory.__name__}.{part}").__path__):
            if not module.ispkg:  # once here, and not in every process
                import_module(f"{spec_kit_memory.__name__}.{part}.{module.name}")
    server = postgres_server.started()
    try:
        work = Work(folder, server)
        prepare(work)
        return {name: tried(work, name, kills, restarts, rng) for name in names or OPERATIONS}
    finally:
        postgres_server.ended(server)


if __name__ == "__main__":
    told = main(Path(os.path.realpath(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])
    sys.stdout.write(json.dumps(told) + "\n")
