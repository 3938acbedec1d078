"""Remembering, recalling, filtering, explaining, neighbours, documents, scopes, stores of one's own."""

from __future__ import annotations

import pytest

from smolagents_memory import (
    EnhancedAgentMemory,
    InMemoryStore,
    SqliteStore,
    UnsupportedValueError,
    VectorMemoryStore,
    evaluate,
)


@pytest.fixture(params=["ram", "folder"])
def memory(request, tmp_path, hashed):
    path = None if request.param == "ram" else tmp_path / "memory"
    with EnhancedAgentMemory(path, embedder=hashed) as memory:
        yield memory


def test_the_guides_sketch_works_as_written():
    """add_experience, recall, add_message, get_recent_messages, persistent=, vector=."""
    memory = EnhancedAgentMemory(system_prompt="You are helpful.", persistent=InMemoryStore(), vector=False)
    memory.add_experience("The API wants ISO dates.", importance=2)
    memory.add_message("user", "Which date format?")
    memory.add_message("assistant", "ISO.")
    assert memory.recall("What dates does the API want?")[0].value == "The API wants ISO dates."
    assert [m.content[0]["text"] for m in memory.get_recent_messages(1)] == ["ISO."]
    assert len(memory.get_recent_messages()) == 2


def test_what_is_remembered_is_recalled_with_key_score_and_metadata(memory):
    """Hits unpack as key, value, score and carry their metadata."""
    key = memory.remember("The staging server needs the VPN.", meta={"team": "ops"})
    memory.remember("Lunch is at noon.")
    hit = memory.recall("How is the staging server reached?", k=1)[0]
    assert tuple(hit) == (key, "The staging server needs the VPN.", hit.score)
    assert hit.meta == {"team": "ops"}
    assert hit.parts == {}


def test_explaining_shows_parts_that_add_up(memory):
    """Every part of a score is named, and together they are the score."""
    memory.remember_many(["a red car", "a blue boat", "a green plane"])
    hit = memory.recall("red car", explain=True)[0]
    assert sum(hit.parts.values()) == pytest.approx(hit.score, abs=1e-5)


def test_the_same_text_twice_is_one_stronger_memory(memory):
    """Without a key of its own a text is known by what it says."""
    first = memory.remember("The disk is full.", importance=1)
    assert memory.remember("The disk is full.", importance=3) == first
    record = memory.long_term.get(first)
    assert (record.importance, record.uses) == (3, 1)
    assert memory.stats().memories == 1


def test_a_key_that_exists_is_replaced(memory):
    """Text, words and vectors of the old one are gone."""
    memory.remember("the zebra", key="animal")
    memory.remember("the giraffe", key="animal")
    assert memory.stats().memories == 1
    assert memory.recall("giraffe")[0].value == "the giraffe"
    assert memory.recall("zebra")[0].value == "the giraffe"


def test_filters_reach_metadata_and_the_memorys_own_fields(memory):
    """A narrow filter finds its few among many."""
    memory.remember_many({"text": f"note {n} about the harbour", "meta": {"n": n}} for n in range(400))
    memory.remember("a note about the harbour too", kind="failure")
    assert [hit.meta["n"] for hit in memory.recall("harbour", where={"n": 399})] == [399]
    assert [hit.kind for hit in memory.recall("harbour note", where={"kind": "failure"})] == ["failure"]
    assert memory.recall("harbour", where={"n": -1}) == []
    with pytest.raises(UnsupportedValueError):
        memory.recall("harbour", where={"n": {"$near": 1}})


def test_neighbours_of_one_source_lend_each_other_weight(memory):
    """The answer right after the question that matches is found, though it shares no word with the query."""
    talk = ["Which colour did the committee choose for the bridge?", "Teal, in the end.", "Good."]
    memory.remember_many({"text": text, "source": "talk"} for text in talk)
    memory.remember_many(f"unrelated filler number {n}" for n in range(40))
    assert "Teal, in the end." in [
        hit.value for hit in memory.recall("colour chosen by the committee for the bridge", 3)
    ]


def test_importance_and_feedback_decide_between_equals(memory):
    """Of two that fit alike, the more important one comes first; feedback turns it round."""
    memory.remember("the pump in hall one leaks", key="one", importance=1)
    memory.remember("the pump in hall two leaks", key="two", importance=8)
    assert memory.recall("which pump leaks")[0].key == "two"
    for _ in range(6):
        assert memory.feedback("one", useful=True)
        assert memory.feedback("two", useful=False)
    assert memory.recall("which pump leaks")[0].key == "one"
    assert not memory.feedback("nothing")


def test_a_document_is_kept_in_parts_and_replaced_as_a_whole(memory, tmp_path):
    """Parts that the new version does not have are forgotten."""
    text = (
        "\n\n".join(f"Chapter {n}. " + "The ship sails on. " * 30 for n in range(6))
        + "\n\nThe treasure is in the attic."
    )
    path = tmp_path / "story.txt"
    path.write_text(text)
    keys = memory.remember_document(path)
    assert len(keys) > 3
    assert "attic" in memory.recall("Where is the treasure in the attic?")[0].value
    assert len(memory.remember_document("The treasure moved to the cellar.", path.as_posix())) == 1
    assert memory.stats().memories == 1


@pytest.mark.parametrize("blank", ["", "  \n", "\t\u3000"])
def test_a_blank_text_is_refused_and_nothing_is_written(memory, blank):
    """It says nothing, and is found by nothing."""
    key = memory.remember("The key is under the mat.")
    for ask in (
        lambda: memory.remember(blank),
        lambda: memory.remember(blank, key=key),
        lambda: memory.add_experience(blank),
        lambda: memory.remember_many(["one more", blank]),
        lambda: memory.remember_many([{"text": "one more"}, {"text": blank, "key": "k"}]),
        lambda: memory.update(key, text=blank),
        lambda: memory.update(key, text=blank, meta={"n": 1}),
    ):
        with pytest.raises(UnsupportedValueError, match=r"says something.*nothing was"):
            ask()
    assert [(each.value, each.meta) for each in memory.items()] == [("The key is under the mat.", {})]
    assert memory.remember_document(blank) == []


def test_forgetting_by_key_and_by_filter(memory):
    """What is forgotten is not recalled."""
    memory.remember_many({"text": f"fact {n}", "key": f"k{n}", "meta": {"n": n}} for n in range(10))
    assert memory.forget("k0")
    assert not memory.forget("k0")
    assert memory.forget_where({"n": {"$gte": 5}}) == 5
    with pytest.raises(UnsupportedValueError, match="everything"):
        memory.forget_where({})
    assert sorted(hit.key for hit in memory.recall("fact", 20)) == ["k1", "k2", "k3", "k4"]


def test_hooks_tell_what_happens(memory):
    """added, recalled, forgotten, archived."""
    told = []
    for name in ("added", "recalled", "forgotten", "archived"):
        memory.on(name, lambda event: told.append(event.name))
    key = memory.remember("a fact")
    memory.recall("a fact")
    memory.archive(key)
    memory.forget(key)
    assert told == ["added", "recalled", "archived", "forgotten"]


@pytest.mark.parametrize(
    "item", [5, {"text": 5}, {"texts": "x"}, {"text": "x", "importance": "high"}, {"text": "x", "key": ""}]
)
def test_one_bad_item_of_many_is_refused_and_nothing_is_written(memory, item):
    """All are looked at before the first is written."""
    with pytest.raises(UnsupportedValueError):
        memory.remember_many(["good", item])
    assert memory.stats().memories == 0


def test_scopes_see_nothing_of_each_other_and_do_not_change_each_others_ranking(tmp_path, hashed):
    """Ten thousand memories elsewhere leave scores in a scope as they were, to the last digit."""
    path = tmp_path / "memory"
    mine = EnhancedAgentMemory(path, scope={"user": "u1"}, embedder=hashed)
    mine.remember_many(f"note {n} on the {'harbour' if n % 3 else 'castle'} and ferry {n % 7}" for n in range(300))
    query = "ferry to the castle"
    before = [(hit.key, hit.parts["lexical"], hit.parts["vector"]) for hit in mine.recall(query, 10, explain=True)]
    other = EnhancedAgentMemory(path, scope={"user": "u2"}, embedder=hashed)
    other.remember_many(f"ferry {n} goes to the castle every day" for n in range(3000))
    default = EnhancedAgentMemory(path, embedder=hashed)
    default.remember("the ferry to the castle is late")
    after = [(hit.key, hit.parts["lexical"], hit.parts["vector"]) for hit in mine.recall(query, 10, explain=True)]
    assert after == before
    assert {hit.value for hit in default.recall(query, 50)} == {"the ferry to the castle is late"}
    assert not mine.forget(other.recall("ferry")[0].key)
    for each in (mine, other, default):
        each.close()


def test_a_scope_is_the_same_however_it_is_written(hashed, tmp_path):
    """The order of its entries does not matter; something else than a mapping is refused."""
    EnhancedAgentMemory(tmp_path, scope={"a": "1", "b": "2"}, embedder=hashed).remember("x", key="k")
    assert EnhancedAgentMemory(tmp_path, scope={"b": "2", "a": "1"}, embedder=hashed).long_term.get("k")
    with pytest.raises(UnsupportedValueError):
        EnhancedAgentMemory(tmp_path, scope="u1", embedder=hashed)


class FourMethods:
    """A store as a guide sketches it: four methods, nothing more."""

    def __init__(self):
        self.kept = {}

    def add(self, key, value):
        self.kept[key] = value

    def get(self, key):
        return self.kept.get(key)

    def search(self, query):
        return [
            (key, value) for key, value in self.kept.items() if set(query.lower().split()) & set(value.lower().split())
        ]

    def forget(self, key):
        return self.kept.pop(key, None) is not None


@pytest.mark.parametrize("kind", ["four methods", "in memory", "sqlite", "both", "vector"])
def test_any_store_may_take_either_side(kind, tmp_path, hashed):
    """Remember, recall, reinforce, pin, archive, restore, forget: the same with stores of one's own."""
    chosen = {
        "four methods": lambda: {"long_term": FourMethods()},
        "in memory": lambda: {"long_term": InMemoryStore()},
        "sqlite": lambda: {"persistent": SqliteStore(tmp_path / "x.db")},
        "both": lambda: {
            "long_term": FourMethods(),
            "vector_store": VectorMemoryStore(tmp_path / "c", embedder=hashed),
        },
        "vector": lambda: {"vector": VectorMemoryStore(tmp_path / "c", embedder=hashed)},
    }[kind]()
    memory = EnhancedAgentMemory(**chosen)
    key = memory.remember("the staging server needs the vpn", importance=2)
    assert memory.remember("the staging server needs the vpn") == key
    memory.remember("lunch is at noon", key="lunch")
    assert memory.recall("staging server", 1)[0].key == key
    assert memory.feedback(key)
    assert memory.archive(key)
    assert key not in [hit.key for hit in memory.recall("staging server")]
    assert memory.restore(key)
    assert memory.recall("staging server", 1)[0].key == key
    assert memory.pin(key)
    assert memory.decay() == []
    assert memory.forget(key)
    assert memory.long_term.get(key) is None
    memory.close()


def test_evaluating_gives_recall_hits_rank_and_time(memory):
    """Figures over cases of one's own."""
    keys = memory.remember_many(["red apple", "green pear", "blue plum"])
    result = evaluate(memory, [("apple red", keys[:1]), ("pear", keys[1:2]), ("kiwi", ["not there"])], k=1)
    assert (result.cases, result.k) == (3, 1)
    assert result.recall == result.hit_ratio == result.mrr == pytest.approx(2 / 3)
    assert result.p50_ms > 0
    assert "recall@1 0.667" in str(result)


def test_a_long_instruction_round_a_question_does_not_hide_it():
    """The default embedder: what adapts to the query finds the same as the bare question."""
    with EnhancedAgentMemory() as memory:
        memory.remember_many(
            [
                "Keep answers short and precise.",
                "Notes are written in English.",
                "Uncertain guesses are marked as such.",
            ]
            + [f"Meeting {n} was about the budget of branch {n}." for n in range(30)]
        )
        key = memory.remember("Melanie painted the sunrise over the lake in 2022.")
        query = (
            "You are a helpful assistant with a long history of notes. Answer the question below as precisely as you "
            "can and use only what is written in your notes. Say that you do not know if you are unsure, instead of "
            "guessing. When did Melanie paint a sunrise? Return plain text without any explanation."
        )
        assert memory.recall(query, 1)[0].key == key


def test_long_texts_are_not_favoured_and_their_ends_are_found():
    """The default embedder reads a long text in parts, whole; many parts are no advantage by chance."""
    with EnhancedAgentMemory() as memory:
        filler = " ".join(
            f"On day {n} the ferries of the harbour ran on time and the sea was calm." for n in range(150)
        )
        memory.remember(filler + " The combination of the safe is nine four seven.", key="long")
        memory.remember("Anna's favourite dish is lentil soup with cumin.", key="short")
        memory.remember_many(f"Report {n}: all quiet at the depot." for n in range(30))
        assert memory.recall("What is the combination of the safe?", 1)[0].key == "long"
        assert memory.recall("Which dish does Anna like best?", 1)[0].key == "short"
