"""Old dumps: lists of `step.dict()`, as smolagents gives them and as people have been saving them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from PIL import Image
from smolagents.memory import (
    ActionStep,
    FinalAnswerStep,
    MemoryStep,
    PlanningStep,
    SystemPromptStep,
    TaskStep,
    ToolCall,
)
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole
from smolagents.monitoring import Timing, TokenUsage
from smolagents.utils import AgentError

from smolagents_memory.steps.notes import NoteStep
from smolagents_memory.upstream import AGENT_ERRORS


def read_steps(dump: list[dict[str, Any]]) -> tuple[list[MemoryStep], list[str]]:
    """The steps of an old dump, and what the dump had lost, or what of it cannot be read."""
    reader = _Reader()
    steps = []
    for index, data in enumerate(dump):
        try:
            steps.append(reader.step(data))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 — anything may be in such a file; the other steps are kept
            reader.lose(f"step {index}, which cannot be read ({type(error).__name__}: {str(error)[:80]})")
    return steps, [loss if times == 1 else f"{loss} ({times} times)" for loss, times in reader.losses.items()]


class _Reader:
    def __init__(self) -> None:
        self.losses: Counter[str] = Counter()

    def lose(self, what: str) -> None:
        self.losses[what] += 1

    def step(self, data: dict[str, Any]) -> MemoryStep:
        if "task" in data:
            return TaskStep(task=str(data["task"]), task_images=self.images(data.get("task_images")))
        if "plan" in data:
            return self.planning(data)
        if "system_prompt" in data:
            return SystemPromptStep(system_prompt=str(data["system_prompt"]))
        if "note" in data:
            known = {key: data[key] for key in ("kind", "created", "meta") if key in data}
            return NoteStep(str(data["note"]), role=MessageRole(data.get("role", "user")), **known)
        if "step_number" in data or "observations" in data or "step" in data:
            return self.action(data)
        if set(data) == {"output"}:
            return FinalAnswerStep(output=data["output"])
        raise ValueError(f"a step of no known kind, with {sorted(data)[:5]}")

    def action(self, data: dict[str, Any]) -> ActionStep:
        number = data.get("step_number", data.get("step", 0))
        step = ActionStep(step_number=int(number) if number is not None else 0, timing=self.timing(data))
        step.model_input_messages = self.messages(data.get("model_input_messages", data.get("agent_memory")))
        step.tool_calls = [self.call(call) for call in data.get("tool_calls") or ()] or None
        step.error = self.error(data.get("error"))
        step.model_output_message = self.message(data.get("model_output_message"))
        step.model_output = data.get("model_output", data.get("llm_output"))
        for name in ("code_action", "observations", "action_output"):
            setattr(step, name, data.get(name))
        step.observations_images = self.images(data.get("observations_images"))
        step.token_usage = self.usage(data.get("token_usage"))
        step.is_final_answer = bool(data.get("is_final_answer", False))
        if isinstance(step.action_output, dict) and "_type" in step.action_output:
            self.lose(f"the class of an action's output ({step.action_output['_type']})")
        return step

    def planning(self, data: dict[str, Any]) -> PlanningStep:
        plan, usage = str(data["plan"]), self.usage(data.get("token_usage"))
        asked = self.messages(data.get("model_input_messages")) or []
        answer = self.message(data.get("model_output_message")) or ChatMessage(MessageRole.ASSISTANT, plan)
        return PlanningStep(asked, answer, plan, self.timing(data), usage)

    def timing(self, data: Mapping[str, Any]) -> Timing:
        nested = data.get("timing")
        times: Mapping[str, Any] = nested if isinstance(nested, dict) else data
        start, end = times.get("start_time"), times.get("end_time")
        if start is None:
            self.lose("the time of a step")
        return Timing(start_time=float(start or 0.0), end_time=None if end is None else float(end))

    def usage(self, data: Any) -> TokenUsage | None:
        if not isinstance(data, dict):
            return None
        return TokenUsage(input_tokens=int(data["input_tokens"]), output_tokens=int(data["output_tokens"]))

    def call(self, data: dict[str, Any]) -> ToolCall:
        function = data.get("function", data)
        return ToolCall(name=function.get("name"), arguments=function.get("arguments"), id=data.get("id"))

    def error(self, data: Any) -> AgentError | None:
        if data is None:
            return None
        name, message = (data.get("type"), data.get("message")) if isinstance(data, dict) else (None, str(data))
        cls = AGENT_ERRORS.get(str(name))
        if cls is None:
            self.lose(f"the class of an error ({name})")
            cls = AgentError
        error: AgentError = cls.__new__(cls, message)
        error.message = message
        return error

    def images(self, data: Any) -> list[Image.Image] | None:
        kept = []
        for image in data if isinstance(data, list) else ():
            if isinstance(image, Image.Image):
                kept.append(image)
            else:
                self.lose("an image, of which the dump keeps neither size nor mode")
        return kept or None

    def messages(self, data: Any) -> list[ChatMessage] | None:
        if not isinstance(data, list):
            return None
        return [message for message in map(self.message, data) if message is not None]

    def message(self, data: Any) -> ChatMessage | None:
        if not isinstance(data, dict):
            if data is not None:
                self.lose("a message that the dump keeps only as text")
            return None
        role, content = MessageRole(data.get("role", "assistant")), self.content(data.get("content"))
        calls = [self.message_call(call) for call in data.get("tool_calls") or ()]
        usage = self.usage(data.get("token_usage"))
        return ChatMessage(role=role, content=content, tool_calls=calls or None, token_usage=usage)

    def message_call(self, data: dict[str, Any]) -> ChatMessageToolCall:
        known = {name: data["function"].get(name) for name in ("arguments", "name", "description")}
        made = ChatMessageToolCallFunction(**known)
        return ChatMessageToolCall(function=made, id=data.get("id"), type=data.get("type", "function"))

    def content(self, data: Any) -> str | list[dict[str, Any]] | None:
        if data is None or isinstance(data, str):
            return data
        if isinstance(data, dict):
            return self.text(data)
        return [self.part(part) for part in data]

    def part(self, part: Any) -> dict[str, Any]:
        if isinstance(part, dict) and part.get("type") == "text":
            return {**part, "text": self.text(part.get("text"))}
        if isinstance(part, dict) and isinstance(part.get("image"), Image.Image):
            return part
        self.lose("an image in a message")
        return {"type": "text", "text": "[an image that was lost when this memory was dumped]"}

    def text(self, data: Any) -> str:
        if isinstance(data, str):
            return data
        self.lose("the exact wording of a text that looked like JSON")
        return json.dumps(data)
