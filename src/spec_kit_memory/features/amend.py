"""How does a memory change after it was written? update, delete, trust.

A change is written to the file where possible, so that it survives a rebuild; for a memory
without a writable file it is kept in the database. A deleted memory is forgotten, not erased.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from spec_kit_memory import filesystem
from spec_kit_memory.advice import Advice, Text, advise, finding, outcome
from spec_kit_memory.answers import DeleteAnswer, UpdateAnswer
from spec_kit_memory.core import front_edit, markdown, operation, redact
from spec_kit_memory.core.folders import clean_folder
from spec_kit_memory.core.memory import ContextType, Filter, Memory, Source, Tier
from spec_kit_memory.core.phrases import phrase_warnings
from spec_kit_memory.core.wording import counted, spoken_name
from spec_kit_memory.errors import (
    AccessDenied,
    BadParameter,
    Invalid,
    MemoryNotFound,
    MissingParameter,
)
from spec_kit_memory.features import file_restore, freshness, remarks
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files import discover, disk, file_changes, paths
from spec_kit_memory.files.file_errors import is_read_only
from spec_kit_memory.requests import DeleteRequest, TrustRequest, UpdateRequest

# Files of these sources are the user's project: metadata is written into them.
_WRITTEN = (Source.MEMORY, Source.CONSTITUTIONAL, Source.SPEC)


def update(runtime: Runtime, request: UpdateRequest, *, part_of: operation.Operation | None = None) -> UpdateAnswer:
    """Change only the given fields; `part_of` is the operation that it belongs to, and is undone with."""
    memory_id = request.id
    file_changes.settle_dead(runtime.settings, runtime.whole)
    freshness.refresh(runtime, runtime.store.documents.get(memory_id).path)
    memory = runtime.store.documents.get(memory_id)
    new_values: dict[str, Any] = {
        "title": " ".join(redact.redact(request.title).text.split()) if request.title is not None else None,
        "triggers": _new_phrases(memory, request),
        "weight": request.importance_weight,
        "tier": request.importance_tier,
        "context_type": request.context_type,
    }
    changes = {key: value for key, value in new_values.items() if value is not None}
    runtime.require_right_to_rule((tier, memory.path) for tier in (memory.tier, request.importance_tier))
    _check(memory, changes, confirm=request.confirm)
    if _has_values_already(runtime, memory, changes):
        return UpdateAnswer(
            outcome=outcome("updated-already", title=memory.title, id=memory_id),
            advice=tuple(phrase_warnings(changes.get("triggers", ()))),
            memory=runtime.card(memory),
            changed=(),
            written_to="nothing",
        )
    place = apply(runtime, memory, changes, operation_id=part_of.id if part_of else operation.new_id())
    after = runtime.read_again(replace(memory, attributes=replace(memory.attributes, **changes)))
    reason = remarks.held_back(runtime, after)
    return UpdateAnswer(
        outcome=outcome(
            "updated", title=after.title, id=memory_id, keys=tuple(map(spoken_name, sorted(changes))), place=place
        ),
        advice=(*([reason] if reason else []), runtime.take_back, *phrase_warnings(changes.get("triggers", ()))),
        memory=runtime.card(after),
        changed=tuple(sorted(changes)),
        written_to=place,
    )


def _new_phrases(memory: Memory, request: UpdateRequest) -> tuple[str, ...] | None:
    """The new trigger phrases: those given, or the present ones with additions and removals; None if unchanged."""
    added, removed = request.add_trigger_phrases or (), request.remove_trigger_phrases or ()
    if request.trigger_phrases is None and not added and not removed:
        return None
    phrases = memory.attributes.triggers if request.trigger_phrases is None else _phrases(request.trigger_phrases)
    removed_phrases = {phrase.casefold() for phrase in _phrases(removed)}
    if unknown := sorted(removed_phrases - {phrase.casefold() for phrase in phrases}):
        raise BadParameter(
            f"memory {memory.id} has no trigger phrase {', '.join(map(repr, unknown))}",
            hint=f"it has: {', '.join(phrases) or 'none'}",
        )
    remaining = [phrase for phrase in phrases if phrase.casefold() not in removed_phrases]
    remaining_folded = {phrase.casefold() for phrase in remaining}
    return (*remaining, *(phrase for phrase in _phrases(added) if phrase.casefold() not in remaining_folded))


def _has_values_already(runtime: Runtime, memory: Memory, changes: Mapping[str, Any]) -> bool:
    """Do memory and file have all of these values already? Then there is nothing to write and nothing to undo."""
    if any(getattr(memory.attributes, key) != value for key, value in changes.items()):
        return False
    if memory.elsewhere or memory.source not in _WRITTEN:
        return True
    front = markdown.parse(runtime.store.documents.text(memory.id)).front
    return all(getattr(front, key) == value for key, value in changes.items())


def _phrases(phrases: Sequence[str]) -> tuple[str, ...]:
    clean = (" ".join(redact.redact(phrase).text.split()) for phrase in phrases)
    return tuple(dict.fromkeys(phrase for phrase in clean if phrase))


def _check(memory: Memory, changes: Mapping[str, Any], *, confirm: bool) -> None:
    problems: list[Advice] = []
    next_steps: list[Text] = []
    if changes.get("title") == "":
        problems.append(finding("title-is-empty"))
    tier = changes.get("tier")
    if tier is Tier.CONSTITUTIONAL and memory.tier is not Tier.CONSTITUTIONAL:
        if not memory.trusted:
            problems.append(finding("unvouched-is-no-rule", source=memory.source.value))
            next_steps.append(advise("vouch", id=memory.id))
        elif not confirm:
            problems.append(finding("rule-needs-a-person"))
            next_steps.append(advise("confirm"))
    if tier and memory.source is Source.CONSTITUTIONAL and tier is not Tier.CONSTITUTIONAL:
        problems.append(finding("lies-in-rules", path=memory.path))
    if changes.get("triggers") and not memory.trusted:
        problems.append(finding("unvouched-has-no-triggers", source=memory.source.value))
        next_steps.append(advise("vouch", id=memory.id))
    if problems:
        words = [str(problem) for problem in problems]
        unchanged = finding("nothing-changed-in", id=memory.id)
        raise Invalid("; ".join(words), hint=(unchanged, *dict.fromkeys(next_steps)), problems=words)


def apply(runtime: Runtime, memory: Memory, changes: Mapping[str, Any], *, operation_id: str) -> str:
    """Write the changes to the file if it may be written, else to the database; returns "file" or "index"."""
    keys = tuple(sorted(changes))
    done = operation.Update(id=operation_id, keys=keys, values=_plain(changes))
    if memory.elsewhere:
        paths.place(runtime.settings, memory.path)  # raises if the index is forged and no main checkout has the file
    elif memory.source in _WRITTEN:
        try:
            with freshness.file_expected():
                file_changes.retried(lambda: _write(runtime, memory, changes, done))
            return "file"
        except AccessDenied as error:
            if not is_read_only(error):
                raise
            # The metadata of a read-only file is kept in the database instead.
    change = runtime.change(f"update {', '.join(keys)}", replace(done, place="index"))
    runtime.store.record.amend(memory.id, change, overrides=dict(changes))
    return "index"


def _write(runtime: Runtime, memory: Memory, changes: Mapping[str, Any], done: operation.Update) -> None:
    previous: dict[str, Any] = {}

    def edit(text: str) -> str:
        front = markdown.parse(text).front
        previous.update((key, getattr(front, key) or None) for key in changes)
        return front_edit.edit_front_matter(text, _plain(changes))

    # A redacted text does not go to the trash either: undo then restores only the changed keys.
    present, _ = disk.read_bytes(discover.file_to_change(runtime.settings, memory.path, scope=runtime.scope))
    spelled = memory.redactions or file_restore.spells(runtime.store.documents.text(memory.id), present)
    drawer = None if spelled else file_changes.drawer(runtime.now())
    step = file_changes.rewrite(runtime.settings, memory.path, edit, scope=runtime.scope, keep_in=drawer)
    done = replace(done, previous=_plain(previous), files=(step.change,) if step else ())
    with file_changes.applied(
        runtime.settings,
        runtime.store,
        done.id,
        [step] if step else [],
        scope=runtime.scope,
        author=runtime.caller.user,
    ):
        path = paths.absolute(runtime.settings, memory.path)
        runtime.sync.index_file(path, runtime.change(f"update {', '.join(done.keys)}", done))
        _drop_overrides(runtime, memory.id, changes, done)


def _drop_overrides(runtime: Runtime, memory_id: int, changes: Mapping[str, Any], done: operation.Update) -> None:
    """Drop overrides from a time when the file could not be written: they would hide what the file says now."""
    attributes = runtime.store.documents.get(memory_id).attributes
    hidden = [key for key, value in changes.items() if key != "triggers" and getattr(attributes, key) != value]
    if "triggers" in changes and not set(changes["triggers"]) <= set(attributes.triggers):
        hidden.append("triggers")
    if hidden:
        change = runtime.change(f"update {', '.join(hidden)}", replace(done, keys=tuple(hidden), place="index"))
        runtime.store.record.amend(memory_id, change, overrides=dict.fromkeys(hidden))


def _plain(changes: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: value.value if isinstance(value, Tier | ContextType) else value for key, value in changes.items()}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in plain.items()}


# --- delete -------------------------------------------------------------------


def delete(runtime: Runtime, request: DeleteRequest) -> DeleteAnswer:
    """Forget one memory, or, with `confirm`, all of a spec folder after a checkpoint."""
    file_changes.settle_dead(runtime.settings, runtime.whole)
    delete_file = request.delete_file
    if request.id is not None:
        if request.spec_folder is not None:
            raise BadParameter(
                f"delete was given both the id {request.id} and the spec folder {request.spec_folder}",
                hint=advise("one-or-folder"),
            )
        memory = runtime.store.documents.get(request.id)
        runtime.require_right_to_rule([(memory.tier, memory.path)])
        moved = _forget(runtime, [memory], operation.Delete(), delete_file=delete_file, reason="delete")
        return _deleted(runtime, [memory], moved, None)
    folder = clean_folder(request.spec_folder or "")
    memories = runtime.store.documents.find(Filter(spec_folder=folder))
    if not memories:
        raise MemoryNotFound(f"spec folder {folder} has no memories", hint=runtime.folder_suggestions(folder))
    if not request.confirm:
        raise MissingParameter(
            f"deleting all of {folder}, {counted(len(memories), 'memory')}, must be confirmed",
            hint=advise("confirm"),
        )
    from spec_kit_memory.features import checkpoints

    runtime.require_right_to_rule((memory.tier, memory.path) for memory in memories)
    with checkpoints.safety(runtime, "before-delete", spec_folder=folder) as name:
        reason = f"delete specFolder {folder}; checkpoint {name}"
        done = operation.Delete(spec_folder=folder, checkpoint=name)
        moved = _forget(runtime, memories, done, delete_file=delete_file, reason=reason)
    return _deleted(runtime, memories, moved, name)


def _forget(
    runtime: Runtime, memories: Sequence[Memory], done: operation.Delete, *, delete_file: bool, reason: str
) -> list[str]:
    """Forget all memories and their files, or none. Returns the files' paths in the trash, or their names where it is
    rows; a team server has no trash and returns the paths of the files that are removed."""
    drawer = file_changes.drawer(runtime.now())
    moves: dict[int, file_changes.FileMove] = {}
    for memory in memories:
        if delete_file and memory.source in _WRITTEN:
            step = file_changes.discard(runtime.settings, memory.path, scope=runtime.scope, to=drawer)
            if step is not None:
                moves[memory.id] = step
    with file_changes.applied(
        runtime.settings, runtime.store, done.id, list(moves.values()), scope=runtime.scope, author=runtime.caller.user
    ):
        for memory in memories:
            files = (moves[memory.id].change,) if memory.id in moves else ()
            where = "".join(f"; file in {file.trash}" for file in files)
            change = runtime.change(f"{reason}{where}", replace(done, path=memory.path, files=files))
            runtime.store.documents.forget(memory.id, change)
    if runtime.accepts:
        return [step.path for step in moves.values()]
    return [_place_in_trash(step) for step in moves.values()]


def _place_in_trash(step: file_changes.FileMove) -> str:
    """The file's path in the trash, or its name where the trash is rows. The delete is done, readable or not."""
    try:
        is_file = filesystem.exists(step.trashed)
    except OSError:
        is_file = True
    return step.trashed.path.as_posix() if is_file else step.trash


def _deleted(
    runtime: Runtime, memories: Sequence[Memory], moved: Sequence[str], checkpoint: str | None
) -> DeleteAnswer:
    if len(memories) == 1:
        what = outcome("named", title=memories[0].title, id=memories[0].id)
    else:
        what = outcome("memories-counted", count=len(memories))
    return DeleteAnswer(
        outcome=outcome("forgot", what=what, files=_rest(runtime, memories, moved)),
        advice=(runtime.take_back,),
        deleted=tuple(memory.id for memory in memories),
        files=tuple(moved),
        checkpoint=checkpoint,
    )


def _rest(runtime: Runtime, memories: Sequence[Memory], moved: Sequence[str]) -> Advice:
    """What happened to the files."""
    if all(memory.source is Source.CHAT for memory in memories):
        return outcome("imports-leave-out")
    is_single, accepts = len(memories) == 1, runtime.accepts
    if is_single and not moved and _is_file_gone(runtime, memories[0]):
        return outcome("file-was-gone", path=memories[0].path)
    if not moved:
        return outcome("file-stays" if is_single else "files-stay")
    if len(moved) < len(memories):
        return outcome("some-removed" if accepts else "some-in-trash", moved=len(moved), count=len(memories))
    if is_single:
        return outcome("file-removed" if accepts else "file-in-trash")
    return outcome("files-removed" if accepts else "files-in-trash")


def _is_file_gone(runtime: Runtime, memory: Memory) -> bool:
    """Was the file removed or moved, and no scan has noticed yet?"""
    is_here = memory.source in _WRITTEN and not memory.elsewhere and runtime.has_file(memory.path)
    try:
        return is_here and not freshness.stands(runtime, paths.absolute(runtime.settings, memory.path))
    except (OSError, AccessDenied):
        return False  # the memory is forgotten, and that must not look refused


# --- trust --------------------------------------------------------------------


def trust(runtime: Runtime, request: TrustRequest) -> UpdateAnswer:
    """Mark a memory of a chat or custom source as trusted, or not, on behalf of a person. No tool can call this."""
    target, trusted = request.target, request.trusted
    if isinstance(target, int):
        memory = runtime.store.documents.get(target)
    else:
        trusted_memory = runtime.store.documents.get(path=freshness.stored_path(runtime, target))
        if trusted_memory is None:
            raise MemoryNotFound(f"{target} is not a memory of this workspace", hint=advise("list-memories"))
        memory = trusted_memory
    if memory.trusted == trusted:
        code = "trusted-already" if trusted else "not-trusted-before"
        return UpdateAnswer(
            outcome=outcome(code, title=memory.title, id=memory.id),
            memory=runtime.card(memory),
            changed=(),
            written_to="nothing",
        )
    done = operation.Trust(trusted=trusted)
    with runtime.store.together():
        runtime.store.record.amend(
            memory.id, runtime.change("trust" if trusted else "trust revoked", done), vouched=trusted
        )
        if memory.source is Source.CUSTOM:
            # Its front matter now counts, or no longer counts, so the file is indexed again.
            change = runtime.change("trusted text read again", done)
            runtime.sync.index_file(paths.absolute(runtime.settings, memory.path), change)
    after = runtime.read_again(replace(memory, trusted=trusted))
    return UpdateAnswer(
        outcome=outcome("trusted" if trusted else "no-longer-trusted", title=after.title, id=after.id),
        memory=runtime.card(after),
        changed=("trusted",),
        written_to="index",
    )
