"""In which spec folder does a new memory belong? The named one, the working directory's, or the one that fits best.

Never a silent guess: a poor fit is a warning, and no fit is an error with the best three.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from spec_kit_memory.advice import Advice, Text, advise, finding
from spec_kit_memory.answers import FolderAlignment, FolderScore
from spec_kit_memory.core import alignment, redact
from spec_kit_memory.core.alignment import Alignment, FolderDecision, Profile
from spec_kit_memory.core.folders import clean_folder
from spec_kit_memory.core.memory import Filter
from spec_kit_memory.core.words import for_query
from spec_kit_memory.errors import BadSpecFolder, SpecKitMemoryError, UndecidedSpecFolder
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files import paths
from spec_kit_memory.index.contract import Tally

# So many documents of a folder are enough to know its topic.
DOCUMENTS = 12
FOLDERS = 200  # with more folders than this, only those that can fit are compared:
SHARING = 40  # so many that share words with the text,
HITS = 1_000  # found in so many passages;
FEW_DOCUMENTS = 4  # and only so many of each folder's newest documents, as a process's first save reads them all
ASKED_CHARACTERS = 4_000
DEEPEST_SPEC_FOLDER = 4  # nested spec folders that have no documents yet


@dataclass(frozen=True, slots=True)
class Placed:
    folder: Path  # the folder that the file is written to
    spec_folder: str | None
    root: Path
    warnings: tuple[str, ...] = ()
    alignment: FolderAlignment | None = None

    def stored(self, name: str) -> str:
        return (self.folder / name).relative_to(self.root).as_posix()


def place(
    runtime: Runtime,
    *,
    words: str,
    named_files: Sequence[str],
    given_folder: str | None,
    create: bool = False,
    fact: bool = False,
    personal: bool = False,
) -> Placed:
    """Choose the folder. `personal` matters on a team server, where a person's notes belong to the project unless they
    are marked as personal."""
    base = _base(runtime)
    user = None if runtime.is_team and not personal else runtime.scope.user
    if base is None and (given_folder is None or user) and not create:
        return _at_root(runtime, user)
    if user and given_folder is None:
        return _at_root(runtime, user)
    folders = _Folders(runtime, base)
    if given_folder is not None:
        name = alignment.resolve_name(given_folder, folders.known_as(given_folder), create=create)
        if name not in folders:
            _refuse_secret(name)
            return _in(runtime, base, name, warnings=(finding("folder-made", folder=name),))
        return _named(runtime, base, name, _aligned(runtime, folders, words, named_files, given_folder=name))
    here = _working_folder(base, folders)
    if here is not None:
        return _in(runtime, base, here)
    if fact:
        # A single fact has too few words to find its folder by; it belongs to the whole project.
        return _at_root(runtime, None)
    return _fitting(runtime, base, _aligned(runtime, folders, words, named_files), folders)


def _refuse_secret(name: str) -> None:
    """Refuse a name with a secret in it: it would be in every path below the folder, and in git."""
    if secrets := redact.redact(name).counts:
        raise BadSpecFolder(
            f"the name of the new spec folder holds what looks like a secret ({', '.join(secrets)})",
            hint="choose another name",
        )


def _base(runtime: Runtime) -> Path | None:
    """The folder that holds spec folders, canonical."""
    if runtime.accepts:
        return _accepting_base(runtime)
    for name in ("specs", ".opencode/specs"):
        real = runtime.settings.real_path(name)  # a link out of the workspace is not followed
        if real is not None and real.is_dir():
            return real
    return None


def _accepting_base(runtime: Runtime) -> Path | None:
    """On a team server: the folder that holds spec folders, known from the path of an indexed memory."""
    named = next((tally.spec_folder for tally in runtime.store.documents.tally() if tally.spec_folder), None)
    if named is None:
        return None
    memories = runtime.store.documents.find(Filter(spec_folder=named), limit=1)
    hidden = memories and memories[0].path.startswith(".opencode/")
    return runtime.settings.root / (".opencode/specs" if hidden else "specs")


class _Folders:
    """The spec folders in the index, and those on disk that have no documents yet; both are loaded on demand.

    With ten thousand folders, walking the disk for empty ones takes seconds, which a save that names its folder avoids.
    """

    def __init__(self, runtime: Runtime, base: Path | None) -> None:
        self._runtime = runtime
        self._base = base

    @cached_property
    def indexed(self) -> dict[str, list[Tally]]:
        tallies: dict[str, list[Tally]] = {}
        for tally in self._runtime.store.documents.tally():
            if tally.spec_folder:
                tallies.setdefault(tally.spec_folder, []).append(tally)
        return tallies

    @cached_property
    def all(self) -> set[str]:
        names = set(self.indexed)
        if self._base is None:
            return names
        return names | {name for name in _on_disk(self._base) if _is_reachable(self._runtime, self._base, name)}

    def known_as(self, folder: str) -> Collection[str]:
        """The names needed to resolve `folder`: only the name itself if the index has it, else all."""
        whole = clean_folder(folder)
        return {whole} if whole in self.indexed else self.all

    def __contains__(self, name: str) -> bool:
        return name in self.indexed or name in self.all


def _on_disk(base: Path) -> Iterator[str]:
    below = [(base, "")]
    while below:
        place, prefix = below.pop()
        try:
            children = [child for child in place.iterdir() if alignment.valid_name(child.name) and child.is_dir()]
        except OSError:
            continue
        yield from (prefix + child.name for child in children)
        if prefix.count("/") < DEEPEST_SPEC_FOLDER:
            below += [(child, f"{prefix}{child.name}/") for child in children if not child.is_symlink()]


def _is_reachable(runtime: Runtime, base: Path, name: str) -> bool:
    """Is this folder within the scope? Others are not named, not even in an error."""
    if not runtime.isolated:
        return True
    try:
        paths.contained(runtime.settings, base / name / "memory", scope=runtime.scope)
    except SpecKitMemoryError:
        return False
    return True


def _at_root(runtime: Runtime, user: str | None) -> Placed:
    root = runtime.settings.root
    folder = root / "memory" / "users" / user if user else root / "memory"
    return Placed(paths.contained(runtime.settings, folder, scope=runtime.scope), None, root)


def _in(runtime: Runtime, base: Path | None, name: str, **more: Any) -> Placed:
    root = runtime.settings.root
    folder = paths.contained(runtime.settings, (base or root / "specs") / name / "memory", scope=runtime.scope)
    return Placed(folder, name, root, **more)


def _working_folder(base: Path | None, folders: _Folders) -> str | None:
    """The spec folder that contains the working directory."""
    if base is None:
        return None
    try:
        inside = Path(os.path.realpath(Path.cwd())).relative_to(base)
    except (ValueError, OSError):
        return None
    parts = inside.parts
    names = ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return next((name for name in names if name in folders), None)


# --- by the text ---------------------------------------------------------------------


def _named(runtime: Runtime, base: Path | None, name: str, aligned: Sequence[Alignment]) -> Placed:
    decision = alignment.decide(aligned, chosen_folder=name)
    warnings: tuple[Text, ...] = ()
    if decision.outcome == "warned":
        values = {"folder": name, "score": f"{decision.score:.0f}"}
        if decision.alternatives:
            warnings = (finding("folder-fits-badly-better", **values, better=_scored(decision.alternatives)),)
        else:
            warnings = (finding("folder-fits-badly-best" if len(aligned) > 1 else "folder-fits-badly", **values),)
    return _in(runtime, base, name, warnings=warnings, alignment=_described(decision))


def _fitting(runtime: Runtime, base: Path | None, aligned: Sequence[Alignment], folders: _Folders) -> Placed:
    decision = alignment.decide(aligned)
    if decision.folder is None:
        raise _undecided(decision, folders.all)
    warnings: tuple[Text, ...] = ()
    if decision.outcome == "warned":
        values = {"folder": decision.folder, "score": f"{decision.score:.0f}"}
        others = _scored(other for other in decision.alternatives if other.score)
        warnings = (
            finding("folder-chosen-before", **values, others=others) if others else finding("folder-chosen", **values),
        )
    return _in(runtime, base, decision.folder, warnings=warnings, alignment=_described(decision))


def _scored(folders: Iterable[Alignment]) -> tuple[Advice, ...]:
    """Folders, each with its score."""
    return tuple(finding("folder-score", folder=other.folder, score=f"{other.score:.0f}") for other in folders)


def _undecided(decision: FolderDecision, existing: set[str]) -> UndecidedSpecFolder:
    best = [{"name": other.folder, "score": other.score} for other in decision.alternatives]
    # A folder without documents matches nothing yet, but may have been created for this.
    empty = sorted(existing - {other.folder for other in decision.alternatives}, reverse=True)
    best += [{"name": name, "score": 0.0} for name in empty[: alignment.ALTERNATIVES - len(best)]]
    offered = ", ".join(f"{row['name']} ({row['score']:.0f})" for row in best)
    return UndecidedSpecFolder(
        f"no spec folder fits well enough; the best: {offered}" if best else "there are no spec folders yet",
        hint=advise("name-folder"),
        alternatives=best,
    )


def _aligned(
    runtime: Runtime, folders: _Folders, words: str, named_files: Sequence[str], *, given_folder: str | None = None
) -> list[Alignment]:
    talk = alignment.talk(words, files=named_files)
    return alignment.align(talk, _profiles(runtime, folders, words, given_folder), now=runtime.now())


def _profiles(runtime: Runtime, folders: _Folders, words: str, given_folder: str | None) -> list[Profile]:
    active = {name: group for name, parts in folders.indexed.items() if (group := _active(parts))}
    if len(active) <= FOLDERS:
        return [_profile(runtime, name, active[name], documents=DOCUMENTS) for name in active]
    names = _nearest(runtime, active, words, given_folder)
    return [_profile(runtime, name, active[name], documents=FEW_DOCUMENTS) for name in names]


def _active(parts: Sequence[Tally]) -> list[Tally]:
    return [tally for tally in parts if not tally.archived_folder]


def _nearest(
    runtime: Runtime, active: Mapping[str, Sequence[Tally]], words: str, given_folder: str | None
) -> list[str]:
    """Of very many folders the named one, those that share words with the text, and the newest.

    The newest are the same for every save, so they are read once; word weights are computed against them.
    """
    newest = sorted(active, key=lambda name: max(tally.updated_at for tally in active[name]), reverse=True)
    names = dict.fromkeys([given_folder or "", *_sharing(runtime, words), *newest])
    return [name for name in names if name in active][:FOLDERS]


def _sharing(runtime: Runtime, words: str) -> list[str]:
    """The folders of the memories that share most with these words, the best first."""
    hits = runtime.store.documents.match(for_query(words[:ASKED_CHARACTERS]), Filter(), HITS)
    ids = list(dict.fromkeys(hit.memory_id for hit in hits))
    names: dict[str, None] = {}
    while ids and len(names) < SHARING:
        some, ids = ids[:SHARING], ids[SHARING:]
        names |= dict.fromkeys(
            memory.spec_folder for memory in runtime.store.documents.many(some) if memory.spec_folder
        )
    return list(names)[:SHARING]


def _profile(runtime: Runtime, name: str, group: Sequence[Tally], *, documents: int) -> Profile:
    """The folder's profile, computed once per state of the folder: reading its long texts would delay every save."""
    state = documents, sum(tally.count for tally in group), max(tally.changed for tally in group)
    cached = runtime.view.profiles.get(name)
    if cached is None or cached[0] != state:
        cached = runtime.view.profiles[name] = (state, _read(runtime, name, group, documents))
    return cached[1]


def _read(runtime: Runtime, name: str, group: Sequence[Tally], documents: int) -> Profile:
    of_folder = Filter(spec_folder=name)
    newest = runtime.store.documents.find(of_folder, limit=documents)
    if any(memory.archived_folder for memory in newest):
        newest = [memory for memory in runtime.store.documents.find(of_folder) if not memory.archived_folder][
            :documents
        ]
    texts = {memory.path.rsplit("/", 1)[-1]: runtime.store.documents.text(memory.id) for memory in newest}
    return alignment.profile(name, texts, touched_at=max(tally.newest for tally in group))


def _described(decision: FolderDecision) -> FolderAlignment:
    return FolderAlignment(
        folder=decision.folder,
        score=decision.score,
        alternatives=tuple(FolderScore(name=other.folder, score=other.score) for other in decision.alternatives),
    )
