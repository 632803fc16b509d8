"""Which static files does the page serve? Those in its own folder, by their exact names, and no others."""

from __future__ import annotations

import gzip
import hashlib
from functools import lru_cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain"}
FOLDERS = ("", "vendor/")
SECONDS = 86_400


@lru_cache(maxsize=64)
def _content(name: str) -> tuple[bytes, bytes, str] | None:
    """A file's content, the same compressed, and its hash; None if the file does not exist."""
    folder, _, last = name.rpartition("/")
    place = files("spec_kit_memory.serve.page") / "static"
    for part in filter(None, (folder,)):
        place = place / part
    names = {file.name for file in place.iterdir() if file.is_file()} if f"{folder}/".lstrip("/") in FOLDERS else set()
    if last not in names:
        return None
    data = (place / last).read_bytes()
    return data, gzip.compress(data, 9, mtime=0), hashlib.sha256(data).hexdigest()


def address(name: str) -> str:
    """A file's address, which contains its hash, so that browsers never use an older cached version."""
    content = _content(name)
    assert content is not None, name
    return f"/static/{name}?{content[2][:12]}"


def serve_static(request: Request) -> Response:
    name = request.path_params["name"]
    suffix = name[name.rfind(".") :]
    content = _content(name) if suffix in TYPES and ".." not in name else None
    if content is None:
        return PlainTextResponse("There is no such file.\n", status_code=404)
    packed = "gzip" in request.headers.get("accept-encoding", "")
    headers = {"Cache-Control": f"public, max-age={SECONDS}", "Vary": "Accept-Encoding"}
    if packed:
        headers["Content-Encoding"] = "gzip"
    return Response(content[1] if packed else content[0], media_type=TYPES[suffix], headers=headers)
