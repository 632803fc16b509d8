"""What does an agent's session know already, and what should come up next?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from spec_kit_memory.core import attention
from spec_kit_memory.core.memory import Session
from spec_kit_memory.verbs.wiring import Wiring

# Enough for a long conversation; the oldest are forgotten first by order of insertion.
MOST_SENT = 5000


def open_session(wiring: Wiring, session_id: str) -> Session:
    return wiring.store.session(session_id) or Session(id=session_id)


def remember_shown(wiring: Wiring, session_id: str, memory_ids: Sequence[int], hashes: Iterable[str]) -> None:
    """Listed memories are HOT for this session; passages sent are not sent again."""
    session = open_session(wiring, session_id)
    tiers = {memory.id: memory.tier for memory in wiring.store.many(list(memory_ids))}
    session = attention.attend(session, dict.fromkeys(memory_ids, attention.HOT_FROM), tiers=tiers, via="listed")
    sent = session.sent | frozenset(hashes)
    if len(sent) > MOST_SENT:
        sent = frozenset(hashes)
    wiring.whole.put_session(replace(session, sent=sent), wiring.now())
