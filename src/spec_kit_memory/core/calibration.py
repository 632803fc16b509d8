"""How well does a passage answer a question, on a scale that is the same for all questions?

Some passage always comes first, so neither rank nor relevance shows whether it answers the question. Match does: a
value from 0 to 1, computed by an increasing curve from the text and vector scores of this passage only. The curve was
fitted on one labelled set and checked on others (docs/explain/score.md, benchmarks/calibration.py).
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

# For nine in ten questions that the corpus cannot answer, the first result has at most this match.
UNCLEAR = 0.3
# Nine in ten first results that do answer the question have at least this match.
CLEAR = 0.5

# Longer passages match any query better by chance, since more words compete for the best match.
LENGTH_DISCOUNT = 0.04  # per e-fold of tokens
USUAL_TOKENS, MOST_TOKENS = 64, 512
# The best of about a hundred unrelated passages is about two standard deviations above their mean, so lower values
# are no evidence, neither for a passage nor against one that contains the words.
LEAST_VECTOR = 2.0
# Almost no unrelated passage is beyond this: each further standard deviation counts double. In scripts without spaces,
# where there are no word matches, this is the only evidence.
FAR_VECTOR = 5.0
# The more passages there are, the closer the best of the unrelated ones is to the question. The first number is the
# size of the set on which the curve was fitted; below the second, a few passages more or less make no difference.
USUAL_PASSAGES, LEAST_PASSAGES = 3_000, 30
# The shape of the curve: steep where answers and near misses meet, so that few passages fall between 0.3 and 0.5, and
# flat at both ends, so that good and very good passages remain distinguishable.
STEEPNESS, BEND = 2.0, 0.1


class MatchCurve(NamedTuple):
    """z = late · L + vector · V + text · T + smallness · S + offset; match increases with z and is 0.5 at z = 0.

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


# By model name.
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
    """A row for each candidate: the values of late, vector, text and smallness for the curve.

    nan if a passage has no vector yet.

    `words` as for `relevance.fuse`. `unrelated`: mean and standard deviation of the query's cosines to unrelated
    texts. `last_vector`: the highest cosine possible for a passage that the vector leg did not return.
    `passages`: the number of passages searched.
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
    """The match of each row of `evidence`; None if it is not known yet."""
    import numpy as np

    weighed = rows @ np.array(curve.factors) + curve.offset
    bent = STEEPNESS * weighed / np.sqrt(np.abs(weighed) + BEND)
    match_values = (1.0 + bent / (1.0 + np.abs(bent))) / 2.0
    return [None if value != value else value for value in match_values.tolist()]
