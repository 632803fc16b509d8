"""Which choices do users differ on? `KEYS` is the one table of them.

Loading, validation, the list of settings and the reference page are all made from it. What a repository's own file may
set is defined in `trust`.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

from spec_kit_memory.core.lean_dataclass import dataclass
from spec_kit_memory.core.memory import ContextType, Scope, Tier
from spec_kit_memory.settings.database_url import shown_url

STATE_FOLDER = ".spec-kit-memory"
PREFIX = "SPEC_KIT_MEMORY_"
SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Semantic:
    enabled: bool = True
    model: str = "local"  # local | openai | none | hashing (tests)
    dimensions: int | None = None  # of the remote model; None: determined from the model
    index_path: Path | None = None  # None: .spec-kit-memory/index.sqlite
    base_url: str = "https://api.openai.com/v1"
    remote_model: str = "text-embedding-3-small"
    api_key_env: str = "OPENAI_API_KEY"
    api_key: str | None = field(default=None, repr=False)  # from the environment only

    @property
    def is_local(self) -> bool:
        """Does it send nothing over a network?"""
        return self.model in ("local", "none", "hashing")


@dataclass(frozen=True, slots=True)
class IndexPlace:
    """Where the index is: in a file of the workspace, or on a PostgreSQL server that keeps many projects."""

    url: str = "sqlite"  # or postgresql://…, without a password
    project: str | None = None  # None: a project of this folder on this machine alone
    checkout: str = ""  # the checkout whose files are indexed; empty: this folder of this machine
    memory_mb: int = 1024  # memory for a project on a server, or for all that a team server has open
    projects: Mapping[str, str] = field(default_factory=dict)  # folder of this machine -> its project


@dataclass(frozen=True, slots=True)
class Triggers:
    auto_save_interval: int = 20
    phrases: tuple[str, ...] = ()  # additional phrases that suggest saving


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
class Allow:
    """What the user allows a repository's own configuration to do."""

    network: bool = False
    outside_paths: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    root: Path  # the workspace, canonical
    semantic: Semantic = field(default_factory=Semantic)
    index: IndexPlace = field(default_factory=IndexPlace)
    triggers: Triggers = field(default_factory=Triggers)
    decay: Decay = field(default_factory=Decay)
    search: Search = field(default_factory=Search)
    isolation: Isolation = field(default_factory=Isolation)
    allow: Allow = field(default_factory=Allow)
    default_tier: Tier = Tier.NORMAL
    default_context_type: ContextType = ContextType.GENERAL
    extra_paths: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    noise: tuple[str, ...] = ()  # additional patterns of lines that saving leaves out
    watch: str = "auto"  # auto | poll | off
    sources: Mapping[str, str] = field(default_factory=dict)  # key -> default | file | user | environment | flag
    repository_paths: frozenset[str] = frozenset()  # the `extra_paths` that came with the repository

    @property
    def state_folder(self) -> Path:
        return self.root / STATE_FOLDER

    @property
    def index_path(self) -> Path:
        return self.semantic.index_path or self.state_folder / "index.sqlite"

    @property
    def on_server(self) -> bool:
        return self.index.url != "sqlite"

    @property
    def may_have_index(self) -> bool:
        """May there be an index? Always true for one on a server, which only a query could tell."""
        return self.on_server or self.index_path.exists()

    @property
    def index_project(self) -> str:
        """The project's name on a server; by default one that is unique to this folder and machine."""
        return self.index.project or self.isolation.project_id or self._folder_name

    @property
    def is_served(self) -> bool:
        """Is this a project of a team server?"""
        return bool(self.index.checkout)

    @property
    def index_checkout(self) -> str:
        """The name of this folder among those that share a project on a server."""
        return self.index.checkout or self._folder_name

    @property
    def _folder_name(self) -> str:
        machine = os.uname().nodename if hasattr(os, "uname") else ""
        here = f"{machine}:{self.root}"
        digest = hashlib.sha256(here.encode("utf-8", "surrogateescape")).hexdigest()[:12]
        return f"{self.root.name}-{digest}"

    @property
    def scope(self) -> Scope:
        prefixes = self.isolation.allowed_paths
        if prefixes is not None:
            canonical = [real for path in prefixes if (real := self.real_path(path)) is not None]
            # The root itself means "unset"; as a prefix it would be the empty text.
            prefixes = None if self.root in canonical else tuple(self._stored(path) for path in canonical)
        return Scope(user=self.isolation.user_id, project=self.isolation.project_id, prefixes=prefixes)

    def real_path(self, path: Path | str) -> Path | None:
        """The real path of a configured path.

        None: it names a place inside the workspace that leads out through a link, which may come from a repository.
        """
        real = Path(os.path.realpath(self.root / path))
        named_inside = Path(os.path.normpath(self.root / path)).is_relative_to(self.root)
        return None if named_inside and not real.is_relative_to(self.root) and not self.allow.outside_paths else real

    def _stored(self, path: Path) -> str:
        return (path.relative_to(self.root) if path.is_relative_to(self.root) else path).as_posix()


# --- the table of keys ----------------------------------------------------------

Kind = Literal["boolean", "integer", "number", "text", "choice", "texts", "choices", "numbers", "names"]
Place = Literal["file", "user", "environment", "flag"]
OWN: tuple[Place, ...] = ("user", "environment", "flag")
TIERS = tuple(tier.value for tier in Tier)


@dataclass(frozen=True, slots=True)
class Key:
    """One setting. `choices` are the values, or for "numbers" the names that may carry one."""

    name: str
    kind: Kind
    attribute: str  # its path in Settings
    about: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    places: tuple[Place, ...] = OWN  # where a user may set it; for a repository's file, see `trust`
    nullable: bool = False

    @property
    def variable(self) -> str:
        name = self.name.removeprefix("memory.")
        return PREFIX + re.sub(r"(?<=[a-z])(?=[A-Z])|\.", "_", name).upper()

    @property
    def default(self) -> Any:
        value: Any = Settings(root=Path())
        for part in self.attribute.split("."):
            value = getattr(value, part)
        return value


KEYS: tuple[Key, ...] = (
    Key("semantic.enabled", "boolean", "semantic.enabled", "Search by meaning as well as by text."),
    Key(
        "semantic.model",
        "choice",
        "semantic.model",
        "Who embeds: the bundled model, an OpenAI-compatible server, nobody, or a fake for tests.",
        choices=("local", "openai", "none", "hashing"),
    ),
    Key(
        "semantic.dimensions",
        "integer",
        "semantic.dimensions",
        "Length of the remote model's vectors; unset asks the server.",
        minimum=1,
        maximum=65536,
        nullable=True,
    ),
    Key(
        "semantic.indexPath",
        "text",
        "semantic.index_path",
        "The index file, relative to the workspace; unset is .spec-kit-memory/index.sqlite.",
        nullable=True,
    ),
    Key(
        "index.url",
        "text",
        "index.url",
        "Where the index is: `sqlite`, or a server as `postgresql://HOST/DATABASE` (needs the extra `team`).",
    ),
    Key(
        "index.project",
        "text",
        "index.project",
        "The project's name on that server; unset is this folder on this machine alone.",
        nullable=True,
    ),
    Key(
        "index.memoryMb",
        "integer",
        "index.memory_mb",
        "Memory for what is searched: a project on a PostgreSQL server that would take more is searched there."
        " On a team server: for the projects that are open; beyond it the least used is let go.",
        minimum=16,
        maximum=10_000_000,
    ),
    Key(
        "index.projects",
        "names",
        "index.projects",
        "Folders of yours and the project on that server that each is a checkout of.",
        places=("user",),
    ),
    Key("semantic.baseUrl", "text", "semantic.base_url", "Address of the OpenAI-compatible server, up to /v1."),
    Key("semantic.remoteModel", "text", "semantic.remote_model", "The model asked for at that server."),
    Key(
        "semantic.apiKeyEnv",
        "text",
        "semantic.api_key_env",
        "Name of the environment variable that holds the server's key.",
    ),
    Key(
        "triggers.autoSaveInterval",
        "integer",
        "triggers.auto_save_interval",
        "Suggest saving after this many turns without a save; 0 never does.",
        minimum=0,
        maximum=10_000,
    ),
    Key("triggers.phrases", "texts", "triggers.phrases", "More phrases that suggest saving."),
    Key("memory.decay.enabled", "boolean", "decay.enabled", "Let old memories rank lower."),
    Key(
        "memory.decay.model",
        "choice",
        "decay.model",
        "How relevance fades with time.",
        choices=("half_life", "linear", "turns", "states"),
    ),
    Key(
        "memory.decay.halfLifeDays",
        "number",
        "decay.half_life_days",
        "Days until half is left (half_life).",
        minimum=0.01,
        maximum=100_000,
    ),
    Key(
        "memory.decay.rates",
        "numbers",
        "decay.rates",
        "Loss per day of each tier (linear).",
        choices=TIERS,
        minimum=0,
        maximum=1,
    ),
    Key(
        "memory.decay.minFloor",
        "number",
        "decay.min_floor",
        "Never below this (linear); unset is the tier's own floor.",
        minimum=0,
        maximum=1,
        nullable=True,
    ),
    Key("memory.decay.exemptTiers", "choices", "decay.exempt_tiers", "Tiers that never fade.", choices=TIERS),
    Key("memory.defaultTier", "choice", "default_tier", "Tier of a memory that names none.", choices=TIERS[1:]),
    Key(
        "memory.defaultContextType",
        "choice",
        "default_context_type",
        "Context type of a memory that names none.",
        choices=tuple(kind.value for kind in ContextType),
    ),
    Key(
        "memory.extraPaths",
        "texts",
        "extra_paths",
        "More files, folders or globs to index (source custom). The workspace's and the user's own add up.",
    ),
    Key(
        "search.fusion",
        "choice",
        "search.fusion",
        "How text and meaning become one relevance: the measured best, or plain reciprocal rank.",
        choices=("best", "rrf"),
    ),
    Key(
        "search.weights",
        "numbers",
        "search.weights",
        "Shares of the score.",
        choices=("relevance", "tier", "recency", "keywords"),
        minimum=0,
        maximum=1,
    ),
    Key(
        "search.maxTokens",
        "integer",
        "search.max_tokens",
        "Token budget of a search's answer.",
        minimum=100,
        maximum=1_000_000,
    ),
    Key(
        "search.rolePrior",
        "numbers",
        "search.role_prior",
        "Relevance added to a speaker's turns in conversations.",
        minimum=-1,
        maximum=1,
    ),
    Key("exclude", "texts", "exclude", "Files and folders to leave out, written as in .gitignore."),
    Key("save.noise", "texts", "noise", "More lines that saving leaves out."),
    Key(
        "watch",
        "choice",
        "watch",
        "How a server notices file changes: by events, by looking (network drives), or not at all.",
        choices=("auto", "poll", "off"),
    ),
    Key(
        "isolation.userId",
        "text",
        "isolation.user_id",
        "Whose namespace this process sees.",
        nullable=True,
    ),
    Key(
        "isolation.projectId",
        "text",
        "isolation.project_id",
        "Which project's shared memory this process sees.",
        nullable=True,
    ),
    Key(
        "isolation.allowedPaths",
        "texts",
        "isolation.allowed_paths",
        "The only paths this process sees; unset is the workspace, an empty list is nothing.",
        nullable=True,
    ),
    Key(
        "allow.network",
        "boolean",
        "allow.network",
        "Let a repository's configuration choose `openai`; address and key stay yours.",
        places=("user",),
    ),
    Key(
        "allow.outsidePaths",
        "boolean",
        "allow.outside_paths",
        "Let a repository's configuration read and write outside the workspace.",
        places=("user",),
    ),
)
BY_NAME: Mapping[str, Key] = {key.name: key for key in KEYS}


# --- values -----------------------------------------------------------------------


def convert(key: Key, raw: object) -> Any:
    """Convert a value of the file, the environment or a flag to the setting's type; ValueError says what is valid."""
    if raw is None and key.nullable:
        return None
    if key.kind == "boolean":
        return _boolean(raw)
    if key.kind in ("integer", "number"):
        return _number(key, raw)
    if key.kind in ("text", "choice"):
        return _text(key, raw)
    if key.kind in ("texts", "choices"):
        if not isinstance(raw, list | tuple):
            raise ValueError("must be a list of texts")
        return tuple(_text(key, item) for item in raw)
    if not isinstance(raw, Mapping):
        raise ValueError(f"must be an object of {'texts' if key.kind == 'names' else 'numbers'}")
    if key.kind == "names":
        return {_text(key, name): _text(key, value) for name, value in raw.items()}
    return _numbers(key, raw)


def shown_text(text: str) -> str:
    """A text for a message: quoted and shortened."""
    return repr(text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "...")


def _boolean(raw: object) -> bool:
    if not isinstance(raw, bool):
        raise ValueError("must be true or false")
    return raw


def _number(key: Key, raw: object) -> int | float:
    endless = isinstance(raw, float) and not math.isfinite(raw)
    if isinstance(raw, bool) or not isinstance(raw, int | float) or endless:
        raise ValueError(f"must be a{'n integer' if key.kind == 'integer' else ' number'}")
    if key.kind == "integer" and raw != int(raw):
        raise ValueError("must be an integer")
    if (key.minimum is not None and raw < key.minimum) or (key.maximum is not None and raw > key.maximum):
        raise ValueError(f"must be from {key.minimum:,} to {key.maximum:,}")
    return int(raw) if key.kind == "integer" else float(raw)


def _text(key: Key, raw: object) -> str:
    if not isinstance(raw, str) or re.search("[\0\ud800-\udfff]", raw):  # impossible in paths and keys
        raise ValueError("must be a list of texts" if key.kind in ("texts", "choices") else "must be a text")
    if key.choices and raw not in key.choices:
        raise ValueError(f"must be {' or '.join(key.choices)}")
    return raw


def _numbers(key: Key, raw: Mapping[Any, object]) -> dict[str, float]:
    if key.choices and (unknown := [name for name in raw if name not in key.choices]):
        names = ", ".join(shown_text(str(name)) for name in unknown[:3])
        more = f" and {len(unknown) - 3:,} more" if len(unknown) > 3 else ""
        raise ValueError(f"may name {', '.join(key.choices)} and not {names}{more}")
    return {str(name): float(_number(key, value)) for name, value in raw.items()}


# --- showing -----------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A setting's value as JSON types."""
    if isinstance(value, Weights):
        return {name: getattr(value, name) for name in Weights.__slots__}
    if isinstance(value, Mapping):
        return {str(name): number for name, number in value.items()}
    if isinstance(value, tuple):
        return [str(item) for item in value]
    return str(value) if isinstance(value, Path) else value


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting with its value and where that came from, for display."""

    key: str
    value: Any
    source: str
    variable: str
    about: str


def describe(settings: Settings) -> list[SettingRow]:
    """Every key with its value and the value's origin, for display."""
    rows = []
    for key in KEYS:
        value: Any = settings
        for part in key.attribute.split("."):
            value = getattr(value, part)
        rows.append(
            SettingRow(
                key=key.name,
                value=shown_url(value) if key.name == "index.url" else plain(value),
                source=settings.sources.get(key.name, "default"),
                variable=key.variable,
                about=key.about,
            )
        )
    return rows
