"""A run as a Markdown report."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from smolagents.memory import ActionStep, MemoryStep

from smolagents_memory.insight.conversation import duration, moment, started
from smolagents_memory.insight.recorded import Source, read_memory
from smolagents_memory.insight.trace import thought_of
from smolagents_memory.privacy.scrubbers import rule
from smolagents_memory.steps.answers import answer_of
from smolagents_memory.steps.calls import calls_made
from smolagents_memory.steps.kinds import images_of, kind_of, title_of
from smolagents_memory.steps.texts import role_name, shown, text_of


def to_markdown(
    memory: Source, title: str = "Agent memory", *, system_prompt: bool = False, redact: Any = None
) -> str:
    """The whole history as a Markdown document; what agents, tools and users wrote is quoted, never rendered.

    With `redact` (True, a `Redactor`, a function of a text) it is redacted; by default where the memory's or the
    session's own place redacts, and False for never.

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
    return rule(redact, memory)("\n\n".join(blocks) + "\n")


def fenced(text: Any, language: str = "text") -> str:
    """A text as a code block whose fence is longer than any in the text."""
    content = text_of(text)
    longest = max((len(run) for run in re.findall(r"`{3,}", content)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{content}\n{fence}"


def _blocks(step: MemoryStep) -> Iterator[str]:
    kind = kind_of(step)
    if kind.role == "action":
        yield from _action(step)
    elif not kind.title or kind.text is None:
        for message in shown(step):
            yield from (f"### {title_of(step).capitalize()} ({role_name(message.role)})", fenced(message.content))
    else:
        heading = {"task": "## {}", "final": "**{}**"}.get(kind.role, "### {}").format(kind.title)
        yield from (heading + _figures(step), fenced(getattr(step, kind.text, None)))
    if kind.role != "action":
        yield from _images(step)


def _action(step: ActionStep) -> Iterator[str]:
    yield f"### Step {step.step_number}{_figures(step)}"
    thought = thought_of(step)
    if thought:
        yield from ("**Thought**", fenced(thought))
    for call in calls_made(step):
        as_code = isinstance(call.arguments, str)
        yield from (f"**{call.tool}**", fenced(call.arguments, "python") if as_code else _arguments(call.arguments))
    if step.observations is not None:
        yield from ("**Observation**", fenced(step.observations))
    yield from _images(step)
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


def _images(step: MemoryStep) -> Iterator[str]:
    for image in images_of(step):
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
