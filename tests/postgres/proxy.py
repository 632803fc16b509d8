"""A way to the server that a test can cut, in the middle of a commit too, and that can pretend an older server."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import suppress
from enum import Enum

_COMMIT = b"COMMIT\x00"
_VERSION = re.compile(rb"server_version\x00\d\d")


class Loss(Enum):
    """What is lost of the next commit."""

    REQUEST = "request"  # the server never gets it
    ANSWER = "answer"  # the server makes it, and nobody hears of that


class Proxy:
    def __init__(self, port: int, *, pretended_version: int | None = None) -> None:
        self.target = port
        self._pretended = pretended_version
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._open: list[socket.socket] = []
        self._pumps: list[threading.Thread] = []
        self.is_cut = False
        self.loses: Loss | None = None
        self.lost = 0
        self.stays_cut = True  # after it has lost a commit
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                if self.is_cut:
                    client.close()
                    continue
                try:
                    server = socket.create_connection(("127.0.0.1", self.target))
                except OSError:  # it is down
                    client.close()
                    continue
                self._open += [client, server]
                pumps = [
                    threading.Thread(target=self._ask, args=(client, server)),
                    threading.Thread(target=self._answer, args=(server, client)),
                ]
                self._pumps += pumps
                for pump in pumps:
                    pump.start()

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65_536):
                if self.loses and _COMMIT in data:
                    if self.loses is Loss.ANSWER:
                        client.shutdown(socket.SHUT_WR)  # before the server can answer
                        server.sendall(data)
                        while client.recv(65_536):  # until the client has noticed
                            pass
                    self.lost += 1
                    self.loses = None
                    if self.stays_cut:
                        self.cut()
                    break
                server.sendall(data)
        _end(client, server)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65_536):
                if self._pretended is not None:
                    data = _VERSION.sub(b"server_version\x00%d" % self._pretended, data)
                with suppress(OSError):  # what a client does not hear any more, the server may still do
                    client.sendall(data)
        _end(client, server)

    def cut(self) -> None:
        self.is_cut = True
        _end(*self._open)

    def restore(self) -> None:
        self.is_cut = False

    def close(self) -> None:
        self.cut()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._accepting.join()
        _end(*self._open)  # one may have been accepted meanwhile
        for pump in self._pumps:
            pump.join()
        for one in self._open:
            one.close()


def _end(*sockets: socket.socket) -> None:
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
