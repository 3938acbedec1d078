"""What an agent has beside its steps: `agent.state`, and a CodeAgent's Python variables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from smolagents.memory import ActionStep

from smolagents_memory.sessions.executor import (
    ExecutorCapture,
    RestoreReport,
    estimated_size,
    fold_variables,
    restore_variables,
)
from smolagents_memory.steps.blobs import Blobs
from smolagents_memory.steps.registry import logger
from smolagents_memory.steps.values import NotKept, new_decoder, new_encoder


VARIABLES_BUDGET = 4_000_000


def typed_state(deltas: Iterable[dict[str, Any]], name: str, blobs: Mapping[str, bytes]) -> tuple[Any, ...]:
    """The value that is kept under a name, alone in a tuple; an empty one where there is none."""
    nodes = [delta["typed"][name] for delta in deltas if name in delta.get("typed", {})]
    return tuple(new_decoder(blobs).decode(node) for node in nodes[-1:])


class Runtime:
    """Follows an agent's state and variables; `changes` gives what is new in them, as plain JSON."""

    def __init__(self, agent: Any, budget: int) -> None:
        self._agent, self._budget = agent, budget
        self._digests: dict[str, bytes] = {}
        self._capture = ExecutorCapture(budget=budget) if hasattr(agent, "python_executor") else None

    def begin(self) -> None:
        """Take what is there now for known: it was just restored."""
        self.changes(None, Blobs())

    def changes(self, step: ActionStep | None, blobs: Blobs) -> dict[str, Any] | None:
        """What changed since the last call, or None. Never raises."""
        delta = {}
        try:
            state = self._state_changes(blobs)
            if state:
                delta["state"] = state
            if self._capture is not None:
                variables = self._capture.changes(self._agent, getattr(step, "code_action", None), blobs)
                if variables:
                    delta["variables"] = variables
        except Exception:  # noqa: BLE001 — whatever a value's own code raises: the run goes on
            logger.exception("the agent's variables could not be kept this time; its steps are")
        return delta or None

    def _state_changes(self, blobs: Blobs) -> dict[str, Any]:
        state = dict(self._agent.state)
        changed: dict[str, Any] = {}
        for name, value in state.items():
            node = self._node(value, blobs)
            digest = hashlib.blake2b(json.dumps(node).encode(), digest_size=16).digest()
            if self._digests.get(name) != digest:
                self._digests[name] = digest
                changed.setdefault("set", []).append([new_encoder(blobs).encode(name), node])
        gone = [name for name in self._digests if name not in state]
        for name in gone:
            del self._digests[name]
        return {**changed, "gone": [new_encoder(blobs).encode(name) for name in gone]} if gone else changed

    def _node(self, value: Any, blobs: Blobs) -> Any:
        size = estimated_size(value, self._budget)
        if size > self._budget:
            reason = f"{size / 1e6:.1f} MB: more than the budget of {self._budget / 1e6:.1f} MB"
            value = NotKept(type(value).__name__, reason)
        return new_encoder(blobs).encode(value)


def fold(deltas: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Many changes as one."""
    deltas = list(deltas)
    folded: dict[str, Any] = {}
    state = folded_state(deltas)
    if state:
        folded["state"] = {"set": state}
    typed = {name: node for delta in deltas for name, node in delta.get("typed", {}).items()}
    if typed:
        folded["typed"] = typed
    variables = [delta["variables"] for delta in deltas if "variables" in delta]
    if variables:
        folded["variables"] = fold_variables(variables)
    return folded


def folded_state(deltas: Iterable[dict[str, Any]]) -> list[list[Any]]:
    """The newest state as [name, value] nodes."""
    state: dict[str, list[Any]] = {}
    for delta in deltas:
        changed = delta.get("state", {})
        for name, node in changed.get("set", ()):
            state[json.dumps(name)] = [name, node]
        for name in changed.get("gone", ()):
            state.pop(json.dumps(name), None)
    return list(state.values())


def decoded_state(deltas: Iterable[dict[str, Any]], blobs: Mapping[str, bytes]) -> dict[str, Any]:
    """The agent's state as values."""
    decoder = new_decoder(blobs)
    return {decoder.decode(name): decoder.decode(node) for name, node in folded_state(deltas)}


def restore_runtime(agent: Any, deltas: list[dict[str, Any]], blobs: Mapping[str, bytes]) -> RestoreReport:
    """Bring an agent's state and variables back; the report names what could not be."""
    state = decoded_state(deltas, blobs)
    missing = {name: str(value) for name, value in state.items() if isinstance(value, NotKept)}
    agent.state.update({name: value for name, value in state.items() if name not in missing})
    report = RestoreReport()
    executor = getattr(agent, "python_executor", None)
    folded = fold(deltas).get("variables")
    if executor is not None and folded:
        executor.send_tools({**agent.tools, **agent.managed_agents})
        executor.send_variables(variables=agent.state)
        report = restore_variables(agent, folded, blobs)
    report.missing.update(missing)
    return report


def forget_runtime(agent: Any) -> None:
    """Empty an agent of what belongs to another session."""
    agent.state.clear()
    if hasattr(agent, "python_executor") and hasattr(agent, "create_python_executor"):
        agent.python_executor = agent.create_python_executor()
