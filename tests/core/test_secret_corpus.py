"""Are secrets found, and is harmless text left alone, on the labelled cases of `tests/corpus/secrets`?

`tuned.txt` is what the patterns were made with, `held-out.txt` was written before and not looked at. `newer.txt` has
kinds that nobody had thought of until then, and so have `unforeseen.txt` and, later, `disguised.txt`, where
many stand in notations that hide them; what generalises of them was mended. `python -m benchmarks.secrets` prints
what is published.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from benchmarks.secrets import CORPUS, SETS, Case, cases, judge, share
from spec_kit_memory.core.redact import redact
from spec_kit_memory.core.secret_formats import FORMATS
from spec_kit_memory.core.secret_values import is_mask

LEAST_FOUND = {"tuned": 0.98, "held-out": 0.98, "newer": 0.9, "unforeseen": 0.9, "disguised": 0.9}
MOST_WRONGLY_REDACTED = 0.02
LEAST_SURROUNDINGS_KEPT = {"tuned": 0.97, "held-out": 0.97, "newer": 0.97, "unforeseen": 0.95, "disguised": 0.97}
LESS_FOUND_ESCAPED = 0.01
MOST_WRONGLY_REDACTED_ESCAPED = 0.03

every_set = pytest.mark.parametrize("name", SETS)


def rewritten(case: Case, form: Callable[[str], str]) -> Case:
    """The case in another form, with its secrets where they are then."""
    text = form("⟦".join(part for pair in zip(case.around, (*case.secrets, ""), strict=True) for part in pair))
    parts = text.split("⟦")
    return replace(case, text="".join(parts), secrets=tuple(parts[1:-1:2]), around=tuple(parts[::2]))


def test_the_cases_are_many_and_of_many_kinds() -> None:
    tuned, held_out, newer, unforeseen, disguised = (share([judge(case) for case in cases(name)]) for name in SETS)
    assert tuned.secrets >= 120
    assert tuned.kinds >= 70
    assert tuned.harmless >= 120
    assert held_out.secrets >= 100
    assert held_out.kinds >= 70
    assert held_out.harmless >= 60
    assert newer.secrets >= 60
    assert newer.harmless >= 60
    assert unforeseen.secrets >= 100
    assert unforeseen.harmless >= 80
    assert disguised.secrets >= 100
    assert disguised.harmless >= 50


def test_no_case_stands_in_two_sets() -> None:
    texts = [case.text for name in SETS for case in cases(name)]
    assert len(texts) == len(set(texts))


@every_set
def test_the_files_hold_no_value_that_a_scanner_would_take_for_real(name: str) -> None:
    text = (CORPUS / f"{name}.txt").read_text(encoding="utf-8")
    matches = [match[0] for item in FORMATS for match in item.pattern.finditer(text)]
    # AWS's own documentation has the one with EXAMPLE.
    real = [match for match in matches if "·" not in match and "EXAMPLE" not in match and not is_mask(match)]
    assert not real


@every_set
def test_secrets_are_found_and_harmless_text_is_left_alone(name: str) -> None:
    actual = share([judge(case) for case in cases(name)])
    assert actual.found >= LEAST_FOUND[name]
    assert actual.wrongly_redacted <= MOST_WRONGLY_REDACTED
    assert actual.surroundings_kept >= LEAST_SURROUNDINGS_KEPT[name]


@every_set
@pytest.mark.parametrize(
    ("form", "less"),
    [
        (lambda text: text.replace("\n", "\r\n"), 0.0),
        (lambda text: "    " + text.replace("\n", "\n    "), 0.0),
        (lambda text: "> " + text.replace("\n", "\n> "), 0.0),
        (lambda text: json.dumps(text, ensure_ascii=False)[1:-1], LESS_FOUND_ESCAPED),
    ],
    ids=["lines of Windows", "indented", "quoted", "in a string of JSON"],
)
def test_secrets_are_found_in_other_forms_of_the_same_text(name: str, form: Callable[[str], str], less: float) -> None:
    actual = share([judge(rewritten(case, form)) for case in cases(name)])
    assert actual.found >= LEAST_FOUND[name] - less
    assert actual.wrongly_redacted <= MOST_WRONGLY_REDACTED_ESCAPED


@every_set
def test_lines_stay_where_they_are_and_a_second_scan_finds_nothing(name: str) -> None:
    for case in cases(name):
        once = redact(case.text)
        assert once.text.count("\n") == case.text.count("\n"), case
        assert redact(once.text).counts == {}, case


@every_set
def test_secrets_are_found_among_all_the_others(name: str) -> None:
    """One long text: neighbours neither hide a secret nor make one of harmless text."""
    together = "\n\n".join(case.text for case in cases(name))
    separate = sum(redact(case.text).text.count("[REDACTED:") for case in cases(name))
    assert redact(together).text.count("[REDACTED:") == pytest.approx(separate, rel=0.03)
