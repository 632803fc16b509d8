"""What is the score of each match, given its importance, age and use, and in which order are matches shown?

The input is a relevance of 0 to 1 (`core.relevance`), the output a score of 0 to 100 whose
parts add up to it. Keywords are scaled by the relevance divided by that of the best candidate,
importance and recency by a power of that quotient, so that they break ties and never lift a
match that is less relevant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar

from spec_kit_memory.core import words
from spec_kit_memory.core.kept_by_identity import KeptByIdentity
from spec_kit_memory.core.memory import Attributes, Memory, Tier
from spec_kit_memory.core.tiers import MAX_BOOST, TABLE

T = TypeVar("T")

_MOST_STEMS = 16_384

# Importance and recency count in full where a passage is as relevant as the best, half at 94 % of that, a tenth at
# 83 %: an old passage that answers stays above a new one that is only similar (docs/explain/score.md).
CLOSENESS = 12

_NO_STAGES: Mapping[str, float] = MappingProxyType({})


class WeightsLike(Protocol):
    """How much each part counts; `settings.Weights` is one. The default sum is 1."""

    @property
    def relevance(self) -> float: ...
    @property
    def tier(self) -> float: ...
    @property
    def recency(self) -> float: ...
    @property
    def keywords(self) -> float: ...


class MemoryFactors(NamedTuple):
    """The factors that all passages of one memory share, each 0 to 1. A tuple because each query creates hundreds."""

    tier: Tier
    recency: float = 1.0  # the decay factor; 1.0 without decay
    keywords: float = 0.0  # `KeywordShare`
    usage: float = 0.0  # `usage.boost`, 0 to 0.4
    best_relevance: float = 1.0  # the highest relevance among the candidates of the query
    closeness: int = 1  # the power that reduces importance and recency below the best match; 1: the plain formula


class Scored(NamedTuple):
    """A score and its six `by_` parts, which add up to it. A tuple because each query creates hundreds."""

    score: float  # 0 to 100
    relevance: float  # 0 to 1
    by_relevance: float = 0.0
    by_tier: float = 0.0
    by_recency: float = 0.0
    by_keywords: float = 0.0
    by_usage: float = 0.0
    by_limit: float = 0.0  # the correction by the limit of 100: zero or negative
    stages: Mapping[str, float] = _NO_STAGES  # the parts of the relevance
    texts: tuple[float, ...] = ()  # the share of each text of the question in the relevance, if there are several

    def scaled(self, factor: float) -> Scored:
        """The score and its `by_` parts multiplied by `factor`, as they are shown."""
        return Scored(
            self.score * factor,
            self.relevance,
            self.by_relevance * factor,
            self.by_tier * factor,
            self.by_recency * factor,
            self.by_keywords * factor,
            self.by_usage * factor,
            self.by_limit * factor,
            self.stages,
            self.texts,
        )


def score(
    relevance: float,
    shared: MemoryFactors,
    weights: WeightsLike,
    *,
    parts: Mapping[str, float] | None = None,
    texts: tuple[float, ...] = (),
) -> Scored:
    """Score one passage. `parts` and `texts` are the parts of its relevance and are only passed on."""
    by_relevance, by_tier, by_recency, by_keywords = _plain_parts(relevance, shared, weights)
    plain = by_relevance + by_tier + by_recency + by_keywords
    by_usage = plain * shared.usage
    total = min(100.0, plain + by_usage)
    by_limit = total - (plain + by_usage)
    stages = parts or _NO_STAGES
    return Scored(total, relevance, by_relevance, by_tier, by_recency, by_keywords, by_usage, by_limit, stages, texts)


def totals(passages: Iterable[tuple[float, MemoryFactors]], weights: WeightsLike) -> list[float]:
    """The scores of passages with these relevances, without their parts, for sorting."""
    scores = []
    for relevance, shared in passages:
        by_relevance, by_tier, by_recency, by_keywords = _plain_parts(relevance, shared, weights)
        plain = by_relevance + by_tier + by_recency + by_keywords
        scores.append(min(100.0, plain + plain * shared.usage))
    return scores


def _plain_parts(relevance: float, shared: MemoryFactors, weights: WeightsLike) -> tuple[float, float, float, float]:
    """The contributions of relevance, tier, recency and keywords, before use and the limit."""
    tier, recency, keywords, _, best_relevance, closeness = shared
    share = min(1.0, relevance / best_relevance) if best_relevance > 0.0 else 0.0
    close = 100.0 * share**closeness
    return (
        100.0 * weights.relevance * relevance,
        close * weights.tier * TABLE[tier].boost / MAX_BOOST,
        close * weights.recency * recency,
        100.0 * share * weights.keywords * keywords,
    )


def sort_key(score: float, memory: Memory) -> tuple[float, float, int]:
    """Best score first; ties go to the newer document, then to the smaller id. The same input gives the same order."""
    dated = memory.attributes.created_at or memory.first_indexed_at
    return (-score, -dated.timestamp(), memory.id)


def below_successors(
    items: Sequence[T], id_of: Callable[[T], int], successors_of: Callable[[T], Iterable[int]]
) -> list[T]:
    """Reorder items so that none is ranked above one that supersedes it.

    The successor moves up to the position of the superseded item, which follows directly:
    the old text matched, so its replacement is the answer. Items that are already below
    their successor stay where they are. In a cycle each item is listed once.
    """
    position = {id_of(item): place for place, item in enumerate(items)}
    ahead = [
        sorted({position[successor] for successor in successors_of(item) if successor in position} - {place})
        for place, item in enumerate(items)
    ]
    placed: dict[int, None] = {}
    for place in range(len(items)):
        _place(place, ahead, placed)
    return [items[place] for place in placed]


def _place(first: int, ahead: Sequence[Sequence[int]], placed: dict[int, None]) -> None:
    """Place all items that must precede an item, then the item. A stack instead of recursion: chains may be long."""
    waiting, entered = [first], set[int]()
    while waiting:
        place = waiting[-1]
        before = [earlier for earlier in ahead[place] if earlier not in placed and earlier not in entered]
        if before and place not in placed and place not in entered:
            entered.add(place)
            waiting.extend(reversed(before))
        else:
            placed.setdefault(waiting.pop())


class KeywordShare:
    """The share of a query's keywords that occur in anchor ids, title or trigger phrases, 0 to 1."""

    def __init__(self, keywords: Sequence[str]) -> None:
        self._keywords = keywords
        self._wanted = _keyword_stems(tuple(keywords))

    def of(self, attributes: Attributes, anchors: Collection[str] = ()) -> float:
        """`anchors`: the ids of the sections that matched, as far as they have one."""
        if not self._keywords:
            return 0.0
        wanted, stems = self._wanted, _own_stems(attributes)
        if anchors:
            stems = stems.union(*[_stems((anchor,)) for anchor in anchors])
        if not wanted.unspaced and wanted.different.isdisjoint(stems):
            return 0.0
        missing = [stem in stems for stem in wanted.stems].count(False)
        if wanted.unspaced:
            fields = (*_fields(attributes), *anchors)
            missing += sum(not any(word in field.casefold() for field in fields) for word in wanted.unspaced)
        return 1.0 - missing / len(self._keywords)


def read_ahead(attributes: Attributes) -> None:
    """Cache the words of a memory that `KeywordShare` needs: computing them is most of the cost of its first score."""
    _own_stems(attributes)


def _fields(attributes: Attributes) -> tuple[str, ...]:
    return (attributes.title, *attributes.triggers)


class _KeywordStems(NamedTuple):
    stems: tuple[str, ...]
    different: frozenset[str]
    unspaced: tuple[str, ...]  # keywords of scripts without spaces: matched as substrings


@lru_cache(maxsize=256)
def _keyword_stems(keywords: tuple[str, ...]) -> _KeywordStems:
    stems = tuple(words.stem(keyword) for keyword in keywords if not words.unspaced(keyword))
    return _KeywordStems(stems, frozenset(stems), tuple(keyword for keyword in keywords if words.unspaced(keyword)))


@lru_cache(maxsize=_MOST_STEMS)
def _stems(fields: tuple[str, ...]) -> frozenset[str]:
    """Cached, because every query needs the words of the same titles and phrases."""
    return frozenset(words.stem(word) for word in words.plain("\n".join(fields)))


# The words of the titles and phrases of memories.
_own_stems = KeptByIdentity[Attributes, frozenset[str]](
    lambda attributes: _stems(_fields(attributes)), most=_MOST_STEMS
)
