"""Is anything lost when a process is killed, or when several write at once? With real processes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from spec_kit_memory.core import ledger
from spec_kit_memory.core.memory import Filter
from spec_kit_memory.index import open_index
from tests.index.material import NOON

ROOT = Path(__file__).parents[2]

WRITER = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from spec_kit_memory.core.memory import Link, Relation
    from spec_kit_memory.index import open_index
    from tests.index.material import BY_USER, embed_all, entry

    path, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    store = open_index(path)
    store.vectors.use_model("test-model", 3, "weights")
    print("ready", flush=True)
    for number in range(count):
        text = f"words {name} {number}\\nmore of {name}{number}\\n" + "filling " * (number % 40)
        result = store.documents.put(entry(f"memory/{name}/{number}.md", text, triggers=[f"{name} {number}"]), BY_USER)
        if number % 3 == 0:
            embed_all(store)
        if number % 4 == 1:
            store.documents.put(entry(f"memory/{name}/{number}.md", text + " changed"), BY_USER)
        if number % 5 == 2 and result.memory_id != 1:
            store.record.put_link(Link(0, result.memory_id, 1, Relation.CAUSED), BY_USER)
        print(f"memory/{name}/{number}.md", flush=True)
    store.close()
    """
)


def writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), name, str(count)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )


def acknowledged(process: subprocess.Popen[str], limit: int | None = None) -> list[str]:
    """What the process said was written, up to that many lines."""
    assert process.stdout is not None
    lines: list[str] = []
    while limit is None or len(lines) < limit:
        line = process.stdout.readline()
        if not line:
            break
        if line != "ready\n":
            lines.append(line.strip())
    return lines


def sound(path: Path, written: list[str]) -> None:
    """Opens without help, holds everything that was acknowledged, and all its parts agree."""
    store = open_index(path)
    paths = {memory.path for memory in store.documents.find()}
    assert set(written) <= paths
    assert all(found == [] for found in store.care.check(now=NOON).values())
    assert ledger.verify(store.record.ledger()) is None
    for lost in written[-3:]:
        name, number = lost.split("/")[1], Path(lost).stem
        hits = store.documents.match([f"{name}{number}"], Filter(), 5)
        assert any(store.documents.get(hit.memory_id).path == lost for hit in hits)
    store.close()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_killed_at_any_moment_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    chance = random.Random(7)
    written: list[str] = []
    for round_ in range(6):
        process = writer(path, f"r{round_}", 100_000)
        try:
            written += acknowledged(process, chance.randrange(1, 12))
        finally:
            os.kill(process.pid, signal.SIGKILL)
        written += acknowledged(process)  # what it still said before it died
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
        sound(path, written)


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    processes = [writer(path, name, 12) for name in ("a", "b", "c")]
    written: list[str] = []
    for process in processes:
        written += acknowledged(process)
        assert process.wait() == 0
        assert process.stdout is not None
        process.stdout.close()
    assert len(written) == 36
    sound(path, written)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_a_reader_goes_on_while_the_writer_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    store = open_index(path)
    process = writer(path, "x", 100_000)
    try:
        first = acknowledged(process, 3)
        assert len(store.documents.match(["filling", "words"], Filter(), 500)) >= 3
    finally:
        os.kill(process.pid, signal.SIGKILL)
    rest = acknowledged(process)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()
    results = {store.documents.get(hit.memory_id).path for hit in store.documents.match(["words"], Filter(), 10_000)}
    assert {*first, *rest} <= results
    store.close()
    sound(path, [*first, *rest])
