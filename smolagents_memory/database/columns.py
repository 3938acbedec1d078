"""Columns that give what they say: SQLite keeps anything anywhere, and on a damaged page anything may lie.

What is not what it should be comes as what no row of ours has: NaN for a number, -1 for a whole one, an empty text,
no bytes. Rows are looked at for these where they are read: one that is damaged is left out, and the others are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa


def real(value: Any) -> Any:
    """A number, or NaN."""
    return float(value) if isinstance(value, (int, float)) else math.nan


def whole(value: Any) -> Any:
    """A whole number, or -1."""
    return value if isinstance(value, int) else -1


def text(value: Any) -> Any:
    """A text, or an empty one."""
    return value if isinstance(value, str) else ""


def binary(value: Any) -> Any:
    """Bytes, or none; a text is its bytes, for a flipped bit may make one of them."""
    return value if isinstance(value, bytes) else value.encode("utf-8", "replace") if isinstance(value, str) else b""


class _Checked(sa.types.TypeDecorator[Any]):
    """A type whose values are looked at on their way out of SQLite; in Postgres the server does that."""

    _check: Callable[[Any], Any]
    cache_ok = True

    def __init__(self, *, nullable: bool = False) -> None:
        super().__init__()
        self.nullable = nullable

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> Callable[[Any], Any] | None:
        if dialect.name != "sqlite":
            found: Callable[[Any], Any] | None = super().result_processor(dialect, coltype)
            return found
        check = type(self)._check
        return (lambda value: None if value is None else check(value)) if self.nullable else check


class Real(_Checked):
    """A number."""

    impl, cache_ok, _check = sa.Float, True, staticmethod(real)


class Whole(_Checked):
    """A whole number."""

    impl, cache_ok, _check = sa.Integer, True, staticmethod(whole)


class Large(_Checked):
    """A whole number of any size that databases know."""

    impl, cache_ok, _check = sa.BigInteger, True, staticmethod(whole)


class Text(_Checked):
    """A text."""

    impl, cache_ok, _check = sa.Text, True, staticmethod(text)


class Binary(_Checked):
    """Bytes."""

    impl, cache_ok, _check = sa.LargeBinary, True, staticmethod(binary)
