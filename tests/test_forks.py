"""What must not be cut in two by a fork, seen at the smallest: whoever is within, and whoever waits for them."""

from __future__ import annotations

import sys
import threading
from typing import Any

from smolagents_memory import _forks


def _comes_and_goes(collected_at: int) -> int:
    """Come and go through the door, with garbage collected at one instant of it; how many instants there are."""
    instants = 0

    def collected(frame: Any, event: str, argument: object) -> Any:
        nonlocal instants
        frame.f_trace_opcodes = True  # garbage may be collected between any two of them
        instants += 1
        if instants == collected_at:
            with _forks.uncut():  # as a database is closed that was among it
                pass
        return collected

    before = sys.gettrace()
    sys.settrace(collected)
    try:
        with _forks.uncut(), _forks.uncut():
            pass
    finally:
        sys.settrace(before)
    return instants


def test_garbage_that_closes_a_database_amid_the_door_leaves_it_as_it_was() -> None:
    """A database that is dropped is closed within `uncut`, which may be while this very thread comes or goes there."""
    instants = _comes_and_goes(collected_at=0)
    assert instants > 100
    for instant in range(1, instants + 1):
        _comes_and_goes(instant)
        assert not _forks._within


def test_whoever_forks_waits_for_those_within_and_for_no_longer() -> None:
    inside, leave, forked = threading.Event(), threading.Event(), threading.Event()

    def within() -> None:
        with _forks.uncut(), _forks.uncut():
            inside.set()
            leave.wait(20)

    def forks() -> None:
        _forks._wait_for_others()
        forked.set()
        _forks._go_on()

    others = [threading.Thread(target=within), threading.Thread(target=forks)]
    others[0].start()
    assert inside.wait(20)
    others[1].start()
    assert not forked.wait(0.3)
    leave.set()
    assert forked.wait(5), "it waited on, though nobody is within"
    for thread in others:
        thread.join(20)
