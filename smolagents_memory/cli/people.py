"""Commands over the people of whom something is kept."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from smolagents_memory.cli import app
from smolagents_memory.cli.app import STORAGE, AsJson, Storage, Yes, command
from smolagents_memory.cli.sessions import shown_time


people = typer.Typer(no_args_is_help=True, help="All that is kept of a person: listed, exported, erased.")
app.app.add_typer(people, name="people")

User = Annotated[str, typer.Argument(help="The person, as `people list` names them.", show_default=False)]


def _people(storage: str) -> Any:
    from smolagents_memory.people.persons import People

    found = People(storage)
    path = found.database.path
    if path is not None and not path.exists():
        app.fail(f"there is no memory in {app.named(storage)!r} ({path} does not exist); name it with --storage")
    return found


@command("list", people)
def list_(storage: Storage = STORAGE, as_json: AsJson = False) -> None:
    """List everybody of whom something is kept: how many sessions and memories, and since when.

    Example: smolagents-memory people list --storage agent_memory
    """
    found = _people(storage).list()
    if as_json:
        app.print_json([dataclasses.asdict(each) for each in found])
        return
    rows = [[p.user, p.sessions, p.memories, shown_time(p.first), shown_time(p.last)] for p in found]
    app.print_table(["user", "sessions", "memories", "first", "last"], rows, "Nothing is kept of anybody.")


@command("export", people)
def export(
    user: User,
    path: Annotated[Path, typer.Argument(help="The .zip archive to write.", show_default=False)],
    storage: Storage = STORAGE,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Write all that is kept of a person into one archive: JSON Lines, pictures, and a README.

    Example: smolagents-memory people export ann ann.zip
    """
    found = _people(storage)
    app.confirm_replacing(path, yes)
    written = found.export(user, path)
    size = written.stat().st_size
    told = f"All that is kept of {user!r} is in {written} ({size:,} bytes)."
    app.tell(told, {"user": user, "path": str(written), "bytes": size}, as_json)


@command("erase", people)
def erase(user: User, storage: Storage = STORAGE, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete all that is kept of a person, leave no byte of it in the files, and search them for what is left.

    Leaves with exit code 1 if anything is. Where the name stands in what is somebody else's is listed, and left alone.

    Example: smolagents-memory people erase ann --yes
    """
    found = _people(storage)
    there = next((each for each in found.list() if each.user == user), None)
    if there is not None:
        app.confirm(
            f"{there.sessions} sessions and {there.memories} memories of {user!r} will be deleted for good. Go ahead?",
            yes,
        )
    report = found.erase(user)
    if as_json:
        app.print_json(dataclasses.asdict(report))
    else:
        _say(report)
    if report.left:
        raise typer.Exit(1)


def _say(report: Any) -> None:
    app.say(f"{str(report)[0].upper()}{str(report)[1:]}.")
    for heading, found in (("left", report.left), ("in what is not theirs", report.elsewhere)):
        if found:
            app.print_table([heading, "where"], [[each.what, each.where] for each in found], "")
    if report.beyond:
        app.say("Not reached: " + "; ".join(report.beyond) + ".")
