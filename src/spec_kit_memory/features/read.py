"""What does a memory say, and which memories exist? load, get, list.

`load` and `get` check the file first: if it changed since it was indexed, it is indexed
again, so the returned text and line numbers are those of the file now.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from heapq import merge
from typing import Any

from spec_kit_memory import answer_json
from spec_kit_memory.advice import Text, Value, advise, finding, outcome
from spec_kit_memory.answers import Card, GetAnswer, ListAnswer, LoadAnswer
from spec_kit_memory.core import decay, long_lines, markdown, tokens
from spec_kit_memory.core.citations import Code
from spec_kit_memory.core.folders import clean_folder
from spec_kit_memory.core.memory import Filter, Memory, Presence, Source, State, Tier, is_text_name
from spec_kit_memory.core.wording import close_names
from spec_kit_memory.errors import AnchorNotFound, BadParameter, MemoryNotFound, OutOfRange
from spec_kit_memory.features import freshness, remarks, sessions
from spec_kit_memory.features.personal import PERSONAL, is_personal
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.parameter_values import memory_id
from spec_kit_memory.requests import GetRequest, ListRequest, LoadRequest

_CUT_BYTES = 4  # the newline before a clipped line, and the "…" after it
_MOST_MEANT = 3  # paths that are named where one was not found
_LEAST_LIKENESS = 0.75  # of a file's name to the one that was given
_MOST_WORDS = 80  # characters of a path that are offered as a query
GET_TOKENS = 25_000  # per call; a longer text is read in parts
# "42-56", and the forms used by editors, links and lists: L42-L56, 42:56, 42..56, [42, 56].
_RANGE = re.compile(r"\s*[\[(]?\s*L?(\d{1,9})(?:\s*(-|–|:|,|\.\.|to)\s*L?(\d{0,9}))?\s*[\])]?\s*", re.IGNORECASE)
_PLACE = re.compile(r"(.+?\.\w+)(?::|#)(L?\d{1,9}(?:-L?\d{0,9})?)")


def load(runtime: Runtime, request: LoadRequest) -> LoadAnswer:
    """The text of a memory, also of a deprecated one, or of one of its sections."""
    target = _target(runtime, request)
    anchor_id = request.anchor_id
    older = freshness.refresh(runtime, target.path)
    memory = runtime.store.documents.get(target.id)
    text = runtime.store.documents.text(memory.id)
    lines = _lines(text)
    first, last = _section(memory, text, anchor_id) if anchor_id else (1, len(lines))
    content, end, cut = _up_to(lines, first, min(last, len(lines)), request.max_tokens)
    if end == len(lines) and text.endswith("\n") and not anchor_id and not cut:
        content += "\n"  # to the end of the file, as it is
    runtime.used([memory.id])
    where = f"{first}-{end}" if end >= first else ""
    sessions.remember_rules(runtime, sessions.marks_of_rules_among(runtime, [(memory.id, where, content)]))
    whole, sent = tokens.count(text), tokens.count(content)
    problems = remarks.problems_of(runtime, [memory], slips=True)
    hints: list[Text] = [*cut]
    if cut or end < last:
        hints.append(advise("read-on", path=memory.path, lines=f"{end if cut else end + 1}-{last}"))
    about: dict[str, Value] = {
        "title": memory.title,
        "id": memory.id,
        "place": outcome("lines-shown", lines=where) if where else outcome("nothing-shown"),
        "tokens": sent,
    }
    card = replace(runtime.card(memory), git=remarks.git_status_of(runtime, [memory]).get(memory.path))
    return LoadAnswer(
        outcome=outcome("section-loaded", **about, section=anchor_id)
        if anchor_id
        else outcome("beginning-loaded" if cut or end < last else "loaded", **about),
        advice=(*([older] if older else []), *problems[memory.id], *hints),
        memory=remarks.with_problems([card], problems)[0],
        text=content,
        lines=where,
        anchor_id=anchor_id,
        tokens_saved=max(0, whole - sent) if anchor_id else 0,
        next_line=end + 1 if end < last else None,
        code=remarks.code_of(runtime, [memory]).get(memory.id),
    )


def _lines(text: str) -> list[str]:
    """The lines of a file; the newline at its end does not start another."""
    lines = text.split("\n")
    return lines[:-1] if len(lines) > 1 and not lines[-1] else lines


def _target(runtime: Runtime, request: LoadRequest) -> Memory:
    if request.memory_id is not None:
        return runtime.store.documents.get(request.memory_id)
    folder = clean_folder(request.spec_folder or "")
    memories = runtime.store.documents.find(Filter(spec_folder=folder, source=Source.MEMORY), limit=1)
    memories = memories or runtime.store.documents.find(Filter(spec_folder=folder), limit=1)
    at_path = None if memories else runtime.store.documents.get(path=(request.spec_folder or "").removeprefix("./"))
    if at_path is not None:  # a path, as other answers show it, in place of a folder
        return at_path
    if not memories:
        given = request.spec_folder or ""
        if is_text_name(given):
            raise _no_memory_at(runtime, given, freshness.stored_path(runtime, given))
        hint = runtime.folder_suggestions(folder)
        if hint.code == "list-folders" and " " in given.strip():  # rather a title than the name of a folder
            hint = advise("find-paths", query=given.strip())
        raise MemoryNotFound(f"spec folder {folder} has no memories", hint=hint)
    if request.anchor_id and not _has(runtime, memories[0], request.anchor_id):
        return _newest_with(runtime, folder, request.anchor_id)
    return memories[0]


def _newest_with(runtime: Runtime, folder: str, anchor_id: str) -> Memory:
    """The newest memory of a folder that has that section; spec documents only if no memory has it."""
    everything = runtime.store.documents.find(Filter(spec_folder=folder))
    everything.sort(key=lambda memory: memory.source is not Source.MEMORY)  # stable: newest first among each
    for memory in everything:
        if _has(runtime, memory, anchor_id):
            return memory
    outlines = [markdown.outline(runtime.store.documents.text(memory.id)) for memory in everything]
    names = {name for document in outlines for name in markdown.section_names(document)}
    raise _no_anchor(f"no memory of {folder}", anchor_id, names)


def _has(runtime: Runtime, memory: Memory, anchor_id: str) -> bool:
    return markdown.find_section(markdown.outline(runtime.store.documents.text(memory.id)), anchor_id) is not None


def _section(memory: Memory, text: str, anchor_id: str) -> tuple[int, int]:
    section = markdown.find_section(markdown.parse(text), anchor_id)
    if section is None:
        raise _no_anchor(memory.path, anchor_id, markdown.section_names(markdown.outline(text)))
    return section.first_line, section.last_line


def _no_anchor(where: str, anchor_id: str, names: Iterable[str]) -> AnchorNotFound:
    listed = ", ".join(sorted(names)[:30])
    return AnchorNotFound(
        f"{where} has {'an' if where.startswith('no ') else 'no'} anchor {anchor_id}",
        hint=f"there are: {listed}" if listed else "there are no anchors and no headings",
    )


def _up_to(lines: list[str], first: int, last: int, budget_tokens: int) -> tuple[str, int, list[Text]]:
    """Returns the lines that fit, ending with the beginning of a line that is too long; the last line's number; and
    remarks on a clipped line."""
    if last < first:
        return "", last, []  # an empty section
    if len(lines[first - 1].encode("utf-8", "surrogatepass")) > budget_tokens * 4:
        line = lines[first - 1]
        part = line.encode("utf-8", "surrogatepass")[: budget_tokens * 4].decode("utf-8", "ignore")
        return part, first, [_cut_line(first, part, line)]
    used, end = 0, first
    for number in range(first, last + 1):
        line = lines[number - 1]
        size = len(line.encode("utf-8", "surrogatepass")) + 1
        room = budget_tokens * 4 - used
        used += size
        if used > budget_tokens * 4 and number > first:
            if long_lines.is_long(line) and (part := tokens.clip(line, (room - _CUT_BYTES) // 4)):
                return "\n".join([*lines[first - 1 : end], f"{part}…"]), number, [_cut_line(number, part, line)]
            break
        end = number
    return "\n".join(lines[first - 1 : end]), end, []


def _cut_line(number: int, part: str, line: str) -> Text:
    return finding("line-cut", line=number, shown=f"{len(part):,}", length=f"{len(line):,}")


def get(runtime: Runtime, request: GetRequest) -> GetAnswer:
    """Exactly the requested lines of a memory, redacted as in search results."""
    request = _spelled_out(runtime, request)
    stored = freshness.stored_path(runtime, request.path)
    older = freshness.refresh(runtime, stored)
    memory = runtime.store.documents.get(path=stored)
    if memory is None:
        raise _no_memory_at(runtime, request.path, stored)
    whole = runtime.store.documents.text(memory.id)
    every = _lines(whole)
    first, last = _requested_lines(request, len(every))
    runtime.used([memory.id])
    text, end, cut = _up_to(every, first, last, GET_TOKENS)
    to_the_end = request.count is None and (request.lines is None or request.lines.rstrip().endswith("-"))
    if to_the_end and end == len(every) and whole.endswith("\n") and not cut:
        text += "\n"  # to the end of the file, as it is
    hints: list[Text] = [*([older] if older else []), *cut]
    sessions.remember_rules(runtime, sessions.marks_of_rules_among(runtime, [(memory.id, f"{first}-{end}", text)]))
    if end < last:
        hints.append(advise("read-on", path=memory.path, lines=f"{end + 1}-{last}"))
    return GetAnswer(
        outcome=outcome("lines-read", path=memory.path, first=first, end=end, total=len(every)),
        advice=tuple(hints),
        path=memory.path,
        lines=f"{first}-{end}",
        text=text,
        total_lines=len(every),
        id=memory.id,
    )


def _no_memory_at(runtime: Runtime, path: str, stored: str) -> MemoryNotFound:
    """The error for a path without a memory: why it has none, or which path was probably meant."""
    unread = next((file for file in runtime.store.care.bad_files() if file.path == stored), None)
    if unread is not None:
        return MemoryNotFound(f"{path} is not indexed ({unread.message})", hint=advise("repair-bad-files"))
    former = runtime.store.documents.get(path=stored, any_presence=True)
    if former is not None and former.presence is Presence.FORGOTTEN:
        return MemoryNotFound(f"memory {former.id}, {path}, was deleted", hint=runtime.bring_back)
    name = re.split(r"[/\\]", path)[-1].casefold()
    paths = runtime.store.documents.stored().items()
    meant = [
        other for other, row in paths if row.presence is Presence.LIVE and other.rpartition("/")[2].casefold() == name
    ]
    if not meant:
        by_name: dict[str, list[str]] = {}
        for other, row in paths:
            if row.presence is Presence.LIVE:
                by_name.setdefault(other.rpartition("/")[2].rpartition(".")[0].casefold(), []).append(other)
        near = close_names(name.removesuffix(".md"), by_name, most=_MOST_MEANT, cutoff=_LEAST_LIKENESS)
        meant = [other for close in near for other in sorted(by_name[close])][:_MOST_MEANT]
    words = " ".join(re.findall(r"\w+", name.removesuffix(".md")))[:_MOST_WORDS]
    hint = advise("find-paths", query=words or path)
    if meant:
        hint = advise("near-paths", names=tuple(sorted(meant)[:_MOST_MEANT]))
    return MemoryNotFound(f"{path} is not a memory of this workspace", hint=hint)


def _spelled_out(runtime: Runtime, request: GetRequest) -> GetRequest:
    """Resolve a path that is an id, or that includes lines, as in memory/on-call.md:3-9."""
    if request.lines is not None and (request.from_ is not None or request.count is not None):
        number = request.lines.strip()
        if request.from_ is None or request.count is not None or not number.isdecimal() or not int(number):
            raise BadParameter(
                f"lines {request.lines!r} beside {'from' if request.from_ is not None else 'count'} is ambiguous",
                hint='give lines as search shows them, e.g. lines "42-56", or from and count',
            )
        request = request.replace(lines=None, count=int(number))  # "4 lines from line 3"
    if id_ := memory_id(request.path):
        return request.replace(path=runtime.store.documents.get(id_).path)
    place = _PLACE.fullmatch(request.path) if request.lines is None and request.from_ is None else None
    if place and runtime.store.documents.get(path=freshness.stored_path(runtime, request.path)) is None:
        return request.replace(path=place[1], lines=place[2])
    return request


def _requested_lines(request: GetRequest, total: int) -> tuple[int, int]:
    if request.lines is not None:
        lines = request.lines
        parsed = _RANGE.fullmatch(lines)
        if not parsed:
            raise BadParameter(
                f"lines {lines!r} cannot be read", hint='write them as search shows them, e.g. lines "42-56"'
            )
        first = int(parsed[1])
        last = int(parsed[3]) if parsed[3] else total if parsed[2] else first
    else:
        first = request.from_ or 1
        last = first + request.count - 1 if request.count else total
    if first < 1 or last < first or first > total:
        hint = advise("read-all-lines", path=request.path, lines=f"1-{total}")
        if last < first:
            raise OutOfRange(f"lines {first}-{last} end before they begin", hint=hint)
        raise OutOfRange(f"lines {first}-{last} are not in 1-{total}", hint=hint)
    return first, min(last, total)


_UNDATED = datetime.min.replace(tzinfo=UTC)  # last
# The same orders as in the index; ties go to the larger id.
_ORDER: Mapping[str, Callable[[Memory], tuple[Any, int]]] = {
    "created_at": lambda memory: (memory.attributes.created_at or _UNDATED, memory.id),
    "updated_at": lambda memory: (memory.updated_at, memory.id),
    "importance_weight": lambda memory: (memory.attributes.weight, memory.id),
}


def list_(runtime: Runtime, request: ListRequest, *, personal: Runtime | None = None) -> ListAnswer:
    """A page of memories. `personal`: the user's vault, whose memories are sorted in among the project's."""
    states = frozenset({State(request.state_filter)} if request.state_filter else ())
    where = Filter(
        spec_folder=clean_folder(request.spec_folder) if request.spec_folder else None,
        unfiled=request.unfiled,
        tiers=frozenset({Tier(request.tier)}) if request.tier else None,
        source=request.only_source,
        states=decay.bounds(states, now=runtime.now()) if states else None,
    )
    offset, forgotten = request.offset, request.forgotten
    presence = Presence.FORGOTTEN if forgotten else Presence.LIVE
    vaults = [runtime] if personal is None else [runtime, personal]
    total = sum(vault.store.documents.count(where, presence=presence) for vault in vaults)
    # With one vault the index skips the offset; with two, the offset applies after merging.
    last, passed_over = offset + request.limit, offset if personal is None else 0
    listed = (
        vault.store.documents.find(
            where, order=request.sort_by, limit=last - passed_over, offset=passed_over, presence=presence
        )
        for vault in vaults
    )
    memories = list(merge(*listed, key=_ORDER[request.sort_by], reverse=True))[offset - passed_over : last]
    cards: list[Card] = []
    problems: dict[int, tuple[Text, ...]] = {}
    code: dict[int, Code] = {}
    for vault in vaults:
        own = [memory for memory in memories if is_personal(memory.id) is (vault is personal)]
        problems |= {} if forgotten else remarks.problems_of(vault, own)
        code |= {} if forgotten or vault is personal else remarks.code_of(vault, own)
    git = remarks.git_status_of(runtime, memories)
    for memory in memories:
        mark = PERSONAL if personal is not None and is_personal(memory.id) else None
        changed = remarks.shortened_code(code[memory.id]) if memory.id in code else None
        cards.append(
            replace(
                (personal if mark and personal else runtime).card(memory),
                code=changed,
                vault=mark,
                git=git.get(memory.path),
            )
        )
    every = remarks.with_problems(cards, problems)
    fitting = answer_json.first_that_fit(every, max_tokens=request.max_tokens)
    shown_count = offset + len(fitting)
    advice: tuple[Text, ...] = ()
    if shown_count < total:
        advice = (advise("next-page", count=total - shown_count, offset=shown_count),)
    elif total and not fitting:
        advice = (advise("earlier-page", offset=max(0, total - request.limit)),)
    elif total and forgotten:
        advice = (runtime.bring_back,)
    elif not total and not forgotten:
        advice = (_when_empty(runtime, where.spec_folder),)
    if total:
        done = outcome("forgotten-listed" if forgotten else "listed", shown=len(fitting), total=total)
    else:
        done = outcome("no-forgotten-listed" if forgotten else "none-listed")
    return ListAnswer(
        outcome=done,
        advice=advice,
        memories=tuple(fitting),
        total=total,
        offset=offset,
    )


def _when_empty(runtime: Runtime, folder: str | None) -> Text:
    """Advice for an empty list."""
    if not runtime.store.documents.count():
        return runtime.nothing_yet()
    if folder and not runtime.store.documents.count(Filter(spec_folder=folder)):
        return runtime.folder_suggestions(folder)
    return advise("list-all")
