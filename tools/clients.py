"""Do the client libraries that people build agents with work with our server, over both transports?

    python -m tools.clients [LIBRARY ...] [--needed]

Each library is installed, pinned, into an environment of its own below build/clients, and runs the steps of
`client_story`. No model is needed. An unreachable PyPI is reported, and fails the run only with `--needed`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.packages import BUILD, Absent, install_from_pypi

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "harbour-bikes"
STORY = Path(__file__).with_name("client_story.py")
LIBRARIES = {
    "fastmcp": "fastmcp==4.1.2",
    "pydantic-ai": "pydantic-ai-slim[mcp]==2.66.0",
    "openai-agents": "openai-agents==0.24.0",
    "langchain-mcp-adapters": "langchain-mcp-adapters==0.3.2",
    "mcp-use": "mcp-use==1.7.1",
}
STORY_SECONDS = 180
TOOLS = 21


@contextmanager
def workspace() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        root = Path(folder) / "project"
        shutil.copytree(EXAMPLE, root, ignore=shutil.ignore_patterns("index.sqlite*"))
        subprocess.run([*skm(root), "index"], check=True, capture_output=True)
        yield root


def skm(root: Path) -> list[str]:
    return [sys.executable, "-m", "spec_kit_memory", "--workspace", str(root)]


@contextmanager
def target(kind: str, root: Path) -> Iterator[list[str]]:
    """The library's target: a command line, or the address of a server that runs in the meantime."""
    if kind == "stdio":
        yield [*skm(root), "serve"]
        return
    command = [*skm(root), "serve", "--http", "--port", "0", "--no-token"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr
        address = next((word for line in server.stderr for word in line.split() if word.startswith("http://")), "")
        yield [address.rstrip(".,")]
    finally:
        server.terminate()
        server.communicate()


def faults(results: dict[str, Any]) -> Iterator[str]:
    if len(results["tools"]) != TOOLS:
        yield f"{len(results['tools'])} tools, not {TOOLS}"
    if "polling" not in results["context"]:
        yield "context says nothing of what was asked"
    if "Harbour gate" not in results["save"] and "harbour-gate" not in results["save"]:
        yield f"save answered {results['save'][:200]}"
    if "ferry" not in results["search"]:
        yield "search does not find what was saved"
    if "E080" not in results["error"]:
        yield f"a memory that is not there answered {results['error'][:200]}"


def run(library: str, kind: str) -> list[str]:
    python = install_from_pypi(BUILD / "clients" / library, LIBRARIES[library])
    with workspace() as root, target(kind, root) as words:
        try:
            process = subprocess.run(
                [str(python), str(STORY), library, kind, *words],
                capture_output=True,
                text=True,
                timeout=STORY_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return [f"no end within {STORY_SECONDS} s"]
    if process.returncode:
        return [(process.stderr.strip().splitlines() or ["no reason given"])[-1][:400]]
    return list(faults(json.loads(process.stdout.splitlines()[-1])))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*LIBRARIES, []], metavar="LIBRARY")
    parser.add_argument("--needed", action="store_true", help="fail where a library cannot be had")
    arguments = parser.parse_args()
    passed = failed = skipped = 0
    for library in arguments.names or LIBRARIES:
        for kind in ("stdio", "http"):
            started = time.monotonic()
            try:
                wrong = run(library, kind)
            except Absent as error:
                print(f"{library:24} not run: {error}", flush=True)
                skipped, failed = skipped + 1, failed + bool(arguments.needed)
                break
            verdict = "ok" if not wrong else "FAULT"
            print(f"{library:24} {kind:6} {time.monotonic() - started:5.1f} s  {verdict}", flush=True)
            for fault in wrong:
                print(f"    {fault}", flush=True)
            passed, failed = passed + (not wrong), failed + bool(wrong)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
