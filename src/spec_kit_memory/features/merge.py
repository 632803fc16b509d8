"""How do two memories become one?

The remaining memory gets the text that only the other one has; a link marks the other as superseded. The original
files of both go to the trash, and one operation records both, so that undo can restore them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from spec_kit_memory.advice import Advice, Text, Value, advise, finding, outcome
from spec_kit_memory.answers import MergeAnswer
from spec_kit_memory.core import document_merge, front_edit, markdown, saved_document, similar
from spec_kit_memory.core.ledger_operations import operation_of
from spec_kit_memory.core.memory import Document, Event, Link, Memory, Origin, Presence, Source, Tier
from spec_kit_memory.core.operation import Merge
from spec_kit_memory.core.tiers import TABLE
from spec_kit_memory.errors import (
    BadParameter,
    DatabaseBusy,
    DatabaseCorrupt,
    DatabaseUnusable,
    Invalid,
    MemoryNotFound,
)
from spec_kit_memory.features import freshness, index_workspace, remarks
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files import file_changes, paths
from spec_kit_memory.requests import MergeRequest


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of a merge."""

    memory: Memory  # the remaining one, after the merge
    gone: Memory
    trashed: str | None  # where the file of the other one is
    remarks: tuple[Text, ...]  # its other tier, and what the two stated differently, both of which the text has now


def merge(runtime: Runtime, request: MergeRequest) -> MergeAnswer:
    """Merge two memories that the caller named: `into` stays and gets the text that only the other one has."""
    memory_id, into = request.id, request.into
    done = join(runtime, memory_id=memory_id, into=into)
    index_workspace.embed_memory(runtime, into)
    names: dict[str, Value] = {"title": done.memory.title, "id": into, "gone": done.gone.title, "gone_id": memory_id}
    return MergeAnswer(
        outcome=outcome("merged-with-file", **names, trashed=done.trashed)
        if done.trashed
        else outcome("merged", **names),
        advice=tuple(
            text for text in (remarks.held_back(runtime, done.memory), *done.remarks, runtime.take_back) if text
        ),
        id=into,
        merged=memory_id,
        memory=runtime.card(done.memory),
        trashed=done.trashed,
    )


def obstacle(old: Memory, new: Memory) -> Text:
    """Why these two cannot become one; "" if they can."""
    for memory in (old, new):
        if memory.source is not Source.MEMORY:
            return finding("merges-memory-files-only", id=memory.id, source=memory.source.value)
        if memory.tier is Tier.CONSTITUTIONAL:
            return finding("rules-are-not-merged", id=memory.id)
    if old.owner != new.owner:
        return finding("memories-of-different-users", id=old.id, other=new.id)
    return ""


def join(runtime: Runtime, *, memory_id: int, into: int) -> Merged:
    if memory_id == into:
        raise BadParameter(f"memory {into} cannot be merged with itself", hint=advise("two-memories"))
    file_changes.settle_dead(runtime.settings, runtime.whole)
    for id_ in (memory_id, into):
        freshness.refresh(runtime, runtime.store.documents.get(id_).path)
    old, new = runtime.store.documents.get(memory_id), runtime.store.documents.get(into)
    problem = obstacle(old, new)
    if problem:
        raise Invalid(str(problem), hint="nothing was changed")
    texts = _own_words(runtime, old.id, new.id)
    with freshness.file_expected():
        trashed = file_changes.retried(lambda: _join(runtime, old=old, new=new))
    merged = runtime.read_again(new)
    both = _both_stated(runtime, texts, old=old, new=new) if texts else ""
    tier = finding("merged-tier", id=new.id, tier=merged.tier.value, before=new.tier.value)
    return Merged(
        merged, old, trashed, tuple(text for text in (tier if merged.tier is not new.tier else "", both) if text)
    )


def statements(runtime: Runtime, old_id: int, new_id: int) -> tuple[Advice, ...]:
    """What two memories state differently, if their texts are otherwise the same."""
    texts = _own_words(runtime, old_id, new_id)
    return tuple(map(_statement, similar.differences(*texts))) if texts else ()


def _own_words(runtime: Runtime, old_id: int, new_id: int) -> tuple[str, str] | None:
    try:
        old, new = (saved_document.own_words(runtime.store.documents.text(id_)) for id_ in (old_id, new_id))
    except MemoryNotFound:  # another process has just deleted one
        return None
    return old, new


def _statement(difference: tuple[str, str]) -> Advice:
    old, new = difference
    return finding("statement-differs", old=old, new=new)


def _both_stated(runtime: Runtime, texts: tuple[str, str], *, old: Memory, new: Memory) -> Text:
    """The differing statements of which the merged text has both: one that continues another takes its place."""
    try:
        text = saved_document.own_words(runtime.store.documents.text(new.id))
    except (DatabaseBusy, DatabaseUnusable, DatabaseCorrupt, MemoryNotFound):
        return ""  # the merge is done, and must not look refused
    stated = similar.differences(*texts) or similar.restated(*texts)
    both = tuple(_statement(pair) for pair in stated if similar.are_both_stated(pair, text))
    return finding("merged-both", id=old.id, differences=both, path=new.path) if both else ""


def _join(runtime: Runtime, *, old: Memory, new: Memory) -> str | None:
    """Change both files and both rows, or none of them; returns where the other memory's file is now."""
    drawer = file_changes.drawer(runtime.now())
    rewritten = file_changes.rewrite(
        runtime.settings,
        new.path,
        lambda text: text_of(runtime, text, old=old, new=new),
        scope=runtime.scope,
        keep_in=drawer,
    )
    discarded = file_changes.discard(runtime.settings, old.path, scope=runtime.scope, to=drawer)
    taken_in = Merge(merged=old.id, into=new.id, files=(rewritten.change,) if rewritten else ())
    given_way = replace(taken_in, files=(discarded.change,) if discarded else ())
    steps = [step for step in (rewritten, discarded) if step is not None]
    with file_changes.applied(
        runtime.settings, runtime.store, taken_in.id, steps, scope=runtime.scope, author=runtime.caller.user
    ):
        path = paths.absolute(runtime.settings, new.path)
        runtime.sync.index_file(path, runtime.change(f"took in memory {old.id}", taken_in))
        links = _taken_over(runtime, old.id, new.id)
        runtime.store.documents.forget(old.id, runtime.change(f"merge into {new.id}", given_way), into=new.id)
        for link in links:
            change = runtime.change(f"took over a link of memory {old.id}", replace(taken_in, files=()))
            runtime.store.record.put_link(link, change)
    return discarded.trash if discarded else None


def merged_into(runtime: Runtime, memory_id: int) -> Memory | None:
    """The live memory that contains the text of a merged one, followed through later merges.

    None if the memory was not merged, or if the caller may not see one on the way.
    """
    met: set[int] = set()
    while memory_id not in met:
        met.add(memory_id)
        try:
            memory = runtime.store.documents.get(memory_id, any_presence=True)
        except MemoryNotFound:
            return None
        if memory.presence is Presence.LIVE:
            return memory if len(met) > 1 else None
        into = _merged_into(runtime, memory_id)
        if into is None:
            return None
        memory_id = into
    return None


def former(runtime: Runtime, memory_id: int) -> Memory | None:
    """The memory that has this id and is not live, as far as the caller may know."""
    with suppress(MemoryNotFound):
        memory = runtime.store.documents.get(memory_id, any_presence=True)
        return None if memory.presence is Presence.LIVE else memory
    return None


def _merged_into(runtime: Runtime, memory_id: int) -> int | None:
    """The id of the memory that a deleted one was merged into; None if it was deleted otherwise."""
    rows = runtime.store.record.history(memory_id)
    last = next((row for row in rows if row.event is Event.DELETE and row.ledger_sequence is not None), None)
    if last is None or last.ledger_sequence is None:
        return None
    entry = next(runtime.whole.record.ledger(after=last.ledger_sequence - 1, limit=1), None)
    done = operation_of(entry, last.before) if entry else None
    return done.into if isinstance(done, Merge) and done.merged == memory_id else None


def _taken_over(runtime: Runtime, old: int, new: int) -> list[Link]:
    """The links made by hand to or from the old memory, as links of the remaining one."""
    have = {link.key for link in runtime.store.record.links([new])}
    moved = {}
    for link in runtime.store.record.links([old]):
        ends = {name: new if end == old else end for name, end in (("s", link.source_id), ("t", link.target_id))}
        here = replace(link, id=0, source_id=ends["s"], target_id=ends["t"])
        if link.origin is Origin.HAND and here.source_id != here.target_id and here.key not in have:
            moved[here.key] = here
    return list(moved.values())


# --- the text ---------------------------------------------------------------------


def text_of(runtime: Runtime, text: str, *, old: Memory, new: Memory) -> str:
    """The text of the remaining memory, with what only the other one says. Line ends stay as they are."""
    ends = "\r\n" if "\r\n" in text else "\n"
    new_document, old_document = markdown.parse(text), markdown.parse(runtime.store.documents.text(old.id))
    day = old.attributes.created_at
    origin = f"memory {old.id}, {old.title}" + (f" ({day:%Y-%m-%d})" if day else "")
    merged = document_merge.merge_bodies(new_document.text, old_document.text, origin=origin)
    names = {str(new.id), new.path, new.title}
    merged = front_edit.unite_front_matter(merged, old_document.text, self_names=names)
    merged = front_edit.edit_front_matter(merged, _changes(old, new, new_document, old_document))
    return merged.replace("\n", ends)


def _changes(old: Memory, new: Memory, new_document: Document, old_document: Document) -> dict[str, Any]:
    """The merged front matter: the phrases and questions of both, the higher tier, the later expiry."""
    changes: dict[str, Any] = {}
    triggers = {phrase.casefold(): phrase for phrase in (*old.attributes.triggers, *new_document.front.triggers)}
    added = [phrase for phrase in triggers.values() if phrase not in new_document.front.triggers]
    if added:
        changes["triggers"] = [*new_document.front.triggers, *added]
    questions = {
        text.casefold(): text for text in reversed((*new_document.front.questions, *old_document.front.questions))
    }
    if len(questions) > len(new_document.front.questions):
        changes["questions"] = list(reversed(questions.values()))
    if TABLE[old.tier].boost > TABLE[new.tier].boost:
        changes["tier"] = old.tier.value
    if new_document.front.weight is not None and old.attributes.weight > new_document.front.weight:
        changes["weight"] = old.attributes.weight
    if new_document.front.expires_at is not None:
        end = old.attributes.expires_at
        if end is None:
            changes["expires_at"] = None
        elif end > new_document.front.expires_at:
            changes["expires_at"] = end
    return changes
