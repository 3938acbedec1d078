"""FitTokenBudget: the next prompt fits."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from smolagents.memory import MemoryStep

from smolagents_memory.callbacks.image_pruning import image_places, prune_images
from smolagents_memory.callbacks.input_messages import drop_inputs
from smolagents_memory.callbacks.sizes import frame_of
from smolagents_memory.callbacks.step_callback import StepCallback
from smolagents_memory.callbacks.truncation import NOTICE, truncate
from smolagents_memory.callbacks.working_history import History, is_summary
from smolagents_memory.steps.kinds import came_back
from smolagents_memory.steps.pins import is_pinned
from smolagents_memory.steps.tokens import IMAGE_TOKENS, message_tokens, step_tokens, text_tokens


STRATEGIES = ("inputs", "images", "observations", "steps")
NEWEST_OBSERVATION = 200  # characters; the least that is left of the newest observation when all else is gone


class FitTokenBudget(StepCallback):
    """Keeps the next prompt under a number of tokens.

    When it would not fit, it prunes, oldest first, until it does: copies of the input, images, long observations
    (head and tail stay), then whole steps. The system prompt, the tasks of the run, pinned steps and the newest step
    stay; of the newest step the middle of its observation and its images go when nothing else is left. What cannot
    fit is logged once.

    Tokens are estimated, four bytes each and 1,000 for an image; where the last call's `token_usage` says that it
    were more, the estimate is raised in proportion. Register it with `everywhere`: plans take room too.

    Args:
        max_tokens: What the next prompt may have. Leave room for the answer, and for the task of the next run.
        down_to: When pruning, go down to this share of `max_tokens`, so that it is not needed again at once: each
            change to old steps makes a provider's prompt cache start anew.
        observation_chars: How much of an older observation is left.
        strategies: What may be done, in this order, of "inputs", "images", "observations", "steps".
        notice: What stands where an observation was cut (see `TruncateObservations`).

    >>> from smolagents import CodeAgent
    >>> from smolagents_memory.testing import ScriptedModel, code
    >>> model = ScriptedModel([*[code("print('x' * 4000)")] * 30, code("final_answer('done')")])
    >>> fit = FitTokenBudget(6000)
    >>> agent = CodeAgent(tools=[], model=model, max_steps=40, step_callbacks=[fit], verbosity_level=0)
    >>> agent.run("Print a lot.")
    'done'
    >>> max(len(call.text) // 4 for call in model.calls) <= 6000
    True
    """

    acts_on = (MemoryStep,)

    def __init__(
        self,
        max_tokens: int,
        *,
        down_to: float = 0.9,
        observation_chars: int = 1000,
        strategies: Sequence[str] = STRATEGIES,
        notice: str = NOTICE,
    ) -> None:
        if max_tokens < 1 or not 0 < down_to <= 1:
            raise ValueError(f"max_tokens={max_tokens} must be positive, down_to={down_to} a share up to 1")
        if unknown := set(strategies) - set(STRATEGIES):
            raise ValueError(f"there is no strategy {sorted(unknown)}; there are {list(STRATEGIES)}")
        self.max_tokens, self.down_to, self.observation_chars = max_tokens, down_to, observation_chars
        self.strategies, self.notice = tuple(strategies), notice

    def on_step(self, step: MemoryStep, history: History) -> None:
        """Prune until the next prompt fits."""
        used = _used(history)
        room = self.max_tokens / self._factor(history) - frame_of(history.agent).tokens
        if used <= room:
            return
        aim = max(0.0, room * self.down_to)
        for strategy in self.strategies:
            over = _used(history) - aim
            if over > 0:
                getattr(self, f"_prune_{strategy}")(history, over)
        self._last_resorts(history, room)
        if (over := _used(history) - room) > 0:
            self.tell_once(
                "too much",
                f"the next prompt is some {over:.0f} tokens over the budget of {self.max_tokens}: what must stay (the "
                "system prompt, the task, pinned steps, the newest step) is larger. Raise max_tokens or unpin steps.",
                history.agent,
            )

    def _factor(self, history: History) -> float:
        """How far the estimate is below what the model's provider counted in the newest call it told about."""
        for step in history.steps[:-10:-1]:
            usage, messages = getattr(step, "token_usage", None), getattr(step, "model_input_messages", None)
            if usage is not None and messages:
                estimate = message_tokens(messages) + frame_of(history.agent).schemas
                return float(min(8, max(1, usage.input_tokens / max(1.0, estimate))))
        return 1.0

    def _prune_inputs(self, history: History, over: float) -> None:
        drop_inputs(history, keep_last=1)

    def _prune_images(self, history: History, over: float) -> None:
        older = [place for place in image_places(history) if place[0] is not history.steps[-1]]
        prune_images(history, older[: ceil(over / IMAGE_TOKENS)])

    def _prune_observations(self, history: History, over: float) -> None:
        for step in history.steps[:-1]:
            if over <= 0:
                break
            before = step_tokens(step)
            if truncate(step, self.observation_chars, self.notice):
                over -= before - step_tokens(step)

    def _prune_steps(self, history: History, over: float) -> None:
        doomed = []
        for step in history.droppable():
            if over <= 0:
                break
            doomed.append(step)
            over -= step_tokens(step)
        history.drop(doomed)

    def _last_resorts(self, history: History, room: float) -> None:
        """When nothing else is left: summaries, for each stands for many steps; then what the newest step holds."""
        if "steps" in self.strategies and _used(history) > room:
            history.drop(step for step in history.steps[:-1] if is_summary(step) and not is_pinned(step))
        if "observations" in self.strategies:
            self._cut_newest(history, room)
        places = list(image_places(history)) if "images" in self.strategies else []
        while places and (over := _used(history) - room) > 0:
            prune_images(history, places[: ceil(over / IMAGE_TOKENS)])
            places = list(image_places(history))
        if "observations" in self.strategies:  # the text that stands for images made it longer
            self._cut_newest(history, room)

    def _cut_newest(self, history: History, room: float) -> None:
        newest = history.steps[-1] if history.steps else None
        for _ in range(5):  # a part of the text may have more bytes a character than the rest
            text, over = None if newest is None else came_back(newest), _used(history) - room
            if over <= 0 or newest is None or not isinstance(text, str) or len(text) <= NEWEST_OBSERVATION:
                return
            share = max(0.0, 1 - over / text_tokens(text))
            truncate(newest, max(NEWEST_OBSERVATION, int(len(text) * share)), self.notice)


def _used(history: History) -> float:
    return sum(map(step_tokens, history.steps))
