"""Where each setting comes from, what is refused, and what a repository may not do."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.advice import advise
from spec_kit_memory.core.memory import ContextType, Tier
from spec_kit_memory.errors import BadParameter, FileMissing
from spec_kit_memory.settings import (
    BY_NAME,
    KEYS,
    TRUST,
    Settings,
    TrustLevel,
    describe,
    find_root,
    load,
    parse_flag,
    plain,
    starter_config,
    user_config_file,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".spec-kit-memory").mkdir(parents=True)
    return tmp_path / "project"


def configured(root: Path, content: object) -> Path:
    file = root / ".spec-kit-memory" / "config.jsonc"
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return file


def users(root: Path, content: object) -> Path:
    file = root.parent / "user.jsonc"
    file.write_text(json.dumps(content), encoding="utf-8")
    return file


def loaded(root: Path, **more: object) -> Settings:
    environ = more.pop("environ", {})
    user = users(root, more.pop("user", {}))
    return load(root, environ=environ, user_file=user, overrides=more.pop("overrides", {}))  # type: ignore[arg-type]


def refusal(root: Path, **more: object) -> BadParameter:
    with pytest.raises(BadParameter) as caught:
        loaded(root, **more)
    return caught.value


# --- finding the workspace


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can make files of somebody else")
@pytest.mark.parametrize("mark", ["specs", ".git", ".spec-kit-memory", "MEMORY.md"])
def test_what_another_user_put_above_is_no_workspace(tmp_path: Path, mark: str) -> None:
    """Somebody makes /tmp/specs: whoever works below /tmp would read rules from there, and save there."""
    shared, work = tmp_path / "shared", tmp_path / "shared" / "work"
    work.mkdir(parents=True)
    (shared / mark).mkdir()
    os.chown(shared / mark, 12_345, 12_345)
    assert found_from(work) != shared
    assert find_root(work, workspace=shared, environ={}) == shared, "who names it means it"
    link = work / mark
    link.symlink_to(shared / mark)
    assert found_from(work) not in (shared, work)
    link.unlink()
    os.chown(work, 12_345, 12_345)  # a mounted folder in a container: all of it is theirs
    assert find_root(work, environ={}) == shared


def found_from(here: Path) -> Path | None:
    try:
        return find_root(here, environ={})
    except FileMissing:
        return None


@pytest.mark.parametrize("mark", [".spec-kit-memory", "specs", "MEMORY.md", ".git"])
def test_the_nearest_folder_upwards_with_a_mark_is_the_workspace(tmp_path: Path, mark: str) -> None:
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    target = tmp_path / "a" / mark
    target.touch() if mark == "MEMORY.md" else target.mkdir()
    (tmp_path / ".git").mkdir(exist_ok=True)
    assert find_root(deep, environ={}) == (tmp_path / "a").resolve()


def _workspace_wins_over_the_environment_and_the_folder(tmp_path: Path) -> None:
    for name in ("named", "variable", "here"):
        (tmp_path / name / "specs").mkdir(parents=True)
    environ = {"SPEC_KIT_MEMORY_WORKSPACE": str(tmp_path / "variable")}
    here = tmp_path / "here"
    assert find_root(here, workspace=tmp_path / "named", environ=environ).name == "named"
    assert find_root(here, environ=environ).name == "variable"


def test_a_named_workspace_that_does_not_exist_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(FileMissing, match="nowhere"):
        find_root(tmp_path, workspace=tmp_path / "nowhere", environ={})


def test_no_workspace_anywhere_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(FileMissing) as caught:
        find_root(Path(tmp_path.anchor), environ={})
    assert caught.value.code == "E010"
    assert caught.value.advice[-1] == advise("make-workspace")


# --- layers


def test_without_any_source_every_value_is_a_default(root: Path) -> None:
    settings = loaded(root)
    assert settings.semantic.model == "local"
    assert set(settings.sources.values()) == {"default"}
    assert set(settings.sources) == {key.name for key in KEYS}


def test_each_source_wins_over_the_one_before_it(root: Path) -> None:
    configured(root, {"search": {"maxTokens": 1000}})
    seen = [loaded(root)]
    seen.append(loaded(root, user={"search": {"maxTokens": 2000}}))
    environ = {"SPEC_KIT_MEMORY_SEARCH_MAX_TOKENS": "3000"}
    seen.append(loaded(root, user={"search": {"maxTokens": 2000}}, environ=environ))
    seen.append(loaded(root, environ=environ, overrides={"search.maxTokens": 5000}))
    assert [item.search.max_tokens for item in seen] == [1000, 2000, 3000, 5000]
    assert [item.sources["search.maxTokens"] for item in seen] == ["file", "user", "environment", "flag"]


def test_the_documented_example_configuration_loads(root: Path) -> None:
    configured(
        root,
        """{
          "semantic": {"enabled": true, "model": "local", // "local" | "openai"
                       "dimensions": 384, "indexPath": ".opencode/memory/database/memory-index.sqlite"},
          "triggers": {"autoSaveInterval": 20, "phrases": ["save context", "document this"]},
          "memory": {
            "decay": {"enabled": true, "rates": {"constitutional": 0, "critical": 0.001, "normal": 0.02},
                      "minFloor": 0.1, "exemptTiers": ["constitutional", "critical"],},
            /* the rest */
            "defaultTier": "important", "defaultContextType": "research"
          }
        }""",
    )
    settings = loaded(root)
    assert settings.index_path == root.resolve() / ".opencode/memory/database/memory-index.sqlite"
    assert settings.decay.rates[Tier.NORMAL] == 0.02
    assert settings.decay.rates[Tier.TEMPORARY] == 0.05, "a rate that is not named keeps its default"
    assert settings.default_tier is Tier.IMPORTANT
    assert settings.default_context_type is ContextType.RESEARCH


def test_the_starter_configuration_changes_nothing_and_loads_when_uncommented(root: Path) -> None:
    configured(root, starter_config())
    assert loaded(root) == loaded(root.parent / "project")
    assert set(loaded(root).sources.values()) == {"default"}
    lines = [line.replace('// "', '"') if '// "' in line else line for line in starter_config().splitlines()]
    configured(root, "\n".join(lines))
    settings = loaded(root)
    assert settings.search == Settings(root=root).search
    assert settings.sources["search.fusion"] == "file"


def test_json5_is_read_too(root: Path) -> None:
    configured(root, "{semantic: {model: 'none'}}")
    assert loaded(root).semantic.model == "none"


def test_the_environment_speaks_every_kind(root: Path) -> None:
    settings = loaded(
        root,
        environ={
            "SPEC_KIT_MEMORY_SEMANTIC_ENABLED": "off",
            "SPEC_KIT_MEMORY_SEMANTIC_DIMENSIONS": "768",
            "SPEC_KIT_MEMORY_DECAY_HALF_LIFE_DAYS": "30.5",
            "SPEC_KIT_MEMORY_TRIGGERS_PHRASES": "note this, keep this",
            "SPEC_KIT_MEMORY_EXCLUDE": '["a,b", "c"]',
            "SPEC_KIT_MEMORY_SEARCH_WEIGHTS": '{"relevance": 0.7}',
            "SPEC_KIT_MEMORY_DEFAULT_TIER": "",
            "SPEC_KIT_MEMORY_WORKSPACE": "/somewhere",
        },
    )
    assert settings.semantic.enabled is False
    assert settings.semantic.dimensions == 768
    assert settings.decay.half_life_days == 30.5
    assert settings.triggers.phrases == ("note this", "keep this")
    assert settings.exclude == ("a,b", "c")
    assert (settings.search.weights.relevance, settings.search.weights.tier) == (0.7, 0.25)
    assert settings.sources["memory.defaultTier"] == "default", "an empty variable says nothing"


def test_an_api_key_comes_from_the_named_variable_and_is_never_shown(root: Path) -> None:
    settings = loaded(root, user={"semantic": {"apiKeyEnv": "MY_KEY"}}, environ={"MY_KEY": "s3cret-value"})
    assert settings.semantic.api_key == "s3cret-value"
    assert "s3cret-value" not in repr(settings) + repr(describe(settings))


def test_a_flag_is_read_like_a_variable() -> None:
    assert parse_flag("semantic.enabled=no") == ("semantic.enabled", False)
    assert parse_flag("exclude=a,b") == ("exclude", ["a", "b"])
    with pytest.raises(BadParameter, match="KEY=VALUE"):
        parse_flag("semantic.enabled")


# --- what is refused


def test_all_problems_of_all_sources_are_told_at_once(root: Path) -> None:
    configured(root, {"semantic": {"modle": "local"}, "memory": {"defaultTier": "vital"}, "colour": 1})
    error = refusal(
        root,
        user={"search": {"maxTokens": "many"}},
        environ={"SPEC_KIT_MEMORY_SEMANTIC_MODLE": "x", "SPEC_KIT_MEMORY_SEARCH_MAX_TOKENS": "-1"},
    )
    assert error.code == "E030"
    assert len(error.details["problems"]) == 6  # type: ignore[arg-type]
    for text in ("'semantic.modle'", "did you mean semantic.model ", '"vital"', "critical or important", "'colour'"):
        assert text in error.message
    for text in ("user.jsonc", "did you mean SPEC_KIT_MEMORY_SEMANTIC_MODEL ", "from 100 to 1,000,000, not -1"):
        assert text in error.message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("semantic.enabled", "yes"),
        ("semantic.enabled", 1),
        ("semantic.dimensions", True),
        ("semantic.dimensions", 1.5),
        ("semantic.dimensions", float("inf")),
        ("search.maxTokens", 10**400),
        ("memory.decay.halfLifeDays", float("nan")),
        ("semantic.model", "gpt"),
        ("semantic.baseUrl", None),
        ("triggers.phrases", "save"),
        ("triggers.phrases", [1]),
        ("memory.decay.rates", {"normal": 2}),
        ("memory.decay.rates", {"usual": 0.5}),
        ("memory.decay.minFloor", -0.1),
        ("memory.decay", 3),
        ("memory.defaultTier", "constitutional"),
        ("search.weights", [0.4]),
    ],
)
def test_an_ill_typed_value_is_refused_with_its_key(root: Path, key: str, value: object) -> None:
    configured(root, {key: value})
    error = refusal(root)
    assert repr(key) in error.message
    assert "config.jsonc" in error.message


@pytest.mark.parametrize("content", ["{", "[]", "{'a", "\x00", "[" * 100_000, "null"])
def test_a_broken_file_is_named(root: Path, content: str) -> None:
    configured(root, content)
    assert "config.jsonc" in refusal(root).message


def test_bytes_that_are_not_text_are_refused(root: Path) -> None:
    (root / ".spec-kit-memory" / "config.jsonc").write_bytes(b"\xff\xfe{}")
    assert "config.jsonc" in refusal(root).message


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=4))
def test_any_json_value_is_accepted_or_refused(value: object) -> None:
    root = Path(__file__).parent
    for key in KEYS:
        with contextlib.suppress(BadParameter):
            settings = load(root, environ={}, user_file=root / "no such file", overrides={key.name: value})
            assert settings.sources[key.name] == "flag"


# --- what a repository may not do


# For every key a value that differs from its default. The table of trust is held against what `load` really does.
OTHER_VALUES: dict[str, object] = {
    "semantic.enabled": False,
    "semantic.model": "openai",
    "semantic.dimensions": 768,
    "semantic.indexPath": "../index.sqlite",
    "semantic.baseUrl": "http://127.0.0.1:11434/v1",
    "semantic.remoteModel": "nomic-embed-text",
    "semantic.apiKeyEnv": "HOME",
    "triggers.autoSaveInterval": 5,
    "triggers.phrases": ["note this"],
    "memory.decay.enabled": False,
    "memory.decay.model": "linear",
    "memory.decay.halfLifeDays": 30,
    "memory.decay.rates": {"normal": 0.5},
    "memory.decay.minFloor": 0.2,
    "memory.decay.exemptTiers": ["important"],
    "memory.defaultTier": "important",
    "memory.defaultContextType": "research",
    "memory.extraPaths": ["../elsewhere"],
    "search.fusion": "rrf",
    "search.weights": {"relevance": 0.7},
    "search.maxTokens": 1000,
    "search.rolePrior": {"user": 0.1},
    "exclude": ["drafts/"],
    "save.noise": ["noise*"],
    "watch": "off",
    "index.url": "postgresql://elsewhere/notes",
    "index.project": "shop",
    "index.memoryMb": 64,
    "index.projects": {"/work/shop": "shop"},
    "isolation.userId": "ana",
    "isolation.projectId": "shop",
    "isolation.allowedPaths": ["/"],
    "allow.network": True,
    "allow.outsidePaths": True,
}
NEEDS = {
    TrustLevel.INSIDE: "allow.outsidePaths",
    TrustLevel.LOCAL: "allow.network",
    TrustLevel.NETWORK: "allow.network",
}


def test_the_table_of_trust_has_every_key() -> None:
    assert set(TRUST) == set(BY_NAME) == set(OTHER_VALUES)


@pytest.mark.parametrize("key", OTHER_VALUES)
def test_a_repository_may_do_what_the_table_of_trust_says_and_nothing_else(root: Path, key: str) -> None:
    configured(root, {key: OTHER_VALUES[key]})
    trust = TRUST[key]
    if trust is TrustLevel.FREE:
        assert loaded(root).sources[key] == "file"
        return
    assert repr(key) in refusal(root).message
    everything = {"allow": {"network": True, "outsidePaths": True}}
    if trust is TrustLevel.NEVER:
        assert repr(key) in refusal(root, user=everything).message, "no permission is meant for this one"
    else:
        assert NEEDS[trust] in refusal(root).message
        assert loaded(root, user={NEEDS[trust]: True}).sources[key] == "file"


@pytest.mark.parametrize("key", [key for key in OTHER_VALUES if "environment" in BY_NAME[key].places])
def test_the_user_may_set_what_a_repository_may_not(root: Path, key: str) -> None:
    assert loaded(root, user={key: OTHER_VALUES[key]}).sources[key] == "user"
    assert loaded(root, environ={BY_NAME[key].variable: json.dumps(OTHER_VALUES[key]).strip('"')}).sources[key] == (
        "environment"
    )
    assert loaded(root, overrides={key: OTHER_VALUES[key]}).sources[key] == "flag"


@pytest.mark.parametrize("key", ["allow.network", "allow.outsidePaths"])
def test_only_the_user_s_own_file_allows(root: Path, key: str) -> None:
    assert repr(key) in refusal(root, environ={BY_NAME[key].variable: "true"}).message
    assert repr(key) in refusal(root, overrides={key: True}).message
    assert loaded(root, user={key: True}).sources[key] == "user"


@pytest.mark.parametrize(
    "address",
    [
        "https://api.openai.com/v1",
        "http://localhost:11434/v1",
        "http://127.0.0.1:8080/v1",
        "http://[::1]/v1",
        "http://localhost@evil.example/v1",
        "http://127.0.0.1\\@evil.example",
        "//evil.example",
        "unix:///run/socket",
        "nonsense",
        "",
    ],
)
def test_no_address_comes_from_a_repository(root: Path, address: str) -> None:
    configured(root, {"semantic": {"baseUrl": address}})
    everything = {"allow": {"network": True, "outsidePaths": True}, "semantic": {"model": "openai"}}
    for user in ({}, everything):
        assert "'semantic.baseUrl' may not be set in" in refusal(root, user=user).message


def test_a_repository_that_may_choose_openai_gets_the_user_s_address_and_key(root: Path) -> None:
    configured(root, {"semantic": {"model": "openai", "remoteModel": "large"}})
    settings = loaded(
        root,
        user={"allow": {"network": True}, "semantic": {"baseUrl": "http://mine/v1", "apiKeyEnv": "MINE"}},
        environ={"MINE": "key", "OPENAI_API_KEY": "other"},
    )
    semantic = settings.semantic
    assert (semantic.model, semantic.base_url, semantic.api_key) == ("openai", "http://mine/v1", "key")


def test_the_user_may_use_the_network(root: Path) -> None:
    assert loaded(root, user={"semantic": {"model": "openai"}}).semantic.model == "openai"
    assert loaded(root, environ={"SPEC_KIT_MEMORY_SEMANTIC_MODEL": "openai"}).semantic.model == "openai"


@pytest.mark.parametrize("path", ["/etc", "../other", "docs/../../x", "~", "notes/*/../../..", "out/*.md"])
def test_a_repository_may_not_read_outside(root: Path, path: str) -> None:
    (root / "out").symlink_to(root.parent)
    configured(root, {"memory": {"extraPaths": ["docs", path]}})
    assert repr(path) in refusal(root).message
    assert loaded(root, user={"allow": {"outsidePaths": True}}).extra_paths == ("docs", path)


@pytest.mark.parametrize(
    "path", ["../index.sqlite", "/tmp/index.sqlite", "~/index.sqlite", "~nobody-here/index.sqlite", "out/index.sqlite"]
)
def test_a_repository_may_not_write_its_index_outside(root: Path, path: str) -> None:
    (root / "out").symlink_to(root.parent)
    configured(root, {"semantic": {"indexPath": path}})
    assert "indexPath" in refusal(root).message


@pytest.mark.parametrize("path", [".git/hooks/post-checkout", ".mcp.json", "Makefile", ".git/config", "conftest.py"])
def test_a_repository_may_not_make_its_index_what_others_read(root: Path, path: str) -> None:
    configured(root, {"semantic": {"indexPath": path}})
    assert "must end in .sqlite" in refusal(root).message
    assert loaded(root, user={"semantic": {"indexPath": path}}).index_path == root.resolve() / path


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("exclude", ["a"] * 1_001),
        ("exclude", ["a" * 10_001]),
        ("exclude", ["a" * 101] * 100),
        ("save.noise", ["*"] * 1_001),
        ("triggers.phrases", ["abc"] * 1_001),
        ("memory.extraPaths", ["."] * 101),
        ("search.rolePrior", {str(number): 0.1 for number in range(101)}),
        ("search.maxTokens", 50_001),
    ],
)
def test_what_costs_time_or_tokens_has_an_end_in_a_repository(root: Path, key: str, value: object) -> None:
    configured(root, {key: value})
    error = refusal(root)
    assert repr(key) in error.message
    assert len(error.message) < 1_000
    configured(root, {})
    assert loaded(root, user={key: value}).sources[key] == "user"


def test_a_repository_may_not_bring_a_state_folder_that_leads_outside(tmp_path: Path) -> None:
    root, outside = tmp_path / "project", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / ".spec-kit-memory").symlink_to(outside, target_is_directory=True)
    assert ".spec-kit-memory is a link out of the workspace" in refusal(root).message
    assert loaded(root, user={"allow": {"outsidePaths": True}}).state_folder == root / ".spec-kit-memory"


def test_paths_inside_are_fine_for_a_repository_and_any_for_the_user(root: Path) -> None:
    configured(root, {"memory": {"extraPaths": ["docs/**/*.md", "./notes"]}})
    assert loaded(root).extra_paths == ("docs/**/*.md", "./notes")
    assert loaded(root, user={"memory": {"extraPaths": ["/srv/notes"]}}).extra_paths[-1] == "/srv/notes"


def test_extra_paths_of_the_workspace_and_of_its_user_add_up(root: Path) -> None:
    configured(root, {"memory": {"extraPaths": ["docs", "notes"]}})
    both = loaded(root, user={"memory": {"extraPaths": ["/srv/notes", "notes"]}})
    assert both.extra_paths == ("docs", "/srv/notes", "notes")
    assert both.sources["memory.extraPaths"] == "file and user"
    assert both.repository_paths == {"docs"}, "what the user names too is the user's"
    own = loaded(root, user={"memory": {"extraPaths": ["/srv/notes"]}}, environ={"SPEC_KIT_MEMORY_EXTRA_PATHS": "/a"})
    assert (own.extra_paths, own.repository_paths) == (("/a",), frozenset())


def test_a_repositorys_path_to_the_outside_is_refused_beside_the_users_own(root: Path) -> None:
    configured(root, {"memory": {"extraPaths": ["../elsewhere"]}})
    error = refusal(root, user={"memory": {"extraPaths": ["/srv/notes"]}})
    assert "outside the workspace" in error.message
    allowed = {"memory": {"extraPaths": ["/srv/notes"]}, "allow": {"outsidePaths": True}}
    assert loaded(root, user=allowed).extra_paths == ("../elsewhere", "/srv/notes")


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "socket"])
def test_a_configuration_that_is_no_file_is_refused_and_not_waited_for(root: Path, kind: str) -> None:
    path = root / ".spec-kit-memory" / "config.jsonc"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    else:
        path.symlink_to("/dev/zero")
    assert "config.jsonc" in refusal(root).message


def test_a_pipe_as_the_user_s_own_file_is_refused_too(root: Path) -> None:
    os.mkfifo(root.parent / "pipe")
    with pytest.raises(BadParameter, match="not a regular file"):
        load(root, environ={}, user_file=root.parent / "pipe")


def test_a_configuration_that_is_a_link_out_of_the_workspace_is_not_read(root: Path) -> None:
    private = root.parent / "private.json"
    private.write_text('{"a private name": 1}', encoding="utf-8")
    (root / ".spec-kit-memory" / "config.jsonc").symlink_to(private)
    error = refusal(root)
    assert "link out of the workspace" in error.message
    assert "a private name" not in error.message
    assert "a private name" in refusal(root, user={"allow": {"outsidePaths": True}}).message


def test_a_configuration_that_is_a_link_inside_the_workspace_is_read(root: Path) -> None:
    (root / "shared.jsonc").write_text('{"watch": "off"}', encoding="utf-8")
    (root / ".spec-kit-memory" / "config.jsonc").symlink_to("../shared.jsonc")
    assert loaded(root).watch == "off"


HOSTILE_FILES = {
    "a hundred thousand unknown keys": "{" + ",".join(f'"semantic.modle{number}":1' for number in range(40_000)) + "}",
    "one endless key": json.dumps({"a" * 900_000: 1}),
    "one endless value": json.dumps({"watch": "a" * 900_000}),
    "an endless list of wrong things": json.dumps({"exclude": [1] * 200_000}),
    "a text without its end": '{"a": "' + "x" * 900_000,
    "escapes without an end": '{"a": "' + "\\" * 450_001,
    "comments in comments": "/*" * 450_000,
    "deep nesting": '{"exclude":' + "[" * 400_000,
    "nesting that JSON can read": '{"exclude":' + "[" * 900 + "]" * 900 + "}",
    "an endless path": json.dumps({"memory.extraPaths": ["../" + "a" * 900_000]}),
    "many paths that lead outside": json.dumps({"memory.extraPaths": ["../" + str(n) for n in range(50_000)]}),
    "many wrong elements": json.dumps({"search.rolePrior": {str(number): 5 for number in range(50_000)}}),
    "unknown names in a table": json.dumps({"search.weights": {f"weight{number}": 1 for number in range(50_000)}}),
}


@pytest.mark.parametrize("name", HOSTILE_FILES)
def test_a_hostile_configuration_gets_a_short_answer_soon(root: Path, name: str) -> None:
    configured(root, HOSTILE_FILES[name])
    started = time.process_time()
    error = refusal(root)
    assert time.process_time() - started < 20, "a deadline, not a measure: each took minutes or never ended"
    assert len(error.message) < 5_000
    assert len(json.dumps(error.details)) < 10_000


def test_without_a_home_nothing_of_the_working_folder_is_taken_for_the_user_s_own(tmp_path: Path) -> None:
    project = tmp_path / "project"
    hostile = project / "~" / ".config" / "spec-kit-memory" / "config.jsonc"
    hostile.parent.mkdir(parents=True)
    hostile.write_text('{"allow": {"network": true}, "semantic": {"model": "openai"}}', encoding="utf-8")
    (project / ".spec-kit-memory").mkdir()
    code = (
        "import os, pwd\n"
        "def nobody(_): raise KeyError\n"
        "pwd.getpwuid = nobody\n"  # as for a user id that the system does not know
        "from pathlib import Path\nfrom spec_kit_memory import settings\n"
        "assert settings.user_config_file(os.environ) is None\n"
        "print(settings.load(Path('.')).semantic.model)\n"
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("HOME", "XDG_", "SPEC_KIT"))}
    done = subprocess.run([sys.executable, "-c", code], cwd=project, env=environ, capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("local", "")


# --- scope


def test_allowed_paths_become_prefixes_in_stored_form(root: Path) -> None:
    settings = loaded(root, overrides={"isolation.allowedPaths": ["memory/a/", "specs/../docs", "../elsewhere"]})
    assert settings.scope.prefixes == ("memory/a", "docs", (root.parent.resolve() / "elsewhere").as_posix())


def test_no_allowed_path_means_nothing_and_unset_means_the_workspace(root: Path) -> None:
    assert loaded(root, environ={"SPEC_KIT_MEMORY_ISOLATION_ALLOWED_PATHS": ""}).scope.prefixes == ()
    assert loaded(root).scope.prefixes is None
    assert loaded(root, overrides={"isolation.allowedPaths": ["."]}).scope.prefixes is None


# --- showing


def test_every_key_has_its_own_variable_and_attribute_and_a_default_that_it_accepts(root: Path) -> None:
    assert len({key.variable for key in KEYS}) == len(KEYS)
    assert len({key.attribute for key in KEYS}) == len(KEYS)
    for key in KEYS:
        place = {"user": {key.name: plain(key.default)}}
        assert loaded(root, **place).sources[key.name] == "user"


def test_a_home_that_there_is_not_is_named(root: Path) -> None:
    error = refusal(root, user={"memory": {"extraPaths": ["~nobody-here/notes"]}})
    assert "~nobody-here/notes" in error.message


def test_the_user_s_file_can_be_named(tmp_path: Path) -> None:
    assert user_config_file({"SPEC_KIT_MEMORY_USER_CONFIG": str(tmp_path / "mine")}) == tmp_path / "mine"
    own = user_config_file({})
    assert own is not None
    assert own.name == "config.jsonc"


def test_importing_settings_stays_light() -> None:
    code = "import sys, spec_kit_memory.settings; print({'difflib', 'platformdirs', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
