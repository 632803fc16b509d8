"""Does the comparison go on, and say why, when a system fails, hangs, talks nonsense or cannot be installed?

The systems here are small programs of the tests' own, run as real processes; nothing is fetched.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import textwrap
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers import process as process_module
from benchmarks.peers.environments import InstallError, python_of, version_of
from benchmarks.peers.measuring import Figures, Group, groups_of, measure, pinned, table
from benchmarks.peers.process import AnswerError, EndedError, Process
from benchmarks.peers.systems import OURS, SYSTEMS, System

pytestmark = pytest.mark.skipif(os.name == "nt", reason="workers measure their memory with POSIX calls")

ROOT = Path(__file__).parents[1]
# Long enough that it never comes to it.
AMPLE = 4.0
# So short that it is over before a process could answer what it never answers.
SOON = 0.004

WORDS = {"d1": "the lamp is green", "d2": "the door is red", "d3": "the roof is flat"}
GROUP = Group(
    documents=[{"id": id_, "text": text, "row": {"id": id_}} for id_, text in WORDS.items()],
    questions=[
        {"id": "q1", "text": "lamp", "relevant": ["d1"]},
        {"id": "q2", "text": "door", "relevant": ["d2"]},
    ],
)

# Finds documents that have the word. Says a lot on standard output meanwhile, as libraries do.
FINDER = """
    from benchmarks.peers.worker import serve

    class Finder:
        def __init__(self, folder, url, *, query_prefix):
            print("opening", folder)
        def index(self, documents):
            print("{not json")
            self.documents = documents
        def ask(self, text, *, limit):
            BEFORE_ASKING
            return [each["id"] for each in self.documents if text in each["text"]][:limit]

    serve(Finder)
"""
# Keeps to the protocol but for what it answers to a question.
RAW = """
    import json, sys
    for line in sys.stdin:
        asked = json.loads(line)
        answer = {"seconds": 0.5, "peakBytes": 1000}
        if asked["do"] == "ask" and asked["text"] != "warm up":
            WHEN_ASKED
        if asked["do"] == "ask":
            answer.setdefault("ranked", ["d1"])
        print(json.dumps(answer), flush=True)
"""
HANGING = """
    import signal
    while True:
        signal.pause()
"""


class NoVectors:
    """None of these systems asks for any."""

    caching = False
    url = "http://127.0.0.1:9/v1"


def system(name: str = "fake", *, depth: int = 10) -> System:
    return System(name, "fakepeer", "as it comes", ("fakepeer==1.0",), depth=depth)


def command(tmp_path: Path, program: str, **put: str) -> list[str]:
    for name, code in put.items():
        program = program.replace(name, code)
    path = tmp_path / "peer.py"
    path.write_text(f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{textwrap.dedent(program)}", encoding="utf-8")
    return [sys.executable, str(path)]


def measured(tmp_path: Path, started: list[str], *, minutes: float = AMPLE, group: Group = GROUP) -> Figures:
    figures = Figures(system(), "made-up", version="1.0")
    with Process(started, tmp_path / "peer.log", minutes=minutes) as process:
        measure(figures, process, [group], NoVectors())
    return figures


def row_of(figures: Figures) -> str:
    return table([figures.as_json()]).splitlines()[-1]


def test_a_system_that_finds_everything_has_full_marks_and_its_cost_in_the_table(tmp_path: Path) -> None:
    figures = measured(tmp_path, command(tmp_path, FINDER, BEFORE_ASKING="pass"))
    message = figures.as_json()
    assert figures.failure == ""
    assert message["recall@5"] == message["recall@10"] == message["all@10"] == message["ndcg@10"] == 1.0
    assert figures.documents == 3
    assert len(figures.latencies_ms) == 2
    assert figures.peak_bytes > 1_000_000
    assert row_of(figures).startswith("| fake | 1.0 | as it comes | 1.000 | 1.000 | 1.000 | 1.000 |")
    assert row_of(figures).count("|") == table([]).splitlines()[0].count("|")


def test_what_a_system_prints_goes_to_the_log_and_not_into_its_answers(tmp_path: Path) -> None:
    assert measured(tmp_path, command(tmp_path, FINDER, BEFORE_ASKING="pass")).failure == ""
    assert "{not json" in (tmp_path / "peer.log").read_text(encoding="utf-8")


def test_a_question_that_fails_is_a_zero_and_the_next_is_asked(tmp_path: Path) -> None:
    failing = 'if text == "lamp": raise ValueError("no lamp here")'
    figures = measured(tmp_path, command(tmp_path, FINDER, BEFORE_ASKING=failing))
    assert figures.failure == ""
    assert figures.errors == 1
    assert [row["recall@10"] for row in figures.rows] == [0.0, 1.0]
    assert "(1 questions failed)" in row_of(figures)


def test_a_system_that_cannot_index_says_in_its_row_why(tmp_path: Path) -> None:
    broken = FINDER.replace("self.documents = documents", 'raise OSError("disk | full")')
    figures = measured(tmp_path, command(tmp_path, broken, BEFORE_ASKING="pass"))
    assert figures.failure == "failed while indexing 3 documents: OSError: disk | full"
    assert "disk / full" in row_of(figures)
    assert row_of(figures).count("|") == table([]).splitlines()[0].count("|")


def test_a_system_that_hangs_is_stopped_when_its_time_is_over(tmp_path: Path) -> None:
    figures = measured(tmp_path, command(tmp_path, HANGING), minutes=SOON)
    assert figures.failure == f"failed while opening: stopped after {SOON} minutes"


def test_a_system_that_never_reads_is_stopped_though_its_input_is_full(tmp_path: Path) -> None:
    documents = [{"id": "d", "text": "word " * 400_000}]
    with (
        Process(command(tmp_path, HANGING), tmp_path / "peer.log", minutes=SOON) as process,
        pytest.raises(EndedError, match="stopped after"),
    ):
        process.ask(do="index", documents=documents)


def test_a_system_that_does_not_end_is_ended_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "_GRACE_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as server:
        child = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]})).recv(1)"
        program = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {child!r}])\n"
        server.settimeout(120)
        process = Process(command(tmp_path, program + textwrap.dedent(HANGING)), tmp_path / "log", minutes=AMPLE)
        connection, _ = server.accept()
        process.close()
        with connection:
            connection.settimeout(120)
            assert connection.recv(1) == b""  # the end of its child closed it


@pytest.mark.parametrize(
    ("answered", "reason"),
    [
        ('print("Traceback, or so", flush=True); continue', "answered 'ask' with 'Traceback, or so'"),
        ('sys.stdout.buffer.write(b"\\xff\\xfe\\n"); sys.stdout.flush(); continue', "answered 'ask' with"),
        ("print([1, 2], flush=True); continue", "answered 'ask' with '[1, 2]'"),
        ("print(flush=True); continue", "answered 'ask' with ''"),
        ('answer["ranked"] = "d1"', "no list of documents"),
        ('answer["ranked"] = [1, 2]', "no list of documents"),
        ('answer["ranked"] = None', "no list of documents"),
        ('answer["seconds"] = "soon"', "no number 'seconds'"),
        ('answer["seconds"] = True', "no number 'seconds'"),
        ('print("half a li", end="", flush=True); sys.exit(0)', "its process ended with 0"),
        ("sys.exit(3)", "its process ended with 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "its process ended with SIGKILL"),
    ],
)
def test_an_answer_that_is_none_ends_the_system_and_not_the_run(tmp_path: Path, answered: str, reason: str) -> None:
    figures = measured(tmp_path, command(tmp_path, RAW, WHEN_ASKED=answered))
    assert figures.failure.startswith("failed while asked question 1 of 2: ")
    assert reason in figures.failure
    assert figures.errors == 0


def test_documents_count_once_and_only_the_first_ten(tmp_path: Path) -> None:
    many = 'answer["ranked"] = ["d9", "d9", *(f"x{n}" for n in range(9)), asked["text"], "d1", "d2"]'
    group = replace(GROUP, questions=[{"id": "q", "text": "x99", "relevant": ["x8", "x99", "d1", "d2"]}])
    figures = measured(tmp_path, command(tmp_path, RAW, WHEN_ASKED=many), group=group)
    assert figures.rows[0]["recall@10"] == 0.25


def test_an_error_can_be_followed_by_another_question(tmp_path: Path) -> None:
    answered = 'answer = {"error": "not now"} if asked["text"] == "bad" else {"ranked": ["d2"]}'
    with Process(command(tmp_path, RAW, WHEN_ASKED=answered), tmp_path / "log", minutes=AMPLE) as process:
        with pytest.raises(AnswerError, match="not now"):
            process.ask(do="ask", text="bad")
        assert process.ask(do="ask", text="good")["ranked"] == ["d2"]


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(EndedError, match=r"could not be started.*nowhere"):
        Process([str(tmp_path / "nowhere")], tmp_path / "log", minutes=AMPLE)


@pytest.fixture
def shelf_of_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index that is a folder: fakepeer 1.0 and 2.0, and nothing else in the world."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for number in ("1.0", "2.0"):
        _wheel(folder, "fakepeer", number)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def _wheel(folder: Path, name: str, number: str) -> None:
    about = f"{name}-{number}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{number}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", f"NUMBER = {number!r}\n")
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")


def test_an_environment_is_made_once_for_the_same_pins_and_apart_for_others(
    tmp_path: Path, shelf_of_wheels: Path
) -> None:
    said: list[str] = []
    home = tmp_path / "cache"
    first = python_of(system(), home, minutes=AMPLE, say=said.append)
    assert version_of(system(), first) == "1.0"
    assert [line.split(" in ")[0] for line in said] == ["fakepeer: installing fakepeer==1.0", "fakepeer: installed"]
    # What cannot be reached can still be used.
    for wheel in shelf_of_wheels.glob("*-1.0-*"):
        wheel.unlink()
    assert python_of(system(), home, minutes=AMPLE, say=said.append) == first
    assert said[-1].endswith("is there")
    newer = replace(system(), requirements=(), alone=("fakepeer==2.0",))
    second = python_of(newer, home, minutes=AMPLE, say=said.append)
    assert second != first
    assert version_of(newer, second) == "2.0"
    assert version_of(system(), first) == "1.0"


def test_a_version_that_does_not_exist_is_named_and_the_half_made_environment_is_not_used(
    tmp_path: Path, shelf_of_wheels: Path
) -> None:
    later = replace(system(), requirements=("fakepeer==3.0",))
    with pytest.raises(InstallError, match=r"fakepeer==3\.0"):
        python_of(later, tmp_path / "cache", minutes=AMPLE, say=lambda _: None)
    assert (tmp_path / "cache" / later.environment / "bin" / "python").exists()
    _wheel(shelf_of_wheels, "fakepeer", "3.0")
    assert version_of(later, python_of(later, tmp_path / "cache", minutes=AMPLE, say=lambda _: None)) == "3.0"


def test_an_installation_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(InstallError, match="took too long"):
        python_of(system(), tmp_path / "cache", minutes=0, say=lambda _: None)


def test_every_system_has_exact_versions_and_rows_of_a_package_share_its_environment() -> None:
    environments: dict[str, set[str]] = {}
    for item in SYSTEMS[1:]:
        assert item.pins
        assert all(pin.count("==") == 1 for pin in item.pins)
        assert any(pin.startswith(f"{item.package}==") for pin in item.pins)
        environments.setdefault(item.package, set()).add(item.environment)
    assert len(environments) >= 3
    assert all(len(names) == 1 for names in environments.values())
    assert len({each.name for each in SYSTEMS}) == len(SYSTEMS)
    assert SYSTEMS[0].name == OURS


def test_pins_are_listed_once_for_each_environment() -> None:
    messages = [Figures(item, "made-up").as_json() for item in (system("one"), system("two"), SYSTEMS[0])]
    assert pinned(messages) == "- fakepeer==1.0"


def written(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    folder = tmp_path / "made-up"
    rows = [{"group": "g", "id": id_, "session": "", "time": "", "speaker": "", "text": t} for id_, t in WORDS.items()]
    written(folder, "corpus", rows)
    asked = [{"group": "g", "category": "", **question} for question in GROUP.questions]
    written(folder, "queries", asked)
    return folder


def test_fewer_documents_always_include_the_relevant_ones(dataset: Path) -> None:
    written(dataset, "queries", [{"group": "g", "id": "q", "category": "", "text": "roof", "relevant": ["d3"]}])
    (group,) = groups_of(dataset, groups=None, documents=2)
    assert [document["id"] for document in group.documents] == ["d1", "d3"]
    (group,) = groups_of(dataset, groups=None, documents=0)
    assert [document["id"] for document in group.documents] == ["d3"]


def test_one_command_measures_ours_and_says_which_other_could_not_be_installed(
    tmp_path: Path, dataset: Path, shelf_of_wheels: Path
) -> None:
    asked = ["--systems", f"chromadb,{OURS},chromadb-prefix", "--cache", str(tmp_path / "cache"), "--json"]
    started = [sys.executable, "-m", "benchmarks.peers", str(dataset), *asked]
    done = subprocess.run(started, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = {row["system"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert list(rows) == ["chromadb", OURS, "chromadb-prefix"]
    for name in ("chromadb", "chromadb-prefix"):
        assert rows[name]["failure"].startswith("not installed: ")
        assert "chromadb==" in rows[name]["failure"]
    assert rows[OURS]["failure"] == ""
    assert rows[OURS]["recall@10"] == 1.0
    assert rows[OURS]["questions"] == 2
    assert done.stderr.count("chromadb: installing") == 1
    assert "chromadb: cannot be installed" in done.stderr
