"""Is a value a secret, or a type, a placeholder, a description, a piece of code?

This module does not consider the context of a value. The readers (names, sentences, commands, documents) do, and
require the value to look the more like a secret, the less certain the context is.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import Iterable

from spec_kit_memory.core.patterns import Pattern

Span = tuple[int, int, str]  # first character, one past the last, kind

_JUDGED_CHARACTERS = 400  # only this much of a long value is examined

_PLACEHOLDER_PARTS = Pattern(
    r"(?<![a-z])(?:your|example|placeholder|change[-_ ]?(?:me|this|it)(?!\S{0,40}\d)|redacted|dummy|fake|"
    r"replace|insert|sample|todo|goes[-_ ]here|not[-_ ]?a[-_ ]?real|whatever)|x{4,}|\*\*\*|•••|\.\.\.|…",
    re.IGNORECASE,
)
_REFERENCE = Pattern(
    r"(?:process\.env|import\.meta|os\.(?:environ|getenv)|(?:env|envs|secrets?|vars?|config|conf|settings|options|opts|"
    r"props|params|args|self|this|ctx|context|request|req|data|local|module|output|keyring|vault|ssm|op|doppler|kms|arn|"
    r"aws|gcp|azure|inherit|none)(?:[.:]|->|::|\[)|ENC\[|@Microsoft\.KeyVault)",
    re.IGNORECASE,
)
_PUBLIC = ("pk_live_", "pk_test_", "pk.eyJ")  # public keys
_VARIABLE = Pattern(r"[$%][{(]?[A-Za-z_][\w.:-]*[)}%]?|[@#&*][A-Za-z_.-]+|\$\d|\?\d?|:[A-Za-z_]+")
_REGULAR_EXPRESSION = Pattern(r"\[[^\]\s]{1,30}\][{*+?]|\{\d{1,3},?\d{0,3}\}|\(\?[:=!<i]|\\[dwsSWb][{+*]")
_TEMPLATE = Pattern(r"\$\{|\$\(|\{\{|#\{|<%|%\(|\{[A-Za-z_][\w.]{0,40}\}|<[A-Za-z][\w .-]{0,40}>")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Types, states, algorithms and names of fields, which occur in the place of a value but are not secrets.
_WORDS = _words(
    """
    accepted admin administrator anonymous any argon2 argon2id array auto base64 basic bcrypt bearer bool boolean
    button byte bytes change changeit char check checkbox cleartext column confirm cookie custom default deny dialog
    digest disabled double email empty enabled encrypted env expired external fail false field file float form from
    generated guest hash hashed header hidden id inherit input int integer invalid jwt key keyring keys label length
    letmein login lower manager manual masked md5 missing mixed name nil no none null nullable number oauth oauth2
    object off on opaque optional options page pass passphrase passwd password password1 plain plaintext policy
    postgres present private prompt protected public pwd query random read readonly recovery redacted regex required
    reset root rotate rotation same saml screen scrypt secret secrets see set sha1 sha256 sha512 show static stdin
    str strength string strong table tbd template test text then todo toggle token tokens true type undefined
    unknown unset update upper user username uuid valid value values varchar vault void weak write yes
    """
)
_MENTIONS = (
    *("passw", "pwd", "secret", "token", "field", "input", "key", "credential", "passphrase", "kennwort", "senha"),
    *("mot de passe", "contrase", "hasło", "parola", "пароль", "密码", "パスワード", "비밀번호"),
)
# Words of labels, hints, rules and messages, which do not occur in passphrases.
_DESCRIBING = _words(
    """
    account allowed are array asks be been between bits boolean bytes cannot case change changed changing character
    characters chars check choose click confirm contain contains database default digits do does enter error expire
    expired expires failed forgot forgotten from given has hash hashed have hint if incorrect invalid is kept least
    leave letters logged login make match matches max maximum may min minimum mismatch missing must needed never not
    optional or please policy provide provided recommended required reset see select set should shown sign special
    stored strength string submit symbols than this too type unique up uppercase use used user username users valid
    via was were when will with without wrong you your
    """
)
# Names of algorithms, standards and parts of documents: `SHA-256`, `PBKDF2-HMAC-SHA512`, `bcrypt12`, `section2`.
_ALGORITHM_PART = (
    r"(?:(?:hmac|pbk?df|sha|md|aes|gcm|cbc|ctr|rsa|dsa|ecdsa|ed|bcrypt|argon|scrypt|oauth|base|utf|http|saml|tls|ssl|"
    r"totp|hotp|web|rfc|iso|curve|kdf|jwt|oidc|fips|nist|tier|level|step|phase|part|section|see|page|version|adr|"
    r"[xvpt]|[hrep]s){1,3}\d{0,5}(?:id|i|d|e|k)?|\d{1,5})"
)
_ALGORITHM = Pattern(rf"{_ALGORITHM_PART}(?:[-_/.]{_ALGORITHM_PART}){{0,4}}", re.IGNORECASE)
_UUID = Pattern(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_DIGEST = Pattern(r"(?:sha\d{1,3}|md5|h1|zh)[:=-].{8,}", re.IGNORECASE)
_SHORT_HASH = Pattern(r"[0-9a-f]{7,12}", re.IGNORECASE)
_FILE = Pattern(
    r"[\w./~@-]{1,200}\.(?:md|txt|jsonc?|ya?ml|toml|env|pem|key|crt|cer|p12|pfx|jks|ppk|gpg|asc|pub|py|[cm]?[jt]sx?|"
    r"java|kt|rb|php|go|rs|cs|sh|sql|html|css|log|db|conf|cfg|ini|xml|csv|service|example)"
)
_EMAIL = Pattern(r"[A-Za-z0-9.+_-]{1,60}@[A-Za-z0-9-]{1,60}(?:\.[A-Za-z0-9-]{1,60}){0,3}\.[a-z]{2,20}")
_URL = Pattern(r"[a-z][a-z0-9+.-]{1,15}://")
_CALL = Pattern(r"[\w$.]{1,200}(?:\(|\?\.|->|::)")
_CONSTANT = Pattern(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_BASE32 = Pattern(r"[A-Z2-7]{16,128}={0,6}")
_CAMEL = Pattern(r"[A-Z]?[a-z]{2,}+(?:[A-Z][a-z]{2,}+){0,3}\d{0,2}")  # names and versions: `Keycloak26`
_PART = Pattern(r"[A-Za-z0-9]+")
_PIECE = Pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_DATE_OR_NUMBER = Pattern(r"[\d.,:%TZ+/~x×_-]+[a-zA-Z%]{0,3}")
_KEY_OF_32_BYTES = Pattern(r"[A-Za-z0-9+/_-]{43}=")
_HEXADECIMAL_KEY = Pattern(r"[0-9a-f]{32}", re.IGNORECASE)
_ONE_WORD = Pattern(r"[A-Za-z0-9]{24,400}")
_SIGNS = frozenset("!@#$%^&*+=?~|;§€£°²³")


def is_placeholder(value: str) -> bool:
    """Is the value a placeholder? Variables, masks, "your-key", one or two characters repeated."""
    value = value[:_JUDGED_CHARACTERS]
    if not value or value[0] in "[<{(" or len(set(value)) < 3 or value.startswith(_PUBLIC):
        return True
    if _VARIABLE.fullmatch(value) or _REFERENCE.match(value):
        return True
    return bool(_PLACEHOLDER_PARTS.search(value) or _TEMPLATE.search(value) or _REGULAR_EXPRESSION.search(value))


def is_mask(secret: str) -> bool:
    """Is it a masked or dummy key: the right format, but repeated characters, or words that ask for the real key?"""
    low = secret.lower()
    if "xxxxx" in low or "your" in low or "00000000" in low or "1234567890abcdef" in low:
        return True
    return len(set(secret[-12:])) < 3 or "***" in secret or "..." in secret


def is_literal_password(value: str) -> bool:
    """For a context that is certainly a password: any value but a placeholder, a name or a description."""
    value = value.strip()
    if len(value) > _JUDGED_CHARACTERS:
        return " " not in value and is_random(value) and not is_placeholder(value)
    if len(value) < 4 or value.lower() in _WORDS or is_placeholder(value) or is_field_name(value):
        return False
    if " " in value:
        return not _describes(value)
    return not _is_reference(value)


def _is_reference(value: str) -> bool:
    """Is it a file name, URL, call, attribute or constant: a reference to a value, not the value itself?"""
    if _FILE.fullmatch(value) or _URL.search(value) or _CALL.match(value) or _CONSTANT.fullmatch(value):
        return True
    return ("." in value or "/" in value) and is_words(value) and not any(map(str.isdigit, value))


def is_clear_password(value: str) -> bool:
    """For an uncertain context, such as a sentence: letters mixed with digits or signs, and not a usual name."""
    if not 6 <= len(value) <= 80 or " " in value or not is_literal_password(value):
        return False
    letters, digits = sum(map(str.isalpha, value)), sum(map(str.isdigit, value))
    signs = sum(letter in _SIGNS for letter in value[:-1])
    if not letters or not (digits or signs) or _ALGORITHM.fullmatch(value) or _DIGEST.fullmatch(value):
        return False
    if _EMAIL.fullmatch(value):
        return False
    return not (
        _DATE_OR_NUMBER.fullmatch(value) or _UUID.fullmatch(value) or value.startswith(("/", "./", "../", "~/"))
    )


def is_strong_password(value: str) -> bool:
    """Does it have three of capitals, small letters, digits and signs, unlike any ordinary word?"""
    kinds = (str.isupper, str.islower, str.isdigit, lambda letter: letter in _SIGNS)
    return (
        is_clear_password(value) and sum(any(map(kind, value)) for kind in kinds) >= 3 and not _CAMEL.fullmatch(value)
    )


def is_phrase(value: str) -> bool:
    """Is it a passphrase: three to ten words in lower case that are not a description?"""
    words = value.split()
    return 3 <= len(words) <= 10 and value == value.lower() and not _describes(value) and is_literal_password(value)


def are_unusual(words: Iterable[str]) -> bool:
    """Is none of them a type, a state, an algorithm or the name of a field?"""
    return _WORDS.isdisjoint(words)


def is_field_name(value: str) -> bool:
    """Is it the name of a field or variable rather than a value: `newPassword`, `password_hash`, "Mot de passe"?"""
    low = value.lower()
    if any(map(str.isdigit, value)):
        return False
    bare = value.translate(str.maketrans("", "", "_- .:?!'’")).isalpha()
    return bare and any(word in low for word in _MENTIONS)


def _describes(value: str) -> bool:
    """Is it a label, a hint or a message rather than a passphrase?"""
    if len(value) > 120 or value.endswith((".", "?", ":", "…")):
        return True
    words = re.findall(r"[^\W\d_]+", value.lower())
    return not words or any(word in _DESCRIBING for word in words)


def is_key(value: str, *, uuids: bool = False) -> bool:
    """Is it a key or token, which looks random? UUIDs count only with `uuids`, if the name is certain."""
    value = value[:_JUDGED_CHARACTERS]
    if len(value) < 8 or value.lower() in _WORDS or " " in value or is_placeholder(value) or _is_reference(value):
        return False
    if _DATE_OR_NUMBER.fullmatch(value) or _DIGEST.fullmatch(value) or _SHORT_HASH.fullmatch(value) or is_mask(value):
        return False
    if _UUID.fullmatch(value):
        return uuids
    return is_random(value)


def is_unmistakable_key(value: str, *, hexadecimal: bool) -> bool:
    """Is it random by all criteria? For names that may not mean a secret. `hexadecimal`: accept 32 such digits."""
    if not is_key(value) or value.startswith("-"):
        return False
    if _KEY_OF_32_BYTES.fullmatch(value) or (hexadecimal and _HEXADECIMAL_KEY.fullmatch(value)):
        return True
    kinds = [sum(map(kind, value)) for kind in (str.isupper, str.islower, str.isdigit)]
    return bool(_ONE_WORD.fullmatch(value)) and min(kinds) >= 3 and not is_words(value) and entropy(value) >= 3.8


def are_key_bytes(numbers: str) -> bool:
    """Are these numbers the bytes of a key: random, and as many as keys have?"""
    parsed = [int(number, 0) if "x" in number else int(number) for number in numbers.replace(" ", "").split(",")]
    spread = max(parsed) > 150 and min(parsed) < 100 and len(set(parsed)) > len(parsed) * 0.7
    return len(parsed) in (16, 24, 32, 64) and max(parsed) < 256 and spread and parsed != sorted(parsed)


def is_random(value: str) -> bool:
    """Does it look random: not words, and with many different characters?"""
    value = value[:_JUDGED_CHARACTERS]
    if _BASE32.fullmatch(value) and any(map(str.isdigit, value)):
        return True
    parts = _PART.findall(value)
    longest = max(parts, key=len, default="")
    digits = sum(map(str.isdigit, longest))
    if len(value) >= 20 and len(longest) >= 20 and not digits:
        capitals = sum(map(str.isupper, longest))
        return 0.25 <= capitals / len(longest) <= 0.75 and entropy(value) >= 3.5
    if is_words(value):
        return False
    return entropy(value) >= (3.0 if len(value) >= 16 else 2.7)


def is_words(value: str) -> bool:
    """Is it only words and numbers, joined by signs or capitals: `text-embedding-3-small`, `Sprint2Report`?"""
    for part in _PART.findall(value[:_JUDGED_CHARACTERS]):
        pieces = _PIECE.findall(part)
        if len(pieces) > 1 + len(part) // 5:
            return False
        if part.isalpha() and not part.islower() and not part.isupper() and len(pieces) > 4 + len(part) // 6:
            return False
    return True


def entropy(value: str) -> float:
    """Bits per character."""
    return -sum(n / len(value) * math.log2(n / len(value)) for n in Counter(value).values())


def credentials_in(encoded: str) -> bool:
    """Is this the base64 of `user:password`?"""
    if len(encoded) > _JUDGED_CHARACTERS:
        return False
    try:
        decoded = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    user, colon, password = decoded.partition(":")
    return bool(colon and password and user.isprintable() and password.isprintable())
