"""Does our server work with the protocol's own test programs?

The MCP conformance suite in both protocol eras, the inspector calling every tool, and a session with the TypeScript
SDK's client. Needs Node and, the first time, npm's registry:

    python -m tools.conformance [--needed]

Without Node or npm it says so and exits with 0, unless `--needed`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.packages import BUILD, Absent, install_from_npm, node

ROOT = Path(__file__).resolve().parents[1]
MODULES = BUILD / "conformance"
NODE_NEEDED = (22, 19)
PACKAGES = (
    "suite-released@npm:@modelcontextprotocol/conformance@0.1.16",
    "suite-next@npm:@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/inspector@2.12.0",
    "@modelcontextprotocol/client@2.4.0",
)
RUN_SECONDS = 240
# Each version of the suite, with the protocol version to test; "" for the suite's default.
RUNS = (("suite-released", ""), ("suite-next", "2025-11-25"), ("suite-next", "2026-07-28"))

# Checks that cannot apply to us. A check that fails and is not listed here is a fault of ours.
_TOOL, _PROMPT, _RESOURCE = "a test tool", "a test prompt", "a test resource"
NOT_APPLICABLE: Mapping[str, tuple[str, str]] = {
    # check -> what it requires, and text that its error must contain, so that the entry hides no other failure
    "tools-call-simple-text": (_TOOL, "test_simple_text"),
    "tools-call-image": (_TOOL, "test_image_content"),
    "tools-call-audio": (_TOOL, "test_audio_content"),
    "tools-call-embedded-resource": (_TOOL, "test_embedded_resource"),
    "tools-call-mixed-content": (_TOOL, "test_multiple_content_types"),
    "tools-call-error": (_TOOL, "test_error_handling"),
    "tools-call-with-progress": (_TOOL, "test_tool_with_progress"),
    "tools-call-sampling": (_TOOL, "test_sampling"),
    "tools-call-elicitation": (_TOOL, "test_elicitation"),
    "elicitation-sep1034-general": (_TOOL, "test_elicitation_sep1034_defaults"),
    "elicitation-sep1330-general": (_TOOL, "test_elicitation_sep1330_enums"),
    "json-schema-2020-12-tool-found": (_TOOL, "json_schema_2020_12_tool"),
    "prompts-get-simple": (_PROMPT, "test_simple_prompt"),
    "prompts-get-with-args": (_PROMPT, "test_prompt_with_arguments"),
    "prompts-get-embedded-resource": (_PROMPT, "test_prompt_with_embedded_resource"),
    "prompts-get-with-image": (_PROMPT, "test_prompt_with_image"),
    "resources-read-text": (_RESOURCE, "test://static-text"),
    "resources-read-binary": (_RESOURCE, "test://static-binary"),
    "resources-templates-read": (_RESOURCE, "test://template/123/data"),
    "sep-2322-elicitation-incomplete": (_TOOL, "test_input_required_result_elicitation"),
    "sep-2322-sampling-incomplete": (_TOOL, "test_input_required_result_sampling"),
    "sep-2322-list-roots-incomplete": (_TOOL, "test_input_required_result_list_roots"),
    "sep-2322-request-state-incomplete": (_TOOL, "test_input_required_result_request_state"),
    "sep-2322-multiple-inputs-incomplete": (_TOOL, "test_input_required_result_multiple_inputs"),
    "sep-2322-multi-round-r1": (_TOOL, "Expected InputRequiredResult"),
    "sep-2322-non-tool-incomplete": (_PROMPT, "test_input_required_result_prompt"),
    "sep-2322-result-type-included": (_TOOL, "test_input_required_result_elicitation"),
    "sep-2322-reject-tampered-state": (_TOOL, "could not get initial InputRequiredResult"),
    "sep-2322-respect-client-capabilities": (_TOOL, "test_input_required_result_capabilities"),
    "sep-2575-server-rejects-undeclared-capability": (_TOOL, "test_missing_capability"),
    "sep-2575-missing-capability-http-400": (_TOOL, "test_missing_capability"),
    "sep-2575-http-server-no-independent-requests-on-stream": (_TOOL, "test_streaming_elicitation"),
    "sep-2575-server-no-log-without-loglevel": (_TOOL, "test_logging_tool"),
    "sep-2243-server-no-xmcp-tool": ("a tool with x-mcp-header", "Not testable"),
    "sep-2243-server-decode-base64": ("a tool with x-mcp-header", "Not testable"),
    "sep-2243-server-validate-param-match": ("a tool with x-mcp-header", "Not testable"),
    "sep-2243-server-reject-invalid-param-chars": ("a tool with x-mcp-header", "Not testable"),
    "sep-2243-server-reject-param-mismatch": ("a tool with x-mcp-header", "Not testable"),
    "logging-set-level": ("the logging capability, which we do not declare", "Method not found"),
    "tools-call-with-logging": ("the logging capability, which we do not declare", "Method not found"),
    "resources-subscribe": ("resource subscriptions, which we do not declare", "Method not found"),
    "resources-unsubscribe": ("resource subscriptions, which we do not declare", "Method not found"),
}

# Calls of every tool, each after those that create its data; {name} is a value from an earlier answer.
CALLS: tuple[tuple[str, Mapping[str, Any], str], ...] = (
    # tool, arguments, and "name=path.to.value" to keep from its data
    ("memory_save", {"context": {"title": "Old", "sessionSummary": "Sessions in Redis."}, "specFolder": "007-auth"},
     "old=id"),
    ("memory_save", {"context": {"title": "New", "sessionSummary": "Signed tokens."}, "specFolder": "007-auth"},
     "new=id"),
    ("memory_index_scan", {}, ""),
    ("memory_search", {"query": "signed tokens", "limit": 3}, "path=results.0.path"),
    ("memory_context", {"specFolder": "007-auth", "prompt": "tokens"}, ""),
    ("memory_load", {"memoryId": "{new}"}, ""),
    ("memory_get", {"path": "{path}", "from": 1, "count": 2}, ""),
    ("memory_match_triggers", {"prompt": "signed tokens"}, ""),
    ("memory_list", {"specFolder": "007-auth"}, ""),
    ("memory_update", {"id": "{old}", "title": "Sessions in Redis"}, ""),
    ("memory_validate", {"id": "{new}", "wasUseful": True}, ""),
    ("memory_stats", {}, ""),
    ("memory_health", {}, ""),
    ("memory_causal_link", {"sourceId": "{new}", "targetId": "{old}", "relation": "supersedes"}, "link=link.id"),
    ("memory_drift_why", {"memoryId": "{new}"}, ""),
    ("memory_causal_unlink", {"linkId": "{link}"}, ""),
    ("checkpoint_create", {"name": "one"}, ""),
    ("checkpoint_list", {}, ""),
    ("memory_delete", {"id": "{old}"}, ""),
    ("checkpoint_restore", {"name": "one"}, ""),
    ("checkpoint_delete", {"name": "one"}, ""),
    ("memory_history", {"limit": 5}, ""),
)  # fmt: skip


# --- requirements -----------------------------------------------------------------------------------


def install() -> str:
    """Install the packages; returns the Node program to use."""
    install_from_npm(MODULES, PACKAGES)
    return str(node(NODE_NEEDED))


# --- our server ---------------------------------------------------------------------------------------


@contextmanager
def workspace() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="skm-conformance-") as folder:
        root = Path(folder) / "work"
        (root / "specs" / "007-auth").mkdir(parents=True)
        yield root


def _environment(root: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SPEC_KIT_MEMORY_")}
    return {**inherited, "SPEC_KIT_MEMORY_USER_CONFIG": str(root.parent / "nobody.jsonc")}


def _serve(root: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "spec_kit_memory", "serve", "--workspace", str(root), *more]


@contextmanager
def serving(root: Path) -> Iterator[str]:
    server = subprocess.Popen(
        _serve(root, "--http", "--port", "0", "--no-token"), stderr=subprocess.PIPE, text=True, env=_environment(root)
    )
    assert server.stderr is not None
    try:
        address = re.search(r"http://\S+", server.stderr.readline())
        if address is None:
            raise RuntimeError("the server did not start")
        yield address[0]
    finally:
        server.terminate()
        server.wait(30)


# --- the three programs ---------------------------------------------------------------------------------


def suite(program: str, name: str, era: str) -> list[str]:
    """Run one version of the conformance suite; returns its faults."""
    with workspace() as root, serving(root) as url:
        results = root.parent / "results"
        words = [program, str(MODULES / "node_modules" / name / "dist" / "index.js"), "server", "--url", url]
        words += ["--suite", "all", "-o", str(results), *(["--spec-version", era] if era else [])]
        _run(words)
        checks = [
            check for file in sorted(results.glob("*/checks.json")) for check in json.loads(file.read_text("utf-8"))
        ]
    if not checks:
        return [f"{name} {era}: the suite ran nothing"]
    passed = sum(check["status"] == "SUCCESS" for check in checks)
    failed = [check for check in checks if check["status"] == "FAILURE"]
    faults = [fault for check in failed if (fault := _fault(check))]
    advised = [check["id"] for check in checks if check["status"] == "WARNING"]
    print(f"{name} {era}: {passed} checks pass, {len(failed) - len(faults)} do not apply, {len(faults)} fail")
    print(f"   only advised: {', '.join(advised) or 'nothing'}")
    return [f"{name} {era}: {fault}" for fault in faults]


def _fault(check: Mapping[str, Any]) -> str:
    message = str(check.get("errorMessage") or "")
    _, expected = NOT_APPLICABLE.get(check["id"], ("", None))
    return "" if expected is not None and expected in message else f"{check['id']}: {message}"


def inspector(program: str) -> list[str]:
    """List all tools and call each with the inspector; returns the faults."""
    launcher = MODULES / "node_modules" / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build"
    with workspace() as root, serving(root) as url:
        base = [program, str(launcher / "index.js"), "--cli", url, "--transport", "http", "--method"]
        listed = {tool["name"] for tool in json.loads(_run([*base, "tools/list"]))["tools"]}
        faults = [f"the inspector was not told to call {name}" for name in sorted(listed - {c[0] for c in CALLS})]
        values: dict[str, Any] = {}
        for tool, arguments, keep in CALLS:
            pairs = [f"{name}={_filled(value, values)}" for name, value in arguments.items()]
            words = [word for pair in pairs for word in ("--tool-arg", pair)]
            answer = json.loads(_run([*base, "tools/call", "--tool-name", tool, *words]))
            if answer.get("isError"):
                faults.append(f"the inspector's call of {tool}: {answer['content'][0]['text']}")
            elif keep:
                name, _, path = keep.partition("=")
                values[name] = _at(answer["structuredContent"]["data"], path)
    print(f"inspector: {len(listed)} tools listed and called")
    return faults


def _filled(value: Any, values: Mapping[str, Any]) -> str:
    if isinstance(value, str):
        return re.sub(r"\{(\w+)\}", lambda match: str(values[match[1]]), value)
    return json.dumps(value)


def _at(data: Any, path: str) -> Any:
    for part in path.split("."):
        data = data[int(part)] if part.isdecimal() else data[part]
    return data


def story(program: str) -> list[str]:
    """Run the TypeScript client in both eras and over both transports; returns the faults."""
    faults = []
    for era in ("legacy", "2026-07-28"):
        with workspace() as root:
            faults += _story_faults(program, era, root, _serve(root))
        with workspace() as root, serving(root) as url:
            faults += _story_faults(program, era, root, [url])
    return faults


def _story_faults(program: str, era: str, root: Path, target: list[str]) -> list[str]:
    words = [program, str(ROOT / "tools" / "story.mjs"), str(MODULES), era, *target]
    done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_SECONDS, env=_environment(root))
    print(done.stdout.strip() or f"the story broke off: {era}")
    return [f"TypeScript client, {era}: {done.stderr.strip()[-1500:]}"] if done.returncode else []


def _run(words: list[str]) -> str:
    return subprocess.run(words, capture_output=True, text=True, timeout=RUN_SECONDS).stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--needed", action="store_true", help="fail where Node or npm is missing")
    needed = parser.parse_args().needed
    try:
        program = install()
    except Absent as reason:
        print(f"Not run: {reason}.")
        return 1 if needed else 0
    faults = [fault for name, era in RUNS for fault in suite(program, name, era)]
    faults += inspector(program)
    faults += story(program)
    for fault in faults:
        print("FAULT", fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
