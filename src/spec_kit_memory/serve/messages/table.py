"""How is each advice code worded? One template for all readers, or one for a model, a person, a person on the page.

Templates contain calls in Python syntax (`spelling`) and placeholders (`__init__`). They say what is wrong, unless the
answer already does, and then the next step with its arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    model: str
    person: str
    python: str
    page: str


def _alike(template: str, *, page: str = "") -> Words:
    """`page` is for advice whose commands are buttons or boxes on the page."""
    return Words(model=template, person=template, python=template, page=page or template)


def _apart(*, model: str, person: str) -> Words:
    """For advice that a model cannot follow as a person can. Python code gets the person's."""
    return Words(model=model, person=person, python=person, page=person)


_REBUILD = (
    "it makes a new index from the files and from what can still be read of this one, says what could not be read, "
    "and keeps the damaged one. Files are never touched"
)

TABLE: Mapping[str, Words] = {
    # --- workspace and settings
    "make-workspace": _apart(
        model="The user can make one: `skm init` in the project's root, or --workspace.",
        person="Run `skm init` in your project's root, or name it with --workspace.",
    ),
    "make-personal": _apart(
        model="the user can make it with `skm init --personal`; it is not there over HTTP or under isolation",
        person="make it with `skm init --personal`; it is not there over HTTP or under isolation",
    ),
    "name-workspace": _apart(
        model="The user can start the server in a folder that does, or with --workspace.",
        person="Change to a folder that does, or use --workspace.",
    ),
    "existing-workspace": _apart(
        model="The user can start the server with an existing folder: --workspace.",
        person="Name an existing folder with --workspace.",
    ),
    "show-settings": _apart(
        model="The user can correct them; `skm config show` tells every key and what is wrong.",
        person="`skm config show` tells every key and what is wrong.",
    ),
    # --- search
    "fewer-concepts": _alike("use fewer concepts, or {parameters!p} instead"),
    "ask-which-to-load": _alike("ask which memories to load: {choices}; skipping never blocks"),
    "name-rules": _alike("{count:more rule}: `list(tier='constitutional')` names them"),
    "read-section": _alike("{count:section} did not fit the token budget; `load(ID, anchor_id=SECTION)` reads one"),
    "held-back": _alike("older matches were held back; {ways}"),
    "held-back-by-state": _alike("`state_filter` or `min_state` left them out"),
    "bring-archived": _alike("`include_archived=True` brings archived and expired ones"),
    "bring-dormant": _alike("`min_state='DORMANT'` brings dormant ones"),
    "raise-budget": _alike(
        "{count} more did not fit the token budget; a larger `max_tokens` or a narrower question helps"
    ),
    "sent-before": _alike("what this session was sent before is only referred to; `dedup=False` sends it again"),
    "successor-not-shown": _alike(
        "memory {id} is superseded by memory {by}, which is not among these results: `load({by})` reads it"
    ),
    "below-score": _alike("{count:match is|matches are} below `min_score` {score}"),
    "held-back-fresh": _alike("`fresh=True` left out {count:match|matches} whose code has changed or is gone"),
    "drop-filters": _alike("search again without {parameters!p}"),
    "other-words": _alike("try other words for the same thing, or `list()` to browse"),
    "embed-rest": _alike(
        "{count:passage is|passages are} not embedded yet and found by their words only; "
        "a running server or `index()` changes that"
    ),
    "no-meaning": _alike("meaning: {problem}; {next}"),
    "embed-anew": _alike("`index()` makes them anew"),
    "neighbouring-states": _alike("ask for one, or use `min_state`"),
    # --- read and list
    "read-on": _alike("continue with `get({path}, {lines})`"),
    "find-paths": _alike("`search({query})` gives ids and paths of memories"),
    "list-ids": _alike("`list()` shows the ids"),
    "read-merged": _alike("`load({id})` reads it", page="its text is now part of memory {id}"),
    "list-memories": _alike("list them with `list()`"),
    "list-folders": _alike("list folders with `stats()`"),
    "read-all-lines": _alike("the whole file is `get({path}, {lines})`"),
    "earlier-page": _alike("the list ends before that; `offset={offset}` shows the end of it"),
    "next-page": _alike("{count} more: `offset={offset}`"),
    "raise-limit": _alike("{count:more matches|more match}; a larger `limit` shows them"),
    "triggers-held-back": _alike(
        "{count:memory has|memories have} such a phrase and did not count, as expired, outdated, deprecated or"
        " archived: {ids}; `load(ID)` reads one"
    ),
    "near-folders": _alike("did you mean {names}?"),
    "near-paths": _alike("did you mean {names}?"),
    "list-all": _alike("`list()` without a filter shows what is there"),
    "all-forgotten": _apart(
        model="{count:memory was|memories were} deleted; the user can bring the last back with `skm undo`",
        person="{count:memory was|memories were} deleted: `list(forgotten=True)` shows which, "
        "`undo()` takes back the last",
    ),
    "file-brings-back": _alike("the memory is back when its file is; `history({id})` shows what happened to it"),
    "bring-back": _alike(
        "`undo()` takes back the last delete; `save(file_path=PATH)` brings one file back",
        page="Time lists what can be taken back",
    ),
    "only-by-tier": _alike("it is deprecated: search finds it only with `tier='deprecated'`"),
    "expired": _alike("it expired on {date}: search finds it only with `include_archived=True`"),
    "outdated": _alike("it was marked outdated: search finds it only with `include_archived=True`"),
    "in-archive": _alike("it lies in an archive folder: search finds it only with `include_archived=True`"),
    # --- context
    "search-or-load": _alike("`search(QUERY)` finds more; `load(ID)` reads one by its id"),
    "first-memory": _apart(
        model="nothing is indexed yet: run `index()`, or save a first memory with `save(context=TEXT)`",
        person="nothing is indexed yet: run `index()`, or save a first memory with `save(text=TEXT)`",
    ),
    # --- save
    "name-folder": _alike("name one with `spec_folder`; with `create=True` a new one"),
    "create-folder": _alike("`create=True` makes it."),
    "meant-folder": _alike("Did you mean {names}? A new one needs `create=True`."),
    "add-phrases": _alike(
        "memory {id} does not have {phrases} among its trigger phrases; "
        "add {count!o} with `update({id}, add_trigger_phrases=PHRASE)`"
    ),
    "set-tier": _alike("memory {id} stays {now}; `update({id}, importance_tier={tier})` makes it {tier}"),
    "set-context-type": _alike("memory {id} stays {now}; `update({id}, context_type={type})` makes it {type}"),
    "merge-similar": _alike(
        "memory {other} says nearly the same: save this again with `on_similar='merge'` to join the two "
        "(`merge({other}, {id})`), or leave both"
    ),
    "merge-similar-elsewhere": _alike(
        "memory {other} says nearly the same in another folder: `merge({other}, {id})` joins the two, or leave both"
    ),
    "supersede-similar": _alike(
        "memory {other} says the same except for {differences}: if that has changed, "
        "`link({id}, {other}, 'supersedes')`; `merge({other}, {id})` would keep both statements"
    ),
    # --- amend
    "take-back": _apart(
        model="the user can take it back with `skm undo`",
        person="take it back with `undo()`",
    ),
    "take-back-on-page": _apart(
        model="the user can take it back on the server's page, under Time",
        person="take it back on the server's page, under Time",
    ),
    "bring-back-on-page": _apart(
        model="the user can take the last delete back on the server's page, under Time",
        person="take the last delete back on the server's page, under Time",
    ),
    "confirm": _alike("ask the person, then call again with `confirm=True`"),
    "vouch": _apart(
        model="ask the user to vouch for it: `skm trust {id}`",
        person="vouch for it with `trust({id})`",
    ),
    "one-or-folder": _alike("give id for one memory, or `spec_folder` with `confirm=True` for all of a folder"),
    "two-memories": _alike("give the ids of two different memories; `list()` shows them"),
    "promote": _alike("it may become critical: call `validate({id}, promote=True)`"),
    # --- index
    "wait-to-scan": _alike("wait {seconds:second}; single files can be indexed now with `save(file_path=PATH)`"),
    "index": _alike("run `index()`"),
    "try-again-by-index": _alike("run `index()` to try again"),
    "index-again": _alike("run `index()` again"),
    "index-in-step": _alike("run `index()`, which brings the index in step with the files; nothing was changed"),
    "then-index": _alike("then run `index()`"),
    "then-index-names-it": _alike("then run `index()`, which gives it its name"),
    "index-before-import": _alike("index the workspace first: `index()`"),
    "forgotten-files": _alike(
        "{count:file holds|files hold} text that was deleted on request and stays out; "
        "`list(forgotten=True)` names it, `save(file_path=PATH)` brings a file back"
    ),
    "write-first": _alike("write the first one: `save()`, or a markdown file in memory/ or specs/NAME/memory/"),
    "bad-files": _alike("{count:file} could not be indexed; `health()` lists them with the reason"),
    "loose-link": _alike("{problem}"),
    "loose-links-more": _alike("{problem}. {more:more link leads|more links lead} nowhere; `health()` lists them"),
    "vectors-waiting": _alike(
        "{count:memory waits|memories wait} for vectors; a running server or `index()` makes them"
    ),
    "vectors-held-up": _alike("{count:memory waits|memories wait} for vectors: {cause}; {next}"),
    "vectors-tried": _alike(
        "{count:memory waits|memories wait} for vectors; `index()` tries again, three times in all"
    ),
    "vectors-given-up": _alike(
        "{count:memory was|memories were} tried three times; `health(repair=True)` lets them be tried again"
    ),
    "restore-lost": _alike("what a checkpoint has of it comes back with `checkpoint_restore(NAME)`"),
    "first-reading": _alike(
        "the files are being read for the first time, so this is not complete yet: ask again in a moment"
    ),
    "reading-again": _alike(
        "the index was replaced and the files are being read again, so this is not complete yet: ask again in a moment"
    ),
    # --- links and history
    "link-memories": _alike("link memories with `link(SOURCE, TARGET, RELATION)`, or causal_links in front matter"),
    "farther-links": _alike(
        "{count:memory|memories} farther away did not fit the token budget; a larger `max_tokens` shows more"
    ),
    "find-links": _alike("`why(ID)` shows the links of a memory"),
    "older-changes": _alike("{count:older change} did not fit the token budget; a larger `max_tokens` shows more"),
    "nothing-recorded": _alike("nothing is recorded; check the id with `list()`"),
    "ledger-head": _alike("give the line that `ledger_head()` printed: a number and 64 hexadecimal digits"),
    "what-undo-does": _alike(
        "undo takes back deletes, updates, merges, restores, opinions and links; `history()` shows what happened"
    ),
    "name-moment": _alike("give 2026-03-01, 2026-03-01T14:00Z, or a name from `checkpoint_list()` as `as_of`"),
    "earlier-moment": _alike("give a moment up to {now} as `as_of`"),
    "no-record": _alike("there is no record yet: it begins when files are first indexed, with `index()`"),
    "record-starts": _alike("the record starts at {at}, when files were first indexed; ask for a later `as_of`"),
    # --- checkpoints
    "free-checkpoint-name": _alike(
        "choose another name, or delete that one first with `checkpoint_delete({name})`",
        page="choose another name, or delete that one first",
    ),
    "all-checkpoints": _alike("`checkpoint_list()` lists those of all folders"),
    "other-checkpoints": _alike("nothing was changed; `checkpoint_list()` shows the others"),
    "make-checkpoint": _alike("make one with `checkpoint_create(NAME)`"),
    "compare-later": _alike("see later what changed since with `checkpoint_diff({name})`"),
    "clear-newer": _alike(
        "`clear_existing=True` takes back what is newer, too; see what that is with `checkpoint_diff({name})`",
        page="tick “also take back what is newer” to go back to it; the checkpoint's page lists what that is",
    ),
    "restore-files": _alike(
        "files stay as they are; `restore_files=True` writes them back",
        page="files stay as they are; tick “write files back, too” to have them as they were",
    ),
    "restore-renamed": _alike(
        "nothing was changed; rename it back, or use `restore_files=True` to write the old files again",
        page="nothing was changed; rename it back, or tick “write files back, too”",
    ),
    "files-missing": _alike(
        "{count:memory has|memories have} no file; the next scan takes out what `restore_files=True` does not write",
        page="{count:memory has|memories have} no file; tick “write files back, too”, or a scan takes {count!o} out",
    ),
    "checkpoints-and-history": _alike("`checkpoint_list()` shows what is there; `history()` shows single memories"),
    # --- chats
    "vouch-for-chat": _apart(
        model="chat carries no rules or triggers until the user vouches for it: `skm trust ID`",
        person="chat carries no rules or triggers until you vouch for it: `trust(ID)`",
    ),
    "import-chats": _alike("remember some with `chat_import(PATH)`"),
    "list-chats": _alike("list them with `chat_list()`"),
    # --- health
    "health": _alike("run `health()`"),
    "health-full": _alike("run `health(full=True)`"),
    "health-or-reinstall": _alike("run `health()`; reinstall spec-kit-memory if a package is missing"),
    "report-fault": _alike("Run `health()`; if that finds nothing, report this with what you did."),
    "repair": _alike("mend what can be mended with `health(repair=True)`"),
    "look-to-the-end": _alike("the index is large: `health(full=True)` looks to the end at {checks}"),
    "repair-meaning": _alike("search works by text meanwhile; look at the settings of the provider"),
    "saves-are-found": _alike("each is found by everybody meanwhile, and what can be tried again is"),
    "repair-repository": _alike(
        "look at its address, at the credentials of the server and at the rules of the git host"
    ),
    "repair-bad-files": _alike("fix the file, or exclude it in .spec-kit-memory/config.jsonc"),
    "repair-lines": _alike("correct in the file what is named; the text is indexed all the same"),
    "repair-checkpoints": _alike("upgrade spec-kit-memory if the file is of a newer version, else remove it"),
    "repair-link-targets": _alike("correct causal_links in that file, or write the memory that it names"),
    "repair-record": _alike(
        "something else than this program wrote to index.sqlite: restore it from a backup or a checkpoint"
    ),
    "repair-files": _alike("`index()` brings the index in step; `health(repair=True)` does so too"),
    "repair-held-back": _alike("`load(ID)` says why a memory is left out"),
    "still-true": _alike("is it still true? correct it, or say so with `validate(ID, outdated=True)`"),
    "longer-phrase": _alike("give it a longer phrase with `update(ID, add_trigger_phrases=PHRASE)`"),
    "repair-pending": _alike("`index()` computes them now; a running server computes them by itself"),
    "repair-failed": _alike("fix the cause; `health(repair=True)` lets them be tried again"),
    "free-space": _alike("free some space, then try again: no restart is needed"),
    "mount-for-writing": _alike("mount it for writing if something is to be saved"),
    "repair-stale": _alike("`index()` takes them out; `health(repair=True)` does so too"),
    "repair-links": _alike("`health(repair=True)` removes those without an end and derives the others again"),
    "repair-sessions": _alike("`health(repair=True)` ends them"),
    "repair-text": _alike("`health(repair=True)` builds it again from the recorded text"),
    "repair-vectors": _alike("`health(repair=True)` computes them again"),
    "repair-documents": _alike("`health(repair=True)` reads the files again"),
    "repair-ledger": _alike("restore index.sqlite from a backup; `ledger_verify()` names the entry"),
    "repair-index": _alike("`index(rebuild=True)` makes a new index of what can be read, and keeps this one"),
    # --- care
    "join-or-leave": _alike("join them, or leave both"),
    "vouch-or-forget": _alike(
        "vouch for it so that its phrases and rules count, forget it, or leave it to be searched only"
    ),
    "does-it-hold": _alike("say whether it still holds"),
    "remove-phrase": _alike("take the phrase away, or give the memory a longer one"),
    "other-tier-or-forget": _alike("give it another tier if it still holds, else forget it"),
    "fix-and-repair": _alike("fix the cause; a repair lets it be tried again"),
    "fix-file": _alike("fix the file; it is then read again by itself"),
    # --- index, files and embedding that fail
    "rebuild": _apart(
        model=f"ask the user to run `skm index --rebuild`: {_REBUILD}",
        person=f"run `index(rebuild=True)`: {_REBUILD}",
    ),
    "rebuild-after-copy": _alike(
        "the disk failed: look at the system's log and copy what you can; then run `index(rebuild=True)`"
    ),
    "move-folder-away": _alike("a folder is in the index's place: move it away and run `index()`"),
    "make-writable": _alike("make the folder writable and run `index()`"),
    "who-holds-locks": _alike("try again; `health()` names the processes that hold locks"),
    "name-a-file": _alike("name a file that is there; a text that has no file yet is saved with `save(context=TEXT)`"),
    "check-path": _alike("check the path; `list()` shows what is indexed"),
    "ledger-damaged": _alike("restore index.sqlite from a backup; `ledger_verify()` checks it"),
    "set-dimensions": _alike("set semantic.dimensions to what the model gives, then run `index()`"),
}
