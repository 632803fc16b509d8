"""Whatever comes in, a reader answers or says what is wrong; nothing else is raised, and nothing hangs."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spec_kit_memory import filesystem
from spec_kit_memory import settings as settings_module
from spec_kit_memory.core import (
    front_edit,
    jsonc,
    markdown,
    passages,
    phrases,
    query,
    redact,
    session_data,
    session_document,
    words,
)
from spec_kit_memory.errors import Invalid, RestoreFailed, SpecKitMemoryError
from spec_kit_memory.files import chat_transcripts, checkpoint_file
from spec_kit_memory.serve.hosts import toml
from tests.features.conftest import Place
from tests.fuzz.material import broken, data, fuzzed, keyed, texts

CORPUS = Path(__file__).parent / "corpus"


def kept() -> list[Any]:
    """Inputs that once broke something."""
    return [pytest.param(path, id=path.name) for path in sorted(CORPUS.glob("*")) if path.is_file()]


def refusal(work: Callable[[], object]) -> SpecKitMemoryError | None:
    """The error of ours that it ends with, if any; every other one fails the test."""
    try:
        work()
    except SpecKitMemoryError as error:
        return error
    return None


def read_document(text: str) -> None:
    clean = redact.redact(text)
    assert clean.text.count("\n") == text.count("\n")
    document = markdown.parse(clean.text)
    lines = document.text.split("\n")
    for anchor in document.anchors:
        assert 1 <= anchor.first_line <= anchor.last_line + 1 <= len(lines) + 1  # one with nothing in it ends before
        assert markdown.find_section(document, anchor.id) is not None
    cut = passages.split(document)
    for passage in cut:
        assert 1 <= passage.first_line <= passage.last_line <= len(lines)
    assert [p.first_line for p in cut] == sorted(p.first_line for p in cut)
    markdown.fingerprint(document)


@fuzzed
@given(texts)
@example("<!--" * 200)
@example("---\na: &a [x]\nb: [*a, *a]\n---\n")
@example("---\n" + "a: " + "[" * 500 + "\n---\n")
@example("# \x00\x1b[31m\u202e")
@example("---\ntitle: x\n---")
@example("<!--ANCHOR: B/c--><!-- /anchor:b/c -->")
@example("<!-- ANCHOR:a -->\n<!-- /ANCHOR:a -->")
def test_any_text_is_a_document_with_true_lines(text: str) -> None:
    read_document(text)


@fuzzed
@example("\ufeff", "A title", [])
@example("\ufeff---\ntitle: x\n---\nText", "A title", ["a phrase"])
@given(
    texts, st.text(min_size=1, max_size=30).filter(str.strip), st.lists(st.text(min_size=1, max_size=12), max_size=3)
)
def test_front_matter_of_any_file_is_edited_without_touching_the_rest(
    text: str, title: str, triggers: list[str]
) -> None:
    try:
        edited = front_edit.edit_front_matter(text, {"title": title, "triggers": triggers})
    except SpecKitMemoryError:
        return  # it says why it will not
    before, after = markdown.parse(text), markdown.parse(edited)
    assert (
        markdown.lines(after, after.body_first_line, 10**9).strip()
        == markdown.lines(before, before.body_first_line, 10**9).strip()
        or before.front != after.front
    )
    read_document(edited)


@fuzzed
@given(broken)
def test_any_text_is_a_safe_query(text: str) -> None:
    read = query.read(text)
    assert "\x00" not in read.text
    words.for_index(text)
    phrases.extract(text)


@fuzzed
@given(data | keyed(
    "specFolder", "sessionSummary", "keyDecisions", "filesModified", "triggerPhrases", "technicalContext",
    "nextSteps", "blockers", "importanceTier", "contextType", "title", "links", "userPrompts", "observations",
    "recentContext",
))  # fmt: skip
def test_any_session_data_is_read_or_all_its_problems_are_listed(given_: Any) -> None:
    error = refusal(lambda: session_document.title_of(session_data.read(given_), spec_folder="001-core"))
    assert error is None or (isinstance(error, Invalid) and error.details["problems"])


@fuzzed
@given(texts)
def test_any_configuration_is_read_or_refused_by_name(text: str) -> None:
    try:
        jsonc.read(text)
    except ValueError:
        return


@fuzzed
@example(given_={"memory.extraPaths": ["\ud800"]})
@example(given_={"semantic.indexPath": "\udfff.sqlite"})
@given(
    given_=keyed(
        "semantic.model", "semantic", "memory.decay.model", "isolation.allowedPaths", "memory.extraPaths", "exclude"
    )
)
def test_a_configuration_with_any_values_is_taken_or_names_the_key(tmp_path_factory: Any, given_: Any) -> None:
    root = tmp_path_factory.mktemp("config")
    (root / ".spec-kit-memory").mkdir()
    try:
        written = json.dumps(given_)
    except ValueError:
        return
    (root / ".spec-kit-memory" / "config.jsonc").write_text(written, encoding="utf-8", errors="replace")
    error = refusal(lambda: settings_module.load(root, environ={}))
    assert error is None or error.code == "E030"


@fuzzed
@given(
    st.one_of(
        st.binary(max_size=300),
        st.lists(
            keyed("role", "content", "timestamp", "type", "message", "sessionId", "payload", "parts", "id"), max_size=5
        ),
        data,
    )
)
def test_any_transcript_is_imported_or_refused(tmp_path_factory: Any, given_: Any) -> None:
    path = tmp_path_factory.mktemp("chat") / "t.jsonl"
    if isinstance(given_, bytes):
        path.write_bytes(given_)
    else:
        rows = given_ if isinstance(given_, list) else [given_]
        path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    error = refusal(lambda: chat_transcripts.read_transcript(path))
    assert error is None or error.hint


@fuzzed
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4), st.integers(0, 10**6))
def test_a_damaged_checkpoint_is_refused_and_changes_nothing(
    tmp_path_factory: Any, damage: list[tuple[int, int]], cut: int
) -> None:
    path = tmp_path_factory.mktemp("checkpoint") / "c.json.gz"
    raw = bytearray(a_checkpoint())
    for at, byte in damage:
        raw[at % len(raw)] ^= byte or 1
    path.write_bytes(bytes(raw[: len(raw) - cut % 20]))
    read_checkpoint(path)


@fuzzed
@given(st.lists(data | keyed("kind", "format", "version", "name", "scope", "rows", "sha256"), min_size=1, max_size=4))
def test_a_checkpoint_of_any_lines_is_refused(tmp_path_factory: Any, rows: list[Any]) -> None:
    path = tmp_path_factory.mktemp("checkpoint") / "c.json.gz"
    path.write_bytes(gzip.compress("\n".join(json.dumps(row) for row in rows).encode()))
    read_checkpoint(path)


def read_checkpoint(path: Path) -> None:
    error = refusal(lambda: list(checkpoint_file.read(filesystem.Place.of(path)).rows()))
    assert error is None or (isinstance(error, RestoreFailed) and path.name in error.message)


_made: list[bytes] = []


def a_checkpoint() -> bytes:
    if not _made:
        import tempfile

        from spec_kit_memory.settings import Semantic, Settings
        from spec_kit_memory.workspace import Workspace

        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            (root / "memory").mkdir()
            (root / "memory" / "a.md").write_text("# A\n\nSome words.\n")
            with Workspace(Settings(root=root, semantic=Semantic(model="hashing"))) as workspace:
                workspace.index()
                workspace.checkpoint_create("one")
            (found,) = (root / ".spec-kit-memory" / "checkpoints").glob("*.gz")
            _made.append(found.read_bytes())
    return _made[0]


@fuzzed
@given(texts, st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=3), data)
def test_a_hosts_configuration_is_edited_or_left_alone(text: str, path: list[str], value: Any) -> None:
    for put, remove, malformed in (
        (jsonc.put, jsonc.remove, jsonc.Malformed),
        (toml.put, toml.remove, toml.MalformedToml),
    ):
        try:
            changed = put(text, path, value if put is jsonc.put else {"command": "skm"})
            remove(changed, path)
        except (malformed, SpecKitMemoryError, ValueError):
            continue


@pytest.mark.parametrize("path", kept())
def test_what_once_broke_a_reader_no_longer_does(path: Path) -> None:
    text = path.read_bytes().decode("utf-8", "replace")
    read_document(text)
    query.read(text)
    phrases.extract(text)
    front_edit.edit_front_matter(text, {"title": "A title"})


# --- bombs


def test_a_file_of_many_zeros_packed_small_is_refused_before_memory_ends(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.json.gz"
    with gzip.open(bomb, "wb", compresslevel=9) as file:
        for _ in range(300):
            file.write(b"0" * 1_000_000)
    with pytest.raises(RestoreFailed):
        list(checkpoint_file.read(filesystem.Place.of(bomb)).rows())


def test_a_row_of_millions_of_values_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    header, *rows, _ = gzip.decompress(a_checkpoint()).splitlines(keepends=True)
    rows.append(b'{"kind": "memory", "triggers": [' + b"[]," * 2_000_001 + b"[]]}\n")
    trailer = {"kind": "trailer", "rows": len(rows), "sha256": hashlib.sha256(b"".join((header, *rows))).hexdigest()}
    bomb = tmp_path / "bomb.json.gz"
    bomb.write_bytes(gzip.compress(b"".join((header, *rows)) + json.dumps(trailer).encode() + b"\n"))
    with pytest.raises(RestoreFailed, match="values"):
        list(checkpoint_file.read(filesystem.Place.of(bomb)).rows())


@pytest.mark.parametrize(
    "yaml",
    [
        "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n"
        "d: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\ntitle: [*e,*e,*e,*e,*e,*e,*e]\n",
        "title: " + "[" * 5000 + "]" * 5000 + "\n",
        "title: " + "{a: " * 3000 + "}" * 3000 + "\n",
        "title: " + "9" * 100_000 + "\n",
        "title: " + "0x" + "f" * 50_000 + "\n",
        "title: 1:" + ":59" * 20_000 + "\n",
        "title: !!python/object/apply:os.system ['true']\n",
        "".join(f"k{number}: v\n" for number in range(20_000)),
        "? " * 3000 + "a\n",
    ],
    ids=["aliases", "lists", "maps", "digits", "hex", "sexagesimal", "python", "keys", "complex keys"],
)
def test_a_yaml_bomb_is_a_warning_and_the_text_is_still_a_memory(place: Place, yaml: str) -> None:
    place.write("specs/001-core/memory/bomb.md", f"---\n{yaml}---\n# Zebra\n\nThe zebra walks.\n")
    workspace = place.open()
    answer = workspace.search("zebra walks")
    assert answer.results[0].path.endswith("bomb.md")
