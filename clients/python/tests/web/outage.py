"""A TCP proxy that can be cut off, and one that hangs."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit


class Proxy:
    """Forwards connections to a server. ``cut`` closes them and refuses new ones; ``hang`` forwards nothing."""

    def __init__(self, url: str) -> None:
        target = urlsplit(url)
        self._target = (target.hostname or "", target.port or 80)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.hang = False
        self._cut = False
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, *, off: bool) -> None:
        self._cut = off
        for connection in list(self._open) if off else []:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.cut(off=True)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._cut:
                    client.close()
                    continue
                server = socket.create_connection(self._target)
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for source, sink in ((client, server), (server, client)):
                    self._open.add(source)
                    threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with source:
            with contextlib.suppress(OSError):
                while data := source.recv(65536):
                    if not self.hang:
                        sink.sendall(data)
            # Closing sink would send nothing while the other thread receives from it.
            for end in (source, sink):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        self._open.discard(source)


@contextlib.contextmanager
def proxy(url: str) -> Iterator[Proxy]:
    made = Proxy(url)
    try:
        yield made
    finally:
        made.close()
