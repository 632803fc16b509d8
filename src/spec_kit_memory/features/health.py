"""How is the workspace doing? Statistics and health."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from spec_kit_memory.answers import HealthAnswer, StatsAnswer
from spec_kit_memory.core import decay, links, operation, tiers
from spec_kit_memory.core.memory import Filter, State, Tier
from spec_kit_memory.core.wording import counted
from spec_kit_memory.features import freshness, index_workspace, sessions
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files import checkpoint_file as shelf
from spec_kit_memory.files import locks, write_counters
from spec_kit_memory.index.contract import Tally
from spec_kit_memory.requests import HealthRequest, StatsRequest

# Weights of the composite order of spec folders: how much, how fresh, how important.
_TOTALS = ("memories", "gone", "forgotten", "passages", "tokens", "triggers", "aliases")
COMPOSITE = {"count": 0.3, "recency": 0.4, "importance": 0.3}


def stats(runtime: Runtime, request: StatsRequest) -> StatsAnswer:
    raw = runtime.store.stats()
    folders = _folders(runtime, runtime.store.tally(), request.folder_ranking)
    return StatsAnswer(
        summary=f"{counted(raw['memories'], 'memory')} in {counted(len(folders), 'spec folder')}, "
        f"{counted(raw['passages'], 'passage')}",
        totals={name: raw[name] for name in _TOTALS} | {"folders": len(folders)},
        tiers=dict(raw["tiers"]),
        states=_states(runtime),
        sources=dict(raw["sources"]),
        vectors=dict(raw["vectors"]),
        folders=tuple(folders[: request.limit]),
        links=_links(runtime, raw["memories"]),
        embedding=_embedding(runtime, raw),
        transactions=asdict(write_counters.read(runtime.settings)),
        size_bytes=raw["size_bytes"],
        last_indexed=raw["last_indexed"],
    )


def _embedding(runtime: Runtime, raw: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "provider": runtime.settings.semantic.model,
        "model": raw["model"],
        "dimensions": raw["dimensions"],
        "problem": runtime.meaning.problem or None,
    }


def _states(runtime: Runtime) -> dict[str, int]:
    """How many are in each state, counted where they are kept: of very many, reading each would take seconds."""
    now = runtime.now()
    counted = {
        state.value: runtime.store.count(Filter(states=decay.bounds({state}, now=now)))
        for state in State
        if state is not State.HOT  # that depends on who asks
    }
    return {name: count for name, count in counted.items() if count}


def _links(runtime: Runtime, memories: int) -> dict[str, Any]:
    known = runtime.store.links()  # both ends are live
    ends = {end for link in known for end in (link.source_id, link.target_id)}
    coverage = round(len(ends) / memories, 4) if memories else 0.0
    return links.statistics(known, ends) | {"coverage": coverage}


def _folders(runtime: Runtime, tallies: list[Tally], ranking: str) -> list[dict[str, Any]]:
    grouped: dict[str, list[Tally]] = {}
    for tally in tallies:
        if tally.spec_folder:
            grouped.setdefault(tally.spec_folder, []).append(tally)
    most = max((sum(tally.count for tally in group) for group in grouped.values()), default=1)
    rows = [_folder(runtime, name, group, most) for name, group in grouped.items()]
    rows.sort(key=lambda row: (-row[ranking], row["name"]))
    return rows


def _folder(runtime: Runtime, name: str, group: list[Tally], most: int) -> dict[str, Any]:
    newest = max(tally.newest for tally in group)
    days = max(0.0, (runtime.now() - newest).total_seconds() / 86400)
    count = sum(tally.count for tally in group)
    recency = decay.factor(Tier.NORMAL, model="half_life", days=days)
    importance = sum(tally.count * tiers.TABLE[tally.tier].weight for tally in group) / count
    composite = (
        COMPOSITE["count"] * count / most + COMPOSITE["recency"] * recency + COMPOSITE["importance"] * importance
    )
    return {
        "name": name,
        "count": count,
        "newest": newest,
        "recency": round(recency, 4),
        "importance": round(importance, 4),
        "composite": round(composite, 4),
    }


def health(runtime: Runtime, request: HealthRequest) -> HealthAnswer:
    """Of a large index the everyday call looks at what it can in a moment and says so; `full` and `repair` at all."""
    repair = request.repair
    repaired = _repaired(runtime) if repair else {}
    checks: dict[str, str] = {}
    problems: list[dict[str, Any]] = []
    looked_at = runtime.store if runtime.isolated else runtime.whole
    doing = runtime.doing()
    looked = looked_at.check(now=runtime.now(), quick=not (repair or request.full))
    unfinished = looked.pop("unfinished", [])
    for name, found in {**looked, **_files(runtime)}.items():
        if found and name == "pending vectors" and doing:
            checks[name] = f"indexing: {found[0]}"  # it will not need anybody
            continue
        checks[name] = "ok" if not found else found[0] if len(found) == 1 else counted(len(found), "problem")
        problems += [{"check": name, "message": message, "hint": _HINTS.get(name, "")} for message in found]
        if name in unfinished and not found:
            checks[name] = "ok as far as a quick look goes"
    if runtime.meaning.problem and runtime.meaning.wanted:
        checks["meaning"] = runtime.meaning.problem
        problems.append({"check": "meaning", "message": runtime.meaning.problem, "hint": _HINTS["meaning"]})
    serious = [problem for problem in problems if problem["check"] not in _NOTICES]
    hints = [] if not serious or repair else ["mend what can be mended with repair: true"]
    if unfinished:
        hints.append(f"the index is large: `health(full=True)` looks to the end at {', '.join(unfinished)}")
    return HealthAnswer(
        summary=_verdict(len(serious), len(problems) - len(serious)) + (f"; indexing: {doing}" if doing else ""),
        hints=tuple(hints),
        healthy=not serious,
        problems=tuple(problems),
        checks=checks,
        repaired=repaired,
    )


def _verdict(serious: int, notices: int) -> str:
    if serious:
        return counted(serious, "problem")
    return f"healthy, with {counted(notices, 'thing')} to look at" if notices else "healthy"


def _repaired(runtime: Runtime) -> dict[str, int]:
    """What was mended may be another's: an isolated session does not hear of it."""
    stale = len(freshness.stale(runtime))
    done = runtime.whole.repair(runtime.change("repair", operation.Repair()))
    runtime.sync.scan(count=False, change=runtime.change("repair"))
    index_workspace.embed_pending(runtime)
    return {} if runtime.isolated else done | ({"stale rows": stale} if stale else {})


# Worth saying, but not a fault of the index.
_NOTICES = {"bad files", "pending vectors", "general triggers", "sessions", "locks"}
_LOCKS = {"scan.lock": "scanning", "embed.lock": "embedding", "watch.lock": "watching"}

_HINTS = {
    "meaning": "search works by text meanwhile; look at the settings of the provider",
    "bad files": "mend the file, or exclude it in .spec-kit-memory/config.jsonc",
    "general triggers": "give it a longer phrase with `update(ID, add_trigger_phrases=PHRASE)`",
    "pending vectors": "`index()` computes them now; a running server does so by itself",
    "stale rows": "`index()` takes them out; `health(repair=True)` does so too",
    "checkpoints": "upgrade spec-kit-memory if the file is of a newer version, else remove it",
    "links": "repair: true removes them",
    "sessions": "repair: true ends them",
    "text index": "repair: true builds it again from the recorded text",
    "vectors": "repair: true computes them again",
    "documents": "repair: true reads the files again",
    "ledger": "restore index.sqlite from a backup; `ledger_verify()` names the entry",
    "record": "something else than this program wrote to index.sqlite: restore it from a backup or a checkpoint",
    "integrity": "`index(rebuild=True)`; if that fails, move index.sqlite away and index again",
}


def _files(runtime: Runtime) -> dict[str, list[str]]:
    bad = [f"{bad.code} {bad.path}: {bad.message}" for bad in runtime.store.bad_files()]
    pending = runtime.store.stats()["pending_passages"] if runtime.meaning.wanted else 0
    return {
        "bad files": bad,
        "pending vectors": [f"{counted(pending, 'passage has', 'passages have')} no vector yet"] if pending else [],
        "stale rows": freshness.stale(runtime),
        "checkpoints": [] if runtime.isolated else _unreadable(runtime),
        "locks": _held(runtime),
        "general triggers": [
            f"the phrase {phrase!r} matched more than a quarter of recent prompts"
            for phrase in sessions.too_general(runtime)
        ],
    }


def _unreadable(runtime: Runtime) -> list[str]:
    return [error.message for error in shelf.headers(runtime.settings, runtime.settings.scope)[1]]


def _held(runtime: Runtime) -> list[str]:
    """Which other processes work on this workspace; a lock dies with its holder, so none of them is stale."""
    holders = {name: locks.holder(runtime.settings, name) for name in _LOCKS}
    return [f"process {pid} is {_LOCKS[name]} ({name})" for name, pid in holders.items() if pid and pid != os.getpid()]
