"""The messages that a step shows the model, as smolagents 1.20 to 1.26 render them, a function a class.

Input messages are stored as references to these. They are rendered here, not by smolagents, because a reference must
give the same text for ever: if smolagents changes its wording, new messages no longer match and are stored whole.
`None` stands for a message that the step lacks or that cannot be told; always the same for the same step.
"""

from __future__ import annotations

from smolagents.memory import ActionStep, PlanningStep, SystemPromptStep, TaskStep, ToolCall
from smolagents.models import ChatMessage, MessageRole

from smolagents_memory.steps.notes import NoteStep


Rendered = list[ChatMessage | None]


def text_message(role: MessageRole, text: str) -> ChatMessage:
    """A message of one text."""
    return ChatMessage(role=role, content=[{"type": "text", "text": text}])


def note(step: NoteStep) -> Rendered:
    """The note, under its role."""
    return [text_message(step.role, step.text)]


def prompt(step: SystemPromptStep) -> Rendered:
    """The system prompt."""
    return [text_message(MessageRole.SYSTEM, step.system_prompt)]


def task(step: TaskStep) -> Rendered:
    """The task with its images."""
    message = text_message(MessageRole.USER, f"New task:\n{step.task}")
    message.content.extend({"type": "image", "image": image} for image in step.task_images or ())
    return [message]


def plan(step: PlanningStep) -> Rendered:
    """The plan, and the request to carry it out."""
    if not isinstance(step.plan, str):
        return []
    return [
        text_message(MessageRole.ASSISTANT, step.plan.strip()),
        text_message(MessageRole.USER, "Now proceed and carry out this plan."),
    ]


def action(step: ActionStep) -> Rendered:
    """Output, calls, images, observations, error: each at its own place, whether it is there or not."""
    calls = [_told(each) for each in step.tool_calls or ()]
    images = [{"type": "image", "image": image} for image in step.observations_images or ()]
    error = None
    if step.error is not None:
        called = f"Call id: {step.tool_calls[0].id}\n" if step.tool_calls else ""
        error = (
            f"{called}Error:\n{step.error}\nNow let's retry: take care not to repeat previous errors! If you have "
            "retried several times, try a completely different approach.\n"
        )
    observed = step.observations
    return [
        text_message(MessageRole.ASSISTANT, step.model_output.strip()) if isinstance(step.model_output, str) else None,
        text_message(MessageRole.TOOL_CALL, f"Calling tools:\n{calls}") if calls and None not in calls else None,
        ChatMessage(role=MessageRole.USER, content=images) if images else None,
        text_message(MessageRole.TOOL_RESPONSE, f"Observation:\n{observed}") if isinstance(observed, str) else None,
        text_message(MessageRole.TOOL_RESPONSE, error) if error is not None else None,
    ]


def _told(call: ToolCall) -> dict[str, object] | None:
    if type(call.arguments) is not str or call.arguments.lstrip()[:1] in ("{", "["):
        return None  # smolagents rewrites these on their way into the message
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }
