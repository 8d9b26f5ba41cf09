"""Ports that are free for a server."""

import contextlib
import random
import socket
from typing import Final

HOST: Final = "127.0.0.1"


def free_port() -> int:
    """Return a port below the ephemeral range, where no client's outgoing connection can take it from us."""
    while True:
        port = random.randrange(10_000, 32_768)  # noqa: S311 - not a secret
        if is_free(port):
            return port


def is_free(port: int) -> bool:
    """Return whether nobody listens on this port."""
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
