"""Which states does a file change go through between its acceptance by a team server and its commit in git?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import uuid4

__all__ = ["Backlog", "Delivery", "FileOperation", "OperationKind", "Stage"]


class Stage(StrEnum):
    ACCEPTED = "accepted"  # found by everybody, and not in git yet
    IN_GIT = "in git"
    FAILED = "failed"  # a person has to decide


class OperationKind(StrEnum):
    WRITE = "write"
    EDIT = "edit"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class FileOperation:
    """One change of one file. Its id is looked for in git before it is committed: it is there once."""

    kind: OperationKind
    path: str  # stored
    data: bytes | None = None  # of a write: the whole file
    keys: Mapping[str, Any] | None = None  # of an edit: front matter, set again in whatever the file says by then
    base: str | None = None  # content hash of the text that is changed; None: there was no file
    id: str = field(default_factory=lambda: str(uuid4()))


@dataclass(frozen=True, slots=True)
class Delivery:
    """How far the last change of a path has come."""

    path: str
    stage: Stage
    accepted_at: datetime
    reason: str | None = None  # why it is not in git yet, or will not be
    branch: str | None = None
    commit: str | None = None
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is on its way for a whole project, and what stands in the way."""

    accepted: int = 0
    in_git: int = 0
    failed: int = 0
    oldest: datetime | None = None  # of those that are on their way
    synced_at: datetime | None = None  # when the repository was last read
    problem: str | None = None  # why it could not be read or written
    late: tuple[Delivery, ...] = ()  # some that failed or are being tried again
