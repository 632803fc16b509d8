"""How do conversations become memories?

Chat is text of unknown origin: search finds it, but it carries no rules and no triggers
until a person vouches for it. A conversation that has grown is updated, never duplicated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spec_kit_memory.advice import Text, advise, finding, outcome
from spec_kit_memory.answers import ChatAnswer, DeleteAnswer, ImportedChat, ListAnswer, SaveAnswer
from spec_kit_memory.core import redact
from spec_kit_memory.core.memory import CHAT, Conversation, Filter, Memory, Presence, Source
from spec_kit_memory.errors import FileMissing, MemoryNotFound, SpecKitMemoryError
from spec_kit_memory.features import amend, index_workspace
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files import chat_transcripts, paths
from spec_kit_memory.files.index_entry import chat_path
from spec_kit_memory.index.contract import PutResult
from spec_kit_memory.parameter_values import memory_id
from spec_kit_memory.requests import DeleteRequest


def import_(runtime: Runtime, paths: Sequence[Path], *, explicit: bool = False) -> ChatAnswer:
    """Import every conversation of these transcripts; folders are searched.

    A forgotten conversation stays forgotten, unless its file was named by itself (`explicit`).
    """
    transcripts = [transcript for path in paths for transcript in chat_transcripts.transcripts_in(path)]
    if not transcripts:
        raise FileMissing(
            f"no transcripts in {', '.join(map(str, paths))}",
            hint="name .jsonl files, a data export of ChatGPT or Claude.ai, or a folder that holds them",
        )
    imported: dict[int, ImportedChat] = {}
    unread: list[str] = []
    unchanged = bad_lines = 0
    alone = len(transcripts) == 1
    with runtime.whole.bulk():
        for path in transcripts:
            try:
                transcript = chat_transcripts.read_transcript(
                    path, noise_patterns=runtime.settings.noise, now=runtime.now()
                )
            except SpecKitMemoryError as error:
                if alone:
                    raise
                unread.append(error.message)  # one bad file does not stop the rest
                continue
            bad_lines += len(transcript.bad_lines)
            for conversation in transcript.conversations:
                result = _store(runtime, conversation, explicit=explicit)
                if result is None or not (result.created or result.changed):
                    unchanged += 1
                else:
                    imported[result.memory_id] = _row(runtime, conversation, result)
    runtime.embed_soon()
    return ChatAnswer(
        outcome=outcome("chats-imported", count=len(imported), unchanged=unchanged),
        advice=(*_hints(imported, bad_lines), *unread[:5]),
        imported=tuple(imported.values()),
        unchanged=unchanged,
        bad_lines=bad_lines,
    )


def _store(runtime: Runtime, conversation: Conversation, *, explicit: bool) -> PutResult | None:
    """Index one conversation; None if it is skipped: it was forgotten, or the index has a newer copy."""
    path = chat_path(conversation.id, scope=runtime.scope)
    stored = runtime.store.documents.get(path=path, any_presence=True)
    if stored is not None and stored.presence is Presence.FORGOTTEN and not explicit:
        return None
    if stored is not None and stored.presence is Presence.LIVE and _is_older(stored, conversation):
        return None
    result = runtime.sync.index_conversation(conversation, runtime.change("chat import"), explicit=explicit)
    came_back = stored is not None and stored.presence is not Presence.LIVE
    return replace(result, changed=True) if came_back else result


def _is_older(stored: Memory, conversation: Conversation) -> bool:
    """Is this an older copy of a known conversation? Storing it would drop its later turns."""
    ended = conversation.ended_at or conversation.started_at
    return ended is not None and stored.attributes.created_at is not None and ended < stored.attributes.created_at


def _row(runtime: Runtime, conversation: Conversation, result: PutResult) -> ImportedChat:
    memory = runtime.store.documents.get(result.memory_id)  # its title is free of secrets
    return ImportedChat(
        id=result.memory_id,
        title=memory.title,
        path=memory.path,
        turns=len(conversation.turns),
        created=result.created,
    )


def _hints(imported: Mapping[int, Any], bad_lines: int) -> tuple[Text, ...]:
    hints: list[Text] = []
    if imported:
        hints.append(advise("vouch-for-chat"))
    if bad_lines:
        hints.append(finding("lines-left-out", count=bad_lines))
    return tuple(hints)


def save_transcript(runtime: Runtime, file_path: str, *, dry_run: bool = False) -> SaveAnswer:
    """Save a transcript. It must be inside the allowed paths, like any file that a tool names."""
    path = paths.contained(runtime.settings, file_path, scope=runtime.scope)
    transcript = chat_transcripts.read_transcript(path, noise_patterns=runtime.settings.noise, now=runtime.now())
    titles = ""
    chats: list[str] = []
    for conversation in transcript.conversations:
        if len(chats) < 3:
            title = chat_transcripts.short_title(redact.redact(conversation.title).text)
            titles = f"{titles}, {title}" if chats else title
        chats.append(chat_path(conversation.id, scope=runtime.scope))
    count = len(chats)
    stored = paths.stored_form(runtime.settings, path)
    if dry_run:
        return SaveAnswer(
            outcome=outcome("chats-held", path=stored, count=count, titles=titles),
            id=None,
            path=stored,
            title=titles,
            spec_folder=None,
            created=False,
            dry_run=True,
        )
    answer = import_(runtime, [path], explicit=True)
    index_workspace.embed_pending(runtime)
    stored_as = [row["path"] for row in answer.imported]
    first = next(filter(None, (runtime.store.documents.get(path=chat) for chat in stored_as + chats)), None)
    return SaveAnswer(
        outcome=answer.outcome,
        advice=answer.advice,
        id=first.id if first else None,
        path=first.path if first else stored,
        title=first.title if first else titles,
        spec_folder=None,
        created=any(row["created"] for row in answer.imported),
        vector_status=first.vector_status if first else None,
    )


def list_(runtime: Runtime) -> ListAnswer:
    memories = runtime.store.documents.find(Filter(source=Source.CHAT))
    return ListAnswer(
        outcome=outcome("chats-counted", count=len(memories)),
        advice=() if memories else (advise("import-chats"),),
        memories=tuple(runtime.card(memory) for memory in memories),
        total=len(memories),
    )


def forget(runtime: Runtime, conversation: str) -> DeleteAnswer:
    """Forget one conversation, by its id, its path or its memory's id."""
    if number := memory_id(conversation):
        memory = runtime.store.documents.get(number)
        chat = memory if memory.source is Source.CHAT else None
    else:
        path = chat_path(conversation, scope=runtime.scope)
        chat = runtime.store.documents.get(path=conversation if conversation.startswith(CHAT) else path)
    if chat is None:
        raise MemoryNotFound(f"there is no conversation {conversation}", hint=advise("list-chats"))
    return amend.delete(runtime, DeleteRequest(chat.id))
