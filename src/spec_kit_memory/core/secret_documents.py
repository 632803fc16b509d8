"""Which lines are secrets because of the format of their document? Private keys, Kubernetes Secrets, tables.

Each reader starts at a sign of the format and reads to the end of the document in that format. If a document has
several such signs, a reader stops at the next one, so that no line is read more than a few times.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from spec_kit_memory.core import secret_values as values
from spec_kit_memory.core.patterns import Pattern
from spec_kit_memory.core.secret_values import Span

_PRIVATE_KEY_CHARACTERS = 40_000
_GAP = r"(?: |%20|\+|_)"
_HEADER = rf"-----BEGIN{_GAP}(?:[A-Z0-9]{{1,12}}{_GAP}){{0,3}}PRIVATE{_GAP}KEY(?:{_GAP}BLOCK)?-----"
_FOOTER = rf"-----END{_GAP}(?:[A-Z0-9]{{1,12}}{_GAP}){{0,3}}PRIVATE{_GAP}KEY(?:{_GAP}BLOCK)?-----"
_LINES = r"(?:(?:\\{1,2}n|\r?\n[ \t>]{0,40})[A-Za-z0-9+/=]{16,120}+(?=[\s\\\"']|$)){1,500}"
# With a footer, the body may contain anything but another header; without one, only lines of base64.
_PRIVATE_KEY = Pattern(rf"{_HEADER}(?:(?P<body>(?:[^-]++|-(?!----))*+){_FOOTER}(?:\\{{1,2}}n)?|{_LINES})")
_SSH2_KEY = Pattern(
    r"---- BEGIN SSH2 (?:ENCRYPTED )?PRIVATE KEY ----(?P<body>(?:[^-]++|-(?!---))*+)"
    r"---- END SSH2 (?:ENCRYPTED )?PRIVATE KEY ----"
)
_STATIC_KEY = Pattern(
    r"-----BEGIN OpenVPN Static key V1-----(?P<body>(?:[^-]++|-(?!----))*+)-----END OpenVPN Static key V1-----"
)
# Header and footer may be mentioned without a key: there must be a run of base64 between them.
_KEY_MATERIAL = Pattern(r"[A-Za-z0-9+/]{24}")
_ENCODED_SETTINGS = Pattern(r"[A-Za-z0-9+/]{40,}+={0,2}")
_ENCODED_KEY = Pattern(
    r"[A-Za-z0-9+/]{40,20000}+(?:\r?\n[ \t>]{0,40}[A-Za-z0-9+/]{16,128}+(?=[=\s\"']|$)){0,400}={0,2}"
)
_PUTTY_LINES = Pattern(r"Private-Lines:[ \t]*(\d{1,3})[ \t]*\r?\n")
_PUTTY_LINE = Pattern(r"[ \t>]*([A-Za-z0-9+/=]{4,100})[ \t]*(?:\r?\n|\Z)")
_PUTTY_MAC = Pattern(r"Private-(?:MAC|Hash):[ \t]*([0-9a-f]{40,64})")
_VAULT = Pattern(r"\$ANSIBLE_VAULT;[^\n]{1,80}(?:[ \t]{0,2}\r?\n[ \t>]{0,40}[0-9a-f]{40,100}(?=\s|$)){1,2000}")
_JWK_PRIVATE = Pattern(r"\"(?:d|p|q|dp|dq|qi)\"[ \t]{0,4}:\s{0,4}\"([A-Za-z0-9_-]{16,1500})\"")
_JWK_SYMMETRIC = Pattern(r"\"k\"[ \t]{0,4}:\s{0,4}\"([A-Za-z0-9_-]{10,1500})\"")
_JWK_CHARACTERS = 3_000

_YAML_LINE = Pattern(
    r"[ \t>]*+(?P<dash>-[ \t]++)?(?P<key>[\"']?[\w.$/-]{1,200}[\"']?)[ \t]*+:(?:[ \t]++(?P<value>[^\n]*))?\r?$"
)
_SECRET_BLOCKS = ("data", "stringData")
_YAML_LINES = 400
_JSON_CHARACTERS = 20_000
_JSON_OWNERS = 3
_JSON_TOKEN = Pattern(r"[{}]|\\{0,3}\"kind\\{0,3}\"")
_JSON_DATA = Pattern(r"\\{0,3}\"(?:data|stringData)\\{0,3}\"\s{0,10}:\s{0,10}\{([^{}]{1,15000})\}")
_JSON_VALUE = Pattern(r":\s{0,10}\\{0,3}\"([^\"\\\n]{1,4000})\\{0,3}\"")

_DELIMITER = Pattern(r"[ \t>]*+\|?[ \t]*+:?--[-:| \t]*+")
_HEADER_CHARACTERS = 600
_TABLE_ROWS = 200
_CSV_HEADER = Pattern(r"[ \t>]*[\"']?[\w .-]{1,40}[\"']?(?:[,;\t][ \t]?[\"']?[\w .-]{1,40}[\"']?){1,30}[ \t\r]*")
_CLOUD_LINES = 50
_CLOUD_LIST = Pattern(r"(?:[ \t]{0,8}\r?\n[ \t>]{0,40}(?:expire|list):[^\n]{0,20}){1,2}\r?\n")
_CLOUD_LINE = Pattern(r"[ \t>]{1,40}(?:- )?[a-z_][\w.-]{0,40}:(\S{4,200})[ \t]*(?:\r?\n|\Z)")
_PGPASS = Pattern(r"^[\w.*-]{1,100}:(?:\d{2,5}|\*):[\w*.-]{1,80}:[\w*.-]{1,80}:([^\s:]{3,200})[ \t\r]*$", re.MULTILINE)


def private_key(text: str, start: int) -> Iterator[Span]:
    for pattern in (_PRIVATE_KEY, _SSH2_KEY, _STATIC_KEY):
        match = pattern.match(text, start, start + _PRIVATE_KEY_CHARACTERS)
        if match is not None and (match["body"] is None or _KEY_MATERIAL.search(match["body"])):
            yield match.start(), match.end(), "private-key"


def encoded_key(text: str, start: int) -> Iterator[Span]:
    """A private key that is base64-encoded as a whole, as in a kubeconfig."""
    match = _ENCODED_KEY.match(text, start)
    if match is None or (start > 0 and text[start - 1].isalnum()):
        return
    try:
        head = base64.b64decode(text[start : start + 60])
    except (binascii.Error, ValueError):
        return
    if b"PRIVATE KEY" in head:
        yield match.start(), match.end(), "private-key"


def encoded_settings(text: str, start: int) -> Iterator[Span]:
    """A file of Kubernetes (a kubeconfig, a Secret) that is base64-encoded as a whole."""
    match = None if start > 0 and text[start - 1].isalnum() else _ENCODED_SETTINGS.match(text, start)
    if match is None:
        return
    try:
        settings = base64.b64decode(match[0][: len(match[0]) // 4 * 4])
    except (binascii.Error, ValueError):
        return
    if any(name in settings for name in (b"kind: Secret", b"token: ", b"key-data: ", b"password: ")):
        yield match.start(), match.end(), "secret"


def putty_key(text: str, start: int) -> Iterator[Span]:
    """The private lines of a PuTTY key and their MAC; the public lines are not secret."""
    code = _PUTTY_MAC.match(text, start)
    if code is not None:
        yield code.start(1), code.end(1), "private-key"
        return
    head = _PUTTY_LINES.match(text, start)
    if head is None:
        return
    at = head.end()
    for _ in range(min(int(head[1]), 200)):
        line = _PUTTY_LINE.match(text, at)
        if line is None:
            return
        yield line.start(1), line.end(1), "private-key"
        at = line.end()


def vault(text: str, start: int) -> Iterator[Span]:
    match = _VAULT.match(text, start)
    if match is not None:
        yield match.start(), match.end(), "ansible-vault"


def json_web_key(text: str, start: int) -> Iterator[Span]:
    """The private parts of a JSON web key; `start` is the position of "kty"."""
    first = max(
        text.rfind("{", max(0, start - _JWK_CHARACTERS), start),
        text.rfind('"kty"', max(0, start - _JWK_CHARACTERS), start),
    )
    last = text.find("}", start, start + _JWK_CHARACTERS)
    if first < 0 or last < 0:
        return
    symmetric = '"oct"' in text[start : start + 20]
    for match in (_JWK_SYMMETRIC if symmetric else _JWK_PRIVATE).finditer(text, first, last):
        yield match.start(1), match.end(1), "private-key"


# --- Kubernetes -----------------------------------------------------------------------------------------------


def yaml_secret(text: str, start: int, end: int) -> Iterator[Span]:
    """Every value below `data` and `stringData` of the object that contains `kind: Secret`."""
    if text[end : end + 1] not in ("", "\n", "\r", " ", "\t"):
        return
    line = text.rfind("\n", max(0, start - 200), start) + 1
    own = _YAML_LINE.match(text, line, min(_line_end(text, line, most=400), line + 400))
    if own is None or own["key"] != "kind" or own.start("key") != start:
        return
    column = own.start("key") - line
    first = line if own["dash"] else _object_start(text, line, column)
    block, at = False, first
    for _ in range(_YAML_LINES * 2):
        if at > len(text):
            return
        stop = _line_end(text, at)
        match = _YAML_LINE.match(text, at, stop)
        place = _column(text, at, stop)
        if place is not None and (
            place < column - (2 if at == first else 0)
            or _is_border(text, at, stop)
            or (at > line and _starts_item(match, at, column))
        ):
            return
        if match is not None and match.start("key") - at == column:
            if at > line and match["key"] == "kind":
                return
            block = match["key"].strip("\"'") in _SECRET_BLOCKS and not (match["value"] or "").strip()
        elif block and place is not None and place > column:
            yield from _yaml_value(text, at, stop, match)
        at = stop + 1


def _object_start(text: str, line: int, column: int) -> int:
    """The first line of the mapping that has its keys in this column."""
    first = line
    for _ in range(_YAML_LINES):
        if first == 0:
            return first
        above = text.rfind("\n", 0, first - 1) + 1
        stop = first - 1
        place = _column(text, above, stop)
        match = _YAML_LINE.match(text, above, stop)
        if place is not None:
            if match is not None and match.start("key") - above == column:
                if match["key"] == "kind":
                    return first
                if match["dash"]:
                    return above
            elif place < column or _is_border(text, above, stop):
                return first
        first = above
    return first


def _line_end(text: str, line: int, *, most: int = 200_000) -> int:
    """The end of the line, or `most` characters from its start, so that a very long line is not searched repeatedly."""
    stop = text.find("\n", line, line + most)
    return min(len(text), line + most) if stop < 0 else stop


def _column(text: str, line: int, stop: int) -> int | None:
    """The column at which the line's text begins; None for a blank line."""
    own = text[line : min(stop, line + 200)]
    return len(own) - len(own.lstrip(" \t>")) if own.strip(" \t\r>") else None


def _is_border(text: str, line: int, stop: int) -> bool:
    return text[line : min(stop, line + 200)].lstrip(" \t>").startswith(("---", "...", "```", "~~~"))


def _starts_item(match: re.Match[str] | None, line: int, column: int) -> bool:
    return match is not None and bool(match["dash"]) and match.start("key") - line == column


def _yaml_value(text: str, line: int, stop: int, match: re.Match[str] | None) -> Iterator[Span]:
    """The value on a line of data, or the whole line if it continues the value of an earlier line."""
    if match is None or match["value"] is None:
        first = line + (_column(text, line, stop) or 0)
        if match is None and not text.startswith("#", first):
            yield first, stop - (text[stop - 1 : stop] == "\r"), "kubernetes-secret"
        return
    first, value = match.start("value"), match["value"].rstrip()
    if len(value) > 1 and value[0] in "\"'" and value[-1] == value[0]:
        first, value = first + 1, value[1:-1]
    if value and value[0] not in "|>{[&*#<$" and "{{" not in value and "${" not in value:
        yield first, first + len(value), "kubernetes-secret"


def json_secret(text: str, start: int, end: int) -> Iterator[Span]:
    """Like `yaml_secret`, for a Secret in JSON."""
    first, last = _json_object(text, start, end)
    for block in _JSON_DATA.finditer(text, first, last):
        for value in _JSON_VALUE.finditer(text, *block.span(1)):
            if value[1][0] not in "<$" and "{{" not in value[1] and "${" not in value[1]:
                yield value.start(1), value.end(1), "kubernetes-secret"


def _json_object(text: str, start: int, end: int) -> tuple[int, int]:
    """The start and end of the object around a "kind"; it also ends at another object's "kind"."""
    first, last = max(0, start - _JSON_CHARACTERS), min(len(text), end + _JSON_CHARACTERS)
    first = max(first, text.rfind('"kind', first, start))
    depth = 0
    for token in reversed(list(_JSON_TOKEN.finditer(text, first, start))):
        depth += {"}": 1, "{": -1}.get(token[0], 0)
        if depth < 0:
            first = token.start()
            break
    depth = kinds = 0
    for token in _JSON_TOKEN.finditer(text, end, last):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        kinds += token[0] not in "{}"
        # The kinds of its owner references may occur inside it, but only a few of them.
        if depth < 0 or kinds > _JSON_OWNERS or (depth == 0 and token[0] not in "{}"):
            last = token.start()
            break
    return first, last


# --- tables ---------------------------------------------------------------------------------------------------


def table(text: str, start: int, end: int) -> Iterator[Span]:
    """The cells of a column with the header "password", in Markdown tables and CSV."""
    line = text.rfind("\n", max(0, start - _HEADER_CHARACTERS), start) + 1
    stop = _line_end(text, line, most=_HEADER_CHARACTERS)
    if text[stop : stop + 1] not in ("", "\n") or (line == 0 and start > _HEADER_CHARACTERS):
        return
    header = text[line:stop].rstrip("\r")
    below = text[stop + 1 : _line_end(text, stop + 1, most=2 * _HEADER_CHARACTERS)].rstrip("\r")
    if "|" in header and _DELIMITER.fullmatch(below):
        column = header.count("|", 0, start - line) - (1 if header.lstrip(" \t>").startswith("|") else 0)
        yield from _table_cells(text, _line_end(text, stop + 1) + 1, column)
    elif _CSV_HEADER.fullmatch(header) and below.strip():
        sign = next((candidate for candidate in "\t;," if candidate in header), ",")
        yield from _csv_cells(text, stop + 1, header.count(sign, 0, start - line), sign, header.count(sign))


def _table_cells(text: str, at: int, column: int) -> Iterator[Span]:
    for _ in range(_TABLE_ROWS):
        stop = _line_end(text, at)
        row = text[at : min(stop, at + 2 * _HEADER_CHARACTERS)].rstrip("\r")
        if at >= len(text) or "|" not in row or _DELIMITER.fullmatch(row):
            return
        cells = row.split("|")[1 if row.lstrip(" \t>").startswith("|") else 0 :]
        if column < len(cells):
            first = at + len(row) - len("|".join(cells[column:]))
            value = cells[column].strip(" \t`*_")
            if values.is_clear_password(value):
                first += cells[column].find(value)
                yield first, first + len(value), "password"
        at = stop + 1


def _csv_cells(text: str, at: int, column: int, sign: str, signs: int) -> Iterator[Span]:
    for _ in range(_TABLE_ROWS):
        stop = _line_end(text, at)
        row = text[at : min(stop, at + 2 * _HEADER_CHARACTERS)].rstrip("\r")
        if at >= len(text) or row.count(sign) != signs or "passw" in row.lower():
            return  # the end of the table, or another header
        cells = row.split(sign)
        first = at + sum(len(cell) + 1 for cell in cells[:column])
        value = cells[column].strip()
        first += len(cells[column]) - len(cells[column].lstrip())
        if len(value) > 2 and value[0] in "\"'" and value[-1] == value[0]:
            value, first = value[1:-1], first + 1
        if values.is_clear_password(value):
            yield first, first + len(value), "password"
        at = stop + 1


def cloud_passwords(text: str, start: int, end: int) -> Iterator[Span]:
    """The passwords in lines `user:password` below `chpasswd:`, as in cloud-init files."""
    head = _CLOUD_LIST.match(text, end)
    at = head.end() if head else len(text)
    for _ in range(_CLOUD_LINES):
        line = _CLOUD_LINE.match(text, at)
        if line is None:
            return
        if values.is_literal_password(line[1]) and line[1] not in ("R", "RANDOM"):
            yield line.start(1), line.end(1), "password"
        at = line.end()


def pgpass(text: str, start: int) -> Iterator[Span]:
    """The password in a line `host:port:database:user:password`."""
    line = text.rfind("\n", max(0, start - 120), start) + 1
    match = _PGPASS.match(text, line)
    if match is not None and values.is_literal_password(match[1]):
        yield match.start(1), match.end(1), "password"
