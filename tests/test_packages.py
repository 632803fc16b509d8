"""Do the tools that need programs of others say so where these cannot be had, and go on?"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tools import clients, hosts, packages
from tools.packages import Absent, install_from_npm, install_from_pypi, node

NOWHERE = "http://127.0.0.1:9/"


def test_without_npm_hosts_are_named_and_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.argv", ["hosts"])
    assert hosts.main() == 0
    printed = capsys.readouterr().out
    assert printed.count("not run: npm is not installed") == sum(host.ci for host in hosts.HOSTS)
    assert "0 passed, 0 failed, 3 skipped" in printed
    monkeypatch.setattr("sys.argv", ["hosts", "--needed"])
    assert hosts.main() == 1


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_a_registry_that_cannot_be_reached_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("npm_config_registry", NOWHERE)
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
    with pytest.raises(Absent, match=r"npm cannot install: .*127\.0\.0\.1:9"):
        install_from_npm(tmp_path / "modules", ["is-odd@3.0.1"])
    # What failed once is tried again, not taken for done.
    with pytest.raises(Absent):
        install_from_npm(tmp_path / "modules", ["is-odd@3.0.1"])


def test_a_library_that_cannot_be_had_is_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.setenv(name, NOWHERE)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(Absent, match="pip cannot install"):
        install_from_pypi(tmp_path / "environment", "nothing-has-this-name-in-any-index==1.0")
    monkeypatch.setattr(packages, "BUILD", tmp_path)
    monkeypatch.setattr(clients, "BUILD", tmp_path)
    monkeypatch.setattr(clients, "LIBRARIES", {"none": "nothing-has-this-name-in-any-index==1.0"})
    monkeypatch.setattr("sys.argv", ["clients"])
    assert clients.main() == 0
    assert "not run: pip cannot install" in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_machines_own_node_is_taken_where_it_is_new_enough(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert str(node((0, 1))) == shutil.which("node")
    monkeypatch.setattr(packages, "BUILD", tmp_path)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Absent, match="npm is not installed"):
        node((22, 0))
