"""A regular expression that is compiled when it is first used.

Compiling takes far longer than matching, and a cold command or a hook needs few of the hundreds of patterns in the
scan for secrets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

_Matching = Callable[..., re.Match[str] | None]  # arguments: text, start, end


@dataclass(frozen=True)
class Pattern:
    """Like `re.Pattern`, with the methods that this project uses."""

    source: str
    flags: re.RegexFlag = re.NOFLAG

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self.source, self.flags)

    @property
    def groups(self) -> int:
        return self.compiled.groups

    # Bound methods of the compiled pattern, without a wrapper: a hostile text can cause a million calls.

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
