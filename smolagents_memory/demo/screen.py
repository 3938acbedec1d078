"""What the demo shows: a line a step, and little else."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text
from smolagents.memory import ActionStep, MemoryStep, PlanningStep


_TIME = re.compile(r"^\[[^\]]*\] ")
_FRAME = re.compile(r"^(Execution logs:|Last output from code snippet:|None|\[\d+ images? removed\])\s*$")
_CALL = re.compile(r"\b(?!print|append|len|str)[a-z_]+\([^()]*\)")
_PAUSE = 0.25  # seconds after a step, for whoever reads along
_COURSE = 14  # signs of a run
_DONE = 34  # the width of what was done
_BACK = _DONE + 8  # where what came back begins
_LINES = 2  # more of it than its first line


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
        self.console.print(Padding(Text(line, style), (0, 0, 0, 2), expand=False))
        self.console.file.flush()

    def _line(self, line: Text) -> None:
        line.truncate(self.console.width, overflow="ellipsis")
        self.console.print(line, no_wrap=True)
        self.console.file.flush()

    def steps(self, steps: Iterable[MemoryStep]) -> None:
        """A line for each action among the steps."""
        for step in steps:
            if isinstance(step, (ActionStep, PlanningStep)):
                self.step(step)

    def step(self, step: Any) -> None:
        """A step in a line: its number, what was done, what came back."""
        what = Text(done(step))
        what.truncate(_DONE, overflow="ellipsis", pad=True)
        number = (f"{getattr(step, 'step_number', ''):>4}  ", "dim")
        first, *rest = came_back(step).wrap(self.console, max(20, self.console.width - _BACK)) or [Text()]
        self._line(Text.assemble(number, what, "  ", first))
        for more in rest[:_LINES]:
            self._line(Text.assemble(" " * _BACK, more))
        for line in (step.observations or "").splitlines() if isinstance(step, ActionStep) else ():
            if line.startswith("[ALERT]"):
                self._line(Text(" " * 6 + line, "bold yellow"))
        if self.console.is_terminal:
            time.sleep(_PAUSE)

    def course(self, runs: Iterable[tuple[str, Iterable[MemoryStep]]]) -> None:
        """Whole runs, a sign a step."""
        self.say("● answered 200   ○ answered 503   × an error   ? recalled   ≡ something else   ★ the answer")
        self.console.print()
        for name, steps in runs:
            signs = [sign(step) for step in steps if isinstance(step, ActionStep)]
            shown = Text(" ").join(signs)
            shown.truncate(2 * _COURSE, overflow="ellipsis", pad=True)
            self._line(Text.assemble((f"  {name:<10}", "bold"), shown, (f"   {len(signs)} steps", "dim")))

    def table(self, title: str, rows: Iterable[tuple[str, str]], style: str = "bold") -> None:
        """What is good to know, in two columns."""
        table = Table(title=Text(title, "bold"), title_justify="left", show_header=False, box=None, padding=(0, 2))
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
    source = getattr(step, "code_action", None)
    if not source:
        return "is told" if getattr(step, "observations", None) and not step.model_output else "thinks"
    if "final_answer(" in source:
        return "final_answer"
    return ", ".join(_CALL.findall(source)) or source.strip().splitlines()[0]


def sign(step: ActionStep) -> Text:
    """A step as one sign."""
    seen = came_back(step).plain
    if step.error is not None:
        return Text("×", "red")
    if getattr(step, "is_final_answer", False):
        return Text("★", "green")
    if "recall(" in (step.code_action or ""):
        return Text("?", "bold magenta")
    if "GET /health: " not in seen:
        return Text("≡", "dim")
    return Text("●", "green") if "GET /health: 200" in seen else Text("○", "red")


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
    lines = (_TIME.sub("", line).strip() for line in reversed(text.splitlines()) if "[ALERT]" not in line)
    shown = next((line for line in lines if line and not _FRAME.match(line)), "")
    return Text(shown, "red" if "GET /health: 5" in shown else "")
