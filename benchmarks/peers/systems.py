"""Which systems are compared, what do they need, and with which settings?"""

from __future__ import annotations

from dataclasses import dataclass

OURS = "spec-kit-memory"


@dataclass(frozen=True)
class System:
    """One row of the table: a package in one setting."""

    name: str  # what --systems takes
    package: str  # on the package index; its version is shown
    settings: str  # as shown in the table
    requirements: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()  # installed without what they name themselves
    adapter: str = ""  # in worker.py
    query_prefix: bool = False


# What txtai names, but for torch: gigabytes, which vectors from elsewhere never touch.
_TXTAI_NEEDS = (
    "faiss-cpu",
    "huggingface-hub",
    "msgpack",
    "numpy",
    "pyyaml",
    "regex",
    "safetensors",
    "tqdm",
    "transformers>=5.9",
)

SYSTEMS = (
    System(OURS, OURS, "defaults"),
    System("chromadb", "chromadb", "defaults", ("chromadb", "openai"), adapter="Chroma"),
    System(
        "chromadb-prefix",
        "chromadb",
        "embed_query with the model's prefix",
        ("chromadb", "openai"),
        adapter="Chroma",
        query_prefix=True,
    ),
    System("mem0ai", "mem0ai", "infer=False, Qdrant on disk", ("mem0ai",), adapter="Mem0"),
    System("memsearch", "memsearch", "defaults, Milvus Lite", ("memsearch",), adapter="MemSearch"),
    System("lancedb", "lancedb", "hybrid search, RRF", ("lancedb", "openai"), adapter="Lance"),
    System(
        "lancedb-prefix",
        "lancedb",
        "hybrid search, RRF, query with prefix",
        ("lancedb", "openai"),
        adapter="Lance",
        query_prefix=True,
    ),
    System("txtai", "txtai", "vectors (default)", _TXTAI_NEEDS, ("txtai",), adapter="Txtai"),
    System("txtai-hybrid", "txtai", "hybrid=True", _TXTAI_NEEDS, ("txtai",), adapter="TxtaiHybrid"),
    System(
        "txtai-hybrid-prefix",
        "txtai",
        "hybrid=True, query instruction",
        _TXTAI_NEEDS,
        ("txtai",),
        adapter="TxtaiHybrid",
        query_prefix=True,
    ),
)
