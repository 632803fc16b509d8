"""How does a session's data become a memory document?

`read` (session data -> values or all problems) comes from `core.session_data`; this module renders
the document: front matter, one anchored section per kind of content, and nothing else. Content cannot
change the structure: comments, anchors and open code fences in it cannot break out of their section.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from unicodedata import normalize

from spec_kit_memory.advice import Advice, finding
from spec_kit_memory.core import front_matter, noise
from spec_kit_memory.core.fences import fenced, marker, may_hold, settle
from spec_kit_memory.core.links import mermaid_text
from spec_kit_memory.core.memory import CONTEXT_ALIASES, ContextType, Tier
from spec_kit_memory.core.session_data import (
    Decision,
    Message,
    Observation,
    SessionData,
    read,
)
from spec_kit_memory.core.wording import counted
from spec_kit_memory.core.words import content
from spec_kit_memory.errors import Invalid, TooLarge

__all__ = [
    "Rendered",
    "SessionData",
    "check_template",
    "context_type_of",
    "fact",
    "file_name",
    "metadata",
    "read",
    "render",
    "tier_of",
    "title_of",
    "topic_of",
    "without_noise",
]

TITLE_LENGTH = 90
TOPIC_LENGTH = 50
FLOW_STEPS = 24  # a chart with more is unreadable; the other sections have all steps in full
SECTIONS = (
    "summary",
    "state",
    "decisions",
    "artifacts",
    "context",
    "dialogue",
    "flow",
    "blockers",
    "next-steps",
    "metadata",
)
_PLACEHOLDER = re.compile(r"\{\{\s*([\w-]+)\s*\}\}")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s")
_SPEC_NUMBER = re.compile(r"(\d{3})-[^/]*$")
# Words that occur in most decisions, in addition to stop words.
_DECIDING = frozenset(
    {"chose", "choose", "chosen", "decide", "decided", "decision", "instead", "rather", "use", "using"}
)


@dataclass(frozen=True, slots=True)
class Rendered:
    """A finished document. `counts` has messages, decisions, files and diagrams."""

    text: str
    title: str
    topic: str
    tier: Tier
    context_type: ContextType
    counts: Mapping[str, int]
    warnings: tuple[Advice, ...] = ()
    questions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Page:
    """The session, and what else the sections are rendered from."""

    session: SessionData
    now_local: datetime
    spec_folder: str | None
    git: Mapping[str, str] = field(default_factory=dict)


# --- values derived from the data -----------------------------------------------


def without_noise(session: SessionData, *, patterns: Sequence[str] = ()) -> SessionData:
    """The session without system reminders, hook notices and bare tool lines; a warning counts dropped messages."""
    messages = [replace(message, text=noise.cleaned(message.text, patterns=patterns)) for message in session.messages]
    observations = [
        replace(
            observation,
            title=noise.cleaned(observation.title, patterns=patterns),
            text=noise.cleaned(observation.text, patterns=patterns),
            facts=tuple(fact_ for fact_ in observation.facts if noise.cleaned(fact_, patterns=patterns)),
        )
        for observation in session.observations
    ]
    kept_messages = tuple(message for message in messages if message.text)
    kept_observations = tuple(
        observation
        for observation in observations
        if observation.title or observation.text or observation.facts or observation.extra
    )
    dropped = len(messages) - len(kept_messages) + len(observations) - len(kept_observations)
    warnings = session.warnings
    if dropped:
        warnings += (finding("noise-left-out", count=dropped),)
    return replace(
        session,
        summary=noise.cleaned(session.summary, patterns=patterns),
        messages=kept_messages,
        observations=kept_observations,
        warnings=warnings,
    )


def decisions_of(session: SessionData) -> tuple[Decision, ...]:
    """The decisions, and the observations of the kind "decision"."""
    return session.decisions + tuple(
        _as_decision(observation) for observation in session.observations if _decides(observation)
    )


def _decides(observation: Observation) -> bool:
    return observation.kind.casefold() == "decision"


def _as_decision(observation: Observation) -> Decision:
    extra: dict[str, object] = {}
    if observation.facts:
        extra["facts"] = list(observation.facts)
    if observation.files:
        extra["files"] = list(observation.files)
    if observation.time:
        extra["time"] = observation.time
    text = observation.title or observation.text or "; ".join(observation.facts)
    return Decision(text, rationale=observation.text if observation.title else "", extra={**extra, **observation.extra})


def tier_of(session: SessionData) -> Tier:
    """The requested tier; else important if decisions were made, else normal."""
    return session.tier or (Tier.IMPORTANT if decisions_of(session) else Tier.NORMAL)


def context_type_of(session: SessionData) -> ContextType:
    """The requested type; else the most frequent kind of observation; else by whether there are files or decisions."""
    if session.context_type:
        return session.context_type
    kinds = [_kind_of(observation.kind) for observation in session.observations]
    given_kinds = [kind for kind in kinds if kind is not None]
    if given_kinds:
        return max(ContextType, key=lambda kind: (given_kinds.count(kind), -list(ContextType).index(kind)))
    if session.files:
        return ContextType.IMPLEMENTATION
    return ContextType.DECISION if session.decisions else ContextType.GENERAL


def _kind_of(word: str) -> ContextType | None:
    word = word.casefold()
    if word in set(ContextType):
        return ContextType(word) if word != ContextType.GENERAL else None
    return {"change": ContextType.IMPLEMENTATION, **CONTEXT_ALIASES}.get(word)


def title_of(session: SessionData, *, spec_folder: str | None = None) -> str:
    """The given title; else the first sentence of the first text."""
    if session.title:
        return session.title
    texts = [session.summary, *(decision.text for decision in decisions_of(session))]
    texts += [observation.title or observation.text for observation in session.observations] + [
        message.text for message in session.messages
    ]
    texts += [*session.next_steps, *session.blockers]
    for text in texts:
        line = next((line.strip(" #*>-\t") for line in text.split("\n") if any(map(str.isalnum, line))), "")
        if line:
            return shorten(_SENTENCE_END.split(line, maxsplit=1)[0].rstrip(" .:"), TITLE_LENGTH)
    return _folder_topic(spec_folder).replace("-", " ") or "Session"


def shorten(text: str, length: int) -> str:
    text = " ".join(text.split())
    if len(text) <= length:
        return text
    cut = text[: length - 1].rsplit(" ", 1)[0] if " " in text[: length - 1] else text[: length - 1]
    return f"{cut.rstrip(' ,;:.')}…"


def _folder_topic(spec_folder: str | None) -> str:
    return re.sub(r"^\d+-", "", (spec_folder or "").rsplit("/", 1)[-1])


def topic_of(session: SessionData, *, spec_folder: str | None = None) -> str:
    """The topic for the file name: the title if one was given, else the folder, else the first words."""
    for candidate in (session.title, _folder_topic(spec_folder), title_of(session)):
        slug = _slug(candidate)
        if slug:
            return slug
    return "session"


def _slug(text: str) -> str:
    words = re.findall(r"[^\W_]+", normalize("NFKC", text).casefold())
    slug = ""
    for word in words:
        if slug and len(slug) + len(word) >= TOPIC_LENGTH:
            break
        slug = f"{slug}-{word}" if slug else word[:TOPIC_LENGTH]
    return slug


def file_name(now_local: datetime, topic: str, *, number: int = 1) -> str:
    """`DD-MM-YY_HH-MM__<topic>.md`; the second file of the same minute ends in `-2`."""
    suffix = f"-{number}" if number > 1 else ""
    return f"{now_local:%d-%m-%y_%H-%M}__{topic}{suffix}.md"


# --- the document -----------------------------------------------------------------


def render(
    session: SessionData,
    *,
    now_local: datetime,
    spec_folder: str | None,
    triggers: Sequence[str] = (),
    tier: Tier | None = None,
    context_type: ContextType | None = None,
    template: str | None = None,
    git: Mapping[str, str] | None = None,
) -> Rendered:
    """The memory document of a session. It contains nothing that was not given."""
    page = _Page(session, now_local, spec_folder, git or {})
    tier = tier or tier_of(session)
    context_type = context_type or context_type_of(session)
    title = title_of(session, spec_folder=spec_folder)
    front = _front_matter(page, title=title, tier=tier, context_type=context_type, triggers=triggers)
    sections = {name: _section(name, body) for name, body in _bodies(page).items() if body}
    counts = {
        "messages": len(session.messages),
        "decisions": len(decisions_of(session)),
        "files": len(_paths(session)),
        "diagrams": 1 if "flow" in sections else 0,
    }
    if template is None:
        text = "\n\n".join([front, f"# {_inline(title)}", *sections.values()]) + "\n"
    else:
        text = _fill(template, front=front, title=_inline(title), page=page, sections=sections)
    topic = topic_of(session, spec_folder=spec_folder)
    return Rendered(text, title, topic, tier, context_type, counts, session.warnings, session.questions)


def fact(
    text: str,
    *,
    now_local: datetime,
    spec_folder: str | None = None,
    title: str = "",
    triggers: Sequence[str] = (),
    tier: Tier | None = None,
    context_type: ContextType | None = None,
    git: Mapping[str, str] | None = None,
) -> Rendered:
    """The document of a single remembered fact."""
    session = read({"sessionSummary": text, "title": title}, constitutional=True)
    session = replace(session, context_type=context_type, tier=tier)
    rendered = render(session, now_local=now_local, spec_folder=spec_folder, triggers=triggers, git=git)
    return replace(rendered, topic=_slug(title or title_of(session)) or "fact")


def metadata(
    rendered: Rendered,
    *,
    file: str,
    now_local: datetime,
    spec_folder: str | None,
    triggers: Sequence[str] = (),
    topics: Sequence[str] = (),
    vector_status: str = "pending",
    git: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The content of `metadata.json`, which describes the newest save."""
    return {
        "timestamp": now_local.isoformat(timespec="seconds"),
        "specFolder": spec_folder,
        "file": file,
        "title": rendered.title,
        "importanceTier": rendered.tier.value,
        "contextType": rendered.context_type.value,
        "counts": dict(rendered.counts),
        "topics": list(topics),
        "triggerPhrases": list(triggers),
        "questions": list(rendered.questions),
        "vectorStatus": vector_status,
        "git": {"branch": (git or {}).get("branch"), "commit": (git or {}).get("commit")},
    }


def _front_matter(page: _Page, *, title: str, tier: Tier, context_type: ContextType, triggers: Sequence[str]) -> str:
    session = page.session
    lines = ["---", f"title: {_yaml(title)}", f"created: {page.now_local.isoformat(timespec='seconds')}"]
    lines += [f"importance_tier: {tier.value}", f"context_type: {context_type.value}"]
    if triggers:
        lines += ["trigger_phrases:", *(f"  - {_yaml(phrase)}" for phrase in triggers)]
    if session.questions:
        lines += ["questions:", *(f"  - {_yaml(question)}" for question in session.questions)]
    if any(session.links.values()):
        lines.append("causal_links:")
        for relation, targets in session.links.items():
            lines += [f"  {relation}:", *(f"    - {_yaml(target)}" for target in targets)] if targets else []
    if session.session_id:
        lines.append(f"session_id: {_yaml(session.session_id)}")
    if session.channel:
        lines.append(f"channel: {_yaml(session.channel)}")
    if reason := front_matter.refusal("\n".join(lines[1:]) + "\n"):
        raise TooLarge(
            f"The title, phrases, questions and links are too much: {reason}.",
            hint="Save fewer or shorter ones; nothing was written.",
        )
    return "\n".join([*lines, "---"])


def _yaml(text: str) -> str:
    """A double-quoted YAML string on one line."""
    quoted = json.dumps(" ".join(text.split()), ensure_ascii=False).replace("<!--", "\\u003c!--")
    return "".join(character if character.isprintable() else _yaml_code(character) for character in quoted)


def _yaml_code(character: str) -> str:
    code = ord(character)
    if 0xD800 <= code < 0xE000:
        return "\ufffd"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _section(name: str, body: str) -> str:
    heading = name.replace("-", " ").capitalize()
    return f"<!-- ANCHOR:{name} -->\n## {heading}\n\n{body}\n<!-- /ANCHOR:{name} -->"


def _bodies(page: _Page) -> dict[str, str]:
    writers: dict[str, Callable[[_Page], str]] = {
        "summary": lambda page: _block(page.session.summary),
        "state": _state,
        "decisions": _decisions,
        "artifacts": _artifacts,
        "context": _context,
        "dialogue": _dialogue,
        "flow": _flow,
        "blockers": lambda page: _items(page.session.blockers),
        "next-steps": lambda page: _items(page.session.next_steps),
        "metadata": _metadata_section,
    }
    return {name: writers[name](page) for name in SECTIONS}


def _state(page: _Page) -> str:
    session = page.session
    parts = [_entries(session.state)] if session.state else []
    if session.recent:
        parts.append("**Recently:**\n\n" + "\n\n".join(_recent(entry) for entry in session.recent))
    if session.next_steps:
        parts.append(f"**Next:** {_first(session.next_steps)}")
    if session.blockers:
        parts.append(f"**Blocked by:** {_first(session.blockers)}")
    return "\n\n".join(parts)


def _recent(entry: Mapping[str, object]) -> str:
    return _block(str(entry[""])) if set(entry) == {""} else _entries(entry)


def _first(items: Sequence[str]) -> str:
    more = f" (1 of {len(items)})" if len(items) > 1 else ""
    return f"{_inline(shorten(items[0], 200))}{more}"


def _decisions(page: _Page) -> str:
    used_anchors: set[str] = set()
    written = []
    for number, decision in enumerate(decisions_of(page.session), start=1):
        anchor = _decision_anchor(decision, number, page.spec_folder, used_anchors)
        used_anchors.add(anchor)
        body = "\n\n".join(_decision_parts(decision, number))
        written.append(f"<!-- ANCHOR:{anchor} -->\n{body}\n<!-- /ANCHOR:{anchor} -->")
    return "\n\n".join(written)


def _decision_parts(decision: Decision, number: int) -> list[str]:
    text = _block(decision.text)
    plain = "\n" not in text and len(text) <= 100 and not set("#{}<>&") & set(text)
    parts = [f"### {text}"] if plain else [f"### Decision {number}", text]
    if decision.chosen:
        parts.append(_labelled("Chosen", decision.chosen))
    if decision.rationale:
        parts.append(_labelled("Why", decision.rationale))
    if decision.alternatives:
        parts.append(f"**Alternatives:**\n\n{_items(decision.alternatives)}")
    if decision.extra:
        parts.append(_entries(decision.extra))
    return parts


def _decision_anchor(decision: Decision, number: int, spec_folder: str | None, used_anchors: set[str]) -> str:
    """`decision-<keywords>-<spec number>`, unique in the document."""
    words = [word for word in content(decision.text) if word.isascii() and len(word) > 1]
    keywords = [word for word in words if word not in _DECIDING and not word.isdigit()][:3]
    spec_number = _SPEC_NUMBER.search(spec_folder or "")
    parts = ["decision", *(keywords or [str(number)]), *([spec_number[1]] if spec_number else [])]
    anchor = "-".join(part[:24] for part in parts)
    return anchor if anchor not in used_anchors else f"{anchor}-{number}"


def _paths(session: SessionData) -> list[str]:
    changed_paths = [change.path for change in session.files]
    return list(
        dict.fromkeys(changed_paths + [path for observation in session.observations for path in observation.files])
    )


def _artifacts(page: _Page) -> str:
    lines = []
    for change in page.session.files:
        line = f"- {_code(change.path)}"
        if change.description:
            line += f": {_hanging(change.description)}"
        lines.append(line)
        lines += [f"  - {_inline(key)}: {_inline(_json(value))}" for key, value in change.extra.items()]
    listed = {change.path for change in page.session.files}
    lines += [f"- {_code(path)}" for path in _paths(page.session) if path not in listed]
    return "\n".join(lines)


def _context(page: _Page) -> str:
    session = page.session
    parts = [_entries(session.technical)] if session.technical else []
    parts += [_observation_text(observation) for observation in session.observations if not _decides(observation)]
    if session.other:
        parts.append(f"### Other fields\n\n{fenced(_json(session.other, indent=2), language='json')}")
    return "\n\n".join(parts)


def _observation_text(observation: Observation) -> str:
    heading = _inline(observation.title) if observation.title and not set("#{}<>&") & set(observation.title) else ""
    kind = _inline(observation.kind)
    kind = kind[:1].upper() + kind[1:] or "Observation"
    parts = [f"### {kind}: {heading}" if heading else f"### {kind}"]
    if observation.title and not heading:
        parts.append(_block(observation.title))
    if observation.time:
        parts.append(f"*{_inline(observation.time)}*")
    if observation.text and observation.text != observation.title:
        parts.append(_block(observation.text))
    if observation.facts:
        parts.append(_items(observation.facts))
    if observation.extra:
        parts.append(_entries(observation.extra))
    return "\n\n".join(parts)


def _dialogue(page: _Page) -> str:
    return "\n\n".join(_message_text(message) for message in page.session.messages)


def _message_text(message: Message) -> str:
    time = f" ({_inline(message.time)})" if message.time else ""
    extra = f"\n\n{_entries(message.extra)}" if message.extra else ""
    return f"**{_inline(message.speaker)}**{time}:\n\n{_block(message.text)}{extra}"


def _flow(page: _Page) -> str:
    """A chart of observations and decisions, or of user messages, in the given order."""
    session = page.session
    steps = [
        (observation.title or shorten(observation.text, 60) or observation.kind, _decides(observation))
        for observation in session.observations
    ]
    if not steps:
        steps = [(message.text, False) for message in session.messages if message.speaker == "user"]
    steps += [(decision.text, True) for decision in session.decisions]
    if len(steps) < 2:
        return ""
    nodes = [
        f'{"{{" if decided else "["}"{mermaid_text(shorten(text, 60))}"{"}}" if decided else "]"}'
        for text, decided in steps[:FLOW_STEPS]
    ]
    more = (
        f"\n\n{counted(len(steps) - FLOW_STEPS, 'more step is', 'more steps are')} not drawn."
        if len(steps) > FLOW_STEPS
        else ""
    )
    return f"{chart(nodes)}{more}"


def chart(steps: Sequence[str]) -> str:
    """A Mermaid chart of steps in a row; each step includes the brackets that determine its shape."""
    nodes = [f"    s{number}{step}" for number, step in enumerate(steps, start=1)]
    chain = " --> ".join(f"s{number}" for number in range(1, len(nodes) + 1))
    return "\n".join(["```mermaid", "flowchart TD", *nodes, f"    {chain}", "```"])


def _metadata_section(page: _Page) -> str:
    session = page.session
    # Only the day, so that saving the same session again a minute later yields the same text.
    lines = [f"- Saved: {page.now_local:%Y-%m-%d}"]
    if page.spec_folder:
        lines.append(f"- Spec folder: {_code(page.spec_folder)}")
    if page.git.get("branch") or page.git.get("commit"):
        lines.append("- Git: " + " at ".join(_code(page.git[key]) for key in ("branch", "commit") if page.git.get(key)))
    counts = counts_lines(len(session.messages), len(decisions_of(session)), len(_paths(session)))
    return "\n".join([*lines, *counts])


def counts_lines(messages: int, decisions: int, files: int) -> list[str]:
    counted = [("message", messages), ("decision", decisions), ("file", files)]
    parts = [f"{count} {name}" if count == 1 else f"{count} {name}s" for name, count in counted if count]
    return [f"- Counts: {', '.join(parts)}"] if parts else []


# --- making given text safe -------------------------------------------------------


def _escape(text: str) -> str:
    """The text with comments disabled, so that it can neither contain an anchor nor comment out what follows."""
    return text.replace("<!--", "&lt;!--")


def _inline(text: str) -> str:
    """The text on one line, which does not open a fence anywhere in the document."""
    line = _escape(" ".join(text.split()))
    return f"\\{line}" if line.startswith(("```", "~~~")) else line


def _block(text: str) -> str:
    """The text with every code fence closed; if its fences are ambiguous, all of it as one code block."""
    text = text.strip("\n").rstrip()
    if not may_hold(text):
        return _escape(text)
    lines = text.split("\n")
    settled = settle(lines)
    if settled is None:
        return fenced(text, language="text")
    code, still_open = settled
    safe = [line if at in code else _escape(line) for at, line in enumerate(lines)]
    return "\n".join([*safe, still_open] if still_open else safe)


def _labelled(label: str, text: str) -> str:
    body = _block(text)
    return f"**{label}:**\n\n{body}" if "\n" in body else f"**{label}:** {body}"


def _items(texts: Iterable[str]) -> str:
    return "\n".join(f"- {_hanging(text)}" for text in texts)


def _hanging(text: str) -> str:
    """The text of a list item. Text with a fence starts on a line of its own, so that the fence remains one."""
    body = _block(text)
    if any(marker(line) for line in body.split("\n")):
        return "\n\n" + body + "\n"
    return body.replace("\n", "\n  ")


def _entries(values: Mapping[str, object]) -> str:
    """Fields as a list of names and values; nested values as JSON, so that nothing is lost."""
    parts = []
    for key, value in values.items():
        name = _inline(str(key))
        if isinstance(value, str):
            parts.append(f"- **{name}:** {_hanging(value)}" if name else f"- {_hanging(value)}")
        elif isinstance(value, list) and all(isinstance(item, str) for item in value):
            parts.append(f"- **{name}:**\n" + "\n".join(f"  - {_inline(item)}" for item in value))
        elif isinstance(value, Mapping | list):
            parts.append(f"- **{name}:**\n\n{fenced(_json(value, indent=2), language='json')}\n")
        else:
            parts.append(f"- **{name}:** {_inline(_json(value))}")
    return "\n".join(parts).rstrip("\n")


def _json(value: object, *, indent: int | None = None) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=indent).replace("<!--", "\\u003c!--")


def _code(text: str) -> str:
    """Inline code, with more back quotes around it than it contains."""
    text = _inline(text)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    if not longest:
        return f"`{text}`"
    marks = "`" * (longest + 1)
    return f"{marks} {text} {marks}"


# --- the user's own template --------------------------------------------------------


def _values(*, front: str, title: str, page: _Page, sections: Mapping[str, str]) -> dict[str, str]:
    return {
        "front_matter": front,
        "title": title,
        "date": f"{page.now_local:%Y-%m-%d}",
        "time": f"{page.now_local:%H:%M}",
        "spec_folder": page.spec_folder or "",
        **{name.replace("-", "_"): sections.get(name, "") for name in SECTIONS},
    }


def check_template(template: str) -> None:
    """Raise Invalid if a template has unknown placeholders."""
    placeholders = {name.replace("-", "_") for name in SECTIONS} | {
        "front_matter",
        "title",
        "date",
        "time",
        "spec_folder",
    }
    placeholders.add("sections")
    used = {match[1] for match in _PLACEHOLDER.finditer(template)}
    problems = [
        f"the template has {{{{{name}}}}}" for name in sorted(used) if name.replace("-", "_") not in placeholders
    ]
    if problems:
        raise Invalid(
            f"The template names what does not exist: {'; '.join(problems)}.",
            hint=f"Placeholders are: {', '.join(sorted(placeholders))}.",
            problems=problems,
        )


def _fill(template: str, *, front: str, title: str, page: _Page, sections: Mapping[str, str]) -> str:
    """The template with its placeholders filled. Sections without a placeholder are appended."""
    check_template(template)
    values = _values(front=front, title=title, page=page, sections=sections)
    placed = {match[1].replace("-", "_") for match in _PLACEHOLDER.finditer(template)}
    rest = "\n\n".join(text for name, text in sections.items() if name.replace("-", "_") not in placed)
    values["sections"] = rest
    inserted: set[str] = set()

    def value(match: re.Match[str]) -> str:
        name = match[1].replace("-", "_")
        # A section is inserted only once, since anchors must not be repeated.
        text = "" if name in inserted and name not in ("title", "date", "time", "spec_folder") else values[name]
        inserted.add(name)
        return text

    text = _PLACEHOLDER.sub(value, template.replace("\r\n", "\n"))
    if "front_matter" not in placed:
        text = f"{front}\n\n{text.lstrip()}"
    if "sections" not in placed and rest:
        text = f"{text.rstrip()}\n\n{rest}"
    return re.sub(r"\n{4,}", "\n\n\n", text).rstrip() + "\n"
