"""Who may write to a session: one at a time, and a dead one is no obstacle."""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
from typing import Any

import psutil

from smolagents_memory._errors import DecodeError
from smolagents_memory._json import parse_json


_held: set[str] = set()  # the tokens of this process
_lock = threading.Lock()


def claim() -> tuple[str, bytes]:
    """A token of one's own, and what to write into the session's row."""
    token = secrets.token_hex(8)
    with _lock:
        _held.add(token)
    owner = {"token": token, "host": socket.gethostname(), "process": os.getpid(), "started": _started(os.getpid())}
    return token, json.dumps(owner).encode()


def release(token: str) -> None:
    """Give a token back."""
    with _lock:
        _held.discard(token)


def describe(owner: bytes | None) -> dict[str, Any] | None:
    """Who that is, or None if nobody can be told from it."""
    if owner is None:
        return None
    try:
        described = parse_json(bytes(owner))
    except DecodeError:
        return None
    return described if isinstance(described, dict) else None


def is_alive(owner: bytes | None) -> bool:
    """Whether the owner may still be writing. On another host nobody can tell: it counts as alive."""
    described = describe(owner)
    if described is None:
        return False
    if described.get("host") != socket.gethostname():
        return True
    process = described.get("process")
    if process == os.getpid():
        with _lock:
            return described.get("token") in _held
    return isinstance(process, int) and _started(process) == described.get("started")


def _started(process: int) -> str:
    """When a process began, so that another one with the same number is not taken for it; "" if it is dead."""
    try:
        found = psutil.Process(process)
        return "" if found.status() == psutil.STATUS_ZOMBIE else str(found.create_time())
    except psutil.Error:
        return ""
