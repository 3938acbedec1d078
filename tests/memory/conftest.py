"""What the tests of long-term memory share: a quick embedder, a clock, the filling fixture."""

from __future__ import annotations

import pytest
from databases import url  # noqa: F401 — a fixture
from quick_embedder import Hashed

from smolagents_memory.testing.filling import fill  # noqa: F401 — a fixture
from smolagents_memory.testing.memory_conformance import Clock


@pytest.fixture
def hashed():
    return Hashed()


@pytest.fixture
def clock():
    return Clock()
