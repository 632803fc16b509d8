"""How is a served project used? As an ordinary `Workspace`, whose index is that project on the server's PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from spec_kit_memory.answers import UndoAnswer
from spec_kit_memory.core.memory import owner_of
from spec_kit_memory.embed import Embedder
from spec_kit_memory.errors import MemoryNotFound, SpecKitMemoryError
from spec_kit_memory.features.personal import PERSONAL
from spec_kit_memory.files.file_errors import disk_error
from spec_kit_memory.index.postgres.engine import PostgresIndex
from spec_kit_memory.parameters import Request, from_call
from spec_kit_memory.requests import (
    DeleteRequest,
    MergeRequest,
    SaveRequest,
    UndoRequest,
    UpdateRequest,
    ValidateRequest,
)
from spec_kit_memory.settings import IndexPlace, Settings
from spec_kit_memory.team.database import TeamDatabase
from spec_kit_memory.team.projects import Project
from spec_kit_memory.team.scratch import ProjectCopies, private_folder, remove_folder
from spec_kit_memory.workspace import Workspace, utc_now

_DISK = "the server's disk"
CHECKOUT = "served"  # the same for all replicas, which see the same files


def open_project(
    database: TeamDatabase,
    project: Project,
    *,
    settings: Settings,
    embedder: Embedder | None = None,
    now: Callable[[], datetime] = utc_now,
) -> Workspace:
    """Open a served project. The caller closes the workspace; `for_caller` makes a view of it for each person.

    `settings` are the operator's: their root is the server's data folder; a repository's configuration is ignored.
    """
    place = replace(index_place(database, project), memory_mb=settings.index.memory_mb)
    common = replace(settings, index=place, extra_paths=())

    def with_copies() -> ServedWorkspace:
        with _naming_no_folder(settings.root):
            here = replace(common, root=private_folder(settings.root / "projects" / project.name, "scratch-"))
            memory_mb = settings.index.memory_mb
            index = PostgresIndex(database.url, project.name, checkout=CHECKOUT, accepts=True, memory_mb=memory_mb)
            return ServedWorkspace(here, store=index, embedder=embedder, now=now, copies=ProjectCopies(here, index))

    if project.is_git:
        return with_copies()
    root = Path(project.repository)
    with _naming_no_folder(root):
        return ServedFolder(replace(common, root=root), with_copies, embedder=embedder, now=now)


def index_place(database: TeamDatabase, project: Project) -> IndexPlace:
    return IndexPlace(url=database.url, project=project.name, checkout=CHECKOUT)


@contextmanager
def _naming_no_folder(root: Path) -> Iterator[None]:
    """Errors inside do not reveal this folder of the server."""
    folder = root.as_posix()

    def shown(text: str) -> str:
        return text.replace(f"{folder}/", "").replace(folder, _DISK)

    try:
        yield
    except OSError as error:
        raise disk_error(error, _DISK) from error
    except SpecKitMemoryError as error:
        error.message = shown(error.message)
        error.advice = tuple(shown(step) if isinstance(step, str) else step for step in error.advice)
        error.details = {
            name: shown(value) if isinstance(value, str) else value for name, value in error.details.items()
        }
        raise


class _Served(Workspace):
    """A workspace of remote users: errors reveal no folder of this machine."""

    def _with_files(self, verb: Callable[[], Any], request: Request) -> Any:
        with _naming_no_folder(self.settings.root):
            return super()._with_files(verb, request)


class ServedWorkspace(_Served):
    """A project whose files are in git; its private copies are removed when it is closed."""

    def close(self) -> None:
        if self._closed or self._is_view:
            return
        super().close()
        remove_folder(self.settings.root)


class ServedFolder(_Served):
    """A plain folder, whose files are the project.

    Users' private notes are in the index only: verbs that change those work on copies, as in a project in git.
    """

    def __init__(
        self,
        settings: Settings,
        with_copies: Callable[[], ServedWorkspace],
        *,
        embedder: Embedder | None,
        now: Callable[[], datetime],
    ) -> None:
        super().__init__(settings, embedder=embedder, now=now)
        self._own_notes = _OwnNotes(with_copies)

    def close(self) -> None:
        if not self._is_view:
            self._own_notes.close()
        super().close()

    def undo(self, /, *values: Any, **keywords: Any) -> UndoAnswer:
        """Resolve the newest operation first, so that one on private notes is undone on their copies."""
        operation = from_call(UndoRequest, values, keywords).operation
        if operation is None and (newest := next(iter(self.changes(limit=1).changes), None)):
            operation = newest.operation
        return super().undo(operation=operation)

    def _vault(self, request: object) -> Workspace:
        return self._own_notes.workspace.for_caller(self.caller) if self._is_about_own(request) else self

    def _is_about_own(self, request: object) -> bool:
        match request:
            case SaveRequest():
                return request.vault == PERSONAL
            case UpdateRequest(id=int() as id_) | ValidateRequest(id=int() as id_) | DeleteRequest(id=int() as id_):
                ids: Sequence[int] = (id_,)
            case MergeRequest():
                ids = (request.id, request.into)
            case UndoRequest():
                changes = self.changes(limit=100).changes
                ids = next((row.memory_ids for row in changes if row.operation == request.operation), ())
            case _:
                return False
        return bool(ids) and all(map(self._is_own, ids))

    def _is_own(self, memory_id: int) -> bool:
        try:
            return owner_of(self._runtime.store.documents.get(memory_id, any_presence=True).path) is not None
        except MemoryNotFound:  # the verb itself reports it
            return False


class _OwnNotes:
    """The same project with copies in place of files; opened when a user first changes private notes."""

    def __init__(self, with_copies: Callable[[], ServedWorkspace]) -> None:
        self._open = with_copies
        self._opening = threading.Lock()
        self._opened: ServedWorkspace | None = None

    @property
    def workspace(self) -> ServedWorkspace:
        with self._opening:
            self._opened = self._opened or self._open()
            return self._opened

    def close(self) -> None:
        with self._opening:
            if self._opened is not None:
                self._opened.close()
