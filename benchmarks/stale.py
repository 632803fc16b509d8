"""How many notes of a repository name code that has changed since they were written?

    python -m benchmarks.stale REPOSITORY --notes GLOB... [--every N]

The repository is cloned, its notes are indexed as memories, and each file that a note names is compared with what it
was at the commit that last changed the note. Of every n-th stale file the commits since then are printed, so that a
person can look whether the note is really out of date.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

from spec_kit_memory.features import remarks
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("repository", type=Path)
    parser.add_argument("--notes", action="append", default=[], metavar="GLOB", help="files that are notes")
    parser.add_argument("--every", type=int, default=5, help="show every n-th stale file with its commits")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        root = Path(place).resolve() / "clone"
        git(Path(place), "clone", "-q", "--no-hardlinks", str(arguments.repository.resolve()), str(root))
        settings = Settings(root=root, semantic=Semantic(model="none"), watch="off", extra_paths=tuple(arguments.notes))
        with Workspace(settings) as workspace:
            answer = workspace.index()
            runtime = workspace._runtime
            memories = {memory.id: memory for memory in runtime.store.documents.find() if memory.cited}
            results = remarks.code_of(runtime, memories.values())
            files = sum(len(memory.cited) for memory in memories.values())
            dated = sum(bool(file.commit) for memory in memories.values() for file in memory.cited)
            changed, gone, moved = (
                sum(len(getattr(code, kind)) for code in results.values()) for kind in ("changed", "gone", "moved")
            )
            print(f"{answer.new} notes, {len(memories)} name {files} files ({dated} as of the commit of their note)")
            print(f"{len(results)} notes are stale: {changed} files changed, {gone} gone, {moved} moved")
            named = {
                id_: {*code.changed, *code.gone, *(item.split(" -> ")[0] for item in code.moved)}
                for id_, code in results.items()
            }
            agree = sum(
                (file.path in named.get(id_, ()))
                == bool(git(root, "diff", "--name-only", file.commit, "HEAD", "--", file.path))
                for id_, memory in memories.items()
                for file in memory.cited
                if file.commit
            )
            print(f"git diff says the same of {agree} of those {dated} files")
            stale = [
                (memories[id_].path, file)
                for id_, code in results.items()
                for file in memories[id_].cited
                if file.path in (*code.changed, *code.gone)
            ]
            for note, file in stale[:: arguments.every]:
                since = git(root, "log", "--oneline", f"{file.commit}..HEAD", "--", file.path).splitlines()
                print(f"\n{note} names {file.path}: {len(since)} commits since {file.commit[:10]}")
                for line in since[:3]:
                    print(f"    {line[:110]}")


if __name__ == "__main__":
    main()
