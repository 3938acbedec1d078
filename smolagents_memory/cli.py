"""The command line: `smolagents-memory`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from smolagents_memory import __version__


app = typer.Typer(
    name="smolagents-memory",
    help="Memory for smolagents agents.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Memory for smolagents agents."""


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Where to keep what the demo saves.")] = Path("agent_memory"),
) -> None:
    """Watch an agent being saved and loaded again, offline.

    Example: smolagents-memory demo --folder /tmp/try
    """
    from smolagents_memory.demo import run_demo

    raise typer.Exit(run_demo(folder))


def main() -> None:
    """The entry point of the `smolagents-memory` command."""
    app()
