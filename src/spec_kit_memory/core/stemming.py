"""What is the stem of an English word? Porter's algorithm, as in the text index.

The index stems words itself; this is for code that has to find the same words in a text.
"""

from __future__ import annotations

from functools import lru_cache

_VOWELS = frozenset("aeiou")
# FTS5 does not stem shorter or longer words.
_SHORTEST, _LONGEST = 3, 63

# (ending, replacement) pairs of Porter's steps; the longest ending that matches the word is used. `least` in `stem` is
# the number of vowel-consonant sequences that must precede the ending.
_Rules = tuple[tuple[str, str], ...]
_STEP_2: _Rules = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("logi", "log"),
    ("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"),
    ("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"),
    ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble"),
)  # fmt: skip
_STEP_3: _Rules = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""),
)  # fmt: skip
_STEP_4: _Rules = tuple(
    (ending, "")
    for ending in (
        "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate",
        "iti", "ous", "ive", "ize",
    )
)  # fmt: skip


@lru_cache(maxsize=32_768)
def stem(word: str) -> str:
    """The stem of a lower-case word; words that are not plain English letters stay as they are."""
    if not _SHORTEST <= len(word) <= _LONGEST or not word.isascii():
        return word
    word = _past(_plural(word))
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = f"{word[:-1]}i"
    word = _replaced(word, _STEP_2, least=1)
    word = _replaced(word, _STEP_3, least=1)
    word = _replaced(word, _STEP_4, least=2)
    return _tidied(word)


def _is_consonant(word: str, at: int) -> bool:
    if word[at] == "y":
        return at == 0 or not _is_consonant(word, at - 1)
    return word[at] not in _VOWELS


def _sequences(word: str) -> int:
    """How many times a consonant follows a vowel."""
    kinds = [_is_consonant(word, at) for at in range(len(word))]
    return sum(kinds[at] and not kinds[at - 1] for at in range(1, len(kinds)))


def _has_vowel(word: str) -> bool:
    return any(not _is_consonant(word, at) for at in range(len(word)))


def _is_short(word: str) -> bool:
    """Does it end in consonant, vowel, consonant, the last one not w, x or y?"""
    last = len(word) - 1
    return (
        last >= 2
        and _is_consonant(word, last)
        and not _is_consonant(word, last - 1)
        and _is_consonant(word, last - 2)
        and word[last] not in "wxy"
    )


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _sequences(word[:-3]) else word
    for ending in ("ed", "ing"):
        left = word.removesuffix(ending)
        if left != word:
            return _restored(left) if _has_vowel(left) else word
    return word


def _restored(word: str) -> str:
    """Restore the end of a verb after -ed or -ing was removed: "hopp" becomes "hop", and "conflat" "conflate"."""
    if word.endswith(("at", "bl", "iz")):
        return f"{word}e"
    if len(word) > 1 and word[-1] == word[-2] and _is_consonant(word, len(word) - 1) and word[-1] not in "lsz":
        return word[:-1]
    return f"{word}e" if _sequences(word) == 1 and _is_short(word) else word


def _replaced(word: str, rules: _Rules, *, least: int) -> str:
    rule = max((rule for rule in rules if word.endswith(rule[0])), key=lambda rule: len(rule[0]), default=None)
    if rule is None:
        return word
    left = word[: len(word) - len(rule[0])]
    if _sequences(left) < least or (rule[0] == "ion" and not left.endswith(("s", "t"))):
        return word
    return left + rule[1]


def _tidied(word: str) -> str:
    if word.endswith("e"):
        left = word[:-1]
        if _sequences(left) > 1 or (_sequences(left) == 1 and not _is_short(left)):
            word = left
    return word[:-1] if word.endswith("ll") and _sequences(word[:-1]) > 1 else word
