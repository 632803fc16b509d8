"""Do the files in deploy/ fit the program and each other? Options, variables, paths and names in them are looked up."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from starlette.testclient import TestClient

from spec_kit_memory.serve.cli.main import main
from spec_kit_memory.serve.http import team_app
from spec_kit_memory.serve.http.team_app import Team, team_application
from spec_kit_memory.settings import load
from spec_kit_memory.settings.keys import Settings
from spec_kit_memory.team.database import TeamDatabase

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
UNIT = dict(
    line.split("=", 1)
    for line in (DEPLOY / "spec-kit-memory-team.service").read_text(encoding="utf-8").splitlines()
    if "=" in line and not line.startswith("#")
)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the command would serve with."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(team_app, "serve_team", lambda **arguments: given.update(arguments))
    return given


def arguments(command: list[str]) -> list[str]:
    """What `skm` is given, in a command that ends in it."""
    return command[next(at for at, word in enumerate(command) if word.rpartition("/")[2] == "skm") + 1 :]


def run(command: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments(command))
    assert not ended.value.code


def test_the_images_command_starts_a_team_server(started: dict[str, Any]) -> None:
    shell = yaml.safe_load(DOCKERFILE.partition("\nCMD ")[2])
    assert shell[:2] == ["sh", "-c"]
    run([word.replace("$MEMORY_HOST", "memory.example.org") for word in shlex.split(shell[2])])
    assert started["host"] == "0.0.0.0"  # noqa: S104 the proxy is in another container
    assert started["allowed_hosts"] == ("memory.example.org",)
    home = "/home/memory"
    assert "useradd --create-home --uid 1000 memory" in DOCKERFILE
    assert Path(started["data"]).is_relative_to(home)
    assert DOCKERFILE.index("USER 1000") > DOCKERFILE.index("RUN pip install")
    assert re.search(rf"^EXPOSE {started['port']}$", DOCKERFILE, re.MULTILINE)


def test_the_units_command_starts_a_team_server_in_the_folder_that_it_may_write(started: dict[str, Any]) -> None:
    run(shlex.split(UNIT["ExecStart"]))
    assert started["host"] == "127.0.0.1"
    assert UNIT["ProtectSystem"] == "strict"
    assert started["data"] == f"/var/lib/{UNIT['StateDirectory']}"


def test_the_image_has_what_the_package_is_made_of() -> None:
    copied = [word for line in re.findall(r"^COPY (.*)$", DOCKERFILE, re.MULTILINE) for word in line.split()[:-1]]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    outside = {name for name in project["license-files"] if not name.startswith("src/")}
    assert set(copied) == {"src", "pyproject.toml", project["readme"], *outside}
    assert all((ROOT / name).exists() for name in copied)
    assert re.search(r"^FROM python:(\d+\.\d+)-slim$", DOCKERFILE, re.MULTILINE)
    assert "[team]" in DOCKERFILE
    assert "team" in project["optional-dependencies"]
    assert {"git", "openssh-client"} <= set(DOCKERFILE.split())  # what the server runs


def test_the_services_name_what_there_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    services, memory = COMPOSE["services"], COMPOSE["services"]["memory"]
    build = memory["build"]
    assert (DEPLOY / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()
    assert set(memory["depends_on"]) <= set(services)
    assert "healthcheck" in services["database"]  # `service_healthy` waits for it
    for service in services.values():
        assert set(service.get("secrets", ())) <= set(COMPOSE["secrets"])
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert source.startswith("./") or source in COMPOSE["volumes"]
    secret = "/run/secrets/"
    assert memory["environment"]["PGPASSFILE"].removeprefix(secret) in memory["secrets"]
    database = services["database"]["environment"]
    assert database["POSTGRES_PASSWORD_FILE"].removeprefix(secret) in services["database"]["secrets"]
    # The variables of the server are those that it reads, or that the command of its image does.
    monkeypatch.setenv("SPEC_KIT_MEMORY_INDEX_URL", memory["environment"]["SPEC_KIT_MEMORY_INDEX_URL"])
    settings = load(tmp_path)
    assert settings.index.url == f"postgresql://postgres@database/{database['POSTGRES_DB']}"
    read = {"SPEC_KIT_MEMORY_INDEX_URL", "PGPASSFILE", *re.findall(r"\$(\w+)", DOCKERFILE)}
    assert set(memory["environment"]) == read


def test_what_asks_whether_it_is_ready_is_answered_and_the_proxy_finds_it(database: TeamDatabase) -> None:
    memory, proxy = COMPOSE["services"]["memory"], COMPOSE["services"]["proxy"]
    address = re.search(r"http://([\w.]+):(\d+)(/\w+)", memory["healthcheck"]["test"][-1])
    assert address is not None
    assert f"--to memory:{address[2]}" in proxy["command"]
    team = Team(database, Settings(root=ROOT), background=False)
    app = team_application(team, host="0.0.0.0", allowed_hosts=["memory.example.org"])  # noqa: S104
    answer = TestClient(app, base_url=f"http://{address[1]}:{address[2]}").get(address[3])
    assert (answer.status_code, answer.text) == (200, "ok\n")
