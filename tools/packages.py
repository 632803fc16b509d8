"""How do the tools install third-party programs? From npm and PyPI, pinned, into a folder below build/.

A program that cannot be installed raises `Absent`: the tool reports it and continues, because a build without a network
is not a failed one.
"""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["BUILD", "Absent", "install_from_npm", "install_from_pypi", "node"]

BUILD = Path(__file__).resolve().parents[1] / "build"
INSTALL_SECONDS = 400
NODE_PACKAGE = "node@22"
# Detect an unreachable registry within seconds; npm's defaults take minutes for each package.
PATIENCE = ("--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000")
NPM_OPTIONS = ("--no-audit", "--no-fund", "--loglevel=error", *PATIENCE)
PIP_OPTIONS = ("--quiet", "--no-compile", "--disable-pip-version-check", "--retries=1", "--timeout=20")


class Absent(Exception):  # noqa: N818 - named after what happened
    """A program that a tool needs cannot be installed; the message is the reason."""


def install_from_npm(folder: Path, packages: Sequence[str]) -> Path:
    """Install exactly these packages, unless they are installed already; returns the folder's `node_modules`."""
    npm = shutil.which("npm")
    if npm is None:
        raise Absent("npm is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    requested = list(packages)
    stamp = folder / "installed.json"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests in several processes may install the same packages
        if not stamp.exists() or json.loads(stamp.read_text(encoding="utf-8")) != requested:
            (folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")
            _run([npm, "install", *NPM_OPTIONS, *requested], folder)
            stamp.write_text(json.dumps(requested), encoding="utf-8")
    return folder / "node_modules"


def install_from_pypi(folder: Path, requirement: str) -> Path:
    """Install the requirement into a virtual environment, unless it is installed; returns its interpreter."""
    python = folder / "bin" / "python"
    stamp = folder / "installed.txt"
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != requirement:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        _run([str(python), "-m", "pip", "install", *PIP_OPTIONS, requirement], folder)
        stamp.write_text(requirement, encoding="utf-8")
    return python


def node(minimum: tuple[int, int]) -> Path:
    """A Node of at least this version: the machine's own, else the one from npm."""
    installed = shutil.which("node")
    if installed is not None and _version(installed) >= minimum:
        return Path(installed)
    return install_from_npm(BUILD / "node", [NODE_PACKAGE]) / ".bin" / "node"


def _version(program: str) -> tuple[int, ...]:
    printed = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    return tuple(map(int, re.findall(r"\d+", printed)[:2]))


def _run(words: Sequence[str], folder: Path) -> None:
    name = "npm" if "npm" in Path(words[0]).name else "pip"
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise Absent(f"{name} did not install within {INSTALL_SECONDS} s") from error
    if done.returncode:
        raise Absent(f"{name} cannot install: {_reason(done.stderr)}")


def _reason(output: str) -> str:
    """The line of npm's or pip's output that gives the reason of the failure."""
    lines = [line.removeprefix("npm error").strip() for line in output.splitlines()]
    lines = [line for line in lines if line and "complete log of this run" not in line]
    return next((line for line in lines if "reason:" in line or "failed" in line), [*lines, "no reason given"][0])
