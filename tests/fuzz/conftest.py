from __future__ import annotations

from tests.verbs.conftest import clock, place

__all__ = ["clock", "place"]
