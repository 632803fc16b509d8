"""Every operation that changes something, workspaces to try them on, and what is looked at afterwards."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import apsw

from spec_kit_memory.files import set_aside
from spec_kit_memory.index.sqlite.engine import SqliteIndex
from spec_kit_memory.serve.cli import cleanup
from spec_kit_memory.serve.cli.invocation import Invocation
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace, make_workspace, write_lines
from tests.files.test_original_db import CAUSAL_EDGES, HISTORY_BY_EVENT, MEMORY_INDEX

FOLDER = "specs/001-core/memory"
FACT = "The potoroo eats truffles."
VAULT_MARK = ".vault"  # lies in the folder of a workspace that is its user's personal vault
OLD_INDEX = Path(__file__).parents[1] / "upgrade" / "workspace-0.1.0.tar.gz"
NOTES = {
    f"{FOLDER}/plan.md": "---\ntitle: Plan\n---\n\n# Plan\n\nThe numbat digs for termites.\n",
    f"{FOLDER}/other.md": "---\ntitle: Other\n---\n\n# Other\n\nThe bilby has long ears.\n",
    f"{FOLDER}/third.md": "# Third\n\nA text without front matter.\n",
    "memory/rule.md": "# Elsewhere\n\nThe quoll hunts at night.\n",
}


def open_at(root: Path, *, busy_seconds: float | None = None) -> Workspace:
    settings = _settings(root)
    store = None if busy_seconds is None else SqliteIndex(settings.index_path, busy_seconds=busy_seconds)
    vault = root if (root / VAULT_MARK).exists() else None
    with patch("spec_kit_memory.workspace.personal_vault", return_value=vault):
        return Workspace(settings, now=_now, store=store)


def _settings(root: Path) -> Settings:
    return Settings(root=root, semantic=Semantic(model="none"), watch="off")


def _now() -> datetime:
    return datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def write_note(root: Path, path: str, text: str) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    os.utime(file, (1_700_000_000, 1_700_000_000))
    return file


def build(root: Path) -> None:
    """Three notes of one folder, two of them alike, and a rule elsewhere; a conversation to import lies beside."""
    for path, text in NOTES.items():
        write_note(root, path, text)
    turns = [{"role": ("user", "assistant")[turn % 2], "content": f"The quagga{turn} ran."} for turn in range(4)]
    write_note(root, "talk.jsonl", "\n".join(json.dumps(turn) for turn in turns))
    with open_at(root) as workspace:
        workspace.index()


def id_of(workspace: Workspace, name: str) -> int:
    return next(card.id for card in workspace.list(limit=100).memories if card.path.endswith(name))


@dataclass(frozen=True)
class Operation:
    """What is done before, and the call that is tried.

    `resumes`: it is made of many steps, each of which may be done or not; doing it again completes it. `optional`:
    files that may be lacking after it was done, since nobody was promised them. `opens`: opening the workspace is
    what is tried, too. `keeps_text`: where the index refuses it, the text stays in a file that the error names.
    `first`: what is done first of two things, where the second may fail with a warning, or never be begun.
    """

    act: Callable[[Workspace], object]
    prepare: Callable[[Workspace], object] = lambda workspace: None
    resumes: bool = False
    optional: frozenset[str] = frozenset()
    opens: bool = False
    keeps_text: bool = False
    first: Callable[[Workspace], object] | None = None
    make: Callable[[Path], None] = build


def _save(workspace: Workspace) -> object:
    context = {"title": "Night walk", "sessionSummary": "The potoroo eats truffles.", "nextSteps": ["Count them."]}
    return workspace.save(context=context, spec_folder="001-core")


def _save_fact(workspace: Workspace) -> object:
    return workspace.save(text=FACT, spec_folder="001-core")


def _save_in_new_folder(workspace: Workspace) -> object:
    context = {"title": "Night walk", "sessionSummary": "The potoroo eats truffles."}
    return workspace.save(context=context, spec_folder="007-night", create=True)


ROUTES = [
    f"The {animal} sleeps in its burrow until the evening and then walks to the river to look for roots and insects."
    for animal in ("quokka", "bettong", "dunnart", "woylie", "monjon", "antechinus")
]


def _similar(workspace: Workspace) -> None:
    workspace.save(text=" ".join(ROUTES), spec_folder="001-core")


def _save_and_merge(workspace: Workspace, on_similar: str = "merge") -> object:
    text = " ".join([*ROUTES, "The potoroo eats truffles."])
    return workspace.save(text=text, spec_folder="001-core", on_similar=on_similar)


def _save_beside_similar(workspace: Workspace) -> object:
    return _save_and_merge(workspace, on_similar="warn")


def _save_file(workspace: Workspace) -> object:
    return workspace.save(file_path=f"{FOLDER}/new.md")


def _new_file(workspace: Workspace) -> None:
    write_note(workspace.settings.root, f"{FOLDER}/new.md", "# New\n\nThe potoroo eats truffles.\n")


def _delete(workspace: Workspace) -> object:
    return workspace.delete(id_of(workspace, "plan.md"), delete_file=True)


def _forget(workspace: Workspace) -> object:
    return workspace.delete(id_of(workspace, "plan.md"))


def _forget_folder(workspace: Workspace) -> object:
    return workspace.delete(spec_folder="001-core", confirm=True)


def _delete_folder(workspace: Workspace) -> object:
    return workspace.delete(spec_folder="001-core", confirm=True, delete_file=True)


def _update(workspace: Workspace) -> object:
    return workspace.update(id_of(workspace, "plan.md"), title="Changed", trigger_phrases=["numbat food"])


def _merge(workspace: Workspace) -> object:
    return workspace.merge(id_of(workspace, "other.md"), id_of(workspace, "plan.md"))


def _undo(workspace: Workspace) -> object:
    return workspace.undo()


def _validate(workspace: Workspace) -> object:
    return workspace.validate(id_of(workspace, "plan.md"), was_useful=True)


def _outdated(workspace: Workspace) -> object:
    return workspace.validate(id_of(workspace, "plan.md"), outdated=True)


def _liked(workspace: Workspace) -> None:
    """Found useful so often that it may be promoted."""
    for _ in range(8):
        _validate(workspace)


def _promote(workspace: Workspace) -> object:
    return workspace.validate(id_of(workspace, "plan.md"), promote=True)


def _promoted(workspace: Workspace) -> None:
    _liked(workspace)
    _promote(workspace)


def _clean_up(workspace: Workspace) -> None:
    """`skm cleanup` on a terminal, where somebody deletes the only memory that it names."""
    with patch("click.prompt", return_value="d"), patch("spec_kit_memory.serve.cli.terminal.show"):
        cleanup.walk(cast(Invocation, _Terminal(workspace)))


class _Terminal:
    """What `skm cleanup` needs of a command line."""

    interactive = True

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    @contextmanager
    def open(self) -> Iterator[Workspace]:
        yield self._workspace

    def show(self, *answers: object, blocks: object = None) -> None:
        pass

    def say(self, text: str) -> None:
        assert text.startswith("1 deleted")


def _checkpoint(workspace: Workspace) -> None:
    """A checkpoint, after which one file is changed, one deleted and one moved to another folder."""
    root = workspace.settings.root
    workspace.checkpoint_create("then")
    _update(workspace)
    workspace.delete(id_of(workspace, "other.md"), delete_file=True)
    (root / "specs/002-next/memory").mkdir(parents=True)
    (root / FOLDER / "third.md").rename(root / "specs/002-next/memory/third.md")
    workspace.index()


def _forgotten_since(workspace: Workspace) -> None:
    """A checkpoint, after which the index forgets one memory, and its file stays."""
    workspace.checkpoint_create("then")
    workspace.delete(id_of(workspace, "other.md"))


def _restore(workspace: Workspace) -> object:
    return workspace.checkpoint_restore("then", clear_existing=True)


def _restore_files(workspace: Workspace) -> object:
    return workspace.checkpoint_restore("then", clear_existing=True, restore_files=True)


def _restored(workspace: Workspace) -> None:
    _checkpoint(workspace)
    _restore_files(workspace)


def _link(workspace: Workspace) -> object:
    return workspace.link(id_of(workspace, "other.md"), id_of(workspace, "plan.md"), "supports", evidence="seen")


def _import_chat(workspace: Workspace) -> object:
    return workspace.chat_import([workspace.settings.root / "talk.jsonl"])


def _forget_chat(workspace: Workspace) -> object:
    return workspace.chat_forget(str(_chat_id(workspace)))


def _forgotten_chat(workspace: Workspace) -> None:
    _import_chat(workspace)
    _forget_chat(workspace)


def _build_beside_export(root: Path) -> None:
    """An export of three conversations, in a zip as a provider sends it."""
    build(root)
    conversations = [
        {
            "uuid": f"talk-{number}",
            "name": f"Talk {number}",
            "chat_messages": [
                {"sender": ("human", "assistant")[turn % 2], "text": f"The quagga{turn} ran {number} times."}
                for turn in range(4)
            ],
        }
        for number in range(3)
    ]
    with zipfile.ZipFile(root / "export.zip", "w") as export:
        export.writestr("conversations.json", json.dumps(conversations))


def _import_export(workspace: Workspace) -> object:
    return workspace.chat_import([workspace.settings.root / "export.zip"])


def _repair(workspace: Workspace) -> object:
    return workspace.health(repair=True)


def _disordered(workspace: Workspace) -> None:
    """Files edited behind the index's back, and a text index that has lost its words."""
    _edited(workspace)
    with closing(apsw.Connection(str(workspace.settings.index_path))) as connection:
        connection.execute("INSERT INTO passage_fts (passage_fts) VALUES ('delete-all')")


def _set_aside(workspace: Workspace) -> object:
    return workspace.keep("stale:1:0123")


def _export_ledger(workspace: Workspace) -> object:
    return write_lines(workspace.settings.root / "ledger.jsonl", workspace.ledger_export())


def _initialise(workspace: Workspace) -> object:
    return make_workspace(workspace.settings.root)


def _import_original(workspace: Workspace) -> object:
    return workspace.import_original(workspace.settings.root / "original.sqlite")


def _build_beside_original(root: Path) -> None:
    build(root)
    with closing(apsw.Connection(str(root / "original.sqlite"))) as original:
        original.execute(MEMORY_INDEX + CAUSAL_EDGES + HISTORY_BY_EVENT)
        columns = "id, spec_folder, file_path, title, access_count, last_accessed, validation_count, confidence_score"
        original.executemany(
            f"INSERT INTO memory_index ({columns}) VALUES (?, '001-core', ?, ?, 7, '2026-02-01 10:00:00', 3, 0.8)",
            [(11, f"/work/{FOLDER}/plan.md", "Plan"), (12, f"/work/{FOLDER}/other.md", "Other")],
        )
        original.execute("INSERT INTO causal_edges (source_id, target_id, relation) VALUES ('11', '12', 'caused')")
        original.execute(
            "INSERT INTO memory_history (id, memory_id, event, new_value, actor, timestamp)"
            " VALUES ('h1', 11, 'ADD', '{}', 'user', '2026-01-01 09:00:00')"
        )


def _trust(workspace: Workspace) -> object:
    return workspace.trust(_chat_id(workspace))


def _imported(workspace: Workspace) -> None:
    _import_chat(workspace)


def _trusted(workspace: Workspace) -> None:
    _import_chat(workspace)
    _trust(workspace)


def _update_in_index(workspace: Workspace) -> object:
    """A conversation has no file: what is changed of it is kept in the index."""
    return workspace.update(_chat_id(workspace), title="Zebras", importance_weight=0.9)


def _updated_in_index(workspace: Workspace) -> None:
    _import_chat(workspace)
    _update_in_index(workspace)


def _unlink(workspace: Workspace) -> object:
    return workspace.unlink(1)


def _unlinked(workspace: Workspace) -> None:
    _link(workspace)
    _unlink(workspace)


def _personally(act: Callable[[Workspace], object], root: Path) -> object:
    """A project asks for something in its user's personal vault, which is the workspace at `root`."""
    with (
        tempfile.TemporaryDirectory() as project,
        patch("spec_kit_memory.workspace.personal_vault", return_value=root),
        Workspace(_settings(Path(project)), now=_now, personal=True) as opened,
    ):
        return act(opened)


def _build_vault(root: Path) -> None:
    (root / VAULT_MARK).touch()
    build(root)


def _personal_save(workspace: Workspace) -> object:
    return _personally(lambda project: project.save(text=FACT, vault="personal"), workspace.settings.root)


def _personal_id(workspace: Workspace) -> int:
    return id_of(workspace, "plan.md")


def _personal_update(workspace: Workspace) -> object:
    memory_id = _personal_id(workspace)
    return _personally(lambda project: project.update(memory_id, title="Changed"), workspace.settings.root)


def _personal_delete(workspace: Workspace) -> object:
    memory_id = _personal_id(workspace)
    return _personally(lambda project: project.delete(memory_id, delete_file=True), workspace.settings.root)


def _personal_undo(workspace: Workspace) -> object:
    def undo(project: Workspace) -> object:
        assert project.personal
        return project.personal.undo()

    return _personally(undo, workspace.settings.root)


def _chat_id(workspace: Workspace) -> int:
    return next(card.id for card in workspace.list(source="chat").memories)


def _edited(workspace: Workspace) -> None:
    """A file more, one changed, one gone, one moved: what a scan finds after a pull."""
    root = workspace.settings.root
    _new_file(workspace)
    write_note(root, f"{FOLDER}/plan.md", "---\ntitle: Plan\n---\n\n# Plan\n\nThe numbat digs for more termites.\n")
    (root / FOLDER / "other.md").unlink()
    (root / "specs/002-next/memory").mkdir(parents=True)
    (root / FOLDER / "third.md").rename(root / "specs/002-next/memory/third.md")


def _old_workspace(root: Path) -> None:
    with tarfile.open(OLD_INDEX) as archive:
        archive.extractall(root, filter="data")
    inner = [path for path in root.iterdir() if path.is_dir()]
    if len(inner) == 1 and not (root / ".spec-kit-memory").exists():
        for path in list(inner[0].iterdir()):
            path.rename(root / path.name)


def _notes_only(root: Path) -> None:
    for path, text in NOTES.items():
        write_note(root, path, text)


METADATA = frozenset(("metadata.json",))
OPERATIONS: Mapping[str, Operation] = {
    "save": Operation(_save, optional=METADATA, keeps_text=True),
    "save of a fact": Operation(_save_fact, optional=METADATA, keeps_text=True),
    "save in a new folder": Operation(_save_in_new_folder, optional=METADATA, keeps_text=True),
    "save that merges": Operation(
        _save_and_merge, _similar, optional=METADATA, keeps_text=True, first=_save_beside_similar
    ),
    "save of a file": Operation(_save_file, _new_file, resumes=True),
    "update": Operation(_update),
    "update in the index": Operation(_update_in_index, _imported),
    "delete": Operation(_delete),
    "delete without its file": Operation(_forget),
    "delete a folder without its files": Operation(_forget_folder),
    "delete a folder": Operation(_delete_folder),
    "merge": Operation(_merge),
    "cleanup": Operation(_clean_up, _outdated),
    "undo of a delete": Operation(_undo, _delete),
    "undo of a delete without its file": Operation(_undo, _forget),
    "undo of a folder's delete without its files": Operation(_undo, _forget_folder),
    "undo of a folder's delete": Operation(_undo, _delete_folder),
    "undo of an update": Operation(_undo, _update),
    "undo of an update in the index": Operation(_undo, _updated_in_index),
    "undo of a merge": Operation(_undo, _merge),
    "undo of a validation": Operation(_undo, _validate),
    "undo of an outdated mark": Operation(_undo, _outdated),
    "undo of a promotion": Operation(_undo, _promoted),
    "undo of a link": Operation(_undo, _link),
    "undo of an unlink": Operation(_undo, _unlinked),
    "undo of trust": Operation(_undo, _trusted),
    "validate": Operation(_validate),
    "validate as outdated": Operation(_outdated),
    "promotion": Operation(_promote, _liked),
    "link": Operation(_link),
    "unlink": Operation(_unlink, _link),
    "import of a chat": Operation(_import_chat, resumes=True),
    "trust": Operation(_trust, _imported),
    "import of the original": Operation(_import_original, resumes=True, make=_build_beside_original),
    "import of an export": Operation(_import_export, resumes=True, make=_build_beside_export),
    "forgetting a chat": Operation(_forget_chat, _imported),
    "undo of forgetting a chat": Operation(_undo, _forgotten_chat),
    "personal save": Operation(_personal_save, optional=METADATA, keeps_text=True, make=_build_vault),
    "personal update": Operation(_personal_update, make=_build_vault),
    "personal delete": Operation(_personal_delete, make=_build_vault),
    "undo of a personal delete": Operation(_personal_undo, _personal_delete, make=_build_vault),
    "checkpoint": Operation(lambda workspace: workspace.checkpoint_create("then")),
    "delete a checkpoint": Operation(lambda workspace: workspace.checkpoint_delete("then"), _forgotten_since),
    "restore": Operation(_restore, _forgotten_since),
    "restore with its files": Operation(_restore_files, _checkpoint),
    "undo of a restore": Operation(_undo, _restored),
    "set a finding aside": Operation(_set_aside),
    "export of the ledger": Operation(_export_ledger),
    "init": Operation(_initialise, resumes=True),
    "scan": Operation(lambda workspace: workspace.index(), _edited, resumes=True),
    "repair": Operation(_repair, _disordered, resumes=True),
    "rebuild": Operation(lambda workspace: workspace.index(rebuild=True), resumes=True),
    "first scan": Operation(lambda workspace: workspace.index(), resumes=True, opens=True, make=_notes_only),
    "upgrade of an index of 0.1": Operation(lambda workspace: None, resumes=True, opens=True, make=_old_workspace),
}

# Verbs that change nothing but counts of use and what a session was sent: where those cannot be written, the question
# is answered all the same (`test_reads.py`).
QUESTIONS: Mapping[str, Callable[[Workspace], Any]] = {
    "search": lambda workspace: workspace.search("numbat termites", limit=3),
    "search in a folder": lambda workspace: workspace.search("text", spec_folder="001-core", include_content=True),
    "list": lambda workspace: workspace.list(limit=100),
    "load": lambda workspace: workspace.load(id_of(workspace, "plan.md")),
    "get": lambda workspace: workspace.get(f"{FOLDER}/plan.md"),
    "triggers": lambda workspace: workspace.triggers("numbat food, please"),
    "context": lambda workspace: workspace.context(),
    "session": lambda workspace: workspace.session("one", anew=True),
    "why": lambda workspace: workspace.why(id_of(workspace, "plan.md")),
    "history": lambda workspace: workspace.history(id_of(workspace, "plan.md")),
    "checkpoints": lambda workspace: workspace.checkpoint_list(),
    "diff": lambda workspace: workspace.checkpoint_diff("then"),
    "verify": lambda workspace: workspace.ledger_verify(),
    "head": lambda workspace: workspace.ledger_head(),
    "conversations": lambda workspace: workspace.chat_list(),
    "stats": lambda workspace: workspace.stats(),
    "numbers": lambda workspace: workspace.numbers(),
    "facets": lambda workspace: workspace.facets("numbat termites"),
    "folders": lambda workspace: workspace.folders(),
    "changes": lambda workspace: workspace.changes(),
    "examine": lambda workspace: workspace.examine(id_of(workspace, "plan.md")),
    "versions": lambda workspace: workspace.versions(id_of(workspace, "plan.md")),
    "care": lambda workspace: workspace.care(health=False),
    "count of what was sent": lambda workspace: workspace.record_sent("search", 100),
}


# --- looking ----------------------------------------------------------------------------

_RECORDED = {
    "memories": "SELECT id, path, source, spec_folder, title, tier, weight, context_type, triggers, presence,"
    " fingerprint, content_hash, outdated, trusted, vouched, forgotten_fingerprint FROM memory ORDER BY id",
    "links": "SELECT source_id, target_id, relation, strength, evidence, origin FROM link ORDER BY 1, 2, 3",
    "validations": "SELECT memory_id, validation_count, confidence FROM usage WHERE validation_count > 0 ORDER BY 1",
    "overrides": "SELECT memory_id, attributes FROM override ORDER BY 1",
    "history": "SELECT memory_id, event FROM history ORDER BY sequence",
    "ledger": "SELECT type, memory_ids FROM ledger ORDER BY sequence",
}
WORDS = ("numbat termites", "bilby ears", "text without front matter", "quoll night", "potoroo truffles", "quagga1")


def state_of(root: Path) -> dict[str, Any]:
    """Files and index as somebody finds them who opens the workspace again."""
    with open_at(root) as workspace:
        return look(workspace)


def look(workspace: Workspace) -> dict[str, Any]:
    root = workspace.settings.root
    with closing(apsw.Connection(str(workspace.settings.index_path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        recorded = {name: connection.execute(sql).fetchall() for name, sql in _RECORDED.items()}
    return {
        "files": dict(_files(root)),
        "trash": sorted(text for path, text in _files(root / ".spec-kit-memory/trash", all_=True)),
        **recorded,
        "found": [[result.path for result in workspace.search(query, limit=3).results] for query in WORDS],
        "checkpoints": sorted(row["name"] for row in workspace.checkpoint_list().checkpoints),
        "set aside": sorted(set_aside.read(workspace.settings, scope=workspace._runtime.scope)),
        "head": workspace.ledger_head().head,
    }


def _files(folder: Path, *, all_: bool = False) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*")):
        below = path.relative_to(folder).as_posix()
        ours = below.startswith(".spec-kit-memory/") or below.endswith(".skm.tmp")  # a scan removes those of the dead
        if path.is_file() and (all_ or not ours):
            yield below, hashlib.sha256(path.read_bytes()).hexdigest()


def unhealthy(root: Path) -> list[str]:
    """What is wrong after an ordinary start: problems of health, and files of ours that nobody needs."""
    with open_at(root) as workspace:
        scanned = workspace.index()
        problems = [
            f"{problem['check']}: {problem['message']}"
            for problem in workspace.health(full=True).problems
            if problem["check"] != "held back"  # what an operation did on purpose
        ]
        verified = workspace.ledger_verify()
    problems += [] if verified.ok else [f"the ledger: {verified.summary}"]
    problems += [f"indexed again: {scanned.summary}"] if scanned.indexed or scanned.deleted else []
    pending = root / ".spec-kit-memory/pending"
    problems += [f"left in pending: {path.name}" for path in sorted(pending.glob("*"))]
    problems += [f"left: {path}" for path in sorted(root.rglob("*.skm.tmp"))]
    return problems


def is_done(state: Mapping[str, Any], after: Mapping[str, Any], optional: frozenset[str] = frozenset()) -> bool:
    """As after it. The ids of operations make every ledger another one, so its head says nothing."""
    names = [name for name in after if name not in ("head", "files")]
    return all(state[name] == after[name] for name in names) and _needed(state, optional) == _needed(after, optional)


def _needed(state: Mapping[str, Any], optional: frozenset[str]) -> dict[str, str]:
    return {path: digest for path, digest in state["files"].items() if path.rsplit("/", 1)[-1] not in optional}


def is_undone(state: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """As before; what a dead process had written anew may be in the trash besides, and the checkpoint that is made
    before something large is undertaken may stay."""
    kept = not Counter(before["trash"]) - Counter(state["trash"])
    more = set(state["checkpoints"]) - set(before["checkpoints"])
    safe = set(before["checkpoints"]) <= set(state["checkpoints"]) and all(name.startswith("before-") for name in more)
    others = (name for name in before if name not in ("trash", "checkpoints", "head"))
    return kept and safe and all(state[name] == before[name] for name in others)


def difference(state: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """In which parts two states differ, and in what."""
    return "; ".join(
        f"{name} {_only(state[name], other[name])} instead of {_only(other[name], state[name])}"
        for name in other
        if name != "head" and state[name] != other[name]
    )[:800]


def _only(one: Any, other: Any) -> list[str]:
    rest = [str(item) for item in (other.items() if isinstance(other, dict) else other)]
    items = [str(item) for item in (one.items() if isinstance(one, dict) else one)]
    return [item[:90] for item in items if item not in rest]
