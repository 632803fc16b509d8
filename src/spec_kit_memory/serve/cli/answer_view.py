"""Which parts of an answer does the command line show?

Every answer becomes a few blocks: lines, tables, quoted passages. `terminal` draws them,
with colours on a terminal and as plain text in a pipe, so both have the same content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from itertools import groupby
from typing import Any

from spec_kit_memory import answers
from spec_kit_memory.advice import Text
from spec_kit_memory.answers import Answer
from spec_kit_memory.core import links
from spec_kit_memory.core.citations import Code
from spec_kit_memory.core.memory import HistoryEntry
from spec_kit_memory.core.wording import counted, since
from spec_kit_memory.serve.messages import for_person

# The first index of an old project may have hundreds of warnings; a few show what kinds there are.
MOST_WARNINGS = 5
MOST_IDS = 10


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    style: str = ""  # title | dim | good | bad | hint | ""


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()  # columns of numbers


@dataclass(frozen=True, slots=True)
class Quote:
    """Text of a memory; `terms` are the query's words to highlight."""

    text: str
    terms: tuple[str, ...] = ()
    indent: int = 2


Block = Line | Table | Quote


def draw_links(answer: answers.WhyAnswer, form: str = "tree") -> str:
    """The links as a text tree, as Mermaid, or as Graphviz DOT."""
    traversal = links.Traversal(answer.memory.id, answer.steps, answer.cycles, answer.truncated)
    titles = {card.id: card.title for card in (answer.memory, *answer.memories)}
    return links.DRAWINGS[form](traversal, titles)


def blocks(answer: Answer, *, now: datetime | None = None, **how: Any) -> Iterator[Block]:
    """The blocks of any answer; `how` is passed to the view of its class."""
    view = _VIEWS.get(type(answer))
    if view:
        yield from view(answer, now=now or datetime.now(UTC), **how)
    else:
        yield Line(answer.summary)
    for hint in answer.advice:
        yield Line(for_person(hint), "hint")


# --- formatting -------------------------------------------------------------------------


def ago(moment: datetime | None, now: datetime) -> str:
    """How long ago, in words."""
    if moment is None:
        return ""
    seconds = (now - moment).total_seconds()
    if seconds < 0:
        return moment.date().isoformat()
    said = since(seconds)
    return "yesterday" if said == "1 day ago" else said


def size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def _counts(counts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.items() if number) or "none"


_ANCHOR = re.compile(r"\s*<!--\s*/?ANCHOR:[^>]*-->\s*", re.IGNORECASE)


def _excerpt(text: str, lines: int = 8) -> str:
    """The beginning of a passage, without anchor comments."""
    text_lines = "\n".join(line for line in text.split("\n") if not _ANCHOR.fullmatch(line)).strip("\n").split("\n")
    return "\n".join(
        [*text_lines[:lines], f"… {counted(len(text_lines) - lines, 'more line')}"]
        if len(text_lines) > lines + 1
        else text_lines
    )


# --- search --------------------------------------------------------------------------------


def _search(answer: answers.SearchAnswer, *, now: datetime) -> Iterator[Block]:
    terms = tuple(answer.query.split())
    for rule in answer.constitutional:
        yield Line(f"Rule: {rule.title}  [{rule.id}]  {rule.path}", "hint")
    for number, result in enumerate(answer.results, 1):
        if isinstance(result, answers.FlatResult):
            yield Line(f"{number}. {result.path}:{result.lines}  {result.score:.2f}", "title")
            if result.supersedes:
                yield Line(f"   above {', '.join(map(str, result.supersedes))}, which it supersedes", "dim")
            yield Quote(_excerpt(result.text), terms)
            if result.explain:
                yield Line("   " + _explained(result.explain), "dim")
        else:
            yield from _result(number, result, terms, now)
    yield Line(_search_line(answer), "dim")
    if held_back := _held_back(answer.held_back):
        yield Line(held_back, "dim")
    for missing in answer.unavailable:
        yield Line(for_person(missing), "bad")


def _vault(name: str | None) -> str:
    """A mark for results from another vault, whose paths are not in this project."""
    return f"in your {name} memory" if name else ""


def _result(number: int, result: answers.Result, terms: tuple[str, ...], now: datetime) -> Iterator[Block]:
    yield Line(f"{number}. {result.title}  [{result.id}]  {result.score:.0f}/100", "title")
    marks = [f"{result.path}:{result.lines}", result.tier.value, result.state.value, ago(result.created_at, now)]
    if result.superseded_by:
        marks.append("superseded by " + ", ".join(map(str, result.superseded_by)))
    if result.supersedes:
        marks.append(f"above {', '.join(map(str, result.supersedes))}, which it supersedes")
    if result.contradicts:
        marks.append("contradicts " + ", ".join(map(str, result.contradicts)))
    if result.checkout:
        marks.append(f"in the {result.checkout} checkout")
    if not result.trusted:
        marks.append("not vouched for")
    marks.append(_vault(result.vault))
    yield Line("   " + "  ".join(mark for mark in marks if mark), "dim")
    if result.concepts:
        yield Line(
            "   " + ", ".join(f"{name} ({count or 'by meaning'})" for name, count in result.concepts.items()), "dim"
        )
    if result.code:
        yield Line("   " + _code(result.code), "bad")
    if result.question:
        yield Line(f"   answers: {result.question}", "dim")
    if result.already_sent:
        yield Line("   already sent to this session", "dim")
    if result.content or result.sections:
        for text in (result.content, *result.sections.values()):
            if text:
                yield Quote(text, terms)
    elif result.text:
        yield Quote(_excerpt(result.text), terms)
    if result.missing_anchors:
        yield Line("   no section " + ", ".join(result.missing_anchors), "bad")
    if result.explain:
        yield Line("   " + _explained(result.explain), "dim")


def _code(code: Code) -> str:
    kinds = (("changed since", code.changed), ("gone", code.gone), ("moved", code.moved))
    return "code " + "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds if names)


def _explained(parts: Mapping[str, Any]) -> str:
    parts_shown = [
        f"{name} {_as_text(part)}" for name, part in parts.items() if not isinstance(part, Mapping | list | tuple)
    ]
    if texts := parts.get("texts"):  # of the query, then of each --also
        parts_shown.append(f"relevance by text {' + '.join(_as_text(part) for part in texts)}")
    return ", ".join(parts_shown)


def _as_text(value: object) -> str:
    """A value as a person would write it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value.value if isinstance(value, Enum) else value)


def _search_line(answer: answers.SearchAnswer) -> str:
    shown_count = len(answer.results)
    amount = f"{shown_count} of {answer.total_found}" if answer.total_found > shown_count else str(shown_count)
    milliseconds = f", {answer.meta.latency_ms:.0f} ms" if answer.meta.latency_ms else ""
    return f"{amount} found by {answer.method}{milliseconds}{', cached' if answer.meta.cache_hit else ''}"


def _held_back(held_back: answers.HeldBack) -> str:
    counts = {
        "archived": held_back.archived,
        "dormant": held_back.dormant,
        "expired": held_back.expired,
        "below the minimum score": held_back.min_score,
        "about code that changed": held_back.stale,
    }
    if not any(counts.values()):
        return ""
    best = "; ".join(f"{memory.title} [{memory.id}] {memory.score:.0f}/100" for memory in held_back.best)
    return f"Held back: {_counts(counts)}" + (f" (best: {best})" if best else "")


# --- reading -----------------------------------------------------------------------------


def _load(answer: answers.LoadAnswer, *, now: datetime) -> Iterator[Block]:
    card = answer.memory
    yield Line(f"{card.title}  [{card.id}]", "title")
    yield Line(
        "  ".join(part for part in (f"{card.path}:{answer.lines}", card.tier, ago(card.created_at, now)) if part), "dim"
    )
    if answer.code:
        yield Line(_code(answer.code), "bad")
    yield Quote(answer.text.removesuffix("\n"), indent=0)
    if answer.next_line:
        yield Line(f"… goes on at line {answer.next_line}", "dim")
    if answer.tokens_saved:
        yield Line(f"{counted(answer.tokens_saved, 'token')} saved by reading one section", "dim")


def _get(answer: answers.GetAnswer, *, now: datetime) -> Iterator[Block]:
    yield Quote(answer.text.removesuffix("\n"), indent=0)


def _list(answer: answers.ListAnswer, *, now: datetime) -> Iterator[Block]:
    yield cards(answer.memories, now)
    ids_by_problem: dict[Text, list[str]] = {}
    for card in answer.memories:
        for problem in card.problems:
            ids_by_problem.setdefault(problem, []).append(str(card.id))
    for problem, ids in list(ids_by_problem.items())[:MOST_WARNINGS]:
        yield Line(f"{_memory_names(ids)}: {for_person(problem)}", "hint")
    if (omitted := len(ids_by_problem) - MOST_WARNINGS) > 0:
        yield Line(f"{counted(omitted, 'more remark')}; --json has them all", "hint")
    yield Line(answer.summary, "dim")


def _memory_names(ids: Sequence[str]) -> str:
    if len(ids) == 1:
        return f"memory {ids[0]}"
    omitted = len(ids) - MOST_IDS
    last = f"{omitted} more" if omitted > 0 else ids[-1]
    return f"each of {', '.join(ids[:-1] if omitted <= 0 else ids[:MOST_IDS])} and {last}"


def cards(memories: Iterable[answers.Card], now: datetime) -> Table:
    rows = tuple(
        (
            str(card.id),
            card.title,
            card.spec_folder or card.vault or "",
            card.tier.value,
            card.state.value,
            ago(card.created_at or card.updated_at, now),
        )
        for card in memories
    )
    return Table(("id", "title", "folder", "tier", "state", "created"), rows, frozenset({0}))


def _context(answer: answers.ContextAnswer, *, now: datetime) -> Iterator[Block]:
    yield Quote(answer.text, indent=0)
    for offer in answer.offers:
        title = f" {offer.title or ''}  [{offer.id}]" if offer.id is not None else ""
        yield Line(f"{offer.choice}{title}", "dim")


def _triggers(answer: answers.TriggerAnswer, *, now: datetime) -> Iterator[Block]:
    for match in answer.matches:
        via = f"  ({match.via})" if match.via else ""
        sure = f"  {match.confidence:.2f}" if match.confidence is not None else ""
        yield Line(f"{match.title}  [{match.id}]{sure}{via}", "title")
        marks = [match.path, ", ".join(match.phrases), _vault(match.vault)]
        yield Line("   " + "  ".join(filter(None, marks)), "dim")
        if match.content:
            yield Quote(_excerpt(match.content))
    for suggestion in answer.suggestions:
        yield Line(f"Suggests: {suggestion.kind} ({suggestion.phrase})", "hint")
    if not answer.matches:
        yield Line(answer.summary, "dim")


# --- index and health ---------------------------------------------------------------------


def _index(answer: answers.IndexAnswer, *, now: datetime) -> Iterator[Block]:
    yield Line(answer.summary, "good")
    for bad in answer.bad:
        yield Line(f"{bad.code} {bad.path}: {for_person(bad.message)}", "bad")
    for group in answer.skipped:
        more = ", …" if group.count > len(group.paths) else ""
        yield Line(f"not read, {for_person(group.reason)}: {group.count} ({', '.join(group.paths)}{more})", "dim")
    if answer.undiscovered:
        others = counted(answer.undiscovered, "markdown file is no memory", "markdown files are no memories")
        yield Line(f"{others}; memory.extraPaths can name some", "dim")
    if answer.archived:
        put_away = counted(answer.archived, "file is in an archive folder", "files are in archive folders")
        yield Line(f"{put_away}; search finds what is there with --include-archived", "dim")
    yield from _warnings(answer.warnings)


def _warnings(warnings: Sequence[answers.FileWarning]) -> Iterator[Block]:
    """The first warning of each file, so that one bad file does not hide the others; then more while there is room."""
    by_file: dict[str, list[answers.FileWarning]] = {}
    for warning in warnings:
        by_file.setdefault(warning.path, []).append(warning)
    files = list(by_file.items())[:MOST_WARNINGS]
    room = MOST_WARNINGS - len(files)
    for path, messages in files:
        first_messages = messages[: 1 + room]
        room -= len(first_messages) - 1
        for warning in first_messages:
            line = f":{warning.line}" if warning.line else ""
            yield Line(f"{path}{line}: {for_person(warning.message)}", "dim")
        if len(messages) > len(first_messages):
            yield Line(
                f"{path}: {counted(len(messages) - len(first_messages), 'more warning')}; --json lists all", "dim"
            )
    if len(by_file) > len(files):
        yield Line(f"… and {counted(len(by_file) - len(files), 'more file')} with warnings; --json lists all", "dim")


def _watch(answer: answers.WatchAnswer, *, now: datetime) -> Iterator[Block]:
    style = {"problem": "bad", "files": "good", "vectors": ""}.get(answer.kind, "dim")
    yield Line(f"{answer.at.astimezone():%H:%M:%S}  {answer.summary}", style)
    for bad in answer.bad:
        yield Line(f"          {bad.code} {bad.path}: {bad.message}", "bad")


_VECTOR_WORDS = {
    "success": "complete",
    "pending": "still to come",
    "retry": "to be tried again",
    "partial": "in part",
}
_WRITE_WORDS = {"atomic_writes": "saved", "deletes": "moved to the trash", "recoveries": "recovered after a crash"}


def _linked(links: Mapping[str, Any]) -> str:
    if not links.get("total"):
        return "none"
    relations = ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in links["relations"].items() if n)
    loose = f", {counted(links['orphans'], 'leads nowhere', 'lead nowhere')}" if links.get("orphans") else ""
    return (
        f"{links['total']} ({relations}), between {counted(links['linked'], 'memory')} "
        f"({links['coverage']:.0%} of all), of strength {links['averageStrength']:.2g} on average{loose}"
    )


def _model(embedding: answers.EmbeddingStats) -> str:
    if embedding.provider == "none":
        return "none"
    description = f"{embedding.provider}, not used yet"
    if embedding.model:
        description = f"{embedding.model} ({embedding.provider}, {embedding.dimensions} dimensions)"
    return f"{description}; {for_person(embedding.problem)}" if embedding.problem else description


def _stats(answer: answers.StatsAnswer, *, now: datetime) -> Iterator[Block]:
    yield Line(answer.summary, "title")
    last = ago(answer.last_indexed, now) or "never"
    facts: list[tuple[str, str]] = [
        ("tiers", _counts(answer.tiers)),
        ("states", _counts(answer.states)),
        ("sources", _counts(answer.sources)),
        ("vectors", _counts({_VECTOR_WORDS.get(name, name): n for name, n in answer.vectors.items()})),
        ("links", _linked(answer.links)),
        ("model", _model(answer.embedding)),
        *(("no vector", f"{count}: {why}") for why, count in answer.embedding.failures.items()),
        ("files written", _counts({_WRITE_WORDS.get(name, name): n for name, n in answer.transactions.items()})),
        ("size", size(answer.size_bytes)),
        ("last indexed", last),
    ]
    yield Table(("what", "how much"), tuple(facts))
    if answer.folders:
        rows = tuple((row.name, str(row.count), ago(row.newest, now)) for row in answer.folders)
        yield Table(("folder", "memories", "newest"), rows, frozenset({1}))


def _health(answer: answers.HealthAnswer, *, now: datetime) -> Iterator[Block]:
    yield Line(answer.summary, "good" if answer.healthy else "bad")
    yield Table(("check", "finding"), tuple((name, str(finding)) for name, finding in answer.checks.items()))
    for hint, problems in groupby(answer.problems, key=lambda problem: problem.hint):  # the same step is said once
        for problem in problems:
            kind = "notice, " if problem.notice else ""
            yield Line(f"{kind}{problem.check}: {problem.message}", "" if problem.notice else "bad")
        if hint:
            yield Line(for_person(hint), "hint")
    if answer.repaired:
        yield Line("Repaired: " + _counts(answer.repaired), "good")


# --- changing -----------------------------------------------------------------------------


def _save(answer: answers.SaveAnswer, *, now: datetime) -> Iterator[Block]:
    yield Line(answer.summary, "good")
    for memory in answer.similar:
        yield Line(f"Similar: {memory.title}  [{memory.id}]  {memory.path}", "dim")
    if answer.redacted:
        yield Line("Secrets replaced: " + _counts(answer.redacted), "bad")
    for warning in answer.warnings:
        yield Line(for_person(warning), "bad")
    if answer.triggers:
        yield Line("Triggers: " + ", ".join(answer.triggers), "dim")
    if answer.text:
        yield Quote(answer.text, indent=0)


def _chats(answer: answers.ChatAnswer, *, now: datetime) -> Iterator[Block]:
    yield Line(answer.summary, "good")
    rows = tuple((str(chat.id), chat.title, str(chat.turns)) for chat in answer.imported)
    yield Table(("id", "title", "turns"), rows, frozenset({0, 2}))


def _import(answer: answers.ImportAnswer, *, now: datetime) -> Iterator[Block]:
    yield Line(answer.summary, "good")
    for path in answer.unmatched[:10]:
        yield Line(f"no memory here: {path}", "dim")
    if len(answer.unmatched) > 10:
        yield Line(f"… and {len(answer.unmatched) - 10} more; --json lists all", "dim")


def _history(answer: answers.HistoryAnswer, *, now: datetime) -> Iterator[Block]:
    rows = tuple(
        (
            ago(entry.at, now),
            entry.event.value,
            str(entry.memory_id),
            entry.user or entry.actor.value,
            _event(entry),
        )
        for entry in answer.entries
    )
    yield Table(("when", "event", "memory", "by", "what"), rows, frozenset({2}))
    yield Line(answer.summary, "dim")
    if answer.ledger:
        yield Line(f"Ledger: {_chain(answer.ledger)}", "dim" if answer.ledger.ok else "bad")


def _event(entry: HistoryEntry) -> str:
    changed = _changed(entry.before, entry.after)
    if entry.merged_into:
        return f"{changed}, merged into #{entry.merged_into}"
    return f"took in #{entry.merged}, {changed}" if entry.merged else changed


def _chain(ledger: answers.LedgerState) -> str:
    if ledger.ok:
        return f"{counted(ledger.entries or 0, 'entry')}, every link holds"
    return f"the chain breaks at entry {ledger.broken_at}" if ledger.broken_at else "the chain is broken"


def _changed(before: Mapping[str, object] | None, after: Mapping[str, object] | None) -> str:
    """The fields that changed; for a memory that was added, removed or restored, its title."""
    if before is None or after is None or before.get("presence") != after.get("presence"):
        came_back = "is there again" if (after or {}).get("presence") == "live" else ""
        return str((after or before or {}).get("title") or came_back)
    if "link" in before or "link" in after:
        return _changed_link(before.get("link"), after.get("link"))
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    words = [_changed_value(name, before.get(name), after.get(name)) for name in changed if name != "fingerprint"]
    return ", ".join(words[:6]) or "indexed again, nothing changed"


def _changed_value(name: str, old: object, new: object) -> str:
    """The field's name, with the old and new value if they are short. A state omits false and empty values."""
    words = {"content_hash": "file", "triggers": "trigger phrases"}.get(name, name.replace("_", " "))
    if isinstance(old, list | tuple) or isinstance(new, list | tuple):
        values = " ".join(_changed_items(old or (), new or ()))
        return f"{words} {values}" if 0 < len(values) <= 60 else words
    if isinstance(old, bool) or isinstance(new, bool):
        return f"{words}: {_as_text(bool(new))}"
    if isinstance(old, int) or isinstance(new, int):
        old, new = old or 0, new or 0
    if name == "content_hash" or not all(isinstance(value, str | int | float) for value in (old, new)):
        return words
    values = f"{_as_text(old)} → {_as_text(new)}"
    return f"{words} {values}" if len(values) <= 60 else words


def _changed_items(old: object, new: object) -> Iterator[str]:
    """Each text that was added to a list, with "+", and each that was removed, with "-"."""
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        yield from (f"+{json.dumps(item, ensure_ascii=False)}" for item in new if item not in old)
        yield from (f"-{json.dumps(item, ensure_ascii=False)}" for item in old if item not in new)


def _changed_link(before: object, after: object) -> str:
    """Which link was added, removed or changed."""
    link = after or before
    if not isinstance(link, Mapping):
        return "link"
    description = f"link: #{link.get('source_id')} {link.get('relation')} #{link.get('target_id')}"
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        return f"{description} {'added' if after else 'removed'}"
    changed = [name for name in ("strength", "evidence") if before.get(name) != after.get(name)]
    return f"{description}, {' and '.join(changed) or 'origin'} changed"


def _checkpoints(answer: answers.CheckpointListAnswer, *, now: datetime) -> Iterator[Block]:
    rows = tuple(
        (
            f"{checkpoint.name} (unusable)" if checkpoint.problem else checkpoint.name,
            checkpoint.spec_folder or "all",
            str(checkpoint.memories),
            size(checkpoint.size_bytes),
            _when(checkpoint.created_at, now),
            checkpoint.description or "",
        )
        for checkpoint in answer.checkpoints
    )
    yield Table(("name", "folder", "memories", "size", "created", "description"), rows, frozenset({2, 3}))
    for checkpoint in answer.checkpoints:
        if checkpoint.problem:
            yield Line(checkpoint.problem, "bad")
    yield Line(answer.summary, "dim")


def _when(moment: object, now: datetime) -> str:
    return ago(moment, now) if isinstance(moment, datetime) else str(moment or "")


def _diff(answer: answers.CheckpointDiffAnswer, *, now: datetime) -> Iterator[Block]:
    yield Line(answer.summary)
    signs = (
        ("+", "good", answer.added),
        ("-", "bad", answer.removed),
        ("~", "", answer.changed),
    )
    for sign, style, rows in signs:
        for row in rows:
            changed = f"  ({', '.join(row.changed)})" if row.changed else ""
            yield Line(f"{sign} {row.title}  [{row.id}]  {row.path}{changed}", style)
    links = (
        ("+", "good", answer.links_added),
        ("-", "bad", answer.links_removed),
        ("~", "", answer.links_changed),
    )
    for sign, style, changes in links:
        for link in changes:
            yield Line(f"{sign} link #{link.source_id} {link.relation} #{link.target_id} ({link.strength})", style)


def _restored(answer: answers.CheckpointAnswer, *, now: datetime) -> Iterator[Block]:
    yield Line(answer.summary, "good")
    for path in answer.files_written:
        yield Line(f"wrote {path}", "dim")
    for path in answer.files_trashed:
        yield Line(f"moved {path} to the trash", "dim")
    for path in answer.files_refused:
        yield Line(f"not written: {path}", "bad")
    if answer.safety:
        yield Line(f"The state before is in checkpoint {answer.safety}", "dim")


def _ledger(answer: answers.LedgerAnswer, *, now: datetime) -> Iterator[Block]:
    yield Line(answer.summary, "good" if answer.ok else "bad")


def _why(answer: answers.WhyAnswer, *, now: datetime, form: str = "tree") -> Iterator[Block]:
    yield Quote(draw_links(answer, form), indent=0)
    if form == "tree":
        yield Line(answer.summary, "dim")
        if links_by_id := {step.link.id: step.link for step in answer.steps if step.link.id}:
            link_lines = (
                f"{id_} (#{link.source_id} {link.relation.value} #{link.target_id})"
                for id_, link in links_by_id.items()
            )
            yield Line("links, for `skm unlink`: " + ", ".join(link_lines), "dim")


_VIEWS: Mapping[type[Answer], Callable[..., Iterator[Block]]] = {
    answers.SearchAnswer: _search,
    answers.LoadAnswer: _load,
    answers.GetAnswer: _get,
    answers.ListAnswer: _list,
    answers.ContextAnswer: _context,
    answers.TriggerAnswer: _triggers,
    answers.IndexAnswer: _index,
    answers.WatchAnswer: _watch,
    answers.StatsAnswer: _stats,
    answers.HealthAnswer: _health,
    answers.SaveAnswer: _save,
    answers.ChatAnswer: _chats,
    answers.ImportAnswer: _import,
    answers.HistoryAnswer: _history,
    answers.CheckpointListAnswer: _checkpoints,
    answers.CheckpointDiffAnswer: _diff,
    answers.CheckpointAnswer: _restored,
    answers.LedgerAnswer: _ledger,
    answers.WhyAnswer: _why,
}
