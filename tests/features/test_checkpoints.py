from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spec_kit_memory import filesystem
from spec_kit_memory.core.memory import Link, Memory
from spec_kit_memory.errors import (
    BadParameter,
    BadSpecFolder,
    CheckpointExists,
    CheckpointNotFound,
    MissingParameter,
    OutOfRange,
    RestoreFailed,
)
from spec_kit_memory.files import checkpoint_file as shelf
from spec_kit_memory.files.checkpoint_shelf import FileSlot, FolderShelf
from spec_kit_memory.settings import Isolation, Settings
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Clock, Place

TOKENS = "# Login tokens\n\nAccess tokens live fifteen minutes."
BROKER = "# Broker\n\nThe message broker is Mosquitto."
LUNCH = "# Lunch\n\nThe canteen has soup on Thursdays."


@pytest.fixture
def filled(place: Place) -> Place:
    place.memory("tokens", TOKENS, triggers="[login token]")
    place.memory("broker", BROKER, importance_tier="critical")
    place.memory("lunch", LUNCH, folder="002-other")
    return place


def essence(workspace: Workspace) -> dict[str, Any]:
    """Everything that a checkpoint promises to bring back."""
    rows = [dict(row) for row in workspace._runtime.whole.care.snapshot()]
    kept: dict[str, Any] = {}
    for row in rows:
        row.pop("stamp", None)
        row.pop("ledger_sequence", None)  # of the header: a restore appends
        key = f"{row['kind']} {row.get('id', row.get('hash', ''))}"
        kept[key] = row
    return kept


def searched(workspace: Workspace) -> list[Any]:
    questions = ("how long do tokens live", "message broker", "soup", "fifteen thursdays mosquitto")
    return [
        [(result.id, result.score, result.lines) for result in workspace.search(question).results]
        for question in questions
    ]


def file_of(workspace: Workspace, name: str) -> Path:
    found, _ = shelf.headers(FolderShelf(workspace.settings), workspace.settings.scope)
    place = next(item.place for item in found if item.name == name)
    assert isinstance(place, FileSlot)
    return place.place.path


def rows_of(workspace: Workspace, name: str) -> list[dict[str, Any]]:
    return list(shelf.read(filesystem.Place.of(file_of(workspace, name))).rows())


def lines_of(path: Path) -> list[bytes]:
    return gzip.decompress(path.read_bytes()).splitlines(keepends=True)


def rewrite(path: Path, lines: list[bytes], *, sign: bool = False) -> None:
    if sign:
        trailer = json.loads(lines[-1])
        trailer |= {"rows": len(lines) - 2, "sha256": hashlib.sha256(b"".join(lines[:-1])).hexdigest()}
        lines = [*lines[:-1], json.dumps(trailer).encode() + b"\n"]
    path.write_bytes(gzip.compress(b"".join(lines)))


# --- there and back ---------------------------------------------------------------


def test_everything_comes_back_and_search_gives_the_same_answers(filled: Place) -> None:
    workspace = filled.open()
    tokens, broker = filled.id_of(workspace, "tokens"), filled.id_of(workspace, "broker")
    workspace.link(tokens, broker, "supports", strength=0.4, evidence="because")
    for _ in range(3):
        workspace.validate(tokens, was_useful=True)
    workspace.load(broker)
    workspace.triggers("tell me about the login token", session_id="s")
    workspace._runtime.flush()
    before, found = essence(workspace), searched(workspace)
    workspace.checkpoint_create("all")

    filled.clock.pass_(hours=1)
    workspace.update(tokens, title="Other", trigger_phrases=["nothing"])
    workspace.unlink(workspace.why(tokens).steps[0].link.id)
    workspace.validate(tokens, was_useful=False, outdated=True)
    workspace.delete(broker)
    workspace.triggers("nothing at all", session_id="s")
    filled.memory("extra", "# Extra\n\nNot in the checkpoint.")
    workspace.index()
    assert essence(workspace) != before

    answer = workspace.checkpoint_restore("all", clear_existing=True)
    assert (answer.restored, answer.removed, answer.kept_newer) == (2, 1, 0)
    after = essence(workspace)
    assert {key: value for key, value in after.items() if not key.startswith("memory")} == {
        key: value for key, value in before.items() if not key.startswith("memory")
    }
    for key, value in before.items():
        ours = {name: part for name, part in value.items() if name != "raw_hash"}
        assert {name: part for name, part in after[key].items() if name != "raw_hash"} == ours, key
    filled.clock.pass_(hours=-1)
    assert searched(workspace) == found
    assert workspace.ledger_verify().ok
    assert workspace.health().healthy


def test_after_a_restore_nothing_has_to_be_embedded(filled: Place) -> None:
    workspace = filled.open()
    workspace.checkpoint_create("all")
    for card in workspace.list().memories:
        path = filled.root / card.path
        path.write_text("# Changed\n\nEntirely different words.\n" + card.title, encoding="utf-8")
    workspace.index()
    workspace.checkpoint_restore("all", clear_existing=True)
    assert workspace.stats().vectors == {"success": 3}
    answer = workspace.search("how long do tokens live", mode="vector")
    assert answer.results[0].title == "Login tokens"


def test_the_newer_of_two_stays_unless_clearing_and_the_report_says_so(filled: Place) -> None:
    workspace = filled.open()
    workspace.checkpoint_create("all")
    filled.clock.pass_(hours=1)
    id_ = filled.id_of(workspace, "tokens")
    workspace.update(id_, title="Newer")
    answer = workspace.checkpoint_restore("all")
    assert (answer.restored, answer.kept_newer, answer.skipped) == (0, 1, 2)
    assert "newer" in answer.summary
    assert any("clear_existing" in hint for hint in answer.hints)
    assert workspace.load(id_).memory.title == "Newer"
    cleared = workspace.checkpoint_restore("all", clear_existing=True)
    assert cleared.restored == 1
    assert not any("clear_existing" in hint for hint in cleared.hints)
    assert any("restore_files" in hint for hint in cleared.hints)
    assert workspace.load(id_).memory.title == "Login tokens"


def test_clearing_touches_the_folder_of_the_checkpoint_only(filled: Place) -> None:
    """Elsewhere, clearing one folder's checkpoint wiped every folder."""
    workspace = filled.open()
    workspace.checkpoint_create("core", spec_folder="specs/001-core/")
    filled.memory("later", "# Later\n\nIn the same folder.")
    filled.memory("elsewhere", "# Elsewhere\n\nIn another one.", folder="002-other")
    workspace.index()
    answer = workspace.checkpoint_restore("core", clear_existing=True)
    assert answer.removed == 1
    assert {card.title for card in workspace.list().memories} == {"Login tokens", "Broker", "Lunch", "Elsewhere"}
    assert workspace.index().new == 0


def test_a_restore_keeps_the_present_first(filled: Place) -> None:
    workspace = filled.open()
    workspace.checkpoint_create("all")
    id_ = filled.id_of(workspace, "tokens")
    filled.clock.pass_(hours=1)
    workspace.update(id_, title="Present")
    answer = workspace.checkpoint_restore("all", clear_existing=True)
    assert answer.safety == "before-restore-20260301-130000"
    workspace.checkpoint_restore(answer.safety, clear_existing=True)
    assert workspace.load(id_).memory.title == "Present"


def test_a_restore_appends_one_entry_per_memory_to_the_ledger(filled: Place) -> None:
    workspace = filled.open()
    workspace.checkpoint_create("all")
    workspace.delete(spec_folder="001-core", confirm=True)
    before = workspace.ledger_head().entries
    workspace.checkpoint_restore("all")
    entries = list(workspace._runtime.whole.record.ledger(after=before))
    assert [entry.type.value for entry in entries] == ["restore", "restore"]
    assert all(entry.reason.startswith("restore checkpoint all") for entry in entries)


# --- files ------------------------------------------------------------------------------


def test_files_stay_unless_they_are_asked_for(filled: Place) -> None:
    workspace = filled.open()
    workspace.checkpoint_create("all")
    path = filled.root / "specs/001-core/memory/tokens.md"
    path.unlink()
    workspace.index()
    answer = workspace.checkpoint_restore("all")
    assert not path.exists()
    assert any("no file" in hint for hint in answer.hints)
    workspace.index()
    answer = workspace.checkpoint_restore("all", restore_files=True)
    assert answer.files_written == ("specs/001-core/memory/tokens.md",)
    assert TOKENS in path.read_text(encoding="utf-8")
    assert workspace.index().deleted == 0
    assert workspace.health().healthy


@pytest.mark.parametrize(
    "data",
    [
        b"# Title\r\n\r\nWindows lines.\r\n",
        b"\xef\xbb\xbf# Title\n\nWith a mark.\n",
        "# Title\n\nWide.\n".encode("utf-16"),
        "# Tïtle\n\nno end".encode(),
    ],
)
def test_a_file_comes_back_byte_for_byte(place: Place, data: bytes) -> None:
    path = place.memory("one", "x")
    path.write_bytes(data)
    workspace = place.open()
    workspace.checkpoint_create("all")
    path.write_text("# Title\n\nSomething else.\n", encoding="utf-8")
    workspace.checkpoint_restore("all", clear_existing=True, restore_files=True)
    assert path.read_bytes() == data


def test_what_was_on_disk_is_in_the_safety_checkpoint_even_if_no_scan_saw_it(filled: Place) -> None:
    workspace = filled.open()
    workspace.checkpoint_create("all")
    path = filled.root / "specs/001-core/memory/tokens.md"
    path.write_text("# Unseen\n\nWritten a moment ago.\n", encoding="utf-8")
    answer = workspace.checkpoint_restore("all", clear_existing=True, restore_files=True)
    assert TOKENS in path.read_text(encoding="utf-8")
    assert answer.safety
    workspace.checkpoint_restore(answer.safety, clear_existing=True, restore_files=True)
    assert path.read_text(encoding="utf-8") == "# Unseen\n\nWritten a moment ago.\n"


def test_a_file_whose_stored_text_was_redacted_is_never_overwritten(place: Place) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    path = place.memory("deploy", f"# Deploy\n\nUse the token {secret} for the bot.")
    plain = place.memory("plain", "# Plain\n\nNothing to hide here.")
    workspace = place.open()
    workspace.checkpoint_create("all")
    path.write_text(f"# Deploy\n\nRotated: {secret[::-1]} and {secret}.\n", encoding="utf-8")
    plain.write_text(f"# Plain\n\nNow it has one: {secret}.\n", encoding="utf-8")
    answer = workspace.checkpoint_restore("all", clear_existing=True, restore_files=True)
    assert set(answer.files_refused) == {"specs/001-core/memory/deploy.md", "specs/001-core/memory/plain.md"}
    assert answer.files_written == ()
    assert secret in path.read_text(encoding="utf-8")
    assert secret in plain.read_text(encoding="utf-8")
    assert any("redacted" in hint for hint in answer.hints)
    assert secret.encode() not in gzip.decompress(file_of(workspace, "all").read_bytes())


def test_a_file_outside_is_never_written(filled: Place) -> None:
    outside = filled.root.parent / "outside"
    outside.mkdir()
    (outside / "note.md").write_text("# Note\n\nOutside.\n", encoding="utf-8")
    workspace = filled.open(extra_paths=(str(outside),))
    workspace.checkpoint_create("all")
    (outside / "note.md").write_text("# Note\n\nEdited outside.\n", encoding="utf-8")
    answer = workspace.checkpoint_restore("all", clear_existing=True, restore_files=True)
    assert [Path(path).name for path in answer.files_refused] == ["note.md"]
    assert "Edited" in (outside / "note.md").read_text(encoding="utf-8")


def test_a_path_that_became_a_link_elsewhere_is_not_written_through(filled: Place) -> None:
    workspace = filled.open()
    workspace.checkpoint_create("all")
    path = filled.root / "specs/001-core/memory/tokens.md"
    victim = filled.root.parent / "victim.md"
    victim.write_text("precious", encoding="utf-8")
    path.unlink()
    path.symlink_to(victim)
    answer = workspace.checkpoint_restore("all", clear_existing=True, restore_files=True)
    assert "specs/001-core/memory/tokens.md" in answer.files_refused
    assert victim.read_text(encoding="utf-8") == "precious"


# --- names, number, list ------------------------------------------------------------------


@given(name=st.text(min_size=1, max_size=200))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_name_is_a_safe_file_name_or_is_refused(tmp_path: Path, name: str) -> None:
    from spec_kit_memory.core.memory import Scope

    slot = shelf.place_of(FolderShelf(Settings(root=tmp_path)), name, Scope())
    assert isinstance(slot, FileSlot)
    path = slot.place.path
    assert path.parent == tmp_path / ".spec-kit-memory" / "checkpoints"
    assert path.name.isascii()
    assert len(path.name) <= 120
    assert not path.name.startswith(".")
    assert not set(path.name) & set('/\\:*?"<>|\0')


@pytest.mark.parametrize(
    "name", ["Vor der Änderung", "部署之前", "a/b\\c", "..", "CON", "x" * 200, "Case", "case", "🚀"]
)
def test_names_of_any_script_work(filled: Place, name: str) -> None:
    workspace = filled.open()
    workspace.checkpoint_create(name)
    assert [row["name"] for row in workspace.checkpoint_list().checkpoints] == [name]
    assert workspace.checkpoint_restore(name).name == name
    assert workspace.checkpoint_delete(name).name == name
    assert name not in [row["name"] for row in workspace.checkpoint_list().checkpoints]


def test_names_that_differ_in_case_are_two(filled: Place) -> None:
    workspace = filled.open()
    workspace.checkpoint_create("One")
    workspace.checkpoint_create("one")
    files = [path.name.lower() for path in shelf.folder(workspace.settings).path.glob("*.gz")]
    assert len(set(files)) == 2


@pytest.mark.parametrize(
    ("name", "error"),
    [("", MissingParameter), ("  ", MissingParameter), ("a\nb", BadParameter), ("x" * 201, OutOfRange)],
)
def test_bad_names_are_refused(filled: Place, name: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        filled.open().checkpoint_create(name)


def test_a_name_is_given_once(filled: Place) -> None:
    workspace = filled.open()
    workspace.checkpoint_create("one")
    with pytest.raises(CheckpointExists) as raised:
        workspace.checkpoint_create("one")
    assert raised.value.code == "E063"


def test_a_missing_checkpoint_is_named_with_what_there_is(filled: Place) -> None:
    workspace = filled.open()
    workspace.checkpoint_create("one")
    for call in (workspace.checkpoint_restore, workspace.checkpoint_delete, workspace.checkpoint_diff):
        with pytest.raises(CheckpointNotFound) as raised:
            call("two")
        assert raised.value.code == "E060"
        assert "one" in raised.value.hint


def test_a_folder_without_memories_is_refused(filled: Place) -> None:
    with pytest.raises(BadSpecFolder):
        filled.open().checkpoint_create("x", spec_folder="009-nothing")


def test_at_most_ten_are_kept_and_automatic_ones_go_first(filled: Place) -> None:
    workspace = filled.open()
    workspace.checkpoint_create("first")
    filled.clock.pass_(seconds=1)
    workspace.checkpoint_restore("first")
    for number in range(8):
        filled.clock.pass_(seconds=1)
        assert workspace.checkpoint_create(f"n{number}").pruned == ()
    filled.clock.pass_(seconds=1)
    assert workspace.checkpoint_create("ninth").pruned == ("before-restore-20260301-120001",)
    filled.clock.pass_(seconds=1)
    answer = workspace.checkpoint_create("tenth")
    assert answer.pruned == ("first",)
    assert "first" in answer.summary
    assert len(workspace.checkpoint_list().checkpoints) == 10


def test_with_the_clock_set_back_the_newest_is_still_the_last_to_go(filled: Place) -> None:
    workspace = filled.open()
    for number in range(10):
        filled.clock.pass_(days=-1)
        workspace.checkpoint_create(f"n{number}")
    assert [row["name"] for row in workspace.checkpoint_list().checkpoints] == [f"n{n}" for n in range(9, -1, -1)]
    filled.clock.pass_(days=-400)
    assert workspace.checkpoint_create("n10").pruned == ("n0",)
    assert workspace.checkpoint_create("n11").pruned == ("n1",)
    filled.clock.pass_(days=-400)
    workspace.checkpoint_restore("n11")  # makes one by itself, which is the oldest automatic one there is
    filled.clock.pass_(days=-400)
    restored = workspace.checkpoint_restore("n10")
    names = {row["name"] for row in workspace.checkpoint_list().checkpoints}
    assert restored.safety in names
    assert {"n10", "n11"} <= names


def test_checkpoints_of_the_first_version_are_older_than_all_others(filled: Place) -> None:
    workspace = filled.open()
    for number in range(3):
        filled.clock.pass_(days=1)
        workspace.checkpoint_create(f"old{number}")
        rewritten(filled.root, f"old{number}", sequence=None)
    filled.clock.pass_(days=-100)
    for number in range(8):
        workspace.checkpoint_create(f"new{number}")
    names = [row["name"] for row in workspace.checkpoint_list().checkpoints]
    assert names == [*(f"new{number}" for number in range(7, -1, -1)), "old2", "old1"]


@pytest.mark.parametrize("forged", [10**400, 2**53 + 1, -1, "9", 1.5, True, None, 2**53])
def test_a_made_up_number_does_not_keep_a_checkpoint_for_ever(filled: Place, forged: object) -> None:
    workspace = filled.open()
    workspace.checkpoint_create("forged")
    rewritten(filled.root, "forged", sequence=forged)
    for number in range(10):
        filled.clock.pass_(seconds=1)
        workspace.checkpoint_create(f"n{number}")
    names = {row["name"] for row in workspace.checkpoint_list().checkpoints}
    assert names == {f"n{number}" for number in range(10)}


def rewritten(root: Path, name: str, **changes: object) -> None:
    """A checkpoint with another header, and a trailer that fits it."""
    path = root / ".spec-kit-memory" / "checkpoints" / f"{name}.jsonl.gz"
    head, *rows, _ = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    header = {**json.loads(head), **changes}
    header = {key: value for key, value in header.items() if value is not None or key in ("spec_folder",)}
    lines = [json.dumps(header).encode() + b"\n", *rows]
    digest = hashlib.sha256(b"".join(lines)).hexdigest()
    trailer = {"kind": "trailer", "rows": len(rows), "counts": {}, "sha256": digest}
    path.write_bytes(gzip.compress(b"".join(lines) + json.dumps(trailer).encode() + b"\n"))


def test_headers_that_unpack_without_end_do_not_hold_up_a_list(filled: Place) -> None:
    workspace = filled.open()
    workspace.checkpoint_create("good")
    folder = filled.root / ".spec-kit-memory" / "checkpoints"
    bomb = gzip.compress(b'{"kind": "checkpoint", "name": "' + b"a" * (60 << 20))
    for number in range(1_500):
        (folder / f"zz{number:04}.jsonl.gz").write_bytes(bomb if number < 20 else b"")
    answer = workspace.checkpoint_list()
    assert [row["name"] for row in answer.checkpoints] == ["good"]


def test_a_restore_never_prunes_what_it_restores(filled: Place) -> None:
    workspace = filled.open()
    for number in range(10):
        filled.clock.pass_(seconds=1)
        workspace.checkpoint_create(f"n{number}")
    workspace.checkpoint_restore("n0")
    names = {row["name"] for row in workspace.checkpoint_list().checkpoints}
    assert "n0" in names
    assert len(names) == 10


def test_a_list_tells_what_each_one_is(filled: Place) -> None:
    git = filled.root / ".git"
    git.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/feature/x\n", encoding="utf-8")
    workspace = filled.open()
    workspace.checkpoint_create("all", description="green", metadata={"build": 7, "tags": ["a"]})
    filled.clock.pass_(hours=1)
    workspace.checkpoint_create("core", spec_folder="001-core")
    rows = workspace.checkpoint_list().checkpoints
    assert [row["name"] for row in rows] == ["core", "all"]
    assert {**rows[1], "sizeBytes": 0} == {
        "name": "all",
        "specFolder": None,
        "memories": 3,
        "sizeBytes": 0,
        "createdAt": filled.clock() - (rows[0]["createdAt"] - rows[1]["createdAt"]),
        "description": "green",
        "automatic": False,
        "gitBranch": "feature/x",
        "metadata": {"build": 7, "tags": ["a"]},
    }
    assert [row["memories"] for row in workspace.checkpoint_list(spec_folder="001-core").checkpoints] == [2]
    assert len(workspace.checkpoint_list(limit=1).checkpoints) == 1


def test_metadata_that_is_no_json_is_refused(filled: Place) -> None:
    workspace = filled.open()
    with pytest.raises(BadParameter):
        workspace.checkpoint_create("x", metadata={"a": object()})
    assert workspace.checkpoint_list().checkpoints == ()


@pytest.mark.skipif(sys.platform == "win32", reason="modes are of POSIX systems")
def test_only_the_owner_can_read_it(filled: Place) -> None:
    workspace = filled.open()
    workspace.checkpoint_create("one")
    path = file_of(workspace, "one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


# --- compare ------------------------------------------------------------------------------


def test_a_diff_names_what_was_added_removed_and_changed(filled: Place) -> None:
    workspace = filled.open()
    workspace.checkpoint_create("all")
    assert workspace.checkpoint_diff("all").summary.endswith("0 added, 0 removed, 0 changed")
    tokens, broker = filled.id_of(workspace, "tokens"), filled.id_of(workspace, "broker")
    workspace.load(tokens)  # reading is no change
    workspace.update(tokens, title="Other")
    workspace.validate(broker, was_useful=True)
    workspace.delete(filled.id_of(workspace, "lunch"))
    filled.memory("extra", "# Extra\n\nNew.")
    workspace.index()
    answer = workspace.checkpoint_diff("all")
    assert [row["title"] for row in answer.added] == ["Extra"]
    assert [row["title"] for row in answer.removed] == ["Lunch"]
    changed = {row["id"]: row["changed"] for row in answer.changed}
    assert changed == {tokens: ("text", "title"), broker: ("validations",)}


# --- damage ---------------------------------------------------------------------------------


def _cut(path: Path, _: list[bytes]) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def _without_trailer(path: Path, lines: list[bytes]) -> None:
    rewrite(path, lines[:-1])


def _header_only(path: Path, lines: list[bytes]) -> None:
    rewrite(path, lines[:1])


def _edited(path: Path, lines: list[bytes]) -> None:
    rewrite(path, [line.replace(b"fifteen", b"sixteen") for line in lines])


def _row_missing(path: Path, lines: list[bytes]) -> None:
    rewrite(path, [*lines[:3], *lines[4:]])


def _newer(path: Path, lines: list[bytes]) -> None:
    rewrite(path, [lines[0].replace(b'"version":1', b'"version":2'), *lines[1:]], sign=True)


def _newer_rows(path: Path, lines: list[bytes]) -> None:
    rewrite(path, [lines[0], lines[1].replace(b'"format":2', b'"format":99'), *lines[2:]], sign=True)


def _not_gzip(path: Path, lines: list[bytes]) -> None:
    path.write_bytes(b"".join(lines))


def _empty(path: Path, _: list[bytes]) -> None:
    path.write_bytes(b"")


def _bomb(path: Path, lines: list[bytes]) -> None:
    path.write_bytes(gzip.compress(lines[0]) + gzip.compress(b"0" * (80 << 20), 9))


def _foreign(path: Path, lines: list[bytes]) -> None:
    rewrite(path, [b'{"kind":"header","format":1}\n', *lines[1:]], sign=True)


def _not_json(path: Path, lines: list[bytes]) -> None:
    rewrite(path, [lines[0], b"[" * 100_000 + b"\n", *lines[1:]], sign=True)


def _wrong_shape(path: Path, lines: list[bytes]) -> None:
    rows = [json.loads(line) for line in lines]
    for row in rows:
        if row["kind"] == "memory":
            row["passages"] = "none"
    rewrite(path, [json.dumps(row).encode() + b"\n" for row in rows], sign=True)


def _loose_link(path: Path, lines: list[bytes]) -> None:
    row = {"kind": "link", "id": 1, "source_id": 1, "target_id": 999, "relation": "caused", "strength": 1.0,
           "evidence": "", "origin": "hand", "claimant": None, "created_at": None}  # fmt: skip
    rewrite(path, [*lines[:-1], json.dumps(row).encode() + b"\n", lines[-1]], sign=True)


def _short_vector(path: Path, lines: list[bytes]) -> None:
    rows = [json.loads(line) for line in lines]
    for row in rows:
        if row["kind"] == "vector":
            row["vector"] = row["vector"][:8]
    rewrite(path, [json.dumps(row).encode() + b"\n" for row in rows], sign=True)


DAMAGE = (
    _cut, _without_trailer, _header_only, _edited, _row_missing, _newer, _newer_rows, _not_gzip, _empty, _bomb,
    _foreign, _not_json, _wrong_shape, _loose_link, _short_vector,
)  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__.strip("_"))
def test_a_damaged_checkpoint_is_refused_before_anything_changes(
    filled: Place, damage: Callable[[Path, list[bytes]], None]
) -> None:
    workspace = filled.open()
    workspace.checkpoint_create("one")
    workspace.update(filled.id_of(workspace, "tokens"), title="Present")
    path = file_of(workspace, "one")
    damage(path, lines_of(path))
    before = essence(workspace), workspace.ledger_head().head, sorted(path.parent.iterdir())
    for files in (False, True):
        with pytest.raises(RestoreFailed) as raised:
            workspace.checkpoint_restore("one", clear_existing=True, restore_files=files)
        assert raised.value.code == "E061"
        assert raised.value.hint
        assert "b'" not in str(raised.value), "a value of Python"
    assert (essence(workspace), workspace.ledger_head().head, sorted(path.parent.iterdir())) == before
    assert workspace.checkpoint_create("two").memories == 3


@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_changed_byte_anywhere_is_found(damaged: tuple[Path, bytes], data: st.DataObject) -> None:
    path, good = damaged
    at = data.draw(st.integers(0, len(good) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda value: value != good[at]))
    path.write_bytes(good[:at] + bytes([value]) + good[at + 1 :])
    plain = gzip.decompress(good)
    try:
        opened = shelf.read(filesystem.Place.of(path))
        rows = list(opened.rows())
    except RestoreFailed:
        return
    # Some bits of a gzip header (time, system) mean nothing: then the content is untouched.
    assert [json.loads(line) for line in plain.splitlines()[1:-1]] == rows


@pytest.fixture
def damaged(filled: Place) -> tuple[Path, bytes]:
    workspace = filled.open()
    workspace.checkpoint_create("one")
    path = file_of(workspace, "one")
    return path, path.read_bytes()


def test_an_unreadable_file_among_them_does_not_hide_the_others(filled: Place) -> None:
    workspace = filled.open()
    workspace.checkpoint_create("good")
    (shelf.folder(workspace.settings) / "bad.jsonl.gz").path.write_bytes(b"nonsense")
    answer = workspace.checkpoint_list()
    assert [row["name"] for row in answer.checkpoints] == ["good"]
    assert any("bad.jsonl.gz" in hint for hint in answer.hints)


def test_a_list_says_which_checkpoint_is_damaged_and_why(filled: Place) -> None:
    workspace = filled.open()
    for name in ("good", "cut"):
        workspace.checkpoint_create(name)
    path = (shelf.folder(workspace.settings) / "cut.jsonl.gz").path
    path.write_bytes(path.read_bytes()[:-40])
    listed = {row.name: row.problem for row in workspace.checkpoint_list().checkpoints}
    assert listed["good"] is None
    assert listed["cut"] is not None
    assert "cut off" in listed["cut"]


# --- renamed folders, other databases ------------------------------------------------------


def test_a_checkpoint_of_a_renamed_folder_says_where_its_memories_are(filled: Place) -> None:
    workspace = filled.open()
    workspace.checkpoint_create("core", spec_folder="001-core")
    os.rename(filled.root / "specs/001-core", filled.root / "specs/001-engine")
    workspace.index()
    before = essence(workspace)
    with pytest.raises(RestoreFailed, match="renamed") as raised:
        workspace.checkpoint_restore("core", clear_existing=True)
    assert "001-engine" in raised.value.message
    assert essence(workspace) == before
    answer = workspace.checkpoint_restore("core", clear_existing=True, restore_files=True)
    assert len(answer.files_written) == 2
    workspace.index()
    assert {card.spec_folder for card in workspace.list().memories} == {"001-core", "002-other"}
    assert not list((filled.root / "specs/001-engine").rglob("*.md"))  # else each memory would be there twice
    assert workspace.health().healthy


@pytest.mark.parametrize("content", [b"", b"x", b"\x1f\x8b\x08\x00", gzip.compress(b"{}\n", mtime=0)])
def test_a_checkpoint_that_cannot_be_read_can_be_deleted(filled: Place, content: bytes) -> None:
    workspace = filled.open()
    workspace.checkpoint_create("broken")
    file_of(workspace, "broken").write_bytes(content)
    assert workspace.health().checks["checkpoints"] != "ok"
    assert "could not be read" in workspace.checkpoint_delete("broken").summary
    assert workspace.health().checks["checkpoints"] == "ok"
    with pytest.raises(CheckpointNotFound):
        workspace.checkpoint_delete("broken")


def test_a_checkpoint_brings_back_what_a_deleted_database_lost(filled: Place) -> None:
    workspace = filled.open()
    tokens, broker = filled.id_of(workspace, "tokens"), filled.id_of(workspace, "broker")
    workspace.validate(tokens, was_useful=True)
    workspace.link(tokens, broker, "caused")
    workspace.checkpoint_create("all")
    workspace.close()
    for path in filled.root.glob(".spec-kit-memory/index.sqlite*"):
        path.unlink()
    filled.clock.pass_(days=1)
    fresh = filled.open()
    fresh.checkpoint_restore("all", clear_existing=True)
    card = fresh.load(filled.id_of(fresh, "tokens")).memory
    assert (card.confidence, card.validation_count) == (0.6, 1)
    assert [step.link.relation.value for step in fresh.why(card.id).steps] == ["caused"]
    assert fresh.ledger_verify().ok


# --- scopes ------------------------------------------------------------------------------


def test_a_session_sees_and_restores_only_checkpoints_of_its_own_scope(place: Place) -> None:
    place.write("memory/users/ann/plan.md", "# Plan of ann\n\nPrivate.\n")
    place.write("memory/users/bob/plan.md", "# Plan of bob\n\nPrivate.\n")
    place.memory("shared", TOKENS)
    everybody = place.open()
    ann = place.open(index=False, isolation=Isolation(user_id="ann"))
    bob = place.open(index=False, isolation=Isolation(user_id="bob"))
    ann.checkpoint_create("mine")
    bob.checkpoint_create("mine")
    everybody.checkpoint_create("shared")

    def names(workspace: Workspace) -> set[str]:
        return {row["name"] for row in workspace.checkpoint_list().checkpoints}

    assert names(ann) == names(bob) == {"mine", "shared"}
    assert names(everybody) == {"shared"}
    assert [row["memories"] for row in ann.checkpoint_list().checkpoints if row["name"] == "mine"] == [2]
    with pytest.raises(CheckpointNotFound):
        everybody.checkpoint_restore("mine")
    paths = {row["path"] for row in rows_of(ann, "mine") if row["kind"] == "memory"}
    assert paths == {"memory/users/ann/plan.md", "specs/001-core/memory/shared.md"}
    ann.checkpoint_restore("mine", clear_existing=True)
    assert bob.load(place.id_of(bob, "bob")).memory.title == "Plan of bob"


def test_a_session_with_allowed_paths_clears_only_there(filled: Place) -> None:
    whole = filled.open()
    part = filled.open(index=False, isolation=Isolation(allowed_paths=("specs/001-core",)))
    whole.checkpoint_create("whole")
    with pytest.raises(CheckpointNotFound):
        part.checkpoint_restore("whole")
    part.checkpoint_create("part")
    assert [row["memories"] for row in part.checkpoint_list().checkpoints] == [2]
    filled.memory("later", "# Later\n\nIn the same folder.")
    whole.index()
    assert part.checkpoint_restore("part", clear_existing=True).removed == 1
    assert {card.title for card in whole.list().memories} == {"Login tokens", "Broker", "Lunch"}


# --- processes -----------------------------------------------------------------------------


def test_many_threads_and_workspaces_share_a_shelf(filled: Place) -> None:
    filled.open()
    spaces = [filled.open(index=False) for _ in range(3)]
    failed: list[Exception] = []

    def work(number: int) -> None:
        try:
            spaces[number].checkpoint_create(f"by {number}")
            spaces[number].checkpoint_create("wanted by all")
        except CheckpointExists:
            failed.append(CheckpointExists("taken"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(failed) == 2
    assert len(spaces[0].checkpoint_list().checkpoints) == 4


def test_a_killed_writer_leaves_no_checkpoint_and_its_remains_are_removed(filled: Place) -> None:
    workspace = filled.open()
    program = (
        "import sys, os, signal\n"
        "from pathlib import Path\n"
        "from spec_kit_memory.settings import Settings, Semantic\n"
        "from spec_kit_memory.files import checkpoint_file, checkpoint_shelf\n"
        "from spec_kit_memory.workspace import Workspace, utc_now\n"
        "space = Workspace(Settings(root=Path(sys.argv[1]), semantic=Semantic(model='hashing')))\n"
        "def rows():\n"
        "    for number, row in enumerate(space._runtime.store.care.snapshot()):\n"
        "        if number == 2:\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        yield row\n"
        "shelf = checkpoint_shelf.FolderShelf(space.settings)\n"
        "checkpoint_file.write(shelf, checkpoint_file.Checkpoint(name='dead', created=utc_now()), rows())\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(filled.root)], check=False, timeout=180)
    assert done.returncode < 0
    left = list(shelf.folder(workspace.settings).path.glob(".*.tmp"))
    assert len(left) == 1
    assert workspace.checkpoint_list().checkpoints == ()
    workspace.checkpoint_create("alive")
    assert not list(shelf.folder(workspace.settings).path.glob(".*.tmp"))


def test_a_file_is_written_row_by_row(tmp_path: Path) -> None:
    """Ten times the rows must not take ten times the memory."""
    import tracemalloc

    def rows(count: int) -> Iterator[dict[str, Any]]:
        yield {"kind": "header", "memories": count}
        for number in range(count):
            yield {"kind": "memory", "id": number, "text": os.urandom(512).hex()}

    peaks = []
    for count in (500, 5_000):
        tracemalloc.start()
        made = shelf.write(
            FolderShelf(Settings(root=tmp_path)), shelf.Checkpoint(name=f"n{count}", created=Clock()()), rows(count)
        )
        shelf.read(made.place).verify()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] * 2 + 2_000_000


def test_the_parts_of_a_memory_are_all_in_the_file(filled: Place) -> None:
    """Elsewhere a restore brought back 18 of 45 columns: nothing that a memory has may be left out here."""
    workspace = filled.open()
    workspace.checkpoint_create("all")
    row = next(row for row in rows_of(workspace, "all") if row["kind"] == "memory")
    derived = {"vector_status", "presence", "tokens", "warnings"}
    names = set(Memory.__dataclass_fields__) - {"attributes"} | set(
        workspace._runtime.store.documents.get(1).attributes.__dataclass_fields__
    )
    assert names - derived <= set(row)
    assert set(Link.__dataclass_fields__) == {
        "id", "source_id", "target_id", "relation", "strength", "evidence", "origin", "created_at",
    }  # fmt: skip


def test_the_page_verifies_a_file_and_names_every_key(filled: Place, tmp_path: Path) -> None:
    """A program without us can read a checkpoint years later: the page is complete, and its program runs."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "checkpoint-format.md").read_text(encoding="utf-8")
    workspace = filled.open()
    workspace.link(1, 2, "caused")
    workspace.search("tokens", session_id="s")
    workspace.checkpoint_create("one")
    path = file_of(workspace, "one")
    source = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert source
    done = subprocess.run(
        [sys.executable, "-c", source[1], str(path)], capture_output=True, text=True, timeout=180, check=True
    )
    assert done.stdout.startswith("one {'header': 1, 'memory': 3, 'vector': 3")
    assert f"version {shelf.VERSION}" in page.splitlines()[0]
    named = set(re.findall(r"`([a-z_0-9]+)`", page))
    rows = [json.loads(line) for line in lines_of(path)]
    assert {row["kind"] for row in rows} == {
        "checkpoint", "header", "memory", "vector", "link", "session", "trailer",
    }  # fmt: skip
    assert {key for row in rows for key in row} - {"kind"} <= named


def test_a_restore_that_writes_nothing_leaves_no_folder_behind(filled: Place) -> None:
    workspace = filled.open()
    workspace.checkpoint_create("all")
    filled.clock.pass_(minutes=5)
    (filled.root / "specs/001-core").rename(filled.root / "specs/014-core")
    workspace.index()
    answer = workspace.checkpoint_restore("all", restore_files=True)
    assert answer.kept_newer
    assert answer.files_written == ()
    assert not (filled.root / "specs/001-core").exists()
    assert any("nothing was changed" in hint for hint in answer.hints)
