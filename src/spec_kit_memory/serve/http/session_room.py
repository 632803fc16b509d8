"""How many MCP sessions may be open, and which ends when there are too many?

Many clients never end theirs. If new sessions were refused at the limit, one client that keeps opening sessions would
keep out all others, so the least recently used session of whoever has most is ended instead. Its client is told that
the session is unknown, and opens a new one, as after idle time.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADER = b"mcp-session-id"


class SessionRoom:
    """Middleware that ends sessions beyond `most`. It is inside of the check of tokens, so that users are known."""

    def __init__(self, app: ASGIApp, *, most: int) -> None:
        self._app = app
        self._most = most
        self._users: dict[str, Any] = {}  # session id -> its user or None; least recently used first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        named = _session_id(scope["headers"])
        if named in self._users:
            self._users[named] = self._users.pop(named)

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                opened = _session_id(message["headers"])
                if scope["method"] == "DELETE":
                    self._users.pop(named or "", None)
                elif opened is not None and named is None:
                    self._users[opened] = scope.get("user")
            await send(message)

        await self._app(scope, receive, noting)
        while len(self._users) > self._most:
            await self._end(self._least_needed(), scope)

    def _least_needed(self) -> str:
        owners = {session_id: _owner(user) for session_id, user in self._users.items()}
        largest = max(Counter(owners.values()).values())
        crowded = {owner for owner, count in Counter(owners.values()).items() if count == largest}
        return next(session_id for session_id, owner in owners.items() if owner in crowded)

    async def _end(self, session_id: str, scope: Scope) -> None:
        """End a session as its own client would."""
        headers = [pair for pair in scope["headers"] if pair[0] == b"host"] + [(_HEADER, session_id.encode())]
        request = {**scope, "method": "DELETE", "headers": headers, "user": self._users.pop(session_id)}
        await self._app(request, _nothing, _unheard)


def _session_id(headers: Any) -> str | None:
    return next((value.decode("latin-1") for name, value in headers if name.lower() == _HEADER), None)


def _owner(user: Any) -> str:
    return "" if user is None else str(user.access_token.subject or user.access_token.client_id)


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _unheard(_message: Message) -> None:
    return None
