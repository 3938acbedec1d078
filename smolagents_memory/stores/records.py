"""A memory as it is kept: its text, where it comes from, and the history of its use."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple


NEWEST = 1000  # recalls of a scope that are known one by one
ORIGINS = ("user", "agent", "tool", "document", "import")  # who wrote a memory
UNCONFIRMED, USUAL, CONFIRMED = 0, 1, 2  # its trust: brought back when asked for; unasked too; a person vouches for it
TOOLS, MEMORIES, SOURCES = "tools", "memories", "sources"  # what it was made of, by name, key and source
_OF_AGENTS = ("experience", "action", "failure", "outcome", "unsolved", "solution", "lesson")
_VOUCHED = ("user", "document", "import")  # who writes the same text vouches for it


def origin_of(kind: str) -> str:
    """Who wrote a memory of which only the kind is known."""
    return "agent" if kind in _OF_AGENTS else "document" if kind == "document" else "user"


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
    origin: str = "user"
    trust: int = USUAL
    made_of: dict[str, list[str]] = field(default_factory=dict)  # TOOLS, MEMORIES, SOURCES: those there are
    damaged: bool = False  # its bytes were changed: the text is lost, and the memory is left out of every result

    def view(self) -> dict[str, Any]:
        """What a `where` filter sees: the metadata, and beneath it the memory's own fields."""
        names = ("key", "kind", "source", "importance", "created", "origin", "trust")
        return {**{name: getattr(self, name) for name in names}, **self.meta}

    @property
    def tools(self) -> list[str]:
        """The tools whose text it holds, or was made of."""
        return self.made_of.get(TOOLS, [])

    def comes_unasked(self, trusted: Collection[str]) -> bool:
        """Whether it may be put into a prompt that did not ask for it, where these tools are the program's own."""
        if isinstance(self.trust, int) and self.trust >= USUAL:
            return True
        return bool(self.tools) and all(tool in trusted for tool in self.tools)

    def reworded(self, text: Any, meta: dict[str, Any] | None) -> Record:
        """With this text and, unless None, other metadata. Nobody has vouched for another text."""
        trust = self.trust if text == self.value else min(self.trust, USUAL)
        return replace(self, value=text, meta=self.meta if meta is None else meta, trust=trust)

    def vouched(self, new: Record) -> dict[str, Any]:
        """What the same text, written again, makes of origin and trust: only a more trusted writer changes them."""
        better = new.trust > self.trust and new.origin in _VOUCHED
        first = new if better else self
        return {"origin": first.origin, "trust": first.trust, "made_of": first.made_of}


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
