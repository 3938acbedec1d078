"""One mechanism for everything that can be listened to: `on(event, fn)`."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MethodType
from typing import Any


logger = logging.getLogger("smolagents_memory")

Listener = Callable[["Event"], object]
ANY = "*"


@dataclass(frozen=True)
class Event:
    """Something that happened: its name, who told it, and what there is to know about it.

    The entries of `data` can be read as attributes: `event.step` is `event.data["step"]`.
    """

    name: str
    source: Any
    data: Mapping[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        try:
            return object.__getattribute__(self, "data")[name]
        except KeyError:
            raise AttributeError(f"the event {self.name!r} carries no {name!r}; it has {sorted(self.data)}") from None


class Events:
    """A place to subscribe to and to tell events. Safe with threads; a listener that fails disturbs nobody.

    >>> events = Events()
    >>> off = events.on("saved", lambda event: print("saved", event.path))
    >>> events.emit("saved", source=None, path="run.jsonl")
    saved run.jsonl
    >>> off()
    >>> events.emit("saved", source=None, path="run.jsonl")
    """

    def __init__(self) -> None:
        self._listeners: dict[str, tuple[Callable[[], Listener | None], ...]] = {}
        self._lock = threading.Lock()

    def on(self, event: str, fn: Listener, *, weak: bool = False) -> Callable[[], None]:
        """Call `fn(event)` whenever `event` is told ("*" for every event); returns a function that ends it.

        With `weak=True` the listener goes when nothing else refers to it (for a method: to its object).
        """
        if not callable(fn):
            raise TypeError(f"a listener must be callable, not {type(fn).__name__}")
        reference: Callable[[], Listener | None]
        if not weak:
            reference = lambda: fn  # noqa: E731
        elif isinstance(fn, MethodType):
            reference = weakref.WeakMethod(fn)
        else:
            reference = weakref.ref(fn)
        with self._lock:
            self._listeners[event] = (*self._listeners.get(event, ()), reference)

        def off() -> None:
            with self._lock:
                self._listeners[event] = tuple(r for r in self._listeners.get(event, ()) if r is not reference)

        return off

    def has_listeners(self, *events: str) -> bool:
        """Whether anybody would hear one of `events`: lets a teller skip costly preparations."""
        return any(self._listeners.get(event) for event in (*events, ANY))

    def emit(self, event: str, /, source: Any, **data: Any) -> None:
        """Tell `event` to its listeners, in the order they subscribed. Never raises."""
        references = self._listeners.get(event, ()) + self._listeners.get(ANY, ())
        if not references:
            return
        happening = Event(event, source, data)
        for reference in references:
            listener = reference()
            if listener is None:
                self._drop(event, reference)
                continue
            try:
                listener(happening)
            except Exception:
                logger.exception("a listener to %r failed: %r; everything else goes on", event, listener)

    def _drop(self, event: str, dead: Callable[[], Listener | None]) -> None:
        with self._lock:
            for name in (event, ANY):
                self._listeners[name] = tuple(r for r in self._listeners.get(name, ()) if r is not dead)
