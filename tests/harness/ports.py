"""Ports on loopback for servers that others wrote, which open theirs some time after they are told
its number."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["is_open", "reserve", "reserved_port"]


def reserve() -> tuple[socket.socket, int]:
    """A socket that keeps its port from everybody but a server that is told the number, and that
    number.

    The system gives the port of a bound socket to nobody who asks for any. SO_REUSEADDR, which
    servers set, too, lets one that asks for this number in, as long as the socket does not listen.
    On Windows servers do not set it, and the port is free.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    port = held.getsockname()[1]
    if os.name == "nt":
        held.close()
    return held, port


@contextmanager
def reserved_port() -> Iterator[int]:
    """The number of a port that is kept as `reserve` says."""
    held, port = reserve()
    with held:
        yield port


def is_open(port: int) -> bool:
    """Whether somebody listens there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True
