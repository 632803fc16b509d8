"""Which passages still have no vector, and who embeds them?

One process per workspace at a time, so that several servers do not embed the same passages. A passage that fails is
set aside with its reason; a provider that is down ends the round, and every process can show why.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from spec_kit_memory.core import long_lines, tokens
from spec_kit_memory.core.memory import Passage, VectorStatus, embedded
from spec_kit_memory.embed import Embedder, Embedding
from spec_kit_memory.errors import EmbeddingFailed, ProviderUnavailable, SpecKitMemoryError
from spec_kit_memory.files.locks import Lock
from spec_kit_memory.index.contract import Index, VectorWork
from spec_kit_memory.settings import Settings

Progress = Callable[[str, int, int], None]
Cancel = Callable[[], bool]

ROUND = 512  # passages fetched at once, so that they can be batched by length
BATCH = 32
CANCELLED = "cancelled"
PROBE = "Is anybody there?"  # our own text, embedded to check whether the provider or a text is at fault
MAX_YIELD_SECONDS = 0.25  # a busy server must not starve its vectors


@dataclass(slots=True)
class Embedded:
    """What a round did. `stopped` is the reason why it ended early; "" means everything is done."""

    embedded: int = 0
    failed: int = 0
    stopped: str = ""
    failure: ProviderUnavailable | None = None


def embed_pending(
    store: Index,
    embedder: Embedder,
    *,
    settings: Settings,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
    busy: Callable[[], bool] | None = None,
    limit: int | None = None,
    wait: bool = True,
) -> Embedded:
    """Embed passages without a vector, in batches of similar length and short transactions.

    While another process does it this one waits, and takes over if that one dies; with `wait=False` it returns at
    once. `busy` is called between batches: while it is true, other work gets the processor.
    """
    done = Embedded()
    with Lock(settings, "embed.lock") as lock:
        if not _take(lock, store, cancel, wait=wait):
            done.stopped = "busy"
            return done
        try:
            store.vectors.use_model(embedder.name, embedder.dimensions, embedder.weights_hash)
            _rounds(store, embedder, done, progress=progress, cancel=cancel, busy=busy, limit=limit)
        except ProviderUnavailable as error:
            done.stopped, done.failure = f"{error.code} {error.message}", error
        if done.stopped != CANCELLED:
            store.vectors.failed(done.stopped or None)
    return done


def _take(lock: Lock, store: Index, cancel: Cancel | None, *, wait: bool) -> bool:
    while not lock.wait(seconds=0.5 if wait else 0.0):
        if not wait or (cancel and cancel()) or not store.vectors.work(1):
            return False
    return True


def _rounds(
    store: Index,
    embedder: Embedder,
    done: Embedded,
    *,
    progress: Progress | None,
    cancel: Cancel | None,
    busy: Callable[[], bool] | None,
    limit: int | None,
) -> None:
    failed: set[str] = set()  # tried once in each run, so that three tries are spread over time
    course = _EmbeddingProgress(store, progress)
    while limit is None or done.embedded < limit:
        size = ROUND if limit is None else min(ROUND, limit - done.embedded)
        waiting = {item.passage_hash: item for item in store.vectors.work(size + len(failed))}
        work = [item for item in waiting.values() if item.passage_hash not in failed]
        course.round_begins()
        if not work:
            return
        with store.bulk():  # vectors can be recomputed: one sync per round is enough
            for batch in _batches(work):
                if cancel and cancel():
                    done.stopped = CANCELLED
                    return
                _give_way(busy)
                failed |= _embed(store, embedder, batch, done)
                course.made(batch)


class _EmbeddingProgress:
    """The progress, in passages weighted by length, which determines their cost.

    The first passages (most used, newest) may be much shorter than the rest, so their count would promise too much.
    Passages with equal text are embedded once, so each round reads again what remains.
    """

    def __init__(self, store: Index, progress: Progress | None) -> None:
        self._store = store
        self._progress = progress
        self._passages = self._reported = 0  # the total, and the number reported last, which never falls
        self._made = self._remaining = 0  # tokens
        self._others: int | None = None  # passages that already had vectors at the start

    def round_begins(self) -> None:
        if self._progress is None:
            return
        stats = self._store.care.stats()
        passages, self._remaining = stats.passages, stats.pending_tokens
        if self._others is None:
            self._others = passages - stats.pending_passages
        self._passages = max(1, passages - self._others)  # including passages added in the meantime
        if self._made:
            self._report_progress()

    def made(self, batch: Sequence[VectorWork]) -> None:
        if self._progress is None:
            return
        cost = min(sum(tokens.count(item.embedded) for item in batch), self._remaining)
        self._made += cost
        self._remaining -= cost
        self._report_progress()

    def _done(self) -> int:
        return self._passages * self._made // (self._made + self._remaining) if self._remaining else self._passages

    def _report_progress(self) -> None:
        if self._progress is not None:
            self._reported = min(max(self._reported, self._done()), self._passages)
            self._progress("vectors", self._reported, self._passages)


def _batches(work: list[VectorWork]) -> Iterator[list[VectorWork]]:
    """Batches of similar length, which need the least padding; the longest and the shortest alternate.

    So memory peaks at the start, and the pace so far predicts how long the rest will take.
    """
    work.sort(key=lambda item: -len(item.embedded))
    cut = [work[start : start + BATCH] for start in range(0, len(work), BATCH)]
    while cut:
        yield cut.pop(0)
        if cut:
            yield cut.pop()


def _give_way(busy: Callable[[], bool] | None) -> None:
    deadline = time.monotonic() + MAX_YIELD_SECONDS
    while busy and busy() and time.monotonic() < deadline:
        time.sleep(0.01)


def _embed(
    store: Index, embedder: Embedder, batch: Sequence[VectorWork], done: Embedded, *, alive: bool = False
) -> set[str]:
    """Embed one batch and write it; one that fails is halved until the passages at fault are isolated."""
    try:
        vectors = embedder.embed_documents([item.embedded for item in batch])
        rows = {item.passage_hash: _packed(embedder, vector) for item, vector in zip(batch, vectors, strict=True)}
    except (EmbeddingFailed, ProviderUnavailable, ValueError) as error:
        # One text or the provider may be at fault: embedding a text of ours shows which.
        alive = alive or _answers(embedder, error)
        if not alive:
            raise _unavailable(error) from error
        reason = f"{error.code} {error.message}" if isinstance(error, SpecKitMemoryError) else str(error)
    else:
        store.vectors.put(rows)
        done.embedded += len(rows)
        return set()
    if len(batch) > 1:
        middle = len(batch) // 2
        halves = (batch[:middle], batch[middle:])
        return {hash_ for half in halves for hash_ in _embed(store, embedder, half, done, alive=alive)}
    store.vectors.failed(reason, [batch[0].passage_hash])
    done.failed += 1
    return {batch[0].passage_hash}


def _answers(embedder: Embedder, error: SpecKitMemoryError | ValueError) -> bool:
    """Does the provider still embed any text after this error?"""
    if isinstance(error, ProviderUnavailable) and not error.details.get("perhaps_text"):
        return False  # refused, unreachable or too busy: no text is to blame
    try:
        (probe,) = embedder.embed_documents([PROBE])
        _packed(embedder, probe)
    except (ProviderUnavailable, EmbeddingFailed, ValueError):
        return False
    return True


def _unavailable(error: SpecKitMemoryError | ValueError) -> ProviderUnavailable:
    """An error for every text is a failure of the provider, whatever the error is."""
    if isinstance(error, ProviderUnavailable):
        return error
    if isinstance(error, SpecKitMemoryError):
        return ProviderUnavailable(error.message, hint=error.advice)
    return ProviderUnavailable(str(error), hint="search works by text meanwhile")


def _packed(embedder: Embedder, embedding: Embedding) -> tuple[bytes, bytes | None]:
    import numpy as np

    vector = np.asarray(embedding.vector, dtype="<f4").reshape(-1)
    if len(vector) != embedder.dimensions or not np.isfinite(vector).all():
        raise EmbeddingFailed(
            f"{embedder.name} answered {len(vector)} numbers that are not a vector of {embedder.dimensions}",
            hint="check semantic.dimensions and the provider",
        )
    return vector.tobytes(), embedding.states


def embed_ahead(store: Index, embedder: Embedder, passages: Sequence[Passage]) -> dict[str, tuple[bytes, bytes | None]]:
    """The vectors of a text that is not stored yet. Empty if it is long or anything fails: `embed_memory` handles that.

    Stored with the memory, they spare the other writers of the project a second transaction to wait for.
    """
    texts = {passage.hash: embedded(passage.headings, passage.text) for passage in passages}
    if not 0 < len(texts) <= BATCH:
        return {}
    try:
        store.vectors.use_model(embedder.name, embedder.dimensions, embedder.weights_hash)
        vectors = embedder.embed_documents(list(texts.values()))
        return {hash_: _packed(embedder, vector) for hash_, vector in zip(texts, vectors, strict=True)}
    except (SpecKitMemoryError, ValueError):
        return {}


def embed_memory(store: Index, embedder: Embedder, memory_id: int) -> Embedded:
    """Embed one memory now, so that a saved file does not wait for a backlog; of a long one only the beginning."""
    done = Embedded()
    store.vectors.use_model(embedder.name, embedder.dimensions, embedder.weights_hash)
    if store.documents.get(memory_id).vector_status is VectorStatus.SUCCESS:
        return done
    lines = store.documents.text(memory_id).split("\n")
    work = {
        passage.hash: VectorWork(
            memory_id, passage.hash, embedded(passage.headings, long_lines.text_of(lines, passage))
        )
        for passage in store.documents.passages(memory_ids=[memory_id])
    }
    try:
        for batch in _batches(_some_missing(store, work) if len(work) > BATCH else list(work.values())):
            _embed(store, embedder, batch, done)
    except ProviderUnavailable as error:
        done.stopped, done.failure = f"{error.code} {error.message}", error
    if work:
        store.vectors.failed(done.stopped or None)
    return done


def _some_missing(store: Index, work: Mapping[str, VectorWork]) -> list[VectorWork]:
    stored = {hash_ for hash_, _, _ in store.vectors.get(list(work))}
    return [item for hash_, item in work.items() if hash_ not in stored][:BATCH]
