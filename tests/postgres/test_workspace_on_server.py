"""Does a workspace whose index is on PostgreSQL work as any other, by commands, over MCP and in Python?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from spec_kit_memory.errors import BadParameter, DatabaseUnusable, Invalid, MemoryNotFound
from spec_kit_memory.index import open_index
from spec_kit_memory.index.contract import StateFiles
from spec_kit_memory.settings import describe, load
from spec_kit_memory.settings.keys import IndexPlace, Semantic, Settings
from spec_kit_memory.team.database import TeamDatabase
from spec_kit_memory.workspace import Workspace
from tests.postgres.command import skm
from tests.postgres.round_trips import counted
from tests.postgres_server import Server

NOTES = {
    "memory/retry.md": "# Retry\n\nUse exponential backoff for flaky tests.\n",
    "memory/colour.md": "# Colours\n\nThe palette is teal and sand.\n",
    "specs/001-x/memory/choice.md": "# Choice\n\nWe chose tokens over sessions because of the proxies.\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in NOTES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def on_server(root: Path, server: Server, *, project: str | None = None) -> Settings:
    place = IndexPlace(url=server.url(), project=project or uuid4().hex)
    return Settings(root=root, index=place, semantic=Semantic(model="hashing"))


def test_commands_serve_a_workspace_from_nothing(root: Path, server: Server) -> None:
    url = server.url()
    assert skm(root, "index", url=url)["data"]["new"] == 3
    assert skm(root, "search", "exponential backoff", url=url)["data"]["results"][0]["path"] == "memory/retry.md"
    saved = skm(root, "save", "--text", "The gate opens at nine", url=url)["data"]
    assert skm(root, "search", "when does the gate open", url=url)["data"]["results"][0]["id"] == saved["id"]
    assert skm(root, "checkpoint", "create", "one", url=url)["data"]["memories"] == 4
    skm(root, "delete", str(saved["id"]), url=url)
    assert skm(root, "checkpoint", "restore", "one", "--yes", url=url)["data"]["restored"] == 1
    skm(root, "undo", url=url)
    assert skm(root, "ledger", "verify", url=url)["data"]["ok"] is True
    checks = skm(root, "health", "--full", url=url)["data"]["checks"]
    assert {checks[name] for name in ("documents", "links", "text index", "vectors", "ledger")} == {"ok"}
    assert skm(root, "index", "--rebuild", url=url)["data"]["reindexed"] == 3
    assert skm(root, "search", "teal palette", url=url)["data"]["results"][0]["path"] == "memory/colour.md"
    assert not list((root / ".spec-kit-memory").glob("index.sqlite*")), "nothing is kept beside it"


def test_a_search_of_a_warm_workspace_asks_the_server_a_few_times_however_much_it_shows(
    root: Path, server: Server
) -> None:
    for number in range(30):
        lines = "\n\n".join(f"## Part {part}\n\nGate {number} and palette {part}." for part in range(4))
        (root / f"memory/n{number}.md").write_text(f"# Note {number}\n\n{lines}\n", encoding="utf-8")
    with Workspace(on_server(root, server)) as workspace:
        workspace.index()
        workspace._runtime.store.warm()
        workspace.search("the very first", limit=3)  # statistics and rules are counted once for a generation
        for question in ("gate palette", "part of the note", "palette 3"):
            workspace._runtime.shared.shelf._opened_texts.clear()  # no text is at hand
            with counted() as sent:
                assert len(workspace.search(question, limit=10).results) > 5
            # Three times the counters, the states of tokens, the links, and the texts of what is shown.
            assert len(sent) <= 6, sent


def trash_rows(workspace: Workspace) -> StateFiles:
    found = workspace._runtime.whole.state_files
    assert found is not None
    return found


def in_trash(root: Path) -> list[Path]:
    return list((root / ".spec-kit-memory").glob("trash/*"))


SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2


@pytest.mark.parametrize("ends", ["\n", "\r\n", "mixed"])
def test_what_was_deleted_is_a_row_and_comes_back_byte_for_byte(root: Path, server: Server, ends: str) -> None:
    note = root / "memory/retry.md"
    text = note.read_bytes()
    text = text.replace(b"\n", b"\r\n", 1) if ends == "mixed" else text.replace(b"\n", ends.encode())
    note.write_bytes(text)
    with Workspace(on_server(root, server)) as workspace:
        workspace.index()
        memory_id = workspace.search("exponential backoff").results[0].id
        rows = trash_rows(workspace)
        for _ in range(2):
            answer = workspace.delete(memory_id, delete_file=True)
            assert not note.exists()
            assert not in_trash(root), "the row is enough"
            assert list(rows.sizes("trash")) == list(answer.files)
            workspace.undo()
            assert note.read_bytes() == text
            assert not rows.sizes("trash"), "it went back to its place"
        assert workspace.search("exponential backoff").results[0].id == memory_id
        note.write_bytes(b"# Something else\n")
        workspace.index()
        workspace.delete(memory_id, delete_file=True)
        note.write_bytes(b"# In its place\n")
        with pytest.raises(Invalid, match="exists again") as refused:
            workspace.undo()
        assert "move it away, then" in refused.value.hint


def test_a_deleted_file_with_a_secret_stays_on_this_machine(root: Path, server: Server) -> None:
    note = root / "memory/retry.md"
    note.write_text(f"# Retry\n\nUse exponential backoff with {SECRET}.\n", encoding="utf-8")
    text = note.read_bytes()
    with Workspace(on_server(root, server)) as workspace:
        workspace.index()
        answer = workspace.delete(workspace.search("exponential backoff").results[0].id, delete_file=True)
        assert Path(answer.files[0]).read_bytes() == text
        assert not trash_rows(workspace).sizes("trash")
        workspace.undo()
        assert note.read_bytes() == text
    sql = "SELECT count(*) FROM spec_kit_memory.state_file WHERE position('ghp_'::bytea IN data) > 0"
    assert server.execute(sql) == [(0,)]


def test_a_merge_puts_both_files_into_rows(root: Path, server: Server) -> None:
    (root / "memory/again.md").write_bytes(b"# Retry again\r\n\r\nUse exponential backoff for flaky tests.\n")
    with Workspace(on_server(root, server)) as workspace:
        workspace.index()
        ids = {card.path: card.id for card in workspace.list(limit=9).memories}
        before = {path: (root / path).read_bytes() for path in ("memory/again.md", "memory/retry.md")}
        workspace.merge(ids["memory/again.md"], into=ids["memory/retry.md"])
        assert len(trash_rows(workspace).sizes("trash")) == 2
        assert not in_trash(root)
        workspace.undo()
        assert {path: (root / path).read_bytes() for path in before} == before


def test_a_deleted_memory_comes_back_from_its_text_where_its_trash_is_lost(root: Path, server: Server) -> None:
    with Workspace(on_server(root, server)) as workspace:
        workspace.index()
        before = (root / "memory/retry.md").read_bytes()
        memory_id = workspace.search("exponential backoff").results[0].id
        (name,) = workspace.delete(memory_id, delete_file=True).files
        assert trash_rows(workspace).remove("trash", name)
        workspace.undo()
        assert (root / "memory/retry.md").read_bytes() == before
        assert workspace.search("exponential backoff").results[0].id == memory_id


def test_an_id_that_was_merged_leads_on_there_too(root: Path, server: Server) -> None:
    with Workspace(on_server(root, server)) as workspace:
        workspace.index()
        one, two = (
            next(card.id for card in workspace.list().memories if card.path == path) for path in list(NOTES)[:2]
        )
        workspace.merge(one, two)
        with pytest.raises(MemoryNotFound, match=f"^memory {one} was merged into memory {two} "):
            workspace.why(one)


def test_both_engines_answer_a_workspace_alike(root: Path, server: Server) -> None:
    for number in range(40):
        text = f"# Note {number}\n\nRetry {number % 7} of the palette, tokens {number % 5} and the gate {number % 3}.\n"
        (root / f"memory/n{number}.md").write_text(text, encoding="utf-8")
    settings = on_server(root, server)
    with (
        Workspace(settings) as there,
        Workspace(Settings(root=root, semantic=Semantic(model="hashing"))) as here,
    ):
        there.index()
        here.index()
        for query in ("retry palette", "tokens over sessions", '"the gate"', "why did we choose", "note 7 gate 1"):
            shown = [
                [(card.path, card.score) for card in workspace.search(query, limit=20).results]
                for workspace in (there, here)
            ]
            assert [path for path, _ in shown[0]] == [path for path, _ in shown[1]], query
            assert all(abs(a - b) <= 0.1 for (_, a), (_, b) in zip(*shown, strict=True))


def test_two_workspaces_of_one_server_see_nothing_of_each_other(root: Path, server: Server, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "memory").mkdir(parents=True)
    first, second = load(root, environ={}), load(other, environ={})
    assert first.index_project != second.index_project
    url = server.url()
    skm(root, "index", url=url)
    skm(other, "index", url=url)
    assert skm(other, "list", url=url)["data"]["memories"] == []


def test_a_repository_cannot_name_a_server(root: Path) -> None:
    (root / ".spec-kit-memory").mkdir()
    config = root / ".spec-kit-memory" / "config.jsonc"
    config.write_text('{"index.url": "postgresql://elsewhere/notes"}', encoding="utf-8")
    with pytest.raises(BadParameter, match=r"index\.url"):
        load(root, environ={})


REFUSED_URLS = (
    "postgresql://ana:secret@db/notes",
    "postgresql://db/notes?password=secret",
    "postgresql://db/notes?pass%77ord=secret",
    "host=db password=secret",
    "mysql://ana:secret@db/notes",
)


@pytest.mark.parametrize("url", REFUSED_URLS)
def test_an_address_with_a_password_or_of_another_kind_is_refused_without_repeating_it(root: Path, url: str) -> None:
    with pytest.raises(BadParameter) as raised:
        Workspace(Settings(root=root, index=IndexPlace(url=url)))
    assert "secret" not in f"{raised.value.message} {raised.value.hint}"


@pytest.mark.parametrize("url", REFUSED_URLS)
def test_the_list_of_settings_shows_no_address_with_a_password(tmp_path: Path, url: str) -> None:
    listed = describe(load(tmp_path, environ={"SPEC_KIT_MEMORY_INDEX_URL": url}))
    assert next(row.value for row in listed if row.key == "index.url") == "(not shown)"
    assert "secret" not in str(listed)


@pytest.mark.parametrize("url", REFUSED_URLS)
def test_a_team_server_refuses_an_address_with_a_password_too(url: str) -> None:
    with pytest.raises(BadParameter) as raised:
        TeamDatabase(url)
    assert "secret" not in f"{raised.value.message} {raised.value.hint}"


def test_without_the_extra_the_error_says_what_to_install(tmp_path: Path) -> None:
    script = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("psycopg", "psycopg_pool"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.split(".")[0])
sys.meta_path.insert(0, Missing())
from spec_kit_memory.errors import DatabaseUnusable
from spec_kit_memory.index import open_index
from spec_kit_memory.index.contract import StateFiles
try:
    open_index("postgresql://localhost/notes", project="x")
except DatabaseUnusable as error:
    print(error.hint)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=180)
    assert "spec-kit-memory[team]" in done.stdout


def test_a_workspace_with_a_file_never_loads_the_driver(root: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from spec_kit_memory.settings import load;"
        "from spec_kit_memory.workspace import Workspace; w = Workspace(load(Path(sys.argv[1])));"
        "w.index(); w.search('retry'); w.close(); sys.exit('psycopg' in sys.modules)"
    )
    environment = {**os.environ, "SPEC_KIT_MEMORY_SEMANTIC_MODEL": "hashing"}
    subprocess.run([sys.executable, "-c", script, str(root)], check=True, timeout=120, env=environment)


def test_a_server_that_is_not_there_is_said_with_the_way_out() -> None:
    with pytest.raises(DatabaseUnusable, match="cannot be reached") as raised:
        open_index("postgresql://127.0.0.1:9/notes", project="x")
    assert "running" in raised.value.hint


def test_checkpoints_and_the_trash_move_along_with_the_ids_that_they_name(root: Path, server: Server) -> None:
    name = f"moved_{uuid4().hex}"
    server.execute(f"CREATE DATABASE {name}")
    url, checkpoints = server.url(name), root / ".spec-kit-memory/checkpoints"
    skm(root, "index", url="sqlite")
    note = sorted(root.glob("specs/*/memory/*.md"))[0]
    text = note.read_bytes().replace(b"\n", b"\r\n") + b"One line of Windows.\r\nAnd one of Unix.\n"
    note.write_bytes(text)
    skm(root, "index", url="sqlite")
    skm(root, "checkpoint", "create", "before", url="sqlite")
    (checkpoints / "broken.jsonl.gz").write_bytes(b"no checkpoint")
    copied = skm(root, "index", "--copy-to", url, url="sqlite")["data"]["copied"]
    assert (copied["checkpoints"], copied["trash"]) == (1, 0)

    memory_id = skm(root, "list", url=url)["data"]["memories"]
    memory_id = next(row["id"] for row in memory_id if root / row["path"] == note)
    deleted = skm(root, "delete", str(memory_id), "--delete-file", "--yes", url=url)["data"]
    assert not in_trash(root), "it is a row"
    assert deleted["files"][0].startswith("trash/")
    compared = skm(root, "checkpoint", "diff", "before", url=url)["data"]
    assert [row["id"] for row in compared["removed"]] == [memory_id], "it was made from this index"
    skm(root, "checkpoint", "create", "after", url=url)

    for file in (root / ".spec-kit-memory").glob("index.sqlite*"):
        file.unlink()
    copied = skm(root, "index", "--copy-to", "sqlite", url=url)["data"]["copied"]
    assert (copied["checkpoints"], copied["trash"]) == (2, 1)
    listed = skm(root, "checkpoint", "list", url="sqlite")["data"]["checkpoints"]
    assert {row["name"] for row in listed} >= {"before", "after"}
    assert (root / ".spec-kit-memory" / deleted["files"][0]).read_bytes() == text
    skm(root, "undo", url="sqlite")
    assert note.read_bytes() == text
    assert not skm(root, "checkpoint", "diff", "before", url="sqlite")["data"]["removed"]


def test_a_workspace_moves_to_a_server_and_back(root: Path, server: Server, tmp_path: Path) -> None:
    name = f"moved_{uuid4().hex}"
    server.execute(f"CREATE DATABASE {name}")
    url = server.url(name)
    skm(root, "index", url="sqlite")
    saved = skm(root, "save", "--text", "The gate opens at nine", url="sqlite")["data"]
    copied = skm(root, "index", "--copy-to", url, url="sqlite")["data"]["copied"]
    assert copied["memory"] == 4
    assert copied["vector"] == 4
    head = skm(root, "ledger", "verify", url="sqlite")["data"]["head"]
    assert skm(root, "ledger", "verify", url=url)["data"]["head"] == head
    assert skm(root, "search", "when does the gate open", url=url)["data"]["results"][0]["id"] == saved["id"]
    assert "not empty" in skm(root, "index", "--copy-to", url, url="sqlite", code=1)["error"]["message"]
    for file in (root / ".spec-kit-memory").glob("index.sqlite*"):
        file.unlink()
    skm(root, "index", "--copy-to", "sqlite", url=url)
    assert skm(root, "ledger", "verify", url="sqlite")["data"]["head"] == head
    assert skm(root, "index", url="sqlite")["data"]["unchanged"] == 4
