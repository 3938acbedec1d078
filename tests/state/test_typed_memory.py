"""TypedMemory: one value that many read and change, and nobody loses anything."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from smolagents import CodeAgent, ToolCallingAgent

from smolagents_memory import StateTool, TypedMemory, decode_value, encode_value
from smolagents_memory.examples import CustomerSupportMemory, SupportCase
from smolagents_memory.testing import ScriptedModel, call, code, same


@dataclass
class Place:
    city: str
    visits: int = 0


@dataclass
class Journey:
    places: list[Place] = field(default_factory=list)
    began: datetime | None = None
    tags: tuple[str, ...] = ()
    notes: dict[str, Any] = field(default_factory=dict)


class Basket(BaseModel):
    items: dict[str, int] = {}


# -- many at once --------------------------------------------------------------------------------------------------


def test_64_threads_with_1000_updates_each_lose_none() -> None:
    """Read-modify-write in each: any interleaving would lose one."""
    memory = TypedMemory({"count": 0, "last": -1})
    heard: list[int] = []
    memory.on("state_changed", lambda event: heard.append(event.revision))

    def work(worker: int) -> None:
        for _ in range(1000):
            memory.update(lambda state: state.update(count=state["count"] + 1, last=worker))

    _in_threads(64, work)
    assert memory.get()["count"] == 64_000
    assert memory.revision == 64_000
    assert heard == list(range(1, 64_001))


def _in_threads(count: int, work: Any) -> None:
    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=100)
    assert not any(thread.is_alive() for thread in threads)


def test_readers_never_see_half_a_change() -> None:
    memory = TypedMemory({"a": 0, "b": 0})
    stop, torn = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            state = memory.get()
            if state["a"] != state["b"]:
                torn.append(state)
            time.sleep(0.0001)

    readers = [threading.Thread(target=read, daemon=True) for _ in range(4)]
    for reader in readers:
        reader.start()

    def both(state: dict[str, int]) -> None:
        state["a"] += 1
        time.sleep(0.0001)
        state["b"] += 1

    for _ in range(300):
        memory.update(both)
    stop.set()
    for reader in readers:
        reader.join(timeout=10)
    assert torn == []


# -- copies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [{"a": [1]}, [[1]], Journey([Place("Rome")]), Basket(items={"x": 1}), 7, "text", None]
)
def test_what_goes_in_and_out_are_copies(value: Any) -> None:
    memory: TypedMemory[Any] = TypedMemory(value)
    assert same(memory.get(), value)
    for held in (memory.get(), memory.update(lambda v: v)):
        if isinstance(held, dict):
            held["a"].append(2)
        elif isinstance(held, list):
            held[0].append(2)
        elif isinstance(held, Journey):
            held.places[0].visits = 9
        elif isinstance(held, Basket):
            held.items["y"] = 1
    assert same(memory.get(), value)


def test_what_a_change_keeps_hold_of_cannot_change_the_memory_later() -> None:
    held: list[dict[str, int]] = []
    memory = TypedMemory({"a": 1})
    memory.update(held.append)
    held[0]["a"] = 2
    memory.set(held[0])
    held[0]["a"] = 3
    assert memory.get() == {"a": 2}


# -- changes that go wrong -----------------------------------------------------------------------------------------


def test_a_change_that_raises_changes_nothing() -> None:
    memory = TypedMemory({"a": 1})

    def half(state: dict[str, int]) -> None:
        state["a"] = 2
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        memory.update(half)
    assert memory.get() == {"a": 1}
    assert memory.revision == 0
    memory.set({"a": 3})
    assert memory.get() == {"a": 3}


@pytest.mark.parametrize(
    ("memory", "change"),
    [
        (TypedMemory({"a": 1}), lambda state: state.pop("a")),
        (TypedMemory([1]), lambda state: state.pop()),
        (TypedMemory(Place("Rome")), lambda state: "Rome"),
        (TypedMemory(Basket()), lambda state: {"items": {}}),
        (TypedMemory[list[int]]([]), lambda state: {}),
    ],
)
def test_a_value_of_another_type_is_refused(memory: TypedMemory[Any], change: Any) -> None:
    """Most often a function that returns what it removed."""
    before = memory.get()
    with pytest.raises(TypeError, match="left as it was"):
        memory.update(change)
    assert same(memory.get(), before)


def test_numbers_may_change_their_kind_and_a_subclass_is_fine() -> None:
    number: TypedMemory[float] = TypedMemory(1)
    number.set(0.5)
    assert number.get() == 0.5

    @dataclass
    class Capital(Place):
        pass

    place = TypedMemory[Place](Capital("Rome"))
    place.set(Place("Milan"))
    assert place.get() == Place("Milan")


def test_an_update_inside_an_update_is_refused_for_it_would_be_lost() -> None:
    memory = TypedMemory({"a": 1})
    with pytest.raises(RuntimeError, match="inside update"):
        memory.update(lambda state: memory.set({"a": 2}))
    assert memory.get() == {"a": 1}
    memory.update(lambda state: state.update(b=memory.get()["a"]))
    assert memory.get() == {"a": 1, "b": 1}


# -- hooks ---------------------------------------------------------------------------------------------------------


def test_the_guides_names_hold() -> None:
    memory = TypedMemory({"a": 1})
    seen: list[Any] = []
    off = memory.add_memory_hook(lambda owner, value: seen.append((owner, value)))
    current = memory.get_memory()
    current["a"] = 2
    memory.set_memory(current)
    off()
    memory.set_memory({"a": 3})
    assert seen == [(memory, {"a": 2})]


def test_a_hook_that_raises_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    memory, seen = TypedMemory(0), []
    memory.add_memory_hook(lambda owner, value: 1 / 0)
    memory.add_memory_hook(lambda owner, value: seen.append(value))
    with caplog.at_level(logging.ERROR, logger="smolagents_memory"):
        memory.set(1)
    assert (memory.get(), seen) == (1, [1])
    assert "ZeroDivisionError" in caplog.text


def test_hooks_that_change_the_memory_hear_each_other_and_never_themselves() -> None:
    """Two hooks that each answer every change with a change: each hears the other's, and it comes to an end."""
    memory: TypedMemory[list[str]] = TypedMemory([])
    heard: dict[str, list[Any]] = {"a": [], "b": [], "c": []}

    def hook(name: str) -> Any:
        def answer(owner: TypedMemory[list[str]], value: list[str]) -> None:
            heard[name].append(value)
            owner.update(lambda log: log.append(name))

        return answer

    memory.add_memory_hook(hook("a"))
    memory.add_memory_hook(hook("b"))
    memory.add_memory_hook(lambda owner, value: heard["c"].append(value))
    memory.set(["x"])
    assert sorted(memory.get()) == ["a", "a", "b", "b", "x"]
    assert [len(value) for value in heard["c"]] == [1, 2, 3, 4, 5]


def test_a_hook_that_waits_for_another_thread_does_not_deadlock() -> None:
    """The other thread reads and changes the memory meanwhile."""
    memory = TypedMemory(0)
    results: list[int] = []

    def hook(owner: TypedMemory[int], value: int) -> None:
        if value == 1:
            with ThreadPoolExecutor(1) as pool:
                results.append(pool.submit(lambda: owner.update(lambda n: n + 10)).result(timeout=10))
                results.append(pool.submit(owner.get).result(timeout=10))

    memory.add_memory_hook(hook)
    memory.set(1)
    assert results == [11, 11]


def test_hooks_under_load_neither_deadlock_nor_miss_anything() -> None:
    memory, seen = TypedMemory(0), []
    memory.add_memory_hook(lambda owner, value: 1 / 0 if value % 50 == 0 else owner.get())
    memory.add_memory_hook(lambda owner, value: seen.append(value))
    logging.getLogger("smolagents_memory").setLevel(logging.CRITICAL)
    try:
        _in_threads(8, lambda _: [memory.update(lambda n: n + 1) for _ in range(100)])
    finally:
        logging.getLogger("smolagents_memory").setLevel(logging.NOTSET)
    assert sorted(seen) == list(range(1, 801))


def test_a_weak_listener_goes_with_its_object() -> None:
    class Watcher:
        def __init__(self) -> None:
            self.seen: list[int] = []

        def changed(self, event: Any) -> None:
            self.seen.append(event.value)

    memory, watcher = TypedMemory(0), Watcher()
    memory.on("state_changed", watcher.changed, weak=True)
    memory.set(1)
    assert watcher.seen == [1]
    del watcher
    memory.set(2)
    assert not memory.events.has_listeners("state_changed")


def test_a_hook_may_spoil_its_copy() -> None:
    memory, seen = TypedMemory({"a": 1}), []
    memory.add_memory_hook(lambda owner, value: value.clear())
    memory.add_memory_hook(lambda owner, value: seen.append(value))
    memory.set({"a": 2})
    assert (memory.get(), seen) == ({"a": 2}, [{"a": 2}])


# -- as data -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        Journey([Place("Rome", 2)], datetime(2026, 1, 2, tzinfo=timezone.utc), ("a", "b"), {"x": (1, {2}), "y": b"z"}),
        Basket(items={"x": 1}),
        {"a": (1, 2), 3: None},
        [1.5, {"b"}],
        SupportCase("ada"),
        7,
    ],
)
def test_it_goes_to_data_and_back_through_the_codec(value: Any) -> None:
    """Dataclasses and models by their type, tuples, sets, bytes and dates by the codec."""
    memory: TypedMemory[Any] = TypedMemory(value)
    other: TypedMemory[Any] = TypedMemory(type(value)() if not isinstance(value, int) else 0)
    assert same(other.restore(decode_value(encode_value(memory.dump()))), value)


def test_data_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    memory = TypedMemory(Place("Rome"))
    with pytest.raises(ValueError, match="visits"):
        memory.restore({"city": "Rome", "visits": "many"})
    with pytest.raises(ValueError, match=r"no \['country'\]; its fields are \['city', 'visits'\]"):
        memory.merge({"country": "Italy"})
    with pytest.raises(TypeError, match="no fields"):
        TypedMemory([1]).merge({"a": 1})
    assert memory.get() == Place("Rome")
    assert memory.revision == 0


def test_the_named_type_is_checked_deeper_than_the_first_value_could_be() -> None:
    with pytest.raises(ValueError, match="valid integer"):
        TypedMemory[list[int]]([]).restore(["x"])
    assert TypedMemory([]).restore(["x"]) == ["x"]


# -- in the hands of an agent --------------------------------------------------------------------------------------


def test_a_code_agent_reads_and_writes_the_state() -> None:
    case = CustomerSupportMemory()
    case.start_support_session("ada", "billing")
    script = [
        code("was = support_case()['issue_category']\nsupport_case(changes={'issue_category': was + '/refund'})"),
        code("final_answer(support_case()['issue_category'])"),
    ]
    agent = CodeAgent([StateTool(case, writable=True)], ScriptedModel(script), verbosity_level=-1)
    assert agent.run("Classify it.") == "billing/refund"
    assert case.get().issue_category == "billing/refund"
    assert "customer_id" in agent.system_prompt


def test_a_tool_calling_agent_is_told_why_a_change_was_refused() -> None:
    case = CustomerSupportMemory()
    script = [
        call("support_case", changes={"escalation_level": "very high"}),
        call("support_case", changes={"colour": "red"}),
        call("support_case", changes={"escalation_level": 3}),
        call("support_case"),
        call("final_answer", answer="done"),
    ]
    agent = ToolCallingAgent([StateTool(case, writable=True)], ScriptedModel(script), verbosity_level=-1)
    agent.run("Escalate.")
    errors = [str(step.error) for step in agent.memory.steps[1:3]]
    assert "valid integer" in errors[0]
    assert "no ['colour']" in errors[1]
    assert case.get().escalation_level == 3
    assert "'escalation_level': 3" in agent.memory.steps[4].observations


def test_a_tool_that_may_only_read_cannot_write() -> None:
    memory = TypedMemory([1, 2], name="numbers")
    tool = StateTool(memory)
    assert tool.inputs == {}
    assert tool() == [1, 2]
    with pytest.raises(PermissionError, match="only be read"):
        tool.forward(changes={"value": [3]})
    writing = StateTool(memory, writable=True)
    assert writing(changes={"value": [3]}) == [3]
    with pytest.raises(ValueError, match="as a whole"):
        writing(changes={"first": 3})


def test_a_tool_with_a_live_state_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be saved"):
        StateTool(TypedMemory(0)).save(str(tmp_path))


# -- the example ---------------------------------------------------------------------------------------------------


def test_the_support_desk() -> None:
    memory = CustomerSupportMemory()
    ticket = memory.start_support_session("ada", "billing")
    memory.add_interaction_note("was charged twice")
    assert memory.escalate("needs a refund") == 2
    with pytest.raises(ValueError, match="from 1 to 5"):
        memory.resolve("refunded", satisfaction=6)
    assert memory.get_support_status()["resolution_status"] == "open"
    memory.resolve("refunded", satisfaction=5)
    assert memory.get_support_status() == {
        "customer_id": "ada",
        "ticket_id": ticket,
        "issue_category": "billing",
        "resolution_status": "resolved",
        "escalation_level": 2,
        "interaction_count": 4,
        "customer_satisfaction": 5,
    }


def test_two_desks_escalate_at_once_and_no_level_is_lost() -> None:
    memory = CustomerSupportMemory()
    _in_threads(8, lambda _: [memory.escalate("again") for _ in range(25)])
    assert memory.get().escalation_level == 201
    assert memory.get_support_status()["interaction_count"] == 200


# -- types ---------------------------------------------------------------------------------------------------------

_TYPED = """
from typing_extensions import assert_type
from smolagents_memory.examples import CustomerSupportMemory, SupportCase
from smolagents_memory.state import TypedMemory

counts = TypedMemory({"visits": 0})
assert_type(counts, TypedMemory[dict[str, int]])
assert_type(counts.get(), dict[str, int])
assert_type(counts.update(lambda c: {**c, "visits": c["visits"] + 1}), dict[str, int])
names = TypedMemory[list[str]]([])
assert_type(names.get_memory(), list[str])
assert_type(names.restore(["x"]), list[str])
case = CustomerSupportMemory()
assert_type(case.get(), SupportCase)
assert_type(case.update(lambda c: c.note("x")), SupportCase)
assert_type(case.escalate("x"), int)
"""
_WRONG = """
names.set(["x", 1])
counts.set([])
case.update(lambda c: "resolved")
names.update(lambda n: n.pop())
"""


@pytest.mark.slow
def test_the_type_checker_knows_what_is_in_it(tmp_path: Path) -> None:
    """And each of four mistakes is one."""
    api = pytest.importorskip("mypy.api", reason="needs mypy")
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(_TYPED, encoding="utf-8")
    wrong.write_text(_TYPED + _WRONG, encoding="utf-8")
    options = ["--strict", "--config-file=", "--cache-dir", str(tmp_path / "cache"), "--follow-imports=silent"]
    out, _, status = api.run([*options, str(right), str(wrong)])
    errors = [line for line in out.splitlines() if ": error:" in line]
    assert [line for line in errors if "right.py" in line] == []
    mistaken = {int(line.split(":")[1]) for line in errors}
    first = (_TYPED + _WRONG).splitlines().index('names.set(["x", 1])') + 1
    assert mistaken == {first, first + 1, first + 2, first + 3}
    assert status == 1
