"""Do both engines rank real notes alike? In several scripts, with the bundled model, from rows and from arrays."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from benchmarks.caching import CachingEmbedder
from benchmarks.retrieval import MOMENT, Row, read_also, rows_of
from spec_kit_memory.answers import Result
from spec_kit_memory.embed.local import LocalEmbedder
from spec_kit_memory.index.postgres import view
from spec_kit_memory.settings.keys import IndexPlace, Settings
from spec_kit_memory.workspace import Workspace
from tests.postgres_server import Server

CORPUS = Path(__file__).parents[1] / "corpus"
TIERS = ("normal", "normal", "important", "critical", "temporary")
TRIGGERS = {  # by number of the note
    3: ("blurhash", "幂等键", "schlüssel der prüfung"),
    7: ("ключ идемпотентности", "مفتاح التكرار", "👩‍💻 pair"),
    11: ("Ⅸ ﬁle", "İstanbul", "straße"),
}
PROMPTS = (
    *("about BLURHASH", "支付回调的幂等键在哪里", "Ключ идемпотентности?", "ما هو مفتاح التكرار", "👩‍💻 pair today"),
    *("ix file", "istanbul", "STRASSE", "strasse", "schlüssel der prüfung", "nothing of these"),
)


class Clock:
    now = MOMENT


@dataclass
class Pair:
    """One folder, indexed by both engines at the same moments."""

    root: Path
    url: str
    clock: Clock
    embedder: Callable[[], CachingEmbedder]

    def opened(self, url: str) -> Workspace:
        settings = Settings(root=self.root, index=IndexPlace(url=url, project="alike"), watch="off")
        return Workspace(settings, embedder=self.embedder(), now=lambda: self.clock.now)


def front(number: int, row: Row) -> str:
    phrases = "".join(f"  - {phrase}\n" for phrase in TRIGGERS.get(number, ()))
    triggers = f"triggerPhrases:\n{phrases}" if phrases else ""
    return f"---\nimportanceTier: {TIERS[number % 5]}\ncreatedAt: {row['time']}\n{triggers}---\n"


@pytest.fixture(scope="module")
def pair(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    root, cache = tmp_path_factory.mktemp("alike"), tmp_path_factory.mktemp("cache")
    notes = [row for name in ("notes", "languages") for row in rows_of(CORPUS / name, "corpus") if not row["speaker"]]
    for number, row in enumerate(notes):
        folder = root / (f"specs/00{number % 4}-part/memory" if number % 3 else "memory")
        folder.mkdir(parents=True, exist_ok=True)
        cited = "\n\nSee `src/app.py`.\n" if number % 20 == 0 else "\n"
        (folder / f"n{number:03}.md").write_text(f"{front(number, row)}{row['text']}{cited}", encoding="utf-8")
    (root / "src").mkdir()
    (root / "src/app.py").write_text("print(1)\n", encoding="utf-8")
    for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    name = f"alike_{uuid4().hex}"
    server.execute(f"CREATE DATABASE {name}")
    made = Pair(root, server.url(name), Clock(), lambda: CachingEmbedder(LocalEmbedder(), cache))
    places = ("sqlite", made.url)
    for url in places:
        with made.opened(url) as workspace:
            workspace.index()
            workspace.checkpoint_create("before")
            workspace.validate(2, was_useful=True)
            workspace.link(3, 4, "supersedes")
    made.clock.now += timedelta(days=40)
    changed = sorted(root.glob("memory/*.md"))[:5]
    for path in changed:
        path.write_text(path.read_text(encoding="utf-8") + "\nThe album export is a zip now.\n", encoding="utf-8")
    sorted(root.glob("memory/*.md"))[7].unlink()
    (root / "src/app.py").write_text("print(2)\n", encoding="utf-8")
    for url in places:
        with made.opened(url) as workspace:
            workspace.index()
    return made


def queries() -> list[str]:
    return [str(row["text"]) for name in ("notes", "languages") for row in rows_of(CORPUS / name, "queries")]


ALSO = read_also(CORPUS / "notes" / "also.json")
WITH_TEXTS = [row for row in rows_of(CORPUS / "notes", "queries") if str(row["id"]) in ALSO]
EVERY_WAY: Mapping[str, list[dict[str, Any]]] = {
    "hybrid": [{"query": text} for text in queries()[::2]],
    "text": [{"query": text, "mode": "text"} for text in queries()[1::2]],
    "vector": [{"query": text, "mode": "vector"} for text in queries()[::3]],
    "passages": [{"query": text, "group_by": "passage", "limit": 30} for text in queries()[::3]],
    "also": [{"query": str(row["text"]), "also": list(ALSO[str(row["id"])])} for row in WITH_TEXTS[:30]],
    "concepts": [{"concepts": text.split()[:3]} for text in queries()[::4] if len(text.split()) > 3],
    "phrases": [{"query": f'"{" ".join(text.split()[1:3])}"'} for text in queries()[::4]],
    "filtered": [
        {"query": text, **filters}
        for text in queries()[::12]
        for filters in (
            {"tier": "critical"},
            {"spec_folder": "001-part"},
            {"min_state": "WARM"},
            {"include_archived": True, "use_decay": False},
            {"min_score": 0.2, "limit": 50},
            {"include_contiguity": True},
        )
    ],
    "fresh": [{"query": text, "fresh": True} for text in queries()[::10]],
    "past": [{"query": text, "as_of": "before"} for text in (*queries()[::40], "album export zip")],
}


def shown(results: list[Any]) -> list[tuple[Any, ...]]:
    return [
        (row.path, row.lines, row.text, *((row.tier, row.state, row.code) if isinstance(row, Result) else ()))
        for row in results
    ]


def require_alike(here: Workspace, there: Workspace, asked: dict[str, Any]) -> int:
    ours, theirs = (workspace.search(**asked) for workspace in (here, there))
    assert shown(list(ours.results)) == shown(list(theirs.results)), asked
    for one, other in zip(ours.results, theirs.results, strict=True):
        scale = 1 if isinstance(one, Result) else 100
        assert scale * one.score == pytest.approx(scale * other.score, abs=0.1), asked
        assert one.match == pytest.approx(other.match, abs=0.001), asked
    return len(ours.results)


@pytest.mark.parametrize("place", ["rows", "arrays"])
@pytest.mark.parametrize("way", EVERY_WAY)
def test_real_notes_are_ranked_alike(pair: Pair, way: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if place == "rows":
        monkeypatch.setattr(view, "COLD_MATCHES", 1_000_000_000)
    with pair.opened("sqlite") as here, pair.opened(pair.url) as there:
        if place == "arrays":
            there._runtime.whole.warm()
        questions = EVERY_WAY[way] if place == "arrays" else EVERY_WAY[way][::4]
        found = sum(require_alike(here, there, asked) for asked in questions)
        assert found >= len(questions) / 2
        shared = there._runtime.whole._shared  # type: ignore[attr-defined]
        assert (shared.loaded is None) == (place == "rows")


def test_phrases_of_any_script_bring_up_the_same_memories(pair: Pair) -> None:
    with pair.opened("sqlite") as here, pair.opened(pair.url) as there:
        found = 0
        for prompt in PROMPTS:
            ours, theirs = (
                [(row.path, row.phrases) for row in workspace.triggers(prompt, limit=10).matches]
                for workspace in (here, there)
            )
            assert ours == theirs, prompt
            found += bool(ours)
        assert found >= 6
