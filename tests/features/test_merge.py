"""Two memories become one: nothing of either is lost, no id changes its meaning, and it can be taken back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spec_kit_memory.core.memory import Presence, Relation, Tier
from spec_kit_memory.errors import BadParameter, FileMissing, Invalid, MemoryNotFound, TooLarge
from spec_kit_memory.settings import Isolation
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place

SESSION: dict[str, Any] = {
    "title": "Broker",
    "sessionSummary": "The message broker is Mosquitto because it is small. Commands to a lock are never retained.",
    "keyDecisions": ["Use Mosquitto", "Drop retained commands"],
    "nextSteps": ["measure the load"],
}
FACT = "The staging database is restored from last night's backup every morning at six by a cron job."


def changed(**what: Any) -> dict[str, Any]:
    return SESSION | what


@pytest.fixture
def workspace(place: Place) -> Workspace:
    (place.root / "specs/001-x").mkdir(parents=True)
    return place.open()


def save(workspace: Workspace, data: dict[str, Any] | str, **how: Any) -> Any:
    given: dict[str, Any] = {"text": data} if isinstance(data, str) else {"context": data}
    return workspace.save(**given, **{"spec_folder": "001-x", **how})


def text_of(place: Place, answer: Any) -> str:
    path: Path = place.root / answer.path
    return path.read_text(encoding="utf-8")


def ids(workspace: Workspace) -> set[int]:
    return {card.id for card in workspace.list().memories}


# --- with itself, and afterwards


def test_a_memory_is_never_merged_with_itself(workspace: Workspace, place: Place) -> None:
    first = save(workspace, SESSION)
    again = save(workspace, SESSION, on_similar="merge", force=True)
    assert (again.id, again.merged) == (first.id, None)
    assert "there is no other memory to merge it with" in again.summary
    assert (place.root / first.path).exists()
    assert ids(workspace) == {first.id}
    with pytest.raises(BadParameter, match="with itself"):
        workspace.merge(first.id, first.id)


def test_the_merge_that_a_warning_offers_can_be_done_afterwards_by_saving_again(
    workspace: Workspace, place: Place
) -> None:
    old = save(workspace, SESSION)
    place.clock.pass_(minutes=1)
    new = save(workspace, changed(nextSteps=["ship it"]))
    assert f"merge({old.id}, {new.id})" in new.hints[0]
    done = save(workspace, changed(nextSteps=["ship it"]), on_similar="merge")
    assert (done.id, done.merged, done.similar) == (new.id, old.id, ())
    assert ids(workspace) == {new.id}
    text = text_of(place, new)
    assert "- ship it\n- measure the load\n" in text


def test_a_commit_between_the_warning_and_the_merge_makes_no_third_memory(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spec_kit_memory.files import git

    (place.root / "specs/001-x").mkdir(parents=True)
    workspace = place.open()
    old, new = save(workspace, SESSION), save(workspace, changed(nextSteps=["ship it"]))
    monkeypatch.setattr(git, "head", lambda root: {"branch": "main", "commit": "0123abcd"})
    done = save(workspace, changed(nextSteps=["ship it"]), on_similar="merge")
    assert (done.id, done.merged) == (new.id, old.id)
    assert ids(workspace) == {new.id}


def test_a_file_that_was_warned_about_can_be_merged_by_its_path(workspace: Workspace, place: Place) -> None:
    old = save(workspace, SESSION)
    body = text_of(place, old).replace("never retained", "never retained at all")
    place.write("specs/001-x/memory/note.md", body)
    warned = workspace.save(file_path="specs/001-x/memory/note.md")
    assert [row["id"] for row in warned.similar] == [old.id]
    assert f"merge({old.id}, {warned.id})" in warned.hints[0]
    done = workspace.save(file_path="specs/001-x/memory/note.md", on_similar="merge")
    assert (done.id, done.merged) == (warned.id, old.id)
    assert ids(workspace) == {warned.id}


def test_two_ids_are_merged_whatever_their_folders(workspace: Workspace, place: Place) -> None:
    saved = save(workspace, SESSION)
    two = save(workspace, FACT, spec_folder="002-y", create=True)
    answer = workspace.merge(two.id, saved.id)
    assert (answer.id, answer.merged) == (saved.id, two.id)
    assert answer.trashed is not None
    assert (place.root / ".spec-kit-memory" / answer.trashed).exists()
    assert FACT in text_of(place, saved)
    assert workspace.search("staging database cron").results[0].id == saved.id
    assert workspace.health().healthy


def test_saving_the_older_text_again_merges_the_newer_into_it(workspace: Workspace) -> None:
    old, new = save(workspace, SESSION), save(workspace, changed(nextSteps=["ship it"]))
    done = save(workspace, SESSION, on_similar="merge")
    assert (done.id, done.merged, ids(workspace)) == (old.id, new.id, {old.id})


# --- ids


def test_an_id_that_was_merged_is_given_to_no_other_text(workspace: Workspace, place: Place) -> None:
    first = save(workspace, FACT)
    second = save(workspace, FACT.replace("six", "seven"), on_similar="merge")
    third = save(workspace, FACT.replace("six", "eight"), on_similar="distinct")
    assert second.merged == first.id
    assert len({first.id, second.id, third.id}) == 3
    assert len({first.path, second.path, third.path}) == 3
    assert workspace.why(third.id).steps == ()
    assert workspace._runtime.whole.documents.get(first.id, any_presence=True).presence is Presence.FORGOTTEN
    workspace.undo()
    assert ids(workspace) == {first.id, second.id, third.id}
    assert FACT in text_of(place, first)


def test_saves_of_one_minute_are_numbered_past_names_that_memories_had(workspace: Workspace, place: Place) -> None:
    first = save(workspace, FACT)
    (place.root / first.path).unlink()
    workspace.index()
    second = save(workspace, FACT.replace("six", "seven"))
    assert second.path == first.path.replace(".md", "-2.md")
    assert second.id != first.id
    workspace.delete(second.id, delete_file=True)
    third = save(workspace, FACT.replace("six", "eight"))
    assert third.path == first.path.replace(".md", "-3.md")
    workspace.undo()
    assert ids(workspace) == {second.id, third.id}


def test_the_same_text_saved_again_after_a_merge_is_the_memory_that_it_was(workspace: Workspace) -> None:
    first = save(workspace, FACT)
    second = save(workspace, FACT.replace("six", "seven"), on_similar="merge")
    again = save(workspace, FACT)
    assert again.id == first.id
    assert ids(workspace) == {first.id, second.id}


def test_undo_of_a_delete_brings_a_text_back_beside_what_took_its_place(workspace: Workspace, place: Place) -> None:
    first = save(workspace, FACT)
    workspace.delete(first.id)
    edited = text_of(place, first).replace("six", "nine")
    place.write(first.path, edited)
    workspace.index()
    (second,) = ids(workspace)
    assert second != first.id
    answer = workspace.undo()
    assert "holds another memory now" in answer.hints[0]
    assert ids(workspace) == {first.id, second}
    assert FACT in workspace.load(first.id).text
    assert (place.root / first.path).read_text(encoding="utf-8") == edited
    assert workspace.index().indexed == 0


# --- what is merged


def test_front_matter_of_both_is_united(workspace: Workspace, place: Place) -> None:
    place.write(
        "specs/001-x/memory/a.md",
        "---\ntitle: A\ntrigger_phrases: [dock broker]\ntags: [mqtt, dock]\nquestions:\n  - which broker?\n"
        "causal_links:\n  supports: [B, C]\n  blocks: [D]\nimportance_tier: critical\nauthor: Ann\n---\n# A\n\nOne.\n",
    )
    place.write(
        "specs/001-x/memory/b.md",
        "---\ntitle: B\ntrigger_phrases: [lock commands]\ntags: [dock, lock]\nquestions: [why so small?]\n"
        "causal_links:\n  supports: [E]\nexpires: 2027-01-01\n---\n# B\n\nTwo.\n",
    )
    workspace.index()
    a, b = place.id_of(workspace, "a.md"), place.id_of(workspace, "b.md")
    answer = workspace.merge(a, b)
    text = (place.root / "specs/001-x/memory/b.md").read_text(encoding="utf-8")
    front = text.split("---\n")[1]
    assert set(answer.memory.triggers) == {"dock broker", "lock commands"}
    assert (answer.memory.tier, answer.memory.title) == (Tier.CRITICAL, "B")
    for line in ("dock", "lock", "mqtt", "which broker?", "why so small?", "author: Ann", "C", "E", "D"):
        assert line in front, line
    assert "expires" not in front, "what only one of the two wanted to end does not end"
    assert '"B"' not in front, "no link to itself"


def test_line_ends_encoding_and_mark_stay(workspace: Workspace, place: Place) -> None:
    a, b = place.root / "specs/001-x/memory/a.md", place.root / "specs/001-x/memory/b.md"
    a.parent.mkdir(parents=True, exist_ok=True)
    a.write_bytes("# A\n\nThe first öne.\n".encode())
    b.write_bytes("\ufeff# A\r\n\r\nThe sécond one.\r\n".encode("utf-16-le"))
    workspace.index()
    workspace.merge(place.id_of(workspace, "a.md"), place.id_of(workspace, "b.md"))
    data = b.read_bytes().decode("utf-16")
    assert data.startswith("# A\r\n\r\nThe sécond one.\r\n\r\nThe first öne.\r\n")
    assert "\n" not in data.replace("\r\n", "")


def test_a_secret_in_a_file_is_not_copied_and_not_taken_away(workspace: Workspace, place: Place) -> None:
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    kept = "xoxb-" + "123456789012-123456789012-AbCdEfGhIjKlMnOpQrStUvWx"
    place.write("specs/001-x/memory/a.md", f"# A\n\nThe token is {secret} here.\n")
    other = f"# B\n\nThe token is {kept} there.\n"
    place.write("specs/001-x/memory/b.md", other)
    workspace.index()
    workspace.merge(place.id_of(workspace, "a.md"), place.id_of(workspace, "b.md"))
    text = (place.root / "specs/001-x/memory/b.md").read_text(encoding="utf-8")
    assert kept in text
    assert secret not in text
    workspace.undo()
    assert secret in (place.root / "specs/001-x/memory/a.md").read_text(encoding="utf-8")
    assert (place.root / "specs/001-x/memory/b.md").read_text(
        encoding="utf-8"
    ) == f"# B\n\nThe token is {kept} there.\n"


def test_what_was_edited_and_not_indexed_yet_is_merged_too(workspace: Workspace, place: Place) -> None:
    one, two = save(workspace, SESSION), save(workspace, FACT)
    path = place.root / one.path
    path.write_text(text_of(place, one).replace("measure the load", "measure the weight"), encoding="utf-8")
    workspace.merge(one.id, two.id)
    assert "- measure the weight" in text_of(place, two)


# --- where an id went


def test_an_id_that_was_merged_leads_to_the_memory_that_has_its_text_now(workspace: Workspace) -> None:
    texts = (FACT, "Mosquitto is the broker of the locks.", "Prices are kept in cents and never as floats.")
    one, two, three = (save(workspace, text).id for text in texts)
    workspace.merge(one, two)
    verbs = (
        lambda: workspace.why(one),
        lambda: workspace.load(memory_id=one),
        lambda: workspace.update(one, title="Other"),
        lambda: workspace.validate(one, was_useful=True),
        lambda: workspace.link(one, three, "caused"),
        lambda: workspace.merge(one, three),
    )
    for verb in verbs:
        with pytest.raises(MemoryNotFound, match=rf"^memory {one} was merged into memory {two} \(") as moved:
            verb()
        assert (moved.value.code, moved.value.hint) == ("E080", f"`load({two})` reads it")
        assert (moved.value.details["memoryId"], moved.value.details["mergedInto"]) == (one, two)
    workspace.merge(two, three)
    with pytest.raises(MemoryNotFound, match=f"^memory {one} was merged into memory {three} "):
        workspace.why(one)
    workspace.undo()
    with pytest.raises(MemoryNotFound, match=f"^memory {one} was merged into memory {two} "):
        workspace.why(one)
    workspace.undo()
    assert workspace.why(one).memory.id == one


def test_an_id_that_was_forgotten_or_never_given_leads_nowhere(workspace: Workspace) -> None:
    one, two = (save(workspace, text).id for text in (FACT, "Mosquitto is the broker of the locks."))
    workspace.merge(one, two)
    workspace.delete(two)
    for memory_id in (one, two):
        with pytest.raises(MemoryNotFound, match=f"^memory {memory_id} was deleted$"):
            workspace.why(memory_id)
    with pytest.raises(MemoryNotFound, match=r"^there is no memory 999$"):
        workspace.why(999)


def test_where_an_id_went_is_not_said_to_who_may_not_see_it(place: Place) -> None:
    for name in ("a", "b"):
        place.write(f"memory/users/bob/{name}.md", f"# Note {name}\n\nBob's own, {name}.\n")
    bob = place.open(isolation=Isolation(user_id="bob"))
    one, two = (place.id_of(bob, f"{name}.md") for name in "ab")
    bob.merge(one, two)
    with pytest.raises(MemoryNotFound, match="was merged into"):
        bob.why(one)
    with pytest.raises(MemoryNotFound, match=f"^there is no memory {one}$"):
        place.open(isolation=Isolation(user_id="ana")).why(one)


# --- what is refused, and what fails


def test_rules_chats_specs_and_other_peoples_memories_are_not_merged(place: Place) -> None:
    place.write("constitutional/rule.md", "# Rule\n\nAlways.\n")
    place.write("specs/001-x/spec.md", "# Spec\n\nWhat it is.\n")
    place.write("memory/users/bob/note.md", "# Note\n\nBob's own.\n")
    place.memory("a", "# A\n\nText.", folder="001-x")
    workspace = place.open()
    mine = place.id_of(workspace, "a.md")
    before = {path: path.read_bytes() for path in place.root.rglob("*.md")}
    for name in ("rule.md", "spec.md"):
        for pair in ((mine, place.id_of(workspace, name)), (place.id_of(workspace, name), mine)):
            with pytest.raises(Invalid):
                workspace.merge(*pair)
    with pytest.raises(MemoryNotFound):
        workspace.merge(mine, 999)
    assert {path: path.read_bytes() for path in place.root.rglob("*.md")} == before
    bob = place.open(isolation=Isolation(user_id="bob"))
    with pytest.raises(Invalid, match="different users"):
        bob.merge(mine, place.id_of(bob, "note.md"))


def test_a_merge_that_fails_has_changed_nothing(
    workspace: Workspace, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = save(workspace, SESSION), save(workspace, FACT)
    memory_folder = place.root / "specs/001-x/memory"
    before = {path.name: path.read_bytes() for path in memory_folder.iterdir()}
    store = type(workspace._runtime.store.documents)

    def fail(*_: Any, **__: Any) -> None:
        raise Invalid("no")

    with monkeypatch.context() as patch:
        patch.setattr(store, "forget", fail)
        with pytest.raises(Invalid, match="no"):
            workspace.merge(one.id, two.id)
    assert {path.name: path.read_bytes() for path in memory_folder.iterdir()} == before
    assert ids(workspace) == {one.id, two.id}
    assert "measure the load" not in workspace.load(two.id).text
    assert workspace.index().indexed == 0
    assert workspace.health().healthy


def test_a_file_that_may_not_be_written_is_not_merged_into(workspace: Workspace, place: Place) -> None:
    one, two = save(workspace, SESSION), save(workspace, FACT)
    (place.root / two.path).chmod(0o444)
    with pytest.raises(Exception, match="read-only"):
        workspace.merge(one.id, two.id)
    assert (place.root / one.path).exists()


# --- taking it back


def test_undo_brings_both_back_byte_for_byte(workspace: Workspace, place: Place) -> None:
    one, two = save(workspace, SESSION), save(workspace, changed(nextSteps=["ship it"]))
    before = {answer.path: (place.root / answer.path).read_bytes() for answer in (one, two)}
    workspace.merge(one.id, two.id)
    assert workspace.search("broker").results[0].id == two.id
    answer = workspace.undo()
    assert answer.memory_ids == (one.id, two.id)
    assert {path: (place.root / path).read_bytes() for path in before} == before
    assert workspace.index().indexed == 0
    assert not workspace._runtime.whole.record.links(relations=[Relation.SUPERSEDES])
    assert workspace.health().healthy


def test_undo_leaves_alone_what_was_written_since(workspace: Workspace, place: Place) -> None:
    one, two = save(workspace, SESSION), save(workspace, FACT)
    workspace.merge(one.id, two.id)
    path: Path = place.root / two.path
    path.write_text(text_of(place, two) + "\nMore since.\n", encoding="utf-8")
    answer = workspace.undo()
    assert any("keeps the text that it took over" in hint for hint in answer.hints)
    assert "More since." in text_of(place, two)
    assert ids(workspace) == {one.id, two.id}


def test_a_chain_of_merges_is_taken_back_one_by_one(workspace: Workspace, place: Place) -> None:
    one, two, three = (save(workspace, changed(nextSteps=[f"step {n}"]), on_similar="distinct") for n in "abc")
    workspace.merge(one.id, two.id)
    workspace.merge(two.id, three.id)
    text = text_of(place, three)
    assert [text.count(f"- step {n}") for n in "abc"] == [1, 1, 1]
    workspace.undo()
    assert "- step a" in text_of(place, two)
    assert "- step a" not in text_of(place, three)
    workspace.undo()
    assert ids(workspace) == {one.id, two.id, three.id}
    assert "- step a" not in text_of(place, two)


# --- links made by hand


def hand_made(workspace: Workspace, memory_id: int) -> set[tuple[int, int, str, float]]:
    steps = workspace.why(memory_id, max_depth=1).steps
    return {(step.link.source_id, step.link.target_id, step.link.relation.value, step.link.strength) for step in steps}


def test_links_made_by_hand_go_over_to_the_memory_that_stays_and_back(workspace: Workspace) -> None:
    one, two = save(workspace, SESSION).id, save(workspace, changed(title="Broker again"), on_similar="distinct").id
    cause, effect = save(workspace, FACT).id, save(workspace, "Locks open at noon on market days only.").id
    workspace.link(cause, one, "caused", strength=0.6)
    workspace.link(one, effect, "enabled", strength=0.7)
    workspace.link(one, two, "supports")
    workspace.link(two, effect, "enabled", strength=0.2)
    before = hand_made(workspace, two)
    workspace.merge(one, two)
    after = hand_made(workspace, two)
    assert (cause, two, "caused", 0.6) in after
    assert (two, effect, "enabled", 0.2) in after, "its own link stays as it is"
    assert not any(source == target for source, target, *_ in after)
    workspace.undo()
    assert hand_made(workspace, two) == before
    assert (cause, one, "caused", 0.6) in hand_made(workspace, one)


def test_a_merge_tells_only_statements_that_the_text_has_both_of(workspace: Workspace) -> None:
    def decided(reason: str) -> int:
        decision = {"decision": "Queue", "chosen": "SQS", "rationale": reason}
        context = {"title": "Queue choice", "sessionSummary": "We chose a queue.", "keyDecisions": [decision]}
        id_ = workspace.save(context=context, spec_folder="001-x", on_similar="distinct").id
        assert id_ is not None
        return id_

    first, fuller, other = decided("cheap"), decided("cheap and managed"), decided("the team knows it")
    absorbed = workspace.merge(fuller, first)
    assert not any("stated" in hint for hint in absorbed.hints)
    both = workspace.merge(other, first)
    assert any(
        hint.startswith(f"memory {other} stated 'the team knows it' (here 'cheap and managed'), and")
        for hint in both.hints
    )
    assert workspace.load(first).text.count("**Why:** cheap and managed. the team knows it\n") == 1


def test_a_second_merge_also_tells_what_the_text_states_twice(workspace: Workspace) -> None:
    def about(bicycles: str, tins: str) -> int:
        text = f"Each tin of wax lasts about {bicycles} bicycles. The night shift orders {tins} tins of it in spring."
        id_ = workspace.save(text=f"Wet oil collects sand from the beach. {text}", on_similar="distinct").id
        assert id_ is not None
        return id_

    first, second, third = about("forty", "twenty"), about("fifty", "twenty"), about("fifty", "thirty")
    workspace.merge(first, second)
    again = workspace.merge(second, third)
    assert any(hint.startswith(f"memory {second} stated 'twenty' (here 'thirty'), and") for hint in again.hints)


@pytest.mark.parametrize("tier", ["critical", "deprecated"])
def test_a_merge_that_changes_the_tier_says_so(workspace: Workspace, tier: str) -> None:
    one = workspace.save(text="The ferry leaves at six in the morning.").id
    two = workspace.save(text="The canteen of the harbour closes at two.").id
    assert one is not None
    assert two is not None
    workspace.update(one, importance_tier=tier)
    into, gone = (one, two) if tier == "deprecated" else (two, one)
    merged = workspace.merge(gone, into)
    now, before = ("normal", "deprecated") if tier == "deprecated" else ("critical", "normal")
    assert f"memory {into} is {now} now (it was {before}), the higher of the two tiers" in merged.hints
    workspace.undo()
    assert workspace.load(memory_id=into).memory.tier == before


def test_a_merge_into_a_memory_whose_file_was_moved_says_what_to_do(workspace: Workspace, place: Place) -> None:
    one = workspace.save(text="The ferry leaves at six in the morning.").id
    assert one is not None
    path = place.memory("two", "# Two\n\nThe canteen of the harbour closes at two.")
    workspace.index()
    two = place.id_of(workspace, "two")
    path.rename(path.with_name("moved.md"))
    with pytest.raises(FileMissing) as refused:
        workspace.merge(one, two)
    assert "index()" in refused.value.hint
    workspace.index()
    assert workspace.merge(one, two).id == two


def test_a_merge_into_a_memory_that_search_leaves_out_says_so(workspace: Workspace, place: Place) -> None:
    place.memory("old", "# Old\n\nThe old pier burned down in 1950.", folder="z_archive/002-old")
    workspace.index()
    live, archived = save(workspace, FACT).id, place.id_of(workspace, "old")
    answer = workspace.merge(live, archived)
    assert any("archive folder" in str(advice) for advice in answer.advice)
    assert workspace.search("staging database backup", include_archived=True).results[0].id == archived
    workspace.undo()
    assert not any("archive" in str(advice) for advice in workspace.merge(archived, live).advice)


def test_memories_with_more_metadata_than_is_read_of_one_file_are_not_merged(place: Place) -> None:
    for name in ("fox", "owl"):
        phrases = "".join(f"  - {name} {number} {'x' * 400}\n" for number in range(100))
        front = f"---\ntitle: {name}\nimportance_tier: critical\ntrigger_phrases:\n{phrases}---\n"
        place.write(f"specs/001-core/memory/{name}.md", f"{front}\nThe {name} hunts.\n")
    workspace = place.open()
    with pytest.raises(TooLarge, match="at most 64,000 are read"):
        workspace.merge(1, 2)
    cards = [workspace.examine(memory_id).memory for memory_id in (1, 2)]
    assert [(card.title, card.tier, len(card.triggers)) for card in cards] == [
        ("fox", Tier.CRITICAL, 100),
        ("owl", Tier.CRITICAL, 100),
    ]


@pytest.mark.parametrize("field", ["triggerPhrases", "links"])
def test_a_save_whose_metadata_would_not_be_read_is_refused(place: Place, workspace: Workspace, field: str) -> None:
    names = [f"{number} {'x' * 400}" for number in range(200)]
    with pytest.raises(TooLarge, match="at most 64,000 are read"):
        save(workspace, changed(**{field: {"caused_by": names} if field == "links" else names}))
    assert not list(place.root.glob("specs/001-x/memory/*.md"))
