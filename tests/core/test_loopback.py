"""core/loopback.py: the server and `install --remote` agree on what this machine is."""

from __future__ import annotations

import pytest

from spec_kit_memory.core.loopback import is_loopback
from spec_kit_memory.errors import BadParameter
from spec_kit_memory.serve.hosts.team_entry import checked_address


@pytest.mark.parametrize("host", ["localhost", "LocalHost", "127.0.0.1", "127.0.0.2", "[::1]"])
def test_a_remote_entry_takes_http_on_this_machine(host: str) -> None:
    assert is_loopback(host.strip("[]"))
    assert checked_address(f"http://{host}:8080/mcp") == f"http://{host}:8080/mcp"


@pytest.mark.parametrize("host", ["localhost.example", "127.example.org", "10.0.0.1", "[::]"])
def test_a_remote_entry_takes_no_http_elsewhere(host: str) -> None:
    assert not is_loopback(host.strip("[]"))
    with pytest.raises(BadParameter):
        checked_address(f"http://{host}/mcp")
