"""Which accepted file changes are not in git yet? Each is a row, written in one transaction with its memory.

Features add rows and query their progress; the worker of a team server delivers them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from spec_kit_memory.core.delivery import Backlog, Delivery, FileOperation, OperationKind, Stage
from spec_kit_memory.errors import Outdated
from spec_kit_memory.index.sql.dialect import fetch, first
from spec_kit_memory.index.sql.view import View

MOST_LATE = 20
MOST_AT_ONCE = 200  # operations per round of the worker

_DELIVERY = "path, stage, accepted_at, reason, branch, commit, tries"


@dataclass(frozen=True, slots=True)
class Waiting:
    """An operation for the worker to deliver."""

    sequence: int
    operation: FileOperation
    author: str | None
    accepted_at: datetime
    tries: int


@dataclass(frozen=True, slots=True)
class InGit:
    """The last operation of a path, and the commit that was recorded as holding it."""

    sequence: int
    id: str
    path: str
    author: str | None
    commit: str


class Outbox(View):
    def require_base(self, bases: Mapping[str, str | None]) -> dict[str, int]:
        sql = (
            "SELECT path, content_hash, redactions FROM memory LEFT JOIN document ON document.project_id = @p"
            " AND document.checkout_id = @c AND memory_id = id"
            " WHERE memory.project_id = @p AND memory.checkout_id = @c AND presence = 'live' AND path = ANY(?::text[])"
        )
        with self._database.reading(own=True) as connection:
            rows = fetch(connection, sql, (list(bases),))
        present = {path: hash_ for path, hash_, _ in rows}
        for path, base in bases.items():
            if present.get(path) != base:
                raise Outdated(f"{path} was changed by somebody else at the same moment", hint="try again")
        return {path: count for path, _, count in rows if count}

    def keep_redactions(self, counts: Mapping[str, int]) -> None:
        with self._database.writing() as connection:
            connection.executemany(
                "UPDATE document SET redactions = ? FROM memory WHERE document.project_id = @p"
                " AND document.checkout_id = @c AND memory.project_id = @p AND memory.checkout_id = @c"
                " AND memory_id = memory.id AND presence = 'live' AND path = ?",
                [(count, path) for path, count in counts.items()],
            )

    def add(self, operations: Sequence[FileOperation], *, author: str | None) -> None:
        if not operations:
            return
        with self._database.writing() as connection:
            connection.executemany(
                "INSERT INTO outbox (project_id, sequence, id, kind, path, data, keys, base, author)"
                " VALUES (@p, (SELECT coalesce(max(sequence), 0) + 1 FROM outbox WHERE project_id = @p),"
                " ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        operation.id,
                        operation.kind.value,
                        operation.path,
                        operation.data,
                        None if operation.keys is None else json.dumps(dict(operation.keys), ensure_ascii=False),
                        operation.base,
                        author,
                    )
                    for operation in operations
                ],
            )

    def deliveries(self, paths: Collection[str]) -> dict[str, Delivery]:
        if not paths:
            return {}
        sql = (
            f"SELECT DISTINCT ON (path) {_DELIVERY} FROM outbox WHERE project_id = @p AND path = ANY(?::text[])"
            " ORDER BY path, stage = 'in git', sequence DESC"
        )
        with self._database.reading(own=True) as connection:
            return {row[0]: _delivery(*row) for row in fetch(connection, sql, (list(paths),))}

    def backlog(self) -> Backlog:
        with self._database.reading() as connection:
            sql = (
                "SELECT count(*) FILTER (WHERE stage = 'accepted'), count(*) FILTER (WHERE stage = 'in git'),"
                " count(*) FILTER (WHERE stage = 'failed'), min(accepted_at) FILTER (WHERE stage = 'accepted')"
                " FROM outbox WHERE project_id = @p"
            )
            accepted, in_git, failed, oldest = first(connection, sql)
            late = (
                f"SELECT {_DELIVERY} FROM outbox WHERE project_id = @p AND stage <> 'in git' AND reason IS NOT NULL"
                " ORDER BY sequence LIMIT ?"
            )
            rows = fetch(connection, late, (MOST_LATE,))
            state = fetch(connection, "SELECT synced_at, problem FROM served WHERE project_id = @p")
        synced_at, problem = state[0] if state else (None, None)
        return Backlog(
            accepted, in_git, failed, oldest, synced_at, problem, late=tuple(_delivery(*row) for row in rows)
        )

    # --- for the worker

    def undelivered_paths(self) -> set[str]:
        """The paths with an operation that is not in git yet: for these the content in git is out of date."""
        sql = "SELECT DISTINCT path FROM outbox WHERE project_id = @p AND stage <> 'in git'"
        with self._database.reading(own=True) as connection:
            return {row[0] for row in fetch(connection, sql)}

    def in_git(self) -> list[InGit]:
        """The last operation of each path, if it is in git and left a file there."""
        sql = (
            "SELECT sequence, id::text, path, author, commit FROM (SELECT DISTINCT ON (path) * FROM outbox"
            " WHERE project_id = @p ORDER BY path, stage = 'in git', sequence DESC) AS last"
            " WHERE stage = 'in git' AND kind <> 'remove' AND commit IS NOT NULL ORDER BY sequence"
        )
        with self._database.reading() as connection:
            return [InGit(*row) for row in fetch(connection, sql)]

    def moved_to(self, sequence: int, commit: str | None) -> None:
        """Record that another commit now contains this operation, or (None) that no commit needs to."""
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE outbox SET commit = ? WHERE project_id = @p AND sequence = ? AND stage = 'in git'",
                (commit, sequence),
            )

    def held(self, id_: str, reason: str) -> None:
        """Stop an accepted operation until a person decides about it."""
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE outbox SET stage = 'failed', reason = ?, ended_at = now()"
                " WHERE project_id = @p AND id = ?::uuid AND stage = 'accepted'",
                (reason, id_),
            )

    def due(self) -> list[Waiting]:
        """The operations to try now, in order. A postponed or failed one holds up later ones on its path."""
        sql = (
            "SELECT sequence, id, kind, path, data, keys, base, author, accepted_at, tries FROM outbox AS this"
            " WHERE project_id = @p AND stage = 'accepted' AND due_at <= now() AND NOT EXISTS"
            " (SELECT 1 FROM outbox AS other WHERE other.project_id = @p AND other.path = this.path"
            " AND other.sequence < this.sequence AND (other.stage = 'failed' OR"
            " (other.stage = 'accepted' AND other.due_at > now())))"
            " ORDER BY sequence LIMIT ?"
        )
        with self._database.reading() as connection:
            return [_waiting(row) for row in fetch(connection, sql, (MOST_AT_ONCE,))]

    def delivered(self, commits: Mapping[int, str], *, branch: str) -> None:
        """Mark operations as in git (sequence -> commit); drop their data, and earlier delivered rows of their paths.

        The last row of each path stays: it records the commit of a memory and keeps sequence numbers from being reused.
        """
        with self._database.writing() as connection:
            connection.executemany(
                "UPDATE outbox SET stage = 'in git', commit = ?, branch = ?, reason = NULL, data = NULL,"
                " ended_at = now() WHERE project_id = @p AND sequence = ? AND stage = 'accepted'",
                [(commit, branch, sequence) for sequence, commit in commits.items()],
            )
            connection.execute(
                "DELETE FROM outbox AS old USING outbox AS newer WHERE old.project_id = @p AND newer.project_id = @p"
                " AND old.path = newer.path AND old.sequence < newer.sequence AND old.stage = 'in git'"
                " AND newer.stage = 'in git' AND newer.sequence = ANY(?::bigint[])",
                (list(commits),),
            )

    def failed(self, sequence: int, reason: str) -> None:
        """Mark as failed: a person has to decide. Later operations on its path wait for it."""
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE outbox SET stage = 'failed', reason = ?, ended_at = now()"
                " WHERE project_id = @p AND sequence = ? AND stage = 'accepted'",
                (reason, sequence),
            )

    def postponed(self, sequences: Collection[int], reason: str, *, seconds: float) -> None:
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE outbox SET tries = tries + 1, reason = ?, due_at = now() + make_interval(secs => ?)"
                " WHERE project_id = @p AND stage = 'accepted' AND sequence = ANY(?::bigint[])",
                (reason, seconds, list(sequences)),
            )

    def renamed(self, sequence: int, *, old: str, new: str) -> None:
        """Move this operation and later ones to another path, because the name is taken in git."""
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE outbox SET path = ? WHERE project_id = @p AND path = ? AND sequence >= ?", (new, old, sequence)
            )


def _waiting(row: tuple[object, ...]) -> Waiting:
    sequence, id_, kind, path, data, keys, base, author, accepted_at, tries = row
    operation = FileOperation(
        OperationKind(str(kind)),
        str(path),
        data=None if data is None else bytes(data),  # type: ignore[call-overload]
        keys=None if keys is None else json.loads(str(keys)),
        base=None if base is None else str(base),
        id=str(id_),
    )
    assert isinstance(sequence, int)
    assert isinstance(tries, int)
    assert isinstance(accepted_at, datetime)
    return Waiting(sequence, operation, None if author is None else str(author), accepted_at, tries)


def _delivery(
    path: str,
    stage: str,
    accepted_at: datetime,
    reason: str | None,
    branch: str | None,
    commit: str | None,
    tries: int,
) -> Delivery:
    return Delivery(path, Stage(stage), accepted_at, reason, branch, commit, tries)
