"""Was it useful? Validation, promotion, and marking a memory outdated."""

from __future__ import annotations

from spec_kit_memory.answers import ValidateAnswer
from spec_kit_memory.core import usage
from spec_kit_memory.core.memory import Memory, Tier
from spec_kit_memory.errors import Invalid, MissingParameter
from spec_kit_memory.verbs import changing
from spec_kit_memory.verbs.wiring import Wiring

# Promotion leads to critical and never further: only a person makes a rule.
_ABOVE_IMPORTANT = (Tier.CRITICAL, Tier.CONSTITUTIONAL)


def validate(
    wiring: Wiring,
    *,
    memory_id: int,
    was_useful: bool | None = None,
    outdated: bool | None = None,
    promote: bool = False,
) -> ValidateAnswer:
    """Record an opinion of a memory; every part given is done, and the answer says what it led to."""
    if was_useful is None and outdated is None and not promote:
        raise MissingParameter("validate needs wasUseful, outdated or promote", hint="say wasUseful: true or false")
    memory = wiring.store.get(memory_id)
    if was_useful is not None:
        memory = _opinion(wiring, memory, was_useful)
    if outdated is not None and outdated != memory.outdated:
        wiring.store.mark_outdated(memory_id, outdated, wiring.change("outdated" if outdated else "not outdated"))
        memory = wiring.store.get(memory_id)
    offered = usage.promotable(memory.validation_count, memory.confidence) and memory.tier not in _ABOVE_IMPORTANT
    promoted = promote and _promote(wiring, memory, offered)
    memory = wiring.store.get(memory_id)
    return ValidateAnswer(
        summary=_summary(memory, promoted),
        hints=("it may become critical: call memory_validate with promote: true",) if offered and not promoted else (),
        id=memory_id,
        confidence=float(memory.confidence),
        validation_count=memory.validation_count,
        promotion_offered=offered and not promoted,
        promoted=promoted,
        outdated=memory.outdated,
        state=wiring.state(memory),
    )


def _opinion(wiring: Wiring, memory: Memory, was_useful: bool) -> Memory:
    confidence = usage.validated(memory.confidence, was_useful)
    reason = "useful" if was_useful else "not useful"
    wiring.store.validate(memory.id, confidence, memory.validation_count + 1, wiring.change(f"validated as {reason}"))
    if was_useful:
        # A useful memory is at least WARM: that is what an access now makes it.
        wiring.used([memory.id])
        wiring.flush()
    return wiring.store.get(memory.id)


def _promote(wiring: Wiring, memory: Memory, offered: bool) -> bool:
    if not offered:
        raise Invalid(
            f"memory {memory.id} cannot be promoted: {memory.validation_count} validations, "
            f"confidence {memory.confidence}, tier {memory.tier.value}",
            hint="promotion to critical needs 5 validations and a confidence of 0.9",
        )
    changing.update(wiring, memory_id=memory.id, importance_tier=Tier.CRITICAL)
    return True


def _summary(memory: Memory, promoted: bool) -> str:
    said = f"{memory.title} (#{memory.id}): confidence {memory.confidence} after {memory.validation_count} validations"
    if promoted:
        said += ", promoted to critical"
    return said + (", marked outdated" if memory.outdated else "")
