"""What does a text mean, for a test that must not load a model?

Deterministic feature hashing: texts that share words, word pairs or parts of words get similar
vectors, on any machine, with nothing but numpy. It is part of the package so that tests need no mock.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from spec_kit_memory.embed import token_states
from spec_kit_memory.embed.embedder import Embedding, QueryEmbedding

_WORD = re.compile(r"\w+")
_PART_LENGTH = 3
# Whole words weigh more than their parts, which are numerous.
_WEIGHTS = {"word": 1.0, "pair": 0.5, "part": 0.35}


_MOST_STATES = 512  # as in a model's window: a passage may be a line of a megabyte


class HashingEmbedder:
    name = "hashing"
    weights_hash = hashlib.sha256(b"hashing 1").hexdigest()

    def __init__(self, *, dimensions: int = 384) -> None:
        if dimensions % 8 or dimensions <= 0:
            raise ValueError(f"dimensions must be a positive multiple of 8, not {dimensions}")
        self.dimensions = dimensions

    def embed_query(self, text: str) -> QueryEmbedding:
        words = _words(text)
        rows = [_word_state(word, self.dimensions) for word in words]
        return QueryEmbedding(
            vector=self._vector(words),
            states=np.array(rows, dtype=np.float32).reshape(len(rows), self.dimensions),
        )

    def embed_queries(self, texts: Sequence[str]) -> list[QueryEmbedding]:
        return [self.embed_query(text) for text in texts]

    def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        return [self._document(text) for text in texts]

    def _document(self, text: str) -> Embedding:
        words = _words(text)
        rows = [_word_state(word, self.dimensions) for word in words[:_MOST_STATES]]
        packed = token_states.pack(np.array(rows, dtype=np.float32).reshape(len(rows), self.dimensions))
        return Embedding(vector=self._vector(words), states=packed)

    def _vector(self, words: Sequence[str]) -> np.ndarray:
        # A text without words still needs a direction: a fixed one, unrelated to most others.
        vector = np.zeros(self.dimensions)
        for kind, feature in _features(words) if words else [("word", "")]:
            vector += _WEIGHTS[kind] * _direction(f"{kind}:{feature}", self.dimensions)
        unit: np.ndarray = (vector / np.linalg.norm(vector)).astype(np.float32)
        return unit


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def _parts(word: str) -> Iterator[str]:
    delimited = f"<{word}>"
    for start in range(len(delimited) - _PART_LENGTH + 1):
        yield delimited[start : start + _PART_LENGTH]


def _features(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        yield "word", word
        for part in _parts(word):
            yield "part", part
    for left, right in pairwise(words):
        yield "pair", f"{left} {right}"


@lru_cache(maxsize=20_000)
def _word_state(word: str, dimensions: int) -> np.ndarray:
    state = _direction(f"word:{word}", dimensions) + sum(
        _WEIGHTS["part"] * _direction(f"part:{part}", dimensions) for part in _parts(word)
    )
    unit: np.ndarray = (state / np.linalg.norm(state)).astype(np.float32)
    return unit


@lru_cache(maxsize=50_000)
def _direction(feature: str, dimensions: int) -> np.ndarray:
    """A pseudorandom unit vector that depends only on the feature."""
    raw = hashlib.shake_128(feature.encode("utf-8", "surrogatepass")).digest(dimensions // 8)
    signs = np.unpackbits(np.frombuffer(raw, dtype=np.uint8)).astype(np.float32) * 2 - 1
    direction: np.ndarray = signs / np.sqrt(dimensions)
    return direction
