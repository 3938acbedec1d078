"""What stands in a value for something that is still being built."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from smolagents_memory._errors import DecodeError


class NotYet(DecodeError):
    """Something is needed that is not built yet; an error where it never will be."""


class Later:
    """Stands in a value for something that is still being built."""

    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build

    @cached_property
    def value(self) -> Any:
        """The real thing, once everything is there; NotYet before."""
        return really(self._build())


def really(value: Any) -> Any:
    """The value itself, or the real thing that something in its place stands for; NotYet where that is not there."""
    while isinstance(value, Later):
        value = value.value
    return value
