from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from spec_kit_memory.core.memory import Source, Tier
from spec_kit_memory.errors import AccessDenied, BadPath, FileMissing, OutsideScope, TooLarge
from spec_kit_memory.files.discover import areas, discover, glob_matches, locate
from spec_kit_memory.settings import Isolation, Settings

Write = Callable[..., Path]


def paths(settings: Settings) -> list[str]:
    return [file.path for file in discover(settings).files]


def test_every_rule_finds_its_files_and_the_rest_are_counted(settings: Settings, write: Write) -> None:
    expected = [
        ".opencode/skill/git/constitutional/rule.md",
        ".opencode/specs/002-b/memory/b.md",
        ".specify/memory/constitution.md",
        "MEMORY.md",
        "constitutional/rule.md",
        "memory/note.md",
        "memory/users/ann/own.md",
        "specs/001-a/contracts/api.md",
        "specs/001-a/memory/a.md",
        "specs/001-a/spec.md",
        "specs/001-a/z_archive/memory/old.txt",
    ]
    other = ["README.md", "docs/deep/guide.md", "constitutional/README.md", "specs/001-a/notes.md"]
    unseen = [
        "node_modules/x/README.md",
        ".git/x.md",
        "specs/001-a/build/spec.md",
        "src/code.py",
        ".spec-kit-memory/x.md",
    ]
    for path in (*expected, *other, *unseen):
        write(path)
    seen = discover(settings)
    assert [file.path for file in seen.files] == sorted(expected)
    assert seen.undiscovered == len(other)
    assert seen.problems == ()
    archived = {file.path for file in seen.files if file.archived_folder}
    assert archived == {"specs/001-a/z_archive/memory/old.txt"}


def test_what_stands_where_a_memory_could_is_named_with_the_reason(root: Path, write: Write) -> None:
    expected = {
        "README.md": "outside-memories",
        "constitutional/README.md": "beside-rules",
        "memory/photo.png": "not-markdown",
        "memory/2026/a.md": "below-memory",
        "specs/001-a/memory/deep/a.md": "below-memory",
        "specs/001-a/memory/a.rst": "not-markdown",
        "specs/001-a/memory/secret.md": "excluded",
        "specs/001-a/notes.md": "no-spec-document",
        "specs/001-a/scratch/spec.md": "in-scratch",
        "specs/001-a/build/": "folders-never-entered",
        "specs/002-b/": "excluded",
    }
    for path in expected:
        write(f"{path}spec.md" if path.endswith("/") else path)
    for path in (
        "memory/a.md",
        "specs/001-a/memory/metadata.json",
        "specs/001-a/.git/x.md",
        "src/code.py",
        "lib/x.txt",
    ):
        write(path)
    seen = discover(Settings(root=root, exclude=("specs/002-b/", "secret.md")))
    assert [file.path for file in seen.files] == ["memory/a.md"]
    assert dict(seen.skipped) == expected


def test_a_found_file_knows_its_size_and_time(settings: Settings, write: Write) -> None:
    file = write("memory/a.md", "hello")
    os.utime(file, ns=(5_000_000_000, 7_000_000_000))
    [found] = discover(settings).files
    assert (found.size, found.mtime_ns, found.absolute) == (5, 7_000_000_000, file)


def test_without_counting_only_places_of_rules_are_walked(settings: Settings, write: Write) -> None:
    write("docs/guide.md")
    write("memory/a.md")
    seen = discover(settings, count=False)
    assert (len(seen.files), seen.undiscovered) == (1, 0)


def test_a_limited_walk_sees_what_is_at_or_below_the_given_paths(settings: Settings, write: Write, root: Path) -> None:
    for path in ("specs/001-a/memory/a.md", "specs/001-a/spec.md", "specs/002-b/spec.md", "memory/m.md"):
        write(path)
    result = discover(settings, only=[root / "specs/001-a", root / "memory/m.md", root / "specs/gone.md"]).files
    assert [item.path for item in result] == ["memory/m.md", "specs/001-a/memory/a.md", "specs/001-a/spec.md"]


def test_a_specs_folder_that_is_a_link_makes_no_second_memory(settings: Settings, write: Write, root: Path) -> None:
    write(".opencode/specs/001-a/memory/a.md")
    (root / "specs").symlink_to(".opencode/specs")
    assert paths(settings) == [".opencode/specs/001-a/memory/a.md"]


def test_a_linked_file_keeps_its_one_canonical_path(settings: Settings, write: Write, root: Path) -> None:
    write("memory/a.md")
    write("docs/design.md")
    (root / "memory/again.md").symlink_to("a.md")
    (root / "memory/design.md").symlink_to("../docs/design.md")
    assert paths(settings) == ["docs/design.md", "memory/a.md"]
    [design, _] = discover(settings).files
    assert design.source is Source.MEMORY


def test_a_spec_folder_may_be_a_link_to_another_place_of_the_workspace(
    settings: Settings, write: Write, root: Path
) -> None:
    write("docs/auth/memory/a.md")
    write("docs/auth/spec.md")
    (root / "specs").mkdir()
    (root / "specs/007-auth").symlink_to("../docs/auth")
    seen = discover(settings)
    assert [(file.path, file.spec_folder) for file in seen.files] == [
        ("docs/auth/memory/a.md", "007-auth"),
        ("docs/auth/spec.md", "007-auth"),
    ]
    assert seen.linked == (root / "docs/auth",)


def test_loops_of_links_end(settings: Settings, write: Write, root: Path) -> None:
    write("specs/001-a/memory/a.md")
    (root / "specs/001-a/up").symlink_to("..")
    (root / "specs/001-a/self").symlink_to("self")
    (root / "specs/001-a/memory/loop.md").symlink_to("loop.md")
    seen = discover(settings)
    assert [file.path for file in seen.files] == ["specs/001-a/memory/a.md"]
    assert [(bad.path, bad.code) for bad in seen.problems] == [("specs/001-a/memory/loop.md", "E014")]
    assert "remove the link" in seen.problems[0].message


def test_a_link_out_of_the_workspace_is_reported_and_not_followed(
    settings: Settings, write: Write, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    (outside / "memory").mkdir(parents=True)
    (outside / "memory/secret.md").write_text("secret")
    write("memory/a.md")
    (root / "specs").mkdir()
    (root / "specs/001-a").symlink_to(outside)
    (root / "memory/b.md").symlink_to(outside / "memory/secret.md")
    seen = discover(settings)
    assert [file.path for file in seen.files] == ["memory/a.md"]
    assert [(bad.path, bad.code) for bad in seen.problems] == [("memory/b.md", "E110"), ("specs/001-a", "E110")]
    assert all("extraPaths" in bad.message and "outside/" not in bad.message for bad in seen.problems)


def test_extra_paths_take_in_files_folders_and_globs_as_custom(
    settings: Settings, write: Write, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    (outside / "deep/node_modules").mkdir(parents=True)
    for name in ("deep/a.md", "b.txt", "c.png", "deep/node_modules/d.md"):
        (outside / name).write_text("text")
    (tmp_path / "single").write_text("text")
    write("docs/x/one.md")
    write("docs/two.md")
    write("memory/m.md")
    extra = replace(settings, extra_paths=(str(outside), str(tmp_path / "single"), "docs/*/*.md", "memory"))
    results = {file.path: file.source for file in discover(extra).files}
    assert results == {
        f"{outside.as_posix()}/deep/a.md": Source.CUSTOM,
        f"{outside.as_posix()}/b.txt": Source.CUSTOM,
        (tmp_path / "single").as_posix(): Source.CUSTOM,
        "docs/x/one.md": Source.CUSTOM,
        "memory/m.md": Source.MEMORY,
    }


def test_a_missing_extra_path_is_reported(settings: Settings) -> None:
    [bad] = discover(replace(settings, extra_paths=("../nowhere",))).problems
    assert bad.code == "E010"
    assert "../nowhere" in bad.message


def test_a_link_out_of_an_extra_folder_is_not_followed(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "extra").mkdir()
    (tmp_path / "secret.md").write_text("secret")
    (tmp_path / "extra/link.md").symlink_to("../secret.md")
    assert discover(replace(settings, extra_paths=(str(tmp_path / "extra"),))).files == ()


def test_exclude_works_as_gitignore_does(settings: Settings, write: Write) -> None:
    for path in ("specs/001-a/memory/a.md", "specs/002-b/memory/b.md", "memory/draft-1.md", "memory/draft-2.md"):
        write(path)
    chosen = replace(settings, exclude=("specs/002-b/", "draft-*", "!draft-2.md"))
    assert paths(chosen) == ["memory/draft-2.md", "specs/001-a/memory/a.md"]


def test_a_folder_named_like_a_memory_is_reported_and_the_rest_go_on(settings: Settings, write: Write) -> None:
    write("memory/a.md")
    write("memory/x.md/inside.md")
    seen = discover(settings)
    assert [file.path for file in seen.files] == ["memory/a.md"]
    assert [(bad.path, bad.code) for bad in seen.problems] == [("memory/x.md", "E014")]
    assert "rename" in seen.problems[0].message


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_named_like_a_memory_is_reported(settings: Settings, write: Write, root: Path) -> None:
    write("memory/a.md")
    os.mkfifo(root / "memory/pipe.md")
    assert [(bad.path, bad.code) for bad in discover(settings).problems] == [("memory/pipe.md", "E014")]


@pytest.mark.skipif(os.name == "nt", reason="names are Unicode there")
def test_a_name_that_is_not_unicode_is_reported(settings: Settings, write: Write, root: Path) -> None:
    write("memory/a.md")
    try:
        Path(os.fsdecode(os.fsencode(root) + b"/memory/\xff.md")).write_text("text")
    except OSError:
        pytest.skip("this file system takes only Unicode names")
    [bad] = discover(settings).problems
    assert bad.code == "E014"
    bad.path.encode("utf-8")


def test_an_unreadable_folder_is_reported_and_nothing_is_said_about_what_is_below(
    open_root: Path, without_privileges: Callable[[], AbstractContextManager[None]]
) -> None:
    (open_root / "specs/001-a/memory").mkdir(parents=True)
    (open_root / "specs/001-a/memory/a.md").write_text("text")
    (open_root / "memory").mkdir()
    (open_root / "memory/b.md").write_text("text")
    (open_root / "specs/001-a").chmod(0)
    with without_privileges():
        seen = discover(Settings(root=open_root))
    assert [file.path for file in seen.files] == ["memory/b.md"]
    assert [(bad.path, bad.code) for bad in seen.problems] == [("specs/001-a", "E011")]
    assert "access" in seen.problems[0].message
    assert seen.unreadable == ("specs/001-a",)


def test_a_missing_workspace_is_an_error_that_says_so(settings: Settings, root: Path) -> None:
    root.rmdir()
    with pytest.raises(FileMissing) as caught:
        discover(settings)
    assert root.as_posix() in caught.value.message
    assert "make-workspace" in [getattr(step, "code", "") for step in caught.value.advice]


def test_an_unreadable_workspace_is_an_error(
    open_root: Path, without_privileges: Callable[[], AbstractContextManager[None]]
) -> None:
    open_root.chmod(0)
    with without_privileges(), pytest.raises(AccessDenied):
        discover(Settings(root=open_root))


def test_pending_and_temporary_files_are_left_over_not_found(settings: Settings, write: Write, root: Path) -> None:
    write("memory/a.md")
    left = [write("memory/x_pending.md"), write("memory/.a.md.12ab.skm.tmp")]
    write("memory/.a.md.swp")
    write("memory/b.md.tmp")
    seen = discover(settings)
    assert [file.path for file in seen.files] == ["memory/a.md"]
    assert sorted(seen.leftovers) == sorted(left)
    assert seen.undiscovered == 0


# --- one named file


def test_a_named_file_is_located_under_its_canonical_path(settings: Settings, write: Write, root: Path) -> None:
    write(".opencode/specs/001-a/memory/a.md")
    (root / "specs").symlink_to(".opencode/specs")
    names: list[str | Path] = [
        "specs/001-a/memory/a.md",
        "specs/001-a/../001-a/memory/a.md",
        root / ".opencode/specs/001-a/memory/a.md",
        "./specs//001-a/memory/a.md",
    ]
    assert {locate(settings, name, scope=settings.scope).path for name in names} == {
        ".opencode/specs/001-a/memory/a.md"
    }


def test_a_named_link_counts_by_the_place_where_it_stands(settings: Settings, write: Write, root: Path) -> None:
    write("docs/design.md")
    (root / "memory").mkdir()
    (root / "memory/design.md").symlink_to("../docs/design.md")
    result = locate(settings, "memory/design.md", scope=settings.scope)
    assert (result.path, result.source) == ("docs/design.md", Source.MEMORY)


def test_a_named_file_that_no_rule_finds_is_refused_with_a_next_step(settings: Settings, write: Write) -> None:
    write("docs/design.md")
    with pytest.raises(BadPath) as caught:
        locate(settings, "docs/design.md", scope=settings.scope)
    assert "extraPaths" in caught.value.hint


def test_named_files_that_cannot_be_read_say_why(settings: Settings, write: Write, tmp_path: Path) -> None:
    write("memory/x.md/inside.md")
    write("docs/big.md", b"x" * 2_000_000)
    with pytest.raises(FileMissing):
        locate(settings, "memory/none.md", scope=settings.scope)
    with pytest.raises(BadPath):
        locate(settings, "memory/x.md", scope=settings.scope)
    with pytest.raises(TooLarge):
        locate(settings, "docs/big.md", scope=settings.scope)
    with pytest.raises(OutsideScope):
        locate(settings, tmp_path / "other.md", scope=settings.scope)


def test_a_file_outside_the_allowed_paths_cannot_be_named(settings: Settings, write: Write) -> None:
    write("memory/a.md")
    write("memory/users/ann/a.md")
    limited = replace(settings, isolation=Isolation(user_id="ann", allowed_paths=("memory/users/ann",)))
    assert locate(limited, "memory/users/ann/a.md", scope=limited.scope).owner == "ann"
    with pytest.raises(OutsideScope):
        locate(limited, "memory/a.md", scope=limited.scope)


def test_constitutional_files_start_constitutional(settings: Settings, write: Write) -> None:
    write("constitutional/a.md")
    assert locate(settings, "constitutional/a.md", scope=settings.scope).default_tier is Tier.CONSTITUTIONAL


# --- patterns


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("a.md", "*.md", True),
        ("x/a.md", "*.md", False),
        ("x/a.md", "*/*.md", True),
        ("x/y/a.md", "**/*.md", True),
        ("a.md", "**/*.md", True),
        ("x/y/a.md", "**", True),
        ("x/y/a.md", "x/**/a.md", True),
        ("x/a.md", "x/**/a.md", True),
        ("z/y/a.md", "x/**/a.md", False),
        ("x/b.md", "x/[ab].md", True),
        ("x/c.md", "x/[ab].md", False),
        ("x/y/a.md", "**/y/**/*.md", True),
    ],
)
def test_globs_match_by_segments(path: str, pattern: str, expected: bool) -> None:
    assert glob_matches(tuple(path.split("/")), tuple(pattern.split("/"))) is expected


def test_a_hostile_pattern_ends(settings: Settings) -> None:
    segments = ("a",) * 200
    assert not glob_matches(segments, ("**", "*a*a*a*a*a*") * 100 + ("b",))


def test_areas_are_the_real_folders_that_exist(settings: Settings, write: Write, root: Path) -> None:
    assert areas(settings) == ()
    write(".opencode/specs/001-a/spec.md")
    write("memory/a.md")
    (root / "specs").symlink_to(".opencode/specs")
    assert areas(settings) == (root / ".opencode/specs", root / "memory")


# --- what a hostile repository brings


def test_a_link_out_of_the_workspace_is_not_watched(settings: Settings, write: Write, root: Path) -> None:
    """`specs` that leads to the root of the disk: every folder of the machine would be watched for changes."""
    write("memory/a.md")
    (root / "specs").symlink_to("/")
    (root / ".opencode").mkdir()
    (root / ".opencode" / "skills").symlink_to(root.parent)
    assert areas(settings) == (root / "memory",)
    user_given = root.parent / "shared"
    user_given.mkdir()
    assert areas(replace(settings, extra_paths=(str(user_given),))) == tuple(sorted((root / "memory", user_given)))


def test_a_pattern_that_fits_in_many_ways_does_not_hold_up_the_walk(settings: Settings, write: Write) -> None:
    for number in range(20):
        write(f"memory/{'a' * 200}{number}.md")
    hostile = tuple(f"*{'a*' * 12}{number}b" for number in range(100))
    seen = discover(replace(settings, exclude=(*hostile, "*a*a*a*a*a*ab")))
    assert len(seen.files) == 20


def test_folders_that_are_nested_without_end_are_named_and_left_alone(settings: Settings, root: Path) -> None:
    (root / "specs" / "/".join("f" * 150)).mkdir(parents=True)
    for given in (settings, replace(settings, extra_paths=("specs",)), replace(settings, exclude=("**/x" * 50,))):
        seen = discover(given)
        assert [problem.code for problem in seen.problems] == ["E014"] * len(seen.problems)
        assert 1 <= len(seen.problems) <= 2
        assert "nested in more than 100 folders" in seen.problems[0].message


def test_a_folder_that_many_patterns_name_is_walked_once(
    settings: Settings, write: Write, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        write(f"docs/{name}/x.md")
    walked: list[int] = []
    scandir = os.scandir

    def counted(path: str | int) -> object:
        walked.append(os.stat(path).st_ino)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", counted)
    many = replace(settings, extra_paths=tuple(f"docs/**/x{'*' * number}.md" for number in range(50)))
    assert [file.path for file in discover(many, count=False).files] == ["docs/a/x.md", "docs/b/x.md", "docs/c/x.md"]
    assert walked.count((root / "docs/a").stat().st_ino) == 1


@pytest.mark.parametrize(("above", "extra"), [("specs/001-a", ()), ("docs", ("docs",)), ("docs", ("docs/**/*.md",))])
def test_a_folder_that_becomes_a_link_in_the_middle_of_a_walk_leads_nowhere(
    settings: Settings, write: Write, root: Path, monkeypatch: pytest.MonkeyPatch, above: str, extra: tuple[str, ...]
) -> None:
    """The folder above it was listed while it was still a folder."""
    write(f"{above}/memory/plan.md")
    folder = root / above / "memory"
    victim = root.parent / "victim"
    victim.mkdir()
    (victim / "plan.md").write_text("private")
    scandir = os.scandir

    class Listed(list["os.DirEntry[str]"]):
        def __enter__(self) -> Listed:
            return self

        def __exit__(self, *_: object) -> None:
            self.close()

        def close(self) -> None:
            pass

    def swapping(path: str | int) -> object:
        entries = Listed(scandir(path))
        if "memory" in [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]:
            folder.rename(root / "aside")
            folder.symlink_to(victim, target_is_directory=True)
        return entries

    monkeypatch.setattr(os, "scandir", swapping)
    discovered = discover(replace(settings, extra_paths=extra), count=False)
    assert folder.is_symlink()
    assert discovered.files == ()
    assert set(discovered.unreadable) == {f"{above}/memory"}, "what is below is not known, and not gone"
