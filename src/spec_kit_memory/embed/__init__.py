"""What does a text mean, as numbers?

An embedder turns texts into unit vectors and, if the model supports it, token states for late
interaction from the same forward pass. Queries and documents have separate methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spec_kit_memory.embed.embedder import BatchEmbedder, Embedder, Embedding, QueryEmbedding

if TYPE_CHECKING:
    from spec_kit_memory.settings import Semantic

__all__ = ["BatchEmbedder", "Embedder", "Embedding", "QueryEmbedding", "open_embedder"]


def open_embedder(semantic: Semantic) -> Embedder | None:
    """The configured provider, or None for text search only. Opening is cheap; the model is loaded at first use."""
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
