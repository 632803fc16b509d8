"""Where did each value come from? The only reader of the environment and of config.jsonc. Later sources win:

default < .spec-kit-memory/config.jsonc < the user's config.jsonc < environment < flags
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from spec_kit_memory import filesystem
from spec_kit_memory.advice import advise
from spec_kit_memory.core import jsonc
from spec_kit_memory.core.memory import ContextType, Tier
from spec_kit_memory.core.wording import close_names
from spec_kit_memory.errors import BadParameter, FileMissing
from spec_kit_memory.settings.joined_projects import JOINED
from spec_kit_memory.settings.keys import (
    BY_NAME,
    KEYS,
    PREFIX,
    SHOWN_CHARACTERS,
    STATE_FOLDER,
    Allow,
    Decay,
    IndexPlace,
    Isolation,
    Key,
    Place,
    Search,
    Semantic,
    Settings,
    Triggers,
    Weights,
    convert,
    plain,
    shown_text,
)
from spec_kit_memory.settings.own_folders import expanded, user_config_file
from spec_kit_memory.settings.trust import TRUST, TrustLevel, forbidden_values

CONFIG = f"{STATE_FOLDER}/config.jsonc"
CONFIG_LIMIT_BYTES = 1_000_000
ROOT_MARKS = (STATE_FOLDER, "specs", "MEMORY.md", ".git")
# Variables that are read elsewhere: neither settings nor misspellings of one.
RESERVED_VARIABLES = frozenset(
    PREFIX + name for name in ("WORKSPACE", "USER_CONFIG", "TOKEN", "TOOLS", "SESSION_ID", "DEBUG")
)
SHOWN_PROBLEMS = 20
_SYSTEM = 0  # root can change everything anyway


# --- where the workspace is ------------------------------------------------------


def find_root(
    start: Path | None = None, *, workspace: str | Path | None = None, environ: Mapping[str, str] | None = None
) -> Path:
    """The named workspace, else the environment's, else the nearest folder upwards that looks like one.

    Its marker must belong to this user, to the system, or to the owner of the current folder: in a folder that all
    users may write to, like /tmp, another user could otherwise plant rules for everyone who works below it.
    """
    named_folder = workspace or (os.environ if environ is None else environ).get(PREFIX + "WORKSPACE")
    if named_folder:
        root = expanded(named_folder)
        if root is None or not root.is_dir():
            raise FileMissing(
                f"The workspace {str(named_folder)!r} is not a folder.",
                hint=advise("existing-workspace"),
            )
        return root.resolve()
    try:
        here = (start or Path.cwd()).resolve()
    except FileNotFoundError:
        raise FileMissing("The working directory does not exist any more.", hint=advise("name-workspace")) from None
    for folder in (here, *here.parents):
        if any(_is_believed(folder / mark, here) for mark in ROOT_MARKS):
            return folder
    raise FileMissing(
        f"No workspace at {str(here)!r} or above: nothing there has {', '.join(ROOT_MARKS)}.",
        hint=("Name a project's root.", advise("make-workspace")),
    )


def _is_believed(mark: Path, here: Path) -> bool:
    try:
        owners = {os.lstat(mark).st_uid, mark.stat().st_uid}
        return sys.platform == "win32" or owners <= {os.geteuid(), _SYSTEM, here.stat().st_uid}
    except OSError:
        return False


# --- loading ---------------------------------------------------------------------


@dataclass(slots=True)
class _Problems:
    """Collects the problems of the configuration, up to a limit, as a file may contain any number of mistakes."""

    texts: list[str] = field(default_factory=list)
    more: int = 0

    @property
    def full(self) -> bool:
        return len(self.texts) >= SHOWN_PROBLEMS

    def add(self, text: str) -> None:
        if self.full:
            self.more += 1
        else:
            self.texts.append(text)

    def all(self) -> list[str]:
        return [*self.texts, *([f"And {self.more:,} more."] if self.more else [])]

    def error(self) -> BadParameter:
        return BadParameter(
            "The configuration has problems: " + " ".join(self.all()),
            hint=("Correct the named keys.", advise("show-settings")),
            problems=self.all(),
        )


# The values of the workspace and its user are combined; for any other key one value replaces the other.
ADDS_UP = "memory.extraPaths"


def load(
    root: Path,
    *,
    environ: Mapping[str, str] | None = None,
    user_file: Path | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Settings:
    """The settings of the workspace at `root`. All problems of all sources are reported at once."""
    settings, problems = _load(root, environ=environ, user_file=user_file, overrides=overrides)
    if problems.texts:
        raise problems.error()
    return settings


def load_with_problems(root: Path, *, overrides: Mapping[str, object] | None = None) -> tuple[Settings, list[str]]:
    """The valid part of a configuration and the problems of the rest: only for displaying it, never for use."""
    settings, problems = _load(root, overrides=overrides)
    return settings, problems.all()


def _load(
    root: Path,
    *,
    environ: Mapping[str, str] | None = None,
    user_file: Path | None = None,
    overrides: Mapping[str, object] | None = None,
) -> tuple[Settings, _Problems]:
    root = root.resolve()
    environ = os.environ if environ is None else environ
    user_file = user_file or user_config_file(environ)
    problems = _Problems()
    values: dict[str, Any] = {}
    sources: dict[str, str] = {key.name: "default" for key in KEYS}
    own = dict(_from_file(_users_own(user_file), str(user_file), problems)) if user_file else {}
    outside, network = own.get("allow.outsidePaths") is True, own.get("allow.network") is True
    layers: tuple[tuple[Place, str, Iterator[tuple[str, object]]], ...] = (
        ("file", CONFIG, _from_repository(root, problems, outside=outside)),
        ("user", str(user_file), iter(own.items())),
        ("environment", "the environment", _from_environment(environ, problems)),
        ("flag", "the command line", iter((overrides or {}).items())),
    )
    of_repository: dict[str, Any] = {}
    for place, where, pairs in layers:
        for name, raw in pairs:
            _accept(name, raw, place, where, values=values, sources=sources, problems=problems)
        if place == "file":
            of_repository = dict(values)
    refused = [
        *forbidden_values(values, sources, root=root, outside=outside, network=network),
        *_relative_to_missing_home(values),
    ]
    for name, text in refused:
        problems.add(text)
        values.pop(name, None)
        sources[name] = "default"
    sources.pop("", None)
    paths = of_repository.get(ADDS_UP, ())
    if paths and sources[ADDS_UP] == "user":
        reasons = forbidden_values({ADDS_UP: paths}, {ADDS_UP: "file"}, root=root, outside=outside, network=network)
        texts = [text for name, text in reasons if name == ADDS_UP]
        for text in texts:
            problems.add(text)
        if not texts:
            paths = tuple(path for path in paths if path not in values[ADDS_UP])
            values[ADDS_UP] = (*paths, *values[ADDS_UP])
            sources[ADDS_UP] = "file and user" if paths else "user"
    joined = values.get(JOINED, {}).get(str(root))
    if joined and sources["index.project"] in ("default", "user"):
        values["index.project"], sources["index.project"] = joined, "user"
    settings = _build(root, values, sources, environ)
    return replace(settings, repository_paths=frozenset(paths) if "file" in sources[ADDS_UP] else frozenset()), problems


def repository_excludes(data: bytes) -> tuple[str, ...]:
    """`exclude` from the bytes of a repository's configuration; everything else in it is ignored."""
    problems = _Problems()
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name, raw in _from_bytes(data, CONFIG, problems):
        if name == "exclude":
            _accept(name, raw, "file", CONFIG, values=values, sources=sources, problems=problems)
    for _, text in forbidden_values(values, sources, root=Path("/"), outside=False, network=False):
        problems.add(text)
    if problems.texts:
        raise problems.error()
    return tuple(values.get("exclude", ()))


def _relative_to_missing_home(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    index = values.get("semantic.indexPath")
    paths = [("memory.extraPaths", path) for path in values.get("memory.extraPaths", ())]
    for name, path in (*paths, *([("semantic.indexPath", index)] if index else [])):
        if expanded(path) is None:
            yield name, f"{shown_text(path)} begins with ~, but this user has no home folder."


def places_of(key: Key) -> tuple[Place, ...]:
    """All places where a key may be set."""
    return key.places if TRUST[key.name] is TrustLevel.NEVER else ("file", *key.places)


def _accept(
    name: str,
    raw: object,
    place: Place,
    where: str,
    *,
    values: dict[str, Any],
    sources: dict[str, str],
    problems: _Problems,
) -> None:
    key = BY_NAME.get(name)
    if key is None:
        # Finding the intended name takes time, and a file can have many wrong ones.
        problems.add(f"{shown_text(name)} in {where} is not a key{'' if problems.full else _close(name)}.")
    elif place not in (allowed := places_of(key)):
        elsewhere = " or ".join(_PLACE_NAMES[place] for place in allowed)
        problems.add(f"{name!r} may not be set in {where}, only in {elsewhere}.")
    else:
        try:
            values[name] = convert(key, raw)
            sources[name] = place
        except ValueError as error:
            problems.add(f"{name!r} in {where} {error}, not {_shown_value(raw)}.")


_PLACE_NAMES: Mapping[str, str] = {
    "file": "the workspace's config.jsonc",
    "user": "the user's own config.jsonc",
    "environment": "the environment",
    "flag": "the command line",
}


def _shown_value(raw: object) -> str:
    try:
        text = json.dumps(raw, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        return "something nested too deep"
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "..."


def _close(name: str) -> str:
    close = close_names(name, BY_NAME)
    last = name.rsplit(".", 1)[-1]
    close += [key for key in BY_NAME if key not in close and key.rsplit(".", 1)[-1] == last]
    return f" (did you mean {' or '.join(close[:3])}?)" if close else ""


# --- files -------------------------------------------------------------------------


def _from_repository(root: Path, problems: _Problems, *, outside: bool) -> Iterator[tuple[str, object]]:
    real = Path(os.path.realpath(root / CONFIG))
    if real.is_relative_to(root):
        return _from_file(filesystem.Place(root, real.relative_to(root).parts), CONFIG, problems)
    if not outside:
        problems.add(
            f"{CONFIG} is a link out of the workspace, which a repository can bring along; it is not read. "
            "That needs allow.outsidePaths in your own configuration."
        )
        return iter(())
    return _from_file(_users_own(real), CONFIG, problems)


def _users_own(path: Path) -> filesystem.Place:
    """The place of a file that only the user can name, so links are followed."""
    return filesystem.Place.of(Path(os.path.realpath(path)))


def _from_file(place: filesystem.Place, where: str, problems: _Problems) -> Iterator[tuple[str, object]]:
    try:
        data, _ = filesystem.read(place, limit=CONFIG_LIMIT_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        problems.add(f"{where} cannot be read: {error.strerror or error}.")
        return
    yield from _from_bytes(data, where, problems)


def _from_bytes(data: bytes, where: str, problems: _Problems) -> Iterator[tuple[str, object]]:
    if len(data) > CONFIG_LIMIT_BYTES:
        problems.add(f"{where} is larger than {CONFIG_LIMIT_BYTES:,} bytes.")
        return
    try:
        content = jsonc.read(data.decode("utf-8-sig"))
    except ValueError as error:
        problems.add(f"{where} is not JSON with comments: {error}.")
        return
    if not isinstance(content, dict):
        problems.add(f"{where} must hold an object {{...}}.")
        return
    yield from _flatten(content, "")


def _flatten(content: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for part, value in content.items():
        name = prefix + part
        inner = any(key.startswith(name + ".") for key in BY_NAME)
        if isinstance(value, dict) and inner and name not in BY_NAME:
            yield from _flatten(value, name + ".")
        elif name != "$schema":
            yield name, value


# --- environment and flags -----------------------------------------------------------


def _from_environment(environ: Mapping[str, str], problems: _Problems) -> Iterator[tuple[str, object]]:
    variables = {key.variable: key for key in KEYS}
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable in RESERVED_VARIABLES:
            continue
        key = variables.get(variable)
        if key is None:
            close = close_names(variable, variables)
            suggestion = f" (did you mean {' or '.join(close)}?)" if close else ""
            problems.add(f"{variable!r} in the environment is not a setting{suggestion}.")
        elif environ[variable] or key.kind == "texts":
            yield key.name, _from_text(key, environ[variable])


def _from_text(key: Key, text: str) -> object:
    """The value that a variable's text has for that key; an invalid text is returned as it is and refused later."""
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
    except (ValueError, RecursionError):
        return text


def parse_flag(pair: str) -> tuple[str, object]:
    """Parse KEY=VALUE of a command line as an override for `load`."""
    name, equals, text = pair.partition("=")
    if not equals:
        raise BadParameter(f"{pair!r} is not of the form KEY=VALUE.", hint="For example semantic.model=none.")
    key = BY_NAME.get(name.strip())
    return name.strip(), text if key is None else _from_text(key, text)


# --- building ----------------------------------------------------------------------


def _build(root: Path, values: Mapping[str, Any], sources: Mapping[str, str], environ: Mapping[str, str]) -> Settings:
    groups: dict[str, dict[str, Any]] = {"": {}}
    for name, value in values.items():
        group, _, attribute = BY_NAME[name].attribute.rpartition(".")
        groups.setdefault(group, {})[attribute] = value
    semantic = groups.setdefault("semantic", {})
    if semantic.get("index_path"):
        semantic["index_path"] = (root / (expanded(semantic["index_path"]) or semantic["index_path"])).resolve()
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
        index=IndexPlace(**groups.get("index", {})),
        triggers=Triggers(**groups.get("triggers", {})),
        decay=Decay(**decay),
        search=Search(**search),
        isolation=Isolation(**groups.get("isolation", {})),
        allow=Allow(**groups.get("allow", {})),
        sources=dict(sources),
        **top,
    )


def starter_config() -> str:
    """The config.jsonc of a new workspace: the keys that a repository may set freely, commented out, with defaults."""
    lines = ["{", "  // Settings of this workspace. Uncomment what you want to change."]
    for key in KEYS:
        if TRUST[key.name] not in (TrustLevel.NEVER, TrustLevel.NETWORK):
            choices = f" ({' | '.join(key.choices)})" if key.kind == "choice" else ""
            lines.append(f"  // {key.about}{choices}")
            lines.append(f"  // {json.dumps(key.name)}: {json.dumps(plain(key.default))},")
    return "\n".join([*lines, "}", ""])
