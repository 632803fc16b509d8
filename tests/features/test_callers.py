"""Do several callers of one workspace get what each would get from a process of its own?

`tests/features/test_isolation.py` tries to get across by every verb. Here the answers of one workspace with many
callers are compared with those of many processes, one after the other and all at once.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from spec_kit_memory.caller import Caller
from spec_kit_memory.core.memory import Actor, Scope
from spec_kit_memory.errors import BadParameter
from spec_kit_memory.features import runtime as runtime_module
from spec_kit_memory.serve.mcp import resources
from spec_kit_memory.serve.mcp.server import build_server
from spec_kit_memory.serve.mcp.workspace_handle import LiveWorkspace
from spec_kit_memory.settings import Isolation
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Clock, Place
from tests.features.test_isolation import (
    CROSSINGS,
    KINDS,
    MARK,
    NAMED,
    READS,
    WRITES,
    World,
    attempt,
    busy,
    caller_of,
    make_world,
    told,
)

DEADLINE_SECONDS = 60
# What the server offers besides tools.
OFFERED: dict[str, Callable[[Workspace], Any]] = {
    "resources": resources.listed,
    "rules": lambda w: resources.read("memory://constitutional", w),
    "a folder": lambda w: attempt(lambda: resources.read("memory://folder/001-core", w)),
    "their folder": lambda w: attempt(lambda: resources.read("memory://folder/002-zebra", w)),
    "memories": lambda w: [attempt(lambda i=i: resources.read(f"memory://{i}", w)) for i in range(1, 9)],
    "resume": lambda w: resources.prompt_text("resume", {}, w),
    "folders that begin so": lambda w: resources.complete("specFolder", "0", w, of_template=False),
    "checkpoints that begin so": lambda w: resources.complete("name", "", w, of_template=False),
}


def everything(world: World) -> dict[str, str]:
    """Every verb with every argument that the tests of isolation know, and what a server offers besides."""
    said: dict[str, Any] = {}
    for verb, calls in READS.items():
        said |= {f"{verb} {n}": attempt(call, world) for n, call in enumerate(calls)}
    for verb, crossings in CROSSINGS.items():
        for n, cross in enumerate(crossings):
            said |= {f"{verb} {n} of {i}": attempt(cross, world, i) for i in world.other_ids}
    for verb, names in NAMED.items():
        said |= {f"{verb} {n}": attempt(call, world, "zebra-point") for n, call in enumerate(names)}
    said |= {name: offer(world.ours) for name, offer in OFFERED.items()}
    for verb, changes in WRITES.items():
        said |= {f"changing {verb} {n}": attempt(call, world) for n, call in enumerate(changes)}
    return {name: plainly(answer, world) for name, answer in said.items()}


def plainly(answer: Any, world: World) -> str:
    """Without what no two workspaces have in common: where they are, how large, and the ids made for an entry."""
    text = told(answer).replace(world.place.root.as_posix(), "ROOT").replace(world.place.root.parent.as_posix(), "TMP")
    text = re.sub(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{32,64}", "ID", text)
    return re.sub(r'"size_bytes": \d+', "", text)


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[Callable[[str, str], World]]:
    places: list[Place] = []

    def make(kind: str, way: str) -> World:
        root = tmp_path.resolve() / way.replace(" ", "-") / "work"
        root.mkdir(parents=True)
        places.append(Place(root, Clock()))
        return make_world(places[-1], KINDS[kind], way)

    yield make
    for place in places:
        for workspace in place.opened:
            workspace.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_caller_gets_what_a_process_of_its_own_would_answer(worlds: Callable[[str, str], World], kind: str) -> None:
    answers = []
    for way in ("a process each", "two callers of one"):
        world = worlds(kind, way)
        busy(world)
        answers.append(everything(world))
    alone, together = answers
    assert {name: (alone[name], together[name]) for name in alone if alone[name] != together[name]} == {}


@pytest.mark.parametrize("kind", [name for name in KINDS if name != "no user at all"])
def test_what_a_server_offers_tells_nothing_of_another_caller(worlds: Callable[[str, str], World], kind: str) -> None:
    world = worlds(kind, "two callers of one")
    busy(world)
    for name, offer in OFFERED.items():
        message = told(offer(world.ours)).replace("002-zebra", "")
        assert MARK not in message.casefold(), name


def test_callers_that_ask_at_once_get_what_each_gets_alone(place: Place) -> None:
    """Caches, matchers and rules of one caller must never answer another, whoever fills them first."""
    for user in ("ann", "bob", "cy"):
        head = f"---\ntriggers: [harbour bell, {user} phrase]\n---\n"
        for n in range(3):
            place.write(f"memory/users/{user}/{n}.md", f"{head}# Note {n} of {user}\n\nHarbour bell {n} of {user}.\n")
        place.write(
            f"specs/00{len(user)}-{user}/memory/note.md", f"# Folder of {user}\n\nThe harbour bell of {user}.\n"
        )
    place.write("constitutional/house.md", "# House\n\nRing the harbour bell once.\n")
    file = place.open()
    scopes = [Isolation(user_id=user) for user in ("ann", "bob", "cy")]
    scopes += [Isolation(allowed_paths=(f"specs/00{len(user)}-{user}",)) for user in ("ann", "bob", "cy")]
    scopes += [Isolation(), Isolation(allowed_paths=()), Isolation(project_id="blue")]
    callers = [caller_of(place.root, scope) for scope in scopes]

    def asked(workspace: Workspace) -> str:
        return told(
            [
                [(card.path, card.title) for card in workspace.list(limit=100).memories],
                sorted(result.path for result in workspace.search("harbour bell", limit=50).results),
                [rule.path for rule in workspace.search("harbour bell", limit=50).constitutional],
                [row["path"] for row in workspace.triggers("the harbour bell", limit=50).matches],
                workspace.stats(limit=50).folders,
                workspace.stats().totals,
                workspace.context("harbour bell").text,
                [attempt(workspace.load, memory_id) is None for memory_id in range(1, 15)],
            ]
        )

    file._runtime.shared.accesses.add = lambda memory_id, at: {}  # type: ignore[method-assign, assignment, misc]
    expected = {caller: asked(place.open(isolation=scope)) for caller, scope in zip(callers, scopes, strict=True)}
    wrong: list[tuple[str, str]] = []
    start = threading.Barrier(2 * len(callers))

    def go(caller: Caller) -> None:
        start.wait(DEADLINE_SECONDS)
        for _ in range(5):
            message = asked(file.for_caller(caller))
            if message != expected[caller]:
                wrong.append((expected[caller], message))

    threads = [threading.Thread(target=go, args=(caller,)) for caller in callers * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


def test_two_clients_of_one_server_are_the_callers_that_the_edge_says(place: Place) -> None:
    place.write("constitutional/house.md", "# House\n\nRing the bell.\n")
    for user in ("ann", "bob"):
        place.write(f"memory/users/{user}/note.md", f"# Note\n\nThe harbour of {user}.\n")
    workspace = place.open()
    users: dict[str, str] = {}

    def identify(ctx: Any, caller: Caller) -> Caller:
        connection = str(ctx.lifespan_context)
        user = users.setdefault(connection, ("ann", "bob")[len(users) % 2])
        return Caller(scope=Scope(user=user), connection=connection, session=f"of {user}")

    async def talk() -> None:
        server = build_server(LiveWorkspace(lambda: workspace, background=False), identify=identify)
        async with Client(server) as ann, Client(server) as bob:
            for client, user, other in ((ann, "ann", "bob"), (bob, "bob", "ann"), (ann, "ann", "bob")):
                text = str(await client.call_tool("memory_search", {"query": "harbour", "dedup": False}))
                assert (f"harbour of {user}" in text, f"harbour of {other}" in text) == (True, False)
                saved = await client.call_tool(
                    "memory_save", {"context": {"sessionSummary": f"The boats of {user} are blue."}}
                )
                assert f"memory/users/{user}/" in str(saved)
            for client, other in ((ann, "bob"), (bob, "ann")):
                assert f"of {other}" not in str(await client.list_resources())
                assert f"of {other}" not in str(await client.get_prompt("resume", {}))
                for memory_id in range(1, 8):
                    assert f"of {other}" not in await resource(client, memory_id)

    async def resource(client: Client, memory_id: int) -> str:
        try:
            return str(await client.read_resource(f"memory://{memory_id}"))
        except MCPError as error:
            return f"{error.error.message} {error.error.data}"

    async def bounded() -> None:
        with anyio.fail_after(DEADLINE_SECONDS):
            await talk()

    anyio.run(bounded)
    sessions = {entry.session for entry in workspace._runtime.whole.record.ledger() if entry.actor == Actor.USER}
    assert sessions == {"of ann", "of bob"}


def test_a_change_is_recorded_with_the_actor_and_session_of_its_caller(place: Place) -> None:
    place.write("memory/note.md", "# Note\n\nText.\n")
    workspace = place.open()
    workspace.for_caller(Caller(actor=Actor.HOOK, session="s-1")).update(1, title="One")
    workspace.for_caller(Caller(session="s-2")).update(1, title="Two")
    latest = list(workspace._runtime.whole.record.ledger())[-2:]
    assert [(entry.actor, entry.session) for entry in latest] == [(Actor.HOOK, "s-1"), (Actor.USER, "s-2")]


def test_a_scan_gives_each_file_its_owner_whoever_caused_it(place: Place, tmp_path: Path) -> None:
    place.write("memory/note.md", "# Note\n\nText.\n")
    workspace = place.open(index=False)
    ann = workspace.for_caller(caller_of(place.root, Isolation(user_id="ann", project_id="blue")))
    for user in ("ann", "bob"):
        place.write(f"memory/users/{user}/own.md", f"# Own\n\nOf {user}.\n")
    ann.index()
    transcript = tmp_path / "talk.jsonl"
    transcript.write_text('{"role": "user", "content": "of ann"}\n', encoding="utf-8")
    ann.chat_import([transcript])
    memories = workspace._runtime.whole.documents.find()
    results = {memory.path.rpartition("/")[0]: (memory.owner, memory.project) for memory in memories}
    assert results == {
        "memory": (None, None),
        "memory/users/ann": ("ann", None),
        "memory/users/bob": ("bob", None),
        "chat://projects/blue/users/ann": ("ann", "blue"),
    }


def test_rules_are_told_once_to_each_connection_of_each_caller(place: Place) -> None:
    place.write("constitutional/house.md", "# House\n\nRing the bell.\n")
    place.write("memory/note.md", "# Note\n\nThe harbour.\n")
    workspace = place.open()

    def told_rules(user: str | None, connection: str) -> bool:
        caller = Caller(scope=Scope(user=user), connection=connection)
        return bool(workspace.for_caller(caller).search("harbour").constitutional)

    assert [told_rules("ann", "1"), told_rules("ann", "1"), told_rules("ann", "2")] == [True, False, True]
    assert [told_rules("bob", "1"), told_rules("bob", "1")] == [True, False]
    assert [told_rules("ann", ""), told_rules("ann", "")] == [True, True]


def test_what_was_rebuilt_of_the_past_for_one_caller_is_not_shown_to_another(place: Place) -> None:
    place.write("memory/users/ann/own.md", "# Own\n\nThe harbour of ann.\n")
    workspace = place.open()
    place.clock.pass_(days=2)
    ann, bob = (workspace.for_caller(Caller(scope=Scope(user=user))) for user in ("ann", "bob"))
    assert len(ann.search("harbour", as_of="2026-03-02").results) == 1
    assert bob.search("harbour", as_of="2026-03-02").results == ()
    assert len(ann.search("harbour", as_of="2026-03-02").results) == 1


def test_a_view_closes_nothing_and_outlives_the_start_of_the_background(place: Place) -> None:
    place.write("memory/note.md", "# Note\n\nThe harbour.\n")
    workspace = place.open()
    view = workspace.for_caller(Caller())
    with view:
        pass
    assert workspace.list().total == 1
    workspace.start_background()
    assert view._background is workspace._background is not None
    assert view.caller == Caller()


def test_views_of_more_scopes_than_are_kept_still_answer_for_their_own(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_module, "MOST_VIEWS", 2)
    for number in range(5):
        place.write(f"memory/users/u{number}/own.md", f"# Own\n\nThe harbour of number {number}.\n")
    workspace = place.open()
    views = [workspace.for_caller(Caller(scope=Scope(user=f"u{number}"))) for number in range(5)]
    for _ in range(2):
        for number, view in enumerate(views):
            assert [result.path for result in view.search("harbour").results] == [f"memory/users/u{number}/own.md"]
    assert len(workspace._runtime.shared._views) == 2


@pytest.mark.parametrize("user", ["", ".", "..", "a/b", "a\\b", "../b", "a\0b"])
def test_a_user_id_that_is_no_folder_name_is_refused(user: str) -> None:
    with pytest.raises(BadParameter):
        Caller(scope=Scope(user=user))
