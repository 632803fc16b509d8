"""Which data did a session pass for saving, and what is wrong with it?

`read` takes the short form (summary, decisions, files), the long form (prompts, observations, recent
context) or both. It either returns everything that was passed or raises one error with all problems.
Fields are accepted in any spelling: `specFolder`, `spec_folder`, `SPEC_FOLDER`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from spec_kit_memory.advice import Advice, finding
from spec_kit_memory.core.front_matter import LONGEST_QUESTION
from spec_kit_memory.core.memory import CONTEXT_ALIASES, TIERS_MEANT, ContextType, Tier
from spec_kit_memory.core.wording import close_names, counted
from spec_kit_memory.errors import Invalid

MOST_CHARACTERS = 900_000  # a memory file of more than 1 MB would be refused
MOST_NESTING = 40
LONGEST_TITLE = 500
MOST_QUESTIONS = 8
LINK_KEYS = (
    "caused_by",
    "enabled_by",
    "supersedes",
    "contradicts",
    "derived_from",
    "supports",
    "related_to",
    "blocks",
)

# Every spelling of a field, without case, hyphens and underscores -> its name here.
_FIELDS = {
    "specfolder": "spec_folder",
    "sessionsummary": "summary",
    "summary": "summary",
    "keydecisions": "decisions",
    "decisions": "decisions",
    "filesmodified": "files",
    "files": "files",
    "triggerphrases": "triggers",
    "manualtriggerphrases": "triggers",
    "triggers": "triggers",
    "questions": "questions",
    "technicalcontext": "technical",
    "nextsteps": "next_steps",
    "blockers": "blockers",
    "importancetier": "tier",
    "tier": "tier",
    "contexttype": "context_type",
    "title": "title",
    "links": "links",
    "causallinks": "links",
    "userprompts": "messages",
    "messages": "messages",
    "observations": "observations",
    "recentcontext": "recent",
    "state": "state",
    "projectstate": "state",
    "sessionid": "session_id",
    "channel": "channel",
}
_CONTENT = (
    "summary",
    "decisions",
    "files",
    "technical",
    "next_steps",
    "blockers",
    "messages",
    "observations",
    "recent",
    "state",
)
_NAMES = ("triggers", "files")  # in these, a single string may hold several items with commas between
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufeff]")
_LINE_ENDS = re.compile("\r\n?|\x85|\u2028|\u2029")
_SURROGATES = re.compile("[\ud800-\udfff]")
_BULLET = re.compile(r"\s*(?:[-*•]|\d{1,3}[.)])\s+")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Decision:
    text: str
    chosen: str = ""
    rationale: str = ""
    alternatives: tuple[str, ...] = ()
    extra: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChangedFile:
    path: str
    description: str = ""
    extra: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    speaker: str
    text: str
    time: str = ""
    extra: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Observation:
    kind: str
    title: str
    text: str
    facts: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    time: str = ""
    extra: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SessionData:
    """All data that was passed. `other` holds unknown fields unchanged."""

    spec_folder: str | None = None
    title: str = ""
    summary: str = ""
    decisions: tuple[Decision, ...] = ()
    files: tuple[ChangedFile, ...] = ()
    triggers: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()  # that the memory answers
    technical: Mapping[str, object] = field(default_factory=dict)
    next_steps: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()
    tier: Tier | None = None
    context_type: ContextType | None = None
    links: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    messages: tuple[Message, ...] = ()
    observations: tuple[Observation, ...] = ()
    recent: tuple[Mapping[str, object], ...] = ()
    state: Mapping[str, object] = field(default_factory=dict)
    session_id: str | None = None
    channel: str | None = None
    other: Mapping[str, object] = field(default_factory=dict)
    warnings: tuple[Advice, ...] = ()


def read(data: object, *, constitutional: bool = False) -> SessionData:
    """Parse session data; raises Invalid with all problems.

    `constitutional`: a person makes the request, so the data may set the tier constitutional.
    """
    reader = _Reader(checked(data))
    session = reader.session()
    if session.tier is Tier.CONSTITUTIONAL and not constitutional:
        reader.problems.append("importanceTier: only a person makes a memory constitutional; use critical")
    if not reader.problems and not any(getattr(session, name) for name in (*_CONTENT, "other")):
        reader.problems.append(
            "there is nothing to save: give sessionSummary, keyDecisions, observations or userPrompts"
        )
    if reader.characters > MOST_CHARACTERS:
        reader.problems.append(f"{reader.characters} characters are more than a memory holds ({MOST_CHARACTERS})")
    if reader.problems:
        raise _invalid(reader.problems)
    return session


def checked(data: object) -> Mapping[object, object]:
    """The data, if it is an object that is not nested too deep; its fields are not checked here."""
    if not isinstance(data, Mapping):
        raise _invalid([f"the session data is {_kind(data)}, not an object with fields"])
    if _too_deep(data):
        raise _invalid([f"the session data is nested more than {MOST_NESTING} levels deep"])
    return data


def _invalid(problems: list[str]) -> Invalid:
    return Invalid(
        f"The session data has {counted(len(problems), 'problem')}: {'; '.join(problems)}.",
        hint="Correct the fields named above and save again; nothing was written.",
        problems=problems,
    )


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names = {str: "a string", bool: "true or false", int: "a number", float: "a number"}
    if type(value) in names:
        return names[type(value)]
    return (
        "an object" if isinstance(value, Mapping) else "a list" if isinstance(value, list | tuple) else "no JSON value"
    )


def _too_deep(data: object) -> bool:
    level: list[object] = [data]
    for _ in range(MOST_NESTING):
        level = [child for value in level for child in _children(value)]
        if not level:
            return False
    return True


def _children(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _unpacked(value: object, kind: type) -> object:
    """The list or object in a JSON text; any other value unchanged."""
    if not isinstance(value, str) or not value.lstrip().startswith("[" if kind is list else "{"):
        return value
    try:
        read_ = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return read_ if isinstance(read_, kind) and not _too_deep(read_) else value


def _listed(value: object) -> object:
    """A list from a list, a JSON text, lines with bullets, or a single item."""
    value = _unpacked(_unpacked(value, list), dict)
    if isinstance(value, str):
        lines = [line for line in value.splitlines() if line.strip()]
        items = [_BULLET.match(line) for line in lines]
        if len(lines) > 1 and all(items):
            return [line[item.end() :] for line, item in zip(lines, items, strict=True) if item]
        return [value]
    return [value] if isinstance(value, Mapping) else value


def _did_you_mean(value: str, kinds: Iterable[str]) -> str:
    close = close_names(value, kinds, most=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _squash(key: str) -> str:
    return key.replace("_", "").replace("-", "").replace(" ", "").casefold()


def is_field(name: str) -> bool:
    return _squash(name) in _FIELDS


class _Reader:
    """Reads the fields one by one and collects all problems."""

    def __init__(self, data: Mapping[object, object]) -> None:
        self.problems: list[str] = []
        self.warnings: list[Advice] = []
        self.characters = 0
        self._values: dict[str, list[tuple[str, object]]] = {}
        self._other: dict[str, object] = {}
        for key, value in data.items():
            name = _FIELDS.get(_squash(str(key)))
            if value is None:
                continue
            if name is None:
                _put(self._other, self._text(str(key)), self._any(value))
                self.warnings.append(finding("field-unknown", key=str(key)))
            else:
                self._values.setdefault(name, []).append((str(key), value))

    def session(self) -> SessionData:
        decisions = self._list("decisions", self._decision)
        observations = self._list("observations", self._observation)
        return SessionData(
            spec_folder=self._line("spec_folder") or None,
            title=self._title(),
            summary=self._paragraphs("summary"),
            decisions=tuple(decisions),
            files=tuple(self._list("files", self._file)),
            triggers=tuple(dict.fromkeys(self._list("triggers", self._phrase))),
            questions=self._questions(),
            technical=self._object("technical", "note"),
            next_steps=tuple(self._list("next_steps", self._item)),
            blockers=tuple(self._list("blockers", self._item)),
            tier=self._tier(),
            context_type=self._context_type(),
            links=self._links(),
            messages=tuple(self._list("messages", self._message)),
            observations=tuple(observations),
            recent=tuple(self._list("recent", self._recent)),
            state=self._object("state", "state"),
            session_id=self._line("session_id") or None,
            channel=self._line("channel") or None,
            other=self._other,
            warnings=tuple(self.warnings),
        )

    # --- texts

    def _text(self, value: str) -> str:
        self.characters += len(value)
        value = _LINE_ENDS.sub("\n", value)
        return _SURROGATES.sub("\ufffd", _UNPRINTABLE.sub("", value))

    def _any(self, value: object) -> object:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return self._all(value)
        if isinstance(value, list | tuple):
            return [self._any(child) for child in value]
        if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
            return str(value)
        return value if isinstance(value, int | float) or value is None else self._text(str(value))

    def _all(self, value: Mapping[object, object]) -> dict[str, object]:
        """Every entry of an object; if cleaning makes two names equal, both entries are kept."""
        entries: dict[str, object] = {}
        for key, child in value.items():
            _put(entries, self._text(str(key)), self._any(child))
        return entries

    def _scalar(self, value: object, where: str) -> str:
        """A string, or a number as a string; anything else is a problem."""
        if isinstance(value, str):
            return self._text(value).strip()
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        self.problems.append(f"{where} is {_kind(value)}, not a string")
        return ""

    # --- single fields

    def _single_value(self, name: str) -> tuple[str, object] | None:
        values = self._values.get(name, [])
        if len(values) > 1 and any(value != values[0][1] for _, value in values):
            self.problems.append(f"{' and '.join(key for key, _ in values)} are the same field with two values")
        return values[0] if values else None

    def _line(self, name: str) -> str:
        value = self._single_value(name)
        return " ".join(self._scalar(value[1], value[0]).split()) if value else ""

    def _paragraphs(self, name: str) -> str:
        values = self._values.get(name, [])
        texts = [self._scalar(text, key) for key, value in values for text in _as_list(_unpacked(value, list))]
        return "\n\n".join(dict.fromkeys(text for text in texts if text))

    def _object(self, name: str, label: str) -> dict[str, object]:
        """An object; a plain string becomes its only entry, under `label`."""
        merged: dict[str, object] = {}
        for key, raw in self._values.get(name, []):
            value = _unpacked(raw, dict)
            if isinstance(value, Mapping):
                fields = self._all({entry: child for entry, child in value.items() if child is not None})
                for entry, child in fields.items():
                    _put(merged, entry, child)
            elif isinstance(value, str):
                if value.strip():
                    _put(merged, label, self._text(value).strip())
            else:
                self.problems.append(f"{key} is {_kind(value)}, not an object")
        return merged

    def _title(self) -> str:
        title = self._line("title")
        if len(title) > LONGEST_TITLE:
            self.problems.append(f"title has {len(title)} characters; at most {LONGEST_TITLE} are a title")
        return title

    def _questions(self) -> tuple[str, ...]:
        by_folded_text = {text.casefold(): text for text in reversed(self._list("questions", self._phrase))}
        questions = tuple(reversed(by_folded_text.values()))
        if len(questions) > MOST_QUESTIONS:
            self.problems.append(
                f"questions has {counted(len(questions), 'text')}; at most {MOST_QUESTIONS} are kept with a memory"
            )
        long = max(map(len, questions), default=0)
        if long > LONGEST_QUESTION:
            self.problems.append(f"questions has one of {long} characters; at most {LONGEST_QUESTION} are a question")
        return questions

    def _tier(self) -> Tier | None:
        value = self._line("tier").casefold()
        if not value:
            return None
        if value not in set(Tier):
            meant = _did_you_mean(TIERS_MEANT.get(value, value), Tier)
            self.problems.append(f"importanceTier {value!r} is none of {', '.join(Tier)}{meant}")
            return None
        return Tier(value)

    def _context_type(self) -> ContextType | None:
        value = self._line("context_type").casefold()
        if not value:
            return None
        if value in set(ContextType):
            return ContextType(value)
        if value not in CONTEXT_ALIASES:
            names = ", ".join(ContextType)
            self.problems.append(f"contextType {value!r} is none of {names}{_did_you_mean(value, ContextType)}")
        return CONTEXT_ALIASES.get(value)

    def _links(self) -> dict[str, tuple[str, ...]]:
        links: dict[str, tuple[str, ...]] = {}
        for key, raw in self._values.get("links", []):
            value = _unpacked(raw, dict)
            if not isinstance(value, Mapping):
                self.problems.append(f"{key} is {_kind(value)}, not an object")
                continue
            for relation, targets in value.items():
                name = next((link_key for link_key in LINK_KEYS if _squash(link_key) == _squash(str(relation))), None)
                if name is None:
                    self.problems.append(f"{key}.{relation} is none of {', '.join(LINK_KEYS)}")
                elif link_targets := [self._scalar(target, f"{key}.{relation}") for target in _as_list(targets)]:
                    links[name] = (*links.get(name, ()), *(target for target in link_targets if target))
                    if name == "blocks":
                        self.warnings.append(finding("blocks-kept-as-text"))
        return links

    # --- lists

    def _list(self, name: str, read_one: Callable[[object, str], T | None]) -> list[T]:
        items: list[T] = []
        for key, raw in self._values.get(name, []):
            value = _listed(raw)
            if name in _NAMES and isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
                value = re.split(r"[,;\n]", value[0]) if value[0] == raw else value  # a string in place of a list
            if not isinstance(value, list | tuple):
                self.problems.append(f"{key} is {_kind(value)}, not a list")
                continue
            for number, entry in enumerate(value):
                if entry is None or (isinstance(entry, str) and not entry.strip()):
                    continue
                item = read_one(entry, f"{key}[{number}]")
                if item is not None:
                    items.append(item)
        return items

    def _phrase(self, value: object, where: str) -> str | None:
        return " ".join(self._scalar(value, where).split()) or None

    def _item(self, value: object, where: str) -> str | None:
        """A step or blocker: a string, or an object whose values are joined to one string."""
        if not isinstance(value, Mapping):
            return self._scalar(value, where) or None
        texts = [
            f"{key}: {_plain(self._any(child))}" if number else _plain(self._any(child))
            for number, (key, child) in enumerate(value.items())
            if child not in (None, "", [])
        ]
        return "; ".join(texts) or None

    def _fields_of(
        self, value: Mapping[object, object], names: Mapping[str, str]
    ) -> tuple[dict[str, object], dict[str, object]]:
        """The known fields of an object by their names here, and the other fields unchanged."""
        fields: dict[str, object] = {}
        extra: dict[str, object] = {}
        for key, child in value.items():
            if child is None:
                continue
            name = names.get(_squash(str(key)))
            if name is None or name in fields:
                _put(extra, self._text(str(key)), self._any(child))
            else:
                fields[name] = child
        return fields, extra

    def _texts(self, value: object, where: str) -> tuple[str, ...]:
        """A list of strings; objects and lists in it become text."""
        texts = []
        for number, entry in enumerate(_as_list(value)):
            if isinstance(entry, Mapping | list | tuple):
                texts.append(_plain(self._any(entry)))
            elif entry is not None:
                texts.append(self._scalar(entry, f"{where}[{number}]"))
        return tuple(text for text in texts if text)

    def _decision(self, value: object, where: str) -> Decision | None:
        if not isinstance(value, Mapping):
            text = self._scalar(value, where)
            return Decision(text) if text else None
        fields, extra = self._fields_of(value, _DECISION)
        text = self._scalar(fields.get("text", ""), f"{where}.decision")
        chosen = self._scalar(fields.get("chosen", ""), f"{where}.chosen")
        if not text and not chosen:
            self.problems.append(f"{where} names no decision (its field decision is missing)")
            return None
        rationale = "\n\n".join(self._texts(fields.get("rationale", ()), f"{where}.rationale"))
        alternatives = self._texts(fields.get("alternatives", ()), f"{where}.alternatives")
        if not text:
            text, chosen = chosen, ""
        return Decision(text, chosen, rationale, alternatives, extra)

    def _file(self, value: object, where: str) -> ChangedFile | None:
        if not isinstance(value, Mapping):
            path = self._scalar(value, where)
            return ChangedFile(" ".join(path.split())) if path else None
        fields, extra = self._fields_of(value, _FILE)
        path = " ".join(self._scalar(fields.get("path", ""), f"{where}.path").split())
        if not path:
            self.problems.append(f"{where} names no file (its field path is missing)")
            return None
        return ChangedFile(path, self._scalar(fields.get("description", ""), f"{where}.description"), extra)

    def _message(self, value: object, where: str) -> Message | None:
        if not isinstance(value, Mapping):
            text = self._scalar(value, where)
            return Message("user", text) if text else None
        fields, extra = self._fields_of(value, _MESSAGE)
        text = "\n\n".join(self._texts(fields.get("text", ()), f"{where}.prompt"))
        if not text:
            self.problems.append(f"{where} has no text (its field prompt is missing)")
            return None
        speaker = " ".join(self._scalar(fields.get("speaker", "user"), f"{where}.role").split()) or "user"
        return Message(speaker, text, self._scalar(fields.get("time", ""), f"{where}.timestamp"), extra)

    def _observation(self, value: object, where: str) -> Observation | None:
        if not isinstance(value, Mapping):
            text = self._scalar(value, where)
            return Observation("", "", text) if text else None
        fields, extra = self._fields_of(value, _OBSERVATION)
        observation = Observation(
            kind=" ".join(self._scalar(fields.get("kind", ""), f"{where}.type").split()),
            title=" ".join(self._scalar(fields.get("title", ""), f"{where}.title").split()),
            text="\n\n".join(self._texts(fields.get("text", ()), f"{where}.narrative")),
            facts=self._texts(fields.get("facts", ()), f"{where}.facts"),
            files=self._texts(fields.get("files", ()), f"{where}.files"),
            time=self._scalar(fields.get("time", ""), f"{where}.timestamp"),
            extra=extra,
        )
        if not (observation.title or observation.text or observation.facts or extra):
            self.problems.append(f"{where} says nothing (its fields title and narrative are missing)")
            return None
        return observation

    def _recent(self, value: object, where: str) -> dict[str, object] | None:
        if not isinstance(value, Mapping):
            text = self._scalar(value, where)
            return {"": text} if text else None
        return self._all({key: child for key, child in value.items() if child is not None}) or None


_DECISION = {
    **dict.fromkeys(("decision", "title", "text", "name", "what"), "text"),
    **dict.fromkeys(("chosen", "choice", "selected"), "chosen"),
    **dict.fromkeys(("rationale", "reason", "why", "reasoning"), "rationale"),
    **dict.fromkeys(("alternatives", "options", "rejected"), "alternatives"),
}
_FILE = {
    **dict.fromkeys(("path", "file", "filepath", "filename", "name"), "path"),
    **dict.fromkeys(("description", "changes", "summary", "change"), "description"),
}
_MESSAGE = {
    **dict.fromkeys(("prompt", "text", "content", "message"), "text"),
    **dict.fromkeys(("role", "speaker", "author"), "speaker"),
    **dict.fromkeys(("timestamp", "time", "date"), "time"),
}
_OBSERVATION = {
    **dict.fromkeys(("type", "kind", "category"), "kind"),
    "title": "title",
    **dict.fromkeys(("narrative", "text", "description", "content"), "text"),
    "facts": "facts",
    "files": "files",
    **dict.fromkeys(("timestamp", "time", "date"), "time"),
}


def _put(entries: dict[str, object], name: str, value: object) -> None:
    """Add an entry; if the name is taken by a different value, stars are appended to it, so that nothing is lost."""
    while name in entries and repr(entries[name]) != repr(value):
        name += "*"
    entries[name] = value


def _as_list(value: object) -> Iterable[object]:
    return value if isinstance(value, list | tuple) else (value,)


def _plain(value: object) -> str:
    """A JSON value as one readable line of text."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_plain(child)}" for key, child in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_plain(child) for child in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
