"""A changed byte of a memory is noticed, left out of every result, and named; all the rest goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from program import command
from sqlalchemy import update

from smolagents_memory import EnhancedAgentMemory, MemoryLossWarning, SqlStore
from smolagents_memory.database import tables
from smolagents_memory.database.engine import Database


class Words:
    """An embedder whose vectors say nothing: these tests are about texts."""

    name = "words"

    def embed_documents(self, texts: list[str]) -> Any:
        return [[float(len(text) % 7), 1.0] for text in texts]

    def embed_query(self, text: str) -> Any:
        return [1.0, 1.0]


def filled(where: Any) -> None:
    with EnhancedAgentMemory(where, embedder=Words()) as memory:
        memory.remember_many(
            {"text": f"note {n} on pumps", "key": f"k{n}", "meta": {"number": n}, "source": "s"} for n in range(6)
        )


def damage(where: Any, key: str, column: str, at: int) -> None:
    """Change a byte of a memory."""
    items = tables.items
    mine = items.c.key == key.encode()
    with Database.at(where).writing() as connection:
        data = bytearray(connection.execute(items.select().where(mine)).mappings().one()[column])
        data[at % len(data)] ^= 0x20
        connection.execute(update(items).where(mine).values({column: bytes(data)}))


@pytest.mark.parametrize(("column", "at"), [("value", 1), ("value", -3), ("meta", 4), ("meta", -2), ("key", 0)])
def test_a_changed_byte_is_noticed_left_out_and_named(url: str, column: str, at: int) -> None:
    filled(url)
    damage(url, "k3", column, at)
    with EnhancedAgentMemory(url, embedder=Words()) as memory:
        with pytest.warns(MemoryLossWarning, match=r"the memory '[kK]3' .* is damaged"):
            found = memory.recall("note on pumps", 6)
        assert {hit.key for hit in found} == {"k0", "k1", "k2", "k4", "k5"}
        with pytest.warns(MemoryLossWarning):
            assert memory.long_term.get("K3" if column == "key" else "k3") is None
        with pytest.warns(MemoryLossWarning):
            assert len(list(memory.long_term.keeper.records())) == 5
    with pytest.warns(MemoryLossWarning):
        assert len(SqlStore(url).search("pumps", 10)) == 5


def test_what_is_remembered_under_its_key_replaces_it(url: str) -> None:
    filled(url)
    for key in ("k1", "k2", "k3"):
        damage(url, key, "value", -1)
    memory = EnhancedAgentMemory(url, vector=False)
    with pytest.warns(MemoryLossWarning):
        memory.remember("a new text on valves", key="k1")
    with pytest.warns(MemoryLossWarning):
        assert memory.forget("k2")
    with pytest.warns(MemoryLossWarning):
        assert memory.archive("k3")
    with pytest.warns(MemoryLossWarning):
        assert memory.forget("k3")
    assert memory.recall("valves", 1)[0].key == "k1"
    assert {record.key for record in memory.long_term.keeper.records()} == {"k0", "k1", "k4", "k5"}


def test_what_is_learnt_again_by_itself_replaces_it_too(url: str) -> None:
    """The key of an unnamed memory is made of its text: it is strengthened where it is there, and healed."""
    with EnhancedAgentMemory(url, vector=False) as memory:
        key = memory.remember("The staging server needs the VPN.")
    damage(url, key, "value", 9)
    memory = EnhancedAgentMemory(url, vector=False)
    with pytest.warns(MemoryLossWarning):
        assert memory.remember("The staging server needs the VPN.") == key
    assert memory.recall("staging", 1)[0].value == "The staging server needs the VPN."


def test_vectors_are_made_anew_around_it(url: str) -> None:
    """Another embedder: what is damaged is passed over, once, and the rest gets its vectors."""
    filled(url)
    damage(url, "k3", "value", 7)

    class Others(Words):
        name = "others"

    with pytest.warns(MemoryLossWarning):
        memory = EnhancedAgentMemory(url, embedder=Others())
    assert memory.stats().not_embedded == 0
    with pytest.warns(MemoryLossWarning):
        assert len(memory.recall("note on pumps", 6)) == 5


def test_the_doctor_names_it(tmp_path: Path) -> None:
    filled(tmp_path)

    def examined() -> dict[str, Any]:
        done = command("doctor", "--json", "--storage", str(tmp_path), cwd=tmp_path)
        return {finding["what"]: finding for finding in json.loads(done.stdout)}

    assert examined()["memories"]["found"] == "6 memories read, nothing damaged"
    damage(tmp_path, "k3", "meta", 6)
    found = examined()["memory 'k3'"]
    assert not found["well"]
    assert "forget" in found["remedy"]
