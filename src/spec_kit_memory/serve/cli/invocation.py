"""What do the common options of a command line say, and how is its answer printed?

Standard output contains only the answer; with `--json` it is the tool's own envelope.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spec_kit_memory.errors import FileMissing, SpecKitMemoryError
from spec_kit_memory.parameters import Edge, Request, read

if TYPE_CHECKING:
    from spec_kit_memory.answers import Answer
    from spec_kit_memory.serve.cli.answer_view import Block
    from spec_kit_memory.settings import Settings
    from spec_kit_memory.workspace import Workspace

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


class CommandFailed(Exception):  # noqa: N818 - named after what happened
    """Ends the command and shows this error; `code` is the exit code."""

    def __init__(self, error: BaseException, *, code: int = FAILED) -> None:
        super().__init__(str(error))
        self.error = error
        self.code = code


@dataclass
class Invocation:
    """The values of the options that every command takes, and the output of the command."""

    workspace: str | None = None
    json: bool = False
    flags: dict[str, object] = field(default_factory=dict)
    exit_code: int = OK

    def settings(self) -> Settings:
        from spec_kit_memory import settings

        if self.personal and not Path(self.workspace or "").is_dir():
            raise FileMissing("You have no personal memory yet.", hint="`skm init --personal` makes it.")
        return settings.load(settings.find_root(workspace=self.workspace), overrides=self.flags)

    def open(self) -> Workspace:
        from spec_kit_memory.workspace import Workspace

        return Workspace(self.settings(), personal=True)

    @property
    def personal(self) -> bool:
        """Is the workspace the user's personal vault?"""
        from spec_kit_memory.settings.own_folders import personal_vault

        return bool(self.workspace) and self.workspace == str(personal_vault())

    @property
    def interactive(self) -> bool:
        return not self.json and sys.stdin.isatty() and sys.stdout.isatty()

    def show(self, answer: Answer, *, verb: str = "", blocks: Iterable[Block] | None = None, **how: Any) -> None:
        if self.json:
            from spec_kit_memory.serve import messages, render, tools

            tool = next((tool.name for tool in tools.TOOLS if tool.verb == verb), "")
            self.write(render.compact(render.envelope(answer, tool=tool, say=messages.for_person)))
        else:
            from spec_kit_memory.serve.cli import answer_view, terminal

            with _readers_may_leave():
                terminal.show(answer_view.blocks(answer, **how) if blocks is None else blocks)

    def flush(self) -> None:
        """Flush standard output, so that a pipe's reader gets everything so far."""
        with _readers_may_leave():
            sys.stdout.flush()

    def write(self, text: str) -> None:
        with _readers_may_leave():
            sys.stdout.write(text if text.endswith("\n") else text + "\n")

    def say(self, text: str) -> None:
        """Write a message for a person to standard error; nothing with --json."""
        from spec_kit_memory.serve.cli.terminal import harmless

        if not self.json:
            sys.stderr.write(harmless(text) + "\n")


@contextmanager
def _readers_may_leave() -> Iterator[None]:
    """A reader that stops early (`| head`) is not an error, but click would make it one."""
    try:
        yield
    except BrokenPipeError:
        raise OutputClosed from None


class OutputClosed(Exception):  # noqa: N818 - no error
    pass


def call(session: Invocation, kind: type[Request], values: Mapping[str, Any], **more: Any) -> Any:
    """Validate the values, open the workspace and call the verb. `more` are fields that have no option."""
    request = checked(kind, values)
    with session.open() as workspace:
        return getattr(workspace, kind.verb)(request.replace(**more) if more else request)


def checked(kind: type[Request], values: Mapping[str, Any]) -> Request:
    parameters = kind.declared.items()
    defaults = {name: item.command_default for name, item in parameters if item.command_default is not None}
    try:
        return read(kind, {**defaults, **values}, command_edge(kind))
    except SpecKitMemoryError as error:
        raise CommandFailed(error, code=USAGE) from error


def command_edge(kind: type[Request]) -> Edge:
    """How errors name a command's parameters: as options, with a hint to --help."""
    return Edge(
        f"skm {kind.command}",
        lambda parameter: parameter.flag,
        lambda visible: f"`skm {kind.command} --help` shows every option.",
        ("everywhere", "command"),
        lists=False,
        lookups=("`skm search {}`", "`skm get {}`"),
    )
