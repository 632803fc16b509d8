"""Does a checkpoint bring everything back, and nothing else?"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_kit_memory.core import ledger
from spec_kit_memory.core.memory import Attention, Change, Filter, Link, LinkClaim, Presence, Relation, Session, Tier
from spec_kit_memory.errors import RestoreFailed
from spec_kit_memory.index import open_index
from spec_kit_memory.index.contract import Index
from tests.index.conftest import Factory
from tests.index.material import BY_USER, NOON, change, embed_all, entry

Rows = list[dict[str, Any]]


def taken(store: Index, where: Filter = Filter()) -> Rows:  # noqa: B008 - a frozen value
    """A checkpoint as it comes back from its file."""
    rows: Rows = json.loads(json.dumps(list(store.care.snapshot(where))))
    return rows


def comparable(rows: Rows) -> Rows:
    """Without the header and the stamps of files, which are about the model and the disk."""
    kept = [{name: value for name, value in row.items() if name not in ("raw_hash", "stamp")} for row in rows[1:]]
    return sorted(kept, key=lambda row: json.dumps(row, sort_keys=True))


def answers(store: Index) -> list[Any]:
    text = store.documents.match(["fox", "words", "deploy"], Filter(), 50)
    near = store.vectors.match([1.0, 0.5, 0.2], Filter(), 50)
    return [[(hit.memory_id, round(hit.score, 5)) for hit in hits] for hits in (text, near)]


def lively(store: Index) -> None:
    store.documents.put(
        entry("specs/001-a/memory/x.md", "quick fox\ndeploy it", spec_folder="001-a", triggers=["deploy"]), BY_USER
    )
    store.documents.put(
        entry("specs/001-a/memory/copy.md", "quick fox\ndeploy it", spec_folder="001-a", triggers=["ship"]), BY_USER
    )
    claims = [LinkClaim(Relation.SUPERSEDES, "specs/001-a/memory/x.md")]
    store.documents.put(
        entry("specs/001-a/memory/y.md", "other words", spec_folder="001-a", links=claims, title="Y"), BY_USER
    )
    store.documents.put(entry("specs/002-b/memory/z.md", "more words", spec_folder="002-b", trusted=False), BY_USER)
    store.documents.put(entry("chat://c1", "user: words", owner="ann"), BY_USER)
    embed_all(store)
    store.record.amend(2, BY_USER, overrides={"tier": Tier.CRITICAL})
    store.record.amend(1, BY_USER, validation=(Decimal("0.65"), 3))
    store.record.use({1: 2.5, 3: 1.0}, NOON + timedelta(hours=1))
    store.record.put_link(Link(0, 1, 3, Relation.CAUSED, 0.7, "seen"), BY_USER)
    store.record.amend(3, BY_USER, vouched=True)
    store.record.amend(3, BY_USER, outdated=True)
    store.record.change_session(
        "s1",
        lambda _: Session("s1", turn=2, attention=(Attention(1, 0.8, 1), Attention(3, 0.4, 2)), sent=frozenset("h")),
        NOON,
    )


def test_restoring_what_is_there_changes_nothing(store: Index) -> None:
    lively(store)
    before = taken(store)
    entries = len(list(store.record.ledger()))
    done = store.care.restore(before, change(minutes=5), clear=True, where=Filter())
    assert (done["restored"], done["unchanged"], done["removed"]) == (0, 4, 0)
    assert taken(store) == before
    assert len(list(store.record.ledger())) == entries


def test_everything_comes_back_after_anything_happened(store: Index) -> None:
    lively(store)
    before, answered = taken(store), answers(store)
    store.documents.forget(1, change(minutes=1))
    store.documents.put(
        entry("specs/001-a/memory/y.md", "rewritten", spec_folder="001-a", title="Why"), change(minutes=2)
    )
    store.documents.put(entry("specs/003-c/memory/new.md", "new fox", spec_folder="003-c"), change(minutes=3))
    store.record.amend(3, change(minutes=4), overrides={"tier": Tier.DEPRECATED})
    store.documents.vanish("chat://c1", change(minutes=4))
    store.record.change_session("s1", lambda _: Session("s1", turn=9), NOON + timedelta(days=1))
    embed_all(store)
    done = store.care.restore(before, change(minutes=9), clear=True, where=Filter())
    assert (done["restored"], done["removed"]) == (4, 1)
    assert comparable(taken(store)) == comparable(before)
    assert answers(store) == answered
    assert store.documents.get(5, any_presence=True).presence is Presence.FORGOTTEN
    assert ledger.verify(store.record.ledger()) is None
    assert all(found == [] for found in store.care.check(now=NOON).values())
    restored = [one for one in store.record.ledger() if one.type == "restore"]
    assert [one.memory_ids for one in restored] == [(1,), (2,), (3,), (4,)]


def test_without_clearing_the_newer_is_kept_and_nothing_removed(store: Index) -> None:
    lively(store)
    before = taken(store)
    store.documents.put(entry("specs/001-a/memory/x.md", "newer text", spec_folder="001-a"), change(minutes=5))
    store.documents.forget(2, change(minutes=5))
    store.documents.put(entry("memory/new.md", "new"), change(minutes=5))
    done = store.care.restore(before, change(minutes=9), clear=False, where=Filter())
    assert (done["restored"], done["kept_newer"], done["unchanged"], done["removed"]) == (1, 1, 2, 0)
    assert store.documents.text(1) == "newer text"
    assert store.documents.text(2) == "other words"
    assert store.documents.get(path="memory/new.md") is not None


def test_clearing_a_folder_leaves_the_other_folders_alone(store: Index) -> None:
    lively(store)
    folder = Filter(spec_folder="001-a")
    rows = taken(store, folder)
    assert {row["path"] for row in rows if row["kind"] == "memory"} == {
        "specs/001-a/memory/x.md",
        "specs/001-a/memory/y.md",
    }
    store.documents.put(entry("specs/001-a/memory/new.md", "new here", spec_folder="001-a"), change(minutes=1))
    store.documents.put(entry("specs/002-b/memory/new.md", "new there", spec_folder="002-b"), change(minutes=1))
    assert store.care.restore(rows, change(minutes=2), clear=True, where=folder)["removed"] == 1
    assert store.documents.get(path="specs/001-a/memory/new.md") is None
    assert store.documents.get(path="specs/002-b/memory/new.md") is not None
    assert store.documents.get(path="specs/002-b/memory/z.md") is not None
    session = store.record.session("s1")
    assert session is not None
    assert {one.memory_id for one in session.attention} == {1, 3}


def test_a_checkpoint_comes_to_life_in_another_database(factory: Factory) -> None:
    one, two = factory("one"), factory("two")
    lively(one)
    two.documents.put(entry("memory/other.md", "occupies id one"), BY_USER)
    done = two.care.restore(taken(one), BY_USER, clear=False, where=Filter())
    assert done["restored"] == 4
    moved = two.documents.get(path="specs/001-a/memory/x.md")
    assert moved is not None
    assert moved.id == 5
    assert (moved.access_count, moved.confidence, moved.aliases) == (
        2.5,
        Decimal("0.65"),
        ("specs/001-a/memory/copy.md",),
    )
    links = {(link.source_id, link.target_id, link.relation) for link in two.record.links()}
    assert links == {(moved.id, 3, Relation.CAUSED), (2, moved.id, Relation.SUPERSEDES)}
    assert two.vectors.work(9) == [] or all(work.memory_id == 1 for work in two.vectors.work(9))
    assert len(two.vectors.match([1.0, 0, 0], Filter(), 50)) == 5
    again = two.care.restore(taken(one), BY_USER, clear=False, where=Filter())
    assert (again["restored"], again["unchanged"]) == (0, 4)


def test_a_checkpoint_of_another_database_gives_no_forgotten_id_to_another_text(factory: Factory) -> None:
    there, here = factory("there"), factory("here")
    there.documents.put(entry(text="their words"), BY_USER)
    there.documents.put(entry("memory/same.md", "common words"), BY_USER)
    here.documents.put(entry(text="our words"), BY_USER)
    here.documents.put(entry("memory/same.md", "common words"), BY_USER)
    here.documents.forget(1, BY_USER)
    here.documents.forget(2, BY_USER)
    here.care.restore(taken(there), change(minutes=1), clear=False, where=Filter())
    texts = {path: (row.memory_id, here.documents.text(row.memory_id)) for path, row in here.documents.stored().items()}
    assert texts["memory/a.md"][0] != 1
    assert "their words" in texts["memory/a.md"][1]
    assert texts["memory/same.md"][0] == 2, "the same text is the same memory"
    assert here.documents.get(1, any_presence=True).presence is Presence.FORGOTTEN


def test_vectors_of_another_model_are_left_out(factory: Factory) -> None:
    one, two = factory("one"), factory("two")
    lively(one)
    two.vectors.use_model("other", 2, "w")
    two.care.restore(taken(one), BY_USER, clear=False, where=Filter())
    assert len(two.vectors.work(99)) == 5
    assert two.vectors.match([1.0, 0.0], Filter(), 9) == []


def test_swapped_paths_swap_back(store: Index) -> None:
    store.documents.put(entry("memory/a.md", "first"), BY_USER)
    store.documents.put(entry("memory/b.md", "second"), BY_USER)
    before = taken(store)
    store.documents.put(entry("memory/c.md", "first"), change(minutes=1), memory_id=1)
    store.documents.put(entry("memory/a.md", "second"), change(minutes=1), memory_id=2)
    store.documents.put(entry("memory/b.md", "first"), change(minutes=1), memory_id=1)
    store.care.restore(before, change(minutes=2), clear=True, where=Filter())
    assert comparable(taken(store)) == comparable(before)
    assert [hit.memory_id for hit in store.documents.match(["second"], Filter(), 5)] == [2]
    assert all(found == [] for found in store.care.check().values())


def test_a_scan_of_the_same_file_does_not_undo_a_restore(store: Index) -> None:
    store.documents.put(entry("memory/a.md", "old"), BY_USER)
    before = taken(store)
    edited = entry("memory/a.md", "edited on disk")
    store.documents.put(edited, change(minutes=1))
    store.care.restore(before, change(minutes=2), clear=True, where=Filter())
    known = store.documents.stored()["memory/a.md"]
    assert store.documents.text(1) == "old"
    assert (known.stamp, known.raw_hash) == (edited.stamp, edited.raw_hash)


# --- damaged checkpoints

DAMAGE: dict[str, Callable[[Rows], object]] = {
    "empty": lambda rows: rows.clear(),
    "no header": lambda rows: rows.pop(0),
    "newer format": lambda rows: rows[0].update(format=99),
    "unknown kind": lambda rows: rows.append({"kind": "soul"}),
    "no kind": lambda rows: rows.append({}),
    "edited text": lambda rows: rows[1].update(text="edited by hand"),
    "missing field": lambda rows: rows[1].pop("tier"),
    "unknown tier": lambda rows: rows[1]["said"].update(tier="holy"),
    "bad time": lambda rows: rows[1].update(updated_at="yesterday"),
    "bad lines": lambda rows: rows[1]["passages"][0].update(last_line=999),
    "bad number": lambda rows: rows[1].update(access_count="many"),
    "twice": lambda rows: rows.insert(2, copy.deepcopy(rows[1])),
    "bad vector": lambda rows: next(r for r in rows if r["kind"] == "vector").update(vector="!!"),
    "short vector": lambda rows: next(r for r in rows if r["kind"] == "vector").update(vector="AAAA"),
    "loose link": lambda rows: next(r for r in rows if r["kind"] == "link").update(target_id=77),
    "unknown relation": lambda rows: next(r for r in rows if r["kind"] == "link").update(relation="likes"),
    "bad session": lambda rows: next(r for r in rows if r["kind"] == "session").update(attention=[[1]]),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_checkpoint_changes_nothing(store: Index, name: str) -> None:
    lively(store)
    rows = taken(store)
    store.documents.put(entry("memory/later.md", "later"), change(minutes=1))
    before, generation, entries = taken(store), store.generation(), len(list(store.record.ledger()))
    DAMAGE[name](rows)
    with pytest.raises(RestoreFailed) as failed:
        store.care.restore(rows, change(minutes=2), clear=True, where=Filter())
    assert "nothing was changed" in failed.value.hint
    assert (taken(store), store.generation(), len(list(store.record.ledger()))) == (before, generation, entries)


def test_a_source_of_rows_that_breaks_off_changes_nothing(store: Index) -> None:
    lively(store)
    before = taken(store)

    def broken() -> Any:
        yield from before[:2]
        raise OSError("the file ends here")

    with pytest.raises(OSError, match="ends here"):
        store.care.restore(broken(), change(minutes=2), clear=True, where=Filter())
    assert taken(store) == before


# --- any history

_steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["put", "put", "put", "vanish", "forget", "override", "use", "link", "validate", "embed", "outdated"]
        ),
        st.integers(0, 4),
        st.integers(0, 3),
    ),
    max_size=10,
)


def play(store: Index, steps: list[tuple[str, int, int]]) -> None:
    for number, (verb, which, how) in enumerate(steps):
        path, now = f"memory/{which}.md", change(minutes=number)
        response = store.documents.get(path=path)
        if verb == "put":
            store.documents.put(
                entry(path, f"words {how}\nfox {which}" if how else f"words {how}", triggers=[f"t{how}"]), now
            )
        elif verb == "embed":
            embed_all(store)
        elif verb == "vanish":
            store.documents.vanish(path, now)
        elif response:
            act_on(store, verb, response.id, how, now)


def act_on(store: Index, verb: str, memory_id: int, how: int, now: Change) -> None:
    if verb == "forget":
        store.documents.forget(memory_id, now)
    elif verb == "override":
        store.record.amend(memory_id, now, overrides={"title": f"title {how}"})
    elif verb == "use":
        store.record.use({memory_id: 1.0}, now.at)
    elif verb == "validate":
        store.record.amend(memory_id, now, validation=(Decimal("0.6"), how))
    elif verb == "outdated":
        store.record.amend(memory_id, now, outdated=bool(how % 2))
    for other in store.documents.find()[:1] if verb == "link" else []:
        if other.id != memory_id:
            store.record.put_link(Link(0, memory_id, other.id, Relation.CAUSED), now)


@settings(max_examples=25, deadline=None)
@given(_steps, _steps)
def test_restore_is_the_inverse_of_any_history(
    first: list[tuple[str, int, int]], second: list[tuple[str, int, int]]
) -> None:
    with TemporaryDirectory() as folder:
        store = open_index(Path(folder) / "index.sqlite")
        with store.bulk():
            play(store, first)
            embed_all(store)
            before, answered = taken(store), answers(store)
            play(store, second)
            store.care.restore(before, change(minutes=60), clear=True, where=Filter())
            assert comparable(taken(store)) == comparable(before)
            assert answers(store) == answered
            assert ledger.verify(store.record.ledger()) is None
            assert all(found == [] for found in store.care.check().values())
        store.close()
