"""A program for test_kills: saves in processes that die at once, and looks at what each of them left.

    python -m tests.kill_and_look FOLDER KILLS SEED

It forks, so that a kill costs milliseconds and not a start of Python. Its last line is a JSON object.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from spec_kit_memory import filesystem
from spec_kit_memory.features import index_workspace, save
from spec_kit_memory.files import pending
from spec_kit_memory.index.sql import recorder
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace

# Where the save path is cut: the steps of a pending save, the transaction, and what follows it.
POINTS = (
    "claimed",
    "recorded",
    "half",
    "written",
    "in the transaction",
    "indexed",
    "renamed",
    "done",
    "embedded",
    "metadata half",
    "metadata",
)
ROUNDS_PER_WORKSPACE = 25
END = "The last words of save"
Ack = tuple[int, str, str]  # id, path, marker


def open_at(root: Path) -> Workspace:
    return Workspace(Settings(root=root, semantic=Semantic(model="hashing"), watch="off"))


def context(marker: str) -> dict[str, Any]:
    return {
        "title": "Same title",  # so that names collide
        "sessionSummary": f"Save {marker}. " + f"Text about number {marker}. " * 30,
        "keyDecisions": [f"Decide {marker}"],
        "nextSteps": [f"{END} {marker}"],
    }


# --- the process that dies --------------------------------------------------------------------


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def cut_at(point: str, *, after: int) -> None:
    """Die when the point is reached for the nth time."""
    left = after

    def reached(name: str) -> None:
        nonlocal left
        if name == point:
            left -= 1
            if left <= 0:
                die()

    wrap(pending, "save", lambda save: lambda *a, **k: save(*a, **{**k, "step": reached}))
    wrap(recorder.Recorder, "entry", lambda entry: also(entry, lambda: reached("in the transaction")))
    wrap(index_workspace, "embed_memory", lambda embed: also(embed, lambda: reached("embedded")))
    wrap(save, "_metadata", lambda write: also(write, lambda: reached("metadata")))

    def half(write: Callable[..., Any]) -> Callable[..., Any]:
        def written(descriptor: int, data: bytes) -> None:
            if data.startswith(b"{\n"):
                write(descriptor, data[: len(data) // 2])
                reached("metadata half")
                data = data[len(data) // 2 :]
            write(descriptor, data)

        return written

    wrap(filesystem, "write_all", half)


def also(call: Callable[..., Any], then: Callable[[], None]) -> Callable[..., Any]:
    def both(*given: Any, **named: Any) -> Any:
        answer = call(*given, **named)
        then()
        return answer

    return both


def wrap(owner: Any, name: str, around: Callable[[Any], Any]) -> None:
    setattr(owner, name, around(getattr(owner, name)))


def save_until_killed(root: Path, round_: int, out: int, point: str | None, after: int) -> None:
    if point:
        cut_at(point, after=after)
    with open_at(root) as workspace:
        for number in range(10_000):
            marker = f"r{round_}n{number}"
            answer = workspace.save(context=context(marker))
            os.write(out, (json.dumps([answer.id, answer.path, marker]) + "\n").encode())


# --- the one that kills and looks -----------------------------------------------------------------


def kill_one(root: Path, round_: int, *, point: str | None, after: int, delay: float) -> list[Ack]:
    """What a process acknowledged before it was dead."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        try:
            save_until_killed(root, round_, write_end, point, after)
        finally:
            os._exit(1)  # it ended by itself: the kill did not come
    os.close(write_end)
    said = b""
    with os.fdopen(read_end, "rb", buffering=0) as pipe:
        if point is None:
            while said.count(b"\n") < after:
                piece = pipe.read(65536)
                if not piece:
                    break
                said += piece
            threading.Event().wait(delay)
            os.kill(child, signal.SIGKILL)
        while piece := pipe.read(65536):
            said += piece
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"round {round_} at {point} ended by itself: {status}"
    assert os.WTERMSIG(status) == signal.SIGKILL
    return [tuple(json.loads(line)) for line in said.split(b"\n")[:-1]]


def look(root: Path, acks: list[Ack]) -> int:
    """Open it again, as the next start does, and hold it against what was acknowledged."""
    with open_at(root) as workspace:
        health = workspace.health()
        assert not [problem for problem in health.problems if problem["check"] != "pending vectors"], health.problems
        assert not list((root / ".spec-kit-memory/pending").glob("*"))
        rows = {card.path: card.id for card in every_card(workspace)}
        on_disk = {path.relative_to(root).as_posix() for path in (root / "memory").glob("*.md")}
        assert on_disk == set(rows), on_disk ^ set(rows)
        for memory_id, path, marker in acks:
            assert rows.get(path) == memory_id, (path, marker)
            assert f"{END} {marker}" in workspace.load(memory_id).text
        assert workspace.index().indexed == 0, "nothing was left to do"
        whole_files(root)
        return len(rows)


def every_card(workspace: Workspace) -> Iterator[Any]:
    offset = 0
    while page := workspace.list(limit=100, offset=offset).memories:
        yield from page
        offset += len(page)


def whole_files(root: Path) -> None:
    left = [path.name for path in (root / "memory").iterdir() if not path.name.endswith(".md")]
    assert set(left) <= {"metadata.json"}, left
    assert not list((root / "memory").glob("*_pending.md"))
    for path in (root / "memory").glob("*.md"):
        assert path.read_text(encoding="utf-8").endswith("<!-- /ANCHOR:metadata -->\n"), path
    if "metadata.json" in left:
        json.loads((root / "memory/metadata.json").read_bytes())


def main(folder: Path, kills: int, seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    counted: Counter[str] = Counter()
    acknowledged = kept = 0
    acks: list[Ack] = []
    root = folder
    for round_ in range(kills):
        if round_ % ROUNDS_PER_WORKSPACE == 0:
            root, acks = folder / f"w{round_}", []
            (root / "memory").mkdir(parents=True)
            root = Path(os.path.realpath(root))
        # Every other kill at a chosen point, the rest at any moment.
        point = POINTS[round_ // 2 % len(POINTS)] if round_ % 2 == 0 else None
        after = rng.randrange(1, 4)
        new = kill_one(root, round_, point=point, after=after, delay=rng.random() * 0.03)
        counted[point or "any moment"] += 1
        acks += new
        acknowledged += len(new)
        kept = max(kept, look(root, acks))
    return {"kills": sum(counted.values()), "points": dict(counted), "acknowledged": acknowledged, "kept": kept}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))) + "\n")
