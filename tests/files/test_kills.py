"""A process that saves is killed at a random moment; what it acknowledged is there afterwards.

SKM_TEST_KILLS sets the number of kills; a soak uses hundreds.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from spec_kit_memory.core.memory import Presence
from spec_kit_memory.files import disk
from spec_kit_memory.files.scan import Sync
from spec_kit_memory.index import open_index
from spec_kit_memory.settings import Settings

KILLS = int(os.environ.get("SKM_TEST_KILLS", "6"))
SAVER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from spec_kit_memory.core.memory import Actor, Change
from spec_kit_memory.settings import Settings
from spec_kit_memory.index import open_index
from spec_kit_memory.files.scan import Sync
root, round_ = Path(sys.argv[1]), sys.argv[2]
settings = Settings(root=root)
sync = Sync(open_index(settings.index_path), settings, now=lambda: datetime.now(UTC))
sync.recover()
print("ready", flush=True)
for number in range(10_000):
    text = f"# Save {round_} {number}\\n\\n" + f"Text of save {round_} {number}. " * 40 + "\\n"
    folder = root / "specs" / f"00{number % 3}-x" / "memory"
    saved = sync.save(folder, "01-03-26_12-00__same", text, Change(Actor.USER, datetime.now(UTC)))
    print(saved.result.memory_id, saved.path.relative_to(root).as_posix(), text.split("\\n")[0], sep="|", flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL there")
@pytest.mark.timeout(max(300, KILLS * 10))
def test_nothing_acknowledged_is_lost_and_nothing_half_is_left(settings: Settings, root: Path) -> None:
    disk.ensure_state_folder(settings)
    open_index(settings.index_path).close()
    rng = random.Random(7)
    acknowledged: dict[str, tuple[int, str]] = {}
    for round_ in range(KILLS):
        acknowledged |= _save_and_kill(root, round_, after=rng.randrange(1, 12), delay=rng.random() * 0.02)
        store = open_index(settings.index_path)
        sync = Sync(store, settings, now=lambda: datetime.now(UTC))
        sync.recover()
        report = sync.scan()
        assert report.bad == []
        rows = {path: row for path, row in store.documents.stored().items() if row.presence is Presence.LIVE}
        for path, (memory_id, title) in acknowledged.items():
            assert (root / path).read_text().startswith(title)
            assert rows[path].memory_id == memory_id
        on_disk = {path.relative_to(root).as_posix() for path in (root / "specs").rglob("*") if path.is_file()}
        assert on_disk == set(rows)
        assert os.listdir(settings.state_folder / "pending") == []
        assert not any(store.care.check().values())
        store.close()
    assert acknowledged


def _save_and_kill(root: Path, round_: int, *, after: int, delay: float) -> dict[str, tuple[int, str]]:
    """Let a process save until it acknowledged some, kill it a moment later, and read what it acknowledged."""
    arguments = [sys.executable, "-c", SAVER, str(root), str(round_)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as saver:
        assert saver.stdout is not None
        lines = [saver.stdout.readline() for _ in range(after + 1)]
        threading.Event().wait(delay)
        saver.kill()
        rest, problems = saver.communicate()
    assert lines[0] == "ready\n", problems
    whole = [line for line in "".join((*lines[1:], rest)).splitlines(keepends=True) if line.endswith("\n")]
    parts = [line.rstrip("\n").split("|") for line in whole]
    return {path: (int(memory_id), title) for memory_id, path, title in parts}
