"""How is a system asked that runs in another process, and may fail, hang or talk nonsense?"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

# What a process gets to end by itself after its input was closed.
_GRACE_SECONDS = 20.0
# No proxy may stand between a system and the loopback endpoint, and nothing is fetched while it is measured.
_SURROUNDINGS = {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost", "HF_HUB_OFFLINE": "1"}


class AnswerError(Exception):
    """The system said that it failed at what was asked; it can be asked again."""


class EndedError(Exception):
    """The system ended, was stopped, or does not keep to the protocol: nothing more can be asked."""


class Process:
    """One line of JSON in, one line out, and an end after so many minutes whatever it does."""

    def __init__(self, command: Sequence[str], log: Path, *, minutes: float) -> None:
        self._stopped = ""
        self._log = log.open("wb")
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env={**os.environ, **_SURROUNDINGS},
                start_new_session=True,
            )
        except OSError as error:
            self._log.close()
            raise EndedError(f"could not be started: {error}") from None
        # A timer and not a time-out on reading, because writing may hang as well.
        self._limit = threading.Timer(minutes * 60, self._stop, (f"stopped after {minutes:g} minutes",))
        self._limit.daemon = True
        self._limit.start()

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ask(self, **asked: Any) -> dict[str, Any]:
        line = self._exchange(json.dumps(asked).encode() + b"\n")
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise EndedError(f"answered {asked['do']!r} with {line[:60].decode('utf-8', 'replace').strip()!r}")
        if "error" in answer:
            raise AnswerError(str(answer["error"]))
        return answer

    def _exchange(self, line: bytes) -> bytes:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        answer = b""
        # A process that is gone reads nothing; why it is gone is said below.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line)
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        if not answer.endswith(b"\n"):
            raise EndedError(self._why())
        return answer

    def _why(self) -> str:
        try:
            code = self._process.wait(timeout=_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            return self._stopped or "closed its output"
        if self._stopped:
            return self._stopped
        return f"its process ended with {signal.Signals(-code).name if code < 0 else code}"

    def _stop(self, why: str) -> None:
        self._stopped = why
        self._kill()

    def _kill(self) -> None:
        """With all that it started: a server left behind would disturb whoever is measured next."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._limit.cancel()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_GRACE_SECONDS)
        self._kill()
        self._process.wait()
        self._process.stdout.close()
        self._log.close()
