"""What does a text mean, to the bundled model, without a network?

snowflake-arctic-embed-s (int8 ONNX): the vector is the CLS token's last state, scaled to unit length,
of at most 512 tokens; queries, and only queries, get the model's prefix. The other states of the same
pass are stored for content words (see embed/token_states.py), as signs relative to a fixed mean. Code, tables of
numbers and scripts that the model spells by characters have more tokens in a passage: such a text takes several
passes, its vector is their mean, and the states of all are stored.

`model/token_mean.npy` is that mean, computed from random runs of the model's own vocabulary (see
benchmarks/embedding.py): measured to be no worse than a mean of real text, and not biased to any kind of
text. It is a constant of the packed format: with another mean, stored bits would be wrong.

`model/unrelated.npy` has the vectors of texts on arbitrary topics. Their cosines to a query are a baseline for
unrelated passages, since some questions are close to everything. No stored data depends on it.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from spec_kit_memory.advice import advise
from spec_kit_memory.core.wording import counted
from spec_kit_memory.embed import token_states
from spec_kit_memory.embed.embedder import Embedding, QueryEmbedding
from spec_kit_memory.errors import EmbeddingFailed, ProviderUnavailable

_Embedded = TypeVar("_Embedded")

MODEL_FOLDER = Path(__file__).parent / "model"
HASHES = {
    "model.onnx": "f93ff225320628d2e88baf2a395cae791b0e3b27edf5c70bf7b312a4d3260c14",
    "tokenizer.json": "5e7245596b76f5be39d612babeceb40d409602d50ca759645966ccdb4a2caa30",
    "token_mean.npy": "02450703bab01151afd43513070cffaa21baf39218fec48c938ef541aabd1d75",
    "unrelated.npy": "0c71e7613aab811ce98f5f1e0e37717b07ee240acf243639b6a9ba3fcc2ba63c",
}
# The files on which stored vectors and states depend.
_STORED_WITH = ("model.onnx", "tokenizer.json", "token_mean.npy")
_REINSTALL = "run `pip install --force-reinstall spec-kit-memory`; until then search works by text"
QUERY_PREFIX = "Represent this sentence for searching relevant passages: "
MOST_TOKENS = 512
MOST_PASSES = 4  # for one text: a passage has less than 2,000 bytes, and a token at least one
# A tokenizer processes its whole input; in text made of words, the first 512 tokens are well within this length.
_MOST_CHARACTERS = 20_000
# More parallel passes gain little and take 40 MB each.
_MOST_WORKERS = 4

# Words that occur everywhere and so do not distinguish passages. A constant of the packed format, like the mean.
_STOP_WORDS = (
    "a about after all also am an and any are as at be been before being but by can could d did do does doing "
    "for from had has have having he her here hers him his how i if in into is it its itself just ll m may me "
    "might more most must my no nor not now of off on only or other our ours out over own re s same shall she "
    "should so some such t than that the their theirs them then there these they this those through to too "
    "under until up us ve very was we were what when where which while who whom whose why will with would you "
    "your yours"
)


class _TokenKinds:
    """The kind of each token, determined when it first occurs: for the whole vocabulary it would take 26 ms."""

    _STOP_WORDS = frozenset(_STOP_WORDS.split())

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._is_known_token = np.zeros(tokenizer.get_vocab_size(), dtype=bool)
        self._dropped = np.zeros_like(self._is_known_token)
        self._continues = np.zeros_like(self._is_known_token)

    def of(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each token: is it without content, and does it continue the previous token's word?"""
        for place in set(ids[~self._is_known_token[ids]].tolist()):
            token = self._tokenizer.id_to_token(place)
            word = token.removeprefix("##")
            self._continues[place] = token.startswith("##")
            self._dropped[place] = (
                token in self._STOP_WORDS or not any(letter.isalnum() for letter in word) or _special(token)
            )
            self._is_known_token[place] = True  # set last, because other threads may read it
        return self._dropped[ids], self._continues[ids]


@dataclass(frozen=True, slots=True)
class _Loaded:
    tokenizer: Any
    session: Any
    mean: np.ndarray
    unrelated: np.ndarray  # vectors of texts on arbitrary topics
    kinds: _TokenKinds
    prefix_tokens: int  # position of the first token of a query's own text
    failures: tuple[type[Exception], ...]  # exceptions of the runtime


class LocalEmbedder:
    """The bundled model. Cheap to create, loaded at first use, safe to share between threads."""

    name = "snowflake-arctic-embed-s"
    dimensions = 384
    weights_hash = hashlib.sha256(
        " ".join([*map(HASHES.__getitem__, _STORED_WITH), str(token_states.VERSION)]).encode()
    ).hexdigest()

    def __init__(self, *, folder: Path = MODEL_FOLDER, workers: int | None = None) -> None:
        self._folder = folder
        self._workers = workers or max(1, min(_MOST_WORKERS, _cores()))
        self._lock = threading.Lock()
        self._loaded: _Loaded | None = None

    def embed_query(self, text: str) -> QueryEmbedding:
        loaded = self._load()
        ids = _tokens(loaded, QUERY_PREFIX + text)
        if len(ids) > MOST_TOKENS:
            ids = np.append(ids[: MOST_TOKENS - 1], ids[-1])
        rows = _forward(loaded, ids)
        words = rows[_query_words(loaded, ids)] - loaded.mean
        vector = _unit(rows[0])
        cosines = loaded.unrelated @ vector
        return QueryEmbedding(vector, _unit(words), (float(cosines.mean()), float(cosines.std())))

    def embed_queries(self, texts: Sequence[str]) -> list[QueryEmbedding]:
        return self._passes(self.embed_query, texts)

    def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        loaded = self._load()
        return self._passes(lambda text: _document(loaded, text), texts)

    def _passes(self, embed: Callable[[str], _Embedded], texts: Sequence[str]) -> list[_Embedded]:
        """One text per pass, several passes in parallel, no batches: padding costs more than batches gain, and with
        int8 weights a text's vector would depend on the other texts in its batch."""
        if self._workers == 1 or len(texts) < 2:
            return [embed(text) for text in texts]
        # Longest first, so that no worker is left with a long text when the others are done.
        order = sorted(range(len(texts)), key=lambda place: -len(texts[place]))
        with ThreadPoolExecutor(self._workers, thread_name_prefix="embed") as pool:
            results = dict(zip(order, pool.map(embed, (texts[place] for place in order)), strict=True))
        return [results[place] for place in range(len(texts))]

    def _load(self) -> _Loaded:
        loaded = self._loaded
        if loaded is None:
            with self._lock:
                if self._loaded is None:
                    self._loaded = _open(self._folder)
                loaded = self._loaded
        return loaded


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


def _open(folder: Path) -> _Loaded:
    # Official builds of onnxruntime (since 1.29) send telemetry over HTTPS and write a device id to the home
    # folder, unless this is set before the import. Disabling it later would be too late for the first report.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as runtime
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ProviderUnavailable(
            f"the local model needs {error.name}, which cannot be imported: {error}", hint=_REINSTALL
        ) from error
    files = {name: _verified(folder / name, digest) for name, digest in HASHES.items()}
    tokenizer = Tokenizer.from_str(files["tokenizer.json"].decode())
    tokenizer.no_padding()
    tokenizer.enable_truncation(MOST_PASSES * (MOST_TOKENS - 2) + 2)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # parallel passes use the cores better than several threads in one pass
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # texts differ in length, so patterns are useless; 25 MB less, same speed
    options.log_severity_level = 3
    failures = (runtime.Fail, runtime.RuntimeException, runtime.InvalidArgument)
    try:
        session = onnxruntime.InferenceSession(files["model.onnx"], options, providers=["CPUExecutionProvider"])
    except failures as error:
        raise ProviderUnavailable(f"the local model cannot be loaded: {error}", hint=_REINSTALL) from error
    if hasattr(session, "_model_bytes"):
        session._model_bytes = b""  # the runtime keeps them (33 MB) only to change the provider, which is never done
    mean = np.frombuffer(files["token_mean.npy"], dtype="<f4", offset=128)
    unrelated = np.frombuffer(files["unrelated.npy"], dtype="<f2", offset=128)
    unrelated = unrelated.reshape(-1, LocalEmbedder.dimensions).astype(np.float32)
    prefix_tokens = len(tokenizer.encode(QUERY_PREFIX).ids) - 1
    return _Loaded(tokenizer, session, mean, unrelated, _TokenKinds(tokenizer), prefix_tokens, failures)


def _verified(path: Path, digest: str) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ProviderUnavailable(
            f"{path} of the local model cannot be read: {error.strerror}", hint=_REINSTALL
        ) from error
    actual = hashlib.sha256(content).hexdigest()
    if actual != digest:
        raise ProviderUnavailable(
            f"{path} is not the file of the local model: its SHA-256 is {actual}, not {digest}", hint=_REINSTALL
        )
    return content


def _special(token: str) -> bool:
    return len(token) > 2 and token[0] == "[" and token[-1] == "]"


def _content(loaded: _Loaded, ids: np.ndarray) -> np.ndarray:
    """Positions of content words. A stop word continued by the next token is the beginning of another word."""
    dropped, continues = loaded.kinds.of(ids)
    return np.flatnonzero(~dropped | np.append(continues[1:], False))


def _query_words(loaded: _Loaded, ids: np.ndarray) -> np.ndarray:
    """Positions of the query's content words, or of all its words if they are all stop words."""
    places = _content(loaded, ids)
    places = places[places >= loaded.prefix_tokens]
    return places if len(places) else np.arange(loaded.prefix_tokens, len(ids) - 1)


def _document(loaded: _Loaded, text: str) -> Embedding:
    passes = _windows(_tokens(loaded, text))
    states = [_forward(loaded, ids) for ids in passes]
    words = [rows[_content(loaded, ids)] for ids, rows in zip(passes, states, strict=True)]
    vector = _unit(states[0][0]) if len(states) == 1 else _unit(np.mean([_unit(rows[0]) for rows in states], axis=0))
    return Embedding(vector=vector, states=token_states.pack(np.concatenate(words) - loaded.mean))


def _windows(ids: np.ndarray) -> list[np.ndarray]:
    """The tokens in as few windows of the model as possible, of about equal size, each with the first and last sign."""
    count = -(-(len(ids) - 2) // (MOST_TOKENS - 2))
    if count <= 1:
        return [ids]
    return [np.concatenate([ids[:1], part, ids[-1:]]) for part in np.array_split(ids[1:-1], count)]


def _tokens(loaded: _Loaded, text: str) -> np.ndarray:
    # Lone surrogates cannot be encoded and are replaced.
    readable = text[:_MOST_CHARACTERS].encode("utf-8", "replace").decode()
    return np.array(loaded.tokenizer.encode(readable).ids, dtype=np.int64)


def _forward(loaded: _Loaded, ids: np.ndarray) -> np.ndarray:
    row = ids[np.newaxis]
    feed = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)}
    try:
        rows: np.ndarray = loaded.session.run(None, feed)[0][0]
    except loaded.failures as error:
        raise EmbeddingFailed(
            f"the local model failed on a text of {counted(len(ids), 'token')}: {error}",
            hint=advise("try-again-by-index"),
        ) from error
    return rows


def _unit(rows: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    unit: np.ndarray = (rows / np.maximum(lengths, 1e-12)).astype(np.float32)
    return unit
