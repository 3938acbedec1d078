"""Killed at any instant while it erases, a process leaves all of a person, or what erasing again ends."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from erasing_worker import erase
from lives import Life
from nursery import Child, nursery_that_knows_the_way  # noqa: F401 — a fixture for all tests here

from smolagents_memory import People
from smolagents_memory.database.engine import Database


ANN, BOB = "Ann Zwiebelthaler", "Bob Quastenflosser"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place in which both live."""
    place = tmp_path_factory.mktemp("model") / "place"
    for user in (ANN, BOB):
        Life(place, user, random.Random(user)).live()
    Database.at(place).close()
    return place


def life(place: Path, user: str) -> Life:
    """What was written there."""
    return Life(place, user, random.Random(user))


def killed(place: Path, after: float | None) -> float:
    """Erase Ann in a process of its own, killed after so many seconds; how long it took if it was not."""
    child = Child(erase, str(place), ANN)
    try:
        assert child.answer() == "ready"
        child.ask("go")
        if after is None:
            took, left = child.answer()
            assert left == ()
            return float(took)
        time.sleep(after)
        return after
    finally:
        child.kill()


def kill(folder: Path, model: Path, times: int, chance: random.Random) -> dict[str, int]:
    """So many kills, each at a place of its own; how many came before, within and after the transaction."""
    came = {"before": 0, "within": 0, "after": 0}
    shutil.copytree(model, folder / "whole")
    takes = killed(folder / "whole", None)
    for number in range(times):
        place = folder / str(number)
        shutil.copytree(model, place)
        killed(place, chance.random() * takes)
        ann = life(place, ANN)
        there = bool(People(place).list()[0].user == ANN)
        if there:
            assert ann.is_whole()  # all of it, or nothing
        report = People(place).erase(ANN)
        came["before" if there else "within" if report.searched else "after"] += 1
        assert report.left == ()
        assert [person.user for person in People(place).list()] == [BOB]
        assert ann.met_in(place) == {}
        assert life(place, BOB).is_whole()
        assert not People(place).erase(ANN).searched
        shutil.rmtree(place)
    return came


@pytest.mark.slow
def test_a_killed_erasure_is_ended_by_the_next(tmp_path: Path, model: Path) -> None:
    assert sum(kill(tmp_path, model, 5, random.Random(3)).values()) == 5


@pytest.mark.endurance
def test_so_it_is_after_300_kills(tmp_path: Path, model: Path, rounds: Callable[[int], int], seed: int) -> None:
    came = kill(tmp_path, model, rounds(300), random.Random(seed))
    print(came)
    assert came["within"]
    assert came["before"]
