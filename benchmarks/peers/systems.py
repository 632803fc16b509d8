"""Which systems are compared, in which versions, and with which settings?"""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass

OURS = "spec-kit-memory"


@dataclass(frozen=True)
class System:
    """One row of the table: a package in one setting. Rows of one package share an environment."""

    name: str  # what --systems takes
    package: str  # on the package index; its version is shown
    settings: str  # as shown in the table
    requirements: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()  # installed without what they name themselves
    adapter: str = ""  # in worker.py
    query_prefix: bool = False
    depth: int = 10  # how many results are asked for; the first ten documents of them count

    @property
    def pins(self) -> tuple[str, ...]:
        return (*self.requirements, *self.alone)

    @property
    def environment(self) -> str:
        """The name of its folder: other pins, or another Python, are another environment."""
        content = "\n".join((platform.python_version(), *self.requirements, "alone", *self.alone))
        return f"{self.package}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


_OPENAI = "openai==3.49.0"
_CHROMA = ("chromadb==1.5.9", _OPENAI)
_LANCE = ("lancedb==0.40.0", _OPENAI)
_MEM0 = ("mem0ai==2.2.1", "qdrant-client==1.20.0", _OPENAI)
_MEMSEARCH = ("memsearch==0.4.23", "pymilvus==3.0.2", "milvus-lite==3.2.2", _OPENAI)
# What txtai names, but for torch: gigabytes, which vectors from elsewhere never touch.
_TXTAI_NEEDS = (
    "faiss-cpu==1.15.1",
    "huggingface-hub==2.4.0",
    "msgpack==1.2.4",
    "numpy==2.4.6",
    "pyyaml==6.0.3",
    "regex==2026.11.9",
    "safetensors==0.8.0",
    "tqdm==4.70.1",
    "transformers==5.22.2",
)
_TXTAI = ("txtai==9.14.0",)

SYSTEMS = (
    System(OURS, OURS, "defaults"),
    System("chromadb", "chromadb", "defaults", _CHROMA, adapter="Chroma"),
    System(
        "chromadb-prefix",
        "chromadb",
        "embed_query with the model's prefix",
        _CHROMA,
        adapter="Chroma",
        query_prefix=True,
    ),
    System("mem0ai", "mem0ai", "infer=False, Qdrant on disk", _MEM0, adapter="Mem0"),
    System("memsearch", "memsearch", "defaults, Milvus Lite", _MEMSEARCH, adapter="MemSearch"),
    System("lancedb", "lancedb", "hybrid search, RRF", _LANCE, adapter="Lance"),
    System(
        "lancedb-prefix",
        "lancedb",
        "hybrid search, RRF, query with prefix",
        _LANCE,
        adapter="Lance",
        query_prefix=True,
    ),
    System(
        "lancedb-prefix-deep",
        "lancedb",
        "the same, asked for 60",
        _LANCE,
        adapter="Lance",
        query_prefix=True,
        depth=60,
    ),
    System("txtai", "txtai", "vectors (default)", _TXTAI_NEEDS, _TXTAI, adapter="Txtai"),
    System("txtai-hybrid", "txtai", "hybrid=True", _TXTAI_NEEDS, _TXTAI, adapter="TxtaiHybrid"),
    System(
        "txtai-hybrid-prefix",
        "txtai",
        "hybrid=True, query instruction",
        _TXTAI_NEEDS,
        _TXTAI,
        adapter="TxtaiHybrid",
        query_prefix=True,
    ),
)
