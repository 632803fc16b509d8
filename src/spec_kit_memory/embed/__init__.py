"""What does a text mean, as numbers?

An embedder turns texts into unit vectors, and, where the model allows, token states for
late interaction from the same forward pass. Queries and documents are separate calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np

    from spec_kit_memory.settings import Semantic

__all__ = ["Embedder", "Embedding", "QueryEmbedding", "open_embedder"]


@dataclass(frozen=True, slots=True)
class Embedding:
    vector: np.ndarray  # float32, length 1
    states: bytes | None = None  # packed token states, see embed/states.py; None: the model has none


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


def open_embedder(semantic: Semantic) -> Embedder | None:
    """The configured provider, or None for text only. Opening is cheap; loading happens at first use."""
    if not semantic.enabled or semantic.model == "none":
        return None
    if semantic.model == "local":
        from spec_kit_memory.embed.local import LocalEmbedder

        return LocalEmbedder()
    if semantic.model == "hashing":
        from spec_kit_memory.embed.hashing import HashingEmbedder

        return HashingEmbedder()
    from spec_kit_memory.embed.remote import RemoteEmbedder

    return RemoteEmbedder(
        base_url=semantic.base_url,
        model=semantic.remote_model,
        dimensions=semantic.dimensions,
        api_key=semantic.api_key,
    )
