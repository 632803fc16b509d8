"""Advice is said to whom it is for: tools to a model, commands to a person, methods to Python."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from string import Formatter

import pytest

from spec_kit_memory import errors
from spec_kit_memory.advice import Advice, advise, outcome
from spec_kit_memory.answers import SaveAnswer
from spec_kit_memory.errors import BadParameter, MemoryNotFound
from spec_kit_memory.serve import messages, render
from spec_kit_memory.serve.messages import spelling
from spec_kit_memory.serve.messages.findings import FINDINGS
from spec_kit_memory.serve.messages.outcomes import OUTCOMES
from spec_kit_memory.serve.messages.table import TABLE
from spec_kit_memory.serve.tools import TOOLS

SOURCE = Path(__file__).parents[2] / "src" / "spec_kit_memory"
WORDS = {**OUTCOMES, **FINDINGS}


SPELLED = """
take it back with `undo()` | take it back with `skm undo` (for the user to run) | take it back with `skm undo`
`load(5, anchor_id='a')` | memory_load with memoryId 5 and anchorId a | `skm load 5 --anchor-id a`
`list(tier='normal')` names it | memory_list with tier normal names it | `skm list --tier normal` names it
run `index()` | run memory_index_scan | run `skm index`
run `index(rebuild=True)` | run `skm index --rebuild` (for the user to run) | run `skm index --rebuild`
`get('a b.md', '3-5')` | memory_get with path a b.md and lines 3-5 | `skm get 'a b.md' 3-5`
`get({path}, {lines})` | memory_get with path {path} and lines {lines} | `skm get {path!q} {lines!q}`
`trust(ID)` | `skm trust ID` (for the user to run) | `skm trust ID`
`trust({id})` | `skm trust {id!q}` (for the user to run) | `skm trust {id!q}`
say `clear_existing=True` | say clearExisting: true | say --clear-existing
more: `offset={offset}` | more: offset: {offset} | more: --offset {offset!q}
name one with `spec_folder` | name one with specFolder | name one with --spec-folder
`health(repair=True)` | memory_health with repair true | `skm health --repair`
`a.jsonc`, `foo(1)`, `x = [` stay | `a.jsonc`, `foo(1)`, `x = [` stay | `a.jsonc`, `foo(1)`, `x = [` stay
undo() without quotes | undo() without quotes | undo() without quotes
"""


@pytest.mark.parametrize(("text", "model", "person"), [line.split(" | ") for line in SPELLED.strip().splitlines()])
def test_a_call_is_spelled_as_its_reader_makes_it(text: str, model: str, person: str) -> None:
    assert spelling.spelled(text, edge="model") == model
    assert spelling.spelled(text, edge="person") == person


SAID = [
    (
        advise("read-on", path="memory/a b.md", lines="5-9"),
        "continue with memory_get with path memory/a b.md and lines 5-9",
        "continue with `skm get 'memory/a b.md' 5-9`",
        "continue with `get('memory/a b.md', '5-9')`",
    ),
    (
        advise("drop-filters", parameters=("spec_folder", "tier")),
        "search again without specFolder, tier",
        "search again without --spec-folder, --tier",
        "search again without `spec_folder`, `tier`",
    ),
    (
        advise("held-back", ways=(advise("bring-archived"), advise("bring-dormant"))),
        "older matches were held back; includeArchived: true brings archived and expired ones, "
        "minState: DORMANT brings dormant ones",
        "older matches were held back; --include-archived brings archived and expired ones, "
        "--min-state DORMANT brings dormant ones",
        "older matches were held back; `include_archived=True` brings archived and expired ones, "
        "`min_state='DORMANT'` brings dormant ones",
    ),
    (
        advise("bad-files", count=1),
        "1 file could not be indexed; memory_health lists them with the reason",
        "1 file could not be indexed; `skm health` lists them with the reason",
        "1 file could not be indexed; `health()` lists them with the reason",
    ),
    (
        advise("take-back"),
        "the user can take it back with `skm undo`",
        "take it back with `skm undo`",
        "take it back with `undo()`",
    ),
]


@pytest.mark.parametrize(("advice", "model", "person", "python"), SAID, ids=lambda given: getattr(given, "code", ""))
def test_advice_is_said_to_each_reader(advice: Advice, model: str, person: str, python: str) -> None:
    assert (messages.for_model(advice), messages.for_person(advice), str(advice)) == (model, person, python)


@pytest.mark.parametrize("text", ["`index()` of a user", "{braces} and {0}", "maxTokens: true", "`; rm -rf ~`"])
def test_what_is_no_advice_stays_as_it_is(text: str) -> None:
    """A file's own words are no advice of ours, whatever they look like."""
    assert messages.for_model(text) == messages.for_person(text) == text
    named = advise("read-on", path=text, lines="1-2")
    assert text in messages.for_model(named)
    assert repr(text) in str(named)


def test_an_error_says_its_next_steps_to_each_reader() -> None:
    failure = BadParameter("Why.", hint=("Correct the keys.", advise("show-settings")))
    assert failure.hint == "Correct the keys. `skm config show` tells every key and what is wrong."
    message = render.error(failure)["hint"]
    assert (
        message == "Correct the keys. The user can correct them; `skm config show` tells every key and what is wrong."
    )
    missing = MemoryNotFound("There is no memory 5.", hint=("it is being read", advise("list-ids")))
    assert missing.hint == "it is being read; `list()` shows the ids"
    assert render.error(missing, say=messages.for_person)["hint"] == "it is being read; `skm list` shows the ids"
    assert MemoryNotFound("Nothing.").hint == ""


# --- what an error says


@cache
def raised() -> list[tuple[str, ast.Call]]:
    """Every error that the source makes, with where."""
    names = {kind.__name__ for kind in errors.all_errors()}
    return [
        (f"{path.relative_to(SOURCE).as_posix()}:{node.lineno}", node)
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in names
    ]


def test_every_error_says_what_to_do_next() -> None:
    mute = [place for place, call in raised() if not any(keyword.arg == "hint" for keyword in call.keywords)]
    assert len(raised()) > 150
    assert mute == []


# Said to one kind of reader only: to whoever starts a program, who is a person, and to a model.
STARTING = ("serve/cli/", "serve/http/app.py", "serve/http/team_app.py", "serve/http/auth.py", "serve/mcp/")
EDGE = re.compile(
    rf"\b(?:skm|{'|'.join(tool.name for tool in TOOLS)})\b|(?<![\w-])--(?!upgrade)[a-z]|\b[a-z]+[A-Z]\w+:"
)


def test_no_error_names_a_tool_a_command_or_an_option_but_by_advice() -> None:
    """What names one is a code, and each reader has its words for it."""
    wrong = [
        (place, part.value)
        for place, call in raised()
        if not place.startswith(STARTING)
        for part in ast.walk(call)
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and EDGE.search(part.value)
    ]
    assert wrong == []


@pytest.mark.parametrize("code", TABLE)
def test_a_model_is_told_of_no_option_and_of_commands_only_for_the_user(code: str) -> None:
    message = spelling.spelled(TABLE[code].model, edge="model")
    if re.search(r"(?<![\w-])--[a-z]|\bskm\b", message):
        assert "user" in message, message
    assert not re.search(r"\b(?:memory|checkpoint)_[a-z_]+\b", spelling.spelled(TABLE[code].person, edge="person"))


# --- every code has its words, and every template its use


@cache
def advised() -> dict[str, set[frozenset[str]]]:
    """Each code that the source names, with the fields that it is given."""
    found: dict[str, set[frozenset[str]]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "advise":
                first = node.args[0]
                codes = [first] if isinstance(first, ast.Constant) else [first.body, first.orelse]  # type: ignore[attr-defined]
                fields = frozenset(str(keyword.arg) for keyword in node.keywords)
                for code in codes:
                    found.setdefault(str(code.value), set()).add(fields)
    return found


@cache
def outcomes() -> list[tuple[str, ast.Call]]:
    """Every outcome and every finding that the source makes, with where."""
    return [
        (f"{path.relative_to(SOURCE).as_posix()}:{node.lineno}", node)
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("outcome", "finding")
    ]


def codes_of(call: ast.Call) -> list[str]:
    """What its code may be; of one that is computed (a variable) nothing."""
    first = call.args[0]
    parts = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
    return [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def test_every_outcome_has_words_and_every_line_of_them_is_used() -> None:
    unknown = [(place, code) for place, call in outcomes() for code in codes_of(call) if code not in WORDS]
    assert unknown == []
    named = {
        node.value
        for path in SOURCE.rglob("*.py")
        if path.name not in ("outcomes.py", "findings.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert WORDS.keys() <= named, sorted(WORDS.keys() - named)
    assert len(WORDS.keys() | TABLE.keys()) == len(OUTCOMES) + len(FINDINGS) + len(TABLE)


def test_an_outcome_is_given_the_values_that_its_words_take() -> None:
    checked = 0
    for place, call in outcomes():
        given = {keyword.arg for keyword in call.keywords}
        for code in codes_of(call):
            wanted = {name for _, name, _, _ in Formatter().parse(WORDS[code]) if name}
            if None in given:  # with `**values`, which may be more of them
                assert given - {None} <= wanted, f"{place}: {code} does not say {given - wanted}"
            else:
                assert given == wanted, f"{place}: {code} says {wanted}, and is given {given}"
            checked += 1
    assert checked > 80


def test_below_the_edges_an_outcome_is_a_code() -> None:
    """An answer made there gives no words of its own."""
    worded = [
        f"{path.relative_to(SOURCE).as_posix()}:{node.lineno} {ast.unparse(keyword.value)}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] != "serve"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "outcome"
        for part in ast.walk(keyword.value)
        if isinstance(part, ast.JoinedStr) or (isinstance(part, ast.Constant) and " " in str(part.value))
    ]
    assert worded == []


@pytest.mark.parametrize("code", WORDS)
def test_an_outcome_names_no_call(code: str) -> None:
    """It reads alike for a model, for a person and in Python."""
    assert not re.search(r"`(?!exclude`)(?<!`exclude`)|(?<![\w-])--[a-z]|\bskm\b|\bmemory_[a-z]", WORDS[code])


def test_an_outcome_is_put_into_words_with_the_outcomes_in_it() -> None:
    saved = outcome("saved", title="Ports", id=7, path="memory/ports.md")
    whole = outcome("secrets-replaced", outcome=saved, count=2)
    assert str(whole) == "saved Ports as memory 7 in memory/ports.md; 2 secrets were replaced"
    assert messages.for_model(whole) == messages.for_person(whole) == str(whole)
    assert SaveAnswer(
        outcome=saved, id=7, path="memory/ports.md", title="Ports", spec_folder=None, created=True
    ).summary == str(saved)


def test_every_code_is_used_and_has_words() -> None:
    assert set(advised()) == set(TABLE)


@pytest.mark.parametrize("code", TABLE)
def test_the_fields_of_a_code_are_those_of_its_words(code: str) -> None:
    for template in (TABLE[code].model, TABLE[code].person, TABLE[code].python):
        wanted = {name for _, name, _, _ in Formatter().parse(template) if name}
        for given in advised()[code]:
            assert wanted <= given, f"{code} says {wanted - given}, which nobody gives"


@pytest.mark.parametrize("code", TABLE)
def test_every_call_in_the_table_is_one_of_ours(code: str) -> None:
    """A verb or parameter that was renamed is noticed here."""
    for template, edge in ((TABLE[code].model, "model"), (TABLE[code].person, "person")):
        for quoted in re.findall(r"`([^`]+)`", spelling.spelled(template, edge=edge)):  # type: ignore[arg-type]
            assert quoted.startswith("skm "), f"{code}: {quoted} is not spelled for its reader"


# --- what the features find


SQL = re.compile(
    r"\b(?:SELECT|DELETE|UPDATE|INSERT|FROM|WHERE|CAST)\b|^\s*[\w.]+(?:, \w+)+,?\s*$"
)  # or a list of columns
SENTENCE = re.compile(r"\w+,? [a-z]+,? [a-z]+")  # three words; names, as those of checks, have two at most
# What reads like a message and is none.
NO_MESSAGES = {
    "no memory of it": "the beginning of an error's message",
    "; file in it": "the reason of a change, for the record",
    "restore checkpoint it; before it it": "likewise",
    "file of checkpoint it": "likewise",
    "import of it/it": "likewise",
    "made by itself": "the description of a checkpoint, stored in it",
    "memory it, it": "where a merged text came from, written into the file",
    "## Brought up by the prompt": "a heading of the text of a context",
    "## Decisions that bear on it": "likewise",
    "## Nearest to the prompt": "likewise",
    "Superseded by it:": "a line of that text",
}
NO_ANSWERS = ("change", "compile", "debug", "error", "exception", "info", "warning")  # records, patterns and logs
# Below the features: modules with sentences that are no findings.
OTHER_SENTENCES = {
    "core/alignment": "words that texts are compared with, and the end of an error's hint",
    "core/session_data": "the problems of one error, which names them all",
    "core/session_document": "parts of the document that is written, and the problems of one error",
    "core/saved_document": "a heading of the document that is written",
    "core/jsonc": "the message of a syntax error",
    "core/front_matter": "a spelling that is suggested",
    "core/wording": "the mark of a cut text",
    "core/lean_dataclass": "the source of a method",
    "core/links": "a line of a chart",
    "core/ledger": "the message of an error",
    "core/ledger_operations": "the pattern of a reason that 0.1 recorded",
    "core/words": "stop words",
    "core/stop_words": "stop words",
    "core/redact": "words that secrets have about them",
    "core/secret_names": "likewise",
    "core/secret_prose": "likewise",
    "core/secret_values": "likewise",
    "core/triggers": "words that prompts begin with",
    "files/chat_exports": "the hint of an error",
    "files/chat_transcripts": "the hint of an error",
    "files/discover": "the reason in an error",
    "files/disk": "the text of a file that is written",
    "files/file_changes": "the reason and the hint of an error",
    "files/file_errors": "the hints of errors",
    "files/git_history": "a line of the log",
    "files/original_db": "the hint of an error",
    "files/outgoing": "the message of an error",
    "files/pending": "the message of an error",
    "files/single_file": "the reason of a change, for the record",
    "files/vector_queue": "a text that a provider is tried with",
    "index/arrays/columns": "the message of a programming error",
    "index/arrays/feed": "the documentation of a type",
    "index/postgres/failures": "messages and hints of errors",
    "index/sql/vectors": "the reason in an error",
    "index/sqlite/connection": "the reason in an error, and descriptions of states",
    "index/sqlite/failures": "messages and hints of errors",
    "index/sqlite/rebuild": "the reason in an error",
    "index/sqlite/salvage": "the reason of a change, for the record",
    "index/statement_steps": "the reason in an error",
    "embed/local": "the hint of an error, what the model expects before a query, and stop words",
    "embed/remote": "messages and hints of errors",
    "team/keeper": "the message of an error",
    "team/projects": "the reason in an error",
    "team/redelivery": "the reason that is stored with a change which is not in git",
    "team/repository": "what git says, and the message of an error",
    "team/rights": "the reason in an error",
    "filesystem": "messages of errors",
    "team/database": "the hint of an error",
}

# Tables that edges read their words from, and what reads a call in the words of its edge.
DECLARATIONS = {"errors", "parameter_values", "parameters", "requests"}


def sentences_of(path: Path) -> list[str]:
    """What a module says in words of its own, but for documentation, errors, records and logs."""
    names = {kind.__name__ for kind in errors.all_errors()} | set(NO_ANSWERS)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    left_out: set[ast.AST] = set()
    said: list[str] = []
    for node in ast.walk(tree):  # from the outside in
        if node in left_out:
            continue
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            left_out.update(ast.walk(node.body[0]))
        called = getattr(node, "func", None)
        if isinstance(node, ast.Raise) or getattr(called, "id", getattr(called, "attr", "")) in names:
            left_out.update(ast.walk(node))
        text = ""
        if isinstance(node, ast.JoinedStr):
            left_out.update(ast.walk(node))
            text = "".join(part.value if isinstance(part, ast.Constant) else "it" for part in node.values)  # type: ignore[misc]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        is_one = SENTENCE.search(text) and not SQL.search(text)
        said += [f"{path.name}:{getattr(node, 'lineno', 0)} {text}"] if is_one else []
    return said


def findings_of(folder: str) -> dict[str, set[str]]:
    """The sentences of each module of a room that could be findings."""
    return {
        path.relative_to(SOURCE).with_suffix("").as_posix(): {said.split(" ", 1)[1].strip() for said in sentences}
        for path in sorted((SOURCE / folder).rglob("*.py"))
        if (sentences := sentences_of(path))
    }


def test_features_and_the_rooms_below_answer_with_codes() -> None:
    """`serve.messages` has the words, once; an error keeps the message of an exception."""
    said = {module: sentences - NO_MESSAGES.keys() for module, sentences in findings_of("features").items()}
    for folder in ("core", "embed", "files", "index", "team"):
        said |= {module: sentences - NO_MESSAGES.keys() for module, sentences in findings_of(folder).items()}
    alone = {path for path in SOURCE.glob("*.py") if path.stem not in DECLARATIONS}
    said |= {path.stem: set(sentences_of(path)) for path in alone}
    worded = {module: sentences for module, sentences in said.items() if sentences}
    assert {module: worded[module] for module in worded.keys() - OTHER_SENTENCES.keys()} == {}
    assert OTHER_SENTENCES.keys() <= worded.keys(), "an exception that is needed no more"
