"""Which word of a sentence is a password? "the password is …", « le mot de passe est … », 密码是…

In a sentence only the surrounding words distinguish a value from a description ("the password is wrong"), so
a value has to look like a password, be in quotation marks, or be a word that is not a description.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from spec_kit_memory.core import secret_values as values
from spec_kit_memory.core.patterns import Pattern
from spec_kit_memory.core.secret_names import in_mark, quoted
from spec_kit_memory.core.secret_values import Span
from spec_kit_memory.core.words import content

# Nouns for passwords, and for keys and tokens, in lower case -> the kind of secret.
NOUNS: dict[str, str] = {
    **dict.fromkeys(
        (
            *("password", "passphrase", "pass phrase", "passcode", "passwd", "pwd", " pw", " pass"),
            *("wpa2 key", "wpa key", "wi-fi key", "wifi key", "network key", "wlan key"),
            *(
                "passwort",
                "kennwort",
                "wachtwoord",
                "lösenord",
                "adgangskode",
                "salasana",
                "heslo",
                "jelszó",
                "lozinka",
                *("lösenordet", "passord", "passordet", "adgangskoden", "lykilorð", "geslo", "parool", "slaptažodis"),
                *("contrasenya", "pasahitza", "contrasinal", "wagwoord", "kata laluan", "nenosiri", "fjalëkalimi"),
            ),
            *(
                "mot de passe",
                "contraseña",
                "contrasena",
                "senha",
                "parola",
                "hasło",
                "haslo",
                "şifre",
                "şifresi",
                "sifre",
            ),
            *(
                "пароль",
                "пароля",
                "гасло",
                "парола",
                "κωδικός",
                "סיסמה",
                "סיסמא",
                "كلمة المرور",
                "كلمة السر",
                "رمز عبور",
            ),
            *("पासवर्ड", "পাসওয়ার্ড", "கடவுச்சொல்", "პაროლი", "գաղտնաբառ", "รหัสผ่าน", "mật khẩu", "kata sandi"),
            *("密码", "密碼", "口令", "パスワード", "비밀번호", "암호"),
        ),
        "password",
    ),
    **dict.fromkeys(
        ("api key", "access key", "secret key", "private key", "private key id", "api token", "access token"), "api-key"
    ),
    **dict.fromkeys(("secret", "token"), "secret"),
}

_OF = (
    "for|of|on|in|at|from|für|fürs|von|vom|zum|zur|der|des|im|am|pour|de|du|d'|para|do|da|del|della|di|per|van|voor|"
    "z|i|k|ke|pro|na|till|til|från|от|для|до|к|на|в|la|le|el|si"
)
# Qualifiers between the noun and the value: "for the staging database", "(until Friday)".
_QUALIFIED = rf"(?:[ \t]{{1,3}}(?:{_OF})[ \t]{{1,3}}[^\n:=;!?]{{1,60}}?|[ \t]{{0,3}}\([^()\n]{{1,60}}\))?"
_VERB = (
    "is|was|will be|used to be|stays|remains|"
    "ist|war|lautet|heißt|est|était|es|era|é|è|e'|jest|brzmi|to|är|er|on|este|je|a|és|adalah|ialah|"
    "là|это|היא|הוא|هي|هو|है"
)
_ADVERB = "now|currently|still|just|set to|changed to|jetzt|nun|aktuell|maintenant|ahora|agora|adesso|nu|teraz|теперь"
_IS = Pattern(
    rf"s?{_QUALIFIED}[ \t]{{0,3}}"
    rf"(?:[ \t](?P<verb>{_VERB})(?:[ \t](?:{_ADVERB}))?(?:[ \t]?:)?[ \t]"
    r"|['’]s[ \t]"
    r"|[ \t]?:(?:[ \t]{1,3}|(?=[\"'`«“„*]))|[ \t]?：[ \t]?|[ \t][—–-][ \t]"
    r"|[ \t]?(?:是|为|為|改为|改為|は|が|는|은)[ \t]?[:：]?[ \t]?)[*_]{0,2}",
    re.IGNORECASE,
)
# What follows a label to the end of its line, if it is only words in lower case.
_PHRASE = Pattern(r"(?<=:)[ \t*_]{1,4}([a-z]{2,12}(?: [a-z]{2,12}){3,9})(?=[.;]?[*_ \t\r]{0,4}(?:\n|\Z))")
_SPACE = Pattern(r"\s{1,20}")
_NETRC = Pattern(r"(?:^|\s)(?:machine\s{1,20}\S{1,100}|default)\s{1,20}login\s{1,20}\S{1,100}\s{1,20}\Z")
_WORD = Pattern(r"\S{4,200}")
_TO = Pattern(rf"{_QUALIFIED}[ \t]to[ \t]{{1,3}}", re.IGNORECASE)
_FROM = Pattern(
    r"[ \t](?:(?:was|is|has[ \t]been|got)[ \t])?(?P<verb>changed|rotated|reset)?[ \t]?from[ \t]{1,3}", re.IGNORECASE
)
_CHANGES = Pattern(
    r"\b(?:set|sets|setting|change|changed|changing|reset|update|updated|rotate|rotated)\b[^\n.;:]{0,40}\Z",
    re.IGNORECASE,
)
_WITH = ("with", "using", "use", "by", "and", "und", "mit", "avec", "con", "com")
_BARE_LETTER = r"[^\s\"'`«»“”„‘,;()<>\[\]，。、；「」]"
_BARE = Pattern(rf"({_BARE_LETTER}{{4,80}}+)(?!{_BARE_LETTER})")
_ASCII = Pattern(r"([!#-&*-~]{4,80}+)(?![!#-&*-~])")
_SNAKE = Pattern(r"[a-z]+(?:_[a-z0-9]+)+")
_PASS = Pattern(r"(?:[ \t](?:is|was)(?:[ \t](?:now|still))?|['’]s)[ \t][*_]{0,2}", re.IGNORECASE)
# Long enough, and without punctuation inside, to be a key even where only the noun precedes it.
_LONG_KEY = Pattern(r"(?=[A-Za-z_-]{0,80}\d)[A-Za-z0-9_-]{20,200}+(?![\w./:=(\[-])")
_CONJUNCTION = (
    "and|or|but|please|until|for|on|in|at|now|then|which|so|as|to|if|with|und|oder|bitte|bis|für|et|ou|y|o|por|para|e|"
    "пока|и"
)
_AFTER = Pattern(
    rf"[.,;:!?)\]»”\"'`*_]*(?:$|\s*\n|[ \t]*[(—–-]|[ \t]+(?:{_CONJUNCTION})\b|(?<=[.,;:!?)\]»”])|[^\x00-\x7f])",
    re.MULTILINE | re.IGNORECASE,
)
_CLAUSE_END = Pattern(r"[.,;!?)]{1,2}(?:\s|$)|[ \t]*$", re.MULTILINE)
_LINKS = (" is ", " as ", " ist ", " als ", " est ")
_PLAIN_WORD = Pattern(r"[A-Z]?[a-z]{5,30}")
# Words that describe a password ("the password is wrong"), in addition to the endings below and to those that
# values.is_literal_password rejects.
_PREDICATES = frozenset(
    re.findall(
        r"\w+",
        """
    about above absent abroad accepted after again against alike allowed alone already also always another anything
    asked available aware away back bad based because before behind being below best better between beyond blank
    both broken built called case cheap checked clear close common compared compromised correct cracked created
    crucial current dead delivered different done down during each easy either empty enough equal everything exactly
    exposed false fine first fixed fresh generic given gone good great guessed hard held here human identical
    important incorrect inside instead just kept known last late later left like local long longer lost made more
    most much near necessary needed next nonsense nothing obvious often okay older once only open ours outside over
    part passed perfect plain plaintext poor possible private probably public question ready real rejected right
    rotten safe same secure seen sent several shared short shown similar simple simply some something somewhere soon
    sound still stored strong such supplied sure taken temporary that their theirs them then there these they this
    those through together true trivial twice under unique until useless using usually valid vital waiting weak what
    when where whether which while who whose within without working worse wrong yours zero
        """,
    )
)
_PREDICATE_ENDING = Pattern(
    r".*(?:ed|en|ly|ing|able|ible|ive|al|ous|ic|ent|ant|ful|less|ory|ary|ness|ment|tion|sion|ity|ance|ence)"
)
_PIN = Pattern(
    rf"s?{_QUALIFIED}[ \t]?(?:[ \t](?:is|was|ist|lautet|est|es)[ \t](?:now[ \t])?|[:=][ \t]?|[ \t](?=\d))"
    r"[`\"'*]{0,2}(\d{4,8})(?![\d.:/-]{0,8}\d)",
    re.IGNORECASE,
)
# Words for a login, after which a user and a password may follow: "log in with ana / …", "basic auth ana:…".
LOGINS = (
    *("login", "log in", "logs in", "logged in", "logging in", "log into", "logs into", "logged into", "log on"),
    *("sign in", "signs in", "signed in", "signing in", "sign-in", "sign into", "signed into", "basic auth"),
    *("credential", "creds", "account", "connect", "authenticate"),
    *("zugangsdaten", "anmeldedaten", "anmelden", "identifiants"),
)
_LOGIN_CHARACTERS = 90  # the pair begins at most this far after the word
_LOGIN_OPENING = Pattern(r"[:=]|[ \t](?:is|are|with|as|using|use|by|via|mit|als|avec)(?=[ \t])", re.IGNORECASE)
_USER = r"[\"'`*]{0,2}(?P<user>[^\W\d][\w.+-]{1,39}(?:@[\w.-]{3,60})?)[\"'`*]{0,2}"
_VALUE = r"(?P<password>[^\s\"'`,;()|/]{6,80})"
_SLASH = r"[ \t]?[/:|][ \t]?"
_PAIR = Pattern(
    rf"[ \t]{{0,4}}(?:(?:the[ \t])?(?:user(?:name)?|account)[ \t])?{_USER}"
    rf"(?:(?P<slash>{_SLASH})|,?[ \t](?:and|with|und|mit)[ \t]|,[ \t]|[ \t]\()[\"'`*]{{0,2}}{_VALUE}",
    re.IGNORECASE,
)
_PLAIN_PAIR = Pattern(rf"s?[ \t]{{1,4}}{_USER}(?P<slash>{_SLASH})[\"'`*]{{0,2}}{_VALUE}", re.IGNORECASE)
_PAIR_BEFORE = Pattern(
    rf"(?<![^\s(]){_USER}(?P<slash>{_SLASH})[\"'`*]{{0,2}}{_VALUE}[\"'`*)]{{0,3}}[ \t](?:to[ \t])?\Z", re.IGNORECASE
)
_USER_AND_PASSWORD = Pattern(
    rf"(?:name)?[ \t]?(?:is|[:=])?[ \t]?{_USER}[ \t]?[,;/]?[ \t](?:(?:and|with|has|the|a)[ \t]){{0,3}}"
    rf"(?:pass(?:word|phrase)?|pwd?)[ \t]?(?:is|[:=])?[ \t]?[\"'`*]{{0,2}}{_VALUE}",
    re.IGNORECASE,
)
_ARGUMENT = Pattern(r"[A-Za-z_]\w*=(?!=?\Z)")
# Next to a user's name, a word with a number is a password, unless it is one of these things that are numbered.
_NUMBERED = Pattern(r"(?P<stem>[A-Za-z]?[a-z]{3,15})\d{1,4}[!?.]?")
_NUMBERED_THINGS = frozenset(
    re.findall(
        r"\w+",
        """
    account admin agent auth board branch build client customer debian demo device editor gate group guest host issue
    java keycloak member microsoft node office page phase postgres prod python release role room server sprint staging
    step team tenant test tester ticket ubuntu user version viewer webauthn windows
        """,
    )
)
_SEED_WORD = r"(?:\d{1,2}[.)] ?)?[a-z]{3,8}"
_SEED = Pattern(
    r"[\w ()-]{0,40}?[\"'`]?[ \t]{0,4}(?:is|was|[:=])[ \t]{0,4}[\"'`]?\n?"
    rf"({_SEED_WORD}(?:[ \t,\n]{{1,3}}{_SEED_WORD}){{11,23}})(?![a-z])",
    re.IGNORECASE,
)
_CODE = Pattern(
    r"(?<![\w-])(?=[a-z0-9-]{0,20}\d)[a-z0-9]{4,8}(?:-[a-z0-9]{4,8}){1,7}(?![\w-])"
    r"|(?<![\w-])(?=[a-z0-9]{0,11}\d)(?=[a-z0-9]{0,11}[a-z])[a-z0-9]{8,12}(?![\w-])"
    r"|(?<![\w.-])\d{4} ?\d{4}(?![\w.-])",
    re.IGNORECASE,
)
_GROUPS = Pattern(
    r"(?=[a-z ]{0,14}\b[b-df-hj-np-tv-xz]{4}\b)[a-z]{4}(?: [a-z]{4}){3}(?![a-z])"
)  # an app password: four groups of four letters
_CODES = Pattern(
    r"s?(?:[ \t][^\n:]{0,40})?:[^\n]{0,400}"
    r"(?:\n[ \t>]{0,8}(?:[-*+]|\d{1,2}[.)])?[ \t]{0,4}`?[A-Za-z0-9][A-Za-z0-9 -]{3,40}`?[ \t\r]{0,4}(?=\n|\Z)){0,20}"
)


def sentence(text: str, start: int, end: int, kind: str) -> Iterator[Span]:
    """The password in a sentence whose noun ("password") is located from `start` to `end`."""
    if in_mark(text, start) or (text[end - 1].isascii() and text[end : end + 1].isalpha() and text[end] not in "sS"):
        return
    if text[start:end].lower() == " pass":
        yield from _said_of_a_pass(text, end, kind)
        return
    for span in (
        _labelled(text, start, end, kind),
        _changed(text, start, end, kind),
        *_replaced(text, start, end, kind),
        _reversed(text, start, kind),
    ):
        if span is not None:
            yield span


def _said_of_a_pass(text: str, end: int, kind: str) -> Iterator[Span]:
    """The value after "pass". A pass may also be a mountain road or a test run, so only a clear password counts."""
    match = _PASS.match(text, end)
    span = _value(text, match.end(), kind, plain=False) if match else None
    if span is not None:
        value = text[span[0] : span[1]]
        if not _SNAKE.fullmatch(value) and (values.is_strong_password(value) or not values.is_words(value)):
            yield span


def _labelled(text: str, start: int, end: int, kind: str) -> Span | None:
    match = _IS.match(text, end)
    if match is not None:
        colon = text.find(":", end, match.end())
        is_label = colon >= 0 and kind == "password" and text[start:end] != "passwd"  # a program, which reports so
        phrase = _PHRASE.match(text, colon + 1) if is_label else None
        if phrase is not None and _is_unquoted_phrase(phrase[1]):
            return *phrase.span(1), kind
        return _value(text, match.end(), kind, plain=(match["verb"] or "").lower() in ("is", "was"))
    space = _SPACE.match(text, end)
    if space is None:
        return None
    if kind != "password" and (key := _LONG_KEY.match(text, space.end())) and values.is_key(key[0]):
        return *key.span(), kind
    if _NETRC.search(text, max(0, start - 250), start) and (own := _WORD.match(text, space.end())):
        return (*own.span(), kind) if values.is_literal_password(own[0]) else None
    if text[start].isascii() and not _is_introduced(text, start):
        return None
    return _value(text, space.end(), kind, plain=False)


def _is_unquoted_phrase(value: str) -> bool:
    """Is it a passphrase, as in "password: correct horse battery staple"? A note has words that connect, and plurals
    or verbs in the third person."""
    words = value.split()
    described = sum(word in _PREDICATES or _PREDICATE_ENDING.fullmatch(word) is not None for word in words)
    inflected = any(word.endswith("s") and not word.endswith("ss") for word in words)
    connected = len(content(value)) < len(words)
    return values.is_phrase(value) and values.are_unusual(words) and described < 2 and not inflected and not connected


def _is_introduced(text: str, start: int) -> bool:
    """Is the noun in "with the password …", or in `login ana password …` of a .netrc file?"""
    words = ["", "", *text[max(0, start - 130) : start].lower().split()]
    if words[-1] == "the":
        words.pop()
    return words[-1] in _WITH or words[-2] in ("login", "user")


def _changed(text: str, start: int, end: int, kind: str) -> Span | None:
    match = _TO.match(text, end)
    if match is None or not (
        _CHANGES.search(text, max(0, start - 60), start) or _CHANGES.search(text, end, match.end())
    ):
        return None
    return _value(text, match.end(), kind, plain=False)


def _replaced(text: str, start: int, end: int, kind: str) -> Iterator[Span | None]:
    """The old and the new password in "the password was changed from A to B"."""
    match = _FROM.match(text, end)
    if match is None or not (match["verb"] or _CHANGES.search(text, max(0, start - 60), start)):
        return
    before = _value(text, match.end(), kind, plain=False)
    yield before
    quote = before is not None and text[before[1] : before[1] + 1] in tuple("\"'`»”’")
    then = _TO.match(text, before[1] + quote) if before is not None else None
    if then is not None:
        yield _value(text, then.end(), kind, plain=False)


def _value(text: str, at: int, kind: str, *, plain: bool) -> Span | None:
    inside = quoted(text, at)
    if inside is not None:
        value = text[inside[0] : inside[1]]
        good = values.is_literal_password(value) if kind == "password" else values.is_key(value)
        return (inside[0], inside[1], kind) if good else None
    groups = _GROUPS.match(text, at) if kind == "password" else None
    if groups is not None:
        return groups.start(), groups.end(), kind
    match = (_ASCII if _is_unspaced(text[at - 1]) else _BARE).match(text, at)
    if match is None:
        return None
    value = _trimmed(match[1])
    after = at + len(value)
    if kind != "password":
        return (at, after, kind) if len(value) >= 16 and values.is_key(value) else None
    if values.is_strong_password(value) or (values.is_clear_password(value) and _AFTER.match(text, after)):
        return at, after, kind
    if plain and _is_plain_secret(value) and _CLAUSE_END.match(text, after):
        return at, after, kind
    return None


def _trimmed(value: str) -> str:
    """The value without the rest of the sentence and without markup around it."""
    for cut in ("です", "だ", "है", "。", "，"):
        value = value.partition(cut)[0] if not value.startswith(cut) else value
    return value.rstrip(".,;:!?*_")


def _is_unspaced(letter: str) -> bool:
    return "\u3040" <= letter <= "\u9fff" or "\uff00" <= letter <= "\uffef"


def _is_plain_secret(value: str) -> bool:
    """Is it a word that is not a description, as in "the password is swordfish"?"""
    low = value.lower()
    if not _PLAIN_WORD.fullmatch(value) or low in _PREDICATES or _PREDICATE_ENDING.fullmatch(low):
        return False
    return values.is_literal_password(value)


def _reversed(text: str, start: int, kind: str) -> Span | None:
    """ "hunter2 is the password", "use hunter2 as the new password"."""
    if kind != "password":
        return None
    link = max([text.rfind(words, max(0, start - 40), start) for words in _LINKS])
    if link < 0 or len(text[link:start].split()) > 4 or "\n" in text[link:start]:
        return None
    words = text[max(0, link - 100) : link].split()
    value = words[-1].strip("`\"'*.,;:()") if words else ""
    if not values.is_clear_password(value) or values.is_words(value):
        return None
    first = text.rfind(value, max(0, link - 100), link)
    return first, first + len(value), kind


def pin(text: str, start: int, end: int) -> Iterator[Span]:
    """The digits of a PIN or door code."""
    match = _PIN.match(text, end)
    if match is not None and not in_mark(text, start) and len(set(match[1])) > 1:
        yield match.start(1), match.end(1), "pin"


def login(text: str, start: int, end: int) -> Iterator[Span]:
    """ "login: admin / …", "log in as ana with …", "use ana:… to sign in"."""
    if text[max(0, start - 1) : start].isalnum():
        return
    last = text.find("\n", end, end + _LOGIN_CHARACTERS)
    last = end + _LOGIN_CHARACTERS if last < 0 else last
    openings = [_PAIR.match(text, opening.end()) for opening in _LOGIN_OPENING.finditer(text, end, last)]
    before = _PAIR_BEFORE.search(text, max(0, start - _LOGIN_CHARACTERS), start)
    for match in (_PLAIN_PAIR.match(text, end), before, *openings):
        if match is not None and (span := _paired(match)):
            yield span


def user_and_password(text: str, start: int, end: int) -> Iterator[Span]:
    """ "user ana, pass …"."""
    match = _USER_AND_PASSWORD.match(text, end)
    if match is not None and (span := _paired(match)):
        yield span


def _paired(match: re.Match[str]) -> Span | None:
    """The password next to a user's name, if it looks like one; an unclear separator requires a clearer password."""
    value, user = match["password"].rstrip(".,;:*"), match["user"]
    if not values.is_clear_password(value) or value.partition("@")[0] == user or _ARGUMENT.match(value):
        return None
    if values.is_words(value) and not values.is_strong_password(value):
        numbered = _NUMBERED.fullmatch(value)
        between = match.groupdict().get("slash", "said")
        if not numbered or between in (None, "/") or any(map(str.isdigit, user)) or user != user.lower():
            return None
        stem = numbered["stem"].lower()
        if stem in _NUMBERED_THINGS or user.startswith(stem):
            return None
    return match.start("password"), match.start("password") + len(value), "password"


def seed_phrase(text: str, start: int, end: int) -> Iterator[Span]:
    """The twelve to twenty-four words of a wallet's seed phrase."""
    match = _SEED.match(text, end)
    if match is not None:
        yield match.start(1), match.end(1), "seed-phrase"


def codes(text: str, start: int, end: int) -> Iterator[Span]:
    """The codes of a list of recovery or backup codes."""
    match = _CODES.match(text, end)
    if match is None:
        return
    first = text.find(":", end, match.end()) + 1
    for code in _CODE.finditer(text, first, match.end()):
        yield code.start(), code.end(), "recovery-code"
