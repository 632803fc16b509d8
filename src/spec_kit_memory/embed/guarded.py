"""What if an embedder fails in an unforeseen way? The failure stays confined to the embedder.

A caller may supply any embedder, and a runtime may raise anything. This wrapper around each of them
ensures that other code sees only our own errors and valid vectors.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from spec_kit_memory.embed.embedder import BatchEmbedder, Embedder, Embedding, QueryEmbedding
from spec_kit_memory.errors import EmbeddingFailed, ProviderUnavailable, SpecKitMemoryError

logger = logging.getLogger(__name__)


class Guarded:
    def __init__(self, inner: Embedder) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        with _raising_provider_errors():
            return self._inner.name

    @property
    def dimensions(self) -> int:
        with _raising_provider_errors():
            return self._inner.dimensions

    @property
    def weights_hash(self) -> str:
        with _raising_provider_errors():
            return self._inner.weights_hash

    def embed_query(self, text: str) -> QueryEmbedding:
        with _raising_errors_as(EmbeddingFailed):
            return _checked(self._inner.embed_query(text))

    def embed_queries(self, texts: Sequence[str]) -> list[QueryEmbedding]:
        """Uses one call if the embedder supports batches. Returns an embedding for every text, or raises."""
        if len(texts) == 1 or not isinstance(self._inner, BatchEmbedder):
            return [self.embed_query(text) for text in texts]
        with _raising_errors_as(EmbeddingFailed):
            embeddings = self._inner.embed_queries(texts)
            return [_checked(embedding) for embedding, _ in zip(embeddings, texts, strict=True)]

    def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        import numpy as np

        with _raising_errors_as(EmbeddingFailed):
            embeddings = self._inner.embed_documents(texts)
            return [
                Embedding(np.asarray(embedding.vector, dtype=np.float32), embedding.states)
                for embedding, _ in zip(embeddings, texts, strict=True)
            ]


def _checked(embedding: QueryEmbedding) -> QueryEmbedding:
    import numpy as np

    vector = np.asarray(embedding.vector, dtype=np.float32)
    if vector.ndim != 1 or not np.isfinite(vector).all():
        raise ValueError("the query's vector is none")
    return QueryEmbedding(vector, embedding.states, embedding.unrelated)


@contextmanager
def _raising_provider_errors() -> Iterator[None]:
    """For calls without a text of the user's: any failure means that the provider is unavailable."""
    with _raising_errors_as(ProviderUnavailable):
        try:
            yield
        except EmbeddingFailed as error:
            raise ProviderUnavailable(error.message, hint=error.advice) from error


@contextmanager
def _raising_errors_as(kind: type[SpecKitMemoryError]) -> Iterator[None]:
    try:
        yield
    except SpecKitMemoryError:
        raise
    except Exception as error:
        logger.debug("an embedder failed", exc_info=error)
        raise kind(
            f"the embedder failed: {type(error).__name__}: {error}", hint="search works by text meanwhile"
        ) from error
