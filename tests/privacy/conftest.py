"""Empty databases for the tests of privacy."""

from __future__ import annotations

from databases import url_quickly  # noqa: F401 — a fixture
