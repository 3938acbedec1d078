"""Thousands of varied memories, the same every time, and the fixture that fills a store with them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest


_WHO = ("Ada", "Boris", "Chandra", "Dana", "Emeka", "Freya", "Goro", "Hanne", "Ivo", "Jun")
_WHAT = (
    "the invoice parser", "the nightly backup", "the staging server", "the greenhouse sensor", "the payroll export",
    "the translation queue", "the image resizer", "the login page", "the price feed", "the robot arm",
)  # fmt: skip
_DID = (
    "fails when the disk is full", "was moved to the new region", "needs a token from the vault",
    "runs twice as fast since the cache was added", "must not be restarted before noon", "prefers metric units",
    "was rewritten in Rust", "drops rows with empty dates", "answers only over the VPN", "is owned by the data team",
)  # fmt: skip
_WHY = (
    "after the migration",
    "according to the audit",
    "as of release {n}",
    "on ticket {n}",
    "in room {n}",
    "since day {n}",
)
_FORMS: tuple[Callable[[random.Random, str, int], str], ...] = (
    lambda r, fact, n: fact + ".",
    lambda r, fact, n: (
        f"{r.choice(_WHO)} asked in meeting {n} whether {fact}; the answer was {r.choice(('yes', 'no'))}."
    ),
    lambda r, fact, n: f'{{"event": {n}, "level": "{r.choice(("info", "error"))}", "note": "{fact}"}}',
    lambda r, fact, n: f"def check_{n}():\n    # {fact}\n    return read('/srv/data/{n}.csv')[{n % 7}:]",
    lambda r, fact, n: (
        f"Task {n}: find out why {fact}. " + " ".join(f"Step {s}: {r.choice(_DID)}." for s in range(n % 9))
    ),
    lambda r, fact, n: f"Traceback (most recent call last): ValueError: {fact} (code {n})",
)


def varied_memories(count: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """`count` memories as `remember_many` takes them: facts, talk, JSON, code, long texts and traces.

    >>> next(varied_memories(1))["key"]
    'memory-0'
    """
    chosen = random.Random(seed)
    for n in range(count):
        why = chosen.choice(_WHY).format(n=n)
        fact = f"{chosen.choice(_WHAT)} {chosen.choice(_DID)} {why}, says {chosen.choice(_WHO)}"
        yield {
            "text": chosen.choice(_FORMS)(chosen, fact, n),
            "key": f"memory-{n}",
            "importance": chosen.choice((0.5, 1.0, 1.0, 2.0)),
            "meta": {"n": n, "even": n % 2 == 0},
            "source": f"run {n // 20}" if n % 3 else None,
        }


@pytest.fixture
def fill() -> Callable[..., list[str]]:
    """A function that fills a store or a memory: `fill(store, 5_000)` gives the keys.

    Import it into your conftest: `from smolagents_memory.testing.filling import fill`.
    """

    def filled(store: Any, count: int = 5_000, seed: int = 0) -> list[str]:
        items = list(varied_memories(count, seed))
        if hasattr(store, "remember_many"):
            store.remember_many(items)
        else:
            store.add_many((item["key"], item["text"], item["meta"]) for item in items)
        return [item["key"] for item in items]

    return filled
