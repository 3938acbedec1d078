"""What smolagents does not promise and this package builds on, part by part; and what is told of an agent by it.

The first part fails on the day when smolagents changes, and names what has. It runs on the oldest version as well.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import inspect
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from agents import calling_agent, code_agent, double, fail, photo
from smolagents import AgentError, AgentGenerationError, CodeAgent, MultiStepAgent, ToolCallingAgent, tool
from smolagents import local_python_executor as executor_module
from smolagents.agents import EMPTY_PROMPT_TEMPLATES, ActionOutput
from smolagents.memory import (
    ActionStep,
    CallbackRegistry,
    FinalAnswerStep,
    TaskStep,
    Timing,
)
from smolagents.memory import ToolCall as AskedCall
from smolagents.models import ChatMessage, MessageRole
from smolagents.monitoring import TokenUsage

import smolagents_memory
from smolagents_memory import (
    FitTokenBudget,
    ObservedMemory,
    PruneImages,
    Session,
    TruncateObservations,
    compose,
    decode_step,
    encode_step,
    iter_steps,
    upstream,
)
from smolagents_memory._listener import Listener, ModelCall, Run, ToolCall
from smolagents_memory.testing import ScriptedModel, call, code, same
from smolagents_memory.upstream import namespace_of, watch


PACKAGE = Path(smolagents_memory.__file__).parent
ANSWER = [code("x = 20"), code("final_answer(x + 1)")]
CALLS = [[call("double", number=1), call("double", number=2)], call("final_answer", answer="done")]


class Heard(Listener):
    """Writes down all that it hears."""

    def __init__(self) -> None:
        self.log: list[tuple[str, Any]] = []

    def names(self) -> list[str]:
        return [name for name, _ in self.log]

    def all(self, name: str) -> list[Any]:
        return [what for each, what in self.log if each == name]


def _hearing(name: str) -> Callable[..., None]:
    def heard(self: Heard, *what: Any) -> None:
        self.log.append((name, what[-1]))

    return heard


EVENTS = [name for name in vars(Listener) if not name.startswith("_")]
for _name in EVENTS:
    setattr(Heard, _name, _hearing(_name))


def helper_agent() -> CodeAgent:
    script = [code("final_answer('found')")]
    return code_agent(script, name="helper", description="Helps.", planning_interval=None)


class RunsHeard(Listener):
    """Runs alone: which began, with what in memory, and how they ended."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    def run_announced(self, run: Run) -> None:
        self.log.append(("announced", run.task, run.goes_on, len(run.agent.memory.steps)))

    def run_begins(self, run: Run) -> None:
        self.log.append(("begins", run.max_steps, type(run.agent.memory.steps[-1]).__name__))

    def run_ends(self, run: Run) -> None:
        self.log.append((run.outcome, run.answer if run.error is None else type(run.error).__name__))


# -- what smolagents does not promise ------------------------------------------------------------------------------


def test_nobody_else_knows_the_private_parts() -> None:
    private = (
        r"(?<!\w)_(run_stream|step_stream|finalize_step|generate_planning_step|handle_max_steps_reached|callbacks"
        r"|validate_final_answer|print_outputs|operations_count)\b|interrupt_switch|\b(custom|static)_tools\b"
        r"|\b__source__\b|\blambda_expression\b|local_python_executor|LocalPythonExecutor|executor\.state\b|\bERRORS\b"
        r"|prompt_templates|(pre|post)_messages|Agent interrupted"
    )
    found = {
        f"{path.relative_to(PACKAGE)}: {match.group()}"
        for path in PACKAGE.rglob("*.py")
        for match in re.finditer(private, path.read_text(encoding="utf-8"))
        if path.name != "upstream.py"
    }
    assert found == set()


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("run", ["task", "stream", "reset", "images", "additional_args", "max_steps"]),
        ("_run_stream", ["task", "max_steps", "images"]),
        ("_step_stream", ["memory_step"]),
        ("_finalize_step", ["memory_step"]),
        ("_generate_planning_step", ["task", "is_first_step", "step"]),
        ("_handle_max_steps_reached", ["task"]),
        ("_validate_final_answer", ["final_answer"]),
        ("write_memory_to_messages", ["summary_mode"]),
        ("step", ["memory_step"]),
    ],
)
def test_the_methods_of_an_agent_take_what_they_are_given(method: str, parameters: list[str]) -> None:
    assert list(inspect.signature(getattr(MultiStepAgent, method)).parameters)[1:][: len(parameters)] == parameters


def test_a_tool_calling_agent_executes_calls_by_one_method() -> None:
    assert list(inspect.signature(ToolCallingAgent.execute_tool_call).parameters) == ["self", "tool_name", "arguments"]


def test_run_calls_its_loop_and_the_loop_its_steps_by_the_agent_s_own_attributes() -> None:
    """So that what is put there is what is called; the task is in memory when the loop is asked for."""
    agent = code_agent(ANSWER, planning_interval=None)
    seen = []
    loop, steps = agent._run_stream, agent._step_stream

    def own_loop(**given: Any) -> Any:
        seen.append((sorted(given), [type(step) for step in agent.memory.steps]))
        return loop(**given)

    def own_steps(step: Any) -> Any:
        seen.append(type(step))
        return steps(step)

    vars(agent).update(_run_stream=own_loop, _step_stream=own_steps)
    assert agent.run("Go") == 21
    assert seen == [(["images", "max_steps", "task"], [TaskStep]), ActionStep, ActionStep]


def test_a_step_gives_what_it_is_about_to_do_before_it_does_it() -> None:
    agent = code_agent([code("double(number=4)")], planning_interval=None)
    agent.python_executor.send_tools(agent.tools)
    step = ActionStep(step_number=1, timing=Timing(time.time()))
    stream = agent._step_stream(step)
    asked = next(stream)
    assert isinstance(asked, AskedCall)
    assert (asked.name, step.code_action, step.observations) == ("python_interpreter", "double(number=4)", None)
    *_, last = stream
    assert isinstance(last, ActionOutput)
    assert (last.output, last.is_final_answer, step.is_final_answer) == (8, False, False)


def test_a_tool_calling_agent_asks_for_all_its_calls_before_it_makes_one() -> None:
    """And executes each with the very arguments that it asked with: they tell which call it is."""
    agent = calling_agent([CALLS[0]], planning_interval=None)
    executed: list[Any] = []
    vars(agent)["execute_tool_call"] = lambda name, arguments: executed.append(arguments)
    items = []
    for item in agent._step_stream(ActionStep(step_number=1, timing=Timing(time.time()))):
        items.append(item)
        if len(items) == 2:
            assert executed == []
    asked = [item for item in items if isinstance(item, AskedCall)]
    assert items[:2] == asked
    assert {id(arguments) for arguments in executed} == {id(each.arguments) for each in asked}


def test_the_registry_goes_round_its_callbacks_in_one_method_and_one_dict() -> None:
    registry = CallbackRegistry()
    registry.register(ActionStep, print)
    assert registry._callbacks == {ActionStep: [print]}
    agent = code_agent([])
    assert list(inspect.signature(type(agent.step_callbacks).callback).parameters)[1:] == ["memory_step", "kwargs"]


def test_a_callback_of_one_parameter_gets_the_step_alone_and_every_other_the_agent() -> None:
    seen: list[Any] = []
    alone: Any = lambda step: seen.append("alone")  # noqa: E731
    both: Any = lambda step, **options: seen.append(sorted(options))  # noqa: E731
    registry = CallbackRegistry()
    for callback in (alone, both):
        registry.register(ActionStep, callback)
    registry.callback(ActionStep(step_number=1, timing=Timing(0.0)), agent=None)
    assert seen == ["alone", ["agent"]]
    assert [upstream.gets_step_alone(each) for each in (alone, both)] == [True, False]


def test_an_interrupt_is_a_switch_and_an_error_that_only_its_text_tells() -> None:
    agent = code_agent([code("pass")], planning_interval=None)
    assert getattr(agent, "interrupt_switch", None) in (None, False)
    agent.step_callbacks.register(ActionStep, lambda step, agent: agent.interrupt())
    with pytest.raises(AgentError) as raised:
        agent.run("Go")
    assert (type(raised.value), str(raised.value)) == (AgentError, "Agent interrupted.")
    assert agent.interrupt_switch is True


def test_the_templates_have_the_keys_that_are_read() -> None:
    assert {"pre_messages", "post_messages"} <= EMPTY_PROMPT_TEMPLATES["final_answer"].keys()
    assert {"update_plan_pre_messages", "update_plan_post_messages"} <= EMPTY_PROMPT_TEMPLATES["planning"].keys()
    for agent in (code_agent([]), calling_agent([])):
        agent.task = "the task"
        final, plan = upstream.prompts_round_steps(agent)
        assert final.endswith("the task")
        assert "the task" in plan
        assert "double" in plan


@pytest.mark.parametrize("make", [code_agent, calling_agent])
def test_what_a_manager_asked_for_is_told_from_what_is_said_round_it(make) -> None:
    """Also with arguments behind it, with braces in it, and with a template of one's own."""
    agent = make([], name="worker", description="Works.")
    asked: list[str] = []
    agent.run = lambda task, **options: asked.append(task)
    for task in ("Find {{it}}.\n---\nNow.", "---\nTask:\n", ""):
        agent(task)
        assert task in asked[-1]
        assert asked[-1] != task
        assert upstream.given_task(agent, asked[-1]) == task
        assert upstream.given_task(agent, asked[-1] + "\nArguments: {'n': 1}.") == task + "\nArguments: {'n': 1}."
    assert upstream.given_task(agent, "A task like any other.") == "A task like any other."
    for template, wrapped in {
        "{{task}}": "Now.",
        "Do: {{task}}": "Do: Now.",
        "No task at all": "No task at all",
        "{{task}} and {{task}}": "Now. and Now.",
        "{{ 1/0 }}": "Now.",
    }.items():
        agent.prompt_templates["managed_agent"]["task"] = template
        assert upstream.given_task(agent, wrapped) in ("Now.", wrapped)
    assert upstream.given_task(None, "Now.") == "Now."


def test_the_executor_keeps_variables_functions_and_tools_where_they_are_looked_for() -> None:
    agent = code_agent([])
    executor = agent.python_executor
    assert executor.static_tools is None
    executor.send_tools(agent.tools)
    executor("def twice(n):\n    return 2 * n\nclass Box:\n    pass\nx = twice(2)\nf = lambda: 1")
    assert set(executor.custom_tools) == {"twice"}
    assert executor.static_tools["double"] is agent.tools["double"]
    assert executor.state.keys() - {"twice", "Box", "x", "f"} == {"__name__", "_print_outputs", "_operations_count"}
    twice, box = executor.custom_tools["twice"], executor.state["Box"]
    assert twice.__source__ == "def twice(n):\n    return 2 * n"
    assert (twice.__module__, box.__module__) == (executor_module.__name__,) * 2
    free = dict(zip(twice.__code__.co_freevars, twice.__closure__, strict=True))
    assert free["state"].cell_contents is executor.state
    assert "lambda_expression" in executor.state["f"].__code__.co_freevars
    assert "lambda_expression" not in free
    assert executor_module.ERRORS["ValueError"] is ValueError


def test_code_finds_names_in_variables_tools_functions_and_errors_and_nowhere_else() -> None:
    agent = code_agent([])
    namespace = namespace_of(agent)
    assert namespace is not None
    with namespace.ready(agent):
        namespace.run("x = 1\ndef f():\n    return 1")
        for name in ("x", "f", "double", "len", "KeyError"):
            assert namespace.find(name) is not None
        with pytest.raises(KeyError):
            namespace.find("y")
    assert (namespace.bound(), namespace.count()) == ({"x": 1}, 1)
    assert namespace.variables.keys() == {"__name__", "x"}


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("x = 1 / 0", "ZeroDivisionError: division by zero"),
        ("import os\nos.remove('x')", "Import of os is not allowed"),
        ("x = (", "SyntaxError"),
    ],
)
def test_an_error_of_the_executor_ends_with_its_reason(source: str, reason: str) -> None:
    executor = code_agent([]).python_executor
    with pytest.raises(executor_module.InterpreterError) as raised:
        executor(source)
    assert upstream.reason_of(raised.value).startswith(reason)


def test_what_an_agent_s_code_made_is_told_apart_from_everything_else() -> None:
    namespace = namespace_of(code_agent([]))
    assert namespace is not None
    namespace.run("def f():\n    return 1\nclass C:\n    pass\ng = lambda: 2")
    made = upstream.made_by_code(namespace.functions["f"])
    assert made is not None
    assert (made.home is namespace.variables, made.is_lambda) == (True, False)
    made = upstream.made_by_code(namespace.variables["g"])
    assert made is not None
    assert made.is_lambda
    assert upstream.made_by_code(code_agent) is None
    assert upstream.made_by_code(executor_module.evaluate_python_code) is None
    assert upstream.is_class_of_code(namespace.variables["C"])
    assert not upstream.is_class_of_code(executor_module.InterpreterError)
    assert upstream.source_of(namespace.functions["f"]) == "def f():\n    return 1"
    assert upstream.source_of(namespace.variables["C"]) is None


def test_smolagents_own_errors_are_known_by_name() -> None:
    names = {"AgentError", "AgentParsingError", "AgentExecutionError", "AgentMaxStepsError", "AgentGenerationError"}
    assert names | {"AgentToolCallError", "AgentToolExecutionError"} == upstream.AGENT_ERRORS.keys()


# -- how runs are told ---------------------------------------------------------------------------------------------


def by_run(agent: Any) -> None:
    agent.run("Go")


def by_stream(agent: Any) -> None:
    list(agent.run("Go", stream=True))


def by_steps(agent: Any) -> None:
    list(iter_steps(agent, "Go"))


def by_steps_taken_up_each_time(agent: Any) -> None:
    steps = iter_steps(agent, "Go")
    while next(steps, None) is not None:
        steps = iter_steps(agent)


def by_hand(agent: Any) -> None:
    agent.memory.steps.append(TaskStep(task="Go"))
    if hasattr(agent, "python_executor"):
        agent.python_executor.send_tools(agent.tools)
    for number in range(1, 9):
        step = ActionStep(step_number=number, timing=Timing(start_time=time.time()))
        output = agent.step(step)
        agent.memory.steps.append(step)
        if output.is_final_answer:
            break


WAYS = [by_run, by_stream, by_steps, by_steps_taken_up_each_time, by_hand]


@pytest.mark.parametrize("observed", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_running_begins_once_and_ends_once_with_its_answer(way: Any, observed: bool) -> None:
    """With its task in memory when it begins, and its last step there when it ends."""
    agent, heard = code_agent(ANSWER, planning_interval=None), RunsHeard()
    if observed:
        agent.memory = ObservedMemory(agent.system_prompt)
    watch(agent, heard)
    way(agent)
    assert heard.log[:2] == [("announced", "Go", False, int(way is by_hand)), ("begins", 20, "TaskStep")]
    assert [entry for entry in heard.log if entry[0] not in ("announced", "begins")] == [("answered", 21)]
    assert heard.log[-1] == ("answered", 21)
    taken_up = [entry[:3] for entry in heard.log[2:-1] if entry[0] == "announced"]
    assert taken_up == ([("announced", "Go", True)] if way is by_steps_taken_up_each_time else [])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", [lambda: code_agent(ANSWER, planning_interval=None), lambda: calling_agent(CALLS)])
def test_everything_is_told_in_order_and_the_run_is_as_without(way: Any, make: Any) -> None:
    plain, told, heard = make(), make(), Heard()
    plain.planning_interval = told.planning_interval = None
    off = watch(told, heard)
    way(plain), way(told)
    off()
    assert [m.dict() for m in told.write_memory_to_messages()] == [m.dict() for m in plain.write_memory_to_messages()]
    assert [s.is_final_answer for s in told.memory.steps[1:]] == [False, True]
    names = [n for n in heard.names() if n not in ("run_announced", "run_begins")]
    inside = ["tool_call_begins", "tool_call_ends"]
    calling = isinstance(told, ToolCallingAgent)
    kinds = [n for n in names if n not in inside]
    step = ["model_call_begins", "model_call_ends", "action_begins"]
    shaped = [] if way is by_hand else ["before_callbacks", "after_callbacks"]
    ends = [n for n in kinds[2 * len(step + shaped) :] if n != "run_ends"]
    assert kinds[: 2 * len(step + shaped)] == (step + shaped) * 2
    assert set(ends) <= {"before_callbacks", "after_callbacks"}  # of the final answer
    assert [n for n in names if n in inside].count("tool_call_ends") == (3 if calling else 1)
    assert names[-1] == "run_ends"


def test_a_stream_that_is_left_ends_interrupted_between_steps_and_within_one() -> None:
    """Within one upstream makes an error of it, and leaves half a step."""
    for stop_at in (ActionStep, AskedCall):
        agent, heard = code_agent([code("pass")] * 9, planning_interval=None), RunsHeard()
        watch(agent, heard)
        stream = agent.run("Go", stream=True)
        while not isinstance(next(stream), stop_at):
            assert heard.log[-1][0] == "begins"
        with contextlib.suppress(RuntimeError):
            stream.close()
        assert heard.log[-1] == ("interrupted", None)
        assert len(agent.memory.steps) == 2


def test_a_stream_that_nobody_refers_to_any_more_was_left() -> None:
    agent, heard = code_agent([code("pass")] * 9, planning_interval=None), RunsHeard()
    watch(agent, heard)
    for item in agent.run("Go", stream=True):
        if isinstance(item, ActionStep):
            break
    gc.collect()
    assert heard.log[-1] == ("interrupted", None)


def test_a_run_is_announced_with_what_it_was_given() -> None:
    picture = [photo()]
    heard = Heard()
    for way in (
        lambda agent: agent.run("Go", False, False, picture, None, 7),
        lambda agent: list(iter_steps(agent, "Go", reset=False, images=picture, max_steps=7)),
    ):
        agent = code_agent(ANSWER, planning_interval=None)
        watch(agent, heard)
        way(agent)
    for run in heard.all("run_ends"):
        assert (run.task, run.images is picture, run.reset, run.max_steps) == ("Go", True, False, 7)
    assert [run.stepwise for run in heard.all("run_announced")] == [False, True]


def test_a_stream_that_was_never_begun_has_not_begun() -> None:
    agent, heard = code_agent(ANSWER, planning_interval=None), RunsHeard()
    watch(agent, heard)
    agent.run("Go", stream=True).close()
    assert [entry[0] for entry in heard.log] == ["announced"]


def interrupting(step: Any, agent: Any) -> None:
    agent.interrupt()


@pytest.mark.parametrize("way", [by_run, by_stream, by_steps])
@pytest.mark.parametrize(
    ("script", "callbacks", "outcome"),
    [
        ([ConnectionError("down")], [], ("failed", "AgentGenerationError")),
        ([code("pass"), code("pass")], [interrupting], ("interrupted", "AgentError")),
        ([KeyboardInterrupt()], [], ("interrupted", "KeyboardInterrupt")),
    ],
)
def test_a_run_that_fails_or_is_stopped_says_so(way: Any, script: Any, callbacks: Any, outcome: Any) -> None:
    agent, heard = code_agent(script, step_callbacks=callbacks, planning_interval=None), RunsHeard()
    watch(agent, heard)
    with pytest.raises((AgentError, KeyboardInterrupt)):
        way(agent)
    assert heard.log[-1] == outcome


def test_a_step_that_failed_may_be_asked_for_again_and_the_run_goes_on() -> None:
    agent, heard = code_agent([ConnectionError("down"), *ANSWER], planning_interval=None), RunsHeard()
    watch(agent, heard)
    steps = iter_steps(agent, "Go")
    with pytest.raises(AgentGenerationError):
        next(steps)
    list(steps)
    kinds = [(entry[0], entry[2]) if entry[0] == "announced" else entry[0] for entry in heard.log]
    assert kinds == [("announced", False), "begins", "failed", ("announced", True), "begins", "answered"]


def test_a_loop_by_hand_that_is_left_is_interrupted_by_the_next_run() -> None:
    agent, heard = code_agent([code("x = 1"), *ANSWER], planning_interval=None), RunsHeard()
    agent.memory = ObservedMemory(agent.system_prompt)
    watch(agent, heard)
    agent.memory.steps.append(TaskStep(task="By hand"))
    agent.python_executor.send_tools(agent.tools)
    agent.step(ActionStep(step_number=1, timing=Timing(0.0)))
    agent.run("Go")
    assert [entry[:2] for entry in heard.log if entry[0] != "begins"] == [
        ("announced", "By hand"),
        ("interrupted", None),
        ("announced", "Go"),
        ("answered", 21),
    ]


def test_a_loop_by_hand_ends_when_its_last_step_is_in_memory_and_not_before() -> None:
    agent, heard = code_agent([code("final_answer(3)")], planning_interval=None), RunsHeard()
    agent.memory = ObservedMemory(agent.system_prompt)
    watch(agent, heard)
    agent.memory.steps.append(TaskStep(task="By hand"))
    agent.python_executor.send_tools(agent.tools)
    step = ActionStep(step_number=1, timing=Timing(0.0))
    agent.step(step)
    assert heard.log[-1][0] == "begins"
    assert step.is_final_answer
    agent.memory.steps.append(step)
    assert heard.log[-1] == ("answered", 3)
    assert not agent.memory.events.has_listeners("steps_changed")


def test_a_listener_may_refuse_a_run_before_anything_has_changed() -> None:
    class Refusing(Listener):
        def run_announced(self, run: Run) -> None:
            run.refuse(RuntimeError("not now"))

    for way in (by_run, by_steps):
        agent = code_agent(ANSWER, planning_interval=None)
        agent.memory.steps.append(TaskStep(task="Before"))
        watch(agent, Refusing())
        with pytest.raises(RuntimeError, match="not now"):
            way(agent)
        assert [step.task for step in agent.memory.steps] == ["Before"]


def test_a_managed_agent_s_runs_are_its_own() -> None:
    helper = helper_agent()
    manager = code_agent([code("final_answer(helper(task='dig'))")], managed_agents=[helper], planning_interval=None)
    above, below = RunsHeard(), RunsHeard()
    watch(manager, above), watch(helper, below)
    manager.run("Find it")
    assert above.log[0][1] == "Find it"
    assert "dig" in below.log[0][1]
    assert below.log[-1] == ("answered", "found")


def test_a_session_that_resumes_goes_on(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/m.db"
    first = code_agent([ANSWER[0], ConnectionError("down")], planning_interval=None)
    with Session("s", url).attach(first), pytest.raises(AgentGenerationError):
        first.run("Go")
    later, heard = code_agent([ANSWER[1]], planning_interval=None), RunsHeard()
    watch(later, heard)
    assert Session("s", url).resume(later) == 21
    assert [entry[:3] for entry in heard.log] == [
        ("announced", "Go", True),
        ("begins", 20, "ActionStep"),
        ("answered", 21),
    ]


# -- calls ---------------------------------------------------------------------------------------------------------


def told_calls(heard: Heard) -> list[tuple[Any, ...]]:
    calls = sorted(heard.all("tool_call_ends"), key=lambda each: (each.step.step_number, each.position))
    return [(each.name, each.arguments, each.result, each.position) for each in calls]


def test_tool_calls_of_a_tool_calling_agent_have_their_place_also_in_parallel() -> None:
    @tool
    def no_args() -> str:
        """Takes nothing."""
        return "nothing"

    three = [call("double", number=3), call("double", number=3), call("no_args")]
    agent = calling_agent([three, call("fail", reason="on purpose"), CALLS[1]], tools=[double, fail, no_args])
    agent.planning_interval, heard = None, Heard()
    watch(agent, heard)
    agent.run("Go")
    assert told_calls(heard) == [
        ("double", {"number": 3}, 6, 0),
        ("double", {"number": 3}, 6, 1),
        ("no_args", {}, "nothing", 2),
        ("fail", {"reason": "on purpose"}, None, 0),
        ("final_answer", {"answer": "done"}, "done", 0),
    ]
    failed = next(each for each in heard.all("tool_call_ends") if each.name == "fail")
    assert "on purpose" in str(failed.error)
    assert all(each.started <= each.ended for each in heard.all("tool_call_ends"))
    assert all(each.id for each in heard.all("tool_call_ends"))


def test_tool_calls_from_within_code_have_their_place_and_their_arguments_by_name() -> None:
    script = [code("a = [double(n) for n in (1, 2)]\nd = double\nd(number=9)"), code("fail('on purpose')"), ANSWER[1]]
    agent, heard = code_agent(["x = 1", *script], planning_interval=None), Heard()
    off = watch(agent, heard)
    agent.state["x"] = 20
    agent.run("Go")
    assert told_calls(heard) == [
        ("double", {"number": 1}, 2, 0),
        ("double", {"number": 2}, 4, 1),
        ("double", {"number": 9}, 18, 2),
        ("fail", {"reason": "on purpose"}, None, 0),
        ("final_answer", {"answer": 21}, 21, 0),
    ]
    assert "on purpose" in agent.memory.steps[3].error.message
    off()
    assert agent.python_executor.static_tools["double"] is agent.tools["double"]


def test_calls_of_a_managed_agent_are_tool_calls_of_its_manager() -> None:
    for make in (code_agent, calling_agent):
        helper = helper_agent()
        given = {"task": "dig", "additional_args": {}}
        asked: Any = (
            code("print(helper('dig', additional_args={}))") if make is code_agent else call("helper", **given)
        )
        last = code("final_answer(1)") if make is code_agent else call("final_answer", answer="1")
        manager, heard = make([asked, last], managed_agents=[helper], planning_interval=None), Heard()
        watch(manager, heard)
        manager.run("Find it")
        first = heard.all("tool_call_ends")[0]
        assert (first.name, first.arguments, "found" in first.result) == ("helper", given, True)


class Answering(Listener):
    """Answers each call of `double` in the tool's place."""

    def tool_call_begins(self, call: ToolCall) -> None:
        if call.name == "double":
            call.answer(1000)
        if call.name == "fail":
            call.fail(ValueError("as before"))

    def tool_call_ends(self, call: ToolCall) -> None:
        if call.answered:
            call.ended = 0.0


def test_a_tool_call_can_be_answered_by_a_listener_instead_of_being_carried_out() -> None:
    agent = code_agent(
        [code("x = double(1)"), code("fail('really')"), code("final_answer(x)")], planning_interval=None
    )
    watch(agent, Answering())
    assert agent.run("Go") == 1000
    assert "ValueError: as before" in agent.memory.steps[2].error.message
    calling = calling_agent([call("double", number=1), CALLS[1]], planning_interval=None)
    watch(calling, Answering())
    calling.run("Go")
    assert calling.memory.steps[1].observations == "1000"


class Waiting(BaseException):
    """What must leave an agent's code, which catches Exception."""


@pytest.mark.parametrize("event", ["tool_call_begins", "action_begins", "model_call_begins", "before_callbacks"])
@pytest.mark.parametrize("make", [lambda: code_agent([code("double(1)")]), lambda: calling_agent([CALLS[0]])])
def test_a_base_exception_of_a_listener_leaves_the_run(event: str, make: Any) -> None:
    def waiting(self: Any, *what: Any) -> None:
        raise Waiting

    agent = make()
    agent.planning_interval = None
    heard = RunsHeard()
    watch(agent, type("Pausing", (Listener,), {event: waiting})()), watch(agent, heard)
    with pytest.raises(Waiting):
        agent.run("Go")
    assert heard.log[-1] == ("interrupted", "Waiting")


def test_before_an_action_is_carried_out_the_model_s_output_is_on_its_step() -> None:
    class Looking(Listener):
        seen: list[Any] = []

        def action_begins(self, agent: Any, step: ActionStep) -> None:
            asked = step.code_action or [each.function.name for each in step.model_output_message.tool_calls]
            self.seen.append((asked, step.observations, len(agent.memory.steps)))

    for agent in (code_agent([ANSWER[0], code("final_answer(1)")]), calling_agent(CALLS)):
        agent.planning_interval = None
        watch(agent, Looking())
        agent.run("Go")
    assert Looking.seen == [
        ("x = 20", None, 1),
        ("final_answer(1)", None, 2),
        (["double", "double"], None, 1),
        (["final_answer"], None, 2),
    ]


# -- the model -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("make", [lambda: code_agent(["plan", *ANSWER]), lambda: calling_agent(["plan", *CALLS])])
def test_the_model_s_calls_are_told_with_what_it_was_sent(make: Any, streamed: bool) -> None:
    """Plans, actions and the forced answer; and which prompts are the agent's memory as it is."""
    agent, heard = make(), Heard()
    agent.stream_outputs, model = streamed, agent.model
    off = watch(agent, heard)
    agent.run("Go")
    calls = heard.all("model_call_ends")
    assert [[m.dict() for m in each.messages] for each in calls] == [
        [m.dict() for m in c.messages] for c in model.calls
    ]
    assert [each.unedited for each in calls] == [False, True, True]
    assert [getattr(each.step, "step_number", None) for each in calls] == [None, 1, 2]
    assert [each.messages for each in calls[1:]] == [step.model_input_messages for step in agent.memory.steps[2:]]
    assert all(isinstance(each.result, ChatMessage) and each.result.token_usage for each in calls)
    assert type(agent.model) is not type(model)
    assert (isinstance(agent.model, ScriptedModel), agent.model.calls is model.calls) == (True, True)
    off()
    assert agent.model is model


def test_what_is_edited_on_its_way_to_the_model_is_no_memory_unedited() -> None:
    class Editing(CodeAgent):
        def write_memory_to_messages(self, summary_mode: bool = False) -> Any:
            return super().write_memory_to_messages(summary_mode)

    class Shortening(Listener):
        calls: list[ModelCall] = []

        def model_call_begins(self, call: ModelCall) -> None:
            assert call.unedited
            call.messages = call.messages[:1]
            self.calls.append(call)

    agent = Editing([], ScriptedModel([code("final_answer(1)")]), verbosity_level=-1)
    model = agent.model
    watch(agent, Shortening())
    agent.run("Go")
    assert len(model.calls[0].messages) == 1
    assert not Shortening.calls[0].unedited


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("kind", ["code", "calls"])
def test_a_model_call_can_be_answered_before_and_after(streamed: bool, kind: str) -> None:
    replies = {
        "code": ChatMessage(role=MessageRole.ASSISTANT, content=code("final_answer(7)"), token_usage=TokenUsage(1, 2)),
        "calls": ScriptedModel([call("final_answer", answer="7")]).generate([]),
    }

    class Before(Listener):
        def model_call_begins(self, call: ModelCall) -> None:
            call.answer(replies[kind])

    class After(Listener):
        def model_call_ends(self, call: ModelCall) -> None:
            assert isinstance(call.error, ConnectionError)
            call.answer(replies[kind])

    for listener, script in ((Before(), []), (After(), [ConnectionError("down")])):
        agent = code_agent(script) if kind == "code" else calling_agent(script)
        agent.planning_interval, agent.stream_outputs = None, streamed
        watch(agent, listener)
        assert str(agent.run("Go")) == "7"
        assert agent.memory.steps[1].token_usage.output_tokens == replies[kind].token_usage.output_tokens


def test_a_model_that_several_agents_share_tells_each_of_its_own_calls() -> None:
    model = ScriptedModel([code("print(helper('dig'))"), code("final_answer('found')"), code("final_answer(1)")])
    helper = CodeAgent([], model, name="helper", description="Helps.", verbosity_level=-1)
    manager = CodeAgent([], model, managed_agents=[helper], verbosity_level=-1)
    above, below = Heard(), Heard()
    watch(manager, above), watch(helper, below)
    manager.run("Find it")
    assert (len(above.all("model_call_ends")), len(below.all("model_call_ends"))) == (2, 1)


# -- listening and leaving -----------------------------------------------------------------------------------------


def bare(agent: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(agent).items() if name not in ("memory", "monitor", "logger")}


def test_an_agent_is_wrapped_once_for_many_and_is_as_it_was_when_the_last_has_left() -> None:
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        agent = code_agent(ANSWER, planning_interval=None)
        before = bare(agent)
        offs = [watch(agent, Heard())]
        wrapped = bare(agent)
        offs += [watch(agent, Heard()), watch(agent, RunsHeard())]
        assert bare(agent) == wrapped
        for number in order:
            assert bare(agent) == wrapped
            offs[number]()
            offs[number]()  # leaving twice is leaving once
        assert bare(agent) == before


def test_nothing_is_put_on_for_what_nobody_hears() -> None:
    class Steps(Listener):
        def before_callbacks(self, agent: Any, step: Any) -> None:
            raise NotImplementedError

    agent = code_agent([])
    before = bare(agent)
    watch(agent, Steps())
    changed = {name for name, value in bare(agent).items() if before.get(name) is not value}
    assert changed == {"step_callbacks", "_smolagents_memory"}
    calling, before = calling_agent([]), {}
    watch(calling, RunsHeard())
    assert not {"execute_tool_call", "write_memory_to_messages"} & vars(calling).keys()


def test_somebody_else_s_wrapper_is_never_broken() -> None:
    """Put on after ours and still there when we leave, and come again, and leave again."""
    agent, log = code_agent([code("final_answer(1)")] * 4, planning_interval=None), []
    first = RunsHeard()
    off = watch(agent, first)
    ours = agent.run

    def theirs(*args: Any, **options: Any) -> Any:
        log.append("theirs")
        return ours(*args, **options)

    agent.run = theirs
    agent.run("one")
    off()
    assert agent.run is theirs
    agent.run("two")
    second = RunsHeard()
    off = watch(agent, second)
    agent.run("three")
    off()
    assert agent.run is theirs
    agent.run("four")
    assert log == ["theirs"] * 4
    assert [entry[1] for entry in first.log if entry[0] == "announced"] == ["one"]
    assert [entry[0] for entry in second.log] == ["announced", "begins", "answered"]


def test_a_wrapper_that_was_there_before_is_there_again() -> None:
    agent = code_agent(ANSWER, planning_interval=None)
    run = agent.run

    def theirs(*args: Any, **options: Any) -> Any:
        return run(*args, **options)

    agent.run = theirs
    heard = RunsHeard()
    off = watch(agent, heard)
    assert agent.run("Go") == 21
    off()
    assert agent.run is theirs
    assert heard.log[-1] == ("answered", 21)


@pytest.mark.parametrize("event", [name for name in EVENTS if name not in ("memory_replaced", "run_overtaken")])
def test_a_listener_that_fails_is_logged_once_and_breaks_nothing(event: str, caplog: Any) -> None:
    def failing(self: Any, *what: Any) -> None:
        raise ZeroDivisionError("a defect")

    agent, heard = code_agent(ANSWER, planning_interval=None), RunsHeard()
    watch(agent, type("Broken", (Listener,), {event: failing})())
    watch(agent, heard)
    assert agent.run("Go") == 21
    assert heard.log[-1] == ("answered", 21)
    assert [record.getMessage() for record in caplog.records] == [f"Broken failed at {event}; the run goes on"]


def test_a_watched_agent_can_be_forgotten() -> None:
    import weakref

    agent = code_agent(ANSWER, planning_interval=None)
    watch(agent, Heard())
    agent.run("Go")
    gone = weakref.ref(agent)
    del agent
    gc.collect()
    assert gone() is None


# -- fields that are to come ---------------------------------------------------------------------------------------


@dataclass
class CachedUsage(TokenUsage):
    """As in upstream's pull request 2143."""

    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


def to_come(step: ActionStep) -> None:
    """Give a step what upstream's open pull requests add: 2252, 2371, 2143, 2080."""
    step.inner_tool_calls = [AskedCall("double", {"number": 4}, "inner_1")]
    step.tool_observations = [{"id": "inner_1", "observation": "8", "error": None}]
    step.token_usage.cache_read_input_tokens = 900
    step.token_usage.cache_creation_input_tokens = 12
    if step.model_output_message is not None:
        step.model_output_message.reasoning_content = "I think, step by step."


def check_to_come(step: Any) -> None:
    assert step.inner_tool_calls == [AskedCall("double", {"number": 4}, "inner_1")]
    assert step.tool_observations == [{"id": "inner_1", "observation": "8", "error": None}]
    assert step.token_usage.cache_read_input_tokens == 900
    assert step.token_usage.cache_creation_input_tokens == 12
    assert step.model_output_message.reasoning_content == "I think, step by step."


@dataclass
class StepToCome(ActionStep):
    """A step class that has the new fields by itself."""

    inner_tool_calls: list[AskedCall] | None = None
    tool_observations: list[dict[str, Any]] | None = field(default=None)


def test_fields_of_open_pull_requests_go_through_the_codec() -> None:
    agent = code_agent(ANSWER, planning_interval=None)
    agent.run("Go")
    for step in agent.memory.steps[1:]:
        to_come(step)
        decoded = decode_step(encode_step(step))
        check_to_come(decoded)
        assert same(decoded, step)


def test_fields_of_open_pull_requests_go_through_callbacks_and_journal(tmp_path: Path) -> None:
    """Set by a callback and by the model; what callbacks cut is not they, and what is journaled comes back."""
    url = f"sqlite:///{tmp_path}/m.db"

    def answering(messages: Any) -> ChatMessage:
        message = ChatMessage(role=MessageRole.ASSISTANT, content=code("print('long' * 500)"))
        message.reasoning_content = "I think, step by step."
        message.token_usage = CachedUsage(10, 5, 900, 12)
        return message

    shape = compose(to_come_callback, TruncateObservations(200), PruneImages(1), FitTokenBudget(100_000))
    agent = code_agent([answering, code("final_answer(1)")], step_callbacks=[shape], planning_interval=None)
    with Session("s", url).attach(agent):
        agent.run("Go")
    steps = Session("s", url).steps()
    for step in steps[1:]:
        check_to_come(step)
    assert len(steps[1].observations) < 400
    assert steps[1].model_output_message.reasoning_content == "I think, step by step."
    original = Session("s", url).original(1)
    assert original.model_output_message.reasoning_content == "I think, step by step."
    assert "cache_read_input_tokens" in vars(original.token_usage)


def to_come_callback(step: ActionStep, agent: Any) -> None:
    to_come(step)


def test_a_step_class_with_the_new_fields_runs_and_is_told_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if upstream had merged them: the agent itself makes such steps."""
    import smolagents.agents

    monkeypatch.setattr(smolagents.agents, "ActionStep", StepToCome)
    agent, heard = code_agent(ANSWER, planning_interval=None), Heard()
    watch(agent, heard)
    agent.run("Go")
    assert {type(step) for step in heard.all("before_callbacks")} - {FinalAnswerStep} == {StepToCome}
    assert heard.all("run_ends")[0].answer == 21


def test_the_private_names_are_still_somewhere_in_smolagents() -> None:
    """A name that is gone must be taken out here, too."""
    source = "".join(
        path.read_text(encoding="utf-8") for path in Path(inspect.getfile(MultiStepAgent)).parent.glob("*.py")
    )
    used = {
        node.attr
        for node in ast.walk(ast.parse((PACKAGE / "upstream.py").read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr)
    }
    theirs = {name for name in used if name in source}
    assert {"_step_stream", "_finalize_step", "_generate_planning_step", "_validate_final_answer"} <= theirs


# -- another memory ------------------------------------------------------------------------------------------------


def test_who_watches_hears_of_another_memory_and_the_agent_has_it_as_ever() -> None:
    agent, heard = code_agent(ANSWER, planning_interval=None), Heard()
    first = agent.memory
    off = watch(agent, heard)
    agent.memory = agent.memory
    agent.memory = second = ObservedMemory("other")
    assert heard.log == [("memory_replaced", first)]
    assert agent.memory is vars(agent)["memory"] is second
    assert agent.run("Go") == 21
    off()
    agent.memory = first
    assert heard.all("memory_replaced") == [first]
    assert "memory" not in set(vars(CodeAgent))


@pytest.mark.parametrize("make", [code_agent, calling_agent])
def test_a_memory_that_an_agent_is_made_with_is_told_when_it_is_first_asked_for(
    monkeypatch: pytest.MonkeyPatch, make: Any
) -> None:
    """smolagents' own tests pass with any memory of ours in the place of theirs."""
    from smolagents_memory import EnhancedAgentMemory

    made = lambda prompt: EnhancedAgentMemory(system_prompt=prompt, vector=False)  # noqa: E731
    monkeypatch.setattr("smolagents.agents.AgentMemory", made)
    agent = make([*(ANSWER if make is code_agent else CALLS)], planning_interval=None)
    assert vars(agent)["memory"].recall("Go") == []
    agent.run("Go")
    assert agent.memory.recall("Go")[0].value.startswith("Task: Go")
    assert agent.memory.steps[0].task == "Go"


def test_a_memory_may_refuse_its_place_and_the_one_before_is_put_back() -> None:
    class Refusing(ObservedMemory):
        def placed_on(self, agent: Any, before: Any) -> None:
            raise ZeroDivisionError

    agent = code_agent(ANSWER, planning_interval=None)
    before = agent.memory
    with pytest.raises(ZeroDivisionError):
        agent.memory = Refusing("x")
    assert agent.memory is before
    assert agent.run("Go") == 21


def test_a_run_that_begins_while_another_thread_is_in_one_is_told_so() -> None:
    class Beside(Listener):
        def __init__(self) -> None:
            self.heard: list[bool] = []

        def run_announced(self, run: Run) -> None:
            self.heard.append(run.beside)
            if run.beside:
                run.refuse(ZeroDivisionError())

    agent, heard = code_agent([code("1")] * 3 + ANSWER, planning_interval=None), Beside()
    watch(agent, heard)

    def once(step: Any) -> None:
        if step.step_number == 1:
            thread = threading.Thread(target=second)
            thread.start()
            thread.join()

    def second() -> None:
        try:
            agent.run("Go")
        except ZeroDivisionError as error:
            errors.append(error)

    errors: list[Any] = []
    agent.step_callbacks.register(ActionStep, once)
    assert agent.run("Go") == 21
    stream = agent.run("Rest", stream=True)
    assert heard.heard == [False, True, False]
    del stream
    assert len(errors) == 1
