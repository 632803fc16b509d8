"""How are our entries added to and removed from the text of a host's file?

Functions take text and return text. Every edit is checked: parsed again, the file may differ only in our entries.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from spec_kit_memory.core import jsonc
from spec_kit_memory.core.text_encoding import MARK
from spec_kit_memory.serve.hosts import toml
from spec_kit_memory.serve.hosts.formats import (
    ConfigEntry,
    File,
    content_of,
    hooks_of_group,
    is_ours,
    named_workspace,
    our_hooks,
)

Malformed = (jsonc.Malformed, toml.MalformedToml)
Containers = frozenset[tuple[str, ...]]


def present(text: str, file: File) -> bool:
    """Does the file contain all our entries? Keys that a user added to them do not count as a change."""
    if file.form == "text":
        return text == file.text
    tree = toml.parse(text) if file.form == "toml" else _parse_json(text)
    return all(_is_present(toml.find(tree, entry.path), entry, file) for entry in file.entries)


def entry_in(file: File, path: tuple[str, ...]) -> Any:
    """The current value at that path in a host's file; None if the file or the value does not exist."""
    try:
        text = content_of(file.path).decode()
        tree = toml.parse(text) if file.form == "toml" else _parse_json(text)
    except (OSError, UnicodeDecodeError, *Malformed):
        return None
    return toml.find(tree, path)


def problem_of(file: File) -> str:
    """Why a host cannot read this file; empty if it can, or if the file does not exist."""
    try:
        data = content_of(file.path)
        if file.form != "text":
            text = data.decode("utf-8")
            _ = toml.parse(text) if file.form == "toml" else _parse_json(text)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        return "is not text in UTF-8"
    except Malformed as error:
        return f"is not valid {'TOML' if file.form == 'toml' else 'JSON'}: {error}"
    return ""


# The keys that an entry of ours in a project's file may have in addition to those that install writes. Others could
# decide what is run: a variable that loads a library, a working folder, a command for one operating system.
_HARMLESS = frozenset(
    (
        *("enabled", "disabled", "required", "description", "timeout"),
        *("startup_timeout_sec", "startup_timeout_ms", "tool_timeout_sec"),
        *("enabled_tools", "disabled_tools", "includeTools", "excludeTools"),
    )
)


def _is_present(stored: Any, entry: ConfigEntry, file: File) -> bool:
    if entry.mode == "default":
        return stored is not None
    if entry.mode == "item":
        ours = our_hooks(stored)
        # In a group that also has other hooks, `our_hooks` returns our hook without its group.
        forms = (entry.value, *hooks_of_group(entry.value))
        return len(ours) == 1 and any(
            ours[0] == form if file.of_project else _contains(ours[0], form) for form in forms
        )
    return isinstance(stored, dict) and _kept(stored, entry, file) | entry.value == stored


def _kept(stored: Any, entry: ConfigEntry, file: File) -> dict[str, Any]:
    """The part of an existing entry that is kept."""
    existing = stored if isinstance(stored, dict) else {}
    if not file.of_project:
        return existing
    return {key: value for key, value in existing.items() if key in _HARMLESS or key in entry.value}


def _contains(stored: Any, value: Any) -> bool:
    """Does `stored` contain everything in `value`? Additional keys are allowed."""
    if isinstance(value, dict):
        return isinstance(stored, dict) and all(_contains(stored.get(key), part) for key, part in value.items())
    if isinstance(value, list):
        return isinstance(stored, list) and len(stored) == len(value) and all(map(_contains, stored, value))
    return bool(stored == value)


def _parse_json(text: str) -> dict[str, Any]:
    if jsonc.is_blank(text):
        return {}
    root = jsonc.parse(text)
    if root.kind != "object":
        raise jsonc.Malformed("the file is not an object {…}")
    tree: dict[str, Any] = root.value
    return tree


def made_by(text: str | None, file: File) -> Containers:
    """Paths of the objects and lists that adding our entries will create."""
    if file.form == "text":
        return frozenset()
    tree = toml.parse(text or "") if file.form == "toml" else _parse_json(text or "")
    return frozenset(path for path in _container_paths(file) if toml.find(tree, path) is None)


def _container_paths(file: File) -> list[tuple[str, ...]]:
    """Paths of the containers of our entries, innermost first."""
    paths = {entry.path[:depth] for entry in file.entries for depth in range(1, len(entry.path))}
    paths |= {entry.path for entry in file.entries if entry.mode == "item"}
    return sorted(paths, key=len, reverse=True)


# --- adding entries --------------------------------------------------------------------------


def with_entries(text: str | None, file: File) -> str:
    if file.form == "text":
        return file.text
    if file.form == "toml":
        return _with_tables(text or "", file)
    _parse_json(text or "")
    # A file that has only comments keeps them, above our entries.
    new_text = (text if text and text.strip(f"{MARK} \t\r\n") else "") if jsonc.is_blank(text or "") else text or ""
    new_text += "{}\n" if jsonc.is_blank(new_text) else ""
    for entry in file.entries:
        new_text = _put(new_text, entry, file)
    _compare(text or "", new_text, file)
    return new_text


def _put(text: str, entry: ConfigEntry, file: File) -> str:
    node = jsonc.find(jsonc.parse(text), entry.path)
    if entry.mode == "default":
        return text if node is not None else jsonc.put(text, entry.path, entry.value)
    if entry.mode == "item":
        if node is not None and _is_present(node.value, entry, file):
            return text
        return jsonc.append(_without_items(text, entry.path), entry.path, entry.value)
    if node is None:
        return jsonc.put(text, entry.path, entry.value)
    if _is_present(node.value, entry, file):
        return text
    return jsonc.put(text, entry.path, _kept(node.value, entry, file) | entry.value)


def _with_tables(text: str, file: File) -> str:
    for entry in file.entries:
        current = toml.find(toml.parse(text), entry.path)
        if _is_present(current, entry, file):
            continue
        kept = _kept(current, entry, file)
        if kept == current and set(kept) - set(entry.value):
            text = toml.change(text, entry.path, entry.value)
        else:
            text = toml.put(text, entry.path, kept | entry.value)
    return text


# --- removing entries ------------------------------------------------------------------------


def without_entries(
    text: str,
    file: File,
    *,
    made_paths: Collection[tuple[str, ...]] | None,
    existed: bool,
    original: str = "",
    every: bool = False,
) -> str | None:
    """The text without our entries and the containers that were created for them; None if the file is then empty.

    `made_paths` lists those containers; None means that there is no record, and every container that became empty is
    removed. A value that `original` has in place of one of our entries is restored. An entry of ours that names
    another project stays, unless `every` is set.
    """
    if file.form == "text":
        return None if text == file.text else text
    if not every and other_workspaces(text, file):
        return text
    if file.form == "toml":
        bare = _without_tables(text, file, original)
    else:
        bare = _without_members(text, file, made_paths, original)
        bare = _without_defaults(bare, file, original) if existed and bare != text else bare
        _compare(text, bare, file)
    return None if bare != text and not existed and _is_empty(bare, file) else bare


def other_workspaces(text: str, file: File) -> list[Path]:
    """Projects that the file's current server entries name, if they are not the one in `file.entries`."""
    tree = toml.parse(text) if file.form == "toml" else _parse_json(text)
    pairs = [
        (named_workspace(toml.find(tree, entry.path)), named_workspace(entry.value))
        for entry in file.entries
        if entry.mode == "member"
    ]
    return [Path(current) for current, expected in pairs if current and expected and current != expected]


def _without_tables(text: str, file: File, original: str) -> str:
    for entry in file.entries:
        bare = toml.remove(text, entry.path)
        text = toml.restored(bare, entry.path, original) if bare != text else text
    return text


def _without_members(text: str, file: File, made_paths: Collection[tuple[str, ...]] | None, original: str) -> str:
    before, original_root = text, None if jsonc.is_blank(original) else jsonc.parse(original)
    for entry in file.entries:
        if entry.mode == "member":
            original_node = original_root and jsonc.find(original_root, entry.path)
            current_node = jsonc.find(jsonc.parse(text), entry.path)
            if original_node and current_node:
                text = (
                    text[: current_node.start]
                    + original[original_node.start : original_node.end]
                    + text[current_node.end :]
                )
            else:
                text = jsonc.remove(text, entry.path)
        elif entry.mode == "item":
            text = _without_items(text, entry.path)
    if text == before:
        return text
    for path in _container_paths(file):
        node = jsonc.find(jsonc.parse(text), path)
        if node is None or node.kind == "value" or node.members:
            continue
        if made_paths is None or path in made_paths:
            text = jsonc.remove(text, path)
        elif original_root:
            text = _restore_spacing(text, path, original)
    return text


def _without_defaults(text: str, file: File, original: str) -> str:
    """Remove the defaults that we added, which the original file did not have."""
    original_tree = _parse_json(original)
    for entry in file.entries:
        node = jsonc.find(jsonc.parse(text), entry.path) if entry.mode == "default" else None
        if node and node.value == entry.value and toml.find(original_tree, entry.path) is None:
            text = jsonc.remove(text, entry.path)
    return text if jsonc.is_blank(original) else _restore_spacing(text, (), original)


def _restore_spacing(text: str, path: tuple[str, ...], original: str) -> str:
    """Give an object or list that is empty again its original spacing; if it has a new comment, leave it alone."""
    node, original_node = jsonc.find(jsonc.parse(text), path), jsonc.find(jsonc.parse(original), path)
    if not node or not original_node or node.members or original_node.members or node.kind != original_node.kind:
        return text
    current_text, original_text = text[node.start : node.end], original[original_node.start : original_node.end]
    same = "".join(current_text.split()) == "".join(original_text.split())
    return text[: node.start] + original_text + text[node.end :] if same else text


def _without_items(text: str, path: tuple[str, ...]) -> str:
    node = jsonc.find(jsonc.parse(text), path)
    if node is None or node.kind != "array":
        return text
    for index in reversed(range(len(node.members))):
        item = node.members[index].node.value
        if is_ours(item):
            text = jsonc.remove_item(text, path, index)
            continue
        hooks = hooks_of_group(item)
        for place in reversed([place for place, hook in enumerate(hooks) if is_ours(hook)]):
            text = jsonc.remove_item(text, (*path, index, "hooks"), place)
    return text


def _is_empty(text: str, file: File) -> bool:
    if file.form == "toml":
        return not text.strip()
    return not set(_parse_json(text)) - {entry.path[0] for entry in file.entries if entry.mode == "default"}


# --- checking -----------------------------------------------------------------------------------


def _compare(before: str, after: str, file: File) -> None:
    if _stripped(_parse_json(before), file) != _stripped(_parse_json(after), file):
        raise jsonc.Malformed("the file cannot be edited without changing more than our entries: edit it by hand")


def _stripped(tree: dict[str, Any], file: File) -> dict[str, Any]:
    """The parsed file without our entries."""
    copy: dict[str, Any] = json.loads(json.dumps(tree))
    for entry in file.entries:
        parent = toml.find(copy, entry.path[:-1])
        if not isinstance(parent, dict) or entry.path[-1] not in parent:
            continue
        if entry.mode == "item" and isinstance(parent[entry.path[-1]], list):
            parent[entry.path[-1]] = [_not_ours(item) for item in parent[entry.path[-1]] if not is_ours(item)]
        elif entry.mode == "member" or parent[entry.path[-1]] == entry.value:
            del parent[entry.path[-1]]
    for path in _container_paths(file):
        parent = toml.find(copy, path[:-1])
        if isinstance(parent, dict) and parent.get(path[-1]) in ({}, []):
            del parent[path[-1]]
    return copy


def _not_ours(item: Any) -> Any:
    hooks = hooks_of_group(item)
    return {**item, "hooks": [hook for hook in hooks if not is_ours(hook)]} if hooks else item
