"""What does this project find? The same JSON lines as the workers of other systems, in a process of its own.

The vectors of documents come from the same cache; the model for questions is in this process, and in its memory.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.worker import Document, serve
from benchmarks.retrieval import DEPTH, Options, Shelf


class Ours:
    """Sessions as conversations where there are speakers, documents as memory files otherwise."""

    def __init__(self, folder: Path, url: str, *, query_prefix: bool) -> None:
        self._folder = folder

    def index(self, documents: Sequence[Document]) -> None:
        rows = [document["row"] for document in documents]
        self._shelf = Shelf(self._folder.resolve(), rows, Options(cache=Path(sys.argv[1])))
        self._shelf.fill()

    def ask(self, text: str, *, limit: int) -> list[str]:
        # A long document fills several places of a flat list, so more passages are asked for than documents.
        answer = self._shelf.workspace.search(text, group_by="passage", limit=DEPTH)
        return self._shelf.documents_of(answer.results)[:limit]

    def close(self) -> None:
        self._shelf.workspace.close()


if __name__ == "__main__":
    serve(Ours)
