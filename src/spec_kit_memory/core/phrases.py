"""Which trigger phrases would a person choose for a memory?

Runs of content words weighted by how often they occur, how long they are and where they occur (title,
headings, emphasis), names from code, file names and the folder's name. Never single common words:
those would match almost every prompt. Time is linear in the text, of which only the beginning is read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import log2

from spec_kit_memory.advice import Advice, finding
from spec_kit_memory.core.fences import code_lines
from spec_kit_memory.core.stop_words import COMMON_FILES, DOCUMENT, EXTENSIONS, PLAIN
from spec_kit_memory.core.triggers import fold, has_letters, usable
from spec_kit_memory.core.words import content, stem

MOST_PHRASES = 15
MOST_CHARACTERS = 60_000
MOST_CANDIDATES = 4_000  # n-grams kept for scoring; any text with more has no outstanding ones
LONGEST_WORD = 40
LONGEST_PHRASE = 60
MOST_NAMES = 5  # identifiers and file names among the chosen phrases, unless nothing else is left
_LONGEST_UNSPACED = 8
_TITLE = 3.0
_TOGETHER = 0.6  # weight of the frequency of the single words
_SECTION = 0.5
_LENGTH = {1: 1.1, 2: 1.0, 3: 1.1}  # by number of words; single ones are names; measured on phrases that people gave

_COMMENT = re.compile(r"<!--[^>]{0,400}-->")
_LINK = re.compile(r"\[([^\[\]\n]{1,200})\]\([^()\n]{0,400}\)")
_CODE = re.compile(r"`([^`\n]{2,80})`")
_STRONG = re.compile(r"\*\*([^*\n]{3,120})\*\*")
_HEADING = re.compile(r"\s{0,3}(#{1,6})\s+(.{1,200})")
_TOKEN = re.compile(r"[^\W_](?:[\w'’+#.-]{0,60}\w)?[+#]{0,2}|[^\s\w]")
# Han words end at these: particles, pronouns and copulas between Chinese words.
_BETWEEN_HAN = re.compile(
    "需要|可以|使用|因为|所以|如果|[的了在是和与及我们你他她它这那有不也就都把被对为从到以并或但会能很让将]"
)
_UNSPACED = re.compile("[\u30a1-\u30fa\u30fc]{3,12}|[\u3005\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]{2,}")
_SIGN_OF_A_NAME = re.compile(r"[^\w\s.,;:!?'\"()\[\]-]|\w[.:]\w|^-")  # c++, a/b, $PATH, node.js, --flag, emoji
_NUMBER = re.compile(r"[\d.,:%x/-]+")
_FILE = re.compile(r"(?:[\w.@-]{1,60}/){0,8}([\w@-][\w.@-]{1,60}\.[A-Za-z][A-Za-z0-9]{0,5})")
_NAME = re.compile(r"[A-Za-z]\w*+(?:[.-]\w++)*+")
_HUMPED = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")


@dataclass(slots=True)
class _Candidate:
    """A candidate phrase: how often and where it occurs."""

    shown: str  # its first spelling
    count: int = 0
    emphasis: float = 0.0  # the strongest of the places where it occurs
    words: tuple[str, ...] = ()
    name: bool = False  # an identifier or a file's name


@dataclass(slots=True)
class _Candidates:
    by_stems: dict[str, _Candidate] = field(default_factory=dict)
    words: Counter[str] = field(default_factory=Counter)


def extract(
    text: str,
    *,
    own_phrases: Sequence[str] = (),
    title: str = "",
    spec_folder: str | None = None,
    files: Iterable[str] = (),
    most: int = MOST_PHRASES,
) -> list[str]:
    """All the given phrases, and extracted ones up to `most` in total."""
    chosen = list(dict.fromkeys(" ".join(phrase.split()) for phrase in own_phrases if phrase.strip()))
    if len(chosen) >= most:
        return chosen
    candidates = _Candidates()
    _read_title(title, candidates)
    for path in list(files)[:200]:
        _count_file(path, candidates, emphasis=1.0)
    _read(text[:MOST_CHARACTERS], candidates)
    folder = folder_phrase(spec_folder)
    if folder and not _is_covered(folder, chosen):
        chosen.append(folder)
    ranked = [candidate for candidate in _ranked(candidates) if not is_too_common(candidate.shown)]
    names = [candidate for candidate in ranked if candidate.name]
    surplus_names = {id(candidate) for candidate in names[MOST_NAMES:]}
    for candidate in [candidate for candidate in ranked if id(candidate) not in surplus_names] + names[MOST_NAMES:]:
        if len(chosen) >= most:
            break
        if not _is_covered(candidate.shown, chosen, name=candidate.name):
            chosen.append(candidate.shown)
    return chosen


def folder_phrase(spec_folder: str | None) -> str:
    """`003-parent/007-auth-flow` -> `auth flow`; "" if that would match almost every prompt."""
    last = (spec_folder or "").rstrip("/").rsplit("/", 1)[-1]
    phrase = re.sub(r"^\d+-", "", last).replace("-", " ").replace("_", " ").strip()
    return "" if is_too_common(phrase) else phrase


def is_too_common(phrase: str) -> bool:
    """Would the phrase match unrelated prompts?"""
    if not usable(phrase):
        return True
    words = re.findall(r"[^\W_]+", fold(phrase))
    specific_words = [word for word in words if word not in PLAIN and not word.isdigit() and _is_content_word(word)]
    if not specific_words or all(word in DOCUMENT for word in specific_words):
        return True
    return len(words) == 1 and phrase == fold(phrase) and phrase.isascii() and phrase.isalpha() and len(phrase) < 5


def in_most_prompts(phrase: str) -> bool:
    """Is it a word, or a pair such as "of the", that occurs in most prompts? Such a phrase is kept, with a warning."""
    folded = fold(phrase).strip(" .,;:!?'\"()[]")
    words = re.findall(r"[^\W_]+", folded)
    if len(words) > 2 or not usable(phrase) or not words or _SIGN_OF_A_NAME.search(folded):
        return False
    return not any(_is_content_word(word) for word in words) or (len(words) == 1 and words[0] in PLAIN)


def phrase_warnings(phrases: Iterable[str]) -> list[Advice]:
    """Warnings about given phrases: those that can never match, and those that match nearly always."""
    phrase_list = list(phrases)
    never = [phrase for phrase in phrase_list if not usable(phrase)]
    signs = [phrase for phrase in never if not has_letters(phrase)]
    short = [phrase for phrase in never if phrase not in signs]
    plain = [phrase for phrase in phrase_list if in_most_prompts(phrase)]
    messages = []
    if signs:
        messages.append(finding("phrases-without-letters", phrases=_named(signs)))
    if short:
        messages.append(finding("phrases-too-short", phrases=_named(short)))
    if plain:
        messages.append(finding("phrases-too-plain", phrases=_named(plain)))
    return messages


def _named(phrases: Sequence[str]) -> Advice:
    if len(phrases) == 1:
        return finding("one-trigger-phrase", phrase=phrases[0][:80])
    names, more = tuple(repr(phrase[:80]) for phrase in phrases[:10]), len(phrases) - 10
    return finding("trigger-phrases", phrases=finding("and-more", names=names, more=more) if more > 0 else names)


@lru_cache(maxsize=20_000)
def _is_content_word(word: str) -> bool:
    """Does it contain more than stop words?"""
    parts = [part for part in re.findall(r"[^\W_]+", word) if len(part) > 1]
    return any(part in content(f"{part} zzz") for part in parts)


# --- reading ------------------------------------------------------------------------


def _read_title(title: str, candidates: _Candidates) -> None:
    if title.strip():
        _read_line(title[:500], candidates, emphasis=_TITLE)


def _read(text: str, candidates: _Candidates) -> None:
    lines = _COMMENT.sub(" ", text).split("\n")
    code = code_lines(lines)
    for at, line in enumerate(lines):
        if at in code or not line.strip():
            continue
        heading = _HEADING.match(line[:300])
        heading_emphasis = (_TITLE if heading[1] == "#" else _SECTION) if heading else 0.0
        _read_line(heading[2] if heading else line, candidates, emphasis=heading_emphasis)


def _read_line(line: str, candidates: _Candidates, *, emphasis: float) -> None:
    line = _LINK.sub(r"\1", line)
    for match in _CODE.finditer(line):
        _count_code(match[1], candidates)
    for match in _FILE.finditer(line):
        _count_file(match[0], candidates, emphasis=0.0)
    emphasised = {fold(match[1]) for match in _STRONG.finditer(line)}
    run: list[str] = []
    for token in _TOKEN.findall(line.replace("`", " ").replace("**", " ")):
        word = token.strip("'’.")
        if not word.isascii():
            for match in _UNSPACED.finditer(_BETWEEN_HAN.sub(" ", word)):
                _count_unspaced(match[0], candidates, emphasis=emphasis)
        if _breaks(word):
            _count_run(run, candidates, emphasis=emphasis, emphasised=emphasised)
            run = []
        else:
            run.append(word)
    _count_run(run, candidates, emphasis=emphasis, emphasised=emphasised)


def _breaks(word: str) -> bool:
    if not word or not word[0].isalnum() or len(word) > LONGEST_WORD:
        return True
    if not word.isascii() and _UNSPACED.search(word):
        return True
    lower = word.casefold()
    return lower in PLAIN or bool(_NUMBER.fullmatch(lower)) or not _is_content_word(lower)


def _count_run(run: list[str], candidates: _Candidates, *, emphasis: float, emphasised: set[str]) -> None:
    """Count every two or three consecutive words of a run of content words, and single names."""
    for word in run:
        candidates.words[stem(word.casefold())] += 1
        if _is_name(word):
            _count(word, (word,), candidates, emphasis=emphasis, name=True)
    for size in (2, 3):
        for at in range(len(run) - size + 1):
            piece = tuple(run[at : at + size])
            whole = len(run) == size
            phrase = " ".join(piece)
            extra = 0.5 if fold(phrase) in emphasised else 0.0
            _count(
                phrase, piece, candidates, emphasis=emphasis * (1.0 if whole else 0.6) + extra + (0.3 if whole else 0.0)
            )


def _count_unspaced(run: str, candidates: _Candidates, *, emphasis: float) -> None:
    """Count Han and katakana: a short run counts as a word, a long one as all its pieces of four characters."""
    if len(run) <= _LONGEST_UNSPACED:
        _count(run, (run,), candidates, emphasis=emphasis)
    else:
        for at in range(len(run) - 3):
            _count(run[at : at + 4], (run[at : at + 4],), candidates, emphasis=0.0)


def _count(
    phrase: str, words: tuple[str, ...], candidates: _Candidates, *, emphasis: float, name: bool = False
) -> None:
    if len(phrase) > LONGEST_PHRASE or phrase.casefold() in COMMON_FILES:
        return
    key = " ".join(stem(word.casefold()) for word in words)
    candidate = candidates.by_stems.get(key)
    if candidate is None:
        if len(candidates.by_stems) >= MOST_CANDIDATES and not emphasis and not name:
            return
        candidate = candidates.by_stems[key] = _Candidate(phrase, words=words, name=name)
    candidate.count += 1
    candidate.emphasis = max(candidate.emphasis, emphasis)
    candidate.name = candidate.name or name


def _count_code(code: str, candidates: _Candidates) -> None:
    code = code.strip()
    if _FILE.fullmatch(code):
        return
    match = _NAME.fullmatch(code.rstrip("()"))
    if match and _is_name(match[0]):
        _count(match[0], (match[0],), candidates, emphasis=0.5, name=True)


def _count_file(path: str, candidates: _Candidates, *, emphasis: float) -> None:
    match = _FILE.fullmatch(path.strip().replace("\\", "/").split("#", 1)[0]) or _FILE.search(path[-200:])
    if not match:
        return
    name = match[1]
    if name.rsplit(".", 1)[-1].casefold() in EXTENSIONS and name.casefold() not in COMMON_FILES:
        _count(name, (name,), candidates, emphasis=0.5 + emphasis, name=True)


def _is_name(word: str) -> bool:
    """Does it look like a name from code or an abbreviation, which no prompt contains by chance?"""
    if len(word) < 3 or not word[0].isalpha():
        return False
    if "_" in word.strip("_") or _HUMPED.search(word):
        return True
    if "-" in word or "." in word:
        return sum(part.casefold() not in PLAIN and len(part) > 1 for part in re.split("[-.]", word)) >= 2
    return any(map(str.isdigit, word)) and not word.isdigit()


# --- choosing -----------------------------------------------------------------------


def _ranked(candidates: _Candidates) -> list[_Candidate]:
    inside = _inside_longer(candidates)
    scored = [
        (_score(key, candidate, inside, candidates), -at, candidate)
        for at, (key, candidate) in enumerate(candidates.by_stems.items())
    ]
    scored.sort(key=lambda entry: (-entry[0], -entry[1]))
    return [candidate for score, _, candidate in scored[: MOST_PHRASES * 20] if score > 0]


def _inside_longer(candidates: _Candidates) -> Counter[str]:
    """How often each pair occurs within a recurring phrase of three words."""
    inside: Counter[str] = Counter()
    for key, candidate in candidates.by_stems.items():
        parts = key.split(" ")
        if len(parts) == 3 and candidate.count > 1:
            for pair in (f"{parts[0]} {parts[1]}", f"{parts[1]} {parts[2]}"):
                inside[pair] = max(inside[pair], candidate.count)
    return inside


def _score(key: str, candidate: _Candidate, inside: Counter[str], candidates: _Candidates) -> float:
    """Frequency times length, raised by emphasis; 0 for something that occurs once without emphasis."""
    count = candidate.count - 0.8 * inside[key]
    if candidate.count < 2 and candidate.emphasis < 0.3:
        return 0.0
    mean_frequency = sum(candidates.words[stem(word.casefold())] for word in candidate.words) / len(candidate.words)
    return _LENGTH[len(candidate.words)] * (log2(1 + count) + candidate.emphasis + _TOGETHER * log2(1 + mean_frequency))


def _is_covered(phrase: str, chosen: list[str], *, name: bool = False) -> bool:
    """Has a phrase with the same words, more words, or one word fewer been chosen already?

    A name from code is kept in addition to a longer phrase that contains it.
    """
    words = _stems(phrase)
    for other in chosen:
        others = _stems(other)
        if words == others or (not name and (words < others or (others < words and len(words) - len(others) <= 1))):
            return True
    return False


def _stems(phrase: str) -> frozenset[str]:
    return frozenset(stem(word) for word in re.findall(r"[^\W_]+", fold(phrase)))
