"""Calls of managed agents: numbered for good, one at a time, each with a memory that can be restored."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from agents import calling_agent, code_agent
from nursery import children, nursery_that_knows_the_way  # noqa: F401 — a fixture for all tests here
from racing import call_at_once, tags
from smolagents import CodeAgent, Tool

from smolagents_memory import KeepRecentSteps, Session
from smolagents_memory._listener import Listener
from smolagents_memory.testing import ScriptedModel, call, code, explain_difference
from smolagents_memory.upstream import watch


def named(name: str, script: Any, **options: Any) -> CodeAgent:
    return code_agent(script, name=name, description="Works.", planning_interval=None, **options)


def in_time(work: Callable[[], Any]) -> Any:
    """What it gives; an error if it hangs."""
    said: list[Any] = []

    def does() -> None:
        try:
            said.append(work())
        except BaseException as error:  # noqa: BLE001 — raised below
            said.append(error)

    thread = threading.Thread(target=does, daemon=True)
    thread.start()
    thread.join(30)
    assert said, "it hangs"
    if isinstance(said[0], BaseException):
        raise said[0]
    return said[0]


class Ends(Listener):
    """Looks at an agent's memory at the end of each run."""

    def __init__(self) -> None:
        self.found: list[list[Any]] = []

    def run_ends(self, run: Any) -> None:
        self.found.append(list(run.agent.memory.steps))


# -- their numbers ---------------------------------------------------------------------------------------------------


def test_a_call_is_never_written_into_an_older_one(url: str) -> None:
    worker = named("worker", [code(f"final_answer({number})") for number in range(4)])
    manager = code_agent([code("worker(task='dig')")] * 4 + [code("final_answer('ok')")], managed_agents=[worker])
    manager.planning_interval = None
    session = Session("s", url)
    with Session("s/worker/4", url).attach(code_agent([])) as own:
        own.database.prepare()
    with session.attach(manager):
        steps = iter(manager.run("go", stream=True))
        seen = []
        for step in steps:
            if type(step).__name__ == "ActionStep":
                seen.append(session.children())
                if len(seen) == 2:
                    assert Session("s/worker/1", url).delete()
    assert seen[1] == ["s/worker/1", "s/worker/2"]
    assert session.children() == ["s/worker/2", "s/worker/3", "s/worker/5"]
    assert [run.answer for name in session.children() for run in Session(name, url).runs()] == [1, 2, 3]
    assert Session("s/worker/4", url).steps() == []


def test_two_processes_number_their_calls_apart(url: str) -> None:
    Session("s", url).attach(code_agent([])).detach()
    with children(call_at_once, url, ["A", "B"]) as both:
        for child in both:
            child.ask(20)
        said = [child.answer() for child in both]
    assert sorted(said[0] + said[1]) == sorted(f"s/worker/{number}" for number in range(1, 41))
    assert len(Session("s", url).children()) == 40


# -- one at a time ---------------------------------------------------------------------------------------------------


def digging(number: int) -> Iterator[Any]:
    """Whoever is asked answers for the task that it was given last."""

    def work(messages: Any) -> Any:
        text = str(messages)
        (task,) = [task for task in "ABC" if f"dig {task}" in text]
        return code(f"final_answer('of {task}')") if text.count(f"of {task}") >= 6 else code(f"print('of {task}')")

    return iter([work] * number)


@pytest.mark.parametrize("callbacks", [[], [KeepRecentSteps(2)]], ids=["whole", "pruned"])
def test_calls_at_the_same_time_wait_and_each_memory_can_be_restored(url: str, callbacks: Any) -> None:
    worker = named("worker", digging(100), step_callbacks=callbacks, provide_run_summary=True)
    watch(worker, ends := Ends())
    asked = [call("worker", task=f"dig {task}", additional_args={}) for task in "ABC"]
    manager = calling_agent([asked, call("final_answer", answer="ok")], managed_agents=[worker])
    manager.planning_interval = None
    session = Session("s", url)
    with session.attach(manager):
        assert in_time(lambda: manager.run("dig")) == "ok"
    assert len(session.children()) == 3
    for name, end in zip(session.children(), ends.found, strict=True):
        other = code_agent([])
        assert Session(name, url).restore(other)
        assert explain_difference(list(other.memory.steps), end) is None
        assert Session(name, url).runs()[0].state == "finished"
        (task,) = [task for task in "ABC" if f"dig {task}" in end[0].task]
        assert {each for each in "ABC" if f"of {each}" in str(end)} == {task}
    for task in "ABC":  # the summary of each is of its own work
        assert f"of {task}" in manager.memory.steps[1].observations


def test_calls_of_different_agents_run_at_the_same_time(url: str) -> None:
    meet = threading.Barrier(2)

    def work(messages: Any) -> Any:
        meet.wait(20)
        return code("final_answer('met')")

    workers = [named("one", [work]), named("two", [work])]
    asked = [call(each.name, task="meet", additional_args={}) for each in workers]
    manager = calling_agent([asked, call("final_answer", answer="ok")], managed_agents=workers)
    manager.planning_interval = None
    with Session("s", url).attach(manager) as session:
        assert in_time(lambda: manager.run("go")) == "ok"
    assert {name.split("/")[1] for name in session.children()} == {"one", "two"}


def test_those_who_shall_run_at_the_same_time_do(url: str) -> None:
    meet = threading.Barrier(2)

    def work(messages: Any) -> Any:
        meet.wait(20)
        return code("final_answer('met')")

    asked = [call("worker", task=f"meet {each}", additional_args={}) for each in "AB"]
    manager = calling_agent([asked, call("final_answer", answer="ok")], managed_agents=[named("worker", [work] * 2)])
    manager.planning_interval = None
    with Session("s", url, concurrent_calls=True).attach(manager) as session:
        assert in_time(lambda: manager.run("go")) == "ok"
    assert len(session.children()) == 2


def test_two_sessions_with_one_managed_agent_take_turns(url: str) -> None:
    worker = named("worker", digging(100))
    watch(worker, ends := Ends())
    managers = [
        code_agent(
            [code(f"worker(task='dig {task}')"), code("final_answer('ok')")],
            managed_agents=[worker],
            planning_interval=None,
        )
        for task in "AB"
    ]
    sessions = [Session(name, url).attach(manager) for name, manager in zip("ab", managers, strict=True)]
    runs = [threading.Thread(target=manager.run, args=("go",), daemon=True) for manager in managers]
    for run in runs:
        run.start()
    for run in runs:
        run.join(30)
        assert not run.is_alive(), "it hangs"
    for session in sessions:
        session.detach()
    assert [len(end) for end in ends.found] == [4, 4]
    assert sorted(task for end in ends.found for task in "AB" if f"of {task}" in str(end)) == ["A", "B"]


# -- circles ---------------------------------------------------------------------------------------------------------


def test_an_agent_that_calls_itself_does_not_wait_for_itself(url: str) -> None:
    worker = named("worker", [code("print(worker(task='deeper'))"), code("final_answer(1)"), code("final_answer(2)")])
    worker.managed_agents["worker"] = worker
    manager = code_agent([code("final_answer(worker(task='dig'))")], managed_agents=[worker], planning_interval=None)
    with Session("s", url).attach(manager) as session:
        assert "2" in str(in_time(lambda: manager.run("go")))
    assert session.children() == ["s/worker/1"]


def test_so_it_is_through_a_tool(url: str) -> None:
    class Deeper(Tool):
        name, description, output_type = "deeper", "Goes deeper.", "string"
        inputs: dict[str, Any] = {}

        def forward(self) -> str:
            return str(worker.run("deeper"))

    script = [code("print(deeper())"), code("final_answer(1)"), code("final_answer(2)")]
    worker = CodeAgent([Deeper()], ScriptedModel(script), name="worker", description="Works.", verbosity_level=0)
    manager = code_agent([code("final_answer(worker(task='dig'))")], managed_agents=[worker], planning_interval=None)
    with Session("s", url).attach(manager):
        assert "2" in str(in_time(lambda: manager.run("go")))


def test_agents_in_a_circle_with_their_manager_come_to_an_end(url: str) -> None:
    one = named(
        "one", [code("print(two(task='go on'))"), code("final_answer('inner')"), code("final_answer('outer')")]
    )
    two = named("two", [code("print(one(task='again'))"), code("final_answer(boss(task='what now?'))")])
    boss = named("boss", [code("print(one(task='begin'))"), code("final_answer('stop')"), code("final_answer('ok')")])
    one.managed_agents["two"], two.managed_agents["one"] = two, one
    two.managed_agents["boss"], boss.managed_agents["one"] = boss, one
    with Session("s", url).attach(boss) as session:
        assert in_time(lambda: boss.run("go")) == "ok"
    assert session.children() == ["s/one/1"]
    assert Session("s/one/1", url).children() == ["s/one/1/two/1"]


def test_a_circle_that_is_entered_from_both_ends_is_told_to_one_of_them(url: str) -> None:
    meet = threading.Barrier(2)

    def calls(name: str) -> Any:
        def work(messages: Any) -> Any:
            meet.wait(20)
            return code(f"print({name}(task='help'))")

        return work

    one = named("one", [calls("two"), *[code("final_answer('done')")] * 3])
    two = named("two", [calls("one"), *[code("final_answer('done')")] * 3])
    one.managed_agents["two"], two.managed_agents["one"] = two, one
    asked = [call(each.name, task="go", additional_args={}) for each in (one, two)]
    manager = calling_agent([asked, call("final_answer", answer="ok")], managed_agents=[one, two])
    manager.planning_interval = None
    with Session("s", url).attach(manager) as session:
        assert in_time(lambda: manager.run("go")) == "ok"
    errors = [
        str(step.error)
        for name in session.children()
        for step in Session(name, url).steps()
        if getattr(step, "error", None)
    ]
    assert any("circle" in error for error in errors)


def test_a_stream_that_nobody_reads_keeps_nobody_waiting(url: str) -> None:
    worker = named("worker", [code("final_answer(1)")])
    manager = code_agent([code("final_answer(worker(task='dig'))")], managed_agents=[worker], planning_interval=None)
    with Session("s", url).attach(manager):
        worker.run("left", stream=True)
        gc.collect()
        assert "1" in str(in_time(lambda: manager.run("go")))
    assert tags(Session("s/worker/2", url).steps())
