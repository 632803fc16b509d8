"""What can be changed from a page? Each form calls one verb; the page then shows the result, with a way to undo it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from starlette.routing import compile_path

from spec_kit_memory.errors import BadParameter, MissingParameter
from spec_kit_memory.serve.messages import for_page
from spec_kit_memory.serve.page.access import Notice
from spec_kit_memory.serve.page.document import visible
from spec_kit_memory.serve.page.jinja import sentence

if TYPE_CHECKING:
    from spec_kit_memory.answers import Answer
    from spec_kit_memory.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Sent:
    """The fields of a form, and the parameters in its address."""

    path: Mapping[str, Any]
    form: Mapping[str, str]

    @property
    def id(self) -> int:
        return int(self.path["id"])

    def text(self, name: str) -> str:
        return self.form.get(name, "").strip()

    def needed(self, name: str) -> str:
        if not (text := self.text(name)):
            raise MissingParameter(f"{name.replace('_', ' ')} is missing.", hint="Fill it in. Nothing was changed.")
        return text

    def number(self, name: str) -> int:
        text = self.needed(name).removeprefix("#")
        if not re.fullmatch(r"[0-9]{1,15}", text):
            raise BadParameter(f"{name.replace('_', ' ')} is {text!r}.", hint="Give a memory's number.")
        return int(text)

    def flag(self, name: str) -> bool:
        return self.text(name) in ("1", "true", "on", "yes")

    def lines(self, name: str) -> list[str]:
        return [line.strip() for line in self.form.get(name, "").splitlines() if line.strip()]


# Codes of advice on undo, which the page leaves out because it has a button for that.
TAKES_BACK = frozenset({"take-back", "take-back-on-page"})


@dataclass(frozen=True, slots=True)
class ChangeDone:
    notice: Notice
    to: str = ""  # address of the next page; empty for the page of the form


def _change(workspace: Workspace, about: int | str | None, change: Callable[[], Answer], *, to: str = "") -> ChangeDone:
    """Make a change and find its operation for undo: the newest one `about` this memory id, or of this kind. If that
    existed before, the change had no effect and there is nothing to undo."""
    memory_id, kind = (about, "") if isinstance(about, int) else (None, about)

    def newest() -> str:
        changes = workspace.changes(memory_id, limit=1).changes if about is not None else ()
        return changes[0].operation if changes and kind in ("", changes[0].kind) else ""

    before = newest()
    answer = change()
    hints = tuple(for_page(hint) for hint in answer.advice if getattr(hint, "code", "") not in TAKES_BACK)
    operation = after if (after := newest()) != before else ""
    return ChangeDone(Notice(_sentence(answer), hints=hints, operation=operation), to=to)


def _sentence(answer: Answer) -> str:
    return sentence(answer.summary)


def update(workspace: Workspace, sent: Sent) -> ChangeDone:
    """Write only fields that were sent and differ from the current values."""
    card = workspace.examine(sent.id).memory
    values: dict[str, Any] = {}
    # The form shows hidden characters as codes and sends them back like that, which is no change.
    current = {"title": card.title, "tier": card.tier, "type": card.context_type}
    for name, value in current.items():
        if name in sent.form and (new := sent.needed(name)) not in (value, visible(value)):
            values[{"tier": "importance_tier", "type": "context_type"}.get(name, name)] = new
    if "phrases" in sent.form:
        as_shown = {visible(phrase): phrase for phrase in card.triggers}
        phrases = [as_shown.get(line, line) for line in sent.lines("phrases")]
        if phrases != list(card.triggers):
            values["trigger_phrases"] = phrases
    if not values:
        return ChangeDone(Notice("Nothing was changed: everything is as it was."))
    return _change(workspace, sent.id, lambda: workspace.update(sent.id, confirm=sent.flag("confirm"), **values))


def judge(workspace: Workspace, sent: Sent) -> ChangeDone:
    verdict = sent.needed("verdict")
    values: dict[str, dict[str, Any]] = {
        "useful": {"was_useful": True},
        "not-useful": {"was_useful": False},
        "outdated": {"outdated": True},
        "holds": {"outdated": False},
        "promote": {"promote": True},
    }
    if verdict not in values:
        raise BadParameter(f"there is no verdict {verdict!r}", hint="Use a button of the page.")
    return _change(workspace, sent.id, lambda: workspace.validate(sent.id, **values[verdict]))


def trust(workspace: Workspace, sent: Sent) -> ChangeDone:
    return _change(workspace, sent.id, lambda: workspace.trust(sent.id, trusted=sent.text("trusted") != "0"))


def forget(workspace: Workspace, sent: Sent) -> ChangeDone:
    return _change(workspace, sent.id, lambda: workspace.delete(sent.id, delete_file=sent.flag("file")))


def merge(workspace: Workspace, sent: Sent) -> ChangeDone:
    """Merge memory `id` into another one, and go to that one's page."""
    into = sent.number("into")
    return _change(workspace, into, lambda: workspace.merge(sent.id, into), to=sent.text("then"))


def link(workspace: Workspace, sent: Sent) -> ChangeDone:
    target, relation = sent.number("target"), sent.needed("relation")
    ends = (target, sent.id) if sent.flag("inward") else (sent.id, target)
    evidence = sent.text("evidence") or None
    return _change(workspace, ends[0], lambda: workspace.link(*ends, relation, evidence=evidence))


def unlink(workspace: Workspace, sent: Sent) -> ChangeDone:
    return _change(workspace, "link", lambda: workspace.unlink(sent.id))


def undo(workspace: Workspace, sent: Sent) -> ChangeDone:
    answer = workspace.undo(operation=sent.needed("operation"))
    return ChangeDone(Notice(_sentence(answer)))


def keep(workspace: Workspace, sent: Sent) -> ChangeDone:
    answer = workspace.keep(sent.needed("key"), kept=sent.text("kept") != "0")
    message = _sentence(answer) + ("; it is among what was set aside" if answer.kept else "")
    back = {"key": answer.key, "kept": "0" if answer.kept else "1"}
    return ChangeDone(Notice(message, back_to="/care/keep", back_form=back))


def remove_phrase(workspace: Workspace, sent: Sent) -> ChangeDone:
    phrases = [sent.needed("phrase")]
    return _change(workspace, sent.id, lambda: workspace.update(sent.id, remove_trigger_phrases=phrases))


def checkpoint_create(workspace: Workspace, sent: Sent) -> ChangeDone:
    answer = workspace.checkpoint_create(name := sent.needed("name"), description=sent.text("description") or None)
    back = f"/time/checkpoint/{quote(name, safe='')}/delete"
    return ChangeDone(Notice(_sentence(answer), back_to=back, back_form={"confirm": "1"}))


def checkpoint_restore(workspace: Workspace, sent: Sent) -> ChangeDone:
    if not sent.flag("confirm"):
        raise BadParameter("Restoring was not confirmed.", hint="Tick the box beside the button. Nothing was changed.")
    name, clear, files = sent.path["name"], sent.flag("clear"), sent.flag("files")
    return _change(
        workspace, "restore", lambda: workspace.checkpoint_restore(name, clear_existing=clear, restore_files=files)
    )


def checkpoint_delete(workspace: Workspace, sent: Sent) -> ChangeDone:
    if not sent.flag("confirm"):
        raise BadParameter("Deleting was not confirmed.", hint="Tick the box beside the button. Nothing was changed.")
    name = sent.path["name"]
    return _change(workspace, None, lambda: workspace.checkpoint_delete(name), to="/time")


def index(workspace: Workspace, sent: Sent) -> ChangeDone:
    return _change(workspace, None, workspace.index)


def repair(workspace: Workspace, sent: Sent) -> ChangeDone:
    return _change(workspace, None, lambda: workspace.health(repair=True))


CHANGES: Mapping[str, Callable[[Workspace, Sent], ChangeDone]] = {
    "/memory/{id:int}/update": update,
    "/memory/{id:int}/judge": judge,
    "/memory/{id:int}/trust": trust,
    "/memory/{id:int}/forget": forget,
    "/memory/{id:int}/merge": merge,
    "/memory/{id:int}/link": link,
    "/memory/{id:int}/phrase/remove": remove_phrase,
    "/link/{id:int}/remove": unlink,
    "/undo": undo,
    "/care/keep": keep,
    "/time/checkpoint": checkpoint_create,
    "/time/checkpoint/{name:path}/restore": checkpoint_restore,
    "/time/checkpoint/{name:path}/delete": checkpoint_delete,
    "/index": index,
    "/repair": repair,
}
# What a form asks of the workspace: a verb, and the argument that may need a higher role than the verb does.
ASKS: Mapping[Callable[[Workspace, Sent], ChangeDone], tuple[str, str]] = {
    update: ("update", ""),
    judge: ("validate", ""),
    trust: ("trust", ""),
    forget: ("delete", ""),
    merge: ("merge", ""),
    link: ("link", ""),
    remove_phrase: ("update", ""),
    unlink: ("unlink", ""),
    undo: ("undo", ""),
    keep: ("keep", ""),
    checkpoint_create: ("checkpoint_create", ""),
    checkpoint_restore: ("checkpoint_restore", ""),
    checkpoint_delete: ("checkpoint_delete", ""),
    index: ("index", ""),
    repair: ("health", "repair"),
}
_PATTERNS = tuple((compile_path(path)[0], act) for path, act in CHANGES.items())


def asked_by(address: str) -> tuple[str, str]:
    """The verb and argument behind the address of one of our forms."""
    return next(ASKS[act] for pattern, act in _PATTERNS if pattern.match(unquote(address)))
