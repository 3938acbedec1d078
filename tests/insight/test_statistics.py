"""Every figure of `analyze` against a count made another way."""

from __future__ import annotations

import io
import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from histories import RUNS, finished, odd_steps
from PIL import Image
from rich.console import Console
from smolagents.memory import ActionStep, AgentMemory, PlanningStep, TaskStep, Timing
from smolagents.models import ChatMessage, MessageRole
from smolagents.monitoring import TokenUsage

from smolagents_memory import analyze, compare, load_memory, save_memory


@pytest.mark.parametrize("name", RUNS)
def test_every_figure_agrees_with_a_count_made_from_smolagents_own_output(name: str, tmp_path: Path) -> None:
    """From `write_memory_to_messages`, the monitor, `get_full_steps` and the pixels; live and loaded alike."""
    agent = finished(name)
    steps = agent.memory.steps
    written = [
        (message.role.value, "\n".join(part["text"] for part in message.content if part["type"] == "text"))
        for message in agent.write_memory_to_messages()
    ]
    stats = analyze(agent)
    assert stats.messages.total_messages == len(written)
    assert stats.messages.by_role == Counter(role for role, _ in written)
    for role, average in stats.messages.average_length.items():
        lengths = [len(text) for each, text in written if each == role]
        assert average == pytest.approx(sum(lengths) / len(lengths))

    assert stats.steps.total_steps == len(steps)
    assert sum(stats.steps.by_kind.values()) == len(steps)
    dumped = agent.memory.get_full_steps()
    assert stats.steps.by_kind["ActionStep"] == sum("step_number" in step for step in dumped)
    assert stats.steps.errors == Counter(step["error"]["type"] for step in dumped if step.get("error"))

    plans = [step for step in steps if isinstance(step, PlanningStep)]
    planned = (
        sum(plan.token_usage.input_tokens for plan in plans),
        sum(plan.token_usage.output_tokens for plan in plans),
    )
    if "out_of_steps" not in name:  # the forced answer's callbacks ran, but its tokens are the monitor's too
        assert stats.tokens.input_tokens == agent.monitor.total_input_token_count + planned[0]
    assert stats.tokens.output_tokens == agent.monitor.total_output_token_count + planned[1]
    assert stats.tokens.total_tokens == stats.tokens.input_tokens + stats.tokens.output_tokens
    assert [row[0] for row in stats.tokens.by_step] == [
        i for i, step in enumerate(steps) if getattr(step, "token_usage", None)
    ]

    text = sum(len(text.encode()) for _, text in written)
    assert stats.memory_size.text_kb * 1024 == pytest.approx(text)
    images = {id(i): i for s in steps for i in (getattr(s, "task_images", None) or [])}
    assert stats.memory_size.images_kb * 1024 == pytest.approx(sum(len(i.tobytes()) for i in images.values()))
    copies = sum(_texts(message) for step in steps for message in getattr(step, "model_input_messages", None) or [])
    assert stats.memory_size.input_copies_kb * 1024 == pytest.approx(copies)
    assert sum(stats.growth) == text - len(written[0][1].encode())
    assert stats.seconds == pytest.approx(steps[-1].timing.end_time - steps[1].timing.start_time)

    loaded = analyze(save_memory(agent, tmp_path / "run.jsonl"))
    for figures in ("messages", "steps", "memory_size", "growth"):
        assert getattr(loaded, figures) == getattr(stats, figures)


def _texts(message: Any) -> int:
    return sum(len(part["text"].encode()) for part in message.content if part["type"] == "text")


def test_the_tools_figures() -> None:
    """By hand from the script: 8 calls of the model, of which 4 in 3 failed steps got no result."""
    tools = analyze(finished("calls_in_parallel_and_errors")).tools
    assert tools.total_executions == 8
    assert tools.tool_usage == {"weather": 6, "no_such_tool": 1, "final_answer": 1}
    assert tools.failures == {"weather": 3, "no_such_tool": 1}
    assert tools.success_rate == 0.5
    assert tools.in_code == {}
    tools = analyze(finished("code_with_plans_and_errors")).tools
    assert tools.tool_usage == {"python_interpreter": 4}
    assert tools.success_rate == 0.5
    assert tools.in_code == {"weather": 5, "final_answer": 1}


def test_the_average_time_is_that_of_the_steps_with_calls() -> None:
    agent = finished("calls_in_parallel_and_errors")
    spent = []
    for step in agent.memory.steps:
        if isinstance(step, ActionStep) and step.model_output_message.tool_calls:
            spent += [step.timing.duration] * len(step.model_output_message.tool_calls)
    assert analyze(agent).tools.avg_execution_time == pytest.approx(sum(spent) / len(spent))


def test_an_empty_memory_has_no_rates_rather_than_wrong_ones() -> None:
    stats = analyze(AgentMemory("You are helpful."))
    assert stats.messages.total_messages == 1
    assert stats.tools.success_rate is None
    assert stats.tools.avg_execution_time is None
    assert stats.seconds is None
    assert stats.memory_size.total_kb == len("You are helpful.") / 1024


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGB", "RGBA", "CMYK", "I", "F", "I;16"])
def test_images_of_every_mode_are_measured_without_making_their_bytes(mode: str) -> None:
    image = Image.new(mode, (13, 7))
    stats = analyze([TaskStep("Look", task_images=[image, image]), ActionStep(1, None, observations_images=[image])])
    assert stats.memory_size.images_kb * 1024 == len(image.tobytes())


def test_odd_steps_are_counted() -> None:
    stats = analyze(odd_steps())
    assert stats.steps.total_steps == len(odd_steps())
    assert stats.tokens.steps_without_count == sum(isinstance(s, (ActionStep, PlanningStep)) for s in odd_steps())
    assert stats.steps.errors == {"ValueError": 1}


def test_it_is_plain_json_with_the_names_of_the_guide() -> None:
    stats = analyze(finished("calls_in_parallel_and_errors"))
    plain = json.loads(json.dumps(stats.to_dict()))
    assert plain == stats.to_dict()
    assert plain["messages"]["total_messages"] == stats.messages.total_messages
    assert plain["tools"]["success_rate"] == stats.tools.success_rate
    assert plain["memory_size"]["total_kb"] == pytest.approx(
        sum(plain["memory_size"][part] for part in ("text_kb", "images_kb", "input_copies_kb"))
    )
    assert datetime.fromisoformat(plain["analysis_timestamp"]).tzinfo is not None


def test_it_prints_as_a_table_and_markup_in_a_tools_name_is_text() -> None:
    steps = [ActionStep(1, None, tool_calls=[{"name": "[red]tool[/]", "arguments": {}}])]
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(analyze(steps))
    for shown in (console.export_text(), str(analyze(steps))):
        assert "[red]tool[/]" in shown
        assert "total executions" in shown


def test_two_memories_beside_each_other() -> None:
    a, b = finished("with_images"), finished("code_with_plans_and_errors")
    compared = compare(a, analyze(b))
    rows = compared.to_dict()
    assert rows["steps.total_steps"] == {"a": 3, "b": 9, "difference": 6}
    assert rows["steps.errors.AgentExecutionError"] == {"a": None, "b": 2, "difference": 2}
    assert json.dumps(rows)
    assert "AgentExecutionError" in str(compared)


def _long_memory(count: int) -> AgentMemory:
    """A history as a session restores it: every step holds all messages before it."""
    memory, sent = AgentMemory("You are helpful."), []
    memory.steps.append(TaskStep("Count."))
    sent += [*memory.system_prompt.to_messages(), *memory.steps[0].to_messages()]
    for number in range(count):
        step = ActionStep(
            number,
            Timing(float(number), number + 0.5),
            model_output=f"Thought: {number}\n<code>\nprint({number})\n</code>",
            code_action=f"print(count({number}))",
            observations=f"Execution logs:\n{number}\n" + "x" * 200,
            model_input_messages=list(sent),
            model_output_message=ChatMessage(MessageRole.ASSISTANT, f"Thought: {number}"),
            token_usage=TokenUsage(10, 5),
        )
        sent += step.to_messages()
        memory.steps.append(step)
    return memory


def test_the_input_copies_of_a_loaded_history_are_measured_unmade(tmp_path: Path) -> None:
    """The same figure as on the live steps, also after an early message was edited, and the lists stay unmade."""
    memory = _long_memory(200)
    memory.steps[50].model_input_messages = memory.steps[50].model_input_messages[3:]
    memory.steps[60].model_input_messages = None
    path = save_memory(memory, tmp_path / "run.jsonl")
    loaded = load_memory(path)
    assert analyze(loaded).memory_size == analyze(memory).memory_size
    assert loaded.steps[100].model_input_messages.untouched
