"""How does a new memory file appear together with its row, and what becomes of a save that died?

Each save has a record in `.spec-kit-memory/pending/`, named after the file it will make and locked
while the save lives. Taking the record claims the name; recovery reads records and never walks.

    record, synced -> <name>_pending.md, synced -> row committed -> renamed to <name>.md -> record removed
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from spec_kit_memory import filesystem
from spec_kit_memory.core.memory import Warning_
from spec_kit_memory.errors import BadPath, SpecKitMemoryError
from spec_kit_memory.files import disk, paths, write_counters
from spec_kit_memory.files.discovery_rules import PENDING
from spec_kit_memory.files.disk import FileText
from spec_kit_memory.files.file_errors import disk_error
from spec_kit_memory.filesystem import NotAFile, Place, Redirected
from spec_kit_memory.settings import Settings

__all__ = ["Recovery", "Saved", "adopt", "pending_of", "recover", "save"]

_OURS = re.compile(r"\d\d-\d\d-\d\d_\d\d-\d\d__.*_pending\.md", re.DOTALL)
_MOST_NAMES = 10_000
_MOST_BYTES = 64 << 20  # of a text that was saved

T = TypeVar("T")
Step = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Saved(Generic[T]):
    path: Path
    result: T


@dataclass(slots=True)
class Recovery:
    """What was done about saves that died: files that now have their name, and halves removed."""

    completed: list[Path] = field(default_factory=list)
    removed: list[Path] = field(default_factory=list)
    warnings: list[tuple[Path, Warning_]] = field(default_factory=list)


def pending_of(final: Path) -> Path:
    return final.with_name(final.name.removesuffix(".md") + PENDING)


def _pending_place(final: Place) -> Place:
    return final.beside(pending_of(final.path).name)


# --- saving -------------------------------------------------------------------


def save(
    folder: Path,
    stem: str,
    text: str,
    *,
    settings: Settings,
    index: Callable[[Path, FileText], T],
    taken: Callable[[Path], bool] = lambda final: False,
    step: Step = lambda name: None,
) -> Saved[T]:
    """Write `<stem>.md` (or `-2`, `-3` where taken) and its row; `index` gets the final path and the text.

    Whatever `index` raises, the text stays on disk and the error names its path.
    """
    data = text.encode("utf-8")
    place = paths.resolved(settings, folder)
    try:
        filesystem.make_folders(place)
        record = _claim(settings, place, stem, taken)
    except OSError as error:
        raise _failed(settings, error, folder / f"{stem}.md") from error
    with record:
        step("claimed")
        try:
            record.write(settings, data)
            step("recorded")
            _write_pending(record.pending, data, step)
        except OSError as error:
            _remove_all(record)
            raise _failed(settings, error, record.final.path) from error
        result = _indexed(settings, record, disk.read(record.pending), index)
        step("indexed")
        final = _rename(record)
        step("renamed")
        if final != record.final:  # somebody else took the name meanwhile
            result = index(final.path, disk.read(final))
        record.remove()
    step("done")
    write_counters.count(settings, atomic_writes=1)
    return Saved(final.path, result)


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


def _remove_all(record: _Record) -> None:
    """Nothing was acknowledged yet. What cannot be removed now, the next recovery removes."""
    with contextlib.suppress(OSError):
        filesystem.remove(record.pending)
        record.remove()


def _indexed(settings: Settings, record: _Record, text: FileText, index: Callable[[Path, FileText], T]) -> T:
    try:
        return index(record.final.path, text)
    except SpecKitMemoryError as error:
        kept = _keep(settings, record)
        raise type(error)(
            f"{error.message} The text is kept in {kept.as_posix()}.",
            hint=f"{error.hint} Then run `index()`.".strip(),
            **{**error.details, "path": kept.as_posix()},
        ) from error
    except BaseException as error:
        error.add_note(f"The text is kept in {_keep(settings, record).as_posix()}; `index()` will find it.")
        raise


def _keep(settings: Settings, record: _Record) -> Path:
    """Indexing failed: give the text its name, so that the next scan finds it."""
    write_counters.count(settings, errors=1)
    final = _rename(record)
    record.remove()
    return final.path


def _failed(settings: Settings, error: OSError, path: Path) -> SpecKitMemoryError:
    write_counters.count(settings, errors=1)
    return disk_error(error, path)


def _rename(record: _Record) -> Place:
    """Give the pending file its name without ever replacing another file."""
    for number in range(1, _MOST_NAMES):
        final = record.final if number == 1 else _numbered(record.final, number)
        try:
            filesystem.move_new(record.pending, final)
        except FileExistsError:
            continue
        filesystem.sync(final.parent)
        return final
    raise BadPath(f"there are too many files named like {record.final.name}", hint="choose another title")


def _numbered(final: Place, number: int) -> Place:
    return final.beside(f"{final.name.removesuffix('.md')}-{number}.md")


# --- records ------------------------------------------------------------------


class _Record:
    """A claim on a name, locked by the save that made it."""

    def __init__(self, place: Place, descriptor: int, final: Place) -> None:
        self.place = place
        self.final = final
        self.pending = _pending_place(final)
        self._descriptor = descriptor

    def write(self, settings: Settings, data: bytes) -> None:
        fields = {
            "final": paths.stored_form(settings, self.final.path),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        filesystem.write_all(self._descriptor, json.dumps(fields).encode())
        filesystem.flush(self._descriptor)
        filesystem.sync(self.place.parent)

    def remove(self) -> None:
        if sys.platform == "win32":
            self.close()  # an open file cannot be removed there
        filesystem.remove(self.place)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> _Record:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _records(settings: Settings) -> Place:
    return paths.state_folder(settings, "pending")


def _record_place(settings: Settings, final: Place) -> Place:
    name = hashlib.sha256(paths.stored_form(settings, final.path).encode()).hexdigest()[:24]
    return _records(settings) / f"{name}.json"


def _claim(settings: Settings, folder: Place, stem: str, taken: Callable[[Path], bool]) -> _Record:
    """Take the first free name of `<stem>.md`, `<stem>-2.md`, ... for this process alone."""
    disk.ensure_state_folder(settings)
    filesystem.make_folders(_records(settings), mode=0o700)
    first = folder / f"{stem}.md"
    for number in range(1, _MOST_NAMES):
        final = first if number == 1 else _numbered(first, number)
        record = _take(_record_place(settings, final), final)
        if record is None:
            continue
        # Looked at after the claim: a save that finished before it has made the file by now.
        if not filesystem.exists(record.pending) and not filesystem.exists(final) and not taken(final.path):
            return record
        record.remove()
        record.close()
    raise BadPath(f"there are too many files named like {first.name}", hint="choose another title")


def _take(place: Place, final: Place) -> _Record | None:
    try:
        descriptor = filesystem.create(place, mode=0o600)
    except FileExistsError:
        return None
    if filesystem.try_lock(descriptor) and _is_same(descriptor, place):
        return _Record(place, descriptor, final)
    os.close(descriptor)  # a recovery was quicker and took it for a dead one's
    return None


def _is_same(descriptor: int, place: Place) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), filesystem.look(place))
    except FileNotFoundError:
        return False


# --- recovery -----------------------------------------------------------------


def recover(settings: Settings, *, index: Callable[[Path], object] = lambda final: None) -> Recovery:
    """Complete the saves that died with their text on disk, and remove the halves of the others.

    A living save holds its record's lock and is left alone; of two recoveries one gets each record.
    `index` is called with each completed file; what it cannot do now, the next scan does.
    """
    done = Recovery()
    try:
        folder = _records(settings)
        records = [folder / name for name in filesystem.names(folder) if name.endswith(".json")]
    except OSError:
        return done
    for place in records:
        try:
            _recover_one(settings, place, index, done)
        except OSError:
            write_counters.count(settings, errors=1)  # read-only or taken away: the next start tries again
    if done.completed or done.removed:
        write_counters.count(settings, recoveries=len(done.completed) + len(done.removed))
    return done


def _recover_one(settings: Settings, place: Place, index: Callable[[Path], object], done: Recovery) -> None:
    try:
        descriptor = filesystem.open_lock(place, make=False)
    except FileNotFoundError:
        return
    except (Redirected, NotAFile):  # a repository can bring these along; none of them is ours
        return
    try:
        if not filesystem.try_lock(descriptor) or not _is_same(descriptor, place):
            return
        final, expected = _read_record(settings, os.read(descriptor, 65_536))
        if final is None:
            filesystem.remove(place)
            return
        record = _Record(place, descriptor, final)
        _settle(settings, record, expected, index, done)
        record.remove()
    finally:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def _try_index(settings: Settings, final: Path, index: Callable[[Path], object]) -> None:
    try:
        index(final)
    except SpecKitMemoryError:
        write_counters.count(settings, errors=1)


def _read_record(settings: Settings, data: bytes) -> tuple[Place | None, str]:
    """What a record says, if it is whole and names a file of the workspace in a place of memories."""
    try:
        fields = json.loads(data)
        stored, expected = str(fields["final"]), str(fields["sha256"])
        final = paths.place(settings, stored)
    except (ValueError, KeyError, TypeError, OSError, SpecKitMemoryError):
        return None, ""  # it is synced before the pending file is made: there is none
    inside = final.base == settings.root and final.name.endswith(".md")
    return (final, expected) if inside else (None, "")


def _settle(
    settings: Settings, record: _Record, expected: str, index: Callable[[Path], object], done: Recovery
) -> None:
    text, final = _hash(record.pending), _hash(record.final)
    if text is not None and text != expected:
        filesystem.remove(record.pending)  # half written, so never acknowledged
        done.removed.append(record.pending.path)
        return
    completed = record.final
    if text is not None and final == expected:
        filesystem.remove(record.pending)  # died between the two halves of the rename
    elif text is not None:
        completed = _rename(record)
    elif final != expected:
        return  # nothing was written, or a person has changed it since
    done.completed.append(completed.path)
    _try_index(settings, completed.path, index)


def _hash(place: Place) -> str | None:
    """None: there is no such file, or what stands there, or on the way, is none of ours."""
    try:
        return hashlib.sha256(filesystem.read(place, limit=_MOST_BYTES)[0]).hexdigest()
    except (FileNotFoundError, NotADirectoryError, Redirected, NotAFile):
        return None


def adopt(settings: Settings, leftovers: Iterable[Path]) -> Recovery:
    """Deal with what a walk found beside the memories: dead temporary files, and pending files
    without a record (the state folder was deleted). Names that are not ours are only pointed out.
    """
    done = Recovery()
    for path in leftovers:
        place = paths.place(settings, path)
        if path.name.endswith(filesystem.TEMPORARY):
            if disk.remove_if_dead(place):
                done.removed.append(path)
            continue
        final = place.beside(path.name.removesuffix(PENDING) + ".md")
        if filesystem.exists(_record_place(settings, final)):
            continue  # a living save, or one that `recover` looks after
        if _OURS.fullmatch(path.name):
            _adopt_one(settings, place, final, done)
        else:
            message = f"files that end in {PENDING} are taken for unfinished saves and not indexed; rename it"
            done.warnings.append((path, Warning_(message, code="pending")))
    if done.completed or done.removed:
        write_counters.count(settings, recoveries=len(done.completed) + len(done.removed))
    return done


def _adopt_one(settings: Settings, place: Place, final: Place, done: Recovery) -> None:
    try:
        if filesystem.look(place).st_size == 0 or _hash(place) == _hash(final):
            filesystem.remove(place)
            done.removed.append(place.path)
        else:
            done.completed.append(_rename(_Record(_record_place(settings, final), -1, final)).path)
    except FileNotFoundError:
        return  # its save has just finished
    except OSError as error:
        done.warnings.append((place.path, Warning_(disk_error(error, place.path).message, code="pending")))
