"""How do files and the index change together, all or nothing, even if the process dies?

An operation plans its steps (`discard`, `recall`, `write`, `rewrite`), which changes nothing, and applies them with
`applied`, in this order; a failure at any point leaves files and index as they were:

    record of the steps (`files.journal`)
    -> new contents written next to their files, former ones kept, folders made
    -> the index locked for writing (E025: no file was touched)
    -> files moved into place, folders synced
    -> what the caller writes to the index, in one transaction with the operation's id in the ledger
    -> committed -> record removed

After a process died, `settle` asks the index whether the operation was committed. If it was, the rest of it is done;
if not, its steps are undone. A file that was changed since by another program is left as it is.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol, TypeVar

from spec_kit_memory import filesystem
from spec_kit_memory.core.delivery import OperationKind
from spec_kit_memory.core.memory import EVERYWHERE, Scope
from spec_kit_memory.core.operation import FileChange
from spec_kit_memory.errors import AccessDenied, BadPath, SpecKitMemoryError
from spec_kit_memory.files import discover, disk, journal, outgoing, trash, write_counters
from spec_kit_memory.files.disk import edited
from spec_kit_memory.files.file_errors import disk_error
from spec_kit_memory.files.journal import JournalRecord
from spec_kit_memory.filesystem import NotAFile, Place, Redirected
from spec_kit_memory.index.contract import Index, StateFiles
from spec_kit_memory.settings import Settings

logger = logging.getLogger(__name__)

_MOST_BYTES = 64 << 20
TRIES = 5

T = TypeVar("T")


# --- steps ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileMove:
    """Moves a memory's file to the trash or back."""

    path: str  # stored
    place: Place
    trash: str  # below the state folder
    trashed: Place
    digest: str  # SHA-256 of its bytes
    discards: bool
    prunes: bool = False  # also remove folders that become empty

    @property
    def source(self) -> Place:
        return self.place if self.discards else self.trashed

    @property
    def target(self) -> Place:
        return self.trashed if self.discards else self.place

    @property
    def change(self) -> FileChange:
        if self.discards:
            return FileChange(self.path, before=self.digest, trash=self.trash)
        return FileChange(self.path, after=self.digest)

    def plain(self) -> dict[str, Any]:
        return {"path": self.path, "trash": self.trash, "digest": self.digest, "discards": self.discards}


@dataclass(frozen=True, slots=True)
class Write:
    """Creates a memory's file or replaces its content."""

    path: str  # stored
    place: Place
    before: str | None  # SHA-256 of the content that is replaced; None: there is no file yet
    after: str
    data: bytes = b""
    mtime_ns: int | None = None
    keep: str | None = None  # where in the trash the former content is kept
    kept: Place | None = None
    takes: str | None = None  # the row of the trash that its content comes from, and that is removed

    @property
    def change(self) -> FileChange:
        return FileChange(self.path, before=self.before, after=self.after, trash=self.keep)

    def plain(self) -> dict[str, Any]:
        return {"path": self.path, "before": self.before, "after": self.after, "keep": self.keep}


Step = FileMove | Write


def drawer(at: datetime) -> str:
    """The folder of the trash for one operation: no two of its files have the same path."""
    return f"{at:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


def discard(settings: Settings, stored: str, *, scope: Scope, to: str, prune: bool = False) -> FileMove | None:
    """Plan to move a file to that drawer of the trash; None if there is no file."""
    place = discover.file_to_change(settings, stored, scope=scope)
    if not filesystem.exists(place):
        return None
    data, _ = _bytes(place)
    trash_name = trash.name_for(settings, place, drawer=to)
    trashed, digest = trash.trashed(settings, trash_name), hashlib.sha256(data).hexdigest()
    return FileMove(stored, place, trash_name, trashed, digest, discards=True, prunes=prune)


def recall(settings: Settings, stored: str, *, scope: Scope, trash_name: str) -> FileMove:
    """Plan to move a file back from the trash."""
    place, trashed = discover.file_to_change(settings, stored, scope=scope), trash.trashed(settings, trash_name)
    data, _ = _bytes(trashed)
    return FileMove(stored, place, trash_name, trashed, hashlib.sha256(data).hexdigest(), discards=False)


def write(
    settings: Settings,
    stored: str,
    data: bytes,
    *,
    scope: Scope,
    mtime_ns: int | None = None,
    keep_in: str | None = None,
    takes: str | None = None,
) -> Write:
    """Plan to write this content to a file. With `keep_in`, the former content is kept in that drawer of the trash.

    `takes` is the row of the trash that has this content.
    """
    place = discover.file_to_change(settings, stored, scope=scope)
    before = hashlib.sha256(_bytes(place)[0]).hexdigest() if filesystem.exists(place) else None
    return replace(_planned(settings, stored, place, data, before, mtime_ns, keep_in), takes=takes)


def rewrite(
    settings: Settings, stored: str, edit: Callable[[str], str], *, scope: Scope, keep_in: str | None = None
) -> Write | None:
    """Plan to edit a file's text; None if that changes nothing. `edit` has to preserve the line ends."""
    place = discover.file_to_change(settings, stored, scope=scope)
    data, changed = edited(place, edit)
    if changed == data:
        return None
    return _planned(settings, stored, place, changed, hashlib.sha256(data).hexdigest(), None, keep_in)


def _planned(
    settings: Settings,
    stored: str,
    place: Place,
    data: bytes,
    before: str | None,
    mtime_ns: int | None,
    keep_in: str | None,
) -> Write:
    keep = trash.name_for(settings, place, drawer=keep_in) if keep_in and before is not None else None
    after = hashlib.sha256(data).hexdigest()
    return Write(stored, place, before, after, data, mtime_ns, keep, trash.trashed(settings, keep) if keep else None)


def _bytes(place: Place) -> tuple[bytes, Any]:
    try:
        return filesystem.read(place, limit=_MOST_BYTES)
    except OSError as error:
        raise disk_error(error, place.path) from error


# --- applying them ------------------------------------------------------------------


class _Job(Protocol):
    """A step that is being applied."""

    def prepare(self, stack: ExitStack) -> None: ...
    def do(self) -> None: ...
    def undo(self) -> None: ...
    def move_trash(self, rows: StateFiles) -> None:
        """Make a row of what the step has put into the trash; `clean` then removes the file."""

    def clean(self, *, done: bool) -> None: ...
    def folders(self) -> Iterable[Place]: ...


@dataclass(slots=True)
class _MoveStep:
    step: FileMove
    made: tuple[Place, ...] = ()
    done: bool = False
    is_row: bool = False  # is it in the trash as a row?

    def prepare(self, stack: ExitStack) -> None:
        self.made = filesystem.make_folders(self.step.target.parent, mode=0o700 if self.step.discards else 0o777)

    def do(self) -> None:
        trash.move(self.step.source, self.step.target)
        self.done = True

    def undo(self) -> None:
        if self.done:
            trash.move(self.step.target, self.step.source)
            self.done = False

    def move_trash(self, rows: StateFiles) -> None:
        self.is_row = self.step.discards and trash.put_row(rows, self.step.trash, self.step.trashed)

    def clean(self, *, done: bool) -> None:
        if not done:
            _remove_folders(reversed(self.made))
            return
        if self.is_row:
            filesystem.remove(self.step.trashed)
        if self.is_row or not self.step.discards:
            _remove_folders(_above(self.step.trashed))
        if self.step.prunes:
            _remove_folders(_parents(self.step.place))

    def folders(self) -> Iterable[Place]:
        return self.step.target.parent, self.step.source.parent


@dataclass(slots=True)
class _Writing:
    step: Write
    backup: Place
    made: list[Place] = field(default_factory=list)
    staged: filesystem.Staged | None = None
    is_row: bool = False

    def prepare(self, stack: ExitStack) -> None:
        step = self.step
        self.made += filesystem.make_folders(step.place.parent)
        if step.before is not None:
            self.made += filesystem.make_folders(self.backup.parent, mode=0o700)
            filesystem.link_or_copy(step.place, self.backup)
        self.staged = stack.enter_context(filesystem.stage(step.place, step.data))
        if step.mtime_ns:
            self.staged.set_time(step.mtime_ns)

    def do(self) -> None:
        assert self.staged is not None
        if _digest(self.step.place) != self.step.before:
            raise Changed(self.step.place)
        self.staged.install()

    def undo(self) -> None:
        if self.staged is None or not self.staged.installed:
            return
        _take_back(self.step.place, self.backup if self.step.before is not None else None)
        self.staged.installed = False

    def move_trash(self, rows: StateFiles) -> None:
        if self.step.keep is not None:
            self.is_row = trash.put_row(rows, self.step.keep, self.backup)
        if self.step.takes is not None:
            rows.remove(trash.FOLDER, self.step.takes)

    def clean(self, *, done: bool) -> None:
        if self.step.before is not None and not (done and self.step.keep and not self.is_row):
            filesystem.remove(self.backup)
        if done and self.is_row:
            _remove_folders(_above(self.backup))
        if not done:
            _remove_folders(reversed(self.made))

    def folders(self) -> Iterable[Place]:
        return (self.step.place.parent,)


class Changed(AccessDenied):
    """Another program wrote the file since it was read; its text is not overwritten."""

    def __init__(self, place: Place) -> None:
        super().__init__(f"{place.path.as_posix()} is being written by another program", hint="try again in a moment")


class Changes:
    """The prepared steps of one operation; within its transaction each is applied once."""

    def __init__(self, jobs: Mapping[int, _Job]) -> None:
        self._jobs = jobs
        self.made: list[_Job] = []

    def make(self, *steps: Step) -> None:
        """Apply these steps: move their files into place."""
        for step in steps:
            job = self._jobs[id(step)]
            self.made.append(job)
            try:
                job.do()
            except FileExistsError as error:
                raise BadPath(f"{step.path} exists again", hint="move it away, then try again") from error
            except OSError as error:
                raise disk_error(error, step.place.path) from error

    def sync(self) -> None:
        """Sync what was moved, so that the index never records a move that a power cut could undo."""
        for folder in dict.fromkeys(folder for job in self.made for folder in job.folders()):
            try:
                filesystem.sync(folder)
            except OSError as error:
                raise disk_error(error, folder.path) from error

    def move_trash(self, rows: StateFiles | None) -> None:
        """Make rows of the trash, in the transaction of the operation. The files stay until it is committed."""
        if rows is not None:
            for job in self.made:
                job.move_trash(rows)

    def take_back(self) -> bool:
        """Undo all steps; False if that failed, and the record must stay."""
        whole = True
        for job in reversed(self.made):
            try:
                job.undo()
            except OSError as error:
                logger.warning("a file could not be put back, the next start tries again: %s", error)
                whole = False
        return whole


def retried(attempt: Callable[[], T]) -> T:
    """Plan and apply changes again when another program wrote the same file, on the basis of its new text."""
    for _ in range(TRIES - 1):
        with suppress(Changed):
            return attempt()
    return attempt()


@contextmanager
def applied(
    settings: Settings,
    index: Index,
    operation_id: str,
    steps: Sequence[Step],
    *,
    scope: Scope,
    author: str = "",
    at_once: bool = True,
) -> Iterator[Changes]:
    """In the block, the files have their new state, and this thread's writes to the index are one transaction.

    The operation with that id must be on the ledger when the block ends. With `at_once=False` the caller applies
    the steps that turn out to be needed, with `Changes.make`.
    """
    if not steps:
        with index.together():
            yield Changes({})
        return
    with ExitStack() as stack:
        record = _recorded(settings, scope, operation_id, steps)
        stack.enter_context(record)
        staged = stack.enter_context(ExitStack())
        jobs = {id(step): _job(settings, operation_id, number, step) for number, step in enumerate(steps)}
        changes, committing = Changes(jobs), False
        try:
            _prepare(jobs.values(), steps, staged)
            accepted = _Acceptance(index, steps)
            with index.together():
                accepted.begin()
                if at_once:
                    changes.make(*steps)
                yield changes
                if index.outbox is None:  # otherwise they are copies, which are not recovered after a power cut
                    changes.sync()
                    changes.move_trash(index.state_files)
                accepted.end([step for step in steps if jobs[id(step)] in changes.made], author=author or scope.user)
                committing = True
        except BaseException as error:
            write_counters.count(settings, scope=scope, errors=1)
            # A commit that failed may turn out to be committed once the index is opened again, and an interrupt may
            # come between a step and the note that it was applied. Then the next start settles it by its record.
            undone = changes.take_back() and (isinstance(error, Exception) or all(map(_is_undone, steps)))
            if undone and not committing:
                _clean(record, staged, jobs.values(), made_ids=frozenset())
            raise
        made_ids = frozenset(map(id, changes.made))
        _clean(record, staged, jobs.values(), made_ids=made_ids)
    _count(settings, scope, [step for step in steps if id(jobs[id(step)]) in made_ids])


class _Acceptance:
    """On a team server the files are copies: changes of them are accepted into the outbox in the same transaction."""

    def __init__(self, index: Index, steps: Sequence[Step]) -> None:
        """Read what does not change any more, before other writers have to wait."""
        self._index = index
        self._bases = {step.path: _base(step) for step in steps}
        written = [] if index.outbox is None else [step.path for step in steps if isinstance(step, Write)]
        self._texts = {path: self._text(self._bases[path]) for path in written}
        self._redacted: Mapping[str, int] = {}

    def _text(self, content_hash: str | None) -> str | None:
        return self._index.documents.text(content_hash=content_hash) if content_hash else None

    def begin(self) -> None:
        """Raise unless the copies match the index: otherwise another change came first."""
        if self._index.outbox is not None:
            self._redacted = self._index.outbox.require_base(self._bases)

    def end(self, made: Sequence[Step], *, author: str | None) -> None:
        outbox = self._index.outbox
        if outbox is None:
            return
        operations = [
            outgoing.operation(
                step.path, before=self._texts.get(step.path), after=_after(step), base=self._bases[step.path]
            )
            for step in made
            if outgoing.is_delivered(step.path)
        ]
        for operation in operations:
            if operation.kind is OperationKind.WRITE and operation.path in self._redacted:
                raise AccessDenied(
                    f"{operation.path} has secrets in git that this server leaves out:"
                    " its text cannot be changed from here",
                    hint="take them out of the file, commit that, then try again",
                )
        edited = {item.path for item in operations if item.kind is OperationKind.EDIT}
        outbox.keep_redactions({path: count for path, count in self._redacted.items() if path in edited})
        outbox.add(operations, author=author)


def _base(step: Step) -> str | None:
    if isinstance(step, Write):
        return step.before
    return step.digest if step.discards else None


def _after(step: Step) -> bytes | None:
    if isinstance(step, Write):
        return step.data
    return None if step.discards else _bytes(step.place)[0]


def _recorded(settings: Settings, scope: Scope, operation_id: str, steps: Sequence[Step]) -> JournalRecord:
    try:
        record = _claim_record(settings, operation_id)
        try:
            record.write({"operation": operation_id, "steps": [step.plain() for step in steps]})
        except BaseException:
            with suppress(OSError):
                record.remove()
            record.close()
            raise
    except OSError as error:
        write_counters.count(settings, scope=scope, errors=1)
        raise disk_error(error, settings.state_folder / journal.FOLDER) from error
    return record


def _claim_record(settings: Settings, operation_id: str) -> JournalRecord:
    """Create and lock a record, with retries: a recovery may mistake an unlocked new one for dead and remove it."""
    for _ in range(TRIES):
        record = journal.take(settings, operation_id)
        if record is not None:
            return record
        time.sleep(0.01)
    raise BadPath(f"the operation {operation_id} is under way already", hint="try again")


def _job(settings: Settings, operation_id: str, number: int, step: Step) -> _Job:
    if isinstance(step, FileMove):
        return _MoveStep(step)
    return _Writing(step, step.kept or _backup(settings, operation_id, number))


def _backup(settings: Settings, operation_id: str, number: int) -> Place:
    return journal.folder(settings) / f"{operation_id}-{number}.old"


def _prepare(jobs: Collection[_Job], steps: Sequence[Step], stack: ExitStack) -> None:
    for job, step in zip(jobs, steps, strict=True):
        try:
            job.prepare(stack)
        except OSError as error:
            raise disk_error(error, step.place.path) from error
    # Backups must survive a power cut before any file is replaced.
    backups = (job.backup for job in jobs if isinstance(job, _Writing) and job.step.before is not None)
    for folder in dict.fromkeys(backup.parent for backup in backups):
        try:
            filesystem.sync(folder)
        except OSError as error:
            raise disk_error(error, folder.path) from error


def _is_undone(step: Step) -> bool:
    """Is the file in its state before that step?"""
    if isinstance(step, FileMove):
        return _digest(step.source) == step.digest and not filesystem.exists(step.target)
    return _digest(step.place) == step.before


def _clean(record: JournalRecord, staged: ExitStack, jobs: Iterable[_Job], *, made_ids: Collection[int]) -> None:
    """Remove the record and temporary files. The next recovery removes those that cannot be removed now."""
    with suppress(OSError):
        staged.close()  # first, as a folder that was made for a file is removed only if it is empty
        for job in jobs:
            job.clean(done=id(job) in made_ids)
        record.remove()


def _count(settings: Settings, scope: Scope, steps: Sequence[Step]) -> None:
    deletes = sum(isinstance(step, FileMove) and step.discards for step in steps)
    writes = sum(isinstance(step, Write) for step in steps)
    write_counters.count(settings, scope=scope, deletes=deletes, atomic_writes=writes)


def _take_back(place: Place, backup: Place | None) -> None:
    if backup is None:
        filesystem.remove(place)
        return
    try:
        filesystem.move(backup, place)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        data, facts = filesystem.read(backup, limit=_MOST_BYTES)
        filesystem.replace(place, data)
        filesystem.set_time(place, facts.st_mtime_ns)


def _digest(place: Place) -> str | None:
    """The SHA-256 of a file; None if it is missing or not a regular file of ours."""
    try:
        return hashlib.sha256(filesystem.read(place, limit=_MOST_BYTES)[0]).hexdigest()
    except (FileNotFoundError, NotADirectoryError, Redirected, NotAFile):
        return None


def _parents(place: Place) -> Iterator[Place]:
    while place.parent.names:
        place = place.parent
        yield place


def _above(trashed: Place) -> Iterator[Place]:
    """The folders of a drawer, innermost first, without the trash itself."""
    while trash.FOLDER in trashed.parent.names[:-1]:
        trashed = trashed.parent
        yield trashed


def _remove_folders(folders: Iterable[Place]) -> None:
    """Remove those that are empty; others contain other files by now."""
    with suppress(OSError):
        for folder in folders:
            filesystem.remove_folder(folder)


# --- settling operations of dead processes -----------------------------------------------


def settle_dead(settings: Settings, index: Index) -> int:
    """Settle every operation whose process died; returns how many.

    Called before an operation reads the files it will change, as a dead one may have left them half changed.
    """
    count = 0
    for record in journal.dead(settings):
        fields = record.read()
        if "operation" in fields:
            count += settle(settings, record, fields, index)
    if count:
        write_counters.count(settings, scope=EVERYWHERE, recoveries=count)
    return count


def settle(settings: Settings, record: JournalRecord, fields: Mapping[str, Any], index: Index) -> bool:
    """Complete or undo one operation; False if that cannot be done now."""
    try:
        steps = [_read_step(settings, plain) for plain in fields["steps"]]
        committed = index.record.is_committed(str(fields["operation"]))
        for number, step in reversed(list(enumerate(steps))):
            backup = _backup(settings, str(fields["operation"]), number)
            if isinstance(step, FileMove):
                _settle_move(step, committed=committed)
            else:
                _settle_write(settings, step, step.kept or backup, committed=committed)
            if committed:
                _drop_if_row(settings, index, step.change.trash)
            filesystem.remove(backup)
        record.remove()
    except (KeyError, TypeError, ValueError, AttributeError):
        with suppress(OSError):
            record.remove()  # incomplete or forged: ours are complete before any step is applied
        return False
    except (OSError, SpecKitMemoryError) as error:
        logger.warning("%s cannot be settled now: %s", record.place, error)
        return False
    return True


def _read_step(settings: Settings, plain: Mapping[str, Any]) -> Step:
    """A step from a record, validated like any file that may have come with a repository."""
    path = str(plain["path"])
    place = discover.file_to_recover(settings, path)
    if "discards" in plain:
        trash_name = str(plain["trash"])
        trashed = trash.trashed(settings, trash_name)
        return FileMove(path, place, trash_name, trashed, str(plain["digest"]), discards=bool(plain["discards"]))
    keep = None if plain["keep"] is None else str(plain["keep"])
    before = None if plain["before"] is None else str(plain["before"])
    trash_place = trash.trashed(settings, keep) if keep else None
    return Write(path, place, before, str(plain["after"]), keep=keep, kept=trash_place)


def _settle_move(step: FileMove, *, committed: bool) -> None:
    """Finish an interrupted move, or move the file to where the index expects it.

    A committed move to the trash was complete before the commit: a file at the old place is newer.
    """
    done, undone = (step.target, step.source) if committed else (step.source, step.target)
    if _digest(undone) != step.digest:
        return
    if filesystem.exists(done):
        if _is_same(done, undone):
            filesystem.remove(undone)
    elif not (committed and step.discards):
        filesystem.make_folders(done.parent, mode=0o777 if done == step.place else 0o700)
        trash.move(undone, done)
    filesystem.sync(step.place.parent)


def _drop_if_row(settings: Settings, index: Index, stored: str | None) -> None:
    """Remove a file of the trash that is a row there."""
    place = trash.trashed(settings, stored) if stored and index.state_files is not None else None
    if place is None or stored is None or not filesystem.exists(place):
        return
    if trash.row_of(index, stored) == _bytes(place)[0]:
        filesystem.remove(place)
        _remove_folders(_above(place))


def _is_same(place: Place, other: Place) -> bool:
    return os.path.samestat(filesystem.look(place), filesystem.look(other))


def _settle_write(settings: Settings, step: Write, backup: Place, *, committed: bool) -> None:
    with suppress(FileNotFoundError):
        disk.clear_dead_in(step.place.parent, of=f"{step.place.name}.")
    if committed:
        return
    if _digest(step.place) == step.after:
        if step.before is None:
            trash.put_aside(settings, step.place)
        elif _digest(backup) == step.before:
            _take_back(step.place, backup)
        filesystem.sync(step.place.parent)
    # A copy named by a record is removed only if it is one: users may want back what is in the trash.
    if step.kept is not None:
        if _digest(step.kept) == step.before == _digest(step.place):
            filesystem.remove(step.kept)
        _remove_folders(_above(step.kept))
