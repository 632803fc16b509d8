"""Which links follow from the documents of a spec folder standing side by side?

They are derived: rebuilt for a folder whenever one of its documents comes, changes or goes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from spec_kit_memory.core import links
from spec_kit_memory.core.memory import Change, Link, Origin, Relation
from spec_kit_memory.store import Store
from spec_kit_memory.vault.places import SPEC_DOCUMENTS

__all__ = ["rebuild"]

Key = tuple[int, int, Relation]


def rebuild(store: Store, ids: Mapping[str, int], places: Collection[str], change: Change) -> None:
    """Make the links of these folders what their documents say. `ids` are the live paths' memories."""
    wanted: dict[Key, Link] = {}
    about: set[int] = set()
    for place in places:
        documents = {name: ids[path] for name in SPEC_DOCUMENTS if (path := f"{place}/{name}") in ids}
        about.update(documents.values())
        wanted.update((_key(link), link) for link in links.spec_document_links(documents))
    if not about:
        return
    live = set(ids.values())
    existing = store.links(sorted(about))
    for link in existing:
        both_live = link.source_id in live and link.target_id in live
        if link.origin is Origin.SPEC and _key(link) not in wanted and both_live:
            store.drop_link(link.id, change)
    known = {_key(link) for link in existing}
    for key, link in wanted.items():
        if key not in known:
            store.put_link(link, change)


def _key(link: Link) -> Key:
    return (link.source_id, link.target_id, link.relation)
