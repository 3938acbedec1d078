"""Empty databases for the tests: a SQLite file, and the Postgres of all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text

from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database
from smolagents_memory.database.opened import Opened


def emptied(url: str) -> str:
    """The URL, after everything of ours in that database is gone."""
    with Database.at(url).engine.begin() as connection:
        tables.metadata.drop_all(connection)
        connection.execute(text(f"DROP TABLE IF EXISTS {tables.VERSION_TABLE}"))
    Opened.forget_all()
    return url


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of either kind."""
    return _empty(request, tmp_path)


@pytest.fixture(name="url", params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def url_quickly(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same for rooms with many tests: Postgres is for the slow round."""
    return _empty(request, tmp_path)


def _empty(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'memory.db'}"
    return emptied(request.getfixturevalue("postgres"))
