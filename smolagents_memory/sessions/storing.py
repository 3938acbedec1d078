"""Writing a whole memory into a session at once: what the session holds already is not written again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from smolagents.memory import AgentMemory, MemoryStep

from smolagents_memory.codec.blobs import Blobs
from smolagents_memory.codec.encoding import INPUTS, step_record
from smolagents_memory.codec.registry import attributes
from smolagents_memory.sessions import directory
from smolagents_memory.sessions.journal import Journal
from smolagents_memory.sessions.runs import INTERRUPTED, RunLog
from smolagents_memory.variables.runtime import Runtime, fold


if TYPE_CHECKING:
    from smolagents_memory.sessions.session import Session


def store(session: Session, memory: AgentMemory, described: dict[str, Any], runtime: Runtime | None) -> None:
    """Make a session hold what a memory holds."""
    position = directory.claim(session.database, session.session_id, described, take_over=False)
    try:
        restored = session._read()
        journal = Journal(session.database, position, restored.runtime, fold)
        journal.adopt(restored)
        log = RunLog(journal)
        prompt = memory.system_prompt
        if restored.prompt is None or restored.prompt.step.system_prompt != prompt.system_prompt:
            journal.prompted(prompt)
        old, new = restored.steps, list(memory.steps)
        head = _common(old, new)
        tail = _common(old[head:][::-1], new[head:][::-1])
        added = new[head : len(new) - tail]
        if added or len(old) > head + tail:
            journal.spliced(head, len(old) - head - tail, added)
        for step in added if not tail else ():
            log.follow(step)
        log.end(INTERRUPTED)
        delta = runtime.changes(None, journal.blobs) if runtime is not None else None
        if delta is not None and fold([*restored.runtime, delta]) != fold(restored.runtime):
            journal.runtime(delta)
        journal.flush()
    finally:
        directory.let_go(session.database, position)


def _common(old: Sequence[MemoryStep], new: Sequence[MemoryStep]) -> int:
    """How many steps are the same from the beginning on."""
    same = 0
    for before, after in zip(old, new, strict=False):
        if before is not after and _content(before) != _content(after):
            break
        same += 1
    return same


def _content(step: MemoryStep) -> str:
    fields = {name: value for name, value in attributes(step).items() if name != INPUTS}
    return json.dumps(step_record(step, Blobs(), fields)[0])
