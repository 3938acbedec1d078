"""A task that was interrupted goes on to the answer it would have had, whatever interrupted it, and wherever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from databases import url_quickly  # noqa: F401 — a fixture: these are many
from smolagents.memory import ActionStep, PlanningStep, TaskStep
from smolagents.utils import AgentError, AgentGenerationError
from torture_worker import STEPS, Work, make_agent, next_output, picture_of, record, untimed

from smolagents_memory import MemoryLossWarning, Session, SessionError, SessionNotFoundError
from smolagents_memory.sessions.resume import NO_ANSWER


TASK = "Torture 1."


@pytest.fixture(params=["code", "calls"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def done(tmp_path: Path) -> Path:
    return tmp_path / "done"


def run(agent: Any, **options: Any) -> Any:
    return agent.run(TASK, images=[picture_of(1)], **{"max_steps": STEPS + 1, **options})


def uninterrupted(kind: str, folder: Path) -> tuple[Any, str]:
    """The answer and the memory that nobody disturbed."""
    agent = make_agent(kind, folder / "undisturbed")
    return run(agent), untimed(record(agent))


@pytest.fixture(autouse=True)
def no_loss(recwarn: pytest.WarningsRecorder) -> Iterator[None]:
    """Whatever is written here can be read again, all of it."""
    yield
    assert [str(warning.message) for warning in recwarn if warning.category is MemoryLossWarning] == []


def resumed(kind: str, done: Path, url: str, name: str = "s", **options: Any) -> tuple[Any, str]:
    """The answer and the memory of an agent that goes on."""
    agent = make_agent(kind, done, 1)
    answer = Session(name, url).resume(agent, **options)
    return answer, untimed(record(agent))


def executions(done: Path) -> list[list[str]]:
    return sorted(line.split()[1:] for line in done.read_text().splitlines())


def test_from_every_step_of_a_run_another_agent_goes_on_to_the_same_memory(
    kind: str, url: str, tmp_path: Path, done: Path
) -> None:
    expected = uninterrupted(kind, tmp_path)
    agent, cuts = make_agent(kind, done), 0

    def cut(event: Any) -> None:
        nonlocal cuts
        Session("s", url).fork(f"cut {cuts}")
        cuts += 1

    with Session("s", url).attach(agent):
        agent.memory.on("steps_changed", cut)
        run(agent)
    whole = executions(done)
    assert cuts == 2 + STEPS + 3  # the reset, the task, its steps, and a plan before every other one
    with pytest.raises(SessionError, match="no task to go on with"):
        resumed(kind, done, url, "cut 0")
    for number in range(1, cuts):
        done.write_text("")
        steps = Session(f"cut {number}", url).steps()
        assert resumed(kind, done, url, f"cut {number}") == expected
        made = sum(isinstance(step, ActionStep) for step in steps)
        assert executions(done) == [call for call in whole if int(call[0]) % 100 > made]
        (noted,) = Session(f"cut {number}", url).runs()
        assert (noted.state, noted.steps, noted.max_steps) == ("finished", STEPS, STEPS + 1)


@pytest.mark.parametrize("failing", range(STEPS + 3))
def test_after_an_error_of_the_model_at_any_of_its_calls(kind: str, tmp_path: Path, done: Path, failing: int) -> None:
    expected = uninterrupted(kind, tmp_path)
    calls = iter(range(99))

    def answer(kind: str, messages: Any) -> Any:
        return ConnectionError("down") if next(calls) == failing else next_output(kind, messages)

    url, agent = f"sqlite:///{tmp_path}/m.db", make_agent(kind, done, answer=answer)
    with Session("s", url).attach(agent), pytest.raises((AgentGenerationError, ConnectionError)):
        run(agent)
    assert Session("s", url).runs()[0].state == "failed"
    assert resumed(kind, done, url) == expected
    assert executions(done) == executions(tmp_path / "undisturbed")


@pytest.mark.parametrize("at", range(1, STEPS))
def test_after_an_interrupt_at_any_step(kind: str, url: str, tmp_path: Path, done: Path, at: int) -> None:
    expected = uninterrupted(kind, tmp_path)
    agent = make_agent(kind, done)
    agent.step_callbacks.register(ActionStep, lambda step, agent: step.step_number == at and agent.interrupt())
    with Session("s", url).attach(agent), pytest.raises(AgentError, match="interrupted"):
        run(agent)
    assert Session("s", url).runs()[0].state == "interrupted"
    assert resumed(kind, done, url) == expected
    assert executions(done) == executions(tmp_path / "undisturbed")


@pytest.mark.parametrize("enough", range(1, STEPS))
def test_after_max_steps_with_more_of_them(kind: str, tmp_path: Path, done: Path, enough: int) -> None:
    expected = uninterrupted(kind, tmp_path)

    def answer(kind: str, messages: Any) -> Any:
        forced = "provide an answer to the following user task" in str(messages[-1].content).lower()
        return "I give up." if forced else next_output(kind, messages)

    url, agent = f"sqlite:///{tmp_path}/m.db", make_agent(kind, done, answer=answer)
    with Session("s", url).attach(agent):
        assert run(agent, max_steps=enough) == "I give up."
    assert Session("s", url).runs()[0].state == "max_steps"
    assert resumed(kind, done, url) == ("I give up.", untimed(record(agent)))
    assert resumed(kind, done, url, max_steps=STEPS + 1)[0] == expected[0]
    steps = Session("s", url).steps()
    assert [step.step_number for step in steps if isinstance(step, ActionStep)] == list(range(1, STEPS + 1))
    assert executions(done) == executions(tmp_path / "undisturbed")
    assert Session("s", url).runs()[0].state == "finished"


class Stopped(Work):
    """Somebody presses Ctrl-C in the middle of the second step."""

    def forward(self, mark: int, part: int) -> str:
        text = super().forward(mark, part)
        if mark == 102:
            raise KeyboardInterrupt
        return text


@pytest.mark.parametrize("given", [False, True])
def test_after_ctrl_c_inside_a_tool_its_call_is_closed(kind: str, url: str, tmp_path: Path, given: bool) -> None:
    done = tmp_path / "done"
    agent = make_agent(kind, done, work=Stopped)
    with Session("s", url).attach(agent), pytest.raises(KeyboardInterrupt):
        run(agent)
    assert Session("s", url).runs()[0].state == "interrupted"
    left = agent.memory.steps[-1]
    assert left.observations is None
    calls = left.tool_calls or left.model_output_message.tool_calls
    answers = {call.id: f"given for {call.id}" for call in calls} if given else {}
    answer, messages = resumed(kind, done, url, answers=answers)
    step = [step for step in Session("s", url).steps() if isinstance(step, ActionStep)][1]
    closed = "\n".join(answers.values() or [NO_ANSWER] * len(calls))
    assert step.observations.startswith(closed[:40])  # callbacks shape it too
    assert len(step.tool_calls) == len(calls)
    assert [call[0] for call in executions(done)].count("102") == len(calls)
    if kind == "calls":
        assert answer == "The answer with mark 105."
        assert messages.count("TOOL_RESPONSE") == messages.count("TOOL_CALL")


def test_an_answer_for_a_call_that_does_not_wait_is_told(url: str, done: Path, caplog: Any) -> None:
    agent = make_agent("calls", done)
    with Session("s", url).attach(agent):
        run(agent)
    assert resumed("calls", done, url, answers={"c1": "?"})[0] == "The answer with mark 105."
    assert "not waiting for one: ['c1']" in caplog.text


def test_a_task_that_has_its_answer_gives_that_answer_again(kind: str, url: str, tmp_path: Path, done: Path) -> None:
    expected = uninterrupted(kind, tmp_path)
    agent = make_agent(kind, done)
    with Session("s", url).attach(agent):
        run(agent)
    before = executions(done)
    assert resumed(kind, done, url) == expected
    assert executions(done) == before
    assert [run.state for run in Session("s", url).runs()] == ["finished"]


@pytest.mark.parametrize("planned", [True, False])
def test_a_plan_that_was_made_is_not_made_again_and_one_that_is_due_is_made(
    kind: str, tmp_path: Path, done: Path, planned: bool
) -> None:
    url, agent = f"sqlite:///{tmp_path}/m.db", make_agent(kind, done)

    class Stop(Exception):
        pass

    def stop(event: Any) -> None:
        plans = sum(isinstance(step, PlanningStep) for step in agent.memory.steps)
        actions = sum(isinstance(step, ActionStep) for step in agent.memory.steps)
        if actions == 2 and plans == 1 + planned:
            agent.interrupt()
            raise Stop

    with Session("s", url).attach(agent), pytest.raises(AgentError):
        agent.memory.on("steps_changed", stop)
        run(agent)
    resumed(kind, done, url)
    kinds = [type(step) for step in Session("s", url).steps()]
    one = [PlanningStep, ActionStep, ActionStep]
    assert kinds == [TaskStep, *one, *one, PlanningStep, ActionStep]


def test_resuming_what_is_not_there_says_so_and_makes_nothing(url: str, done: Path) -> None:
    with pytest.raises(SessionNotFoundError, match="no session 's' to resume"):
        Session("s", url).resume(make_agent("code", done))
    assert not Session("s", url).exists()
