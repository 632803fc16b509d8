"""Would the SDK accept this request? Only then may the prepared answer to it be sent.

Pydantic is not imported yet when the first requests come, so the shapes of the few that are answered early are written
down here. What does not fit is left to the SDK.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

RESERVED = "io.modelcontextprotocol/"  # members of `_meta` that only the newer era of the protocol has
VERSION, CAPABILITIES = f"{RESERVED}protocolVersion", f"{RESERVED}clientCapabilities"


class ObjectShape:
    """The members that an object needs, and the shapes of those that are checked: one that is not needed may be null.
    Members that are not named have the shape `every`."""

    def __init__(self, members: Mapping[str, object], *, needed: Iterable[str] = (), every: object = object) -> None:
        self.needed = frozenset(needed)
        self.every = every
        self.members = {name: shape if name in self.needed else (shape, None) for name, shape in members.items()}


_ANY_OBJECT = ObjectShape({})
_OBJECTS = ObjectShape({}, every=_ANY_OBJECT)
_ICON = ObjectShape({"src": str, "mimeType": str, "sizes": [str], "theme": ("light", "dark")}, needed=("src",))
_CLIENT = ObjectShape(
    {"name": str, "version": str, "title": str, "description": str, "websiteUrl": str, "icons": [_ICON]},
    needed=("name", "version"),
)
_CAPABILITIES = {
    "experimental": _OBJECTS,
    "extensions": _OBJECTS,
    "sampling": ObjectShape({"context": _ANY_OBJECT, "tools": _ANY_OBJECT}),
    "elicitation": ObjectShape({"form": _ANY_OBJECT, "url": _ANY_OBJECT}),
    "roots": _ANY_OBJECT,
}
_TASK_REQUESTS = ObjectShape(
    {"sampling": ObjectShape({"createMessage": _ANY_OBJECT}), "elicitation": ObjectShape({"create": _ANY_OBJECT})}
)
_OLDER_CAPABILITIES = {
    **_CAPABILITIES,
    "roots": ObjectShape({"listChanged": bool}),
    "tasks": ObjectShape({"list": _ANY_OBJECT, "cancel": _ANY_OBJECT, "requests": _TASK_REQUESTS}),
}
_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

REQUEST = {"jsonrpc": ("2.0",), "id": (str, int), "method": str}
_REQUEST = ObjectShape(REQUEST, needed=REQUEST)
_HELLO = {"protocolVersion": str, "capabilities": ObjectShape(_OLDER_CAPABILITIES), "clientInfo": _CLIENT}
_HELLO_SHAPE = ObjectShape(_HELLO, needed=_HELLO)
_ENVELOPE = {
    VERSION: str,
    CAPABILITIES: ObjectShape(_CAPABILITIES),
    f"{RESERVED}clientInfo": _CLIENT,
    f"{RESERVED}logLevel": _LEVELS,
}
_ENVELOPE_SHAPE = ObjectShape(_ENVELOPE, needed=(VERSION, CAPABILITIES))


def request_in(line: str) -> dict[str, object] | None:
    """The request in this line; None if there is none that could be answered early."""
    try:
        message: dict[str, object] = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not _fits(message, _REQUEST) or not message.keys() <= {*REQUEST, "params"}:
        return None
    return None if _is_halved(message["id"]) else message


def is_hello(params: object) -> bool:
    """Are these the params of an `initialize`?"""
    return _fits(params, _HELLO_SHAPE) and isinstance(params, dict) and "_meta" not in params


def is_plain(params: object) -> bool:
    """Do these params, of the older era, ask for a whole list?"""
    if not isinstance(params, dict):
        return params is None
    meta = params.get("_meta", {})
    # On a connection of the older era, the SDK refuses what claims to be of the newer one.
    return params.keys() <= {"_meta"} and _is_meta(meta) and not any(name.startswith(RESERVED) for name in meta)


def is_envelope(meta: object) -> bool:
    """Is this the `_meta` of a request of the newer era?"""
    return _is_meta(meta) and _fits(meta, _ENVELOPE_SHAPE)


def _is_meta(value: object) -> bool:
    # A host may ask for progress reports (Codex does); an answer that is sent at once has none.
    token = value.get("progressToken", "") if isinstance(value, dict) else None
    return isinstance(token, str | int) or (isinstance(token, float) and token.is_integer())


def _is_halved(value: object) -> bool:
    """Does an id contain half a surrogate pair? The SDK replaces that, so only it can say what its answer's id is."""
    return isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value)


def _fits(value: object, shape: object) -> bool:
    """Has the value this shape: one value, a type, one of several shapes, a list of one, or an object?"""
    if isinstance(shape, ObjectShape):
        return (
            isinstance(value, dict)
            and shape.needed <= value.keys()
            and all(_fits(part, shape.members.get(name, shape.every)) for name, part in value.items())
        )
    if isinstance(shape, tuple):
        return any(_fits(value, item) for item in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(part, shape[0]) for part in value)
    if isinstance(shape, type):
        return shape is object or type(value) is shape
    return value == shape
