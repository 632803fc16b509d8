"""How often is the server asked?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest


@contextmanager
def counted() -> Iterator[list[bytes | str]]:
    """Every way to the server."""
    sent: list[bytes | str] = []
    execute = psycopg.Cursor.execute

    def counting(self: Any, query: Any, *given: Any, **named: Any) -> Any:
        sent.append(query)
        return execute(self, query, *given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.Cursor, "execute", counting)
        yield sent
