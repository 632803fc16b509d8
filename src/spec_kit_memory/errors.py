"""Every error a caller can see, with its code.

    SpecKitMemoryError
    ├── EmbeddingFailed       E001    ├── CheckpointNotFound   E060
    ├── ProviderUnavailable   E004    ├── RestoreFailed        E061
    ├── FileMissing           E010    ├── CheckpointExists     E063
    ├── AccessDenied          E011    ├── MemoryNotFound       E080
    ├── BadEncoding           E012    ├── Invalid              E090
    ├── TooLarge              E013    ├── AnchorNotFound       E091
    ├── BadPath               E014    ├── SecretScanFailed     E095
    ├── DatabaseUnusable      E020    ├── UnknownRelation      E102
    ├── DatabaseCorrupt       E024    ├── SelfLink             E103
    ├── DatabaseBusy          E025    ├── OutsideScope         E110
    ├── BadParameter          E030    └── CoolingDown          E429
    ├── MissingParameter      E031
    ├── OutOfRange            E032
    ├── BadSpecFolder         E033
    ├── UndecidedSpecFolder   E034
    └── NothingToSearch       E040

The message names the value that is wrong; the hint names the next step.
Edges (MCP, HTTP, command line) turn these into their own form in `serve.render`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from spec_kit_memory.advice import Advice, Text, joined


class SpecKitMemoryError(Exception):
    """Base of all errors that this package raises deliberately."""

    code: ClassVar[str] = "E000"
    means: ClassVar[str] = "any error of this package"

    def __init__(self, message: str, *, hint: Text | Sequence[Text] = "", **details: object) -> None:
        super().__init__(message)
        self.message = message
        steps = (hint,) if isinstance(hint, str | Advice) else hint
        self.advice: tuple[Text, ...] = tuple(step for step in steps if step)
        self.details = details

    @property
    def hint(self) -> str:
        """The next step, worded for Python callers; the edges word `advice` for their own readers."""
        return joined(map(str, self.advice))


class EmbeddingFailed(SpecKitMemoryError):
    code = "E001"
    means = "the embedding of a text failed"


class ProviderUnavailable(SpecKitMemoryError):
    code = "E004"
    means = "the embedding provider cannot be used"


class FileMissing(SpecKitMemoryError):
    code = "E010"
    means = "a file or folder does not exist"


class AccessDenied(SpecKitMemoryError):
    code = "E011"
    means = "the system refused access to a file"


class BadEncoding(SpecKitMemoryError):
    code = "E012"
    means = "a file is not text in UTF-8 or UTF-16 with a byte order mark"


class TooLarge(SpecKitMemoryError):
    code = "E013"
    means = "a file or an input is over its limit"


class BadPath(SpecKitMemoryError):
    code = "E014"
    means = "a path cannot be used"


class DatabaseUnusable(SpecKitMemoryError):
    code = "E020"
    means = "the index cannot be opened or written"


class DatabaseCorrupt(SpecKitMemoryError):
    code = "E024"
    means = "the index is damaged"


class DatabaseBusy(SpecKitMemoryError):
    code = "E025"
    means = "another process held the index for too long"


class Outdated(DatabaseBusy):
    """The memory was changed by another caller since it was read, so the change based on it was not written."""


class BadParameter(SpecKitMemoryError):
    code = "E030"
    means = "a parameter is unknown or of the wrong kind"
    problem: ClassVar[str] = "there is no parameter"


class UnexpectedArgument(BadParameter, TypeError):
    """BadParameter that Python callers can also catch as a TypeError."""

    problem = "got an unexpected keyword argument"


class MissingParameter(SpecKitMemoryError):
    code = "E031"
    means = "a required parameter is missing"


class OutOfRange(SpecKitMemoryError):
    code = "E032"
    means = "a parameter is outside its range"


class BadSpecFolder(SpecKitMemoryError):
    code = "E033"
    means = "a spec folder's name is not valid, not found or ambiguous"


class UndecidedSpecFolder(SpecKitMemoryError):
    code = "E034"
    means = "no spec folder fits well enough to be chosen without asking"


class NothingToSearch(SpecKitMemoryError):
    code = "E040"
    means = "a search needs a query or concepts"


class CheckpointNotFound(SpecKitMemoryError):
    code = "E060"
    means = "there is no checkpoint of that name"


class RestoreFailed(SpecKitMemoryError):
    code = "E061"
    means = "a checkpoint could not be restored; nothing was changed"


class CheckpointExists(SpecKitMemoryError):
    code = "E063"
    means = "a checkpoint of that name exists"


class MemoryNotFound(SpecKitMemoryError):
    code = "E080"
    means = "there is no memory with that id or path"


class Invalid(SpecKitMemoryError):
    code = "E090"
    means = "the input has problems; all of them are listed"


class AnchorNotFound(SpecKitMemoryError):
    code = "E091"
    means = "the memory has no such anchor"


class SecretScanFailed(SpecKitMemoryError):
    code = "E095"
    means = "the scan for secrets failed, so nothing was written"


class UnknownRelation(SpecKitMemoryError):
    code = "E102"
    means = "that is not one of the six relations"


class SelfLink(SpecKitMemoryError):
    code = "E103"
    means = "a memory cannot be linked to itself"


class OutsideScope(SpecKitMemoryError):
    code = "E110"
    means = "the path or memory is outside what this session may see"


class CoolingDown(SpecKitMemoryError):
    code = "E429"
    means = "the last scan was less than a minute ago"


def all_errors() -> list[type[SpecKitMemoryError]]:
    """The classes above in the order of their codes, for the reference pages."""
    return sorted(SpecKitMemoryError.__subclasses__(), key=lambda error: error.code)
