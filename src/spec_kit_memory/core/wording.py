"""How many of what, and what is it called? How English counts, and how JSON names things."""

from __future__ import annotations

__all__ = ["camel", "change_name", "counted", "json_name"]

# What a caller gives and gets has one name, though it has a shorter one inside.
_GIVEN_AS = {"tier": "importanceTier", "weight": "importanceWeight", "triggers": "triggerPhrases"}
# A change of these is told as what somebody did.
_CHANGED_AS = {
    "content_hash": "text",
    "confidence": "validations",
    "validation_count": "validations",
    "claims": "links",
}


def counted(count: int, singular: str, many: str = "") -> str:
    """A number with its noun: 1 memory, 2 memories; with a verb, say both: ("file is", "files are")."""
    return f"{count:,} {singular if count == 1 else many or _plural(singular)}"


def _plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2:-1] not in tuple("aeiou"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


def camel(name: str) -> str:
    """snake_case as JSON has it."""
    head, *rest = name.strip("_").split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def json_name(attribute: str) -> str:
    """The name by which an attribute of a memory is given and answered."""
    return _GIVEN_AS.get(attribute) or camel(attribute)


def change_name(attribute: str) -> str:
    """The name of what changed, where it is told that something did."""
    return _CHANGED_AS.get(attribute) or json_name(attribute)
