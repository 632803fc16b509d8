"""Which words does a text consist of, in any language, for the text index?

The index splits at everything that is not a letter or digit. This module does three things that it
cannot do, in the same way for texts and queries: it turns scripts without spaces into single characters
and pairs, replaces vowel signs at which words would be split, and adds the parts of `camelCase` names.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise

from spec_kit_memory.core import stemming

MOST_TERMS = 64
MOST_CHARACTERS = 10_000

# Han, kana, Bopomofo, Thai, Lao, Khmer, Myanmar; and Hangul, which has spaces but attaches endings to words.
_UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0edf\u1000-\u1049\u1050-\u109f\u1100-\u11ff\u1780-\u17d3\u17dc-\u17e9"
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u318f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua960-\ua97f\ua9e0-\ua9fe\uaa60-\uaa7f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Combining accents that NFKC did not compose, Hebrew points, Arabic vowels and the Arabic tatweel: removed.
_DROPPED = (
    "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed"
)
_INDIC = "\u0900-\u0dff\u0f00-\u0fff"


def _signs() -> dict[int, int]:
    """Replacements for vowel signs and tones, which the index does not treat as letters: private use characters."""
    ranges = [(0x0900, 0x0FFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F)]
    marks = [at for first, last in ranges for at in range(first, last + 1) if unicodedata.category(chr(at))[0] == "M"]
    return {at: 0xE000 + place for place, at in enumerate(marks)}


_LETTER_OF_SIGN = _signs()
_RUN = re.compile(f"[{_UNSPACED}]+")
_NOT_ASCII = re.compile("[^\x00-\x7f]+")
_SPECIAL = re.compile(f"[{_UNSPACED}{_DROPPED}{_INDIC}\u0400-\u04ff\u0621-\u064a\ud800-\udfffß]")
_TO_DROP = re.compile(f"[{_DROPPED}]+")
_TO_BLANK = re.compile("[\ud800-\udfff]+")
_INDIC_RUN = re.compile(f"[{_INDIC}]+")
# Spellings that writers use interchangeably: of some Arabic letters, of ё, and of ß, which has no capital.
_SAME = str.maketrans({"ß": "ss", "آ": "ا", "أ": "ا", "إ": "ا", "ى": "ي", "ة": "ه", "ё": "е", "Ё": "Е"})
# The Arabic article, with prefixes written in one word with it, if at least three letters remain.
_ARTICLE = re.compile("(?<![\u0621-\u064a])(?:[وفبك]?ال|لل)(?=[\u0621-\u064a]{3})")
# Russian endings of number, case and gender, if a stem of at least four letters remains.
_ENDING = re.compile(
    "(?<=[а-я]{4})(?:ого|его|ому|ему|ыми|ими|ами|ями|ией|иям|иях|ев|ов|ие|ье|ей|ий|ой|ый|ем|им|ом|ым|ам|ям|ая|яя|ое|ее"
    "|ые|их|ых|ую|юю|ах|ях|ию|ия|ья|а|е|и|й|о|у|ы|ь|ю|я)(?![а-я])",
    re.IGNORECASE,
)

# A capital after a small letter, or the last of several capitals before small letters. The pattern starts with
# the capital, so that the scan of plain text is fast: it stops at capitals only.
_HUMP = re.compile(r"[A-Z](?:(?<=[a-z][A-Z])|(?<=[A-Z][A-Z])(?=[a-z]{2}))")
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_WORD = re.compile("[\\w\ue000-\uf8ff]+")  # for texts without "_"
_PLAIN_WORD = re.compile(r"[^\W_]+")
# Parts of one name: v1.2.3, file.py, snake_case. It starts at a word's start, else long words take quadratic time.
_COMPOUND = re.compile(r"(?<!\w)[^\W_]++(?:[_./:@-][^\W_]++)+")


def for_index(text: str) -> str:
    """The text to be given to the index; the same object if nothing has to be changed."""
    prepared = _composed(text)
    if _has_special(prepared):
        prepared = _RUN.sub(_characters_and_pairs, _one_spelling(prepared))
    parts = _humps(prepared)
    return f"{prepared}\n{' '.join(parts)}" if parts else prepared


def for_query(text: str) -> tuple[str, ...]:
    """The distinct terms to look up, in order, without stop words; the most specific ones if there are too many.

    A term with spaces is a phrase.
    """
    prepared = _prepare(text[:MOST_CHARACTERS])
    terms: dict[str, None] = {}
    for term in _terms(prepared):
        terms.setdefault(term)
    content_terms = [term for term in terms if term not in _STOP_WORDS] or list(terms)
    if len(content_terms) <= MOST_TERMS:
        return tuple(content_terms)
    most_specific = set(sorted(content_terms, key=_by_specificity)[:MOST_TERMS])
    return tuple(term for term in content_terms if term in most_specific)


def plain(text: str) -> tuple[str, ...]:
    """All distinct words of a text, folded, in order; camelCase names whole and in parts."""
    ordered: dict[str, None] = {}
    for word in _PLAIN_WORD.findall(unicodedata.normalize("NFKC", text)):
        ordered.setdefault(word.casefold())
        if not word.islower():
            ordered.update(dict.fromkeys(part.casefold() for part in _parts(word)))
    return tuple(ordered)


def content(text: str) -> tuple[str, ...]:
    """The words without stop words; all of them if there are only stop words."""
    folded = [word.casefold() for word in _PLAIN_WORD.findall(unicodedata.normalize("NFKC", text[:MOST_CHARACTERS]))]
    distinct = dict.fromkeys(folded)
    return tuple(word for word in distinct if word not in _STOP_WORDS) or tuple(distinct)


def unspaced(word: str) -> bool:
    """Is this in a script without spaces, where part of a run of characters may be a word?"""
    return not word.isascii() and _RUN.search(word) is not None


def occurrences(text: str, concept: str) -> int:
    """How often a concept occurs in a text: its stemmed words in sequence; if never, its rarest word."""
    if unspaced(concept):
        return _composed(text).casefold().count(_composed(concept).casefold())
    concept_stems = _stems(concept)
    if not concept_stems:
        return text.casefold().count(concept.casefold())
    text_stems = _stems(text)
    row = [names[0] for names in concept_stems]
    if len(row) == 1:
        return sum(row[0] in names for names in text_stems)
    plain_row = [names[0] for names in text_stems]
    in_a_row = sum(plain_row[at : at + len(row)] == row for at, first in enumerate(plain_row) if first == row[0])
    if in_a_row:
        return in_a_row
    content_terms = [stemming.stem(term) for term in for_query(concept) if " " not in term]
    return min(sum(stem in names for names in text_stems) for stem in content_terms) if content_terms else 0


def _stems(text: str) -> list[tuple[str, ...]]:
    """The stems of the words of a text, in order, as in the index: for each word, itself and its camelCase parts."""
    stem_groups = []
    for word in _WORD.findall(_prepare(text).replace("_", " ")):
        parts = () if word.islower() else _parts(word)
        stem_groups.append(tuple(stemming.stem(_fold(form)) for form in (word, *parts)))
    return stem_groups


def stem(word: str) -> str:
    """A word without the most common English endings; only for comparing words with each other."""
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 5 and word.endswith("ing"):
        return word[:-3]
    if len(word) > 4 and word.endswith("ed"):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _prepare(text: str) -> str:
    """The normalised text, before scripts without spaces are split."""
    composed = _composed(text)
    return _one_spelling(composed) if _has_special(composed) else composed


def _composed(text: str) -> str:
    """NFKC, without NUL."""
    if not text.isascii() and not unicodedata.is_normalized("NFKC", text):
        text = unicodedata.normalize("NFKC", text)
    return text.replace("\x00", " ")


def _has_special(text: str) -> bool:
    """Does the text need `_one_spelling`? Only its non-ASCII characters are searched: most English texts have few."""
    return not text.isascii() and _SPECIAL.search("".join(_NOT_ASCII.findall(text))) is not None


def _one_spelling(text: str) -> str:
    """The text with equivalent spellings unified, and with letters for vowel signs at which the index would split."""
    text = _TO_BLANK.sub(" ", _TO_DROP.sub("", text)).translate(_SAME)
    text = _ENDING.sub("", _ARTICLE.sub("", text))
    return _INDIC_RUN.sub(lambda run: run[0].translate(_LETTER_OF_SIGN), text)


def _characters_and_pairs(run: re.Match[str]) -> str:
    letters = run[0].translate(_LETTER_OF_SIGN)
    return f" {' '.join(letters)} {' '.join(_pairs(letters))} "


def _pairs(letters: str) -> list[str]:
    return [first + second for first, second in pairwise(letters)]


def _terms(text: str) -> list[str]:
    """Every term of a prepared text, with repetitions."""
    terms: list[str] = []
    at = 0
    for run in _RUN.finditer(text):
        terms += _spaced_terms(text[at : run.start()])
        letters = run[0].translate(_LETTER_OF_SIGN)
        terms += _pairs(letters) or [letters]
        at = run.end()
    return terms + _spaced_terms(text[at:])


def _spaced_terms(text: str) -> list[str]:
    names = [name[0] for name in _COMPOUND.finditer(text) if _is_name(name[0])]
    terms = [" ".join(_fold(part) for part in _PLAIN_WORD.findall(name)) for name in names]
    for word in _WORD.findall(text.replace("_", " ")):
        terms.append(_fold(word))
        if not word.islower():
            terms += [_fold(part) for part in _parts(word)]
    return terms


def _is_name(compound: str) -> bool:
    """`v1.2.3` and `snake_case` are looked up whole; a hyphen between words or a slash between choices is prose."""
    return "_" in compound or "." in compound or any(letter.isdigit() for letter in compound)


def _fold(word: str) -> str:
    folded = word.casefold()
    return folded if folded.isascii() else _TO_DROP.sub("", folded)


def _humps(text: str) -> list[str]:
    """The parts of all camelCase names in a text, each name once."""
    parts: dict[str, None] = {}
    at = 0
    while hump := _HUMP.search(text, at):
        first = hump.start()
        while first > 0 and text[first - 1].isalnum() and text[first - 1].isascii():
            first -= 1
        name = _IDENTIFIER.match(text, first)
        at = hump.end()
        if name and name.end() >= at:
            at = name.end()
            for part in _parts(name[0]):
                parts.setdefault(part)
    return list(parts)


@lru_cache(maxsize=4096)
def _parts(word: str) -> tuple[str, ...]:
    """The parts of a camelCase name; empty for any other word."""
    cuts = [hump.start() for hump in _HUMP.finditer(word)]
    if not cuts:
        return ()
    return tuple(word[first:last] for first, last in pairwise([0, *cuts, len(word)]) if last - first > 1)


def _by_specificity(term: str) -> tuple[bool, int]:
    """Sort key: names with digits, then long words, are the most specific and come first."""
    return (not any(letter.isdigit() for letter in term), -len(term))


# The most common words of seven languages, without those that are content words in another one of them.
_COMMON = """
a about after all an and any are as at be because been before being but by can could did do does doing for from had
has have having he her here hers him his how i if in into is it its just me more most my nor not of off on once only
or other our ours out over own please s same she should so some such t than that the their theirs them then there
these they this those through to too under until up very was we were what when where which while who whom why will
with would you your yours al como cómo con cuál cuando cuándo de del desde donde dónde el ella en entre esta este esto
fue la las le les lo los más nos para pero por porque qué que ser si sobre sus también un una y ya aber als auch auf
aus bei bis das dass dem den der des durch ein eine einem einen einer für habe haben ich ihr im ist nach nicht noch
nur oder sich sie sind über um und uns unter vom von vor wann warum wenn wer werden wie wir wird wo wurde zu zum zur
au aux avec ce ces cette dans elle est et être il ils je leur mais nous ont où ou pas pourquoi quand quel quelle qui
sont sur une vous été а без бы был была были было быть в вы где для до его ее если есть еще же за и из или их к как
когда кто ли мы на над не него нет но о об он она они от по почему при с со так то только у уже что чем это ao aos às
da e ela ele em essa esse está foi isso mas mesmo na não nas o onde pelo pela quais qual quando quem são sem seu sua
também uma você agli alla alle anche che cosa della delle di dove è gli l lei lui ma nella nelle non perché più quale
quali quanto quella quello questo sono sul sulla tra tu am
"""
_STOP_WORDS = frozenset(_prepare(_COMMON).split())
