"""In which spec folder does a new memory belong? The named one, the one we stand in, or the one that fits.

Never a silent guess: a poor fit is a warning, and no fit is an error with the best three.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spec_kit_memory.core import alignment
from spec_kit_memory.core.alignment import Alignment, Decision, Profile
from spec_kit_memory.core.memory import Filter, Memory
from spec_kit_memory.core.words import for_query
from spec_kit_memory.errors import SpecKitMemoryError, UndecidedSpecFolder
from spec_kit_memory.vault import files
from spec_kit_memory.verbs.wiring import Wiring

# Enough of a folder's documents to know what it is about.
DOCUMENTS = 12
FOLDERS = 200  # beyond so many, only those that can fit are looked at closely
ASKED_CHARACTERS = 4_000
DEEPEST = 4  # nested spec folders that have no documents yet


@dataclass(frozen=True, slots=True)
class Placed:
    folder: Path  # where the file goes
    spec_folder: str | None
    root: Path
    warnings: tuple[str, ...] = ()
    alignment: Mapping[str, Any] = field(default_factory=dict)

    def stored(self, name: str) -> str:
        return (self.folder / name).relative_to(self.root).as_posix()


def place(
    wiring: Wiring,
    *,
    words: str,
    named_files: Sequence[str],
    named: str | None,
    create: bool = False,
    fact: bool = False,
) -> Placed:
    base = _base(wiring)
    user = wiring.settings.isolation.user_id
    if base is None and (named is None or user) and not create:
        return _at_root(wiring, user)
    if user and named is None:
        return _at_root(wiring, user)
    memories = wiring.store.find()
    existing = _existing(wiring, base, memories)
    if named is not None:
        name = alignment.resolve_name(named, existing, create=create)
        if name not in existing:
            return _in(wiring, base, name, warnings=(f"made a new spec folder {name}",))
        return _named(wiring, base, name, _aligned(wiring, memories, words, named_files, named=name))
    here = _working_folder(base, existing)
    if here is not None:
        return _in(wiring, base, here)
    if fact:
        # A single fact has too few words to tell its folder; it belongs to the whole project.
        return _at_root(wiring, None)
    return _fitting(wiring, base, _aligned(wiring, memories, words, named_files), existing)


def _base(wiring: Wiring) -> Path | None:
    """The folder that holds spec folders, canonical."""
    for name in ("specs", ".opencode/specs"):
        found = wiring.settings.root / name
        if found.is_dir():
            return Path(os.path.realpath(found))
    return None


def _existing(wiring: Wiring, base: Path | None, memories: Sequence[Memory]) -> set[str]:
    """Spec folders by the index, and those on disk that have no documents yet."""
    known = {memory.spec_folder for memory in memories if memory.spec_folder}
    return known | {name for name in _on_disk(base) if _is_reachable(wiring, base, name)} if base else known


def _on_disk(base: Path) -> Iterator[str]:
    below = [(base, "")]
    while below:
        place, prefix = below.pop()
        try:
            children = [child for child in place.iterdir() if alignment.valid_name(child.name) and child.is_dir()]
        except OSError:
            continue
        yield from (prefix + child.name for child in children)
        if prefix.count("/") < DEEPEST:
            below += [(child, f"{prefix}{child.name}/") for child in children if not child.is_symlink()]


def _is_reachable(wiring: Wiring, base: Path, name: str) -> bool:
    """Folders outside the scope are not named, not even in an error."""
    if not wiring.isolated:
        return True
    try:
        files.contained(wiring.settings, base / name / "memory")
    except SpecKitMemoryError:
        return False
    return True


def _at_root(wiring: Wiring, user: str | None) -> Placed:
    root = wiring.settings.root
    folder = root / "memory" / "users" / user if user else root / "memory"
    return Placed(files.contained(wiring.settings, folder), None, root)


def _in(wiring: Wiring, base: Path | None, name: str, **more: Any) -> Placed:
    root = wiring.settings.root
    folder = files.contained(wiring.settings, (base or root / "specs") / name / "memory")
    return Placed(folder, name, root, **more)


def _working_folder(base: Path | None, existing: set[str]) -> str | None:
    """The spec folder that the working directory lies in."""
    if base is None:
        return None
    try:
        inside = Path(os.path.realpath(Path.cwd())).relative_to(base)
    except (ValueError, OSError):
        return None
    parts = inside.parts
    names = ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return next((name for name in names if name in existing), None)


# --- by what was said ---------------------------------------------------------------


def _named(wiring: Wiring, base: Path | None, name: str, aligned: Sequence[Alignment]) -> Placed:
    decision = alignment.decide(aligned, named=name)
    warnings: tuple[str, ...] = ()
    if decision.outcome == "warned":
        better = ", ".join(f"{other.folder} ({other.score:.0f})" for other in decision.alternatives)
        warnings = (f"{name} fits the text badly ({decision.score:.0f} of 100); better: {better}",)
    return _in(wiring, base, name, warnings=warnings, alignment=_told(decision))


def _fitting(wiring: Wiring, base: Path | None, aligned: Sequence[Alignment], existing: set[str]) -> Placed:
    decision = alignment.decide(aligned)
    if decision.folder is None:
        raise _undecided(decision, existing)
    warnings: tuple[str, ...] = ()
    if decision.outcome == "warned":
        warnings = (f"{decision.folder} was chosen with {decision.score:.0f} of 100; name the folder if that is wrong",)
    return _in(wiring, base, decision.folder, warnings=warnings, alignment=_told(decision))


def _undecided(decision: Decision, existing: set[str]) -> UndecidedSpecFolder:
    best = [{"name": other.folder, "score": other.score} for other in decision.alternatives]
    # A folder without documents fits nothing yet, but may be the one that was made for this.
    empty = sorted(existing - {other.folder for other in decision.alternatives}, reverse=True)
    best += [{"name": name, "score": 0.0} for name in empty[: alignment.ALTERNATIVES - len(best)]]
    offered = ", ".join(f"{row['name']} ({row['score']:.0f})" for row in best)
    return UndecidedSpecFolder(
        f"no spec folder fits well enough; the best: {offered}" if best else "there are no spec folders yet",
        hint="name one with specFolder, or make a new one with skm save --create",
        alternatives=best,
    )


def _aligned(
    wiring: Wiring, memories: Sequence[Memory], words: str, named_files: Sequence[str], *, named: str | None = None
) -> list[Alignment]:
    said = alignment.talk(words, files=named_files)
    return alignment.align(said, _profiles(wiring, memories, words, named), now=wiring.now())


def _profiles(wiring: Wiring, memories: Sequence[Memory], words: str, named: str | None) -> list[Profile]:
    grouped: dict[str, list[Memory]] = {}
    for memory in memories:
        if memory.spec_folder and not memory.archived_folder:
            grouped.setdefault(memory.spec_folder, []).append(memory)
    names = grouped.keys() if len(grouped) <= FOLDERS else _nearest(wiring, grouped, words, named)
    return [_profile(wiring, name, grouped[name]) for name in names]


def _nearest(wiring: Wiring, grouped: Mapping[str, list[Memory]], words: str, named: str | None) -> list[str]:
    """Of very many folders the named one, those that share words with the text, and the newest."""
    hits = wiring.store.match_text(for_query(words[:ASKED_CHARACTERS]), Filter(), 10 * FOLDERS)
    folder_of = {memory.id: name for name, group in grouped.items() for memory in group}
    newest = sorted(grouped, key=lambda name: max(memory.updated_at for memory in grouped[name]), reverse=True)
    names = [named or "", *(folder_of.get(hit.memory_id, "") for hit in hits), *newest]
    return list(dict.fromkeys(name for name in names if name in grouped))[:FOLDERS]


def _profile(wiring: Wiring, name: str, group: list[Memory]) -> Profile:
    """Read once for each state of a folder: its texts are long, and saving must not wait for them each time."""
    state = tuple(memory.content_hash for memory in group[:DOCUMENTS])
    known = wiring.profiles.get(name)
    if known is None or known[0] != state:
        known = wiring.profiles[name] = (state, _read(wiring, name, group))
    return known[1]


def _read(wiring: Wiring, name: str, group: list[Memory]) -> Profile:
    texts = {memory.path.rsplit("/", 1)[-1]: wiring.store.text(memory.id) for memory in group[:DOCUMENTS]}
    touched = max(memory.attributes.created_at or memory.updated_at for memory in group)
    return alignment.profile(name, texts, touched_at=touched)


def _told(decision: Decision) -> dict[str, Any]:
    return {
        "folder": decision.folder,
        "score": decision.score,
        "alternatives": [{"name": other.folder, "score": other.score} for other in decision.alternatives],
    }
