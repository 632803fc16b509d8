"""What is in the bundle that desktop hosts install with one click?

python -m tools.bundle            writes dist/spec-kit-memory-<version>.mcpb
python -m tools.bundle --manifest prints its manifest

The bundle contains the package itself; the host brings uv, which creates the environment on the user's machine from
pyproject.toml, because wheels differ between systems.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spec_kit_memory import __version__
from spec_kit_memory.serve.mcp.resources import PROMPTS
from spec_kit_memory.serve.tools import TOOLS

ROOT = Path(__file__).parents[1]
PACKAGE = "src/spec_kit_memory"
ENTRY_POINT = "server/main.py"
ENTRY = '''\
"""Where the host starts us: the arguments are those of `skm`."""

from spec_kit_memory.serve.cli.main import main

main()
'''
# The earliest time that zip can store: equal inputs give equal bundles.
LONG_AGO = (1980, 1, 1, 0, 0, 0)


def manifest() -> dict[str, Any]:
    """The bundle's manifest, from the same tables that the server uses."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {
        "$schema": "https://raw.githubusercontent.com/modelcontextprotocol/mcpb/main/schemas/mcpb-manifest-v0.4.schema.json",
        "manifest_version": "0.4",
        "name": project["name"],
        "display_name": "Spec Kit Memory",
        "version": __version__,
        "description": project["description"],
        "author": {"name": "Spec Kit Memory contributors"},
        "license": project["license"],
        "keywords": project["keywords"],
        "server": {
            "type": "uv",
            "entry_point": ENTRY_POINT,
            # Hosts derive this themselves for uv, but the packer's validation requires it.
            "mcp_config": {
                "command": "uv",
                "args": [
                    "run",
                    "--no-dev",
                    "--directory",
                    "${__dirname}",
                    ENTRY_POINT,
                    "serve",
                    "--workspace",
                    "${user_config.workspace}",
                ],
                "env": {"SPEC_KIT_MEMORY_TOOLS": "${user_config.tools}"},
            },
        },
        "tools": [{"name": tool.name, "description": tool.about} for tool in TOOLS],
        # The texts of prompts depend on arguments and memories, so the server generates them.
        "prompts_generated": bool(PROMPTS),
        "compatibility": {
            "platforms": ["darwin", "linux", "win32"],
            "runtimes": {"python": project["requires-python"]},
        },
        "user_config": {
            "workspace": {
                "type": "directory",
                "title": "Project",
                "description": "The project's root folder: the one that has specs/, MEMORY.md or .git",
                "required": True,
            },
            "tools": {
                "type": "string",
                "title": "Tools",
                "description": "all, or lean for the six an agent needs daily",
                "default": "all",
                "required": False,
            },
        },
    }


def contents() -> Iterator[tuple[str, bytes]]:
    """Name and content of every file in the bundle."""
    yield "manifest.json", (json.dumps(manifest(), indent=2, ensure_ascii=False) + "\n").encode()
    yield ENTRY_POINT, ENTRY.encode()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        yield name, (ROOT / name).read_bytes()
    for path in sorted((ROOT / PACKAGE).rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(ROOT).as_posix(), path.read_bytes()


def build(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"spec-kit-memory-{__version__}.mcpb"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, data in contents():
            entry = zipfile.ZipInfo(name, LONG_AGO)
            entry.external_attr = 0o644 << 16
            bundle.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return path


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Build the .mcpb bundle.")
    parser.add_argument("--manifest", action="store_true", help="print the manifest and build nothing")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="folder to write into (dist)")
    options = parser.parse_args(arguments)
    if options.manifest:
        sys.stdout.write(json.dumps(manifest(), indent=2, ensure_ascii=False) + "\n")
        return
    path = build(options.output)
    print(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")


if __name__ == "__main__":
    main()
