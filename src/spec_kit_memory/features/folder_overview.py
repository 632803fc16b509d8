"""What is each spec folder about, and what happened in it?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from spec_kit_memory.advice import outcome
from spec_kit_memory.core import tokens
from spec_kit_memory.core.folders import clean_folder
from spec_kit_memory.core.memory import Filter, Memory, Source
from spec_kit_memory.errors import MemoryNotFound
from spec_kit_memory.features import sessions
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.page_answers import FolderRow, FoldersAnswer
from spec_kit_memory.requests import FoldersRequest

ABOUT_TOKENS = 80
MOST_ABOUT = 1_000  # only so many folders, the newest, are described
MOST_KEPT = 5_000  # cached descriptions
# The order in which the documents of a folder are written and read; others follow by name.
_DOCUMENTS = ("spec.md", "plan.md", "tasks.md", "checklist.md", "decision-record.md", "research.md")


def folders(runtime: Runtime, request: FoldersRequest) -> FoldersAnswer:
    rows = _rows(runtime)
    if request.name is not None:
        return _one(runtime, clean_folder(request.name), rows[: request.limit], len(rows))
    return FoldersAnswer(
        outcome=outcome("folders-counted", count=len(rows)), folders=rows[: request.limit], total=len(rows)
    )


def _rows(runtime: Runtime) -> tuple[FolderRow, ...]:
    """All folders, the newest first; cached until a memory changes."""
    kept, generation = runtime.view.folders, runtime.store.generation()
    if kept.rows is None or kept.rows[0] != generation:
        kept.rows = (generation, tuple(_made(runtime)))
    return kept.rows[1]


def _made(runtime: Runtime) -> Iterator[FolderRow]:
    counts: dict[str, FolderRow] = {}
    for tally in runtime.store.documents.tally():
        if tally.spec_folder:
            row = counts.get(tally.spec_folder)
            counts[tally.spec_folder] = FolderRow(
                name=tally.spec_folder,
                count=tally.count + (row.count if row else 0),
                newest=max(tally.newest, row.newest) if row else tally.newest,
            )
    rows = sorted(counts.values(), key=lambda row: row.newest, reverse=True)
    documents = _first_documents(runtime, {row.name for row in rows[:MOST_ABOUT]})
    for row in rows:
        yield replace(row, about=_about(runtime, documents.get(row.name)))


def _one(runtime: Runtime, name: str, rows: tuple[FolderRow, ...], total: int) -> FoldersAnswer:
    memories = runtime.store.documents.find(Filter(spec_folder=name))
    if not memories:
        raise MemoryNotFound(f"spec folder {name} has no memories", hint=runtime.folder_suggestions(name))
    documents = sorted((m for m in memories if m.source is Source.SPEC), key=_document_order)
    saved = sorted((m for m in memories if m.source is not Source.SPEC), key=_moment)
    links = runtime.store.record.links([memory.id for memory in memories])
    inside = {memory.id for memory in memories}
    outside = sorted({end for link in links for end in link.ends} - inside)
    return FoldersAnswer(
        outcome=outcome("folder-contents", name=name, documents=len(documents), memories=len(saved)),
        folders=rows,
        total=total,
        name=name,
        about=_about(runtime, (documents or saved)[0]),
        documents=tuple(map(runtime.card, documents)),
        sessions=tuple(map(runtime.card, saved)),
        links=tuple(links),
        neighbours=tuple(map(runtime.card, runtime.store.documents.many(outside))),
    )


def _document_order(memory: Memory) -> tuple[int, str]:
    name = memory.path.rpartition("/")[2]
    return (_DOCUMENTS.index(name) if name in _DOCUMENTS else len(_DOCUMENTS), memory.path)


def _moment(memory: Memory) -> float:
    return (memory.attributes.created_at or memory.first_indexed_at).timestamp()


def _first_documents(runtime: Runtime, names: set[str]) -> dict[str, Memory]:
    """The document that says what each folder is about: its specification, where there is one."""
    first: dict[str, Memory] = {}
    for memory in runtime.store.documents.find(Filter(source=Source.SPEC), order="path"):
        folder = memory.spec_folder
        if folder in names and (folder not in first or _document_order(memory) < _document_order(first[folder])):
            first[folder] = memory
    return first


def _about(runtime: Runtime, memory: Memory | None) -> str:
    """The description of a folder, from its first document. Cached by text: finding a summary parses the whole text."""
    if memory is None:
        return ""
    abouts = runtime.view.folders.abouts
    about = abouts.get(memory.content_hash)
    if about is None:
        if len(abouts) >= MOST_KEPT:
            abouts.clear()
        about = tokens.clip(sessions.summary(runtime.opened(memory).text), ABOUT_TOKENS)
        abouts[memory.content_hash] = about
    return about
