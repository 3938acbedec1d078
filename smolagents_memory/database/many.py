"""Statements over many numbers: in pieces, and written out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection


CHUNK = 500  # numbers in one statement


def chunks(values: Any, size: int = CHUNK) -> Iterator[Any]:
    """Pieces small enough for one statement."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


def last_of(numbers: Sequence[int], after: int) -> int:
    """The last of some rows that were asked for from a number on: so that whoever goes on from it comes to an end."""
    last = numbers[-1]
    if last <= after:
        raise sqlite3.DatabaseError("its rows do not come in their order: the file is damaged")
    return last


def numbered(
    connection: Connection, statement: str, ids: Sequence[int], *, columns: str = "", **numbers: int
) -> list[Any]:
    """The rows of a statement with `{ids}` in it. Only numbers, and (columns) names, ever go into its text."""
    rows: list[Any] = []
    for some in chunks(ids):
        named = {name: int(number) for name, number in numbers.items()}
        text = statement.format(ids=",".join([str(int(each)) for each in some]), columns=columns, **named)
        rows.extend(connection.exec_driver_sql(text).all())
    return rows
