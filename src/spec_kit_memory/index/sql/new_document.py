"""How is a new document written quickly? One query shows that it is new, and no written row is read again.

Most documents of a first index are new. The resulting rows are the same as those that `documents` writes.
"""

from __future__ import annotations

from spec_kit_memory.core.memory import Entry, Event, Memory, Mutation, Presence, VectorStatus
from spec_kit_memory.index import rows
from spec_kit_memory.index.contract import PutResult
from spec_kit_memory.index.sql import passage_rows
from spec_kit_memory.index.sql.dialect import Connection, first, upsert
from spec_kit_memory.index.sql.recorder import Recorder

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
    number = connection.last_id("memory") + 1
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
                "names": [entry.path, f"./{entry.path}", str(number), rows.clean(entry.attributes.title)],
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
    given = ", ".join(f":{name}" for name in values)
    connection.execute(f"INSERT INTO memory (project_id, {names}) VALUES (@p, {given})", values)
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
