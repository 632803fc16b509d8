"""Which replica synchronises a project's repository? One at a time, for 30 seconds, renewed while it works."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from spec_kit_memory.errors import DatabaseBusy, SpecKitMemoryError
from spec_kit_memory.team.database import TeamDatabase

LEASE_SECONDS = 30.0

_PROJECT = "(SELECT id FROM project WHERE name = %s)"


class Lease:
    """A lease that is held or was lost to another replica; checked before every push."""

    def __init__(self, database: TeamDatabase, project: str, holder: str, *, seconds: float = LEASE_SECONDS) -> None:
        self._database = database
        self._project = project
        self._holder = holder
        self._seconds = seconds
        self.lost = threading.Event()

    def take(self) -> bool:
        """Take or extend the lease; False if another replica has it."""
        with self._database.transaction() as session:
            row = session.row(
                "INSERT INTO lease (project_id, holder, held_until)"
                " SELECT id, %s, now() + make_interval(secs => %s) FROM project WHERE name = %s"
                " ON CONFLICT (project_id) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until"
                " WHERE lease.holder = excluded.holder OR lease.held_until < now() RETURNING holder",
                (self._holder, self._seconds, self._project),
            )
        return row is not None

    def require(self) -> None:
        """Raise unless it is held now, by the database server's clock."""
        with self._database.transaction() as session:
            row = session.row(
                f"SELECT 1 FROM lease WHERE holder = %s AND held_until > now() AND project_id = {_PROJECT}",
                (self._holder, self._project),
            )
        if row is None:
            self.lost.set()
            raise DatabaseBusy("another replica looks after this project now", hint="nothing is to be done")

    def release(self) -> None:
        with self._database.transaction() as session:
            session.execute(
                f"DELETE FROM lease WHERE holder = %s AND project_id = {_PROJECT}", (self._holder, self._project)
            )

    def renew(self, done: threading.Event) -> None:
        """Extend the lease periodically, in a thread, until the work is done."""
        while not done.wait(self._seconds / 3):
            try:
                if not self.take():
                    self.lost.set()
                    return
            except SpecKitMemoryError:
                self.lost.set()  # a lease that cannot be extended counts as lost
                return


@contextmanager
def held(
    database: TeamDatabase, project: str, holder: str, *, seconds: float = LEASE_SECONDS
) -> Iterator[Lease | None]:
    """The lease of a project during the block; None if another replica has it."""
    lease = Lease(database, project, holder, seconds=seconds)
    if not lease.take():
        yield None
        return
    done = threading.Event()
    heart = threading.Thread(target=lease.renew, args=(done,), name="skm-lease", daemon=True)
    heart.start()
    try:
        yield lease
    finally:
        done.set()
        heart.join()
        if not lease.lost.is_set():
            lease.release()
