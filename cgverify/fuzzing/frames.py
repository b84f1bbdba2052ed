"""Messages between a process and its children: JSON after its length, over a socket."""

from __future__ import annotations

import socket
import struct
from typing import TypeVar

import msgspec

T = TypeVar("T")
_LENGTH = struct.Struct("!I")


def send(channel: socket.socket, message: object) -> None:
    """Send one message; OSError if nobody is there to read it."""
    body = msgspec.json.encode(message)
    channel.sendall(_LENGTH.pack(len(body)) + body)


def receive(channel: socket.socket, kind: type[T], seconds: float | None = None) -> T | None:
    """Return the next message, None if the other side is gone.

    Args:
        channel: the socket.
        kind: what the message is decoded as.
        seconds: how long to wait for each part of it; None for ever.

    Raises:
        TimeoutError: nothing came in time.
    """
    channel.settimeout(seconds)
    try:
        head = _read(channel, _LENGTH.size)
        body = None if head is None else _read(channel, _LENGTH.unpack(head)[0])
    except ConnectionError:
        return None
    return None if body is None else msgspec.json.decode(body, type=kind)


def _read(channel: socket.socket, count: int) -> bytes | None:
    content = bytearray()
    while len(content) < count:
        piece = channel.recv(count - len(content))
        if not piece:
            return None
        content += piece
    return bytes(content)
