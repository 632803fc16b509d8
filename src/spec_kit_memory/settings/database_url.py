"""Is this the address of a server, without a password? Passwords are left to PostgreSQL's own means.

An address appears in errors, logs and lists of settings, so nothing in it stays secret.
"""

from __future__ import annotations

from urllib.parse import unquote

from spec_kit_memory.errors import BadParameter

_SCHEMES = ("postgresql://", "postgres://")


def usable_url(url: str) -> str:
    if not url.startswith(_SCHEMES):
        raise BadParameter(
            "index.url is no address of an index",  # the address is not shown: it may contain a password
            hint="`sqlite`, or postgresql://HOST/DATABASE",
        )
    if _has_password(url):
        raise BadParameter(
            "index.url has a password in it", hint="put it into PGPASSWORD, ~/.pgpass or a service file of PostgreSQL"
        )
    return url


def shown_url(url: str) -> str:
    """The address as it may be shown to any reader of the settings, whether it is usable or not."""
    return url if url == "sqlite" or (url.startswith(_SCHEMES) and not _has_password(url)) else "(not shown)"


def _has_password(url: str) -> bool:
    """Also detects one that contains a slash, which PostgreSQL would read as a port and show."""
    address = url.partition("://")[2]
    if "password=" in unquote(url):
        return True
    authority = address.partition("/")[0]
    if "@" in authority:
        return ":" in authority.rpartition("@")[0]
    host, _, rest = address.partition(":")
    after_port = rest.lstrip("0123456789")
    is_port = after_port != rest and after_port[:1] in ("/", ",", "?", "")
    return "@" in rest and not is_port and not set("/?,[").intersection(host)
