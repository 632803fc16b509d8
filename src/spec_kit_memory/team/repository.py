"""How is git used on an untrusted repository? Plumbing on a bare clone: nothing is checked out, nothing runs.

Git gets no configuration except the operator's credentials (a file that `SPEC_KIT_MEMORY_GIT_CONFIG` names), no hooks,
no file system monitor, no prompts, no submodules, no filters; only https, ssh and, for a path that the operator named,
files. What is transferred is checked (fsck), and time, size and entries are limited.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from spec_kit_memory import filesystem
from spec_kit_memory.errors import AccessDenied
from spec_kit_memory.filesystem import Place
from spec_kit_memory.settings import make_private_folder
from spec_kit_memory.team.bounded_process import Bounds, TooMuchOutputError, run_bounded
from spec_kit_memory.team.projects import Project, is_address
from spec_kit_memory.team.scratch import remove_folder

_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SHA_1, _SHA_256 = 40, 64  # characters
_FILE_MODES = ("100644", "100755")
_SECRET = re.compile(r"(?<=://)[^/\s]*@")
_MOVED = re.compile(r"returned error: 30[12378]\b")
_UNREAD = "Could not read from remote repository"
_ADVICE_ON_READING = ("Please make sure you have the correct access rights", "and the repository exists")
_LIST = ("ls-tree", "-z", "--full-tree")
_BLOCK = 4096
_ENTRY_BYTES = 2_000  # the most per line of a listing, on average
_MOST_PACK_FILES, _MOST_LOOSE_OBJECTS = 100, 7_000
COMMITTER = "Spec Kit Memory"


class GitError(AccessDenied):
    """A git command failed, or its result cannot be used; the message gives the reason."""


class GitTimeoutError(GitError):
    """A git command took too long and was killed; whether a push of it was accepted is not known."""


class OccupiedError(GitError):
    """Git has something else at the path of a memory's file or a folder above it; `path` is where."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True, slots=True)
class GitLimits:
    seconds: float = 300.0  # for one command
    clone_bytes: int = 2 << 30
    entries: int = 200_000  # in one tree
    blob_bytes: int = 1 << 20  # the size limit of a memory


@dataclass(frozen=True, slots=True)
class TreeFile:
    """A regular file of a tree; `name` is its path in bytes."""

    name: bytes
    blob: str
    size: int


class Repository:
    """The bare clone of one project, in the server's own folder."""

    def __init__(
        self, folder: Path, project: Project, *, domain: str = "localhost", limits: GitLimits | None = None
    ) -> None:
        self.folder = folder
        self.project = project
        self.limits = limits or GitLimits()
        self._domain = domain
        self._remote = project.repository
        self._is_file = not is_address(project.repository)
        self._trailers: dict[str, tuple[str, dict[str, str]]] = {}  # key -> commit, and the trailers in its history

    # --- commands

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        inherited = (
            "PATH",
            "HOME",
            "SSH_AUTH_SOCK",
            "SSL_CERT_FILE",
            "SSL_CERT_DIR",
            "HTTPS_PROXY",
            "https_proxy",
            "TMPDIR",
        )
        return {
            **{name: os.environ[name] for name in inherited if name in os.environ},
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.environ.get("SPEC_KIT_MEMORY_GIT_CONFIG", os.devnull),
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "true",
            "SSH_ASKPASS": "true",
            "GIT_SSH_COMMAND": os.environ.get("SPEC_KIT_MEMORY_GIT_SSH", "ssh -oBatchMode=yes"),
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            **more,
        }

    def _command(self, arguments: Sequence[str]) -> list[str]:
        allowed = {"protocol.allow": "never", "protocol.https.allow": "always", "protocol.ssh.allow": "always"}
        if self._is_file:
            allowed["protocol.file.allow"] = "always"
        settings = {
            **allowed,
            "core.hooksPath": os.devnull,
            "core.fsmonitor": "false",
            "core.attributesFile": os.devnull,
            "core.excludesFile": os.devnull,
            "core.quotePath": "false",
            "credential.interactive": "false",
            "fetch.recurseSubmodules": "false",
            "submodule.recurse": "false",
            "transfer.fsckObjects": "true",
            "fetch.fsckObjects": "true",
            "receive.fsckObjects": "true",
            # These findings do not refuse a fetch: such entries are skipped when a tree is read.
            **{f"fetch.fsck.{name}": "ignore" for name in _SKIPPED_WHEN_READ},
            "core.bigFileThreshold": "16m",  # larger ones are streamed, not held in memory
            "fetch.unpackLimit": "1",  # a transfer is one pack file, whose size is limited
            "gc.auto": "0",
            "gc.autoDetach": "false",
            "maintenance.auto": "false",
            "http.followRedirects": "false",  # credentials for one host are not sent to another
            "http.lowSpeedLimit": "1000",
            "http.lowSpeedTime": "60",
            "user.useConfigOnly": "true",
            "commit.gpgSign": "false",
            "push.gpgSign": "false",
            "trailer.separators": ":",
            "safe.bareRepository": "explicit",
            "safe.directory": "*",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return ["git", f"--git-dir={self.folder}", "--no-pager", "--literal-pathspecs", *options, *arguments]

    def run(
        self,
        *arguments: str,
        data: bytes = b"",
        more: Mapping[str, str] | None = None,
        allowed: Sequence[int] = (0,),
        bounds: Bounds | None = None,
    ) -> bytes:
        try:
            done = run_bounded(
                self._command(arguments),
                data=data,
                environment=self._environment(more or {}),
                folder=self.folder.parent,
                bounds=bounds or Bounds(self.limits.seconds, file_bytes=self.limits.clone_bytes),
            )
        except subprocess.TimeoutExpired as error:
            raise GitTimeoutError(f"git {arguments[0]} took more than {self.limits.seconds:.0f} seconds") from error
        except TooMuchOutputError as error:
            raise GitError(f"git {arguments[0]} says more than is read") from error
        except OSError as error:
            raise GitError(f"git cannot be run: {error.strerror}", hint="install git on the server") from error
        if done.code not in allowed:
            raise GitError(_reason(arguments[0], done.errors).replace(str(self.folder), "the server's clone"))
        return done.output

    def _text(self, *arguments: str, data: bytes = b"", more: Mapping[str, str] | None = None) -> str:
        return self.run(*arguments, data=data, more=more).decode("utf-8", "replace").strip()

    # --- reading

    def fetch(self) -> dict[str, str | None]:
        """Fetch the branches; returns the commit of each, None if the repository has no such branch."""
        make_private_folder(self.folder.parent)
        self._remove_old_locks()
        branches = list(dict.fromkeys((self.project.branch, self.project.save_branch)))
        listed = self._text(
            "ls-remote", "--quiet", "--heads", "--", self._remote, *(f"refs/heads/{b}" for b in branches)
        )
        present = {line.partition("\t")[2]: line.partition("\t")[0] for line in listed.splitlines()}
        self._make_clone(next(iter(present.values()), None))
        specs = [f"+refs/heads/{b}:refs/heads/{b}" for b in branches if f"refs/heads/{b}" in present]
        if specs:
            self._transfer(specs)
            self._tidy()
        tips = {branch: self.commit(branch) if f"refs/heads/{branch}" in present else None for branch in branches}
        for branch, commit in tips.items():
            if commit is None and f"refs/heads/{branch}" in present:
                raise GitError(f"git fetch: the branch {branch} is there and was not given")
        return tips

    def other_branches(self) -> list[str]:
        """The branches that the repository has beside those of the project."""
        own = {self.project.branch, self.project.save_branch}
        listed = self._text("ls-remote", "--quiet", "--heads", "--", self._remote).splitlines()
        return sorted({line.partition("\trefs/heads/")[2] for line in listed} - own)

    def _make_clone(self, commit: str | None) -> None:
        """Create the clone with the repository's hash algorithm, which is unknown before its first commit."""
        kind = "sha256" if commit is not None and len(commit) == _SHA_256 else "sha1"
        if (self.folder / "HEAD").is_file():
            present = self._hash_algorithm()
            if present == kind or (present and commit is None):
                return
            remove_folder(self.folder)
        self.run("init", "--bare", "--quiet", "--template=", f"--object-format={kind}", "--", str(self.folder))

    def _hash_algorithm(self) -> str:
        """Empty if this is no repository: git was killed while it created it."""
        return self.run("rev-parse", "--show-object-format", allowed=(0, 128)).decode().strip()

    def _remove_old_locks(self) -> None:
        """Remove the locks of git commands that were killed, with which every later command would fail.

        No command runs longer than the limit, so what is older belongs to none.
        """
        for folder, folders, names in os.walk(self.folder):
            if folder == str(self.folder / "objects"):
                folders[:] = [name for name in folders if name in ("info", "pack")]
            for name in names:
                place = Place(self.folder, (*Path(folder).relative_to(self.folder).parts, name))
                if name.endswith(".lock") and self._is_old(place):
                    filesystem.remove(place)

    def _is_old(self, place: Place) -> bool:
        facts = filesystem.look(place)
        return facts is not None and time.time() - facts.st_mtime > self.limits.seconds

    def commit(self, branch: str) -> str | None:
        listing = self.run(
            "rev-parse",
            "--quiet",
            "--verify",
            "--end-of-options",
            f"refs/heads/{branch}^{{commit}}",
            allowed=(0, 1, 128),  # 128: there is no clone yet
        )
        text = listing.decode().strip()
        return text if _HASH.fullmatch(text) else None

    def _transfer(self, specs: Sequence[str]) -> None:
        """Fetch these, and abort when the clone gets too large; the next fetch then starts from scratch."""
        for name in self._packs():  # left by an aborted transfer
            if name.startswith("tmp_"):
                filesystem.remove(Place(self._pack_folder, (name,)))
        most = self.limits.clone_bytes
        left = most - sum(self._packs().values())
        command = ("fetch", "--quiet", "--no-tags", "--no-auto-gc", "--no-recurse-submodules", "--update-shallow", "--")
        problem: GitError | None = None
        try:
            self.run(*command, self._remote, *specs, bounds=Bounds(self.limits.seconds, file_bytes=left))
        except GitError as error:
            problem = error
        if sum(self._packs().values()) > most - _BLOCK:
            remove_folder(self.folder)
            raise GitError(f"the repository has more than {most:,} bytes, which is all that is read") from problem
        if problem is not None:
            raise problem

    @property
    def _pack_folder(self) -> Path:
        return self.folder / "objects" / "pack"

    def _packs(self) -> dict[str, int]:
        """The files in the pack folder, including those of aborted transfers, and their sizes."""
        try:
            return {entry.name: entry.stat().st_size for entry in os.scandir(self._pack_folder)}
        except FileNotFoundError:
            return {}

    def _tidy(self) -> None:
        """Repack occasionally, as every fetch leaves a pack and every commit of ours some loose objects."""
        loose = self.folder / "objects" / "17"  # one of the 256 folders of loose objects
        objects = len(list(loose.iterdir())) if loose.is_dir() else 0
        if len(self._packs()) > _MOST_PACK_FILES or objects > _MOST_LOOSE_OBJECTS // 256:
            self.run("gc", "--quiet")

    def tree(self, commit: str) -> tuple[list[TreeFile], dict[str, int]]:
        """The regular files of a commit, and how many entries of each other kind there are."""
        entries: list[TreeFile] = []
        skipped: dict[str, int] = {}
        for line in self._listed("-l", commit):
            facts, _, name = line.partition(b"\t")
            mode, kind, blob, size = facts.decode("ascii", "replace").split()
            if mode not in _FILE_MODES or kind != "blob":
                reason = {"120000": "links", "160000": "submodules"}.get(mode, "other kinds")
                skipped[reason] = skipped.get(reason, 0) + 1
            else:
                entries.append(TreeFile(name, blob, int(size) if size.isdigit() else -1))
        return entries, skipped

    def _listed(self, *arguments: str) -> Iterator[bytes]:
        """All entries of a tree, recursively. Raises if there are too many: a small tree may expand without end."""
        entries = self.limits.entries
        bounds = Bounds(self.limits.seconds, file_bytes=_BLOCK, output_bytes=entries * _ENTRY_BYTES, records=entries)
        try:
            yield from filter(None, self.run(*_LIST, "-r", *arguments, bounds=bounds).split(b"\0"))
        except GitError as error:
            if isinstance(error.__cause__, TooMuchOutputError):
                raise GitError(f"a tree of more than {entries:,} entries is not read") from error
            raise

    def require_listable(self, commit: str) -> None:
        """Raise if a tree has more entries than are read."""
        for _ in self._listed("--name-only", commit):
            return

    def _lines(self, *arguments: str) -> Iterator[bytes]:
        yield from filter(None, self.run(*arguments).split(b"\0"))

    def blobs(self, hashes: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """The contents of these blobs, a hundred at a time."""
        for start in range(0, len(hashes), 100):
            some = hashes[start : start + 100]
            out = self.run("cat-file", "--batch", data="".join(f"{item}\n" for item in some).encode())
            at = 0
            for wanted in some:
                end = out.index(b"\n", at)
                name, kind, size = out[at:end].decode().split()
                if (name, kind) != (wanted, "blob"):
                    raise GitError(f"the blob {wanted} cannot be read")
                at = end + 1 + int(size) + 1
                yield wanted, out[end + 1 : at - 1]

    def blob_at(self, commit: str, path: str) -> bytes | None:
        """The contents of one file; None if there is none. Raises if it is too large or no regular file."""
        # With -t, existing folders above the path are listed as well.
        listed = [line.partition(b"\t") for line in self._lines(*_LIST, "-l", "-t", commit, "--", path)]
        entries = {name.decode("utf-8", "surrogateescape"): facts.decode().split() for facts, _, name in listed}
        if path not in entries:
            self._require_folders(commit, path, present=entries)
            return None
        mode, kind, blob, size = entries[path]
        if mode not in _FILE_MODES or kind != "blob":
            raise OccupiedError(path, f"{path} is no regular file in git")
        if int(size) > self.limits.blob_bytes:
            raise OccupiedError(path, f"{path} has {int(size):,} bytes in git")
        return next(iter(self.blobs([blob])))[1]

    def _require_folders(self, commit: str, path: str, *, present: Collection[str]) -> None:
        """Raise if a file, link or submodule has the name of a folder above the path: writing would replace it."""
        above = [folder.as_posix() for folder in PurePosixPath(path).parents][-2::-1]
        missing = next((folder for folder in above if folder not in present), None)
        if missing is not None and self.has(commit, missing):
            raise OccupiedError(missing, f"{missing} is no folder in git")

    def has(self, commit: str, path: str) -> bool:
        """Is there any entry at that path?"""
        return any(self._lines(*_LIST, commit, "--", path))

    def has_file(self, commit: str, path: str) -> bool:
        """Is there a regular file at that path? No link is followed."""
        return any(line.split(b" ", 1)[0].decode() in _FILE_MODES for line in self._lines(*_LIST, commit, "--", path))

    def trailers(self, commit: str, key: str) -> dict[str, str]:
        """The values of this trailer in the history of a commit -> the commit that has it.

        By ancestry alone, since commit dates come from clocks that may be wrong. Only commits that are new since the
        last call are read.
        """
        seen, earlier = self._trailers.get(key, (None, {}))
        if seen is None or not self.is_ancestor(seen, commit):
            seen, earlier = None, {}
        form = f"--format=%H%x00%(trailers:key={key},valueonly=true,separator=%x2c)"
        only = ("--fixed-strings", f"--grep={key}: ")
        range_ = [commit, *([f"^{seen}"] if seen else [])]
        results: dict[str, str] = {}
        for line in self._text("log", *only, form, "--end-of-options", *range_).splitlines():
            name, _, values = line.partition("\0")
            results |= {value.strip(): name for value in values.split(",") if value.strip()}
        self._trailers[key] = commit, results | earlier  # for a trailer that was copied, the oldest commit counts
        return self._trailers[key][1]

    def touches(self, commit: str, path: str) -> bool:
        """Did this commit change anything at that path?"""
        plain = ("--no-commit-id", "--name-only", "--no-renames", "-r", "-m", "--root", "-z")
        return any(self._lines("diff-tree", *plain, "--end-of-options", commit, "--", path))

    def has_commit(self, commit: str) -> bool:
        """Is this commit in the clone?"""
        verified = ("rev-parse", "--quiet", "--verify", "--end-of-options", f"{commit}^{{commit}}")
        return bool(self.run(*verified, allowed=(0, 1, 128)).strip())

    def is_ancestor(self, one: str, other: str) -> bool:
        """Is the first commit in the history of the second? One that is not in this clone is in none."""
        return one == other or (self.has_commit(one) and self.merge_base(one, other) == one)

    def not_in(self, heads: Sequence[str], commits: Collection[str]) -> set[str]:
        """Those of `commits` that are not in the history of any of the heads."""
        if not commits:
            return set()
        listed = self._text("cat-file", "--batch-check", data="".join(f"{commit}\n" for commit in commits).encode())
        present = {line.split()[0] for line in listed.splitlines() if line.split()[1:2] == ["commit"]}
        revisions = [*present, *(f"^{head}" for head in heads)]
        outside = self._text("rev-list", "--stdin", data="".join(f"{revision}\n" for revision in revisions).encode())
        return (set(commits) - present) | (present & set(outside.splitlines()))

    def changes(self, since: str, commit: str, path: str) -> bool:
        """Does a commit in the history of `commit`, and not of `since`, change this path?"""
        range_ = ("--end-of-options", commit, f"^{since}", "--", path)
        return bool(self._text("rev-list", "--max-count=1", "--full-history", *range_))

    def merge_base(self, one: str, other: str) -> str | None:
        """The merge base of two commits; None if they have no common history."""
        bases = self.run("merge-base", "--end-of-options", one, other, allowed=(0, 1)).decode().split()
        return bases[0] if bases and _HASH.fullmatch(bases[0]) else None

    # --- writing

    def with_files(self, commit: str | None, files: Mapping[str, bytes | None], index_file: Path) -> str:
        """The tree of a commit with these files in it, or without those that are None."""
        more = {"GIT_INDEX_FILE": str(index_file)}
        self.run("read-tree", *([commit] if commit else ["--empty"]), more=more)
        lines, none = [], "0" * (_SHA_256 if self._hash_algorithm() == "sha256" else _SHA_1)
        for path, data in files.items():
            if data is None:
                lines.append(f"0 {none}\t{path}\0")
            else:
                blob = self._text("hash-object", "-w", "--stdin", "--no-filters", data=data)
                lines.append(f"100644 {blob} 0\t{path}\0")
        self.run("update-index", "-z", "--index-info", data="".join(lines).encode(), more=more)
        return self._text("write-tree", more=more)

    def commit_tree(self, tree: str, parent: str | None, message: str, *, author: str | None, at: str) -> str:
        name, address = self._person(author)
        more = {
            "GIT_AUTHOR_NAME": name,
            "GIT_AUTHOR_EMAIL": address,
            "GIT_AUTHOR_DATE": at,
            "GIT_COMMITTER_NAME": COMMITTER,
            "GIT_COMMITTER_EMAIL": f"spec-kit-memory@{self._domain}",
        }
        parents = ["-p", parent] if parent else []
        return self._text("commit-tree", tree, *parents, data=message.encode(), more=more)

    def _person(self, author: str | None) -> tuple[str, str]:
        """The user's id as name and address, without characters that have a meaning to git or mail programs."""
        name = author or "server"
        escaped = re.sub(r"[^A-Za-z0-9._+-]", lambda match: f"={ord(match[0]):02X}", name)[:200].strip(".") or "server"
        return escaped, f"{escaped}@{self._domain}"

    def push(self, commit: str, *, branch: str, expected: str | None) -> None:
        """Push onto the branch if it is still at `expected`; no other commit is replaced."""
        lease = f"--force-with-lease=refs/heads/{branch}:{expected or ''}"
        self.run(
            "push", "--quiet", "--no-verify", "--atomic", lease, "--", self._remote, f"{commit}:refs/heads/{branch}"
        )
        self.run("update-ref", f"refs/heads/{branch}", commit)


# Checks of fsck that would refuse a whole repository for names, modes or dates; such entries are never written.
_SKIPPED_WHEN_READ = (
    "hasDot", "hasDotdot", "hasDotgit", "fullPathname", "zeroPaddedFilemode", "badTimezone", "missingSpaceBeforeDate",
    "gitmodulesUrl", "gitmodulesPath", "gitmodulesName", "gitmodulesSymlink", "gitmodulesParse", "gitmodulesUpdate",
    "gitmodulesLarge", "gitmodulesBlob", "gitmodulesMissing", "treeNotSorted", "duplicateEntries", "badFilemode",
    "zeroPaddedDate", "badDate", "badEmail", "missingEmail", "missingNameBeforeEmail", "largePathname", "nullSha1",
    "gitattributesLarge", "gitattributesLineLength", "gitattributesBlob", "gitattributesMissing", "symlinkTargetLength",
    "emptyName",
)  # fmt: skip


def _reason(command: str, stderr: bytes) -> str:
    """Git's error message in one line, without credentials from an address.

    Part of it was written by the remote: control characters, which may steer a terminal, are left out.
    """
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    if any(_UNREAD in line for line in lines):  # the reason is the message of ssh, which comes first
        wanted = [line for line in lines if not line.startswith(_ADVICE_ON_READING)]
    else:
        wanted = [line for line in lines if line.startswith(("remote:", "fatal:", "error:", "!"))] or lines
    printable = "".join(character if character.isprintable() else " " for character in "; ".join(wanted[-4:]))
    reason = _SECRET.sub("", printable)[:500]
    if _MOVED.search(reason):
        reason += " (a redirect, which is not followed: add the project with the address that it has now)"
    return f"git {command}: {reason or 'failed without a word'}"
