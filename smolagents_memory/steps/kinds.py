"""The kinds of steps: one table, an entry a class. Whoever must know what a step is asks here.

To support a new class of steps, add its entry to the table: callbacks, views, memory and the journal go by it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

from smolagents.memory import ActionStep, FinalAnswerStep, MemoryStep, PlanningStep, SystemPromptStep, TaskStep

from smolagents_memory.steps import rendering
from smolagents_memory.steps.notes import NoteStep


Role = Literal["task", "action", "plan", "prompt", "note", "final"]


@dataclass(frozen=True, eq=False)
class Kind:
    """What is known of a class of steps; a subclass without an entry of its own is of the kind of its base.

    Attributes:
        cls: The class.
        role: Its part in a run; unless that is a note's, it has the fields of smolagents' own class of that role.
        title: What a person reads above it; without one the class's name.
        text: The field with the text that the model reads back, and to which callbacks may add.
        came_back: Whether that text is what came back from outside, of which callbacks may cut the middle.
        said: The field with what the model wrote, where that is another one.
        images: The field with images, which callbacks may prune.
        also: What else of it the model is shown.
        render: Its messages, for references to them: what was once released stays as it is.
    """

    cls: type[MemoryStep]
    role: Role = "note"
    title: str = ""
    text: str | None = None
    came_back: bool = False
    said: str | None = None
    images: str | None = None
    also: tuple[str, ...] = ()
    render: Callable[[Any], rendering.Rendered] | None = None

    @functools.cached_property
    def shown(self) -> tuple[str, ...]:
        """All fields that the model is shown something of."""
        return tuple(filter(None, (self.said, self.text, self.images, *self.also)))


OWN_KINDS = (
    Kind(TaskStep, "task", "Task", "task", images="task_images", render=rendering.task),
    Kind(
        ActionStep,
        "action",
        "Step",
        "observations",
        came_back=True,
        said="model_output",
        images="observations_images",
        also=("tool_calls", "error"),
        render=rendering.action,
    ),
    Kind(PlanningStep, "plan", "Plan", "plan", render=rendering.plan),
    Kind(SystemPromptStep, "prompt", "System prompt", "system_prompt", render=rendering.prompt),
    Kind(FinalAnswerStep, "final", "Final answer", "output"),
    Kind(NoteStep, "note", text="text", also=("role",), render=rendering.note),
)


_OWN: dict[type, Kind] = {kind.cls: kind for kind in OWN_KINDS}
_KINDS = dict(_OWN)
_UNKNOWN = Kind(MemoryStep)


def add_kind(kind: Kind) -> None:
    """Make one more class known in this process; its messages are stored whole, for another may not know it."""
    _KINDS[kind.cls] = kind
    _kind_of_class.cache_clear()


@functools.lru_cache(maxsize=256)
def _kind_of_class(cls: type) -> Kind:
    return next((_KINDS[base] for base in cls.__mro__ if base in _KINDS), _UNKNOWN)


def kind_of(step: Any) -> Kind:
    """The step's kind."""
    cls: Any = type(step)
    return _kind_of_class(cls)


def shown_fields(step: object) -> tuple[str, ...] | None:
    """The fields that the model is shown something of, if the very class is known: a subclass may show others."""
    kind = _KINDS.get(type(step))
    return None if kind is None else kind.shown


def render(step: MemoryStep) -> rendering.Rendered:
    """The messages of a step, for references to them; none if its very class is not known everywhere."""
    kind = _OWN.get(type(step))
    return [] if kind is None or kind.render is None else kind.render(step)


def came_back(step: MemoryStep) -> Any:
    """What came back in the step, as it stands there now, callbacks' additions included; None where nothing can."""
    kind = kind_of(step)
    return getattr(step, kind.text, None) if kind.came_back and kind.text else None


def images_of(step: MemoryStep) -> Sequence[Any]:
    """The images in the step."""
    field = kind_of(step).images
    return (getattr(step, field, None) or ()) if field else ()


def title_of(step: MemoryStep) -> str:
    """What a person reads above the step."""
    return kind_of(step).title or str(getattr(step, "kind", type(step).__name__))


def is_required(step: MemoryStep, field: str) -> bool:
    """Whether the class gives the field no default, so that its own methods do not expect None there."""
    return not hasattr(type(step), field)


def drop_inputs_of(step: Any) -> None:
    """Drop the copy of the whole prompt that the step keeps, if it keeps one."""
    if hasattr(step, "model_input_messages"):
        step.model_input_messages = [] if is_required(step, "model_input_messages") else None


# -- the kinds by name ---------------------------------------------------------------------------------------------


def is_task(step: object) -> TypeGuard[TaskStep]:
    """Whether a user asked for something here."""
    return kind_of(step).role == "task"


def is_action(step: object) -> TypeGuard[ActionStep]:
    """Whether the agent acted here, or tried to."""
    return kind_of(step).role == "action"


def is_plan(step: object) -> TypeGuard[PlanningStep]:
    """Whether the agent planned here."""
    return kind_of(step).role == "plan"


def is_prompt(step: object) -> TypeGuard[SystemPromptStep]:
    """Whether it is a system prompt."""
    return kind_of(step).role == "prompt"


def is_final(step: object) -> TypeGuard[FinalAnswerStep]:
    """Whether it tells callbacks of the answer; such a step is never stored."""
    return kind_of(step).role == "final"


def is_note(step: object) -> TypeGuard[NoteStep]:
    """Whether it is a note."""
    return isinstance(step, NoteStep)


def is_models(step: object) -> TypeGuard[ActionStep | PlanningStep]:
    """Whether the agent's model made it: an action or a plan."""
    return kind_of(step).role in ("action", "plan")
