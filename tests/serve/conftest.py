"""What the tests of the edges share."""

from __future__ import annotations

import pytest

from spec_kit_memory.serve.mcp.workspace_handle import LiveWorkspace
from tests.serve.recorder import Recorder


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def live(recorder: Recorder) -> LiveWorkspace:
    return LiveWorkspace(lambda: recorder)  # type: ignore[arg-type,return-value]
