"""A memory as it is kept: its text, where it comes from, and the history of its use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


NEWEST = 1000  # recalls of a scope that are known one by one


@dataclass
class Record:
    """One memory. `place` orders the memories of one source; the times are seconds since 1970."""

    key: str
    value: Any
    meta: dict[str, Any] = field(default_factory=dict)
    kind: str = "memory"
    source: str | None = None
    importance: float = 1.0
    created: float = 0.0
    touched: float = 0.0
    uses: float = 0.0
    useful: float = 0.0
    pinned: bool = False
    archived: float | None = None
    id: int = 0
    place: int | None = None
    damaged: bool = False  # its bytes were changed: the text is lost, and the memory is left out of every result

    def view(self) -> dict[str, Any]:
        """What a `where` filter sees: the metadata, and beneath it the memory's own fields."""
        names = ("key", "kind", "source", "importance", "created")
        return {**{name: getattr(self, name) for name in names}, **self.meta}


@dataclass
class Draft:
    """A memory to be written: the record, its words, and its vectors where there are any."""

    record: Record
    words: str = ""
    vectors: Sequence[Any] = ()  # none: not embedded yet
    reinforce: bool = False  # what is there already, under this key, is strengthened and not replaced


@dataclass(frozen=True)
class ScopeInfo:
    """A scope that is in a place: None is the one without a name.

    >>> str(ScopeInfo({"user": "ann"}, 3)), str(ScopeInfo(None, 1, 2))
    ('user=ann: 3 memories', 'no scope: 1 memory, 2 archived')
    """

    scope: dict[str, Any] | None
    memories: int
    archived: int = 0

    @property
    def named(self) -> str:
        """As the command line takes it."""
        return "no scope" if self.scope is None else " ".join(f"{name}={each}" for name, each in self.scope.items())

    def __str__(self) -> str:
        away = f", {self.archived} archived" if self.archived else ""
        return f"{self.named}: {self.memories} {'memory' if self.memories == 1 else 'memories'}{away}"


class Recall(NamedTuple):
    """One recall: when, the numbers of the memories that it gave (none is a miss), and whether one of them helped."""

    at: float
    items: tuple[Any, ...]
    helped: bool = False


class Served(NamedTuple):
    """How many recalls there were, how many found something and how many were of use; and the newest, oldest first."""

    recalls: int = 0
    hits: int = 0
    helped: int = 0
    newest: Sequence[Recall] = ()

    def beside(self, others: Sequence[Recall]) -> Served:
        """With more recalls."""
        hits, helped = sum(bool(each.items) for each in others), sum(each.helped for each in others)
        newest = [*self.newest, *others][-NEWEST:]
        return Served(self.recalls + len(others), self.hits + hits, self.helped + helped, newest)

    def with_help(self, item: Any) -> Served:
        """The newest recall that gave this memory was of use."""
        newest = list(self.newest)
        for at in range(len(newest) - 1, -1, -1) if item is not None else ():
            if item in newest[at].items:
                helped = self.helped + (not newest[at].helped)
                newest[at] = newest[at]._replace(helped=True)
                return self._replace(helped=helped, newest=newest)
        return self


class Use(NamedTuple):
    """How often a memory was recalled, when last, and how often that turned out to help, less how often not."""

    often: float = 0.0
    last: float = 0.0
    helped: float = 0.0
