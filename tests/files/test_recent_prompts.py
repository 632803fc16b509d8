"""The phrases of recent prompts, kept for all processes of a workspace."""

from __future__ import annotations

from pathlib import Path

import pytest

from spec_kit_memory.files import recent_prompts
from spec_kit_memory.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(root=tmp_path)
    settings.state_folder.mkdir()
    return settings


def test_prompts_come_back_in_their_order(settings: Settings) -> None:
    assert recent_prompts.read(settings, scope=settings.scope) == []
    for phrases in (["save context"], [], ["zeit", "日本"]):
        recent_prompts.add(settings, phrases, scope=settings.scope)
    assert recent_prompts.read(settings, scope=settings.scope) == [["save context"], [], ["zeit", "日本"]]


def test_only_the_last_hundred_are_told_and_the_file_does_not_grow(settings: Settings) -> None:
    for number in range(3_000):
        recent_prompts.add(settings, [f"phrase number {number} of many"], scope=settings.scope)
    assert [phrases[0] for phrases in recent_prompts.read(settings, scope=settings.scope)] == [
        f"phrase number {n} of many" for n in range(2_900, 3_000)
    ]
    assert sum(path.stat().st_size for path in settings.state_folder.iterdir()) < 70_000


def test_a_broken_line_costs_nothing_but_itself(settings: Settings) -> None:
    recent_prompts.add(settings, ["first"], scope=settings.scope)
    [path] = settings.state_folder.iterdir()
    with path.open("ab") as file:
        file.write(b'["cut o\n{"not": "a list"}\n\xff\xfe\n' + b"[" * 100_000 + b'\n[1, "second"]\n')
    assert recent_prompts.read(settings, scope=settings.scope) == [["first"], ["second"]]


def test_without_a_folder_nothing_is_kept_and_nothing_fails(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path)
    recent_prompts.add(settings, ["lost"], scope=settings.scope)
    assert recent_prompts.read(settings, scope=settings.scope) == []
