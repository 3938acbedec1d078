"""What test_key_kills.py does in processes of its own, and looks at: a place whose keys are changed."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents import code_agent
from quick_embedder import Hashed
from sqlalchemy import Engine, event
from sqlalchemy.pool import Pool

from smolagents_memory import (
    EnhancedAgentMemory,
    KeyManager,
    People,
    Place,
    Seal,
    SealError,
    Session,
    SessionConflictError,
    SessionManager,
    encode_step,
)
from smolagents_memory.database.engine import Database
from smolagents_memory.stores.bank import Bank
from smolagents_memory.testing import code


OLD, NEW = bytes(range(32)), bytes(range(1, 33))
SCOPES = [None, {"user": "needle-ann"}, {"user": "needle-bob"}]
GONE_PERSON = "needle-ann"
GONE_SESSION, GONE_SCOPE = "needle-0", SCOPES[1]  # hers, and what is shredded


def opened(folder: Path, master: bytes | None = OLD, file: str = "place/memory.db", keys: str = "keys") -> Place:
    """The place of a folder (or on the server whose URL lies there), or a copy in it, with the keys that lie there."""
    url = folder / "url"
    where = url.read_text() if url.exists() else folder / file
    return Place(where, seal=None if master is None else Seal(master, folder / keys))


# -- what is done --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operation:
    """What is done to a place. Whoever adds one adds it here, and says in the tests what has come of it.

    `begins` is the model that it begins with; `opens` what may open the place when it was killed.
    """

    does: Callable[[Path], Any]
    begins: str = "sealed"
    opens: tuple[bytes | None, ...] = (OLD,)


OPERATIONS = {
    "seal": Operation(lambda folder: KeyManager(opened(folder)).seal(), "plain", (None, OLD)),
    "unseal": Operation(lambda folder: KeyManager(opened(folder)).unseal(), opens=(None, OLD)),
    "reseal": Operation(lambda folder: KeyManager(opened(folder)).reseal()),
    "rotate": Operation(lambda folder: KeyManager(opened(folder)).rotate(opened(folder, NEW).seal), opens=(OLD, NEW)),
    "drop": Operation(lambda folder: KeyManager(opened(folder)).drop(), "resealed"),
    "shred a session": Operation(lambda folder: KeyManager(opened(folder)).shred(session=GONE_SESSION)),
    "shred a scope": Operation(lambda folder: KeyManager(opened(folder)).shred(scope=GONE_SCOPE)),
    "erase a person": Operation(lambda folder: People(opened(folder)).erase(GONE_PERSON)),
}


def act(conn: Any, what: str, folder: Path, at: int | None) -> None:
    """Do it when told to, and say how long that took and how many times something was about to be, or was, durable.

    With `at` the process kills itself at that time.
    """
    times = 0

    def passing(*_: Any) -> None:
        nonlocal times
        times += 1
        if times == at:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        Database.at(opened(folder, None)).close()
        conn.send(("ok", "ready"))
        conn.recv()
        event.listen(Engine, "commit", passing)
        event.listen(Pool, "checkin", passing)
        began = time.monotonic()
        OPERATIONS[what].does(folder)
        conn.send(("ok", (time.monotonic() - began, times)))
        conn.recv()
    except EOFError:
        return
    except BaseException:  # noqa: BLE001 — the parent raises it
        conn.send(("failed", traceback.format_exc()))


# -- what there is -------------------------------------------------------------------------------------------------


def fill(place: Any, size: int) -> None:
    """Sessions with pictures, variables and calls, and memories of three scopes; every text holds a needle."""
    found = itertools.repeat(code("final_answer('needle found')"))
    helper = code_agent(found, name="helper", description="Helps.", planning_interval=None)
    for number in range(2 + size // 40):
        script = [code(f"needle = {{'a': b'z' * {99 * size}}}; print('needle', helper('needle?'))")]
        agent = code_agent([*script, code("final_answer('needle')")], managed_agents=[helper], planning_interval=None)
        user = None if number else GONE_PERSON
        with Session(f"needle-{number}", place, user=user).attach(agent):
            agent.run(f"Find needle {number}.")
    for number, scope in enumerate(SCOPES):
        with EnhancedAgentMemory(place, scope=scope, embedder=Hashed()) as memory:
            texts = [f"needle {n} is in the {'haystack' * (n % 5)} {n * 7919 % 97}" for n in range(size)]
            memory.remember_many(
                [{"text": text, "key": f"needle-{number}-{n}", "meta": {"n": n}} for n, text in enumerate(texts)],
                show_progress=False,
            )
    Database.at(place).close()


Picture = dict[str, Any]


def picture(place: Any) -> Picture:
    """All that can be read in a place, by names."""
    found: Picture = {}
    listed = SessionManager(place).list_sessions()
    for name in [*listed, *(child for parent in listed for child in Session(parent, place).children())]:
        steps = [json.dumps(encode_step(step), default=str) for step in Session(name, place).steps()]
        found[f"session {name}"] = hashlib.sha256("".join(steps).encode()).hexdigest()
    database = Database.at(place)
    for scope in SCOPES:
        for each in Bank(database, scope).records(archived=None):
            found[f"memory {scope} {each.key}"] = (each.value, each.meta, each.kind, each.source)
    database.close()
    return found


def without(whole: Picture, *beginnings: str) -> Picture:
    return {name: it for name, it in whole.items() if not name.startswith(beginnings)}


SHREDDED = {
    "shred a session": (f"session {GONE_SESSION}",),
    "shred a scope": (f"memory {GONE_SCOPE} ",),
    "erase a person": (f"session {GONE_SESSION}", f"memory {GONE_SCOPE} "),
}  # fmt: skip


# -- somebody who goes on working ----------------------------------------------------------------------------------


def work(conn: Any, folder: Path, who: str) -> None:
    """Remember and journal in turns, until told to stop; then say what was acknowledged, from when to when."""
    masters, told, number = [OLD, NEW], [], 0
    place = opened(folder)
    conn.send(("ok", "ready"))
    try:
        while not conn.poll(0):
            number += 1
            began = time.monotonic()
            scope, session = SCOPES[1 + number % 2], f"needle-{number % 2}"
            try:
                if number % 3:
                    with EnhancedAgentMemory(place, scope=scope, embedder=Hashed()) as memory:
                        key = memory.remember(f"The needle {who} {number} is new.", key=f"{who}-{number}")
                    told.append((f"memory {scope} {key}", began, time.monotonic()))
                else:
                    agent = code_agent([code(f"final_answer('{who} {number}')")], planning_interval=None)
                    with Session(session, place).attach(agent):
                        agent.run(f"Task {who} {number}.", reset=False)
                    told.append((f"task {session} {who} {number}.", began, time.monotonic()))
            except SealError as error:
                if "master key" not in str(error):
                    raise
                masters.reverse()  # it was rotated meanwhile
                place = opened(folder, masters[0])
            except SessionConflictError:
                pass
        conn.send(("ok", told))
        conn.recv()
    except EOFError:
        return
    except BaseException:  # noqa: BLE001 — the parent raises it
        conn.send(("failed", traceback.format_exc()))
