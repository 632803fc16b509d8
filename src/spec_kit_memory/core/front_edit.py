"""How is one key of a file's front matter changed without touching any other byte?"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from spec_kit_memory.core import front_matter
from spec_kit_memory.core.front_matter import KEYS, FrontBlock, canonical
from spec_kit_memory.core.memory import DocumentWarning, LinkClaim, Relation
from spec_kit_memory.core.structure import metadata_fence, scan
from spec_kit_memory.core.text_encoding import split_mark
from spec_kit_memory.errors import BadParameter, Invalid, TooLarge

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*")
_NOT_TEXT = frozenset(["true", "false", "yes", "no", "on", "off", "null", "y", "n"])
# JSON allows these unescaped, YAML does not.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LINK_KEYS = {
    (Relation.CAUSED, True): "caused_by",
    (Relation.ENABLED, True): "enabled_by",
    (Relation.SUPERSEDES, False): "supersedes",
    (Relation.CONTRADICTS, False): "contradicts",
    (Relation.DERIVED_FROM, False): "derived_from",
    (Relation.SUPPORTS, False): "supports",
}


@dataclass(frozen=True, slots=True)
class _Entry:
    """One key of a block mapping: its lines (from 0), and the columns of its value if that is on the key's line."""

    key: str
    first: int
    last: int
    indent: int
    value: tuple[int, int] | None
    quoted: bool


def edit_front_matter(text: str, changes: Mapping[str, object]) -> str:
    """Set the given canonical keys (None removes) in the spelling the file uses; create front matter if needed."""
    new_values = {_checked(name): _plain_data(name, value) for name, value in changes.items()}
    mark, body = split_mark(text)
    lines = _LINE.findall(body)
    end = _line_end(lines)
    bare = [line.rstrip("\r\n") for line in lines]
    block = front_matter.locate(bare)
    removed = {name: None for name, value in new_values.items() if value is None}
    if removed:
        _remove_from_metadata(lines, bare, removed, body_first_line=block.body_first_line if block else 1)
    if block is None:
        return mark + "".join([*_created(new_values, end), *lines])
    inside = lines[block.first_line - 1 : block.last_line]
    lines[block.first_line - 1 : block.last_line] = _edited(inside, new_values, end=end, block=block)
    return mark + "".join(lines)


def unite_front_matter(text: str, other: str, *, self_names: Collection[str] = ()) -> str:
    """Add the links, and the values of the user's own keys, that only the other text's front matter has.

    Keys that we interpret are left alone: which of two tiers or titles applies is not decided here. Links of the
    other text that name this one (`self_names`) would point to themselves and are dropped.
    """
    other_keys = _own_keys(other)
    if "causal_links" in other_keys:
        links = _links_without(other_keys.pop("causal_links")[0], self_names)
        other_keys |= {"causal_links": (links, _written("causal_links", links))} if links else {}
    if not other_keys:
        return text
    own_keys = _own_keys(text)
    added = [line for key, (_, lines) in other_keys.items() if key not in own_keys for line in lines]
    merged_values = {
        key: _merged_value(own_keys[key][0], value) for key, (value, _) in other_keys.items() if key in own_keys
    }
    merged_values = {key: value for key, value in merged_values.items() if value != own_keys[key][0]}
    return _with_own_keys(text, merged_values, added) if merged_values or added else text


def _own_keys(text: str) -> dict[str, tuple[Any, list[str]]]:
    """causal_links, and keys of front matter that are not ours -> (value, lines without line ends)."""
    bare = [line.rstrip("\r\n") for line in _LINE.findall(split_mark(text)[1])]
    block = front_matter.locate(bare)
    if block is None:
        return {}
    inside = bare[block.first_line - 1 : block.last_line]
    data, problems = _load(_joined(inside), first_line=1)
    entries = _entries(inside) if data and not problems else None
    if entries is None:
        import yaml

        # Either `{...}` on one line, or unreadable.
        dumped = {key: yaml.safe_dump({key: value}, allow_unicode=True, width=10_000) for key, value in data.items()}
        return {_name(key): (data[key], dumped[key].rstrip().split("\n")) for key in data if _is_mergeable(key)}
    return {
        _name(entry.key): (data[entry.key], [line[entry.indent :] for line in inside[entry.first : entry.last + 1]])
        for entry in entries
        if _is_mergeable(entry.key) and entry.key in data
    }


def _is_mergeable(key: object) -> bool:
    return canonical(key) in (None, "causal_links")


def _links_without(links: Any, names: Collection[str]) -> dict[str, list[Any]]:
    """Links by relation, as lists, without those whose target is one of these names."""
    if not isinstance(links, dict):
        return {}
    lists = {str(key): value if isinstance(value, list) else [value] for key, value in links.items()}
    remaining = {key: [item for item in items if item and _target(item) not in names] for key, items in lists.items()}
    return {key: items for key, items in remaining.items() if items}


def _target(item: Any) -> str:
    target_names = (
        [item[key] for key in ("target", "id", "path", "title") if item.get(key)] if isinstance(item, dict) else []
    )
    return _folded(target_names[0] if target_names else item)


def _merged_value(own: Any, other: Any) -> Any:
    """Lists of plain values are joined without duplicates; of any other two values, our own is kept."""
    if isinstance(own, dict) and isinstance(other, dict) and all(isinstance(v, list) for v in other.values()):
        lists = {key: value if isinstance(value, list) else [value] for key, value in own.items()}
        return {key: _joined_lists(lists.get(key, []), other.get(key, [])) for key in {**lists, **other}}
    if not isinstance(own, list) and not isinstance(other, list):
        return own if own is not None else other
    both = [*(own if isinstance(own, list) else [own]), *(other if isinstance(other, list) else [other])]
    return own if any(isinstance(item, list | dict) for item in both) else _joined_lists(both, [])


def _joined_lists(own: list[Any], other: list[Any]) -> list[Any]:
    both = [*own, *other]
    return [item for at, item in enumerate(both) if item is not None and item not in both[:at]]


def _with_own_keys(text: str, merged_values: Mapping[str, Any], added: Sequence[str]) -> str:
    mark, body = split_mark(text)
    lines = _LINE.findall(body)
    end = _line_end(lines)
    block = front_matter.locate([line.rstrip("\r\n") for line in lines])
    if block is None:
        new = _readable([line + end for line in added])
        return mark + "".join([f"---{end}", *new, f"---{end}", *lines])
    inside = lines[block.first_line - 1 : block.last_line]
    new = _edited(inside, merged_values, end=end, block=block) if merged_values else list(inside)
    if added and _entries(new) is None:
        new = _rewritten(new, {}, end=end)
    entries = _entries(new)
    indent = " " * (entries[0].indent if entries else 0)
    lines[block.first_line - 1 : block.last_line] = _readable([*new, *(indent + line + end for line in added)])
    return mark + "".join(lines)


def _name(key: object) -> str:
    """One name for all spellings of a key."""
    return canonical(key) or front_matter.compact(key)


def _spelling(name: str) -> str:
    return KEYS[name][0] if name in KEYS else name


def _remove_from_metadata(
    lines: list[str], bare: Sequence[str], removed: Mapping[str, None], *, body_first_line: int
) -> None:
    """Remove the keys from the metadata block too, from which they would otherwise still be read."""
    fence = metadata_fence(bare, scan(bare, first_line=body_first_line)) if bare else None
    if fence is None:
        return
    inside = lines[fence[0] : fence[1] - 1]
    old, problems = _load(_joined(inside), first_line=1)
    entries = _entries(inside) if not problems else None
    if entries:
        new = _by_line(inside, entries, removed, end="\n")
        if _reads_back(new, old, removed):
            lines[fence[0] : fence[1] - 1] = new


def _load(text: str, *, first_line: int) -> tuple[dict[str, Any], list[DocumentWarning]]:
    """The parsed YAML, and the reasons why it cannot be read; warnings about odd keys are left out."""
    data, warnings = front_matter.load(text, first_line=first_line)
    return data, [warning for warning in warnings if warning.code == "yaml"]


def _checked(name: str) -> str:
    if name not in KEYS:
        raise BadParameter(f"{name!r} is not a key of front matter", hint=f"use one of {', '.join(KEYS)}")
    return name


def _line_end(lines: Sequence[str]) -> str:
    first = lines[0] if lines else ""
    return first[len(first.rstrip("\r\n")) :] or "\n"


def _created(new_values: Mapping[str, Any], end: str) -> list[str]:
    new = [
        line + end
        for name, value in new_values.items()
        if value is not None
        for line in _written(_spelling(name), value)
    ]
    return [f"---{end}", *_readable(new), f"---{end}"] if new else []


def _edited(inside: list[str], new_values: Mapping[str, Any], *, end: str, block: FrontBlock) -> list[str]:
    """The lines of YAML with the changes; edited line by line if the result parses as intended, otherwise rewritten."""
    old, problems = _load(_joined(inside), first_line=block.first_line)
    if problems:
        raise Invalid(
            f"front matter cannot be changed, line {problems[0].line}: {problems[0].message}",
            hint="correct the YAML between the two '---' lines first",
        )
    entries = _entries(inside)
    if entries is not None:
        new = _by_line(inside, entries, new_values, end=end)
        if _reads_back(new, old, new_values):
            return new
    return _readable(_rewritten(inside, new_values, end=end))


def _readable(new: list[str]) -> list[str]:
    """The new lines, if front matter of this size is read: of more, not even the tier and the title would be."""
    if reason := front_matter.refusal(_joined(new)):
        raise TooLarge(
            f"front matter would be too long: {reason}", hint="nothing was changed; use fewer or shorter phrases"
        )
    return new


def _joined(inside: Sequence[str]) -> str:
    return "".join(line.rstrip("\r\n") + "\n" for line in inside)


def _entries(inside: Sequence[str]) -> list[_Entry] | None:
    """Top-level keys of a block mapping in order; None for `{...}` on one or more lines."""
    import yaml

    root = yaml.compose(_joined(inside), Loader=front_matter.loader())
    if root is None or (isinstance(root, yaml.ScalarNode) and not root.value):
        return []
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        return None
    starts = [key.start_mark.line for key, _ in root.value] + [len(inside)]
    return [
        _entry(inside, key, value, limit=following)
        for (key, value), following in zip(root.value, starts[1:], strict=True)
    ]


def _entry(inside: Sequence[str], key: Any, value: Any, *, limit: int) -> _Entry:
    first, start, stop = key.start_mark.line, value.start_mark, value.end_mark
    last = _last_line(value)
    if last is None:
        last = limit - 1
        while last > first and (not inside[last].strip() or inside[last].startswith("#")):
            last -= 1
    style = getattr(value, "style", None)
    on_key_line = start.line == stop.line == first and hasattr(value, "style") and style not in ("|", ">")
    return _Entry(
        key=str(key.value),
        first=first,
        last=max(first, last),
        indent=key.start_mark.column,
        value=(start.column, stop.column) if on_key_line else None,
        quoted=style in ("'", '"'),
    )


def _last_line(node: Any) -> int | None:
    """The line on which a value ends; None if YAML's end mark may lie beyond it, in what follows."""
    if isinstance(node.value, str):
        return None if node.style in ("|", ">") else int(node.end_mark.line)
    if node.flow_style or not node.value:
        return int(node.end_mark.line)
    child = node.value[-1]
    return _last_line(child[1] if isinstance(child, tuple) else child)


def _by_line(inside: Sequence[str], entries: Sequence[_Entry], new_values: Mapping[str, Any], *, end: str) -> list[str]:
    replaced: dict[int, tuple[int, list[str]]] = {}  # first line -> last line, new lines
    done = set()
    for entry in entries:
        name = _name(entry.key)
        if name not in new_values:
            continue
        is_removed = new_values[name] is None or name in done
        new = [] if is_removed else _replacement(inside, entry, new_values[name], end=end)
        replaced[entry.first] = (entry.last, new)
        done.add(name)
    result: list[str] = []
    number = 0
    while number < len(inside):
        last, new = replaced.get(number, (number, [inside[number]]))
        result += new
        number = last + 1
    indent = " " * (entries[0].indent if entries else 0)
    for name, value in new_values.items():
        if name not in done and value is not None:
            result += [indent + line + end for line in _written(_spelling(name), value)]
    return result


def _replacement(inside: Sequence[str], entry: _Entry, value: Any, *, end: str) -> list[str]:
    """The entry's new lines; a scalar that replaces a scalar on the key's line leaves the rest of the line alone."""
    line = inside[entry.first]
    if entry.value is not None and not isinstance(value, (list, dict)):
        start, stop = entry.value
        new = _scalar(value, quoted=entry.quoted)
        return [f"{line[:start]}{'' if line[:start].endswith((' ', chr(9))) else ' '}{new}{line[stop:]}"]
    spelling = line[entry.indent :].partition(":")[0].rstrip()
    return [" " * entry.indent + new + end for new in _written(spelling, value)]


def _reads_back(new: Sequence[str], old: Mapping[str, Any], new_values: Mapping[str, Any]) -> bool:
    data, problems = _load(_joined(new), first_line=1)
    unchanged = {key: value for key, value in old.items() if _name(key) not in new_values}
    if problems or {key: value for key, value in data.items() if _name(key) not in new_values} != unchanged:
        return False
    changed = {_name(key): value for key, value in data.items() if _name(key) in new_values}
    return changed == {name: _as_strings(value) for name, value in new_values.items() if value is not None}


def _as_strings(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_strings(item) for key, item in value.items()}
    return [_as_strings(item) for item in value] if isinstance(value, list) else str(value)


def _rewritten(inside: Sequence[str], new_values: Mapping[str, Any], *, end: str) -> list[str]:
    """Rewrite front matter that cannot be edited by line: the same data, as plain keys and values."""
    import yaml

    data = yaml.safe_load(_joined(inside)) or {}
    lines = []
    for key, value in data.items():
        if _name(key) not in new_values:
            dumped = yaml.safe_dump({key: value}, allow_unicode=True, sort_keys=False, width=10_000)
            lines += [line + end for line in dumped.rstrip("\n").split("\n")]
    for name, value in new_values.items():
        if value is not None:
            lines += [line + end for line in _written(_spelling(name), value)]
    return lines


def _written(key: str, value: Any) -> list[str]:
    """A key and its value as lines of YAML without their ends."""
    if isinstance(value, list):
        return [f"{key}:", *(f"  - {_scalar(item, quoted=True)}" for item in value)] if value else [f"{key}: []"]
    if not isinstance(value, dict):
        return [f"{key}: {_scalar(value, quoted=False)}"]
    lines = [f"{key}:"]
    for name, items in value.items():
        lines.append(f"  {name}:")
        lines += [f"    - {_flow(item)}" for item in items]
    return lines


def _flow(item: Any) -> str:
    if not isinstance(item, dict):
        return _scalar(item, quoted=True)
    return "{" + ", ".join(f"{key}: {_scalar(value, quoted=True)}" for key, value in item.items()) + "}"


def _scalar(value: Any, *, quoted: bool) -> str:
    if isinstance(value, (int, float)):
        return repr(value)
    text = str(value)
    if not quoted and _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXT:
        return text
    written = json.dumps(_SURROGATE.sub("\ufffd", text), ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", written)


def _plain_data(name: str, value: object) -> Any:
    """A value as strings, numbers, lists and mappings; None if it is empty."""
    if value is None:
        return None
    if name == "causal_links":
        return _links_data(value)
    if name in ("triggers", "questions"):
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, (list, tuple)):
            raise BadParameter(f"{name} {value!r} is not a list", hint="give a list of strings")
        return [folded for folded in (_folded(item) for item in items) if folded]
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if name == "weight" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise BadParameter(f"{name} {value!r} is not text", hint=f"give {name} as a string")
    return _folded(value) or None


def _folded(value: object) -> str:
    return " ".join(str(value).split())


def _links_data(value: object) -> dict[str, list[Any]] | None:
    """Link targets by their front matter key."""
    links: dict[str, list[Any]] = {}
    if isinstance(value, Mapping):
        for key, targets in value.items():
            items = targets if isinstance(targets, (list, tuple)) else [targets]
            links[_folded(key)] = [item if isinstance(item, dict) else _folded(item) for item in items]
    elif isinstance(value, (list, tuple)):
        for claim in value:
            key, item = _link_item(claim)
            links.setdefault(key, []).append(item)
    else:
        raise BadParameter(f"causal_links {value!r} is not a mapping", hint="give lists of targets by relation")
    return {key: items for key, items in links.items() if items} or None


def _link_item(claim: object) -> tuple[str, Any]:
    if not isinstance(claim, LinkClaim) or (claim.relation, claim.inward) not in _LINK_KEYS:
        raise BadParameter(
            f"{claim!r} cannot stand in front matter", hint=f"use one of {', '.join(_LINK_KEYS.values())}, related_to"
        )
    target = _folded(claim.target)
    if claim.relation is Relation.SUPPORTS and claim.strength == 0.5:
        return "related_to", target
    key = _LINK_KEYS[claim.relation, claim.inward]
    return key, target if claim.strength == 1.0 else {"target": target, "strength": claim.strength}
