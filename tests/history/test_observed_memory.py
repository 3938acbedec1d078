"""ObservedMemory: a drop-in that notices."""

from __future__ import annotations

import copy
import logging
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from agents import CODE_SCRIPT, calling_agent, code_agent, double, photo, rendered
from hypothesis import given, settings
from hypothesis import strategies as st
from smolagents import CodeAgent, agents
from smolagents.memory import ActionStep, AgentMemory, PlanningStep, SystemPromptStep, TaskStep, ToolCall
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole
from smolagents.monitoring import AgentLogger, LogLevel, Timing, TokenUsage
from smolagents.utils import AgentError

from smolagents_memory import NoteStep, ObservedMemory
from smolagents_memory.testing import ScriptedModel, call, code, explain_difference


class Mirror:
    """Keeps a copy of a memory's list from nothing but what the memory tells."""

    def __init__(self, memory: ObservedMemory) -> None:
        self.steps: list[Any] = list(memory.steps)
        self.edited: list[Any] = []
        self.resets = 0
        self.off = [memory.on("steps_changed", self.change), memory.on("step_edited", self.edit)]

    def change(self, event: Any) -> None:
        assert self.steps[event.start : event.start + len(event.removed)] == list(event.removed)
        self.steps[event.start : event.start + len(event.removed)] = event.added
        self.resets += event.reset

    def edit(self, event: Any) -> None:
        self.edited.append(event.step)


def task(name: str) -> TaskStep:
    return TaskStep(task=name)


changes = st.one_of(
    st.tuples(st.sampled_from(["append", "remove"]), st.integers(0, 9), st.just(0)),
    st.tuples(
        st.sampled_from(["insert", "pop", "set", "del", "extend", "iadd", "imul"]), st.integers(-9, 9), st.just(0)
    ),
    st.tuples(st.sampled_from(["slice", "delslice", "stride"]), st.integers(-9, 9), st.integers(-9, 9)),
    st.tuples(st.sampled_from(["clear", "reverse", "sort", "rebind", "reset"]), st.just(0), st.just(0)),
)


def apply(steps: Callable[[], list[Any]], owner: Any, change: tuple[str, int, int], name: str) -> object:
    """Make one change; the same function drives the observed list and a plain one."""
    kind, a, b = change
    target = steps()
    if kind == "append":
        return target.append(task(name))
    if kind == "remove":
        return target.remove(target[a])
    if kind == "insert":
        return target.insert(a, task(name))
    if kind == "pop":
        return target.pop(a).task
    if kind == "set":
        target[a] = task(name)
    if kind == "del":
        del target[a]
    if kind == "extend":
        return target.extend(task(f"{name}{i}") for i in range(abs(a) % 3))
    if kind == "iadd":
        target += [task(name)]
    if kind == "imul":
        target *= abs(a) % 3
    if kind == "slice":
        target[a:b] = [task(name), task(name + "'")]
    if kind == "delslice":
        del target[a:b:2]
    if kind == "stride":
        target[a:b:-1] = [task(name) for _ in target[a:b:-1]]
    if kind == "clear":
        return target.clear()
    if kind == "reverse":
        return target.reverse()
    if kind == "sort":
        return target.sort(key=lambda step: step.task)
    if kind == "rebind":
        owner.steps = [task(name), *target]
    if kind == "reset":
        owner.reset()
    return None


@settings(deadline=None, max_examples=100)
@given(st.lists(changes, max_size=12))
def test_every_change_to_the_list_behaves_as_upstream_and_is_told(script: list[tuple[str, int, int]]) -> None:
    observed, plain = ObservedMemory("s"), AgentMemory("s")
    mirror = Mirror(observed)
    for number, change in enumerate(script):
        outcomes = []
        for memory in (observed, plain):
            try:
                outcomes.append(apply(lambda memory=memory: memory.steps, memory, change, str(number)))
            except (IndexError, ValueError) as error:
                outcomes.append(type(error))
        assert outcomes[0] == outcomes[1]
        assert list(observed.steps) == plain.steps
        assert len(mirror.steps) == len(observed.steps)
        assert all(a is b for a, b in zip(mirror.steps, observed.steps, strict=True))


def full_step() -> ActionStep:
    call = ToolCall("write", {"path": "a", "lines": [1]}, "call_1")
    return ActionStep(
        step_number=1,
        timing=Timing(0.0, 1.0),
        model_input_messages=[ChatMessage(role=MessageRole.USER, content=[{"type": "text", "text": "t"}])] * 2,
        tool_calls=[call],
        error=AgentError("wrong", AgentLogger(level=LogLevel.OFF)),
        model_output_message=ChatMessage(role=MessageRole.ASSISTANT, content=[{"type": "text", "text": "t"}]),
        observations="seen",
        observations_images=[photo()],
        action_output={"rows": [1]},
        token_usage=TokenUsage(1, 2),
    )


EDITS: dict[str, Callable[[Any], object]] = {
    "a field": lambda step: setattr(step, "observations", "other"),
    "a field of equal value and another type": lambda step: setattr(step, "is_final_answer", 0),
    "a new attribute": lambda step: setattr(step, "pinned", True),
    "an image less": lambda step: step.observations_images.clear(),
    "another image": lambda step: step.observations_images.__setitem__(0, photo("blue")),
    "a call more": lambda step: step.tool_calls.append(ToolCall("b", {}, "2")),
    "a call's name": lambda step: setattr(step.tool_calls[0], "name", "read"),
    "a call's argument": lambda step: step.tool_calls[0].arguments.__setitem__("path", "b"),
    "the key of an argument": lambda step: step.tool_calls[0].arguments.__setitem__(
        "to", step.tool_calls[0].arguments.pop("lines")
    ),
    "the end of its time": lambda step: setattr(step.timing, "end_time", 9.0),
    "its tokens": lambda step: setattr(step.token_usage, "input_tokens", 9),
    "its output message": lambda step: setattr(step.model_output_message, "content", "other"),
    "a part of its output message": lambda step: step.model_output_message.content[0].__setitem__("text", "other"),
    "its error's message": lambda step: setattr(step.error, "message", "other"),
    "its error's arguments": lambda step: setattr(step.error, "args", ("other",)),
    "its action's output": lambda step: step.action_output.__setitem__("rows", []),
    "its input messages": lambda step: setattr(step, "model_input_messages", None),
    "an input message less": lambda step: step.model_input_messages.pop(),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edit_inside_a_step_is_found_at_the_next_change(edit: Callable[[Any], object]) -> None:
    memory, step = ObservedMemory("s"), full_step()
    memory.steps = [task("a"), step, task("b")]
    mirror = Mirror(memory)
    memory.steps.append(task("c"))
    assert mirror.edited == []
    edit(step)
    memory.steps.append(task("d"))
    assert mirror.edited == [step]
    memory.steps.append(task("e"))
    assert mirror.edited == [step]


def test_an_edit_is_found_at_flush_and_when_the_last_listener_leaves() -> None:
    memory, step = ObservedMemory("s"), full_step()
    memory.steps = [step]
    mirror = Mirror(memory)
    step.model_input_messages[0] = ChatMessage(role=MessageRole.USER, content="replaced")
    memory.flush()
    assert mirror.edited == [step]
    step.observations = "again"
    for off in mirror.off:
        off()
        off()
    assert mirror.edited == [step, step]
    step.observations = "unseen"
    memory.flush()
    assert mirror.edited == [step, step]


def test_an_edit_in_the_calls_of_the_output_message_is_found_at_flush_only() -> None:
    memory, step = ObservedMemory("s"), full_step()
    asked = ChatMessageToolCall(ChatMessageToolCallFunction(name="read", arguments={"path": "a"}), "1", "function")
    step.model_output_message.tool_calls = [asked]
    memory.steps = [step]
    mirror = Mirror(memory)
    asked.function.arguments["path"] = "b"
    memory.steps.append(task("a"))
    assert mirror.edited == []
    memory.flush()
    assert mirror.edited == [step]


def test_what_takes_long_is_done_once_when_the_next_one_may_change_the_list() -> None:
    memory, done = ObservedMemory("s"), list[str]()

    def work() -> None:
        other = threading.Thread(target=memory.steps.append, args=(task("by another thread"),), daemon=True)
        other.start()
        other.join(20)
        assert not other.is_alive()
        done.append("work")

    def changed(event: Any) -> None:
        if event.added[0].task == "first":
            memory.steps.append(task("within"))
            memory.afterwards(work)
            memory.afterwards(work)
            assert done == []

    memory.on_first("steps_changed", changed)
    memory.on("steps_changed", lambda event: done.append(event.added[0].task))
    memory.steps.append(task("first"))
    assert done.count("work") == 1
    assert [step.task for step in memory.steps] == ["first", "within", "by another thread"]
    memory.afterwards(work)  # nothing is going on
    assert done[-1] == "work"


def test_a_note_and_a_planning_step_are_looked_into_as_well() -> None:
    memory = ObservedMemory("s")
    note = NoteStep("n", meta={"replaces": [1]})
    plan = PlanningStep([], ChatMessage(role=MessageRole.ASSISTANT, content="p"), "p", Timing(0.0))
    memory.steps = [note, plan]
    mirror = Mirror(memory)
    note.meta["replaces"] = [2]
    plan.plan = "other"
    memory.flush()
    assert mirror.edited == [note, plan]


def test_assigning_another_memory_s_steps_copies_the_list_and_each_tells_its_own_listeners() -> None:
    one, two = ObservedMemory("1"), ObservedMemory("2")
    one.steps.append(task("shared"))
    two.steps = one.steps
    first, second = Mirror(one), Mirror(two)
    one.steps.append(task("only in one"))
    assert len(one.steps) == len(first.steps) == 2
    assert len(two.steps) == len(second.steps) == 1
    one.steps[0].task = "edited"
    one.flush()
    assert (first.edited, second.edited) == ([one.steps[0]], [])
    two.flush()
    assert second.edited == [one.steps[0]]


def test_a_stale_reference_to_a_list_that_was_replaced_tells_nobody() -> None:
    memory = ObservedMemory("s")
    stale = memory.steps
    memory.reset()
    mirror = Mirror(memory)
    stale.append(task("lost"))
    assert mirror.steps == list(memory.steps) == []
    assert len(stale) == 1


def test_a_listener_that_fails_is_logged_and_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    memory, heard = ObservedMemory("s"), []
    memory.on("steps_changed", lambda event: 1 / 0)
    memory.on("steps_changed", heard.append)
    with caplog.at_level(logging.ERROR):
        memory.steps.append(task("a"))
    assert len(heard) == 1
    assert "ZeroDivisionError" in caplog.text


def test_a_listener_may_change_the_memory_and_everybody_hears_it_in_order() -> None:
    memory = ObservedMemory("s")
    mirror = Mirror(memory)

    def add_note(event: Any) -> None:
        if isinstance(event.added[-1], TaskStep):
            memory.steps.append(NoteStep("after a task"))

    memory.on("steps_changed", add_note)
    later = Mirror(memory)
    memory.steps.append(task("a"))
    assert len(memory.steps) == 2
    assert mirror.steps == later.steps == list(memory.steps)


def test_the_system_prompt_is_told_when_it_becomes_another() -> None:
    memory, heard = ObservedMemory("s"), []
    memory.on("system_prompt_changed", heard.append)
    memory.system_prompt = SystemPromptStep("s")
    memory.system_prompt = SystemPromptStep("t")
    assert [event.system_prompt.system_prompt for event in heard] == ["t"]


def test_threads_may_append_at_the_same_time() -> None:
    memory = ObservedMemory("s")
    mirror = Mirror(memory)

    def work(name: int) -> None:
        for number in range(200):
            memory.steps.append(task(f"{name}.{number}"))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(memory.steps) == 1_600
    assert all(a is b for a, b in zip(mirror.steps, memory.steps, strict=True))


def test_copies_and_pickles_have_their_own_lists_and_no_listeners() -> None:
    memory = ObservedMemory("s")
    memory.steps.append(task("a"))
    memory.remark = "kept"
    Mirror(memory)
    for other in (copy.deepcopy(memory), pickle.loads(pickle.dumps(memory))):
        assert (list(other.steps), other.remark) == ([task("a")], "kept")
        other.steps.append(task("b"))
        assert len(memory.steps) == 1
    assert type(copy.copy(memory.steps)) is list
    assert pickle.loads(pickle.dumps(memory.steps)) == [task("a")]


# -- in the place of smolagents' own memory ------------------------------------------------------------------------


def run_streamed(agent: Any) -> Any:
    return [type(event).__name__ for event in agent.run("go", stream=True)]


def run_twice(agent: Any) -> Any:
    first = agent.run("go")
    agent.model = ScriptedModel(["plan", code("final_answer(2)"), "plan", code("final_answer(3)")])
    return first, agent.run("on", reset=False), agent.run("anew")


def run_to_the_limit(agent: Any) -> Any:
    return agent.run("go", max_steps=2)


def run_interrupted(agent: Any) -> Any:
    agent.step_callbacks.register(ActionStep, lambda step, agent: agent.interrupt())
    with pytest.raises(AgentError, match="interrupted"):
        agent.run("go")


def run_whole(agent: Any) -> Any:
    agent.return_full_result = True
    result = agent.run("go", images=[photo()])
    return result.output, result.state, agent.memory.return_full_code()


def managed() -> Any:
    worker = code_agent(["plan", code("final_answer('found')")] * 3, name="worker", description="Works.")
    return CodeAgent(
        tools=[double],
        model=ScriptedModel([code("print(worker(task='dig'))"), code("final_answer(worker(task='dig on'))")]),
        managed_agents=[worker],
        verbosity_level=0,
    )


def checked() -> Any:
    def always_wrong(answer: Any, memory: Any, agent: Any = None) -> bool:
        assert len(memory.steps)
        return False

    return code_agent([*CODE_SCRIPT, "I give up."], final_answer_checks=[always_wrong], max_steps=4)


@pytest.mark.parametrize("make", [code_agent, calling_agent, managed, checked], ids=lambda make: make.__name__)
@pytest.mark.parametrize("how", [run_whole, run_streamed, run_to_the_limit, run_interrupted, run_twice])
def test_agents_behave_the_same_with_an_observed_memory(
    make: Callable[[], Any], how: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if how is run_twice and make is not code_agent:
        make = code_agent
    plain = make()
    expected = how(plain)
    monkeypatch.setattr(agents, "AgentMemory", ObservedMemory)
    observed = make()
    assert type(observed.memory) is ObservedMemory
    mirror = Mirror(observed.memory)
    assert how(observed) == expected
    assert explain_difference(rendered(observed), rendered(plain)) is None
    assert all(a is b for a, b in zip(mirror.steps, observed.memory.steps, strict=True))
    assert [type(step) for step in observed.memory.steps] == [type(step) for step in plain.memory.steps]


def test_a_streaming_agent_and_parallel_calls_are_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "AgentMemory", ObservedMemory)
    script = [[call("double", number=1), call("double", number=2)], call("final_answer", answer=6)]
    agent = calling_agent(script, stream_outputs=True, planning_interval=None)
    mirror = Mirror(agent.memory)
    assert agent.run("go") == 6
    assert agent.memory.steps[1].observations == "2\n4"
    assert len(mirror.steps) == 3


def test_a_detailed_replay_bears_images_in_the_input_messages(capsys: pytest.CaptureFixture[str]) -> None:
    agent = code_agent([code("final_answer(1)")], planning_interval=None)
    agent.memory = ObservedMemory(agent.system_prompt)
    agent.run("look", images=[photo()])
    agent.replay(detailed=True)
    assert "20x10" in capsys.readouterr().out.replace("\n", "")
    assert agent.memory.steps[1].model_input_messages[1].content[1]["type"] == "image"


def test_a_prompt_that_is_no_text_is_taken_as_it_is() -> None:
    """A file may say anything; arrays answer no question whether they are equal."""
    memory, told = ObservedMemory("p"), []
    memory.on("system_prompt_changed", lambda event: told.append(event.system_prompt))
    for prompt in (np.zeros(3), np.ones(3), "text", "text"):
        memory.system_prompt = SystemPromptStep(prompt)
    assert len(told) == 3
