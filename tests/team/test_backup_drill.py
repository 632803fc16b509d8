"""Does a dump of a team server bring everything back on another one?"""

from __future__ import annotations

from tools.backup_drill import drill


def test_a_dump_brings_back_memories_ledger_tokens_own_notes_and_what_was_on_its_way() -> None:
    done = drill(memories=12)
    assert done.missing == []
    assert done.dump_bytes > 0
    assert set(done.seconds) == {"dump", "restore to the first answer", "what was on its way into git"}
