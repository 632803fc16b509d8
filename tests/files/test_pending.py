from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from spec_kit_memory.errors import AccessDenied, DatabaseBusy
from spec_kit_memory.files import pending, write_counters
from spec_kit_memory.files.disk import FileText
from spec_kit_memory.settings import Settings

Write = Callable[..., Path]
STEM = "01-03-26_12-00__topic"
STEPS = ("claimed", "recorded", "half", "written", "indexed", "renamed", "done")
TEXT = "# Topic\n\n" + "A line of the text that was saved.\n" * 50


def save(settings: Settings, text: str = TEXT, *, index: Callable[[Path, FileText], int] | None = None) -> Path:
    folder = settings.root / "specs/001-a/memory"
    return pending.save(
        folder, STEM, text, settings=settings, index=index or (lambda final, file: 1), scope=settings.scope
    ).path


def names(settings: Settings) -> list[str]:
    folder = settings.root / "specs/001-a/memory"
    return sorted(os.listdir(folder)) if folder.exists() else []


def records(settings: Settings) -> list[str]:
    folder = settings.state_folder / "pending"
    return os.listdir(folder) if folder.exists() else []


# --- saving


def test_the_row_is_made_while_the_file_is_pending_and_then_it_has_its_name(settings: Settings) -> None:
    seen: list[tuple[str, list[str], str]] = []

    def index(final: Path, file: FileText) -> int:
        seen.append((final.name, names(settings), file.text))
        return 7

    saved = pending.save(
        settings.root / "specs/001-a/memory", STEM, TEXT, settings=settings, index=index, scope=settings.scope
    )
    assert seen == [(f"{STEM}.md", [f"{STEM}_pending.md"], TEXT)]
    assert saved.result == 7
    assert saved.path.read_text() == TEXT
    assert names(settings) == [f"{STEM}.md"]
    assert records(settings) == []
    assert write_counters.read(settings, scope=settings.scope).atomic_writes == 1


def test_the_same_name_gets_a_number(settings: Settings) -> None:
    assert [save(settings).name for _ in range(3)] == [f"{STEM}.md", f"{STEM}-2.md", f"{STEM}-3.md"]


def test_many_saves_of_one_name_at_once_never_meet(settings: Settings) -> None:
    made: list[Path] = []

    def work(number: int) -> None:
        made.append(save(settings, f"text {number}\n"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 12
    assert {path.read_text() for path in made} == {f"text {number}\n" for number in range(12)}
    assert write_counters.read(settings, scope=settings.scope).atomic_writes == 12


def test_a_file_that_appears_during_the_save_is_never_replaced(settings: Settings) -> None:
    indexed: list[str] = []

    def index(final: Path, file: FileText) -> int:
        indexed.append(final.name)
        if len(indexed) == 1:
            final.write_text("somebody else's")
        return 1

    path = save(settings, index=index)
    assert path.name == f"{STEM}-2.md"
    assert indexed == [f"{STEM}.md", f"{STEM}-2.md"]
    assert (path.parent / f"{STEM}.md").read_text() == "somebody else's"
    assert path.read_text() == TEXT


def test_when_the_index_fails_the_text_stays_and_the_error_names_its_path(settings: Settings) -> None:
    def index(final: Path, file: FileText) -> int:
        raise DatabaseBusy("the index was busy.", hint="Try again.")

    with pytest.raises(DatabaseBusy) as caught:
        save(settings, index=index)
    kept = settings.root / "specs/001-a/memory" / f"{STEM}.md"
    assert kept.read_text() == TEXT
    assert kept.as_posix() in caught.value.message
    assert caught.value.details["path"] == kept.as_posix()
    assert "index()" in caught.value.hint
    assert names(settings) == [f"{STEM}.md"]
    assert records(settings) == []
    assert write_counters.read(settings, scope=settings.scope).errors == 1


def test_whatever_ends_the_indexing_the_text_stays(settings: Settings) -> None:
    def index(final: Path, file: FileText) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save(settings, index=index)
    assert names(settings) == [f"{STEM}.md"]


def test_a_folder_that_cannot_be_written_is_an_error_and_leaves_nothing(
    open_root: Path, without_privileges: Callable[[], AbstractContextManager[None]]
) -> None:
    settings = Settings(root=open_root)
    folder = open_root / "specs/001-a/memory"
    folder.mkdir(parents=True)
    folder.chmod(0o555)
    with without_privileges(), pytest.raises(AccessDenied) as caught:
        save(settings)
    assert STEM in caught.value.message
    assert names(settings) == []
    assert records(settings) == []


# --- a process that dies

SAVE = """
import os, signal, sys
from pathlib import Path
from spec_kit_memory.settings import Settings
from spec_kit_memory.files import pending
settings = Settings(root=Path(sys.argv[1]))
root, stem, text, at, committed = settings.root, sys.argv[2], sys.argv[3], sys.argv[4], Path(sys.argv[5])

def step(name):
    if name == at:
        os.kill(os.getpid(), signal.SIGKILL)

def index(final, file):
    committed.write_text(final.name)

pending.save(root / "specs/001-a/memory", stem, text, settings=settings, scope=settings.scope, index=index, step=step)
print("acknowledged", flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL there")
@pytest.mark.parametrize("at", [*STEPS, "never"])
def test_a_save_that_is_killed_is_completed_or_removed(settings: Settings, tmp_path: Path, at: str) -> None:
    committed = tmp_path / "committed"
    done = subprocess.run(
        [sys.executable, "-c", SAVE, str(settings.root), STEM, TEXT, at, str(committed)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (0 if at == "never" else -signal.SIGKILL), done.stderr
    indexed: list[Path] = []
    recovered = pending.recover(settings, index=indexed.append)
    has_text = at in ("written", "indexed", "renamed", "done", "never")
    assert names(settings) == ([f"{STEM}.md"] if has_text else [])
    assert records(settings) == []
    if has_text:
        assert (settings.root / "specs/001-a/memory" / f"{STEM}.md").read_text() == TEXT
    if at in ("written", "indexed", "renamed"):
        assert indexed == recovered.completed == [settings.root / "specs/001-a/memory" / f"{STEM}.md"]
    assert committed.exists() == (at in ("indexed", "renamed", "done", "never"))
    assert pending.recover(settings, index=indexed.append) == pending.Recovery()


def test_a_living_save_is_left_alone_by_recovery(settings: Settings) -> None:
    def index(final: Path, file: FileText) -> int:
        result = pending.recover(settings)
        assert (result.completed, result.removed) == ([], [])
        adopted = pending.adopt(settings, [pending.pending_of(final)])
        assert (adopted.completed, adopted.removed, adopted.warnings) == ([], [], [])
        assert names(settings) == [f"{STEM}_pending.md"]
        return 1

    assert save(settings, index=index).exists()


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL there")
def test_several_recoveries_at_once_complete_a_save_once(settings: Settings, tmp_path: Path) -> None:
    for number in range(5):
        arguments = [str(settings.root), f"{STEM}{number}", TEXT, "written", str(tmp_path / "committed")]
        subprocess.run([sys.executable, "-c", SAVE, *arguments], check=False, capture_output=True)
    results: list[pending.Recovery] = []
    threads = [threading.Thread(target=lambda: results.append(pending.recover(settings))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    completed = [path.name for result in results for path in result.completed]
    assert sorted(completed) == [f"{STEM}{number}.md" for number in range(5)]
    assert names(settings) == sorted(completed)
    assert write_counters.read(settings, scope=settings.scope).recoveries == 5


# --- records and leftovers that are not what they seem


def _record(settings: Settings, final: str, text: str) -> None:
    import hashlib

    folder = settings.state_folder / "pending"
    folder.mkdir(parents=True, exist_ok=True)
    fields = {"final": final, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    (folder / f"{'e' * 24}.json").write_text(json.dumps(fields))


@pytest.mark.parametrize("final", ["../victim.md", "/etc/victim.md", "memory/link/victim.md", "memory/victim.txt"])
def test_a_record_cannot_reach_out_of_the_workspace(settings: Settings, write: Write, root: Path, final: str) -> None:
    outside = root.parent / "victim_pending.md"
    outside.write_text("precious")
    write("memory/victim_pending.md", "precious")
    (root / "memory/link").symlink_to("../..")
    _record(settings, final, "something else")
    recovered = pending.recover(settings)
    assert (recovered.completed, recovered.removed) == ([], [])
    assert outside.read_text() == "precious"
    assert (root / "memory/victim_pending.md").read_text() == "precious"
    assert records(settings) == []


def test_a_forged_record_destroys_nothing(settings: Settings, write: Write, root: Path) -> None:
    """A repository can bring one along that calls a person's own file the rest of a save."""
    write("memory/call_pending.md", "a person's own file")
    write("docs/call_pending.md", "no memory at all")
    _record(settings, "memory/call.md", "something else")
    pending.recover(settings)
    (aside,) = settings.state_folder.glob("trash/recovered-*/memory/call_pending.md")
    assert aside.read_text() == "a person's own file"
    for text in ("something else", "no memory at all"):
        _record(settings, "docs/call.md", text)
        pending.recover(settings)
        assert (root / "docs/call_pending.md").read_text() == "no memory at all"
        assert not (root / "docs/call.md").exists()


BOMB = "[" + "[]," * 2_000_001 + "[]]"  # 6 MB of text, and more than 120 MB as objects


@pytest.mark.parametrize("text", ["", "{", "[]", '{"final": 1}', "null", "\x00"])
def test_a_damaged_record_is_removed(settings: Settings, text: str) -> None:
    folder = settings.state_folder / "pending"
    folder.mkdir(parents=True)
    (folder / f"{'e' * 24}.json").write_text(text)
    assert pending.recover(settings) == pending.Recovery()
    assert records(settings) == []


def test_a_record_of_millions_of_values_does_not_fill_the_memory(settings: Settings) -> None:
    """A repository could bring ten, of 64 MB each that git packs into as many kilobytes."""
    folder = settings.state_folder / "pending"
    folder.mkdir(parents=True)
    (folder / f"{'e' * 24}.json").write_text(f'{{"operation": "x", "steps": {BOMB}}}')
    tracemalloc.start()
    assert pending.recover(settings) == pending.Recovery()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 60_000_000
    assert records(settings) == []


def test_a_completed_file_that_a_person_changed_is_left_as_it_is(settings: Settings, write: Write) -> None:
    file = write("memory/a.md", "edited by a person")
    _record(settings, "memory/a.md", "as it was saved")
    assert pending.recover(settings).completed == []
    assert file.read_text() == "edited by a person"


def test_a_pending_text_whose_name_was_taken_gets_another(settings: Settings, write: Write, root: Path) -> None:
    write("memory/a.md", "another file")
    write("memory/a_pending.md", "as it was saved")
    _record(settings, "memory/a.md", "as it was saved")
    assert pending.recover(settings).completed == [root / "memory/a-2.md"]
    assert (root / "memory/a.md").read_text() == "another file"
    assert (root / "memory/a-2.md").read_text() == "as it was saved"


def test_recovery_without_a_state_folder_does_nothing(settings: Settings) -> None:
    assert pending.recover(settings) == pending.Recovery()
    assert not settings.state_folder.exists()


def test_leftovers_without_a_record_are_adopted_if_their_name_is_ours(settings: Settings, write: Write) -> None:
    ours = write(f"memory/{STEM}_pending.md", "text")
    empty = write("memory/01-03-26_12-00__empty_pending.md", "")
    theirs = write("memory/call_pending.md", "a person's own file")
    done = pending.adopt(settings, [ours, empty, theirs])
    assert done.completed == [settings.root / f"memory/{STEM}.md"]
    assert done.removed == [empty]
    assert theirs.read_text() == "a person's own file"
    assert [path for path, _ in done.warnings] == [theirs]


def test_a_leftover_that_was_renamed_meanwhile_is_no_trouble(settings: Settings, root: Path) -> None:
    done = pending.adopt(settings, [root / f"memory/{STEM}_pending.md"])
    assert done == pending.Recovery()
