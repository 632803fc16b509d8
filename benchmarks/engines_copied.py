"""How does `benchmarks.engines` fill a million passages in minutes? With rows in bulk, as the verbs would write them.

For what is beyond its `--verbs`. Each document, passage and vector gets the rows that the verbs give it, history and
ledger included, modelled on the last that they wrote; only the hashes of those ledger entries are made up. On
PostgreSQL it needs a role that row-level security does not bind, which the product never uses.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import apsw
import numpy as np
import numpy.typing as npt
import psycopg

from spec_kit_memory.core import words
from spec_kit_memory.core.memory import Entry, embedded
from spec_kit_memory.index import rows
from spec_kit_memory.index.postgres import text_index

SCHEMA = "spec_kit_memory"
Vectors = npt.NDArray[np.float32]
_KEYS = {"memory": "id", "document": "memory_id", "passage": "id", "history": "sequence", "ledger": "sequence"}


class SplitText(NamedTuple):
    text: str  # as the tokenizer gets it
    words: tuple[str, ...]


class SplitEntry(NamedTuple):
    """A document, its words and the number of each of its rows, which both engines count alike."""

    entry: Entry
    title: SplitText
    bodies: list[SplitText]


def split(entry: Entry) -> SplitEntry:
    bodies = [embedded(passage.headings, passage.text) for passage in entry.passages]
    return SplitEntry(entry, _split(entry.attributes.title), [_split(body) for body in bodies])


def _split(text: str) -> SplitText:
    prepared = words.for_index(text)
    return SplitText(prepared, text_index.tokens(prepared))


class _Cursor(Protocol):
    @property
    def description(self) -> Any: ...
    def fetchone(self) -> Any: ...


class BulkRows(ABC):
    """Goes on where the verbs have ended: their last rows are the pattern."""

    def __init__(self) -> None:
        self._patterns = {table: self._pattern(table, key) for table, key in _KEYS.items()}
        self._memory = self._patterns["memory"]["id"]
        self._passage = self._patterns["passage"]["id"]
        self._history = self._patterns["history"]["sequence"]
        self._ledger = self._patterns["ledger"]["sequence"]
        self._hash = self._patterns["ledger"]["hash"]
        self._vector = self._number("SELECT max(id) FROM vector")

    @abstractmethod
    def _first(self, sql: str) -> _Cursor:
        """Run a statement; its first row is not read yet."""

    @abstractmethod
    def _copy(self, table: str, columns: Sequence[str], values: Iterable[Sequence[Any]]) -> None: ...

    @abstractmethod
    def _copy_vectors(self, hashes: Sequence[str], vectors: Vectors, *, first: int) -> None: ...

    @abstractmethod
    def _copy_passages(self, passages: Sequence[dict[str, Any]], texts: Sequence[tuple[SplitText, SplitText]]) -> None:
        """The passages, and their words: of the title and of the body of each."""

    @abstractmethod
    def finish(self) -> None: ...

    def _number(self, sql: str) -> int:
        return int(self._first(sql).fetchone()[0])

    def _pattern(self, table: str, key: str) -> dict[str, Any]:
        cursor = self._first(f"SELECT * FROM {table} ORDER BY {key} DESC LIMIT 1")
        names = [column[0] for column in cursor.description]  # of SQLite only before the row is read
        return dict(zip(names, cursor.fetchone(), strict=True))

    def write(self, documents: Sequence[SplitEntry], vectors: Vectors) -> None:
        """`vectors` has one row for each passage, in their order."""
        contents, passages, texts = [], [], []
        made: dict[str, list[dict[str, Any]]] = {"memory": [], "document": [], "history": [], "ledger": []}
        first_vector = self._vector + 1
        for entry, title, bodies in documents:
            for table, row in self._rows_of(entry).items():
                made[table].append(self._patterns[table] | row)
            contents.append((entry.content_hash, rows.pack(entry.document.text)))
            for passage, body in zip(entry.passages, bodies, strict=True):
                self._passage += 1
                self._vector += 1
                passages.append(
                    self._patterns["passage"]
                    | {
                        "id": self._passage, "memory_id": self._memory, "ordinal": passage.ordinal,
                        "first_line": passage.first_line, "last_line": passage.last_line, "hash": passage.hash,
                        "vector_id": self._vector, "length": len(title.words) + len(body.words),
                    }
                )  # fmt: skip
                texts.append((title, body))
        self._copy("content", ("hash", "text"), contents)
        for table, found in made.items():
            self._copy(table, tuple(found[0]), [tuple(row.values()) for row in found])
        self._copy_vectors([row["hash"] for row in passages], vectors, first=first_vector)
        self._copy_passages(passages, texts)

    def _rows_of(self, entry: Entry) -> Mapping[str, dict[str, Any]]:
        self._memory += 1
        self._history += 1
        self._ledger += 1
        before, self._hash = self._hash, hashlib.sha256(self._hash.encode()).hexdigest()
        return {
            "memory": {
                "id": self._memory, "path": entry.path, "title": entry.attributes.title,
                "fingerprint": entry.fingerprint, "content_hash": entry.content_hash,
            },
            "document": {"memory_id": self._memory, "raw_hash": entry.raw_hash, "size": entry.stamp.size},
            "history": {
                "sequence": self._history, "memory_id": self._memory, "hash_after": entry.content_hash,
                "ledger_sequence": self._ledger,
            },
            "ledger": {
                "sequence": self._ledger, "memory_ids": f"[{self._memory}]", "hash_after": entry.content_hash,
                "previous": before, "hash": self._hash,
            },
        }  # fmt: skip


class BulkSqlite(BulkRows):
    def __init__(self, file: Path) -> None:
        self._connection = apsw.Connection(str(file))
        for setting in ("synchronous = OFF", "cache_size = -262144", "temp_store = MEMORY"):
            self._connection.execute(f"PRAGMA {setting}")
        super().__init__()

    def _first(self, sql: str) -> _Cursor:
        return self._connection.execute(sql)

    def write(self, documents: Sequence[SplitEntry], vectors: Vectors) -> None:
        with self._connection:
            super().write(documents, vectors)

    def _copy(self, table: str, columns: Sequence[str], values: Iterable[Sequence[Any]]) -> None:
        marks = ", ".join("?" * len(columns))
        self._connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", values)

    def _copy_vectors(self, hashes: Sequence[str], vectors: Vectors, *, first: int) -> None:
        numbered = enumerate(zip(hashes, vectors, strict=True), start=first)
        values = ((number, 1, hash_, vector.tobytes()) for number, (hash_, vector) in numbered)
        self._copy("vector", ("id", "model", "hash", "vector"), values)

    def _copy_passages(self, passages: Sequence[dict[str, Any]], texts: Sequence[tuple[SplitText, SplitText]]) -> None:
        self._copy("passage", tuple(passages[0]), (tuple(row.values()) for row in passages))
        named = zip(passages, texts, strict=True)
        values = ((row["id"], title.text, body.text) for row, (title, body) in named)
        self._copy("passage_fts", ("rowid", "title", "body"), values)

    def finish(self) -> None:
        self._connection.execute("UPDATE counter SET generation = generation + 1, epoch = epoch + 1")
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()


class BulkPostgres(BulkRows):
    def __init__(self, url: str, *, dimensions: int) -> None:
        self._connection = psycopg.connect(url, options=f"-c search_path={SCHEMA},public")
        self._dimensions = dimensions
        super().__init__()
        # The last bucket is not full yet.
        begun = self._connection.execute(
            "DELETE FROM posting WHERE bucket >= %s RETURNING term, bucket, passages, times",
            (self._passage // text_index.BUCKET,),
        )
        self._postings: dict[tuple[str, int], tuple[list[int], list[int]]] = {
            (term, bucket): (np.frombuffer(ids, "<i8").tolist(), np.frombuffer(times, "<u2").tolist())
            for term, bucket, ids, times in begun
        }

    def _first(self, sql: str) -> _Cursor:
        return self._connection.execute(sql.encode())

    def write(self, documents: Sequence[SplitEntry], vectors: Vectors) -> None:
        super().write(documents, vectors)
        self._flush(before=self._passage // text_index.BUCKET)
        self._connection.commit()

    def _copy_passages(self, passages: Sequence[dict[str, Any]], texts: Sequence[tuple[SplitText, SplitText]]) -> None:
        for row, (title, body) in zip(passages, texts, strict=True):
            row["words"] = " ".join(("", *title.words, "\n", *body.words, ""))
            for term, times in Counter((*title.words, *body.words)).items():
                ids, counts = self._postings.setdefault((term, row["id"] // text_index.BUCKET), ([], []))
                ids.append(row["id"])
                counts.append(times)
        self._copy("passage", tuple(passages[0]), (tuple(row.values()) for row in passages))

    def _flush(self, *, before: int | None = None) -> None:
        done = sorted(key for key in self._postings if before is None or key[1] < before)
        packed = []
        for term, bucket in done:
            ids, counts = self._postings.pop((term, bucket))
            packed.append((term, bucket, np.array(ids, "<i8").tobytes(), np.array(counts, "<u2").tobytes()))
        self._copy("posting", ("term", "bucket", "passages", "times"), packed)

    def _copy(self, table: str, columns: Sequence[str], values: Iterable[Sequence[Any]]) -> None:
        named = columns if "project_id" in columns else ("project_id", *columns)
        with self._connection.cursor().copy(f"COPY {table} ({', '.join(named)}) FROM STDIN") as copy:
            for row in values:
                copy.write_row(row if named is columns else (1, *row))

    def _copy_vectors(self, hashes: Sequence[str], vectors: Vectors, *, first: int) -> None:
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
            " last_vector = %s, last_history = %s",
            (self._memory, self._passage, self._vector, self._history),
        )
        self._connection.commit()
        self._connection.close()
