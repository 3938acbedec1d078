"""Bringing a CodeAgent's Python variables back into a fresh agent, through its own executor."""

from __future__ import annotations

import ast
import sys
from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from smolagents_memory._errors import DecodeError
from smolagents_memory.codec.graph import TAG
from smolagents_memory.steps.legible import on_one_line
from smolagents_memory.upstream import MADE_IN, Namespace, held_by_module, keep_source, namespace_of, reason_of
from smolagents_memory.variables.allowed import Refused, bare, is_dunder, without_annotations
from smolagents_memory.variables.document import Part, closure, itself
from smolagents_memory.variables.rebuilding import NamespaceDecoder
from smolagents_memory.variables.sources import imported
from smolagents_memory.variables.vetting import annotation, check_bases


FORMAT = 1
_ABSENT = object()


@dataclass
class RestoreReport:
    """What came back of an agent's variables, and what did not.

    `restored` maps each name to what it is (variable, function, class, import, given by this run), `missing` each
    name to why it did not come back. `trouble` says what went wrong with all of them.
    """

    restored: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    trouble: str | None = None

    def note(self) -> str | None:
        """What the agent is told, or None where everything is as it was.

        >>> print(RestoreReport({"x": "variable"}, {"conn": "a socket.socket cannot be kept"}).note())
        This task goes on in a new Python process. Not brought back, and not defined now:
        - conn: a socket.socket cannot be kept
        All other variables, functions, classes and imports are as they were. Make what you need of these again.
        """
        parts = [f"This task goes on in a new Python process. {on_one_line(self.trouble or '')}".strip()]
        if not self.missing:
            return parts[0] if self.trouble else None
        named = [f"- {_named(name)}: {on_one_line(why)}" for name, why in sorted(self.missing.items())]
        parts[0] += " Not brought back, and not defined now:"
        rest = "All other variables, functions, classes and imports are as they were. " if self.restored else ""
        return "\n".join([*parts, *named, f"{rest}Make what you need of these again."])


def _named(name: str) -> str:
    """A name as it is, if it is one; else as Python writes a text."""
    return name if all(map(str.isidentifier, name.split("."))) else on_one_line(repr(name))


def restore_variables(agent: Any, folded: Mapping[str, Any], blobs: Mapping[str, bytes]) -> RestoreReport:
    """Bring back what `fold` gave, into an agent whose `run()` has sent tools and variables, or into a fresh one.

    Imports and definitions go through the agent's own executor, so that what it allows still holds. Nothing that the
    data defines is run: values come back as data, also those of class bodies. No name of a tool or of Python's own is
    bound anew, whatever is kept under it.
    """
    report = RestoreReport(missing=dict(folded.get("missing", {})))
    executor = getattr(agent, "python_executor", None)
    if folded.get("remote"):
        report.trouble = (
            f"The Python variables live in a remote executor ({folded['remote']}) and are out of reach: none of them "
            "was kept. Define again what you need, if it is not there."
        )
    if not folded or executor is None or report.trouble:
        return report
    if folded.get("full", FORMAT) > FORMAT:
        newer = "a newer version of smolagents-memory"
        report.trouble = f"The Python variables were kept by {newer}: none was brought back."
        return report
    namespace = namespace_of(agent)
    if namespace is None:
        kind = type(executor).__name__
        names = (name for section in ("variables", "functions", "imports") for name in folded.get(section, {}))
        report.missing.update(dict.fromkeys(names, f"it cannot be sent to a {kind}"))
        report.trouble = f"The Python variables were those of a local executor; now it is a remote one ({kind})."
        return report
    if folded.get("trouble"):
        report.trouble = f"The newest changes of the Python variables could not be kept ({folded['trouble']})."
    with namespace.ready(agent):
        try:
            _Restoring(namespace, folded, blobs, report).run(agent.state)
        except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
            why = f"{type(error).__name__}: {str(error)[:120]}"
            report.trouble = (
                f"What was kept of the Python variables is damaged ({why}): not all of it was brought back."
            )
    return report


class _Restoring:
    """One restoring: imports, then definitions in the order in which they were made, then values as one graph."""

    def __init__(
        self, namespace: Namespace, folded: Mapping[str, Any], blobs: Mapping[str, bytes], report: RestoreReport
    ) -> None:
        self.namespace, self.folded, self.blobs, self.report = namespace, folded, blobs, report
        self.records = {int(number): record for number, record in folded.get("definitions", {}).items()}
        self.shared = {int(label): Part.of(node) for label, node in folded.get("shared", {}).items()}
        self.parts = {name: Part.of(node) for name, node in folded.get("variables", {}).items()}
        self.made: dict[int, Any] = {}
        self.failed: dict[int, str] = {}

    def run(self, sent: Mapping[str, Any]) -> None:
        """Bring all of it back, beside the variables that this run was given."""
        state, tools = self.namespace.variables, self.namespace.functions
        for name in self.folded.get("overridden", {}):
            if not self.namespace.is_taken(name):
                state.pop(name, None)  # what run() sends under this name is not what the agent's code had made of it
        self._make_way(sent)
        for name, statement in self.folded.get("imports", {}).items():
            self._import(name, statement)
        before = [(each, dict(each)) for each in (state, tools)]
        for number in sorted(self.records):
            self._define(number)
        for each, known in before:
            for name in [name for name in each if name not in known]:
                del each[name]  # bound by a definition only; what was bound to it at the end follows
            each.update(known)
        self._bind_values()
        for name, number in self.folded.get("functions", {}).items():
            if why := self._why_no_name(name):
                self._miss(name, why)
            elif isinstance(self.made.get(number), FunctionType):
                tools[name] = self.made[number]
                self.report.restored[name] = "function"
            else:
                self._miss(name, self.failed.get(number, "its definition is missing"))

    def _make_way(self, sent: Mapping[str, Any]) -> None:
        """For what the new process has under the same names: a new run's arguments, and tools."""
        state = self.namespace.variables
        given = [name for name, value in sent.items() if name in state and state[name] is value]
        for name in given:
            if self.parts.pop(name, None) or self.report.missing.pop(name, None):
                self.report.restored[name] = "given by this run"
        for name in list(self.parts):
            if why := self._why_no_name(name):
                self._miss(name, why)

    def _why_no_name(self, name: str) -> str:
        odd = not name.isidentifier() or is_dunder(name)
        return self.namespace.is_taken(name) or ("no name of a variable" if odd else "")

    def _miss(self, name: str, why: str) -> None:
        self.report.missing[name] = why or "it cannot be brought back"
        self.report.restored.pop(name, None)
        self.parts.pop(name, None)

    # -- imports and definitions -------------------------------------------------------------------------------

    def _import(self, name: str, statement: str) -> None:
        try:
            module, of_it = imported(statement, name)
            loaded = held_by_module(sys.modules.get(module))
            found = loaded.get(of_it or "")
            if (why := self.namespace.is_taken(name)) and not self.namespace.is_what_it_has(name, found):
                self._miss(name, why)
                return
            if not self.namespace.allows_all() or self.namespace.names_it(module):
                self.namespace.run(statement)
            elif not loaded:  # bound, but never run
                raise Refused("it is not loaded, and only '*' authorises it")
            elif of_it is not None and of_it not in loaded:
                raise Refused(f"it has no {of_it}")
            else:
                self.namespace.bind_loaded(name, sys.modules[module] if of_it is None else found)
        except Exception as error:  # noqa: BLE001 — a module may do anything while it is imported
            self._miss(name, f"{statement!r} failed: {reason_of(error)}")
        else:
            self.report.restored[name] = "import"

    def _define(self, number: int) -> None:
        record = self.records[number]
        try:
            made = self.made[number] = self._made(record)
        except Exception as error:  # noqa: BLE001 — a base or an annotation may do anything
            self.failed[number] = reason_of(error)
            return
        if record["kind"] == "function":
            return
        for name, part in self.parts.items():  # so that a class that is built on an alias of this one finds it
            node = itself(part, self.shared)
            if node.get(TAG) == "own-class" and node["d"] == number:
                self.namespace.variables[name] = made

    def _made(self, record: Mapping[str, Any]) -> Any:
        name = record["name"]
        if why := self._why_no_name(name):  # or what is defined after it would find it in the place of Python's own
            raise Refused(why)
        if record["kind"] == "namedtuple":
            made = self.namespace.variables[name] = namedtuple(name, record["fields"], module=MADE_IN)
            return made
        source = bare(record["source"], keep_values=True)
        annotations: dict[str, ast.expr] = {}
        definition = ast.parse(source).body[0]
        if getattr(definition, "name", None) != name:
            raise Refused("its source defines something else")
        if isinstance(definition, ast.ClassDef):
            check_bases(definition, self.namespace.find, set(map(id, self.made.values())))
            text, annotations = without_annotations(source)
        else:
            text = source
        place = self.namespace.functions if record["kind"] == "function" else self.namespace.variables
        before = place.get(name, _ABSENT)
        self.namespace.run(text)
        made = place[name]
        if made is before:
            raise Refused("its definition gave nothing new")
        if record["kind"] == "function":  # the functions that names stand for are bound at the end
            del place[name]
            if before is not _ABSENT:
                place[name] = before
        else:
            keep_source(made, source)
            for each, node in annotations.items():
                made.__annotations__[each] = annotation(node, self.namespace.find)
        return made

    # -- values ------------------------------------------------------------------------------------------------

    def _bind_values(self) -> None:
        state = self.namespace.variables
        for name, part in list(self.parts.items()):
            if itself(part, self.shared).get(TAG) == "sent":
                self._bind_alias(name, part.node["n"])
            elif why := self._why_not(part):
                self._miss(name, why)
        values, why = self._read(list(self.parts.values()))
        if why:
            for name, part in list(self.parts.items()):  # which it is
                if why := self._read([part])[1]:
                    self._miss(name, why)
            values, _ = self._read(list(self.parts.values()))
        for name, value in zip(self.parts, values, strict=True):
            state[name] = value
            self.report.restored[name] = "class" if isinstance(value, type) else "variable"

    def _bind_alias(self, name: str, other: str) -> None:
        del self.parts[name]
        variables = self.namespace.variables
        if other in variables:
            variables[name] = variables[other]
            self.report.restored[name] = "variable"
        else:
            self._miss(name, f"it was the same as {other}, which this run was not given")

    def _why_not(self, part: Part) -> str:
        needed = closure([part], self.shared).values()
        for number in sorted(part.uses.union(*(each.uses for each in needed))):
            if number not in self.made:
                named = self.records.get(number, {}).get("name", "of its class")
                return f"{named} could not be defined again: {self.failed.get(number, 'its definition is missing')}"
        return ""

    def _read(self, parts: list[Part]) -> tuple[list[Any], str]:
        """The values of these parts, and why they are not all there, if so."""
        decoder = NamespaceDecoder(self.made, self.records, self.blobs)
        try:
            values = decoder.read(parts, self.shared)
        except DecodeError as error:
            return [], f"it could not be read: {error}"
        unknown = decoder.unknown
        return values, f"the class {unknown[0]} is not known in this process; see register_value" if unknown else ""
