"""CaptureScreenshot: what the agent's browser or screen shows after each step."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from PIL.Image import Image

from smolagents_memory.callbacks.image_pruning import PruneImages
from smolagents_memory.callbacks.step_callback import StepCallback
from smolagents_memory.callbacks.working_history import History
from smolagents_memory.steps.marks import add_text, mark_of, set_mark


class CaptureScreenshot(StepCallback):
    """Adds a picture of the screen to each step, and keeps only the newest in memory.

    A `take` that fails is noted in the observation, so that the agent knows it is blind, and logged once.

    Args:
        take: Returns a PIL image, or None when there is nothing to see yet.
        delay: Seconds to wait before, so that a page can settle.
        keep_last: How many images stay in memory (see `PruneImages`); None keeps all.

    >>> from PIL import Image
    >>> from smolagents.memory import ActionStep
    >>> step = ActionStep(step_number=1, timing=None, observations="opened the page")
    >>> CaptureScreenshot(lambda: Image.new("RGB", (64, 48)))(step)
    >>> step.observations_images[0].size
    (64, 48)
    """

    def __init__(self, take: Callable[[], Image | None], *, delay: float = 0.0, keep_last: int | None = 2) -> None:
        self.take, self.delay = take, delay
        self.prune = None if keep_last is None else PruneImages(keep_last)

    def on_step(self, step: Any, history: History) -> None:
        """Take the picture, once per step, and prune older ones."""
        if not mark_of(step, "screenshot"):
            set_mark(step, "screenshot", True)
            if self.delay:
                time.sleep(self.delay)
            image = self._taken(step, history.agent)
            if image is not None:
                step.observations_images = [*(getattr(step, "observations_images", None) or ()), image]
        if self.prune is not None:
            self.prune.on_step(step, history)

    def _taken(self, step: Any, agent: Any) -> Image | None:
        try:
            image = self.take()
            if image is not None and not isinstance(image, Image):
                raise TypeError(f"`take` must return a PIL image, not {type(image).__name__}")
            return None if image is None else image.copy()  # `take` may draw on the same one again
        except Exception as defect:  # noqa: BLE001 - whatever a browser raises; noted for the agent and logged
            add_text(step, "screenshot", f"[screenshot failed: {type(defect).__name__}: {str(defect)[:200]}]")
            self.report(defect, step, agent, "could not take a screenshot")
            return None
