"""What an EnhancedAgentMemory does by itself: recall for a new task, learn from a finished run, notice what helped."""

from __future__ import annotations

import copy
import hashlib
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from smolagents.memory import ActionStep, MemoryStep, TaskStep

from smolagents_memory._brief import brief
from smolagents_memory._errors import AttachError, SmolagentsMemoryError, UnsupportedValueError
from smolagents_memory._events import Event
from smolagents_memory._listener import INTERRUPTED, Listener, Run, ToolCall, stopping
from smolagents_memory._log import logger
from smolagents_memory.memory.experiences import experiences, lessons
from smolagents_memory.memory.items import Memory
from smolagents_memory.memory.provenance import SOMEBODY, Trail, all_read, asks, begin, call_by, end, listening_outside
from smolagents_memory.memory.quoting import quoted, stands_in, without_recalled
from smolagents_memory.memory.reviewing import actions, clipped, runs
from smolagents_memory.memory.unwritten import Unwritten
from smolagents_memory.search.parts import bounded_query
from smolagents_memory.search.words import query_words
from smolagents_memory.steps.answers import outcome
from smolagents_memory.steps.kinds import is_action, is_task
from smolagents_memory.steps.marks import as_it_came, mark_of, returned_text
from smolagents_memory.steps.notes import NoteStep
from smolagents_memory.steps.texts import left_of, texts_in
from smolagents_memory.stores.records import Record
from smolagents_memory.upstream import given_task, watch, words_round_reports


if TYPE_CHECKING:
    from smolagents_memory.memory.enhanced import EnhancedAgentMemory


SURE = 0.6  # the relevance that one memory must reach before any is brought back unasked
RELEVANT = 0.3  # and what the others must reach that come with it
_READ = 20_000  # characters of what a step says, or of a memory, that are looked through for words in common
_PARENTS = 100  # recalled memories at most that one is made of
_USED = 0.3  # the share of a memory's own words that the next step must hold for it to have been of use


class Learning(Listener):
    """The habits of one memory. None of them ever disturbs a run: what fails is logged."""

    def __init__(
        self,
        memory: EnhancedAgentMemory,
        *,
        auto_recall: int,
        recall_on: str,
        budget: int,
        learn: bool,
        reflector: Any,
        trusted: frozenset[str],
    ) -> None:
        if not isinstance(recall_on, str) or recall_on not in ("task", "step"):
            raise UnsupportedValueError(f"recall_on is 'task' or 'step', not {brief(recall_on)}")
        for what, given in (("auto_recall", auto_recall), ("budget", budget)):
            if not isinstance(given, int) or isinstance(given, bool) or given < 0:
                raise UnsupportedValueError(
                    f"{what} is a whole number from 0, not {brief(given)}; nothing was attached"
                )
        self._memory = memory
        self._auto_recall, self._recall_on, self._budget = auto_recall, recall_on, budget
        self._learn, self._reflector = learn, reflector
        self._unwritten = Unwritten(memory.long_term)
        self._trusted = trusted
        self._lock = threading.RLock()
        self._learnt: tuple[Any, Any] = (None, None)  # the task whose run was learnt from last, and up to which action
        self._came: tuple[Any, str] = (None, "")  # a step that callbacks are about to change, and its text
        self._added_to: dict[int, tuple[Any, str]] = {}  # steps to which callbacks added something, and what came back
        self._waiting: list[tuple[set[str], Memory]] = []  # recalled, and not yet seen in use
        self._agent: Callable[[], Any] = lambda: None  # a weak reference to the agent that it serves
        self._off_watch: Callable[[], None] = lambda: None
        self._running: set[Run] = set()
        self.trail = Trail(self._served)
        self._off: Any = None

    def attach(self, agent: Any) -> None:
        """Watch the runs of an agent."""
        self._running.clear()
        self._added_to.clear()
        self._waiting.clear()
        self.trail = Trail(self._served)
        self._agent = weakref.ref(agent)
        self._off = self._memory.on("steps_changed", self._changed)
        self._know_managers(agent)
        self._take_stock(agent)
        self._off_watch = watch(agent, self)  # which tells of the run that goes on, if any does

    def _know_managers(self, agent: Any) -> None:
        """Nobody saw what a manager had read when it gave a task, or variables, before now."""
        if getattr(agent, "name", None):
            self.trail.sends(agent, [SOMEBODY])
        steps = list(self._memory.steps)
        if any(is_task(step) and self._is_given(step) for step in steps):
            self.trail.came([SOMEBODY])
            for step in steps:
                self.trail.follow(step, given=is_task(step) and self._is_given(step))

    def _take_stock(self, agent: Any, *, sent: bool = False) -> None:
        """Know whose text is in the prompt and in the variables, also where nobody has seen it come."""
        self.trail.sends(agent, anew=sent)
        for step in list(self._memory.steps):
            self.trail.follow(step)
        self.trail.take_stock(agent)

    def _served(self) -> list[Any]:
        return [agent for agent in [self._agent()] if agent is not None]

    def serves(self, agent: Any) -> bool:
        """Whether it is this agent's."""
        return agent is not None and self._agent() is agent

    def close(self) -> None:
        """Learn what is left, and leave the agent alone."""
        self.learn()
        self.leave()

    def leave(self) -> None:
        """Leave the agent alone."""
        self._off_watch()
        self._agent = self._off_watch = lambda: None
        if self._off is not None:
            self._off()
            self._off = None

    def memory_replaced(self, agent: Any, before: Any) -> None:
        """Somebody took the memory off the agent: learn what is left, and say that this was it."""
        if agent.memory is self._memory:
            if getattr(before, "heard", False):
                logger.warning(
                    "somebody listens to the memory that the agent had before, and hears nothing any more: listen to "
                    "the new one, agent.memory.on(…)"
                )
        elif self.serves(agent):
            logger.warning(
                "agent.memory is a %s now: the EnhancedAgentMemory that was there recalls and learns no more for this "
                "agent. Set its steps instead (agent.memory.steps = …)",
                type(agent.memory).__name__,
            )
            self._memory.detach()

    # -- a run's course ----------------------------------------------------------------------------------------

    def run_announced(self, run: Run) -> None:
        """One at a time: of two the steps would be mixed."""
        if run.beside:
            run.refuse(
                AttachError(
                    "this agent is in the middle of a run in another thread, and the steps of both would be mixed: "
                    "this run was not begun. Wait for the other, or give each thread an agent and a memory of its own"
                )
            )

    def run_overtaken(self, run: Run) -> None:
        """Nor may two take turns."""
        run.refuse(
            AttachError(
                "another run of this agent has begun since this one stopped between two steps, and the steps of both "
                "would be mixed: this one does not go on. Let one end before the next begins, or give each an agent "
                "and a memory of its own"
            )
        )

    def run_begins(self, run: Run) -> None:
        """Recall for its task, unless that was done before."""
        self._running.add(run)
        if not run.goes_on:
            self._added_to.clear()
        self._take_stock(run.agent, sent=not (run.goes_on or run.stepwise))
        task, since = _newest_task(self._memory.steps)
        if task is not None and all(getattr(step, "kind", None) == "restored" for step in since):
            self._bring(self._given(task).task)

    def _follow(self, step: MemoryStep) -> None:
        """Know what was read when a step came into memory: with a task that another agent gives, all that it read."""
        outside, given = (listening_outside(self), self._is_given(step)) if is_task(step) else (None, False)
        if isinstance(outside, Learning):
            self.trail.came(outside.trail.have_read(call_by(outside)))
        if given and not asks(outside, self._agent()):
            self.trail.came([SOMEBODY])  # a manager that no memory follows: nobody saw what it had read
        given = given or outside is not None
        if given:
            self.trail.sends(self._agent(), self.trail.have_read())
        self.trail.follow(step, given=given)

    def tool_call_begins(self, call: ToolCall) -> None:
        """What a tool of ours does now, it does for this agent."""
        begin(self, call)

    def tool_call_ends(self, call: ToolCall) -> None:
        """Note whose text came."""
        end(self, call)
        self.trail.called(call, self._memory.steps)

    def run_ends(self, run: Run) -> None:
        """Learn from it."""
        if run in self._running:
            self._running.remove(run)
            if run.overtaken:
                return  # the newest task is another one's, which is learnt from when it ends
            self.learn(asking=run.outcome != INTERRUPTED)

    def _changed(self, event: Event) -> None:
        if event.reset:
            self.learn(event.removed)
            self.trail.reset()
        for step in event.added:
            self._follow(step)
        if len(event.added) != 1 or not self._running:
            return
        step = event.added[0]
        if is_action(step):
            self._notice_use(step)
            if self._recall_on == "step" and not getattr(step, "is_final_answer", False):
                task, _ = _newest_task(self._memory.steps)
                came = returned_text(self._unchanged(step)) or (str(step.error) if step.error else "")
                self._bring(f"{clipped(self._given(task).task if task else '', 400)}\n{clipped(came, 600)}")

    # -- recall by itself --------------------------------------------------------------------------------------

    def _bring(self, query: str) -> None:
        if self._auto_recall <= 0:
            return
        long_term = self._memory.long_term
        try:
            new = long_term.recall(
                query,
                self._auto_recall,
                min_relevance=RELEVANT,
                sure=SURE,
                trusted=self._trusted,
                unless=self._standing(),
            )
        except SmolagentsMemoryError as error:
            logger.warning("nothing was recalled for the task: %s", error)
            return
        text, kept = quoted(new, long_term.clock(), self._budget)
        if not kept:
            return
        keys = [memory.key for memory in kept]
        self.recalled(kept, query)
        self._memory.steps.append(NoteStep(text, kind="recalled", created=long_term.clock(), meta={"keys": keys}))

    def _standing(self) -> Callable[[Record], bool]:
        """Whether the prompt holds what a memory says: what it has lost since may come again."""
        memory, texts, names = self._memory, list[str](), set[str]()

        def stands(record: Record) -> bool:
            if not texts:  # not looked for before something was found
                shown = (text for step in [memory.system_prompt, *memory.steps] for text in texts_in(step))
                texts.extend(map(memory.long_term.said.query, shown))
                names.update(_name_of(task, run) for task, run in runs(memory.steps) if task is not None)
            return record.source in names or stands_in(texts, str(record.value))

        return stands

    def recalled(self, memories: Sequence[Memory], query: str) -> None:
        """Memories went to the model: they are not learnt again, and their use is looked for."""
        if self._running:
            self.trail.recalled(memories)
        self._memory.long_term.just_recalled.extend(str(memory.value) for memory in memories)
        asked = set(query_words(bounded_query(query)))
        with self._lock:
            for memory in memories:
                own = {
                    word
                    for word in query_words(clipped(str(memory.value), _READ))
                    if word not in asked and len(word) > 2
                }
                if own:
                    self._waiting.append((own, memory))

    def _notice_use(self, step: ActionStep) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        said = [
            *(str(action) for action in actions([step])),
            str(step.action_output or ""),
            str(step.model_output or ""),
        ]
        told = self._memory.long_term.said.query(" ".join(clipped(each, _READ) for each in said))
        words = set(query_words(without_recalled(told, ())))
        for own, memory in waiting:
            if len(own & words) >= max(1, _USED * min(len(own), 20)):
                self._memory.long_term.feedback(memory.key, True)

    # -- what was said by nobody -------------------------------------------------------------------------------

    def before_callbacks(self, agent: Any, step: MemoryStep) -> None:
        """What came back in the step is known, and kept, before callbacks cut it or add to it."""
        self.trail.follow(step, agent)
        self._came = step, returned_text(step)

    def after_callbacks(self, agent: Any, step: MemoryStep) -> None:
        """Where they added to it, what is left of what came back is what is learnt."""
        before, came = self._came
        self._came = None, ""
        if before is step and came and came != (now := returned_text(step)):
            self._added_to[id(step)] = step, left_of(came, now, cut=mark_of(step, "cut_from") is not None)

    def _unchanged(self, step: Any) -> Any:
        """The step without what callbacks added."""
        known, came = self._added_to.get(id(step), (None, None))
        return as_it_came(step, came if known is step else None)

    def _is_given(self, task: Any) -> bool:
        """Whether a manager gave it, and not a person."""
        return self._given(task) is not task

    def _given(self, task: TaskStep) -> TaskStep:
        """The task without what a manager's template says round it."""
        text = given_task(self._agent(), task.task)
        if text == task.task:
            return task
        given = copy.copy(task)
        given.task = text
        return given

    # -- learning ----------------------------------------------------------------------------------------------

    def learn(self, steps: Sequence[MemoryStep] | None = None, *, asking: bool = True) -> list[str]:
        """Keep what the last task's run taught, once; returns the keys. A model is asked only if `asking`."""
        if not self._learn:
            return []
        steps = list(self._memory.steps if steps is None else steps)
        for step in steps:
            self.trail.follow(step)
        task, run = _newest_task(steps)
        last = next((step for step in reversed(run) if is_action(step)), None)
        with self._lock:
            new = last is not None and not (self._learnt[0] is task and self._learnt[1] is last)
            tell = self._told(task, run) if task is not None and new else None
            self._learnt = (task, last) if new else self._learnt
        keys = self._unwritten.write()
        if tell is not None and self._reflector is not None and asking and not stopping():
            self._unwritten.add(tell())
            keys += self._unwritten.write()
        self._settle(keys)
        return keys

    def _settle(self, keys: Sequence[str]) -> None:
        """What earlier runs left already is one memory, and not one more that stands before all others."""
        if stopping():
            return  # it is done after the next run
        try:
            self._memory.long_term.settle(keys)
        except SmolagentsMemoryError as error:
            logger.warning("what this run taught once more stands beside what it taught before: %s", error)

    def _told(self, task: TaskStep, run: list[MemoryStep]) -> Callable[[], list[dict[str, Any]]]:
        """Have the plain experiences of a run written; what gives its lessons, if they are wanted."""
        long_term, source = self._memory.long_term, _name_of(task, run)
        task, run = self._given(task), [self._unchanged(step) for step in run]
        solved, recalled = outcome(run)[0] is not None, list(long_term.just_recalled)
        frames = words_round_reports(self._agent())

        def clean(text: str) -> str:
            for words in frames:
                text = text.replace(words, "")
            return without_recalled(long_term.said.text(text), recalled)  # before it is clipped: not in two

        def complete(item: Mapping[str, Any]) -> dict[str, Any]:
            meta = {**(item.get("meta") or {}), "solved": solved}
            return {**item, "made_of": self._made_of(item), "source": source, "meta": meta}

        def distilled() -> list[dict[str, Any]]:
            read = all_read((task, *run))
            mark = {"origin": "tool", "tools": read} if read else {"origin": "agent"}
            return [complete({**lesson, **mark}) for lesson in lessons(self._reflector, task, run, clean)]

        self._unwritten.add([complete(item) for item in experiences(task, run, clean, self._trusted)])
        long_term.just_recalled.clear()
        return distilled

    def _made_of(self, item: Mapping[str, Any]) -> list[str]:
        """What was recalled before it was written; where that is not trusted, what was done is told without it."""
        told_plainly = self.trail.have_read() and not item.get("tools")
        return [] if told_plainly else list(self.trail.memories)[-_PARENTS:]


def _name_of(task: TaskStep, run: Sequence[MemoryStep]) -> str:
    """What a run is called as a source: the same as long as its task and its first action stand in memory."""
    first = next(filter(is_action, run), None)
    begun = f"{task.task}\0{getattr(getattr(first, 'timing', None), 'start_time', None)}"
    return f"run {hashlib.sha256(begun.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def _newest_task(steps: Sequence[MemoryStep]) -> tuple[TaskStep | None, list[MemoryStep]]:
    """The last task that was given, and the steps since."""
    at = next((at for at in range(len(steps) - 1, -1, -1) if is_task(steps[at])), None)
    return (None, []) if at is None else (steps[at], list(steps[at + 1 :]))
