"""Everything that can stand in an agent's memory, for hypothesis."""

from __future__ import annotations

import datetime as dt
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import NamedTuple
from uuid import UUID

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from PIL import Image
from smolagents import utils as upstream
from smolagents.agent_types import AgentImage, AgentText
from smolagents.memory import ActionStep, FinalAnswerStep, PlanningStep, SystemPromptStep, TaskStep, ToolCall
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole
from smolagents.monitoring import Timing, TokenUsage

from smolagents_memory import NoteStep, NotKept, register_step


@dataclass
class Point:
    x: object
    y: object = None


@dataclass(frozen=True)
class Frozen:
    inside: object


class Pair(NamedTuple):
    left: object
    right: object


class Colour(Enum):
    RED = "red"
    BLUE = ("b", 1)


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Text(str):
    pass


class Bag(dict):
    pass


@register_step
@dataclass
class TicketStep(TaskStep):
    """A user's own step."""

    ticket: object = None


IMAGE_MODES = ["1", "L", "P", "RGB", "RGBA", "I", "I;16", "F", "LAB", "CMYK", "LA", "PA", "YCbCr", "HSV", "RGBX", "La"]


def named(strategy: st.SearchStrategy) -> st.SearchStrategy:
    """The same strategy with a short repr: hypothesis would spend minutes on writing these out."""

    @st.composite
    def drawn(draw):  # type: ignore[no-untyped-def]
        return draw(strategy)

    return drawn()


# any text at all: lone halves of surrogate pairs, NUL, text that looks like JSON or like our own markers
texts = named(
    st.one_of(
        st.text(max_size=30),
        st.text(alphabet=st.characters(codec=None, categories=None), max_size=8),
        st.sampled_from(
            ["", '{"a": 1}', "[1]", "$", "$ref", "\ud83d\ude00", "\ud83d", "\x00", "Observation:\n", "a" * 2000]
        ),
    )
)
numbers = st.one_of(
    st.integers(),
    st.integers(min_value=-(2**400), max_value=2**400),
    st.floats(),
    st.complex_numbers(),
    st.decimals(),
    st.fractions(),
    st.booleans(),
)
times = st.one_of(
    st.datetimes(),
    st.datetimes(
        timezones=st.timezones() | st.just(dt.timezone.utc) | st.just(dt.timezone(dt.timedelta(hours=5.5), "X"))
    ),
    st.dates(),
    st.times(),
    st.timedeltas(),
)
arrays = named(
    st.sampled_from(
        [
            np.arange(6).reshape(2, 3),
            np.asfortranarray(np.arange(6.0).reshape(2, 3)),
            np.array(7),
            np.zeros((0, 3), dtype="f4"),
            np.array([float("nan"), -0.0]),
            np.array(["a", "bc"]),
            np.array([b"x"], dtype="S3"),
            np.array([1, "a", None, [2]], dtype=object),
            np.array(["2020-01-01", "NaT"], dtype="M8[D]"),
            np.array([(1, 2.0)], dtype=[("a", "<i4"), ("b", ">f8")]),
            np.ma.masked_array([1, 2], [False, True]),
            np.float32(1.5),
            np.float64("nan"),
            np.int8(-1),
            np.bool_(True),
            np.str_("x"),
            np.datetime64("2020-01-01T00:00", "m"),
            np.dtype("<f8"),
            np.arange(1000),
        ]
    )
)
frames = named(
    st.sampled_from(
        [
            pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": [0.5, float("nan")]}),
            pd.DataFrame(),
            pd.DataFrame({1: [True], (1, 2): [b"x"]}),
            pd.DataFrame({"a": [1]}, index=pd.MultiIndex.from_tuples([(1, "a")], names=["n", None])),
            pd.DataFrame([[1, 2]], columns=["same", "same"]),
            pd.Series([1, None], dtype="Int64", name="n"),
            pd.Series(["a", "b", "a"], dtype="category"),
            pd.Series(pd.date_range("2020-01-01", periods=2, tz="Europe/Berlin")),
            pd.date_range("2020-01-01", periods=3, freq="D"),
            pd.Index(["a", "b"], name="letters"),
            pd.RangeIndex(1, 9, 2),
            pd.Timestamp("2020-01-01 12:00", tz="UTC"),
            pd.Timestamp("2020-01-01"),
            pd.Timedelta("1 day 3 ns"),
            pd.NaT,
            pd.NA,
        ]
    )
)


def _painted(mode: str, width: int, height: int, seed: int) -> Image.Image:
    image = Image.new(mode, (width, height))
    if width and height:
        count = len(image.tobytes())
        pixels = np.random.default_rng(seed).integers(0, 256, size=count, dtype=np.uint8).tobytes()
        image = Image.frombytes(mode, (width, height), pixels)
    if mode in ("P", "PA"):
        image.putpalette(list(range(30)) * 2, "RGB")
    return image


images = named(
    st.builds(_painted, st.sampled_from(IMAGE_MODES), st.integers(0, 9), st.integers(0, 9), st.integers(0, 3))
)

atoms = named(
    st.one_of(
        st.none(),
        texts,
        numbers,
        times,
        st.binary(max_size=40),
        st.binary(min_size=600, max_size=700),
        st.binary(max_size=9).map(bytearray),
        st.uuids(),
        arrays,
        frames,
        images,
        st.sampled_from(
            [
                *(
                    float("nan"),
                    float("inf"),
                    -0.0,
                    2**64,
                    -(2**53),
                    ...,
                    int,
                    UUID(int=0),
                    slice(1, None, 2),
                    range(3),
                ),
                *(Path("/tmp/a"), PurePosixPath("a/b"), PureWindowsPath("C:\\a"), Decimal("NaN"), Fraction(1, 3)),
                *(Colour.RED, Colour.BLUE, Level.HIGH, MessageRole.USER, Text("sub"), AgentText("answer")),
                *(ValueError("wrong", 1), KeyError("k"), FileNotFoundError(2, "no", "f"), NotKept("x.Y", "z")),
                AgentImage(Image.new("RGB", (2, 2), "red")),
            ]
        ),
    )
)
keys = st.one_of(texts, st.integers(), st.none(), st.booleans(), st.tuples(st.integers(), st.text(max_size=3)))


def _with_cycle(items: list[object]) -> object:
    items.append({"back": items, "tuple": (items, items)})
    return items


def _shared(value: object) -> object:
    return [value, {"again": value}, (value,)]


values = named(
    st.recursive(
        atoms,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.dictionaries(texts, inner, max_size=4),
            st.dictionaries(keys, inner, max_size=3),
            st.dictionaries(st.sampled_from(["$", "$ref", "n", "v"]), inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.lists(inner, max_size=3).map(deque),
            st.lists(inner, max_size=3).map(_with_cycle),
            inner.map(_shared),
            st.sets(keys, max_size=3),
            st.frozensets(keys, max_size=3),
            st.dictionaries(texts, inner, max_size=2).map(OrderedDict),
            st.dictionaries(texts, inner, max_size=2).map(lambda d: defaultdict(list, d)),
            st.dictionaries(texts, inner, max_size=2).map(Bag),
            st.text(max_size=5).map(Counter),
            st.builds(Point, inner, inner),
            st.builds(Frozen, inner),
            st.builds(Pair, inner, inner),
        ),
        max_leaves=8,
    )
)

# -- steps -------------------------------------------------------------------------------------------------------


class _Silent:
    def log_error(self, message: object) -> None:
        """As AgentLogger."""


class OwnError(upstream.AgentExecutionError):
    """A user's own."""


error_classes = [
    *(upstream.AgentError, upstream.AgentParsingError, upstream.AgentExecutionError, upstream.AgentMaxStepsError),
    *(upstream.AgentToolCallError, upstream.AgentToolExecutionError, upstream.AgentGenerationError, OwnError),
]
errors = named(st.builds(lambda cls, text: cls(text, _Silent()), st.sampled_from(error_classes), texts))
usages = st.builds(TokenUsage, input_tokens=st.integers(0, 10**6), output_tokens=st.integers(0, 10**6))
moments = st.floats(0, 2**33)
timings = st.builds(Timing, start_time=moments, end_time=st.none() | moments)
parts = named(
    st.one_of(
        st.builds(lambda text: {"type": "text", "text": text}, texts),
        st.builds(lambda image: {"type": "image", "image": image}, images),
    )
)
functions = st.builds(ChatMessageToolCallFunction, arguments=values, name=texts, description=st.none() | texts)
message_calls = st.builds(ChatMessageToolCall, function=functions, id=texts, type=st.just("function"))
messages = named(
    st.builds(
        ChatMessage,
        role=st.sampled_from(list(MessageRole)),
        content=st.one_of(st.none(), texts, st.lists(parts, max_size=3)),
        tool_calls=st.none() | st.lists(message_calls, max_size=2),
        token_usage=st.none() | usages,
    )
)
tool_calls = named(st.builds(ToolCall, name=texts, arguments=values, id=texts))
action_steps = st.builds(
    ActionStep,
    step_number=st.integers(0, 100),
    timing=st.none() | timings,
    model_input_messages=st.none() | st.lists(messages, max_size=3),
    tool_calls=st.none() | st.lists(tool_calls, max_size=2),
    error=st.none() | errors,
    model_output_message=st.none() | messages,
    model_output=st.none() | texts | st.lists(parts, max_size=2),
    code_action=st.none() | texts,
    observations=st.none() | texts,
    observations_images=st.none() | st.lists(images, max_size=2),
    action_output=values,
    token_usage=st.none() | usages,
    is_final_answer=st.booleans(),
)
planning_steps = st.builds(
    PlanningStep,
    model_input_messages=st.lists(messages, max_size=3),
    model_output_message=messages,
    plan=st.none() | texts,
    timing=st.none() | timings,
    token_usage=st.none() | usages,
)
task_steps = st.builds(TaskStep, task=texts, task_images=st.none() | st.lists(images, max_size=2))
steps = st.one_of(
    action_steps,
    planning_steps,
    task_steps,
    st.builds(SystemPromptStep, system_prompt=texts),
    st.builds(FinalAnswerStep, output=values),
    st.builds(
        NoteStep, text=texts, kind=texts, role=st.sampled_from(list(MessageRole)), meta=st.dictionaries(texts, values)
    ),
    st.builds(TicketStep, task=texts, ticket=values),
)
