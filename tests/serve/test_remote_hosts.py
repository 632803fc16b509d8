"""Does connecting a team server write an address and no secret, leave the local server alone, and go away again?"""

from __future__ import annotations

from pathlib import Path

import pytest

from spec_kit_memory.errors import BadParameter
from spec_kit_memory.serve import hosts
from spec_kit_memory.serve.hosts.team_entry import _FORMS, REMOTE, VARIABLE
from tests.serve.test_hosts import EVERY_HOST, EVERY_SCOPE, everything, home, root

__all__ = ["home", "root"]  # fixtures

URL = "https://memory.example.org/mcp"
SECRET = "skmt_0123456789abcdefghijklmnopqrstuvwxyzABCDE"


def test_every_host_can_reach_a_team_server() -> None:
    assert set(_FORMS) == set(hosts.HOSTS)


@EVERY_SCOPE
@EVERY_HOST
def test_a_team_server_is_connected_alone_and_without_a_trace_after_it(
    host: str, scope: str, root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, SECRET)
    before = everything(root, home)
    done = hosts.install(host, root=root, scope=scope, apply=True, url=URL)
    (change,) = done.changes
    text = Path(change["path"]).read_text(encoding="utf-8")
    assert REMOTE in text
    assert URL in text
    assert not any(SECRET.encode() in (data or b"") for data in everything(root, home).values())
    assert (VARIABLE in text) == (_FORMS[host][0] is not None)
    assert not hosts.install(host, root=root, scope=scope, apply=True, url=URL).changes
    hosts.uninstall(host, root=root, scope=scope, apply=True)
    assert everything(root, home) == before


@EVERY_HOST
def test_the_local_server_stays_beside_it_and_both_go_together(host: str, root: Path, home: Path) -> None:
    before = everything(root, home)
    hosts.install(host, root=root, apply=True)
    local = everything(root, home)
    (change,) = hosts.install(host, root=root, apply=True, url=URL).changes
    both = Path(change["path"]).read_text(encoding="utf-8")
    assert REMOTE in both
    assert both.count("spec_kit_memory") > both.count(REMOTE)  # the local one's own entry
    assert VARIABLE not in both  # no token was there: OAuth
    assert {path for path, data in everything(root, home).items() if local.get(path) != data and "." in path} >= {
        change["path"]
    }
    hosts.uninstall(host, root=root, apply=True)
    assert everything(root, home) == before


@pytest.mark.parametrize(
    "url",
    ["memory.example.org", "http://memory.example.org/mcp", "https://u:p@h/mcp", "https://h/mcp?token=x", "ftp://h"],
)
def test_an_address_without_tls_or_with_a_secret_in_it_is_refused(url: str, root: Path, home: Path) -> None:
    before = everything(root, home)
    with pytest.raises(BadParameter):
        hosts.install("codex", root=root, apply=True, url=url)
    assert everything(root, home) == before
