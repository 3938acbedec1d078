"""A text that is there with its vectors is not embedded again, however it is written."""

from __future__ import annotations

import os
from typing import Any

import pytest
from quick_embedder import Hashed

from smolagents_memory import EnhancedAgentMemory, Place, Seal
from smolagents_memory.memory import keeping, reembedding


class Counting(Hashed):
    """Which texts it was given, each time."""

    def __init__(self, name: str = "counting") -> None:
        super().__init__(name)
        self.asked: list[str] = []

    def embed_documents(self, texts: Any) -> Any:
        self.asked += texts
        return super().embed_documents(texts)

    def since(self) -> list[str]:
        asked, self.asked = self.asked, []
        return asked


def vectors_of(memory: EnhancedAgentMemory) -> list[Any]:
    """Of each vector that counts: whose it is, which part, and its bytes."""
    with memory.long_term.keeper.vault.database.reading() as connection:
        statement = (
            "SELECT i.key, v.part, v.parts, v.live, v.vector FROM memory_vectors v JOIN memory_items i "
            "ON i.id = v.item_id AND i.embedder_id = v.embedder_id ORDER BY 1, 2"
        )
        return [tuple(row) for row in connection.exec_driver_sql(statement)]


def document(*parts: str) -> str:
    return "\n\n".join(f"{part} " + "The ship sails on. " * 35 for part in parts)


def test_a_memory_that_is_written_again_as_it_is_is_not_embedded(url: str) -> None:
    """Reinforced, replaced under its key, updated with its own text or with other metadata, or put back."""
    embedder = Counting()
    with EnhancedAgentMemory(url, embedder=embedder) as memory:
        memory.remember("the boiler hums", key="k")
        same = memory.remember("the pump drips")
        before = vectors_of(memory)
        assert embedder.since()[-2:] == ["the boiler hums", "the pump drips"]
        memory.remember("the boiler hums", key="k", importance=2)
        memory.remember("the pump drips")
        assert memory.update("k", text="the boiler hums", meta={"n": 1})
        assert memory.update("k", meta={"n": 2})
        assert memory.archive(same)
        memory.remember("the pump drips")
        assert memory.get(same) is not None
        assert not memory.update("no such key", text="never seen")
        assert embedder.since() == []
        assert vectors_of(memory) == before
        assert memory.update("k", text="the boiler is silent")
        assert embedder.since() == ["the boiler is silent"]
        memory.forget("k")
        memory.remember("the boiler is silent", key="k")
        assert embedder.since() == ["the boiler is silent"]


@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "sealed"])
def test_of_a_document_only_what_changed_is_embedded(tmp_path: Any, sealed: bool) -> None:
    """Also where a part moved, because another came before it."""
    embedder = Counting()
    seal = Seal(os.urandom(32), keyring=tmp_path / "keys") if sealed else None
    with EnhancedAgentMemory(Place(tmp_path / "m", seal=seal), embedder=embedder, scope={"user": "u"}) as memory:
        memory.remember_document(document("One", "Two", "Three"), "ship.txt")
        assert len([text for text in embedder.since() if "ship" in text]) == 3
        memory.remember_document(document("One", "Two", "Three"), "ship.txt")
        assert embedder.since() == []
        keys = memory.remember_document(document("Zero", "One", "Two", "Other"), "ship.txt")
        assert [text.split()[0] for text in embedder.since()] == ["Zero", "Other"]
        assert len(keys) == memory.count() == 4
        assert memory.stats().not_embedded == 0
        for key in keys:
            text = memory.get(key).value
            best = memory.recall(text, 1, explain=True)[0]
            assert best.key == key
            assert best.parts["vector"] > 0


def test_vectors_that_are_damaged_or_incomplete_are_not_taken_over(tmp_path: Any) -> None:
    """They are made anew, as those are that `reindex` is to make."""
    embedder = Counting()
    with EnhancedAgentMemory(tmp_path, embedder=embedder) as memory:
        long = "a long text. " * 300
        for key, text in (("part", long), ("zero", "nothing"), ("wild", "changed"), ("owed", "kept without")):
            memory.remember(text, key=key)
        embedder.since()
        database = memory.long_term.keeper.vault.database
        mine = "item_id = (SELECT id FROM memory_items WHERE key = CAST('{}' AS BLOB))"
        with database.writing() as connection:
            for statement in (
                f"DELETE FROM memory_vectors WHERE part = 1 AND {mine.format('part')}",
                f"UPDATE memory_vectors SET vector = zeroblob(192) WHERE {mine.format('zero')}",
                f"UPDATE memory_vectors SET vector = zeroblob(96) || vector WHERE {mine.format('wild')}",
                "UPDATE memory_items SET embedder_id = NULL WHERE key = CAST('owed' AS BLOB)",
            ):
                assert connection.exec_driver_sql(statement).rowcount == 1
        for key, text in (("zero", "nothing"), ("wild", "changed"), ("owed", "kept without")):
            memory.remember(text, key=key)
            assert embedder.since()[:1] == [text]
        memory.remember(long, key="part")
        assert len(embedder.since()) > 2


def test_one_text_under_two_keys_is_embedded_once_however_long_the_list(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "CHUNK", 5)
    embedder = Counting()
    with EnhancedAgentMemory(tmp_path, embedder=embedder) as memory:
        memory.remember_many({"text": f"note {n % 7}", "key": f"k{n}"} for n in range(20))
        assert sorted(text for text in embedder.since() if "note" in text) == [f"note {n}" for n in range(7)]
        assert len(vectors_of(memory)) == 20


def test_an_outage_leaves_what_has_vectors_with_them(tmp_path: Any) -> None:
    """Of what is written together, only what is new is owed."""
    embedder = Counting()
    with EnhancedAgentMemory(tmp_path, embedder=embedder) as memory:
        memory.remember("the boiler hums", key="old")
        embedder.embed_documents = lambda texts: 1 / 0  # type: ignore[method-assign]
        memory.remember_many([{"text": "the boiler hums", "key": "old"}, {"text": "the pump drips", "key": "new"}])
        assert memory.stats().not_embedded == 1


def test_embedding_anew_goes_on_where_it_was_cut_off(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a batch that was written holds is not embedded again."""
    monkeypatch.setattr(reembedding, "BATCH", 10)
    with EnhancedAgentMemory(tmp_path, embedder=Hashed("first")) as memory:
        memory.remember_many(f"note {n}" for n in range(35))
    other, real = Counting("second"), reembedding.add_vectors
    left = [2]

    def cut(*given: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        real(*given)

    monkeypatch.setattr(reembedding, "add_vectors", cut)
    with pytest.raises(KeyboardInterrupt):
        EnhancedAgentMemory(tmp_path, embedder=other)
    written = set(other.since()[:20])
    monkeypatch.setattr(reembedding, "add_vectors", real)
    with EnhancedAgentMemory(tmp_path, embedder=other) as memory:
        assert memory.stats().not_embedded == 0 if memory.long_term.keeper.vault.checked else memory.reindex()
    asked = [text for text in other.since() if text.startswith("note")]
    assert len(asked) == len(set(asked)) == 15
    assert not written & set(asked)
