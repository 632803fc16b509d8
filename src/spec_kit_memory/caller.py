"""Who is calling? A `Caller` per call: what it may see, whose change it is, which session and connection it belongs to.

It is created at the edges (the command line and the stdio server once per process, a server with sign-in per request),
never from a tool's parameter. Code below `serve` gets this information from nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spec_kit_memory.core.lean_dataclass import dataclass
from spec_kit_memory.core.memory import EVERYWHERE, Actor, Scope
from spec_kit_memory.errors import BadParameter

if TYPE_CHECKING:
    from spec_kit_memory.settings import Settings


@dataclass(frozen=True, slots=True)
class Caller:
    """`session` is written to history with each change; a verb's own `session_id` takes precedence.

    `connection` distinguishes clients without a session, so that each gets the rules once. It is "" for the command
    line, for Python, and for clients that a server cannot distinguish: those get the rules every time.

    An `observer` is a person who inspects memories: reading then does not count as use and is not recorded.
    """

    scope: Scope = EVERYWHERE
    actor: Actor = Actor.USER
    session: str | None = None
    connection: str = ""
    user: str = ""  # SUBJECT@ISSUER of the signed-in user, for history and ledger; visibility depends on `scope` only
    personal: bool = False  # true only for the user of this machine: answers include that user's personal vault
    observer: bool = False
    rules_others: bool = True  # may create, change and remove rules that are shown in other people's answers

    def __post_init__(self) -> None:
        user = self.scope.user
        if user is not None and (user in ("", ".", "..") or any(mark in user for mark in "/\\\0")):
            raise BadParameter(
                f"The user id {user!r} cannot be the name of a folder.",
                hint="Use an id that is not empty, not . or .., and has no slash, backslash or NUL in it.",
            )


def process_caller(settings: Settings, *, actor: Actor = Actor.USER) -> Caller:
    """The caller that a process's flags, environment and user configuration describe."""
    return Caller(scope=settings.scope, actor=actor)
