"""No secret gets into anything that is kept or derived, and a text is scanned for them once on its way."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import apsw
import pytest

from benchmarks.secrets import Case, cases, judge
from spec_kit_memory.core import phrases, redact, session_data, session_document
from spec_kit_memory.core.secret_values import Span
from spec_kit_memory.errors import BadParameter
from spec_kit_memory.files import disk
from spec_kit_memory.index import rows
from spec_kit_memory.serve import render
from tests.features.conftest import Place

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
MARKER = "The lamplighter counts forty gulls on the northern mole."
FAR = "\n\n".join(f"Paragraph {number} tells of ropes, tides and the harbour master's log." for number in range(60))


@cache
def guilty() -> tuple[Case, ...]:
    """The labelled cases whose secrets are all found where they stand alone."""
    return tuple(case for case in cases("tuned") if case.secrets and not judge(case).missed)


def telling_pieces(case: Case) -> list[str]:
    """What is left of a secret if it is left: long pieces of it that stand nowhere else in its case."""
    around = "\n".join(case.around).casefold()
    pieces = [piece for secret in case.secrets for piece in secret.split() if len(piece) >= 7]
    return [piece for piece in pieces if piece.casefold() not in around and not piece.strip("-").isupper()]


# --- once ------------------------------------------------------------------------------------------


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every stretch of text that is scanned for secrets, in order."""
    seen: list[str] = []
    spans = redact._spans_of

    def noting(text: str, windows: Sequence[tuple[int, int]]) -> Iterator[Span]:
        seen.extend(text[first:last] for first, last in windows)
        return spans(text, windows)

    monkeypatch.setattr(redact, "_spans_of", noting)
    return seen


def times(marker: str, scanned: Sequence[str]) -> int:
    return sum(text.count(marker) for text in scanned)


def repeated(scanned: Sequence[str]) -> list[str]:
    return [text for text, number in Counter(scanned).items() if text and number > 1]


@pytest.mark.parametrize("secret", ["", f"The key is {TOKEN}."])
def test_the_text_of_a_saved_session_is_scanned_once(place: Place, scanned: list[str], secret: str) -> None:
    workspace = place.open()
    fields = ("sessionSummary", "nextSteps", "blockers", "userPrompts")
    texts = {name: f"{MARKER} In {name}." for name in fields}
    context: dict[str, Any] = {
        # A second look is taken at what stands close to a mark, and only at that.
        "sessionSummary": f"{texts['sessionSummary']}\n\n{FAR}\n\n{secret}\n\n{FAR}",
        "nextSteps": [texts["nextSteps"]],
        "blockers": [texts["blockers"]],
        "userPrompts": [texts["userPrompts"]],
        "technicalContext": {"note": f"{MARKER} In a note."},
        "keyDecisions": [{"decision": "Keep the log", "rationale": f"{MARKER} In a decision."}],
    }
    scanned.clear()
    answer = workspace.save(context=context)
    assert answer.created
    for where in (*fields, "a note", "a decision"):
        assert times(f"In {where}.", scanned) == 1, where
    assert times(MARKER, scanned) == 6


def test_the_text_of_a_fact_is_scanned_once(place: Place, scanned: list[str]) -> None:
    workspace = place.open()
    scanned.clear()
    assert workspace.save(text=MARKER).created
    assert times(MARKER, scanned) == 1


def test_a_file_is_scanned_once_when_it_is_saved_or_indexed(place: Place, scanned: list[str]) -> None:
    workspace = place.open()
    place.memory("note", f"# Note\n\n{MARKER}")
    scanned.clear()
    workspace.save(file_path="specs/001-core/memory/note.md")
    assert times(MARKER, scanned) == 1
    place.memory("other", f"# Other\n\nAnother one. {MARKER}")
    scanned.clear()
    workspace.index()
    assert times("Another one.", scanned) == 1


def test_a_merge_scans_what_was_given_once_and_the_file_that_it_makes_once(place: Place, scanned: list[str]) -> None:
    workspace = place.open()
    workspace.save(context={"sessionSummary": FAR, "nextSteps": ["Grease the bolts"]})
    scanned.clear()
    answer = workspace.save(context={"sessionSummary": FAR, "nextSteps": ["Order two brass seals"]}, on_similar="merge")
    assert answer.merged is not None
    assert repeated(scanned) == []
    assert times("Order two brass seals", [text for text in scanned if "Grease the bolts" not in text]) == 1
    assert sum("Grease the bolts" in text for text in scanned) == 1


def test_no_text_is_scanned_twice_by_an_update_a_restore_with_files_or_the_undo_of_an_update(
    place: Place, scanned: list[str]
) -> None:
    workspace = place.open()
    memory_id = workspace.save(text=MARKER).id
    assert memory_id is not None

    def done(step: Callable[[], object]) -> int:
        scanned.clear()
        step()
        assert repeated(scanned) == []
        return sum(MARKER in text for text in scanned)

    assert done(lambda: workspace.update(memory_id, title="Forty gulls")) == 1
    assert done(workspace.undo) == 1
    workspace.checkpoint_create("before")
    assert done(lambda: workspace.delete(memory_id, delete_file=True)) == 0
    assert done(lambda: workspace.checkpoint_restore("before", restore_files=True)) == 1


def test_a_conversation_is_scanned_once(place: Place, scanned: list[str]) -> None:
    workspace = place.open()
    lines = [{"role": "user", "content": MARKER}, {"role": "assistant", "content": "Forty-one by now."}]
    path = place.write("talk.jsonl", "\n".join(map(json.dumps, lines)))
    scanned.clear()
    workspace.chat_import([path])
    assert times(MARKER, scanned) == 1
    assert times("Forty-one", scanned) == 1


def test_what_stands_in_the_file_instead_of_what_was_saved_is_scanned(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody may write to the file between our writing and our reading it."""
    workspace = place.open()
    read = disk.read

    def meddled(*arguments: Any, **named: Any) -> disk.FileText:
        file = read(*arguments, **named)
        return replace(file, text=f"{file.text}\nThe key is {TOKEN}.\n")

    monkeypatch.setattr(disk, "read", meddled)
    answer = workspace.save(text=MARKER)
    monkeypatch.undo()
    assert answer.id is not None
    assert TOKEN not in workspace.load(answer.id).text


# --- everywhere ------------------------------------------------------------------------------------


def in_every_field(text: str) -> dict[str, Any]:
    return {
        "title": text[:400],
        "sessionSummary": text,
        "keyDecisions": [text, {"decision": "Go on", "chosen": text, "rationale": text, "alternatives": [text]}],
        "nextSteps": [text],
        "blockers": [text],
        "technicalContext": {"note": text, "deep": {"list": [text]}},
        "userPrompts": [{"prompt": text}],
        "observations": [{"title": text, "narrative": text, "facts": [text]}],
        "filesModified": [{"path": "a.py", "description": text}],
        "triggerPhrases": [text[:200]],
        "recentContext": [{"request": text, "learning": text}],
        "somethingElse": {"a": text},
    }


def test_no_field_lets_a_secret_through_to_the_page_or_what_is_made_of_it() -> None:
    now_local = datetime(2026, 3, 1, 12).astimezone()
    checked = 0
    for case in guilty():
        data = in_every_field(case.text)
        if data["title"] != case.text or data["triggerPhrases"] != [case.text]:
            data = {name: each for name, each in data.items() if name not in ("title", "triggerPhrases")}
        session = session_data.read(redact.redact_data(session_data.checked(data), Counter()))
        title = session_document.title_of(session)
        chosen = phrases.extract(session.summary, own_phrases=session.triggers, title=title)
        how: dict[str, Any] = {"now_local": now_local, "spec_folder": None, "triggers": chosen, "git": {}}
        page = session_document.render(session, template=None, **how)
        made = "\n".join([page.text, page.title, page.topic, *chosen]).casefold()
        for piece in telling_pieces(case):
            checked += 1
            assert piece.casefold() not in made, (case.kind, case.where, piece)
    assert checked > 300


def everything_kept(root: Path) -> str:
    """All files, checkpoints and the index's texts unpacked, and every value of its tables."""
    kept = []
    for path in root.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            kept.append(path.name)
            kept.append((gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8", "replace"))
    connection = apsw.Connection(str(root / ".spec-kit-memory/index.sqlite"))
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    kept += [repr(row) for name in tables if "fts" not in name for row in connection.execute(f'SELECT * FROM "{name}"')]
    kept += [rows.unpack(blob) for (blob,) in connection.execute("SELECT text FROM content")]
    connection.close()
    return "\n".join(kept)


def test_no_secret_survives_in_anything_that_is_kept(place: Place) -> None:
    workspace = place.open()
    some = guilty()[::5]
    contexts = [{"sessionSummary": f"{MARKER}\n\n{case.text}"} for case in some]
    saved = [workspace.save(context=context, on_similar="distinct") for context in contexts]
    first, second = (answer.id for answer in saved[:2])
    assert first is not None
    assert second is not None
    answers: list[object] = [*saved]
    for case in some[:20]:
        answers.append(workspace.link(first, second, "caused", evidence=case.text[:900]))
        answers.append(workspace.update(first, title=" ".join(case.text.split())[:400]))
    answers.append(workspace.checkpoint_create("kept", description=some[0].text, metadata={"why": some[1].text}))
    answers += [workspace.history(first), workspace.list(limit=100), workspace.health(), workspace.why(first)]
    workspace.close()
    seen = f"{everything_kept(place.root)}\n{answers!r}".casefold()
    assert "lamplighter" in seen
    for case in some:
        for piece in telling_pieces(case):
            assert piece.casefold() not in seen, (case.kind, case.where, piece)


def test_a_password_of_a_sentence_or_a_command_becomes_no_trigger_phrase(place: Place) -> None:
    """It was the likeliest of all: a word with capitals and digits that no other text has."""
    workspace = place.open()
    summary = (
        "The build is red. The password is Lamphouse-Quay77, and curl -u deploy:Lamphouse-Quay77 https://ci.acme.dev "
        "answers 403. For ssh the password was Lamphouse-Quay77 too."
    )
    answer = workspace.save(context={"sessionSummary": summary})
    assert answer.redacted == {"password": 3}
    workspace.close()
    assert "lamphouse" not in f"{answer!r}{everything_kept(place.root)}".casefold()


def test_a_title_that_is_cut_off_keeps_no_part_of_a_secret(place: Place) -> None:
    workspace = place.open()
    asked = f"Our deploy script stopped last night, and I think that it is because of the key {'x' * 4} {TOKEN * 2}"
    phrase = "Please open the archive with all of the old invoices, the passphrase is 'seven gulls on a harbour wall'"
    for number, text in enumerate((asked, phrase, f"{TOKEN}{TOKEN}{TOKEN}")):
        path = place.write(f"talk-{number}.jsonl", json.dumps({"role": "user", "content": text}))
        workspace.chat_import([path])
    titles = " ".join(card.title for card in workspace.chat_list().memories)
    assert TOKEN[4:20] not in titles
    assert "gulls" not in titles


def test_an_error_does_not_repeat_a_secret() -> None:
    shown = render.error(
        BadParameter(f"the tier 'x' of password={TOKEN} is none", hint=TOKEN, value={"password": "hake1!"})
    )
    assert TOKEN not in str(shown)
    assert "hake1!" not in str(shown)
    assert shown["code"] == BadParameter.code
