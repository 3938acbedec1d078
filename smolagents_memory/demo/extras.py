"""What can be done with a saved run: replay it, change its memory and go on, run step by step, and count."""

from __future__ import annotations

import shlex
from pathlib import Path

from smolagents import Model
from smolagents.memory import ActionStep, MemoryStep

from smolagents_memory import (
    RecallTool,
    Run,
    Session,
    analyze,
    inject_observation,
    inject_task,
    iter_steps,
    replay,
)
from smolagents_memory.demo.screen import Screen
from smolagents_memory.demo.service import HEALTHY_CHECKS, Shop
from smolagents_memory.demo.watcher import KEEP_PICTURES, TASK, watcher
from smolagents_memory.demo.worker import database, opened_memory


TIP = "a colleague: a deployment this morning set the pool back to 5; before, it had 32 connections."


class Extras:
    """Plays with the run of Monday that the demo's folder holds."""

    def __init__(self, folder: Path, shop: Shop, url: str, model: Model, screen: Screen) -> None:
        self.folder, self.shop, self.url, self.model, self.screen = folder, shop, url, model, screen

    def play(self, mode: str) -> None:
        """One of the modes, or all of them."""
        if mode == "replay":
            self.screen.act(None, "Monday's run, replayed from the journal as the agent's logger shows it")
            replay(self.session("monday"), speed=20)
        if mode in ("inject", "full"):
            self.inject()
        if mode in ("step_by_step", "full"):
            self.step_by_step()
        if mode == "full":
            self.screen.act(None, "Both days, replayed from the journal")
            self.screen.course([(name.title(), self.session(name).steps()) for name in ("monday", "thursday")])

    def session(self, session_id: str) -> Session:
        """One of the demo's sessions."""
        return Session(session_id, database(self.folder))

    # -- change memory in the middle ---------------------------------------------------------------------------

    def inject(self) -> None:
        """Fork Monday's run where the trouble began, add what a colleague knew, and go on from there."""
        self.shop.begin(self.shop.act)
        self.shop.checks = HEALTHY_CHECKS
        monday = self.session("monday")
        steps = monday.steps()
        at = next((place for place, step in enumerate(steps) if "503" in _observed(step)), len(steps) - 1)
        self.session("what-if").delete()  # of an earlier demo
        fork = monday.fork("what-if", at=at)
        forked = f"A fork of the session at its step {steps[at].step_number}; one observation is injected:"
        self.screen.act(None, "What if? Monday again, with one thing known", forked)
        self.screen.say(TIP, "magenta")
        with opened_memory(self.folder) as memory:
            agent = watcher(self.url, self.model, pictures=False, more_tools=[RecallTool(memory)])
            with fork.attach(agent):
                inject_observation(agent, TIP)
                self.screen.steps(iter_steps(agent))
                inject_task(agent, "Write one line for the log book.")
                self.screen.say("A second task is injected: Write one line for the log book.", "magenta")
                self.screen.steps(iter_steps(agent))

    # -- one step at a time ------------------------------------------------------------------------------------

    def step_by_step(self) -> None:
        """Run an agent one step at a time, and look into its memory between two steps."""
        self.shop.begin(self.shop.act)
        self.screen.act(None, "One step at a time", "Between two steps the memory can be read, changed, or left.")
        with opened_memory(self.folder) as memory:
            agent = watcher(self.url, self.model, pictures=False, more_tools=[RecallTool(memory)])
            for step in iter_steps(agent, TASK):
                self.screen.step(step)
                sizes = analyze(agent)
                count, size = sizes.messages.total_messages, sizes.memory_size.text_kb
                self.screen.say(f"    now in memory: {count} messages, {size:.1f} kB of text")

    # -- the end -----------------------------------------------------------------------------------------------

    def summary(self, pictures: str, seconds: float) -> None:
        """What was kept, what was saved, and where to look."""
        monday, thursday = self.session("monday"), self.session("thursday")
        first, later = monday.runs()[-1], thursday.runs()[-1]
        steps = [step for step in monday.steps() if isinstance(step, ActionStep)]
        numbers = [step.step_number for step in steps]
        whole = "none lost, none taken twice" if numbers == list(range(1, len(numbers) + 1)) else str(numbers)
        spent, remembered = _tokens(first), _tokens(later)
        saved = f"{remembered:,} instead of {spent:,} ({1 - remembered / max(1, spent):.0%} saved)"
        rows = [
            ("Monday, killed and resumed", f"{first.steps} steps by several processes: {whole}"),
            ("Thursday, remembering", f"{later.steps} steps instead of {first.steps}"),
            ("tokens, estimated" if pictures != "none" else "tokens", saved),
        ]
        if pictures != "none":
            cut = 1000 * sum(max(0, before - KEEP_PICTURES) for before in range(len(steps)))
            rows.append(("pictures", f"{pictures}, {KEEP_PICTURES} at a time: {cut:,} tokens saved"))
        with opened_memory(self.folder) as memory:
            learnt = memory.stats().memories
        rows.append(("learnt", f"{learnt} memories: what failed, what then worked, how it was solved"))
        size = sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())
        rows.append(("on disk", f"{size / 1000:,.0f} kB for all sessions, pictures and memories"))
        rows.append(("time", f"{seconds:.0f} s"))
        self.screen.table("What was kept, and what it saved", rows)
        place = f"--storage {shlex.quote(str(self.folder))}"
        commands = [
            ("the sessions", f"smolagents-memory sessions {place}"),
            ("Monday as a report", f"smolagents-memory show monday {place}"),
            ("... as it looked", f"smolagents-memory replay monday {place}"),
            ("what was learnt", f"smolagents-memory search 'shop answers 503' {place}"),
            ("other modes", "smolagents-memory demo --demo-mode replay|inject|step_by_step"),
        ]
        self.screen.table("Where to look", commands, style="cyan")


def _observed(step: MemoryStep) -> str:
    return str(getattr(step, "observations", None) or "")


def _tokens(run: Run) -> int:
    return int(run.input_tokens + run.output_tokens)
