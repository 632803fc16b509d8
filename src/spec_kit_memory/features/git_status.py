"""Is a change in git yet? Relevant on a team server; elsewhere files are written immediately."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spec_kit_memory.answers import GitStatus
from spec_kit_memory.core.memory import Memory
from spec_kit_memory.features.runtime import Runtime


def of(runtime: Runtime, memories: Iterable[Memory]) -> dict[str, GitStatus]:
    """The git status by path, for memories that were ever changed through the server."""
    outbox = runtime.whole.outbox
    if outbox is None:
        return {}
    deliveries = outbox.deliveries([memory.path for memory in memories])
    return {
        path: GitStatus(stage=one.stage.value, branch=one.branch, commit=one.commit, reason=one.reason)
        for path, one in deliveries.items()
    }


def counts(runtime: Runtime) -> Mapping[str, int]:
    """Counts for the whole project, so only for callers who see all of it."""
    outbox = runtime.whole.outbox
    if outbox is None or runtime.isolated:
        return {}
    backlog = outbox.backlog()
    return {"accepted": backlog.accepted, "in git": backlog.in_git, "failed": backlog.failed}
