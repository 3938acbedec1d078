"""A SQLite file opened without an engine, for what no transaction of ours can do: copying, examining, tidying up."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from smolagents_memory._forks import uncut


@contextmanager
def opened_directly(path: Path | str, **options: Any) -> Iterator[sqlite3.Connection]:
    """A connection of its own to a file, closed at the end; the options are sqlite3's."""
    with uncut(), closing(sqlite3.connect(path, **options)) as connection:
        yield connection
