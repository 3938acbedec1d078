"""Going on with a task that was interrupted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from smolagents.agent_types import handle_agent_output_types
from smolagents.memory import ActionStep, MemoryStep, ToolCall
from smolagents.utils import AgentMaxStepsError

from smolagents_memory._errors import SessionError
from smolagents_memory._log import logger
from smolagents_memory.history.stepping import iter_steps
from smolagents_memory.sessions.runs import last_run
from smolagents_memory.steps.answers import answer_of, last_task
from smolagents_memory.steps.kinds import is_action, is_task
from smolagents_memory.steps.marks import CLOSED, set_mark


if TYPE_CHECKING:
    from smolagents_memory.sessions.attachment import Attachment


NO_ANSWER = "The run was interrupted before this call was answered; nobody knows how far it came."


def resume(attachment: Attachment, answers: Mapping[str, Any], max_steps: int | None) -> Any:
    """Go on with the last task to its answer; see `Session.resume`."""
    agent, memory = attachment.agent, attachment.agent.memory
    task = next((step for step in reversed(memory.steps) if is_task(step)), None)
    if task is None:
        raise SessionError(
            f"session {attachment.session.session_id!r} holds no task to go on with: begin one with agent.run(…)"
        )
    run = last_run(attachment.journal)
    limit = max_steps or (run or {}).get("details", {}).get("max_steps") or agent.max_steps
    attachment.check_ownership()
    _take_back_forced_answer(memory, limit)
    _settle_last_step(memory, answers)
    steps = iter_steps(agent, max_steps=limit)
    if not any(map(is_action, memory.steps[last_task(memory.steps) :])):
        steps.step_number = _next_number(attachment)
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


def _next_number(attachment: Attachment) -> int:
    """The number that the next step has by the journal: callbacks have left no step of the run in memory."""
    transcript = attachment.session.transcript()
    made = [(at, number) for at, number, run in transcript.actions() if run == transcript.last_run]
    if not made:
        return 1
    at, number = made[-1]
    last = transcript[at].original
    again = isinstance(last, ActionStep) and (isinstance(last.error, AgentMaxStepsError) or _came_to_nothing(last))
    return number if again else number + 1


def _is_open(step: ActionStep) -> bool:
    return step.observations is None and step.error is None and not step.is_final_answer


def _came_to_nothing(step: ActionStep) -> bool:
    """Whether a step was left before it came to any call."""
    return _is_open(step) and not _calls_in(step)


def _calls_in(step: ActionStep) -> list[ToolCall]:
    return step.tool_calls or [
        ToolCall(name=call.function.name, arguments=call.function.arguments, id=call.id)
        for call in getattr(step.model_output_message, "tool_calls", None) or ()
    ]


def _take_back_forced_answer(memory: Any, limit: int) -> None:
    """With steps left again, the answer that was forced when they ran out is taken off the end."""
    last = memory.steps[-1]
    if is_action(last) and isinstance(last.error, AgentMaxStepsError) and last.step_number <= limit:
        del memory.steps[-1]


def _settle_last_step(memory: Any, answers: Mapping[str, Any]) -> None:
    """Close the calls of a step that was left in the middle; take off one that had not come to any call."""
    step = memory.steps[-1]
    calls: list[ToolCall] = []
    if is_action(step) and _is_open(step):
        calls = _calls_in(step)
        if calls:
            step.tool_calls = calls
            step.observations = "\n".join(str(answers.get(call.id, NO_ANSWER)) for call in calls)
            set_mark(step, CLOSED, [place for place, call in enumerate(calls) if call.id not in answers])
        else:
            del memory.steps[-1]
    if unknown := set(answers) - {call.id for call in calls}:
        logger.warning("answers were given for calls that are not waiting for one: %s", sorted(unknown))


def _last_action(steps: Sequence[MemoryStep]) -> ActionStep:
    return next(step for step in reversed(steps) if is_action(step))


def _original(attachment: Attachment, step: MemoryStep) -> Any:
    """A live step as it was before any callback."""
    return step if attachment.original_of(step) is None else attachment.session.original(step)
