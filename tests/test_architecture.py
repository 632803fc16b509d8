"""Does the house still stand as drawn in ARCHITECTURE.md? Read from the source, nothing is imported."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from spec_kit_memory.requests import BY_COMMAND
from spec_kit_memory.serve.tools import BY_NAME
from tools import house

ROOT = Path(__file__).parents[1]
PACKAGE = "spec_kit_memory"
SOURCE = ROOT / "src" / PACKAGE

# What each room may use of the others. core uses nothing but errors and advice; see ARCHITECTURE.md.
ANYWHERE = {
    "advice",
    "errors",
    "answers",
    "page_answers",
    "answer_json",
    "parameters",
    "parameter_values",
    "requests",
    "settings",
    "filesystem",
    "programs",
    "caller",
}
MAY_IMPORT: dict[str, set[str]] = {
    "advice": set(),
    "errors": {"advice"},
    "caller": {"core", "errors", "settings"},
    "filesystem": set(),
    "programs": set(),
    "core": {"core", "errors", "advice"},
    "answers": {"core", "errors", "advice"},
    "page_answers": {"answers", "core", "advice"},
    "answer_json": {"answers", "advice", "core"},
    "parameter_values": {"core", "errors", "parameters"},  # the latter for types only
    "parameters": {"core", "errors", "parameter_values"},
    "requests": {"core", "errors", "parameters", "parameter_values"},
    "settings": {"settings", "core", "errors", "advice", "filesystem"},
    "embed": {"embed", "core"} | ANYWHERE,
    "index": {"index", "core"} | ANYWHERE,
    "files": {"files", "index", "embed", "core"} | ANYWHERE,
    "features": {"features", "files", "index", "embed", "core"} | ANYWHERE,
    "workspace": {"features", "files", "index", "embed", "core"} | ANYWHERE,
    "team": {"team", "workspace", "features", "files", "index", "embed", "core"} | ANYWHERE,
    "serve": {"serve", "team", "workspace", "core"} | ANYWHERE,
    "__init__": {"serve", "workspace", "core"} | ANYWHERE,  # the edge for Python
    "__main__": {"serve"},
}

# The one list of what may be imported inside a function, each with its reason. All else stands at the top of its
# module. The times are of a cold process; `skm triggers`, which hooks run on every prompt, takes about 170 ms in all.
LATE: dict[str, str] = {
    # Libraries that most commands do without.
    "ahocorasick_rs": "finds trigger phrases and secrets; reading a memory needs neither",
    "apsw": "the original system's database, which is imported once; the engine itself loads it at the top",
    "click.shell_completion": "only `skm completion`",
    "httpx2": "only a remote embedder or an issuer of tokens is reached over HTTP",
    "mcp": "a command speaks no protocol, and the standard input server needs no HTTP",
    "numpy": "70 ms; matching triggers, reading and writing need no vectors",
    "onnxruntime": "the model is loaded when the first text is embedded",
    "platformdirs": "with a workspace beside it nobody asks for the user's own folders",
    "rich": "only a terminal; pipes and agents get plain text",
    "starlette": "only a server over HTTP",
    "tokenizers": "loaded with the model",
    "uvicorn": "only a server over HTTP",
    "watchfiles": "only what keeps watching",
    "yaml": "front matter is read from the index, unless a file has changed",
    # Of the standard library.
    "concurrent.futures": "only a question that is embedded",
    "difflib": "only a refusal that names what was probably meant, and a comparison of versions",
    "email": "only a date as mail writes it, in an import",
    "gzip": "only completion of checkpoint names",
    "importlib": "the package itself loads what is asked of it",
    "resource": "not there on Windows",
    "subprocess": "only git",
    "zipfile": "only an export of chats",
    # Of our own.
    f"{PACKAGE}.core.words": "patterns for every script, which only writing and searching need",
    f"{PACKAGE}.core.markdown": "only a file that is read anew",
    f"{PACKAGE}.core.session_data": "only a call of `save` whose fields stand beside its context",
    f"{PACKAGE}.core.redact": "patterns of secrets, which only writing and failing need",
    f"{PACKAGE}.embed": "one provider, the one that is set",
    f"{PACKAGE}.features": "each verb loads what it does; all together cost as much as the fastest command",
    f"{PACKAGE}.files.git_history": "only a worktree",
    f"{PACKAGE}.files.cited_code": "only memories that name files of code",
    f"{PACKAGE}.files.activity": "only answers that report what was used",
    f"{PACKAGE}.files.past_folder": "only a search of the past",
    f"{PACKAGE}.files.scan": "only a command that indexes",
    f"{PACKAGE}.files.watch": "only what keeps watching",
    f"{PACKAGE}.index.arrays": "numpy",
    f"{PACKAGE}.index.postgres": "one engine, the one that is set, and of it what the call needs",
    f"{PACKAGE}.index.sqlite": "likewise",
    f"{PACKAGE}.index.transfer": "only a copy from one engine to another",
    f"{PACKAGE}.serve": "a command, a hook and a server load only their own edge",
    f"{PACKAGE}.settings": "help and completion read no configuration",
    f"{PACKAGE}.team": "only a team server, with psycopg",
    f"{PACKAGE}.workspace": "help, completion and a hook outside of any workspace open none",
    PACKAGE: "its version, for a command that prints only that",
}
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


def test_there_are_no_import_cycles_even_if_late_imports_are_counted() -> None:
    graph: dict[str, set[str]] = {module: set() for module in modules()}
    for item in imports():
        if own(item.target) and not item.typing_only and item.target != item.module:
            graph[item.module].add(item.target)
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path[path.index(module) :], module))
        if module not in done:
            for target in sorted(graph.get(module, ())):
                visit(target, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())


# The engine folders mirror each other and what they share, and what feeds the arrays has one name on both sides.
ENGINES = tuple(f"{PACKAGE}.index.{folder}." for folder in ("sql", "sqlite", "postgres", "arrays"))


def test_each_module_name_is_used_once() -> None:
    places: dict[str, set[str]] = {}
    for module in modules():
        engine = next((module.removeprefix(folder) for folder in ENGINES if module.startswith(folder)), None)
        places.setdefault(module.rsplit(".", 1)[-1], set()).add(f"an engine: {engine}" if engine else module)
    shared = {name: sorted(homes) for name, homes in places.items() if len(homes) > 1}
    assert not shared


def test_each_class_name_is_used_once() -> None:
    """`Found`, `Plan` or `Record` in three modules sends a reader to the wrong one. Engines mirror the contract."""
    shared = {
        name: sorted(homes) for name, homes in house.class_homes(house.modules_of(ROOT)).items() if len(homes) > 1
    }
    assert not shared


def test_the_page_that_counts_the_house_has_todays_counts_that_are_rules() -> None:
    page = (ROOT / "docs" / "explain" / "house.md").read_text(encoding="utf-8")
    counted = house.counts(ROOT)
    for name in ("module names used twice", "class names used twice", "import cycles, lazy imports counted"):
        assert f"| {counted[name]} |" in next(line for line in page.splitlines() if line.startswith(f"| {name} |")), (
            name
        )
    broad = "broad excepts that swallow"
    row = next(line for line in page.splitlines() if line.startswith(f"| {broad} |"))
    assert row.split("|")[3].strip() == str(counted[broad])


def loaded_with(module: str) -> set[str]:
    graph = at_start()
    seen: set[str] = set()
    todo = [module]
    while todo:
        for target in graph.get(todo.pop(), set()) - seen:
            seen.add(target)
            todo.append(target)
    return seen


def reason_for_late(target: str) -> str | None:
    """The entry of the list that an import falls under: the longest one, so that a module may have its own."""
    names = [target.rsplit(".", cut)[0] for cut in range(target.count(".") + 1)]
    return next((name for name in names if name in LATE and (name != PACKAGE or target == PACKAGE)), None)


def test_what_is_imported_late_is_on_the_list_and_the_list_has_nothing_else() -> None:
    late = [item for item in imports() if item.lazy and not item.typing_only]
    wrong = [f"{item.module}:{item.line} imports {item.target}" for item in late if not reason_for_late(item.target)]
    assert not wrong, "\n".join(wrong)
    needless = LATE.keys() - {reason_for_late(item.target) for item in late}
    assert not needless, f"no longer imported late: {sorted(needless)}"


def test_a_cold_start_loads_nothing_of_the_list() -> None:
    """Opening a workspace, which every command but `--help` does, pays for none of the libraries."""
    code = f"import sys; from {PACKAGE} import Workspace; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    libraries = {name for name in LATE if not name.startswith(PACKAGE)} - {"importlib"}
    assert not libraries & loaded
    assert not {f"{PACKAGE}.{name}" for name in ("core.words", "core.redact", "features.search", "serve")} & loaded


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


def test_broad_excepts_stand_only_at_the_edges_and_in_the_loops_over_files_and_projects() -> None:
    broad = {"Exception", "BaseException"}
    loops = (f"{PACKAGE}.files.scan", f"{PACKAGE}.team.keeper")  # a fault with one must not end the rest
    for module, tree in modules().items():
        if room(module) == "serve" or module.startswith(loops):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ExceptHandler):
                names = {ast.unparse(name) for name in ast.walk(node.type)} if node.type else broad
                swallows = not any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
                assert not (names & broad and swallows), f"{module}:{node.lineno}"


# --- the index ------------------------------------------------------------------------

MOST_VERBS = 40
SQL = re.compile(r"\b(SELECT\s.+\sFROM|INSERT\s+(OR\s+\w+\s+)?INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM|PRAGMA)\b", re.S)


def verbs_of(protocol: str) -> list[str]:
    """The methods of a protocol of the contract; an overloaded one counts once."""
    contract = modules()[f"{PACKAGE}.index.contract"]
    result = next(node for node in contract.body if isinstance(node, ast.ClassDef) and node.name == protocol)
    return sorted({node.name for node in result.body if isinstance(node, ast.FunctionDef)})


def test_an_engine_has_four_small_parts() -> None:
    verbs = {name: verbs_of(name) for name in ("Documents", "Record", "Vectors", "Care")}
    assert all(verbs.values())
    assert sum(map(len, verbs.values())) <= MOST_VERBS, verbs


def test_a_handle_on_an_index_forwards_no_verb() -> None:
    verbs = {verb for name in ("Documents", "Record", "Vectors", "Care") for verb in verbs_of(name)}
    assert not verbs & set(verbs_of("Index"))


def test_the_arrays_know_no_engine() -> None:
    """They are fed through one interface, by whichever engine."""
    for module, tree in modules().items():
        if not module.startswith(f"{PACKAGE}.index.arrays"):
            continue
        known = {found.target for found in imports() if found.module == module}
        assert not {name for name in known if name == "apsw" or ".index.sqlite" in name or ".index.postgres" in name}
        texts = [
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        assert not [text for text in texts if SQL.search(text)], module


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
NOT_PATHS = {"filesystem", "disk", "documents", "store", "_store", "why", "workspace"}

WRITES_ITSELF = {
    f"{PACKAGE}.serve.hosts.install_record": "the configuration of agents is the user's own, and so is its record",
    f"{PACKAGE}.serve.http.auth": "the token of a server is kept in the user's own state folder",
    f"{PACKAGE}.settings.own_folders": "that folder",
    f"{PACKAGE}.team.scratch": "folders of a team server's own, made anew by each process and removed with it",
}
READS_ITSELF = {
    f"{PACKAGE}.embed.local": "the bundled model is part of this package",
    f"{PACKAGE}.index.sqlite.schema": "migrations are part of this package",
    f"{PACKAGE}.index.postgres.schema": "likewise",
    f"{PACKAGE}.index.sqlite.companions": "SQLite's log beside its file",
    f"{PACKAGE}.files.chat_transcripts": "transcripts are named by a person, or were judged by `paths.contained`",
    f"{PACKAGE}.files.chat_exports": "likewise, and what a zip among them holds, in memory",
    f"{PACKAGE}.features.import_original": "the database of another system, named by a person",
}
READING_ROOMS = {"settings", "embed", "index", "files", "features", "workspace", "team"}


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
    results = {
        module: [
            f"{module}:{node.lineno} {ast.unparse(node)}"
            for node, on, name in calls(module)
            if is_a_write(node, on, name)
        ]
        for module in modules()
        if module != ONE_WRITER
    }
    wrong = [line for module, lines in results.items() if module not in WRITES_ITSELF for line in lines]
    assert not wrong, "\n".join(wrong)
    assert not [module for module in WRITES_ITSELF if not results[module]], "an exception that nobody needs any more"


def test_nothing_below_the_edges_reads_files_by_itself() -> None:
    results = {
        module: [
            f"{module}:{node.lineno} {ast.unparse(node)}"
            for node, on, name in calls(module)
            if is_a_read(node, on, name)
        ]
        for module in modules()
        if room(module) in READING_ROOMS
    }
    wrong = [line for module, lines in results.items() if module not in READS_ITSELF for line in lines]
    assert not wrong, "\n".join(wrong)
    assert not [module for module in READS_ITSELF if not results[module]], "an exception that nobody needs any more"


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


def tells_who_asks(node: ast.AST) -> bool:
    """Does this read who asks from the process's settings, or from a variable that a thread carries along?"""
    if isinstance(node, ast.Name):
        return node.id in ("ContextVar", "process_caller")
    if not isinstance(node, ast.Attribute):
        return False
    on = ast.unparse(node.value).lower()
    return node.attr == "isolation" or (node.attr == "scope" and on.rpartition(".")[2].endswith("settings"))


def test_nothing_below_the_edges_asks_the_process_who_is_calling() -> None:
    """A caller is handed down with each call; `workspace` names the process's own for who opens one in Python."""
    results = [
        f"{module}: {ast.unparse(node)}"
        for module, tree in modules().items()
        for node in ast.walk(tree)
        if tells_who_asks(node)
        and room(module) not in ("serve", "settings", "caller")
        and (module, ast.unparse(node)) != (f"{PACKAGE}.workspace", "process_caller")
    ]
    assert results == []


@pytest.mark.parametrize(
    "source", ["settings.scope", "self._settings.scope", "runtime.settings.isolation.user_id", 'ContextVar("caller")']
)
def test_asking_the_process_is_recognised(source: str) -> None:
    assert any(map(tells_who_asks, ast.walk(ast.parse(source))))


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The texts of a module that are no docstrings, with their lines."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [node.body[0] for node in ast.walk(tree) if isinstance(node, kinds) and node.body]
    docstrings = {id(first.value) for first in bodies if isinstance(first, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def names_of_edges() -> re.Pattern[str]:
    """Tools, commands, options and arguments with a value: what only one kind of reader has."""
    declared = [parameter for kind in BY_COMMAND.values() for parameter in kind.declared.values()]
    verbs = "|".join(sorted({kind.verb for kind in BY_COMMAND.values()}))
    arguments = "|".join(sorted({parameter.argument for parameter in declared if "_" in parameter.argument}))
    flags = "|".join(sorted({parameter.flag for parameter in declared if parameter.flag}))
    text = "|".join(sorted({parameter.name for parameter in declared}))
    tools = "|".join(sorted(name for name in BY_NAME if name.startswith("memory_")))
    called = rf"\b(?:{tools})\b|(?<![.\w-])skm\b(?![-.])|`(?:{verbs})\("
    return re.compile(rf"{called}|`(?:{arguments})\b|(?<![\w-])(?:{flags})(?![\w-])|\b(?:{text}): true\b")


# Words of other programs, and names of ours that are no advice.
OTHERS_WORDS = {
    f"{PACKAGE}.files.original_db",  # the tables of the original system
    f"{PACKAGE}.core.secret_commands",  # options of other programs
    f"{PACKAGE}.core.secret_names",
    f"{PACKAGE}.core.secret_formats",
}


def test_nothing_below_the_edges_names_a_tool_a_command_or_an_option() -> None:
    """Advice is a code there; its words stand in `serve.messages`. Requests declare the names."""
    named = names_of_edges()
    wrong = [
        f"{module}:{line} {text[:80]!r}"
        for module, tree in modules().items()
        if room(module) not in ("serve", "requests", "parameters", "parameter_values", "__init__", "__main__")
        and module not in OTHERS_WORDS
        for line, text in texts(tree)
        if named.search(text)
    ]
    assert not wrong, "\n".join(wrong)


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
        if answer := mention.search(text):
            line = text.count("\n", 0, answer.start()) + 1
            pytest.fail(f"{path.relative_to(ROOT)}:{line} mentions {answer[0]}")


# --- the page -------------------------------------------------------------------------


def test_the_architecture_page_names_nothing_that_is_gone() -> None:
    """A newcomer opens what it names."""
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    files = [path.relative_to(ROOT).as_posix() for path in written_files()]
    for name in sorted(set(re.findall(r"`(\w[\w.]*/[\w./]*|\w+\.py)`", page))):
        ending = name if name.endswith("/") or "." in name.rpartition("/")[2] else f"{name}."
        assert any(f"/{ending}" in f"/{path}" for path in files), f"ARCHITECTURE.md names {name}"
    for name, symbols in re.findall(r"`([\w/]+\.py)` \(((?:`\w+`(?:, )?)+)\)", page):
        source = (SOURCE / name).read_text(encoding="utf-8")
        for symbol in re.findall(r"\w+", symbols):
            assert re.search(rf"^\s*(?:def |class )?{symbol}\b", source, re.MULTILINE), f"{symbol} is not in {name}"
    for room, section in re.findall(r"^## `(core|features|files)/`.*?\n(.*?)(?=^## )", page, re.MULTILINE | re.DOTALL):
        there = {path.stem for path in (SOURCE / room).glob("*.py")}
        listed = [line for line in section.splitlines() if line.startswith("- **")]
        named = {word for line in listed for word in re.findall(r"`([a-z]\w*)`", line)}
        assert named <= there | {"core", "within"}, f"ARCHITECTURE.md names of {room}/ {sorted(named - there)}"
