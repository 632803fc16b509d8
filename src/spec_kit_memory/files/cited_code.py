"""Which files of the project do memories name, and have those files changed since?

Recorded once for each text: the content that a file had at the commit that last changed the note, else its present
content. Size and time are compared first, so that checking many memories reads few files. Nothing outside the workspace
is read, no link is followed, and files that are too large or take too long are skipped.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from spec_kit_memory import filesystem
from spec_kit_memory.core.citations import MOST_FILES, Citations, CitedFile, Code, named_files
from spec_kit_memory.core.memory import Memory, Presence, Source
from spec_kit_memory.files import discovery_rules, paths
from spec_kit_memory.files.discover import MemoryFile
from spec_kit_memory.files.git_history import Blob, History
from spec_kit_memory.filesystem import Place
from spec_kit_memory.index.contract import Index, Stored
from spec_kit_memory.settings import Settings

ROUND = 500  # memories processed together, so that one walk through history serves them all
LARGEST_FILE = 4_000_000
MOST_WALKED = 100_000  # entries that are visited to find where a file was moved
WALK_SECONDS = 2.0
WALK_FRESH_SECONDS = 60.0
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# A file that changed more recently than this when it was read may change again with the same stamp.
_SETTLED_NS = 2_000_000_000


def record_missing(
    store: Index,
    settings: Settings,
    before: Mapping[str, Stored],
    *,
    places: Sequence[MemoryFile] | Sequence[Path] | None,
    changed: bool,
) -> None:
    """After a scan, record the citations that are still missing. `before` is what was stored before the scan."""
    if not changed and not any(map(_is_due, before.values())):
        return
    below = None if places is None else [place.path for place in places if isinstance(place, MemoryFile)]
    rows = store.documents.stored(below=below).values()
    record_citations(store, settings, sorted({row.memory_id for row in rows if _is_due(row)}))


def _is_due(row: Stored) -> bool:
    return not row.cited and row.presence is Presence.LIVE


def record_citations(store: Index, settings: Settings, memory_ids: Sequence[int], *, is_new: bool = False) -> None:
    """Record what the texts of these memories cite. A text that was just written has no history in git."""
    if store.read_only or not memory_ids:
        return
    history = None if is_new else History.of(settings.root)
    for start in range(0, len(memory_ids), ROUND):
        memories = [
            memory
            for memory in store.documents.many(memory_ids[start : start + ROUND])
            if memory.source is not Source.CHAT
        ]
        store.documents.scanned(cited=dict(_recorded(store, settings, memories, history)))


def _recorded(
    store: Index, settings: Settings, memories: Sequence[Memory], history: History | None
) -> Iterator[tuple[int, Citations]]:
    files_by_id: dict[int, tuple[str, ...]] = {}
    for memory in memories:
        text = store.documents.text(content_hash=memory.content_hash) or ""
        files_by_id[memory.id] = tuple(dict.fromkeys(_resolved(settings, memory.path, text)))
    past_contents = _PastContents(
        settings, history, {memory.path: files_by_id[memory.id] for memory in memories if files_by_id[memory.id]}
    )
    for memory in memories:
        cited = (past_contents.file(memory.path, path) for path in files_by_id[memory.id])
        files = tuple(file for file in cited if file)[:MOST_FILES]
        yield memory.id, Citations(memory.fingerprint or memory.content_hash, files)


def _resolved(settings: Settings, note: str, text: str) -> Iterator[str]:
    """The project files that a text may mean: relative to the root, else to the note; never memories."""
    folder = posixpath.dirname(note)
    for name in named_files(_without_root(settings, text)):
        is_relative = name.startswith(("./", "../")) and not posixpath.isabs(note)
        path = posixpath.normpath(posixpath.join(folder, name) if is_relative else name)
        if path.startswith(("../", "/")) or path in (".", ".."):
            continue
        *above, last = parts = PurePosixPath(path).parts
        if any(map(paths.is_reserved, parts)) or not _could_be_below(settings, parts):
            continue
        rule = discovery_rules.rule_for(tuple(above))
        if rule is None or not rule.accepts(last):
            yield path


def _without_root(settings: Settings, text: str) -> str:
    """The text with absolute paths below the workspace's root, as agents write them, made relative to it."""
    for root in {settings.root.as_posix(), str(settings.root)}:
        if len(root) > 3:  # not "/" or "C:/"
            text = text.replace(f"{root}/", "").replace(f"{root}\\", "")
    return text


def _could_be_below(settings: Settings, parts: tuple[str, ...]) -> bool:
    try:
        Place(settings.root, parts)
    except ValueError:
        return False
    return True


class _PastContents:
    """The contents that files had when notes were written."""

    def __init__(
        self, settings: Settings, history: History | None, cited_by_note: Mapping[str, tuple[str, ...]]
    ) -> None:
        self._files = CodeFiles(settings)
        self._commits: dict[str, str] = {}
        self._blobs: Mapping[tuple[str, str], Blob] = {}
        if history is None:
            return
        cited = {note: candidates for note, candidates in cited_by_note.items() if not posixpath.isabs(note)}
        commits = history.last_changes(cited)
        pairs = [(commit, path) for note, commit in commits.items() for path in (note, *cited[note])]
        self._blobs = history.blobs(pairs) if pairs else {}
        # A note with uncommitted edits describes the present state, not that of its last commit.
        for note, commit in commits.items():
            blob = self._blobs.get((commit, note))
            if blob is not None and self._files.is_unchanged(CitedFile(note, blob.hash, blob.size)):
                self._commits[note] = commit

    def file(self, note: str, path: str) -> CitedFile | None:
        commit = self._commits.get(note, "")
        blob = self._blobs.get((commit, path)) if commit else None
        if blob is not None:
            return CitedFile(path, blob.hash, blob.size, commit) if blob.size <= LARGEST_FILE else None
        return self._files.now(path)


@dataclass(frozen=True, slots=True)
class _Seen:
    stamp: tuple[int, int, int]  # size, mtime and ctime: an mtime that was copied is not enough
    hashes: tuple[str, ...]


@dataclass
class CodeFiles:
    """The project's present files; contents that were read are cached by size and times."""

    settings: Settings
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _walked: tuple[float, dict[int, list[str]]] | None = None

    def now(self, path: str) -> CitedFile | None:
        """None if there is no such file or it is not one that we read."""
        content = self._content(path, 40)
        return None if content is None else CitedFile(path, content.hashes[0], content.stamp[0])

    def is_unchanged(self, file: CitedFile) -> bool:
        content = self._content(file.path, len(file.hash))
        return content is not None and file.hash in content.hashes

    def code(self, cited: Iterable[CitedFile], *, prefixes: Collection[str] | None = None) -> Code:
        """How the cited files of one memory have changed; only those below `prefixes` are mentioned."""
        changed, gone, moved = [], [], []
        for file in cited:
            if not _HASH.fullmatch(file.hash) or not _is_below(file.path, prefixes):
                continue
            if self._facts(file.path) is not None:
                if not self.is_unchanged(file):
                    changed.append(file.path)
            elif to := self._elsewhere(file, prefixes):
                moved.append(f"{file.path} -> {to}")
            else:
                gone.append(file.path)
        return Code(tuple(changed), tuple(gone), tuple(moved))

    def _facts(self, path: str) -> os.stat_result | None:
        try:
            facts = filesystem.look(Place(self.settings.root, PurePosixPath(path).parts))
        except (OSError, ValueError):
            return None
        return facts if stat.S_ISREG(facts.st_mode) else None

    def _content(self, path: str, length: int) -> _Seen | None:
        """The hashes that git would give a file: of its bytes as they are, and with normalised line ends."""
        facts = self._facts(path)
        if facts is None or facts.st_size > LARGEST_FILE:
            return None
        key = f"{length}:{path}"
        cached = self._seen.get(key)
        if cached and cached.stamp == _stamp(facts):
            return cached
        try:
            data, facts = filesystem.read(Place(self.settings.root, PurePosixPath(path).parts), limit=LARGEST_FILE + 1)
        except OSError:
            return None
        texts = (data, data.replace(b"\r\n", b"\n")) if b"\r\n" in data else (data,)
        seen = _Seen(_stamp(facts), tuple(_digest(text, length) for text in texts))
        if time.time_ns() - max(facts.st_mtime_ns, facts.st_ctime_ns) > _SETTLED_NS:
            self._seen[key] = seen
        return seen

    def _elsewhere(self, file: CitedFile, prefixes: Collection[str] | None) -> str | None:
        """The path where the same content is now; files of the same name are tried first."""
        name = posixpath.basename(file.path)
        alike = self._by_size().get(file.size, ())
        for path in sorted(alike, key=lambda other: (posixpath.basename(other) != name, other))[:20]:
            if (
                path != file.path
                and _is_below(path, prefixes)
                and self.is_unchanged(CitedFile(path, file.hash, file.size))
            ):
                return path
        return None

    def _by_size(self) -> Mapping[int, list[str]]:
        now = time.monotonic()
        if self._walked is None or now - self._walked[0] > WALK_FRESH_SECONDS:
            paths_by_size: dict[int, list[str]] = {}
            for path, size in self._walk(now + WALK_SECONDS):
                paths_by_size.setdefault(size, []).append(path)
            self._walked = now, paths_by_size
        return self._walked[1]

    def _walk(self, deadline: float) -> Iterator[tuple[str, int]]:
        left, folders = MOST_WALKED, [""]
        while folders:
            folder = folders.pop()
            place = Place(self.settings.root, PurePosixPath(folder).parts)
            try:
                names = filesystem.names(place)
            except OSError:
                continue
            for name in names:
                left -= 1
                if left < 0 or time.monotonic() > deadline:
                    return
                path = f"{folder}/{name}" if folder else name
                try:
                    facts = filesystem.look(place / name)
                except (OSError, ValueError):
                    continue
                if stat.S_ISDIR(facts.st_mode):
                    if not (paths.is_reserved(name) or discovery_rules.skips(name)):
                        folders.append(path)
                elif stat.S_ISREG(facts.st_mode) and 0 < facts.st_size <= LARGEST_FILE:
                    yield path, facts.st_size


def _stamp(facts: os.stat_result) -> tuple[int, int, int]:
    return facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def _is_below(path: str, prefixes: Collection[str] | None) -> bool:
    return prefixes is None or any(path == prefix or path.startswith(f"{prefix.rstrip('/')}/") for prefix in prefixes)


def _digest(data: bytes, length: int) -> str:
    """The blob hash that git gives this content."""
    digest = hashlib.sha1(usedforsecurity=False) if length == 40 else hashlib.sha256()
    digest.update(b"blob %d\0" % len(data))
    digest.update(data)
    return digest.hexdigest()
