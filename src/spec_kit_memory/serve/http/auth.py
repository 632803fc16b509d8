"""Who is let in over HTTP? Requests with the token, even from this machine, which may have other users.

A workspace's token is created at the first start and kept in the user's own state folder, readable by that user only;
never in the workspace, which is shared. A token that was given (a file, the environment) is used unchanged.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spec_kit_memory import settings
from spec_kit_memory.core.loopback import is_loopback
from spec_kit_memory.core.memory import Scope as MemoryScope
from spec_kit_memory.errors import AccessDenied, BadParameter, FileMissing, MissingParameter

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

VARIABLE = "SPEC_KIT_MEMORY_TOKEN"
# Shorter tokens could be guessed over a fast network.
TOKEN_LENGTH = 16
LARGEST_FILE = 4096
TOKEN_HINT = f"put a token into {VARIABLE} or a file named with --token-file, or use --no-token on loopback"


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and the file in which we keep it; None for a token that the user gave."""

    value: str
    kept_in: Path | None = None

    def __repr__(self) -> str:  # keeps the value out of logs
        return f"Token(kept_in={self.kept_in!r})"


def read_token(
    host: str,
    *,
    workspace: Path,
    scope: MemoryScope = MemoryScope(),  # noqa: B008 - a frozen value
    token_file: str | None = None,
    no_token: bool = False,
    otherwise_signed_in: bool = False,
    environ: Mapping[str, str],
) -> Token | None:
    """The token that requests must carry. None if the user wants none and the server is reachable only from this
    machine, or if callers sign in and no token was given."""
    if no_token:
        _refuse_no_token(host, token_file)
        return None
    if token_file:
        try:
            secret = Path(token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise FileMissing(
                f"The token file {token_file!r} cannot be read: {error}.", hint="Name a text file with one line."
            ) from error
    else:
        secret = environ.get(VARIABLE, "").strip()
    if not secret and not token_file and otherwise_signed_in:
        return None
    if not secret and not token_file and is_loopback(host):
        return kept_token(workspace, scope)
    if not secret:
        raise MissingParameter(
            f"Serving on {host!r}, which others can reach, needs a bearer token of your own.",
            hint=f"Put one into {VARIABLE} or a file named with --token-file.",
        )
    if not _is_strong(secret):
        raise BadParameter(
            f"The bearer token must have at least {TOKEN_LENGTH} ASCII characters and no space.",
            hint='Make one with `python -c "import secrets; print(secrets.token_urlsafe(32))"`.',
        )
    return Token(secret)


def _refuse_no_token(host: str, token_file: str | None) -> None:
    if token_file:
        raise BadParameter("--no-token and --token-file contradict each other.", hint="Leave one of them out.")
    if not is_loopback(host):
        raise BadParameter(
            f"--no-token is for loopback, and others can reach {host!r}.",
            hint=f"Put a token into {VARIABLE} or a file named with --token-file.",
        )


def _is_strong(token: str) -> bool:
    return len(token) >= TOKEN_LENGTH and token.isascii() and not any(sign.isspace() for sign in token)


# --- the token of a workspace -------------------------------------------------------------------


def kept_token(workspace: Path, scope: MemoryScope = MemoryScope()) -> Token:  # noqa: B008 - a frozen value
    """The workspace's token; a new one if it has none, or if other users could read it.

    A server that is restricted to one scope has its own token, so that Ada's does not give access to Ben's notes.
    """
    folder = settings.user_state_folder(otherwise=TOKEN_HINT) / "tokens"
    scope_key = b"" if scope == MemoryScope() else repr(scope).encode("utf-8", "backslashreplace")
    name = hashlib.sha256(os.fsencode(os.path.realpath(workspace)) + b"\0" + scope_key).hexdigest()[:24]
    path = folder / f"{name}.token"
    try:
        settings.make_private_folder(folder)
        for _ in range(3):  # another server may create or replace it at the same time
            token = _private_text(path)
            if token is not None and _is_strong(token):
                return Token(token, path)
            _put(path, secrets.token_urlsafe(32), replace=token is not None)
    except OSError as error:
        raise AccessDenied(
            f"The token cannot be kept in {path}: {error.strerror or error}.",
            hint=f"Give yourself access to that folder, or {TOKEN_HINT}.",
        ) from error
    raise AccessDenied(f"The token in {path} cannot be used.", hint=f"Remove the file, or {TOKEN_HINT}.")


def _private_text(path: Path) -> str | None:
    """The file's content: None if it does not exist, empty if it is not a regular file that only we can read."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        return None
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return ""
        if sys.platform != "win32" and (status.st_uid != os.geteuid() or status.st_mode & 0o077):
            return ""
        return file.read(LARGEST_FILE).decode("ascii", "replace").strip()


def _put(path: Path, token: str, *, replace: bool) -> None:
    """Write the file atomically, readable by this user only. If two processes create it at once, the first wins."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(token.encode("ascii") + b"\n")
            file.flush()
            os.fsync(descriptor)
        if replace or not hasattr(os, "link"):
            os.replace(temporary, path)
        else:
            os.link(temporary, path)
    except FileExistsError:
        return
    finally:
        temporary.unlink(missing_ok=True)


# --- the check ----------------------------------------------------------------------------------


class BearerToken:
    """Middleware that refuses requests without the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._digest = hashlib.sha256(token.encode()).digest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan" and not self._has_token(scope.get("headers", ())):
            if scope["type"] == "http":
                await self._refuse(scope, receive, send)
            return  # only HTTP is served
        await self._app(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.responses import JSONResponse

        body = {
            "error": {
                "code": "E011",
                "message": "A bearer token is needed.",
                "hint": "Send the header Authorization: Bearer TOKEN; the server names the token when it starts.",
            }
        }
        # Close the connection: nothing more is read from a client without the token.
        headers = {"WWW-Authenticate": "Bearer", "Connection": "close"}
        await JSONResponse(body, status_code=401, headers=headers)(scope, receive, send)

    def _has_token(self, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        values = [value for name, value in headers if name.lower() == b"authorization"]
        if len(values) != 1:
            return False
        scheme, _, token = values[0].partition(b" ")
        # Digests have equal lengths, so the time of the comparison reveals nothing about the token.
        is_equal = hmac.compare_digest(hashlib.sha256(token.strip()).digest(), self._digest)
        return scheme.lower() == b"bearer" and is_equal
