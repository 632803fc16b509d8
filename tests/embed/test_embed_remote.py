"""The remote embedder against a real server on this machine."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from spec_kit_memory.embed import open_embedder
from spec_kit_memory.embed.remote import RemoteEmbedder
from spec_kit_memory.errors import EmbeddingFailed, ProviderUnavailable
from spec_kit_memory.settings import Semantic

Reply = tuple[int, Any] | tuple[int, Any, dict[str, str]]


def vector_of(text: str) -> list[float]:
    return [float(len(text) + 1), 2.0, 0.0]


def honest(question: dict[str, Any]) -> Reply:
    rows = [{"index": i, "embedding": vector_of(text)} for i, text in enumerate(question["input"])]
    return 200, {"object": "list", "data": rows[::-1]}


@dataclass
class Provider:
    """A server whose answers a test chooses; it keeps what it was asked."""

    answer: Callable[[dict[str, Any]], Reply] = honest
    questions: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    drip: bool = False  # go on sending blanks until the test is over
    break_off: int = 0  # how many answers end before their promised length
    url: str = ""


@pytest.fixture
def provider() -> Iterator[Provider]:
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            provider.questions.append(question)
            provider.headers.append({key.lower(): value for key, value in self.headers.items()})
            provider.paths.append(self.path)
            status, body, *more = provider.answer(question)
            raw = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for key, value in (more[0] if more else {}).items():
                self.send_header(key, value)
            broken = provider.break_off > 0
            provider.break_off -= broken
            self.close_connection = broken
            self.send_header("Content-Length", str(len(raw) + (1000 if provider.drip or broken else 0)))
            self.end_headers()
            self.wfile.write(raw)
            self.wfile.flush()
            while provider.drip and not provider.stopped.wait(0.05):
                try:
                    self.wfile.write(b" ")
                    self.wfile.flush()
                except OSError:
                    return

        def log_message(self, format: str, *args: object) -> None:
            """The test output stays readable."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    provider.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    yield provider
    provider.stopped.set()
    server.shutdown()
    server.server_close()
    thread.join(timeout=120)


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def embedder(provider: Provider, waits: list[float]) -> Iterator[RemoteEmbedder]:
    embedder = RemoteEmbedder(base_url=provider.url, model="small", api_key="k-123", wait=waits.append)
    yield embedder
    embedder.close()


def in_turn(*replies: Reply | Callable[[dict[str, Any]], Reply]) -> Callable[[dict[str, Any]], Reply]:
    left = list(replies)

    def answer(question: dict[str, Any]) -> Reply:
        reply = left.pop(0)
        return reply(question) if callable(reply) else reply

    return answer


def test_the_configured_remote_model_is_this_one() -> None:
    embedder = open_embedder(Semantic(model="openai", base_url="http://127.0.0.1:1/v1"))
    assert isinstance(embedder, RemoteEmbedder)
    assert (embedder.name, embedder.dimensions) == ("text-embedding-3-small", 1536)


def test_vectors_have_length_one_and_the_order_of_the_texts(embedder: RemoteEmbedder) -> None:
    result = embedder.embed_documents(["a", "bbb"])
    for text, embedding in zip(["a", "bbb"], result, strict=True):
        expected = np.array(vector_of(text)) / np.linalg.norm(vector_of(text))
        assert np.allclose(embedding.vector, expected, atol=1e-6)
        assert embedding.vector.dtype == np.float32
        assert embedding.states is None


def test_the_question_follows_the_protocol(provider: Provider, embedder: RemoteEmbedder) -> None:
    embedder.embed_query("what is it")
    assert provider.paths == ["/v1/embeddings"]
    assert provider.questions == [{"model": "small", "input": ["what is it"], "encoding_format": "float"}]
    assert provider.headers[0]["authorization"] == "Bearer k-123"


def test_the_texts_of_a_question_are_one_request(provider: Provider, embedder: RemoteEmbedder) -> None:
    result = embedder.embed_queries(["what is it", "it", "that is it"])
    assert [question["input"] for question in provider.questions] == [["what is it", "it", "that is it"]]
    assert all(
        np.array_equal(one.vector, embedder.embed_query(text).vector)
        for one, text in zip(result, ["what is it", "it", "that is it"], strict=True)
    )


def test_without_a_key_no_key_is_sent(provider: Provider) -> None:
    embedder = RemoteEmbedder(base_url=provider.url + "/", model="small")
    embedder.embed_query("x")
    embedder.close()
    assert "authorization" not in provider.headers[0]
    assert provider.paths == ["/v1/embeddings"]


def test_dimensions_are_asked_once_when_nobody_said_them(provider: Provider, embedder: RemoteEmbedder) -> None:
    assert embedder.dimensions == 3
    assert embedder.dimensions == 3
    assert len(provider.questions) == 1


def test_chosen_dimensions_are_sent_to_models_that_can_be_shortened(provider: Provider) -> None:
    embedder = RemoteEmbedder(base_url=provider.url, model="text-embedding-3-small", dimensions=3)
    assert embedder.embed_query("x").vector.shape == (3,)
    embedder.close()
    assert provider.questions[0]["dimensions"] == 3


def test_many_texts_go_in_several_requests(provider: Provider, embedder: RemoteEmbedder) -> None:
    texts = [f"text {number}" for number in range(150)]
    assert len(embedder.embed_documents(texts)) == 150
    assert [text for question in provider.questions for text in question["input"]] == texts
    assert max(len(question["input"]) for question in provider.questions) <= 64


def test_long_texts_are_cut_and_spread_over_requests(provider: Provider, embedder: RemoteEmbedder) -> None:
    embedder.embed_documents(["x" * 30_000] * 10)
    sizes = [sum(map(len, question["input"])) for question in provider.questions]
    assert len(sizes) > 1
    assert max(sizes) <= 100_000
    assert max(len(text) for question in provider.questions for text in question["input"]) == 24_000


def test_blank_and_broken_texts_do_not_spoil_a_batch(provider: Provider, embedder: RemoteEmbedder) -> None:
    assert len(embedder.embed_documents(["", " \n", "a\ud800b"])) == 3
    assert all(text.strip() for text in provider.questions[0]["input"])


def test_nothing_to_embed_asks_nothing(provider: Provider, embedder: RemoteEmbedder) -> None:
    assert embedder.embed_documents([]) == []
    assert provider.questions == []


def test_there_are_no_token_states(embedder: RemoteEmbedder) -> None:
    assert embedder.embed_query("x").states is None
    assert [document.states for document in embedder.embed_documents(["x", "y"])] == [None, None]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again_after_a_while(
    provider: Provider, embedder: RemoteEmbedder, waits: list[float], status: int
) -> None:
    provider.answer = in_turn((status, {"error": "later"}), (status, {"error": "later"}), honest)
    assert embedder.embed_query("x").vector.shape == (3,)
    assert len(waits) == 2
    assert 0 < waits[0] < waits[1] <= 8


def test_the_server_says_how_long_to_wait_within_reason(
    provider: Provider, embedder: RemoteEmbedder, waits: list[float]
) -> None:
    provider.answer = in_turn((429, b"", {"Retry-After": "3"}), (429, b"", {"Retry-After": "9999"}), honest)
    embedder.embed_documents(["x"])
    assert waits == [3.0, 8.0]


def test_a_question_does_not_wait_as_long_as_documents(
    provider: Provider, embedder: RemoteEmbedder, waits: list[float]
) -> None:
    provider.answer = lambda question: (429, b"", {"Retry-After": "8"})
    with pytest.raises(ProviderUnavailable, match="429"):
        embedder.embed_query("x")
    assert waits == []


def test_a_server_that_stays_busy_is_unavailable_after_three_tries(
    provider: Provider, embedder: RemoteEmbedder, waits: list[float]
) -> None:
    provider.answer = lambda question: (503, {"error": "overloaded"})
    with pytest.raises(ProviderUnavailable, match=r"503.*overloaded"):
        embedder.embed_query("x")
    assert len(provider.questions) == 3
    assert len(waits) == 2


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_unavailable_at_once(provider: Provider, embedder: RemoteEmbedder, status: int) -> None:
    provider.answer = lambda question: (status, {"error": "bad key"})
    with pytest.raises(ProviderUnavailable, match=str(status)) as caught:
        embedder.embed_query("x")
    assert len(provider.questions) == 1
    assert "apiKeyEnv" in caught.value.hint
    assert "k-123" not in str(caught.value) + caught.value.hint


def test_a_redirect_is_not_followed(provider: Provider, embedder: RemoteEmbedder) -> None:
    provider.answer = lambda question: (307, b"", {"Location": f"{provider.url}/elsewhere"})
    with pytest.raises(ProviderUnavailable, match="307"):
        embedder.embed_query("x")
    assert provider.paths == ["/v1/embeddings"]


def test_a_refused_text_is_a_failure_of_that_text(provider: Provider, embedder: RemoteEmbedder) -> None:
    provider.answer = lambda question: (400, {"error": "too long"})
    with pytest.raises(EmbeddingFailed, match=r"400.*too long"):
        embedder.embed_query("x")


def row(values: object, index: object = 0) -> dict[str, object]:
    return {"index": index, "embedding": values}


@pytest.mark.parametrize(
    "garbage",
    [
        b"<html>hello</html>",
        b"",
        b"\xff\xfe",
        [],
        None,
        7,
        {},
        {"data": None},
        {"data": {}},
        {"data": []},
        {"data": [row([1.0, 2.0]), row([1.0, 2.0], 1)]},
        {"data": [7]},
        {"data": [row(None)]},
        {"data": [row([])]},
        {"data": [row("AAAA")]},
        {"data": [row(["1", "2"])]},
        {"data": [row([True, False])]},
        {"data": [row([0.0, 0.0])]},
        {"data": [row([1.0, float("nan")])]},
        {"data": [row([1.0, float("inf")])]},
        {"data": [row([1.0, 10**400])]},
        {"data": [row([1.0], 5)]},
        {"data": [row([1.0], "0")]},
    ],
)
def test_an_answer_that_makes_no_sense_is_a_failure(
    provider: Provider, embedder: RemoteEmbedder, garbage: object
) -> None:
    provider.answer = lambda question: (200, garbage)
    with pytest.raises(EmbeddingFailed) as caught:
        embedder.embed_query("x")
    assert caught.value.hint


def test_two_vectors_for_one_place_are_a_failure(provider: Provider, embedder: RemoteEmbedder) -> None:
    provider.answer = lambda question: (200, {"data": [row([1.0, 2.0]), row([1.0, 2.0])]})
    with pytest.raises(EmbeddingFailed, match="vector 1"):
        embedder.embed_documents(["a", "b"])


def test_vectors_of_several_lengths_are_a_failure(provider: Provider, embedder: RemoteEmbedder) -> None:
    provider.answer = lambda question: (200, {"data": [row([1.0, 2.0]), row([1.0], 1)]})
    with pytest.raises(EmbeddingFailed, match="several lengths"):
        embedder.embed_documents(["a", "b"])


def test_other_dimensions_than_before_are_a_failure(provider: Provider, embedder: RemoteEmbedder) -> None:
    embedder.embed_query("x")
    provider.answer = lambda question: (200, {"data": [row([1.0, 2.0])]})
    with pytest.raises(EmbeddingFailed, match="2 dimensions, not 3"):
        embedder.embed_query("x")


def test_a_port_where_nobody_listens_is_unavailable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        embedder = RemoteEmbedder(base_url=f"http://127.0.0.1:{port}/v1", model="small")
        with pytest.raises(ProviderUnavailable, match=str(port)):
            embedder.embed_query("x")
        embedder.close()


@pytest.mark.parametrize("url", ["", "ftp://127.0.0.1/v1", "http://", "http://[", "nonsense"])
def test_an_address_that_is_none_is_unavailable(url: str) -> None:
    embedder = RemoteEmbedder(base_url=url, model="small", wait=lambda seconds: None)
    with pytest.raises(ProviderUnavailable):
        embedder.embed_query("x")
    embedder.close()


def test_a_server_that_never_answers_does_not_hang_the_caller(provider: Provider, waits: list[float]) -> None:
    provider.answer = lambda question: (200, b"" if provider.stopped.wait(120) else b"late")
    embedder = RemoteEmbedder(base_url=provider.url, model="small", timeout_seconds=0.3, wait=waits.append)
    with pytest.raises(ProviderUnavailable, match=r"gave no answer|cannot be reached"):
        embedder.embed_query("x")
    embedder.close()


def test_a_server_that_drips_for_ever_does_not_hang_the_caller(provider: Provider, waits: list[float]) -> None:
    provider.drip = True
    embedder = RemoteEmbedder(base_url=provider.url, model="small", timeout_seconds=0.4, wait=waits.append)
    with pytest.raises(ProviderUnavailable, match=r"in time|cannot be reached"):
        embedder.embed_query("x")
    embedder.close()


def test_an_answer_that_breaks_off_is_asked_for_again(provider: Provider, embedder: RemoteEmbedder) -> None:
    provider.break_off = 1
    assert embedder.embed_query("x").vector.shape == (3,)
    assert len(provider.questions) == 2


def test_a_closed_embedder_opens_again_when_it_is_used(embedder: RemoteEmbedder) -> None:
    embedder.embed_query("x")
    embedder.close()
    assert embedder.embed_query("x").vector.shape == (3,)
