"""Which parts does a verb work with? One small object holds them; `Workspace` makes it.

Two handles on one store: `store` sees what this session may see and serves every verb;
`whole` sees the workspace and serves only what keeps the index in step with the files.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from spec_kit_memory.core import decay, tokens, usage
from spec_kit_memory.core.long_lines import Layout
from spec_kit_memory.core.memory import Actor, Change, Document, Filter, Memory, Scope, State, Tier
from spec_kit_memory.core.triggers import Matcher
from spec_kit_memory.embed import Embedder, QueryEmbedding, open_embedder
from spec_kit_memory.embed.guarded import Guarded
from spec_kit_memory.errors import (
    DatabaseBusy,
    DatabaseCorrupt,
    DatabaseUnusable,
    ProviderUnavailable,
    SpecKitMemoryError,
)
from spec_kit_memory.features import worker
from spec_kit_memory.index.contract import Index
from spec_kit_memory.settings import Settings

if TYPE_CHECKING:
    from concurrent.futures import Future

    from spec_kit_memory.answers import Card
    from spec_kit_memory.core.alignment import Profile
    from spec_kit_memory.core.operation import Operation
    from spec_kit_memory.files.scan import Sync

logger = logging.getLogger(__name__)

# A provider that failed is asked again after this long; until then answers are by text.
RETRY_SECONDS = 30.0
# A provider has a deadline of its own. This one also holds for what it cannot bound: a model that is slow to load,
# headers that come a byte at a time.
PATIENCE_SECONDS = 10


class Past(Protocol):
    def close(self) -> None: ...


class Meaning:
    """The embedder, opened when first needed, and why it cannot be used if it cannot."""

    def __init__(self, settings: Settings, *, now: Callable[[], datetime], embedder: Embedder | None = None) -> None:
        self._settings = settings
        self._now = now
        self._lock = threading.Lock()
        self._embedder: Embedder | None = None if embedder is None else Guarded(embedder)
        self._opened = embedder is not None
        self._failed_at: datetime | None = None
        self._stuck: list[Future[QueryEmbedding | None]] = []
        self.problem = ""
        self.advice = ""  # the next step that the problem's own hint names

    @property
    def wanted(self) -> bool:
        return self._settings.semantic.enabled and self._settings.semantic.model != "none"

    @property
    def down(self) -> bool:
        """Did it fail a moment ago? A clock that was set back must not make that moment last."""
        if self._failed_at is None:
            return False
        return 0 <= (self._now() - self._failed_at).total_seconds() < RETRY_SECONDS

    def embedder(self) -> Embedder | None:
        with self._lock:
            if not self._opened:
                opened = open_embedder(self._settings.semantic)
                self._embedder = None if opened is None else Guarded(opened)
                self._opened = True
            return self._embedder

    def begin(self, text: str) -> Future[QueryEmbedding | None] | None:
        """Embed a query while the caller goes on; None while an earlier one is stuck: threads must not pile up."""
        with self._lock:
            self._stuck = [each for each in self._stuck if not each.done()]
            if self._stuck:
                return None
        from concurrent.futures import Future  # a hook that only matches triggers embeds nothing

        made: Future[QueryEmbedding | None] = Future()

        def run() -> None:
            try:
                made.set_result(self.query(text))
            except BaseException as error:  # a fault of ours: told here, and where the result is asked for
                made.set_exception(error)
                raise

        worker.start(run)
        return made

    def end(self, made: Future[QueryEmbedding | None]) -> QueryEmbedding | None:
        try:
            return made.result(timeout=PATIENCE_SECONDS)
        except TimeoutError:
            with self._lock:
                self._stuck.append(made)
            late = f"the query was not embedded within {PATIENCE_SECONDS} seconds"
            self.failed(ProviderUnavailable(late, hint="search works by text meanwhile"))
            return None

    def query(self, text: str) -> QueryEmbedding | None:
        """The query's vector, or None with `problem` saying why."""
        if not self.wanted:
            self.problem = "semantic search is switched off (semantic.model is none)"
            return None
        if self.down:
            return None
        try:
            embedder = self.embedder()
            found = embedder.embed_query(text) if embedder else None
        except SpecKitMemoryError as error:
            self.failed(error)
            return None
        self.worked()
        return found

    def worked(self) -> None:
        self._failed_at, self.problem, self.advice = None, "", ""

    def failed(self, error: SpecKitMemoryError) -> None:
        self._failed_at = self._now()
        self.problem, self.advice = f"{error.code} {error.message}", error.hint

    def check(self) -> str:
        """Why nothing can be embedded now, tried out; "" if it can, or nobody wants it."""
        if not self.wanted:
            return ""
        made = None if self.down else self.begin("Is anybody there?")
        vector = self.end(made) if made else None
        return "" if vector is not None else self.problem or "an earlier question is still being embedded"


class Opened:
    """A memory's text as it was indexed; its structure is found when first asked for.

    Without cached properties: before Python 3.12 all objects of a class share their lock, and a fork may inherit it.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.split("\n")
        self._offsets: list[int] | None = None
        self._outline: Document | None = None
        self._layout: Layout | None = None

    @property
    def layout(self) -> Layout:
        """The lines as an answer may show them: very long ones in parts."""
        if self._layout is None:
            self._layout = Layout(self.lines)
        return self._layout

    @property
    def offsets(self) -> list[int]:
        """What the lines of the layout before each take in an answer."""
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
    """Texts that were shown lately. A text is known by its hash, so none is ever stale."""

    MOST_CHARACTERS = 4_000_000

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, Opened] = {}
        self._characters = 0

    def get(self, content_hash: str, read: Callable[[], str]) -> Opened:
        with self._lock:
            known = self._kept.pop(content_hash, None)
            if known is not None:
                self._kept[content_hash] = known  # the last used is the last to go
                return known
        made = Opened(read())
        with self._lock:
            if self._kept.setdefault(content_hash, made) is made:
                self._characters += len(made.text)
            while self._characters > self.MOST_CHARACTERS and len(self._kept) > 1:
                self._characters -= len(self._kept.pop(next(iter(self._kept))).text)
        return made


@dataclass
class Runtime:
    settings: Settings
    store: Index
    whole: Index
    make_sync: Callable[[], Sync]
    meaning: Meaning
    now: Callable[[], datetime]
    actor: Actor = Actor.USER
    session_id: str | None = None
    accesses: usage.Accumulator = field(default_factory=usage.Accumulator)
    # Embedding in the foreground is for one saved file; scans leave it to the background.
    embed_soon: Callable[[], None] = lambda: None
    # What goes on behind the answers, in words.
    doing: Callable[[], str] = lambda: ""
    # What was rebuilt to answer as of an earlier moment; `Workspace.close` closes it.
    past: Past | None = None
    shelf: Shelf = field(default_factory=Shelf)
    # By connection: which rules it was told; see `sessions.told_to`.
    told: dict[str, frozenset[str]] = field(default_factory=dict)
    # What spec folders are about, by name, with the state of the folder that was read.
    profiles: dict[str, tuple[object, Profile]] = field(default_factory=dict)
    _matcher: tuple[int, Matcher] | None = None
    _sync: Sync | None = None
    _making: threading.Lock = field(default_factory=threading.Lock)
    _rules: tuple[int, list[Memory]] | None = None

    @property
    def sync(self) -> Sync:
        """Made when first needed: a hook that only reads never loads what indexes."""
        with self._making:
            if self._sync is None:
                self._sync = self.make_sync()
            return self._sync

    @property
    def isolated(self) -> bool:
        """Does this session see only a part? Then numbers of the whole workspace are not for it either."""
        return self.settings.scope != Scope()

    def matcher(self) -> Matcher:
        """All trigger phrases of this session's scope, made again when memories changed."""
        generation = self.whole.generation()
        if self._matcher is None or self._matcher[0] != generation:
            self._matcher = (generation, Matcher(self.store.triggers()))
        return self._matcher[1]

    def rules(self) -> list[Memory]:
        """The constitutional memories of this session's scope; their use counts may be old."""
        generation = self.whole.generation()
        if self._rules is None or self._rules[0] != generation:
            self._rules = (generation, self.store.find(Filter(tiers=frozenset({Tier.CONSTITUTIONAL}))))
        return self._rules[1]

    def opened(self, memory: Memory) -> Opened:
        return self.shelf.get(memory.content_hash, lambda: self._text(memory))

    def _text(self, memory: Memory) -> str:
        """As it was when the memory was read: the file may have changed since."""
        found = self.store.text_of(memory.content_hash)
        return self.store.text(memory.id) if found is None else found

    def change(self, reason: str, operation: Operation | None = None, *, session: str | None = None) -> Change:
        """Who changes something now; `reason` is for people, `operation` is what undo and recovery read."""
        return Change(
            actor=self.actor,
            at=self.now(),
            session=session or self.session_id,
            reason=reason,
            operation=operation,
        )

    def used(self, memory_ids: Iterable[int]) -> None:
        """Count an access of each; written in batches."""
        now = self.now()
        due: dict[int, float] = {}
        for memory_id in memory_ids:
            due |= self.accesses.add(memory_id, at=now)
        self._count(due, now)

    def flush(self) -> None:
        """Write what was counted and not written yet."""
        self._count(self.accesses.drain(), self.now())

    def _count(self, due: Mapping[int, float], now: datetime) -> None:
        """A read is answered though nothing can be written: another process writes, the disk is full or read-only."""
        if not due:
            return
        try:
            self.store.record_use(due, now)
        except (DatabaseBusy, DatabaseCorrupt, DatabaseUnusable) as error:
            logger.info("use is counted later: %s %s", error.code, error.message)
            self.accesses.put_back(due, at=now)

    def hot(self, session_id: str | None) -> frozenset[int]:
        """What this session used or was shown: HOT for it, and for nobody else."""
        session = self.store.session(session_id) if session_id else None
        return frozenset(a.memory_id for a in session.attention) if session else frozenset()

    def state(self, memory: Memory, hot: frozenset[int] = frozenset()) -> State:
        return decay.state(
            tier=memory.tier,
            last_access=memory.last_access,
            first_indexed_at=memory.first_indexed_at,
            flagged=memory.archived_folder or memory.outdated,
            hot=memory.id in hot,
            now=self.now(),
        )

    def card(self, memory: Memory, hot: frozenset[int] = frozenset()) -> Card:
        from spec_kit_memory.answers import Card

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
            tokens=memory.tokens,
        )
