from __future__ import annotations

import pytest

from spec_kit_memory.core.memory import Source, Tier
from spec_kit_memory.files import discovery_rules


@pytest.mark.parametrize(
    ("path", "source", "folder", "owner"),
    [
        ("MEMORY.md", Source.MEMORY, None, None),
        ("memory/note.md", Source.MEMORY, None, None),
        ("memory/users/ann/note.md", Source.MEMORY, None, "ann"),
        ("memory/users/ann/deep/er/note.md", Source.MEMORY, None, "ann"),
        ("specs/007-auth/memory/a.md", Source.MEMORY, "007-auth", None),
        ("specs/007-auth/memory/a.txt", Source.MEMORY, "007-auth", None),
        ("specs/003-parent/004-child/memory/a.md", Source.MEMORY, "003-parent/004-child", None),
        ("specs/notes/memory/a.md", Source.MEMORY, "notes", None),
        ("specs/memory/a.md", Source.MEMORY, None, None),
        (".opencode/specs/007-auth/memory/a.md", Source.MEMORY, "007-auth", None),
        ("specs/007-auth/scratch/memory/a.md", Source.MEMORY, "007-auth/scratch", None),
        ("specs/007-auth/spec.md", Source.SPEC, "007-auth", None),
        ("specs/007-auth/quickstart.md", Source.SPEC, "007-auth", None),
        ("specs/007-auth/data-model.md", Source.SPEC, "007-auth", None),
        ("specs/007-auth/contracts/api.md", Source.SPEC, "007-auth", None),
        ("specs/007-auth/research/research.md", Source.SPEC, "007-auth", None),
        ("specs/007-auth/z_archive/001-old/plan.md", Source.SPEC, "007-auth/z_archive/001-old", None),
        ("specs/contracts/spec.md", Source.SPEC, "contracts", None),
        ("constitutional/rule.md", Source.CONSTITUTIONAL, None, None),
        (".opencode/skill/git/constitutional/rule.md", Source.CONSTITUTIONAL, None, None),
        (".opencode/skills/git/constitutional/rule.md", Source.CONSTITUTIONAL, None, None),
        (".specify/memory/constitution.md", Source.CONSTITUTIONAL, None, None),
    ],
)
def test_the_place_of_a_file_says_what_it_is(path: str, source: Source, folder: str | None, owner: str | None) -> None:
    *segments, name = path.split("/")
    rule = discovery_rules.rule_for(tuple(segments))
    assert rule is not None
    assert rule.accepts(name)
    assert (rule.source, rule.spec_folder, rule.owner) == (source, folder, owner)
    assert discovery_rules.in_area(tuple(segments))


@pytest.mark.parametrize(
    "path",
    [
        "notes.md",
        "memory.md",
        "docs/memory/a.md",
        "memory/sub/a.md",
        "memory/users/a.md",
        "memory/picture.png",
        "memory/note.txt",
        "specs/spec.md",
        "specs/007-auth/notes.md",
        "specs/007-auth/scratch/spec.md",
        "specs/007-auth/memory/sub/a.md",
        "specs/007-auth/memory/sub/spec.md",
        "specs/007-auth/memory-old/a.md",
        "specs/007-auth/my-contracts/api.md",
        "specification/007-auth/spec.md",
        "constitutional/README.md",
        "constitutional/readme.txt.md",
        "constitutional/sub/rule.md",
        ".opencode/skill/git/references/rule.md",
        ".opencode/agent/git/constitutional/rule.md",
        ".specify/memory/other.md",
        ".specify/templates/spec.md",
    ],
)
def test_other_places_say_nothing(path: str) -> None:
    *segments, name = path.split("/")
    rule = discovery_rules.rule_for(tuple(segments))
    assert rule is None or not rule.accepts(name)


@pytest.mark.parametrize(
    ("name", "tier"),
    [
        ("spec.md", Tier.IMPORTANT),
        ("plan.md", Tier.IMPORTANT),
        ("decision-record.md", Tier.IMPORTANT),
        ("tasks.md", Tier.NORMAL),
        ("handover.md", Tier.NORMAL),
        ("api.md", Tier.NORMAL),
    ],
)
def test_spec_documents_have_their_own_default_tiers(name: str, tier: Tier) -> None:
    assert discovery_rules.default_tier(Source.SPEC, name) is tier


def test_only_whole_segments_make_an_archive() -> None:
    assert discovery_rules.is_archived(("specs", "z_archive", "001-old"))
    assert discovery_rules.is_archived(("specs", ".archive"))
    assert not discovery_rules.is_archived(("specs", "archived-plans", "threshold", "my_archive", "archives"))


@pytest.mark.parametrize(
    "name", ["a_pending.md", "a.md.tmp", ".a.md.swp", "a.md~", ".#a.md", "#a.md#", "._a.md", ".a.md.1f.skm.tmp"]
)
def test_passing_files_are_never_memories(name: str) -> None:
    assert discovery_rules.is_passing(name)


def test_skipped_folders_are_hidden_ones_and_those_of_tools() -> None:
    for name in ("node_modules", "__pycache__", "dist", "build", "vendor", ".venv", ".git", ".cache"):
        assert discovery_rules.skips(name)
    for name in (".opencode", ".specify", ".archive", "distribution", "builder", "old"):
        assert not discovery_rules.skips(name)
