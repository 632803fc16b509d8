"""Which parts of a text are secrets? They are replaced by `[REDACTED:<kind>]` before anything keeps the text.

One pass finds the few places where a secret could start; patterns are tried only there, and the
detect-secrets library only on lines that name what it knows and our own formats do not.
Lines are never added or removed.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from spec_kit_memory.core import secret_values
from spec_kit_memory.core.secret_formats import (
    FORMATS,
    KEY_MATERIAL,
    PRIVATE_KEY,
    PRIVATE_KEY_CHARACTERS,
    PRIVATE_KEY_START,
    Format,
)
from spec_kit_memory.core.secret_values import ASSIGNED, Span
from spec_kit_memory.errors import SecretScanFailed

__all__ = ["Redacted", "kept_id", "redact", "redact_data"]

# What a line must mention for one of the library's detectors to be asked.
_LIBRARY: Mapping[str, tuple[str, str, str]] = {
    "akc": ("artifactory", "ArtifactoryDetector", "artifactory-token"),
    "cloudant": ("cloudant", "CloudantDetector", "cloudant-key"),
    "softlayer": ("softlayer", "SoftlayerDetector", "softlayer-key"),
    "ibm": ("ibm_cloud_iam", "IbmCloudIamDetector", "ibm-key"),
    "hmac": ("ibm_cos_hmac", "IbmCosHmacDetector", "ibm-key"),
    "-us": ("mailchimp", "MailchimpDetector", "mailchimp-key"),
    "discord": ("discord", "DiscordBotTokenDetector", "discord-token"),
}
_LIBRARY_LINE_CHARACTERS = 2_000  # its patterns are not all bounded
_GENERAL = frozenset(ASSIGNED.values())
_LINE_OF_TEXT = re.compile(r"[^\r\n]*[^\s][^\r\n]*")

_Read = Callable[[str, int, int], Iterator[Span]]  # text, where the literal starts and ends


@dataclass(frozen=True, slots=True)
class Redacted:
    """The text without secrets, and how many of each kind were found."""

    text: str
    found: Mapping[str, int]


def redact(text: str) -> Redacted:
    """Replace every secret; raise SecretScanFailed if the text could not be scanned."""
    found: Counter[str] = Counter()
    try:
        # A mark ends a run of letters, so it can uncover a secret behind it. Every round
        # replaces at least one character that is no part of a mark: there is a last round.
        while spans := _chosen(_spans(text)):
            found.update(kind for _, _, kind in spans)
            text = _replaced(text, spans)
    except (ImportError, AttributeError, LookupError, TypeError, ValueError, RuntimeError) as problem:
        raise SecretScanFailed(
            f"the scan for secrets failed: {type(problem).__name__}: {problem}",
            hint="run 'skm health'; reinstall spec-kit-memory if a package is missing",
        ) from problem
    return Redacted(text, dict(found))


def kept_id(identifier: str) -> str:
    """An id that came from elsewhere as it may be kept: one that holds a secret is told by a digest instead.

    It stays the same id for whoever uses it again, and says nothing.
    """
    if not redact(identifier).found:
        return identifier
    return f"redacted-{hashlib.sha256(identifier.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


def redact_data(value: Any, found: Counter[str], name: str = "") -> Any:
    """The same data with every secret in any of its texts replaced; `name` is that of the field it stands in."""
    if isinstance(value, str):
        return _without_secrets(value, found, name)
    if isinstance(value, Mapping):
        return _redacted_object(value, found)
    if isinstance(value, list | tuple):
        return [redact_data(each, found, name) for each in value]
    return value


def _redacted_object(value: Mapping[Any, Any], found: Counter[str]) -> dict[Any, Any]:
    clean: dict[Any, Any] = {}
    for key, each in value.items():
        name = _without_secrets(key, found, "") if isinstance(key, str) else key
        while name in clean:  # two names that were secrets look alike now
            name = f"{name}*"
        clean[name] = redact_data(each, found, str(key))
    return clean


def _without_secrets(text: str, found: Counter[str], name: str) -> str:
    """A password is known by the name of its field: `{"password": "…"}` is looked at as an assignment."""
    head = f"{name}: " if len(text.split()) > 1 else f"{name}="
    together = redact(head + text) if name else redact(text)
    if name and not together.text.startswith(head):
        together = redact(text)  # the name itself is a secret, and is replaced on its own
        head = ""
    found.update(together.found)
    return together.text[len(head) :] if name else together.text


def _chosen(spans: Iterable[Span]) -> list[Span]:
    """Spans in order, without those that lie in one that starts earlier, is longer or names a provider."""
    chosen: list[Span] = []
    for span in sorted(set(spans), key=lambda item: (item[0], -item[1], item[2] in _GENERAL)):
        if not chosen or span[0] >= chosen[-1][1]:
            chosen.append(span)
    return chosen


def _replaced(text: str, spans: Iterable[Span]) -> str:
    parts, position = [], 0
    for start, end, kind in spans:
        mark = f"[REDACTED:{kind}]"
        parts += [text[position:start], _LINE_OF_TEXT.sub(mark, text[start:end])]
        position = end
    return "".join(parts) + text[position:]


def _spans(text: str) -> Iterator[Span]:
    automaton, readers = _places()
    for index, start, end in automaton.find_matches_as_indexes(text, overlapping=True):
        for read in readers[index]:
            yield from read(text, start, end)


@cache
def _places() -> tuple[Any, list[list[_Read]]]:
    """All literals and names as one automaton, and what to try where each of them stands."""
    from ahocorasick_rs import AhoCorasick, Implementation

    tries: dict[str, list[_Read]] = {PRIVATE_KEY_START: [_private_keys], "://": [_credentials]}
    for item in FORMATS:
        tries.setdefault(item.literal, []).append(_format_reader(item))
    for word, kind in ASSIGNED.items():
        _add(tries, word, _assignment_reader(kind))
    for word in ("bearer ", "basic "):
        _add(tries, word, _bearer)
    for word, names in _LIBRARY.items():
        _add(tries, word, _library_reader(*names))
    # Three times as fast as the other implementations on real files.
    return AhoCorasick(list(tries), implementation=Implementation.DFA), list(tries.values())


def _add(tries: dict[str, list[_Read]], word: str, read: _Read) -> None:
    """Under each way to write a word's capitals, which is cheaper than folding every text."""
    title = word.title()
    spellings = {word, word.upper(), word.capitalize(), title}
    if "_" in word[1:]:
        joined = title.replace("_", "")
        spellings |= {joined, joined[0].lower() + joined[1:]}
    for spelling in spellings:
        tries.setdefault(spelling, []).append(read)


def _format_reader(item: Format) -> _Read:
    group = 1 if item.pattern.groups else 0

    def read(text: str, start: int, _: int) -> Iterator[Span]:
        for first in range(start, max(-1, start - item.back - 1), -1):
            match = item.pattern.match(text, first)
            if match is not None:
                if not _is_mask(match[group]):
                    yield match.start(group), match.end(group), item.kind
                return

    return read


def _is_mask(secret: str) -> bool:
    """The right shape, but filled with the same sign, or with words that ask for the real one."""
    low = secret.lower()
    return "xxxxx" in low or "your" in low or "00000000" in low or len(set(secret[-12:])) < 3


def _private_keys(text: str, start: int, _: int) -> Iterator[Span]:
    match = PRIVATE_KEY.match(text, start, start + PRIVATE_KEY_CHARACTERS)
    if match is not None and (match["body"] is None or KEY_MATERIAL.search(match["body"])):
        yield match.start(), match.end(), "private-key"


def _credentials(text: str, start: int, _: int) -> Iterator[Span]:
    span = secret_values.credentials(text, start)
    if span is not None:
        yield span


def _assignment_reader(kind: str) -> _Read:
    def read(text: str, start: int, end: int) -> Iterator[Span]:
        span = secret_values.assigned(text, start, end, kind)
        if span is not None:
            yield span

    return read


def _bearer(text: str, start: int, _: int) -> Iterator[Span]:
    span = secret_values.bearer(text, start)
    if span is not None:
        yield span


def _library_reader(module: str, name: str, kind: str) -> _Read:
    def read(text: str, start: int, end: int) -> Iterator[Span]:
        first, near, last = _window(text, start)
        if text.find(text[start:end], near, start) >= 0:
            return  # this window was searched when the word was met in it before
        window = text[first:last]
        for secret in _detector(module, name).analyze_string(window):
            position = window.find(secret)
            if position >= 0 and not secret_values.is_placeholder(secret.strip(" \"'=:")):
                yield first + position, first + position + len(secret), kind

    return read


def _window(text: str, position: int) -> tuple[int, int, int]:
    """The line around a position, or of a very long line the part around it.

    From the second number up to the position, all positions have the same window.
    """
    first = text.rfind("\n", 0, position) + 1
    stop = text.find("\n", position)
    step = _LIBRARY_LINE_CHARACTERS // 2
    near = first + (position - first) // step * step
    return max(first, near - step), near, min(len(text) if stop < 0 else stop, near + 2 * step)


@cache
def _detector(module: str, name: str) -> Any:
    return getattr(import_module(f"detect_secrets.plugins.{module}"), name)()
