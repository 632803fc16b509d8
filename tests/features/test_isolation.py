"""Can anything get across a scope by any verb? Each public verb is tried from the other side.

The other side writes, links, deletes, chats and makes checkpoints, all with the word zebra in
it. A session that may not see it must answer after that exactly as it did before, and must not
be able to name anything of it. A verb without a case here fails the first test.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Any

import pytest

from spec_kit_memory.caller import Caller, process_caller
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.settings import Isolation, Settings
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place

MARK = "zebra"
ABSENT = 987_654  # an id that nobody has


@dataclass
class World:
    """One workspace, our session on it, and the other side's."""

    place: Place
    ours: Workspace
    theirs: Workspace
    own_path: str | None
    other_paths: list[str]
    other_ids: list[int]
    other_links: list[int]
    whole: bool  # our session looks after the workspace as a whole: see SECURITY.md


@dataclass(frozen=True)
class Kind:
    ours: Isolation
    theirs: Isolation
    own_file: str | None
    other_files: tuple[str, ...]


KINDS = {
    "another user": Kind(
        Isolation(user_id="ann"),
        Isolation(user_id="bob"),
        "memory/users/ann/note.md",
        ("memory/users/bob/zebra-one.md", "memory/users/bob/zebra-two.md", "memory/users/bob/zebra-three.md"),
    ),
    "no user at all": Kind(
        Isolation(),
        Isolation(user_id="bob"),
        "memory/note.md",
        ("memory/users/bob/zebra-one.md", "memory/users/bob/zebra-two.md", "memory/users/bob/zebra-three.md"),
    ),
    "a name that begins alike": Kind(
        Isolation(user_id="bo"),
        Isolation(user_id="bob"),
        "memory/users/bo/note.md",
        ("memory/users/bob/zebra-one.md", "memory/users/bob/zebra-two.md", "memory/users/bob/zebra-three.md"),
    ),
    "another project": Kind(Isolation(project_id="blue"), Isolation(project_id="red"), "memory/note.md", ()),
    "some paths": Kind(
        Isolation(allowed_paths=("specs/001-core",)),
        Isolation(),
        "specs/001-core/memory/note.md",
        (
            "specs/002-zebra/memory/zebra-one.md",
            "specs/002-zebra/memory/zebra-two.md",
            "specs/001-core-zebra/memory/zebra-three.md",
        ),
    ),
    "no paths": Kind(
        Isolation(allowed_paths=()),
        Isolation(),
        None,
        ("specs/002-zebra/memory/zebra-one.md", "memory/zebra-two.md", "constitutional/zebra-three.md"),
    ),
}


# The same answers whether each side has a process of its own or both call one workspace.
WAYS = ("a process each", "two callers of one")


@pytest.fixture(params=[(kind, way) for kind in KINDS for way in WAYS], ids=lambda given: ", ".join(given))
def world(request: pytest.FixtureRequest, place: Place) -> World:
    name, way = request.param
    kind = KINDS[name]
    return make_world(place, kind, way)


def make_world(place: Place, kind: Kind, way: str) -> World:
    place.write(
        "specs/001-core/memory/shared.md", "---\ntriggers: [harbour bell]\n---\n# Shared\n\nThe harbour bell.\n"
    )
    place.write("specs/001-core/spec.md", "# Core\n\nThe bell rings at noon.\n")
    if kind.own_file:
        place.write(kind.own_file, "---\ntriggers: [quiet harbour]\n---\n# Own note\n\nA quiet harbour of our own.\n")
    for number, path in enumerate(kind.other_files):
        place.write(path, _theirs(number))
    if way == "a process each":
        ours, theirs = place.open(isolation=kind.ours), place.open(isolation=kind.theirs)
    else:
        file = place.open(isolation=Isolation(user_id="somebody else"))
        ours, theirs = (file.for_caller(caller_of(place.root, side)) for side in (kind.ours, kind.theirs))
    hidden = {card.id: card.path for card in theirs.list(limit=100).memories if MARK in card.path}
    made = World(place, ours, theirs, kind.own_file, list(hidden.values()), list(hidden), [], kind.ours == Isolation())
    _chat(made, "before")
    return made


def caller_of(root: Path, isolation: Isolation) -> Caller:
    return process_caller(Settings(root=root, isolation=isolation))


def _theirs(number: int) -> str:
    head = f"---\ntriggers: [zebra phrase {number}]\ntitle: Zebra {number}\n---\n"
    return f"{head}# Zebra {number}\n\nA zebra crosses the quiet harbour, number {number}.\n"


def _chat(world: World, name: str) -> None:
    """A conversation of theirs; projects have nothing else of their own."""
    lines = [{"role": "user", "content": f"the zebra in the harbour {name}"}, {"role": "assistant", "content": "seen"}]
    path = world.place.root.parent / f"zebra-{name}.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    for row in world.theirs.chat_import([path]).imported:
        world.other_ids.append(row["id"])
        world.other_paths.append(row["path"])


def busy(world: World) -> None:
    """Everything that the other side can do."""
    theirs, place = world.theirs, world.place
    _chat(world, "after")
    theirs.triggers("zebra phrase 0 and zebra phrase 1", session_id="s")
    theirs.search("zebra harbour", session_id="s")
    theirs.checkpoint_create("zebra-point")
    first, second = world.other_ids[:2]
    world.other_links.append(theirs.link(first, second, "caused", evidence="zebra evidence").link.id)
    theirs.validate(first, was_useful=True)
    theirs.update(second, title="Zebra renamed")
    files = [path for path in world.other_paths if not path.startswith("chat://")]
    if files:
        place.write(files[0], _theirs(0) + "\nMore of the zebra.\n")
        folder = files[0].rpartition("/")[0]
        place.write(f"{folder}/zebra-new.md", _theirs(9))
        (place.root / folder / "zebra-bad.md").write_bytes(b"# Zebra\n\n\xff\xfe\xff bad")
        place.write(f"{folder}/zebra-twin.md", "# Own note\n\nA quiet harbour of our own.\n")
        theirs.index()
        gone = place.write(f"{folder}/zebra-stale.md", "# Zebra stale\n\nA row without a file.\n")
        theirs.index()
        gone.unlink()
        theirs.delete(world.other_ids[2])
    else:
        theirs.index()


READS: dict[str, list[Callable[[World], Any]]] = {
    "search": [
        lambda w: w.ours.search("zebra quiet harbour bell", explain=True, include_archived=True),
        lambda w: w.ours.search("zebra", include_contiguity=True, include_content=True),
        lambda w: w.ours.search("zebra crosses", group_by="passage", mode="text"),
        lambda w: w.ours.search("zebra", mode="vector", min_score=0.9),
        lambda w: w.ours.search(concepts=["zebra", "harbour"]),
        lambda w: w.ours.search("zebra", spec_folder="002-zebra"),
        lambda w: w.ours.search("zebra", source="chat"),
        lambda w: w.ours.search("zebra harbour", as_of="2026-02-28"),
    ],
    "context": [lambda w: w.ours.context("zebra phrase 0 harbour bell", spec_folder="001-core")],
    "session": [lambda w: w.ours.session("ours")],
    "triggers": [lambda w: w.ours.triggers("zebra phrase 0, zebra phrase 1 and the harbour bell", limit=50)],
    "list": [
        lambda w: w.ours.list(limit=100),
        lambda w: w.ours.list(source="chat"),
        lambda w: w.ours.list(forgotten=True),
        lambda w: w.ours.list(spec_folder="002-zebra"),
    ],
    "stats": [lambda w: w.ours.stats(limit=100)],
    "health": [lambda w: w.ours.health()],
    "index": [lambda w: w.ours.index(), lambda w: attempt(lambda: w.ours.index(spec_folder="002-z"))],
    "history": [lambda w: w.ours.history(limit=1000), lambda w: w.ours.history(spec_folder="002-zebra")],
    "ledger_verify": [lambda w: w.ours.ledger_verify()],
    "ledger_head": [lambda w: w.ours.ledger_head()],
    "ledger_export": [lambda w: list(w.ours.ledger_export())],
    "checkpoint_list": [lambda w: w.ours.checkpoint_list()],
    "chat_list": [lambda w: w.ours.chat_list()],
    "load": [lambda w: w.ours.load(spec_folder="001-core") if w.own_path else None],
    "get": [lambda w: w.ours.get(w.own_path) if w.own_path else None],
    "why": [lambda w: [w.ours.why(card.id) for card in w.ours.list().memories]],
    "examine": [lambda w: [w.ours.examine(card.id, similar=True) for card in w.ours.list().memories]],
    "versions": [lambda w: [w.ours.versions(card.id) for card in w.ours.list().memories]],
    "care": [lambda w: w.ours.care(), lambda w: w.ours.care(set_aside=True)],
    "changes": [lambda w: w.ours.changes()],
    "facets": [lambda w: w.ours.facets("zebra quiet harbour bell")],
    "folders": [lambda w: w.ours.folders(), lambda w: attempt(lambda: w.ours.folders(name="002-zebra"))],
    "numbers": [lambda w: w.ours.numbers()],
    "save": [
        lambda w: attempt(lambda: w.ours.save(context={"sessionSummary": "the zebra crosses"}, dry_run=True)),
        lambda w: attempt(lambda: w.ours.save(text="A zebra crosses the quiet harbour, number 0.", dry_run=True)),
    ],
}

# Naming what belongs to the other side: by id, by path, by name.
CROSSINGS: dict[str, list[Callable[[World, Any], Any]]] = {
    "load": [lambda w, x: w.ours.load(x)],
    "get": [lambda w, x: w.ours.get(path_of(w, x))],
    "save": [lambda w, x: w.ours.save(file_path=path_of(w, x))],
    "update": [lambda w, x: w.ours.update(x, title="mine now")],
    "delete": [lambda w, x: w.ours.delete(x), lambda w, x: w.ours.delete(x, delete_file=True)],
    "merge": [lambda w, x: w.ours.merge(x, ABSENT + 1), lambda w, x: w.ours.merge(ABSENT + 1, x)],
    "validate": [lambda w, x: w.ours.validate(x, was_useful=True), lambda w, x: w.ours.validate(x, outdated=True)],
    "trust": [lambda w, x: w.ours.trust(x), lambda w, x: w.ours.trust(path_of(w, x))],
    "link": [lambda w, x: w.ours.link(x, ABSENT + 1, "caused"), lambda w, x: w.ours.link(ABSENT + 1, x, "caused")],
    "why": [lambda w, x: w.ours.why(x)],
    "history": [lambda w, x: w.ours.history(x)],
    "examine": [lambda w, x: w.ours.examine(x)],
    "versions": [lambda w, x: w.ours.versions(x)],
    "chat_forget": [lambda w, x: w.ours.chat_forget(str(x)), lambda w, x: w.ours.chat_forget(path_of(w, x))],
}
NAMED: dict[str, list[Callable[[World, str], Any]]] = {
    "checkpoint_diff": [lambda w, name: w.ours.checkpoint_diff(name)],
    "checkpoint_restore": [lambda w, name: w.ours.checkpoint_restore(name, clear_existing=True)],
    "checkpoint_delete": [lambda w, name: w.ours.checkpoint_delete(name)],
}
# Verbs that change something of ours: they must work, or refuse, without touching or telling of the other side.
WRITES: dict[str, list[Callable[[World], Any]]] = {
    "checkpoint_create": [lambda w: w.ours.checkpoint_create("ours")],
    "checkpoint_restore": [lambda w: attempt(lambda: w.ours.checkpoint_restore("ours", clear_existing=True))],
    "save": [
        lambda w: attempt(lambda: w.ours.save(text="A quiet harbour once more")),
        lambda w: attempt(lambda: w.ours.save(text="A zebra crosses the quiet harbour, number 1.", on_similar="merge")),
    ],
    "chat_import": [lambda w: attempt(lambda: w.ours.chat_import([w.place.root.parent / "zebra-before.jsonl"]))],
    "import_original": [lambda w: attempt(lambda: w.ours.import_original(original(w)))],
    "delete": [lambda w: attempt(lambda: w.ours.delete(spec_folder="002-zebra", confirm=True))],
    "undo": [lambda w: attempt(lambda: w.ours.undo())],
    "unlink": [lambda w: [attempt(w.ours.unlink, link) for link in (*w.other_links, ABSENT)]],
    "keep": [lambda w: [attempt(w.ours.keep, row.key) for row in w.theirs.care().items]],
    "record_sent": [lambda w: attempt(lambda: w.ours.record_sent("search", 5))],
    "health": [lambda w: w.ours.health(repair=True)],
    "index": [lambda w: w.ours.index(force=True)],
}
NOT_VERBS = {"close", "for_caller", "start_background"}


def attempt(call: Callable[..., Any], *given: Any) -> Any:
    """The answer, or the error as a caller sees it."""
    try:
        return call(*given)
    except SpecKitMemoryError as error:
        return {"code": error.code, "message": error.message, "hint": error.hint, "details": error.details}


def path_of(world: World, memory_id: int) -> str:
    known = dict(zip(world.other_ids, world.other_paths, strict=False))
    return known.get(memory_id, "memory/users/nobody/absent.md")


def original(world: World) -> Path:
    """The original system's database that knows a file of the other side."""
    import sqlite3

    path = world.place.root.parent / "original.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE IF NOT EXISTS memory_index (id INTEGER, file_path TEXT, access_count INTEGER)")
        if database.execute("SELECT count(*) FROM memory_index").fetchone() == (0,):
            rows = [(number, path, 7) for number, path in enumerate(world.other_paths, 1)]
            database.executemany("INSERT INTO memory_index VALUES (?, ?, ?)", rows)
    database.close()
    return path


def plain(answer: Any) -> Any:
    """An answer as values, without how long it took."""
    if is_dataclass(answer) and not isinstance(answer, type):
        fields = {field.name: plain(getattr(answer, field.name)) for field in dataclass_fields(answer)}
        for meta in ("latency_ms", "cache_hit"):
            fields.get("meta", {}).pop(meta, None)
        for timing in ("seconds_text", "seconds_vectors"):
            fields.pop(timing, None)
        return fields
    if isinstance(answer, Mapping):
        return {str(key): plain(value) for key, value in answer.items()}
    return [plain(item) for item in answer] if isinstance(answer, list | tuple) else answer


def told(answer: Any) -> str:
    return json.dumps(plain(answer), default=str, sort_keys=True, ensure_ascii=False)


def verbs() -> set[str]:
    return {name for name in vars(Workspace) if not name.startswith("_") and callable(getattr(Workspace, name))}


def test_every_public_verb_has_a_case() -> None:
    assert verbs() - NOT_VERBS == {*READS, *CROSSINGS, *NAMED, *WRITES}


def without_numbers_of_the_whole(verb: str, answer: Any, *, whole: bool) -> Any:
    """A session without isolation looks after the workspace: sizes and the chain as a whole are its business.

    Of the ledger every session sees all sequences and hashes: without them no part of the chain can be verified.
    """
    shown = plain(answer)
    if not whole:
        if isinstance(shown, dict):
            shown.pop("ledger", None)
        return None if verb.startswith("ledger_") else shown
    if isinstance(shown, list):
        return [without_numbers_of_the_whole(verb, item, whole=whole) for item in shown if verb != "ledger_export"]
    if not isinstance(shown, dict):
        return shown
    shown.get("meta", {}).pop("index_generation", None)
    for name in ("size_bytes", "ledger"):
        shown.pop(name, None)
    return None if verb.startswith("ledger_") else shown


def test_what_the_other_side_does_changes_no_answer(world: World) -> None:
    def answers() -> dict[str, str]:
        return {
            f"{verb} {number}": told(without_numbers_of_the_whole(verb, call(world), whole=world.whole))
            for verb, calls in READS.items()
            for number, call in enumerate(calls)
        }

    # Our own reading is counted, and counts for the order: that is not what is looked at here.
    world.ours._runtime.used = lambda memory_ids: None  # type: ignore[method-assign]
    world.ours.index()  # embeds what the saves above have left to a background that may not have come to it yet
    before = answers()
    busy(world)
    after = answers()
    assert {name for name in before if after[name] != before[name]} == set()


def test_nothing_of_the_other_side_is_in_an_answer(world: World) -> None:
    busy(world)
    for verb, calls in READS.items():
        for call in calls:
            shown = told(call(world))
            assert [path for path in world.other_paths if path in shown] == [], verb
            # The query, its words, a phrase made of it and the folder asked for are told back, in lower case.
            assert "Zebra" not in shown.replace("A Zebra", "").replace('"Zebra crosses', ""), verb
            if verb not in ("search", "history", "save", "index", "list", "folders"):
                assert MARK not in shown, verb


def test_what_is_on_the_other_side_does_not_exist(world: World) -> None:
    busy(world)
    before = state_of(world.theirs)
    for verb, calls in CROSSINGS.items():
        for call in calls:
            absent = attempt(call, world, ABSENT)
            for memory_id in world.other_ids:
                result = attempt(call, world, memory_id)
                assert isinstance(result, dict), f"{verb} got across"
                assert result["code"] in ("E080", "E110", "E011", "E014", "E010"), result
                path = path_of(world, memory_id)
                message = masked(result["message"], path, memory_id)
                if absent["code"] == result["code"] and not path.startswith("chat://"):
                    assert message == masked(absent["message"], path_of(world, ABSENT), ABSENT), "hidden is not absent"
                assert MARK not in message.casefold()
    assert state_of(world.theirs) == before


def masked(message: str, path: str, memory_id: int) -> str:
    return re.sub(rf"\b{memory_id}\b", "X", message.replace(path, "PATH"))


def test_checkpoints_of_the_other_side_cannot_be_named(world: World) -> None:
    busy(world)
    before = state_of(world.theirs)
    for calls in NAMED.values():
        for call in calls:
            result = attempt(call, world, "zebra-point")
            absent = attempt(call, world, "absent-point")
            assert result["code"] == absent["code"] == "E060"
            assert result["message"].replace("zebra-", "") == absent["message"].replace("absent-", "")
            assert MARK not in result["hint"]
    assert state_of(world.theirs) == before


def test_changing_ones_own_leaves_the_other_side_alone(world: World) -> None:
    busy(world)
    before = state_of(world.theirs, of=world.other_ids)
    for verb, calls in WRITES.items():
        for call in calls:
            shown = told(call(world))
            for path in world.other_paths if verb == "import_original" else ():
                shown = shown.replace(path, "")  # they stand in the database that was given
            for text in ("the zebra in the harbour", "zebra-before.jsonl", "002-zebra"):
                shown = shown.replace(text, "")
            if verb == "save":
                shown = re.sub("A zebra crosses|zebra crosses|zebra-crosses|zebra", "", shown)
            if verb != "keep":  # which tells back the key that it was given
                assert MARK not in shown.casefold(), verb
    assert state_of(world.theirs, of=world.other_ids) == before


def state_of(workspace: Workspace, of: list[int] | None = None) -> list[str]:
    """Everything about the other side's memories that somebody could have changed."""
    cards = [card for card in workspace.list(limit=100).memories if of is None or card.id in of]
    forgotten = [card.id for card in workspace.list(limit=100, forgotten=True).memories]
    kept = [row for row in workspace.checkpoint_list().checkpoints if MARK in row["name"]]
    return [*map(told, cards), str(forgotten), told(kept)]


# --- ways in that are not verbs --------------------------------------------------------------


def test_paths_that_lead_across_are_refused(place: Place) -> None:
    place.write("memory/users/bob/zebra.md", _theirs(0))
    place.write("memory/users/ann/note.md", "# Note\n\nOwn.\n")
    ours = place.open(isolation=Isolation(user_id="ann"))
    os.symlink(place.root / "memory/users/bob", place.root / "memory/users/ann/bob")
    os.symlink(place.root / "memory/users/bob/zebra.md", place.root / "memory/users/ann/link.md")
    os.symlink(place.root / "memory/users/bob/zebra.md", place.root / "memory/link.md")
    ours.index()
    for path in (
        "memory/users/ann/../bob/zebra.md",
        "memory/users/ann/bob/zebra.md",
        "memory/users/ann/link.md",
        "memory/link.md",
        "./memory//users/bob/zebra.md",
        "memory/users/bob/zebra.md\0.md",
        str(place.root / "memory/users/bob/zebra.md"),
        "/dev/stdin",
    ):
        for refused in (attempt(ours.get, path), attempt(lambda name: ours.save(file_path=name), path)):
            assert isinstance(refused, dict), path
            assert refused["code"] in ("E110", "E011", "E014", "E080", "E010"), refused
    assert MARK not in told(ours.list(limit=100)).casefold()
    assert MARK not in told(ours.search("crosses the quiet harbour").results).casefold()


def test_extra_paths_do_not_make_a_namespace_public(place: Place) -> None:
    place.write("memory/users/bob/zebra.md", _theirs(0))
    ours = place.open(isolation=Isolation(user_id="ann"), extra_paths=("memory/users",))
    assert ours.list(limit=100).total == 0
    nobody = place.open(extra_paths=("memory/users/bob/*.md",))
    assert nobody.list(limit=100).total == 0


def test_two_users_have_one_conversation_each_for_themselves(place: Place, tmp_path: Path) -> None:
    transcript = tmp_path / "talk.jsonl"
    transcript.write_text('{"role": "user", "content": "one talk of both"}\n', encoding="utf-8")
    ann, bob = (place.open(isolation=Isolation(user_id=name)) for name in ("ann", "bob"))
    for workspace in (ann, bob):
        assert len(workspace.chat_import([transcript]).imported) == 1
    ann.chat_forget(ann.chat_list().memories[0].path)
    assert (ann.chat_list().total, bob.chat_list().total) == (0, 1)


def test_sessions_of_two_users_with_one_name_are_two(place: Place) -> None:
    place.write("memory/bell.md", "---\ntriggers: [harbour bell]\n---\n# Bell\n\nText.\n")
    ann, bob = (place.open(isolation=Isolation(user_id=name)) for name in ("ann", "bob"))
    for _ in range(3):
        told_ann = ann.triggers("the harbour bell", session_id="s")
    assert told_ann.session["turn"] == 3
    assert bob.triggers("the harbour bell", session_id="s").session["turn"] == 1


def test_sessions_of_two_allowed_paths_with_one_name_are_two(place: Place) -> None:
    for name in ("a", "b"):
        place.write(f"memory/{name}/bell.md", "---\ntriggers: [harbour bell]\n---\n# Bell\n\nText.\n")
    one, other = (place.open(isolation=Isolation(user_id="ann", allowed_paths=(f"memory/{n}",))) for n in "ab")
    for _ in range(3):
        one.triggers("the harbour bell", session_id="s")
    one.checkpoint_create("before")
    assert other.triggers("the harbour bell", session_id="s").session["turn"] == 1
    other.checkpoint_create("after")
    assert one.triggers("the harbour bell", session_id="s").session["turn"] == 4
    other.checkpoint_restore("after", clear_existing=True)
    assert one.triggers("the harbour bell", session_id="s").session["turn"] == 5
    one.checkpoint_restore("before", clear_existing=True)
    assert one.triggers("the harbour bell", session_id="s").session["turn"] == 4
    assert other.triggers("the harbour bell", session_id="s").session["turn"] == 2


def test_what_another_user_did_last_is_no_obstacle_to_undo(place: Place) -> None:
    place.write("memory/bell.md", "# Bell\n\nText.\n")
    place.write("memory/users/bob/own.md", "# Own\n\nText of bob.\n")
    everybody, bob = place.open(), place.open(isolation=Isolation(user_id="bob"))
    everybody.update(place.id_of(everybody, "bell.md"), title="Bell of the harbour")
    bob.update(place.id_of(bob, "own.md"), title="Zebra")
    assert [row.kind for row in everybody.changes().changes] == ["update"]
    assert everybody.undo().undone == "update"
    assert [card.title for card in everybody.list().memories] == ["Bell"]
    assert {card.title for card in bob.list().memories} == {"Bell", "Zebra"}


def test_a_file_that_changes_hands_does_not_bring_its_past(place: Place) -> None:
    theirs = place.write("memory/users/bob/zebra.md", "# Plain\n\nThe same words in both.\n")
    bob = place.open(isolation=Isolation(user_id="bob"))
    old = bob.list().memories[0].id
    bob.validate(old, was_useful=True)
    theirs.unlink()
    place.write("memory/users/ann/mine.md", "# Plain\n\nThe same words in both.\n")
    ann = place.open(isolation=Isolation(user_id="ann"))
    (mine,) = ann.list().memories
    assert (mine.id != old, mine.validation_count) == (True, 0)


def test_what_one_user_forgot_another_may_still_write(place: Place) -> None:
    place.write("memory/users/bob/zebra.md", "# Plain\n\nThe same words in both.\n")
    bob = place.open(isolation=Isolation(user_id="bob"))
    bob.delete(bob.list().memories[0].id)
    place.write("memory/users/ann/mine.md", "# Plain\n\nThe same words in both.\n")
    assert place.open(isolation=Isolation(user_id="ann")).list().total == 1


def test_shared_memory_is_seen_by_everybody(place: Place, tmp_path: Path) -> None:
    place.write("memory/bell.md", "# Bell\n\nFor all.\n")
    transcript = tmp_path / "talk.jsonl"
    transcript.write_text('{"role": "user", "content": "of the project"}\n', encoding="utf-8")
    blue = place.open(isolation=Isolation(user_id=None, project_id="blue"))
    blue.chat_import([transcript])
    again = place.open(isolation=Isolation(user_id="ann", project_id="blue"))
    red = place.open(isolation=Isolation(project_id="red"))
    assert (again.list().total, red.list().total) == (2, 1)
