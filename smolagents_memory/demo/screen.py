"""What the demo shows: a line a step, and little else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text
from smolagents.memory import ActionStep, MemoryStep, PlanningStep, TaskStep


_TIME = re.compile(r"^\[[^\]]*\] ")
_FRAME = re.compile(r"^(Execution logs:|Last output from code snippet:|None)\s*$")
_DONE = 36  # the width of what was done


class Screen:
    """Writes to the terminal; what is not a terminal gets the same without colour."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)

    def act(self, number: int | None, title: str, *said: str) -> None:
        """The heading of an act, and what there is to know before it."""
        self.console.print()
        head = Text(f"Act {number}  ", "bold cyan") if number else Text("", "bold cyan")
        self.console.print(Rule(head + Text(title, "bold"), align="left", style="dim"))
        for line in said:
            self.say(line)

    def say(self, line: str, style: str = "dim") -> None:
        """A remark."""
        self.console.print(Padding(Text(line, style), (0, 0, 0, 2)))
        self.console.file.flush()

    def steps(self, steps: Iterable[MemoryStep]) -> None:
        """A line for each action among the steps."""
        for step in steps:
            if isinstance(step, (ActionStep, PlanningStep)):
                self.step(step)

    def step(self, step: Any) -> None:
        """A step in a line: its number, what was done, what came back."""
        row = Table.grid(padding=(0, 1))
        row.add_column(width=4, justify="right", style="dim")
        row.add_column(width=_DONE, no_wrap=True, overflow="ellipsis")
        row.add_column(no_wrap=True, overflow="ellipsis")
        row.add_row(Text(str(getattr(step, "step_number", ""))), Text(done(step)), came_back(step))
        self.console.print(row)
        for line in (step.observations or "").splitlines() if isinstance(step, ActionStep) else ():
            if "[ALERT]" in line:
                self.console.print(Padding(Text(line[line.index("[ALERT]") :], "bold yellow"), (0, 0, 0, 5 + _DONE + 1)))
        self.console.file.flush()

    def table(self, title: str, rows: Iterable[tuple[str, str]], style: str = "bold") -> None:
        """What is good to know, in two columns."""
        table = Table(title=Text(title, "bold"), title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 2))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(style=style)
        for name, value in rows:
            table.add_row(Text(name), Text(value))
        self.console.print()
        self.console.print(table)
        self.console.file.flush()


def done(step: Any) -> str:
    """What a step did, in a few words.

    >>> done(ActionStep(step_number=1, timing=None, code_action="print(restart())\\nprint(check_health())"))
    'restart(), check_health()'
    """
    if isinstance(step, TaskStep):
        return "a new task"
    if not getattr(step, "code_action", None):
        return "tells it" if getattr(step, "observations", None) and not step.model_output else "thinks"
    lines = [line.strip() for line in step.code_action.splitlines() if line.strip()]
    short = ", ".join(line[6:-1] if line.startswith("print(") and line.endswith(")") else line for line in lines)
    return "final_answer" if short.startswith("final_answer(") else short


def came_back(step: Any) -> Text:
    """What a step brought: its error, its answer, or the last line that is worth reading."""
    if getattr(step, "error", None) is not None:
        message = str(getattr(step.error, "message", step.error)).strip().splitlines()
        return Text(re.sub(r"^.*?due to: ", "", message[-1] if message else type(step.error).__name__), "red")
    if getattr(step, "is_final_answer", False):
        return Text(str(step.action_output), "green")
    text = getattr(step, "observations", None) or getattr(step, "plan", None) or ""
    if "[recalled from memory" in text:
        count = len(re.findall(r"^\S.*, score [\d.]+\):$", text, re.MULTILINE))
        return Text(f"{count} notes from earlier", "bold magenta")
    lines = [_TIME.sub("", line).strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not _FRAME.match(line) and "[ALERT]" not in line]
    shown = lines[-1] if lines else ""
    return Text(shown, "red" if re.search(r"\b503\b", shown) else "")
