"""What does a workspace that is indexed for the first time wait for, and is it told how long?

    python -m benchmarks.first_hour WORKSPACE_DIR [--model]

A copy of the workspace is indexed from nothing to the last vector. Without --model, texts cost their characters, which
is what they cost the bundled model to a few percent; the figures are then the same on every machine. With it, the
model embeds and the clock counts; the processor time of the whole is beside it, which a busy machine leaves alone.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from spec_kit_memory.embed import Embedder, Embedding
from spec_kit_memory.embed.hashing import HashingEmbedder
from spec_kit_memory.embed.local import LocalEmbedder
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace

NEWEST = 10  # a tenth of the memories
TOLD_AT = (0.05, 0.1, 0.25, 0.5, 0.75)


class Counted:
    """An embedder that knows what it has cost so far."""

    def __init__(self, embedder: Embedder, *, by_clock: bool) -> None:
        self._embedder = embedder
        self._by_clock = by_clock
        self.cost = 0.0
        self.texts = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._embedder, name)

    def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        started = time.perf_counter()
        made = self._embedder.embed_documents(texts)
        self.cost += time.perf_counter() - started if self._by_clock else sum(map(len, texts))
        self.texts += len(texts)
        return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("workspace", type=Path, metavar="WORKSPACE_DIR")
    parser.add_argument("--model", action="store_true", help="embed with the bundled model, by the clock")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        root = Path(place).resolve() / "copy"
        shutil.copytree(arguments.workspace, root, ignore=shutil.ignore_patterns(".spec-kit-memory"))
        embedder = Counted(LocalEmbedder() if arguments.model else HashingEmbedder(), by_clock=arguments.model)
        settings = Settings(root=root, semantic=Semantic(model="local" if arguments.model else "hashing"), watch="off")
        with Workspace(settings, embedder=embedder) as workspace:  # type: ignore[arg-type]
            _run(workspace, embedder, by_clock=arguments.model)


def _run(workspace: Workspace, embedder: Counted, *, by_clock: bool) -> None:
    started, worked = time.perf_counter(), time.process_time()
    workspace.index(embed=False)
    print(f"text searchable after {time.perf_counter() - started:.1f} s")
    documents = workspace._runtime.store.documents
    every = documents.find(order="created_at")
    newest = [memory.id for memory in every[: len(every) // NEWEST]]
    marks: list[tuple[float, int, int]] = []
    reached: list[float] = []

    def progress(stage: str, done: int, total: int) -> None:
        if stage != "vectors":
            return
        marks.append((embedder.cost, done, total))
        looked_at = documents.many(newest) if not reached and len(marks) % 4 == 0 else []
        if looked_at and all(memory.vector_status == "success" for memory in looked_at):
            reached.append(embedder.cost)

    workspace.index(progress=progress)
    whole = embedder.cost
    passages = workspace.stats().totals["passages"]
    unit = "s of embedding" if by_clock else "characters"
    print(f"{len(every):,} memories, {passages:,} passages, {embedder.texts:,} texts embedded, {whole:,.0f} {unit}")
    seconds, processor = time.perf_counter() - started, time.process_time() - worked
    print(f"from nothing to the last vector {seconds:.1f} s, {processor:.1f} s of processor time")
    if reached:
        print(f"the newest tenth of the memories has its vectors after {reached[0] / whole:.0%} of it")
    print(f"progress ends at {marks[-1][1]:,} of {marks[-1][2]:,}")
    for share in TOLD_AT:
        cost, done, total = next(mark for mark in marks if mark[1] >= share * mark[2])
        print(f"at {done / total:4.0%} the whole would take {cost * total / done / whole:.0%} of what it took")


if __name__ == "__main__":
    main()
