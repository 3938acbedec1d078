"""The names of scopes: what they say, and whose they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def scope_of(name: str) -> dict[str, Any] | None:
    """The scope that is spelled so; None for the one without a name. What is damaged is shown as it lies there."""
    if not name:
        return None
    try:
        found = json.loads(name)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"damaged": name}


def user_of(scope: Mapping[str, Any] | None) -> str | None:
    """The person whose scope it is: its entry `user`, a whole number as a text; None for nobody's.

    >>> user_of({"user": 7, "agent": "coder"}), user_of({"team": "red"}), user_of(None)
    ('7', None, None)
    """
    user = scope.get("user") if isinstance(scope, Mapping) else None
    return str(user) if isinstance(user, (str, int)) else None
