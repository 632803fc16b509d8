"""How does a new memory file appear together with its row, and how is an interrupted save recovered?

Each save has a record (`files.journal`), named after the file it will make and locked while the save lives.
Taking the record claims the name; recovery reads records and never walks.

    record, synced -> <name>_pending.md, synced -> row committed -> renamed to <name>.md -> record removed
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from spec_kit_memory import filesystem
from spec_kit_memory.advice import advise, finding
from spec_kit_memory.core.memory import EVERYWHERE, DocumentWarning, Presence, Scope
from spec_kit_memory.errors import BadPath, SpecKitMemoryError
from spec_kit_memory.files import discover, disk, journal, paths, trash, write_counters
from spec_kit_memory.files.discovery_rules import PENDING
from spec_kit_memory.files.disk import FileText
from spec_kit_memory.files.file_errors import disk_error
from spec_kit_memory.files.journal import JournalRecord
from spec_kit_memory.filesystem import NotAFile, Place, Redirected
from spec_kit_memory.index.contract import Stored
from spec_kit_memory.settings import Settings

_OURS = re.compile(r"\d\d-\d\d-\d\d_\d\d-\d\d__.*_pending\.md", re.DOTALL)
_MOST_NAMES = 10_000
_MOST_BYTES = 64 << 20  # of a saved text

T = TypeVar("T")
Step = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Saved(Generic[T]):
    path: Path
    result: T


@dataclass(slots=True)
class Recovery:
    """The results of recovering interrupted saves: completed files and removed incomplete ones."""

    completed: list[Path] = field(default_factory=list)
    removed: list[Path] = field(default_factory=list)
    warnings: list[tuple[Path, DocumentWarning]] = field(default_factory=list)


def pending_of(final: Path) -> Path:
    return final.with_name(final.name.removesuffix(".md") + PENDING)


def _pending_place(final: Place) -> Place:
    return final.sibling(pending_of(final.path).name)


# --- saving -------------------------------------------------------------------


def save(
    folder: Path,
    stem: str,
    text: str,
    *,
    settings: Settings,
    scope: Scope,
    index: Callable[[Path, FileText], T],
    is_taken: Callable[[Path], bool] = lambda final: False,
    step: Step = lambda name: None,
) -> Saved[T]:
    """Write `<stem>.md` (or `-2`, `-3` where taken) and its row; `index` gets the final path and the text.

    If `index` raises, the text stays on disk and the error names its path.
    """
    data = text.encode("utf-8")
    place = paths.resolved(settings, folder)
    made_folders: tuple[Place, ...] = ()
    try:
        made_folders = filesystem.make_folders(place)
        claim = _claim(settings, place, stem, is_taken)
    except OSError as error:
        _remove_folders(made_folders)
        raise _failed(settings, scope, error, folder / f"{stem}.md") from error
    with claim.record as record:
        step("claimed")
        try:
            claim.write(settings, data)
            step("recorded")
            _write_pending(claim.pending, data, step)
        except OSError as error:
            with contextlib.suppress(OSError):  # nothing was acknowledged; the next recovery removes the rest
                filesystem.remove(claim.pending)
                record.remove()
                _remove_folders(made_folders)
            raise _failed(settings, scope, error, claim.final.path) from error
        result = _indexed(settings, scope, claim, index)
        step("indexed")
        final = _named(settings, scope, claim)
        step("renamed")
        if final != claim.final:  # another process took the name in the meantime
            result = index(final.path, disk.read(final))
        with contextlib.suppress(OSError):  # all is done, and the next recovery will find that too
            record.remove()
    step("done")
    write_counters.count(settings, scope=scope, atomic_writes=1)
    return Saved(final.path, result)


def _remove_folders(made_folders: Sequence[Place]) -> None:
    """Remove folders that were made for a file that was not written, unless they are no longer empty."""
    with contextlib.suppress(OSError):
        for folder in reversed(made_folders):
            filesystem.remove_folder(folder)


def _write_pending(place: Place, data: bytes, step: Step) -> None:
    descriptor = filesystem.create(place)
    try:
        middle = len(data) // 2
        filesystem.write_all(descriptor, data[:middle])
        step("half")
        filesystem.write_all(descriptor, data[middle:])
        filesystem.flush(descriptor)
    finally:
        os.close(descriptor)
    filesystem.sync(place.parent)
    step("written")


def _indexed(settings: Settings, scope: Scope, claim: _Claim, index: Callable[[Path, FileText], T]) -> T:
    try:
        return index(claim.final.path, disk.read(claim.pending))
    except (SpecKitMemoryError, OSError) as problem:
        error = disk_error(problem, claim.pending.path) if isinstance(problem, OSError) else problem
        outcome = _set_aside(settings, scope, claim)
        raise type(error)(
            f"{error.message.removesuffix('.')}. The text is kept in {outcome.as_posix()}.",
            hint=(*error.advice, advise("then-index")),
            **{**error.details, "path": outcome.as_posix()},
        ) from problem
    except BaseException as error:
        error.add_note(f"The text is kept in {_set_aside(settings, scope, claim).as_posix()}; the next scan finds it.")
        raise


def _set_aside(settings: Settings, scope: Scope, claim: _Claim) -> Path:
    """Indexing failed: give the text its name, so that the next scan finds it."""
    write_counters.count(settings, scope=scope, errors=1)
    try:
        final = _rename(claim.final)
        claim.record.remove()
    except OSError:
        return claim.pending.path  # the next recovery renames it
    return final.path


def _named(settings: Settings, scope: Scope, claim: _Claim) -> Place:
    """Rename after the row is committed. If that fails now, the record stays and the next start renames the file."""
    try:
        return _rename(claim.final)
    except OSError as error:
        outcome = _failed(settings, scope, error, claim.final.path)
        raise type(outcome)(
            f"{outcome.message}. The text is kept in {claim.pending.path.as_posix()}.",
            hint=(*outcome.advice, advise("then-index-names-it")),
            path=claim.pending.path.as_posix(),
        ) from error


def _failed(settings: Settings, scope: Scope, error: OSError, path: Path) -> SpecKitMemoryError:
    write_counters.count(settings, scope=scope, errors=1)
    return disk_error(error, path)


def _rename(target: Place) -> Place:
    """Rename the pending file, with a number if necessary, without ever replacing another file."""
    for number in range(1, _MOST_NAMES):
        final = target if number == 1 else _numbered(target, number)
        try:
            filesystem.move_new(_pending_place(target), final)
        except FileExistsError:
            continue
        filesystem.sync(final.parent)
        return final
    raise too_many(target.path)


def names(folder: Path, stem: str) -> Iterator[Path]:
    """The possible names of a new file, in order."""
    yield folder / f"{stem}.md"
    yield from (folder / f"{stem}-{number}.md" for number in range(2, _MOST_NAMES))


def too_many(target: Path) -> BadPath:
    return BadPath(f"there are too many files named like {target.name}", hint="choose another title")


def _numbered(final: Place, number: int) -> Place:
    return final.sibling(f"{final.name.removesuffix('.md')}-{number}.md")


# --- claims on names ------------------------------------------------------------


class _Claim:
    """A name reserved for this save by a record of the file it will create."""

    def __init__(self, record: JournalRecord, final: Place) -> None:
        self.record = record
        self.final = final
        self.pending = _pending_place(final)

    def write(self, settings: Settings, data: bytes) -> None:
        stored = paths.stored_form(settings, self.final.path)
        self.record.write({"final": stored, "sha256": hashlib.sha256(data).hexdigest()})


def _record_name(settings: Settings, final: Place) -> str:
    return hashlib.sha256(paths.stored_form(settings, final.path).encode()).hexdigest()[:24]


def _claim(settings: Settings, folder: Place, stem: str, is_taken: Callable[[Path], bool]) -> _Claim:
    """Reserve the first free name of `<stem>.md`, `<stem>-2.md`, ... for this process."""
    first = folder / f"{stem}.md"
    for number in range(1, _MOST_NAMES):
        final = first if number == 1 else _numbered(first, number)
        record = journal.take(settings, _record_name(settings, final))
        if record is None:
            continue
        claim = _Claim(record, final)
        free = False
        try:
            # Checked after the claim: a save that ended before has created its file by now.
            free = not (filesystem.exists(claim.pending) or filesystem.exists(final) or is_taken(final.path))
            if free:
                return claim
        finally:
            if not free:
                with contextlib.suppress(OSError):
                    record.remove()
                record.close()
    raise too_many(first.path)


# --- recovery -----------------------------------------------------------------


def recover(
    settings: Settings,
    *,
    index: Callable[[Path], object] = lambda final: None,
    stored: Callable[[str], Mapping[str, Stored]] = lambda path: {},
) -> Recovery:
    """Complete the interrupted saves whose text is on disk, and remove the incomplete files of the others.

    A living save holds its record's lock and is left alone; of two recoveries one gets each record.
    `index` is called with each completed file that is not in the index in this state; if it fails, the next scan
    indexes the file. Only the record may be left of a finished save, as a power cut can bring it back.
    """

    def index_missing(final: Path) -> None:
        path = paths.stored_form(settings, final)
        row = stored(path).get(path)
        raw_hash = row.raw_hash if row and row.presence is Presence.LIVE else None
        if raw_hash is None or raw_hash != disk.hash_of(paths.place(settings, path)):
            index(final)

    done = Recovery()
    for record in journal.dead(settings):
        fields = record.read()
        if fields and "final" not in fields:
            continue  # a record of `file_changes`, which settles it
        try:
            settle(settings, record, fields, index_missing, done)
        except OSError:
            # Read-only or removed: the next start tries again.
            write_counters.count(settings, scope=EVERYWHERE, errors=1)
    if done.completed or done.removed:
        write_counters.count(settings, scope=EVERYWHERE, recoveries=len(done.completed) + len(done.removed))
    return done


def settle(
    settings: Settings,
    record: JournalRecord,
    fields: Mapping[str, Any],
    index: Callable[[Path], object],
    done: Recovery,
) -> None:
    """Complete or remove one interrupted save."""
    final, expected = _read_fields(settings, fields)
    if final is not None:
        _complete(settings, _Claim(record, final), expected, index, done)
    record.remove()


def _try_index(settings: Settings, final: Path, index: Callable[[Path], object]) -> None:
    try:
        index(final)
    except SpecKitMemoryError:
        write_counters.count(settings, scope=EVERYWHERE, errors=1)


def _read_fields(settings: Settings, fields: Mapping[str, Any]) -> tuple[Place | None, str]:
    """The file and hash in a record, if it is complete and names a place of memories."""
    try:
        stored, expected = str(fields["final"]), str(fields["sha256"])
        final = discover.file_to_recover(settings, stored)
    except (ValueError, KeyError, TypeError, OSError, SpecKitMemoryError):
        return None, ""  # incomplete: the pending file is created only after the record is synced
    inside = final.base == settings.root and final.name.endswith(".md")
    return (final, expected) if inside else (None, "")


def _complete(
    settings: Settings, claim: _Claim, expected: str, index: Callable[[Path], object], done: Recovery
) -> None:
    text, final = _hash(claim.pending), _hash(claim.final)
    if text is not None and text != expected:
        trash.put_aside(settings, claim.pending)  # half written, so never acknowledged
        done.removed.append(claim.pending.path)
        return
    completed = claim.final
    if text is not None and final == expected:
        filesystem.remove(claim.pending)  # died between the two steps of the rename
    elif text is not None:
        completed = _rename(claim.final)
    elif final != expected:
        return  # nothing was written, or a person has changed it since
    done.completed.append(completed.path)
    _try_index(settings, completed.path, index)


def _hash(place: Place) -> str | None:
    """The SHA-256 of a file; None if it is missing, or if it or a folder above it is not one of ours."""
    try:
        return hashlib.sha256(filesystem.read(place, limit=_MOST_BYTES)[0]).hexdigest()
    except (FileNotFoundError, NotADirectoryError, Redirected, NotAFile):
        return None


def adopt(settings: Settings, leftovers: Iterable[Path]) -> Recovery:
    """Recover files that a walk found next to memories: dead temporary files, and pending files without a record
    (after the state folder was deleted). Names that are not ours only cause a warning.
    """
    done = Recovery()
    for path in leftovers:
        place = paths.place(settings, path)
        if path.name.endswith(filesystem.TEMPORARY):
            if disk.remove_if_dead(place):
                done.removed.append(path)
            continue
        final = place.sibling(path.name.removesuffix(PENDING) + ".md")
        if filesystem.exists(journal.folder(settings) / f"{_record_name(settings, final)}{journal.SUFFIX}"):
            continue  # a running save, or one that `recover` handles
        if _OURS.fullmatch(path.name):
            _adopt_one(settings, place, final, done)
        else:
            done.warnings.append((path, DocumentWarning(finding("ends-like-a-save", ending=PENDING), code="pending")))
    if done.completed or done.removed:
        write_counters.count(settings, scope=EVERYWHERE, recoveries=len(done.completed) + len(done.removed))
    return done


def _adopt_one(settings: Settings, place: Place, final: Place, done: Recovery) -> None:
    try:
        if filesystem.look(place).st_size == 0 or ((text := _hash(place)) is not None and text == _hash(final)):
            filesystem.remove(place)
            done.removed.append(place.path)
        else:
            done.completed.append(_rename(final).path)
    except FileNotFoundError:
        return  # its save has just finished
    except OSError as error:
        done.warnings.append((place.path, DocumentWarning(disk_error(error, place.path).message, code="pending")))
