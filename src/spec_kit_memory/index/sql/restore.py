"""How is a checkpoint restored? Completely, in one transaction, or not at all.

In the database that the checkpoint came from, memories are identified by id. In another one they are identified by
path; ids are kept if they are free.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spec_kit_memory.core.memory import (
    FIRST_PERSONAL_ID,
    Change,
    Event,
    Filter,
    Link,
    Memory,
    Mutation,
    Origin,
    Presence,
    Scope,
    VectorStatus,
)
from spec_kit_memory.core.scope import allows, session_namespace
from spec_kit_memory.errors import OutsideScope, RestoreFailed
from spec_kit_memory.index import rows
from spec_kit_memory.index.contract import EVERYTHING, NO_PRESENCES
from spec_kit_memory.index.snapshot_check import HINT, Plan, SavedMemory, micros, read
from spec_kit_memory.index.sql import conditions, declared_links, documents, passage_rows
from spec_kit_memory.index.sql.dialect import Connection, fetch, first, upsert
from spec_kit_memory.index.sql.record import PUT_SESSION, link_of
from spec_kit_memory.index.sql.recorder import Recorder, load
from spec_kit_memory.index.sql.snapshot import Snapshots, links_touching, memory_row

_Key = tuple[int, int, str]  # of a link: source, target, relation
_UNSAVED = (
    "said", "said_trusted", "vouched", "overrides", "warnings", "access_count", "last_access", "aliases", "claims",
)  # fmt: skip

# Stamps and hashes of files only tell a scan whether to read a file again; they are not compared.
_NOT_COMPARED = ("id", "raw_hash", "stamp", "cited")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The options of a restore: see `contract.Care.restore`."""

    clear: bool
    where: Filter
    links: bool
    presence: Mapping[int, Presence]


class Checkpoints(Snapshots):
    def restore(
        self,
        rows: Iterable[Mapping[str, Any]],
        change: Change,
        *,
        clear: bool,
        where: Filter,
        links: bool = True,
        presence: Mapping[int, Presence] = NO_PRESENCES,
    ) -> dict[str, int]:
        plan = read(rows)
        for saved in plan.memories:
            row = saved.row
            if not allows(self._scope, path=row["path"], owner=row["owner"], project=row["project"]):
                raise OutsideScope("the checkpoint holds memories outside what this session may see", hint=HINT)
        wanted = _Wanted(clear=clear, where=where, links=links, presence=presence)
        with self._database.writing() as connection:
            work = _Restore(connection, Recorder(connection, change), self._scope, plan, wanted)
            try:
                done = work.run()
                connection.settle()
                return done
            except (KeyError, TypeError, ValueError, LookupError, self._database.refusal) as error:
                raise RestoreFailed(f"the checkpoint does not fit this index: {error}", hint=HINT) from error


class _Restore:
    """One restore, inside its transaction."""

    def __init__(
        self,
        connection: Connection,
        recorder: Recorder,
        scope: Scope | None,
        plan: Plan,
        wanted: _Wanted,
    ) -> None:
        self._connection = connection
        self._recorder = recorder
        self._scope = scope
        self._plan = plan
        self._wanted = wanted
        self._clear = wanted.clear
        self._where = wanted.where
        instance, self._used = first(connection, "SELECT instance, used FROM counter WHERE project_id = @p")
        self._same_database = plan.instance == instance
        self._id_of: dict[int, int] = {}  # in the checkpoint -> here
        self._unchanged_ids: set[int] = set()  # ids here that stay as they are
        counted = (
            "restored",
            "unchanged",
            "kept_newer",
            "removed",
            "links",
            "links_removed",
            "links_kept",
            "sessions",
            "vectors",
        )
        self.done = dict.fromkeys(counted, 0)

    def run(self) -> dict[str, int]:
        declared_links.follow_changes(self._connection)
        links_before = self._links_shown() if self._wanted.links else {}
        targets = [(saved, self._target(saved.row)) for saved in self._plan.memories]
        # Memories whose id another memory has here get a new one, after all others have theirs.
        targets.sort(key=lambda pair: pair[1] is None and self._free_id(pair[0].row["id"]) is None)
        if self._clear:
            self._remove_others({target for _, target in targets if target is not None})
        for saved, target in targets:
            self._memory(saved, target)
        self._vectors()
        if self._wanted.links:
            self._links()
        self._sessions()
        for memory_id, presence in self._wanted.presence.items():
            memory = load(self._connection, memory_id)
            if memory and memory.presence is Presence.LIVE and documents.allowed(self._scope, memory):
                documents.remove_from_search(self._connection, self._recorder, memory, presence)
        if self._wanted.links:
            self._count_links(links_before, self._links_shown())
        self._connection.raised("epoch")
        return self.done

    def _target(self, row: Mapping[str, Any]) -> int | None:
        """The memory here that this row belongs to, if there is one; ids of another database mean nothing here."""
        if self._same_database:
            rows = fetch(
                self._connection, "SELECT id FROM memory WHERE memory.project_id = @p AND id = ?", (row["id"],)
            )
        else:  # a forgotten memory is not reused for another text
            rows = fetch(
                self._connection,
                "SELECT id FROM memory"
                " WHERE memory.project_id = @p AND path = ? AND (presence <> 'forgotten' OR fingerprint = ?)"
                " ORDER BY presence = 'live' DESC, updated_at DESC LIMIT 1",
                (row["path"], row["fingerprint"]),
            )
        return rows[0][0] if rows else None

    def _remove_others(self, stay: set[int]) -> None:
        """Within the scope and filter. They are forgotten, not just gone, or the next scan would bring them back."""
        for (memory_id,) in self._live():
            if memory_id not in stay:
                memory = load(self._connection, memory_id)
                if memory:
                    presence = self._wanted.presence.get(memory_id, Presence.FORGOTTEN)
                    documents.remove_from_search(self._connection, self._recorder, memory, presence)
                    self.done["removed"] += 1

    def _live(self) -> list[tuple[int]]:
        """The ids of live memories within the scope and filter."""
        test, values = conditions.matching(self._where)
        seen, bound = conditions.visible(self._scope)
        sql = (
            "SELECT memory.id FROM memory LEFT JOIN usage ON usage.project_id = @p AND usage.memory_id = memory.id"
            f" WHERE memory.project_id = @p AND presence = 'live' AND {test} AND {seen}"
        )
        return fetch(self._connection, sql, [*values, *bound])

    def _memory(self, saved: SavedMemory, target_id: int | None) -> None:
        row = saved.row
        target = None if target_id is None else load(self._connection, target_id)
        here = target.id if target else self._free_id(row["id"])
        if target and self._newer(target, row):
            self._id_of[row["id"]] = target.id
            self._unchanged_ids.add(target.id)
            return
        occupant = self._occupant(row["path"], here)
        if occupant and not self._clear and rows.iso(occupant.updated_at) > row["updated_at"]:
            self.done["kept_newer"] += 1
            return
        if occupant:
            documents.remove_from_search(self._connection, self._recorder, occupant, Presence.GONE)
        self._id_of[row["id"]] = self._write(saved, target, here)
        self.done["restored"] += 1

    def _newer(self, target: Memory, row: Mapping[str, Any]) -> bool:
        """Keep the memory as it is? Yes if it is equal or, unless clearing, has changed since the checkpoint."""
        if target.presence is not Presence.LIVE:
            return False
        now = memory_row(self._connection, target)
        differing = {name for name in now if name not in _NOT_COMPARED and now[name] != row.get(name)}
        if not self._clear and target.access_count >= row["access_count"]:
            differing -= {"access_count", "last_access"}  # use only increases, so more use is newer
        if not differing:
            self.done["unchanged"] += 1
            return True
        if not self._clear and self._changed_since(target, row):
            self.done["kept_newer"] += 1
            return True
        return False

    def _changed_since(self, target: Memory, row: Mapping[str, Any]) -> bool:
        """Judged by `updated_at` and the ledger: validation, marks and trust do not change `updated_at`."""
        updated_at = rows.iso(target.updated_at)
        if updated_at != row["updated_at"] or self._plan.ledger_sequence is None or not self._same_database:
            return bool(updated_at > row["updated_at"])
        sql = (
            "SELECT 1 FROM history JOIN ledger ON ledger.project_id = @p AND ledger.sequence = ledger_sequence"
            " WHERE history.project_id = @p AND history.checkout_id = @c AND memory_id = ? AND ledger_sequence > ?"
            " AND type <> 'reindex' LIMIT 1"
        )
        return bool(fetch(self._connection, sql, (target.id, self._plan.ledger_sequence)))

    def _occupant(self, path: str, here: int | None) -> Memory | None:
        rows = fetch(
            self._connection,
            "SELECT id FROM memory WHERE memory.project_id = @p AND path = ? AND presence = 'live'",
            (path,),
        )
        return load(self._connection, rows[0][0]) if rows and rows[0][0] != here else None

    def _free_id(self, wanted: int) -> int | None:
        """The id, if free. In the database of the checkpoint, an id in another checkout belongs to this same memory."""
        checkouts = [self._connection.checkout] if self._same_database else self._connection.checkouts()
        with self._connection.within(*checkouts):
            taken = fetch(self._connection, "SELECT 1 FROM memory WHERE project_id = @p AND id = ?", (wanted,))
        return None if taken or wanted < 1 or not self._is_of_this_vault(wanted) else wanted

    def _is_of_this_vault(self, wanted: int) -> bool:
        """An id alone decides whether a memory is personal, so a forged checkpoint must not bring a personal id."""
        (largest,) = first(self._connection, "SELECT max(id) FROM memory WHERE project_id = @p")
        return (wanted >= FIRST_PERSONAL_ID) == ((largest or 1) >= FIRST_PERSONAL_ID)

    def _write(self, saved: SavedMemory, before: Memory | None, here: int | None) -> int:
        connection, row = self._connection, saved.row
        extra = {"kept": self._unsaved(before)} if before and before.presence is not Presence.LIVE else {}
        documents.keep_text(connection, row["content_hash"], row["text"])
        memory_id = before.id if before else self._insert(row, here)
        connection.execute(
            "UPDATE memory SET path = ?, source = ?, spec_folder = ?, presence = 'live', fingerprint = ?,"
            " content_hash = ?, first_indexed_at = ?, updated_at = ?, archived_folder = ?, outdated = ?, owner = ?,"
            " project = ?, vouched = ?, forgotten_fingerprint = NULL WHERE project_id = @p AND id = ?",
            (
                row["path"], row["source"], row["spec_folder"], row["fingerprint"], row["content_hash"],
                micros(row["first_indexed_at"]), micros(row["updated_at"]), bool(row["archived_folder"]),
                bool(row["outdated"]), row["owner"], row["project"], row["vouched"], memory_id,
            ),
        )  # fmt: skip
        self._document(saved, memory_id)
        self._use(row, memory_id, before)
        self._aliases(row, memory_id)
        attributes = documents.set_attributes(connection, memory_id, triggers_live=True)
        keep = before is not None and before.presence is Presence.LIVE and before.title == attributes.title
        passage_rows.index(connection, memory_id, attributes.title, saved.passages, keep=keep)
        declared_links.replace(connection, memory_id, row["path"], saved.claims)
        declared_links.changed(connection, memory_id, before)
        alive = before is not None and before.presence is Presence.LIVE
        event = Event.UPDATE if alive else Event.ADD
        self._recorder.entry(Mutation.RESTORE, before, memory_id, event=event, extra_before=extra)
        return memory_id

    def _unsaved(self, before: Memory) -> dict[str, Any]:
        """Values that undo needs: neither a checkpoint, as the memory was not live, nor its history state has them."""
        row = memory_row(self._connection, before)
        return {name: row[name] for name in _UNSAVED}

    def _insert(self, row: Mapping[str, Any], here: int | None) -> int:
        at = micros(row["first_indexed_at"])
        if here is None:
            here = self._connection.next_id("memory")
        else:
            self._connection.taken_id("memory", here)
        self._connection.execute(
            "INSERT INTO memory (project_id, id, path, source, title, tier, weight, context_type, triggers,"
            " presence, fingerprint,"
            " content_hash, first_indexed_at, updated_at, archived_folder, trusted, changed)"
            " VALUES (@p, ?, ?, '', '', '', 0, '', '[]', 'live', '', '', ?, ?, false, false, ?)",
            (here, row["path"], at, at, self._recorder.generation),
        )
        return here

    def _document(self, saved: SavedMemory, memory_id: int) -> None:
        """Keeps the stored stamp of the file: a scan must not undo the restore while the file is unchanged."""
        stored = fetch(
            self._connection,
            "SELECT raw_hash, size, mtime_ns, seen_ns FROM document WHERE document.project_id = @p AND memory_id = ?",
            (memory_id,),
        )
        row = saved.row
        stamp = stored[0] if stored else (row["raw_hash"], *row["stamp"])
        self._connection.execute(
            documents.PUT_DOCUMENT,
            (
                memory_id, rows.plain(saved.said), bool(row["said_trusted"]), *stamp, rows.plain(row["warnings"]),
                int(row["redactions"]), len(saved.passages), sum(passage.tokens for passage in saved.passages),
                str(VectorStatus.PENDING),
            ),
        )  # fmt: skip
        self._connection.execute("DELETE FROM override WHERE override.project_id = @p AND memory_id = ?", (memory_id,))
        if row["overrides"]:
            self._connection.execute(
                upsert("override", "memory_id", "attributes"), (memory_id, rows.plain(row["overrides"]))
            )
        if saved.cited:
            documents.record_citations(self._connection, {memory_id: saved.cited})

    def _use(self, row: Mapping[str, Any], memory_id: int, before: Memory | None) -> None:
        if before and before.presence is Presence.LIVE and not self._clear:
            row = _more_use(row, memory_row(self._connection, before))
        self._connection.execute(
            upsert("usage", "memory_id", "access_count, last_access, validation_count, confidence, used"),
            (
                memory_id, float(row["access_count"]), micros(row["last_access"]), int(row["validation_count"]),
                str(row["confidence"]), self._used,
            ),
        )  # fmt: skip

    def _aliases(self, row: Mapping[str, Any], memory_id: int) -> None:
        dropped = self._connection.execute(
            "DELETE FROM alias WHERE alias.project_id = @p AND memory_id = ? RETURNING path", (memory_id,)
        )
        paths = {path for (path,) in dropped} | {alias["path"] for alias in row["aliases"]}
        declared_links.aliases_changed(self._connection, memory_id, paths)
        for alias in row["aliases"]:
            if fetch(
                self._connection,
                "SELECT 1 FROM memory WHERE memory.project_id = @p AND path = ? AND presence = 'live'",
                (alias["path"],),
            ):
                continue  # the copy is a separate memory by now
            self._connection.execute(
                documents.PUT_ALIAS,
                (
                    alias["path"], memory_id, alias["fingerprint"], rows.plain(alias["triggers"]), alias["raw_hash"],
                    *alias["stamp"],
                ),
            )  # fmt: skip

    # --- vectors, links, sessions

    def _vectors(self) -> None:
        """Restore the vectors. Those of another model are left out and computed again."""
        model = fetch(
            self._connection,
            "SELECT name, dimensions, weights_hash FROM model WHERE project_id = @p ORDER BY id DESC LIMIT 1",
        )
        if self._plan.model is not None and not model:
            self._connection.execute(
                "INSERT INTO model (project_id, id, name, dimensions, weights_hash) VALUES (@p, ?, ?, ?, ?)",
                (self._connection.next_id("model"), *self._plan.model),
            )
            model = [self._plan.model]
        if not model or self._plan.model != tuple(model[0]):
            return
        self.done["vectors"] += self._connection.text_index.attach_vectors(self._connection, self._plan.vectors)
        self._connection.text_index.refresh_status(self._connection, list(self._id_of.values()))

    def _links(self) -> None:
        """Restore links, with one entry each, except those that files declare: they follow from the files."""
        declared_links.follow_changes(self._connection)
        present = {
            (*link.ends, str(link.relation)): link
            for link, _ in links_touching(self._connection, self._scope, set(self._id_of.values()))
        }
        saved: dict[_Key, Mapping[str, Any]] = {}
        for row in self._plan.links:
            ends = (self._end(row, "source_id"), self._end(row, "target_id"))
            if ends[0] is not None and ends[1] is not None:
                saved[ends[0], ends[1], row["relation"]] = row
        if self._clear:
            self._drop_links(
                {
                    key: link
                    for key, link in present.items()
                    if link.origin is not Origin.FILE
                    and saved.get(key, {"origin": None})["origin"] in (None, Origin.FILE)
                }
            )
        for key, row in saved.items():
            if row["origin"] == Origin.FILE:
                self._keep_id(key, row)
            elif self._is_wanted(key, row, present.get(key)):
                self._put_link(key, row, present.get(key))

    def _links_shown(self) -> dict[_Key, tuple[float, str, Origin]]:
        """The links that a comparison with a checkpoint shows: both ends live, and not declared by a file."""
        return {
            (*link.ends, str(link.relation)): (link.strength, link.evidence, link.origin)
            for link, _ in links_touching(self._connection, self._scope, [id_ for (id_,) in self._live()])
            if link.origin is not Origin.FILE
        }

    def _count_links(self, before: Mapping[_Key, object], after: Mapping[_Key, object]) -> None:
        """Count visible changes, not writes, so that the result agrees with the preview of the restore."""
        self.done["links"] = sum(before.get(key) != link for key, link in after.items())
        self.done["links_removed"] = len(before.keys() - after.keys())

    def _end(self, row: Mapping[str, Any], name: str) -> int | None:
        """The memory here at that end of the link; one that the checkpoint does not hold must be live."""
        if row[name] in self._id_of:
            return self._id_of[row[name]]
        seen, bound = conditions.visible(self._scope)
        test, value = ("id", row[name]) if self._same_database else ("path", row["outside"])
        sql = f"SELECT id FROM memory WHERE memory.project_id = @p AND {test} = ? AND presence = 'live' AND {seen}"
        rows = fetch(self._connection, sql, [value, *bound]) if row["outside"] is not None else []
        return rows[0][0] if rows else None

    def _is_wanted(self, key: _Key, row: Mapping[str, Any], present: Link | None) -> bool:
        """Without clearing, existing links are kept, and a derived one returns only if one of its ends was restored."""
        if present is None:
            written = {here for here in self._id_of.values() if here not in self._unchanged_ids}
            return self._clear or row["origin"] == Origin.HAND or bool(written & set(key[:2]))
        now = rows.link_state(present) or {}
        differing = [name for name in ("strength", "evidence", "origin", "created_at") if now[name] != row[name]]
        if not self._clear and present.origin is Origin.HAND and {"strength", "evidence"} & {*differing}:
            self.done["links_kept"] += 1
        return self._clear and bool(differing)

    def _drop_links(self, links: Mapping[_Key, Link]) -> None:
        if not links:
            return
        self._connection.drop_links([link.id for link in links.values()])
        for link in links.values():
            for memory_id in link.ends:  # it may have replaced one that a file declares
                declared_links.claims_changed(self._connection, memory_id)
        declared_links.follow_changes(self._connection)
        for key, link in links.items():
            self._record_link(key, link)

    def _put_link(self, key: _Key, row: Mapping[str, Any], present: Link | None) -> None:
        self._connection.execute(
            "INSERT INTO link (project_id, id, source_id, target_id, relation, strength, evidence, origin, created_at)"
            " VALUES (@p, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (project_id, source_id, target_id, relation)"
            " DO UPDATE SET strength = excluded.strength, evidence = excluded.evidence, origin = excluded.origin,"
            " claimant = NULL, created_at = excluded.created_at",
            (
                self._connection.next_id("link"), *key, float(row["strength"]), row["evidence"], row["origin"],
                micros(row["created_at"]),
            ),
        )  # fmt: skip
        self._connection.links_written([key], Origin(row["origin"]))
        self._keep_id(key, row)
        self._record_link(key, present)

    def _keep_id(self, key: _Key, row: Mapping[str, Any]) -> None:
        """Give a link that was created again its old id, if that is free."""
        if self._same_database and not fetch(
            self._connection, "SELECT 1 FROM link WHERE link.project_id = @p AND id = ?", (row["id"],)
        ):
            sql = "UPDATE link SET id = ? WHERE project_id = @p AND source_id = ? AND target_id = ? AND relation = ?"
            self._connection.execute(sql, (row["id"], *key))
            self._connection.taken_id("link", row["id"])

    def _record_link(self, key: _Key, before: Link | None) -> None:
        self._recorder.entry(
            Mutation.RESTORE,
            load(self._connection, key[0]),
            key[0],
            extra_before={"link": rows.link_state(before)},
            extra_after={"link": rows.link_state(link_of(self._connection, key))},
            also=(key[1],),
            event=Event.UPDATE,
        )

    def _sessions(self) -> None:
        own = session_namespace(self._scope) if self._scope else None
        for row in self._plan.sessions:
            if own is not None and (row["owner"], row["project"]) != own:
                continue
            attention = [(self._id_of[id_], *rest) for id_, *rest in row["attention"] if id_ in self._id_of]
            if self._session(row, attention):
                self.done["sessions"] += 1

    def _session(self, row: Mapping[str, Any], attention: Sequence[tuple[Any, ...]]) -> bool:
        key = (row["id"], row["owner"], row["project"])
        stored = fetch(
            self._connection,
            "SELECT seen_at, attention, turn, loading, last_save_turn, sent FROM session"
            " WHERE project_id = @p AND id = ? AND owner = ? AND project = ?",
            key,
        )
        seen_at = micros(row["seen_at"])
        values = (row["turn"], row["loading"], row["last_save_turn"], seen_at, attention, row["sent"])
        if stored:
            seen_now, attended, turn, loading, last_save_turn, sent = stored[0]
            if not self._clear and (seen_now or 0) > (seen_at or 0):
                return False
            if self._where != EVERYTHING:  # only a part of the memories is restored: change only their attention
                concerned = {item[0] for item in attention} | set(self._id_of.values())
                others = [item for item in json.loads(attended) if item[0] not in concerned]
                values = (turn, loading, last_save_turn, seen_now, [*others, *attention], json.loads(sent))
        self._connection.execute(
            PUT_SESSION,
            (*key, *values[:4], rows.plain(values[4]), rows.plain(values[5])),
        )
        return True


def _more_use(one: Mapping[str, Any], other: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first row with the newer use and validation of the two: counts only rise."""
    used = max(one, other, key=lambda row: row["access_count"])
    judged = max(one, other, key=lambda row: row["validation_count"])
    return {
        **one,
        "access_count": used["access_count"],
        "last_access": used["last_access"],
        "validation_count": judged["validation_count"],
        "confidence": judged["confidence"],
    }
