"""Odd dates, kinds, characters and places: our own errors, in a sentence, or an answer; never somebody else's."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from smolagents_memory import (
    EnhancedAgentMemory,
    ForgetTool,
    RecallTool,
    RememberTool,
    Session,
    SessionManager,
    SessionNotFoundError,
    SqlStore,
    UnsupportedValueError,
    VectorMemoryStore,
    open_store,
)
from smolagents_memory._errors import SmolagentsMemoryError


@pytest.mark.parametrize(
    "moment",
    [
        "0001-01-01",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31",
        "9999-12-31T23:59:59.999999-12:00",
        "9" * 400 + " years",
        "1e400 days",
        "٣ days",
        "-1 days",
        "0000-00-00",
        "\ud800",
        "nul\0",
        "Z",
        "2025-13-45",
        float("nan"),
        {"a": 1},
    ],
)
def test_a_tool_answers_whatever_date_it_is_given(moment: Any) -> None:
    memory = EnhancedAgentMemory(vector=False)
    memory.remember("The staging server needs the VPN.")
    tool = RecallTool(memory)
    for which in ("since", "until"):
        answer = tool.forward("staging server", **{which: moment})
        assert "VPN" in answer or answer.startswith(("Nothing was found", f"Recall did not work: {which} must be"))
    assert "VPN" in tool("staging server", since="0001-01-01", until="9999-12-31")


@pytest.mark.parametrize("kind", ["\ud800", "nul\0", 3, ["a"], b"x"])
def test_a_kind_that_no_database_takes_is_refused(url: str, kind: Any) -> None:
    with EnhancedAgentMemory(url, vector=False) as memory:
        with pytest.raises(UnsupportedValueError, match="a kind is a text"):
            memory.remember("a text", kind=kind)
        assert memory.stats().memories == 0
        answer = RecallTool(memory).forward("a text", kind=kind)
        assert answer.startswith(("Nothing was found", "Recall did not work"))


@pytest.mark.parametrize(
    "odd", ["nul\0 in it", "\ud800", "\0", "\udfff\ud800", "\N{RIGHT-TO-LEFT OVERRIDE}x", "é" * 900]
)
def test_any_character_comes_back_or_is_refused_in_our_words(url: str, odd: str) -> None:
    with EnhancedAgentMemory(url, vector=False, scope={"user": odd[:3]}) as memory:
        key = memory.remember(f"pumps {odd} valves", key=odd, source=odd, meta={odd: odd})
        (hit,) = memory.recall(f"{odd} pumps", where={odd: odd})
        assert (hit.key, hit.value, hit.source, hit.meta) == (odd, f"pumps {odd} valves", odd, {odd: odd})
        assert memory.feedback(key)
        memory.remember_document(f"pumps {odd}\n\n" * 3, source=odd)
        assert memory.forget_where({"source": odd}) >= 1
        for tool, given in ((RememberTool, (odd + "x", odd)), (RecallTool, (odd,)), (ForgetTool, (odd,))):
            assert isinstance(tool(memory)(*given), str)
    store = SqlStore(url)
    store.add(odd, odd, {odd: odd})
    assert (store.get(odd), store.meta(odd)) == (odd, {odd: odd})
    assert isinstance(store.search(odd), list)
    with pytest.raises(SessionNotFoundError):
        Session(odd, url).steps()


@pytest.mark.parametrize(
    "place",
    [
        "os:system://x",
        "os.system://x",
        "subprocess:run://echo",
        "postgresql+os.system://x/y",
        "sqlite+os:system:///x.db",
        "antigravity://x",
        "sqlite+antigravity:///x.db",
        "sqlite:///x.db?plugin=antigravity",
        "://",
        "a b://x",
        "\0://x",
        "postgresql://[::1/x",
        "redis://x:notaport/0",
    ],
)
def test_a_place_that_is_none_is_named_and_nothing_is_imported_by_its_name(place: str, tmp_path: Any) -> None:
    for use in (EnhancedAgentMemory, SqlStore, open_store, SessionManager, lambda given: Session("s", given)):
        with pytest.raises((SmolagentsMemoryError, ValueError)) as raised:
            use(place)
        assert isinstance(raised.value, SmolagentsMemoryError), raised.value
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    "wrong",
    [
        lambda memory: memory.remember("a text", made_of=5),
        lambda memory: memory.remember_many([{"text": "a text", "tools": 5}]),
        lambda memory: memory.remember_many(5),
        lambda memory: memory.remember_document("a text", source=5),
        lambda memory: EnhancedAgentMemory(vector=False, trusted_tools=5),
        lambda memory: EnhancedAgentMemory("x" * 300, vector=False),
        lambda memory: EnhancedAgentMemory("/dev/null", vector=False),
        lambda memory: open_store("/dev/null"),
        lambda memory: Session("s", "sqlite:///file:x?mode=memory&uri=true").steps(),
    ],
)
def test_what_is_of_the_wrong_kind_is_told_in_our_words(wrong: Any) -> None:
    memory = EnhancedAgentMemory(vector=False)
    with pytest.raises(SmolagentsMemoryError):
        wrong(memory)
    assert memory.count() == 0


def test_a_number_that_no_database_takes_is_answered() -> None:
    memory = EnhancedAgentMemory(vector=False)
    memory.remember("The staging server needs the VPN.")
    assert memory.recall("staging", 10**400)
    assert "importance is a number" in RememberTool(memory)("a text", importance=10**400)


def test_a_place_below_a_file_is_refused_in_our_words(tmp_path: Any) -> None:
    (tmp_path / "file").write_text("a file")
    for below in (tmp_path / "file" / "place", tmp_path / "file" / "memory.db"):
        for use in (
            EnhancedAgentMemory,
            lambda given: SqlStore(given).add("k", "v"),
            lambda given: Session("s", given).steps(),
            lambda given: VectorMemoryStore(path=given),
        ):
            with pytest.raises(SmolagentsMemoryError):
                use(below)


def test_what_it_was_made_of_is_a_list_of_keys() -> None:
    memory = EnhancedAgentMemory(vector=False)
    page = memory.remember("a page", origin="tool", source="web")
    assert memory.get(memory.remember("a lesson", made_of=page)).trust == 0  # type: ignore[union-attr]
    with pytest.raises(SmolagentsMemoryError, match="made_of"):
        memory.remember("another", made_of=5)  # type: ignore[arg-type]
