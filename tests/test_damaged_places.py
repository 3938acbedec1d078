"""Whatever is damaged of a place, no process dies of it or hangs, and what is whole is given."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from damage_worker import make, tables_in, work
from nursery import nursery, nursery_that_knows_the_way  # noqa: F401 — a fixture for all tests here


PATIENCE = 60.0  # seconds for one deed


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place as it is while somebody has it open."""
    folder, copied = tmp_path_factory.mktemp("made") / "all", tmp_path_factory.mktemp("original") / "all"
    make(folder)
    shutil.copytree(folder, copied)
    return copied


class Life:
    """One process that works with what is in a folder: how each of its deeds ended."""

    def __init__(self, folder: Path) -> None:
        ours, theirs = nursery.Pipe(duplex=False)
        self.process = nursery.Process(target=work, args=(theirs, folder))
        self.process.start()
        theirs.close()
        self.doing, self.hung = "", False
        self.ended: dict[str, tuple[str, Any]] = {}
        with closing(ours):
            self._listen(ours)
        self.process.join(PATIENCE if not self.hung else 0)
        self.hung = self.hung or self.process.exitcode is None
        self.process.kill()
        self.process.join(PATIENCE)

    def _listen(self, conn: Any) -> None:
        try:
            while True:
                if not conn.poll(PATIENCE):
                    self.hung = True
                    return
                what, name, said = conn.recv()
                if what == "begins":
                    self.doing = name
                elif what == "end":
                    return
                else:
                    self.ended[name] = (what, said)
        except EOFError:
            return

    @property
    def fault(self) -> str | None:
        """What must never be: it died, it hung, or an error that is not ours."""
        if self.hung:
            return f"{self.doing}: it hung"
        if self.process.exitcode:
            return f"{self.doing}: it ended with {self.process.exitcode}"
        return next((f"{name}: {said}" for name, (what, said) in self.ended.items() if what == "failed"), None)


# -- damages ---------------------------------------------------------------------------------------------------------


def damage(folder: Path, chance: random.Random) -> tuple[str, str]:
    """Do one at random; what, and to which file."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    databases = [path for path in files if path.name.startswith("memory.db")]
    path = chance.choice(databases if chance.random() < 0.6 else files)
    name = path.relative_to(folder).as_posix()
    kind = chance.choice(["bit", "bits", "page", "zeros", "cut", "deleted", "swapped", "more"])
    data = bytearray(path.read_bytes())
    at = chance.randrange(len(data) or 1)
    if kind == "deleted":
        path.unlink()
        return kind, name
    if kind == "swapped":
        other = chance.choice(files)
        path.write_bytes(other.read_bytes())
        other.write_bytes(data)
        return f"swapped with {other.relative_to(folder).as_posix()}", name
    if kind == "bit" and data:
        data[at] ^= 1 << chance.randrange(8)
    elif kind == "bits":
        for _ in range(20 if data else 0):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    elif kind == "page":
        start = at // 4096 * 4096
        data[start : start + 4096] = chance.randbytes(min(4096, len(data) - start))
    elif kind == "zeros":
        end = min(len(data), at + chance.randrange(1, 20_000))
        data[at:end] = bytes(end - at)
    elif kind == "cut":
        del data[at:]
    elif kind == "more":
        data += chance.randbytes(chance.randrange(1, 5000))
    path.write_bytes(data)
    return f"{kind} at {at}", name


def complaints(life: Life, whole: Life, hit: set[str], folder_tables: tuple[Any, Any]) -> Iterator[str]:
    """What was not as it should be, though the damage has not hit it."""
    if life.fault is not None:
        yield life.fault
        return
    database = {"place/memory.db", "place/memory.db-wal"} & hit
    then, now = folder_tables
    untouched = not database or (now == then)
    for name, (what, said) in whole.ended.items():
        deed = life.ended.get(name)
        about = name.split()[-1]
        if deed is None:
            yield f"{name}: it was not done"
        elif about.startswith(("export.", "portable.")):
            if about not in hit and deed != (what, said):
                yield f"{name}: {deed[0]} {deed[1]!s:.500}"
        elif "restore" in name:
            if untouched and "backup.db" not in hit and deed != (what, said):
                yield f"{name}: {deed[0]} {deed[1]!s:.500}"
        elif untouched and deed != (what, said):
            yield f"{name}: {deed[0]} {deed[1]!s:.500}"
    if not untouched:
        yield from _hidden(life, then, now)


def _hidden(life: Life, then: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """Memories that plain sqlite3 reads, as they were, and that are not given."""
    needed = ("memory_scopes", "memory_sources", "memory_about", "memory_items", "alembic_version")
    if any(now.get(name) is None for name in needed) or any(now[name] != then[name] for name in needed[:3]):
        return
    items = {row[2].decode(): row for row in then["memory_items"] if row[1] == _default(then)}
    left = {key for key, row in items.items() if row in now["memory_items"]}
    what, said = life.ended["keys"]
    if what != "gave":
        yield f"keys: {len(left)} memories can be read, and none is given: {said}"
    elif not left <= set(said):
        yield f"keys: {len(left - set(said))} of {len(left)} memories that can be read are not given"


def _default(tables: dict[str, Any]) -> int:
    return next(int(row[0]) for row in tables["memory_scopes"] if row[1] == b"")


def damages(original: Path, folder: Path, count: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    shutil.copytree(original, folder / "whole")
    then = tables_in(folder / "whole/place/memory.db")
    shutil.rmtree(folder / "whole")
    shutil.copytree(original, folder / "whole")
    whole = Life(folder / "whole")
    assert whole.fault is None
    assert {what for what, _ in whole.ended.values()} == {"gave"}, whole.ended
    wrong = []
    for number in range(count):
        copied = folder / str(number)
        shutil.copytree(original, copied)
        kind, name = damage(copied, chance)
        hit = {name, *kind.split(" with ")[1:]}
        shutil.copytree(copied, folder / "read")
        now = tables_in(folder / "read/place/memory.db")
        shutil.rmtree(folder / "read")
        life = Life(copied)
        wrong += [f"{number}: {name}, {kind}: {each}" for each in complaints(life, whole, hit, (then, now))]
        shutil.rmtree(copied)
    return wrong


@pytest.mark.slow
def test_a_few_damages_end_no_process_and_hide_nothing(original: Path, tmp_path: Path) -> None:
    assert damages(original, tmp_path, 4, seed=8) == []


@pytest.mark.endurance
def test_so_it_is_after_300_damages(original: Path, tmp_path: Path, rounds: Callable[[int], int], seed: int) -> None:
    """Bits, pages, zeros, cuts, deletions, swaps and garbage, over every file of a place."""
    wrong = damages(original, tmp_path, rounds(300), seed)
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(each[-1500:] for each in wrong[:40])
