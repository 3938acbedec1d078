"""How well recall serves: how often it finds something, how often that helps, and whether this falls off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from smolagents_memory.stores.records import Recall, Served


WINDOW = 20  # recalls that are compared with as many before
_DROP = 0.6  # a ratio below this share of the one before is a drift

IN_SQL = "in the database, over all processes"
HERE = "in this process"


@dataclass(frozen=True)
class LongTermStats:
    """What `EnhancedAgentMemory.stats()` says of a scope.

    Args:
        memories: How many can be found.
        archived: How many are put away.
        embedder: The name of what makes vectors; None where words alone decide.
        not_embedded: Memories without vectors of this embedder. Until there are none recall goes by words.
        index: What serves the vectors now: "exact", "bits" for many of them, or "chroma".
        leads: Whether this process leads Chroma's folder.
        lost: What a store of your own lacks, and what does not work without it.
        recalls: How often was asked: by `recall`, by a tool, or by itself.
        hit_ratio: The share of recalls that found something; None before the first.
        useful_ratio: The share of recalls of which something helped, as `feedback` and the agent's next step tell.
        hit_ratio_over_time: The same of the newest thousand, in windows of twenty.
        useful_ratio_over_time: Likewise.
        drift: A sentence when the last window fell well below the one before it.
        counted: Where recalls are counted. Those of the last minute, of other processes, may not be written yet.

    >>> from smolagents_memory import EnhancedAgentMemory
    >>> memory = EnhancedAgentMemory(vector=False)
    >>> key = memory.remember("The staging server needs the VPN.")
    >>> found = memory.recall("staging")
    >>> memory.stats().memories, memory.stats().hit_ratio, memory.stats().to_dict()["recalls"]
    (1, 1.0, 1)
    """

    memories: int
    archived: int
    embedder: str | None
    not_embedded: int
    index: str
    leads: bool
    lost: dict[str, str] = field(default_factory=dict)
    recalls: int = 0
    hit_ratio: float | None = None
    useful_ratio: float | None = None
    hit_ratio_over_time: list[float] = field(default_factory=list)
    useful_ratio_over_time: list[float] = field(default_factory=list)
    drift: str | None = None
    counted: str = HERE

    def to_dict(self) -> dict[str, Any]:
        """All of it as a dictionary, for JSON and for logs."""
        return asdict(self)

    def __getitem__(self, name: str) -> Any:
        """A figure by its name, as in 0.1.0, where this was a dictionary: `stats["hit ratio"]`."""
        try:
            return self.to_dict()[name.replace(" ", "_")]
        except (KeyError, AttributeError):
            raise KeyError(name) from None


def figures(served: Served) -> dict[str, Any]:
    """What recalls tell: ratios over all of them and over time, in windows."""
    newest = served.newest
    windows = [newest[start : start + WINDOW] for start in range(0, len(newest), WINDOW)]
    return {
        "recalls": served.recalls,
        "hit_ratio": served.hits / served.recalls if served.recalls else None,
        "useful_ratio": served.helped / served.recalls if served.recalls else None,
        "hit_ratio_over_time": [_ratio(map(_hit, window)) for window in windows],
        "useful_ratio_over_time": [_ratio(map(_helped, window)) for window in windows],
        "drift": drift(newest),
    }


def drift(newest: Sequence[Recall]) -> str | None:
    """What fell off in the last window of recalls, as a sentence."""
    if len(newest) < 2 * WINDOW:
        return None
    before, last = newest[-2 * WINDOW : -WINDOW], newest[-WINDOW:]
    for what, of in (("hit", _hit), ("useful", _helped)):
        then, now = _ratio(map(of, before)), _ratio(map(of, last))
        if then >= 0.25 and now < _DROP * then:
            return f"the {what} ratio of the last {WINDOW} recalls is {now:.2f}, after {then:.2f} in those before"
    return None


class Watch:
    """Says once in a while, to a log, that recall serves less well than it did."""

    def __init__(self) -> None:
        self._since = 0

    def asked(self, newest: Callable[[int], Served]) -> str | None:
        """One more recall was made; what to say of it, if anything."""
        self._since += 1
        if self._since < WINDOW:
            return None
        self._since = 0
        return drift(newest(2 * WINDOW).newest[-2 * WINDOW :])


def _hit(recall: Recall) -> bool:
    return bool(recall.items)


def _helped(recall: Recall) -> bool:
    return recall.helped


def _ratio(values: Iterable[bool]) -> float:
    values = list(values)
    return sum(values) / len(values)
