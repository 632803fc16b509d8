"""What does a data export of ChatGPT or Claude.ai hold? Its conversations as messages in order.

An export is `conversations.json`, or numbered parts of it, in a folder or in the zip file as it was downloaded. A zip
is treated as hostile: none of it is written to disk, only members of that name are read, one conversation at a time,
and the sizes that they declare are checked while they are read.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from spec_kit_memory.core import json_stream
from spec_kit_memory.core.json_stream import MOST_VALUES, TooMuchError
from spec_kit_memory.errors import Invalid, TooLarge

if TYPE_CHECKING:
    import zipfile

LARGEST_FILE = 512 * 1024 * 1024  # bytes, of a zip and of everything read from it
LONGEST_LISTING = 8 * 1024 * 1024  # some 60,000 files
LONGEST_CONVERSATION = 32 * 1024 * 1024
MOST_ELEMENTS = 1_000_000
MOST_EXPANDED = 15  # real conversations compress by a factor of three to eight; each second of reading has to be sent
ALWAYS_EXPANDED = 10 * 1024 * 1024
SMALLEST_MESSAGE = 40  # bytes in a zip: the id and times alone take as much
ALWAYS_MESSAGES = 50_000
SMALLEST_CONVERSATION = 120  # bytes in a zip: a question and an answer of a few words take twice as much
ALWAYS_CONVERSATIONS = 5_000
MOST_CONVERSATIONS = 100_000
MOST_MESSAGES = 100_000  # in one branch; a longer chain is treated as a cycle
_NAME = re.compile(r"(?:[^/\\]{1,200}/){0,3}conversations(?:-\d{1,4})?\.json")
# ChatGPT puts sources, cards and names between these private characters: a kind, then values.
_MARK = re.compile("\ue200([^\ue200\ue201]*)\ue201")
_MARK_SEPARATOR = "\ue202"
_TITLED_MARKS = frozenset(("url", "link_title"))
_NO_MARKS = dict.fromkeys(range(0xE200, 0xE205))
_HINT = "Give the zip file as ChatGPT or Claude.ai sent it, or the conversations.json in it."


class ExportedMessage(NamedTuple):
    """One message of an export."""

    role: object
    content: object
    time: object


# --- the file ---------------------------------------------------------------------


def is_zip(path: Path) -> bool:
    return path.suffix.lower() == ".zip"


def holds_conversations(path: Path) -> bool:
    """Is this zip worth reading? One that is damaged is, so that its reader says so."""
    import zipfile

    try:
        with _ZipFile(path, "rb") as file, zipfile.ZipFile(file) as archive:
            return any(_NAME.fullmatch(name) for name in archive.namelist())
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, ValueError, MemoryError):
        return True


def most_messages(path: Path) -> int:
    """The limit for one export: each message costs time, and a zip can compress thousands to almost nothing."""
    return max(ALWAYS_MESSAGES, path.stat().st_size // SMALLEST_MESSAGE) if is_zip(path) else LARGEST_FILE


def most_conversations(path: Path) -> int:
    """The limit for one export, as for messages: each conversation is a memory with its row and its history."""
    fitting = max(ALWAYS_CONVERSATIONS, path.stat().st_size // SMALLEST_CONVERSATION) if is_zip(path) else LARGEST_FILE
    return min(fitting, MOST_CONVERSATIONS)


def elements(path: Path) -> Iterator[object]:
    """The elements of an export's array, read lazily; for a zip, those of all its parts."""
    source = _in_zip(path) if is_zip(path) else _in_file(path)
    for number, element in enumerate(source, start=1):
        if number > MOST_ELEMENTS:
            raise TooLarge(f"{path} has more than {MOST_ELEMENTS:,} conversations or messages.", hint=_HINT)
        yield element


def _in_file(path: Path) -> Iterator[object]:
    """One element may be nearly the whole file, so its values are limited rather than its length."""
    try:
        with path.open("rb") as file:
            yield from json_stream.elements(file.read, longest=LARGEST_FILE, most_values=MOST_VALUES)
    except TooMuchError as error:
        raise TooLarge(f"{path} cannot be read as an export: {error}.", hint=_HINT) from error


def _in_zip(path: Path) -> Iterator[object]:
    import zipfile

    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise TooLarge(f"{path} is larger than {LARGEST_FILE // 1024**2} MB.", hint=_HINT)
        with _ZipFile(path, "rb") as file, zipfile.ZipFile(file) as archive:
            infos = archive.infolist()
            chosen = sorted((info for info in infos if _NAME.fullmatch(info.filename)), key=lambda info: info.filename)
            if not chosen:
                raise Invalid(f"{path} has no conversations.json in it.", hint=_HINT, path=str(path))
            # One allowance for all members: thousands of small ones are a bomb as well.
            allowance = _Allowance(min(max(ALWAYS_EXPANDED, size * MOST_EXPANDED), LARGEST_FILE))
            for info in chosen:
                yield from _in_member(archive, info, allowance)
    except TooMuchError as error:
        raise TooLarge(f"{path} cannot be read as an export: {error}.", hint=_HINT) from error
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,
        RuntimeError,
        ValueError,
        RecursionError,
    ) as error:
        raise Invalid(f"{path} cannot be read as an export: {error}.", hint=_HINT, path=str(path)) from error
    except MemoryError as error:
        raise TooLarge(f"{path} needs more memory than there is.", hint=_HINT) from error
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror or error}.", hint=_HINT, path=str(path)) from error


class _ZipFile(io.FileIO):
    """A zip with a limited listing, as `zipfile` reads it whole and makes an object of each entry."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > LONGEST_LISTING:
            raise TooMuchError(f"its listing is longer than {LONGEST_LISTING // 1024**2} MB")
        return super().read(size) or b""


class _Allowance:
    """How many more bytes the members may expand to."""

    def __init__(self, left: int) -> None:
        self._left = left

    def taken(self, data: bytes, name: str) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise TooMuchError(f"{name} becomes far larger than it is")
        return data


def _in_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, allowance: _Allowance) -> Iterator[object]:
    if info.compress_type not in (0, 8):  # stored or deflated; other methods can demand any amount of memory
        raise NotImplementedError("it is compressed in a way that exports are not")
    with archive.open(info, mode="r") as file:
        yield from json_stream.elements(
            lambda size: allowance.taken(file.read(size), info.filename),
            longest=LONGEST_CONVERSATION,
            most_values=MOST_VALUES,
        )


def without_companions(files: list[Path]) -> list[Path]:
    """Without the files that accompany conversations in an export (users, feedback, ratings): they hold no messages."""
    exports = {file.parent for file in files if _NAME.fullmatch(file.name)}
    return [
        file
        for file in files
        if file.parent not in exports or file.suffix == ".jsonl" or is_zip(file) or _NAME.fullmatch(file.name)
    ]


def is_conversation(entry: Mapping[str, Any]) -> bool:
    """Is it a whole conversation, and not one message of many?"""
    return isinstance(entry.get("mapping"), dict) or any(
        isinstance(entry.get(name), list) for name in ("chat_messages", "messages")
    )


# --- ChatGPT ----------------------------------------------------------------------


def chatgpt_messages(entry: Mapping[str, Any]) -> Iterator[ExportedMessage]:
    """The branch that was shown last, without the branches of edited messages and regenerated answers."""
    mapping = entry["mapping"]
    for node in reversed(_branch(mapping, entry.get("current_node"))):
        message = node.get("message")
        if not isinstance(message, dict) or _is_hidden(message):
            continue
        author = message.get("author")
        content = message.get("content")
        if isinstance(author, dict) and isinstance(content, dict):
            yield ExportedMessage(author.get("role"), _parts(content), message.get("create_time"))


def _branch(mapping: Mapping[str, Any], current: object) -> list[Mapping[str, Any]]:
    """The nodes from the last one up to the root."""
    nodes = {key: node for key, node in mapping.items() if isinstance(node, dict)}
    at = current if isinstance(current, str) and current in nodes else _newest_leaf(nodes)
    branch: list[Mapping[str, Any]] = []
    seen: set[str] = set()
    while isinstance(at, str) and at in nodes and at not in seen and len(branch) < MOST_MESSAGES:
        seen.add(at)
        branch.append(nodes[at])
        at = nodes[at].get("parent")
    return branch


def _newest_leaf(nodes: Mapping[str, Mapping[str, Any]]) -> str | None:
    parents = {node.get("parent") for node in nodes.values() if isinstance(node.get("parent"), str)}
    leaves = [key for key in nodes if key not in parents] or list(nodes)
    return max(leaves, key=lambda key: (_time(nodes[key]), key), default=None)


def _time(node: Mapping[str, Any]) -> float:
    message = node.get("message")
    time = message.get("create_time") if isinstance(message, dict) else None
    return time if isinstance(time, int | float) and not isinstance(time, bool) and time == time else 0.0


def _is_hidden(message: Mapping[str, Any]) -> bool:
    about = message.get("metadata")
    hidden = isinstance(about, dict) and about.get("is_visually_hidden_from_conversation")
    return bool(hidden) or message.get("recipient") not in (None, "all")


def _parts(content: Mapping[str, Any]) -> list[str]:
    """The texts of a message, spoken ones too, without images, executed code and its output."""
    if content.get("content_type") not in ("text", "multimodal_text", None):
        return []
    parts = content.get("parts")
    texts = [_spoken(part) if isinstance(part, dict) else part for part in parts] if isinstance(parts, list) else []
    return [_MARK.sub(_shown, text).translate(_NO_MARKS) for text in texts if isinstance(text, str)]


def _spoken(part: Mapping[str, Any]) -> object:
    return part.get("text") if part.get("content_type") == "audio_transcription" else None


def _shown(mark: re.Match[str]) -> str:
    """What a reader of ChatGPT sees in place of a mark: a name or the title of a link, otherwise nothing."""
    kind, *values = mark[1].split(_MARK_SEPARATOR)
    if kind in _TITLED_MARKS and values:
        return values[0]
    if kind != "entity" or not values:
        return ""
    with suppress(ValueError, RecursionError):
        about = json_stream.read(values[0])
        if isinstance(about, list) and len(about) > 1 and isinstance(about[1], str):
            return about[1]
    return ""


# --- Claude.ai --------------------------------------------------------------------


def claude_messages(entry: Mapping[str, Any]) -> Iterator[ExportedMessage]:
    messages = [message for message in entry["chat_messages"] if isinstance(message, dict)]
    for message in _last_thread(messages, entry.get("current_leaf_message_uuid")):
        content = message.get("content")
        texts = content if isinstance(content, list) and content else message.get("text")
        yield ExportedMessage(message.get("sender"), texts, message.get("created_at"))


def _last_thread(messages: list[dict[str, Any]], current: object) -> list[dict[str, Any]]:
    """The last thread where messages name their parent, without edited or regenerated ones; otherwise all messages."""
    followed = {message.get("uuid"): message.get("parent_message_uuid") for message in messages if _is_placed(message)}
    if len(followed) < len(messages) or not any(parent in followed for parent in followed.values()):
        return messages
    at = current if isinstance(current, str) and current in followed else messages[-1].get("uuid")
    thread: set[object] = set()
    while at in followed and at not in thread:
        thread.add(at)
        at = followed[at]
    return [message for message in messages if message.get("uuid") in thread]


def _is_placed(message: Mapping[str, Any]) -> bool:
    return all(isinstance(message.get(name), str) for name in ("uuid", "parent_message_uuid"))
