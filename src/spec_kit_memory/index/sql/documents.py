"""How does a document enter the index, and how does it leave?

`put` decides which memory a document belongs to (see `contract.Documents.put`), then writes everything about it in
one transaction. Vanishing and forgetting remove it from search; recorded data is never deleted.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from spec_kit_memory.core.citations import Citations
from spec_kit_memory.core.lean_dataclass import dataclass
from spec_kit_memory.core.memory import (
    Attributes,
    Change,
    Entry,
    Event,
    Memory,
    Mutation,
    Origin,
    Presence,
    Relation,
    Scope,
    Stamp,
    VectorStatus,
    owner_of,
)
from spec_kit_memory.core.scope import allows
from spec_kit_memory.errors import OutsideScope
from spec_kit_memory.index import rows
from spec_kit_memory.index.contract import NO_CITATIONS, NO_STAMPS, BadFile, PutResult
from spec_kit_memory.index.sql import declared_links, passage_rows
from spec_kit_memory.index.sql.dialect import MOST_ALIASES, Connection, Elsewhere, fetch, first, upsert
from spec_kit_memory.index.sql.queries import Queries, not_found
from spec_kit_memory.index.sql.recorder import Recorder, load

PUT_ALIAS = upsert("alias", "checkout_id, path", "memory_id, fingerprint, triggers, raw_hash, size, mtime_ns, seen_ns")


@dataclass(frozen=True, slots=True)
class _Place:
    """The memory that a document belongs to. None: a new one."""

    memory: Memory | None = None
    alias: bool = False  # the document becomes an alias of the memory
    stays_forgotten: bool = False
    previous: Memory | None = None  # a forgotten memory with its path but another text
    elsewhere: Elsewhere | None = None  # the same memory in another checkout; this one does not have it yet


class Documents(Queries):
    def put(
        self,
        entry: Entry,
        change: Change,
        *,
        memory_id: int | None = None,
        explicit: bool = False,
    ) -> PutResult:
        _refuse_outside(self._scope, entry)
        with self._database.writing() as connection:
            recorder = Recorder(connection, change)
            if memory_id is None and is_unknown(connection, entry):
                return index(connection, recorder, entry)
            place = _identify(connection, recorder, self._scope, entry, memory_id=memory_id, explicit=explicit)
            if place.memory and place.stays_forgotten:
                return _store_stamp_only(connection, recorder, place.memory, entry, alias=place.alias)
            if place.memory and place.alias:
                return _add_alias(connection, recorder, place.memory, entry)
            return _index(connection, recorder, place, entry)

    def scanned(
        self,
        stamps: Mapping[str, Stamp] = NO_STAMPS,
        *,
        bad: Sequence[BadFile] = (),
        cleared: Sequence[str] = (),
        cited: Mapping[int, Citations] = NO_CITATIONS,
    ) -> None:
        bad, cleared = (
            [item for item in bad if self._allows_path(item.path)],
            [path for path in cleared if self._allows_path(path)],
        )
        with self._database.writing() as connection:
            if self._scope is not None:
                cited = {
                    memory_id: files
                    for memory_id, files in cited.items()
                    if (memory := load(connection, memory_id)) and allowed(self._scope, memory)
                }
            for path, stamp in stamps.items():
                self._touch(connection, path, stamp)
            connection.executemany(
                "DELETE FROM bad_file WHERE bad_file.project_id = @p AND path = ?",
                [(rows.clean(path),) for path in cleared],
            )
            connection.executemany(
                upsert("bad_file", "checkout_id, path", "code, message, seen_at"),
                [
                    (rows.clean(item.path), item.code, rows.clean(item.message), rows.micros(item.seen_at))
                    for item in bad
                ],
            )

            record_citations(connection, cited)
            if cited:  # texts changed
                passage_rows.prune_spare_vectors(connection)

    def _allows_path(self, path: str) -> bool:
        return allows(self._scope, path=path, owner=owner_of(path), project=None)

    def _touch(self, connection: Connection, path: str, stamp: Stamp) -> None:
        if not self._allows_path(path):
            return
        values = (stamp.size, stamp.mtime_ns, stamp.seen_ns)
        connection.execute(
            "UPDATE alias SET size = ?, mtime_ns = ?, seen_ns = ? WHERE project_id = @p AND path = ?", (*values, path)
        )
        memory = _latest_at(connection, path)
        if memory and allowed(self._scope, memory):
            connection.execute(
                "UPDATE document SET size = ?, mtime_ns = ?, seen_ns = ? WHERE project_id = @p AND memory_id = ?",
                (*values, memory.id),
            )

    def vanish(self, path: str, change: Change) -> str | None:
        with self._database.writing() as connection:
            memory = _latest_at(connection, path)
            if memory and memory.presence is Presence.LIVE:
                if not allowed(self._scope, memory):
                    return None
                recorder = Recorder(connection, change)
                if memory.aliases:
                    return _move_to_first_alias(connection, recorder, memory)
                remove_from_search(connection, recorder, memory, Presence.GONE)
                return None
            owner = _alias_owner(connection, path)
            if owner and allowed(self._scope, owner):
                _detach(connection, Recorder(connection, change), owner, path)
            return None

    def forget(self, memory_id: int, change: Change, *, into: int | None = None) -> None:
        with self._database.writing() as connection:
            memory = _not_forgotten(connection, self._scope, memory_id)
            if into is not None:
                require(connection, self._scope, into)
            recorder = Recorder(connection, change)
            if into is None:
                remove_from_search(connection, recorder, memory, Presence.FORGOTTEN)
            else:
                _supersede(connection, recorder, memory, into)

    def recall(self, memory_id: int, change: Change) -> Memory:
        """Make a gone or forgotten memory live again from stored data; its file is not needed."""
        with self._database.writing() as connection:
            memory = require(connection, self._scope, memory_id, live=False)
            if memory.presence is Presence.LIVE:
                return memory
            recorder = Recorder(connection, change)
            _make_room(connection, recorder, memory, memory.path)
            connection.execute(
                "UPDATE memory SET presence = 'live', forgotten_fingerprint = NULL, updated_at = ?"
                " WHERE project_id = @p AND id = ?",
                (recorder.at, memory_id),
            )
            blob = connection.execute(
                "SELECT text FROM content WHERE content.project_id = @p AND hash = ?", (memory.content_hash,)
            ).get
            set_attributes(connection, memory_id)
            passage_rows.reindex_passages(connection, memory_id, memory.title, rows.unpack(blob))
            declared_links.changed(connection, memory_id, memory)
            return recorder.entry(Mutation.RESTORE, memory, memory_id, event=Event.ADD)


# --- access


def allowed(scope: Scope | None, memory: Memory) -> bool:
    """May this scope see the memory?"""
    return allows(scope, path=memory.path, owner=memory.owner, project=memory.project)


def require(connection: Connection, scope: Scope | None, memory_id: int, *, live: bool = True) -> Memory:
    """The memory with this id; MemoryNotFound if the scope must not see it or, with `live`, it is not live."""
    memory = load(connection, memory_id)
    if memory is None or not allowed(scope, memory) or (live and memory.presence is not Presence.LIVE):
        raise not_found(memory_id)
    return memory


def _not_forgotten(connection: Connection, scope: Scope | None, memory_id: int) -> Memory:
    """The memory to forget. It may be gone already: another process may have noticed that its file is in the trash."""
    memory = require(connection, scope, memory_id, live=False)
    if memory.presence is Presence.FORGOTTEN:
        raise not_found(memory_id)
    return memory


def _loaded(connection: Connection, memory_id: int) -> Memory:
    memory = load(connection, memory_id)
    if memory is None:
        raise not_found(memory_id)
    return memory


# --- put


def _refuse_outside(scope: Scope | None, entry: Entry) -> None:
    if not allows(scope, path=entry.path, owner=entry.owner, project=entry.project):
        raise OutsideScope(f"{entry.path} is outside what this session may write", hint="check isolation.allowedPaths")


def _identify(
    connection: Connection,
    recorder: Recorder,
    scope: Scope | None,
    entry: Entry,
    *,
    memory_id: int | None,
    explicit: bool,
) -> _Place:
    known_alias = _alias_owner(connection, entry.path)
    forgotten = known_alias if known_alias and known_alias.presence is Presence.FORGOTTEN else None
    if known_alias:
        if memory_id is None and _still_alias(known_alias, entry, explicit=explicit):
            return _Place(known_alias, alias=True, stays_forgotten=known_alias.presence is Presence.FORGOTTEN)
        _detach(connection, recorder, known_alias, entry.path)
    if memory_id is not None:
        moved = require(connection, scope, memory_id, live=False)
        twin = _by_fingerprint(connection, scope, entry, explicit=explicit)
        # A gone memory does not become live again if a live copy exists in the same place.
        living = twin.memory is not None and twin.memory.presence is Presence.LIVE
        return twin if living and moved.presence is Presence.GONE else _Place(moved)
    if at_path := _at_path(connection, entry.path, fingerprint=entry.fingerprint):
        if not allowed(scope, at_path):
            raise OutsideScope(
                f"{entry.path} is outside what this session may write", hint="choose a path that this session may write"
            )
        if at_path.presence is not Presence.FORGOTTEN:
            return _Place(at_path)
        if _is_forgotten_text(connection, at_path, entry):
            return _Place(at_path, stays_forgotten=not explicit)
        forgotten = at_path
    place = _by_fingerprint(connection, scope, entry, explicit=explicit)
    if place.memory is not None:
        return place
    return replace(place, previous=forgotten, elsewhere=None if forgotten else connection.elsewhere(entry))


def _still_alias(memory: Memory, entry: Entry, *, explicit: bool) -> bool:
    """False for a forgotten memory if a person named this copy, and for a gone one: the copy takes its place."""
    if memory.presence is Presence.GONE or (explicit and memory.presence is Presence.FORGOTTEN):
        return False
    if memory.presence is Presence.LIVE and _outranks(entry, memory):
        return False
    return entry.fingerprint != "" and memory.fingerprint == entry.fingerprint and _same_place(memory, entry)


def _alias_owner(connection: Connection, path: str) -> Memory | None:
    owner = connection.execute("SELECT memory_id FROM alias WHERE alias.project_id = @p AND path = ?", (path,)).get
    return None if owner is None else load(connection, owner)


def _at_path(connection: Connection, path: str, *, fingerprint: str) -> Memory | None:
    """The live memory of a path, else one that was forgotten with exactly this text, else one that vanished there."""
    row = connection.execute(
        "SELECT id FROM memory"
        " WHERE memory.project_id = @p"
        " AND path = ? ORDER BY presence = 'live' DESC, forgotten_fingerprint IS NOT DISTINCT FROM ? DESC,"
        " presence = 'gone' DESC, updated_at DESC, id DESC LIMIT 1",
        (path, fingerprint),
    ).get
    return None if row is None else load(connection, row)


def _latest_at(connection: Connection, path: str) -> Memory | None:
    """The live memory of a path, else the one that had the path last."""
    row = connection.execute(
        "SELECT id FROM memory"
        " WHERE memory.project_id = @p AND path = ? ORDER BY presence = 'live' DESC, updated_at DESC, id DESC LIMIT 1",
        (path,),
    ).get
    return None if row is None else load(connection, row)


def _is_forgotten_text(connection: Connection, memory: Memory, entry: Entry) -> bool:
    forgotten = connection.execute(
        "SELECT forgotten_fingerprint FROM memory WHERE memory.project_id = @p AND id = ?", (memory.id,)
    ).get
    return bool(forgotten == entry.fingerprint)


def _by_fingerprint(connection: Connection, scope: Scope | None, entry: Entry, *, explicit: bool) -> _Place:
    if not entry.fingerprint:
        return _Place()
    ids = fetch(
        connection,
        "SELECT id FROM memory WHERE memory.project_id = @p AND fingerprint = ? ORDER BY id",
        (entry.fingerprint,),
    )
    alike = [memory for (id_,) in ids if (memory := load(connection, id_)) and _same_place(memory, entry)]
    alike = [memory for memory in alike if allowed(scope, memory)]
    for presence in (Presence.LIVE, Presence.GONE, Presence.FORGOTTEN):
        for memory in alike:
            if memory.presence is presence:
                if presence is Presence.LIVE and _outranks(entry, memory):
                    return _Place(memory)
                forgotten = presence is Presence.FORGOTTEN and not explicit
                return _Place(memory, alias=presence is Presence.LIVE or forgotten, stays_forgotten=forgotten)
    return _Place()


def _outranks(entry: Entry, memory: Memory) -> bool:
    """A file of this checkout takes precedence over its copy in the main checkout, because only the former is ever
    written."""
    return memory.elsewhere and not PurePath(entry.path).is_absolute()


def _same_place(memory: Memory, entry: Entry) -> bool:
    """Copies are one memory within a spec folder or, without one, a directory; never across users or trust."""
    if memory.spec_folder is None and posixpath.dirname(memory.path) != posixpath.dirname(entry.path):
        return False
    mine = (memory.spec_folder, memory.owner, memory.project)
    trusted = memory.trusted == entry.trusted or memory.presence is not Presence.LIVE
    return mine == (entry.spec_folder, entry.owner, entry.project) and trusted


# --- the three outcomes


def _store_stamp_only(
    connection: Connection, recorder: Recorder, memory: Memory, entry: Entry, *, alias: bool
) -> PutResult:
    """Store only the stamp, so that scans need not read the file again."""
    if alias:
        _write_alias(connection, memory.id, entry)
    else:
        connection.execute(
            "UPDATE document SET raw_hash = ?, size = ?, mtime_ns = ?, seen_ns = ?"
            " WHERE project_id = @p AND memory_id = ?",
            (entry.raw_hash, entry.stamp.size, entry.stamp.mtime_ns, entry.stamp.seen_ns, memory.id),
        )
        # If several memories had this path, scans use the one that was updated last.
        later = connection.execute(
            "SELECT max(updated_at) FROM memory WHERE memory.project_id = @p AND path = ? AND id <> ?",
            (memory.path, memory.id),
        ).get
        if later is not None and later >= rows.micros(memory.updated_at):
            last = max(later + 1, recorder.at or 0)
            connection.execute("UPDATE memory SET updated_at = ? WHERE project_id = @p AND id = ?", (last, memory.id))
    return PutResult(memory.id, created=False, changed=False, alias=alias, forgotten=True)


def _add_alias(connection: Connection, recorder: Recorder, memory: Memory, entry: Entry) -> PutResult:
    is_listed = entry.path in memory.aliases
    _write_alias(connection, memory.id, entry)
    if _is_named(connection, memory.id, entry.path):
        set_attributes(connection, memory.id)
        recorder.entry(None if is_listed else Mutation.MERGE, memory, memory.id)
    return PutResult(memory.id, created=False, changed=False, alias=True)


def _is_named(connection: Connection, memory_id: int, path: str) -> bool:
    """Is it one of the aliases that are part of the memory? The others are only known to scans: each change of a memory
    records all its aliases, so that thousands of copies would take gigabytes."""
    earlier = connection.execute(
        "SELECT count(*) FROM (SELECT path FROM alias WHERE alias.project_id = @p AND @here AND memory_id = ?"
        f" AND path < ? ORDER BY path LIMIT {MOST_ALIASES}) AS earlier",
        (memory_id, path),
    ).get
    return bool(earlier < MOST_ALIASES)


def _write_alias(connection: Connection, memory_id: int, entry: Entry) -> None:
    connection.execute(
        PUT_ALIAS,
        (
            entry.path, memory_id, entry.fingerprint, rows.plain([rows.clean(t) for t in entry.attributes.triggers]),
            entry.raw_hash, entry.stamp.size, entry.stamp.mtime_ns, entry.stamp.seen_ns,
        ),
    )  # fmt: skip
    declared_links.aliases_changed(connection, memory_id, [entry.path])


def _detach(connection: Connection, recorder: Recorder, memory: Memory, path: str) -> None:
    """The file at this path is no longer a copy of that memory."""
    was_named = _is_named(connection, memory.id, path)
    connection.execute("DELETE FROM alias WHERE alias.project_id = @p AND path = ?", (path,))
    declared_links.aliases_changed(connection, memory.id, [path])
    if was_named:
        set_attributes(connection, memory.id)
        recorder.entry(None, memory, memory.id)


def _index(
    connection: Connection,
    recorder: Recorder,
    place: _Place,
    entry: Entry,
) -> PutResult:
    before, previous = place.memory, place.previous
    _make_room(connection, recorder, before, entry.path)
    keep_text(connection, entry.content_hash, entry.document.text)
    memory_id = _write_row(connection, recorder, place, entry)
    write_document(connection, memory_id, entry)
    released = _release(connection, memory_id, entry.fingerprint)
    attributes = set_attributes(connection, memory_id, triggers_live=True)
    same_title = before is not None and before.presence is Presence.LIVE and before.title == attributes.title
    passage_rows.index(connection, memory_id, attributes.title, entry.passages, keep=same_title)
    if before or entry.document.front.links:
        declared_links.replace(connection, memory_id, entry.path, entry.document.front.links)
    declared_links.changed(connection, memory_id, before)
    after = recorder.entry(
        _mutation(before),
        before,
        memory_id,
        event=None if before and before.presence is Presence.LIVE else Event.ADD,
        extra_after={"previous_id": previous.id} if previous else None,
        also=(previous.id,) if previous else (),
    )
    if before and _content(before) != _content(after):
        connection.execute(
            "UPDATE memory SET updated_at = ? WHERE project_id = @p AND id = ?", (recorder.at, memory_id)
        )
    changed = before is None or before.content_hash != entry.content_hash
    return PutResult(memory_id, created=before is None, changed=changed, released=released)


def _mutation(before: Memory | None) -> Mutation | None:
    if before is None:
        return Mutation.CREATE
    return None if before.presence is Presence.LIVE else Mutation.RESTORE


def _content(memory: Memory) -> tuple[Any, ...]:
    """The values whose change sets `updated_at`."""
    return (memory.attributes, memory.content_hash, memory.path, memory.spec_folder, memory.presence, memory.source)


def _make_room(connection: Connection, recorder: Recorder, before: Memory | None, path: str) -> None:
    """If another live memory has this path, the document has replaced its file: that memory is gone."""
    other = connection.execute(
        "SELECT id FROM memory WHERE memory.project_id = @p AND path = ? AND presence = 'live'", (path,)
    ).get
    if other is not None and (before is None or before.id != other):
        remove_from_search(connection, recorder, _loaded(connection, other), Presence.GONE)


def keep_text(connection: Connection, content_hash: str, text: str) -> None:
    """Store a text under its hash, unless it is stored already."""
    is_stored = connection.execute(
        "SELECT 1 FROM content WHERE content.project_id = @p AND hash = ?", (content_hash,)
    ).get
    if not is_stored:
        connection.execute(
            "INSERT INTO content (project_id, hash, text) VALUES (@p, ?, ?)", (content_hash, rows.pack(text))
        )


def _write_row(connection: Connection, recorder: Recorder, place: _Place, entry: Entry) -> int:
    """Write the values that come from the document; `set_attributes` writes its attributes afterwards."""
    before, other = place.memory, place.elsewhere
    values = (
        entry.path, str(entry.source), entry.spec_folder, entry.fingerprint, entry.content_hash, entry.archived_folder,
        entry.owner, entry.project,
    )  # fmt: skip
    if before:
        connection.execute(
            "UPDATE memory SET path = ?, source = ?, spec_folder = ?, fingerprint = ?, content_hash = ?,"
            " archived_folder = ?, owner = ?, project = ?, presence = 'live', forgotten_fingerprint = NULL"
            " WHERE project_id = @p AND id = ?",
            (*values, before.id),
        )
        return before.id
    memory_id = other.id if other else connection.next_id("memory")
    connection.execute(
        "INSERT INTO memory (project_id, id, path, source, spec_folder, fingerprint, content_hash, archived_folder,"
        " owner, project, presence, title, tier, weight, context_type, triggers, trusted, updated_at, changed,"
        " first_indexed_at, outdated, vouched)"
        " VALUES (@p, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'live', '', '', 0, '', '[]', false, ?, ?, ?, ?, ?)",
        (
            memory_id, *values, recorder.at, recorder.generation, other.first_indexed_at if other else recorder.at,
            other.outdated if other else False, other.vouched if other else None,
        ),
    )  # fmt: skip
    return memory_id


def _release(connection: Connection, memory_id: int, fingerprint: str) -> tuple[str, ...]:
    """Remove the aliases of the previous text: they are no longer copies. Sync indexes them as separate memories."""
    row = connection.execute(
        "DELETE FROM alias WHERE alias.project_id = @p AND memory_id = ? AND fingerprint <> ? RETURNING path",
        (memory_id, fingerprint),
    )
    paths = tuple(sorted(path for (path,) in row))
    declared_links.aliases_changed(connection, memory_id, paths)
    return paths


# --- attributes


def effective(connection: Connection, memory_id: int) -> tuple[Attributes, bool]:
    """The effective attributes after overrides, aliases and trust, and whether the memory is trusted."""
    attributes_text, said_trusted, vouched, overrides = first(
        connection,
        "SELECT said, said_trusted, vouched, attributes FROM memory"
        " LEFT JOIN document ON document.project_id = @p AND document.memory_id = memory.id"
        " LEFT JOIN override ON override.project_id = @p AND override.memory_id = memory.id"
        " WHERE memory.project_id = @p AND memory.id = ?",
        (memory_id,),
    )
    if attributes_text is None:  # after a rebuild, until the next scan
        memory = _loaded(connection, memory_id)
        attributes_text, said_trusted = rows.plain(rows.attributes_json(memory.attributes)), memory.trusted
    trusted = bool(said_trusted if vouched is None else vouched)
    lists = connection.execute(
        f"SELECT triggers FROM alias WHERE alias.project_id = @p AND memory_id = ? ORDER BY path LIMIT {MOST_ALIASES}",
        (memory_id,),
    )
    more = [phrase for (phrases,) in lists for phrase in json.loads(phrases)]
    overridden = json.loads(overrides) if overrides else {}
    return rows.merged(json.loads(attributes_text), overridden, more_triggers=more, trusted=trusted), trusted


def set_attributes(connection: Connection, memory_id: int, *, triggers_live: bool | None = None) -> Attributes:
    """Compute and store the effective attributes. Triggers are stored only while the memory is live."""
    attributes, trusted = effective(connection, memory_id)
    plain = rows.attributes_json(attributes)
    connection.execute(
        "UPDATE memory SET title = :title, tier = :tier, weight = :weight, context_type = :context_type,"
        " triggers = :triggers, created_at = :created_at, expires_at = :expires_at, session_id = :session_id,"
        " channel = :channel, trusted = :trusted WHERE project_id = @p AND id = :id",
        plain | {"triggers": rows.plain(plain["triggers"]), "trusted": trusted, "id": memory_id},
    )
    if triggers_live is None:
        triggers_live = connection.execute(
            "SELECT presence = 'live' FROM memory WHERE memory.project_id = @p AND id = ?", (memory_id,)
        ).get
    connection.execute('DELETE FROM "trigger" WHERE "trigger".project_id = @p AND memory_id = ?', (memory_id,))
    if triggers_live:
        connection.executemany(
            'INSERT INTO "trigger" (project_id, memory_id, phrase) VALUES (@p, ?, ?) ON CONFLICT DO NOTHING',
            [(memory_id, phrase) for phrase in plain["triggers"]],
        )
    return attributes


# --- leaving


def _move_to_first_alias(connection: Connection, recorder: Recorder, memory: Memory) -> str:
    """Give the memory the path of its first alias, which sync reads again: case, dates and white space may differ."""
    path = memory.aliases[0]
    connection.execute("DELETE FROM alias WHERE alias.project_id = @p AND path = ?", (path,))
    connection.execute(
        "UPDATE memory SET path = ?, updated_at = ? WHERE project_id = @p AND id = ?", (path, recorder.at, memory.id)
    )
    connection.execute(
        "UPDATE document SET raw_hash = '', size = 0, mtime_ns = 0, seen_ns = 0"
        " WHERE project_id = @p AND memory_id = ?",
        (memory.id,),
    )
    declared_links.changed(connection, memory.id, memory)
    declared_links.aliases_changed(connection, memory.id, [path])
    recorder.entry(Mutation.UPDATE, memory, memory.id)
    return path


def remove_from_search(
    connection: Connection,
    recorder: Recorder,
    memory: Memory,
    presence: Presence,
    *,
    mutation: Mutation = Mutation.DELETE,
    also: tuple[int, ...] = (),
) -> None:
    """Make a memory gone or forgotten: remove it from search and record that."""
    if memory.presence is Presence.LIVE:
        connection.text_index.hide(connection, memory.id)
    forgotten = memory.fingerprint if presence is Presence.FORGOTTEN else None
    connection.execute(
        "UPDATE memory SET presence = ?, forgotten_fingerprint = ?, updated_at = ? WHERE project_id = @p AND id = ?",
        (str(presence), forgotten, recorder.at, memory.id),
    )
    declared_links.changed(connection, memory.id, memory)
    recorder.entry(mutation, memory, memory.id, event=Event.DELETE, also=also)


def record_citations(connection: Connection, cited: Mapping[int, Citations]) -> None:
    """Store which files the current texts of these memories cite."""
    recorder = Recorder(connection)
    for memory_id, item in cited.items():
        files = [[rows.clean(file.path), file.hash, file.size, file.commit] for file in item.files]
        connection.execute(
            "INSERT INTO citation (project_id, memory_id, body, files)"
            " SELECT @p, id, ?, ? FROM memory WHERE project_id = @p AND id = ?"
            " ON CONFLICT (project_id, checkout_id, memory_id) DO UPDATE SET body = excluded.body,"
            " files = excluded.files",
            (item.body, rows.plain(files), memory_id),
        )
        if files:
            recorder.changed(memory_id)  # so that other processes read their cached row again


def _supersede(connection: Connection, recorder: Recorder, memory: Memory, into: int) -> None:
    """Link the other memory as its successor and forget this one; one entry records both."""
    declared_links.follow_changes(connection)
    connection.execute(
        "INSERT INTO link (project_id, id, source_id, target_id, relation, strength, evidence, origin, created_at)"
        " VALUES (@p, ?, ?, ?, ?, 1.0, 'merged', ?, ?) ON CONFLICT DO NOTHING",
        (connection.next_id("link"), into, memory.id, str(Relation.SUPERSEDES), str(Origin.HAND), recorder.at),
    )
    recorder.changed(into)
    remove_from_search(connection, recorder, memory, Presence.FORGOTTEN, mutation=Mutation.MERGE, also=(into,))


PUT_DOCUMENT = upsert(
    "document",
    "checkout_id, memory_id",
    "said, said_trusted, raw_hash, size, mtime_ns, seen_ns, warnings, redactions, passages, tokens",
    once="vector_status",
)


def is_unknown(connection: Connection, entry: Entry) -> bool:
    """Is the document neither at a known path nor a copy, and neither source nor target of a declared link?"""
    if entry.document.front.links or len(connection.checkouts()) > 1:
        return False
    number, title = connection.last_id("memory") + 1, rows.clean(entry.attributes.title)
    return bool(
        first(
            connection,
            "SELECT NOT EXISTS (SELECT 1 FROM memory WHERE memory.project_id = @p AND path = :path)"
            " AND NOT EXISTS (SELECT 1 FROM alias WHERE alias.project_id = @p AND path = :path)"
            " AND (:fingerprint = '' OR NOT EXISTS"
            " (SELECT 1 FROM memory WHERE memory.project_id = @p AND fingerprint = :fingerprint))"
            " AND NOT EXISTS (SELECT 1 FROM claim WHERE project_id = @p AND target IN @list(:names))"
            " AND NOT EXISTS (SELECT 1 FROM claim WHERE project_id = @p AND sibling IN @list(:names))",
            {
                "path": entry.path, "fingerprint": entry.fingerprint,
                "names": [entry.path, f"./{entry.path}", str(number), title, f"./{title}"],
            },
        )[0]
    )  # fmt: skip


def index(connection: Connection, recorder: Recorder, entry: Entry) -> PutResult:
    """Write a document for which `is_unknown` is true as a new memory."""
    at, trusted = rows.moment(recorder.at or 0), entry.source.vouched
    attributes = rows.merged(rows.attributes_json(entry.attributes), {}, trusted=trusted)
    plain = rows.attributes_json(attributes)
    connection.execute(
        "INSERT INTO content (project_id, hash, text) VALUES (@p, ?, ?) ON CONFLICT DO NOTHING",
        (entry.content_hash, rows.pack(entry.document.text)),
    )
    memory_id = connection.next_id("memory")
    values = plain | {
        "id": memory_id, "path": entry.path, "source": str(entry.source), "spec_folder": entry.spec_folder,
        "fingerprint": entry.fingerprint, "content_hash": entry.content_hash,
        "archived_folder": entry.archived_folder, "owner": entry.owner, "project": entry.project, "presence": "live",
        "triggers": rows.plain(plain["triggers"]), "trusted": trusted, "updated_at": recorder.at,
        "changed": recorder.generation, "first_indexed_at": recorder.at, "outdated": False,
    }  # fmt: skip
    names = ", ".join(values)
    placeholders = ", ".join(f":{name}" for name in values)
    connection.execute(f"INSERT INTO memory (project_id, {names}) VALUES (@p, {placeholders})", values)
    write_document(connection, memory_id, entry)
    connection.executemany(
        'INSERT INTO "trigger" (project_id, memory_id, phrase) VALUES (@p, ?, ?) ON CONFLICT DO NOTHING',
        [(memory_id, phrase) for phrase in plain["triggers"]],
    )
    passage_rows.add(connection, memory_id, attributes.title, entry.passages)
    after = Memory(
        id=memory_id, path=entry.path, source=entry.source, spec_folder=entry.spec_folder, attributes=attributes,
        presence=Presence.LIVE, fingerprint=entry.fingerprint, content_hash=entry.content_hash,
        first_indexed_at=at, updated_at=at, vector_status=VectorStatus.PENDING,
        archived_folder=entry.archived_folder, owner=entry.owner, project=entry.project, trusted=trusted,
        redactions=entry.redactions,
    )  # fmt: skip
    recorder.entry(Mutation.CREATE, None, memory_id, event=Event.ADD, after=after)
    return PutResult(memory_id, created=True, changed=True)


def write_document(connection: Connection, memory_id: int, entry: Entry) -> None:
    warnings = [
        (rows.clean(str(w.message)), w.line, w.code) for w in entry.document.warnings
    ]  # stored as text, which stays readable if a later version drops the code
    connection.execute(
        PUT_DOCUMENT,
        (
            memory_id, rows.plain(rows.attributes_json(entry.attributes)), entry.source.vouched, entry.raw_hash,
            entry.stamp.size, entry.stamp.mtime_ns, entry.stamp.seen_ns, rows.plain(warnings), entry.redactions,
            len(entry.passages), sum(passage.tokens for passage in entry.passages), str(VectorStatus.PENDING),
        ),
    )  # fmt: skip
