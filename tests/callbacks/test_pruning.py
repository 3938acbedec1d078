"""TruncateObservations, KeepRecentSteps, DropInputMessages and SummarizeOldSteps."""

from __future__ import annotations

import itertools

import pytest
from callback_runs import calling_agent, check_sent, code_agent, logged, summarizer, tasks
from hypothesis import given
from hypothesis import strategies as st
from smolagents.memory import ActionStep, FinalAnswerStep, MemoryStep, PlanningStep, SystemPromptStep, TaskStep
from smolagents.models import ChatMessage, MessageRole

from smolagents_memory import (
    DropInputMessages,
    FitTokenBudget,
    KeepRecentSteps,
    NoteStep,
    ObservedMemory,
    SummarizeOldSteps,
    TimestampObservations,
    TruncateObservations,
    everywhere,
    is_pinned,
    load_memory,
    pin,
    save_memory,
    unpin,
)
from smolagents_memory.testing import ScriptedModel, call, code


def counting(steps):
    return [*(code(f"print({n})") for n in range(1, steps)), code("final_answer('done')")]


def numbers(agent):
    return [step.step_number for step in agent.memory.steps if isinstance(step, ActionStep)]


# -- TruncateObservations ------------------------------------------------------------------------------------------


@given(st.text(max_size=3000), st.integers(1, 400))
def test_head_and_tail_stay_within_the_limit_and_the_sum_is_right(text, max_chars):
    step = ActionStep(step_number=7, timing=None, observations=text)
    TruncateObservations(max_chars, notice="<{cut}|{total}|{step}>")(step)
    short = step.observations
    assert len(short) <= max_chars
    if len(text) <= max_chars:
        assert short == text
    elif max_chars >= 60:
        at, end = short.rindex("<"), short.rindex(">")
        cut, total, number = short[at + 1 : end].split("|")
        kept = short[:at] + short[end + 1 :]
        assert text.startswith(short[:at])
        assert text.endswith(short[end + 1 :])
        assert int(total.replace(",", "")) == len(text)
        assert int(cut.replace(",", "")) == len(text) - len(kept)
        assert number == "7"


def test_the_notice_says_how_much_was_cut_and_how_to_get_it_back():
    agent = code_agent(
        [code("print('x' * 5000)"), code("final_answer('done')")], step_callbacks=[TruncateObservations(300)]
    )
    agent.run("Look.")
    assert "characters cut; to read them, call again for just that part …]" in agent.model.calls[1].text


def test_cut_again_it_still_counts_from_the_whole():
    step = ActionStep(step_number=1, timing=None, observations="x" * 10_000)
    TruncateObservations(1000)(step)
    TruncateObservations(200)(step)
    assert "of 10,000 characters cut" in step.observations
    assert len(step.observations) <= 200


def test_the_newest_can_be_read_in_full_once():
    agent = code_agent(
        [*[code(f"print('{letter}' * 2000)") for letter in "abc"], code("final_answer('done')")],
        step_callbacks=[TruncateObservations(300, keep_last=1)],
    )
    agent.run("Look.")
    assert ["c" * 2000 in sent.text for sent in agent.model.calls] == [False, False, False, True]
    assert ["b" * 2000 in sent.text for sent in agent.model.calls] == [False, False, True, False]


def test_injected_long_steps_are_truncated_and_pinned_ones_are_not():
    agent = code_agent(counting(1), step_callbacks=[TruncateObservations(50)])
    long = [ActionStep(step_number=1, timing=None, observations="x" * 500) for _ in range(2)]
    agent.memory.steps += [long[0], pin(long[1])]
    agent.run("Look.", reset=False)
    assert [len(step.observations) for step in long] == [50, 500]


def test_a_wrong_placeholder_is_told_at_once():
    with pytest.raises(KeyError, match="missing"):
        TruncateObservations(100, notice="{missing}")
    with pytest.raises(ValueError, match="max_chars"):
        TruncateObservations(0)


# -- KeepRecentSteps -----------------------------------------------------------------------------------------------


def test_the_newest_n_stay_beside_the_task():
    agent = code_agent(counting(8), step_callbacks=[KeepRecentSteps(3)])
    agent.run("Count.")
    assert numbers(agent) == [6, 7, 8]
    assert tasks(agent) == ["Count."]
    assert [len(sent.messages) for sent in agent.model.calls] == [2, 5, 8, *[11] * 5]
    check_sent(agent)


def test_old_runs_go_with_their_tasks_and_the_current_task_stays_however_old_it_is():
    agent = code_agent([*counting(3), *counting(9)], step_callbacks=[KeepRecentSteps(2)])
    agent.run("First.")
    agent.run("Second.", reset=False)
    assert tasks(agent) == ["Second."]
    assert all("Second." in sent.text for sent in agent.model.calls[3:])
    assert numbers(agent) == [8, 9]


def test_tasks_given_in_the_middle_of_a_run_stay_while_it_lasts():
    def interrupt(step, agent):
        if step.step_number == 2:
            agent.memory.steps.append(TaskStep(task="Count. And hurry!"))

    agent = code_agent([*counting(8), *counting(8)], step_callbacks=[interrupt, KeepRecentSteps(1)])
    agent.run("Count.")
    assert tasks(agent) == ["Count.", "Count. And hurry!"]
    agent.run("Count on.", reset=False)
    assert tasks(agent) == ["Count on.", "Count. And hurry!"]


def test_a_final_answer_is_not_a_step_of_the_memory():
    steps = [TaskStep("Look."), *(ActionStep(step_number=n, timing=None, observations=str(n)) for n in (1, 2))]
    agent = code_agent([])
    agent.memory.steps += steps
    KeepRecentSteps(1)(FinalAnswerStep(output="done"), agent=agent)
    assert agent.memory.steps == [steps[0], steps[2]]


def test_without_the_agents_own_task_the_last_one_and_those_directly_before_it_stay():
    steps = [TaskStep("Old."), ActionStep(1, None), TaskStep("Look."), TaskStep("Quickly."), ActionStep(1, None)]
    agent = code_agent([])
    agent.memory.steps += steps
    KeepRecentSteps(1)(ActionStep(2, None), agent=agent)
    assert tasks(agent) == ["Look.", "Quickly."]


def test_at_most_so_many_messages_are_sent():
    agent = code_agent(counting(9), step_callbacks=[KeepRecentSteps(max_messages=9)])
    agent.run("Count.")
    assert max(len(sent.messages) for sent in agent.model.calls) == 8  # the next step would make it 11


def test_at_most_so_many_tool_executions_stay():
    parallel = [call("look", place=place) for place in "abc"]
    agent = calling_agent(
        [parallel, call("look", place="d"), call("look", place="e"), parallel, call("final_answer", answer="x")],
        step_callbacks=[KeepRecentSteps(max_tool_executions=4)],
    )
    agent.run("Look.")
    assert numbers(agent) == [4, 5]
    assert [len(step.tool_calls) for step in agent.memory.steps[1:]] == [3, 1]


def test_one_copy_stays_of_what_is_repeated_word_for_word():
    page = "the same long page " * 20
    script = [code(f"print('{page}')"), code("print('short')"), code(f"print('{page}')"), code("print('short')")]
    agent = code_agent(
        [*script, *counting(1)],
        step_callbacks=[TimestampObservations(), KeepRecentSteps(one_copy=True)],
    )
    agent.run("Look.")
    texts = [step.observations for step in agent.memory.steps[1:]]
    assert [page.strip() in text for text in texts] == [False, False, True, False, False]
    assert texts[0].startswith("[20")
    assert texts[0].endswith("] [the same text as in a newer step]")
    assert texts[1].endswith("short\nLast output from code snippet:\nNone")


def test_the_memory_changes_once_however_many_steps_go():
    agent = code_agent(counting(1), step_callbacks=[KeepRecentSteps(2)])
    agent.memory = ObservedMemory(agent.system_prompt)
    old = [ActionStep(step_number=n, timing=None, observations=str(n)) for n in range(9)]
    agent.memory.steps += old
    changes, pruned = [], []
    agent.memory.on("steps_changed", lambda event: changes.append((len(event.removed), len(event.added))))
    agent.memory.on("pruned", lambda event: pruned.append((event.what, event.count, event.steps)))
    agent.run("Look.", reset=False)
    assert changes == [(0, 1), (8, 0), (0, 1)]
    assert pruned == [("steps", 8, tuple(old[:8]))]


def test_pins_hold_and_are_saved_with_the_memory(tmp_path):
    def keep_the_second(step, agent):
        if step.step_number == 2:
            pin(step)

    agent = code_agent(counting(6), step_callbacks=[keep_the_second, KeepRecentSteps(1)])
    agent.run("Count.")
    assert numbers(agent) == [2, 6]
    save_memory(agent, tmp_path / "run.jsonl")
    other = code_agent(counting(4), step_callbacks=[KeepRecentSteps(1)])
    load_memory(tmp_path / "run.jsonl", agent=other)
    other.run("Count on.", reset=False)
    assert numbers(other) == [2, 4]
    assert is_pinned(other.memory.steps[0])
    unpin(other.memory.steps[0])
    assert not is_pinned(other.memory.steps[0])
    other.model = ScriptedModel(counting(1))
    other.run("The end.", reset=False)
    assert numbers(other) == [1]


@pytest.mark.parametrize("options", [{"n": 0}, {"max_messages": 0}, {"max_tool_executions": -1}])
def test_a_window_of_nothing_is_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        KeepRecentSteps(**options)


# -- DropInputMessages ---------------------------------------------------------------------------------------------


def test_only_the_newest_input_stays_and_what_is_sent_does_not_change():
    def run(callbacks):
        agent = code_agent(["plan", *counting(3), *counting(3)], planning_interval=9, step_callbacks=callbacks)
        agent.run("Count.")
        agent.planning_interval = None
        agent.run("Count on.", reset=False)
        return agent

    plain, lean = run([]), run(everywhere(DropInputMessages()))
    assert [sent.text for sent in lean.model.calls] == [sent.text for sent in plain.model.calls]
    inputs = [step.model_input_messages for step in lean.memory.steps if not isinstance(step, TaskStep)]
    assert isinstance(lean.memory.steps[1], PlanningStep)
    assert inputs[0] == []
    assert inputs[1:-1] == [None] * 5
    assert len(inputs[-1]) == len(lean.model.calls[-1].messages)
    assert lean.memory.get_full_steps()


def test_pinned_steps_keep_theirs():
    first = pin(ActionStep(step_number=1, timing=None, model_input_messages=["all"]))
    agent = code_agent(counting(2), step_callbacks=[DropInputMessages(keep_last=0)])
    agent.memory.steps.append(first)
    agent.run("Count.", reset=False)
    assert [bool(getattr(step, "model_input_messages", None)) for step in agent.memory.steps] == [
        True,
        False,
        False,
        False,
    ]


# -- SummarizeOldSteps ---------------------------------------------------------------------------------------------


def test_a_summary_stands_for_the_oldest_steps_and_says_what_it_replaces():
    agent = code_agent(counting(7), step_callbacks=[SummarizeOldSteps(summarizer(), keep_last=2, every=3)])
    agent.run("Count.")
    task, summary, *rest = agent.memory.steps
    assert (task.task, type(summary), summary.kind) == ("Count.", NoteStep, "summary")
    assert summary.text == "Summary of 3 earlier steps, up to step 3, which were removed:\na summary of what happened"
    assert summary.meta["replaces"] == 3
    assert summary.meta["step_numbers"] == [1, 2, 3]
    assert summary.meta["model"] == "scripted"
    assert [step.step_number for step in rest] == [4, 5, 6, 7]
    check_sent(agent)


def test_the_next_summary_takes_in_the_one_before():
    model = ScriptedModel([f"summary {n}" for n in range(1, 4)])
    agent = code_agent(counting(12), step_callbacks=[SummarizeOldSteps(model, keep_last=2, every=3)])
    agent.run("Count.")
    summaries = [step for step in agent.memory.steps if isinstance(step, NoteStep)]
    assert [step.text for step in summaries] == [
        "Summary of 9 earlier steps, up to step 9, which were removed:\nsummary 3"
    ]
    assert summaries[0].meta["step_numbers"] == list(range(1, 10))
    log = model.calls[1].messages[1].content[0]["text"]
    assert log.startswith("<log>\nSummary of 3 earlier steps")
    assert "Execution logs:\n6" in log


def test_without_another_model_the_agents_own_is_asked():
    script = [*counting(5)[:4], "it counted to 2", *counting(5)[4:]]
    agent = code_agent(script, step_callbacks=[SummarizeOldSteps(keep_last=2, every=2)])
    assert agent.run("Count.") == "done"
    assert "it counted to 2" in agent.memory.steps[1].text


@pytest.mark.parametrize("answer", [ConnectionError("down"), "", "  \n", ChatMessage(MessageRole.ASSISTANT, None)])
def test_if_the_model_fails_the_steps_stay_and_it_is_asked_again_later(answer):
    model = ScriptedModel([answer, "a late summary"])
    agent = code_agent(counting(10), step_callbacks=[SummarizeOldSteps(model, keep_last=2, every=4)])
    seen = []
    agent.step_callbacks.register(ActionStep, lambda step, agent: seen.append(len(agent.memory.steps)))
    assert agent.run("Count.") == "done"
    assert seen[:9] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert len(model.calls) == 2
    assert agent.memory.steps[1].text.endswith("a late summary")
    assert logged(agent).count("could not summarise; the steps stay as they were at step 6") == 1


def test_you_can_say_when():
    sizes = []

    def when(old):
        sizes.append(len(old))
        return len(old) == 4

    agent = code_agent(counting(8), step_callbacks=[SummarizeOldSteps(summarizer(), keep_last=2, when=when)])
    agent.run("Count.")
    assert sizes == [1, 2, 3, 4, 2, 3]
    assert agent.memory.steps[1].meta["replaces"] == 4


def test_tasks_of_this_run_and_pinned_steps_stay_where_they_are_and_earlier_runs_are_summarised():
    agent = code_agent(
        [*counting(3), *counting(4)], step_callbacks=[SummarizeOldSteps(summarizer(), keep_last=1, every=6)]
    )
    agent.run("First.")
    pin(agent.memory.steps[2])
    agent.run("Second.", reset=False)
    kinds = [(type(step).__name__, is_pinned(step)) for step in agent.memory.steps]
    assert kinds == [("NoteStep", False), ("ActionStep", True), ("TaskStep", False), ("ActionStep", False)]
    assert agent.memory.steps[0].meta["replaces"] == 6
    assert tasks(agent) == ["Second."]


def test_a_long_summary_is_cut_and_images_are_named_in_the_log():
    model = ScriptedModel(["x" * 9000])
    agent = code_agent(counting(5), step_callbacks=[SummarizeOldSteps(model, keep_last=1, every=4, max_chars=500)])
    agent.memory.steps.append(TaskStep("Look at this.", [object()]))
    agent.run("Count.", reset=False)
    assert len(agent.memory.steps[0].text) < 600
    assert "[image]" in model.calls[0].messages[1].content[0]["text"]


def test_a_memory_that_was_reset_while_the_model_wrote_is_left_alone():
    agent = code_agent(counting(3))

    def forget(messages):
        agent.memory.reset()
        return "a summary of nothing"

    agent.step_callbacks.register(ActionStep, SummarizeOldSteps(ScriptedModel([forget]), keep_last=1, every=2))
    agent.run("Count.")
    assert not any(isinstance(step, NoteStep) for step in agent.memory.steps)
    assert "The run goes on" not in logged(agent)


def test_summaries_outlive_the_window():
    callbacks = [SummarizeOldSteps(summarizer(), keep_last=2, every=2), KeepRecentSteps(3)]
    agent = code_agent(itertools.chain(counting(9)), step_callbacks=callbacks)
    agent.run("Count.")
    assert isinstance(agent.memory.steps[1], NoteStep)
    assert len(agent.memory.steps) <= 1 + 1 + 3


@pytest.mark.parametrize("options", [{"keep_last": 0}, {"every": 0}])
def test_summaries_of_nothing_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        SummarizeOldSteps(**options)


def test_system_messages_that_were_added_stay():
    """A prompt of its own, a note under the system's role, and a step of one's own class that shows such a message."""

    class Rule(MemoryStep):
        def to_messages(self, summary_mode=False):
            return [ChatMessage(MessageRole.SYSTEM, [{"type": "text", "text": "Never buy."}])]

    for callback in (KeepRecentSteps(2), KeepRecentSteps(max_messages=4), FitTokenBudget(1500, down_to=0.5)):
        agent = code_agent(counting(8), step_callbacks=[callback], max_steps=20)
        added = [
            SystemPromptStep("Be kind."),
            NoteStep("Answer in French.", role=MessageRole.SYSTEM),
            Rule(),
            NoteStep("It rained."),
        ]
        agent.memory.steps += added
        agent.run("Count.", reset=False)
        held = [step for step in agent.memory.steps if any(step is each for each in added)]
        assert held == added[:3], callback
        assert all(text in agent.model.calls[-1].text for text in ("Be kind.", "Answer in French.", "Never buy."))
