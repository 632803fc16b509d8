"""What was said? Conversations as memories.

Chat is text of unknown origin: search finds it, but it carries no rules and no triggers
until a person vouches for it. A conversation that grew is updated, never doubled.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spec_kit_memory.answers import ChatAnswer, DeleteAnswer, ListAnswer, SaveAnswer
from spec_kit_memory.core.memory import Conversation, Filter, Presence, Source
from spec_kit_memory.errors import FileMissing, MemoryNotFound
from spec_kit_memory.store import PutResult
from spec_kit_memory.vault import chat, files
from spec_kit_memory.vault.entries import CHAT
from spec_kit_memory.verbs import changing, indexing
from spec_kit_memory.verbs.wiring import Wiring


def import_(wiring: Wiring, paths: Sequence[Path]) -> ChatAnswer:
    """Remember every conversation of these transcripts; folders are looked through."""
    transcripts = [found for path in paths for found in chat.transcripts_in(path)]
    if not transcripts:
        raise FileMissing(
            f"no transcripts in {', '.join(map(str, paths))}", hint="name .jsonl files, or a folder that holds them"
        )
    imported: list[dict[str, Any]] = []
    unchanged = bad_lines = 0
    with wiring.whole.bulk():
        for path in transcripts:
            transcript = chat.read_transcript(path, noise_patterns=wiring.settings.noise)
            bad_lines += len(transcript.bad_lines)
            for conversation in transcript.conversations:
                result = _keep(wiring, conversation)
                if result is None or not (result.created or result.changed):
                    unchanged += 1
                else:
                    imported.append(_told(conversation, result))
    wiring.embed_soon()
    return ChatAnswer(
        summary=f"{len(imported)} conversations remembered, {unchanged} unchanged",
        hints=_hints(imported, bad_lines),
        imported=tuple(imported),
        unchanged=unchanged,
        bad_lines=bad_lines,
    )


def _keep(wiring: Wiring, conversation: Conversation) -> PutResult | None:
    """None: a person forgot this conversation, and it stays forgotten."""
    known = wiring.whole.by_path(CHAT + conversation.id, any_presence=True)
    if known is not None and known.presence is Presence.FORGOTTEN:
        return None
    return wiring.sync.index_conversation(conversation, wiring.change("chat import"))


def _told(conversation: Conversation, result: PutResult) -> dict[str, Any]:
    return {
        "id": result.memory_id,
        "title": conversation.title,
        "path": CHAT + conversation.id,
        "turns": len(conversation.turns),
        "created": result.created,
    }


def _hints(imported: Sequence[Any], bad_lines: int) -> tuple[str, ...]:
    hints = []
    if imported:
        hints.append("chat carries no rules or triggers until you vouch for it: skm trust ID")
    if bad_lines:
        hints.append(f"{bad_lines} lines could not be read and were left out")
    return tuple(hints)


def save_transcript(wiring: Wiring, file_path: str, *, dry_run: bool = False) -> SaveAnswer:
    """memory_save of a transcript: inside the allowed paths, like any file that a tool names."""
    path = files.contained(wiring.settings, file_path)
    transcript = chat.read_transcript(path, noise_patterns=wiring.settings.noise)
    titles = ", ".join(conversation.title for conversation in transcript.conversations[:3])
    count = len(transcript.conversations)
    stored = files.stored_form(wiring.settings, path)
    if dry_run:
        said = f"{stored} holds {count} conversations: {titles}; nothing was written"
        return SaveAnswer(
            summary=said, id=None, path=stored, title=titles, spec_folder=None, created=False, dry_run=True
        )
    answer = import_(wiring, [path])
    indexing.embed_pending(wiring)
    first = answer.imported[0] if answer.imported else None
    return SaveAnswer(
        summary=answer.summary,
        hints=answer.hints,
        id=first["id"] if first else None,
        path=first["path"] if first else stored,
        title=first["title"] if first else titles,
        spec_folder=None,
        created=bool(first and first["created"]),
    )


def list_(wiring: Wiring) -> ListAnswer:
    found = wiring.store.find(Filter(source=Source.CHAT))
    return ListAnswer(
        summary=f"{len(found)} conversations",
        hints=() if found else ("remember some with skm chat import PATH",),
        memories=tuple(wiring.card(memory) for memory in found),
        total=len(found),
    )


def forget(wiring: Wiring, conversation: str) -> DeleteAnswer:
    """Forget one conversation, by its id, its path or its memory's id."""
    if conversation.isdecimal():
        memory = wiring.store.get(int(conversation))
        found = memory if memory.source is Source.CHAT else None
    else:
        found = wiring.store.by_path(CHAT + conversation.removeprefix(CHAT))
    if found is None:
        raise MemoryNotFound(f"there is no conversation {conversation}", hint="list them with skm chat list")
    return changing.delete(wiring, memory_id=found.id)
