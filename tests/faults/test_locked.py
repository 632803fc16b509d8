"""Another process holds the index, or the clock is set back: who waits, who is told, and is anything lost?"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from spec_kit_memory.core import ledger
from spec_kit_memory.errors import DatabaseBusy
from spec_kit_memory.index.sqlite.engine import SqliteIndex
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace
from tests.faults.talking import Answer, Talk, environment, held
from tests.features.conftest import Place


def impatient(place: Place) -> Workspace:
    """A workspace that gives up after a moment instead of half a minute."""
    settings = Settings(root=place.root, semantic=Semantic(model="hashing"))
    store = SqliteIndex(settings.index_path, busy_seconds=0.2)
    workspace = Workspace(settings, now=place.clock, store=store)
    place.opened.append(workspace)
    return workspace


def test_a_locked_index_is_read_and_a_write_is_told_where_its_text_is(place: Place) -> None:
    for number in range(5):
        place.memory(
            f"zebra-{number}", f"# Zebra {number}\n\nThe zebra{number} walks.", triggers=f"[zebra walk {number}]"
        )
    place.open().close()
    workspace = impatient(place)
    with held(workspace.settings.index_path):
        for number in range(5):
            for _ in range(3):
                assert workspace.search(f"zebra{number}", session_id="s", include_content=True).results
                assert workspace.load(number + 1).text
        assert workspace.triggers("a zebra walk 3", session_id="s").matches
        assert workspace.context("a zebra walk 3", session_id="s").summary
        assert workspace.health().healthy
        with pytest.raises(DatabaseBusy) as busy:
            workspace.save(text="Written while another one writes", spec_folder="001-core")
        assert "The text is kept in" in busy.value.message
        assert "index()" in busy.value.hint
        with pytest.raises(DatabaseBusy):
            workspace.validate(1, was_useful=True)
    workspace.index()
    assert workspace.search("written while another one writes").results[0].title.startswith("Written while")
    assert workspace.load(1).memory.validation_count == 0


def test_a_start_after_a_crash_does_not_wait_for_whoever_writes(place: Place) -> None:
    """With the usual patience of half a minute: a hook that only reads must not spend it on another's rest."""
    place.memory("zebra", "# Zebra\n\nThe zebra walks.")
    place.open().close()
    text = "# Left\n\nThe okapi was left behind by a process that died.\n"
    left = place.write("specs/001-core/memory/left_pending.md", text)
    records = place.root / ".spec-kit-memory" / "pending"
    records.mkdir(exist_ok=True)
    message = {"final": "specs/001-core/memory/left.md", "sha256": hashlib.sha256(text.encode()).hexdigest()}
    (records / f"{'d' * 24}.json").write_text(json.dumps(message))
    answered = threading.Event()

    def start() -> None:
        with Workspace(Settings(root=place.root, semantic=Semantic(model="hashing")), now=place.clock) as workspace:
            if workspace.search("zebra").results[0].title == "Zebra":
                answered.set()

    with held(place.root / ".spec-kit-memory" / "index.sqlite"):
        thread = threading.Thread(target=start)
        thread.start()
        soon = answered.wait(20)
    thread.join()
    assert soon
    assert not left.exists()
    assert (left.parent / "left.md").read_text() == text
    assert place.open().search("okapi").results[0].title == "Left"


def test_what_was_counted_while_the_index_was_locked_is_written_later(place: Place) -> None:
    place.memory("zebra", "# Zebra\n\nThe zebra walks.")
    place.open().close()
    workspace = impatient(place)
    with held(workspace.settings.index_path):
        for _ in range(7):
            workspace.load(1)
    workspace.close()
    again = place.open()
    assert again.load(1).memory.access_count >= 7


def test_a_clock_set_back_by_years_changes_no_order_and_loses_nothing(place: Place) -> None:
    place.memory("old", "# Old\n\nThe zebra walks.", tier="temporary")
    workspace = place.open()
    first = workspace.save(text="Saved before the clock was set back", spec_folder="001-core")
    workspace.triggers("zebra", session_id="s")
    workspace.index(cooldown=True)
    place.clock.pass_(days=-800)
    second = workspace.save(text="Saved after the clock was set back", spec_folder="001-core")
    assert second.id
    assert second.id != first.id
    answer = workspace.search("saved clock set back", session_id="s", explain=True)
    assert {row.id for row in answer.results} >= {first.id, second.id}
    assert all(0 <= row.score <= 100 for row in answer.results)
    workspace.index(cooldown=True)  # a minute has not passed, it has unpassed: nobody waits for years
    workspace.validate(first.id or 0, was_useful=True)
    place.clock.pass_(days=800)
    assert workspace.health().healthy
    assert ledger.verify(workspace._runtime.whole.record.ledger()) is None
    assert [entry.event for entry in workspace.history(first.id).entries][-1:]
    workspace.triggers("zebra", session_id="s")


@pytest.mark.skipif(os.name == "nt", reason="access rights are other ones there")
def test_what_is_in_the_state_folder_is_for_its_owner_only(place: Place) -> None:
    """Also where git made the folder, with a configuration in it, open to everybody."""
    state = place.root / ".spec-kit-memory"
    state.mkdir(mode=0o755)
    state.chmod(0o755)
    (state / "config.jsonc").write_text("{}")
    (state / "config.jsonc").chmod(0o644)
    place.memory("zebra", "# Zebra\n\nThe zebra walks.")
    place.memory("other", "# Other\n\nThe other walks.")
    workspace = place.open()
    workspace.save(text="Something to keep", spec_folder="001-core")
    workspace.checkpoint_create("before")
    workspace.delete(1, delete_file=True)
    workspace.triggers("zebra", session_id="s")
    workspace.close()
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    secret = [state / "index.sqlite", *(state / "checkpoints").iterdir()]
    assert [path.name for path in secret if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


def test_nothing_of_it_touches_a_network(root: Path) -> None:
    """Every verb that works on its own does so in a process that may open no connection at all."""
    script = (
        "import sys\n"
        "def refuse(event, arguments):\n"
        "    if event.startswith('socket.') and event not in ('socket.__new__',):\n"
        "        raise RuntimeError(f'{event} {arguments}')\n"
        "sys.addaudithook(refuse)\n"
        "from pathlib import Path\n"
        "from spec_kit_memory.settings import Settings\n"
        "from spec_kit_memory.workspace import Workspace\n"
        "with Workspace(Settings(root=Path(sys.argv[1]))) as workspace:\n"
        "    workspace.index()\n"
        "    assert workspace.search('zebra3').method == 'hybrid'\n"
        "    workspace.save(text='Saved without a network', spec_folder='001-core')\n"
        "    workspace.context('zebra3', session_id='s')\n"
        "    workspace.checkpoint_create('one')\n"
        "    assert workspace.health().healthy\n"
        "try:\n"
        "    __import__('socket').create_connection(('127.0.0.1', 9))\n"
        "except RuntimeError:\n"
        "    print('refused')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(root)],
        env=environment(root, SPEC_KIT_MEMORY_SEMANTIC_MODEL="local"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "refused\n"  # the hook does refuse


def test_reads_go_on_beside_a_write_that_waits_half_a_minute_for_another_process(root: Path) -> None:
    """With the usual settings and a real holder: the only test that waits the whole time."""
    memory = root / "specs" / "001-core" / "memory"
    with Talk(root) as server:
        server.ready(memories=20)
        with held(root / ".spec-kit-memory" / "index.sqlite"):
            started = time.monotonic()
            waiting = [server.ask(*save(f"Kept in spite of it {number}")) for number in range(3)]
            (memory / "note-4.md").write_text("# Note 4\n\nThe quagga4 came instead.\n", encoding="utf-8")
            asked = [(f"zebra{number}", f"Note {number}") for number in range(5, 17)]  # more than worker threads
            for query, title in asked:
                assert server.search(query, sessionId="s", includeContent=True).titles[0] == title
            older = server.call("memory_load", memoryId=server.search("zebra4").data["results"][0]["id"])
            assert "zebra4" in older.data["text"]
            assert "as last indexed" in older.hints[0]
            assert not server.call("memory_match_triggers", prompt="zebra", sessionId="s").is_error
            assert not server.call("memory_context", prompt="zebra7", sessionId="s").is_error
            # Every answer above came while the writes still waited, unless the machine was too busy to tell.
            assert time.monotonic() - started > 25 or not server.answered(waiting)
            refused = [Answer(server.response(number)["result"]) for number in waiting]
            assert time.monotonic() - started >= 25
        for item in refused:
            assert item.code == "E025", item
            assert "30 seconds" in item.message
            assert "The text is kept in" in item.message
            assert "memory_index_scan" in item.hint
        assert not server.call("memory_index_scan").is_error
        answer = server.search("kept in spite of it", limit=20)
        assert {f"Kept in spite of it {number}" for number in range(3)} <= set(answer.titles)
        assert "quagga4" in server.call("memory_get", path="specs/001-core/memory/note-4.md").data["text"]


def save(title: str) -> tuple[str, dict[str, object]]:
    about = {"title": title, "sessionSummary": f"{title}, while another process held the index."}
    return "tools/call", {"name": "memory_save", "arguments": {"context": about, "specFolder": "001-core"}}
