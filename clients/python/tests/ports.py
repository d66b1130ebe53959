"""Ports for servers that tests start."""

from __future__ import annotations

import contextlib
import secrets
import socket


def free_port() -> int:
    """Return a port on which nothing listens.

    It is below those that systems give to connections and to listeners of port 0, so that no
    other program gets it before the server that is started.
    """
    while True:
        port = 12_000 + secrets.randbelow(20_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
