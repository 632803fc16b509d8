"""Which spec folder does a conversation belong to, and how sure is that?

Every folder gets a score from 0 to 100: topic words 40, files 30, phase 20, recency 10. A part that
cannot be computed (no files were named, no phase can be inferred) is left out and the others weigh
more. 70 or more is used, 50 to 69 is used with a warning, below that the caller has to choose.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import log, sqrt

from spec_kit_memory.advice import advise
from spec_kit_memory.core.folders import clean_folder, near_folders
from spec_kit_memory.core.stop_words import COMMON_FILES, DOCUMENT, PLAIN
from spec_kit_memory.core.words import content, stem, unspaced
from spec_kit_memory.errors import BadSpecFolder

WEIGHTS: Mapping[str, float] = {"topic": 40.0, "files": 30.0, "phase": 20.0, "recency": 10.0}
USED_FROM = 70.0
WARNED_FROM = 50.0
ALTERNATIVES = 3
HALF_LIFE_DAYS = 7.0
TOPIC_WORDS = 150  # the most distinctive words of a conversation, which are compared
READ_CHARACTERS = 40_000  # of each document
# Measured on real folders (benchmarks.alignment). First BM25's two constants, then how the overlap of words
# becomes the topic score: half of the distinctive words is enough for full marks, and a folder is a clear
# winner when its overlap is 1.6 times that of the next one (0.62 of the two together).
_SATURATION = 2.0
_LENGTH_SHARE = 0.75
_ENOUGH = 0.50
_NOT_CLEAR = 0.40
_CLEAR = 0.62
_FAMILIAR = 0.40  # a matching folder contains at least this share of the conversation's words
SURE_WORDS = 3
HINT_WORDS = 2

_WORD = re.compile(r"[^\W\d_][^\W_]{1,30}")
_PATH = re.compile(r"(?:[\w.@-]{1,80}/){0,12}[\w@-][\w.@-]{0,80}\.[A-Za-z][A-Za-z0-9]{0,6}(?![\w/])")
_SEGMENT = re.compile(r"\d{3}-[A-Za-z0-9.-]+")
_PREFIXES = (".opencode/specs/", "specs/")
_OF_ANY_PROJECT = frozenset(map(stem, DOCUMENT))
# The phases of work in a spec folder, in order, and the words that are typical of a conversation in each.
_PHASES = ("research", "planning", "implementation", "review")
_PHASE_WORDS: Mapping[str, frozenset[str]] = {
    phase: frozenset(stem(word) for word in words.split())
    for phase, words in {
        "research": "research investigated investigation explored compared spike survey findings unknown",
        "planning": "planning designed architecture proposal propose requirements specification draft",
        "implementation": "implemented implementation coded refactored commit merged wrote tests passing",
        "review": "reviewed verified validated checklist audit audited released deployed handover",
    }.items()
}


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation: its words with their counts, the files it names, and its phase if one can be inferred."""

    words: Mapping[str, int]
    files: frozenset[str] = frozenset()
    phase: str | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """A spec folder: the words of its documents, the files they name, its phase, and its last change."""

    name: str
    words: Mapping[str, int]
    files: frozenset[str] = frozenset()
    phase: str | None = None
    touched_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Alignment:
    """How well a folder fits: the score, 0 to 100, and its parts, 0 to 1 (None: cannot be computed)."""

    folder: str
    score: float
    parts: Mapping[str, float | None] = field(default_factory=dict)
    words: int = 0  # how many distinctive words the conversation and the folder share


@dataclass(frozen=True, slots=True)
class FolderDecision:
    """`outcome` is used, warned or undecided. An undecided one has no folder."""

    outcome: str
    folder: str | None
    score: float
    alternatives: tuple[Alignment, ...] = ()


# --- what is compared -----------------------------------------------------------------


def talk(text: str, *, files: Iterable[str] = (), phase: str | None = None) -> Talk:
    """A conversation from everything that was said in it."""
    words = _words(text)
    file_keys = {_file_key(path) for path in files} | _files_in(text)
    return Talk(words, frozenset(key for key in file_keys if key), phase or _phase_of(words))


def profile(name: str, texts: Mapping[str, str], *, touched_at: datetime | None = None) -> Profile:
    """A folder from the texts of its documents (file name -> text). Each word of its name counts five times."""
    words: Counter[str] = Counter()
    files: set[str] = set()
    for text in texts.values():
        words.update(_words(text))
        files |= _files_in(text[:READ_CHARACTERS])
    for word in _words(name.replace("-", " ").replace("/", " ")):
        words[word] += 5
    return Profile(name, words, frozenset(files), _phase_from_documents(texts), touched_at)


def _words(text: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for word, count in Counter(_WORD.findall(text[:READ_CHARACTERS].casefold())).items():
        if not word.isascii() and unspaced(word):
            counts.update({word[at : at + 2]: count for at in range(len(word) - 1)})
        elif word not in PLAIN and len(word) > 2:
            counts[stem(word)] += count
    distinctive = set(content(" ".join(list(counts)[:3000])))
    return Counter({word: count for word, count in counts.items() if word in distinctive or not word.isascii()})


def _files_in(text: str) -> set[str]:
    return {key for key in (_file_key(path) for path in _PATH.findall(text)) if key}


def _file_key(path: str) -> str:
    """The file name, by which two mentions of a file are matched; "" for names that most projects have."""
    parts = [part for part in path.strip().replace("\\", "/").casefold().split("/") if part not in ("", ".", "..")]
    if not parts or parts[-1] in COMMON_FILES:
        return ""
    return parts[-1]


def _phase_of(words: Mapping[str, int]) -> str | None:
    """The phase whose words are used clearly more than any other's."""
    counts = {phase: sum(words.get(word, 0) for word in _PHASE_WORDS[phase]) for phase in _PHASES}
    first, second = sorted(_PHASES, key=lambda phase: -counts[phase])[:2]
    return first if counts[first] >= 2 * counts[second] and counts[first] > 1 else None


def _phase_from_documents(names: Collection[str]) -> str | None:
    file_names = {name.rsplit("/", 1)[-1] for name in names}
    if file_names & {"implementation-summary.md", "handover.md"}:
        return "review"
    if "tasks.md" in file_names:
        return "implementation"
    if file_names & {"plan.md", "spec.md"}:
        return "planning"
    return "research" if "research.md" in file_names else None


# --- scoring --------------------------------------------------------------------------


def align(talk_profile: Talk, folders: Sequence[Profile], *, now: datetime) -> list[Alignment]:
    """Every folder with its score, the best first."""
    spread = Counter(word for folder in folders for word in folder.words)
    file_spread = Counter(path for folder in folders for path in folder.files)
    topics = _topics(talk_profile, folders, spread)
    alignments = []
    for folder, topic in zip(folders, topics, strict=True):
        parts = {
            "topic": topic,
            "files": _shared_files(talk_profile.files, folder.files, file_spread),
            "phase": _phase_fit(talk_profile.phase, folder.phase),
            "recency": _recency(folder.touched_at, now),
        }
        words = _shared_words(talk_profile.words, folder, spread, folders=len(folders))
        score = min(_score(parts), _score_limit(words, shares_file=bool(parts["files"])))
        alignments.append(Alignment(folder.name, score, parts, words))
    return sorted(alignments, key=lambda alignment: (-alignment.score, alignment.folder))


def _shared_words(word_counts: Mapping[str, int], folder: Profile, spread: Mapping[str, int], *, folders: int) -> int:
    """How many distinctive words are shared: those of the folder's name, and those in at most half of all folders.

    Words of any project (code, tests, plan) are never distinctive, however few folders there are.
    """
    name = _words(folder.name.replace("-", " ").replace("/", " "))
    few = max(1.0, folders / 2)
    return sum(
        word in name or (spread[word] <= few and word not in _OF_ANY_PROJECT)
        for word in word_counts
        if word in folder.words
    )


def _score_limit(words: int, *, shares_file: bool) -> float:
    """The highest score that this many shared words allow: one word may be chance, and two are only a hint."""
    if shares_file or words >= SURE_WORDS:
        return 100.0
    return (USED_FROM if words >= HINT_WORDS else WARNED_FROM) - 1.0


def _score(parts: Mapping[str, float | None]) -> float:
    if parts["topic"] is None and parts["files"] is None:
        return 0.0  # phase and recency alone say nothing about what a conversation is about
    scored_parts = {name: value for name, value in parts.items() if value is not None}
    weight = sum(WEIGHTS[name] for name in scored_parts)
    return (
        round(100 * sum(WEIGHTS[name] * value for name, value in scored_parts.items()) / weight, 1) if weight else 0.0
    )


def _topics(talk_profile: Talk, folders: Sequence[Profile], spread: Mapping[str, int]) -> list[float | None]:
    """How well each folder fits by its words, 0 to 1: enough shared words, and clearly more than any other folder.

    A folder that contains only a small share of the conversation's words scores lower: its overlap may be chance.
    """
    distinctive = _distinctive_words(talk_profile.words, spread, folders=len(folders))
    if not distinctive:
        # The conversation has words, and no folder contains any of them: that is a score of 0, not a missing score.
        return [0.0 if talk_profile.words else None] * len(folders)
    raw = _overlaps(distinctive, folders)
    best, second = [*sorted(raw, reverse=True), 0.0][:2]
    topics: list[float | None] = []
    for folder, overlap in zip(folders, raw, strict=True):
        rival = second if overlap == best else best
        share = overlap / (overlap + rival) if overlap else 0.0
        clear = min(1.0, max(0.0, (share - _NOT_CLEAR) / (_CLEAR - _NOT_CLEAR)))
        familiar = min(
            1.0, sum(word in folder.words for word in talk_profile.words) / len(talk_profile.words) / _FAMILIAR
        )
        topics.append(round(familiar * clear * sqrt(min(1.0, overlap / _ENOUGH)), 4))
    return topics


def _distinctive_words(words: Mapping[str, int], spread: Mapping[str, int], *, folders: int) -> dict[str, float]:
    """The conversation's most distinctive words with their weights: frequent in it, and present in few folders."""
    folder_count = folders + 1
    weighed = {
        word: (1 + log(count)) * log(folder_count / (spread[word] + 0.5))
        for word, count in words.items()
        if word in spread
    }
    best = sorted(weighed, key=lambda word: (-weighed[word], word))[:TOPIC_WORDS]
    return {word: weighed[word] for word in best if weighed[word] > 0}


def _overlaps(distinctive: Mapping[str, float], folders: Sequence[Profile]) -> list[float]:
    """Each folder's share of the distinctive words, weighted as in BM25: long folders contain any word by chance."""
    lengths = [sum(folder.words.values()) for folder in folders]
    average = sum(lengths) / len(lengths) or 1.0
    total = sum(distinctive.values()) * (_SATURATION + 1)
    overlaps = []
    for folder, length in zip(folders, lengths, strict=True):
        damping = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * length / average)
        weighted_counts = ((weight, folder.words.get(word, 0)) for word, weight in distinctive.items())
        overlaps.append(
            sum(weight * count * (_SATURATION + 1) / (count + damping) for weight, count in weighted_counts if count)
            / total
        )
    return overlaps


def _shared_files(talk_files: frozenset[str], folder_files: frozenset[str], spread: Mapping[str, int]) -> float | None:
    """The share of the named files that the folder names too; a file that many folders name counts less."""
    weights = {path: 1.0 / spread[path] for path in talk_files if path in spread}
    total = sum(weights.values())
    return sum(weight for path, weight in weights.items() if path in folder_files) / total if total else None


def _phase_fit(talk_phase: str | None, folder_phase: str | None) -> float | None:
    if talk_phase is None or folder_phase is None:
        return None
    return 1.0 - abs(_PHASES.index(talk_phase) - _PHASES.index(folder_phase)) / (len(_PHASES) - 1)


def _recency(touched_at: datetime | None, now: datetime) -> float | None:
    if touched_at is None:
        return None
    days = max(0.0, (now - touched_at).total_seconds() / 86_400)
    return float(0.5 ** (days / HALF_LIFE_DAYS))


def decide(alignments: Sequence[Alignment], *, chosen_folder: str | None = None) -> FolderDecision:
    """Which folder to use. A folder chosen by the caller is always used, with a warning if it scores below 50."""
    best = tuple(alignments[:ALTERNATIVES])
    if chosen_folder is not None:
        score = next((entry.score for entry in alignments if entry.folder == chosen_folder), None)
        if score is None:  # a new folder has no documents to compare with
            return FolderDecision("used", chosen_folder, 0.0, best)
        better = tuple(entry for entry in best if entry.folder != chosen_folder and entry.score > score)
        return FolderDecision("used" if score >= WARNED_FROM else "warned", chosen_folder, score, better)
    if not best or best[0].score < WARNED_FROM:
        return FolderDecision("undecided", None, best[0].score if best else 0.0, best)
    outcome = "used" if best[0].score >= USED_FROM else "warned"
    return FolderDecision(outcome, best[0].folder, best[0].score, best[1:])


# --- names ----------------------------------------------------------------------------


def valid_name(name: str) -> bool:
    """Three digits, a hyphen, then letters, digits, hyphens, dots; nested with slashes."""
    segments = name.split("/")
    return all(
        _SEGMENT.fullmatch(segment) and not segment.endswith(".") and ".." not in segment for segment in segments
    )


def resolve_name(name: str, existing: Collection[str], *, create: bool = False) -> str:
    """The one existing folder whose name, or last segment, this is; with `create`, a valid new name too."""
    folder_name = clean_folder(name)
    if folder_name in existing:
        return folder_name
    matches = sorted(folder for folder in existing if folder.endswith(f"/{folder_name}"))
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise BadSpecFolder(
            f"{folder_name!r} could be any of: {', '.join(matches)}.",
            hint="Give the whole name of the one you mean.",
            alternatives=matches,
        )
    close = near_folders(folder_name, existing)
    if not valid_name(folder_name):
        meant = f"Did you mean {' or '.join(close)}? " if close else ""
        raise BadSpecFolder(
            f"{name!r} is not a spec folder's name.",
            hint=f"{meant}Names are three digits, a hyphen, then letters, digits, hyphens and dots, like 007-auth.",
            alternatives=close,
        )
    if create:
        return folder_name
    hint = advise("meant-folder", names=tuple(close)) if close else advise("create-folder")
    raise BadSpecFolder(f"There is no spec folder {folder_name!r}.", hint=hint, alternatives=close)
