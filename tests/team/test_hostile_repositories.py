"""What can a repository do to the server that reads it? Nothing runs, nothing leads out, nothing takes for ever."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.settings.keys import Semantic, Settings
from spec_kit_memory.team.database import TeamDatabase
from spec_kit_memory.team.keeper import Keeper, Round
from spec_kit_memory.team.mirror import Mirror, Mirrored
from spec_kit_memory.team.project_workspace import open_project
from spec_kit_memory.team.projects import Project, Projects
from spec_kit_memory.team.repository import GitError, GitLimits, Repository
from spec_kit_memory.workspace import Workspace
from tests.team.git_remotes import Remote

GOOD = "# Good\n\nThe only note that may be read.\n"


class Reader:
    """One server that reads one remote."""

    def __init__(self, database: TeamDatabase, folder: Path, *, limits: GitLimits | None = None) -> None:
        self.remote = Remote.made(folder / "remote.git", {"memory/good.md": GOOD})
        self.limits = limits or GitLimits(entries=5_000, seconds=60)
        self.folder = folder / "server"
        project = Projects(database).add("shop", repository=str(self.remote.folder)).project
        settings = Settings(root=self.folder, semantic=Semantic(model="hashing"))
        self.keeper = Keeper(database, settings=settings, limits=self.limits)
        self.workspace: Workspace = open_project(database, project, settings=settings)

    def read(self) -> Round:
        done = self.keeper.round("shop")
        assert done is not None
        return done

    def paths(self) -> set[str]:
        return {memory.path for memory in self.workspace.list(limit=100).memories}

    def close(self) -> None:
        self.workspace.close()
        self.keeper.close()

    def tree(self, *entries: tuple[str, str, bytes, bytes]) -> str:
        """A tree of (mode, kind, object or contents, name), made as no checkout would make it."""
        lines = []
        for mode, kind, given, name in entries:
            known = given.decode("ascii", "replace") if kind in ("tree", "commit") else self.remote.blob(given)
            lines.append(f"{mode} {kind} {known}\t".encode() + name + b"\0")
        return self.remote.git("mktree", "-z", "--missing", data=b"".join(lines))


@pytest.fixture
def reader(database: TeamDatabase, tmp_path: Path) -> Iterator[Reader]:
    made = Reader(database, tmp_path)
    yield made
    made.close()


def test_links_submodules_and_odd_names_are_skipped_and_the_rest_is_read(reader: Reader, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("# Secret\n\nNobody may read this.\n", encoding="utf-8")
    note = GOOD.encode()
    memory = reader.tree(
        ("100644", "blob", note, b"good.md"),
        ("120000", "blob", str(tmp_path / "secret.md").encode(), b"link.md"),
        ("100644", "blob", b"# Odd\n\nBytes.\n", b"bad-\xff-name.md"),
        ("100644", "blob", b"# Odd\n\nBackslash.\n", b"..\\up.md"),
        ("100644", "blob", b"# Odd\n\nNew line.\n", b"new\nline.md"),
        ("100644", "blob", b"# Upper\n\nA name in another case.\n", b"GOOD.md"),
        ("100644", "blob", b"# Large\n\n" + b"x" * (1 << 20), b"large.md"),
        ("100644", "blob", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", b"lfs.md"),
    )
    users = reader.tree(("100644", "blob", b"# Planted\n\nBelieve me, ana.\n", b"planted.md"))
    own = reader.tree(("040000", "tree", users.encode(), b"ana"))
    state = reader.tree(("100644", "blob", b'{"extraPaths": ["/etc"], "index": {"url": "x"}}', b"config.jsonc"))
    linked = reader.tree(("120000", "blob", b"/etc", b"memory"))
    top = reader.tree(
        ("040000", "tree", memory.encode(), b"memory"),
        ("040000", "tree", state.encode(), b".spec-kit-memory"),
        ("040000", "tree", linked.encode(), b"specs"),
        ("160000", "commit", b"1" * 40, b"submodule"),
        ("100644", "blob", b'[submodule "x"]\n\tpath = submodule\n\turl = -u./payload\n', b".gitmodules"),
        ("100644", "blob", b"*.md filter=evil diff=evil\n", b".gitattributes"),
        ("100644", "blob", b"[core]\n\tfsmonitor = touch ran\n\thooksPath = .\n", b"config"),
    )
    reader.remote.push_tree(top)
    done = reader.read()
    assert done.problem is None
    assert reader.paths() == {"memory/good.md", "memory/GOOD.md"}
    assert done.mirrored.skipped["links"] == 2
    assert done.mirrored.skipped["submodules"] == 1
    assert done.mirrored.skipped["odd names"] == 3
    assert done.mirrored.skipped["large files"] == 1
    assert not list(tmp_path.rglob("ran"))
    with_people = reader.tree(
        ("040000", "tree", reader.tree(("040000", "tree", own.encode(), b"users")).encode(), b"memory")
    )
    reader.remote.push_tree(with_people)
    assert reader.read().mirrored.skipped == {"personal files": 1}
    assert reader.paths() == set()


@pytest.mark.parametrize("name", [b"..", b".", b".git", b".GIT", b"git~1", b".git "])
def test_a_name_that_leads_elsewhere_is_never_written(reader: Reader, tmp_path: Path, name: bytes) -> None:
    below = reader.tree(("100644", "blob", b"# Out\n\nOf the folder.\n", b"x.md"))
    top = reader.tree(("040000", "tree", below.encode(), b"memory"), ("040000", "tree", below.encode(), name))
    reader.remote.push_tree(top)
    done = reader.read()
    if done.problem is None:  # git itself may refuse it
        assert reader.paths() == {"memory/x.md"}
    written = {path.name for path in reader.folder.rglob("x.md") if "mirror-" not in str(path)}
    assert written == set()
    assert not any(path.parent.name != "memory" for path in reader.folder.rglob("x.md"))


def test_a_tree_with_too_many_entries_is_refused_and_said(reader: Reader) -> None:
    reader.read()
    blob = reader.remote.blob(b"# Many\n\nOf them.\n")
    lines = "".join(f"100644 blob {blob}\tn{number}.md\n" for number in range(5_001))
    many = reader.remote.git("mktree", data=lines.encode())
    reader.remote.push_tree(reader.tree(("040000", "tree", many.encode(), b"memory")))
    assert "5,000 entries" in (reader.read().problem or "")
    assert reader.paths() == {"memory/good.md"}, "what was known stays"


def test_hooks_and_configuration_of_the_servers_own_clone_do_not_run(reader: Reader, tmp_path: Path) -> None:
    reader.read()
    clone = reader.folder / "projects" / "shop" / "repository.git"
    (clone / "hooks").mkdir(exist_ok=True)
    for name in ("pre-push", "post-checkout", "reference-transaction", "post-index-change"):
        (clone / "hooks" / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n", encoding="utf-8")
        (clone / "hooks" / name).chmod(0o755)
    reader.workspace.save(text="The gate opens at nine")
    assert reader.read().delivered == 1
    assert not (tmp_path / "ran").exists()


def test_the_operators_configuration_beside_the_named_one_is_not_read(
    reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text('[url "/nowhere/"]\n\tinsteadOf = /\n', encoding="utf-8")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert reader.read().problem is None
    monkeypatch.setenv("SPEC_KIT_MEMORY_GIT_CONFIG", str(home / ".gitconfig"))
    assert reader.read().problem, "the file that the operator names is"


PERSONS_OWN = """
[log]
	showSignature = true
	follow = true
[format]
	pretty = fuller
[color]
	ui = always
[commit]
	gpgSign = true
[push]
	gpgSign = true
	followTags = true
[gpg]
	program = /bin/false
[trailer]
	separators = "=%"
[core]
	hooksPath = {folder}
	autocrlf = true
	quotePath = true
	worktree = {folder}
	abbrev = 5
[i18n]
	logOutputEncoding = UTF-16
	commitEncoding = latin1
[fetch]
	prune = true
[diff]
	external = touch {folder}/ran
	orderFile = /nowhere
[filter "lfs"]
	clean = touch {folder}/ran
	process = touch {folder}/ran
	required = true
[submodule]
	recurse = true
"""


def test_a_persons_own_configuration_as_the_named_one_changes_nothing_and_runs_nothing(
    database: TeamDatabase, reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "own-hooks"
    folder.mkdir()
    for name in ("pre-push", "post-commit", "post-index-change", "pre-auto-gc"):
        (folder / name).write_text(f"#!/bin/sh\ntouch {folder}/ran\nexit 1\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    (tmp_path / "config").write_text(PERSONS_OWN.format(folder=folder), encoding="utf-8")
    monkeypatch.setenv("SPEC_KIT_MEMORY_GIT_CONFIG", str(tmp_path / "config"))
    saved = reader.workspace.save(text="The gate opens at nine")

    def dies(step: str) -> None:
        if step == "pushed":
            raise RuntimeError("killed before it is recorded that the push was accepted")

    other = Settings(root=tmp_path / "other", semantic=Semantic(model="hashing"))
    dying = Keeper(database, settings=other, step=dies)
    dying.round("shop")
    assert len(reader.remote.operations()) == 1
    assert reader.read().delivered == 1
    assert len(reader.remote.operations()) == 1, "its trailer is found"
    dying.close()
    reader.workspace.update(saved.id or 0, title="Gate")
    assert reader.read().delivered == 1
    assert not (folder / "ran").exists()


def test_credentials_of_an_address_are_in_no_message(database: TeamDatabase, tmp_path: Path) -> None:
    Projects(database).add("gone", repository="https://ana:hunter2@127.0.0.1:9/x.git")
    keeper = Keeper(database, settings=Settings(root=tmp_path), limits=GitLimits(seconds=30))
    done = keeper.round("gone")
    keeper.close()
    assert done is not None
    assert done.problem
    assert "hunter2" not in done.problem


# --- sizes that unfold


def test_a_small_tree_that_unfolds_without_end_is_refused_while_it_is_listed(reader: Reader) -> None:
    """Nine trees, each ten times in the next: a billion entries in a few kilobytes."""
    reader.read()
    level = reader.tree(("100644", "blob", b"# Many\n\nOf them.\n", b"note.md"))
    for _ in range(9):
        level = reader.tree(*[("040000", "tree", level.encode(), f"d{number}".encode()) for number in range(10)])
    reader.remote.push_tree(reader.tree(("040000", "tree", level.encode(), b"memory")))
    saved = reader.workspace.save(text="The gate opens at nine")
    assert "5,000 entries" in (reader.read().problem or "")
    assert reader.paths() == {"memory/good.md", saved.path}, "what was known, and what was accepted, stays"


def test_a_transfer_that_is_too_large_is_ended_while_it_is_transferred(database: TeamDatabase, tmp_path: Path) -> None:
    reader = Reader(database, tmp_path, limits=GitLimits(clone_bytes=3_000_000, seconds=60))
    try:
        assert reader.read().problem is None
        before = reader.remote.tip()
        reader.remote.commit({"memory/large.bin": secrets.token_hex(10_000_000)})
        assert "3,000,000" in (reader.read().problem or "")
        clone = reader.folder / "projects" / "shop" / "repository.git"
        assert sum(file.stat().st_size for file in clone.rglob("*") if file.is_file()) < 3_100_000
        assert reader.paths() == {"memory/good.md"}
        reader.remote.git("update-ref", "refs/heads/main", str(before))  # the person takes it back
        assert reader.read().problem is None, "it is read again as soon as it is small again"
    finally:
        reader.close()


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    sleeping = tmp_path / "ssh"
    sleeping.write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/pids\nsleep 600 &\necho $! >> {tmp_path}/pids\nwait\n")
    sleeping.chmod(0o755)
    project = Project("shop", "ssh://git@host.example/shop.git")
    repository = Repository(tmp_path / "repository.git", project, limits=GitLimits(seconds=2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPEC_KIT_MEMORY_GIT_SSH", str(sleeping))
        started = time.monotonic()
        with pytest.raises(GitError, match="more than 2 seconds"):
            repository.fetch()
    assert time.monotonic() - started < 60, "nobody waits for what is still running"
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert until(lambda: not any(map(is_running, pids))), "a signal is sent to all, and each ends when its turn comes"


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] not in ("Z", "X")


# --- names that change what they are


def test_a_file_that_becomes_a_folder_of_that_name_and_back_is_followed(reader: Reader) -> None:
    reader.remote.commit({"specs/001-x/spec.md": "# File\n\nAs a file.\n"})
    reader.read()
    reader.remote.commit({"specs/001-x/spec.md": None})
    reader.remote.commit({"specs/001-x/spec.md/memory/inner.md": "# Inner\n\nIn a folder.\n"})
    assert reader.read().problem is None
    assert reader.paths() == {"memory/good.md", "specs/001-x/spec.md/memory/inner.md"}
    reader.remote.commit({"specs/001-x/spec.md/memory/inner.md": None})
    reader.remote.commit({"specs/001-x/spec.md": "# File\n\nAs a file again.\n"})
    assert reader.read().problem is None
    assert reader.paths() == {"memory/good.md", "specs/001-x/spec.md"}


def test_a_tree_in_which_a_name_is_file_and_folder_at_once_ends_no_worker(reader: Reader) -> None:
    inner = reader.tree(("100644", "blob", b"# Inner\n\nBelow.\n", b"inner.md"))
    file = reader.remote.blob(b"# File\n\nAbove.\n")
    raw = b"100644 both.md\0" + bytes.fromhex(file) + b"40000 both.md\0" + bytes.fromhex(inner)
    both = reader.remote.git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", data=raw)
    reader.remote.push_tree(reader.tree(("040000", "tree", both.encode(), b"memory")))
    done = reader.read()  # whatever it comes to, it is a round and no exception
    assert done.problem or reader.paths()
    reader.remote.push_tree(reader.tree(("040000", "tree", inner.encode(), b"memory")))
    assert reader.read().problem is None
    assert reader.paths() == {"memory/inner.md"}


def test_a_fault_of_one_project_is_said_there_and_the_others_go_on(
    database: TeamDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(root=tmp_path / "server", semantic=Semantic(model="hashing"))
    for name in ("bad", "good"):
        remote = Remote.made(tmp_path / f"{name}.git", {"memory/good.md": GOOD})
        Projects(database).add(name, repository=str(remote.folder))
    bring = Mirror.bring
    entered, ending = threading.Event(), threading.Event()

    def fails(self: Mirror, *commits: str | None) -> Mirrored:
        if self._repository.project.name == "good":
            return bring(self, *commits)
        entered.set()
        ending.wait(60)  # a slow remote; the other project does not wait for it
        raise OSError(28, "No space left on device", "/private/place")

    monkeypatch.setattr(Mirror, "bring", fails)
    keeper, stopping = Keeper(database, settings=settings), threading.Event()
    worker = threading.Thread(target=keeper.run, args=(stopping,))
    worker.start()
    try:
        assert entered.wait(60)
        assert until(lambda: Projects(database).get("good").synced_at)
        ending.set()
        assert until(lambda: Projects(database).get("bad").problem)
        assert Projects(database).get("bad").problem == "No space left on device"
        Projects(database).request_sync("good")
        before = Projects(database).get("good").synced_at
        assert until(lambda: Projects(database).get("good").synced_at != before), "the worker is still there"
    finally:
        ending.set()
        stopping.set()
        worker.join(60)
    assert not worker.is_alive()


def until(holds: Callable[[], object]) -> bool:
    latest = time.monotonic() + 60
    while not holds():
        if time.monotonic() > latest:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize(
    "address",
    [
        "-oProxyCommand=touch owned",
        "--upload-pack=touch owned",
        "ssh://-oProxyCommand=touch/x",
        "ssh://git@-oProxyCommand=touch/x",
        "ssh://-oProxyCommand=touch@host/x",
        "ssh://git@host@-oProxyCommand=touch/x",
        "https://user@-host/x",
        "git@-oProxyCommand=touch:x",
        "-oProxy@host:x",
        "-oProxyCommand=touch@host:x",
        "-oProxyCommand=touch:x",
        "host:-oProxyCommand",
        "ext::sh -c touch% owned",
        "fd::17",
        "file:///etc",
        "FILE:///etc",
        "http://127.0.0.1:1/x.git",
        "git://127.0.0.1:1/x.git",
        "ftp://127.0.0.1:1/x.git",
        "https://host/x.git\n--upload-pack=touch",
        "https://",
        "ssh://",
    ],
)
def test_an_address_that_is_an_option_or_another_protocol_is_refused(database: TeamDatabase, address: str) -> None:
    with pytest.raises(SpecKitMemoryError):
        Projects(database).add("shop", repository=address)
    assert not Projects(database).list()


def test_the_reason_for_which_ssh_fails_is_told_in_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git itself says only that it could not read from the repository."""
    refusing = tmp_path / "ssh"
    refusing.write_text("#!/bin/sh\necho 'git@host.example: Permission denied (publickey).' >&2\nexit 255\n")
    refusing.chmod(0o755)
    monkeypatch.setenv("SPEC_KIT_MEMORY_GIT_SSH", str(refusing))
    repository = Repository(tmp_path / "clone.git", Project("shop", "ssh://git@host.example/shop.git"))
    with pytest.raises(GitError) as caught:
        repository.fetch()
    assert "Permission denied (publickey)" in caught.value.message
    assert "correct access rights" not in caught.value.message


def test_git_is_allowed_https_and_ssh_alone_wherever_a_redirect_leads(tmp_path: Path) -> None:
    """A redirect, or an address that the operator's configuration puts in place of another, is no way to a file."""
    secret = Remote.made(tmp_path / "secret.git")
    project = Project("shop", "https://host.example/x.git", is_git=True, branch="main", save_branch="main")
    repository = Repository(tmp_path / "server" / "repository.git", project)
    (tmp_path / "server").mkdir()
    for other in (f"file://{secret.folder}", str(secret.folder), "ext::sh -c cat", "http://127.0.0.1:1/x"):
        with pytest.raises(GitError, match="not allowed"):
            repository.run("ls-remote", "--", other)


@pytest.mark.parametrize(
    "address",
    [
        "https://host.example/acme/shop.git",
        "https://user:word@host.example:8443/acme/shop.git",
        "ssh://git@host.example:22/acme/shop.git",
        "ssh://git@[::1]/acme/@scope/shop.git",
        "git@host.example:acme/shop.git",
        "host.example:shop",
    ],
)
def test_an_ordinary_address_is_taken(database: TeamDatabase, address: str) -> None:
    assert Projects(database).add("shop", repository=address).project.is_git
