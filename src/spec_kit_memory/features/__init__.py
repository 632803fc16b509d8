"""What can a workspace do? One module per family of verbs, with functions that take a `Runtime`.

Each module is loaded when it is first used: all together cost as much as the fastest command.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spec_kit_memory.features import (  # noqa: F401
        amend,
        care,
        chats,
        checkpoints,
        context,
        examine,
        folder_overview,
        health,
        history,
        import_original,
        index_workspace,
        merge,
        numbers,
        past,
        read,
        save,
        search_answer,
        sessions,
        undo,
        validate,
        why,
    )
else:

    def __getattr__(name):
        if name.startswith("_"):
            raise AttributeError(name)
        return import_module(f"{__name__}.{name}")
