"""What may a configuration that came with a repository do? A stranger may have written it.

It may describe the project: what to index, how to rank, what to suggest. It may name no address, key or person, lead
nowhere outside the workspace, and cost no unbounded time. `TRUST` defines this for every key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from spec_kit_memory.settings.keys import STATE_FOLDER, shown_text
from spec_kit_memory.settings.own_folders import expanded


class TrustLevel(Enum):
    """What a repository's own file may say about a key, in the words of the reference page."""

    FREE = "yes"
    INSIDE = "inside the workspace; elsewhere needs `allow.outsidePaths`"
    LOCAL = "yes, but `openai` needs `allow.network`"
    NETWORK = "needs `allow.network`"
    NEVER = "no"


TRUST: Mapping[str, TrustLevel] = {
    "semantic.enabled": TrustLevel.FREE,
    "semantic.model": TrustLevel.LOCAL,
    "semantic.dimensions": TrustLevel.FREE,
    "semantic.indexPath": TrustLevel.INSIDE,
    "index.url": TrustLevel.NEVER,  # texts would be sent there
    "index.project": TrustLevel.NEVER,
    "index.projects": TrustLevel.NEVER,
    "index.memoryMb": TrustLevel.NEVER,
    "semantic.baseUrl": TrustLevel.NEVER,  # not even on this machine: another user or a container may listen
    "semantic.remoteModel": TrustLevel.NETWORK,  # the user pays for it
    "semantic.apiKeyEnv": TrustLevel.NEVER,
    "triggers.autoSaveInterval": TrustLevel.FREE,
    "triggers.phrases": TrustLevel.FREE,
    "memory.decay.enabled": TrustLevel.FREE,
    "memory.decay.model": TrustLevel.FREE,
    "memory.decay.halfLifeDays": TrustLevel.FREE,
    "memory.decay.rates": TrustLevel.FREE,
    "memory.decay.minFloor": TrustLevel.FREE,
    "memory.decay.exemptTiers": TrustLevel.FREE,
    "memory.defaultTier": TrustLevel.FREE,
    "memory.defaultContextType": TrustLevel.FREE,
    "memory.extraPaths": TrustLevel.INSIDE,
    "search.fusion": TrustLevel.FREE,
    "search.weights": TrustLevel.FREE,
    "search.maxTokens": TrustLevel.FREE,
    "search.rolePrior": TrustLevel.FREE,
    "exclude": TrustLevel.FREE,
    "save.noise": TrustLevel.FREE,
    "watch": TrustLevel.FREE,
    "isolation.userId": TrustLevel.NEVER,
    "isolation.projectId": TrustLevel.NEVER,
    "isolation.allowedPaths": TrustLevel.NEVER,
    "allow.network": TrustLevel.NEVER,
    "allow.outsidePaths": TrustLevel.NEVER,
}

# Lists cost time for every file or message, and tokens cost money with every search, so a repository's own file has
# limits. They are far above what any known project needs.
MOST_OF_A_REPOSITORY: Mapping[str, tuple[int, str]] = {
    "memory.extraPaths": (100, "entries"),
    "exclude": (1_000, "entries"),
    "save.noise": (1_000, "entries"),
    "triggers.phrases": (1_000, "entries"),
    "memory.decay.exemptTiers": (100, "entries"),
    "search.rolePrior": (100, "entries"),
    "search.maxTokens": (50_000, "tokens"),
}
MOST_CHARACTERS = 10_000  # in all texts of a list together
# Allowed endings of an index file, so that none is written over another program's code or configuration.
INDEX_NAMES = (".sqlite", ".sqlite3", ".db")


def forbidden_values(
    values: Mapping[str, Any], sources: Mapping[str, str], *, root: Path, outside: bool, network: bool
) -> Iterator[tuple[str, str]]:
    """The values of the workspace's own file that may not be used, and why. Keys of `NEVER` were refused before."""
    names = [name for name, place in sources.items() if place == "file"]
    for name in names:
        value, trust = values[name], TRUST[name]
        for reason in _too_much(name, value):
            yield name, reason
        if not network and (trust is TrustLevel.NETWORK or (trust is TrustLevel.LOCAL and value == "openai")):
            yield (
                name,
                f"{name!r} of the workspace's config.jsonc is about sending text away; "
                "that needs allow.network in your own configuration.",
            )
        if trust is TrustLevel.INSIDE and not outside:
            for reason in _outside(name, value, root):
                yield name, reason
    if not outside and not is_inside(root, STATE_FOLDER):
        yield (
            "",
            f"{STATE_FOLDER} is a link out of the workspace, which a repository can bring along; "
            "that needs allow.outsidePaths in your own configuration.",
        )


def _too_much(name: str, value: Any) -> Iterator[str]:
    most, unit = MOST_OF_A_REPOSITORY.get(name, (None, ""))
    if most is None:
        return
    amount = value if isinstance(value, int) else len(value)
    if amount > most:
        yield (
            f"{name!r} of the workspace's config.jsonc has {amount:,} {unit}, more than the {most:,} that it may have; "
            "your own configuration may say more."
        )
    elif not isinstance(value, int) and (length := sum(map(len, value))) > MOST_CHARACTERS:
        yield (
            f"{name!r} of the workspace's config.jsonc has {length:,} characters, more than the {MOST_CHARACTERS:,} "
            "that it may have; your own configuration may say more."
        )


def _outside(name: str, value: Any, root: Path) -> Iterator[str]:
    paths = (value,) if isinstance(value, str) else value or ()
    for path in paths:
        if not is_inside(root, path):
            yield (
                f"{name!r} of the workspace's config.jsonc names {shown_text(path)}, which is outside the workspace; "
                "that needs allow.outsidePaths in your own configuration."
            )
        elif name == "semantic.indexPath" and not path.endswith(INDEX_NAMES):
            endings = " or ".join(INDEX_NAMES)
            yield f"{name!r} of the workspace's config.jsonc must end in {endings}, not {shown_text(path)}."


def is_inside(root: Path, path: str) -> bool:
    """Is the real path of the part before the first wildcard inside the root?"""
    whole = expanded(path)
    if whole is None:
        return False
    parts = whole.parts
    wild = next((n for n, part in enumerate(parts) if re.search(r"[*?\[{]", part)), len(parts))
    if ".." in parts[wild:]:
        return False
    return Path(os.path.realpath(root.joinpath(*parts[:wild]))).is_relative_to(root)
