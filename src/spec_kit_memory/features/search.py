"""Which memories answer a question? Match, fuse, score and order.

Filters apply before any limit in both text and vector search. Matches excluded by state, expiry or threshold
are counted and the best three are named, so that nothing old is hidden silently.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType

from spec_kit_memory.advice import Text, advise
from spec_kit_memory.answers import ConceptMatches, HeldBack, HeldMatch, NamedMemory
from spec_kit_memory.core import calibration, decay, ranking, usage, words
from spec_kit_memory.core import query as queries
from spec_kit_memory.core.folders import clean_folder
from spec_kit_memory.core.memory import (
    ContextType,
    Filter,
    Link,
    Memory,
    Relation,
    Source,
    State,
    StoredPassage,
    Tier,
)
from spec_kit_memory.core.query import Query
from spec_kit_memory.core.ranking import Scored
from spec_kit_memory.features import remarks, retrieve
from spec_kit_memory.features.retrieve import Hits, Pool, Question
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.requests import SearchRequest as Request

# How many matching memories are named for each concept.
MOST_NAMED = 3
# A hidden memory without words of the query counts as held back if its estimate reaches that of the result with this
# rank. Not the caller's limit: counts must not depend on how many results are requested.
HELD_RANK = 10
# The most results of a search, and so the most that are ever compared for one.
MOST_RESULTS = 100
# After this many attempts in which something was written meanwhile, a search reads one snapshot.
MOST_LOOKS = 2
_WORDS = re.compile(r"[^\W_]+")
_NO_COUNTS: Mapping[str, int] = MappingProxyType({})


@dataclass(slots=True)
class Scoring:
    """The parameters of scoring that all memories of one search share."""

    pool: Pool
    weights: ranking.WeightsLike
    hot: frozenset[int]
    now: datetime
    scale: float | None = None  # factor on the score of the formula, once the best is known; None: no factor

    def score(self, passage: StoredPassage, shared: ranking.MemoryFactors) -> Scored:
        """The score of a passage as it is shown."""
        relevance = self.pool.relevance[passage.id]
        scored = ranking.score(relevance.value, shared, self.weights, parts=relevance.parts, texts=relevance.texts)
        return scored if self.scale is None else scored.scaled(self.scale)


class RankedMemory:
    """One memory that matched. Values that are only shown are computed on demand: hundreds match, and ten are shown."""

    __slots__ = (
        "_scored",
        "concepts",
        "contradicts",
        "matched",
        "memory",
        "scoring",
        "shared",
        "superseded_by",
        "supersedes",
        "total",
    )

    def __init__(
        self,
        memory: Memory,
        matched: Sequence[StoredPassage],
        shared: ranking.MemoryFactors,
        scoring: Scoring,
        total: float,
    ) -> None:
        self.memory = memory
        self.matched = matched  # its passages, best first
        self.shared = shared
        self.scoring = scoring
        self.total = total  # the score of the best passage by the formula alone
        self.concepts = _NO_COUNTS
        self.superseded_by: tuple[int, ...] = ()
        self.contradicts: tuple[int, ...] = ()
        self.supersedes: tuple[int, ...] = ()  # other matches that rank below it, whatever their score
        self._scored: Scored | None = None

    def with_links(
        self, *, superseded_by: tuple[int, ...], contradicts: tuple[int, ...], supersedes: tuple[int, ...]
    ) -> RankedMemory:
        """A copy with its links to the other results."""
        linked = copy(self)
        linked.superseded_by, linked.contradicts, linked.supersedes = superseded_by, contradicts, supersedes
        return linked

    @property
    def state(self) -> State:
        return decay.state_of(self.memory, hot=self.scoring.hot, now=self.scoring.now)

    @property
    def relevance(self) -> float:
        return self.scoring.pool.relevance[self.matched[0].id].value

    @property
    def score(self) -> float:
        """The score as it is shown, without its parts."""
        return self.total if self.scoring.scale is None else self.total * self.scoring.scale

    @property
    def scored(self) -> Scored:
        """The score of its best passage with its parts, as it is shown."""
        if self._scored is None:
            self._scored = self.scoring.score(self.matched[0], self.shared)
        return self._scored

    @property
    def matches(self) -> Mapping[int, float | None]:
        """How well each passage answers, 0 to 1, by passage id."""
        return self.scoring.pool.match

    @property
    def match(self) -> float | None:
        """How well the memory answers, 0 to 1; None where that cannot be computed."""
        return self.scoring.pool.match.get(self.matched[0].id)

    @property
    def questions(self) -> Mapping[int, str]:
        """The question in the memory that led to each passage, by passage id."""
        return self.scoring.pool.questions

    @property
    def question(self) -> str:
        """The question in this memory that matched best; "" where its text matched better."""
        return self.questions.get(self.matched[0].id, "")

    @property
    def passages(self) -> tuple[tuple[StoredPassage, Scored], ...]:
        """Its passages, best first, each with its own score."""
        further = ((passage, self.scoring.score(passage, self.shared)) for passage in self.matched[1:])
        return ((self.matched[0], self.scored), *further)


@dataclass(frozen=True, slots=True)
class Ranking:
    """Everything a search found, in order, before budget and session are applied."""

    query: Query
    memories: tuple[RankedMemory, ...]
    total: int
    held_back: HeldBack
    method: str
    unavailable: tuple[Text, ...]
    legs: Mapping[str, int]
    historical: bool
    scale: float | None = None  # factor on the score of the formula; None: no factor
    steepness: int = 1  # the exponent of the relevance
    concepts: Mapping[str, ConceptMatches] = field(default_factory=dict)  # the matches of each, if no memory has all
    above: frozenset[int] = frozenset()  # found rules that are shown above the results and are no results themselves
    unseen: frozenset[int] = frozenset()  # memories that matched and were not compared closely
    dormant: tuple[RankedMemory, ...] = ()  # dormant memories that matched too unclearly to be among the results

    def answers(self, result: RankedMemory) -> bool:
        return _is_answer(result, self.steepness)

    @property
    def close(self) -> bool:
        """Is any result an answer? Without a calibrated model there is no match value; any vector hit then counts."""
        return any(map(self.answers, self.memories)) or any(
            result.match is None and "vector" in result.scored.stages and "late" not in result.scored.stages
            for result in self.memories
        )

    @property
    def is_unanswered(self) -> bool:
        """Is it certain that no result is an answer?"""
        return all((match := result.match) is not None and match <= calibration.UNCLEAR for result in self.memories)


def _is_answer(result: RankedMemory, steepness: int) -> bool:
    """Is this result an answer, rather than merely the nearest? Without a match value, its words decide."""
    if result.match is None:
        worded = result.scored.stages.get("text", 0.0) > 0.0
        return worded and result.scored.relevance >= decay.DORMANT_RELEVANCE**steepness
    return result.match > calibration.UNCLEAR


def hard_filter(request: Request) -> Filter:
    """The filter that the caller requested; it applies to everything, held-back matches included."""
    if request.tier:
        tiers = frozenset({Tier(request.tier)})
    else:
        left_out = {Tier.DEPRECATED} | (set() if request.include_constitutional else {Tier.CONSTITUTIONAL})
        tiers = frozenset(set(Tier) - left_out)
    return Filter(
        spec_folder=clean_folder(request.spec_folder) if request.spec_folder else None,
        tiers=tiers,
        context_type=ContextType(request.context_type) if request.context_type else None,
        source=request.only_source,
    )


def wanted_states(request: Request) -> frozenset[State]:
    return decay.chosen(
        state_filter=State(request.state_filter) if request.state_filter else None,
        min_state=State(request.min_state) if request.min_state else None,
        include_archived=request.include_archived,
    )


def rank(runtime: Runtime, request: Request) -> Ranking:
    """Match, fuse, score and order; nothing is packed or remembered yet.

    If a memory is changed between two reads, it could be missed: its old passages are gone and its new ones are not
    known yet. So the search is repeated after a change, the last time in one snapshot, which no change reaches.
    """
    queries.check(request.query, request.concepts)
    query = queries.read(request.text)
    question = retrieve.prepare(runtime, query, also=[queries.read(text) for text in request.also], mode=request.mode)
    with runtime.whole.steady():
        for _ in range(MOST_LOOKS):
            ranking = _rank(runtime, request, question)
            if runtime.whole.unmoved():
                return ranking
        with runtime.whole.frozen():
            return _rank(runtime, request, question)


def _rank(runtime: Runtime, request: Request, question: Question) -> Ranking:
    query = question.query
    hard = hard_filter(request)  # the caller's filter; `soft` also filters by state and expiry
    hot = runtime.hot(request.session_id)
    now = runtime.now()
    soft = replace(
        hard,
        states=decay.bounds(wanted_states(request), now=now, always=_not_flagged(runtime, hot)),
        expired_at=None if request.include_archived else now.timestamp(),
    )
    concepts = None
    if request.concepts:
        concepts = _concepts(runtime, request, soft)
        ids, hidden = concepts.common, runtime.store.documents.count(hard) > runtime.store.documents.count(soft)
        hard = replace(hard, ids=ids | _concepts(runtime, request, hard).common if hidden else ids)
        soft = replace(soft, ids=ids)
    left_out = _left_out(runtime, request, hard, soft)
    pool = retrieve.match(runtime, question, soft)
    compared, steepness = pool.compared(), pool.relevance.steepness
    split = _split(runtime, request, query, pool, hot)
    # With a threshold, as many are compared as the highest limit shows, so that what reaches it is the same for each.
    # Where a candidate is below the least score, so are all that were not compared.
    results = MOST_RESULTS if request.fresh or request.min_score else request.limit
    if not split.low and (further := retrieve.extended(runtime, question, pool, results=results)) is not pool:
        pool = further
        split = _split(runtime, request, query, pool, hot)
    low = split.low
    ordered = everything = _linked(runtime, split.shown)
    above = _rules_above(request, everything, compared, steepness)
    if low:
        below = {ranked.memory.id for ranked in low}
        ordered = _linked(runtime, [ranked for ranked in split.shown if ranked.memory.id not in below])
    stale: list[RankedMemory] = []
    if request.fresh:
        code = remarks.code_of(runtime, [ranked.memory for ranked in ordered])
        stale = [ranked for ranked in ordered if not remarks.is_code_fresh(code.get(ranked.memory.id))]
        ordered = [ranked for ranked in ordered if ranked not in stale]
    if request.concepts:
        for ranked in ordered[: request.limit]:
            ranked.concepts = _counted(runtime, request.concepts, ranked)
    unseen = _unseen(runtime, request, pool, left_out, hot)
    return Ranking(
        query=query,
        memories=tuple(ordered),
        total=len(ordered)
        - len(above.intersection(ranked.memory.id for ranked in ordered))
        + (0 if low else unseen.results),
        held_back=_held_back(
            runtime,
            request,
            question,
            pool,
            dormant=split.dormant,
            low=[ranked for ranked in low if ranked.memory.id not in above],
            stale=[ranked for ranked in stale if ranked.memory.id not in above],
            unseen=unseen,
            outside=left_out.outside,
            first=split.best,
            hot=hot,
        ),
        method=pool.method,
        unavailable=(*pool.unavailable, *_pending(runtime, question)),
        legs=pool.legs,
        historical=query.historical,
        scale=split.scale,
        steepness=steepness,
        concepts=_where_found(runtime, concepts) if concepts and not concepts.common else {},
        above=above,
        unseen=unseen.ids,
        dormant=tuple(split.dormant),
    )


@dataclass(frozen=True, slots=True)
class _Split:
    """The scored memories: those to show, of them those below the caller's threshold, and the dormant ones left out."""

    shown: list[RankedMemory]
    low: list[RankedMemory]
    dormant: list[RankedMemory]
    best: RankedMemory | None  # by the formula, whether it is shown or not
    scale: float | None


def _split(runtime: Runtime, request: Request, query: Query, pool: Pool, hot: frozenset[int]) -> _Split:
    results = _score(runtime, request, query, pool, hot)
    least = decay.DORMANT_RELEVANCE**pool.relevance.steepness
    shown, dormant = _without_unclear_dormant(request, results, pool.compared(), least)
    scale = _set_scale(shown or dormant)
    low = [ranked for ranked in shown if ranked.score < request.min_score * 100] if request.min_score else []
    return _Split(shown, low, dormant, results[0] if results else None, scale)


@dataclass(frozen=True, slots=True)
class _Unseen:
    """The memories that matched and were not compared closely. They rank below all that were."""

    ids: frozenset[int]
    dormant: Filter | None  # the dormant ones of them; without a close comparison, none is a clear match
    results: int  # how many are neither dormant nor rules


@dataclass(frozen=True, slots=True)
class _LeftOut:
    """Which memories may be held back; counted while the question is embedded. None: there are no such memories."""

    outside: Filter | None  # those that a state or an expiry excludes
    dormant: Filter | None  # those that need a clear match


def _left_out(runtime: Runtime, request: Request, hard: Filter, soft: Filter) -> _LeftOut:
    outside, dormant = replace(hard, without=soft), None
    if not (request.state_filter or request.min_state):
        dormant = replace(soft, states=decay.bounds(frozenset({State.DORMANT}), now=runtime.now()))
    return _LeftOut(
        *(where if where and runtime.store.documents.count(where) else None for where in (outside, dormant))
    )


def _unseen(runtime: Runtime, request: Request, pool: Pool, left_out: _LeftOut, hot: frozenset[int]) -> _Unseen:
    ids = frozenset(pool.hits.memory_ids.tolist()).difference([p.memory_id for p in pool.passages.values()])
    if not ids:
        return _Unseen(ids, None, 0)
    left = len(ids)
    if not request.asks_for_rules:
        left -= len(ids.intersection([rule.id for rule in runtime.rules()]))
    if not left_out.dormant:
        return _Unseen(ids, None, left)
    dormant = replace(left_out.dormant, ids=ids - hot)
    number = runtime.store.documents.count(dormant)
    return _Unseen(ids, dormant if number else None, left - number)


def _not_flagged(runtime: Runtime, hot: frozenset[int]) -> frozenset[int]:
    """The HOT memories, except archived and outdated ones: showing one to a session does not make it active again."""
    return frozenset(m.id for m in runtime.store.documents.many(list(hot)) if not (m.archived_folder or m.outdated))


def _pending(runtime: Runtime, question: Question) -> tuple[Text, ...]:
    if not question.embeddings:
        return ()
    waiting = runtime.store.care.stats().pending_passages
    return (advise("embed-rest", count=waiting),) if waiting else ()


# --- concepts -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Concepts:
    """The memories that match each concept, best first."""

    memory_ids: Mapping[str, Sequence[int]]

    @property
    def common(self) -> frozenset[int]:
        return frozenset.intersection(*map(frozenset, self.memory_ids.values()))


def _concepts(runtime: Runtime, request: Request, where: Filter) -> Concepts:
    """The memories that have each concept's words or clearly match its meaning. Being nearest is not enough: in a small
    workspace every memory is among the nearest."""
    by_concept = {}
    for concept in request.concepts:
        question = retrieve.prepare(runtime, queries.read(concept), mode=request.mode)
        worded = _with_every_word(runtime, question.query, where) if question.text else set()
        pool = retrieve.match(runtime, question, where)
        best = list(pool.by_memory())
        clear = {pool.passages[id_].memory_id for id_, match in pool.match.items() if (match or 0) >= calibration.CLEAR}
        matched = worded | clear
        by_concept[concept] = [id_ for id_ in best if id_ in matched] + sorted(matched.difference(best))
    return Concepts(by_concept)


def _with_every_word(runtime: Runtime, concept: Query, where: Filter) -> set[int]:
    """The memories that have each significant word of a concept, in one passage or in several."""
    memory_sets = []
    for word in concept.text.split():
        terms = queries.read(word).terms
        if not terms or set(terms).isdisjoint(concept.terms):
            continue  # the concept's query ignores this word
        if " " in terms[0] and not words.unspaced(word):
            # A name like file.py: the whole name, or every part.
            memory_sets.append(
                _memories_with_all(runtime, terms[:1], where) | _memories_with_all(runtime, terms[1:], where)
            )
        else:
            memory_sets += [_with_word(runtime, part, where) for part in _WORDS.findall(word)]
    return set.intersection(*memory_sets) if memory_sets else set()


def _with_word(runtime: Runtime, word: str, where: Filter) -> set[int]:
    """The memories that have a word; a camelCase name also matches by all of its parts, and text of a script without
    spaces by all of its pairs of characters."""
    terms = queries.read(word).terms
    if not terms or words.unspaced(word):
        return _memories_with_all(runtime, terms, where)
    whole, parts = terms[0], terms[1:]
    matching_ids = _memories_with_all(runtime, (whole,), where)
    return (
        matching_ids | _memories_with_all(runtime, parts, where) if parts and "".join(parts) == whole else matching_ids
    )


def _memories_with_all(runtime: Runtime, terms: Sequence[str], where: Filter) -> set[int]:
    """The memories that have all of these terms."""
    matching_ids = [
        {hit.memory_id for hit in runtime.store.documents.match((term,), where, limit=1_000_000)} for term in terms
    ]
    return set.intersection(*matching_ids) if matching_ids else set()


def _counted(runtime: Runtime, concepts: Sequence[str], result: RankedMemory) -> dict[str, int]:
    text = runtime.opened(result.memory).text
    return {concept: words.occurrences(text, concept) for concept in concepts}


def _where_found(runtime: Runtime, concepts: Concepts) -> dict[str, ConceptMatches]:
    """For each concept: how many memories match it, and the best of them."""
    best = {id_ for ids in concepts.memory_ids.values() for id_ in ids[:MOST_NAMED]}
    titles = {memory.id: memory.title for memory in runtime.store.documents.many(sorted(best))}
    return {
        concept: ConceptMatches(
            memories=len(ids),
            best=tuple(NamedMemory(id=id_, title=titles[id_]) for id_ in ids[:MOST_NAMED] if id_ in titles),
        )
        for concept, ids in concepts.memory_ids.items()
    }


# --- score --------------------------------------------------------------------


def _score(
    runtime: Runtime,
    request: Request,
    query: Query,
    pool: Pool,
    hot: frozenset[int],
    only: Set[int] | None = None,
) -> list[RankedMemory]:
    """Score every memory of the pool, or those in `only`, by the formula; best first."""
    grouped = pool.by_memory()
    if only is not None:
        grouped = {id_: passages for id_, passages in grouped.items() if id_ in only}
    weights = runtime.settings.search.weights
    scoring = Scoring(pool, weights, hot, runtime.now())
    factors, relevance = _factors(runtime, request, query, scoring), pool.relevance
    memories = runtime.store.documents.many(list(grouped))
    passages = [grouped[memory.id] for memory in memories]
    shared = list(map(factors, memories, passages))
    totals = ranking.totals(zip([relevance[best.id].value for best, *_ in passages], shared, strict=True), weights)
    rows = zip(memories, passages, shared, totals, strict=True)
    return _ordered([RankedMemory(memory, matched, own, scoring, total) for memory, matched, own, total in rows])


def _ordered(results: Iterable[RankedMemory]) -> list[RankedMemory]:
    """Best first. The tie-breakers are computed only if there are equal scores."""
    ordered = sorted(results, key=lambda ranked: -ranked.total)
    if len({ranked.total for ranked in ordered}) == len(ordered):
        return ordered
    return sorted(ordered, key=lambda ranked: ranking.sort_key(ranked.total, ranked.memory))


def _factors(
    runtime: Runtime, request: Request, query: Query, scoring: Scoring
) -> Callable[[Memory, Sequence[StoredPassage]], ranking.MemoryFactors]:
    """Returns a function that computes the factors that all passages of a memory share."""
    best = max((r.value for r in scoring.pool.relevance.values()), default=0.0)
    closeness = 1 if runtime.settings.search.fusion == "rrf" else ranking.CLOSENESS
    turn, since = _turns(runtime, request)
    recency, share = _recency_at(runtime, request, query, scoring), ranking.KeywordShare(query.keywords)

    def factors(memory: Memory, passages: Sequence[StoredPassage]) -> ranking.MemoryFactors:
        attributes, anchors = memory.attributes, {passage.anchor for passage in passages if passage.anchor}
        # A chat's title does not count: it is only the beginning of the chat.
        keywords = 0.0 if memory.source is Source.CHAT else share.of(attributes, anchors)
        return ranking.MemoryFactors(
            attributes.tier,
            recency(memory, since.get(memory.id, turn)),
            keywords,
            usage.boost(memory.access_count, memory.last_access, scoring.now) if memory.access_count else 0.0,
            best,
            closeness,
        )

    return factors


def _set_scale(results: Sequence[RankedMemory]) -> float | None:
    """Scale scores so that the best equals its match: importance, age and use order results, but must not make a bad
    match look good. None if the match of the best is not known.
    """
    best = results[0] if results else None
    if best is None or best.match is None or best.total <= 0.0:
        return None
    best.scoring.scale = 100.0 * best.match / best.total
    return best.scoring.scale


def _turns(runtime: Runtime, request: Request) -> tuple[int, Mapping[int, int]]:
    """The turn of the session, and how many turns ago each memory was last shown; empty without a session."""
    session_id = request.session_id if runtime.settings.decay.model == "turns" else None
    session = runtime.store.record.session(session_id) if session_id else None
    if session is None:
        return 0, {}
    return session.turn, {entry.memory_id: session.turn - entry.turn for entry in session.attention}


def _recency_at(runtime: Runtime, request: Request, query: Query, scoring: Scoring) -> Callable[[Memory, int], float]:
    """Returns a function for the decay of a memory, by the turns since it was shown."""
    settings, now = runtime.settings.decay, scoring.now
    if not request.use_decay or query.historical or not settings.enabled:
        return lambda memory, turns: 1.0
    if settings.model == "half_life":
        return _half_life(settings, now)
    by_state = settings.model == "states"

    def recency(memory: Memory, turns: int) -> float:
        days = decay.days_since(memory.last_access, memory.attributes.own_date, now)
        state = decay.state_of(memory, hot=scoring.hot, now=now) if by_state else None
        return decay.factor(memory.tier, model=settings.model, days=days, turns=turns, state=state, settings=settings)

    return recency


def _half_life(settings: decay.Rates, now: datetime) -> Callable[[Memory, int], float]:
    """The same for the usual model: what only depends on the tier is looked up once."""
    ageless = {tier for tier in Tier if decay.factor(tier, days=1e6, settings=settings) == 1.0}

    def recency(memory: Memory, turns: int) -> float:
        attributes = memory.attributes
        if attributes.tier in ageless:
            return 1.0
        return decay.halved(decay.days_since(memory.last_access, attributes.own_date, now), settings)

    return recency


def _without_unclear_dormant(
    request: Request, results: list[RankedMemory], compared: Set[int], least: float
) -> tuple[list[RankedMemory], list[RankedMemory]]:
    """Split off dormant memories without a clear match, unless the caller named states."""
    if request.state_filter or request.min_state:
        return results, []
    shown: list[RankedMemory] = []
    unclear: list[RankedMemory] = []
    for ranked in results:
        match = ranked.match
        clear = ranked.relevance >= least if match is None else match >= calibration.CLEAR
        lively = (
            (clear and ranked.memory.id in compared)
            or decay.used_recently(ranked.memory.first_indexed_at, ranked.scoring.now)
            or ranked.state is not State.DORMANT
        )
        (shown if lively else unclear).append(ranked)
    return shown, unclear


def _rules_above(
    request: Request, results: Sequence[RankedMemory], compared: Set[int], steepness: int
) -> frozenset[int]:
    """The rules that are shown only above these results: all except those that answer."""
    if request.asks_for_rules:
        return frozenset()
    return frozenset(
        ranked.memory.id
        for ranked in results
        if ranked.memory.tier is Tier.CONSTITUTIONAL
        and not (ranked.memory.id in compared and _is_answer(ranked, steepness))
    )


def _linked(runtime: Runtime, results: list[RankedMemory]) -> list[RankedMemory]:
    """Move superseded memories directly below their successors, and note contradictions."""
    links = runtime.view.links_beside(runtime.whole.generation(), [ranked.memory.id for ranked in results])
    replaced_by = _pairs(links, Relation.SUPERSEDES)
    opposed = _pairs(links, Relation.CONTRADICTS)
    if not replaced_by and not opposed:
        return results
    for target, sources in list(opposed.items()):
        for source in sources:
            opposed.setdefault(source, []).append(target)
    replaces: dict[int, list[int]] = {}
    for ranked in results:
        for successor in replaced_by.get(ranked.memory.id, ()):
            replaces.setdefault(successor, []).append(ranked.memory.id)
    marked = [
        ranked.with_links(
            superseded_by=tuple(replaced_by.get(ranked.memory.id, ())),
            contradicts=tuple(dict.fromkeys(opposed.get(ranked.memory.id, ()))),
            supersedes=tuple(replaces.get(ranked.memory.id, ())),
        )
        if ranked.memory.id in replaced_by or ranked.memory.id in opposed or ranked.memory.id in replaces
        else ranked
        for ranked in results
    ]
    return ranking.below_successors(marked, lambda ranked: ranked.memory.id, lambda ranked: ranked.superseded_by)


def _pairs(links: Sequence[Link], relation: Relation) -> dict[int, list[int]]:
    """Source ids by target id, for links of that relation."""
    pairs: dict[int, list[int]] = {}
    for link in links:
        if link.relation is relation:
            pairs.setdefault(link.target_id, []).append(link.source_id)
    return pairs


# --- matches that are held back ------------------------------------------------


def _held_back(
    runtime: Runtime,
    request: Request,
    question: Question,
    pool: Pool,
    *,
    dormant: Sequence[RankedMemory],
    low: Sequence[RankedMemory],
    stale: Sequence[RankedMemory],
    unseen: _Unseen,
    outside: Filter | None,
    first: RankedMemory | None,
    hot: frozenset[int],
) -> HeldBack:
    """Counts the matches that a state, an expiry or a threshold excluded, with the best of them.

    `outside` selects the memories that the search did not consider, if there are any. Matches below the caller's own
    threshold are all counted, so that they and the results add up to the results without a threshold.
    """
    best = [*dormant, *low, *stale]
    if not (outside or best or unseen.dormant):
        return HeldBack()
    estimated = pool.hits.memories()
    # A memory that has no words of the query and is estimated below the tenth result is no match.
    least = sorted(estimated.values())[-HELD_RANK] if len(estimated) >= HELD_RANK else -1.0
    reasons = dict.fromkeys(_matches(pool.hits, estimated, [ranked.memory.id for ranked in dormant], least), "dormant")
    reasons |= {ranked.memory.id: "minScore" for ranked in low} | {ranked.memory.id: "stale" for ranked in stale}
    if outside:
        hits = retrieve.look(runtime, question, outside)
        reasons |= _outside(runtime, request, hits, least, hot)
        best += _score_outside(runtime, request, question, pool, hits, first, hot)
    counts = Counter(reasons.values())
    if unseen.dormant:
        matched = frozenset(_matches(pool.hits, estimated, unseen.dormant.ids or (), least))
        counts["dormant"] += runtime.store.documents.count(replace(unseen.dormant, ids=matched))
    best = sorted(
        (ranked for ranked in best if ranked.memory.id in reasons),
        key=lambda ranked: ranking.sort_key(ranked.score, ranked.memory),
    )
    return HeldBack(
        archived=counts["archived"],
        dormant=counts["dormant"],
        expired=counts["expired"],
        min_score=counts["minScore"] + (unseen.results if low else 0),
        stale=counts["stale"],
        best=tuple(
            HeldMatch(
                id=ranked.memory.id,
                title=ranked.memory.title,
                reason=reasons[ranked.memory.id],
                score=round(min(100.0, ranked.score), 2),
            )
            for ranked in best[:3]
        ),
    )


def _score_outside(
    runtime: Runtime,
    request: Request,
    question: Question,
    pool: Pool,
    outside: Hits,
    first: RankedMemory | None,
    hot: frozenset[int],
) -> list[RankedMemory]:
    """Score the excluded memories on the scale of the results, of which `first` is the best with its final score.

    If one of them is better than that, the scores are those that they would have as results.
    """
    joined = retrieve.match_outside(runtime, question, pool, outside)
    hidden = set(outside.memory_ids.tolist())
    only = hidden if first is None else hidden | {first.memory.id}
    scored = _score(runtime, request, question.query, joined, hot, only=only)
    best = next(iter(scored), None)
    if first is not None and best is not None and best.memory.id == first.memory.id and best.total > 0.0:
        best.scoring.scale = first.score / best.total
    else:
        _set_scale(scored)
    return [ranked for ranked in scored if ranked.memory.id in hidden]


def _matches(hits: Hits, estimated: Mapping[int, float], memory_ids: Iterable[int], least: float) -> set[int]:
    """The memories that have words of the query or a high enough estimate: every vector is similar to some degree."""
    worded = hits.with_words()
    return {id_ for id_ in memory_ids if id_ in worded or estimated[id_] >= least}


def _outside(runtime: Runtime, request: Request, hits: Hits, least: float, hot: frozenset[int]) -> dict[int, str]:
    """Matches that only their state or their expiry excludes, and which of the two."""
    estimated = hits.memories()
    matched = _matches(hits, estimated, estimated, least)
    now, states = runtime.now(), wanted_states(request)
    reasons = {}
    for memory in runtime.store.documents.many(sorted(matched)):
        state = decay.state_of(memory, hot=hot, now=now)
        if decay.expired(memory.attributes.expires_at, now) and not request.include_archived:
            reasons[memory.id] = "expired"
        elif state not in states and state in (State.DORMANT, State.ARCHIVED):
            reasons[memory.id] = state.lower()
    return reasons
