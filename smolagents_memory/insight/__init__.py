"""An agent's memory as a person or a program wants to look at it."""

from smolagents_memory.insight.conversation import Message, conversation
from smolagents_memory.insight.executions import ToolExecution, ToolResult, tool_executions
from smolagents_memory.insight.finding import find_steps
from smolagents_memory.insight.injection import briefing, inject_history, inject_observation, inject_task
from smolagents_memory.insight.playback import replay
from smolagents_memory.insight.react import ReactMemory
from smolagents_memory.insight.report import to_markdown
from smolagents_memory.insight.statistics import Comparison, MemoryStats, analyze, compare
from smolagents_memory.insight.telemetry import trace_events
from smolagents_memory.insight.trace import ReasoningStep, Todo, reasoning, todos


__all__ = [
    "Comparison",
    "MemoryStats",
    "Message",
    "ReactMemory",
    "ReasoningStep",
    "Todo",
    "ToolExecution",
    "ToolResult",
    "analyze",
    "briefing",
    "compare",
    "conversation",
    "find_steps",
    "inject_history",
    "inject_observation",
    "inject_task",
    "reasoning",
    "replay",
    "to_markdown",
    "todos",
    "tool_executions",
    "trace_events",
]
