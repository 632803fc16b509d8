"""Which share of labelled secrets is found, and which share of harmless text is wrongly redacted?

    python -m benchmarks.secrets [--show]

Reads `tests/corpus/secrets/*.txt`. A case starts with a line `=== kind | where it stands`; ⟦ and ⟧ enclose what
must go. A middle dot is left out on reading: with it in place, no scanner of anybody takes these made-up values for
real ones. `--show` prints every case that is judged wrongly.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from spec_kit_memory.core.redact import redact

CORPUS = Path(__file__).parents[1] / "tests" / "corpus" / "secrets"
SETS = ("tuned", "held-out", "newer", "unforeseen", "disguised")
_MARKED = re.compile("⟦([^⟧]+)⟧")
_PIECE = re.compile(r"[^\W_]{4,}")
_MARK = re.compile(r"\[REDACTED:[^\]]*\]")


@dataclass(frozen=True)
class Case:
    """A text with the secrets in it; none where the kind is harmless."""

    kind: str
    where: str
    text: str
    secrets: tuple[str, ...]
    around: tuple[str, ...]  # what stands before, between and behind the secrets


@dataclass(frozen=True)
class Verdict:
    case: Case
    redacted: str
    missed: tuple[str, ...]  # secrets of which something is left
    lost: bool  # more went than the secrets


@dataclass(frozen=True)
class Share:
    """How a set was judged."""

    secrets: int
    kinds: int
    found: float
    surroundings_kept: float  # of the cases with secrets
    harmless: int
    wrongly_redacted: float


def cases(name: str) -> list[Case]:
    text = (CORPUS / f"{name}.txt").read_text(encoding="utf-8").replace("·", "")
    return [_case(block) for block in re.split("^=== ", text, flags=re.MULTILINE)[1:]]


def _case(block: str) -> Case:
    head, _, body = block.partition("\n")
    kind, _, where = head.partition(" | ")
    parts = _MARKED.split(body.rstrip("\n"))
    return Case(kind, where, "".join(parts), tuple(parts[1::2]), tuple(parts[::2]))


def judge(case: Case) -> Verdict:
    redacted = redact(case.text).text
    outside = "\n".join(case.around)
    left = _MARK.sub("", redacted)
    missed = tuple(secret for secret in case.secrets if _survives(secret, left, outside))
    return Verdict(case, redacted, missed, lost=not _in_order(case.around, redacted))


def _survives(secret: str, left: str, outside: str) -> bool:
    """Is the secret, or any word of it, left where it stood?"""
    pieces = _PIECE.findall(secret) or [secret]
    return any(left.count(piece) > outside.count(piece) for piece in pieces)


def _in_order(parts: Iterable[str], text: str) -> bool:
    at = 0
    for part in parts:
        at = text.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def share(verdicts: list[Verdict]) -> Share:
    guilty = [verdict for verdict in verdicts if verdict.case.secrets]
    harmless = [verdict for verdict in verdicts if not verdict.case.secrets]
    secrets = sum(len(verdict.case.secrets) for verdict in guilty)
    missed = sum(len(verdict.missed) for verdict in guilty)
    return Share(
        secrets=secrets,
        kinds=len({verdict.case.kind for verdict in guilty}),
        found=1 - missed / secrets,
        surroundings_kept=1 - sum(verdict.lost for verdict in guilty) / len(guilty),
        harmless=len(harmless),
        wrongly_redacted=sum(verdict.redacted != verdict.case.text for verdict in harmless) / len(harmless),
    )


def _show(verdicts: list[Verdict]) -> None:
    for verdict in verdicts:
        case = verdict.case
        wrong = "missed" if verdict.missed else "too much" if verdict.lost or not case.secrets else ""
        if wrong and (case.secrets or verdict.redacted != case.text):
            print(f"--- {wrong}: {case.kind} | {case.where}\n{case.text}\n->\n{verdict.redacted}\n")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--show", action="store_true", help="print the cases that are judged wrongly")
    options.add_argument("--set", choices=SETS, help="only this one")
    arguments = options.parse_args()
    print("| set | secrets | kinds | found | surroundings kept | harmless | wrongly redacted |")
    print("|---|---|---|---|---|---|---|")
    for name in SETS if arguments.set is None else (arguments.set,):
        started = time.perf_counter()
        verdicts = [judge(case) for case in cases(name)]
        took = time.perf_counter() - started
        actual = share(verdicts)
        print(
            f"| {name} | {actual.secrets} | {actual.kinds} | {100 * actual.found:.1f} % "
            f"| {100 * actual.surroundings_kept:.1f} % | {actual.harmless} "
            f"| {100 * actual.wrongly_redacted:.1f} % |   {1000 * took:.0f} ms"
        )
        if arguments.show:
            _show(verdicts)


if __name__ == "__main__":
    main()
