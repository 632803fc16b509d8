"""Which projects does this replica have open? Those in recent use; the least recently used are closed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spec_kit_memory.errors import DatabaseBusy, DatabaseCorrupt, DatabaseUnusable
from spec_kit_memory.serve.mcp.workspace_handle import LiveWorkspace
from spec_kit_memory.team.database import conceal

if TYPE_CHECKING:
    from spec_kit_memory.workspace import Workspace

logger = logging.getLogger(__name__)

# Memory of an open project: for its connection and caches, and for the vector, words and columns of each passage.
PROJECT_BYTES = 4_000_000
PASSAGE_BYTES = 3_000


def weigh(workspace: Workspace) -> int:
    """Estimate how much memory a project takes, from the number of its passages."""
    return PROJECT_BYTES + PASSAGE_BYTES * workspace.stats(limit=1).totals.get("passages", 0)


@dataclass
class _Open:
    live: LiveWorkspace
    users: int = 0
    size: int = PROJECT_BYTES
    weighed: bool = field(default=False)


class ProjectHandle:
    """One project as a server uses it: opened by the first call, and again after it was closed."""

    def __init__(self, projects: OpenProjects, name: str) -> None:
        self._projects = projects
        self._name = name

    def use(self) -> AbstractContextManager[Workspace]:
        return self._projects.use(self._name)

    def wake_soon(self) -> None:
        """Does nothing: a project is opened by its first call."""


class OpenProjects:
    """The open projects, up to `most_bytes` of estimated memory. Thread-safe; a project in use is never closed."""

    def __init__(
        self,
        opener: Callable[[str], Workspace],
        *,
        most_bytes: int,
        weigh: Callable[[Workspace], int] = weigh,
        background: bool = True,
        where: str = "",
    ) -> None:
        """`where` is the database's address, which no error shows to callers."""
        self._opener = opener
        self._where = where
        self._most = most_bytes
        self._weigh = weigh
        self._background = background
        self._lock = threading.Lock()
        self._open: dict[str, _Open] = {}  # least recently used first
        self._closed = False

    def handle(self, name: str) -> ProjectHandle:
        return ProjectHandle(self, name)

    @property
    def names(self) -> list[str]:
        with self._lock:
            return list(self._open)

    @contextmanager
    def use(self, name: str) -> Iterator[Workspace]:
        with self._lock:
            entry = self._open.pop(name, None) or _Open(
                LiveWorkspace(lambda: self._opener(name), background=self._background)
            )
            self._open[name] = entry
            entry.users += 1
        try:
            with entry.live.use() as workspace:
                if not entry.weighed:
                    entry.size, entry.weighed = self._weigh(workspace), True
                yield workspace
        except (DatabaseBusy, DatabaseCorrupt, DatabaseUnusable) as error:
            logger.warning("project %s: %s %s", name, error.code, error.message)
            conceal(error, self._where)
            raise
        finally:
            with self._lock:
                entry.users -= 1
                evicted = self._evict()
            for project in evicted:
                project.live.close()

    def _evict(self) -> list[_Open]:
        """Remove idle projects, least recently used first, until the rest fits; the last used one always stays."""
        evicted = []
        for name in list(self._open)[:-1]:
            if sum(project.size for project in self._open.values()) <= self._most:
                break
            if not self._open[name].users:
                evicted.append(self._open.pop(name))
        return evicted

    def close(self, *, seconds: float = 5.0) -> bool:
        with self._lock:
            entries, self._open = list(self._open.values()), {}
        closed = [entry.live.close(seconds=seconds) for entry in entries]
        return all(closed)

    def wake_soon(self) -> None:
        """Does nothing: projects are opened by their first call, unlike a single workspace."""
