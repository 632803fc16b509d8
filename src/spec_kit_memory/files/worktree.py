"""Where is the main checkout of a linked worktree? Its memories are found from the worktree too, but never changed.

A `.git` file may have come with an archive, so it is believed only if the folder that it names is in `worktrees` of a
repository that in turn names this worktree, and one user owns both checkouts. Of the main checkout only the
places of default discovery are ever read.
"""

from __future__ import annotations

import stat
from collections.abc import Collection
from pathlib import Path

from spec_kit_memory import filesystem
from spec_kit_memory.files import git
from spec_kit_memory.files.discovery_rules import Segments, is_passing, rule_for, skips
from spec_kit_memory.filesystem import Place


def main_checkout(root: Path) -> Path | None:
    """The folder of the main checkout that corresponds to this workspace, a worktree or a folder in one."""
    located = git.located(root)
    if located is None or located.folder == located.common:
        return None  # most workspaces: decided by one or two file system calls
    try:
        is_file = stat.S_ISREG(filesystem.look(Place(located.top, (".git",))).st_mode)
    except OSError:
        return None
    return _believed(root, located) if is_file else None


def _believed(root: Path, located: git.Located) -> Path | None:
    common = located.common.path
    if common.name != ".git" or located.folder.path.parent != common / "worktrees":
        return None  # a submodule, or a bare repository without a checkout
    folders = root.relative_to(located.top).parts
    main = common.parent.joinpath(*folders)
    if main == root or root in main.parents:
        return None  # the main checkout is in this workspace: ordinary discovery applies
    places = [Place(root), Place(located.top), Place(common.parent, folders), Place(common.parent), Place(common)]
    try:
        facts = [filesystem.look(place) for place in places]
    except OSError:
        return None
    return main if len({fact.st_uid for fact in facts}) == 1 and all(stat.S_ISDIR(f.st_mode) for f in facts) else None


def with_counterparts(root: Path, changed: Collection[Path]) -> list[Path]:
    """The changed paths and their counterparts in the main checkout, which a file here may now hide or reveal."""
    main = main_checkout(root)
    if main is None:
        return sorted(changed)
    return sorted({*changed, *(main / path.relative_to(root) for path in changed if path.is_relative_to(root))})


def is_memory_place(segments: Segments) -> bool:
    """Does default discovery treat a file of this path as a memory?"""
    *folders, name = segments or ("",)
    rule = rule_for(tuple(folders))
    return rule is not None and rule.accepts(name) and not is_passing(name) and not any(map(skips, folders))
