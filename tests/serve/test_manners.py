"""What every command says on the example workspace: no Python in the text, true counts, the same names in and out."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from spec_kit_memory import answers
from spec_kit_memory.core.wording import json_name
from spec_kit_memory.serve.cli.program import run

EXAMPLE = Path(__file__).parents[2] / "examples" / "harbour-bikes"
CHAT = "\n".join(
    json.dumps({"role": role, "content": text, "timestamp": "2026-03-01T10:00:00Z"})
    for role, text in (("user", "Which dock battery do we order?"), ("assistant", "The LiFePO4 one."))
)
# In this order: some need what others made. What only a person at a terminal can do is tried elsewhere.
COMMANDS = """
init
index
index
index --force --text-only
index --spec-folder 004-station-map
stats
stats --folder-ranking composite
health
health --full --repair
list
list --tier normal --limit 1
list --spec-folder 004-station-map
search
search "dock battery"
search "dock battery" --limit 1 --explain
search "dock battery" --explain --group-by passage
search "dock battery" --include-content --include-contiguity --include-archived
search --concepts dock --concepts battery
search "nothing of this kind zzqx" --min-score 0.99
search "dock battery" --anchors decisions --anchors nowhere
search "dock battery" --session-id s
search "dock battery" --session-id s
search "dock battery" --as-of 2020-01-01
search "dock battery" --tier temporary
context
context "dock battery" --spec-folder 004-station-map --session-id s
triggers
triggers "the dock battery is low at the station" --session-id s
triggers "what did we decide, and save context"
load 1
load 14 --max-tokens 100
load --spec-folder 004-station-map --anchor decisions
get MEMORY.md 1-3
get MEMORY.md:1
update 14 --title "Docks keep one connection"
update 14 --add-trigger "one connection"
validate 14 --was-useful
validate 14 --no-was-useful
validate 16 --outdated
link 14 17 supports --strength 0.5 --evidence "both docks"
link 14 17 supports
unlink 1
why 14
why 14 --format mermaid
why 21 --max-depth 1
why 1
checkpoint create first --description "before it" --metadata '{"by": "hand"}'
checkpoint create folder --spec-folder 004-station-map
checkpoint list
checkpoint list --limit 1
checkpoint diff first
save --text "The spare dock key hangs behind the bar."
save --text "The spare dock key hangs behind the bar."
save session.json 004-station-map
save session.json 004-station-map --dry-run
save MEMORY.md
checkpoint diff first
merge 14 17
undo
history
history 14
history 14 --limit 1
history --spec-folder 004-station-map
trust 1
chat import chat.jsonl
chat import chat.jsonl
chat list
trust chat://one
chat forget one
delete 17
delete 16 --delete-file
undo
list --forgotten
checkpoint restore first --yes
checkpoint restore first --clear-existing --restore-files --yes
checkpoint delete folder --yes
ledger verify
ledger head
cleanup
cleanup --older-than 1
config show
install claude-code
import nothing.sqlite
load 9999
get nowhere.md
""".strip().splitlines()

SESSION = {
    "title": "Map tiles",
    "sessionSummary": "The station map loads its tiles from our own server now.",
    "keyDecisions": [{"decision": "Own tile server", "rationale": "The other one was slow"}],
    "filesModified": ["map/tiles.py"],
    "nextSteps": ["Measure it"],
    "triggerPhrases": ["tile server"],
}


def words_of(line: str) -> list[str]:
    import shlex

    return shlex.split(line)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("manners") / "harbour-bikes"
    shutil.copytree(EXAMPLE, root)
    (root / "session.json").write_text(json.dumps(SESSION), encoding="utf-8")
    (root / "chat.jsonl").write_text(CHAT, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("SPEC_KIT_MEMORY_")]:
            patch.delenv(name)
        patch.setenv("SPEC_KIT_MEMORY_USER_CONFIG", str(root / "nobody"))
        patch.setenv("SPEC_KIT_MEMORY_SEMANTIC_MODEL", "hashing")
        patch.setenv("HOME", str(root.parent))
        patch.chdir(root)
        yield root


def conversation(example: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, str]:
    """What each command printed, in the copy as it is."""
    said: dict[str, str] = {}
    for number, line in enumerate(COMMANDS):
        code = run([*words_of(line), *more])
        captured = capsys.readouterr()
        assert code in (0, 1), f"{line}: {captured.err}"
        said[f"{number}: {line}"] = captured.out + captured.err
    return said


PYTHON = re.compile(
    r"\b(True|False|None)\b|<[\w.]+ object at|datetime\.|\bTier\.|\bState\.|\bPosixPath\b|"
    r"\{'|\('|\['|\[\]|\{\}|\(\)|frozenset|mappingproxy"
)
# A verb may follow one thing: "1 file is", "1 more matches".
ONE_OF_MANY = re.compile(
    r"(?<![\d.,:/#-])(?<!link )(?<!memory )\b1 (?:more )?(?!is\b|was\b|has\b|ms\b|matches$)[a-z]+(?<!s)s\b"
)


def test_what_a_person_reads_has_no_python_in_it_and_counts_in_english(
    example: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = []
    for line, said in conversation(example, capsys).items():
        if line.endswith("config show"):
            said = re.sub(r"\[\]|\{\}", "", said)  # values as the file would have them
        for pattern in (PYTHON, ONE_OF_MANY):
            wrong += [f"{line}: …{said[max(0, m.start() - 40) : m.end() + 30]!r}" for m in pattern.finditer(said)]
    assert not wrong, "\n".join(wrong)


def test_as_many_rows_are_listed_as_a_person_asked_for(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init"]) == run(["index"]) == 0
    for number in range(70):
        (example / "memory" / f"note-{number}.md").write_text(f"# Note {number} with a name of some length\n\nText.\n")
    assert run(["index"]) == 0
    capsys.readouterr()
    assert run(["list", "--limit", "100", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["data"]["memories"]) == 100
    assert run(["history", "--limit", "100", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["data"]["entries"]) == 100
    assert run(["list", "--limit", "100", "--max-tokens", "500", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["data"]["memories"]) < 10


def test_numbers_are_told_in_words_of_people(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init"]) == run(["index"]) == 0
    capsys.readouterr()
    assert run(["stats"]) == 0
    printed = capsys.readouterr().out
    names = re.findall(r"\b[a-z]+(?:[A-Z][a-z]+|_[a-z]+)+\b", printed.replace("z_archive", ""))
    assert not names, printed
    assert "on average" in printed


# --- names --------------------------------------------------------------------------------------------------------

CAMEL = re.compile(r"[a-z][a-zA-Z0-9]*")
# Keys that are users' own words, or the values of an enumeration: anchors, concepts, kinds of secrets, checks.
WORDS_OF_USERS = {
    "sections", "concepts", "checks", "redacted", "metadata", "tiers", "states", "sources", "vectors", "relations",
    "repaired", "diff",
}  # fmt: skip


def badly_named(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        own = path.rsplit(".", 1)[-1] in WORDS_OF_USERS
        for key, child in value.items():
            if not own and not CAMEL.fullmatch(key):
                yield f"{path}.{key}"
            yield from badly_named(child, f"{path}.{key}")
    elif isinstance(value, list):
        for child in value:
            yield from badly_named(child, path)


def test_every_name_in_an_answer_is_camel_case(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong: dict[str, str] = {}
    for line, said in conversation(example, capsys, "--json").items():
        for printed in said.splitlines():
            if printed.startswith("{"):
                wrong |= dict.fromkeys(badly_named(json.loads(printed)), line)
    assert not wrong, "\n".join(f"{name} ({line})" for name, line in sorted(wrong.items()))


def test_every_field_of_every_answer_has_a_name_that_json_allows() -> None:
    shapes = [each for each in vars(answers).values() if isinstance(each, type) and dataclasses.is_dataclass(each)]
    assert len(shapes) > 20
    for shape in shapes:
        for field in dataclasses.fields(shape):
            assert CAMEL.fullmatch(json_name(field.name)), f"{shape.__name__}.{field.name}"


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    data: dict[str, Any] = json.loads(capsys.readouterr().out)["data"]
    return data


def test_what_is_given_is_answered_under_the_same_name(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["index"]) == 0
    card = printed(capsys, "list", "--limit", "1")["memories"][0]
    given = {
        "title": "As given",
        "triggerPhrases": ["as it was given"],
        "importanceWeight": 0.7,
        "importanceTier": "important",
        "contextType": "research",
    }
    options = [
        *("--title", "As given", "--trigger-phrases", "as it was given", "--importance-weight", "0.7"),
        *("--importance-tier", "important", "--context-type", "research"),
    ]
    answer = printed(capsys, "update", str(card["id"]), *options)
    assert {name: answer["memory"][name] for name in given} == given
    assert set(answer["changed"]) == set(given)
    last = printed(capsys, "history", str(card["id"]), "--limit", "1")["entries"][0]["after"]
    assert {"title", "triggerPhrases", "importanceWeight"} <= last.keys()  # a history tells what differs
    assert {name: last[name] for name in given if name in last} == {
        name: value for name, value in given.items() if name in last
    }
    for old, new in (("tier", "importanceTier"), ("weight", "importanceWeight"), ("triggers", "triggerPhrases")):
        assert answer["memory"][old] == answer["memory"][new]  # for one version
    saved = printed(capsys, "save", "session.json", "004-station-map", "--on-similar", "distinct", "--force")
    assert "tile server" in saved["triggerPhrases"]
    assert saved["importanceTier"] == saved["tier"]
