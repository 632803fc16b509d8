"""Which choices do users differ on, and where did each value come from?

Settings are frozen. This module is the only reader of the environment and config.jsonc.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spec_kit_memory.core.memory import ContextType, Scope, Tier


@dataclass(frozen=True, slots=True)
class Semantic:
    enabled: bool = True
    model: str = "local"  # local | openai | none | hashing (tests)
    dimensions: int | None = None  # of the remote model; None asks it
    index_path: Path | None = None  # None: .spec-kit-memory/index.sqlite
    base_url: str = "https://api.openai.com/v1"
    remote_model: str = "text-embedding-3-small"
    api_key: str | None = field(default=None, repr=False)  # from the environment only


@dataclass(frozen=True, slots=True)
class Triggers:
    auto_save_interval: int = 20
    phrases: tuple[str, ...] = ()  # more phrases that suggest saving


@dataclass(frozen=True, slots=True)
class Decay:
    enabled: bool = True
    model: str = "half_life"  # half_life | linear | turns | states
    half_life_days: float = 90.0
    rates: Mapping[Tier, float] = field(
        default_factory=lambda: {
            Tier.CONSTITUTIONAL: 0.0,
            Tier.CRITICAL: 0.001,
            Tier.IMPORTANT: 0.005,
            Tier.NORMAL: 0.01,
            Tier.TEMPORARY: 0.05,
            Tier.DEPRECATED: 0.1,
        }
    )  # linear model, per day
    min_floor: float | None = None  # None: the tier's own floor
    exempt_tiers: tuple[Tier, ...] = (Tier.CONSTITUTIONAL, Tier.CRITICAL)


@dataclass(frozen=True, slots=True)
class Weights:
    relevance: float = 0.40
    tier: float = 0.25
    recency: float = 0.20
    keywords: float = 0.15


@dataclass(frozen=True, slots=True)
class Search:
    fusion: str = "best"  # best | rrf
    weights: Weights = field(default_factory=Weights)
    max_tokens: int = 4000
    role_prior: Mapping[str, float] = field(default_factory=dict)  # speaker -> added relevance


@dataclass(frozen=True, slots=True)
class Isolation:
    user_id: str | None = None
    project_id: str | None = None
    allowed_paths: tuple[str, ...] | None = None  # None: the workspace root; (): nothing


@dataclass(frozen=True, slots=True)
class Settings:
    root: Path  # the workspace, canonical
    semantic: Semantic = field(default_factory=Semantic)
    triggers: Triggers = field(default_factory=Triggers)
    decay: Decay = field(default_factory=Decay)
    search: Search = field(default_factory=Search)
    isolation: Isolation = field(default_factory=Isolation)
    default_tier: Tier = Tier.NORMAL
    default_context_type: ContextType = ContextType.GENERAL
    extra_paths: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    noise: tuple[str, ...] = ()  # more line patterns that saving leaves out
    sources: Mapping[str, str] = field(default_factory=dict)  # key -> default | file | user | environment

    @property
    def state_folder(self) -> Path:
        return self.root / ".spec-kit-memory"

    @property
    def index_path(self) -> Path:
        return self.semantic.index_path or self.state_folder / "index.sqlite"

    @property
    def scope(self) -> Scope:
        return Scope(user=self.isolation.user_id, project=self.isolation.project_id)
