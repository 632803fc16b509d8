"""What would a search have found earlier? Memories as they were at a moment, or in a checkpoint.

Checkpoints contain everything. A date is answered from history, which has each memory's metadata
and text after every change; the answer names what history lacks (use, and what came before the
first index). The past state is rebuilt in a separate index, which is kept for further queries.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from spec_kit_memory.advice import Text, advise, finding, outcome
from spec_kit_memory.answers import SearchAnswer
from spec_kit_memory.core import dates
from spec_kit_memory.core import query as queries
from spec_kit_memory.core.memory import Actor, Change, Event, HistoryEntry, Memory, Scope
from spec_kit_memory.errors import BadParameter, CheckpointNotFound, OutOfRange, SpecKitMemoryError
from spec_kit_memory.features import checkpoints, past_rows, search_answer
from spec_kit_memory.features.past_rows import PastState
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files import past_folder, vector_queue
from spec_kit_memory.files.past_folder import PastFolder
from spec_kit_memory.index import open_index
from spec_kit_memory.index.contract import EVERYTHING, Index
from spec_kit_memory.index.snapshot_check import FORMAT
from spec_kit_memory.requests import SearchRequest as Request

MOST_MOMENTS = 2  # rebuilt moments per process
# Earlier versions of texts have no vectors any more. So many are computed; the rest are matched by words.
EMBEDDED_NOW = 128
_PAGE = 500
_DAY = re.compile(r"\d{4}-\d{1,2}-\d{1,2}")
_one_at_a_time = threading.Lock()


def search(runtime: Runtime, request: Request) -> SearchAnswer:
    """The search as it would have been answered at `as_of`, a date, a time or a checkpoint."""
    queries.check(request.query, request.concepts)
    with _one_at_a_time:
        past = _pasts(runtime).at(runtime, request.as_of or "")
        # A session belongs to the present: a search in the past neither reads nor changes it.
        past_request = replace(request, as_of=None, session_id=None)
        answer = search_answer.answer_from(past.runtime.for_caller(runtime.caller), past_request)
    when = _iso(past.moment)
    # If nothing was known then, advice to index now or to use other words would not help.
    has_files = bool(answer.stats["totalFiles"])
    hints = answer.advice if has_files else (finding("nothing-was-known"),)
    return replace(
        answer,
        outcome=outcome(
            "as-of",
            when=past.name or when,
            outcome=answer.outcome if has_files else outcome("nothing-known-then"),
        ),
        advice=(finding("answered-as-of", when=when), *past.hints, *hints),
    )


def moment(runtime: Runtime, as_of: str) -> str:
    """The moment that `as_of` means, as an ISO time: a checkpoint's name is known only in its own workspace."""
    with _one_at_a_time:
        return _pasts(runtime).at(runtime, as_of).moment.astimezone(UTC).isoformat()


def _pasts(runtime: Runtime) -> PastCache:
    pasts = runtime.shared.past if isinstance(runtime.shared.past, PastCache) else PastCache()
    runtime.shared.past = pasts
    return pasts


# --- moments that were rebuilt ---------------------------------------------------------


@dataclass(slots=True)
class _RebuiltPast:
    """One rebuilt past: an index in a folder of its own, and hints on what it lacks."""

    moment: datetime
    name: str
    runtime: Runtime
    folder: PastFolder
    hints: list[Text]

    def close(self) -> None:
        self.runtime.whole.close()
        self.folder.remove()


class PastCache:
    """The rebuilt moments of this process, the latest last. Each contains what one scope could see then."""

    def __init__(self) -> None:
        self._cache: dict[tuple[str, int, Scope], _RebuiltPast] = {}

    def at(self, runtime: Runtime, as_of: str) -> _RebuiltPast:
        key = (as_of, runtime.whole.generation(), runtime.scope)
        if key not in self._cache:
            # Older generations first: they are never needed again.
            for old in [other for other in self._cache if other[1] != key[1]] + list(self._cache)[: 1 - MOST_MOMENTS]:
                if old in self._cache:
                    self._cache.pop(old).close()
            self._cache[key] = _rebuild(runtime, as_of)
        return self._cache[key]

    def close(self) -> None:
        while self._cache:
            self._cache.popitem()[1].close()


@dataclass(slots=True)
class _PastRows:
    """The data of one source of the past: snapshot rows, their moment, and hints on what they lack."""

    moment: datetime
    rows: Iterator[Mapping[str, Any]]
    name: str = ""
    hints: list[Text] = field(default_factory=list)


def _rebuild(runtime: Runtime, as_of: str) -> _RebuiltPast:
    rows = _from_checkpoint(runtime, as_of) or _from_history(runtime, _moment_of(runtime, as_of))
    folder = past_folder.make(runtime.settings)
    try:
        return _rebuilt_in(folder, runtime, rows)
    except BaseException:
        folder.remove()
        raise


def _rebuilt_in(folder: PastFolder, runtime: Runtime, rows: _PastRows) -> _RebuiltPast:
    store = open_index(folder.settings.state_folder / "past.sqlite")
    try:
        change = Change(actor=Actor.SYSTEM, at=rows.moment, reason="past")
        with store.bulk():
            store.care.restore(rows.rows, change, clear=False, where=EVERYTHING)
            _give_vectors(runtime, store)
            _embed(runtime, store, folder.settings)
    except BaseException:
        store.close()
        raise
    past = Runtime(
        runtime.settings,
        whole=store,
        make_sync=lambda: runtime.sync,
        meaning=runtime.meaning,
        now=lambda: rows.moment,
        caller=runtime.caller,
    )
    return _RebuiltPast(rows.moment, rows.name, past, folder, rows.hints)


def _give_vectors(runtime: Runtime, store: Index) -> None:
    """Copy the present vectors of all passages whose text is the same: vectors are keyed by the hash of the text."""
    model = runtime.whole.care.stats().model
    if model is None:
        return
    store.vectors.use_model(model.name, model.dimensions, model.weights_hash)
    hashes = [work.passage_hash for work in store.vectors.work(1_000_000)]
    page: dict[str, tuple[bytes, bytes | None]] = {}
    for hash_, vector, states in runtime.whole.vectors.get(hashes):
        page[hash_] = (vector, states)
        if len(page) == _PAGE:
            store.vectors.put(page)
            page = {}
    store.vectors.put(page)


def _embed(runtime: Runtime, store: Index, settings: Any) -> None:
    if not runtime.meaning.wanted:
        return
    try:
        embedder = runtime.meaning.embedder()
        if embedder is not None:
            vector_queue.embed_pending(store, embedder, settings=settings, limit=EMBEDDED_NOW)
    except SpecKitMemoryError as error:
        runtime.meaning.failed(error)  # the answer uses text only and says so


# --- which moment -----------------------------------------------------------------------


def _moment_of(runtime: Runtime, as_of: str) -> datetime:
    moment = dates.read(as_of)
    if moment is None:
        raise BadParameter(
            f"{as_of!r} is neither a date nor the name of a checkpoint",
            hint=advise("name-moment"),
        )
    now = runtime.now()
    if moment > now:
        raise OutOfRange(f"{as_of} is in the future", hint=advise("earlier-moment", now=_iso(now)))
    if _DAY.fullmatch(as_of.strip()):
        # A day means its end.
        moment = min(now, moment + timedelta(days=1) - timedelta(microseconds=1))
    return moment


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _from_checkpoint(runtime: Runtime, name: str) -> _PastRows | None:
    try:
        opened = checkpoints.find(runtime, name)
    except CheckpointNotFound:
        return None
    opened.verify()
    header = opened.header
    hints: list[Text] = [finding("checkpoint-of-folder", folder=header.spec_folder)] if header.spec_folder else []
    return _PastRows(header.created, opened.rows(), f"checkpoint {header.name}", hints)


# --- from history -------------------------------------------------------------------------


def _from_history(runtime: Runtime, moment: datetime) -> _PastRows:
    # History is sorted newest first; its order, not its times, is the order of the changes.
    history = runtime.store.record.history()[::-1]
    states, links = _replay(history, moment)
    texts = {
        id_: runtime.store.documents.text(content_hash=str(state.values["content_hash"]))
        for id_, state in states.items()
    }
    return _PastRows(
        moment,
        _rows(runtime, states, texts, links, moment),
        hints=_what_is_missing(runtime, history, list(texts.values()).count(None), moment),
    )


def _replay(
    history: Iterable[HistoryEntry], moment: datetime
) -> tuple[dict[int, PastState], dict[tuple[int, int, str], Mapping[str, Any]]]:
    states: dict[int, PastState] = {}
    links: dict[tuple[int, int, str], Mapping[str, Any]] = {}
    for entry in history:
        values = entry.after if entry.event is not Event.DELETE else entry.before
        if entry.at > moment or not values or "content_hash" not in values:
            continue  # later, or imported from another system that recorded less
        if entry.event is Event.DELETE:
            states.pop(entry.memory_id, None)
        else:
            states[entry.memory_id] = PastState(entry.memory_id, values, entry.at)
        _replay_link(links, entry)
    return states, links


def _replay_link(links: dict[tuple[int, int, str], Mapping[str, Any]], entry: HistoryEntry) -> None:
    before: Any = (entry.before or {}).get("link")
    after: Any = (entry.after or {}).get("link")
    if before and not after:
        links.pop(_key(before), None)
    if after and after["origin"] != "file":  # links of files are derived from their text
        links[_key(after)] = after


def _key(link: Mapping[str, Any]) -> tuple[int, int, str]:
    return link["source_id"], link["target_id"], link["relation"]


def _rows(
    runtime: Runtime,
    states: Mapping[int, PastState],
    texts: Mapping[int, str | None],
    links: Mapping[tuple[int, int, str], Mapping[str, Any]],
    moment: datetime,
) -> Iterator[dict[str, Any]]:
    """The past state as rows of a snapshot."""
    yield {"kind": "header", "format": FORMAT, "instance": "past", "model": None}
    now = {memory.id: memory for memory in runtime.store.documents.find()}
    for id_, text in texts.items():
        if text is not None:
            memory = now.get(id_)
            last_access = _last_use(states[id_], memory, moment)
            yield past_rows.snapshot_row(runtime, states[id_], text, memory=memory, last_access=last_access)
    for number, link in enumerate(links.values(), start=1):
        if texts.get(link["source_id"]) is not None and texts.get(link["target_id"]) is not None:
            yield {**link, "kind": "link", "id": number, "claimant": None, "created_at": None}


def _last_use(state: PastState, memory: Memory | None, moment: datetime) -> datetime:
    """The last use if it was before the moment, else the last change: there is no history of use."""
    if memory and memory.last_access and memory.last_access <= moment:
        return max(memory.last_access, state.at)
    return state.at


def _what_is_missing(runtime: Runtime, history: list[HistoryEntry], lost: int, moment: datetime) -> list[Text]:
    if not history:
        return [advise("no-record")]
    hints: list[Text] = [finding("use-not-recorded")]
    if history[0].at > moment:
        hints.append(advise("record-starts", at=_iso(history[0].at)))
    began: dict[int, datetime] = {}
    for entry in history:
        began.setdefault(entry.memory_id, entry.at)
    late = [
        memory
        for memory in runtime.store.documents.find()
        if memory.attributes.created_at
        and memory.attributes.created_at <= moment < began.get(memory.id, memory.first_indexed_at)
    ]
    if late:
        hints.append(finding("indexed-later", count=len(late)))
    if lost:
        hints.append(finding("past-text-lost", count=lost))
    return hints
