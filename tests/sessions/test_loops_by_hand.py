"""Loops by hand over `agent.step`: however a step comes into memory, its answer ends the run; forks in the middle."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from program import python
from smolagents import CodeAgent, ToolCallingAgent
from smolagents.memory import ActionStep, AgentMemory, TaskStep
from smolagents.monitoring import Timing

from smolagents_memory import ObservedMemory, Session, iter_steps
from smolagents_memory.testing import ScriptedModel, call, code


def code_agent(*script: Any) -> CodeAgent:
    agent = CodeAgent([], ScriptedModel(list(script)), verbosity_level=-1)
    agent.python_executor.send_tools(agent.tools)
    return agent


def calling_agent(*script: Any) -> ToolCallingAgent:
    return ToolCallingAgent([], ScriptedModel(list(script)), verbosity_level=-1)


def new_step(number: int) -> ActionStep:
    return ActionStep(step_number=number, timing=Timing(start_time=time.time()))


def append_after(agent: Any, number: int) -> None:
    step = new_step(number)
    agent.step(step)
    agent.memory.steps.append(step)


def append_before(agent: Any, number: int) -> None:
    step = new_step(number)
    agent.memory.steps.append(step)
    agent.step(step)


def put_into_a_new_list(agent: Any, number: int) -> None:
    step = new_step(number)
    agent.step(step)
    agent.memory.steps = [*agent.memory.steps, step]


def finalize_too(agent: Any, number: int) -> None:
    step = new_step(number)
    agent.step(step)
    agent._finalize_step(step)
    agent.memory.steps += [step]


WAYS = [append_after, append_before, put_into_a_new_list, finalize_too]
MAKERS = {
    code_agent: (code("x = 20"), code("final_answer(x + 1)"), 21),
    calling_agent: (call("final_answer", answer="forty"), "forty"),
}


def looped(make: Any, way: Any, agent: Any) -> None:
    agent.memory.steps.append(TaskStep("Go."))
    for number in range(1, len(MAKERS[make])):
        way(agent, number)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("plain", [True, False])
def test_a_loop_that_reached_its_answer_is_finished(make: Any, way: Any, plain: bool, tmp_path: Path) -> None:
    """Over smolagents' own memory, which the session replaces, or over one that can be listened to."""
    *script, answer = MAKERS[make]
    agent = make(*script)
    agent.memory = AgentMemory("s") if plain else ObservedMemory("s")
    session = Session("s", tmp_path)
    with session.attach(agent):
        looped(make, way, agent)
        [within] = Session("s", tmp_path).runs()  # on the disk already
    [run] = session.runs()
    assert (within.state, within.answer) == (run.state, run.answer) == ("finished", answer)
    assert run.steps == len(script)
    for told in session.transcript()[1:]:
        assert told.original.model_input_messages  # also where it came into memory before it was made
        assert told.original.observations == told.step.observations
        assert told.left == "as it came"
    again = make()
    assert session.resume(again) == answer
    assert again.model.calls == []


@pytest.mark.parametrize("make", MAKERS)
def test_a_loop_that_nobody_followed_is_finished_when_a_session_adopts_it(make: Any, tmp_path: Path) -> None:
    *script, answer = MAKERS[make]
    agent = make(*script)
    looped(make, append_after, agent)
    with Session("s", tmp_path).attach(agent):
        pass
    assert [run.state for run in Session("s", tmp_path).runs()] == ["finished"]
    assert Session("s", tmp_path).resume(make()) == answer
    assert iter_steps(agent).done


def test_a_loop_without_an_answer_is_not_finished_though_its_code_names_one(tmp_path: Path) -> None:
    """What was not reached, and what failed, is no answer."""
    agent = code_agent(code("if 1 > 2:\n    final_answer(1)"), code("final_answer(1 / 0)"))
    session = Session("s", tmp_path)
    with session.attach(agent):
        agent.memory.steps.append(TaskStep("Go."))
        append_after(agent, 1)
        with pytest.raises(Exception, match="division by zero"):
            append_after(agent, 2)
    assert [run.state for run in session.runs()] == ["interrupted"]
    assert session.resume(code_agent(code("final_answer(7)"))) == 7


KILLED = """
import os, sys
sys.path.insert(0, {tests!r})
from test_loops_by_hand import *
make = {make}
agent = make(*MAKERS[make][:-1])
with Session("s", {place!r}).attach(agent):
    looped(make, {way}, agent)
    os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("make", "way"), [(code_agent, append_after), (calling_agent, append_before)])
def test_killed_after_the_answer_was_journaled_it_is_not_asked_for_again(make: Any, way: Any, tmp_path: Path) -> None:
    script = KILLED.format(
        tests=str(Path(__file__).parent), make=make.__name__, way=way.__name__, place=str(tmp_path / "m")
    )
    assert python(script, check=False).returncode == -9
    session = Session("s", tmp_path / "m")
    assert [run.state for run in session.runs()] == ["finished"]
    again = make()
    assert session.resume(again) == MAKERS[make][-1]
    assert again.model.calls == []


def test_a_fork_in_the_middle_has_a_run_that_is_not_finished(url: str) -> None:
    """As it stood when that step was journaled: state, answer, steps and tokens; and it goes on from there."""
    session = Session("s", url)
    agent = code_agent(*[code(f"print({number})") for number in range(3)], code("final_answer('here')"))
    seen: list[Any] = []
    with session.attach(agent):
        agent.step_callbacks.register(ActionStep, lambda step, agent: seen.append(session.runs()[-1]))
        agent.run("First.", max_steps=4)
        agent.model = ScriptedModel([code("print(5)"), ConnectionError("down")])
        with pytest.raises(Exception, match="down"):
            agent.run("Second.", reset=False)
    assert [run.state for run in session.runs()] == ["finished", "failed"]
    for at in (0, 1, 2, 3):
        fork = session.fork(f"at {at}", at=at)
        [run] = fork.runs()
        assert (run.state, run.answer, run.error, run.ended) == ("interrupted", None, None, None)
        told = (run.steps, run.input_tokens, run.output_tokens, run.task, run.max_steps)
        assert told == (at, seen[at].input_tokens, seen[at].output_tokens, "First.", 4)
    [first] = session.fork("answered", at=4).runs()
    assert first == session.runs()[0]
    first, second = session.fork("of the second", at=6).runs()
    assert (first.state, second.state, second.steps, second.error) == ("finished", "interrupted", 1, None)
    assert [run.state for run in session.fork("whole").runs()] == ["finished", "failed"]
    other = code_agent(code("final_answer('elsewhere')"))
    assert Session("at 2", url).resume(other) == "elsewhere"
    assert [(run.state, run.answer, run.steps) for run in Session("at 2", url).runs()] == [
        ("finished", "elsewhere", 3)
    ]
    assert session.runs()[0].answer == "here"


def test_a_fork_of_a_run_that_was_forced_and_went_on_stands_where_it_stood(tmp_path: Path) -> None:
    session = Session("s", tmp_path)
    with session.attach(code_agent(code("print(1)"), "forced")) as attached:
        attached._attachment.agent.run("Go.", max_steps=1)  # type: ignore[union-attr]
    before = session.fork("before", at=2)
    assert session.resume(code_agent(code("final_answer('free')")), max_steps=9) == "free"
    assert [(run.state, run.answer) for run in session.runs()] == [("finished", "free")]
    assert [run.state for run in before.runs()] == ["max_steps"]
    assert [run.state for run in session.fork("later", at=1).runs()] == ["interrupted"]
