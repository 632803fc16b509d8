"""Which words has what is wrong, or worth knowing? One template for each code of a problem, a warning or a remark.

A finding reads alike for models, people and Python, and names no call; what to do about it is advice (`table`). Values
stand in braces as described in `__init__`; a finding may hold another one.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["FINDINGS"]

FINDINGS: Mapping[str, str] = {
    # --- parts of others
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
}
