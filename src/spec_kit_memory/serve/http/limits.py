"""How many clients may be connected, and for how long? A client that does not send or does not read is disconnected.

uvicorn waits without limit for a request's head and body, and for a client to read. Here each step has a deadline, and
when the limit of connections is reached, one is dropped for a new one: the oldest that waits for a request, else the
oldest that is sending a body, else the oldest stream. Logs are limited too: what happens a thousand times a second is
logged a few times a minute, with a count.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

BACKLOG = 64  # connections accepted at once; each takes a file descriptor before its request can be checked
_OWN_DESCRIPTORS = 96  # index, model, watcher, listening socket
_MOST_CONNECTIONS = 512
_FEWEST_CONNECTIONS = 8


@dataclass(frozen=True, slots=True)
class Limits:
    connections: int = _MOST_CONNECTIONS
    head_seconds: float = 10.0
    body_seconds: float = 60.0  # 4 MB over a slow line
    write_seconds: float = 60.0


def most_connections() -> int:
    """The process's limit of open files, minus those needed for other purposes."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return _MOST_CONNECTIONS
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed == resource.RLIM_INFINITY:
        return _MOST_CONNECTIONS
    return max(_FEWEST_CONNECTIONS, min(_MOST_CONNECTIONS, allowed - _OWN_DESCRIPTORS - BACKLOG))


def guarded(limits: Limits) -> type[H11Protocol]:
    """The protocol class for uvicorn, with these limits."""
    return type("Guarded", (_Guarded,), {"limits": limits})


class _Guarded(H11Protocol):
    """HTTP/1.1 with a deadline for every step that depends on the client."""

    limits: ClassVar[Limits] = Limits()
    _phase: Any = None  # h11's state of the client: what it has to send next
    _timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    _opened = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._opened = time.monotonic()
        self._restart_deadline()
        if len(self.connections) > self.limits.connections:
            self._make_room()

    def _make_room(self) -> None:
        others = [other for other in self.connections if isinstance(other, _Guarded) and other is not self]
        for candidates in (
            [other for other in others if other._phase is h11.IDLE],
            [other for other in others if other._phase is h11.SEND_BODY],
            [other for other in others if other._is_stream()],
        ):
            if candidates:
                min(candidates, key=lambda other: other._opened)._drop()
                return
        self._drop()

    def _is_stream(self) -> bool:
        """Is this an answer to GET that has begun and has no end? The client can request such a stream again."""
        cycle = self.cycle
        return bool(cycle) and self.scope["method"] == "GET" and cycle.response_started and not cycle.response_complete

    def _drop(self) -> None:
        self.connections.discard(self)  # now, because the transport is closed only later
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._restart_deadline()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._restart_deadline()

    def _restart_deadline(self) -> None:
        """Start a new deadline when the client's state changes; none while it has nothing to send."""
        phase = self.conn.their_state
        if phase is self._phase:
            return
        self._phase = phase
        if self._timer is not None:
            self._timer.cancel()
        seconds = {h11.IDLE: self.limits.head_seconds, h11.SEND_BODY: self.limits.body_seconds}.get(phase)
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._drop)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.limits.write_seconds, self._drop)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)


# --- logs -----------------------------------------------------------------------------------------


def calm_log() -> logging.Handler:
    """A handler for standard error that limits the length and the rate of messages."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Truncating("%(levelname)s %(name)s: %(message)s"))
    handler.addFilter(_RateLimit())
    return handler


class _Truncating(logging.Formatter):
    LONGEST = 4_000

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record)[: self.LONGEST]


class _RateLimit(logging.Filter):
    """Passes at most PER_MINUTE messages of one kind; the next one says how many were left out."""

    PER_MINUTE = 10
    _MOST_KINDS = 200

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        # Location in the code -> start of its current minute, and messages since.
        self._kinds: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind, now = (record.pathname, record.lineno), self._clock()
        started, count = self._kinds.get(kind, (now, 0))
        if now - started >= 60:
            if (left_out := count - self.PER_MINUTE) > 0:
                record.msg, record.args = f"{record.getMessage()} ({left_out:,} more like it before)", None
            started, count = now, 0
        if len(self._kinds) >= self._MOST_KINDS:
            self._kinds.clear()
        self._kinds[kind] = (started, count + 1)
        return count < self.PER_MINUTE
