"""What was joined goes, comes back and is counted as what it is: nothing that is recalled goes with another."""

from __future__ import annotations

from typing import Any

import pytest
from agents import code_agent
from hypothesis import given, settings
from hypothesis import strategies as st

from smolagents_memory import EnhancedAgentMemory, InMemoryStore, Place, UnsupportedValueError
from smolagents_memory.testing import code
from smolagents_memory.testing.memory_conformance import Clock


SAID = "Deploys go out on Tuesday."
AGAIN = "deploys go out on tuesday"
ONCE_MORE = "Deploys go out on TUESDAY!"


@pytest.fixture
def memory(any_place: tuple[Any, dict[str, Any]], clock: Clock) -> Any:
    where, options = any_place
    with EnhancedAgentMemory(where, **options, clock=clock) as memory:
        yield memory


def told(memory: EnhancedAgentMemory) -> dict[str, bool]:
    """Each text, and whether it is put away."""
    return {each.value: each.archived is not None for each in memory.items(archived=None)}


def remembered(memory: EnhancedAgentMemory, clock: Clock, *texts: str, **options: Any) -> list[str]:
    keys = []
    for text in texts:
        keys.append(memory.remember(text, **options))
        clock.now += 1
    return keys


def times(memory: EnhancedAgentMemory, key: str) -> int:
    found = memory.get(key)
    assert found is not None
    return int(found.meta.get("repeated", {"times": 1})["times"])


# -- what goes ----------------------------------------------------------------------------------------------------


def test_purging_leaves_what_is_recalled_and_what_was_put_away_just_now(memory, clock):
    first, second = remembered(memory, clock, SAID, AGAIN)
    assert memory.consolidate() == {second: [first]}
    remembered(memory, clock, SAID)
    assert memory.consolidate() == {first: [second]}
    memory.pin(first)
    clock.pass_days(91)
    (third,) = remembered(memory, clock, ONCE_MORE)
    memory.join([first, third])
    assert memory.purge() == [second]
    assert told(memory) == {SAID: False, ONCE_MORE: True}


def test_where_things_are_taken_out_of_what_is_written_it_is_the_same(tmp_path, clock):
    with EnhancedAgentMemory(Place(tmp_path, redact=True), vector=False, clock=clock) as memory:
        mail = "Write to ann.smith@example.com"
        first, second = remembered(memory, clock, mail, mail + ".")
        assert memory.consolidate() == {second: [first]}
        remembered(memory, clock, mail)
        assert memory.consolidate() == {first: [second]}
        memory.pin(first)
        clock.pass_days(91)
        assert memory.purge() == [second]
        assert [each.key for each in memory.items(archived=None)] == [first]


def test_an_agent_with_two_outcomes_in_turn_keeps_what_it_learnt(memory, clock):
    said = ["Everything is fine on all seven hosts tonight.", "Everything is fine on all seven hosts tonight again."]
    for night in range(6):
        agent = code_agent([code(f"final_answer({said[night % 2]!r})")], planning_interval=None)
        memory.attach(agent)
        agent.run("Check the hosts of the harbour.")
        memory.detach()
        clock.pass_days(1)
    (outcome,) = memory.items({"kind": "outcome"})
    assert outcome.meta["repeated"]["times"] == 6
    memory.pin(outcome.key)
    clock.pass_days(90)
    memory.purge()
    assert [each.key for each in memory.items({"kind": "outcome"}, archived=None)] == [outcome.key]


def test_forgetting_takes_nothing_that_was_separated(memory, clock):
    first, second = remembered(memory, clock, SAID, AGAIN)
    memory.consolidate()
    (third,) = remembered(memory, clock, ONCE_MORE)
    memory.consolidate()
    assert set(memory.separate(third)) == {first, second}
    memory.consolidate()
    (kept,) = memory.items()
    assert times(memory, kept.key) == 3
    memory.separate(kept.key)
    assert told(memory) == {SAID: False, AGAIN: False, ONCE_MORE: False}
    memory.archive(first)
    assert memory.forget(second)
    assert told(memory) == {SAID: True, ONCE_MORE: False}


def test_forgetting_takes_nothing_that_was_brought_back(memory, clock):
    first, second = remembered(memory, clock, SAID, AGAIN)
    memory.consolidate()
    assert memory.restore(first)
    assert "repeated" not in memory.get(second).meta
    assert [each.key for each in memory.history(second)] == [second]
    memory.update(first, text="Deploys go out on Friday.")
    memory.archive(first)  # for itself, now
    assert memory.forget(second)
    assert told(memory) == {"Deploys go out on Friday.": True}


def test_what_comes_back_brings_its_own_along(memory, clock):
    first, second = remembered(memory, clock, SAID, AGAIN)
    memory.consolidate()
    (third,) = remembered(memory, clock, ONCE_MORE)
    memory.consolidate()
    assert memory.restore(second)
    assert (times(memory, second), times(memory, third)) == (2, 1)
    assert {each.key for each in memory.history(second)} == {first, second}
    assert memory.forget(second)
    assert told(memory) == {ONCE_MORE: False}


def test_revoking_a_source_leaves_what_another_said(memory, clock):
    (mine,) = remembered(memory, clock, SAID, origin="agent", source="notes")
    (older,) = remembered(memory, clock, AGAIN, origin="agent", source="notes")
    (theirs,) = remembered(memory, clock, ONCE_MORE, origin="agent", source="crm")
    memory.join([mine, older])
    assert memory.join([older, theirs]) == theirs
    assert memory.revoke(source="crm") == [theirs]
    assert told(memory) == {SAID: True, AGAIN: False}
    assert {each.key for each in memory.history(older)} == {mine, older}
    assert memory.separate(older) == [mine]


def test_forgetting_by_filter_takes_what_fits_alone(memory, clock):
    first, second, third = remembered(memory, clock, SAID, AGAIN, ONCE_MORE, meta={"n": 1})
    memory.update(second, meta={"n": 2})
    memory.join([first, second])
    memory.join([second, third])
    assert memory.forget_where({"n": 2}) == 1
    assert told(memory) == {SAID: True, ONCE_MORE: False}
    assert memory.forget(third)
    assert told(memory) == {}


def test_another_version_of_a_document_takes_nothing_of_another_document(memory, clock):
    (first,) = memory.remember_document("The ferry leaves at seven.", "ferry.txt")
    clock.now += 1
    *_, last = memory.remember_document("\n\n".join([f"Part {n} of many. " * 40 for n in range(9)]), "all.txt")
    assert memory.join([first, last]) == last
    memory.remember_document("Nothing is left.", "all.txt")
    assert told(memory) == {"The ferry leaves at seven.": False, "Nothing is left.": False}


def test_revoking_one_memory_takes_what_says_the_same(memory, clock):
    first, second = remembered(memory, clock, SAID, AGAIN)
    memory.consolidate()
    (made,) = remembered(memory, clock, "Tell everybody on Monday.", made_of=[second])
    assert set(memory.revoke(key=second)) == {first, second, made}
    assert told(memory) == {}


# -- what stays known -----------------------------------------------------------------------------------------------


def test_a_person_who_says_what_a_tool_said_keeps_what_was_joined(memory, clock):
    first, second = remembered(memory, clock, "The harbour opens at six.", "the harbour opens at six", origin="tool")
    assert memory.consolidate() == {second: [first]}
    memory.remember("the harbour opens at six")
    assert memory.get(second).trust == 1
    assert {each.key for each in memory.history(second)} == {first, second}
    assert memory.forget(second)
    assert told(memory) == {}


def test_another_text_under_a_key_keeps_what_was_joined_and_what_was_replaced(memory, clock):
    remembered(memory, clock, "Ann lives in Berlin.", key="old")
    remembered(memory, clock, "Ann lives in Paris.", key="new", replaces="old")
    remembered(memory, clock, "Paris is where Ann lives.", key="twin")
    memory.pin("new")
    assert memory.join(["new", "twin"]) == "new"
    memory.remember("Ann lives in Rome.", key="new")
    assert {each.key for each in memory.history("new")} == {"new", "twin", "old"}
    memory.restore("old")
    memory.remember("Ann lives in Rome, near the river.", key="new")
    assert memory.get("old").archived is None
    memory.forget("new")
    assert told(memory) == {"Ann lives in Berlin.": False}


def test_another_text_under_the_key_of_what_is_put_away_is_nobodys(memory, clock):
    remembered(memory, clock, "Ann lives in Berlin.", key="a")
    remembered(memory, clock, "Berlin is where Ann lives.", key="b")
    assert memory.join(["a", "b"]) == "b"
    memory.remember("The gate is C1.", key="a")
    assert times(memory, "b") == 1
    memory.archive("a")
    memory.forget("b")
    assert told(memory) == {"The gate is C1.": True}


def test_of_very_many_that_are_the_same_none_is_lost(clock):
    said = "abcdefghijkl is said as ever"
    with EnhancedAgentMemory(vector=False, clock=clock) as memory:
        texts = ["".join(c.upper() if n >> at & 1 else c for at, c in enumerate(said)) for n in range(1100)]
        memory.remember_many(texts)
        ((kept, away),) = memory.consolidate().items()
        assert len(away) == 1099
        clock.now += 1
        newer = memory.remember(said.upper())
        assert memory.consolidate() == {newer: [kept]}
        assert len(memory.history(newer)) == 1101
        assert times(memory, newer) == 1101
        assert len(memory.separate(newer)) == 1100
        assert memory.count() == 1101
        memory.consolidate()
        (left,) = memory.items()
        assert memory.forget(left.key)
        assert memory.count(archived=None) == 0


@pytest.mark.parametrize("order", ["ababab", "abcabc", "abacabad"])
def test_how_often_is_how_often_it_was_kept(memory, clock, order):
    texts = {name: f"Task: Check it.\nOutcome: All is well, says {name}." for name in order}
    for name in order:
        memory.remember(texts[name], kind="outcome", origin="agent")
        clock.now += 1
        memory.consolidate()
    (kept,) = memory.items()
    assert kept.meta["repeated"] == {"times": len(order), "first": clock.now - len(order), "last": clock.now - 1}
    memory.separate(kept.key)
    assert sum(times(memory, each.key) for each in memory.items()) == len(order)


ACTIONS = ["keep", "keep", "join", "separate", "restore", "archive", "forget", "purge"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 3)), max_size=14), st.booleans())
def test_whatever_is_done_nothing_that_is_recalled_goes_unasked(done, in_a_store):
    texts = [f"Task: Check it.\nOutcome: All is well, says {name}." for name in "abcd"]
    clock = Clock()
    options: dict[str, Any] = {"long_term": InMemoryStore()} if in_a_store else {}
    with EnhancedAgentMemory(vector=False, clock=clock, **options) as memory:
        kept: dict[str, int] = {}
        for action, n in done:
            clock.now += 1
            before = {each.key: each.archived is None for each in memory.items(archived=None)}
            keys = list(before)
            key = keys[n % len(keys)] if keys else "none"
            if action == "keep":
                key = memory.remember(texts[n], kind="outcome", origin="agent")
                kept[key] = kept.get(key, 0) + 1
            elif action == "join":
                memory.consolidate()
            elif action in ("separate", "restore", "archive"):
                getattr(memory, action)(key)
            elif action == "purge":
                clock.pass_days(100 * (n == 3))
                memory.purge()
            else:
                memory.forget(key)
            after = {each.key for each in memory.items(archived=None)}
            assert {each for each, live in before.items() if live} - after <= ({key} if action == "forget" else set())
            if action in ("forget", "purge"):  # what is deleted stays counted by what stays
                continue
        if not {"forget", "purge"} & {action for action, _ in done}:
            live = {each.key: times(memory, each.key) for each in memory.items()}
            stood_for = {key: {each.key for each in memory.history(key)} for key in live}
            assert all(live[key] == sum(kept[each] for each in stood_for[key]) for key in live)
            assert len([each for keys in stood_for.values() for each in keys]) == len(set().union(*stood_for.values()))


# -- what is the same -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The ratio is .5", "The ratio is 5"),
        ("Set flag to !ready", "Set flag to ready"),
        ("Never commit .env to git", "Never commit env to git"),
        ("Leave it by :wq", "Leave it by wq"),
        ("Say cd .. there", "Say cd . there"),
        ("!!!", "..."),
    ],
)
def test_signs_that_make_another_text_keep_it_apart(memory, clock, one, other):
    remembered(memory, clock, one, other)
    assert memory.consolidate() == {}


@pytest.mark.parametrize(
    "other",
    ['"Deploys" go out: (on Tuesday).', "deploys go out, on 'Tuesday'!", "(Deploys go out on tuesday.)"],
)
def test_signs_round_words_make_no_other_text(memory, clock, other):
    remembered(memory, clock, SAID, other)
    assert len(memory.consolidate()) == 1


@pytest.mark.parametrize("keys", [None, 5, "ab", ["a", None], ["a", 5]])
def test_what_is_no_list_of_keys_is_not_joined(memory, keys):
    memory.remember_many([{"text": "The gate is C1.", "key": "a"}, {"text": "The gate is C2.", "key": "b"}])
    with pytest.raises(UnsupportedValueError):
        memory.join(keys)
    assert memory.count() == 2


# -- under a seal, where what was changed is read again in one transaction ------------------------------------------


def test_what_stands_for_another_is_replaced_by_it(memory, clock):
    first, second = remembered(memory, clock, SAID, AGAIN)
    assert memory.consolidate() == {second: [first]}
    memory.remember(SAID, replaces=second)
    assert told(memory) == {SAID: False, AGAIN: True}


def test_a_document_whose_parts_were_joined_gets_another_version(memory, clock):
    parts = memory.remember_document("word " * 400 + "\n\n" + "other " * 400, source="doc")
    memory.join(parts[:2])
    (part,) = memory.remember_document("short", source="doc")
    assert told(memory) == {"short": False}
    assert memory.get(part).value == "short"
