"""Real processes that begin at once: forked off a clean one that has everything imported."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.forkserver import ensure_running
from typing import Any

import pytest


nursery = multiprocessing.get_context("forkserver")
_KNOWN = ["kills_worker", "torture_worker", "racing", "damage_worker", "program", "onnxruntime", "tokenizers"]


@contextmanager
def opened() -> Iterator[None]:
    """Before Python 3.13 the server looks for what it shall import only where a fresh interpreter would look."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        nursery.set_forkserver_preload(_KNOWN)
        ensure_running()
        yield


@pytest.fixture(scope="module", autouse=True)
def nursery_that_knows_the_way() -> Iterator[None]:
    """One that is open all the time."""
    with opened():
        yield


class Child:
    """A process that answers questions, until it is killed or the block is left."""

    def __init__(self, target: Callable[..., None], *arguments: Any) -> None:
        self._ours, theirs = nursery.Pipe()
        self.process = nursery.Process(target=target, args=(theirs, *arguments))
        self.process.start()
        theirs.close()

    def ask(self, question: Any) -> None:
        try:
            self._ours.send(question)
        except BrokenPipeError:  # it has ended: what it said last tells why
            self.answer()
            raise

    def answer(self, patience: float = 120.0) -> Any:
        assert self._ours.poll(patience), "no answer"
        what, said = self._ours.recv()
        assert what == "ok", said
        return said

    def kill(self) -> None:
        self.process.kill()
        self.process.join(60)
        self._ours.close()


@contextmanager
def children(target: Callable[..., None], url: str, names: list[str]) -> Iterator[list[Child]]:
    """A process for each name, which can wait for each other at a barrier."""
    barrier = nursery.Barrier(len(names))
    born = [Child(target, url, name, barrier) for name in names]
    try:
        yield born
    finally:
        for child in born:
            child.kill()
