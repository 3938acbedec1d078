"""Libraries that are imported when something of theirs is first needed: who holds their values has done it."""

from __future__ import annotations

import importlib
from typing import Any


class _Library:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)


np, pd = _Library("numpy"), _Library("pandas")
