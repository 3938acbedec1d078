"""What long-term memory holds: had by key, listed, counted, said otherwise, confirmed, put away, given up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from smolagents_memory.memory.long_term import LongTerm, Memory
from smolagents_memory.stores.records import ScopeInfo


class Holdings:
    """The part of an EnhancedAgentMemory that deals with what there is, whatever was asked for."""

    long_term: LongTerm

    def get(self, key: str) -> Memory | None:
        """The memory under a key, archived or not; None where there is none."""
        return self.long_term.memory(key)

    def items(self, where: Mapping[str, Any] | None = None, *, archived: bool | None = False) -> Iterator[Memory]:
        """The memories of the scope that fit, one after the other, in the order in which they were first added.

        Any number of them: they are read as you go. `archived=None` gives those that were put away as well, and True
        these alone. What is changed meanwhile does no harm.

        >>> from smolagents_memory import EnhancedAgentMemory
        >>> memory = EnhancedAgentMemory(vector=False)
        >>> keys = memory.remember_many([{"text": "tea", "meta": {"n": 1}}, {"text": "milk", "meta": {"n": 2}}])
        >>> [each.value for each in memory.items(where={"n": 2})], memory.count()
        (['milk'], 2)
        """
        return self.long_term.items(where, archived=archived)

    def count(self, where: Mapping[str, Any] | None = None, *, archived: bool | None = False) -> int:
        """How many memories there are, or fit. (There is no `len`: an empty memory must stay true.)"""
        return self.long_term.count(where, archived=archived)

    def scopes(self) -> list[ScopeInfo]:
        """The scopes that have memories here, archived ones too, and how many; of a store of your own, its one.

        >>> from smolagents_memory import EnhancedAgentMemory
        >>> [(each.scope, each.memories) for each in EnhancedAgentMemory(vector=False).scopes()]
        []
        """
        return self.long_term.scopes()

    def update(self, key: str, *, text: str | None = None, meta: Mapping[str, Any] | None = None) -> bool:
        """Say a memory otherwise, or replace its metadata; False when it is not there.

        It keeps its key, its source and times, how it was used, and whether it is pinned or archived. A new text is
        found by its own words and meaning, and is not confirmed any more.
        """
        return self.long_term.update(key, text=text, meta=meta)

    def clear(self) -> int:
        """Delete all memories of this scope, archived and pinned ones too; returns how many. Others stay."""
        return self.long_term.clear()

    # -- whose word it is ----------------------------------------------------------------------------------------

    def confirm(self, key: str) -> bool:
        """A person vouches for a memory: it may come unasked, whoever wrote it. False when it is not there.

        >>> from smolagents_memory import EnhancedAgentMemory
        >>> memory = EnhancedAgentMemory(vector=False)
        >>> key = memory.remember("The tram runs every ten minutes.", origin="tool", source="timetable")
        >>> memory.confirm(key), memory.recall("tram")[0].trust
        (True, 2)
        """
        return bool(self.long_term.change([key], "confirm"))

    def revoke(self, *, source: str | None = None, key: str | None = None) -> list[str]:
        """Delete what came from a source (a run, a document, a tool's name) and all that was made of it; the keys.

        With `key` instead, one memory and all that was made of it. `purge` then leaves no byte of it in the files.
        """
        return self.long_term.revoke(source, key)

    # -- forgetting --------------------------------------------------------------------------------------------

    def forget(self, key: str) -> bool:
        """Delete a memory; whether it was there. `purge` then leaves no byte of it in the files."""
        return bool(self.long_term.forget([key]))

    def forget_where(self, where: Mapping[str, Any]) -> int:
        """Delete the memories that fit the filter, archived ones too; returns how many."""
        return self.long_term.forget_where(where)

    def archive(self, key: str) -> bool:
        """Put a memory away: kept, but recalled no more."""
        return bool(self.long_term.change([key], "archive"))

    def restore(self, key: str) -> bool:
        """Bring an archived memory back as it was."""
        return bool(self.long_term.change([key], "restore"))

    def pin(self, key: str) -> bool:
        """Keep a memory from fading."""
        return bool(self.long_term.change([key], "pin"))

    def unpin(self, key: str) -> bool:
        """Let a memory fade again."""
        return bool(self.long_term.change([key], "unpin"))

    def decay(self) -> list[str]:
        """Archive what has faded; returns the keys."""
        return self.long_term.decay()

    def purge(self) -> list[str]:
        """Delete what was archived long enough ago, and every byte of what was forgotten; returns the keys."""
        return self.long_term.purge()
