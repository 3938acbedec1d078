"""What the tests of long-term memory share: a quick embedder, a clock, the filling fixture."""

from __future__ import annotations

import pytest
from quick_embedder import Hashed

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
