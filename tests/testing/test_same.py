"""same(): strict where == lies, calm where == raises."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from agents import photo
from smolagents.models import ChatMessage, MessageRole
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.utils import AgentExecutionError, AgentParsingError
from strategies import Bag, Colour, Point, Text

from smolagents_memory.testing import explain_difference, same


quiet = AgentLogger(level=LogLevel.OFF)
printed = pd.Timedelta("1 day 3 ns")
repr(printed)
ring: list[object] = [1]
ring.append(ring)
other_ring: list[object] = [1]
other_ring.append(other_ring)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (float("nan"), float("nan")),
        (np.array([1, 2]), np.array([1, 2])),
        (photo(), photo()),
        (ring, other_ring),
        (AgentExecutionError("a", quiet), AgentExecutionError("a", quiet)),
        (pd.DataFrame({"a": [1, None]}), pd.DataFrame({"a": [1, None]})),
        (ChatMessage(role=MessageRole.USER, raw=object()), ChatMessage(role=MessageRole.USER, raw=object())),
        (Text("a"), Text("a")),
        (printed, pd.Timedelta("1 day 3 ns")),
    ],
)
def test_what_is_the_same(left: object, right: object) -> None:
    assert explain_difference(left, right) is None


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        ([1], (1,)),
        ("a", Text("a")),
        ({"a": 1}, Bag(a=1)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (np.array([1]), np.array([1.0])),
        (np.array([1]), np.array([[1]])),
        (photo(), photo("blue")),
        (photo(), photo().convert("RGBA")),
        (AgentExecutionError("a", quiet), AgentParsingError("a", quiet)),
        (AgentExecutionError("a", quiet), AgentExecutionError("b", quiet)),
        (Point(1), Point(2)),
        (Colour.RED, Colour.BLUE),
        ([1, 2], [1]),
        ({1}, {2}),
        (b"a", bytearray(b"a")),
        (pd.Timedelta("1 day"), pd.Timedelta("2 days")),
        (pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-01", tz="UTC")),
        (pd.Series([1]), pd.Series([1], name="n")),
        (pd.Series([1]), pd.Series([1], index=[5])),
    ],
)
def test_what_is_not_the_same(left: object, right: object) -> None:
    assert not same(left, right)
    assert not same(right, left)
    assert not same([{"deep": left}], [{"deep": right}])
