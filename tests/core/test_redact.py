"""Secrets are replaced, everything that only looks like one stays, and lines stay where they are.

All secrets here are made up and put together from pieces, so that this file holds none.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core import redact as redact_module
from spec_kit_memory.core.redact import redact, redact_data
from spec_kit_memory.core.secret_values import Span
from spec_kit_memory.errors import SecretScanFailed

ALNUM = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC3dE5fG7hJ9kL2mN4pQ6rS8tU0vW2xY4zA6b"
HEX = "9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c5b4a3928170615e4d3c2b1a0"
UPPER = "Q7RT2VXZ9KMP4WBN"


def jwt() -> str:
    parts = [json.dumps({"alg": "HS256", "typ": "JWT"}), json.dumps({"sub": "1234567890", "admin": True})]
    encoded = [base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, "dQ3xT8kVb1nM5pR7sW9yZ2aC4eF6gH0jKlL"])


PROVIDERS = {
    "aws-key": "AK" + "IA" + UPPER,
    "github-token": "gh" + "p_" + ALNUM[:36],
    "gitlab-token": "glp" + "at-" + ALNUM[:20],
    "slack-token": "xo" + "xb-123456789012-" + ALNUM[:24],
    "stripe-key": "sk_" + "live_" + ALNUM[:24],
    "anthropic-key": "sk-" + "ant-api03-" + ALNUM[:40],
    "openai-key": "sk-" + "proj-" + ALNUM[:40],
    "google-key": "AI" + "za" + ALNUM[:35],
    "npm-token": "np" + "m_" + ALNUM[:36],
    "pypi-token": "pypi-" + "AgEIcHlwaS5vcmc" + ALNUM[:60],
    "twilio-key": "S" + "K" + HEX[:32],
    "sendgrid-key": "S" + "G." + ALNUM[:22] + "." + ALNUM[:43],
    "telegram-token": "1234567890" + ":A" + "A" + ALNUM[:33],
    "huggingface-token": "h" + "f_" + ALNUM[:34],
    "digitalocean-token": "dop_" + "v1_" + HEX,
    "shopify-token": "shp" + "at_" + HEX[:32],
    "databricks-token": "da" + "pi" + HEX[:32],
    "groq-key": "gs" + "k_" + ALNUM[:52],
    "docker-token": "dckr_" + "pat_" + ALNUM[:27],
    "vault-token": "hv" + "s." + ALNUM[:28],
    "jwt": jwt(),
}


@pytest.mark.parametrize("kind", PROVIDERS)
@pytest.mark.parametrize("around", ["{}", "the key is {} now", "`{}`", '"{}",', "export X={}", "| key | {} |", "({})."])
def test_a_provider_key_is_replaced_wherever_it_stands(kind: str, around: str) -> None:
    secret = PROVIDERS[kind]
    result = redact(around.format(secret))
    assert secret not in result.text
    assert result.text == around.format(f"[REDACTED:{kind}]")
    assert result.counts == {kind: 1}


@pytest.mark.parametrize(
    ("line", "secret", "kind"),
    [
        ('password = "{}"', "hunter2", "password"),
        ("password: {}", "Tr0ub4dor&3", "password"),
        ("password: {}", "hunter2", "password"),
        ("services:\n  db:\n    MYSQL_ROOT_PASSWORD: {}\n    PORT: 1", "rootpw99", "password"),
        ("- passwd: {}  # for now", "abcd1234", "password"),
        ("DB_PASSWORD={}", "correcthorse", "password"),
        ("DB_PASS={}", "s3cr3tpw", "password"),
        ('"password": "{}"', "letmeinplease", "password"),
        ("password: str = '{}'", "hunter2hunter2", "password"),
        ("**Password:** `{}`", "Xy7kd92m", "password"),
        ("| Password | `{}` |", "Xy7kd92mQ", "password"),
        ("mysql --password {} db", "Xy7kd92m", "password"),
        ("mysql --password={} db", "Xy7kd92m", "password"),
        ("Server=db;User Id=sa;Password={};Encrypt=yes", "P4ssphrase!x", "password"),
        ("dbPassword := '{}'", "aZ9!kk2", "password"),
        ("api_key: {}", "b7Gk29xLmQ4vT8wZ", "api-key"),
        ("apiKey: '{}',", "b7Gk29xLmQ4vT8wZ", "api-key"),
        ("X-Api-Key: {}", HEX[:32], "api-key"),
        ("VOYAGE_API_KEY={}", "pa-" + ALNUM[:30], "api-key"),
        ("aws_secret_access_key = {}", ALNUM[:20] + "/" + ALNUM[20:39], "api-key"),
        ('client_secret: "{}"', "kQ8~xY2vB7nM4pL9sD3f", "secret"),
        ('"access_token": "{}"', ALNUM[:40], "token"),
        ("Authorization: Bearer {}", ALNUM[:40], "token"),
        ("Authorization: Basic {}", base64.b64encode(b"admin:Tr0ub4dor&3xyz").decode(), "token"),
        ("postgres://app:{}@db.internal:5432/app", "s3cr3tPw", "connection-string"),
        ("redis://:{}@cache:6379/0", "s3cr3tPw", "connection-string"),
        ("mongodb+srv://root:{}@cluster0.mongodb.net", "p%40ss7word", "connection-string"),
        ("https://user:{}@git.corp.net/x.git", "tok3nvalue", "connection-string"),
        ("AccountName=x;AccountKey={};EndpointSuffix=core.windows.net", ALNUM[:66] + ALNUM[:20] + "==", "azure-key"),
        ("https://x.blob.core.windows.net/c?sv=1&sig={}", ALNUM[:43] + "%3D", "azure-key"),
        ("AZURE_CLIENT: {}", "abc8" + "Q~" + ALNUM[:34], "azure-key"),
        ("https://hooks.slack.com/services/{}", "T0AAAAAA1/B0BBBBBB2/" + ALNUM[:24], "slack-webhook"),
        ("https://discord.com/api/webhooks/123456789012345678/{}", ALNUM[:68], "discord-webhook"),
        ("mailchimp: {}", HEX[:32] + "-us12", "mailchimp-key"),
        ("discord bot {}", "MT" + ALNUM[:22] + ".Gx1yZ2." + ALNUM[:27], "discord-token"),
    ],
)
def test_a_value_given_to_a_telling_name_is_replaced_and_the_name_stays(line: str, secret: str, kind: str) -> None:
    result = redact(line.format(secret))
    assert result.text == line.format(f"[REDACTED:{kind}]")
    assert result.counts == {kind: 1}


@pytest.mark.parametrize(
    "text",
    [
        "password: string",
        "password: SHA256",
        "- Password: bcrypt12",
        "The password: section2 of the guide has it.",
        "password: see2 below",
        "password: str",
        "password?: string;",
        "password: z.string().min(8)",
        "def login(user, password: str = None) -> Token:",
        "password = getpass()",
        'password = os.environ["DB_PASSWORD"]',
        "password = process.env.DB_PASSWORD",
        "password=${DB_PASSWORD}",
        "password: $DB_PASSWORD",
        "password: {{ vault.db }}",
        "password: <your-password>",
        "password: xxxxxxxx",
        "password: ********",
        "PASSWORD=changeme",
        "neo4j_password=NEO4J_PASSWORD,",
        'password: "your-password-here"',
        "Password: must be eight characters or more",
        "| Differentiation | Pass | L1≠L2≠L3 confirmed |",
        "the token: budget of 4000 is kept",
        "tokens: 4000",
        "token_count = 123456789",
        "token budget: 2000-4000",
        "max_tokens: 100000",
        "token: Token",
        "token = request.headers.authorization",
        "token = getToken(user2)",
        "secret: true",
        "secret_name: my-app-secret",
        "secrets: inherit",
        "api_key: YOUR_OPENAI_API_KEY_HERE",
        'OPENAI_API_KEY="sk-your-key-here"',
        "api_key=sk-xxxxxxxxxxxxxxxxxxxxxxxx",
        "api_key: example-key-1234567890",
        "api_key = settings.api_key",
        "access_key: config/keys/access.json",
        "embedding token model: text-embedding-3-small",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b fixes it",
        "token 3f78685 is a short hash",
        "id: 6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        "session token: 6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        "sha256:" + HEX,
        "secret: sha256:" + HEX,
        "integrity sha512-" + ALNUM + "==",
        "![x](data:image/png;base64," + ALNUM * 4 + "==)",
        "https://example.com:8080/a@b",
        "postgres://user:password@localhost/db",
        "postgres://user:${PASS}@host/db",
        "git@github.com:owner/repo.git",
        "the header is `-----BEGIN PRIVATE KEY-----` and the footer `-----END PRIVATE KEY-----`",
        "regex: /-----BEGIN (?:RSA |EC )?PRIVATE KEY-----/",
        "AKIA prefix, ghp_ prefix, xoxb- prefix",
        "TASK-1 and RISK-2, AC-3",
        "skip-ant-colony-simulations-for-now-please",
        "see eyJ for the start of a token",
        "bearer tokens are sent in the header",
        "basic functionality_of_the_module works",
        "ibm cloud, discord server, hmac of the body",
    ],
)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    result = redact(text)
    assert result.text == text
    assert result.counts == {}


def private_key(kind: str = "RSA ", *, footer: bool = True) -> str:
    lines = [f"-----BEGIN {kind}PRIVATE" + " KEY-----", ALNUM[:64], ALNUM[:64], ALNUM[:30] + "=="]
    return "\n".join([*lines, *([f"-----END {kind}PRIVATE" + " KEY-----"] if footer else [])])


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
def test_a_private_key_goes_and_its_lines_are_kept(kind: str) -> None:
    result = redact(f"before\n{private_key(kind)}\nafter")
    assert ALNUM[:30] not in result.text
    assert result.text.split("\n") == ["before", *["[REDACTED:private-key]"] * 5, "after"]
    assert result.counts == {"private-key": 1}


def test_a_private_key_with_headers_goes_as_a_whole() -> None:
    header = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123\n\n"
    text = private_key().replace(ALNUM[:64], header + ALNUM[:64], 1)
    result = redact(text)
    assert "DEK-Info" not in result.text
    assert result.text.count("\n") == text.count("\n")


def test_a_private_key_that_was_cut_off_goes_but_not_the_text_below() -> None:
    result = redact(private_key(footer=False) + "\n\nThis paragraph stays.")
    assert ALNUM[:30] not in result.text
    assert result.text.endswith("\n\nThis paragraph stays.")


def test_a_private_key_on_one_line_of_json_goes() -> None:
    text = json.dumps({"key": private_key(""), "next": 1})
    result = redact(text)
    assert ALNUM[:30] not in result.text
    assert result.text.endswith('"next": 1}')


def test_several_secrets_of_one_line_are_all_counted() -> None:
    one, two = PROVIDERS["github-token"], PROVIDERS["aws-key"]
    result = redact(f"{one} and {two} and {one}")
    assert result.text == "[REDACTED:github-token] and [REDACTED:aws-key] and [REDACTED:github-token]"
    assert result.counts == {"github-token": 2, "aws-key": 1}


def test_a_provider_key_behind_a_telling_name_is_named_once() -> None:
    result = redact("GITHUB_TOKEN=" + PROVIDERS["github-token"])
    assert sum(result.counts.values()) == 1
    assert PROVIDERS["github-token"] not in result.text


def test_a_scan_that_cannot_be_done_is_an_error_and_not_a_clean_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> object:
        raise ImportError("no module named ahocorasick_rs")

    monkeypatch.setattr(redact_module, "_places", broken)
    with pytest.raises(SecretScanFailed, match="ahocorasick_rs") as raised:
        redact("nothing to see")
    assert raised.value.code == "E095"


# --- data ----------------------------------------------------------------------------------------------------


def cleaned(value: Any) -> Any:
    return redact_data(value, Counter())


@pytest.mark.parametrize(
    ("data", "clean"),
    [
        ({"password": "starfish"}, {"password": "[REDACTED:password]"}),
        ({"dbPassword": "sea star"}, {"dbPassword": "[REDACTED:password]"}),
        ({"password": "a 'b' \"c\" `d`"}, {"password": "[REDACTED:password]"}),
        ({"db": {"user": "ana", "pass": "hake9"}}, {"db": {"user": "ana", "pass": "[REDACTED:password]"}}),
        ({"password": ["starfish", "seaweed"]}, {"password": ["[REDACTED:password]"] * 2}),
        ({"auths": {"h": {"auth": "YW5hOnN0YXI="}}}, {"auths": {"h": {"auth": "[REDACTED:token]"}}}),
        ([{"name": "DB_PASSWORD", "value": "sea9star"}], [{"name": "DB_PASSWORD", "value": "[REDACTED:password]"}]),
        (
            {"kind": "Secret", "data": {"a": "x", "b": "eQ=="}},
            {"kind": "Secret", "data": dict.fromkeys("ab", "[REDACTED:kubernetes-secret]")},
        ),
        ({"kind": "ConfigMap", "data": {"a": "x"}}, {"kind": "ConfigMap", "data": {"a": "x"}}),
        (private_key().split("\n"), ["[REDACTED:private-key]"] * 5),
        ({PROVIDERS["github-token"]: "x"}, {"[REDACTED:github-token]": "x"}),
        ({"contraseña": "estrella"}, {"contraseña": "[REDACTED:password]"}),
        ({"note": f"one\ntwo {PROVIDERS['aws-key']}\nthree"}, {"note": "one\ntwo [REDACTED:aws-key]\nthree"}),
    ],
)
def test_a_secret_in_data_is_known_by_the_name_it_stands_by(data: Any, clean: Any) -> None:
    assert cleaned(data) == clean


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet="ab \n'\"`:-", max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet="ab\n:- ", max_size=6), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(PLAIN)
def test_harmless_data_of_any_shape_stays_as_it_is(data: Any) -> None:
    assert cleaned(data) == data


@given(PLAIN, st.sampled_from(sorted(PROVIDERS)))
def test_a_key_is_found_in_data_of_any_shape(data: Any, kind: str) -> None:
    assert cleaned({"a": data, "b": [PROVIDERS[kind], data]})["b"][0] == f"[REDACTED:{kind}]"


PIECES = st.sampled_from(
    [
        *PROVIDERS.values(),
        *(private_key(), private_key("", footer=False), "password=", "token: ", "://u:", "@h", "-us12", HEX, ALNUM),
        *(
            "\n",
            " ",
            '"',
            "[REDACTED:x]",
            "discord ",
            "Bearer ",
            "the password is ",
            "kind: Secret\n",
            "data:\n",
            "  a: ",
            "curl -u a:",
            "|---|\n",
            "| password |",
            "é",
            "\r\n",
            "-----BEGIN ",
            "sk-",
            "İ",
        ),
    ]
)
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=12)), max_size=12).map("".join)


@given(TEXTS)
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact(text)
    twice = redact(once.text)
    assert twice.text == once.text
    assert twice.counts == {}


@given(TEXTS)
def test_the_number_of_lines_is_kept(text: str) -> None:
    redacted = redact(text).text
    assert redacted.count("\n") == text.count("\n")
    assert redacted.count("\r") == text.count("\r")


@given(st.text(max_size=40).filter(lambda text: "[" not in text), st.sampled_from(sorted(PROVIDERS)))
def test_a_key_after_a_space_is_found_in_any_text(before: str, kind: str) -> None:
    assert PROVIDERS[kind] not in redact(f"{before} {PROVIDERS[kind]} {before}").text


@pytest.mark.parametrize("before", ["TOKEN_", "%22", "%2522", "x", "\\n", "\\u0022", "=3D", "\\x22", "&quot;", "__"])
@pytest.mark.parametrize(
    "kind", ["github-token", "gitlab-token", "slack-token", "stripe-key", "anthropic-key", "npm-token"]
)
def test_a_provider_key_is_found_behind_a_name_or_an_escape(kind: str, before: str) -> None:
    assert redact(before + PROVIDERS[kind] + "%22").text == f"{before}[REDACTED:{kind}]%22"


def test_keys_that_are_glued_together_all_go() -> None:
    text = (PROVIDERS["npm-token"] + PROVIDERS["github-token"] + PROVIDERS["stripe-key"]) * 50
    left = redact(text).text
    assert not any(secret in left for secret in PROVIDERS.values())
    assert ALNUM[10:30] not in left


def test_only_the_value_of_an_address_s_parameter_goes() -> None:
    text = "https://a.dev/x?user=ana&password=Hal1but!&page=2#top"
    assert redact(text).text == "https://a.dev/x?user=ana&password=[REDACTED:password]&page=2#top"


def test_a_secret_is_replaced_as_a_whole_or_not_at_all() -> None:
    """A limit in a pattern must not leave the end of a long value behind."""
    for size in (70, 90, 190, 210, 390, 410, 490, 510, 700, 1900, 2100, 3900):
        secret = (HEX * 80)[:size].replace("a", "Zq")[:size]
        for line in (
            "password={}",
            "password: {}",
            'token = "{}"',
            "PGPASSWORD={} psql",
            "mysql -p{} db",
            "the password is {}",
        ):
            left = redact(line.format(secret)).text
            assert secret in left or secret[-12:] not in left, (line, size)


def test_how_a_key_is_indented_or_quoted_stays() -> None:
    lines = private_key().split("\n")
    for indent in ("    ", "> ", ">     ", "\t"):
        text = "key: |\n" + "\n".join(indent + line for line in lines) + "\nnext: 1"
        assert redact(text).text == "key: |\n" + f"{indent}[REDACTED:private-key]\n" * len(lines) + "next: 1"


def kubernetes(kind: str, *, last: bool = False) -> str:
    head = f"kind: {kind}\n"
    return (
        f"apiVersion: v1\n{'' if last else head}data:\n  a: aGVycmluZw==\nmetadata:\n  name: x\n{head if last else ''}"
    )


@pytest.mark.parametrize("last", [False, True])
def test_only_the_values_of_a_kubernetes_secret_go(last: bool) -> None:
    secret, other = kubernetes("Secret", last=last), kubernetes("ConfigMap", last=last)
    assert redact(secret).text == secret.replace("aGVycmluZw==", "[REDACTED:kubernetes-secret]")
    together = f"{other}---\n{secret}---\n{other}"
    assert redact(together).text == together.replace(secret, redact(secret).text)
    assert redact(other).counts == {}


def test_marks_are_never_replaced_again() -> None:
    marks = " ".join(
        f"[REDACTED:{kind}]" for kind in ("password", "api-key", "token", "private-key", "kubernetes-secret")
    )
    for text in (
        marks,
        f"password: {marks}",
        f"curl -u ana:{marks}",
        f'"password": "{marks}"',
        f"password is {marks}.",
    ):
        assert redact(text).text == text


HOSTILE = [
    *("password=", "-----BEGIN ", "://a:", "eyJ", "eyJaaaaaaaa.", "token ", "-us", "discord ", 'password:"a'),
    *("-----BEGIN PRIVATE KEY-----", "AA_eyJ", "密码", "İpassword=", "password for ", "hunter2 is the password "),
    *(
        "kind: Secret\n",
        "kind: Secret\ndata:\n  a: b\n",
        '{"kind":"Secret","data":{',
        '{"kty"',
        "password,b\n",
        "|password",
    ),
    *(
        "cookie: session=",
        "?password=",
        "%3A%2F%2Fa%3A",
        "AQVNre_",
        "EAAA",
        "Private-Lines: 200\nabcd\n",
        "curl -u a:b ",
    ),
    *(
        "npm_" + ALNUM[:36],
        "[REDACTED:password]",
        "recovery codes:\n- abcd-1234\n",
        "password" + " " * 500,
        '\\"password\\":',
    ),
]


@pytest.mark.parametrize("word", HOSTILE)
def test_hostile_repetition_ends_and_keeps_its_lines(word: str) -> None:
    text = word * (60_000 // len(word))
    assert redact(text).text.count("\n") == text.count("\n")


@pytest.mark.parametrize("word", HOSTILE)
def test_time_grows_with_the_length_of_a_hostile_text_and_not_with_its_square(word: str) -> None:
    """Counted in readers' calls and rounds, not in seconds: twice the text, about twice the work."""
    short, long = (work(word * (size // len(word))) for size in (10_000, 40_000))
    assert long <= 6 * short + 100


def work(text: str) -> int:
    """How many characters are passed over and how many readers are called."""
    count = 0

    def counting(part: str, windows: Sequence[tuple[int, int]]) -> Iterator[Span]:
        nonlocal count
        count += sum(min(last, len(part)) - first for first, last in windows)
        for span in spans(part, windows):
            count += 1
            yield span

    spans = redact_module._spans_of
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redact_module, "_spans_of", counting)
        redact(text)
    return count


def test_a_text_of_nothing_but_telling_words_loses_the_lines_that_they_are_in() -> None:
    """To judge every one of a million places would take a quarter of a minute; whoever made it wants that."""
    crowded = "pw : " * 70_000
    text = f"# A heading\n\n{crowded}\n\nThe numbat digs.\n"
    assert redact(text).text == "# A heading\n\n[REDACTED:secret]\n\nThe numbat digs.\n"


def test_a_long_log_that_counts_tokens_stays_as_it_is() -> None:
    line = '{"prompt_tokens": 12, "completion_tokens": 34, "total_tokens": 46}\n'
    text = line * 3_000
    assert redact(text).text == text


# --- more of them than anybody writes ----------------------------------------------------------------------------

CROWDS = {
    "lines": lambda number: f"password: {made_up(number)}\n",
    "one line": lambda number: f"password={made_up(number)} ",
    "sentences": lambda number: f"the password is {made_up(number)}, ",
    "JSON in a string": lambda number: f'\\"password\\":\\"{made_up(number)}\\",\\n',
}


def made_up(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()[:12].upper().replace("0", "x") + "z"


@pytest.mark.parametrize("crowd", CROWDS)
def test_of_tens_of_thousands_of_passwords_none_is_left(crowd: str) -> None:
    text = redact("".join(map(CROWDS[crowd], range(41_666)))).text
    assert re.search("[A-F1-9x]{12}z", text) is None
    assert "REDACTED" in text


def test_a_crowd_of_addresses_is_not_a_crowd_of_secrets() -> None:
    text = "".join(f"- https://example.org/page/{number}\n" for number in range(30_000))
    assert redact(text).text == text


OLD_AND_NEW = "the password was changed from {} to {}"


@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        (OLD_AND_NEW, ("Sunflower7", "Moonlight8")),
        ("password changed from {} to {}.", ("Sunflower7", "Moonlight8")),
        ('we changed the password from "{}" to "{}"', ("sunflower7", "moonlight8")),
        ("rotated the admin password from {} to {} on Friday", ("Sunflower7", "Moonlight8")),
        ("the password used to be {}, and the admin password stays {}", ("Sunflower7", "Moonlight8")),
        ("The root password remains {} for now", ("Sunflower7",)),
        ("username bob, password {}", ("Sunflower42",)),
        ("log in as user bob with the password {}", ("kestrel99",)),
        ("credentials: bob:{}", ("Marigold7",)),
        ("privateKeyId: {}", ("daa5e1a5fb5ac23df4f44202419a0170b64a420b",)),
        ("private-key-id: {}", ("daa5e1a5fb5ac23df4f44202419a0170b64a420b",)),
    ],
)
def test_the_value_before_a_change_goes_as_the_one_after_it(text: str, secrets: tuple[str, ...]) -> None:
    clean = redact(text.format(*secrets)).text
    assert not [secret for secret in secrets if secret in clean]
    assert clean.count("[REDACTED:") == len(secrets)


@pytest.mark.parametrize(
    "text",
    [
        "the password was changed from the console to avoid lockouts",
        "we changed the password from 8 to 12 characters",
        "password reset from the admin page to the login page",
        "passwords used to be stored in plain text; the password stays unchanged and remains valid for 30 days",
    ],
)
def test_from_one_place_to_another_is_no_secret(text: str) -> None:
    assert redact(text).text == text


@pytest.mark.parametrize(
    "text",
    [
        "password: ⟦correct horse battery staple⟧",
        "Note: my password: ⟦correct horse battery staple⟧.\nNext.",
        "gpg_passphrase: ⟦brig alert rope welsh foss⟧",
        "**Password:** ⟦cap liz donna demon self⟧",
        "passphrase for the backup: ⟦amber lantern copper fox⟧",
    ],
)
def test_words_alone_after_a_label_are_a_passphrase(text: str) -> None:
    start, end = text.index("⟦"), text.index("⟧")
    assert redact(text.replace("⟦", "").replace("⟧", "")).text == f"{text[:start]}[REDACTED:password]{text[end + 1 :]}"


@pytest.mark.parametrize(
    "text",
    [
        "Password: ask the room owner",
        "Forgot password: ask admin to set a new one",
        "Password: minimum eight characters long",
        "Passphrase: four random diceware words",
        "password: see vault entry prod",
        "Reset password: link lasts one hour",
        "password: backend rejects common ones",
        "password: hashing happens in middleware layer",
        "Passwort: wird im tresor abgelegt",
        "passwd: all good now anna",
        "The page has four fields, password: first second third fourth, and a button.",
    ],
)
def test_a_note_in_few_words_after_a_label_stays(text: str) -> None:
    assert redact(text).text == text
