"""Which parts of a workspace does a verb use, for which caller? `Workspace` makes a `Runtime` for each caller.

Two handles on one store: `store` sees what the caller may see and serves every verb;
`whole` sees the workspace and serves only what keeps the index in step with the files.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from spec_kit_memory.advice import Advice, Text, advise, finding
from spec_kit_memory.answers import Card
from spec_kit_memory.caller import Caller
from spec_kit_memory.core import decay, tokens, usage
from spec_kit_memory.core.folders import near_folders
from spec_kit_memory.core.long_lines import LineLayout
from spec_kit_memory.core.memory import (
    Change,
    Document,
    Filter,
    Link,
    Memory,
    Presence,
    Relation,
    Scope,
    State,
    Tier,
    owner_of,
)
from spec_kit_memory.core.triggers import Matcher
from spec_kit_memory.embed import Embedder, QueryEmbedding, open_embedder
from spec_kit_memory.embed.guarded import Guarded
from spec_kit_memory.errors import (
    AccessDenied,
    DatabaseBusy,
    DatabaseCorrupt,
    DatabaseUnusable,
    EmbeddingFailed,
    MemoryNotFound,
    ProviderUnavailable,
    SpecKitMemoryError,
)
from spec_kit_memory.features import worker
from spec_kit_memory.index.contract import Index
from spec_kit_memory.settings import Settings

if TYPE_CHECKING:
    from concurrent.futures import Future

    from spec_kit_memory.answers import ChangesAnswer, SearchAnswer
    from spec_kit_memory.core.alignment import Profile
    from spec_kit_memory.core.operation import Operation
    from spec_kit_memory.features.background import Background
    from spec_kit_memory.files.cited_code import CodeFiles
    from spec_kit_memory.files.scan import Sync
    from spec_kit_memory.page_answers import FolderRow, NumbersAnswer

logger = logging.getLogger(__name__)

# After a failure the provider is not called for this long; searches use text only meanwhile.
RETRY_SECONDS = 30.0
MAIN_CHECKOUT = "main"  # `checkout` of results that come from the main checkout of a worktree
# A provider has its own deadline. This one also covers what that cannot limit: a model that is slow to load, headers
# that arrive a byte at a time.
PATIENCE_SECONDS = 10
# The number of scopes whose phrases, rules and answers are cached.
MOST_VIEWS = 64


class Past(Protocol):
    def close(self) -> None: ...


class Meaning:
    """The embedder, opened at first use, and the reason why it cannot be used, if any."""

    def __init__(self, settings: Settings, *, now: Callable[[], datetime], embedder: Embedder | None = None) -> None:
        self._settings = settings
        self._now = now
        self._lock = threading.Lock()
        self._embedder: Guarded | None = None if embedder is None else Guarded(embedder)
        self._opened = embedder is not None
        self._failed_at: datetime | None = None
        self._stuck: list[Future[list[QueryEmbedding]]] = []
        self.problem: Text = ""
        self.advice: Text = ""  # the next step, from the hint of that problem

    @property
    def wanted(self) -> bool:
        return self._settings.semantic.enabled and self._settings.semantic.model != "none"

    @property
    def down(self) -> bool:
        """Did it fail within the last `RETRY_SECONDS`? A clock that is set back must not extend that pause."""
        if self._failed_at is None:
            return False
        return 0 <= (self._now() - self._failed_at).total_seconds() < RETRY_SECONDS

    def embedder(self) -> Guarded | None:
        with self._lock:
            if not self._opened:
                opened = open_embedder(self._settings.semantic)
                self._embedder = None if opened is None else Guarded(opened)
                self._opened = True
            return self._embedder

    def begin(self, texts: Sequence[str]) -> Future[list[QueryEmbedding]] | None:
        """Embed texts on another thread; None while earlier calls are stuck, as threads must not pile up."""
        with self._lock:
            self._stuck = [future for future in self._stuck if not future.done()]
            if self._stuck:
                return None
        from concurrent.futures import Future  # imported here, as a hook that only matches triggers embeds nothing

        future: Future[list[QueryEmbedding]] = Future()

        def run() -> None:
            try:
                future.set_result(self.queries(texts))
            except BaseException as error:  # a bug: stored here, raised where the result is read
                future.set_exception(error)
                raise

        worker.start(run)
        return future

    def end(self, future: Future[list[QueryEmbedding]]) -> list[QueryEmbedding]:
        try:
            return future.result(timeout=PATIENCE_SECONDS)
        except TimeoutError:
            with self._lock:
                self._stuck.append(future)
            self.failed(
                ProviderUnavailable(
                    f"the query was not embedded within {PATIENCE_SECONDS} seconds",
                    hint="search works by text meanwhile",
                )
            )
            return []

    def queries(self, texts: Sequence[str]) -> list[QueryEmbedding]:
        """The vectors of these texts; none on failure, with the reason in `problem`."""
        if not self.wanted:
            self.problem = finding("semantic-search-off")
            return []
        if self.down:
            return []
        try:
            embedder = self.embedder()
            embeddings = embedder.embed_queries(texts) if embedder else []
        except SpecKitMemoryError as error:
            self.failed(error)
            return []
        self.worked()
        return embeddings

    def worked(self) -> None:
        self._failed_at, self.problem, self.advice = None, "", ""

    def failed(self, error: SpecKitMemoryError) -> None:
        self._failed_at = self._now()
        # To a question any failure means that meaning is unavailable; the scan reports it by the same code.
        code = ProviderUnavailable.code if isinstance(error, EmbeddingFailed) else error.code
        self.problem, self.advice = f"{code} {error.message}", next(iter(error.advice), "")

    def check(self) -> Text:
        """Try to embed; returns why it fails, or "" if it works or is switched off."""
        if not self.wanted:
            return ""
        future = None if self.down else self.begin(["probe"])
        return "" if future and self.end(future) else self.problem or finding("embedding-earlier-question")


class OpenedText:
    """A memory's text as it was indexed; its structure is computed on first use.

    Not with cached properties: before Python 3.12 all objects of a class share one lock, and a fork may inherit it
    locked.
    """

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.characters = len(text)
        self._offsets: list[int] | None = None
        self._outline: Document | None = None
        self._layout: LineLayout | None = None

    @property
    def text(self) -> str:
        """Joined when it is needed: kept beside its lines, it would take more than half of the room."""
        return "\n".join(self.lines)

    @property
    def layout(self) -> LineLayout:
        """The lines as an answer may show them: very long ones in parts."""
        if self._layout is None:
            self._layout = LineLayout(self.lines)
        return self._layout

    @property
    def offsets(self) -> list[int]:
        """The size in an answer of all lines before each line."""
        if self._offsets is None:
            self._offsets = tokens.offsets("\n".join(self.layout.lines))
        return self._offsets

    @property
    def outline(self) -> Document:
        if self._outline is None:
            from spec_kit_memory.core import markdown

            self._outline = markdown.outline(self.text)
        return self._outline


class Shelf:
    """A cache of recently shown texts, by content hash, so that no entry can be stale."""

    MOST_CHARACTERS = 8_000_000

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened_texts: dict[str, OpenedText] = {}
        self._characters = 0

    def missing(self, content_hashes: Iterable[str]) -> list[str]:
        with self._lock:
            return [hash_ for hash_ in dict.fromkeys(content_hashes) if hash_ not in self._opened_texts]

    def get(self, content_hash: str, read: Callable[[], str]) -> OpenedText:
        with self._lock:
            cached = self._opened_texts.pop(content_hash, None)
            if cached is not None:
                self._opened_texts[content_hash] = cached  # the most recently used entry is evicted last
                return cached
        return self.put(content_hash, read())

    def put(self, content_hash: str, text: str) -> OpenedText:
        opened = OpenedText(text)
        with self._lock:
            if self._opened_texts.setdefault(content_hash, opened) is opened:
                self._characters += opened.characters
            while self._characters > self.MOST_CHARACTERS and len(self._opened_texts) > 1:
                self._characters -= self._opened_texts.pop(next(iter(self._opened_texts))).characters
        return opened


class SearchCache:
    """A cache of answers to repeated questions, cleared when any memory changes."""

    SIZE = 256

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._generation = -1
        self._answers: dict[Any, SearchAnswer] = {}

    def get(self, key: Any, generation: int) -> SearchAnswer | None:
        with self._lock:
            return self._answers.get(key) if generation == self._generation else None

    def put(self, key: Any, generation: int, answer: SearchAnswer) -> None:
        with self._lock:
            if generation != self._generation:
                self._generation, self._answers = generation, {}
            elif len(self._answers) >= self.SIZE:
                del self._answers[next(iter(self._answers))]
            self._answers[key] = answer


@dataclass(slots=True)
class FolderOverview:
    """The cache of `features.folder_overview`: all rows with their generation, and descriptions by content hash."""

    rows: tuple[int, tuple[FolderRow, ...]] | None = None
    abouts: dict[str, str] = field(default_factory=dict)


class ScopeView:
    """State that depends on what a scope may see, shared by the callers of that scope."""

    def __init__(self, store: Index, scope: Scope) -> None:
        self.scope = scope
        self.store = store
        self.answers = SearchCache()
        # The rules that were sent, by connection; see `sessions.rules_sent_to`.
        self.rules_sent: dict[str, frozenset[str]] = {}
        # The profiles of spec folders by name, with the state of the folder when it was read.
        self.profiles: dict[str, tuple[object, Profile]] = {}
        # The comparisons so far for near-duplicates; see `near_duplicates.comparison`.
        self.comparison: object | None = None
        self.folders = FolderOverview()
        self.numbers: tuple[object, NumbersAnswer] | None = None  # see `features.numbers`
        self.changes: tuple[object, ChangesAnswer] | None = None  # see `features.undo`
        self.sync: Sync | None = None
        self._matcher: tuple[int, Matcher] | None = None
        self._rules: tuple[int, list[Memory]] | None = None
        self._links: tuple[int, dict[int, list[Link]]] | None = None  # by memory, for those already read

    def matcher(self, generation: int) -> Matcher:
        """All trigger phrases of the scope; cached until a memory changes."""
        if self._matcher is None or self._matcher[0] != generation:
            self._matcher = (generation, Matcher(self.store.documents.triggers()))
        return self._matcher[1]

    def links_beside(self, generation: int, memory_ids: Collection[int]) -> list[Link]:
        """The links by which any of these memories supersedes or contradicts another, or is superseded or
        contradicted."""
        kept = self._links
        if kept is None or kept[0] != generation:
            kept = self._links = (generation, {})
        of_memory = kept[1]
        unread = [id_ for id_ in memory_ids if id_ not in of_memory]
        if unread:
            kinds = (Relation.SUPERSEDES, Relation.CONTRADICTS)
            read: dict[int, list[Link]] = {id_: [] for id_ in unread}
            for link in self.store.record.links(unread, relations=kinds):
                for end in {link.source_id, link.target_id}.intersection(read):
                    read[end].append(link)
            of_memory |= read
        links = {link.id: link for id_ in memory_ids for link in of_memory[id_]}
        return [links[id_] for id_ in sorted(links)]

    def rules(self, generation: int) -> list[Memory]:
        """The constitutional memories of the scope; their use counts may be out of date."""
        if self._rules is None or self._rules[0] != generation:
            self._rules = (generation, self.store.documents.find(Filter(tiers=frozenset({Tier.CONSTITUTIONAL}))))
        return self._rules[1]


class SharedParts:
    """The parts that all callers of a workspace share, each made at first use."""

    def __init__(self, whole: Index, make_sync: Callable[[], Sync]) -> None:
        self.whole = whole
        self.accesses = usage.Accumulator()
        self.shelf = Shelf()
        self.background: Background | None = None
        # The indexes rebuilt for searches as of earlier moments; `Workspace.close` closes them.
        self.past: Past | None = None
        self._make_sync = make_sync
        self._sync: Sync | None = None
        self._code_files: CodeFiles | None = None
        self._making = threading.Lock()
        self._views: dict[Scope, ScopeView] = {}
        self._viewing = threading.Lock()

    def view(self, scope: Scope) -> ScopeView:
        with self._viewing:
            view = self._views.pop(scope, None) or ScopeView(self.whole.within(scope), scope)
            self._views[scope] = view  # the most recently used entry is evicted last
            if len(self._views) > MOST_VIEWS:
                del self._views[next(iter(self._views))]
            return view

    def code_files(self, settings: Settings) -> CodeFiles:
        """The present state of the project files that memories cite."""
        if self._code_files is None:
            from spec_kit_memory.files.cited_code import CodeFiles

            self._code_files = CodeFiles(settings)
        return self._code_files

    def sync(self, view: ScopeView) -> Sync:
        with self._making:
            if self._sync is None:
                self._sync = self._make_sync()
            if view.sync is None:
                view.sync = self._sync.within(view.scope)
            return view.sync


class Runtime:
    """The parts of a workspace as one caller sees them. Making one for another caller is a dictionary lookup."""

    def __init__(
        self,
        settings: Settings,
        *,
        whole: Index,
        make_sync: Callable[[], Sync],
        meaning: Meaning,
        now: Callable[[], datetime],
        caller: Caller,
    ) -> None:
        self.settings = settings
        self.whole = whole
        self.meaning = meaning
        self.now = now
        self.shared = SharedParts(whole, make_sync)
        self._serve(caller)

    def _serve(self, caller: Caller) -> None:
        self.caller = caller
        self.scope = caller.scope
        self.view = self.shared.view(caller.scope)
        self.store = self.view.store

    def for_caller(self, caller: Caller) -> Runtime:
        other = copy(self)
        other._serve(caller)
        return other

    @property
    def sync(self) -> Sync:
        """Created at first use, so that a hook that only reads never loads the modules that index."""
        return self.view.sync or self.shared.sync(self.view)

    @property
    def isolated(self) -> bool:
        """Does this caller see only a part of the workspace? Then it does not get figures about the whole either."""
        return self.scope != Scope()

    @property
    def accepts(self) -> bool:
        """True on a team server in git: there are no files here, and changes to files are accepted in the index."""
        return self.whole.outbox is not None

    @property
    def is_team(self) -> bool:
        """True for a project of a team server, in git or in a plain folder: what its people save belongs to the project
        unless it is marked as personal."""
        return self.accepts or self.settings.is_served

    def has_file(self, path: str) -> bool:
        """Should there be a file here for a memory of that path? Personal memories on a team server are only in the
        index, wherever the project's files are."""
        return not self.accepts and not (self.is_team and owner_of(path))

    @property
    def take_back(self) -> Advice:
        """Advice on how to undo a change here."""
        return advise("take-back-on-page") if self.is_team else advise("take-back")

    @property
    def bring_back(self) -> Advice:
        """Advice on how to bring a deleted memory back."""
        return advise("bring-back-on-page") if self.is_team else advise("bring-back")

    def folder_suggestions(self, name: str) -> Advice:
        """Advice on an empty or unknown spec folder: the names that were probably meant."""
        names = {tally.spec_folder for tally in self.store.documents.tally() if tally.spec_folder}
        near = near_folders(name, names)
        return advise("near-folders", names=tuple(near)) if near else advise("list-folders")

    def nothing_yet(self) -> Advice:
        """Advice where there is no memory at all."""
        forgotten = self.store.documents.count(presence=Presence.FORGOTTEN)
        return advise("all-forgotten", count=forgotten) if forgotten else advise("first-memory")

    def embed_soon(self) -> None:
        """Wake the background thread that embeds, if there is one."""
        if self.shared.background:
            self.shared.background.wake()

    def doing(self) -> Advice | None:
        """The background work in progress, if any."""
        return self.shared.background.doing() if self.shared.background else None

    def matcher(self) -> Matcher:
        return self.view.matcher(self.whole.generation())

    def rules(self) -> list[Memory]:
        return self.view.rules(self.whole.generation())

    def opened(self, memory: Memory) -> OpenedText:
        return self.shared.shelf.get(memory.content_hash, lambda: self._text(memory))

    def opened_together(self, memories: Sequence[Memory]) -> dict[int, OpenedText]:
        """The opened texts by memory id; those that are not cached are read with one query."""
        missing = self.shared.shelf.missing(memory.content_hash for memory in memories)
        for content_hash, text in self.store.documents.text(content_hashes=missing).items() if len(missing) > 1 else ():
            self.shared.shelf.put(content_hash, text)
        return {memory.id: self.opened(memory) for memory in memories}

    def _text(self, memory: Memory) -> str:
        """The text as it was when the memory was read: the file may have changed since."""
        text = self.store.documents.text(content_hash=memory.content_hash)
        return self.store.documents.text(memory.id) if text is None else text

    def require_right_to_rule(self, tiers: Iterable[tuple[object, str]]) -> None:
        """Raise if one of these tiers, each with the path of its memory, makes a rule for all users, and the caller may
        not make, change or remove rules."""
        is_ruled = any(tier == Tier.CONSTITUTIONAL and owner_of(path) is None for tier, path in tiers)
        if is_ruled and not self.caller.rules_others:
            raise AccessDenied(
                "A rule stands above everybody's answers: only an admin makes, changes or removes one.",
                hint="ask an admin of the project; nothing was changed",
            )

    def change(self, reason: str, operation: Operation | None = None, *, session: str | None = None) -> Change:
        """The author and time of a change made now; `reason` is for people, `operation` for undo and recovery."""
        return Change(
            actor=self.caller.actor,
            at=self.now(),
            session=session or self.caller.session,
            reason=reason,
            operation=operation,
            user=self.caller.user,
        )

    def read_again(self, expected: Memory) -> Memory:
        """A memory after it was changed, or `expected` if it cannot be read or was deleted meanwhile: the change is
        done, and must not look refused."""
        try:
            return self.store.documents.get(expected.id)
        except (DatabaseBusy, DatabaseUnusable, DatabaseCorrupt, MemoryNotFound):
            return expected

    def used(self, memory_ids: Iterable[int]) -> None:
        """Count a use of each memory; counts are written in batches."""
        if self.caller.observer:
            return
        now = self.now()
        due: dict[int, float] = {}
        for memory_id in memory_ids:
            due |= self.shared.accesses.add(memory_id, at=now)
        self._count(due, now)

    def flush(self) -> None:
        """Write the counted uses that are not written yet."""
        self._count(self.shared.accesses.drain(), self.now())

    def _count(self, due: Mapping[int, float], now: datetime) -> None:
        """Write uses; a failure is logged and never fails the read that was counted."""
        if not due:
            return
        from spec_kit_memory.files import activity  # imported here, as most hooks count nothing

        try:
            self.whole.record.use(due, now)  # `due` may include uses by callers of other scopes
            uses = (activity.DayTally(now.date(), activity.USE, str(id_), count) for id_, count in due.items())
            activity.add(self.settings, uses, now=now)
        except (DatabaseBusy, DatabaseCorrupt, DatabaseUnusable) as error:
            logger.info("use is counted later: %s %s", error.code, error.message)
            self.shared.accesses.put_back(due, at=now)

    def sent(self, verb: str, tokens: int) -> None:
        """Record that a session was sent an answer of so many tokens."""
        if not self.caller.observer:
            from spec_kit_memory.files import activity

            now = self.now()
            sent = activity.DayTally(now.date(), activity.SENT, verb, 1, tokens)
            activity.add(self.settings, [sent], now=now, scope=self.scope)

    def hot(self, session_id: str | None) -> frozenset[int]:
        """The memories that this session used or was shown: HOT for this session only."""
        session = self.store.record.session(session_id) if session_id else None
        return frozenset(a.memory_id for a in session.attention) if session else frozenset()

    def state(self, memory: Memory, hot: frozenset[int] = frozenset()) -> State:
        return decay.state_of(memory, hot=hot, now=self.now())

    def card(self, memory: Memory, hot: frozenset[int] = frozenset()) -> Card:
        attributes = memory.attributes
        return Card(
            id=memory.id,
            title=attributes.title,
            path=memory.path,
            spec_folder=memory.spec_folder,
            tier=attributes.tier,
            state=self.state(memory, hot),
            context_type=attributes.context_type,
            source=memory.source,
            weight=attributes.weight,
            created_at=attributes.created_at,
            updated_at=memory.updated_at,
            triggers=attributes.triggers,
            access_count=round(memory.access_count),
            confidence=float(memory.confidence),
            validation_count=memory.validation_count,
            vector_status=memory.vector_status,
            aliases=memory.aliases,
            trusted=memory.trusted,
            checkout=MAIN_CHECKOUT if memory.elsewhere else None,
            tokens=memory.tokens,
        )
