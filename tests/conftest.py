"""What holds for every test: no time limit on examples, and nothing of this machine's user gets in."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.postgres_server import Server

# Timings never decide a test. The rest of the profile is hypothesis's own: fixed examples where CI is set.
settings.register_profile("house", settings(), deadline=None)
settings.load_profile("house")

# A shell starts what it runs in the background with Ctrl-C ignored, and that is inherited: some tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _nothing_from_this_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The user's own configuration and variables would change what settings say."""
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith("SPEC_KIT_MEMORY_"):
                patch.delenv(name)
        patch.setenv("SPEC_KIT_MEMORY_USER_CONFIG", str(tmp_path_factory.mktemp("user") / "config.jsonc"))
        yield


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One for the whole run of a process; every test has projects of its own on it."""
    from tests import postgres_server

    made = postgres_server.started()
    yield made
    postgres_server.ended(made)
