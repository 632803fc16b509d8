"""Which projects stay open, and when is one let go?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spec_kit_memory import settings
from spec_kit_memory.serve.http.open_projects import OpenProjects
from spec_kit_memory.workspace import Workspace


@pytest.fixture
def opened(tmp_path: Path) -> list[str]:
    return []


@pytest.fixture
def projects(tmp_path: Path, opened: list[str]) -> Iterator[OpenProjects]:
    def opener(name: str) -> Workspace:
        opened.append(name)
        (tmp_path / name).mkdir(exist_ok=True)
        return Workspace(settings.load(tmp_path / name, overrides={"semantic.model": "none", "watch": "off"}))

    made = OpenProjects(opener, most_bytes=20, weigh=lambda workspace: 10, background=False)
    yield made
    made.close()


def test_a_project_is_opened_when_first_asked_about_and_the_least_used_is_let_go(
    projects: OpenProjects, opened: list[str]
) -> None:
    for name in ("a", "b", "a", "c"):
        with projects.use(name) as workspace:
            assert workspace.settings.root.name == name
    assert projects.names == ["a", "c"]
    assert opened == ["a", "b", "c"]
    with projects.use("b"):
        pass
    assert opened == ["a", "b", "c", "b"]
    assert projects.names == ["c", "b"]


def test_one_that_is_in_use_is_not_let_go(projects: OpenProjects) -> None:
    with projects.use("a") as first:
        for name in ("b", "c", "d"):
            with projects.use(name):
                pass
        assert "a" in projects.names
        assert first.stats().totals["memories"] == 0
    assert projects.names[-1] != "a"


def test_one_that_is_larger_than_all_the_room_is_served_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    opened = OpenProjects(
        lambda name: Workspace(settings.load(tmp_path / name, overrides={"semantic.model": "none", "watch": "off"})),
        most_bytes=1,
        background=False,
    )
    for _ in range(2):
        with opened.use("a") as workspace:
            assert workspace.list().total == 0
    assert opened.names == ["a"]
    assert opened.close(seconds=5)
