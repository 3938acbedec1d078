"""Typed state that is kept with a session: brought back when it is attached, and written at each change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smolagents_memory._brief import brief
from smolagents_memory._errors import SessionError
from smolagents_memory._log import warn_of_loss
from smolagents_memory.codec.placeholders import blob_names
from smolagents_memory.codec.values import new_decoder, new_encoder, warn_of_losses
from smolagents_memory.sessions.reading import Restored
from smolagents_memory.state import TypedMemory
from smolagents_memory.variables.runtime import typed_state


if TYPE_CHECKING:
    from smolagents_memory.sessions.journal import Journal


@dataclass
class _Kept:
    """A state that is followed, and the revision of it that was written last."""

    state: Any
    revision: int
    off: Callable[[], None]
    warned: bool = False


class KeptStates:
    """The typed states of one attached session, by name."""

    def __init__(self, journal: Journal, restored: Restored) -> None:
        self._journal = journal
        typed = self._typed = {k: node for delta in restored.runtime for k, node in delta.get("typed", {}).items()}
        self._blobs = {name: restored.blobs[name] for name in blob_names(typed) if name in restored.blobs}
        self._kept: dict[str, _Kept] = {}

    def keep(self, state: Any) -> None:
        """Give the state what the session holds under its name, and write each change of it from now on."""
        if not isinstance(state, TypedMemory):
            raise SessionError(f"keep takes a TypedMemory(…, name=…), not {brief(state)}; nothing was kept")
        name, session = state.name, self._journal.position.name
        if name in self._kept:
            raise SessionError(
                f"a state named {name!r} is kept with session {session!r} already; nothing was changed. Give each a "
                "name of its own: TypedMemory(…, name=…)"
            )
        state.dump()  # a type that cannot become data is refused here, not at its first change
        for data in typed_state([{"typed": self._typed}], name, self._blobs):
            try:
                state.restore(data)
            except ValueError as error:
                raise SessionError(
                    f"what session {session!r} holds as {name!r} does not fit the type of that state any more; both "
                    f"are as they were, and it is not kept: {error}"
                ) from error
        kept = _Kept(state, state.revision, off=lambda: None)
        kept.off = state.on("state_changed", lambda event: self._write(kept))
        self._kept[name] = kept

    def flush(self) -> None:
        """Write the changes that another thread was about to tell of."""
        for kept in list(self._kept.values()):
            self._write(kept)

    def let_go(self) -> None:
        """Follow them no longer."""
        for kept in self._kept.values():
            kept.off()

    def _fits(self, state: Any, node: Any) -> bool:
        """Whether a state can be brought back from what is left of it."""
        try:
            state.fitted(new_decoder(self._journal.blobs.data).decode(node))
        except ValueError:
            return False
        return True

    def _write(self, kept: _Kept) -> None:
        with self._journal.lock:
            revision = kept.state.revision  # read before the value: a change in between is written once more
            new = revision != kept.revision  # many threads at once: the newest value is written for all of them
            if new:
                value, data = kept.state.get(), kept.state.dump()
                encoder = new_encoder(self._journal.blobs)  # under the lock: what it puts there goes with this entry
                node = encoder.encode(data)
                fits = not encoder.scrubbed or self._fits(kept.state, node)
                if fits:
                    self._journal.runtime({"typed": {kept.state.name: node}})
                kept.revision = revision
        self._journal.commit()
        if kept.warned or not new:
            return
        if encoder.scrubbed:
            kept.warned = True
            what = (
                "it comes back with placeholders" if fits else "with placeholders it would not fit its type: not kept"
            )
            warn_of_loss(f"the state {kept.state.name!r} holds what is redacted; {what}")
        elif encoder.losses:
            kept.warned = True
            warn_of_losses(encoder.losses, f"The state {kept.state.name!r}")
        elif new_encoder().encode(kept.state.fitted(data)) != new_encoder().encode(value):
            kept.warned = True
            warn_of_loss(
                f"the state {kept.state.name!r} holds objects whose classes its type does not name: they would come "
                "back as plain data. Name the type, as in TypedMemory[dict[str, Order]]({})"
            )
