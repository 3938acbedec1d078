"""Which memories may have faded, chosen by the database: a bound that leaves none out, and lets few others through."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Float, case, cast, func, literal

from smolagents_memory.database import tables


_STEPS = 32  # powers of two that are told apart
_ROUNDING = 1.0  # seconds
_items = tables.items.c


def may_have_faded(now: float, idle: float) -> ColumnElement[bool]:
    """What was not used for `idle` seconds, times as often as its uses and its importance make it last at least.

    The curve (`memory.forgetting`) goes by logarithms, which not every SQLite has: steps below it stand for them.
    """
    used = case((_items.touched > _items.created, _items.touched), else_=_items.created)
    lasting = _uses() * _importance()
    return literal(now) - used >= literal(idle * (1 - 1e-9)) * lasting - _ROUNDING


def _uses() -> ColumnElement[float]:
    """At most 1 + log2(1 + uses)."""
    uses = func.coalesce(_items.uses, 0.0)
    steps = [(uses < 2.0 ** (n + 1) - 1, literal(float(n + 1))) for n in range(_STEPS)]
    return cast(case(*steps, else_=literal(float(_STEPS + 1))), Float)


def _importance() -> ColumnElement[float]:
    """At most 1 + log2(importance), and at least a quarter."""
    steps: list[Any] = [(_items.importance < 1.0, literal(0.25))]
    steps += [(_items.importance < 2.0 ** (n + 1), literal(float(n + 1))) for n in range(_STEPS)]
    return cast(case(*steps, else_=literal(float(_STEPS + 1))), Float)
