"""How is the index kept in step with git? Blobs that discovery would find are copied to a private folder and scanned.

So there is one way into the index: files from git are redacted, parsed and split like all others. A path with a change
that is not in git yet is skipped, because the index is ahead of git there. Unusual entries in a tree are skipped.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from spec_kit_memory import filesystem
from spec_kit_memory.core.memory import CHAT, Presence, is_text_name, owner_of
from spec_kit_memory.files import discover, disk, outgoing, paths
from spec_kit_memory.files.scan import Sync
from spec_kit_memory.filesystem import Place
from spec_kit_memory.index.postgres.engine import PostgresIndex
from spec_kit_memory.index.postgres.outbox import Outbox
from spec_kit_memory.settings import CONFIG, Settings, repository_excludes
from spec_kit_memory.team.repository import Repository, TreeFile
from spec_kit_memory.team.scratch import remove_folder

AT_ONCE = 50  # files in one transaction
_LONGEST = 1_000
_LONGEST_PART = 255  # bytes
_LFS = b"version https://git-lfs"
IsMemory = Callable[[str, int], bool]  # by path and size


@dataclass(slots=True)
class Mirrored:
    """What one round changed in the index."""

    changed: int = 0
    gone: int = 0
    left: int = 0  # paths with a change that is not in git yet
    skipped: dict[str, int] = field(default_factory=dict)  # kind of entry -> how many


class Mirror:
    """Updates the index from git for the holder of the project's lease. `settings.root` is the private folder.

    `require_lease` raises if another replica holds the lease by now. It is called under the project's lock: a process
    that was suspended for a minute would otherwise bring the index back to an old state of git.
    """

    def __init__(
        self,
        repository: Repository,
        index: PostgresIndex,
        settings: Settings,
        now: Callable[[], datetime],
        *,
        require_lease: Callable[[], None] = lambda: None,
    ) -> None:
        self.require_lease = require_lease
        self._repository = repository
        self._index = index
        self._settings = settings
        self._sync = Sync(index, settings, now=now)
        self._blobs: dict[str, str] | None = None  # path -> blob in the index; None: not known yet

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def _outbox(self) -> Outbox:
        outbox = self._index.outbox
        assert outbox is not None
        return outbox

    def forget(self) -> None:
        """Discard the cached state of the index, as another replica may have changed it."""
        self._blobs = None

    def bring(self, branch: str | None, save_branch: str | None) -> Mirrored:
        """Bring the index in step with these two commits."""
        mirrored = Mirrored()
        wanted = self._wanted(branch, save_branch, mirrored)
        blobs = self._blobs if self._blobs is not None else self._indexed()
        changed = [path for path, blob in wanted.items() if blobs.get(path) != blob]
        gone = [path for path in blobs if path not in wanted]
        self._blobs = {path: blob for path, blob in wanted.items() if blobs.get(path) == blob}
        self._take_out(gone, mirrored)  # first: a folder may have the name that a file had
        for start in range(0, len(changed), AT_ONCE):
            some = changed[start : start + AT_ONCE]
            contents = dict(self._repository.blobs(sorted({wanted[path] for path in some})))
            texts = {path: contents[wanted[path]] for path in some}
            for path in [path for path, data in texts.items() if data.startswith(_LFS)]:
                del texts[path]
                _count(mirrored.skipped, "LFS pointers")
            for path, data in texts.items():
                self.write(path, data)
            done = self._scan(list(texts))
            self._blobs |= {path: wanted[path] for path in done}
            mirrored.changed += len(done)
            mirrored.left += len(texts) - len(done)
        return mirrored

    def _take_out(self, gone: Sequence[str], mirrored: Mirrored) -> None:
        blobs = self._blobs
        assert blobs is not None
        for start in range(0, len(gone), AT_ONCE):
            some = gone[start : start + AT_ONCE]
            for path in some:
                self.write(path, None)
            done = self._scan(some)
            blobs |= {path: "" for path in some if path not in done}  # removed once no change is on its way
            mirrored.gone += len(done)
            mirrored.left += len(some) - len(done)

    def _scan(self, some: Sequence[str]) -> list[str]:
        """Index these files, except those with a change that is not in git yet; no change is accepted meanwhile."""
        with self._index.together():
            self.require_lease()
            busy = self._outbox.undelivered_paths()
            free = [path for path in some if path not in busy]
            if free:
                self._sync.scan(only=[paths.absolute(self._settings, path) for path in free], count=False)
        return free

    def move(self, old: str, new: str, data: bytes, *, also: Callable[[], None]) -> None:
        """Change a memory's path, in one transaction with what `also` writes."""
        self.write(old, None)
        self.write(new, data)
        with self._index.together():
            self.require_lease()
            also()
            self._sync.scan(only=[paths.absolute(self._settings, path) for path in (old, new)], count=False)
        if self._blobs is not None:
            self._blobs.pop(old, None)

    def write(self, path: str, data: bytes | None) -> None:
        place = paths.place(self._settings, path)
        if data is None:
            if _kind(place) is stat.S_ISREG:
                filesystem.remove(place)
            return
        self._make_way(place)
        filesystem.make_folders(place.parent, mode=0o700)
        filesystem.replace(place, data, mode=0o600, synced=False)

    def _make_way(self, place: Place) -> None:
        """Remove a copy that blocks this place: a file may have become a folder, or the reverse."""
        above = [Place(place.base, place.names[:depth]) for depth in range(1, len(place.names))]
        for folder in above:
            if _kind(folder) is stat.S_ISREG:
                filesystem.remove(folder)
        if _kind(place) is stat.S_ISDIR:
            remove_folder(place.path)

    def is_taken(self, path: str) -> bool:
        return bool(self._index.documents.stored(path))

    def _indexed(self) -> dict[str, str]:
        """The indexed files that could come from git, with unknown blobs, so that all are compared."""
        stored = self._index.documents.stored()
        return {
            path: ""
            for path, row in stored.items()
            if row.presence is Presence.LIVE and not path.startswith(CHAT) and owner_of(path) is None
        }

    # --- which files

    def _wanted(self, branch: str | None, save_branch: str | None, mirrored: Mirrored) -> dict[str, str]:
        """Path -> blob: the branch's files, with the save branch's changes since their merge base applied to them."""
        is_memory = self._rules_of(branch or save_branch)
        commits = [commit for commit in dict.fromkeys((branch, save_branch)) if commit]
        trees = [self._memories(commit, is_memory, mirrored) for commit in commits]
        if len(trees) < 2 or branch is None or save_branch is None:
            return trees[0] if trees else {}
        ours, saved = trees
        parted = self._repository.merge_base(branch, save_branch)
        base = self._memories(parted, is_memory, Mirrored()) if parted else {}
        for path in {*saved, *base}:
            if saved.get(path) != base.get(path) and ours.get(path) == base.get(path):
                if path in saved:
                    ours[path] = saved[path]
                else:
                    ours.pop(path, None)
        return ours

    def _rules_of(self, commit: str | None) -> IsMemory:
        """The rules of discovery, with the excludes of the repository's own configuration.

        Files saved through this server are exempt from those excludes, because they were acknowledged.
        """
        read = self._settings
        if commit is not None and self._repository.has_file(commit, CONFIG):
            data = self._repository.blob_at(commit, CONFIG) or b""
            read = replace(read, exclude=(*read.exclude, *repository_excludes(data)))
        saved = {row.path for row in self._outbox.in_git()} if read is not self._settings else set()

        def is_memory(path: str, size: int) -> bool:
            real = self._settings.root / path
            facts = outgoing.unwritten_facts(size=size, mtime_ns=0)
            settings = self._settings if path in saved else read
            return discover.place(settings, real, real=real, facts=facts) is not None

        return is_memory

    def _memories(self, commit: str, is_memory: IsMemory, mirrored: Mirrored) -> dict[str, str]:
        entries, skipped = self._repository.tree(commit)
        for kind, number in skipped.items():
            mirrored.skipped[kind] = mirrored.skipped.get(kind, 0) + number
        return dict(self._files_of(entries, is_memory, mirrored.skipped))

    def _files_of(
        self, entries: Iterable[TreeFile], is_memory: IsMemory, skipped: dict[str, int]
    ) -> Iterable[tuple[str, str]]:
        for entry in entries:
            if not is_text_name(entry.name.decode("utf-8", "replace")):
                continue
            path = _plain_name(entry.name)
            if path is None:
                _count(skipped, "odd names")
            elif entry.size > min(disk.MAX_BYTES, self._repository.limits.blob_bytes):
                _count(skipped, "large files")
            elif owner_of(path) is not None:
                _count(skipped, "personal files")
            elif is_memory(path, entry.size):
                yield path, entry.blob


def _kind(place: Place) -> Callable[[int], bool] | None:
    """The `stat` test of the folder or regular file at this place; None for anything else."""
    try:
        mode = filesystem.look(place).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    return next((test for test in (stat.S_ISDIR, stat.S_ISREG) if test(mode)), None)


def _count(numbers: dict[str, int], kind: str) -> None:
    numbers[kind] = numbers.get(kind, 0) + 1


def _plain_name(name: bytes) -> str | None:
    """The path, if it is valid and the same on every system; else None."""
    try:
        path = name.decode("utf-8")
    except UnicodeDecodeError:
        return None
    parts = path.split("/")
    if len(path) > _LONGEST or any(ord(mark) < 32 or mark in '\\:\x7f"<>|*?' for mark in path):
        return None
    return None if any(map(_is_odd, parts)) else path


def _is_odd(part: str) -> bool:
    folded = part.casefold().rstrip(". ")
    return folded in ("", ".git", "git~1") or part != part.strip() or len(part.encode()) > _LONGEST_PART
