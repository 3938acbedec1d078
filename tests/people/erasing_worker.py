"""What the killed processes of test_killed_erasing.py run."""

from __future__ import annotations

import time
import traceback
from typing import Any

from smolagents_memory import People


def erase(conn: Any, url: str, user: str) -> None:
    """Open the place, wait to be told, erase, and say how long that took."""
    try:
        people = People(url)
        people.list()
        conn.send(("ok", "ready"))
        conn.recv()
        began = time.monotonic()
        report = people.erase(user)
        conn.send(("ok", (time.monotonic() - began, report.left)))
        conn.recv()
    except EOFError:
        return
    except BaseException:  # noqa: BLE001 — the parent raises it
        conn.send(("failed", traceback.format_exc()))
