"""How is a served project used? As an ordinary `Workspace`, whose index is that project on the server's PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from spec_kit_memory.embed import Embedder
from spec_kit_memory.settings import IndexPlace, Settings
from spec_kit_memory.team.database import TeamDatabase
from spec_kit_memory.team.projects import Project
from spec_kit_memory.workspace import Workspace, utc_now

__all__ = ["open_project"]

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
    here = replace(
        settings,
        root=Path(project.repository),
        index=IndexPlace(url=database.url, project=project.name, checkout=CHECKOUT),
        extra_paths=(),
    )
    return Workspace(here, embedder=embedder, now=now)
