"""How does a ranking become an answer within a token budget? The second half of a search.

Rules come first, then the results (`result_rows`), and codes for what was found, what is missing and what was held
back. Answers are cached for a minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from spec_kit_memory import answer_json
from spec_kit_memory.advice import Advice, Text, advise, finding, outcome
from spec_kit_memory.answers import (
    ConceptMatches,
    Explanation,
    FlatResult,
    Freshness,
    HeldBack,
    Result,
    Rule,
    SearchAnswer,
)
from spec_kit_memory.core import packing, tokens, triggers
from spec_kit_memory.core.folders import clean_folder, near_folders
from spec_kit_memory.core.memory import Document
from spec_kit_memory.core.wording import title_beside_path
from spec_kit_memory.features import remarks, sessions
from spec_kit_memory.features import search as searching
from spec_kit_memory.features.result_rows import AnswerFrame, ResultBuilder
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.features.search import RankedMemory, Ranking
from spec_kit_memory.index.contract import IndexTotals
from spec_kit_memory.requests import SearchRequest as Request

# A question may be long; the answer repeats enough of it to identify it.
ECHO_CHARACTERS = 300
CACHE_SECONDS = 60
# An answer that could not compare meanings is not cached, because the next one may be able to.
_WITHOUT_MEANING = frozenset(("meaning-unavailable", "no-meaning"))


def search(runtime: Runtime, request: Request) -> SearchAnswer:
    if (session_id := sessions.kept_id(request.session_id)) != request.session_id:
        request = request.replace(session_id=session_id)
    with runtime.whole.steady():
        return _with_code(runtime, request, _answered(runtime, request))


def _answered(runtime: Runtime, request: Request) -> SearchAnswer:
    generation = runtime.whole.generation()
    # Only searches without a session are cached, because what a session was sent changes with each answer.
    # A cached answer is valid for a minute, because memories expire and change their state without a write.
    # A connection is sent the rules once, so whether it has them is part of the key.
    sent_rules, cache = sessions.rules_sent_to(runtime, None), runtime.view.answers
    key = (request, int(runtime.now().timestamp() // CACHE_SECONDS), sent_rules)
    cached = cache.get(key, generation) if request.session_id is None else None
    if cached is not None:
        sessions.remember_rules(runtime, _rule_marks(runtime, cached.constitutional, cached.results))
        if request.include_content:
            runtime.used([result.id for result in cached.results])
        return replace(cached, meta=replace(cached.meta, cache_hit=True))
    answer = answer_from(runtime, request)
    if (
        request.session_id is None
        and not request.fresh
        and not any(isinstance(notice, Advice) and notice.code in _WITHOUT_MEANING for notice in answer.unavailable)
    ):
        cache.put(key, generation, answer)
    return answer


def _with_code(runtime: Runtime, request: Request, answer: SearchAnswer) -> SearchAnswer:
    return remarks.with_code(runtime, answer, max_tokens=request.max_tokens or runtime.settings.search.max_tokens)


def answer_from(runtime: Runtime, request: Request) -> SearchAnswer:
    ranking = searching.rank(runtime, request)
    with runtime.whole.steady():
        return _packed(runtime, request, ranking)


def _packed(runtime: Runtime, request: Request, ranking: Ranking) -> SearchAnswer:
    budget = request.max_tokens or runtime.settings.search.max_tokens
    candidates = [ranked for ranked in ranking.memories if ranked.memory.id not in ranking.above]
    shown_rules = _rules(runtime, request, budget, without={ranked.memory.id for ranked in candidates[: request.limit]})
    stats = runtime.store.care.stats()
    frame = AnswerFrame(_answer_header(runtime, request, ranking, shown_rules.rules, stats), request, budget=budget)
    builder = ResultBuilder(runtime, request, frame, ranking.query.keywords)
    by_passage = request.group_by == "passage"
    results: Sequence[Result | FlatResult] = (
        builder.passages(candidates, frame.room)
        if by_passage
        else builder.results(candidates[: request.limit], frame.room)
    )
    marks = _rule_marks(runtime, shown_rules.rules, results, lines=request.session_id is not None)
    builder.remember(list(dict.fromkeys(result.id for result in results)), marks)
    cards, results = builder.contiguity(results)
    hints = _hints(request, ranking, results, found_count=len(candidates))
    if not results and not candidates:
        hints += _when_empty(request, ranking) if stats.memories else [runtime.nothing_yet()]
    if request.spec_folder and not candidates and (unknown := _unknown_folder(runtime, request.spec_folder)):
        hints.insert(0, unknown)
    if shown_rules.unnamed:
        hints.append(advise("name-rules", count=shown_rules.unnamed))
    if builder.sections_left_out:
        hints.append(advise("read-section", count=builder.sections_left_out))
    if builder.other_sections:
        hints.append(finding("sections-of-best", sections=tuple(builder.other_sections)))
    return replace(
        frame.answer,
        outcome=_outcome(request, ranking, candidates, len(results)),
        advice=tuple(hints),
        results=tuple(results),
        tokens_saved=builder.tokens_saved,
        contiguous=tuple(cards),
        omitted=frame.answer.omitted.union(frame.optional),
    )


def _answer_header(
    runtime: Runtime,
    request: Request,
    ranking: Ranking,
    rules: tuple[Rule, ...],
    stats: IndexTotals,
) -> SearchAnswer:
    """The answer before its results are added."""
    return SearchAnswer(
        outcome="",
        query=_echo(request),
        method=ranking.method,
        results=(),
        constitutional=rules,
        total_found=ranking.total,
        concepts=ranking.concepts,
        held_back=ranking.held_back,
        unavailable=ranking.unavailable,
        stats={"totalFiles": stats.memories, "totalChunks": stats.passages},
        freshness=Freshness(last_indexed=stats.last_indexed, pending_vectors=stats.pending_passages),
        tokens_saved=10**9,  # an upper bound, to measure the size of the field
        explain=_explain(runtime, ranking) if request.explain else Explanation(),
        omitted=frozenset() if request.anchors else frozenset(("tokens_saved",)),
    )


def _echo(request: Request) -> str:
    return request.text if len(request.text) <= ECHO_CHARACTERS else f"{request.text[:ECHO_CHARACTERS]}…"


# --- rules on top ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ShownRules:
    """The constitutional memories to show, and how many were left out."""

    rules: tuple[Rule, ...] = ()
    unnamed: int = 0


def _rules(runtime: Runtime, request: Request, budget: int, *, without: Set[int]) -> _ShownRules:
    if not request.include_constitutional or request.asks_for_rules:
        return _ShownRules()
    memories = {m.id: m for m in runtime.rules() if m.id not in without}
    if not memories:
        return _ShownRules()
    phrases = [(m.id, phrase) for m in memories.values() for phrase in m.attributes.triggers]
    triggered = {match.memory_id for match in triggers.Matcher(phrases).match(request.text)}
    if request.dedup:
        sent_rules = sessions.rules_sent_to(runtime, request.session_id)
        memories = {
            id_: m for id_, m in memories.items() if sessions.is_due(runtime, m, sent_rules, triggered=id_ in triggered)
        }
    bodies = {id_: _body(runtime.opened(memory).outline) for id_, memory in memories.items()}
    named_rules = {m.id: Rule(id=m.id, title=m.title, path=m.path, text="") for m in memories.values()}
    candidates = [
        packing.RuleText(
            id=m.id,
            name_size=answer_json.size(named_rules[m.id]) + len(","),
            text=bodies[m.id],
            weight=m.attributes.weight,
            triggered=m.id in triggered,
        )
        for m in memories.values()
    ]
    ruled = packing.rules(
        candidates, budget=packing.rules_budget(budget) * tokens.BYTES_PER_TOKEN, measure=tokens.quoted
    )
    with_text = [replace(named_rules[id_], text=text) for id_, text in ruled.shown]
    return _ShownRules((*with_text, *(named_rules[id_] for id_ in ruled.named)), ruled.unnamed)


def _rule_marks(
    runtime: Runtime, rules: Sequence[Rule], results: Sequence[Result | FlatResult], *, lines: bool = False
) -> list[str]:
    """Marks for the rules in an answer, above its results or among them, so that each is sent once; with `lines` also
    for those of the rules above, so that they are not quoted as results."""
    memories = {memory.id: memory for memory in runtime.rules()} if rules else {}
    known = [(memories[rule.id], rule.text) for rule in rules if rule.id in memories]
    marks = [sessions.rule_mark(memory, text=bool(text)) for memory, text in known]
    for memory, text in known if lines else ():
        marks += sessions.marks_of_whole_rule(runtime, memory, text) if text else []
    return marks + sessions.marks_of_rules_among(runtime, _shown_parts(results))


def _shown_parts(results: Iterable[Result | FlatResult]) -> Iterator[tuple[int, str, str]]:
    """The texts of the results: id, lines and text of each."""
    for result in results:
        yield result.id, result.lines, result.text
        if isinstance(result, Result):
            yield result.id, result.lines, result.content or ""
            yield from ((result.id, passage.lines, passage.text) for passage in result.passages)


def _body(document: Document) -> str:
    return "\n".join(document.text.split("\n")[document.body_first_line - 1 :]).strip()


# --- outcome and advice ----------------------------------------------------------


def _outcome(request: Request, ranking: Ranking, results: Sequence[RankedMemory], shown_count: int) -> Advice:
    if not results:
        return outcome("only-rules-matched" if ranking.memories else "nothing-matched", text=repr(request.text[:80]))
    if not shown_count:
        return outcome("no-room", total=ranking.total)
    best = results[0]
    return outcome(
        "passages-found" if request.group_by == "passage" else "memories-found",
        shown=shown_count,
        total=ranking.total,
        title=title_beside_path(best.memory.title, best.memory.path),
        score=f"{best.scored.score:.0f}",
        method=ranking.method,
    )


def _ways_to_include(request: Request, held_back: HeldBack) -> tuple[Advice, ...]:
    """How to include each kind of match that was held back, without options that the request has already."""
    if request.state_filter or request.min_state:
        return (advise("held-back-by-state"),)
    ways = []
    if (held_back.archived or held_back.expired) and not request.include_archived:
        ways.append(advise("bring-archived"))
    if held_back.dormant:
        ways.append(advise("bring-dormant"))
    return tuple(ways)


def _hints(request: Request, ranking: Ranking, results: Sequence[Any], *, found_count: int) -> list[Text]:
    hints: list[Text] = []
    if ranking.historical and request.use_decay:
        hints.append(finding("past-question"))
    if results and ranking.is_unanswered:
        hints.append(finding("nothing-close"))
    held_back = ranking.held_back
    if held_back.archived or held_back.dormant or held_back.expired:
        hints.append(advise("held-back", ways=_ways_to_include(request, held_back)))
    left_out = min(request.limit, found_count) - len(results) if request.group_by == "memory" else 0
    if left_out > 0 or (found_count and not results):
        hints.append(advise("raise-budget", count=max(left_out, 1)))
    listed = {row.id: row.superseded_by for row in results}
    for memory_id, successors in listed.items():
        if successors and not listed.keys() & set(successors):
            hints.append(advise("successor-not-shown", id=memory_id, by=successors[0]))
            break
    if held_back.min_score:
        hints.append(advise("below-score", count=held_back.min_score, score=request.min_score or 0.0))
    if held_back.stale:
        hints.append(advise("held-back-fresh", count=held_back.stale))
    if request.include_content and any(row.already_sent and not row.content for row in results):
        hints.append(advise("sent-before"))
    return hints


def _unknown_folder(runtime: Runtime, folder: str) -> Advice | None:
    """A finding that a folder has no memory, with the folders that were probably meant; None if it has one."""
    name = clean_folder(folder)
    folders = {tally.spec_folder for tally in runtime.store.documents.tally() if tally.spec_folder}
    if name in folders:
        return None
    near = near_folders(name, folders)
    return finding("folder-empty-near", folder=name, near=tuple(near)) if near else finding("folder-empty", folder=name)


def _concepts_found(concepts: Mapping[str, ConceptMatches]) -> Advice:
    """How many memories match each concept, if none matches all of them."""
    parts = []
    for concept, matches in concepts.items():
        best = tuple(outcome("named", title=memory.title, id=memory.id) for memory in matches.best or ())
        more = matches.memories - len(best)
        if not best:
            parts.append(finding("concept-in-none", concept=concept))
        elif more > 0:
            parts.append(finding("concept-in-more", concept=concept, best=best, more=more))
        else:
            parts.append(finding("concept-in", concept=concept, best=best))
    return finding("no-memory-has-all", concepts=tuple(parts))


def _when_empty(request: Request, ranking: Ranking) -> list[Text]:
    tried = [
        name
        for name, value in (
            ("spec_folder", request.spec_folder),
            ("tier", request.tier),
            ("context_type", request.context_type),
            ("source", request.only_source),
            ("state_filter", request.state_filter),
            ("min_state", request.min_state),
        )
        if value
    ]
    hints: list[Text] = [advise("drop-filters", parameters=tuple(tried))] if tried else []
    if ranking.concepts:
        return [_concepts_found(ranking.concepts), *hints, advise("fewer-concepts", parameters=("query",))]
    return [*hints, advise("other-words")]


def _explain(runtime: Runtime, ranking: Ranking) -> Explanation:
    weights = runtime.settings.search.weights
    return Explanation(
        fusion=runtime.settings.search.fusion,
        scale=ranking.scale,
        candidates=ranking.legs,
        weights={
            "relevance": weights.relevance,
            "tier": weights.tier,
            "recency": weights.recency,
            "keywords": weights.keywords,
        },
        terms=tuple(ranking.query.terms),
        keywords=tuple(ranking.query.keywords),
    )
