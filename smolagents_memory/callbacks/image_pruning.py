"""PruneImages: only the newest images stay in the prompt and in RAM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from PIL.Image import Image
from smolagents.memory import MemoryStep

from smolagents_memory.callbacks.step_callback import StepCallback
from smolagents_memory.callbacks.working_history import History
from smolagents_memory.steps.kinds import images_of, kind_of
from smolagents_memory.steps.marks import add_text, mark_of, set_mark
from smolagents_memory.steps.per_step import PerStep
from smolagents_memory.steps.pins import is_pinned
from smolagents_memory.steps.texts import content_of, parts_in


Place = tuple[MemoryStep, int]


class PruneImages(StepCallback):
    """Keeps the newest images of the memory and takes older ones out, leaving a short text where they were.

    It goes by position in memory, across runs with `reset=False`, and counts every copy that is sent:
    `run(images=…)` puts the images on the task and on each step. Older images are also taken out of the steps'
    `model_input_messages`, where they would stay in RAM. Your own list of images is never changed. Images of pinned
    steps stay and are not counted.

    Args:
        keep_last: How many images stay.
        max_side: Shrink older images so that no side is longer, instead of taking them out.
        slack: Wait until so many more have piled up, then prune them at once: each change to old steps makes a
            provider's prompt cache start anew.

    >>> from PIL import Image
    >>> from smolagents.memory import ActionStep
    >>> shots = [Image.new("RGB", (8, 8)) for _ in range(3)]
    >>> step = ActionStep(step_number=1, timing=None, observations="a page", observations_images=shots)
    >>> PruneImages(keep_last=1)(step)
    >>> print(step.observations, len(step.observations_images), len(shots))
    a page
    [2 images removed] 1 3
    """

    acts_on = (MemoryStep,)

    def __init__(self, keep_last: int = 2, *, max_side: int | None = None, slack: int = 0) -> None:
        if keep_last < 0 or slack < 0 or (max_side is not None and max_side < 1):
            raise ValueError(
                f"keep_last={keep_last} and slack={slack} must not be negative, nor max_side={max_side} 0"
            )
        self.keep_last, self.max_side, self.slack = keep_last, max_side, slack

    def on_step(self, step: MemoryStep, history: History) -> None:
        """Prune what is over, then let go of images that nothing but old input messages holds."""
        places = list(image_places(history))
        old = places[: max(0, len(places) - self.keep_last)]
        if self.max_side is not None:
            old = [(step, index) for step, index in old if self._is_large(images_of(step)[index])]
        if len(old) > self.slack:
            prune_images(history, old, self.max_side)
        release_images(history)

    def _is_large(self, image: Any) -> bool:
        raw = _raw(image)
        return raw is None or max(raw.size) > (self.max_side or 0)


def image_places(history: History) -> Iterator[Place]:
    """Where images are sent from, oldest first, except in pinned steps."""
    for step in history.steps:
        images = images_of(step)
        if images and not is_pinned(step):
            for index in range(len(images)):
                yield step, index


def prune_images(history: History, places: list[Place], max_side: int | None = None) -> None:
    """Take these images out, or shrink them; the steps get new lists, since a list may be the caller's own."""
    doomed: dict[int, tuple[MemoryStep, set[int]]] = {}
    for step, index in places:
        doomed.setdefault(id(step), (step, set()))[1].add(index)
    if id(history.step) in doomed:
        history.tell("pruning", what="images", step=history.step)  # what another callback added goes with them
    for step, old in doomed.values():
        now = [_shrunk(image, max_side) if index in old else image for index, image in enumerate(images_of(step))]
        kept = [image for image in now if image is not None]
        setattr(step, kind_of(step).images or "", kept or None)
        if removed := len(now) - len(kept):
            _leave_text(step, removed)
        if shrunk := len(old) - removed:
            set_mark(step, "images_shrunk", mark_of(step, "images_shrunk", 0) + shrunk)  # they are no new ones
    if places:
        history.tell("pruned", what="images", count=len(places))


def release_images(history: History) -> None:
    """Take out of old input messages every image that no step sends any more."""
    sent = {id(image) for step in history.steps for image in images_of(step)}
    step: Any
    for step in history.steps:
        if not step.__dict__.get("model_input_messages") or is_pinned(step):
            continue
        unsent = {index for index, image in _images_in_inputs(step) if image not in sent}
        if unsent:
            messages = list(step.model_input_messages)
            for index in unsent:
                messages[index] = _without_images(messages[index], sent)
            step.model_input_messages = messages


def _shrunk(image: Any, max_side: int | None) -> Any:
    """A small copy; None where there is to be none, or the image cannot be read."""
    raw = None if max_side is None else _raw(image)
    if raw is None or max_side is None:
        return None
    try:
        small = raw.copy()
        small.thumbnail((max_side, max_side))
    except Exception:  # noqa: BLE001 - a broken or closed image, a mode that cannot be resized
        return None
    return small


def _raw(image: Any) -> Image | None:
    """The picture itself: smolagents' AgentImage has it inside."""
    try:
        raw = image.to_raw() if hasattr(image, "to_raw") else image
    except Exception:  # noqa: BLE001 - whatever reading it raises
        return None
    return raw if isinstance(raw, Image) else None


def _leave_text(step: MemoryStep, removed: int) -> None:
    count = mark_of(step, "images_removed", 0) + removed
    set_mark(step, "images_removed", count)
    add_text(step, "images", "[1 image removed]" if count == 1 else f"[{count} images removed]")


def _look_into_inputs(step: MemoryStep) -> list[tuple[int, int]]:
    """The index of each message with an image, and the image's id."""
    messages = step.__dict__["model_input_messages"]
    if not isinstance(messages, list) or getattr(messages, "untouched", False):  # not even read from its file yet
        return []
    try:  # an input is as long as the memory, and nearly always as smolagents makes it
        return [(at, id(part["image"])) for at, msg in enumerate(messages) for part in msg.content if "image" in part]
    except (AttributeError, TypeError):
        return [
            (at, id(part["image"])) for at, msg in enumerate(messages) for part in parts_in([msg]) if "image" in part
        ]


_images_in_inputs = PerStep(_look_into_inputs, lambda step: ("model_input_messages",))


def _without_images(message: Any, sent: set[int]) -> Any:
    """A copy without the images that are not sent any more: messages may be shared."""
    content = [
        {"type": "text", "text": "[image removed]"}
        if isinstance(part, dict) and "image" in part and id(part["image"]) not in sent
        else part
        for part in content_of(message)
    ]
    return {**message, "content": content} if isinstance(message, dict) else replace(message, content=content)
