"""AlertOnFailures: the same trouble again and again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from smolagents.memory import MemoryStep

from smolagents_memory._brief import brief
from smolagents_memory.callbacks.alerts import Alert, Watch, action_text, failure_of, result_text
from smolagents_memory.callbacks.failure_signs import FailureSigns
from smolagents_memory.steps.calls import called


SIGNS = FailureSigns()


class AlertOnFailures(Watch):
    """Tells the agent, and you, when failures pile up.

    It looks at the last `window` steps, this one included: at observations, errors, failed tool calls and failures
    of the model itself. The agent reads one line in its observation; then it is quiet until there are fewer than
    `threshold` failures again. Each step is judged once, without what callbacks added to it.

    Args:
        pattern: A regular expression that makes a step a failure. None counts every step that ended in an error. By
            default those count, and observations that say that something failed: a traceback, "Error: …", a 5xx
            status where a status stands, a timeout, an exit code, "permission denied". "200 OK in 512 ms" is none.
        threshold: How many failures alert.
        window: Among how many steps.
        predicate: Decides instead of the pattern: given the step, returns whether it failed.
        tools: Only steps that called one of these count: if they ended in an error, or match.
        on_alert: Called with an `Alert`.
        name: What this alert is known by in saved steps; only needed for two that are otherwise alike.

    >>> from smolagents import CodeAgent
    >>> from smolagents_memory.testing import ScriptedModel, code
    >>> model = ScriptedModel([*[code("print('GET /health: 503')")] * 4, code("final_answer('down')")])
    >>> watch = AlertOnFailures(on_alert=lambda alert: print("wake up: step", alert.step_number))
    >>> agent = CodeAgent(tools=[], model=model, step_callbacks=[watch], verbosity_level=0)
    >>> agent.run("Watch the service.")
    wake up: step 3
    'down'
    >>> agent.memory.steps[3].observations.splitlines()[-1]
    '[ALERT] Pattern detected: 3 failures in last 10 checks'
    """

    kind = "failures"

    def __init__(
        self,
        pattern: str | re.Pattern[str] | FailureSigns | None = SIGNS,
        threshold: int = 3,
        window: int = 10,
        *,
        predicate: Callable[[MemoryStep], object] | None = None,
        tools: Iterable[str] | None = None,
        on_alert: Callable[[Alert], object] | None = None,
        name: str | None = None,
    ) -> None:
        if callable(pattern):
            raise TypeError(
                f"the pattern is a text or a compiled pattern, not {brief(pattern)}: a function that judges a step is "
                "predicate=…, and one that is called with the alert on_alert=…"
            )
        if not 1 <= threshold <= window:
            raise ValueError(f"threshold={threshold} must be between 1 and window={window}")
        self.pattern = re.compile(pattern) if isinstance(pattern, (str, re.Pattern)) else pattern
        self.predicate, self.threshold, self.span = predicate, threshold, window
        self.tools = None if tools is None else frozenset([tools] if isinstance(tools, str) else tools)
        what = _name_of(predicate) if predicate else getattr(self.pattern, "pattern", "any error")
        by = ",".join(sorted(self.tools)) if self.tools else "all tools"
        super().__init__(on_alert, name or f"{what} of {by}: {threshold}/{window}")

    def judge(self, step: MemoryStep) -> bool:
        """Whether the step counts as a failure."""
        if self.tools is not None and not called(step, self.tools):
            return False
        if self.predicate is not None:
            return bool(self.predicate(step))
        failed = failure_of(step) is not None
        if failed and (self.pattern is None or self.pattern is SIGNS or self.tools is not None):
            return True
        if self.pattern is None:
            return False
        return bool(self.pattern.search(result_text(step)) or (failed and self.pattern.search(action_text(step))))

    def weigh(self, seen: list[Any]) -> tuple[int, str] | None:
        """The number of failures, once there are enough."""
        count = sum(seen)
        if count < self.threshold:
            return None
        return count, f"[ALERT] Pattern detected: {count} failures in last {self.span} checks"


def _name_of(predicate: Callable[..., Any]) -> str:
    """The same in every process, and different for two lambdas on different lines."""
    line = getattr(getattr(predicate, "__code__", None), "co_firstlineno", "")
    return f"{getattr(predicate, '__qualname__', type(predicate).__qualname__)}@{line}"
