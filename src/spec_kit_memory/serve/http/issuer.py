"""Which keys does the issuer currently sign access tokens with?

They are found through the issuer's metadata (RFC 8414, else OpenID Connect's) and cached. A token with an unknown key
makes us fetch them again, but at most every half minute, however many such tokens arrive. Fetching is bounded in time
and size, follows no redirects, and uses https only; plain http is allowed on this machine, for tests and development,
if the issuer itself is there.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import jwt

from spec_kit_memory.core.loopback import is_loopback
from spec_kit_memory.errors import BadParameter, SpecKitMemoryError

logger = logging.getLogger(__name__)

FETCH_SECONDS = 10.0
LARGEST_ANSWER_BYTES = 512 * 1024
MOST_KEYS = 100
# A key that the issuer has withdrawn is trusted for at most this time.
KEYS_SECONDS = 600.0
# While the issuer does not answer, the last known keys are used for this time: its outage need not be ours.
STALE_SECONDS = 3600.0
REFETCH_SECONDS = 30.0
SMALLEST_RSA_BITS = 2048

# Only asymmetric algorithms, each with the key type that it needs, so that no token can choose a weaker check.
ALGORITHMS: Mapping[str, str] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "EdDSA": "OKP",
}


class IssuerUnavailable(Exception):  # noqa: N818 - named after what happened
    """There are no keys to check a token with; the token itself may be valid."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    id: str | None
    type: str  # RSA, EC or OKP
    algorithm: str | None  # the only algorithm it may be used with; None: any for its type
    key: Any

    def fits(self, algorithm: str) -> bool:
        return ALGORITHMS.get(algorithm) == self.type and self.algorithm in (None, algorithm)


def checked_url(url: str, *, option: str) -> str:
    """Refuse an address that is neither https nor http on this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        parts, host = urlsplit(""), ""
    secure = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))
    if not host or not secure or parts.query or parts.fragment or parts.username is not None:
        raise BadParameter(
            f"{option} {url!r} is no address that can be trusted.",
            hint="Give an https:// address without a query (http:// only for a server on this machine).",
        )
    return url


class Issuer:
    """The keys of one authorization server. Thread-safe; one thread fetches at a time."""

    def __init__(
        self,
        url: str,
        *,
        fetch: Callable[[str], Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = checked_url(url, option="--issuer")
        self._fetch = fetch or fetch_json
        self._clock = clock
        self._fetching = threading.Lock()
        self._keys: tuple[SigningKey, ...] = ()
        self._fetched_at: float | None = None
        self._tried_at: float | None = None

    def find_key(self, key_id: str | None, algorithm: str) -> SigningKey | None:
        """The key with this id; without an id, the only one for the algorithm. None: not a token of the issuer's."""
        key = self._match(key_id, algorithm)
        if key is None or self._age() > KEYS_SECONDS:
            # Only a thread without a usable key waits for another thread's fetch.
            if self._fetching.acquire(blocking=key is None or self._age() > STALE_SECONDS):
                try:
                    self._refresh()
                finally:
                    self._fetching.release()
            key = self._match(key_id, algorithm)
        if self._age() > STALE_SECONDS:
            raise IssuerUnavailable(f"the keys of {self.url} cannot be fetched")
        return key

    def _age(self) -> float:
        return float("inf") if self._fetched_at is None else self._clock() - self._fetched_at

    def _match(self, key_id: str | None, algorithm: str) -> SigningKey | None:
        fitting = [key for key in self._keys if key.fits(algorithm) and key_id in (None, key.id)]
        return fitting[0] if len(fitting) == 1 else None

    def _refresh(self) -> None:
        """Fetch the keys, unless that was tried recently. If it fails, the older keys stay in use."""
        now = self._clock()
        if self._tried_at is not None and now - self._tried_at < REFETCH_SECONDS:
            return
        self._tried_at = now
        try:
            self._keys = _signing_keys(self._fetch(self._keys_url()))
            self._fetched_at = self._clock()
        except (OSError, ValueError, SpecKitMemoryError) as error:
            logger.warning("the keys of %s cannot be fetched: %s", self.url, error)

    def _keys_url(self) -> str:
        problem: Exception = ValueError("no metadata")
        for address in _metadata_urls(self.url):
            try:
                metadata = self._fetch(address)
                break
            except (OSError, ValueError) as error:
                problem = error
        else:
            raise problem
        if not isinstance(metadata, dict) or metadata.get("issuer") != self.url:
            raise ValueError(f"{address} is not the metadata of {self.url}")
        url = metadata.get("jwks_uri")
        if not isinstance(url, str):
            raise ValueError(f"{address} names no keys")
        checked_url(url, option="jwks_uri")
        if urlsplit(url).scheme != "https" and urlsplit(self.url).scheme == "https":
            # A remote issuer must not make us send requests to programs on this machine.
            raise ValueError(f"{address} names keys at an address of this machine")
        return url


def _metadata_urls(issuer: str) -> tuple[str, ...]:
    """RFC 8414 puts the well-known name before the issuer's path, OpenID Connect after it."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    return (
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{issuer.rstrip('/')}/.well-known/openid-configuration",
    )


def _signing_keys(answer: Any) -> tuple[SigningKey, ...]:
    """The keys of a set that fit our algorithms; others (for encryption, symmetric, malformed) are ignored."""
    listed = answer.get("keys") if isinstance(answer, dict) else None
    if not isinstance(listed, list):
        raise ValueError("what the issuer answered is no set of keys")
    keys = [key for entry in listed[:MOST_KEYS] if isinstance(entry, dict) and (key := _signing_key(entry))]
    if not keys:
        raise ValueError("the issuer's set has no key that can be used")
    return tuple(keys)


def _signing_key(entry: Mapping[str, Any]) -> SigningKey | None:
    kind, algorithm, key_id = entry.get("kty"), entry.get("alg"), entry.get("kid")
    if kind not in set(ALGORITHMS.values()) or entry.get("use", "sig") != "sig":
        return None
    if algorithm is not None and ALGORITHMS.get(str(algorithm)) != kind:
        return None
    algorithm_name = algorithm or next(name for name, type_ in ALGORITHMS.items() if type_ == kind)
    try:
        key = jwt.PyJWK(dict(entry), algorithm="ES256" if kind == "EC" else algorithm_name).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    if kind == "RSA" and key.key_size < SMALLEST_RSA_BITS:
        return None
    return SigningKey(key_id if isinstance(key_id, str) else None, str(kind), algorithm, key)


def fetch_json(url: str) -> Any:
    """Fetch an address as JSON; OSError if it cannot be fetched, ValueError if it is not JSON or too large."""
    import httpx2

    loopback = is_loopback(urlsplit(url).hostname or "")
    deadline = time.monotonic() + FETCH_SECONDS
    parts: list[bytes] = []
    try:
        # Proxies from the environment are for the network, not for this machine.
        with (
            httpx2.Client(follow_redirects=False, timeout=FETCH_SECONDS, trust_env=not loopback) as client,
            client.stream("GET", url, headers={"Accept": "application/json"}) as response,
        ):
            if response.status_code != 200:
                raise OSError(f"{url} answered {response.status_code}")
            for part in response.iter_bytes():
                parts.append(part)
                if sum(map(len, parts)) > LARGEST_ANSWER_BYTES:
                    raise ValueError(f"{url} answered more than {LARGEST_ANSWER_BYTES:,} bytes")
                if time.monotonic() > deadline:
                    raise OSError(f"{url} did not answer within {FETCH_SECONDS:.0f} s")
    except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL) as error:
        raise OSError(f"{url} cannot be reached: {error or type(error).__name__}") from error
    try:
        return json.loads(b"".join(parts))
    except RecursionError as error:
        raise ValueError(f"{url} answered JSON that is nested too deep") from error
