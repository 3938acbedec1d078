"""A copy of an agent runs itself: nobody watches it, and it has no part in the conversation that a session keeps."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from smolagents import ChatMessage, CodeAgent, Model, ToolCallingAgent
from smolagents.memory import AgentMemory, TaskStep
from smolagents.models import MessageRole
from smolagents.monitoring import AgentLogger, LogLevel, TokenUsage

from smolagents_memory import EnhancedAgentMemory, ObservedMemory, Session
from smolagents_memory._listener import Listener, ModelCall, Run, ToolCall
from smolagents_memory.testing import ScriptedModel, call, code, same
from smolagents_memory.upstream import watch, who_watches


class Says(Model):
    """A model that can be copied, and that says who it is."""

    def __init__(self, name: str, calls: bool = False) -> None:
        super().__init__(model_id=name)
        self.name, self.calls, self.asked = name, calls, 0

    def generate(self, messages: Any, *args: Any, **options: Any) -> ChatMessage:
        self.asked += 1
        what: Any = call("final_answer", answer=self.name) if self.calls else code(f"final_answer('{self.name}')")
        message = ScriptedModel([what]).generate(messages)
        return ChatMessage(MessageRole.ASSISTANT, message.content, message.tool_calls, token_usage=TokenUsage(1, 1))


class Shared(AgentLogger):
    """Upstream's own, with the console's lock in it, lets nobody copy an agent deeply."""

    def __deepcopy__(self, memo: Any) -> Shared:
        return self


class Everything(Listener):
    """Has all there is put on the agent."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def run_begins(self, run: Run) -> None:
        self.heard.append(run.agent)

    def model_call_begins(self, call: ModelCall) -> None:
        self.heard.append(call.agent)

    def tool_call_begins(self, call: ToolCall) -> None:
        self.heard.append(call.agent)

    def before_callbacks(self, agent: Any, step: Any) -> None:
        self.heard.append(agent)


def agent(calls: bool = False) -> Any:
    model, logger = Says("original", calls), Shared(level=LogLevel.OFF)
    return (ToolCallingAgent if calls else CodeAgent)([], model, logger=logger)


def renamed(copied: Any) -> Any:
    copied.model = Says("copy", copied.model.calls)
    return copied


def tasks(steps: Any) -> list[str]:
    return [step.task for step in steps if isinstance(step, TaskStep)]


COPIES = {"copy": copy.copy, "deepcopy": copy.deepcopy}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("calls", [True, False])
def test_a_copy_of_an_agent_that_is_watched_runs_itself_and_nobody_hears_of_it(how: str, calls: bool) -> None:
    mine, heard = agent(calls), Everything()
    watch(mine, heard)
    assert mine.run("One") == "original"
    before = len(heard.heard)
    other = renamed(COPIES[how](mine))
    assert other.run("Two") == "copy"
    assert (other.model.asked, mine.model.asked, len(heard.heard)) == (1, 1, before)
    assert who_watches(other) == []
    assert not {"run", "_run_stream", "_step_stream"} & vars(other).keys()
    assert mine.run("Three") == "original"
    assert set(map(id, heard.heard)) == {id(mine)}
    assert len(heard.heard) == 2 * before


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_has_no_part_in_the_session_of_its_original(how: str, tmp_path: Path) -> None:
    mine = agent()
    with Session("one", tmp_path).attach(mine) as session:
        mine.run("One")
        other = renamed(COPIES[how](mine))
        assert tasks(other.memory.steps) == ["One"]
        assert other.run("Two", reset=False) == "copy"
        assert mine.run("Three", reset=False) == "original"
        session.flush()
        assert tasks(mine.memory.steps) == tasks(session.steps()) == ["One", "Three"]
        assert all(map(same, session.steps(), mine.memory.steps))
        with Session("two", tmp_path).attach(other) as second:  # it has one of its own
            second.run("Four")
    assert tasks(Session("two", tmp_path).steps()) == ["One", "Two", "Four"]


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_has_no_part_in_the_long_term_memory_of_its_original(how: str) -> None:
    mine = agent()
    memory = EnhancedAgentMemory(vector=False).attach(mine)
    mine.run("One")
    other = renamed(COPIES[how](mine))
    assert other.run("Two") == "copy"
    assert tasks(memory.steps) == ["One"]
    assert not any("Two" in str(each.value) for each in memory.items())
    own = EnhancedAgentMemory(vector=False)
    other.memory = own
    other.run("Three")
    assert "Task: Three\nOutcome: copy" in [each.value for each in own.items()]
    other.memory = AgentMemory("plain")
    assert other.run("Four") == "copy"
    memory.close()
    assert mine.run("Five") == "original"


def test_a_copy_made_in_the_middle_of_a_run_and_one_of_a_copy(tmp_path: Path) -> None:
    made: list[Any] = []
    mine = agent()
    with Session("one", tmp_path).attach(mine):
        for _ in mine.run("One", stream=True):
            made.append(copy.copy(copy.copy(mine)))
        assert [renamed(each).run("Two") for each in made] == ["copy"] * len(made)
    assert tasks(Session("one", tmp_path).steps()) == ["One"]


def test_a_copy_of_an_agent_that_nobody_watches_is_as_smolagents_has_it() -> None:
    mine = agent()
    for memory in (mine.memory, ObservedMemory("prompt")):
        mine.memory = memory
        off = watch(mine, Everything())
        assert copy.copy(mine).memory is memory
        off()
        assert copy.copy(mine).memory is memory
        assert vars(copy.copy(mine)) == vars(mine)


def test_what_somebody_else_put_round_ours_is_copied_as_it_is() -> None:
    mine, log = agent(), []
    watch(mine, Everything())
    ours = mine.run
    mine.run = lambda *args, **options: log.append("theirs") or ours(*args, **options)  # type: ignore[func-returns-value]
    assert copy.copy(mine).run is mine.run
