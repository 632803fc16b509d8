"""The index is deleted, replaced, cut off or damaged under a running server: what does the user see?

The files are the truth: none of this may change them, and following the hint must bring everything back.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from tests.faults.conftest import filled
from tests.faults.talking import Talk, environment, skm

Texts = Callable[[Path], dict[str, str]]


def index_of(root: Path) -> Path:
    return root / ".spec-kit-memory" / "index.sqlite"


def settled(root: Path) -> Path:
    """The index with nothing left in its log, so that what is done to the file matters."""
    connection = apsw.Connection(str(index_of(root)))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    return index_of(root)


def move_away(root: Path) -> None:
    """What the hint of E024 says."""
    for file in index_of(root).parent.glob("index.sqlite*"):
        file.unlink()


@pytest.mark.parametrize("what", ["the index", "the state folder"])
def test_a_deleted_index_is_filled_again_by_the_running_server(root: Path, texts: Texts, what: str) -> None:
    before = texts(root)
    with Talk(root) as server:
        assert server.ready().search("zebra7").titles[0] == "Note 7"
        if what == "the index":
            move_away(root)
        else:
            shutil.rmtree(root / ".spec-kit-memory")
        first = server.search("zebra8")
        assert not first.is_error
        # Never silently empty: the files are waited for a little, and if that was too short it is said.
        assert first.titles[:1] == ["Note 8"] or "read again" in first.hints[0]
        assert server.ready().search("zebra9").titles[0] == "Note 9"
        saved = server.call("memory_save", context={"sessionSummary": "Saved afterwards"}, specFolder="001-core")
        assert not saved.is_error, saved
        assert server.call("memory_health").data["healthy"]
    assert before.items() <= texts(root).items()


def test_an_index_replaced_by_another_one_is_read_from_then_on(root: Path, tmp_path: Path) -> None:
    other = filled(tmp_path / "other", count=3)
    assert skm(other, "index").returncode == 0
    with Talk(root) as server:
        server.ready()
        os.replace(settled(other), index_of(root))
        for file in index_of(root).parent.glob("index.sqlite-*"):
            file.unlink()
        # The server scans: what the other index lacks is read from the files again.
        assert server.ready(memories=20).search("zebra19").titles[0] == "Note 19"
        assert server.call("memory_stats").data["totals"]["memories"] == 20


@pytest.mark.parametrize("share", [0.0, 0.5], ids=["to nothing", "to half"])
def test_a_cut_off_index_is_an_error_that_says_the_way_out(root: Path, texts: Texts, share: float) -> None:
    before = texts(root)
    with Talk(root) as server:
        server.ready()
        file = settled(root)
        os.truncate(file, int(file.stat().st_size * share) // 4096 * 4096)
        for _ in range(2):
            answer = server.search("zebra3")
            assert answer.code == "E024"
            assert "skm index" in answer.hint
        saved = server.call("memory_save", context={"sessionSummary": "Not lost"}, specFolder="001-core")
        assert saved.code == "E024"
        move_away(root)
        assert server.ready().search("zebra3").titles[0] == "Note 3"
        assert server.call("memory_health").data["healthy"]
    assert before.items() <= texts(root).items()


def test_an_emptied_index_does_not_take_its_log_along(root: Path) -> None:
    """SQLite throws the log of an empty file away: acknowledged changes would go with it."""
    with Talk(root) as server:
        server.ready()
        log = Path(f"{index_of(root)}-wal")
        assert log.stat().st_size > 0
        os.truncate(index_of(root), 0)
        kept = log.read_bytes()
        done = skm(root, "search", "zebra3", "--json")
        assert done.returncode == 1
        assert "E024" in done.stdout
        assert log.read_bytes()[: len(kept)] == kept
        move_away(root)


def test_damaged_pages_are_an_error_and_never_a_wrong_answer(root: Path, texts: Texts) -> None:
    before = texts(root)
    with Talk(root) as server:
        server.ready()
        file = settled(root)
        with file.open("r+b") as raw:
            for page in range(2, file.stat().st_size // 4096, 2):
                raw.seek(page * 4096)
                raw.write(b"\xa5" * 4096)
        for number in range(5):
            answer = server.search(f"zebra{number}", includeContent=True)
            assert answer.code == "E024" or answer.titles[0] == f"Note {number}"
        assert server.call("memory_stats").code in ("E024", "")
        assert "index" in server.search("walks", limit=20).hint or not server.search("walks").is_error
        move_away(root)
        assert server.ready().search("zebra3").titles[0] == "Note 3"
    assert before.items() <= texts(root).items()


def test_a_damaged_text_index_is_mended_by_what_the_hint_says(root: Path) -> None:
    assert skm(root, "index").returncode == 0
    first = skm(root, "validate", "1", "--was-useful")
    assert first.returncode == 0, first.stderr
    settled(root)
    connection = apsw.Connection(str(index_of(root)))
    connection.execute("UPDATE passage_fts_data SET block = zeroblob(20) WHERE id > 1")
    connection.close()
    assert skm(root, "index", "--rebuild").returncode == 0
    result = skm(root, "search", "zebra3", "--json")
    assert "Note 3" in result.stdout
    assert '"healthy":true' in skm(root, "health", "--json").stdout
    assert '"validationCount":1' in skm(root, "list", "--json").stdout


@pytest.mark.parametrize(
    ("make", "said", "hint"),
    [
        ("CREATE TABLE theirs (x)", "another program", "indexPath"),
        ("PRAGMA user_version = 99", "version 99", "upgrade"),
    ],
    ids=["of another program", "of a newer version"],
)
def test_an_index_that_is_not_ours_is_left_alone_and_the_server_answers(
    root: Path, make: str, said: str, hint: str
) -> None:
    if "version" in make:
        assert skm(root, "index").returncode == 0
    else:
        index_of(root).parent.mkdir()
    connection = apsw.Connection(str(index_of(root)))
    connection.execute(make).fetchall()
    connection.close()
    before = index_of(root).read_bytes()
    with Talk(root) as server:
        answer = server.search("zebra3")
        assert answer.code == "E020"
        assert said in answer.message
        assert hint in answer.hint
        assert index_of(root).read_bytes() == before
        move_away(root)  # no restart is needed
        assert server.ready().search("zebra3").titles[0] == "Note 3"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_after_opening_shares_nothing_with_its_parent(root: Path) -> None:
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from spec_kit_memory.settings import Semantic, Settings\n"
        "from spec_kit_memory.workspace import Workspace\n"
        "workspace = Workspace(Settings(root=Path(sys.argv[1]), semantic=Semantic(model='hashing')))\n"
        "workspace.index()\n"
        "assert workspace.search('zebra3').results[0].title == 'Note 3'\n"
        "child = os.fork()\n"
        "saved = workspace.save(text=f'Said by the {\"parent\" if child else \"child\"}', spec_folder='001-core')\n"
        "assert workspace.search('zebra4').results[0].title == 'Note 4'\n"
        "assert saved.id\n"
        "if not child:\n"
        "    os._exit(0)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0\n"
        "titles = [card.title for card in workspace.list(limit=100).memories]\n"
        "assert 'Said by the child' in titles and 'Said by the parent' in titles, titles\n"
        "assert workspace.health().healthy\n"
        "workspace.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(root)], env=environment(root), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(os.name == "nt", reason="a mapped file cannot be cut off there")
def test_a_process_that_the_system_ends_over_a_cut_off_log_index_has_lost_nothing(root: Path) -> None:
    """Truncating index.sqlite-shm takes memory away that the process has mapped: SIGBUS, and nobody can catch it."""
    server = Talk(root)
    server.__enter__()
    try:
        server.ready(memories=20)
        about = {"title": "Acknowledged before", "sessionSummary": "The okapi was here before the end."}
        saved = server.call("memory_save", context=about, specFolder="001-core")
        assert not saved.is_error, saved
        assert not server.call("memory_validate", id=1, wasUseful=True).is_error
        os.truncate(f"{index_of(root)}-shm", 0)
        with suppress(AssertionError, OSError):  # the server ended
            for number in range(20):
                server.search(f"zebra{number} again")
        if server.process.poll() is None:
            server.process.kill()  # where the system was patient, the end comes all the same
        assert server.process.wait(120) in (-signal.SIGBUS, -signal.SIGKILL)
    finally:
        with suppress(OSError):
            server.__exit__(KeyboardInterrupt, None, None)
    with Talk(root) as again:
        assert again.ready(memories=21).search("okapi").titles[0] == "Acknowledged before"
        assert again.call("memory_load", memoryId=1).data["memory"]["validationCount"] == 1
        assert again.call("memory_health").data["healthy"]
    assert skm(root, "ledger", "verify").returncode == 0
