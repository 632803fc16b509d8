"""What does a file say about itself? Parses front matter, or the metadata block, into `FrontMatter`.

Every scalar is read as a string and interpreted here, so that YAML's type guesses (text that looks like
a date, `title: yes`) do no harm, and no YAML tag can construct an object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from spec_kit_memory.advice import Advice, finding
from spec_kit_memory.core import dates
from spec_kit_memory.core.memory import (
    CONTEXT_ALIASES,
    TIERS_MEANT,
    ContextType,
    DocumentWarning,
    FrontMatter,
    LinkClaim,
    Relation,
    Tier,
)
from spec_kit_memory.core.text_encoding import MARK
from spec_kit_memory.core.wording import close_names, short

MAX_CHARACTERS = 64_000
MAX_DEPTH = 64
MOST_QUESTIONS = 24  # a save stores up to eight; a merge of several saves keeps them all
LONGEST_QUESTION = 500
LONGEST_REASON = 280  # of the YAML parser, which may quote a name of any length
MAX_BRACKETS = 1_000  # the YAML scanner's time is quadratic in open brackets

# Canonical name -> spellings; the first one is written if the file has none of them.
KEYS: Mapping[str, tuple[str, ...]] = {
    "title": ("title",),
    "triggers": ("trigger_phrases", "triggers"),
    "tier": ("importance_tier", "tier"),
    "context_type": ("context_type",),
    "weight": ("importance_weight",),
    "created_at": ("created_at", "created", "date"),
    "expires_at": ("expires", "expires_at"),
    "spec_folder": ("spec_folder",),
    "session_id": ("session_id",),
    "channel": ("channel",),
    "causal_links": ("causal_links",),
    "questions": ("questions",),
}
_CANONICAL = {spelling.replace("_", ""): name for name, spellings in KEYS.items() for spelling in spellings}

# Key -> relation, does the link point to this document?, strength.
_RELATIONS: Mapping[str, tuple[Relation, bool, float]] = {
    "causedby": (Relation.CAUSED, True, 1.0),
    "enabledby": (Relation.ENABLED, True, 1.0),
    "supersedes": (Relation.SUPERSEDES, False, 1.0),
    "contradicts": (Relation.CONTRADICTS, False, 1.0),
    "derivedfrom": (Relation.DERIVED_FROM, False, 1.0),
    "supports": (Relation.SUPPORTS, False, 1.0),
    "relatedto": (Relation.SUPPORTS, False, 0.5),
}
_RELATION_KEYS = (
    "caused_by",
    "enabled_by",
    "supersedes",
    "contradicts",
    "derived_from",
    "supports",
    "related_to",
)
# Names that users often write instead of our keys.
_SHORTENED = {
    "weight": "importance_weight",
    "importance": "importance_tier",
    "priority": "importance_tier",
    "phrases": "trigger_phrases",
    "links": "causal_links",
    "session": "session_id",
    "expiry": "expires",
    "folder": "spec_folder",
    "related": "related_to, below causal_links",
}
_NOTHING = frozenset({"", "none", "n/a", "never"})
_KEY_LINE = re.compile(r"[\"']?[A-Za-z_][\w .-]{0,60}[\"']?[ \t]*:(?:[ \t]|$)")


_INDICATOR = re.compile(r"[-?:][ \t]")


@dataclass(frozen=True, slots=True)
class FrontBlock:
    """The lines between two `---`: the first and last line of YAML (last < first if empty)."""

    first_line: int
    last_line: int

    @property
    def body_first_line(self) -> int:
        return self.last_line + 2


def canonical(key: object) -> str | None:
    """The name behind any spelling of a key: case, underscores and hyphens do not count."""
    return _CANONICAL.get(compact(key))


def locate(lines: Sequence[str]) -> FrontBlock | None:
    """Find front matter, which may be preceded only by comments and empty lines."""
    if lines and lines[0].startswith(MARK):  # a second byte order mark, as joined files have
        lines = [lines[0].lstrip(MARK), *lines[1:]]
    number = _skip_comments(lines)
    if number > len(lines) or lines[number - 1].rstrip() != "---":
        return None
    for last in range(number + 1, len(lines) + 1):
        if lines[last - 1].rstrip() in ("---", "..."):
            block = FrontBlock(number + 1, last - 1)
            return block if _reads_like_keys(lines, block) else None
    return None


def _skip_comments(lines: Sequence[str]) -> int:
    """The first line that is neither empty nor part of a comment."""
    number, total = 1, len(lines)
    while number <= total:
        line = lines[number - 1].strip()
        if line.startswith("<!--"):
            while number <= total and "-->" not in lines[number - 1]:
                number += 1
            if number > total or lines[number - 1].partition("-->")[2].strip():
                return total + 1
        elif line:
            break
        number += 1
    return number


def _reads_like_keys(lines: Sequence[str], block: FrontBlock) -> bool:
    """Is this front matter, rather than text between two rules? Its first line with content decides."""
    for number in range(block.first_line, block.last_line + 1):
        line = lines[number - 1].strip()
        if line and not line.startswith("#"):
            return bool(_KEY_LINE.match(line)) or line.startswith("{")
    return True


def load(text: str, *, first_line: int) -> tuple[dict[str, Any], list[DocumentWarning]]:
    """Read YAML with strings for scalars; any problem becomes a warning."""
    refused = refusal(text)
    if refused:
        return {}, [DocumentWarning(finding("metadata-not-read", reason=refused), first_line, "yaml")]
    import yaml

    reader = loader()(text)
    try:
        data = reader.get_single_data()
    except yaml.YAMLError as problem:
        return {}, [_yaml_warning(problem, first_line)]
    except (RecursionError, ValueError) as problem:
        return {}, [DocumentWarning(finding("metadata-not-read", reason=type(problem).__name__), first_line, "yaml")]
    finally:
        reader.dispose()
    if data is None or data == "":
        return {}, []
    if not isinstance(data, dict):
        return {}, [DocumentWarning(finding("metadata-no-mapping"), first_line, "yaml")]
    repeated = [
        DocumentWarning(finding("key-twice", key=key[:80]), first_line + line, "metadata")
        for key, line in reader.repeated
    ]
    return data, repeated


@cache
def loader() -> Any:
    """A YAML loader for which every scalar is a string, or None where YAML says null."""
    import yaml

    class Strings(getattr(yaml, "CBaseLoader", yaml.BaseLoader)):  # type: ignore[misc]
        def __init__(self, stream: str) -> None:
            super().__init__(stream)
            self.repeated: list[tuple[str, int]] = []  # keys that a mapping has twice, and their lines from 0

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode):
                    if key.value in seen:
                        self.repeated.append((key.value, key.start_mark.line))
                    seen.add(key.value)
            return super().construct_mapping(node, deep=deep)

    null = "tag:yaml.org,2002:null"
    Strings.add_implicit_resolver(null, re.compile(r"(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
    Strings.add_constructor(null, lambda _loader, _node: None)
    return Strings


def refusal(text: str) -> Advice | None:
    """Why this YAML is not parsed: it would make the parser slow or the result huge. None if it may be parsed."""
    if len(text) > MAX_CHARACTERS:
        return finding("metadata-long", characters=len(text), most=f"{MAX_CHARACTERS:,}")
    if text.count("[") + text.count("{") > MAX_BRACKETS:
        return finding("metadata-brackets", most=f"{MAX_BRACKETS:,}")
    if "*" in text and _has_alias(text):
        return finding("metadata-aliases")
    if _too_deep(text):
        return finding("metadata-deep", most=MAX_DEPTH)
    return None


def _too_deep(text: str) -> bool:
    """Would building it overflow the stack? The builder recurses in C without a limit; reading events does not.

    Deep nesting in few characters is written on one line ("- - - -", "? ? ?"): without such a line, no check is needed.
    """
    if not any(len(_INDICATOR.findall(line)) > MAX_DEPTH for line in text.split("\n")):
        return False
    import yaml

    depth = 0
    try:
        for event in yaml.parse(text, Loader=loader()):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                return True
    except yaml.YAMLError:
        return False  # loading it will report the error
    return False


def _has_alias(text: str) -> bool:
    import yaml

    try:
        return any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=loader()))
    except yaml.YAMLError:
        return False  # loading it will report the error


def _yaml_warning(problem: Any, first_line: int) -> DocumentWarning:
    mark = getattr(problem, "problem_mark", None) or getattr(problem, "context_mark", None)
    reason = getattr(problem, "problem", None) or getattr(problem, "reason", None) or "unreadable"
    return DocumentWarning(
        finding("yaml-broken", reason=short(str(reason), LONGEST_REASON)),
        first_line + (mark.line if mark else 0),
        "yaml",
    )


def interpret(data: Mapping[str, Any], *, text: str, first_line: int) -> tuple[FrontMatter, list[DocumentWarning]]:
    """Turn the keys loaded from `text` into values; unknown values become warnings."""
    reader = _Reader(text, first_line)
    for key, value in data.items():
        name = canonical(key)
        reader.key = str(key)
        if name is None:
            reader.unread(value)
        elif not _is_nothing(value):
            reader.read(name, value)
    return FrontMatter(**reader.values), reader.warnings


def combine(first: FrontMatter, second: FrontMatter) -> FrontMatter:
    """The values of `first`, completed by those that only `second` has."""
    values = {item.name: getattr(first, item.name) or getattr(second, item.name) for item in fields(FrontMatter)}
    values["weight"] = second.weight if first.weight is None else first.weight
    return FrontMatter(**values)


def compact(key: object) -> str:
    """A key without case, underscores, hyphens and spaces, in which its spellings may differ."""
    return str(key).strip().lower().replace("_", "").replace("-", "").replace(" ", "")


def _nearest(word: str, choices: Sequence[str]) -> Advice:
    close = close_names(word.casefold(), choices, most=1, cutoff=0.7)
    return finding("nearest-name", name=close[0]) if close else finding("names-to-use", names=tuple(map(str, choices)))


@cache
def _closest_key(name: str) -> str:
    """The key that was probably meant; "" if this looks like the user's own key."""
    if name in _SHORTENED:
        return _SHORTENED[name]
    close = close_names(name, [key for key in _CANONICAL if len(key) > 3], most=1, cutoff=0.8)
    return KEYS[_CANONICAL[close[0]]][0] if close and len(name) > 3 else ""


def _is_nothing(value: object) -> bool:
    return not value or (isinstance(value, str) and not value.strip())


def _scalar(value: object) -> str:
    """A value as one line of text; YAML parses a list item such as `- like: this` as a mapping."""
    if isinstance(value, Mapping):
        value = ", ".join(f"{key}: {_scalar(item)}" for key, item in value.items())
    elif isinstance(value, list):
        value = ", ".join(_scalar(item) for item in value)
    return " ".join(str(value).split())


class _Reader:
    """Collects values by their `FrontMatter` names; the first spelling of a key wins, triggers are joined."""

    def __init__(self, text: str, first_line: int) -> None:
        self.text = text
        self.first_line = first_line
        self.key = ""
        self.values: dict[str, Any] = {}
        self.warnings: list[DocumentWarning] = []

    def warn(self, message: Advice) -> None:
        before = self.text.partition(self.key)[0] if self.key else ""
        self.warnings.append(DocumentWarning(message, self.first_line + before.count("\n"), "metadata"))

    def unread(self, value: Any) -> None:
        """Warn about an unknown key if it looks like one of ours, misplaced or misspelled."""
        name = compact(self.key)
        if name in _RELATIONS or name == "blocks":
            self.warn(finding("relation-outside-links", key=self.key[:80]))
        elif isinstance(value, Mapping) and (misplaced := [str(key) for key in value if canonical(key) is not None]):
            names = tuple(repr(name[:80]) for name in misplaced[:5])
            self.warn(finding("keys-too-low", names=names, key=self.key[:80]))
        elif closest := _closest_key(name):
            self.warn(finding("key-unknown", key=self.key[:80], closest=closest))

    def read(self, name: str, value: Any) -> None:
        if name == "triggers":
            self._triggers(value)
        elif name == "causal_links":
            self._links(value)
        elif name == "questions":
            self._questions(value)
        else:
            result = self._value(name, value)
            if name not in self.values:
                if result is not None:
                    self.values[name] = result
            elif result is not None and result != self.values[name]:
                self.warn(finding("key-contradicts-earlier", key=self.key[:80]))

    def _value(self, name: str, value: Any) -> object:
        text = _scalar(value)
        if name == "tier":
            return self._tier(text)
        if name == "context_type":
            return self._context_type(text)
        if name == "weight":
            return self._weight(text)
        if name in ("created_at", "expires_at"):
            return self._date(name, text)
        return text or None

    def _tier(self, text: str) -> Tier | None:
        try:
            return Tier(text.lower())
        except ValueError:
            meant = TIERS_MEANT.get(text.lower(), text)
            self.warn(finding("tier-unknown", tier=text[:80], advice=_nearest(meant, list(Tier))))
            return None

    def _context_type(self, text: str) -> ContextType | None:
        word = text.lower()
        if word in CONTEXT_ALIASES:
            return CONTEXT_ALIASES[word]
        try:
            return ContextType(word)
        except ValueError:
            self.warn(finding("context-type-unknown", type=text[:80], advice=_nearest(text, list(ContextType))))
            return None

    def _weight(self, text: str) -> float | None:
        try:
            weight = float(text)
        except ValueError:
            weight = -1.0
        if 0.0 <= weight <= 1.0:
            return weight
        self.warn(finding("weight-unreadable", weight=text[:80]))
        return None

    def _date(self, name: str, text: str) -> object:
        if text.lower() in _NOTHING or text == "0":
            return None
        when = dates.read(text)
        if when is None:
            self.warn(finding("date-unreadable", name=self.key[:80], text=text[:80]))
        return when

    def _triggers(self, value: Any) -> None:
        if isinstance(value, str) and value.strip().lower() in _NOTHING:
            return
        items = re.split(r"[,\n]", value) if isinstance(value, str) else value
        phrases = list(self.values.get("triggers", ()))
        folded_phrases = {phrase.casefold() for phrase in phrases}
        for item in items if isinstance(items, list) else [items]:
            phrase = "" if _is_nothing(item) else _scalar(item)
            if phrase and phrase.casefold() not in folded_phrases:
                folded_phrases.add(phrase.casefold())
                phrases.append(phrase)
        self.values["triggers"] = tuple(phrases)

    def _questions(self, value: Any) -> None:
        """A string is one question per line; commas do not separate questions."""
        items = value.split("\n") if isinstance(value, str) else value
        by_folded_text = {text.casefold(): text for text in self.values.get("questions", ())}
        for item in items if isinstance(items, list) else [items]:
            text = "" if _is_nothing(item) else _scalar(item)
            if len(text) > LONGEST_QUESTION:
                self.warn(finding("question-too-long", characters=len(text), most=LONGEST_QUESTION))
            elif text and text.lower() not in _NOTHING:
                by_folded_text.setdefault(text.casefold(), text)
        if len(by_folded_text) > MOST_QUESTIONS:
            self.warn(finding("questions-too-many", count=len(by_folded_text), most=MOST_QUESTIONS))
        self.values["questions"] = tuple(by_folded_text.values())[:MOST_QUESTIONS]

    def _links(self, value: Any) -> None:
        if isinstance(value, str) and value.strip().lower() in _NOTHING:
            return
        if not isinstance(value, Mapping):
            self.warn(finding("links-unreadable", text=_scalar(value)[:80]))
            return
        claims = dict.fromkeys(self.values.get("links", ()))
        for key, targets in value.items():
            claims.update(dict.fromkeys(self._claims(str(key), targets)))
        self.values["links"] = tuple(claims)

    def _claims(self, key: str, targets: Any) -> list[LinkClaim]:
        if isinstance(targets, str) and targets.strip().lower() in _NOTHING:
            return []
        items = [item for item in (targets if isinstance(targets, list) else [targets]) if not _is_nothing(item)]
        if not items:
            return []
        if compact(key) == "blocks":
            self.warn(finding("blocks-makes-no-link"))
            return []
        if compact(key) not in _RELATIONS:
            self.warn(finding("relation-unknown", relation=key[:80], advice=_nearest(key, _RELATION_KEYS)))
            return []
        relation, inward, strength = _RELATIONS[compact(key)]
        claims = [_claim(item, strength) for item in items]
        return [LinkClaim(relation, target, inward, force) for target, force in claims if target]


def _claim(item: Any, strength: float) -> tuple[str, float]:
    """A target and its strength, from text or from a mapping with a target and perhaps a strength."""
    if not isinstance(item, Mapping):
        return _scalar(item), strength
    keyed = {compact(key): value for key, value in item.items()}
    target = next((keyed[key] for key in ("target", "id", "path", "title") if keyed.get(key)), None)
    if target is None:
        return _scalar(item), strength
    try:
        value = float(keyed.get("strength", strength))
    except (TypeError, ValueError):
        value = strength
    return _scalar(target), value if 0.0 <= value <= 1.0 else strength
