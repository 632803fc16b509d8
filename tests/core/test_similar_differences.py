"""What do two nearly equal texts state differently?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core.similar import differences, restated

AROUND = "It was moved there for the health checks. The firewall allows it from the internal network only."


@pytest.mark.parametrize(
    ("old", "new", "stated"),
    [
        ("It listens on port 8080.", "It listens on port 9090.", [("8080", "9090")]),
        ("**Port 8080** is used; 8080!", "**Port 9090** is used; 9090!", [("8080", "9090")]),
        ("Deploy on Mondays at 9.", "Deploy on Fridays at 10.", [("Mondays", "Fridays"), ("9", "10")]),
        ("Tokens must be logged.", "Tokens must not be logged.", [("must be", "must not be")]),
        ("Kapı Salı günü açılır.", "Kapı Pazar günü açılır.", [("Salı", "Pazar")]),
        ("Same text.", "same  TEXT", []),
        ("One.", "One. " + "A whole sentence was added to the old text here.", []),
        ("a b c d e f g h i", "a B2 c D2 e F2 g H2 i", []),
    ],
)
def test_only_texts_that_differ_in_a_few_words_state_something_else(
    old: str, new: str, stated: list[tuple[str, str]]
) -> None:
    assert list(differences(f"{AROUND} {old} {AROUND}", f"{AROUND} {new} {AROUND}")) == stated


@given(st.text(), st.text())
def test_equal_texts_differ_in_nothing_and_others_in_little(old: str, new: str) -> None:
    assert differences(old, old) == ()
    assert len(differences(old, new)) <= 3


def test_sentences_that_differ_are_found_in_texts_that_differ_in_more() -> None:
    old = "Each tin lasts about forty bicycles. We order twenty tins in spring. The shed leaks when it rains hard."
    new = "We order thirty tins in spring.\nEach tin lasts about forty bicycles. Nobody has the key of the north door."
    assert differences(old, new) == ()
    assert restated(old, new) == (("twenty", "thirty"),)


def test_sentences_about_other_things_are_not_taken_for_contradictions() -> None:
    assert restated("Ben calls the supplier about new tyres.", "Ana calls the bank to ask about refunds.") == ()
    assert restated("Order the tyres.", "Order the tubes.") == (), "two steps, and no more is known"
