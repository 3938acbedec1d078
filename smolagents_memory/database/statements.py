"""Statements that are run at every step: put together once, for that takes longer than carrying them out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, CursorResult
from sqlalchemy.sql.base import Executable


class Prepared:
    """A statement with named values, as its driver takes it."""

    def __init__(self, statement: Executable, *columns: str) -> None:
        self._statement, self._columns = statement, columns
        self._made: dict[str, tuple[str, list[str] | None]] = {}

    def run(self, connection: Connection, values: Mapping[str, Any]) -> CursorResult[Any]:
        """Carry it out; `values` has all of its names."""
        made = self._made.get(connection.dialect.name)
        if made is None:
            compiled: Any = self._statement.compile(  # type: ignore[attr-defined]
                dialect=connection.dialect, column_keys=list(self._columns) or None
            )
            made = self._made[connection.dialect.name] = (str(compiled), compiled.positiontup)
        statement, places = made
        given = dict(values) if places is None else tuple([values[name] for name in places])
        return connection.exec_driver_sql(statement, given)
