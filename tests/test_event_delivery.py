"""Telling what happened under a lock once the lock is free: in order, by one thread at a time, without echoes."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from smolagents.memory import TaskStep

from smolagents_memory import Event, Events, ObservedMemory


def test_posted_events_wait_for_deliver_and_keep_their_order() -> None:
    events, heard = Events(), []
    events.on("*", lambda event: heard.append((event.name, event.number)))
    events.post("a", None, number=1)
    events.post("b", None, number=2)
    assert heard == []
    events.deliver()
    assert heard == [("a", 1), ("b", 2)]


def test_what_a_listener_posts_is_told_after_what_was_posted_before() -> None:
    """To all listeners in the same order, also to those that subscribed later than the one that posted."""
    events = Events()
    heard: list[int] = []

    def answer(event: Event) -> None:
        if event.number == 1:
            events.post("a", None, number=3)
            events.deliver()

    events.on("a", answer)
    events.on("a", lambda event: heard.append(event.number))
    events.post("a", None, number=1)
    events.post("a", None, number=2)
    events.deliver()
    assert heard == [1, 2, 3]


@pytest.mark.parametrize(("echo", "count"), [(True, 5), (False, 1)])
def test_without_echo_a_listener_does_not_hear_what_it_brought_about(echo: bool, count: int) -> None:
    events = Events(echo=echo)
    heard: list[str] = []

    def answer(event: Event) -> None:
        heard.append("answer")
        if len(heard) < 5:
            events.emit("a", None)

    events.on("a", answer)
    events.emit("a", None)
    assert len(heard) == count


def test_a_thread_that_comes_while_another_tells_does_not_wait() -> None:
    events, begun, release = Events(), threading.Event(), threading.Event()
    heard: list[int] = []

    def slow(event: Event) -> None:
        begun.set()
        release.wait(10)
        heard.append(event.number)

    events.on("a", slow)
    events.post("a", None, number=1)
    teller = threading.Thread(target=events.deliver, daemon=True)
    teller.start()
    begun.wait(10)
    events.post("a", None, number=2)
    events.deliver()
    assert heard == []
    release.set()
    teller.join(10)
    assert heard == [1, 2]


def test_no_posted_event_is_left_untold_under_load() -> None:
    """Whoever posts last either tells it or has somebody who does."""
    events, heard = Events(), []
    events.on("a", lambda event: heard.append(event.number))

    def work(start: int) -> None:
        for number in range(start, start + 500):
            events.post("a", None, number=number)
            events.deliver()

    threads = [threading.Thread(target=work, args=(500 * worker,), daemon=True) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(heard) == list(range(4000))


def test_a_memory_tells_in_order_also_when_a_listener_changes_it() -> None:
    memory, heard = ObservedMemory("p"), []

    def answer(event: Any) -> None:
        if len(memory.steps) < 3:
            memory.steps.append(TaskStep(str(len(memory.steps))))

    memory.on("steps_changed", answer)
    memory.on("steps_changed", lambda event: heard.append(event.added[0].task))
    memory.steps.append(TaskStep("0"))
    assert heard == ["0", "1", "2"]
