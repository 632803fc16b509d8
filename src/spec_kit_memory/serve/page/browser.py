"""How does a browser learn the page's address without other users of the machine reading it in the list of processes?

The address has a token that signs in whoever opens it first, and a browser is started with its address as an argument.
So the browser is given the path of a file instead, which only this user can read and which leads to the address.
"""

from __future__ import annotations

import html
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from spec_kit_memory import filesystem, settings
from spec_kit_memory.errors import FileMissing

DELAY_SECONDS = 0.2  # until the server answers
_PAGE = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
<title>Spec Kit Memory</title>
<p><a href="{address}">Open the page</a></p>
"""


@contextmanager
def opening_in_browser(address: str, *, port: int) -> Iterator[None]:
    """Open the address in the user's browser while the block runs; without a folder of one's own, do not."""
    try:
        file = _redirect_file(address, port)
    except (OSError, FileMissing):
        yield  # the address was printed
        return
    opening = threading.Timer(DELAY_SECONDS, webbrowser.open, (file.as_uri(),))
    opening.daemon = True
    opening.start()
    try:
        yield
    finally:
        opening.cancel()
        with suppress(OSError):
            filesystem.remove(filesystem.Place.of(file))


def _redirect_file(address: str, port: int) -> Path:
    folder = settings.user_state_folder(otherwise="open the address that was printed") / "page"
    settings.make_private_folder(folder)
    file = folder / f"open-{port}.html"
    content = _PAGE.format(address=html.escape(address, quote=True))
    filesystem.replace(filesystem.Place.of(file), content.encode(), mode=0o600)
    return file
