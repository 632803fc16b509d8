"""How are problems, warnings and remarks worded? One template for each code of a finding.

A finding contains no calls, so it is the same for models, people and Python; what to do about it is advice (`table`).
Placeholders are described in `__init__`; a value may be another finding.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["FINDINGS"]

FINDINGS: Mapping[str, str] = {
    # --- used inside other findings
    "and-more": "{names} and {more:more|more}",
    "more-problems": "and {count:more|more}",
    # --- health
    "several-problems": "{count:problem}",
    "in-progress": "indexing: {problem}",
    "ok-so-far": "ok as far as a quick look goes",
    "files-not-indexed": "{count:file is not indexed|files are not indexed}: {paths}",
    "files-changed": "{count:file changed since it was indexed|files changed since they were indexed}: {paths}",
    "files-without-rule": (
        "{count:file is indexed that no rule finds any more|files are indexed that no rule finds}: {paths}"
    ),
    "file-problem": "{path}: {problem}",
    "line-problem": "{path}:{line}: {problem}",
    "bad-file": "{error} {path}: {problem}",
    "changes-not-in-git": "{count:change is|changes are} not in git yet",
    "memories-expired": "{count:memory|memories} expired, {ids}: search leaves {count!o} out",
    "memories-outdated": "{count:memory is marked|memories are marked} outdated, {ids}: search leaves {count!o} out",
    "code-gone": "memory {id}, {path}: {files}",
    "memories-without-vectors": "{count:memory has|memories have} no vectors yet ({passages:passage})",
    "memories-without-vectors-why": "{count:memory has|memories have} no vectors yet ({passages:passage}): {cause}",
    "memories-wait-for-vectors": "{count:memory waits|memories wait} for vectors: {cause}",
    "indexed-file-gone": "{path} is indexed, but its file is gone",
    "passages-without-vector": "{count:passage has|passages have} no vector: {cause}",
    "general-phrase": "the phrase “{phrase}” matched more than a quarter of recent prompts",
    "failed-check": "{check}: {problem}",
    # --- care
    "near-duplicates": "{title} and {other} say nearly the same",
    "unvouched-conversation": "nobody vouched for this conversation",
    "unvouched-text": "nobody vouched for this text",
    "cited-code-changed": "code that it names is not what it was: {files}",
    "file-gone": "{name} is gone",
    "file-changed": "{name} changed",
    "expired-on": "it expired on {date}; search leaves it out",
    "never-used": "never used in {days:day}",
    "file-unreadable": "{path} could not be read: {problem}",
    "lock-held": "process {pid} is {doing} ({lock})",
    # --- search
    "past-question": "the question asks about the past, so decay was left out",
    "nothing-close": "nothing matches closely: these are only the nearest",
    "folder-empty": "no memory is in the spec folder {folder}",
    "folder-empty-near": "no memory is in the spec folder {folder}; there is {near}",
    "no-memory-has-all": "no memory matches all concepts: {concepts!j}",
    "concept-in-none": "{concept!r} in none",
    "concept-in": "{concept!r} is in {best}",
    "concept-in-more": "{concept!r} is in {best} and {more} more",
    "meaning-unavailable": "meaning: {problem}",
    "vectors-of-another-model": "the index has vectors of {stored}, not of {used}",
    "semantic-search-off": "semantic search is switched off (semantic.model is none)",
    "embedding-earlier-question": "an earlier question is still being embedded",
    # --- search of the past
    "answered-as-of": "answered from what was known at {when}",
    "nothing-was-known": "nothing was known then",
    "use-not-recorded": "use is not recorded over time: states and recency then are judged by changes, not by reads",
    "indexed-later": ("left out: {count:memory carries|memories carry} an earlier date but came into the index later"),
    "past-text-lost": "the text of {count:memory} as it was then is lost, and left out",
    # --- reading
    "line-cut": "line {line} is shown up to character {shown} of {length}",
    "text-as-last-indexed": (
        "{path} changed, but the index cannot be written now ({error}): this is the text as last indexed"
    ),
    "no-vectors-yet": "it has no vectors yet: {cause}",
    "too-many-lines": "{count:line}: too many to compare here",
    "unchanged-lines": "{count:unchanged line}",
    # --- saving and merging
    "folder-made": "made a new spec folder {folder}",
    "folder-score": "{folder} ({score})",
    "folder-fits-badly": "{folder} fits the text badly ({score} of 100)",
    "folder-fits-badly-best": "{folder} fits the text badly ({score} of 100), and no other folder fits better",
    "folder-fits-badly-better": "{folder} fits the text badly ({score} of 100); better: {better}",
    "folder-chosen": "{folder} was chosen with {score} of 100; name the folder if that is wrong",
    "folder-chosen-before": (
        "{folder} was chosen with {score} of 100; name the folder if that is wrong (the next best: {others})"
    ),
    "two-folders-named": "the data names spec folder {folder}, but {used} was named beside it and is used",
    "secrets-left-in-file": (
        "{count:secret is|secrets are} left out of the index; {path} itself still contains {count!o}"
    ),
    "saved-but": "the memory is saved, but {problem}",
    "similar-not-merged": "memory {id} is similar, but was not merged: {reason}",
    "not-merged": "memory {id} was not merged: {reason}",
    "merges-one-folder-only": "only memories of one folder",
    "merges-memory-files-only": "memory {id} comes from {source}, and only memory files are merged",
    "rules-are-not-merged": "memory {id} is a rule, and rules are not merged",
    "memories-of-different-users": "memories {id} and {other} belong to different users",
    # --- indexing and importing
    "lines-left-out": "{count:line} could not be read and left out",
    "old-index-kept": "the index as it was is kept as {path}; delete it when you need it no more",
    "rows-lost": "could not be read: {losses}",
    "lost-rows": "{lost} of {whole} rows of {table}",
    "lost-at-least": "at least {lost} of {whole} rows of {table}",
    "lost-part": "a part of {table}",
    "lost-table": "whatever {table} held",
    # --- links
    "link-is-yours-now": (
        "this link came from a file; from now on it is yours, and stays when the file no longer asks for it"
    ),
    "link-returns": "this link comes from a file; it returns when the file is indexed unless the file changes",
    # --- checkpoints
    "checkpoint-of-folder": "the checkpoint holds spec folder {folder} only",
    "used-since-checkpoint": ("{count:memory was|memories were} used since; clearing takes that count back too"),
    "same-as-checkpoint": "nothing was changed, so there is nothing to take back",
    "file-not-written": "not written: {path} ({reason})",
    "text-was-redacted": "its stored text was redacted",
    "source-only-read": "files of source {source} are only read",
    "folder-not-writable": "its folder may not be written",
    "file-has-secrets": "the file holds secrets that are kept nowhere else",
    "file-has-new-text": "the file holds text that is not indexed",
    # --- undo
    "cannot-take-back": "{change} cannot be taken back: {reason}",
    "undo-again": "undo again takes back the change before: {change}",
    "nothing-left-to-undo": "nothing else is left to undo",
    "change-of": "{kind} of #{id}",
    "change-of-many": "{kind} of {count:memory}",
    "changed-since": "{path} was changed since",
    "exists-again": "{path} exists again",
    "former-text-lost": "the former text of {path} is kept nowhere",
    "came-back-by-itself": "{title} (#{id}) came back by itself",
    "stays-forgotten": "{path} is memory {other} now, so memory {id} stays forgotten",
    "in-a-file-of-its-own": "{path} holds another memory now; this one is in {copy}",
    "file-is-missing": "{path} has no file; the next scan takes it out again unless you save it",
    "path-is-taken": "{path} is memory {id} now",
    "keeps-merged-text": "memory {id} keeps the text that it took over",
    "keeps-merged-text-why": "memory {id} keeps the text that it took over: {problem}",
    "values-changed-since": "{names} was changed since in {path} and stays",
    "several-reasons": "{reasons!j}",
    "nothing-of-it-is-left": "nothing of it is left",
    "memory-is-not-live": "{title} (#{id}) is {presence}",
    "all-values-changed-since": "{names} of {path} was changed since",
    "text-before-not-recorded": "the text of {path} before the update is not recorded",
    "votes-since": "other opinions on {title} (#{id}) came since",
    "link-changed-or-gone": (
        "the link between #{source_id} and #{target_id} was changed since, or an end of it is gone"
    ),
    "all-changed-since": "everything that it changed was changed since",
    "restored-file-removed": "{path}, which the restore had written, is removed",
    "restored-file-in-trash": "{path}, which the restore had written, is in {trash}",
    "memories-changed-since": "{count:memory was|memories were} changed since and not changed back",
    "not-in-checkpoint": "memory {id} is not in the checkpoint before the restore, and stays",
    "link-changed-since": "the link between #{source_id} and #{target_id} was changed since and stays",
    "file-stays-since": "{path} stays: its memory was changed since",
    "file-stays-why": "{problem} and stays; the next scan reads it",
    "move-away": "move it away, then undo again",
    "move-away-or-take": "move it away, or take what you need from {trashed}, then undo again",
    # --- updating
    "nothing-changed-in": "nothing was changed in memory {id}",
    "title-is-empty": "title is empty",
    "unvouched-is-no-rule": "text from {source} cannot be a rule until a person vouches for it",
    "unvouched-has-no-triggers": "text from {source} carries no triggers until a person vouches for it",
    "rule-needs-a-person": "a constitutional memory is a rule for every session, so a person must confirm it",
    "lies-in-rules": "{path} lies in a folder of rules; move the file to change its tier",
    # --- sessions
    "turns-without-save": "{count:turn} without a save",
    # --- ledger
    "ledger-cut-off": "the end is missing: it went up to entry {sequence} when you kept its head",
    "ledger-rewritten": "entry {sequence} is not the one that you kept: the ledger was rewritten",
    "entry-missing": "entry {sequence} is missing; entry {other} stands in its place",
    "entry-does-not-follow": "entry {sequence} does not follow the hash of entry {previous}",
    "entry-of-newer-version": "entry {sequence} is of version {version}, which a newer program wrote",
    "entry-altered": "entry {sequence} was altered: its hash does not fit its content",
    "entry-unreadable": "entry {sequence} cannot be read",
}
