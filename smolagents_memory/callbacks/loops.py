"""AlertOnLoops: the same step again and again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from smolagents.memory import MemoryStep

from smolagents_memory.callbacks.alerts import Alert, Watch, action_text, result_text


class AlertOnLoops(Watch):
    """Tells the agent, and you, when it goes round in circles.

    A loop is the same tool calls or code, or a short cycle of them, with the same result each time. Polling that
    brings something new is none. After its one line the alert is quiet until the loop is left.

    Args:
        repeats: How many times in a row make a loop.
        max_cycle: The longest cycle looked for, in steps.
        on_alert: Called with an `Alert`.

    >>> from smolagents import CodeAgent
    >>> from smolagents_memory.testing import ScriptedModel, code
    >>> model = ScriptedModel([*[code("print('nothing here')")] * 4, code("final_answer('lost')")])
    >>> agent = CodeAgent(tools=[], model=model, step_callbacks=[AlertOnLoops()], verbosity_level=0)
    >>> agent.run("Find it.")
    'lost'
    >>> agent.memory.steps[3].observations.splitlines()[-1]
    '[ALERT] Loop detected: the same action 3 times in a row with the same result; try something else'
    """

    kind = "loop"

    def __init__(
        self, repeats: int = 3, *, max_cycle: int = 3, on_alert: Callable[[Alert], object] | None = None
    ) -> None:
        if repeats < 1 or max_cycle < 1:
            raise ValueError(f"repeats={repeats} and max_cycle={max_cycle} must be at least 1")
        self.repeats, self.max_cycle, self.span = repeats, max_cycle, repeats * max_cycle
        super().__init__(on_alert, f"loops: {repeats}/{max_cycle}")

    def judge(self, step: MemoryStep) -> str:
        """A fingerprint of what the step did and what came back; "" if it did nothing."""
        action = action_text(step)
        if not action:
            return ""
        return hashlib.sha256(f"{action}\0{result_text(step)}".encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def weigh(self, seen: list[Any]) -> tuple[int, str] | None:
        """The number of repetitions, if the last steps are nothing but a cycle."""
        for length in range(1, self.max_cycle + 1):
            cycle = seen[-length:]
            if all(cycle) and seen[-length * self.repeats :] == cycle * self.repeats:
                what = "the same action" if length == 1 else f"the same {length} actions in turn"
                message = f"[ALERT] Loop detected: {what} {self.repeats} times in a row with the same result"
                return self.repeats, f"{message}; try something else"
        return None
