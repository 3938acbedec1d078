"""Which names of an agent's code may hold what tools returned.

It is not followed from one name to the next, for text comes along ways that no reading of code sees: another name for
the same list, a method, a closure. Once a statement had to do with such text, it may be in whatever can be changed:
clean stays what is bound to a number, a text or the like, or to a function, which holds no more than what it reads.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Sequence

from smolagents_memory.steps.code_names import Names, is_value


_Tools = dict[str, None]  # in the order in which they came


class Holding:
    """The names that one agent's code knows, and the tools whose text each may hold."""

    def __init__(self) -> None:
        self._came: _Tools = {}  # the tools whose text is in any of them
        self._held: dict[str, _Tools] = {}  # every name that is known; of those that are clean, none
        self._values: set[str] = set()  # bound to what nobody can change
        self._functions: dict[str, frozenset[str]] = {}  # that hold nothing: the names that each reads
        self._imported: set[str] = set()

    def copy(self) -> Holding:
        """Another one that begins as this one is."""
        return copy.deepcopy(self)

    @property
    def tools(self) -> list[str]:
        """The tools whose text may be in any of the names."""
        return list(self._came)

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Those of which no code that was followed says where they are from."""
        return [name for name in names if name not in self._held]

    def held_by(self, names: Iterable[str]) -> list[str]:
        """The tools whose text may be in these."""
        return list(dict.fromkeys(tool for name in names for tool in self._held.get(name, ())))

    def given(self, names: Iterable[str], tools: Iterable[str] = ()) -> None:
        """These come from outside the code, made of what these tools returned."""
        tools = dict.fromkeys(tools)
        self._came.update(tools)
        for name in names:
            self._forget_kind(name)
            self._held.setdefault(name, {}).update(tools)

    def sent(self, name: str, tools: Iterable[str], *, is_a_value: bool) -> None:
        """This is given to the code anew; of a number, a text or the like nothing is left of what it was before."""
        if is_a_value:
            self._held.pop(name, None)
        self.given([name], tools)
        if is_a_value:
            self._values.add(name)

    def imports(self, names: Iterable[str]) -> None:
        """These are out of a module."""
        self._held.update((name, {}) for name in names)
        self._imported.update(names)

    def came(self, tools: Iterable[str], names: Iterable[str] = ()) -> None:
        """Text of these tools came to these names, and maybe to whatever can be changed."""
        lasting = self._values | self._functions.keys() | self._imported
        self.given([*(self._held.keys() - lasting), *names], tools)

    def lost_sight(self, tools: Iterable[str]) -> None:
        """Code that nobody has seen ran: any name may hold text of these."""
        self.given(list(self._held), tools)

    def ran(
        self,
        code: Sequence[Names],
        foreign: Collection[str],
        ours: Collection[str],
        heard: Iterable[str],
        *,
        here: bool,
        surely: bool,
    ) -> list[str]:
        """Follow some code; the tools whose text it had to do with.

        Args:
            code: Its statements.
            foreign: The tools that there are.
            ours: Names that return nobody's text.
            heard: The tools that were heard returning something while it ran.
            here: Whether it ran before our eyes: a name that is known to nobody holds anything that came; elsewhere
                it may have been a tool.
            surely: Whether all of it ran.
        """
        found: _Tools = {}
        also = list(heard)
        if also:  # those that were called by no name that is known: by whichever statement
            seen = self.copy().ran(code, foreign, ours, (), here=here, surely=surely)
            also = [tool for tool in also if tool not in seen]
        for names in code:
            theirs = dict.fromkeys(also)
            for name in sorted(self._all_read(names)):
                theirs.update(dict.fromkeys(self._whose(name, names, foreign, ours, here=here)))
            found.update(theirs)
            if theirs:
                self.came(theirs, (names.read & self._held.keys()) | names.made | names.imported)
            else:
                self._bind(names, surely=surely)
        return list(dict.fromkeys([*found, *also]))

    def _all_read(self, names: Names) -> set[str]:
        """What a statement reads, and what the functions read that it knows of."""
        found: set[str] = set()
        waiting = {*names.read, *(name for name in names.own if self._held.get(name))}
        while waiting:
            name = waiting.pop()
            found.add(name)
            waiting |= self._functions.get(name, frozenset()) - found
        return found

    def _whose(
        self, name: str, names: Names, foreign: Collection[str], ours: Collection[str], *, here: bool
    ) -> Iterable[str]:
        if name in foreign:
            return [name]
        if name in self._held:
            return self._held[name]
        if name in names.made or name in names.imported or name in ours:
            return ()
        return self._came if here else [name, *self._came]

    def _bind(self, names: Names, *, surely: bool) -> None:
        """A statement that had to do with nothing foreign has run, or was to run."""
        is_a_value = names.value is not None and is_value(names.value, self._values, self._held)
        for name in names.made | names.imported:
            self._forget_kind(name)
            whose = self._held.setdefault(name, {})
            if surely and name in names.bound:
                whose.clear()
            if name in names.imported:
                self._imported.add(name)
            elif surely and names.function and name in names.bound:
                self._functions[name] = names.read
            elif surely and is_a_value and not whose:
                self._values.add(name)

    def _forget_kind(self, name: str) -> None:
        self._values.discard(name)
        self._functions.pop(name, None)
        self._imported.discard(name)
