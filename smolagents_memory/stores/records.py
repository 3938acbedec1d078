"""A memory as it is kept: its text, where it comes from, and the history of its use."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from smolagents_memory.database.scopes import user_of


NEWEST = 1000  # recalls of a scope that are known one by one
ORIGINS = ("user", "agent", "tool", "document", "import")  # who wrote a memory
UNCONFIRMED, USUAL, CONFIRMED = 0, 1, 2  # its trust: brought back when asked for; unasked too; a person vouches for it
TOOLS, MEMORIES, SOURCES = "tools", "memories", "sources"  # what it was made of, by name, key and source
REPLACES = "replaces"  # and in whose place it came, by key
JOINED = "joined"  # and which say the same and are put away for it, or for one of those, by key
JOINED_TO = "joined_to"  # and for which it is put away, by key
REPEATED = "repeated"  # in the metadata of what was so often the same: how often, first and last
OF_AGENTS = ("experience", "action", "failure", "outcome", "unsolved", "solution", "lesson")
KINDS = ("memory", "document", *OF_AGENTS)  # which this package gives
_COUNTED = {"times", "first", "last"}
_JOINED = 1000  # keys up to which one lists those of the others, too: each of them has a list of its own
_VOUCHED = ("user", "document", "import")  # who writes the same text vouches for it


def origin_of(kind: str) -> str:
    """Who wrote a memory of which only the kind is known."""
    return "agent" if kind in OF_AGENTS else "document" if kind == "document" else "user"


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
    made_of: dict[str, list[str]] = field(
        default_factory=dict
    )  # TOOLS, MEMORIES, SOURCES, REPLACES, JOINED, JOINED_TO: those there are
    damaged: bool = False  # its bytes were changed: the text is lost, and the memory is left out of every result

    def view(self) -> dict[str, Any]:
        """What a `where` filter sees: the metadata, and beneath it the memory's own fields."""
        names = ("key", "kind", "source", "importance", "created", "origin", "trust")
        return {**{name: getattr(self, name) for name in names}, **self.meta}

    @property
    def tools(self) -> list[str]:
        """The tools whose text it holds, or was made of."""
        return self.made_of.get(TOOLS, [])

    @property
    def replaces(self) -> list[str]:
        """The keys of memories in whose place it came: these are put away."""
        return self.made_of.get(REPLACES, [])

    @property
    def joined(self) -> list[str]:
        """The keys of memories that say the same, and are put away for it."""
        return self.made_of.get(JOINED, [])

    @property
    def joined_to(self) -> str | None:
        """The key of the memory for which it is put away, as long as it is."""
        return next(iter(self.made_of.get(JOINED_TO, ())), None)

    @property
    def counts(self) -> bool:
        """Whether it can be noted how often it was kept: a user's own metadata under that name stays as it is."""
        told = self.meta.get(REPEATED)
        return told is None or (isinstance(told, Mapping) and set(told) == _COUNTED)

    @property
    def times(self) -> int:
        """How often it was kept, with all that was joined with it, as far as that was counted."""
        told = self.meta.get(REPEATED) if self.counts else None
        times = told["times"] if told is not None else None
        return times if isinstance(times, int) and times > 0 else 1 + len(self.joined)

    def standing_for(self, others: Sequence[Record]) -> Record:
        """The same, which says how often it was so, and keeps the keys of the others."""
        repeated = _repeated([self, *others], sum(each.times for each in [self, *others]))
        keys = [key for each in [*others, self] for key in (*each.joined, each.key)]
        if len(keys) > _JOINED:
            keys = [*(each.key for each in others), *self.joined]
        listed = dict.fromkeys(key for key in keys if key != self.key)
        return replace(self, meta={**self.meta, REPEATED: repeated}, made_of={**self.made_of, JOINED: [*listed]})

    def standing_no_more_for(self, other: Record) -> Record:
        """The same without another, and without those that are put away for that."""
        gone, meta = {other.key, *other.joined}, self.meta
        joined = [key for key in self.joined if key not in gone]
        if REPEATED in meta and self.counts:
            times = max(1 + bool(joined), self.times - other.times)
            told = {REPEATED: {**meta[REPEATED], "times": times}} if times > 1 else {}
            meta = {**{name: each for name, each in meta.items() if name != REPEATED}, **told}
        made_of = {name: named for name, named in self.made_of.items() if name != JOINED}
        return replace(self, meta=meta, made_of={**made_of, JOINED: joined} if joined else made_of)

    def put_away_for(self, key: str | None) -> Record:
        """The same, which says for which memory it is put away."""
        made_of = {name: named for name, named in self.made_of.items() if name != JOINED_TO}
        return replace(self, made_of=made_of if key is None else {**made_of, JOINED_TO: [key]})

    def kept_again(self, new: Record) -> dict[str, Any]:
        """The metadata after the same text was kept again. What runs leave is counted."""
        meta = {**self.meta, **new.meta}
        counted = (self.kind in OF_AGENTS or self.joined) and self.counts and new.counts
        return {**meta, REPEATED: _repeated([self, new], self.times + 1)} if counted else meta

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
        lists = {REPLACES: [*dict.fromkeys([*self.replaces, *new.replaces])], JOINED: self.joined}
        made_of = {**first.made_of, **{name: keys for name, keys in lists.items() if keys}}
        return {"origin": first.origin, "trust": first.trust, "made_of": made_of}


def _repeated(records: Sequence[Record], times: int) -> dict[str, Any]:
    """How often something was, when first and when last."""
    told = [each for each in (record.meta.get(REPEATED) for record in records) if isinstance(each, Mapping)]
    first = [each["first"] for each in told if isinstance(each.get("first"), (int, float))]
    last = [each["last"] for each in told if isinstance(each.get("last"), (int, float))]
    created = [record.created for record in records]
    return {"times": times, "first": min(first + created), "last": max(last + created)}


@dataclass
class Draft:
    """A memory to be written: the record, its words, and its vectors where there are any."""

    record: Record
    words: str = ""
    cues: bytes = b""  # what its form tells, see `search.cues`
    vectors: Sequence[Any] = ()  # none: not embedded yet
    reinforce: bool = False  # what is there already, under this key, is strengthened and not replaced
    like: str | None = None  # the key of another with the same text, whose vectors are as good


class Written(NamedTuple):
    """What became of drafts: the keys of those that were taken for known and are new, and of what they replaced."""

    bare: Sequence[str] = ()
    away: Sequence[str] = ()


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
    def user(self) -> str | None:
        """The person whose it is; None for nobody's."""
        return user_of(self.scope)

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

    def noted(self, before: Any) -> dict[str, float]:
        """What a memory's row says of its use after this."""
        touched = self.last if before.touched < self.last else before.touched
        return {"uses": before.uses + self.often, "touched": touched, "useful": before.useful + self.helped}
