"""The program itself: its options, how it prints, and how it says what went wrong."""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer
from rich.console import Console
from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from smolagents_memory import __version__
from smolagents_memory._errors import SmolagentsMemoryError
from smolagents_memory.database.passwords import shown, shown_url


class _Commands(TyperGroup):
    """All of them; what is wrong with the arguments is said without the passwords in them."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        with _passwords_left_out():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        with _passwords_left_out():
            return super().invoke(ctx)


@contextmanager
def _passwords_left_out() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # its class is that of the copy of click that typer brings
        if isinstance(message := getattr(error, "message", None), str):
            error.message = shown(message)  # type: ignore[attr-defined]
        raise


app = typer.Typer(
    name="smolagents-memory",
    cls=_Commands,
    help="Memory for smolagents agents: look at sessions, carry them about, search what was learnt.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Storage = Annotated[
    str,
    typer.Option(
        "--storage",
        "-s",
        envvar="SMOLAGENTS_MEMORY",
        help="A folder with a memory.db, a file, or a database URL; for memories also a store's.",
        show_default=True,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before anything is destroyed or replaced.")]
SessionId = Annotated[str, typer.Argument(help="The session's id.", show_default=False)]

KeyFile = Annotated[
    str | None,
    typer.Option(
        "--key-file",
        envvar="SMOLAGENTS_MEMORY_KEY_FILE",
        help="Of a sealed place: the file with its master key. A passphrase is taken from the environment alone: "
        "SMOLAGENTS_MEMORY_PASSPHRASE.",
        show_default=False,
    ),
]
KeyringAt = Annotated[
    str | None,
    typer.Option(
        "--keyring",
        envvar="SMOLAGENTS_MEMORY_KEYRING",
        help="Of a sealed place: where its keys are, a folder or a database URL.",
        show_default=False,
    ),
]

STORAGE = "agent_memory"
Command = TypeVar("Command", bound=Callable[..., Any])
_KEYS = {"key_file": KeyFile, "keyring": KeyringAt}


def command(name: str, group: typer.Typer = app) -> Callable[[Command], Command]:
    """Register a command, maybe of a group, whose errors are told in a sentence, not in a traceback.

    One that takes a storage takes its keys as well, and is handed a `Place` with its seal where these were given. Who
    makes keys names these options itself, and is handed what was given.
    """

    def register(function: Command) -> Command:
        taken = inspect.signature(function, eval_str=True)
        with_keys = "storage" in taken.parameters and not _KEYS.keys() & taken.parameters.keys()

        @functools.wraps(function)
        def guarded(*args: Any, **options: Any) -> Any:
            try:
                if with_keys:
                    keys = {each: options.pop(each, None) for each in _KEYS}
                    options["storage"] = _sealed(options["storage"], **keys)
                return function(*args, **options)
            except (SmolagentsMemoryError, OSError, ValueError) as error:
                fail(str(error))

        if with_keys:
            more = [
                inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
                for each, option in _KEYS.items()
            ]
            guarded.__signature__ = taken.replace(parameters=[*taken.parameters.values(), *more])  # type: ignore[attr-defined]
            guarded.__annotations__ = {**function.__annotations__, **_KEYS}
        group.command(name)(guarded)
        return function

    return register


def _sealed(storage: str, **keys: str | None) -> Any:
    from smolagents_memory.cli.seals import sealed_place  # what a seal needs is imported where there may be one

    return sealed_place(storage, **keys)


def fail(message: str) -> NoReturn:
    """Say what is wrong and leave with exit code 1."""
    message = shown(message)  # whoever it is that says it
    Screen(stderr=True, soft_wrap=True).print(Text("error: ", style="bold red").append(Text(message, style="default")))
    raise typer.Exit(1)


def named(storage: Any) -> str:
    """A place as it may be shown: without its password."""
    return shown_url(str(storage))


class Screen(Console):
    """A terminal to which nobody's text speaks but as text: control characters in it are shown, not sent."""

    def render(self, *given: Any, **options: Any) -> Iterable[Segment]:
        for segment in super().render(*given, **options):
            yield segment if segment.control else Segment(segment.text.translate(_SHOWN), segment.style)


_CONTROLS = {*range(0x20), *range(0x7F, 0xA0)} - {ord("\n"), ord("\t")}
_SHOWN = {each: chr(0x2400 + each) if each < 0x20 else "\N{REPLACEMENT CHARACTER}" for each in _CONTROLS}


def console() -> Screen:
    """Where results are printed."""
    return Screen(soft_wrap=not sys.stdout.isatty())


def print_json(value: Any) -> None:
    """Print a result for programs: UTF-8 JSON on one line a record where it is a list."""
    typer.echo(json.dumps(value, ensure_ascii=True, default=str, indent=2))


def print_table(columns: list[str], rows: list[list[Any]], empty: str) -> None:
    """Print a result for people. What agents wrote is shown as text, never as markup."""
    if not rows:
        console().print(Text(empty, style="dim"))
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    console().print(table)


def say(text: str) -> None:
    """A sentence for people."""
    console().print(Text(text))


def tell(text: str, data: Any, as_json: bool) -> None:
    """What was done: a sentence for people, or data for programs."""
    if as_json:
        print_json(data)
    else:
        say(text)


def confirm(question: str, yes: bool) -> None:
    """Ask before anything is destroyed; without a terminal `--yes` is needed."""
    if yes:
        return
    if not sys.stdin.isatty():
        fail(f"{question} Nothing was done: add --yes to go ahead without being asked")
    if not typer.confirm(question):
        say("Nothing was done.")
        raise typer.Exit(1)


def confirm_replacing(path: Path, yes: bool) -> None:
    """Ask before a file that is there is replaced. Every command that writes a file does."""
    if path.exists():
        confirm(f"There is a file {str(path)!r} already, which will be replaced. Go ahead?", yes)


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
    """Memory for smolagents agents: look at sessions, carry them about, search what was learnt."""


@command("demo")
def demo(
    folder: Annotated[Path, typer.Option(help="Where to keep what the demo saves.")] = Path("agent_memory"),
    mode: Annotated[
        str, typer.Option("--demo-mode", "--demo_mode", help="full, replay, inject or step_by_step.")
    ] = "full",
    model: Annotated[
        str | None, typer.Option(help="A real model, such as ollama_chat/llama3.2; without it a script plays.")
    ] = None,
    api_base: Annotated[
        str | None, typer.Option(help="The URL of Ollama, or of a server that speaks OpenAI's protocol.")
    ] = None,
) -> None:
    """Watch an agent being killed, resumed, and remembering; offline unless a model is named.

    Example: smolagents-memory demo --demo-mode inject
    """
    from smolagents_memory.demo import run_demo

    raise typer.Exit(run_demo(folder, mode=mode, model=model, api_base=api_base))


def main() -> None:
    """The entry point of the `smolagents-memory` command."""
    rooms = ("sessions", "memories", "people", "key_commands", "doctor")  # in the order in which the help lists them
    for commands in rooms:
        import_module(f"smolagents_memory.cli.{commands}")
    app()
