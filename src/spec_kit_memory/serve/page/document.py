"""How is a memory's text shown? As harmless HTML, because its author is not trusted.

Markdown is rendered without raw HTML, and the result is cleaned once more by a sanitiser. Images become text, links
lead only to other sites, and characters that are invisible or change the direction of a line are shown as codes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

import nh3
from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from spec_kit_memory.page_answers import Section

LONGEST = 200_000  # characters that are rendered; a link shows the whole text unrendered
# Characters that an agent reads and a person does not see: those that change the direction of a line, have no width, or
# control a terminal; several joiners or variation selectors in a row, which no script needs; and Unicode tag letters.
_UNSEEN = re.compile(
    "(?P<flag>\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f)"
    "|(?P<tags>[\U000e0000-\U000e007f]+)"
    "|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
    "|[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]"
    "|[\u200c\u200d]{2,}|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}"
    "|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_TAGS = {
    "a", "blockquote", "br", "code", "del", "div", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p",
    "pre", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_SECTION_BLOCKS = ("h1", "h2", "h3", "h4", "h5", "h6", "p", "ul", "blockquote")  # blocks that may carry a section's id
_ATTRIBUTES = {
    "a": {"href"},
    "div": {"class", "tabindex"},
    "ol": {"id", "start"},
    **{tag: {"id"} for tag in _SECTION_BLOCKS},
}
_SCHEMES = {"http", "https", "mailto"}
_SAFE_ID = re.compile(r"[^A-Za-z0-9_-]+")


def visible(text: str) -> str:
    """The text with every invisible or direction-changing character replaced by a visible code."""
    return _UNSEEN.sub(_visible_code, text)


def _visible_code(unseen: re.Match[str]) -> str:
    if unseen["flag"]:  # tag letters that encode a visible flag, such as Scotland's
        return unseen[0]
    if unseen["tags"]:
        letters = (chr(ord(sign) & 0x7F) for sign in unseen[0])
        return f"[hidden: {''.join(letter for letter in letters if letter.isprintable())}]"
    more = f" × {len(unseen[0])}" if len(unseen[0]) > 1 else ""
    return f"[U+{ord(unseen[0][0]):04X}{more}]"


def section_id(name: str) -> str:
    """The id of a section in our page; the prefix keeps it apart from ids that our scripts use."""
    return f"section-{_SAFE_ID.sub('-', name)[:80]}"


def html_of(text: str, *, sections: Sequence[Section] = (), first_line: int = 1) -> str:
    """Render markdown as sanitised HTML; `sections` get ids. The text begins at line `first_line` of its file."""
    reader = _reader()
    tokens = reader.parse(visible(text[:LONGEST]))
    _name_sections(tokens, sections, first_line)
    clean = nh3.clean(
        reader.renderer.render(tokens, reader.options, {}),
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        attribute_filter=_allowed_attribute,
        url_schemes=_SCHEMES,
        link_rel="noopener noreferrer nofollow",
    )
    # No attribute starts with "/", so this is text. Escaping the quote keeps `below` in `routes` from changing it.
    return clean.replace('="/', "=&quot;/")


def _allowed_attribute(tag: str, name: str, value: str) -> str | None:
    if name == "href":
        return value if value.lower().startswith(tuple(f"{scheme}:" for scheme in _SCHEMES)) else None
    if name == "class":
        return value if value == "wide" else None
    if name == "tabindex":
        return "0"
    return value if name in ("id", "start", "rel") else None


def _name_sections(tokens: Sequence[Any], sections: Sequence[Section], first_line: int) -> None:
    """Each section's id goes to the first block that begins in it."""
    blocks = [token for token in tokens if token.level == 0 and token.nesting == 1 and token.map]
    for section in sections:
        for token in blocks:
            line = token.map[0] + first_line
            if section.first_line <= line <= section.last_line and not token.attrGet("id"):
                token.attrSet("id", section_id(section.id))
                break


@cache
def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": True, "linkify": False}).enable(["table", "strikethrough"])
    reader.add_render_rule("html_block", _raw)
    reader.add_render_rule("html_inline", _raw)
    reader.add_render_rule("image", _picture)
    reader.add_render_rule("table_open", lambda *_: '<div class="wide" tabindex="0"><table>')
    reader.add_render_rule("table_close", lambda *_: "</table></div>")
    reader.add_render_rule("s_open", lambda *_: "<del>")
    reader.add_render_rule("s_close", lambda *_: "</del>")
    return reader


def _raw(_self: Any, tokens: Sequence[Any], index: int, *_: Any) -> str:
    """Hide comments, and show any other HTML as source text."""
    content = tokens[index].content
    if content.lstrip().startswith("<!--"):
        return ""
    escaped = escape(content)
    return f"<pre><code>{escaped}</code></pre>" if tokens[index].type == "html_block" else escaped


def _picture(_self: Any, tokens: Sequence[Any], index: int, *_: Any) -> str:
    token = tokens[index]
    return f"<em>[picture: {escape(token.content or str(token.attrGet('src') or ''))}]</em>"
