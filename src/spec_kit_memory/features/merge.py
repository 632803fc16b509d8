"""How do two memories become one?

The one that stays takes in what only the other one says; the other gives way, superseded by a link. Both files
as they were are in the trash, and one operation tells of both, so that undo can bring both back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from spec_kit_memory import filesystem
from spec_kit_memory.answers import MergeAnswer
from spec_kit_memory.core import document_merge, front_edit, markdown
from spec_kit_memory.core.memory import Document, Memory, Source, Tier
from spec_kit_memory.core.operation import FileChange, Merge
from spec_kit_memory.core.tiers import TABLE
from spec_kit_memory.errors import BadParameter, Invalid, SpecKitMemoryError
from spec_kit_memory.features import freshness, index_workspace
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files import discover, disk, rewrite, trash
from spec_kit_memory.filesystem import Place
from spec_kit_memory.requests import MergeRequest

__all__ = ["Merged", "join", "merge", "obstacle", "text_of"]


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge did."""

    memory: Memory  # the one that stayed, as it is now
    gone: Memory
    trashed: str | None  # where the file of the other one is


def merge(runtime: Runtime, request: MergeRequest) -> MergeAnswer:
    """Join two memories that somebody named: `into` stays and takes in what only the other one says."""
    memory_id, into = request.id, request.into
    done = join(runtime, memory_id=memory_id, into=into)
    index_workspace.embed_memory(runtime, into)
    where = f"; its file is in {done.trashed}" if done.trashed else ""
    return MergeAnswer(
        summary=f"{done.memory.title} (#{into}) takes in and supersedes {done.gone.title} (#{memory_id}){where}",
        hints=("take it back with `undo()`",),
        id=into,
        merged=memory_id,
        memory=runtime.card(done.memory),
        trashed=done.trashed,
    )


def obstacle(old: Memory, new: Memory) -> str:
    """Why these two cannot become one; "" if they can."""
    for memory in (old, new):
        if memory.source is not Source.MEMORY:
            return f"memory {memory.id} comes from {memory.source.value}, and only memory files are merged"
        if memory.tier is Tier.CONSTITUTIONAL:
            return f"memory {memory.id} is a rule, and rules are not merged"
    if old.owner != new.owner:
        return f"memories {old.id} and {new.id} belong to different users"
    return ""


def join(runtime: Runtime, *, memory_id: int, into: int) -> Merged:
    if memory_id == into:
        raise BadParameter(
            f"memory {into} cannot be merged with itself", hint="give the ids of two different memories; `list()`"
        )
    for id_ in (memory_id, into):
        freshness.refresh(runtime, runtime.store.get(id_).path)
    old, new = runtime.store.get(memory_id), runtime.store.get(into)
    problem = obstacle(old, new)
    if problem:
        raise Invalid(problem, hint="nothing was changed")
    place = discover.file_to_change(runtime.settings, new.path)
    with _files_undone(runtime) as files:
        taken_in = Merge(
            merged=memory_id,
            into=into,
            files=files.rewrite(place, new, lambda text: text_of(runtime, text, old=old, new=new)),
        )
        given_way = replace(taken_in, files=files.discard(discover.file_to_change(runtime.settings, old.path), old))
        with runtime.store.together():
            runtime.sync.index_file(place.path, runtime.change(f"took in memory {memory_id}", taken_in))
            runtime.store.merge(memory_id, into, runtime.change(f"merge into {into}", given_way))
    trashed = next((file.trash for file in given_way.files), None)
    return Merged(runtime.store.get(into), old, trashed)


# --- the text ---------------------------------------------------------------------


def text_of(runtime: Runtime, text: str, *, old: Memory, new: Memory) -> str:
    """The text of the memory that stays, with what only the other one says. Line ends stay as they are."""
    ends = "\r\n" if "\r\n" in text else "\n"
    mine, theirs = markdown.parse(text), markdown.parse(runtime.store.text(old.id))
    day = old.attributes.created_at
    origin = f"memory {old.id}, {old.title}" + (f" ({day:%Y-%m-%d})" if day else "")
    merged = document_merge.merge_bodies(mine.text, theirs.text, origin=origin)
    names = {str(new.id), new.path, new.title}
    merged = front_edit.unite_front_matter(merged, theirs.text, self_names=names)
    merged = front_edit.edit_front_matter(merged, _changes(old, new, mine))
    return merged.replace("\n", ends)


def _changes(old: Memory, new: Memory, mine: Document) -> dict[str, Any]:
    """What front matter must say of both: the phrases of both, the higher tier, the later end."""
    changes: dict[str, Any] = {}
    triggers = {phrase.casefold(): phrase for phrase in (*old.attributes.triggers, *mine.front.triggers)}
    added = [phrase for phrase in triggers.values() if phrase not in mine.front.triggers]
    if added:
        changes["triggers"] = [*mine.front.triggers, *added]
    if TABLE[old.tier].boost > TABLE[new.tier].boost:
        changes["tier"] = old.tier.value
    if mine.front.weight is not None and old.attributes.weight > mine.front.weight:
        changes["weight"] = old.attributes.weight
    if mine.front.expires_at is not None:
        end = old.attributes.expires_at
        if end is None:
            changes["expires_at"] = None
        elif end > mine.front.expires_at:
            changes["expires_at"] = end
    return changes


# --- the files --------------------------------------------------------------------


class _Files:
    """The files that a merge touches, each kept as it was."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._back: list[Callable[[], object]] = []

    def rewrite(self, place: Place, memory: Memory, edit: Callable[[str], str]) -> tuple[FileChange, ...]:
        kept: list[Place] = []

        def kept_and_edited(text: str) -> str:
            kept.append(trash.keep(place, settings=self._runtime.settings, at=self._runtime.now()))
            return edit(text)

        written = rewrite.rewrite(place, kept_and_edited)
        if written is None:
            return ()
        copy = trash.as_change(memory.path, kept[-1], settings=self._runtime.settings)
        self._back.append(lambda: disk.write_atomic(place, disk.read_bytes(kept[-1])[0]))
        return (FileChange(memory.path, *written, trash=copy.trash),)

    def discard(self, place: Place, memory: Memory) -> tuple[FileChange, ...]:
        if not filesystem.exists(place):
            return ()
        moved = trash.discard(place, settings=self._runtime.settings, at=self._runtime.now())
        self._back.append(lambda: trash.recall(moved, settings=self._runtime.settings, to=place))
        return (trash.as_change(memory.path, moved, settings=self._runtime.settings),)

    def undo(self) -> None:
        for back in reversed(self._back):
            with suppress(OSError, SpecKitMemoryError):  # the error that led here is the one to tell
                back()


@contextmanager
def _files_undone(runtime: Runtime) -> Iterator[_Files]:
    """A merge that is refused has changed no file."""
    files = _Files(runtime)
    try:
        yield files
    except BaseException:
        files.undo()
        raise
