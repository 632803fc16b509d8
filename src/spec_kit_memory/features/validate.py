"""Was a memory useful? Validation, promotion, and marking a memory outdated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from spec_kit_memory.advice import Advice, Text, advise, outcome
from spec_kit_memory.answers import ValidateAnswer
from spec_kit_memory.core import operation, usage
from spec_kit_memory.core.memory import Memory, Tier
from spec_kit_memory.core.wording import counted
from spec_kit_memory.errors import Invalid
from spec_kit_memory.features import amend, remarks
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files import locks
from spec_kit_memory.requests import UpdateRequest, ValidateRequest

# Promotion leads to critical and never further: only a person makes a rule.
_ABOVE_IMPORTANT = (Tier.CRITICAL, Tier.CONSTITUTIONAL)
_LOCK_SECONDS = 30.0


def validate(runtime: Runtime, request: ValidateRequest) -> ValidateAnswer:
    """Record an opinion of a memory; either all requested changes are made, or none."""
    memory_id, was_useful, promote = request.id, request.was_useful, bool(request.promote)
    with _validation_lock(runtime):
        memory = runtime.store.documents.get(memory_id)
        if request.outdated is not None:
            runtime.require_right_to_rule([(memory.tier, memory.path)])
        confidence, count = memory.confidence, memory.validation_count
        if was_useful is not None:
            confidence, count = usage.validated(confidence, was_useful), count + 1
        offered = usage.promotable(count, confidence) and memory.tier not in _ABOVE_IMPORTANT
        if promote and not offered:
            raise Invalid(
                f"memory {memory_id} cannot be promoted: {counted(count, 'validation')}, confidence {confidence}, "
                f"tier {memory.tier.value}",
                hint="promotion to critical needs 5 validations and a confidence of 0.9; nothing was recorded",
            )
        done = operation.Validate(useful=was_useful) if was_useful is not None else None
        if done:
            verdict = "useful" if was_useful else "not useful"
            runtime.store.record.amend(
                memory_id, runtime.change(f"validated as {verdict}", done), validation=(confidence, count)
            )
        _mark(runtime, memory, was_useful=was_useful, outdated=request.outdated, part_of=done)
    if promote:
        amend.update(runtime, UpdateRequest(memory_id, importance_tier=Tier.CRITICAL), part_of=done)
    memory = runtime.read_again(replace(memory, confidence=confidence, validation_count=count))
    reason = remarks.held_back(runtime, memory)
    hints: list[Text] = [reason] if reason else []
    if offered and not promote:
        hints.append(advise("promote", id=memory_id))
    return ValidateAnswer(
        outcome=_outcome(memory, promote),
        advice=tuple(hints),
        id=memory_id,
        confidence=float(memory.confidence),
        validation_count=memory.validation_count,
        promotion_offered=offered and not promote,
        promoted=promote,
        outdated=memory.outdated,
        state=runtime.state(memory),
    )


@contextmanager
def _validation_lock(runtime: Runtime) -> Iterator[None]:
    """Hold the lock for opinions: each adds to the counts before it, so two processes must not do so at once."""
    with locks.Lock(runtime.settings, "judging.lock") as lock:
        with suppress(OSError):  # where no lock can be created, nothing can be written either
            lock.wait(seconds=_LOCK_SECONDS)
        yield


def _mark(
    runtime: Runtime,
    memory: Memory,
    *,
    was_useful: bool | None,
    outdated: bool | None,
    part_of: operation.Operation | None,
) -> None:
    """Set or clear the outdated mark. A useful memory is no longer outdated, and is WARM, as this counts as a use."""
    if was_useful:
        runtime.used([memory.id])
        runtime.flush()
    new_outdated = False if was_useful and outdated is None else outdated
    if new_outdated is not None and new_outdated != memory.outdated:
        done = operation.Outdated(outdated=new_outdated, id=part_of.id if part_of else operation.new_id())
        runtime.store.record.amend(
            memory.id, runtime.change("outdated" if new_outdated else "not outdated", done), outdated=new_outdated
        )


def _outcome(memory: Memory, promoted: bool) -> Advice:
    confidence, count = str(memory.confidence), memory.validation_count
    done = outcome("validated", title=memory.title, id=memory.id, confidence=confidence, count=count)
    if promoted:
        done = outcome("promoted", outcome=done)
    return outcome("marked-outdated", outcome=done) if memory.outdated else done
