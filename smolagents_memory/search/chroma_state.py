"""What is written down beside Chroma's collections of what they hold, compared with SQL."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, select

from smolagents_memory.database import tables
from smolagents_memory.search.inventory import beginning


_vectors = tables.vectors.c
_LARGEST = 1 << 16  # bytes of a state
_NO_NUMBER = 1 << 62


def live_in_sql(connection: Connection, scope: int, embedder: int, change: int | None = None) -> int:
    """How many vectors of an embedder an index of a scope holds, if it has taken in all up to that change."""
    theirs = [_vectors.scope_id == scope, _vectors.embedder_id == embedder, _vectors.live.is_(True)]
    if change is not None:
        theirs.append(_vectors.id <= change)
    return int(connection.execute(select(func.count()).select_from(tables.vectors).where(*theirs)).scalar() or 0)


def holds_deleted(folder: Path, connection: Connection) -> bool:
    """Whether there are vectors in Chroma's files that SQL does not have: Chroma keeps what it was told to delete."""
    if not folder.exists():
        return False
    for path in folder.glob("memory-*.json"):
        numbers, state = path.stem.split("-")[1:], state_in(path)
        if not state or len(numbers) != 2 or not all(re.fullmatch("[0-9]{1,18}", each) for each in numbers):
            return True
        if state["taken"] != live_in_sql(connection, int(numbers[0]), int(numbers[1]), state["change"]):
            return True
    return not any(folder.glob("memory-*.json")) and any(folder.iterdir())


def state_in(path: Path) -> dict[str, Any]:
    """What a state file says; nothing where it is missing, damaged or of 0.1.0."""
    try:
        found = json.loads(beginning(path, _LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict) or not isinstance(found.get("bank"), str):
        return {}
    numbers = [found.get(name) for name in ("change", "count", "taken")]
    return found if all(type(each) is int and 0 <= each < _NO_NUMBER for each in numbers) else {}
