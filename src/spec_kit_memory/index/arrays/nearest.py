"""Which passages mean nearly the same as a vector?

Exact: every vector that the mask allows is compared. The vectors are kept in one float32 matrix, which is read at the
first use and extended with new ones. Computing row by row (`vecdot`) is faster here than BLAS, which waits for its
slowest thread. Above a size that would burden the machine, one bit per dimension is kept instead: the bits select
candidates, whose exact vectors are read from the engine.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from spec_kit_memory.advice import advise
from spec_kit_memory.core.memory import Filter, Scope
from spec_kit_memory.core.raw_hits import NO_HITS, RawHits
from spec_kit_memory.errors import BadParameter
from spec_kit_memory.index.arrays.columns import Columns
from spec_kit_memory.index.arrays.feed import Feed
from spec_kit_memory.index.arrays.postings import RECENT, best
from spec_kit_memory.index.arrays.steadiness import Steadiness

EXACT_BYTES = 640_000_000  # about 400,000 vectors of 384 dimensions
_CANDIDATES = 4_000  # read exactly when only bits are in memory; measured in docs/explain/storage.md
_LONGEST = 1.05  # longest squared length of a stored vector, with a margin for rounding
_SHARED_ROWS, _STRETCH = 20_000, 8_192
_SPARSE = 0.15  # below this share of the rows, it is faster to copy them out first


class Vectors:
    """All vectors of the current model, by row; ids ascend."""

    def __init__(self, feed: Feed, steadiness: Steadiness | None = None, *, exact_bytes: int = EXACT_BYTES) -> None:
        self._feed = feed
        self._steadiness = steadiness or Steadiness()
        self._lock = threading.Lock()
        self._exact_bytes = exact_bytes
        self._helper = ThreadPoolExecutor(1, "skm-vectors")  # its thread starts at the first use
        self._drop(epoch=-1, dimensions=0)

    def _drop(self, *, epoch: int, dimensions: int) -> None:
        self._epoch = epoch
        self._dimensions = dimensions
        self._ids: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._matrix: npt.NDArray[Any] = np.zeros((0, dimensions), np.float32)
        self._coarse = False
        self._recent: dict[bytes, tuple[npt.NDArray[Any], npt.NDArray[np.float32]]] = {}
        self._placed: tuple[Columns | None, npt.NDArray[np.int64]] = (None, np.zeros(0, np.int64))

    def warm(self, columns: Columns) -> None:
        with self._lock:
            self._refresh(columns)

    def match(self, columns: Columns, scope: Scope | None, vector: Any, where: Filter, limit: int) -> RawHits:
        query = np.ascontiguousarray(vector, dtype=np.float32).reshape(-1)
        with self._lock:
            self._refresh(columns)
            matrix, coarse, dimensions, (_, rows) = self._matrix, self._coarse, self._dimensions, self._placed
        allowed = columns.passages(columns.mask(scope, where)) & (rows >= 0)
        count = np.count_nonzero(allowed)
        if limit <= 0 or not count:
            return NO_HITS
        if len(query) != dimensions:
            raise BadParameter(
                f"the query has {len(query)} dimensions, the index {dimensions}", hint=advise("embed-anew")
            )
        if not coarse and count >= _SPARSE * len(matrix):
            return best(columns, self._all(matrix, query)[rows], allowed, limit)
        chosen = np.flatnonzero(allowed)
        scores = np.full(len(rows), -np.inf, np.float32)
        if coarse:
            chosen = _nearest_bits(matrix, rows, chosen, query, max(_CANDIDATES, 8 * limit))
            scores[chosen] = self._read_exactly(columns.vector_id[chosen], query)
            allowed = np.isfinite(scores)
        else:
            scores[chosen] = np.vecdot(matrix[rows[chosen]], query)
        return best(columns, scores, allowed, limit)

    def _all(self, matrix: npt.NDArray[Any], query: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The score of every vector. Scores of the latest query vectors are cached."""
        key = query.tobytes()
        with self._lock:
            cached = self._recent.get(key)
        if cached is not None and cached[0] is matrix:
            return cached[1]
        scores = self._dots(matrix, query)
        with self._lock:
            self._recent.pop(key, None)
            self._recent[key] = matrix, scores
            while len(self._recent) > RECENT:
                self._recent.pop(next(iter(self._recent)))
        return scores

    def _dots(self, matrix: npt.NDArray[Any], query: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Two threads share a large matrix; each takes the next block when it is free, so that neither waits long."""
        if len(matrix) < _SHARED_ROWS:
            return np.vecdot(matrix, query, out=np.empty(len(matrix), np.float32))
        scores = np.empty(len(matrix), np.float32)
        starts = deque(range(0, len(matrix), _STRETCH))

        def work() -> None:
            with suppress(IndexError):
                while True:
                    at = starts.popleft()
                    np.vecdot(matrix[at : at + _STRETCH], query, out=scores[at : at + _STRETCH])

        try:
            helping = self._helper.submit(work)
        except RuntimeError:  # the interpreter is shutting down, or no thread can be started
            helping = None
        work()
        if helping is not None and not helping.cancel():
            helping.result()
        return scores

    # --- refresh

    def _refresh(self, columns: Columns) -> None:
        if self._steadiness.held and self._placed[0] is columns:
            return
        with self._feed.moment():
            dimensions, epoch = self._feed.dimensions(), self._feed.counters().epoch
            if self._epoch != epoch or self._dimensions != dimensions or self._wasteful(columns):
                self._drop(epoch=epoch, dimensions=dimensions)
            last = int(self._ids[-1]) if len(self._ids) else 0
            if int(columns.vector_id.max(initial=0)) > last:
                self._extend(last)
            if self._placed[0] is not columns:
                self._placed = columns, self._places(columns)

    def _places(self, columns: Columns) -> npt.NDArray[np.int64]:
        """The row of each passage's vector; -1 where there is none."""
        if not len(self._ids):
            return np.full(len(columns.vector_id), -1, np.int64)
        rows = np.minimum(np.searchsorted(self._ids, columns.vector_id), len(self._ids) - 1)
        return np.where(self._ids[rows] == columns.vector_id, rows, -1)

    def _wasteful(self, columns: Columns) -> bool:
        """Do most rows belong to deleted vectors? Checked only after a change."""
        if self._placed[0] is columns or len(self._ids) < 20_000 + 2 * len(columns.vector_id):
            return False
        return 2 * self._feed.vector_count() < len(self._ids)

    def _extend(self, last: int) -> None:
        total = len(self._ids) + self._feed.vector_count(after=last)
        coarse = self._coarse or total * self._dimensions * 4 > self._exact_bytes
        if coarse and not self._coarse:
            self._matrix, self._coarse = _bits(self._matrix), True
        ids = np.empty(total, np.int64)
        ids[: len(self._ids)] = self._ids
        matrix = _room(self._matrix, total)
        at = len(self._ids)
        for page in self._feed.vectors(after=last):
            block = _block(page, self._dimensions)
            ids[at : at + len(page)] = [vector_id for vector_id, _ in page]
            matrix[at : at + len(page)] = _bits(block) if coarse else block
            at += len(page)
        self._ids, self._matrix = ids, matrix[:total]

    def _read_exactly(
        self, vector_ids: npt.NDArray[np.int64], query: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float32]:
        rows = self._feed.vectors_by_id(set(vector_ids.tolist()))
        scores = np.full(len(vector_ids), -np.inf, np.float32)
        if rows:
            ids = np.array([vector_id for vector_id, _ in rows], np.int64)
            block = _block(rows, len(query))
            place = np.minimum(np.searchsorted(ids, vector_ids), len(ids) - 1)
            present = ids[place] == vector_ids
            scores[present] = np.vecdot(block, query)[place[present]]
        return scores


def _block(rows: Sequence[tuple[Any, ...]], dimensions: int) -> npt.NDArray[np.float32]:
    """The vectors of these rows. Stored vectors have length 1; a longer one would score above all others."""
    block: npt.NDArray[np.float32] = np.frombuffer(b"".join(row[1] for row in rows), "<f4").reshape(
        len(rows), dimensions
    )
    with np.errstate(all="ignore"):
        lengths = np.vecdot(block, block)
    if not bool((lengths <= _LONGEST).all()):  # false for NaN too
        raise ValueError("a vector is not one that was stored")
    return block


def _room(old: npt.NDArray[Any], total: int) -> npt.NDArray[Any]:
    """A matrix with spare rows at its end. Rows that a running match uses never move or change."""
    room = old.base if isinstance(old.base, np.ndarray) else None
    if room is not None and len(room) >= total and room.shape[1:] == old.shape[1:] and room.dtype == old.dtype:
        return room
    spare = 0 if not len(old) else max(1_024, total // 8)
    # Bits are read in columns: the first 64 of all vectors, then the next. Three times faster than row by row.
    grown = np.empty((total + spare, *old.shape[1:]), old.dtype, order="F" if old.dtype == np.uint64 else "C")
    grown[: len(old)] = old
    return grown


def _bits(block: npt.NDArray[np.float32]) -> npt.NDArray[np.uint64]:
    packed = np.packbits(block > 0, axis=1)
    padded = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64)


def _nearest_bits(
    bits: npt.NDArray[np.uint64],
    rows: npt.NDArray[np.int64],
    chosen: npt.NDArray[np.int64],
    query: npt.NDArray[np.float32],
    count: int,
) -> npt.NDArray[np.int64]:
    """The chosen passages whose vectors differ from the query in the fewest signs."""
    if len(chosen) <= count:
        return chosen
    differing = np.zeros(len(bits), np.uint16)
    for word, signs in enumerate(_bits(query[None, :])[0]):
        differing += np.bitwise_count(bits[:, word] ^ signs)
    return chosen[np.argpartition(differing[rows[chosen]], count)[:count]]
