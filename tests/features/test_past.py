from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from spec_kit_memory.answers import Result, SearchAnswer
from spec_kit_memory.errors import AccessDenied, BadParameter, NothingToSearch, OutOfRange
from spec_kit_memory.settings import Isolation
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place

OLD = "# Login\n\nAccess tokens live fifteen minutes."
NEW = "# Login\n\nAccess tokens live sixty minutes."
BROKER = "# Broker\n\nThe message broker is Mosquitto."


def texts(answer: SearchAnswer) -> list[str]:
    return [result.text for result in answer.results if isinstance(result, Result)]


def titles(answer: SearchAnswer) -> list[str]:
    return [result.title for result in answer.results]


def test_a_question_about_the_past_is_answered_with_the_text_of_then(place: Place) -> None:
    place.memory("tokens", OLD)
    workspace = place.open()
    id_ = place.id_of(workspace, "tokens")
    place.clock.pass_(days=3)
    place.memory("tokens", NEW)
    place.memory("broker", BROKER)
    workspace.index()
    now = workspace.search("how long do access tokens live")
    then = workspace.search("how long do access tokens live", as_of="2026-03-02")
    assert "sixty" in texts(now)[0]
    assert "fifteen" in texts(then)[0]
    assert [result.id for result in then.results] == [id_]
    assert then.method == "hybrid"
    assert then.stats["totalFiles"] == 1
    assert any("2026-03-02T23:59:59Z" in hint for hint in then.hints)
    assert any("not recorded" in hint for hint in then.hints)


def test_a_deleted_memory_is_found_when_it_was_there(place: Place) -> None:
    place.memory("broker", BROKER)
    workspace = place.open()
    place.clock.pass_(days=2)
    workspace.delete(place.id_of(workspace, "broker"), delete_file=True)
    place.clock.pass_(days=2)
    assert titles(workspace.search("message broker")) == []
    assert titles(workspace.search("message broker", as_of="2026-03-02T10:00:00Z")) == ["Broker"]
    assert titles(workspace.search("message broker", as_of="2026-03-04")) == []


def test_metadata_and_links_are_those_of_then(place: Place) -> None:
    place.memory("tokens", OLD)
    place.memory("newer", "# Login again\n\nAccess tokens live ninety minutes.")
    workspace = place.open()
    one, two = place.id_of(workspace, "tokens"), place.id_of(workspace, "newer")
    workspace.link(two, one, "supersedes")
    place.clock.pass_(days=1)
    workspace.update(one, title="Renamed", importance_tier="deprecated")
    workspace.unlink(workspace.why(two).steps[0].link.id if workspace.why(two).steps else 1)
    place.clock.pass_(days=1)
    then = workspace.search("access tokens live", as_of="2026-03-01")
    assert titles(then) == ["Login again", "Login"]
    superseded = then.results[1]
    assert isinstance(superseded, Result)
    assert superseded.superseded_by == (two,)
    now = workspace.search("access tokens live")
    assert titles(now) == ["Login again"]


def test_a_checkpoint_is_a_moment_too(place: Place) -> None:
    place.memory("tokens", OLD)
    place.memory("other", BROKER, folder="002-other")
    workspace = place.open()
    workspace.checkpoint_create("release one", spec_folder="001-core")
    place.clock.pass_(days=1)
    place.memory("tokens", NEW)
    workspace.index()
    answer = workspace.search("access tokens", as_of="release one")
    assert "fifteen" in texts(answer)[0]
    assert answer.summary.startswith("as of checkpoint release one")
    assert any("001-core only" in hint for hint in answer.hints)
    assert titles(workspace.search("broker", as_of="release one", mode="text")) == []


def test_a_day_means_its_end_and_today_means_now(place: Place) -> None:
    place.clock.pass_(hours=6)
    place.memory("tokens", OLD)
    workspace = place.open()
    assert titles(workspace.search("access tokens", as_of="2026-03-01")) == ["Login"]
    assert titles(workspace.search("access tokens", as_of="2026-03-01T12:00:00Z")) == []


@pytest.mark.parametrize(
    ("as_of", "error", "code"),
    [
        ("2026-03-02", OutOfRange, "E032"),
        ("2126-01-01T00:00:00Z", OutOfRange, "E032"),
        ("last tuesday-ish", BadParameter, "E030"),
        ("31-31-2026", BadParameter, "E030"),
    ],
)
def test_moments_that_cannot_be_are_refused(place: Place, as_of: str, error: type[Exception], code: str) -> None:
    place.memory("tokens", OLD)
    workspace = place.open()
    with pytest.raises(error) as raised:
        workspace.search("tokens", as_of=as_of)
    assert raised.value.code == code  # type: ignore[attr-defined]
    with pytest.raises(NothingToSearch):
        workspace.search("", as_of="2026-03-01")


def test_before_the_first_index_nothing_can_be_known_and_it_says_so(place: Place) -> None:
    place.memory("tokens", OLD, created="2020-01-01")
    workspace = place.open()
    answer = workspace.search("access tokens", as_of="2021-01-01")
    assert answer.results == ()
    assert "nothing was known then" in answer.hints
    assert any("the record starts at 2026-03-01" in hint for hint in answer.hints)
    message = "left out: 1 memory carries an earlier date but came into the index later"
    assert message in answer.hints
    assert answer.summary == "as of 2021-01-01T23:59:59Z: nothing was known then"


def test_without_any_record_the_past_is_empty_and_it_says_why(place: Place) -> None:
    place.memory("tokens", OLD)
    answer = place.open(index=False).search("access tokens", as_of="2021-01-01")
    assert answer.results == ()
    assert "nothing was known then" in answer.summary
    assert any("no record yet" in hint and "`index()`" in hint for hint in answer.hints)


def test_the_second_question_uses_what_was_rebuilt_and_nothing_is_left_behind(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", os.fspath(temporary))
    place.memory("tokens", OLD)
    workspace = place.open()
    folder = workspace.settings.state_folder / "past"
    place.clock.pass_(days=9)
    workspace.search("tokens", as_of="2026-03-02")
    first = set(folder.iterdir())
    workspace.search("minutes", as_of="2026-03-02")
    assert set(folder.iterdir()) == first
    assert len(first) == 1
    for day in range(3, 8):
        workspace.search("minutes", as_of=f"2026-03-0{day}")
    assert len(list(folder.iterdir())) == 2
    workspace.close()
    assert list(folder.iterdir()) == []
    assert list(temporary.iterdir()) == [], "texts are not put where others could come by"


def test_what_was_rebuilt_is_closed_to_others_whatever_the_umask(place: Place) -> None:
    place.memory("tokens", OLD)
    workspace = place.open()
    place.clock.pass_(days=9)
    mask = os.umask(0)
    try:
        workspace.search("tokens", as_of="2026-03-02")
    finally:
        os.umask(mask)
    folder = workspace.settings.state_folder / "past"
    for path in (folder, *folder.rglob("*")):
        assert not path.stat().st_mode & 0o077, path


def test_what_a_killed_process_left_behind_goes_when_the_workspace_is_opened_next(place: Place) -> None:
    place.memory("tokens", OLD)
    workspace = place.open()
    place.clock.pass_(days=9)
    workspace.search("tokens", as_of="2026-03-02")
    code = (
        "import os, sys\nfrom pathlib import Path\n"
        "from spec_kit_memory.settings import Semantic, Settings\nfrom spec_kit_memory.workspace import Workspace\n"
        "workspace = Workspace(Settings(root=Path(sys.argv[1]), semantic=Semantic(model='hashing')))\n"
        "workspace.search('tokens', as_of='2026-03-02')\nos.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(workspace.settings.root)], check=False)
    assert done.returncode == -9
    folder = workspace.settings.state_folder / "past"
    assert len(list(folder.iterdir())) == 2, "one of this process and one of a dead one"
    with Workspace(workspace.settings):
        assert len(list(folder.iterdir())) == 1
    assert "fifteen" in texts(workspace.search("tokens", as_of="2026-03-02"))[0], "the living one's is still there"
    workspace.close()
    with Workspace(workspace.settings):
        assert not folder.exists() or list(folder.iterdir()) == []


def test_a_link_in_place_of_the_past_is_not_followed(place: Place, tmp_path: Path) -> None:
    place.memory("tokens", OLD)
    with place.open() as workspace:
        settings = workspace.settings
    outside = tmp_path / "outside"
    (outside / "dead").mkdir(parents=True)
    (outside / "dead" / "precious").touch()
    folder = settings.state_folder / "past"
    if folder.exists():
        folder.rmdir()
    folder.symlink_to(outside)
    with pytest.raises(AccessDenied), Workspace(settings) as workspace:
        workspace.search("tokens", as_of="2026-03-02")
    assert (outside / "dead" / "precious").exists()


def test_looking_back_changes_nothing(place: Place) -> None:
    place.memory("tokens", OLD)
    workspace = place.open()
    place.clock.pass_(days=2)
    before = (workspace.ledger_head().head, workspace.list().memories)
    workspace.search("access tokens", as_of="2026-03-02", include_content=True, session_id="s")
    assert (workspace.ledger_head().head, workspace.list().memories) == before


def test_the_same_question_now_and_as_of_now_gives_the_same_ranking(place: Place) -> None:
    for number in range(12):
        place.memory(f"n{number}", f"# Note {number}\n\nThe gateway number {number} limits calls to {number}.")
    workspace = place.open()
    place.clock.pass_(hours=1)
    now = workspace.search("calls of gateway number 7")
    then = workspace.search("calls of gateway number 7", as_of=place.clock().isoformat())
    assert [(r.id, r.score) for r in now.results] == [(r.id, r.score) for r in then.results]


def test_the_past_of_others_stays_theirs(place: Place) -> None:
    place.write("memory/users/ann/plan.md", "# Plan\n\nThe secret plan of ann.\n")
    place.write("memory/users/bob/plan.md", "# Plan\n\nThe secret plan of bob.\n")
    place.open()
    ann = place.open(index=False, isolation=Isolation(user_id="ann"))
    ann.checkpoint_create("mine")
    bob = place.open(index=False, isolation=Isolation(user_id="bob"))
    assert texts(ann.search("secret plan", as_of="2026-03-01"))
    assert all("ann" not in text for text in texts(bob.search("secret plan", as_of="2026-03-01")))
    with pytest.raises(BadParameter):
        bob.search("secret plan", as_of="mine")
