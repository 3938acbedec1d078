"""What long-term memory holds: had by key, listed, counted, said otherwise, confirmed, put away, given up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from smolagents_memory.memory.items import Memory
from smolagents_memory.memory.long_term import LongTerm
from smolagents_memory.memory.proposing import proposed
from smolagents_memory.stores.records import ScopeInfo


class Holdings:
    """The part of an EnhancedAgentMemory that deals with what there is, whatever was asked for."""

    long_term: LongTerm

    def get(self, key: str) -> Memory | None:
        """The memory under a key, archived or not; None where there is none."""
        return self.long_term.memory(key)

    def history(self, key: str) -> list[Memory]:
        """What a memory says, and what those said in whose place it came, the newest first; see `remember`.

        >>> from smolagents_memory import EnhancedAgentMemory
        >>> memory = EnhancedAgentMemory(vector=False)
        >>> old = memory.remember("Ann lives in Berlin.")
        >>> new = memory.remember("Ann lives in Paris.", replaces=old)
        >>> [each.value for each in memory.history(new)], [hit.value for hit in memory.recall("Where does Ann live?")]
        (['Ann lives in Paris.', 'Ann lives in Berlin.'], ['Ann lives in Paris.'])
        """
        return self.long_term.history(key)

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

    # -- the same once more --------------------------------------------------------------------------------------

    def consolidate(self, *, show_progress: bool | None = None) -> dict[str, list[str]]:
        """Join what is the same once more; by the key of each memory that stays, the keys of those put away for it.

        That is what runs leave when they do the same again (the same task with much the same outcome, the same call
        with much the same result), and texts in the same words. The newest stays and tells in its metadata, under
        "repeated", how often, when first and when last; `history` gives the others, `separate` brings them back. After
        a run it is done by itself for what the run left. What is said in other words stays: see `join`.

        >>> from smolagents_memory import EnhancedAgentMemory
        >>> memory = EnhancedAgentMemory(vector=False)
        >>> keys = memory.remember_many(["Deploys go out on Tuesday.", "deploys go out on tuesday"])
        >>> [kept] = memory.consolidate()
        >>> memory.count(), memory.get(kept).meta["repeated"]["times"], len(memory.separate(kept)), memory.count()
        (1, 2, 1, 2)
        """
        return self.long_term.consolidate(show=show_progress)

    def propose_joins(self, model: Any, *, show_progress: bool | None = None) -> list[list[str]]:
        """Have a model say which memories say the same in other words: groups of keys. Nothing is changed: see `join`.

        >>> from smolagents_memory import EnhancedAgentMemory
        >>> from smolagents_memory.testing import ScriptedModel
        >>> memory = EnhancedAgentMemory(vector=False)
        >>> keys = memory.remember_many(["Ann prefers tea.", "Tea is what Ann prefers."])
        >>> [memory.join(group) in keys for group in memory.propose_joins(ScriptedModel(["[[0, 1]]"]))], memory.count()
        ([True], 1)
        """
        return proposed(self.long_term.keeper, model, self.long_term.clock(), show_progress)

    def join(self, keys: Iterable[str]) -> str:
        """Make one of memories that say the same in other words, as `consolidate` does; the key of what stays."""
        return self.long_term.join(keys)

    def separate(self, key: str) -> list[str]:
        """Bring back what was put away by `consolidate` or `join` for a memory, and for that; the keys."""
        return self.long_term.separate(key)

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
        """Delete a memory, and what was put away for it as the same; whether it was there.

        `purge` then leaves no byte of it in the files.
        """
        return bool(self.long_term.forget([key]))

    def forget_where(self, where: Mapping[str, Any]) -> int:
        """Delete the memories that fit the filter, archived ones too, and nothing else; returns how many."""
        return self.long_term.forget_where(where)

    def archive(self, key: str) -> bool:
        """Put a memory away: kept, but recalled no more."""
        return bool(self.long_term.change([key], "archive"))

    def restore(self, key: str) -> bool:
        """Bring an archived memory back as it was; nothing stands for it any more."""
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
