"""Questions about something else get a low match in a small workspace too, and what answers gets a high one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spec_kit_memory.answers import Result
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace

NOTES = {
    "deploys": "# Deploys\n\nWe deploy on Tuesdays after the smoke test; Anna signs off.",
    "staging": "# Staging database\n\nIt is restored from last night's backup every morning at six by a cron job.",
    "ovens": "# Ovens\n\nThe bakery oven needs 40 minutes to heat; preheat at 4:20.",
    "keys": "# API keys\n\nKeys rotate every 90 days, the vault path is kv/bakery.",
    "invoices": "# Invoice numbering\n\nInvoices are numbered per year, starting with 1, and never reused.",
    "retries": "# Retry policy\n\nWebhooks are retried five times, then parked in the dead letter queue.",
}
OFF_TOPIC = (
    "how to train a neural network on images", "symptoms of vitamin D deficiency", "who won the world cup in 1998",
    "capital of Mongolia", "how do I prune roses in winter", "guitar chords for beginners", "the plot of Hamlet",
    "which wine goes with fish", "dinosaurs of the cretaceous", "how to renew a passport",
)  # fmt: skip
ANSWERED = {
    "how long until the oven is hot": "Ovens",
    "can an invoice number be used twice": "Invoice numbering",
    "what happens when a webhook fails": "Retry policy",
    "who approves a deployment": "Deploys",
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    root: Path = tmp_path_factory.mktemp("small").resolve()
    (root / "memory").mkdir()
    (root / ".git").mkdir()
    for name, text in NOTES.items():
        (root / "memory" / f"{name}.md").write_text(text + "\n", encoding="utf-8")
    with Workspace(Settings(root=root, semantic=Semantic(model="local"), watch="off")) as opened:
        opened.index()
        yield opened


def best(workspace: Workspace, question: str) -> Result:
    first = workspace.search(question).results[0]
    assert isinstance(first, Result)
    assert first.match is not None
    return first


def test_nine_in_ten_questions_about_something_else_have_no_result_above_a_third(workspace: Workspace) -> None:
    low = [question for question in OFF_TOPIC if (best(workspace, question).match or 0) <= 0.3]
    assert len(low) >= 0.9 * len(OFF_TOPIC), set(OFF_TOPIC) - set(low)


@pytest.mark.parametrize("question", ANSWERED)
def test_what_answers_has_a_match_of_a_half_at_least(workspace: Workspace, question: str) -> None:
    first = best(workspace, question)
    assert first.title == ANSWERED[question]
    assert first.match is not None
    assert first.match >= 0.5
