"""What is shown with a memory besides its text? Its problems, why search holds it back, the code it cites, and git.

The state of cited code is never cached with an answer, because files change without notifying the index.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from spec_kit_memory.advice import Advice, Text, advise, finding
from spec_kit_memory.answers import Card, GitStatus, SearchAnswer
from spec_kit_memory.core import decay, tokens
from spec_kit_memory.core.citations import Code
from spec_kit_memory.core.memory import Memory, Tier, VectorStatus
from spec_kit_memory.features.runtime import Runtime

_WAITING = (VectorStatus.PENDING, VectorStatus.RETRY)
# So many files of each kind are named; the rest are counted.
MOST_NAMED = 5


def held_back(runtime: Runtime, memory: Memory) -> Advice | None:
    """Why search leaves this memory out, and how to find it; None if search shows it."""
    expires_at = memory.attributes.expires_at
    if memory.tier is Tier.DEPRECATED:
        return advise("only-by-tier")
    if decay.expired(expires_at, runtime.now()) and expires_at is not None:
        return advise("expired", date=f"{expires_at:%Y-%m-%d}")
    if memory.outdated:
        return advise("outdated")
    if memory.archived_folder:
        return advise("in-archive")
    return None


def vector_cause(runtime: Runtime) -> Text:
    """Why nothing can be embedded now, as far as any process knows; "" if there is no problem."""
    if not runtime.meaning.wanted:
        return ""
    return runtime.meaning.problem or str(runtime.store.care.stats().provider_failure or "")


def foreign_vectors(runtime: Runtime, dimensions: int | None = None) -> Text:
    """Why the vectors of the index cannot be compared with new ones; "" if they are of the same model.

    Without `dimensions` only the model is compared: finding out the dimensions takes a request to some providers.
    """
    stored, embedder = runtime.store.care.stats().model, runtime.meaning.embedder()
    if embedder is None or stored is None or not stored.weights_hash:
        return ""
    same_size = dimensions in (None, stored.dimensions)
    if same_size and stored.weights_hash == embedder.weights_hash:
        return ""
    if stored.name != embedder.name:
        return finding("vectors-of-another-model", stored=stored.name, used=embedder.name)
    if same_size:
        return finding("vectors-from-elsewhere", used=embedder.name)
    return finding("vectors-of-other-size", used=embedder.name, stored=stored.dimensions, now=dimensions or 0)


def problems_of(runtime: Runtime, memories: Sequence[Memory], *, slips: bool = False) -> dict[int, tuple[Text, ...]]:
    """Each memory's problems; with `slips` also the errors in its file."""
    remarks: dict[int, list[Text]] = {memory.id: [] for memory in memories}
    for memory in memories:
        reason = held_back(runtime, memory)
        remarks[memory.id] += [reason] if reason else []
    explained: set[int] = set()  # memories whose missing vectors have a cause of their own
    for remark in runtime.store.care.remarks(list(remarks)):
        if remark.kind == "vector" and not runtime.meaning.wanted:
            continue
        if remark.kind != "file" or slips:
            on_line = finding("on-line", problem=remark.message, line=remark.line) if remark.line else None
            remarks[remark.memory_id].append(on_line or remark.message)
            explained |= {remark.memory_id} if remark.kind == "vector" else set()
    for memory in memories:
        cause = vector_cause(runtime) if memory.vector_status in _WAITING else ""
        if cause and memory.id not in explained:
            remarks[memory.id].append(finding("no-vectors-yet", cause=cause))
    return {memory_id: tuple(texts) for memory_id, texts in remarks.items()}


def with_problems(cards: Iterable[Card], problems: dict[int, tuple[Text, ...]]) -> tuple[Card, ...]:
    return tuple(replace(card, problems=problems.get(card.id, ())) for card in cards)


def code_of(runtime: Runtime, memories: Iterable[Memory]) -> dict[int, Code]:
    """For each of these memories whose cited files differ now: how they differ."""
    naming = [memory for memory in memories if memory.cited]
    if not naming or runtime.accepts:
        return {}
    files = runtime.shared.code_files(runtime.settings)
    code_by_id = {memory.id: files.code(memory.cited, prefixes=runtime.scope.prefixes) for memory in naming}
    return {id_: code for id_, code in code_by_id.items() if code}


def is_code_fresh(code: Code | None) -> bool:
    """Is all cited code unchanged? A file that only moved still says the same."""
    return code is None or not (code.changed or code.gone)


def shortened_code(code: Code, most: int = MOST_NAMED) -> Code:
    return Code(*(_few(names, most) for names in (code.changed, code.gone, code.moved)))


def _few(names: tuple[str, ...], most: int) -> tuple[str, ...]:
    more = len(names) - most
    return names if more <= 0 else (*names[:most], str(finding("more-problems", count=more)))


def with_code(runtime: Runtime, answer: SearchAnswer, *, max_tokens: int) -> SearchAnswer:
    """The answer with the state of the code that each result cites, as far as it fits."""
    code_by_id = code_of(runtime, runtime.store.documents.many(sorted({result.id for result in answer.results})))
    if not code_by_id:
        return answer
    room = max_tokens * tokens.BYTES_PER_TOKEN - _size(answer)
    results = []
    for result in answer.results:
        code = code_by_id.get(result.id)
        if code is not None:
            for most in (MOST_NAMED, 1):
                code_row = shortened_code(code, most)
                size = _size(code_row) + len('"code":,')
                if size <= room:
                    room -= size
                    result = replace(result, code=code_row)
                    break
        results.append(result)
    return replace(answer, results=tuple(results))


def _size(thing: object) -> int:
    """Its size as JSON in bytes, including fields that the answer may leave out."""
    return len(json.dumps(thing, ensure_ascii=False, default=_plain).encode("utf-8", "surrogatepass"))


def _plain(thing: Any) -> object:
    if is_dataclass(thing):
        return {field.name: getattr(thing, field.name) for field in fields(thing)}
    if isinstance(thing, Mapping):
        return dict(thing)
    return str(thing)


def git_status_of(runtime: Runtime, memories: Iterable[Memory]) -> dict[str, GitStatus]:
    """The git status by path, for memories that were ever changed through the server."""
    outbox = runtime.whole.outbox
    if outbox is None:
        return {}
    deliveries = outbox.deliveries([memory.path for memory in memories])
    return {
        path: GitStatus(
            stage=delivery.stage.value, branch=delivery.branch, commit=delivery.commit, reason=delivery.reason
        )
        for path, delivery in deliveries.items()
    }


def git_counts(runtime: Runtime) -> Mapping[str, int]:
    """Counts for the whole project, so only for callers who see all of it."""
    outbox = runtime.whole.outbox
    if outbox is None or runtime.isolated:
        return {}
    backlog = outbox.backlog()
    return {"accepted": backlog.accepted, "in git": backlog.in_git, "failed": backlog.failed}
