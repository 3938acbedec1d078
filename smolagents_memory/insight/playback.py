"""Replay: a run on the terminal, as the agent's own logger showed it."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Group
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text
from smolagents import AgentLogger, LogLevel
from smolagents.memory import ActionStep, MemoryStep, PlanningStep, TaskStep
from smolagents.monitoring import YELLOW_HEX

from smolagents_memory.insight.conversation import duration, started
from smolagents_memory.insight.recorded import Source, read_all
from smolagents_memory.steps.answers import answer_of
from smolagents_memory.steps.calls import answer_was_refused, calls_made
from smolagents_memory.steps.kinds import images_of, kind_of, title_of
from smolagents_memory.steps.texts import role_name, shown, text_of


_LOGS = "Execution logs:\n"
_OUTPUT = "Last output from code snippet:\n"


def replay(
    memory: Source,
    speed: float | None = None,
    *,
    logger: AgentLogger | None = None,
    longest_pause: float = 5.0,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Show a run on the terminal as the agent's logger showed it.

    Args:
        memory: An agent, a memory, a session (all that was ever journaled, each step as it came), a file or a list of
            steps.
        speed: 1 for the pace of the run, 2 for twice as fast; None shows all at once.
        logger: Where to show it; a new one on the terminal by default.
        longest_pause: No pause is longer than this, in seconds, however long the run waited.
        sleep: What waits.

    >>> from rich.console import Console
    >>> from smolagents.memory import TaskStep
    >>> replay([TaskStep("Count.")], logger=AgentLogger(console=Console(width=31)))
    ╭────────── New run ──────────╮
    │                             │
    │ Count.                      │
    │                             │
    ╰─────────────────────────────╯
    """
    if speed is not None and speed <= 0:
        raise ValueError(f"speed is above 0, not {speed}; None shows all at once")
    recorded = read_all(memory)
    screen = _Screen(logger or AgentLogger(level=LogLevel.INFO))
    before: float | None = None
    for step in recorded.steps:
        begun = started(step)
        if speed is not None and begun is not None and before is not None:
            sleep(min(longest_pause, max(0.0, begun - before) / speed))
        before = before if begun is None else begun
        screen.show(step)


class _Screen:
    """Shows steps one after the other; token counts add up over the run as the agent's monitor adds them."""

    def __init__(self, logger: AgentLogger) -> None:
        self.logger = logger
        self.actions = self.tokens_in = self.tokens_out = 0

    def show(self, step: MemoryStep) -> None:
        by_role = {"task": self._task, "plan": self._plan, "action": self._action}
        by_role.get(kind_of(step).role, self._messages)(step)

    def _task(self, step: TaskStep) -> None:
        task = Text("\n").append(text_of(step.task).strip(), style="bold").append("\n")
        # not by log_task, which takes the task for markup in older versions of smolagents
        self.logger.log(Panel(task, title="[bold]New run", border_style=YELLOW_HEX))

    def _plan(self, step: PlanningStep) -> None:
        plan = text_of(step.plan)
        first = plan.startswith("Here are the facts I know and the plan of action")
        self.logger.log(Rule(Text(f"{'Initial' if first else 'Updated'} plan", "bold"), style="orange"), Text(plan))

    def _messages(self, step: MemoryStep) -> None:
        for message in shown(step):
            heading = f"{title_of(step)} ({role_name(message.role)})"
            self.logger.log(Rule(Text(heading, "bold")), Text(text_of(message.content)))
        self._images(step)

    def _images(self, step: MemoryStep) -> None:
        for image in images_of(step):
            self.logger.log(Text(f"Image, {getattr(image, 'size', 'of unknown size')}", "dim"))

    def _action(self, step: ActionStep) -> None:
        self.logger.log_rule(f"Step {step.step_number}")
        answer = answer_of([step])
        refused = answer_was_refused(step)
        if isinstance(step.code_action, str):
            self.logger.log_code(title="Executing parsed code:", content=step.code_action)
            self._code_output(text_of(step.observations), final=step.is_final_answer or refused)
        else:
            for call in calls_made(step):
                self.logger.log(Panel(Text(f"Calling tool: '{call.tool}' with arguments: {call.arguments}")))
            if step.observations is not None:
                self.logger.log(Text(f"Observations: {text_of(step.observations)}"))
        self._images(step)
        if refused and step.action_output is not None:
            self._answer(step.action_output)
        if step.error is not None:
            self.logger.log(Text(str(step.error), style="bold red"), level=LogLevel.ERROR)  # log_error: likewise
        if answer is not None:
            self._answer(answer.value)
        self._figures(step)

    def _answer(self, answer: object) -> None:
        self.logger.log(Text(f"Final answer: {answer}", style=f"bold {YELLOW_HEX}"))

    def _code_output(self, observations: str, *, final: bool) -> None:
        logs, marker, output = observations.rpartition(_OUTPUT)
        logs = (logs if marker else observations).removeprefix(_LOGS)
        lines = [Text("Execution logs:", style="bold"), Text(logs)] if logs else []
        if marker and not final:
            lines.append(Text(f"Out: {output}"))
        if lines:
            self.logger.log(Group(*lines))

    def _figures(self, step: ActionStep) -> None:
        self.actions += 1
        took = duration(step)
        line = f"[Step {self.actions}" + ("" if took is None else f": Duration {took:.2f} seconds")
        if step.token_usage is not None:
            self.tokens_in += step.token_usage.input_tokens or 0
            self.tokens_out += step.token_usage.output_tokens or 0
            line += f"| Input tokens: {self.tokens_in:,} | Output tokens: {self.tokens_out:,}"
        self.logger.log(Text(line + "]", style="dim"))
