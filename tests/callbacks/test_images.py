"""PruneImages and CaptureScreenshot."""

from __future__ import annotations

import gc
import itertools
import weakref

import pytest
from callback_runs import calling_agent, code_agent, images_in, logged, picture
from PIL import Image
from smolagents.memory import ActionStep, TaskStep
from smolagents.models import ChatMessage, MessageRole

from smolagents_memory import CaptureScreenshot, KeepRecentSteps, ObservedMemory, PruneImages, everywhere, pin
from smolagents_memory.testing import call, code


def step_with(*images, number=1, **more):
    return ActionStep(step_number=number, timing=None, observations_images=list(images), **more)


def browsing(runs=4, steps=5):
    """Several runs of some steps each."""
    return (code(f"final_answer({n})") if n % steps == 0 else code(f"print({n})") for n in range(1, runs * steps + 1))


@pytest.mark.parametrize("keep_last", [1, 2, 3])
@pytest.mark.parametrize("observed", [False, True])
def test_a_browser_session_of_four_runs_sends_exactly_keep_last_images(keep_last, observed):
    shades = itertools.count(1)
    capture = CaptureScreenshot(lambda: picture(next(shades)), keep_last=keep_last)
    agent = code_agent(browsing(), step_callbacks=[capture])
    if observed:
        agent.memory = ObservedMemory(agent.system_prompt)
    for run in range(4):
        agent.run(f"Run {run}.", reset=False)
    sent = [[image.getpixel((0, 0))[0] for image in call.images] for call in agent.model.calls]
    assert len(sent) == 20
    assert sent == [list(range(max(1, n - keep_last + 1), n + 1)) for n in range(20)]


def test_images_of_a_run_are_counted_copy_by_copy_and_the_callers_list_is_never_changed():
    agent = code_agent(browsing(), step_callbacks=[PruneImages(keep_last=2)])
    for run in range(4):
        mine = [picture(10 * run), picture(10 * run + 1)]
        kept = list(mine)
        agent.run(f"Run {run}.", reset=False, images=mine)
        assert mine == kept
        assert all(one is other for one, other in zip(mine, kept, strict=True))
    sent = [len(call.images) for call in agent.model.calls]
    assert sent == [2, 2, 2, 2, 2, *[4, 2, 2, 2, 2] * 3]  # the first call of a run brings its own: none ran yet


@pytest.mark.parametrize("agent_of", [code_agent, calling_agent])
def test_memory_holds_no_other_reference_to_pruned_images(agent_of):
    alive: list[weakref.ref] = []

    def take():
        return picture(len(alive))

    class Watching(CaptureScreenshot):
        def _taken(self, step, agent):
            image = super()._taken(step, agent)
            alive.append(weakref.ref(image))
            return image

    answers = (
        browsing()
        if agent_of is code_agent
        else (call("final_answer", answer="x") if n % 5 == 0 else call("look", place="a") for n in range(1, 21))
    )
    agent = agent_of(answers, step_callbacks=[Watching(take, keep_last=2)])
    agent.model.record = "none"
    for run in range(4):
        agent.run(f"Run {run}.", reset=False)
        gc.collect()
        dead = [reference() is None for reference in alive]
        assert dead == [True] * (len(alive) - 2) + [False, False]
    assert sum("[image removed]" in str(step.model_input_messages) for step in agent.memory.steps[1:2]) == 0
    removed = [step for step in agent.memory.steps if "[1 image removed]" in str(getattr(step, "observations", ""))]
    assert len(removed) == 18


def test_images_in_input_messages_of_dropped_and_edited_steps_are_let_go_too():
    agent = code_agent(
        [*[code("print(1)")] * 8, code("final_answer('done')")],
        step_callbacks=[CaptureScreenshot(picture, keep_last=None), KeepRecentSteps(3), PruneImages(keep_last=10)],
    )
    agent.run("Look.")
    sent = {id(image) for image in images_in(agent.memory.steps)}
    held = [
        part["image"]
        for step in agent.memory.steps[1:]
        for message in step.model_input_messages
        for part in message.content
        if part["type"] == "image"
    ]
    assert held
    assert {id(image) for image in held} <= sent


def test_messages_are_replaced_and_never_changed_in_place():
    image = picture()
    message = ChatMessage(
        role=MessageRole.USER, content=[{"type": "image", "image": image}, {"type": "text", "text": "x"}]
    )
    content, inputs = (
        message.content,
        [message, {"role": "user", "content": [{"type": "image", "image": image}]}, None],
    )
    step = step_with(image, model_input_messages=inputs)
    PruneImages(keep_last=0)(step)
    assert content == [{"type": "image", "image": image}, {"type": "text", "text": "x"}]
    assert inputs[0] is message
    assert message.content is content
    assert [part["text"] for part in step.model_input_messages[0].content] == ["[image removed]", "x"]
    assert step.model_input_messages[1]["content"] == [{"type": "text", "text": "[image removed]"}]


def test_a_short_text_stays_where_images_were_and_counts_them():
    agent = code_agent([])
    agent.memory.steps += [
        TaskStep("Look.", [picture(), picture()]),
        step_with(picture(), picture(), observations="a"),
    ]
    prune, current = PruneImages(keep_last=3), step_with(picture(), number=2)
    prune(current, agent=agent)
    assert agent.memory.steps[0].task == "Look.\n[2 images removed]"
    assert agent.memory.steps[0].task_images is None
    assert agent.memory.steps[1].observations == "a"
    agent.memory.steps.append(current)
    prune(step_with(picture(), number=3), agent=agent)
    assert agent.memory.steps[1].observations == "a\n[1 image removed]"
    agent.memory.steps.append(step_with(picture(), number=3))
    prune(step_with(picture(), number=4), agent=agent)
    assert agent.memory.steps[1].observations == "a\n[2 images removed]"


def test_older_images_can_be_shrunk_instead():
    agent = code_agent(
        browsing(1, 6),
        step_callbacks=[CaptureScreenshot(lambda: picture(1, 64), keep_last=None), PruneImages(2, max_side=16)],
    )
    agent.run("Look.")
    assert [image.size[0] for image in agent.model.calls[-1].images] == [16, 16, 16, 64, 64]
    assert "image" not in agent.memory.steps[1].observations


def test_an_image_that_cannot_be_shrunk_is_taken_out():
    broken = Image.new("RGB", (9, 9))
    broken.close()
    broken.load = None  # type: ignore[assignment]
    step = step_with(broken, "no image at all", picture(), observations="a")
    PruneImages(1, max_side=2)(step)
    assert len(step.observations_images) == 1
    assert step.observations == "a\n[2 images removed]"


def test_with_slack_it_prunes_in_batches():
    agent = code_agent(
        browsing(1, 9), step_callbacks=[CaptureScreenshot(picture, keep_last=None), PruneImages(2, slack=2)]
    )
    agent.run("Look.")
    assert [len(call.images) for call in agent.model.calls] == [0, 1, 2, 3, 4, 2, 3, 4, 2]


def test_images_of_pinned_steps_stay_and_are_not_counted():
    pinned = pin(step_with(picture(), observations="the plan of the house"))
    agent = code_agent(browsing(1, 5), step_callbacks=[CaptureScreenshot(picture, keep_last=1)])
    agent.memory.steps.append(pinned)
    agent.run("Look.", reset=False)
    assert [len(call.images) for call in agent.model.calls] == [1, 2, 2, 2, 2]
    assert pinned.observations == "the plan of the house"


def test_a_failing_screenshot_is_noted_in_the_observation_and_logged_once():
    def take():
        raise ConnectionError("the browser is gone")

    agent = code_agent(
        [*[code("print(1)")] * 2, code("final_answer('done')")], step_callbacks=[CaptureScreenshot(take)]
    )
    assert agent.run("Look.") == "done"
    assert agent.model.calls[-1].text.count("[screenshot failed: ConnectionError: the browser is gone]") == 2
    assert logged(agent).count("could not take a screenshot at step 1: ConnectionError") == 1
    assert "at step 2" not in logged(agent)


@pytest.mark.parametrize(("result", "shown"), [(None, ""), ("a path", "must return a PIL image, not str")])
def test_nothing_to_see_is_fine_and_what_is_no_image_is_told(result, shown):
    step = ActionStep(step_number=1, timing=None, observations="x")
    CaptureScreenshot(lambda: result)(step)
    assert step.observations_images is None
    assert shown in step.observations


def test_a_canvas_that_is_drawn_on_again_gives_a_picture_per_step_after_the_images_of_the_run():
    canvas, shades = picture(), itertools.count(1)

    def take():
        canvas.putpixel((0, 0), (next(shades), 0, 0))
        return canvas

    mine = [picture(200)]
    agent = code_agent(browsing(1, 4), step_callbacks=[CaptureScreenshot(take, keep_last=None)])
    agent.run("Look.", images=mine)
    assert [image.getpixel((0, 0))[0] for image in agent.model.calls[-1].images] == [200, 200, 1, 200, 2, 200, 3]
    assert len(mine) == 1


def test_it_waits_before_it_looks(monkeypatch):
    waited = []
    monkeypatch.setattr("smolagents_memory.callbacks.screenshots.time.sleep", waited.append)
    CaptureScreenshot(picture, delay=0.5)(ActionStep(step_number=1, timing=None))
    assert waited == [0.5]


def test_it_takes_one_picture_per_step_and_listeners_hear_of_pruning():
    heard = []
    agent = code_agent(browsing(1, 4), step_callbacks=everywhere(*[CaptureScreenshot(picture, keep_last=2)] * 2))
    agent.memory = ObservedMemory(agent.system_prompt)
    agent.memory.on("pruned", lambda event: heard.append((event.what, event.count)))
    agent.run("Look.")
    assert len(list(images_in(agent.memory.steps))) == 2
    assert heard == [("images", 1)] * 2


@pytest.mark.parametrize("options", [{"keep_last": -1}, {"slack": -1}, {"max_side": 0}])
def test_numbers_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        PruneImages(**options)
