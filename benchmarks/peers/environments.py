"""Where does a system run? In a virtual environment of its own, made on demand and kept for the same pins."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.peers.systems import System

# How often a long installation says that it goes on.
_SIGN_SECONDS = 30.0
# Written last, so that an environment without it was left half made.
_READY = "installed.txt"

Say = Callable[[str], None]


class InstallError(Exception):
    """A system could not be installed; the message says why, in one line."""


def python_of(system: System, folder: Path, *, minutes: float, say: Say) -> Path:
    """The interpreter of the system's environment, which is made first where it is not there."""
    home = folder / system.environment
    python = home / "bin" / "python"
    if python.exists() and (home / _READY).exists():
        say(f"{system.package}: environment {home.name} is there")
        return python
    started = time.monotonic()
    say(f"{system.package}: installing {' '.join(system.pins)}")
    folder.mkdir(parents=True, exist_ok=True)
    making = _Making(system.package, folder / f"{home.name}.log", until=started + minutes * 60, say=say)
    making.run([sys.executable, "-m", "venv", "--clear", str(home)])
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    for arguments, pins in (((), system.requirements), (("--no-deps",), system.alone)):
        if pins:
            making.run([*pip, "install", *arguments, *pins])
    (home / _READY).write_text(_output([*pip, "freeze"]), encoding="utf-8")
    say(f"{system.package}: installed in {time.monotonic() - started:.0f} s, {_megabytes(home)} MB")
    return python


def version_of(system: System, python: Path) -> str:
    return _output([str(python), "-c", f"import importlib.metadata as m; print(m.version({system.package!r}))"]).strip()


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InstallError(_reason(done.stderr) or f"{Path(command[0]).name} ended with {done.returncode}")
    return done.stdout


class _Making:
    """The commands that make one environment: one log, one deadline for all."""

    def __init__(self, package: str, log: Path, *, until: float, say: Say) -> None:
        self._package = package
        self._log = log
        self._until = until
        self._say = say
        log.write_bytes(b"")

    def run(self, command: Sequence[str]) -> None:
        begin = self._log.stat().st_size
        with self._log.open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                returned = self._wait(process)
            finally:
                _end(process)
        if returned:
            text = self._log.read_bytes()[begin:].decode("utf-8", "replace")
            raise InstallError(_reason(text) or f"{' '.join(command[1:4])} ended with {returned}")

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        started = time.monotonic()
        while (left := self._until - time.monotonic()) > 0:
            try:
                return process.wait(timeout=min(left, _SIGN_SECONDS))
            except subprocess.TimeoutExpired:
                self._say(f"{self._package}: still at it after {time.monotonic() - started:.0f} s ({self._log})")
        raise InstallError(f"took too long, stopped (see {self._log.name})")


def _end(process: subprocess.Popen[bytes]) -> None:
    """pip starts processes of its own, which must not outlive it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _reason(told: str) -> str:
    """The first thing that pip calls an error, which says more than the last; else the last line."""
    lines = [line.strip() for line in told.splitlines() if line.strip() and not line.startswith("WARNING")]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines[-1:] or [""])[0]


def _megabytes(folder: Path) -> int:
    return round(sum(path.lstat().st_size for path in folder.rglob("*")) / 1e6)
