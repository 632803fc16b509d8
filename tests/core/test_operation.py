"""Does an operation come back from its JSON as it was, and does nothing in it stop a reader?"""

from __future__ import annotations

import json
import uuid
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core import ledger, operation
from spec_kit_memory.core.operation import FileChange, Operation

_text = st.text(max_size=12)
_maybe = st.none() | _text
_values: dict[str, st.SearchStrategy[Any]] = {
    "str": _text,
    "str | None": _maybe,
    "bool": st.booleans(),
    "bool | None": st.none() | st.booleans(),
    "int": st.integers(0, 2**40),
    "tuple[str, ...]": st.lists(_text, max_size=3).map(tuple),
    "tuple[FileChange, ...]": st.lists(st.builds(FileChange, _text, _maybe, _maybe, _maybe), max_size=3).map(tuple),
    "Mapping[str, Any]": st.dictionaries(_text, _maybe | st.lists(_text, max_size=2), max_size=3),
}
_operations = st.sampled_from(sorted(operation.KINDS)).flatmap(
    lambda kind: st.builds(
        operation.KINDS[kind], **{field.name: _values[str(field.type)] for field in fields(operation.KINDS[kind])}
    )
)


@given(_operations)
def test_every_kind_comes_back_from_its_json(done: Operation) -> None:
    assert operation.read(json.loads(ledger.canonical(done.plain()))) == done


@given(_operations, st.data())
def test_damage_is_read_as_unknown_or_as_another_value_and_never_refused(done: Operation, data: st.DataObject) -> None:
    plain = done.plain()
    name = data.draw(st.sampled_from(sorted(plain)))
    plain[name] = data.draw(st.none() | st.integers() | st.text() | st.lists(st.integers()) | st.just({"a": 1.5}))
    result = operation.read(plain)
    if isinstance(result, operation.Unknown):
        assert result.plain() == plain


def test_what_a_newer_version_wrote_is_kept_as_it_is() -> None:
    newer = {"id": "a" * 32, "kind": "teleport", "version": 1, "from": "x", "to": ["y"]}
    result = operation.read(newer)
    assert isinstance(result, operation.Unknown)
    assert (result.id, result.named, result.plain()) == ("a" * 32, "teleport", newer)
    later = operation.Delete(path="a.md").plain() | {"version": 2}
    assert isinstance(operation.read(later), operation.Unknown)


def test_a_field_that_only_a_newer_version_knows_is_left_out() -> None:
    plain = operation.Delete(id="b" * 32, path="a.md").plain()
    assert operation.read(plain | {"mood": "sad"}) == operation.Delete(id="b" * 32, path="a.md")


def test_ids_are_random_uuids() -> None:
    ids = {operation.Delete().id for _ in range(200)}
    assert len(ids) == 200
    assert {(uuid.UUID(item).version, uuid.UUID(item).variant) for item in ids} == {(4, uuid.RFC_4122)}


def test_there_are_no_fractions_in_the_json_so_that_other_programs_spell_it_alike() -> None:
    done = operation.Update(keys=("weight",), previous={"weight": 0.1}, values={"weight": 1.0, "triggers": ["a", 0.5]})
    assert done.plain()["values"] == {"weight": "1.0", "triggers": ["a", "0.5"]}
    assert done.plain()["previous"] == {"weight": "0.1"}


@pytest.mark.parametrize("kind", sorted(operation.KINDS))
def test_a_kind_says_what_it_is(kind: str) -> None:
    assert operation.KINDS[kind].__doc__ or kind == "outdated"
    assert operation.KINDS[kind]().plain().keys() >= {"id", "kind", "version"}
