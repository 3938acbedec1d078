"""Finding steps by what was seen in them, which tool they used, how they failed and when they were."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timezone

from smolagents.memory import MemoryStep

from smolagents_memory._brief import brief
from smolagents_memory._errors import UnsupportedValueError
from smolagents_memory.insight.conversation import moment, started
from smolagents_memory.insight.executions import tool_executions
from smolagents_memory.insight.recorded import Recorded, Source, read_memory
from smolagents_memory.steps.kinds import came_back, is_action
from smolagents_memory.steps.texts import text_of


def find_steps(
    memory: Source,
    *,
    pattern: str | re.Pattern[str] | None = None,
    tool: str | None = None,
    error: bool | str | type[BaseException] | None = None,
    since: datetime | float | None = None,
) -> list[MemoryStep]:
    """The steps that meet every condition given, in order.

    Args:
        memory: Where to look.
        pattern: A regular expression that is found in the observations.
        tool: The name of a tool that the step called, also inside code.
        error: True for steps that failed, False for actions that did not; the name of an error's class, or the class;
            any other text is looked for in the error's message.
        since: Only steps that began then or later, as a date or in seconds since 1970.

    >>> from smolagents.memory import ActionStep
    >>> steps = [ActionStep(1, None, observations="404 not found"), ActionStep(2, None, observations="fine")]
    >>> [step.step_number for step in find_steps(steps, pattern=r"\\b4\\d\\d\\b")]
    [1]
    """
    recorded = read_memory(memory)
    conditions: list[Callable[[MemoryStep], bool]] = []
    if pattern is not None:
        seen = _compiled(pattern)
        conditions.append(lambda step: bool(seen.search(text_of(came_back(step)))))
    if tool is not None:
        conditions.append(lambda step: bool(tool_executions(Recorded([step], tools=recorded.tools), tool)))
    if error is not None:
        conditions.append(lambda step: _failed_like(step, error))
    if since is not None:
        # both as dates: a date has microseconds only, and a step's own date must find the step
        earliest = _date(since)
        conditions.append(lambda step: (begun := moment(started(step))) is not None and begun >= earliest)
    return [step for step in recorded.steps if all(holds(step) for holds in conditions)]


def _compiled(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (TypeError, ValueError, OverflowError, RecursionError, re.error) as error:
        raise UnsupportedValueError(
            f"the pattern is a regular expression, not {brief(pattern)} ({type(error).__name__})"
        ) from error


def _date(since: datetime | float) -> datetime:
    try:
        date = since if isinstance(since, datetime) else datetime.fromtimestamp(since, tz=timezone.utc)
        return date.astimezone(timezone.utc)
    except (TypeError, ValueError, OverflowError, OSError):
        raise UnsupportedValueError(f"since is a date, or seconds since 1970, not {brief(since)}") from None


def _failed_like(step: MemoryStep, wanted: bool | str | type[BaseException]) -> bool:
    found = getattr(step, "error", None)
    if wanted is False:
        return is_action(step) and found is None
    if found is None or wanted is True:
        return found is not None
    if isinstance(wanted, str):
        return wanted in [cls.__name__ for cls in type(found).__mro__] or wanted in str(found)
    return isinstance(found, wanted)
