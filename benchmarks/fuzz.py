"""Which input breaks a reader? Coverage-guided fuzzing of all that read what others wrote.

`python -m benchmarks.fuzz --minutes 45` needs atheris (`pip install atheris`; nothing else here does). The first
byte of an input chooses the reader, the rest is what it reads. Inputs that reached something new are kept in
`--corpus` and start the next run; what breaks a reader is written to `--found` and the run goes on.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import importlib.util
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MOST_BYTES = 5_000
MOST_SEEDS = 200
# A reader of 5,000 bytes that takes this long, twice, does not take it for their number.
SLOW_SECONDS = 2.0
SEEDED_FILES = ("*.md", "docs/**/*.md", "examples/**/*.md", "tests/corpus/**/*.md", "tests/fuzz/corpus/*")


class Broken(AssertionError):  # noqa: N818 - named after what it is
    """A reader answered, and the answer is wrong or took far too long."""


def readers(scratch: Path) -> dict[str, Callable[[bytes], None]]:
    """Every reader by name; one that refuses does so with an error of ours, or with its own `Malformed`."""
    from spec_kit_memory import settings
    from spec_kit_memory.core import (
        front_edit,
        jsonc,
        markdown,
        passages,
        phrases,
        query,
        redact,
        session_data,
        session_document,
        triggers,
        words,
    )
    from spec_kit_memory.files import chat_transcripts, checkpoint_file
    from spec_kit_memory.filesystem import Place
    from spec_kit_memory.serve.hosts import toml
    from spec_kit_memory.serve.tools import TOOLS, read_arguments

    (scratch / ".spec-kit-memory").mkdir(exist_ok=True)
    config, talk, packed = scratch / ".spec-kit-memory" / "config.jsonc", scratch / "t.jsonl", scratch / "c.json.gz"

    def document(raw: bytes) -> None:
        text = plain(raw)
        clean = redact.redact(text)
        must(clean.text.count("\n") == text.count("\n"), "redaction moved lines")
        read = markdown.parse(clean.text)
        for anchor in read.anchors:
            must(markdown.find_section(read, anchor.id) is not None, f"anchor {anchor.id!r} is not found again")
        last = read.text.count("\n") + 1
        for passage in passages.split(read):
            must(1 <= passage.first_line <= passage.last_line <= last, "a passage without lines")
        markdown.fingerprint(read)

    def front(raw: bytes) -> None:
        edited = front_edit.edit_front_matter(plain(raw), {"title": "A: b", "triggers": ["x y"], "tier": "critical"})
        must(markdown.parse(edited).front.title == "A: b", "an edited title is not read again")

    def question(raw: bytes) -> None:
        text = plain(raw)
        must("\x00" not in query.read(text).text, "NUL in a query")
        words.for_index(text)
        phrases.extract(text)
        triggers.Matcher([(1, "save context"), (2, text[:60])]).match(text)

    def session(raw: bytes) -> None:
        session_document.title_of(session_data.read(value(raw)), spec_folder="001-core")

    def configuration(raw: bytes) -> None:
        config.write_bytes(raw)
        settings.load(scratch, environ={})

    def transcript(raw: bytes) -> None:
        talk.write_bytes(raw)
        chat_transcripts.read_transcript(talk)

    def checkpoint(raw: bytes) -> None:
        """As it stands, and as what is inside an intact wrapping."""
        for written in (raw, gzip.compress(raw, compresslevel=1)):
            packed.write_bytes(written)
            refused(lambda: list(checkpoint_file.read(Place.of(packed)).rows()))

    def host_json(raw: bytes) -> None:
        changed = jsonc.put(plain(raw), ["mcpServers", "skm"], {"command": "skm"})
        jsonc.remove(changed, ["mcpServers", "skm"])

    def host_toml(raw: bytes) -> None:
        changed = toml.put(plain(raw), ["mcp_servers", "skm"], {"command": "skm"})
        toml.remove(changed, ["mcp_servers", "skm"])

    def call(raw: bytes) -> None:
        said = value(raw[1:])
        read_arguments(TOOLS[raw[0] % len(TOOLS)] if raw else TOOLS[0], said if isinstance(said, dict) else {})

    made = (document, front, question, session, configuration, transcript, checkpoint, host_json, host_toml, call)
    return {item.__name__: item for item in made}


def plain(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def value(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return plain(raw)


def must(held: bool, otherwise: str) -> None:
    if not held:
        raise Broken(otherwise)


def refused(work: Callable[[], object]) -> None:
    """A refusal is an answer; every other error ends the run."""
    from spec_kit_memory.core import jsonc
    from spec_kit_memory.errors import SpecKitMemoryError
    from spec_kit_memory.serve.hosts import toml

    try:
        work()
    except (SpecKitMemoryError, jsonc.Malformed, toml.MalformedToml):
        return


def one_input(known: list[Callable[[bytes], None]]) -> Callable[[bytes], None]:
    def one(raw: bytes) -> None:
        if not raw:
            return
        read, rest = known[raw[0] % len(known)], raw[1:]
        took = seconds(read, rest)
        if took > SLOW_SECONDS and seconds(read, rest) > SLOW_SECONDS:  # looked at again before it is believed
            raise Broken(f"{read.__name__} took {took:.1f} s for {len(rest)} bytes")

    return one


def seconds(read: Callable[[bytes], None], raw: bytes) -> float:
    started = time.thread_time()
    refused(lambda: read(raw))
    return time.thread_time() - started


def seeds(names: list[str], folder: Path, more: Path | None) -> int:
    """Real files and small examples, each for every reader that could meet it."""
    results = [path for pattern in SEEDED_FILES for path in ROOT.glob(pattern) if path.is_file()]
    others = sorted(path for path in more.rglob("*.md") if path.is_file()) if more else []
    results += random.Random(7).sample(others, min(MOST_SEEDS, len(others)))
    texts = [path.read_bytes()[:MOST_BYTES] for path in results]
    for at, text in enumerate(texts):
        (folder / f"seed-{at}").write_bytes(bytes([at % 3]) + text)
    count = len(texts)
    for name, examples in EXAMPLES.items():
        for example in examples:
            (folder / f"seed-{count}").write_bytes(bytes([names.index(name)]) + example)
            count += 1
    return count


EXAMPLES: dict[str, tuple[bytes, ...]] = {
    "question": (b'"exact words" NEAR/3 (a OR b*) -c', "что было решено 中文 ไทย".encode()),
    "session": (
        b'{"specFolder": "007-auth", "sessionSummary": "s", "keyDecisions": [{"decision": "d", "rationale": "r"}],'
        b' "filesModified": [{"path": "a.py", "description": "x"}], "nextSteps": ["n"], "triggerPhrases": ["p q"]}',
        b'{"recentContext": [{"request": "r", "learning": "l"}], "observations": [{"title": "t", "facts": ["f"]}],'
        b' "userPrompts": [{"prompt": "p", "timestamp": "2026-01-01T00:00:00Z"}], "importanceTier": "critical"}',
    ),
    "configuration": (
        b'{// a comment\n"semantic": {"model": "none", "dimensions": 384}, "memory": {"decay": {"model": "fsrs"}},}',
        b'{"exclude": ["a/**"], "isolation": {"allowedPaths": ["specs"]}, "search": {"weights": {"text": 0.5}}}',
    ),
    "transcript": (
        b'{"role": "user", "content": "hello", "timestamp": "2026-01-01T00:00:00Z"}\n'
        b'{"role": "assistant", "content": "x"}',
        b'{"type": "user", "sessionId": "s", "uuid": "u", "message": {"role": "user", "content": [{"type": "text", '
        b'"text": "hi"}]}, "timestamp": "2026-01-01T00:00:00.000Z"}\n{"type": "summary", "summary": "x"}',
        b'{"type": "session_meta", "payload": {"id": "i", "cwd": "/"}}\n{"type": "response_item", "payload": '
        b'{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}}',
        b'{"info": {"id": "s", "title": "t"}, "messages": [{"info": {"role": "user", "time": {"created": 1}}, '
        b'"parts": [{"type": "text", "text": "hi"}]}]}',
    ),
    "checkpoint": (
        b'{"format": "spec-kit-memory checkpoint", "version": 1, "name": "a", "memories": 1, "createdAt": '
        b'"2026-01-01T00:00:00+00:00"}\n{"kind": "memory", "id": 1, "path": "memory/a.md"}\n{"rows": 1, "sha256": "0"}',
    ),
    "host_json": (b'{\n  // servers\n  "mcpServers": {"other": {"command": "x"}},\n}\n',),
    "host_toml": (
        b'[mcp_servers.skm]\ncommand = "x"\n[[a]]\nb = """\n"""\n',
        b"mcp_servers = { other = { command = 1 } }",
    ),
    "call": (
        b'\x00{"query": "q", "limit": 5, "anchors": ["a"], "tier": "normal"}',
        b'\x05{"context": {}, "dryRun": true}',
    ),
}


# --- the run


def fuzz_here(corpus: Path, *, options: list[str]) -> None:
    """In this process, until libFuzzer ends it."""
    atheris = importlib.import_module("atheris")
    scratch = Path(tempfile.mkdtemp(prefix="skm-fuzz-")).resolve()
    with atheris.instrument_imports(include=["spec_kit_memory", "yaml"]):
        listing = list(readers(scratch).values())
    atheris.Setup([sys.argv[0], *options, str(corpus)], one_input(listing))
    atheris.Fuzz()


def run(*, minutes: float, seed: int, corpus: Path, found: Path, more: Path | None) -> dict[str, Any]:
    for folder in (corpus, found):
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        names = list(readers(Path(made).resolve()))
    started, inputs = time.monotonic(), 0
    ended: list[str] = []
    report: dict[str, Any] = {"readers": names, "seeds": seeds(names, corpus, more), "seed": seed}
    while (left := minutes * 60 - (time.monotonic() - started)) > 5:
        options = [
            f"-max_total_time={round(left)}",
            f"-max_len={MOST_BYTES}",
            f"-seed={seed + len(ended)}",
            f"-artifact_prefix={found}/",
            "-print_final_stats=1",
            "-report_slow_units=10",
            "-timeout=60",
        ]
        command = [sys.executable, "-m", "benchmarks.fuzz", "--here", str(corpus), "--", *options]
        done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
        inputs += executed(done.stderr)
        (found / f"run-{len(ended)}.log").write_text(done.stderr, encoding="utf-8")
        if done.returncode == 0:
            break
        ended.append(last_error(done.stderr))
        if len(ended) >= 20:
            break
    left_behind = [path.name for path in sorted(found.iterdir()) if not path.name.endswith(".log")]
    return report | {
        "minutes": round((time.monotonic() - started) / 60, 1),
        "inputs": inputs,
        "corpus": len(list(corpus.iterdir())),
        "ended by": ended,
        "found": left_behind,
    }


def executed(log: str) -> int:
    """How many inputs a run tried: its final figure, or the last one that it reported."""
    final = re.findall(r"stat::number_of_executed_units:\s*(\d+)", log)
    return int(final[-1]) if final else max((int(text) for text in re.findall(r"^#(\d+)\t", log, re.M)), default=0)


def last_error(log: str) -> str:
    lines = [line for line in log.splitlines() if re.match(r"[\w.]+(Error|Broken|Exception)\b", line)]
    return lines[-1][:300] if lines else (log.strip().splitlines() or ["it said nothing"])[-1][:300]


def main() -> None:
    if "--here" in sys.argv:
        at = sys.argv.index("--here")
        fuzz_here(Path(sys.argv[at + 1]), options=sys.argv[at + 3 :])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--corpus", type=Path, default=Path("build/fuzz/corpus"))
    parser.add_argument("--found", type=Path, default=Path("build/fuzz/found"))
    parser.add_argument("--seeds", type=Path, help="a folder of markdown files to start from as well")
    arguments = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        parser.exit(2, "atheris is not installed: pip install atheris (Linux and macOS, Python 3.11 to 3.13)\n")
    report = run(
        minutes=arguments.minutes,
        seed=arguments.seed,
        corpus=arguments.corpus.absolute(),
        found=arguments.found.absolute(),
        more=arguments.seeds,
    )
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
