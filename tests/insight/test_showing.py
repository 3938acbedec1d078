"""Replay on the terminal and the Markdown report."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from histories import RUNS, odd_steps
from rich.console import Console
from smolagents import AgentLogger, LogLevel
from smolagents.memory import ActionStep, TaskStep, Timing

from smolagents_memory import NoteStep, replay, save_memory, to_markdown
from smolagents_memory.insight.report import fenced


def played(source: Any, **options: Any) -> str:
    out = io.StringIO()
    replay(source, logger=AgentLogger(console=Console(file=out, width=110, highlight=False)), **options)
    return out.getvalue()


def ran(name: str) -> tuple[Any, str]:
    """The agent after its run, and what its logger showed meanwhile."""
    run, out = RUNS[name](), io.StringIO()
    run.agent.logger = AgentLogger(level=LogLevel.INFO, console=Console(file=out, width=110, highlight=False))
    run.agent.monitor.logger = run.agent.logger
    run.agent.run(run.task, **run.options)
    return run.agent, out.getvalue()


def _words(shown: str) -> list[str]:
    """Without the model's name under the task, and without borders."""
    shown = re.sub(r"ScriptedModel - scripted", "", shown)
    shown = shown.replace("\\", "")  # smolagents 1.20 escapes brackets, and shows it
    return re.findall(r"[^\s─━╭╮╰╯│]+", shown)


@pytest.mark.parametrize("name", ["code_with_plans_and_errors", "with_images", "answers_none", "refused_answers"])
def test_a_code_agents_replay_shows_what_its_logger_showed(name: str) -> None:
    """Every word of it in the same order; an image is the one thing that the logger did not mention."""
    agent, shown = ran(name)
    replayed = re.sub(r"Image, .*\n", "", played(agent))
    if name == "code_with_plans_and_errors":  # the hint about imports is not in memory
        shown = re.sub(r"Warning to user:.*?Agent\.\s*", "", shown, flags=re.DOTALL)
    assert _words(replayed) == _words(shown)


@pytest.mark.parametrize("name", RUNS)
def test_every_run_can_be_replayed_and_reported(name: str, tmp_path: Path) -> None:
    """Live and from a file alike; every observation and error is in both."""
    agent, _ = ran(name)
    path = save_memory(agent, tmp_path / "run.jsonl")
    assert played(path) == played(agent)
    report = to_markdown(path)
    assert report == to_markdown(agent)
    replayed = re.sub(r"\W", "", played(agent))
    for step in agent.memory.steps:
        for text in (getattr(step, "observations", None), getattr(step, "error", None), getattr(step, "plan", None)):
            assert str(text or "") in report
        if isinstance(step, ActionStep):
            assert f"Step{step.step_number}" in replayed


def test_a_replay_keeps_the_pace_of_the_run_but_for_long_pauses() -> None:
    waited: list[float] = []
    steps = [ActionStep(n, Timing(start, start + 1)) for n, start in enumerate([100.0, 102.0, 1000.0, 999.0])]
    played([TaskStep("Go"), *steps], speed=2, longest_pause=3, sleep=waited.append)
    assert waited == [1.0, 3, 0.0]
    played(steps, sleep=waited.append)
    assert len(waited) == 3
    with pytest.raises(ValueError, match="above 0"):
        replay(steps, speed=0)


def test_nothing_in_memory_is_taken_for_markup() -> None:
    text = "[red]not red[/] [/nonsense] [link=x]"
    step = ActionStep(
        1, None, code_action=text, observations=f"Execution logs:\n{text}", error=ValueError(text), action_output=text
    )
    shown = played([TaskStep(text), step, NoteStep(text)])
    assert shown.count("[red]not red[/] [/nonsense]") == 5


def test_odd_steps_can_be_shown() -> None:
    for steps in [[step] for step in odd_steps() if "\ud800" not in str(vars(step))] + [odd_steps()]:
        to_markdown(steps)
        if "\ud800" not in str([vars(step) for step in steps]):
            assert played(steps)


def test_what_is_quoted_cannot_leave_its_quotes() -> None:
    """A fence longer than any in the text."""
    text = "```\n# not a heading\n````x"
    assert fenced(text) == f"`````text\n{text}\n`````"
    report = to_markdown([TaskStep(text), NoteStep(text, kind="summary")], title="A\ntitle")
    assert report.startswith("# A title\n")
    outside = re.sub(r"(`{3,})text\n.*?\n\1\n", "", report, flags=re.DOTALL)
    assert re.findall(r"^#.*", outside, re.MULTILINE) == ["# A title", "## Task", "### Summary (user)"]


def test_the_report_of_a_run() -> None:
    agent, _ = ran("with_images")
    report = to_markdown(agent, system_prompt=True)
    assert report.index("## System prompt") < report.index("## Task") < report.index("### Step 1")
    assert "*Image, 4 × 3*" in report
    assert "**Final answer**\n\n```text\n{'n': 2}\n```" in report
    assert re.search(r"### Step 2 · \d{4}-\d\d-\d\d .* UTC · .* s · .* tokens in", report)


def test_the_forced_answer_of_a_run_without_steps_left_is_shown() -> None:
    """`to_messages` does not show it to later turns; a person wants to see it."""
    agent, _ = ran("out_of_steps_calls")
    assert "**Final answer**\n\n```text\nIt rains, I think.\n```" in to_markdown(agent)
    assert "Final answer: It rains, I think." in played(agent)
