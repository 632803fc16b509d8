"""Where do other systems get vectors of the bundled model? From a loopback endpoint that speaks OpenAI's form.

The model is the same for all. Texts are embedded as they come, since a peer does not know the model's query
prefix; the model name QUERY_MODEL asks for the prefix, for systems that let one embed queries apart. While
documents are indexed vectors come from the cache, so that an indexing rate is the system's own; while
questions are asked nothing is cached, so that each pays for its embedding as ours does.
"""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from benchmarks.caching import CachingEmbedder
from spec_kit_memory.embed.local import QUERY_PREFIX, LocalEmbedder

DOCUMENT_MODEL = "arctic"
QUERY_MODEL = "arctic-query"


class Endpoint:
    """Open for the length of a with statement; `url` is the base of the API."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._model = LocalEmbedder()
        # A SQLite connection is used by one thread at a time, and peers may ask from several.
        self._lock = threading.Lock()
        self._cached = CachingEmbedder(self._model, cache)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _answering(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="endpoint", daemon=True)
        self.caching = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def warm(self, texts: Sequence[str]) -> int:
        """Embed now what is not in the cache; how many that were."""
        with self._lock:
            before = self._cached.computed
            self._cached.embed_documents(texts)
            return self._cached.computed - before

    def vectors(self, texts: Sequence[str], *, model: str) -> list[np.ndarray]:
        if model == QUERY_MODEL:
            texts = [QUERY_PREFIX + text for text in texts]
        if not self.caching:
            return [embedding.vector for embedding in self._model.embed_documents(texts)]
        with self._lock:
            return [embedding.vector for embedding in self._cached.embed_documents(texts)]

    def __enter__(self) -> Endpoint:
        self._model.embed_query("load the model")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _answering(endpoint: Endpoint) -> type[BaseHTTPRequestHandler]:
    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Headers and body are two writes; without this the second waits for an acknowledgement, some 40 ms.
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            data = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
            if not self.path.endswith("/embeddings"):
                self._send(404, {"error": {"message": f"{self.path} is not served here"}})
                return
            self._send(200, embeddings(endpoint, data))

        def _send(self, status: int, content: dict[str, Any]) -> None:
            body = json.dumps(content).encode()
            # Who asked may have been stopped meanwhile.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """One line per request would drown the table."""

    return Answering


def embeddings(endpoint: Endpoint, asked: dict[str, Any]) -> dict[str, Any]:
    texts = [asked["input"]] if isinstance(asked["input"], str) else list(asked["input"])
    vectors = endpoint.vectors(texts, model=asked.get("model", DOCUMENT_MODEL))
    packed = asked.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": place, "embedding": _packed(vector) if packed else vector.tolist()}
        for place, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": 0, "total_tokens": 0}
    return {"object": "list", "data": data, "model": asked.get("model", DOCUMENT_MODEL), "usage": usage}


def _packed(vector: np.ndarray) -> str:
    return base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode()
