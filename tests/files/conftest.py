from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from spec_kit_memory.files import disk
from spec_kit_memory.index import open_index
from spec_kit_memory.index.contract import Index
from spec_kit_memory.settings import Settings

Write = Callable[..., Path]
NOBODY = 65534


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return Path(os.path.realpath(folder))


@pytest.fixture
def settings(root: Path) -> Settings:
    return Settings(root=root)


@pytest.fixture
def store(settings: Settings) -> Iterator[Index]:
    disk.ensure_state_folder(settings)
    store = open_index(settings.index_path)
    yield store
    store.close()


@pytest.fixture
def write(root: Path) -> Write:
    def write(path: str, text: str | bytes = "# Title\n\nSome text.\n") -> Path:
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode() if isinstance(text, str) else text)
        return target

    return write


@pytest.fixture
def open_root() -> Iterator[Path]:
    """A workspace that any user may enter: the usual temporary folder is its owner's alone."""
    folder = Path(os.path.realpath(tempfile.mkdtemp()))
    folder.chmod(0o777)
    yield folder
    for place, _, _ in os.walk(folder):
        Path(place).chmod(0o777)
    shutil.rmtree(folder)


@pytest.fixture
def without_privileges() -> Callable[[], AbstractContextManager[None]]:
    """Root may read everything, so tests of permissions act as somebody else while they look."""
    if not hasattr(os, "geteuid"):
        pytest.skip("this system has no file modes")

    @contextmanager
    def act() -> Iterator[None]:
        if os.geteuid() != 0:
            yield
            return
        os.seteuid(NOBODY)
        try:
            yield
        finally:
            os.seteuid(0)

    return act
