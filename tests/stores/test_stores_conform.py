"""Every store passes the one conformance suite that ships with the package."""

from __future__ import annotations

import uuid

import pytest

from smolagents_memory import Place, Seal
from smolagents_memory.stores.chroma import VectorMemoryStore
from smolagents_memory.stores.in_memory import InMemoryStore
from smolagents_memory.stores.redis import RedisStore
from smolagents_memory.stores.sql import SqliteStore, SqlStore
from smolagents_memory.testing.conformance import StoreConformance


class TestInMemoryStore(StoreConformance):
    def make_store(self, tmp_path):
        return InMemoryStore()


class TestSqliteStore(StoreConformance):
    def make_store(self, tmp_path):
        return SqliteStore(tmp_path / "memory.db")

    def reopen(self, store, tmp_path):
        return SqliteStore(tmp_path / "memory.db")


@pytest.mark.slow
class TestSealedStore(StoreConformance):
    def make_store(self, tmp_path):
        return SqliteStore(Place(tmp_path / "sealed" / "memory.db", seal=Seal(bytes(32), tmp_path / "keys")))

    def reopen(self, store, tmp_path):
        return self.make_store(tmp_path)


@pytest.mark.slow
class TestSqliteInRam(StoreConformance):
    def make_store(self, tmp_path):
        return SqlStore("sqlite://")

    def reopen(self, store, tmp_path):
        return store


class TestPostgresStore(StoreConformance):
    @pytest.fixture(autouse=True)
    def _server(self, postgres):
        self.url = postgres
        self.scope = {"test": uuid.uuid4().hex}

    def make_store(self, tmp_path):
        return SqlStore(self.url, scope=self.scope)

    def reopen(self, store, tmp_path):
        return SqlStore(self.url, scope=self.scope)


class TestRedisStore(StoreConformance):
    @pytest.fixture(autouse=True)
    def _server(self, redis_url):
        self.url, self.prefix = redis_url, uuid.uuid4().hex

    def make_store(self, tmp_path):
        return RedisStore(self.url, prefix=self.prefix)

    def reopen(self, store, tmp_path):
        return RedisStore(self.url, prefix=self.prefix)

    def make_ttl_store(self, tmp_path, ttl):
        return RedisStore(self.url, prefix=self.prefix, ttl=ttl)


class HashedWords:
    """A quick embedder that knows a few words' meanings: the real one is tested where meaning matters."""

    name = "hashed words"
    groups = {"kitten": "pet", "sleeps": "naps", "sofa": "furniture", "invoice": "bill", "paid": "settled"}

    def embed_documents(self, texts):
        import numpy

        rows = numpy.zeros((len(texts), 64), dtype=numpy.float32)
        for number, text in enumerate(texts):
            rows[number, 63] = 0.01
            for word in text.lower().replace(".", " ").split():
                rows[number, sum(self.groups.get(word, word).encode("utf-8", "replace")) % 63] += 1
        return rows

    def embed_query(self, text):
        return self.embed_documents([text])[0]

    def split(self, text):
        return [text] if len(text) < 500 else text.split(". ")


class TestChromaFolder(StoreConformance):
    def make_store(self, tmp_path):
        return VectorMemoryStore(tmp_path / "chroma", embedder=HashedWords())

    def reopen(self, store, tmp_path):
        return VectorMemoryStore(tmp_path / "chroma", embedder=HashedWords())


@pytest.mark.slow
class TestChromaServer(StoreConformance):
    @pytest.fixture(autouse=True)
    def _server(self, chroma_url):
        self.url, self.name = chroma_url, f"c{uuid.uuid4().hex}"

    def make_store(self, tmp_path):
        return VectorMemoryStore(url=self.url, collection=self.name, embedder=HashedWords())

    def reopen(self, store, tmp_path):
        return VectorMemoryStore(url=self.url, collection=self.name, embedder=HashedWords())
