"""Commands over long-term memory."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from smolagents_memory.cli import app
from smolagents_memory.cli.app import STORAGE, AsJson, Storage, Yes, command


Scope = Annotated[
    list[str] | None,
    typer.Option("--scope", help="Whose memories: name=value; may be given several times.", show_default=False),
]

_SHOWN = 20  # scopes in an error


@contextmanager
def _memory(storage: Any, scope: list[str] | None, *, must_exist: bool = True, vector: bool = True) -> Iterator[Any]:
    """The long-term memory of a place, open for as long as it is needed."""
    from smolagents_memory.database.places import Place
    from smolagents_memory.memory.enhanced import EnhancedAgentMemory
    from smolagents_memory.stores.opening import is_store_url

    path = None if is_store_url(storage) else Place(storage).path
    if must_exist and path is not None and not path.exists():
        app.fail(
            f"there is no memory in {app.named(storage)!r}; name the place with --storage, or remember something "
            "there first"
        )
    with EnhancedAgentMemory(storage, scope=_bound(storage, scope, must_exist), vector=vector, learn=False) as memory:
        yield memory


def _bound(storage: Any, scope: list[str] | None, must_exist: bool) -> dict[str, Any] | None:
    """The scope that was named. One that is not there is told with those that there are."""
    wanted = as_scope(scope)
    if not wanted or not must_exist:
        return wanted or None
    there = _scopes(storage)
    if any(each.scope == wanted for each in there):
        return wanted
    alike = (each.scope for each in there if {n: str(v) for n, v in (each.scope or {}).items()} == wanted)
    found: dict[str, Any] | None = next(alike, None)  # with whole numbers: a command line cannot tell them from texts
    if found is not None:
        return found
    return app.fail(f"there is no scope {' '.join(scope or ())} in {app.named(storage)!r}; {_named(there)}")


def as_scope(scope: list[str] | None) -> dict[str, Any]:
    """The scope that was named as name=value."""
    pairs = [each.partition("=") for each in scope or ()]
    wrong = ["".join(pair) for pair in pairs if not all(pair)]
    if wrong:
        app.fail(f"a scope is given as name=value, such as --scope user=ann; {wrong[0]!r} is not")
    named = [name for name, _, _ in pairs]
    if len(set(named)) < len(named):
        app.fail(f"a scope has each name once; {' '.join(scope or ())} names one twice. Nothing was done")
    return {name: value for name, _, value in pairs}


def _scopes(storage: Any) -> list[Any]:
    from smolagents_memory.database.engine import MEMORIES, Database
    from smolagents_memory.stores.bank import Bank

    return Bank(Database.at(storage, faults=MEMORIES)).scopes()


def _named(scopes: list[Any]) -> str:
    """The scopes that there are, in a sentence."""
    shown = "; ".join(str(each) for each in scopes[:_SHOWN])
    more = f"; and {len(scopes) - _SHOWN} more: smolagents-memory scopes" if len(scopes) > _SHOWN else ""
    return f"there are: {shown}{more}" if scopes else "there are no memories at all"


@command("search")
def search(
    query: Annotated[str, typer.Argument(help="What to look for, in words of your own.", show_default=False)],
    k: Annotated[int, typer.Option("-k", min=1, help="How many memories at most.")] = 5,
    explain: Annotated[bool, typer.Option(help="Show the parts of each score.")] = False,
    min_relevance: Annotated[
        float, typer.Option(min=0, max=1, help="Leave out what has probably nothing to do with it: 0.3, say.")
    ] = 0.0,
    scope: Scope = None,
    storage: Storage = STORAGE,
    as_json: AsJson = False,
) -> None:
    """Search what agents have learnt, by words and by meaning.

    Example: smolagents-memory search "why did the nightly job fail" -k 3
    """
    with _memory(storage, scope) as memory:
        hits = memory.recall(query, k, explain=explain, min_relevance=min_relevance)
    if as_json:
        parts = [{"explained": hit.parts} if explain else {} for hit in hits]
        names = ("key", "value", "score", "relevance", "meta", "origin", "trust")
        found = [{name: getattr(hit, name) for name in names} for hit in hits]
        app.print_json([{**one, **part} for one, part in zip(found, parts, strict=True)])
        return
    rows = [[f"{hit.score:.2f}", f"{hit.relevance:.2f}", hit.key, hit.value] for hit in hits]
    if explain:
        for row, hit in zip(rows, hits, strict=True):
            row.append(" ".join(f"{name} {value:.2f}" for name, value in hit.parts.items() if value))
    columns = ["score", "relevance", "key", "memory", *(["parts"] if explain else [])]
    app.print_table(columns, rows, "Nothing that fits was found.")


@command("remember")
def remember(
    text: Annotated[str | None, typer.Argument(help="What to remember.", show_default=False)] = None,
    file: Annotated[Path | None, typer.Option(help="A document to remember, in neighbouring parts.")] = None,
    importance: Annotated[float, typer.Option(min=0.0, help="How much it matters; 1 is usual.")] = 1.0,
    source: Annotated[str | None, typer.Option(help="Where it comes from.")] = None,
    origin: Annotated[str, typer.Option(help="Who wrote the text: user, agent, tool, document or import.")] = "user",
    replaces: Annotated[
        str | None, typer.Option(help="The key of a memory that is true no longer.", show_default=False)
    ] = None,
    scope: Scope = None,
    storage: Storage = STORAGE,
    as_json: AsJson = False,
) -> None:
    """Remember a text, or a document.

    Example: smolagents-memory remember "The staging server needs the VPN." --importance 2
    """
    if (text is None) == (file is None):
        app.fail('give a text, or a document with --file: smolagents-memory remember "…"')
    with _memory(storage, scope, must_exist=False) as memory:
        if file is not None:
            keys = memory.remember_document(file, source)
        else:
            keys = [
                memory.remember(text, importance=importance, source=source, origin=origin, replaces=replaces or ())
            ]
    app.tell(
        f"Remembered as {keys[0]}." if len(keys) == 1 else f"Remembered in {len(keys)} parts.", {"keys": keys}, as_json
    )


@command("memories")
def memories(
    kind: Annotated[str | None, typer.Option(help="Only those of this kind.", show_default=False)] = None,
    source: Annotated[str | None, typer.Option(help="Only those from this source.", show_default=False)] = None,
    where: Annotated[
        str | None, typer.Option(help='A filter as JSON: \'{"year": {"$gte": 2024}}\'.', show_default=False)
    ] = None,
    archived: Annotated[bool, typer.Option("--archived", help="Those that were put away, too.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="How many at most; 0 for all.")] = 50,
    scope: Scope = None,
    storage: Storage = STORAGE,
    as_json: AsJson = False,
) -> None:
    """List what is remembered, in the order in which it was.

    Example: smolagents-memory memories --kind failure --limit 20
    """
    from smolagents_memory.memory.quoting import age

    asked = {name: value for name, value in (("kind", kind), ("source", source)) if value is not None}
    wanted = {"$and": [asked, _filter(where)]}
    with _memory(storage, scope, vector=False) as memory:
        found = list(islice(memory.items(wanted, archived=None if archived else False), limit or None))
        more = (
            bool(limit) and len(found) == limit and memory.count(wanted, archived=None if archived else False) - limit
        )
        others = [] if found else memory.scopes()
    if as_json:
        names = ("key", "value", "kind", "source", "importance", "created", "archived", "pinned", "meta")
        app.print_json([{name: getattr(each, name) for name in names} for each in found])
        return
    now = time.time()
    rows = [
        [each.key, each.kind, each.source, age(now - each.created), " ".join(str(each.value).split())]
        for each in found
    ]
    app.print_table(["key", "kind", "source", "age", "memory"], rows, f"No memories that fit; {_named(others)}.")
    if more:
        app.say(f"… and {more} more: --limit 0 shows all.")


def _filter(where: str | None) -> Any:
    try:
        return {} if where is None else json.loads(where)
    except (ValueError, RecursionError) as error:
        app.fail(f'--where is JSON, such as \'{{"year": {{"$gte": 2024}}}}\' ({error})')


@command("scopes")
def scopes(storage: Storage = STORAGE, as_json: AsJson = False) -> None:
    """List whose memories there are, and how many.

    Example: smolagents-memory scopes --storage agent_memory
    """
    with _memory(storage, None, vector=False) as memory:
        found = memory.scopes()
    if as_json:
        app.print_json([asdict(each) for each in found])
        return
    rows = [[each.named, each.memories, each.archived] for each in found]
    app.print_table(["scope", "memories", "archived"], rows, "No memories yet.")


@command("forget")
def forget(
    key: Annotated[
        str | None, typer.Argument(help="The memory's key, as `memories` shows it.", show_default=False)
    ] = None,
    purge: Annotated[bool, typer.Option(help="Make sure that no byte of it is left in the files.")] = False,
    scope: Scope = None,
    yes: Yes = False,
    storage: Storage = STORAGE,
    as_json: AsJson = False,
) -> None:
    """Forget a memory for good; with --scope and no key, all memories of that scope.

    Example: smolagents-memory forget 3f9c2a --yes

    Example: smolagents-memory forget --scope user=ann
    """
    if key is None and not scope:
        app.fail("give a key, or a scope to forget as a whole: smolagents-memory forget --scope user=ann")
    with _memory(storage, scope) as memory:
        if key is None:
            told, done = _forget_scope(memory, " ".join(scope or ()), yes)
        else:
            app.confirm(f"The memory {key!r} will be deleted. Go ahead?", yes)
            if not memory.forget(key):
                app.fail(f"there is no memory {key!r}; `smolagents-memory memories` shows keys")
            told, done = f"The memory {key!r} is forgotten", {"forgotten": key}
        if purge:
            memory.purge()
    app.tell(f"{told}{' and purged' if purge else ''}.", {**done, "purged": purge}, as_json)


def _forget_scope(memory: Any, named: str, yes: bool) -> tuple[str, dict[str, Any]]:
    count = memory.count(archived=None)
    app.confirm(
        f"All {count} memories of the scope {named}, archived and pinned ones too, will be deleted. Go ahead?", yes
    )
    count = memory.clear()
    return f"{count} memories of the scope {named} are forgotten", {"forgotten": count, "scope": named}


@command("confirm")
def confirm(
    key: Annotated[str, typer.Argument(help="The memory's key, as `search` shows it.", show_default=False)],
    scope: Scope = None,
    storage: Storage = STORAGE,
    as_json: AsJson = False,
) -> None:
    """Vouch for a memory that a tool returned: from then on it may come unasked.

    Example: smolagents-memory confirm m-3f9c2a
    """
    with _memory(storage, scope) as memory:
        if not memory.confirm(key):
            app.fail(f"there is no memory {key!r}; `smolagents-memory search` shows keys")
    app.tell(f"The memory {key!r} is confirmed.", {"confirmed": key}, as_json)


@command("revoke")
def revoke(
    source: Annotated[str | None, typer.Option(help="A source: a run, a document, a tool's name.")] = None,
    key: Annotated[str | None, typer.Option(help="A memory's key instead.")] = None,
    purge: Annotated[bool, typer.Option(help="Make sure that no byte of it is left in the files.")] = False,
    scope: Scope = None,
    yes: Yes = False,
    storage: Storage = STORAGE,
    as_json: AsJson = False,
) -> None:
    """Forget what came from a source, and all that was made of it.

    Example: smolagents-memory revoke --source web_search --yes
    """
    if (source is None) == (key is None):
        app.fail("name what is revoked: --source web_search, or --key m-3f9c2a")
    with _memory(storage, scope) as memory:
        app.confirm(f"What came from {source or key!r} and all that was made of it will be deleted. Go ahead?", yes)
        gone = memory.revoke(source=source, key=key)
        if purge:
            memory.purge()
    told = (
        f"{len(gone)} {'memory is' if len(gone) == 1 else 'memories are'} forgotten{' and purged' if purge else ''}."
    )
    app.tell(told, {"revoked": gone, "purged": purge}, as_json)


@command("reindex")
def reindex(scope: Scope = None, storage: Storage = STORAGE, as_json: AsJson = False) -> None:
    """Make the vector index anew from SQL, repairing what is missing.

    Example: smolagents-memory reindex
    """
    with _memory(storage, scope) as memory:
        done = memory.reindex(show_progress=not as_json)
    app.tell("Done: " + ", ".join(f"{count} {what}" for what, count in done.items()) + ".", done, as_json)


@command("consolidate")
def consolidate(scope: Scope = None, storage: Storage = STORAGE, as_json: AsJson = False) -> None:
    """Join what is remembered more than once into one memory that says how often; `separate` undoes it.

    Example: smolagents-memory consolidate --scope user=ann
    """
    with _memory(storage, scope) as memory:
        joined = memory.consolidate(show_progress=not as_json)
    away = sum(map(len, joined.values()))
    app.tell(
        f"{away} put away for {len(joined)} that say the same.{' ' + ', '.join(joined) if joined else ''}",
        {"joined": joined},
        as_json,
    )


@command("separate")
def separate(
    key: Annotated[str, typer.Argument(help="The key of the memory that stands for others.", show_default=False)],
    scope: Scope = None,
    storage: Storage = STORAGE,
    as_json: AsJson = False,
) -> None:
    """Bring back what was put away for a memory that says the same.

    Example: smolagents-memory separate m-3f9c2a
    """
    with _memory(storage, scope) as memory:
        back = memory.separate(key)
    if not back:
        app.fail(f"the memory {key!r} stands for no others; `smolagents-memory memories --json` shows what does")
    app.tell(f"{len(back)} brought back: {', '.join(back)}.", {"separated": back}, as_json)


@command("decay")
def decay(
    purge: Annotated[
        bool, typer.Option(help="Also delete what was archived longer than the grace period ago.")
    ] = False,
    scope: Scope = None,
    yes: Yes = False,
    storage: Storage = STORAGE,
    as_json: AsJson = False,
) -> None:
    """Put away memories that have faded; they can be restored until they are purged.

    Example: smolagents-memory decay
    """
    if purge:
        app.confirm(
            "Memories that have faded will be put away, and those whose grace period is over deleted for good. Go "
            "ahead?",
            yes,
        )
    with _memory(storage, scope) as memory:
        archived = memory.decay()
        purged = memory.purge() if purge else []
    app.tell(f"{len(archived)} archived, {len(purged)} deleted.", {"archived": archived, "purged": purged}, as_json)
