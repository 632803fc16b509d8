"""Which spec folder is meant? Names as callers write them."""

from __future__ import annotations

import os
import re
from collections.abc import Collection

from spec_kit_memory.core.wording import close_names

NEAREST = 3
DISTINCTIVE_CHARACTERS = 3  # shorter words occur in names by chance

_PREFIXES = (".opencode/specs/", "specs/")
# Except on Windows, a backslash can be part of a name; it separates folders around `specs` and before a number.
_SEPARATOR = re.compile(r"\\" if os.sep == "\\" else r"\\(?=specs\\|\d{3}-)|(?<=specs)\\")


def clean_folder(name: str) -> str:
    """The name below specs/: a leading specs/ or .opencode/specs/ is accepted everywhere."""
    cleaned = _SEPARATOR.sub("/", name.strip()).removeprefix("./").strip("/")
    for prefix in _PREFIXES:
        if cleaned.startswith(prefix):
            return cleaned[len(prefix) :]
    return cleaned


def near_folders(name: str, folders: Collection[str]) -> list[str]:
    """The folders that an unknown name may mean: by the beginnings of its segments, by similar spelling, by a word."""
    names, parts = sorted(folders), name.split("/")
    word = parts[-1].split("-", 1)[-1]
    begun = [folder for folder in names if _begins(folder.split("/"), parts)]
    if not begun and parts[0].split("-")[0].isdecimal():  # 7 for 007
        number, *rest = parts[0].split("-", 1)
        numbered = ["-".join([number.zfill(3), *rest]), *parts[1:]]
        begun = [folder for folder in names if _begins(folder.split("/"), numbered)]
    within = [folder for folder in names if len(word) >= DISTINCTIVE_CHARACTERS and word in folder]
    return list(dict.fromkeys([*begun, *close_names(name, names), *within]))[:NEAREST]


def _begins(folder: list[str], parts: list[str]) -> bool:
    """Is each part a prefix of one of the folder's segments, in consecutive order?"""
    starts = range(len(folder) - len(parts) + 1)
    return bool(parts[0]) and any(all(map(str.startswith, folder[start:], parts)) for start in starts)
