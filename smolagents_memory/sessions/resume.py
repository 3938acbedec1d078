"""Going on with a task that was interrupted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from smolagents.agent_types import handle_agent_output_types
from smolagents.memory import ActionStep, MemoryStep, TaskStep, ToolCall
from smolagents.utils import AgentMaxStepsError

from smolagents_memory._errors import SessionError
from smolagents_memory._log import logger
from smolagents_memory.sessions import directory
from smolagents_memory.sessions.reading import read_one
from smolagents_memory.sessions.runs import last_run
from smolagents_memory.sessions.sensors import watched
from smolagents_memory.sessions.stepping import answer_of, iter_steps
from smolagents_memory.steps.notes import NoteStep
from smolagents_memory.variables.restore import RestoreReport
from smolagents_memory.variables.runtime import overridden_names


if TYPE_CHECKING:
    from smolagents_memory.sessions.attachment import Attachment


NO_ANSWER = "The run was interrupted before this call was answered; nobody knows how far it came."


def resume(attachment: Attachment, answers: Mapping[str, Any], max_steps: int | None) -> Any:
    """Go on with the last task to its answer; see `Session.resume`."""
    agent, memory = attachment.agent, attachment.agent.memory
    task = next((step for step in reversed(memory.steps) if isinstance(step, TaskStep)), None)
    if task is None:
        raise SessionError(
            f"session {attachment.session.session_id!r} holds no task to go on with: begin one with agent.run(…)"
        )
    run = last_run(attachment.journal)
    limit = max_steps or (run or {}).get("details", {}).get("max_steps") or agent.max_steps
    with watched(attachment.begin, limit):
        _take_back_forced_answer(memory, limit)
        _settle_last_step(memory, answers)
        if run is not None and run["state"] != "finished":
            attachment.log.go_on(run)
        steps = iter_steps(agent, max_steps=limit)
        if steps.done:  # it had its answer: take it as it was given, not as callbacks have cut it since
            given = answer_of([_original(attachment, _last_action(memory.steps))], agent.state)
            return handle_agent_output_types(steps.answer if given is None else given.value)
        asked = _original(attachment, task)  # callbacks may have added to its text and pruned its images since
        steps.task = agent.task = asked.task
        steps._images = asked.task_images
        for _ in steps:
            if steps.done:
                break
        return handle_agent_output_types(steps.answer)


def _take_back_forced_answer(memory: Any, limit: int) -> None:
    """With steps left again, the answer that was forced when they ran out is taken off the end."""
    last = memory.steps[-1]
    if isinstance(last, ActionStep) and isinstance(last.error, AgentMaxStepsError) and last.step_number <= limit:
        del memory.steps[-1]


def _settle_last_step(memory: Any, answers: Mapping[str, Any]) -> None:
    """Close the calls of a step that was left in the middle; take off one that had not come to any call."""
    step = memory.steps[-1]
    if not isinstance(step, ActionStep) or step.observations is not None or step.error is not None:
        unknown = set(answers)
    elif not step.tool_calls and not getattr(step.model_output_message, "tool_calls", None):
        if not step.is_final_answer:
            del memory.steps[-1]
        unknown = set(answers)
    else:
        calls = step.tool_calls or [
            ToolCall(name=call.function.name, arguments=call.function.arguments, id=call.id)
            for call in step.model_output_message.tool_calls
        ]
        step.tool_calls = calls
        step.observations = "\n".join(str(answers.get(call.id, NO_ANSWER)) for call in calls)
        unknown = set(answers) - {call.id for call in calls}
    if unknown:
        logger.warning("answers were given for calls that are not waiting for one: %s", sorted(unknown))


def take_up(attachment: Attachment) -> Callable[[Any], None]:
    """What a task that is taken up again needs of the session: the agent is told what did not come back, and what is
    returned takes back, once all is set up, what should not have been sent again."""
    _tell_what_is_missing(attachment)
    return _Withholding(attachment)


def _tell_what_is_missing(attachment: Attachment) -> None:
    note = attachment.report.note()
    if note:
        attachment.agent.memory.steps.append(NoteStep(note, kind="restored"))
        attachment.report = RestoreReport()
        attachment.runtime.tell_later({})


class _Withholding:
    """Takes back what a run's beginning sends again although the agent's code had deleted it."""

    def __init__(self, attachment: Attachment) -> None:
        executor = getattr(attachment.agent, "python_executor", None)
        self._there = set(getattr(executor, "state", None) or ())
        self._overridden = overridden_names(attachment.restored.runtime)

    def __call__(self, agent: Any) -> None:
        for name in self._overridden - self._there:
            agent.python_executor.state.pop(name, None)


def _last_action(steps: Sequence[MemoryStep]) -> ActionStep:
    return next(step for step in reversed(steps) if isinstance(step, ActionStep))


def _original(attachment: Attachment, step: MemoryStep) -> Any:
    """A live step as it was before any callback."""
    original = attachment.original_of(step)
    if original is None:
        return step
    with attachment.session.database.reading() as connection:
        row = directory.get(connection, attachment.journal.position.name)
        return read_one(connection, row, original)
