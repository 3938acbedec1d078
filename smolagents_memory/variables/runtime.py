"""What an agent has beside its steps: `agent.state`, and a CodeAgent's Python variables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from smolagents.memory import ActionStep, TaskStep

from smolagents_memory._errors import DecodeError
from smolagents_memory._log import logger
from smolagents_memory.codec.blobs import Blobs
from smolagents_memory.codec.graph import Encoder
from smolagents_memory.codec.placeholders import NotKept
from smolagents_memory.codec.scrubbing import WITHHELD
from smolagents_memory.codec.values import new_decoder, new_encoder
from smolagents_memory.upstream import hiding, send_tools
from smolagents_memory.variables.capture import ExecutorCapture, holds_withheld, warn_of_withheld
from smolagents_memory.variables.capture import fold as fold_variables
from smolagents_memory.variables.restore import RestoreReport, restore_variables
from smolagents_memory.variables.watch import Watch, fingerprint


VARIABLES_BUDGET = 4_000_000


def overridden_names(deltas: Iterable[dict[str, Any]]) -> set[str]:
    """The names that `run` sent and that the agent's code has deleted, or bound to what cannot be kept."""
    return set(fold(deltas).get("variables", {}).get("overridden", ()))


def typed_state(deltas: Iterable[dict[str, Any]], name: str, blobs: Mapping[str, bytes]) -> tuple[Any, ...]:
    """The value that is kept under a name, alone in a tuple; an empty one where there is none."""
    nodes = [delta["typed"][name] for delta in deltas if name in delta.get("typed", {})]
    return tuple(new_decoder(blobs).decode(node) for node in nodes[-1:])


class Runtime:
    """Follows an agent's state and variables; `changes` gives what is new in them, as plain JSON."""

    def __init__(self, agent: Any, budget: int) -> None:
        self._agent, self._budget = agent, budget
        self._watches: dict[str, Watch] = {}
        self._capture = ExecutorCapture(budget=budget) if hasattr(agent, "python_executor") else None

    def begin(self, restored: list[dict[str, Any]], blobs: Blobs) -> dict[str, Any] | None:
        """Look at what was just restored; gives what is to be kept where that is not what is kept already."""
        found = self.changes(None, blobs)
        return found if found is not None and fold([*restored, found]) != fold(restored) else None

    def tell_later(self, missing: Mapping[str, str]) -> None:
        """Keep in mind that the agent has not been told of these yet; nothing, once it has."""
        if self._capture is not None:
            self._capture.untold = dict(missing)

    def changes(self, step: ActionStep | TaskStep | None, blobs: Blobs) -> dict[str, Any] | None:
        """What changed since the last call, or None. Never raises."""
        delta: dict[str, Any] = {}
        try:
            delta["state"] = self._state_changes(blobs)
            if self._capture is not None:
                delta["variables"] = self._capture.changes(self._agent, getattr(step, "code_action", None), blobs)
        except Exception:
            logger.exception("the agent's state could not be kept this time; its steps are")
        return _filled(delta) or None

    def _state_changes(self, blobs: Blobs) -> dict[str, Any]:
        before, self._watches = self._watches, {}
        encoder, kept = new_encoder(blobs), []
        for name, value in list(self._agent.state.items()):
            watch = before.get(name)
            if watch is None or watch.value is not value or not watch.unchanged():
                watch = Watch(value, self._budget, lambda item: None, lambda item: fingerprint(item, new_encoder()))
                kept.append([encoder.encode(name), self._node(encoder, name, self._within_budget(watch))])
            self._watches[name] = watch
        gone = [encoder.encode(name) for name in before if name not in self._watches]
        return _filled({"set": kept, "gone": gone})

    @staticmethod
    def _node(encoder: Encoder, name: str, value: Any) -> Any:
        """A value as it is, or its loss: what was redacted is not what code would go on with."""
        before = encoder.scrubbed
        node = encoder.encode(value)
        if encoder.scrubbed == before and not holds_withheld(name, value, encoder.blobs):
            return node
        warn_of_withheld([str(name)])
        return encoder.encode(NotKept(type(value).__name__, WITHHELD))

    def _within_budget(self, watch: Watch) -> Any:
        size = f"more than the budget of {self._budget / 1e6:.1f} MB"
        return NotKept(type(watch.value).__name__, size) if watch.too_large else watch.value


def fold(deltas: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Many changes as one."""
    deltas = list(deltas)
    typed = {name: node for delta in deltas for name, node in delta.get("typed", {}).items()}
    variables = fold_variables(delta["variables"] for delta in deltas if "variables" in delta)
    return _filled({"state": _filled({"set": folded_state(deltas)}), "typed": typed, "variables": variables})


def _filled(delta: dict[str, Any]) -> dict[str, Any]:
    return {part: each for part, each in delta.items() if each}


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
    state = {}
    for name, node in folded_state(deltas):
        try:
            known = new_decoder(blobs).decode(name)
            if not isinstance(known, str):
                raise DecodeError("its name is no text")
            state[known] = new_decoder(blobs).decode(node)
        except DecodeError as error:
            state[str(name)] = NotKept("value", str(error))
    return state


def restore_runtime(agent: Any, deltas: list[dict[str, Any]], blobs: Mapping[str, bytes]) -> RestoreReport:
    """Bring an agent's state and variables back; the report names what could not be."""
    state = decoded_state(deltas, blobs)
    missing = {name: str(value) for name, value in state.items() if isinstance(value, NotKept)}
    missing.update(hiding(agent, state))
    agent.state.update({name: value for name, value in state.items() if name not in missing})
    report = RestoreReport()
    executor = getattr(agent, "python_executor", None)
    folded = fold(deltas).get("variables")
    if executor is not None and folded:
        send_tools(agent)
        executor.send_variables(variables=agent.state)
        report = restore_variables(agent, folded, blobs)
    report.missing.update(missing)
    return report


def forget_runtime(agent: Any) -> None:
    """Empty an agent of what belongs to another session."""
    agent.state.clear()
    if hasattr(agent, "python_executor") and hasattr(agent, "create_python_executor"):
        agent.python_executor = agent.create_python_executor()
