"""Real git repositories on disk for tests: bare ones that servers and people push to."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Remote"]

_ENVIRONMENT = {
    **os.environ,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "Ana",
    "GIT_AUTHOR_EMAIL": "ana@people.example",
    "GIT_COMMITTER_NAME": "Ana",
    "GIT_COMMITTER_EMAIL": "ana@people.example",
}


@dataclass(frozen=True)
class Remote:
    folder: Path

    @classmethod
    def made(cls, folder: Path, files: Mapping[str, str | None] | None = None) -> Remote:
        folder.mkdir(parents=True)
        remote = cls(folder)
        remote.git("init", "--bare", "--quiet", "--initial-branch=main", ".")
        remote.commit(files if files is not None else {"memory/first.md": "# First\n\nThe first note of all.\n"})
        return remote

    def git(
        self, *arguments: str, data: bytes = b"", more: dict[str, str] | None = None, allowed: Sequence[int] = (0,)
    ) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.folder,
            input=data,
            capture_output=True,
            env={**_ENVIRONMENT, **(more or {})},
            check=False,
            timeout=120,
        )
        assert done.returncode in allowed, done.stderr.decode()
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    def blob(self, data: bytes) -> str:
        return self.git("hash-object", "-w", "--stdin", data=data)

    def tip(self, branch: str = "main") -> str | None:
        result = self.git("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")
        return result or None

    def commit(
        self, files: Mapping[str, str | None], *, branch: str = "main", force: bool = False, mode: str = "100644"
    ) -> str:
        """A person's push: these files with that text, or gone. `force`: as if there had been nothing before."""
        while True:
            old = self.tip(branch)
            made = self._committed(files, None if force else old, mode=mode)
            try:  # only if nobody pushed meanwhile, as a real push does it
                self.git("update-ref", f"refs/heads/{branch}", made, old or "0" * 40)
                return made
            except AssertionError:
                if self.tip(branch) == old:
                    raise

    def _committed(self, files: Mapping[str, str | None], tip: str | None, *, mode: str) -> str:
        more = {"GIT_INDEX_FILE": str(self.folder / "person.index")}
        self.git("read-tree", *([tip] if tip else ["--empty"]), more=more)
        lines = "".join(
            f"0 {'0' * 40}\t{path}\n" if text is None else f"{mode} {self.blob(text.encode())}\t{path}\n"
            for path, text in files.items()
        )
        self.git("update-index", "--index-info", data=lines.encode(), more=more)
        tree = self.git("write-tree", more=more)
        return self.git("commit-tree", tree, *(["-p", tip] if tip else []), data=b"A person's change\n")

    def push_tree(self, tree: str, *, branch: str = "main") -> None:
        made = self.git("commit-tree", tree, data=b"Anything\n")
        self.git("update-ref", f"refs/heads/{branch}", made)

    def text(self, path: str, *, branch: str = "main") -> str | None:
        listed = self.git("ls-tree", "-r", "--name-only", branch, "--", path)
        return self.git("show", f"{branch}:{path}") if listed else None

    def operations(self, *, branch: str = "main") -> list[str]:
        """The ids of all operations that were put into this branch, with repetitions."""
        form = "--format=%(trailers:key=Spec-Kit-Memory-Operation,valueonly=true)"
        return [line for line in self.git("log", form, branch).splitlines() if line]

    def hook(self, text: str) -> None:
        hook = self.folder / "hooks" / "pre-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        hook.chmod(0o755)
