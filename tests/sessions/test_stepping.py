"""iter_steps is `run`, one step at a time."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from histories import RUNS, Run
from smolagents import AgentError, AgentGenerationError, CodeAgent, ToolCallingAgent
from smolagents.memory import ActionStep, FinalAnswerStep, MemoryStep, PlanningStep, TaskStep

from smolagents_memory import ObservedMemory, iter_steps, load_memory, save_memory
from smolagents_memory.testing import ScriptedModel, call, code


class Heard:
    """Callbacks that write down what they were told, in order."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    def registry(self) -> dict[type, Any]:
        return {cls: [self._listener(cls)] for cls in (ActionStep, PlanningStep, FinalAnswerStep, MemoryStep)}

    def _listener(self, registered: type) -> Any:
        def listener(step: Any, agent: Any) -> None:
            number = getattr(step, "step_number", None)
            shown = step.output if isinstance(step, FinalAnswerStep) else [m.dict() for m in step.to_messages()]
            seen = re.sub("0x[0-9A-F]+", "", repr(shown))  # images are copied: no two have the same address
            self.log.append((registered, type(step), number, seen, len(agent.memory.steps), agent.step_number))

        return listener


def recorded(run: Run) -> list[dict[str, Any]]:
    """Every field of every step but the times."""
    steps = []
    for step in run.agent.memory.steps:
        fields = {name: repr(value) for name, value in vars(step).items() if name != "timing"}
        fields["error"] = (type(getattr(step, "error", None)), str(getattr(step, "error", None)))
        steps.append({"class": type(step), **fields})
    return steps


def messages(run: Run) -> list[dict[str, Any]]:
    return [message.dict() for message in run.agent.write_memory_to_messages()]


def sent(run: Run) -> list[Any]:
    return [[message.dict() for message in each.messages] for each in run.agent.model.calls]


@pytest.mark.parametrize("name", RUNS)
def test_the_memory_the_callbacks_and_the_answer_are_those_of_run(name: str) -> None:
    """Compared field by field with `run` on the same script, images by identity of what they show."""
    heard, heard_stepwise = Heard(), Heard()
    run, stepwise = RUNS[name](step_callbacks=heard.registry()), RUNS[name](step_callbacks=heard_stepwise.registry())
    if "images" in run.options:
        stepwise.options = run.options
    answer = run.agent.run(run.task, **run.options)
    steps = iter_steps(stepwise.agent, stepwise.task, **stepwise.options)
    seen = list(steps)
    assert steps.answer == answer
    assert messages(stepwise) == messages(run)
    assert recorded(stepwise) == recorded(run)
    assert sent(stepwise) == sent(run)
    assert heard_stepwise.log == heard.log
    assert stepwise.agent.step_number == run.agent.step_number
    assert stepwise.agent.monitor.total_input_token_count == run.agent.monitor.total_input_token_count
    assert seen == stepwise.agent.memory.steps[1:]
    assert all(step.timing.duration is not None for step in seen)


@pytest.mark.parametrize("name", RUNS)
def test_it_may_be_left_after_any_step_and_goes_on_from_the_memory_alone(name: str) -> None:
    """After every single step the iterator is thrown away and a new one takes up the task."""
    run, broken = RUNS[name](), RUNS[name]()
    answer = run.agent.run(run.task, **run.options)
    max_steps = broken.options.get("max_steps")
    steps = iter_steps(broken.agent, broken.task, **broken.options)
    for _ in range(50):
        if next(steps, None) is None:
            break
        steps = iter_steps(broken.agent, max_steps=max_steps)
    assert steps.answer == answer
    if "images" not in run.options:
        assert messages(broken) == messages(run)
        assert sent(broken) == sent(run)


# a CodeAgent's variables come back with a session; here there is only a file
_NEEDS_VARIABLES = ("code_with_plans_and_errors", "streamed", "with_a_managed_agent", "out_of_steps_code")
NEEDS_NO_VARIABLES = [name for name in RUNS if name not in _NEEDS_VARIABLES]


@pytest.mark.parametrize("name", NEEDS_NO_VARIABLES)
def test_a_new_agent_with_the_saved_memory_reaches_the_same_answer_from_any_step(name: str, tmp_path: Path) -> None:
    """At every cut point: save, forget the agent, load into a new one with the rest of the script."""
    whole = RUNS[name]()
    answer = whole.agent.run(whole.task, **whole.options)
    for cut in range(len(whole.agent.memory.steps)):
        first, second = RUNS[name](), RUNS[name]()
        steps = iter_steps(first.agent, first.task, **first.options)
        for _ in range(cut):
            next(steps, None)
        path = save_memory(first.agent, tmp_path / "run.jsonl")
        load_memory(path, second.agent)
        for _ in first.agent.model.calls:  # what the first agent's model has already said
            second.agent.model.generate([])
        resumed = iter_steps(second.agent, max_steps=second.options.get("max_steps"))
        list(resumed)
        assert resumed.answer == answer, f"cut after {cut} steps"
        assert messages(second) == messages(whole), f"cut after {cut} steps"


def test_killed_between_two_steps_and_taken_up_by_another_process(tmp_path: Path) -> None:
    """A real process that dies by SIGKILL after its first action."""
    common = """
import os, signal, sys
from smolagents import ToolCallingAgent, tool
from smolagents_memory import iter_steps, load_memory, save_memory
from smolagents_memory.testing import ScriptedModel, call

@tool
def weather(city: str) -> str:
    '''The weather.

    Args:
        city: The city.
    '''
    return f"Rain in {city}"

path = sys.argv[1]
script = ["1. Look", call("weather", city="Paris"), call("weather", city="Oslo"), call("final_answer", answer="Rain")]
def agent(script):
    return ToolCallingAgent([weather], ScriptedModel(script), planning_interval=3, verbosity_level=-1)
"""
    first = """
mine = agent(script)
for step in iter_steps(mine, "The weather?"):
    save_memory(mine, path)
    if getattr(step, "step_number", None) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
"""
    second = """
mine = agent(script[2:])
load_memory(path, mine)
steps = iter_steps(mine)
print([step.step_number for step in steps], steps.answer)
"""
    path, source = str(tmp_path / "run.jsonl"), tmp_path / "script.py"  # @tool reads its function's source
    source.write_text(common + first, encoding="utf-8")
    killed = subprocess.run([sys.executable, source, path], capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    source.write_text(common + second, encoding="utf-8")
    done = subprocess.run([sys.executable, source, path], capture_output=True, text=True, check=False)
    assert done.stdout == "[2, 3] Rain\n", done.stderr


def test_every_step_is_in_memory_with_its_time_when_it_is_given() -> None:
    """Plans as well: upstream's own stream gives them before they are in memory."""
    run = RUNS["code_with_plans_and_errors"]()
    for step in iter_steps(run.agent, run.task):
        assert run.agent.memory.steps[-1] is step
        assert step.timing.end_time is not None


def test_what_is_edited_between_two_steps_is_what_the_model_reads_next() -> None:
    """Here between a plan and its action, and between two actions."""
    agent = CodeAgent(
        [],
        ScriptedModel(["The plan", code("x = 1"), code("final_answer(x)")]),
        planning_interval=9,
        verbosity_level=-1,
    )
    steps = iter_steps(agent, "Go")
    next(steps).plan = "Another plan"
    next(steps).observations = "x is one"
    list(steps)
    assert "Another plan" in agent.model.calls[1].text
    assert "The plan" not in agent.model.calls[1].text
    assert "Observation:\nx is one" in agent.model.calls[2].text


def test_a_step_taken_back_is_made_again() -> None:
    """Dropping the last step and beginning anew from memory gives its number to the next one."""
    agent = CodeAgent([], ScriptedModel([code("x = 1"), code("x = 2"), code("final_answer(x)")]), verbosity_level=-1)
    next(iter_steps(agent, "Go"))
    del agent.memory.steps[-1]
    steps = iter_steps(agent)
    assert [step.step_number for step in steps] == [1, 2]
    assert steps.answer == 2


def test_more_steps_may_be_granted_on_the_way() -> None:
    agent = CodeAgent([], ScriptedModel([code("x = 1"), code("final_answer(x)")]), max_steps=1, verbosity_level=-1)
    steps = iter_steps(agent, "Go")
    next(steps)
    steps.max_steps = 2
    assert next(steps).is_final_answer
    assert steps.answer == 1


def test_an_error_of_the_api_is_raised_and_the_next_step_can_be_asked_for() -> None:
    """As in `run` the failed step is in memory; unlike there the run is not lost."""
    agent = CodeAgent([], ScriptedModel([ConnectionError("down"), code("final_answer(1)")]), verbosity_level=-1)
    steps = iter_steps(agent, "Go")
    with pytest.raises(AgentGenerationError, match="down"):
        next(steps)
    assert [type(step) for step in agent.memory.steps] == [TaskStep, ActionStep]
    assert [step.step_number for step in steps] == [2]
    assert steps.answer == 1


def test_an_interrupt_is_raised_once_and_leaves_no_step() -> None:
    agent = CodeAgent([], ScriptedModel([code("x = 1"), code("final_answer(x)")]), verbosity_level=-1)
    steps = iter_steps(agent, "Go")
    next(steps)
    agent.interrupt()
    with pytest.raises(AgentError, match="interrupted"):
        next(steps)
    assert len(agent.memory.steps) == 2
    assert [step.is_final_answer for step in steps] == [True]


def test_the_answer_is_an_error_until_there_is_one() -> None:
    agent = CodeAgent([], ScriptedModel([code("final_answer(1)")]), verbosity_level=-1)
    steps = iter_steps(agent, "Go")
    with pytest.raises(RuntimeError, match="no answer yet"):
        _ = steps.answer
    list(steps)
    assert steps.answer == 1
    assert next(steps, None) is None


def test_yield_from_gives_the_answer() -> None:
    def outer() -> Any:
        answer = yield from iter_steps(agent, "Go")
        answers.append(answer)

    answers: list[Any] = []
    agent = CodeAgent([], ScriptedModel([code("final_answer(1)")]), verbosity_level=-1)
    assert len(list(outer())) == 1
    assert answers == [1]


def test_going_on_keeps_variables_that_the_code_has_changed() -> None:
    """Upstream would send `additional_args` anew and set them back."""
    agent = CodeAgent([], ScriptedModel([code("n = n + 1"), code("final_answer(n)")]), verbosity_level=-1)
    next(iter_steps(agent, "Go", additional_args={"n": 5}))
    steps = iter_steps(agent)
    list(steps)
    assert steps.answer == 6


def test_variables_can_be_put_back_before_the_first_step() -> None:
    agent = CodeAgent([], ScriptedModel([code("final_answer(double(n))")]), verbosity_level=-1)
    agent.memory.steps.append(TaskStep("Go"))
    steps = iter_steps(
        agent, prepare=lambda each: each.python_executor.send_variables({"n": 4, "double": lambda n: 2 * n})
    )
    list(steps)
    assert steps.answer == 8


def test_a_finished_task_gives_its_answer_and_calls_nobody() -> None:
    """A ToolCallingAgent keeps only the text of its answer; the call has the value."""
    heard = Heard()
    agent = ToolCallingAgent(
        [], ScriptedModel([call("final_answer", answer=42)]), step_callbacks=heard.registry(), verbosity_level=-1
    )
    agent.run("Go")
    before = list(heard.log)
    steps = iter_steps(agent)
    assert list(steps) == []
    assert steps.answer == 42
    assert heard.log == before


def test_without_a_task_anywhere_it_says_so() -> None:
    agent = CodeAgent([], ScriptedModel([]), verbosity_level=-1)
    with pytest.raises(ValueError, match="no task"):
        iter_steps(agent)
    with pytest.raises(ValueError, match="go with a task"):
        iter_steps(agent, images=[])


def test_it_works_on_an_observed_memory_and_keeps_a_conversation_with_reset_false() -> None:
    agent = CodeAgent([], ScriptedModel([code("final_answer(1)"), code("final_answer(2)")]), verbosity_level=-1)
    agent.memory = ObservedMemory(agent.system_prompt)
    told: list[str] = []
    agent.memory.on("steps_changed", lambda event: told.extend(type(step).__name__ for step in event.added))
    list(iter_steps(agent, "One"))
    steps = iter_steps(agent, "Two", reset=False)
    list(steps)
    assert steps.answer == 2
    assert told == ["TaskStep", "ActionStep"] * 2
