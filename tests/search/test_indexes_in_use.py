"""Indexes of many scopes at once: one that is let go to save RAM stays whole for whoever searches it."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import pytest
from numbered_texts import ByNumber

from smolagents_memory import EnhancedAgentMemory
from smolagents_memory.search import indexes
from smolagents_memory.search.chroma_index import ChromaIndex
from smolagents_memory.search.exact import ExactIndex


@pytest.mark.parametrize("own_collection", [10_000, 1], ids=["exact", "chroma"])
def test_an_index_that_is_let_go_is_whole_for_who_searches_it(tmp_path, monkeypatch, caplog, own_collection):
    """Threads recall in many scopes, of which one at a time has room in RAM."""
    monkeypatch.setattr(indexes, "KEPT_BYTES", 1)
    kind = ExactIndex if own_collection > 1 else ChromaIndex
    refresh = kind.refresh

    def slowly(*arguments: Any) -> None:
        refresh(*arguments)
        time.sleep(0.002)  # others' turn, before what was brought up to date is searched

    monkeypatch.setattr(kind, "refresh", slowly)
    options = {"embedder": ByNumber(), "own_collection": own_collection}
    scopes = [EnhancedAgentMemory(tmp_path, scope={"user": n}, **options) for n in range(4)]
    for memory in scopes:
        memory.remember_many({"text": f"{n} apples", "key": str(n)} for n in range(60))
    wrong: list[Any] = []
    until = time.monotonic() + 0.7

    def work(seed: int) -> None:
        chosen = random.Random(seed)
        while time.monotonic() < until:
            number = str(chosen.randrange(60))
            try:  # no word of the query is in a text: what is found is found by meaning
                found = [hit.key for hit in chosen.choice(scopes).recall(f"pears{number}", 1)]
            except Exception as error:  # noqa: BLE001 — shown by the assert below
                found = [error]
            if found != [number]:
                wrong.append((number, found))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong, (len(wrong), wrong[:3])
    assert "Chroma failed" not in caplog.text
    for memory in scopes:
        memory.close()
