"""Which memories does a prompt match by their trigger phrases?

A phrase matches if its words occur in the prompt as whole words; case, width and spacing do not
matter. All phrases are looked up in one pass over the prompt: its words and pairs of adjacent
words are intersected with an index of the beginnings of the phrases.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from unicodedata import category, normalize

from spec_kit_memory.core.lean_dataclass import dataclass

# Letters of scripts that are written without spaces: any of them may begin or end a word.
_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff"  # Thai, Lao, Tibetan, Myanmar, Khmer
    "\u3005-\u3007\u3040-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_HANGUL = "\uac00-\ud7a3"
_EMOJI = (
    "\u203c\u2049\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u25fe\u2600-\u27bf\u2934\u2935\u2b05-\u2b55\u3030\u303d"
    "\u3297\u3299\U0001f000-\U0001f3fa\U0001f400-\U0001faff"
)
# Characters that writers leave out or add without a change of meaning: Arabic vowels and Hebrew points, the Arabic
# tatweel, variation selectors and skin tones of emoji, and characters without width, which also join emoji.
_UNSPOKEN = (
    "[\u00ad\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed\u200b-\u200f"
    "\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\U000e0100-\U000e01ef]+"
)
# A space between two letters of scripts without spaces is a word of its own, so that word sequences preserve it.
_RUN = rf"[{_UNSPACED}]+|(?<=[{_UNSPACED}]) (?=[{_UNSPACED}])|[{_HANGUL}]|[^\W{_UNSPACED}{_HANGUL}]+|[^\w\s]"
_ASCII_WORD = re.compile(r"\w+|[^\w\s]", re.ASCII)  # equivalent for ASCII prompts, in half the time
# A Korean word may be followed by a particle without a space: it still counts as a whole word.
_PARTICLES = (
    "(?:은|는|이|가|을|를|의|에|로|와|과|도|만|나|랑|께|에서|에게|한테|으로|까지|부터|처럼|보다|이나|이랑|마다|조차|이다|입니다)"
    rf"(?![\w{_HANGUL}])"
)
_LETTERS_PER_HALVING = 4
RECENT_PROMPTS_NEEDED = 8  # with fewer prompts, one or two matches would make a phrase too general
TOO_GENERAL_SHARE = 0.25

_PRODUCT: Mapping[str, tuple[str, ...]] = {
    "save": (
        "save context",
        "save conversation",
        "save session",
        "document this",
        "preserve context",
        "remember this",
    ),
    "checkpoint": ("checkpoint", "snapshot", "restore"),
    "search": ("what did we", "prior work", "search memory"),
}
_LOADING: Mapping[str, tuple[str, ...]] = {
    "auto": ("auto-load memories", "auto load memories"),
    "skip": ("fresh start", "skip memory"),
    "ask": ("ask about memories",),
}


# Apostrophes and hyphens as phones and word processors insert them.
_TYPOGRAPHIC = {0x2018: "'", 0x2019: "'", 0x02BC: "'", 0x2010: "-", 0x2011: "-"}


@cache
def _pattern(source: str) -> re.Pattern[str]:
    """Compiled only for text beyond ASCII: compiling takes longer than matching, and a hook runs once per prompt."""
    return re.compile(source)


@dataclass(frozen=True, slots=True)
class TriggerMatch:
    """A memory that a prompt matches.

    `phrases` are as written in the memory, longest first. `confidence` is 1 - 0.5^(n/4), where n is the
    number of letters and digits in the matched phrases (a phrase inside another matched one is not counted
    again; a letter of a script without case counts twice): three letters give 0.41, "save context" 0.85,
    twenty letters 0.97.
    """

    memory_id: int
    phrases: tuple[str, ...]
    confidence: float


@dataclass(frozen=True, slots=True)
class PhraseSuggestion:
    """A feature suggested because of a built-in phrase in the prompt: save, search or checkpoint."""

    kind: str
    phrase: str


def fold(text: str) -> str:
    """The form in which phrases and prompts are compared.

    NFKC, case folded, white space folded, dotted and dotless i made equal, without optional characters.
    """
    if text.isascii():
        return " ".join(text.lower().split())
    folded = normalize("NFKC", normalize("NFKC", text).casefold())
    # Case folding turns the dotted capital I into i and a combining dot.
    folded = folded.replace("i\u0307", "i").replace("\u0131", "i").translate(_TYPOGRAPHIC)
    return " ".join(_pattern(_UNSPOKEN).sub("", folded).split())


def _words(text: str) -> list[str]:
    """The words of a text; in Hangul and scripts without spaces, each letter is a word."""
    if text.isascii():
        return _ASCII_WORD.findall(text)
    words: list[str] = []
    unspaced = _pattern(f"[{_UNSPACED}]")
    for run in _pattern(_RUN).findall(text):
        if len(run) > 1 and run[0] >= _UNSPACED[0] and unspaced.match(run):
            words.extend(run)
        else:
            words.append(run)
    return words


@lru_cache(maxsize=1)
def _read(prompt: str) -> tuple[str, list[str], frozenset[str]]:
    """The folded prompt, its words, and the set of them; cached, since several matchers read the same prompt."""
    text = fold(prompt)
    words = _words(text)
    return text, words, frozenset(words)


def usable(phrase: str) -> bool:
    """Is it long enough to trigger? Three characters, two in a script without case, or a letter and a sign (C#)."""
    return _long_enough(fold(phrase))


def _long_enough(folded: str) -> bool:
    if len(folded) >= 3:
        return has_letters(folded)
    return len(folded) == 2 and (
        all(_caseless_letter(character) for character in folded) or (folded[0].isalpha() and folded[1] in "#+")
    )


def has_letters(phrase: str) -> bool:
    """Does it contain a letter, digit or emoji?"""
    return any(character.isalnum() or _is_emoji(character) for character in phrase)


def _caseless_letter(character: str) -> bool:
    return category(character) == "Lo" or _is_emoji(character)


def _is_emoji(character: str) -> bool:
    return not character.isascii() and _pattern(f"[{_EMOJI}]").match(character) is not None


def _part_of_word(character: str) -> bool:
    return character == "_" or character.isalnum() or category(character)[0] in "LMN"


def _has_marks(words: frozenset[str]) -> bool:
    """Is one of the words a combining mark, which belongs to the letter before it?"""
    return any(
        len(word) == 1 and not ("\u3400" <= word <= "\u9fff" or word.isascii()) and category(word)[0] == "M"
        for word in words
    )


def _whole(text: str, start: int, end: int) -> bool:
    """Does a word begin at `start`, and does one end at `end`?"""
    return _breaks(text, start) and (_breaks(text, end) or _particle_follows(text, end))


def _breaks(text: str, at: int) -> bool:
    if at <= 0 or at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    if not (_part_of_word(before) and _part_of_word(after)):
        return True
    if before.isascii() and after.isascii():
        return False
    if category(after)[0] == "M":
        return False
    unspaced = _pattern(f"[{_UNSPACED}]")
    return bool(unspaced.match(before) or unspaced.match(after))


def _particle_follows(text: str, at: int) -> bool:
    return "\uac00" <= text[at - 1] <= "\ud7a3" and _pattern(_PARTICLES).match(text, at) is not None


def _occurs(phrase: str, text: str) -> bool:
    at = text.find(phrase)
    while at >= 0:
        if _whole(text, at, at + len(phrase)):
            return True
        at = text.find(phrase, at + 1)
    return False


class Matcher:
    """An index of all trigger phrases.

    Measured against an Aho-Corasick automaton: building is five to ten times cheaper, which matters for a
    hook that runs once per prompt, and matching costs the same or less.
    """

    def __init__(self, phrases: Iterable[tuple[int, str]]) -> None:
        self._owners: dict[str, dict[int, str]] = {}
        for memory_id, phrase in phrases:
            folded = fold(phrase)
            owners = self._owners.get(folded)
            if owners is not None:
                owners.setdefault(memory_id, phrase)
            elif _long_enough(folded):
                self._owners[folded] = {memory_id: phrase}
        self._single_words: set[str] = set()
        # First two words -> (phrase, its further words, does it consist of scripts without spaces?) of each phrase.
        self._pairs: dict[tuple[str, str], list[tuple[str, list[str], bool]]] = {}
        self._last: tuple[str, list[str]] = ("", [])  # the last prompt and its matches: `match` and `found` share them
        for folded in self._owners:
            self._add_phrase(folded)

    def _add_phrase(self, folded: str) -> None:
        words = _words(folded)
        if len(words) == 1:
            self._single_words.add(folded)
        elif words:
            unspaced = not folded.isascii() and _pattern(f"[{_UNSPACED} ]+").fullmatch(folded) is not None
            self._pairs.setdefault((words[0], words[1]), []).append((folded, words[2:], unspaced))

    def __len__(self) -> int:
        return len(self._owners)

    def match(
        self, prompt: str, *, weights: Mapping[int, float] | None = None, limit: int | None = None
    ) -> list[TriggerMatch]:
        """Every memory with a matching phrase; sorted by number of phrases, longest phrase, and weight."""
        phrases_by_memory: dict[int, list[str]] = {}
        for folded in self._found(prompt):
            for memory_id in self._owners[folded]:
                phrases_by_memory.setdefault(memory_id, []).append(folded)
        memory_weights = weights or {}
        ranked = sorted(
            phrases_by_memory.items(),
            key=lambda item: (-len(item[1]), -max(map(len, item[1])), -memory_weights.get(item[0], 0.0), item[0]),
        )
        return [self._matched(memory_id, folded) for memory_id, folded in ranked[:limit]]

    def found(self, prompt: str) -> list[str]:
        """The folded phrases that match, for counting how general each phrase is."""
        return sorted(self._found(prompt))

    def _found(self, prompt: str) -> list[str]:
        last = self._last  # read once, as another thread may replace it
        if last[0] != prompt:
            self._last = last = (prompt, self._look_up(prompt))
        return last[1]

    def _look_up(self, prompt: str) -> list[str]:
        text, words, distinct_words = _read(prompt)
        single_word_phrases = list(self._single_words & distinct_words)
        # A word from `_words` is whole by construction, unless a combining mark follows it.
        marked = not text.isascii() and _has_marks(distinct_words)
        matching = (
            [phrase for phrase in single_word_phrases if _occurs(phrase, text)] if marked else single_word_phrases
        )
        pair_positions: dict[tuple[str, str], list[int]] = {}
        pair_words = self._pairs.keys()
        for at, pair in enumerate(itertools.pairwise(words), start=2):
            if pair in pair_words:
                pair_positions.setdefault(pair, []).append(at)
        for pair, places in pair_positions.items():
            for phrase, rest, unspaced in self._pairs[pair]:
                size = len(rest)
                if any(words[at : at + size] == rest for at in places) and (
                    (unspaced and not marked) or _occurs(phrase, text)
                ):
                    matching.append(phrase)
        return matching

    def _matched(self, memory_id: int, folded: list[str]) -> TriggerMatch:
        ordered = sorted(folded, key=lambda phrase: (-len(phrase), phrase))
        own_phrases = tuple(self._owners[phrase][memory_id] for phrase in ordered)
        return TriggerMatch(memory_id, own_phrases, _confidence(ordered))


def _confidence(longest_first: list[str]) -> float:
    counted: list[str] = []
    for phrase in longest_first[:50]:  # more cannot change the second decimal
        if not any(phrase in longer for longer in counted):
            counted.append(phrase)
    letters = sum(_letters(phrase) for phrase in counted)
    return round(float(1 - 0.5 ** (letters / _LETTERS_PER_HALVING)), 2)


def _letters(phrase: str) -> int:
    if phrase.isascii():
        return sum(map(str.isalnum, phrase))
    spoken = (character for character in phrase if character.isalnum() or _is_emoji(character))
    return sum(2 if _caseless_letter(character) else 1 for character in spoken)


def suggestions(prompt: str, *, save_phrases: Iterable[str] = ()) -> list[PhraseSuggestion]:
    """Suggestions for this prompt: at most one of each kind, with its longest phrase."""
    kinds = list(_PRODUCT)
    phrases = [(kinds.index(kind), phrase) for kind, phrases in _PRODUCT.items() for phrase in phrases]
    phrases += [(kinds.index("save"), phrase) for phrase in save_phrases]
    matches = Matcher(phrases).match(prompt)
    return [PhraseSuggestion(kinds[match.memory_id], match.phrases[0]) for match in sorted(matches, key=_by_id)]


def _by_id(match: TriggerMatch) -> int:
    return match.memory_id


def loading(prompt: str) -> str | None:
    """The loading preference a prompt states: auto, skip or ask; the last one stated counts."""
    text = _read(prompt)[0]
    stated = [
        (text.rfind(phrase), choice)
        for choice, phrases in _LOADING.items()
        for phrase in phrases
        if _occurs(phrase, text)
    ]
    return max(stated)[1] if stated else None


def too_general(counts: Mapping[str, int], prompts: int) -> list[str]:
    """Phrases that matched more than a quarter of the recent prompts, most frequent first."""
    if prompts < RECENT_PROMPTS_NEEDED:
        return []
    general = [phrase for phrase, count in counts.items() if count > TOO_GENERAL_SHARE * prompts]
    return sorted(general, key=lambda phrase: (-counts[phrase], phrase))
