"""A progress bar for what takes long, and none for what does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


SHOWN_FROM = 500  # steps; less is over before a bar could be read


@contextmanager
def progress(
    what: str, total: int, *, unit: str = "memories", show: bool | None = None
) -> Iterator[Callable[[int], None]]:
    """Gives a function to call with how many more are done. Shown on terminals and in notebooks only."""
    if not (total >= SHOWN_FROM if show is None else show):
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.text import Text

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not (console.is_terminal or console.is_jupyter)
    ) as bar:
        task = bar.add_task(str(Text(what)), total=total)
        yield lambda done: bar.advance(task, done)
