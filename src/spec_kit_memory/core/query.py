"""What does a question ask for?

Extracts terms for the text index, keywords for the score, and whether the question is about
the past. Query text is data: reading it never raises, whatever characters it contains.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from spec_kit_memory.core import words
from spec_kit_memory.core.wording import counted
from spec_kit_memory.errors import NothingToSearch, OutOfRange

_HISTORICAL = re.compile(
    r"\b(?:original|originally|initial|historical|history\s+of|previously|why\s+did\s+we)\b", re.IGNORECASE
)
# These characters can be neither stored nor sent nor embedded.
_UNUSABLE = re.compile("[\x00\ud800-\udfff]+")
_MOST_KEYWORDS = 32


@dataclass(frozen=True, slots=True)
class Query:
    text: str  # as given, without unusable characters
    terms: tuple[str, ...]  # for `Index.match_text`; one with spaces is a phrase
    keywords: tuple[str, ...]  # content words, unstemmed
    historical: bool = False  # about the past: decay is turned off


def read(text: str) -> Query:
    clean = _UNUSABLE.sub(" ", text).strip()
    return Query(
        text=clean,
        terms=words.for_query(clean),
        keywords=words.content(clean)[:_MOST_KEYWORDS],
        historical=_HISTORICAL.search(clean) is not None,
    )


def check(text: str | None, concepts: Sequence[str] = ()) -> None:
    """A search needs a query or 2 to 5 concepts."""
    if text is None and not concepts:
        raise NothingToSearch("neither query nor concepts was given", hint="pass query, or 2 to 5 concepts")
    if text is not None and not _UNUSABLE.sub(" ", text).strip():
        raise NothingToSearch("the query is empty", hint="describe what you are looking for")
    if concepts and not 2 <= len(concepts) <= 5:
        raise OutOfRange(
            f"{counted(len(concepts), 'concept was', 'concepts were')} given", hint="pass 2 to 5, or use query"
        )
    if any(not concept.strip() for concept in concepts):
        raise NothingToSearch("one of the concepts is empty", hint="give each concept a word")
