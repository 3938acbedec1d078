"""What does a session cost? Time and bytes a step at several lengths, next to what else could keep the run.

    pip install langgraph-checkpoint-sqlite openai-agents     # optional: without them the rest is measured
    python benchmarks/journal_cost.py [lengths …]

The claims, with observations of 10 kB:

- The database's share of a step costs at step 5,000 at most 1.5 × what it costs at step 10; the search for edits and
  the matching of input messages, which grow with the memory, are printed beside it.
- At every length above 50 a step costs less than LangGraph's saver takes for it (`put_writes` and `put`).
- On disk, after a checkpoint, at most 1.3 × the distinct content; also with callbacks that edit steps.
- Restoring 1,000 steps takes at most 2 × `json.loads` of the same content plus building the same dataclasses.
- The search for edits takes at most 20 % of what smolagents spends rendering the same steps.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import json
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from histories import EDITS, Edit, LiveRun, distinct_content, make_calling_step, make_step, plain
from other_journals import Journal, LangGraph, available, checkpointed_size
from rich.console import Console
from rich.table import Table
from smolagents.memory import ActionStep, TaskStep, ToolCall
from smolagents.models import ChatMessage, MessageRole
from smolagents.monitoring import Timing, TokenUsage

from smolagents_memory import ObservedMemory, Session
from smolagents_memory.steps.edits import Snapshot
from smolagents_memory.steps.messages import MessageWriter


CONSOLE = Console(width=150)
SHORT_RUNS = 6  # a short run is over before the machine's noise is: it is made again, before and after the long one


class Claims:
    """What was said to hold, and whether it does."""

    def __init__(self) -> None:
        self.failed = 0

    def check(self, text: str, measured: float, limit: float, unit: str = "×") -> None:
        """Print a claim with what was measured."""
        holds = measured <= limit
        self.failed += not holds
        verdict = "[green]holds[/]" if holds else "[red]DOES NOT HOLD[/]"
        CONSOLE.print(f"{verdict}  {text}: {measured:.2f} {unit} (at most {limit:g})")


# -- time and bytes a step -----------------------------------------------------------------------------------------


class Stopwatch:
    """The time spent in some methods, each counted once where they call each other."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self._running = False

    def watch(self, owner: type, name: str, what: str) -> None:
        """Count the time of a method."""
        method: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(method)
        def watched(*args: Any, **options: Any) -> Any:
            if self._running:
                return method(*args, **options)
            self._running, start = True, time.perf_counter()
            try:
                return method(*args, **options)
            finally:
                self.spent[what] += time.perf_counter() - start
                self._running = False

        setattr(owner, name, watched)


STOPWATCH = Stopwatch()
STOPWATCH.watch(ObservedMemory, "_find_edits", "search")
STOPWATCH.watch(Snapshot, "take", "search")
STOPWATCH.watch(Snapshot, "differs", "search")
STOPWATCH.watch(MessageWriter, "write", "match")


@dataclasses.dataclass
class Step:
    """What one step cost, in seconds."""

    total: float
    search: float
    match: float
    rendering: float

    @property
    def database(self) -> float:
        """Everything but what grows with the memory."""
        return self.total - self.search - self.match


class OwnRun(LiveRun):
    """A run that a session keeps."""

    def __init__(self, folder: Path, edit: Edit = plain, *, stamped: bool = False) -> None:
        super().__init__(edit, stamped=stamped)
        folder.mkdir()
        self.path = folder / "memory.db"
        self.session = Session("run", f"sqlite:///{self.path}").attach(self.agent)
        self.begin()

    def measured_step(self) -> Step:
        """One more step, with an input of its own as smolagents makes it."""
        start = time.perf_counter()
        step = self.next_step(fresh=True)
        made = time.perf_counter()
        STOPWATCH.spent.clear()
        begin = time.perf_counter()
        self.take(step)
        end = time.perf_counter()
        return Step(end - begin, STOPWATCH.spent["search"], STOPWATCH.spent["match"], made - start)


def window(length: int) -> int:
    """How many steps are measured up to a length; their fresh inputs have to fit into memory."""
    return max(3, min(20, length // 2))


def own_costs(folder: Path, lengths: list[int]) -> tuple[dict[int, list[Step]], dict[int, float]]:
    """The costs of the steps up to each length, and the bytes a step."""
    costs: dict[int, list[Step]] = {length: [] for length in lengths}
    sizes: dict[int, float] = {}

    def run(name: str, lengths: list[int]) -> None:
        live = OwnRun(folder / name, plain)
        for length in lengths:
            live.grow(length - window(length))
            before = checkpointed_size(live.path)
            gc.collect()
            costs[length] += [live.measured_step() for _ in range(window(length))]
            sizes[length] = (checkpointed_size(live.path) - before) / window(length)
        live.session.detach()

    for number in range(SHORT_RUNS):
        run(f"before-{number}", lengths[:1])
    run("long", lengths)
    for number in range(SHORT_RUNS):
        run(f"after-{number}", lengths[:1])
    return costs, sizes


def other_costs(journal: type[Journal], folder: Path, lengths: list[int]) -> dict[int, tuple[float, float]]:
    """The median seconds and the bytes of a step at each length."""
    found = {}
    for length in lengths:
        place = folder / f"{journal.__name__}-{length}"
        place.mkdir()
        kept, live = journal(place), LiveRun()
        live.begin()
        live.grow(length - (samples := min(window(length), 5)))
        shown = [as_dict(message) for message in live.agent.write_memory_to_messages()]
        kept.write(kept.prepare(live.made[-1], shown, 3))  # the first write makes the file
        before, times = kept.size(), []
        for _ in range(samples):
            step = live.next_step(fresh=True)
            live.take(step)
            new = [as_dict(message) for message in step.to_messages()]
            shown += new
            prepared = kept.prepare(step, shown, len(new))
            gc.collect()
            start = time.perf_counter()
            kept.write(prepared)
            times.append(time.perf_counter() - start)
        found[length] = (statistics.median(times), (kept.size() - before) / samples)
    return found


def as_dict(message: ChatMessage) -> dict[str, Any]:
    """A message as the other journals take it."""
    return {"role": message.role.value, "content": message.content}


def compare(claims: Claims, folder: Path, lengths: list[int]) -> None:
    """Time and bytes a step, ours and theirs."""
    costs, sizes = own_costs(folder, lengths)

    def median(length: int, part: str) -> float:
        return statistics.median(getattr(step, part) for step in costs[length])

    journals, missing = available()
    others = {journal: other_costs(journal, folder, lengths) for journal in journals}
    table = Table(title="One step, with an observation of 10 kB (ms, median | kB on disk)")
    for column in ("at step", "this session", "… database", "… search", "… matching", "rendering (smolagents)"):
        table.add_column(column, justify="right")
    for journal in journals:
        table.add_column(journal.name, justify="right")
    for length in lengths:
        parts = [f"{1e3 * median(length, part):.2f}" for part in ("database", "search", "match", "rendering")]
        theirs = [f"{1e3 * others[each][length][0]:.2f} | {others[each][length][1] / 1e3:,.1f}" for each in journals]
        ours = f"{1e3 * median(length, 'total'):.2f} | {sizes[length] / 1e3:,.1f}"
        table.add_row(f"{length:,}", ours, *parts, *theirs)
    CONSOLE.print(table)
    CONSOLE.print(
        "Up to each length the steps measured have inputs of their own, as smolagents makes them; those before share "
        "the messages (5,000 inputs of their own would take 375 GB). JSON and pickle append the new step alone; the "
        "other journals are given the messages as dicts.",
        style="dim",
    )
    for name in missing:
        CONSOLE.print(f"[yellow]not installed, not compared:[/] {name}")
    ratio = median(lengths[-1], "database") / median(lengths[0], "database")
    claims.check(f"the database's share of step {lengths[-1]:,} to that of step {lengths[0]}", ratio, 1.5)
    for length in lengths if LangGraph in others else ():
        if length > 50:
            ratio = median(length, "total") / others[LangGraph][length][0]
            claims.check(f"a step to LangGraph's put_writes and put at {length:,} steps", ratio, 1.0)


# -- bytes ---------------------------------------------------------------------------------------------------------


def bytes_on_disk(claims: Claims, folder: Path, lengths: list[int]) -> None:
    """The whole database, next to the distinct content."""
    table = Table(title="Bytes on disk after a checkpoint, as a ratio to the distinct content")
    for column in ("what callbacks do", *(f"{length:,} steps" for length in lengths)):
        table.add_column(column, justify="right")
    worst = 0.0
    empty = OwnRun(folder / "empty")
    empty.session.detach()
    for name, edit, stamped in [
        *((n, e, False) for n, e in EDITS.items()),
        *((f"{n}, times stamped", EDITS[n], True) for n in ("plain", "truncation slides")),
    ]:
        cells = []
        for length in lengths:
            live = OwnRun(folder / f"{name}-{length}", edit, stamped=stamped)
            live.grow(length)
            live.session.detach()
            ratio = checkpointed_size(live.path) / distinct_content(live.agent.memory.system_prompt, live.made)
            worst = max(worst, ratio)
            cells.append(f"{ratio:.2f}")
        table.add_row(name, *cells)
    CONSOLE.print(table)
    CONSOLE.print(f"A database with one task in it has {checkpointed_size(empty.path) / 1e3:.0f} kB.", style="dim")
    claims.check("bytes on disk to distinct content, at worst", worst, 1.3)


# -- restoring -----------------------------------------------------------------------------------------------------


def restoring(claims: Claims, folder: Path, count: int) -> None:
    """Restoring a session, next to reading the same from JSON."""
    live = OwnRun(folder / "restored")
    live.grow(count)
    live.session.detach()
    text = json.dumps([plain_fields(step) for step in live.made])
    again = LiveRun()
    own, baseline = [], []
    for _ in range(9):
        gc.collect()
        start = time.perf_counter()
        built = [build(fields) for fields in json.loads(text)]
        baseline.append(time.perf_counter() - start)
        again.agent.memory.reset()
        gc.collect()
        start = time.perf_counter()
        live.session.restore(again.agent)
        own.append(time.perf_counter() - start)
        assert [step.observations for step in built[1:]] == [
            step.observations for step in again.agent.memory.steps[1:]
        ]
    ours, theirs = statistics.median(own), statistics.median(baseline)
    CONSOLE.print(f"restoring {count:,} steps: {1e3 * ours:.1f} ms; json.loads and building: {1e3 * theirs:.1f} ms")
    claims.check(f"restoring {count:,} steps to json.loads plus building the same dataclasses", ours / theirs, 2.0)


def plain_fields(step: Any) -> dict[str, Any]:
    """A step's content without its input messages, which the other side does not read."""
    fields = {name: value for name, value in vars(step).items() if name != "model_input_messages"}
    return json.loads(
        json.dumps(fields, default=lambda value: vars(value) if not isinstance(value, MessageRole) else value.value)
    )


def build(fields: dict[str, Any]) -> Any:
    """The step of such content."""
    if "task" in fields:
        return TaskStep(**fields)
    fields["timing"] = Timing(**fields["timing"])
    fields["tool_calls"] = [ToolCall(**call) for call in fields["tool_calls"]]
    message, usage = fields["model_output_message"], fields["token_usage"]
    usage.pop("total_tokens"), message["token_usage"].pop("total_tokens")
    message["role"], message["token_usage"] = MessageRole(message["role"]), TokenUsage(**message["token_usage"])
    fields["model_output_message"], fields["token_usage"] = ChatMessage(**message), TokenUsage(**usage)
    return ActionStep(**fields)


# -- the search for edits ------------------------------------------------------------------------------------------


def searching(claims: Claims, lengths: list[int]) -> None:
    """The search for edits, next to what smolagents does at every step anyway: rendering the same steps."""
    table = Table(title="Search for edits (CPU, median)")
    for column in ("steps like those of a", "steps", "search ms", "rendering ms", "share"):
        table.add_column(column, justify="right")
    worst = 0.0
    for kind, make in (("CodeAgent", make_step), ("ToolCallingAgent", make_calling_step)):
        for length in lengths:
            rng, live = random.Random(0), LiveRun()
            live.agent.memory = memory = ObservedMemory("You are an expert assistant. " * 200)
            memory.steps = [make(number, rng) for number in range(1, length + 1)]
            memory.on("*", lambda event: None)
            search, rendering, held = [], [], []
            gc.collect()
            for _ in range(20):
                start = time.thread_time()
                held.append(live.agent.write_memory_to_messages())  # held, as a step holds its input
                between = time.thread_time()
                memory._find_edits()
                search.append(time.thread_time() - between)
                rendering.append(between - start)
            share = statistics.median(search) / statistics.median(rendering)
            worst = max(worst, share)
            cells = (f"{1e3 * statistics.median(each):.3f}" for each in (search, rendering))
            table.add_row(kind, f"{length:,}", *cells, f"{share:.1%}")
    CONSOLE.print(table)
    claims.check("the search for edits to rendering the same steps, at worst", 100 * worst, 20, "%")


def main(lengths: list[int]) -> bool:
    """Print all; whether every claim holds."""
    claims = Claims()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        searching(claims, [100, 1_000, 5_000])
        restoring(claims, folder, 1_000)
        bytes_on_disk(claims, folder, [100, 1_000])
        compare(claims, folder, lengths)
    return not claims.failed


if __name__ == "__main__":
    sys.exit(not main([int(argument) for argument in sys.argv[1:]] or [10, 100, 1_000, 5_000]))
