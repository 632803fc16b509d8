"""Does detection put a memory file back into the spec folder it was taken from?

    python -m benchmarks.alignment WORKSPACE_DIR

Each memory file of a spec folder is taken away and read as a conversation: its body without front
matter and metadata, without every line that names the folder (its path, its last part, or the words of
that part in a row), and without lines that five or more files share. Folders are described by their
other documents only, up to 40,000 characters each. A file whose folder has no other document cannot be
put back, one of which next to nothing remained cannot be told by anyone; both are counted apart. No
dates are used, so recency says nothing here.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from spec_kit_memory.core.alignment import Profile, align, decide, profile, talk
from spec_kit_memory.core.markdown import parse

SHARED_BY = 5
FEWEST_WORDS = 40
SPEC_DOCUMENTS = frozenset(
    f"{name}.md"
    for name in (
        "spec",
        "plan",
        "tasks",
        "checklist",
        "decision-record",
        "implementation-summary",
        "research",
        "handover",
    )
)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def body_of(path: Path) -> list[str]:
    document = parse(path.read_text(encoding="utf-8", errors="replace"))
    return document.text.split("\n")[document.body_first_line - 1 :]


def folder_of(path: Path) -> str:
    """The nearest folder above that is named like a spec folder."""
    above = path.as_posix().rsplit("/specs/", 1)[-1].split("/")[:-1]
    numbered = [at for at, segment in enumerate(above, start=1) if re.match(r"\d{3}-", segment)]
    return "/".join(above[: numbered[-1]]) if numbered else ""


def counts(path: Path) -> bool:
    """A memory file or a spec document, which is what the index holds of a folder."""
    parts = path.as_posix().rsplit("/specs/", 1)[-1].split("/")
    if "scratch" in parts or not folder_of(path):
        return False
    return parts[-2] == "memory" or parts[-1] in SPEC_DOCUMENTS


def without_name(lines: list[str], folder: str) -> list[str]:
    last = folder.rsplit("/", 1)[-1]
    topic = re.sub(r"^\d+-", "", last)
    names = re.compile("|".join((re.escape(last), r"[\s_/-]*".join(map(re.escape, topic.split("-"))))), re.IGNORECASE)
    return [line for line in lines if not names.search(line)]


def load(root: Path) -> dict[str, dict[Path, str]]:
    """Folder -> its documents without the lines that many files share."""
    paths = [path for path in sorted(root.rglob("specs/**/*.md")) if counts(path)]
    bodies = {path: body_of(path) for path in paths}
    shared = Counter(line for lines in bodies.values() for line in {line.strip() for line in lines} if line)
    folders: dict[str, dict[Path, str]] = {}
    for path, lines in bodies.items():
        kept = [line for line in lines if shared[line.strip()] < SHARED_BY]
        folders.setdefault(folder_of(path), {})[path] = "\n".join(kept)
    return folders


def related(one: str, other: str) -> bool:
    return one.startswith(f"{other}/") or other.startswith(f"{one}/")


def described(name: str, documents: dict[Path, str]) -> Profile:
    return profile(name, {path.name: text for path, text in documents.items()})


def main(workspace: str) -> None:
    folders = load(Path(workspace).resolve())
    started = time.process_time()
    profiles = {name: described(name, documents) for name, documents in folders.items()}
    seconds_profiles = time.process_time() - started
    ranks: list[int] = []
    outcomes: Counter[str] = Counter()
    right: Counter[str] = Counter()
    alone = silent = family = 0
    started = time.process_time()
    for name, documents in folders.items():
        for path, text in documents.items():
            if path.parent.name != "memory":
                continue
            rest = {other: body for other, body in documents.items() if other != path}
            if not any(rest.values()):
                alone += 1
                continue
            said = talk("\n".join(without_name(text.split("\n"), name)))
            if len(said.words) < FEWEST_WORDS:
                silent += 1
                continue
            others = [profiles[other] for other in profiles if other != name]
            results = align(said, [*others, described(name, rest)], now=NOW)
            ranks.append(next(at for at, entry in enumerate(results, start=1) if entry.folder == name))
            family += results[0].folder == name or related(results[0].folder, name)
            decision = decide(results)
            outcomes[decision.outcome] += 1
            right[decision.outcome] += (decision.folder or results[0].folder) == name
    each = (time.process_time() - started) / max(1, len(ranks))
    total = len(ranks)
    print(
        f"{len(folders)} folders, {total} memory files put back; left out: {alone} whose folder has no other document, "
        f"{silent} of which fewer than {FEWEST_WORDS} different words remained"
    )
    print(
        f"top 1 {sum(rank == 1 for rank in ranks) / total:.1%}, top 3 {sum(rank <= 3 for rank in ranks) / total:.1%}, "
        f"the best folder is the right one, its parent or its child {family / total:.1%}"
    )
    for outcome, count in outcomes.most_common():
        print(f"{outcome}: {count} files, the best folder was right in {right[outcome] / count:.1%}")
    print(f"profiles of all folders {seconds_profiles:.1f} s, one detection {1000 * each:.0f} ms")


if __name__ == "__main__":
    main(sys.argv[1])
