"""How long does each page take on a large workspace? Through a real socket, beside nothing else.

    python -m benchmarks.page [--memories 10000] [--times 30]

Memories are files of the repository's own prose in a hundred spec folders, with some near-duplicates; vectors are the
shipped fake's, so a search has both legs but not the model's own few milliseconds. Every row is one address, asked
for again and again with a question that was not asked before.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import uvicorn

from benchmarks.material import memory_text, questions, sentences
from spec_kit_memory.serve.mcp.workspace_handle import LiveWorkspace
from spec_kit_memory.serve.page.access import PageAccess
from spec_kit_memory.serve.page.routes import page_app
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace

TARGET_MS = 100.0
FOLDERS = 100


def write(root: Path, count: int) -> None:
    source = sentences()
    (root / ".spec-kit-memory").mkdir(parents=True)
    for number in range(count):
        folder = root / "specs" / f"{number % FOLDERS:03d}-topic" / "memory"
        folder.mkdir(parents=True, exist_ok=True)
        # Every two-hundredth says what the one before it says.
        said = number - 1 if number % 200 == 199 else number
        text = memory_text(source, said, phrases=2)
        (folder / f"memory-{number}.md").write_text(f"{text}\n\nNote {number}.\n", encoding="utf-8")
    for number in range(FOLDERS):
        place = root / "specs" / f"{number:03d}-topic" / "spec.md"
        place.write_text(f"# Topic {number}\n\n{source[number % len(source)]}\n", encoding="utf-8")


@contextmanager
def served(workspace: Workspace) -> Iterator[httpx2.Client]:
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as `skm ui` does
    port = listening.getsockname()[1]
    access = PageAccess(names=("127.0.0.1",), port=port)
    live = LiveWorkspace(lambda: workspace.for_caller(workspace.caller), background=False)
    server = uvicorn.Server(uvicorn.Config(page_app(live, access), lifespan="off", log_level="warning", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}", follow_redirects=True, timeout=120) as client:
        client.get(f"/?token={access.invite()}").raise_for_status()
        yield client
    server.should_exit = True
    thread.join(10)


def pages(asked: Iterator[str], ids: Iterator[int]) -> dict[str, Callable[[], str]]:
    return {
        "/search": lambda: "/search",
        "/search?q=": lambda: f"/search?q={next(asked)}",
        "/agent?q=": lambda: f"/agent?q={next(asked)}",
        "/memory/ID": lambda: f"/memory/{next(ids)}",
        "/memory/ID/links": lambda: f"/memory/{next(ids)}/links",
        "/memory/ID/similar": lambda: f"/memory/{next(ids)}/similar",
        "/memory/ID/versions": lambda: f"/memory/{next(ids)}/versions",
        "/care": lambda: "/care",
        "/time": lambda: "/time",
        "/numbers": lambda: "/numbers",
        "/folders": lambda: "/folders",
        "/folders/NAME": lambda: f"/folders/{next(ids) % FOLDERS:03d}-topic",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=30)
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="skm-page-"))
    try:
        write(root / "work", options.memories)
        with Workspace(Settings(root=root / "work", semantic=Semantic(model="hashing"))) as workspace:
            started = time.perf_counter()
            print(f"{workspace.index().summary} in {time.perf_counter() - started:.0f} s")
            started = time.perf_counter()
            results = workspace.care(health=False)
            print(f"all compared once in {time.perf_counter() - started:.1f} s: {results.counts}")
            numbered = (f"{question} {number}" for number, question in enumerate(itertools.cycle(questions())))
            with served(workspace) as client:
                measure(client, pages(numbered, itertools.cycle(range(1, options.memories, 37))), options.times)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def measure(client: httpx2.Client, rows: dict[str, Callable[[], str]], times: int) -> None:
    print(f"{'page':22} {'p50':>8} {'p95':>8} {'worst':>8}   target {TARGET_MS:.0f} ms at p95")
    for name, address in rows.items():
        taken = []
        for _ in range(times + 1):
            started = time.perf_counter()
            client.get(address()).raise_for_status()
            taken.append(1000 * (time.perf_counter() - started))
        taken = taken[1:]  # the first fills caches
        p95 = statistics.quantiles(taken, n=20)[-1]
        verdict = "" if p95 <= TARGET_MS else "   over"
        print(f"{name:22} {statistics.median(taken):8.1f} {p95:8.1f} {max(taken):8.1f}{verdict}")


if __name__ == "__main__":
    main()
