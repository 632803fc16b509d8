"""Hosts that show a model only a few tools let it search for the rest: do likely queries find ours?

Such searches rank names and descriptions by BM25 or by matching words, and return about five tools.
"""

from __future__ import annotations

import math
import re
from collections import Counter

import pytest

from spec_kit_memory.serve.tools import TOOLS

RETURNED = 5
WORDS = re.compile(r"[a-z0-9]+")


def words(text: str) -> list[str]:
    return WORDS.findall(text.lower().replace("_", " "))


DOCUMENTS = {tool.name: words(f"{tool.name} {tool.about}") for tool in TOOLS}
KEYWORDS = {tool.name: Counter(DOCUMENTS[tool.name]) for tool in TOOLS}


def bm25(query: str, *, k1: float = 1.2, b: float = 0.75) -> list[str]:
    """The tools that contain a word of the query, best first."""
    mean = sum(map(len, DOCUMENTS.values())) / len(DOCUMENTS)
    holders = Counter(word for text in DOCUMENTS.values() for word in set(text))
    scores: dict[str, float] = {}
    for name, counts in KEYWORDS.items():
        length = k1 * (1 - b + b * len(DOCUMENTS[name]) / mean)
        scores[name] = sum(
            math.log(1 + (len(TOOLS) - holders[word] + 0.5) / (holders[word] + 0.5))
            * counts[word]
            * (k1 + 1)
            / (counts[word] + length)
            for word in words(query)
            if counts[word]
        )
    return sorted((name for name in scores if scores[name] > 0), key=lambda name: -scores[name])


def shared_words(query: str) -> list[str]:
    """The tools by how many words of the query they contain, in the name first."""
    asked = set(words(query))

    def score(name: str) -> int:
        return 2 * len(asked & set(words(name))) + len(asked & set(DOCUMENTS[name]))

    return sorted(filter(score, DOCUMENTS), key=lambda name: -score(name))


@pytest.mark.parametrize("search", [bm25, shared_words], ids=lambda search: search.__name__)
@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("memory decisions", "memory_search"),
        ("search memory", "memory_search"),
        ("past decisions", "memory_search"),
        ("decision", "memory_search"),
        ("prior work", "memory_search"),
        ("find notes", "memory_search"),
        ("knowledge base", "memory_search"),
        ("recall preferences", "memory_search"),
        ("remember what we decided", "memory_search"),
        ("what did we decide", "memory_search"),
        ("save memory", "memory_save"),
        ("remember this", "memory_save"),
        ("store decision", "memory_save"),
        ("resume session", "memory_context"),
        ("project rules", "memory_context"),
        ("read memory", "memory_load"),
        ("list memories", "memory_list"),
        ("update tier", "memory_update"),
        ("forget memory", "memory_delete"),
        ("delete memory", "memory_delete"),
        ("feedback outdated", "memory_validate"),
        ("statistics", "memory_stats"),
        ("health check", "memory_health"),
        ("reindex files", "memory_index_scan"),
        ("memory history", "memory_history"),
        ("link memories", "memory_causal_link"),
        ("why was this decided", "memory_drift_why"),
        ("backup", "checkpoint_create"),
        ("undo changes", "checkpoint_restore"),
        ("rollback", "checkpoint_restore"),
        ("trigger phrases", "memory_match_triggers"),
    ],
)
def test_a_likely_query_finds_the_tool(query: str, wanted: str, search: object) -> None:
    assert callable(search)
    assert wanted in search(query)[:RETURNED]
