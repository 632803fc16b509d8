"""Which states does a file change go through between its acceptance by a team server and its commit in git?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import uuid4

from spec_kit_memory.core.lean_dataclass import dataclass


class Stage(StrEnum):
    ACCEPTED = "accepted"  # every user finds it in searches, but it is not in git yet
    IN_GIT = "in git"
    FAILED = "failed"  # a person has to decide


class OperationKind(StrEnum):
    WRITE = "write"
    EDIT = "edit"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class FileOperation:
    """One change of one file. Before a commit, git is searched for the id, so that the change is made only once."""

    kind: OperationKind
    path: str  # as stored
    data: bytes | None = None  # for a write: the whole file
    keys: Mapping[str, Any] | None = None  # for an edit: front matter keys to set in the file's current content
    base: str | None = None  # content hash of the text that the change was based on; None: there was no file
    id: str = field(default_factory=lambda: str(uuid4()))


@dataclass(frozen=True, slots=True)
class Delivery:
    """The progress of the last change to a path."""

    path: str
    stage: Stage
    accepted_at: datetime
    reason: str | None = None  # why it is not in git
    branch: str | None = None
    commit: str | None = None
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Backlog:
    """The pending changes of a whole project, and what blocks them."""

    accepted: int = 0
    in_git: int = 0
    failed: int = 0
    oldest: datetime | None = None  # when the oldest pending change was accepted
    synced_at: datetime | None = None  # when the repository was last read
    problem: str | None = None  # why the repository could not be read or written
    late: tuple[Delivery, ...] = ()  # some of those that failed or are being retried
