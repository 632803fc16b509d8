"""What is a session attending to, how strongly, and what follows from it?

Attention is 1.0 when a memory matches and fades with every turn by its tier's rate. Memories linked
to a match get half the attention per hop. Functions take and return values: sessions are replaced,
never modified.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from spec_kit_memory.core.lean_dataclass import dataclass
from spec_kit_memory.core.memory import Attention, Link, Session, State, Tier
from spec_kit_memory.core.tiers import TABLE

WORKING_MEMORY_SIZE = 7
PER_HOP = 0.5
MAX_HOPS = 2
HOT_FROM = 0.8  # a match, and a normal memory one turn later
WARM_FROM = 0.4  # one hop from a match, or a normal memory four turns later
FORGOTTEN_BELOW = 0.01
MOST_ENTRIES = 200  # per session; far more than any answer shows


@dataclass(frozen=True, slots=True)
class CoActivation:
    """A memory that did not match itself but is linked to, or shares a folder with, one that did."""

    memory_id: int
    strength: float
    hops: int
    from_id: int  # the match it was reached from
    via: str = "link"  # or "folder": shares a spec folder, and no link leads to it


def next_turn(session: Session, *, turn_number: int | None = None) -> Session:
    """One turn later, or at the given turn. Turns never run backwards."""
    turn = session.turn + 1 if turn_number is None else max(session.turn, turn_number)
    return replace(session, turn=turn)


def strength(attention: Attention, *, turn: int, tier: Tier) -> float:
    """How much of the attention is left at `turn`."""
    elapsed = max(0, turn - attention.turn)
    return attention.strength * float(TABLE[tier].turn_rate) ** elapsed


def strengths(session: Session, *, tiers: Mapping[int, Tier]) -> dict[int, float]:
    """The attention left for each memory of the session; one without a known tier fades as normal."""
    return {
        entry.memory_id: strength(entry, turn=session.turn, tier=tiers.get(entry.memory_id, Tier.NORMAL))
        for entry in session.attention
    }


def attend(
    session: Session, activations: Mapping[int, float], *, tiers: Mapping[int, Tier], via: str = "match"
) -> Session:
    """Raise attention to the given memories (id -> strength) at this turn; it is never lowered by that."""
    remaining_strength = strengths(session, tiers=tiers)
    entries = {entry.memory_id: entry for entry in session.attention}
    for memory_id, new in activations.items():
        if new >= remaining_strength.get(memory_id, 0.0):
            entries[memory_id] = Attention(memory_id, new, session.turn, via)
            remaining_strength[memory_id] = new
    remembered = [entry for entry in entries.values() if remaining_strength[entry.memory_id] >= FORGOTTEN_BELOW]
    remembered.sort(key=lambda entry: (-remaining_strength[entry.memory_id], -entry.turn, entry.memory_id))
    return replace(session, attention=tuple(remembered[:MOST_ENTRIES]))


def forget(session: Session, memory_ids: Iterable[int]) -> Session:
    """The session without these memories."""
    removed_ids = frozenset(memory_ids)
    return replace(session, attention=tuple(entry for entry in session.attention if entry.memory_id not in removed_ids))


def co_activate(
    matched: Mapping[int, float], *, links: Iterable[Link], folders: Mapping[int, str]
) -> list[CoActivation]:
    """Memories within reach of the matched ones, strongest first.

    A hop follows a link in either direction, or leads to another document of the same spec folder
    (`folders` gives the folder of each such document). The nearest, strongest match counts.
    """
    neighbours = _neighbours(links)
    members: dict[str, list[int]] = {}
    for memory_id, folder in folders.items():
        members.setdefault(folder, []).append(memory_id)
    activated: dict[int, CoActivation] = {}
    front = {memory_id: CoActivation(memory_id, power, 0, memory_id) for memory_id, power in matched.items()}
    for hops in range(1, MAX_HOPS + 1):
        reached: dict[int, CoActivation] = {}
        for entry in sorted(front.values(), key=lambda entry: -entry.strength):
            passed_on = entry.strength * PER_HOP
            linked = [(other, entry.via) for other in neighbours.get(entry.memory_id, [])]
            # A folder's members are expanded only at its first visit, which reaches all of them.
            beside = [(other, "folder") for other in members.pop(folders.get(entry.memory_id, ""), [])]
            for other, via in linked + beside:
                previous = reached.get(other)
                if (
                    other not in matched
                    and other not in activated
                    and (previous is None or previous.strength < passed_on)
                ):
                    reached[other] = CoActivation(other, passed_on, hops, entry.from_id, via)
        activated |= reached
        front = reached
    return sorted(activated.values(), key=lambda entry: (-entry.strength, entry.hops, entry.memory_id))


def _neighbours(links: Iterable[Link]) -> dict[int, list[int]]:
    neighbours: dict[int, list[int]] = {}
    for link in links:
        neighbours.setdefault(link.source_id, []).append(link.target_id)
        neighbours.setdefault(link.target_id, []).append(link.source_id)
    return neighbours


def level(power: float) -> State:
    """The state that corresponds to this much attention."""
    if power >= HOT_FROM:
        return State.HOT
    return State.WARM if power >= WARM_FROM else State.COLD


def shown(state: State) -> str:
    """How much of a memory is returned: content, summary or title."""
    return {State.HOT: "content", State.WARM: "summary"}.get(state, "title")


def working_memory(session: Session, *, tiers: Mapping[int, Tier]) -> list[tuple[int, float]]:
    """The memories most attended to, strongest first, with what is left of their attention."""
    remaining_strength = strengths(session, tiers=tiers)
    ranked = sorted(remaining_strength.items(), key=lambda item: (-item[1], item[0]))
    return [item for item in ranked if item[1] >= FORGOTTEN_BELOW][:WORKING_MEMORY_SIZE]


def saved(session: Session) -> Session:
    return replace(session, last_save_turn=session.turn)


def save_due(session: Session, *, interval: int) -> bool:
    """Is this one of the turns, every `interval` without a save, on which saving is suggested?"""
    unsaved = session.turn - session.last_save_turn
    return interval > 0 and unsaved > 0 and unsaved % interval == 0
