"""How is a served project used? As an ordinary `Workspace`, whose index is that project on the server's PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from spec_kit_memory.embed import Embedder
from spec_kit_memory.index.postgres.engine import PostgresIndex
from spec_kit_memory.settings import IndexPlace, Settings
from spec_kit_memory.team.database import TeamDatabase
from spec_kit_memory.team.projects import Project
from spec_kit_memory.team.scratch import ProjectCopies, private_folder, remove_folder
from spec_kit_memory.workspace import Workspace, utc_now

__all__ = ["CHECKOUT", "index_place", "open_project"]

CHECKOUT = "served"  # all replicas see the same files: those of the repository


def open_project(
    database: TeamDatabase,
    project: Project,
    *,
    settings: Settings,
    embedder: Embedder | None = None,
    now: Callable[[], datetime] = utc_now,
) -> Workspace:
    """`settings` are the operator's: their root is the server's data folder, and what a repository says counts for
    nothing. The workspace is closed by whoever opened it; `for_caller` gives it to each person."""
    common = replace(settings, index=index_place(database, project), extra_paths=())
    if not project.is_git:
        return Workspace(replace(common, root=Path(project.repository)), embedder=embedder, now=now)
    here = replace(common, root=private_folder(settings.root / "projects" / project.name, "scratch-"))
    index = PostgresIndex(database.url, project.name, checkout=CHECKOUT, accepts=True)
    copies = ProjectCopies(here, index)
    return ServedWorkspace(here, store=index, embedder=embedder, now=now, copies=copies)


def index_place(database: TeamDatabase, project: Project) -> IndexPlace:
    return IndexPlace(url=database.url, project=project.name, checkout=CHECKOUT)


class ServedWorkspace(Workspace):
    """A project that is in git; its copies go with it."""

    def close(self) -> None:
        if self._closed or self._is_view:
            return
        super().close()
        remove_folder(self.settings.root)
