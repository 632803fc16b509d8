"""Which commit last changed a file, what did other files contain then, and is another folder of the same project?

Answered by running git.

The repository is treated as hostile. Git runs in an empty repository of ours, in the user's own folder, that borrows
the other one's objects only: so no configuration, hook, filter, replacement or remote of that repository is ever read.
Objects elsewhere (alternates) or behind a link are not used. Paths follow `--` and are literal; time and output are
bounded, and what is not found in time counts as unknown.

The identity of a project (first commits and remote) only suggests a name that the user gave to another checkout: a
repository can claim any history and any remote, so projects are never joined automatically.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from spec_kit_memory import filesystem, programs
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.files import git
from spec_kit_memory.filesystem import Place
from spec_kit_memory.settings.own_folders import make_private_folder, user_state_folder

MOST_SECONDS = 20.0
MOST_BYTES = 64_000_000
_CONFIG = {
    40: "[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
    64: "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n",
}
_SECTION = re.compile(r'^[ \t]*+\[remote "origin"\][ \t]*+$', re.MULTILINE)
_URL = re.compile(r"^[ \t]*+url[ \t]*+=[ \t]*+(\S(?:.*\S)?)[ \t]*$", re.MULTILINE)
_PORT = re.compile(r":[0-9]+(?=/)")


@dataclass(frozen=True, slots=True)
class Blob:
    hash: str
    size: int


@dataclass(frozen=True, slots=True)
class History:
    """The history of one checkout, from its current commit."""

    program: str
    objects: Path
    commit: str
    prefix: str  # the workspace below the checkout's root, "" or with "/" at its end

    @classmethod
    def of(cls, root: Path) -> History | None:
        """None without git, a repository or a commit, or if its objects are elsewhere."""
        located = git.located(root)
        commit = git.head(root).get("commit", "")
        program = programs.find("git", os.environ)
        if located is None or not commit or program is None:
            return None
        top, objects = located.top, located.common / "objects"
        if Path(program).is_relative_to(top):
            return None  # a `git` that came with the repository
        try:
            if not stat.S_ISDIR(filesystem.look(objects).st_mode) or filesystem.exists(
                objects.joined("info", "alternates")
            ):
                return None
        except OSError:
            return None
        below = root.relative_to(top).as_posix()
        return cls(program, objects.path, commit, "" if below == "." else f"{below}/")

    def first_commits(self, *, seconds: float = MOST_SECONDS) -> list[str]:
        """The root commits of this checkout's history, if they are found in time."""
        command = ("rev-list", "--max-parents=0", self.commit)
        return [commit for commit in self._words(command, seconds=seconds, split="\n") if commit]

    def last_changes(self, paths: Collection[str], *, seconds: float = MOST_SECONDS) -> dict[str, str]:
        """Path -> the newest commit that changed it, of those that are found in time."""
        own_paths = {self.prefix + path: path for path in paths if "\0" not in path}
        areas = sorted({self.prefix + path.split("/", 1)[0] for path in own_paths.values()})
        if not areas:
            return {}
        commits: dict[str, str] = {}
        commit = ""
        command = ("log", "--format=%x01%H", "--name-only", "-z", "--no-renames", self.commit, "--", *areas)
        for word in self._words(command, seconds=seconds):
            name = word.lstrip("\n")
            if name.startswith("\x01"):
                commit = name[1:]
            elif name in own_paths and own_paths[name] not in commits:
                commits[own_paths[name]] = commit
                if len(commits) == len(own_paths):
                    break
        return commits

    def blobs(
        self, files: Sequence[tuple[str, str]], *, seconds: float = MOST_SECONDS
    ) -> Mapping[tuple[str, str], Blob]:
        """(commit, path) -> the blob there at that commit."""
        unique = [file for file in dict.fromkeys(files) if "\n" not in file[1] and "\0" not in file[1]]
        lines = "".join(f"{commit}:{self.prefix}{path}\n" for commit, path in unique)
        output = self._words(("cat-file", "--batch-check"), stdin=lines, seconds=seconds, split="\n")
        blobs: dict[tuple[str, str], Blob] = {}
        for file, line in zip(unique, output, strict=False):
            parts = line.split(" ")
            if len(parts) == 3 and parts[1] == "blob" and parts[2].isdigit():
                blobs[file] = Blob(parts[0], int(parts[2]))
        return blobs

    def _words(self, arguments: Sequence[str], *, stdin: str = "", seconds: float, split: str = "\0") -> Iterator[str]:
        """The output of git, split; it ends when the time or size limit is reached."""
        import subprocess

        try:
            own = _own_repository(len(self.commit))
        except (OSError, SpecKitMemoryError):
            return
        command = [self.program, "--no-pager", "--literal-pathspecs", "-c", "core.quotePath=false", *arguments]
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=own,
                env=self._environment(own),
            )
        except OSError:
            return
        ended = threading.Timer(seconds, process.kill)
        ended.daemon = True
        ended.start()
        data = stdin.encode("utf-8", "surrogateescape")
        feeder = threading.Thread(target=_feed, args=(process.stdin, data), daemon=True)
        feeder.start()
        if process.stdout is None:
            return
        rest, room, mark = b"", MOST_BYTES, split.encode()
        try:
            while room > 0 and (piece := os.read(process.stdout.fileno(), 65_536)):
                room -= len(piece)
                *whole, rest = (rest + piece).split(mark)
                yield from (word.decode("utf-8", "surrogateescape") for word in whole)
        finally:
            ended.cancel()
            process.kill()
            process.wait()
            feeder.join(timeout=5)
            process.stdout.close()

    def _environment(self, own: Path) -> dict[str, str]:
        variables = {name: value for name in ("PATH", "SYSTEMROOT", "TEMP") if (value := os.environ.get(name))}
        return variables | {
            "GIT_DIR": str(own),
            "GIT_OBJECT_DIRECTORY": str(self.objects),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
            "HOME": str(own),
            "LC_ALL": "C",
        }


def _feed(pipe: IO[bytes] | None, data: bytes) -> None:
    """Write the input; git may end before it has read everything."""
    if pipe is not None:
        with suppress(OSError), pipe:
            pipe.write(data)


def _own_repository(hash_length: int) -> Path:
    """Our empty repository, created if missing: git reads no other configuration."""
    base = user_state_folder(otherwise="do without what git knows")
    folder = Place(base, (f"git-{hash_length}",))
    config = _CONFIG[hash_length].encode()
    try:
        if filesystem.read(folder / "config", limit=len(config) + 1)[0] == config and filesystem.exists(
            folder / "HEAD"
        ):
            return folder.path
    except OSError:
        pass
    make_private_folder(base)
    for name in ("objects", "refs"):
        filesystem.make_folders(folder / name)
    filesystem.rewrite(folder / "HEAD", b"ref: refs/heads/none\n")
    filesystem.rewrite(folder / "config", config)
    return folder.path


@dataclass(frozen=True, slots=True)
class Identity:
    """What the checkouts of one project have in common, and hardly any others."""

    first_commits: frozenset[str]
    remote: str  # host and path; "" if there is none

    def is_like(self, other: Identity) -> bool:
        """A common first commit and no differing remotes: a fork is another project."""
        if not self.first_commits & other.first_commits:
            return False
        return not self.remote or not other.remote or self.remote == other.remote


def identity(root: Path) -> Identity | None:
    """None if there is no repository or it has no commit."""
    history = History.of(root)
    if history is None:
        return None
    commits = history.first_commits()
    return Identity(frozenset(commits), _remote(root)) if commits else None


def same_project(root: Path, others: Iterable[Path]) -> Path | None:
    """The first of `others` that is a checkout of the same project."""
    own: Identity | None = None
    for other in others:
        if other == root or not other.is_dir():
            continue
        own = own or identity(root)
        if own is None:
            return None
        others_identity = identity(other)
        if others_identity is not None and own.is_like(others_identity):
            return other
    return None


def _remote(root: Path) -> str:
    located = git.located(root)
    text = git.read(located.common / "config") if located else ""
    section = _SECTION.search(text)
    if section is None:
        return ""
    body = text[section.end() :].split("\n[", 1)[0]
    url = _URL.search(body)
    return "" if url is None else _plain(url[1].strip('"'))


def _plain(url: str) -> str:
    """Host and path of an address in any notation, never with a password."""
    location = url.partition("://")[2] or url
    user, at, rest = location.partition("@")
    if at and "/" not in user:
        location = rest
    host = re.split("[:/]", location, maxsplit=1)[0]
    path = location[len(host) :]
    port = _PORT.match(path)
    path = path[port.end() if port else 0 :].strip(":/").removesuffix(".git")
    return f"{host.lower()}/{path}"
