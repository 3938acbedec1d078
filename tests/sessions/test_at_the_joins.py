"""Two things that meet on an agent in an order that nobody thought of: they work together, or say why not."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from smolagents import CodeAgent
from smolagents.memory import ActionStep, TaskStep
from smolagents.utils import AgentGenerationError

from smolagents_memory import (
    EnhancedAgentMemory,
    KeepRecentSteps,
    Place,
    Session,
    SessionManager,
    StepTool,
    TruncateObservations,
)
from smolagents_memory._errors import AttachError, SessionError
from smolagents_memory.testing import ScriptedModel, code


def agent(*script: Any, **options: Any) -> CodeAgent:
    outputs = [code(each) if isinstance(each, str) else each for each in script]
    return CodeAgent(options.pop("tools", []), ScriptedModel(outputs), verbosity_level=0, **options)


def learnt(memory: EnhancedAgentMemory) -> list[str]:
    return [str(each.value) for each in memory.items()]


def numbers(session: Session) -> list[int]:
    return [told.original.step_number for told in session.transcript() if isinstance(told.original, ActionStep)]


# -- a memory that comes in the middle of a run, or comes back -----------------------------------------------------


@pytest.mark.parametrize("with_session", [True, False])
@pytest.mark.parametrize("how", ["callback", "stream"])
def test_a_memory_that_comes_in_the_middle_of_a_run_learns_from_it(
    how: str, with_session: bool, tmp_path: Path
) -> None:
    memory = EnhancedAgentMemory(vector=False)

    def put(step: Any, agent: Any) -> None:
        if agent.memory is not memory:
            agent.memory = memory

    mine = agent("print(5)", "final_answer(2)", "final_answer(3)", step_callbacks=[put] if how == "callback" else [])
    session = Session("s", tmp_path)
    if with_session:
        session.attach(mine)
    if how == "callback":
        mine.run("compute the zorblax", reset=False)
    else:
        for item in mine.run("compute the zorblax", stream=True, reset=False):
            if isinstance(item, ActionStep) and item.step_number == 1:
                mine.memory = memory
    assert "Task: compute the zorblax\nOutcome: 2" in learnt(memory)
    mine.run("another", reset=False)
    session.detach()
    assert "Task: another\nOutcome: 3" in learnt(memory)
    if with_session:
        assert [run.state for run in session.runs()] == ["finished", "finished"]


def test_a_session_that_comes_in_the_middle_of_a_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    mine, session = agent("print(5)", "final_answer(2)"), Session("s", tmp_path)
    memory = EnhancedAgentMemory(vector=False).attach(mine)
    for item in mine.run("compute the zorblax", stream=True):
        if isinstance(item, ActionStep) and item.step_number == 1:
            session.attach(mine)
    session.detach()
    memory.close()
    assert [(run.state, run.answer) for run in session.runs()] == [("finished", 2)]
    assert caplog.records == []


def test_a_memory_that_was_let_go_of_and_is_assigned_again_learns_again() -> None:
    mine = agent("final_answer(1)", "final_answer(2)", "final_answer(3)")
    mine.memory = memory = EnhancedAgentMemory(vector=False)
    mine.run("first zorb")
    memory.detach()
    mine.run("nobody learns")
    mine.memory = memory
    mine.memory = memory
    mine.run("second quux", reset=False)
    assert [step.task for step in memory.steps if isinstance(step, TaskStep)] == ["nobody learns", "second quux"]
    assert "Task: second quux\nOutcome: 3" in learnt(memory)


def test_a_session_that_cannot_be_attached_does_not_bring_a_memory_back(tmp_path: Path) -> None:
    mine = agent("final_answer(1)", "final_answer(2)")
    memory = EnhancedAgentMemory(vector=False).attach(mine)
    memory.detach()
    mine.run("of nobody")
    with Session("s", tmp_path).attach(agent("final_answer(3)")) as session:
        session.run("there")
    with pytest.raises(SessionError):
        Session("s", tmp_path).attach(mine)
    mine.run("nobody learns")
    assert not any("nobody learns" in each for each in learnt(memory))


def test_of_what_holds_a_memory_the_right_one_is_named(tmp_path: Path) -> None:
    first, second = agent(), agent()
    with Session("of-first", tmp_path).attach(first):
        memory = EnhancedAgentMemory(vector=False).attach(first)
        memory.detach()
        with pytest.raises(AttachError, match=r"Session\('of-first'.*session\.detach\(\)") as refused:
            memory.attach(second)
        assert "memory.detach()" not in str(refused.value)
    memory.attach(second)


def test_no_memory_at_all_under_a_session_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    mine, session = agent("final_answer(1)"), Session("s", tmp_path)
    session.attach(mine)
    mine.run("One")
    mine.memory = None  # type: ignore[assignment]
    assert len(caplog.records) == 1
    with pytest.raises(SessionError, match=r"agent\.memory was replaced"):
        session.flush()
    with pytest.raises(SessionError, match=r"agent\.memory was replaced"):
        session.detach()
    assert len(caplog.records) == 1
    assert [run.state for run in session.runs()] == ["finished"]


# -- two sessions and one agent ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["A", "B"])
def test_no_session_is_put_into_an_agent_that_has_one(name: str, tmp_path: Path) -> None:
    with Session("B", tmp_path).attach(agent("final_answer('secret of B')")) as session:
        session.run("B's task")
    mine = agent("final_answer('aaa')", "final_answer('ccc')")
    with Session("A", tmp_path).attach(mine) as session:
        session.run("A's task")
        before = list(mine.memory.steps)
        for put in (Session(name, tmp_path).restore, lambda each: SessionManager(tmp_path).load_session(each, name)):
            with pytest.raises(SessionError, match=r"attached to session 'A' already.*detach"):
                put(mine)
        assert list(mine.memory.steps) == before
        session.run("next A task")
        assert "secret of B" not in mine.model.calls[-1].text
        assert [step.task for step in session.steps() if isinstance(step, TaskStep)] == ["A's task", "next A task"]
    assert Session("B", tmp_path).restore(mine)


def test_of_threads_that_attach_a_session_each_to_one_agent_one_gets_it(tmp_path: Path) -> None:
    place = Place(tmp_path, durability="process")
    for number in range(15):
        mine, got, together = agent(), [], threading.Barrier(3)

        def attach(session: Session, mine: Any = mine, got: Any = got, together: Any = together) -> None:
            together.wait()
            try:
                got.append(session.attach(mine))
            except SessionError as error:
                assert "already" in str(error)

        sessions = [Session(f"{number}/{each}", place) for each in range(3)]
        threads = [threading.Thread(target=attach, args=(session,)) for session in sessions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(got) == 1
        mine.memory.steps.append(TaskStep(task="One"))
        got[0].detach()
        assert [session.exists() and len(session.steps()) for session in sessions].count(1) == 1


# -- numbers that go on --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_numbers_go_on_where_callbacks_left_no_step_to_count_from(kept: int, tmp_path: Path) -> None:
    session, cut = Session("s", tmp_path), [KeepRecentSteps(kept)]
    down = ConnectionError("down")
    first = agent("print(1)", "print(2)", down, step_callbacks=cut, max_steps=5)
    with session.attach(first), pytest.raises(AgentGenerationError):
        session.run("Go.")
    with pytest.raises(AgentGenerationError):
        session.resume(agent(down, step_callbacks=cut))
    other = agent("print(3)", "print(4)", "print(5)", lambda messages: "forced", step_callbacks=cut)
    assert session.resume(other) == "forced"
    assert numbers(session) == [1, 2, 3, 3, 3, 4, 5, 6]
    assert session.resume(agent("final_answer('free')", step_callbacks=cut), max_steps=9) == "free"
    assert numbers(session) == [1, 2, 3, 3, 3, 4, 5, 6, 6]


# -- a StepTool, whenever it comes ---------------------------------------------------------------------------------


LOOKING = ["print('page one ' * 40)", "print('page two ' * 40)", "final_answer(original_step(1))"]


def cutting(**options: Any) -> CodeAgent:
    return agent(*LOOKING, step_callbacks=[TruncateObservations(60), KeepRecentSteps(2)], **options)


def test_a_step_tool_that_came_after_the_session(tmp_path: Path) -> None:
    mine = cutting()
    with Session("s", tmp_path).attach(mine) as session:
        mine.tools["original_step"] = StepTool()
        assert "page one " * 40 in session.run("Look.")


def test_a_step_tool_that_came_in_the_middle_of_a_run(tmp_path: Path) -> None:
    def give(step: Any, agent: Any) -> None:
        if "original_step" not in agent.tools:
            agent.tools["original_step"] = StepTool()
            agent.python_executor.send_tools(agent.tools)

    mine = cutting()
    mine.step_callbacks.register(ActionStep, give)
    with Session("s", tmp_path).attach(mine) as session:
        assert "page one " * 40 in session.run("Look.")


def test_a_step_tool_of_an_agent_that_a_session_was_loaded_into(tmp_path: Path) -> None:
    first = cutting(tools=[StepTool()])
    with Session("s", tmp_path).attach(first) as session:
        session.run("Look.")
    mine = agent("final_answer(original_step(2))", tools=[StepTool()])
    assert SessionManager(tmp_path).load_session(mine, "s")
    assert "page two " * 40 in mine.run("And the second?", reset=False)


@pytest.mark.parametrize("kept", [True, False])
def test_a_step_tool_without_a_session_reads_what_is_in_memory(kept: bool) -> None:
    mine, tool = agent(*LOOKING, tools=[]), StepTool()
    other = agent(*LOOKING, tools=[StepTool()])
    mine.tools["original_step"] = tool
    memory = EnhancedAgentMemory(vector=False)
    if kept:
        memory.attach(mine)
    assert "page one " * 40 in mine.run("Look.")
    assert "none was attached" not in other.run("Look.")
    del other
    mine.tools.pop("original_step")
    assert "none was attached" in StepTool()(1)


def test_a_step_tool_of_two_agents_of_which_no_session_tells_shows_nobody_another_one_s_steps() -> None:
    tool = StepTool()
    mine, other = agent(*LOOKING, tools=[tool]), agent("final_answer(original_step(1))", tools=[tool])
    assert "several agents" in mine.run("Look.")
    assert "several agents" in other.run("Look.")
