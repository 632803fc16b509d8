"""An embedder that fails in ways of its own: only our errors come through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from spec_kit_memory.embed import Embedding, QueryEmbedding
from spec_kit_memory.embed.guarded import Guarded
from spec_kit_memory.embed.hashing import HashingEmbedder
from spec_kit_memory.errors import EmbeddingFailed, ProviderUnavailable


class Odd(HashingEmbedder):
    """Does what it is told to, for a query and for documents."""

    def __init__(self, act: Callable[[], Any]) -> None:
        super().__init__(dimensions=8)
        self._act = act

    def embed_query(self, text: str) -> QueryEmbedding:
        made: QueryEmbedding = self._act()
        return made

    def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        made: list[Embedding] = self._act()
        return made


def fails() -> Any:
    raise RuntimeError("CUDA is out of memory")


def test_what_it_raises_becomes_an_error_of_ours_that_names_it() -> None:
    embedder = Guarded(Odd(fails))
    for ask in (lambda: embedder.embed_query("a"), lambda: embedder.embed_documents(["a"])):
        with pytest.raises(EmbeddingFailed, match="RuntimeError: CUDA is out of memory") as caught:
            ask()
        assert caught.value.hint
        assert isinstance(caught.value.__cause__, RuntimeError)


def test_several_texts_are_all_embedded_or_none() -> None:
    class Short(HashingEmbedder):
        def embed_queries(self, texts: Sequence[str]) -> list[QueryEmbedding]:
            return super().embed_queries(texts)[1:]

    with pytest.raises(EmbeddingFailed):
        Guarded(Short()).embed_queries(["a", "b"])
    with pytest.raises(EmbeddingFailed, match="CUDA"):
        Guarded(Odd(fails)).embed_queries(["a", "b"])
    alone, both = HashingEmbedder().embed_query("b").vector, Guarded(HashingEmbedder()).embed_queries(["a", "b"])
    assert np.array_equal(both[1].vector, alone)


@pytest.mark.parametrize("made", [None, [1.0], QueryEmbedding(np.full(8, np.nan)), QueryEmbedding(np.zeros((2, 4)))])
def test_what_is_no_vector_is_not_passed_on(made: Any) -> None:
    with pytest.raises(EmbeddingFailed):
        Guarded(Odd(lambda: made)).embed_query("a")


@pytest.mark.parametrize("made", [None, [], [None], [[0.0] * 8]])
def test_documents_get_one_embedding_each_or_an_error(made: Any) -> None:
    with pytest.raises(EmbeddingFailed):
        Guarded(Odd(lambda: made)).embed_documents(["a"])


def test_our_own_errors_and_good_answers_pass_as_they_are() -> None:
    def down() -> Any:
        raise ProviderUnavailable("nobody answers", hint="start it")

    with pytest.raises(ProviderUnavailable, match="nobody answers"):
        Guarded(Odd(down)).embed_query("a")
    plain = HashingEmbedder(dimensions=64)
    guarded = Guarded(plain)
    assert (guarded.name, guarded.dimensions, guarded.weights_hash) == ("hashing", 64, plain.weights_hash)
    assert np.array_equal(guarded.embed_query("red fox").vector, plain.embed_query("red fox").vector)
    assert guarded.embed_documents(["red fox"])[0].states == plain.embed_documents(["red fox"])[0].states


def test_an_embedder_that_cannot_say_what_it_is_is_unavailable() -> None:
    class Nameless(HashingEmbedder):
        @property
        def weights_hash(self) -> str:  # type: ignore[override]
            raise KeyError("weights")

    with pytest.raises(ProviderUnavailable, match="KeyError"):
        _ = Guarded(Nameless()).weights_hash
