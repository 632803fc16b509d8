"""The single entry point for the MCP server, the command line and Python callers.

A `Workspace` connects settings, store, files and embedder, and delegates each verb to `features/`.
Its methods are thread-safe and return the dataclasses of `answers`. `for_caller` returns a view of
the workspace for another caller.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar, cast

from spec_kit_memory import answers, features, filesystem, page_answers, requests
from spec_kit_memory import settings as settings_module
from spec_kit_memory.advice import Text, about_personal, advise, outcome
from spec_kit_memory.caller import Caller, process_caller
from spec_kit_memory.core.memory import PERSONAL_IDS, PROJECT_IDS, Actor, Presence
from spec_kit_memory.embed import Embedder
from spec_kit_memory.errors import (
    BadParameter,
    DatabaseBusy,
    DatabaseUnusable,
    FileMissing,
    MemoryNotFound,
    Outdated,
    SpecKitMemoryError,
)
from spec_kit_memory.features import personal
from spec_kit_memory.features.runtime import Meaning, Runtime
from spec_kit_memory.files import disk
from spec_kit_memory.files.disk import ensure_state_folder, refuse_links
from spec_kit_memory.files.file_errors import disk_error
from spec_kit_memory.files.paths import index_place, state_folder
from spec_kit_memory.index import open_index
from spec_kit_memory.index.contract import Index
from spec_kit_memory.parameters import Request, from_call, signature
from spec_kit_memory.settings import IndexPlace, Semantic, Settings, joined_projects
from spec_kit_memory.settings.own_folders import make_private_folder, personal_vault

if TYPE_CHECKING:
    from spec_kit_memory.features.background import Background
    from spec_kit_memory.files.scan import Sync

_TRIES = 5  # attempts while other callers keep changing the same memory

_Answer = TypeVar("_Answer")
_Request = TypeVar("_Request", bound=Request)
_Arguments = ParamSpec("_Arguments")


def utc_now() -> datetime:
    return datetime.now(UTC)


def _takes(
    kind: Callable[_Arguments, _Request],
) -> Callable[[Callable[[Workspace, _Request], _Answer]], Callable[Concatenate[Workspace, _Arguments], _Answer]]:
    """Decorator: the method takes the parameters of its request as arguments, and validates them."""
    request_type = cast("type[_Request]", kind)

    def wrap(
        verb: Callable[[Workspace, _Request], _Answer],
    ) -> Callable[Concatenate[Workspace, _Arguments], _Answer]:
        def call(self: Workspace, /, *values: _Arguments.args, **keywords: _Arguments.kwargs) -> _Answer:
            request = from_call(request_type, values, keywords)
            vault = self._vault(request)
            files = vault._with_files
            return vault._advised(lambda: vault._timed(lambda: files(lambda: verb(vault, request), request)))

        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(call, name, getattr(verb, name))
        call.__signature__ = signature(request_type, verb.__annotations__["return"])  # type: ignore[attr-defined]
        return call

    return wrap


def open_workspace(
    root: str | os.PathLike[str] | None = None,
    *,
    settings: Settings | None = None,
    actor: Actor = Actor.USER,
    now: Callable[[], datetime] = utc_now,
) -> Workspace:
    """Open the workspace whose root folder is `root`; without it the nearest one upwards from the working directory."""
    if root is not None and not isinstance(root, str | os.PathLike):
        raise BadParameter(f"open_workspace: root must be a text or a path, not {root!r}.", hint="Name a folder.")
    if settings is None:
        settings = settings_module.load(settings_module.find_root(workspace=Path(root) if root is not None else None))
    return Workspace(settings, actor=actor, now=now, personal=True)


def make_personal_vault() -> tuple[Path, tuple[str, ...]]:
    """Create the user's personal vault, accessible only to this user; returns its folder and the files created."""
    root = personal_vault()
    if root is None:
        raise FileMissing("this user has no home folder to keep personal memory in", hint="set HOME")
    try:
        make_private_folder(root)
    except OSError as error:
        raise disk_error(error, root) from error
    return root, make_workspace(root)


def _vault_settings(root: Path, of: Settings) -> Settings:
    """Settings for the personal vault: the project's `watch` and its model, if that runs locally; else defaults."""
    model = of.semantic.model if of.semantic.is_local else "local"
    return Settings(root=root, semantic=Semantic(model=model), watch=of.watch)


def make_workspace(root: Path) -> tuple[str, ...]:
    """Turn a folder into a workspace; returns the names of the files created in its state folder."""
    return disk.make_workspace(Settings(root=root), config=settings_module.starter_config())


def join_project(root: Path, name: str) -> Path:
    """Record that the workspace at `root` is a checkout of a project in a shared index; returns the file written."""
    return joined_projects.join(root.resolve(), name)


def joined_elsewhere(root: Path) -> tuple[Path, str] | None:
    """Another checkout of this project on this machine that uses a shared index, and the project's name in it."""
    from spec_kit_memory.files import git_history

    settings, _ = settings_module.load_with_problems(root)
    if settings.index.project:
        return None
    joined = {Path(folder): name for folder, name in settings.index.projects.items()}
    other = git_history.same_project(settings.root, joined)
    return None if other is None else (other, joined[other])


def write_lines(path: Path, lines: Iterable[str]) -> int:
    """Write lines to a file chosen by a person, atomically; returns their number."""
    return disk.write_lines(path, lines)


class FileCopies(Protocol):
    """Provides copies of a project's files, from the index, to verbs that change them."""

    def concerns(self, request: Request) -> bool: ...

    def with_local_copies(self, request: Request) -> AbstractContextManager[object]:
        """Inside the block, copies of the request's files exist locally and no other verb works on them."""
        ...


class _PersonalVault:
    """The user's own vault, opened when first needed; all views of a workspace share it."""

    def __init__(self) -> None:
        self.opening = threading.Lock()
        self.workspace: Workspace | None = None


class Workspace:
    """A project's memories. Use it as a context manager, or call `close`."""

    def __init__(
        self,
        settings: Settings,
        *,
        actor: Actor = Actor.USER,
        caller: Caller | None = None,
        now: Callable[[], datetime] = utc_now,
        store: Index | None = None,
        embedder: Embedder | None = None,
        personal: bool = False,
        copies: FileCopies | None = None,
    ) -> None:
        """`personal`: answers include the user's personal vault, if there is one. Must be false for any other user.

        `copies`: on a team server, provides local copies of the files that a verb works on.
        """
        self._is_personal = is_vault = settings.root == personal_vault()
        if is_vault:  # personal texts are never sent over the network
            semantic = settings.semantic if settings.semantic.is_local else Semantic()
            settings = replace(settings, semantic=semantic, index=IndexPlace())
        self.settings = settings
        self._personal = _PersonalVault()
        self._copies = copies
        self._now = now
        refuse_links(settings)
        if _has_leftovers(settings, "past"):
            from spec_kit_memory.files import past_folder

            past_folder.sweep(settings)
        if settings.on_server:  # even then, locks and pending saves are local files
            ensure_state_folder(settings)
        # Even a damaged index is opened, so that it can be rebuilt; until then every verb reports the damage.
        place, project = index_place(settings), settings.index_project
        checkout = settings.index_checkout
        whole = store or open_index(
            place,
            project=project,
            checkout=checkout,
            damaged_ok=True,
            ids=PERSONAL_IDS if is_vault else PROJECT_IDS,
            memory_mb=settings.index.memory_mb,
        )
        self._runtime = Runtime(
            settings,
            whole=whole,
            make_sync=lambda: _sync(whole, settings, now),
            meaning=Meaning(settings, now=now, embedder=embedder),
            now=now,
            caller=replace(caller or process_caller(settings, actor=actor), personal=personal and not is_vault),
        )
        self._is_view = False
        self._closed = False
        # Access counts are written even if the caller forgets to close.
        atexit.register(self.close)
        if _has_leftovers(settings, "pending"):
            with whole.hurried():  # anything that cannot be indexed now is indexed by the next scan
                self._runtime.sync.recover()

    # --- lifecycle

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def for_caller(self, caller: Caller) -> Workspace:
        """A view of this workspace for another caller: with that caller's scope, and acting in its name.

        It shares index, embedder and background with this workspace, so it is cheap and need not be closed.
        """
        if not isinstance(caller, Caller):
            raise BadParameter(f"for_caller: caller must be a Caller, not {caller!r}.", hint="Make one: Caller().")
        view = copy(self)
        view._runtime = self._runtime.for_caller(caller)
        view._is_view = True
        return view

    def _vault(self, request: object) -> Workspace:
        """The workspace that a request refers to: this one, or the user's personal vault."""
        if not isinstance(request, Request) or not personal.names_personal(request) or self._is_personal:
            return self
        if self._runtime.is_team:  # there, personal memories are a namespace of the same index
            return self
        vault = self.personal
        if vault is None and getattr(request, "vault", None) == personal.PERSONAL:
            raise FileMissing("there is no personal memory here", hint=advise("make-personal"))
        return vault or self  # this workspace then reports that the id does not exist

    @property
    def personal(self) -> Workspace | None:
        """The user's personal vault; None if there is none, over HTTP, and for callers with a limited scope."""
        if not self.caller.personal or self._runtime.isolated:
            return None
        with self._personal.opening:
            if self._personal.workspace is None:
                root = personal_vault()
                if root is None or not (root / settings_module.STATE_FOLDER).is_dir():
                    return None
                settings = _vault_settings(root, self.settings)
                self._personal.workspace = Workspace(settings, actor=self.caller.actor, now=self._now)
            return self._personal.workspace

    @property
    def caller(self) -> Caller:
        return self._runtime.caller

    @property
    def _background(self) -> Background | None:
        return self._runtime.shared.background

    def close(self) -> None:
        """Write pending counts and close the index. On a view for another caller this does nothing."""
        if self._closed or self._is_view:
            return
        self._closed = True
        atexit.unregister(self.close)
        if self._personal.workspace:
            self._personal.workspace.close()
        if self._background:
            self._background.stop()
        self._runtime.flush()
        if self._runtime.shared.past:
            self._runtime.shared.past.close()
        self._runtime.whole.close()

    def start_background(self, report: Callable[[answers.WatchAnswer], None] | None = None) -> None:
        """Scan, embed and watch in the background; a server calls this after it has started.

        `report` is called for everything that is done, from background threads.
        """
        from spec_kit_memory.features.background import Background

        if self._background is None:
            background = Background(self._runtime, report=report)
            self._runtime.shared.background = background
            background.start()
        if self.personal:
            self.personal.start_background()

    # --- find and read

    @_takes(requests.SearchRequest)
    def search(self, request: requests.SearchRequest) -> answers.SearchAnswer:
        """The memories that answer a question, best first, within a token budget."""
        find = features.search_answer.search
        if request.as_of:
            find = features.past.search
        if self.personal is None:
            return find(self._runtime, request)
        budget = request.max_tokens or self.settings.search.max_tokens
        personal_request = personal.share(request, budget)
        if request.as_of:
            personal_request = personal_request.replace(as_of=features.past.moment(self._runtime, request.as_of))
        own = find(self.personal._runtime, personal_request)
        if not personal.answers(own) and not own.constitutional:
            return find(self._runtime, request)
        rest = request.replace(max_tokens=max(100, budget - (personal_request.max_tokens or 0)))
        answer = find(self._runtime, rest)
        return personal.joined_search(answer, own, limit=request.limit)

    @_takes(requests.LoadRequest)
    def load(self, request: requests.LoadRequest) -> answers.LoadAnswer:
        """One memory's text or section; the newest of a spec folder without an id."""
        return features.read.load(self._runtime, request)

    @_takes(requests.GetRequest)
    def get(self, request: requests.GetRequest) -> answers.GetAnswer:
        """The given lines of a memory."""
        return features.read.get(self._runtime, request)

    @_takes(requests.ListRequest)
    def list(self, request: requests.ListRequest) -> answers.ListAnswer:
        """Memories, newest first unless `sort_by` is given; with `forgotten`, those that were deleted on request."""
        return features.read.list_(self._runtime, request, personal=self.personal._runtime if self.personal else None)

    # --- indexing

    @_takes(requests.IndexRequest)
    def index(self, request: requests.IndexRequest) -> answers.IndexAnswer:
        """Update the index from the files."""
        return features.index_workspace.index(self._runtime, request)

    # --- sessions

    @_takes(requests.TriggersRequest)
    def triggers(self, request: requests.TriggersRequest) -> answers.TriggerAnswer:
        """The memories whose phrases occur in a prompt; it never needs vectors."""
        answer = features.sessions.triggers(self._runtime, request)
        if self.personal is None:
            return answer
        own = features.sessions.triggers(self.personal._runtime, request)
        return personal.joined_triggers(answer, own, limit=request.limit)

    @_takes(requests.ContextRequest)
    def context(self, request: requests.ContextRequest) -> answers.ContextAnswer:
        """Everything that an agent needs when it starts or resumes, in one call."""
        if self.personal is None:
            return features.context.context(self._runtime, request)
        personal_request = request.replace(
            max_tokens=max(100, request.max_tokens // personal.SHARE_DIVISOR), spec_folder=None
        )
        own = features.context.context(self.personal._runtime, personal_request)
        answer = features.context.context(self._runtime, request)
        return personal.joined_context(answer, own, max_tokens=request.max_tokens)

    @_takes(requests.SessionRequest)
    def session(self, request: requests.SessionRequest) -> answers.SessionAnswer:
        """What a session attends to; pass `anew` after its host compacted, cleared or resumed it."""
        return features.sessions.session(self._runtime, request)

    # --- saving and changing

    @_takes(requests.SaveRequest)
    def save(self, request: requests.SaveRequest) -> answers.SaveAnswer:
        """Remember a session, one fact, or an existing file. Only `by_person` may save a rule."""
        return features.save.save(self._runtime, request)

    @_takes(requests.UpdateRequest)
    def update(self, request: requests.UpdateRequest) -> answers.UpdateAnswer:
        """Change a memory's metadata; in its file, if it has one."""
        return features.amend.update(self._runtime, request)

    @_takes(requests.MergeRequest)
    def merge(self, request: requests.MergeRequest) -> answers.MergeAnswer:
        """Merge two memories: content that only the other one has is added to `into`, which is kept."""
        return features.merge.merge(self._runtime, request)

    @_takes(requests.DeleteRequest)
    def delete(self, request: requests.DeleteRequest) -> answers.DeleteAnswer:
        """Forget a memory, or all of a spec folder; files stay unless `delete_file`."""
        return features.amend.delete(self._runtime, request)

    @_takes(requests.ValidateRequest)
    def validate(self, request: requests.ValidateRequest) -> answers.ValidateAnswer:
        """Record that a memory was useful or not, or that it is outdated."""
        return features.validate.validate(self._runtime, request)

    @_takes(requests.TrustRequest)
    def trust(self, request: requests.TrustRequest) -> answers.UpdateAnswer:
        """Approve a memory of a chat or custom source; only for calls by a person."""
        return features.amend.trust(self._runtime, request)

    @_takes(requests.UndoRequest)
    def undo(self, request: requests.UndoRequest) -> answers.UndoAnswer:
        """Undo the last delete, update, merge or restore."""
        return features.undo.undo(self._runtime, request)

    # --- links

    @_takes(requests.LinkRequest)
    def link(self, request: requests.LinkRequest) -> answers.LinkAnswer:
        """Record how one memory relates to another."""
        return features.why.link(self._runtime, request)

    @_takes(requests.UnlinkRequest)
    def unlink(self, request: requests.UnlinkRequest) -> answers.LinkAnswer:
        return features.why.unlink(self._runtime, request)

    @_takes(requests.WhyRequest)
    def why(self, request: requests.WhyRequest) -> answers.WhyAnswer:
        """The causes and consequences of a memory."""
        return features.why.why(self._runtime, request)

    # --- checkpoints

    @_takes(requests.CheckpointCreateRequest)
    def checkpoint_create(self, request: requests.CheckpointCreateRequest) -> answers.CheckpointAnswer:
        """A named snapshot of everything, or of one spec folder."""
        return features.checkpoints.create(self._runtime, request)

    @_takes(requests.CheckpointListRequest)
    def checkpoint_list(self, request: requests.CheckpointListRequest) -> answers.CheckpointListAnswer:
        return features.checkpoints.list_(self._runtime, request)

    @_takes(requests.CheckpointDiffRequest)
    def checkpoint_diff(self, request: requests.CheckpointDiffRequest) -> answers.CheckpointDiffAnswer:
        """What changed since a checkpoint."""
        return features.checkpoints.diff(self._runtime, request)

    @_takes(requests.CheckpointRestoreRequest)
    def checkpoint_restore(self, request: requests.CheckpointRestoreRequest) -> answers.CheckpointAnswer:
        """Restore a checkpoint, completely or not at all."""
        return features.checkpoints.restore(self._runtime, request)

    @_takes(requests.CheckpointDeleteRequest)
    def checkpoint_delete(self, request: requests.CheckpointDeleteRequest) -> answers.CheckpointAnswer:
        return features.checkpoints.delete(self._runtime, request)

    # --- record

    @_takes(requests.HistoryRequest)
    def history(self, request: requests.HistoryRequest) -> answers.HistoryAnswer:
        """What happened to a memory, a spec folder or the workspace, newest first."""
        return features.history.history(self._runtime, request)

    @_takes(requests.LedgerVerifyRequest)
    def ledger_verify(self, request: requests.LedgerVerifyRequest) -> answers.LedgerAnswer:
        """Check every link of the chain."""
        return features.history.ledger_verify(self._runtime, request)

    @_takes(requests.LedgerHeadRequest)
    def ledger_head(self, request: requests.LedgerHeadRequest) -> answers.LedgerAnswer:
        return features.history.ledger_head(self._runtime)

    @_takes(requests.LedgerExportRequest)
    def ledger_export(self, request: requests.LedgerExportRequest) -> Iterator[str]:
        """Every entry as a line of JSON."""
        return features.history.ledger_export(self._runtime)

    # --- chat and import

    @_takes(requests.ChatImportRequest)
    def chat_import(self, request: requests.ChatImportRequest) -> answers.ChatAnswer:
        """Remember conversations from transcripts; one that grew is updated."""
        return features.chats.import_(self._runtime, [Path(path) for path in request.paths])

    @_takes(requests.ChatListRequest)
    def chat_list(self, request: requests.ChatListRequest) -> answers.ListAnswer:
        return features.chats.list_(self._runtime)

    @_takes(requests.ChatForgetRequest)
    def chat_forget(self, request: requests.ChatForgetRequest) -> answers.DeleteAnswer:
        return features.chats.forget(self._runtime, request.conversation)

    @_takes(requests.ImportOriginalRequest)
    def import_original(self, request: requests.ImportOriginalRequest) -> answers.ImportAnswer:
        """Import access counts, validations, links and history from the original system's database."""
        return features.import_original.import_(self._runtime, Path(request.path))

    # --- maintenance

    @_takes(requests.StatsRequest)
    def stats(self, request: requests.StatsRequest) -> answers.StatsAnswer:
        """Statistics of the index."""
        return features.health.stats(self._runtime, request)

    @_takes(requests.HealthRequest)
    def health(self, request: requests.HealthRequest) -> answers.HealthAnswer:
        """What is wrong, and with `repair` what was repaired. `full` may take long for a large index."""
        return features.health.health(self._runtime, request)

    # --- for the web page

    @_takes(requests.RecordSentRequest)
    def record_sent(self, request: requests.RecordSentRequest) -> answers.Answer:
        """Count an answer that was sent to a session."""
        self._runtime.sent(request.answered, request.tokens)
        return answers.Answer(outcome=outcome("sending-recorded"))

    @_takes(requests.ExamineRequest)
    def examine(self, request: requests.ExamineRequest) -> page_answers.ExamineAnswer:
        """One memory with everything that is known about it."""
        return features.examine.examine(self._runtime, request)

    @_takes(requests.VersionsRequest)
    def versions(self, request: requests.VersionsRequest) -> page_answers.VersionsAnswer:
        """The versions of a memory, and two of them compared."""
        return features.examine.versions(self._runtime, request)

    @_takes(requests.CareRequest)
    def care(self, request: requests.CareRequest) -> page_answers.CareAnswer:
        """The findings that need a person's decision."""
        return features.care.care(self._runtime, request)

    @_takes(requests.KeepRequest)
    def keep(self, request: requests.KeepRequest) -> page_answers.KeepAnswer:
        """Set aside a finding of `care`."""
        return features.care.keep(self._runtime, request)

    @_takes(requests.ChangesRequest)
    def changes(self, request: requests.ChangesRequest) -> answers.ChangesAnswer:
        """The changes that `undo` can take back, newest first."""
        return features.undo.changes(self._runtime, request)

    @_takes(requests.FacetsRequest)
    def facets(self, request: requests.FacetsRequest) -> page_answers.FacetsAnswer:
        """Counts of everything that a search finds, by tier, state, source, type and folder."""
        return features.numbers.facets(self._runtime, request)

    @_takes(requests.FoldersRequest)
    def folders(self, request: requests.FoldersRequest) -> page_answers.FoldersAnswer:
        """Spec folders, and what is in one of them."""
        return features.folder_overview.folders(self._runtime, request)

    @_takes(requests.NumbersRequest)
    def numbers(self, request: requests.NumbersRequest) -> page_answers.NumbersAnswer:
        """Statistics of memories and tokens, of decay, and of use by day."""
        return features.numbers.numbers(self._runtime, request)

    def _advised(self, verb: Callable[[], _Answer]) -> _Answer:
        """Run a verb; in the personal vault, the advice in its answer or error is marked as about that vault."""
        if not self._is_personal:
            return verb()
        try:
            return about_personal(verb())
        except SpecKitMemoryError as error:
            error.advice = about_personal(error.advice)
            raise

    def _with_files(self, verb: Callable[[], _Answer], request: Request) -> _Answer:
        """Run a verb; on a team server with copies of its files, again if another caller changed them meanwhile."""
        if self._copies is None or not self._copies.concerns(request):
            return verb()
        for _ in range(_TRIES - 1):
            with suppress(Outdated), self._copies.with_local_copies(request):
                return verb()
        with self._copies.with_local_copies(request):
            return verb()

    def _timed(self, verb: Callable[[], _Answer]) -> _Answer:
        started, asked_at = time.perf_counter(), time.monotonic()
        if self._background:
            self._background.settle()
        try:
            answer = verb()
            if _is_empty(answer) or isinstance(answer, _COMPLETE):
                self._runtime.whole.require_sound(quick=not _is_empty(answer))
        except MemoryNotFound as error:
            self._runtime.whole.require_sound()
            failure = self._with_present_location(error)
            if failure is error:
                raise
            raise failure from error
        except _UNEXPECTED as error:  # either a damaged row or a bug of ours
            self._runtime.whole.require_valid_values()
            raise error
        except OSError as error:  # a disk error that was not handled elsewhere
            raise disk_error(error, error.filename or self.settings.root) from error
        if not isinstance(answer, answers.Answer):
            return answer
        meta = replace(
            answer.meta,
            latency_ms=round((time.perf_counter() - started) * 1000, 3),
            index_generation=self._generation(asked_at),
        )
        first = (self._unread,) if self._unread else ()
        return replace(answer, meta=meta, advice=(*first, *answer.advice))

    def _with_present_location(self, error: MemoryNotFound) -> MemoryNotFound:
        """The error for a missing memory: says that it was deleted, or which memory it was merged into, or that its
        file is gone, or that files are still unread."""
        missing = error.details.get("memoryId")
        heir = features.merge.merged_into(self._runtime, missing) if isinstance(missing, int) else None
        if heir is not None:
            return MemoryNotFound(
                f"memory {missing} was merged into memory {heir.id} ({heir.title})",
                hint=advise("read-merged", id=heir.id),
                memoryId=missing,
                mergedInto=heir.id,
            )
        former = features.merge.former(self._runtime, missing) if isinstance(missing, int) else None
        if former is not None and former.presence is Presence.FORGOTTEN:
            return MemoryNotFound(f"memory {missing} was deleted", hint=self._runtime.bring_back, memoryId=missing)
        if former is not None and not self._unread:
            return MemoryNotFound(
                f"the file of memory {missing}, {former.path}, is gone",
                hint=advise("file-brings-back", id=former.id),
                memoryId=missing,
            )
        if self._unread:
            return MemoryNotFound(error.message, hint=(self._unread, *error.advice), **error.details)
        return error

    def _generation(self, asked_at: float) -> int:
        """The index generation, or 0 if it cannot be read: that must not make a completed verb fail."""
        try:
            return self._runtime.store.generation(since=asked_at)
        except (DatabaseBusy, DatabaseUnusable):
            return 0

    @property
    def _unread(self) -> Text:
        return self._background.unread if self._background else ""


_UNEXPECTED = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)
# Answers that contain totals.
_COMPLETE = (answers.ListAnswer, answers.StatsAnswer, answers.HistoryAnswer)


def _is_empty(answer: object) -> bool:
    """Is the answer empty? Then it must be checked that the index is not just damaged."""
    return any(getattr(answer, name, None) == () for name in ("results", "memories", "entries"))


def _sync(whole: Index, settings: Settings, now: Callable[[], datetime]) -> Sync:
    from spec_kit_memory.files.scan import Sync

    return Sync(whole, settings, now=now)


def _has_leftovers(settings: Settings, name: str) -> bool:
    """Has a process that may have died left something here? Checked without imports, since hooks must start fast."""
    try:
        return bool(filesystem.names(state_folder(settings, name)))
    except OSError:
        return False
