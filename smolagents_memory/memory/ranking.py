"""How the parts of a score come together. Everything is in deviations of the scope it is found in.

A list's scores say little as they are: a cosine of 0.4 is much in one scope and little in another. So each is put
as "how many deviations above what this query scores on the scope's texts", and then they add up. To that comes what
the form of a text tells (see `search.cues`), what its neighbours lend it, and its history.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from smolagents_memory._brief import brief
from smolagents_memory._errors import UnsupportedValueError
from smolagents_memory.search.cues import MOST_FIRST, Asked, Cues


_OF_ONE_MATTER = 0.35  # of the weight of a query's words: two texts that both hold these speak of the same
_SURELY = 0.6  # the same behind the first: or who asks for few would get less of what they ask for
_FIRST, _ORDERED = 10, 500  # behind so many nobody looks for which of two is the later one
_OVERTAKES = 3.0  # deviations that a text may be behind an older one which it corrects
_SAYS_BRIEFLY = 2  # times as long as `short` may a text be that is taken for a correction
COVERS = 0.8  # of the weight of a query's words: a text that holds less is not ahead for it


@dataclass(frozen=True)
class Ranker:
    """The weights of recall. The defaults were chosen on conversations of three kinds; to change one by a quarter
    hardly matters.

    Args:
        lexical: The weight of the words; the vectors have the rest.
        beside: What the better of the two direct neighbours lends, as a share of its score. A neighbour lends what
            its words and its meaning score, and not what its form tells.
        near: What the better of the two neighbours after these lends.
        short: Words up to which a text is lent all of that; a text of twice as many gets half. A long text says
            enough itself. The same holds of `time` and `names`, for a long text tells some time or other.
        covers: What a text is ahead that holds all of the query's words; one that holds 0.8 of their weight is not.
        speaker: What a text is ahead whose speaker the query names, as in "Ann: …" or "[8 May] Ann: …".
        question: What a text is behind that ends in a question: it asks for what others answer.
        time: What a text is ahead that tells a time, when the query asks for one.
        names: The same for each name, three at most, when the query asks who, where or which.
        first: What a text is ahead that speaks of who says it in each fifth word: who was there knows.
        recency: What a memory of this moment is ahead of a very old one.
        half_life: Days after which half of that is left.
        importance: What doubling the importance is worth.
        use: What each doubling of its useful uses is worth.
        candidates: How many are looked at from either list.
    """

    lexical: float = 0.37
    beside: float = 0.5
    near: float = 0.3
    short: int = 80
    covers: float = 1.5
    speaker: float = 2.0
    question: float = 1.0
    time: float = 1.0
    names: float = 0.8
    first: float = 0.6
    recency: float = 0.1
    half_life: float = 30.0
    importance: float = 0.25
    use: float = 0.2
    candidates: int = 40
    widened: int = 30

    def own(self, lexical: float, vector: float | None) -> float:
        """A text's own score from its deviations; without vectors its words count alone."""
        return lexical if vector is None else self.lexical * lexical + (1 - self.lexical) * vector

    def share(self, words: int) -> float:
        """How much of what neighbours lend, and of what its form tells, a text of so many words gets."""
        return min(1.0, self.short / max(1, words))

    def form_parts(self, cues: Cues, asked: Asked, *, named: bool, covered: float) -> dict[str, float]:
        """What the form of a text is worth, that holds so much of the query; `named`: whether its speaker is."""
        share = self.share(cues.words)
        return {
            "covers": self.covers * max(0.0, (covered - COVERS) / (1 - COVERS)),
            "speaker": self.speaker * named,
            "question": -self.question * cues.question,
            "time": self.time * share * (asked.time and cues.times),
            "names": self.names * share * cues.names * asked.name,
            "first": self.first * cues.first / MOST_FIRST,
        }

    def recency_part(self, age_days: float) -> float:
        """What a memory's age is worth."""
        return self.recency * math.pow(2.0, -max(0.0, age_days) / self.half_life)

    def importance_part(self, importance: float) -> float:
        """What a memory's importance is worth: 1 is ordinary."""
        return 0.0 if importance == 1 else self.importance * math.log2(min(max(importance, 1 / 16), 16))

    def use_part(self, useful: float) -> float:
        """What is worth that a memory has helped before, or has not."""
        return math.copysign(self.use * min(3.0, math.log2(1 + abs(useful))), useful) if useful else 0.0


@dataclass(slots=True)
class Candidate:
    """A memory on its way through the ranking: `own` is of its words and its meaning, `form` of its form."""

    id: int
    place: int | None
    words: str
    length: int
    created: float
    touched: float
    importance: float
    useful: float
    cues: Cues | None = None  # None: not told yet
    lexical: float = 0.0
    held: frozenset[str] = frozenset()  # the query's words that are in it
    covered: float = 0.0  # the share of their weight
    vector: float | None = None
    cosine: float = 0.0
    own: float = 0.0
    form: float = 0.0


def lent(ranker: Ranker, own_by_place: Mapping[int, float], place: int | None) -> float:
    """What a memory gets from those beside it in its source: a share of the better one's score, at each distance."""
    if place is None:
        return 0.0
    score = own_by_place.get
    beside = max(score(place - 1, 0.0), score(place + 1, 0.0), 0.0)
    near = max(score(place - 2, 0.0), score(place + 2, 0.0), 0.0)
    return ranker.beside * beside + ranker.near * near


def newest_first(
    ranked: Sequence[tuple[float, Candidate]], ranker: Ranker, worth: Mapping[str, float], whole: float
) -> list[tuple[float, Candidate]]:
    """The best, of which a later one that tells of a change comes before an older one on the same matter.

    It is for questions of how things are: who asks about the past wants to know how they were.
    """
    order: list[tuple[float, Candidate]] = []
    for rank, each in enumerate(ranked):
        place = len(order)
        cues = each[1].cues
        if rank < _ORDERED and cues is not None and cues.change and cues.words <= _SAYS_BRIEFLY * ranker.short:
            alike = whole * (_OF_ONE_MATTER if rank < _FIRST else _SURELY)
            place = next((at for at, older in enumerate(order) if _corrects(each, older, worth, alike)), place)
        order.insert(place, each)
    return order


def _corrects(
    later: tuple[float, Candidate],
    older: tuple[float, Candidate],
    worth: Mapping[str, float],
    alike: float,
) -> bool:
    (mine, one), (theirs, other) = later, older
    is_later = (one.created, one.id) > (other.created, other.id)
    return is_later and mine >= theirs - _OVERTAKES and sum(worth[word] for word in one.held & other.held) >= alike > 0


def sentence_weights(best: Sequence[float]) -> list[float]:
    """How much each sentence of a long query counts, from how near its nearest memories are.

    Most sentences of a long instruction have nothing like them in memory, and so lose their say: 0.1 less of cosine
    leaves a third of it.
    """
    top = max(best, default=0.0)
    return [math.exp(10.0 * (each - top)) for each in best]


def relevance(cosine: float | None, coverage: float) -> float:
    """How sure it is, from 0 to 1, that a memory has to do with the query: apart from what else is in memory."""
    if cosine is None:
        return 1 / (1 + math.exp(-(10.0 * coverage - 4.5)))
    return 1 / (1 + math.exp(-(9.0 * cosine + 4.0 * coverage - 5.0)))


def checked_relevance(least: object) -> float:
    """A relevance that somebody asks for."""
    if isinstance(least, bool) or not isinstance(least, (int, float)) or not 0 <= least <= 1:
        raise UnsupportedValueError(f"min_relevance is a number from 0 (anything) to 1, not {brief(least)}")
    return float(least)
