"""How are many vectors sent to the server at once? As one float32 array in PostgreSQL's binary format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format

_REAL, _REAL_ARRAY = 700, 1021  # type ids (OIDs) of PostgreSQL


@dataclass(frozen=True, slots=True)
class RealArray:
    sent: bytes


class _RealArrayDumper(Dumper):
    format = Format.BINARY
    oid = _REAL_ARRAY

    def dump(self, obj: RealArray) -> bytes:
        return obj.sent


def register(adapters: AdaptersMap) -> None:
    adapters.register_dumper(RealArray, _RealArrayDumper)


def joined(vectors: Sequence[bytes]) -> tuple[int, RealArray]:
    """The dimensions of each vector, and all vectors concatenated into one array."""
    import numpy as np

    if len({len(vector) for vector in vectors}) != 1:
        raise ValueError("vectors of one model have the same number of dimensions")
    numbers = np.frombuffer(b"".join(vectors), "<f4")
    elements = np.empty(len(numbers), [("bytes", ">i4"), ("number", ">f4")])
    elements["bytes"], elements["number"] = 4, numbers
    head = np.array([1, 0, _REAL, len(numbers), 1], ">i4")  # dimensions, no nulls, type, length, lower bound
    return len(numbers) // len(vectors), RealArray(head.tobytes() + elements.tobytes())
