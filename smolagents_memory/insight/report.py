"""A run as a Markdown report."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from smolagents.memory import ActionStep, FinalAnswerStep, MemoryStep, PlanningStep, SystemPromptStep, TaskStep

from smolagents_memory.insight.conversation import duration, messages_of, moment, role_name, started, text_of
from smolagents_memory.insight.executions import calls_made
from smolagents_memory.insight.sources import Source, read_memory
from smolagents_memory.insight.trace import thought_of
from smolagents_memory.sessions.stepping import answer_of


def to_markdown(memory: Source, title: str = "Agent memory", *, system_prompt: bool = False) -> str:
    """The whole history as a Markdown document; what agents, tools and users wrote is quoted, never rendered.

    >>> from smolagents.memory import TaskStep
    >>> print(to_markdown([TaskStep("Count to three.")]))
    # Agent memory
    <BLANKLINE>
    ## Task
    <BLANKLINE>
    ```text
    Count to three.
    ```
    <BLANKLINE>
    """
    recorded = read_memory(memory)
    blocks = [f"# {' '.join(title.split())}"]
    if system_prompt and recorded.system_prompt is not None:
        blocks += ["## System prompt", fenced(recorded.system_prompt)]
    for step in recorded.steps:
        blocks += _blocks(step)
    return "\n\n".join(blocks) + "\n"


def fenced(text: Any, language: str = "text") -> str:
    """A text as a code block whose fence is longer than any in the text."""
    content = text_of(text)
    longest = max((len(run) for run in re.findall(r"`{3,}", content)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{content}\n{fence}"


def _blocks(step: MemoryStep) -> Iterator[str]:
    if isinstance(step, TaskStep):
        yield from ("## Task", fenced(step.task), *_images(step.task_images))
    elif isinstance(step, PlanningStep):
        yield from (f"### Plan{_figures(step)}", fenced(step.plan))
    elif isinstance(step, ActionStep):
        yield from _action(step)
    elif isinstance(step, FinalAnswerStep):
        yield from ("**Final answer**", fenced(step.output))
    elif isinstance(step, SystemPromptStep):
        yield from ("### System prompt", fenced(step.system_prompt))
    else:
        kind = getattr(step, "kind", type(step).__name__)
        for message in messages_of(step):
            yield from (f"### {str(kind).capitalize()} ({role_name(message.role)})", fenced(message.content))


def _action(step: ActionStep) -> Iterator[str]:
    yield f"### Step {step.step_number}{_figures(step)}"
    thought = thought_of(step)
    if thought:
        yield from ("**Thought**", fenced(thought))
    for execution in calls_made(step):
        if isinstance(execution.params, str):
            yield from (f"**{execution.tool_name}**", fenced(execution.params, "python"))
        else:
            yield from (f"**{execution.tool_name}**", _arguments(execution.params))
    if step.observations is not None:
        yield from ("**Observation**", fenced(step.observations))
    yield from _images(step.observations_images)
    if step.error is not None:
        yield from (f"**{type(step.error).__name__}**", fenced(str(step.error)))
    answer = answer_of([step])
    if answer is not None:
        yield from ("**Final answer**", fenced(answer.value))


def _arguments(params: Any) -> str:
    try:
        return fenced(json.dumps(params, indent=2, ensure_ascii=False, default=repr), "json")
    except (TypeError, ValueError, RecursionError):  # keys that are no texts, a list that holds itself
        return fenced(repr(params))


def _images(images: list[Any] | None) -> Iterator[str]:
    for image in images or ():
        width, height = getattr(image, "size", ("?", "?"))
        yield f"*Image, {width} × {height}*"


def _figures(step: Any) -> str:
    """When, how long, and at what cost, as far as the step says."""
    figures = []
    begun, took = moment(started(step)), duration(step)
    if begun is not None:
        figures.append(f"{begun:%Y-%m-%d %H:%M:%S} UTC")
    if took is not None:
        figures.append(f"{took:.2f} s")
    usage = getattr(step, "token_usage", None)
    if usage is not None:
        figures.append(f"{usage.input_tokens or 0:,} tokens in, {usage.output_tokens or 0:,} out")
    return "".join(f" · {figure}" for figure in figures)
