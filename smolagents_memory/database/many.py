"""Statements over many numbers: in pieces, and written out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection


CHUNK = 500  # numbers in one statement


def chunks(values: Any, size: int = CHUNK) -> Iterator[Any]:
    """Pieces small enough for one statement."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


def numbered(connection: Connection, statement: str, ids: Sequence[int], **numbers: int) -> list[Any]:
    """The rows of a statement with `{ids}` in it. Only numbers ever go into its text."""
    rows: list[Any] = []
    for some in chunks(ids):
        named = {name: int(number) for name, number in numbers.items()}
        text = statement.format(ids=",".join([str(int(each)) for each in some]), **named)
        rows.extend(connection.exec_driver_sql(text).all())
    return rows
