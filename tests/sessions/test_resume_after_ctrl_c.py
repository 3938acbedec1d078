"""Ctrl-C in the step whose code or calls were about to give the answer: it has none, and the model is asked."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from quick_embedder import Hashed
from smolagents import CodeAgent, Tool, ToolCallingAgent

from smolagents_memory import EnhancedAgentMemory, Session, iter_steps, tool_executions
from smolagents_memory.sessions.resume import NO_ANSWER
from smolagents_memory.testing import ScriptedModel, call, code


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """As at a terminal: whoever starts the tests in the background has SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


ANSWERING = code("page = fetch()\nfinal_answer(page)")


class Fetch(Tool):
    name, description, inputs, output_type = "fetch", "Fetches.", {}, "string"

    def __init__(self, does: Any = lambda: "page") -> None:
        super().__init__()
        self.does = does

    def forward(self) -> Any:
        return self.does()


def ctrl_c() -> None:
    raise KeyboardInterrupt


def sigint() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.5)


def helper(does: Any = lambda: "page") -> CodeAgent:
    script = [code("final_answer(fetch())")]
    return CodeAgent([Fetch(does)], ScriptedModel(script), name="helper", description="Helps.", verbosity_level=0)


def agent(*script: str, does: Any = lambda: "page", **options: Any) -> CodeAgent:
    return CodeAgent([Fetch(does)], ScriptedModel(script), verbosity_level=0, **options)


def interrupted(mine: Any, place: Path) -> Session:
    session = Session("s", place)
    with session.attach(mine), pytest.raises(KeyboardInterrupt):
        mine.run("Fetch the page.")
    assert session.runs()[-1].state == "interrupted"
    return session


@pytest.mark.parametrize("does", [ctrl_c, sigint])
def test_the_code_that_was_to_give_the_answer_gave_none(does: Any, tmp_path: Path) -> None:
    session = interrupted(agent(ANSWERING, does=does), tmp_path)
    other = agent(code("final_answer(fetch())"))
    assert session.resume(other) == "page"
    assert len(other.model.calls) == 1
    assert [(run.state, run.answer, run.steps) for run in session.runs()] == [("finished", "page", 2)]


def test_a_managed_agent_in_the_line_that_was_to_give_the_answer(tmp_path: Path) -> None:
    asking = code("final_answer(helper('Fetch.'))")
    session = interrupted(agent(asking, managed_agents=[helper(ctrl_c)]), tmp_path)
    other = agent(asking, managed_agents=[helper()])
    assert "page" in session.resume(other)
    assert len(other.model.calls) == 1


def test_an_answer_that_was_given_for_the_code_is_told_to_the_model(tmp_path: Path) -> None:
    mine = agent(ANSWERING, does=ctrl_c)
    session = interrupted(mine, tmp_path)
    other = agent(code("final_answer('done')"))
    assert session.resume(other, answers={mine.memory.steps[-1].tool_calls[0].id: "approved by Ann"}) == "done"
    assert "approved by Ann" in other.model.calls[0].text


@pytest.mark.parametrize("answer", ["no", "7", "run"])
@pytest.mark.parametrize("given", [True, False])
def test_calls_of_which_one_was_to_give_the_answer(answer: str, given: bool, tmp_path: Path) -> None:
    """Whatever of it stands in the sentence that takes the place of a result, or in one that was given."""
    script = [[call("fetch"), call("final_answer", answer=answer)]]
    mine = ToolCallingAgent([Fetch(ctrl_c)], ScriptedModel(script), verbosity_level=0)
    session = interrupted(mine, tmp_path)
    other = ToolCallingAgent([Fetch()], ScriptedModel([call("final_answer", answer="fresh")]), verbosity_level=0)
    assert session.resume(other, answers={"call_1": f"there is {answer} page"} if given else {}) == "fresh"
    assert len(other.model.calls) == 1
    fetched, said, *_ = tool_executions(other)
    assert fetched.result.result == (f"there is {answer} page" if given else None)
    assert (fetched.result.error is None, said.result.result) == (given, None)


def test_interrupted_again_before_the_next_step_it_still_has_no_answer(tmp_path: Path) -> None:
    session = interrupted(agent(ANSWERING, does=ctrl_c), tmp_path)
    with pytest.raises(KeyboardInterrupt):
        session.resume(CodeAgent([Fetch()], ScriptedModel([KeyboardInterrupt()]), verbosity_level=0))
    assert session.runs()[-1].state == "interrupted"
    again = agent(code("final_answer(fetch())"))
    assert not iter_steps(session.attach(again)._attachment.agent).done  # type: ignore[union-attr]
    assert session.resume(again) == "page"
    session.detach()


def test_what_nobody_answered_teaches_nothing(tmp_path: Path) -> None:
    session = interrupted(agent(ANSWERING, does=ctrl_c), tmp_path)
    other = agent(KeyboardInterrupt())  # type: ignore[arg-type]
    memory = EnhancedAgentMemory(tmp_path, embedder=Hashed()).attach(other)
    with pytest.raises(KeyboardInterrupt):
        session.resume(other)
    assert "Not finished" in memory.summary()
    learnt = "\n".join(str(each.value) for each in memory.items())
    memory.close()
    assert "Not solved" in learnt
    for never in (NO_ANSWER, "Outcome:", "Solved", "final_answer(page)"):
        assert never not in learnt
    third = agent(code("final_answer(fetch())"))
    with EnhancedAgentMemory(tmp_path, embedder=Hashed()).attach(third) as memory:
        assert session.resume(third) == "page"
        learnt = "\n".join(str(each.value) for each in memory.items())
    assert "Outcome: page" in learnt
    assert NO_ANSWER not in learnt
