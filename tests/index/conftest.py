"""Every engine keeps the same contract: the tests named test_contract_* run on each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from spec_kit_memory.index import open_index
from spec_kit_memory.index.contract import Index

Factory = Callable[[str], Index]

ENGINES = ("sqlite", "postgres")


# A server that is asked the first few things answers from its rows, then from arrays in this process.
ANSWERED_BY_ROWS = ("test_contract_match", "test_contract_scope")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "factory" in metafunc.fixturenames:
        rows = ["postgres-rows"] if metafunc.module.__name__.endswith(ANSWERED_BY_ROWS) else []
        metafunc.parametrize("factory", [*ENGINES, *rows], indirect=True)


@pytest.fixture
def factory(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Factory]:
    """Opens the store of that name; the same name again is another handle on the same data."""
    opened: list[Index] = []
    run = uuid4().hex
    if request.param.startswith("postgres"):
        from spec_kit_memory.index.postgres import view

        monkeypatch.setattr(view, "COLD_MATCHES", 1_000_000 if request.param == "postgres-rows" else 0)

    def open_named(name: str = "index") -> Index:
        if request.param.startswith("postgres"):
            url = request.getfixturevalue("server").url()
            opened.append(open_index(url, project=f"{run}-{name}"))
        else:
            opened.append(open_index(tmp_path / f"{name}.sqlite"))
        return opened[-1]

    yield open_named
    for store in opened:
        store.close()


@pytest.fixture
def store(factory: Factory) -> Index:
    return factory("index")
