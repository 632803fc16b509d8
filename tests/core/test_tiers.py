"""The tier table, as users were promised it."""

from __future__ import annotations

import pytest

from spec_kit_memory.core.memory import Tier
from spec_kit_memory.core.tiers import MAX_BOOST, TABLE


def test_every_tier_has_a_row() -> None:
    assert set(TABLE) == set(Tier)


@pytest.mark.parametrize(
    ("tier", "weight", "boost", "decays", "expires_days"),
    [
        ("constitutional", 1.0, 3.0, False, None),
        ("critical", 1.0, 2.0, False, None),
        ("important", 0.8, 1.5, False, None),
        ("normal", 0.5, 1.0, True, None),
        ("temporary", 0.3, 0.5, True, 7),
        ("deprecated", 0.1, 0.0, False, 0),
    ],
)
def test_weight_boost_decay_and_expiry_are_as_documented(
    tier: str, weight: float, boost: float, decays: bool, expires_days: float | None
) -> None:
    row = TABLE[Tier(tier)]
    assert (row.weight, row.boost, row.decays, row.expires_days) == (weight, boost, decays, expires_days)


def test_the_boost_of_the_highest_tier_is_the_scale() -> None:
    assert TABLE[Tier.CONSTITUTIONAL].boost == MAX_BOOST


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        TABLE[Tier.NORMAL] = TABLE[Tier.CRITICAL]  # type: ignore[index]
