"""Scopes: told apart whatever characters they have, listed with what is in them, and named where one is not there."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from smolagents_memory import EnhancedAgentMemory, SqlStore, UnsupportedValueError
from smolagents_memory.stores.rows import scope_name


ODD = st.text(st.sampled_from('a1"{}:,\\\0é\u0301e\ud83d\ude00😀\u200b'), max_size=4)
SCOPES = st.none() | st.dictionaries(ODD, ODD | st.integers(-2, 2) | st.booleans(), max_size=2)


def spelled(scope: Any) -> str | None:
    try:
        return scope_name(scope)
    except UnsupportedValueError:
        return None


def strictly(scope: Any) -> Any:
    return None if scope is None else {name: (type(value), value) for name, value in scope.items()}


@given(one=SCOPES, other=SCOPES)
@example(one={"user": "😀"}, other={"user": "\ud83d\ude00"})
def test_two_scopes_have_one_name_only_if_they_are_one(one: Any, other: Any) -> None:
    first, second = spelled(one), spelled(other)
    assert first is None or second is None or (first == second) == (strictly(one) == strictly(other))


def test_an_emoji_and_its_two_halves_are_not_one_scope() -> None:
    emoji = "\N{GRINNING FACE}"
    assert scope_name({"user": emoji})
    with pytest.raises(UnsupportedValueError, match="halves"):
        scope_name({"user": "\ud83d\ude00"})
    with pytest.raises(UnsupportedValueError, match="halves"):
        scope_name({"\ud83d\ude00": "u"})
    assert scope_name({"user": "\ud83d"}) != scope_name({"user": "\ude00"})  # a name that was cut, as 0.1.0 kept it


@pytest.mark.parametrize(
    "scope",
    [
        "u1",
        ["u1"],
        {"user": None},
        {"user": 1.0},
        {"user": float("nan")},
        {"user": b"u"},
        {"user": ["u"]},
        {"user": {"id": "u"}},
        {1: "u"},
        {"user": 10**5000},
    ],
)
def test_what_is_no_scope_is_refused_in_our_words(scope: Any, tmp_path: Any) -> None:
    for build in (
        lambda: EnhancedAgentMemory(tmp_path, scope=scope, vector=False),
        lambda: SqlStore(None, scope=scope),
    ):
        with pytest.raises(UnsupportedValueError, match="scope"):
            build()


def test_values_that_python_holds_for_equal_are_scopes_of_their_own() -> None:
    class User(IntEnum):
        ONE = 1

    assert len({scope_name({"user": value}) for value in (1, True, "1", "true", "١")}) == 5
    assert scope_name({"user": User.ONE}) == scope_name({"user": 1})
    assert scope_name({"user": "jose\u0301"}) != scope_name({"user": "josé"})
    assert scope_name({}) != scope_name(None)


def test_odd_scopes_keep_their_memories_apart(url: str) -> None:
    odd = ["😀", "\ud83d", "nul\0", "nul", 1, "1", True, "é", "e\u0301", ""]
    for number, user in enumerate(odd):
        with EnhancedAgentMemory(url, scope={"user": user}, vector=False) as memory:
            memory.remember(f"the number is {number}", key="k")
    for number, user in enumerate(odd):
        with EnhancedAgentMemory(url, scope={"user": user}, vector=False) as memory:
            assert [hit.value for hit in memory.recall("number")] == [f"the number is {number}"]


def test_a_scope_without_memories_is_not_listed(tmp_path: Any) -> None:
    for user in ("ann", "bob"):
        with EnhancedAgentMemory(tmp_path, vector=False, scope={"user": user}) as memory:
            memory.remember("a text", key="k")
    with EnhancedAgentMemory(tmp_path, vector=False, scope={"user": "ann"}) as memory:
        memory.archive("k")
        assert [(each.scope, each.archived) for each in memory.scopes()] == [
            ({"user": "ann"}, 1),
            ({"user": "bob"}, 0),
        ]
        memory.clear()
        assert [each.scope for each in memory.scopes()] == [{"user": "bob"}]


@pytest.mark.parametrize("emptied", ["clear", "forget_where"])
def test_the_name_of_a_scope_that_was_emptied_is_gone_after_purge(tmp_path: Any, emptied: str) -> None:
    """It may be that of a person."""
    with EnhancedAgentMemory(tmp_path, vector=False, scope={"user": "bobqqq"}) as memory:
        memory.remember("a text", key="k")
        memory.recall("a text")
        memory.clear() if emptied == "clear" else memory.forget_where({"key": "k"})
        memory.purge()
        assert memory.scopes() == []
        assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"bobqqq" in path.read_bytes()]
        memory.remember("another text")
        assert memory.recall("another text")[0].value == "another text"
