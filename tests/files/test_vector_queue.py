from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from spec_kit_memory.core.memory import VectorStatus
from spec_kit_memory.embed import Embedding
from spec_kit_memory.embed.hashing import HashingEmbedder
from spec_kit_memory.errors import EmbeddingFailed, ProviderUnavailable
from spec_kit_memory.files import disk
from spec_kit_memory.files.locks import Lock
from spec_kit_memory.files.scan import Sync
from spec_kit_memory.files.vector_queue import BATCH, embed_memory, embed_pending
from spec_kit_memory.index import open_index
from spec_kit_memory.index.contract import Index
from spec_kit_memory.settings import Settings

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Recording(HashingEmbedder):
    """The shipped fake, which also remembers what it was asked and can be told to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[str]] = []
        self.failing: Callable[[Sequence[str]], None] = lambda texts: None

    def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        self.asked.append(list(texts))
        self.failing(texts)
        return super().embed_documents(texts)


@pytest.fixture
def store(settings: Settings, write: Callable[..., Path]) -> Iterator[Index]:
    disk.ensure_state_folder(settings)
    store = open_index(settings.index_path)
    for number in range(40):
        write(f"memory/m{number:02}.md", f"# M{number}\n\n" + f"Sentence {number} about tokens. " * (number + 1) + "\n")
    Sync(store, settings, now=lambda: NOW).scan()
    yield store
    store.close()


def statuses(store: Index) -> set[VectorStatus]:
    return {memory.vector_status for memory in store.documents.find()}


def test_everything_pending_is_embedded_and_then_nothing_is_left(store: Index, settings: Settings) -> None:
    embedder, told = Recording(), []
    done = embed_pending(store, embedder, settings=settings, progress=lambda *now: told.append(now))
    assert (done.embedded, done.failed, done.stopped) == (sum(map(len, embedder.asked)), 0, "")
    assert done.embedded >= 40
    assert statuses(store) == {VectorStatus.SUCCESS}
    assert told[-1] == ("vectors", done.embedded, done.embedded)
    again = embed_pending(store, embedder, settings=settings)
    assert again.embedded == 0


def test_batches_are_of_like_length(store: Index, settings: Settings) -> None:
    embedder = Recording()
    embed_pending(store, embedder, settings=settings)
    lengths = [len(text) for batch in embedder.asked for text in batch]
    assert lengths == sorted(lengths, reverse=True)
    assert max(map(len, embedder.asked)) <= BATCH


def test_a_limit_and_a_cancel_leave_the_rest_for_later(store: Index, settings: Settings) -> None:
    assert embed_pending(store, Recording(), settings=settings, limit=5).embedded == 5
    stopped = embed_pending(store, Recording(), settings=settings, cancel=lambda: True)
    assert (stopped.embedded, stopped.stopped) == (0, "cancelled")
    assert VectorStatus.PENDING in statuses(store)


def test_one_text_that_fails_is_set_aside_with_its_reason_and_given_up_after_three_tries(
    store: Index, settings: Settings
) -> None:
    embedder = Recording()

    def failing(texts: Sequence[str]) -> None:
        if any("Sentence 7 " in text for text in texts):
            raise EmbeddingFailed("the seventh is too odd")

    embedder.failing = failing
    results = [embed_pending(store, embedder, settings=settings) for _ in range(4)]
    assert [result.failed for result in results] == [1, 1, 1, 0]
    [failed] = [memory for memory in store.documents.find() if memory.vector_status is not VectorStatus.SUCCESS]
    assert (failed.path, failed.vector_status) == ("memory/m07.md", VectorStatus.FAILED)


def test_a_provider_that_is_down_ends_the_round_and_nothing_counts_as_tried(store: Index, settings: Settings) -> None:
    embedder = Recording()

    def failing(texts: Sequence[str]) -> None:
        raise ProviderUnavailable("connection refused")

    embedder.failing = failing
    for _ in range(5):
        done = embed_pending(store, embedder, settings=settings)
        assert (done.embedded, done.failed) == (0, 0)
        assert done.stopped == "E004 connection refused"
    assert len(embedder.asked) == 5
    assert statuses(store) == {VectorStatus.PENDING}
    embedder.failing = lambda texts: None
    assert embed_pending(store, embedder, settings=settings).stopped == ""
    assert statuses(store) == {VectorStatus.SUCCESS}


class Garbage(HashingEmbedder):
    def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        return [Embedding(np.full(self.dimensions, np.nan, dtype=np.float32)) for _ in texts]


class Short(HashingEmbedder):
    def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        return super().embed_documents(texts)[:-1]


@pytest.mark.parametrize("kind", [Garbage, Short])
def test_garbage_is_never_stored_and_no_text_is_blamed_for_it(
    store: Index, settings: Settings, kind: type[HashingEmbedder]
) -> None:
    for _ in range(4):
        done = embed_pending(store, kind(), settings=settings)
        assert (done.embedded, done.failed) == (0, 0)
        assert done.failure is not None
        assert statuses(store) == {VectorStatus.PENDING}
    assert embed_pending(store, HashingEmbedder(), settings=settings).stopped == ""
    assert statuses(store) == {VectorStatus.SUCCESS}


def test_one_saved_memory_is_embedded_without_waiting_for_the_rest(store: Index, settings: Settings) -> None:
    embedder = Recording()
    memory = store.documents.find()[0]
    with Lock(settings, "embed.lock") as lock:
        assert lock.acquire()
        done = embed_memory(store, embedder, memory.id)
    assert done.embedded == len(store.documents.passages(memory_ids=[memory.id]))
    assert store.documents.get(memory.id).vector_status is VectorStatus.SUCCESS
    assert embed_memory(store, embedder, memory.id).embedded == 0
    work = {item.memory_id for item in store.vectors.work(1000)}
    assert memory.id not in work
    assert work


def test_whoever_changes_a_long_memory_waits_for_its_beginning_only(
    store: Index, settings: Settings, write: Callable[..., Path]
) -> None:
    write(
        "memory/long.md", "".join(f"## Part {n}\n\n" + f"Sentence {n} about tokens. " * 40 + "\n\n" for n in range(200))
    )
    Sync(store, settings, now=lambda: NOW).scan()
    (memory,) = (memory for memory in store.documents.find() if memory.path == "memory/long.md")
    passages = len(store.documents.passages(memory_ids=[memory.id]))
    assert passages > 2 * BATCH
    embedder = Recording()
    assert embed_memory(store, embedder, memory.id).embedded == BATCH
    assert store.documents.get(memory.id).vector_status is VectorStatus.PENDING
    assert embed_memory(store, embedder, memory.id).embedded == BATCH
    texts = [text for batch in embedder.asked for text in batch]
    assert len(set(texts)) == len(texts), "a text was embedded twice"
    assert embed_pending(store, embedder, settings=settings).stopped == ""
    assert store.documents.get(memory.id).vector_status is VectorStatus.SUCCESS


def test_what_one_memory_embeds_is_what_a_scan_would(store: Index, settings: Settings) -> None:
    memory = store.documents.find()[0]
    expected = {item.embedded for item in store.vectors.work(1000) if item.memory_id == memory.id}
    embedder = Recording()
    embed_memory(store, embedder, memory.id)
    assert {text for batch in embedder.asked for text in batch} == expected


def test_a_busy_server_gets_its_turn_between_batches(store: Index, settings: Settings) -> None:
    asked = []

    def busy() -> bool:
        asked.append(1)
        return len(asked) % 2 == 1

    assert embed_pending(store, Recording(), settings=settings, busy=busy).stopped == ""
    assert len(asked) >= 2


def test_while_another_process_embeds_this_one_waits_and_takes_over_when_it_dies(
    store: Index, settings: Settings
) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom spec_kit_memory.files.locks import Lock\n"
        "from spec_kit_memory.settings import Settings\n"
        "lock = Lock(Settings(root=Path(sys.argv[1])), 'embed.lock')\nassert lock.acquire()\n"
        "print('held', flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(settings.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == "held"
        left = embed_pending(store, Recording(), settings=settings, wait=False)
        assert left.stopped == "busy"
        results = []
        thread = threading.Thread(target=lambda: results.append(embed_pending(store, Recording(), settings=settings)))
        thread.start()
        other.kill()
        other.wait()
        thread.join(timeout=120)
    assert results[0].stopped == ""
    assert results[0].embedded >= 40
