"""Does the first hour of a large workspace begin with what matters, and tell the truth about how long it takes?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from spec_kit_memory.core.pace import Pace
from spec_kit_memory.embed import Embedding
from spec_kit_memory.embed.hashing import HashingEmbedder
from spec_kit_memory.files import vector_queue
from spec_kit_memory.index.contract import VectorWork
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace


class Noting(HashingEmbedder):
    """Notes what it is given, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        self.texts += texts
        return super().embed_documents(texts)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = Path(os.path.realpath(tmp_path)) / "work"
    (root / "memory").mkdir(parents=True)
    return root


def note(root: Path, name: str, text: str, *, day: int = 1) -> None:
    (root / f"memory/{name}.md").write_text(f"---\ncreated: 2026-01-{day:02d}\n---\n{text}\n", encoding="utf-8")


def opened(root: Path, embedder: HashingEmbedder) -> Workspace:
    settings = Settings(root=root, semantic=Semantic(model="hashing"), watch="off")
    return Workspace(settings, embedder=embedder, now=lambda: datetime(2026, 2, 1, tzinfo=UTC))


def test_what_is_used_comes_first_then_the_newest(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_queue, "ROUND", 1)
    for day in (3, 9, 5, 1):
        note(root, f"day-{day}", f"# Day {day}\n\nWhat happened on day {day}.", day=day)
    embedder = Noting()
    with opened(root, embedder) as workspace:
        workspace.index(embed=False)
        used = next(card.id for card in workspace.list().memories if "day-1" in card.path)
        for _ in range(8):
            workspace.load(memory_id=used)
        workspace._runtime.flush()
        workspace.index()
    assert [text.split("What happened on ")[1] for text in embedder.texts] == ["day 1.", "day 9.", "day 5.", "day 3."]


def test_words_that_many_files_have_are_embedded_once(root: Path) -> None:
    for number in range(20):
        folder = root / f"specs/{number:03d}-x"
        (folder / "memory").mkdir(parents=True)
        (folder / "memory/a.md").write_text("## Form\n\nThe same words of a template.\n", encoding="utf-8")
    embedder = Noting()
    with opened(root, embedder) as workspace:
        workspace.index()
        assert workspace.stats().vectors == {"success": 20}
    assert len(embedder.texts) == 1


def test_progress_counts_passages_that_share_their_words_and_ends_where_it_said(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_queue, "ROUND", 4)
    monkeypatch.setattr(vector_queue, "BATCH", 2)
    for number in range(12):
        folder = root / f"specs/{number:03d}-x"
        (folder / "memory").mkdir(parents=True)
        (folder / "memory/a.md").write_text(f"## Form\n\nTemplate {number // 2}.\n", encoding="utf-8")
    steps: list[tuple[int, int]] = []
    with opened(root, Noting()) as workspace:
        workspace.index(embed=False)
        workspace.index(progress=lambda stage, done, total: steps.append((done, total)) if stage == "vectors" else None)
    assert {total for _, total in steps} == {12}
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    assert steps[-1] == (12, 12)


def test_progress_foretells_the_whole_though_the_newest_notes_are_much_shorter_than_the_rest(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_queue, "ROUND", 8)
    monkeypatch.setattr(vector_queue, "BATCH", 2)
    for number in range(28):
        words = " ".join(f"word{number}x{place}" for place in range(100 if number < 20 else 5))
        note(root, f"n{number}", f"# Note {number}\n\n{words}", day=number + 1)
    embedder = Noting()
    marks: list[tuple[int, int, int]] = []

    def progress(stage: str, done: int, total: int) -> None:
        if stage == "vectors":
            marks.append((sum(map(len, embedder.texts)), done, total))

    with opened(root, embedder) as workspace:
        workspace.index(embed=False)
        workspace.index(progress=progress)
    whole = sum(map(len, embedder.texts))
    assert marks[-1] == (whole, 28, 28)
    for cost, done, total in marks[5:]:  # by then the newest are done: a third of the notes, a fiftieth of the work
        assert cost / whole == pytest.approx(done / total, abs=1.5 / total)


def test_what_comes_while_vectors_are_made_is_counted_too(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_queue, "ROUND", 2)
    monkeypatch.setattr(vector_queue, "BATCH", 1)
    for number in range(6):
        note(root, f"n{number}", f"# Note {number}\n\nWhat happened at {number}.", day=number + 1)
    steps: list[tuple[int, int]] = []
    with opened(root, Noting()) as workspace:
        workspace.index(embed=False)

        def progress(stage: str, done: int, total: int) -> None:
            if not steps:
                note(root, "late", "# Late\n\nWhat came later.", day=20)
                workspace._runtime.sync.index_file(root / "memory/late.md", workspace._runtime.change("test"))
            steps.append((done, total))

        vector_queue.embed_pending(workspace._runtime.whole, Noting(), settings=workspace.settings, progress=progress)
    assert steps[0][1] == 6
    assert steps[-1] == (7, 7)


def test_batches_are_of_like_length_and_the_pace_of_the_first_is_that_of_the_rest() -> None:
    work = [VectorWork(1, str(n), "x" * n) for n in range(1, 641)]
    batches = list(vector_queue._batches(list(work)))
    assert sorted(item.passage_hash for batch in batches for item in batch) == sorted(
        item.passage_hash for item in work
    )
    assert all(
        max(len(item.embedded) for item in batch) - min(len(item.embedded) for item in batch) < 32 for batch in batches
    )
    assert len(batches[0][0].embedded) == 640
    whole = sum(len(item.embedded) for item in work)
    for share in (4, 10, 16):
        done = [item for batch in batches[:share] for item in batch]
        foretold = sum(len(item.embedded) for item in done) * len(work) / len(done)
        assert foretold == pytest.approx(whole, rel=0.02)


def test_the_time_to_go_is_told_when_it_is_known() -> None:
    pace = Pace()
    assert pace.to_go(at=90.0) is None
    pace.step(32, 14_032, at=100.0)
    pace.step(232, 14_032, at=102.0)
    assert pace.to_go(at=102.0) is None  # too early
    pace.step(1_032, 14_032, at=110.0)
    assert str(pace.to_go(at=110.0)) == "vectors are being made: 1,032 of 14,032 passages, about 2 minutes to go"
    pace.step(14_000, 14_032, at=110.0)
    assert str(pace.to_go(at=110.0)).endswith("less than a minute to go")
    pace.step(14_032, 14_032, at=110.0)
    assert pace.to_go(at=110.0) is None
