"""How do many vectors travel to the server at once? As one array of float32, in the form that the server has it in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format

__all__ = ["RealArray", "joined", "register"]

_REAL, _REAL_ARRAY = 700, 1021  # as PostgreSQL numbers its own types


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
    """How many numbers each of these has, and all of them one after the other."""
    import numpy as np

    if len({len(vector) for vector in vectors}) != 1:
        raise ValueError("vectors of one model have the same number of dimensions")
    numbers = np.frombuffer(b"".join(vectors), "<f4")
    elements = np.empty(len(numbers), [("bytes", ">i4"), ("number", ">f4")])
    elements["bytes"], elements["number"] = 4, numbers
    head = np.array([1, 0, _REAL, len(numbers), 1], ">i4")  # dimensions, no nulls, type, length, first place
    return len(numbers) // len(vectors), RealArray(head.tobytes() + elements.tobytes())
