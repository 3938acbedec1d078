"""One mechanism for everything that can be listened to: `on(event, fn)`."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from types import MethodType
from typing import Any

from smolagents_memory._log import logger


Listener = Callable[["Event"], object]
Reference = Callable[[], Listener | None]
ANY = "*"

# the listeners of `echo=False` that are at work here: what happens meanwhile is their doing
_causes: ContextVar[tuple[Reference, ...]] = ContextVar("causes", default=())


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

    Args:
        echo: Whether a listener also hears of what it brought about itself. Without echo a listener may change what
            it listens to without a thought: the others hear of it, it does not, and no chain of changes goes on
            for ever.

    >>> events = Events()
    >>> off = events.on("saved", lambda event: print("saved", event.path))
    >>> events.emit("saved", source=None, path="run.jsonl")
    saved run.jsonl
    >>> off()
    >>> events.emit("saved", source=None, path="run.jsonl")
    """

    def __init__(self, *, echo: bool = True) -> None:
        self._listeners: dict[str, tuple[Reference, ...]] = {}
        self._lock = threading.Lock()
        # what waits to be told, and the listeners whose own doing brought it about
        self._posted: deque[tuple[Event, tuple[Reference, ...]]] = deque()
        self._delivering = False
        self._echo = echo

    def on(self, event: str, fn: Listener, *, weak: bool = False) -> Callable[[], None]:
        """Call `fn(event)` whenever `event` is told ("*" for every event); returns a function that ends it.

        With `weak=True` the listener goes when nothing else refers to it (for a method: to its object).
        """
        if not callable(fn):
            raise TypeError(f"a listener must be callable, not {type(fn).__name__}")
        bound = isinstance(fn, MethodType)
        reference: Reference = (weakref.WeakMethod if bound else weakref.ref)(fn) if weak else lambda: fn
        with self._lock:
            self._listeners[event] = (*self._listeners.get(event, ()), reference)

        return partial(self._drop, event, reference)

    def has_listeners(self, *events: str) -> bool:
        """Whether anybody would hear one of `events`: lets a teller skip costly preparations."""
        return any(self._listeners.get(event) for event in (*events, ANY))

    def emit(self, event: str, /, source: Any, **data: Any) -> None:
        """Tell `event` to its listeners now, in the order they subscribed. Never raises."""
        self._tell(Event(event, source, data), _causes.get())

    def post(self, event: str, /, source: Any, **data: Any) -> None:
        """Put `event` in line to be told by `deliver`: for who holds a lock now and must not tell under it."""
        self._posted.append((Event(event, source, data), _causes.get()))

    def deliver(self) -> None:
        """Tell what was posted, in that order, also when listeners post more. One thread tells at a time.

        Whoever comes while another thread tells does not wait: that thread tells this as well.
        """
        while self._posted:
            with self._lock:
                if self._delivering:
                    return
                self._delivering = True
            try:
                while self._posted:
                    self._tell(*self._posted.popleft())
            finally:
                self._delivering = False

    def _tell(self, event: Event, causes: tuple[Reference, ...]) -> None:
        for reference in self._listeners.get(event.name, ()) + self._listeners.get(ANY, ()):
            listener = reference()
            if listener is None:
                self._drop(event.name, reference)
                self._drop(ANY, reference)
                continue
            if not self._echo and reference in causes:
                continue
            token = _causes.set(causes if self._echo else (*causes, reference))
            try:
                listener(event)
            except Exception:
                logger.exception("a listener to %r failed: %r; everything else goes on", event.name, listener)
            finally:
                _causes.reset(token)

    def _drop(self, event: str, dead: Reference) -> None:
        with self._lock:
            self._listeners[event] = tuple(r for r in self._listeners.get(event, ()) if r is not dead)
