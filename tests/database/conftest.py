"""Real databases for the tests of the database room."""

from __future__ import annotations

from databases import own_postgres, postgres, url  # noqa: F401 — fixtures
