"""The guide to the callbacks leaves none of them out (tests/test_house.py runs its examples)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import smolagents_memory


GUIDE = (Path(__file__).parents[2] / "docs" / "callbacks.md").read_text(encoding="utf-8")
HOMES = smolagents_memory._HOMES
PUBLIC = [
    name
    for home, names in HOMES.items()
    if home.startswith("callbacks.") or home == "steps.pins"
    for name in names.split()
]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_of_the_callbacks_is_in_the_guide(name: str) -> None:
    assert re.search(rf"\b{name}\b", GUIDE)
