"""What does continuous integration make of a report about vulnerable packages?"""

from __future__ import annotations

import json
from collections.abc import Mapping

from tools.audit import read, verdict

SOUND = {"name": "click", "version": "8.1.7", "vulns": []}
OURS = {"name": "spec-kit-memory", "skip_reason": "not on PyPI"}
UNKNOWN = {"name": "numpy", "skip_reason": "not found on PyPI and could not be audited"}
BAD = {"name": "yarl", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"], "aliases": []}]}


def report(*rows: Mapping[str, object]) -> str:
    return json.dumps({"dependencies": rows, "fixes": []})


def test_a_known_vulnerability_is_named_with_the_version_that_mends_it() -> None:
    audit = read(report(SOUND, BAD, UNKNOWN, OURS))
    assert audit.vulnerable == ("yarl 1.0: PYSEC-1, mended in 1.1",)
    assert "PYSEC-1" in verdict(audit)


def test_packages_that_are_sound_need_no_words() -> None:
    audit = read(report(SOUND, OURS))
    assert (audit.known, audit.unknown, verdict(audit)) == (1, (), "")


def test_what_could_not_be_looked_up_is_not_called_sound() -> None:
    assert "1 packages could not be looked up: numpy" in verdict(read(report(SOUND, UNKNOWN)))
    assert "does not answer" in verdict(read(report(UNKNOWN, OURS)))
