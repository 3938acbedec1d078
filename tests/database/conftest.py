"""Empty databases for the tests of the database room."""

from __future__ import annotations

from databases import url  # noqa: F401 — a fixture
