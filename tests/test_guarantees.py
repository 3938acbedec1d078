"""The page of guarantees rests on tests: on tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "guarantees.md"
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE.read_text(encoding="utf-8"))))


def test_every_promise_names_a_test():
    rows = [row for row in PAGE.read_text(encoding="utf-8").splitlines() if row.startswith("| ")]
    promises = [row for row in rows if not row.startswith("| promise")]
    assert len(promises) > 20
    assert all("`tests/" in row for row in promises)


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_test_that_is_named_exists(path, name):
    source = (ROOT / path).read_text(encoding="utf-8")
    assert re.search(rf"def {name}\(", source) if name else "def test" in source or "Conformance" in source
