"""Does the time of every reader grow with the length of its input, and not with the square of it?

Four times the input may take about four times as long; the square would be sixteen. Processor time of the best
of a few runs is compared, so that a busy machine decides nothing.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator

import pytest

from spec_kit_memory.core import (
    front_edit,
    jsonc,
    markdown,
    noise,
    passages,
    phrases,
    query,
    redact,
    structure,
    triggers,
    words,
)
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.serve.hosts import toml

SHORT, LONG = 15_000, 60_000
MOST_GROWTH = 10.0
# What is this quick at 60 KB needs no comparison.
ENOUGH_SECONDS = 0.05

PIECES = (
    *(
        "<!--",
        "-->",
        "<!-- ANCHOR:a -->",
        "<!-- ANCHOR:a",
        "<!-- /ANCHOR:a -->\n",
        "```",
        "```\n",
        "~~~\n",
        "`",
        "# \n",
    ),
    *("---\n", "- a\n", "a: b\n", "a: [", "{", "[", "(", '"', "'", "\\", "*", "_", "~", "|", "> ", "  ", "\t", "\n"),
    *(
        "\r",
        "a",
        "aA",
        "a.",
        "a-",
        "1-",
        "0",
        "=",
        "/",
        "//",
        "/*",
        "http://",
        "://a:",
        "@",
        "a@",
        "password=",
        "key: x\n",
    ),
    *(
        "api_key='",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN",
        "eyJ",
        "eyJa.",
        "AKIA",
        "ghp_",
        "sk-",
        "Bearer ",
        "xox",
    ),
    *(
        "中",
        "e\u0301",
        "\u0301",
        "\u202e",
        "👩\u200d",
        "ß",
        "&a ",
        "*a ",
        "? ",
        "<<: ",
        "<system-reminder>",
        "<",
        ">",
        "a\n\n",
    ),
    *("## a {#b}\n", "{#", "$", "%", "^", "\x0b", "2026-01-01", "[REDACTED:", "```yaml\n", "\x85", "\u2028"),
    *("# spec-kit-memory begin\n", "spec-kit-memory begin\n", "[a]\n", "[[a]]\n", "a.b = 1\n", "'''", '"""', "x = {"),
)


def refused(read: Callable[[str], object]) -> Callable[[str], None]:
    def work(text: str) -> None:
        try:
            read(text)
        except (SpecKitMemoryError, ValueError, RecursionError):
            return

    return work


SERVER = "[mcp_servers.skm]\ncommand = 1\n"


def commented(text: str) -> str:
    """As lines that TOML allows, so that the editor behind its reader is reached."""
    return "".join(f"# {line}\n" for line in text.replace("\r", "").split("\n"))


READERS: dict[str, Callable[[str], object]] = {
    "document": lambda text: passages.split(markdown.parse(text)),
    "front matter": lambda text: markdown.parse(f"---\ntitle: {text}\n---\n"),
    "front matter list": lambda text: markdown.parse(f"---\ntriggers:\n  - {text}\n---\n"),
    "fingerprint": lambda text: markdown.fingerprint(markdown.parse(text)),
    "front edit": refused(lambda text: front_edit.edit_front_matter(f"---\n{text}\n---\n", {"title": "x"})),
    "redaction": redact.redact,
    "query": query.read,
    "index words": words.for_index,
    "phrases": phrases.extract,
    "prompt": lambda text: triggers.Matcher([(1, "save context"), (2, text[:40])]).match(text),
    "slug": structure.slug,
    "noise": noise.cleaned,
    "jsonc": refused(jsonc.read),
    "host jsonc": refused(lambda text: jsonc.put(text, ["a"], 1)),
    "host toml": refused(lambda text: toml.put(text, ["mcp_servers", "skm"], {"command": "skm"})),
    "host toml with a table": refused(
        lambda text: toml.put(SERVER + commented(text), ["mcp_servers", "skm"], {"a": 1})
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_time_grows_with_the_length(name: str) -> None:
    slow = [said for piece in PIECES if (said := growth(READERS[name], piece))]
    assert slow == []


def growth(read: Callable[[str], object], piece: str) -> str:
    long = best(read, piece, LONG, tries=1)
    if long < ENOUGH_SECONDS:
        return ""
    for tries in (1, 3):  # looked at again before it is believed
        short, long = best(read, piece, SHORT, tries=tries), best(read, piece, LONG, tries=tries)
        if long / max(short, 0.001) < MOST_GROWTH:
            return ""
    return f"{piece!r}: {short:.3f} s for {SHORT:,} characters, {long:.3f} s for {LONG:,}"


@pytest.fixture(scope="module", autouse=True)
def nothing_of_other_tests() -> Iterator[None]:
    """What they left in memory is set aside once: collecting it before every measurement took minutes."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def best(read: Callable[[str], object], piece: str, length: int, *, tries: int) -> float:
    text = (piece * (length // len(piece) + 1))[:length]
    times = []
    gc.disable()  # a collection costs what all other tests have left in memory, not what the reader does
    try:
        for _ in range(tries):
            started = time.process_time()
            read(text)
            times.append(time.process_time() - started)
    finally:
        gc.enable()
    return min(times)
