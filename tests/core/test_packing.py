"""Answers within a token budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core import packing
from spec_kit_memory.core.packing import MemoryBlock, Piece, Prices, RuleText

UNIT = 10  # bytes of a word


def count(text: str) -> int:
    """A word is a token here."""
    return len(text.split())


def lines(number: int, *, words: int = 5) -> list[str]:
    return [" ".join(f"w{line}" for _ in range(words)) for line in range(1, number + 1)]


def block(id: int, *pieces: tuple[int, int, float], size: int = 40, header: int = 4, **more: object) -> MemoryBlock:
    sections = more.get("sections", ())
    text = more.get("lines", lines(size))
    assert isinstance(sections, tuple)
    assert isinstance(text, list)
    return MemoryBlock(
        id=id,
        lines=text,
        offsets=offsets(text),
        pieces=[Piece(*piece) for piece in pieces],
        header=header * UNIT,
        sections=lambda: sections,
    )


def offsets(text: Sequence[str]) -> list[int]:
    return list(accumulate((UNIT * count(line) for line in text), initial=0))


def fit(blocks: Sequence[MemoryBlock], *, budget: int, **more: Any) -> packing.PackedResults:
    """Pack under a budget of so many words."""
    return packing.pack(blocks, budget=budget * UNIT, **more)


def ranges(packed: packing.Packed) -> list[tuple[int, int]]:
    return [(shown.first_line, shown.last_line) for shown in packed.shown]


def test_what_fits_is_shown_whole_and_in_order() -> None:
    fitted = fit([block(1, (3, 4, 90)), block(2, (7, 7, 80))], budget=100)
    assert [(item.id, ranges(item)) for item in fitted.blocks] == [(1, [(3, 4)]), (2, [(7, 7)])]
    assert fitted.blocks[0].shown[0].text == "\n".join(lines(40)[2:4])
    assert fitted.size == (4 + 10 + 4 + 5) * UNIT
    assert fitted.left_out == ()


def test_the_best_passages_go_in_first_whichever_memory_they_are_of() -> None:
    one = block(1, (1, 4, 90), (11, 14, 40), (21, 24, 30))
    two = block(2, (1, 4, 80))
    fitted = fit([one, two], budget=4 + 20 + 4 + 20)
    assert [ranges(item) for item in fitted.blocks] == [[(1, 4)], [(1, 4)]]


def test_a_passage_that_does_not_fit_makes_room_for_smaller_ones() -> None:
    blocks = [block(1, (1, 2, 90)), block(2, (1, 30, 80)), block(3, (1, 2, 70))]
    fitted = fit(blocks, budget=60)
    shown = {item.id: ranges(item) for item in fitted.blocks}
    assert shown[1] == [(1, 2)]
    assert shown[3] == [(1, 2)]


def test_the_lines_around_the_matching_words_are_shown_when_a_passage_is_too_long() -> None:
    weigh = {"w20 w20 w20 w20 w20": 2.0, "w19 w19 w19 w19 w19": 1.0}.get
    fitted = fit([block(1, (1, 30, 90))], budget=54, weigh=lambda line: weigh(line, 0.0))
    [shown] = fitted.blocks[0].shown
    assert shown.first_line <= 19
    assert shown.last_line >= 20
    assert shown.last_line - shown.first_line == 9
    assert shown.cut


def test_a_passage_too_long_for_the_answer_leaves_room_for_the_others() -> None:
    fitted = fit([block(1, (1, 30, 90)), block(2, (1, 4, 80))], budget=90)
    assert [bool(item.shown) for item in fitted.blocks] == [True, True]
    assert fitted.blocks[0].shown[0].cut
    assert not fitted.blocks[1].shown[0].cut


def test_the_best_passage_goes_in_whatever_it_costs() -> None:
    blocks = [block(1, (1, 16, 81)), block(2, (1, 4, 80)), block(3, (1, 4, 80)), block(4, (1, 4, 79))]
    fitted = fit(blocks, budget=85)
    assert [item.id for item in fitted.blocks if item.shown] == [1]


def test_of_the_others_that_promise_alike_the_cheaper_come_first() -> None:
    best = block(9, (1, 1, 95))
    blocks = [best, block(1, (1, 16, 81)), block(2, (1, 4, 80)), block(3, (1, 4, 80)), block(4, (1, 4, 79))]
    fitted = fit(blocks, budget=9 + 85)
    assert [item.id for item in fitted.blocks if item.shown and not item.shown[0].cut] == [9, 2, 3, 4]


def test_where_only_one_fits_it_is_the_one_that_promises_more_though_it_costs_more() -> None:
    blocks = [block(9, (1, 1, 95)), block(1, (1, 16, 90)), block(2, (1, 4, 80))]
    fitted = fit(blocks, budget=9 + 90)
    assert {item.id: ranges(item) for item in fitted.blocks} == {9: [(1, 1)], 1: [(1, 16)], 2: []}


def test_a_further_passage_of_one_document_yields_to_the_first_of_another() -> None:
    one, two = block(1, (1, 4, 90), (11, 14, 80)), block(2, (1, 4, 75))
    fitted = fit([one, two], budget=4 + 20 + 4 + 20)
    assert [ranges(item) for item in fitted.blocks] == [[(1, 4)], [(1, 4)]]


def test_the_turns_of_a_conversation_compete_each_for_itself() -> None:
    one, two = replace(block(1, (1, 4, 90), (11, 14, 80)), apart=True), block(2, (1, 4, 75))
    fitted = fit([one, two], budget=4 + 20 + 4 + 20)
    assert {item.id: ranges(item) for item in fitted.blocks} == {1: [(1, 4), (11, 14)], 2: []}


def test_of_equal_scores_the_higher_place_promises_more() -> None:
    blocks = [block(9, (1, 1, 95)), block(1, (1, 5, 80)), block(2, (1, 4, 80))]
    fitted = fit(blocks, budget=9 + 34)
    assert [item.id for item in fitted.blocks if item.shown] == [9, 1]


def test_a_passage_beside_lines_that_are_shown_is_preferred_to_one_elsewhere() -> None:
    blocks = [block(1, (1, 4, 90), (5, 8, 60)), block(2, (1, 4, 62), header=20)]
    fitted = fit(blocks, budget=50)
    assert [ranges(item) for item in fitted.blocks] == [[(1, 8)]]


def test_what_is_asked_for_whole_comes_before_all_passages() -> None:
    one = replace(block(1, (3, 4, 90)), wholes=(Piece(1, 40, 91),))
    fitted = fit([one, block(2, (1, 4, 99))], budget=4 + 200 + 10)
    assert [ranges(item) for item in fitted.blocks] == [[(1, 40)], []]


def test_a_reference_without_passages_is_named_among_the_hits() -> None:
    known = replace(block(2), score=80.0)
    fitted = fit([block(1, (1, 4, 90)), known, block(3, (1, 4, 30), (11, 14, 20))], budget=4 + 20 + 4 + 24)
    assert [(item.id, len(item.shown)) for item in fitted.blocks] == [(1, 1), (2, 0), (3, 1)]


def test_what_is_said_beside_the_hits_takes_what_they_leave() -> None:
    seen: list[tuple[list[int], int]] = []

    def use_remaining(named: Sequence[int], room: int) -> int:
        seen.append((list(named), room))
        return min(room, 30)

    blocks = [block(1, (1, 4, 90), sections=((1, 8),)), block(2, (1, 30, 50))]
    fitted = fit(blocks, budget=34, use_remaining=use_remaining)
    assert seen[0] == ([1], (34 - 24) * UNIT)
    assert seen[1] == ([1, 2], (34 - 24 - 3 - 4) * UNIT)
    assert ranges(fitted.blocks[0]) == [(1, 4)]


def test_a_line_is_never_cut() -> None:
    long_line = block(1, (1, 1, 90), lines=["word " * 500])
    fitted = fit([long_line], budget=64)
    assert fitted.blocks[0].shown == ()


def test_neighbouring_and_overlapping_passages_become_one_range_without_doubled_lines() -> None:
    fitted = fit([block(1, (1, 5, 90), (4, 8, 80), (9, 10, 70), (20, 21, 60))], budget=500)
    assert ranges(fitted.blocks[0]) == [(1, 10), (20, 21)]
    assert fitted.blocks[0].shown[0].text.split("\n") == lines(40)[:10]
    assert fitted.blocks[0].shown[0].score == 90


def test_only_blank_lines_between_two_passages_do_not_part_them() -> None:
    text = ["one", "", "", "two", "three", "", "four"]
    fitted = fit([block(1, (1, 2, 90), (4, 4, 80), (7, 7, 70), lines=text)], budget=100)
    assert ranges(fitted.blocks[0]) == [(1, 4), (7, 7)]


def test_blank_lines_at_the_ends_are_left_out() -> None:
    text = ["", "one", "", "two", ""]
    fitted = fit([block(1, (1, 5, 90), lines=text)], budget=100)
    assert ranges(fitted.blocks[0]) == [(2, 4)]


def test_a_whole_section_is_shown_where_it_fits() -> None:
    one = block(1, (5, 6, 90), sections=((1, 40), (4, 10)))
    assert ranges(fit([one], budget=100).blocks[0]) == [(4, 10)]
    assert ranges(fit([one], budget=20).blocks[0]) == [(5, 6)]


def test_hits_come_before_whole_sections() -> None:
    one = block(1, (5, 6, 90), sections=((1, 20),))
    two = block(2, (5, 6, 10))
    fitted = fit([one, two], budget=4 + 10 + 4 + 10)
    assert [ranges(item) for item in fitted.blocks] == [[(5, 6)], [(5, 6)]]


def test_fragments_of_one_section_become_the_section() -> None:
    one = block(1, (5, 6, 90), (9, 10, 80), sections=((4, 12),))
    assert ranges(fit([one], budget=100).blocks[0]) == [(4, 12)]


def test_results_without_room_for_text_are_still_named() -> None:
    blocks = [block(id, (1, 4, 100 - id)) for id in range(1, 6)]
    fitted = fit(blocks, budget=24 + 12)
    assert [item.id for item in fitted.blocks] == [1, 2, 3, 4]
    assert [bool(item.shown) for item in fitted.blocks] == [True, False, False, False]
    assert fitted.left_out == (5,)


def test_headers_do_not_take_the_room_of_the_text() -> None:
    blocks = [block(id, (1, 4, 100 - id), header=10) for id in range(1, 11)]
    fitted = fit(blocks, budget=100)
    assert sum(bool(item.shown) for item in fitted.blocks) >= 2
    assert fitted.left_out


def test_naming_a_further_range_has_its_price_and_the_header_names_the_first() -> None:
    fitted = fit([block(1, (1, 1, 90), (9, 9, 80))], budget=100, prices=Prices(range=3 * UNIT))
    assert fitted.size == (4 + 5 + (5 + 3)) * UNIT


def test_a_budget_of_nothing_gives_nothing() -> None:
    fitted = fit([block(1, (1, 4, 90))], budget=0)
    assert fitted == packing.PackedResults(blocks=(), size=0, left_out=(1,))


@st.composite
def blocks(draw: st.DrawFn) -> list[MemoryBlock]:
    results = []
    for id in range(draw(st.integers(0, 6))):
        text = draw(st.lists(st.sampled_from(["", "a", "b c d", "e " * 9, "f " * 40]), min_size=1, max_size=20))
        starts = draw(st.lists(st.integers(1, len(text)), max_size=5))
        # Some reach over the end of the text, as after a file was shortened.
        spans = [(first, first + draw(st.integers(0, 6))) for first in starts]
        pieces = [Piece(*span, draw(st.floats(0, 100))) for span in spans]
        results.append(
            MemoryBlock(
                id=id,
                lines=text,
                offsets=offsets(text),
                pieces=pieces,
                apart=draw(st.booleans()),
                wholes=draw(st.sampled_from([(), *((piece,) for piece in pieces)])),
                sections=partial(
                    list, [(first - draw(st.integers(0, first - 1)), last + 1) for first, last in spans[:3]]
                ),
                header=draw(st.integers(0, 120)),
                score=draw(st.floats(0, 100)),
            )
        )
    return results


@given(found=blocks(), budget=st.integers(0, 3000), prices=st.builds(Prices, *[st.integers(0, 50)] * 3))
def test_the_budget_holds_lines_are_whole_and_nothing_is_doubled(
    found: list[MemoryBlock], budget: int, prices: Prices
) -> None:
    told: list[int] = []

    def use_remaining(named: Sequence[int], room: int) -> int:
        told.append(room // 3)
        return told[-1]

    fitted = packing.pack(found, budget=budget, prices=prices, use_remaining=use_remaining)
    by_id = {item.id: item for item in found}
    spent = sum(told)
    for packed in fitted.blocks:
        source = by_id[packed.id]
        size = source.header + sum(UNIT * count(shown.text) for shown in packed.shown)
        further = max(0, len(packed.shown) - 1)
        size += prices.range * further + (prices.list if further else 0) + (0 if packed.shown else prices.empty)
        assert packed.size == size
        spent += size
        for shown in packed.shown:
            assert shown.text.split("\n") == list(source.lines[shown.first_line - 1 : shown.last_line])
        for upper, lower in pairwise(packed.shown):
            assert upper.last_line + 1 < lower.first_line
    assert fitted.size == spent <= budget
    assert [item.id for item in found] == sorted([item.id for item in fitted.blocks] + list(fitted.left_out))
    assert fitted == packing.pack(found, budget=budget, prices=prices, use_remaining=lambda named, room: room // 3)


# --- constitutional memories ----------------------------------------------------


def rule(id: int, words: int, *, weight: float = 1.0, triggered: bool = False) -> RuleText:
    return RuleText(id=id, name_size=2, text="word " * words, weight=weight, triggered=triggered)


def test_rules_are_shown_triggered_first_then_by_weight() -> None:
    results = [rule(1, 9, weight=0.5), rule(2, 9), rule(3, 9, weight=0.1, triggered=True), rule(4, 9)]
    ruled = packing.rules(results, budget=500, measure=count)
    assert [id for id, _ in ruled.shown] == [3, 2, 4]
    assert ruled.named == (1,)


def test_at_most_three_rules_and_five_hundred_tokens_are_shown() -> None:
    ruled = packing.rules([rule(id, 200) for id in range(1, 8)], budget=500, measure=count)
    assert len(ruled.shown) == 2
    assert ruled.named == (3, 4, 5, 6, 7)
    assert ruled.size <= 500


def test_a_rule_that_is_too_long_offers_its_headings() -> None:
    text = "# Articles\n" + "word " * 600 + "\n## Test first\nmore\n"
    ruled = packing.rules([RuleText(id=1, name_size=1, text=text)], budget=500, measure=count)
    assert ruled.shown == ((1, "# Articles\n## Test first"),)


def test_a_long_rule_without_headings_is_named() -> None:
    ruled = packing.rules([rule(1, 600), rule(2, 10)], budget=500, measure=count)
    assert [id for id, _ in ruled.shown] == [2]
    assert ruled.named == (1,)


def test_rules_never_take_more_than_a_quarter_of_the_answer() -> None:
    assert packing.rules_budget(4000) == 500
    assert packing.rules_budget(1500) == 375
    assert packing.rules_budget(250) == 62


@given(
    found=st.lists(st.tuples(st.integers(0, 400), st.floats(0, 1), st.booleans()), max_size=12),
    budget=st.integers(0, 600),
    header=st.integers(0, 9),
)
def test_rules_stay_within_their_budget_and_none_is_forgotten(
    found: list[tuple[int, float, bool]], budget: int, header: int
) -> None:
    every = [rule(id, size, weight=weight, triggered=on) for id, (size, weight, on) in enumerate(found)]
    candidates = [replace(item, name_size=header) for item in every]
    ruled = packing.rules(candidates, budget=budget, measure=count)
    titles = {candidate.id: candidate.name_size for candidate in candidates}
    spent = sum(count(text) + titles[id] for id, text in ruled.shown) + sum(titles[id] for id in ruled.named)
    assert ruled.size == spent <= budget
    assert len(ruled.shown) <= 3
    assert len(ruled.shown) + len(ruled.named) + ruled.unnamed == len(found)
    assert not {id for id, _ in ruled.shown} & set(ruled.named)


def test_what_is_a_section_already_is_not_widened_to_the_one_around_it() -> None:
    text = ["# Title", "", "## One", "a b c", "", "## Two", "d e f", "", "## Three", "g h i"]
    whole = block(1, (6, 7, 90), sections=((1, 10), (3, 4), (6, 7)), lines=text)
    part = block(1, (7, 7, 90), sections=((1, 10), (3, 4), (6, 7)), lines=text)
    for item in (whole, part):
        [packed] = fit([item], budget=1000 * UNIT).blocks
        assert [(shown.first_line, shown.last_line) for shown in packed.shown] == [(6, 7)]


# --- where nobody gave a size ---------------------------------------------------


def clip(line: str, room: int) -> tuple[str, int]:
    words = line.split()[: room // UNIT]
    return " ".join(words), UNIT * len(words)


def test_what_is_nearly_as_good_as_the_best_is_shown_whole_beyond_what_is_enough() -> None:
    near = [block(id, (1, 30, 100 - id)) for id in range(1, 5)]
    far = [block(id, (1, 30, 40 - id)) for id in range(5, 11)]
    fitted = fit([*near, *far], budget=3000, enough=400, breadth=True, clip=clip)
    assert [item.id for item in fitted.blocks] == list(range(1, 11))
    shown = {item.id: item.shown[0] for item in fitted.blocks}
    assert [(shown[id].first_line, shown[id].last_line) for id in range(1, 5)] == [(1, 30)] * 4
    assert all(shown[id].cut and shown[id].text for id in range(5, 11))


def test_what_is_shown_in_part_is_longer_the_better_it_is() -> None:
    blocks = [block(1, (1, 30, 100)), *(block(id, (1, 39, 80 - 12 * id)) for id in range(2, 6))]
    fitted = fit(blocks, budget=3000, enough=560, breadth=True, clip=clip)
    sizes = [item.shown[0].last_line - item.shown[0].first_line for item in fitted.blocks[1:]]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) > 1


def test_long_names_leave_room_for_texts() -> None:
    blocks = [block(id, (1, 6, 100 - 9 * id), header=60) for id in range(1, 9)]
    fitted = fit(blocks, budget=3000, enough=300, breadth=True, clip=clip)
    assert [ranges(item) for item in fitted.blocks] == [[(1, 6)]] * 8


@pytest.mark.parametrize(("match", "whole"), [(0.97, 1), (0.85, 2), (0.75, 3), (0.2, 3), (None, 1)])
def test_the_less_sure_the_best_match_is_the_more_results_are_shown_whole(match: float | None, whole: int) -> None:
    """Where many are nearly as good, the answer may be any of them."""
    blocks = [block(id, (1, 80, score), size=80) for id, score in ((1, 100), (2, 86), (3, 76), (4, 65))]
    fitted = fit(blocks, budget=3000, enough=400, breadth=True, clip=clip, match=match)
    assert len(fitted.blocks) == 4
    assert sum(not packed.shown[0].cut for packed in fitted.blocks) == whole
    assert all(packed.shown[0].text for packed in fitted.blocks)
