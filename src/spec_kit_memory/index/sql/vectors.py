"""Which passages lack a vector, and where do vectors go?

One model at a time: its name, dimensions and weights hash are stored, and vectors of another model are dropped, never
mixed. Vectors are stored by the hash of the words, so that moving, renaming or saving a file again embeds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spec_kit_memory.advice import advise
from spec_kit_memory.core import long_lines
from spec_kit_memory.core.memory import Filter, StoredPassage, embedded
from spec_kit_memory.errors import BadParameter, DatabaseUnusable
from spec_kit_memory.index import rows
from spec_kit_memory.index.contract import VectorWork
from spec_kit_memory.index.sql import conditions, passage_rows
from spec_kit_memory.index.sql.dialect import Connection, fetch, first
from spec_kit_memory.index.sql.recorder import Recorder
from spec_kit_memory.index.sql.view import Model, View

_PAGE = 500
_PROVIDER = ""  # the hash under which a failure of the provider itself is stored
PROVIDER_FAILURE = f"SELECT reason FROM failure WHERE failure.project_id = @p AND hash = '{_PROVIDER}'"
_FORGET_VECTORS = (
    "UPDATE passage SET vector_id = NULL WHERE project_id = @p AND vector_id IS NOT NULL",
    "UPDATE document SET embedded = 0, vector_status = CASE passages WHEN 0 THEN 'success' ELSE 'pending' END"
    " WHERE project_id = @p",
)

if TYPE_CHECKING:
    from spec_kit_memory.core.raw_hits import RawHits


class Vectors(View):
    def use_model(self, name: str, dimensions: int, weights_hash: str) -> None:
        model = self._shared.model = (name, dimensions, weights_hash)
        with self._database.reading() as connection:
            if current(connection) == model or self._database.read_only:
                return
        with self._database.writing() as connection:
            if current(connection) == model:
                return
            recorder = Recorder(connection)
            generation = recorder.generation
            with connection.within(*connection.checkouts()):
                for sql in _FORGET_VECTORS:
                    connection.execute(sql)
                connection.execute("UPDATE memory SET changed = ? WHERE project_id = @p", (generation,))
            for table in ("token_state", "vector", "failure", "model"):
                connection.execute(f"DELETE FROM {table} WHERE project_id = @p")
            connection.execute(
                "INSERT INTO model (project_id, id, name, dimensions, weights_hash) VALUES (@p, ?, ?, ?, ?)",
                (connection.next_id("model"), *model),
            )
            connection.raised("epoch")

    def work(self, limit: int) -> list[VectorWork]:
        """Read a memory's text once and cut its passages from it."""
        seen, bound = conditions.visible(self._scope)
        sql = (
            "SELECT memory.id, memory.content_hash FROM document JOIN memory ON memory.project_id = @p"
            " AND memory.id = document.memory_id"
            " LEFT JOIN usage ON usage.project_id = @p AND usage.memory_id = memory.id"
            " WHERE document.project_id = @p AND vector_status IN ('retry', 'pending') AND memory.presence = 'live'"
            f" AND {seen} ORDER BY vector_status = 'retry' DESC, coalesce(usage.access_count, 0) DESC,"
            " coalesce(memory.created_at, memory.updated_at) DESC, memory.id DESC"
        )
        text = "SELECT text FROM content WHERE project_id = @p AND hash = ?"
        work: dict[str, VectorWork] = {}
        with self._database.reading() as connection:
            for memory_id, content_hash in fetch(connection, sql, bound):
                lines: list[str] = []
                for passage in _unembedded(connection, memory_id):
                    if len(work) >= limit:
                        return list(work.values())
                    lines = lines or rows.unpack(first(connection, text, (content_hash,))[0]).split("\n")
                    words = embedded(passage.headings, long_lines.text_of(lines, passage))
                    work.setdefault(passage.hash, VectorWork(memory_id, passage.hash, words))
        return list(work.values())

    def put(self, vectors: Mapping[str, tuple[bytes, bytes | None]], *, if_current: bool = False) -> None:
        if not vectors:
            return
        with self._database.writing() as connection:
            stored, model = current(connection), self._shared.model  # another process may have set another one
            if stored is None or (model is not None and stored != model):
                if if_current:
                    return
                raise DatabaseUnusable(
                    f"the index now holds {_difference(stored, model)}",
                    hint="use the same semantic settings for all processes of a workspace",
                )
            wrong = {len(blob) for blob, _ in vectors.values()} - {stored[1] * 4}
            if wrong:
                raise BadParameter(
                    f"a vector has {wrong.pop() // 4} dimensions; {stored[0]} has {stored[1]}",
                    hint=advise("set-dimensions"),
                )
            recorder = Recorder(connection)
            with connection.within(*connection.checkouts()):
                connection.text_index.attach_vectors(connection, vectors)
                _settle(connection, recorder, list(vectors))

    def get(self, hashes: Sequence[str]) -> Iterator[tuple[str, bytes, bytes | None]]:
        """Read in pages, so that no read holds the log for long."""
        for start in range(0, len(hashes), _PAGE):
            with self._database.reading() as connection:
                page = connection.vectors(hashes[start : start + _PAGE])
            yield from page

    def failed(self, reason: str | None, hashes: Iterable[str] | None = None) -> None:
        if hashes is None:
            self._provider_failed(reason)
        elif failed := list(hashes):
            with self._database.writing() as connection:
                recorder = Recorder(connection)
                connection.executemany(
                    "INSERT INTO failure (project_id, hash, tries, reason) VALUES (@p, ?, 1, ?)"
                    " ON CONFLICT (project_id, hash) DO UPDATE SET tries = failure.tries + 1, reason = excluded.reason",
                    [(hash_, rows.clean(reason or "")) for hash_ in failed],
                )
                with connection.within(*connection.checkouts()):
                    _settle(connection, recorder, failed)

    def _provider_failed(self, reason: str | None) -> None:
        """Write the failure only if it changed, and raise the generation so that every process sees it."""
        reason = None if reason is None else rows.clean(reason)
        with self._database.reading() as connection:
            if connection.execute(PROVIDER_FAILURE).get == reason or self._database.read_only:
                return
        with self._database.writing() as connection:
            connection.execute("DELETE FROM failure WHERE failure.project_id = @p AND hash = ?", (_PROVIDER,))
            if reason is not None:
                connection.execute(
                    "INSERT INTO failure (project_id, hash, tries, reason) VALUES (@p, ?, 1, ?)", (_PROVIDER, reason)
                )
            _ = Recorder(connection).generation

    def match(self, vector: Any, where: Filter, limit: int) -> RawHits:
        return self._shared.match_vector(self._scope, vector, where, limit)

    def token_states(self, passage_ids: Sequence[int]) -> dict[int, bytes]:
        return self._shared.row_cache.token_states(self._scope, passage_ids)


def current(connection: Connection) -> Model | None:
    """The model whose vectors the index holds."""
    row = connection.execute(
        "SELECT name, dimensions, weights_hash FROM model WHERE project_id = @p ORDER BY id DESC LIMIT 1"
    ).fetchone()
    return (row[0], row[1], row[2]) if row else None


def _unembedded(connection: Connection, memory_id: int) -> list[StoredPassage]:
    columns = ", ".join(f"passage.{name.strip()}" for name in rows.PASSAGE.split(","))
    sql = (
        f"SELECT {columns} FROM passage LEFT JOIN failure ON failure.project_id = @p"
        f" AND failure.hash = passage.hash WHERE passage.project_id = @p AND memory_id = ? AND vector_id IS NULL"
        " AND coalesce(tries, 0) < ? ORDER BY tries IS NULL, ordinal"
    )
    return [rows.passage_from(row) for row in connection.execute(sql, (memory_id, passage_rows.MOST_TRIES))]


def _difference(stored: Model | None, model: Model | None) -> str:
    """How the stored model differs from that of this process, even if both have the same name."""
    if stored is None or model is None:
        return f"vectors of {stored[0] if stored else 'no model'}, not of {model[0] if model else 'this one'}"
    if stored[0] != model[0]:
        return f"vectors of {stored[0]}, not of {model[0]}"
    if stored[1] != model[1]:
        return f"vectors of {stored[0]} with {stored[1]} dimensions, not with {model[1]}"
    return f"vectors of {stored[0]} from another address or with other weights than this process uses"


def _settle(connection: Connection, recorder: Recorder, hashes: Sequence[str]) -> None:
    """Update the vector status of the memories with these passages, and mark them changed for other processes."""
    sql = "SELECT DISTINCT memory_id FROM passage WHERE passage.project_id = @p AND hash IN @list(?)"
    ids = fetch(connection, sql, (list(hashes),))
    if not ids:
        return
    connection.text_index.refresh_status(connection, [memory_id for (memory_id,) in ids])
    for (memory_id,) in ids:
        recorder.changed(memory_id)
