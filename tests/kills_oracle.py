"""What test_kills.py knows: what was acknowledged, what may have come of what was not, and what could be done next."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from smolagents_memory.memory.documents import parts_of


Picture = dict[str, Any]
CHUNK = 1000  # memories of a long list are written in one transaction
USUAL = {"memory.db", "memory.db-wal", "memory.db-shm", "memory.db.embedding", "chroma", "chroma.lock"}  # files
WORDS = ["pump", "valve", "gauge", "motor", "belt", "filter", "sensor", "tank", "hose", "rotor"]
DOES = {  # and how often
    "run": 8, "fork": 2, "delete": 2, "remember_many": 5, "remember_document": 3, "forget_where": 2, "reindex": 2,
    "decay": 2, "purge_faded": 2, "purge": 2, "backup": 3, "restore_backup": 2, "migrate": 2,
}  # fmt: skip


class References:
    """What comes of everything if nobody is killed."""

    kinds = ("code", "calls", "managed")
    tasks = 3

    def __init__(self, old: list[Path]) -> None:
        self.old = old
        self.migrated: list[Picture] = []
        self.steps: dict[str, list[str]] = {}
        self.ends: dict[str, list[int]] = {kind: [0] for kind in self.kinds}
        self.answers: dict[str, list[Any]] = {kind: [None] for kind in self.kinds}

    def copy_of_old(self, number: int, folder: Path) -> Path:
        """A place of an older version, to be brought to the newest."""
        folder.mkdir()
        old = self.old[number]
        for file in old.parent.glob(f"{old.name}*"):
            shutil.copy(file, folder / file.name.replace(old.name, "memory.db"))
        return folder / "memory.db"

    def ran(self, kind: str, answer: Any, steps: list[str]) -> None:
        self.steps[kind] = steps
        self.ends[kind].append(len(steps))
        self.answers[kind].append(answer)


class Oracle:
    """The picture of a place that was acknowledged, and those that it may have become since."""

    def __init__(self, folder: Path, references: References, chance: random.Random) -> None:
        self.folder, self.references, self.chance = folder, references, chance
        self.there: Picture = {}
        self.may_be: list[Picture] = [{}]
        self.backups: dict[Path, list[Picture]] = {}  # what each may hold; more than one after a kill
        self.doing: tuple[str, Any] = ("look", ())
        self.unfinished: tuple[str, Any] | None = None
        self.number = 0

    # -- what to do next ---------------------------------------------------------------------------------------

    def next(self, killed: dict[str, int]) -> tuple[str, tuple[Any, ...]]:
        """Anything that can be done now; rather what was not killed often yet."""
        if self.unfinished and self.chance.random() < 0.4:
            return self.unfinished
        weights = [weight / (1 + killed.get(what, 0)) for what, weight in DOES.items()]
        while True:
            (what,) = self.chance.choices(list(DOES), weights)
            self.number += 1
            arguments = getattr(self, f"_{what}")()
            if arguments is not None:
                return what, arguments

    def _sessions(self) -> list[str]:
        return sorted(name.partition(" ")[2] for name in self.there if name.startswith("session "))

    def left_to_run(self) -> list[tuple[str, str]]:
        """The sessions with tasks that are not done."""
        named = [(name, name.partition("-")[0]) for name in self._sessions()]
        return [(n, kind) for n, kind in named if self._tasks(n, kind) < self.references.tasks]

    def _tasks(self, name: str, kind: str) -> int:
        """How many tasks of a session are done, as far as its steps tell."""
        steps, ends = len(self.there.get(f"session {name}", ())), self.references.ends[kind]
        return max(number for number, end in enumerate(ends) if end <= steps)

    def _run(self) -> Any:
        if (left := self.left_to_run()) and self.chance.random() < 0.7:
            return self.chance.choice(left)
        if len(self._sessions()) > 5:
            return None
        kind = self.chance.choice(self.references.kinds)
        return f"{kind}-{self.number}", kind

    def _fork(self) -> Any:
        names = self._sessions()
        if not names or len(names) > 5:
            return None
        name = self.chance.choice(names)
        return name, f"{name.partition('-')[0]}-{self.number}"

    def _delete(self) -> Any:
        names = self._sessions()
        return (self.chance.choice(names),) if len(names) > 2 else None

    def _remember_many(self) -> Any:
        count = self.chance.choice([3, 40, 400, 2 * CHUNK + 300])
        bundle, scope = f"b{self.number}", "fading" if count < CHUNK and self.chance.random() < 0.5 else ""
        texts = {f"{bundle}-{n}": f"note {n} of {bundle} on {self.chance.choice(WORDS)}s" for n in range(count)}
        return scope, texts

    def _remember_document(self) -> Any:
        version, source = self.number, self.chance.choice(["manual", "letter"])
        line = f"Version {version} of the {source} says of the {{}} what it says. "
        text = "\n\n".join(line.format(self.chance.choice(WORDS)) * 10 for _ in range(self.chance.randint(2, 60)))
        return source, text

    def _forget_where(self) -> Any:
        bundles = sorted({name.split()[1].partition("-")[0] for name in self.there if name.startswith("memory b")})
        return (self.chance.choice(bundles),) if bundles else None

    def _reindex(self) -> Any:
        return (self.chance.random(),)

    def _decay(self) -> Any:
        return () if any(name.startswith("fading") for name in self.there) else None

    _purge_faded = _decay

    def _purge(self) -> Any:
        return ()

    def _backup(self) -> Any:
        return (self.folder / "backups" / f"{self.chance.randint(1, 3)}.db",)

    def _restore_backup(self) -> Any:
        whole = sorted(path for path, may_hold in self.backups.items() if len(may_hold) == 1)
        return (self.chance.choice(whole),) if whole else None

    def _migrate(self) -> Any:
        number = self.chance.randrange(len(self.references.old))
        return (self.references.copy_of_old(number, self.folder / f"old{self.number}-{number}"),)

    # -- what may come of it -----------------------------------------------------------------------------------

    def begins(self, what: str, arguments: Any) -> None:
        self.doing, self.unfinished = (what, arguments), None
        self.may_be = [self.there, *self._outcomes(what, arguments)]
        if what == "backup":
            self.backups.setdefault(arguments[0], [])
            self.backups[arguments[0]] = [*self.backups[arguments[0]], self.there]

    def did(self, answer: Any) -> None:
        """It was acknowledged: the last of what may be is what is."""
        what, arguments = self.doing
        if what == "run":
            (name, kind), (task, said) = arguments, answer
            assert said == self.references.answers[kind][task]
            end = self.references.ends[kind][task]
            self.may_be = [{**self.there, f"session {name}": self.references.steps[kind][:end]}]
        elif what == "migrate":
            self._check_migrated(arguments[0], answer)
        elif what == "backup":
            assert arguments[0].is_file()
            self.backups[arguments[0]] = [self.there]
        self.there = self.may_be[-1]
        self.may_be = [self.there]

    def was_killed(self, kept: int) -> None:
        """Anything of what may be, but no step that was kept is lost."""
        what, arguments = self.doing
        if what == "run":
            name = f"session {arguments[0]}"
            self.may_be = [each for each in self.may_be if len(each.get(name, ())) >= kept]
        if what in ("run", "migrate", "remember_document", "reindex", "purge", "decay", "restore_backup"):
            self.unfinished = self.doing

    def _outcomes(self, what: str, arguments: Any) -> Iterator[Picture]:
        there = self.there
        if what == "run":
            name, kind = arguments
            most = self.references.ends[kind][min(self._tasks(name, kind) + 1, self.references.tasks)]
            for count in range(len(there.get(f"session {name}", ())), most + 1):
                yield {**there, f"session {name}": self.references.steps[kind][:count]}
        elif what == "fork":
            yield {**there, f"session {arguments[1]}": there[f"session {arguments[0]}"]}
        elif what == "delete":
            yield _without(there, f"session {arguments[0]}")
        elif what == "remember_many":
            name = "fading" if arguments[0] else "memory"
            items = [(f"{name} {key}", [text, False]) for key, text in arguments[1].items()]
            for count in [*range(CHUNK, len(items), CHUNK), len(items)]:
                yield {**there, **dict(items[:count])}
        elif what == "remember_document":
            source, parts = arguments[0], parts_of(arguments[1])
            names = [f"document {source} {number}" for number in range(len(parts))]
            new = {name: [part, False] for name, part in zip(names, parts, strict=True)}
            yield {**_without(there, f"document {source} "), **new}
        elif what == "forget_where":
            yield _without(there, f"memory {arguments[0]}-")
        elif what == "decay":
            yield {name: [it[0], True] if name.startswith("fading") else it for name, it in there.items()}
        elif what == "purge_faded":
            yield {name: it for name, it in there.items() if not (name.startswith("fading") and it[1])}
        elif what == "restore_backup":
            yield self.backups[arguments[0]][0]
        else:
            yield there

    # -- what there is -----------------------------------------------------------------------------------------

    def check(self, found: Picture) -> None:
        """What a new life found is what was acknowledged, and all or nothing of what was not."""
        assert found in self.may_be, _difference(found, self.may_be, self.doing)
        self.there = found
        self.may_be = [found]

    def half_made(self) -> Path | None:
        """A backup of which is not known what it holds."""
        path = next((path for path, may_hold in self.backups.items() if len(may_hold) > 1), None)
        what, arguments = self.doing
        if path is None and what == "backup" and arguments[0].exists():
            path = arguments[0]
        elif path is None and what == "backup":
            del self.backups[arguments[0]]
        return path

    def check_backup(self, path: Path, found: Picture) -> None:
        assert found in self.backups[path], _difference(found, self.backups[path], self.doing)
        self.backups[path] = [found]

    def _check_migrated(self, path: Path, found: Picture) -> None:
        number = int(path.parent.name.partition("-")[2])
        expected = self.references.migrated[number]
        assert found == expected, _difference(found, [expected], self.doing)
        shutil.rmtree(path.parent)

    def some_texts(self, count: int = 3) -> list[str]:
        texts = sorted(it[0] for name, it in self.there.items() if name.startswith("memory b"))
        return self.chance.sample(texts, min(count, len(texts)))

    def check_files(self) -> None:
        """After a purge nothing lies about that a killed process left."""
        for folder, known in (("backups", {path.name for path in self.backups}), ("tmp", set()), ("place", USUAL)):
            there = {str(path.relative_to(self.folder / folder)) for path in (self.folder / folder).rglob("*")}
            left = {name for name in there - known if not name.startswith("chroma/")}
            assert not left, (folder, left)


def _without(picture: Picture, beginning: str) -> Picture:
    return {name: it for name, it in picture.items() if name != beginning and not _begins(name, beginning)}


def _begins(name: str, beginning: str) -> bool:
    return beginning.endswith(("-", " ")) and name.startswith(beginning)


def _difference(found: Picture, may_be: list[Picture], doing: Any) -> str:
    def differs(other: Picture) -> list[tuple[str, Any, Any]]:
        names = sorted(found.keys() | other.keys())
        return [(name, found.get(name), other.get(name)) for name in names if found.get(name) != other.get(name)]

    def shown(one: Any, other: Any) -> str:
        if isinstance(one, list) and isinstance(other, list):
            same = next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
            start = min(len(one), len(other)) if same is None else same
            return (
                f"{len(one)} and {len(other)}, from {start}: {str(one[start:])[:300]}, not {str(other[start:])[:300]}"
            )
        return f"{str(one)[:200]}, not {str(other)[:200]}"

    nearest = min((differs(each) for each in may_be), key=len)
    lines = "\n".join(f"{name}: found {shown(one, other)}" for name, one, other in nearest[:8])
    return f"after {doing!r:.300}: {len(nearest)} differ from the nearest of {len(may_be)} that may be\n{lines}"
