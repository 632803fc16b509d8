from __future__ import annotations

from itertools import count

from spec_kit_memory.core.kept_by_identity import KeptByIdentity


class Note:
    """Equal to every other note, so that only identity tells two apart."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Note)

    def __hash__(self) -> int:
        return 1


def test_the_same_object_is_computed_once_and_an_equal_one_again() -> None:
    numbers = count(1)
    number_of = KeptByIdentity[Note, int](lambda note: next(numbers), most=10)
    one, other = Note(), Note()
    assert [number_of(one), number_of(other), number_of(one), number_of(other)] == [1, 2, 1, 2]


def test_no_value_is_given_to_a_later_object_with_the_id_of_a_gone_one() -> None:
    text_of = KeptByIdentity[list[int], str](str, most=1_000)
    assert all(text_of([number]) == f"[{number}]" for number in range(500))


def test_no_more_are_kept_than_agreed() -> None:
    text_of = KeptByIdentity[list[int], str](str, most=3)
    many = [[number] for number in range(20)]
    assert [text_of(each) for each in many] == list(map(str, many))
    assert len(text_of._kept) <= 3
