"""Two projects, people on both kinds of sign-in: does anything of the other side come through, by any way in?

Every tool, resource, prompt and completion is tried; one that is added without a case here fails.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import psycopg
import pytest
from starlette.datastructures import Headers
from starlette.testclient import TestClient

from spec_kit_memory import settings as settings_module
from spec_kit_memory.advice import advise, finding, outcome
from spec_kit_memory.answers import Result, SearchAnswer
from spec_kit_memory.core.memory import ContextType, Source, State, Tier
from spec_kit_memory.errors import AccessDenied
from spec_kit_memory.serve import render
from spec_kit_memory.serve.http.issuer import Issuer
from spec_kit_memory.serve.http.sign_in import TokenChecker
from spec_kit_memory.serve.http.team_app import Team, team_application
from spec_kit_memory.serve.mcp import resources
from spec_kit_memory.serve.mcp.server import WORKERS
from spec_kit_memory.serve.mcp.team_server import caller_for
from spec_kit_memory.serve.messages import for_model, for_person
from spec_kit_memory.serve.tools import BY_NAME, TOOLS
from spec_kit_memory.team.database import TeamDatabase
from spec_kit_memory.team.project_answers import joined_projects
from spec_kit_memory.team.rights import NEEDED, Access, Role, User, read_grants
from tests.postgres_server import Server
from tests.serve.test_http import HEADERS
from tests.serve.test_sign_in import AUDIENCE, REFUSED, Authority
from tests.team.test_hook_signatures import HOSTS

ERA = "2026-07-28"
GRANTS = read_grants(
    [
        {"claim": "groups", "value": f"{name}-{role}", "project": name, "role": role}
        for name in ("shop", "bank")
        for role in ("reader", "writer", "admin")
    ]
)
WAITS = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
SECRET = "kestrel vault combination nineteen"


class Served:
    def __init__(self, client: TestClient, team: Team, authority: Authority, folder: Path) -> None:
        self.client, self.team, self.authority, self.folder = client, team, authority, folder

    def token(self, kind: str, user: str, role: str, *projects: str) -> str:
        if kind == "static":
            return self.team.tokens.create(user, projects=projects, role=role)[1]
        groups = [f"{name}-{role}" for name in projects]
        return self.authority.token(sub=user, groups=groups, scope="memory:read memory:write memory:admin")

    def user(self, kind: str, subject: str) -> User:
        return User("local" if kind == "static" else self.authority.url, subject)

    def ask(self, token: str, method: str, params: dict[str, Any], name: str = "") -> httpx2.Response:
        meta = {
            "io.modelcontextprotocol/protocolVersion": ERA,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        }
        body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {**params, "_meta": meta}}
        headers = {"authorization": f"Bearer {token}", "mcp-protocol-version": ERA, "mcp-method": method}
        headers |= {"mcp-name": name} if name else {}
        return self.client.post("/mcp", headers={**HEADERS, **headers}, content=json.dumps(body))

    def call(self, token: str, tool: str, /, **arguments: Any) -> dict[str, Any]:
        return self.result(self.ask(token, "tools/call", {"name": tool, "arguments": arguments}, tool))

    def keep_own(self, token: str, title: str, text: str) -> int:
        """A note of the caller's own in the shop; returns its id."""
        context = {"title": title, "sessionSummary": text, "triggerPhrases": ["my own diary phrase"]}
        saved = self.call(token, "memory_save", project="shop", context=context, vault="personal")
        return int(saved["data"]["id"])

    def result(self, answer: httpx2.Response) -> dict[str, Any]:
        text = answer.text
        body = json.loads(text[text.index("{") :])
        return dict(body.get("result", {}).get("structuredContent") or body.get("result") or body)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def served(database: TeamDatabase, tmp_path: Path, authority: Authority) -> Iterator[Served]:
    data = tmp_path / "data"
    data.mkdir()
    own = settings_module.load(data, overrides={"semantic.model": "hashing", "watch": "off"})
    jwt = TokenChecker(Issuer(authority.url), AUDIENCE, kept_claims=frozenset(("groups",)))
    team = Team(database, own, jwt=jwt, grants=GRANTS, background=False)
    for name, text in (("shop", "The till takes cards and cash."), ("bank", f"The {SECRET}.")):
        notes = tmp_path / name / "specs" / f"001-{name}-vault" / "memory"
        notes.mkdir(parents=True)
        front = f"---\ntitle: Notes of the {name}\ntriggers: [{name} kestrel phrase]\n---\n"
        (notes / "note.md").write_text(f"{front}# Notes of the {name}\n\n{text}\n", encoding="utf-8")
        team.registry.add(name, repository=str(tmp_path / name))
        with team.projects.use(name) as workspace:
            workspace.index()
            workspace.checkpoint_create(f"{name}-kestrel-checkpoint")
    app = team_application(team, host="127.0.0.1", jwt=jwt, allowed_hosts=["memory.example.org"])
    with TestClient(app, base_url="https://memory.example.org") as client:
        yield Served(client, team, authority, tmp_path)
    team.projects.close(seconds=5)


KINDS = ("static", "signed in")
# Arguments that would show or change something of the bank, as somebody would call it who knows what is there.
CALLS: dict[str, dict[str, Any]] = {
    "memory_search": {"query": SECRET, "includeArchived": True},
    "memory_context": {"prompt": f"bank kestrel phrase {SECRET}", "specFolder": "001-bank-vault"},
    "memory_load": {"specFolder": "001-bank-vault"},
    "memory_get": {"path": "specs/001-bank-vault/memory/note.md", "from": 1, "count": 9},
    "memory_match_triggers": {"prompt": "bank kestrel phrase"},
    "memory_save": {"context": {"sessionSummary": "left by somebody else"}, "specFolder": "001-bank-vault"},
    "memory_list": {"specFolder": "001-bank-vault"},
    "memory_update": {"id": 1, "title": "Taken over"},
    "memory_delete": {"id": 1},
    "memory_validate": {"id": 1, "wasUseful": False},
    "memory_stats": {},
    "memory_health": {},
    "memory_index_scan": {},
    "memory_history": {"id": 1},
    "memory_causal_link": {"sourceId": 1, "targetId": 1, "relation": "supports"},
    "memory_causal_unlink": {"linkId": 1},
    "memory_drift_why": {"memoryId": 1},
    "checkpoint_create": {"name": "mine"},
    "checkpoint_list": {},
    "checkpoint_restore": {"name": "bank-kestrel-checkpoint"},
    "checkpoint_delete": {"name": "bank-kestrel-checkpoint"},
}
TELLING = (SECRET, "Notes of the bank", "bank-kestrel-checkpoint", "bank kestrel phrase")


def leaks(shown: object, *, asked: object = "") -> list[str]:
    """What is told of the bank that the question did not say itself."""
    text = json.dumps(shown).casefold()
    return [word for word in TELLING if word.casefold() in text and word.casefold() not in json.dumps(asked).casefold()]


def test_every_tool_has_a_case() -> None:
    assert set(CALLS) == {tool.name for tool in TOOLS}


@pytest.mark.parametrize("kind", KINDS)
def test_no_tool_shows_or_changes_another_project(served: Served, kind: str) -> None:
    ana = served.token(kind, "ana", "admin", "shop")
    with served.team.projects.use("bank") as workspace:
        before = (workspace.ledger_head().head, workspace.list().memories)
    for tool, arguments in CALLS.items():
        here = served.call(ana, tool, **arguments)  # in her own project, by default
        assert not leaks(here, asked=arguments), tool
        there = served.call(ana, tool, project="bank", **arguments)
        nowhere = served.call(ana, tool, project="nank", **arguments)
        assert there["code"] == "E030", (tool, there)
        assert json.dumps(there).replace("bank", "nank") == json.dumps(nowhere), tool
        wide = served.call(ana, tool, projects=["shop", "bank"], **arguments)
        assert wide["code"] == "E030", (tool, wide)
        assert not leaks(wide, asked=arguments), tool
    with served.team.projects.use("bank") as workspace:
        assert (workspace.ledger_head().head, workspace.list().memories) == before


@pytest.mark.parametrize("kind", KINDS)
def test_no_resource_prompt_or_completion_shows_another_project(served: Served, kind: str) -> None:
    ana = served.token(kind, "ana", "admin", "shop")
    for uri in ("1", "folder/001-bank-vault", "constitutional", "999"):
        there, nowhere = (
            served.result(
                served.ask(ana, "resources/read", {"uri": f"memory://{name}/{uri}"}, f"memory://{name}/{uri}")
            )
            for name in ("bank", "nank")
        )
        assert json.dumps(there).replace("bank", "nank") == json.dumps(nowhere).replace("bank", "nank"), uri
        assert "error" in there
    assert not leaks(served.result(served.ask(ana, "resources/list", {})))
    assert not leaks(served.result(served.ask(ana, "resources/templates/list", {})))
    for prompt in resources.PROMPTS:
        given = {name: "bank-kestrel-checkpoint" for name, _, needed in prompt.arguments if needed}
        own = served.result(served.ask(ana, "prompts/get", {"name": prompt.name, "arguments": given}, prompt.name))
        assert not leaks(own, asked=given), prompt.name
        given |= {"project": "bank"}
        there = served.result(served.ask(ana, "prompts/get", {"name": prompt.name, "arguments": given}, prompt.name))
        assert "error" in there, prompt.name
    for argument in ("project", "specFolder", "name"):
        for context in ({}, {"context": {"arguments": {"project": "bank"}}}):
            ref = {"type": "ref/prompt", "name": "checkpoint"}
            asked = {"ref": ref, "argument": {"name": argument, "value": "b"}, **context}
            completed = served.result(served.ask(ana, "completion/complete", asked))
            assert "bank" not in json.dumps(completed.get("completion", {})), argument


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_the_server_lists_to_one_is_read_or_completed_for_another(served: Served, kind: str) -> None:
    """Whatever the bank's own people are shown, by the server's lists and not by ours, is tried from the shop."""
    bea, ana = served.token(kind, "bea", "admin", "bank"), served.token(kind, "ana", "admin", "shop")
    listed = served.result(served.ask(bea, "resources/list", {}))["resources"]
    templates = served.result(served.ask(bea, "resources/templates/list", {}))["resourceTemplates"]
    prompts = served.result(served.ask(bea, "prompts/list", {}))["prompts"]
    assert {tool["name"] for tool in served.result(served.ask(bea, "tools/list", {}))["tools"]} == set(CALLS)
    assert listed
    assert templates
    assert prompts
    values = {"project": "bank", "id": "1", "name": "001-bank-vault"}
    uris = [row["uri"] for row in listed]
    uris += [re.sub(r"\{\W?(\w+)\}", lambda part: values[part[1]], row["uriTemplate"]) for row in templates]
    for uri in uris:
        there = served.result(served.ask(ana, "resources/read", {"uri": uri}, uri))
        assert "error" in there, uri
        assert not leaks(there, asked=uri)
        assert "contents" in served.result(served.ask(bea, "resources/read", {"uri": uri}, uri)), uri
    arguments = [
        ({"type": "ref/prompt", "name": prompt["name"]}, argument["name"])
        for prompt in prompts
        for argument in prompt.get("arguments", ())
    ]
    arguments += [
        ({"type": "ref/resource", "uri": row["uriTemplate"]}, name)
        for row in templates
        for name in re.findall(r"\{\W?(\w+)\}", row["uriTemplate"])
    ]
    completed: set[str] = set()
    for ref, name in arguments:
        for begun in ("", "b", "0", "bank", "001-bank"):
            for context in ({}, {"context": {"arguments": {"project": "bank"}}}):
                asked = {"ref": ref, "argument": {"name": name, "value": begun}, **context}
                for_ana = served.result(served.ask(ana, "completion/complete", asked)).get("completion", {})
                assert "bank" not in json.dumps(for_ana), asked
                for_bea = served.result(served.ask(bea, "completion/complete", asked)).get("completion", {})
                completed |= set(for_bea.get("values", ()))
    assert {"bank", "001-bank-vault", "bank-kestrel-checkpoint"} <= completed, "there was something to be seen"


@pytest.mark.parametrize("kind", KINDS)
def test_every_tool_needs_its_role(served: Served, kind: str) -> None:
    for role in Role:
        token = served.token(kind, f"{role.label}-person", role.label, "shop")
        for tool, arguments in CALLS.items():
            needed = NEEDED[BY_NAME[tool].verb]
            answer = served.ask(token, "tools/call", {"name": tool, "arguments": arguments}, tool)
            refused = answer.status_code == 403 or served.result(answer).get("code") == "E011"
            assert refused == (role < needed), (role, tool, answer.text)
        if role is not Role.ADMIN:
            repair = served.ask(
                token, "tools/call", {"name": "memory_health", "arguments": {"repair": True}}, "memory_health"
            )
            assert repair.status_code == 403 or served.result(repair).get("code") == "E011"


def test_the_scope_of_an_access_token_holds_below_its_users_role(served: Served) -> None:
    token = served.authority.token(sub="ana", groups=["shop-admin"], scope="memory:read")
    assert served.ask(token, "tools/call", {"name": "memory_delete", "arguments": {"id": 1}}, "x").status_code == 403
    assert served.call(token, "memory_list")["data"]["total"] == 1


def test_who_may_use_several_projects_names_one_and_can_search_all(served: Served) -> None:
    eve = served.token("static", "eve", "reader", "shop", "bank")
    result = served.call(eve, "memory_search", query="kestrel vault")
    assert result["code"] == "E031"
    assert "bank, shop" in result["message"]
    one = served.call(eve, "memory_search", query="kestrel vault", project="bank")["data"]["results"]
    assert [row["title"] for row in one] == ["Notes of the bank"]
    both = served.call(eve, "memory_search", query="till and kestrel vault", projects=["all"])["data"]
    assert {row["project"] for row in both["results"]} == {"shop", "bank"}
    assert [row["score"] for row in both["results"]] == sorted((row["score"] for row in both["results"]), reverse=True)
    narrow = served.call(eve, "memory_search", query="till and kestrel vault", projects="shop")["data"]
    assert {row["title"] for row in narrow["results"]} == {"Notes of the shop"}
    uri = f"memory://bank/{one[0]['id']}"
    read = served.result(served.ask(eve, "resources/read", {"uri": uri}, uri))
    assert read["contents"][0]["uri"] == uri
    assert SECRET in read["contents"][0]["text"]
    ref = {"type": "ref/prompt", "name": "search"}
    names = served.ask(eve, "completion/complete", {"ref": ref, "argument": {"name": "project", "value": ""}})
    assert served.result(names)["completion"]["values"] == ["bank", "shop"]


def test_a_search_of_several_projects_says_which_of_them_could_not_answer(served: Served) -> None:
    eve = served.token("static", "eve", "reader", "shop", "bank")
    question: dict[str, Any] = {"query": "till and kestrel vault", "projects": ["all"]}
    partly = served.call(eve, "memory_search", **question, asOf="bank-kestrel-checkpoint")["data"]
    assert {row["project"] for row in partly["results"]} == {"bank"}
    assert [reason for reason in partly["unavailable"] if reason.startswith("shop: 'bank-kestrel-checkpoint'")]
    assert served.call(eve, "memory_search", **question, asOf="no such time")["code"] == "E030"


def test_what_a_project_could_not_use_is_worded_for_who_reads_it() -> None:
    reason = advise("no-meaning", problem="the vectors are of another model", next=advise("embed-anew"))
    nothing = outcome("found-in-projects", shown=0, projects=1)
    one = SearchAnswer(outcome=nothing, query="till", method="text", results=(), unavailable=(reason,))
    joined = joined_projects({"shop": one, "bank": replace(one, unavailable=())}, limit=5)
    assert len(joined.unavailable) == 1
    text = "shop: meaning: the vectors are of another model; "
    assert for_model(joined.unavailable[0]) == f"{text}memory_index_scan makes them anew"
    assert for_person(joined.unavailable[0]) == f"{text}`skm index` makes them anew"
    assert "`index()`" not in json.dumps(render.envelope(joined))


def test_a_search_of_several_projects_only_complains_if_none_of_them_knows() -> None:
    near = SearchAnswer(
        outcome=outcome("nothing-matched", text="till"),
        query="till",
        method="hybrid",
        results=(found("Nearest", match=0.1),),
        advice=(finding("nothing-close"), advise("raise-budget", count=2)),
    )
    knows = replace(near, results=(found("Till", match=0.9),), advice=())
    other_words = replace(near, results=(), advice=(advise("other-words"),))
    assert joined_projects({"shop": near, "bank": knows, "inn": other_words}, limit=5).advice == near.advice[1:]
    assert joined_projects({"shop": near, "bank": other_words}, limit=5).advice == (*near.advice, *other_words.advice)


def found(title: str, *, match: float) -> Result:
    return Result(
        id=1,
        title=title,
        path=f"memory/{title}.md",
        lines="1-2",
        text=title,
        score=100 * match,
        match=match,
        source=Source.MEMORY,
        spec_folder=None,
        tier=Tier.NORMAL,
        state=State.WARM,
        context_type=ContextType.GENERAL,
        created_at=None,
    )


def test_schemas_show_projects_only_to_who_needs_them(served: Served) -> None:
    one = served.token("static", "ana", "reader", "shop")
    several = served.token("static", "eve", "reader", "shop", "bank")
    listed = served.result(served.ask(one, "tools/list", {}))["tools"]
    assert not any({"project", "projects"} & set(tool["inputSchema"]["properties"]) for tool in listed)
    listed = served.result(served.ask(several, "tools/list", {}))["tools"]
    assert all("project" in tool["inputSchema"]["properties"] for tool in listed)
    with_projects = [tool["name"] for tool in listed if "projects" in tool["inputSchema"]["properties"]]
    assert with_projects == ["memory_search"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_ledger_names_who_did_it_and_ones_own_notes_are_found_by_oneself(served: Served, kind: str) -> None:
    ana, ben = served.token(kind, "ana", "writer", "shop"), served.token(kind, "ben", "admin", "shop")
    served.call(ana, "memory_validate", id=1, wasUseful=True)
    entry = served.call(ben, "memory_history", id=1)["data"]["entries"][0]
    assert entry["user"] == str(served.user(kind, "ana"))
    own = served.keep_own(ana, "Diary", "My own kestrel.")
    for tool, arguments in (
        ("memory_search", {"query": "diary kestrel"}),
        ("memory_list", {}),
        ("memory_load", {"memoryId": own}),
        ("memory_history", {"id": own}),
        ("memory_context", {"prompt": "my own diary phrase"}),
        ("memory_match_triggers", {"prompt": "my own diary phrase"}),
    ):
        assert "Diary" in json.dumps(served.call(ana, tool, **arguments)), tool


def of_an_own_note(own: int, path: str) -> dict[str, dict[str, Any]]:
    """Arguments that would show or change somebody's own note, as a colleague calls it who knows its id and path."""
    session = {"sessionId": "of-ana"}
    return CALLS | {
        "memory_search": {"query": "diary kestrel", "includeArchived": True, "limit": 50} | session,
        "memory_context": {"prompt": "my own diary phrase, diary kestrel"} | session,
        "memory_load": {"memoryId": own},
        "memory_get": {"path": path, "from": 1, "count": 9},
        "memory_match_triggers": {"prompt": "my own diary phrase"} | session,
        "memory_save": {"filePath": path},
        "memory_list": {"limit": 100},
        "memory_update": {"id": own, "title": "Taken over"},
        "memory_delete": {"id": own, "deleteFile": True},
        "memory_validate": {"id": own, "wasUseful": False},
        "memory_history": {"id": own},
        "memory_causal_link": {"sourceId": own, "targetId": 1, "relation": "supports"},
        "memory_drift_why": {"memoryId": own},
        "checkpoint_restore": {"name": "shop-kestrel-checkpoint", "clearExisting": True},
        "checkpoint_delete": {"name": "shop-kestrel-checkpoint"},
    }


@pytest.mark.parametrize("kind", KINDS)
def test_ones_own_note_is_neither_shown_to_colleagues_nor_changed_by_them(served: Served, kind: str) -> None:
    ana = served.token(kind, "ana", "writer", "shop")
    own = served.keep_own(ana, "Diary", "My own kestrel.")
    hers = {"query": "diary kestrel", "sessionId": "of-ana"}
    result = served.call(ana, "memory_search", **hers)["data"]["results"][0]
    assert result["title"] == "Diary"
    served.call(ana, "memory_context", prompt="my own diary phrase", sessionId="of-ana")
    calls = of_an_own_note(own, result["path"])
    assert set(calls) == set(CALLS)
    telling = re.compile(r"diary|own kestrel|users/ana", re.IGNORECASE)
    for role in ("reader", "writer", "admin"):
        other = served.token(kind, f"ben-{role}", role, "shop")
        for tool, arguments in calls.items():
            message = json.dumps(served.call(other, tool, **arguments))
            for said in (json.dumps(value)[1:-1] for value in arguments.values() if isinstance(value, str)):
                message = message.replace(said, "")
            assert not telling.search(message), (role, tool, message)
        for uri in (
            f"memory://shop/{own}",
            f"memory://{own}",
            f"memory://shop/{result['path']}",
            "memory://shop/recent",
        ):
            message = served.ask(other, "resources/read", {"uri": uri}, uri).text
            assert not telling.search(message.replace(result["path"], "")), (role, uri, message)
        for method in ("resources/list", "prompts/list"):
            assert not telling.search(served.ask(other, method, {}).text)
        counted = served.call(other, "memory_stats")["data"]["totals"]["memories"]
        assert counted == len(served.call(other, "memory_list", limit=100)["data"]["memories"]), role
    still = served.call(ana, "memory_load", memoryId=own)["data"]
    assert "My own kestrel." in still["text"]
    assert "Taken over" not in json.dumps(still)
    assert served.call(ana, "memory_search", query="diary kestrel")["data"]["results"][0]["id"] == own


@pytest.mark.parametrize("kind", KINDS)
def test_an_id_of_somebodys_own_note_is_answered_as_one_that_is_not_there(served: Served, kind: str) -> None:
    ana, ben = served.token(kind, "ana", "writer", "shop"), served.token(kind, "ben", "admin", "shop")
    own = served.keep_own(ana, "Diary", "My own kestrel.")
    for tool, name, more in (
        ("memory_load", "memoryId", {}),
        ("memory_history", "id", {}),
        ("memory_update", "id", {"title": "Taken over"}),
        ("memory_delete", "id", {}),
        ("memory_validate", "id", {"wasUseful": True}),
        ("memory_drift_why", "memoryId", {}),
        ("memory_causal_link", "sourceId", {"targetId": 1, "relation": "supports"}),
    ):
        answers = [
            json.dumps(served.call(ben, tool, **{name: given}, **more)).replace(str(given), "N")
            for given in (own, 987654)
        ]
        assert answers[0] == answers[1], tool


@pytest.mark.parametrize("kind", KINDS)
def test_people_who_give_one_session_id_have_sessions_of_their_own(served: Served, kind: str) -> None:
    """What one was shown is not held back from another, and what one asked for warms nothing for another."""
    ana, ben = served.token(kind, "ana", "writer", "shop"), served.token(kind, "ben", "writer", "shop")
    calls = (
        ("memory_search", {"query": "cards and cash"}),
        ("memory_match_triggers", {"prompt": "shop kestrel phrase"}),
        ("memory_context", {"prompt": "shop kestrel phrase"}),
    )

    # Time passes, and use of what is shared counts for all.
    changing = r'"(latencyMs|score)": [\d.]+|"[\d-]+T[\d:]+Z"'

    def told(token: str, session: str) -> list[str]:
        answers = [served.call(token, tool, sessionId=session, **arguments)["data"] for tool, arguments in calls]
        return [re.sub(changing, "", json.dumps(one)).replace(session, "") for one in answers]

    unshared = told(ben, "of-ben-alone")
    first = told(ana, "the-same")
    assert told(ana, "the-same") != first, "within her own session she is not told twice"
    assert told(ben, "the-same") == unshared


@pytest.mark.parametrize("kind", KINDS)
def test_the_past_shows_no_colleagues_own_note(served: Served, kind: str) -> None:
    ana, ben = served.token(kind, "ana", "writer", "shop"), served.token(kind, "ben", "admin", "shop")
    own = served.keep_own(ana, "Diary", "My own kestrel.")
    then = datetime.now(UTC).isoformat()
    served.call(ana, "memory_delete", id=own)
    for token, count in ((ana, 1), (ben, 0)):
        result = served.call(token, "memory_search", query="diary kestrel", asOf=then)["data"]["results"]
        assert sum(row["title"] == "Diary" for row in result) == count


@pytest.mark.parametrize("kind", KINDS)
def test_what_one_saves_is_the_projects_unless_it_is_said_to_be_personal(served: Served, kind: str) -> None:
    """In a plain folder as in git (tests/team/test_acceptance.py)."""
    for kept in (served.folder / "shop" / "specs").rglob("*.md"):  # with spec folders one has to be named
        kept.unlink()
    (served.folder / "shop" / "specs").rename(served.folder / "shop" / "documents")
    ana, ben = served.token(kind, "ana", "writer", "shop"), served.token(kind, "ben", "reader", "shop")
    for vault in ("project", "personal"):
        context = {"title": f"Heron {vault}", "sessionSummary": f"The heron of the {vault} eats at dusk."}
        assert "data" in served.call(ana, "memory_save", context=context, vault=vault)
    for token, titles in ((ana, {"Heron project", "Heron personal"}), (ben, {"Heron project"})):
        result = served.call(token, "memory_search", query="heron eats at dusk")["data"]["results"]
        assert {row["title"] for row in result if "Heron" in row["title"]} == titles


@pytest.mark.parametrize("attack", sorted(REFUSED))
def test_an_access_token_that_does_not_hold_is_refused(served: Served, attack: str) -> None:
    answer = served.ask(REFUSED[attack](served.authority), "tools/list", {})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith('Bearer error="invalid_token"')
    assert "resource_metadata=" in answer.headers["www-authenticate"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_save_lands_in_its_project_whatever_it_says(served: Served, kind: str) -> None:
    ana = served.token(kind, "ana", "writer", "shop")
    before = {path for path in served.folder.rglob("*") if path.is_file()}
    bank = served.folder / "bank" / "memory"
    for where in (
        "../bank",
        "../../bank/memory",
        "001-x/../../../bank",
        str(bank),
        "..",
        "~",
        "a\\..\\..\\bank",
        "%2e%2e/bank",
    ):
        for context in ({"sessionSummary": "Left here."}, {"sessionSummary": "Left here.", "specFolder": where}):
            given = {"context": context, "create": True} | ({} if "specFolder" in context else {"specFolder": where})
            served.call(ana, "memory_save", **given)
            served.call(
                ana,
                "memory_save",
                context={"title": where, "sessionSummary": f"Left at {where}."},
                specFolder="001-shop-vault",
            )
    for path in (str(bank / "x.md"), "../bank/memory/x.md", "/etc/passwd", "specs/001-bank-vault/../../../x.md"):
        assert "code" in served.call(ana, "memory_save", filePath=path)
        assert "code" in served.call(ana, "memory_get", path=path, lines="1-2")
    made = {path for path in served.folder.rglob("*") if path.is_file()} - before
    assert made, "a title is no path"
    assert all(path.is_relative_to(served.folder / "shop") for path in made if "data" not in path.parts), made


@pytest.mark.parametrize("kind", KINDS)
def test_an_admin_restores_what_a_writer_kept_and_nobodys_own_notes_are_in_it(served: Served, kind: str) -> None:
    ana, ben = served.token(kind, "ana", "writer", "shop"), served.token(kind, "ben", "admin", "shop")
    for token, person in ((ana, "ana"), (ben, "ben")):
        served.keep_own(token, f"Diary of {person}", "My own kestrel.")
    made = served.call(ana, "checkpoint_create", name="by-ana")["data"]
    assert made["memories"] == 1, "hers is not in what others restore"
    served.call(ana, "memory_update", id=1, title="Spoilt")
    for reader in (ana, ben, served.token(kind, "cleo", "reader", "shop")):
        listed = served.call(reader, "checkpoint_list")["data"]["checkpoints"]
        assert "by-ana" in [row["name"] for row in listed]
    restored = served.call(ben, "checkpoint_restore", name="by-ana", clearExisting=True, restoreFiles=True)["data"]
    assert restored["removed"] == 0
    assert "title: Notes of the shop" in served.call(ana, "memory_load", memoryId=1)["data"]["text"]
    for token, person in ((ana, "ana"), (ben, "ben")):
        result = served.call(token, "memory_search", query="diary kestrel", limit=50)["data"]["results"]
        assert [row["title"] for row in result if "Diary" in row["title"]] == [f"Diary of {person}"]
    assert served.call(ben, "checkpoint_delete", name="by-ana")["data"]["name"] == "by-ana"


@pytest.mark.parametrize("kind", KINDS)
def test_only_an_admin_makes_changes_or_removes_a_rule_for_everybody(served: Served, kind: str) -> None:
    ana, ben = served.token(kind, "ana", "writer", "shop"), served.token(kind, "ben", "admin", "shop")
    rule: dict[str, Any] = {"id": 1, "importanceTier": "constitutional", "confirm": True}
    by_writer: list[tuple[str, dict[str, Any]]] = [
        ("memory_update", {"id": 1, "title": "Another rule"}),
        ("memory_update", {"id": 1, "importanceTier": "normal"}),
        ("memory_validate", {"id": 1, "wasUseful": False, "outdated": True}),
        ("memory_delete", {"id": 1, "deleteFile": True}),
        ("memory_delete", {"specFolder": "001-shop-vault", "confirm": True}),
    ]
    refused = served.call(ana, "memory_update", **rule)
    assert refused.get("error", refused)["code"] == "E011"  # by the scopes of her token, or by her role
    assert "data" in served.call(ben, "memory_update", **rule)
    checkpoints = served.call(ben, "checkpoint_list")["data"]["checkpoints"]
    for tool, arguments in by_writer:
        assert served.call(ana, tool, **arguments)["code"] == "E011", (tool, arguments)
    with served.team.projects.use("shop") as workspace:
        access = Access(served.user(kind, "ana"), {"shop": Role.WRITER})
        as_ana = workspace.for_caller(caller_for(access, workspace.caller, project="shop"))
        with pytest.raises(AccessDenied):
            as_ana.undo()
    assert served.call(ben, "checkpoint_list")["data"]["checkpoints"] == checkpoints, "nothing was begun"
    rules = served.call(ana, "memory_list", tier="constitutional")["data"]["memories"]
    assert [row["title"] for row in rules] == ["Notes of the shop"]
    assert "data" in served.call(ben, "memory_update", id=1, importanceTier="normal")
    assert "data" in served.call(ana, "memory_update", id=1, title="Notes of our shop")


@pytest.mark.parametrize("kind", KINDS)
def test_a_writer_makes_changes_and_removes_rules_of_their_own_notes(served: Served, kind: str) -> None:
    ana, ben = served.token(kind, "ana", "writer", "shop"), served.token(kind, "ben", "admin", "shop")
    own = served.keep_own(ana, "Diary", "Answer me in short sentences.")
    rule: dict[str, Any] = {"id": own, "importanceTier": "constitutional", "confirm": True}
    assert served.call(ana, "memory_update", **rule)["data"]["memory"]["tier"] == "constitutional"

    def rules(token: str) -> list[str]:
        return [row["title"] for row in served.call(token, "memory_list", tier="constitutional")["data"]["memories"]]

    assert (rules(ana), rules(ben)) == (["Diary"], [])
    assert "data" in served.call(ana, "memory_update", id=own, title="Short sentences")
    assert rules(ana) == ["Short sentences"]
    assert "data" in served.call(ana, "memory_update", id=own, importanceTier="normal")
    assert "data" in served.call(ana, "memory_update", **rule)
    assert "data" in served.call(ana, "memory_delete", id=own)
    assert rules(ana) == []


def test_a_rule_needs_the_scope_of_an_admin(served: Served) -> None:
    token = served.authority.token(sub="ben", groups=["shop-admin"], scope="memory:read memory:write")
    for spelled in ("importanceTier", "importance_tier"):
        rule = {"id": 1, spelled: "Constitutional", "confirm": True}
        answer = served.ask(token, "tools/call", {"name": "memory_update", "arguments": rule}, "memory_update")
        assert answer.status_code == 403, spelled
        assert 'scope="memory:read memory:write memory:admin"' in answer.headers["www-authenticate"]


def test_a_token_that_was_revoked_or_is_no_token_is_refused(served: Served) -> None:
    token, secret = served.team.tokens.create("ana", projects=["shop"], role="reader")
    served.team.tokens.revoke(token.id)
    for given in (secret, secret[:-1], "skmt_", "x" * 500, "eyJhbGciOiJub25lIn0.e30."):
        answer = served.ask(given, "tools/list", {})
        assert answer.status_code == 401, given
        assert answer.headers["www-authenticate"].startswith("Bearer ")
        assert given not in answer.text
    assert served.client.post("/mcp?token=" + secret, headers=HEADERS, content="{}").status_code == 400
    assert served.client.get("/healthz").status_code == 200
    assert served.client.get("/readyz").text == "ok\n"


def test_numbers_of_the_server_are_for_its_operator_and_name_nobody(served: Served) -> None:
    ana = served.token("static", "ana", "admin", "shop", "bank")
    served.call(ana, "memory_search", query="till", project="shop")
    operator = served.team.tokens.create("ops", projects=[], role="operator")[1]
    for given in ({}, {"authorization": f"Bearer {ana}"}, {"authorization": f"Basic {operator}"}):
        assert served.client.get("/metrics", headers=given).status_code == 401
    text = served.client.get("/metrics", headers={"authorization": f"Bearer {operator}"}).text
    assert 'skm_requests_total{kind="mcp",status="200"} 1' in text
    assert "skm_open_projects 2" in text
    assert not any(word in text for word in ("shop", "bank", "ana", "/mcp"))
    assert served.call(operator, "memory_list")["code"] == "E011"


def test_calls_of_a_git_host_are_signed_and_others_learn_nothing(served: Served) -> None:
    def call(name: str, body: bytes, secret: str) -> httpx2.Response:
        signature = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        return served.client.post(f"/hooks/{name}", content=body, headers={"x-hub-signature-256": signature})

    def wanted() -> object:
        return served.team.registry.get("shop").wanted_at

    secret = served.team.registry.hook_secret("shop") or ""
    known, unknown = call("shop", b"{}", "wrong"), call("absent", b"{}", secret)
    assert (known.status_code, known.text) == (unknown.status_code, unknown.text) == (403, known.text)
    assert call("bank", b"{}", secret).status_code == 403
    assert served.client.post("/hooks/shop", content=b"{}").status_code == 403
    for name in ("%00", "sh%00op", "%ff", "x" * 5000):  # nor does a name that the database would refuse
        assert call(name, b"{}", secret).text == unknown.text
    assert call("shop", b"x" * 1_000_001, secret).status_code == 413

    def last_wanted(when: str) -> object:
        with served.team.database.transaction() as session:
            session.execute(f"UPDATE served SET wanted_at = now() {when}")
        return wanted()

    before = last_wanted("- interval '1 hour'")
    assert call("shop", b"{}", secret).status_code == 202
    assert wanted() != before
    before = last_wanted("+ interval '1 hour'")  # a fetch is to come, since a pause is on
    other = Team(served.team.database, settings_module.load(served.folder / "data"), background=False)
    for _ in range(5):  # who overheard a call and sends it again gets one fetch, of what is in git anyway
        assert call("shop", b"{}", secret).status_code == 202
    assert other.call("shop", Headers(HOSTS["Forgejo"](secret, b"{}")), b"{}")
    assert wanted() == before, "one fetch for all calls within the pause, whichever replica takes them"
    before = last_wanted("- interval '1 minute'")
    other.registry.request_sync("shop", pause_seconds=3600)
    assert isinstance(before, datetime)
    assert wanted() == before + timedelta(hours=1), "a push within the pause is read when it ends"


@pytest.mark.parametrize("host", HOSTS)
def test_each_git_host_is_answered_by_its_own_signature(served: Served, host: str) -> None:
    def call(secret: str, body: bytes) -> httpx2.Response:
        return served.client.post("/hooks/shop", content=body, headers=HOSTS[host](secret, body))

    secret = served.team.registry.hook_secret("shop") or ""
    asked_before = served.team.registry.get("shop").wanted_at
    assert call(served.team.registry.hook_secret("bank") or "", b"{}").status_code == 403
    assert served.team.registry.get("shop").wanted_at == asked_before
    assert (call(secret, b"{}").status_code, secret in call(secret, b"{}").text) == (202, False)
    assert served.team.registry.get("shop").wanted_at != asked_before


def test_a_project_that_is_removed_is_gone_for_everybody(database: TeamDatabase, served: Served) -> None:
    now = [0.0]
    team = Team(database, settings_module.load(served.folder / "data"), clock=lambda: now[0], background=False)
    secret = team.tokens.create("ana", projects=["shop"], role="reader")[1]
    token = team.checker.token(secret)
    assert token is not None
    assert team.checker.access(token).projects == ["shop"]
    team.registry.remove("shop")
    now[0] += 3
    assert team.checker.access(token).projects == []


def test_a_search_does_not_wait_for_saves_that_do(served: Served, server: Server) -> None:
    """Each save waits for its turn in a thread. However many wait, searches have threads left."""
    ana = served.token("static", "ana", "writer", "shop", "bank")
    database = server.url(served.team.database.url.rpartition("/")[2])
    saved: list[dict[str, Any]] = []

    def save(number: int) -> None:
        context = {"title": f"Till {number}", "sessionSummary": f"Till {number} is open."}
        given = {"context": context, "specFolder": "001-shop-vault", "onSimilar": "distinct", "project": "shop"}
        saved.append(served.call(ana, "memory_save", **given))

    savers = [threading.Thread(target=save, args=(number,)) for number in range(WORKERS + 2)]
    with psycopg.connect(database) as other, psycopg.connect(database, autocommit=True) as watching:
        other.execute(  # as a replica that writes for a long time
            "SELECT 1 FROM spec_kit_memory.counter WHERE project_id = "
            "(SELECT id FROM spec_kit_memory.project WHERE name = 'shop') FOR UPDATE"
        )
        for saver in savers:
            saver.start()
        while not saved and not watching.execute(WAITS).fetchone():
            time.sleep(0.05)
        time.sleep(1)  # for the others to wait for their turn
        found = [served.call(ana, "memory_search", project=name, query="till vault") for name in ("shop", "bank")]
        assert [result["data"]["results"][0]["title"] for result in found] == ["Notes of the shop", "Notes of the bank"]
        assert not saved
        other.rollback()
    for saver in savers:
        saver.join()
    assert all("data" in answer for answer in saved)


def test_no_answer_tells_where_the_database_is(served: Served, server: Server) -> None:
    ana = served.token("static", "ana", "admin", "shop")
    assert "data" in served.call(ana, "memory_search", query="till")
    name = served.team.database.url.rpartition("/")[2]
    address = urlsplit(served.team.database.url)
    server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    shown = [served.call(ana, tool, **CALLS[tool]) for tool in ("memory_search", "memory_update")]
    shown.append(served.result(served.ask(ana, "resources/read", {"uri": "memory://1"}, "memory://1")))
    paths = ("/", "/p/shop/", "/readyz", "/metrics")
    pages = [served.client.get(path, headers={"authorization": f"Bearer {ana}"}) for path in paths]
    pages.append(served.client.post("/hooks/shop", content=b"{}", headers={"x-hub-signature-256": "sha256=0"}))
    pages.append(served.client.post("/sign-in", data={"token": ana}))
    server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    told = [json.dumps(answer) for answer in shown] + [page.text for page in pages]
    for text in told:
        assert not [
            word for word in (name, f":{address.port}", "postgresql://", "connection to", "libpq") if word in text
        ]
    assert any("E020" in text for text in told)
    assert "data" in served.call(ana, "memory_search", query="till")
