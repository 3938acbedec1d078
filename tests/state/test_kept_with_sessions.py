"""TypedMemory kept with a session: every change is there at once, and after a kill."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from smolagents import CodeAgent, ToolCallingAgent

from smolagents_memory import (
    MemoryLossWarning,
    Session,
    SessionError,
    SessionManager,
    StateTool,
    TypedMemory,
)
from smolagents_memory.examples import CustomerSupportMemory
from smolagents_memory.testing import ScriptedModel, call, code, same


@dataclass
class Trip:
    city: str = ""
    notes: list[str] = field(default_factory=list)
    seen: set[tuple[int, int]] = field(default_factory=set)
    photo: bytes = b""


class Order(BaseModel):
    number: int = 0
    trips: list[Trip] = []


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'memory.db'}"


def agent(*script: Any, tools: Any = ()) -> CodeAgent:
    return CodeAgent(list(tools), ScriptedModel([code(each) for each in script]), verbosity_level=-1)


def later(url: str, state: TypedMemory[Any]) -> Any:
    """What another process finds under the name of the state."""
    with Session("s", url).attach(agent(), take_over=True) as session:
        session.keep(state)
        return state.get()


CASES: dict[str, tuple[Any, Any, Any]] = {
    "dataclass": (Trip, lambda: Trip(), Trip("Rome", ["a"], {(1, 2)}, bytes(range(256)) * 8)),
    "model": (Order, lambda: Order(), Order(number=7, trips=[Trip("Oslo", seen={(0, 0)})])),
    "dict": (dict, dict, {"a": [1, (2, 3)], "lone \ud800": float("inf"), "photo": b"\x00" * 5000}),
    "list": (list[Trip], list, [Trip("Rome"), Trip("Oslo", ["b"])]),
    "dict of models": (dict[str, Order], dict, {"x": Order(number=3)}),
    "number": (int, lambda: 0, 10**30),
}


@pytest.mark.parametrize("name", CASES)
def test_a_change_is_there_in_the_moment_it_was_made(name: str, url: str) -> None:
    """Read from a copy of the database while the session is attached, and by who attaches it next."""
    kind, initial, value = CASES[name]
    state = TypedMemory[kind](initial(), name=name)
    with Session("s", url).attach(agent()) as session:
        session.keep(state)
        state.set(value)
        copy = f"{url}.copy"
        SessionManager(url).backup(copy.removeprefix("sqlite:///"))  # as it is on disk in this moment
        assert same(later(copy, TypedMemory[kind](initial(), name=name)), value)
    assert same(later(url, TypedMemory[kind](initial(), name=name)), value)


def test_two_states_of_one_session_are_kept_apart(url: str) -> None:
    trip, visits = TypedMemory(Trip(), name="trip"), TypedMemory(0, name="visits")
    with Session("s", url).attach(agent("final_answer(1)")) as session:
        session.keep(trip)
        session.keep(visits)
        visits.set(3)
        trip.merge({"city": "Rome"})
        visits.update(lambda n: n + 1)
    assert later(url, TypedMemory(Trip(), name="trip")).city == "Rome"
    assert later(url, TypedMemory(0, name="visits")) == 4


def test_a_name_is_kept_once(url: str) -> None:
    """Both have the default name here: the second would overwrite the first."""
    first, second = TypedMemory([1]), TypedMemory([2])
    with Session("s", url).attach(agent()) as session:
        session.keep(first)
        first.set([10])
        with pytest.raises(SessionError, match="Give each a name"):
            session.keep(second)
    assert later(url, TypedMemory([0])) == [10]


@pytest.mark.parametrize("state", [Trip(), {"city": "Rome"}, None, TypedMemory])
def test_what_is_no_typed_memory_is_refused(state: Any, url: str) -> None:
    with (
        Session("s", url).attach(CodeAgent(tools=[], model=ScriptedModel([]))) as session,
        pytest.raises(SessionError, match=r"keep takes a TypedMemory"),
    ):
        session.keep(state)


def test_without_an_agent_it_cannot_be_kept(url: str) -> None:
    with pytest.raises(SessionError, match="attach it, then keep"):
        Session("s", url).keep(TypedMemory(0))


def test_what_does_not_fit_any_more_is_refused_and_stays(url: str) -> None:
    """The type has changed between two versions of the program."""
    with Session("s", url).attach(agent()) as session:
        session.keep(state := TypedMemory({"a": 1}))
        state.set({"a": 2})
    with Session("s", url).attach(agent()) as session:
        other = TypedMemory(Trip())
        with pytest.raises(SessionError, match="does not fit"):
            session.keep(TypedMemory(7))
        session.flush()
        assert other.get() == Trip()
    assert later(url, TypedMemory({"a": 1})) == {"a": 2}


def test_what_would_come_back_as_something_else_is_said_once(url: str) -> None:
    """A plain dict does not name the class of what is in it; a type that does brings it back."""
    loose, exact = TypedMemory({}, name="loose"), TypedMemory[dict[str, Trip]]({}, name="exact")
    with Session("s", url).attach(agent()) as session:
        session.keep(loose)
        session.keep(exact)
        with warnings.catch_warnings():
            warnings.simplefilter("error", MemoryLossWarning)  # even so nothing is lost but the class
            exact.set({"a": Trip("Rome")})
        with pytest.warns(MemoryLossWarning, match="'loose' holds objects whose classes"):
            loose.set({"a": Trip("Rome")})
        with warnings.catch_warnings(record=True) as said:
            loose.set({"b": Trip("Oslo")})
        assert not said
    assert later(url, TypedMemory[dict[str, Trip]]({}, name="exact")) == {"a": Trip("Rome")}
    assert later(url, TypedMemory[dict[str, Trip]]({}, name="loose")) == {"b": Trip("Oslo")}


def test_what_cannot_be_kept_is_said(url: str) -> None:
    state = TypedMemory[dict[str, Any]]({})
    with Session("s", url).attach(agent()) as session:
        session.keep(state)
        with pytest.warns(MemoryLossWarning, match="'state' holds what cannot be kept"):
            state.set({"lock": type("Own", (), {})(), "fine": 1})
    assert later(url, TypedMemory({}))["fine"] == 1


@pytest.mark.parametrize("kind", ["code", "calls"])
def test_what_the_agent_writes_during_its_run_is_kept_with_that_step(kind: str, url: str) -> None:
    """Looked at on disk by the model, as it is asked for the step after."""
    trip = TypedMemory(Trip(), name="trip")
    on_disk: list[str] = []

    def look(messages: Any) -> Any:
        copy = f"{url}.{len(on_disk)}"
        SessionManager(url).backup(copy.removeprefix("sqlite:///"))
        on_disk.append(later(copy, TypedMemory(Trip(), name="trip")).city)
        return code("final_answer(trip()['city'])") if kind == "code" else call("final_answer", answer="Oslo")

    tool = StateTool(trip, writable=True)
    script = [
        code("trip(changes={'city': 'Oslo'})") if kind == "code" else call("trip", changes={"city": "Oslo"}),
        look,
    ]
    made = (CodeAgent if kind == "code" else ToolCallingAgent)([tool], ScriptedModel(script), verbosity_level=-1)
    with Session("s", url).attach(made) as session:
        session.keep(trip)
        assert made.run("Where to?", reset=False) == "Oslo"
    assert on_disk == ["Oslo"]
    assert later(url, TypedMemory(Trip(), name="trip")).city == "Oslo"


def test_it_outlives_resets_forks_and_what_was_saved_over_it(url: str) -> None:
    """`run` resets the steps; the state is the session's."""
    state = TypedMemory(0)
    mine = agent("final_answer(1)", "final_answer(2)")
    with Session("s", url).attach(mine) as session:
        session.keep(state)
        state.set(5)
        mine.run("One")
        mine.run("Two")
        forked = session.fork("forked")
    SessionManager(url).save_session(mine, "s")
    assert later(url, TypedMemory(0)) == 5
    with forked.attach(agent()) as session:
        session.keep(other := TypedMemory(0))
        assert other.get() == 5
        other.set(6)
    assert later(url, TypedMemory(0)) == 5


def test_after_the_session_is_let_go_a_state_changes_alone(url: str) -> None:
    state = TypedMemory(0)
    with Session("s", url).attach(agent()) as session:
        session.keep(state)
        state.set(1)
    state.set(2)
    assert later(url, TypedMemory(0)) == 1


def test_64_threads_change_it_while_the_session_keeps_it(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Beside an agent at work. What is kept at the end is the last value, and no update waits for its own write."""
    state, big = TypedMemory[dict[str, int]]({}, name="counts"), TypedMemory(b"", name="big")
    mine = agent(*["x = 1"] * 5, "final_answer(x)")
    barrier = threading.Barrier(65)

    def count(counts: dict[str, int], worker: str) -> None:
        for name in ("all", worker):
            counts[name] = counts.get(name, 0) + 1

    def work(worker: int) -> None:
        barrier.wait()
        for each in range(30):
            state.update(lambda counts: count(counts, str(worker)))
            if each % 10 == 0:
                big.set(bytes([worker]) * 2000)

    with Session("s", url, durability="process").attach(mine) as session, caplog.at_level(logging.ERROR):
        session.keep(state)
        session.keep(big)
        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(64)]
        for thread in threads:
            thread.start()
        barrier.wait()
        assert mine.run("Work", reset=False) == 1
        for thread in threads:
            thread.join(60)
        last, last_big = state.get(), big.get()
    assert not caplog.records
    assert last == {"all": 64 * 30, **{str(worker): 30 for worker in range(64)}}
    assert later(url, TypedMemory[dict[str, int]]({}, name="counts")) == last
    assert later(url, TypedMemory(b"", name="big")) == last_big
    assert len(Session("s", url).steps()) == 7


KILLED = """
import os, signal, sys
from dataclasses import dataclass, field
from smolagents import CodeAgent
from smolagents_memory import Session, StateTool, TypedMemory
from smolagents_memory.examples import CustomerSupportMemory
from smolagents_memory.testing import ScriptedModel, code

case, visits, script = CustomerSupportMemory(), TypedMemory([], name="visits"), sys.argv[2]

def answer(messages):
    visits.update(lambda seen: seen + ["asked"])
    if script == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return code("final_answer(state()['escalation_level'])")

said = [code("state(changes={'issue_category': 'billing'})"), answer] if script == "die" else [answer]
agent = CodeAgent([StateTool(case, writable=True, name="state")], ScriptedModel(said), verbosity_level=-1)
with Session("s", sys.argv[1]).attach(agent) as session:
    session.keep(case)
    session.keep(visits)
    if script == "die":
        case.start_support_session("ada", "login")
        case.escalate("angry")
        agent.run("Help.", reset=False)
    print(session.resume(agent), case.get().issue_category, case.get().customer_id, visits.get())
"""


@pytest.mark.slow
def test_states_come_back_in_a_new_process_after_sigkill(url: str, tmp_path: Path) -> None:
    """Killed while the model was at work on its second step; the resumed run reads and writes the same states."""
    path = tmp_path / "desk.py"
    path.write_text(KILLED, encoding="utf-8")

    def process(script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, path, url, script], capture_output=True, text=True, check=False, timeout=60
        )

    assert (killed := process("die")).returncode == -signal.SIGKILL, killed.stderr
    case = CustomerSupportMemory()
    level = later(url, case).escalation_level
    assert level == 2
    assert (case.get().issue_category, case.get().customer_id) == ("billing", "ada")
    done = process("go on")
    assert done.stdout == f"{level} billing ada ['asked', 'asked']\n", done.stderr
