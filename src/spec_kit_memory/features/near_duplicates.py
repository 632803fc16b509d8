"""Is there a memory already that says nearly the same, and what becomes of the two?

Candidates come from the text index; the score compares runs of words (`core.similar`).
Nothing is merged unless the caller asked for it, and both texts stay recoverable.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from spec_kit_memory.core import front_edit, markdown, operation, tokens, words
from spec_kit_memory.core import similar as likeness
from spec_kit_memory.core.memory import Filter, Memory, Source, Tier
from spec_kit_memory.core.session_document import Rendered
from spec_kit_memory.core.tiers import TABLE
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.features.sessions import body
from spec_kit_memory.files import disk, trash

# Near-copies share most words, so they are among the best text matches.
CANDIDATES = 20
SHOWN = 5
# Texts of so different a length cannot share enough to be near-copies: they need not be read.
LEAST_RATIO = 0.2
_SEARCHED = Filter(tiers=frozenset(set(Tier) - {Tier.DEPRECATED}))
_SAID = 4000
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


def similar(runtime: Runtime, text: str, *, except_id: int | None = None) -> tuple[Mapping[str, Any], ...]:
    """The memories whose score with this text is at the threshold or above, best first."""
    own = body(text)
    signature, size = likeness.signature(own), max(1, tokens.count(own))
    hits = runtime.store.match_text(words.for_query(own[:_SAID]), _SEARCHED, CANDIDATES * 10)
    ids = [id_ for id_ in dict.fromkeys(hit.memory_id for hit in hits) if id_ != except_id][:CANDIDATES]
    found: list[dict[str, Any]] = []
    for memory in runtime.store.many(ids):
        if memory.source is Source.CHAT or not LEAST_RATIO < memory.tokens / size < 1 / LEAST_RATIO:
            continue
        score = likeness.score(signature, likeness.signature(body(runtime.store.text(memory.id))))
        if score >= likeness.THRESHOLD:
            found.append({"id": memory.id, "title": memory.title, "path": memory.path, "score": round(score, 3)})
    return tuple(sorted(found, key=lambda row: (-row["score"], row["id"]))[:SHOWN])


def same(runtime: Runtime, text: str, *, spec_folder: str | None) -> Memory | None:
    """The memory of that folder with exactly this text, case, spacing and dates apart."""
    fingerprint = markdown.fingerprint(markdown.parse(text))
    if not fingerprint:
        return None
    return next((m for m in runtime.store.alike(fingerprint) if m.spec_folder == spec_folder), None)


def similar_to(runtime: Runtime, memory_id: int) -> tuple[Mapping[str, Any], ...]:
    return similar(runtime, runtime.store.text(memory_id), except_id=memory_id)


def mergeable(runtime: Runtime, similar: Sequence[Mapping[str, Any]], *, spec_folder: str | None) -> int | None:
    """The most similar memory that may give way: one of the same folder and user, and never a rule."""
    for memory in runtime.store.many([row["id"] for row in similar]):
        at_home = memory.spec_folder == spec_folder and memory.owner == runtime.settings.isolation.user_id
        if memory.source is Source.MEMORY and at_home and memory.tier is not Tier.CONSTITUTIONAL:
            return memory.id
    return None


def merged(
    runtime: Runtime, rendered: Rendered, triggers: tuple[str, ...], memory_id: int
) -> tuple[Rendered, tuple[str, ...]]:
    """The new document with what only the old one says, its phrases, and the higher tier of the two."""
    old = runtime.store.get(memory_id)
    text = rendered.text
    kept = _only_in(body(runtime.store.text(memory_id)), body(text))
    if kept:
        anchor = f"merged-{memory_id}"
        section = f"<!-- ANCHOR:{anchor} -->\n## From {old.title}\n\n{kept}\n<!-- /ANCHOR:{anchor} -->\n"
        text = f"{text.rstrip()}\n\n{section}"
    triggers = tuple(dict.fromkeys((*triggers, *old.attributes.triggers)))
    tier = max(rendered.tier, old.tier, key=lambda one: TABLE[one].boost)
    text = front_edit.edit_front_matter(text, {"triggers": list(triggers), "tier": tier.value})
    return replace(rendered, text=text, tier=tier), triggers


def _only_in(old: str, new: str) -> str:
    """The paragraphs of the old text that the new one does not have, in their order; tags and headings left out."""
    known = {_folded(part) for part in _paragraphs(new)}
    return "\n\n".join(part for part in _paragraphs(old) if _folded(part) not in known)


def _paragraphs(text: str) -> list[str]:
    """Blocks between blank lines. Code is one block whatever it holds, so that no fence is torn."""
    blocks: list[list[str]] = [[]]
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            blocks[-1].append(line)
            fence = "" if mark and mark[1].startswith(fence) and not mark[2].strip() else fence
        elif mark:
            blocks[-1].append(line)
            fence = mark[1]
        elif not line.strip() or line.startswith("#"):
            blocks.append([])
        elif not line.lstrip().lower().startswith(("<!-- anchor", "<!-- /anchor")):
            blocks[-1].append(line)
    if fence:
        blocks[-1].append(fence)
    return ["\n".join(block) for block in blocks if block]


def _folded(part: str) -> str:
    return " ".join(part.casefold().split())


def retire(runtime: Runtime, memory_id: int, *, successor: int) -> None:
    """The old memory gives way: linked as superseded, its file in the trash, its text in history."""
    files = _discard(runtime, runtime.store.get(memory_id))
    where = "".join(f"; file in {file.trash}" for file in files)
    done = operation.Merge(merged=memory_id, into=successor, files=files)
    runtime.store.merge(memory_id, successor, runtime.change(f"merge into {successor}{where}", done))


def _discard(runtime: Runtime, old: Memory) -> tuple[operation.FileChange, ...]:
    path = disk.absolute(runtime.settings, old.path)
    if not path.exists():
        return ()
    moved = trash.discard(path, settings=runtime.settings, at=runtime.now())
    return (trash.as_change(old.path, moved, settings=runtime.settings),)
