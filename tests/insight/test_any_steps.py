"""Whatever a history may hold, it can be looked at."""

from __future__ import annotations

import io
import json

import strategies
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console
from smolagents import AgentLogger

from smolagents_memory import (
    analyze,
    briefing,
    conversation,
    find_steps,
    inject_history,
    reasoning,
    replay,
    to_markdown,
    todos,
    tool_executions,
)


@given(steps=st.lists(strategies.steps, max_size=4))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_every_view_bears_any_steps(steps: list[object]) -> None:
    """Arrays, cycles, broken text, foreign calls: nothing crashes, and what is counted agrees with what is listed."""
    stats = analyze(steps)
    json.dumps(stats.to_dict())
    assert stats.messages.total_messages == len(conversation(steps))
    assert stats.steps.step_distribution.get("ACT", 0) == sum(e.source == "call" for e in tool_executions(steps))
    assert sum(stats.steps.step_distribution.values()) == len(reasoning(steps))
    todos(steps)
    find_steps(steps, pattern="a", tool="a", error="a", since=0.0)
    to_markdown(steps)
    inject_history([], steps)
    inject_history([], briefing(steps, max_tokens=50))
    replay(steps, logger=AgentLogger(console=Console(file=io.StringIO(), width=80)))
    str(stats)
