"""Where are a markdown body's fences, comments, headings and anchors?

One pass over the lines. Markdown inside a code fence, a comment or inline code does not
count as structure and is ignored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from spec_kit_memory.advice import finding
from spec_kit_memory.core import fences
from spec_kit_memory.core.memory import Anchor, DocumentWarning, Heading

MOST_SHOWN = 280  # characters of an id in a warning
DEEPEST = 20  # the most anchors around a line

_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_UNDERLINE = re.compile(r" {0,3}(={2,}|-{2,})[ \t]*$")
# Possessive repetitions (`*+`) for blanks: with backtracking, a line with a million blanks would take hours.
ANCHOR_TAG = re.compile(r"<!--[ \t]*+(/?)[ \t]*+ANCHOR:[ \t]?([\w/-]+)[ \t]*+-->", re.IGNORECASE)
_TAG_LIKE = re.compile(r"<!--[ \t]*+/?[ \t]*+ANCHOR:", re.IGNORECASE)
_EXPLICIT_ID = re.compile(r"\{#([\w/.:-]+)\}$")
# A line that cannot be the text of an underlined heading: list, quote, table, heading, HTML, rule.
_NOT_PARAGRAPH = re.compile(r"[ \t]*(?:$|[-*+][ \t]|\d{1,9}[.)][ \t]|[>|#<]|(?:[-*_=][ \t]*){3,}$)|[ ]{4}|\t")
_IMAGE_OR_LINK = re.compile(r"!?\[([^\[\]]{0,500})\]\([^()\s]{0,2000}\)")
_EMPHASIS = re.compile(r"(\*\*|__|~~)(?=\S)([^*~]{1,500}?)(?<=\S)\1|(?<!\w)([*_])(?=\S)([^*_]{1,500}?)(?<=\S)\3(?!\w)")
_NOT_SLUG = re.compile(r"[^\w\- ]")
# People do not write longer headings or lines with more tags; the limits keep the time linear.
_HEADING_CHARACTERS = 300
_TAGS_PER_LINE = 50


@dataclass(slots=True)
class Structure:
    """The structure of a text as line ranges, in order of their first lines."""

    anchors: list[Anchor] = field(default_factory=list)
    headings: list[Heading] = field(default_factory=list)
    fences: list[tuple[int, int]] = field(default_factory=list)
    comments: list[tuple[int, int]] = field(default_factory=list)  # lines with nothing but comments
    tag_lines: list[int] = field(default_factory=list)
    warnings: list[DocumentWarning] = field(default_factory=list)
    nested_fences: bool = True  # still allowing for fences inside fenced markdown


@dataclass(slots=True)
class _Tag:
    id: str
    closing: bool
    line: int
    text_before: bool
    text_after: bool


@lru_cache(maxsize=4)
def scanned(text: str, first_line: int) -> tuple[list[str], Structure]:
    """The lines and structure of a text, cached for parsing and splitting; callers must not modify them."""
    lines = text.split("\n")
    return lines, scan(lines, first_line=first_line)


def scan(lines: Sequence[str], *, first_line: int = 1) -> Structure:
    """Find the structure of the lines from `first_line` to the end."""
    structure = Structure()
    tags: list[_Tag] = []
    marks: list[tuple[int, int, str]] = []  # line, level, raw text of each heading
    closers = fences.longest_closers(lines, first_line=first_line)
    last_comment_end = _last_with("-->", lines)
    number, total = first_line - 1, len(lines)
    while number < total:
        number += 1
        line = lines[number - 1]
        mark = line.lstrip(" \t")[:1]
        if "<!--" in line and not _in_code(line, line.index("<!--")):
            number = _read_comments(lines, number, last_comment_end, structure=structure, tags=tags, headings=marks)
        elif fences.may_hold(line):
            number = _read_fence(lines, number, closers, structure=structure)
        elif mark == "#":
            _read_atx(line, number, marks)
        elif mark in ("=", "-") and number > first_line:
            _read_underline(lines, number, first_line, marks=marks, structure=structure)
    structure.headings.extend(_with_ranges(marks, total - (lines[-1] == "")))
    structure.anchors.extend(_paired(tags, structure.warnings))
    return structure


def slug(text: str) -> str:
    """The name that GitHub uses for a heading in links."""
    return _NOT_SLUG.sub("", text.strip().lower()).replace(" ", "-")


def metadata_fence(lines: Sequence[str], structure: Structure) -> tuple[int, int] | None:
    """First and last line of the metadata block's YAML fence, if the file has one."""
    for anchor in structure.anchors:
        name = anchor.id.casefold()
        if name != "metadata" and not name.startswith("metadata-"):
            continue
        for first, last in structure.fences:
            inside = anchor.first_line <= first and last <= anchor.last_line
            if inside and fences.is_yaml(lines[first - 1]):
                return first, last
    return None


def _in_code(line: str, position: int) -> bool:
    return line.count("`", 0, position) % 2 == 1


def _last_with(needle: str, lines: Sequence[str]) -> int:
    return next((index + 1 for index in range(len(lines) - 1, -1, -1) if needle in lines[index]), 0)


def _read_fence(lines: Sequence[str], number: int, closers: dict[int, dict[str, int]], *, structure: Structure) -> int:
    """Record the fence that opens on this line, if one does, and return its last line."""
    opener = fences.marker(lines[number - 1])
    if opener is None or not opener.can_open:
        return number
    if closers[number][opener.run[0]] < len(opener.run):
        structure.warnings.append(DocumentWarning(finding("fence-open"), number, "fence"))
        return number
    nests = structure.nested_fences and opener.holds_markdown
    last, whole = fences.closing_line(lines, number, opener=opener, nests=nests)
    # If one search to the end of the text fails, later ones are not tried: together they would take quadratic time.
    structure.nested_fences &= whole
    structure.fences.append((number, last))
    return last


def _read_comments(
    lines: Sequence[str],
    number: int,
    last_end: int,
    *,
    structure: Structure,
    tags: list[_Tag],
    headings: list[tuple[int, int, str]],
) -> int:
    """Read the comments that start on this line; return the last line they reach."""
    line, start = lines[number - 1], 0
    for _ in range(_TAGS_PER_LINE):
        start = line.find("<!--", start)
        if start < 0:
            break
        if _in_code(line, start):
            start += 4
            continue
        end = line.find("-->", start)
        if end < 0:
            return _read_open_comment(lines, number, start, last_end, structure=structure)
        _read_tag(line, number, start, tags=tags, structure=structure)
        start = end + 3
    bare = _without_comments(line)
    if not bare.strip():
        structure.comments.append((number, number))
    else:
        _read_atx(bare, number, headings)
    return number


def _without_comments(line: str) -> str:
    """The line without complete comments."""
    if "<!--" not in line:
        return line
    pieces, position = [], 0
    while (start := line.find("<!--", position)) >= 0 and (end := line.find("-->", start)) >= 0:
        pieces.append(line[position:start])
        position = end + 3
    return "".join(pieces) + line[position:]


def _read_tag(line: str, number: int, start: int, *, tags: list[_Tag], structure: Structure) -> None:
    match = ANCHOR_TAG.match(line, start)
    if match is not None:
        before, after = line[:start], line[match.end() :]
        tags.append(
            _Tag(
                id=match[2],
                closing=bool(match[1]),
                line=number,
                text_before=bool(_without_comments(before).strip()),
                text_after=bool(_without_comments(after).strip()),
            )
        )
        structure.tag_lines.append(number)
    elif _TAG_LIKE.match(line, start):
        excerpt = line[start : start + 80].strip()
        structure.warnings.append(DocumentWarning(finding("anchor-without-id", excerpt=excerpt), number, "anchor"))


def _read_open_comment(lines: Sequence[str], number: int, start: int, last_end: int, *, structure: Structure) -> int:
    """Read a comment of several lines. An unclosed one is ordinary text."""
    if last_end <= number:
        return number
    last = number + 1
    while "-->" not in lines[last - 1]:
        last += 1
    alone = not lines[number - 1][:start].strip()
    rest = lines[last - 1].partition("-->")[2]
    if alone and not _without_comments(rest).strip():
        structure.comments.append((number, last))
    return last


def _read_atx(line: str, number: int, marks: list[tuple[int, int, str]]) -> None:
    match = _ATX.match(line)
    if match is not None:
        text = (match[2] or "").strip()
        closed = text.rstrip("#")
        if closed != text and (not closed or closed[-1] in " \t"):
            text = closed.rstrip()
        marks.append((number, len(match[1]), text))


def _read_underline(
    lines: Sequence[str],
    number: int,
    first_line: int,
    *,
    marks: list[tuple[int, int, str]],
    structure: Structure,
) -> None:
    """Record an underlined heading: a paragraph of a single line of plain text, directly above the underline."""
    match = _UNDERLINE.match(lines[number - 1])
    above = lines[number - 2]
    if match is None or _NOT_PARAGRAPH.match(above):
        return
    alone = number - 2 < first_line or _NOT_PARAGRAPH.match(lines[number - 3])
    is_taken = (marks and marks[-1][0] == number - 1) or (structure.fences and structure.fences[-1][1] == number - 1)
    if alone and not is_taken and not above.rstrip().endswith(("-->", "|")):
        marks.append((number - 1, 1 if match[1][0] == "=" else 2, above.strip()))


def _plain(raw: str) -> tuple[str, str]:
    """A heading's text without markup, and its explicit id."""
    raw = _without_comments(raw).strip()
    explicit = _EXPLICIT_ID.search(raw) if raw.endswith("}") else None
    text = (raw[: explicit.start()] if explicit else raw)[:_HEADING_CHARACTERS]
    if "[" in text:
        text = _IMAGE_OR_LINK.sub(r"\1", text)
    if "*" in text or "_" in text or "~" in text:
        text = _EMPHASIS.sub(lambda match: match[2] or match[4], text)
    return text.replace("`", "").strip(), explicit[1] if explicit else ""


def _with_ranges(marks: list[tuple[int, int, str]], last_line: int) -> list[Heading]:
    """Headings with the lines of their sections; repeated slugs are numbered as on GitHub."""
    last_lines: dict[int, int] = {}
    open_marks: list[tuple[int, int]] = []  # level, line
    for line, level, _ in marks:
        while open_marks and open_marks[-1][0] >= level:
            last_lines[open_marks.pop()[1]] = line - 1
        open_marks.append((level, line))
    seen: Counter[str] = Counter()
    headings = []
    for line, level, raw in marks:
        text, explicit = _plain(raw)
        name = explicit or slug(text)
        seen[name] += 1
        if seen[name] > 1 and not explicit:
            name = f"{name}-{seen[name] - 1}"
        headings.append(Heading(level, text, name, line, last_lines.get(line, last_line)))
    return headings


def _paired(tags: list[_Tag], warnings: list[DocumentWarning]) -> list[Anchor]:
    """Anchors that have both tags; ids are compared case-insensitively."""
    opened: dict[str, list[_Tag]] = {}
    open_names: set[str] = set()
    anchors = []
    for tag in tags:
        key = tag.id.casefold()
        if not tag.closing:
            if key in open_names:
                warnings.append(DocumentWarning(finding("anchor-repeated", id=tag.id[:MOST_SHOWN]), tag.line, "anchor"))
            open_names.add(key)
            opened.setdefault(key, []).append(tag)
        elif opened.get(key):
            anchors.append(_anchor(opened[key].pop(), tag))
        else:
            warnings.append(DocumentWarning(finding("anchor-never-opened", id=tag.id[:MOST_SHOWN]), tag.line, "anchor"))
    for left in opened.values():
        warnings.extend(
            DocumentWarning(finding("anchor-never-closed", id=tag.id[:MOST_SHOWN]), tag.line, "anchor") for tag in left
        )
    anchors.sort(key=lambda anchor: (anchor.first_line, -anchor.last_line))
    deep = too_deep([(anchor.first_line, anchor.last_line) for anchor in anchors])
    warnings.extend(
        DocumentWarning(
            finding("anchor-too-deep", id=anchors[at].id[:MOST_SHOWN], others=DEEPEST), anchors[at].first_line, "anchor"
        )
        for at in deep
    )
    return [anchor for at, anchor in enumerate(anchors) if at not in deep]


def too_deep(ranges: Sequence[tuple[int, int]]) -> dict[int, None]:
    """The positions of those line ranges, sorted by first line, that are nested in DEEPEST others or more.

    Every passage stores the anchors around it, so thousands of nested anchors would take quadratic time.
    """
    deep: dict[int, None] = {}
    open_until: list[int] = []
    for at, (first, last) in enumerate(ranges):
        open_until = [line for line in open_until if line >= first]
        if len(open_until) >= DEEPEST:
            deep[at] = None
        else:
            open_until.append(last)
    return deep


def _anchor(start: _Tag, end: _Tag) -> Anchor:
    first = start.line if start.text_after else start.line + 1
    last = end.line if end.text_before else end.line - 1
    return Anchor(start.id, first, max(last, first - 1))  # an empty range ends one line before its first
