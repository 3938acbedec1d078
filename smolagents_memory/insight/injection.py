"""Putting things into an agent's memory by hand, as steps that everything else can work with."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Sequence
from typing import Any

from smolagents.memory import ActionStep, MemoryStep, TaskStep, Timing
from smolagents.models import ChatMessage, MessageRole

from smolagents_memory.insight.recorded import Source, read_memory
from smolagents_memory.steps.answers import current_task, last_number
from smolagents_memory.steps.kinds import drop_inputs_of, is_final, is_models, is_prompt
from smolagents_memory.steps.notes import NoteStep
from smolagents_memory.steps.rendering import text_message
from smolagents_memory.steps.texts import read_content, role_name, shown, text_of
from smolagents_memory.steps.tokens import message_tokens


Target = Any  # an agent, its memory, or a plain list of steps

_LEFT_OUT = "[{count} messages between these were left out to save space.]"


def steps_of(target: Target) -> list[MemoryStep]:
    """The live list of steps of an agent or a memory."""
    steps = target if isinstance(target, list) else getattr(getattr(target, "memory", target), "steps", None)
    if not isinstance(steps, list):
        raise TypeError(
            f"steps can be put into an agent, its memory or a list, not into a {type(target).__name__}; "
            "a session follows the agent it is attached to"
        )
    return steps


def inject_task(target: Target, task: str, images: list[Any] | None = None) -> TaskStep:
    """Add a task, as if the user had given it. It is not run; `iter_steps(agent)` would go on with it."""
    step = TaskStep(task=task, task_images=images)
    steps_of(target).append(step)
    return step


def inject_observation(target: Target, observation: str, images: list[Any] | None = None) -> ActionStep:
    """Add something that the agent is to have observed. It takes none of the run's steps.

    >>> from smolagents.memory import AgentMemory
    >>> memory = AgentMemory("You are helpful.")
    >>> step = inject_observation(memory, "The service was restarted at noon.")
    >>> step.to_messages()[0].content[0]["text"]
    'Observation:\\nThe service was restarted at noon.'
    """
    return add_action(target, time.time(), observations=observation, observations_images=images)


def add_action(target: Target, started: float, seconds: float = 0.0, **held: Any) -> ActionStep:
    """Add an action that takes none of the run's steps: its number is that of the last."""
    steps = steps_of(target)
    number = last_number(steps[current_task(steps) or 0 :])
    step = ActionStep(step_number=number, timing=Timing(start_time=started, end_time=started + seconds), **held)
    steps.append(step)
    return step


def inject_history(target: Target, history: Source | Sequence[ChatMessage]) -> list[MemoryStep]:
    """Add another agent's history: from the agent, its memory, a session or a file, or from `briefing`.

    Its steps are copied, without what their model calls were sent and had cost; a message becomes a NoteStep. They
    come before a task that is under way, else at the end.
    """
    steps = steps_of(target)
    if isinstance(history, Sequence) and history and isinstance(history[0], ChatMessage):
        added: list[MemoryStep] = [_as_note(message) for message in history]
    else:
        recorded = read_memory(history)
        added = [_copied(step) for step in recorded.steps if not is_prompt(step)]
    begun = current_task(steps)
    at = len(steps) if begun is None else begun
    steps[at:at] = added
    return added


def _copied(step: MemoryStep) -> MemoryStep:
    if is_final(step):
        return _as_note(shown(step)[0])
    step = copy.copy(step)
    drop_inputs_of(step)
    if is_models(step):
        step.token_usage = None
    for name, value in vars(step).items():
        if isinstance(value, list):
            setattr(step, name, list(value))
    if is_models(step) and step.timing is None:
        now = time.time()
        step.timing = Timing(start_time=now, end_time=now)
    return step


def _as_note(message: ChatMessage) -> NoteStep:
    text, images = read_content(message.content)
    if images:
        text = f"{text}\n[{len(images)} image{'s' if len(images) > 1 else ''} not handed over]".lstrip("\n")
    return NoteStep(text, kind="history", role=MessageRole(role_name(message.role)))


def briefing(memory: Source, max_tokens: int | None = None) -> list[ChatMessage]:
    """A history as messages to hand to another agent, without the system prompt.

    With `max_tokens` the first message (the task) and as many of the newest as fit are kept, with a line that says
    how many are missing between them. Tokens are estimated: four bytes each, a thousand for an image.

    >>> from smolagents.memory import TaskStep
    >>> [message.content[0]["text"] for message in briefing([TaskStep("Count to three.")])]
    ['New task:\\nCount to three.']
    """
    if max_tokens is not None and max_tokens < 1:
        raise ValueError(f"max_tokens is at least 1, not {max_tokens}")
    messages = [message for step in read_memory(memory).steps if not is_prompt(step) for message in shown(step)]
    if max_tokens is None or sum(map(estimated_tokens, messages)) <= max_tokens:
        return messages
    first, room = messages[0], max_tokens
    if estimated_tokens(first) > room // 2:
        fitting = max(0, 4 * (room // 2) - 4)
        begun = text_of(first.content).encode("utf-8", "surrogatepass")[:fitting].decode("utf-8", "ignore")
        first = text_message(first.role, f"{begun}…")
    gap = text_message(MessageRole.USER, _LEFT_OUT.format(count=len(messages)))
    room -= estimated_tokens(first) + estimated_tokens(gap)
    kept = len(messages)
    while kept > 1 and estimated_tokens(messages[kept - 1]) <= room:
        kept -= 1
        room -= estimated_tokens(messages[kept])
    while kept < len(messages) and role_name(messages[kept].role) == "tool-response":
        kept += 1  # an answer whose call was left out
    if room < 0:  # not even the line fits
        return [first]
    return [first, text_message(MessageRole.USER, _LEFT_OUT.format(count=kept - 1)), *messages[kept:]]


def estimated_tokens(message: ChatMessage) -> int:
    """The message's tokens in whole ones, and never less than one."""
    return max(1, math.ceil(message_tokens([message])))
