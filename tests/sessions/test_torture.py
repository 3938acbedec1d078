"""A process killed at any instant loses no step that was acknowledged, and another one goes on where it was."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nursery import nursery, nursery_that_knows_the_way  # noqa: F401 — a fixture for all tests here
from torture_worker import MARK, TASKS, live, untimed

from smolagents_memory.testing import explain_difference


PATIENCE = 60.0


class Life:
    """One process, what it told until it was killed or came to its end, and whether it was killed."""

    def __init__(self, url: str, kind: str, done: Path, number: int, kill_after: float | None) -> None:
        ours, theirs = nursery.Pipe(duplex=False)
        process = nursery.Process(target=live, args=(theirs, url, kind, done, number))
        process.start()
        theirs.close()
        self.told: list[tuple[str, Any]] = []
        self.began = time.monotonic()
        try:
            self.killed = self._listen(ours, kill_after)
        finally:
            process.kill()
            process.join(PATIENCE)
        self.lasted = time.monotonic() - self.began
        self._take_rest(ours)
        ours.close()

    def _listen(self, conn: Any, kill_after: float | None) -> bool:
        end = self.began + (PATIENCE if kill_after is None else kill_after)
        while conn.poll(max(0.0, end - time.monotonic())):
            self.told.append(conn.recv())
            if self.told[-1][0] in ("end", "failed"):
                return False
        assert kill_after is not None, "a life that nobody ended did not end"
        return True

    def _take_rest(self, conn: Any) -> None:
        """What was told before the kill but not heard yet; the last of it may be torn."""
        try:
            while conn.poll(0):
                self.told.append(conn.recv())
        except (EOFError, OSError):
            pass

    @property
    def ending(self) -> Any:
        what, said = self.told[-1]
        assert what == "end", said
        return said

    @property
    def restored(self) -> str | None:
        return next((said for what, said in self.told if what == "restored"), None)

    def may_have_left(self, before: list[str]) -> list[str]:
        """What the next life may find: what was kept last, and what was being kept at the kill if it was."""
        left = before
        for what, said in self.told:
            if what == "restored" or what == "kept":
                left = [said]
            elif what == "about to keep":
                left = [*left, said]
        return left


def marks(record: str) -> set[int]:
    return {int(mark) for mark in MARK.findall(record)}


def torture(folder: Path, kind: str, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    reference = Life(f"sqlite:///{folder}/reference.db", kind, folder / "reference", 0, None)
    expected, answers = reference.ending
    assert len(answers) == TASKS
    done_kills = number = 0
    while done_kills < kills:
        number += 1
        url, done = f"sqlite:///{folder}/{number}.db", folder / f"{number}.done"
        lives, may_be, known = 0, [], {}
        for _ in range(chance.randint(1, 4)):
            life = Life(url, kind, done, lives, chance.random() * reference.lasted)
            known[lives], may_be = check(life, may_be)
            lives += 1
            done_kills += life.killed
            if not life.killed:
                break
        last = Life(url, kind, done, lives, None)
        known[lives], _ = check(last, may_be)
        record, found = last.ending
        assert found == answers
        assert explain_difference(untimed(record), untimed(expected)) is None
        check_executions(done, known)


def check(life: Life, may_be: list[str]) -> tuple[set[int], list[str]]:
    """What a life found when it began is what the one before it left; returns that, and what it may leave itself."""
    if life.told and life.told[-1][0] == "failed":
        pytest.fail(life.told[-1][1])
    found = life.restored
    if found is None:
        return set(), may_be
    if may_be:
        assert found in may_be
    return marks(found), life.may_have_left(may_be)


def check_executions(done: Path, known: dict[int, set[int]]) -> None:
    """No life made a step that was in the memory it was given."""
    executed = [tuple(map(int, line.split())) for line in done.read_text().splitlines()]
    assert {mark for _, mark, _ in executed} == {mark for _, mark, _ in executed if mark // 100 <= TASKS}
    for life, mark, _ in executed:
        assert mark not in known[life], f"life {life} made step {mark} again"
    assert len({(life, mark, part) for life, mark, part in executed}) == len(executed)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["code", "calls"])
def test_a_killed_run_keeps_every_step_and_goes_on_to_the_same_answer(tmp_path: Path, kind: str) -> None:
    torture(tmp_path, kind, kills=6, seed=4)


@pytest.mark.endurance
@pytest.mark.parametrize("kind", ["code", "calls"])
def test_so_it_is_after_150_kills_at_random_instants(
    tmp_path: Path, kind: str, rounds: Callable[[int], int], seed: int
) -> None:
    torture(tmp_path, kind, kills=rounds(150), seed=seed)
