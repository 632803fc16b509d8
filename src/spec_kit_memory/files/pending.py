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

from spec_kit_memory.core.memory import Warning_
from spec_kit_memory.errors import BadPath, SpecKitMemoryError
from spec_kit_memory.files import disk, locks, write_counters
from spec_kit_memory.files.discovery_rules import PENDING
from spec_kit_memory.files.disk import FileText
from spec_kit_memory.settings import Settings

__all__ = ["Recovery", "Saved", "adopt", "pending_of", "recover", "save"]

_OURS = re.compile(r"\d\d-\d\d-\d\d_\d\d-\d\d__.*_pending\.md", re.DOTALL)
_MOST_NAMES = 10_000

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
    try:
        folder.mkdir(parents=True, exist_ok=True)
        record = _claim(settings, folder, stem, taken)
    except OSError as error:
        raise _failed(settings, error, folder / f"{stem}.md") from error
    with record:
        step("claimed")
        try:
            record.write(settings, data)
            step("recorded")
            _write_pending(record.pending, data, step)
        except OSError as error:
            record.pending.unlink(missing_ok=True)
            record.remove()
            raise _failed(settings, error, record.final) from error
        result = _indexed(settings, record, disk.read(record.pending), index)
        step("indexed")
        final = _rename(settings, record)
        step("renamed")
        if final != record.final:  # somebody else took the name meanwhile
            result = index(final, disk.read(final))
        record.remove()
    step("done")
    write_counters.count(settings, atomic_writes=1)
    return Saved(final, result)


def _write_pending(path: Path, data: bytes, step: Step) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags, 0o666)
    try:
        middle = len(data) // 2
        disk.write_all(descriptor, data[:middle])
        step("half")
        disk.write_all(descriptor, data[middle:])
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    disk.sync_folder(path.parent)
    step("written")


def _indexed(settings: Settings, record: _Record, text: FileText, index: Callable[[Path, FileText], T]) -> T:
    try:
        return index(record.final, text)
    except SpecKitMemoryError as error:
        kept = _keep(settings, record)
        raise type(error)(
            f"{error.message} The text is kept in {kept.as_posix()}.",
            hint=f"{error.hint} Then run `skm index`.".strip(),
            **{**error.details, "path": kept.as_posix()},
        ) from error
    except BaseException as error:
        error.add_note(f"The text is kept in {_keep(settings, record).as_posix()}; `skm index` will find it.")
        raise


def _keep(settings: Settings, record: _Record) -> Path:
    """Indexing failed: give the text its name, so that the next scan finds it."""
    write_counters.count(settings, errors=1)
    final = _rename(settings, record)
    record.remove()
    return final


def _failed(settings: Settings, error: OSError, path: Path) -> SpecKitMemoryError:
    write_counters.count(settings, errors=1)
    return disk.disk_error(error, path)


def _rename(settings: Settings, record: _Record) -> Path:
    """Give the pending file its name without ever replacing another file."""
    for number in range(1, _MOST_NAMES):
        final = record.final if number == 1 else _numbered(record.final, number)
        try:
            _rename_new(record.pending, final)
        except FileExistsError:
            continue
        disk.sync_folder(final.parent)
        return final
    raise BadPath(f"there are too many files named like {record.final.name}", hint="choose another title")


def _numbered(final: Path, number: int) -> Path:
    return final.with_name(f"{final.name.removesuffix('.md')}-{number}.md")


def _rename_new(source: Path, target: Path) -> None:
    if sys.platform == "win32":
        os.rename(source, target)  # refuses to replace
        return
    try:
        os.link(source, target)
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise FileExistsError(str(target)) from None
        os.rename(source, target)
        return
    os.unlink(source)


# --- records ------------------------------------------------------------------


class _Record:
    """A claim on a name, locked by the save that made it."""

    def __init__(self, path: Path, descriptor: int, final: Path) -> None:
        self.path = path
        self.final = final
        self.pending = pending_of(final)
        self._descriptor = descriptor

    def write(self, settings: Settings, data: bytes) -> None:
        fields = {"final": disk.stored_form(settings, self.final), "sha256": hashlib.sha256(data).hexdigest()}
        disk.write_all(self._descriptor, json.dumps(fields).encode())
        os.fsync(self._descriptor)
        disk.sync_folder(self.path.parent)

    def remove(self) -> None:
        if sys.platform == "win32":
            self.close()  # an open file cannot be removed there
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> _Record:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _records(settings: Settings) -> Path:
    return settings.state_folder / "pending"


def _record_path(settings: Settings, final: Path) -> Path:
    name = hashlib.sha256(disk.stored_form(settings, final).encode()).hexdigest()[:24]
    return _records(settings) / f"{name}.json"


def _claim(settings: Settings, folder: Path, stem: str, taken: Callable[[Path], bool]) -> _Record:
    """Take the first free name of `<stem>.md`, `<stem>-2.md`, ... for this process alone."""
    disk.ensure_state_folder(settings)
    _records(settings).mkdir(mode=0o700, exist_ok=True)
    first = Path(os.path.realpath(folder)) / f"{stem}.md"
    for number in range(1, _MOST_NAMES):
        final = first if number == 1 else _numbered(first, number)
        record = _take(_record_path(settings, final), final)
        if record is None:
            continue
        # Looked at after the claim: a save that finished before it has made the file by now.
        if not os.path.lexists(record.pending) and not os.path.lexists(final) and not taken(final):
            return record
        record.remove()
        record.close()
    raise BadPath(f"there are too many files named like {first.name}", hint="choose another title")


def _take(path: Path, final: Path) -> _Record | None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    except FileExistsError:
        return None
    if locks.try_lock(descriptor) and _is_same(descriptor, path):
        return _Record(path, descriptor, final)
    os.close(descriptor)  # a recovery was quicker and took it for a dead one's
    return None


def _is_same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
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
        records = sorted(_records(settings).glob("*.json"))
    except OSError:
        return done
    for path in records:
        try:
            _recover_one(settings, path, index, done)
        except OSError:
            write_counters.count(settings, errors=1)  # read-only or taken away: the next start tries again
    if done.completed or done.removed:
        write_counters.count(settings, recoveries=len(done.completed) + len(done.removed))
    return done


def _recover_one(settings: Settings, path: Path, index: Callable[[Path], object], done: Recovery) -> None:
    try:
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        return
    try:
        if not locks.try_lock(descriptor) or not _is_same(descriptor, path):
            return
        final, expected = _read_record(settings, os.read(descriptor, 65_536))
        record = _Record(path, descriptor, final or path)
        if final is not None:
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


def _read_record(settings: Settings, data: bytes) -> tuple[Path | None, str]:
    """What a record says, if it is whole and names a file inside the workspace."""
    try:
        fields = json.loads(data)
        stored, expected = str(fields["final"]), str(fields["sha256"])
        final = settings.root / stored
        inside = final.is_relative_to(settings.root) and Path(os.path.realpath(final.parent)) == final.parent
    except (ValueError, KeyError, TypeError, OSError):
        return None, ""  # it is synced before the pending file is made: there is none
    return (final, expected) if inside and final.name.endswith(".md") else (None, "")


def _settle(
    settings: Settings, record: _Record, expected: str, index: Callable[[Path], object], done: Recovery
) -> None:
    text, final = _hash(record.pending), _hash(record.final)
    if text is not None and text != expected:
        record.pending.unlink(missing_ok=True)  # half written, so never acknowledged
        done.removed.append(record.pending)
        return
    completed = record.final
    if text is not None and final == expected:
        record.pending.unlink(missing_ok=True)  # died between the two halves of the rename
    elif text is not None:
        completed = _rename(settings, record)
    elif final != expected:
        return  # nothing was written, or a person has changed it since
    done.completed.append(completed)
    _try_index(settings, completed, index)


def _hash(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return None


def adopt(settings: Settings, leftovers: Iterable[Path]) -> Recovery:
    """Deal with what a walk found beside the memories: dead temporary files, and pending files
    without a record (the state folder was deleted). Names that are not ours are only pointed out.
    """
    done = Recovery()
    for path in leftovers:
        if path.name.endswith(disk.TEMPORARY):
            if disk.remove_if_dead(path):
                done.removed.append(path)
            continue
        final = path.with_name(path.name.removesuffix(PENDING) + ".md")
        if _record_path(settings, final).exists():
            continue  # a living save, or one that `recover` looks after
        if _OURS.fullmatch(path.name):
            _adopt_one(settings, path, final, done)
        else:
            message = f"files that end in {PENDING} are taken for unfinished saves and not indexed; rename it"
            done.warnings.append((path, Warning_(message, code="pending")))
    if done.completed or done.removed:
        write_counters.count(settings, recoveries=len(done.completed) + len(done.removed))
    return done


def _adopt_one(settings: Settings, path: Path, final: Path, done: Recovery) -> None:
    try:
        if path.stat().st_size == 0 or _hash(path) == _hash(final):
            path.unlink()
            done.removed.append(path)
        else:
            done.completed.append(_rename(settings, _Record(_record_path(settings, final), -1, final)))
    except FileNotFoundError:
        return  # its save has just finished
    except OSError as error:
        done.warnings.append((path, Warning_(disk.disk_error(error, path).message, code="pending")))
