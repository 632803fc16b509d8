"""Where does the user keep what is theirs and no project's? In the platform's own folders.

There may be no home to find them by (a container, a service, a bare `env -i`). Then "~" would stay as it is, and a
repository may have a folder of that name: a path that does not begin at the root is none of the user's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from spec_kit_memory.errors import FileMissing
from spec_kit_memory.settings.keys import PREFIX

__all__ = ["expanded", "make_private_folder", "personal_vault", "user_config_file", "user_folder", "user_state_folder"]

APPLICATION = "spec-kit-memory"


def expanded(path: str | Path) -> Path | None:
    """The path with the home in place of its ~; None where there is no such home."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return None


def user_config_file(environ: Mapping[str, str]) -> Path | None:
    """The user's own configuration; None where no home says where that would be."""
    if path := environ.get(PREFIX + "USER_CONFIG"):
        return expanded(path)
    from platformdirs import user_config_dir

    folder = _platform_folder(user_config_dir)
    return folder / "config.jsonc" if folder else None


def user_folder(environ: Mapping[str, str]) -> Path:
    """Where the user's own configuration stands, and what else belongs to the user."""
    if file := user_config_file(environ):
        return file.parent
    raise _homeless("Set HOME, or name a file of yours with SPEC_KIT_MEMORY_USER_CONFIG.")


def user_state_folder(*, otherwise: str) -> Path:
    """Where programs keep what they made for this user; `otherwise` is what to do where there is no home."""
    from platformdirs import user_state_dir

    if folder := _platform_folder(user_state_dir):
        return folder
    raise _homeless(f"Set HOME, or {otherwise}.")


def personal_vault() -> Path | None:
    """Where the user's personal memory is, or would be; None where there is no home."""
    from platformdirs import user_data_dir

    folder = _platform_folder(user_data_dir)
    return None if folder is None else Path(os.path.realpath(folder / "personal"))


def _platform_folder(place: Callable[..., str]) -> Path | None:
    try:
        folder = Path(place(APPLICATION, appauthor=False))
    except RuntimeError:  # newer versions refuse to answer, older ones answer with the ~
        return None
    return folder if folder.is_absolute() else None


def make_private_folder(folder: Path) -> None:
    """Make the folder and what is missing above it for this user alone, whatever the umask says."""
    missing = [folder, *folder.parents]
    for place in reversed(missing[: next(n for n, path in enumerate(missing) if path.is_dir())]):
        place.mkdir(mode=0o700, exist_ok=True)


def _homeless(hint: str) -> FileMissing:
    return FileMissing("This user has no home folder: HOME is not set and the system knows none.", hint=hint)
