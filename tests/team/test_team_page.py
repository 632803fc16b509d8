"""The page of a team server: who is let in, what each sees, and what of another project comes through."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
from starlette.testclient import TestClient

from spec_kit_memory import settings as settings_module
from spec_kit_memory.serve.http.team_app import Team, team_application
from spec_kit_memory.serve.mcp.team_server import caller_for
from spec_kit_memory.serve.page import changes, views
from spec_kit_memory.serve.page.team_page import TeamPageAccess, team_page
from spec_kit_memory.team.database import TeamDatabase
from spec_kit_memory.team.rights import Access, Role, User, role_for
from tests.postgres_server import Server

HOST = "memory.example.org"
ORIGIN = {"origin": f"https://{HOST}", "content-type": "application/x-www-form-urlencoded"}
SECRET = "kestrel vault combination"


class Site:
    def __init__(self, team: Team) -> None:
        self.team = team

    def replica(self) -> TestClient:
        access = TeamPageAccess(self.team, names=[HOST], port=443, secure=True)
        app = team_application(self.team, host="127.0.0.1", allowed_hosts=[HOST], page=team_page(self.team, access))
        return TestClient(app, base_url=f"https://{HOST}", follow_redirects=False)

    def visitor(self, user: str, role: str, *projects: str) -> TestClient:
        client, secret = self.replica(), self.team.tokens.create(user, projects=projects, role=role)[1]
        answer = client.post("/sign-in", content=f"token={secret}&to=/", headers=ORIGIN)
        assert answer.status_code == 303, answer.text
        return client


@pytest.fixture(scope="module")
def site(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One for all tests of this module: what they change does not concern each other."""
    folder, name = tmp_path_factory.mktemp("site"), f"page_{uuid4().hex[:12]}"
    server.execute(f"CREATE DATABASE {name}")
    (folder / "data").mkdir()
    own = settings_module.load(folder / "data", overrides={"semantic.model": "hashing", "watch": "off"})
    team = Team(TeamDatabase(server.url(name)), own, background=False)
    for project, text in (("shop", "The till takes cards."), ("bank", f"The {SECRET}.")):
        notes = folder / project / "specs" / f"001-{project}" / "memory"
        notes.mkdir(parents=True)
        (notes / "note.md").write_text(f"# Notes of the {project}\n\n{text}\n", encoding="utf-8")
        team.registry.add(project, repository=str(folder / project))
        with team.projects.use(project) as workspace:
            workspace.index()
            workspace.checkpoint_create(f"{project}-before")
    yield Site(team)
    team.projects.close(seconds=5)
    server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def filled(path: str, project: str) -> str:
    name = f"{project}-before" if "/checkpoint" in path else f"001-{project}"
    values = {"{id:int}": "1", "{name:path}": name, "{name}": name}
    for mark, value in values.items():
        path = path.replace(mark, value)
    return path


def csrf(client: TestClient, address: str) -> str:
    match = re.search(r'name="csrf" value="([^"]+)"', client.get(address).text)
    assert match, address
    return match[1]


def test_a_static_token_signs_in_by_a_form_for_a_session_of_its_own(site: Site) -> None:
    client = site.replica()
    assert client.get("/").status_code == 401
    assert client.get("/p/shop/search").status_code == 401
    assert client.get("/p/shop/search.json").status_code == 401
    token, secret = site.team.tokens.create("ana", projects=["shop"], role="writer")
    assert client.post("/sign-in", content="token=skmt_wrong", headers=ORIGIN).status_code == 401
    fixed = {**ORIGIN, "cookie": "skm_443=prepared-by-somebody-else"}
    answer = client.post("/sign-in", content=f"token={secret}&to=/", headers=fixed)
    cookie = answer.headers["set-cookie"]
    assert "prepared" not in cookie
    assert all(flag in cookie for flag in ("HttpOnly", "SameSite=lax", "Secure"))
    assert client.get("/").headers["location"] == "/p/shop/search"
    assert "Notes of the shop" in client.get("/p/shop/search").text
    # Another replica knows the session; the address never carries the token.
    other = site.replica()
    other.cookies = client.cookies
    assert other.get("/p/shop/search").status_code == 200
    assert site.replica().get(f"/?token={secret}").status_code == 401
    site.team.tokens.revoke(token.id)
    assert client.get("/p/shop/search").status_code == 401
    assert other.get("/p/shop/search").status_code == 401


def test_a_form_of_another_site_signs_nobody_in_and_changes_nothing(site: Site) -> None:
    secret = site.team.tokens.create("ana", projects=["shop"], role="admin")[1]
    foreign = {**ORIGIN, "origin": "https://evil.example"}
    assert site.replica().post("/sign-in", content=f"token={secret}", headers=foreign).status_code == 403
    ana = site.visitor("ana", "admin", "shop")
    token = csrf(ana, "/p/shop/memory/1")
    judged = "/p/shop/memory/1/judge"
    for content, headers in (
        ("verdict=useful", ORIGIN),
        ("verdict=useful&csrf=wrong", ORIGIN),
        (f"verdict=useful&csrf={token}", foreign),
        (f"verdict=useful&csrf={csrf(site.visitor('ben', 'admin', 'shop'), '/p/shop/memory/1')}", ORIGIN),
    ):
        assert ana.post(judged, content=content, headers=headers).status_code == 403
    meant = f"verdict=useful&csrf={token}&next=/p/shop/memory/1"
    assert ana.post(judged, content=meant, headers=ORIGIN).status_code == 303
    shown = ana.get("/p/shop/memory/1").text
    assert "ana@local" in shown
    assert 'action="/p/shop/undo"' in shown
    assert ana.get("/p/shop/search", headers={"host": "evil.example"}).status_code == 421


@pytest.mark.parametrize("said", ["cross-site", "same-site"])
def test_a_form_that_the_browser_calls_another_sites_signs_nobody_in(site: Site, said: str) -> None:
    secret = site.team.tokens.create("ana", projects=["shop"], role="admin")[1]
    silent = {"content-type": ORIGIN["content-type"], "sec-fetch-site": said}
    assert site.replica().post("/sign-in", content=f"token={secret}", headers=silent).status_code == 403


@pytest.mark.parametrize(
    "ended",
    [
        "UPDATE visit SET until = now() - interval '1 second'",
        "UPDATE token SET expires_at = now() - interval '1 second'",
        "UPDATE token SET revoked_at = now()",
    ],
)
def test_a_session_ends_in_time_and_with_the_token_that_it_began_with(site: Site, ended: str) -> None:
    client = site.visitor("ana", "reader", "shop")
    assert client.get("/p/shop/search").status_code == 200
    with site.team.database.transaction() as session:
        (lasting,) = session.row("SELECT max(until) - now() FROM visit") or (None,)
        assert timedelta(hours=11) < lasting <= timedelta(hours=12)
        session.execute(ended)
    assert client.get("/p/shop/search").status_code == 401
    assert client.get("/projects.json").status_code == 401


@pytest.mark.parametrize("path", views.PAGES)
def test_no_page_shows_a_colleagues_own_note(site: Site, path: str) -> None:
    access = Access(User("local", "ana"), {"shop": Role.ADMIN})
    with site.team.projects.use("shop") as workspace:
        ana = workspace.for_caller(caller_for(access, workspace.caller, project="shop"))
        own = ana.save(text="# Diary\n\nMy own heron.", vault="personal").id
    of_own = filled(path, "shop").replace("/1", f"/{own}")
    for ending in ("", ".json"):
        for user in ("ana", "ben"):
            visitor = site.visitor(user, "admin", "shop")
            shown = [visitor.get(f"/p/shop{one}{ending}?q=heron") for one in {of_own, filled(path, "shop")}]
            message = any("Diary" in one.text or "own heron" in one.text for one in shown)
            assert not message or user == "ana"
            if path in ("/search", "/memory/{id:int}") and user == "ana":
                assert message, "she sees it herself"


@pytest.mark.parametrize("path", views.PAGES)
def test_no_page_shows_a_project_of_others(site: Site, path: str) -> None:
    ana = site.visitor("ana", "admin", "shop")
    query = f"?q={quote(SECRET)}"
    for ending in ("", ".json"):
        own = ana.get(f"/p/shop{filled(path, 'shop')}{ending}{query}")
        assert own.status_code == 200, own.text
        assert "Notes of the bank" not in own.text
        there = ana.get(f"/p/bank{filled(path, 'bank')}{ending}{query}")
        nowhere = ana.get(f"/p/nank{filled(path, 'bank')}{ending}{query}")
        assert (there.status_code, there.text.replace("bank", "nank")) == (404, nowhere.text.replace("bank", "nank"))
        assert "Notes of the bank" not in there.text
        assert 'href="/search' not in own.text
        assert ending or 'href="/p/shop/search' in own.text


@pytest.mark.parametrize("path", changes.CHANGES)
def test_no_form_changes_a_project_of_others_or_more_than_ones_role_allows(site: Site, path: str) -> None:
    reader = site.visitor("ana", "reader", "shop")
    form: dict[str, Any] = {
        "csrf": csrf(reader, "/p/shop/search"), "verdict": "outdated", "title": "Taken", "tier": "critical",
        "type": "decision", "phrases": "mine", "into": "1", "target": "1", "relation": "supports", "operation": "x",
        "key": "x", "phrase": "x", "name": "mine", "confirm": "1",
    }  # fmt: skip
    content = "&".join(f"{name}={quote(str(value))}" for name, value in form.items())
    before = {}
    for name in ("shop", "bank"):
        with site.team.projects.use(name) as workspace:
            before[name] = (workspace.ledger_head().head, workspace.checkpoint_list().checkpoints)
    assert reader.post(f"/p/bank{filled(path, 'bank')}", content=content, headers=ORIGIN).status_code == 404
    assert reader.post(f"/p/shop{filled(path, 'shop')}", content=content, headers=ORIGIN).status_code == 303
    for name, known in before.items():
        with site.team.projects.use(name) as workspace:
            assert (workspace.ledger_head().head, workspace.checkpoint_list().checkpoints) == known
    wanted = role_for(*changes.asked_by(filled(path, "shop")))
    assert f"This needs the role {wanted.label} in shop; you are reader there." in reader.get("/p/shop/search").text


@pytest.mark.parametrize("role", list(Role))
def test_no_button_is_offered_that_ones_role_does_not_allow(site: Site, role: Role) -> None:
    visitor = site.visitor(f"looker-{role.label}", role.label, "shop")
    offered: set[str] = set()
    for path in views.PAGES:
        for query in ("", "?q=till"):
            shown = visitor.get(f"/p/shop{filled(path, 'shop')}{query}").text
            offered |= set(re.findall(r'(?:method="post" action|hx-post)="/p/shop(/[^"]*)"', shown))
    assert all(role_for(*changes.asked_by(address)) <= role for address in offered), offered
    asked = {changes.asked_by(address)[0] for address in offered}
    assert ("update" in asked, "checkpoint_delete" in asked) == (role >= Role.WRITER, role >= Role.ADMIN)


def test_nobody_is_offered_to_read_a_file_again_that_the_server_reads_by_itself(site: Site) -> None:
    with site.team.projects.use("shop") as workspace:
        broken = workspace.settings.root / "specs" / "001-shop" / "memory" / "broken.md"
        broken.write_bytes(b"# Broken\n\n\x00\n")
        workspace.index()
    shown = site.visitor("mender", "admin", "shop").get("/p/shop/care?kind=file").text
    broken.unlink()
    assert "broken.md" in shown
    assert 'action="/p/shop/care/keep"' in shown
    assert "/p/shop/index" not in shown


def test_a_notice_offers_a_way_back_to_those_who_may_go_it(site: Site) -> None:
    for role, is_offered in (("writer", False), ("admin", True)):  # whoever makes a checkpoint may not delete it
        visitor = site.visitor(f"keeper-{role}", role, "shop")
        content = f"name=of-{role}&csrf={csrf(visitor, '/p/shop/time')}&next=/p/shop/time"
        visitor.post("/p/shop/time/checkpoint", content=content, headers=ORIGIN)
        notice = visitor.get("/p/shop/time").text.partition('class="notice"')[2].partition("<h1>")[0]
        assert f"of-{role}" in notice
        assert ("Undo" in notice) is is_offered
        content = f"name=by-{role}&csrf={csrf(visitor, '/p/shop/time')}&next=/p/shop/time"
        by_script = visitor.post("/p/shop/time/checkpoint", content=content, headers={**ORIGIN, "hx-request": "true"})
        assert ("Undo" in by_script.text) is is_offered


def test_a_rule_is_offered_for_change_to_admins_alone(site: Site) -> None:
    with site.team.projects.use("shop") as workspace:
        workspace.update(1, importance_tier="constitutional", confirm=True)
    try:
        for role, is_offered in (("writer", False), ("admin", True)):
            shown = site.visitor(f"reader-of-rules-{role}", role, "shop").get("/p/shop/memory/1").text
            assert ("/memory/1/update" in shown, "/memory/1/forget" in shown) == (is_offered, is_offered)
            assert "/memory/1/judge" in shown
    finally:
        with site.team.projects.use("shop") as workspace:
            workspace.update(1, importance_tier="normal")
    for role, is_offered in (("writer", False), ("admin", True)):
        shown = site.visitor(f"maker-of-rules-{role}", role, "shop").get("/p/shop/memory/1").text
        assert ('value="constitutional"' in shown) is is_offered


@pytest.mark.parametrize("column", ["expires_at", "revoked_at"])
def test_a_token_that_opens_nothing_any_more_is_said_to_do_so(site: Site, column: str) -> None:
    token, secret = site.team.tokens.create("late", projects=["shop"], role="reader")
    with site.team.database.transaction() as session:
        session.execute(f"UPDATE token SET {column} = now() - interval '1 second' WHERE id = {token.id}")
    answer = site.replica().post("/sign-in", content=f"token={secret}", headers=ORIGIN)
    assert answer.status_code == 401
    assert "it is mistyped, has expired, or was revoked" in answer.text


def test_projects_and_people_are_those_one_may_see(site: Site) -> None:
    ana = site.visitor("ana-of-projects", "admin", "shop")
    ben = site.visitor("ben-of-projects", "reader", "shop", "bank")
    (row,) = ana.get("/projects.json").json()["projects"]
    assert (row["name"], row["role"], row["waiting"]) == ("shop", "admin", 0)
    assert row["people"].items() >= {"ana-of-projects": "admin", "ben-of-projects": "reader"}.items()
    message = ben.get("/projects.json").json()["projects"]
    own = {"ben-of-projects": "reader"}
    assert [(row["name"], row["people"]) for row in message] == [("bank", own), ("shop", own)]
    assert "bank" not in ana.get("/projects").text
    assert ben.get("/").headers["location"] == "/projects"
    assert 'href="/p/bank/search"' in ben.get("/p/shop/search").text


def test_an_operator_and_a_foreign_session_open_no_project(site: Site) -> None:
    operator = site.team.tokens.create("ops", projects=[], role="operator")[1]
    assert site.replica().post("/sign-in", content=f"token={operator}", headers=ORIGIN).status_code == 401
    client = site.replica()
    client.cookies.set("skm_443", "guessed")
    assert client.get("/p/shop/search").status_code == 401


def test_every_address_of_a_team_server_is_one_that_is_tried_here(site: Site) -> None:
    """Its own are named; those of projects are in the lists that the tests above walk through."""
    page: Any = team_page(site.team, TeamPageAccess(site.team, names=[HOST], port=443, secure=True))
    results = {str(getattr(route, "path", route)) for route in page._app.routes}
    of_projects = {f"/p/{{project}}{path}{ending}" for path in views.PAGES for ending in ("", ".json")}
    of_projects |= {f"/p/{{project}}{path}" for path in changes.CHANGES}
    own = {"/", "/sign-in", "/sign-out", "/theme", "/static/{name:path}", "/projects", "/projects.json", "/search"}
    assert results == of_projects | own


def test_a_writer_makes_no_rule_on_the_page_and_an_admin_does(site: Site) -> None:
    form = "&".join(("tier=constitutional", "confirm=1", "title=Notes+of+the+shop"))
    for role, tier in (("writer", "normal"), ("admin", "constitutional")):
        visitor = site.visitor(f"ruler-{role}", role, "shop")
        content = f"{form}&csrf={csrf(visitor, '/p/shop/search')}"
        assert visitor.post("/p/shop/memory/1/update", content=content, headers=ORIGIN).status_code == 303
        with site.team.projects.use("shop") as workspace:
            assert workspace.load(1).memory.tier == tier
            if role == "admin":
                workspace.update(1, importance_tier="normal")


def test_a_writer_vouches_for_no_text_on_the_page_and_an_admin_does(site: Site) -> None:
    for role, is_trusted in (("writer", True), ("admin", False)):
        visitor = site.visitor(f"voucher-{role}", role, "shop")
        content = f"trusted=0&csrf={csrf(visitor, '/p/shop/search')}"
        answer = visitor.post("/p/shop/memory/1/trust", content=content, headers=ORIGIN)
        assert answer.status_code == 303
        with site.team.projects.use("shop") as workspace:
            assert workspace.load(1).memory.trusted is is_trusted, role
    with site.team.projects.use("shop") as workspace:
        workspace.trust(1)
