"""Which choices do users differ on, and where did each value come from?

Settings are frozen. This module is the only reader of the environment and config.jsonc.
`KEYS` is the one table of keys: loading, validation, `skm config show` and the reference
page are all made from it. Later sources win:

    default < .spec-kit-memory/config.jsonc < the user's config.jsonc < environment < flags
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from spec_kit_memory.core.memory import ContextType, Scope, Tier
from spec_kit_memory.errors import BadParameter, FileMissing

__all__ = [
    "KEYS",
    "Allow",
    "Decay",
    "Isolation",
    "Key",
    "Search",
    "Semantic",
    "Settings",
    "Triggers",
    "Weights",
    "describe",
    "find_root",
    "load",
    "starter_config",
    "user_config_file",
]

STATE_FOLDER = ".spec-kit-memory"
ROOT_MARKS = (STATE_FOLDER, "specs", "MEMORY.md", ".git")
PREFIX = "SPEC_KIT_MEMORY_"
# Read by the edges themselves, so they are no settings and no misspellings of one.
RESERVED_VARIABLES = frozenset(
    PREFIX + name for name in ("WORKSPACE", "USER_CONFIG", "TOKEN", "TOOLS", "SESSION_ID", "DEBUG")
)
CONFIG_LIMIT_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Semantic:
    enabled: bool = True
    model: str = "local"  # local | openai | none | hashing (tests)
    dimensions: int | None = None  # of the remote model; None asks it
    index_path: Path | None = None  # None: .spec-kit-memory/index.sqlite
    base_url: str = "https://api.openai.com/v1"
    remote_model: str = "text-embedding-3-small"
    api_key_env: str = "OPENAI_API_KEY"
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
class Allow:
    """What the user lets a repository's own configuration do."""

    network: bool = False
    outside_paths: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    root: Path  # the workspace, canonical
    semantic: Semantic = field(default_factory=Semantic)
    triggers: Triggers = field(default_factory=Triggers)
    decay: Decay = field(default_factory=Decay)
    search: Search = field(default_factory=Search)
    isolation: Isolation = field(default_factory=Isolation)
    allow: Allow = field(default_factory=Allow)
    default_tier: Tier = Tier.NORMAL
    default_context_type: ContextType = ContextType.GENERAL
    extra_paths: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    noise: tuple[str, ...] = ()  # more line patterns that saving leaves out
    watch: str = "auto"  # auto | poll | off
    sources: Mapping[str, str] = field(default_factory=dict)  # key -> default | file | user | environment | flag

    @property
    def state_folder(self) -> Path:
        return self.root / STATE_FOLDER

    @property
    def index_path(self) -> Path:
        return self.semantic.index_path or self.state_folder / "index.sqlite"

    @property
    def scope(self) -> Scope:
        prefixes = self.isolation.allowed_paths
        if prefixes is not None:
            canonical = [(self.root / path).resolve() for path in prefixes]
            # The root itself is what "unset" means; as a prefix it would be the empty text.
            prefixes = None if self.root in canonical else tuple(self._stored(path) for path in canonical)
        return Scope(user=self.isolation.user_id, project=self.isolation.project_id, prefixes=prefixes)

    def _stored(self, path: Path) -> str:
        return (path.relative_to(self.root) if path.is_relative_to(self.root) else path).as_posix()


# --- the table of keys ----------------------------------------------------------

Kind = Literal["boolean", "integer", "number", "text", "choice", "texts", "choices", "numbers"]
Place = Literal["file", "user", "environment", "flag"]
EVERYWHERE: tuple[Place, ...] = ("file", "user", "environment", "flag")
NOT_A_REPOSITORY: tuple[Place, ...] = ("user", "environment", "flag")
TIERS = tuple(tier.value for tier in Tier)


@dataclass(frozen=True, slots=True)
class Key:
    """One setting. `choices` are the values, or for "numbers" the names that may carry one."""

    name: str
    kind: Kind
    attribute: str  # where it stands in Settings
    about: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    places: tuple[Place, ...] = EVERYWHERE
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
    Key("semantic.baseUrl", "text", "semantic.base_url", "Address of the OpenAI-compatible server, up to /v1."),
    Key("semantic.remoteModel", "text", "semantic.remote_model", "The model asked for at that server."),
    Key(
        "semantic.apiKeyEnv",
        "text",
        "semantic.api_key_env",
        "Name of the environment variable that holds the server's key.",
        places=NOT_A_REPOSITORY,
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
    Key("memory.extraPaths", "texts", "extra_paths", "More files, folders or globs to index (source custom)."),
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
        places=NOT_A_REPOSITORY,
        nullable=True,
    ),
    Key(
        "isolation.projectId",
        "text",
        "isolation.project_id",
        "Which project's shared memory this process sees.",
        places=NOT_A_REPOSITORY,
        nullable=True,
    ),
    Key(
        "isolation.allowedPaths",
        "texts",
        "isolation.allowed_paths",
        "The only paths this process sees; unset is the workspace, an empty list is nothing.",
        places=NOT_A_REPOSITORY,
        nullable=True,
    ),
    Key(
        "allow.network",
        "boolean",
        "allow.network",
        "Let a repository's configuration send text to a network address.",
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


# --- where the workspace is ------------------------------------------------------


def find_root(
    start: Path | None = None, *, workspace: str | Path | None = None, environ: Mapping[str, str] | None = None
) -> Path:
    """The named workspace, else the environment's, else the nearest folder upwards that looks like one."""
    named = workspace or (os.environ if environ is None else environ).get(PREFIX + "WORKSPACE")
    if named:
        root = Path(named).expanduser().resolve()
        if not root.is_dir():
            raise FileMissing(
                f"The workspace {str(named)!r} is not a folder.", hint="Name an existing folder with --workspace."
            )
        return root
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if any((folder / mark).exists() for mark in ROOT_MARKS):
            return folder
    raise FileMissing(
        f"No workspace at {str(here)!r} or above: nothing there has {', '.join(ROOT_MARKS)}.",
        hint="Run `skm init` in your project's root, or name it with --workspace.",
    )


def user_config_file(environ: Mapping[str, str]) -> Path:
    if named := environ.get(PREFIX + "USER_CONFIG"):
        return Path(named).expanduser()
    from platformdirs import user_config_dir

    return Path(user_config_dir("spec-kit-memory", appauthor=False)) / "config.jsonc"


# --- loading ---------------------------------------------------------------------


def load(
    root: Path,
    *,
    environ: Mapping[str, str] | None = None,
    user_file: Path | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Settings:
    """The settings of the workspace at `root`. All problems of all sources are told at once."""
    root = root.resolve()
    environ = os.environ if environ is None else environ
    user_file = user_file or user_config_file(environ)
    problems: list[str] = []
    values: dict[str, Any] = {}
    sources: dict[str, str] = {key.name: "default" for key in KEYS}
    layers: tuple[tuple[Place, str, Iterator[tuple[str, object]]], ...] = (
        ("file", f"{STATE_FOLDER}/config.jsonc", _from_file(root / STATE_FOLDER / "config.jsonc", problems)),
        ("user", str(user_file), _from_file(user_file, problems)),
        ("environment", "the environment", _from_environment(environ, problems)),
        ("flag", "the command line", iter((overrides or {}).items())),
    )
    for place, where, pairs in layers:
        for name, raw in pairs:
            _accept(name, raw, place, where, values=values, sources=sources, problems=problems)
    _refuse_overreach(root, values, sources, problems)
    if problems:
        raise BadParameter(
            "The configuration has problems: " + " ".join(problems),
            hint="Correct the named keys; `skm config show` lists all keys.",
            problems=problems,
        )
    return _build(root, values, sources, environ)


def _accept(
    name: str,
    raw: object,
    place: Place,
    where: str,
    *,
    values: dict[str, Any],
    sources: dict[str, str],
    problems: list[str],
) -> None:
    key = BY_NAME.get(name)
    if key is None:
        problems.append(f"{name!r} in {where} is not a key{_close(name)}.")
    elif place not in key.places:
        allowed = " or ".join(_PLACE_NAMES[each] for each in key.places)
        problems.append(f"{name!r} may not be set in {where}, only in {allowed}.")
    else:
        try:
            values[name] = _convert(key, raw)
            sources[name] = place
        except ValueError as error:
            problems.append(f"{name!r} in {where} {error}, not {_shown(raw)}.")


_PLACE_NAMES: Mapping[str, str] = {
    "file": "the workspace's config.jsonc",
    "user": "the user's own config.jsonc",
    "environment": "the environment",
    "flag": "the command line",
}


def _shown(raw: object) -> str:
    text = json.dumps(raw, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _close(name: str) -> str:
    from difflib import get_close_matches

    found = get_close_matches(name, BY_NAME, n=3, cutoff=0.6)
    found += [each for each in BY_NAME if each not in found and each.rsplit(".", 1)[-1] == name.rsplit(".", 1)[-1]]
    return f" (did you mean {' or '.join(found[:3])}?)" if found else ""


def _from_file(path: Path, problems: list[str]) -> Iterator[tuple[str, object]]:
    try:
        with path.open("rb") as file:
            data = file.read(CONFIG_LIMIT_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        problems.append(f"{path} cannot be read: {error.strerror}.")
        return
    if len(data) > CONFIG_LIMIT_BYTES:
        problems.append(f"{path} is larger than {CONFIG_LIMIT_BYTES:,} bytes.")
        return
    try:
        content = read_jsonc(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        problems.append(f"{path} is not JSON with comments: {error}.")
        return
    if not isinstance(content, dict):
        problems.append(f"{path} must hold an object {{...}}.")
        return
    yield from _flatten(content, "")


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)


def read_jsonc(text: str) -> Any:
    """JSON, with comments and trailing commas; anything looser goes to json5, which is slow to import."""
    try:
        return json.loads(text)
    except ValueError:
        pass

    def bare(found: re.Match[str]) -> str:
        token = found.group()
        return token if token.startswith('"') else re.sub(r"[^\n]", " ", token)

    try:
        # Twice: a comment between a comma and the bracket hides that comma from the first pass.
        return json.loads(_TOKEN.sub(bare, _TOKEN.sub(bare, text)))
    except ValueError:
        import json5

        return json5.loads(text)


def _flatten(content: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for part, value in content.items():
        name = prefix + part
        inner = any(key.startswith(name + ".") for key in BY_NAME)
        if isinstance(value, dict) and inner and name not in BY_NAME:
            yield from _flatten(value, name + ".")
        elif name != "$schema":
            yield name, value


def _from_environment(environ: Mapping[str, str], problems: list[str]) -> Iterator[tuple[str, object]]:
    variables = {key.variable: key for key in KEYS}
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable in RESERVED_VARIABLES:
            continue
        key = variables.get(variable)
        if key is None:
            from difflib import get_close_matches

            found = get_close_matches(variable, variables, n=3)
            close = f" (did you mean {' or '.join(found)}?)" if found else ""
            problems.append(f"{variable!r} in the environment is not a setting{close}.")
        elif environ[variable] or key.kind == "texts":
            yield key.name, _from_text(key, environ[variable])


def _from_text(key: Key, text: str) -> object:
    """What a variable's text means for that key; where it means nothing, the text itself, to be refused."""
    stripped = text.strip()
    if key.kind == "boolean":
        return {
            "true": True,
            "1": True,
            "yes": True,
            "on": True,
            "false": False,
            "0": False,
            "no": False,
            "off": False,
        }.get(stripped.lower(), text)
    if key.kind in ("texts", "choices") and not stripped.startswith("["):
        return [part.strip() for part in stripped.split(",") if part.strip()]
    if key.kind in ("text", "choice"):
        return stripped
    try:
        return json.loads(stripped)
    except ValueError:
        return text


def parse_flag(pair: str) -> tuple[str, object]:
    """KEY=VALUE of a command line as an override for `load`."""
    name, equals, text = pair.partition("=")
    if not equals:
        raise BadParameter(f"{pair!r} is not of the form KEY=VALUE.", hint="For example semantic.model=none.")
    key = BY_NAME.get(name.strip())
    return name.strip(), text if key is None else _from_text(key, text)


# --- values -----------------------------------------------------------------------


def _convert(key: Key, raw: object) -> Any:
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
        return tuple(_text(key, each) for each in raw)
    if not isinstance(raw, Mapping):
        raise ValueError("must be an object of numbers")
    return _numbers(key, raw)


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
    if not isinstance(raw, str) or re.search("[\0\ud800-\udfff]", raw):  # no path and no key can have these
        raise ValueError("must be a list of texts" if key.kind in ("texts", "choices") else "must be a text")
    if key.choices and raw not in key.choices:
        raise ValueError(f"must be {' or '.join(key.choices)}")
    return raw


def _numbers(key: Key, raw: Mapping[Any, object]) -> dict[str, float]:
    if key.choices and (unknown := [name for name in raw if name not in key.choices]):
        raise ValueError(f"may name {', '.join(key.choices)} and not {', '.join(map(repr, unknown))}")
    return {str(name): float(_number(key, value)) for name, value in raw.items()}


# --- what a repository may not do ---------------------------------------------------


def _refuse_overreach(root: Path, values: dict[str, Any], sources: dict[str, str], problems: list[str]) -> None:
    """A configuration that came with a repository stays off the network and inside the workspace."""
    from_repository = {name for name, place in sources.items() if place == "file"}
    address = values.get("semantic.baseUrl", BY_NAME["semantic.baseUrl"].default)
    sends = values.get("semantic.model") == "openai" and not _is_loopback(address)
    guilty = sorted(from_repository & {"semantic.model", "semantic.baseUrl"})
    if sends and guilty and not values.get("allow.network", False):
        problems.append(
            f"{' and '.join(map(repr, guilty))} of the workspace's config.jsonc would send text to {address}; "
            "that needs allow.network in your own configuration."
        )
    if values.get("allow.outsidePaths", False):
        return
    if not _is_inside(root, STATE_FOLDER):
        problems.append(
            f"{STATE_FOLDER} is a link out of the workspace, which a repository can bring along; "
            "that needs allow.outsidePaths in your own configuration."
        )
    for name in sorted(from_repository & {"semantic.indexPath", "memory.extraPaths"}):
        paths = values[name] if name == "memory.extraPaths" else (values[name] or ".",)
        problems += [
            f"{name!r} of the workspace's config.jsonc names {path!r}, which is outside the workspace; "
            "that needs allow.outsidePaths in your own configuration."
            for path in paths
            if not _is_inside(root, path)
        ]


def _is_loopback(address: str) -> bool:
    from ipaddress import ip_address
    from urllib.parse import urlsplit

    # Clients disagree about what stands before an @ or a backslash, so neither is trusted.
    if re.search(r"[\\@\s]", address):
        return False
    try:
        host = urlsplit(address).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _is_inside(root: Path, path: str) -> bool:
    """Decided on the real path of what stands before the first wildcard."""
    parts = Path(path).expanduser().parts
    wild = next((n for n, part in enumerate(parts) if re.search(r"[*?\[{]", part)), len(parts))
    if ".." in parts[wild:]:
        return False
    return root.joinpath(*parts[:wild]).resolve().is_relative_to(root)


# --- building ----------------------------------------------------------------------


def _build(root: Path, values: Mapping[str, Any], sources: Mapping[str, str], environ: Mapping[str, str]) -> Settings:
    groups: dict[str, dict[str, Any]] = {"": {}}
    for name, value in values.items():
        group, _, attribute = BY_NAME[name].attribute.rpartition(".")
        groups.setdefault(group, {})[attribute] = value
    semantic = groups.setdefault("semantic", {})
    if semantic.get("index_path"):
        semantic["index_path"] = (root / Path(semantic["index_path"]).expanduser()).resolve()
    semantic["api_key"] = environ.get(semantic.get("api_key_env", BY_NAME["semantic.apiKeyEnv"].default)) or None
    decay = groups.get("decay", {})
    if "rates" in decay:
        decay["rates"] = {**Decay().rates, **{Tier(tier): rate for tier, rate in decay["rates"].items()}}
    if "exempt_tiers" in decay:
        decay["exempt_tiers"] = tuple(Tier(tier) for tier in decay["exempt_tiers"])
    search = groups.get("search", {})
    if "weights" in search:
        search["weights"] = Weights(**search["weights"])
    top = groups[""]
    if "default_tier" in top:
        top["default_tier"] = Tier(top["default_tier"])
    if "default_context_type" in top:
        top["default_context_type"] = ContextType(top["default_context_type"])
    return Settings(
        root=root,
        semantic=Semantic(**semantic),
        triggers=Triggers(**groups.get("triggers", {})),
        decay=Decay(**decay),
        search=Search(**search),
        isolation=Isolation(**groups.get("isolation", {})),
        allow=Allow(**groups.get("allow", {})),
        sources=dict(sources),
        **top,
    )


# --- showing -----------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A setting's value as JSON would write it."""
    if isinstance(value, Weights):
        return {name: getattr(value, name) for name in Weights.__slots__}
    if isinstance(value, Mapping):
        return {str(name): number for name, number in value.items()}
    if isinstance(value, tuple):
        return [str(each) for each in value]
    return str(value) if isinstance(value, Path) else value


def describe(settings: Settings) -> list[dict[str, Any]]:
    """Every key with its value and where that came from, for `skm config show`."""
    rows = []
    for key in KEYS:
        value: Any = settings
        for part in key.attribute.split("."):
            value = getattr(value, part)
        rows.append(
            {
                "key": key.name,
                "value": plain(value),
                "source": settings.sources.get(key.name, "default"),
                "variable": key.variable,
                "about": key.about,
            }
        )
    return rows


def starter_config() -> str:
    """The config.jsonc that `skm init` writes: every key a repository may set, commented out, with its default."""
    lines = ["{", "  // Settings of this workspace. Uncomment what you want to change."]
    for key in KEYS:
        if "file" in key.places:
            choices = f" ({' | '.join(key.choices)})" if key.kind == "choice" else ""
            lines.append(f"  // {key.about}{choices}")
            lines.append(f"  // {json.dumps(key.name)}: {json.dumps(plain(key.default))},")
    return "\n".join([*lines, "}", ""])
