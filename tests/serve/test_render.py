"""The envelope: one form for every answer, whatever is in it."""

from __future__ import annotations

import errno
import json
from dataclasses import field
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

from spec_kit_memory import answers
from spec_kit_memory.core.lean_dataclass import dataclass
from spec_kit_memory.core.memory import Tier
from spec_kit_memory.errors import CoolingDown, SpecKitMemoryError, UndecidedSpecFolder, all_errors
from spec_kit_memory.serve.render import camel, compact, envelope, error, value
from tests.serve.recorder import NOW, card


@dataclass(frozen=True, kw_only=True)
class Sample(answers.Answer):
    some_number: int
    nothing: str | None = None
    empty_list: tuple[str, ...] = ()
    false_flag: bool = False
    zero: int = 0
    words: dict[str, Any] = field(default_factory=dict)


def test_fields_become_data_in_camel_case_without_what_says_nothing() -> None:
    made = envelope(Sample(outcome="s", some_number=3, words={"my_anchor": Tier.NORMAL}), tool="memory_x")
    assert made["data"] == {"someNumber": 3, "falseFlag": False, "zero": 0, "words": {"my_anchor": "normal"}}
    assert list(made) == ["summary", "data", "hints", "meta"]
    assert list(made["meta"]) == ["tool", "latencyMs", "tokens", "cacheHit", "indexGeneration"]
    assert made["meta"]["tool"] == "memory_x"


def test_a_required_empty_list_stays() -> None:
    made = envelope(answers.SearchAnswer(outcome="none", query="q", method="text", results=()))
    assert made["data"]["results"] == []
    assert "heldBack" not in made["data"], "nothing was held back, so nothing is said"
    held = answers.HeldBack(archived=2)
    made = envelope(answers.SearchAnswer(outcome="none", query="q", method="text", results=(), held_back=held))
    assert made["data"]["heldBack"]["archived"] == 2


def test_tokens_count_the_data_as_it_is_sent() -> None:
    made = envelope(answers.ListAnswer(outcome="s", memories=(card(), card(2)), total=2))
    size = len(compact(made["data"]).encode())
    assert made["meta"]["tokens"] == -(-size // 4)


def test_every_kind_of_value_becomes_json() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=timezone(timedelta(hours=2)))
    made = value(
        {
            "enum": Tier.CRITICAL,
            "moment": moment,
            "day": moment.date(),
            "decimal": Decimal("0.55"),
            "set": {"b", "a"},
            "path": Path("a") / "b",
            "infinite": float("inf"),
            "bytes": b"\x01",
            "inner": card(created_at=NOW.astimezone(UTC)),
        }
    )
    assert made["moment"] == "2026-01-02T01:04:05Z"
    assert made["decimal"] == 0.55
    assert made["set"] == ["a", "b"]
    assert made["infinite"] is None
    assert made["inner"]["createdAt"] == "2026-03-01T12:00:00Z"
    json.loads(compact(made))


def test_text_that_is_no_valid_unicode_does_not_break_the_answer() -> None:
    assert compact({"a": "x\ud800y", "b": "日本"}) == '{"a":"x?y","b":"日本"}'


def test_an_error_has_code_message_hint_and_its_details() -> None:
    shown = error(UndecidedSpecFolder("Which?", hint="Name one.", alternatives=[{"name": "a"}], nothing=None))
    assert shown == {"code": "E034", "message": "Which?", "hint": "Name one.", "alternatives": [{"name": "a"}]}
    assert error(CoolingDown("Wait.", seconds_left=12))["secondsLeft"] == 12


def test_what_nobody_foresaw_has_a_code_too() -> None:
    shown = error(KeyError("x"))
    assert shown["code"] == SpecKitMemoryError.code
    assert "KeyError" in shown["message"]
    assert shown["hint"]


def test_a_refusal_of_the_system_that_no_verb_foresaw_says_whom_to_ask_for_access() -> None:
    shown = error(PermissionError(errno.EACCES, "Permission denied", "/home/ann/.local/share"))
    assert shown["code"] == "E011"
    assert shown["message"] == "Permission denied: /home/ann/.local/share"
    assert "HOME" in shown["hint"]


def test_every_error_of_the_package_is_shown_with_its_code() -> None:
    for kind in all_errors():
        assert error(kind("m"))["code"] == kind.code


def test_camel() -> None:
    assert [camel(name) for name in ("a", "a_b", "from_", "index_generation")] == ["a", "aB", "from", "indexGeneration"]


def test_a_part_that_has_to_say_something_is_said() -> None:
    """A save into a folder that fits badly: the memory is there, so the answer must be, too."""
    fit = answers.FolderAlignment(folder="002-ovens", score=12.0, alternatives=())
    saved = answers.SaveAnswer(
        outcome="s", id=1, path="memory/a.md", title="A", spec_folder="002-ovens", created=True, alignment=fit
    )
    assert envelope(saved)["data"]["alignment"] == {"folder": "002-ovens", "score": 12, "alternatives": []}
