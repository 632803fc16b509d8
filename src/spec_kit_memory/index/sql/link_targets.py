"""Which memory does a name in front matter mean?

A claim names its target by id, path or exact title. Of several memories with that name, a live one is meant before one
that is not, then the one that has it as id or path, then one in the claimant's folder, then the oldest. It is one that
all readers of the claimant may see, and never the claimant itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from spec_kit_memory.core.memory import Memory, Presence
from spec_kit_memory.index.sql.dialect import Connection, fetch

_COLUMNS = (
    "memory.id, memory.path, memory.title, memory.presence = 'live', memory.spec_folder, memory.owner, memory.project"
)
# Everything that a name may be, as (what it is, the name, the memory).
_NAMED = (
    f"SELECT 'id', '', {_COLUMNS} FROM memory WHERE memory.project_id = @p AND memory.id IN @list(:ids)"
    f" UNION ALL SELECT 'path', memory.path, {_COLUMNS} FROM memory"
    " WHERE memory.project_id = @p AND memory.path IN @list(:paths)"
    f" UNION ALL SELECT 'alias', alias.path, {_COLUMNS} FROM memory JOIN alias ON alias.project_id = @p"
    " AND alias.memory_id = memory.id WHERE memory.project_id = @p AND alias.path IN @list(:paths)"
    f" UNION ALL SELECT 'title', title, {_COLUMNS} FROM memory"
    " WHERE memory.project_id = @p AND title IN @list(:titles)"
)


class LinkEnd(NamedTuple):
    """What decides whether a name means a memory."""

    id: int
    path: str
    title: str
    is_live: bool
    spec_folder: str | None
    owner: str | None
    project: str | None

    @property
    def place(self) -> tuple[object, ...]:
        """Whether it is there, where, and who may see it."""
        return self[3:]


class Claim(NamedTuple):
    """What a file says in its front matter, and where its memory is."""

    claimant: int
    ordinal: int
    relation: str
    target: str
    sibling: str  # the target read as a path beside the file; empty if it is none
    inward: bool
    strength: float
    spec_folder: str | None
    owner: str | None
    project: str | None

    @property
    def name(self) -> str:
        """Stored paths are relative to the workspace root: ./specs/x.md and specs/x.md are the same."""
        return self.target.removeprefix("./")

    @property
    def number(self) -> int | None:
        """The id that it names; a number like 003 is a folder name."""
        is_id = self.target.isdecimal() and self.target.isascii() and not self.target.startswith("0")
        return int(self.target) if is_id and len(self.target) < 19 else None

    def key(self, other: int) -> tuple[int, int, str]:
        """Source, target and relation of the link to this memory."""
        return (other, self.claimant, self.relation) if self.inward else (self.claimant, other, self.relation)


def named(memory: Memory) -> LinkEnd:
    is_live = memory.presence is Presence.LIVE
    place = (memory.spec_folder, memory.owner, memory.project)
    return LinkEnd(memory.id, memory.path, memory.title, is_live, *place)


def stored(connection: Connection, memory_ids: Collection[int]) -> dict[int, LinkEnd]:
    """These memories as they are now."""
    sql = f"SELECT {_COLUMNS} FROM memory WHERE memory.project_id = @p AND memory.id IN @list(?)"
    return {row[0]: LinkEnd(*row) for row in fetch(connection, sql, (sorted(memory_ids),))}


class Namesakes:
    """The memories of one name.

    Those with equal visibility, and of these those in one folder, are each represented by the first two: a claimant
    that is the first itself means the second.
    """

    def __init__(self) -> None:
        self._first_two: dict[tuple[object, ...], list[LinkEnd]] = {}

    def add(self, memory: LinkEnd) -> None:
        """To be called in the order of their ids."""
        for key in _keys(memory):
            first_two = self._first_two.setdefault(key, [])
            if len(first_two) < 2:
                first_two.append(memory)

    def before(self, memory: LinkEnd) -> tuple[int, int]:
        """How many of these come before a memory of this name, at most two: of all, and of those in its folder."""
        anywhere, in_folder = (
            sum(other.id < memory.id for other in self._first_two.get(key, ())) for key in _keys(memory)
        )
        return anywhere, in_folder

    def meant(self, claim: Claim) -> LinkEnd | None:
        for is_live in (True, False):
            groups = [(is_live, owner, project) for owner in {None, claim.owner} for project in {None, claim.project}]
            in_folder = [(*group, claim.spec_folder) for group in groups]
            for keys in (in_folder, groups):
                memories = [
                    memory for key in keys for memory in self._first_two.get(key, ()) if memory.id != claim.claimant
                ]
                if memories:
                    return min(memories)
        return None


def _keys(memory: LinkEnd) -> tuple[tuple[object, ...], tuple[object, ...]]:
    group = (memory.is_live, memory.owner, memory.project)
    return group, (*group, memory.spec_folder)


class LinkTargets:
    """What the names of some claims mean. Each name is looked up once, however many claims give it."""

    def __init__(self, connection: Connection, *, changed: Collection[int] = ()) -> None:
        """`changed` are the memories without which `meant` can say what a claim means, too."""
        self._connection = connection
        self._changed = changed
        self._namesakes: dict[tuple[str, str, bool], Namesakes] = {}  # by kind, name, and whether they are changed
        self._looked_up: set[tuple[str, object]] = set()

    def look_up(self, claims: Iterable[Claim]) -> None:
        """Read the memories that these claims name."""
        ids, names, siblings = set[int](), set[str](), set[str]()
        for claim in claims:
            names.add(claim.name)
            siblings.add(claim.sibling)
            if (number := claim.number) is not None:
                ids.add(number)
        self._look_up({"ids": ids, "paths": names | siblings, "titles": names})

    def look_up_titles(self, titles: Collection[str]) -> None:
        self._look_up({"ids": (), "paths": (), "titles": titles})

    def _look_up(self, names: Mapping[str, Collection[Any]]) -> None:
        new = {kind: sorted(n for n in some if (kind, n) not in self._looked_up) for kind, some in names.items()}
        if not any(new.values()):
            return
        self._looked_up.update((kind, name) for kind, some in new.items() for name in some)
        for kind, name, *columns in sorted(fetch(self._connection, _NAMED, new), key=lambda row: row[2]):
            memory = LinkEnd(*columns)
            key = kind, name or str(memory.id), memory.id in self._changed
            self._namesakes.setdefault(key, Namesakes()).add(memory)

    def meant(self, claim: Claim, *, unchanged: bool = False) -> LinkEnd | None:
        """The memory that the claim means; with `unchanged`, that it would mean without the changed ones."""
        name, sibling, number = claim.name, claim.sibling, claim.number
        answers = [("title", name), ("path", name), ("alias", name)]
        if sibling:
            answers += [("path", sibling), ("alias", sibling)]
        if number is not None:
            answers.append(("id", str(number)))
        memories = [
            memory
            for is_changed in ((False,) if unchanged else (False, True))
            for answer in answers
            if (namesakes := self._namesakes.get((*answer, is_changed))) and (memory := namesakes.meant(claim))
        ]
        return max(
            memories,
            key=lambda memory: (
                memory.is_live, memory.id == number, memory.path == name, memory.path == sibling,
                memory.spec_folder == claim.spec_folder, -memory.id,
            ),
            default=None,
        )  # fmt: skip

    def before(self, memory: LinkEnd) -> tuple[int, int]:
        """How many memories with its title come before this one: of all that its readers see, and of its folder.

        From two on, it does not matter how many: no claimant can mean this one.
        """
        both = [self._namesakes.get(("title", memory.title, is_changed)) for is_changed in (False, True)]
        counts = [namesakes.before(memory) for namesakes in both if namesakes]
        return sum(anywhere for anywhere, _ in counts), sum(in_folder for _, in_folder in counts)
