"""What does a text mean, to a model behind an OpenAI-compatible /v1/embeddings?

OpenAI, Ollama, llama.cpp, vLLM and LM Studio use the same format. Every call ends by its deadline,
whatever the server does; a response is used only after it has been validated. The detail `perhaps_text`
of an error means that the text may be the cause rather than the provider.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from spec_kit_memory.advice import advise
from spec_kit_memory.core.wording import counted
from spec_kit_memory.embed.embedder import Embedding, QueryEmbedding
from spec_kit_memory.errors import EmbeddingFailed, ProviderUnavailable, SpecKitMemoryError

if TYPE_CHECKING:
    import httpx2

# Dimensions of well-known models; for others, one request is sent to find out.
_KNOWN_DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
_BATCH_TEXTS = 64
_BATCH_CHARACTERS = 100_000  # OpenAI's limit is 300,000 tokens per request
_MOST_CHARACTERS = 24_000  # OpenAI's limit is 8,192 tokens per text
_MOST_ANSWER_BYTES = 64_000_000
_TRIES = 3
QUERY_SECONDS = 3.0  # short, since a user waits for a search and text search needs no model
_MOST_WAIT_SECONDS = 8.0
_BLANK = "(empty)"  # some servers refuse a whole batch if one text is empty


class _TemporaryError(Exception):
    """A failure that may be temporary, so that a retry makes sense."""

    def __init__(self, error: SpecKitMemoryError, *, wait_seconds: float | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.wait_seconds = wait_seconds


class RemoteEmbedder:
    """A remote model. Created without connecting; safe to share between threads. It has no token states."""

    def __init__(
        self,
        *,
        base_url: str,
        model: str,
        dimensions: int | None = None,
        api_key: str | None = None,
        timeout_seconds: float = 30.0,
        query_seconds: float | None = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = model
        self.weights_hash = hashlib.sha256(f"{base_url} {model} {dimensions or ''}".encode()).hexdigest()
        self._url = base_url.rstrip("/") + "/embeddings"
        self._requested_dimensions = dimensions if model.startswith("text-embedding-3") else None
        self._dimensions = dimensions or _KNOWN_DIMENSIONS.get(model)
        self._key = api_key
        self._timeout_seconds = timeout_seconds
        self._query_seconds = query_seconds
        self._wait = wait
        self._lock = threading.Lock()
        self._client: httpx2.Client | None = None

    @property
    def dimensions(self) -> int:
        """As configured, or as known for the model; otherwise taken from the response to a request."""
        if self._dimensions is None:
            self._embed(["dimensions"])
        return self._dimensions or 0

    def embed_query(self, text: str) -> QueryEmbedding:
        return self.embed_queries([text])[0]

    def embed_queries(self, texts: Sequence[str]) -> list[QueryEmbedding]:
        return [QueryEmbedding(vector=row) for row in self._embed(texts, seconds=self._query_timeout())]

    def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        return [Embedding(vector=row) for batch in _batches(texts) for row in self._embed(batch)]

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close()
            self._client = None

    def _embed(self, texts: Sequence[str], *, seconds: float | None = None) -> list[np.ndarray]:
        payload: dict[str, object] = {
            "model": self.name,
            "input": [_readable(text) for text in texts],
            "encoding_format": "float",
        }
        if self._requested_dimensions is not None:
            payload["dimensions"] = self._requested_dimensions
        rows = _vectors(
            self._request(payload, seconds=seconds or self._timeout_seconds), count=len(texts), url=self._url
        )
        dimensions = len(rows[0])
        if self._dimensions is None:
            self._dimensions = dimensions
        if dimensions != self._dimensions:
            raise EmbeddingFailed(
                f"{self.name} at {self._url} answered with {dimensions} dimensions, not {self._dimensions}",
                hint=advise("set-dimensions"),
            )
        return rows

    def _query_timeout(self) -> float:
        return min(QUERY_SECONDS if self._query_seconds is None else self._query_seconds, self._timeout_seconds)

    def _request(self, payload: dict[str, object], *, seconds: float) -> object:
        """The parsed response; temporary failures are retried until the deadline."""
        deadline = time.monotonic() + seconds
        for attempt in range(1, _TRIES + 1):
            try:
                return self._request_once(payload, deadline=deadline)
            except _TemporaryError as temporary:
                wait_seconds = min(temporary.wait_seconds or 0.5 * 2 ** (attempt - 1), _MOST_WAIT_SECONDS)
                if attempt == _TRIES or time.monotonic() + wait_seconds >= deadline:
                    raise temporary.error from temporary.__cause__
                self._wait(wait_seconds)
        raise AssertionError("unreachable: the last try returns or raises")

    def _request_once(self, payload: dict[str, object], *, deadline: float) -> object:
        import httpx2

        remaining_seconds = max(0.05, deadline - time.monotonic())
        try:
            with self._open().stream("POST", self._url, json=payload, timeout=remaining_seconds) as response:
                status, retry_after = response.status_code, response.headers.get("retry-after", "")
                body = _body(response, deadline=deadline, url=self._url)
        except (httpx2.ConnectError, httpx2.UnsupportedProtocol, httpx2.InvalidURL) as error:
            raise self._unreachable(error) from error
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            # The server was reached but did not respond or closed the connection: a text may have been too long for it.
            raise _TemporaryError(self._unreachable(error, perhaps_text=True)) from error
        if status != 200:
            self._refuse(status, body, retry_after=retry_after)
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise EmbeddingFailed(
                f"{self._url} answered with something that is not JSON: {_excerpt(body)}", hint=_CHECK_URL
            ) from error

    def _refuse(self, status: int, body: bytes, *, retry_after: str) -> None:
        message = f"{self._url} answered {status}: {_excerpt(body)}"
        if status == 429 or status >= 500:
            hint = "search works by text until it answers; it is tried again"
            error = ProviderUnavailable(message, hint=hint, perhaps_text=status >= 500)
            raise _TemporaryError(error, wait_seconds=_seconds(retry_after))
        if status in (401, 403):
            raise ProviderUnavailable(message, hint="put a valid key into the variable that semantic.apiKeyEnv names")
        if status in (301, 302, 303, 307, 308, 404, 405):
            raise ProviderUnavailable(message, hint=_CHECK_URL)
        raise EmbeddingFailed(message, hint=_CHECK_URL)

    def _unreachable(self, error: Exception, *, perhaps_text: bool = False) -> ProviderUnavailable:
        reason = str(error) or type(error).__name__
        message = f"{self._url} {'gave no answer' if perhaps_text else 'cannot be reached'}: {reason}"
        return ProviderUnavailable(message, hint=_CHECK_URL, perhaps_text=perhaps_text)

    def _open(self) -> httpx2.Client:
        import httpx2

        with self._lock:
            if self._client is None:
                headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
                # A redirect would send the texts to an address that is not configured.
                self._client = httpx2.Client(headers=headers, follow_redirects=False)
            return self._client


_CHECK_URL = "check semantic.baseUrl and semantic.remoteModel in the configuration; search works by text meanwhile"


def _readable(text: str) -> str:
    return text[:_MOST_CHARACTERS].encode("utf-8", "replace").decode() if text.strip() else _BLANK


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        length = min(len(text), _MOST_CHARACTERS)
        if batch and (len(batch) == _BATCH_TEXTS or size + length > _BATCH_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += length
    if batch:
        yield batch


def _body(response: httpx2.Response, *, deadline: float, url: str) -> bytes:
    """The whole body; raises if it is too long or not complete by the deadline."""
    parts: list[bytes] = []
    size = 0
    for part in response.iter_bytes():
        parts.append(part)
        size += len(part)
        if size > _MOST_ANSWER_BYTES:
            raise EmbeddingFailed(f"the answer of {url} has more than {_MOST_ANSWER_BYTES:,} bytes", hint=_CHECK_URL)
        if time.monotonic() > deadline:
            raise ProviderUnavailable(f"{url} did not finish its answer in time", hint=_CHECK_URL, perhaps_text=True)
    return b"".join(parts)


def _vectors(answer: object, *, count: int, url: str) -> list[np.ndarray]:
    """The unit vectors of a response, in the order of the texts; raises EmbeddingFailed if it is invalid."""
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list) or len(rows) != count:
        received = counted(len(rows), "vector") if isinstance(rows, list) else "no vectors"
        raise EmbeddingFailed(f"{url} answered with {received} for {counted(count, 'text')}", hint=_CHECK_URL)
    by_place: dict[int, np.ndarray] = {}
    for place, row in enumerate(rows):
        index, values = _row(row, place)
        vector = _numbers(values)
        if vector is None or index in by_place or not 0 <= index < count:
            raise EmbeddingFailed(f"vector {place} in the answer of {url} makes no sense", hint=_CHECK_URL)
        by_place[index] = vector
    if len({len(vector) for vector in by_place.values()}) != 1:
        raise EmbeddingFailed(f"{url} answered with vectors of several lengths", hint=_CHECK_URL)
    return [(by_place[i] / np.linalg.norm(by_place[i])).astype(np.float32) for i in range(count)]


def _row(row: object, place: int) -> tuple[int, object]:
    if not isinstance(row, dict):
        return place, None
    index = row.get("index", place)
    return (index if isinstance(index, int) else -1), row.get("embedding")


def _numbers(values: Any) -> np.ndarray | None:
    """A finite vector that is not zero, or None."""
    if not isinstance(values, list) or not values or not all(type(value) in (int, float) for value in values):
        return None
    try:
        vector = np.array(values, dtype=np.float64)
    except OverflowError:
        return None
    length = float(np.linalg.norm(vector))
    return vector if np.isfinite(length) and length > 0 else None


def _seconds(retry_after: str) -> float | None:
    try:
        seconds = float(retry_after)
    except ValueError:  # a date, or nothing
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _excerpt(body: bytes) -> str:
    return " ".join(body[:500].decode("utf-8", "replace").split())[:200] or "(nothing)"
