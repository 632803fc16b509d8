"""Which project of a shared index does a folder belong to? Kept in the user's own configuration, by folder.

A repository can claim anything about itself, so nothing in it joins a project: only the user does, per folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from spec_kit_memory import filesystem
from spec_kit_memory.core import jsonc
from spec_kit_memory.errors import BadParameter, FileMissing
from spec_kit_memory.settings.own_folders import make_private_folder, user_config_file

JOINED = "index.projects"
# Like the names of a team's projects: safe as the name of a folder, in an address and in a log.
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_LARGEST_BYTES = 1_000_000


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise BadParameter(
            f"{name!r} is not a project's name",
            hint="use up to 100 letters, digits, dots, hyphens and underscores, a letter or digit at both ends",
        )
    return name


def join(root: Path, name: str, environ: Mapping[str, str] | None = None) -> Path:
    """Join the checkout at `root` to that project; returns the configuration file that records it."""
    check_name(name)
    file = user_config_file(os.environ if environ is None else environ)
    if file is None:
        raise FileMissing(
            "This user has no home folder to keep the project's name in.",
            hint="Set HOME, or name a file of yours with SPEC_KIT_MEMORY_USER_CONFIG.",
        )
    make_private_folder(file.parent)
    place = filesystem.Place.of(Path(os.path.realpath(file)))
    try:
        data, _ = filesystem.read(place, limit=_LARGEST_BYTES)
        text = data.decode("utf-8-sig")
    except FileNotFoundError:
        text = "{\n}\n"
    except OSError as error:
        raise FileMissing(f"{file} cannot be read: {error.strerror or error}.", hint="Make it readable.") from error
    try:
        written = jsonc.put(text, _path_in(text, str(root)), name)
    except ValueError as error:
        raise BadParameter(f"{file} is not JSON with comments: {error}.", hint="Correct it, then try again.") from error
    if written != text:
        filesystem.replace(place, written.encode("utf-8"))
    return file


def _path_in(text: str, root: str) -> tuple[str, ...]:
    """The path of the table: its dotted name if the file has that, else nested, as in most files."""
    content = jsonc.read(text)
    dotted = isinstance(content, dict) and (JOINED in content or not isinstance(content.get("index", {}), dict))
    return (JOINED, root) if dotted else (*JOINED.split("."), root)
