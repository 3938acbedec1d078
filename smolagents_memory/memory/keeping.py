"""Where an EnhancedAgentMemory keeps its memories: in SQL, the usual place, or in stores of the user's own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, TypeVar

from smolagents_memory._errors import EmbeddingError
from smolagents_memory._forks import Lock
from smolagents_memory._json import parse_json
from smolagents_memory._progress import progress
from smolagents_memory.codec.plain_json import searchable
from smolagents_memory.database.redacting import Redaction, redaction_of
from smolagents_memory.memory.candidates_in_sql import asked_of_sql
from smolagents_memory.memory.candidates_in_stores import StoreSource
from smolagents_memory.memory.ranking import Ranker
from smolagents_memory.memory.recalling import Fits, Found, Source, recalled
from smolagents_memory.memory.reembedding import forget_damaged, reembed
from smolagents_memory.memory.serving import HERE, IN_SQL, LongTermStats, figures
from smolagents_memory.memory.traces import Traces
from smolagents_memory.privacy.redaction import Redactor
from smolagents_memory.search.cues import cues_of
from smolagents_memory.search.words import words
from smolagents_memory.stores.adapting import as_store, lost_by
from smolagents_memory.stores.bank import Bank
from smolagents_memory.stores.records import Draft, Record
from smolagents_memory.stores.requirements import Needed
from smolagents_memory.stores.rereading import reread
from smolagents_memory.stores.store_bank import StoreBank
from smolagents_memory.stores.vault import Vault


CHUNK = 1000  # memories in one transaction of a long list

AnyBank = TypeVar("AnyBank", Bank, StoreBank)


class Keeper(ABC, Generic[AnyBank]):
    """The memories of one bank: kept, recalled, and their use noted."""

    def __init__(self, bank: AnyBank, ranker: Ranker) -> None:
        self.bank: AnyBank = bank
        self._ranker = ranker
        self._lock = Lock()
        self.traces = Traces(bank)
        self.redaction: Redaction | None = None  # what takes things out of whatever is written

    @abstractmethod
    def asked(self, query: str) -> AbstractContextManager[Source | None]:
        """Where candidates for one query come from; None where nothing is."""

    @abstractmethod
    def write(self, drafts: list[Draft]) -> Sequence[str]:
        """Keep memories, all or none; the keys of those in whose place they came."""

    @abstractmethod
    def update(self, key: str, text: str | None, meta: dict[str, Any] | None) -> bool:
        """Give a memory another text, other metadata, or both; whether it is there."""

    @abstractmethod
    def reindex(self, *, show: bool | None = None) -> dict[str, int]:
        """Make every index whole: how many vectors were missing, and whether an index was made anew."""

    @abstractmethod
    def stats(self) -> LongTermStats:
        """What there is to know about the place, and how well it serves."""

    def erase(self) -> bool:
        """Make sure that no byte of what was deleted is left; False where somebody or something prevents it."""
        return self.bank.erase()

    @abstractmethod
    def opened_by(self) -> str:
        """What is written to have one more memory at this place."""

    def close(self) -> None:
        """Write what waits and let go."""
        self.flush()

    def put(self, records: Sequence[Record], *, reinforce: set[str], show: bool | None = None) -> list[str]:
        """Keep records in order. One that is there is strengthened if its key is in `reinforce`, else replaced.

        Returns the keys of those in whose place they came.
        """
        first: dict[str, str] = {}  # the key of each text
        away: list[str] = []
        with progress("Remembering", len(records), show=show) as advance:
            for start in range(0, len(records), CHUNK):
                some = records[start : start + CHUNK]
                like = [first.setdefault(searchable(record.value), record.key) for record in some]
                pairs = zip(some, like, strict=True)
                drafts = [Draft(record, reinforce=record.key in reinforce, like=key) for record, key in pairs]
                away.extend(self.write(drafts))
                advance(len(some))
        return away

    @abstractmethod
    def replace(self, source: str, prefix: str, records: Sequence[Record]) -> list[str]:
        """Keep all parts of a document, and none of an earlier version; the keys of those that are no more.

        They are what has this source and a key that begins so.
        """

    def records(self, *, archived: bool | None = False, wanted: Sequence[Needed] = ()) -> Iterator[Record]:
        """All records in the order they were first added, or those at least that meet what is wanted."""
        self.flush()
        return self.bank.records(archived=archived, wanted=wanted)

    def recall(
        self,
        query: str,
        k: int,
        now: float,
        fits: Fits | None,
        wanted: Sequence[Needed] = (),
        *,
        least: float = 0.0,
        all_alike: bool = False,
    ) -> list[Found]:
        """The best records of so much relevance for a query; of those that say the same all only if asked to."""
        if k <= 0 or not query.strip():
            return []
        with self.asked(query) as source:
            if source is None:
                return []
            return recalled(source, self._ranker, k, now, fits, wanted, least=least, all_alike=all_alike)

    def flush(self) -> None:
        """Write what waits in RAM."""
        self.traces.write()


class SqlKeeper(Keeper[Bank]):
    """The usual place: texts and vectors in SQL, the indexes made from them, all in one vault."""

    def __init__(
        self, vault: Vault, scope: Mapping[str, Any] | None, ranker: Ranker, redactor: Redactor | None = None
    ) -> None:
        super().__init__(Bank(vault.database, scope), ranker)
        self.redaction = redaction_of(vault.database, self.bank.name, redactor, self.bank.begin)
        self.vault = vault
        self._inside = True
        vault.enter()

    def asked(self, query: str) -> AbstractContextManager[Source | None]:
        return asked_of_sql(self.vault, self.bank.name, query)

    def put(self, records: Sequence[Record], *, reinforce: set[str], show: bool | None = None) -> list[str]:
        away = super().put(records, reinforce=reinforce, show=show)
        self._catch_up(len(records))
        return away

    def write(self, drafts: list[Draft]) -> Sequence[str]:
        written = self.bank.put(drafts, self._made_findable(drafts))
        if written.bare and self.vault.vectors is not None:  # whose vectors were there, and were forgotten meanwhile
            self.vault.owe()
        return written.away

    def replace(self, source: str, prefix: str, records: Sequence[Record]) -> list[str]:
        drafts = [Draft(record) for record in records]
        gone = self.bank.replace(source, prefix, drafts, self._made_findable(drafts, source))
        self._catch_up(len(records))
        return gone

    def _made_findable(self, drafts: list[Draft], source: str | None = None) -> str | None:
        """Give drafts their words and vectors; the embedder's name.

        What lies there with the same text, under their keys or from the source, has its vectors already.
        """
        text_of = {id(draft): searchable(draft.record.value) for draft in drafts}
        for draft in drafts:
            text = text_of[id(draft)]
            draft.words, draft.cues = " ".join(words(text)), cues_of(text).packed()
        vectors = self.vault.vectors
        if vectors is None:
            return None
        keys = list(dict.fromkeys(key for each in drafts for key in (each.record.key, each.like) if key is not None))
        there, known = self.bank.known(keys, source, set(text_of.values()), vectors.name, vectors.width)
        new = [draft for draft in drafts if not (draft.reinforce and draft.record.key in there)]
        texts = list(dict.fromkeys(text_of[id(draft)] for draft in new if text_of[id(draft)] not in known))
        try:
            known |= zip(texts, vectors.of_each(texts) if texts else (), strict=True)
        except EmbeddingError as error:
            self._without_vectors(error)
        for draft in new:
            draft.vectors = known.get(text_of[id(draft)], ())
        return vectors.name if known else None

    def _catch_up(self, written: int) -> None:
        """Embed what was kept while the embedder failed, if it works again and that is soon done."""
        vectors = self.vault.vectors
        if self.vault.owes and vectors is not None and vectors.outage.reason is None and self.vault.missing() <= CHUNK:
            self._embed_what_is_owed()
        if written >= CHUNK and self.vault.indexes is not None:  # so that the next recall need not wait
            self.vault.indexes.catch_up(self.bank.name)

    def update(self, key: str, text: str | None, meta: dict[str, Any] | None) -> bool:
        draft = None if text is None else Draft(Record(key, text))
        if draft is not None and not self.bank.get_many([key]):
            return False  # and nothing is embedded for it
        embedder = None if draft is None else self._made_findable([draft])
        there = self.bank.reword(key, draft, meta, embedder)
        self._catch_up(1)
        return there

    def reindex(self, *, show: bool | None = None) -> dict[str, int]:
        reread(self.vault.database, anew=True, show=show)
        if self.vault.vectors is not None:
            self.vault.vectors.wake()
        forget_damaged(self.vault)
        return self.complete(show=show)

    def complete(self, *, show: bool | None = None) -> dict[str, int]:
        """Embed what has no vectors, and look whether Chroma holds what SQL does."""
        embedded = reembed(self.vault, show=show)
        rebuilt = self.vault.indexes.repair(self.bank.name) if self.vault.indexes is not None else 0
        return {"embedded": embedded, "rebuilt": rebuilt}

    def opened(self) -> None:
        """As `complete`, of a place that must open: an embedder that fails is spoken of, and raises nothing."""
        self._embed_what_is_owed()
        if self.vault.indexes is not None:
            self.vault.indexes.repair(self.bank.name)

    def _embed_what_is_owed(self) -> None:
        try:
            reembed(self.vault)
        except EmbeddingError as error:
            self._without_vectors(error)

    def _without_vectors(self, error: EmbeddingError) -> None:
        self.vault.owe()
        if self.vault.vectors is not None:
            self.vault.vectors.went_without(error)

    def stats(self) -> LongTermStats:
        self.flush()
        indexes = self.vault.indexes
        return LongTermStats(
            memories=self.bank.count(),
            archived=self.bank.count(archived=True),
            embedder=self.vault.vectors.name if self.vault.vectors is not None else None,
            not_embedded=self.vault.missing(),
            index=indexes.serving(self.bank.name) if indexes is not None else "words alone",
            leads=indexes.leads if indexes is not None else False,
            counted=IN_SQL,
            **figures(self.traces.served()),
        )

    def erase(self) -> bool:
        erased = super().erase()
        if self.vault.indexes is not None:  # made anew now, the next recall need not wait
            self.vault.indexes.catch_up(self.bank.name)
        return erased

    def opened_by(self) -> str:
        place = self.vault.database.place
        where = "agent_memory" if place.in_ram else str(place.path or place)
        return f"{where!r}, scope={parse_json(self.bank.name) if self.bank.name else {'user': '…'}}"

    def close(self) -> None:
        super().close()
        with self._lock:
            inside, self._inside = self._inside, False
        if inside:
            self.vault.leave()


class StoreKeeper(Keeper[StoreBank]):
    """Memories in a store for their texts and, if there is one, a second store that finds them by meaning.

    A store for texts that has vectors itself finds by meaning too, unless words alone are asked for.
    """

    def __init__(self, texts: Any, vectors: Any, ranker: Ranker, *, by_words: bool = False) -> None:
        super().__init__(StoreBank(as_store(texts), as_store(vectors) if vectors is not None else None), ranker)
        itself = None if by_words or "vectors" not in self.bank.texts.abilities else self.bank.texts
        self._meaning = self.bank.vectors or itself
        self.lost = lost_by(texts)
        self.redaction = getattr(texts, "redaction", None)

    def asked(self, query: str) -> AbstractContextManager[Source | None]:
        return nullcontext(StoreSource(self.bank, self._meaning, query))

    def write(self, drafts: list[Draft]) -> Sequence[str]:
        return self.bank.put(drafts).away

    def update(self, key: str, text: str | None, meta: dict[str, Any] | None) -> bool:
        return self.bank.reword(key, None if text is None else Draft(Record(key, text)), meta, None)

    def replace(self, source: str, prefix: str, records: Sequence[Record]) -> list[str]:
        return self.bank.replace(source, prefix, [Draft(record) for record in records])

    def reindex(self, *, show: bool | None = None) -> dict[str, int]:
        return {"embedded": self.bank.complete(), "rebuilt": 0}

    def stats(self) -> LongTermStats:
        self.flush()
        archived = [record.archived is not None for record in self.bank.records(archived=None)]
        memories, embedded = archived.count(False), self.bank.embedded()
        return LongTermStats(
            memories=memories,
            archived=archived.count(True),
            embedder=None if self._meaning is None else repr(self._meaning),
            not_embedded=0 if embedded is None else max(0, memories - embedded),
            index="words alone" if self._meaning is None else type(self._meaning).__name__,
            leads=False,
            lost=self.lost,
            counted=HERE,
            **figures(self.traces.served()),
        )

    def opened_by(self) -> str:
        return "long_term=…, vector_store=…"

    def close(self) -> None:
        super().close()
        self.bank.close()
