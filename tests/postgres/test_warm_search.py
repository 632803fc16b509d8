"""What does a search of a process that is warm ask of the server? The counters, once. And it finds what rows tell."""

from __future__ import annotations

import random
import time
from pathlib import Path
from uuid import uuid4

import pytest

from spec_kit_memory.core.memory import Filter, Scope
from spec_kit_memory.index.arrays import columns, vocabulary
from spec_kit_memory.index.postgres import view
from spec_kit_memory.index.postgres.engine import PostgresIndex
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.settings.keys import IndexPlace
from spec_kit_memory.workspace import Workspace
from tests.index.material import BY_USER, change, embed_all, entry
from tests.postgres.round_trips import counted
from tests.postgres_server import Server

WORDS = [f"word{number}" for number in range(120)]
MORE_THAN_BELIEVED = 0.05  # seconds: after it the counters are asked for again


@pytest.fixture
def project() -> str:
    return uuid4().hex


def filled(server: Server, project: str, *, documents: int = 40) -> PostgresIndex:
    store, drawn = PostgresIndex(server.url(), project), random.Random(3)
    with store.bulk(), store.together():
        for number in range(documents):
            put(store, number, drawn)
    embed_all(store)
    return store


def put(store: PostgresIndex, number: int, drawn: random.Random) -> None:
    lines = [" ".join(drawn.choices(WORDS[: 20 + number], k=drawn.randint(3, 30))) for _ in range(5)]
    store.documents.put(entry(f"memory/{number}.md", "\n".join(lines), title=f"note {number} {lines[0][:20]}"), BY_USER)


def search(store: PostgresIndex, terms: list[str]) -> list[int]:
    with store.steady():
        hits = [*store.documents.match(terms, Filter(), 50), *store.vectors.match([1.0, 0.0, 0.0], Filter(), 50)]
        passages = store.documents.passages([hit.passage_id for hit in hits])
        store.documents.many([hit.memory_id for hit in hits])
        store.generation()
    return [passage.id for passage in passages]


def test_a_warm_search_asks_the_server_for_the_counters_and_for_nothing_else(server: Server, project: str) -> None:
    store = filled(server, project)
    store.warm()
    asked = [[word, *WORDS[:4], "nowhere", "neither nor", "word1 nowhere"] for word in WORDS[::10]]
    for terms in asked:
        time.sleep(MORE_THAN_BELIEVED)
        with counted() as sent:
            answer = search(store, terms)
        assert len(answer) > len(set(answer))  # both legs found some: none of them is read again
        assert len(sent) == 1
        assert "FROM counter" in str(sent)
    store.close()


def test_what_came_since_is_read_for_all_words_at_once(server: Server, project: str) -> None:
    store = filled(server, project)
    store.warm()
    search(store, WORDS[:3])
    other = PostgresIndex(server.url(), project)
    other.documents.put(entry("memory/new.md", f"{WORDS[5]} appears\nand {WORDS[6]}"), change(minutes=1))
    time.sleep(MORE_THAN_BELIEVED)
    assert search(store, [WORDS[5]])
    time.sleep(MORE_THAN_BELIEVED)
    with counted() as sent:
        assert [hit.memory_id for hit in store.documents.match(["appears"], Filter(), 5)] == [41]
        assert len(store.documents.match([WORDS[6]], Filter(), 200)) > 1
    assert sent
    assert all("FROM counter" in str(one) for one in sent)
    store.close()
    other.close()


def workspace(root: Path, server: Server, project: str) -> Workspace:
    drawn = random.Random(5)
    for number in range(30):
        path = root / f"specs/00{number % 3}-part/memory/n{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "\n\n".join(" ".join(drawn.choices(WORDS, k=40)) for _ in range(3))
        path.write_text(f"# Note {number}\n\n{text}\n", encoding="utf-8")
    place = IndexPlace(url=server.url(), project=project)
    opened = Workspace(Settings(root=root, index=place, semantic=Semantic(model="hashing"), watch="off"))
    opened.index()
    opened._runtime.whole.warm()
    return opened


def test_a_whole_answer_asks_the_server_only_for_what_was_not_read_before(
    tmp_path: Path, server: Server, project: str
) -> None:
    with workspace(tmp_path, server, project) as opened:
        first = opened.search(" ".join(WORDS[:3]), limit=50, max_tokens=30_000)
        assert len(first.results) == 30, "so that all texts and links were read"
        for words in (WORDS[3:6], WORDS[6:9]):
            time.sleep(MORE_THAN_BELIEVED)
            with counted() as sent:
                answer = opened.search(" ".join(words))
            assert answer.results
            assert len(sent) == 1, sent
            assert "FROM counter" in str(sent)


def test_a_whole_answer_of_what_nobody_has_read_takes_three_ways(tmp_path: Path, server: Server, project: str) -> None:
    with workspace(tmp_path, server, project) as opened:
        opened.search("nothing", limit=1)  # numbers of the project are collected once for each generation
        with counted() as sent:
            assert opened.search(" ".join(WORDS[:3])).results
        assert len(sent) <= 3, "the counters, links and texts"
        with counted() as sent:
            opened.search(" ".join(WORDS[3:6]), session_id="s")
        assert len(sent) <= 10, "the session is read and written, and what it was sent is looked up"


def test_numbers_of_a_project_are_collected_in_three_questions(server: Server, project: str) -> None:
    store = filled(server, project, documents=3)
    with counted() as sent:
        assert store.care.stats().memories == 3
    assert len([one for one in sent if "FROM memory" in str(one) or "FROM failure" in str(one)]) <= 3
    assert not [one for one in sent if "length(" in str(one)], "what reads every row is asked for by itself"
    assert store.care.stats(size=True).size_bytes > 0
    store.close()


@pytest.mark.parametrize("read_anew", ["changes", "everything", "many", "too many"])
def test_words_that_are_kept_find_what_the_rows_tell(
    server: Server, project: str, monkeypatch: pytest.MonkeyPatch, read_anew: str
) -> None:
    monkeypatch.setattr(view, "COLD_MATCHES", 0)
    if read_anew == "everything":  # every slot moves with every change
        monkeypatch.setattr(columns, "_INCREMENTAL_SHARE", -1)
        monkeypatch.setattr(columns, "_FEW_CHANGES", -1)
    elif read_anew == "many":
        monkeypatch.setattr(vocabulary, "_MOST_LATER", 3)
    elif read_anew == "too many":
        monkeypatch.setattr(vocabulary, "MOST_BYTES", 500)
    kept, drawn = filled(server, project, documents=25), random.Random(9)
    kept.warm()
    for step in range(8):
        put(kept, drawn.randint(0, 40), drawn)
        if step in (2, 5):
            kept.documents.forget(step, change(minutes=step))
        if step == 6:
            kept.documents.recall(2, change(minutes=step))
        if step == 4:
            kept.care.rebuild(change(minutes=step))
        plain = PostgresIndex(server.url(), project)  # reads each word as it is asked for
        for scope in (None, Scope(prefixes=("memory/1",))):
            for _ in range(3):
                words = drawn.choices(WORDS, k=4)
                terms = [*words, " ".join(words[:2]), "note 7", "word3 word3"]
                mine, theirs = (one if scope is None else one.within(scope) for one in (kept, plain))
                expected = theirs.documents.match(terms, Filter(), 300)
                assert mine.documents.match(terms, Filter(), 300) == expected
        plain.close()
    kept.close()
