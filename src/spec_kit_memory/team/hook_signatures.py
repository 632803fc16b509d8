"""Does a call after a push come from the project's git host? Each host proves it in its own header.

GitHub, Gitea, Forgejo, Gogs and Bitbucket sign the body with the project's secret. GitLab signs as Standard Webhooks
describes, with the key that the secret contains, or sends the secret itself.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterator, Mapping

_PREFIX = "whsec_"  # required by Standard Webhooks; the rest is the key in base64
_KEY_BYTES = 32
# Header -> what precedes the hexadecimal digest. A digest by SHA-1 in the second one is refused.
_HEX_HEADERS = {
    "x-hub-signature-256": "sha256=",  # GitHub, Gitea, Forgejo
    "x-hub-signature": "sha256=",  # Bitbucket
    "x-gitea-signature": "",
    "x-forgejo-signature": "",
    "x-gogs-signature": "",
}


def new_secret() -> str:
    """A secret that each of the hosts accepts."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()


def is_signed(secret: str | None, headers: Mapping[str, str], body: bytes) -> bool:
    """Does any of the headers prove that the caller knows the secret? Never if there is none, in the same time."""
    known = any(_is_same(given, expected) for given, expected in _proofs(secret or new_secret(), headers, body))
    return known and secret is not None


def _proofs(secret: str, headers: Mapping[str, str], body: bytes) -> Iterator[tuple[str, str]]:
    """What the caller gave, and what it must be."""
    for name, prefix in _HEX_HEADERS.items():
        if name in headers:
            yield headers[name], prefix + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    if "x-gitlab-token" in headers:
        yield headers["x-gitlab-token"], secret
    if "webhook-signature" in headers and secret.startswith(_PREFIX):
        signed = f"{headers.get('webhook-id', '')}.{headers.get('webhook-timestamp', '')}.".encode() + body
        digest = hmac.new(base64.b64decode(secret.removeprefix(_PREFIX)), signed, hashlib.sha256).digest()
        for given in headers["webhook-signature"].split():  # several while a secret is being replaced
            yield given, f"v1,{base64.b64encode(digest).decode()}"


def _is_same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())
