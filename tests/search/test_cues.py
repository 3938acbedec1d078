"""What the form of a text tells, and what a query asks for."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from smolagents_memory import EnhancedAgentMemory, Ranker
from smolagents_memory.search.cues import MOST_FIRST, MOST_NAMES, Cues, asked_by, cues_of
from smolagents_memory.search.words import query_words, words


@given(st.text(max_size=400))
def test_what_a_text_tells_is_the_same_after_packing(text):
    cues = cues_of(text)
    assert Cues.unpacked(cues.packed()) == cues
    assert 0 <= cues.names <= MOST_NAMES
    assert 0 <= cues.first <= MOST_FIRST


@given(st.binary(max_size=8))
def test_any_bytes_tell_something_or_nothing(data):
    cues = Cues.unpacked(data)
    assert (cues is None) == (len(data) != 6)
    assert cues is None or cues.names <= MOST_NAMES


@example("", "Mary Lou", "A:è")  # Italian, by its only words
@example("\u0640", "Ann", "")  # nothing is left of an Arabic filler
@given(st.text(max_size=60), st.sampled_from(["Ann", "Mary Lou", "안나", "Zoë", "user"]), st.text(max_size=200))
def test_the_label_of_who_speaks_is_found_among_the_stems(date, speaker, said):
    dated = f"[{date.replace(']', '').replace(chr(10), '')}] {speaker}: {said}"
    for text in (dated, f"{speaker}: {said}"):
        found = cues_of(text).speaker(" ".join(words(text)))
        assert len(found) == len(words(speaker))
        for stem, stems in zip(found, query_words(speaker), strict=True):  # as the text's language has it
            assert stem in stems.split()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Did you sleep well?", {"question": True}),
        ("睡得好吗？", {"question": True}),
        ("She asked: 'who?' And left.", {"question": False}),
        ("It was built in 1987.", {"times": True}),
        ("[8 May 2023] Ann: It was built of stone.", {"times": False}),
        ("Then we met Anna in Boston.", {"names": 2}),
        ("My sister and I took our dog.", {"first": MOST_FIRST}),
        ("The gate moved to B7, I changed it.", {"change": True}),
        ("plain words", {"question": False, "times": False, "names": 0, "first": 0.0, "label": (0, 0)}),
    ],
)
def test_what_a_text_tells(text, told):
    cues = cues_of(text)._asdict()
    assert {name: cues[name] for name in told} == told


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("When does the train leave?", (True, False, False)),
        ("Which day was it?", (True, True, True)),
        ("Who brought the cake?", (False, True, False)),
        ("How is the weather?", (False, False, False)),
        ("Wann fährt der Zug?", (False, False, False)),
        ("When the sun is up, take the box and look whether it is full. " * 4, (False, False, False)),
    ],
)
def test_what_a_query_asks_for(query, asked):
    assert asked_by(query) == asked


def parts(memory, query, key):
    return next(hit.parts for hit in memory.recall(query, 50, explain=True) if hit.key == key)


@pytest.fixture
def memory():
    memory = EnhancedAgentMemory(vector=False)
    memory.remember_many([{"text": f"The depot number {n} keeps crates of fruit.", "key": f"{n}"} for n in range(30)])
    return memory


def test_each_part_comes_when_it_is_asked_for_and_not_otherwise(memory):
    memory.remember("[8 May] Ann: I went to the depot in Boston yesterday.", key="ann")
    memory.remember("[8 May] Ben: And where is the depot?", key="ben")
    asked = parts(memory, "When did Ann go to the depot?", "ann")
    assert asked["speaker"] == Ranker().speaker
    assert asked["time"] == Ranker().time
    assert (asked["names"], asked["question"]) == (0, 0)
    assert asked["first"] > 0
    other = parts(memory, "Which depot keeps fruit?", "ann")
    assert (other["speaker"], other["time"]) == (0, 0)
    assert other["names"] == Ranker().names
    assert parts(memory, "the depot", "ben")["question"] == -Ranker().question


def test_a_text_that_holds_the_whole_query_is_ahead(memory):
    memory.remember("a long tale of " + "many words and " * 100 + "the purple zeppelin lands", key="long")
    assert parts(memory, "purple zeppelin lands", "long")["covers"] == pytest.approx(Ranker().covers)
    assert parts(memory, "purple zeppelin burns over lakes", "long")["covers"] == 0


def test_a_long_text_is_lent_less(memory):
    """It says enough itself."""
    for source, text in (("short", "and so on"), ("long", "and so on " * 200)):
        memory.remember(f"The {source} zeppelin lands on the purple field.", source=source)
        memory.remember(text, source=source, key=source)
    short, long = (parts(memory, "zeppelin purple field", key)["neighbour"] for key in ("short", "long"))
    assert 0 < long < short / 5


@pytest.mark.parametrize("query", ["What is the quota of the weather key?", "How much quota has the weather key?"])
def test_the_later_of_two_that_conflict_comes_first(memory, query):
    memory.remember("Ann: the quota of the weather key is 1,000 calls a day", key="old", importance=2)
    memory.remember("Ann: they changed it, the quota of the weather key is now 1,200 calls, see the mail", key="new")
    assert [hit.key for hit in memory.recall(query, 2)] == ["new", "old"]
    was = [hit.key for hit in memory.recall("What was the quota of the weather key?", 2)]
    assert was == ["old", "new"]


def test_who_tells_of_something_else_overtakes_nobody(memory):
    memory.remember("The quota of the weather key is 1,000 calls a day.", key="quota")
    memory.remember("They changed the colour of the weather page.", key="page")
    assert memory.recall("What is the quota of the weather key?", 2)[0].key == "quota"
