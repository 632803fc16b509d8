"""Who asks? What a server knows of a request's sender and no tool's parameter says."""

from __future__ import annotations

from contextvars import ContextVar

__all__ = ["CONNECTION"]

# The connection that a request came over. "" for the command line, for Python callers, and for clients that a server
# cannot tell apart.
CONNECTION: ContextVar[str] = ContextVar("connection", default="")
