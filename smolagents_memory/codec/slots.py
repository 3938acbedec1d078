"""The attributes of an object where Python keeps them, read and set without running any code of its class."""

from __future__ import annotations

from functools import lru_cache
from types import MemberDescriptorType
from typing import Any


def put(target: Any, name: str, value: Any) -> None:
    """Set an attribute."""
    cls: Any = type(target)
    slot = slots(cls).get(name)
    if slot is not None:
        slot.__set__(target, value)
    else:
        object.__getattribute__(target, "__dict__")[name] = value


@lru_cache(maxsize=256)
def slots(cls: Any) -> dict[str, Any]:
    """The slots that instances of a class have, by their names."""
    named = {name: each for base in reversed(type.mro(cls)) for name, each in vars(base).items()}
    return {name: each for name, each in named.items() if isinstance(each, MemberDescriptorType)}


def held_by(value: Any) -> dict[str, Any]:
    """The attributes of an object."""
    cls: Any = type(value)
    held = {name: slot.__get__(value) for name, slot in slots(cls).items() if _is_filled(slot, value)}
    try:
        return {**held, **object.__getattribute__(value, "__dict__")}
    except AttributeError:
        return held


def _is_filled(slot: Any, value: Any) -> bool:
    try:
        slot.__get__(value)
    except AttributeError:
        return False
    return True
