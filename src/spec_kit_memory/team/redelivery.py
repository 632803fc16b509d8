"""What happens to a memory whose commit was dropped from the branch? It is accepted again, or a person decides.

A force push or a reset can drop a commit that was recorded as containing an operation. That its file is then absent is
no removal: no later commit removed it. Unclear cases stay in the index and are reported in health.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid5

from spec_kit_memory.core.delivery import FileOperation, OperationKind
from spec_kit_memory.core.memory import Memory
from spec_kit_memory.index.postgres.engine import PostgresIndex
from spec_kit_memory.index.postgres.outbox import InGit, Outbox
from spec_kit_memory.team.commits import TRAILER
from spec_kit_memory.team.repository import Repository

_REPEATED = 5  # UUID version of operations made here, whose id is derived from the dropped one


def accept_dropped(repository: Repository, index: PostgresIndex, tips: Sequence[str | None]) -> None:
    """Call it before absent files leave the index. `tips`: the parent of the next commit, then other heads."""
    outbox = index.outbox
    assert outbox is not None
    heads = [tip for tip in dict.fromkeys(tips) if tip]
    rows = outbox.in_git()
    dropped = repository.not_in(heads, {row.commit for row in rows})
    if not dropped:
        return
    copies: dict[str, str] = {}
    for head in heads:
        copies = repository.trailers(head, TRAILER) | copies
    for row in rows:
        if row.commit not in dropped:
            continue
        # Rebased or squashed: record the new commit, so that a later removal of the file counts as one.
        holder = copies.get(row.id) or next((head for head in heads if repository.has(head, row.path)), None)
        if holder is not None:
            outbox.moved_to(row.sequence, holder)
        else:
            _accept(repository, index, outbox, row, heads)


def _accept(repository: Repository, index: PostgresIndex, outbox: Outbox, row: InGit, heads: Sequence[str]) -> None:
    with index.together():
        if row.path in outbox.undelivered_paths():
            return  # another change is waiting: checked again once that is settled
        outbox.moved_to(row.sequence, heads[0] if heads else None)
        memory = index.documents.get(path=row.path)
        if memory is None or memory.path != row.path:
            return
        text = index.documents.text(content_hash=memory.content_hash)
        data = (index.documents.text(memory.id) if text is None else text).encode()
        id_ = str(uuid5(UUID(row.id), row.commit))
        outbox.add([FileOperation(OperationKind.WRITE, row.path, data=data, id=id_)], author=row.author)
        doubt = _doubt(repository, row, memory, heads)
        if doubt:
            reason = f"dropped: {row.commit[:12]}, which had it, is no longer in git, and {doubt}"
            outbox.held(id_, f"{reason}; retry it to have it written again, or discard it to let it go")


def _doubt(repository: Repository, row: InGit, memory: Memory, heads: Sequence[str]) -> str | None:
    """Why the file may have been removed on purpose, or cannot be restored; None if it was merely dropped."""
    if UUID(row.id).version == _REPEATED:
        return "that is the second time"
    if memory.redactions:
        return "it had secrets, which are not known here"
    parted = repository.merge_base(row.commit, heads[0]) if heads and repository.has_commit(row.commit) else None
    if parted is None:
        return "what is there now has no history in common with it"
    if repository.changes(parted, heads[0], row.path):
        return "a commit that is there instead removed the file"
    return None
