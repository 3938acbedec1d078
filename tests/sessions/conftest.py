"""Real databases for the tests of sessions."""

from __future__ import annotations

from databases import own_postgres, postgres, url  # noqa: F401 — fixtures
