"""Who may write to a session: one at a time, and a dead one is no obstacle."""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
from pathlib import Path
from typing import Any

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
    return isinstance(process, int) and _running(process) and _started(process) == described.get("started")


def _running(process: int) -> bool:
    if os.name == "nt":
        import ctypes

        handle = ctypes.windll.kernel32.OpenProcess(0x1000, False, process)  # type: ignore[attr-defined]
        return bool(handle and ctypes.windll.kernel32.CloseHandle(handle))  # type: ignore[attr-defined]
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return not _is_zombie(process)


def _stat(process: int) -> list[str]:
    """What Linux says of a process after its name; nothing elsewhere."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _is_zombie(process: int) -> bool:
    return _stat(process)[:1] == ["Z"]


def _started(process: int) -> str:
    """When a process began, so that another one with the same number is not taken for it."""
    return (_stat(process) + [""] * 20)[19]
