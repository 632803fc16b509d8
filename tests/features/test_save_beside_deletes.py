"""Is a change answered though another process deletes what it looks at, or what was just saved or changed?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spec_kit_memory.features import amend, merge, near_duplicates, save
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace

FIRST = "The queue of the parser is emptied every night at three by the keeper of the yard."
SECOND = "The queue of the parser is emptied every night at four by the keeper of the yard."


def opened(root: Path) -> Workspace:
    return Workspace(Settings(root=root, semantic=Semantic(model="hashing"), watch="off"))


def test_a_saved_memory_that_is_deleted_before_its_vectors_are_made_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as saver, opened(tmp_path) as other:
        noted = save._note_citations

        def deleted_meanwhile(runtime: Any, memory_id: int, **how: Any) -> None:
            noted(runtime, memory_id, **how)
            other.delete(memory_id)

        monkeypatch.setattr(save, "_note_citations", deleted_meanwhile)
        answer = saver.save(text=FIRST)
        assert answer.created
        assert answer.id is not None


def test_a_similar_memory_that_is_deleted_meanwhile_is_not_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as saver, opened(tmp_path) as other:
        first = saver.save(text=FIRST).id
        assert first is not None
        compare = near_duplicates.similar

        def deleted_meanwhile(*values: Any, **how: Any) -> Any:
            rows = compare(*values, **how)
            assert [row.id for row in rows] == [first]
            other.delete(first)
            return rows

        monkeypatch.setattr(near_duplicates, "similar", deleted_meanwhile)
        answer = saver.save(text=SECOND, on_similar="merge")
        assert answer.created
        assert answer.merged is None


def test_a_memory_that_is_deleted_just_after_its_update_was_updated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as one, opened(tmp_path) as other:
        id_ = one.save(text=FIRST).id
        assert id_ is not None
        apply = amend.apply

        def deleted_meanwhile(*values: Any, **how: Any) -> str:
            place = apply(*values, **how)
            other.delete(id_)
            return place

        monkeypatch.setattr(amend, "apply", deleted_meanwhile)
        answer = one.update(id_, title="Queue")
        assert (answer.changed, answer.memory.title) == (("title",), "Queue")


def test_a_memory_that_is_deleted_just_after_a_merge_was_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as one, opened(tmp_path) as other:
        first, second = (one.save(text=text, on_similar="distinct").id for text in (FIRST, SECOND))
        assert first is not None
        assert second is not None
        join = merge._join

        def deleted_meanwhile(*values: Any, **how: Any) -> str | None:
            trashed = join(*values, **how)
            other.delete(second)
            return trashed

        monkeypatch.setattr(merge, "_join", deleted_meanwhile)
        assert one.merge(first, second).merged == first
