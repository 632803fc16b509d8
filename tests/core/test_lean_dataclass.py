"""A dataclass that loads faster is one in every other way."""

from __future__ import annotations

import dataclasses

import pytest

from spec_kit_memory.core import lean_dataclass


@lean_dataclass.dataclass(frozen=True, slots=True, kw_only=True)
class Lean:
    name: str
    count: int = 0
    seen: int = dataclasses.field(default=0, compare=False)
    secret: str = dataclasses.field(default="", repr=False)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    name: str
    count: int = 0
    seen: int = dataclasses.field(default=0, compare=False)
    secret: str = dataclasses.field(default="", repr=False)


@lean_dataclass.dataclass(frozen=True, kw_only=True, eq=False)
class ByIdentity:
    name: str


def test_equality_and_hash_are_of_the_compared_fields() -> None:
    assert Lean(name="a", seen=1) == Lean(name="a", seen=2)
    assert hash(Lean(name="a", seen=1)) == hash(Lean(name="a", seen=2))
    assert Lean(name="a") != Lean(name="a", count=1)
    assert Lean(name="a") != Lean(name="a", secret="x")
    assert Lean(name="a") != object()


def test_it_is_shown_as_the_standard_librarys() -> None:
    assert repr(Lean(name="a", secret="x")) == repr(Plain(name="a", secret="x")).replace("Plain", "Lean")


def test_it_cannot_be_changed_but_replaced() -> None:
    lean = Lean(name="a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        lean.name = "b"  # type: ignore[misc]
    assert dataclasses.replace(lean, name="b") == Lean(name="b")
    assert dataclasses.asdict(lean) == {"name": "a", "count": 0, "seen": 0, "secret": ""}


def test_without_equality_it_is_itself_only() -> None:
    assert ByIdentity(name="a") != ByIdentity(name="a")
    assert repr(ByIdentity(name="a")) == "ByIdentity(name='a')"
    assert ByIdentity.__doc__ is None
