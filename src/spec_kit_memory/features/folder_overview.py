"""What is each spec folder about, and what happened in it?"""

from __future__ import annotations

from collections.abc import Iterable

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
# The order in which the documents of a folder are written and read; others follow by name.
_DOCUMENTS = ("spec.md", "plan.md", "tasks.md", "checklist.md", "decision-record.md", "research.md")


def folders(runtime: Runtime, request: FoldersRequest) -> FoldersAnswer:
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
    first_rows = rows[: request.limit]
    if request.name is None:
        documents = _first_documents(runtime, {row.name for row in first_rows})
        return FoldersAnswer(
            outcome=outcome("folders-counted", count=len(rows)),
            folders=tuple(
                FolderRow(name=row.name, count=row.count, newest=row.newest, about=_about(runtime, documents, row.name))
                for row in first_rows
            ),
            total=len(rows),
        )
    return _one(runtime, clean_folder(request.name), first_rows, len(rows))


def _one(runtime: Runtime, name: str, rows: Iterable[FolderRow], total: int) -> FoldersAnswer:
    memories = runtime.store.documents.find(Filter(spec_folder=name))
    if not memories:
        raise MemoryNotFound(f"spec folder {name} has no memories", hint=runtime.meant_folder(name))
    documents = sorted((m for m in memories if m.source is Source.SPEC), key=_document_order)
    saved = sorted((m for m in memories if m.source is not Source.SPEC), key=_moment)
    links = runtime.store.record.links([memory.id for memory in memories])
    inside = {memory.id for memory in memories}
    outside = sorted({end for link in links for end in link.ends} - inside)
    return FoldersAnswer(
        outcome=outcome("folder-contents", name=name, documents=len(documents), memories=len(saved)),
        folders=tuple(rows),
        total=total,
        name=name,
        about=_about(runtime, {name: (documents or saved)[0]}, name),
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


def _about(runtime: Runtime, documents: dict[str, Memory], name: str) -> str:
    memory = documents.get(name)
    return tokens.clip(sessions.summary(runtime.opened(memory).text), ABOUT_TOKENS) if memory else ""
