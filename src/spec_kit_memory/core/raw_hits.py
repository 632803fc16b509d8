"""What did one search leg find? Passages with their scores, as columns: a query reads hundreds of them together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from spec_kit_memory.core.memory import RawHit


class RawHits(Sequence[RawHit]):
    """Best first. Equal to a list of the same hits."""

    __slots__ = ("memory_ids", "passage_ids", "scores")

    def __init__(self, passage_ids: npt.NDArray[Any], memory_ids: npt.NDArray[Any], scores: npt.NDArray[Any]) -> None:
        self.passage_ids, self.memory_ids, self.scores = passage_ids, memory_ids, scores

    @classmethod
    def of(cls, hits: Iterable[Sequence[Any]]) -> RawHits:
        passage_ids, memory_ids, scores = tuple(zip(*hits, strict=True)) or ((), (), ())
        return cls(np.array(passage_ids, np.int64), np.array(memory_ids, np.int64), np.array(scores, np.float64))

    def __len__(self) -> int:
        return len(self.passage_ids)

    @overload
    def __getitem__(self, place: int) -> RawHit: ...
    @overload
    def __getitem__(self, place: slice) -> list[RawHit]: ...
    def __getitem__(self, place: int | slice) -> RawHit | list[RawHit]:
        return list(self)[place]

    def __iter__(self) -> Iterator[RawHit]:
        return map(RawHit, self.passage_ids.tolist(), self.memory_ids.tolist(), self.scores.tolist())

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, RawHits | list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))


NO_HITS = RawHits.of(())
