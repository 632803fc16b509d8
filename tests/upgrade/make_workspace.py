"""Made workspace-0.1.0.tar.gz: run with the code of 0.1.0 (commit 5afa27c), never with the present one.

    git archive 5afa27c | tar x -C OLD
    PYTHONPATH=OLD/src python tests/upgrade/make_workspace.py FOLDER
    tar -czf tests/upgrade/workspace-0.1.0.tar.gz --sort=name --owner=0 --group=0 --numeric-owner -C FOLDER .

It does everything that leaves a trace in an index: saves, updates, deletes with and without the trash, a folder
with a name that reads like a sentence of ours, a merge, links, validations, trust, a chat, a session, history of
the original system, checkpoints, two restores and an undo. `STEPS` is what undo has to take back, newest first.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace

HOSTILE = "009-odd; file in trash"  # a spec folder whose child makes the reason of a delete end like a trash path
LONG = " ".join(f"Sentence {number} about the harbour bicycles and where they are parked." for number in range(30))
STEPS = (
    "restore", "update", "restore", "update", "delete", "delete", "merge", "link", "link", "trust", "outdated",
    "validation", "validation", "update", "update",
)  # fmt: skip

ORIGINAL = """
CREATE TABLE memory_index (id INTEGER PRIMARY KEY, spec_folder TEXT, file_path TEXT, anchor_id TEXT, title TEXT,
  access_count INTEGER DEFAULT 0, last_accessed TEXT, validation_count INTEGER DEFAULT 0,
  confidence_score REAL DEFAULT 0.5, importance_tier TEXT, created_at TEXT, updated_at TEXT);
CREATE TABLE memory_history (id TEXT PRIMARY KEY, memory_id INTEGER, event TEXT, prev_value TEXT, new_value TEXT,
  actor TEXT, timestamp TEXT);
INSERT INTO memory_index (id, spec_folder, file_path, title, access_count, validation_count, confidence_score)
  VALUES (5, '001-core', '/x/specs/001-core/memory/broker.md', 'Broker', 4, 2, 0.7);
INSERT INTO memory_history VALUES ('a', 5, 'ADD', NULL, '{"title": "Old broker"}', 'user', '2026-01-01 09:00:00');
INSERT INTO memory_history VALUES ('b', 5, 'UPDATE', '{"title": "Old broker"}', '{"title": "Broker"}', 'hook',
  '2026-01-02 09:00:00');
"""


class Clock:
    at = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.at += timedelta(seconds=1)
        return self.at


def write(root: Path, path: str, text: str, clock: Clock) -> Path:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    old = clock.at.timestamp() - 3600
    os.utime(target, (old, old))
    return target


def make(root: Path) -> None:
    import apsw

    clock = Clock()
    write(
        root,
        "specs/001-core/memory/tokens.md",
        "---\ntitle: Login tokens\n---\nAccess tokens live 15 minutes.\n",
        clock,
    )
    write(root, "specs/001-core/memory/broker.md", "# Broker\n\nThe message broker is Mosquitto.\n", clock)
    write(root, "specs/001-core/memory/parking.md", f"# Parking\n\n{LONG}\n\nOnly the old one says this.\n", clock)
    write(root, "specs/001-core/spec.md", "# Core\n\nWhat the core must do.\n", clock)
    write(root, "specs/001-core/plan.md", "# Plan\n\nHow the core is built.\n", clock)
    write(root, "specs/002-gone/memory/trashed.md", "# Trashed\n\nIt goes to the trash.\n", clock)
    write(root, f"specs/{HOSTILE}/y/memory/odd.md", "# Odd\n\nA folder may have any name.\n", clock)
    write(root, f"specs/{HOSTILE}/y/memory/even.md", "# Even\n\nAnother one beside it.\n", clock)
    chat = [
        {"role": "user", "content": "Which rack is nearest to the pier?", "timestamp": "2026-02-01T10:00:00Z"},
        {"role": "assistant", "content": "The one at berth seven.", "timestamp": "2026-02-01T10:00:05Z"},
    ]
    transcript = root / "chat.jsonl"
    transcript.write_text("".join(json.dumps(turn) + "\n" for turn in chat), encoding="utf-8")
    original = root.parent / "context-index.sqlite"
    original.unlink(missing_ok=True)
    connection = apsw.Connection(str(original))
    connection.execute(ORIGINAL)
    connection.close()

    space = Workspace(Settings(root=root, semantic=Semantic(model="hashing")), now=clock)
    space.index()
    ids = {Path(card.path).stem: card.id for card in space.list(limit=50).memories}
    space.chat_import([transcript])
    chat_id = space.chat_list().memories[0].id
    transcript.unlink()
    space.import_original(original)
    original.unlink()
    space.save(context={"sessionSummary": "We chose flat racks for the pier.", "keyDecisions": ["Flat racks"]},
               spec_folder="001-core")  # fmt: skip
    space.triggers("where do we stand with the flat racks?", session_id="agent-1")

    space.update(ids["tokens"], title="Tokens of the login", importance_tier="critical")
    space.update(chat_id, title="Racks at the pier")
    space.validate(ids["broker"], was_useful=True)
    space.validate(ids["broker"], was_useful=False)
    space.validate(ids["plan"], outdated=True)
    space.trust(chat_id)
    space.link(ids["tokens"], ids["broker"], "supports", strength=0.4, evidence="seen in a review")
    space.link(ids["tokens"], ids["broker"], "supports", strength=0.9)
    space.save(text=LONG + " And one more.", spec_folder="001-core", on_similar="merge")
    space.delete(ids["trashed"], delete_file=True)
    space.delete(spec_folder=f"{HOSTILE}/y", confirm=True, delete_file=True)
    space.checkpoint_create("early", description="before the harbour opens")
    space.update(ids["broker"], title="Broker of messages")
    clock.at += timedelta(minutes=1)
    space.checkpoint_restore("early", clear_existing=True)
    space.update(ids["tokens"], title="A title that nobody keeps")
    space.undo()
    space.update(ids["tokens"], title="Tokens once more")
    clock.at += timedelta(minutes=1)
    space.checkpoint_restore("early", clear_existing=True, restore_files=True)
    assert space.ledger_verify().ok
    space.close()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
