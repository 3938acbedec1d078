"""What recall leaves behind, which memories were used and how it served: noted in RAM, written together."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from smolagents_memory._errors import SmolagentsMemoryError
from smolagents_memory._forks import Lock, in_child, tell_in_child
from smolagents_memory._log import logger
from smolagents_memory.stores.bank import Bank
from smolagents_memory.stores.records import NEWEST, Recall, Record, Served, Use
from smolagents_memory.stores.store_bank import StoreBank


MOST = 64  # recalls that wait in RAM before they are written together: a recall pays no commit
TOUCHED = 256  # memories of which they tell, likewise
OLDEST = 60.0  # seconds after which the next recall writes them, however few
_OPEN = 16  # memories whose traces wait in a process; beyond that the eldest's are written

AnyBank = Bank | StoreBank


class Waiting:
    """Traces that are not written yet. A forked child has none: its parent writes its own."""

    def __init__(self) -> None:
        self.forked()
        tell_in_child(self)

    def forked(self) -> None:
        """Begin anew."""
        self.lock = threading.Lock()
        self.uses: dict[str, Use] = {}
        self.recalls: list[Recall] = []
        self.since = time.monotonic()

    def use(self, key: str, *, often: float = 0.0, last: float = 0.0, helped: float = 0.0) -> None:
        """Note that a memory was used."""
        old = self.uses.get(key, Use())
        self.uses[key] = Use(old.often + often, max(old.last, last), old.helped + helped)

    def write(self, bank: AnyBank, helped: Any = None) -> None:
        """Write all of it, or keep it: there may be no scope yet, or no database now."""
        with self.lock:
            uses, recalls = self.uses, self.recalls
            self.uses, self.recalls, self.since = {}, [], time.monotonic()
        if not uses and not recalls:
            return
        noted = False
        try:
            noted = bank.touch(uses, recalls, helped)
        finally:
            if not noted:
                with self.lock:
                    self.recalls = [*recalls, *self.recalls][-NEWEST:]
                    for key, use in uses.items():
                        self.use(key, **use._asdict())


class Traces:
    """The traces of one memory. What waits is written at the end of the process, also if nobody closes the memory."""

    def __init__(self, bank: AnyBank) -> None:
        self._bank, self._waiting = bank, Waiting()
        self._again = 0.0

    def recalled(self, records: Sequence[Record], now: float) -> None:
        """A recall gave these records; none is a miss."""
        waiting = self._waiting
        with waiting.lock:
            for record in records:
                waiting.use(record.key, often=1.0, last=now)
            waiting.recalls.append(Recall(now, tuple([self._name(record) for record in records])))
            del waiting.recalls[:-NEWEST]
            due = len(waiting.recalls) >= MOST or len(waiting.uses) >= TOUCHED
            due = due or time.monotonic() - waiting.since > OLDEST
        if not due or time.monotonic() < self._again:
            _remember(waiting, self._bank)
            return
        try:
            self.write()
        except SmolagentsMemoryError as error:  # a recall does not fail because its traces cannot be written
            self._again = time.monotonic() + OLDEST
            logger.warning("which memories were used waits to be written: %s", error)

    def helped(self, record: Record, useful: bool) -> None:
        """A memory helped, or did not."""
        with self._waiting.lock:
            self._waiting.use(record.key, helped=1.0 if useful else -1.0)
        self.write(self._name(record) if useful else None)

    def write(self, helped: Any = None) -> None:
        """Write what waits."""
        self._waiting.write(self._bank, helped)
        _unwritten.pop(id(self._waiting), None)

    def served(self, newest: int = NEWEST) -> Served:
        """How well recall served, with what waits."""
        with self._waiting.lock:
            waiting = list(self._waiting.recalls)
        return self._bank.served(newest).beside(waiting)

    def _name(self, record: Record) -> Any:
        """Numbers name a memory in SQL, so that nothing stays of one that was forgotten; elsewhere there are none."""
        return record.id if isinstance(self._bank, Bank) else record.key


# what waits in this process, in the order in which it began to, and how its bank is had when the memory is gone
_unwritten: dict[int, tuple[Waiting, Callable[[], AnyBank | None]]] = {}
_lock = Lock()
_hooked = False


def _remember(waiting: Waiting, bank: AnyBank) -> None:
    global _hooked
    if isinstance(bank, Bank) and bank.database.place.in_ram:
        return  # it ends with the process
    with _lock:
        if id(waiting) not in _unwritten:
            _unwritten[id(waiting)] = (waiting, bank.light() if isinstance(bank, Bank) else weakref.ref(bank))
        eldest = next(iter(_unwritten)) if len(_unwritten) > _OPEN else None
        if not _hooked:
            _hooked = True
            _hook()
    if eldest is not None:  # here, and not when a memory is garbage: that may be within somebody's transaction
        _write(eldest)


def _write(name: int) -> None:
    waiting, bank_of = _unwritten.pop(name, (None, None))
    if waiting is None or bank_of is None:
        return
    try:
        bank = bank_of()
        if bank is not None:
            waiting.write(bank)
    except Exception as error:  # noqa: BLE001 — a store of the user's own may raise anything
        logger.debug("traces of recall were not written (process %d): %s", os.getpid(), error)


def _write_all() -> None:
    for name in list(_unwritten):
        _write(name)


def _hook() -> None:
    """Have them written at the end of this process, and of one of `multiprocessing`, which passes atexit by."""
    atexit.register(_write_all)
    multiprocessing = sys.modules.get("multiprocessing")
    if multiprocessing is not None and multiprocessing.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, _write_all, exitpriority=10)


@in_child
def _in_child() -> None:
    global _hooked
    _hooked = False
    _unwritten.clear()
