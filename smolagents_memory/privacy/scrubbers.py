"""What takes things out of texts: a place's redaction, that of what somebody looks at, or a redactor alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from smolagents_memory.privacy.redaction import Redactor, naming, scope_key


class Scrubber(Protocol):
    """What takes things out of the texts of one scope or session."""

    def text(self, text: str) -> str:
        """The text without them."""
        ...

    def under(self, name: str, text: str) -> str:
        """The same of a text that stands under a name, which may say what it is."""
        ...


def known_to(source: Any) -> Scrubber | None:
    """The redaction of what an agent, a memory or a session writes, as far as it has one."""
    memory = getattr(source, "memory", None)
    held = (source, memory, getattr(memory, "kept_in", None), getattr(source, "kept_in", None))
    return next((found for each in held if (found := getattr(each, "redaction", None)) is not None), None)


class _Alone:
    """A redactor that is of no place, as what takes things out of texts."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor, self._named = redactor, naming(scope_key(redactor.own_key, ""))

    def text(self, text: str) -> str:
        return self._redactor.cleaned(text, self._named)

    def under(self, name: str, text: str) -> str:
        return self._redactor.cleaned_under(name, text, self._named)


def alone(redactor: Redactor) -> Scrubber:
    """A redactor that is of no place."""
    return _Alone(redactor)


def scrubber_of(redact: Any, source: Any = None) -> Scrubber | None:
    """What takes things out of texts, from what was given as `redact=…`: by default what the source itself does."""
    if redact is None:
        return known_to(source)
    redactor = Redactor.of(redact)
    return None if redactor is None else alone(redactor)


def rule(redact: Any, source: Any = None) -> Callable[[str], str]:
    """What is done to each text; nothing, where nothing is redacted."""
    scrubber = scrubber_of(redact, source)
    return str if scrubber is None else scrubber.text
