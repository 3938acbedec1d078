"""The memory a tool is bound to: a place, which can be written into a saved tool, or a live object, which cannot."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import Any

from sqlalchemy.engine import URL

from smolagents_memory._errors import ToolStateError, UnsupportedValueError
from smolagents_memory.database.passwords import has_password, shown_url
from smolagents_memory.database.places import Place
from smolagents_memory.memory.arguments import opened_keeper
from smolagents_memory.memory.enhanced import EnhancedAgentMemory
from smolagents_memory.memory.forgetting import ForgettingCurve
from smolagents_memory.memory.items import Memory
from smolagents_memory.memory.learning import Learning
from smolagents_memory.memory.long_term import LongTerm
from smolagents_memory.memory.provenance import call_by, calling
from smolagents_memory.memory.ranking import Ranker
from smolagents_memory.search.embedding import default_embedder
from smolagents_memory.stores.opening import is_store_url


_PLACES = (str, os.PathLike, Place, URL)
_DEFAULTS = 'memory: Any = "./agent_memory", scope: Any = None'


class BoundMemory:
    """The memory of a tool. The scope is fixed here: nothing a tool is called with reaches it."""

    def __init__(self, memory: Any, scope: Mapping[str, Any] | None) -> None:
        if scope is not None and not isinstance(memory, _PLACES):
            raise UnsupportedValueError("a live memory or store has its scope already; build that one with the scope")
        self.memory, self.scope = memory, scope
        self._lock = threading.Lock()
        self._opened: LongTerm | None = None
        if isinstance(memory, _PLACES):
            if not is_store_url(memory):
                Place.of(memory)  # what names no place is refused at once
            default_embedder()  # what may take long happens now, and not inside a step

    @property
    def is_live(self) -> bool:
        """Whether it is an object of this process."""
        return not isinstance(self.memory, _PLACES)

    def open(self) -> LongTerm:
        """The long-term memory behind the place."""
        with self._lock:
            if self._opened is None:
                self._opened = self._made()
            return self._opened

    def recalled(self, memories: list[Memory], query: str) -> None:
        """Memories went to the model through a tool."""
        learning = calling(self) or getattr(self.memory, "_learning", None)
        if isinstance(learning, Learning):
            learning.recalled(memories, query)

    def provenance(self) -> dict[str, Any]:
        """Whose text it is that an agent has the tool keep, as `remember_many` takes it: see `Trail`."""
        learning = calling(self)
        if not isinstance(learning, Learning):
            return {"origin": "agent", "trust": 0}  # nobody saw what it had read
        read = learning.trail.have_read(call_by(learning))
        origin = {"origin": "tool", "tools": read} if read else {"origin": "agent"}
        return {**origin, "made_of": list(learning.trail.memories)}

    def _made(self) -> LongTerm:
        memory = self.memory
        if isinstance(memory, EnhancedAgentMemory):
            return memory.long_term
        if isinstance(memory, LongTerm):
            return memory
        if hasattr(memory, "query") and hasattr(memory, "upsert"):  # a Chroma collection
            from smolagents_memory.stores.chroma import VectorMemoryStore

            memory = VectorMemoryStore(collection=memory)
        keeper = opened_keeper(memory, scope=self.scope, ranker=Ranker())
        return LongTerm(keeper, ForgettingCurve(), time.time, _unheard)


def _spelled(place: str | os.PathLike[str] | Place | URL) -> str:
    """A place as it is written into a tool's source."""
    named = _named(place)
    if has_password(named):
        raise ToolStateError(
            f"the password in {shown_url(named)} would be written into the saved tool, for everybody to read; build "
            "the tool from a URL without one, and let the driver find it (~/.pgpass, PGPASSWORD)"
        )
    return named


def _named(place: str | os.PathLike[str] | Place | URL) -> str:
    if isinstance(place, URL):
        place = Place(place)
    if not isinstance(place, Place):
        return os.fspath(place)
    if place.in_ram or place.seal is not None or place.redact is not None or place.durability != "power":
        raise ToolStateError(
            f"{place!r} is more than a folder or URL says, and cannot be saved with the tool; build it from a folder "
            "or URL instead, such as RecallTool('./agent_memory'), and save that"
        )
    return str(place.path or place.key)


def _unheard(event: str, **data: Any) -> None:
    """A memory that only a tool knows has nobody who listens."""


def with_place(place: BoundMemory, saved: dict[str, Any]) -> dict[str, Any]:
    """A tool's source with the place it was built with instead of the default."""
    if place.is_live:
        raise ToolStateError(
            f"this tool shares a live {type(place.memory).__name__}, which cannot be saved with it; "
            "build it from a folder or URL instead, such as RecallTool('./agent_memory'), and save that"
        )
    named = f"memory: Any = {_spelled(place.memory)!r}, scope: Any = {dict(place.scope) if place.scope else None!r}"
    return with_option(saved, _DEFAULTS, named)


def with_option(saved: dict[str, Any], default: str, given: str) -> dict[str, Any]:
    """A tool's source with what it was built with instead of a default."""
    if default not in saved["code"]:
        raise ToolStateError(
            "the tool's source is not as it was written; what it was built with cannot be saved with it"
        )
    return {**saved, "code": saved["code"].replace(default, given, 1)}
