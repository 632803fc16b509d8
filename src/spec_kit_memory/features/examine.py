"""What does the index have about one memory? For a person who assesses it, so viewing does not count as use."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import Any

from spec_kit_memory.advice import finding, outcome
from spec_kit_memory.core import decay, markdown
from spec_kit_memory.core.memory import HistoryEntry, Memory
from spec_kit_memory.core.wording import counted
from spec_kit_memory.errors import OutOfRange
from spec_kit_memory.features import freshness, merge, near_duplicates, remarks
from spec_kit_memory.features.past_rows import EXTRAS
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files import activity
from spec_kit_memory.page_answers import (
    DiffLine,
    ExamineAnswer,
    Section,
    UseDay,
    ValueDifference,
    Version,
    VersionsAnswer,
)
from spec_kit_memory.requests import ExamineRequest, VersionsRequest

USE_DAYS = 90
DIFF_CONTEXT = 3
MOST_DIFF_LINES = 10_000  # of both texts together; comparing longer ones line by line takes seconds
# Fields of a history row that a person would not compare.
_NOT_COMPARED = {*EXTRAS, "content_hash", "fingerprint", "first_indexed_at", "redactions"}


def examine(runtime: Runtime, request: ExamineRequest) -> ExamineAnswer:
    older = freshness.refresh(runtime, runtime.store.documents.get(request.id).path)
    memory = runtime.store.documents.get(request.id)
    text = runtime.store.documents.text(memory.id)
    document = markdown.outline(text)
    similar = near_duplicates.similar_to(runtime, memory) if request.similar else ()
    others = {other.id: other for other in runtime.store.documents.many([row["id"] for row in similar])}
    problems = remarks.problems_of(runtime, [memory], slips=True)
    now = runtime.now()
    return ExamineAnswer(
        outcome=outcome("named", title=memory.title, id=memory.id),
        advice=(older,) if older else (),
        memory=replace(
            remarks.with_problems([runtime.card(memory)], problems)[0],
            code=remarks.code_of(runtime, [memory]).get(memory.id),
        ),
        text=text,
        outline=tuple(_sections(document)),
        first_indexed_at=memory.first_indexed_at,
        last_access=memory.last_access,
        expires_at=memory.attributes.expires_at,
        outdated=memory.outdated,
        recency=recency(runtime, memory, now),
        redactions=memory.redactions,
        body_line=document.body_first_line,
        use=tuple(_use(runtime, memory, now)),
        similar=similar,
        mergeable=tuple(other.id for other in others.values() if not merge.obstacle(other, memory)),
    )


def recency(runtime: Runtime, memory: Memory, now: datetime) -> float:
    """The decay factor of a memory, by the configured model."""
    return decay.factor(
        memory.tier,
        model=runtime.settings.decay.model,
        days=decay.days_since(memory.last_access, memory.attributes.own_date, now),
        state=runtime.state(memory),
        settings=runtime.settings.decay,
    )


def _sections(document: Any) -> Iterator[Section]:
    """The sections by anchors, and by headings outside of them, in the order of the text."""
    levels = {heading.first_line: heading for heading in document.headings}
    anchored_lines = {line for anchor in document.anchors for line in range(anchor.first_line, anchor.last_line + 1)}
    rows = [Section(id=a.id, title=_title(a, levels), level=2, first_line=a.first_line, last_line=a.last_line)
            for a in document.anchors]  # fmt: skip
    rows += [
        Section(id=h.slug, title=h.text, level=h.level, first_line=h.first_line, last_line=h.last_line)
        for h in document.headings
        if h.first_line not in anchored_lines
    ]
    yield from sorted(rows, key=lambda row: (row.first_line, row.level))


def _title(anchor: Any, headings: Mapping[int, Any]) -> str:
    inside = (headings[line] for line in range(anchor.first_line, anchor.last_line + 1) if line in headings)
    first = next(inside, None)
    return str(first.text if first else anchor.id.replace("-", " "))


def _use(runtime: Runtime, memory: Memory, now: datetime) -> Iterator[UseDay]:
    """Uses and states of the last days, as far as they are recorded."""
    tallies = activity.read(runtime.settings)
    uses = {t.day: round(t.count) for t in tallies if t.kind == activity.USE and t.key == str(memory.id)}
    days = sorted(uses)
    first = max(memory.first_indexed_at.astimezone(UTC).date(), now.date() - timedelta(days=USE_DAYS - 1))
    for offset in range((now.date() - first).days + 1):
        day = first + timedelta(days=offset)
        end = min(now, datetime.combine(day, time.max, UTC))
        before = bisect_right(days, day)
        last = datetime.combine(days[before - 1], time.max, UTC) if before else None
        state = decay.state(
            tier=memory.tier,
            last_access=min(last, end) if last else None,
            first_indexed_at=min(memory.first_indexed_at, end),
            now=end,
            flagged=memory.archived_folder,
        )
        yield UseDay(day=day, uses=uses.get(day, 0), state=state if day != now.date() else runtime.state(memory))


# --- versions ---------------------------------------------------------------------------


def versions(runtime: Runtime, request: VersionsRequest) -> VersionsAnswer:
    entries = [
        entry
        for entry in reversed(runtime.store.record.history(request.id))
        if entry.after and "link" not in entry.after
    ]
    rows = [_version(number, entry) for number, entry in enumerate(entries, 1)]
    older, newer = _compared(request, rows)
    before, after = _values(entries, older), _values(entries, newer)
    return VersionsAnswer(
        outcome=outcome("versions", count=len(rows), id=request.id),
        memory_id=request.id,
        versions=tuple(reversed(rows)),
        older=older,
        newer=newer,
        diff=tuple(_diff(_text(runtime, before), _text(runtime, after))) if newer else (),
        values=tuple(_differences(before, after)) if newer else (),
    )


def _version(number: int, entry: HistoryEntry) -> Version:
    before, after = entry.before or {}, entry.after or {}
    differing = sorted(
        name for name in {**before, **after} if before.get(name) != after.get(name) and name not in _NOT_COMPARED
    )
    text = before.get("content_hash") != after.get("content_hash")
    return Version(
        number=number,
        at=entry.at,
        actor=entry.actor.value,
        event=entry.event.value,
        user=entry.user,
        changed=tuple(differing) if before else (),
        text=text,
        hash=str(after.get("content_hash") or "")[:12],
    )


def _compared(request: VersionsRequest, rows: Sequence[Version]) -> tuple[int | None, int | None]:
    """Which two versions to compare: the requested ones, else the last one and its predecessor."""
    if not rows:
        return None, None
    newer = request.newer or rows[-1].number
    older = newer - 1 if request.older is None else request.older
    if newer > len(rows) or older >= newer:
        raise OutOfRange(
            f"versions {older} and {newer} of {len(rows)} cannot be compared", hint="name an older and a newer one"
        )
    return older, newer


def _values(entries: Sequence[HistoryEntry], number: int | None) -> Mapping[str, object]:
    return (entries[number - 1].after or {}) if number else {}


def _text(runtime: Runtime, values: Mapping[str, object]) -> str:
    hash_ = values.get("content_hash")
    return (runtime.store.documents.text(content_hash=str(hash_)) or "") if hash_ else ""


def _differences(before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[ValueDifference]:
    for name in {**before, **after} if before else ():
        if name not in _NOT_COMPARED and before.get(name) != after.get(name):
            yield ValueDifference(name=name, before=before.get(name), after=after.get(name))


def _diff(old: str, new: str) -> Iterator[DiffLine]:
    """The differing lines, with a few lines of context."""
    if old == new:
        return
    from difflib import SequenceMatcher

    a, b = old.split("\n") if old else [], new.split("\n") if new else []
    if len(a) + len(b) > MOST_DIFF_LINES:
        yield DiffLine(kind="skipped", text=str(finding("too-many-lines", count=len(a) + len(b))))
        return
    end = 0
    # With `autojunk`, lines that are all over a long text, such as empty ones, do not align it: two thousand of them
    # would take twenty seconds.
    for group in SequenceMatcher(None, a, b).get_grouped_opcodes(DIFF_CONTEXT):
        if group[0][1] > end:
            yield DiffLine(kind="skipped", text=str(finding("unchanged-lines", count=group[0][1] - end)))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                for i, j in zip(range(i1, i2), range(j1, j2), strict=True):
                    yield DiffLine(kind="same", text=a[i], old_line=i + 1, new_line=j + 1)
                continue
            yield from (DiffLine(kind="removed", text=a[i], old_line=i + 1) for i in range(i1, i2))
            yield from (DiffLine(kind="added", text=b[j], new_line=j + 1) for j in range(j1, j2))
        end = group[-1][2]
    if len(a) > end:
        yield DiffLine(kind="skipped", text=counted(len(a) - end, "unchanged line"))
