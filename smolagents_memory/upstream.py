"""The only door to what smolagents does not promise: its loop, its callbacks, its executor, its templates and texts.

`watch` tells a `Listener` what an agent does. Below it stand the parts of smolagents' loop for who makes the steps
of a run one by one, and what a CodeAgent's local executor holds. Nobody else wraps an agent's method or reads what is
private there: when smolagents changes, this file and its test change.
"""

from __future__ import annotations

import functools
import inspect
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import smolagents
from smolagents import AgentError, local_python_executor, utils
from smolagents.agent_types import handle_agent_output_types
from smolagents.agents import ActionOutput, MultiStepAgent, populate_template
from smolagents.local_python_executor import LocalPythonExecutor
from smolagents.memory import (
    ActionStep,
    CallbackRegistry,
    FinalAnswerStep,
    PlanningStep,
    SystemPromptStep,
    TaskStep,
    Timing,
)
from smolagents.memory import ToolCall as AskedCall

from smolagents_memory._forks import Lock
from smolagents_memory._listener import Listener, Run, stopping
from smolagents_memory._telling import CALLBACKS, MODEL_CALLS, RUNS, TOOL_CALLS, Telling, standing_in, stood_for


_INTERRUPTED = "Agent interrupted."
_HOOKS = "_smolagents_memory"  # where an agent that is watched has its hooks
_END = object()
_TASK = "\0task\0"  # where a template puts the task

AGENT_ERRORS: dict[str, type[BaseException]] = {
    name: cls
    for name, cls in vars(utils).items()
    if isinstance(cls, type) and issubclass(cls, AgentError) and cls.__module__ == utils.__name__
}


# -- hearing of an agent -------------------------------------------------------------------------------------------


def watch(agent: Any, listener: Listener) -> Callable[[], None]:
    """Tell a listener what this agent does, until the function that is returned is called.

    Who comes in the middle of a run is told that it has begun. However many listen, the agent is wrapped once, and
    only where somebody listens; when the last one has left it is as it was. Calls in code that a remote executor runs
    are out of sight.
    """
    notice_memories()
    notice_copies()
    with _watching:
        hooks = _hooks_of(agent)
        vars(agent)[_HOOKS] = hooks
        hooks.listen(listener)
    hooks.tell_open_run(listener)

    kept = weakref.ref(hooks)  # by the agent, for as long as somebody has that one

    def off() -> None:
        hooks = kept()
        if hooks is not None:
            with _watching:
                hooks.leave(listener)

    return off


_watching = Lock()


def who_watches(agent: Any) -> list[Listener]:
    """The listeners of an agent."""
    return _hooks_of(agent).listeners


_UNTOLD = "_smolagents_memory_untold"  # where an agent that is being made has what its memory is to be told by
_LAST_MADE = "step_callbacks"  # what an agent gets after its memory


class _MemorySlot:
    """`memory` of every agent: what stands there is the agent's own, as ever; that somebody replaces it is noticed.

    A memory that wants to know on which agent it is has `placed_on(agent, before)`; what that raises puts the one
    from before back. Of an agent that is just being made it is told when somebody first asks for the memory.
    """

    def __get__(self, agent: Any, owner: Any = None) -> Any:
        if agent is None:
            return self
        held = vars(agent)
        if _UNTOLD in held and _LAST_MADE in held:
            placed_on = held.pop(_UNTOLD)
            try:
                placed_on(agent, None)
            except BaseException:
                held[_UNTOLD] = placed_on
                raise
        try:
            return held["memory"]
        except KeyError:
            raise AttributeError(f"{type(agent).__name__!r} object has no attribute 'memory'") from None

    def __set__(self, agent: Any, memory: Any) -> None:
        held = vars(agent)
        before, held["memory"] = held.get("memory"), memory
        held.pop(_UNTOLD, None)
        placed_on = getattr(memory, "placed_on", None)
        if placed_on is not None and _LAST_MADE not in held:
            held[_UNTOLD] = placed_on
        elif placed_on is not None:  # also where it stands there already: it may have let go of the agent
            try:
                placed_on(agent, None if before is memory else before)
            except BaseException:
                held["memory"] = before
                raise
        if before is not None and before is not memory:
            _hooks_of(agent).tell("memory_replaced", agent, before)

    def __delete__(self, agent: Any) -> None:
        try:
            del vars(agent)["memory"]
        except KeyError:
            raise AttributeError("memory") from None


def notice_memories() -> None:
    """From now on it is noticed when somebody gives an agent another memory. smolagents has no hook for that."""
    if "memory" not in vars(MultiStepAgent):
        MultiStepAgent.memory = _MemorySlot()


def notice_copies() -> None:
    """From now on a copy of an agent that is watched (`copy.copy`, `copy.deepcopy`, a pickle) is watched by nobody.

    What was put on the agent runs the agent itself, and so it would on the copy.
    """
    if "__reduce_ex__" not in vars(MultiStepAgent):
        MultiStepAgent.__reduce_ex__ = _reduced


def _reduced(agent: Any, protocol: Any) -> Any:
    """What Python copies of an agent: the agent as it would be if nobody watched it."""
    reduced: Any = object.__reduce_ex__(agent, protocol)
    how, made_of, *rest = reduced
    hooks = vars(agent).get(_HOOKS)
    if hooks is not None and rest and isinstance(rest[0], dict):
        rest[0] = hooks.taken_off(rest[0])
    return how, made_of, *rest


def _hooks_of(agent: Any) -> _Hooks:
    """The hooks on an agent; of one that nobody watches some that tell nobody."""
    hooks = vars(agent).get(_HOOKS)
    return hooks if hooks is not None and hooks.agent is agent else _Hooks(agent)  # a copy of an agent has others'


class _Hooks(Telling):
    """Where in an agent of smolagents' things happen."""

    def listen(self, listener: Listener) -> None:
        super().listen(listener)
        if self.hears(CALLBACKS):
            self.put("step_callbacks", _Registry(self.agent.step_callbacks, self))
        if self.hears(RUNS):
            self.wrap("run", self._run)
            self.wrap("_run_stream", self._run_stream)
        if self.hears(RUNS, MODEL_CALLS, TOOL_CALLS, {"action_begins"}):
            self.wrap("_step_stream", self._step_stream)
        if self.hears(TOOL_CALLS):
            self.wrap("execute_tool_call", self._execute_tool_call)
        if self.hears(MODEL_CALLS):
            self.wrap("write_memory_to_messages", self._write_memory_to_messages)
        self._stand_in()

    def leave(self, listener: Listener) -> bool:
        if not super().leave(listener):
            return False
        vars(self.agent).pop(_HOOKS, None)
        if hasattr(self.agent, "model"):
            self.agent.model = stood_for(self.agent.model)
        tools = _tools_sent(self.agent)
        tools.update({name: stood_for(tool) for name, tool in tools.items()})
        return True

    def taken_off(self, held: dict[str, Any]) -> dict[str, Any]:
        """An agent's attributes for a copy of it: without what is put on, and with a memory that is the copy's own."""
        held = {name: value for name, value in super().taken_off(held).items() if name != _HOOKS}
        if "model" in held:
            held["model"] = stood_for(held["model"])
        for_a_copy = getattr(held.get("memory"), "for_a_copy", None)
        return held if for_a_copy is None else {**held, "memory": for_a_copy()}

    def is_interrupt(self, error: BaseException) -> bool:
        return super().is_interrupt(error) or str(error) == _INTERRUPTED

    def begin(self, run: Run, task: Any = None) -> None:
        self._stand_in()
        super().begin(run, task or self._task())

    def _task(self) -> Any:
        return next((step for step in reversed(self.agent.memory.steps) if isinstance(step, TaskStep)), None)

    def _run(self, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        given = inspect.signature(original).bind(*args, **options).arguments
        told = {name: given[name] for name in ("task", "images") if name in given}
        limit = given.get("max_steps") or self.agent.max_steps
        reset = given.get("reset", True)
        run = self.now("opening") or Run(
            self.agent, **told, reset=reset, reset_unasked=reset and "reset" not in given, max_steps=limit
        )
        self.announce(run)
        with self.inside(announced=run, opening=None), self.busy():
            try:
                return original(*args, **options)
            except BaseException as error:
                self.end(run, error)
                raise

    def _run_stream(self, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        run = self.now("announced") or Run(self.agent, options.get("task"), max_steps=options.get("max_steps"))
        return self._told(run, original(*args, **options))

    def _told(self, run: Run, stream: Generator[Any, Any, Any]) -> Generator[Any, Any, None]:
        go_on: Callable[[], Any] = functools.partial(next, stream)
        try:
            self.still_its_turn(run)
            self.begin(run)
            while True:
                with self.inside(run=run, announced=None), self.busy(run):
                    item = go_on()
                if isinstance(item, FinalAnswerStep):
                    self.answer(run, item.output)
                try:
                    yield item
                    go_on = functools.partial(next, stream)
                except GeneratorExit as left:
                    try:
                        self._close(run, stream)  # in the middle of a step upstream makes an error of that
                    finally:
                        self.end(run, left)
                    raise
                except BaseException as thrown:  # noqa: BLE001 — it is for the loop
                    go_on = functools.partial(stream.throw, thrown)
        except StopIteration:
            self.end(run)
        except BaseException as error:
            if error is run.refusal:
                self._close(run, stream)
            self.end(run, error)
            raise

    def _close(self, run: Run, stream: Generator[Any, Any, None]) -> None:
        """Leave a stream. Half a step of one that was overtaken stays out of memory, which is another run's now."""
        if not self.is_overtaken(run):
            stream.close()
            return
        with self.inside(left_out=True), suppress(_LeftOut):
            stream.close()

    # -- steps -------------------------------------------------------------------------------------------------

    def _step_stream(self, original: Callable[..., Any], step: Any) -> Generator[Any, Any, None]:
        by_hand = self._run_by_hand() if self.hears(RUNS) and self.now("run") is None else None
        self._stand_in()
        stream = original(step)
        with self.acting(step) as action:
            try:
                while True:
                    with self.inside(action=action):
                        item = next(stream, _END)
                    if item is _END:
                        return
                    if isinstance(item, AskedCall):
                        self.asked(action, item)
                    elif by_hand is not None and isinstance(item, ActionOutput) and item.is_final_answer:
                        step.is_final_answer = True  # as `run` marks it
                        self._answer_when_appended(by_hand, step, item.output)
                    yield item
            finally:
                stream.close()

    def _run_by_hand(self) -> Run:
        task, run = self._task(), self.stepped
        if run is None or run.begun_with is not task:
            text, images = getattr(task, "task", None), getattr(task, "task_images", None)
            run = Run(self.agent, text, images, max_steps=self.agent.max_steps, stepwise=True)
            self.begin(run, task)
        return run

    def _answer_when_appended(self, run: Run, step: Any, answer: Any) -> None:
        """A loop by hand ends with the step in memory; where it is there already, or memory tells nothing, with it."""
        on = getattr(self.agent.memory, "on", None)
        if on is None or any(each is step for each in reversed(self.agent.memory.steps)):
            self.answer(run, answer)
            return

        def changed(event: Any) -> None:
            if run.outcome is not None or any(each is step for each in event.added):
                off()
                self.answer(run, answer)

        off = on("steps_changed", changed)

    # -- calls -------------------------------------------------------------------------------------------------

    def _execute_tool_call(self, original: Callable[..., Any], tool_name: str, arguments: Any) -> Any:
        return self.asked_call(tool_name, arguments, lambda: original(tool_name, arguments))

    def _write_memory_to_messages(self, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        written = original(*args, **options)
        self.note("written", written)
        return written

    def _stand_in(self) -> None:
        """Put what tells of calls in the place of the model, and of the tools that code calls."""
        if self.hears(MODEL_CALLS):
            methods = {"generate": self.generate, "generate_stream": self.generate_stream}
            model = self.agent.model
            self.agent.model = standing_in(model, {name: m for name, m in methods.items() if hasattr(model, name)})
        if self.hears(TOOL_CALLS):
            sent = _tools_sent(self.agent)
            for name, tool in {**self.agent.tools, **self.agent.managed_agents}.items():
                if sent.get(name) is tool:
                    sent[name] = standing_in(tool, {"__call__": functools.partial(self.code_call, name)})


class _LeftOut(BaseException):
    """Leaves upstream's loop before it puts a step into memory."""


class _Registry(CallbackRegistry):
    """Stands round an agent's callbacks and sees every step before and after them."""

    def __init__(self, inner: CallbackRegistry, hooks: _Hooks) -> None:
        self.inner, self._hooks = inner, hooks

    @property
    def _callbacks(self) -> Any:
        return self.inner._callbacks

    def register(self, step_cls: type[Any], callback: Callable[..., Any]) -> None:
        """Register with the agent's own callbacks."""
        self.inner.register(step_cls, callback)

    def callback(self, memory_step: Any, **options: Any) -> None:
        """Tell of the step, let the callbacks run, and tell again."""
        if self._hooks.now("left_out"):
            raise _LeftOut
        self._hooks.tell("before_callbacks", self._hooks.agent, memory_step)
        self.inner.callback(memory_step, **options)
        self._hooks.tell("after_callbacks", self._hooks.agent, memory_step)


def gets_step_alone(callback: Callable[..., Any]) -> bool:
    """Whether smolagents calls this callback as `callback(step)`; every other one as `callback(step, agent=agent)`."""
    return len(inspect.signature(callback).parameters) == 1


# -- a run whose steps are made one by one -------------------------------------------------------------------------


def open_run(agent: Any, task: str, **options: Any) -> Run:
    """Begin a run as `agent.run` does: prompt, reset, task, variables, tools. Its loop is left to the caller."""
    hooks = _hooks_of(agent)
    limit = options.get("max_steps") or agent.max_steps
    run = Run(agent, task, options["images"], options["reset"], limit, stepwise=True)
    with hooks.inside(opening=run):
        # in a context of its own, for tracers make their span current at the call and end it in the loop
        copy_context().run(agent.run, task, stream=True, **options).close()
    hooks.begin(run)
    return run


def take_up(agent: Any, task: TaskStep, max_steps: int) -> Run:
    """Go on with the run of the last task: what `run` does at its beginning, but for the task."""
    hooks = _hooks_of(agent)
    run = hooks.stepped
    if run is None or run.begun_with is not task:
        run = Run(agent, task.task, task.task_images, max_steps=max_steps, stepwise=True)
    run.take_up()
    hooks.announce(run)
    agent.task = task.task
    agent.interrupt_switch = False
    agent.memory.system_prompt = SystemPromptStep(system_prompt=agent.system_prompt)
    executor = getattr(agent, "python_executor", None)
    if executor is not None:
        # variables that the code has changed since must not be set back to what they were given as
        known = getattr(executor, "state", None) or {}
        executor.send_variables({name: value for name, value in agent.state.items() if name not in known})
        send_tools(agent)
    hooks.begin(run)
    return run


def send_tools(agent: Any) -> None:
    """Give a CodeAgent's executor its tools, without which functions lack builtins such as `len`."""
    agent.python_executor.send_tools({**agent.tools, **agent.managed_agents})


@contextmanager
def part_of(run: Run) -> Iterator[None]:
    """What the agent does meanwhile belongs to this run. An error that leaves ends it; then it may be taken up."""
    hooks = _hooks_of(run.agent)
    try:
        hooks.still_its_turn(run)
        if run.outcome is not None or not run.begun:  # in the second case somebody may listen only since then
            run.take_up()
        hooks.begin(run)
        with hooks.inside(run=run), hooks.busy(run):
            yield
    except BaseException as error:
        hooks.end(run, error)
        raise


def is_stopping(agent: Any) -> bool:
    """Whether the agent was told to stop, or Ctrl-C is on its way."""
    return stopping() or bool(getattr(agent, "interrupt_switch", False))


def stop_if_interrupted(agent: Any) -> None:
    """Raise once what `run` raises for `agent.interrupt()`; who calls again wants to go on."""
    if agent.interrupt_switch:
        agent.interrupt_switch = False
        raise AgentError(_INTERRUPTED, agent.logger)


def make_plan(agent: Any, task: str, number: int) -> PlanningStep:
    """The plan that is due before the action of this number, shaped by its callbacks."""
    started, first = time.time(), len(agent.memory.steps) == 1
    *_, plan = agent._generate_planning_step(task, is_first_step=first, step=number)  # pieces of it, the whole last
    plan.timing = Timing(start_time=started, end_time=time.time())
    agent._finalize_step(plan)
    return plan


def answers_of(agent: Any, action: ActionStep) -> Iterator[Any]:
    """Make an action; whatever it gives as a final answer."""
    for output in agent._step_stream(action):
        if isinstance(output, ActionOutput) and output.is_final_answer:
            yield output.output


def check_answer(agent: Any, answer: Any) -> None:
    """Let the agent's checks raise an AgentError."""
    if agent.final_answer_checks:
        agent._validate_final_answer(answer)


def finalize(agent: Any, step: ActionStep) -> None:
    """Note when the step ended and let its callbacks run."""
    agent._finalize_step(step)


def forced_answer(agent: Any, task: str, images: Any) -> Any:
    """The answer that the model must give when the steps have run out, in a step of its own at the end of memory."""
    forced = agent._handle_max_steps_reached
    with_images = "images" in inspect.signature(forced).parameters  # smolagents 1.20
    return forced(task, images) if with_images else forced(task)


def end_with(run: Run, answer: Any) -> Any:
    """Tell an answer to the callbacks and end the run with it; what `run` would return."""
    from packaging.version import Version  # not imported by everybody who imports this

    final = FinalAnswerStep(handle_agent_output_types(answer))
    if Version(smolagents.__version__) >= Version("1.24"):
        run.agent._finalize_step(final)
    _hooks_of(run.agent).answer(run, final.output)
    return final.output


# -- what is in a prompt beside the steps --------------------------------------------------------------------------


def prompts_round_steps(agent: Any) -> list[str]:
    """What may stand in the system prompt's place and after the steps, when planning and at the step limit."""
    task = agent.task or ""
    final = agent.prompt_templates["final_answer"]
    texts = [f"{final['pre_messages']}\n{final['post_messages']}\n{task}"]
    if agent.planning_interval is not None:
        known = {"tools": agent.tools, "managed_agents": agent.managed_agents, "task": task, "remaining_steps": 100}
        planning = agent.prompt_templates["planning"]
        names = ("update_plan_pre_messages", "update_plan_post_messages")
        texts.append("\n".join(populate_template(planning[name], known) for name in names))
    return texts


def given_task(agent: Any, text: str) -> str:
    """What was asked for, without what smolagents says round it when a manager asks; any other task as it is."""
    template = (getattr(agent, "prompt_templates", None) or {}).get("managed_agent", {}).get("task")
    if not template:
        return text
    try:
        said = populate_template(template, {"name": agent.name, "task": _TASK})
    except Exception:  # noqa: BLE001 — a template of the user's own, which says more than these
        return text
    before, found, after = said.partition(_TASK)
    if not found or _TASK in after or not text.startswith(before):
        return text
    inside = text.removeprefix(before)
    if not after:
        return inside
    task, there, behind = inside.rpartition(after)
    return task + behind if there else text  # behind: the arguments that were given with it


def words_round_reports(agent: Any) -> list[str]:
    """What smolagents says round what the managed agents of this one report."""
    found = []
    for name, managed in (getattr(agent, "managed_agents", None) or {}).items():
        template = (getattr(managed, "prompt_templates", None) or {}).get("managed_agent", {}).get("report")
        try:
            said = populate_template(template or "", {"name": name, "final_answer": _TASK})
        except Exception:  # noqa: BLE001 — a template of the user's own, which says more than these
            continue
        found += [words.strip() for words in said.split(_TASK) if _TASK in said and words.strip()]
    return found


# -- a CodeAgent's local executor ----------------------------------------------------------------------------------


MADE_IN = local_python_executor.__name__  # the module that what an agent's code defines says it is from
PYTHON_TOOLS = frozenset(local_python_executor.BASE_PYTHON_TOOLS)  # what any agent's code may call
_OWN = ("_print_outputs", "_operations_count")


class Namespace:
    """What a local executor holds: `variables`, and `functions` that its code defined. Both are the live ones."""

    def __init__(self, executor: LocalPythonExecutor) -> None:
        self._executor = executor
        self.variables: dict[str, Any] = executor.state
        self.functions: dict[str, Any] = executor.custom_tools

    def bound(self) -> dict[str, Any]:
        """The variables without the executor's own entries."""
        return {name: value for name, value in list(self.variables.items()) if name not in (*_OWN, "__name__")}

    def count(self) -> int:
        """How many these are."""
        return len(self.variables) - sum(name in self.variables for name in (*_OWN, "__name__"))

    def is_tool(self, name: str) -> bool:
        """Whether code cannot bind this name."""
        return name in (self._executor.static_tools or {})

    def is_taken(self, name: str) -> str:
        """Why this name is none for a variable to be restored under; nothing where it is one."""
        if self.is_tool(name) or name in local_python_executor.BASE_PYTHON_TOOLS:
            return "a tool has this name now"
        if name in local_python_executor.ERRORS or name in (*_OWN, "__name__"):
            return "Python's own name"
        return ""

    def is_what_it_has(self, name: str, value: Any) -> bool:
        """Whether code that reads this name finds the very same without it: `sqrt` is that of `math`."""
        return local_python_executor.BASE_PYTHON_TOOLS.get(name, self) is value

    def find(self, name: str) -> Any:
        """What code that reads this name finds; KeyError where it would get the one that looks most like it."""
        for known in (self.variables, self._executor.static_tools or {}, self.functions, local_python_executor.ERRORS):
            if name in known:
                return known[name]
        raise KeyError(name)

    def allows_all(self) -> bool:
        """Whether the program authorises every module there is."""
        return "*" in self._executor.authorized_imports

    def names_it(self, module: str) -> bool:
        """Whether the program authorises this very module, or all of its package: not by a star that allows any."""
        allowed = (each for each in self._executor.authorized_imports if each != "*")
        return any(module == each or (each[-2:] == ".*" and f"{module}.".startswith(each[:-1])) for each in allowed)

    def bind_loaded(self, name: str, value: Any) -> None:
        """Bind what an import would, of what is loaded: the executor's own copying loads whatever a module names."""
        self.variables[name] = _copy_of_module(value) if issubclass(type(value), ModuleType) else value

    def run(self, code: str) -> None:
        """Run some code, as far as the executor allows it."""
        self._executor(code)

    @contextmanager
    def ready(self, agent: Any) -> Iterator[None]:
        """Code may be run meanwhile, and leaves no trace in the executor's own entries."""
        if self._executor.static_tools is None:
            send_tools(agent)
        own = {name: self.variables[name] for name in _OWN if name in self.variables}
        try:
            yield
        finally:
            for name in _OWN:
                self.variables.pop(name, None)
            self.variables.update(own)


def held_by_module(module: Any) -> dict[str, Any]:
    """What a module holds now, empty for none; nothing is asked of it, so that a lazy one loads nothing."""
    held: dict[str, Any] = {} if module is None else object.__getattribute__(module, "__dict__")
    return held


def _copy_of_module(module: Any) -> ModuleType:
    """A copy, with copies of the modules in it, as the executor binds them; what a lazy one has not it still loads."""
    found, pending = {id(module): module}, [module]
    while pending:
        inside = [each for each in held_by_module(pending.pop()).values() if issubclass(type(each), ModuleType)]
        pending += (new := {id(each): each for each in inside if id(each) not in found}).values()
        found.update(new)
    copies = {place: ModuleType(str(held_by_module(each).get("__name__"))) for place, each in found.items()}
    for place, each in found.items():
        held = {name: copies.get(id(value), value) for name, value in held_by_module(each).items()}
        vars(copies[place]).update({"__getattr__": functools.partial(getattr, each), **held})
    return copies[id(module)]


def hiding(agent: Any, names: Iterable[str]) -> dict[str, str]:
    """Which of these names `agent.state` would hide from a CodeAgent's code, and what has them."""
    namespace = namespace_of(agent)
    if namespace is None:
        return {}
    own = {**agent.tools, **agent.managed_agents}
    return {name: "a tool has this name now" if name in own else why for name in names
            if (why := namespace.is_taken(name)) or name in own}  # fmt: skip


def namespace_of(agent: Any) -> Namespace | None:
    """What the agent's local executor holds; None where it has no executor, or a remote one."""
    executor = getattr(agent, "python_executor", None)
    return Namespace(executor) if isinstance(executor, LocalPythonExecutor) else None


def _tools_sent(agent: Any) -> dict[str, Any]:
    executor = getattr(agent, "python_executor", None)
    return (isinstance(executor, LocalPythonExecutor) and executor.static_tools) or {}


class Made(NamedTuple):
    """A function that an agent's code made: over which variables, and whether it is a lambda."""

    home: Any
    is_lambda: bool


def made_by_code(function: FunctionType) -> Made | None:
    """What there is to know of a function that an agent's code made; None for every other."""
    if function.__module__ != MADE_IN:
        return None
    around = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    return Made(around["state"].cell_contents, "lambda_expression" in around) if "state" in around else None


def is_class_of_code(cls: type) -> bool:
    """Whether an agent's code made this class."""
    return cls.__module__ == MADE_IN and vars(local_python_executor).get(cls.__name__) is not cls


def source_of(made: Any) -> str | None:
    """The source from which an agent's code made a function or a class, where it is known."""
    return vars(made).get("__source__") if isinstance(made, type) else getattr(made, "__source__", None)


def keep_source(cls: Any, source: str) -> None:
    """Let a class know what it was made from, as the executor does with functions."""
    cls.__source__ = source


def reason_of(error: Exception) -> str:
    """The reason in an error of the executor, without the code that it quotes."""
    text = str(error).rpartition("due to: ")[2].strip().removeprefix("InterpreterError: ")
    return text[:300] or type(error).__name__
