"""How well does a passage answer by itself, so that two questions can be compared?

Some passage is always first, so neither rank nor relevance shows whether it answers the question. Match does: 0 to 1,
computed by one rising curve from the text and vector scores of this passage alone. The curve was fitted on one
labelled set and checked on others (docs/explain/score.md, benchmarks/calibration.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from spec_kit_memory.core.relevance import Candidate

    Floats = npt.NDArray[np.float64]

__all__ = ["CLEAR", "CURVES", "UNCLEAR", "MatchCurve", "evidence", "matches"]

# Nine in ten questions that a corpus has nothing about get no more than this, whatever comes first.
UNCLEAR = 0.3
# Nine in ten first results that answer have this much at least.
CLEAR = 0.5

# The more words a passage has, the better the best of them matches anything.
LENGTH_DISCOUNT = 0.04  # per e-fold of tokens
USUAL_TOKENS, MOST_TOKENS = 64, 512
# The best of some hundred unrelated passages lies about two spreads above their mean: less than that says nothing,
# also not against a passage that has the words.
LEAST_VECTOR = 2.0
# Hardly an unrelated passage lies beyond this: each spread more counts double. Where the model reads no words (scripts
# without spaces), this alone tells.
FAR_VECTOR = 5.0
# The more passages there are, the nearer is the best of those that have nothing to do with the question. Counted from
# the number of the set that the curve was fitted on; below the least a few passages more or less say nothing.
USUAL_PASSAGES, LEAST_PASSAGES = 3_000, 30
# How far the curve bends: steep where answers and near misses meet, so that little evidence lies between 0.3 and 0.5,
# and flat at both ends, so that good and very good can still be told apart.
STEEPNESS, BEND = 2.0, 0.1


class MatchCurve(NamedTuple):
    """z = late · L + vector · V + text · T + smallness · S + offset; match rises with z and is a half where z is 0.

    No factor is negative.
    """

    late: float
    vector: float
    text: float
    smallness: float
    offset: float

    @property
    def factors(self) -> tuple[float, float, float, float]:
        return self.late, self.vector, self.text, self.smallness


# By the name of the model.
CURVES: Mapping[str, MatchCurve] = MappingProxyType(
    {"snowflake-arctic-embed-s": MatchCurve(23.15, 0.9, 8.78, 0.15, -13.15)}
)


def evidence(
    candidates: Sequence[Candidate],
    words: Floats,
    *,
    unrelated: tuple[float, float],
    last_vector: float,
    passages: int,
) -> Floats:
    """A row for each candidate: late, vector, text and smallness as the curve takes them.

    nan where a passage has no vector yet.

    `words` as for `relevance.fuse`. `unrelated`: mean and spread of the cosines that texts about anything have to the
    query. `last_vector`: a passage that the vector leg did not reach has this at most.
    `passages`: how many there are to be found, of which the best comes first whatever is asked.
    """
    import numpy as np

    late = words.mean(axis=0) if len(words) else np.full(len(candidates), np.nan)
    tokens = np.array([candidate.tokens for candidate in candidates], np.float64)
    late = late - LENGTH_DISCOUNT * np.log(np.clip(tokens, USUAL_TOKENS, MOST_TOKENS) / USUAL_TOKENS)
    mean, spread = unrelated
    cosines = np.array(
        [last_vector if candidate.vector is None else candidate.vector for candidate in candidates], np.float64
    )
    vector = np.maximum((cosines - mean) / max(spread, 1e-6), LEAST_VECTOR)
    vector += np.maximum(vector - FAR_VECTOR, 0.0)
    text = np.array([candidate.text or 0.0 for candidate in candidates], np.float64)
    smallness = np.full(len(candidates), np.log(USUAL_PASSAGES / max(passages, LEAST_PASSAGES)))
    return np.stack([late, vector, text, smallness], axis=1)


def matches(curve: MatchCurve, rows: Floats) -> list[float | None]:
    """The match of each row of `evidence`; None where it cannot be told yet."""
    import numpy as np

    weighed = rows @ np.array(curve.factors) + curve.offset
    bent = STEEPNESS * weighed / np.sqrt(np.abs(weighed) + BEND)
    match_values = (1.0 + bent / (1.0 + np.abs(bent))) / 2.0
    return [None if value != value else value for value in match_values.tolist()]
