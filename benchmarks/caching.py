"""How is the same text not embedded twice? A cache between runs, by hash of text and weights."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import apsw
import numpy as np

from spec_kit_memory.embed import Embedder, Embedding, QueryEmbedding
from spec_kit_memory.embed.guarded import Guarded


def default_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "spec-kit-memory" / "benchmarks"


class CachingEmbedder:
    """Documents come from the cache where they were embedded before; queries are always computed."""

    def __init__(self, inner: Embedder, folder: Path) -> None:
        self._inner = inner
        folder.mkdir(parents=True, exist_ok=True)
        self._database = apsw.Connection(str(folder / "embeddings.sqlite"))
        self._database.set_busy_timeout(60_000)
        self._database.pragma("journal_mode", "wal")
        self._database.pragma("synchronous", 0)
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS embedding (key TEXT PRIMARY KEY, vector BLOB, states BLOB) WITHOUT ROWID"
        )
        self.computed = 0

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def dimensions(self) -> int:
        return self._inner.dimensions

    @property
    def weights_hash(self) -> str:
        return self._inner.weights_hash

    def embed_query(self, text: str) -> QueryEmbedding:
        return self._inner.embed_query(text)

    def embed_queries(self, texts: Sequence[str]) -> list[QueryEmbedding]:
        return Guarded(self._inner).embed_queries(texts)

    def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        keys = [self._key(text) for text in texts]
        known = {key: self._read(key) for key in keys}
        missing = [text for text, key in zip(texts, keys, strict=True) if known[key] is None]
        if missing:
            self.computed += len(missing)
            for text, embedding in zip(missing, self._inner.embed_documents(missing), strict=True):
                known[self._key(text)] = embedding
                self._write(self._key(text), embedding)
        return [found for key in keys if (found := known[key]) is not None]

    def _key(self, text: str) -> str:
        return hashlib.sha256(f"{self.weights_hash}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()

    def _read(self, key: str) -> Embedding | None:
        row = self._database.execute("SELECT vector, states FROM embedding WHERE key = ?", (key,)).fetchone()
        return Embedding(np.frombuffer(row[0], dtype="<f4"), row[1]) if row else None

    def _write(self, key: str, embedding: Embedding) -> None:
        vector = np.asarray(embedding.vector, dtype="<f4").tobytes()
        self._database.execute("INSERT OR REPLACE INTO embedding VALUES (?, ?, ?)", (key, vector, embedding.states))
