"""Does any verb reach another project or another user? Every verb of the contract is tried; a new one must be, too.

A stranger gets the answer that it would get if the other project were not there, and changes nothing of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from uuid import uuid4

import pytest

from spec_kit_memory.core.citations import Citations
from spec_kit_memory.core.delivery import FileOperation, OperationKind
from spec_kit_memory.core.memory import (
    Actor,
    Change,
    Filter,
    HistoryEntry,
    Link,
    Presence,
    Relation,
    Scope,
    Session,
    Stamp,
)
from spec_kit_memory.core.operation import Operation
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.index import open_index
from spec_kit_memory.index.contract import BadFile, Care, Documents, Index, Outbox, Record, StateFiles, Vectors
from spec_kit_memory.index.postgres.engine import PostgresIndex
from spec_kit_memory.index.transfer import TABLES
from tests.index.conftest import ENGINES
from tests.index.material import BY_USER, NOON, embed_all, entry, sha, vector
from tests.postgres_server import Server

SECRET = "zebra crossing at dawn"
PATH = "memory/users/ana/secret.md"
SIGNS = ("zebra", "users/ana", "stripes")  # none of which a stranger may be shown
OPERATION = Operation(id="00000000-0000-4000-8000-000000000001")
ANA = Scope(user="ana")
BOB = Scope(user="bob", prefixes=("memory/users/bob",))

Trial = Callable[[Index], object]

TRIALS: dict[str, list[Trial]] = {
    "Index.generation": [lambda s: s.generation()],
    "Index.exported": [lambda s: _exported(s)],
    "Index.imported": [lambda s: _imported(s)],
    "Index.within": [lambda s: s.within(Scope(user="ana")).documents.find()],
    "Index.together": [lambda s: _together(s)],
    "Index.warm": [lambda s: _warmed(s)],
    "Index.require_sound": [lambda s: s.require_sound()],
    "Index.require_valid_values": [lambda s: s.require_valid_values()],
    "Documents.put": [
        lambda s: s.documents.put(entry("memory/users/bob/x.md", SECRET, owner="bob"), BY_USER, memory_id=1),
        lambda s: s.documents.put(entry(PATH, "mine now"), BY_USER, explicit=True),
    ],
    "Documents.scanned": [
        lambda s: s.documents.scanned({PATH: Stamp(9, 9, 9)}),
        lambda s: s.documents.scanned(cleared=["memory/users/ana/bad.md"]),
        lambda s: s.documents.scanned(bad=[BadFile("memory/users/ana/bad.md", "E013", "mine", NOON)]),
        lambda s: s.documents.scanned(cited={1: Citations("x", ())}),
    ],
    "Documents.vanish": [lambda s: s.documents.vanish(PATH, BY_USER)],
    "Documents.forget": [
        lambda s: s.documents.forget(1, BY_USER),
        lambda s: s.documents.forget(1, BY_USER, into=2),
    ],
    "Documents.recall": [lambda s: s.documents.recall(3, BY_USER)],
    "Documents.get": [
        lambda s: s.documents.get(1, any_presence=True),
        lambda s: s.documents.get(path=PATH, any_presence=True),
    ],
    "Documents.many": [
        lambda s: s.documents.many([1, 2, 3]),
        lambda s: s.documents.many(fingerprint=sha(SECRET)[:16]),
    ],
    "Documents.find": [lambda s, p=p: s.documents.find(presence=p) for p in Presence],  # type: ignore[misc]
    "Documents.count": [lambda s, p=p: s.documents.count(presence=p) for p in Presence],  # type: ignore[misc]
    "Documents.tally": [lambda s: s.documents.tally()],
    "Documents.text": [
        lambda s: s.documents.text(1),
        lambda s: s.documents.text(content_hash=sha(SECRET)),
        lambda s: s.documents.text(content_hashes=[sha(SECRET)]),
    ],
    "Documents.passages": [
        lambda s: s.documents.passages(list(range(1, 9))),
        lambda s: s.documents.passages(memory_ids=[1]),
    ],
    "Documents.stored": [
        lambda s: s.documents.stored(),
        lambda s: s.documents.stored(PATH),
        lambda s: s.documents.stored(below=["memory"]),
        lambda s: s.documents.stored(alike=sha(SECRET)[:16]),
    ],
    "Documents.triggers": [lambda s: s.documents.triggers()],
    "Documents.match": [
        lambda s: s.documents.match(["zebra"], Filter(), 9),
        lambda s: s.documents.match(["zebra crossing"], Filter(spec_folder="001-a"), 9),
    ],
    "Record.amend": [
        lambda s: s.record.amend(1, BY_USER, outdated=True),
        lambda s: s.record.amend(1, BY_USER, overrides={"title": "mine"}),
        lambda s: s.record.amend(1, BY_USER, vouched=True),
        lambda s: s.record.amend(1, BY_USER, validation=(Decimal(1), 1)),
        lambda s: s.record.amend(1, BY_USER, history=[_foreign()]),
    ],
    "Record.use": [lambda s: s.record.use({1: 5.0, 2: 5.0}, NOON)],
    "Record.put_link": [
        lambda s: s.record.put_link(Link(0, 1, 2, Relation.SUPPORTS), BY_USER),
        lambda s: s.record.put_link(Link(1, 1, 2, Relation.CAUSED, strength=0.1), BY_USER),
    ],
    "Record.drop_link": [lambda s: s.record.drop_link(1, BY_USER)],
    "Record.links": [lambda s: s.record.links(), lambda s: s.record.links([1, 2])],
    "Record.history": [
        lambda s: s.record.history(),
        lambda s: s.record.history(1),
        lambda s: s.record.history(spec_folder="001-a"),
        lambda s: s.record.history(ledger=[1, 2, 3]),
    ],
    "Record.ledger": [lambda s: list(s.record.ledger()), lambda s: list(s.record.ledger(last=True))],
    "Record.is_committed": [lambda s: s.record.is_committed(OPERATION.id)],
    "Record.session": [lambda s: s.record.session("s")],
    "Record.change_session": [lambda s: s.record.change_session("s", lambda found: replace(found, turn=9), NOON)],
    "Vectors.use_model": [lambda s: s.vectors.use_model("another-model", 4, "others")],
    "Vectors.work": [lambda s: s.vectors.work(9)],
    "Vectors.put": [lambda s: s.vectors.put({sha(SECRET): (vector(0.0, 1.0, 0.0), b"x")})],
    "Vectors.get": [lambda s: list(s.vectors.get([sha(SECRET), sha("zebra stripes")]))],
    "Vectors.failed": [
        lambda s: s.vectors.failed("no", [sha(SECRET)]),
        lambda s: s.vectors.failed("nothing works"),
    ],
    "Vectors.match": [lambda s: s.vectors.match([1.0, 1.0, 1.0], Filter(), 9)],
    "Vectors.token_states": [lambda s: s.vectors.token_states([1, 2, 3])],
    "Outbox.require_base": [lambda s: s.outbox.require_base({PATH: sha(SECRET)}) if s.outbox else None],
    "Outbox.keep_redactions": [lambda s: s.outbox.keep_redactions({PATH: 7}) if s.outbox else None],
    "Outbox.add": [
        lambda s: s.outbox.add([FileOperation(OperationKind.REMOVE, PATH)], author="bob") if s.outbox else None
    ],
    "Outbox.deliveries": [lambda s: s.outbox and sorted(s.outbox.deliveries([PATH]))],
    "Outbox.backlog": [lambda s: s.outbox and s.outbox.backlog()],
    "StateFiles.sizes": [lambda s: s.state_files and s.state_files.sizes("checkpoint")],
    "StateFiles.parts": [lambda s: s.state_files and list(s.state_files.parts("checkpoint", "one"))],
    "StateFiles.writing": [lambda s: _overwritten(s)],
    "StateFiles.remove": [lambda s: s.state_files and s.state_files.remove("checkpoint", "one")],
    "StateFiles.alone": [lambda s: _alone(s)],
    "StateFiles.seconds_left": [lambda s: s.state_files and s.state_files.seconds_left("scan", NOON, pause_seconds=60)],
    "Care.stats": [lambda s: s.care.stats(), lambda s: s.care.stats(size=True)],
    "Care.remarks": [lambda s: s.care.remarks(), lambda s: s.care.remarks([1, 2])],
    "Care.bad_files": [lambda s: s.care.bad_files()],
    "Care.snapshot": [lambda s: [row for row in s.care.snapshot() if row["kind"] != "header"]],
    "Care.restore": [lambda s: s.care.restore(list(s.care.snapshot()), BY_USER, clear=True, where=Filter())],
    "Care.check": [lambda s: s.care.check(now=NOON)],
    "Care.repair": [lambda s: s.care.repair(BY_USER)],
    "Care.rebuild": [lambda s: s.care.rebuild(BY_USER).tables],
}
NO_CROSSING = {
    "Index.documents": "a part, whose verbs are tried",
    "Index.record": "a part, whose verbs are tried",
    "Index.vectors": "a part, whose verbs are tried",
    "Index.care": "a part, whose verbs are tried",
    "Index.outbox": "a part, whose verbs are tried",
    "Index.state_files": "a part, whose verbs are tried",
    "Index.read_only": "is about the place, not about what is in it",
    "Index.close": "closes this handle",
    "Index.when_new": "registers a function",
    "Index.bulk": "changes how the next writes are synced",
    "Index.unmoved": "tells whether reads hang together",
    "Index.steady": "changes how the next reads hang together",
    "Index.frozen": "changes how the next matches hang together",
    "Index.hurried": "changes how long the next writes wait",
}
# A handle with a scope has these for the program itself, which uses them on the whole workspace only.
NOT_FOR_A_SCOPE = {
    "Index.within": "whoever opens a handle decides its scope, and callers never get one",
    "Index.exported": "copies the whole index",
    "Index.imported": "fills the whole index",
    "Vectors.use_model": "the model is the workspace's",
    "Vectors.put": "the words' hash is their key, whoever has them",
    "Vectors.failed": "the words' hash is their key, whoever has them",
    "Care.repair": "mends the whole index",
    **{f"Outbox.{name}": "no file of a person's own goes there" for name in (*vars(Outbox),) if name[0] != "_"},
    **{f"StateFiles.{name}": "is what a file in the state folder is" for name in vars(StateFiles) if name[0] != "_"},
    "Care.rebuild": "makes the whole index anew",
    "Record.is_committed": "any scope may ask, by an id that is not guessed",
}


def verbs() -> Iterator[str]:
    for part in (Index, Documents, Record, Vectors, Care, Outbox, StateFiles):
        for name, member in vars(part).items():
            if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                yield f"{part.__name__}.{name}"


def test_every_verb_of_the_contract_is_tried() -> None:
    assert sorted(verbs()) == sorted([*TRIALS, *NO_CROSSING]), "a new verb needs its trial, or a reason for none"
    assert set(NOT_FOR_A_SCOPE) <= set(TRIALS)


def _foreign() -> HistoryEntry:
    return HistoryEntry("1", 1, "ADD", None, {"title": "x"}, Actor.USER, NOON)  # type: ignore[arg-type]


def _exported(store: Index) -> list[object]:
    with store.exported() as source:
        return [list(source.rows(table)) for table in TABLES]


def _imported(store: Index) -> object:
    with store.imported() as target:
        return [list(target.rows(table)) for table in TABLES]


def _warmed(store: Index) -> object:
    store.warm()
    return store.documents.match(["zebra"], Filter(), 9)


def _together(store: Index) -> object:
    with store.together():
        return store.documents.find(), store.documents.stored(), store.record.links()


def _overwritten(store: Index) -> object:
    if store.state_files is not None:
        with store.state_files.writing("checkpoint", "one") as write:
            write(b"mine")
    return store.state_files and store.state_files.sizes("checkpoint")


def _alone(store: Index) -> object:
    if store.state_files is not None:
        with store.state_files.alone("checkpoint"):
            return store.state_files.sizes("checkpoint")
    return None


def filled(store: Index) -> Index:
    made = Change(Actor.USER, NOON, reason="test", operation=OPERATION)
    store.documents.put(entry(PATH, SECRET, triggers=["zebra"], spec_folder="001-a", owner="ana"), made)
    store.documents.put(entry("memory/users/ana/b.md", "zebra stripes", spec_folder="001-a", owner="ana"), BY_USER)
    store.documents.put(entry("memory/users/ana/gone.md", "zebra gone", owner="ana"), BY_USER)
    store.documents.forget(3, BY_USER)
    store.documents.scanned(bad=[BadFile("memory/users/ana/bad.md", "E012", "bad zebra", NOON)])
    embed_all(store)
    store.record.put_link(Link(0, 1, 2, Relation.CAUSED), BY_USER)
    store.record.change_session("s", lambda _: Session("s", turn=3), NOON)
    store.record.use({1: 2.0}, NOON)
    if store.state_files is not None:
        with store.state_files.writing("checkpoint", "one") as write:
            write(b"zebra")
        store.state_files.seconds_left("scan", NOON, pause_seconds=60)
    if store.outbox is not None:
        store.outbox.add([FileOperation(OperationKind.WRITE, PATH, data=b"zebra", base=None)], author="ana")
    return store


def state(store: Index) -> dict[str, object]:
    """All that one could have changed."""
    return {
        "rows": [row for row in store.care.snapshot() if row["kind"] != "header"],
        "memories": [store.documents.find(presence=presence) for presence in Presence],
        "stored": store.documents.stored(),
        "texts": [store.documents.text(1), store.documents.text(2)],
        "matches": store.documents.match(["zebra"], Filter(), 9),
        "near": store.vectors.match([1.0, 1.0, 1.0], Filter(), 9),
        "vectors": sorted(store.vectors.get([passage.hash for passage in store.documents.passages([1, 2])])),
        "work": store.vectors.work(9),
        "links": store.record.links(),
        "history": store.record.history(),
        "ledger": list(store.record.ledger()),
        "session": store.record.session("s"),
        "bad": store.care.bad_files(),
        "stats": store.care.stats(),
        "generation": store.generation(),
        "checkpoints": store.state_files and list(store.state_files.parts("checkpoint", "one")),
        "outbox": store.outbox and (store.outbox.deliveries([PATH]), store.outbox.backlog()),
    }


def answer(trial: Trial, store: Index) -> str:
    """What it says, be it an answer or a refusal."""
    try:
        return repr(trial(store))
    except SpecKitMemoryError as error:
        return f"{type(error).__name__}: {error.message} {error.hint}"


@pytest.fixture(scope="module", params=ENGINES)
def own(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Own]:
    """One with secrets, for all trials: none of them may change it."""
    engine, run = str(request.param), uuid4().hex
    opened: list[Index] = []

    if engine == "postgres":
        server: Server = request.getfixturevalue("server")
        server.execute(f"CREATE DATABASE alone_{run}")

    def open_named(name: str, alone: bool = False) -> Index:
        if engine == "postgres":
            url = server.url(f"alone_{run}") if alone else server.url()
            opened.append(PostgresIndex(url, f"{run}-{name}", accepts=True))
        else:
            opened.append(open_index(tmp_path_factory.mktemp(name) / "index.sqlite"))
        return opened[-1]

    store = open_named("own")
    yield Own(filled(store), state(store), state(store.within(ANA)), open_named)
    for one in opened:
        one.close()


@dataclass(frozen=True)
class Own:
    store: Index
    before: dict[str, object]
    seen_by_ana: dict[str, object]
    open: Callable[[str, bool], Index]  # another one of that name; True: where there is no other


@pytest.mark.parametrize("verb", TRIALS)
def test_no_verb_reaches_another_project(own: Own, verb: str) -> None:
    alone, strange = own.open(f"alone-{verb}", True), own.open(f"strange-{verb}", False)
    for trial in TRIALS[verb]:
        assert answer(trial, strange) == answer(trial, alone), "as if the other project were not there"
        assert state(own.store) == own.before


@pytest.mark.parametrize("verb", [verb for verb in TRIALS if verb not in NOT_FOR_A_SCOPE])
def test_no_verb_reaches_another_user(own: Own, verb: str) -> None:
    for trial in TRIALS[verb]:
        message = answer(trial, own.store.within(BOB))
        # A refusal may repeat what was asked for.
        assert not [sign for sign in SIGNS if sign in message.replace(PATH, "")], message
        assert state(own.store.within(ANA)) == own.seen_by_ana
