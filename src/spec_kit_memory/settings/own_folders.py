"""Where are the user's own files, which belong to no project? In the platform's folders for them.

There may be no home (a container, a service, a bare `env -i`). Then "~" would not be expanded, and a repository may
contain a folder of that name, so a relative path is never accepted as one of the user's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from spec_kit_memory.errors import FileMissing
from spec_kit_memory.settings.keys import PREFIX

APPLICATION = "spec-kit-memory"


def expanded(path: str | Path) -> Path | None:
    """The path with ~ expanded; None if there is no such home."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return None


def user_config_file(environ: Mapping[str, str]) -> Path | None:
    """The user's own configuration file; None if there is no home to find it in."""
    if path := environ.get(PREFIX + "USER_CONFIG"):
        return expanded(path)
    from platformdirs import user_config_dir

    folder = _platform_folder(user_config_dir)
    return folder / "config.jsonc" if folder else None


def user_folder(environ: Mapping[str, str]) -> Path:
    """The folder of the user's own configuration and other files."""
    if file := user_config_file(environ):
        return file.parent
    raise _missing_home("Set HOME, or name a file of yours with SPEC_KIT_MEMORY_USER_CONFIG.")


def user_state_folder(*, otherwise: str) -> Path:
    """The folder for state that programs keep for this user; `otherwise` is the hint if there is no home."""
    from platformdirs import user_state_dir

    if folder := _platform_folder(user_state_dir):
        return folder
    raise _missing_home(f"Set HOME, or {otherwise}.")


def personal_vault() -> Path | None:
    """The folder of the user's personal memory, existing or not; None if there is no home."""
    from platformdirs import user_data_dir

    folder = _platform_folder(user_data_dir)
    return None if folder is None else Path(os.path.realpath(folder / "personal"))


def _platform_folder(place: Callable[..., str]) -> Path | None:
    try:
        folder = Path(place(APPLICATION, appauthor=False))
    except RuntimeError:  # newer versions of platformdirs raise, older ones return the ~
        return None
    return folder if folder.is_absolute() else None


def make_private_folder(folder: Path) -> None:
    """Create the folder and its missing parents for this user alone, regardless of the umask."""
    missing = [folder, *folder.parents]
    for place in reversed(missing[: next(n for n, path in enumerate(missing) if path.is_dir())]):
        place.mkdir(mode=0o700, exist_ok=True)


def _missing_home(hint: str) -> FileMissing:
    return FileMissing("This user has no home folder: HOME is not set and the system knows none.", hint=hint)
