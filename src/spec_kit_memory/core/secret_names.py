"""Which values are secrets by their name? `password = "…"`, `API_KEY=…`, `"auth": "…"`, `Authorization: Bearer …`.

The scan finds a word such as "password"; this module reads the rest of the name, the sign and the value after it,
in the notations of settings, data, markup, headers, URLs and code.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from dataclasses import dataclass

from spec_kit_memory.core import secret_values as values
from spec_kit_memory.core.patterns import Pattern
from spec_kit_memory.core.secret_values import Span

_PASSWORD, _SECRET, _TOKEN, _KEY, _ANY_KEY = "password", "secret", "token", "api-key", "key"

_JOINTS = ("_", "-", " ", "")
_KEYS = (
    *(
        "api",
        "app",
        "access",
        "account",
        "admin",
        "auth",
        "client",
        "deploy",
        "encryption",
        "hmac",
        "license",
        "master",
    ),
    *("private", "secret", "service", "session", "shared", "signing", "storage", "subscription"),
)
_KEYS_WITH_A_JOINT = ("anthropic", "bot", "openai", "project", "ssl", "stripe", "tls", "webhook")

_ELSEWHERE = (
    *(
        "wachtwoord",
        "contraseña",
        "contrasena",
        "mot_de_passe",
        "motdepasse",
        "mot de passe",
        "senha",
        "hasło",
        "haslo",
    ),
    *("κωδικός πρόσβασης", "κωδικος προσβασης"),
    *("parola", "şifre", "sifre", "пароль", "密码", "密碼", "パスワード", "비밀번호"),
)

# Words in a name, in lower case, by which its value may be a secret -> the kind of secret.
ASSIGNED: dict[str, str] = {
    **dict.fromkeys(("password", "passwd", "passphrase", "passcode", "passwort", "kennwort", "pwd"), _PASSWORD),
    **dict.fromkeys(_ELSEWHERE, _PASSWORD),
    **dict.fromkeys(("requirepass", "masterauth", "storepass", "keypass", "mnemonic"), _PASSWORD),
    # Short words occur inside many others, so the character that follows is included.
    **{
        f"{word}{after}": _PASSWORD
        for word in ("pass", "pw", "psk")
        for after in ('"', "'", "`", "=", ":", " =", " :", "\\")
        if (word, after[0]) != ("pw", " ")
    },
    "pw ": _PASSWORD,
    **dict.fromkeys(("secret", "credential", "_salt", "otp seed", "otp key", "totp_key"), _SECRET),
    **dict.fromkeys(("token", '"auth"', "_auth=", "_auth =", "auth=", "auth:"), _TOKEN),
    **{f"{word}{joint}key": _KEY for word in _KEYS for joint in _JOINTS},
    **{f"{word}_key": _KEY for word in _KEYS_WITH_A_JOINT},
    **dict.fromkeys(("_key", "-key", 'key"', "key'", "key:", "key="), _ANY_KEY),
}
# Names of keys that are not secret: they are public, or they identify something.
_NO_SECRET_KEY = Pattern(
    r"publi[cs]|pub[_-]?key|anon|site|host|cache|primary|foreign|partition|sort|idempot|index|lookup|row|object|file|path|"
    r"group|route|query|react|item|storage|measure|translat|message|i18n|dedup|etag|map|verif|peer|registry|answer|hot",
    re.IGNORECASE,
)
# `next_token`, `NextPageToken`: where a list goes on
_MARKS_A_PAGE = Pattern(r"(?:next|page|previous|continuation)[_-]?token\Z", re.IGNORECASE)
_BYTES = Pattern(r"\[\s*((?:0x[0-9a-fA-F]{2}|\d{1,3})(?:\s*,\s*(?:0x[0-9a-fA-F]{2}|\d{1,3})){15,63}+)\s*\]")
_PLAINLY = (
    *_ELSEWHERE,
    "passw",
    "passphrase",
    "passcode",
    "passwort",
    "kennwort",
    "requirepass",
    "masterauth",
    "mnemonic",
)

_SHORT = Pattern(r"(?:pass|pw|psk)(?![a-z])", re.IGNORECASE)
_DECLARES = Pattern(
    r"\b(?:char|string|str|var|let|const|val|auto|export|set|my|final|define|and|with)[ \t*]{1,3}\Z", re.IGNORECASE
)
_ENDS_SO = Pattern(r"[a-z](?:Password|Passphrase)\Z|[a-z]-(?:password|passphrase)\Z")  # names in Gradle and in Lisp
_MARK = "[REDACTED:"
_NAME_CHARACTERS = string.ascii_letters + string.digits + "_.$-"
_TAIL_WORD = (
    "key|salt|value|string|text|secret|token|base64|b64|prod|production|dev|test|live|staging|plain|data|base|\\d{1,3}"
)
_KEY_ID = "(?<=private_key)_id|(?<=private-key)-id|(?<=private key) id|(?<=privateKey)Id|(?<=secret)_id"
_TAIL = Pattern(rf"(?:[_-]?(?:{_TAIL_WORD})(?![a-z])){{0,2}}(?:{_KEY_ID})?(?![A-Za-z0-9])", re.IGNORECASE)
_CLOSERS = Pattern(r"(?:\\{0,3}[\"'`]|&quot;|&#3[49];|%2[27]|\]|\)|\*{1,2}|_{1,2}){0,4}[ \t]{0,8}")
_SIGN = Pattern(
    # a type between name and sign; the end of a base64 text is none
    r"(?::[ \t]{0,4}&?(?:'static )?[A-Za-z][\w.\[\]|?]{0,40}(?:<\w{1,20}>)?[ \t]{0,4}"
    r"(?==(?![=>]|[ \t]{0,4}(?:[\r\n]|\Z))))?"
    r"(?P<sign>:=|=>|::(?=[ \t])|={1,3}|!==?|:-|:|：|＝|%3[DA]|\|\||\?\?|\||->|→|⇒)[*_]{0,2}[ \t]{0,8}"
    # the value on the next line, in YAML and JSON
    r"(?:[>|][+-]?[ \t]{0,4}\r?\n[ \t>]{1,40}|\r?\n[ \t>]{1,40}(?=[\"'])|\\\r?\n[ \t]{0,40})?"
    r"(?:!!(?:str|binary)[ \t]{1,4})?"
)
_NEXT_LINE = Pattern(
    r"(?:[:：][*_]{0,2}|(?P<bare>))[ \t]{0,8}\r?\n(?:[ \t>]{0,40}\r?\n)?[ \t>]{0,40}(?:[-*][ \t])?"
    r"`?(?P<value>[^\s`]{6,200})`?[ \t]{0,8}(?:\r?\n|\Z)"
)
_BEGINS_A_LINE = Pattern(r"(?:^|^[ \t>]{0,40}[-*][ \t]{1,4}|[:=][ \t]{1,4})\Z", re.MULTILINE)
_HEADING = Pattern(r"^[ \t>]{0,8}(?:#{1,6}[ \t][^\n]{0,40}|\*\*)\Z", re.MULTILINE)
_PAIRED = Pattern(
    r"(?:,?[\s>]{0,40}(?:- )?[\"']?(?:value|content)[\"']?[ \t]{0,4}[:=][ \t]{0,4}|[ \t]{1,4}--?value[ =])",
    re.IGNORECASE,
)
# `"db_password": {"sensitive": true, "value": "…"}`, `variable "db_password" { default = "…" }`
_IN_A_BLOCK = Pattern(
    r"(?:[:=][ \t]{0,4})?\{(?:[^{}\"]|\"[^\"\n]{0,80}\"){0,300}?"
    r"(?<![\w.-])\"?(?:value|default)\"?\s{0,8}[:=]\s{0,8}(?=\")",
    re.IGNORECASE,
)
# `<name>db.password</name><value>…</value>`, `<Password><Value>…</Value>`
# `<key>ApiKey</key><string>…</string>` in Apple's property lists; `<th>Password</th><td>…</td>`
_TAGGED_BELOW = Pattern(
    r"(?:[\w.-]{0,40}</\w{1,20}>|>)[\s>]{0,40}<(?P<tag>value|string|td|dd)(?:[ \t][^<>\n]{0,100})?>\s{0,20}"
    r"(?:<\w{1,10}>)?([^<>\s][^<>\n]{0,300}?)\s{0,20}</",
    re.IGNORECASE,
)
_TAGGED = Pattern(r"(?:[ \t][^<>\n]{0,100})?>\s{0,20}([^<>\s][^<>\n]{0,300}?)\s{0,20}</")
_DEFAULTED = Pattern(
    r"(?:define|getenv|setenv|putenv|environ\.get|env|get|config|setx|setProperty|put|set|Setenv|LookupEnv|option|opt)"
    r"[ \t]{0,2}\([ \t]{0,4}[\"'][\w.-]{0,60}\Z"
)
_DECLARED = Pattern(
    r"(?:^|[\s;&|])(?:ENV|ARG|setx|#define|set -gx|set -Ux|set -x|export|configure set|config set)"
    r"[ \t]{1,20}[\w./:-]{0,60}\Z",
    re.IGNORECASE,
)
_WRAPPED = Pattern(
    r"(?:new[ \t])?(?:String::from|SecretStr|SecretString|SecureString|Secret|Some|Buffer\.from|bytes|str|string|"
    r"String|std::string|Password|Credential|SetPassword)\([ \t]{0,2}|[bBrRuUfFL@$]{1,2}(?=[\"'])"
)
# `os.getenv("PW") or "…"`, `ENV["PW"] || "…"`
_FALLBACK = Pattern(
    r"[\w.:$]{1,60}(?:\([^()\n]{0,60}\)|\[[^\[\]\n]{0,60}\])?[ \t]{0,3}(?:\|\||\?\?|\bor\b|\?:|//)[ \t]{0,3}(?=[\"'])"
)
_OPENERS: dict[str, Pattern] = {
    '"""': Pattern(r'(?:\r?\n[ \t]{0,40})?((?:[^"\\\n]|\\.|"(?!"")){1,4000}+)(?:\n[ \t]{0,40})?"""'),
    "'''": Pattern(r"(?:\r?\n[ \t]{0,40})?((?:[^'\\\n]|\\.|'(?!'')){1,4000}+)(?:\n[ \t]{0,40})?'''"),
    '\\"': Pattern(r'((?:[^"\\\n]|\\(?![\\"])){1,4000}+)\\{1,3}"'),
    "\\'": Pattern(r"((?:[^'\\\n]|\\(?![\\'])){1,4000}+)\\{1,3}'"),
    "&quot;": Pattern(r"([^&\n\"]{1,300}+)&quot;"),
    "%22": Pattern(r"((?:[^%\s&]|%(?!22)){1,300}+)%22"),
    "%27": Pattern(r"((?:[^%\s&]|%(?!27)){1,300}+)%27"),
    '"': Pattern(r'((?:[^"\\\n]|\\.){1,4000}+)"'),
    # SQL and shells escape a single quote by doubling it.
    "'": Pattern(r"((?:[^'\\\n]|\\.|''(?=[^\s,;)\]}:])){1,4000}+)'"),
    "`": Pattern(r"([^`\n]{1,4000}+)`"),
    "«": Pattern(r"[ \u00a0\u202f]?([^»\n]{1,200}?)[ \u00a0\u202f]?»"),
    "“": Pattern(r"([^”\n]{1,200}+)”"),
    "„": Pattern(r"([^“”\n]{1,200}+)[“”]"),
    "「": Pattern(r"([^」\n]{1,200}+)」"),
}
_OPENING = frozenset(opener[0] for opener in _OPENERS)
_BARE = Pattern(r"([^\s\"'`,;<>|()\[\]{}\\=]{1,4000}+={0,2})([(\[{]?)")
_BARE_LINE = Pattern(r"([^\s\"'`<>]{1,4000}+)")
_URL_LETTER = r"[^\s?&#\"'`<>;,()\[\]{}\\|%]"
_BARE_URL = Pattern(rf"({_URL_LETTER}{{1,2000}}+(?:%[0-9A-Fa-f]{{2}}{_URL_LETTER}{{0,200}}+){{0,40}}+)")
_BARE_ENCODED = Pattern(r"((?:[^\s&#\"'`<>;,%]|%(?!2[0267C]|3B|7[CD]|0A)[0-9A-Fa-f]{2}){1,400})")
_BARE_DEFAULT = Pattern(r"([^\s}\"']{1,200})\}")
_FOLLOWS_A_PART = Pattern(r";[ \t]{0,3}\Z")
_BARE_PART = Pattern(r"([^;\"'\n<>]{1,200})(?:[;\"']|$)", re.MULTILINE)
_BRACED_PART = Pattern(r"\{((?:[^{}\n]|\}\}){1,200}+)\}")  # a value of ODBC that holds its delimiter
_HEX = Pattern(r"[0-9a-f]{7,64}")
_CODE = Pattern(r"[()\[\]{}\"'`]")
_NEXT_PARAMETER = Pattern(r"&[A-Za-z_.-]{1,40}=")
_IDENTIFIER = Pattern(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_]\w*)*")
_OPTION = Pattern(r"[ =][\"']?([^\s\"'`,;<>|()\[\]{}\\-][^\s\"'`,;<>|()\[\]{}\\]{2,4000}+)")
_COMMAND = Pattern(
    r"(?:^|[$#>`|;&(][ \t]?|\\\n)[ \t]*(?:sudo[ \t])?[a-z][\w./-]*[ \t](?:[^\n\"']|\"[^\"\n]*\"|'[^'\n]*')*\Z",
    re.MULTILINE,
)
_BEFORE_OPTION = Pattern(
    r"(?:the|and|or|a|an|with|of|via|use|by|option|options|flag|flags|see)[ \t`\"']{1,3}\Z", re.IGNORECASE
)
_SETTING = Pattern(r"[ \t>]*(?:[-*][ \t]+)?[\"'`*]*[A-Za-z0-9_.-]*")
_LINE_END = Pattern(r"[ \t]*,?\r?(?:[ \t]#[^\n]*)?(?:\n|\Z)")
_LOGIN_WORD = (
    "host|hostname|user|username|user_name|login|db|database|dbname|port|server|url|uri|endpoint|email|account|smtp|imap|"
    "dsn|driver|engine|adapter"
)
_LOGIN = Pattern(
    rf"^[ \t>]*(?:[-*][ \t]+)?[\"']?(?:[\w.-]{{0,40}}[_.-])?(?:{_LOGIN_WORD})[\"']?[ \t]{{0,8}}[:=]",
    re.IGNORECASE | re.MULTILINE,
)
_USER_BEFORE = Pattern(r"\b(?:user|username|login|email|account|benutzer)\b[^\n]{1,80}[\s,;/|(]\Z", re.IGNORECASE)
_AUTHORIZATION = Pattern(
    r"uthorization[\"'`\\]{0,4}[ \t]{0,4}[:=,][ \t]{0,4}(?:[bf]?[\"'`\\]{1,3})?"
    r"(?P<scheme>(?:bearer|basic|token|ssws|apikey|api-key|digest|negotiate|[A-Z][\w-]{0,20})[ \t]{1,4}|key=)?"
    r"(?P<value>[A-Za-z0-9_.~+/=:%-]{8,4000})",
    re.IGNORECASE,
)
_DIGIT, _LETTER = Pattern(r"[0-9]"), Pattern(r"[A-Za-z]")
_BEARER = Pattern(r"(bearer|basic|token)[ \t]{1,4}([A-Za-z0-9_.~+/=-]{16,4000})", re.IGNORECASE)
# A password with "/" in it, which no path follows directly: only of databases and queues.
_WITH_A_SLASH = Pattern(r"://[^\s:@/\"'`<>]{0,200}:(?!\d{1,5}/)([^\s@\"'`<>]{1,200})@(?=[\w\[%])")
_DATA_SCHEME = Pattern(
    r"(?:postgres(?:ql)?|mysql|mariadb|mssql|sqlserver|oracle|mongodb|rediss?|amqps?|clickhouse|nats|stomp|mqtts?|ldaps?|"
    r"s?ftps?)(?:\+\w{1,20})?\Z",
    re.IGNORECASE,
)
_CREDENTIALS = Pattern(r"://([^\s:@/\"'`<>]{0,200})(?::([^\s/\"'`<>]{1,200}))?@(?=[\w\[%])")
_ENCODED_LETTER = r"(?:[A-Za-z0-9._~!*'()-]|%(?!3A|2F|40)[0-9A-F]{2})"
_ENCODED_CREDENTIALS = Pattern(
    rf"%3A%2F%2F({_ENCODED_LETTER}{{0,100}}+)%3A({_ENCODED_LETTER}{{1,200}}+)%40", re.IGNORECASE
)
_COOKIE = Pattern(
    r"(?:ookie(?:[\"']?[ \t]{0,2}[:=,]|(?=[ \t]{1,4}[\"']))|[ ]-b(?=[ ]))[ \t]{0,4}[\"']?([^\r\n\"'<>]{4,4000})",
    re.IGNORECASE,
)
_COOKIE_PAIR = Pattern(r"(?<![^\s;:\"'=,])([^=;\s]{1,80}+)=([^;\s]{6,4000}+)")
_SESSION = Pattern(r"sess|sid\b|\bsid|auth|token|jwt|login|remember|csrf|xsrf|secret|identity|sso", re.IGNORECASE)


def may_name_secret(name: str) -> bool:
    """May the value of a field with this name be a secret?"""
    low = f"{name.lower()}="
    return bool(name) and (not name.isascii() or any(word in low for word in ASSIGNED))


@dataclass(frozen=True, slots=True)
class _Name:
    """The whole name that contains a word of ASSIGNED."""

    text: str
    start: int

    @classmethod
    def around(cls, text: str, start: int, end: int) -> _Name:
        before = text[max(0, start - 60) : start]
        first = start - len(before) + len(before.rstrip(_NAME_CHARACTERS))
        return cls(text[first:end], first)

    def begins_token(self, text: str) -> bool:
        return self.start == 0 or text[self.start - 1] in " \t\n\r\"'`"

    def in_address(self, text: str) -> bool:
        return text[self.start - 1 : self.start] in ("?", "&") or text[max(0, self.start - 3) : self.start] in (
            "%26",
            "%3F",
        )

    @property
    def is_environment(self) -> bool:
        """Is it a name of a setting (`DB_PASSWORD`, `spring.datasource.password`) rather than of a variable in code?"""
        return (self.text.isupper() and len(self.text) > 3) or "." in self.text


def in_mark(text: str, start: int) -> bool:
    """Is this word the kind in a mark `[REDACTED:<kind>]`?"""
    return text.rfind(_MARK, max(0, start - 40), start) > text.rfind("]", max(0, start - 40), start)


def quoted(text: str, at: int) -> tuple[int, int] | None:
    """The start and end of the text in the quotation marks that open at `at`."""
    if text[at : at + 1] not in _OPENING:
        return None
    for opener, rest in _OPENERS.items():
        if text.startswith(opener, at):
            match = rest.match(text, at + len(opener))
            if match is not None:
                return match.span(1)
    return None


def assigned(text: str, start: int, end: int, kind: str) -> Span | None:
    """The secret that is assigned to the name around the word from `start` to `end`."""
    if in_mark(text, start):
        return None
    if kind == _PASSWORD and not _is_whole_word(text, start):
        return None
    end = start + len(text[start:end].rstrip("\"'`=: \\"))
    name = _Name.around(text, start, end)
    tail = _TAIL.match(text, end)
    if tail is None:
        return None
    closers = _CLOSERS.match(text, tail.end())
    at = closers.end() if closers else tail.end()
    for read in (_signed, _on_the_next_line, _paired, _tagged, _defaulted, _declared, _option):
        span = read(text, name, tail.end(), at, kind)
        if span is not None:
            return span
    return None


def _is_whole_word(text: str, start: int) -> bool:
    """Is it not part of another word, like `pass` in `bypass`, or of "the first pass:"? `password` always counts."""
    short = _SHORT.match(text, start)
    if short is None or start == 0:
        return True
    name = _Name.around(text, start, short.end()).text
    if name.isupper() and not name.endswith(("BYPASS", "COMPASS", "TRESPASS")):
        return True  # SSHPASS
    before = text[start - 1]
    if before == " " and text[start - 2 : start - 1].isalpha():
        return _DECLARES.search(text, max(0, start - 12), start) is not None
    return not before.isalpha() or (text[start].isupper() and before.islower())


# --- notations ------------------------------------------------------------------------------------------------


def _signed(text: str, name: _Name, name_end: int, at: int, kind: str) -> Span | None:
    match = _SIGN.match(text, at)
    if match is None:
        return None
    sign, at = match["sign"], match.end()
    if text.startswith("${", name.start - 2) and sign in (":", ":-"):
        return _default(text, name, at, kind)
    if sign == ":" and _is_part_of_an_address(text, name, at):
        return None
    fallback = _FALLBACK.match(text, at)
    wrapped = fallback or _WRAPPED.match(text, at)
    numbers = _BYTES.match(text, at) if kind in (_KEY, _ANY_KEY) else None
    if numbers is not None and not _NO_SECRET_KEY.search(name.text) and values.are_key_bytes(numbers[1]):
        return numbers.start(1), numbers.end(1), kind
    inside = quoted(text, wrapped.end() if wrapped else at)
    if inside is not None:
        return _judged_quoted(text, inside, name, kind, sign)
    if sign in ("||", "??", "|") and kind != _PASSWORD:
        return None
    return _bare(text, name, at, kind, sign)


def _default(text: str, name: _Name, at: int, kind: str) -> Span | None:
    """`${PASSWORD:-…}` of shells, `${db.password:…}` of Spring."""
    match = _BARE_DEFAULT.match(text, at)
    if match is None or match[1][0] in "?+-" or not _is_secret(match[1], name, kind, plainly=True):
        return None
    return match.start(1), match.end(1), kind


def _is_part_of_an_address(text: str, name: _Name, at: int) -> bool:
    """`arn:…:secret:name`, `https://token:…@host`, `${PASSWORD:?is required}`."""
    if text[at - 1] != ":" or text[name.start - 1 : name.start] in (":", "/"):
        return text[at - 1] == ":"
    return text[at : at + 1] in ("?", "+", "-", ":", "/")


def _on_the_next_line(text: str, name: _Name, name_end: int, at: int, kind: str) -> Span | None:
    """A label with a colon, and the value alone on the next line."""
    match = _NEXT_LINE.match(text, at)
    if match is None:
        return None
    value = match["value"]
    if match["bare"] is not None and not _HEADING.search(text, max(0, name.start - 60), name.start):
        return None
    if kind == _PASSWORD:
        good = values.is_clear_password(value) if match["bare"] is None else values.is_strong_password(value)
    else:
        good = len(value) >= 16 and values.is_key(value)
    return (*match.span("value"), kind) if good else None


def _judged_quoted(text: str, inside: tuple[int, int], name: _Name, kind: str, sign: str) -> Span | None:
    value = text[inside[0] : inside[1]]
    plainly = _is_plain_name(name) or _is_near_login(text, name.start)
    if not _is_secret(value, name, kind, plainly=plainly):
        return None
    if kind == _PASSWORD and sign in (":", "：") and value.isalpha() and len(value) < 6:
        return None
    return inside[0], inside[1], kind


def _bare(text: str, name: _Name, at: int, kind: str, sign: str) -> Span | None:
    spaced = text[at - 1 : at] in (" ", "\t")
    part = sign == "=" and _FOLLOWS_A_PART.search(text, max(0, name.start - 4), name.start)
    braced = _BRACED_PART.match(text, at) if part else None
    if braced is not None and values.is_clear_password(braced[1]):
        return *braced.span(1), kind
    if sign.startswith("%"):
        match = _BARE_ENCODED.match(text, at)
    elif name.in_address(text):
        match = _BARE_URL.match(text, at)
    elif part and (text[name.start - 1] == ";" or not name.text.isupper()):
        match = _BARE_PART.match(text, at)
    else:
        return _bare_setting(text, name, at, kind, sign, spaced=spaced)
    if match is None:
        return None
    value = match[1].rstrip(" \t")
    return (at, at + len(value), kind) if _is_secret(value, name, kind, plainly=True) else None


def _bare_setting(text: str, name: _Name, at: int, kind: str, sign: str, *, spaced: bool) -> Span | None:
    tight = sign == "=" and not spaced and name.begins_token(text)
    match = _BARE_LINE.match(text, at) if tight else None
    if match is not None and _CODE.search(f"{match[1]}{text[match.end() : match.end() + 1]}"):
        # Brackets, or a quotation mark after it, mean code, unless the name is that of a setting.
        settings = name.is_environment and text[match.end() : match.end() + 1] not in ('"', "'", "`")
        match = match if settings else None
    if match is None:
        match = _BARE.match(text, at)
        if match is None or (match[2] and not tight):
            return None  # a call, an index, a generic type
    value = match[1].rstrip(".,;:" if tight else ".*_:!?,;")
    if tight and (more := _NEXT_PARAMETER.search(value)):
        value = value[: more.start()]
    return (at, at + len(value), kind) if _is_bare_secret(text, value, name, at, kind, sign, tight=tight) else None


def _is_bare_secret(text: str, value: str, name: _Name, at: int, kind: str, sign: str, *, tight: bool) -> bool:
    if kind == _PASSWORD:
        folder = name.text in ("PWD", "OLDPWD") and not _FOLLOWS_A_PART.search(text, max(0, name.start - 4), name.start)
        if folder and not values.is_clear_password(value):
            return False  # the shell's own variables
        return _is_bare_password(text, value, name, at, sign, tight=tight)
    is_named = tight and name.is_environment and kind == _SECRET  # `JWT_SECRET=` is a secret, whatever it looks like
    return (is_named and len(value) >= 8 and values.is_literal_password(value)) or _is_secret(
        value, name, kind, plainly=False
    )


def _is_bare_password(text: str, value: str, name: _Name, at: int, sign: str, *, tight: bool) -> bool:
    if sign in ("->", "→", "⇒", "=>"):
        return values.is_clear_password(value) and not values.is_words(value)
    if sign == "|":
        return len(value) >= 8 and values.is_clear_password(value) and not values.is_words(value)
    if not values.is_literal_password(value):
        return False
    clear = values.is_clear_password(value)
    identifier = _IDENTIFIER.fullmatch(value) is not None
    follows = text[at + len(value) : at + len(value) + 1]
    if sign in (":", "："):
        if _is_a_line_of_settings(text, name.start, at + len(value)):
            return clear or _is_near_login(text, name.start)
        user_is_named = _USER_BEFORE.search(text, max(0, name.start - 120), name.start) is not None
        return (clear and not values.is_words(value)) or (
            user_is_named and bool(_LINE_END.match(text, at + len(value)))
        )
    if sign in ("||", "??", "==", "===", "!=", "!=="):
        return False
    if name.text.startswith("-"):
        return True
    if (
        identifier
        and follows in (";", ",", ")", ".", "(", "[")
        and not (clear and tight and not _in_brackets(text, name.start))
    ):
        return False
    if identifier and not tight:
        return len(value) >= 6 and (value.islower() or any(map(str.isdigit, value))) and "_" not in value
    if identifier and not name.is_environment and not any(map(str.isdigit, value)):
        # In code, an argument on a line of its own is indented.
        alone = _BEGINS_A_LINE.search(text, max(0, name.start - 60), name.start) and _LINE_END.match(
            text, at + len(value)
        )
        return len(value) >= 6 and (value.islower() or alone is not None) and "_" not in value
    return True


def _in_brackets(text: str, start: int) -> bool:
    line = max(text.rfind("\n", max(0, start - 200), start) + 1, start - 200, 0)
    return text.count("(", line, start) > text.count(")", line, start)


def _paired(text: str, name: _Name, name_end: int, at: int, kind: str) -> Span | None:
    """`{"name": "DB_PASSWORD", "value": "…"}`, `key="SmtpPassword" value="…"`, `--name /db/password --value …`."""
    block = _IN_A_BLOCK.match(text, at)
    inside = quoted(text, block.end()) if block else None
    if inside is not None and _is_secret(text[inside[0] : inside[1]], name, kind, plainly=False):
        return inside[0], inside[1], kind
    match = _PAIRED.match(text, at)
    if match is None:
        return None
    inside = quoted(text, match.end())
    if inside is None:
        bare = _BARE.match(text, match.end())
        inside = bare.span(1) if bare else None
    if inside is None or not _is_secret(text[inside[0] : inside[1]], name, kind, plainly=True):
        return None
    return inside[0], inside[1], kind


def _tagged(text: str, name: _Name, name_end: int, at: int, kind: str) -> Span | None:
    """`<password>…</password>`, `<entry key="password">…</entry>`."""
    match = _TAGGED.match(text, at)
    if match is not None and _is_secret(match[1], name, kind, plainly=True):
        return match.start(1), match.end(1), kind
    match = _TAGGED_BELOW.match(text, at)
    if match is None or not _is_secret(match[2], name, kind, plainly=match["tag"].lower() in ("value", "string")):
        return None
    return match.start(2), match.end(2), kind


def _defaulted(text: str, name: _Name, name_end: int, at: int, kind: str) -> Span | None:
    """`define('DB_PASSWORD', '…')`, `getenv("TOKEN", "…")`, `setPassword("…")`, `("password", "…")`."""
    if text[name_end : name_end + 1] == "(":
        setter = name.text.lower().startswith(("set", "with", "add")) or ".set" in name.text.lower()[-20:]
        inside = quoted(text, name_end + 1) if setter else None
        if inside is None or not _is_secret(text[inside[0] : inside[1]], name, kind, plainly=True):
            return None
        return inside[0], inside[1], kind
    if text[name_end : name_end + 1] not in ("'", '"') or text[at : at + 1] != ",":
        return None
    at += 1
    while text[at : at + 1] in (" ", "\t"):
        at += 1
    inside = quoted(text, at)
    if inside is None:
        return None
    value = text[inside[0] : inside[1]]
    default = _DEFAULTED.search(text, max(0, name.start - 100), name.start) is not None
    if kind == _PASSWORD and not default and not (values.is_clear_password(value) and not values.is_words(value)):
        return None
    if kind != _PASSWORD and not default and not any(map(str.isdigit, value)):
        return None  # a list of names
    return (inside[0], inside[1], kind) if _is_secret(value, name, kind, plainly=default) else None


def _declared(text: str, name: _Name, name_end: int, at: int, kind: str) -> Span | None:
    """Names separated from the value by a space: `ENV TOKEN …`, `#define PASSWORD "…"`, `requirepass …`."""
    if text[name_end : name_end + 1] not in (" ", "\t"):
        return None
    if text[at : at + 2] in ("0 ", "5 ", "7 "):
        at += 2  # the encoding of the password in router configurations
    inside = quoted(text, at)
    match = _BARE_LINE.match(text, at) if inside is None else None
    if inside is None and match is None:
        return None
    declared = _DECLARED.search(text, max(0, name.start - 100), name.start) is not None
    low = name.text.lower()
    directive = low in ("requirepass", "masterauth")
    if inside is not None:
        value = text[inside[0] : inside[1]]
        phrase = len(value.split()) >= 3 and "\n" not in value
        sure = (
            declared
            or directive
            or (
                (low in ("password", "passphrase", "passwd") or _ENDS_SO.search(name.text))
                and (phrase or values.is_clear_password(value) or value.isalpha())
            )
        )
        return (inside[0], inside[1], kind) if sure and _is_secret(value, name, kind, plainly=True) else None
    assert match is not None
    value = match[1].rstrip(".,;:*_)")
    if (declared and name.text.isupper()) or directive:
        good = _is_secret(value, name, kind, plainly=True)
    elif kind == _PASSWORD:
        first = max(0, name.start - 60)
        before = text[max(first, text.rfind("\n", first, name.start) + 1) : name.start]
        alone = not before.strip(" \t>") and _LINE_END.match(text, match.end())
        good = values.is_strong_password(value) or (bool(alone) and values.is_clear_password(value))
    else:
        good = (
            len(value) >= 16
            and values.is_key(value, uuids=declared)
            and not value.isalpha()
            and not _HEX.fullmatch(value)
        )
    return (at, at + len(value), kind) if good else None


def _option(text: str, name: _Name, name_end: int, at: int, kind: str) -> Span | None:
    """The value of a command-line option such as `--password VALUE` or `-storepass VALUE`."""
    if not name.text.startswith("-") or text[name_end : name_end + 1] not in (" ", "="):
        return None
    inside = quoted(text, name_end + 1)
    match = _OPTION.match(text, name_end)
    if inside is None and match is not None:
        inside = match.span(1)
    if inside is None:
        return None
    value = text[inside[0] : inside[1]]
    if value.isalpha() and not _is_on_a_command_line(text, name.start):
        return None  # a sentence about the option
    return (
        (inside[0], inside[1], kind) if _is_secret(value, name, kind, plainly=True) and value != value.upper() else None
    )


def _is_on_a_command_line(text: str, start: int) -> bool:
    line = max(text.rfind("\n", max(0, start - 200), start) + 1, start - 200)
    return (
        _COMMAND.search(text, line, start) is not None
        and _BEFORE_OPTION.search(text, max(0, start - 12), start) is None
    )


# --- judging --------------------------------------------------------------------------------------------------


def _is_secret(value: str, name: _Name, kind: str, *, plainly: bool) -> bool:
    if kind == _PASSWORD:
        if plainly or (" " in value and any(map(str.isdigit, value))):
            return values.is_literal_password(value)
        return values.is_clear_password(value)
    if kind == _ANY_KEY:
        return not _NO_SECRET_KEY.search(name.text) and values.is_unmistakable_key(value, hexadecimal=plainly)
    if kind == _TOKEN and _MARKS_A_PAGE.search(name.text):
        return False
    if kind == _TOKEN and name.text.lower().endswith("auth"):
        return values.credentials_in(value) or (":" not in value and values.is_key(value))
    if kind == _SECRET and name.text.lower().endswith("secret") and values.is_phrase(value):
        return True
    if name.text.lower() == "x-amz-credential":
        return False  # the key's id in it is known by its format
    certain = kind == _KEY or name.text[:2] in ("X-", "x-") or name.text.isupper() or "auth" in name.text.lower()
    return values.is_key(value, uuids=certain)


def _is_plain_name(name: _Name) -> bool:
    """Is any quoted value after this name a password, whatever it looks like?"""
    low = name.text.lower()
    return any(word in low for word in _PLAINLY) or low.endswith(("pwd", "_pass", "pw", "psk", "storepass", "keypass"))


def _is_a_line_of_settings(text: str, name_start: int, end: int) -> bool:
    """Does the line consist of a name, a colon and a value of one word, as in YAML? Prose has more words."""
    line = text.rfind("\n", max(0, name_start - 80), name_start) + 1
    if line == 0 and name_start > 80:
        return False
    return bool(_SETTING.fullmatch(text, line, name_start) and _LINE_END.match(text, end))


def _is_near_login(text: str, name_start: int) -> bool:
    """Do nearby lines set a user, a host or a database?"""
    return _LOGIN.search(text, max(0, name_start - 300), name_start + 300) is not None


# --- headers and addresses ------------------------------------------------------------------------------------


def authorization(text: str, start: int) -> Span | None:
    """The credentials of an `Authorization` header; `start` is the position of "uthorization"."""
    match = _AUTHORIZATION.match(text, start)
    if match is None:
        return None
    value = match["value"]
    mixed = _DIGIT.search(value) and _LETTER.search(value)
    variable = match["scheme"] is None and len(value) < 20 and _IDENTIFIER.fullmatch(value)
    if not values.credentials_in(value) and not (
        len(value) >= 12 and mixed and not variable and not values.is_words(value)
    ):
        return None
    if values.is_placeholder(value) or values.is_mask(value):
        return None
    return match.start("value"), match.end("value"), "token"


def bearer(text: str, start: int) -> Span | None:
    """A token after the name of its scheme, as in `Bearer …`."""
    match = _BEARER.match(text, start)
    if match is None or values.is_placeholder(match[2]):
        return None
    if match[1].lower() == "token" and text[max(0, start - 1) : start] not in ('"', "'", "`"):
        return None
    if not values.is_random(match[2]) and not (match[1].lower() == "basic" and values.credentials_in(match[2])):
        return None
    return match.start(2), match.end(2), "token"


def credentials(text: str, start: int) -> Iterator[Span]:
    """The password in `scheme://user:password@host`, or a token in place of the user; "://" is at `start`."""
    match = _CREDENTIALS.match(text, start)
    if match is None:
        sliced = _WITH_A_SLASH.match(text, start)
        data = _DATA_SCHEME.search(text, max(0, start - 30), start)
        if sliced is not None and data is not None and values.is_literal_password(sliced[1]):
            yield *sliced.span(1), "connection-string"
        return
    if len(match[1]) >= 30 and values.is_key(match[1]):
        yield match.start(1), match.end(1), "connection-string"
    if match[2] and match[1] != match[2] and values.is_literal_password(match[2]):
        yield match.start(2), match.end(2), "connection-string"


def encoded_credentials(text: str, start: int) -> Span | None:
    """The password in a URL that is encoded inside another one; `start` is the position of "%3A%2F%2F"."""
    match = _ENCODED_CREDENTIALS.match(text, start)
    if match is None or match[1] == match[2] or not values.is_literal_password(match[2]):
        return None
    return match.start(2), match.end(2), "connection-string"


def cookies(text: str, start: int) -> Iterator[Span]:
    """The values of session and login cookies; `start` is the position of "ookie"."""
    match = _COOKIE.match(text, start)
    if match is None:
        return
    other = text.find("ookie", match.start(1), match.end(1))  # another header on the same line
    for pair in _COOKIE_PAIR.finditer(text, match.start(1), match.end(1) if other < 0 else other):
        value = pair[2]
        if values.is_placeholder(value) or values.is_mask(value) or len(value) < 10:
            continue
        if _SESSION.search(pair[1]) and not values.is_words(value) and any(map(str.isdigit, value)):
            yield pair.start(2), pair.end(2), "cookie"
