"""Values that no message can show, paths that no file can have: our own errors, bounded, or an answer; no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from smolagents_memory import (
    EnhancedAgentMemory,
    ForgetTool,
    InMemoryStore,
    ObservedMemory,
    Place,
    PlaceError,
    RecallTool,
    RememberTool,
    Session,
    SessionManager,
    SqlStore,
    StepTool,
    UnsupportedValueError,
    decode_step,
    find_steps,
    load_memory,
    register_step,
    register_value,
    save_memory,
)
from smolagents_memory._brief import brief
from smolagents_memory._errors import SmolagentsMemoryError


def nested(kind: Callable[[Any], Any], depth: int) -> Any:
    value: Any = kind(1)
    for _ in range(depth):
        value = kind(value)
    return value


class Silent:
    def __repr__(self) -> str:
        raise RuntimeError("no words")

    __str__ = __repr__


class Sly(str):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("like nothing else")

    __hash__ = str.__hash__


class Unequal:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("like nothing else")

    __hash__ = object.__hash__


circular: list[Any] = [1]
circular.append(circular)
ODD = {
    "deep": nested(lambda inner: [inner], 5_000),
    "deeper": nested(lambda inner: [inner], 50_000),
    "deep mapping": nested(lambda inner: {"a": inner}, 50_000),
    "silent": Silent(),
    "unequal": Unequal(),
    "circular": circular,
    "a number of digits": 10**5000,
}


@pytest.fixture(params=ODD)
def odd(request: pytest.FixtureRequest) -> Any:
    return ODD[request.param]


def test_whatever_it_is_given_a_tool_answers(odd: Any) -> None:
    memory = EnhancedAgentMemory(vector=False)
    for each in (odd, Sly("sly")):
        said = [
            *(RecallTool(memory).forward("pump", **{name: each}) for name in ("k", "since", "until", "kind")),
            RecallTool(memory).forward(each),
            RememberTool(memory).forward("the key of the house", key=each),
            RememberTool(memory).forward("the key of the house", importance=each),
            RememberTool(memory).forward(each),
            ForgetTool(memory).forward(each),
            StepTool(ObservedMemory("")).forward(each),
            StepTool(ObservedMemory("")).forward(1, start=each),
        ]
        assert all(isinstance(answer, str) and len(answer) < 1000 for answer in said)


CALLS: dict[str, Callable[[Any], Any]] = {
    "remember": lambda given: EnhancedAgentMemory(vector=False).remember(given),
    "key": lambda given: EnhancedAgentMemory(vector=False).remember("a text", key=given),
    "importance": lambda given: EnhancedAgentMemory(vector=False).remember("a text", importance=given),
    "source": lambda given: EnhancedAgentMemory(vector=False).remember("a text", source=given),
    "kind": lambda given: EnhancedAgentMemory(vector=False).remember("a text", kind=given),
    "origin": lambda given: EnhancedAgentMemory(vector=False).remember("a text", origin=given),
    "trust": lambda given: EnhancedAgentMemory(vector=False).remember_many([{"text": "a text", "trust": given}]),
    "document": lambda given: EnhancedAgentMemory(vector=False).remember_document(given),
    "a document's path": lambda given: EnhancedAgentMemory(vector=False).remember_document(path=given),
    "update": lambda given: EnhancedAgentMemory(vector=False).update("k", text=given),
    "get": lambda given: EnhancedAgentMemory(vector=False).get(given),
    "pin": lambda given: EnhancedAgentMemory(vector=False).pin(given),
    "trusted": lambda given: EnhancedAgentMemory(vector=False, trusted_tools=[given]),
    "recall_on": lambda given: EnhancedAgentMemory(vector=False, recall_on=given),
    "a memory's session": lambda given: EnhancedAgentMemory(vector=False, session=given),
    "message": lambda given: EnhancedAgentMemory(vector=False).add_message(given, "hi"),
    "message's text": lambda given: EnhancedAgentMemory(vector=False).add_message("user", given),
    "archived": lambda given: EnhancedAgentMemory(vector=False).items(archived=given),
    "archived ones": lambda given: EnhancedAgentMemory(vector=False).count(archived=given),
    "place": Place,
    "durability": lambda given: Place(durability=given),
    "seal": lambda given: Place(seal=given),
    "session": lambda given: Session("s", given),
    "a step's record": lambda given: decode_step(given),
    "a step's version": lambda given: decode_step({"step": "TaskStep", "version": given, "fields": {}}),
    "store's key": lambda given: SqlStore(None).add(given, "v"),
    "store's meta": lambda given: SqlStore(None).add("k", "v", [given]),  # type: ignore[arg-type]
    "store's items": lambda given: SqlStore(None).add_many([given]),
    "items in RAM": lambda given: InMemoryStore().add_many([given]),
    "a key in RAM": lambda given: InMemoryStore().get(given),
    "pattern": lambda given: find_steps([], pattern=given),
    "since": lambda given: find_steps([], since=given if given != 10**5000 else [given]),  # type: ignore[list-item]
    "backup": lambda given: SessionManager(None).backup(given),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("call", CALLS)
def test_what_cannot_be_shown_is_refused_in_our_words(call: str, odd: Any) -> None:
    if isinstance(odd, Unequal) and call == "since":
        odd = [odd]
    with pytest.raises(SmolagentsMemoryError) as raised:
        CALLS[call](odd)
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize("register", [register_value, register_step])
def test_what_is_no_class_is_no_class(register: Any, odd: Any) -> None:
    with pytest.raises(TypeError, match="takes a"):
        register(odd)


@pytest.mark.slow
@pytest.mark.parametrize("make", [InMemoryStore, lambda: SqlStore(None)])
@pytest.mark.parametrize("name", ["deep", "deeper", "deep mapping", "circular", "silent"])
def test_a_store_keeps_what_is_deep_or_holds_itself_or_refuses_it(make: Any, name: str) -> None:
    store = make()
    value = ["pump", ODD[name]]
    if name == "silent":
        with pytest.raises(UnsupportedValueError):
            store.add("k", value)
        assert len(store) == 0
        return
    store.add("k", value)
    assert store.get("k")[0] == "pump"
    assert [hit.key for hit in store.search("pump")] == ["k"]
    if name == "circular":
        inner = store.get("k")[1]
        assert inner[1] is inner


PATHS = {"nul": "a\0b", "half a character": "\ud800", "long": "a" * 5000, "number": 5}


@pytest.mark.parametrize("named", PATHS)
def test_what_can_be_no_files_name_is_refused(named: str, tmp_path: Path) -> None:
    path: Any = PATHS[named]
    SqlStore(tmp_path / "place").add("k", "v")
    manager, session = SessionManager(tmp_path / "place"), Session("s", tmp_path / "place")
    for use in (
        manager.backup,
        manager.restore_backup,
        session.export,
        session.import_,
        load_memory,
        lambda given: save_memory(ObservedMemory(""), given),
        lambda given: EnhancedAgentMemory(vector=False).remember_document(path=given),
    ):
        with pytest.raises(SmolagentsMemoryError) as raised:
            use(path)
        assert len(str(raised.value)) < 1000


@pytest.mark.parametrize("use", [Place, SqlStore, EnhancedAgentMemory, SessionManager])
def test_a_name_that_is_too_long_makes_no_long_message(use: Any) -> None:
    for long in ("a" * 3_000_000, "postgresql://ann:" + "s3cret" * 1000 + "@host/name"):
        with pytest.raises(PlaceError) as raised:
            use(long)
        assert len(str(raised.value)) < 1000
        assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("older_than", ["x", None, 10**400, float("nan"), -1, -0.001, [], Silent()])
def test_what_is_no_time_expires_nothing(older_than: Any, tmp_path: Path) -> None:
    with pytest.raises(SmolagentsMemoryError, match="older_than"):
        SessionManager(tmp_path / "place").expire(older_than)


@pytest.mark.parametrize("since", [float("inf"), float("nan"), -1e300, "yesterday", 10**400])
def test_what_is_no_date_finds_nothing(since: Any) -> None:
    with pytest.raises(UnsupportedValueError, match="since is a date"):
        find_steps([], since=since)


def test_a_pattern_that_is_none_is_named() -> None:
    with pytest.raises(UnsupportedValueError, match="regular expression"):
        find_steps([], pattern="(")


@pytest.mark.parametrize("items", [5, None, [5], ["ab"], [("k",)], [("k", "v", {}, 4)]])
@pytest.mark.parametrize("make", [InMemoryStore, lambda: SqlStore(None)])
def test_what_are_no_items_are_refused(make: Any, items: Any) -> None:
    store = make()
    with pytest.raises(UnsupportedValueError):
        store.add_many(items)
    with pytest.raises(UnsupportedValueError):
        store.get_many(5)
    with pytest.raises(UnsupportedValueError):
        store.search("x", int)
    assert len(store) == 0


def test_a_role_that_there_is_not_is_named() -> None:
    memory = EnhancedAgentMemory(vector=False)
    with pytest.raises(UnsupportedValueError, match="user"):
        memory.add_message("boss", "hi")
    memory.add_message("assistant", "hi")
    assert len(memory.steps) == 1


def test_a_value_is_shown_briefly(odd: Any) -> None:
    for each in (odd, [odd] * 9, {"a": odd}, "x" * 3_000_000, b"x" * 3_000_000, dict.fromkeys(range(99), "y" * 99)):
        assert 0 < len(brief(each)) <= 200
    assert brief(["a", 1]) == "['a', 1]"
