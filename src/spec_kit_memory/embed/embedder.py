"""What does an embedder return? The types that all of them use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np

__all__ = ["BatchEmbedder", "Embedder", "Embedding", "QueryEmbedding"]


@dataclass(frozen=True, slots=True)
class Embedding:
    vector: np.ndarray  # float32, length 1
    states: bytes | None = None  # packed token states, see `token_states`; None: the model has none


@dataclass(frozen=True, slots=True)
class QueryEmbedding:
    vector: np.ndarray
    states: np.ndarray | None = None  # float32 (tokens, dimensions), unit rows
    # Mean and spread of the cosines that unrelated texts have to it. None: the model does not say.
    unrelated: tuple[float, float] | None = None


class Embedder(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def dimensions(self) -> int:
        """A remote model whose dimensions nobody said is asked, and may be unavailable."""
        ...

    @property
    def weights_hash(self) -> str: ...
    def embed_query(self, text: str) -> QueryEmbedding: ...
    def embed_documents(self, texts: Sequence[str]) -> list[Embedding]: ...


@runtime_checkable
class BatchEmbedder(Protocol):
    """An embedder that takes the texts of one question in one call. The others are asked one by one."""

    def embed_queries(self, texts: Sequence[str]) -> list[QueryEmbedding]: ...
