"""What is true no longer is replaced: the new text is recalled, the old one is history."""

from __future__ import annotations

from typing import Any

import pytest

from smolagents_memory import (
    EnhancedAgentMemory,
    RememberTool,
    UnsupportedValueError,
)


@pytest.fixture
def memory(any_place: tuple[Any, dict[str, Any]]) -> Any:
    where, options = any_place
    with EnhancedAgentMemory(where, **options) as memory:
        yield memory


def told(memory: EnhancedAgentMemory, key: str) -> list[tuple[Any, bool]]:
    return [(each.value, each.archived is not None) for each in memory.history(key)]


def test_the_new_text_is_recalled_and_the_old_one_is_history(memory):
    memory.remember("Ann lives in Berlin.", key="home")
    heard = []
    memory.on("archived", lambda event: heard.append(event.keys))
    key = memory.remember("Ann lives in Paris.", replaces="home")
    assert [hit.value for hit in memory.recall("Where does Ann live?")] == ["Ann lives in Paris."]
    assert heard == [["home"]]
    third = memory.remember("Ann lives in Rome.", replaces=[key])
    assert told(memory, third) == [
        ("Ann lives in Rome.", False),
        ("Ann lives in Paris.", True),
        ("Ann lives in Berlin.", True),
    ]
    assert memory.restore("home")
    assert {hit.value for hit in memory.recall("Where does Ann live?")} == {
        "Ann lives in Rome.",
        "Ann lives in Berlin.",
    }


def test_a_text_that_is_there_replaces_another(memory):
    memory.remember_many([{"text": "The gate is B7.", "key": "old"}, "The gate is C1."])
    key = memory.remember("The gate is C1.", replaces="old")
    assert memory.count() == 1
    assert told(memory, key) == [("The gate is C1.", False), ("The gate is B7.", True)]


def test_one_text_replaces_many_and_many_replace_one(memory):
    memory.remember_many([{"text": f"Shift {n} ends at noon.", "key": f"{n}"} for n in range(3)])
    memory.remember_many([{"text": "All shifts end at one.", "key": "all", "replaces": ["0", "1", "2"]}])
    assert [each.key for each in memory.items()] == ["all"]
    halves = [
        {"text": f"The {part} shifts end at {n}.", "replaces": "all"} for n, part in enumerate(("early", "late"), 2)
    ]
    memory.remember_many(halves)
    assert memory.count() == 2
    assert memory.count(archived=True) == 4


@pytest.mark.parametrize(
    ("key", "replaces"), [(None, "nowhere"), ("home", "home"), (None, ["home", "nowhere"]), (None, 7), (None, [""])]
)
def test_what_cannot_be_replaced_is_refused_and_nothing_is_written(memory, key, replaces):
    memory.remember("Ann lives in Berlin.", key="home")
    with pytest.raises(UnsupportedValueError, match=r"[Nn]othing was written"):
        memory.remember("Ann lives in Paris.", key=key, replaces=replaces)
    assert [each.value for each in memory.items(archived=None)] == ["Ann lives in Berlin."]


def test_a_key_that_is_written_twice_replaces_what_both_do(memory):
    memory.remember_many([{"text": "Ann lives in Berlin.", "key": "x"}, {"text": "Ann lives in Bonn.", "key": "y"}])
    heard = []
    memory.on("archived", lambda event: heard.append(event.keys))
    twice = [
        {"text": "Ann lives in Paris.", "key": "home", "replaces": "x"},
        {"text": "Ann lives in Rome.", "key": "home"},
    ]
    memory.remember_many(twice)
    assert [each.key for each in memory.items()] == ["y", "home"]
    assert told(memory, "home") == [("Ann lives in Rome.", False), ("Ann lives in Berlin.", True)]
    memory.remember_many([{**twice[0], "replaces": ["x", "y"]}, twice[1]])
    assert heard == [["x"], ["y"]]


@pytest.mark.parametrize("first", [0, 1])
def test_what_is_written_and_replaced_at_once_is_refused_and_nothing_is_written(memory, first):
    memory.remember("Ann lives in Berlin.", key="x")
    both = [{"text": "Ann lives in Paris.", "key": "x"}, {"text": "Ann lives in Rome.", "replaces": "x"}]
    with pytest.raises(UnsupportedValueError, match="Nothing was written"):
        memory.remember_many([both[first], both[1 - first]])
    assert [each.value for each in memory.items(archived=None)] == ["Ann lives in Berlin."]


def test_a_tool_replaces_what_its_agent_wrote(memory):
    tool = RememberTool(memory)
    tool("Ann lives in Berlin.", key="home")
    assert tool("Ann lives in Paris.", key="now", replaces="home") == (
        "Remembered as now, in the place of home, which is no longer recalled."
    )
    assert [each.key for each in memory.items()] == ["now"]
    assert "no memory under the key" in tool("Ann lives in Rome.", replaces="elsewhere")
    assert [each.key for each in memory.items()] == ["now"]


def test_what_is_forgotten_is_no_history(memory):
    memory.remember("Ann lives in Berlin.", key="home")
    key = memory.remember("Ann lives in Paris.", replaces="home")
    assert memory.forget("home")
    assert told(memory, key) == [("Ann lives in Paris.", False)]
    assert memory.history("home") == []
