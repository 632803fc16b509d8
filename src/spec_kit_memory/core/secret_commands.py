"""Which argument of a command or a call is a password? `curl -u ana:…`, `mysql -p…`, `SetBasicAuth("ana", "…")`.

The meaning of an option depends on the program: `-p` is a password for mysql, a port for ssh and `--parents` for
mkdir. So the program is found first, and then its own options up to the end of the command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from spec_kit_memory.core import secret_values as values
from spec_kit_memory.core.patterns import Pattern
from spec_kit_memory.core.secret_values import Span

_COMMAND_CHARACTERS = 600
# A command continues after a line that ends in a backslash, and ends where another command starts.
_COMMAND = Pattern(r"(?:[^\n|;&\\'\"]|\\(?:\r?\n|.)|\"(?:[^\"\\\n]|\\.)*\"?|'[^'\n]*'?|&(?!&))*")
_VALUE = r"(?:\"([^\"\n]{3,2000})\"|'([^'\n]{3,2000})'|([^\s\"'|;<>()]{3,2000}))"
_REST = Pattern(r"[^\s\"'|;<>()]*")  # the rest of an argument that is longer than the part that was read
_USER = r"[^\s:\"'%<>$]{0,80}"


def _options(*names: str, joined: bool = False, apart: bool = True) -> str:
    """A pattern of options that take a password: after a space or "=" (`apart`), or directly (`joined`)."""
    between = "[ =]?" if joined and apart else "" if joined else "[ =][ \\t]{0,3}"
    return rf"(?<=\s)(?:{'|'.join(names)}){between}{_VALUE}"


_LOGIN = (
    r"(?<=\s)(?:-[a-zA-Z]{0,6}[uU]|--user|--proxy-user|--auth|-a)[ =]?"
    rf"(?:\"{_USER}:([^\"\n]{{1,2000}})\"|'{_USER}:([^'\n]{{1,2000}})'|{_USER}:([^\s\"'|;<>]{{1,2000}}))"
)
_PASSWORD_P = _options("-p", "--pass", "--passwd")
_JOINED_P = r"(?<=\s)-p(?:\"([^\"\n]{3,2000})\"|'([^'\n]{3,2000})'|([^\s\"'|;<>()=-][^\s\"'|;<>()]{2,2000}))"
_STORE_OPTIONS = [f"-{which}{what}pass" for which in ("", "dest", "src") for what in ("store", "key")]

# Programs in lower case, with the character or subcommand that must follow the name -> where the password is.
_PROGRAMS: Mapping[str, str] = {
    "curl |wget |http |https |xh ": _LOGIN,
    "mysql |mysqldump |mysqladmin |mysqlimport |mysqlshow |mysqlcheck |mysqlsh ": _JOINED_P,
    "mariadb |mariadb-dump |mycli ": _JOINED_P,
    "redis-cli |valkey-cli ": _options("-a", "--pass"),
    "mongo |mongosh |mongodump |mongorestore |mongoexport |mongoimport |cqlsh |psexec |evil-winrm ": _PASSWORD_P,
    "docker login|podman login|nerdctl login|skopeo login|buildah login|registry login|auth login": _PASSWORD_P,
    "cf login|oc login|az login|twine upload": _PASSWORD_P,
    "sshpass ": _options("-p", joined=True),
    "ldapsearch |ldapadd |ldapmodify |ldapdelete |ldappasswd |ldapwhoami ": _options("-w", "-s"),
    "smbclient |rpcclient |winexe |smbmap ": (
        r"(?<=\s)(?:-U|--user)[ =]?[\"']?[^\s%\"']{1,80}%(?:([^\"'\n]{1,2000})[\"']|([^\s\"'|;]{1,2000}))"
    ),
    "unzip |zip ": _options("-P", joined=True),
    "7z |7za |7zz |rar |unrar ": _options("-p", "-hp", joined=True, apart=False),
    "htpasswd ": (
        r"(?<=\s)-[a-zA-Z]{0,4}b[a-zA-Z0-9]{0,4}(?:[ \t]+-\w{1,6}){0,4}(?:[ \t]+[\w./~-]{1,80}){1,2}[ \t]+"
        rf"{_VALUE}(?=\s|$)"
    ),
    "openssl ": rf"(?:(?<=\s)-[kK][ ]{_VALUE}|\bpass:([^\s\"'|;]{{3,2000}}))",
    "keytool |jarsigner ": _options(*_STORE_OPTIONS),
    "sqlcmd |bcp |osql |isql |mosquitto_pub |mosquitto_sub ": _options("-P", joined=True),
    "sqlplus |expdp |impdp |sqlldr |rman ": (
        r"(?<=\s)[\"']?[A-Za-z][\w$]{0,40}/(?:\"([^\"\n]{3,100})\"|([^\s@\"'/]{3,100}))@"
    ),
    "net use": rf"(?:/user:\S{{1,80}}[ \t]+(?!/)(?!\\\\){_VALUE}|\\\\\S{{1,100}}[ \t]+(?![/*\\]){_VALUE}[ \t]+/user)",
    "net user": rf"^net user[ \t]+[\w.-]{{1,40}}[ \t]+(?![/*]){_VALUE}[ \t]+/add",
    "plink |pscp |psftp |putty ": _options("-pw"),
    "xfreerdp |rdesktop ": rf"(?<=\s)(?:/p:|-p[ ]){_VALUE}",
    "lftp |ncftp|ftp ": rf"(?<=\s)-u[ ][^\s,]{{1,80}},{_VALUE}",
    "nmcli ": _options("password"),
    "ssh-keygen ": _options("-N", "-P"),
    "rabbitmqctl ": rf"(?:add_user|change_password|authenticate_user)[ \t]+[\w.-]{{1,60}}[ \t]+{_VALUE}",
    "wpa_passphrase ": rf"^wpa_passphrase[ \t]+(?:\"[^\"\n]{{1,60}}\"|\S{{1,60}})[ \t]+{_VALUE}",
    "create secret": r"--from-literal[ =][\"']?[\w.-]{1,80}=(?:([^\s\"']{2,400})|[\"']([^\"'\n]{2,400})[\"'])",
    "convertto-securestring": r"^\S+(?i:[ \t]+-string)?[ \t]+(?:\"([^\"\n]{3,2000})\"|'([^'\n]{3,2000})')",
    "vault login": r"^vault login[ \t]+(?:-\S+[ \t]+){0,4}((?=\S{0,40}\d)[\w.-]{16,200})",
    "snmpget |snmpwalk |snmpset |snmpbulkwalk |snmptrap ": _options("-A", "-X"),
    "config http-basic.": rf"^config http-basic[.]\S{{1,80}}[ \t]+[^\s-]\S{{0,80}}[ \t]+{_VALUE}",
    "user-secrets set": (
        r"^user-secrets set[ \t]+(?:[\"'][^\"'\n]{0,100}|\S{0,100})(?i:password|secret|key|token)[\"']?[ \t]+"
        rf"{_VALUE}"
    ),
    "mount ": r"(?<=\s)-o[ ]?[^\s\"']{0,400}(?<![a-z])pass(?:word)?=([^\s,\"']{3,200})",
    "schtasks ": rf"(?<=\s)/RP[ \t]+{_VALUE}",
    "cmdkey ": rf"/pass:{_VALUE}",
    "ipmitool ": _options("-P"),
    "conan user |hdbsql |cypher-shell ": _PASSWORD_P,
    "db2 connect ": rf"[ \t]user[ \t]+\S{{1,80}}[ \t]+using[ \t]+{_VALUE}",
    "wandb login": r"^wandb login[ \t]+(?:--\S+[ \t]+){0,4}([0-9a-f]{40})(?!\S)",
    "b2 authorize-account": rf"^b2 authorize-account[ \t]+[0-9a-f]{{12,25}}[ \t]+{_VALUE}",
    "bundle config ": r"[ \t][\w.-]{1,80}[.][a-z]{2,20}[ \t]+([\w.@-]{1,80}:[^\s\"'|;]{3,200})",
    "rootpw ": rf"^rootpw[ \t]+(?:--(?:plaintext|allow-ssh)[ \t]+){{0,2}}(?!\{{|--){_VALUE}(?=[ \t]*\r?\Z)",
    "bindpw ": rf"^bindpw[ \t]+{_VALUE}(?=[ \t]*\r?\Z)",
    "d-i passwd/": rf"^d-i passwd/\S{{1,40}}-password(?:-again)?[ \t]+password[ \t]+{_VALUE}",
    # Any program with a user option and -p or -P for a password; but not a port or a plain name.
    "-u |--user |--username ": (
        r"^--?\w+[ \t]+[^\s-]\S{0,80}(?:[ \t]+-[\w-]{1,20}(?:[ \t]+[^\s-]\S{0,80})?){0,3}?[ \t]+-[pP][ =]?"
        rf"(?![\d.:\[\]-]{{1,60}}(?:/(?:tcp|udp))?(?:\s|$))(?![a-z_-]{{1,60}}(?:\s|$)){_VALUE}"
    ),
}
PROGRAMS: Mapping[str, Pattern] = {
    program: Pattern(pattern) for programs, pattern in _PROGRAMS.items() for program in programs.split("|")
}

# Commands that read a password from a pipe, which precedes them on the line.
PIPED = (
    "sudo -s",
    "sudo --stdin",
    "chpasswd",
    "--password-stdin",
    "passwd --stdin",
    "--with-token",
    "--passphrase-fd 0",
    "cryptsetup ",
)
_PIPED_VALUE = r"(?:\"([^\"\n]{3,2000})\"|'([^'\n]{3,2000})'|([^\s\"'|;&<>]{3,2000}))"
_ECHO = Pattern(rf"(?:echo|printf)[ \t]+(?:-[neE]{{1,3}}[ \t]+){{0,3}}{_PIPED_VALUE}[ \t]*\|[^|\n]{{0,60}}\Z")
_HERE = Pattern(rf"[^\n|;]{{0,60}}<<<[ \t]*{_PIPED_VALUE}")

# Beginnings of SQL and similar statements, in lower case -> the pattern that follows.
STATEMENTS: Mapping[str, Pattern] = {
    "identified by": Pattern(
        r"(?:[ \t]+password)?[ \t]+(?:values[ \t]+)?(?:'([^'\n]{3,2000})'|\"([^\"\n]{3,2000})\"|([A-Za-z]\w*\d\w*))",
        re.IGNORECASE,
    ),
    " by '": Pattern(r"([^'\n]{3,2000})'"),
    "with password": Pattern(r"[ \t]*+=?[ \t]*+N?'([^'\n]{3,2000})'", re.IGNORECASE),
    "login password": Pattern(r"[ \t]+'([^'\n]{3,2000})'", re.IGNORECASE),
    "encrypted password": Pattern(r"[ \t]+'([^'\n]{3,2000})'", re.IGNORECASE),
    "password 7": Pattern(r"[ \t]+([0-9A-Fa-f]{8,80})(?![^\s])"),  # Cisco's reversible encoding
    "set password": Pattern(r"[^\n;'\"]{0,60}=[ \t]*(?:password\()?'([^'\n]{3,2000})'", re.IGNORECASE),
}


@dataclass(frozen=True, slots=True)
class _Call:
    """Which argument of a call is the password."""

    argument: int  # counted from 0
    sure: bool = True  # false: the call may have another meaning, so the value must clearly look like a password


# Calls in lower case, up to their opening bracket -> which argument is the password.
CALLS: Mapping[str, _Call] = {
    "auth=(": _Call(1),
    "auth = (": _Call(1),
    "setbasicauth(": _Call(1),
    "basicauth(": _Call(1),
    "basic_auth(": _Call(1),
    "httpdigestauth(": _Call(1),
    "networkcredential(": _Call(1),
    "usernamepasswordcredentials(": _Call(1),
    "passwordauthentication(": _Call(1),
    "passwordcredential(": _Call(1),
    "usernamepassword(": _Call(1),
    "plainauth(": _Call(2),
    "getconnection(": _Call(2),
    "mysqli_connect(": _Call(2),
    "mysql_connect(": _Call(2),
    "new mysqli(": _Call(2),
    "new pdo(": _Call(2),
    "credentials(": _Call(3, sure=False),
    "login(": _Call(1, sure=False),
    "authenticate(": _Call(1, sure=False),
    "signin(": _Call(1, sure=False),
    "sign_in(": _Call(1, sure=False),
}
_ARGUMENT = Pattern(
    r"\s{0,40}(?:[bBrRuUfFL@$]{0,2}(?:\"(?P<double>(?:[^\"\\\n]|\\.){0,300})\"|'(?P<single>(?:[^'\\\n]|\\.){0,300})')"
    r"|[^,()\"'\n]{1,120}(?:\([^()\n]{0,80}\))?)\s{0,40}(?P<after>[,)])"
)


def command(text: str, start: int, program: str) -> Iterator[Span]:
    """The passwords in the command of the program whose name is at `start`."""
    if start > 0 and (text[start - 1].isalnum() or text[start - 1] in "_-."):
        return
    line = _COMMAND.match(text, start, start + _COMMAND_CHARACTERS)
    if line is None:
        return
    # Cut out, since a pattern may be anchored to the start of the command; a second call of the program ends it.
    again = line[0].lower().find(program, 1)
    own = line[0] if again < 0 else line[0][:again]
    for match in PROGRAMS[program].finditer(own):
        span = _first_group(match)
        if span is not None and _is_argument(own[span[0] : span[1]]):
            first, last = start + span[0], start + span[1]
            rest = _REST.match(text, last) if span[1] == _COMMAND_CHARACTERS else None
            yield first, rest.end() if rest else last, "password"


def _first_group(match: re.Match[str]) -> tuple[int, int] | None:
    return next((match.span(number) for number in range(1, match.re.groups + 1) if match[number] is not None), None)


def _is_argument(value: str) -> bool:
    if value.startswith(("-", "/dev/", "<", "$", "@")) or (value == value.upper() and value.isalpha()):
        return False
    return values.is_literal_password(value)


def piped(text: str, start: int, end: int) -> Iterator[Span]:
    """`echo … | sudo -S`, `chpasswd <<< ana:…`."""
    line = text.rfind("\n", max(0, start - 400), start) + 1
    match = _ECHO.search(text, max(line, start - 400), start) or _HERE.match(text, end)
    span = _first_group(match) if match else None
    if span is None:
        return
    first, last = span
    if text[start:end].lower() == "chpasswd":
        user, colon, _ = text[first:last].partition(":")
        first += len(user + colon)
    value = text[first:last]
    if len(value) >= 4 and _is_argument(value):
        yield first, last, "password"


def statement(text: str, end: int, words: str) -> Iterator[Span]:
    """The password in an SQL statement that contains these words."""
    match = STATEMENTS[words].match(text, end)
    span = _first_group(match) if match else None
    if span is None:
        return
    if words == " by '" and "identified" not in text[max(0, end - 80) : end].lower():
        return
    if values.is_literal_password(text[span[0] : span[1]]):
        yield span[0], span[1], "password"


def call(text: str, end: int, name: str) -> Iterator[Span]:
    """The password among the arguments of a call; `end` is the position after its opening bracket."""
    keywords = CALLS[name]
    match = None
    for place in range(keywords.argument + 1):
        match = _ARGUMENT.match(text, end)
        if match is None or (place < keywords.argument and match["after"] == ")"):
            return
        end = match.end()
    group = "double" if match and match["double"] else "single"
    if match is None or not match[group]:
        return
    good = values.is_literal_password(match[group]) if keywords.sure else values.is_clear_password(match[group])
    if good:
        yield match.start(group), match.end(group), "password"
