"""What follows from the place of a file? The rules of discovery, as functions of names alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from spec_kit_memory.core.memory import Source, Tier, is_text_name

SPEC_DOCUMENTS = {
    "spec.md": Tier.IMPORTANT,
    "plan.md": Tier.IMPORTANT,
    "decision-record.md": Tier.IMPORTANT,
    "tasks.md": Tier.NORMAL,
    "checklist.md": Tier.NORMAL,
    "implementation-summary.md": Tier.NORMAL,
    "research.md": Tier.NORMAL,
    "handover.md": Tier.NORMAL,
    "data-model.md": Tier.NORMAL,
    "quickstart.md": Tier.NORMAL,
}
SKIPPED = frozenset(("node_modules", "__pycache__", "dist", "build", "vendor", ".venv"))
ARCHIVES = frozenset(("z_archive", "archive", ".archive"))
WALKED_HIDDEN_FOLDERS = frozenset((".opencode", ".specify", ".archive"))  # hidden by name, but walked
PARTS = frozenset(("contracts", "research", "checklists"))  # folders whose documents belong to the parent folder
PENDING = "_pending.md"
METADATA = "metadata.json"  # our file next to every saved memory

# Why a file is not a memory, as codes that a scan reports.
EXCLUDED = "excluded"
NEVER_ENTERED = "folders-never-entered"
OUTSIDE = "outside-memories"

Segments = tuple[str, ...]  # of a folder below the workspace's root


@dataclass(frozen=True, slots=True)
class DiscoveryRule:
    """What kind of memory the files of one folder are, and which names are accepted."""

    source: Source
    accepts: Callable[[str], bool]
    spec_folder: str | None = None
    owner: str | None = None


def _markdown(name: str) -> bool:
    return name.lower().endswith(".md")


def _rules_file(name: str) -> bool:
    lower = name.lower()
    return lower.endswith(".md") and lower.split(".")[0] != "readme"


def _constitution(name: str) -> bool:
    return name == "constitution.md"


def _memory_index(name: str) -> bool:
    return name == "MEMORY.md"


def _spec_document(name: str) -> bool:
    return name in SPEC_DOCUMENTS


def rule_for(folder: Segments) -> DiscoveryRule | None:
    """The rule of a folder, named by its segments below the workspace's root."""
    match folder:
        case ():
            return DiscoveryRule(Source.MEMORY, _memory_index)
        case ("memory",):
            return DiscoveryRule(Source.MEMORY, _markdown)
        case ("memory", "users", owner, *_):
            return DiscoveryRule(Source.MEMORY, _markdown, owner=owner)
        case ("constitutional",):
            return DiscoveryRule(Source.CONSTITUTIONAL, _rules_file)
        case (".specify", "memory"):
            return DiscoveryRule(Source.CONSTITUTIONAL, _constitution)
        case (".opencode", skill, _, "constitutional") if skill.startswith("skill"):
            return DiscoveryRule(Source.CONSTITUTIONAL, _rules_file)
        case ("specs", *below) | (".opencode", "specs", *below):
            return _rule_in_specs(tuple(below))
    return None


def _rule_in_specs(below: Segments) -> DiscoveryRule | None:
    if below[-1:] == ("memory",):
        return DiscoveryRule(Source.MEMORY, is_text_name, spec_folder="/".join(below[:-1]) or None)
    if not below or "memory" in below or "scratch" in below:
        return None
    accepts = _markdown if below[-1] == "contracts" and len(below) > 1 else _spec_document
    own = below[:-1] if below[-1] in PARTS and len(below) > 1 else below
    return DiscoveryRule(Source.SPEC, accepts, spec_folder="/".join(own))


def default_tier(source: Source, name: str) -> Tier | None:
    """The tier of a file that does not name one; None leaves it to the settings."""
    if source is Source.CONSTITUTIONAL:
        return Tier.CONSTITUTIONAL
    return SPEC_DOCUMENTS.get(name, Tier.NORMAL) if source is Source.SPEC else None


def exclusion_reason(folder: Segments, name: str, rule: DiscoveryRule | None) -> str:
    """The code of the reason why this file is no memory; "" where no user would expect it to be one."""
    if folder and rule is not None and rule.source is Source.MEMORY and not _markdown(name):
        return "" if name == METADATA else "not-markdown"
    if not _markdown(name):
        return ""
    if rule is not None and rule.source is Source.CONSTITUTIONAL:
        return "beside-rules"
    match folder:
        case ("memory", *below) | ("specs", *below) | (".opencode", "specs", *below):
            if folder[0] == "memory" or "memory" in below:
                return "below-memory"
            return "in-scratch" if "scratch" in below else "no-spec-document"
    return OUTSIDE


def in_area(folder: Segments) -> bool:
    """Can a rule apply to this folder or one below it?"""
    match folder:
        case () | (".opencode",) | (".specify",) | (".specify", "memory", *_) | ("memory",) | ("constitutional",):
            return True
        case ("specs", *_) | (".opencode", "specs", *_) | ("memory", "users", *_):
            return True
        case (".opencode", skill, *_):
            return skill.startswith("skill") and len(folder) <= 4
    return False


def skips(name: str) -> bool:
    """Is a folder of that name never entered?"""
    return name in SKIPPED or (name.startswith(".") and name not in WALKED_HIDDEN_FOLDERS)


def is_pending(name: str) -> bool:
    return name.endswith(PENDING)


def is_passing(name: str) -> bool:
    """Pending, temporary, swap and hidden files: never memories."""
    return is_pending(name) or name.startswith((".", "#")) or name.endswith((".tmp", "~", ".swp", ".swx"))


@lru_cache(maxsize=256)  # called for every file of a folder
def is_archived(segments: Segments) -> bool:
    return any(segment.casefold() in ARCHIVES for segment in segments)
