"""Portable files: a whole memory in one JSON Lines file, or in one dictionary of plain JSON."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import smolagents
from smolagents.memory import AgentMemory

from smolagents_memory._errors import ForeignFileError
from smolagents_memory._files import named_file, write_whole
from smolagents_memory._log import warn_of_loss
from smolagents_memory._version import __version__
from smolagents_memory.codec.blobs import embed_blobs
from smolagents_memory.codec.lines import dump_line
from smolagents_memory.codec.values import new_encoder, warn_of_losses
from smolagents_memory.database.belongings import is_database, refuse_parts
from smolagents_memory.history.loading import FORMAT, FORMAT_VERSION, Loading, load_records
from smolagents_memory.history.observed import ObservedMemory, Origin
from smolagents_memory.history.recording import PROMPT, StepWriter
from smolagents_memory.history.sealed_files import sealed_dictionary, sealed_lines, unsealed_dictionary
from smolagents_memory.upstream import hiding


if TYPE_CHECKING:
    from smolagents_memory.privacy.sealing import Seal


def save_memory(agent_or_memory: Any, path: str | os.PathLike[str], *, seal: Seal | None = None) -> Path:
    """Save an agent's memory, or a memory, as one self-contained JSON Lines file.

    The steps with all they hold, the system prompt, `agent.state`, the agent's name and the model's id travel along.
    The file is replaced as a whole: whatever happens meanwhile, it is the old one or the new one. A name that ends
    in ".gz" is packed. What cannot be kept (a socket, a lock) is replaced by a visible placeholder, with a warning.

    With a `Seal` all of it is encrypted; who loads it names the same seal. Without one the file is plain, wherever the
    agent's session is: `Session.export` seals what comes out of a sealed place.

    >>> from smolagents import CodeAgent
    >>> from smolagents_memory import load_memory, save_memory
    >>> from smolagents_memory.testing import ScriptedModel, code
    >>> agent = CodeAgent(tools=[], model=ScriptedModel([code("final_answer(2 + 2)")]), verbosity_level=0)
    >>> agent.run("What is two and two?")
    4
    >>> path = save_memory(agent, "run.jsonl")
    >>> len(load_memory("run.jsonl").steps)
    2
    """
    source, path = _Source(agent_or_memory), named_file(path)
    _refuse_databases(path)
    lines = (dump_line(record) for record in source.records())
    if seal is None:
        written = write_whole(path, lines)
    else:
        written = write_whole(path, sealed_lines(lines, seal, packed=path.suffix == ".gz"), packed=False)
    _tell(source.memory, "saved", path=str(written))
    return written


def _refuse_databases(path: Path) -> None:
    if is_database(path):
        raise ForeignFileError(f"{path} is a database; it was left as it is: give the file another name")
    refuse_parts(path)


def load_memory(
    path: str | os.PathLike[str],
    agent: Any = None,
    *,
    recover: bool = False,
    max_bytes: int | None = None,
    seal: Seal | None = None,
) -> AgentMemory:
    """Load what `save_memory` saved: into `agent`, whose next `run(task, reset=False)` goes on from there.

    An agent's plain AgentMemory is replaced by an ObservedMemory, its drop-in.

    Without an agent it returns an ObservedMemory to look at, replay or give to another agent; `memory.origin` tells
    where it comes from. Old dumps made by `json.dump(agent.memory.get_full_steps(), default=str)` are read as far as
    they can be, with a warning that says what they had already lost.

    A damaged file raises DamagedFileError, which says how many steps are intact; with `recover=True` the steps
    before the damage are returned, with a warning that names what is lost. Nothing in a file is ever executed, and no
    path or address in it is ever opened.

    Memory and time stay in proportion to the file's bytes. What is beyond that (a thousand large images of the same
    content, a packed file of which a hundred times its size comes out) raises OversizedFileError before it is made;
    `max_bytes` is what may be made of the file instead: 4_000_000_000 allows 4 GB of pixels.

    A sealed file takes the `Seal` that it was saved with, and raises SealError without it; with a seal a file that is
    not sealed is an error as well.
    """
    loading = load_records(named_file(path), recover=recover, max_bytes=max_bytes, seal=seal)
    memory = _deliver(loading, agent)
    _tell(memory, "restored", path=str(path))
    return memory


def export_memory(agent_or_memory: Any, *, seal: Seal | None = None) -> dict[str, Any]:
    """A memory as one dictionary of plain JSON values, images included: for a database field or a queue.

    With a `Seal` nobody reads it who does not have the seal's keys.

    >>> from smolagents_memory import ObservedMemory, export_memory, import_memory
    >>> sorted(export_memory(ObservedMemory("You are helpful.")))
    ['agent', 'content', 'created', 'format', 'smolagents', 'state', 'steps', 'system_prompt', 'version', 'written_by']
    """
    source = _Source(agent_or_memory)
    exported: dict[str, Any] = {**source.header(), "content": {}, "steps": []}
    for record in source.body():
        if "content" in record:
            exported["content"][record["content"]] = record["base64"]
        elif "step" in record:
            record.pop("index")
            exported["steps"].append(record)
        else:
            exported.update(record)
    return exported if seal is None else sealed_dictionary(exported, seal)


def import_memory(agent: Any, data: Mapping[str, Any] | list[Any], *, seal: Seal | None = None) -> AgentMemory:
    """Bring what `export_memory` gave into `agent` (or into a new ObservedMemory when `agent` is None).

    Also takes the lists that `agent.memory.get_full_steps()` and `get_succinct_steps()` give, as they are or after a
    trip through JSON, as far as they can be read. What was exported with a `Seal` takes the same seal.
    """
    loading = Loading("the data", recover=False)
    loading.read_exported(unsealed_dictionary(data, seal))
    return _deliver(loading, agent)


def memory_of(agent_or_memory: Any) -> AgentMemory:
    """The memory of an agent, or the memory itself."""
    memory = getattr(agent_or_memory, "memory", agent_or_memory)
    if not isinstance(memory, AgentMemory):
        raise TypeError(f"this takes an agent or a memory, not {type(agent_or_memory).__name__}")
    return memory


def _tell(memory: AgentMemory, event: str, **data: Any) -> None:
    if isinstance(memory, ObservedMemory):
        memory.events.emit(event, memory, steps=len(memory.steps), **data)


def _not_hiding(agent: Any, state: dict[str, Any]) -> dict[str, Any]:
    """A file's state, without what would stand in the place of a tool in the agent's code."""
    hidden = hiding(agent, state)
    if hidden:
        named = ", ".join(sorted(hidden))
        warn_of_loss(f"of the state in the file, {named} is left out: a tool or a word of Python's has this name now")
    return {name: value for name, value in state.items() if name not in hidden}


class _Source:
    """What is to be saved, as records."""

    def __init__(self, agent_or_memory: Any) -> None:
        self.memory = memory_of(agent_or_memory)
        self._agent = agent_or_memory if agent_or_memory is not self.memory else None
        self._steps = list(self.memory.steps)
        self._origin: Origin = getattr(self.memory, "origin", None) or Origin()

    def header(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "written_by": __version__,
            "smolagents": smolagents.__version__,
            "created": dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
            "agent": self._described_agent(),
        }

    def _described_agent(self) -> dict[str, Any]:
        if self._agent is None:
            return self._origin.agent
        model = getattr(self._agent, "model", None)
        name, model_id = getattr(self._agent, "name", None), getattr(model, "model_id", None)
        described = {"name": name, "class": type(self._agent).__name__, "model_id": model_id}
        return {key: None if value is None else str(value) for key, value in described.items()}

    def records(self) -> Iterator[dict[str, Any]]:
        """Header, body, and a last line that tells a whole file from one that was cut short."""
        yield {**self.header(), "steps": len(self._steps)}
        yield from self.body()
        yield {"end": len(self._steps)}

    def body(self) -> Iterator[dict[str, Any]]:
        """System prompt, state and steps, each after the content that it needs."""
        writer = StepWriter(self.memory.system_prompt)
        for part in self._parts(writer):
            for name, text in embed_blobs(writer.new_blobs()).items():
                yield {"content": name, "base64": text}
            yield part
        warn_of_losses(writer.losses, "This memory")

    def _parts(self, writer: StepWriter) -> Iterator[dict[str, Any]]:
        yield {"system_prompt": writer.write(PROMPT, self.memory.system_prompt)}
        encoder = new_encoder(writer.blobs)
        state = self._origin.state if self._agent is None else getattr(self._agent, "state", None)
        yield {"state": encoder.encode(dict(state or {}))}
        writer.losses += encoder.losses
        for index, step in enumerate(self._steps):
            yield {"index": index, **writer.write(index, step)}


def _deliver(loading: Loading, agent: Any) -> AgentMemory:
    """Put what was loaded where it belongs."""
    loading.warn()
    origin = Origin(loading.agent, loading.state, loading.created, loading.smolagents)
    if agent is not None and type(getattr(agent, "memory", None)) is AgentMemory:
        agent.memory = ObservedMemory(agent.memory.system_prompt.system_prompt)  # its replay bears images
    memory = ObservedMemory("") if agent is None else memory_of(agent)
    if loading.system_prompt is not None:
        memory.system_prompt = loading.system_prompt
    memory.steps = loading.steps
    if isinstance(memory, ObservedMemory):
        memory.origin = origin
    if agent is not None and agent is not memory:
        agent.state.update(_not_hiding(agent, origin.state))
    return memory
