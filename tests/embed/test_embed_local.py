"""The bundled model, as shipped."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from spec_kit_memory.embed import open_embedder, token_states
from spec_kit_memory.embed.local import HASHES, MODEL_FOLDER, QUERY_PREFIX, LocalEmbedder
from spec_kit_memory.errors import ProviderUnavailable
from spec_kit_memory.settings import Semantic

SUPPORT = "Caroline: I went to a support group yesterday and it was powerful."
BORROW = "The borrow checker rejects a reference that outlives its owner."


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder()


def test_the_configured_local_model_is_this_one() -> None:
    assert isinstance(open_embedder(Semantic(model="local")), LocalEmbedder)


def test_making_one_loads_nothing(tmp_path: Path) -> None:
    assert LocalEmbedder(folder=tmp_path / "absent").dimensions == 384


def test_embedding_leaves_no_device_id_and_no_report_to_send(tmp_path: Path) -> None:
    """Official builds of the runtime queue usage reports in the home folder, except where they see CI."""
    watched = ("CI", "ORT_", "GITHUB_", "TF_BUILD", "BUILD_", "XDG_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(watched)}
    environment |= {name: str(tmp_path) for name in ("HOME", "USERPROFILE", "LOCALAPPDATA", "APPDATA")}
    embed = "from spec_kit_memory.embed.local import LocalEmbedder; LocalEmbedder().embed_documents(['one text'])"
    subprocess.run([sys.executable, "-c", embed], env=environment, check=True, timeout=120)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_vectors_have_384_dimensions_and_length_one(embedder: LocalEmbedder) -> None:
    for embedding in embedder.embed_documents([SUPPORT, BORROW, ""]):
        assert embedding.vector.shape == (384,)
        assert embedding.vector.dtype == np.float32
        assert np.linalg.norm(embedding.vector) == pytest.approx(1.0, abs=1e-5)


def test_a_vector_is_the_published_models_vector(embedder: LocalEmbedder) -> None:
    """Cosines that the model gives for these texts; pooling or prefix done wrongly moves them by far more."""
    query = embedder.embed_query("When did Caroline go to the support group?").vector
    near, far = embedder.embed_documents([SUPPORT, BORROW])
    assert float(query @ near.vector) == pytest.approx(0.738, abs=0.03)
    assert float(query @ far.vector) < 0.55


def test_the_query_prefix_is_for_queries_only(embedder: LocalEmbedder) -> None:
    as_query = embedder.embed_query(SUPPORT).vector
    plain, prefixed = embedder.embed_documents([SUPPORT, QUERY_PREFIX + SUPPORT])
    assert np.allclose(as_query, prefixed.vector, atol=1e-6)
    assert not np.allclose(as_query, plain.vector, atol=0.01)


def test_a_text_has_the_same_vector_whatever_it_is_embedded_with(embedder: LocalEmbedder) -> None:
    alone = embedder.embed_documents([SUPPORT])[0]
    among = embedder.embed_documents([BORROW * 20, SUPPORT, "short", BORROW])[1]
    assert np.array_equal(alone.vector, among.vector)
    assert alone.states == among.states


def test_answers_come_in_the_order_of_the_texts(embedder: LocalEmbedder) -> None:
    texts = [BORROW * length for length in (1, 7, 3, 0, 12)]
    together = embedder.embed_documents(texts)
    for text, embedding in zip(texts, together, strict=True):
        assert np.array_equal(embedding.vector, embedder.embed_documents([text])[0].vector)


def test_states_are_of_content_words_only(embedder: LocalEmbedder) -> None:
    def count(text: str) -> int:
        packed = embedder.embed_documents([text])[0].states
        assert packed is not None
        return (len(packed) - 4) // 48

    assert count("database index") == 2
    assert count("The database, and -- it has an: index!!!") == 2
    assert count("of the and ...") == 0
    assert count("don't (ever)") == 2


def test_a_query_of_stop_words_keeps_its_states(embedder: LocalEmbedder) -> None:
    states = embedder.embed_query("who was it").states
    assert states is not None
    assert states.shape == (3, 384)


def test_the_instruction_in_front_of_a_query_has_no_states(embedder: LocalEmbedder) -> None:
    states = embedder.embed_query("database index").states
    assert states is not None
    assert states.shape == (2, 384)
    assert np.allclose(np.linalg.norm(states, axis=1), 1.0, atol=1e-5)


def test_late_interaction_prefers_the_passage_that_answers(embedder: LocalEmbedder) -> None:
    query = embedder.embed_query("When did Caroline go to the support group?")
    assert query.states is not None
    packed = [e.states for e in embedder.embed_documents([SUPPORT, BORROW])]
    near, far = token_states.interact(query.states, packed).mean(axis=0)
    assert near > far + 0.2


@pytest.mark.parametrize("text", ["", " ", "\x00", "a\ud800b", "日本語", "😀" * 600, "x" * 300_000, "\n" * 50_000])
def test_any_text_can_be_embedded(embedder: LocalEmbedder, text: str) -> None:
    assert np.isfinite(embedder.embed_documents([text, text])[1].vector).all()
    query = embedder.embed_query(text)
    assert np.isfinite(query.vector).all()
    assert query.states is not None
    assert np.isfinite(query.states).all()


def test_nothing_to_embed_gives_nothing(embedder: LocalEmbedder) -> None:
    assert embedder.embed_documents([]) == []


def test_threads_that_meet_at_the_first_use_share_one_model() -> None:
    embedder = LocalEmbedder()
    together = threading.Barrier(4)
    found: list[np.ndarray] = []

    def ask() -> None:
        together.wait(timeout=60)
        found.append(embedder.embed_query("database index").vector)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert len(found) == 4
    assert all(np.array_equal(found[0], vector) for vector in found)


@pytest.mark.parametrize("name", sorted(HASHES))
def test_a_changed_file_is_refused_by_name(tmp_path: Path, name: str) -> None:
    for name in HASHES:
        shutil.copy(MODEL_FOLDER / name, tmp_path / name)
    with (tmp_path / name).open("ab") as file:
        file.write(b"\n")
    with pytest.raises(ProviderUnavailable, match=name) as caught:
        LocalEmbedder(folder=tmp_path).embed_query("anything")
    assert "pip install --force-reinstall" in caught.value.hint


def test_a_missing_file_is_named_and_comes_back_when_it_is_there(tmp_path: Path) -> None:
    embedder = LocalEmbedder(folder=tmp_path)
    with pytest.raises(ProviderUnavailable, match=r"model\.onnx"):
        embedder.embed_documents(["anything"])
    for name in HASHES:
        shutil.copy(MODEL_FOLDER / name, tmp_path / name)
    assert len(embedder.embed_documents(["anything"])) == 1


def test_the_weights_hash_is_known_without_loading() -> None:
    assert len(LocalEmbedder.weights_hash) == 64


@pytest.mark.parametrize("workers", [1, 2])
def test_the_texts_of_a_question_are_embedded_as_each_alone(workers: int) -> None:
    embedder = LocalEmbedder(workers=workers)
    texts = ["database index", "which index does the database have, and why was it chosen over the others", "index"]
    for text, found in zip(texts, embedder.embed_queries(texts), strict=True):
        alone = embedder.embed_query(text)
        assert np.array_equal(found.vector, alone.vector)
        assert found.states is not None
        assert np.array_equal(found.states, alone.states)  # type: ignore[arg-type]


def test_what_is_beyond_the_models_window_counts_too(embedder: LocalEmbedder) -> None:
    """A passage has at most about 1,900 bytes: with numbers and code, that is up to three windows."""
    numbers = " ".join(f"{number}.{number * 7 % 1000}" for number in range(100, 320))
    with_fact, without = embedder.embed_documents([f"{numbers} the zeppelin hangar", numbers])
    query = embedder.embed_query("zeppelin hangar")
    assert query.states is not None
    words = token_states.interact(query.states, [with_fact.states, without.states])
    assert words[:, 0].min() > words[:, 1].max() + 0.1
    assert float(query.vector @ with_fact.vector) > float(query.vector @ without.vector)
    assert np.linalg.norm(with_fact.vector) == pytest.approx(1.0, abs=1e-5)


def test_a_text_of_any_length_takes_a_bounded_number_of_passes(embedder: LocalEmbedder) -> None:
    (embedding,) = embedder.embed_documents(["7.1 " * 100_000])
    assert embedding.states is not None
    assert len(embedding.states) <= 4 * 512 * 48 + 4
