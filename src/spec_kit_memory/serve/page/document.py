"""How is a memory's text shown? As harmless HTML, because its author is not trusted.

Markdown is rendered without raw HTML, and the result is cleaned once more by a sanitiser. Images become text, links
lead only to other sites, and characters that are invisible or change the direction of a line are shown as codes.

An agent reads the source, so nothing that is written there may be missing here: comments, titles and targets of links,
definitions and the language of a block are shown as text, and `left_out` names what is lost in other ways.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from html import escape, unescape
from typing import TYPE_CHECKING, Any
from unicodedata import category
from urllib.parse import unquote, urlsplit

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token

from spec_kit_memory.core.structure import ANCHOR_TAG

if TYPE_CHECKING:
    from spec_kit_memory.page_answers import Section

LONGEST = 100_000  # characters that are rendered, for no heap of marks may cost seconds; a link shows the whole text
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
# More marks on one letter than Unicode's stream-safe format allows: browsers take quadratic time to draw such a run.
_MARKS = "".join(chr(code) for code in range(0x300, 0x1F000) if category(chr(code)).startswith("M"))
_MARKS += "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff\u200c\u200d"  # the colours of skin, and joiners
_HEAP = re.compile(f"[{_MARKS}]{{31,}}")
_TAGS = {
    "a", "blockquote", "br", "code", "del", "div", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p",
    "pre", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_SECTION_BLOCKS = ("h1", "h2", "h3", "h4", "h5", "h6", "p", "ul", "blockquote")  # blocks that may carry a section's id
_ATTRIBUTES = {
    "a": {"href"},
    "div": {"class", "tabindex"},
    "code": {"class"},
    "pre": {"class"},
    "ol": {"id", "start"},
    **{tag: {"id"} for tag in _SECTION_BLOCKS},
    "p": {"class", "id"},
}
_CLASSES = {"wide", "unseen", "label"}  # a wide table, source that markdown does not show, the name of what follows
_SCHEMES = {"http", "https", "mailto"}
_MARKUP = re.compile(r"<[^<>]*>")
_HREF = re.compile(r'href="([^"]*)"')
_SITE = re.compile(r"\s*(?:[a-z][a-z0-9+.-]{0,20}://|(?=www\.))([^\s/?#]+)", re.IGNORECASE)
_WORDS = re.compile(r"[^\W_]+")
_SAFE_ID = re.compile(r"[^A-Za-z0-9_-]+")


def visible(text: str) -> str:
    """The text with every invisible or direction-changing character, and every heap of marks, replaced by a code."""
    if not text.isascii():
        text = _HEAP.sub(_counted_code, text)
    return _UNSEEN.sub(_visible_code, text)


def _visible_code(unseen: re.Match[str]) -> str:
    if unseen["flag"]:  # tag letters that encode a visible flag, such as Scotland's
        return unseen[0]
    if unseen["tags"]:
        letters = (chr(ord(sign) & 0x7F) for sign in unseen[0])
        return f"[hidden: {''.join(letter for letter in letters if letter.isprintable())}]"
    return _counted_code(unseen)


def _counted_code(run: re.Match[str]) -> str:
    more = f" × {len(run[0])}" if len(run[0]) > 1 else ""
    return f"[U+{ord(run[0][0]):04X}{more}]"


def section_id(name: str) -> str:
    """The id of a section in our page; the prefix keeps it apart from ids that our scripts use."""
    return f"section-{_SAFE_ID.sub('-', name)[:80]}"


def html_of(text: str, *, sections: Sequence[Section] = (), first_line: int = 1) -> str:
    """Render markdown as sanitised HTML; `sections` get ids. The text begins at line `first_line` of its file."""
    reader, environment = _reader(), dict[str, Any]()
    tokens = reader.parse(visible(text[:LONGEST]), environment)
    environment["opened"] = {tag[2].lower() for tag in ANCHOR_TAG.finditer(text[:LONGEST]) if not tag[1]}
    environment["unnamed"] = _name_sections(tokens, sections, first_line)
    for token in tokens:
        if token.children:
            token.children = list(_shown_whole(token.children))
    clean = nh3.clean(
        reader.renderer.render(tokens, reader.options, environment) + _definitions(environment),
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        attribute_filter=_allowed_attribute,
        url_schemes=_SCHEMES,
        link_rel="noopener noreferrer nofollow",
    )
    # No attribute starts with "/", so this is text. Escaping the quote keeps `below` in `routes` from changing it.
    return clean.replace('="/', "=&quot;/")


def left_out(text: str, html: str) -> list[str]:
    """The words of a text that its HTML does not show, such as those of a table's surplus cells."""
    source = _words(ANCHOR_TAG.sub(" ", text[:LONGEST]))
    missing = set(source).difference(_words(_MARKUP.sub(" ", html)))
    if missing:
        addresses = " ".join(unquote(address) for address in _HREF.findall(html))
        missing.difference_update(_words(_MARKUP.sub("", html)), _words(addresses))
    return [word for word in dict.fromkeys(source) if word in missing and not word.isdigit()]


def _words(text: str) -> list[str]:
    """Its words in small letters, with character references resolved."""
    return _WORDS.findall((unescape(text) if "&" in text else text).casefold())


def _allowed_attribute(tag: str, name: str, value: str) -> str | None:
    if name == "href":
        return value if value.lower().startswith(tuple(f"{scheme}:" for scheme in _SCHEMES)) else None
    if name == "class":
        return value if value in _CLASSES else None
    if name == "tabindex":
        return "0"
    return value if name in ("id", "start", "rel") else None


def _name_sections(tokens: Sequence[Any], sections: Sequence[Section], first_line: int) -> set[str]:
    """Each section's id goes to the first block that begins in it; returns those for which there is none."""
    unnamed = set()
    blocks = [token for token in tokens if token.level == 0 and token.nesting >= 0 and token.map]
    blocks = [token for token in blocks if token.type != "html_block"]
    lines = [block.map[0] + first_line for block in blocks]
    free = list(range(len(blocks) + 1))  # the index of each block, or a later one if it has an id already
    for section in sections:
        at = _next_free(free, bisect_left(lines, section.first_line))
        if at == len(blocks) or lines[at] > section.last_line or "id" not in _ATTRIBUTES.get(blocks[at].tag, ()):
            unnamed.add(section_id(section.id))
        else:
            blocks[at].attrSet("id", section_id(section.id))
            free[at] = at + 1
    return unnamed


def _next_free(free: list[int], at: int) -> int:
    """Follow the indexes to one that names itself, and shorten the way for the next time."""
    while free[at] != at:
        free[at] = free[free[at]]
        at = free[at]
    return at


@cache
def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": True, "linkify": False}).enable(["table", "strikethrough"])
    reader.add_render_rule("html_block", _raw_block)
    reader.add_render_rule("html_inline", _raw_inline)
    reader.add_render_rule("image", _picture)
    reader.add_render_rule("fence", _fence)
    reader.add_render_rule("table_open", lambda *_: '<div class="wide" tabindex="0"><table>')
    reader.add_render_rule("table_close", lambda *_: "</table></div>")
    reader.add_render_rule("s_open", lambda *_: "<del>")
    reader.add_render_rule("s_close", lambda *_: "</del>")
    return reader


def _shown_whole(children: Sequence[Token]) -> Iterator[Token]:
    """The parts of a line, with the title and the target of a link as text where a browser would not show them."""
    opened: list[tuple[str, str]] = []  # the address and title of a link
    words: list[str] = []  # of the innermost link
    for token in children:
        if token.type == "text":
            token.content = visible(token.content)  # a character reference can stand for what is not seen
        yield token
        words.append(token.content)
        if token.type == "link_open":
            opened.append((str(token.attrGet("href") or ""), str(token.attrGet("title") or "")))
            words.clear()
        if token.type == "link_close" and opened:
            address, title = opened.pop()
            is_seen = address.partition(":")[0].lower() in _SCHEMES and not _is_disguised("".join(words), address)
            parts = ("" if is_seen else visible(unquote(address)), f"“{visible(title)}”" if title else "")
            if said := " ".join(filter(None, parts)):
                yield Token("text", "", 0, content=f" ({said})")


def _is_disguised(words: str, address: str) -> bool:
    """Do the words of a link name another site than the one it leads to?"""
    named = _SITE.match(words)
    try:
        return named is not None and urlsplit(f"//{named[1]}").hostname != urlsplit(address).hostname
    except ValueError:  # of no valid form
        return True


def _raw_block(_self: Any, tokens: Sequence[Any], index: int, _options: Any, environment: Any) -> str:
    """Show HTML and comments as source text, and the name of a section that begins here as its label."""
    content = tokens[index].content
    rest = ANCHOR_TAG.sub(lambda tag: "" if tag[2].lower() in environment["opened"] else tag[0], content)
    if rest.strip():
        unseen = ' class="unseen"' if not _without_comments(content).strip() else ""
        return f"<pre{unseen}><code>{escape(content)}</code></pre>"
    is_headed = index + 2 < len(tokens) and tokens[index + 1].type == "heading_open"
    heading = tokens[index + 2].content if is_headed else ""
    opened = [tag[2] for tag in ANCHOR_TAG.finditer(content) if not tag[1]]
    return "".join(_label(name, environment["unnamed"]) for name in opened if not _repeats(name, heading))


def _without_comments(text: str) -> str:
    """In one pass: a pattern would look for the end of a comment from each of its beginnings."""
    *ended, rest = text.split("-->")
    return "".join(part.partition("<!--")[0] if "<!--" in part else f"{part}-->" for part in ended) + rest


def _label(name: str, unnamed: set[str]) -> str:
    own = f' id="{section_id(name)}"' if section_id(name) in unnamed else ""
    return f'<p class="label"{own}>{escape(name.replace("-", " "))}</p>'


def _repeats(name: str, heading: str) -> bool:
    """Does a heading say all that a section's name says?"""
    return set(_words(name)) <= set(_words(heading))


def _raw_inline(_self: Any, tokens: Sequence[Any], index: int, *_: Any) -> str:
    content = tokens[index].content
    escaped = escape(content)
    return f'<code class="unseen">{escaped}</code>' if content.startswith("<!--") else escaped


def _picture(_self: Any, tokens: Sequence[Any], index: int, *_: Any) -> str:
    token = tokens[index]
    title = str(token.attrGet("title") or "")
    said = (token.content, unquote(str(token.attrGet("src") or "")), f"“{title}”" if title else "")
    return f"<em>[picture: {escape(visible(', '.join(filter(None, said))))}]</em>"


def _fence(_self: Any, tokens: Sequence[Any], index: int, *_: Any) -> str:
    token = tokens[index]
    info = visible(unescape(token.info)).strip()
    label = f'<p class="label">{escape(info)}</p>' if info else ""
    return f"{label}<pre><code>{escape(token.content)}</code></pre>\n"


def _definitions(environment: Mapping[str, Any]) -> str:
    """The addresses and titles that a text defines for its links, which markdown leaves out."""
    found = [
        *environment.get("references", {}).items(),
        *((row["label"], row) for row in environment.get("duplicate_refs", ())),
    ]
    rows = []
    for label, row in found:
        title = f' "{row["title"]}"' if row["title"] else ""
        rows.append(visible(f"[{label.lower()}]: {unquote(row['href'])}{title}"))
    return f'<pre class="unseen"><code>{escape(chr(10).join(rows))}</code></pre>' if rows else ""
