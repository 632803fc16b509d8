"""What does the workspace contain, and is it in order? Statistics and health checks."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

from spec_kit_memory import filesystem
from spec_kit_memory.advice import Advice, Text, advise, finding, outcome
from spec_kit_memory.answers import EmbeddingStats, FolderStats, HealthAnswer, LinkStats, Problem, StatsAnswer
from spec_kit_memory.core import decay, operation, tiers
from spec_kit_memory.core.delivery import Backlog
from spec_kit_memory.core.memory import Filter, Relation, State, Tier
from spec_kit_memory.features import freshness, index_workspace, remarks, sessions
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files import checkpoint_file as shelf
from spec_kit_memory.files import locks, spec_links, write_counters
from spec_kit_memory.files.checkpoint_shelf import shelf_of
from spec_kit_memory.files.scan_state import Differences
from spec_kit_memory.index.contract import BadFile, IndexTotals, Remark, Tally
from spec_kit_memory.requests import HealthRequest, StatsRequest

_TOTALS = ("memories", "gone", "forgotten", "passages", "tokens", "triggers", "aliases", "outdated")
# The weights by which spec folders are ordered.
COMPOSITE = {"count": 0.3, "recency": 0.4, "importance": 0.3}


def stats(runtime: Runtime, request: StatsRequest) -> StatsAnswer:
    stored = runtime.store.care.stats(size=True)
    folders = _folders(runtime, runtime.store.documents.tally(), request.folder_ranking)
    return StatsAnswer(
        outcome=outcome("workspace-contents", memories=stored.memories, folders=len(folders), passages=stored.passages),
        totals={name: getattr(stored, name) for name in _TOTALS} | {"folders": len(folders)},
        tiers=dict(stored.tiers),
        states=_states(runtime),
        sources=dict(stored.sources),
        vectors=dict(stored.vectors),
        folders=tuple(folders[: request.limit]),
        links=_links(runtime, stored.memories),
        embedding=_embedding(runtime, stored),
        transactions=asdict(write_counters.read(runtime.settings, scope=runtime.scope)),
        size_bytes=stored.size_bytes,
        last_indexed=stored.last_indexed,
        git=remarks.git_counts(runtime),
    )


def _embedding(runtime: Runtime, stored: IndexTotals) -> EmbeddingStats:
    return EmbeddingStats(
        provider=runtime.settings.semantic.model,
        model=stored.model.name if stored.model else None,
        dimensions=stored.model.dimensions if stored.model else None,
        problem=remarks.vector_cause(runtime) or None,
        failures=dict(stored.failures) if runtime.meaning.wanted else {},
    )


def _states(runtime: Runtime) -> dict[str, int]:
    """The number of memories in each state, counted by the index: reading very many of them would take seconds."""
    now = runtime.now()
    counted = {
        state.value: runtime.store.documents.count(Filter(states=decay.bounds({state}, now=now)))
        for state in State
        if state is not State.HOT  # HOT depends on the session
    }
    return {name: count for name, count in counted.items() if count}


def _links(runtime: Runtime, memories: int) -> LinkStats:
    live_links = runtime.store.record.links()  # both ends are live
    linked = {end for link in live_links for end in (link.source_id, link.target_id)}
    counts = Counter(link.relation for link in live_links)
    strengths = [link.strength for link in live_links]
    return LinkStats(
        total=len(live_links),
        relations={relation.value: counts[relation] for relation in Relation},
        linked=len(linked),
        coverage=round(len(linked) / memories, 4) if memories else 0.0,
        average_strength=round(sum(strengths) / len(strengths), 4) if strengths else 0.0,
        orphans=0,  # live links have both ends; `health` finds links that have lost one
    )


def _folders(runtime: Runtime, tallies: list[Tally], ranking: str) -> list[FolderStats]:
    grouped: dict[str, list[Tally]] = {}
    for tally in tallies:
        if tally.spec_folder:
            grouped.setdefault(tally.spec_folder, []).append(tally)
    most = max((sum(tally.count for tally in group) for group in grouped.values()), default=1)
    rows = [_folder(runtime, name, group, most) for name, group in grouped.items()]
    rows.sort(key=lambda row: (-row[ranking], row.name))
    return rows


def _folder(runtime: Runtime, name: str, group: list[Tally], most: int) -> FolderStats:
    newest = max(tally.newest for tally in group)
    days = max(0.0, (runtime.now() - newest).total_seconds() / 86400)
    count = sum(tally.count for tally in group)
    recency = decay.factor(Tier.NORMAL, model="half_life", days=days)
    importance = sum(tally.count * tiers.TABLE[tally.tier].weight for tally in group) / count
    composite = (
        COMPOSITE["count"] * count / most + COMPOSITE["recency"] * recency + COMPOSITE["importance"] * importance
    )
    return FolderStats(
        name=name,
        count=count,
        newest=newest,
        recency=round(recency, 4),
        importance=round(importance, 4),
        composite=round(composite, 4),
    )


def health(runtime: Runtime, request: HealthRequest) -> HealthAnswer:
    """Healthy means: files and index agree now, no vector is missing, the model can be loaded, checkpoints can be
    read, links have their targets, and there is room to write. On a large index a plain call checks what it can in a
    moment and names the checks that are unfinished; `full` and `repair` check everything."""
    repair = request.repair
    repaired = _repaired(runtime) if repair else {}
    whole = repair or request.full
    checks: dict[str, Text] = {}
    problems: list[Problem] = []
    serious = notices = 0
    looked_at = runtime.store if runtime.isolated else runtime.whole
    doing = runtime.doing()
    looked = looked_at.care.check(now=runtime.now(), quick=not whole)
    unfinished = [str(name) for name in looked.pop("unfinished", [])]
    if whole:
        looked["links"] += _spec_links(runtime)
    every_check = (
        *_in_index(looked),
        *_in_files(runtime, unfinished, whole=whole),
        *_in_vectors(runtime),
        *_at_hand(runtime, unfinished, whole=whole),
        *_disks(runtime),
    )
    for checked in every_check:
        name, messages = checked.check, checked.messages
        if messages and (checked.in_progress or (doing and name in _IN_BACKGROUND)):
            checks[name] = finding("in-progress", problem=messages[0])  # needs no action
            continue
        checks[name] = _summary(messages)
        hint = checked.hint or _HINTS.get(name, "")
        is_notice = name in _NOTICES
        serious, notices = serious + len(messages) * (not is_notice), notices + len(messages) * is_notice
        problems += [
            Problem(check=name, message=message, hint=hint, notice=is_notice) for message in messages[:MOST_OF_A_KIND]
        ]
        if len(messages) > MOST_OF_A_KIND:
            more = finding("more-problems", count=len(messages) - MOST_OF_A_KIND)
            problems.append(Problem(check=name, message=more, hint=hint, notice=is_notice))
        if name in unfinished and not messages:
            checks[name] = finding("ok-so-far")
    # If nothing can be embedded, a repair cannot embed either.
    in_vain = _VECTORS if any(problem.check == "meaning" for problem in problems) else frozenset()
    mendable = not repair and any(problem.check in _MENDABLE - in_vain for problem in problems)
    hints = [advise("repair")] if mendable else []
    if unfinished:
        hints.append(advise("look-to-the-end", checks=tuple(unfinished)))
    verdict = _verdict(serious, notices)
    return HealthAnswer(
        outcome=outcome("health-while", outcome=verdict, doing=doing) if doing else verdict,
        advice=tuple(hints),
        healthy=not serious,
        problems=tuple(problems),
        checks=checks,
        repaired=repaired,
    )


@dataclass(frozen=True, slots=True)
class _Checked:
    """The findings of one check; no messages means that all is well."""

    check: str
    messages: Sequence[Text] = ()
    hint: Text = ""  # replaces the usual hint where that would not help
    in_progress: bool = False  # a process is working on it


def _summary(messages: Sequence[Text]) -> Text:
    if len(messages) > 1:
        return finding("several-problems", count=len(messages))
    return messages[0] if messages else "ok"


def _verdict(serious: int, notices: int) -> Advice:
    if serious and notices:
        return outcome("problems-with-notices", count=serious, notices=notices)
    if serious:
        return outcome("problems", count=serious)
    return outcome("healthy-with-notices", count=notices) if notices else outcome("healthy")


def _repaired(runtime: Runtime) -> dict[str, int]:
    """Repair the workspace; returns what was repaired, but not to an isolated caller: it may belong to another."""
    stale = len(freshness.stale(runtime))
    done = runtime.whole.care.repair(runtime.change("repair", operation.Repair()))
    if not runtime.accepts:
        runtime.sync.scan(count=False, change=runtime.change("repair"))
        ids, places = spec_links.of_workspace(runtime.whole)
        rebuilt = spec_links.rebuild(runtime.whole, ids, places, runtime.change("repair"), everywhere=True)
        done |= {"links": done.get("links", 0) + rebuilt} if rebuilt else {}
    index_workspace.embed_pending(runtime)
    return {} if runtime.isolated else done | ({"stale rows": stale} if stale else {})


def _spec_links(runtime: Runtime) -> list[Text]:
    """Are the links of spec documents those that follow from their folders?"""
    if runtime.accepts or runtime.isolated:
        return []  # the mirror of the repository keeps them; counts would tell of memories that one may not see
    ids, places = spec_links.of_workspace(runtime.whole)
    count = sum(map(len, spec_links.differences(runtime.whole, ids, places, everywhere=True)))
    return [finding("spec-links-differ", count=count)] if count else []


# Reported, but not a fault of the index.
_NOTICES = {"file warnings", "held back", "general triggers", "gone code", "sessions", "locks", "read-only disk"}
# The checks that a repair can fix; the others need a person, a file or a provider.
_MENDABLE = {
    "files",
    "stale rows",
    "pending vectors",
    "failed vectors",
    "links",
    "text index",
    "vectors",
    "documents",
}
_VECTORS = frozenset(("pending vectors", "failed vectors"))
_IN_BACKGROUND = {"files", "stale rows", "pending vectors"}
_LOCKS = {"scan.lock": "scanning", "embed.lock": "embedding", "watch.lock": "watching"}
MOST_OF_A_KIND = 20
NAMED_FILES = 3
QUICK_FILES = 20_000  # up to so many are compared with the index within a second or two

_HINTS: Mapping[str, Text] = {
    "meaning": advise("repair-meaning"),
    "files": advise("repair-files"),
    "saves": advise("saves-are-found"),
    "repository": advise("repair-repository"),
    "bad files": advise("repair-bad-files"),
    "file warnings": advise("repair-lines"),
    "held back": advise("repair-held-back"),
    "gone code": advise("still-true"),
    "general triggers": advise("longer-phrase"),
    "pending vectors": advise("repair-pending"),
    "failed vectors": advise("repair-failed"),
    "stale rows": advise("repair-stale"),
    "checkpoints": advise("repair-checkpoints"),
    "links": advise("repair-links"),
    "link targets": advise("repair-link-targets"),
    "sessions": advise("repair-sessions"),
    "disk space": advise("free-space"),
    "read-only disk": advise("mount-for-writing"),
    "text index": advise("repair-text"),
    "vectors": advise("repair-vectors"),
    "documents": advise("repair-documents"),
    "ledger": advise("repair-ledger"),
    "record": advise("repair-record"),
    "integrity": advise("repair-index"),
}


def _in_index(looked: Mapping[str, list[Text]]) -> Iterator[_Checked]:
    for name, messages in looked.items():
        yield _Checked(name, messages)


def _in_files(runtime: Runtime, unfinished: list[str], *, whole: bool) -> Iterator[_Checked]:
    """Do files and index agree now, and which files have errors?"""
    outbox = runtime.whole.outbox
    if outbox is not None:
        differ = Differences()
        yield from _in_git(outbox.backlog(), isolated=runtime.isolated)
    elif whole or runtime.store.documents.count() <= QUICK_FILES:
        differ = runtime.sync.compare()
    else:
        differ = Differences()
        unfinished.append("files")
    yield _Checked(
        "files",
        [
            *_files("files-not-indexed", differ.unindexed),
            *_files("files-changed", differ.changed),
            *_files("files-without-rule", differ.lost),
        ],
    )
    yield _Checked("stale rows", freshness.stale(runtime))
    yield _Checked("bad files", [_bad_file(bad) for bad in runtime.store.care.bad_files()])
    every = runtime.store.care.remarks()
    yield _Checked("link targets", [_remark(remark) for remark in every if remark.kind == "link"])
    yield _Checked("file warnings", [_remark(remark) for remark in every if remark.kind == "file"])
    yield _Checked("held back", _held_back(runtime))
    yield _Checked("gone code", _gone_code(runtime))


def _in_git(backlog: Backlog, *, isolated: bool) -> Iterator[_Checked]:
    """Are accepted changes in git, and can the repository be read? An isolated caller sees only how many are late."""
    if isolated and backlog.late:
        late = [finding("changes-not-in-git", count=len(backlog.late))]
    else:
        late = [finding("file-problem", path=change.path, problem=change.reason or "") for change in backlog.late]
    yield _Checked("saves", late)
    yield _Checked("repository", [backlog.problem] if backlog.problem else ())


def _bad_file(bad: BadFile) -> Advice:
    return finding("bad-file", error=bad.code, path=bad.path, problem=bad.message)


def _remark(remark: Remark) -> Advice:
    if remark.line:
        return finding("line-problem", path=remark.path, line=remark.line, problem=remark.message)
    return finding("file-problem", path=remark.path, problem=remark.message)


def _files(code: str, paths: Sequence[str]) -> list[Advice]:
    return [finding(code, count=len(paths), paths=_first(paths))] if paths else []


def _first(names: Sequence[str]) -> tuple[str, ...] | Advice:
    """The first of these names, and how many more there are."""
    some, more = tuple(names[:NAMED_FILES]), len(names) - NAMED_FILES
    return finding("and-more", names=some, more=more) if more > 0 else some


def _held_back(runtime: Runtime) -> list[Advice]:
    """The ids of memories that expired or were marked outdated: a list would show only its first page."""
    now, stored = runtime.now(), runtime.store.care.stats()
    some_expired = stored.memories > runtime.store.documents.count(Filter(expired_at=now.timestamp()))
    if not some_expired and not stored.outdated:
        return []
    memories = runtime.store.documents.find(order="path")
    expired = [memory.id for memory in memories if decay.expired(memory.attributes.expires_at, now)]
    outdated = [memory.id for memory in memories if memory.outdated]
    return [
        finding(code, count=len(ids), ids=_first([f"#{id_}" for id_ in ids]))
        for code, ids in (("memories-expired", expired), ("memories-outdated", outdated))
        if ids
    ]


def _gone_code(runtime: Runtime) -> list[Advice]:
    """Memories that mention files of the project that no longer exist."""
    memories = runtime.store.documents.find(order="path")
    code_by_id = {id_: code for id_, code in remarks.code_of(runtime, memories).items() if code.gone}
    gone_files = {id_: remarks.shortened_code(code, NAMED_FILES).gone for id_, code in code_by_id.items()}
    return [
        finding("code-gone", id=memory.id, path=memory.path, files=gone_files[memory.id])
        for memory in memories
        if memory.id in gone_files
    ]


def _in_vectors(runtime: Runtime) -> Iterator[_Checked]:
    """Are any vectors missing, and can they be computed?"""
    if not runtime.meaning.wanted:
        return
    cause, hint = runtime.meaning.check(), runtime.meaning.advice
    embedder = None if cause else runtime.meaning.embedder()
    if embedder is not None and (foreign := remarks.foreign_vectors(runtime, embedder.dimensions)):
        yield _Checked("meaning", [foreign], hint=advise("embed-anew"))
    else:
        yield _Checked("meaning", [cause] if cause else (), hint=hint)
    stored = runtime.store.care.stats()
    waiting = sum(stored.vectors.get(name, 0) for name in ("pending", "retry"))
    why = cause or stored.provider_failure or ""
    yield _Checked(
        "pending vectors",
        [_without_vectors(waiting, stored.pending_passages, why)] if stored.pending_passages else (),
        hint=runtime.meaning.advice if why else "",
        in_progress=not why and locks.holder(runtime.settings, "embed.lock") not in (None, os.getpid()),
    )
    yield _Checked(
        "failed vectors",
        [finding("passages-without-vector", count=count, cause=cause) for cause, count in stored.failures.items()],
    )


def _without_vectors(memories: int, passages: int, cause: Text) -> Advice:
    if cause:
        return finding("memories-without-vectors-why", count=memories, passages=passages, cause=cause)
    return finding("memories-without-vectors", count=memories, passages=passages)


def _disks(runtime: Runtime) -> Iterator[_Checked]:
    """Can files and index be written? A disk may be read-only on purpose, but not full."""
    settings = runtime.settings
    places = {} if runtime.accepts else {"files": settings.root}
    if not settings.on_server:
        places["index"] = settings.index_path.parent
    refusals: dict[int, list[str]] = {}
    for name, folder in places.items():
        with suppress(OSError):  # whoever reads it says why it cannot
            refusals.setdefault(filesystem.refusal(folder), []).append(name)
    full, fixed = (tuple(refusals.get(code, ())) for code in (errno.ENOSPC, errno.EROFS))
    yield _Checked("disk space", [finding("disk-full", what=full)] if full else ())
    yield _Checked("read-only disk", [finding("disk-read-only", what=fixed)] if fixed else ())


def _at_hand(runtime: Runtime, unfinished: list[str], *, whole: bool) -> Iterator[_Checked]:
    yield _Checked("checkpoints", [] if runtime.isolated else _unreadable(runtime, unfinished, whole=whole))
    yield _Checked("locks", _held(runtime))
    phrases = sessions.too_general(runtime)
    yield _Checked("general triggers", [finding("general-phrase", phrase=phrase) for phrase in phrases])


def _unreadable(runtime: Runtime, unfinished: list[str], *, whole: bool) -> list[str]:
    """The checkpoints that could not be restored. Every header is read, the rest as far as time allows."""
    good, bad = shelf.headers(shelf_of(runtime.settings, runtime.whole), runtime.scope)
    damage, all_read = shelf.damage(good, most_bytes=None if whole else shelf.QUICK_BYTES)
    if not all_read:
        unfinished.append("checkpoints")
    return [error.message for error in (*bad, *damage.values())]


def _held(runtime: Runtime) -> list[Advice]:
    """Which other processes work on this workspace; a lock dies with its holder, so none of them is stale."""
    holders = {name: locks.holder(runtime.settings, name) for name in _LOCKS}
    return [
        finding("lock-held", pid=str(pid), doing=_LOCKS[name], lock=name)
        for name, pid in holders.items()
        if pid and pid != os.getpid()
    ]
