"""What does a markdown file contain? Its metadata, anchors and headings, with exact line numbers.

The input is already decoded, without a byte order mark, and redacted. Only front matter and the YAML
block under the anchor `metadata` set metadata; nothing else in the text does.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace

from spec_kit_memory.advice import finding
from spec_kit_memory.core import front_matter
from spec_kit_memory.core.front_edit import edit_front_matter
from spec_kit_memory.core.memory import Anchor, Document, DocumentWarning, FrontMatter
from spec_kit_memory.core.structure import metadata_fence, scanned, slug

__all__ = [
    "edit_front_matter",
    "find_section",
    "fingerprint",
    "lines",
    "normalise",
    "outline",
    "parse",
    "section_names",
]

LONG_CHARACTERS = 100_000
MOST_WARNINGS = 20
LONG_TITLE = 500  # also the limit for titles given to tools; a longer one would crowd out the text itself in answers

# As \b\d{4}-\d{2}-\d{2}\b, but starting with the digit, so that the scan stops at digits only.
_DATE = re.compile(r"\d(?<!\w\d)\d{3}-\d{2}-\d{2}\b")


def normalise(text: str) -> str:
    """The same lines, all ending in "\\n"."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def parse(text: str) -> Document:
    """Parse a file's text. Any text is a valid document; irregularities become warnings."""
    text = normalise(text)
    all_lines = text.split("\n")
    front, body_first_line, warnings = _read_front(all_lines)
    _, structure = scanned(text, body_first_line)
    block = metadata_fence(all_lines, structure)
    if block is not None:
        second, more = _read_yaml(all_lines, block[0] + 1, block[1] - 1)
        front = front_matter.combine(front, second)
        warnings += more
    warnings.extend(structure.warnings)
    title = front.title or next((heading.text for heading in structure.headings if heading.level == 1), "")
    if len(title) > LONG_TITLE:
        warnings.append(DocumentWarning(finding("title-cut", characters=len(title), kept=LONG_TITLE), code="title"))
        title = title[:LONG_TITLE].rstrip()
    if len(text) > LONG_CHARACTERS:
        warnings.append(DocumentWarning(finding("text-long", characters=len(text)), code="long"))
    return Document(
        text=text,
        title=title,
        front=replace(front, title=title) if front.title else front,
        body_first_line=body_first_line,
        anchors=tuple(structure.anchors),
        headings=tuple(structure.headings),
        warnings=_few(sorted(warnings, key=lambda warning: warning.line or 0)),
    )


def _few(warnings: list[DocumentWarning]) -> tuple[DocumentWarning, ...]:
    """The first warnings: a text full of mistakes could otherwise have more warnings than text."""
    first_ones, more = tuple(warnings[:MOST_WARNINGS]), len(warnings) - MOST_WARNINGS
    if more <= 0:
        return first_ones
    return (*first_ones, DocumentWarning(finding("more-warnings", count=more), warnings[-1].line, "more"))


def outline(text: str) -> Document:
    """Only the anchors and headings of an indexed text, whose metadata is known; line ends are not normalised."""
    block = front_matter.locate(text.split("\n"))
    body_first_line = block.body_first_line if block else 1
    _, structure = scanned(text, body_first_line)
    return Document(
        text=text,
        title="",
        front=FrontMatter(),
        body_first_line=body_first_line,
        anchors=tuple(structure.anchors),
        headings=tuple(structure.headings),
    )


def _read_front(all_lines: list[str]) -> tuple[FrontMatter, int, list[DocumentWarning]]:
    block = front_matter.locate(all_lines)
    if block is None:
        return FrontMatter(), 1, []
    front, warnings = _read_yaml(all_lines, block.first_line, block.last_line)
    return front, block.body_first_line, warnings


def _read_yaml(all_lines: list[str], first: int, last: int) -> tuple[FrontMatter, list[DocumentWarning]]:
    text = "\n".join(all_lines[first - 1 : last])
    data, warnings = front_matter.load(text, first_line=first)
    front, more = front_matter.interpret(data, text=text, first_line=first)
    return front, warnings + more


def find_section(document: Document, section_name: str) -> Anchor | None:
    """The anchor with that id, else the shortest that begins with it and a hyphen, else a heading of that name."""
    name = section_name.strip().removeprefix("#").casefold()  # links have a "#"
    if not name:
        return None
    for anchor in document.anchors:
        if anchor.id.casefold() == name:
            return anchor
    longer = [anchor for anchor in document.anchors if anchor.id.casefold().startswith(name + "-")]
    if longer:
        return min(longer, key=lambda anchor: len(anchor.id))
    for heading in document.headings:
        if name in (heading.slug.casefold(), slug(heading.text)):
            return Anchor(heading.slug, heading.first_line, heading.last_line)
    return None


def section_names(document: Document) -> list[str]:
    """The names by which `find_section` finds the sections of a document."""
    return sorted({anchor.id for anchor in document.anchors} | {heading.slug for heading in document.headings})


def lines(document: Document, first: int, last: int) -> str:
    """The text of lines `first` to `last`, both included, without the last line's end."""
    return "\n".join(document.text.split("\n")[max(first, 1) - 1 : max(last, 0)])


def fingerprint(document: Document) -> str:
    """A hash of the body that ignores case, white space and dates; "" for an empty body."""
    front_lines = document.body_first_line - 1
    cut = document.text.split("\n", front_lines)
    body = cut[front_lines] if front_lines < len(cut) else ""
    folded = " ".join(_DATE.sub("DATE", body.lower()).split())
    return hashlib.sha256(folded.encode("utf-8", "surrogatepass")).hexdigest()[:16] if folded else ""
