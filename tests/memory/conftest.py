"""What the tests of long-term memory share: a quick embedder, a clock, the filling fixture."""

from __future__ import annotations

import zlib

import pytest

from smolagents_memory.testing.filling import fill  # noqa: F401 — a fixture


DAY = 86_400.0


class Hashed:
    """Word hashes as vectors: quick, and the same in every process."""

    def __init__(self, name="hashed", width=48):
        self.name, self.width, self.calls = name, width, 0

    def embed_documents(self, texts):
        import numpy

        self.calls += len(texts)
        rows = numpy.zeros((len(texts), self.width), dtype=numpy.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().split():
                row[zlib.crc32(word.strip(".,:;?!").encode("utf-8", "replace")) % self.width] += 1
        return rows

    def embed_query(self, text):
        return self.embed_documents([text])[0]


class Clock:
    """A clock that is set by hand."""

    def __init__(self, now=1_700_000_000.0):
        self.now = now

    def __call__(self):
        return self.now

    def pass_days(self, days):
        self.now += days * DAY


@pytest.fixture
def hashed():
    return Hashed()


@pytest.fixture
def clock():
    return Clock()
