"""How are blocks drawn? With rich on a terminal; as plain text in a pipe, where rich is never imported.

Text of memories is untrusted: control characters, which could move the cursor, retitle the
window or turn the direction of a line, are printed as escapes.
"""

from __future__ import annotations

import re
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from spec_kit_memory.core.pace import Pace
from spec_kit_memory.serve.cli.answer_view import Block, Line, Quote, Table
from spec_kit_memory.serve.messages import for_person

if TYPE_CHECKING:
    from rich.console import Console

# Control characters, and those that turn the direction of what stands next to them.
_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
LINE_SECONDS = 20.0  # in a pipe, a line of progress is written that often
VECTORS = "vectors"  # the stage in which vectors are made
STYLES = {"title": "bold cyan", "dim": "dim", "good": "green", "bad": "red", "hint": "yellow", "": ""}


def show(blocks: Iterable[Block], *, out: TextIO | None = None) -> None:
    out = out or sys.stdout
    if not out.isatty():
        for block in blocks:
            for line in _plain(block):
                out.write(line.rstrip() + "\n")
        return
    console = _console(out)
    for block in blocks:
        _draw(console, block)


def show_error(error: Mapping[str, Any]) -> None:
    """Print code, message and hint to standard error."""
    show([Line(f"{error['code']}: {error['message']}", "bad")], out=sys.stderr)
    if error.get("hint"):
        show([Line(str(error["hint"]), "hint")], out=sys.stderr)
    alternatives = error.get("alternatives")
    if isinstance(alternatives, list):
        show((Line(f"  {_alternative(alternative)}") for alternative in alternatives), out=sys.stderr)


def _alternative(alternative: object) -> str:
    if isinstance(alternative, Mapping):
        return "  ".join(str(value) for value in alternative.values() if not isinstance(value, Mapping | list))
    return str(alternative)


def harmless(text: str) -> str:
    return _STEERING.sub(lambda match: ascii(match.group())[1:-1], text)


# --- plain -----------------------------------------------------------------------------------


def _plain(block: Block) -> Iterator[str]:
    if isinstance(block, Line):
        yield harmless(block.text)
    elif isinstance(block, Quote):
        for line in block.text.split("\n"):
            yield " " * block.indent + harmless(line)
    elif block.rows:
        yield from _columns(block)


def _columns(table: Table) -> Iterator[str]:
    rows = [table.columns, *table.rows]
    rows = [tuple(harmless(cell).replace("\n", " ") for cell in row) for row in rows]
    widths = [max(_width(row[n]) for row in rows) for n in range(len(table.columns))]
    for row in rows:
        cells = []
        for n, cell in enumerate(row):
            gap = " " * (widths[n] - _width(cell))
            cells.append(gap + cell if n in table.right else cell + gap)
        yield "  ".join(cells)


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text
    )


# --- on a terminal -------------------------------------------------------------------------------


def _console(out: TextIO) -> Console:
    from rich.console import Console

    return Console(file=out, highlight=False, soft_wrap=False)


def _draw(console: Console, block: Block) -> None:
    from rich.text import Text

    if isinstance(block, Line):
        console.print(Text(harmless(block.text), style=STYLES[block.style]))
    elif isinstance(block, Quote):
        from rich.padding import Padding

        text = Text(harmless(block.text))
        for term in block.terms:
            if len(term) > 1:
                text.highlight_regex(rf"(?i)(?<!\w){re.escape(term)}\w*", "bold yellow")
        console.print(Padding(text, (0, 0, 0, block.indent)))
    elif block.rows:
        console.print(_rich_table(block))


def _rich_table(block: Table) -> Any:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    table = RichTable(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for n, column in enumerate(block.columns):
        table.add_column(column, justify="right" if n in block.right else "left", overflow="fold")
    for row in block.rows:
        table.add_row(*(Text(harmless(cell)) for cell in row))
    return table


@contextmanager
def progress(
    title: str, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar on standard error for a long operation; in a pipe, a line now and then while vectors are made."""
    if quiet:
        yield lambda stage, done, total: None
        return
    if not sys.stderr.isatty():
        yield _lines_of_progress(clock)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    # Stages are names of files, which may be hostile: "[/x]" is markup to rich.
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=_console(sys.stderr), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def step(stage: str, done: int, total: int) -> None:
            bar.update(
                task, description=harmless(stage or title).replace("\n", " "), completed=done, total=total or None
            )

        yield step


def _lines_of_progress(clock: Callable[[], float]) -> Callable[[str, int, int], None]:
    """Text is indexed in seconds, but vectors may take minutes, and an agent or a log waits for a sign of life."""
    pace, told_at = Pace(), clock()

    def step(stage: str, done: int, total: int) -> None:
        nonlocal told_at
        if stage != VECTORS:
            return
        now = clock()
        pace.step(done, total, at=now)
        if now - told_at >= LINE_SECONDS and (left := pace.to_go(at=now)):
            told_at = now
            sys.stderr.write(f"{for_person(left)}\n")
            sys.stderr.flush()

    return step
