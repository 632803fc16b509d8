"""Which memory does a document become, and what happens when its file goes, comes back or moves?"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from spec_kit_memory.core.memory import Filter, Presence, Source, Stamp, Tier
from spec_kit_memory.errors import MemoryNotFound
from spec_kit_memory.index.contract import Index, Tally
from spec_kit_memory.index.sql.dialect import MOST_ALIASES
from tests.index.conftest import Factory
from tests.index.material import BY_USER, NOON, change, embed_all, entry, sha


def found(store: Index, *terms: str) -> list[int]:
    return list(dict.fromkeys(hit.memory_id for hit in store.documents.match(terms, Filter(), 20)))


def test_a_document_is_found_by_its_words_and_read_back_as_it_was(store: Index) -> None:
    result = store.documents.put(entry(text="alpha beta\n\ngamma"), BY_USER)
    assert (result.created, result.changed, result.alias) == (True, True, False)
    memory = store.documents.get(result.memory_id)
    assert memory.path == "memory/a.md"
    assert memory.presence is Presence.LIVE
    assert memory.passages == 2
    assert memory.first_indexed_at == memory.updated_at == BY_USER.at
    assert store.documents.text(result.memory_id) == "alpha beta\n\ngamma"
    assert [(p.first_line, p.last_line) for p in store.documents.passages(memory_ids=[result.memory_id])] == [
        (1, 1),
        (3, 3),
    ]
    assert found(store, "gamma") == [result.memory_id]


def test_the_title_is_found_though_the_text_does_not_say_it(store: Index) -> None:
    result = store.documents.put(entry(text="alpha", title="Rollback procedure"), BY_USER)
    assert found(store, "rollback") == [result.memory_id]


def test_words_are_found_in_another_inflection(store: Index) -> None:
    store.documents.put(entry(text="we were running migrations"), BY_USER)
    assert found(store, "run") == found(store, "migration") == [1]


def test_changed_text_keeps_the_id_and_drops_the_old_words(store: Index) -> None:
    first = store.documents.put(entry(text="alpha"), BY_USER)
    second = store.documents.put(entry(text="omega"), change(minutes=1))
    assert (second.memory_id, second.created, second.changed) == (first.memory_id, False, True)
    assert found(store, "alpha") == []
    assert found(store, "omega") == [first.memory_id]
    memory = store.documents.get(first.memory_id)
    assert memory.first_indexed_at == BY_USER.at
    assert memory.updated_at == change(minutes=1).at


def test_of_thousands_of_copies_a_memory_names_some_and_each_is_known(store: Index) -> None:
    """A change records all aliases of a memory: without a limit, 20,000 copies of one file took 7 GB."""
    store.documents.put(entry("memory/a.md", text="alpha"), BY_USER)
    names = [f"memory/copy{number:03}.md" for number in range(MOST_ALIASES + 10)]
    for name in names:
        copy = store.documents.put(entry(name, text="alpha"), change(minutes=1))
        assert copy.alias
    assert store.documents.get(1).aliases == tuple(names[:MOST_ALIASES])
    assert set(names) < store.documents.stored().keys()
    assert len(store.record.history(1, limit=1_000)) == MOST_ALIASES + 1
    store.documents.vanish(names[-1], change(minutes=3))
    store.documents.vanish(names[0], change(minutes=3))
    assert store.documents.get(1).aliases == tuple(names[1 : MOST_ALIASES + 1])
    assert names[-1] not in store.documents.stored()


def test_the_same_document_again_changes_nothing_but_the_ledger(store: Index) -> None:
    first = store.documents.put(entry(), BY_USER)
    ids = [passage.id for passage in store.documents.passages(memory_ids=[first.memory_id])]
    again = store.documents.put(entry(), change(minutes=1))
    assert (again.created, again.changed) == (False, False)
    assert [passage.id for passage in store.documents.passages(memory_ids=[first.memory_id])] == ids
    assert store.documents.get(first.memory_id).updated_at == BY_USER.at
    assert [str(one.type) for one in store.record.ledger()] == ["create", "reindex"]


def test_lines_that_moved_keep_their_passages(store: Index) -> None:
    result = store.documents.put(entry(text="alpha\nbeta"), BY_USER)
    ids = [passage.id for passage in store.documents.passages(memory_ids=[result.memory_id])]
    store.documents.put(entry(text="\n\nalpha\nbeta"), change(minutes=1))
    assert [(p.id, p.first_line) for p in store.documents.passages(memory_ids=[result.memory_id])] == [
        (ids[0], 3),
        (ids[1], 4),
    ]
    assert found(store, "beta") == [result.memory_id]


# --- copies


def test_a_copy_in_the_same_folder_is_a_second_name(store: Index) -> None:
    first = store.documents.put(entry("specs/007-a/memory/x.md", spec_folder="007-a", triggers=["one"]), BY_USER)
    copy = store.documents.put(entry("specs/007-a/memory/y.md", spec_folder="007-a", triggers=["two"]), BY_USER)
    assert (copy.memory_id, copy.alias, copy.created) == (first.memory_id, True, False)
    memory = store.documents.get(first.memory_id)
    assert memory.aliases == ("specs/007-a/memory/y.md",)
    assert set(memory.attributes.triggers) == {"one", "two"}
    assert store.documents.triggers() == [(first.memory_id, "one"), (first.memory_id, "two")]
    assert store.documents.count() == 1
    assert store.documents.stored()["specs/007-a/memory/y.md"].alias
    assert store.documents.get(path="specs/007-a/memory/y.md") == memory


def test_what_is_known_of_some_paths_is_what_is_known_of_all(store: Index) -> None:
    paths = ["specs/007-a/spec.md", "specs/007-a/memory/x.md", "specs/007-ab/spec.md", "specs/007-a.md", "memory/a.md"]
    for path in paths:
        store.documents.put(entry(path, f"text of {path}"), BY_USER)
    store.documents.put(entry("specs/007-a/memory/y.md", "text of specs/007-a/memory/x.md"), BY_USER)
    gone = store.documents.put(entry("specs/007-a/gone.md", "gone"), BY_USER)
    store.documents.vanish("specs/007-a/gone.md", BY_USER)
    everything = store.documents.stored()
    below = store.documents.stored(below=["specs/007-a", "memory/a.md", "memory/none.md", "specs/00"])
    assert set(below) == {path for path in everything if path.startswith("specs/007-a/")} | {"memory/a.md"}
    assert all(below[path] == everything[path] for path in below)
    assert below["specs/007-a/memory/y.md"].alias
    assert below["specs/007-a/gone.md"].memory_id == gone.memory_id
    assert store.documents.stored(below=[]) == {}


def test_what_has_the_same_text_is_found_by_fingerprint_and_an_empty_body_by_its_raw_hash(store: Index) -> None:
    store.documents.put(entry("memory/a.md", "text"), BY_USER)
    store.documents.put(entry("memory/b.md", "text"), BY_USER)
    store.documents.put(entry("memory/gone.md", "other"), BY_USER)
    store.documents.vanish("memory/gone.md", BY_USER)
    store.documents.put(entry("memory/empty.md", "---\n---", fingerprint=""), BY_USER)
    store.documents.put(entry("memory/empty2.md", "---\na: 1\n---", fingerprint=""), BY_USER)
    everything = store.documents.stored()
    assert store.documents.stored(alike=sha("text")[:16]) == {
        path: everything[path] for path in ("memory/a.md", "memory/b.md")
    }
    assert set(store.documents.stored(alike=sha("other")[:16])) == {"memory/gone.md"}
    assert set(store.documents.stored(alike=sha("---\n---"))) == {"memory/empty.md"}
    assert store.documents.stored(alike=sha("nothing")) == {}


def test_a_copy_in_another_spec_folder_is_a_memory_of_its_own(store: Index) -> None:
    store.documents.put(entry("specs/007-a/memory/x.md", spec_folder="007-a"), BY_USER)
    other = store.documents.put(entry("specs/008-b/memory/x.md", spec_folder="008-b"), BY_USER)
    assert other.created
    assert store.documents.count() == 2


def test_without_a_spec_folder_copies_are_told_by_their_directory(store: Index) -> None:
    store.documents.put(entry("memory/a/x.md"), BY_USER)
    assert store.documents.put(entry("memory/b/x.md"), BY_USER).created


def test_a_copy_of_somebody_else_is_never_a_second_name(store: Index) -> None:
    store.documents.put(entry("memory/x.md", owner="ann"), BY_USER)
    assert store.documents.put(entry("memory/y.md", owner="bob"), BY_USER).created
    store.documents.put(entry("memory/z.md", "other", project="p"), BY_USER)
    assert store.documents.put(entry("memory/w.md", "other", project="q"), BY_USER).created


def test_an_untrusted_copy_adds_no_triggers_to_a_trusted_memory(store: Index) -> None:
    store.documents.put(entry("memory/x.md"), BY_USER)
    copy = store.documents.put(entry("memory/y.md", triggers=["always"], source=Source.CUSTOM, trusted=False), BY_USER)
    assert copy.created
    assert store.documents.triggers() == []


def test_empty_bodies_never_count_as_copies(store: Index) -> None:
    store.documents.put(entry("memory/x.md", text="", fingerprint=""), BY_USER)
    assert store.documents.put(entry("memory/y.md", text="", fingerprint=""), BY_USER).created


def test_a_second_name_takes_over_when_the_first_goes(store: Index) -> None:
    first = store.documents.put(entry("memory/x.md", triggers=["one"]), BY_USER)
    store.documents.put(entry("memory/y.md", triggers=["two"]), BY_USER)
    assert store.documents.vanish("memory/x.md", change(minutes=1)) == "memory/y.md"
    memory = store.documents.get(first.memory_id)
    assert (memory.path, memory.aliases) == ("memory/y.md", ())
    assert found(store, "fox") == [first.memory_id]
    assert store.documents.stored()["memory/y.md"].raw_hash == "", "its file must be read again"
    again = store.documents.put(entry("memory/y.md", triggers=["two"]), change(minutes=2))
    assert (again.memory_id, again.created) == (first.memory_id, False)
    assert store.documents.triggers() == [(first.memory_id, "two")]


def test_a_second_name_that_goes_takes_its_triggers_along(store: Index) -> None:
    store.documents.put(entry("memory/x.md", triggers=["one"]), BY_USER)
    store.documents.put(entry("memory/y.md", triggers=["two"]), BY_USER)
    store.documents.vanish("memory/y.md", BY_USER)
    assert store.documents.triggers() == [(1, "one")]
    assert store.documents.get(1).aliases == ()


def test_a_copy_that_is_edited_becomes_a_memory_of_its_own(store: Index) -> None:
    store.documents.put(entry("memory/x.md", triggers=["one"]), BY_USER)
    store.documents.put(entry("memory/y.md", triggers=["two"]), BY_USER)
    edited = store.documents.put(entry("memory/y.md", "something else", triggers=["two"]), BY_USER)
    assert edited.created
    assert store.documents.triggers() == [(1, "one"), (edited.memory_id, "two")]
    assert store.documents.get(1).aliases == ()


def test_copies_of_a_text_that_changed_are_released(store: Index) -> None:
    store.documents.put(entry("memory/x.md"), BY_USER)
    store.documents.put(entry("memory/y.md"), BY_USER)
    result = store.documents.put(entry("memory/x.md", "edited"), BY_USER)
    assert result.released == ("memory/y.md",)
    assert "memory/y.md" not in store.documents.stored()
    assert store.documents.put(entry("memory/y.md"), BY_USER).created


# --- going and coming back


def test_a_vanished_file_leaves_search_and_keeps_what_is_recorded(store: Index) -> None:
    store.documents.put(entry(triggers=["one"]), BY_USER)
    store.record.use({1: 2.0}, BY_USER.at)
    store.documents.vanish("memory/a.md", change(minutes=1))
    assert found(store, "fox") == []
    assert store.documents.triggers() == []
    assert store.documents.count() == 0
    with pytest.raises(MemoryNotFound):
        store.documents.get(1)
    gone = store.documents.get(1, any_presence=True)
    assert (gone.presence, gone.access_count) == (Presence.GONE, 2.0)
    assert store.documents.stored()["memory/a.md"].presence is Presence.GONE


@pytest.mark.parametrize("said_to_have_moved", [True, False])
def test_what_went_does_not_come_back_beside_a_living_copy(store: Index, said_to_have_moved: bool) -> None:
    store.documents.put(entry("memory/x.md"), BY_USER)
    store.documents.vanish("memory/x.md", change(minutes=1))
    store.documents.put(entry("memory/y.md", "something else"), change(minutes=2))
    store.documents.put(entry("memory/y.md"), change(minutes=3))
    third = store.documents.put(entry("memory/z.md"), change(minutes=4), memory_id=1 if said_to_have_moved else None)
    assert (third.memory_id, third.alias) == (2, True)
    assert (store.documents.count(), store.documents.get(2).aliases) == (1, ("memory/z.md",))


def test_it_comes_back_by_its_path_with_its_id_and_use(store: Index) -> None:
    store.documents.put(entry(), BY_USER)
    embed_all(store)
    store.record.use({1: 2.0}, BY_USER.at)
    store.documents.vanish("memory/a.md", BY_USER)
    back = store.documents.put(entry(), change(minutes=1))
    assert (back.memory_id, back.created) == (1, False)
    assert store.documents.get(1).access_count == 2.0
    assert found(store, "fox") == [1]
    assert store.vectors.work(10) == [], "the same words are not embedded again"
    assert [str(one.type) for one in store.record.ledger()] == ["create", "delete", "restore"]


def test_it_comes_back_by_its_words_under_another_name(store: Index) -> None:
    store.documents.put(entry("memory/x.md"), BY_USER)
    store.documents.vanish("memory/x.md", BY_USER)
    back = store.documents.put(entry("memory/y.md"), change(minutes=1))
    assert (back.memory_id, back.created) == (1, False)
    assert store.documents.get(1).path == "memory/y.md"


def test_a_vanished_row_may_share_its_path_with_a_later_one(store: Index) -> None:
    store.documents.put(entry("memory/x.md", "first"), BY_USER)
    store.documents.put(entry("memory/y.md", "second"), BY_USER)
    store.documents.vanish("memory/x.md", BY_USER)
    store.documents.put(entry("memory/x.md", "second"), change(minutes=1), memory_id=2)
    assert store.documents.get(path="memory/x.md") == store.documents.get(2)
    assert store.documents.get(1, any_presence=True).presence is Presence.GONE


def test_a_moved_file_keeps_its_id_vectors_and_use(store: Index) -> None:
    store.documents.put(entry("specs/001-a/memory/x.md", spec_folder="001-a"), BY_USER)
    embed_all(store)
    store.record.use({1: 1.0}, BY_USER.at)
    moved = store.documents.put(entry("specs/002-b/memory/y.md", spec_folder="002-b"), change(minutes=1), memory_id=1)
    assert (moved.memory_id, moved.created, moved.changed) == (1, False, False)
    memory = store.documents.get(1)
    assert (memory.path, memory.spec_folder, memory.access_count) == ("specs/002-b/memory/y.md", "002-b", 1.0)
    assert "specs/001-a/memory/x.md" not in store.documents.stored()
    assert store.vectors.work(10) == []


def test_a_document_moved_onto_another_one_replaces_it(store: Index) -> None:
    store.documents.put(entry("memory/x.md", "first"), BY_USER)
    store.documents.put(entry("memory/y.md", "second"), BY_USER)
    store.documents.put(entry("memory/x.md", "second"), change(minutes=1), memory_id=2)
    assert [memory.id for memory in store.documents.find()] == [2]
    assert store.documents.get(1, any_presence=True).presence is Presence.GONE


def test_vanishing_twice_or_an_unknown_path_is_nothing(store: Index) -> None:
    store.documents.put(entry(), BY_USER)
    store.documents.vanish("memory/a.md", BY_USER)
    before = store.generation()
    store.documents.vanish("memory/a.md", BY_USER)
    store.documents.vanish("memory/unknown.md", BY_USER)
    assert store.generation() == before


# --- forgetting


def test_what_was_forgotten_stays_so_until_its_words_change(store: Index) -> None:
    store.documents.put(entry(), BY_USER)
    store.documents.forget(1, change(minutes=1))
    stays = store.documents.put(replace(entry(), stamp=Stamp(9, 9, 9)), change(minutes=2))
    assert (stays.memory_id, stays.created, stays.changed) == (1, False, False)
    assert store.documents.get(1, any_presence=True).presence is Presence.FORGOTTEN
    assert store.documents.stored()["memory/a.md"].stamp == Stamp(9, 9, 9)
    assert stays.forgotten
    other = store.documents.put(entry(text="new words"), change(minutes=3))
    assert (other.memory_id, other.created) == (2, True), "another text is another memory"
    assert found(store, "words") == [2]
    assert store.documents.get(1, any_presence=True).presence is Presence.FORGOTTEN


def test_what_takes_the_place_of_something_forgotten_names_it_in_its_history(store: Index) -> None:
    store.documents.put(entry(), BY_USER)
    store.documents.forget(1, change(minutes=1))
    store.documents.put(entry(text="new words"), change(minutes=2), explicit=True)
    (added,) = store.record.history(2)
    assert added.after is not None
    assert added.after["previous_id"] == 1
    assert [e.memory_ids for e in store.record.ledger()][-1] == (2, 1)


def test_a_text_that_was_forgotten_at_a_path_stays_so_whatever_stood_there_since(store: Index) -> None:
    store.documents.put(entry(), BY_USER)
    store.documents.forget(1, change(minutes=1))
    store.documents.put(entry(text="new words"), change(minutes=2))
    store.documents.vanish("memory/a.md", change(minutes=3))
    again = store.documents.put(replace(entry(), stamp=Stamp(9, 9, 9)), change(minutes=4))
    assert (again.memory_id, again.forgotten) == (1, True)
    assert (store.documents.stored()["memory/a.md"].memory_id, store.documents.stored()["memory/a.md"].stamp) == (
        1,
        Stamp(9, 9, 9),
    )
    assert store.documents.put(entry(text="third words"), change(minutes=5)).memory_id == 2, (
        "a vanished path keeps its id"
    )
    assert store.documents.put(entry(), change(minutes=6)).memory_id == 2, "a file that is edited is one memory"


def test_an_edited_copy_of_something_forgotten_is_a_memory_of_its_own(store: Index) -> None:
    store.documents.put(entry(), BY_USER)
    store.documents.put(entry("memory/copy.md"), BY_USER)
    store.documents.forget(1, BY_USER)
    assert store.documents.put(entry("memory/copy.md"), BY_USER).forgotten
    edited = store.documents.put(entry("memory/copy.md", "new words"), BY_USER)
    assert (edited.memory_id, edited.created) == (2, True)
    (added,) = store.record.history(2)
    assert added.after is not None
    assert added.after["previous_id"] == 1


def test_a_merged_memory_gives_its_id_to_no_other_text(store: Index) -> None:
    store.documents.put(entry(), BY_USER)
    store.documents.put(entry("memory/b.md", "the merged words"), BY_USER)
    store.documents.forget(1, BY_USER, into=2)
    assert store.documents.put(entry(text="other words"), BY_USER, explicit=True).memory_id == 3
    assert store.record.links([3]) == []


def test_a_person_who_names_the_file_brings_it_back(store: Index) -> None:
    store.documents.put(entry(), BY_USER)
    store.documents.forget(1, BY_USER)
    assert store.documents.put(entry(), BY_USER, explicit=True).memory_id == 1
    assert found(store, "fox") == [1]


def test_a_renamed_file_of_a_forgotten_memory_stays_forgotten(store: Index) -> None:
    store.documents.put(entry("memory/x.md"), BY_USER)
    store.documents.forget(1, BY_USER)
    renamed = store.documents.put(entry("memory/y.md"), BY_USER)
    assert (renamed.memory_id, renamed.created) == (1, False)
    assert store.documents.count() == 0
    assert store.documents.stored()["memory/y.md"].presence is Presence.FORGOTTEN
    assert store.documents.put(entry("memory/y.md"), BY_USER, explicit=True).memory_id == 1
    assert store.documents.get(1).path == "memory/y.md"


def test_what_vanished_a_moment_ago_can_still_be_forgotten_but_only_once(store: Index) -> None:
    store.documents.put(entry(triggers=["one"]), BY_USER)
    store.documents.put(entry("memory/b.md", "other words"), BY_USER)
    store.documents.vanish("memory/a.md", BY_USER)
    store.documents.forget(1, BY_USER)
    assert store.documents.get(1, any_presence=True).presence is Presence.FORGOTTEN
    assert not store.documents.put(entry(), BY_USER).changed
    assert (found(store, "fox"), found(store, "words")) == ([], [2])
    assert not any(store.care.check().values())
    with pytest.raises(MemoryNotFound):
        store.documents.forget(1, BY_USER)
    assert store.documents.recall(1, BY_USER).presence is Presence.LIVE
    assert found(store, "fox") == [1]


def test_recall_undoes_forgetting_without_the_file(store: Index) -> None:
    store.documents.put(entry(triggers=["one"]), BY_USER)
    embed_all(store)
    store.documents.forget(1, BY_USER)
    memory = store.documents.recall(1, change(minutes=1))
    assert memory.presence is Presence.LIVE
    assert found(store, "fox") == [1]
    assert store.documents.triggers() == [(1, "one")]
    assert len(store.vectors.match([1.0, 0.0, 0.0], Filter(), 9)) == 2


def test_an_id_is_never_given_twice(factory: Factory) -> None:
    store = factory("index")
    store.documents.put(entry("memory/x.md", "first"), BY_USER)
    store.documents.forget(1, BY_USER)
    store.close()
    again = factory("index")
    assert again.documents.put(entry("memory/y.md", "second"), BY_USER).memory_id == 2


# --- metadata


def test_overrides_win_over_the_file_and_survive_it(store: Index) -> None:
    store.documents.put(entry("chat://1", title="Old", source=Source.CHAT), BY_USER)
    store.record.amend(1, BY_USER, vouched=True)  # a conversation has no triggers before
    memory = store.record.amend(
        1, change(minutes=1), overrides={"title": "New name", "tier": Tier.CRITICAL, "triggers": ["a phrase"]}
    )
    assert (memory.title, memory.tier, memory.attributes.triggers) == ("New name", Tier.CRITICAL, ("a phrase",))
    assert found(store, "name") == [1]
    assert found(store, "old") == []
    store.documents.put(entry("chat://1", "grown", title="Old", source=Source.CHAT), change(minutes=2))
    assert store.documents.get(1).title == "New name"
    store.record.amend(1, change(minutes=3), overrides={"title": None})
    assert store.documents.get(1).title == "Old"
    assert store.documents.get(1).tier is Tier.CRITICAL


def test_a_new_title_embeds_nothing_again(store: Index) -> None:
    store.documents.put(entry(title="Old"), BY_USER)
    embed_all(store)
    store.record.amend(1, BY_USER, overrides={"title": "New"})
    store.documents.put(entry(title="Newer"), BY_USER)
    assert store.vectors.work(10) == []
    assert len(store.vectors.match([1.0, 0.0, 0.0], Filter(), 9)) == 2


def test_text_nobody_vouched_for_is_no_rule_and_has_no_triggers(store: Index) -> None:
    given = entry("chat://1", tier=Tier.CONSTITUTIONAL, triggers=["always run"], source=Source.CHAT, trusted=False)
    store.documents.put(given, BY_USER)
    assert (store.documents.get(1).tier, store.documents.triggers()) == (Tier.NORMAL, [])
    store.record.amend(1, BY_USER, vouched=True)
    assert (store.documents.get(1).tier, store.documents.triggers()) == (Tier.CONSTITUTIONAL, [(1, "always run")])
    store.documents.put(given, change(minutes=1))
    assert store.documents.get(1).trusted, "what a person said outlives the next scan"
    store.record.amend(1, BY_USER, vouched=False)
    assert (store.documents.get(1).tier, store.documents.triggers()) == (Tier.NORMAL, [])


def test_stamps_change_without_a_trace(store: Index) -> None:
    store.documents.put(entry("memory/x.md"), BY_USER)
    store.documents.put(entry("memory/y.md"), BY_USER)
    before = (store.generation(), len(list(store.record.ledger())))
    store.documents.scanned(
        {"memory/x.md": Stamp(5, 6, 7), "memory/y.md": Stamp(8, 9, 10), "unknown.md": Stamp(1, 1, 1)}
    )
    assert store.documents.stored()["memory/x.md"].stamp == Stamp(5, 6, 7)
    assert store.documents.stored()["memory/y.md"].stamp == Stamp(8, 9, 10)
    assert (store.generation(), len(list(store.record.ledger()))) == before


def test_a_file_that_stays_forgotten_makes_no_new_generation(store: Index) -> None:
    store.documents.put(entry(), BY_USER)
    store.documents.forget(1, BY_USER)
    before = (store.generation(), len(list(store.record.ledger())))
    store.documents.put(entry(), change(minutes=1))
    assert (store.generation(), len(list(store.record.ledger()))) == before


def test_folders_are_told_in_numbers_and_follow_every_change(store: Index) -> None:
    later, undated = NOON + timedelta(days=3), change(minutes=9)
    store.documents.put(entry("specs/001-a/memory/x.md", "one", spec_folder="001-a"), BY_USER)
    store.documents.put(entry("specs/001-a/memory/y.md", "two", spec_folder="001-a", created_at=later), BY_USER)
    store.documents.put(entry("specs/001-a/memory/z.md", "three", spec_folder="001-a", tier=Tier.CRITICAL), BY_USER)
    store.documents.put(entry("memory/w.md", "four", created_at=None), undated)
    store.documents.put(entry("specs/001-a/archive/v.md", "five", spec_folder="001-a", archived_folder=True), undated)
    messages = {(one.spec_folder, one.archived_folder, one.tier): one for one in store.documents.tally()}
    assert messages.keys() == {
        ("001-a", False, Tier.NORMAL),
        ("001-a", False, Tier.CRITICAL),
        (None, False, Tier.NORMAL),
        ("001-a", True, Tier.NORMAL),
    }
    normal = messages["001-a", False, Tier.NORMAL]
    assert (normal.count, normal.newest, normal.updated_at) == (2, later, BY_USER.at)
    assert messages[None, False, Tier.NORMAL].newest == undated.at
    store.documents.put(entry("specs/001-a/memory/x.md", "one more", spec_folder="001-a"), BY_USER)
    again = next(one for one in store.documents.tally() if (one.spec_folder, one.tier) == ("001-a", Tier.NORMAL))
    assert again.changed > normal.changed, "also where the clock stood still"
    store.documents.forget(2, change(minutes=10))
    assert Tally("001-a", False, Tier.NORMAL, 1, NOON, BY_USER.at, again.changed) in store.documents.tally()


def test_alike_are_live_memories_with_the_same_fingerprint(store: Index) -> None:
    store.documents.put(entry("specs/001-a/memory/x.md", "same", spec_folder="001-a", fingerprint="f"), BY_USER)
    store.documents.put(entry("specs/002-b/memory/x.md", "Same", spec_folder="002-b", fingerprint="f"), BY_USER)
    store.documents.put(entry("memory/z.md", "other", fingerprint="g"), BY_USER)
    assert [memory.id for memory in store.documents.many(fingerprint="f")] == [1, 2]
    store.documents.forget(1, change(minutes=1))
    assert [memory.id for memory in store.documents.many(fingerprint="f")] == [2]
