"""Commands over sessions."""

from __future__ import annotations

import dataclasses
import datetime as dt
from pathlib import Path
from typing import Annotated, Any

import typer

from smolagents_memory.cli import app
from smolagents_memory.cli.app import STORAGE, AsJson, SessionId, Storage, Yes, command


PathOut = Annotated[Path, typer.Argument(help="The file to write; .gz packs it.", show_default=False)]


def _manager(storage: Any, *, must_exist: bool = True) -> Any:
    from smolagents_memory.sessions.manager import SessionManager

    manager = SessionManager(storage)
    path = manager.database.path
    if must_exist and path is not None and not path.exists():
        app.fail(
            f"there is no memory in {app.named(storage)!r} ({path} does not exist); name the place with --storage"
        )
    return manager


def _session(storage: Any, session_id: str) -> Any:
    session = _manager(storage).session(session_id)
    if not session.exists():
        app.fail(
            f"there is no session {session_id!r} in {app.named(storage)!r}; `smolagents-memory sessions` names all"
        )
    return session


def _source(storage: Any, source: str) -> Any:
    """A session, or a file: a sealed one is opened with the keys that were given."""
    from smolagents_memory.history.files import load_memory
    from smolagents_memory.history.sealed_files import is_sealed

    path = Path(source)
    if not path.is_file():
        return _session(storage, source)
    return load_memory(path, seal=getattr(storage, "seal", None)) if is_sealed(path) else source


def shown_time(seconds: float | None) -> str:
    """A time as people read it, by their own clock."""
    return "" if seconds is None else dt.datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")


@command("sessions")
def sessions(
    user: Annotated[str | None, typer.Option(help="Only this person's.", show_default=False)] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", help="Only those with this tag; may be given several times.", show_default=False),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Only those with this in their title.", show_default=False)] = None,
    storage: Storage = STORAGE,
    as_json: AsJson = False,
) -> None:
    """List sessions, the one that was used last first.

    Example: smolagents-memory sessions --user ann --tag travel
    """
    found = _manager(storage).sessions(user=user, tags=tag or (), title=title)
    if as_json:
        app.print_json([dataclasses.asdict(info) for info in found])
        return
    columns = {
        "session": [i.session_id for i in found],
        "user": [i.user for i in found],
        "title": [i.title for i in found],
        "tags": [", ".join(i.tags) for i in found],
        "state": [i.state for i in found],
        "last used": [shown_time(i.updated) for i in found],
        "runs": [i.runs for i in found],
        "steps": [i.steps for i in found],
        "tokens in/out": [f"{i.input_tokens:,}/{i.output_tokens:,}" for i in found],
        "last task": [i.last_task for i in found],
    }
    shown = [name for name, cells in columns.items() if name not in ("user", "title", "tags") or any(cells)]
    rows = [list(row) for row in zip(*(columns[name] for name in shown), strict=True)]
    filtered = user is not None or bool(tag) or title is not None
    app.print_table(shown, rows, "No sessions that fit." if filtered else "No sessions yet.")


@command("show")
def show(
    session_id: SessionId,
    storage: Storage = STORAGE,
    run: Annotated[int | None, typer.Option(help="What an earlier run left, by its number.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show a session: its runs, and every step that was journaled, as it came, as a report in Markdown.

    Example: smolagents-memory show user-42 --run 1
    """
    from smolagents_memory.codec.encoding import encode_step
    from smolagents_memory.insight.report import to_markdown
    from smolagents_memory.sessions.transcript import JournaledStep

    session = _session(storage, session_id)
    told = list(session.transcript()) if run is None else [JournaledStep(step, step) for step in session.steps(run)]
    if as_json:
        runs = [dataclasses.asdict(each) for each in session.runs()]
        steps = [{**encode_step(each.original), "left": each.left, "run": each.run or run} for each in told]
        labels = {"user": session.user, "title": session.title, "tags": session.tags}
        app.print_json({"session": session_id, **labels, "runs": runs, "steps": steps})
        return
    labels = {"user": session.user, "title": session.title, "tags": ", ".join(session.tags)}
    for name, label in labels.items():
        if label:
            app.say(f"{name}: {label}")
    rows = [[r.number, r.state, shown_time(r.started), r.steps, r.task, r.error or r.answer] for r in session.runs()]
    app.print_table(["run", "state", "started", "steps", "task", "answer or error"], rows, "No runs yet.")
    dropped, changed = (sum(each.left == how for each in told) for how in ("dropped", "changed"))
    if dropped or changed:
        app.say(
            f"\n{len(told)} steps, each as it came; of these {dropped} were dropped from the agent's memory and "
            f"{changed} changed there."
        )
    steps = [each.original for each in told]
    app.console().print()
    app.console().print(to_markdown(steps, title=f"Session {session_id}"), markup=False, highlight=False)


@command("replay")
def replay(
    source: Annotated[str, typer.Argument(help="A session's id, or a memory file.", show_default=False)],
    storage: Storage = STORAGE,
    speed: Annotated[float | None, typer.Option(help="1 for the pace of the run; without it all at once.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show a session or a file on the terminal as the agent's own logger showed it, each step as it came.

    Example: smolagents-memory replay user-42 --speed 10
    """
    from smolagents import AgentLogger, LogLevel

    from smolagents_memory.insight.conversation import conversation
    from smolagents_memory.insight.playback import replay as play
    from smolagents_memory.insight.recorded import read_all

    told: Any = read_all(_source(storage, source))
    if as_json:
        app.print_json([{"role": str(m.role), "content": m.content} for m in conversation(told)])
        return
    play(told, speed, logger=AgentLogger(level=LogLevel.INFO, console=app.Screen()))


@command("export")
def export(
    session_id: SessionId,
    path: PathOut,
    all_steps: Annotated[
        bool, typer.Option("--all", help="Every step that was journaled, as it came, instead of what is in memory.")
    ] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="For everybody to read, also where the place is sealed.")
    ] = False,
    storage: Storage = STORAGE,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Write a session's memory as a portable file: sealed with the keys of the place, where that is sealed.

    Example: smolagents-memory export user-42 user-42.jsonl.gz --all
    """
    session = _session(storage, session_id)
    app.confirm_replacing(path, yes)
    written = session.export(path, all_steps=all_steps, seal=False if plain else None)
    _tell_written(f"Session {session_id!r}", written, as_json)


def _tell_written(what: str, path: Path, as_json: bool) -> None:
    size = path.stat().st_size
    app.tell(f"{what} is in {path} ({size:,} bytes).", {"path": str(path), "bytes": size}, as_json)


@command("import")
def import_(
    session_id: SessionId,
    path: Annotated[Path, typer.Argument(help="A portable file, or an old dump of steps.", show_default=False)],
    storage: Storage = STORAGE,
    recover: Annotated[bool, typer.Option(help="Of a damaged file, take the steps before the damage.")] = False,
    as_json: AsJson = False,
) -> None:
    """Begin a session with the memory of a file. A sealed one is opened with the keys of the place.

    Example: smolagents-memory import user-42 user-42.jsonl.gz
    """
    session = _manager(storage, must_exist=False).session(session_id).import_(path, recover=recover)
    count = len(session.steps())
    app.tell(f"Session {session_id!r} begins with {count} steps.", {"session": session_id, "steps": count}, as_json)


@command("fork")
def fork(
    session_id: SessionId,
    new_id: Annotated[str, typer.Argument(help="The id of the new session.", show_default=False)],
    at: Annotated[int | None, typer.Option(help="As it was when the step at this place was journaled.")] = None,
    storage: Storage = STORAGE,
    as_json: AsJson = False,
) -> None:
    """Begin a new session that goes on from an old one.

    Example: smolagents-memory fork user-42 user-42-what-if --at 3
    """
    count = len(_session(storage, session_id).fork(new_id, at).steps())
    told = f"Session {new_id!r} begins with {count} steps of {session_id!r}."
    app.tell(told, {"session": new_id, "steps": count}, as_json)


@command("delete")
def delete(
    session_id: SessionId,
    storage: Storage = STORAGE,
    purge: Annotated[bool, typer.Option(help="Make sure that no byte of it is left in the files.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete a session and those of its managed agents' calls.

    Example: smolagents-memory delete user-42 --purge --yes
    """
    session = _session(storage, session_id)
    app.confirm(f"Session {session_id!r} with {len(session.steps())} steps will be deleted. Go ahead?", yes)
    session.delete()
    if purge:
        with app.console().status("purging …"):
            _manager(storage).purge()
    told = f"Session {session_id!r} is deleted{' and purged' if purge else ''}."
    app.tell(told, {"deleted": session_id, "purged": purge}, as_json)


@command("stats")
def stats(
    source: Annotated[str, typer.Argument(help="A session's id, or a memory file.", show_default=False)],
    storage: Storage = STORAGE,
    as_json: AsJson = False,
) -> None:
    """Count what is in a session or in a file: messages, tools, errors, tokens, sizes.

    Example: smolagents-memory stats user-42
    """
    from smolagents_memory.insight.statistics import analyze

    found = analyze(_source(storage, source))
    if as_json:
        app.print_json(found.to_dict())
    else:
        app.console().print(found)


@command("backup")
def backup(
    path: Annotated[Path, typer.Argument(help="The file to write.", show_default=False)],
    storage: Storage = STORAGE,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Copy the whole database into one SQLite file, also while it is in use.

    Example: smolagents-memory backup backups/monday.db
    """
    manager = _manager(storage)
    app.confirm_replacing(path, yes)
    with app.console().status("copying …"):
        written = manager.backup(path)
    _tell_written(f"A copy of {app.named(storage)!r}", written, as_json)


@command("migrate")
def migrate(storage: Storage = STORAGE, as_json: AsJson = False) -> None:
    """Bring a database to the newest schema now; opening it does the same.

    Example: smolagents-memory migrate --storage agent_memory
    """
    from smolagents_memory.database.tables import HEAD

    database = _manager(storage).database
    before = database.version()
    database.prepare()
    if as_json:
        app.print_json({"before": before, "now": HEAD})
    elif before == HEAD:
        app.say(f"{app.named(storage)!r} has the newest schema, {HEAD}.")
    else:
        app.say(f"{app.named(storage)!r} was brought from schema {before or 'none'} to {HEAD}.")
