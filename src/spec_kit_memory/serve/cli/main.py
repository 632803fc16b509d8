"""How does `skm` start? With as few imports as possible: a hook runs it on every prompt.

Only modules that the command needs are imported, and none for `--version`.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress


def main(arguments: Sequence[str] | None = None) -> None:
    """The commands `skm` and `spec-kit-memory`. Exits with 0, 1 (error) or 2 (usage)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words in (["--version"], ["-V"]):
        from spec_kit_memory import __version__

        sys.stdout.write(f"spec-kit-memory {__version__}\n")
        return
    if words[:1] == ["hook"] and not {"-h", "--help"} & set(words):
        from spec_kit_memory.serve import hooks

        hooks.main(words[1:])
        return
    if "serve" in words:
        from spec_kit_memory.serve.mcp import handshake

        if handshake.wants_stdio(words):
            handshake.start(words)  # answers the host while the modules below are imported
    exit_codes: list[int] = []
    atexit.register(_exit_despite_threads, exit_codes)  # registered first, it runs last
    # Creating hundreds of classes triggers garbage collection again and again, and none of them is garbage.
    gc.disable()
    from spec_kit_memory.serve.cli.invocation import INTERRUPTED
    from spec_kit_memory.serve.cli.program import run

    gc.enable()
    gc.freeze()
    code = run(words)
    if arguments is None:
        if code == INTERRUPTED:
            _exit_now(code)
        exit_codes.append(code)
    sys.exit(code)


def _exit_now(code: int) -> None:
    """Exit without finalising Python, which would abort if an abandoned thread is still running a model."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _exit_despite_threads(exit_codes: Sequence[int]) -> None:
    if exit_codes and threading.active_count() > 1:
        _exit_now(exit_codes[0])


def generate_context() -> None:
    """The command `generate-context data.json [spec-folder]`: another name for `skm save`."""
    main(["save", *sys.argv[1:]])
