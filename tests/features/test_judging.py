"""What a person asks who judges memories: one of them, its versions, what needs care, what can be taken back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from spec_kit_memory.core.memory import Scope, State, Tier
from spec_kit_memory.errors import Invalid, MemoryNotFound, OutOfRange
from spec_kit_memory.features import near_duplicates
from spec_kit_memory.files import activity
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place

LONG = "\n".join(
    f"Step {n}: the dock controller {word} the broker before it opens lock number {n}, then waits for the answer."
    for n, word in enumerate(("asks", "tells", "reaches", "warns", "leaves", "finds", "calls", "drops"), 1)
)


def observer(workspace: Workspace) -> Workspace:
    return workspace.for_caller(replace(workspace.caller, observer=True))


# --- one memory


def test_examining_a_memory_counts_as_no_use(place: Place) -> None:
    place.memory("one", "# One\n\nA dock opens.")
    workspace = place.open()
    for _ in range(10):
        workspace.examine(1)
        observer(workspace).load(1)
    assert workspace.examine(1).memory.access_count == 0
    for _ in range(10):
        workspace.load(1)
    assert workspace.examine(1).memory.access_count == 10


def test_what_an_observer_asks_is_no_prompt_of_a_session(place: Place) -> None:
    place.memory("one", "# One\n\nA dock opens.", triggers='["dock opens"]')
    workspace = place.open()
    for _ in range(40):
        observer(workspace).triggers("why does the dock opens")
    assert not [item for item in workspace.care().items if item.kind == "trigger"]
    for _ in range(40):
        workspace.triggers("why does the dock opens")
    (found,) = [item for item in workspace.care().items if item.kind == "trigger"]
    assert found.phrase == "dock opens"


def test_a_memory_s_outline_has_its_anchors_and_headings_by_line(place: Place) -> None:
    place.memory("one", "# One\n\n<!-- ANCHOR:summary -->\nShort.\n<!-- /ANCHOR:summary -->\n\n## Two\n\nMore.")
    outline = place.open().examine(1).outline
    assert [(part.id, part.first_line) for part in outline] == [("one", 1), ("summary", 4), ("two", 7)]


def test_use_is_told_by_day_with_the_state_of_each_day(place: Place) -> None:
    place.memory("one", "# One\n\nA dock opens.")
    workspace = place.open()
    workspace.load(1)
    place.clock.pass_(seconds=10)
    workspace.load(1)  # what was counted is due by now
    place.clock.pass_(days=20)
    days = {day.day: day for day in workspace.examine(1).use}
    first, last = min(days), max(days)
    assert (days[first].uses, days[first].state) == (2, State.WARM)
    assert (last - first, days[last].uses, days[last].state) == (timedelta(days=20), 0, State.COLD)


# --- versions


def test_two_versions_are_compared_line_by_line(place: Place) -> None:
    place.memory("one", "# One\n\nfirst\nsecond")
    workspace = place.open()
    place.clock.pass_(minutes=5)
    place.memory("one", "# One\n\nfirst\nthird")
    workspace.index()
    result = workspace.versions(1)
    assert (result.older, result.newer, len(result.versions)) == (1, 2, 2)
    assert [(line.kind, line.text) for line in result.diff if line.kind in ("added", "removed")] == [
        ("removed", "second"),
        ("added", "third"),
    ]


def test_a_change_of_metadata_is_named_with_both_values(place: Place) -> None:
    place.memory("one", "# One\n\nfirst")
    workspace = place.open()
    workspace.update(1, importance_tier="critical")
    values = {row["name"]: (row["before"], row["after"]) for row in workspace.versions(1).values}
    assert values["tier"] == ("normal", "critical")


@pytest.mark.parametrize(("older", "newer"), [(2, 1), (0, 9), (1, 1)])
def test_versions_that_are_not_there_cannot_be_compared(place: Place, older: int, newer: int) -> None:
    place.memory("one", "# One\n\nfirst")
    with pytest.raises(OutOfRange):
        place.open().versions(1, older=older, newer=newer)


# --- care


def test_near_duplicates_are_named_as_a_pair_that_can_be_joined(place: Place) -> None:
    place.memory("one", f"# One\n\n{LONG}")
    place.memory("two", f"# One again\n\n{LONG}\nAnd one line more.")
    place.memory("other", "# Other\n\nThe van charges bicycles at night.")
    result = place.open().care(health=False)
    (item,) = result.items
    assert (item.kind, {card.title for card in item.memories}, item.mergeable) == (
        "duplicates",
        {"One", "One again"},
        True,
    )
    assert item.score is not None
    assert 0.92 <= item.score <= 1


def test_comparing_goes_on_where_the_last_call_left_off(place: Place) -> None:
    for number in range(12):
        place.memory(
            f"m{number}", f"# M{number}\n\n{LONG if number in (3, 8) else f'Only number {number} says this.'}\n{number}"
        )
    workspace = place.open()
    left = [workspace.care(health=False, seconds=0).to_compare]
    assert left == [12]
    while left[-1]:
        left.append(workspace.care(health=False, seconds=0.001).to_compare)
        assert left[-1] < left[-2]
    assert workspace.care(health=False).counts == {"duplicates": 1}


def test_what_was_left_as_it_is_comes_up_again_when_its_text_changes(place: Place) -> None:
    place.memory("one", f"# One\n\n{LONG}")
    place.memory("two", f"# One again\n\n{LONG}")
    workspace = place.open()
    (item,) = workspace.care(health=False).items
    workspace.keep(item.key)
    assert workspace.care(health=False).items == ()
    assert [one.key for one in workspace.care(health=False, set_aside=True).items] == [item.key]
    place.clock.pass_(minutes=5)
    place.memory("two", f"# One again\n\n{LONG}\nChanged.")
    workspace.index()
    assert [one.kind for one in workspace.care(health=False).items] == ["duplicates"]


def test_what_nobody_used_in_a_month_needs_a_word(place: Place) -> None:
    place.memory("one", "# One\n\nA dock opens.")
    place.memory("rule", "# Rule\n\nNever.", importance_tier="critical")
    workspace = place.open()
    assert workspace.care(health=False).items == ()
    place.clock.pass_(days=45)
    (item,) = workspace.care(health=False).items
    assert (item.kind, item.memories[0].title) == ("unused", "One")
    workspace.validate(item.memories[0].id, was_useful=True)
    assert workspace.care(health=False).items == ()


def test_a_memory_whose_code_changed_needs_a_word_and_says_which(place: Place) -> None:
    place.write("src/dock.py", "OPEN = 1\n")
    place.memory("one", "# One\n\nThe lock is opened in `src/dock.py`.")
    workspace = place.open()
    assert workspace.care(health=False).items == ()
    place.clock.pass_(minutes=5)
    place.write("src/dock.py", "OPEN = 2  # and waits\n")
    (item,) = workspace.care(health=False).items
    assert (item.kind, "src/dock.py changed" in item.message) == ("stale", True)
    code = workspace.examine(item.memories[0].id).memory.code
    assert code is not None
    assert code.changed == ("src/dock.py",)
    workspace.validate(item.memories[0].id, outdated=True)
    assert workspace.care(health=False).items == ()


def test_care_sees_only_what_its_caller_may_see(place: Place) -> None:
    place.write("memory/users/ada/one.md", f"# One\n\n{LONG}\n")
    place.write("memory/users/ada/two.md", f"# One again\n\n{LONG}\n")
    workspace = place.open()
    ben = workspace.for_caller(replace(workspace.caller, scope=Scope(user="ben")))
    ada = workspace.for_caller(replace(workspace.caller, scope=Scope(user="ada")))
    assert ben.care(health=False).items == ()
    assert [item.kind for item in ada.care(health=False).items] == ["duplicates"]


# --- changes and undo


def test_a_named_change_is_taken_back_though_others_came_after_it(place: Place) -> None:
    place.memory("one", "# One\n\nfirst")
    place.memory("two", "# Two\n\nsecond")
    workspace = place.open()
    workspace.update(1, importance_tier="critical")
    (made,) = workspace.changes(1).changes
    workspace.update(2, title="Another")
    workspace.undo(operation=made.operation)
    assert workspace.examine(1).memory.tier is Tier.NORMAL
    assert workspace.examine(2).memory.title == "Another"


def test_a_change_that_a_later_one_builds_on_is_not_taken_back(place: Place) -> None:
    place.memory("one", "# One\n\nfirst")
    workspace = place.open()
    workspace.update(1, importance_tier="critical")
    (made,) = workspace.changes(1).changes
    workspace.update(1, title="Another")
    with pytest.raises(Invalid, match="came after"):
        workspace.undo(operation=made.operation)
    assert workspace.examine(1).memory.tier is Tier.CRITICAL


def test_a_change_is_taken_back_once(place: Place) -> None:
    place.memory("one", "# One\n\nfirst")
    workspace = place.open()
    workspace.update(1, importance_tier="critical")
    (made,) = workspace.changes(1).changes
    workspace.undo(operation=made.operation)
    with pytest.raises(Invalid, match="already"):
        workspace.undo(operation=made.operation)
    assert workspace.changes(1).changes == ()


# --- folders and numbers


def test_a_folder_has_its_documents_in_reading_order_and_its_sessions_in_time(place: Place) -> None:
    place.write("specs/002-docks/plan.md", "# Plan\n\nFirst this.\n")
    place.write("specs/002-docks/spec.md", "# Docks\n\nDocks open when told.\n")
    place.memory("later", "# Later\n\nx", folder="002-docks", created_at="2026-02-02")
    place.memory("early", "# Early\n\ny", folder="002-docks", created_at="2026-01-01")
    workspace = place.open()
    result = workspace.folders(name="002-docks")
    assert [card.title for card in result.documents] == ["Docks", "Plan"]
    assert [card.title for card in result.sessions] == ["Early", "Later"]
    assert result.about == "Docks open when told."
    assert {link.relation.value for link in result.links} == {"caused"}
    with pytest.raises(MemoryNotFound):
        workspace.folders(name="404-none")


def test_sums_by_tier_and_state_add_up_to_all_memories(place: Place) -> None:
    for number, tier in enumerate(("normal", "normal", "critical"), 1):
        place.memory(f"m{number}", f"# M{number}\n\nbody {number}", importance_tier=tier)
    result = place.open().numbers()
    assert {row.name: row.memories for row in result.tiers} == {"critical": 1, "normal": 2}
    assert sum(row.tokens for row in result.states) == sum(row.tokens for row in result.tiers) > 0
    assert [sum(curve.memories) for curve in result.curves] == [1, 2]
    assert all(0 <= left <= 1 for curve in result.curves for left in curve.left)


def test_what_was_sent_to_sessions_is_counted_by_verb_and_for_each_scope_by_itself(place: Place) -> None:
    place.memory("one", "# One\n\nfirst")
    workspace = place.open()
    ada = workspace.for_caller(replace(workspace.caller, scope=Scope(user="ada")))
    for tokens in (100, 50):
        workspace.record_sent("search", tokens)
    ada.record_sent("context", 7)
    observer(workspace).record_sent("load", 9)
    assert [(row.verb, row.answers, row.tokens) for row in workspace.numbers().sent] == [("search", 2, 150)]
    assert [(row.verb, row.tokens) for row in ada.numbers().sent] == [("context", 7)]


def test_a_long_record_of_use_is_summed_up_and_its_old_days_go(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.memory("one", "# One\n\nfirst")
    workspace = place.open()
    monkeypatch.setattr(activity, "_MOST_BYTES", 400)
    now = place.clock()
    old = activity.DayTally(now.date() - timedelta(days=400), activity.USE, "1", 1)
    activity.add(workspace.settings, [old], now=now)
    for _ in range(100):
        activity.add(workspace.settings, [activity.DayTally(now.date(), activity.USE, "1", 1)], now=now)
    assert activity.read(workspace.settings) == [activity.DayTally(now.date(), activity.USE, "1", 100)]
    assert (workspace.settings.state_folder / "activity.jsonl").stat().st_size <= 500


def test_facets_count_all_that_is_found_and_not_only_what_is_shown(place: Place) -> None:
    for number in range(30):
        tier = "important" if number % 2 else "normal"
        place.memory(f"m{number}", f"# Dock {number}\n\nThe dock battery number {number}.", importance_tier=tier)
    result = place.open().facets("dock battery")
    assert (result.total, result.tiers) == (30, {"normal": 15, "important": 15})


def test_facets_count_what_each_further_filter_would_leave(place: Place) -> None:
    for number in range(12):
        tier, kind = "important" if number % 3 else "normal", "decision" if number % 2 else "research"
        text = f"# Dock {number}\n\nThe dock battery number {number}."
        place.memory(f"m{number}", text, importance_tier=tier, context_type=kind)
    workspace = place.open()
    workspace.validate(1, outdated=True)
    all_, important = workspace.facets("dock battery"), workspace.facets("dock battery", tier="important")
    assert (sum(all_.tiers.values()), all_.states["ARCHIVED"]) == (11, 1)  # what is outdated counts by state alone
    assert important.tiers == all_.tiers  # another one may be chosen instead
    found = workspace.search("dock battery", tier="important", limit=50).results
    assert sum(important.types.values()) == len(found) == all_.tiers["important"]
    both = workspace.facets("dock battery", tier="important", context_type="decision")
    assert both.types == important.types
    assert both.tiers == workspace.facets("dock battery", context_type="decision").tiers
    assert sum(workspace.facets("dock battery", include_archived=True).tiers.values()) == 12


EVERYTHING = {"include_archived": True, "min_state": "ARCHIVED"}


def test_a_count_is_what_a_search_with_its_value_finds_with_rules_old_and_expired_memories(place: Place) -> None:
    place.write("constitutional/rule.md", "# Docks stay open\n\nThe dock battery is never locked.\n")
    for number in range(120):
        folder, kind = f"00{number % 3 + 1}-part", "decision" if number % 5 else "research"
        tier = ("normal", "important", "critical", "temporary")[number % 4]
        text = f"# Dock {number}\n\nThe dock battery number {number}."
        place.memory(f"m{number}", text, folder=folder, importance_tier=tier, context_type=kind)
    workspace = place.open()
    place.clock.pass_(days=60)  # those that fade are dormant, and the temporary ones expired
    place.memory("new", "# A new dock\n\nThe dock battery of today.", importance_tier="temporary")
    workspace.index()
    parameters = {"tier": "tiers", "state_filter": "states", "source": "sources", "context_type": "types"}
    for asked in ({}, {"include_archived": True}, {"source": "memory"}, {"state_filter": "DORMANT"}, EVERYTHING):
        counted = workspace.facets("dock battery", **asked)
        for parameter, field in {**parameters, "spec_folder": "folders"}.items():
            counts = getattr(counted, field)
            assert counts, (asked, parameter)
            found = {
                value: workspace.search("dock battery", **{**asked, parameter: value}).total_found for value in counts
            }
            assert counts == found, (asked, parameter)


def test_comparing_reads_the_list_of_memories_once_and_again_after_a_change(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        place.memory(f"m{number}", f"# M{number}\n\nOnly number {number} says this.\n")
    workspace = place.open()
    made: list[int] = []

    def counted(memory_id: int, content_hash: str, tokens: int) -> near_duplicates.ComparedText:
        made.append(memory_id)
        return text_of(memory_id, content_hash, tokens)

    text_of = near_duplicates.ComparedText
    monkeypatch.setattr(near_duplicates, "ComparedText", counted)
    for _ in range(3):
        workspace.care(health=False, seconds=0)
    assert len(made) == 12
    workspace.update(1, title="Another title")
    assert workspace.care(health=False, seconds=0).to_compare == 12
    assert len(made) == 24
