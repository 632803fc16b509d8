"""What needs a person's decision? One list of findings, each with the possible actions.

It covers only memories that the caller may see; figures about the whole workspace require an unlimited scope.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256

from spec_kit_memory.advice import advise, finding, outcome
from spec_kit_memory.core import decay
from spec_kit_memory.core import triggers as phrases
from spec_kit_memory.core.memory import Filter, Memory, Source, State, Tier, VectorStatus
from spec_kit_memory.features import health, merge, near_duplicates, remarks, sessions
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files import set_aside
from spec_kit_memory.page_answers import CareAnswer, CareItem, KeepAnswer
from spec_kit_memory.requests import CareRequest, HealthRequest, KeepRequest

LOOKED_AT = 2_000  # memories of one kind; the remaining, older ones are listed once these are dealt with
_EXEMPT = (Tier.CONSTITUTIONAL, Tier.CRITICAL, Tier.DEPRECATED)
# Findings of `health` that are another kind of item here, or that need no decision.
_SHOWN_ELSEWHERE = {"bad files", "failed vectors", "general triggers", "held back", "locks", "pending vectors"}


def care(runtime: Runtime, request: CareRequest) -> CareAnswer:
    pairs, to_compare = near_duplicates.comparison(runtime).advance(runtime, seconds=request.seconds)
    aside = set_aside.read(runtime.settings, scope=runtime.scope)
    every = [
        *_duplicates(runtime, pairs),
        *_unvouched(runtime),
        *_stale(runtime),
        *_triggers(runtime),
        *_expired(runtime),
        *_failures(runtime),
        *(_health(runtime) if request.health else ()),
        *_unused(runtime),  # last, since there may be very many
    ]
    open_ = [item for item in every if (item.key in aside) == request.set_aside]
    chosen = [item for item in open_ if request.kind in (None, item.kind)]
    return CareAnswer(
        outcome=outcome("to-decide", count=len(chosen)) if chosen else outcome("nothing-to-decide"),
        items=tuple(chosen[: request.limit]),
        counts=dict(Counter(item.kind for item in open_)),
        to_compare=to_compare,
    )


def keep(runtime: Runtime, request: KeepRequest) -> KeepAnswer:
    set_aside.put(runtime.settings, request.key, aside=request.kept, scope=runtime.scope)
    return KeepAnswer(
        outcome=outcome("left-as-is" if request.kept else "brought-up-again"), key=request.key, kept=request.kept
    )


def _key(kind: str, *memories: Memory) -> str:
    return ":".join([kind, *(f"{memory.id}.{memory.content_hash[:8]}" for memory in memories)])


def _duplicates(runtime: Runtime, pairs: list[tuple[Memory, Memory, float]]) -> Iterator[CareItem]:
    for memory, other, score in pairs:
        yield CareItem(
            key=_key("duplicates", memory, other),
            kind="duplicates",
            message=finding("near-duplicates", title=memory.title, other=other.title),
            hint=advise("join-or-leave"),
            memories=(runtime.card(memory), runtime.card(other)),
            score=round(score, 3),
            mergeable=not merge.obstacle(other, memory),
        )


def _unvouched(runtime: Runtime) -> Iterator[CareItem]:
    for source in (Source.CHAT, Source.CUSTOM):
        for memory in runtime.store.documents.find(Filter(source=source), limit=LOOKED_AT):
            if not memory.trusted:
                yield CareItem(
                    key=_key("unvouched", memory),
                    kind="unvouched",
                    message=finding("unvouched-conversation" if source is Source.CHAT else "unvouched-text"),
                    hint=advise("vouch-or-forget"),
                    memories=(runtime.card(memory),),
                )


def _stale(runtime: Runtime) -> Iterator[CareItem]:
    """Memories that cite project files that changed since the memory was written."""
    citing = runtime.store.documents.find(Filter(cites=True), limit=LOOKED_AT)
    naming = [memory for memory in citing if memory.cited and not memory.outdated]
    code_by_id = remarks.code_of(runtime, naming)
    for memory in naming:
        code = code_by_id.get(memory.id)
        if code is not None and not remarks.is_code_fresh(code):
            files = (
                *(finding("file-gone", name=name) for name in code.gone),
                *(finding("file-changed", name=name) for name in code.changed),
            )
            as_text = ", ".join(map(str, files))
            yield CareItem(
                key=f"{_key('stale', memory)}:{sha256(as_text.encode('utf-8', 'replace')).hexdigest()[:8]}",
                kind="stale",
                message=finding("cited-code-changed", files=files),
                hint=advise("does-it-hold"),
                memories=(replace(runtime.card(memory), code=remarks.shortened_code(code)),),
            )


def _triggers(runtime: Runtime) -> Iterator[CareItem]:
    general = sessions.too_general(runtime)
    if not general:
        return
    having: dict[str, list[int]] = {}
    for memory_id, phrase in runtime.store.documents.triggers():
        having.setdefault(phrases.fold(phrase), []).append(memory_id)
    for phrase in general:
        memories = runtime.store.documents.many(having.get(phrases.fold(phrase), []))
        if memories:
            yield CareItem(
                key=_key(f"trigger:{phrase}", *memories[:3]),
                kind="trigger",
                message=finding("general-phrase", phrase=phrase),
                hint=advise("remove-phrase"),
                memories=tuple(map(runtime.card, memories[:5])),
                phrase=phrase,
            )


def _expired(runtime: Runtime) -> Iterator[CareItem]:
    now = runtime.now()
    everything = Filter(without=Filter(expired_at=now.timestamp()))
    for memory in runtime.store.documents.find(everything, limit=LOOKED_AT):
        if decay.expired(memory.attributes.expires_at, now) and memory.tier is not Tier.DEPRECATED:
            yield CareItem(
                key=_key("expired", memory),
                kind="expired",
                message=finding("expired-on", date=f"{memory.attributes.expires_at:%Y-%m-%d}"),
                hint=advise("other-tier-or-forget"),
                memories=(runtime.card(memory),),
            )


def _unused(runtime: Runtime) -> Iterator[CareItem]:
    now = runtime.now()
    old = Filter(source=Source.MEMORY, states=decay.bounds({State.DORMANT, State.ARCHIVED}, now=now))
    for memory in runtime.store.documents.find(old, limit=LOOKED_AT):
        idle = not memory.access_count and not memory.outdated and not memory.archived_folder
        if idle and memory.tier not in _EXEMPT and not decay.expired(memory.attributes.expires_at, now):
            days = (now - memory.first_indexed_at).days
            yield CareItem(
                key=_key("unused", memory),
                kind="unused",
                message=finding("never-used", days=days),
                hint=advise("does-it-hold"),
                memories=(runtime.card(memory),),
            )


def _failures(runtime: Runtime) -> Iterator[CareItem]:
    remarks = runtime.store.care.remarks(kind="vector") if runtime.meaning.wanted else ()
    failed = {remark.memory_id: remark.message for remark in remarks}
    for memory in runtime.store.documents.many(list(failed)):
        if memory.vector_status in (VectorStatus.FAILED, VectorStatus.PARTIAL):
            yield CareItem(
                key=_key("vectors", memory),
                kind="vectors",
                message=failed[memory.id],
                hint=advise("fix-and-repair"),
                memories=(runtime.card(memory),),
            )
    for bad in runtime.store.care.bad_files():
        yield CareItem(
            key=f"file:{bad.path}:{bad.code}",
            kind="file",
            message=finding("file-unreadable", path=bad.path, problem=bad.message),
            hint=advise("fix-file"),
        )


def _health(runtime: Runtime) -> Iterator[CareItem]:
    answer = health.health(runtime, HealthRequest())
    for problem in answer.problems:
        if problem.check not in _SHOWN_ELSEWHERE:
            yield CareItem(
                key=f"health:{problem.check}:{str(problem.message)[:120]}",
                kind="health",
                message=finding("failed-check", check=problem.check, problem=problem.message),
                hint=problem.hint,
            )
