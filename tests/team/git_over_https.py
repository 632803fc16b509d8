"""A git host on loopback for tests: a folder of bare repositories over https, as git's own backend serves it."""

from __future__ import annotations

import ipaddress
import os
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["GitHost", "git_host"]


@dataclass
class GitHost:
    address: str
    certificate: Path
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # path, and what it was authorized with
    redirects_to: str | None = None  # every request is sent there instead


@contextmanager
def git_host(folder: Path, *, certificate_in: Path) -> Iterator[GitHost]:
    """Serves the repositories in a folder to whoever asks."""
    certificate, key = _certificate(certificate_in)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host.asked.append((self.path, self.headers.get("Authorization")))
            if host.redirects_to is not None:
                self.send_response(301)
                self.send_header("Location", host.redirects_to + self.path)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self._answer(_from_git(folder, self))

        def do_POST(self) -> None:
            self.do_GET()

        def _answer(self, said: bytes) -> None:
            head, _, body = said.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
            self.send_response(int(headers.pop("Status", "200").split()[0]))
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    host = GitHost(f"https://127.0.0.1:{server.server_port}", certificate)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield host
    finally:
        server.shutdown()
        server.server_close()
        serving.join(10)


def _from_git(folder: Path, request: BaseHTTPRequestHandler) -> bytes:
    parts = urlsplit(request.path)
    length = int(request.headers.get("Content-Length") or 0)
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_PROJECT_ROOT": str(folder),
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
        "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
        "REQUEST_METHOD": request.command,
        "PATH_INFO": parts.path,
        "QUERY_STRING": parts.query,
        "CONTENT_TYPE": request.headers.get("Content-Type", ""),
        "CONTENT_LENGTH": str(length),
        "REMOTE_USER": "server",
        "REMOTE_ADDR": "127.0.0.1",
    }
    data = request.rfile.read(length) if length else b""
    done = subprocess.run(
        ["git", "http-backend"], input=data, capture_output=True, env=environment, check=True, timeout=60
    )
    return done.stdout


def _certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder.mkdir(parents=True, exist_ok=True)
    certificate, private = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, private
