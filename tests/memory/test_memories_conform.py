"""Every place that an agent's memory may be kept in passes the one suite that ships with the package."""

from __future__ import annotations

import uuid

import pytest
from quick_embedder import Hashed

from smolagents_memory import (
    EnhancedAgentMemory,
    InMemoryStore,
    Place,
    RedisStore,
    Seal,
    SqliteStore,
    VectorMemoryStore,
)
from smolagents_memory.testing.memory_conformance import MemoryConformance


class FourMethods:
    """A store as a guide sketches it: four methods, nothing more."""

    def __init__(self):
        self.kept = {}

    def add(self, key, value):
        self.kept[key] = value

    def get(self, key):
        return self.kept.get(key)

    def search(self, query):
        asked = set(query.lower().split())
        return [(key, value) for key, value in list(self.kept.items()) if asked & set(value.lower().split())]

    def forget(self, key):
        return self.kept.pop(key, None) is not None


class SixMethods(FourMethods):
    """The same with all six, and nothing that MemoryStore would derive from them."""

    def add(self, key, value, meta=None):
        self.kept[key] = (value, dict(meta or {}))

    def get(self, key):
        return self.kept.get(key, (None,))[0]

    def search(self, query, top_k=5, where=None):
        asked = set(query.lower().replace("?", "").split())
        scored = [
            (key, value, float(len(asked & set(value.lower().strip(".").split()))))
            for key, (value, _) in list(self.kept.items())  # other threads write
        ]
        return sorted((each for each in scored if each[2]), key=lambda each: -each[2])[:top_k]

    def items(self):
        return iter([(key, value, meta) for key, (value, meta) in list(self.kept.items())])

    def __len__(self):
        return len(self.kept)


class InPlace(MemoryConformance):
    """A memory that is told by a path or URL where it is."""

    def make_memory(self, tmp_path, **options):
        return EnhancedAgentMemory(self.place(tmp_path), embedder=Hashed(), **options)

    def reopen(self, memory, tmp_path, **options):
        return self.make_memory(tmp_path, **options)


class TestFolder(InPlace):
    def place(self, tmp_path):
        return tmp_path / "memory"


@pytest.mark.slow
class TestSealed(InPlace):
    def place(self, tmp_path):
        return Place(tmp_path / "memory", seal=Seal(bytes(32), tmp_path / "keys"))


class TestPostgres(InPlace):
    @pytest.fixture(autouse=True)
    def _server(self, postgres):
        self.url, self.test = postgres, uuid.uuid4().hex

    def make_memory(self, tmp_path, scope=None, **options):
        scope = {**(scope or {}), "test": self.test}
        return EnhancedAgentMemory(self.url, embedder=Hashed(), scope=scope, **options)


class TestRam(MemoryConformance):
    def make_memory(self, tmp_path, **options):
        return EnhancedAgentMemory(embedder=Hashed(), **options)


@pytest.mark.slow
class TestWordsAlone(InPlace):
    def make_memory(self, tmp_path, **options):
        return EnhancedAgentMemory(tmp_path / "memory", vector=False, **options)


class InStores(MemoryConformance):
    """A memory in stores of the test's own; each test's are made once."""

    def stores(self, tmp_path):
        raise NotImplementedError

    def make_memory(self, tmp_path, **options):
        self.made = self.stores(tmp_path)
        return EnhancedAgentMemory(**self.made, **options)

    def reopen(self, memory, tmp_path, **options):
        return EnhancedAgentMemory(**self.made, **options)


class TestInMemoryStore(InStores):
    def stores(self, tmp_path):
        return {"long_term": InMemoryStore(), "vector": False}


class TestSqliteStore(InStores):
    def stores(self, tmp_path):
        return {"persistent": SqliteStore(tmp_path / "memory.db")}


class TestRedisStore(InStores):
    @pytest.fixture(autouse=True)
    def _server(self, redis_url):
        self.url = redis_url

    def stores(self, tmp_path):
        return {"long_term": RedisStore(self.url, prefix=uuid.uuid4().hex)}


@pytest.mark.slow
class TestChromaForBoth(InStores):
    def stores(self, tmp_path):
        return {"long_term": VectorMemoryStore(tmp_path / "chroma", embedder=Hashed())}


class TestFourMethods(InStores):
    def stores(self, tmp_path):
        return {"long_term": FourMethods()}


@pytest.mark.slow
class TestSixMethods(InStores):
    def stores(self, tmp_path):
        return {"long_term": SixMethods()}


@pytest.mark.slow
class TestChromaBesideAFolder(InStores):
    def stores(self, tmp_path):
        vectors = VectorMemoryStore(tmp_path / "chroma", embedder=Hashed())
        return {"path_or_url": tmp_path / "memory", "vector_store": vectors}


@pytest.mark.slow
class TestChromaBesideAStore(InStores):
    def stores(self, tmp_path):
        return {
            "long_term": InMemoryStore(),
            "vector_store": VectorMemoryStore(tmp_path / "chroma", embedder=Hashed()),
        }


@pytest.mark.slow
class TestChromaBesideFourMethods(InStores):
    def stores(self, tmp_path):
        vectors = VectorMemoryStore(tmp_path / "chroma", embedder=Hashed())
        return {"long_term": FourMethods(), "vector_store": vectors}


@pytest.mark.slow
class TestAStoreOfWordsAsTheSecond(InStores):
    def stores(self, tmp_path):
        return {"long_term": InMemoryStore(), "vector": InMemoryStore()}
