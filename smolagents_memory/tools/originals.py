"""Finding the original of a step by its number, and saying rightly what there is where it is not found."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

from smolagents import MultiStepAgent
from smolagents.memory import MemoryStep

from smolagents_memory._errors import SessionNotFoundError, SmolagentsMemoryError
from smolagents_memory.steps.answers import last_task
from smolagents_memory.steps.calls import error_of
from smolagents_memory.steps.kinds import came_back, images_of, is_action
from smolagents_memory.steps.marks import mark_of
from smolagents_memory.tools.replies import Wrong, sentence, whole


_SHOWN = 20_000


def step_answer(source: Any, session: Any, number: Any, start: Any, told: Sequence[Any] = ()) -> str:
    """The step's full text; `source` is an agent, a memory or a session, `session` the one that journals it.

    `told` are agents, weakly, that made themselves known, and what journals each of them.
    """
    try:
        wanted, begin = whole("step", number), 0 if start is None else whole("start", start)
        if session is None and not hasattr(source, "transcript"):
            source, session = _whose(source, told)
        memory = _memory_of(source)
        if session is None:
            session = (
                source
                if hasattr(source, "transcript")
                else (getattr(memory, "kept_in", None) or getattr(memory, "session", None))
            )
        if callable(session):  # it depends on the call in which this is asked
            session = session()
        if memory is None and session is None:
            raise Wrong("this tool was told of no agent, memory or session, and none was attached")
        return _answer(memory, session, wanted, begin)
    except (Wrong, SmolagentsMemoryError) as error:
        return sentence("The step cannot be shown", error)


def agents_with(tool: Any) -> list[Any]:
    """The living agents that have this very tool: smolagents tells no tool whose it is."""

    def found() -> list[Any]:
        agents = [each for each in gc.get_objects() if issubclass(type(each), MultiStepAgent)]
        return [agent for agent in agents if any(each is tool for each in vars(agent).get("tools", {}).values())]

    agents = found()
    if len(agents) > 1:
        del agents
        gc.collect()  # one that nobody refers to any more may still be there
        agents = found()
    return agents


def _whose(source: Any, told: Sequence[Any]) -> tuple[Any, Any]:
    """The agent whose steps are meant and what journals it. Nobody is shown another one's."""
    known = [(agent, session) for each, session in told if (agent := each()) is not None]
    named = [each for each in known if source is each[0] or source is each[0].memory]
    if source is not None and (named or len(known) > 1 or hasattr(source, "memory")):
        known = named
    if len(known) > 1:
        raise Wrong("this tool is several agents', whose steps are not each other's: give each a StepTool of its own")
    agent, session = known[0] if known else (None, None)
    return (agent if source is None else source), session


def _memory_of(source: Any) -> Any:
    if hasattr(source, "transcript"):  # a session
        return None
    memory = getattr(source, "memory", None)
    return source if memory is None or callable(memory) else memory


def _answer(memory: Any, session: Any, wanted: int, begin: int) -> str:
    transcript = _transcript_of(session)
    journaled = [] if transcript is None else transcript.actions()
    newest = None if transcript is None else transcript.last_run
    places = [at for at, number, run in journaled if number == wanted and run == newest]
    if transcript is not None and places:
        return _part(transcript[places[-1]].original, wanted, begin)
    steps = list(getattr(memory, "steps", ()))
    of_task = [step for step in steps[last_task(steps) or 0 :] if is_action(step)]
    step = next((each for each in reversed(of_task) if each.step_number == wanted), None)
    if step is not None:
        return _part(step, wanted, begin, lost=mark_of(step, "cut_from"))
    earlier = [(at, run) for at, number, run in journaled if number == wanted]
    if transcript is not None and earlier:
        at, run = earlier[-1]
        return f"[step {wanted} of an earlier task, run {run}]\n{_part(transcript[at].original, wanted, begin)}"
    step = next((each for each in reversed(steps) if is_action(each) and each.step_number == wanted), None)
    if step is not None:
        text = _part(step, wanted, begin, lost=mark_of(step, "cut_from"))
        return f"[step {wanted} of an earlier task]\n{text}"
    there = {number for _, number, run in journaled if run == newest} | {each.step_number for each in of_task}
    return _not_found(wanted, there, kept=transcript is not None)


def _transcript_of(session: Any) -> Any:
    try:
        return None if session is None else session.transcript()
    except SessionNotFoundError:  # nothing was journaled yet
        return None


def _not_found(wanted: int, there: set[int], *, kept: bool) -> str:
    if not there:
        return f"There is no step {wanted}; there are none yet."
    if not kept and 0 < wanted < max(there):
        gone = f"Step {wanted} is not in memory any more, and no session keeps what was dropped"
        return f"{gone}; there are: {_ranges(there)}."
    return f"There is no step {wanted}; there are: {_ranges(there)}."


def _ranges(numbers: set[int]) -> str:
    """Numbers in words: "1 to 3, 7"."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in found)


def _part(step: MemoryStep, number: int, begin: int, *, lost: Any = None) -> str:
    text = "\n".join(filter(None, (str(came_back(step) or ""), error_of(step))))
    if not text:
        images: Sequence[Any] = images_of(step)
        return f"Step {number} left no text{f', but {len(images)} image(s)' if images else ''}."
    if begin >= len(text):
        return f"Step {number} has {len(text)} characters; there is nothing from {begin} on."
    part = text[begin : begin + _SHOWN]
    rest = len(text) - begin - len(part)
    if rest > 0:
        return f"{part}\n[{rest} more characters: call again with start={begin + len(part)}]"
    return (
        f"{part}\n[this is all that is left of {lost:,} characters: no session keeps the original]" if lost else part
    )
