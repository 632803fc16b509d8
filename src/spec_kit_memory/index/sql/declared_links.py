"""Which links do files declare in their front matter?

Such a declaration (a claim) names its target by id, path or exact title. It becomes a link as soon as there is such a
memory, and the link leads to another one as soon as the name means another.

A transaction notes which memories and claims it changes, and `follow_changes` brings the links in step with all of it,
once, before the commit. Following each step takes time with the cube of the number of files where many have one title
and name it: whichever of them is meant, it may be the next that changes.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Sequence, Set
from typing import Any, NamedTuple

from spec_kit_memory.core.memory import LinkClaim, Memory, Origin, is_text_name
from spec_kit_memory.index import rows
from spec_kit_memory.index.sql.dialect import Connection, fetch
from spec_kit_memory.index.sql.link_targets import Claim, LinkEnd, LinkTargets, named, stored

_Key = tuple[int, int, str]  # of a link: source, target, relation

_CLAIMS = (
    "SELECT memory_id, ordinal, relation, target, sibling, inward, strength, spec_folder, owner, project"
    " FROM claim JOIN memory ON memory.project_id = @p AND memory.id = claim.memory_id"
    " WHERE claim.project_id = @p AND {}"
)
_LINKS = (
    "SELECT id, source_id, target_id, relation, strength, claimant FROM link"
    " WHERE link.project_id = @p AND origin = 'file' AND @own_link AND {}"
)


class LinkChanges:
    """What a transaction has changed in one checkout since its links followed."""

    def __init__(self) -> None:
        self.claimants: set[int] = set()  # memories with other claims
        self.before: dict[int, LinkEnd | None] = {}  # memories as they were; None: there was none
        self.aliases: dict[str, set[int]] = {}  # paths that became or ceased to be an alias, and of which memories


def _changes(connection: Connection) -> LinkChanges:
    if connection.checkout not in connection.link_changes:
        connection.link_changes[connection.checkout] = LinkChanges()
    link_changes: LinkChanges = connection.link_changes[connection.checkout]
    return link_changes


def replace(connection: Connection, memory_id: int, path: str, claimed: Sequence[LinkClaim]) -> None:
    """Store the claims of a memory in place of its earlier ones."""
    connection.execute("DELETE FROM claim WHERE claim.project_id = @p AND memory_id = ?", (memory_id,))
    connection.executemany(
        "INSERT INTO claim (project_id, memory_id, ordinal, relation, target, sibling, inward, strength)"
        " VALUES (@p, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                memory_id, ordinal, str(claim.relation), target := rows.clean(claim.target.strip()),
                _sibling(path, target), claim.inward, claim.strength,
            )
            for ordinal, claim in enumerate(claimed)
        ],
    )  # fmt: skip
    claims_changed(connection, memory_id)


def _sibling(path: str, target: str) -> str:
    """A relative path as seen from the declaring file; the target itself may also be a path from the workspace root."""
    looks_like_path = "/" in target or is_text_name(target)
    if not looks_like_path or target.startswith("/") or "://" in target:
        return ""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


# --- what changed


def claims_changed(connection: Connection, claimant: int) -> None:
    """Note that all links of this memory's claims must be looked at."""
    _changes(connection).claimants.add(claimant)


def changed(connection: Connection, memory_id: int, before: Memory | None) -> None:
    """Note that this memory may have another name, another place or another presence now."""
    _changes(connection).before.setdefault(memory_id, named(before) if before else None)


def aliases_changed(connection: Connection, memory_id: int, paths: Collection[str]) -> None:
    """Note that these paths became or ceased to be aliases of this memory."""
    aliases = _changes(connection).aliases
    for path in paths:
        aliases.setdefault(path, set()).add(memory_id)


def follow_changes(connection: Connection) -> None:
    """Bring the links of claims in step with what changed."""
    while connection.link_changes:
        checkout, link_changes = connection.link_changes.popitem()
        with connection.within(checkout):
            _AffectedLinks(connection, link_changes).run()


# --- what follows


class _StoredLink(NamedTuple):
    id: int
    source: int
    target: int
    relation: str
    strength: float
    claimant: int

    @property
    def key(self) -> _Key:
        return self.source, self.target, self.relation

    @property
    def other(self) -> int:
        """The memory that the claimant is linked with."""
        return self.target if self.source == self.claimant else self.source


class _AffectedLinks:
    """Which claims may mean another memory than before, what they mean now, and the links that follow."""

    def __init__(self, connection: Connection, link_changes: LinkChanges) -> None:
        self._connection = connection
        self._claimants = link_changes.claimants
        self._aliases = link_changes.aliases
        now = stored(connection, link_changes.before) if link_changes.before else {}
        self._moves = [(old, now[id_]) for id_, old in link_changes.before.items() if old != now[id_]]
        self._changed = {memory.id for _, memory in self._moves}.union(*link_changes.aliases.values())
        self._targets = LinkTargets(connection, changed=self._changed)
        self._wanted: dict[tuple[int, _Key], tuple[int, float]] = {}  # with ordinal and strength of the claim

    def run(self) -> None:
        whole = self._claims("memory_id IN @list(:claimants)", claimants=self._claimants) if self._claimants else []
        others = [claim for claim in self._affected() if claim.claimant not in self._claimants]
        self._targets.look_up([*whole, *others])
        for claim in whole:
            self._want(claim, self._targets.meant(claim))
        links = self._links("claimant IN @list(:claimants)", claimants=self._claimants) if self._claimants else []
        if others:
            links += self._links_of(others)
        stored_strengths = {(link.claimant, link.key): link.strength for link in links}
        if unwanted := [link.id for link in links if (link.claimant, link.key) not in self._wanted]:
            self._connection.drop_links(unwanted)
        self._write(
            [
                (*key, strength, claimant)
                for (claimant, key), (_, strength) in sorted(
                    self._wanted.items(), key=lambda item: (item[0][0], item[1])
                )
                if stored_strengths.get((claimant, key)) != strength
            ]
        )

    # --- claims

    def _claims(self, test: str, **values: Collection[Any]) -> list[Claim]:
        lists = {name: sorted(items) for name, items in values.items()}
        return [Claim(*row) for row in fetch(self._connection, _CLAIMS.format(test), lists)]

    def _naming(self, names: Collection[str], *, claimants: Collection[int] | None = None) -> list[Claim]:
        """The claims of which the target is one of these names, of all claimants or of these."""
        return self._looked_up("target", {*names, *(f"./{name}" for name in names)}, claimants)

    def _leading_to(self, paths: Collection[str], *, claimants: Collection[int] | None = None) -> list[Claim]:
        """The claims of which the target, seen from the file that declares it, is one of these paths."""
        return self._looked_up("sibling", paths, claimants)

    def _looked_up(self, column: str, names: Collection[str], claimants: Collection[int] | None) -> list[Claim]:
        """By name, not by claimant, who may have thousands of claims."""
        if not names:
            return []
        if claimants is None:
            return self._claims(f"{column} IN @list(:names)", names=names)
        test = f"{column} IN @list(:names) AND +memory_id IN @list(:claimants)"
        return self._claims(test, names=names, claimants=claimants)

    def _affected(self) -> list[Claim]:
        names, titles = self._names()
        return _each_once([*self._naming(names), *self._leading_to(names), *self._to_titles(titles)])

    def _names(self) -> tuple[set[str], set[str]]:
        """The ids and paths, and the titles, that may mean another memory than before."""
        names, titles, elsewhere = set(self._aliases), set[str](), []
        for old, new in self._moves:
            if old is None or old.place != new.place:
                elsewhere.append(new.id)
                names |= {str(new.id), new.path, *([old.path] if old else ())}
                titles |= {new.title, *([old.title] if old else ())}
            else:
                names |= {old.path} ^ {new.path}
                titles |= {old.title} ^ {new.title}
        return names | self._aliases_of(elsewhere), titles

    def _aliases_of(self, memory_ids: Collection[int]) -> set[str]:
        sql = "SELECT path FROM alias WHERE alias.project_id = @p AND memory_id IN @list(?)"
        return {path for (path,) in fetch(self._connection, sql, (sorted(memory_ids),))} if memory_ids else set()

    def _to_titles(self, titles: Collection[str]) -> list[Claim]:
        """The claims that give one of these titles and may have lost or gained a memory that moved.

        Of many memories with one title only the first are meant. Looking at the claims of all that name it whenever one
        more appears would take time with the square of their number.
        """
        if not titles:
            return []
        spellings = {*titles, *(f"./{title}" for title in titles)}
        sql = (
            "SELECT name FROM @texts(?) AS given"
            " WHERE EXISTS (SELECT 1 FROM claim WHERE claim.project_id = @p AND target = name)"
        )
        given = {name for (name,) in fetch(self._connection, sql, (sorted(spellings),))}
        titles = {title for title in titles if given & {title, f"./{title}"}}
        if not titles:
            return []
        gaining = self._gaining(titles)
        losing = self._linked([old.id for old, _ in self._moves if old is not None])
        return [
            *(claim for claim in self._naming(gaining) if _is_among(claim, gaining.get(claim.name, set()))),
            *(self._naming(titles, claimants=losing) if losing else ()),
        ]

    def _gaining(self, titles: Collection[str]) -> dict[str, set[tuple[str | None, ...]]]:
        """Whose claims may mean a memory that has one of these titles now, and did not before: who sees it, and where.

        Owner and project, and the folder if others of that title come first in all other folders.
        """
        self._targets.look_up_titles(titles)
        gaining: dict[str, set[tuple[str | None, ...]]] = {}
        for old, new in self._moves:
            if new.title not in titles or (
                old is not None and old.title == new.title and old.place[1:] == new.place[1:] and old.is_live
            ):
                continue
            anywhere, in_folder = self._targets.before(new)
            if anywhere < 2:
                gaining.setdefault(new.title, set()).add((new.owner, new.project))
            elif in_folder < 2:
                gaining.setdefault(new.title, set()).add((new.owner, new.project, new.spec_folder))
        return gaining

    def _linked(self, memory_ids: Collection[int]) -> set[int]:
        """The claimants that are linked with these memories."""
        if not memory_ids:
            return set()
        links = self._links("(target_id IN @list(:ends) OR source_id IN @list(:ends))", ends=memory_ids)
        return {link.claimant for link in links}

    # --- links

    def _links(self, test: str, **values: Collection[int]) -> list[_StoredLink]:
        lists = {name: sorted(items) for name, items in values.items()}
        return [_StoredLink(*row) for row in fetch(self._connection, _LINKS.format(test), lists)]

    def _want(self, claim: Claim, memory: LinkEnd | None) -> None:
        """Of several claims for one link, the last decides its strength."""
        if memory is None:
            return
        key = claim.claimant, claim.key(memory.id)
        self._wanted[key] = max(self._wanted.get(key, (-1, 0.0)), (claim.ordinal, claim.strength))

    def _links_of(self, claims: Sequence[Claim]) -> list[_StoredLink]:
        """The links that these claims have or had. Other claims of their claimants are only read if they matter."""
        pairs = set[tuple[int, int]]()
        for claim in claims:
            memory = self._targets.meant(claim)
            self._want(claim, memory)
            meant_before = self._targets.meant(claim, unchanged=True)
            pairs.update((claim.claimant, other.id) for other in (memory, meant_before) if other)
        claimants = {claim.claimant for claim in claims}
        links = [
            link
            for link in self._links(
                "+claimant IN @list(:claimants) AND (target_id IN @list(:ends) OR source_id IN @list(:ends))",
                claimants=claimants,
                ends={other for _, other in pairs} | self._changed,
            )
            if (link.claimant, link.other) in pairs or link.other in self._changed
        ]
        self._want_otherwise(
            {
                (link.claimant, link.other)
                for link in links
                if self._wanted.get((link.claimant, link.key), (0, None))[1] != link.strength
            }
        )
        return links

    def _want_otherwise(self, pairs: Set[tuple[int, int]]) -> None:
        """These claimants may mean these memories by other names, too."""
        others = stored(self._connection, {other for _, other in pairs}) if pairs else {}
        names = {name for memory in others.values() for name in (str(memory.id), memory.path, memory.title)}
        if not names:
            return
        names |= self._aliases_of(others)
        claimants = {claimant for claimant, _ in pairs}
        claims = _each_once([*self._naming(names, claimants=claimants), *self._leading_to(names, claimants=claimants)])
        self._targets.look_up(claims)
        for claim in claims:
            memory = self._targets.meant(claim)
            if memory is not None and (claim.claimant, memory.id) in pairs:
                self._want(claim, memory)

    def _write(self, links: Sequence[tuple[Any, ...]]) -> None:
        if not links:
            return
        first_id = self._connection.next_id("link", len(links))
        self._connection.executemany(
            "INSERT INTO link (project_id, id, source_id, target_id, relation, strength, claimant, evidence, origin)"
            " VALUES (@p, ?, ?, ?, ?, ?, ?, '', 'file') ON CONFLICT (project_id, source_id, target_id, relation)"
            " DO UPDATE SET strength = excluded.strength WHERE link.origin = 'file'",
            [(first_id + number, *link) for number, link in enumerate(links)],
        )
        self._connection.links_written([(source, target, name) for source, target, name, *_ in links], Origin.FILE)


def _each_once(claims: Sequence[Claim]) -> list[Claim]:
    return list({(claim.claimant, claim.ordinal): claim for claim in claims}.values())


def _is_among(claim: Claim, audiences: Set[tuple[str | None, ...]]) -> bool:
    return any(
        (owner, project) in audiences or (owner, project, claim.spec_folder) in audiences
        for owner in {None, claim.owner}
        for project in {None, claim.project}
    )


# --- claims without a link


def unresolved(connection: Connection, claimants: Collection[int]) -> list[tuple[int, str, str]]:
    """The claims of these memories that mean none: whose, the key in the front matter, and the name given there."""
    rows = fetch(connection, _CLAIMS.format("memory_id IN @list(?)") + " ORDER BY 1, 2", (sorted(claimants),))
    claims = [Claim(*row) for row in rows]
    targets = LinkTargets(connection)
    targets.look_up(claims)
    return [
        (claim.claimant, _front_matter_key(claim), claim.target) for claim in claims if targets.meant(claim) is None
    ]


def _front_matter_key(claim: Claim) -> str:
    if claim.inward:
        return f"{claim.relation}_by"
    return "related_to" if (claim.relation, claim.strength) == ("supports", 0.5) else claim.relation


# --- whether all links follow


def out_of_step(connection: Connection) -> tuple[list[int], list[int]]:
    """The claimants that lack a link, and the links that no claim asks for, or not with that strength.

    Only links between live memories are compared: the others are looked at again when their memories come back.
    """
    live = {id_ for (id_,) in fetch(connection, "SELECT id FROM memory WHERE project_id = @p AND presence = 'live'")}
    claims = [claim for row in fetch(connection, _CLAIMS.format("true")) if (claim := Claim(*row)).claimant in live]
    targets = LinkTargets(connection, changed=set())
    targets.look_up(claims)
    wanted: dict[_Key, set[float]] = {}
    claimants: dict[_Key, int] = {}
    for claim in claims:
        memory = targets.meant(claim)
        if memory is not None and memory.is_live:
            wanted.setdefault(key := claim.key(memory.id), set()).add(claim.strength)
            claimants[key] = claim.claimant
    sql = (
        "SELECT id, source_id, target_id, relation, strength, origin FROM link WHERE link.project_id = @p AND @own_link"
    )
    links = [row for row in fetch(connection, sql) if {row[1], row[2]} <= live]
    stored_keys = {(source, target, relation) for _, source, target, relation, *_ in links}
    lacking = {claimant for key, claimant in claimants.items() if key not in stored_keys}
    wrong = [
        id_
        for id_, source, target, relation, strength, origin in links
        if origin == Origin.FILE and strength not in wanted.get((source, target, relation), ())
    ]
    return sorted(lacking), wrong


def put_in_step(connection: Connection) -> int:
    """Make the links those that the claims ask for; returns how many claimants and links were out of step."""
    lacking, wrong = out_of_step(connection)
    if wrong:
        connection.drop_links(wrong)
    for claimant in out_of_step(connection)[0] if wrong else lacking:
        claims_changed(connection, claimant)
    return len(lacking) + len(wrong)
