"""Which links follow from the documents that a spec folder contains?

They are derived: rebuilt for a folder whenever one of its documents is added, changed or removed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping

from spec_kit_memory.core import links
from spec_kit_memory.core.ledger_operations import operation_of
from spec_kit_memory.core.memory import Change, Link, Origin, Presence, Relation
from spec_kit_memory.core.operation import Unlink
from spec_kit_memory.files import scan_state
from spec_kit_memory.files.discovery_rules import SPEC_DOCUMENTS
from spec_kit_memory.index.contract import Index

Key = tuple[int, int, Relation]


def rebuild(
    store: Index, ids: Mapping[str, int], places: Collection[str], change: Change, *, everywhere: bool = False
) -> int:
    """Bring the links of these folders in step with their documents; `ids` maps live paths to memories. Returns how
    many were not."""
    dropped, missing = differences(store, ids, places, everywhere=everywhere)
    changes = deque([*((link, True) for link in dropped), *((link, False) for link in missing)])
    while changes:
        with store.together():
            for link, is_dropped in scan_state.for_a_moment(changes):
                if is_dropped:
                    store.record.drop_link(link.id, change)
                else:
                    store.record.put_link(link, change)
    return len(dropped) + len(missing)


def differences(
    store: Index, ids: Mapping[str, int], places: Collection[str], *, everywhere: bool = False
) -> tuple[list[Link], list[Link]]:
    """The links that these folders, or with `everywhere` any memories, have and should not have, and those that the
    folders lack."""
    declared: dict[Key, Link] = {}
    about: set[int] = set()
    for place in sorted(places):
        documents = {name: ids[path] for name in SPEC_DOCUMENTS if (path := f"{place}/{name}") in ids}
        about.update(documents.values())
        declared.update((_key(link), link) for link in links.spec_document_links(documents))
    if not about and not everywhere:
        return [], []
    live = set(ids.values())
    existing = store.record.links() if everywhere else store.record.links(sorted(about))
    as_declared = {
        _key(link)
        for link in existing
        if link.origin is not Origin.SPEC
        or (key := _key(link)) not in declared
        or link.strength == declared[key].strength
    }
    dropped = [
        link
        for link in existing
        if link.origin is Origin.SPEC and _key(link) not in declared and {link.source_id, link.target_id} <= live
    ]
    missing = [link for key, link in declared.items() if key not in as_declared and not _was_removed(store, link)]
    return dropped, missing


def of_workspace(store: Index) -> tuple[dict[str, int], set[str]]:
    """The live paths with their ids, and the folders that contain spec documents."""
    rows = store.documents.stored().items()
    ids = {path: row.memory_id for path, row in rows if row.presence is Presence.LIVE}
    return ids, {folder for folder, _, name in (path.rpartition("/") for path in ids) if name in SPEC_DOCUMENTS}


def _was_removed(store: Index, link: Link) -> bool:
    """Did a user remove this link, and was it not made again since?"""
    for row in store.record.history(link.source_id):
        states = [state.get("link") for state in (row.before or {}, row.after or {})]
        state = next((state for state in states if isinstance(state, Mapping)), None)
        if state is None or (state["source_id"], state["target_id"], state["relation"]) != _key(link):
            continue
        entry = next(store.record.ledger(after=row.ledger_sequence - 1, limit=1), None) if row.ledger_sequence else None
        return entry is not None and isinstance(operation_of(entry), Unlink)
    return False


def _key(link: Link) -> Key:
    return (link.source_id, link.target_id, link.relation)
