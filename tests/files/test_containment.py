"""A hostile repository, an index or a checkpoint that was forged, and links that are swapped in: nothing that belongs
to somebody else is read or written, and whoever is refused has changed nothing."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from spec_kit_memory import filesystem
from spec_kit_memory.errors import AccessDenied, BadPath, OutsideScope, SpecKitMemoryError
from spec_kit_memory.files import activity, past_folder, paths, pending, write_counters
from spec_kit_memory.settings import IndexPlace, Isolation, Semantic, Settings, load
from spec_kit_memory.workspace import Workspace

pytestmark = pytest.mark.skipif(os.name == "nt", reason="making links needs a privilege there")

SECRET = "# Victim\n\nThe quokka is private.\n"
PLAN = "---\ntitle: Plan\n---\n\nThe numbat digs.\n"


@pytest.fixture
def victim(root: Path) -> Path:
    """A folder of the user's beside the workspace, with files of the same names."""
    folder = root.parent / "victim"
    folder.mkdir()
    for name in ("plan.md", "other.md"):
        (folder / name).write_text(SECRET, encoding="utf-8")
    return folder


@pytest.fixture
def workspace(root: Path) -> Iterator[Workspace]:
    for name in ("plan", "other"):
        (root / "memory").mkdir(exist_ok=True)
        (root / f"memory/{name}.md").write_text(
            PLAN.replace("Plan", name.title()).replace("digs", name), encoding="utf-8"
        )
    with opened(root) as results:
        results.index()
        yield results


def opened(root: Path, **more: Any) -> Workspace:
    return Workspace(Settings(root=root, semantic=Semantic(model="none"), watch="off", **more))


@pytest.mark.parametrize("verb", ["update", "delete", "undo", "save"])
def test_a_refusal_names_the_link_and_not_the_session(
    root: Path, victim: Path, workspace: Workspace, verb: str
) -> None:
    """A folder that is a link is a person's own doing mostly: what the session may use has nothing to do with it."""
    workspace.update(1, title="Before")
    shutil.rmtree(root / "memory")
    (root / "memory").symlink_to(victim)
    calls: dict[str, Callable[[], Any]] = {
        "update": lambda: workspace.update(1, title="After"),
        "delete": lambda: workspace.delete(1, delete_file=True),
        "undo": workspace.undo,
        "save": lambda: workspace.save(context={"sessionSummary": "The quoll hunts at night."}),
    }
    with pytest.raises(OutsideScope, match="memory is a link out of the workspace and is not followed") as refused:
        calls[verb]()
    assert "extraPaths" in refused.value.hint


def test_an_isolated_caller_learns_nothing_of_links_elsewhere(root: Path, victim: Path, workspace: Workspace) -> None:
    (root / "elsewhere").symlink_to(victim)
    with (
        opened(root, isolation=Isolation(allowed_paths=("memory",))) as isolated,
        pytest.raises(OutsideScope, match="outside what this session may use"),
    ):
        isolated.get("elsewhere/plan.md")


def everything(folder: Path, *, but: tuple[str, ...] = ()) -> dict[str, str]:
    """Every file below a folder with its content; links as what they say."""
    result = {}
    for place, folders, names in os.walk(folder):
        for name in (*names, *(item for item in folders if (Path(place) / item).is_symlink())):
            path = Path(place) / name
            below = path.relative_to(folder).as_posix()
            if not below.startswith(but):
                result[below] = os.readlink(path) if path.is_symlink() else path.read_bytes().hex()
    return result


def rows(workspace: Workspace) -> Any:
    listed = [(card.id, card.path, card.title) for card in workspace.list(limit=100).memories]
    return sorted(listed), workspace.ledger_head().head


STATE = (
    ".spec-kit-memory/index.sqlite",
    ".spec-kit-memory/transactions",
    ".spec-kit-memory/scan.lock",
    ".spec-kit-memory/undo.lock",
    ".spec-kit-memory/.gitignore",
)


def refused(workspace: Workspace, root: Path, act: Callable[[], object]) -> SpecKitMemoryError:
    """The error of a call that changed neither files nor index."""
    files, index = everything(root.parent, but=tuple(f"work/{name}" for name in STATE)), rows(workspace)
    with pytest.raises((OutsideScope, AccessDenied)) as caught:
        act()
    after = everything(root.parent, but=tuple(f"work/{name}" for name in STATE))
    assert after == files
    assert rows(workspace) == index
    return caught.value


# --- links in place of folders and files ------------------------------------------------------


def swap_folder(root: Path, victim: Path) -> None:
    shutil.rmtree(root / "memory")
    (root / "memory").symlink_to(victim, target_is_directory=True)


def swap_relative(root: Path, victim: Path) -> None:
    shutil.rmtree(root / "memory")
    (root / "memory").symlink_to("../victim", target_is_directory=True)


def swap_file(root: Path, victim: Path) -> None:
    for name in ("plan.md", "other.md"):
        (root / "memory" / name).unlink()
        (root / "memory" / name).symlink_to(victim / name)


def swap_twice(root: Path, victim: Path) -> None:
    """A link to a link in the workspace that leads out."""
    shutil.rmtree(root / "memory")
    (root / "docs").symlink_to(victim, target_is_directory=True)
    (root / "memory").symlink_to("docs", target_is_directory=True)


SWAPS = (swap_folder, swap_relative, swap_file, swap_twice)


@pytest.mark.parametrize("swap", SWAPS)
def test_update_does_not_follow_a_link_out(workspace: Workspace, root: Path, victim: Path, swap: Any) -> None:
    memory_id = workspace.list().memories[0].id
    swap(root, victim)
    assert refused(workspace, root, lambda: workspace.update(memory_id, title="X")).code == "E110"


@pytest.mark.parametrize("swap", SWAPS)
def test_delete_does_not_follow_a_link_out(workspace: Workspace, root: Path, victim: Path, swap: Any) -> None:
    memory_id = workspace.list().memories[0].id
    swap(root, victim)
    assert refused(workspace, root, lambda: workspace.delete(memory_id, delete_file=True)).code == "E110"
    assert workspace.delete(memory_id).deleted == (memory_id,)  # without its file it can be forgotten


@pytest.mark.parametrize("swap", SWAPS)
def test_undo_does_not_follow_a_link_out(workspace: Workspace, root: Path, victim: Path, swap: Any) -> None:
    memory_id = workspace.list().memories[0].id
    workspace.update(memory_id, title="X")
    swap(root, victim)
    assert refused(workspace, root, workspace.undo).code == "E110"


def test_undo_of_a_delete_does_not_follow_a_link_out(workspace: Workspace, root: Path, victim: Path) -> None:
    memory_id = workspace.list().memories[0].id
    workspace.delete(memory_id, delete_file=True)
    shutil.rmtree(victim)
    victim.mkdir()
    swap_folder(root, victim)
    assert refused(workspace, root, workspace.undo).code == "E110"


@pytest.mark.parametrize("swap", SWAPS)
def test_nothing_behind_a_link_out_is_read(workspace: Workspace, root: Path, victim: Path, swap: Any) -> None:
    swap(root, victim)
    for memory in workspace.list().memories:
        assert "quokka" not in workspace.load(memory.id).text
        with pytest.raises(OutsideScope):
            workspace.get(memory.path)
    workspace.index(force=True)
    assert workspace.search("quokka private").results == ()
    assert workspace.list().total == 0


def test_a_save_does_not_follow_a_link_out(workspace: Workspace, root: Path, victim: Path) -> None:
    swap_folder(root, victim)
    refused(workspace, root, lambda: workspace.save(text="The potoroo is small."))
    (root / "specs/001-a").mkdir(parents=True)
    (root / "specs/001-a/memory").symlink_to(victim, target_is_directory=True)
    refused(workspace, root, lambda: workspace.save(text="The potoroo is small.", spec_folder="001-a"))


def test_specs_that_lead_out_are_not_offered_as_folders(root: Path, victim: Path) -> None:
    (victim / "001-private").mkdir()
    (root / "specs").symlink_to(victim, target_is_directory=True)
    with opened(root) as workspace, pytest.raises(SpecKitMemoryError) as caught:
        workspace.save(context={"sessionSummary": "Where does this belong?"}, spec_folder="001-private")
    assert "private" not in caught.value.message.replace("001-private", "", 1)
    assert sorted(os.listdir(victim)) == ["001-private", "other.md", "plan.md"]


def test_metadata_is_not_written_through_a_link(workspace: Workspace, root: Path) -> None:
    (root / "package.json").write_text("{}", encoding="utf-8")
    (root / "memory/metadata.json").symlink_to("../package.json")
    answer = workspace.save(text="The potoroo is small.")
    assert (root / "package.json").read_text(encoding="utf-8") == "{}"
    assert any("metadata.json" in warning for warning in answer.warnings)


def test_links_that_stay_inside_work_as_before(root: Path) -> None:
    (root / ".opencode/specs/001-a/memory").mkdir(parents=True)
    (root / "specs").symlink_to(".opencode/specs", target_is_directory=True)
    (root / "docs/notes").mkdir(parents=True)
    (root / "memory").symlink_to("docs/notes", target_is_directory=True)
    (root / "specs/001-a/memory/a.md").write_text(PLAN, encoding="utf-8")
    (root / "docs/notes/b.md").write_text(PLAN.replace("Plan", "Notes"), encoding="utf-8")
    with opened(root) as workspace:
        workspace.index()
        ids = {card.path: card.id for card in workspace.list().memories}
        assert set(ids) == {".opencode/specs/001-a/memory/a.md", "docs/notes/b.md"}
        for path, memory_id in ids.items():
            workspace.update(memory_id, title="Changed")
            assert "Changed" in (root / path).read_text(encoding="utf-8")
            workspace.delete(memory_id, delete_file=True)
            assert not (root / path).exists()
            workspace.undo()
            assert "Changed" in (root / path).read_text(encoding="utf-8")
        saved = workspace.save(text="The potoroo is small.", spec_folder="001-a")
        assert saved.path.startswith(".opencode/specs/001-a/memory/")


# --- an index that was forged --------------------------------------------------------------------


FORGED = (
    "../victim/plan.md",
    "memory/../../victim/plan.md",
    "{victim}/plan.md",
    ".git/config",
    ".GIT/config",
    ".git./config",
    ".git /config.md",
    "specs/.git/memory/plan.md",
    ".spec-kit-memory/config.jsonc",
    ".Spec-Kit-Memory/trash/plan.md",
    "package.json",
    "src/plan.md",
    "Memory./plan.md",
)


def forge(root: Path, victim: Path, path: str) -> str:
    """A row of the index with another path, as a file of SQLite that came with an archive can have it."""
    stored = path.format(victim=victim)
    with closing(apsw.Connection(str(root / ".spec-kit-memory/index.sqlite"))) as connection:
        connection.execute("UPDATE memory SET path = ?, source = 'memory' WHERE path = 'memory/plan.md'", (stored,))
    target = root / stored
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(SECRET, encoding="utf-8")
    return stored


@pytest.mark.parametrize("path", FORGED)
def test_a_forged_row_leads_to_no_other_file(root: Path, victim: Path, path: str) -> None:
    (root / "memory").mkdir()
    (root / "memory/plan.md").write_text(PLAN, encoding="utf-8")
    with opened(root) as workspace:
        workspace.index()
        memory_id = workspace.list().memories[0].id
    forge(root, victim, path)
    with opened(root) as workspace:
        assert refused(workspace, root, lambda: workspace.update(memory_id, title="X")).code == "E110"
        assert refused(workspace, root, lambda: workspace.delete(memory_id, delete_file=True)).code == "E110"
        assert "quokka" not in workspace.load(memory_id).text


@pytest.mark.parametrize("where", ["../../victim/plan.md", "../../../victim/plan.md", "..", ".", "", "/etc/passwd"])
def test_the_trash_of_a_forged_ledger_leads_nowhere(workspace: Workspace, root: Path, victim: Path, where: str) -> None:
    from spec_kit_memory.files import trash

    with pytest.raises(SpecKitMemoryError):
        trash.trashed(workspace.settings, f"trash/{where}")
    with pytest.raises(SpecKitMemoryError):
        trash.trashed(workspace.settings, f"checkpoints/{where}")


# --- checkpoints that were forged ------------------------------------------------------------------


def forged_checkpoint(workspace: Workspace, root: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """A checkpoint whose memory says something else, whole and with a hash that fits."""
    workspace.checkpoint_create("forged")
    path = root / ".spec-kit-memory/checkpoints/forged.jsonl.gz"
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    changed = next(line for line in lines if line["kind"] == "memory")
    change(changed)
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines[:-1])
    trailer = lines[-1] | {"sha256": hashlib.sha256(body).hexdigest()}
    path.write_bytes(gzip.compress(body + json.dumps(trailer).encode() + b"\n"))


def as_path(path: str, text: str = "#!/bin/sh\necho quokka\n") -> Callable[[dict[str, Any]], None]:
    def change(row: dict[str, Any]) -> None:
        row["path"], row["text"], row["redactions"] = path, text, 0
        row["content_hash"] = hashlib.sha256(text.encode()).hexdigest()
        row["raw_hash"] = row["content_hash"]
        row["passages"], row["updated_at"] = [], "2999-01-01T00:00:00.000000Z"

    return change


TARGETS = (
    "../victim/new.md",
    "../new.md",
    ".git/hooks/post-checkout",
    ".GIT/hooks/post-checkout.md",
    ".git./hooks/x.md",
    ".mcp.json",
    ".vscode/tasks.json",
    ".opencode/plugin/x.md",
    ".spec-kit-memory/config.jsonc",
    ".spec-kit-memory/context_template.md",
    ".spec-kit-memory/trash/x.md",
    "Makefile",
    "CLAUDE.md",
    "AGENTS.md",
    "docs/x.md",
    "memory/deep/x.md",
    "memory/x.py",
    "memory/.hidden.md",
    "memory/x_pending.md",
    "specs/.git/memory/x.md",
    "specs/node_modules/memory/x.md",
    "specs/001-a/scratch/spec.md",
    "specs/001-a/other.md",
    "constitutional/README.md",
    "memory/users/ann/x.md",
)


@pytest.mark.parametrize("path", TARGETS)
def test_a_restore_writes_only_where_memories_are_found(
    workspace: Workspace, root: Path, victim: Path, path: str
) -> None:
    forged_checkpoint(workspace, root, as_path(path))
    before = everything(root.parent, but=("work/.spec-kit-memory/index", "work/.spec-kit-memory/checkpoints"))
    try:
        answer = workspace.checkpoint_restore("forged", clear_existing=True, restore_files=True)
    except SpecKitMemoryError:
        pass
    else:
        assert path not in answer.files_written
        assert path in answer.files_refused
    after = everything(root.parent, but=("work/.spec-kit-memory/index", "work/.spec-kit-memory/checkpoints"))
    left = {name for name in after if name not in before and not name.startswith("work/.spec-kit-memory/")}
    assert not left
    assert {
        name: after[name] for name in before if name in after and not name.startswith("work/.spec-kit-memory/")
    } == {name: text for name, text in before.items() if not name.startswith("work/.spec-kit-memory/")}
    assert not (root / path).exists() or path.startswith(".spec-kit-memory")


@pytest.mark.parametrize(
    "path",
    [
        "memory/new.md",
        "constitutional/rule.md",
        "specs/001-a/memory/new.md",
        "specs/001-a/memory/new.txt",
        "specs/001-a/plan.md",
        ".opencode/specs/002-b/memory/new.md",
    ],
)
def test_a_restore_writes_memories_back(workspace: Workspace, root: Path, path: str) -> None:
    source = "constitutional" if path.startswith("constitutional") else "spec" if path.endswith("plan.md") else "memory"

    def change(row: dict[str, Any]) -> None:
        as_path(path, "# New\n\nThe bilby is back.\n")(row)
        row["source"] = source

    forged_checkpoint(workspace, root, change)
    answer = workspace.checkpoint_restore("forged", clear_existing=True, restore_files=True)
    assert path in answer.files_written, answer.hints
    assert (root / path).read_text(encoding="utf-8") == "# New\n\nThe bilby is back.\n"


def test_a_restore_writes_into_a_folder_that_only_a_link_makes_a_place_of_memories(root: Path) -> None:
    (root / "docs").mkdir()
    (root / "docs/a.md").write_text(PLAN, encoding="utf-8")
    (root / "docs/b.md").write_text(PLAN.replace("numbat", "bilby"), encoding="utf-8")
    (root / "memory").symlink_to("docs", target_is_directory=True)
    with opened(root) as workspace:
        workspace.index()
        workspace.checkpoint_create("all")
        for name in ("a.md", "b.md"):
            (root / "docs" / name).unlink()
        answer = workspace.checkpoint_restore("all", restore_files=True, clear_existing=True)
        assert sorted(answer.files_written) == ["docs/a.md", "docs/b.md"]
        assert (root / "docs/a.md").read_text(encoding="utf-8") == PLAN


def test_a_restore_does_not_follow_a_link_out(workspace: Workspace, root: Path, victim: Path) -> None:
    workspace.checkpoint_create("all")
    swap_folder(root, victim)
    before = everything(victim)
    answer = workspace.checkpoint_restore("all", restore_files=True, clear_existing=True)
    assert answer.files_written == ()
    assert everything(victim) == before


# --- what a repository brings into the state folder --------------------------------------------------


def test_a_template_that_is_a_link_out_is_not_read(root: Path, victim: Path) -> None:
    (root / ".spec-kit-memory").mkdir()
    (root / ".spec-kit-memory/context_template.md").symlink_to(victim / "plan.md")
    with opened(root) as workspace:
        error = refused(workspace, root, lambda: workspace.save(context={"sessionSummary": "A potoroo was seen."}))
        assert "context_template.md" in error.message
        assert "quokka" not in error.message


@pytest.mark.parametrize("kind", ["fifo", "folder"])
def test_a_template_that_is_no_file_blocks_nobody(root: Path, kind: str) -> None:
    (root / ".spec-kit-memory").mkdir()
    template = root / ".spec-kit-memory/context_template.md"
    os.mkfifo(template) if kind == "fifo" else template.mkdir()
    with opened(root) as workspace, pytest.raises(BadPath):
        workspace.save(context={"sessionSummary": "A potoroo was seen."})


def test_a_template_behind_a_link_in_the_workspace_is_used(root: Path) -> None:
    (root / ".spec-kit-memory").mkdir()
    (root / "shared.md").write_text("{{front_matter}}\n# {{title}}\n\nOur template.\n\n{{summary}}\n", encoding="utf-8")
    (root / ".spec-kit-memory/context_template.md").symlink_to("../shared.md")
    with opened(root) as workspace:
        saved = workspace.save(context={"sessionSummary": "A potoroo was seen."})
    assert "Our template." in (root / saved.path).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["checkpoints", "trash", "pending"])
@pytest.mark.parametrize("target", ["../../victim", "../.git"])
def test_a_folder_of_the_state_folder_that_leads_away_is_refused(
    workspace: Workspace, root: Path, victim: Path, name: str, target: str
) -> None:
    """At the start, and when it is swapped in while a server runs."""
    (root / ".git").mkdir()
    folder = root / ".spec-kit-memory" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.symlink_to(target, target_is_directory=True)
    with pytest.raises(AccessDenied, match="link"):
        opened(root)
    before = everything(victim), everything(root / ".git")
    act = {
        "checkpoints": lambda: workspace.checkpoint_create("one"),
        "trash": lambda: workspace.delete(workspace.list().memories[0].id, delete_file=True),
        "pending": lambda: workspace.save(text="The potoroo is small."),
    }[name]
    refused(workspace, root, act)
    assert (everything(victim), everything(root / ".git")) == before


@pytest.mark.parametrize("name", ["past", "pending", "trash", "checkpoints"])
def test_a_folder_of_the_state_folder_that_is_a_link_within_the_workspace_empties_no_other(
    root: Path, name: str
) -> None:
    """We remove files in our folders: one that a repository makes a link to others would have those emptied."""
    drawer = root / "src" / ("a" * 16)
    drawer.mkdir(parents=True)
    (drawer / "main.py").write_text("print()", encoding="utf-8")
    (root / f"src/{'b' * 24}.json").write_text("{ // settings", encoding="utf-8")
    (root / ".spec-kit-memory").mkdir()
    link = root / ".spec-kit-memory" / name
    link.symlink_to("../src", target_is_directory=True)
    before = everything(root)
    with pytest.raises(AccessDenied, match="link"):
        opened(root)
    assert everything(root) == before
    settings = Settings(root=root, semantic=Semantic(model="none"))
    past_folder.sweep(settings)  # and where it is swapped in later
    pending.recover(settings)
    assert everything(root / "src") == {one.removeprefix("src/"): text for one, text in before.items() if "src/" in one}


def test_a_state_folder_that_is_a_link_to_another_folder_empties_nothing_in_it(root: Path) -> None:
    for file in ("src/past/reports/a.txt", "src/pending/queue.json", "src/trash/b.txt"):
        (root / file).parent.mkdir(parents=True)
        (root / file).write_text("{", encoding="utf-8")
    before = everything(root / "src")
    (root / ".spec-kit-memory").symlink_to("src", target_is_directory=True)
    with opened(root) as workspace:
        workspace.index()
    assert before.items() <= everything(root / "src").items()


def test_folders_of_the_past_that_are_nested_without_end_stop_no_start(root: Path) -> None:
    past = root / ".spec-kit-memory/past"
    past.mkdir(parents=True)
    subprocess.run(["mkdir", "-p", "/".join(["a" * 16, *"d" * 1500])], cwd=past, check=True)
    try:
        with opened(root) as workspace:
            assert workspace.list().total == 0
    finally:
        subprocess.run(["rm", "-rf", str(past)], check=True)


@pytest.mark.parametrize(
    "name", ["recent-prompts.jsonl", "transactions.json", "transactions.lock", "scan.lock", "last-scan", "unlinked"]
)
@pytest.mark.parametrize("target", ["../../victim/plan.md", "../.git/config", "../package.json"])
def test_a_file_of_the_state_folder_that_is_a_link_is_not_written_through(
    workspace: Workspace, root: Path, victim: Path, name: str, target: str
) -> None:
    (root / ".git").mkdir()
    for precious in (".git/config", "package.json"):
        (root / precious).write_text(SECRET, encoding="utf-8")
    link = root / ".spec-kit-memory" / name
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    before = everything(victim), (root / ".git/config").stat(), (root / "package.json").stat()
    workspace.triggers("a prompt about plan and other")
    (root / "memory/third.md").write_text(PLAN.replace("Plan", "Third"), encoding="utf-8")
    for act in (lambda: workspace.index(cooldown=True), lambda: workspace.save(text="The potoroo is small.")):
        try:
            act()
        except SpecKitMemoryError as error:
            assert error.code in ("E110", "E011", "E014", "E429")  # noqa: PT017  each call may be refused or not
    assert (everything(victim), (root / ".git/config").stat(), (root / "package.json").stat()) == before


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("transactions.json", '{"errors": 1e999}'),
        ("transactions.json", "[" * 9_000),
        ("activity.jsonl", '["2026-01-01", "use", "1", 1, Infinity]\n["2026-01-01", "use", "1", NaN, 1]\n'),
        ("activity.jsonl", f'["2026-01-01", "use", "1", {10**400}, 1]\n["2026-01-01", "use", "1", 1e999, 1]\n'),
        ("recent-prompts.jsonl", f"[{10**400}, NaN, {{}}]\n" + "[" * 9_000),
        ("set-aside.jsonl", f"[{10**400}, NaN]\n[[], 1]\n" + "[" * 9_000),
    ],
)
def test_numbers_that_are_none_in_the_state_folder_stop_nothing(root: Path, name: str, text: str) -> None:
    (root / "memory").mkdir()
    (root / "memory/plan.md").write_text(PLAN, encoding="utf-8")
    (root / ".spec-kit-memory").mkdir()
    (root / ".spec-kit-memory" / name).write_text(text, encoding="utf-8")
    with opened(root) as workspace:
        workspace.index()
        workspace.save(text="The potoroo is small.")
        workspace.triggers("a prompt about plan")
        workspace.delete(workspace.list().memories[0].id, delete_file=True)
        workspace.stats()
        workspace.health()
        settings = workspace.settings
    assert all(abs(item.count) < 1e12 for item in activity.read(settings))
    assert write_counters.read(settings, scope=settings.scope).deletes == 1


def test_a_checkpoint_with_a_number_that_is_none_is_named_and_the_others_are_listed(
    workspace: Workspace, root: Path
) -> None:
    workspace.checkpoint_create("good")
    folder = root / ".spec-kit-memory/checkpoints"
    header, *rest = gzip.decompress((folder / "good.jsonl.gz").read_bytes()).splitlines(keepends=True)
    forged = json.loads(header) | {"name": "bad", "memories": float("inf")}
    (folder / "bad.jsonl.gz").write_bytes(gzip.compress(json.dumps(forged).encode() + b"\n" + b"".join(rest)))
    answer = workspace.checkpoint_list()
    assert [checkpoint["name"] for checkpoint in answer.checkpoints] == ["good"]
    assert len(answer.hints) == 1


def test_a_checkpoint_that_is_a_link_or_a_pipe_is_reported_and_the_others_are_listed(
    workspace: Workspace, root: Path, victim: Path
) -> None:
    workspace.checkpoint_create("good")
    folder = root / ".spec-kit-memory/checkpoints"
    shutil.copy(folder / "good.jsonl.gz", victim / "stolen.jsonl.gz")
    (folder / "link.jsonl.gz").symlink_to(victim / "stolen.jsonl.gz")
    os.mkfifo(folder / "pipe.jsonl.gz")
    answer = workspace.checkpoint_list()
    assert [checkpoint["name"] for checkpoint in answer.checkpoints] == ["good"]
    assert len(answer.hints) == 2
    assert {p["check"] for p in workspace.health().problems} == {"checkpoints"}


def test_a_pipe_or_a_device_in_the_state_folder_is_refused_at_once(root: Path) -> None:
    (root / ".spec-kit-memory").mkdir()
    os.mkfifo(root / ".spec-kit-memory/index.sqlite")
    with pytest.raises(AccessDenied, match="neither a file nor a folder"):
        opened(root)


def test_an_index_that_is_a_link_within_the_workspace_is_used_and_one_into_git_is_not(root: Path) -> None:
    (root / ".spec-kit-memory").mkdir()
    (root / "cache").mkdir()
    (root / ".git").mkdir()
    link = root / ".spec-kit-memory/index.sqlite"
    link.symlink_to("../cache/index.sqlite")
    with opened(root) as workspace:
        assert workspace.list().total == 0
    assert (root / "cache/index.sqlite").is_file()
    link.unlink()
    link.symlink_to("../.git/index.sqlite")
    with pytest.raises(AccessDenied):
        opened(root)
    assert os.listdir(root / ".git") == []


def test_an_index_that_becomes_a_link_is_neither_read_nor_written(
    workspace: Workspace, root: Path, victim: Path
) -> None:
    shutil.copy(root / ".spec-kit-memory/index.sqlite", victim / "index.sqlite")
    before = everything(victim)
    for swap in ("file", "folder"):
        place = root / ".spec-kit-memory" / ("index.sqlite" if swap == "file" else "")
        place.rename(root / "aside")
        place.symlink_to(victim / "index.sqlite" if swap == "file" else victim, target_is_directory=swap == "folder")
        for act in (lambda: workspace.list(), lambda: workspace.validate(1, was_useful=True)):
            with pytest.raises(SpecKitMemoryError):
                act()
        assert everything(victim) == before
        place.unlink()
        (root / "aside").rename(place)
    assert workspace.list().total == 2


def test_the_user_may_allow_a_state_folder_elsewhere(root: Path) -> None:
    elsewhere = root.parent / "elsewhere"
    elsewhere.mkdir()
    (root / ".spec-kit-memory").symlink_to(elsewhere, target_is_directory=True)
    with pytest.raises(AccessDenied):
        opened(root)
    user = root.parent / "user.jsonc"
    user.write_text('{"allow.outsidePaths": true, "semantic.model": "none"}', encoding="utf-8")
    with Workspace(load(root, environ={}, user_file=user)) as workspace:
        (root / "memory").mkdir()
        (root / "memory/plan.md").write_text(PLAN, encoding="utf-8")
        workspace.index()
        workspace.checkpoint_create("one")
        memory_id = workspace.list().memories[0].id
        workspace.delete(memory_id, delete_file=True)
        workspace.undo()
        assert (root / "memory/plan.md").read_text(encoding="utf-8") == PLAN
    assert {"index.sqlite", "checkpoints", "trash"} <= set(os.listdir(elsewhere))


def test_init_does_not_write_through_a_link(root: Path, victim: Path) -> None:
    from spec_kit_memory.workspace import make_workspace

    (root / ".spec-kit-memory").symlink_to(victim, target_is_directory=True)
    before = everything(victim)
    with pytest.raises(SpecKitMemoryError):
        make_workspace(root)
    assert everything(victim) == before
    (root / ".spec-kit-memory").unlink()
    (root / ".spec-kit-memory").mkdir()
    (root / ".spec-kit-memory/config.jsonc").symlink_to(victim / "new.jsonc")
    assert make_workspace(root) == (".gitignore",)
    assert everything(victim) == before


# --- extra paths and allowed paths ------------------------------------------------------------------


def test_an_extra_path_in_the_workspace_that_a_link_leads_out_is_not_followed(root: Path, victim: Path) -> None:
    (root / "docs").symlink_to(victim, target_is_directory=True)
    for extra in ("docs", "docs/*.md", "docs/plan.md"):
        with opened(root, extra_paths=(extra,)) as workspace:
            workspace.index()
            assert workspace.list().total == 0
            with pytest.raises(OutsideScope):
                workspace.save(file_path="docs/plan.md")


def test_an_extra_path_that_is_swapped_after_the_start_is_not_followed(root: Path, victim: Path) -> None:
    (root / "docs").mkdir()
    (root / "docs/plan.md").write_text(PLAN, encoding="utf-8")
    with opened(root, extra_paths=("docs",), sources={"memory.extraPaths": "file"}) as workspace:
        workspace.index()
        assert workspace.list().total == 1
        shutil.rmtree(root / "docs")
        (root / "docs").symlink_to(victim, target_is_directory=True)
        workspace.index()
        assert workspace.search("quokka private").results == ()
        assert workspace.list().total == 0


def test_a_path_outside_that_the_user_names_is_read_and_never_written(root: Path, victim: Path) -> None:
    with opened(root, extra_paths=(str(victim),)) as workspace:
        workspace.index()
        memory_id = workspace.search("quokka private").results[0].id
        workspace.update(memory_id, title="X")
        workspace.delete(memory_id, delete_file=True)
    assert (victim / "plan.md").read_text(encoding="utf-8") == SECRET


def test_an_extra_path_of_a_repository_does_not_open_gits_folder_or_ours(root: Path) -> None:
    for name in (".git/config", ".spec-kit-memory/trash/a.md"):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text("url = https://user:quokka@example.com\n", encoding="utf-8")
    extras = (".git/config", ".spec-kit-memory/trash")
    with opened(root, extra_paths=extras, sources={"memory.extraPaths": "file"}) as workspace:
        workspace.index()
        assert workspace.list().total == 0


def test_an_allowed_path_that_a_link_leads_out_allows_nothing(root: Path, victim: Path) -> None:
    (root / "memory").symlink_to(victim, target_is_directory=True)
    with opened(root, isolation=Isolation(allowed_paths=("memory",))) as workspace:
        workspace.index()
        assert workspace.list().total == 0
        with pytest.raises(OutsideScope):
            workspace.save(file_path="memory/plan.md")


@pytest.mark.parametrize(
    "name", [".git/config", ".GIT/x.md", ".spec-kit-memory/trash/x.md", "sub/.git/x.md", ".git. /x"]
)
def test_gits_folder_and_ours_cannot_be_named(settings: Settings, root: Path, name: str) -> None:
    with pytest.raises(OutsideScope):
        paths.contained(settings, name, scope=settings.scope)
    with pytest.raises(OutsideScope):
        paths.place(settings, name)


@pytest.mark.parametrize(
    "name", [".git", ".GIT", ".git.", ".git ", "git~1", "\u200c.git", ".g\u200dit", ".git:x", "\uff0egit"]
)
def test_every_spelling_of_gits_folder_is_known(name: str) -> None:
    assert paths.is_reserved(name)


@pytest.mark.parametrize("name", [".github", ".gitignore", "git", "digit", "👨‍👩‍👧.md", "memory", ".spec-kit"])
def test_other_names_are_free(name: str) -> None:
    assert not paths.is_reserved(name)


# --- a link that is swapped in during the operation ----------------------------------------------------


class Swapping(filesystem.System):
    """Puts a link in the place of a folder just before the n-th change, after everything was checked."""

    def __init__(self, folder: Path, victim: Path, at: int) -> None:
        self.folder, self.victim, self.left = folder, victim, at

    def before(self, call: str, path: str) -> None:
        self.left -= 1
        if self.left == 0:
            os.rename(self.folder, self.folder.with_name("aside"))
            self.folder.symlink_to(self.victim, target_is_directory=True)


OPERATIONS: dict[str, Callable[[Workspace, int], object]] = {
    "update": lambda workspace, memory_id: workspace.update(memory_id, title="X"),
    "delete": lambda workspace, memory_id: workspace.delete(memory_id, delete_file=True),
    "save": lambda workspace, memory_id: workspace.save(text="The potoroo is small."),
    "undo": lambda workspace, memory_id: workspace.undo(),
    "restore": lambda workspace, memory_id: workspace.checkpoint_restore(
        "all", clear_existing=True, restore_files=True
    ),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_folder_that_becomes_a_link_before_any_change_of_an_operation_harms_nobody(
    tmp_path: Path, operation: str
) -> None:
    for at in range(1, 200):
        top = tmp_path / str(at)
        root, victim = top / "work", top / "victim"
        for folder in (root / "memory", victim):
            folder.mkdir(parents=True)
        (root / "memory/plan.md").write_text(PLAN, encoding="utf-8")
        (victim / "plan.md").write_text(SECRET, encoding="utf-8")
        with opened(root) as workspace:
            workspace.index()
            memory_id = workspace.list().memories[0].id
            workspace.checkpoint_create("all")
            if operation in ("undo", "restore"):
                workspace.update(memory_id, title="Before")
            before = everything(victim)
            system = Swapping(root / "memory", victim, at)
            with filesystem.using(system), suppress(SpecKitMemoryError, OSError):
                OPERATIONS[operation](workspace, memory_id)
            assert everything(victim) == before, f"{operation}, swapped before change {at}"
        if system.left > 0:
            return
    pytest.fail("the operation never ended")


@pytest.mark.timeout(300)
def test_a_folder_that_is_swapped_all_the_time_leads_no_update_astray(root: Path, victim: Path) -> None:
    (root / "memory").mkdir()
    (root / "memory/plan.md").write_text(PLAN, encoding="utf-8")
    before, ended = everything(victim), threading.Event()
    longest = 0.01  # that an update took, in seconds: sometimes one must get through, on a slow machine too

    def swap() -> None:
        pauses = random.Random(5)
        while not ended.wait(pauses.random() * 4 * longest):
            os.rename(root / "memory", root / "aside")
            try:
                (root / "memory").symlink_to(victim, target_is_directory=True)
                ended.wait(pauses.random() * 0.001)
                os.unlink(root / "memory")
            except FileExistsError:
                pass  # what was under way made the folder again in the moment when there was none
            put_back()

    def put_back() -> None:
        while (root / "aside").exists():
            shutil.rmtree(root / "memory", ignore_errors=True)
            with suppress(OSError):  # made again, with something in it
                os.rename(root / "aside", root / "memory")

    with opened(root) as workspace:
        workspace.index()
        memory_id = workspace.list().memories[0].id
        swapper = threading.Thread(target=swap)
        swapper.start()
        done = tried = 0
        try:
            while tried < 150 or (done < 5 and tried < 3000):
                tried += 1
                started = time.monotonic()
                try:
                    workspace.update(memory_id, title=f"Title {tried}")
                    done += 1
                except (SpecKitMemoryError, OSError):
                    continue
                finally:
                    longest = max(longest, time.monotonic() - started)
        finally:
            ended.set()
            swapper.join()
        assert everything(victim) == before
        assert done


# --- addresses of an index ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:hunter2@host/db",
        "postgresql://u:hunter2/x@host/db",
        "postgresql://u:hunter2?x@host/db",
        "postgresql://:hunter2@host/db",
        "postgresql:/u:hunter2@host/db",
        "u:hunter2@host/db",
        "postgresql://host/db?password=hunter2",
        "postgresql://host/db?passwor%64=hunter2",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_shown(root: Path, url: str) -> None:
    settings = Settings(root=root, semantic=Semantic(model="none"), index=IndexPlace(url=url))
    with pytest.raises(SpecKitMemoryError) as caught:
        paths.index_place(settings)
    assert "hunter2" not in f"{caught.value} {caught.value.advice} {caught.value.details}"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://host:5432/db?application_name=a@b",
        "postgresql://u@one:1,two:2/db?application_name=a@b",
        "postgresql://one:1,two:2/db?application_name=a@b",
        "postgresql://u@[::1]:5432/db",
        "postgresql://[::1]:5432/db?application_name=a@b",
        "postgresql:///db?host=/run/postgresql",
    ],
)
def test_an_address_without_a_password_is_taken(root: Path, url: str) -> None:
    settings = Settings(root=root, semantic=Semantic(model="none"), index=IndexPlace(url=url))
    assert paths.index_place(settings) == url
