"""Rows for PostgreSQL as the verbs of the index write them, by COPY: a million passages in minutes.

For `benchmarks.engines` beyond `--verbs` passages. There is no history and no ledger of these rows; what a search reads
is there. It needs a role that row-level security does not bind, which the product never uses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg

from spec_kit_memory.core import words
from spec_kit_memory.core.memory import Entry, Passage, embedded
from spec_kit_memory.index import rows
from spec_kit_memory.index.postgres import text_index

SCHEMA = "spec_kit_memory"


class Copier:
    """Goes on where the verbs have ended: their last rows are the pattern."""

    def __init__(self, url: str, *, dimensions: int) -> None:
        self._connection = psycopg.connect(url, options=f"-c search_path={SCHEMA},public")
        self._dimensions = dimensions
        self._patterns = {name: self._pattern(name) for name in ("memory", "document", "passage")}
        found = self._connection.execute("SELECT last_memory, last_passage, last_vector FROM counter").fetchone()
        assert found is not None
        self._memory, self._passage, self._vector = found
        # The last bucket is not full yet.
        begun = self._connection.execute(
            "DELETE FROM posting WHERE bucket >= %s RETURNING term, bucket, passages, times",
            (self._passage // text_index.BUCKET,),
        )
        self._postings: dict[tuple[str, int], tuple[list[int], list[int]]] = {
            (term, bucket): (np.frombuffer(ids, "<i8").tolist(), np.frombuffer(times, "<u2").tolist())
            for term, bucket, ids, times in begun
        }

    def _pattern(self, table: str) -> dict[str, Any]:
        cursor = self._connection.execute(f"SELECT * FROM {table} ORDER BY 2 DESC LIMIT 1")
        assert cursor.description is not None
        values = cursor.fetchone()
        assert values is not None
        return dict(zip((column.name for column in cursor.description), values, strict=True))

    def write(self, entries: Sequence[Entry], vectors: npt.NDArray[np.float32]) -> None:
        """`vectors` has one row for each passage, in their order."""
        content, memories, documents, passages, hashes = [], [], [], [], []
        for entry in entries:
            self._memory += 1
            content.append((1, entry.content_hash, rows.pack(entry.document.text)))
            memories.append(self._patterns["memory"] | _of_memory(self._memory, entry))
            documents.append(
                self._patterns["document"]
                | {"memory_id": self._memory, "raw_hash": entry.raw_hash, "size": entry.stamp.size}
            )
            title = text_index.tokens(words.for_index(entry.attributes.title))
            for passage in entry.passages:
                passages.append(self._of_passage(title, passage))
                hashes.append(passage.hash)
        self._copy("content", ("project_id", "hash", "text"), content)
        for table, found in (("memory", memories), ("document", documents), ("passage", passages)):
            self._copy(table, tuple(found[0]), [tuple(row.values()) for row in found])
        self._copy_vectors(hashes, vectors, first=self._vector - len(hashes) + 1)
        self._flush(before=self._passage // text_index.BUCKET)
        self._connection.commit()

    def _of_passage(self, title: tuple[str, ...], passage: Passage) -> dict[str, Any]:
        self._passage += 1
        self._vector += 1
        body = text_index.tokens(words.for_index(embedded(passage.headings, passage.text)))
        for term, times in Counter((*title, *body)).items():
            ids, counts = self._postings.setdefault((term, self._passage // text_index.BUCKET), ([], []))
            ids.append(self._passage)
            counts.append(times)
        return self._patterns["passage"] | {
            "id": self._passage, "memory_id": self._memory, "ordinal": passage.ordinal,
            "first_line": passage.first_line, "last_line": passage.last_line, "hash": passage.hash,
            "vector_id": self._vector, "length": len(title) + len(body),
            "words": " ".join(("", *title, "\n", *body, "")),
        }  # fmt: skip

    def _flush(self, *, before: int | None = None) -> None:
        done = sorted(key for key in self._postings if before is None or key[1] < before)
        packed = []
        for term, bucket in done:
            ids, counts = self._postings.pop((term, bucket))
            packed.append((1, term, bucket, np.array(ids, "<i8").tobytes(), np.array(counts, "<u2").tobytes()))
        self._copy("posting", ("project_id", "term", "bucket", "passages", "times"), packed)

    def _copy(self, table: str, columns: Sequence[str], values: Iterable[Sequence[Any]]) -> None:
        with self._connection.cursor().copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy:
            for row in values:
                copy.write_row(row)

    def _copy_vectors(self, hashes: Sequence[str], vectors: npt.NDArray[np.float32], *, first: int) -> None:
        """In the binary form of COPY: as text a million vectors are four gigabytes."""
        size = self._dimensions
        layout = [
            ("fields", ">i2"), ("l1", ">i4"), ("project", ">i8"), ("l2", ">i4"), ("id", ">i8"), ("l3", ">i4"),
            ("model", ">i8"), ("l4", ">i4"), ("hash", "S64"), ("l5", ">i4"), ("dimensions", ">i2"), ("unused", ">i2"),
            ("vector", ">f4", (size,)),
        ]  # fmt: skip
        block = np.zeros(len(hashes), layout)
        block["fields"], block["l1"], block["l2"], block["l3"], block["l4"], block["l5"] = 5, 8, 8, 8, 64, 4 + 4 * size
        block["project"], block["model"], block["dimensions"] = 1, 1, size
        block["id"], block["hash"], block["vector"] = np.arange(first, first + len(hashes)), hashes, vectors
        names = "project_id, id, model, hash, vector"
        with self._connection.cursor().copy(f"COPY vector ({names}) FROM STDIN (FORMAT binary)") as copy:
            copy.write(b"PGCOPY\n\xff\r\n\x00" + bytes(8) + block.tobytes() + b"\xff\xff")

    def finish(self) -> None:
        self._flush()
        self._connection.execute(
            "UPDATE counter SET generation = generation + 1, epoch = epoch + 1, last_memory = %s, last_passage = %s,"
            " last_vector = %s",
            (self._memory, self._passage, self._vector),
        )
        self._connection.commit()
        self._connection.close()


def _of_memory(memory_id: int, entry: Entry) -> dict[str, Any]:
    return {
        "id": memory_id, "path": entry.path, "title": entry.attributes.title, "fingerprint": entry.fingerprint,
        "content_hash": entry.content_hash,
    }  # fmt: skip
