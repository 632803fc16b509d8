"""What becomes of half a surrogate pair? Hosts send one when they cut a text in the middle of an emoji.

It can be neither stored nor sent as UTF-8, so it becomes U+FFFD and the rest of the text is kept.
"""

from __future__ import annotations

from typing import Any


def without_lone_surrogates(value: Any) -> Any:
    """The same data, with U+FFFD for each half of a pair in its texts and keys."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {without_lone_surrogates(key): without_lone_surrogates(each) for key, each in value.items()}
    return [without_lone_surrogates(item) for item in value] if isinstance(value, list) else value
