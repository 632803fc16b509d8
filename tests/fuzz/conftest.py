from __future__ import annotations

from tests.features.conftest import clock, place

__all__ = ["clock", "place"]
