"""A function that fails costs what it was asked for, and no more: no run, no other memory, no word of the package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from smolagents import CodeAgent

from smolagents_memory import EnhancedAgentMemory, Place, Redactor, SqliteStore, UnsupportedValueError
from smolagents_memory.privacy.redaction import FAILED
from smolagents_memory.testing import ScriptedModel, code


def fails(text: str) -> str:
    raise ValueError(text)


def nothing(text: str) -> Any:
    return None


def of(word: str) -> Callable[[str], str]:
    def only(text: str) -> str:
        return fails(text) if word in text else text

    return only


def memory_of(redact: Any) -> EnhancedAgentMemory:
    return EnhancedAgentMemory(Place(redact=redact), vector=False)


pytestmark = pytest.mark.filterwarnings("ignore::smolagents_memory.MemoryLossWarning")


@pytest.mark.parametrize("redact", [fails, nothing, Redactor(also=[fails])])
def test_a_run_goes_on_and_its_memories_say_that_it_failed(redact: Any) -> None:
    memory = memory_of(redact)
    agent = CodeAgent([], ScriptedModel([code("print(1)"), code("final_answer('done')")]), verbosity_level=0)
    with memory.attach(agent):
        assert agent.run("Go.") == "done"
    memory.remember("a text")
    kept = list(memory.items(archived=None))
    assert any(each.value == FAILED for each in kept)
    assert {each.origin for each in kept} <= {"user", "agent"}
    assert FAILED not in {each.kind for each in kept}


@pytest.mark.parametrize("redact", [str.upper, lambda text: text.replace("user", "x").replace("memory", "y")])
def test_the_package_s_own_words_are_not_redacted(redact: Any) -> None:
    memory = memory_of(redact)
    key = memory.remember("a text", kind="failure")
    memory.remember("another", kind="fact")
    found = memory.get(key)
    assert found is not None
    assert (found.kind, found.origin) == ("failure", "user")
    assert (
        memory.count(where={"kind": "failure"}) == memory.count(where={"$or": [{"kind": {"$in": ["failure"]}}]}) == 1
    )
    assert memory.count(where={"kind": "fact"}) == 1
    assert memory.count(where={"token": {"$exists": False}}) == 2


def test_a_function_is_asked_once_for_a_text() -> None:
    asked: list[str] = []

    def finds(text: str) -> list[Any]:
        asked.append(text)
        return []

    memory_of(Redactor([], also=[finds])).remember("a text")
    assert asked == ["a text"]


def test_memories_of_which_the_key_failed_have_keys_of_their_own() -> None:
    memory = memory_of(of("ann"))
    keys = [memory.remember("one", key="ann 1"), memory.remember("two", key="ann 2")]
    assert len(set(keys)) == 2
    assert FAILED not in keys
    assert [memory.get(key).value for key in keys] == ["one", "two"]  # type: ignore[union-attr]
    assert memory.get("ann 1") is None
    assert not memory.forget("ann 1")


def test_documents_of_which_the_source_failed_do_not_take_each_other_s_place() -> None:
    memory = memory_of(of("ann"))
    memory.remember_document("about one", source="one")
    with pytest.raises(UnsupportedValueError, match=r"could not be redacted.*nothing was written"):
        memory.remember_document("about two", source="ann")
    assert memory.count() == 1


def test_what_cannot_be_redacted_chooses_nothing_to_be_deleted() -> None:
    memory = memory_of(of("ann"))
    memory.remember("one", source="ann 1", meta={"by": "ann"})
    for call in (
        lambda: memory.revoke(source="ann 2"),
        lambda: memory.forget_where({"by": "ann 2"}),
        lambda: memory.forget_where({"$not": {"by": {"$nin": ("ann 2",)}}}),
    ):
        with pytest.raises(UnsupportedValueError, match="could not be redacted"):
            call()
    assert memory.count() == 1


def test_a_plain_store_refuses_a_key_that_failed() -> None:
    store: SqliteStore[Any] = SqliteStore(Place(redact=of("ann")))
    with pytest.raises(UnsupportedValueError, match=r"could not be redacted.*nothing was written"):
        store.add_many([("one", 1), ("ann 1", 2)])
    assert len(store) == 0
    assert store.get("ann 1") is None
