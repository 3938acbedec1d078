"""CodeAgents whose Python variables are kept after every step, and fresh ones into which they are restored."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from smolagents import CodeAgent

from smolagents_memory.codec.blobs import Blobs
from smolagents_memory.testing import ScriptedModel, code
from smolagents_memory.variables.capture import ExecutorCapture, RestoreReport, fold, restore_variables


IMPORTS = ["abc", "collections.*", "dataclasses", "enum", "functools", "numpy.*", "pandas.*", "socket", "typing"]


class Life:
    """An agent that runs these code actions, one a step, and what was kept of its variables."""

    def __init__(self, codes: Iterable[str], *, budget: int = 4_000_000, **options: Any) -> None:
        self.capture = ExecutorCapture(budget)
        self.blobs = Blobs()
        self.deltas: list[dict[str, Any]] = []
        self.agent = fresh_agent([code(each) for each in codes], step_callbacks=[self.keep], **options)

    def keep(self, step: Any, agent: Any) -> None:
        delta = self.capture.changes(agent, step.code_action, self.blobs)
        if delta is not None:
            self.deltas.append(json.loads(json.dumps(delta, allow_nan=False)))

    @property
    def state(self) -> dict[str, Any]:
        return dict(self.agent.python_executor.state)

    @property
    def folded(self) -> dict[str, Any]:
        return json.loads(json.dumps(fold(self.deltas), allow_nan=False))


def fresh_agent(script: Iterable[Any], **options: Any) -> CodeAgent:
    options = {"tools": [], "verbosity_level": 0, "additional_authorized_imports": IMPORTS, **options}
    return CodeAgent(model=ScriptedModel(script), **options)


def lived(*codes: str, errors: bool = False, **options: Any) -> Life:
    """An agent that has run these code actions and was then left alone. They must work, unless `errors`."""
    life = Life([*codes, "final_answer('done')"], **options)
    life.agent.run("Go on.", max_steps=len(codes) + 2)
    failed = [step.error for step in life.agent.memory.steps if getattr(step, "error", None) is not None]
    assert errors or not failed, failed
    return life


def revived(life: Life, *codes: str, additional_args: Any = None, **options: Any) -> tuple[CodeAgent, RestoreReport]:
    """A fresh agent with the variables of that life, after it has run these code actions."""
    agent = fresh_agent([code(each) for each in [*codes, "final_answer('done')"]], **options)
    stream = agent.run("Go on.", stream=True, reset=False, max_steps=len(codes) + 2, additional_args=additional_args)
    report = restore_variables(agent, life.folded, dict(life.blobs.data))
    for _ in stream:
        pass
    failed = [step.error for step in agent.memory.steps if getattr(step, "error", None) is not None]
    assert not failed, failed
    return agent, report


def value_of(agent: CodeAgent, expression: str) -> Any:
    """What an expression is worth in the agent's own Python."""
    given = agent.python_executor(f"_it = {expression}")
    assert given is not None
    return agent.python_executor.state.pop("_it")
