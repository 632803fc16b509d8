"""Is what stands behind `password =` a secret, or a type, a placeholder, a piece of code?"""

from __future__ import annotations

import math
import re
from collections import Counter

__all__ = ["ASSIGNED", "Span", "assigned", "bearer", "credentials", "is_placeholder"]

Span = tuple[int, int, str]  # first character, one past the last, kind

# Words in a name by which its value may be a secret, and the kind that it then is.
ASSIGNED: dict[str, str] = {
    "password": "password",
    "passwd": "password",
    "passphrase": "password",
    "passwort": "password",
    "pwd": "password",
    "_pass": "password",
    "secret": "secret",
    "credential": "secret",
    "token": "token",
    "api_key": "api-key",
    "apikey": "api-key",
    "api-key": "api-key",
    "api key": "api-key",
    "access_key": "api-key",
    "accesskey": "api-key",
    "access-key": "api-key",
    "account_key": "api-key",
    "auth_key": "api-key",
    "authkey": "api-key",
    "private_key": "api-key",
    "privatekey": "api-key",
    "encryption_key": "api-key",
    "signing_key": "api-key",
    "master_key": "api-key",
    "license_key": "api-key",
    "service_key": "api-key",
}

# From the end of the word to the value: the rest of the name, closing marks, a type, the sign.
_TO_VALUE = re.compile(
    r"(?:[_-]?(?:key|value|string|text|secret|token|base64|prod|production|dev|test|live|staging|\d{1,3})){0,2}"
    r"[\"'`*_\])]{0,4}[ \t]{0,8}"
    r"(?::[ \t]{0,4}(?:str|string|String|SecretStr|&str|&'static str)[ \t]{0,4}(?==))?"
    r"(?P<sign>:=|=>|==?|:|\|)[*_]{0,2}[ \t]{0,8}"
    r"(?:(?P<quote>[\"'`])(?P<quoted>[^\"'`\n]{1,200})(?P=quote)"
    r"|(?P<bare>[^\s\"'`,;<>|()\[\]{}\\=]{1,200}={0,2})(?P<after>[(\[{]?))"
)
_OPTION = re.compile(r"[ =][\"']?([^\s\"'`,;<>|()\[\]{}\\-][^\s\"'`,;<>|()\[\]{}\\]{3,200})")
_BEARER = re.compile(r"(?:bearer|basic|token)[ \t]{1,4}([A-Za-z0-9_.~+/=-]{16,2000})", re.IGNORECASE)
_CREDENTIALS = re.compile(r"://[^\s:@/\"'`<>]{0,100}:([^\s/\"'`<>]{1,200})@(?=[\w\[])")

_SETTING = re.compile(r"[ \t]*(?:[-*][ \t]+)?[\"'`]?[A-Za-z0-9_.-]*")
_END = re.compile(r"[ \t]*\r?(?:#[^\n]*)?(?:\n|\Z)")
_ALGORITHM = re.compile(
    r"(?:hmac|pbk?df|sha|md|aes|rsa|ed|bcrypt|argon|scrypt|oauth|base|utf|http|saml|tls|ssl|totp|web3?|v)+\d+\w{0,4}",
    re.IGNORECASE,
)

_PLACEHOLDER_PARTS = re.compile(
    r"your|example|placeholder|change[-_]?(?:me|this|it)|redacted|dummy|replace|insert|sample|xxxx|\*\*\*|\.\.\.|…|"
    r"process\.env|environ|getenv|import\.meta|env\.|secrets\.|config\.|settings\.|vault[:.]|keyring|localhost",
    re.IGNORECASE,
)
_VARIABLE = re.compile(r"[$%][{(]?[A-Za-z_][\w.:-]*[)}%]?")
_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
    admin any array basic bearer bool boolean bytes char default disabled double empty enabled encrypted expired
    false field float hash hashed hidden input int integer invalid key keys masked missing nil no none null
    number object optional pass passphrase passwd password plaintext prompt pwd required root secret secrets str
    string tbd test text todo token tokens true undefined unknown unset user username valid value values varchar
    void yes
        """,
    )
)
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_HASH = re.compile(r"(?:sha\d{1,3}|md5)[:=-].{8,}|[0-9a-f]{7,12}", re.IGNORECASE)
_FILE = re.compile(
    r"[\w./~-]{1,200}\.(?:md|txt|json|jsonc?|ya?ml|toml|env|pem|key|crt|p12|py|[cm]?[jt]sx?|go|rs|sh|sql|html|css|log|db)"
)
_URL = re.compile(r"[a-z][a-z0-9+.-]{1,15}://")
_CALL = re.compile(r"[\w$.]{1,200}(?:\(|\?\.|->|::)")
_CONSTANT = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_PART = re.compile(r"[A-Za-z0-9]+")
_DATE_OR_NUMBER = re.compile(r"[\d.,:%TZ+/~x×-]+[a-zA-Z%]{0,3}")


def assigned(text: str, word_start: int, word_end: int, kind: str) -> Span | None:
    """The secret that is assigned to the name in which the word stands."""
    match = _TO_VALUE.match(text, word_end)
    if match is not None:
        value, group = match["quoted"], "quoted"
        if value is None:
            value, group = match["bare"].rstrip(".*_:!?"), "bare"
        start = match.start(group)
        code = bool(match["after"]) if group == "bare" else False
        if code:
            return None
        if _is_secret(value, kind, quoted=group == "quoted", sign=match["sign"]) or (
            kind == "password" and _is_a_line_of_settings(text, word_start, match) and _is_simple_password(value)
        ):
            return start, start + len(value), kind
        return None
    return _option(text, word_start, word_end, kind)


def _is_a_line_of_settings(text: str, word_start: int, match: re.Match[str]) -> bool:
    """Does the line hold a name, a colon and a value of one word, as in YAML? Prose goes on behind it."""
    if match["sign"] != ":" or match["bare"] is None:
        return False
    line = text.rfind("\n", 0, word_start) + 1
    return bool(_SETTING.fullmatch(text, max(line, word_start - 80), word_start) and _END.match(text, match.end()))


def _is_simple_password(value: str) -> bool:
    """A word with a number, such as people choose; not the name of an algorithm or a version."""
    mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return len(value) >= 6 and mixed and value.isalnum() and not _ALGORITHM.fullmatch(value)


def _option(text: str, word_start: int, word_end: int, kind: str) -> Span | None:
    """The value of a command-line option such as `--password VALUE`."""
    if text[max(0, word_start - 30) : word_start].rpartition(" ")[2][:2] != "--":
        return None
    match = _OPTION.match(text, word_end)
    if match is None or not _is_secret(match[1], kind, quoted=False, sign="option"):
        return None
    return match.start(1), match.end(1), kind


def bearer(text: str, start: int) -> Span | None:
    """The token in an `Authorization: Bearer …` header."""
    match = _BEARER.match(text, start)
    if match is None or not _is_random(match[1]) or is_placeholder(match[1]):
        return None
    return match.start(1), match.end(1), "token"


def credentials(text: str, start: int) -> Span | None:
    """The password in `scheme://user:password@host`; `start` is where "://" stands."""
    match = _CREDENTIALS.match(text, start)
    if match is None or is_placeholder(match[1]) or match[1].lower() in _WORDS:
        return None
    return match.start(1), match.end(1), "connection-string"


def is_placeholder(value: str) -> bool:
    """Does the value only stand for one? Variables, masks, "your-key", the same sign over and over."""
    if not value or value[0] in "[<{(" or len(set(value)) < 3 or _VARIABLE.fullmatch(value):
        return True
    return bool(_PLACEHOLDER_PARTS.search(value)) or "${" in value or "{{" in value


def _is_secret(value: str, kind: str, *, quoted: bool, sign: str) -> bool:
    if len(value) < 4 or value.lower() in _WORDS or " " in value.strip() or is_placeholder(value):
        return False
    if _FILE.fullmatch(value) or _URL.match(value) or _CALL.match(value):
        return False
    if ("." in value or "/" in value) and _is_words(value):  # a path, or attributes of an object
        return False
    if not quoted and _CONSTANT.fullmatch(value):
        return False
    if kind == "password":
        return _is_password(value, quoted=quoted, sign=sign)
    return _is_key(value, kind)


def _is_password(value: str, *, quoted: bool, sign: str) -> bool:
    has_digit = any(map(str.isdigit, value))
    has_letter = any(map(str.isalpha, value))
    has_sign = any(not letter.isalnum() and letter not in "-_./:" for letter in value)
    if sign == "|":
        return len(value) >= 8 and has_digit and has_letter and not _is_words(value)
    if quoted and sign != ":":
        return not _mentions_itself(value)
    if quoted:
        return (has_digit or has_sign or len(value) >= 6) and not _mentions_itself(value)
    if sign in ("=", "option"):
        return len(value) >= 6 and (has_digit or has_sign or value.islower()) and not _mentions_itself(value)
    return len(value) >= 6 and has_letter and (has_digit or has_sign) and not _is_words(value)


def _mentions_itself(value: str) -> bool:
    """Names of fields and variables, not values: `newPassword`, `password_hash`."""
    low = value.lower()
    bare = not any(map(str.isdigit, value)) and value.replace("_", "").replace("-", "").isalpha()
    return bare and any(word in low for word in ("passw", "pwd", "secret", "token", "field", "input", "key"))


def _is_key(value: str, kind: str) -> bool:
    """A key or token looks random; hashes and UUIDs are only secrets where the name says so plainly."""
    if len(value) < 8 or _DATE_OR_NUMBER.fullmatch(value) or _HASH.fullmatch(value):
        return False
    if _UUID.fullmatch(value):
        return kind == "api-key"
    return _is_random(value)


def _is_random(value: str) -> bool:
    parts = _PART.findall(value)
    longest = max(parts, key=len, default="")
    digits = sum(map(str.isdigit, longest))
    if len(value) >= 20 and len(longest) >= 20 and not digits:
        capitals = sum(map(str.isupper, longest))
        return 0.25 <= capitals / len(longest) <= 0.75 and _entropy(value) >= 3.5
    if _is_words(value):
        return False
    return _entropy(value) >= (3.0 if len(value) >= 16 else 2.7)


def _is_words(value: str) -> bool:
    """Only words and numbers, joined by signs or capitals: `text-embedding-3-small`, `adr-12`, `Sprint2Report`."""
    for part in _PART.findall(value):
        pieces = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", part)
        if len(pieces) > 1 + len(part) // 5:
            return False
        if part.isalpha() and not part.islower() and not part.isupper() and len(pieces) > 4 + len(part) // 6:
            return False
    return True


def _entropy(value: str) -> float:
    """Bits per character."""
    return -sum(n / len(value) * math.log2(n / len(value)) for n in Counter(value).values())
