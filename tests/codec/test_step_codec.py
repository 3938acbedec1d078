"""Steps to plain JSON and back."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from smolagents.memory import ActionStep, MemoryStep, PlanningStep, TaskStep, ToolCall
from smolagents.models import ChatMessage, MessageRole
from smolagents.monitoring import AgentLogger, LogLevel, Timing, TokenUsage
from smolagents.utils import AgentExecutionError
from strategies import steps

from smolagents_memory import (
    DecodeError,
    MemoryLossWarning,
    UnknownStep,
    decode_step,
    encode_step,
    register_step,
)
from smolagents_memory.testing import explain_difference


def trip(step: MemoryStep) -> MemoryStep:
    return decode_step(json.loads(json.dumps(encode_step(step), allow_nan=False)))


@settings(max_examples=130, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps)
def test_every_step_comes_back_as_it_was(step: MemoryStep) -> None:
    assert explain_difference(step, trip(step)) is None


def test_a_provider_s_raw_answer_is_left_out_in_silence(recwarn: pytest.WarningsRecorder) -> None:
    message = ChatMessage(role=MessageRole.ASSISTANT, content="hi", raw=object())
    step = ActionStep(step_number=1, timing=Timing(0.0, 1.0), model_output_message=message)
    back = trip(step)
    assert isinstance(back, ActionStep)
    assert back.model_output_message.raw is None
    assert not recwarn.list


def test_an_error_comes_back_without_a_logger_and_without_logging(capsys: pytest.CaptureFixture[str]) -> None:
    error = AgentExecutionError("it broke", AgentLogger(level=LogLevel.OFF))
    step = ActionStep(step_number=1, timing=Timing(0.0), error=error)
    back = trip(step)
    assert type(back.error) is AgentExecutionError
    assert back.error.dict() == error.dict()
    assert back.to_messages()[0].content == step.to_messages()[0].content
    assert capsys.readouterr().out == ""


def test_what_two_calls_of_a_step_share_they_share_again() -> None:
    arguments = {"path": "a"}
    calls = [ToolCall("read", arguments, "call_1"), ToolCall("write", arguments, "call_2")]
    back = trip(ActionStep(step_number=1, timing=Timing(0.0), tool_calls=calls))
    assert back.tool_calls[0].arguments is back.tool_calls[1].arguments


def test_a_field_of_a_newer_smolagents_and_a_mark_of_ours_are_kept() -> None:
    step = TaskStep(task="look")
    step.pinned = True
    step.inner_tool_calls = [ToolCall("a", {}, "1")]
    back = trip(step)
    assert back.pinned is True
    assert back.inner_tool_calls == step.inner_tool_calls


def test_a_record_of_an_older_smolagents_gets_the_fields_it_does_not_have() -> None:
    record = {
        "step": "ActionStep",
        "version": 1,
        "fields": {"step_number": 3, "timing": {"$": "Timing", "start_time": 1.0}},
    }
    back = decode_step(record)
    assert isinstance(back, ActionStep)
    assert back.is_final_answer is False
    assert back.observations is None
    assert back.timing.end_time is None
    back.dict()


@dataclass
class Visit(MemoryStep):
    page: str
    found: list[str] = field(default_factory=list)

    def to_messages(self, summary_mode: bool = False) -> list[ChatMessage]:
        return [ChatMessage(role=MessageRole.USER, content=[{"type": "text", "text": f"Visited {self.page}"}])]


def test_a_registered_step_of_one_s_own_comes_back_as_that_class() -> None:
    register_step(Visit)
    assert trip(Visit("home", ["a"])) == Visit("home", ["a"])


def test_a_step_whose_class_is_not_known_shows_what_it_showed_and_goes_back_as_it_came() -> None:
    record = json.loads(json.dumps(encode_step(Visit("home"))))
    record["step"] = "somewhere:Visit"
    back = decode_step(record)
    assert isinstance(back, UnknownStep)
    assert back.to_messages()[0].content == Visit("home").to_messages()[0].content
    assert back.dict() == {"type": "somewhere:Visit", "page": "home", "found": []}
    assert json.loads(json.dumps(encode_step(back))) == record


def test_register_step_refuses_what_is_no_step() -> None:
    with pytest.raises(TypeError, match="subclass of smolagents' MemoryStep"):
        register_step(dict)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({}, "not a step's record"),
        ({"step": "TaskStep", "version": 99, "fields": {}}, "version 99"),
        ({"step": "TaskStep", "version": 1, "fields": [1]}, "should be an object"),
        ({"step": "TaskStep", "version": 1, "fields": {}, "blobs": {"abc": "AAAA"}}, "checksum"),
        ({"step": "TaskStep", "version": 1, "fields": {}, "blobs": 3}, "not a step's record"),
        (None, "not a step's record"),
    ],
)
def test_a_malformed_record_gives_one_clear_error(record: object, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        decode_step(record)  # type: ignore[arg-type]


def test_a_loss_inside_a_step_is_one_warning_and_the_rest_is_kept() -> None:
    step = ActionStep(step_number=1, timing=Timing(0.0), observations="seen", action_output=[open, print])  # type: ignore[list-item]
    with pytest.warns(MemoryLossWarning, match="A step holds what cannot be kept") as seen:
        back = trip(step)
    assert len(seen) == 1
    assert back.observations == "seen"


def test_usage_and_timing_keep_what_their_constructors_would_refuse() -> None:
    step = PlanningStep(
        [], ChatMessage(role=MessageRole.ASSISTANT, content="p"), "p", Timing(1.0, 3.0), TokenUsage(2, 3)
    )
    back = trip(step)
    assert back.timing.duration == 2.0
    assert back.token_usage.total_tokens == 5
    assert back.dict() == step.dict()
