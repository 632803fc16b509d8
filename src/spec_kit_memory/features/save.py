"""How does something new become a memory? A session, one fact, or an existing file.

The input is redacted, parsed, assigned to a folder and written as a file; the index then reads
that file like any other. Nothing is invented, and nothing of the input is dropped.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from spec_kit_memory.advice import Text, advise, finding, outcome
from spec_kit_memory.answers import SaveAnswer, SimilarMemory
from spec_kit_memory.core import attention, markdown, phrases, redact, session_data, session_document
from spec_kit_memory.core.folders import clean_folder
from spec_kit_memory.core.memory import Memory, VectorStatus, owner_of
from spec_kit_memory.core.session_data import SessionData
from spec_kit_memory.core.session_document import Rendered
from spec_kit_memory.errors import (
    AccessDenied,
    DatabaseBusy,
    DatabaseUnusable,
    MemoryNotFound,
    MissingParameter,
    SpecKitMemoryError,
)
from spec_kit_memory.features import choose_folder, index_workspace, merge, near_duplicates, remarks, sessions
from spec_kit_memory.features.personal import PERSONAL
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files import disk, git, paths
from spec_kit_memory.files.cited_code import record_citations
from spec_kit_memory.files.file_errors import disk_error
from spec_kit_memory.index.contract import PutResult
from spec_kit_memory.requests import SaveRequest
from spec_kit_memory.settings import Settings

_TRANSCRIPTS = (".jsonl",)


def save(runtime: Runtime, request: SaveRequest) -> SaveAnswer:
    """Save a session or a fact as a memory file, or take an existing file, and index it.

    Only a person (`request.by_person`), not an agent, may request the constitutional tier in the data.
    """
    file_path, context, text = request.file_path, request.context, request.text
    contents = [
        name for name, value in (("filePath", file_path), ("context", context), ("text", text)) if value is not None
    ]
    if len(contents) > 1 and not context:  # some models fill in every parameter; an empty one means nothing
        contents = [name for name in contents if name != "context"]
    if len(contents) != 1:
        raise MissingParameter(f"save got {' and '.join(contents)}", hint="give exactly one of them")
    if file_path is not None and runtime.accepts:
        raise AccessDenied("this server has no files of yours", hint="commit the file: it is read from git")
    if file_path is not None:
        return _existing(runtime, file_path, dry_run=request.dry_run, on_similar=request.on_similar)
    by_person = request.by_person
    draft = _Draft.of_fact(text) if text is not None else _Draft.of_session(context or {}, runtime, by_person=by_person)
    return _write(runtime, draft, request)


# --- an existing file -----------------------------------------------------------------


def _existing(runtime: Runtime, file_path: str, *, dry_run: bool, on_similar: str) -> SaveAnswer:
    if file_path.casefold().endswith(_TRANSCRIPTS):
        from spec_kit_memory.features import chats

        return chats.save_transcript(runtime, file_path, dry_run=dry_run)
    path = paths.contained(runtime.settings, file_path, scope=runtime.scope)
    if dry_run:
        entry = runtime.sync.preview(path)
        return SaveAnswer(
            outcome=outcome("would-index", path=entry.path, title=entry.attributes.title),
            id=None,
            path=entry.path,
            title=entry.attributes.title,
            spec_folder=entry.spec_folder,
            created=False,
            dry_run=True,
            triggers=entry.attributes.triggers,
            tier=entry.attributes.tier,
            context_type=entry.attributes.context_type,
        )
    result = runtime.sync.index_file(path, runtime.change("save filePath"), explicit=True)
    _note_citations(runtime, result.memory_id)
    index_workspace.embed_memory(runtime, result.memory_id)
    memory = runtime.store.documents.get(result.memory_id, any_presence=True)
    warnings: list[Text] = [warning.message for warning in memory.warnings if warning.code != "secret"]
    warnings += remarks.problems_of(runtime, [memory])[memory.id]
    if memory.redactions:
        warnings.append(finding("secrets-left-in-file", count=memory.redactions, path=memory.path))
    similar = () if on_similar == "distinct" else near_duplicates.similar_to(runtime, memory)
    answer = replace(
        _saved(memory, result),
        warnings=tuple(warnings),
        similar=similar,
        advice=_hints(runtime, similar, on_similar, memory.id),
    )
    return _joined(runtime, answer, memory.id) if on_similar == "merge" else answer


def _saved(memory: Memory, result: PutResult) -> SaveAnswer:
    code = "file-is-alias" if result.alias else "file-indexed" if result.created else "file-up-to-date"
    return SaveAnswer(
        outcome=outcome(code, id=memory.id, path=memory.path),
        id=memory.id,
        path=memory.path,
        title=memory.title,
        spec_folder=memory.spec_folder,
        created=result.created,
        duplicate_of=memory.id if result.alias else None,
        triggers=memory.attributes.triggers,
        tier=memory.tier,
        context_type=memory.attributes.context_type,
        vector_status=memory.vector_status,
    )


# --- something new --------------------------------------------------------------------


@dataclass(frozen=True)
class _Draft:
    """The content to save: parsed and free of secrets."""

    session: SessionData
    redacted: Mapping[str, int] = field(default_factory=dict)
    fact: bool = False

    @classmethod
    def of_session(cls, data: Mapping[str, Any], runtime: Runtime, *, by_person: bool) -> _Draft:
        secret_counts: Counter[str] = Counter()
        clean = redact.redact_data(session_data.checked(data), secret_counts)
        session = session_data.read(clean, constitutional=by_person)
        return cls(session_document.without_noise(session, patterns=runtime.settings.noise), dict(secret_counts))

    @classmethod
    def of_fact(cls, text: str) -> _Draft:
        secret_counts: Counter[str] = Counter()
        session = session_data.read({"sessionSummary": redact.redact_data(text, secret_counts)})
        return cls(session, dict(secret_counts), fact=True)

    @cached_property
    def words(self) -> str:
        """All of its text, for finding trigger phrases and the folder."""
        session = self.session
        parts = [session.title, session.summary, *session.next_steps, *session.blockers]
        # One line each, so that no phrase spans two of them.
        parts += [text for d in session_document.decisions_of(session) for text in (d.text, d.chosen, d.rationale)]
        parts += [text for seen in session.observations for text in (seen.title, seen.text, *seen.facts)]
        parts += [message.text for message in session.messages]
        parts += [json.dumps(session.technical, ensure_ascii=False)] if session.technical else []
        return "\n".join(part for part in parts if part.strip())

    @property
    def files(self) -> list[str]:
        return [change.path for change in self.session.files]


def _write(
    runtime: Runtime,
    draft: _Draft,
    request: SaveRequest,
) -> SaveAnswer:
    force, on_similar = request.force, request.on_similar
    placed = choose_folder.place(
        runtime,
        words=draft.words,
        named_files=draft.files,
        given_folder=request.spec_folder or draft.session.spec_folder,
        create=request.create,
        fact=draft.fact,
        personal=request.vault == PERSONAL,
    )
    now_local = runtime.now().astimezone()
    repository = {} if runtime.accepts else redact.redact_data(git.head(runtime.settings.root), Counter())
    rendered, triggers = _rendered(runtime, draft, placed.spec_folder, now_local, repository)
    similar = (
        ()
        if on_similar == "distinct" and not force
        else near_duplicates.similar(runtime, rendered.text, spec_folder=placed.spec_folder)
    )
    warnings = [
        *rendered.warnings,
        *placed.warnings,
        *_folder_warnings(draft.session.spec_folder, request.spec_folder, placed),
    ]
    warnings += phrases.phrase_warnings(draft.session.triggers)
    answer = SaveAnswer(
        outcome="",
        id=None,
        path=placed.stored(session_document.file_name(now_local, rendered.topic)),
        title=rendered.title,
        spec_folder=placed.spec_folder,
        created=False,
        similar=similar,
        redacted=draft.redacted,
        triggers=triggers,
        tier=rendered.tier,
        context_type=rendered.context_type,
        alignment=placed.alignment,
        warnings=tuple(warnings),
    )
    existing = _stored_duplicate(runtime, rendered, answer, force=force, on_similar=on_similar)
    if existing is not None:
        unwritten = _unwritten(runtime, rendered, draft.session, existing)
        answer = replace(answer, warnings=(*answer.warnings, *unwritten))
        return _already_stored(runtime, answer, existing, dry_run=request.dry_run, on_similar=on_similar)
    if request.dry_run:
        return replace(answer, outcome=outcome("would-write", path=answer.path), dry_run=True, text=rendered.text)
    stem = session_document.file_name(now_local, rendered.topic).removesuffix(".md")
    saved = runtime.sync.save(
        placed.folder,
        stem,
        rendered.text,
        runtime.change("save"),
        embed=lambda passages: index_workspace.embed_ahead(runtime, passages),
    )
    memory_id = saved.result.memory_id
    _note_citations(runtime, memory_id, is_new=True)
    answer = _after(runtime, answer, saved.path, saved.result)
    if on_similar == "merge":
        answer = _joined(runtime, answer, memory_id)
    status = index_workspace.embed_memory(runtime, memory_id)
    with suppress(SpecKitMemoryError):
        problems = remarks.problems_of(runtime, [runtime.store.documents.get(memory_id)])[memory_id]
        answer = replace(answer, warnings=(*answer.warnings, *problems))
    try:
        # The memory is already saved: a failure here is a warning, and no reason to save it again.
        if not runtime.accepts:  # in git, one file that every save changes would cause constant conflicts
            _metadata(
                runtime.settings,
                saved.path,
                replace(rendered, tier=answer.tier or rendered.tier),
                answer.triggers,
                now_local=now_local,
                spec_folder=placed.spec_folder,
                status=status,
                git_=repository,
            )
    except SpecKitMemoryError as error:
        answer = replace(answer, warnings=(*answer.warnings, finding("saved-but", problem=error.message)))
    _session_saved(runtime, draft.session.session_id)
    return replace(answer, vector_status=status, advice=_hints(runtime, similar, on_similar, memory_id))


def _note_citations(runtime: Runtime, memory_id: int, *, is_new: bool = False) -> None:
    """Record the cited files. The memory is already saved, so a failure is left to the next scan."""
    if runtime.accepts:
        return
    with suppress(DatabaseBusy, DatabaseUnusable):
        record_citations(runtime.whole, runtime.settings, [memory_id], is_new=is_new)


def _folder_warnings(in_data: str | None, argument: str | None, placed: choose_folder.Placed) -> list[Text]:
    """A warning where the data and the argument name different folders; the argument is used."""
    if not in_data or not argument:
        return []
    folder = clean_folder(in_data)
    if placed.spec_folder == folder or (placed.spec_folder or "").endswith(f"/{folder}"):
        return []
    return [finding("two-folders-named", folder=folder, used=placed.spec_folder or "")]


def _stored_duplicate(
    runtime: Runtime, rendered: Rendered, answer: SaveAnswer, *, force: bool, on_similar: str
) -> Memory | None:
    """The memory that has this text already. A caller who merges may have saved it a moment ago and been warned.

    Only memories of the same folder and owner count: a personal memory does not prevent a shared one, nor the reverse.
    """
    if force and on_similar != "merge":
        return None
    folder, owner, text = answer.spec_folder, owner_of(answer.path or ""), rendered.text
    existing = near_duplicates.same(runtime, text, spec_folder=folder, owner=owner)
    if existing is None and on_similar == "merge":
        return near_duplicates.same_words(runtime, text, answer.similar, spec_folder=folder, owner=owner)
    return existing


def _unwritten(runtime: Runtime, rendered: Rendered, session: SessionData, existing: Memory) -> list[Text]:
    """What was given beside a text that is stored already, and that its memory does not have: each with the call
    that adds it."""
    id_, attributes = existing.id, existing.attributes
    unwritten: list[Text] = []
    phrases_ = [phrase for phrase in session.triggers if phrase not in attributes.triggers]
    if phrases_:
        unwritten.append(advise("add-phrases", id=id_, phrases=tuple(map(repr, phrases_)), count=len(phrases_)))
    if session.tier and session.tier != existing.tier:
        unwritten.append(advise("set-tier", id=id_, now=existing.tier.value, tier=session.tier.value))
    if session.context_type and session.context_type != attributes.context_type:
        now = attributes.context_type.value
        unwritten.append(advise("set-context-type", id=id_, now=now, type=session.context_type.value))
    given = markdown.parse(rendered.text).front
    with suppress(MemoryNotFound):  # another process may have deleted it by now
        has = markdown.parse(runtime.store.documents.text(id_)).front
        questions = tuple(repr(question) for question in given.questions if question not in has.questions)
        links = tuple(dict.fromkeys(repr(claim.target) for claim in given.links if claim not in has.links))
        if questions:
            unwritten.append(finding("questions-not-written", path=existing.path, questions=questions))
        if links:
            unwritten.append(finding("links-not-written", path=existing.path, targets=links))
    return unwritten


def _already_stored(
    runtime: Runtime, answer: SaveAnswer, existing: Memory, *, dry_run: bool, on_similar: str
) -> SaveAnswer:
    """The answer for a text that is stored already: nothing is written, but it can still be merged."""
    before = outcome("saved-before", id=existing.id, path=existing.path)
    answer = replace(
        answer,
        outcome=outcome("nothing-written", outcome=before),
        id=existing.id,
        path=existing.path,
        duplicate_of=existing.id,
        triggers=existing.attributes.triggers,
        tier=existing.tier,
        dry_run=dry_run,
    )
    if on_similar != "merge":
        return replace(answer, similar=())
    answer = replace(answer, outcome=before)
    if dry_run:
        other = near_duplicates.mergeable(runtime, answer.similar, existing)
        planned = outcome("would-take-in", outcome=before, other=other.id) if other else before
        return replace(answer, outcome=outcome("nothing-written", outcome=planned))
    answer = _joined(runtime, answer, existing.id)
    if answer.merged is None:
        return replace(answer, outcome=outcome("nothing-to-merge", outcome=before))
    return replace(answer, vector_status=index_workspace.embed_memory(runtime, existing.id))


def _joined(runtime: Runtime, answer: SaveAnswer, memory_id: int) -> SaveAnswer:
    """Merge the most similar memory into this one; the answer says what was merged, or why nothing was.

    This memory is already saved, so a failure here is a warning.
    """
    others = tuple(row for row in answer.similar if row.id != memory_id)
    if not others:
        return replace(answer, similar=())
    tried = others[0].id
    try:
        memory = runtime.store.documents.get(memory_id, any_presence=True)  # another process may have deleted it by now
        other = near_duplicates.mergeable(runtime, others, memory)
        if other is None:
            reason = merge.obstacle(runtime.store.documents.get(tried, any_presence=True), memory) or finding(
                "merges-one-folder-only"
            )
            message = finding("similar-not-merged", id=tried, reason=reason)
            return replace(answer, warnings=(*answer.warnings, message), similar=others)
        tried = other.id
        done = merge.join(runtime, memory_id=tried, into=memory_id)
    except (SpecKitMemoryError, OSError) as error:
        refusal = disk_error(error, error.filename or answer.path) if isinstance(error, OSError) else error
        message = finding("not-merged", id=tried, reason=refusal.message)
        return replace(answer, warnings=(*answer.warnings, message), similar=others)
    return replace(
        answer,
        outcome=outcome("takes-in", outcome=answer.outcome, other=tried),
        warnings=(*answer.warnings, *done.remarks),
        merged=tried,
        similar=tuple(row for row in others if row.id != tried),
        triggers=done.memory.attributes.triggers,
        tier=done.memory.tier,
    )


def _rendered(
    runtime: Runtime,
    draft: _Draft,
    spec_folder: str | None,
    now_local: datetime,
    repository: Mapping[str, str],
) -> tuple[Rendered, tuple[str, ...]]:
    """The file to write. All of its parts were scanned for secrets, names together with their values."""
    title = session_document.title_of(draft.session, spec_folder=spec_folder)
    triggers = phrases.extract(
        draft.words, own_phrases=draft.session.triggers, title=title, spec_folder=spec_folder, files=draft.files
    )
    how: dict[str, Any] = {"now_local": now_local, "spec_folder": spec_folder, "triggers": triggers, "git": repository}
    if draft.fact:
        rendered = session_document.fact(draft.session.summary, **how)
    else:
        rendered = session_document.render(draft.session, template=_template(runtime), **how)
    return rendered, tuple(triggers)


def _template(runtime: Runtime) -> str | None:
    template = disk.template(runtime.settings)
    if template is None:
        return None
    session_document.check_template(template)
    return redact.redact(template).text


def _metadata(
    settings: Settings,
    path: Path,
    rendered: Rendered,
    triggers: tuple[str, ...],
    *,
    now_local: datetime,
    spec_folder: str | None,
    status: VectorStatus,
    git_: Mapping[str, str],
) -> None:
    metadata = session_document.metadata(
        rendered,
        file=path.name,
        now_local=now_local,
        spec_folder=spec_folder,
        triggers=triggers,
        topics=triggers[:5],
        vector_status=status.value,
        git=git_,
    )
    place = paths.place(settings, path).sibling("metadata.json")
    disk.write_atomic(place, json.dumps(metadata, ensure_ascii=False, indent=2) + "\n")


def _session_saved(runtime: Runtime, session_id: str | None) -> None:
    session_id = session_id or runtime.caller.session
    if session_id:
        sessions.change_session(runtime, session_id, attention.saved)


def _after(runtime: Runtime, answer: SaveAnswer, path: Path, result: PutResult) -> SaveAnswer:
    memory_id = result.memory_id
    done = outcome("saved", title=answer.title, id=memory_id, path=paths.stored_form(runtime.settings, path))
    if result.alias:
        done = outcome("saved-as-alias", id=memory_id)
        with suppress(SpecKitMemoryError):  # the memory is already saved
            done = outcome("saved-as-alias-of", id=memory_id, path=runtime.store.documents.get(memory_id).path)
    if answer.redacted:
        done = outcome("secrets-replaced", outcome=done, count=sum(answer.redacted.values()))
    return replace(
        answer,
        outcome=done,
        id=memory_id,
        path=paths.stored_form(runtime.settings, path),
        created=result.created,
        duplicate_of=memory_id if result.alias else None,
    )


def _hints(runtime: Runtime, similar: tuple[SimilarMemory, ...], on_similar: str, memory_id: int) -> tuple[Text, ...]:
    """What can be done about a near-duplicate; only what is then also possible."""
    others = [row.id for row in similar if row.id != memory_id]
    if not others or on_similar != "warn":
        return ()
    memory = next(iter(runtime.store.documents.many([memory_id])), None)  # another process may have deleted it by now
    live = runtime.store.documents.many(others) if memory else ()
    other = next((one for one in live if memory and not merge.obstacle(one, memory)), None)
    if memory is None or other is None:
        return ()
    stated = merge.statements(runtime, other.id, memory_id)
    if stated:
        return (advise("supersede-similar", other=other.id, id=memory_id, differences=stated),)
    if other.spec_folder != memory.spec_folder:
        return (advise("merge-similar-elsewhere", other=other.id, id=memory_id),)
    return (advise("merge-similar", other=other.id, id=memory_id),)
