"""How fast is the local model, and how close to the bare runtime?

    python -m benchmarks.embedding           passages a second, query and interaction time, memory
    python -m benchmarks.embedding --mean    make the mean of token states and the unrelated vectors again, and compare

Configurations take turns, round by round, so that a busy machine troubles all of them alike;
the best round counts.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from spec_kit_memory.embed import local, token_states

UNRELATED = Path(__file__).parent / "unrelated.txt"
LENGTHS = {"short (30 words)": (30, 96), "medium (120 words)": (120, 32), "long (300 words)": (300, 16)}


def vocabulary() -> list[str]:
    """Whole words of the tokenizer that carry content, in alphabetical order."""
    from tokenizers import Tokenizer

    tokens = Tokenizer.from_file(str(local.MODEL_FOLDER / "tokenizer.json")).get_vocab()
    stop_words = set(local._STOP_WORDS.split())
    return sorted(token for token in tokens if len(token) > 2 and _is_word(token) and token not in stop_words)


def _is_word(token: str) -> bool:
    return token.isascii() and token.isalpha()


def texts(words: int, count: int, *, seed: int) -> list[str]:
    drawn = random.Random(seed)
    known = vocabulary()
    return [" ".join(drawn.choices(known, k=words)) for _ in range(count)]


def token_mean() -> np.ndarray:
    """The recipe of model/token_mean.npy: 400 random runs of 12 words, so that it leans to no kind of text."""
    loaded = local.LocalEmbedder()._load()
    total, count = np.zeros(local.LocalEmbedder.dimensions), 0
    for text in texts(12, 400, seed=0):
        ids = local._tokens(loaded, text)
        rows = local._forward(loaded, ids)[local._content(loaded, ids)]
        total += rows.sum(axis=0)
        count += len(rows)
    mean: np.ndarray = (total / count).astype(np.float32)
    return mean


def unrelated() -> np.ndarray:
    """The recipe of model/unrelated.npy: texts of our own about anything, as notes, chats and abstracts have them."""
    lines = UNRELATED.read_text(encoding="utf-8").splitlines()
    return np.array([document.vector for document in local.LocalEmbedder().embed_documents(lines)], dtype="<f2")


def bare_runs(batch: int, threads: int, passages: list[str]) -> Callable[[], None]:
    """The runtime alone: sorted, padded batches of ready-made tokens, no vectors made of the result."""
    import onnxruntime
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(local.MODEL_FOLDER / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(local.MOST_TOKENS)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        str(local.MODEL_FOLDER / "model.onnx"), options, providers=["CPUExecutionProvider"]
    )
    feeds = list(_feeds(sorted((item.ids for item in tokenizer.encode_batch(passages)), key=len), batch))

    def run() -> None:
        for feed in feeds:
            session.run(None, feed)

    return run


def _feeds(rows: list[list[int]], batch: int) -> Iterator[dict[str, np.ndarray]]:
    for start in range(0, len(rows), batch):
        part = rows[start : start + batch]
        ids = np.zeros((len(part), max(map(len, part))), dtype=np.int64)
        mask = np.zeros_like(ids)
        for place, row in enumerate(part):
            ids[place, : len(row)] = row
            mask[place, : len(row)] = 1
        yield {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def throughput(rounds: int) -> None:
    cores = os.cpu_count() or 1
    for name, (words, count) in LENGTHS.items():
        passages = texts(words, count, seed=words)
        embedder = local.LocalEmbedder()
        embedder.embed_documents(passages[:1])
        runs: dict[str, Callable[[], Any]] = {"ours": lambda: embedder.embed_documents(passages)}  # noqa: B023
        for threads in sorted({1, cores}):
            for batch in (1, 4, 16):
                runs[f"bare, batch {batch}, threads {threads}"] = bare_runs(batch, threads, passages)
        best = _best_of(runs, rounds)
        bare = min(seconds for label, seconds in best.items() if label != "ours")
        print(f"\n{name}: ours at {100 * bare / best['ours']:.0f} % of the best bare configuration")
        for label, seconds in best.items():
            print(f"  {label:28} {count / seconds:8.1f} passages/s")


def _best_of(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    taken: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for label, run in runs.items():
            started = time.perf_counter()
            run()
            taken[label].append(time.perf_counter() - started)
    return {label: min(seconds) for label, seconds in taken.items()}


def _percentiles(label: str, run: Callable[[], object], times: int) -> None:
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        run()
        taken.append((time.perf_counter() - started) * 1000)
    taken.sort()
    print(f"{label:52} p50 {taken[times // 2]:6.2f} ms   p95 {taken[int(times * 0.95)]:6.2f} ms")


def latencies() -> None:
    started = time.perf_counter()
    embedder = local.LocalEmbedder()
    embedder.embed_query("warm")
    print(f"first query, loading and checking the files included: {(time.perf_counter() - started) * 1000:.0f} ms")
    print(f"resident after loading: {_resident_mb():.0f} MB")
    _percentiles(
        "query of 9 words", lambda: embedder.embed_query("when did we decide to rotate the refresh token"), 200
    )
    drawn = np.random.default_rng(0)
    packed: list[bytes | None] = [token_states.pack(drawn.standard_normal((80, 384))) for _ in range(300)]
    for count in (5, 8, 15):
        rows = drawn.standard_normal((count, 384)).astype(np.float32)
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        label = f"interaction, {count} query states, 300 passages of 80"
        _percentiles(label, lambda unit=unit: token_states.interact(unit, packed), 100)  # type: ignore[misc]
    long = texts(400, 8, seed=1)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: embedder.embed_documents(long), range(2)))
    print(f"resident after long texts, two calls at once: {_resident_mb():.0f} MB")


def _resident_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1_000_000 if sys.platform == "darwin" else 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--mean", action="store_true", help="check the shipped mean of token states and the unrelated vectors"
    )
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.mean:
        shipped = np.load(local.MODEL_FOLDER / "token_mean.npy")
        print(f"largest difference from the shipped mean: {np.abs(token_mean() - shipped).max():.6f}")
        kept = np.load(local.MODEL_FOLDER / "unrelated.npy").astype(np.float32)
        print(f"largest difference from the shipped unrelated vectors: {np.abs(unrelated() - kept).max():.6f}")
        return
    latencies()
    throughput(arguments.rounds)


if __name__ == "__main__":
    main()
