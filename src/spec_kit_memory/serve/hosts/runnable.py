"""May a program that a host's configuration names be run, to test whether it works?

The user's own configuration may name any program. A project's may have come with a clone, and could name any program,
or ours with any command and variables. So that one is run only if the entry sets no variables, and either its words are
those that install writes or the file is as our install left it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spec_kit_memory import programs
from spec_kit_memory.serve.hosts import install_record
from spec_kit_memory.serve.hosts.formats import File, Host, HostPlace, content_of

# For an interpreter that is started in the project, so that it imports no module of the project instead of ours.
SAFE_PATH = {"PYTHONSAFEPATH": "1"}


def may_start_server(
    command: Sequence[str], variables: Mapping[str, str], file: File | None, host: Host, place: HostPlace
) -> bool:
    rest = _after_our_program(command, place)
    is_plain = rest[:1] == ["serve"] and (len(rest) == 1 or (len(rest) == 3 and rest[1] == "--workspace"))
    if file is None or not place.may_have_come_with_project(file.path):
        return True
    return not variables and (is_plain or _is_as_installed(file, host, place))


def may_run_hook(words: Sequence[str], file: File, host: Host, place: HostPlace) -> bool:
    rest = _after_our_program(words, place)
    is_plain = len(rest) == 4 and rest[0] == "hook" and rest[2] == "--host"
    is_plain = is_plain and not any(rest[at].startswith("-") for at in (1, 3))
    return is_plain or not place.may_have_come_with_project(file.path) or _is_as_installed(file, host, place)


def _after_our_program(words: Sequence[str], place: HostPlace) -> list[str]:
    """The arguments after our program; empty if another program is named."""
    program = place.command
    program_path = programs.find(words[0], place.environ) if words else None
    is_ours = program_path is not None and (program_path, *words[1 : len(program)]) == program
    return list(words[len(program) :]) if is_ours else []


def _is_as_installed(file: File, host: Host, place: HostPlace) -> bool:
    written = install_record.read(host.name, place).files.get(file.path)
    try:
        return written is not None and written.after == install_record.digest(content_of(file.path))
    except OSError:
        return False
