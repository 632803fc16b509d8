"""Is personal memory found from every project of its user, and does it never leave its vault?"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from mcp import Client

from spec_kit_memory.answers import Result
from spec_kit_memory.caller import Caller
from spec_kit_memory.core.memory import Scope
from spec_kit_memory.errors import BadParameter, FileMissing, MemoryNotFound
from spec_kit_memory.serve.cli import answer_view
from spec_kit_memory.serve.cli.program import run
from spec_kit_memory.serve.http.app import serve_http
from spec_kit_memory.serve.mcp.server import build_server
from spec_kit_memory.serve.mcp.workspace_handle import LiveWorkspace
from spec_kit_memory.serve.messages import for_person
from spec_kit_memory.settings import Isolation, Semantic, Settings
from spec_kit_memory.settings.own_folders import personal_vault
from spec_kit_memory.workspace import Workspace, make_personal_vault
from tests.features.conftest import Clock, Place

FACT = "I prefer small commits with a reason in the body."


@pytest.fixture
def vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr("platformdirs.user_data_dir", lambda *_, **__: str(tmp_path / "data"))
    root, made = make_personal_vault()
    assert made
    return root


@pytest.fixture
def workspace(place: Place, vault: Path, clock: Clock) -> Iterator[Workspace]:
    place.memory("commits", "# Commits\n\nThis project squashes commits before a release.")
    settings = Settings(root=place.root, semantic=Semantic(model="hashing"), watch="off")
    with Workspace(settings, now=clock, personal=True) as opened:
        opened.index()
        yield opened


def everything(root: Path) -> str:
    return "".join(
        path.read_bytes().decode("latin-1")
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    )


def personal(workspace: Workspace, query: str = "small commits") -> list[Result]:
    found = workspace.search(query).results
    return [result for result in found if isinstance(result, Result) and result.vault == "personal"]


def test_what_is_saved_as_personal_is_found_from_a_project_marked_and_under_ids_of_its_own(
    workspace: Workspace, vault: Path, place: Place
) -> None:
    saved = workspace.save(text=FACT, vault="personal")
    assert saved.id == 1_000_000_001
    assert (vault / saved.path).is_file()
    assert [result.id for result in personal(workspace)] == [saved.id]
    assert any(result.vault is None for result in workspace.search("commits").results)
    assert FACT not in everything(place.root)
    assert stat.S_IMODE(vault.stat().st_mode) == 0o700


@pytest.mark.parametrize("group_by", ["memory", "passage"])
def test_an_answer_says_what_is_best_and_does_not_complain_if_personal_memory_knows(
    workspace: Workspace, group_by: str
) -> None:
    workspace.save(text="My dentist is Dr. Zanzibar in Harbour Street.", vault="personal")
    answer = workspace.search("dentist Zanzibar Harbour Street", group_by=group_by)
    best = answer.results[0]
    assert best.vault == "personal"
    score = best.score * (100 if group_by == "passage" else 1)
    told = for_person(answer.outcome)
    assert told.startswith(f"1 from personal memory, best: {best.title} ({score:.0f}); in the project: ")
    assert not any("closely" in str(notice) or "other words" in str(notice) for notice in answer.advice)
    squashes = for_person(workspace.search("squashes before a release", group_by=group_by).outcome)
    assert squashes.startswith("1")
    assert "in the project" not in squashes


def test_verbs_that_name_a_personal_memory_act_on_the_vault(workspace: Workspace, vault: Path, place: Place) -> None:
    saved = workspace.save(text=FACT, vault="personal")
    assert saved.id is not None
    assert FACT in workspace.load(memory_id=saved.id).text
    workspace.update(id=saved.id, title="How I commit")
    workspace.validate(id=saved.id, was_useful=True)
    assert workspace.history(id=saved.id).entries
    assert "How I commit" in (vault / saved.path).read_text(encoding="utf-8")
    workspace.delete(id=saved.id)
    assert personal(workspace) == []
    assert "How I commit" not in everything(place.root)


def test_ledger_checkpoints_and_undo_are_the_vaults_own(workspace: Workspace, place: Place) -> None:
    before = list(workspace.ledger_export())
    saved = workspace.save(text=FACT, vault="personal")
    assert saved.id is not None
    workspace.checkpoint_create("mine")
    assert list(workspace.ledger_export()) == before
    checkpoint = next((place.root / ".spec-kit-memory/checkpoints").rglob("mine*"))
    import gzip

    assert FACT not in gzip.decompress(checkpoint.read_bytes()).decode()
    own = workspace.personal
    assert own is not None
    assert len(list(own.ledger_export())) > 0
    own.delete(id=saved.id)
    own.undo()
    assert [result.id for result in personal(workspace)] == [saved.id]
    assert own.checkpoint_list().checkpoints == ()


def test_the_way_back_that_is_named_is_that_of_the_vault(workspace: Workspace, place: Place) -> None:
    saved = workspace.save(text=FACT, vault="personal")
    assert saved.id is not None
    answers = [workspace.update(id=saved.id, importance_tier="critical"), workspace.delete(id=saved.id)]
    for answer in answers:
        assert "take it back with `skm undo --personal`" in map(for_person, answer.advice)
    in_project = workspace.update(id=place.id_of(workspace, "commits"), importance_tier="critical")
    assert "take it back with `skm undo`" in map(for_person, in_project.advice)


def test_a_person_is_told_that_a_memory_is_personal(workspace: Workspace) -> None:
    workspace.save(text=FACT, vault="personal")
    workspace.update(id=personal(workspace)[0].id, add_trigger_phrases=["commit size"])
    for answer in (workspace.search("small commits"), workspace.triggers("what commit size is right")):
        lines = [block.text for block in answer_view.blocks(answer) if isinstance(block, answer_view.Line)]
        marked = [line for line in lines if "in your personal memory" in line]
        assert len(marked) == 1, lines


def test_links_and_merges_across_vaults_are_refused(workspace: Workspace) -> None:
    saved = workspace.save(text=FACT, vault="personal")
    assert saved.id is not None
    with pytest.raises(BadParameter, match="two vaults"):
        workspace.link(source_id=1, target_id=saved.id, relation="supports")
    with pytest.raises(BadParameter, match="two vaults"):
        workspace.merge(saved.id, 1)


def test_the_projects_rules_come_first_under_one_cap(workspace: Workspace, place: Place, vault: Path) -> None:
    for number in range(2):
        place.write(f"constitutional/rule-{number}.md", f"# Project rule {number}\n\nAlways test {number}.\n")
        file = vault / f"constitutional/own-{number}.md"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"# Own rule {number}\n\nNever shout {number}.\n", encoding="utf-8")
    workspace.index()
    assert workspace.personal is not None
    workspace.personal.index()
    rules = workspace.search("commits").constitutional
    assert [rule.title for rule in rules] == ["Project rule 0", "Project rule 1", "Own rule 0", "Own rule 1"]
    assert sum(bool(rule.text) for rule in rules) == 3


def test_triggers_and_context_bring_personal_memory_up(workspace: Workspace) -> None:
    workspace.save(
        context={"sessionSummary": FACT, "title": "Commits", "triggerPhrases": ["before committing"]}, vault="personal"
    )
    matches = workspace.triggers("what do I do before committing").matches
    assert [match.vault for match in matches] == ["personal"]
    assert FACT in workspace.context(prompt="before committing", max_tokens=2000).text


def test_nothing_of_it_is_there_over_http_under_isolation_or_for_another_caller(
    workspace: Workspace, place: Place, clock: Clock, vault: Path
) -> None:
    saved = workspace.save(text=FACT, vault="personal")
    assert saved.id is not None
    settings = Settings(root=place.root, semantic=Semantic(model="hashing"), watch="off")
    isolated = Settings(
        root=place.root,
        semantic=Semantic(model="hashing"),
        watch="off",
        isolation=Isolation(user_id="ana"),
    )
    with Workspace(settings, now=clock) as served, Workspace(isolated, now=clock, personal=True) as part:
        views = (served, part, workspace.for_caller(Caller(scope=Scope(user="bo"))), workspace.for_caller(Caller()))
        for view in views:
            assert personal(view) == []
            with pytest.raises(MemoryNotFound):
                view.load(memory_id=saved.id)
            with pytest.raises(FileMissing):
                view.save(text="more", vault="personal")
    with pytest.raises(BadParameter, match="not served over HTTP"):
        serve_http(workspace=str(vault), flags={}, host="127.0.0.1", port=0)


def test_it_is_embedded_on_this_machine_whatever_the_project_uses(place: Place, vault: Path, clock: Clock) -> None:
    remote = Semantic(model="openai", base_url="http://127.0.0.1:9/v1")
    with Workspace(Settings(root=place.root, semantic=remote, watch="off"), now=clock, personal=True) as workspace:
        assert workspace.personal is not None
        assert workspace.personal.settings.semantic.model == "local"
    with Workspace(Settings(root=vault, semantic=remote, watch="off"), now=clock) as opened:
        assert opened.settings.semantic.model == "local"


def test_without_a_vault_nothing_is_made_and_the_way_to_one_is_named(
    place: Place, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platformdirs.user_data_dir", lambda *_, **__: str(tmp_path / "none"))
    with Workspace(Settings(root=place.root, watch="off"), now=clock, personal=True) as workspace:
        assert workspace.personal is None
        with pytest.raises(FileMissing) as refused:
            workspace.save(text=FACT, vault="personal")
        assert "skm init --personal" in refused.value.hint
    assert not (tmp_path / "none").exists()
    vault = personal_vault()
    assert vault is not None
    assert not vault.exists()


def test_ids_go_on_after_the_index_is_deleted_or_rebuilt(workspace: Workspace, vault: Path, clock: Clock) -> None:
    workspace.save(text=FACT, vault="personal")
    own = workspace.personal
    assert own is not None
    own.index(rebuild=True)
    again = workspace.save(text="I write tests first.", vault="personal")
    assert again.id == 1_000_000_002
    workspace.close()
    for file in (vault / ".spec-kit-memory").glob("index.sqlite*"):
        file.unlink()
    with Workspace(Settings(root=vault, semantic=Semantic(model="hashing"), watch="off"), now=clock) as opened:
        opened.index()
        assert sorted(card.id for card in opened.list().memories) == [1_000_000_001, 1_000_000_002]


def test_the_answer_stays_within_its_budget(workspace: Workspace) -> None:
    from spec_kit_memory.core import tokens
    from spec_kit_memory.serve import render

    for number in range(6):
        workspace.save(text=f"{FACT} Reason number {number}: {'long ' * 120}", vault="personal")
    answer = workspace.search("small commits with a reason", max_tokens=800)
    assert tokens.count(json.dumps(render.envelope(answer)["data"])) <= 800


def test_an_agent_of_this_user_reaches_it_and_every_connection_has_the_same_vault(workspace: Workspace) -> None:
    saved = workspace.save(text=FACT, vault="personal")

    async def asked() -> list[str]:
        server = build_server(LiveWorkspace(lambda: workspace, background=False))
        texts = []
        for _ in range(2):
            async with Client(server) as client:
                texts.append(str(await client.call_tool("memory_search", {"query": "small commits"})))
        return texts

    assert all(str(saved.id) in text for text in anyio.run(asked))
    one, other = (workspace.for_caller(replace(workspace.caller, connection=name)) for name in "ab")
    assert one.personal is other.personal is workspace.personal is not None


def test_every_command_that_is_advised_about_the_vault_names_it(workspace: Workspace) -> None:
    own = workspace.personal
    assert own is not None
    own.save(text=FACT)
    made = own.checkpoint_create("mine")
    told = [for_person(step) for step in made.advice]
    with pytest.raises(MemoryNotFound) as unknown:
        workspace.load(memory_id=1_000_000_077)
    told += [for_person(step) for step in unknown.value.advice]
    commands = [words for text in told for words in re.findall(r"`(skm [^`]+)`", text)]
    assert len(commands) >= 2
    assert [words for words in commands if not words.endswith("--personal")] == []
    assert "`personal.list()`" in unknown.value.hint
    with pytest.raises(MemoryNotFound) as in_project:
        workspace.load(memory_id=77)
    assert "--personal" not in "".join(map(for_person, in_project.value.advice))


def test_lists_have_personal_memories_among_the_projects_marked_and_in_one_order(
    workspace: Workspace, place: Place, clock: Clock
) -> None:
    for number in range(3):
        clock.pass_(days=1)
        workspace.save(context={"sessionSummary": f"{FACT} Number {number}."}, vault="personal")
        clock.pass_(days=1)
        place.memory(f"later-{number}", f"---\ncreated: {clock().date()}\n---\n# Later {number}\n\nOf the project.")
    workspace.index()
    for order in ("created_at", "updated_at", "importance_weight"):
        whole = workspace.list(sort_by=order)
        assert whole.total == len(whole.memories) == 7
        assert [card.vault for card in whole.memories].count("personal") == 3
        assert all((card.vault == "personal") == (card.id > 1_000_000_000) for card in whole.memories)
        paged = [card.id for at in range(7) for card in workspace.list(sort_by=order, limit=1, offset=at).memories]
        assert paged == [card.id for card in whole.memories], "page by page as at once"
    dates = [card.created_at for card in workspace.list().memories if card.created_at]
    assert dates == sorted(dates, reverse=True)
    assert not any(card.vault for card in workspace.list(spec_folder="001-core").memories)


def test_a_list_under_isolation_or_for_another_caller_counts_nothing_of_it(
    workspace: Workspace, place: Place, clock: Clock
) -> None:
    workspace.save(context={"sessionSummary": FACT}, vault="personal")
    assert workspace.list().total == 2
    other = workspace.for_caller(Caller(scope=Scope(user="ben")))
    assert other.list().total == 1
    assert other.search("small commits", as_of=clock().isoformat()).total_found == 1
    settings = replace(workspace.settings, isolation=Isolation(user_id="ana"))
    with Workspace(settings, now=clock, personal=True) as isolated:
        assert isolated.list().total == 1
        assert "small commits" not in str(isolated.search("small commits", as_of=clock().isoformat()).results)


def test_the_past_has_personal_memory_as_it_was(workspace: Workspace, clock: Clock) -> None:
    workspace.checkpoint_create("before")
    clock.pass_(days=1)
    workspace.save(context={"sessionSummary": FACT}, vault="personal")
    known = clock()
    clock.pass_(days=1)
    workspace.checkpoint_create("after")
    clock.pass_(hours=1)
    workspace.save(context={"sessionSummary": "I prefer small commits on Fridays."}, vault="personal")
    clock.pass_(days=1)

    def then(as_of: str) -> list[str]:
        found = workspace.search("small commits", as_of=as_of).results
        return [result.text for result in found if isinstance(result, Result) and result.vault == "personal"]

    assert then("before") == []
    assert any(FACT in text for text in then(known.isoformat()))
    assert not any("Fridays" in text for text in then("after")), "a checkpoint of the project names its moment"
    assert any("Fridays" in text for text in then(clock().isoformat()))


def test_cleaning_a_project_up_does_not_judge_personal_memories(
    workspace: Workspace, place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace.save(context={"sessionSummary": FACT, "importanceTier": "temporary"}, vault="personal")
    place.memory("passing", "# Passing\n\nOnly for now.", tier="temporary")
    workspace.index()
    assert any(card.vault for card in workspace.list().memories)
    monkeypatch.setenv("SPEC_KIT_MEMORY_SEMANTIC_MODEL", "hashing")

    def offered(*more: str) -> str:
        assert run(["--workspace", str(place.root), "cleanup", "--json", *more]) == 0
        return capsys.readouterr().out

    assert "Passing" in offered()
    assert "1000000001" not in offered()
    assert "1000000001" in offered("--personal")
