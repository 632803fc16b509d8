"""The provider of vectors is slow, talks nonsense, never answers, or its model is damaged: text answers go on."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from spec_kit_memory.embed import local, remote
from spec_kit_memory.embed.local import LocalEmbedder
from spec_kit_memory.features import runtime
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace
from tests.faults.talking import Talk
from tests.features.conftest import Place


@dataclass
class Provider:
    """A real server on this machine whose answers a test chooses."""

    url: str = ""
    answer: Callable[[list[str]], bytes | None] = lambda texts: vectors(texts)  # None: never, until the test ends
    asked: int = 0
    # Bytes of nothing before an answer, twenty a second: JSON may begin with spaces. None: until `hurry` is set.
    spaces: int | None = 0
    headers_drip: bool = False  # the same, before the headers end
    hurry: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)


def vectors(texts: list[str]) -> bytes:
    rows = [{"index": at, "embedding": [float(len(text)), 1.0, 0.5]} for at, text in enumerate(texts)]
    return json.dumps({"data": rows}).encode()


@pytest.fixture
def provider() -> Iterator[Provider]:
    result = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            result.asked += 1
            body = result.answer(question["input"])
            if body is None:
                result.over.wait(120)
                body = b"too late"
            try:
                self.send_response(200)
                while result.headers_drip and not result.hurry.wait(0.05):
                    self.send_header("X-Wait", "a little")
                    self.flush_headers()
                if result.spaces == 0:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.drip()
                self.wfile.write(body)
            except OSError:
                return

        def drip(self) -> None:
            sent = 0
            while (result.spaces is None or sent < result.spaces) and not result.hurry.wait(0.05):
                self.wfile.write(b" ")
                self.wfile.flush()
                sent += 1

        def log_message(self, format: str, *args: object) -> None:
            """The test output stays readable."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    result.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    yield result
    result.over.set()
    result.hurry.set()
    server.shutdown()
    server.server_close()
    thread.join()


def semantic(provider: Provider) -> Semantic:
    return Semantic(model="openai", base_url=provider.url, remote_model="small", dimensions=3)


GARBAGE = [
    b"",
    b"<html>Gateway</html>",
    b"[]",
    b'{"data": []}',
    b'{"data": [{"index": 0, "embedding": "no"}]}',
    b'{"data": [{"index": 0, "embedding": [NaN, 1, 2]}]}',
    b'{"data": [{"index": 7, "embedding": [1, 2, 3]}]}',
    b'{"data": [{"index": 0, "embedding": [1, 2]}]}',
    b"[" * 100_000,
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda raw: repr(raw[:30]))
def test_a_provider_that_talks_nonsense_leaves_search_by_text(place: Place, provider: Provider, garbage: bytes) -> None:
    place.memory("zebra", "# Zebra\n\nThe zebra walks alone.")
    provider.answer = lambda texts: garbage
    workspace = place.open(model="none")
    workspace.close()
    settings = Settings(root=place.root, semantic=semantic(provider))
    with Workspace(settings, now=place.clock) as workspace:
        workspace.index()
        answer = workspace.search("zebra")
        assert answer.results[0].title == "Zebra"
        assert answer.method == "text"
        assert any("E001" in said or "E004" in said for said in answer.unavailable), answer.unavailable
        assert workspace.save(text="Saved all the same", spec_folder="001-core").id


def test_a_provider_that_never_answers_holds_up_neither_start_nor_search_nor_save(
    root: Path, provider: Provider
) -> None:
    provider.answer = lambda texts: None
    with Talk(
        root,
        SPEC_KIT_MEMORY_SEMANTIC_MODEL="openai",
        SPEC_KIT_MEMORY_SEMANTIC_BASE_URL=provider.url,
        SPEC_KIT_MEMORY_SEMANTIC_REMOTE_MODEL="small",
        SPEC_KIT_MEMORY_SEMANTIC_DIMENSIONS="3",
    ) as server:
        assert not server.call("memory_index_scan").is_error
        # The provider holds every question until this test is over: answers that come, came without it.
        answer = server.search("zebra3")
        assert answer.titles[0] == "Note 3"
        assert answer.data["method"] == "text"
        assert any("E004" in item for item in answer.data["unavailable"]), answer.data["unavailable"]
        again = server.search("zebra4")
        assert again.titles[0] == "Note 4"
        saved = server.call("memory_save", context={"sessionSummary": "Saved all the same"}, specFolder="001-core")
        assert not saved.is_error
        assert saved.data["vectorStatus"] in ("pending", "retry")
        assert provider.asked > 0


def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, what comes is waited for from now on."""
    monkeypatch.setattr(remote, "QUERY_SECONDS", 120.0)
    monkeypatch.setattr(runtime, "PATIENCE_SECONDS", 120.0)


def test_a_slow_answer_that_comes_in_time_is_used(
    place: Place, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient(monkeypatch)
    place.memory("zebra", "# Zebra\n\nThe zebra walks alone.")
    provider.spaces = 8
    with Workspace(Settings(root=place.root, semantic=semantic(provider)), now=place.clock) as workspace:
        workspace.index()
        assert workspace.stats().vectors == {"success": 1}
        answer = workspace.search("zebra walks")
        assert answer.method == "hybrid"
        assert answer.unavailable == ()
        assert workspace.save(text="Saved at its pace", spec_folder="001-core").vector_status == "success"


def test_headers_that_never_end_do_not_hold_up_a_search(
    place: Place, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.memory("zebra", "# Zebra\n\nThe zebra walks alone.")
    with Workspace(Settings(root=place.root, semantic=semantic(provider)), now=place.clock) as workspace:
        workspace.index()
        monkeypatch.setattr(runtime, "PATIENCE_SECONDS", 0.5)
        provider.headers_drip = True
        answer = workspace.search("zebra walks")  # the provider goes on until this test is over
        assert answer.method == "text"
        assert answer.results[0].title == "Zebra"
        assert any("E004" in said and "within" in said for said in answer.unavailable), answer.unavailable
        asked = provider.asked
        assert workspace.search("a zebra").results[0].title == "Zebra"
        assert provider.asked == asked


def test_an_answer_that_drips_past_the_deadline_costs_meaning_for_a_while_and_nothing_else(
    place: Place, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        place.memory(f"zebra-{number}", f"# Zebra {number}\n\nThe zebra{number} walks alone.")
    provider.spaces = None
    with Workspace(Settings(root=place.root, semantic=semantic(provider)), now=place.clock) as workspace:
        workspace.start_background()
        assert workspace._background is not None
        assert workspace._background.scanned.wait(120)
        answer = workspace.search("zebra2 walks")  # its own answer drips until this gives up
        assert answer.results[0].title == "Zebra 2"
        assert answer.method == "text"
        assert any("E004" in said and "in time" in said for said in answer.unavailable), answer.unavailable
        asked = provider.asked
        assert workspace.search("zebra1 walks").results[0].title == "Zebra 1"
        assert provider.asked == asked  # the next question does not wait at all
        saved = workspace.save(text="Saved while the provider was slow", spec_folder="001-core")
        assert saved.id
        assert saved.vector_status in ("pending", "retry")
        assert workspace.health().healthy or "meaning" in workspace.health().checks
        patient(monkeypatch)
        provider.hurry.set()
        workspace._runtime.embed_soon()
        until(lambda: workspace.stats().vectors == {"success": 4})  # the background has caught up by itself
        place.clock.pass_(seconds=31)
        again = workspace.search("zebra0 walks")
        assert again.method == "hybrid"
        assert again.unavailable == ()
        assert workspace.search("saved while the provider was slow").results[0].id == saved.id
        assert workspace.health().healthy


def until(happened: Callable[[], bool]) -> None:
    for _ in range(3000):
        if happened():
            return
        threading.Event().wait(0.02)
    raise AssertionError("it did not happen within a minute")


def test_a_provider_that_comes_back_is_asked_again(place: Place, provider: Provider) -> None:
    place.memory("zebra", "# Zebra\n\nThe zebra walks alone.")
    provider.answer = lambda texts: b"nonsense"
    settings = Settings(root=place.root, semantic=semantic(provider))
    with Workspace(settings, now=place.clock) as workspace:
        workspace.index()
        assert workspace.search("zebra").method == "text"
        provider.answer = vectors
        asked = provider.asked
        assert workspace.search("zebra walks").method == "text"
        assert provider.asked == asked  # not with every question
        place.clock.pass_(seconds=31)
        workspace.index()
        assert workspace.search("zebra walks alone").method == "hybrid"


def test_a_clock_set_back_does_not_keep_a_provider_away(place: Place, provider: Provider) -> None:
    place.memory("zebra", "# Zebra\n\nThe zebra walks alone.")
    provider.answer = lambda texts: b"nonsense"
    settings = Settings(root=place.root, semantic=semantic(provider))
    with Workspace(settings, now=place.clock) as workspace:
        workspace.index()
        assert workspace.search("zebra").method == "text"
        provider.answer = vectors
        place.clock.pass_(days=-400)
        workspace.index()
        assert workspace.search("zebra alone").method == "hybrid"


@pytest.mark.parametrize("name", sorted(local.HASHES))
def test_a_damaged_model_file_is_e004_and_text_answers(place: Place, tmp_path: Path, name: str) -> None:
    model = tmp_path / "model"
    model.mkdir()
    for hash_ in local.HASHES:
        target = model / hash_
        if hash_ == name:
            target.write_bytes((local.MODEL_FOLDER / hash_).read_bytes()[:-1000])
        else:
            shutil.copyfile(local.MODEL_FOLDER / hash_, target)
    place.memory("zebra", "# Zebra\n\nThe zebra walks alone.")
    settings = Settings(root=place.root, semantic=Semantic(model="local"))
    with Workspace(settings, now=place.clock, embedder=LocalEmbedder(folder=model)) as workspace:
        workspace.index()
        answer = workspace.search("zebra")
        assert answer.results[0].title == "Zebra"
        assert answer.method == "text"
        assert any("E004" in said and name in said for said in answer.unavailable), answer.unavailable
        assert workspace.save(text="Saved all the same", spec_folder="001-core").id
        health = workspace.health()
        assert "E004" in health.checks["meaning"]
