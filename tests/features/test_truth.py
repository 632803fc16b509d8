"""Nothing is passed over in silence: whatever is missing, failed, loose or held back is said where it is shown."""

from __future__ import annotations

import errno
import gzip
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from spec_kit_memory.embed import Embedding, QueryEmbedding
from spec_kit_memory.embed.hashing import HashingEmbedder
from spec_kit_memory.embed.local import LocalEmbedder
from spec_kit_memory.errors import EmbeddingFailed, MemoryNotFound, ProviderUnavailable, SpecKitMemoryError
from spec_kit_memory.files.checkpoint_shelf import FileSlot
from spec_kit_memory.serve.cli import answer_view
from spec_kit_memory.serve.messages import for_model, for_person
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place

REFUSED = "http://127.0.0.1:9/v1/embeddings answered 401: bad key"


class Fickle(HashingEmbedder):
    """The shipped fake, with failures to choose."""

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None
        self.bad_word = ""
        self.bad_error: Exception = ProviderUnavailable(
            "the provider answered 500: oops", hint="wait", perhaps_text=True
        )
        self.asked: list[int] = []

    def _fail(self, texts: Sequence[str]) -> None:
        if self.error is not None:
            raise self.error
        if self.bad_word and any(self.bad_word in text for text in texts):
            raise self.bad_error

    def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        self.asked.append(len(texts))
        self._fail(texts)
        return super().embed_documents(texts)

    def embed_query(self, text: str) -> QueryEmbedding:
        self._fail([text])
        return super().embed_query(text)


def opened(place: Place, embedder: Any, **changed: Any) -> Workspace:
    settings = Settings(root=place.root, semantic=Semantic(model="hashing"), **changed)
    workspace = Workspace(settings, now=place.clock, embedder=embedder)
    place.opened.append(workspace)
    return workspace


def notes(place: Place, count: int = 6) -> None:
    for number in range(count):
        place.memory(f"note{number}", f"# Note {number}\n\nThe text of note number{number}word.")


def problems(workspace: Workspace, check: str, **how: Any) -> list[str]:
    return [problem["message"] for problem in workspace.health(**how).problems if problem["check"] == check]


# --- vectors


def test_one_passage_that_gets_a_server_error_holds_up_no_other(place: Place) -> None:
    notes(place)
    embedder = Fickle()
    embedder.bad_word = "number3word"
    workspace = opened(place, embedder)
    answer = workspace.index()
    assert answer.vectors == {"retry": 1, "success": 5}
    assert answer.vector_failures == {"E004 the provider answered 500: oops": 1}
    assert answer.summary.endswith("1 memory without all vectors")
    assert any("1 passage has no vector: E004 the provider answered 500: oops" in hint for hint in answer.hints)
    for _ in range(2):
        workspace.index()
    assert workspace.index().vectors == {"failed": 1, "success": 5}
    assert any("`health(repair=True)`" in hint for hint in workspace.index().hints)
    assert not workspace.health().healthy
    assert problems(workspace, "failed vectors") == ["1 passage has no vector: E004 the provider answered 500: oops"]
    embedder.bad_word = ""
    assert workspace.health(repair=True).healthy
    assert workspace.index().vectors == {"success": 6}


def test_a_failing_batch_is_halved_and_not_tried_text_by_text(place: Place) -> None:
    notes(place, 32)
    embedder = Fickle()
    embedder.bad_word = "number3word"
    opened(place, embedder).index()
    # The batch, a text of ours, then halves: far fewer than a call for each passage.
    assert embedder.asked[:2] == [32, 1]
    assert len(embedder.asked) <= 2 + 2 * 5


def test_a_provider_that_fails_for_every_text_is_down_and_no_passage_is_blamed(place: Place) -> None:
    notes(place)
    embedder = Fickle()
    embedder.error = ProviderUnavailable("the provider answered 500: oops", hint="wait", perhaps_text=True)
    workspace = opened(place, embedder)
    answer = workspace.index()
    assert answer.vectors == {"pending": 6}
    assert (answer.vector_failures, answer.vector_problem) == ({}, "E004 the provider answered 500: oops")
    embedder.error = None
    place.clock.pass_(minutes=1)
    assert workspace.index().vectors == {"success": 6}


@pytest.mark.parametrize("error", [EmbeddingFailed("vector 0 makes no sense", hint="check it"), ValueError("no")])
def test_nonsense_in_answer_to_every_text_is_the_providers_fault_and_over_when_it_is(
    place: Place, error: Exception
) -> None:
    notes(place)
    embedder = Fickle()
    embedder.error = error
    for _ in range(4):  # a passage is given up after three tries
        workspace = opened(place, embedder)
        answer = workspace.index()
        assert answer.vectors == {"pending": 6}
        assert str(error) in answer.vector_problem
        assert str(error) in workspace.load(1).hints[0]
        assert not workspace.health().healthy
        place.clock.pass_(minutes=1)
        if isinstance(error, EmbeddingFailed):  # one fault, one code, wherever it is named
            named = [*map(str, workspace.health().problems), *map(str, workspace.search("word").unavailable)]
            assert any(f"E004 {error}" in text for text in named)
            assert not any("E001" in text for text in named)
    embedder.error = None
    assert opened(place, embedder).index().vectors == {"success": 6}


def test_a_model_that_cannot_be_asked_how_long_its_vectors_are_stops_no_index(place: Place) -> None:
    class Mute(HashingEmbedder):
        def __getattribute__(self, name: str) -> Any:
            if name == "dimensions":
                raise EmbeddingFailed("it answered with no vectors", hint="check it")
            return super().__getattribute__(name)

    notes(place, 2)
    workspace = opened(place, Mute())
    answer = workspace.index()
    assert (answer.new, answer.vectors) == (2, {"pending": 2})
    assert answer.vector_problem == "E004 it answered with no vectors"
    assert list(map(str, workspace.list().memories[0].problems)) == [f"it has no vectors yet: {answer.vector_problem}"]
    assert opened(place, Fickle()).index().vectors == {"success": 2}


def test_a_list_of_problems_that_is_printed_has_words_and_no_codes(place: Place) -> None:
    (place.root / "memory").mkdir(parents=True)
    (place.root / "memory" / "old.md").write_text("---\nexpires: 2020-01-02\n---\n# Old\n\nAn old note.\n")
    workspace = opened(place, Fickle())
    workspace.index()
    (card,) = workspace.list().memories
    printed = f"{card.problems}"
    assert "it expired on 2020-01-02: search finds it only with" in printed
    assert "Advice" not in printed


def test_passages_that_are_given_up_do_not_count_as_embedded(place: Place) -> None:
    notes(place, 2)
    embedder = Fickle()
    embedder.bad_word, embedder.bad_error = "word", EmbeddingFailed("too odd")
    summaries = [opened(place, embedder).index().summary for _ in range(4)]
    assert summaries[0].startswith("2 files indexed")
    assert set(summaries[1:]) == {"2 files are unchanged; 2 memories without all vectors"}


@pytest.mark.parametrize("refused", [True, False])
def test_an_index_that_cannot_embed_says_why_and_what_to_do(place: Place, refused: bool) -> None:
    notes(place)
    embedder = Fickle()
    embedder.error = (
        ProviderUnavailable(REFUSED, hint="put a valid key into the variable")
        if refused
        else ProviderUnavailable("the model's files are damaged", hint="reinstall the package")
    )
    workspace = opened(place, embedder)
    workspace.index()
    answer = workspace.index()
    assert answer.summary == "6 files are unchanged; 6 memories without all vectors"
    (hint,) = [hint for hint in answer.hints if "vectors" in hint]
    assert embedder.error.message in hint
    assert embedder.error.hint in hint
    assert "makes them" not in hint
    health = workspace.health()
    assert not health.healthy
    assert {"meaning", "pending vectors"} <= {problem["check"] for problem in health.problems}
    for problem in health.problems:
        assert embedder.error.message in problem["message"]
        assert problem["hint"] == embedder.error.hint


def test_every_process_knows_why_vectors_are_missing(place: Place) -> None:
    notes(place, 2)
    embedder = Fickle()
    embedder.error = ProviderUnavailable(REFUSED)
    opened(place, embedder).index()
    other = opened(place, Fickle())
    reason = f"it has no vectors yet: E004 {REFUSED}"
    assert [list(map(str, card.problems)) for card in other.list().memories] == [[reason], [reason]]
    assert reason in other.load(1).hints
    assert other.stats().embedding["problem"] == f"E004 {REFUSED}"
    other.index()
    assert [card.problems for card in other.list().memories] == [(), ()]
    assert other.stats().embedding["problem"] is None


def test_a_passage_that_cannot_be_embedded_is_named_where_its_memory_is_shown(place: Place) -> None:
    notes(place, 2)
    embedder = Fickle()
    workspace = opened(place, embedder)
    embedder.bad_word, embedder.bad_error = "word", EmbeddingFailed("too odd")
    workspace.index()
    message = "1 passage has no vector: E001 too odd"
    assert [[*map(str, card.problems)] for card in workspace.list().memories] == [[message], [message]]
    assert message in workspace.load(1).hints
    assert workspace.stats().embedding["failures"] == {"E001 too odd": 2}


def test_a_missing_model_is_a_problem_though_no_vector_is_missing(place: Place, tmp_path: Path) -> None:
    notes(place, 1)
    workspace = opened(place, Fickle())
    workspace.index()
    assert workspace.health().healthy
    lost = opened(place, LocalEmbedder(folder=tmp_path / "no model here"))
    health = lost.health()
    assert not health.healthy
    assert any("pip install" in problem["hint"] for problem in health.problems if problem["check"] == "meaning")


def test_text_only_needs_no_model_and_no_vectors(place: Place) -> None:
    notes(place, 2)
    workspace = place.open(model="none")
    answer = workspace.index()
    assert (answer.summary, answer.hints) == ("nothing to do: 2 files are unchanged", ())
    assert workspace.health().healthy
    assert workspace.list().memories[0].problems == ()


# --- files


def test_health_sees_files_that_the_index_does_not_know_as_they_are(place: Place) -> None:
    notes(place, 3)
    workspace = place.open()
    assert workspace.health().healthy
    place.memory("new", "# New\n\nNobody indexed it.")
    path = place.memory("note1", "# Note 1\n\nSomebody edited it.")
    place.clock.pass_(minutes=1)
    health = workspace.health()
    assert not health.healthy
    assert problems(workspace, "files") == [
        "1 file is not indexed: specs/001-core/memory/new.md",
        "1 file changed since it was indexed: specs/001-core/memory/note1.md",
    ]
    assert all("`index()`" in problem["hint"] for problem in health.problems)
    workspace.index()
    assert workspace.health().healthy
    path.touch()
    assert workspace.health().healthy, "a stamp is no change"


def test_a_file_that_was_deleted_on_request_is_no_difference(place: Place) -> None:
    notes(place, 2)
    workspace = place.open()
    workspace.delete(1)
    assert workspace.health().healthy
    path = place.root / "specs/001-core/memory/note0.md"
    path.rename(path.with_name("moved.md"))
    assert workspace.health().healthy
    path.with_name("moved.md").write_text("# Note 0\n\nEdited since.\n", encoding="utf-8")
    assert len(problems(workspace, "files")) == 1


def test_a_file_that_no_rule_finds_any_more_is_told(place: Place) -> None:
    notes(place, 2)
    place.open().close()
    workspace = place.open(index=False, exclude=("note0.md",))
    assert problems(workspace, "files") == [
        "1 file is indexed that no rule finds any more: specs/001-core/memory/note0.md"
    ]


def test_a_checkpoint_that_may_not_be_read_hides_no_other(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    notes(place, 1)
    workspace = place.open()
    workspace.checkpoint_create("open")
    workspace.checkpoint_create("locked")
    reading = FileSlot.reading

    def refused(slot: FileSlot) -> Any:
        if slot.name.startswith("locked"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return reading(slot)

    monkeypatch.setattr(FileSlot, "reading", refused)
    listed = workspace.checkpoint_list()
    assert [row.name for row in listed.checkpoints] == ["open"]
    assert "Permission denied" in listed.hints[0]
    (problem,) = problems(workspace, "checkpoints")
    assert "locked" in problem
    with pytest.raises(SpecKitMemoryError, match="Permission denied"):
        workspace.checkpoint_restore("locked")
    workspace.checkpoint_create("another")
    workspace.checkpoint_restore("open")
    assert "could not be read" in workspace.checkpoint_delete("locked").summary
    assert problems(workspace, "checkpoints") == []


@pytest.mark.parametrize("damage", ["cut", "flipped", "garbage"])
def test_a_checkpoint_that_cannot_be_restored_is_told(place: Place, damage: str) -> None:
    notes(place, 3)
    workspace = place.open()
    workspace.checkpoint_create("good")
    workspace.checkpoint_create("bad")
    assert workspace.health().healthy
    path = place.root / ".spec-kit-memory/checkpoints/bad.json.gz"
    if not path.exists():
        (path,) = (place.root / ".spec-kit-memory/checkpoints").glob("bad*")
    data = path.read_bytes()
    if damage == "cut":
        path.write_bytes(data[: len(data) - 40])
    elif damage == "flipped":
        text = gzip.decompress(data).replace(b"number1word", b"numberXword")
        path.write_bytes(gzip.compress(text))
    else:
        path.write_bytes(b"nothing of the kind")
    health = workspace.health()
    assert not health.healthy
    assert len(problems(workspace, "checkpoints")) == 1


# --- links


LOOSE = ("supersedes", "contradicts", "derived_from", "supports", "related_to", "caused_by", "enabled_by")


@pytest.mark.parametrize("relation", LOOSE)
@pytest.mark.parametrize("target", ["A title that nobody has", "specs/009-x/memory/none.md", "999"])
def test_a_link_that_leads_nowhere_is_told_wherever_it_is_shown(place: Place, relation: str, target: str) -> None:
    place.write(
        "specs/001-core/memory/a.md", f"---\ncausal_links:\n  {relation}:\n    - {target}\n---\n# A\n\nText of a.\n"
    )
    workspace = place.open(index=False)
    answer = workspace.index()
    message = f"{relation} {target!r}: no memory has this id, path or title; the link is made when one does"
    assert any(message in hint for hint in answer.hints)
    assert message in map(str, workspace.list().memories[0].problems)
    assert message in workspace.load(1).hints
    assert message in map(str, workspace.save(file_path="specs/001-core/memory/a.md").warnings)
    assert problems(workspace, "link targets") == [f"specs/001-core/memory/a.md: {message}"]
    health = workspace.health()
    assert not health.healthy
    assert not any("repair" in hint for hint in health.hints), "no repair mends what a person wrote"


def test_a_saved_link_that_leads_nowhere_is_told_at_once_and_no_more_when_it_leads_somewhere(place: Place) -> None:
    place.memory("one", "# One\n\nText of one.")
    workspace = place.open()
    data = {"title": "Two", "sessionSummary": "Text of two.", "links": {"supersedes": ["Three"], "supports": ["One"]}}
    saved = workspace.save(context=data, spec_folder="001-core")
    assert [str(warning) for warning in saved.warnings if "no memory has" in warning] == [
        "supersedes 'Three': no memory has this id, path or title; the link is made when one does"
    ]
    place.memory("three", "# Three\n\nText of three.")
    workspace.index()
    assert workspace.health().healthy
    assert saved.id is not None
    assert len(workspace.why(saved.id).steps) == 2


def test_a_link_to_itself_is_told_as_such(place: Place) -> None:
    place.write("memory/a.md", "---\ncausal_links: {supports: [A]}\n---\n# A\n\nText.\n")
    assert problems(place.open(), "link targets") == ["memory/a.md: supports 'A': that is this memory itself"]


def test_slips_in_a_file_are_a_notice_in_health_and_said_when_it_is_loaded(place: Place) -> None:
    place.write("memory/a.md", "---\nsupersedes: B\n---\n# A\n\nText.\n")
    workspace = place.open()
    health = workspace.health()
    assert health.healthy
    assert health.summary == "healthy, with 1 notice"
    (message,) = problems(workspace, "file warnings")
    assert message.startswith("memory/a.md:2: 'supersedes' stands outside causal_links")
    assert any("outside causal_links" in hint for hint in workspace.load(1).hints)


# --- what search holds back


def test_an_expired_memory_says_so_wherever_it_is_shown(place: Place) -> None:
    place.write("memory/a.md", "---\nexpires: 2026-01-31\n---\n# A\n\nText of a.\n")
    place.memory("b", "# B\n\nText of b.", importance_tier="temporary", created="2026-02-27")
    workspace = place.open(index=False)
    answer = workspace.index()
    message = "it expired on 2026-01-31: search finds it only with `include_archived=True`"
    assert [(w["path"], str(w["message"])) for w in answer.warnings] == [("memory/a.md", message)]
    a, b = place.id_of(workspace, "a.md"), place.id_of(workspace, "b.md")
    assert message in workspace.load(a).hints
    assert message in map(str, workspace.save(file_path="memory/a.md").warnings)
    assert workspace.load(b).hints == ()
    place.clock.pass_(days=10)
    assert {card.id: bool(card.problems) for card in workspace.list().memories} == {a: True, b: True}
    assert problems(workspace, "held back") == [f"2 memories expired, #{a}, #{b}: search leaves them out"]
    assert workspace.health().healthy
    assert any("it expired on" in hint for hint in workspace.validate(b, was_useful=True).hints)


def test_an_update_that_hides_a_memory_says_so(place: Place) -> None:
    place.memory("a", "# A\n\nText of a.", created="2025-01-01")
    workspace = place.open()
    hidden = workspace.update(1, importance_tier="temporary")
    assert hidden.hints[0] == "it expired on 2025-01-08: search finds it only with `include_archived=True`"
    gone = workspace.update(1, importance_tier="deprecated")
    assert gone.hints[0] == "it is deprecated: search finds it only with `tier='deprecated'`"
    assert workspace.update(1, importance_tier="normal").hints == ("take it back with `undo()`",)


def test_an_outdated_memory_says_so_wherever_it_is_shown(place: Place) -> None:
    place.memory("a", "# A\n\nText of a.")
    workspace = place.open()
    message = "it was marked outdated: search finds it only with `include_archived=True`"
    assert message in workspace.validate(1, outdated=True).hints
    assert message in workspace.load(1).hints
    assert [str(problem) for problem in workspace.list().memories[0].problems] == [message]
    assert problems(workspace, "held back") == ["1 memory is marked outdated, #1: search leaves it out"]
    assert workspace.validate(1, outdated=False).hints == ()


# --- a spec folder that nothing is in


def test_a_folder_that_nothing_is_in_names_what_was_probably_meant(place: Place) -> None:
    place.write("specs/003-payments/001-refunds/memory/a.md", "# A\n\nRefunds take a day.\n")
    place.write("specs/004-map/memory/b.md", "# B\n\nTiles are our own.\n")
    workspace = place.open()
    meant = "003-payments/001-refunds"
    for name in ("003", "3", "003/001", "001-refund", "refunds"):
        assert meant in workspace.list(spec_folder=name).hints[0]
        assert meant in workspace.history(spec_folder=name).hints[0]
        assert meant in " ".join(workspace.context("refunds", spec_folder=name).hints)
        assert meant in " ".join(workspace.search("refunds", spec_folder=name).hints)
        for call in (
            lambda told=name: workspace.load(spec_folder=told),
            lambda told=name: workspace.delete(spec_folder=told),
            lambda told=name: workspace.checkpoint_create("c", spec_folder=told),
            lambda told=name: workspace.save(text="Refunds take two days", spec_folder=told),
        ):
            with pytest.raises(SpecKitMemoryError) as refused:
                call()
            assert meant in for_person(refused.value.hint)


def test_an_empty_list_does_not_send_a_full_workspace_to_the_index(place: Place) -> None:
    place.memory("a", "# A\n\nText of a.")
    workspace = place.open()
    assert workspace.list(tier="critical").hints == ("`list()` without a filter shows what is there",)


@pytest.mark.parametrize("how", ["outdated", "expired", "deprecated"])
def test_a_phrase_whose_memory_is_held_back_is_not_called_absent(place: Place, how: str) -> None:
    front = {"expired": {"expires_at": "2026-02-01"}, "deprecated": {"tier": "deprecated"}}.get(how, {})
    place.memory("queue", "# Queue\n\nWe chose the blue queue.", trigger_phrases="[queue decision]", **front)
    workspace = place.open()
    if how == "outdated":
        workspace.validate(1, outdated=True)
    answer = workspace.triggers("remind me of the queue decision")
    assert answer.matches == ()
    assert answer.summary == "0 memories match"
    assert "#1" in answer.hints[0]
    absent = workspace.triggers("remind me of something else")
    assert (absent.summary, absent.hints) == ("no trigger phrase occurs in the prompt", ())


def test_several_links_that_lead_nowhere_are_one_plain_warning(place: Place) -> None:
    targets = "".join(f"    - Title {number}\n" for number in range(5))
    place.write("specs/001-core/memory/a.md", f"---\ncausal_links:\n  supports:\n{targets}---\n# A\n\nText of a.\n")
    hints = place.open(index=False).index().hints
    assert [hint for hint in hints if "no memory has" in hint] == [
        "specs/001-core/memory/a.md: supports 'Title 0': no memory has this id, path or title; the link is made when "
        "one does. 4 more links lead nowhere; `health()` lists them"
    ]


# --- what is missing or gone


def test_a_ledger_without_its_end_is_no_healthy_one(place: Place) -> None:
    notes(place)
    workspace = place.open()
    workspace.validate(1, was_useful=True)
    with closing(apsw.Connection(str(place.root / ".spec-kit-memory/index.sqlite"))) as index:
        index.execute("DROP TRIGGER ledger_is_append_only_delete")
        index.execute("DELETE FROM ledger WHERE sequence = (SELECT max(sequence) FROM ledger)")
    assert [message for message in problems(workspace, "ledger") if "the end is missing" in for_person(message)]


def test_a_list_that_is_empty_because_everything_was_deleted_says_so(place: Place) -> None:
    notes(place, 2)
    workspace = place.open()
    for memory in workspace.list().memories:
        workspace.delete(memory.id)
    hint = workspace.list().advice[0]
    shown = "`skm list --forgotten` shows which, `skm undo` takes back the last"
    assert for_person(hint) == f"2 memories were deleted: {shown}"
    assert for_model(hint) == "2 memories were deleted; the user can bring the last back with `skm undo`"
    assert workspace.search("text").advice == workspace.context("text").advice == (hint,)


def test_where_nothing_is_yet_a_first_memory_is_advised_by_a_call_that_works(place: Place) -> None:
    workspace = place.open()
    for answer in (workspace.list(), workspace.search("tokens"), workspace.context("tokens")):
        (hint,) = answer.advice
        assert for_person(hint).endswith("run `skm index`, or save a first memory with `skm save --text TEXT`")
        assert for_model(hint).endswith(
            "run memory_index_scan, or save a first memory with memory_save with context TEXT"
        )
    assert workspace.save(text="TEXT").created


def test_stats_say_why_a_model_that_was_never_used_does_not_work(place: Place) -> None:
    notes(place, 1)
    embedder = Fickle()
    embedder.error = ProviderUnavailable(REFUSED, hint="put a valid key")
    workspace = opened(place, embedder)
    workspace.index()
    shown = str(list(answer_view._stats(workspace.stats(), now=place.clock())))
    assert REFUSED in shown


def test_a_restored_move_names_the_files_that_it_took_away(place: Place) -> None:
    note = place.memory("note", "# Note\n\nThe text of it.")
    workspace = place.open()
    workspace.checkpoint_create("c")
    place.clock.pass_(minutes=1)
    moved = note.with_name("moved.md")
    note.rename(moved)
    workspace.index()
    answer = workspace.checkpoint_restore("c", clear_existing=True, restore_files=True)
    assert answer.files_written == ("specs/001-core/memory/note.md",)
    assert answer.files_trashed == ("specs/001-core/memory/moved.md",)
    assert not moved.exists()


def test_a_memory_whose_file_is_gone_says_so_until_the_file_is_back(place: Place) -> None:
    note = place.memory("note", "# Note\n\nThe text of it.")
    workspace = place.open()
    (memory,) = workspace.list().memories
    aside = note.rename(place.root / "aside")
    workspace.index()
    with pytest.raises(MemoryNotFound) as missing:
        workspace.load(memory.id)
    assert missing.value.message == f"the file of memory {memory.id}, {memory.path}, is gone"
    assert workspace.history(memory.id).entries[0].event == "DELETE"
    aside.rename(note)
    workspace.index()
    assert workspace.load(memory.id).memory.path == memory.path


@pytest.mark.parametrize("how", [{}, {"group_by": "passage"}])
def test_a_result_whose_successor_is_left_out_names_it_in_a_hint(place: Place, how: dict[str, Any]) -> None:
    place.memory("old", "# Old hold\n\nWe hold fifty euros before a ride. The hold is fifty euros.")
    place.memory("new", "# Change\n\nIt is twenty.")
    place.memory("other", "# Lunch\n\nThe canteen closes at two.")
    workspace = place.open()
    old, new = place.id_of(workspace, "old"), place.id_of(workspace, "new")
    workspace.link(new, old, "supersedes")
    question = "how many euros do we hold before a ride"
    whole, strict = workspace.search(question, **how), workspace.search(question, min_score=0.5, **how)
    assert [row.id for row in strict.results] == [old]
    named = f"memory {old} is superseded by memory {new}, which is not among these results"
    assert [hint for hint in strict.hints if hint.startswith(named)]
    assert not [hint for hint in whole.hints if "is superseded by" in hint]
