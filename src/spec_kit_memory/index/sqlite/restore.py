"""How does a checkpoint come back? All of it in one transaction, or nothing.

In the database that the checkpoint came from, ids say which memory is which; in another one
paths do, and free ids are kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import apsw

from spec_kit_memory.core.memory import Change, Event, Filter, Memory, Mutation, Presence, Scope
from spec_kit_memory.errors import OutsideScope, RestoreFailed
from spec_kit_memory.index.contract import EVERYTHING
from spec_kit_memory.index.sqlite import conditions, declared_links, documents, rows, text_index
from spec_kit_memory.index.sqlite.connection import Database, fetch, first
from spec_kit_memory.index.sqlite.recorder import Recorder, load
from spec_kit_memory.index.sqlite.snapshot import memory_row
from spec_kit_memory.index.sqlite.snapshot_check import HINT, Plan, SavedMemory, micros, read

__all__ = ["restore"]

# What a file on disk looks like is not part of a checkpoint's truth: it says when a scan must read it again.
_NOT_COMPARED = ("id", "raw_hash", "stamp")


def restore(
    database: Database,
    scope: Scope | None,
    given: Iterable[Mapping[str, Any]],
    change: Change,
    *,
    clear: bool,
    where: Filter,
) -> dict[str, int]:
    plan = read(given)
    for saved in plan.memories:
        if not conditions.allows(scope, path=saved.row["path"], owner=saved.row["owner"], project=saved.row["project"]):
            raise OutsideScope("the checkpoint holds memories outside what this session may see", hint=HINT)
    with database.writing() as connection:
        work = _Restore(connection, Recorder(connection, change), scope, plan, clear=clear, where=where)
        try:
            return work.run()
        except (KeyError, TypeError, ValueError, LookupError, apsw.ConstraintError) as error:
            raise RestoreFailed(f"the checkpoint does not fit this index: {error}", hint=HINT) from error


class _Restore:
    """One restore, inside its transaction."""

    def __init__(
        self,
        connection: apsw.Connection,
        recorder: Recorder,
        scope: Scope | None,
        plan: Plan,
        *,
        clear: bool,
        where: Filter,
    ) -> None:
        self._connection = connection
        self._recorder = recorder
        self._scope = scope
        self._plan = plan
        self._clear = clear
        self._where = where
        self._same_database = plan.instance == first(connection, "SELECT instance FROM counter")[0]
        self._id_of: dict[int, int] = {}  # in the checkpoint -> here
        self._kept: set[int] = set()  # ids here that stay as they are
        self.done = dict.fromkeys(("restored", "unchanged", "kept_newer", "removed", "links", "sessions", "vectors"), 0)

    def run(self) -> dict[str, int]:
        targets = [(saved, self._target(saved.row)) for saved in self._plan.memories]
        # Those whose id is taken by a stranger get a new one, after all others have theirs.
        targets.sort(key=lambda pair: pair[1] is None and self._free_id(pair[0].row["id"]) is None)
        if self._clear:
            self._remove_others({target for _, target in targets if target is not None})
        for saved, target in targets:
            self._memory(saved, target)
        self._vectors()
        self._links()
        self._sessions()
        self._connection.execute("UPDATE counter SET epoch = epoch + 1")
        return self.done

    def _target(self, row: Mapping[str, Any]) -> int | None:
        """The memory that this row is about, if there is one."""
        by_id = "SELECT id FROM memory WHERE id = ?"
        by_path = "SELECT id FROM memory WHERE path = ? ORDER BY presence = 'live' DESC, updated_at DESC LIMIT 1"
        found = fetch(
            self._connection,
            by_id if self._same_database else by_path,
            (row["id"] if self._same_database else row["path"],),
        )
        return found[0][0] if found else None

    def _remove_others(self, stay: set[int]) -> None:
        """Only within the scope and filter. Forgotten and not gone: the next scan would bring them back."""
        test, values = conditions.matching(self._where)
        seen, bound = conditions.visible(self._scope)
        sql = (
            "SELECT memory.id FROM memory LEFT JOIN usage ON usage.memory_id = memory.id"
            f" WHERE presence = 'live' AND {test} AND {seen}"
        )
        for (memory_id,) in fetch(self._connection, sql, [*values, *bound]):
            if memory_id not in stay:
                memory = load(self._connection, memory_id)
                if memory:
                    documents.take_out(self._connection, self._recorder, memory, Presence.FORGOTTEN)
                    self.done["removed"] += 1

    def _memory(self, saved: SavedMemory, target_id: int | None) -> None:
        row = saved.row
        target = None if target_id is None else load(self._connection, target_id)
        here = target.id if target else self._free_id(row["id"])
        if target and self._newer(target, row):
            self._id_of[row["id"]] = target.id
            self._kept.add(target.id)
            return
        occupant = self._occupant(row["path"], here)
        if occupant and not self._clear and rows.iso(occupant.updated_at) > row["updated_at"]:
            self.done["kept_newer"] += 1
            return
        if occupant:
            documents.take_out(self._connection, self._recorder, occupant, Presence.GONE)
        self._id_of[row["id"]] = self._write(saved, target, here)
        self.done["restored"] += 1

    def _newer(self, target: Memory, row: Mapping[str, Any]) -> bool:
        """Keep what is the same already and, unless clearing, what changed since."""
        if target.presence is not Presence.LIVE:
            return False
        now = memory_row(self._connection, target)
        if all(now[name] == row.get(name) for name in now if name not in _NOT_COMPARED):
            self.done["unchanged"] += 1
            return True
        if not self._clear and rows.iso(target.updated_at) > row["updated_at"]:
            self.done["kept_newer"] += 1
            return True
        return False

    def _occupant(self, path: str, here: int | None) -> Memory | None:
        found = fetch(self._connection, "SELECT id FROM memory WHERE path = ? AND presence = 'live'", (path,))
        return load(self._connection, found[0][0]) if found and found[0][0] != here else None

    def _free_id(self, wanted: int) -> int | None:
        taken = fetch(self._connection, "SELECT 1 FROM memory WHERE id = ?", (wanted,))
        return None if taken or wanted < 1 else wanted

    def _write(self, saved: SavedMemory, before: Memory | None, here: int | None) -> int:
        connection, row = self._connection, saved.row
        documents.keep_text(connection, row["content_hash"], row["text"])
        memory_id = before.id if before else self._insert(row, here)
        connection.execute(
            "UPDATE memory SET path = ?, source = ?, spec_folder = ?, presence = 'live', fingerprint = ?,"
            " content_hash = ?, first_indexed_at = ?, updated_at = ?, archived_folder = ?, outdated = ?, owner = ?,"
            " project = ?, vouched = ?, forgotten_fingerprint = NULL WHERE id = ?",
            (
                row["path"], row["source"], row["spec_folder"], row["fingerprint"], row["content_hash"],
                micros(row["first_indexed_at"]), micros(row["updated_at"]), bool(row["archived_folder"]),
                bool(row["outdated"]), row["owner"], row["project"], row["vouched"], memory_id,
            ),
        )  # fmt: skip
        self._document(saved, memory_id)
        self._use(row, memory_id)
        self._aliases(row, memory_id)
        attributes = documents.set_attributes(connection, memory_id, triggers_live=True)
        keep = before is not None and before.presence is Presence.LIVE and before.title == attributes.title
        text_index.index(connection, memory_id, attributes.title, saved.passages, keep=keep)
        declared_links.replace(connection, memory_id, row["path"], saved.claims)
        declared_links.others_resolved(connection, memory_id, old=before)
        alive = before is not None and before.presence is Presence.LIVE
        self._recorder.entry(Mutation.RESTORE, before, memory_id, event=Event.UPDATE if alive else Event.ADD)
        return memory_id

    def _insert(self, row: Mapping[str, Any], here: int | None) -> int:
        at = micros(row["first_indexed_at"])
        self._connection.execute(
            "INSERT INTO memory (id, path, source, title, tier, weight, context_type, triggers, presence, fingerprint,"
            " content_hash, first_indexed_at, updated_at, archived_folder, trusted, changed)"
            " VALUES (?, ?, '', '', '', 0, '', '[]', 'live', '', '', ?, ?, 0, 0, ?)",
            (here, row["path"], at, at, self._recorder.generation),
        )
        return self._connection.last_insert_rowid()

    def _document(self, saved: SavedMemory, memory_id: int) -> None:
        """The stamp of the file as last seen stays: a scan must not undo the restore while the file is the same."""
        known = fetch(
            self._connection, "SELECT raw_hash, size, mtime_ns, seen_ns FROM document WHERE memory_id = ?", (memory_id,)
        )
        row = saved.row
        stamp = known[0] if known else (row["raw_hash"], *row["stamp"])
        self._connection.execute(
            "INSERT OR REPLACE INTO document (memory_id, said, said_trusted, raw_hash, size, mtime_ns, seen_ns,"
            " warnings, redactions, passages, tokens, vector_status)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending')",
            (
                memory_id, rows.plain(saved.said), bool(row["said_trusted"]), *stamp, rows.plain(row["warnings"]),
                int(row["redactions"]), len(saved.passages), sum(passage.tokens for passage in saved.passages),
            ),
        )  # fmt: skip
        self._connection.execute("DELETE FROM override WHERE memory_id = ?", (memory_id,))
        if row["overrides"]:
            self._connection.execute(
                "INSERT INTO override (memory_id, attributes) VALUES (?, ?)", (memory_id, rows.plain(row["overrides"]))
            )

    def _use(self, row: Mapping[str, Any], memory_id: int) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO usage (memory_id, access_count, last_access, validation_count, confidence, used)"
            " VALUES (?, ?, ?, ?, ?, (SELECT used FROM counter))",
            (
                memory_id, float(row["access_count"]), micros(row["last_access"]), int(row["validation_count"]),
                str(row["confidence"]),
            ),
        )  # fmt: skip

    def _aliases(self, row: Mapping[str, Any], memory_id: int) -> None:
        self._connection.execute("DELETE FROM alias WHERE memory_id = ?", (memory_id,))
        for alias in row["aliases"]:
            if fetch(self._connection, "SELECT 1 FROM memory WHERE path = ? AND presence = 'live'", (alias["path"],)):
                continue  # the copy has become a memory of its own meanwhile
            self._connection.execute(
                "INSERT OR REPLACE INTO alias (path, memory_id, fingerprint, triggers, raw_hash, size, mtime_ns,"
                " seen_ns) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    alias["path"], memory_id, alias["fingerprint"], rows.plain(alias["triggers"]), alias["raw_hash"],
                    *alias["stamp"],
                ),
            )  # fmt: skip

    # --- vectors, links, sessions

    def _vectors(self) -> None:
        """Vectors of another model are left out; they are computed again."""
        model = fetch(self._connection, "SELECT name, dimensions, weights_hash FROM model ORDER BY id DESC LIMIT 1")
        if self._plan.model is not None and not model:
            self._connection.execute(
                "INSERT INTO model (name, dimensions, weights_hash) VALUES (?, ?, ?)", self._plan.model
            )
            model = [self._plan.model]
        if not model or self._plan.model != tuple(model[0]):
            return
        for hash_, (vector, states) in self._plan.vectors.items():
            self.done["vectors"] += text_index.attach_vector(self._connection, hash_, vector, states)
        text_index.refresh_status(self._connection, list(self._id_of.values()))

    def _links(self) -> None:
        restored = {here for here in self._id_of.values() if here not in self._kept}
        if self._clear:
            self._drop_links(set(self._id_of.values()))
        for link in self._plan.links:
            ends = (self._id_of.get(link["source_id"]), self._id_of.get(link["target_id"]))
            if None in ends or (not self._clear and not restored & set(ends)):
                continue
            self.done["links"] += self._link(link, *ends)

    def _drop_links(self, ids: set[int]) -> None:
        """Links among the restored memories that the checkpoint does not hold."""
        held = {
            (self._id_of.get(link["source_id"]), self._id_of.get(link["target_id"]), link["relation"])
            for link in self._plan.links
        }
        source, values = conditions.in_ids(ids, "source_id")
        target, _ = conditions.in_ids(ids, "target_id")
        sql = f"SELECT id, source_id, target_id, relation FROM link WHERE {source} AND {target}"
        for link_id, *key in fetch(self._connection, sql, [*values, *values]):
            if tuple(key) not in held:
                self._connection.execute("DELETE FROM link WHERE id = ?", (link_id,))

    def _link(self, link: Mapping[str, Any], source_id: int | None, target_id: int | None) -> int:
        known = fetch(self._connection, "SELECT 1 FROM link WHERE id = ?", (link["id"],))
        link_id = link["id"] if self._same_database and not known else None
        claimant = self._id_of.get(link["claimant"]) if link["claimant"] is not None else None
        self._connection.execute(
            "INSERT INTO link (id, source_id, target_id, relation, strength, evidence, origin, claimant, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (source_id, target_id, relation) DO UPDATE SET"
            " strength = excluded.strength, evidence = excluded.evidence, origin = excluded.origin,"
            " claimant = excluded.claimant, created_at = excluded.created_at",
            (
                link_id, source_id, target_id, link["relation"], float(link["strength"]), link["evidence"],
                link["origin"], claimant, micros(link["created_at"]),
            ),
        )  # fmt: skip
        if link_id is not None:  # one that was derived anew in this restore gets its old id too
            self._connection.execute(
                "UPDATE link SET id = ? WHERE source_id = ? AND target_id = ? AND relation = ?",
                (link_id, source_id, target_id, link["relation"]),
            )
        return 1

    def _sessions(self) -> None:
        own = (self._scope.user or "", self._scope.project or "") if self._scope else None
        for row in self._plan.sessions:
            if own is not None and (row["owner"], row["project"]) != own:
                continue
            attention = [(self._id_of[id_], *rest) for id_, *rest in row["attention"] if id_ in self._id_of]
            if self._session(row, attention):
                self.done["sessions"] += 1

    def _session(self, row: Mapping[str, Any], attention: Sequence[tuple[Any, ...]]) -> bool:
        key = (row["id"], row["owner"], row["project"])
        known = fetch(
            self._connection,
            "SELECT seen_at, attention, turn, loading, last_save_turn, sent FROM session"
            " WHERE id = ? AND owner = ? AND project = ?",
            key,
        )
        seen_at = micros(row["seen_at"])
        values = (row["turn"], row["loading"], row["last_save_turn"], seen_at, attention, row["sent"])
        if known:
            seen_now, attended, turn, loading, last_save_turn, sent = known[0]
            if not self._clear and (seen_now or 0) > (seen_at or 0):
                return False
            if self._where != EVERYTHING:  # the session is about other memories too: only these change
                concerned = {one[0] for one in attention} | set(self._id_of.values())
                others = [one for one in json.loads(attended) if one[0] not in concerned]
                values = (turn, loading, last_save_turn, seen_now, [*others, *attention], json.loads(sent))
        self._connection.execute(
            "INSERT OR REPLACE INTO session (id, owner, project, turn, loading, last_save_turn, seen_at, attention,"
            " sent) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*key, *values[:4], rows.plain(values[4]), rows.plain(values[5])),
        )
        return True
