"""Is there a memory already that says nearly the same, and what becomes of the two?

Candidates come from the text index; the score compares runs of words (`core.similar`).
Nothing is merged unless the caller asked for it, and both texts stay recoverable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spec_kit_memory.core import markdown, words
from spec_kit_memory.core import similar as likeness
from spec_kit_memory.core.context import Rendered
from spec_kit_memory.core.memory import Filter, Memory, Source, Tier
from spec_kit_memory.vault import files, trash
from spec_kit_memory.verbs.sessions import body
from spec_kit_memory.verbs.wiring import Wiring

# Near-copies share most words, so they are among the best text matches.
CANDIDATES = 20
SHOWN = 5
_SEARCHED = Filter(tiers=frozenset(set(Tier) - {Tier.DEPRECATED}))
_SAID = 4000


def similar(wiring: Wiring, text: str, *, except_id: int | None = None) -> tuple[Mapping[str, Any], ...]:
    """The memories whose score with this text is at the threshold or above, best first."""
    own = body(text)
    signature = likeness.signature(own)
    hits = wiring.store.match_text(words.for_query(own[:_SAID]), _SEARCHED, CANDIDATES * 10)
    ids = [id_ for id_ in dict.fromkeys(hit.memory_id for hit in hits) if id_ != except_id][:CANDIDATES]
    found: list[dict[str, Any]] = []
    for memory in wiring.store.many(ids):
        score = likeness.score(signature, likeness.signature(body(wiring.store.text(memory.id))))
        if score >= likeness.THRESHOLD and memory.source is not Source.CHAT:
            found.append({"id": memory.id, "title": memory.title, "path": memory.path, "score": round(score, 3)})
    return tuple(sorted(found, key=lambda row: (-row["score"], row["id"]))[:SHOWN])


def same(wiring: Wiring, text: str, *, spec_folder: str | None) -> Memory | None:
    """The memory of that folder with exactly this text, case, spacing and dates apart."""
    fingerprint = markdown.fingerprint(markdown.parse(text))
    if not fingerprint:
        return None
    near = wiring.store.find(Filter(spec_folder=spec_folder)) if spec_folder else wiring.store.find()
    return next((m for m in near if m.fingerprint == fingerprint and m.spec_folder == spec_folder), None)


def similar_to(wiring: Wiring, memory_id: int) -> tuple[Mapping[str, Any], ...]:
    return similar(wiring, wiring.store.text(memory_id), except_id=memory_id)


def merged(wiring: Wiring, rendered: Rendered, memory_id: int) -> tuple[Rendered, int]:
    """The new document with what only the old one says, under an anchor of its own."""
    old = wiring.store.get(memory_id)
    kept = _only_in(body(wiring.store.text(memory_id)), body(rendered.text))
    if not kept:
        return rendered, memory_id
    section = (
        f"<!-- ANCHOR:merged-{memory_id} -->\n## From {old.title}\n\n{kept}\n<!-- /ANCHOR:merged-{memory_id} -->\n"
    )
    return replace(rendered, text=f"{rendered.text.rstrip()}\n\n{section}"), memory_id


def _only_in(old: str, new: str) -> str:
    """The paragraphs of the old text that the new one does not have, in their order; tags and headings left out."""
    known = {_folded(part) for part in new.split("\n\n")}
    parts = [_untagged(part) for part in old.split("\n\n")]
    return "\n\n".join(part for part in parts if part and _folded(part) not in known)


def _untagged(part: str) -> str:
    lines = [line for line in part.split("\n") if not line.lstrip().lower().startswith(("<!-- anchor", "<!-- /anchor"))]
    said = [line for line in lines if not line.startswith("#")]
    return "\n".join(said).strip()


def _folded(part: str) -> str:
    return " ".join(_untagged(part).casefold().split())


def retire(wiring: Wiring, memory_id: int, *, successor: int) -> None:
    """The old memory gives way: linked as superseded, its file in the trash, its text in history."""
    where = _discard(wiring, wiring.store.get(memory_id))
    wiring.store.merge(memory_id, successor, wiring.change(f"merge into {successor}{where}"))


def _discard(wiring: Wiring, old: Memory) -> str:
    path = files.absolute(wiring.settings, old.path) if old.source is Source.MEMORY else None
    if path is None or not path.exists():
        return ""
    moved = trash.discard(path, settings=wiring.settings, at=wiring.now())
    return f"; file in {moved.relative_to(wiring.settings.state_folder).as_posix()}"
