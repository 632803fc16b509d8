"""How good is a ranking? Recall, nDCG and reciprocal rank, with bootstrap intervals."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Mapping, Sequence

MEASURES = ("recall@5", "recall@10", "any@5", "all@10", "ndcg@10", "mrr")


def measure(relevant: Collection[str], ranked: Sequence[str]) -> dict[str, float]:
    """One question. `relevant` is not empty; a document counts once, at its best place."""
    expected, order = set(relevant), list(dict.fromkeys(ranked))
    ideal = sum(1 / math.log2(place + 2) for place in range(min(10, len(expected))))
    gained = sum(1 / math.log2(place + 2) for place, document in enumerate(order[:10]) if document in expected)
    first = next((place for place, document in enumerate(order) if document in expected), None)
    return {
        "recall@5": len(expected & set(order[:5])) / len(expected),
        "recall@10": len(expected & set(order[:10])) / len(expected),
        "any@5": float(bool(expected & set(order[:5]))),
        "all@10": float(expected <= set(order[:10])),
        "ndcg@10": gained / ideal,
        "mrr": 0.0 if first is None else 1 / (first + 1),
    }


def average(rows: Sequence[Mapping[str, float]], name: str) -> float:
    return sum(row[name] for row in rows) / len(rows) if rows else 0.0


def interval(rows: Sequence[Mapping[str, float]], name: str, *, draws: int = 500) -> tuple[float, float]:
    """The middle 95 % of means of resampled questions; the same seed each time."""
    chance = random.Random(0)
    values = [row[name] for row in rows]
    means = sorted(sum(chance.choices(values, k=len(values))) / len(values) for _ in range(draws))
    return means[int(0.025 * draws)], means[int(0.975 * draws)]


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
