"""Empty databases for the tests of the people room."""

from __future__ import annotations

from databases import url_quickly  # noqa: F401 — a fixture
