"""How are two documents with nearly the same content merged into one?

The document that is kept (`new`) keeps all its lines. Content that only the other one (`old`) has is added
to the matching part: a decision to the decisions, a step to the steps, a sentence to its paragraph. Units
are sections, list items, table rows, paragraphs and sentences; each occurs once in the result, and where
both documents have their own content in one place, that of the kept document comes first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from unicodedata import normalize

from spec_kit_memory.core import blocks, front_matter, saved_document
from spec_kit_memory.core.blocks import Block, BlockSection, Item, Kind
from spec_kit_memory.core.fences import may_hold
from spec_kit_memory.core.markdown import normalise
from spec_kit_memory.core.session_document import SECTIONS
from spec_kit_memory.core.similar import count_words
from spec_kit_memory.core.structure import slug
from spec_kit_memory.errors import TooLarge

# A sentence of fewer words ("Yes.") is no evidence that two paragraphs belong together.
COMMON_WORDS = 3
# Text of at least this many words counts as a repetition wherever it occurs in a document.
TELLING_WORDS = 8

_SENTENCE_END = re.compile(r"""(?<=[.!?…])["'”’)\]*_`]*\s+(?=["'“‘(\[*_`]*[^\W_])|(?<=[。！？])[」』”’)]*\s*(?=\S)""")
# "e.g. Redis", "J. Smith", "approx. 30": a full stop that does not end a sentence.
_ABBREVIATED = re.compile(
    r"(?:^|[\s(\[])(?:\w|\w\.\w|etc|vs|cf|al|ca|approx|nos?|vol|fig|sec|ch|pp?|ver|dr|mrs?|ms|prof|st|inc|ltd|co|[js]r"
    r"|dept|est)\.$",
    re.IGNORECASE,
)
_ENDED = re.compile(r"""[.!?…:;,。！？：；，、]["'”’」』)）\]*_`]*$""")
_WIDE_STOP = re.compile(r"[。！？][」』”’)]*$")
_CLAUSE = re.compile(r"[,;:，；：、]|[ \t]+[–—(-]")
_WORD_END = re.compile(r"[.,;:!?]*(?:\s|$)|[，；：、。！？]")
_INLINE_LABEL = re.compile(r"\*\*[^*\n]+:\*\*[ \t]+(?=\S)")
MOST_SECTIONS = 1_000
MOST_PIECES = 6_000
_DECISION = re.compile(r"Decision \d+")
_DECISION_LINE = re.compile(r"(#{1,6}[ \t]+Decision )\d+[ \t]*$")
_TAG_NAME = re.compile(r"(<!--[ \t]*+/?[ \t]*+ANCHOR:[ \t]?)[\w/-]+([ \t]*+-->)", re.IGNORECASE)
# Labels of our own template, which occur once per section; any other label is a speaker's name or the writer's own.
_ONE_LABEL = frozenset({"**Alternatives:**", "**Recently:**", "**Chosen:**", "**Why:**"})


def merge_bodies(new: str, old: str, *, origin: str) -> str:
    """The text `new` with the content that only the body of `old` has. Front matter stays that of `new`.

    `origin` describes the other document in one line; it is added to the metadata, or at the end.
    """
    sides = (_Side.of(new), _Side.of(old))
    for side in sides:
        _refuse_too_many(side)
    merger = _Merger(*sides)
    merger.take_in(merger.new.root, merger.old.root)
    merger.note(origin)
    return saved_document.with_updated_counts(merger.text())


def _refuse_too_many(side: _Side) -> None:
    """Every section, item and sentence of one document is compared with those of the other: quadratic time."""
    sections = sum(1 for _ in side.root.walk())
    pieces = sum(1 + line.count(". ") for line in side.lines if line.strip())
    if sections > MOST_SECTIONS or pieces > MOST_PIECES:
        raise TooLarge(
            f"a document of {sections:,} sections and {pieces:,} lines and sentences is too long to be merged "
            f"(at most {MOST_SECTIONS:,} and {MOST_PIECES:,})",
            hint="keep both, or split it first",
        )


@dataclass(slots=True)
class _Side:
    """A document in lines and sections."""

    lines: list[str]
    root: BlockSection

    @classmethod
    def of(cls, text: str) -> _Side:
        lines = normalise(text).split("\n")
        block = front_matter.locate(lines)
        return cls(lines, blocks.divide(lines, first_line=block.body_first_line if block else 1))

    def text(self, block: Block | Item) -> str:
        return "\n".join(self.copied(block))

    def copied(self, block: Block | Item | _Group) -> list[str]:
        """Its lines without anchor tags: in another place, half an anchor would open or close a section."""
        return [blocks.without_tags(line) for line in self.lines[block.first_line - 1 : block.last_line]]

    def key(self, block: Block) -> str:
        """Two blocks with equal keys have the same content; in code, every space counts."""
        text = self.text(block)
        return text if block.kind is Kind.CODE else _folded(text)

    def item_key(self, item: Item) -> str:
        """Without its marker and checkbox: a step that was ticked off since is the same step."""
        text = blocks.item_text(self.lines, item)
        return text if may_hold(text) else _folded(text)

    def keys(self, section: BlockSection) -> Iterator[str]:
        """The keys of the section's own paragraphs and list items."""
        for block in section.blocks:
            if block.kind is Kind.LIST:
                yield from (self.item_key(item) for item in block.items)
            elif block.kind is Kind.PROSE:
                yield self.key(block)

    def field(self, section: BlockSection, label: str) -> str:
        """The text after a label of a decision, casefolded; "" if the label does not occur."""
        texts = (self.text(block) for block in section.blocks if block.kind is Kind.PROSE)
        return next((_folded(text.removeprefix(label)).casefold() for text in texts if text.startswith(label)), "")

    def find(self, name: str) -> BlockSection | None:
        return next((section for section in self.root.walk() if _is(section, name)), None)

    def groups(self, section: BlockSection) -> list[_Group]:
        groups = [_Group(first_line=section.opened_line)]
        for block in section.blocks:
            text = self.text(block)
            if block.kind is Kind.PROSE and blocks.is_label(text):
                groups.append(_Group(text.strip(), block.first_line))
            else:
                groups[-1].blocks.append(block)
        return groups


@dataclass(slots=True)
class _Group:
    """The blocks under one label of a section, or those before its first label."""

    label: str = ""
    first_line: int = 0  # the label's line; without a label, the last line of the section's opening
    blocks: list[Block] = field(default_factory=list)

    @property
    def last_line(self) -> int:
        return self.blocks[-1].last_line if self.blocks else self.first_line


@dataclass(slots=True)
class _Paragraph:
    """A paragraph of the kept document, and the sentences or lines that it has so far."""

    block: Block
    pieces: list[str]  # each with its trailing white space

    @property
    def keys(self) -> list[str]:
        return [_folded(piece) for piece in self.pieces]


class _Merger:
    """Collects the additions to the kept document, by line number, and builds the merged text at the end."""

    def __init__(self, new: _Side, old: _Side) -> None:
        self.new, self.old = new, old
        self._before: dict[int, list[list[str]]] = {}  # line -> blocks to insert before it
        self._after: dict[int, list[list[str]]] = {}
        self._directly_after: dict[int, list[str]] = {}  # line -> items and rows that follow without an empty line
        self._replaced: dict[int, tuple[int, list[str]]] = {}  # first line -> last line, replacement lines
        self._paragraphs: dict[int, _Paragraph] = {}
        self._added_items: Counter[int] = Counter()  # last line of a list -> number of items added
        self._adopted: Counter[int] = Counter()  # first line of a section -> number of parts added
        self._anchors = {section.anchor.casefold() for section in new.root.walk() if section.anchor}
        # Text in one top-level section need not be repeated in another. Nested sections, such as the single
        # decisions, are not deduplicated in this way: each decision keeps its own reasons.
        self._large = [new.root, *new.root.parts]
        self._telling = {key for section in self._large for key in new.keys(section) if _is_telling(key)}

    # --- sections

    def take_in(self, new: BlockSection, old: BlockSection) -> None:
        """Merge the old section into the new one: its own blocks, then its parts."""
        parts = list(old.parts)
        if new is self.new.root and old.blocks and not new.blocks:
            # The text of a note without sections is its summary.
            self._blocks(next((part for part in new.parts if _is(part, "summary")), new), old)
        else:
            self._blocks(new, old)
        if new is self.new.root and new.blocks and not any(_is(part, "summary") for part in new.parts):
            for summary in [part for part in parts if _is(part, "summary")]:
                self.take_in(new, BlockSection(blocks=summary.blocks, parts=summary.parts))
                parts.remove(summary)
        for part in parts:
            same = self._counterpart(new, part, siblings=parts)
            if same is None:
                self._adopt(new, part)
            elif _is(part, "flow"):
                self._flow(same, part)
            elif _is(part, "metadata"):
                self._metadata(same, part)
            else:
                self.take_in(same, part)

    def _counterpart(
        self, parent: BlockSection, part: BlockSection, *, siblings: Sequence[BlockSection]
    ) -> BlockSection | None:
        """The section of the kept document that corresponds to this one."""
        if _DECISION.fullmatch(part.heading):  # numbers may differ: compare the first blocks instead
            begins = [self.old.key(block) for block in part.blocks[:1]]
            numbered = [section for section in parent.parts if _DECISION.fullmatch(section.heading)]
            return next(
                (section for section in numbered if [self.new.key(b) for b in section.blocks[:1]] == begins), None
            )
        candidates = [
            section
            for section in parent.parts
            if (_same_heading(section, part) or _same_anchor(section, part))
            and not self._chose_otherwise(section, part)
        ]
        if len(candidates) < 2 and sum(_same_heading(section, part) for section in siblings) < 2:
            return candidates[0] if candidates else None
        # Several sections have this name ("Observation"): take the one with the most content in common.
        keys = set(self.old.keys(part))
        best = max(candidates, key=lambda section: len(keys & set(self.new.keys(section))), default=None)
        if best is not None and part.blocks and not keys & set(self.new.keys(best)):
            return None
        return best

    def _chose_otherwise(self, new: BlockSection, old: BlockSection) -> bool:
        """Do two decisions on one question differ in their choice? Then both are kept, each with its own reasons."""
        chosen, other = self.new.field(new, "**Chosen:**"), self.old.field(old, "**Chosen:**")
        return bool(chosen and other) and not (_continues(chosen, other) or _continues(other, chosen))

    def _adopt(self, parent: BlockSection, part: BlockSection) -> None:
        """Add a whole section that the kept document does not have, with its anchors renamed where they clash."""
        lines = dict(enumerate(self.old.lines[part.first_line - 1 : part.last_line], start=part.first_line))
        for inner in part.walk():
            self._rename(lines, inner)
        self._adopted[parent.first_line] += 1
        if _DECISION.fullmatch(part.heading):
            number = len(parent.parts) + self._adopted[parent.first_line]
            lines[part.opened_line] = _DECISION_LINE.sub(rf"\g<1>{number}", lines[part.opened_line])
        copied = list(lines.values())
        place = self._place_for(parent, part)
        if place is not None:
            self._before.setdefault(place, []).append(copied)
        else:
            self._after.setdefault(_end_of(parent), []).append(copied)

    def _rename(self, lines: dict[int, str], section: BlockSection) -> None:
        if not section.anchor:
            return
        name, number = section.anchor, 2
        while name.casefold() in self._anchors:
            name, number = f"{section.anchor}-{number}", number + 1
        self._anchors.add(name.casefold())
        for line in (section.first_line, section.last_line):
            lines[line] = _TAG_NAME.sub(rf"\g<1>{name}\g<2>", lines[line], count=1)

    def _place_for(self, parent: BlockSection, part: BlockSection) -> int | None:
        """The line before which a section belongs, by the order of our template; None for the end."""
        if parent is not self.new.root:
            return None
        order = {name: at for at, name in enumerate(SECTIONS)}
        own_place = order.get(part.anchor.casefold(), order["metadata"])  # unknown sections come before the metadata
        later = [section for section in parent.parts if order.get(section.anchor.casefold(), -1) >= own_place]
        return later[0].first_line if later else None

    # --- blocks

    def _blocks(self, new: BlockSection, old: BlockSection) -> None:
        new_groups = self.new.groups(new)
        repeated = self._repeated(old)
        for group in self.old.groups(old):
            group.blocks = [block for block in group.blocks if block not in repeated]
            if not group.blocks and not group.label:
                continue
            same = self._same_group(new_groups, group)
            if same is not None:
                self._group(new, same, group)
            else:
                self._after.setdefault(max(new_group.last_line for new_group in new_groups), []).append(
                    self.old.copied(group)
                )

    def _repeated(self, old: BlockSection) -> list[Block]:
        """Blocks of a state section that only repeat the first step or blocker, which their own sections merge."""
        if not _is(old, "state"):
            return []
        repeated = []
        for name in saved_document.REPEATED:
            section = self.old.find(name)
            if section is None or self.new.find(name) is None:
                continue
            items = [
                _spaced(blocks.item_text(self.old.lines, item)) for block in section.blocks for item in block.items
            ]
            prose = [block for block in old.blocks if block.kind is Kind.PROSE]
            repeated += [
                paragraph for paragraph in prose if saved_document.repeats_first(self.old.text(paragraph), name, items)
            ]
        return repeated

    def _same_group(self, groups: Sequence[_Group], target: _Group) -> _Group | None:
        if not target.label:
            return groups[0]
        labelled = [group for group in groups if group.label == target.label]
        if target.label in _ONE_LABEL:
            return labelled[0] if labelled else None
        # A speaker's label may occur many times: the groups correspond only if their first blocks are equal.
        begins = [self.old.key(block) for block in target.blocks[:1]]
        return next((group for group in labelled if [self.new.key(b) for b in group.blocks[:1]] == begins), None)

    def _group(self, section: BlockSection, new: _Group, old: _Group) -> None:
        present = {self.new.key(block): block.first_line for block in new.blocks}
        waiting: list[list[str]] = []  # to be inserted before the next block that both have
        added: set[str] = set()
        intro = ""
        for block in old.blocks:
            key = self.old.key(block)
            if key in present:
                self._before.setdefault(present[key], []).extend(waiting)
                waiting = []
            elif key not in added:
                waiting += self._missing(section, new, block, intro=intro)
                added.add(key)
            intro = key if block.kind is Kind.PROSE else ""
        self._after.setdefault(new.last_line, []).extend(waiting)

    def _stands_elsewhere(self, section: BlockSection, key: str) -> bool:
        return key in self._telling and any(section is large for large in self._large)

    def _missing(self, section: BlockSection, group: _Group, block: Block, *, intro: str) -> list[list[str]]:
        """The content of a block that must be added as new blocks; the rest is merged into existing ones."""
        if block.kind is Kind.LIST:
            return self._list(section, group, block, intro)
        if block.kind is Kind.TABLE:
            return self._table(group, block)
        if block.kind is Kind.PROSE:
            return self._prose(section, block)
        return [] if block.kind is Kind.RULE else [self.old.copied(block)]

    # --- lists and tables

    def _list(self, section: BlockSection, group: _Group, block: Block, intro: str) -> list[list[str]]:
        """Missing items are appended to the matching list; if there is none, they become a list of their own."""
        lists = [block for block in group.blocks if block.kind is Kind.LIST]
        present = {self.new.item_key(item): item for block in lists for item in block.items}
        missing: dict[str, Item] = {}
        target: Block | None = None
        for item in block.items:
            key = self.old.item_key(item)
            if key in present:
                self._tick(present[key], item)
            same = present.get(key) or self._fuller_or_shorter(present.values(), item)
            if same is not None:
                target = next(block for block in lists if same in block.items)
            elif not self._stands_elsewhere(section, key):
                missing.setdefault(key, item)
        target = target or self._list_after(group, lists, intro)
        if target is not None:
            self._continue(target, list(missing.values()))
            return []
        return [[line for item in missing.values() for line in self.old.copied(item)]] if missing else []

    def _list_after(self, group: _Group, lists: Sequence[Block], intro: str) -> Block | None:
        """The list below the same paragraph: items of "Against:" must not be added to those of "For:"."""
        for block in lists:
            at = group.blocks.index(block)
            above = group.blocks[at - 1] if at and group.blocks[at - 1].kind is Kind.PROSE else None
            if (self.new.key(above) if above is not None else "") == intro:
                return block
        return None

    def _fuller_or_shorter(self, present: Iterable[Item], item: Item) -> Item | None:
        """The item that has the same content as this one, and more or less of it: the fuller of the two is kept."""
        head, *below = self.old.copied(item)
        item_sentences = [_folded(sentence) for sentence in _sentences(blocks.item_text([head], _alone(item)))]
        for other in present:
            first, *rest = self.new.copied(other)
            other_sentences = [_folded(sentence) for sentence in _sentences(blocks.item_text([first], _alone(other)))]
            if not (below or rest) and len(item_sentences) == len(other_sentences) == 1:
                if _contains_more(other_sentences[0], item_sentences[0]):
                    return other
                if _contains_more(item_sentences[0], other_sentences[0]) and other.first_line not in self._replaced:
                    self._replace_item(other, first, head[item.indent + len(item.marker) :])
                    return other
            if item_sentences == other_sentences and (below or rest):
                return other if self._nested(other, rest, below) else None
            if (
                below
                or rest
                or not any(
                    count_words(sentence) >= COMMON_WORDS for sentence in set(item_sentences) & set(other_sentences)
                )
            ):
                continue
            if set(item_sentences) <= set(other_sentences):
                return other
            if set(other_sentences) <= set(item_sentences) and other.first_line not in self._replaced:
                self._replace_item(other, first, head[item.indent + len(item.marker) :])
                return other
        return None

    def _tick(self, item: Item, other: Item) -> None:
        """A step that either document has ticked off is done."""
        line = self.new.lines[item.first_line - 1]
        if blocks.is_ticked(self.old.lines, other) and blocks.is_open(self.new.lines, item):
            self._replaced.setdefault(item.first_line, (item.first_line, [line.replace("[ ]", "[x]", 1)]))

    def _replace_item(self, item: Item, line: str, words: str) -> None:
        self._replaced[item.first_line] = (item.last_line, [line[: item.indent + len(item.marker)] + words])

    def _nested(self, item: Item, lines: Sequence[str], others: Sequence[str]) -> bool:
        """Merge the sublists of two items with the same text; False if there is anything but lists below them."""
        if not _only_list(lines) or not _only_list(others):
            return False
        keys = {_folded(line) for line in (*lines, *self._directly_after.get(item.last_line, ()))}
        missing = [line for line in others if line.strip() and _folded(line) not in keys]
        self._directly_after.setdefault(item.last_line, []).extend(missing)
        return True

    def _continue(self, target: Block, items: Sequence[Item]) -> None:
        """Append items to a list, continuing its numbering if it has one."""
        last = target.items[-1]
        number = int(last.marker.strip()[:-1]) if last.marker.strip()[:-1].isdecimal() else None
        for item in items:
            first, *rest = self.old.copied(item)
            self._added_items[target.last_line] += 1
            marker = last.marker
            if number is not None:
                marker = f"{number + self._added_items[target.last_line]}{last.marker.strip()[-1]} "
            lines = [" " * last.indent + marker + first[item.indent + len(item.marker) :], *rest]
            self._directly_after.setdefault(target.last_line, []).extend(lines)

    def _table(self, group: _Group, block: Block) -> list[list[str]]:
        """Missing rows are appended to a table with the same columns; without one, the whole table is added."""
        rows = self.old.copied(block)
        for existing in group.blocks:
            new_lines = self.new.copied(existing)
            if existing.kind is Kind.TABLE and _folded(new_lines[0]) == _folded(rows[0]):
                present = {_folded(row) for row in (*new_lines, *self._directly_after.get(existing.last_line, ()))}
                missing = [row for row in rows[2:] if _folded(row) not in present]
                self._directly_after.setdefault(existing.last_line, []).extend(missing)
                return []
        return [rows]

    # --- paragraphs and sentences

    def _prose(self, section: BlockSection, block: Block) -> list[list[str]]:
        text = self.old.text(block)
        key = _folded(text)
        if not key or self._stands_elsewhere(section, key):
            return []
        paragraphs = [self._paragraph(block) for block in section.blocks if block.kind is Kind.PROSE]
        pieces = _sentences(text)
        alike = [paragraph for paragraph in paragraphs if _label(paragraph.pieces) == _label(pieces)]
        home = max(alike, key=lambda paragraph: _common(paragraph.keys, pieces), default=None)
        if home is None or not _common(home.keys, pieces):
            home = next((paragraph for paragraph in alike if _is_part(paragraph.keys, pieces)), None)
        if home is None:
            home = next((paragraph for paragraph in alike if _is_same_field(paragraph, pieces)), None)
        if home is not None:
            self._take_sentences(home, pieces, paragraphs)
            return []
        for paragraph in paragraphs:  # a paragraph of short lines is treated as a list without markers
            lines = _lines("".join(paragraph.pieces))
            if len(lines) > 1 and _common([_folded(line) for line in lines], _lines(text), least_words=2):
                paragraph.pieces = lines
                self._take_sentences(paragraph, _lines(text), paragraphs)
                return []
        return [text.split("\n")]

    def _paragraph(self, block: Block) -> _Paragraph:
        if block.first_line not in self._paragraphs:
            self._paragraphs[block.first_line] = _Paragraph(block, _sentences(self.new.text(block)))
        return self._paragraphs[block.first_line]

    def _take_sentences(self, home: _Paragraph, pieces: Sequence[str], others: Sequence[_Paragraph]) -> None:
        """Insert the missing sentences at their old position: before the next sentence that both have."""
        kept, missing = home.pieces, []
        for piece in pieces:
            fuller = self._clause_added(kept, piece, _folded(piece))
            if fuller is None:
                missing.append(piece)
            else:
                kept = fuller
        kept_keys, keys = ([_folded(piece) for piece in side] for side in (kept, missing))
        known_sentences = {
            key for paragraph in others for key in paragraph.keys if count_words(key) >= COMMON_WORDS
        } | set(kept_keys)
        result: list[str] = []
        for kind, first, last, from_, to in SequenceMatcher(None, kept_keys, keys, autojunk=False).get_opcodes():
            result += kept[first:last]
            if kind in ("insert", "replace"):
                for piece, key in zip(missing[from_:to], keys[from_:to], strict=True):
                    if key not in known_sentences:
                        result = _followed_by(result, piece)
                    known_sentences.add(key)
        if result != home.pieces:
            home.pieces = result
            text = "".join(result).rstrip()
            self._replaced[home.block.first_line] = (home.block.last_line, text.split("\n"))

    @staticmethod
    def _clause_added(pieces: list[str], piece: str, key: str) -> list[str] | None:
        """The sentences, if one of them is `piece` with more or less at its end; the fuller of the two is kept.

        In prose only a clause may be added; a choice or a reason, which may be one word, is continued by any words.
        """
        brief = _label(pieces) in ("**Chosen:**", "**Why:**")  # `_chose_otherwise` has kept different choices apart
        if any(_folded(present) == key for present in pieces):
            return None
        for at, present in enumerate(pieces):
            present_key = _folded(present)
            if _contains_more(present_key, key) or (
                brief and (_continues(present_key, key) or _ends(present_key, key))
            ):
                return pieces
            if _contains_more(key, present_key) or (brief and _continues(key, present_key)):
                gap = present[len(present.rstrip()) :]
                fuller = present[:1] + piece[1:].rstrip() + gap  # keep the first letter: only its case may differ
                return [*pieces[:at], fuller, *pieces[at + 1 :]]
        return None

    # --- sections of our own template

    def _flow(self, new: BlockSection, old: BlockSection) -> None:
        charts = [block for block in new.blocks if block.kind is Kind.CODE]
        others = [block for block in old.blocks if block.kind is Kind.CODE]
        joined = None
        if len(charts) == len(others) == 1:
            joined = saved_document.joined_charts(self.new.text(charts[0]), self.old.text(others[0]))
        if joined is not None:
            self._replaced[charts[0].first_line] = (charts[0].last_line, joined.split("\n"))
        rest = [block for block in old.blocks if joined is None or block not in others]
        self.take_in(new, BlockSection(blocks=rest, parts=old.parts))

    def _metadata(self, new: BlockSection, old: BlockSection) -> None:
        """Drop generated facts about the other save; keep notes that a merge or a person added there."""
        remaining_items = []
        for block in old.blocks:
            items = tuple(
                item
                for item in block.items
                if not saved_document.is_saved_fact(_spaced(blocks.item_text(self.old.lines, item)))
            )
            if block.kind is Kind.LIST and items:
                remaining_items.append(Block(Kind.LIST, items[0].first_line, items[-1].last_line, items))
            elif block.kind not in (Kind.LIST, Kind.CODE):  # code here is YAML metadata, which is merged separately
                remaining_items.append(block)
        self.take_in(new, BlockSection(blocks=remaining_items, parts=old.parts))

    def note(self, origin: str) -> None:
        """Add a line on the merged document: to the metadata, or at the end if there is none."""
        origin = origin.replace("<!--", "&lt;!--")
        about = next((part for part in self.new.root.parts if _is(part, "metadata")), None)
        lists = [block for block in about.blocks if block.kind is Kind.LIST] if about is not None else []
        if lists:
            self._directly_after.setdefault(lists[-1].last_line, []).append(f"- Merged: {origin}")
        else:
            self._after.setdefault(_end_of(self.new.root), []).append([f"*Merged: {origin}*"])

    # --- the result

    def text(self) -> str:
        lines = self._gap_and(0)
        number, total = 1, len(self.new.lines)
        while number <= total:
            for added in self._before.get(number, ()):
                lines += [*added, ""]
            last, new_lines = self._replaced.get(number, (number, [self.new.lines[number - 1]]))
            lines += new_lines
            for line in range(number, last + 1):
                lines += self._directly_after.get(line, ())
            for line in range(number, last + 1):
                lines += self._gap_and(line)
            number = last + 1
        return "\n".join(lines)

    def _gap_and(self, line: int) -> list[str]:
        """The blocks added after a line, each preceded by an empty line."""
        added = [part for block in self._after.get(line, ()) for part in ("", *block)]
        following = self.new.lines[line] if line < len(self.new.lines) else ""
        # Without an empty line, a paragraph that follows would become part of the addition; a tag would not.
        return [*added, ""] if added and following.strip() and not following.lstrip().startswith("<!--") else added


# --- what counts as the same -----------------------------------------------------


def _is(section: BlockSection, name: str) -> bool:
    return section.anchor.casefold() == name or (not section.anchor and slug(section.heading) == name)


def _same_heading(section: BlockSection, other: BlockSection) -> bool:
    return bool(section.heading) and _folded(section.heading).casefold() == _folded(other.heading).casefold()


def _same_anchor(section: BlockSection, other: BlockSection) -> bool:
    """Equal anchors identify a section of our template; elsewhere, different headings are different sections."""
    name, other_name = (section.anchor.casefold() or slug(section.heading) for section in (section, other))
    if not name or name != other_name:
        return False
    return name in SECTIONS or not (section.heading and other.heading)


def _end_of(section: BlockSection) -> int:
    """The line after which to append to a section, inside its anchor."""
    return max(section.own_last_line, section.parts[-1].last_line if section.parts else 0)


def _spaced(text: str) -> str:
    return " ".join(normalize("NFC", text).split())


def _folded(text: str) -> str:
    """The text normalised: white space, a final full stop and the case of the first letter do not count."""
    words = _spaced(text)
    stop = words[-1:] in ".。" and not words.endswith("..")
    words = words[:-1] if stop else words
    return words[:1].lower() + words[1:] if count_words(words) >= COMMON_WORDS else words


def _contains_more(longer: str, shorter: str) -> bool:
    """Is this sentence that one with a clause added?"""
    return (
        count_words(shorter) >= COMMON_WORDS
        and longer.startswith(shorter)
        and _CLAUSE.match(longer, len(shorter)) is not None
    )


def _continues(longer: str, shorter: str) -> bool:
    """Does this begin with all the words of the other? "JavaScript" and "3.11" do not continue "Java" and "3"."""
    begun, start = longer.casefold(), shorter.casefold()
    return bool(start) and begun.startswith(start) and _WORD_END.match(begun, len(start)) is not None


def _ends(longer: str, shorter: str) -> bool:
    """Is this the end of the other, after a full stop? One after "5 s" or "a" looks like that of an abbreviation."""
    return longer.casefold().endswith(f". {shorter.casefold()}")


def _is_telling(key: str) -> bool:
    return count_words(key) >= TELLING_WORDS


def _alone(item: Item) -> Item:
    """The same item with line numbers as if it were the only line of a text."""
    return Item(1, 1, item.marker, item.indent)


def _only_list(lines: Sequence[str]) -> bool:
    """Is this nothing but list items, or nothing at all?"""
    root = blocks.divide([*(line.strip() for line in lines), ""])
    return all(block.kind is Kind.LIST for block in root.blocks) and not root.parts


def _sentences(text: str) -> list[str]:
    """The sentences of a paragraph, each with its trailing white space; an initial label is a piece of its own."""
    label = _INLINE_LABEL.match(text)
    pieces, start = ([label[0]], label.end()) if label else ([], 0)
    for end in _SENTENCE_END.finditer(text, start):
        if not _ABBREVIATED.search(text[start : end.start()]):
            pieces.append(text[start : end.end()])
            start = end.end()
    return [*pieces, text[start:]] if text[start:] else pieces


def _lines(text: str) -> list[str]:
    return [f"{line}\n" for line in text.rstrip("\n").split("\n")]


def _label(pieces: Sequence[str]) -> str:
    return pieces[0].strip() if pieces and blocks.is_label(pieces[0]) else ""


def _common(keys: Sequence[str], pieces: Sequence[str], *, least_words: int = COMMON_WORDS) -> int:
    """The number of words in the sentences that both have."""
    folded = {_folded(piece) for piece in pieces}
    return sum(count_words(key) for key in keys if key in folded and count_words(key) >= least_words)


def _is_part(keys: Sequence[str], pieces: Sequence[str]) -> bool:
    """Are all sentences of one of the two also in the other, however few they are?"""
    own_keys, other_keys = (
        {key for key in part if key and not blocks.is_label(key)} for part in (keys, map(_folded, pieces))
    )
    return bool(own_keys and other_keys) and (own_keys <= other_keys or other_keys <= own_keys)


def _is_same_field(paragraph: _Paragraph, pieces: Sequence[str]) -> bool:
    """Are both a reason or a choice of the same decision, or does one only add a clause to a sentence of the other?"""
    keys = [_folded(piece) for piece in pieces]
    return _label(pieces) in ("**Why:**", "**Chosen:**") or any(
        _contains_more(key, other) or _contains_more(other, key) for key in paragraph.keys for other in keys
    )


def _followed_by(pieces: list[str], piece: str) -> list[str]:
    """The sentences with this one appended, separated by a space, which none has after a full-width stop."""
    piece = piece if piece[-1:].isspace() or _WIDE_STOP.search(piece) else f"{piece} "
    if not pieces or pieces[-1][-1:].isspace() or _WIDE_STOP.search(pieces[-1]):
        return [*pieces, piece]
    stop = "" if _ENDED.search(pieces[-1]) else "."
    return [*pieces[:-1], f"{pieces[-1]}{stop} ", piece]
