"""May a program that a host's configuration names be run, to see whether it works?

The user's own configuration may name what it likes. A project's own may have come with a clone, and then name any
program, or ours with any command and any variables. So it is run only if the words are those that install writes, or
if the file is as our install left it.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from spec_kit_memory.serve.hosts import install_record
from spec_kit_memory.serve.hosts.formats import File, Host, HostPlace, content_of

__all__ = ["SAFE_PATH", "may_run_hook", "may_start_server"]

# For an interpreter that is started in the project: no module of the project is taken for one of ours.
SAFE_PATH = {"PYTHONSAFEPATH": "1"}


def may_start_server(
    command: Sequence[str], variables: Mapping[str, str], file: File | None, host: Host, place: HostPlace
) -> bool:
    rest = _after_our_program(command, place)
    is_plain = rest[:1] == ["serve"] and (len(rest) == 1 or (len(rest) == 3 and rest[1] == "--workspace"))
    return (is_plain and not variables) or _is_the_users(file, host, place)


def may_run_hook(words: Sequence[str], file: File, host: Host, place: HostPlace) -> bool:
    rest = _after_our_program(words, place)
    is_plain = len(rest) == 4 and rest[0] == "hook" and rest[2] == "--host"
    return (is_plain and not any(rest[at].startswith("-") for at in (1, 3))) or _is_the_users(file, host, place)


def _after_our_program(words: Sequence[str], place: HostPlace) -> list[str]:
    """What follows our program; nothing if another one is named."""
    program = place.command
    found = shutil.which(words[0], path=place.environ.get("PATH")) if words else None
    is_ours = found is not None and (str(Path(found).absolute()), *words[1 : len(program)]) == program
    return list(words[len(program) :]) if is_ours else []


def _is_the_users(file: File | None, host: Host, place: HostPlace) -> bool:
    if place.scope == "user" or file is None:
        return True
    written = install_record.read(host.name, place).files.get(file.path)
    try:
        return written is not None and written.after == install_record.digest(content_of(file.path))
    except OSError:
        return False
