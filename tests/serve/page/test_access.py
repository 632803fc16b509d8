"""Who may see the page, and who may change something through it?"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from spec_kit_memory.caller import Caller
from spec_kit_memory.core.memory import Scope
from spec_kit_memory.serve.http.app import application
from spec_kit_memory.serve.mcp.workspace_handle import LiveWorkspace
from spec_kit_memory.serve.page import changes, views
from spec_kit_memory.serve.page.access import HEADERS, SESSION_SECONDS, PageAccess
from spec_kit_memory.serve.page.routes import page_app
from spec_kit_memory.workspace import Workspace
from tests.serve.page.conftest import NAMES, Page, made, written

TOKEN = "correct-horse-battery-staple"
# What may be asked for without a session; what else the page answers to is found in its routes.
OPEN = {"/", "/sign-in", "/theme", "/static/{name:path}"}
PAGES = sorted(
    path.replace("{id:int}", "1").replace("checkpoint/{name:path}", "checkpoint/x").replace("{name:path}", "001-docks")
    for path in views.PAGES
)
CHANGES = sorted(path.replace("{id:int}", "1").replace("{name:path}", "x") for path in changes.CHANGES)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def stranger(page: Page) -> TestClient:
    return TestClient(page.client.app, base_url="http://127.0.0.1:8765")


# --- coming in


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("end", ["", ".json"])
def test_nobody_sees_a_page_without_the_cookie(page: Page, path: str, end: str) -> None:
    answer = stranger(page).get(path + end)
    assert answer.status_code == 401
    assert "MQTT" not in answer.text
    assert "van" not in answer.text


def test_every_route_but_the_ways_in_wants_a_session_and_every_change_its_token(page: Page) -> None:
    app: Any = page.client.app
    routes = [(route.path, route.methods) for route in app._app.routes]
    assert {path.removesuffix(".json") for path, methods in routes if "GET" in methods} - OPEN == set(views.PAGES)
    posts = {path for path, methods in routes if "POST" in methods}
    assert posts == {*changes.CHANGES, "/sign-in", "/sign-out"}
    before = page.workspace.ledger_head().summary
    for path, methods in routes:
        address = path.replace("{id:int}", "1").replace("{name:path}", "x")
        if "GET" in methods and path not in OPEN:
            assert stranger(page).get(address).status_code == 401, path
        if "POST" in methods:
            assert stranger(page).post(address, data={"csrf": "x"}).status_code == (401 if path == "/sign-in" else 403)
        if "POST" in methods and path != "/sign-in":
            assert page.client.post(address, data={"confirm": "1"}).status_code == 403, path
        assert methods <= {"GET", "HEAD"} or methods in ({"POST"}, {"GET", "HEAD", "POST"})
    assert page.workspace.ledger_head().summary == before
    assert page.get("/folders").status_code == 200  # nobody was signed out by it


def test_the_address_is_exchanged_once_for_a_cookie(page: Page) -> None:
    token = page.access.invite()
    first = stranger(page).get(f"/?token={token}", follow_redirects=False)
    assert first.status_code == 303
    assert first.headers["location"] == "/search"
    again = stranger(page).get(f"/?token={token}", follow_redirects=False)
    assert again.status_code == 401
    assert "used already" in again.text
    assert "set-cookie" not in again.headers


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites_and_has_the_port_in_its_name(page: Page) -> None:
    answer = stranger(page).get(f"/?token={page.access.invite()}", follow_redirects=False)
    cookie = answer.headers["set-cookie"].lower()
    assert cookie.startswith("skm_8765=")
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "secure" not in cookie


def test_beyond_loopback_the_cookie_is_secure(page: Page) -> None:
    page.access.secure = True
    answer = stranger(page).get(f"/?token={page.access.invite()}", follow_redirects=False)
    assert "secure" in answer.headers["set-cookie"].lower()


@pytest.mark.parametrize("token", ["", "x", "A" * 43, "é", "%00"])
def test_a_guessed_token_opens_nothing(page: Page, token: str) -> None:
    answer = stranger(page).get(f"/?token={token}", follow_redirects=False)
    assert answer.status_code == 401


def test_a_session_ends_after_twelve_hours(page: Page) -> None:
    clock = Clock()
    page.access._clock = clock
    client = stranger(page)
    client.get(f"/?token={page.access.invite()}")
    assert client.get("/folders").status_code == 200
    clock.now += SESSION_SECONDS + 1
    assert client.get("/folders").status_code == 401


def test_signing_out_ends_the_session(page: Page) -> None:
    assert page.post("/sign-out").status_code == 401  # and shows how to come in again
    assert page.get("/folders").status_code == 401


# --- from where


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8765", "localhost.evil.example", "", "a b"])
@pytest.mark.parametrize("path", ["/search", "/static/page.css", "/", "/search.json"])
def test_a_name_that_is_not_ours_is_refused(page: Page, host: str, path: str) -> None:
    assert page.get(path, headers={"host": host}).status_code == 421


@pytest.mark.parametrize("digits", [30, 4_000, 5_000, 50_000])
@pytest.mark.parametrize("address", ["/memory/{}", "/memory/{}.json", "/memory/{}/links", "/link/{}/remove"])
def test_a_number_of_any_length_is_no_memory(page: Page, address: str, digits: int) -> None:
    assert page.get(address.format("9" * digits)).status_code in (400, 404, 405, 414)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "http://127.0.0.1.evil.example:8765"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_form_from_another_site_changes_nothing(page: Page, headers: dict[str, str]) -> None:
    answer = page.client.post("/memory/1/forget", data={"csrf": page.csrf()}, headers=headers)
    assert answer.status_code == 403
    assert page.workspace.examine(1)


@pytest.mark.parametrize("path", CHANGES)
@pytest.mark.parametrize("csrf", [None, "", "wrong", "A" * 43])
def test_no_change_is_made_without_the_token_of_the_session(page: Page, path: str, csrf: str | None) -> None:
    before = page.workspace.ledger_head().summary
    answer = page.client.post(path, data={} if csrf is None else {"csrf": csrf})
    assert answer.status_code == 403
    assert page.workspace.ledger_head().summary == before


def test_another_session_s_token_is_none(page: Page) -> None:
    other = stranger(page)
    other.get(f"/?token={page.access.invite()}")
    assert other.post("/memory/1/forget", data={"csrf": page.csrf()}).status_code == 403


def test_what_was_typed_outlives_the_session_and_can_be_sent_again(page: Page) -> None:
    van = next(card.id for card in page.workspace.list(limit=50).memories if card.title == "The van")
    address, here = f"/memory/{van}/update", {"origin": "http://127.0.0.1:8765"}
    form = {"title": "Typed </pre> for a long time", "phrases": "one\ntwo", "next": "/search"}
    csrf = page.csrf()
    page.client.cookies.clear()
    ended = page.client.post(address, data={"csrf": csrf, **form}, headers=here)
    assert (ended.status_code, page.workspace.examine(van).memory.title) == (403, "The van")
    page.client.get(f"/?token={page.access.invite()}")
    for answer in (ended, page.client.post(address, data=_fields(ended.text))):
        assert "Typed &lt;/pre&gt; for a long time</bdi>" in answer.text
        fields = _fields(answer.text)
        assert {name: value for name, value in fields.items() if name != "csrf"} == form
    assert page.client.post(address, data=fields).status_code == 200
    memory = page.workspace.examine(van).memory
    assert (memory.title, memory.triggers) == (form["title"], ("one", "two"))


def _fields(text: str) -> dict[str, str]:
    """The fields of the form that sends what was typed again."""
    rows = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', text)
    return {html.unescape(name): html.unescape(value) for name, value in rows}


@pytest.mark.parametrize("headers", [{"origin": "https://evil.example"}, {"origin": "null"}, {"hx-request": "true"}])
def test_nothing_is_repeated_to_another_site(page: Page, headers: dict[str, str]) -> None:
    answer = page.client.post("/memory/1/update", data={"csrf": "x", "title": "echo"}, headers=headers)
    assert (answer.status_code, "echo" in answer.text) == (403, False)


@pytest.mark.parametrize("path", CHANGES)
def test_no_change_is_made_by_following_a_link(page: Page, path: str) -> None:
    before = page.workspace.ledger_head().summary
    assert page.get(f"{path}?csrf={page.csrf()}").status_code in (404, 405)
    assert page.workspace.ledger_head().summary == before


def test_a_form_of_another_kind_or_of_any_length_changes_nothing(page: Page) -> None:
    csrf = page.csrf()
    body = f'{{"csrf": "{csrf}"}}'
    sent = page.client.post("/memory/1/forget", content=body, headers={"content-type": "application/json"})
    assert sent.status_code == 403
    long = page.client.post("/memory/1/forget", data={"csrf": csrf, "x": "y" * 300_000})
    assert long.status_code == 403


@pytest.mark.parametrize("address", ["/memory/1/forget", "/undo", "/sign-out", "/sign-in"])
def test_a_form_of_any_number_of_fields_is_refused_and_no_fault(page: Page, address: str) -> None:
    before = page.workspace.ledger_head().summary
    many = "&".join([f"csrf={page.csrf()}", *(f"x{number}=1" for number in range(5_000))])
    sent = page.client.post(address, content=many, headers={"content-type": "application/x-www-form-urlencoded"})
    assert sent.status_code == (401 if address == "/sign-in" else 403)
    assert page.workspace.ledger_head().summary == before


@pytest.mark.parametrize(
    "to", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "\\\\x"]
)
def test_a_form_leads_to_no_other_site(page: Page, to: str) -> None:
    answer = page.client.post("/care/keep", data={"csrf": page.csrf(), "key": "x", "next": to}, follow_redirects=False)
    assert answer.headers["location"] == "/search"
    theme = page.client.get("/theme", params={"to": "dark", "next": to}, follow_redirects=False)
    assert theme.headers["location"] == "/search"
    van, docks = (
        next(card.id for card in page.workspace.list(limit=50).memories if card.title == title)
        for title in ("The van", "Docks keep an MQTT connection")
    )
    form = {"csrf": page.csrf(), "into": str(docks), "then": to}
    joined = page.client.post(f"/memory/{van}/merge", data=form, follow_redirects=False)
    assert joined.headers["location"] == "/search"


# --- what every answer says


@pytest.mark.parametrize("path", [*PAGES, "/search.json", "/static/page.js", "/nothing", "/sign-in"])
def test_every_answer_has_its_headers(page: Page, path: str) -> None:
    headers = page.get(path).headers
    assert {name: headers[name] for name in HEADERS} == HEADERS
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert "unsafe" not in headers["content-security-policy"]


@pytest.mark.parametrize(
    "name", ["../app.py", "..%2fapp.py", "vendor/../../app.py", "/etc/passwd", "vendor", "", "nothing.js", "page.css/"]
)
def test_no_file_is_given_out_but_those_of_the_page(page: Page, name: str) -> None:
    answer = page.get(f"/static/{name}")
    assert answer.status_code == 404
    assert "import" not in answer.text


# --- scopes


@pytest.fixture
def ben(root: Path) -> Iterator[Page]:
    written(root, "memory/users/ada/secret.md", "# Ada's secret\n\nAda keeps the spare key below the mat.\n")
    written(
        root, "memory/users/ada/secret2.md", "# Ada's secret again\n\nAda keeps the spare key below the mat, too.\n"
    )
    yield from made(root, scope=Scope(user="ben"))


def as_ada(page: Page) -> Workspace:
    return page.workspace.for_caller(Caller(scope=Scope(user="ada")))


def test_no_address_crosses_a_scope(ben: Page) -> None:
    hidden = [card.id for card in as_ada(ben).list(limit=50).memories if "ada" in card.path]
    assert len(hidden) == 2
    open_to_all = [
        "/search",
        "/search?q=key&archived=1",
        "/agent?q=key",
        "/care?check=1",
        "/time",
        "/numbers",
        "/folders",
    ]
    of_hers = [f"/memory/{id_}{end}" for id_ in hidden for end in ("", "/links", "/similar", "/versions")]
    of_hers += [f"/memory/1/similar?with={id_}" for id_ in hidden]
    for address in (*open_to_all, *of_hers):
        path, _, query = address.partition("?")
        for form in (address, f"{path}.json?{query}"):
            answer = ben.get(form)
            assert "below the mat" not in answer.text, form
            assert "Ada" not in answer.text, form
            assert "users/ada" not in answer.text, form
            assert answer.status_code == (404 if address in of_hers else 200), form


def test_no_route_crosses_a_scope_whatever_is_asked_of_it(ben: Page) -> None:
    """Each page, with each parameter that a view reads, given what is hers."""
    whole = as_ada(ben)
    first, second = [card.id for card in whole.list(limit=50).memories if "ada" in card.path]
    whole.checkpoint_create("of-ada")
    read = re.findall(r'request\.(?:text|flag|number)\("([a-z_]+)"\)', Path(views.__file__).read_text("utf-8"))
    assert {"q", "with", "older", "newer", "as_of", "head", "kind", "more"} <= set(read)
    hers = ("key below the mat", str(first), "of-ada", "users/ada", "memory/users/ada", "1")
    for path in views.PAGES:
        address = path.replace("{id:int}", str(first)).replace("{name:path}", "of-ada")
        own = path.replace("{id:int}", "1").replace("{name:path}", "001-docks")
        asked = [f"{own}?{name}={quote(value)}" for name in sorted({*read, *views.FILTERS}) for value in hers]
        for one in (address, f"{address}?with={second}&older=1&newer=2&more=1&archived=1", *asked):
            answer = ben.get(one)
            assert answer.status_code < 500, one
            left = html.unescape(answer.text).replace("key below the mat", "")  # that was asked
            assert not re.search(r"Ada|spare key|secret2?\.md", left), one
            if one.startswith(address) and "{id" in path:
                assert answer.status_code == 404, one


def test_no_earlier_moment_checkpoint_or_version_crosses_a_scope(ben: Page) -> None:
    """What was hers then is hers now: by a day, by her checkpoint, by one of everybody, by what was forgotten since."""
    whole = as_ada(ben)
    first, second = [card.id for card in whole.list(limit=50).memories if "ada" in card.path]
    whole.checkpoint_create("of-ada")
    ben.workspace.checkpoint_create("of-the-operator")
    whole.link(first, second, "supports", evidence="Ada said so")
    whole.link(first, 1, "supports", evidence="Ada said this, too")
    whole.update(first, title="Ada's changed")
    whole.delete(second)
    moment = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    known = [f"/search?q=key+mat&archived=1&as_of={when}" for when in ("2099-01-01", moment, "of-the-operator")]
    known += ["/time", "/time/ledger", "/memory/1/links", "/memory/1/versions", "/memory/1/similar", "/search"]
    hers = ["/search?q=key+mat&as_of=of-ada", "/time/checkpoint/of-ada"]
    hers += [f"/memory/{id_}{end}" for id_ in (first, second) for end in ("", "?plain=1", "/links", "/versions")]
    hers += [f"/memory/{id_}/versions?older=1&newer=2" for id_ in (first, second)]
    hers += [f"/memory/{one}/similar?with={other}" for one, other in ((first, second), (second, 1), (1, first))]
    for address in (*known, *hers, "/time/checkpoint/of-the-operator"):
        path, _, query = address.partition("?")
        for form in (address, f"{path}.json?{query}"):
            answer = ben.get(form)
            for secret in ("below the mat", "Ada", "users/ada", "secret2"):
                assert secret not in answer.text, (form, secret)
            if address in hers:
                assert answer.status_code in (400, 404), form
            elif address in known:
                assert answer.status_code in (200, 400), (form, answer.text)
    assert "of-ada" not in ben.text("/time")
    before = whole.ledger_head().summary
    for address in ("/time/checkpoint/of-ada/restore", "/time/checkpoint/of-ada/delete"):
        ben.post(address, confirm="1", clear="1", files="1")
    assert whole.ledger_head().summary == before
    assert "of-ada" in [row["name"] for row in whole.checkpoint_list().checkpoints]


def test_no_change_crosses_a_scope(ben: Page) -> None:
    whole = as_ada(ben)
    (first, second) = [card.id for card in whole.list(limit=50).memories if "ada" in card.path]
    whole.update(first, title="Ada's changed")
    (made_,) = whole.changes(first).changes
    whole.checkpoint_create("of-ada")
    whole.link(first, second, "supports")
    linked = whole.why(first).steps[0].link.id
    forms: dict[str, dict[str, str]] = {
        f"/memory/{first}/update": {"title": "x", "tier": "normal", "type": "general"},
        f"/memory/{first}/judge": {"verdict": "outdated"},
        f"/memory/{first}/forget": {},
        f"/memory/{first}/merge": {"into": str(second)},
        f"/memory/{first}/link": {"target": "1", "relation": "caused"},
        "/memory/1/link": {"target": str(first), "relation": "caused"},
        f"/memory/{first}/phrase/remove": {"phrase": "x"},
        "/undo": {"operation": made_.operation},
    }
    forms |= {"/care/keep": {"key": f"unused:{first}"}, "/time/checkpoint": {"name": "of-ben"}}
    forms |= {f"/time/checkpoint/of-ada/{end}": {"confirm": "1"} for end in ("restore", "delete")}
    forms |= {f"/memory/{first}/trust": {"trusted": "1"}, f"/link/{linked}/remove": {}, "/index": {}, "/repair": {}}
    tried = {re.sub(r"/\d+(?=/)", "/{id:int}", address).replace("of-ada", "{name:path}") for address in forms}
    assert tried == set(changes.CHANGES)
    before = whole.ledger_head().summary
    for address, form in forms.items():
        ben.post(address, **form)
        assert whole.ledger_head().summary == before, address


# --- beside MCP


def test_the_page_and_mcp_share_an_address_and_each_has_its_own_door(live: LiveWorkspace, page: Page) -> None:
    access = PageAccess(names=NAMES, token=TOKEN, port=8765)
    app = application(live, host="127.0.0.1", token=TOKEN, page=access)
    with TestClient(app, base_url="http://127.0.0.1:8765") as client:
        assert client.post("/mcp").status_code == 401
        assert client.get("/search", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 401
        wrong = client.post("/sign-in", data={"token": "x", "to": "/search"})
        assert wrong.status_code == 401
        signed = client.post("/sign-in", data={"token": TOKEN, "to": "/folders"}, follow_redirects=False)
        assert (signed.status_code, signed.headers["location"]) == (303, "/folders")
        # The cookie opens the page and nothing else.
        assert client.post("/mcp").status_code == 401


def test_without_a_token_on_loopback_the_page_lets_in_who_comes(page: Page) -> None:
    live = LiveWorkspace(lambda: page.workspace.for_caller(page.workspace.caller), background=False)
    access = PageAccess(names=NAMES, open_to_all=True, port=8765)
    client = TestClient(page_app(live, access), base_url="http://127.0.0.1:8765")
    answer = client.get("/folders")
    assert answer.status_code == 200
    assert "001-docks" in answer.text
    assert client.post("/memory/1/forget").status_code == 403
