"""Does the time of every reader grow with the length of its input, and not with the square of it?

Four times the input may take about four times as long; the square would be sixteen. Processor time of the best
of a few runs is compared, so that a busy machine decides nothing.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from spec_kit_memory.advice import advise
from spec_kit_memory.core import (
    alignment,
    dates,
    folders,
    front_edit,
    jsonc,
    links,
    markdown,
    noise,
    passages,
    phrases,
    query,
    redact,
    saved_document,
    session_data,
    session_document,
    similar,
    structure,
    triggers,
    words,
)
from spec_kit_memory.core.ignore import Ignore
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.files import chat_transcripts
from spec_kit_memory.serve.cli import terminal
from spec_kit_memory.serve.hosts import toml
from spec_kit_memory.serve.messages import for_person

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
        "the password is aB3dE5fG7h and so on. ",
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


# One beginning, one thing over and over, and an end that makes it worthless: what a piece alone does not reach.
RUNS: tuple[tuple[str, str, str], ...] = (
    ("# x\n<!--", " ", "x ANCHOR:a -->\n"),
    ("<!-- ANCHOR:a", " ", "\n"),
    ("<!-- ANCHOR:", "a", "! -->\n"),
    ("use `Aa", "_", "!` here"),
    ("use `a", ".a", "!` here"),
    ("Executed Read", " ", "x"),
    ("Called Bash", "\t", "("),
    ("Tool use: ", "a", " x"),
    ("-----BEGIN PRIVATE KEY-----\n", " ", "\n-----END PRIVATE KEY-----"),
    ("password = '", "a", ""),
    ("password:", " ", "x"),
    ("alter role a with password", " ", "x"),
    ("identified by", "\t", "values"),
    ("| a | password |\n|", " ", "x|\n| b | c |\n"),
    ("mysql -p", " ", "x"),
    ("curl -u ", "a", ""),
    ("echo ", "a ", "| sudo -S"),
    ("auth=(", "a,", ")"),
    ("the password is ", "a", "!"),
    ("kind: Secret\n", "a: b\n", ""),
    ('{"kind": "Secret", "data": {', '"a":"b",', ""),
    ("PuTTY-User-Key-File-2: ", "a\n", ""),
    ("said", ".", "x"),
    ("https://a:", "b", "/"),
    ("eyJ", "a", "."),
    ("Bearer ", "a", "!"),
    ("```", "`", "x"),
    ("#", " ", "#x"),
    ("- ", " ", "\n- x"),
    ("1", "1", ". x"),
    ("> ", "> ", "x"),
    ("[", "a", "](b"),
    ("![", "[", "]"),
    ("---\ntitle: |\n", " ", "x\n---\n"),
    ("---\ntitle: ", "'", "\n---\n"),
    ("---\ntriggers: [", "a,", "\n---\n"),
    ("---\n", "a: &a [*a]\n", "---\n"),
    ("---\n? ", "? ", "\n---\n"),
    ("---\n", " ", "- a\n---\n"),
    ("---\na: {", "{", "}\n---\n"),
    ('{"a": "', '\\"', ""),
    ("{", "/*", "}"),
    ("{'a': [", "[],", "]"),
    ("x = '''", "'", ""),
    ("x = ", "{a=", "1"),
    ("a", ".a", " = 1"),
    ("[", "[", "a]]"),
    ("\u202e", "\u0301", "a"),
    ("{#", "a", "}"),
    ("## a {#", "-", "\n"),
    ("<system-reminder>", "<", "</system-reminder"),
    ("2026-01-01", "-01", "T"),
    ("a/", "../", "b.md"),
    ("NEAR/", "9", "(a b)"),
)


def refused(read: Callable[[str], object]) -> Callable[[str], None]:
    def work(text: str) -> None:
        try:
            read(text)
        except (SpecKitMemoryError, ValueError, RecursionError):
            return

    return work


def rendered(data: dict[str, object], template: str | None = None) -> object:
    session = session_document.without_noise(session_data.read(data))
    now = datetime(2026, 3, 1, tzinfo=UTC)
    return session_document.render(session, now_local=now, spec_folder=None, template=template)


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
    "template": lambda text: rendered({"sessionSummary": "Said."}, template=text),
    "saved document": lambda text: (saved_document.with_updated_counts(text), saved_document.own_words(text)),
    "session": refused(lambda text: rendered({"sessionSummary": text, "keyDecisions": [text], "nextSteps": [text]})),
    "session keys": refused(lambda text: rendered({text: text, "links": {text: text}, "title": text})),
    "session messages": refused(lambda text: rendered({"userPrompts": [text], "observations": [{"title": text}]})),
    "near duplicates": similar.signature,
    "alignment": lambda text: alignment.talk(text, files=[text[:500]]),
    "dates": dates.read,
    "folder": folders.clean_folder,
    "folder name": refused(lambda text: alignment.resolve_name(text, ["001-a", "002-b"], create=True)),
    "link target": links.mermaid_text,
    "exclude": lambda text: Ignore([text[:1_000]])("a/b/c.md"),
    "excluded name": lambda text: Ignore(["*a*b", "**/x/**/y*", "[!a]*"])(text[:4_000]),
    "terminal": terminal.harmless,
    "value in advice": lambda text: for_person(advise("read-on", path=text, lines="1-2")),
    "noise": noise.cleaned,
    "jsonc": refused(jsonc.read),
    "host jsonc": refused(lambda text: jsonc.put(text, ["a"], 1)),
    "host toml": refused(lambda text: toml.put(text, ["mcp_servers", "skm"], {"command": "skm"})),
    "host toml with a table": refused(
        lambda text: toml.put(SERVER + commented(text), ["mcp_servers", "skm"], {"a": 1})
    ),
}


def nested(characters: int) -> str:
    """Anchors in each other, a heading and a sentence in each."""
    names = range(characters // 70)
    opened = "".join(f"<!-- ANCHOR:a{name} -->\n## H{name}\n\nSaid {name}.\n\n" for name in names)
    return opened + "".join(f"<!-- /ANCHOR:a{name} -->\n" for name in reversed(names))


NESTED = ("document", "fingerprint", "saved document", "near duplicates")


@pytest.mark.parametrize("name", NESTED)
def test_time_grows_with_the_length_of_what_is_nested(name: str) -> None:
    read = READERS[name]
    if (seconds := best(read, nested(4 * LONG), tries=2)) > ENOUGH_SECONDS:
        assert seconds < MOST_GROWTH * max(best(read, nested(LONG), tries=3), ENOUGH_SECONDS / 4)


# Things that all differ: what is kept once each is easily compared with all that were kept before.
DIFFERENT: tuple[tuple[str, str, str], ...] = (
    ("", "- item {}\n", ""),
    ("", "## H{}\n\nSaid {}.\n\n", ""),
    ("", "<!-- ANCHOR:a{} -->\nSaid {}.\n<!-- /ANCHOR:a{} -->\n", ""),
    ("", "see `src/a{}.py` and `f{}()`\n", ""),
    ("", "API_KEY_{}=aB3dE5fG7h{}\n", ""),
    ("", "Name{} ", ""),
    ("---\n", "key{}: v\n", "---\n"),
    ("---\ntriggers:\n", "  - phrase {}\n", "---\n"),
    ("---\nquestions:\n", "  - what is {}?\n", "---\n"),
    ("---\ncausal_links:\n  supports:\n", "    - t{}\n", "---\n"),
    ("---\ncausal_links:\n", "  relation{}: [a]\n", "---\n"),
)
READERS_OF_ALL = ("document", "front edit", "saved document", "near duplicates", "redaction", "phrases")


@pytest.mark.parametrize("name", READERS_OF_ALL)
def test_time_grows_with_the_number_of_different_things(name: str) -> None:
    slow = []
    for start, piece, end in DIFFERENT:
        short, long = (
            start + "".join(piece.replace("{}", str(1_000 + number)) for number in range(count // len(piece))) + end
            for count in (SHORT // 2, 2 * SHORT)
        )
        if (seconds := best(READERS[name], long, tries=1)) < ENOUGH_SECONDS:
            continue
        if (seconds := best(READERS[name], long, tries=3)) > MOST_GROWTH * best(READERS[name], short, tries=3):
            slow.append(f"{start!r} {piece!r}: {seconds:.3f} s")
    assert slow == []


def test_time_grows_with_the_lines_of_a_transcript_that_titles_many_sessions(tmp_path: Path) -> None:
    def took(sessions: int, tries: int) -> float:
        path = tmp_path / "transcript.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for number in range(sessions):
                said = {"type": "user", "uuid": f"u{number}", "sessionId": f"s{number}", "message": {"content": "said"}}
                title = {"type": "summary", "summary": f"t{number}", "leafUuid": f"u{number}"}
                file.write(f"{json.dumps(said)}\n{json.dumps(title)}\n")
        return best(lambda _: chat_transcripts.read_conversations(path), "", tries=tries)

    assert took(8_000, 1) < MOST_GROWTH * max(took(2_000, 3), ENOUGH_SECONDS / 4)


@pytest.mark.parametrize("name", READERS)
def test_time_grows_with_the_length(name: str) -> None:
    slow = [said for piece in PIECES if (said := growth(READERS[name], "", piece, ""))]
    slow += [said for run in RUNS if (said := growth(READERS[name], *run))]
    assert slow == []


def growth(read: Callable[[str], object], start: str, piece: str, end: str) -> str:
    def took(length: int, tries: int) -> float:
        return best(read, start + (piece * (length // len(piece) + 1))[:length] + end, tries=tries)

    # Some patterns double their time with every character: those must not be met at their worst first.
    for length in (30, 40, 200):
        if took(length, 1) > ENOUGH_SECONDS and took(length, 3) > ENOUGH_SECONDS:
            return f"{start!r} {piece!r} {end!r}: more than {ENOUGH_SECONDS} s for {length} characters"
    if took(LONG, 1) < ENOUGH_SECONDS:
        return ""
    for tries in (1, 3):  # looked at again before it is believed
        short, long = took(SHORT, tries), took(LONG, tries)
        if long / max(short, 0.001) < MOST_GROWTH:
            return ""
    return f"{start!r} {piece!r} {end!r}: {short:.3f} s for {SHORT:,} characters, {long:.3f} s for {LONG:,}"


@pytest.fixture(scope="module", autouse=True)
def nothing_of_other_tests() -> Iterator[None]:
    """What they left in memory is set aside once: collecting it before every measurement took minutes."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def best(read: Callable[[str], object], text: str, *, tries: int) -> float:
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
