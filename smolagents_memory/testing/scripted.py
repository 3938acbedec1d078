"""ScriptedModel: a real smolagents model that plays a script, so that agents run the same way every time."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from smolagents.models import (
    ChatMessage,
    ChatMessageStreamDelta,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    ChatMessageToolCallStreamDelta,
    MessageRole,
    Model,
)
from smolagents.monitoring import TokenUsage

from smolagents_memory._errors import ScriptError


@dataclass(frozen=True)
class PlannedCall:
    """One tool call of a script; made by `call`."""

    name: str
    arguments: dict[str, Any]
    id: str | None = None


def call(name: str, /, _id: str | None = None, **arguments: Any) -> PlannedCall:
    """A tool call for a ToolCallingAgent's script; put several in a list to make them in parallel.

    >>> call("web_search", query="smolagents").arguments
    {'query': 'smolagents'}
    """
    return PlannedCall(name, arguments, _id)


def code(source: str, thought: str = "", tags: tuple[str, str] = ("<code>", "</code>")) -> str:
    """A CodeAgent's output: a thought, then a code block between the agent's tags.

    >>> print(code("x = 1", thought="I begin."))
    Thought: I begin.
    <code>
    x = 1
    </code>
    """
    return f"Thought: {thought or 'I run the next piece of code.'}\n{tags[0]}\n{source.strip()}\n{tags[1]}"


@dataclass
class ModelCall:
    """What the model was sent in one call. The messages are copies: later edits of memory do not reach them."""

    messages: list[ChatMessage]
    stop_sequences: list[str] | None = None
    tools: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def images(self) -> list[Any]:
        """Every image in the messages, in order."""
        return [part["image"] for part in self._parts() if part.get("type") == "image"]

    @property
    def text(self) -> str:
        """All the text of the messages, joined by newlines."""
        return "\n".join(str(part.get("text", "")) for part in self._parts() if part.get("type") == "text")

    def _parts(self) -> Iterable[dict[str, Any]]:
        for message in self.messages:
            if isinstance(message.content, str):
                yield {"type": "text", "text": message.content}
            else:
                yield from message.content or ()


Output: TypeAlias = str | ChatMessage | PlannedCall | Sequence[PlannedCall] | BaseException | type[BaseException]
Script: TypeAlias = Iterable[Output | Callable[[list[ChatMessage]], Output]]


class ScriptedModel(Model):
    """Plays a script of outputs, one a call, and records what it was sent. No network, no randomness.

    Args:
        script: What to answer, in order. Each entry is a text (for a CodeAgent see `code`), a tool call or a list
            of them (`call`), a ChatMessage, an exception to raise, or a function of the messages that gives one of
            these. A generator may go on for ever.
        model_id: The name that the agent logs.
        record: "all" keeps every call in `calls`, "last" only the newest, "none" none (for very long runs).

    >>> from smolagents import CodeAgent
    >>> from smolagents_memory.testing import ScriptedModel, code
    >>> model = ScriptedModel([code("final_answer(6 * 7)")])
    >>> CodeAgent(tools=[], model=model, verbosity_level=0).run("What is six times seven?")
    42
    >>> len(model.calls)
    1
    """

    def __init__(
        self, script: Script, *, model_id: str = "scripted", record: Literal["all", "last", "none"] = "all"
    ) -> None:
        super().__init__(model_id=model_id)
        self.calls: list[ModelCall] = []
        self.record = record
        self._script = iter(script)
        self._played = 0
        self._ids = itertools.count(1)
        self._lock = threading.Lock()

    def generate(
        self,
        messages: list[ChatMessage],
        stop_sequences: list[str] | None = None,
        response_format: dict[str, str] | None = None,
        tools_to_call_from: list[Any] | None = None,
        **kwargs: Any,
    ) -> ChatMessage:
        """Answer with the script's next entry."""
        with self._lock:
            self._remember(messages, stop_sequences, tools_to_call_from, kwargs)
            output = self._next()
        if callable(output) and not isinstance(output, type):
            output = output(messages)
        if isinstance(output, BaseException) or (isinstance(output, type) and issubclass(output, BaseException)):
            raise output
        message = self._message(output)
        if message.token_usage is None:
            message.token_usage = _estimated_usage(messages, message)
        return message

    def generate_stream(
        self, messages: list[ChatMessage], *args: Any, **kwargs: Any
    ) -> Generator[ChatMessageStreamDelta, None, None]:
        """The same answer as `generate`, in pieces of a few characters."""
        message = self.generate(messages, *args, **kwargs)
        text = message.content if isinstance(message.content, str) else ""
        for start in range(0, len(text), 16):
            yield ChatMessageStreamDelta(content=text[start : start + 16])
        for index, tool_call in enumerate(message.tool_calls or ()):
            written = ChatMessageToolCallFunction(
                arguments=json.dumps(tool_call.function.arguments), name=tool_call.function.name
            )
            delta = ChatMessageToolCallStreamDelta(index=index, id=tool_call.id, type=tool_call.type, function=written)
            yield ChatMessageStreamDelta(tool_calls=[delta])
        yield ChatMessageStreamDelta(content="", token_usage=message.token_usage)

    def _next(self) -> Any:
        try:
            output = next(self._script)
        except StopIteration:
            raise ScriptError(
                f"the script of {self.model_id!r} has {self._played} entries and was asked for one more; "
                "give it another entry, or a generator that goes on"
            ) from None
        self._played += 1
        return output

    def _message(self, output: Any) -> ChatMessage:
        if isinstance(output, ChatMessage):
            return output
        if isinstance(output, str):
            return ChatMessage(role=MessageRole.ASSISTANT, content=output)
        calls = [output] if isinstance(output, PlannedCall) else output
        if not isinstance(calls, Sequence) or not all(isinstance(planned, PlannedCall) for planned in calls):
            raise ScriptError(
                f"entry {self._played} of the script is a {type(output).__name__}; "
                "it can be a text, call(…), a list of call(…), a ChatMessage, an exception or a function"
            )
        tool_calls = [
            ChatMessageToolCall(
                id=planned.id or f"call_{next(self._ids)}",
                type="function",
                function=ChatMessageToolCallFunction(name=planned.name, arguments=dict(planned.arguments)),
            )
            for planned in calls
        ]
        return ChatMessage(role=MessageRole.ASSISTANT, content=None, tool_calls=tool_calls)

    def _remember(self, messages: list[ChatMessage], stops: Any, tools: Any, options: dict[str, Any]) -> None:
        if self.record == "none":
            return
        sent = ModelCall(
            [_copy(message) for message in messages], stops, [tool.name for tool in tools or ()], dict(options)
        )
        if self.record == "last":
            self.calls.clear()
        self.calls.append(sent)


def _copy(message: ChatMessage) -> ChatMessage:
    content = message.content
    if isinstance(content, list):
        content = [dict(part) for part in content]
    return ChatMessage(role=message.role, content=content, tool_calls=message.tool_calls)


def _estimated_usage(messages: list[ChatMessage], answer: ChatMessage) -> TokenUsage:
    """Four characters a token, 1,000 tokens an image: an estimate that never changes from run to run."""
    sent = ModelCall(messages)
    written = str(answer.content or "") + "".join(str(call.function.arguments) for call in answer.tool_calls or ())
    return TokenUsage(
        input_tokens=len(sent.text) // 4 + 1000 * len(sent.images), output_tokens=max(1, len(written) // 4)
    )
