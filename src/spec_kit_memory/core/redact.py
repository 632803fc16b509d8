"""Which parts of a text are secrets? They are replaced by `[REDACTED:<kind>]` before anything keeps the text.

One pass over the text finds the few places where a secret could start (provider prefixes, names such as "password",
programs); readers then decide at each place whether there is one. Lines are never added or removed, and the time is
proportional to the length.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from spec_kit_memory.advice import advise
from spec_kit_memory.core import secret_commands as commands
from spec_kit_memory.core import secret_documents as documents
from spec_kit_memory.core import secret_names as names
from spec_kit_memory.core import secret_prose as prose
from spec_kit_memory.core import secret_values as values
from spec_kit_memory.core.disguises import as_read
from spec_kit_memory.core.secret_formats import FORMATS, Format
from spec_kit_memory.core.secret_values import Span
from spec_kit_memory.errors import SecretScanFailed

_GENERAL = frozenset(("password", "secret", "token", "api-key", "key"))  # other kinds are more specific
# A new mark can reveal a secret next to it, since it ends a run of letters: the text this close to it is scanned again.
_UNCOVERED_CHARACTERS = 1_000
_ROUNDS = 4  # only crafted texts need more; from then on, whole lines are redacted
_MOST_ROUNDS = 12
# With more secret names than this, and more than one per forty characters, the text is not written by a person. Reading
# each place would take seconds per megabyte, so the lines with such names are redacted whole. Other places, such as
# `://`, are read quickly.
_MOST_PLACES, _DENSEST = 15_000, 40
_SLOW_LITERALS = frozenset((*names.ASSIGNED, *prose.NOUNS, "kind: Secret", '"kind":"Secret"', '"kind": "Secret"'))
_MARK = re.compile(r"\[REDACTED:[^\]\n]{0,40}\]")
_SPACE = re.compile(r"\s")
_QUOTES = ('"', "'", "`", '"""')
_LINE_END = re.compile(r"([\r\n]+)")

_Reader = Callable[[str, int, int], Iterable[Span]]  # arguments: text, start and end of the literal
_Automaton = tuple[Any, list[list[_Reader]], list[bool]]  # automaton; for each literal: its readers, are they slow?


@dataclass(frozen=True, slots=True)
class Redacted:
    """The text without secrets, and how many of each kind were found."""

    text: str
    counts: Mapping[str, int]


def redact(text: str) -> Redacted:
    """Replace every secret; raise SecretScanFailed if the text could not be scanned."""
    counts: Counter[str] = Counter()
    try:
        windows: Sequence[tuple[int, int]] = [(0, len(text))]
        for number in range(_MOST_ROUNDS):
            spans = _joined(_spans(text, windows))
            if not spans:
                return Redacted(text, dict(counts))
            if number >= _ROUNDS:
                spans = _joined(_whole_lines(text, spans))
            counts.update(kind for _, _, kind in spans)
            text, windows = _replaced(text, spans)
        raise RuntimeError(f"secrets were still found in round {_MOST_ROUNDS}")
    except (ImportError, AttributeError, LookupError, TypeError, ValueError, RuntimeError) as problem:
        raise SecretScanFailed(
            f"the scan for secrets failed: {type(problem).__name__}: {problem}",
            hint=advise("health-or-reinstall"),
        ) from problem


def kept_id(identifier: str) -> str:
    """An external id in a form that may be stored: if it contains a secret, a digest of it.

    The digest is the same each time, so that it still identifies the same thing, but does not reveal the secret.
    """
    if not redact(identifier).counts:
        return identifier
    return f"redacted-{hashlib.sha256(identifier.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


def redact_data(value: Any, counts: Counter[str], name: str = "") -> Any:
    """The data with every secret in its texts replaced; `name` is the name of the field that holds the data.

    The data is rendered as one page of lines with names next to values, and scanned once: only so is a password
    recognised by the name of its field, and a Kubernetes Secret by its kind.
    """
    rows: list[_Row] = []
    _lay_out(value, _Label(name), rows)
    clean = redact("\n".join(row.line for row in rows))
    counts.update(clean.counts)
    return _rebuilt(value, iter(_cut(rows, clean.text.split("\n"))))


@dataclass(frozen=True, slots=True)
class _Label:
    """The name and indentation of a value on the page."""

    name: str = ""
    indent: str = ""
    item: bool = False  # it is the beginning of a list item

    @property
    def below(self) -> str:
        return f"{self.indent}  "


@dataclass(frozen=True, slots=True)
class _Row:
    """A line, or several, of the page: a text of the data, or the name of an object or list whose rows follow."""

    name: str
    text: str
    before: str
    behind: str = ""

    @property
    def line(self) -> str:
        return f"{self.before}{self.text}{self.behind}"


def _lay_out(value: Any, label: _Label, rows: list[_Row]) -> None:
    """Append names and texts as lines of YAML, nested like the data."""
    head = f"{label.indent[:-2]}- " if label.item else label.indent
    label_text = f"{head}{' '.join(label.name.split())}"
    if isinstance(value, str):
        quote = (
            next((candidate for candidate in _QUOTES if candidate not in value), "")
            if names.may_name_secret(label.name)
            else ""
        )
        if quote and "\n" not in value:
            rows.append(_Row(label.name, value, f"{label_text}={quote}", quote))
        elif _SPACE.search(value):  # a text that may be a document or a command, on lines of its own
            rows.append(_Row(label.name, value, f"{label_text}:\n" if label.name else ""))
        else:
            rows.append(_Row(label.name, value, f"{label_text}: " if label.name else head))
    elif isinstance(value, Mapping):
        rows.append(_Row(label.name, "", f"{label_text}:" if label.name else head))
        for at, (key, child) in enumerate(value.items()):
            first = label.item and not label.name and at == 0
            _lay_out(child, _Label(str(key), label.indent if label.item else label.below, first), rows)
    elif isinstance(value, list | tuple):
        rows.append(_Row(label.name, "", f"{label_text}:" if label.name else head))
        for child in value:
            own = label.name if isinstance(child, str) and names.may_name_secret(label.name) else ""
            _lay_out(child, _Label(own, label.below, not own), rows)
    else:
        rows.append(_Row(label.name, "", f"{label_text}: {value!r}" if label.name else f"{head}{value!r}"))


def _cut(rows: Iterable[_Row], lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The name and text of each row after the scan, which preserves the number of lines."""
    at = 0
    for row in rows:
        size = row.line.count("\n") + 1
        line = "\n".join(lines[at : at + size])
        at += size
        if line == row.line:
            yield row.name, row.text
            continue
        name = redact(row.name).text
        before = row.before if line.startswith(row.before) else row.before.replace(" ".join(row.name.split()), name)
        if line.startswith(before) and line.endswith(row.behind):
            yield name, line[len(before) : len(line) - len(row.behind)]
        else:
            yield name, line.strip()  # it was part of a larger secret, such as a key given as a list of lines


def _rebuilt(value: Any, clean: Iterator[tuple[str, str]]) -> Any:
    _, text = next(clean)
    return _value_of(value, text, clean)


def _value_of(value: Any, text: str, clean: Iterator[tuple[str, str]]) -> Any:
    if isinstance(value, str):
        return text
    if isinstance(value, Mapping):
        rebuilt: dict[Any, Any] = {}
        for key, child in value.items():
            name, own = next(clean)
            name = name if isinstance(key, str) else key
            while name in rebuilt:  # two names that were secrets may have become equal
                name = f"{name}*"
            rebuilt[name] = _value_of(child, own, clean)
        return rebuilt
    if isinstance(value, list | tuple):
        return [_rebuilt(child, clean) for child in value]
    return value


# --- spans ----------------------------------------------------------------------------------------------------


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Spans in order, with overlapping ones merged; the most specific kind is kept."""
    joined: list[Span] = []
    for start, end, kind in sorted(set(spans), key=lambda span: (span[0], -span[1], span[2] in _GENERAL, span[2])):
        if not joined or start >= joined[-1][1]:
            joined.append((start, end, kind))
        elif end > joined[-1][1]:
            joined[-1] = (joined[-1][0], end, joined[-1][2])
    return joined


def _whole_lines(text: str, spans: Iterable[Span]) -> Iterator[Span]:
    """The whole lines of the given sorted spans, each once, so that a long line is searched for its ends only once."""
    last = -1
    for start, end, kind in spans:
        if end > last:
            first, last = text.rfind("\n", 0, start) + 1, text.find("\n", end)
            last = len(text) if last < 0 else last
            yield first, last, kind


def _replaced(text: str, spans: Iterable[Span]) -> tuple[str, list[tuple[int, int]]]:
    """The text with marks in place of the spans, and the windows around the marks to be scanned again."""
    parts: list[str] = []
    windows: list[tuple[int, int]] = []
    position = length = 0
    for start, end, kind in spans:
        mark = _masked(text[start:end], f"[REDACTED:{kind}]")
        parts += [text[position:start], mark]
        length += start - position
        first, last = max(0, length - _UNCOVERED_CHARACTERS), length + len(mark) + _UNCOVERED_CHARACTERS
        if windows and first <= windows[-1][1]:
            first = windows.pop()[0]
        windows.append((first, last))
        length += len(mark)
        position = end
    return "".join(parts) + text[position:], windows


def _masked(secret: str, mark: str) -> str:
    """Each non-blank line of a secret becomes a mark; its indentation and quote marks are kept."""
    lines = _LINE_END.split(secret)
    return "".join(line if at % 2 or not line.strip() else _indent(line) + mark for at, line in enumerate(lines))


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t>"))] if line.lstrip(" \t>") else ""


def _spans(text: str, windows: Sequence[tuple[int, int]]) -> Iterator[Span]:
    yield from _spans_of(text, windows)
    if (plain := as_read(text)) is not None:
        seen = [(plain.seen_at(first), plain.seen_at(last)) for first, last in windows]
        for first, last, kind in _spans_of(plain.text, seen):
            yield *plain.written(first, last), kind


def _spans_of(text: str, windows: Sequence[tuple[int, int]]) -> Iterator[Span]:
    exact, folded = _places()
    for first, last in windows:
        part = _MARK.sub(_nothing_telling, text[first:last])
        for (automaton, readers, slow), searched in ((exact, part), (folded, _small(part))):
            places = automaton.find_matches_as_indexes(searched, overlapping=True)
            if len(places) > (most := max(_MOST_PLACES, len(part) // _DENSEST)):
                telling = [first + start for index, start, _ in places if slow[index]]
                if len(telling) > most:
                    yield from _lines_of(text, telling)
                    places = [place for place in places if not slow[place[0]]]
            for index, start, end in places:
                for read in readers[index]:
                    yield from (span for span in read(text, first + start, first + end) if not _is_redacted(text, span))


def _nothing_telling(mark: re.Match[str]) -> str:
    """Dots in place of a mark, so that the words in it are not found and positions do not change."""
    return "." * len(mark[0])


def _lines_of(text: str, places: Iterable[int]) -> Iterator[Span]:
    """Spans of the lines that contain these positions."""
    end = -1
    for place in sorted(places):
        if place > end:
            start, end = text.rfind("\n", 0, place) + 1, text.find("\n", place)
            end = len(text) if end < 0 else end
            if text[start:end].strip():
                yield start, end, "secret"


def _is_redacted(text: str, span: Span) -> bool:
    """Does the span consist of marks only? Some readers return a value just because of its position."""
    secret = text[span[0] : span[1]]
    return "[REDACTED:" in secret and not _MARK.sub("", secret).strip()


def _small(text: str) -> str:
    """The text in lower case, with the same length: the lower case of one letter, U+0130, has two characters."""
    small = text.lower()
    return small if len(small) == len(text) else text.replace("\u0130", "I").lower()


# --- where a secret could start -------------------------------------------------------------------------------


@cache
def _places() -> tuple[_Automaton, _Automaton]:
    """Two automata of all literals with their readers: one for the text as it is, one for its lower case."""
    from ahocorasick_rs import AhoCorasick, Implementation

    def automaton(tries: Mapping[str, list[_Reader]]) -> _Automaton:
        # Three times as fast as the other implementations on real files.
        built = AhoCorasick(list(tries), implementation=Implementation.DFA)
        return built, list(tries.values()), [literal in _SLOW_LITERALS for literal in tries]

    return automaton(_exact()), automaton(_folded())


def _exact() -> dict[str, list[_Reader]]:
    tries: dict[str, list[_Reader]] = {}

    def add(read: _Reader, *literals: str) -> None:
        for literal in literals:
            tries.setdefault(literal, []).append(read)

    for item in FORMATS:
        add(partial(_format, item), item.literal)
    add(lambda text, start, _: documents.private_key(text, start), "-----BEGIN", "---- BEGIN SSH2")
    add(lambda text, start, _: documents.encoded_key(text, start), "LS0tLS1CRUdJTi")
    add(lambda text, start, _: documents.putty_key(text, start), "Private-Lines:", "Private-MAC:", "Private-Hash:")
    add(lambda text, start, _: documents.vault(text, start), "$ANSIBLE_VAULT;")
    add(lambda text, start, _: documents.json_web_key(text, start), '"kty"')
    add(lambda text, start, _: documents.encoded_settings(text, start), "YXBpVmVyc2lvbjog")
    add(documents.yaml_secret, "kind: Secret", 'kind: "Secret"', "kind: 'Secret'")
    add(
        documents.json_secret, *(f'{esc}"kind{esc}":{gap}{esc}"Secret{esc}"' for esc in ("", "\\") for gap in ("", " "))
    )
    add(lambda text, start, _: documents.pgpass(text, start), ":5432:", ":5433:", ":6432:", ":*:")
    add(lambda text, start, _: names.credentials(text, start), "://")
    add(prose.pin, "PIN")
    return tries


def _folded() -> dict[str, list[_Reader]]:
    tries: dict[str, list[_Reader]] = {}

    def add(read: _Reader, *literals: str) -> None:
        for literal in literals:
            tries.setdefault(literal, []).append(read)

    for word, kind in names.ASSIGNED.items():
        add(partial(_assigned, kind), word)
    for noun, kind in prose.NOUNS.items():
        add(partial(_described, kind), noun)
    for program in commands.PROGRAMS:
        add(partial(_command, program), program)
    for words in commands.STATEMENTS:
        add(partial(_statement, words), words)
    for name in commands.CALLS:
        add(partial(_call, name), name)
    add(commands.piped, *commands.PIPED)
    add(lambda text, start, _: _one(names.bearer(text, start)), "bearer ", "basic ", "token ")
    add(lambda text, start, _: _one(names.authorization(text, start)), "uthorization")
    add(
        lambda text, start, _: names.cookies(text, start),
        "ookie:",
        'ookie"',
        "ookie'",
        "ookie=",
        "ookie =",
        "ookie ",
        " -b ",
    )
    add(lambda text, start, _: _one(names.encoded_credentials(text, start)), "%3a%2f%2f")
    add(prose.login, *prose.LOGINS)
    add(prose.user_and_password, "user")
    add(documents.cloud_passwords, "chpasswd:")
    add(prose.pin, "passcode", "door code", "access code", "gate code", "pin code", "alarm code")
    add(prose.seed_phrase, "seed phrase", "recovery phrase", "mnemonic", "seed words", "backup phrase")
    add(prose.codes, *(f"{what} code" for what in ("recovery", "backup", "rescue", "scratch", "2fa")), "recovery key")
    add(documents.table, "password", "passwd", "passwort", "kennwort", "contraseña", "mot de passe", "пароль")
    return tries


def _one(span: Span | None) -> tuple[Span, ...]:
    return () if span is None else (span,)


def _format(item: Format, text: str, start: int, _: int) -> Iterator[Span]:
    for first in range(start - item.least_back, max(-1, start - item.back - 1), -1):
        match = item.pattern.match(text, first) if first >= 0 else None
        if match is not None:
            groups = range(1, item.pattern.groups + 1) if item.pattern.groups else (0,)
            for group in groups:
                if match[group] is not None and not values.is_mask(match[group]):
                    yield match.start(group), match.end(group), item.kind
            return


def _assigned(kind: str, text: str, start: int, end: int) -> tuple[Span, ...]:
    return _one(names.assigned(text, start, end, kind))


def _described(kind: str, text: str, start: int, end: int) -> Iterator[Span]:
    return prose.sentence(text, start, end, kind)


def _command(program: str, text: str, start: int, _: int) -> Iterator[Span]:
    return commands.command(text, start, program)


def _statement(words: str, text: str, _: int, end: int) -> Iterator[Span]:
    return commands.statement(text, end, words)


def _call(name: str, text: str, _: int, end: int) -> Iterator[Span]:
    return commands.call(text, end, name)
