"""A dataclass that loads faster is one in every other way."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

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


@lean_dataclass.dataclass(frozen=True, slots=True)
class LeanPair:
    left: int
    right: int = 2
    names: list[str] = dataclasses.field(default_factory=list)
    total: int = dataclasses.field(default=0, init=False)
    label: str = dataclasses.field(default="none", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.left + self.right)


@dataclasses.dataclass(frozen=True, slots=True)
class PlainPair:
    left: int
    right: int = 2
    names: list[str] = dataclasses.field(default_factory=list)
    total: int = dataclasses.field(default=0, init=False)
    label: str = dataclasses.field(default="none", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.left + self.right)


@lean_dataclass.dataclass(frozen=True, kw_only=True)
class LeanChild(Lean):
    count: int = 7
    parts: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("values", "named"),
    [((1,), {}), ((1, 5), {}), ((), {"left": 3}), ((1,), {"names": ["a"], "label": "x"}), ((1, 2, ["b"]), {})],
)
def test_it_is_made_of_the_same_arguments(values: tuple[int, ...], named: dict[str, object]) -> None:
    lean, plain = LeanPair(*values, **named), PlainPair(*values, **named)  # type: ignore[arg-type]
    assert dataclasses.astuple(lean) == dataclasses.astuple(plain)


@pytest.mark.parametrize(
    ("values", "named"),
    [((), {}), ((1, 2, [], "x"), {}), ((1,), {"left": 1}), ((1,), {"total": 3}), ((1,), {"other": 3})],
)
def test_it_refuses_the_same_arguments_in_the_same_words(values: tuple[int, ...], named: dict[str, object]) -> None:
    words = []
    for kind in (LeanPair, PlainPair):
        with pytest.raises(TypeError) as refused:
            kind(*values, **named)  # type: ignore[arg-type]
        words.append(str(refused.value).replace("PlainPair", "LeanPair"))
    assert words[0] == words[1]


def test_each_instance_has_a_value_of_its_own_from_a_factory() -> None:
    assert LeanPair(1).names is not LeanPair(1).names


def test_a_class_derived_from_one_has_its_own_fields_whichever_is_made_first() -> None:
    @lean_dataclass.dataclass(frozen=True, kw_only=True)
    class Parent:
        name: str

    @lean_dataclass.dataclass(frozen=True, kw_only=True)
    class Child(Parent):
        size: int = 1

    assert Child(name="a", size=3) == Child(name="a", size=3)
    assert Parent(name="a") == Parent(name="a")
    assert (LeanChild(name="b").count, LeanChild(name="b", parts=("c",)).parts) == (7, ("c",))
    with pytest.raises(TypeError):
        Parent(name="a", size=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("thing", [LeanPair(1, names=["a"]), LeanChild(name="a", secret="s")])
def test_it_can_be_copied_and_pickled(thing: object) -> None:
    assert pickle.loads(pickle.dumps(thing)) == copy.copy(thing) == copy.deepcopy(thing) == thing


def test_nothing_is_set_or_deleted() -> None:
    for name in ("left", "other"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(LeanPair(1), name, 3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        del LeanPair(1).left


def test_threads_may_make_the_first_ones_at_once() -> None:
    @lean_dataclass.dataclass(frozen=True)
    class Fresh:
        number: int

    gate = threading.Barrier(8)

    def make(number: int) -> int:
        gate.wait(10)
        return Fresh(number).number

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(make, range(8))) == list(range(8))
