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


@pytest.fixture(params=ENGINES)
def factory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Factory]:
    """Opens the store of that name; the same name again is another handle on the same data."""
    opened: list[Index] = []
    run = uuid4().hex

    def open_named(name: str = "index") -> Index:
        if request.param == "postgres":
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
