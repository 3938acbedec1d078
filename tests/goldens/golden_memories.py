"""The memories that a place of the goldens is filled with: of every kind, in three scopes, as years go by.

Frozen: `make.py` ran this on the released code, and what it wrote is in `data`.
"""

from __future__ import annotations

import zlib
from typing import Any

from golden_stories import NOW, ODD_ID, ODD_TEXT, golden_coder

from smolagents_memory import EnhancedAgentMemory, ForgettingCurve, SqlStore


DAY = 86_400.0
ANN, BOB = {"user": "ann"}, {"user": "bob", "team": 7}


class GoldenEmbedder:
    """Word hashes as vectors: the same on every machine. Counts the texts that it was given to keep."""

    name = "golden-hash"
    width = 32

    def __init__(self) -> None:
        self.documents = 0

    def embed_documents(self, texts: Any) -> Any:
        self.documents += len(texts)
        return self._rows(texts)

    def embed_query(self, text: str) -> Any:
        return self._rows([text])[0]

    def _rows(self, texts: Any) -> Any:
        import numpy

        rows = numpy.zeros((len(texts), self.width), dtype=numpy.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().split():
                row[zlib.crc32(word.strip(".,:;?!").encode("utf-8", "replace")) % self.width] += 1
        return rows


class Clock:
    """A clock that is set by hand."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


DOCUMENT = "\n\n".join(
    f"Chapter {n}. The {animal} of the northern valley sleeps through {season} and eats {food}. "
    + f"Its den is {n * 3} metres deep and lies under {tree} roots. " * 11
    for n, (animal, season, food, tree) in enumerate(
        [
            ("badger", "winter", "worms", "oak"),
            ("dormouse", "autumn", "nuts", "hazel"),
            ("toad", "frost", "flies", "ash"),
        ]
    )
)
QUERIES: list[tuple[str, dict[str, Any] | None]] = [
    ("How do I reach the staging server?", None),
    ("Which tea does Ann like?", None),
    ("How deep is the den of the dormouse, and what does it eat?", None),
    ("deploy", {"kind": "failure"}),
    ("deploy to production", {"importance": {"$gte": 2}}),
    ("server", {"year": {"$gte": 2024}}),
    ("note", {"source": "minutes"}),
    ("badger", {"$not": {"kind": "document"}}),
    ("everything about nothing at all", None),
]


def tell_memories(place: str) -> None:
    """Fill a place with memories in three scopes, as years go by."""
    clock = Clock(NOW - 900 * DAY)
    for scope in (None, ANN, BOB):
        clock.now = NOW - 900 * DAY
        _remember(place, scope, clock, GoldenEmbedder())


def tell_words(place: str) -> None:
    """Memories without vectors, and values that are no texts in a store beside them."""
    _remember(place, None, Clock(NOW - 900 * DAY), None)
    file = f"{place}/memory.db"
    with_values: SqlStore[Any] = SqlStore(file, scope={"store": "values"}, clock=Clock(NOW))
    with_values.add_many(
        [
            ("list", [1, 2.5, None, {"a": "the mat"}], {"n": 1}),
            ("text", "The key is under the mat.", {"n": 2, "tags": ["key", "mat"]}),
            (ODD_ID, ODD_TEXT, {"odd": "ü\x00"}),
        ]
    )
    with_values.close()


def _remember(place: str, scope: dict[str, Any] | None, clock: Clock, embedder: Any) -> None:
    options: dict[str, Any] = {"embedder": embedder, "scope": scope, "clock": clock}
    mine = "Ann" if scope == ANN else "Bob" if scope == BOB else "everybody"
    with EnhancedAgentMemory(place, **options, forgetting=ForgettingCurve(half_life=20)) as memory:
        memory.remember(f"A fleeting remark of {mine}.", key="fleeting")
        memory.remember(f"A pinned remark of {mine}.", key="pinned", importance=3)
        memory.pin("pinned")
        memory.remember("Something that was soon put away.", key="away", meta={"year": 2023})
        clock.now = NOW - 40 * DAY
        memory.decay()  # the fleeting one fades
        for n in range(6):
            memory.remember(
                f"Note {n}: {mine} said that the server {n} is restarted on day {n}.", key=f"note-{n}",
                source="minutes", meta={"n": n, "year": 2022 + n}, importance=0.5 + n / 2,
            )  # fmt: skip
        memory.remember("The staging server is reached through the VPN.", importance=2, meta={"tags": ["ops", "net"]})
        memory.remember("Never deploy to production on a Friday.", kind="failure", key="friday", importance=4)
        memory.remember("To deploy, run the pipeline twice.", kind="failure", source="run-7", meta={"year": 2025})
        memory.remember(f"{mine} likes green tea, no sugar.", key="tea")
        memory.remember(ODD_TEXT, key=ODD_ID, meta={"odd": "ü\ud800", "none": None, "nested": {"a": [1, 2.5, True]}})
        memory.add_experience("Asking twice gave the same answer.", importance=1.5)
        memory.remember_document(DOCUMENT + "\n\n" + "A last chapter that is dropped later. " * 25, "animals.txt")
        memory.remember_document(DOCUMENT, "animals.txt")  # a newer version
        clock.now = NOW - 10 * DAY
        memory.remember("Never deploy to production on a Friday.", kind="failure", key="friday", importance=5)  # anew
        memory.remember("The staging server is reached through the VPN.", meta={"seen": 2})  # once more: stronger
        memory.recall("staging server VPN")
        memory.recall("green tea")
        memory.recall("badger den", 2)
        memory.feedback("tea")
        memory.feedback("tea")
        memory.feedback("note-3", useful=False)
        memory.archive("away")
        memory.archive("note-1")
        memory.restore("note-1")
        memory.pin("note-2")
        memory.unpin("note-2")
        memory.forget("note-5")
        memory.remember("Deleted in a moment.", key="gone")
        assert memory.forget_where({"key": "gone"}) == 1
        agent = golden_coder("print(double(number=4))", "final_answer('eight')")
        memory.attach(agent)  # what it learns from a run
        agent.run("Double four for the report.")
        agent = golden_coder("fail(reason='the printer is on fire')", "final_answer('gave up')")
        clock.now = NOW - DAY
    with EnhancedAgentMemory(place, **options, auto_recall=2) as memory:
        memory.attach(agent)
        agent.run("Print the report about the staging server.")
        clock.now = NOW
