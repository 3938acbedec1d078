"""What it costs to look at a long session."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from smolagents_memory.history.messages import Messages


@pytest.mark.measures
@pytest.mark.slow
def test_analyze_of_5000_steps_takes_at_most_one_and_a_half_times_reading_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figure of the benchmark, on the processor's clock: other processes at work do not count."""
    folder = Path(__file__).parents[2] / "benchmarks"
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "histories", raising=False)  # the tests have one of that name too
    from analyze_cost import OBSERVATION, filled, ratio

    monkeypatch.delitem(sys.modules, "histories")
    session = filled(f"sqlite:///{tmp_path / 'memory.db'}", 5_000, OBSERVATION)
    reading, looking, times = ratio(session, rounds=9)
    assert times <= 1.5, f"reading took {reading:.2f} s, analyze {looking:.2f} s"


@pytest.mark.parametrize("edits", [False, True])
def test_the_sums_of_input_messages_are_those_of_the_lists(edits: bool) -> None:
    """Lists that go on, lists with a cut in the middle, with a beginning of their own, and empty ones."""
    messages = Messages()
    messages.originals = list(range(10, 30))  # type: ignore[arg-type]  # anything can be measured
    ranges = [[[0, 3, 0]], [[0, 3], [3, 2, 0]], [[0, 5], [5, 1, 0]]]
    if edits:
        ranges += [
            [[0, 2], [9, 1, 0], [3, 3]],
            [[1, 4], [10, 3, 0], [0, 1]],
            [],
            [[4, 4, 0]],
            [[0, 4], [1, 2]],
            [[0, 2]],
        ]
    lists = [messages.add_list(each) for each in ranges]
    looked: list[int] = []

    def measure(message: int) -> int:
        looked.append(message)
        return message

    totals = messages.totals(measure)  # type: ignore[arg-type]
    assert totals == [sum(messages.originals[n] for n in messages.numbers(at)) for at in range(len(lists))]
    assert looked == messages.originals
