"""What does an embedder take and return? The types that all embedders share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from spec_kit_memory.core.lean_dataclass import dataclass

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class Embedding:
    vector: np.ndarray  # float32, unit length
    states: bytes | None = None  # packed token states, see `token_states`; None if the model has none


@dataclass(frozen=True, slots=True)
class QueryEmbedding:
    vector: np.ndarray
    states: np.ndarray | None = None  # float32 (tokens, dimensions), unit rows
    # Mean and standard deviation of its cosines to unrelated texts; None if the model does not provide them.
    unrelated: tuple[float, float] | None = None


class Embedder(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def dimensions(self) -> int:
        """May call a remote model whose dimensions are not configured, and fail if that is unavailable."""
        ...

    @property
    def weights_hash(self) -> str: ...
    def embed_query(self, text: str) -> QueryEmbedding: ...
    def embed_documents(self, texts: Sequence[str]) -> list[Embedding]: ...


@runtime_checkable
class BatchEmbedder(Protocol):
    """An embedder that takes all texts of one question in one call; others get one call per text."""

    def embed_queries(self, texts: Sequence[str]) -> list[QueryEmbedding]: ...
