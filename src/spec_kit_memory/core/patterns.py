"""A regular expression that is compiled when it is first used.

Compiling takes far longer than matching, and a cold command or a hook needs few of the hundreds that the scan for
secrets knows.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

__all__ = ["Pattern"]


@dataclass(frozen=True)
class Pattern:
    """Like `re.Pattern`, as far as it is used here."""

    source: str
    flags: re.RegexFlag = re.NOFLAG

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self.source, self.flags)

    @property
    def groups(self) -> int:
        return self.compiled.groups

    def match(self, text: str, first: int = 0, last: int = sys.maxsize) -> re.Match[str] | None:
        return self.compiled.match(text, first, last)

    def fullmatch(self, text: str, first: int = 0, last: int = sys.maxsize) -> re.Match[str] | None:
        return self.compiled.fullmatch(text, first, last)

    def search(self, text: str, first: int = 0, last: int = sys.maxsize) -> re.Match[str] | None:
        return self.compiled.search(text, first, last)

    def finditer(self, text: str, first: int = 0, last: int = sys.maxsize) -> Iterator[re.Match[str]]:
        return self.compiled.finditer(text, first, last)

    def findall(self, text: str) -> list[str]:
        return self.compiled.findall(text)
