"""Which conversations does a transcript hold, and who said what when?

Claude Code and Codex transcripts, OpenCode exports, data exports of ChatGPT and Claude.ai (`chat_exports`), and plain
JSON lines of role, content and timestamp, distinguished by their content, never by their names. Files are read line by
line, exports conversation by conversation. Messages that are not part of the dialogue (tools,
reminders, thinking, side agents) are left out; an unreadable line is counted and reading continues.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from spec_kit_memory.core import dates, json_stream, noise
from spec_kit_memory.core.memory import Conversation, Turn
from spec_kit_memory.errors import AccessDenied, BadEncoding, BadPath, FileMissing, Invalid, TooLarge
from spec_kit_memory.files import chat_exports

LONGEST_LINE = 64 * 1024 * 1024
MOST_TURNS = 1_000_000  # of the conversations that are collected from lines
TITLE_LENGTH = 90
_SPEAKERS = {"human": "user", "ai": "assistant", "model": "assistant", "bot": "assistant"}
_IGNORED = frozenset({"system", "developer", "tool", "function", "tool_result", "thinking"})
_CODEX = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_CLAUDE_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
_TEXT_BLOCKS = frozenset({"text", "input_text", "output_text"})
_SAFE_ID = re.compile(r"[\w.-]{1,120}", re.ASCII)
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Transcript:
    """The conversations of one file. `bad_lines` are the numbers of lines that could not be read.

    Each iteration reads the conversations of an export again, as together they may be larger than memory.
    """

    conversations: Iterable[Conversation]
    bad_lines: tuple[int, ...] = ()


def read_conversations(path: Path) -> list[Conversation]:
    """The conversations in a file; one that grew keeps its id."""
    return list(read_transcript(path).conversations)


def read_transcript(path: Path, *, noise_patterns: tuple[str, ...] = (), now: datetime | None = None) -> Transcript:
    """The conversations in a file, and which of its lines could not be read. Times later than `now` are not believed.

    An unreadable file is refused here, before the first conversation is returned.
    """
    how = _ReadOptions(path.name, noise_patterns, now or datetime.now(UTC))
    if chat_exports.is_zip(path) and path.is_file():
        return _export(path, how)
    collected = _Collected(how)
    bad: list[int] = []
    number = 0
    for number, line in _lines(path):
        opening_mark = line.lstrip()[:1] if number == 1 else ""
        value = None if opening_mark == "[" else _decoded(line)
        if value is None and opening_mark in ("{", "["):
            with suppress(ValueError, RecursionError):  # otherwise it is read as lines
                return _export(path, how)
            value = _decoded(line)
        if not collected.take(value):
            bad.append(number)
    if not collected.understood:
        raise Invalid(_nothing_found(path, number, bad), hint=_HINT, path=str(path))
    return Transcript(tuple(collected.conversations()), tuple(bad))


def _decoded(line: str) -> object:
    """The value of a line; None if it is not JSON or has too many values."""
    try:
        return json_stream.read(line)
    except (ValueError, RecursionError):
        return None


def _export(path: Path, how: _ReadOptions) -> Transcript:
    conversations = _Exported(path, how)
    for _ in conversations:  # raises here if any of it cannot be read
        pass
    return Transcript(conversations)


_HINT = (
    "Give a Claude Code or Codex .jsonl, an OpenCode export, a data export of ChatGPT or Claude.ai, "
    "or lines of {role, content, timestamp}."
)


def _nothing_found(path: Path, lines: int, bad: list[int]) -> str:
    if not lines:
        return f"{path} is empty: there is no conversation in it."
    return f"{path} is no transcript: line {bad[0] if bad else 1} is nothing that was said."


def transcripts_in(path: Path) -> list[Path]:
    """The file itself, or every .jsonl and .json file and every zip of an export below a folder, in order."""
    try:
        os.stat(path)
    except ValueError as error:  # a NUL byte or a lone surrogate
        raise BadPath(f"{str(path)!r} is no path: {error}.", hint="Check the path of the transcript.") from None
    except OSError:
        return [path]  # reading it raises the error
    if not path.is_dir():
        return [path]
    # Links out of the folder are not followed: the folder may belong to a repository.
    real = Path(os.path.realpath(path))
    files = [
        file
        for file in path.rglob("*")
        if (file.suffix in (".jsonl", ".json") or chat_exports.is_zip(file))
        and file.is_file()
        and (not file.is_symlink() or Path(os.path.realpath(file)).is_relative_to(real))
    ]
    return sorted(file for file in chat_exports.without_companions(files) if _may_hold_conversations(file))


def _may_hold_conversations(file: Path) -> bool:
    return not chat_exports.is_zip(file) or chat_exports.holds_conversations(file)


# --- the file ---------------------------------------------------------------------


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers; undecodable ones as text that is not JSON."""
    try:
        if not (path.is_dir() or stat.S_ISREG(path.stat().st_mode)):  # reading a pipe would block
            raise BadPath(f"{path} is not a regular file.", hint=_HINT)
        with path.open("rb") as file:
            if file.read(2) in (b"\xff\xfe", b"\xfe\xff"):
                yield from _utf16_lines(path)
                return
            file.seek(0)
            number = 0
            while raw := file.readline(LONGEST_LINE):
                number += 1
                if number == 1:
                    raw = raw.removeprefix(b"\xef\xbb\xbf")
                    if b"\x00" in raw[:4096]:
                        raise BadEncoding(f"{path} is not text.", hint=_HINT)
                if len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
                    _skip_line(file)
                    yield number, f"{raw.lstrip()[:1].decode('utf-8', 'replace')}(too long)"  # perhaps an export
                elif raw.strip():
                    yield number, raw.decode("utf-8", errors="surrogateescape")
    except FileNotFoundError:
        raise FileMissing(f"There is no file {path}.", hint="Check the path of the transcript.") from None
    except OSError as error:
        raise AccessDenied(f"{path} cannot be read: {error.strerror}.", hint="Name a file you may read.") from None


def _skip_line(file: Any) -> None:
    while rest := file.readline(LONGEST_LINE):
        if rest.endswith(b"\n"):
            return


def _utf16_lines(path: Path) -> Iterator[tuple[int, str]]:
    with path.open(encoding="utf-16", newline="\n") as file:
        try:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
        except UnicodeError:
            raise BadEncoding(f"{path} is not UTF-16 text.", hint=_HINT) from None


# --- messages ------------------------------------------------------------------------


class _TurnDraft(NamedTuple):
    """One turn while its parts are read; a host may record a message in many."""

    speaker: str
    texts: list[str]
    time: str

    def turn(self) -> Turn:
        return Turn(self.speaker, "\n\n".join(self.texts), self.time)


@dataclass(slots=True)
class _ConversationDraft:
    """One conversation while its lines are read."""

    id: str
    origin: str
    title: str = ""
    turns: list[_TurnDraft] = field(default_factory=list)
    events: list[_TurnDraft] = field(default_factory=list)  # Codex records all twice; used if the others are missing
    uuids: set[str] = field(default_factory=set)
    last_message: str = ""  # id of the message the last turn belongs to


class _ReadOptions(NamedTuple):
    """Options that apply to everything read from one file."""

    name: str
    noise_patterns: tuple[str, ...]
    now: datetime


@dataclass(frozen=True, slots=True)
class _Exported:
    """The conversations of an export, read again on each iteration, one in memory at a time."""

    path: Path
    how: _ReadOptions

    def __iter__(self) -> Iterator[Conversation]:
        messages = _Collected(self.how)  # single messages belong to one conversation
        understood = False
        count = turns = 0
        most, most_conversations = chat_exports.most_messages(self.path), chat_exports.most_conversations(self.path)
        for element in chat_exports.elements(self.path):
            if isinstance(element, dict) and chat_exports.is_conversation(element):
                count += 1
                if count > most_conversations:
                    raise TooLarge(f"{self.path} has more than {most_conversations:,} conversations.", hint=_HINT)
                collected = _Collected(self.how)
                understood = collected.take(element) or understood
                turns += collected.turns
                if turns > most:
                    raise TooLarge(f"{self.path} has more messages in it than fit into its size.", hint=_HINT)
                yield from collected.conversations()
            elif not chat_exports.is_zip(self.path):
                messages.take(element)
        yield from messages.conversations()
        if not (understood or messages.understood):
            raise Invalid(f"{self.path} is no transcript: nothing in it was said.", hint=_HINT, path=str(self.path))


class _Collected:
    def __init__(self, how: _ReadOptions) -> None:
        self.understood = False
        self._name = how.name
        self._noise = how.noise_patterns
        self._now = how.now
        self.turns = 0
        self._titles_read = 0
        self._found: dict[str, _ConversationDraft] = {}
        self._codex_id = ""
        self._titles: dict[str, tuple[int, str]] = {}  # id of a conversation or a message -> place, title

    def take(self, value: object) -> bool:
        """Add one JSON value; False if its kind is unknown."""
        entries = value if isinstance(value, list) else [value]
        understood = [self._dispatch(entry) for entry in entries if isinstance(entry, dict)]
        self.understood = self.understood or any(understood)
        return any(understood)

    def _dispatch(self, entry: dict[str, Any]) -> bool:
        kind = entry["type"] if isinstance(entry.get("type"), str) else None
        if kind in _CODEX and isinstance(entry.get("payload"), dict):
            return self._codex(kind, entry["payload"], entry)
        if isinstance(entry.get("mapping"), dict):
            return self._export_of("chatgpt", entry, chat_exports.chatgpt_messages(entry))
        if isinstance(entry.get("chat_messages"), list):
            return self._export_of("claude.ai", entry, chat_exports.claude_messages(entry))
        if isinstance(entry.get("messages"), list):
            return self._export(entry)
        if kind in _CLAUDE_TITLES and _CLAUDE_TITLES[kind] in entry and "role" not in entry:
            return self._claude_title(kind, entry)
        if isinstance(kind, str) and "role" not in entry and {"sessionId", "uuid", "snapshot"} & entry.keys():
            return self._claude(kind, entry)
        if self._codex_id and (kind is None or "role" not in entry):
            return isinstance(kind, str) or "record_type" in entry
        if kind is None and {"id", "timestamp"} <= entry.keys() and {"instructions", "git"} & entry.keys():
            return self._codex("session_meta", entry, entry)
        return self._plain(entry)

    def _gathered(self, identifier: str, origin: str) -> _ConversationDraft:
        return self._found.setdefault(identifier, _ConversationDraft(_safe(identifier), origin))

    # --- Claude Code

    def _claude(self, kind: str, entry: dict[str, Any]) -> bool:
        if kind not in ("user", "assistant") or entry.get("isSidechain") or entry.get("isMeta"):
            return True
        if entry.get("isCompactSummary"):
            return True
        message = entry.get("message")
        if not isinstance(message, dict):
            return False
        gathered = self._gathered(str(entry.get("sessionId") or self._name), "claude-code")
        uuid = str(entry.get("uuid") or "")
        if uuid and uuid in gathered.uuids:
            return True
        gathered.uuids.add(uuid)
        self._add_message(
            gathered, kind, message.get("content"), entry.get("timestamp"), message_id=str(message.get("id") or "")
        )
        return True

    def _claude_title(self, kind: str, entry: dict[str, Any]) -> bool:
        title = entry[_CLAUDE_TITLES[kind]]
        if isinstance(title, str):
            # A summary belongs to the conversation that contains its leaf; a file may hold summaries of others too.
            about = str(entry.get("sessionId") or entry.get("leafUuid") or "")
            self._titles[about] = self._titles_read, title
            self._titles_read += 1
        return isinstance(title, str)

    # --- Codex

    def _codex(self, kind: str, payload: dict[str, Any], entry: dict[str, Any]) -> bool:
        if kind == "session_meta":
            # A forked session begins with a copy of its parent, so only the first id is that of the file.
            self._codex_id = self._codex_id or str(payload.get("id") or payload.get("session_id") or "")
            return True
        gathered = self._gathered(self._codex_id or self._name, "codex")
        if kind == "response_item" and payload.get("type") == "message":
            self._add_message(gathered, payload.get("role"), payload.get("content"), entry.get("timestamp"))
        elif kind == "event_msg" and payload.get("type") in ("user_message", "agent_message"):
            role = "user" if payload["type"] == "user_message" else "assistant"
            self._add_message(gathered, role, payload.get("message"), entry.get("timestamp"), into=gathered.events)
        return True

    # --- data exports

    def _export_of(self, origin: str, entry: dict[str, Any], messages: Iterator[chat_exports.ExportedMessage]) -> bool:
        conversation_id = next(
            (entry[key] for key in ("conversation_id", "id", "uuid") if isinstance(entry.get(key), str)), ""
        )
        gathered = self._gathered(str(conversation_id) or f"{self._name}#{len(self._found)}", origin)
        title = next((entry[key] for key in ("title", "name") if isinstance(entry.get(key), str)), "")
        gathered.title = str(title)
        for message in messages:
            self._add_message(gathered, message.role, message.content, message.time)
        if not conversation_id and gathered.turns:
            gathered.id = _own_id(self._name, gathered.turns[0].turn())
        return True

    # --- OpenCode and other exports of a whole conversation

    def _export(self, entry: dict[str, Any]) -> bool:
        about = entry["info"] if isinstance(entry.get("info"), dict) else entry
        opencode = any(isinstance(message, dict) and "parts" in message for message in entry["messages"])
        identifier = next((str(about[key]) for key in ("id", "session_id", "conversation_id") if about.get(key)), "")
        key = identifier or f"{self._name}#{len(self._found)}"
        gathered = self._gathered(key, "opencode" if opencode else "jsonl")
        gathered.title = str(about.get("title") or "")
        before = len(gathered.turns)
        for message in entry["messages"]:
            if not isinstance(message, dict):
                continue
            info = message["info"] if isinstance(message.get("info"), dict) else message
            content = message.get("parts") if opencode else _first_of(message, _TEXT)
            self._add_message(gathered, _first_of(info, _ROLE), content, _first_of(info, _TIME))
        if not identifier and len(gathered.turns) > before:
            gathered.id = _own_id(self._name, gathered.turns[0].turn())
        return opencode or bool(identifier) or len(gathered.turns) > before

    # --- plain lines

    def _plain(self, entry: Mapping[str, Any]) -> bool:
        role, content = _first_of(entry, _ROLE), _first_of(entry, _TEXT)
        if not isinstance(role, str) or not isinstance(content, str | list | None) or not (_TEXT & entry.keys()):
            return False
        conversation_id = _first_of(entry, _CONVERSATION)
        identifier = self._codex_id or (str(conversation_id) if isinstance(conversation_id, str | int) else "")
        gathered = self._gathered(identifier, "codex" if self._codex_id else "jsonl")
        self._add_message(gathered, role, content, _first_of(entry, _TIME))
        if not gathered.id and gathered.turns:
            gathered.id = _own_id(self._name, gathered.turns[0].turn())
        return True

    # ---

    def _add_message(
        self,
        gathered: _ConversationDraft,
        role: object,
        content: object,
        time: object,
        *,
        message_id: str = "",
        into: list[_TurnDraft] | None = None,
    ) -> None:
        speaker = str(role or "").casefold()
        text = _text_of(content)
        if not speaker or speaker in _IGNORED or _instructions(text):
            return
        text = noise.cleaned(_printable(text), patterns=self._noise)
        if not text:
            return
        turns = gathered.turns if into is None else into
        if message_id and message_id == gathered.last_message and turns:
            turns[-1].texts.append(text)
        else:
            self.turns += 1
            if self.turns > MOST_TURNS:
                raise TooLarge(f"{self._name} has more than {MOST_TURNS:,} messages.", hint=_HINT)
            turns.append(_TurnDraft(_SPEAKERS.get(speaker, " ".join(str(role).split())), [text], _time_text(time)))
        gathered.last_message = message_id

    def conversations(self) -> Iterator[Conversation]:
        for key, gathered in self._found.items():
            turns = tuple(draft.turn() for draft in gathered.turns or gathered.events)
            if not turns:
                continue
            abouts = (key, *gathered.uuids) if self._titles else ()
            _, title = max((self._titles[about] for about in abouts if about in self._titles), default=(0, ""))
            moments = (_moment(turn.time) for turn in turns)
            times = [at for at in moments if at is not None and not dates.is_in_future(at, now=self._now)]
            yield Conversation(
                id=gathered.id,
                title=_one_line(title or gathered.title or opening(turns)),
                turns=turns,
                started_at=min(times, default=None),
                ended_at=max(times, default=None),
                origin=gathered.origin,
            )


_ROLE = frozenset({"role", "speaker", "author", "from", "sender"})
_TEXT = frozenset({"content", "text", "message", "body"})
_TIME = frozenset({"timestamp", "time", "created_at", "createdAt", "date", "ts"})
_CONVERSATION = frozenset(
    {"conversation", "conversation_id", "conversationId", "session", "session_id", "sessionId", "thread", "thread_id"}
)


def _first_of(entry: Mapping[str, Any], names: frozenset[str]) -> Any:
    return next((value for name, value in entry.items() if name in names and value is not None), None)


def _text_of(content: object) -> str:
    """The texts of a message: a string, or the text blocks of a list; tools, images, thinking are not text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = []
    for block in content:
        if isinstance(block, str):
            texts.append(block)
        elif isinstance(block, dict) and str(block.get("type")) in _TEXT_BLOCKS and not block.get("synthetic"):
            texts.append(block["text"] if isinstance(block.get("text"), str) else "")
    return "\n\n".join(text for text in texts if text.strip())


def _instructions(text: str) -> bool:
    """Are these a host's standing instructions? Hosts send them first, as if the user had written them."""
    return text.startswith(("# AGENTS.md instructions", "<INSTRUCTIONS>", "<user_instructions>"))


def _printable(text: str) -> str:
    return _SURROGATES.sub("\ufffd", _UNPRINTABLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))


def _safe(identifier: str) -> str:
    """An id that is safe in a path; an unsafe one is replaced by its hash."""
    if not identifier or _SAFE_ID.fullmatch(identifier):
        return identifier
    return hashlib.sha256(identifier.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _own_id(name: str, first: Turn) -> str:
    """An id that stays the same while the conversation grows: it depends on the beginning alone."""
    identity = json.dumps([name, first.speaker, first.text, first.time])
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def _time_text(time: object) -> str:
    if isinstance(time, dict):
        time = time.get("created") or time.get("start")
    if isinstance(time, int | float) and not isinstance(time, bool):
        moment = _from_epoch(time)
        return moment.isoformat(timespec="seconds") if moment else ""
    return _printable(time).strip()[:64] if isinstance(time, str) else ""


def _from_epoch(seconds: float) -> datetime | None:
    try:
        if seconds > 1e11:  # milliseconds
            seconds /= 1000
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return _from_epoch(float(text)) if re.fullmatch(r"\d{9,13}(\.\d+)?", text) else None
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:  # the first or last representable day, in another time zone
        return None


def opening(turns: tuple[Turn, ...]) -> str:
    """The title of a conversation that has none: the user's first line."""
    first_text = next((turn.text for turn in turns if turn.speaker == "user"), turns[0].text)
    return next(
        (line.strip(" #*>-\t") for line in first_text.split("\n") if any(map(str.isalnum, line))), "Conversation"
    )


def _one_line(text: str) -> str:
    return " ".join(_printable(text).split())


def short_title(text: str) -> str:
    """A title as it is stored. It is cut only after redaction: half of a secret would not be recognised."""
    text = _one_line(text)
    if len(text) <= TITLE_LENGTH:
        return text
    return f"{text[: TITLE_LENGTH - 1].rsplit(' ', 1)[0]}…"
