"""How are the resources of a program limited? Its time, output, memory and the files that it writes.

Its child processes end with it: it leads its own process group, which is killed as a whole.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_CHUNK = 1 << 16
_LAST_WORDS = 1 << 16  # bytes of standard error to keep
# The shell sets the limits and becomes the program: nothing runs between fork and exec of a process with threads.
_LIMITED = 'ulimit -f "$1" && ulimit -d "$2" && shift 2 && exec "$@"'
_FILE_BLOCK, _MEMORY_BLOCK = 512, 1024  # what `ulimit` counts in


class TooMuchOutputError(Exception):
    """The program exceeded its output limit and was killed."""


@dataclass(frozen=True, slots=True)
class Bounds:
    seconds: float
    file_bytes: int  # of each file that it writes
    memory_bytes: int = 2 << 30
    output_bytes: int = 256 << 20
    records: int | None = None  # the limit for output of NUL-terminated records


@dataclass(frozen=True, slots=True)
class Completed:
    code: int
    output: bytes
    errors: bytes  # the end of standard error


def run_bounded(
    command: Sequence[str], *, data: bytes, environment: Mapping[str, str], folder: Path, bounds: Bounds
) -> Completed:
    """Run a program to its end. Raises `TimeoutExpired`, `TooMuchOutputError`, or `OSError` if it cannot start."""
    process = subprocess.Popen(
        _limited(command, bounds),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment),
        cwd=folder,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    output = _Output(process, process.stdout, bounds)
    errors = _StderrTail(process.stderr)
    feeder = threading.Thread(target=_feed, args=(process.stdin, data), daemon=True)
    threads = [output, errors, feeder]
    try:
        for thread in threads:
            thread.start()
        code = process.wait(bounds.seconds)
    except subprocess.TimeoutExpired:
        raise
    finally:
        _end(process)
        for thread in threads:
            thread.join()
        process.stdout.close()
        process.stderr.close()
    if output.is_too_much:
        raise TooMuchOutputError
    return Completed(code, bytes(output.taken), bytes(errors.taken))


def _limited(command: Sequence[str], bounds: Bounds) -> list[str]:
    if os.name == "nt":
        return list(command)
    limits = (max(1, bounds.file_bytes // _FILE_BLOCK), bounds.memory_bytes // _MEMORY_BLOCK)
    return ["/bin/sh", "-c", _LIMITED, "sh", *map(str, limits), *command]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the program and its children, including those that outlived it."""
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "nt":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _feed(pipe: IO[bytes], data: bytes) -> None:
    with suppress(BrokenPipeError), pipe:
        pipe.write(data)


class _Output(threading.Thread):
    """Reads the program's output up to its limit."""

    def __init__(self, process: subprocess.Popen[bytes], pipe: IO[bytes], bounds: Bounds) -> None:
        super().__init__(daemon=True)
        self.taken = bytearray()
        self.is_too_much = False
        self._process, self._pipe, self._bounds = process, pipe, bounds

    def run(self) -> None:
        records = 0
        while chunk := os.read(self._pipe.fileno(), _CHUNK):
            self.taken += chunk
            records += chunk.count(b"\0")
            most = self._bounds.records
            if len(self.taken) > self._bounds.output_bytes or (most is not None and records > most):
                self.is_too_much = True
                _end(self._process)
                return


class _StderrTail(threading.Thread):
    """Reads standard error and keeps its end."""

    def __init__(self, pipe: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self.taken = bytearray()
        self._pipe = pipe

    def run(self) -> None:
        while chunk := os.read(self._pipe.fileno(), _CHUNK):
            self.taken += chunk
            del self.taken[:-_LAST_WORDS]
