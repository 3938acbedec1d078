"""What does a session cost? Time and bytes a step at several lengths, next to what else could keep the run.

    pip install langgraph-checkpoint-sqlite openai-agents     # optional: without them the rest is measured
    python benchmarks/journal_cost.py [lengths …]

The claims, with observations of 10 kB:

- The database's share of a step costs at step 5,000 at most 1.5 × what it costs at step 10; the search for edits and
  the matching of input messages, which grow with the memory, are printed beside it.
- At every length above 50 a step costs less than LangGraph's saver takes for it (`put_writes` and `put`).
- On disk, after a checkpoint, at most 1.3 × the distinct content; also with callbacks that edit steps. Of ordinary
  texts (pieces of this project's pages; all else here is noise that nothing packs) at most 0.6 ×.
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
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from histories import EDITS, Edit, LiveRun, distinct_content, make_calling_step, make_step, noise, plain, talk
from other_journals import Journal, LangGraph, available, checkpointed_size
from rich.console import Console
from rich.table import Table
from smolagents.memory import ActionStep, TaskStep, ToolCall
from smolagents.models import ChatMessage, MessageRole
from smolagents.monitoring import Timing, TokenUsage

from smolagents_memory import ObservedMemory, Session
from smolagents_memory.database.places import Durability
from smolagents_memory.history.changes import Snapshot
from smolagents_memory.history.message_writing import MessageWriter


CONSOLE = Console(width=140)
# between two steps a model is at work, for seconds: the processor's caches then hold other things, at any length
MODEL_AT_WORK = b"model" * (16 << 20)


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

    def __init__(
        self,
        folder: Path,
        edit: Edit = plain,
        *,
        stamped: bool = False,
        durability: Durability = "power",
        text: Callable[[random.Random, int], str] = noise,
    ) -> None:
        super().__init__(edit, stamped=stamped, text=text)
        folder.mkdir()
        self.path = folder / "memory.db"
        self.session = Session("run", f"sqlite:///{self.path}", durability=durability).attach(self.agent)
        self.begin()

    def ratio(self) -> float:
        """The bytes on disk next to the distinct content."""
        return checkpointed_size(self.path) / distinct_content(self.agent.memory.system_prompt, self.made)

    def measured_step(self) -> Step:
        """One more step, with an input of its own as smolagents makes it."""
        MODEL_AT_WORK.count(b"x")
        start = time.perf_counter()
        step = self.next_step(fresh=True)
        made = time.perf_counter()
        MODEL_AT_WORK.count(b"x")
        STOPWATCH.spent.clear()
        begin = time.perf_counter()
        self.take(step)
        end = time.perf_counter()
        return Step(end - begin, STOPWATCH.spent["search"], STOPWATCH.spent["match"], made - start)


class Compared:
    """Ours, the others, and the tenth step of other sessions, in turn: the machine's noise meets all alike."""

    def __init__(self, folder: Path, journals: list[type[Journal]], lengths: list[int]) -> None:
        self.alone: dict[int, list[Step]] = defaultdict(list)
        self.tenth: dict[int, list[Step]] = defaultdict(list)
        self.beside: dict[int, list[Step]] = defaultdict(list)
        self.others: dict[tuple[type[Journal], int], list[float]] = defaultdict(list)
        self.bytes: dict[tuple[type | None, int], float] = {}
        self._folder, self._journals = folder, journals
        live = OwnRun(folder / "long")
        for length in lengths:
            beside, alone = min(8, length // 2), max(3, min(30, length // 4))  # their inputs have to fit into memory
            live.grow(length - alone - beside)
            self._beside_others(live, length, beside)
            self._beside_short_runs(live, length, alone)
        live.session.detach()

    def _beside_others(self, live: OwnRun, length: int, count: int) -> None:
        shown = [as_dict(message) for message in live.agent.write_memory_to_messages()]
        others = {}
        for kind in self._journals:
            place = self._folder / f"{kind.__name__}-{length}"
            place.mkdir()
            others[kind] = kind(place)
            others[kind].write(others[kind].prepare(live.made[-1], shown, 3))  # the first write makes the file
        before = {kind: each.size() for kind, each in others.items()}
        gc.collect()
        for _ in range(count):
            self.beside[length].append(live.measured_step())
            step = live.made[-1]
            new = [as_dict(message) for message in step.to_messages()]
            shown += new
            for kind, each in others.items():
                prepared = each.prepare(step, shown, len(new))
                start = time.perf_counter()
                each.write(prepared)
                self.others[kind, length].append(time.perf_counter() - start)
        for kind, each in others.items():
            self.bytes[kind, length] = (each.size() - before[kind]) / count

    def _beside_short_runs(self, live: OwnRun, length: int, count: int) -> None:
        before = checkpointed_size(live.path)
        for number in range(max(count, 9)):
            if number < count:
                self.alone[length].append(live.measured_step())
            short = OwnRun(self._folder / f"tenth-{length}-{number}")
            short.grow(9)
            self.tenth[length].append(short.measured_step())
            short.session.detach()
        self.bytes[None, length] = (checkpointed_size(live.path) - before) / count

    def ours(self, length: int, part: str) -> float:
        """The median of a part of our steps, in seconds."""
        return median(self.alone[length], part)

    def theirs(self, kind: type[Journal], length: int) -> float:
        """The median of the others' steps."""
        return statistics.median(self.others[kind, length])


def median(steps: list[Step], part: str) -> float:
    """The median of a part of what steps cost."""
    return statistics.median(getattr(step, part) for step in steps)


def as_dict(message: ChatMessage) -> dict[str, Any]:
    """A message as the other journals take it."""
    return {"role": message.role.value, "content": message.content}


def compare(claims: Claims, folder: Path, lengths: list[int]) -> None:
    """Time and bytes a step, ours and theirs."""
    journals, missing = available()
    found = Compared(folder, journals, lengths)
    table = Table(title="One step, with an observation of 10 kB: ms (median), kB on disk")
    for column in ("at step", "this session", "of it database", "search", "matching", "smolagents' rendering"):
        table.add_column(column, justify="right")
    for journal in journals:
        table.add_column(journal.name, justify="right")
    for length in lengths:
        parts = [f"{1e3 * found.ours(length, part):.2f}" for part in ("database", "search", "match", "rendering")]
        theirs = [cell(found.theirs(each, length), found.bytes[each, length]) for each in journals]
        table.add_row(f"{length:,}", cell(found.ours(length, "total"), found.bytes[None, length]), *parts, *theirs)
    CONSOLE.print(table)
    CONSOLE.print(
        "Up to each length the steps measured have inputs of their own, as smolagents makes them; those before share "
        "the messages (5,000 inputs of their own would take 375 GB). JSON and pickle append the new step alone; the "
        "other journals are given the messages as dicts.",
        style="dim",
    )
    for name in missing:
        CONSOLE.print(f"[yellow]not installed, not compared:[/] {name}")
    for length in lengths[1:]:
        ratio = found.ours(length, "database") / median(found.tenth[length], "database")
        claims.check(f"the database's share of step {length:,} to that of step 10", ratio, 1.5)
    for length in lengths if LangGraph in journals else ():
        if length > 50:
            ratio = median(found.beside[length], "total") / found.theirs(LangGraph, length)
            claims.check(f"a step to LangGraph's put_writes and put at {length:,} steps", ratio, 1.0)


def cell(seconds: float, size: float) -> str:
    """A time and a size for the table."""
    return f"{1e3 * seconds:.2f}\n{size / 1e3:,.1f} kB"


# -- bytes ---------------------------------------------------------------------------------------------------------


def bytes_on_disk(claims: Claims, folder: Path, lengths: list[int]) -> None:
    """The whole database, next to the distinct content."""
    table = Table(title="Bytes on disk after a checkpoint, as a ratio to the distinct content")
    for column in ("what callbacks do", *(f"{length:,} steps" for length in lengths)):
        table.add_column(column, justify="right")
    worst = 0.0
    empty = OwnRun(folder / "empty")
    empty.session.detach()
    stamped = [f"{name}, times stamped" for name in EDITS]
    for name in [*EDITS, *stamped]:
        edit, cells = EDITS[name.removesuffix(", times stamped")], []
        for length in lengths:
            live = OwnRun(folder / f"{name}-{length}", edit, stamped=name in stamped, durability="process")
            live.grow(length)
            live.session.detach()
            worst = max(worst, live.ratio())
            cells.append(f"{live.ratio():.2f}")
        table.add_row(name, *cells)
    ordinary = OwnRun(folder / "ordinary", text=talk, durability="process")
    ordinary.grow(lengths[-1])
    ordinary.session.detach()
    table.add_row("plain, of ordinary texts", *[""] * (len(lengths) - 1), f"{ordinary.ratio():.2f}")
    CONSOLE.print(table)
    CONSOLE.print(f"A database with one task in it has {checkpointed_size(empty.path) / 1e3:.0f} kB.", style="dim")
    claims.check("bytes on disk to distinct content, at worst", worst, 1.3)
    claims.check("bytes on disk to distinct content, of ordinary texts", ordinary.ratio(), 0.6)


# -- restoring -----------------------------------------------------------------------------------------------------


def restoring(claims: Claims, folder: Path, count: int) -> None:
    """Restoring a session, next to reading the same from JSON."""
    live = OwnRun(folder / "restored")
    live.grow(count)
    live.session.detach()
    messages = [plain_fields(message) for message in live.agent.write_memory_to_messages()]
    steps = [plain_fields(step) for step in live.made]
    texts = {"whole": json.dumps([messages, steps]), "alone": json.dumps([[], steps])}
    again, times = LiveRun(), defaultdict(list)
    for _ in range(9):
        for name, text in texts.items():
            gc.collect()
            start = time.perf_counter()
            built = built_from(text)
            times[name].append(time.perf_counter() - start)
        again.agent.memory.reset()
        gc.collect()
        start = time.perf_counter()
        live.session.restore(again.agent)
        times["own"].append(time.perf_counter() - start)
        assert [vars(step.timing) for step in built[1:]] == [vars(s.timing) for s in again.agent.memory.steps[1:]]
    own, whole, alone = (statistics.median(times[name]) for name in ("own", "whole", "alone"))
    CONSOLE.print(
        f"Restoring {count:,} steps takes {1e3 * own:.1f} ms; json.loads and building the same dataclasses "
        f"{1e3 * whole:.1f} ms, without the input messages {1e3 * alone:.1f} ms ({own / alone:.2f} ×)."
    )
    claims.check(f"restoring {count:,} steps to json.loads plus building the same dataclasses", own / whole, 2.0)


def plain_fields(value: Any) -> dict[str, Any]:
    """A step's or a message's content as JSON would have it. Each input is the beginning of the last one: its length
    is enough; what is written is the messages, each once."""
    fields = dict(vars(value))
    if "model_input_messages" in fields:
        fields["model_input_messages"] = len(fields["model_input_messages"])
    return dict(json.loads(json.dumps(fields, default=vars)))


def built_from(text: str) -> list[Any]:
    """The steps of such JSON."""
    messages, steps = json.loads(text)
    shown = [ChatMessage(**{**fields, "role": MessageRole(fields["role"])}) for fields in messages]
    return [build(fields, shown) for fields in steps]


def build(fields: dict[str, Any], shown: list[ChatMessage]) -> Any:
    """A step."""
    if "task" in fields:
        return TaskStep(**fields)
    fields["timing"] = Timing(**fields["timing"])
    fields["tool_calls"] = [ToolCall(**call) for call in fields["tool_calls"]]
    fields["model_input_messages"] = shown[: fields["model_input_messages"]]
    message, usage = fields["model_output_message"], fields["token_usage"]
    del usage["total_tokens"], message["token_usage"]["total_tokens"]
    message["role"], message["token_usage"] = MessageRole(message["role"]), TokenUsage(**message["token_usage"])
    fields["model_output_message"], fields["token_usage"] = ChatMessage(**message), TokenUsage(**usage)
    return ActionStep(**fields)


# -- the search for edits ------------------------------------------------------------------------------------------


def searching(claims: Claims, lengths: list[int]) -> None:
    """The search for edits, next to what smolagents does at every step anyway: rendering the same steps."""
    table = Table(title="Search for edits: ms of CPU (median)")
    for column in ("steps like those of a", "steps", "search", "rendering", "share", "share, both with cold caches"):
        table.add_column(column, justify="right")
    worst = 0.0
    for kind, make in (("CodeAgent", make_step), ("ToolCallingAgent", make_calling_step)):
        for length in lengths:
            rng, live = random.Random(0), LiveRun()
            live.agent.memory = memory = ObservedMemory("You are an expert assistant. " * 200)
            memory.steps = [make(number, rng) for number in range(1, length + 1)]
            memory.on("*", lambda event: None)
            search, rendering = searched(live.agent, cold=False)
            cold_search, cold_rendering = searched(live.agent, cold=True)
            worst = max(worst, search / rendering)
            shares = (f"{search / rendering:.1%}", f"{cold_search / cold_rendering:.1%}")
            table.add_row(kind, f"{length:,}", f"{1e3 * search:.3f}", f"{1e3 * rendering:.3f}", *shares)
    CONSOLE.print(table)
    claims.check("the search for edits to rendering the same steps, at worst", 100 * worst, 20, "%")


def searched(agent: Any, *, cold: bool) -> tuple[float, float]:
    """The median seconds of the search for edits, and of rendering the same steps."""
    search, rendering, held = [], [], []
    gc.collect()
    for _ in range(min(101, 15 + 5_000 // len(agent.memory.steps))):
        if cold:
            MODEL_AT_WORK.count(b"x")
        start = time.thread_time()
        held.append(agent.write_memory_to_messages())  # held, as a step holds its input
        rendering.append(time.thread_time() - start)
        if cold:
            MODEL_AT_WORK.count(b"x")
        start = time.thread_time()
        agent.memory._find_edits()
        search.append(time.thread_time() - start)
    return statistics.median(search), statistics.median(rendering)


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
