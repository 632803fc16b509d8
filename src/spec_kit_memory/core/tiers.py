"""How much does each tier count, and how does it age?

One table for all modules. Weight, boost and expiry are the initial values of a memory of
that tier; the rates belong to the decay models in `core.decay`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from spec_kit_memory.core.lean_dataclass import dataclass
from spec_kit_memory.core.memory import Tier


@dataclass(frozen=True, slots=True)
class TierRow:
    weight: float  # 0 to 1, unless the document sets its own
    boost: float  # 0 to 3; the score uses boost / MAX_BOOST
    decays: bool  # under the half_life model
    expires_days: float | None  # after the document's own date; None: never
    turn_rate: float  # turns model: the factor per turn
    linear_rate: float  # linear model: the loss per day
    linear_floor: float  # linear model: the minimum


TABLE: Mapping[Tier, TierRow] = MappingProxyType(
    {
        Tier.CONSTITUTIONAL: TierRow(1.0, 3.0, False, None, 1.0, 0.0, 1.0),
        Tier.CRITICAL: TierRow(1.0, 2.0, False, None, 1.0, 0.001, 0.5),
        Tier.IMPORTANT: TierRow(0.8, 1.5, False, None, 1.0, 0.005, 0.3),
        Tier.NORMAL: TierRow(0.5, 1.0, True, None, 0.80, 0.01, 0.1),
        Tier.TEMPORARY: TierRow(0.3, 0.5, True, 7.0, 0.60, 0.05, 0.1),
        # Expires at once: search excludes the tier, so no date is ever needed.
        Tier.DEPRECATED: TierRow(0.1, 0.0, False, 0.0, 1.0, 0.1, 0.05),
    }
)

MAX_BOOST = max(row.boost for row in TABLE.values())
