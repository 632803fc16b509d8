"""Who may do what in which project? Roles from static tokens or from claims, and the right that each verb needs.

The lesser of the token's rights (its scopes) and its user's (the role in the project) applies. Callers cannot
distinguish a project that they may not use from one that does not exist.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from spec_kit_memory.errors import AccessDenied, BadParameter, Invalid, MissingParameter
from spec_kit_memory.parameters import Request

LOCAL = "local"  # the issuer of static tokens
ANY_PROJECT = "*"


class Role(IntEnum):
    READER = 1
    WRITER = 2
    ADMIN = 3

    @classmethod
    def named(cls, name: str) -> Role:
        try:
            return cls[name.upper()]
        except KeyError:
            raise BadParameter(f"{name!r} is no role.", hint="Use reader, writer or admin.") from None

    @property
    def label(self) -> str:
        return self.name.lower()


_SCOPES: Mapping[str, Role] = {"memory:read": Role.READER, "memory:write": Role.WRITER, "memory:admin": Role.ADMIN}


def role_of_scopes(scopes: Iterable[str]) -> Role | None:
    """The highest role that a token's scopes allow; None: not even reading, which every verb needs."""
    roles = {_SCOPES[scope] for scope in scopes if scope in _SCOPES}
    if Role.READER not in roles:
        return None
    return max(role for role in Role if all(lower in roles for lower in Role if lower <= role))


def scopes_of(role: Role | None) -> list[str]:
    return [scope for scope, allowed in _SCOPES.items() if role is not None and allowed <= role]


# --- people ----------------------------------------------------------------------------------------


def user_id(issuer: str, subject: str) -> str:
    """The name of a user's namespace: unique, permanent, and valid as a folder on any file system."""
    readable = re.sub(r"[^a-z0-9]+", "-", subject.lower()).strip("-")[:40].strip("-")
    unique = hashlib.sha256(f"{issuer}\0{subject}".encode()).hexdigest()[:32]
    return f"{readable}-{unique}" if readable else unique


@dataclass(frozen=True, slots=True)
class User:
    """A user, identified by issuer and subject: two issuers may have different people of the same name."""

    issuer: str
    subject: str

    @property
    def id(self) -> str:
        return user_id(self.issuer, self.subject)

    def __str__(self) -> str:
        """The form in history and ledger. No issuer contains an @, so the last @ separates the two."""
        return f"{self.subject}@{self.issuer}"


@dataclass(frozen=True, slots=True)
class Access:
    """What one caller may do. `ceiling` is the highest role that the token allows, whatever its user's role."""

    user: User
    roles: Mapping[str, Role] = field(default_factory=dict)
    ceiling: Role | None = Role.ADMIN
    operator: bool = False  # may read the server's own metrics, and nothing in any project

    def role(self, project: str) -> Role | None:
        own = self.roles.get(project)
        return None if own is None or self.ceiling is None else min(own, self.ceiling)

    @property
    def projects(self) -> list[str]:
        return sorted(name for name in self.roles if self.role(name) is not None)

    def choose(self, project: str | None) -> str:
        """The project that a call applies to."""
        names = self.projects
        if project is None:
            if len(names) == 1:
                return names[0]
            if not names:
                raise AccessDenied("You may use no project on this server.", hint="Ask its operator for a role in one.")
            raise MissingParameter(
                f"'project' is missing: you may use {', '.join(names)}.", hint="Name one of them.", projects=names
            )
        if project not in names:
            raise self.refusal(project)
        return project

    def choose_several(self, projects: Sequence[str]) -> list[str]:
        """The named projects, or for `all` those that this caller may read."""
        if "all" in projects:
            return self.projects or [self.choose(None)]
        return [self.choose(name) for name in dict.fromkeys(projects)]

    def refusal(self, project: str) -> BadParameter:
        """The same error for a project that does not exist and for one that the caller may not use."""
        names = self.projects
        return BadParameter(
            f"There is no project {project[:200]!r} that you may use.",
            hint=f"Use {', '.join(names)}." if names else "Ask the operator for a role in one.",
            projects=names,
        )

    def require(self, project: str, request: Request) -> None:
        """Raise unless this caller may make this request in that project."""
        role, wanted = self.role(project), needed(request)
        if role is None:
            raise self.refusal(project)
        if role < wanted:
            raise AccessDenied(
                f"This needs the role {wanted.label} in {project}; you are {role.label} there.",
                hint="Ask an admin of the project, or sign in with a token that allows it.",
            )


# --- verbs -----------------------------------------------------------------------------------------

# Every verb of `Workspace`, and the role that may call it. Verbs that change the memories of all users at once
# or cannot be undone are for admins.
NEEDED: Mapping[str, Role] = {
    "search": Role.READER,
    "context": Role.READER,
    "load": Role.READER,
    "get": Role.READER,
    "list": Role.READER,
    "triggers": Role.READER,
    "session": Role.READER,
    "stats": Role.READER,
    "health": Role.READER,
    "history": Role.READER,
    "why": Role.READER,
    "checkpoint_list": Role.READER,
    "checkpoint_diff": Role.READER,
    "ledger_verify": Role.READER,
    "ledger_head": Role.READER,
    "ledger_export": Role.READER,
    "chat_list": Role.READER,
    "record_sent": Role.READER,
    "examine": Role.READER,
    "versions": Role.READER,
    "care": Role.READER,
    "changes": Role.READER,
    "facets": Role.READER,
    "folders": Role.READER,
    "numbers": Role.READER,
    "save": Role.WRITER,
    "update": Role.WRITER,
    "merge": Role.WRITER,
    "delete": Role.WRITER,
    "validate": Role.WRITER,
    "undo": Role.WRITER,
    "link": Role.WRITER,
    "unlink": Role.WRITER,
    "keep": Role.WRITER,
    "index": Role.WRITER,
    "checkpoint_create": Role.WRITER,
    "chat_import": Role.WRITER,
    "chat_forget": Role.WRITER,
    "trust": Role.ADMIN,  # a trusted memory may become a rule
    "checkpoint_restore": Role.ADMIN,
    "checkpoint_delete": Role.ADMIN,
    "import_original": Role.ADMIN,
}
# With one of these arguments the verb needs an admin of the project.
ADMIN_ARGUMENTS: Mapping[str, Sequence[str]] = {
    "health": ("repair", "full"),
    "index": ("force", "rebuild", "copy_to"),
}


def needed(request: Request) -> Role:
    given = (name for name in ADMIN_ARGUMENTS.get(request.verb, ()) if getattr(request, name))
    return role_for(request.verb, next(given, ""))


def role_for(verb: str, argument: str = "") -> Role:
    """The role that may call this verb with this argument."""
    return Role.ADMIN if argument in ADMIN_ARGUMENTS.get(verb, ()) else NEEDED[verb]


# --- claims ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Grant:
    """Users with this value in this claim have the role in the project."""

    claim: str
    value: str
    project: str
    role: Role

    def holds(self, claims: Mapping[str, Any]) -> bool:
        value = claims.get(self.claim)
        return self.value == value if isinstance(value, str) else isinstance(value, list) and self.value in value


def read_grants(data: object) -> tuple[Grant, ...]:
    """Parse the server's mapping of claims to roles; reports all problems at once."""
    problems: list[str] = []
    grants: list[Grant] = []
    for number, row in enumerate(data if isinstance(data, list) else [], start=1):
        try:
            if not isinstance(row, Mapping) or set(row) != {"claim", "value", "project", "role"}:
                raise BadParameter("it needs claim, value, project and role, and nothing else", hint="give these four")
            if not all(isinstance(part, str) and part for part in row.values()):
                raise BadParameter("every part is a text", hint="put each in quotes")
            grants.append(Grant(row["claim"], row["value"], row["project"], Role.named(row["role"])))
        except BadParameter as error:
            problems.append(f"entry {number}: {error.message}")
    if not isinstance(data, list):
        problems.append("it is a list of entries")
    if problems:
        raise Invalid(f"The rights cannot be read: {'; '.join(problems)}.", hint="Correct the file.", problems=problems)
    return tuple(grants)


def roles_by_claims(grants: Iterable[Grant], claims: Mapping[str, Any], projects: Iterable[str]) -> dict[str, Role]:
    """The highest role that the claims give in each of the projects."""
    roles: dict[str, Role] = {}
    names = tuple(projects)
    for grant in grants:
        if grant.holds(claims):
            for name in names if grant.project == ANY_PROJECT else [name for name in names if name == grant.project]:
                roles[name] = max(grant.role, roles.get(name, grant.role))
    return roles
