"""Where a memory comes from and what it was made of: read from what is remembered, inherited, and followed to revoke.

What tools returned is not taken for the agent's own: it has the trust 0 and comes when asked for. So has what was made
of it, until a person confirms that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from smolagents_memory._brief import brief
from smolagents_memory._errors import UnsupportedValueError
from smolagents_memory.stores.records import MEMORIES, ORIGINS, REPLACES, SOURCES, TOOLS, UNCONFIRMED, USUAL, Record


def provenance_in(given: Mapping[str, Any]) -> tuple[str, int, dict[str, list[str]]]:
    """Origin, trust and what it was made of, of one thing to remember.

    >>> provenance_in({"text": "It rains.", "origin": "tool", "source": "weather"})
    ('tool', 0, {'tools': ['weather']})
    """
    origin = given.get("origin") or ("document" if given.get("kind") == "document" else "user")
    trust = given.get("trust", USUAL)
    if not isinstance(origin, str) or origin not in ORIGINS:
        raise UnsupportedValueError(
            f"an origin is one of {', '.join(ORIGINS)}, not {brief(origin)}; nothing was written"
        )
    if not isinstance(trust, int) or isinstance(trust, bool) or trust not in (UNCONFIRMED, USUAL):
        raise UnsupportedValueError(
            f"a trust is 0 (comes when asked for) or 1 (unasked, too), not {brief(trust)}; confirm() gives more. "
            "Nothing was written"
        )
    tools = _names("tools", given.get("tools") or getattr(given["text"], "tools", None))
    if origin == "tool" and not tools and given.get("source"):
        tools = [given["source"]]
    memories = _names("made_of", given.get("made_of"))
    sources = _names("sources", given.get("sources"))  # what had been read: revoked with it, and trusted all the same
    replaces = _names("replaces", given.get("replaces"))
    parts = ((TOOLS, tools), (MEMORIES, memories), (SOURCES, sources), (REPLACES, replaces))
    made = {name: each for name, each in parts if each}
    return origin, UNCONFIRMED if tools or origin == "tool" else trust, made


def _names(what: str, given: Any) -> list[str]:
    names = [given] if isinstance(given, str) else _listed([] if given is None else given)
    if names is None or not all(isinstance(name, str) and name for name in names):
        raise UnsupportedValueError(f"{what} is a list of names, not {brief(given)}; nothing was written")
    return list(dict.fromkeys(names))


def _listed(given: Any) -> list[Any] | None:
    return list(given) if isinstance(given, Iterable) else None


def inherit(records: Sequence[Record], look_up: Callable[[Iterable[str]], Mapping[str, Record]]) -> None:
    """Give what was made of other memories their tools and sources, and no more trust than theirs."""
    keys = {key for record in records for key in record.made_of.get(MEMORIES, ())}
    parents = look_up(keys) if keys else {}
    for record in records if keys else ():
        for parent in filter(None, map(parents.get, record.made_of.get(MEMORIES, ()))):
            record.trust = min(record.trust, parent.trust)
            _add(record, TOOLS, parent.tools)
            _add(record, SOURCES, [parent.source] if parent.source else [])


def _add(record: Record, what: str, names: Iterable[str]) -> None:
    if every := list(dict.fromkeys([*record.made_of.get(what, ()), *names])):
        record.made_of[what] = every


def made_of(records: Iterable[Record], source: str | None, key: str | None) -> list[str]:
    """The keys of what came from a source or tool, or of one memory, and of all that was made of that."""
    found: dict[str, None] = {}
    children: dict[str, list[str]] = defaultdict(list)
    for record in records:
        for parent in record.made_of.get(MEMORIES, ()):
            children[parent].append(record.key)
        if record.key == key or (source is not None and _comes_from(record, source)):
            found[record.key] = None
    waiting = list(found)
    if key is not None and key not in found:
        waiting.append(key)  # it is gone, and what was made of it may be there
    while waiting:
        for child in children[waiting.pop()]:
            if child not in found:
                found[child] = None
                waiting.append(child)
    return list(found)


def _comes_from(record: Record, source: str) -> bool:
    of = record.made_of
    return record.source == source or source in of.get(TOOLS, ()) or source in of.get(SOURCES, ())


def tool_names(given: Any) -> frozenset[str]:
    """The names of tools that were given as names or as tools.

    >>> sorted(tool_names(["weather", "calendar"]))
    ['calendar', 'weather']
    """
    each = [given] if isinstance(given, str) or hasattr(given, "name") else _listed(given or ())
    names = [tool if isinstance(tool, str) else getattr(tool, "name", None) for tool in each or ()]
    if each is None or not all(isinstance(name, str) and name for name in names):
        raise UnsupportedValueError(f"trusted_tools are tools or their names, not {brief(given)}")
    return frozenset(map(str, names))
