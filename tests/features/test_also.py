"""`also`: a caller says the same in the words that the memory may use."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence

import pytest

from spec_kit_memory.answers import Result, SearchAnswer
from spec_kit_memory.embed import Embedding, QueryEmbedding
from spec_kit_memory.embed.hashing import HashingEmbedder
from spec_kit_memory.errors import OutOfRange
from spec_kit_memory.serve.tools import BY_NAME, read_arguments
from spec_kit_memory.settings import Search, Settings
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place

WRITTEN = {
    "tokens": "# Login tokens\n\nAccess tokens live fifteen minutes and are signed with an Ed25519 key.",
    "broker": "# Broker\n\nThe message broker is Mosquitto, and commands are never retained.",
    "lunch": "# Lunch\n\nThe canteen has soup on Thursdays, and people wait there until somebody asks them again.",
    "badge": "# Badges\n\nPeople who forget their badge ask at the desk before they are let in again.",
}
QUESTION = "how soon do people have to prove again who they are"
HELP = ["access tokens lifetime minutes", "Access tokens live some minutes and are signed with a key."]


@pytest.fixture
def filled(place: Place) -> Place:
    for name, text in WRITTEN.items():
        place.memory(name, text)
    return place


def titles(answer: SearchAnswer) -> list[str]:
    return [result.title for result in answer.results]


def first(answer: SearchAnswer) -> Result:
    result = answer.results[0]
    assert isinstance(result, Result)
    return result


@pytest.mark.parametrize("mode", ["hybrid", "text", "vector"])
@pytest.mark.parametrize("fusion", ["best", "rrf"])
def test_the_words_of_the_note_find_what_the_question_does_not(filled: Place, mode: str, fusion: str) -> None:
    workspace = filled.open(search=Search(fusion=fusion))
    assert titles(workspace.search(QUESTION, mode=mode))[0] != "Login tokens"
    assert titles(workspace.search(QUESTION, also=HELP, mode=mode))[0] == "Login tokens"


def test_texts_are_read_alike_where_passages_are_asked_for(filled: Place) -> None:
    answer = filled.open().search(QUESTION, also=HELP, group_by="passage")
    assert "Ed25519" in answer.results[0].text


def test_every_passage_that_is_asked_for_comes_with_help_too(place: Place) -> None:
    for number in range(90):
        place.memory(f"note{number:02d}", f"# Note {number}\n\nThe harbour crane number {number} lifts containers.")
    workspace = place.open()
    alone = workspace.search("harbour crane", limit=90, group_by="passage", max_tokens=100_000)
    helped = workspace.search("harbour crane", also=["lifts"], limit=90, group_by="passage", max_tokens=100_000)
    assert len(alone.results) == len(helped.results) == 90


def test_explain_tells_what_each_text_gave(filled: Place) -> None:
    workspace = filled.open()
    parts = first(workspace.search(QUESTION, also=HELP, explain=True)).explain
    assert len(parts["texts"]) == 3
    assert parts["texts"][0] < parts["texts"][1]
    assert sum(parts["texts"]) == pytest.approx(sum(parts["stages"].values())) == pytest.approx(1.0)
    assert "texts" not in first(workspace.search(QUESTION, explain=True)).explain


def test_a_person_sees_what_each_text_gave(filled: Place) -> None:
    filled.open().close()
    command = [sys.executable, "-m", "spec_kit_memory", "--workspace", str(filled.root), "search", QUESTION]
    helped = [*command, "--include-archived", "--mode", "text", "--explain", "--also", HELP[0], "--also", HELP[1]]
    message = subprocess.run(helped, capture_output=True, text=True, check=True, timeout=120).stdout
    assert "Login tokens" in message.split("\n")[0]
    assert re.search(r"relevance by text [\d.e-]+ \+ [\d.e-]+ \+ [\d.e-]+", message)


@pytest.mark.parametrize("fusion", ["best", "rrf"])
def test_relevance_is_the_mean_of_what_each_text_finds_alone(filled: Place, fusion: str) -> None:
    workspace = filled.open(search=Search(fusion=fusion))
    alone = [relevances(workspace.search(text, explain=True, min_score=0)) for text in (QUESTION, *HELP)]
    together = relevances(workspace.search(QUESTION, also=HELP, explain=True))
    mean = {title: sum(item[title] for item in alone) for title in together}
    best = max(mean.values())
    assert together == {title: pytest.approx(value / best) for title, value in mean.items()}


def relevances(answer: SearchAnswer) -> dict[str, float]:
    return {result.title: sum(result.explain["stages"].values()) for result in answer.results}


def test_match_is_that_of_the_best_text(filled: Place) -> None:
    workspace = filled.open(model="local")
    alone = {text: first(workspace.search(text)).match for text in (QUESTION, *HELP)}
    together = first(workspace.search(QUESTION, also=HELP))
    assert together.title == "Login tokens"
    assert together.match == max(match for match in alone.values() if match is not None)


def test_only_the_query_asks_for_the_past(place: Place) -> None:
    place.memory("tokens", WRITTEN["tokens"], created="2020-01-01")
    workspace = place.open()
    past = "originally, how were access tokens made"
    by_query, by_help = (
        first(workspace.search(query, also=[other], explain=True)).explain["recency"]
        for query, other in ((past, HELP[0]), (HELP[0], past))
    )
    assert by_query > by_help


def test_only_the_query_has_keywords(filled: Place) -> None:
    workspace = filled.open()
    assert first(workspace.search("login", explain=True)).explain["keywords"] > 0
    helped = first(workspace.search(QUESTION, also=["login tokens", *HELP], explain=True))
    assert (helped.title, helped.explain["keywords"]) == ("Login tokens", 0)


def test_only_the_query_brings_up_rules(place: Place) -> None:
    for number, name in enumerate(("oaks", "pines", "elms", "ashes")):
        text = f"---\ntriggers: [about {name}]\n---\n# Rule {number}\n\nWater them.\n"
        place.write(f"constitutional/{number}.md", text)
    place.memory("tokens", WRITTEN["tokens"])
    with place.open(model="none") as workspace:
        by_query = workspace.search("tokens about ashes", limit=1)
    with place.open(model="none", index=False) as workspace:
        by_help = workspace.search("tokens", also=["about ashes"], limit=1)
    assert by_query.constitutional[0].title == "Rule 3"
    assert by_help.constitutional[0].title != "Rule 3"


def test_an_answer_with_help_is_kept_apart_from_one_without(filled: Place) -> None:
    workspace = filled.open()
    alone, helped = workspace.search(QUESTION), workspace.search(QUESTION, also=HELP)
    assert titles(alone) != titles(helped)
    again = workspace.search(QUESTION, also=list(HELP))
    assert (again.meta.cache_hit, titles(again)) == (True, titles(helped))
    assert not workspace.search(QUESTION, also=HELP[:1]).meta.cache_hit


def test_help_reaches_concepts_and_the_past(filled: Place) -> None:
    workspace = filled.open()
    assert titles(workspace.search(concepts=["access", "minutes"], also=HELP)) == ["Login tokens"]
    filled.clock.pass_(days=1)
    past = workspace.search(QUESTION, also=HELP, as_of=filled.clock().isoformat())
    assert titles(past)[0] == "Login tokens"


def test_what_is_held_back_is_rated_by_all_texts(filled: Place) -> None:
    filled.memory("keys", "# Signing keys\n\nAccess tokens are signed with a key for some minutes.", folder="z_archive")
    workspace = filled.open()
    held = workspace.search(QUESTION, also=HELP).held_back
    assert held.archived == 1
    best = held.best[0]
    shown = workspace.search(QUESTION, also=HELP, include_archived=True)
    scores = {result.title: result.score for result in shown.results}
    assert best["title"] == "Signing keys"
    assert best["score"] == pytest.approx(scores["Signing keys"], abs=0.02)


def test_context_finds_by_the_words_of_the_note_too(filled: Place) -> None:
    filled.memory(
        "decided",
        "# Sessions\n\n<!-- ANCHOR:decisions -->\n## Decisions\n\nAccess tokens live fifteen minutes.\n"
        "<!-- /ANCHOR:decisions -->",
    )
    workspace = filled.open(model="local")
    helped = workspace.context(QUESTION, also=["access tokens lifetime", "Access tokens live fifteen minutes."])
    assert "Access tokens live fifteen minutes" in helped.text


class Counting(HashingEmbedder):
    """Remembers what it was asked in one call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[list[str]] = []

    def embed_queries(self, texts: Sequence[str]) -> list[QueryEmbedding]:
        self.calls.append(list(texts))
        return super().embed_queries(texts)


def test_all_texts_are_embedded_in_one_call(filled: Place) -> None:
    embedder = Counting()
    with Workspace(Settings(root=filled.root), embedder=embedder, now=filled.clock) as workspace:
        workspace.index()
        assert titles(workspace.search(QUESTION, also=HELP))[0] == "Login tokens"
    assert embedder.calls == [[QUESTION, *HELP]]


class Single:
    """An embedder as they were before a question could have several texts."""

    name, dimensions, weights_hash = "single", 384, "single"

    def embed_query(self, text: str) -> QueryEmbedding:
        return QueryEmbedding(HashingEmbedder().embed_query(text).vector)

    def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        return [Embedding(document.vector) for document in HashingEmbedder().embed_documents(texts)]


def test_an_embedder_that_takes_one_text_is_asked_one_by_one(filled: Place) -> None:
    with Workspace(Settings(root=filled.root), embedder=Single(), now=filled.clock) as workspace:
        workspace.index()
        answer = workspace.search(QUESTION, also=HELP)
    assert (titles(answer)[0], answer.method) == ("Login tokens", "hybrid")


class Failing(HashingEmbedder):
    """Fails at one of the texts."""

    def embed_query(self, text: str) -> QueryEmbedding:
        if "lifetime" in text:
            raise RuntimeError("no device")
        return super().embed_query(text)


def test_without_vectors_the_words_of_all_texts_still_find(filled: Place) -> None:
    with Workspace(Settings(root=filled.root), embedder=Failing(), now=filled.clock) as workspace:
        workspace.index()
        answer = workspace.search(QUESTION, also=HELP)
    assert (titles(answer)[0], answer.method) == ("Login tokens", "text")
    assert any("no device" in reason for reason in answer.unavailable)


@pytest.mark.parametrize("also", [["x"] * 7, ["x" * 5_001, "y" * 5_000]])
def test_too_much_help_is_refused_everywhere(filled: Place, also: list[str]) -> None:
    with pytest.raises(OutOfRange, match="also"):
        filled.open().search(QUESTION, also=also)
    with pytest.raises(OutOfRange, match="also"):
        read_arguments(BY_NAME["memory_search"], {"query": QUESTION, "also": also})


def test_as_much_as_is_allowed_is_answered(filled: Place) -> None:
    answer = filled.open().search(QUESTION, also=[*HELP, "x " * 2_000, "y " * 2_000, 'NEAR/3 "*', "タイトル 🙂"])
    assert "Login tokens" in titles(answer)


@pytest.mark.parametrize("also", [[], "", ["", "  "], None])
def test_no_help_is_as_if_left_out(filled: Place, also: object) -> None:
    workspace = filled.open()
    arguments = {"query": QUESTION, "also": also, "explain": True}
    read = read_arguments(BY_NAME["memory_search"], arguments)
    assert read.also == ()  # type: ignore[attr-defined]
    assert "texts" not in first(workspace.search(**arguments)).explain  # type: ignore[arg-type]


def test_a_lone_text_and_a_list_as_json_are_taken(filled: Place) -> None:
    tool = BY_NAME["memory_search"]
    for given, expected in (("tokens", ("tokens",)), (json.dumps(HELP), tuple(HELP))):
        assert read_arguments(tool, {"query": QUESTION, "also": given}).also == expected  # type: ignore[attr-defined]
