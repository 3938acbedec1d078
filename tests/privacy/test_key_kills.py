"""Killed at any instant while it changes keys, a process leaves all that was there; done again, it is done."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from key_kills_worker import (
    GONE_SCOPE,
    GONE_SESSION,
    NEW,
    OLD,
    OPERATIONS,
    SHREDDED,
    Picture,
    act,
    fill,
    opened,
    picture,
    without,
    work,
)
from nursery import Child, nursery_that_knows_the_way  # noqa: F401 — a fixture for all tests here

from smolagents_memory import (
    EnhancedAgentMemory,
    KeyManager,
    Place,
    SealError,
    Session,
    SessionConflictError,
    SessionManager,
)
from smolagents_memory.database.engine import Database
from smolagents_memory.database.opened import Opened
from smolagents_memory.privacy.keyring import keyring_of
from smolagents_memory.privacy.sealing import name_of_master


class Models:
    """A place to be sealed, the same sealed, and resealed; with backups of it, and with what it holds."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder = folder
        fill(folder / "plain" / "place" / "memory.db", size)
        self.whole = picture(folder / "plain" / "place" / "memory.db")
        assert len(self.whole) > 3 * size
        for before, after in (("plain", "sealed"), ("sealed", "resealed")):
            shutil.copytree(folder / before, folder / after)
            place = opened(folder / after)
            getattr(KeyManager(place), after.removesuffix("ed"))()
            if after == "sealed":
                SessionManager(place).backup(folder / after / "copy.db")
                shutil.copytree(folder / after / "keys", folder / after / "keys of then")
            Database.at(place).close()
        self.lasts: dict[str, tuple[float, int]] = {}

    def copied(self, what: str, folder: Path) -> Path:
        """One of one's own, to do something to."""
        shutil.copytree(self.folder / OPERATIONS[what].begins, folder)
        return folder

    def measured(self, what: str) -> tuple[float, int]:
        """How long it takes, and how often something is about to be durable in it, or has become so."""
        if what not in self.lasts:
            folder = self.copied(what, self.folder / "measured")
            self.lasts[what] = done(what, folder)
            shutil.rmtree(folder)
        return self.lasts[what]


def done(what: str, folder: Path, *, after: float | None = None, at: int | None = None) -> Any:
    """Do it in a process, which is killed after so many seconds or at that time; what it said."""
    child = Child(act, what, folder, at)
    try:
        assert child.answer() == "ready"
        child.ask("go")
        if after is not None:
            time.sleep(after)
            return None
        if at is None:
            return child.answer()
        child.process.join(60)
        assert child.process.exitcode == -9
        return None
    finally:
        child.kill()


def read(folder: Path, masters: tuple[bytes | None, ...]) -> Picture:
    """What is there, opened by one of these (amid a rotation by both) and by no other; `None` is no seal."""
    found = []
    for master in (None, OLD, NEW):
        try:
            found.append((master, picture(opened(folder, master))))
        except SealError:
            continue
    by = [master for master, _ in found]
    assert by
    assert set(by) <= set(masters)
    assert len(by) == 1 or by == [OLD, NEW]
    assert all(one == found[0][1] for _, one in found)
    return found[0][1]


def of_places(keyring: Any, place: Place) -> dict[str, Any]:
    """All entries of a keyring, unwrapped by the master of a place."""
    return {name: place.seal.read(name) for name in keyring_of(keyring).names()}


def check_done(what: str, folder: Path, whole: Picture) -> None:
    """What must hold where it was done, maybe for the second time."""
    masters = {"unseal": (None,), "rotate": (NEW,)}.get(what, (OLD,))
    assert read(folder, masters) == without(whole, *SHREDDED.get(what, ("nothing",)))
    place = opened(folder, masters[0])
    if what != "unseal":
        for path in folder.rglob("*"):
            assert not path.is_file() or b"needle" not in path.read_bytes(), path
    if what in ("seal", "reseal", "rotate", *SHREDDED):
        of_places(folder / "keys", place)  # this master alone opens them all
    if what == "rotate":
        name = name_of_master(place.seal.master)
        entries = [json.loads(keyring_of(folder / "keys").get(each)) for each in keyring_of(folder / "keys").names()]
        assert all(list(entry["wraps"]) == [name] for entry in entries)
        assert picture(opened(folder, NEW, "copy.db")) == whole
        assert picture(opened(folder, OLD, "copy.db", "keys of then")) == whole
    elif what == "drop":
        assert all(len(keys) == 1 for keys in of_places(folder / "keys", place).values())
        check_unreadable(opened(folder, file="copy.db"), GONE_SESSION, GONE_SCOPE)
    elif what in SHREDDED:
        copy = opened(folder, file="copy.db")
        session = None if what == "shred a scope" else GONE_SESSION
        check_unreadable(copy, session, None if what == "shred a session" else GONE_SCOPE)
        assert Session("needle-1", copy).steps()
        assert Session(GONE_SESSION, place).exists() is (session is None)
        again = OPERATIONS[what].does(folder)
        assert not (again.searched if what == "erase a person" else again)
    if place.seal is not None:
        KeyManager(place).drop()
        assert read(folder, masters) == without(whole, *SHREDDED.get(what, ("nothing",)))


def check_unreadable(copy: Place, session: str | None, scope: Any) -> None:
    """An old backup gives none of it, and nothing of the calls of managed agents either."""
    if session is not None:
        for name in (session, f"{session}/helper/1"):
            with pytest.raises(SealError, match="has no key"):
                Session(name, copy).steps()
    if scope is not None:
        with pytest.raises(SealError, match="has no key"):
            EnhancedAgentMemory(copy, scope=scope, vector=False).recall("needle")


def kill(folder: Path, models: Models, kills: int, chance: random.Random) -> dict[str, int]:
    """So many kills, of one operation after the other; how many left what was there, and how many left it done."""
    came: dict[str, int] = {}
    for number in range(kills):
        what = list(OPERATIONS)[number % len(OPERATIONS)]
        takes, times = models.measured(what)
        if chance.random() < 0.5:
            killed(folder, models, what, at=chance.randint(1, times))
        else:
            killed(folder, models, what, after=chance.random() * takes)
        came[what] = came.get(what, 0) + 1
    return came


def killed(folder: Path, models: Models, what: str, **when: Any) -> None:
    """Killed once: all is there, or gone as was asked; done again, it is done."""
    place = models.copied(what, folder / "killed")
    done(what, place, **when)
    found = read(place, OPERATIONS[what].opens)
    assert found in (models.whole, without(models.whole, *SHREDDED.get(what, ("nothing",))))
    OPERATIONS[what].does(place)
    check_done(what, place, models.whole)
    Opened.forget_all()
    shutil.rmtree(place)


def test_killed_while_keys_change_a_place_is_as_before_or_after_and_the_rest_is_done(tmp_path: Path) -> None:
    models = Models(tmp_path / "models", 4)
    for what, at in (("seal", 70), ("rotate", 17), ("shred a session", 31)):
        killed(tmp_path, models, what, at=at)


@pytest.mark.endurance
@pytest.mark.parametrize("what", ["rotate", *SHREDDED])
def test_so_it_is_at_each_instant_at_which_something_is_durable(
    tmp_path: Path, rounds: Callable[[int], int], what: str, chance: random.Random
) -> None:
    models = Models(tmp_path / "models", 4)
    _, times = models.measured(what)
    for at in sorted(chance.sample(range(1, times + 1), rounds(times))):
        killed(tmp_path, models, what, at=at)


@pytest.mark.endurance
def test_so_it_is_after_200_kills(tmp_path: Path, rounds: Callable[[int], int], seed: int) -> None:
    models = Models(tmp_path / "models", 150)
    came = kill(tmp_path, models, rounds(200), random.Random(seed))
    takes = {what: round(seconds, 2) for what, (seconds, _) in models.lasts.items()}
    print(f"kills: {came}; seconds that each takes: {takes}")


# -- somebody who goes on working ----------------------------------------------------------------------------------


_BEGIN = {"shred a session": f"task {GONE_SESSION} ", "shred a scope": f"memory {GONE_SCOPE} "}  # what is told


def at_once(folder: Path, seconds: float, chance: random.Random) -> dict[str, int]:
    """Two processes remember and journal while this one changes keys: how often what was done, or refused."""
    workers = [Child(work, folder, who) for who in ("one", "two")]
    did: dict[str, int] = {}
    gone: list[tuple[str, float, float]] = []
    masters = [OLD, NEW]
    try:
        for worker in workers:
            assert worker.answer() == "ready"
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            what = chance.choice([*_BEGIN, "drop", "reseal", "rotate"])
            manager, began = KeyManager(opened(folder, masters[0])), time.monotonic()
            try:
                if what == "rotate":
                    manager.rotate(opened(folder, masters[1]).seal)
                    masters.reverse()
                elif what in _BEGIN:
                    manager.shred(**({"session": GONE_SESSION} if "session" in what else {"scope": GONE_SCOPE}))
                    gone.append((what, began, time.monotonic()))
                else:
                    getattr(manager, what)()
            except SessionConflictError:
                what = f"{what} refused"
            did[what] = did.get(what, 0) + 1
        for worker in workers:
            worker.ask("stop")
        told = [each for worker in workers for each in worker.answer()]
    finally:
        for worker in workers:
            worker.kill()
    check_nothing_is_lost(opened(folder, masters[0]), told, gone)
    return {**did, "acknowledged": len(told)}


def check_nothing_is_lost(
    place: Place, told: list[tuple[str, float, float]], gone: list[tuple[str, float, float]]
) -> None:
    """What was acknowledged is there, unless it was shredded after that; and what was shredded before is not."""
    there = picture(place)
    for name in SessionManager(place).list_sessions():
        tasks = [str(getattr(step, "task", "")) for step in Session(name, place).steps()]
        there |= dict.fromkeys(f"task {name} {task.removeprefix('Task ').strip()}" for task in tasks)
    for name, began, ended in told:
        shreds = [(one, other) for what, one, other in gone if name.startswith(_BEGIN[what])]
        if all(other < began for _, other in shreds):
            assert name in there
        if any(ended < one for one, _ in shreds):
            assert name not in there
    Database.at(place).close()


@pytest.mark.slow
def test_nothing_is_lost_of_who_goes_on_working_meanwhile(tmp_path: Path) -> None:
    place = opened(tmp_path)
    fill(place, 4)
    did = at_once(tmp_path, 4.0, random.Random(4))
    assert did["acknowledged"] > 1


@pytest.mark.endurance
def test_so_it_is_for_minutes(url: str, tmp_path: Path, rounds: Callable[[int], int], chance: random.Random) -> None:
    if not url.startswith("sqlite"):  # whose keys would lie beside it
        (tmp_path / "url").write_text(url)
    fill(opened(tmp_path), 40)
    did = at_once(tmp_path, rounds(200), chance)
    print(did)
    assert all(did.get(what) for what in [*_BEGIN, "rotate", "drop"])
    assert did.get("reseal", 0) + did.get("reseal refused", 0)
