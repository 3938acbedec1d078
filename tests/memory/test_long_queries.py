"""A long task or query costs no more than one of 2 kB, and a short one is asked as it is."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick_embedder import Hashed
from smolagents import CodeAgent

from smolagents_memory import EnhancedAgentMemory, InMemoryStore, RecallTool, SqlStore, VectorMemoryStore
from smolagents_memory.search.parts import LONGEST_QUERY, bounded_query
from smolagents_memory.testing import ScriptedModel, code
from smolagents_memory.testing.filling import varied_memories


PROSE = "The harbour crane number {n} lifts {n} crates of fruit before noon. "


def prose(size):
    return "".join(PROSE.format(n=n) for n in range(size // len(PROSE) + 1))[:size]


@given(st.text(max_size=LONGEST_QUERY))
def test_a_query_of_two_kilobytes_is_asked_as_it_is(text):
    """The very text."""
    if len(text.encode("utf-8", "surrogatepass")) <= LONGEST_QUERY:
        assert bounded_query(text) is text


@given(st.text(min_size=1), st.integers(1, 5))
def test_of_a_longer_one_the_beginning_and_the_end_are_asked(text, times):
    """Whatever it is made of; no word is cut where there is a space near."""
    long = text * times + prose(3000) + text * times
    asked = bounded_query(long)
    assert len(asked.encode("utf-8", "surrogatepass")) <= LONGEST_QUERY
    assert set(bounded_query(prose(9000)).split()) <= set(prose(9000).split())


@pytest.mark.parametrize("options", [{"vector": False}, {}], ids=["words", "meaning"])
def test_what_is_asked_at_either_end_of_a_long_query_is_found(options):
    """A task with a long text before or behind it."""
    memory = EnhancedAgentMemory(**options)
    memory.remember_many(list(varied_memories(40)))
    memory.remember("The badge for the observatory is in drawer seven.", key="badge")
    question = "Where is the badge for the observatory?"
    for long in (f"{question} {prose(200_000)}", f"{prose(200_000)} {question}", f"Hello.\n{prose(9000)}\n{question}"):
        assert "badge" in [hit.key for hit in memory.recall(long, 5)]


class Listening(Hashed):
    longest = 0

    def embed_query(self, text):
        self.longest = max(self.longest, len(text))
        return super().embed_query(text)


def test_an_embedder_is_asked_no_more_than_that():
    """By a store as by recall."""
    embedder = Listening()
    store = VectorMemoryStore(embedder=embedder)
    store.add("k", "zebra giraffe")
    assert store.search(prose(100_000))
    assert 1000 < embedder.longest <= LONGEST_QUERY


@pytest.mark.parametrize("make", [InMemoryStore, lambda: SqlStore("sqlite://")])
def test_every_store_asks_no_more_than_that(make):
    """Both ends of it, and of the rest nothing."""
    store = make()
    store.add("k", "zebra giraffe")
    store.add("m", "okapi tapir")
    assert [hit.key for hit in store.search("zebra " + prose(50_000), 1)] == ["k"]
    middle = prose(50_000) + " okapi tapir " * 3 + prose(50_000) + " giraffe"
    assert [hit.key for hit in store.search(middle, 1)] == ["k"]


def test_what_is_learnt_of_a_long_run_is_short(hashed):
    """Task, answer, code and what came back."""
    memory = EnhancedAgentMemory(embedder=hashed, auto_recall=3)
    script = [code(f"text = {prose(200_000)!r}\nprint(text)"), code("final_answer(text)")]
    agent = CodeAgent([RecallTool(memory)], ScriptedModel(script), verbosity_level=-1)
    memory.attach(agent)
    agent.run(prose(1_400_000))
    assert max(len(record.value) for record in memory.long_term.keeper.records()) < 4000


def best_of(work, turns=5):
    times = []
    for turn in range(turns):
        begun = time.process_time()
        work(turn)
        times.append(time.process_time() - begun)
    return min(times)


def hexadecimal(size):
    """One sentence of words that no other text has."""
    return " ".join(f"{n * 7919 % 16**5:05x}" for n in range(size // 6))


def chinese(size):
    """A script without spaces, three bytes a character."""
    return "".join(chr(0x4E00 + n * 7919 % 16_000) for n in range(size // 3))


@pytest.mark.measures
@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "text"), [("sql", prose), ("stores", prose), ("sql", hexadecimal), ("sql", chinese)]
)
def test_recall_of_a_long_query_takes_no_longer_than_one_and_a_half_times_that_of_a_short_one(place, text):
    """With the real embedder, the best of several turns."""
    own = {"long_term": InMemoryStore(), "vector_store": VectorMemoryStore()} if place == "stores" else {}
    memory = EnhancedAgentMemory(**own)
    memory.remember_many(list(varied_memories(100)))

    def took(size):
        query = text(size)
        return best_of(lambda turn: memory.recall(f"{turn} {size} {query}"))

    short, long, longest = took(2000), took(200_000), took(1_400_000)
    assert long <= 1.5 * short
    assert longest <= 1.5 * short


@pytest.mark.measures
@pytest.mark.slow
def test_a_run_with_a_long_task_takes_little_longer_than_one_with_a_short_one():
    """Recalled for, learnt from, looked at for what helped."""
    memory = EnhancedAgentMemory(auto_recall=3)
    memory.remember_many(list(varied_memories(100)))

    def run(turn, size):
        script = [code(f"print(text[:{turn} + 20])"), code("final_answer(text)")]
        agent = CodeAgent([], ScriptedModel(script), verbosity_level=-1)
        memory.attach(agent)
        agent.run(f"{turn} {size} " + prose(size), additional_args={"text": prose(size)})
        memory._learning.close()

    with_memory = [best_of(lambda turn, size=size: run(turn, size), 3) for size in (2000, 200_000)]
    memory._learning._learn, memory._learning._auto_recall = False, 0
    without = [best_of(lambda turn, size=size: run(turn, size), 3) for size in (2000, 200_000)]
    assert with_memory[1] - without[1] <= 2.5 * (with_memory[0] - without[0])
