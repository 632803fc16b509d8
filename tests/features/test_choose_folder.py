"""In which spec folder does a memory belong? Named, stood in, or fitting; never guessed in silence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from spec_kit_memory.core.memory import Filter
from spec_kit_memory.errors import BadSpecFolder, OutsideScope, UndecidedSpecFolder
from spec_kit_memory.features import choose_folder
from spec_kit_memory.settings import Isolation
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place
from tests.index.material import BY_USER, entry

BROKER = (
    "The message broker Mosquitto carries commands to the locks of a dock. Retained messages, sessions, "
    "certificates of the gateway, telemetry of docks, subscriptions and quality of service."
)
PAYMENTS = (
    "Payments are taken by the processor: invoices, refunds, chargebacks, currencies, tax, receipts and the "
    "monthly settlement with the bank. A card is charged when the ride ends."
)
ABOUT_BROKER: dict[str, Any] = {
    "sessionSummary": "Mosquitto now keeps sessions, and retained commands to dock locks are refused by the gateway. "
    "Telemetry subscriptions have quality of service one and certificates are renewed.",
    "filesModified": ["dock/broker.py"],
}
ABOUT_NOTHING: dict[str, Any] = {"sessionSummary": "We watered the plants and cleaned the kitchen."}


@pytest.fixture
def workspace(place: Place) -> Workspace:
    place.write("specs/002-dock-link/spec.md", f"# Dock link\n\n{BROKER}\n\nSee `dock/broker.py`.\n")
    place.write("specs/003-payments/spec.md", f"# Payments\n\n{PAYMENTS}\n")
    place.write("specs/004-map/005-tiles/spec.md", "# Tiles\n\nVector tiles of the city map, drawn by the phone.\n")
    (place.root / "specs/006-empty").mkdir()
    return place.open()


def test_the_named_folder_is_used_in_any_spelling(workspace: Workspace, place: Place) -> None:
    for name in ("002-dock-link", "specs/002-dock-link", ".opencode/specs/002-dock-link", "specs/002-dock-link/"):
        answer = workspace.save(context=ABOUT_BROKER, spec_folder=name, dry_run=True)
        assert answer.path.startswith("specs/002-dock-link/memory/")
        assert tuple(map(str, answer.warnings)) == ()
    assert not (place.root / "specs/002-dock-link/memory").exists()


def test_the_folder_in_the_data_counts_as_named(workspace: Workspace) -> None:
    answer = workspace.save(context=ABOUT_BROKER | {"specFolder": "003-payments"}, dry_run=True)
    assert answer.spec_folder == "003-payments"


def test_a_named_folder_that_fits_badly_is_used_with_a_warning(workspace: Workspace) -> None:
    answer = workspace.save(context=ABOUT_BROKER, spec_folder="003-payments", dry_run=True)
    assert answer.spec_folder == "003-payments"
    assert "fits the text badly" in answer.warnings[0]
    assert "002-dock-link" in answer.warnings[0]


def test_a_bad_fit_names_better_folders_or_says_that_there_are_none(workspace: Workspace, place: Place) -> None:
    for name in ("002-dock-link", "003-payments"):
        (warning,) = workspace.save(context=ABOUT_NOTHING, spec_folder=name, dry_run=True).warnings
        assert "fits the text badly" in warning
        assert "better: 00" in warning or "no other folder fits better" in warning
        assert not str(warning).rstrip().endswith(":")


def test_a_folder_that_is_alone_has_no_better_one(place: Place) -> None:
    place.write("specs/003-payments/spec.md", f"# Payments\n\n{PAYMENTS}\n")
    answer = place.open().save(context=ABOUT_NOTHING, spec_folder="003-payments", dry_run=True)
    assert [str(warning).partition(" (")[0] for warning in answer.warnings] == ["003-payments fits the text badly"]
    assert "better" not in answer.warnings[0]


@pytest.mark.parametrize(
    "words",
    [
        "Hired two people for the workshop and bought new tools",
        "The gateway was closed on Friday",
        "We charged our phones in the kitchen and watered the plants",
        "The monthly rent of the office goes up; the landlord wrote a letter about heating, parking and the lift",
        "Cards for the birthday of Ann",
        "Lunch",
    ],
)
def test_a_few_words_in_common_are_no_fit(workspace: Workspace, words: str) -> None:
    with pytest.raises(UndecidedSpecFolder) as raised:
        workspace.save(context={"sessionSummary": words})
    alternatives: Any = raised.value.details["alternatives"]
    assert len(alternatives) == 3


def test_two_telling_words_are_a_fit_with_a_warning(workspace: Workspace) -> None:
    answer = workspace.save(context={"sessionSummary": "A ride to the bank"}, dry_run=True)
    assert answer.spec_folder == "003-payments"
    assert answer.alignment
    assert answer.alignment["score"] < 70
    assert "name the folder if that is wrong" in answer.warnings[0]


def test_three_telling_words_or_a_file_are_a_fit(workspace: Workspace) -> None:
    words = {"sessionSummary": "Invoices, refunds and chargebacks now have receipts"}
    assert workspace.save(context=words, dry_run=True).spec_folder == "003-payments"
    file = {"sessionSummary": "Renamed a variable", "filesModified": ["dock/broker.py"]}
    assert workspace.save(context=file, dry_run=True).spec_folder == "002-dock-link"


def test_two_folders_named_in_data_and_argument_are_told(workspace: Workspace) -> None:
    data = ABOUT_BROKER | {"specFolder": "003-payments"}
    answer = workspace.save(context=data, spec_folder="002-dock-link", dry_run=True)
    assert answer.spec_folder == "002-dock-link"
    assert tuple(map(str, answer.warnings)) == (
        "the data names spec folder 003-payments, but 002-dock-link was named beside it and is used",
    )
    for spelling in ("specs/002-dock-link", ".opencode/specs/002-dock-link/"):
        data = ABOUT_BROKER | {"specFolder": spelling}
        assert workspace.save(context=data, spec_folder="002-dock-link", dry_run=True).warnings == ()


def test_a_child_is_found_by_its_own_name(workspace: Workspace) -> None:
    answer = workspace.save(context=ABOUT_BROKER, spec_folder="005-tiles", dry_run=True)
    assert answer.spec_folder == "004-map/005-tiles"


def test_an_ambiguous_name_is_refused_with_the_list(workspace: Workspace, place: Place) -> None:
    (place.root / "specs/003-payments/005-tiles").mkdir()
    with pytest.raises(BadSpecFolder) as raised:
        workspace.save(context=ABOUT_BROKER, spec_folder="005-tiles")
    message = f"{raised.value.message} {raised.value.hint}"
    assert "003-payments/005-tiles" in message
    assert "004-map/005-tiles" in message


def test_an_empty_folder_on_disk_can_be_named(workspace: Workspace) -> None:
    assert workspace.save(context=ABOUT_BROKER, spec_folder="006-empty").spec_folder == "006-empty"


@pytest.mark.parametrize("name", ["payments", "7-x", "../../etc", "007-a b", "007-ä", "003-payments/../../x"])
def test_a_name_that_is_none_is_refused(workspace: Workspace, place: Place, name: str) -> None:
    with pytest.raises((BadSpecFolder, OutsideScope)) as raised:
        workspace.save(context=ABOUT_BROKER, spec_folder=name, create=True)
    assert raised.value.code in ("E033", "E110")
    assert not list(place.root.rglob("memory"))


def test_a_new_folder_is_made_only_on_request(workspace: Workspace, place: Place) -> None:
    with pytest.raises(BadSpecFolder, match="007-new"):
        workspace.save(context=ABOUT_BROKER, spec_folder="007-new")
    answer = workspace.save(context=ABOUT_BROKER, spec_folder="007-new", create=True)
    assert (place.root / answer.path).is_file()
    assert answer.path.startswith("specs/007-new/memory/")


def test_the_folder_one_stands_in_is_meant(workspace: Workspace, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.root / "specs/004-map/005-tiles")
    assert workspace.save(context=ABOUT_BROKER, dry_run=True).spec_folder == "004-map/005-tiles"
    assert workspace.save(text="A fact", dry_run=True).spec_folder == "004-map/005-tiles"


def test_what_was_said_finds_its_folder(workspace: Workspace) -> None:
    answer = workspace.save(context=ABOUT_BROKER, dry_run=True)
    assert answer.spec_folder == "002-dock-link"
    assert answer.alignment
    assert answer.alignment["score"] >= 50


def test_no_fit_is_an_error_with_the_best_three(workspace: Workspace, place: Place) -> None:
    with pytest.raises(UndecidedSpecFolder) as raised:
        workspace.save(context=ABOUT_NOTHING)
    alternatives = raised.value.details["alternatives"]
    assert isinstance(alternatives, list)
    assert {row["name"] for row in alternatives} == {"002-dock-link", "003-payments", "004-map/005-tiles"}
    assert raised.value.code == "E034"
    assert not list(place.root.rglob("memory"))


def test_a_single_fact_belongs_to_the_project(workspace: Workspace) -> None:
    answer = workspace.save(text="Plants are watered on Mondays")
    assert (answer.spec_folder, answer.path.split("/")[0]) == (None, "memory")


def test_a_user_saves_into_a_namespace_of_their_own(place: Place) -> None:
    place.write("specs/002-dock-link/spec.md", BROKER)
    ann = place.open(isolation=Isolation(user_id="ann"))
    own = ann.save(context=ABOUT_BROKER)
    assert own.path.startswith("memory/users/ann/")
    shared = ann.save(context=ABOUT_BROKER, spec_folder="002-dock-link")
    assert shared.path.startswith("specs/002-dock-link/memory/")
    assert [card.path for card in place.open(isolation=Isolation(user_id="bob")).list(source="memory").memories] == [
        shared.path
    ]


def test_folders_outside_the_scope_are_neither_used_nor_named(place: Place) -> None:
    for name in ("002-dock-link", "003-secret-payments"):
        place.write(f"specs/{name}/spec.md", BROKER)
    workspace = place.open(isolation=Isolation(allowed_paths=("specs/002-dock-link",)))
    for name in ("003-secret-payments", "secret", "003"):
        with pytest.raises((BadSpecFolder, OutsideScope)) as raised:
            workspace.save(context=ABOUT_BROKER, spec_folder=name, create=name == "003-secret-payments")
        message = f"{raised.value.message} {raised.value.hint} {raised.value.details}".replace(f"{name}", "")
        assert "payments" not in message
    assert workspace.save(context=ABOUT_BROKER, spec_folder="002-dock-link").id is not None


def test_a_specs_folder_that_is_a_link_works(place: Place) -> None:
    place.write(".opencode/specs/002-dock-link/spec.md", BROKER)
    (place.root / "specs").symlink_to(place.root / ".opencode/specs")
    workspace = place.open()
    answer = workspace.save(context=ABOUT_BROKER, spec_folder="002-dock-link")
    assert answer.path.startswith(".opencode/specs/002-dock-link/memory/")
    assert workspace.index().indexed == 0


def test_of_very_many_folders_the_one_that_fits_is_still_found(
    workspace: Workspace, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose_folder, "FOLDERS", 4)
    for number in range(20, 40):
        place.write(f"specs/0{number}-other/spec.md", f"# Other {number}\n\nGardens, bread and rivers {number}.\n")
    workspace.index()
    answer = workspace.save(context=ABOUT_BROKER, dry_run=True)
    assert answer.spec_folder == "002-dock-link"
    named = workspace.save(context=ABOUT_BROKER, spec_folder="003-payments", dry_run=True)
    assert named.spec_folder == "003-payments"
    assert "002-dock-link" in named.warnings[0]


def test_a_folder_whose_documents_changed_is_judged_by_what_they_say_now(workspace: Workspace, place: Place) -> None:
    assert workspace.save(context=ABOUT_BROKER, dry_run=True).spec_folder == "002-dock-link"
    place.write("specs/002-dock-link/spec.md", f"# Dock link\n\n{PAYMENTS}\n")
    place.write("specs/003-payments/spec.md", f"# Payments\n\n{BROKER}\n\nSee `dock/broker.py`.\n")
    place.clock.pass_(minutes=5)
    workspace.index(force=True)
    assert workspace.save(context=ABOUT_BROKER, dry_run=True).spec_folder == "003-payments"


def test_what_a_folder_has_archived_does_not_tell_what_it_is_about(workspace: Workspace) -> None:
    for number in range(choose_folder.DOCUMENTS):
        old = entry(f"specs/003-payments/old/{number}.md", f"{BROKER} {number}", spec_folder="003-payments")
        workspace._runtime.whole.documents.put(replace(old, archived_folder=True), BY_USER)
    memories = workspace._runtime.store.documents.find(Filter(spec_folder="003-payments"))
    profile = choose_folder._read(
        workspace._runtime,
        "003-payments",
        choose_folder._active(choose_folder._Folders(workspace._runtime, None).indexed["003-payments"]),
        choose_folder.DOCUMENTS,
    )
    assert sum(memory.archived_folder for memory in memories) == choose_folder.DOCUMENTS
    assert "mosquitto" not in profile.words
    assert "refund" in profile.words
