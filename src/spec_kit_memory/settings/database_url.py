"""Is this the address of a server, and one without a password? A password is given by PostgreSQL's own means.

An address is shown in errors, logs and lists of settings; what stands in it is not kept secret.
"""

from __future__ import annotations

from urllib.parse import unquote

from spec_kit_memory.errors import BadParameter

__all__ = ["shown_url", "usable_url"]

_SCHEMES = ("postgresql://", "postgres://")


def usable_url(url: str) -> str:
    if not url.startswith(_SCHEMES):
        raise BadParameter(
            "index.url is no address of an index",  # which is not shown: a password may be in it
            hint="`sqlite`, or postgresql://HOST/DATABASE",
        )
    if _has_password(url):
        raise BadParameter(
            "index.url has a password in it", hint="put it into PGPASSWORD, ~/.pgpass or a service file of PostgreSQL"
        )
    return url


def shown_url(url: str) -> str:
    """As it may be shown to whoever asks for the settings, whether it can be used or not."""
    return url if url == "sqlite" or (url.startswith(_SCHEMES) and not _has_password(url)) else "(not shown)"


def _has_password(url: str) -> bool:
    """Also one with a slash in it, which PostgreSQL would take for a port and show."""
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
