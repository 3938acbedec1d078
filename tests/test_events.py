"""The one mechanism for everything that can be listened to."""

from __future__ import annotations

import gc
import logging
from typing import Any

import pytest

from smolagents_memory import Event, Events


def test_listeners_hear_in_order_until_they_leave() -> None:
    events, heard = Events(), []
    off = events.on("saved", lambda event: heard.append(("first", event.path)))
    events.on("*", lambda event: heard.append(("any", event.name)))
    events.emit("saved", None, path="a")
    off()
    off()
    events.emit("saved", None, path="b")
    events.emit("loaded", None)
    assert heard == [("first", "a"), ("any", "saved"), ("any", "saved"), ("any", "loaded")]


def test_a_listener_that_fails_is_logged_and_the_others_still_hear(caplog: pytest.LogCaptureFixture) -> None:
    events, heard = Events(), []
    events.on("saved", lambda event: [][1])
    events.on("saved", heard.append)
    with caplog.at_level(logging.ERROR):
        events.emit("saved", None)
    assert len(heard) == 1
    assert "IndexError" in caplog.text


def test_a_weak_listener_goes_with_its_object() -> None:
    class Ear:
        def __init__(self) -> None:
            self.heard: list[Any] = []

        def hear(self, event: Event) -> None:
            self.heard.append(event)

    events, ear = Events(), Ear()
    events.on("saved", ear.hear, weak=True)
    events.emit("saved", None)
    assert len(ear.heard) == 1
    del ear
    gc.collect()
    events.emit("saved", None)
    assert not events.has_listeners("saved")


def test_an_event_says_what_it_carries_when_asked_for_something_else() -> None:
    event = Event("saved", None, {"path": "a"})
    with pytest.raises(AttributeError, match=r"'saved' carries no 'where'; it has \['path'\]"):
        event.where  # noqa: B018


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(TypeError, match="must be callable"):
        Events().on("saved", 3)  # type: ignore[arg-type]
