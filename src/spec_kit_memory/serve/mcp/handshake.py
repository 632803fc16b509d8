"""What does a host receive while the server is still being imported? Prepared answers that never change.

Hosts do not wait for a slow server. The answers to `initialize`, `server/discover`, `tools/list` and the lists of
prompts and templates depend only on the protocol version, so they are stored in `first_answers.json` and sent by a
thread that needs only the standard library. Every line is also queued: once the SDK is imported it gets the same lines,
and its answers to requests that were answered here are dropped. `python -m tools.first_answers` generates the file from
the SDK's own answers, and a test compares them.

A `server/discover` that opens a connection never reaches the SDK, which would take it as the choice of the newer
protocol era and refuse an `initialize` that follows. Copilot CLI sends both, and so must hosts of future versions.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
from collections.abc import Sequence

from spec_kit_memory.serve.mcp import request_shapes
from spec_kit_memory.serve.mcp.request_shapes import CAPABILITIES, VERSION

# Lists that are the same in every workspace. Hosts request them at once, and some ignore late answers.
LISTS = ("tools/list", "prompts/list", "resources/templates/list")
# The prepared answer to this contains only what every workspace has; a host that asks again later gets the folders too.
# Claude Code offers no tools before it has a list of resources, and under load it does not wait for a late one.
BEGINNINGS = ("resources/list",)
HEAD_START_SECONDS = 0.02  # imports wait this long for the host's first message, which usually has arrived already
CHUNK_BYTES = 65_536
# How long requests may still take after standard input was closed; a signal ends the server at once.
LAST_ANSWERS_SECONDS = 20.0
# The SDK's error codes for an unsupported protocol version, and for ill-typed params.
UNSUPPORTED, INVALID = -32022, -32602


class FirstAnswers:
    """Finds the prepared answer to each line of a connection. Lines must be passed in order."""

    def __init__(self, *, lean: bool) -> None:
        with open(os.path.join(os.path.dirname(__file__), "first_answers.json"), encoding="utf-8") as file:
            stored = json.load(file)
        self._results: list[str] = stored["results"]
        self._places: dict[str, int] = stored["lean" if lean else "all"]
        self._handshakes: list[str] = stored["handshakes"]
        self._modern: str = stored["modern"]
        self._version: str | None = None  # the connection's protocol version, once a request has chosen it

    @property
    def is_open(self) -> bool:
        """True until a request has chosen the version of the protocol."""
        return self._version is None

    def answer(self, line: bytes) -> tuple[bytes | None, bool]:
        """The prepared answer to this line, if there is one, and whether the SDK must see the line too."""
        message = request_shapes.request_in(line.decode("utf-8", "replace"))  # decoded as for the SDK
        if message is None:
            return None, True
        request, method, params = message["id"], message["method"], message.get("params")
        opening = self.is_open
        if opening and method == "server/discover" and (body := self._discovered(params)):
            return _message(request, body), False
        key = self._key(method, params)
        if key is None:
            if opening:
                # Any request with the newer era's version chooses that; otherwise the SDK decides.
                self._version = self._modern if self._names_modern(params) else "unknown"
            elif method == "initialize":
                self._version = "unknown"  # a second handshake may choose another version
            return None, True
        return _message(request, f'"result":{self._results[self._places[key]]}'), True

    def _discovered(self, params: object) -> str | None:
        """The body of the answer to a discovery: our versions, or the SDK's error for one that it would refuse."""
        meta = params.get("_meta") if isinstance(params, dict) else None
        version = meta.get(VERSION) if isinstance(meta, dict) else None
        if not isinstance(meta, dict) or not isinstance(version, str):
            return None
        error: dict[str, object]
        if CAPABILITIES not in meta:
            missing = f"params._meta is missing the required envelope key(s): {CAPABILITIES}"
            error = {"code": INVALID, "message": missing}
        elif version != self._modern:
            data = {"supported": [self._modern], "requested": version}
            error = {"code": UNSUPPORTED, "message": "Unsupported protocol version", "data": data}
        elif not request_shapes.is_envelope(meta):
            error = {"code": INVALID, "message": "Invalid request parameters", "data": ""}
        else:
            return f'"result":{self._results[self._places["server/discover"]]}'
        return f'"error":{_json(error)}'

    def _key(self, method: object, params: object) -> str | None:
        """The key of the prepared answer to a request of the common form; None leaves it to the SDK."""
        if method == "initialize" and self.is_open:
            return self._initialize(params)
        modern = self._is_modern(params)
        if method == "server/discover" and modern and self._version == self._modern:
            return "server/discover"
        listing = method in LISTS or method in BEGINNINGS
        if listing and modern and self._version in (None, self._modern):
            self._version = self._modern
            return f"{method} {self._modern}"
        if self._version not in self._handshakes or not request_shapes.is_plain(params):
            return None
        if listing:
            return f"{method} {self._version}"
        return "ping" if method == "ping" else None

    def _initialize(self, params: object) -> str | None:
        if not isinstance(params, dict) or not request_shapes.is_hello(params):
            return None
        version = params["protocolVersion"]
        self._version = version if version in self._handshakes else self._handshakes[-1]
        return f"initialize {self._version}"

    def _is_modern(self, params: object) -> bool:
        """Do the params consist of the newer era's envelope and nothing else?"""
        meta = params["_meta"] if isinstance(params, dict) and params.keys() == {"_meta"} else None
        return self._names_modern(params) and request_shapes.is_envelope(meta)

    def _names_modern(self, params: object) -> bool:
        meta = params.get("_meta") if isinstance(params, dict) else None
        return isinstance(meta, dict) and meta.get(VERSION) == self._modern and isinstance(meta.get(CAPABILITIES), dict)


class Front:
    """Owns standard input and output; its thread sends prepared answers until the SDK takes over."""

    def __init__(self, *, lean: bool) -> None:
        self.parent = os.getppid()  # read before the imports: the parent may exit during them
        self._answers = FirstAnswers(lean=lean)
        self._pending: list[bytes] = []  # lines that the SDK has not seen
        self._left: set[str] = set()  # ids, as JSON, of the requests that only the SDK will answer
        # Both map request ids, as JSON, to counts, because a client may reuse an id.
        self._answered: dict[str, int] = {}  # answered here; the SDK's answer will be dropped
        self._open: dict[str, int] = {}  # passed to the SDK and not answered yet
        self._all_answered = threading.Condition()
        self._buffer = b""
        self._ended = False
        self._first = threading.Event()
        self._wake_read, self._wake_write = os.pipe()
        # Only the protocol uses the pipes: `print` goes to standard error, and standard input reads as empty.
        self._in, self._out = os.dup(0), os.dup(1)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        self._thread = threading.Thread(target=self._run, name="first answers", daemon=True)
        self._thread.start()
        self._first.wait(HEAD_START_SECONDS)

    # --- until the SDK takes over

    def _run(self) -> None:
        try:
            while not self._ended:
                ready, _, _ = select.select([self._in, self._wake_read], [], [])
                if self._wake_read in ready:
                    return
                self._read()
                while (line := self._take_line()) is not None:
                    self._handle(line)
        except (OSError, ValueError):
            self._ended = True  # the host closed a pipe; the SDK will find the same

    def _read(self) -> None:
        data = os.read(self._in, CHUNK_BYTES)
        self._buffer += data
        if not data:
            self._ended = True
            self._buffer += b"\n" if self._buffer else b""

    def _take_line(self) -> bytes | None:
        line, separator, rest = self._buffer.partition(b"\n")
        if not separator:
            return None
        self._buffer = rest
        return line + separator

    def _handle(self, line: bytes) -> None:
        answer, needs_server = self._answers.answer(line)
        key = _request_key(line.decode("utf-8", "replace"), answer=False)
        if needs_server and key in self._left:
            answer = None  # an id that is still in use: its two answers from the SDK could not be told apart
        if answer is not None:
            self._send(answer)
            self._first.set()
        if needs_server:
            self._pending.append(line)
            if answer is not None:
                _count(self._answered, key)
            elif key:
                self._left.add(key)

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._out, view) :]

    # --- afterwards: used by the SDK as standard input and output

    def hand_over(self) -> None:
        """Stop the thread; from now on only `readline` and `write` use the pipes."""
        os.write(self._wake_write, b"x")
        self._thread.join()

    def readline(self) -> str:
        """The next line for the SDK; empty at the end of input. Blocks, so the SDK calls it in a thread."""
        while True:
            if self._pending:
                return self._hand_over(self._pending.pop(0))
            line = self._take_line()
            if line is None:
                if self._ended:
                    self._wait_for_answers()
                    return ""
                self._read()
            elif self._answers.is_open:
                self._handle(line)
            else:
                return self._hand_over(line)

    def write(self, text: str) -> None:
        """Send a line from the SDK, unless its request was answered already."""
        key = _request_key(text, answer=True)
        if not _discount(self._answered, key):
            self._send(text.encode("utf-8"))
        with self._all_answered:
            _discount(self._open, key)
            self._all_answered.notify_all()

    def flush(self) -> None:
        """Does nothing: output is not buffered."""

    def _hand_over(self, line: bytes) -> str:
        text = line.decode("utf-8", "replace")
        with self._all_answered:
            if key := _request_key(text, answer=False):
                _count(self._open, key)
            self._open.pop(_cancelled_key(text), None)
        return text

    def _wait_for_answers(self) -> None:
        with self._all_answered:
            self._all_answered.wait_for(lambda: not self._open, timeout=LAST_ANSWERS_SECONDS)


def _message(request: object, body: str) -> bytes:
    """A response line as the SDK writes it."""
    return f'{{"jsonrpc":"2.0","id":{_json(request)},{body}}}\n'.encode()


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _count(requests: dict[str, int], key: str) -> None:
    requests[key] = requests.get(key, 0) + 1


def _discount(requests: dict[str, int], key: str) -> bool:
    """Decrease the count of a key; False if it was zero."""
    left = requests.pop(key, 0) - 1
    if left > 0:
        requests[key] = left
    return left >= 0


def _cancelled_key(line: str) -> str:
    """The id of the request that this line cancels, which may never be answered."""
    if "notifications/cancelled" not in line:
        return ""
    try:
        return json.dumps(json.loads(line)["params"]["requestId"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""


def _request_key(line: str, *, answer: bool) -> str:
    """The id, as JSON, if this line is a request (or, with `answer`, a response); else empty."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(message, dict) or ("method" in message) is answer:
        return ""
    number = message.get("id")
    return json.dumps(number) if isinstance(number, str) or type(number) is int else ""


_running: Front | None = None


def wants_stdio(arguments: Sequence[str]) -> bool:
    """Is this `skm serve` on standard input and output? False for unusual arguments, which are parsed normally."""
    if sys.platform == "win32" or "serve" not in arguments:  # select() does not support pipes on Windows
        return False
    before = list(arguments[: list(arguments).index("serve")])
    if before and not (len(before) == 2 and before[0] == "--workspace"):
        return False
    return not {"--http", "--help", "-h"} & set(arguments)


def start(arguments: Sequence[str]) -> None:
    """Start answering; `serve_stdio` takes over later. Does nothing if standard input or output is closed."""
    global _running
    words = list(arguments)
    lean = os.environ.get("SPEC_KIT_MEMORY_TOOLS") == "lean"
    for place, word in enumerate(words):
        if word == "--tools" and place + 1 < len(words):
            lean = words[place + 1] == "lean"
        elif word.startswith("--tools="):
            lean = word == "--tools=lean"
    # Before the workspace is open there is nothing to close.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    try:
        _running = Front(lean=lean)
    except OSError:
        return


def running() -> Front | None:
    """The front of this process, if it was started."""
    return _running
