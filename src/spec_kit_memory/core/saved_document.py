"""What of a saved document is our template's own, and what only follows from the rest?

A document that was merged or edited is no session any more: here its headings, labels, counts and
charts are told from what somebody said, and made to fit what it says now.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from spec_kit_memory.core import blocks, front_matter
from spec_kit_memory.core.blocks import BlockSection, Kind
from spec_kit_memory.core.session_document import FLOW_STEPS, SECTIONS, chart, counts_lines

__all__ = ["REPEATED", "is_saved_fact", "joined_charts", "own_words", "recounted", "repeats_first"]

# The state repeats the first item of these sections under a label.
REPEATED: Mapping[str, str] = {"next-steps": "Next", "blockers": "Blocked by"}

_REPEAT = re.compile(r"\*\*(Next|Blocked by):\*\*[ \t]+(.*?)(?: \(1 of \d+\))?", re.DOTALL)
_SAVED_FACT = re.compile(r"(?:Saved|Spec folder|Git|Counts): ")
_SAVED_ON = re.compile(r"Saved: \d{4}-\d{2}-\d{2}$")
_STEP = re.compile(r'    s\d+((?:\[|\{\{)".*"(?:\]|\}\}))')
_CHAIN = re.compile(r"    s1(?: --> s\d+)*")
# Sections that list or draw what stands elsewhere: files, the chart, when and where it was saved.
_NO_WORDS = frozenset({"artifacts", "flow", "metadata"})
_LABEL = re.compile(r"\*\*(?:Chosen|Why|Alternatives|Recently):\*\*")
_HEADING = re.compile(r"#{1,6}[ \t]+(?:Decision \d+|Other fields|Observation)[ \t]*")
_MORE_STEPS = re.compile(r"\d+ more steps are not drawn\.")


def is_saved_fact(item: str) -> bool:
    """Is this one of the facts that every save notes about itself?"""
    return bool(_SAVED_FACT.match(item))


def repeats_first(paragraph: str, section: str, items: Sequence[str]) -> bool:
    """Does this paragraph of the state only repeat the first item of that section?"""
    match = _REPEAT.fullmatch(paragraph.strip())
    if match is None or match[1] != REPEATED[section] or not items:
        return False
    repeated_text = match[2].strip().removesuffix("…")
    return bool(repeated_text) and any(" ".join(item.split()).startswith(repeated_text) for item in items)


def joined_charts(new: str, old: str) -> str | None:
    """Both charts as one, the older steps first; None if one of them is not ours or it would be unreadable."""
    new_steps, old_steps = _steps(new), _steps(old)
    if new_steps is None or old_steps is None:
        return None
    joined = [*(step for step in old_steps if step not in new_steps), *new_steps]
    return chart(joined) if len(joined) <= FLOW_STEPS else None


def _steps(text: str) -> list[str] | None:
    first, kind, *rest = [*text.split("\n"), ""]
    if first != "```mermaid" or kind != "flowchart TD" or len(rest) < 3:
        return None
    *nodes, chain, _, _ = rest
    matches = [_STEP.fullmatch(node) for node in nodes]
    if not _CHAIN.fullmatch(chain) or not all(matches):
        return None
    return [node[1] for node in matches if node]


# --- what follows from the rest --------------------------------------------------


def recounted(text: str) -> str:
    """The document with its counts and its "1 of 3" as they are now; a document without them is left alone."""
    lines = text.split("\n")
    block = front_matter.locate(lines)
    root = blocks.divide(lines, first_line=block.body_first_line if block else 1)
    sections = {section.anchor: section for section in root.walk() if section.anchor in SECTIONS}
    changed = dict(_counts(lines, sections)) | dict(_firsts(lines, sections))
    return "\n".join(part for at, line in enumerate(lines, start=1) for part in changed.get(at, [line]))


def _counts(lines: Sequence[str], sections: Mapping[str, BlockSection]) -> list[tuple[int, list[str]]]:
    about = sections.get("metadata")
    items = [item for block in about.blocks for item in block.items] if about else []
    texts = {blocks.item_text(lines, item): item for item in items}
    if not any(text.startswith("Saved: ") for text in texts):
        return []
    dialogue, decisions, files = (sections.get(name) for name in ("dialogue", "decisions", "artifacts"))
    spoken = [block for block in dialogue.blocks if block.kind is Kind.PROSE] if dialogue else []
    new = counts_lines(
        sum(blocks.is_label(lines[block.first_line - 1]) for block in spoken),
        len(decisions.parts) if decisions else 0,
        sum(len(block.items) for block in files.blocks) if files else 0,
    )
    old = next((item for text, item in texts.items() if text.startswith("Counts: ")), None)
    if old is not None:
        return [(old.first_line, new)]
    last = next(item for text, item in texts.items() if text.startswith("Saved: "))
    return [(last.first_line, [lines[last.first_line - 1], *new])] if new else []


def _firsts(lines: Sequence[str], sections: Mapping[str, BlockSection]) -> list[tuple[int, list[str]]]:
    changed = []
    state = sections.get("state")
    for name in REPEATED:
        listed = sections.get(name)
        items = [item for block in listed.blocks for item in block.items] if listed else []
        for block in state.blocks if state else ():
            text = lines[block.first_line - 1]
            if block.first_line == block.last_line and repeats_first(
                text, name, [blocks.item_text(lines, item) for item in items]
            ):
                plain = re.sub(r" \(1 of \d+\)$", "", text)
                changed.append((block.first_line, [f"{plain} (1 of {len(items)})" if len(items) > 1 else plain]))
    return changed


# --- what somebody said ----------------------------------------------------------


def own_words(text: str, *, template: Collection[str] = ()) -> str:
    """What a document says by itself: without front matter, and without the form that our saves have in common.

    `template` are the lines of a user's own template. Of a document that we did not save, nothing is known to be form.
    """
    lines = text.split("\n")
    block = front_matter.locate(lines)
    first_line = block.body_first_line if block else 1
    root = blocks.divide(lines, first_line=first_line)
    dropped = _form_lines(lines, root) if _is_saved(lines, root) else None
    if dropped is None:
        return "\n".join(lines[first_line - 1 :]).strip()
    title = " ".join(root.heading.removesuffix("…").split())
    rest = " ".join(" ".join(lines[root.opened_line :]).split())
    if title and title in rest:  # made of the first words, as it is where none was given
        dropped.add(root.opened_line)
    own_lines = [line for at, line in enumerate(lines, start=1) if at >= first_line and at not in dropped]
    return "\n".join(_without_form(line) for line in own_lines if line.strip() not in template).strip()


def _is_saved(lines: Sequence[str], root: BlockSection) -> bool:
    return any(_SAVED_ON.match(blocks.item_text(lines, item)) for item in _items(root, "metadata"))


def _form_lines(lines: Sequence[str], root: BlockSection) -> set[int]:
    """The lines of headings, of lists of files and facts, and of what the state repeats."""
    form: set[int] = set()
    for section in root.walk():
        name = section.anchor.casefold()
        if name in _NO_WORDS:
            form.update(range(section.first_line, section.last_line + 1))
        elif name in SECTIONS:
            form.update(range(section.first_line, section.opened_line + 1))
        if name == "state":
            items = {name: [blocks.item_text(lines, i) for i in _items(root, name)] for name in REPEATED}
            for paragraph in section.blocks:
                paragraph_text = "\n".join(lines[paragraph.first_line - 1 : paragraph.last_line])
                if any(repeats_first(paragraph_text, name, items[name]) for name in REPEATED):
                    form.update(range(paragraph.first_line, paragraph.last_line + 1))
    return form


def _items(root: BlockSection, name: str) -> list[blocks.Item]:
    return [item for part in root.walk() if part.anchor == name for block in part.blocks for item in block.items]


def _without_form(line: str) -> str:
    line = blocks.without_tags(line)
    if _HEADING.fullmatch(line) or _MORE_STEPS.fullmatch(line):
        return ""
    return _LABEL.sub("", line, count=1) if line.startswith("**") else line
