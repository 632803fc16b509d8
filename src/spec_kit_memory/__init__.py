"""A local-first memory for AI coding agents.

    from spec_kit_memory import open_workspace

    with open_workspace() as workspace:
        for result in workspace.search("why signed tokens").results:
            print(result.title, result.path, result.lines)

The names of `__all__` are the public ones; they are loaded when first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # instead of importing it from typing, which would slow down hooks
if TYPE_CHECKING:
    from spec_kit_memory.caller import Caller
    from spec_kit_memory.core.memory import Actor, ContextType, Relation, Scope, Source, State, Tier
    from spec_kit_memory.errors import SpecKitMemoryError
    from spec_kit_memory.serve.messages import advice_for_python as advice_for_python
    from spec_kit_memory.settings import Settings
    from spec_kit_memory.workspace import Workspace, open_workspace

__all__ = [
    "Actor",
    "Caller",
    "ContextType",
    "Relation",
    "Scope",
    "Settings",
    "Source",
    "SpecKitMemoryError",
    "State",
    "Tier",
    "Workspace",
    "__version__",
    "open_workspace",
]

__version__ = "0.2.0"

_HOMES = {
    "Caller": "caller",
    "advice_for_python": "serve.messages",  # used by `str()` of advice: for Python callers it refers to methods
    "Settings": "settings",
    "SpecKitMemoryError": "errors",
    "Workspace": "workspace",
    "open_workspace": "workspace",
    **dict.fromkeys(("Actor", "ContextType", "Relation", "Scope", "Source", "State", "Tier"), "core.memory"),
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
