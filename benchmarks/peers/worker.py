"""What does another system find? One process, in that system's environment, that speaks JSON lines.

    python worker.py ADAPTER

In: {"do": "open" | "index" | "ask" | "close", ...}. Out: one line each, {"error"} where it failed. It imports
nothing of this project: only the standard library and the system itself, through its public interface.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

QUERY_PREFIX = "Represent this sentence for searching relevant passages: "
DIMENSIONS = 384
# A batch that every system takes.
BATCH = 500

Document = dict[str, Any]


def embed(url: str, texts: Sequence[str], *, model: str = "arctic") -> list[list[float]]:
    body = json.dumps({"input": list(texts), "model": model}).encode()
    request = Request(f"{url}/embeddings", data=body, headers={"Content-Type": "application/json"})
    with urlopen(request) as answer:
        return [row["embedding"] for row in json.load(answer)["data"]]


def batches(documents: Sequence[Document]) -> list[Sequence[Document]]:
    return [documents[at : at + BATCH] for at in range(0, len(documents), BATCH)]


class Chroma:
    """A persistent collection with Chroma's own embedding function for OpenAI."""

    def __init__(self, folder: Path, url: str, *, query_prefix: bool) -> None:
        chromadb = import_module("chromadb")
        functions = import_module("chromadb.utils.embedding_functions")
        plain = functions.OpenAIEmbeddingFunction
        given = {"api_key": "none", "api_base": url}
        function = plain(model_name="arctic", **given)
        if query_prefix:
            asking = plain(model_name="arctic-query", **given)
            function.embed_query = lambda input: asking(input)
        settings = chromadb.Settings(anonymized_telemetry=False)
        self._client = chromadb.PersistentClient(path=str(folder), settings=settings)
        # The model is trained for cosine; Chroma's own default, squared distance, orders unit vectors alike.
        self._collection = self._client.create_collection("turns", embedding_function=function)

    def index(self, documents: Sequence[Document]) -> None:
        for batch in batches(documents):
            self._collection.add(ids=[item["id"] for item in batch], documents=[item["text"] for item in batch])

    def ask(self, text: str, *, limit: int) -> list[str]:
        results = self._collection.query(query_texts=[text], n_results=limit)
        return list(results["ids"][0])


class Mem0:
    """A memory per document, kept as it is; Qdrant in a folder."""

    def __init__(self, folder: Path, url: str, *, query_prefix: bool) -> None:
        os.environ.update(MEM0_TELEMETRY="False", MEM0_DIR=str(folder / "home"), OPENAI_API_KEY="none")
        store = {"path": str(folder / "qdrant"), "embedding_model_dims": DIMENSIONS, "on_disk": True}
        model = {"model": "arctic", "openai_base_url": url, "api_key": "none", "embedding_dims": DIMENSIONS}
        self._memory = import_module("mem0").Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": store},
                "embedder": {"provider": "openai", "config": model},
                "llm": {"provider": "openai", "config": {"api_key": "none", "openai_base_url": url}},
                "history_db_path": str(folder / "history.db"),
            }
        )

    def index(self, documents: Sequence[Document]) -> None:
        for document in documents:
            said = [{"role": "user", "content": document["text"]}]
            self._memory.add(said, user_id="all", metadata={"document": document["id"]}, infer=False)

    def ask(self, text: str, *, limit: int) -> list[str]:
        answer = self._memory.search(text, filters={"user_id": "all"}, top_k=limit)
        return [row["metadata"]["document"] for row in answer["results"]]


class MemSearch:
    """A markdown file per document, which is what it indexes."""

    def __init__(self, folder: Path, url: str, *, query_prefix: bool) -> None:
        os.environ.update(OPENAI_API_KEY="none", OPENAI_BASE_URL=url, HOME=str(folder))
        self._notes = folder / "notes"
        self._notes.mkdir()
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._memory = import_module("memsearch").MemSearch(
            paths=[str(self._notes)],
            embedding_provider="openai",
            embedding_model="arctic",
            milvus_uri=str(folder / "milvus.db"),
        )
        self._ids: dict[str, str] = {}

    def index(self, documents: Sequence[Document]) -> None:
        for number, each in enumerate(documents):
            name = f"{number:06d}.md"
            (self._notes / name).write_text(each["text"] + "\n", encoding="utf-8")
            self._ids[name] = each["id"]
        report = self._loop.run_until_complete(self._memory.index_with_report())
        # It goes on after a file that failed, and only the report tells.
        if report.failed_files:
            raise RuntimeError(f"{len(report.failed_files)} files failed, the first: {report.failed_files[0].error}")

    def ask(self, text: str, *, limit: int) -> list[str]:
        results = self._loop.run_until_complete(self._memory.search(text, top_k=limit))
        return [self._ids[Path(row["source"]).name] for row in results]

    def close(self) -> None:
        self._memory.close()


class Lance:
    """A table with vectors and a full-text index, asked for both."""

    def __init__(self, folder: Path, url: str, *, query_prefix: bool) -> None:
        self._database = import_module("lancedb").connect(str(folder))
        self._url = url
        self._query_model = "arctic-query" if query_prefix else "arctic"

    def index(self, documents: Sequence[Document]) -> None:
        rows: list[dict[str, Any]] = []
        for batch in batches(documents):
            vectors = embed(self._url, [item["text"] for item in batch])
            rows += [{"id": e["id"], "text": e["text"], "vector": v} for e, v in zip(batch, vectors, strict=True)]
        self._table = self._database.create_table("turns", data=rows)
        self._table.create_index("text", config=import_module("lancedb.index").FTS())

    def ask(self, text: str, *, limit: int) -> list[str]:
        (vector,) = embed(self._url, [text], model=self._query_model)
        asked = self._table.search(query_type="hybrid").vector(vector).text(text).limit(limit)
        return [row["id"] for row in asked.to_list()]


class Txtai:
    """An embeddings database with the endpoint as its external vectors."""

    hybrid = False

    def __init__(self, folder: Path, url: str, *, query_prefix: bool) -> None:
        settings: dict[str, Any] = {
            "method": "external",
            "transform": lambda texts: import_module("numpy").array(embed(url, list(texts)), dtype="float32"),
            "content": False,
        }
        if self.hybrid:
            settings["hybrid"] = True
        if query_prefix:
            settings["instructions"] = {"query": QUERY_PREFIX, "data": ""}
        self._embeddings = import_module("txtai").Embeddings(settings)

    def index(self, documents: Sequence[Document]) -> None:
        self._embeddings.index((document["id"], document["text"], None) for document in documents)

    def ask(self, text: str, *, limit: int) -> list[str]:
        return [id_ for id_, _ in self._embeddings.search(text, limit)]


class TxtaiHybrid(Txtai):
    hybrid = True


ADAPTERS: dict[str, Any] = {item.__name__: item for item in (Chroma, Mem0, MemSearch, Lance, Txtai, TxtaiHybrid)}


def serve(adapter: Any) -> None:
    """Answer until the input ends. A system may print what it likes: that goes to the other stream."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    opened: Any = None
    for line in sys.stdin:
        data = json.loads(line)
        started = time.perf_counter()
        try:
            answer: dict[str, Any] = {}
            if data["do"] == "open":
                opened = adapter(Path(data["folder"]), data["url"], query_prefix=data["queryPrefix"])
            elif data["do"] == "index":
                opened.index(data["documents"])
            elif data["do"] == "ask":
                answer["ranked"] = opened.ask(data["text"], limit=data["limit"])
            elif data["do"] == "close" and hasattr(opened, "close"):
                opened.close()
        except Exception as error:  # noqa: BLE001  whatever the other system raises is its answer
            answer = {"error": f"{type(error).__name__}: {error}"}
        answer["seconds"] = time.perf_counter() - started
        answer["peakBytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
            1 if sys.platform == "darwin" else 1024
        )
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    serve(ADAPTERS[sys.argv[1]])
