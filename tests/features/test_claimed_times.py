"""Does a file that claims a time nothing can have yet stand before what is really new?"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from spec_kit_memory.core import dates
from tests.features.conftest import Place

# What `created` may say without being a date, or being one that is still to come.
CLAIMS = {
    "the last year": "9999-12-31",
    "the last moment, in another zone": "9999-12-31T23:59:59-14:00",
    "the first moment, in another zone": "0001-01-01T00:00:00+14:00",
    "next year": "2027-03-01",
    "milliseconds": "99999999999999",
    "a number without end": ".inf",
    "more digits than a number has": "9" * 400,
    "a negative number": "-99999999999",
    "a list": "[9999-12-31, 1]",
    "a mapping": "{year: 9999}",
}


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
@pytest.mark.parametrize("tier", ["normal", "temporary"])
def test_a_date_to_come_crowds_out_nothing(place: Place, claim: str, tier: str) -> None:
    place.memory("claims", "# Claims\n\nThe echidna claims.", created=claim, tier=tier)
    place.clock.pass_(days=2)
    place.memory("real", "# Real\n\nThe echidna is real.", created="2026-03-03")
    workspace = place.open()
    assert [Path(card.path).stem for card in workspace.list().memories] == ["real", "claims"]
    assert "The echidna is real." in workspace.load(spec_folder="001-core").text
    assert workspace.health().healthy


def test_a_date_to_come_is_said_and_one_of_another_zone_is_believed(place: Place) -> None:
    place.memory("claims", "# Claims\n\nThe echidna claims.", created="2126-01-01")
    place.memory("tomorrow", "# Tomorrow\n\nThe echidna is ahead.", created="2026-03-02")
    warnings = place.open(index=False).index().warnings
    assert [(Path(warning.path).stem, "2126-01-01 is still to come" in warning.message) for warning in warnings] == [
        ("claims", True)
    ]


@pytest.mark.parametrize(
    "moment_ns", [2**63 + 10**18, 2**62 + 2**61, 0, -(10**18)], ids=["2324", "2189", "1970", "1938"]
)
def test_a_file_of_any_time_is_indexed_once_and_crowds_out_nothing(place: Place, moment_ns: int) -> None:
    path = place.memory("odd", "# Odd\n\nThe echidna has an odd time.")
    os.utime(path, ns=(moment_ns, moment_ns))
    workspace = place.open()
    assert not workspace.index().modified
    assert workspace.health().healthy
    place.clock.pass_(days=1)
    place.memory("real", "# Real\n\nThe echidna is real.")
    workspace.index()
    assert [Path(card.path).stem for card in workspace.list().memories] == ["real", "odd"]


@pytest.mark.parametrize(
    "time", ["9999-12-31T23:59:59-14:00", "2126-01-01T00:00:00Z", 253402300799, 10**400, -(10**30)]
)
def test_a_turn_of_a_time_to_come_neither_leads_nor_keeps_what_follows_out(
    place: Place, tmp_path: Path, time: object
) -> None:
    def transcript(*turns: tuple[str, object]) -> Path:
        path = tmp_path / "talk.jsonl"
        lines = [{"role": "user", "content": text, "timestamp": at, "session_id": "talk"} for text, at in turns]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return path

    first = ("about the echidna", "2026-02-01T10:00:00Z")
    workspace = place.open()
    workspace.chat_import([transcript(first, ("from far away", time))])
    place.memory("real", "# Real\n\nThe echidna is real.", created="2026-02-28")
    workspace.index()
    assert [card.title for card in workspace.list().memories] == ["Real", "about the echidna"]
    workspace.chat_import([transcript(first, ("what was said since", "2026-02-02T10:00:00Z"))])
    assert "what was said since" in workspace.load(workspace.chat_list().memories[0].id).text


def test_only_what_is_more_than_a_day_ahead_is_to_come() -> None:
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert not dates.is_in_future(datetime(2026, 3, 2, 12, tzinfo=UTC), now=now)
    assert dates.is_in_future(datetime(2026, 3, 2, 12, 0, 1, tzinfo=UTC), now=now)
    assert not dates.is_in_future(datetime.min.replace(tzinfo=UTC), now=now)
    assert dates.is_in_future(datetime.max.replace(tzinfo=UTC), now=now)
