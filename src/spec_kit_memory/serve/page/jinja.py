"""How do templates format dates, numbers and names? The Jinja environment of the page."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from enum import Enum
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from spec_kit_memory.advice import Advice
from spec_kit_memory.core.wording import counted, since
from spec_kit_memory.serve import render
from spec_kit_memory.serve.page.document import section_id, visible
from spec_kit_memory.serve.page.static_files import address

_COMMAND = re.compile(r"`|(?<![\w-])--[a-z]")  # in advice: a call, or an option
# Every tier and state has a symbol in addition to its colour.
SIGNS = {
    "constitutional": "◆",
    "critical": "▲",
    "important": "●",
    "normal": "○",
    "temporary": "◌",
    "deprecated": "✕",
    "HOT": "▰▰▰▰",
    "WARM": "▰▰▰▱",
    "COLD": "▰▰▱▱",
    "DORMANT": "▰▱▱▱",
    "ARCHIVED": "▱▱▱▱",
}


EXCERPT_LINES, EXCERPT = 12, 800  # lines and characters; the style sheet shows three lines
_RULE = re.compile(r"#|<!--|---|```|\|[\s:|-]+$")  # begins a line of markdown that is no text
_SIGNS = re.compile(r"\*\*(?=\S)|(?<=\S)\*\*|`+|^[-*+] (?:\[[ xX]\] )?|^\| *|\|$")
_EMPHASIS = re.compile(r"(?<![\w*])\*(?=[^\s*])([^*]*[^\s*])\*(?![\w*])")  # of one asterisk; a lone one multiplies


def html(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("spec_kit_memory.serve.page", "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        finalize=_rendered,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "ago": _ago,
        "day": _day,
        "minute": _minute,
        "number": lambda value: f"{value:,}",
        "size": _size,
        "section_id": section_id,
        "json": _json,
        "advice": _advice,
        "commands": _commands,
        "excerpt": _excerpt,
        "sentence": sentence,
        "tail": _tail,
        "as_is": lambda value: escape(str(value)),  # for hidden fields, which are sent back and not shown
        "said": _as_words,
        "address": lambda name: quote(str(name), safe="/"),
    }
    environment.globals |= {"static": address, "counted": counted, "with_query": _with_query, "signs": SIGNS}
    # Where nobody's role restricts what is offered, everything is.
    environment.globals |= {"may": lambda _address: True, "may_rule": True}
    return environment


def sentence(text: object) -> str:
    """The text with a capital at its beginning, unless that is a path or a name."""
    first_word = str(text).split(" ", 1)[0].rstrip(".:,;")
    if re.search(r"[/._\\]", first_word):
        return str(text)
    return f"{str(text)[:1].upper()}{str(text)[1:]}"


def _rendered(value: Any) -> Any:
    """Convert an inserted value: enums to their values, and text without hidden characters."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, Advice):
        value = str(value)
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return "" if value is None else value


def _advice(text: str) -> str:
    """Advice without the clauses that name a command: the page has buttons for those."""
    clauses = [clause for clause in re.split(r"(?<=[:;.]) ", str(text)) if not _COMMAND.search(clause)]
    return " ".join(clauses).rstrip(":;. ")


def _commands(text: str) -> Markup:
    """A sentence in which what stands between backticks is a command."""
    parts = (escape(visible(part)) for part in str(text).split("`"))
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


def _excerpt(text: str, title: str = "") -> str:
    """The text of a passage without markup; headings only if there is no other text, and not the title."""
    lines = [line.strip() for line in str(text).split("\n") if line.strip()]
    headings = [line.lstrip("# ") for line in lines if line.startswith("#")]
    shown = [line for line in lines if not _RULE.match(line)]
    shown = shown or [heading for heading in headings if heading.rstrip("…") != title]
    return "\n".join(map(_without_signs, shown[:EXCERPT_LINES]))[:EXCERPT]


def _without_signs(line: str) -> str:
    return _EMPHASIS.sub(r"\1", _SIGNS.sub("", line)).strip().replace(" | ", " · ")


def _with_query(path: str, query: Mapping[str, str], **changed: str | None) -> str:
    """An address with some parameters changed; None or an empty value removes one."""
    merged = {name: value for name, value in ({**query, **changed}).items() if value}
    return f"{path}?{urlencode(merged)}" if merged else path


def _as_words(value: Any) -> str:
    """A value of a memory's front matter as text."""
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return ", ".join(value) or "none"
    return value if isinstance(value, str) else _json(value)


def _tail(path: str, most: int = 44) -> str:
    """The end of a path, which differs most between files: as many of its last names as fit."""
    names = str(path).split("/")
    shown = names.pop()
    while names and len(names[-1]) + 1 + len(shown) <= most:
        shown = f"{names.pop()}/{shown}"
    return f"…/{shown}" if names else shown


def _ago(moment: datetime | None) -> str:
    if moment is None:
        return "never"
    return since((datetime.now(UTC) - moment).total_seconds())


def _day(moment: datetime | date | None) -> str:
    return f"{moment:%Y-%m-%d}" if moment else ""


def _minute(moment: datetime | None) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}" if moment else ""


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def _json(value: Any) -> str:
    return json.dumps(render.value(value), ensure_ascii=False, separators=(",", ":"))
