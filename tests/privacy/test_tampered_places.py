"""Whatever is done to a sealed place without its keys: what is read is what was there, or an error of ours.

What nobody who reads a part notices, by design: that a whole session or scope is gone or is an older one, which
vectors a memory has, the full text, and what is noted of recalls. Which vectors there are is noticed by `doctor`.
"""

from __future__ import annotations

import random
import sqlite3
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from databases import emptied
from keyrings import RamKeyring
from sealed_story import MASTER, lived, readings
from tamperings import Tamperer, Tampering, in_ram

from smolagents_memory import Place, Seal, SessionManager, SmolagentsMemoryError
from smolagents_memory.cli.doctor import examine
from smolagents_memory.testing import explain_difference


WHOLE_PLACE = ("sessions", "scopes", "store")  # readings that are always done
MORE = 3  # readings of what was not hit


class Tampered:
    """A sealed place that is changed, read, and put back as it was, again and again."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.path = folder / "memory.db"
        self.story = lived(self.path, mode)
        self.tamperer, self.keys = Tamperer(self.story), dict(self.story.keys)
        self._whole = in_ram(self.story.file)
        self.then = self.read()
        assert not [each for each in self.then.values() if isinstance(each, Exception)]

    @property
    def seal(self) -> Seal:
        """With the entries of the keyring as they are now, for somebody who has read nothing before."""
        keyring = RamKeyring()
        keyring.kept = dict(self.keys)
        return Seal(MASTER, keyring, mode=self.story.mode)  # type: ignore[arg-type]

    @property
    def place(self) -> Place:
        """The place, opened anew."""
        return Place(self.path, seal=self.seal)

    def put_back(self) -> None:
        """Make it what it was."""
        self.keys = dict(self.story.keys)
        with closing(sqlite3.connect(self.path)) as base:
            self._whole.backup(base)

    def read(self, wanted: Collection[str] | None = None) -> dict[str, Any]:
        """What readings give, or what they raise."""
        found: dict[str, Any] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, reading in readings(self.place).items():
                if wanted is None or name in wanted:
                    try:
                        found[name] = reading()
                    except Exception as error:  # noqa: BLE001 — those that are not ours are told of
                        found[name] = error
        return found

    def tampered(self, chance: random.Random) -> tuple[str, list[str]]:
        """Do one thing and read: how it went, and what must not be."""
        done = self.tamperer.tamper(self.path, self.keys, chance)
        hit = {*self.tamperer.concerned(done), *WHOLE_PLACE}
        names = {name for name in self.then if name.split(":")[0] in hit}
        now = self.read(names | set(chance.sample(sorted(self.then), MORE)))
        wrong = list(self._wrong(done, now))
        if not wrong and unnoticed(done) == "doctor" and self._differs(now) and self._is_well():
            wrong = ["doctor finds nothing"]
        raised = any(isinstance(each, SmolagentsMemoryError) for each in now.values())
        self.put_back()
        return "raised" if raised else "right", [f"{done}: {each}" for each in wrong]

    def _wrong(self, done: Tampering, now: dict[str, Any]) -> Iterator[str]:
        for name, value in now.items():
            if isinstance(value, SmolagentsMemoryError):
                continue
            if isinstance(value, Exception):
                yield f"{name} raised {type(value).__name__}: {value}"
            elif not unnoticed(done) and (difference := different(self.then[name], value)):
                yield f"{name} gave another answer: {difference}"

    def _differs(self, now: dict[str, Any]) -> bool:
        given = {name: each for name, each in now.items() if not isinstance(each, Exception)}
        return any(different(self.then[name], each) for name, each in given.items())

    def _is_well(self) -> bool:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return all(finding.well for finding in examine(self.place))


class TamperedInPostgres(Tampered):
    """The same, put into Postgres as a backup is, before it is read."""

    def __init__(self, folder: Path, mode: str, url: str) -> None:
        self.url = url
        super().__init__(folder, mode)

    @property
    def place(self) -> Place:
        return Place(self.url, seal=self.seal)

    def read(self, wanted: Collection[str] | None = None) -> dict[str, Any]:
        try:
            SessionManager(self.place).restore_backup(self.path)
        except SmolagentsMemoryError as error:
            return {"the backup": error}
        return super().read(wanted)


def different(then: Any, now: Any) -> str | None:
    """Where two answers differ."""
    return explain_difference(then, now) if type(then) is type(now) else f"{type(now).__name__}: {now!r:.80}"


NAMED = ({"labels", "mark"}, {"agent", "mark"})


def unnoticed(done: Tampering) -> str:
    """Whether a tampering may give another answer: "doctor" where he must find it then, "nobody", or "" for no."""
    if done.table in ("sessions", "memory_scopes") and done.kind in ("delete", "empty"):
        return "nobody"  # an owner is gone
    if done.kind == "replay value" and done.table == "sessions" and set(done.columns) in NAMED:
        return "nobody"  # what a session is called is an older one, with the mark that was made then
    if done.table == "memory_vectors":
        return "doctor" if done.kind != "replay value" or done.columns != ("vector",) else "nobody"
    statistics = {"recalls", "hits", "helped", "decayed", "ahead", "writer", "lease"}
    if done.table in ("memory_recalls", "memory_gone") or (done.columns and set(done.columns) <= statistics):
        return "nobody"
    return ""


def tampered_many(place: Tampered, count: int, seed: int) -> Counter[str]:
    """So many tamperings; how they went."""
    went, wrong, mode = Counter[str](), [], place.story.mode
    for number in range(count):
        how, what = place.tampered(random.Random(f"{seed} {mode} {number}"))
        went[how] += 1
        wrong += [f"{number}: {each}" for each in what]
    assert not wrong, f"{len(wrong)} of {count}:\n" + "\n".join(each[:600] for each in wrong[:30])
    assert went["raised"] > count / 2  # or else nothing was done
    return went


@pytest.mark.parametrize("mode", ["seal", pytest.param("sign", marks=pytest.mark.slow)])
def test_a_few_tamperings_give_errors_or_right_answers(tmp_path: Path, mode: str) -> None:
    tampered_many(Tampered(tmp_path, mode), 10, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["seal", "sign"])
def test_more_tamperings_give_errors_or_right_answers(tmp_path: Path, mode: str) -> None:
    tampered_many(Tampered(tmp_path, mode), 150, seed=2)


@pytest.mark.endurance
@pytest.mark.parametrize("mode", ["seal", "sign"])
def test_so_it_is_after_5000_tamperings_in_each_mode(
    tmp_path: Path, mode: str, rounds: Callable[[int], int], seed: int
) -> None:
    """Bits, cuts, swaps of values and rows, deletions, copies, older values, rows and tables, keys of the keyring."""
    print(tampered_many(Tampered(tmp_path, mode), rounds(5000), seed))


@pytest.mark.endurance
@pytest.mark.parametrize("mode", ["seal", "sign"])
def test_so_it_is_after_200_tamperings_in_postgres(
    postgres: str, tmp_path: Path, mode: str, rounds: Callable[[int], int], seed: int
) -> None:
    """They come there in a backup that was tampered with."""
    print(tampered_many(TamperedInPostgres(tmp_path, mode, emptied(postgres)), rounds(200), seed))
