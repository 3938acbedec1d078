"""Empty databases for the tests of the sessions room."""

from __future__ import annotations

from databases import url  # noqa: F401 — a fixture
