"""Two runs of one agent that take turns: the older one does not go on, and none has a word of the other's."""

from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path
from typing import Any

import pytest
from smolagents import CodeAgent
from smolagents.memory import ActionStep, TaskStep

from smolagents_memory import EnhancedAgentMemory, Session, SmolagentsMemoryError, iter_steps
from smolagents_memory._errors import AttachError, SessionError
from smolagents_memory.testing import ScriptedModel, code, same


def an_agent(users: int = 2) -> CodeAgent:
    """It works for whoever asks: in each run a step that tells whom it is for, and an answer."""

    def says(messages: Any) -> str:
        texts = [str(message.content) for message in messages]
        user = next(text for text in reversed(texts) if "task of" in text).split("task of ")[1][:3]
        return code(
            f"final_answer('for {user}')" if f"works for {user}" in texts[-1] else f"print('works for {user}')"
        )

    return CodeAgent([], ScriptedModel([says] * 4 * users), verbosity_level=0)


def equal(session: Session, mine: Any) -> bool:
    kept, live = session.steps(), list(mine.memory.steps)
    return len(kept) == len(live) and all(map(same, kept, live))


def mixed(mine: CodeAgent) -> list[str]:
    return [each.text for each in mine.model.calls if "task of ann" in each.text and "task of bob" in each.text]


KEEPERS = {
    "session": (lambda mine, place: Session("s", place).attach(mine), SessionError),
    "memory": (lambda mine, place: EnhancedAgentMemory(place, vector=False).attach(mine), AttachError),
}


@pytest.fixture(params=KEEPERS)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    attach, error = KEEPERS[request.param]
    mine = an_agent()
    keeper = attach(mine, tmp_path)
    yield mine, keeper, error
    keeper.detach()


@pytest.mark.parametrize("reset", [True, False])
def test_two_streams_in_one_thread(kept: Any, reset: bool) -> None:
    mine, keeper, error = kept

    async def serve(user: str) -> Any:
        items = []
        for item in mine.run(f"task of {user}", stream=True, reset=reset):
            items.append(item)
            await asyncio.sleep(0)
        return items[-1].output

    async def both() -> Any:
        return await asyncio.gather(serve("ann"), serve("bob"), return_exceptions=True)

    anns, bobs = asyncio.run(both())
    assert type(anns) is error
    assert "another run" in str(anns)
    assert bobs == "for bob"
    assert not any("works for ann" in text for text in mixed(mine))
    assert bool(mixed(mine)) is not reset  # then it is one conversation, and her task stands there
    assert "for ann" not in str(list(mine.memory.steps))
    if isinstance(keeper, Session):
        assert [(run.task, run.state, run.answer) for run in keeper.runs()] == [
            ("task of ann", "interrupted", None),
            ("task of bob", "finished", "for bob"),
        ]
        assert equal(keeper, mine)
    else:
        learnt = [each.value for each in keeper.items()]
        assert "Task: task of bob\nOutcome: for bob" in learnt
        assert not any("for ann" in each for each in learnt)
    assert mine.run("task of ann") == "for ann"  # and the agent goes on


@pytest.mark.parametrize("over", [True, False])
def test_a_stream_of_another_thread_that_is_paused_between_two_items(kept: Any, over: bool) -> None:
    """Its own task is gone, whether the run that began meanwhile is over or not."""
    mine, _, error = kept
    paused, go_on, got = threading.Event(), threading.Event(), []

    def ann() -> None:
        try:
            for _ in mine.run("task of ann", stream=True):
                paused.set()
                go_on.wait(20)
        except SmolagentsMemoryError as refused:
            got.append(type(refused))

    thread = threading.Thread(target=ann)
    thread.start()
    assert paused.wait(20)
    stream = mine.run("task of bob", stream=True)
    assert (list(stream)[-1].output == "for bob") if over else next(stream)
    go_on.set()
    thread.join()
    assert got == [error]
    if not over:
        assert list(stream)[-1].output == "for bob"
    assert mixed(mine) == []
    assert [step.task for step in mine.memory.steps if isinstance(step, TaskStep)] == ["task of bob"]


def test_streams_that_were_asked_for_before_any_is_begun(kept: Any) -> None:
    mine, _, error = kept
    streams = [mine.run(f"task of {user}", stream=True, reset=False) for user in ("ann", "bob")]
    with pytest.raises(error, match="another run"):
        next(streams[0])
    assert list(streams[1])[-1].output == "for bob"


def test_two_that_are_made_step_by_step(kept: Any) -> None:
    mine, _, error = kept
    first = iter_steps(mine, "task of ann", reset=False)
    next(first)
    second = iter_steps(mine, "task of bob", reset=False)
    next(second)
    with pytest.raises(error, match="another run"):
        next(first)
    list(second)
    assert second.answer == "for bob"


@pytest.mark.parametrize("at", [ActionStep, object])
@pytest.mark.parametrize("when", ["before", "meanwhile", "afterwards"])
def test_a_stream_that_is_left_is_in_nobody_s_way(kept: Any, when: str, at: type) -> None:
    """However long somebody has it, and whenever it is closed; half a step of it comes into nobody's memory."""
    mine, keeper, _ = kept
    left = mine.run("task of ann", stream=True)
    while not isinstance(next(left), at):
        pass
    if when == "before":
        try:
            left.close()
        except RuntimeError:  # as upstream has it
            assert at is object
    stream = mine.run("task of bob", stream=True)
    next(stream)
    if when == "meanwhile":
        left.close()
    assert list(stream)[-1].output == "for bob"
    if when == "afterwards":
        del left
        gc.collect()
    assert [type(step) for step in mine.memory.steps] == [TaskStep, ActionStep, ActionStep]
    assert mixed(mine) == []
    if isinstance(keeper, Session):
        assert [run.state for run in keeper.runs()] == ["interrupted", "finished"]
        assert equal(keeper, mine)


def test_a_turn_of_the_conversation_between_two_items_is_part_of_it(kept: Any) -> None:
    """It began since, but it is over, and it left the steps where they were."""
    mine, keeper, _ = kept
    stream = mine.run("task of ann", stream=True, reset=False)
    while not isinstance(next(stream), ActionStep):
        pass
    assert mine.run("task of bob", reset=False) == "for bob"
    assert "for" in list(stream)[-1].output
    if isinstance(keeper, Session):
        assert equal(keeper, mine)
