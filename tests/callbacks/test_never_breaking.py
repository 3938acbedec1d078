"""StepCallback, compose, everywhere: nothing gets out of a callback, and wrong ones are refused when registered."""

from __future__ import annotations

import functools
import gc
import logging
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from callback_runs import EVERY, calling_agent, code_agent, everything, logged
from smolagents import CodeAgent
from smolagents.memory import ActionStep, AgentMemory, CallbackRegistry, FinalAnswerStep, PlanningStep, TaskStep

from smolagents_memory import CallbackSignatureError, StepCallback, compose, everywhere
from smolagents_memory.testing import ScriptedModel, call, code


class Failing(StepCallback):
    def on_step(self, step, history):
        raise LookupError(f"[bold]nothing[/] for step {step.step_number}")


def counting(steps):
    return [*(code(f"print({n})") for n in range(1, steps)), code("final_answer('done')")]


def test_a_defect_is_logged_once_with_the_steps_number_and_the_run_goes_on():
    agent = code_agent(counting(4), step_callbacks=[Failing()])
    assert agent.run("Count.") == "done"
    assert logged(agent).count("Failing failed at step 1: LookupError: [bold]nothing[/] for step 1.") == 1
    assert "step 2" not in logged(agent)


def test_each_agent_and_each_place_in_the_code_is_told_of():
    class TwoDefects(StepCallback):
        def on_step(self, step, history):
            if step.step_number == 2:
                raise ValueError("another")
            raise LookupError("one")

    shared = TwoDefects()
    for _ in range(2):
        agent = code_agent(counting(4), step_callbacks=[shared])
        agent.run("Count.")
        assert logged(agent).count("TwoDefects failed") == 2


def test_without_an_agent_it_goes_to_logging(caplog):
    Failing()(ActionStep(step_number=5, timing=None))
    assert "Failing failed at step 5: LookupError" in caplog.text


def test_a_logger_that_fails_itself_does_not_break_the_run_either(caplog):
    class Torn:
        def log(self, *args, **options):
            raise OSError("the terminal is gone")

    Failing()(ActionStep(step_number=1, timing=None), agent=SimpleNamespace(memory=AgentMemory("x"), logger=Torn()))
    assert "Failing failed at step 1" in caplog.text


@pytest.mark.parametrize("agent", [SimpleNamespace(), SimpleNamespace(memory=None), object(), "no agent"])
def test_an_agent_that_is_none_is_a_defect_and_no_exception(agent, caplog):
    for make in EVERY.values():
        make()(ActionStep(step_number=1, timing=None, observations="x"), agent=agent)
    assert "AttributeError" in caplog.text


def test_a_stand_in_for_an_agent_is_enough(caplog):
    agent = SimpleNamespace(memory=AgentMemory("You are an agent."), task="Look.", logger=None)
    agent.memory.steps += [TaskStep("Look."), *(ActionStep(n, None, observations="x" * 5000) for n in range(9))]
    agent.model = ScriptedModel(["a summary"])
    caplog.set_level(logging.WARNING)
    for make in EVERY.values():
        make()(ActionStep(step_number=9, timing=None, observations="y"), agent=agent)
    assert "The run goes on" not in caplog.text


def test_an_interrupt_from_the_keyboard_still_ends_the_run():
    class Interrupted(StepCallback):
        def on_step(self, step, history):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        code_agent(counting(2), step_callbacks=[Interrupted()]).run("Count.")


def test_a_group_calls_its_members_in_order_and_a_failing_one_keeps_none_of_the_others_from_it():
    called = []

    def first(step):
        called.append("first")

    def broken(step, agent):
        raise RuntimeError("mine")

    def last(step, **more):
        called.append(sorted(more))

    agent = code_agent(counting(1), step_callbacks=[compose(first, compose(broken, Failing()), last)])
    assert agent.run("Count.") == "done"
    assert called == ["first", ["agent"]]
    assert "RuntimeError: mine" in logged(agent)
    assert "Failing failed at step 1" in logged(agent)


def test_everywhere_reaches_every_class_of_step_in_one_line():
    reached = []
    agent = code_agent(
        ["plan", *counting(2)], planning_interval=9, step_callbacks=everywhere(lambda step: reached.append(type(step)))
    )
    agent.run("Count.")
    assert reached[:3] == [PlanningStep, ActionStep, ActionStep]
    assert reached[3:] in ([FinalAnswerStep], [])  # smolagents before 1.24 tells nobody of a final answer


def by_another_name(step, who):
    raise AssertionError("never called")


def keyword_only(*, step):
    raise AssertionError("never called")


async def asynchronous(step):
    raise AssertionError("never called")


def generating(step):
    yield step


class Method:
    def two(self, step, agent):
        raise AssertionError("never called")

    def three(self, step, agent, more):
        raise AssertionError("never called")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (
            by_another_name,
            r"by_another_name\(step, who\).* callback\(step, agent=agent\).*`def callback\(step, agent\)`",
        ),
        (keyword_only, r"callback\(step\)"),
        (lambda: None, r"callback\(step, agent=agent\)"),
        (lambda **more: None, r"callback\(step\)"),
        (Method().three, "missing a required argument: 'more'"),
        (asynchronous, "would never run"),
        (generating, "would never run"),
        (Failing, r"Failing is a class; register an object of it: Failing\(…\)"),
        ("timestamps", "cannot be called"),
    ],
)
def test_what_smolagents_would_call_wrongly_is_refused_with_the_right_signature(wrong, says):
    for register in (compose, everywhere):
        with pytest.raises(CallbackSignatureError, match=says):
            register(wrong)


@pytest.mark.parametrize(
    "right",
    [
        lambda step: None,
        lambda step, agent: None,
        lambda step, agent=None, more=1: None,
        lambda step, **more: None,
        lambda *steps: None,
        Method().two,
        Failing(),
        functools.partial(lambda more, step: None, 1),
    ],
)
def test_what_smolagents_calls_rightly_is_taken(right):
    registry = CallbackRegistry()
    for cls, callbacks in everywhere(right).items():
        for callback in callbacks:
            registry.register(cls, callback)
    registry.callback(ActionStep(step_number=1, timing=None), agent=None)


def test_the_monitor_still_counts_and_other_callbacks_still_run():
    seen = []
    agent = code_agent(counting(3), step_callbacks=[everything(), lambda step: seen.append(step.step_number)])
    agent.run("Count.")
    assert seen == [1, 2, 3]
    assert agent.monitor.total_input_token_count > 0


def test_one_group_serves_many_agents_in_many_threads():
    shared = everything()

    def run(number) -> tuple[CodeAgent, object]:
        if number % 2:
            agent = code_agent([code("print('x' * 300)")] * 12 + counting(1), step_callbacks=everywhere(shared))
        else:
            calls = [[call("look", place="a"), call("look", place="b")]] * 12
            agent = calling_agent([*calls, call("final_answer", answer="done")], step_callbacks=everywhere(shared))
        return agent, agent.run(f"Task {number}.")

    with ThreadPoolExecutor(8) as pool:
        for number, (agent, answer) in enumerate(pool.map(run, range(16))):
            assert answer == "done"
            assert [step.task for step in agent.memory.steps if isinstance(step, TaskStep)] == [f"Task {number}."]
            assert "The run goes on" not in logged(agent)


def test_threads_that_share_one_memory_lose_no_new_step():
    agent, keep = code_agent([]), EVERY["recent"]()
    agent.memory.steps.append(TaskStep("Look."))
    made: list[ActionStep] = []

    def work(worker):
        for number in range(200):
            step = ActionStep(step_number=number, timing=None, observations=f"{worker}")
            made.append(step)
            keep(step, agent=agent)
            agent.memory.steps.append(step)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "The run goes on" not in logged(agent)
    assert isinstance(agent.memory.steps[0], TaskStep)
    assert agent.memory.steps[-1] in made
    assert len({id(step) for step in agent.memory.steps}) == len(agent.memory.steps)


def test_callbacks_keep_no_agent_alive():
    shared = everything()
    agent = code_agent(counting(5), step_callbacks=everywhere(shared, Failing()))
    agent.run("Count.")
    steps, gone = [weakref.ref(step) for step in agent.memory.steps], weakref.ref(agent)
    del agent
    gc.collect()
    assert gone() is None
    assert [step() for step in steps] == [None] * len(steps)
