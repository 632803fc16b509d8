"""Which fields does a search answer have besides its results, and how much room is left for the results?"""

from __future__ import annotations

from dataclasses import replace

from spec_kit_memory import answer_json
from spec_kit_memory.answers import Explanation, SearchAnswer
from spec_kit_memory.core import tokens
from spec_kit_memory.requests import SearchRequest

# An answer with this many tokens has all fields about itself; in a smaller one the results come first.
AMPLE_TOKENS = 2000
# With this many tokens per result, each result has all its fields.
ROOMY_TOKENS = 150
# Fields about the answer itself that are left out where there is no room, the most useful first.
OPTIONAL_FIELDS = ("method", "total_found", "stats", "freshness", "query")
# The matches that were held back may take this fraction (one eighth) of the answer; beyond it they are only counted.
HELD_SHARE = 8
# Fields that are measured elsewhere, or are sent outside of the data.
UNMEASURED = frozenset(("outcome", "hints", "meta", "results"))


class AnswerFrame:
    """The fields of an answer besides its results: the required ones, and the optional ones that fit."""

    def __init__(self, answer: SearchAnswer, request: SearchRequest, *, budget: int) -> None:
        self.ample = budget >= AMPLE_TOKENS or bool(request.anchors) or request.group_by == "passage"
        self.roomy = budget >= ROOMY_TOKENS * min(request.limit, max(answer.total_found, 1))
        self.answer, sizes = _within(answer, budget * tokens.BYTES_PER_TOKEN)
        self.optional = {name: sizes.pop(name) for name in OPTIONAL_FIELDS if name in sizes}
        self.room = budget * tokens.BYTES_PER_TOKEN - len('{"results":[]}') - sum(sizes.values())
        if self.ample:
            self.room -= self.include(self.room)
        self.room = max(0, self.room)

    def include(self, room: int) -> int:
        """Add the optional fields that fit; returns the bytes that they take."""
        start = room
        for name, size in list(self.optional.items()):
            if size <= room:
                room -= self.optional.pop(name)
        return start - room


def _within(answer: SearchAnswer, room: int) -> tuple[SearchAnswer, dict[str, int]]:
    """The answer without details that would crowd out the results, and the sizes of its fields."""
    held_back, concepts = answer.held_back, answer.concepts
    while held_back.best and answer_json.size(held_back) > room // HELD_SHARE:
        held_back = replace(held_back, best=held_back.best[:-1])
    if concepts and answer_json.size(concepts) > room // 2:
        concepts = {concept: replace(matches, best=None) for concept, matches in concepts.items()}
    if held_back is not answer.held_back or concepts is not answer.concepts:
        answer = replace(answer, held_back=held_back, concepts=concepts)
    sizes = answer_json.field_sizes(answer, without=UNMEASURED)
    if sum(sizes.values()) - sum(sizes.get(name, 0) for name in OPTIONAL_FIELDS) > room:
        answer = replace(answer, explain=Explanation())
        sizes.pop("explain", None)
    return answer, sizes
