"""What is written down beside Chroma's collections of what they hold, compared with SQL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, select

from smolagents_memory.database import tables


_vectors = tables.vectors.c


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
        if not state or len(numbers) != 2 or not all(each.isdigit() for each in numbers):
            return True
        if state["taken"] != live_in_sql(connection, int(numbers[0]), int(numbers[1]), state["change"]):
            return True
    return not any(folder.glob("memory-*.json")) and any(folder.iterdir())


def state_in(path: Path) -> dict[str, Any]:
    """What a state file says; nothing where it is missing, damaged or of 0.1.0."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict) or not isinstance(found.get("bank"), str):
        return {}
    return found if all(type(found.get(name)) is int for name in ("change", "count", "taken")) else {}
