"""How are numbers worded in English, attributes named in JSON, and titles shown next to a path?"""

from __future__ import annotations

# Attributes whose public name, in parameters and answers, differs from their internal name.
_GIVEN_AS = {"tier": "importanceTier", "weight": "importanceWeight", "triggers": "triggerPhrases"}
# A change of these attributes is reported under a name for what was changed.
_CHANGED_AS = {
    "content_hash": "text",
    "confidence": "validations",
    "validation_count": "validations",
    "claims": "links",
}


def counted(count: int, singular: str, many: str = "") -> str:
    """A number with its noun: 1 memory, 2 memories. With a verb, pass both forms: ("file is", "files are")."""
    return f"{count:,} {singular if count == 1 else many or _plural(singular)}"


def _plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2:-1] not in tuple("aeiou"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


def camel(name: str) -> str:
    """A snake_case name in camelCase, as in JSON."""
    head, *rest = name.strip("_").split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def json_name(attribute: str) -> str:
    """The name of a memory's attribute in parameters and answers."""
    return _GIVEN_AS.get(attribute) or camel(attribute)


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
