"""Does any package that we depend on have a known vulnerability?

`python -m tools.audit` looks up the packages of its own interpreter in PyPI's database, with a pip-audit in a separate
environment. A known vulnerability fails the run; a service that cannot be reached is reported and fails it only with
`--needed`, which is for a release.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
AUDITOR = ROOT / "build" / "audit"
INSTALL_SECONDS, ASK_SECONDS = 300, 300


@dataclass(frozen=True, slots=True)
class Audit:
    """The service's report: the number of known packages, unknown packages, and vulnerabilities."""

    known: int
    unknown: tuple[str, ...]
    vulnerable: tuple[str, ...]


def read(report: str) -> Audit:
    """Parse pip-audit's JSON. Our own package, which is not on PyPI before a release, is left out."""
    known, unknown, vulnerable = 0, [], []
    for row in json.loads(report)["dependencies"]:
        if row["name"] == "spec-kit-memory":
            continue
        if "skip_reason" in row:
            unknown.append(row["name"])
            continue
        known += 1
        vulnerable += [_description(row, fault) for fault in row["vulns"]]
    return Audit(known, tuple(unknown), tuple(vulnerable))


def _description(row: dict[str, Any], fault: dict[str, Any]) -> str:
    fixed = ", ".join(fault["fix_versions"]) or "no version yet"
    return f"{row['name']} {row['version']}: {fault['id']}, mended in {fixed}"


def verdict(audit: Audit) -> str:
    """The problems found; empty if every package could be looked up and none is vulnerable."""
    if audit.vulnerable:
        return "\n".join(("known vulnerabilities:", *audit.vulnerable))
    if not audit.known:
        return f"none of {len(audit.unknown)} packages could be looked up: the service does not answer here"
    return f"{len(audit.unknown)} packages could not be looked up: {', '.join(audit.unknown)}" if audit.unknown else ""


def auditor() -> Path:
    """Install pip-audit in an environment of its own, so that it does not change the audited one."""
    python = AUDITOR / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(AUDITOR)], check=True, timeout=INSTALL_SECONDS)
    command = [str(python), "-m", "pip", "install", "--quiet", "pip-audit"]
    subprocess.run(command, check=True, timeout=INSTALL_SECONDS)
    return python


def ask(places: list[str]) -> str:
    command = [str(auditor()), "-m", "pip_audit", "--vulnerability-service", "pypi", "--progress-spinner", "off"]
    command += ["--format", "json", *(part for place in places for part in ("--path", place))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=ASK_SECONDS, check=False)
    if not done.stdout.strip():
        raise OSError(done.stderr.strip().rpartition("\n")[2] or f"pip-audit ended with {done.returncode}")
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--needed", action="store_true", help="fail as well if the service cannot be reached")
    options = parser.parse_args()
    places = [place for place in sys.path if place.endswith("site-packages")]
    try:
        audit = read(ask(places))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        print(f"Not audited: {error}")
        return 1 if options.needed else 0
    problems = verdict(audit)
    print(problems or f"{audit.known} packages, no known vulnerability")
    return 1 if audit.vulnerable or (options.needed and problems) else 0


if __name__ == "__main__":
    sys.exit(main())
