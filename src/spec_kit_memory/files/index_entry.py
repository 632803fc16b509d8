"""What goes into the index for a file or a conversation?

The only way into the index: read -> redact -> parse -> split -> resolve. Every caller (scan, watcher, save,
import) makes its entries here, so that none forgets a step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from urllib.parse import quote

from spec_kit_memory.advice import finding
from spec_kit_memory.core import dates, decay, markdown, passages, phrases, redact
from spec_kit_memory.core.folders import clean_folder
from spec_kit_memory.core.memory import (
    CHAT,
    Attributes,
    Conversation,
    Document,
    DocumentWarning,
    Entry,
    FrontMatter,
    Passage,
    Scope,
    Source,
    Stamp,
    Tier,
    file_time,
)
from spec_kit_memory.core.tiers import TABLE
from spec_kit_memory.files import chat_transcripts
from spec_kit_memory.files.discover import MemoryFile
from spec_kit_memory.files.disk import FileText
from spec_kit_memory.settings import Settings

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A file's text without its secrets, parsed and split: all that can be done without the index."""

    document: Document
    passages: tuple[Passage, ...]
    raw_hash: str
    content_hash: str
    fingerprint: str
    stamp: Stamp
    secrets: Mapping[str, int]  # kind -> how many were left out


def parse(file: FileText, *, scanned: str | None = None) -> Parsed:
    """`scanned` is a text known to be free of secrets: if the file still has it, it is not scanned again."""
    clean = redact.Redacted(file.text, {}) if file.text == scanned else redact.redact(file.text)
    document = markdown.parse(clean.text)
    return Parsed(
        document=document,
        passages=passages.split(document),
        raw_hash=file.raw_hash,
        content_hash=hashlib.sha256(document.text.encode()).hexdigest(),
        fingerprint=markdown.fingerprint(document),
        stamp=file.stamp,
        secrets=clean.counts,
    )


def make_entry(
    file: MemoryFile,
    parsed: Parsed,
    *,
    settings: Settings,
    trusted: bool | None = None,
    known_since: datetime | None = None,
) -> Entry:
    """A file's entry. `trusted` is what a person decided; None leaves it to its source.

    A file without a date of its own has the time of its file, or `known_since` if that is earlier: writing to
    a file or checking it out again does not make its memory a new one.
    """
    believed = file.source.vouched if trusted is None else trusted
    document = parsed.document
    seen_at, modified_at = _moment(parsed.stamp.seen_ns), _moment(parsed.stamp.mtime_ns)
    if dates.is_in_future(modified_at, now=seen_at):
        modified_at = seen_at
    attributes, warnings = resolve(
        document.front,
        file,
        settings,
        title=document.title or PurePosixPath(file.path).stem,
        modified_at=min(modified_at, known_since) if known_since else modified_at,
        trusted=believed,
        now=seen_at,
    )
    redactions = sum(parsed.secrets.values())
    if redactions:
        warnings = (
            *warnings,
            DocumentWarning(
                finding("secrets-left-out", count=redactions, kinds=tuple(sorted(parsed.secrets))), code="secret"
            ),
        )
    if warnings:
        document = replace(document, warnings=(*document.warnings, *warnings))
    return Entry(
        path=file.path,
        source=file.source,
        spec_folder=_folder(document.front, file, trusted=believed),
        attributes=attributes,
        document=document,
        passages=parsed.passages,
        raw_hash=parsed.raw_hash,
        content_hash=parsed.content_hash,
        fingerprint=parsed.fingerprint,
        stamp=parsed.stamp,
        archived_folder=file.archived_folder,
        owner=file.owner,
        trusted=believed,
        redactions=redactions,
    )


def _folder(front: FrontMatter, file: MemoryFile, *, trusted: bool) -> str | None:
    """The spec folder: the path decides; front matter only where the path does not."""
    if file.spec_folder is not None or front.spec_folder is None or not trusted or file.owner is not None:
        return file.spec_folder
    name = clean_folder(front.spec_folder)
    return name if file.source is Source.MEMORY and name else None


def resolve(
    front: FrontMatter,
    file: MemoryFile,
    settings: Settings,
    *,
    title: str,
    modified_at: datetime,
    trusted: bool,
    now: datetime,
) -> tuple[Attributes, tuple[DocumentWarning, ...]]:
    """The effective metadata after all rules, and warnings about values of the file that were not accepted."""
    tier, warnings = _tier(front, file, settings, trusted=trusted)
    if front.triggers and not trusted:
        warnings = (*warnings, DocumentWarning(finding("phrases-ignored"), code="trust"))
    else:
        warnings = (
            *warnings,
            *(DocumentWarning(message, code="trigger") for message in phrases.phrase_warnings(front.triggers)),
        )
    claimed_at = front.created_at
    if claimed_at is not None and dates.is_in_future(claimed_at, now=now):
        message = finding("date-to-come", date=f"{claimed_at:%Y-%m-%d}")
        warnings, claimed_at = (*warnings, DocumentWarning(message, code="date")), None
    # To the second, as in front matter: of two from the same second, the one saved later is newer.
    created_at = claimed_at.replace(microsecond=0) if claimed_at else file_time(modified_at)
    attributes = Attributes(
        title=title,
        tier=tier,
        weight=TABLE[tier].weight if front.weight is None else front.weight,
        context_type=front.context_type or settings.default_context_type,
        triggers=front.triggers if trusted else (),
        created_at=created_at,
        expires_at=front.expires_at or decay.expiry(tier, created_at),
        session_id=front.session_id,
        channel=front.channel,
    )
    return attributes, warnings


def _tier(
    front: FrontMatter, file: MemoryFile, settings: Settings, *, trusted: bool
) -> tuple[Tier, tuple[DocumentWarning, ...]]:
    if file.source is Source.CONSTITUTIONAL:
        return Tier.CONSTITUTIONAL, ()
    usual = file.default_tier or settings.default_tier
    if usual is Tier.CONSTITUTIONAL:
        usual = Tier.NORMAL  # a default cannot make rules
    if front.tier is Tier.CONSTITUTIONAL and not trusted:
        warning = DocumentWarning(finding("tier-ignored"), code="trust")
        return usual, (warning,)
    return front.tier or usual, ()


def _moment(time_ns: int) -> datetime:
    return _EPOCH + timedelta(microseconds=time_ns // 1000)


def chat_path(conversation_id: str, *, scope: Scope) -> str:
    """The path of a conversation; users who import the same one have separate paths."""
    project, user = scope.project, scope.user
    parts = (
        f"projects/{quote(project, safe='')}/" if project else "",
        f"users/{quote(user, safe='')}/" if user else "",
    )
    return f"{CHAT}{''.join(parts)}{redact.kept_id(conversation_id)}"


def make_chat_entry(
    conversation: Conversation, *, settings: Settings, scope: Scope, now: datetime, trusted: bool = False
) -> Entry:
    """A conversation's entry: its turns are the passages, its owner and project are those of the importing session."""
    clean, redactions = _redacted(conversation)
    text, turns = passages.turns(clean)
    document = Document(text=text, title=clean.title, front=FrontMatter(), body_first_line=1)
    file = MemoryFile(chat_path(conversation.id, scope=scope), "", Source.CHAT)
    attributes, _ = resolve(
        document.front,
        file,
        settings,
        title=clean.title or conversation.id,
        modified_at=conversation.ended_at or conversation.started_at or now,
        trusted=trusted,
        now=now,
    )
    data = text.encode()
    digest = hashlib.sha256(data).hexdigest()
    return Entry(
        path=file.path,
        source=Source.CHAT,
        spec_folder=None,
        attributes=attributes,
        document=document,
        passages=turns,
        raw_hash=digest,
        content_hash=digest,
        fingerprint=markdown.fingerprint(document),
        stamp=Stamp(len(data), 0, int(now.timestamp() * 1e9)),
        owner=scope.user,
        project=scope.project,
        trusted=trusted,
        redactions=redactions,
    )


def _redacted(conversation: Conversation) -> tuple[Conversation, int]:
    """The conversation without secrets, and their number. Done before any text is cut, split, hashed or stored."""
    turns = [(turn, redact.redact(turn.text)) for turn in conversation.turns]
    spoken = tuple(
        replace(turn, text=clean.text, speaker=redact.kept_id(turn.speaker), time=redact.redact(turn.time).text)
        for turn, clean in turns
    )
    count = sum(sum(clean.counts.values()) for _, clean in turns)
    if conversation.turns and conversation.title == chat_transcripts.opening(conversation.turns):
        title = chat_transcripts.opening(spoken)
    else:
        clean_title = redact.redact(conversation.title)
        title, count = clean_title.text, count + sum(clean_title.counts.values())
    title = chat_transcripts.short_title(title)
    return replace(conversation, id=redact.kept_id(conversation.id), title=title, turns=spoken), count
