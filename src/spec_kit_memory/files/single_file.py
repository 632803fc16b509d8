"""How is one file or conversation indexed, and how is a new file saved?

A file is indexed as its path says, for any caller. The scope decides which files the caller may name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from pathlib import Path, PurePosixPath

from spec_kit_memory import filesystem
from spec_kit_memory.core.memory import (
    EVERYWHERE,
    Actor,
    Change,
    Conversation,
    Entry,
    Passage,
    Presence,
    Scope,
    Source,
    owner_of,
)
from spec_kit_memory.core.operation import Reindex
from spec_kit_memory.errors import BadPath, SpecKitMemoryError
from spec_kit_memory.files import discover, disk, file_changes, index_entry, outgoing, paths, pending, spec_links
from spec_kit_memory.files.discover import MemoryFile
from spec_kit_memory.files.discovery_rules import SPEC_DOCUMENTS
from spec_kit_memory.files.disk import FileText
from spec_kit_memory.files.index_entry import Parsed
from spec_kit_memory.files.pending import Recovery, Saved, Step
from spec_kit_memory.files.scan_state import ScanReport, ScanState, folder_of
from spec_kit_memory.index.contract import Index, PutResult, Stored
from spec_kit_memory.settings import Settings

Embed = Callable[[Sequence[Passage]], Mapping[str, tuple[bytes, bytes | None]]]  # vectors by passage hash


class SingleFiles:
    """Indexes single files of one workspace. Its store has no scope; `_own` is limited to the caller's."""

    def __init__(
        self, store: Index, settings: Settings, *, now: Callable[[], datetime], scope: Scope = EVERYWHERE
    ) -> None:
        self._store = store
        self._settings = settings
        self._now = now
        self._scope = scope
        # Private notes of a team server's users are in the index only, even if the project is a folder.
        self._has_own_files = store.outbox is not None or not settings.is_served

    @cached_property
    def _own(self) -> SingleFiles:
        """The same limited to the scope of the caller, for paths that the caller names."""
        return SingleFiles(self._store.within(self._scope), self._settings, now=self._now, scope=self._scope)

    def index_file(self, path: str | Path, change: Change, *, explicit: bool = False) -> PutResult:
        """Index one file that a caller named; `explicit` brings back what was forgotten."""
        return self._own._put_file(self._located(path), change, explicit=explicit)

    def preview(self, path: str | Path) -> Entry:
        """What `index_file` would index, without doing it."""
        file = self._located(path)
        return self._own._entry(file, index_entry.parse(self._file(file)))

    def index_conversation(self, conversation: Conversation, change: Change, *, explicit: bool = False) -> PutResult:
        """Index a conversation; one that grew is updated, as its path is its identity."""
        store = self._own._store
        stored = store.documents.get(path=index_entry.chat_path(conversation.id, scope=self._scope), any_presence=True)
        trusted = stored is not None and stored.trusted
        entry = index_entry.make_chat_entry(
            conversation, settings=self._settings, scope=self._scope, now=change.at, trusted=trusted
        )
        return store.documents.put(entry, with_operation(change), explicit=explicit)

    def save(
        self,
        folder: Path,
        stem: str,
        text: str,
        change: Change,
        *,
        embed: Embed = lambda passages: {},
        step: Step = lambda name: None,
    ) -> Saved[PutResult]:
        """A new memory file and its row, or neither. The text is written as it is: it was scanned for secrets before.

        A name that another memory has, or had before it vanished or was forgotten, is not given to this one.
        On a team server, the vectors that `embed` returns are stored in the same transaction.
        """
        if self._store.outbox is not None:
            seen_ns, author = self._seen_ns(), change.user or self._scope.user
            parsed = index_entry.parse(outgoing.unwritten(f"{stem}.md", text, seen_ns=seen_ns), scanned=text)
            vectors = embed(parsed.passages)

            def put(located: MemoryFile) -> PutResult:
                self._store.vectors.put(vectors, if_current=True)  # first, so that the passages find them
                return self._own._put(self._own._entry(located, parsed, is_new=True), change, explicit=True)

            return outgoing.save(
                self._store, self._settings, folder, stem, text, put=put, seen_ns=seen_ns, author=author
            )
        return pending.save(
            folder,
            stem,
            text,
            settings=self._settings,
            scope=self._scope,
            index=lambda final, file: self._own._put_new(folder / final.name, final, file, change, scanned=text),
            is_taken=lambda final: bool(self._store.documents.stored(paths.stored_form(self._settings, final))),
            step=step,
        )

    def recover(self) -> Recovery:
        """Complete or roll back what crashed saves and other operations left behind."""
        file_changes.settle_dead(self._settings, self._store)
        change = self._change("recovered after a crash")

        def index(final: Path) -> None:
            self._put_file(self._file_at(paths.stored_form(self._settings, final)), change, explicit=False)

        return pending.recover(self._settings, index=index, stored=self._store.documents.stored)

    def _located(self, path: str | Path) -> MemoryFile:
        file = discover.locate(self._settings, path, scope=self._scope)
        if not self._has_file(file.path):
            raise BadPath(
                f"{file.path} is not read: what people keep for themselves on a team server is in its database only",
                hint="save the text as personal",
            )
        return file

    def _put_file(self, located: MemoryFile, change: Change, *, explicit: bool) -> PutResult:
        file = self._file(located)
        entry = self._entry(located, index_entry.parse(file))
        origin: int | None = None
        if not self._store.documents.stored(located.path):
            scan = ScanState({}, {located.path: located}, (), change, False, ScanReport(), lookup=self._alike)
            moved = self._moved_from(scan, entry)
            origin = scan.stored[moved].memory_id if moved else None
        return self._put(entry, change, explicit=explicit, memory_id=origin)

    def _put(self, entry: Entry, change: Change, *, explicit: bool, memory_id: int | None = None) -> PutResult:
        change = with_operation(change)
        left = self._forgotten_elsewhere(entry) if explicit else {}
        result = self._store.documents.put(entry, change, explicit=explicit, memory_id=memory_id)
        self._store.documents.scanned(cleared=[entry.path])
        if entry.source is Source.SPEC:
            self._link_spec_documents(folder_of(entry.path), change)
        # A memory that returns under another path leaves its old file behind, which becomes an alias.
        left_behind = [path for path, id_ in left.items() if id_ == result.memory_id and self._stands(path)]
        for path in (*result.released, *left_behind):
            self._put_file(self._file_at(path), change, explicit=False)
        return result

    def _put_new(self, path: Path, final: Path, file: FileText, change: Change, *, scanned: str) -> PutResult:
        """Index a new file. `path` keeps the folder as given: through a link there it may be a place of memories."""
        present = final if self._stands(final) else pending.pending_of(final)
        facts = filesystem.look(paths.place(self._settings, present))
        spots = (final, Path(os.path.normpath(path)))
        located = next(
            filter(None, (discover.place(self._settings, spot, real=final, facts=facts) for spot in spots)), None
        )
        if located is None:
            return self.index_file(final, change, explicit=True)  # raises the error that gives the reason
        return self._put(self._entry(located, index_entry.parse(file, scanned=scanned)), change, explicit=True)

    def _forgotten_elsewhere(self, entry: Entry) -> dict[str, int]:
        """Paths and ids of forgotten memories with the same text."""
        alike = self._store.documents.stored(alike=entry.fingerprint) if entry.fingerprint else {}
        return {
            path: row.memory_id
            for path, row in alike.items()
            if row.presence is Presence.FORGOTTEN and path != entry.path
        }

    def _link_spec_documents(self, place: str, change: Change) -> None:
        rows = [row for name in SPEC_DOCUMENTS for row in self._store.documents.stored(f"{place}/{name}").items()]
        ids = {path: row.memory_id for path, row in rows if row.presence is Presence.LIVE}
        spec_links.rebuild(self._store, ids, {place}, change)

    def _moved_from(self, scan: ScanState, entry: Entry) -> str | None:
        """The stored path whose file was moved here: it has the same text, and its file is gone."""
        keys = dict.fromkeys((entry.raw_hash, entry.fingerprint))
        paths = dict.fromkeys(path for key in keys if key for path in scan.movable(key))
        candidates = [path for path in paths if self._can_have_moved(scan, path, entry)]
        name = PurePosixPath(entry.path).name

        def nearest(path: str) -> tuple[bool, bool, bool]:
            row = scan.stored[path]
            return (
                row.presence is not Presence.LIVE,
                PurePosixPath(path).name != name,
                row.spec_folder != entry.spec_folder,
            )

        return min(candidates, key=nearest, default=None)

    def _can_have_moved(self, scan: ScanState, path: str, entry: Entry) -> bool:
        row = scan.stored[path]
        if owner_of(path) != entry.owner:
            return False  # a memory never changes its owner
        if not entry.fingerprint and PurePosixPath(path).name != PurePosixPath(entry.path).name:
            return False  # all empty bodies have the same text
        if self._on_disk(path):
            return False
        # If a second file has the same text, it takes over the memory.
        if row.memory_id not in scan.inherited:
            others = scan.alike(row.fingerprint) if row.fingerprint else ()
            scan.inherited[row.memory_id] = any(
                scan.stored[other].alias and scan.stored[other].memory_id == row.memory_id and self._on_disk(other)
                for other in others
            )
        return not scan.inherited[row.memory_id]

    def _alike(self, key: str) -> dict[str, Stored]:
        return self._store.documents.stored(alike=key)

    def _on_disk(self, path: str) -> bool:
        """Does the file exist, or its pending form? The pending one first, as it is renamed to the other."""
        return self._is_pending(path) or self._stands(path)

    def _is_pending(self, path: str) -> bool:
        return self._stands(pending.pending_of(paths.absolute(self._settings, path)))

    def _stands(self, path: str | Path) -> bool:
        """Does the file exist? False for paths outside the workspace, which a forged index may contain."""
        try:
            return filesystem.exists(paths.place(self._settings, path))
        except SpecKitMemoryError:
            return False

    def _file_at(self, path: str) -> MemoryFile:
        real = paths.absolute(self._settings, path)
        return discover.locate_real(self._settings, real, real)

    def _has_file(self, path: str) -> bool:
        return self._has_own_files or owner_of(path) is None

    def _entry(self, file: MemoryFile, parsed: Parsed, *, is_new: bool = False) -> Entry:
        """`is_new`: nothing is known of the path, and nobody can use it meanwhile."""
        stored = None if is_new else self._store.documents.get(path=file.path, any_presence=True)
        # Only the row of this very file counts: date and trust of an alias or an heir belong to another file.
        if stored is None or stored.path != file.path or stored.source is not file.source:
            stored = None
        elif stored.presence is Presence.FORGOTTEN and stored.fingerprint != parsed.fingerprint:
            stored = None  # another text at its path is another memory
        trusted = None if file.source.vouched else stored is not None and stored.trusted
        since = stored.attributes.created_at if stored else None
        return index_entry.make_entry(file, parsed, settings=self._settings, trusted=trusted, known_since=since)

    def _file(self, file: MemoryFile) -> FileText:
        return disk.read(paths.place(self._settings, file.real), seen_ns=self._seen_ns())

    def _change(self, reason: str) -> Change:
        return Change(actor=Actor.SYSTEM, at=self._now(), reason=reason)

    def _seen_ns(self) -> int:
        return int(self._now().timestamp() * 1e9)


def with_operation(change: Change) -> Change:
    """A change without an operation of its own is recorded as a reindex."""
    return change if change.operation else replace(change, operation=Reindex())
