"""What does a question that waits for its vector do to the others?"""

from __future__ import annotations

import threading

import pytest

from spec_kit_memory.embed import QueryEmbedding
from spec_kit_memory.embed.hashing import HashingEmbedder
from spec_kit_memory.features import runtime
from spec_kit_memory.settings import Settings
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place

TOKENS = "# Tokens\n\nAccess tokens live ten minutes.\n"


class Slow(HashingEmbedder):
    """Embeds, but a question that says so waits until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.waiting, self.go_on = threading.Event(), threading.Event()

    def embed_query(self, text: str) -> QueryEmbedding:
        self.asked.append(text)
        if "slow" in text:
            self.waiting.set()
            self.go_on.wait(60)
        return super().embed_query(text)


def test_a_question_that_waits_for_its_vector_holds_up_no_other(place: Place) -> None:
    place.memory("tokens", TOKENS)
    slow = Slow()
    with Workspace(Settings(root=place.root), embedder=slow, now=place.clock) as workspace:
        workspace.index()
        waiting = threading.Thread(target=workspace.search, args=("slow tokens",))
        waiting.start()
        assert slow.waiting.wait(120)
        assert workspace.search("access tokens").method == "hybrid"
        assert waiting.is_alive()
        slow.go_on.set()
        waiting.join(30)


def test_while_a_question_is_stuck_no_other_is_sent_after_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "PATIENCE_SECONDS", 0.1)
    place.memory("tokens", TOKENS)
    slow = Slow()
    with Workspace(Settings(root=place.root), embedder=slow, now=place.clock) as workspace:
        workspace.index()
        assert workspace.search("slow tokens").method == "text"
        for minutes in range(3):  # long after a failed provider would be asked again
            place.clock.pass_(days=1)
            assert workspace.search(f"access tokens {minutes}").method == "text"
        assert slow.asked == ["slow tokens"]
        slow.go_on.set()
