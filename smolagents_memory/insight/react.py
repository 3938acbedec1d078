"""ReactMemory: one agent's memory as five lists, to read and to add to."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from smolagents import AgentLogger, AgentToolExecutionError, LogLevel
from smolagents.memory import ToolCall
from smolagents.models import MessageRole

from smolagents_memory.insight.conversation import Message, conversation
from smolagents_memory.insight.executions import ToolExecution, tool_executions
from smolagents_memory.insight.injection import add_action, steps_of
from smolagents_memory.insight.trace import ReasoningStep, Todo, reasoning, todos
from smolagents_memory.steps.notes import NoteStep
from smolagents_memory.steps.texts import role_name


@dataclass
class ReactMemory:
    """What an agent said, did, thought and plans, as lists of plain dataclasses.

    The lists are a picture of the moment; `refresh()` takes it anew, and everything that adds does so itself. What
    is added becomes a step of the agent, so that the model reads it.

    Attributes:
        conversation_history: What the model reads, see `conversation`.
        tool_executions: See `tool_executions`.
        reasoning_trace: See `reasoning`.
        context: The agent's own `state`: the variables that its tools share.
        todos: The items of the newest plan.

    >>> from smolagents import ToolCallingAgent
    >>> from smolagents_memory.testing import ScriptedModel
    >>> agent = ToolCallingAgent([], ScriptedModel([]), verbosity_level=0)
    >>> memory = ReactMemory.from_agent(agent)
    >>> memory.add_message("user", "I am allergic to nuts.")
    >>> [message.content for message in memory.get_messages_by_role("user")]
    ['I am allergic to nuts.']
    >>> agent.write_memory_to_messages()[-1].content
    [{'type': 'text', 'text': 'I am allergic to nuts.'}]
    """

    conversation_history: list[Message] = field(default_factory=list)
    tool_executions: list[ToolExecution] = field(default_factory=list)
    reasoning_trace: list[ReasoningStep] = field(default_factory=list)
    context: dict[str, Any] = field(default_factory=dict)
    todos: list[Todo] = field(default_factory=list)
    source: Any = field(default_factory=list, repr=False, compare=False)

    @classmethod
    def from_agent(cls, agent: Any) -> ReactMemory:
        """The memory of an agent (or of an AgentMemory, or a list of steps)."""
        memory = cls(context=getattr(agent, "state", {}), source=agent)
        memory.refresh()
        return memory

    def refresh(self) -> None:
        """Read the agent's steps anew."""
        self.conversation_history = conversation(self.source)
        self.tool_executions = tool_executions(self.source)
        self.reasoning_trace = reasoning(self.source)
        self.todos = todos(self.source)

    def get_messages(self, last: int | None = None) -> list[Message]:
        """All messages as they are now, or the `last` ones."""
        self.refresh()
        return self.conversation_history if last is None else self.conversation_history[-last:] if last else []

    def get_messages_by_role(self, role: str) -> list[Message]:
        """The messages of one role: "system", "user", "assistant", "tool-call" or "tool-response"."""
        return [message for message in self.get_messages() if message.role == role_name(role)]

    def add_message(self, role: str, content: str) -> None:
        """Let the model read `content` under `role` from now on."""
        steps_of(self.source).append(NoteStep(content, role=MessageRole(role_name(role))))
        self.refresh()

    def add_tool_execution(self, execution: ToolExecution) -> None:
        """Let the model see that a tool was called, with what, and what came of it."""
        result, failure = execution.result, None
        started = time.time() if execution.timestamp is None else execution.timestamp.timestamp()
        if not result.success:
            message = result.error or f"the call of {execution.tool_name!r} failed"
            failure = AgentToolExecutionError(message, AgentLogger(level=LogLevel.OFF))
        identity = execution.call_id or f"added_{len(steps_of(self.source))}"
        add_action(
            self.source,
            started,
            result.execution_time or 0.0,
            tool_calls=[ToolCall(execution.tool_name, execution.params, identity)],
            observations=None if result.result is None else str(result.result),
            action_output=result.result,
            error=failure,
        )
        self.refresh()
