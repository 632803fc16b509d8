"""Is a secret kept anywhere that came in by a name, an id or a reason instead of a text?

Every text parameter of every verb is given one, also nested in objects, and then every byte that is on disk is looked
at: the index with all its tables, checkpoints, the trash, created files and folders.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from spec_kit_memory.errors import BadParameter, BadSpecFolder, SpecKitMemoryError
from spec_kit_memory.parameters import Request
from spec_kit_memory.serve.tools import TOOLS
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place

# Of each a part that nothing else has, in lower case: what is kept of a text may be folded.
TOKENS = {
    "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bD1fG3hJ5": "b3de5gh7jk9mn1pq3st5",
    "AKIA" + "Q7RT5YUIOP3ASDFG": "q7rt5yuiop3asdfg",
    "glpat-" + "xY7zW9vU5tS3rQ1pO2nM": "xy7zw9vu5ts3rq1po2nm",
}


@pytest.fixture
def workspace(place: Place) -> Workspace:
    place.memory("tokens", "# Login\n\nAccess tokens live fifteen minutes.")
    place.memory("broker", "# Broker\n\nThe message broker is Mosquitto.")
    return place.open()


def stored(root: Path) -> Iterator[tuple[str, str]]:
    """Everything below a workspace, in lower case, with where it is."""
    for path in sorted(root.rglob("*")):
        yield f"the name of {path.name}", str(path.relative_to(root)).lower()
        if not path.is_file():
            continue
        data = path.read_bytes()
        yield str(path), data.decode("latin-1").lower()
        if path.suffix == ".gz":
            yield str(path), gzip.decompress(data).decode("latin-1").lower()
        if path.suffix == ".sqlite":
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
                for (table,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
                    with suppress(sqlite3.DatabaseError):  # of an extension that this SQLite lacks
                        for row in database.execute(f"SELECT * FROM [{table}]"):
                            yield f"table {table}", repr(row).lower()


def found_in(workspace: Workspace) -> set[str]:
    workspace.close()
    everything = list(stored(workspace.settings.root))
    assert len(everything) > 20
    return {where for where, text in everything if any(needle in text for needle in TOKENS.values())}


def values(kind: str, token: str) -> list[Any]:
    sentence = f"deploy with {token} tonight"
    if kind == "texts":
        return [[token, sentence], [token]]
    if kind == "object":
        return [
            {"sessionSummary": sentence},
            dict.fromkeys(("specFolder", "title", "sessionId", "session_id", "channel", "contextType"), sentence)
            | {"sessionSummary": "Said.", "triggerPhrases": [token], "links": {"supports": [token]}},
            {"sessionSummary": "Said.", "keyDecisions": [{"decision": token, token: token}], token: {token: [token]}},
            {"sessionSummary": "Said.", "filesModified": [token, {"path": token, "summary": sentence}]},
            {"sessionSummary": "Said.", "specFolder": token},
            {"sessionSummary": "Said.", "sessionId": token},
        ]
    return [token, sentence, f"001-{token}", f"001-core/002-{token}"]


REST: dict[str, Any] = {
    "id": 1, "memory_id": 1, "source_id": 1, "target_id": 2, "relation": "supports", "prompt": "access tokens",
    "query": "access tokens", "name": "a", "create": True, "confirm": True, "path": "memory/a.md",
}  # fmt: skip


def calls(token: str) -> Iterator[tuple[str, type[Request], dict[str, Any]]]:
    for tool in TOOLS:
        known = tool.request.declared
        rest = {name: value for name, value in REST.items() if name in known}
        for parameter in tool.parameters:
            if parameter.kind in ("text", "path", "texts", "object") and not parameter.choices:
                for value in values(parameter.kind, token):
                    yield f"{tool.name} {parameter.name}", tool.request, {**rest, parameter.argument: value}
    save = next(tool.request for tool in TOOLS if tool.name == "memory_save")
    yield "a fact", save, {"text": f"deploy with {token} tonight", "spec_folder": "001-core"}
    yield "a new folder", save, {"text": "A fact.", "spec_folder": f"009-{token}", "create": True}
    yield "a new folder", save, {"context": {"sessionSummary": "Said.", "specFolder": f"009-{token}"}, "create": True}


NAMES = sorted({name for name, *_ in calls("")})


@pytest.mark.parametrize("name", NAMES)
def test_a_secret_in_any_parameter_is_kept_nowhere(workspace: Workspace, name: str) -> None:
    for token in TOKENS:
        for called, request, arguments in calls(token):
            if called == name:
                with suppress(SpecKitMemoryError):
                    getattr(workspace, request.verb)(**arguments)
    assert found_in(workspace) == set()


def test_parameters_of_many_kinds_were_tried() -> None:
    assert len(NAMES) > 25
    assert {"checkpoint_create name", "memory_search sessionId", "memory_causal_link evidence"} <= set(NAMES)


@pytest.mark.parametrize("token", TOKENS)
def test_a_name_that_is_kept_for_good_is_refused_without_repeating_it(workspace: Workspace, token: str) -> None:
    with pytest.raises(BadParameter, match="looks like a secret") as caught:
        workspace.checkpoint_create(f"before {token}")
    assert token not in caught.value.message
    with pytest.raises(BadSpecFolder) as refused:
        workspace.save(text="A fact.", spec_folder=f"009-{token}", create=True)
    assert "_" in token or token not in refused.value.message


@pytest.mark.parametrize("token", TOKENS)
def test_a_session_keeps_its_place_though_its_id_is_not_kept(workspace: Workspace, token: str) -> None:
    turns = [workspace.triggers("access tokens", session_id=token).session["turn"] for _ in range(3)]
    assert turns == [1, 2, 3]
    assert workspace.triggers("access tokens", session_id=f"other {token}").session["turn"] == 1
    assert found_in(workspace) == set()


@pytest.mark.parametrize("token", TOKENS)
def test_a_secret_in_a_transcript_is_kept_nowhere_whatever_field_it_stands_in(
    workspace: Workspace, tmp_path: Path, token: str
) -> None:
    message = {"content": "The broker is Mosquitto.", "timestamp": "2026-03-01T10:00:00Z"}
    lines = [
        {"role": "user", "conversation_id": token, **message},
        {"role": token, **message},
        {"role": "user", "content": "Something.", "timestamp": token},
        {"type": "user", "sessionId": token, "uuid": "1", "message": {"role": "user", "content": f"Use {token} now."}},
        {"type": "summary", "summary": f"About {token}", "leafUuid": token},
        {"id": token, "title": token, "messages": [{"role": "user", **message}]},
        {"type": "session_meta", "payload": {"id": token}, "timestamp": token},
        {"type": "response_item", "payload": {"type": "message", "role": "user", "content": "Codex said it."}},
    ]
    for number, line in enumerate(lines):
        path = tmp_path / f"{number}.jsonl"
        path.write_text(json.dumps(line) + "\n", encoding="utf-8")
        with suppress(SpecKitMemoryError):
            workspace.chat_import([path])
    assert workspace.chat_list().memories
    assert found_in(workspace) == set()


@pytest.mark.parametrize("token", TOKENS)
def test_a_secret_in_the_name_of_a_branch_is_kept_nowhere(place: Place, workspace: Workspace, token: str) -> None:
    place.write(".git/HEAD", f"ref: refs/heads/{token}\n")
    workspace.checkpoint_create("a")
    workspace.save(text="A fact.", spec_folder="001-core")
    workspace.close()
    (place.root / ".git" / "HEAD").unlink()
    assert found_in(workspace) == set()
