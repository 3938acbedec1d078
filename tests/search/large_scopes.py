"""Scopes that count as large with a few dozen memories, so that their vectors are served by bits."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from numbered_texts import ByNumber

from smolagents_memory import EnhancedAgentMemory
from smolagents_memory.search import indexes
from smolagents_memory.search.bit_file import read_bits
from smolagents_memory.search.bit_index import BitIndex


LARGE = 20
COUNT = 60


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bits from twenty vectors on."""
    monkeypatch.setattr(indexes, "MOST_EXACT", LARGE)
    monkeypatch.setattr(indexes, "MOST_IN_CHROMA", LARGE)


def opened(path: Any, **options: Any) -> EnhancedAgentMemory:
    return EnhancedAgentMemory(path, **{"embedder": ByNumber(), **options})


def filled(path: Any, numbers: Any = range(COUNT), **options: Any) -> EnhancedAgentMemory:
    memory = opened(path, **options)
    memory.remember_many({"text": f"{n} apples", "key": str(n)} for n in numbers)
    return memory


def found(memory: EnhancedAgentMemory, number: int) -> str | None:
    """The memory with that number, found by meaning alone: no word of the query is in a text."""
    hits = memory.recall(f"pears{number}", 1)
    return hits[0].key if hits else None


def index_of(memory: EnhancedAgentMemory) -> BitIndex:
    keeper = memory.long_term.keeper
    index = keeper.vault.indexes.of_name(keeper.bank.name)
    assert isinstance(index, BitIndex), index
    return index


def settled(memory: EnhancedAgentMemory) -> BitIndex:
    """The index when nothing is done behind any more."""
    index, until = index_of(memory), time.monotonic() + 30
    while index._works_behind():
        assert time.monotonic() < until, "it does not come to its end"
        time.sleep(0.005)
    return index


def files(path: Path) -> list[Path]:
    return sorted(path.glob("*.bits"))


def held(path: Path) -> set[int]:
    """The numbers of the vectors in the one file there is."""
    [file] = files(path)
    there = read_bits(file)
    assert there is not None
    return set(there[1].bits.ids().tolist())
