"""An embedder, or a store, that fails ends neither a run nor learning; nothing is lost, and nothing is silent."""

from __future__ import annotations

import time

import pytest
from quick_embedder import Hashed
from smolagents import CodeAgent

from smolagents_memory import (
    EmbeddingError,
    EnhancedAgentMemory,
    InMemoryStore,
    RecallTool,
    RememberTool,
    SmolagentsMemoryError,
    StoreError,
    VectorMemoryStore,
)
from smolagents_memory.testing import ScriptedModel, code


FACT = "The coffee machine on floor three needs descaling every week."
TASK = "How often does the coffee machine on floor three need descaling?"


class Shaky:
    """Works until it is told how to fail."""

    name = "shaky"

    def __init__(self, fails=None):
        self.fails, self.inner, self.asked = fails, Hashed(), 0

    def embed_documents(self, texts):
        self.asked += 1
        rows = self.inner.embed_documents(texts)
        return rows if self.fails is None else self.fails(texts, rows)

    def embed_query(self, text):
        return self.embed_documents([text])[0]


def gone(texts, rows):
    raise ConnectionError("no route to host")


def too_few(texts, rows):
    return rows[:-1]


def not_numbers(texts, rows):
    return rows * float("nan")


def other_dimensions(texts, rows):
    return [[1.0, 2.0, 3.0] for _ in texts]


def nothing(texts, rows):
    return None


def late(texts, rows):
    time.sleep(0.05)
    raise TimeoutError("the server did not answer")


FAILURES = [gone, too_few, not_numbers, other_dimensions, nothing, late]


def said(caplog):
    return [line.getMessage() for line in caplog.records if line.levelname in ("WARNING", "ERROR")]


@pytest.mark.parametrize("fails", FAILURES)
def test_a_run_is_recalled_for_and_learnt_from_while_the_embedder_fails(tmp_path, caplog, fails):
    """By words; it is said once; at the next opening what was learnt is embedded."""
    embedder = Shaky()
    with EnhancedAgentMemory(tmp_path, embedder=embedder, auto_recall=3, recall_on="step") as memory:
        memory.remember(FACT, key="fact")
        embedder.fails = fails
        agent = CodeAgent(
            [RecallTool(memory), RememberTool(memory)],
            ScriptedModel(
                [
                    code("print(recall('descaling the coffee machine'))"),
                    code("print(remember('Descale it on Mondays.', key='mondays'))"),
                    code("final_answer('weekly')"),
                ]
            ),
            verbosity_level=-1,
        )
        memory.attach(agent)
        assert agent.run(TASK) == "weekly"
        assert FACT in agent.memory.steps[1].text
        shown = str([step.observations for step in agent.memory.steps[2:]])
        assert "descaling every week" in shown
        assert "Remembered as mondays" in shown
        keys = memory.remember_many(f"note {n} on the boiler" for n in range(30))
        assert {"mondays", *keys} <= {record.key for record in memory.long_term.keeper.records()}
        assert [hit.key for hit in memory.recall("descaling coffee machine floor three", 1)] == ["fact"]
        assert memory.stats().not_embedded >= 31
    assert len(said(caplog)) == 1
    assert "shaky" in said(caplog)[0]
    assert "by words" in said(caplog)[0]
    caplog.clear()
    with EnhancedAgentMemory(tmp_path, embedder=Shaky()) as memory:
        assert memory.stats().not_embedded == 0
        assert memory.recall("boiler", explain=True)[0].parts["vector"] > 0
    assert said(caplog) == []


def test_a_place_opens_while_its_embedder_fails_and_reindex_tells_why_it_cannot(tmp_path, caplog):
    """In a new process, which does not know how wide the vectors are; who asks for the index gets the error."""
    with EnhancedAgentMemory(tmp_path, embedder=Shaky()) as memory:
        memory.remember(FACT, key="fact")
    with EnhancedAgentMemory(tmp_path, embedder=None) as memory:
        memory.remember("Without any embedder.", key="later")
    down = Shaky(gone)
    with EnhancedAgentMemory(tmp_path, embedder=down) as memory:
        assert [hit.key for hit in memory.recall("coffee machine", 1)] == ["fact"]
        assert memory.stats().not_embedded == 1
        assert len(said(caplog)) == 1
        with pytest.raises(EmbeddingError, match="no route to host"):
            memory.reindex()
        down.fails = None
        assert memory.reindex()["embedded"] == 1
        assert memory.recall("coffee machine", explain=True)[0].parts["vector"] > 0


def test_what_was_kept_in_an_outage_is_embedded_once_the_embedder_works_again(caplog):
    """With the next memory that is kept; recall is by meaning again."""
    embedder = Shaky()
    memory = EnhancedAgentMemory(embedder=embedder)
    memory.remember("the first note")
    embedder.fails = gone
    memory.remember("the second note")
    assert memory.recall("second note", explain=True)[0].parts["vector"] == 0
    embedder.fails = None
    memory.remember("the third note")
    assert memory.stats().not_embedded == 0
    assert memory.recall("second note", explain=True)[0].parts["vector"] > 0


def test_a_memory_is_reworded_while_the_embedder_fails(caplog):
    """The new text is found by its words, nothing of the old one is left, and it is embedded afterwards."""
    embedder = Shaky()
    with EnhancedAgentMemory(embedder=embedder) as memory:
        memory.remember(FACT, key="fact")
        embedder.fails = gone
        assert memory.update("fact", text="The boiler needs an inspection.")
        assert [hit.value for hit in memory.recall("boiler inspection")] == ["The boiler needs an inspection."]
        assert memory.stats().not_embedded == 1
        assert len(said(caplog)) == 1
        embedder.fails = None
        memory.reindex()
        assert memory.stats().not_embedded == 0


def test_a_text_that_alone_cannot_be_embedded_costs_the_others_nothing(tmp_path, caplog):
    """It is found by its words; `reindex` tries it again."""

    def refuses(texts, rows):
        if any("poison" in text for text in texts):
            raise ValueError("content filter")
        return rows

    embedder = Shaky(refuses)
    with EnhancedAgentMemory(tmp_path, embedder=embedder) as memory:
        memory.remember_many([f"note {n} on the boiler" for n in range(9)] + ["the poison cabinet is locked"])
        assert memory.stats().not_embedded == 0
        assert memory.recall("boiler", explain=True)[0].parts["vector"] > 0
        assert "poison" in memory.recall("cabinet locked")[0].value
        assert len(said(caplog)) == 1
        embedder.fails = None
        assert memory.reindex()["embedded"] == 1
        assert memory.reindex()["embedded"] == 0


def test_an_embedder_that_is_slow_to_fail_is_not_asked_at_every_turn():
    """It has ten times as long to recover as it took to fail."""

    class Slow(Shaky):
        def embed_documents(self, texts):
            self.asked += 1
            if self.fails:
                time.sleep(0.2)
                raise TimeoutError("the server did not answer")
            return self.inner.embed_documents(texts)

    embedder = Slow()
    memory = EnhancedAgentMemory(embedder=embedder)
    memory.remember(FACT)
    embedder.fails, embedder.asked = True, 0
    for n in range(20):
        assert memory.recall(f"coffee machine {n}")
    assert embedder.asked == 1


def test_other_dimensions_under_the_same_name_are_noticed_and_put_right_by_reindex(tmp_path, caplog):
    """Vectors of two widths are never compared."""
    with EnhancedAgentMemory(tmp_path, embedder=Hashed("same", 48)) as memory:
        memory.remember_many(f"note {n} on the boiler" for n in range(9))
        assert memory.recall("note 3")
    with EnhancedAgentMemory(tmp_path, embedder=Hashed("same", 32)) as memory:
        assert memory.recall("note 3")[0].value == "note 3 on the boiler"
        assert len(said(caplog)) == 1
        memory.remember("another on the pump")
        assert memory.reindex()["embedded"] == 10
        assert memory.recall("pump", explain=True)[0].parts["vector"] > 0


# -- stores of one's own -------------------------------------------------------------------------------------------


def broken(store_class, *methods, **options):
    """A store whose methods raise once `down` is set."""

    class Broken(store_class):
        down = False

    def failing(name):
        def method(self, *args, **given):
            if self.down:
                raise OSError("the disk is gone")
            return getattr(store_class, name)(self, *args, **given)

        return method

    for name in methods:
        setattr(Broken, name, failing(name))
    return Broken(**options)


EVERY = ("add", "add_many", "get", "get_many", "search", "forget", "forget_many", "items", "__len__", "meta")


def test_a_second_store_that_fails_costs_no_text_and_no_recall(caplog):
    """The texts are kept; `reindex` completes it."""
    vectors = broken(VectorMemoryStore, "add_many", "search", embedder=Hashed())
    memory = EnhancedAgentMemory(long_term=InMemoryStore(), vector_store=vectors)
    memory.remember(FACT, key="fact")
    vectors.down = True
    memory.remember("Descale it on Mondays.", key="mondays")
    assert [hit.key for hit in memory.recall("descale on mondays", 1)] == ["mondays"]
    assert memory.recall("coffee machine", explain=True)[0].parts["vector"] == 0
    assert len(said(caplog)) == 1
    assert "the disk is gone" in said(caplog)[0]
    with pytest.raises(StoreError):
        memory.reindex()
    vectors.down = False
    assert memory.reindex()["embedded"] == 1
    assert memory.recall("coffee machine", explain=True)[0].parts["vector"] > 0


def test_one_store_for_texts_and_meaning_whose_embedder_fails_is_looked_through_by_words(caplog):
    """What cannot be kept there is refused, by an error of ours."""
    embedder = Shaky()
    memory = EnhancedAgentMemory(long_term=VectorMemoryStore(embedder=embedder))
    memory.remember_many({"text": f"note {n} on the boiler", "key": f"k{n}"} for n in range(9))
    embedder.fails = gone
    assert [hit.key for hit in memory.recall("note 3 boiler", 1)] == ["k3"]
    assert len(said(caplog)) == 1
    with pytest.raises(EmbeddingError):
        memory.remember("one more")
    assert "Nothing was remembered" in RememberTool(memory)("one more")


def test_a_store_that_is_gone_is_an_error_of_ours_to_whoever_asks(caplog):
    """Never an empty answer: by recall, a tool, statistics; a run goes on, and it is logged."""
    store = broken(InMemoryStore, *EVERY)
    memory = EnhancedAgentMemory(long_term=store, vector=False, auto_recall=3)
    memory.remember(FACT, key="fact")
    store.down = True
    for ask in (
        lambda: memory.recall("coffee machine"),
        lambda: memory.remember("one more"),
        lambda: memory.remember_document("a text"),
        lambda: memory.forget("fact"),
        lambda: memory.feedback("fact"),
        lambda: memory.archive("fact"),
        lambda: memory.stats(),
        lambda: memory.decay(),
        lambda: memory.purge(),
    ):
        with pytest.raises(SmolagentsMemoryError, match="the disk is gone"):
            ask()
    assert "Recall did not work" in RecallTool(store)("coffee machine")
    agent = CodeAgent([], ScriptedModel([code("print(1)"), code("final_answer('weekly')")]), verbosity_level=-1)
    memory.attach(agent)
    assert agent.run(TASK) == "weekly"
    lines = "\n".join(said(caplog))
    assert "nothing was recalled for the task" in lines
    assert "what this run taught was not kept" in lines
    assert "Traceback" not in caplog.text
    store.down = False
    assert [hit.key for hit in memory.recall("coffee machine")] == ["fact"]
    memory.close()
