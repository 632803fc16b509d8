"""Does the house still stand as drawn in ARCHITECTURE.md? Read from the source, nothing is imported."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "spec_kit_memory"
SOURCE = ROOT / "src" / PACKAGE

# What each room may use of the others. core uses nothing but the errors; see ARCHITECTURE.md.
ANYWHERE = {"errors", "answers", "parameters", "requests", "settings", "filesystem", "caller"}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "caller": set(),
    "filesystem": set(),
    "core": {"core", "errors"},
    "answers": {"core", "errors"},
    "parameters": {"core", "errors"},
    "requests": {"core", "errors", "parameters"},
    "settings": {"settings", "core", "errors", "filesystem"},
    "embed": {"embed", "core"} | ANYWHERE,
    "index": {"index", "core"} | ANYWHERE,
    "files": {"files", "index", "embed", "core"} | ANYWHERE,
    "features": {"features", "files", "index", "embed", "core"} | ANYWHERE,
    "workspace": {"features", "files", "index", "embed", "core"} | ANYWHERE,
    "serve": {"serve", "workspace", "core"} | ANYWHERE,
    "__init__": {"workspace", "core"} | ANYWHERE,
    "__main__": {"serve"},
}

# What a cold start must not pay for. Inside the house everything else is imported at the top of its module.
HEAVY = {
    "ahocorasick_rs",
    "anyio",
    "apsw",
    "httpx2",
    "mcp",
    "mcp_types",
    "numpy",
    "onnxruntime",
    "platformdirs",
    "rich",
    "starlette",
    "tokenizers",
    "uvicorn",
    "watchfiles",
    "yaml",
    # of the standard library
    "asyncio",
    "difflib",
    "email",
    "ipaddress",
    "subprocess",
    "urllib",
}
# Of our own: patterns for every script, which only writing and searching need, and what only a rebuild reads with.
COSTLY = {f"{PACKAGE}.core.words", f"{PACKAGE}.index.sqlite.rebuild"}
# The way of a cold command (a hook runs on every prompt): here each command loads only what it uses.
COLD_ROOMS = {"serve", "workspace", "features", "parameters", "__init__", "__main__"}
# Opening an engine or a provider loads the one that was chosen and not the others.
DOORS = {f"{PACKAGE}.embed", f"{PACKAGE}.index"}

LONGEST_MODULE = 900
LONGEST_FUNCTION = 100
SKIPPED_FOLDERS = {".git", ".venv", "build", "dist", "__pycache__", ".hypothesis"}


@dataclass(frozen=True)
class Import:
    module: str  # where it stands
    target: str
    line: int
    lazy: bool  # inside a function
    typing_only: bool  # under TYPE_CHECKING


def module_name(path: Path) -> str:
    parts = [PACKAGE, *path.relative_to(SOURCE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 2 else parts)


@cache
def modules() -> dict[str, ast.Module]:
    return {
        module_name(path): ast.parse(path.read_text(encoding="utf-8"), str(path))
        for path in sorted(SOURCE.rglob("*.py"))
    }


def walk(node: ast.AST, *, lazy: bool = False, typing_only: bool = False) -> Iterator[tuple[ast.stmt, bool, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, lazy, typing_only
        inside = lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        guarded = typing_only or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test))
        yield from walk(child, lazy=inside, typing_only=guarded)


def targets(node: ast.stmt, known: frozenset[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (name.name for name in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"line {node.lineno}: imports are absolute here"
        base = node.module or ""
        for name in node.names:
            full = f"{base}.{name.name}"
            yield full if full in known else base


@cache
def imports() -> tuple[Import, ...]:
    known = frozenset(modules())
    found = []
    for module, tree in modules().items():
        for node, lazy, typing_only in walk(tree):
            found += [Import(module, target, node.lineno, lazy, typing_only) for target in targets(node, known)]
    return tuple(found)


def own(name: str) -> bool:
    return name == PACKAGE or name.startswith(PACKAGE + ".")


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def at_start() -> dict[str, set[str]]:
    """Module -> own modules that are loaded with it."""
    graph: dict[str, set[str]] = {module: set() for module in modules()}
    for item in imports():
        if own(item.target) and not item.lazy and not item.typing_only:
            graph[item.module].add(item.target)
    return graph


def test_imports_point_one_way() -> None:
    wrong = [
        f"{item.module}:{item.line} imports {item.target}"
        for item in imports()
        if own(item.target) and item.target != PACKAGE and room(item.target) not in MAY_IMPORT[room(item.module)]
    ]
    assert not wrong, "\n".join(wrong)


def test_there_are_no_import_cycles() -> None:
    graph = at_start()
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path[path.index(module) :], module))
        if module not in done:
            for target in sorted(graph.get(module, ())):
                visit(target, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def heavy_modules() -> set[str]:
    """Own modules that load something heavy when they are imported, themselves or through others."""
    heavy = {
        item.module
        for item in imports()
        if not item.lazy and not item.typing_only and item.target.split(".")[0] in HEAVY
    }
    graph = at_start()
    while more := {module for module, used in graph.items() if used & heavy} - heavy:
        heavy |= more
    return heavy


def loaded_with(module: str) -> set[str]:
    graph = at_start()
    seen: set[str] = set()
    todo = [module]
    while todo:
        for target in graph.get(todo.pop(), set()) - seen:
            seen.add(target)
            todo.append(target)
    return seen


def test_inside_the_house_only_what_is_heavy_is_imported_late() -> None:
    heavy = heavy_modules()
    wrong = [
        f"{item.module}:{item.line} imports {item.target} inside a function"
        for item in imports()
        if item.lazy
        and room(item.module) not in COLD_ROOMS
        and item.target.split(".")[0] not in HEAVY
        and item.target not in heavy | COSTLY
        and not (item.module in DOORS and item.target.startswith(item.module + "."))
    ]
    assert not wrong, "\n".join(wrong)


def test_nothing_is_imported_late_that_is_loaded_anyway() -> None:
    wrong = [
        f"{item.module}:{item.line} imports {item.target} inside a function"
        for item in imports()
        if item.lazy and item.target in loaded_with(item.module)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("folder", ["src", "tests", "benchmarks", "tools"])
def test_no_module_is_longer_than_a_person_can_hold(folder: str) -> None:
    for path in (ROOT / folder).rglob("*.py"):
        lines = path.read_text(encoding="utf-8").count("\n")
        assert lines <= LONGEST_MODULE, f"{path.relative_to(ROOT)} has {lines} lines"


def test_no_function_is_longer_than_a_page() -> None:
    long = []
    for module, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > LONGEST_FUNCTION:
                    long.append(f"{module}.{node.name}: {length} lines")
    assert not long, "\n".join(long)


def test_every_module_says_which_question_it_answers() -> None:
    silent = [
        module
        for module, tree in modules().items()
        if tree.body and not module.endswith("__main__") and not ast.get_docstring(tree)
    ]
    assert not silent, "\n".join(silent)


def test_broad_excepts_stand_only_at_the_edges_and_in_the_loop_over_files() -> None:
    broad = {"Exception", "BaseException"}
    for module, tree in modules().items():
        if room(module) == "serve" or module.startswith(f"{PACKAGE}.files.scan"):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ExceptHandler):
                names = {ast.unparse(name) for name in ast.walk(node.type)} if node.type else broad
                swallows = not any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
                assert not (names & broad and swallows), f"{module}:{node.lineno}"


# --- who touches files ----------------------------------------------------------------

ONE_WRITER = f"{PACKAGE}.filesystem"
# Of os: what changes a file or folder, or opens one.
CHANGING = {
    "chmod", "chown", "fchmod", "fchown", "ftruncate", "lchown", "link", "makedirs", "mkdir", "mkfifo", "mknod", "open",
    "remove", "removedirs", "rename", "renames", "replace", "rmdir", "symlink", "truncate", "unlink", "utime",
}  # fmt: skip
# Of a path: the same. `replace` is told from a text's by its one argument.
PATH_CHANGING = {
    "chmod", "hardlink_to", "lchmod", "mkdir", "rename", "rmdir", "symlink_to", "touch", "unlink", "write_bytes",
    "write_text",
}  # fmt: skip
PATH_READING = {"read_bytes", "read_text"}
# Whose methods of these names are no file's: the index notes stamps, a link between memories is dropped.
NOT_PATHS = {"filesystem", "disk", "documents", "store", "_store", "why"}

WRITES_ITSELF = {
    f"{PACKAGE}.serve.hosts": "the configuration of agents is the user's own, in folders that are no workspace",
    f"{PACKAGE}.serve.hosts.install_record": "the same, with the record of what was installed",
    f"{PACKAGE}.serve.http.auth": "the token of a server is kept in the user's own state folder",
    f"{PACKAGE}.settings.own_folders": "that folder",
    f"{PACKAGE}.index.sqlite.connection": "SQLite opens and writes its own file",
}
READS_ITSELF = {
    f"{PACKAGE}.embed.local": "the bundled model is part of this package",
    f"{PACKAGE}.index.sqlite.schema": "migrations are part of this package",
    f"{PACKAGE}.index.sqlite.connection": "SQLite opens and writes its own file",
    f"{PACKAGE}.index.sqlite.log": "and its log beside it",
    f"{PACKAGE}.files.chat_transcripts": "transcripts are named by a person, or were judged by `paths.contained`",
    f"{PACKAGE}.features.import_original": "the database of another system, named by a person",
}
READING_ROOMS = {"settings", "embed", "index", "files", "features", "workspace"}


def calls(module: str) -> Iterator[tuple[ast.Call, str, str]]:
    """Every call with what it is called on and its name; a plain function is called on nothing."""
    for node in ast.walk(modules()[module]):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node, ast.unparse(node.func.value), node.func.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node, "", node.func.id


def mode_of(node: ast.Call, *, position: int) -> str:
    """The mode of an `open`; what cannot be read from the source counts as writing."""
    given = [keyword.value for keyword in node.keywords if keyword.arg == "mode"] or node.args[position : position + 1]
    if not given:
        return ""
    return given[0].value if isinstance(given[0], ast.Constant) and isinstance(given[0].value, str) else "w"


def opens_for_writing(node: ast.Call, on: str, name: str) -> bool:
    plain = on in ("", "io", "gzip", "bz2", "lzma", "codecs")
    if name not in ("open", "fdopen") or (on and plain is False and not node.args and not node.keywords):
        return False
    return bool(set("wax+") & set(mode_of(node, position=1 if plain or name == "fdopen" else 0)))


def is_about_nothing(node: ast.Call) -> bool:
    return bool(node.args) and ast.unparse(node.args[0]) == "os.devnull"


def is_a_write(node: ast.Call, on: str, name: str) -> bool:
    if on == "os":
        return not is_about_nothing(node) and (name in CHANGING or opens_for_writing(node, on, name))
    if on == "shutil":
        return name not in ("which", "disk_usage")
    if on == "tempfile":
        return True
    if on.rsplit(".", 1)[-1] in NOT_PATHS:
        return False
    if name == "replace" and on:
        return len(node.args) == 1 and not node.keywords
    return (bool(on) and name in PATH_CHANGING) or opens_for_writing(node, on, name)


def is_a_read(node: ast.Call, on: str, name: str) -> bool:
    if name in PATH_READING:
        return bool(on) and on not in NOT_PATHS
    if is_about_nothing(node):
        return False
    reading = name == "open" and (not on or on in ("io", "os", "gzip", "bz2", "lzma"))
    return reading or (name == "open" and bool(node.args or node.keywords))


def test_one_module_writes_files_and_every_other_one_asks_it() -> None:
    found = {
        module: [
            f"{module}:{node.lineno} {ast.unparse(node)}"
            for node, on, name in calls(module)
            if is_a_write(node, on, name)
        ]
        for module in modules()
        if module != ONE_WRITER
    }
    wrong = [line for module, lines in found.items() if module not in WRITES_ITSELF for line in lines]
    assert not wrong, "\n".join(wrong)
    assert not [module for module in WRITES_ITSELF if not found[module]], "an exception that nobody needs any more"


def test_nothing_below_the_edges_reads_files_by_itself() -> None:
    found = {
        module: [
            f"{module}:{node.lineno} {ast.unparse(node)}"
            for node, on, name in calls(module)
            if is_a_read(node, on, name)
        ]
        for module in modules()
        if room(module) in READING_ROOMS
    }
    wrong = [line for module, lines in found.items() if module not in READS_ITSELF for line in lines]
    assert not wrong, "\n".join(wrong)
    assert not [module for module in READS_ITSELF if not found[module]], "an exception that nobody needs any more"


def test_no_module_takes_what_writes_by_a_name_of_its_own() -> None:
    """`from os import rename` would hide from the two tests above."""
    hidden = [
        f"{module}:{node.lineno} from {node.module} import {name.name}"
        for module, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in ("os", "shutil", "tempfile", "io", "posix")
        for name in node.names
        if node.module != "os" or name.name in CHANGING
    ]
    assert not hidden, "\n".join(hidden)


@pytest.mark.parametrize(
    "source",
    [
        "open(p, 'w')", "open(p, mode='a')", "open(p, mode)", "path.open('x')", "path.open(mode='r+')",
        "os.fdopen(d, 'wb')", "gzip.open(p, 'wb')", "os.open(p, f)", "os.rename(a, b)", "os.makedirs(p)", "os.utime(p)",
        "path.replace(other)", "path.touch()", "Path(p).write_text(t)", "(root / name).unlink(missing_ok=True)",
        "path.rename(other)", "path.mkdir()", "shutil.rmtree(p)", "tempfile.mkstemp()",
    ],
)  # fmt: skip
def test_writing_is_recognised_however_it_is_written(source: str) -> None:
    node = ast.parse(source, mode="eval").body
    assert isinstance(node, ast.Call)
    on = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id  # type: ignore[attr-defined]
    assert is_a_write(node, on, name)


def written_files() -> Iterator[Path]:
    for path in sorted(ROOT.rglob("*")):
        inside = path.relative_to(ROOT)
        skipped = SKIPPED_FOLDERS & set(inside.parts) or any(part.endswith("_cache") for part in inside.parts)
        if not skipped and path.is_file() and path.suffix not in {".onnx", ".sqlite", ".pyc"}:
            yield path


def test_no_file_mentions_the_machine_it_was_written_on() -> None:
    # Neighbours of this checkout, and the home of whoever works here: true on every machine.
    beside = [path for path in ROOT.parent.iterdir() if path.is_dir() and len(path.parts) > 2]
    places = "|".join(re.escape(str(path)) for path in {Path.home(), ROOT, *beside} if len(path.parts) > 1)
    mention = re.compile(rf"(?<![\w./~-])(?:{places})(?![\w-])")
    for path in written_files():
        text = path.read_text(encoding="utf-8", errors="replace")
        if found := mention.search(text):
            line = text.count("\n", 0, found.start()) + 1
            pytest.fail(f"{path.relative_to(ROOT)}:{line} mentions {found[0]}")
