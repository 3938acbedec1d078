"""What the tests of long-term memory share: a quick embedder, a clock, the filling fixture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from quick_embedder import Hashed

from smolagents_memory import InMemoryStore, Place, Seal
from smolagents_memory.testing.filling import fill  # noqa: F401 — a fixture
from smolagents_memory.testing.memory_conformance import Clock


@pytest.fixture
def hashed():
    return Hashed()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    """An empty database of either kind."""
    from databases import emptied  # here: processes of these tests import this file without the folder above

    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'memory.db'}"
    return emptied(request.getfixturevalue("postgres"))


@pytest.fixture(params=["ram", "folder", "sealed", "a store", pytest.param("postgres", marks=pytest.mark.slow)])
def any_place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, dict[str, Any]]:
    """Where an EnhancedAgentMemory may keep what it remembers: its first argument, and options."""
    from databases import emptied  # here: see above
    from keyrings import RamKeyring

    if request.param == "a store":
        return None, {"long_term": InMemoryStore(), "vector": False}
    options: dict[str, Any] = {"embedder": Hashed()}
    if request.param == "sealed":
        return Place(tmp_path / "place", seal=Seal(bytes(32), RamKeyring())), options
    if request.param == "postgres":
        return emptied(request.getfixturevalue("postgres")), options
    return (tmp_path / "place" if request.param == "folder" else None), options
