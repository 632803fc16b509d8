"""How are vectors and other bytes sent to the server?

Many vectors at once are one float32 array in PostgreSQL's binary format. Bytes in the text of a statement are written
in hexadecimal: psycopg escapes them twice where they are elements of an array and the database has
`standard_conforming_strings` off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import ClientCursor, Connection
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format

_BYTES, _REAL, _REAL_ARRAY = 17, 700, 1021  # type ids (OIDs) of PostgreSQL


@dataclass(frozen=True, slots=True)
class RealArray:
    sent: bytes


class _RealArrayDumper(Dumper):
    format = Format.BINARY
    oid = _REAL_ARRAY

    def dump(self, obj: RealArray) -> bytes:
        return obj.sent


class _HexDumper(Dumper):
    oid = _BYTES

    def dump(self, obj: bytes) -> bytes:
        return b"\\x" + obj.hex().encode()


def register(adapters: AdaptersMap) -> None:
    adapters.register_dumper(RealArray, _RealArrayDumper)


def literal_cursor(connection: Connection[tuple[Any, ...]]) -> ClientCursor[tuple[Any, ...]]:
    """A cursor whose statements contain their values."""
    cursor = ClientCursor(connection)
    cursor.adapters.register_dumper(bytes, _HexDumper)
    return cursor


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
