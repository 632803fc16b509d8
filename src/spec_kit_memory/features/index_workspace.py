"""Is the index in step with the files? Scanning, and the vectors that follow."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from spec_kit_memory import filesystem
from spec_kit_memory.advice import Advice, Text, advise, finding, outcome
from spec_kit_memory.answers import IndexAnswer, RebuiltIndex, RebuiltTable, SkippedFiles, UnreadFile
from spec_kit_memory.core.folders import clean_folder, near_folders
from spec_kit_memory.core.memory import Passage, VectorStatus
from spec_kit_memory.core.wording import counted
from spec_kit_memory.errors import (
    AccessDenied,
    BadSpecFolder,
    CoolingDown,
    DatabaseBusy,
    DatabaseCorrupt,
    DatabaseUnusable,
    OutsideScope,
    SpecKitMemoryError,
)
from spec_kit_memory.features import checkpoints, remarks
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files import checkpoint_file, checkpoint_shelf, paths, trash, vector_queue
from spec_kit_memory.files.discovery_rules import OUTSIDE
from spec_kit_memory.files.file_errors import disk_error
from spec_kit_memory.index import open_index
from spec_kit_memory.index.contract import Index
from spec_kit_memory.requests import IndexRequest

if TYPE_CHECKING:
    from spec_kit_memory.files.scan_state import ScanReport
    from spec_kit_memory.index.contract import Rebuilt, TableReport

Progress = Callable[[str, int, int], None]
Cancelled = Callable[[], bool]

# The tool may scan once a minute per workspace, counted over all of its servers.
COOLDOWN_SECONDS = 60
NAMED_PATHS = 3  # for each reason why files are skipped


def index(runtime: Runtime, request: IndexRequest) -> IndexAnswer:
    """Bring the index up to date. With `embed`, vectors are computed before this returns."""
    if runtime.accepts:
        raise AccessDenied("this server reads git by itself", hint="push: what is pushed is found within a minute")
    folder = clean_folder(request.spec_folder) if request.spec_folder else None
    if folder is not None:
        _check_folder(runtime, folder)  # before the cooldown: a typing error must not cost a minute
    if request.cooldown:
        _cool_down(runtime)
    started = time.perf_counter()
    rebuilt: Rebuilt | None = None
    if request.rebuild:  # always of all files: otherwise other folders would be missing from the new index
        change = runtime.change("rebuild")
        rebuilt, report = runtime.sync.rebuild(change, progress=request.progress, cancel=request.cancelled)
    else:
        report = runtime.sync.scan(
            spec_folder=folder,
            force=request.force,
            progress=request.progress,
            cancel=request.cancelled,
        )
    text_done = time.perf_counter()
    missing = _without_vectors(runtime)
    passages: int | None = None
    if request.embed:
        embedded = 0

        def count(done: vector_queue.Embedded) -> None:
            nonlocal embedded
            embedded += done.embedded

        embed_pending(runtime, progress=request.progress, cancelled=request.cancelled, report=count)
        # Another process may have embedded them while this one waited; and of passages outside its scope, an isolated
        # caller gets no count.
        own = 0 if runtime.isolated else embedded
        passages = own or max(0, missing - _without_vectors(runtime))
    else:
        runtime.embed_soon()
    seconds_vectors = time.perf_counter() - text_done
    answer = _answer(runtime, report, text_done - started, seconds_vectors, passages=passages)
    if request.rebuild and rebuilt is None:
        return replace(answer, outcome=outcome("rebuild-stopped"))
    if request.copy_to is not None:
        return _copied(runtime, answer, request.copy_to)
    return answer if rebuilt is None else _with_rebuilt(runtime, answer, rebuilt)


def _without_vectors(runtime: Runtime) -> int:
    """The number of passages without a vector, failed ones included: otherwise they would count as embedded."""
    stats = runtime.store.care.stats()
    return stats.pending_passages + stats.failed_passages


def _copied(runtime: Runtime, answer: IndexAnswer, url: str) -> IndexAnswer:
    """Copy the whole index to `url`; only a caller who sees the whole workspace may do so."""
    from spec_kit_memory.index.transfer import copy

    if runtime.isolated:
        raise OutsideScope(
            "only a caller who sees the whole workspace may copy its index",
            hint="leave out isolation and allowed paths to copy it",
        )
    target_settings = replace(runtime.settings, index=replace(runtime.settings.index, url=url))
    place, project = paths.index_place(target_settings), target_settings.index_project
    with closing(open_index(place, project=project, checkout=target_settings.index_checkout)) as target:
        instances = checkpoints.instance(runtime.whole), checkpoints.instance(target)
        with ExitStack() as if_it_fails:
            carry = partial(_carry_state_files, runtime, target, instances, if_it_fails)
            counts = copy(runtime.whole, target, state_files=carry)
            if_it_fails.pop_all()
    memories, entries = counts["memory"], counts["ledger"]
    done = outcome("copied", memories=memories, entries=entries, outcome=answer.outcome)
    return replace(answer, outcome=done, copied=counts)


def _carry_state_files(
    runtime: Runtime, target: Index, instances: tuple[str, str], if_it_fails: ExitStack
) -> dict[str, int]:
    source, settings = runtime.whole, runtime.settings
    shelves = checkpoint_shelf.shelf_of(settings, source), checkpoint_shelf.shelf_of(settings, target)
    return {
        "checkpoints": checkpoint_file.carry(*shelves, instances=instances, if_it_fails=if_it_fails),
        "trash": trash.carry(settings, source, target, if_it_fails=if_it_fails),
    }


def _check_folder(runtime: Runtime, start: str) -> None:
    """Raise unless the path of some spec folder, in the index or on disk, starts with `start`."""
    names = {tally.spec_folder for tally in runtime.store.documents.tally() if tally.spec_folder}
    if any(name.startswith(start) for name in names):
        return
    names |= runtime.sync.spec_folders()
    if any(name.startswith(start) for name in names):
        return
    near = near_folders(start, names)
    raise BadSpecFolder(
        f"no spec folder starts with {start!r}",
        hint=f"the nearest: {', '.join(near)}" if near else "leave the spec folder out to index everything",
        alternatives=near,
    )


def embed_pending(
    runtime: Runtime,
    *,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
    report: Callable[[vector_queue.Embedded], None] = lambda done: None,
) -> bool:
    """Embed all waiting passages; returns False if that ended early, for example because the provider is down."""
    embedder = runtime.meaning.embedder() if runtime.meaning.wanted else None
    if embedder is None:
        return True
    done = vector_queue.embed_pending(
        runtime.whole, embedder, settings=runtime.settings, progress=progress, cancel=cancelled
    )
    if done.failure:
        runtime.meaning.failed(done.failure)
    elif done.embedded:
        runtime.meaning.worked()
    report(done)
    return not done.stopped


def embed_ahead(runtime: Runtime, passages: Sequence[Passage]) -> Mapping[str, tuple[bytes, bytes | None]]:
    """The vectors of a text that is about to be saved, where they are computed here: a provider that hangs must not
    keep it from being saved."""
    embedder = runtime.meaning.embedder() if runtime.meaning.wanted and not runtime.meaning.down else None
    if embedder is None or not runtime.settings.semantic.is_local:
        return {}
    return vector_queue.embed_ahead(runtime.store, embedder, passages)


def embed_memory(runtime: Runtime, memory_id: int) -> VectorStatus:
    """Compute a memory's missing vectors now; the background does what is left of a long one, or after a failure."""
    if _vector_status(runtime, memory_id) is VectorStatus.SUCCESS:
        return VectorStatus.SUCCESS
    embedder = runtime.meaning.embedder() if runtime.meaning.wanted else None
    if embedder is not None and not runtime.meaning.down:
        try:
            failure: SpecKitMemoryError | None = vector_queue.embed_memory(runtime.store, embedder, memory_id).failure
        except SpecKitMemoryError as error:
            failure = error
        if failure is not None:
            runtime.meaning.failed(failure)
        if _vector_status(runtime, memory_id) is not VectorStatus.SUCCESS:
            runtime.embed_soon()
    return _vector_status(runtime, memory_id)


def _vector_status(runtime: Runtime, memory_id: int) -> VectorStatus:
    try:
        return runtime.store.documents.get(memory_id, any_presence=True).vector_status
    except (DatabaseBusy, DatabaseCorrupt, DatabaseUnusable):  # the memory is saved; missing vectors are found later
        return VectorStatus.PENDING


def _cool_down(runtime: Runtime) -> None:
    """Raise if any server of the workspace scanned within the last minute."""
    rows, now = runtime.whole.state_files, runtime.now()
    left = _left_by_stamp(runtime) if rows is None else rows.seconds_left("scan", now, pause_seconds=COOLDOWN_SECONDS)
    if not 0 < left <= COOLDOWN_SECONDS:
        return
    seconds = int(left) + 1
    raise CoolingDown(
        f"the last scan was {counted(COOLDOWN_SECONDS - seconds, 'second')} ago",
        hint=advise("wait-to-scan", seconds=seconds),
        seconds_left=seconds,
    )


def _left_by_stamp(runtime: Runtime) -> float:
    """Seconds until the next scan may start. The mtime of a stamp file in the workspace is the time of the last one."""
    stamp = runtime.settings.state_folder / "last-scan"
    now = runtime.now().timestamp()
    try:
        place = paths.state(runtime.settings, stamp.name)
        left = COOLDOWN_SECONDS - (now - filesystem.look(place).st_mtime) if filesystem.exists(place) else 0.0
        if not 0 < left <= COOLDOWN_SECONDS:
            filesystem.rewrite(place, b"")
            filesystem.set_time(place, int(now * 1e9))
            return 0.0
    except OSError as error:
        raise disk_error(error, stamp) from error
    return left


def _missing_vectors(
    runtime: Runtime, status: Mapping[str, int], failures: Mapping[str, int], cause: Text, *, embedded: bool
) -> list[Text]:
    """What is not embedded and why, with a next step that helps."""
    waiting, broken = (
        sum(status.get(name, 0) for name in names) for names in (("pending", "retry"), ("partial", "failed"))
    )
    if not runtime.meaning.wanted or not (waiting or broken):
        return []
    hints: list[Text] = [
        finding("passages-without-vector", count=count, cause=cause) for cause, count in failures.items()
    ]
    if waiting and cause and runtime.meaning.advice:
        hints.append(advise("vectors-held-up", count=waiting, cause=cause, next=runtime.meaning.advice))
    elif waiting and cause:
        hints.append(finding("memories-wait-for-vectors", count=waiting, cause=cause))
    elif waiting:
        hints.append(advise("vectors-tried" if embedded else "vectors-waiting", count=waiting))
    if broken:
        hints.append(advise("vectors-given-up", count=broken))
    return hints


def _answer(
    runtime: Runtime, report: ScanReport, seconds_text: float, seconds_vectors: float, *, passages: int | None
) -> IndexAnswer:
    """`passages`: how many were embedded; None if that is left to the background."""
    indexed = report.new + report.modified + report.reindexed
    stats = runtime.store.care.stats()
    status = dict(stats.vectors)
    hints: list[Text] = []
    if report.forgotten:
        hints.append(advise("forgotten-files", count=report.forgotten))
    if not (indexed or report.unchanged or report.moved or report.aliases or report.bad or report.forgotten):
        hints.append(advise("write-first"))
    if report.bad:
        hints.append(advise("bad-files", count=len(report.bad)))
    loose = [remark for remark in runtime.store.care.remarks() if remark.kind == "link"] if report.changed else []
    if loose:
        first = finding("file-problem", path=loose[0].path, problem=loose[0].message)
        more = len(loose) - 1
        hints.append(
            advise("loose-links-more", problem=first, more=more) if more else advise("loose-link", problem=first)
        )
    failures = stats.failures if runtime.meaning.wanted else {}
    cause = remarks.vector_cause(runtime)
    hints += _missing_vectors(runtime, status, failures, cause, embedded=passages is not None)
    waiting = sum(count for name, count in status.items() if name != "success") if runtime.meaning.wanted else 0
    done = _outcome(indexed, report, passages or 0, waiting=waiting)
    return IndexAnswer(
        outcome=outcome("without-vectors", outcome=done, count=waiting) if waiting else done,
        advice=tuple(hints),
        indexed=indexed,
        new=report.new,
        modified=report.modified,
        reindexed=report.reindexed,
        moved=report.moved,
        aliases=report.aliases,
        unchanged=report.unchanged,
        deleted=report.deleted,
        bad=bad_files(report),
        warnings=tuple(report.warnings),
        undiscovered=report.undiscovered,
        skipped=_skipped(report),
        archived=report.archived,
        vectors=status,
        vector_failures=dict(failures),
        vector_problem=cause if waiting else "",
        seconds_text=round(seconds_text, 3),
        seconds_vectors=round(seconds_vectors, 3),
    )


def bad_files(report: ScanReport) -> tuple[UnreadFile, ...]:
    return tuple(UnreadFile(path=bad.path, code=bad.code, message=bad.message) for bad in report.bad)


def _with_rebuilt(runtime: Runtime, answer: IndexAnswer, rebuilt: Rebuilt) -> IndexAnswer:
    """The answer with the result of the rebuild. Rows that could not be read come first: no later answer shows them."""
    hints: list[Text] = []
    kept, tables = None, None
    if rebuilt.kept != Path():
        kept = paths.stored_form(runtime.settings, rebuilt.kept)
        hints = [finding("old-index-kept", path=kept)]
    code = "rebuilt"
    if not runtime.isolated:  # figures about the whole index are not for isolated callers
        tables = tuple(RebuiltTable(table=name, **asdict(table)) for name, table in rebuilt.tables.items())
        losses = [_loss(name, table) for name, table in rebuilt.tables.items() if table.lost or not table.complete]
        if losses:
            code = "rebuilt-in-part"
            hints = [finding("rows-lost", losses=tuple(losses)), *hints]
            hints.append(advise("restore-lost"))
    return replace(
        answer,
        outcome=outcome(code, outcome=answer.outcome),
        advice=(*hints, *answer.advice),
        rebuilt=RebuiltIndex(kept=kept, tables=tables),
    )


def _loss(name: str, table: TableReport) -> Advice:
    whole = table.read + table.restored + table.lost
    if table.complete:
        return finding("lost-rows", lost=table.lost, whole=whole, table=name)
    if not table.read:
        return finding("lost-table", table=name)
    if not table.lost:
        return finding("lost-part", table=name)
    return finding("lost-at-least", lost=table.lost, whole=whole, table=name)


def _skipped(report: ScanReport) -> tuple[SkippedFiles, ...]:
    """Files that are no memories, by reason; those outside the memory folders come last."""
    groups: dict[str, list[str]] = {}
    for path, why in sorted(report.skipped, key=lambda pair: (pair[1] == OUTSIDE, pair)):
        groups.setdefault(why, []).append(path)
    return tuple(
        SkippedFiles(reason=finding(why), count=len(paths), paths=tuple(paths[:NAMED_PATHS]))
        for why, paths in groups.items()
    )


def _outcome(indexed: int, report: ScanReport, embedded: int, *, waiting: int) -> Advice:
    if not (indexed or report.deleted or report.moved or report.aliases):
        if embedded:
            return outcome("passages-embedded", count=embedded, unchanged=report.unchanged)
        if report.unchanged:
            return outcome("still-unchanged" if waiting else "all-unchanged", unchanged=report.unchanged)
        return outcome("nothing-to-do" if report.forgotten else "no-memories")
    parts = [outcome("files-new", count=report.new), outcome("files-modified", count=report.modified)]
    more = {
        "files-indexed-again": report.reindexed,
        "files-moved": report.moved,
        "files-gone": report.deleted,
    }
    parts += [outcome(code, count=count) for code, count in more.items() if count]
    return outcome("indexed", count=indexed, parts=tuple(parts), unchanged=report.unchanged)


def changes(report: ScanReport) -> Advice:
    """A summary of the changes that a scan made."""
    counts = {
        "scan-indexed": report.new + report.modified + report.reindexed,
        "scan-moved": report.moved,
        "scan-aliases": report.aliases,
        "scan-gone": report.deleted,
        "scan-failed": len(report.bad),
    }
    parts = tuple(outcome(code, count=count) for code, count in counts.items() if count)
    return outcome("scan-changed", parts=parts) if parts else outcome("something-changed")
