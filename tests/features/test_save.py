"""Saving from session data: everything given is kept, nothing is invented, and no secret gets anywhere."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spec_kit_memory.core import markdown, redact
from spec_kit_memory.core.memory import Tier, VectorStatus
from spec_kit_memory.errors import (
    BadParameter,
    DatabaseBusy,
    FileMissing,
    Invalid,
    MissingParameter,
    OutsideScope,
    SecretScanFailed,
    UndecidedSpecFolder,
)
from spec_kit_memory.features import choose_folder
from spec_kit_memory.index import rows
from spec_kit_memory.settings import Isolation
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place

SHORT: dict[str, Any] = {
    "title": "Login with passkeys",
    "sessionSummary": "Passkeys work for registration and login.\n\nRecovery is still by e-mail.",
    "keyDecisions": [
        "Keep passwords for one more release",
        {
            "decision": "Where to store credentials",
            "chosen": "PostgreSQL, one row per credential",
            "rationale": "People have several devices",
            "alternatives": ["JSON column on the user"],
        },
    ],
    "filesModified": ["auth/passkeys.py", {"path": "auth/models.py", "description": "a table for credentials"}],
    "triggerPhrases": ["passkey", "webauthn ceremony"],
    "technicalContext": {"library": "webauthn 2.1", "limits": {"devices": 10}},
    "nextSteps": ["Recovery without e-mail"],
    "blockers": ["Safari 15 has no conditional UI"],
    "links": {"supersedes": ["Login with magic links"]},
}
LONG: dict[str, Any] = {
    "userPrompts": [{"prompt": "Why does Safari hang?", "timestamp": "2026-02-28T10:00:00Z"}],
    "observations": [
        {"type": "bugfix", "title": "Safari hung", "narrative": "The dialogue was never closed.", "facts": ["v15"]},
        {"type": "decision", "title": "Poll instead of push", "narrative": "Push needs a certificate."},
    ],
    "recentContext": [{"request": "look at Safari", "completed": "yes"}],
}


def strings(value: object) -> list[str]:
    """Every text in some data, names included."""
    if isinstance(value, dict):
        return [text for key, child in value.items() for text in (*strings(key), *strings(child))]
    if isinstance(value, list):
        return [text for child in value for text in strings(child)]
    return [value] if isinstance(value, str) else []


def folded(text: str) -> str:
    return " ".join(text.replace("&lt;!--", "<!--").split())


def saved_text(place: Place, path: str) -> str:
    return (place.root / path).read_text(encoding="utf-8")


# --- what is given is kept --------------------------------------------------------------


@pytest.mark.parametrize("data", [SHORT, LONG, SHORT | LONG], ids=["short", "long", "mixed"])
def test_every_text_that_was_given_is_in_the_file(place: Place, data: dict[str, Any]) -> None:
    (place.root / "specs/007-auth").mkdir(parents=True)
    answer = place.open().save(context=data, spec_folder="007-auth")
    text = folded(saved_text(place, answer.path))
    names = set(data) | {"decision", "chosen", "rationale", "alternatives", "path", "description", "prompt", "type"}
    names |= {"title", "narrative", "facts", "timestamp", "supersedes", "links"}
    missing = [string for string in strings(data) if string not in names and folded(string) not in text]
    assert missing in ([], ["bugfix", "decision"], ["bugfix"])
    assert ("Bugfix" in text) == ("observations" in data)


def test_the_file_has_its_anchors_and_reads_back_without_a_warning(place: Place) -> None:
    (place.root / "specs/007-auth").mkdir(parents=True)
    answer = place.open().save(context=SHORT | LONG, spec_folder="007-auth")
    document = markdown.parse(saved_text(place, answer.path))
    anchors = [anchor.id for anchor in document.anchors]
    for name in ("summary", "state", "decisions", "artifacts", "context", "dialogue", "flow", "blockers", "next-steps"):
        assert name in anchors
    assert [name for name in anchors if name.startswith("decision-")] == [
        "decision-keep-passwords-one-007",
        "decision-store-credentials-007",
        "decision-poll-push-007",
    ]
    assert document.warnings == ()
    assert document.front.triggers[:2] == ("passkey", "webauthn ceremony")
    assert document.front.tier is Tier.IMPORTANT
    assert [(claim.relation.value, claim.target) for claim in document.front.links] == [
        ("supersedes", "Login with magic links")
    ]


def test_what_was_saved_survives_a_rebuild_of_the_index(place: Place) -> None:
    (place.root / "specs/007-auth").mkdir(parents=True)
    workspace = place.open()
    answer = workspace.save(context=SHORT, spec_folder="007-auth")
    assert answer.id is not None
    before = workspace.load(answer.id)
    workspace.index(rebuild=True)
    after = workspace.load(answer.id)
    assert (after.text, after.memory.triggers, after.memory.tier) == (
        before.text,
        before.memory.triggers,
        before.memory.tier,
    )
    assert "webauthn ceremony" in after.memory.triggers
    assert workspace.triggers("the webauthn ceremony hangs").matches[0]["id"] == answer.id


def test_nothing_is_invented(place: Place) -> None:
    answer = place.open().save(context={"sessionSummary": "Only this."})
    body = saved_text(place, answer.path).split("---", 2)[2]
    message = re.sub(r"<!--.*?-->|^#+ .*$", "", body, flags=re.MULTILINE).split()
    assert " ".join(message) == "Only this. - Saved: 2026-03-01"


TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Co", "Cn", "Zl", "Zp", "Cf")), max_size=40
).filter(lambda text: text.strip() == text)
VALUES = st.recursive(TEXT, lambda child: st.lists(child, max_size=3) | st.dictionaries(TEXT, child, max_size=3))
SESSIONS = st.fixed_dictionaries(
    {"sessionSummary": TEXT.filter(bool)},
    optional={
        "keyDecisions": st.lists(
            TEXT.filter(bool)
            | st.fixed_dictionaries({"decision": TEXT.filter(bool)}, optional={"rationale": TEXT, "extra": VALUES}),
            max_size=3,
        ),
        "filesModified": st.lists(TEXT.filter(bool), max_size=3),
        "technicalContext": st.dictionaries(TEXT, VALUES, max_size=4),
        "nextSteps": st.lists(TEXT, max_size=3),
        "blockers": st.lists(TEXT, max_size=3),
        "observations": st.lists(st.fixed_dictionaries({"narrative": TEXT.filter(bool)}), max_size=2),
        "userPrompts": st.lists(TEXT.filter(bool), max_size=2),
        "recentContext": st.lists(st.dictionaries(TEXT, TEXT, max_size=2), max_size=2),
    },
)


def spellings(text: str) -> set[str]:
    """A text as it may stand on the page: as it is, or as JSON writes it."""
    quoted = json.dumps(text, ensure_ascii=False)[1:-1].replace("<!--", "\\u003c!--")
    return {folded(text), folded(quoted), folded(quoted.replace("\\u003c!--", "<!--"))}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=100)
@given(data=SESSIONS)
def test_any_session_data_is_found_again_in_the_parsed_file(place: Place, data: dict[str, Any]) -> None:
    workspace = place.opened[0] if place.opened else place.open(model="none", index=False)
    answer = workspace.save(context=data, dry_run=True)
    assert answer.text is not None
    document = markdown.parse(answer.text)
    page = folded(document.text)
    if not answer.redacted:
        lost = [
            text for text in strings(list(data.values())) if not any(spelling in page for spelling in spellings(text))
        ]
        assert [text for text in lost if text not in ("decision", "rationale", "narrative")] == []
    assert [warning.message for warning in document.warnings] == []
    assert {anchor.id for anchor in document.anchors} >= {"summary"} or not document.anchors


def test_names_that_cannot_be_printed_lose_no_value(place: Place) -> None:
    answer = place.open().save(
        context={"technicalContext": {"\x1f": "000", "": "111"}, "technical_context": {"": "222"}}, dry_run=True
    )
    assert answer.text is not None
    assert all(value in answer.text for value in ("000", "111", "222"))


def test_counts_are_good_english(place: Place) -> None:
    answer = place.open().save(context={"keyDecisions": ["Use Rust"], "userPrompts": ["a", "b"]})
    assert "- Counts: 2 messages, 1 decision\n" in saved_text(place, answer.path)


# --- what is wrong is said at once --------------------------------------------------------


def test_every_problem_of_the_input_is_listed_and_nothing_is_written(place: Place) -> None:
    workspace = place.open()
    data = {
        "sessionSummary": 7,
        "keyDecisions": 7,
        "importanceTier": "urgent",
        "contextType": "chat",
        "nextSteps": [{}, True],
        "links": {"eats": ["x"]},
        "title": "t" * 501,
    }
    with pytest.raises(Invalid) as raised:
        workspace.save(context=data)
    problems = " ".join(raised.value.details["problems"])  # type: ignore[arg-type]
    for name in ("keyDecisions", "importanceTier", "contextType", "nextSteps", "links.eats", "title"):
        assert name in problems
    assert not (place.root / "memory").exists()
    assert workspace.list().total == 0


@pytest.mark.parametrize("data", [{}, {"title": "only a title"}, {"sessionSummary": " "}, {"triggerPhrases": ["a b"]}])
def test_nothing_to_save_is_an_error_and_makes_no_placeholder(place: Place, data: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="nothing to save"):
        place.open().save(context=data)
    assert not (place.root / "memory").exists()


def test_data_nested_beyond_reason_is_refused(place: Place) -> None:
    deep: object = "x"
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(Invalid, match="levels deep"):
        place.open().save(context={"technicalContext": {"deep": deep}})


def test_one_of_three_is_given(place: Place) -> None:
    workspace = place.open()
    for arguments in ({}, {"text": "a", "context": {"sessionSummary": "b"}}):
        with pytest.raises(MissingParameter):
            workspace.save(**arguments)  # type: ignore[arg-type]
    with pytest.raises(BadParameter, match="on_similar"):
        workspace.save(text="a", on_similar="replace")


# --- where it goes and what it is called ----------------------------------------------------


def test_a_file_that_is_not_there_is_answered_with_what_saves_without_one(place: Place) -> None:
    workspace = place.open()
    with pytest.raises(FileMissing) as refused:
        workspace.save(file_path="memory/decision.md")
    assert "`save(context=TEXT)`" in refused.value.hint


def test_without_specs_memories_go_to_the_root(place: Place) -> None:
    answer = place.open().save(context=SHORT)
    assert re.fullmatch(r"memory/\d\d-\d\d-\d\d_\d\d-\d\d__login-with-passkeys\.md", answer.path)
    assert answer.spec_folder is None


def test_the_same_minute_gets_another_name(place: Place) -> None:
    workspace = place.open()
    paths = [workspace.save(context={"title": "Same", "sessionSummary": f"text {n}"}).path for n in range(3)]
    assert [path.rpartition("__")[2] for path in paths] == ["same.md", "same-2.md", "same-3.md"]


def test_a_fact_is_remembered_in_the_callers_words(place: Place) -> None:
    workspace = place.open()
    answer = workspace.save(text="The staging database is rebuilt every Sunday")
    assert answer.title == "The staging database is rebuilt every Sunday"
    assert workspace.search("when is staging rebuilt").results[0].id == answer.id


def test_metadata_describes_the_newest_save(place: Place) -> None:
    workspace = place.open()
    workspace.save(context=SHORT)
    answer = workspace.save(context={"title": "Newer", "sessionSummary": "Another session.", "keyDecisions": ["x y"]})
    content = json.loads((place.root / "memory/metadata.json").read_text(encoding="utf-8"))
    assert content["file"] == answer.path.rpartition("/")[2]
    assert content["counts"] == {"messages": 0, "decisions": 1, "files": 0, "diagrams": 0}
    assert (content["specFolder"], content["vectorStatus"]) == (None, "success")
    assert content["triggerPhrases"] == list(answer.triggers)
    assert set(content) >= {"timestamp", "topics", "git"}


def test_a_save_stands_though_metadata_cannot_be_written(place: Place) -> None:
    (place.root / "memory/metadata.json").mkdir(parents=True)
    workspace = place.open()
    answer = workspace.save(text="Kept all the same")
    assert answer.id is not None
    assert any("metadata.json" in warning for warning in answer.warnings)
    assert workspace.load(answer.id).text


def test_the_branch_and_commit_are_recorded(place: Place) -> None:
    git = place.root / ".git"
    (git / "refs/heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/feature/x\n", encoding="utf-8")
    (git / "refs/heads/feature").mkdir()
    (git / "refs/heads/feature/x").write_text("a" * 40 + "\n", encoding="utf-8")
    answer = place.open().save(text="On a branch")
    assert "- Git: `feature/x` at `" + "a" * 40 + "`" in saved_text(place, answer.path)
    content = json.loads((place.root / "memory/metadata.json").read_text(encoding="utf-8"))
    assert content["git"] == {"branch": "feature/x", "commit": "a" * 40}


def test_a_template_of_ones_own_is_filled(place: Place) -> None:
    place.write(".spec-kit-memory/context_template.md", "{{front_matter}}\n\n# Ours: {{title}}\n\n{{decisions}}\n")
    answer = place.open().save(context=SHORT)
    text = saved_text(place, answer.path)
    assert "# Ours: Login with passkeys" in text
    assert text.index("ANCHOR:decisions") < text.index("ANCHOR:summary"), "what it does not place follows"


def test_a_template_that_names_what_does_not_exist_is_refused(place: Place) -> None:
    place.write(".spec-kit-memory/context_template.md", "{{titel}}")
    with pytest.raises(Invalid, match="titel"):
        place.open().save(context=SHORT)
    assert not (place.root / "memory").exists()


def test_a_dry_run_shows_the_file_and_writes_nothing(place: Place) -> None:
    (place.root / "specs/007-auth").mkdir(parents=True)
    workspace = place.open()

    def everything() -> dict[str, bytes]:
        outside_the_index = [p for p in place.root.rglob("*") if p.is_file() and "index.sqlite" not in p.name]
        return {p.as_posix(): p.read_bytes() for p in outside_the_index}

    before, generation = everything(), workspace.stats().meta.index_generation
    answer = workspace.save(context=SHORT, spec_folder="007-auth", dry_run=True)
    assert answer.dry_run
    assert answer.text is not None
    assert "Passkeys work" in answer.text
    assert (everything(), workspace.stats().meta.index_generation) == (before, generation)


def test_the_same_session_saved_again_is_the_same_memory(place: Place) -> None:
    workspace = place.open()
    first = workspace.save(context=SHORT)
    place.clock.pass_(minutes=3)
    second = workspace.save(context=SHORT)
    assert (second.id, second.duplicate_of) == (first.id, first.id)
    assert len(list((place.root / "memory").glob("*.md"))) == 1


# --- who may make a rule -------------------------------------------------------------------


def test_a_tool_cannot_save_a_rule(place: Place) -> None:
    with pytest.raises(Invalid, match="only a person") as raised:
        place.open().save(context=SHORT | {"importanceTier": "constitutional"})
    assert raised.value.code == "E090"
    assert not (place.root / "memory").exists()


def test_a_person_at_the_command_line_can(place: Place) -> None:
    workspace = place.open()
    answer = workspace.save(context=SHORT | {"importanceTier": "constitutional"}, by_person=True)
    assert answer.tier is Tier.CONSTITUTIONAL
    assert workspace.search("anything at all").constitutional[0].id == answer.id


# --- secrets -----------------------------------------------------------------------------------

KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
SECRET = "correct-horse-battery-9"
SECRETS: dict[str, Any] = {
    "title": f"Deploy with {KEY}",
    "sessionSummary": f"The token is {KEY}.",
    "triggerPhrases": [f"deploy {KEY}"],
    "technicalContext": {"password": SECRET, "nested": {"db_password": [SECRET]}},
    "userPrompts": [f"use password={SECRET} please"],
    "keyDecisions": [{"decision": "Rotate", "password": SECRET}],
    "nextSteps": [f"revoke {KEY}"],
}


def everything_stored(path: Path) -> str:
    """Every value of every table, compressed text unpacked, and the words of the text index."""
    connection = apsw.Connection(str(path))
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    kept = [repr(row) for name in tables if "fts" not in name for row in connection.execute(f'SELECT * FROM "{name}"')]
    kept += [rows.unpack(blob) for (blob,) in connection.execute("SELECT text FROM content")]
    connection.close()
    return "\n".join(kept)


def test_no_secret_reaches_the_disk_in_any_form(place: Place) -> None:
    workspace = place.open()
    answer = workspace.save(context=SECRETS)
    assert sum(answer.redacted.values()) >= 6
    assert answer.id is not None
    workspace.update(answer.id, title=f"Again {KEY}", trigger_phrases=["deploy now", f"token {KEY}"])
    other = workspace.save(text="Another fact")
    assert other.id is not None
    workspace.link(answer.id, other.id, "caused", evidence=f"seen with {KEY}")
    workspace.checkpoint_create("kept", description=f"with {KEY}", metadata={"password": SECRET})
    for shown in (workspace.checkpoint_list(), workspace.why(answer.id)):
        assert KEY not in str(shown)
        assert SECRET not in str(shown)
    workspace.search("deploy token")
    workspace.close()
    held = [p for p in place.root.rglob("*") if p.is_file()]
    assert held
    for path in held:
        data = path.read_bytes()
        for secret in (KEY, SECRET):
            assert secret.encode() not in data, path
    stored = everything_stored(place.root / ".spec-kit-memory/index.sqlite")
    assert "Rotate" in stored, "the look inside is a real one"
    for secret in (KEY, SECRET, KEY.casefold(), "battery"):
        assert secret not in stored
    for text in (answer.title, answer.path, " ".join(answer.triggers), answer.summary, str(answer.warnings)):
        assert KEY not in text
        assert SECRET not in text


def test_secrets_are_gone_from_what_is_stored_compressed(place: Place) -> None:
    workspace = place.open()
    answer = workspace.save(context=SECRETS)
    assert answer.id is not None
    text = workspace.load(answer.id, max_tokens=100_000).text
    assert KEY not in text
    assert SECRET not in text
    assert "[REDACTED:" in text
    for entry in workspace.history(answer.id).entries:
        assert SECRET not in str((entry.before, entry.after))


def test_a_scan_that_fails_saves_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = place.open()

    def broken(text: str) -> object:
        raise ValueError("no detector")

    monkeypatch.setattr(redact, "_spans", broken)
    for arguments in ({"context": SHORT}, {"text": "a fact"}):
        with pytest.raises(SecretScanFailed) as raised:
            workspace.save(**arguments)
        assert raised.value.code == "E095"
    assert not (place.root / "memory").exists()
    assert workspace.list().total == 0


def test_a_file_with_secrets_is_indexed_without_them_and_named(place: Place) -> None:
    place.memory("deploy", f"# Deploy\n\nThe token is {KEY}.\n\nIt rotates.")
    workspace = place.open(index=False)
    answer = workspace.save(file_path="specs/001-core/memory/deploy.md")
    assert tuple(map(str, answer.warnings)) == (
        "1 secret is left out of the index; specs/001-core/memory/deploy.md itself still contains it",
    )
    assert answer.id is not None
    shown = workspace.get(answer.path, lines="3-5")
    assert shown.text == "The token is [REDACTED:github-token].\n\nIt rotates.", "lines stay true"


# --- files that exist ----------------------------------------------------------------------------


def test_one_file_is_indexed_and_searchable_at_once(place: Place) -> None:
    place.memory("tokens", "# Tokens\n\nAccess tokens live fifteen minutes.")
    workspace = place.open(index=False)
    answer = workspace.save(file_path="specs/001-core/memory/tokens.md")
    assert (answer.created, answer.vector_status) == (True, VectorStatus.SUCCESS)
    assert workspace.search("how long do tokens live").results[0].id == answer.id


def test_a_dry_run_of_a_file_indexes_nothing(place: Place) -> None:
    place.memory("tokens", "# Tokens\n\nText.")
    workspace = place.open(index=False)
    answer = workspace.save(file_path="specs/001-core/memory/tokens.md", dry_run=True)
    assert (answer.id, answer.title) == (None, "Tokens")
    assert workspace.list().total == 0


@pytest.mark.parametrize("path", ["../elsewhere.md", "specs/001-core/../../../x.md", "/etc/passwd"])
def test_a_file_outside_is_refused(place: Place, path: str) -> None:
    (place.root.parent / "elsewhere.md").write_text("# No", encoding="utf-8")
    with pytest.raises(OutsideScope):
        place.open().save(file_path=path)


# --- failures on the way ----------------------------------------------------------------------------


def test_if_only_indexing_fails_the_text_stays_and_is_named(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = place.open()
    store = type(workspace._runtime.store.documents)

    def busy(*_: object, **__: object) -> None:
        raise DatabaseBusy("the index is busy", hint="try again")

    with monkeypatch.context() as patch:
        patch.setattr(store, "put", busy)
        with pytest.raises(DatabaseBusy) as raised:
            workspace.save(text="Not lost at all")
    kept = Path(str(raised.value.details["path"]))
    assert str(kept) in raised.value.message
    assert "Not lost at all" in kept.read_text(encoding="utf-8")
    assert not list(place.root.rglob("*_pending.md"))
    workspace.index()
    assert workspace.search("not lost at all").results[0].title == "Not lost at all"


def test_a_provider_that_fails_leaves_the_save_and_says_pending(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from spec_kit_memory.embed import hashing
    from spec_kit_memory.errors import ProviderUnavailable

    def down(*_: object) -> None:
        raise ProviderUnavailable("no provider", hint="start it")

    workspace = place.open()
    monkeypatch.setattr(hashing.HashingEmbedder, "embed_documents", down)
    answer = workspace.save(text="Saved without meaning")
    assert answer.vector_status in (VectorStatus.PENDING, VectorStatus.RETRY)
    assert workspace.search("saved without meaning", mode="text").results[0].id == answer.id


def test_a_save_into_a_namespace_that_is_not_allowed_writes_nothing(place: Place) -> None:
    for isolation in (Isolation(allowed_paths=()), Isolation(allowed_paths=("specs/001-core",))):
        workspace: Workspace = place.open(isolation=isolation)
        with pytest.raises((OutsideScope, UndecidedSpecFolder)):
            workspace.save(text="nowhere to go")
        with pytest.raises((OutsideScope, UndecidedSpecFolder)):
            workspace.save(context=SHORT)
    assert list(place.root.rglob("*.md")) == []


def test_a_session_that_saved_is_not_asked_to_save_again(place: Place) -> None:
    workspace = place.open()
    for turn in range(1, 21):
        answer = workspace.triggers("hello there", session_id="s", turn_number=turn)
    assert any(suggestion["kind"] == "save" for suggestion in answer.suggestions)
    workspace.save(context=SHORT | {"sessionId": "s"})
    later = workspace.triggers("hello there", session_id="s", turn_number=21)
    assert not any(suggestion["kind"] == "save" for suggestion in later.suggestions)


@pytest.mark.skipif(os.name == "nt", reason="there are no modes there")
def test_a_written_file_can_be_read_by_others_as_usual(place: Place) -> None:
    answer = place.open().save(text="A fact")
    mask = os.umask(0)
    os.umask(mask)
    assert (place.root / answer.path).stat().st_mode & 0o777 == 0o666 & ~mask


def test_among_very_many_folders_the_one_that_fits_is_still_found(place: Place) -> None:
    for number in range(choose_folder.FOLDERS + 30):
        place.memory(
            "notes", f"# Notes {number}\n\nThe topic{number} of folder{number}.", folder=f"{number:03d}-f{number}"
        )
    place.memory("zebra", "# Zebra walks\n\nZebra stripes and zebra herds in the savanna.", folder="777-zebra")
    workspace = place.open()
    saved = workspace.save(
        context={"title": "Zebra herds", "sessionSummary": "Zebra stripes help zebra herds in the savanna."},
        spec_folder="777-zebra",
    )
    assert saved.alignment
    assert saved.alignment["folder"] == "777-zebra"
    assert not any("fits the text badly" in warning for warning in saved.warnings)


def test_no_trigger_phrase_reaches_from_one_field_into_the_next(place: Place) -> None:
    decision = {
        "decision": "Where to store credentials",
        "chosen": "PostgreSQL, one row per credential",
        "rationale": "People have several devices",
    }
    context = {"title": "Login", "sessionSummary": "Login works.", "keyDecisions": [decision]}
    triggers = place.open().save(context=context).triggers
    assert not any("credentials PostgreSQL" in phrase or "credential People" in phrase for phrase in triggers)
    assert any("credential" in phrase for phrase in triggers)


# --- phrases -----------------------------------------------------------------------------------


def test_phrases_that_can_never_match_are_told_at_save_update_and_index(place: Place) -> None:
    never = "trigger phrase 'ab' can never match"
    workspace = place.open()
    saved = workspace.save(context={**SHORT, "triggerPhrases": ["ab", "harbour lamps", "c++"]})
    assert [warning for warning in saved.warnings if never in warning]
    assert saved.id is not None
    updated = workspace.update(saved.id, trigger_phrases=["ab", "🚀🔥", "İstanbul şubesi"])
    assert [hint for hint in updated.hints if never in hint]
    assert not [hint for hint in updated.hints if "most prompts" in hint]
    place.memory("short", "# Short\n\nA note.", trigger_phrases='["ab", "the"]')
    told = [str(row["message"]) for row in workspace.index().warnings if str(row["path"]).endswith("short.md")]
    assert any(never in message for message in told)
    assert any("'the' will match most prompts" in message for message in told)


def test_a_forgotten_text_that_is_saved_again_leaves_no_file_that_nobody_knows(place: Place) -> None:
    space = place.open()
    first = space.save(text="The ferry leaves at nine.", spec_folder="001-core", create=True)
    assert first.id is not None
    space.delete(first.id)
    again = space.save(text="The ferry leaves at nine.", spec_folder="001-core")
    assert (again.id, again.path == first.path) == (first.id, False)
    assert [card.aliases for card in space.list().memories] == [(first.path,)]
    assert not [problem for problem in space.health().problems if problem.check == "files"]


@pytest.mark.parametrize(
    "context",
    [
        "The gate \ud83d opens at nine",
        {"sessionSummary": "The gate \ud83d opens at nine"},
        {"sessionSummary": "The gate opens at nine", "technicalContext": {"hinge\udc00": ["\ud83d"]}},
        {"title": "Gate \ud83d", "sessionSummary": "The gate opens at nine", "keyDecisions": ["at nine \ud83d"]},
    ],
)
def test_half_of_an_emoji_keeps_no_text_from_being_saved(place: Place, context: Any) -> None:
    """Hosts cut texts anywhere."""
    saved = place.open().save(context=context)
    assert saved.path is not None
    text = (place.root / saved.path).read_text(encoding="utf-8")
    assert "opens at nine" in text
    assert "\ufffd" in text
