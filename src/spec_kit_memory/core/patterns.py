"""A regular expression that is compiled when it is first used.

Compiling takes far longer than matching, and a cold command or a hook needs few of the hundreds that the scan for
secrets knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

__all__ = ["Pattern"]

_Matching = Callable[..., re.Match[str] | None]  # text, and where to begin and to end


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

    # The methods of the compiled one themselves: a hostile text calls them a million times.

    @cached_property
    def match(self) -> _Matching:
        return self.compiled.match

    @cached_property
    def fullmatch(self) -> _Matching:
        return self.compiled.fullmatch

    @cached_property
    def search(self) -> _Matching:
        return self.compiled.search

    @cached_property
    def finditer(self) -> Callable[..., Iterator[re.Match[str]]]:
        return self.compiled.finditer

    def findall(self, text: str) -> list[str]:
        return self.compiled.findall(text)
