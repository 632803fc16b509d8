"""Which calls of a git host are believed? Those that prove in the host's own header that it knows the secret."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping

import pytest
from starlette.datastructures import Headers

from spec_kit_memory.team.hook_signatures import is_signed, new_secret

BODY = b'{"ref": "refs/heads/main"}'
Signer = Callable[[str, bytes], Mapping[str, str]]


def _hex(secret: str, body: bytes, algorithm: str = "sha256") -> str:
    return hmac.new(secret.encode(), body, algorithm).hexdigest()


def _standard(secret: str, body: bytes) -> dict[str, str]:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, b"msg-1.1700000000." + body, hashlib.sha256).digest()
    signature = f"v1,{base64.b64encode(digest).decode()}"
    return {"webhook-id": "msg-1", "webhook-timestamp": "1700000000", "webhook-signature": signature}


HOSTS: Mapping[str, Signer] = {
    "GitHub": lambda secret, body: {"X-Hub-Signature-256": f"sha256={_hex(secret, body)}"},
    "Bitbucket": lambda secret, body: {"X-Hub-Signature": f"sha256={_hex(secret, body)}"},
    "Gitea": lambda secret, body: {"X-Gitea-Signature": _hex(secret, body)},
    "Forgejo": lambda secret, body: {"X-Forgejo-Signature": _hex(secret, body)},
    "Gogs": lambda secret, body: {"X-Gogs-Signature": _hex(secret, body)},
    "GitLab with a secret token": lambda secret, body: {"X-Gitlab-Token": secret},
    "GitLab with a signing token": _standard,
}
SIGNS_THE_BODY = [host for host in HOSTS if host != "GitLab with a secret token"]


@pytest.mark.parametrize("host", HOSTS)
def test_each_host_is_believed_with_its_own_header_and_no_other_secret(host: str) -> None:
    secret = new_secret()
    assert is_signed(secret, Headers(HOSTS[host](secret, BODY)), BODY)
    assert not is_signed(secret, Headers(HOSTS[host](new_secret(), BODY)), BODY)
    assert not is_signed(None, Headers(HOSTS[host](secret, BODY)), BODY)


@pytest.mark.parametrize("host", SIGNS_THE_BODY)
def test_a_signature_holds_for_its_body_only(host: str) -> None:
    secret = new_secret()
    given = Headers(HOSTS[host](secret, BODY))
    assert not is_signed(secret, given, BODY + b" ")
    assert not is_signed(secret, given, b"")


@pytest.mark.parametrize("given", ["", "sha256=", "v1,", "v1", "\N{LATIN SMALL LETTER E WITH ACUTE}", "0" * 64])
@pytest.mark.parametrize("host", HOSTS)
def test_anything_else_in_a_header_is_refused(host: str, given: str) -> None:
    secret = new_secret()
    assert not is_signed(secret, Headers(dict.fromkeys(HOSTS[host](secret, BODY), given)), BODY)


def test_a_call_without_any_header_is_refused() -> None:
    assert not is_signed(new_secret(), Headers({"content-type": "application/json"}), BODY)


@pytest.mark.parametrize("header", ["X-Hub-Signature", "X-Hub-Signature-256"])
def test_the_old_signature_by_sha_1_is_refused_and_does_not_spoil_the_newer_one(header: str) -> None:
    secret = new_secret()
    old = {header: f"sha1={_hex(secret, BODY, 'sha1')}"}
    assert not is_signed(secret, Headers(old), BODY)
    assert is_signed(secret, Headers({**old, **HOSTS["Gitea"](secret, BODY)}), BODY)


def test_published_examples_of_signatures_are_believed() -> None:
    example = {"X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}
    assert is_signed("It's a Secret to Everybody", Headers(example), b"Hello, World!")
    standard = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1a,other v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    assert is_signed("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", Headers(standard), b'{"test": 2432232314}')


def test_a_secret_made_by_an_earlier_version_still_signs() -> None:
    secret = "Zm9yLWEtcHJvamVjdC1vZi1sb25nLWFnbw-_x"
    for host in SIGNS_THE_BODY[:-1]:
        assert is_signed(secret, Headers(HOSTS[host](secret, BODY)), BODY)
    assert is_signed(secret, Headers({"X-Gitlab-Token": secret}), BODY)
    assert not is_signed(secret, Headers(_standard(new_secret(), BODY)), BODY)
