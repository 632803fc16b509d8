"""What happens to a line on standard input that is not a message? The SDK drops it; here the client gets an error.

Half a surrogate pair, which hosts send when they cut a text in the middle of an emoji, becomes U+FFFD and the
request is served. Anything else gets a protocol error, with the request's id if it can be read.
"""

from __future__ import annotations

import json
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from spec_kit_memory.core.text_encoding import without_lone_surrogates

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream, WriteStream


def reply(error: ValidationError) -> SessionMessage | types.JSONRPCError | None:
    """The repaired message, or the error to send; None for a line that gets no reply."""
    first = error.errors(include_url=False, include_context=False)[0]
    if first["type"] != "json_invalid":
        return _refusal(_whole(error), types.INVALID_REQUEST, "Not a JSON-RPC message.")
    line = str(first["input"])
    if not line.strip():
        return None
    try:
        message = without_lone_surrogates(json.loads(line))
        return SessionMessage(types.jsonrpc_message_adapter.validate_python(message, by_name=False))
    except ValidationError:
        return _refusal(message, types.INVALID_REQUEST, "Not a JSON-RPC message.")
    except (ValueError, RecursionError):
        return _refusal(None, types.PARSE_ERROR, "Not JSON: one message a line, in UTF-8.")


def _whole(error: ValidationError) -> Any:
    """The whole message: an error about a missing field has the object without that field as its input."""
    inputs = [problem["input"] for problem in error.errors(include_url=False, include_context=False)]
    return next((value for value in inputs if isinstance(value, dict) and "jsonrpc" in value), None)


def _refusal(message_data: Any, code: int, message: str) -> types.JSONRPCError | None:
    about = message_data if isinstance(message_data, dict) else {}
    if "result" in about or "error" in about:
        return None  # an invalid response; only requests are replied to
    number = about.get("id")
    request_id = number if isinstance(number, str) or type(number) is int else None
    return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=types.ErrorData(code=code, message=message))


class Answered:
    """The SDK's stream of incoming messages, with an error sent for each line that is not a message."""

    def __init__(self, incoming: ReadStream[SessionMessage | Exception], outgoing: WriteStream[SessionMessage]) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    @property
    def last_context(self) -> Any:
        return getattr(self._incoming, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        while True:
            item = await self._incoming.receive()
            if not isinstance(item, ValidationError):
                return item
            refusal = reply(item)
            if isinstance(refusal, SessionMessage):
                return refusal
            if refusal is not None:
                with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the client has gone
                    await self._outgoing.send(SessionMessage(refusal))

    async def aclose(self) -> None:
        await self._incoming.aclose()

    def __aiter__(self) -> Answered:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Answered:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
