"""In whose words is a question asked? Which telling words does it share with the memories that answer it?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import apsw

TELLING = 0.05  # a word in fewer than this share of all memories gives its memory away
LIMIT = 2  # telling words that a question may share with one answer

# What everyone in such a project says all day: one cannot ask about the subject without them.
NOUNS = frozenset(
    {"agent", "agents", "anchor", "anchors", "archive", "command", "commands", "context", "database", "folder"}
    | {"folders", "index", "level", "memories", "memory", "model", "orchestrator", "plan", "script", "scripts"}
    | {"search", "server", "session", "sessions", "skill", "skills", "spec", "specs", "sub", "template", "templates"}
    | {"tests", "token", "tokens"}
)


class Stems:
    """The words of a text as the text index sees them."""

    def __init__(self) -> None:
        self._database = apsw.Connection(":memory:")
        self._database.execute("CREATE VIRTUAL TABLE text USING fts5(body, tokenize='porter unicode61')")
        self._database.execute("CREATE VIRTUAL TABLE term USING fts5vocab(text, 'row')")

    def of(self, text: str) -> frozenset[str]:
        self._database.execute("DELETE FROM text")
        self._database.execute("INSERT INTO text VALUES (?)", (text,))
        return frozenset(str(row[0]) for row in self._database.execute("SELECT term FROM term"))


@dataclass(frozen=True)
class Shared:
    """The telling words that a question has in common with the answer nearest to it in wording."""

    question: str
    words: tuple[str, ...]


def shared(asked: Iterable[tuple[str, Sequence[str]]], texts: Mapping[str, str]) -> list[Shared]:
    """For each question and the paths that answer it; `texts` are all memories by path."""
    stems = Stems()
    words = {path: stems.of(text) for path, text in texts.items()}
    memories = Counter(word for item in words.values() for word in item)
    rare = {word for word, count in memories.items() if count < TELLING * len(texts)}
    found = []
    for question, paths in asked:
        telling = stems.of(question) & rare
        answers = [sorted(telling & words[path]) for path in paths if path in words]
        nearest = max(answers, key=len) if answers else []
        found.append(Shared(question, tuple(nearest)))
    return found


def names_used(question: str, paths: Collection[str]) -> set[str]:
    """Words of the question that are in the names of the answers' folders or files, everyday nouns left out."""
    parts = " ".join(part for path in paths for part in path.split("/")[2:])
    return set(_words(question)) & set(_words(parts)) - NOUNS


def _words(text: str) -> list[str]:
    return [word for word in re.findall(r"[a-z]+", text.lower()) if len(word) > 2]
