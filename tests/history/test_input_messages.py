"""Input messages: stored once, shared after loading, and never leaking an edit."""

from __future__ import annotations

import copy
import dataclasses
import gc
import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from smolagents.memory import ActionStep, SystemPromptStep, TaskStep
from smolagents.models import ChatMessage, MessageRole
from smolagents.monitoring import Timing

from smolagents_memory import NoteStep, export_memory, import_memory, load_memory, save_memory
from smolagents_memory.history.messages import InputMessages
from smolagents_memory.history.observed import ObservedMemory
from smolagents_memory.history.recording import StepReader, StepWriter
from smolagents_memory.steps.kinds import render
from smolagents_memory.testing import explain_difference, same


def action(number: int, observations: str | None) -> ActionStep:
    return ActionStep(
        step_number=number, timing=Timing(0.0, 1.0), model_output=f"Thought {number}", observations=observations
    )


def history(edits: list[tuple[str, int]]) -> tuple[SystemPromptStep, list[ActionStep | TaskStep]]:
    """A run in which earlier steps are edited, dropped and inserted between the steps, as callbacks do it."""
    prompt = SystemPromptStep("You are helpful.")
    memory: list[Any] = [TaskStep(task="go", task_images=[Image.new("L", (2, 2), 7)])]
    everything: list[Any] = list(memory)
    for number, (edit, where) in enumerate(edits):
        inputs = [message for step in (prompt, *memory) for message in step.to_messages()]
        step = action(number, f"observed {number} " + "x" * 50)
        step.model_input_messages = inputs
        memory.append(step)
        everything.append(step)
        target = memory[where % len(memory)]
        if edit == "truncate" and isinstance(target, ActionStep):
            target.observations = f"cut {number}"
        elif edit == "drop" and len(memory) > 2:
            del memory[where % len(memory) : where % len(memory) + 2]
        elif edit == "insert":
            memory.insert(where % len(memory), NoteStep(f"note {number}", created=0.0))
    return prompt, everything


def trip(prompt: SystemPromptStep, steps: list[Any]) -> list[Any]:
    writer, reader = StepWriter(prompt), StepReader()
    reader.read_prompt(StepWriter(None).write(0, prompt))
    read = []
    for index, step in enumerate(steps):
        record = writer.write(index, step)
        reader.blobs.update(writer.new_blobs())
        read.append(reader.read(index, record))
    return read


edit_scripts = st.lists(
    st.tuples(st.sampled_from(["none", "truncate", "drop", "insert"]), st.integers(0, 30)), max_size=25
)


@settings(deadline=None, max_examples=50)
@given(edit_scripts)
def test_every_list_comes_back_whatever_was_edited_in_between(edits: list[tuple[str, int]]) -> None:
    prompt, steps = history(edits)
    assert explain_difference(steps, trip(prompt, steps)) is None


@settings(deadline=None, max_examples=50)
@given(edit_scripts)
def test_what_was_loaded_and_never_looked_at_is_written_again_as_it_was(edits: list[tuple[str, int]]) -> None:
    prompt, steps = history(edits)
    loaded = trip(prompt, steps)
    again = trip(prompt, loaded)
    assert all(step.model_input_messages.untouched for step in loaded if step.__dict__.get("model_input_messages"))
    assert explain_difference(steps, again) is None


def test_messages_are_references_to_the_steps_that_show_them() -> None:
    prompt, steps = history([("none", 0)] * 5)
    writer = StepWriter(prompt)
    records = [writer.write(index, step) for index, step in enumerate(steps)]
    assert records[5]["inputs"]["new"] == [{"all": [4, 4, 1]}]
    assert records[5]["inputs"]["list"] == [[0, 8], [8, 2, 0]]


def test_a_list_that_begins_anew_refers_to_all_steps_in_a_few_words() -> None:
    prompt, steps = history([("none", 0)] * 50)
    writer = StepWriter(prompt)
    for index, step in enumerate(steps[:50]):
        writer.write(index, dataclasses.replace(step, **({"model_input_messages": None} if index else {})))
    record = writer.write(50, steps[50])
    assert record["inputs"]["new"] == [{"all": [-1, 49, 1]}]
    assert record["inputs"]["list"] == [[0, len(steps[50].model_input_messages), 0]]


def test_our_rendering_is_what_smolagents_shows() -> None:
    prompt, steps = history([("none", 0), ("insert", 0), ("truncate", 1)])
    for step in [prompt, *steps, NoteStep("n")]:
        ours = [message for message in render(step) if message is not None]
        assert explain_difference(step.to_messages(), ours) is None


@pytest.fixture
def loaded() -> list[Any]:
    return trip(*history([("none", 0)] * 70))


def test_an_edit_of_one_loaded_step_never_shows_in_another(loaded: list[Any]) -> None:
    first, second = loaded[-2].model_input_messages, loaded[-1].model_input_messages
    first[1].content[0]["text"] = "changed"
    first[0].role = MessageRole.USER
    loaded[1].observations = "changed"
    assert second[1].content[0]["text"] == "New task:\ngo"
    assert second[0].role is MessageRole.SYSTEM
    assert not any("changed" in str(message.content) for message in second)


def test_strings_and_images_are_shared_between_loaded_steps(loaded: list[Any]) -> None:
    first, second = loaded[-2].model_input_messages, loaded[-1].model_input_messages
    assert first[3].content[0]["text"] is second[3].content[0]["text"]
    assert first[1].content[1]["image"] is second[1].content[1]["image"] is loaded[0].task_images[0]
    assert first[3] is not second[3]


def test_a_loaded_list_is_a_list_in_every_way(loaded: list[Any]) -> None:
    def fresh() -> InputMessages:
        inputs = trip(*history([("none", 0)] * 3))[-1].model_input_messages
        assert isinstance(inputs, InputMessages)
        assert inputs.untouched
        return inputs

    expected = history([("none", 0)] * 3)[1][-1].model_input_messages
    assert len(fresh()) == len(expected) == 6
    assert bool(fresh())
    for look in (
        lambda inputs: list(inputs),
        lambda inputs: [*inputs],
        lambda inputs: inputs[:],
        lambda inputs: inputs + [],
        lambda inputs: [] + inputs,
        lambda inputs: inputs.copy(),
        lambda inputs: list(reversed(list(reversed(inputs)))),
        lambda inputs: copy.deepcopy(inputs),
        lambda inputs: copy.copy(inputs),
        lambda inputs: pickle.loads(pickle.dumps(inputs)),
        lambda inputs: sorted(inputs, key=lambda message: 0),
        lambda inputs: [inputs[at] for at in range(len(inputs))],
        lambda inputs: [inputs.pop(0) for _ in range(6)],
    ):
        assert [m.content for m in look(fresh())] == [m.content for m in expected]
    target: list[ChatMessage] = []
    target.extend(fresh())
    target[:0] = fresh()
    assert len(target) == 12
    emptied = fresh()
    emptied.clear()
    assert len(emptied) == 0


def test_loading_and_looking_at_one_step_does_not_make_the_others(loaded: list[Any]) -> None:
    assert len(loaded[40].model_input_messages[5:]) == 2 + 2 * 39 - 5
    assert loaded[41].model_input_messages.untouched


def test_an_exported_list_of_subclassed_or_foreign_messages_is_kept_whole() -> None:
    class Mine(ChatMessage):
        pass

    memory = ObservedMemory("s")
    step = action(1, "o")
    step.model_input_messages = [Mine(role=MessageRole.USER, content="x"), {"role": "user"}]  # type: ignore[list-item]
    memory.steps.append(step)
    assert explain_difference(list(import_memory(None, export_memory(memory)).steps), [step]) is None


def held_by_loading(count: int) -> int:
    """The bytes that a loaded history of so many steps holds."""
    prompt, steps = history([("none", 0)] * count)
    writer = StepWriter(prompt)
    records = [writer.write(index, step) for index, step in enumerate(steps)]
    gc.collect()
    tracemalloc.start()
    reader = StepReader()
    reader.blobs.update(writer.blobs.data)
    reader.read_prompt(StepWriter(None).write(0, prompt))
    read = [reader.read(index, record) for index, record in enumerate(records)]
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(read) == count + 1
    return held


@pytest.mark.slow
def test_what_a_loaded_history_holds_grows_with_its_steps_not_with_their_square() -> None:
    assert held_by_loading(400) < 2.6 * held_by_loading(200)


def test_a_message_whose_part_is_anything_is_kept(tmp_path: Path) -> None:
    """Found among generated files: an array, which knows no names."""
    part = numpy.zeros(3)
    step = ActionStep(step_number=1, timing=Timing(1.0, 2.0))
    step.model_input_messages = [ChatMessage(MessageRole.USER, [part])]
    memory = ObservedMemory("x")
    memory.steps.append(step)
    for _ in range(2):
        memory = load_memory(save_memory(memory, tmp_path / "x.jsonl"))
    assert same(memory.steps[0].model_input_messages[0].content[0], part)
