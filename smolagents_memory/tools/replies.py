"""What the tools say. A bad argument gets a sentence that says what was wrong, never an exception."""

from __future__ import annotations

import datetime
import re
from typing import Any

from smolagents_memory._brief import brief
from smolagents_memory._errors import SmolagentsMemoryError
from smolagents_memory.memory.quoting import harmless, is_token, named, quoted
from smolagents_memory.stores.records import USUAL
from smolagents_memory.tools.bound_memory import BoundMemory


NOTHING = "Nothing was found in memory"
MOST = 50
_ERROR = 600  # characters of what went wrong
_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*(minute|hour|day|week|month|year)s?(?:\s+ago)?", re.IGNORECASE)
_LENGTHS = {"minute": 60, "hour": 3600, "day": 86_400, "week": 604_800, "month": 2_629_800, "year": 31_557_600}


class Wrong(Exception):
    """An argument that cannot be understood; the message is for the model."""


def recall_answer(place: BoundMemory, query: Any, k: Any, since: Any, until: Any, kind: Any, least: float) -> str:
    """The best notes, or why there are none."""
    try:
        long_term = place.open()
        wanted = _text("query", query)
        count = _number(k)
        where = _where(since, until, kind, long_term.clock())
        found = long_term.recall(wanted, count, where=where or None, min_relevance=least)
    except (Wrong, SmolagentsMemoryError) as error:
        return sentence("Recall did not work", error)
    place.recalled(found, wanted)
    if not found:
        asked = (("since", since), ("until", until), ("kind", kind))
        limits = "".join(f", {name} {_told(value)}" for name, value in asked if not _is_left_out(value))
        return f"{NOTHING} about {_told(wanted)}{limits}."
    return quoted(found, long_term.clock())[0]


def remember_answer(place: BoundMemory, text: Any, key: Any, importance: Any, replaces: Any) -> str:
    """Under which key it was kept."""
    try:
        name, provenance = None if _is_left_out(key) else _text("key", key), place.provenance()
        item: dict[str, Any] = {"text": _text("text", text), "key": name, "source": "agent", **provenance}
        old = None if _is_left_out(replaces) else _text("replaces", replaces)
        if old is not None:
            item["replaces"] = old
        for each in filter(None, (name, old) if provenance.get("tools") else ()):
            _leave_alone(place, each)
        if importance is not None:
            try:
                item["importance"] = float(importance)
            except (TypeError, ValueError, OverflowError):
                raise Wrong(f"importance is a number such as 1 or 2, not {brief(importance)}") from None
        kept = f"Remembered as {_key(place.open().remember([item])[0])}"
        return f"{kept}." if old is None else f"{kept}, in the place of {_key(old)}, which is no longer recalled."
    except (Wrong, SmolagentsMemoryError) as error:
        return sentence("Nothing was remembered", error)


def _leave_alone(place: BoundMemory, key: str) -> None:
    there = place.open().get(key)
    if there is not None and there.trust >= USUAL:
        raise Wrong(
            f"there is a note under {brief(key)} already, and what tools returned does not replace it; choose another "
            "key"
        )


def forget_answer(place: BoundMemory, key: Any) -> str:
    """Whether it was there."""
    try:
        name = _text("key", key)
        if place.open().forget([name]):
            return f"Forgotten: {_key(name)}."
        return f"There is no memory under the key {_told(name)}; nothing was deleted."
    except (Wrong, SmolagentsMemoryError) as error:
        return sentence("Nothing was forgotten", error)


def sentence(what: str, error: Exception) -> str:
    """What went wrong, on one line, whatever it quotes."""
    said = " ".join(harmless(str(error)).split())
    return f"{what}: {_without_brackets(said[:_ERROR])}"


def _told(value: Any) -> str:
    """What a model asked with, said again so that it cannot be taken for a line of ours."""
    return _without_brackets(named(value))


def _key(key: str) -> str:
    return key if is_token(key) else _told(key)


def _without_brackets(text: str) -> str:
    return text.replace("[", "(").replace("]", ")")


def _is_left_out(value: Any) -> bool:
    return value is None or (isinstance(value, str) and len(value) == 0)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Wrong(f"{name} must be a text that is not empty, not {brief(value)}")
    return str.__str__(value)


def _number(k: Any) -> int:
    if k is None:
        return 5
    count = whole("k", k)
    if not 1 <= count <= MOST:
        raise Wrong(f"k must be from 1 to {MOST}, not {count}")
    return count


def whole(name: str, value: Any) -> int:
    """A whole number that is not negative."""
    try:
        number = float(value)
        if isinstance(value, bool) or number != int(number):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise Wrong(f"{name} must be a whole number, not {brief(value)}") from None
    if number < 0:
        raise Wrong(f"{name} must not be negative, as {brief(value)} is")
    return int(number)


def _where(since: Any, until: Any, kind: Any, now: float) -> dict[str, Any]:
    where: dict[str, Any] = {}
    created = {}
    if not _is_left_out(since):
        created["$gte"] = _moment("since", since, now)
    if not _is_left_out(until):
        created.update(_up_to(until, now))
    if created:
        where["created"] = created
    if not _is_left_out(kind):
        named = _text("kind", kind).strip()
        where["kind"] = {"$in": [named, named.lower()]}
    return where


def _up_to(until: Any, now: float) -> dict[str, float]:
    """A day is meant up to its end, which belongs to the next."""
    moment = _moment("until", until, now)
    return {"$lt": moment + _LENGTHS["day"]} if _is_day(until) else {"$lte": moment}


def _is_day(value: str) -> bool:
    return len(value.strip()) <= 10 and not _AGE.fullmatch(value.strip())


def _moment(name: str, value: Any, now: float) -> float:
    if isinstance(value, str):
        given = value.strip()
        age = _AGE.fullmatch(given)
        if age:
            return now - float(age[1]) * _LENGTHS[age[2].lower()]
        try:
            moment = datetime.datetime.fromisoformat(given.replace("Z", "+00:00"))
        except ValueError:
            moment = None
        if moment is not None:
            return _seconds(moment)
    raise Wrong(f"{name} must be a date such as 2025-03-01 or an age such as '7 days', not {brief(value)}")


def _seconds(moment: datetime.datetime) -> float:
    """Since 1970; also of days so far away that the system's calendar does not reach them."""
    try:
        return moment.timestamp()
    except (OverflowError, ValueError, OSError):
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
        return (moment.replace(tzinfo=datetime.timezone.utc) - epoch).total_seconds()
