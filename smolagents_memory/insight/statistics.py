"""Figures over a memory: what it holds, how well the tools did, what it cost, how it grows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text
from smolagents.memory import MemoryStep

from smolagents_memory.insight.conversation import duration
from smolagents_memory.insight.recorded import Source, read_memory
from smolagents_memory.insight.trace import moves_of
from smolagents_memory.steps.calls import calls_made
from smolagents_memory.steps.code_calls import names_called
from smolagents_memory.steps.kinds import is_action, is_models
from smolagents_memory.steps.texts import role_name, shown, text_of
from smolagents_memory.steps.tokens import image_bytes, input_copy_bytes, text_bytes


_TITLES = {"messages": "Messages", "tools": "Tools", "steps": "Steps", "tokens": "Tokens", "memory_size": "Size"}


@dataclass(frozen=True)
class MessageFigures:
    """Messages as the model reads them; lengths in characters."""

    total_messages: int
    by_role: dict[str, int]
    average_length: dict[str, float]


@dataclass(frozen=True)
class ToolFigures:
    """Calls that the model made. `in_code` counts, by tool, those written in its code (read, not observed)."""

    total_executions: int
    success_rate: float | None
    avg_execution_time: float | None
    tool_usage: dict[str, int]
    failures: dict[str, int]
    in_code: dict[str, int]


@dataclass(frozen=True)
class StepFigures:
    """Steps by class, errors by class, and moves of reasoning by type."""

    total_steps: int
    by_kind: dict[str, int]
    errors: dict[str, int]
    step_distribution: dict[str, int]


@dataclass(frozen=True)
class TokenFigures:
    """Tokens as the model counted them. `by_step` has (position, in, out) for each step that says so."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    by_step: list[tuple[int, int, int]]
    steps_without_count: int


@dataclass(frozen=True)
class SizeFigures:
    """Sizes in kB of 1024 bytes: the text that the model reads, images (each once), and the copies of earlier
    messages that every step keeps of what its model call was sent."""

    text_kb: float
    images_kb: float
    input_copies_kb: float
    total_kb: float


@dataclass(frozen=True)
class MemoryStats:
    """What `analyze` found. Print it for a table; `to_dict()` gives it as JSON.

    Attributes:
        messages, tools, steps, tokens, memory_size: The figures, by subject.
        growth: How many bytes of text each step adds to the prompt, by position.
        seconds: From the beginning of the first step to the end of the last, if the steps say so.
        analysis_timestamp: When the figures were taken, in ISO form.
    """

    messages: MessageFigures
    tools: ToolFigures
    steps: StepFigures
    tokens: TokenFigures
    memory_size: SizeFigures
    growth: list[int]
    seconds: float | None
    analysis_timestamp: str

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data that `json.dumps` takes."""
        plain = asdict(self)
        plain["tokens"]["by_step"] = [list(row) for row in self.tokens.by_step]
        return plain

    def __rich__(self) -> Table:
        return _table([("", self.to_dict())])

    def __str__(self) -> str:
        return _printed(self.__rich__())


@dataclass(frozen=True)
class Comparison:
    """Two MemoryStats beside each other. Print it for a table; `to_dict()` gives {figure: {a, b, difference}}."""

    a: MemoryStats
    b: MemoryStats

    def to_dict(self) -> dict[str, dict[str, float | None]]:
        """Every figure that is a number in either, with the difference b - a; what one lacks counts as nothing."""
        left, right = dict(_flat(self.a.to_dict())), dict(_flat(self.b.to_dict()))
        rows: dict[str, dict[str, float | None]] = {}
        for names in dict.fromkeys((*left, *right)):
            a, b = left.get(names), right.get(names)
            if isinstance(a, (int, float)) or isinstance(b, (int, float)):
                rows[".".join(names)] = {"a": a, "b": b, "difference": (b or 0) - (a or 0)}
        return rows

    def __rich__(self) -> Table:
        return _table([("a", self.a.to_dict()), ("b", self.b.to_dict())])

    def __str__(self) -> str:
        return _printed(self.__rich__())


def analyze(memory: Source) -> MemoryStats:
    """The figures of an agent, a memory, a session, a file or a list of steps.

    >>> from smolagents import CodeAgent
    >>> from smolagents_memory.testing import ScriptedModel, code
    >>> agent = CodeAgent([], ScriptedModel([code("1 / 0"), code("final_answer(42)")]), verbosity_level=-1)
    >>> agent.run("Divide.")
    42
    >>> stats = analyze(agent)
    >>> stats.tools.success_rate, stats.steps.errors, stats.messages.by_role["user"]
    (0.5, {'AgentExecutionError': 1}, 1)
    """
    recorded = read_memory(memory)
    seen = _Seen(recorded.tools)
    if recorded.system_prompt is not None:
        seen.message("system", recorded.system_prompt)
    for step in recorded.steps:  # in one pass that keeps nothing but sums: of a long history every copy is felt
        seen.step(step)
    sizes = (seen.text, image_bytes(recorded.steps), input_copy_bytes(recorded.steps))
    return MemoryStats(
        messages=seen.message_figures(),
        tools=seen.tool_figures(),
        steps=StepFigures(len(recorded.steps), dict(seen.kinds), dict(seen.errors), dict(seen.moves)),
        tokens=_token_figures(recorded.steps),
        memory_size=SizeFigures(*(size / 1024 for size in (*sizes, sum(sizes)))),
        growth=seen.growth,
        seconds=_seconds(recorded.steps),
        analysis_timestamp=datetime.now(timezone.utc).isoformat(),
    )


def compare(a: Source | MemoryStats, b: Source | MemoryStats) -> Comparison:
    """Two memories, or two MemoryStats, beside each other.

    >>> from smolagents.memory import TaskStep
    >>> compare([TaskStep("Count.")], [TaskStep("Count."), TaskStep("Again.")]).to_dict()["steps.total_steps"]
    {'a': 1, 'b': 2, 'difference': 1}
    """
    return Comparison(*(each if isinstance(each, MemoryStats) else analyze(each) for each in (a, b)))


class _Seen:
    """What one pass over the steps counts."""

    def __init__(self, tools: Mapping[str, Sequence[str]]) -> None:
        self._tools = tools
        self._roles: Counter[str] = Counter()
        self._lengths: Counter[str] = Counter()
        self._used: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._in_code: Counter[str] = Counter()
        self._times: list[float] = []
        self.kinds: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.moves: Counter[str] = Counter()
        self.growth: list[int] = []
        self.text = 0

    def message(self, role: str, content: str) -> None:
        """Count a message that the model reads."""
        self._roles[role] += 1
        self._lengths[role] += len(content)
        self.text += text_bytes(content)

    def step(self, step: MemoryStep) -> None:
        """Count a step: what it shows, what it called, how it went."""
        before = self.text
        for message in shown(step):
            self.message(role_name(message.role), text_of(message.content))
        self.growth.append(self.text - before)
        self.kinds[type(step).__name__] += 1
        calls = list(calls_made(step)) if is_action(step) else []
        for move in moves_of(step, calls):
            self.moves[move.step_type] += 1
        if not is_action(step):
            return
        if step.error is not None:
            self.errors[type(step.error).__name__] += 1
        for call in calls:
            self._used[call.tool] += 1
            if call.error is not None:
                self._failed[call.tool] += 1
        took = duration(step)
        if took is not None:
            self._times += [took] * len(calls)
        if isinstance(step.code_action, str):
            self._in_code.update(names_called(step.code_action, self._tools))

    def message_figures(self) -> MessageFigures:
        """The messages that were counted."""
        average = {role: self._lengths[role] / count for role, count in self._roles.items()}
        return MessageFigures(self._roles.total(), dict(self._roles), average)

    def tool_figures(self) -> ToolFigures:
        """The calls that were counted."""
        made = self._used.total()
        return ToolFigures(
            total_executions=made,
            success_rate=1 - self._failed.total() / made if made else None,
            avg_execution_time=sum(self._times) / len(self._times) if self._times else None,
            tool_usage=dict(self._used),
            failures=dict(self._failed),
            in_code=dict(self._in_code),
        )


def _token_figures(steps: Sequence[MemoryStep]) -> TokenFigures:
    rows, missing = [], 0
    for index, step in enumerate(steps):
        usage = getattr(step, "token_usage", None)
        if usage is not None:
            rows.append((index, usage.input_tokens or 0, usage.output_tokens or 0))
        elif is_models(step):
            missing += 1
    into, out = sum(row[1] for row in rows), sum(row[2] for row in rows)
    return TokenFigures(into, out, into + out, rows, missing)


def _seconds(steps: Sequence[MemoryStep]) -> float | None:
    timings = [step.timing for step in steps if getattr(step, "timing", None) is not None]
    begun = [timing.start_time for timing in timings if timing.start_time is not None]
    ended = [timing.end_time for timing in timings if timing.end_time is not None]
    return max(ended) - min(begun) if begun and ended else None


def _flat(figures: dict[str, Any], *before: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every figure by the names that lead to it; lists are none."""
    for name, value in figures.items():
        if isinstance(value, dict):
            yield from _flat(value, *before, name)
        elif not isinstance(value, list):
            yield (*before, name), value


def _table(columns: Sequence[tuple[str, dict[str, Any]]]) -> Table:
    """One column of figures for each MemoryStats, given as (heading, its dict)."""
    table = Table(title="Memory", title_justify="left")
    table.add_column("")
    for heading, _ in columns:
        table.add_column(Text(heading), justify="right")
    for key, title in _TITLES.items():
        table.add_section()
        table.add_row(Text(title, style="bold"))
        rows = [dict(_flat(figures[key])) for _, figures in columns]
        for names in dict.fromkeys(names for column in rows for names in column):
            label = ": ".join((names[0].replace("_", " "), *names[1:]))
            table.add_row(Text(f"  {label}"), *(Text(_shown(column.get(names))) for column in rows))
    return table


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"


def _printed(table: Table) -> str:
    console = Console(width=100, color_system=None)
    with console.capture() as shown:
        console.print(table)
    return shown.get()
