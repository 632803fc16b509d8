"""How large is the source, and how many modules are between a call and the index? Metrics, as Markdown rows.

`python -m tools.house` measures this checkout, and `--source DIR` another one (the folder that has `src/`), in the same
way. `--hops` runs a search and a save in a temporary workspace and counts the modules between `Workspace` and the
statements that SQLite executes; it needs the package of that checkout to be importable.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "spec_kit_memory"
ENGINES = ("sql", "sqlite", "postgres", "arrays")

HOPS = """
import sys, tempfile
from pathlib import Path
from spec_kit_memory import Workspace
from spec_kit_memory.settings import load

deepest = {}

def profile(frame, event, argument):
    if event != "c_call" or getattr(argument, "__name__", "") not in ("execute", "executemany"):
        return
    path = []
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("spec_kit_memory") and (not path or path[-1] != name):
            path.append(name)
        frame = frame.f_back
    if len(set(path)) > len(set(deepest.get(verb, ()))):
        deepest[verb] = path

root = Path(tempfile.mkdtemp())
(root / ".spec-kit-memory").mkdir()
(root / "specs" / "001-a").mkdir(parents=True)
(root / "specs" / "001-a" / "spec.md").write_text("# Ferries\\n\\nThe ferry leaves at nine.\\n")
settings = load(root, flags={"semantic.enabled": False}) if "flags" in load.__code__.co_varnames else load(root)
with Workspace(settings) as workspace:
    workspace.index()
    for verb, call in (
        ("search", lambda: workspace.search("ferry")),
        ("save", lambda: workspace.save(text="The ferry leaves at ten from Monday on.", spec_folder="001-a")),
    ):
        sys.setprofile(profile)
        try:
            call()
        finally:
            sys.setprofile(None)
for verb, path in deepest.items():
    print(verb, len(set(path)), " ".join(reversed([name.removeprefix("spec_kit_memory.") for name in path])))
"""


def modules_of(source: Path) -> dict[str, tuple[str, ast.Module]]:
    package = source / "src" / PACKAGE
    modules = {}
    for path in sorted(package.rglob("*.py")):
        name = ".".join((PACKAGE, *path.relative_to(package).with_suffix("").parts)).removesuffix(".__init__")
        text = path.read_text(encoding="utf-8")
        modules[name] = (text, ast.parse(text))
    return modules


def imported(tree: ast.Module, names: frozenset[str], *, lazy_only: bool = False) -> Iterator[str]:
    """Modules that a module imports, except under TYPE_CHECKING; only imports inside functions with `lazy_only`."""

    def walk(node: ast.AST, *, lazy: bool) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.ImportFrom) and child.module and (lazy or not lazy_only):
                for alias in child.names:
                    full = f"{child.module}.{alias.name}"
                    yield full if full in names else child.module
            elif isinstance(child, ast.Import) and (lazy or not lazy_only):
                yield from (alias.name for alias in child.names)
            yield from walk(child, lazy=lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))

    yield from walk(tree, lazy=False)


def cycles(graph: dict[str, set[str]]) -> int:
    """The number of import cycles: strongly connected components of two or more modules (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    groups = 0

    def visit(name: str) -> None:
        nonlocal groups
        index[name] = lowest[name] = len(index)
        stack.append(name)
        for target in graph[name]:
            if target not in index:
                visit(target)
                lowest[name] = min(lowest[name], lowest[target])
            elif target in stack:
                lowest[name] = min(lowest[name], index[target])
        if lowest[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            groups += len(group) > 1

    for name in graph:
        if name not in index:
            visit(name)
    return groups


def swallows_everything(node: ast.AST) -> bool:
    if not isinstance(node, ast.ExceptHandler):
        return False
    names = {ast.unparse(part) for part in ast.walk(node.type)} if node.type else {"Exception"}
    return bool(names & {"Exception", "BaseException"}) and not any(isinstance(n, ast.Raise) for n in ast.walk(node))


PARTS = ("Documents", "Record", "Vectors", "Care", "Store")  # `Store` is version 0.1's, in the package `store`
SERVER_PARTS = ("Outbox", "StateFiles")


def contract_methods(modules: dict[str, tuple[str, ast.Module]], protocols: tuple[str, ...]) -> int:
    """The number of methods in these protocols of the index contract; an overloaded method counts once."""
    name = next(name for name in (f"{PACKAGE}.index.contract", f"{PACKAGE}.store") if name in modules)
    methods = {
        (node.name, method.name)
        for node in modules[name][1].body
        if isinstance(node, ast.ClassDef) and node.name in protocols
        for method in node.body
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("__")
    }
    return len(methods)


def class_homes(modules: dict[str, tuple[str, ast.Module]]) -> dict[str, set[str]]:
    """The modules that define each class name. The engine folders mirror each other and the protocols of `index`, so
    they count as one place.

    Classes of `core.operation` are left out: they are named after verbs and always used with the module's name.
    """
    homes: dict[str, set[str]] = {}
    protocols = {
        node.name
        for name, (_, tree) in modules.items()
        if name.startswith(f"{PACKAGE}.index.")
        for node in tree.body
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "Protocol" for base in node.bases)
    }
    for name, (_, tree) in modules.items():
        engine = any(f".index.{folder}." in name for folder in ENGINES)
        for node in tree.body:
            if not isinstance(node, ast.ClassDef) or node.name.startswith("_") or name.endswith(".core.operation"):
                continue
            mirrored = name.startswith(f"{PACKAGE}.index.") and node.name in protocols
            homes.setdefault(node.name, set()).add("the engines" if engine or mirrored else name)
    return homes


def counts(source: Path) -> dict[str, int]:
    modules = modules_of(source)
    names = frozenset(modules)
    graph = {
        name: {target for target in imported(tree, names) if target in names and target != name}
        for name, (_, tree) in modules.items()
    }
    outside_engines = [name for name in modules if not any(f".index.{engine}." in name for engine in ENGINES)]
    homes = Counter(name.rsplit(".", 1)[-1] for name in outside_engines)
    classes = class_homes(modules)
    lengths = [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for _, tree in modules.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return {
        "modules": len(modules),
        "lines": sum(text.count("\n") for text, _ in modules.values()),
        "functions": len(lengths),
        "lines of the median function": sorted(lengths)[len(lengths) // 2],
        "lines of the longest function": max(lengths),
        "lines of the longest module": max(text.count("\n") for text, _ in modules.values()),
        "module names used twice": sum(count > 1 for count in homes.values()),
        "class names used twice": sum(len(places) > 1 for places in classes.values()),
        "import cycles, lazy imports counted": cycles(graph),
        "lazy imports": sum(len(list(imported(tree, names, lazy_only=True))) for _, tree in modules.values()),
        "broad excepts that swallow": sum(
            swallows_everything(node) for _, tree in modules.values() for node in ast.walk(tree)
        ),
        "methods that every engine implements": contract_methods(modules, PARTS),
        "methods that only a server's engine has": contract_methods(modules, SERVER_PARTS),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--source", type=Path, default=Path(__file__).parents[1], help="a checkout")
    parser.add_argument("--hops", action="store_true", help="also run a search and a save, and count the modules")
    options = parser.parse_args()
    for name, count in counts(options.source).items():
        print(f"| {name} | {count:,} |")
    if options.hops:
        environ = {"PYTHONPATH": str(options.source / "src"), "PATH": ""}
        done = subprocess.run([sys.executable, "-c", HOPS], capture_output=True, text=True, env=environ, check=False)
        print(done.stdout or done.stderr)


if __name__ == "__main__":
    main()
