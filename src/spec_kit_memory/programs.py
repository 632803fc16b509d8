"""Where is a program that is known by its name? Only the absolute folders of PATH are searched.

A relative one (`.`, `node_modules/.bin`, or an empty one) depends on the current folder, which may be a cloned
repository: it would decide what runs. Windows searches the current folder even if PATH does not name it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path


def find(name: str, environ: Mapping[str, str]) -> str | None:
    """The absolute path of the program; None if there is none. A name that is a path is not searched for."""
    if os.path.dirname(name):
        program = shutil.which(name)
        return str(Path(program).absolute()) if program else None
    path = environ.get("PATH", os.defpath)
    for folder in filter(os.path.isabs, path.split(os.pathsep)):
        # Given a path, `which` does not search the current folder on Windows.
        if program := shutil.which(os.path.join(folder, name)):
            return program
    return None
