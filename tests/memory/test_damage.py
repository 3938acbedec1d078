"""Changed bytes in what is made from the texts: no recall breaks, nothing is pushed up, and `reindex` heals it."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing

import pytest
from numbered_texts import ByNumber

from smolagents_memory import EnhancedAgentMemory, SqlStore


ITEM = "key = CAST('k3' AS BLOB)"
VECTOR = (
    f"UPDATE memory_vectors SET vector = CAST({{}} AS BLOB) WHERE item_id = (SELECT id FROM memory_items WHERE {ITEM})"
)
DAMAGE = {
    "words, no text any more": f"UPDATE memory_items SET words = CAST(x'61ff62' AS TEXT) WHERE {ITEM}",
    "words, other ones": f"UPDATE memory_items SET words = '3 appl on the trek' WHERE {ITEM}",
    "full text, gone": "INSERT INTO memory_words(memory_words) VALUES ('delete-all')",
    "full text, a row": "INSERT INTO memory_words(memory_words, rowid, words) SELECT 'delete', id, "
    f"scope_id || 'z' || replace(words, ' ', ' ' || scope_id || 'z') FROM memory_items WHERE {ITEM}",
    "kind": f"UPDATE memory_items SET kind = CAST(x'6dff' AS TEXT) WHERE {ITEM}",
    "vector, no number": VECTOR.format("zeroblob(60) || x'0000c07f'"),
    "vector, a huge number": VECTOR.format("x'0000007f' || zeroblob(60)"),
    "vector, a small one": VECTOR.format("x'0000003e' || zeroblob(60)"),
    "vector, in how many parts": VECTOR.split(" SET ")[0]
    + f" SET parts = 'many' WHERE item_id = (SELECT id FROM memory_items WHERE {ITEM})",
    "vector, cut": VECTOR.format("x'0000'"),
}


def parts(memory, query):
    found = memory.recall(query, 9, explain=True)
    return {hit.key: {name: round(part, 3) for name, part in hit.parts.items()} for hit in found}


@pytest.mark.parametrize("scope", [None, {"user": "u"}], ids=["chroma", "exact"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_made_from_texts_heals_from_them(tmp_path, damage, scope):
    """The others are ranked as before all the while, and afterwards all are."""
    options = {"embedder": ByNumber(), "scope": scope, "clock": lambda: 1e9}
    with EnhancedAgentMemory(tmp_path, **options) as memory:
        memory.remember_many({"text": f"{n} apples on the tree", "key": f"k{n}"} for n in range(6))
        before = {query: parts(memory, query) for query in ("tree", "pears3", "pears4")}
    with closing(sqlite3.connect(tmp_path / "memory.db")) as base:
        base.execute(DAMAGE[damage])
        base.commit()
    shutil.rmtree(tmp_path / "chroma", ignore_errors=True)
    with EnhancedAgentMemory(tmp_path, **options) as memory:
        others = ["k0", "k1", "k2", "k4", "k5"]
        assert set(parts(memory, "tree")) >= set(others)
        assert memory.recall("pears4", 1)[0].key == "k4"
        assert memory.long_term.get("k3").value == "3 apples on the tree"
        assert len(list(memory.long_term.keeper.records())) == 6
        assert {key for key, _, _ in SqlStore(tmp_path, scope=scope).items()} == {*others, "k3"}
        memory.reindex()
        assert {query: parts(memory, query) for query in before} == before
        assert len(SqlStore(tmp_path, scope=scope).search("tree", 9)) == 6
        assert memory.reindex() == {"embedded": 0, "rebuilt": 0}
