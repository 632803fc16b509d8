"""The embedder that tests use instead of a model."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_kit_memory.embed import open_embedder, token_states
from spec_kit_memory.embed.hashing import HashingEmbedder
from spec_kit_memory.settings import Semantic


def cosine(left: str, right: str) -> float:
    embedder = HashingEmbedder()
    return float(embedder.embed_query(left).vector @ embedder.embed_documents([right])[0].vector)


def test_it_can_be_configured() -> None:
    assert isinstance(open_embedder(Semantic(model="hashing")), HashingEmbedder)


def test_the_same_text_has_the_same_vector_as_a_query_and_as_a_document() -> None:
    assert cosine("token refresh fails", "token refresh fails") == pytest.approx(1.0, abs=1e-5)


def test_shared_words_bring_texts_together() -> None:
    close = cosine("why does token refresh fail", "the token refresh of the login page")
    assert close > 0.3 > abs(cosine("why does token refresh fail", "border colours of tables"))


def test_shared_parts_of_words_bring_texts_together() -> None:
    assert cosine("authentication", "authenticate") > cosine("authentication", "migrations") + 0.2


def test_case_and_width_make_no_difference() -> None:
    assert cosine("Token REFRESH", "token ｒｅｆｒｅｓｈ") == pytest.approx(1.0, abs=1e-5)


def test_vectors_are_the_same_in_another_process() -> None:
    program = (
        "from spec_kit_memory.embed.hashing import HashingEmbedder as H;"
        "e = H().embed_documents(['token refresh'])[0]; print(e.vector.tobytes().hex(), e.states.hex())"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    here = HashingEmbedder().embed_documents(["token refresh"])[0]
    assert here.states is not None
    assert printed == [here.vector.tobytes().hex(), here.states.hex()]


def test_late_interaction_prefers_the_passage_with_the_words() -> None:
    embedder = HashingEmbedder()
    documents = embedder.embed_documents(["a token refresh loop", "colours of tables", ""])
    query = embedder.embed_query("token refresh")
    assert query.states is not None
    near, far, empty = token_states.interact(query.states, [d.states for d in documents]).mean(axis=0)
    assert near > far + 0.3
    assert np.isnan(empty)


def test_dimensions_that_do_not_fill_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="12"):
        HashingEmbedder(dimensions=12)


@settings(max_examples=60, deadline=None)
@given(st.text())
def test_every_text_has_a_vector_of_length_one(text: str) -> None:
    embedder = HashingEmbedder(dimensions=64)
    embedding = embedder.embed_documents([text])[0]
    assert np.linalg.norm(embedding.vector) == pytest.approx(1.0, abs=1e-4)
    assert np.array_equal(embedder.embed_query(text).vector, embedding.vector)


def test_a_text_of_any_length_has_a_vector_and_states() -> None:
    (embedding,) = HashingEmbedder().embed_documents(["word " * 100_000])
    assert embedding.states is not None
    assert abs(float((embedding.vector**2).sum()) - 1) < 1e-5
