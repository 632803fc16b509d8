"""Which files of a workspace are memories, and what follows from where they are?

One walk applies the rules of `discovery_rules` to every folder; real folders are walked first, links after, so that a
file has one canonical path however many links lead to it. Folders are opened name by name without following links
(`filesystem`): one that becomes a link in the middle of a walk leads nowhere.
"""

from __future__ import annotations

import os
import stat as modes
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from spec_kit_memory import filesystem
from spec_kit_memory.advice import advise
from spec_kit_memory.core.ignore import Ignore
from spec_kit_memory.core.memory import Scope, Source, Tier, is_text_name, owner_of
from spec_kit_memory.errors import BadPath, FileMissing, OutsideScope, SpecKitMemoryError
from spec_kit_memory.files import disk, paths, worktree
from spec_kit_memory.files.discovery_rules import (
    EXCLUDED,
    NEVER_ENTERED,
    DiscoveryRule,
    Segments,
    default_tier,
    exclusion_reason,
    in_area,
    is_archived,
    is_passing,
    is_pending,
    rule_for,
    skips,
)
from spec_kit_memory.files.file_errors import disk_error, in_file
from spec_kit_memory.filesystem import Place
from spec_kit_memory.index.contract import BadFile
from spec_kit_memory.settings import Settings

DEEPEST_FOLDER = 100  # nested folders; checks of every folder above a file must stay bounded
COUNTED_FOLDERS = 20_000  # outside the rules' places a walk only counts, and a whole home folder must not delay it


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A file that is a memory because of where it is."""

    path: str  # in stored form
    real: str  # where it is; a string, because a walk makes ten thousand of these
    source: Source
    spec_folder: str | None = None
    archived_folder: bool = False
    owner: str | None = None
    default_tier: Tier | None = None
    size: int = -1
    mtime_ns: int = 0

    @property
    def absolute(self) -> Path:
        return Path(self.real)


@dataclass(frozen=True, slots=True)
class Discovery:
    """The result of one walk. Nothing is known about paths below `unreadable`."""

    files: tuple[MemoryFile, ...] = ()
    undiscovered: int = 0
    skipped: tuple[tuple[str, str], ...] = ()  # path and reason, for files where a memory could be
    problems: tuple[BadFile, ...] = ()
    unreadable: tuple[str, ...] = ()
    leftovers: tuple[Path, ...] = ()  # our pending and temporary files
    linked: tuple[Path, ...] = ()  # real folders that only links lead to
    linked_as: tuple[tuple[Path, Segments], ...] = ()  # and the segments by which each is classified
    targets: frozenset[Path] = frozenset()  # real files and folders that links lead to


# --- the walk -------------------------------------------------------------------


@dataclass(slots=True)
class _Walk:
    """The state of one walk: its results and what remains to be visited."""

    settings: Settings
    excluded: Callable[[str], bool]
    files: dict[str, MemoryFile] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)  # path -> why
    problems: dict[str, BadFile] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)
    leftovers: list[Path] = field(default_factory=list)
    links: list[tuple[Segments, Path]] = field(default_factory=list)
    followed: set[Path] = field(default_factory=set)
    linked: dict[Path, Segments] = field(default_factory=dict)
    targets: set[Path] = field(default_factory=set)
    budget: int = COUNTED_FOLDERS
    prefix: str = ""

    def __post_init__(self) -> None:
        self.prefix = os.path.join(self.settings.root, "")

    def result(self) -> Discovery:
        skipped = tuple((path, self.skipped[path]) for path in sorted(self.skipped.keys() - self.files.keys()))
        return Discovery(
            tuple(self.files[path] for path in sorted(self.files)),
            sum(path.lower().endswith(".md") and why != EXCLUDED for path, why in skipped),
            skipped,
            tuple(self.problems[path] for path in sorted(self.problems)),
            tuple(self.unreadable),
            tuple(self.leftovers),
            tuple(sorted(self.linked)),
            tuple(self.linked.items()),
            frozenset(self.targets),
        )

    def place(self, real: str, *, base: Path | None = None) -> Place:
        """A real path below the root, or below another base that the user chose."""
        if real.startswith(self.prefix):
            return Place(self.settings.root, tuple(real[len(self.prefix) :].split(os.sep)))
        top = base or self.settings.root
        return Place(top, Path(real).relative_to(top).parts)

    def stored(self, real: str) -> str:
        """Like `paths.stored_form`, without creating a Path for every file."""
        path = real[len(self.prefix) :] if real.startswith(self.prefix) else real
        return path if os.sep == "/" else path.replace(os.sep, "/")

    def trouble(self, path: Path, error: SpecKitMemoryError, *, folder: bool = False) -> None:
        name = paths.stored_form(self.settings, path)
        name = name.encode("utf-8", "backslashreplace").decode("utf-8")
        message = in_file(error)
        message = message.removeprefix(path.as_posix()).removeprefix(name).strip()
        self.problems[name] = BadFile(name, error.code, message, datetime.now(UTC))
        if folder:
            self.unreadable.append(name)

    def too_deep(self, path: Path, *, counted: bool = False) -> None:
        if not counted:  # in places that are only counted, no memory can be missing
            nested = BadPath(f"nested in more than {DEEPEST_FOLDER} folders", hint="move it up, or add it to `exclude`")
            self.trouble(path, nested)


def discover(
    settings: Settings,
    *,
    only: Sequence[Path] | None = None,
    count: bool = True,
    targets: Collection[Path] | None = None,
    main: bool = True,
) -> Discovery:
    """Every memory file of the workspace; with `only`, those at or below the given real paths.

    `count=False` leaves out the places where no rule holds, which are walked only to count markdown.
    `targets` are those of all links, if known; otherwise everything is walked to find out whether one
    leads to a path where no rule holds. `main=False` leaves out the main checkout of a worktree.
    """
    _check_root(settings.root)
    walk = _Walk(settings, _exclusion(settings.exclude), budget=COUNTED_FOLDERS if count else 0)
    _start(walk, [settings.root] if only is None else only)
    while walk.links:
        _follow(walk, *walk.links.pop(0))
    _extras(walk, only)
    if main:
        _main_checkout(walk, only)
    behind = [path for path in only or () if _may_be_behind_a_link(walk, path, targets)]
    if behind:
        everything = discover(settings, count=False).files
        walk.files |= {file.path: file for file in everything if any(_inside(file.absolute, path) for path in behind)}
    return walk.result()


def _may_be_behind_a_link(walk: _Walk, path: Path, targets: Collection[Path] | None) -> bool:
    """No rule holds at the real path; may a link elsewhere lead to it?"""
    if targets is not None and not any(_inside(path, target) or _inside(target, path) for target in targets):
        return False
    if not _inside(path, walk.settings.root) or paths.stored_form(walk.settings, path) in walk.files:
        return False
    if path.is_dir():
        return not in_area(path.relative_to(walk.settings.root).parts)
    return path.exists() and is_text_name(path.name) and not is_passing(path.name)


def _check_root(root: Path) -> None:
    if not root.is_dir():
        raise FileMissing(
            f"the workspace {root.as_posix()} does not exist or is not a folder",
            hint=("name an existing folder", advise("make-workspace")),
            path=str(root),
        )
    try:
        os.scandir(root).close()
    except OSError as error:
        raise disk_error(error, root) from error


def _start(walk: _Walk, only: Sequence[Path]) -> None:
    """Visit real paths, which may be folders, files or gone."""
    single: dict[Path, set[str]] = {}
    for start in only:
        segments = _segments(walk.settings, start)
        if segments is None or any(skips(part) for part in segments[:-1]):
            continue
        if start.is_symlink():
            walk.links.append((segments, start))
        elif not start.is_dir():
            single.setdefault(start.parent, set()).add(start.name)
        elif not (segments and (skips(segments[-1]) or walk.excluded("/".join((*segments, ""))))):
            _folder(walk, segments, start)
    for folder, names in single.items():
        _some(walk, folder, names)


def _segments(settings: Settings, path: Path) -> Segments | None:
    try:
        return path.relative_to(settings.root).parts
    except ValueError:
        return None  # outside: `_extras` handles it


def _some(walk: _Walk, folder: Path, names: Collection[str]) -> None:
    """Files of one folder, under the spelling in the folder: some file systems ignore case."""
    segments = folder.relative_to(walk.settings.root).parts
    rule = rule_for(segments)
    try:
        with filesystem.listed(walk.place(str(folder))) as entries:
            for entry in entries:
                if entry.name in names:
                    _entry(walk, segments, rule, os.path.join(folder, entry.name), entry, [])
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        walk.trouble(folder, disk_error(error, folder), folder=True)


def _folder(walk: _Walk, top: Segments, real: Path) -> None:
    """Walk a folder, depth first; places of rules before places that are only counted."""
    stack = [(top, str(real))]
    aside: list[tuple[Segments, str]] = []
    while stack or aside:
        segments, place = stack.pop() if stack else aside.pop()
        for child in _children(walk, segments, place):
            if in_area(child[0]):
                stack.append(child)
            elif walk.budget > 0:
                walk.budget -= 1
                aside.append(child)


def _children(walk: _Walk, segments: Segments, real: str) -> list[tuple[Segments, str]]:
    """Record the entries of one folder; returns the folders in it that are to be walked."""
    rule = rule_for(segments)
    below: list[tuple[Segments, str]] = []
    try:
        with filesystem.listed(walk.place(real)) as entries:
            for entry in entries:
                _entry(walk, segments, rule, os.path.join(real, entry.name), entry, below)
    except OSError as error:
        walk.trouble(Path(real), disk_error(error, real), folder=True)
    return below


def _entry(
    walk: _Walk,
    segments: Segments,
    rule: DiscoveryRule | None,
    real: str,
    entry: os.DirEntry[str],
    below: list[tuple[Segments, str]],
) -> None:
    name = entry.name
    if entry.is_symlink():
        if in_area(segments):
            walk.links.append(((*segments, name), Path(real)))
        return
    if entry.is_dir(follow_symlinks=False):
        never = skips(name)
        if never or walk.excluded("/".join((*segments, name, ""))):
            if not name.startswith(".") and in_area((*segments, name)):
                walk.skipped[walk.stored(real) + "/"] = NEVER_ENTERED if never else EXCLUDED
            return
        if not _is_unicode(name):
            walk.trouble(Path(real), _unreadable_name(), folder=True)
            return
        if len(segments) >= DEEPEST_FOLDER:
            walk.too_deep(Path(real), counted=not in_area(segments))
            return
        below.append(((*segments, name), real))
        if rule is not None and rule.accepts(name) and not is_passing(name):
            walk.trouble(Path(real), _not_a_file(walk, real, "a folder"))
        return
    _file(walk, segments, rule, name, real, entry.stat)


def _file(
    walk: _Walk,
    segments: Segments,
    rule: DiscoveryRule | None,
    name: str,
    real: str,
    stat: Callable[[], os.stat_result],
) -> None:
    if is_passing(name):
        if rule is not None and (is_pending(name) or name.endswith(filesystem.TEMPORARY)):
            walk.leftovers.append(Path(real))
        return
    if rule is None or not rule.accepts(name):
        if why := exclusion_reason(segments, name, rule):
            walk.skipped[walk.stored(real)] = why
        return
    if walk.excluded("/".join((*segments, name))):
        walk.skipped[walk.stored(real)] = EXCLUDED
        return
    if not _is_unicode(name):
        walk.trouble(Path(real), _unreadable_name())
        return
    try:
        facts = stat()
    except OSError as error:
        walk.trouble(Path(real), disk_error(error, real), folder=True)
    else:
        _accept(walk, segments, rule, real, facts)


def _accept(walk: _Walk, segments: Segments, rule: DiscoveryRule, real: str, facts: os.stat_result) -> None:
    if not modes.S_ISREG(facts.st_mode):
        walk.trouble(Path(real), _not_a_file(walk, real, "not a regular file"))
        return
    path = walk.stored(real)
    if path in walk.files:
        return
    walk.files[path] = MemoryFile(
        path,
        real,
        rule.source,
        rule.spec_folder,
        is_archived(segments),
        owner_of(path) or rule.owner,  # the real path decides, whatever rule or link led to it
        default_tier(rule.source, path.rpartition("/")[2]),
        facts.st_size,
        disk.mtime_ns(facts),
    )


def _is_unicode(name: str) -> bool:
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


def _unreadable_name() -> BadPath:
    return BadPath("its name is not valid Unicode", hint="rename it")


def _not_a_file(walk: _Walk, path: str | Path, kind: str) -> BadPath:
    name = paths.stored_form(walk.settings, Path(path))
    return BadPath(f"{name} is {kind} with the name of a memory", hint="rename it, or add it to `exclude`")


# --- links ----------------------------------------------------------------------


def _follow(walk: _Walk, segments: Segments, link: Path) -> None:
    """A link is classified by its own place, but its target keeps its one canonical path."""
    name, rule = segments[-1], rule_for(segments[:-1])
    try:
        real = link.resolve(strict=True)
        inside = _inside(real, walk.settings.root)
        facts = filesystem.look(walk.place(str(real))) if inside else os.stat(real)
    except (OSError, RuntimeError) as error:
        walk.targets.add(Path(os.path.realpath(link)))  # the target may appear later
        if rule is not None and rule.accepts(name) and not is_passing(name):
            walk.trouble(link, _broken(walk, link, error))
        return
    folder = modes.S_ISDIR(facts.st_mode)
    is_wanted = in_area(segments) if folder else rule is not None and rule.accepts(name)
    if not is_wanted or (skips(name) if folder else is_passing(name)):
        return
    if not inside:
        if not any(_inside(real, base) for base in paths.extra_bases(walk.settings)):
            walk.trouble(link, paths.leads_outside(walk.settings, link))
        return
    if folder and _is_alias(walk.settings, segments, real):
        return
    walk.targets.add(real)
    if not folder:
        _file(walk, segments[:-1], rule, name, str(real), lambda: facts)
    elif real not in walk.followed and real not in link.parents:
        _linked_folder(walk, segments, real)


def _linked_folder(walk: _Walk, segments: Segments, real: Path) -> None:
    """Each real folder is entered through links at most once, which ends every loop."""
    walk.followed.add(real)
    if walk.excluded("/".join((*segments, ""))):
        return
    walk.linked[real] = segments
    stack = [(segments, real)]
    while stack:
        logical, place = stack.pop()
        for child, path in _children(walk, logical, str(place)):
            if Path(path) not in walk.followed and in_area(child):
                walk.followed.add(Path(path))
                stack.append((child, Path(path)))


def _is_alias(settings: Settings, segments: Segments, real: Path) -> bool:
    """`specs` and `.opencode/specs` are often one folder, which is then walked under its real name only."""
    roots = {settings.root / "specs", settings.root / ".opencode" / "specs"}
    return settings.root.joinpath(*segments) in roots and real in roots


def _inside(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


def _broken(walk: _Walk, link: Path, error: Exception) -> SpecKitMemoryError:
    name = paths.stored_form(walk.settings, link)
    if isinstance(error, FileNotFoundError):
        return FileMissing(f"{name} is a link to nothing", hint="remove or mend the link")
    if isinstance(error, (PermissionError, filesystem.Redirected)):
        return disk_error(error, name)
    return BadPath(f"{name} is a link that leads to itself", hint="remove the link")


# --- extra paths and exclusions -----------------------------------------------------


def _extras(walk: _Walk, only: Sequence[Path] | None) -> None:
    """Each folder is walked once, however many patterns name it."""
    patterns: dict[Path, list[Segments]] = {}
    for extra in walk.settings.extra_paths:
        base, pattern = paths.split_glob(walk.settings, extra)
        real = paths.extra_base(walk.settings, extra)
        if real is None:
            walk.trouble(base, paths.leads_outside(walk.settings, base))
        elif real.exists():
            patterns.setdefault(real, []).append(pattern)
        else:
            missing = FileMissing(f"the extra path {extra} does not exist", hint="mend `memory.extraPaths`")
            walk.trouble(base, missing)
    for real, globs in patterns.items():
        _extra(walk, real, globs, only)


def _main_checkout(walk: _Walk, only: Sequence[Path] | None) -> None:
    """In a linked worktree, add the main checkout's memories by default discovery; the worktree's own files win."""
    main = worktree.main_checkout(walk.settings.root)
    if main is None or (only is not None and not any(_inside(path, main) for path in only)):
        return
    there = replace(walk.settings, root=main, extra_paths=(), repository_paths=frozenset())
    for file in discover(there, only=only, count=False, main=False).files:
        if file.path not in walk.files and not os.path.lexists(walk.settings.root / file.path):
            path = (main / file.path).as_posix()
            walk.files.setdefault(path, replace(file, path=path))


def _extra(walk: _Walk, real: Path, patterns: Collection[Segments], only: Sequence[Path] | None) -> None:
    if real.is_file():
        if only is None or any(_inside(real, start) for start in only):
            rule, place = DiscoveryRule(Source.CUSTOM, lambda name: True), walk.place(str(real), base=real.parent)
            _file(walk, (), rule, real.name, str(real), lambda: filesystem.look(place))
        return
    for start in [real] if only is None else only:
        if _inside(start, real):
            _extra_folder(walk, real, patterns, start)
        elif _inside(real, start):
            _extra_folder(walk, real, patterns, real)


def _extra_folder(walk: _Walk, base: Path, patterns: Collection[Segments], start: Path) -> None:
    first = start.relative_to(base).parts
    if any(skips(part) for part in first[:-1]):
        return
    if not start.is_dir():
        if start.is_file():
            _extra_file(walk, patterns, first, start, base)
        return
    stack, seen = [(first, start)], {start}
    while stack:
        segments, place = stack.pop()
        try:
            with filesystem.listed(walk.place(str(place), base=base)) as listed:
                entries = sorted(
                    (entry.name, entry.is_symlink(), entry.is_dir(follow_symlinks=False)) for entry in listed
                )
        except OSError as error:
            walk.trouble(place, disk_error(error, place), folder=True)
            continue
        for name, link, folder in entries:
            real = Path(os.path.realpath(place / name)) if link else place / name
            below = (*segments, name)
            if link:
                walk.targets.add(real)
            if not (_inside(real, base) or _inside(real, walk.settings.root)):
                continue
            if not (real.is_dir() if link else folder):
                _extra_file(walk, patterns, below, real, base)
            elif len(below) > DEEPEST_FOLDER:
                walk.too_deep(real)
            elif real not in seen and not skips(name) and not walk.excluded("/".join((*below, ""))):
                seen.add(real)
                stack.append((below, real))


def _extra_file(walk: _Walk, patterns: Collection[Segments], segments: Segments, real: Path, base: Path) -> None:
    if not is_text_name(segments[-1]):
        return
    if any(not pattern or glob_matches(segments, pattern) for pattern in patterns):
        rule = DiscoveryRule(Source.CUSTOM, is_text_name)
        place = walk.place(str(real), base=base)
        _file(walk, segments[:-1], rule, segments[-1], str(real), lambda: filesystem.look(place))


def glob_matches(segments: Segments, pattern: Segments) -> bool:
    """Match segment by segment, `**` for any number of them, in bounded time for every pattern."""
    reached = {0}
    for i, piece in enumerate(pattern):
        if piece == "**":
            reached = set(range(min(reached), len(segments) + 1))
            if i == len(pattern) - 1:
                return True
        else:
            reached = {at + 1 for at in reached if at < len(segments) and fnmatchcase(segments[at], piece)}
        if not reached:
            return False
    return len(segments) in reached


def _exclusion(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    return _ignore(patterns) if patterns else lambda path: False


_ignore = lru_cache(maxsize=8)(Ignore)


def areas(settings: Settings) -> tuple[Path, ...]:
    """The existing real folders below which a memory can be, for the watcher.

    A link out of the workspace is left out: `specs` may lead to the root of the disk, all of which would be watched.
    """
    fixed = ("specs", ".opencode/specs", "memory", "constitutional", ".specify/memory")
    roots = [root for root in (settings.root, worktree.main_checkout(settings.root)) if root is not None]
    candidates = [root / folder for root in roots for folder in fixed]
    candidates += [folder for root in roots for folder in (root / ".opencode").glob("skill*")]
    extra = paths.extra_bases(settings)
    allowed = {Path(os.path.realpath(folder)) for folder in (*roots, *extra)}
    folders = {Path(os.path.realpath(folder)) for folder in (*candidates, *extra) if folder.is_dir()}
    real = {folder for folder in folders if allowed.intersection((folder, *folder.parents))}
    return tuple(sorted(folder for folder in real if not real.intersection(folder.parents)))


# --- one file -------------------------------------------------------------------


def locate(settings: Settings, path: str | Path, *, scope: Scope) -> MemoryFile:
    """The file that a caller named, if it may be read and a rule makes it a memory."""
    real = paths.contained(settings, path, scope=scope)
    if not real.exists():
        raise FileMissing(f"{path} does not exist", hint=advise("name-a-file"), path=str(path))
    return locate_real(settings, path, real)


def locate_real(settings: Settings, path: str | Path, real: Path) -> MemoryFile:
    """`locate` for callers without a session: the watcher and recovery."""
    file = {candidate.absolute: candidate for candidate in discover(settings, only=[real], count=False).files}.get(real)
    if file is None:
        disk.read(paths.place(settings, real))  # raises for a folder, a device or a binary file
        raise BadPath(
            f"{path} is not in a place where memories are found",
            hint="move it to specs/<folder>/memory/ or memory/, or add it to `memory.extraPaths`",
            path=str(path),
        )
    return file


def file_to_change(settings: Settings, stored: str, *, scope: Scope) -> Place:
    """The file of a memory, existing or not, for a caller who wants to write, create, move or remove it.

    Decided at each call, by what the path leads to now: it must be in the caller's scope, lead to the file that the
    index names, and be where discovery finds memories by its own rules, not by the user's `extraPaths` alone.
    """
    return _changeable(settings, stored, paths.contained(settings, stored, scope=scope))


def file_to_recover(settings: Settings, stored: str) -> Place:
    """`file_to_change` for what any other session left unfinished."""
    return _changeable(settings, stored, paths.resolved(settings, stored).path)


def _changeable(settings: Settings, stored: str, real: Path) -> Place:
    if paths.stored_form(settings, real) != stored:
        raise _not_ours(stored, "its path leads to another place now")
    if not _is_home(settings, real):
        raise _not_ours(stored, "it is not in a place where memories are found")
    return paths.place(settings, real)


def _not_ours(stored: str, reason: str) -> OutsideScope:
    return OutsideScope(
        f"{stored} is not changed: {reason}",
        hint=advise("index-in-step"),
    )


def _is_home(settings: Settings, real: Path) -> bool:
    """Would a walk treat a file at this path as a memory of the project?"""
    if not _inside(real, settings.root):
        return False
    excluded = _exclusion(settings.exclude)
    if _is_taken(real.relative_to(settings.root).parts, excluded):
        return True
    walked = discover(replace(settings, extra_paths=()), count=False)  # a link elsewhere may lead to it
    linked = [(folder, logical) for folder, logical in walked.linked_as if folder in real.parents]
    below = ((*logical, *real.relative_to(folder).parts) for folder, logical in linked)
    return any(file.absolute == real for file in walked.files) or any(
        _is_taken(segments, excluded) for segments in below
    )


def _is_taken(segments: Segments, excluded: Callable[[str], bool]) -> bool:
    """Do the rules alone make a file of that name in that folder a memory?"""
    *folders, name = segments or ("",)
    rule = rule_for(tuple(folders))
    if rule is None or not rule.accepts(name) or is_passing(name) or any(map(skips, folders)):
        return False
    above = ("/".join((*folders[:depth], "")) for depth in range(1, len(folders) + 1))
    return not excluded("/".join(segments)) and not any(map(excluded, above))


def place(settings: Settings, path: Path, *, real: Path, facts: os.stat_result) -> MemoryFile | None:
    """The memory that a file at `path`, below the root, would be; it need not exist yet. None: no memory."""
    if not _inside(path, settings.root):
        return None
    segments = path.relative_to(settings.root).parts
    if not segments or any(skips(part) for part in segments[:-1]):
        return None
    walk = _Walk(settings, _exclusion(settings.exclude))
    _file(walk, segments[:-1], rule_for(segments[:-1]), segments[-1], str(real), lambda: facts)
    return next(iter(walk.files.values()), None)
