"""A CodeAgent's Python variables: what changed in them after a step, as JSON that a session can keep.

Kept are the values that the codec keeps, as one graph within a byte budget, the functions and classes that the agent
defined, and its imports. What `run()` sends anyway (`agent.state`, tools) is not kept, print logs neither.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator, Mapping
from operator import is_
from types import ModuleType
from typing import Any

from smolagents_memory._log import say_once, warn_of_loss
from smolagents_memory.codec.blobs import Blobs
from smolagents_memory.codec.graph import TAG, Node
from smolagents_memory.codec.scrubbing import WITHHELD
from smolagents_memory.codec.values import find_writer, new_encoder
from smolagents_memory.privacy.randomness import tells_of_secrets
from smolagents_memory.upstream import Namespace, namespace_of
from smolagents_memory.variables.definitions import Definitions
from smolagents_memory.variables.document import NamespaceEncoder, Part, closure, why_lost
from smolagents_memory.variables.document_edits import apply, difference
from smolagents_memory.variables.restore import FORMAT, RestoreReport, restore_variables
from smolagents_memory.variables.sources import deleted_names, find_imports, is_bound_by
from smolagents_memory.variables.watch import Watch, fingerprint, is_atom


__all__ = ["ExecutorCapture", "RestoreReport", "fold", "restore_variables"]

_HOLDERS = (list, tuple, dict, set, frozenset, bytes, bytearray)
_SECTIONS = ("variables", "shared", "functions", "definitions", "imports", "overridden", "missing")


def fold(deltas: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """All deltas of a session, in order, as one; folding what was folded before with later ones is the same."""
    document: dict[str, Any] = {}
    for delta in deltas:
        if "edits" not in delta:
            document = {**{section: {} for section in _SECTIONS}, **copy.deepcopy(delta)}
        else:
            apply(document, delta["edits"])
    return _filled(document)


def _filled(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if value not in ({}, None)}


class ExecutorCapture:
    """Sees what an agent's code did to its variables; one for each agent that a session is attached to.

    Args:
        budget: How many bytes the variables may take together, estimated; of what is too large only the name is kept.

    `untold` may be set to the `missing` of a restoring that the agent was not told of yet: while a name there is not
    bound anew it stays missing, so that a process that is killed too early takes no loss with it. Empty it then.

    >>> from smolagents import CodeAgent
    >>> from smolagents_memory.codec.blobs import Blobs
    >>> from smolagents_memory.testing import ScriptedModel, code
    >>> agent = CodeAgent(tools=[], model=ScriptedModel([code("x = [1]"), code("final_answer(x)")]), verbosity_level=0)
    >>> agent.run("Go on")
    [1]
    >>> ExecutorCapture().changes(agent, None, Blobs())
    {'full': 1, 'variables': {'x': [1]}}
    """

    def __init__(self, budget: int = 4_000_000) -> None:
        self.budget = budget
        self.untold: dict[str, str] = {}
        self._untold_before: dict[str, str] = {}
        self._before: tuple[dict[str, Any], ...] = ({}, {}, {})  # variables, functions, what was sent
        self._imports: dict[str, tuple[str, Any]] = {}
        self._watches: dict[str, Watch] = {}
        self._parts: dict[str, Part] = {}
        self._shared: dict[int, Part] = {}
        self._labels: dict[int, tuple[int, Any]] = {}
        self._new_labels = itertools.count(1)
        self._lost: dict[str, str] = {}
        self._ever_sent: set[str] = set()
        self._definitions = Definitions()
        self._document: dict[str, Any] | None = None
        self._told: set[str] = set()  # names of what is withheld

    def changes(self, agent: Any, code_action: str | None, blobs: Blobs) -> dict[str, Any] | None:
        """What changed since the last call, as plain JSON, or None. The first one holds everything. Never raises."""
        scrubber = self._definitions.scrubber = blobs.scrubber
        try:
            executor = getattr(agent, "python_executor", None)
            if executor is None:
                return None
            namespace = namespace_of(agent)
            if namespace is None:
                document = {**_empty(), "remote": type(executor).__name__}
            elif self._is_unchanged(agent, namespace):
                return None
            else:
                document = self._look(agent, namespace, code_action or "", blobs)
        except Exception as error:  # noqa: BLE001 — whatever the agent's values do: the run goes on, and it is told
            what = str(error) if scrubber is None else scrubber.text(str(error))
            say_once(f"the variables of a CodeAgent could not be looked at: {type(error).__name__}: {what}")
            self._watches.clear()
            document = {**(self._document or _empty()), "trouble": f"{type(error).__name__}: {what[:200]}"}
        self._warn(document["missing"])
        return self._delta(document)

    def _warn(self, missing: Mapping[str, str]) -> None:
        withheld = {name for name, why in missing.items() if WITHHELD in why}
        if new := withheld - self._told - self.untold.keys():
            warn_of_withheld(sorted(new))
        self._told = withheld

    def _delta(self, document: dict[str, Any]) -> dict[str, Any] | None:
        before, self._document = self._document, document
        if before is None:
            return _filled(document)
        edits = difference(before, document)
        return {"edits": edits} if edits else None

    def _is_unchanged(self, agent: Any, namespace: Namespace) -> bool:
        """Whether nothing at all happened. This runs after every step, so it only compares what is what."""
        if self._document is None or self._document["trouble"] is not None or self.untold != self._untold_before:
            return False
        now = (namespace.variables, namespace.functions, agent.state)
        if [namespace.count(), *map(len, now[1:])] != list(map(len, self._before)):
            return False
        watches = (watch for watch in self._watches.values() if watch.mutable)
        return all(map(_same, now, self._before)) and all(watch.unchanged() for watch in watches)

    # -- looking -----------------------------------------------------------------------------------------------

    def _look(self, agent: Any, namespace: Namespace, code: str, blobs: Blobs) -> dict[str, Any]:
        bound, tools, sent = namespace.bound(), dict(namespace.functions), dict(agent.state)
        codes = [code, *(_earlier_codes(agent) if self._document is None else ())]
        self._definitions.look_at(namespace.variables, codes)
        self._imports = self._find_imports(bound, codes)
        untouched = {name for name, value in sent.items() if name in bound and bound[name] is value}
        # run() sends all of it: what is not there as it was sent was changed by the agent's code
        self._ever_sent |= untouched | (sent.keys() & (bound.keys() | deleted_names(code)))
        aliases = {id(sent[name]): name for name in untouched if not is_atom(sent[name])}
        apart = self._imports.keys() | untouched
        variables = {name: value for name, value in bound.items() if name not in apart and str(name).isidentifier()}
        sent_too = {name: aliases[id(value)] for name, value in variables.items() if id(value) in aliases}
        missing = {name: why for name, why in self.untold.items() if name not in bound and name not in tools}
        changed = self._watch({name: value for name, value in variables.items() if name not in sent_too}, missing)
        missing.update(self._too_large())
        within = [name for name in self._watches if name not in missing]
        self._parts = {name: self._parts[name] for name in within if name in self._parts and name not in changed}
        self._encode([name for name in within if name not in self._parts], blobs)
        missing.update({name: self._lost[name] for name in within if name in self._lost})
        functions = self._functions({name: each for name, each in tools.items() if name not in bound}, missing)
        overridden = {name for name in sent if name not in untouched} & self._ever_sent
        if blobs.scrubber is not None:
            missing = {name: blobs.scrubber.text(why) for name, why in missing.items()}
        document = self._assembled(sent_too, functions, missing, overridden)
        self._before, self._untold_before = (bound, tools, sent), dict(self.untold)
        return document

    def _find_imports(self, bound: dict[str, Any], codes: list[str]) -> dict[str, tuple[str, Any]]:
        new = [name for name, value in bound.items() if self._before[0].get(name, self) is not value]
        found = {name: each for code in reversed(codes) for name, each in find_imports(code).items()} if new else {}
        imports = {name: each for name, each in self._imports.items() if bound.get(name) is each[1]}
        for name in new:
            value = bound[name]
            if name in found and is_bound_by(found[name], value):
                imports[name] = (found[name][0], value)
            elif type(value) is ModuleType and str(name).isidentifier():
                imports[name] = (f"import {value.__name__} as {name}", value)
        return imports

    def _watch(self, variables: dict[str, Any], missing: dict[str, str]) -> set[str]:
        """Watch these variables; which of them are not what they were. Those that cannot be read are missing."""
        before, self._watches = self._watches, {}
        changed = set()
        for name, value in variables.items():
            watch = before.get(name)
            if watch is None or watch.value is not value or not watch.unchanged():
                changed.add(name)
                try:
                    watch = Watch(value, self.budget, self._definitions.members, self._fingerprint)
                except Exception as error:  # noqa: BLE001 — an object may do anything when it is read
                    missing[name] = f"it could not be read: {type(error).__name__}: {str(error)[:120]}"
                    continue
            self._watches[name] = watch
        return changed

    def _fingerprint(self, value: Any) -> bytes:
        return fingerprint(value, NamespaceEncoder(self._definitions, Blobs())) if find_writer(value) else b""

    def _too_large(self) -> dict[str, str]:
        """What the budget has no room for: of several, the largest. An alias of what is kept costs nothing."""
        missing, left, kept = {}, self.budget, set()
        for name, watch in sorted(self._watches.items(), key=lambda item: item[1].size):
            if watch.too_large:
                missing[name] = f"{_amount(watch.size)}: more than the budget of {_amount(self.budget)}"
            elif id(watch.value) not in kept and watch.size > left:
                why = f"the other variables leave no room for it in the budget of {_amount(self.budget)}"
                missing[name] = f"{_amount(watch.size)}: {why}"
            elif id(watch.value) not in kept:
                left -= watch.size
                kept.add(id(watch.value))
        return missing

    def _encode(self, names: list[str], blobs: Blobs) -> None:
        """Write these variables, and whatever shares a mutable part with one of them, as one graph."""
        ids: set[int] = set().union(*(self._watches[name].ids for name in names))
        others = list(self._parts)
        while joined := [name for name in others if not ids.isdisjoint(self._watches[name].ids)]:
            ids.update(*(self._watches[name].ids for name in joined))
            others = [name for name in others if name not in joined]
            names = names + joined
        for name in names:
            self._lost.pop(name, None)
        lost = self._write(names, blobs)
        if lost:  # again without them: what others share with them may have been written inside them
            self._lost.update(lost)
            self._write([name for name in names if name not in lost], blobs)

    def _write(self, names: list[str], blobs: Blobs) -> dict[str, str]:
        """Write these variables; which of them cannot be kept, and why. Their bytes are kept where none is lost."""
        encoder = NamespaceEncoder(self._definitions, Blobs(blobs.scrubber))
        parts, shared = encoder.parts([self._watches[name].value for name in names], self._label_of)
        self._shared.update(shared)
        self._parts.update(zip(names, parts, strict=True))
        reasons = {name: why_lost(part, self._shared) for name, part in zip(names, parts, strict=True)}
        told = {name: WITHHELD for name in names if holds_withheld(name, self._watches[name].value, blobs)}
        lost = {name: why for name, why in {**reasons, **told}.items() if why}
        if not lost:
            needed = [*parts, *closure(parts, shared).values()]
            blobs.data.update(
                {at: encoder.blobs.data[at] for part in needed for at in part.blobs & encoder.blobs.data.keys()}
            )
        return lost

    def _label_of(self, value: Any) -> int:
        if id(value) not in self._labels:
            self._labels[id(value)] = (next(self._new_labels), value)
        return self._labels[id(value)][0]

    # -- the document ------------------------------------------------------------------------------------------

    def _functions(self, tools: dict[str, Any], missing: dict[str, str]) -> dict[str, int]:
        """What the agent's code defined at its top level and no variable hides; what cannot come back is missing."""
        found = {}
        for name, function in tools.items():
            known = None if self._definitions.is_method(function) else self._definitions.of(function)
            if known is None or known.inner or name[:2] == "__":
                continue
            if known.why:
                missing.setdefault(name, known.why)
            else:
                found[name] = known.number
        return found

    def _assembled(
        self, sent_too: dict[str, str], functions: dict[str, int], missing: dict[str, str], overridden: set[str]
    ) -> dict[str, Any]:
        kept = {name: part for name, part in self._parts.items() if name not in missing}
        self._shared = closure(kept.values(), self._shared)
        self._labels = {place: each for place, each in self._labels.items() if each[0] in self._shared}
        uses = set(functions.values()).union(*(part.uses for part in [*kept.values(), *self._shared.values()]))
        aliases: dict[str, Node] = {name: {TAG: "sent", "n": other} for name, other in sent_too.items()}
        sections: dict[str, dict[str, Any]] = {
            "variables": {name: part.node for name, part in kept.items()} | aliases,
            "shared": {str(label): part.node for label, part in self._shared.items()},
            "functions": functions,
            "definitions": {str(each.number): each.record() for each in self._definitions.needed(uses)},
            "imports": {name: each[0] for name, each in self._imports.items()},
            "overridden": dict.fromkeys(sorted(overridden), True),
            "missing": missing,
        }
        document = _empty()
        for section, entries in sections.items():  # in the order in which they were written before
            known = (self._document or document)[section]
            document[section] = {**{name: entries[name] for name in known if name in entries}, **entries}
        return document


def holds_withheld(name: Any, value: Any, blobs: Blobs) -> bool:
    """Whether the name of a text, or of what holds some, says that it is not kept."""
    if blobs.scrubber is None or type(name) is not str:
        return False
    if type(value) is str:
        return blobs.scrubber.under(name, value) != value
    if type(value) not in _HOLDERS or not tells_of_secrets(name):
        return False
    encoder = new_encoder(Blobs(blobs.scrubber))
    encoder.encode({name: value})
    return encoder.scrubbed > 0


def warn_of_withheld(names: Iterable[str]) -> None:
    """Variables are not kept because of what they hold."""
    warn_of_loss(f"not kept, for {WITHHELD}: {', '.join(names)}. A run that goes on is told that they are missing")


def _same(now: dict[str, Any], then: dict[str, Any]) -> bool:
    """Whether every name is still bound to the same object."""
    return all(map(now.__contains__, then)) and all(map(is_, map(now.get, then), then.values()))


def _empty() -> dict[str, Any]:
    return {"full": FORMAT, "trouble": None, "remote": None, **{section: {} for section in _SECTIONS}}


def _earlier_codes(agent: Any) -> Iterator[str]:
    """The code actions in the agent's memory, newest first: the variables may be older than this capture."""
    for step in reversed(list(agent.memory.steps)):
        code = getattr(step, "code_action", None)
        if isinstance(code, str):
            yield code


def _amount(size: int) -> str:
    if size < 1_000_000:
        return f"{max(1, round(size / 1000))} kB"
    return f"{size / 1_000_000:.1f} MB".replace(".0 MB", " MB")
