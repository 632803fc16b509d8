"""Is every answer of every tool of a sane length, whatever a repository holds?

A workspace made to make answers long is asked everything a client can ask, in memory and by the SDK's own client.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from spec_kit_memory.serve.mcp.server import MOST_CHARACTERS, build_server
from spec_kit_memory.serve.mcp.workspace_handle import LiveWorkspace
from spec_kit_memory.serve.tools import TOOLS
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace

# Data has so many, and summary, hints and meta are short.
MOST = MOST_CHARACTERS + 80_000
LONG = "n" * 150
HUGE = "login " * 2_000
WORD = "w" * 9_000
WORST = ("unclosed", "repeated", "line", "heading", "triggers", "claims", "hub", "front")
MANY_PHRASES = " ".join(f"login phrase {number}" for number in range(600))


def hostile_files() -> Iterator[tuple[str, str]]:
    yield "memory/unclosed.md", "# Unclosed login\n" + "".join(f"<!-- ANCHOR:a{n} -->\n" for n in range(40_000))
    yield "memory/unopened.md", "# Unopened login\n" + "".join(f"<!-- /ANCHOR:a{n} -->\n" for n in range(40_000))
    yield "memory/repeated.md", "# Repeated login\n" + "<!-- ANCHOR:a -->x<!-- /ANCHOR:a -->\n" * 25_000
    yield "memory/long-ids.md", "# Long login\n" + "".join(f"<!-- ANCHOR:{'a' * 30_000}{n} -->\n" for n in range(30))
    yield "memory/no-ids.md", "# Odd login\n" + "<!-- ANCHOR:??? -->\n" * 40_000
    yield "memory/line.md", "# Line\n\n" + "login of a harbour in May " * 37_000
    yield "memory/heading.md", "# " + "login of a harbour in May " * 37_000
    yield "memory/headings.md", "\n".join(f"{'#' * (1 + n % 6)} login heading {n}" for n in range(40_000))
    yield "memory/secrets.md", "# S\n" + "".join(f"password = hunter{n}hunter{n}\n" for n in range(10_000))
    keys = "".join(f"  - login phrase {n}\n" for n in range(1_500))
    yield "memory/triggers.md", f"---\ntitle: Triggers\ntriggers:\n{keys}---\nlogin triggers\n"
    claims = "".join(f"    - nothing {n}\n" for n in range(1_500))
    yield "memory/claims.md", f"---\ncausal_links:\n  supports:\n{claims}  blocks:\n{claims}---\n# Claims\n\nlogin\n"
    yield (
        "memory/front.md",
        f"---\ntitle: {HUGE}\nsession_id: {'s' * 9_000}\nchannel: {'c' * 9_000}\n---\nlogin front\n",
    )
    yield (
        "memory/values.md",
        f"---\ntier: {'z' * 9_000}\ncontext_type: {'y' * 9_000}\ncreated: {'x' * 9_000}\n---\nlogin\n",
    )
    for number in range(60):
        many = "".join(f"  - login {number} phrase {n}\n" for n in range(800))
        yield f"memory/phrases{number}.md", f"---\ntitle: Phrases {number}\ntriggers:\n{many}---\nlogin {number}\n"
    for number in range(30):
        yield f"constitutional/rule{number}.md", f"# Rule {number} {LONG}\n" + f"always login {number} " * 20_000
    for number in range(150):
        yield f"memory/{LONG}{number}.md", f"# {'T' * 400} {number}\n\nlogin note {number}\n"
        yield f"memory/copy{LONG}{number}.md", "# Copy\n\nthe same login body\n"
        yield f"specs/001-{LONG}{number}/memory/a.md", f"# S{number}\n\nlogin spec {number}\n"
        yield f"specs/002-a/stray{LONG}{number}.md", "# stray\n"
    yield "memory/hub.md", "# Hub\n\nlogin hub\n"
    for number in range(300):
        linked = "---\ncausal_links:\n  supports: [memory/hub.md]\n---\n"
        yield f"specs/003-links/memory/l{number}.md", f"{linked}# Link {number} {LONG}\n\nlogin link {number}\n"


def _fill(root: Path) -> None:
    for path, text in hostile_files():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    for number in range(300):
        (root / "memory" / f"bad{LONG}{number}.md").write_bytes(b"\xff\xfe\x00\xd8bad\xff")
        os.symlink("/etc/hostname", root / "memory" / f"link{LONG}{number}.md")
    checkpoints = root / ".spec-kit-memory" / "checkpoints"
    checkpoints.mkdir(parents=True, mode=0o700)
    for number in range(300):
        (checkpoints / f"bad{LONG[:80]}{number}.jsonl.gz").write_bytes(b"junk")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    root = tmp_path_factory.mktemp("hostile")
    _fill(root)
    with Workspace(Settings(root=root, semantic=Semantic(model="none"), watch="off")) as opened:
        opened.index()
        yield opened


def asked(workspace: Workspace) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every tool, plainly and as greedily as its parameters allow."""
    ids = {memory.path: memory.id for memory in workspace._runtime.store.documents.find()}
    greedy: dict[str, Any] = {
        "limit": 100, "offset": 100, "includeContent": True, "includeContiguity": True, "explain": True,
        "includeArchived": True, "maxDepth": 10, "query": "login", "prompt": MANY_PHRASES,
        "sessionId": "s", "repair": True, "force": True,
    }  # fmt: skip
    for tool in TOOLS:
        if tool.destroys and tool.name != "memory_update":
            continue
        names = {parameter.name for parameter in tool.parameters}
        needed: dict[str, Any] = {
            "query": "login", "prompt": "login phrase 1", "path": "memory/line.md", "relation": "supports",
            "sourceId": ids["memory/hub.md"], "targetId": ids["memory/claims.md"], "name": "one",
        }  # fmt: skip
        plain = {name: value for name, value in needed.items() if name in names}
        many = {**plain, **{name: value for name, value in greedy.items() if name in names}}
        if tool.name == "memory_history":
            many["limit"] = 1000
        which = next((name for name in ("memoryId", "id") if name in names), None)
        if tool.name == "memory_save":
            yield from ((tool.name, {"filePath": f"memory/{name}.md"}) for name in WORST)
            yield tool.name, {"context": {f"k{n}": n for n in range(20_000)}}
            yield tool.name, {"context": {"sessionSummary": "x", "keyDecisions": [{"z": 1}] * 20_000}}
            yield (
                tool.name,
                {"context": {"sessionSummary": "login " * 2_000, "triggerPhrases": [f"p {n}" for n in range(3_000)]}},
            )
        elif tool.name == "memory_get":
            yield from ((tool.name, {"path": f"memory/{name}.md"}) for name in WORST)
            yield tool.name, {"path": "memory/headings.md", "from": 1, "count": 100_000}
        elif which is not None:
            copy = next(path for path in ids if "copy" in path)
            for path in (*(f"memory/{name}.md" for name in WORST), copy):
                yield tool.name, {**plain, which: ids[path]}
                more = {"anchorId": "x" * 200} if "anchorId" in names else {}
                yield tool.name, {**many, which: ids[path], **more}
            if tool.name == "memory_history":
                yield tool.name, {"limit": 1000}
        else:
            yield tool.name, plain
            yield tool.name, many
    yield "memory_search", {"query": "login", "groupBy": "passage", "limit": 100}
    yield "memory_search", {"query": "login", "anchors": [f"a{n}" for n in range(20)], "limit": 100}
    yield "memory_search", {"concepts": ["login", "phrase"], "limit": 100}
    yield "checkpoint_list", {}
    yield "memory_delete", {"specFolder": "003-links", "confirm": True, "deleteFile": True}
    yield "checkpoint_restore", {"name": "one", "clearExisting": True, "restoreFiles": True}
    yield "memory_load", {"memoryId": ids["memory/hub.md"], "anchorId": "x"}
    yield "no such tool", {"a" * 10_000: "b" * 10_000}


def test_no_answer_is_longer_than_anybody_asked_for(workspace: Workspace) -> None:
    live = LiveWorkspace(lambda: workspace, background=False)
    lengths: dict[str, int] = {}

    async def ask() -> None:
        async with Client(build_server(live), mode="legacy") as client:
            for name, arguments in asked(workspace):
                try:
                    result = await client.call_tool(name, arguments)
                    length = len(result.model_dump_json()) // 2  # as text, and structured
                except MCPError as error:
                    length = len(json.dumps([error.message, error.data], default=str))
                shown = f"{name} {json.dumps(arguments)[:100]}"
                lengths[shown] = max(length, lengths.get(shown, 0))
            uris = ["memory://constitutional", "memory://folder/003-links", "x" * 100_000]
            for uri in (*uris, *(f"memory://{number}" for number in range(1, 40))):
                lengths[uri[:50]] = await _length(partial(client.read_resource, uri))
            lengths["resources"] = await _length(client.list_resources)
            for prompt in ("resume", "save", "nothing" * 10_000):
                lengths[prompt[:50]] = await _length(partial(client.get_prompt, prompt, {}))
            for name in ("specFolder", "name"):
                about = types.PromptReference(name="checkpoint")
                completed = partial(client.complete, about, {"name": name, "value": ""})
                lengths[f"completion {name}"] = await _length(completed)

    anyio.run(ask)
    assert len(lengths) > 120
    asked_tools = {shown.split(" ", 1)[0] for shown in lengths}
    assert {tool.name for tool in TOOLS} - asked_tools <= {"checkpoint_delete", "memory_causal_unlink"}
    # A resource is a whole memory, of at most 100,000 tokens.
    most = {shown: 500_000 if shown.startswith("memory://") else MOST for shown in lengths}
    too_long = {shown: length for shown, length in lengths.items() if length > most[shown]}
    assert too_long == {}


async def _length(work: Callable[[], Any]) -> int:
    try:
        return len((await work()).model_dump_json())
    except MCPError as error:
        return len(json.dumps([error.message, error.data], default=str))


def test_a_part_of_a_line_is_said_to_be_one(workspace: Workspace) -> None:
    ids = {memory.path: memory.id for memory in workspace._runtime.store.documents.find()}
    loaded = workspace.load(ids["memory/heading.md"], max_tokens=1_000)
    assert len(loaded.text) == 4_000
    assert any("up to character 4,000 of" in hint for hint in loaded.hints)
    got = workspace.get("memory/line.md", lines="3")
    assert len(got.text) == 100_000
    assert any("line 3 is shown up to character 100,000 of" in hint for hint in got.hints)
    whole = workspace.get("memory/headings.md")
    assert whole.lines.startswith("1-")
    following = int(whole.lines.split("-")[1]) + 1
    assert any(f"{following}-40000" in hint for hint in whole.hints)
    assert workspace.get("memory/headings.md", from_=following, count=5).text.startswith("#")


def test_the_index_does_not_keep_what_is_wrong_a_hundred_thousand_times(workspace: Workspace) -> None:
    for memory in workspace._runtime.store.documents.find():
        assert len(memory.warnings) <= 25, memory.path
        assert sum(len(str(warning.message)) for warning in memory.warnings) < 20_000
