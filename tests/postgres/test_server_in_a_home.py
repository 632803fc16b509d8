"""Does the server of the tests start where its programs lie in a folder that only their owner may enter?"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests import postgres_server


@pytest.mark.skipif(os.geteuid() != 0, reason="only as root the server runs as another user")
def test_programs_in_a_home_are_copied_with_their_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = postgres_server.binaries().parents[1]
    home = tmp_path / "home"
    for name in (package.name, f"{package.name}.libs"):
        if (package.parent / name).is_dir():
            shutil.copytree(package.parent / name, home / name, symlinks=True)
    home.chmod(0o700)
    there = home / package.name / postgres_server.binaries().parent.name / "bin"
    monkeypatch.setattr(postgres_server, "binaries", lambda version: there)
    folder = Path(tempfile.mkdtemp(prefix="skm-pg-"))
    folder.chmod(0o755)
    server = postgres_server.Server(folder / "server")
    try:
        server.make()
        server.start()
        assert server.execute("SELECT 1") == [(1,)]
    finally:
        postgres_server.ended(server)
