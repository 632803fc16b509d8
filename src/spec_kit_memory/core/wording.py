"""How are answers worded and bounded? Counts in English, names in JSON, titles beside a path, long lists, close names.

A hostile file can have a hundred thousand mistakes, and a workspace ten thousand such files. Long lists and texts in
answers are truncated: the first items, the beginning of the text, and how much is missing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

# Attributes whose public name, in parameters and answers, differs from their internal name.
_GIVEN_AS = {"tier": "importanceTier", "weight": "importanceWeight", "triggers": "triggerPhrases"}
# A change of these attributes is reported under a name for what was changed.
_CHANGED_AS = {
    "content_hash": "text",
    "confidence": "validations",
    "validation_count": "validations",
    "claims": "links",
}
# Tried in this order until everything fits: (most entries of each list, most characters of each text).
_STEPS = ((500, 40_000), (200, 10_000), (100, 2_000), (50, 500), (20, 200), (5, 100), (1, 50))
LONGEST_COMPARED = 80  # characters; difflib's time grows with their square, and none of our names is longer


def counted(count: int, singular: str, many: str = "") -> str:
    """A number with its noun: 1 memory, 2 memories. With a verb, pass both forms: ("file is", "files are")."""
    return f"{count:,} {singular if count == 1 else many or _plural(singular)}"


def _plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2:-1] not in tuple("aeiou"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


def since(seconds: float) -> str:
    """How long ago, in the largest unit that it reaches and to the nearest one: 60 days are two months."""
    for unit, length in (("year", 31_557_600), ("month", 2_629_800), ("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            return f"{counted(round(seconds / length), unit)} ago"
    return "just now"


def camel(name: str) -> str:
    """A snake_case name in camelCase, as in JSON."""
    head, *rest = name.strip("_").split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def json_name(attribute: str) -> str:
    """The name of a memory's attribute in parameters and answers."""
    return _GIVEN_AS.get(attribute) or camel(attribute)


def spoken_name(attribute: str) -> str:
    """The same name in words, for a sentence: importance tier, trigger phrases."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in json_name(attribute))


def change_name(attribute: str) -> str:
    """The name of a memory's attribute in reports of changes."""
    return _CHANGED_AS.get(attribute) or json_name(attribute)


def title_beside_path(title: str, path: str) -> str:
    """The title without a bracketed end that only repeats the end of the path, as in "Plan [007-auth/plan]"."""
    head, _, end = title.rpartition("[")
    if not head.strip() or not end.endswith("]"):
        return title
    *folders, name = end[:-1].split("/")
    *path_folders, file_name = path.split("/")
    is_repeated = name == file_name.rpartition(".")[0] and set(folders) <= set(path_folders)
    return head.rstrip() if is_repeated else title


def short(text: str, most: int) -> str:
    """The text, cut to `most` characters with an ellipsis at the end if it is longer."""
    return text if len(text) <= most else text[: most - 1] + "…"


def fitted(data: Any, *, characters: int) -> tuple[Any, Mapping[str, int]]:
    """JSON data cut to fit in `characters`, and how many list entries and text characters were left out, by name."""
    if _length(data) <= characters:
        return data, {}
    for entries, length in _STEPS:
        left_out: Counter[str] = Counter()
        cut = _cut(data, "", entries, length, left_out)
        if _length(cut) <= characters:
            return cut, left_out
    return None, {"everything": 1}


def _length(data: Any) -> int:
    return len(json.dumps(data, ensure_ascii=False, separators=(",", ":")))


def _cut(data: Any, name: str, entries: int, length: int, left_out: Counter[str]) -> Any:
    if isinstance(data, str):
        if len(data) > length:
            left_out[f"characters of {name}"] += len(data) - length + 1
        return short(data, length)
    if isinstance(data, Mapping):
        first_entries = list(data.items())[:entries]
        if len(data) > entries:
            left_out[name or "fields"] += len(data) - entries
        return {short(key, length): _cut(value, key, entries, length, left_out) for key, value in first_entries}
    if isinstance(data, list):
        if len(data) > entries:
            left_out[name] += len(data) - entries
        return [_cut(item, name, entries, length, left_out) for item in data[:entries]]
    return data


def close_names(word: str, names: Iterable[str], *, most: int = 3, cutoff: float = 0.6) -> list[str]:
    """The closest names, best first; `cutoff` is the least similarity, 0 to 1."""
    from difflib import get_close_matches

    return get_close_matches(word[:LONGEST_COMPARED], list(names), n=most, cutoff=cutoff)
