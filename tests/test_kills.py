"""Killed at any instant of whatever it does at a place, a process loses nothing acknowledged; nothing stays half."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from databases import emptied
from kills_oracle import DOES, Oracle, References
from kills_worker import live
from nursery import Child, nursery_that_knows_the_way  # noqa: F401 — a fixture for all tests here


OLD_PLACES = [*sorted((Path(__file__).parent / "database" / "data").glob("schema_*.db"))]
GOLDEN = Path(__file__).parent / "goldens" / "data" / "both.tar.xz"
PATIENCE = 60.0  # seconds for anything
LIVES = 25  # at one place


class Life(Child):
    """A process at a place, and what it answered."""

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__(live, url, folder)

    def does(self, what: str, *arguments: Any, killed_after: float | None = None) -> tuple[bool, Any, int]:
        """Whether it was done, what came of it, and of how many steps was said that they are kept."""
        patience = PATIENCE if killed_after is None else killed_after
        end, kept = time.monotonic() + patience, 0
        self.ask((what, arguments))
        try:
            while self._ours.poll(max(0.0, end - time.monotonic())):
                how, said = self._ours.recv()
                assert how != "failed", f"{what}{arguments!r:.200}\n{said}"
                if how == "ok":
                    return True, said, kept
                kept = said
            assert killed_after is not None, f"{what} hangs"
            self.ends()
            while self._ours.poll(0):
                how, said = self._ours.recv()
                assert how != "failed", said
                if how == "ok":
                    return True, said, kept
                kept = said
        except (EOFError, OSError):  # all that was told, or torn
            self.ends()
            assert killed_after is not None, f"it died of {what}"
        return False, None, kept

    def __enter__(self) -> Life:
        return self

    def __exit__(self, *error: object) -> None:
        self.ends()

    def ends(self) -> None:
        """Kill it; that must be the only signal that ever does."""
        self.process.kill()
        self.process.join(PATIENCE)
        assert self.process.exitcode == -9, self.process.exitcode


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> References:
    """What comes of everything if nobody is killed."""
    folder = tmp_path_factory.mktemp("references")
    (folder / "tmp").mkdir()
    shutil.unpack_archive(GOLDEN, folder, "xztar", filter="data")
    old = [*OLD_PLACES, folder / "place" / "memory.db"]
    made = References(old)
    with Life(f"sqlite:///{folder}/memory.db", folder) as life:
        for kind in made.kinds:
            for _ in range(made.tasks):
                _, (_, answer), _ = life.does("run", kind, kind)
                made.ran(kind, answer, life.does("look")[1][f"session {kind}"])
        for number in range(len(old)):
            made.migrated.append(life.does("migrate", made.copy_of_old(number, folder / f"old{number}"))[1])
    return made


class Place:
    """Many lives at one place, one after the other, each of them killed."""

    def __init__(
        self, folder: Path, url: str | None, references: References, chance: random.Random, killed: dict[str, int]
    ) -> None:
        self.folder, self.chance, self.killed = folder, chance, killed
        for name in ("tmp", "backups", "place"):
            (folder / name).mkdir(parents=True)
        self.url = url or f"sqlite:///{folder}/place/memory.db"
        self.oracle = Oracle(folder, references, chance)
        self.lasts: dict[str, float] = {}

    def lives_on(self) -> None:
        """One life: see that all is there, do this and that, be killed while doing the next."""
        with self.opened() as life:
            for _ in range(self.chance.choice([0, 0, 1, 2])):
                self.does(life, *self.oracle.next(self.killed))
            what, arguments = self.oracle.next(self.killed)
            while what not in self.lasts:
                self.does(life, what, arguments)
                what, arguments = self.oracle.next(self.killed)
            killed_after = self.chance.random() * self.lasts[what]
            self.killed[what] = self.killed.get(what, 0) + (not self.does(life, what, arguments, killed_after))

    @contextmanager
    def opened(self) -> Iterator[Life]:
        """A new life that finds what the last one was told to keep."""
        with Life(self.url, self.folder) as life:
            self.oracle.check(life.does("look")[1])
            if path := self.oracle.half_made():
                copied = self.folder / "looked-at" / "backup.db"
                copied.parent.mkdir()
                shutil.copy(path, copied)
                self.oracle.check_backup(path, life.does("migrate", copied)[1])
                shutil.rmtree(copied.parent)
            if self.chance.random() < 0.3 and (texts := self.oracle.some_texts()):
                assert all(life.does("found", texts)[1]), texts
            yield life

    def does(self, life: Life, what: str, arguments: Any, killed_after: float | None = None) -> bool:
        began = time.monotonic()
        self.oracle.begins(what, arguments)
        done, answer, kept = life.does(what, *arguments, killed_after=killed_after)
        if done:
            self.oracle.did(answer)
            before = self.lasts.get(what, time.monotonic() - began)
            self.lasts[what] = 0.7 * before + 0.3 * (time.monotonic() - began)
        else:
            self.oracle.was_killed(kept)
        return done

    def ends_well(self) -> None:
        """All is there and goes on, nothing has to be mended twice, and nothing lies about."""
        with self.opened() as life:
            first, second, lacking = life.does("mended")[1]
            assert second == {"embedded": 0, "rebuilt": 0}, (first, second)
            assert lacking == 0
            left = self.oracle.left_to_run()
            for arguments in self.chance.sample(left, min(2, len(left))):
                self.does(life, "run", arguments)
            texts = self.oracle.some_texts(20)
            assert all(life.does("found", texts)[1]), texts
            life.does("tidy")
            self.oracle.check(life.does("look")[1])
        with self.opened() as life:
            life.does("tidy")
        self.oracle.check_files()


def kill(folder: Path, references: References, kills: int, seed: int, postgres: Callable[[], str]) -> dict[str, int]:
    """So many kills, at one place after the other; how many were in the midst of what."""
    killed: dict[str, int] = {}
    for number, first in enumerate(range(0, kills, LIVES)):
        url = emptied(postgres()) if number % 4 == 3 else None
        place = Place(folder / str(number), url, references, random.Random(f"{seed} {number}"), killed)
        for _ in range(min(LIVES, kills - first)):
            place.lives_on()
        place.ends_well()
        shutil.rmtree(place.folder)
    return killed


@pytest.mark.slow
def test_killed_while_it_does_anything_a_place_is_as_before_or_after(tmp_path: Path, references: References) -> None:
    assert sum(kill(tmp_path, references, 12, 4, lambda: "").values()) > 3


@pytest.mark.endurance
def test_so_it_is_after_1000_kills(
    tmp_path: Path,
    references: References,
    rounds: Callable[[int], int],
    seed: int,
    request: pytest.FixtureRequest,
) -> None:
    kills = rounds(1000)
    killed = kill(tmp_path, references, kills, seed, lambda: request.getfixturevalue("postgres"))
    print(f"{kills} kills, in the midst of: {killed}")
    assert sum(killed.values()) > kills / 2
    assert {what for what, often in killed.items() if often} == set(DOES) or kills < 1000
