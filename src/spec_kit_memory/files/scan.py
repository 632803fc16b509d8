"""Does the index agree with the files, and what must be done so that it does?

`decide` determines what one file needs; `Sync` does it, in transactions of a few files each, so that it can be killed
at any point and continues with the next scan. A file that vanished keeps its row, one that moved keeps its id.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path, PurePosixPath

from spec_kit_memory import filesystem
from spec_kit_memory.advice import Text, advise
from spec_kit_memory.answers import FileWarning
from spec_kit_memory.core import decay
from spec_kit_memory.core.memory import (
    CHAT,
    EVERYWHERE,
    Change,
    Entry,
    Presence,
    Scope,
    Source,
    owner_of,
)
from spec_kit_memory.core.scope import allows
from spec_kit_memory.errors import DatabaseBusy, DatabaseCorrupt, DatabaseUnusable, SpecKitMemoryError
from spec_kit_memory.files import (
    discover,
    disk,
    file_changes,
    index_entry,
    paths,
    pending,
    scan_state,
    spec_links,
)
from spec_kit_memory.files.cited_code import record_missing
from spec_kit_memory.files.discover import Discovery, MemoryFile
from spec_kit_memory.files.discovery_rules import SPEC_DOCUMENTS
from spec_kit_memory.files.file_errors import in_file
from spec_kit_memory.files.locks import Lock
from spec_kit_memory.files.pending import Recovery
from spec_kit_memory.files.scan_state import (
    Differences,
    IndexedFile,
    ReadyFile,
    ScanDecision,
    ScanReport,
    ScanState,
    decide,
    folder_of,
    is_covered,
)
from spec_kit_memory.files.single_file import SingleFiles, with_operation
from spec_kit_memory.files.worktree import with_counterparts
from spec_kit_memory.index.contract import BadFile, Index, Rebuilt, Stored
from spec_kit_memory.settings import Settings

Progress = Callable[[str, int, int], None]
Cancel = Callable[[], bool]

FEW_FILES = 200  # that `compare` reads
LOCK_SECONDS = 120.0  # a suspended holder must not block every other process; writes are safe without the lock
UNLINKED = "unlinked"  # while this mark exists, documents may be indexed without their links
_FATAL = (DatabaseBusy, DatabaseCorrupt, DatabaseUnusable)


class _CancelledError(Exception):
    """A rebuild was cancelled while it read the files."""


@dataclass(slots=True)
class _LinkTargets:
    """The targets of links in the workspace, known after the first full walk."""

    targets: frozenset[Path] | None = None


class Sync(SingleFiles):
    """Keeps one workspace's index in step. Its store has no scope: for any caller, a file is indexed as its path says.

    The scope decides which paths the caller may name, and what the report contains of the others.
    """

    def __init__(
        self, store: Index, settings: Settings, *, now: Callable[[], datetime], scope: Scope = EVERYWHERE
    ) -> None:
        super().__init__(store, settings, now=now, scope=scope)
        self._one_scan = threading.Lock()
        self._links = _LinkTargets()

    def within(self, scope: Scope) -> Sync:
        """A view for another caller; locks and known link targets are shared."""
        other = Sync(self._store, self._settings, now=self._now, scope=scope)
        other._one_scan, other._links = self._one_scan, self._links
        return other

    def _is_seen(self, path: str) -> bool:
        return allows(self._scope, path=path, owner=owner_of(path), project=None)

    # --- whole workspace

    def scan(
        self,
        *,
        spec_folder: str | None = None,
        force: bool = False,
        only: Sequence[Path] | None = None,
        count: bool = True,
        progress: Progress | None = None,
        cancel: Cancel | None = None,
        change: Change | None = None,
    ) -> ScanReport:
        """Bring the index in step. `spec_folder` is how their names start; `only` limits it to these paths.

        `count=False` does not count the markdown that no rule discovers, which spares a walk of the rest.
        """
        disk.keep_private(self._settings)
        disk.clear_dead(self._settings)
        only = (
            None if only is None else with_counterparts(self._settings.root, {paths.canonical(path) for path in only})
        )
        with self._one_scan, self._scan_lock(cancel):
            file_changes.settle_dead(self._settings, self._store)
            seen = self._look(only, count=count and only is None)
            return self._scan(
                *seen, spec_folder=spec_folder, force=force, only=only, progress=progress, cancel=cancel, change=change
            )

    def rebuild(
        self, change: Change, *, progress: Progress | None = None, cancel: Cancel | None = None
    ) -> tuple[Rebuilt | None, ScanReport]:
        """Build a new index from the recorded data and all files, and replace the old one with it.

        A cancelled rebuild changes nothing, and its report says that it was cancelled.
        """
        reports: list[ScanReport] = []

        def fill(fresh: Index) -> None:
            file_changes.settle_dead(self._settings, fresh)
            sync = Sync(fresh, self._settings, now=self._now, scope=self._scope)
            seen = sync._look(None, count=True)
            reports.append(sync._scan(*seen, force=True, progress=progress, cancel=cancel, change=change))
            if reports[-1].cancelled:
                raise _CancelledError

        disk.keep_private(self._settings)
        disk.clear_dead(self._settings)
        with self._one_scan, self._scan_lock(cancel) as lock:
            if not lock.held:
                raise DatabaseBusy("another process is scanning", hint="try again when it has finished")
            try:
                return self._store.care.rebuild(change, fill), reports[-1]
            except _CancelledError:
                return None, reports[-1]

    def _scan(
        self,
        seen: Discovery,
        recovered: Recovery,
        stored: dict[str, Stored],
        *,
        spec_folder: str | None = None,
        force: bool,
        only: Sequence[Path] | None = None,
        progress: Progress | None,
        cancel: Cancel | None,
        change: Change | None,
    ) -> ScanReport:
        started = time.perf_counter()
        effective_change = with_operation(change or self._change("scan"))
        scan = ScanState(stored, {}, seen.unreadable, effective_change, force, ScanReport(), self._is_seen)
        scan.lookup = None if only is None else self._alike
        self._begin(scan, seen, recovered, spec_folder=spec_folder, only=only)
        work = self._work(scan)
        failed = self._has_unlinked()
        if failed and only is None:
            scan.spec_places.update(folder_of(path) for path in scan.ids if _name(path) in SPEC_DOCUMENTS)
        if work or scan.missing or scan.spec_places:
            # Unchanged documents are not read again, so it is noted that they may need links.
            with suppress(OSError):
                filesystem.rewrite(paths.state(self._settings, UNLINKED), b"")
            with self._store.bulk():  # leaving the block syncs the disk, so it is entered only if something changed
                self._run(scan, work, progress, cancel)
            if only is None or not failed:  # a limited scan does not know the others' documents
                with suppress(OSError):
                    filesystem.remove(paths.state(self._settings, UNLINKED))
        self._report_bad(scan)
        if self._store.outbox is None:  # a team server has no code to compare with
            record_missing(self._store, self._settings, stored, places=only and seen.files, changed=scan.report.changed)
        scan.report.seconds = time.perf_counter() - started
        scan.report.elsewhere = scan.hidden.changed
        return scan.report

    def _has_unlinked(self) -> bool:
        """Did a scan end before it linked what it indexed? False where the folder cannot be read."""
        try:
            return filesystem.exists(paths.state(self._settings, UNLINKED))
        except OSError:
            return False

    def compare(self) -> Differences:
        """What a scan would do, without doing it. A file whose stamp differs is read, so that the text decides."""
        differences = Differences()
        stored = self._stored_files()
        seen = self._discovered()
        bad = {bad_file.path for bad_file in self._store.care.bad_files()}
        scan = ScanState(dict(stored), {}, seen.unreadable, self._change("compare"), False, ScanReport())
        for file in seen.files:
            row = stored.pop(file.path, None)
            if file.path in bad or not self._is_seen(file.path):
                continue
            match decide(file, row):
                case ScanDecision.NEW:
                    # Beyond the first ones, files that were deleted on request and moved since are not recognised.
                    if len(differences.unindexed) >= FEW_FILES or not self._was_forgotten(scan, file):
                        differences.unindexed.append(file.path)
                case ScanDecision.REINDEX:
                    is_back = row is not None and row.presence is Presence.GONE
                    (differences.unindexed if is_back else differences.changed).append(file.path)
                case ScanDecision.MODIFIED if row is not None and self._raw_hash(file) not in (None, row.raw_hash):
                    differences.changed.append(file.path)
        unreadable = frozenset(seen.unreadable)
        for path, row in stored.items():
            live = row.presence is Presence.LIVE and self._is_seen(path)
            if live and not is_covered(path, unreadable) and self._on_disk(path) and not self._is_memory(path):
                differences.lost.append(path)
        return differences

    def spec_folders(self) -> set[str]:
        """The spec folders that have files now, as far as this session may see."""
        files = self._discovered().files
        return {file.spec_folder for file in files if file.spec_folder and self._is_seen(file.path)}

    def _raw_hash(self, file: MemoryFile) -> str | None:
        try:
            return self._file(file).raw_hash
        except SpecKitMemoryError:
            return None

    def _was_forgotten(self, scan: ScanState, file: MemoryFile) -> bool:
        try:
            entry = self._entry(file, index_entry.parse(self._file(file)))
        except SpecKitMemoryError:
            return False
        return self._is_forgotten(scan, entry, None)

    def _scan_lock(self, cancel: Cancel | None) -> Lock:
        """Take the lock of scans: servers that start at the same time would all read the same new files."""
        lock = Lock(self._settings, "scan.lock")
        deadline = time.monotonic() + LOCK_SECONDS
        try:
            while not lock.wait(seconds=0.2) and time.monotonic() < deadline and not (cancel and cancel()):
                pass
        except OSError:
            return lock  # no process can create a lock file here
        return lock

    def _look(self, only: Sequence[Path] | None, *, count: bool) -> tuple[Discovery, Recovery, dict[str, Stored]]:
        # Stored rows first: otherwise a save that ends during the walk would look like a row without a file.
        places = [paths.stored_form(self._settings, path) for path in only or ()]
        stored = self._stored_files() if only is None else self._store.documents.stored(below=places)
        seen = self._walk(only, count=count)
        recovered = pending.adopt(self._settings, seen.leftovers)
        if recovered.completed:
            seen = self._walk(only, count=count)
        elsewhere = [file.path for file in seen.files if only is not None and file.path not in stored]
        if elsewhere:  # new, or found through a link
            stored |= self._store.documents.stored(below=elsewhere)
        return seen, recovered, stored

    def _stored_files(self) -> dict[str, Stored]:
        stored = self._store.documents.stored()
        return {path: row for path, row in stored.items() if not path.startswith(CHAT) and self._has_file(path)}

    def _discovered(
        self, *, only: Sequence[Path] | None = None, count: bool = False, targets: frozenset[Path] | None = None
    ) -> Discovery:
        seen = discover.discover(self._settings, only=only, count=count, targets=targets)
        return replace(seen, files=tuple(file for file in seen.files if self._has_file(file.path)))

    def _walk(self, only: Sequence[Path] | None, *, count: bool) -> Discovery:
        """Walk the files. A full walk records the targets of links, so that limited walks need not search for them."""
        seen = self._discovered(only=only, count=count, targets=self._links.targets)
        if only is None:
            self._links.targets = seen.targets
        elif self._links.targets is not None:
            self._links.targets |= seen.targets
        return seen

    def _begin(
        self,
        scan: ScanState,
        seen: Discovery,
        recovered: Recovery,
        *,
        spec_folder: str | None,
        only: Sequence[Path] | None,
    ) -> None:
        report = scan.report
        report.undiscovered = seen.undiscovered if self._scope.prefixes is None else 0
        report.skipped = [skipped for skipped in seen.skipped if scan.is_seen(skipped[0])]
        for path in recovered.completed:
            scan.of(paths.stored_form(self._settings, path)).recovered += 1
        for path, warning in recovered.warnings:
            message = self._warning(path, warning.message)
            scan.of(message.path).warnings.append(message)
        for problem in seen.problems:
            scan.of(problem.path).bad.append(problem)
        scan.files = {file.path: file for file in seen.files if _below(file.spec_folder, spec_folder)}
        report.archived = sum(file.archived_folder and scan.is_seen(file.path) for file in scan.files.values())
        self._mark_missing(scan, spec_folder, only)

    def _mark_missing(self, scan: ScanState, spec_folder: str | None, only: Sequence[Path] | None) -> None:
        """Of the live rows without a file, keep those that this scan covers."""
        if only is not None:
            scan.places = frozenset(paths.stored_form(self._settings, path) for path in only)
        unreadable = frozenset(scan.unreadable)
        for path, row in scan.stored.items():
            if path in scan.files or row.presence is not Presence.LIVE or not self._has_file(path):
                continue
            if not scan.is_about(path) or not _below(row.spec_folder, spec_folder):
                continue
            if is_covered(path, unreadable):
                scan.of(path).unknown += 1
            else:
                scan.missing.append(path)

    def _run(
        self,
        scan: ScanState,
        work: Sequence[tuple[MemoryFile, ScanDecision]],
        progress: Progress | None,
        cancel: Cancel | None,
    ) -> None:
        for batch in self._batches(scan, work, progress, cancel):
            while batch:
                self._write(scan, batch)
        if not scan.report.cancelled:
            self._vanish_missing(scan)
        if scan.touched:
            self._store.documents.scanned(scan.touched)
        spec_links.rebuild(self._store, self._neighbours(scan), scan.spec_places, scan.change)

    def _batches(
        self,
        scan: ScanState,
        work: Sequence[tuple[MemoryFile, ScanDecision]],
        progress: Progress | None,
        cancel: Cancel | None,
    ) -> Iterator[deque[ReadyFile]]:
        """Read and parse files in batches, outside of any transaction."""
        done, total = 0, sum(scan.is_seen(file.path) for file, _ in work)
        batch, size = deque[ReadyFile](), 0
        for file, decision in work:
            if cancel and cancel():
                scan.report.cancelled = True
                break
            if progress and scan.is_seen(file.path):
                progress(file.path, done, total)
                done += 1
            with self._others_go_on(scan, file):
                ready = self._read(scan, file, decision)
                if ready:
                    batch.append(ready)
                    size += ready.parsed.stamp.size
            if len(batch) >= scan_state.BATCH_FILES or size >= scan_state.BATCH_BYTES:
                yield batch
                batch, size = deque(), 0
        yield batch
        if progress and total and not scan.report.cancelled:
            progress("", total, total)

    def _write(self, scan: ScanState, batch: deque[ReadyFile]) -> None:
        """Write the first files of the batch in one transaction; if one of them fails, each in its own."""
        written_now: list[ReadyFile] = []
        done: list[IndexedFile] = []
        try:
            with self._store.together():
                for ready in scan_state.for_a_moment(batch):
                    written_now.append(ready)
                    if _is_as_read(ready):
                        done.append(self._put_ready(scan, ready))
                        if done[-1].released:  # they are indexed next, each in its own transaction
                            break
        except Exception:  # writing each file alone shows which one failed, and why
            if not written_now:
                raise
            scan.take_back_moves([put.origin for put in done])
            done = []
        written = {put.ready.file.path for put in done}
        for put in done:
            with self._others_go_on(scan, put.ready.file):
                self._count(scan, put)
        for ready in written_now:
            if ready.file.path not in written:
                self._read_one(scan, ready.file, ready.decision)

    def _work(self, scan: ScanState) -> list[tuple[MemoryFile, ScanDecision]]:
        work: list[tuple[MemoryFile, ScanDecision]] = []
        for file in scan.files.values():
            decision = decide(file, scan.stored.get(file.path), force=scan.force)
            if decision is ScanDecision.SKIP:
                scan.of(file.path).unchanged += 1
            else:
                work.append((file, decision))
        return work

    def _read_one(self, scan: ScanState, file: MemoryFile, decision: ScanDecision) -> None:
        """Index one file, in a transaction of its own."""
        with self._others_go_on(scan, file):
            ready = self._read(scan, file, decision)
            if ready:
                self._count(scan, self._put_ready(scan, ready))

    @contextmanager
    def _others_go_on(self, scan: ScanState, file: MemoryFile) -> Iterator[None]:
        """Report an error in this file and continue with the others."""
        try:
            yield
        except _FATAL:
            raise
        except SpecKitMemoryError as error:
            self._bad(scan, file, error.code, in_file(error))
        except Exception as error:  # noqa: BLE001  one file must not stop the rest, whatever is in it
            self._bad(scan, file, SpecKitMemoryError.code, f"{type(error).__name__}: {error}")

    def _bad(self, scan: ScanState, file: MemoryFile, code: str, message: str) -> None:
        report = scan.of(file.path)
        report.unknown += 1
        # Each view puts the path in front of the message, so it is not repeated here.
        message = message.removeprefix(Path(file.real).as_posix()).strip()
        report.bad.append(BadFile(file.path, code, message, scan.change.at))

    def _read(self, scan: ScanState, located: MemoryFile, decision: ScanDecision) -> ReadyFile | None:
        """Read the file; None if only its stamp changed."""
        stored = scan.stored.get(located.path)
        file = self._file(located)
        if decision is ScanDecision.MODIFIED and stored and stored.raw_hash == file.raw_hash:
            scan.touched[located.path] = file.stamp
            scan.of(located.path).unchanged += 1
            return None
        return ReadyFile(located, decision, index_entry.parse(file))

    def _put_ready(self, scan: ScanState, ready: ReadyFile) -> IndexedFile:
        stored = scan.stored.get(ready.file.path)
        entry = self._entry(ready.file, ready.parsed)
        if self._is_forgotten(scan, entry, stored):
            if stored:
                self._store.documents.put(entry, scan.change)  # it stays forgotten; only its stamp is noted
            return IndexedFile(ready, entry)
        origin = self._moved_from(scan, entry) if stored is None else None
        moved_id = scan.stored[origin].memory_id if origin else None
        result = self._store.documents.put(entry, scan.change, memory_id=moved_id)
        if origin and not result.forgotten:
            scan.moved.add(origin)
        return IndexedFile(ready, entry) if result.forgotten else IndexedFile(ready, entry, result, origin)

    def _again(self, scan: ScanState, path: str, decision: ScanDecision) -> None:
        """Index a file again that was an alias and now has its own memory."""
        only = [paths.absolute(self._settings, path)]
        for file in discover.discover(self._settings, only=only, count=False).files:
            self._read_one(scan, file, decision)

    def _count(self, scan: ScanState, done: IndexedFile) -> None:
        entry, result, origin, decision = done.entry, done.result, done.origin, done.ready.decision
        report = scan.of(entry.path)
        if result is None:
            report.forgotten += 1
            return
        if origin:
            scan.ids.pop(origin, None)
            report.moved += 1
            scan.spec_places.update(folder_of(path) for path in (origin, entry.path) if entry.source is Source.SPEC)
        elif result.alias:
            report.aliases += 1
        elif decision is ScanDecision.NEW:
            report.new += 1
        elif decision is ScanDecision.MODIFIED:
            report.modified += 1
        else:
            report.reindexed += 1
        scan.ids[entry.path] = result.memory_id
        if entry.source is Source.SPEC:
            scan.spec_places.add(folder_of(entry.path))
        report.warnings += [
            FileWarning(path=entry.path, line=warning.line, message=warning.message)
            for warning in entry.document.warnings
        ]
        if decay.expired(end := entry.attributes.expires_at, self._now()):
            message = advise("expired", date=f"{end:%Y-%m-%d}")
            report.warnings.append(FileWarning(path=entry.path, line=None, message=message))
        for path in result.released:
            self._again(scan, path, ScanDecision.NEW)

    def _is_forgotten(self, scan: ScanState, entry: Entry, stored: Stored | None) -> bool:
        """Was exactly this text deleted on request, in this folder or at the place it was moved from?

        A file that moved keeps its name; the same words under another name elsewhere are a memory of their own.
        """
        if stored is not None:
            return stored.presence is Presence.FORGOTTEN and _same_text(stored, entry)
        if not entry.fingerprint:
            return False
        forgotten = scan.forgotten(entry.fingerprint)
        namesakes = forgotten.by_name.get((entry.owner, PurePosixPath(entry.path).name), ())
        return (entry.owner, entry.spec_folder) in forgotten.folders or any(
            not self._on_disk(path) for path in namesakes
        )

    def _vanish_missing(self, scan: ScanState) -> None:
        missing = deque(path for path in scan.missing if path not in scan.moved)
        while missing:
            gone, heir = [], None
            with self._store.together():
                for path in scan_state.for_a_moment(missing):
                    if self._on_disk(path) and self._is_memory(path):
                        continue
                    gone.append(path)
                    heir = self._store.documents.vanish(path, scan.change)
                    if heir:  # it is read before the next one is taken out
                        break
            for path in gone:
                scan.ids.pop(path, None)
                scan.spec_places.add(folder_of(path))
                scan.of(path).deleted += 1
            if heir:
                self._again(scan, heir, ScanDecision.REINDEX)

    def _is_memory(self, path: str) -> bool:
        """Is there a file now that the rules discover?"""
        if self._is_pending(path):
            return True
        final = paths.absolute(self._settings, path)
        return any(file.path == path for file in discover.discover(self._settings, only=[final], count=False).files)

    def _report_bad(self, scan: ScanState) -> None:
        bad_files = [*scan.report.bad, *scan.hidden.bad]
        bad = {bad_file.path for bad_file in bad_files}
        cleared = [
            bad_file.path
            for bad_file in self._store.care.bad_files()
            if bad_file.path not in bad and (bad_file.path in scan.files or scan.is_about(bad_file.path))
        ]
        if bad or cleared:
            self._store.documents.scanned(bad=bad_files, cleared=cleared)

    def _neighbours(self, scan: ScanState) -> Mapping[str, int]:
        """The live paths; for a limited scan also those in the folders of its spec documents."""
        if scan.lookup is None or not scan.spec_places:
            return scan.ids
        paths = [f"{place}/{name}" for place in scan.spec_places for name in SPEC_DOCUMENTS]
        stored_below = self._store.documents.stored(below=paths)
        return scan.ids | {path: row.memory_id for path, row in stored_below.items() if row.presence is Presence.LIVE}

    def _warning(self, path: Path, message: Text) -> FileWarning:
        return FileWarning(path=paths.stored_form(self._settings, path), line=None, message=message)


def _is_as_read(ready: ReadyFile) -> bool:
    """Is the file still as it was read? If not, another process may have indexed a newer text."""
    try:
        facts = os.stat(ready.file.real, follow_symlinks=False)
    except OSError:
        return False
    stamp = ready.parsed.stamp
    return (facts.st_size, disk.mtime_ns(facts)) == (stamp.size, stamp.mtime_ns)


def _same_text(stored: Stored, entry: Entry) -> bool:
    if entry.fingerprint or stored.fingerprint:
        return stored.fingerprint == entry.fingerprint
    return stored.raw_hash == entry.raw_hash


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _below(folder: str | None, prefix: str | None) -> bool:
    return prefix is None or (folder is not None and folder.startswith(prefix))
