"""Statistics as a rich table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text


_TITLES = {
    "messages": "Messages",
    "tools": "Tools",
    "steps": "Steps",
    "tokens": "Tokens",
    "memory_size": "Size",
}


def stats_table(columns: Sequence[tuple[str, dict[str, Any]]]) -> Table:
    """One column of figures for each MemoryStats, given as (heading, its dict)."""
    table = Table(title="Memory", title_justify="left")
    table.add_column("")
    for heading, _ in columns:
        table.add_column(Text(heading), justify="right")
    for key, title in _TITLES.items():
        table.add_section()
        table.add_row(Text(title, style="bold"))
        rows = [dict(_rows(figures[key])) for _, figures in columns]
        for name in dict.fromkeys(name for column in rows for name in column):
            table.add_row(Text(f"  {name}"), *(Text(_shown(column.get(name))) for column in rows))
    return table


def _rows(figures: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in figures.items():
        label = prefix + name.replace("_", " ")
        if isinstance(value, dict):
            yield from ((f"{label}: {inner}", number) for inner, number in value.items())
        elif not isinstance(value, list):
            yield label, value


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
