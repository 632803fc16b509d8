"""Where does a system run? In a virtual environment of its own, made on demand and kept."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

from benchmarks.peers.systems import System

_LONGEST_SECONDS = 1800


class InstallError(Exception):
    """pip could not install a system; the last line says why."""


def python_of(system: System, folder: Path) -> Path:
    """The interpreter of the system's environment; what was installed for other requirements is made anew."""
    home = folder / system.package
    python = home / "bin" / "python"
    ready = home / "requirements.txt"
    wanted = "".join(f"{each}\n" for each in (*system.requirements, *system.alone))
    if python.exists() and ready.exists() and ready.read_text(encoding="utf-8") == wanted:
        return python
    venv.create(home, with_pip=True, clear=True)
    _pip(python, list(system.requirements))
    if system.alone:
        _pip(python, ["--no-deps", *system.alone])
    ready.write_text(wanted, encoding="utf-8")
    return python


def version_of(system: System, python: Path) -> str:
    asked = f"import importlib.metadata as m; print(m.version({system.package!r}))"
    return subprocess.run([str(python), "-c", asked], capture_output=True, text=True, check=True).stdout.strip()


def _pip(python: Path, arguments: list[str]) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise InstallError(f"pip took more than {_LONGEST_SECONDS} s") from None
    if done.returncode:
        told = [line for line in done.stderr.splitlines() if not line.startswith("WARNING")]
        lines = [line for line in told if line.startswith("ERROR")] or told
        raise InstallError(lines[-1] if lines else f"pip ended with {done.returncode}")
