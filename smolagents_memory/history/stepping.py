"""A run one step at a time: stop, look, edit memory, go on; also in another process, from the memory alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from rich.text import Text
from smolagents import AgentError, AgentGenerationError, LogLevel, MultiStepAgent
from smolagents.memory import ActionStep, MemoryStep, PlanningStep, Timing
from smolagents.monitoring import YELLOW_HEX

from smolagents_memory import upstream
from smolagents_memory._listener import Run
from smolagents_memory.steps.answers import answer_of, last_number, last_task
from smolagents_memory.steps.kinds import is_models, is_plan


def iter_steps(
    agent: MultiStepAgent,
    task: str | None = None,
    *,
    max_steps: int | None = None,
    reset: bool = True,
    images: list[Any] | None = None,
    additional_args: dict[str, Any] | None = None,
    prepare: Callable[[MultiStepAgent], object] | None = None,
) -> RunSteps:
    """What `agent.run(task)` does, one step at a time: the same memory, the same callbacks, the same answer.

    Each step is in `agent.memory.steps` when you get it, with its timing, and its callbacks have run. Between two
    steps you may look, edit the memory, or simply stop; `next()` goes on. Without a task it goes on with the last
    task in memory where that was left, with the numbering, the plans and the rest of `max_steps` that the run would
    have had: after a stop, after an error, or in a new process once a session has restored the memory.

    Args:
        agent: A CodeAgent, a ToolCallingAgent or another MultiStepAgent.
        task: The task, or None to go on with the last one in memory.
        max_steps: As for `run`. When going on, steps already taken for the task count.
        reset, images, additional_args: As for `run`; they go with a task.
        prepare: Called with the agent when its tools and variables are set up, before the first step: the place to
            put Python variables back.

    >>> from smolagents import CodeAgent
    >>> from smolagents_memory.testing import ScriptedModel, code
    >>> agent = CodeAgent([], ScriptedModel([code("x = 6"), code("final_answer(x * 7)")]), verbosity_level=0)
    >>> steps = iter_steps(agent, "What is six times seven?")
    >>> for step in steps:
    ...     print(step.step_number, step.code_action)
    1 x = 6
    2 final_answer(x * 7)
    >>> steps.answer
    42
    """
    if task is not None:
        given = {"reset": reset, "images": images, "additional_args": additional_args, "max_steps": max_steps}
        run = upstream.open_run(agent, task, **given)
        steps = RunSteps(run, agent.task, max_steps or agent.max_steps, images, number=1)
    else:
        if images is not None or additional_args is not None:
            raise ValueError("images and additional_args go with a task; without one the last task in memory goes on")
        steps = _going_on(agent, max_steps or agent.max_steps)
    if prepare is not None:
        prepare(agent)
    return steps


def _going_on(agent: MultiStepAgent, max_steps: int) -> RunSteps:
    memory = agent.memory.steps
    begun = last_task(memory)
    if begun is None:
        raise ValueError("there is no task in the agent's memory to go on with; give one: iter_steps(agent, task)")
    task, since = memory[begun], memory[begun:]
    answer = answer_of(since, agent.state)
    run = Run(agent) if answer is not None else upstream.take_up(agent, task, max_steps)
    steps = RunSteps(run, task.task, max_steps, task.task_images, number=last_number(since) + 1)
    if answer is not None:
        steps._answer, steps.done = answer.value, True
    made = [step for step in since if is_models(step)]
    steps._planned = bool(made) and is_plan(made[-1])
    return steps


class RunSteps(Iterator[MemoryStep]):
    """The steps of one run, made when they are asked for; see `iter_steps`.

    It holds no thread and no open generator: what comes next is decided from the agent's memory, at every `next()`.
    When a step raises (an error of the model's API, an interrupt), `next()` may be called again.

    Attributes:
        agent: The agent that runs.
        max_steps: May be raised between two steps.
        step_number: The number of the next action step.
        done: Whether there is an answer.
    """

    def __init__(self, run: Run, task: str, max_steps: int, images: Any, *, number: int) -> None:
        self.agent: MultiStepAgent = run.agent
        self.task = task
        self.max_steps = max_steps
        self.step_number = number
        self.done = False
        self._run = run
        self._images = images
        self._planned = False
        self._answer: Any = None

    @property
    def answer(self) -> Any:
        """The final answer; an error as long as there is none."""
        if not self.done:
            raise RuntimeError("the run has no answer yet; go on with next(), or with a for loop to its end")
        return self._answer

    def __next__(self) -> MemoryStep:
        if self.done:
            raise StopIteration(self._answer)
        with upstream.part_of(self._run):
            if self.step_number > self.max_steps:
                return self._give_up()
            upstream.stop_if_interrupted(self.agent)
            self.agent.step_number = self.step_number
            return self._plan() if self._plan_is_due() else self._act()

    def _plan_is_due(self) -> bool:
        interval = self.agent.planning_interval
        return interval is not None and (self.step_number - 1) % interval == 0 and not self._planned

    def _plan(self) -> PlanningStep:
        plan = upstream.make_plan(self.agent, self.task, self.step_number)
        self.agent.memory.steps.append(plan)
        self._planned = True
        return plan

    def _act(self) -> ActionStep:
        agent = self.agent
        action = ActionStep(
            step_number=self.step_number, timing=Timing(start_time=time.time()), observations_images=self._images
        )
        agent.logger.log_rule(f"Step {self.step_number}", level=LogLevel.INFO)
        try:
            for answer in upstream.answers_of(agent, action):
                self._accept(action, answer)
        except AgentGenerationError:  # the model's API failed, not the model: as in run, the caller must know
            raise
        except AgentError as error:
            action.error = error
        finally:
            upstream.finalize(agent, action)
            agent.memory.steps.append(action)
            self.step_number += 1
            agent.step_number = self.step_number
            self._planned = False
        if action.is_final_answer:
            self._finish(self._answer)
        return action

    def _accept(self, action: ActionStep, answer: Any) -> None:
        agent = self.agent
        agent.logger.log(Text(f"Final answer: {answer}", style=f"bold {YELLOW_HEX}"), level=LogLevel.INFO)
        upstream.check_answer(agent, answer)
        action.is_final_answer = True
        self._answer = answer

    def _give_up(self) -> ActionStep:
        agent = self.agent
        agent.step_number = self.step_number
        answer = upstream.forced_answer(agent, self.task, self._images)
        step: ActionStep = agent.memory.steps[-1]
        self._finish(answer)
        return step

    def _finish(self, answer: Any) -> None:
        self._answer = upstream.end_with(self._run, answer)
        self.done = True
