"""Reading a memory file line by line, and what to do when it is damaged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from smolagents.memory import MemoryStep, SystemPromptStep

from smolagents_memory._brief import brief
from smolagents_memory._errors import (
    DamagedFileError,
    DecodeError,
    ForeignFileError,
    MemoryFileError,
    NewerFormatError,
    OversizedError,
    OversizedFileError,
)
from smolagents_memory._json import parse_json
from smolagents_memory._log import warn_of_loss
from smolagents_memory.codec import legacy
from smolagents_memory.codec.allowance import Allowance
from smolagents_memory.codec.blobs import extract_blobs
from smolagents_memory.codec.lines import Readable, parse_line, read_lines, read_whole
from smolagents_memory.codec.values import new_decoder
from smolagents_memory.history.recording import StepReader
from smolagents_memory.history.sealed_files import readable


FORMAT = "smolagents-memory"
FORMAT_VERSION = 1
_MOST_LOSSES = 1_000  # then it is no memory that was damaged


class Loading:
    """A memory while it is being read: what is there so far, and what is lost."""

    def __init__(self, name: str, *, recover: bool, allowance: Allowance | None = None) -> None:
        self.steps: list[MemoryStep] = []
        self.system_prompt: SystemPromptStep | None = None
        self.state: dict[str, Any] = {}
        self.agent: dict[str, Any] = {}
        self.created = self.smolagents = ""
        self.losses: list[str] = []
        self.name, self._recover = name, recover
        self._reader = StepReader(allowance)
        self._oversized = False
        self._ended = False
        self._expected: int | None = None
        self._stopped: str | None = None  # why no further step can be taken

    # -- the header --------------------------------------------------------------------------------------------

    def read_header(self, header: Mapping[str, Any]) -> None:
        """Check that this is ours, and of a version that can be read."""
        if header.get("format") != FORMAT:
            raise ForeignFileError(f'{self.name} is no memory file: it should say "format": "{FORMAT}"')
        version = header.get("version")
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise ForeignFileError(f"{self.name} names the format version {brief(version)}, which there is not")
        if version > FORMAT_VERSION:
            raise NewerFormatError(
                f"{self.name} has format version {version}, written by smolagents-memory {header.get('written_by')}; "
                f"this one reads up to {FORMAT_VERSION}: pip install -U smolagents-memory"
            )
        agent = header.get("agent")
        self.agent = dict(agent) if isinstance(agent, dict) else {}
        self.created, self.smolagents = str(header.get("created", "")), str(header.get("smolagents", ""))
        steps = header.get("steps")  # how many there should be, or the steps themselves
        self._expected = steps if isinstance(steps, int) else None

    # -- lines -------------------------------------------------------------------------------------------------

    def read_lines(self, lines: Iterator[bytes | DecodeError]) -> None:
        """Everything after the header. Damage is noted; the first step that it reaches ends the history."""
        for number, line in enumerate(lines, start=2):
            try:
                if isinstance(line, DecodeError):
                    raise line
                self._read_record(parse_line(line))
            except OversizedError as error:
                self._stop(f"line {number}: {error}")
                return
            except DecodeError as error:
                self.losses.append(f"line {number}: {error}")
                if len(self.losses) >= _MOST_LOSSES:
                    self.losses.append("so much is damaged that the rest was not read")
                    return
        if not self._ended:
            self.losses.append("the end of the file is missing: it was cut short")

    def _stop(self, why: str) -> None:
        """Nothing more is read."""
        self._oversized = True
        self.losses.append(why)

    def _read_record(self, record: dict[str, Any]) -> None:
        if "content" in record:
            self._reader.blobs.update(extract_blobs({str(record["content"]): record.get("base64", "")}))
        elif "index" in record:
            self._read_step(record)
        elif "system_prompt" in record:
            self.system_prompt = self._reader.read_prompt(record["system_prompt"])
        elif "state" in record:
            self._read_state(record["state"])
        elif "end" in record:
            self._ended = True
            if self._expected is None and isinstance(record["end"], int):
                self._expected = record["end"]
        else:
            raise DecodeError(f"a record of an unknown kind: {sorted(record)[:5]}")

    def _read_step(self, record: dict[str, Any]) -> None:
        if self._stopped is None and record["index"] != len(self.steps):
            self._stopped = f"step {len(self.steps)} is missing"
        if self._stopped is not None:
            return
        try:
            step = self._reader.read(len(self.steps), record)
        except DecodeError:
            self._stopped = f"step {len(self.steps)} cannot be read"
            raise
        self.steps.append(step)

    def _read_state(self, node: Any) -> None:
        state = new_decoder(self._reader.blobs).decode(node)
        if not isinstance(state, dict):
            raise DecodeError("the agent's state should be an object")
        if not all(isinstance(name, str) for name in state):
            raise DecodeError("the names in the agent's state should be texts")
        self.state = state

    # -- other forms -------------------------------------------------------------------------------------------

    def read_exported(self, data: Any) -> None:
        """What `export_memory` gave, or an old dump of steps."""
        if isinstance(data, list) and all(isinstance(step, dict) for step in data):
            self.steps, self.losses = legacy.read_steps(data)
            self._recover = True  # nothing here is damage: it was lost when the dump was made
            return
        if not isinstance(data, Mapping):
            raise ForeignFileError(f"{self.name} is neither an exported memory nor a list of steps")
        self.read_header(data)
        try:
            self._reader.blobs.update(extract_blobs(data["content"]))
            for part in ("system_prompt", "state"):
                self._read_record({part: data[part]})
            for index, record in enumerate(data["steps"]):
                self._read_record({"index": index, **record})
        except (KeyError, TypeError, AttributeError, DecodeError) as error:
            self._oversized = isinstance(error, OversizedError)
            self.losses.append(str(error) if isinstance(error, DecodeError) else f"it lacks a part: {error!r}")
        self.finish()

    # -- the verdict -------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Raise if anything is damaged and nobody asked to recover the rest."""
        if self._stopped is not None:
            self.losses.append(f"{self._stopped}: the steps after it are left out")
        if self._expected is not None and self._expected > len(self.steps):
            self.losses.append(f"{self._expected - len(self.steps)} of {self._expected} steps are lost")
        if self.losses and not self._recover:
            self._fail()

    def _fail(self) -> NoReturn:
        of = f" of {self._expected}" if self._expected is not None else ""
        if self._oversized:
            raise OversizedFileError(
                f"{self.name} would take more memory or time than so few bytes may ({self.losses[0]}). "
                f"{len(self.steps)}{of} steps were read, recover=True returns them; max_bytes= allows more, if it is "
                "your own",
                recoverable=len(self.steps),
            )
        raise DamagedFileError(
            f"{self.name} is damaged ({'; '.join(self.losses[:4])}). {len(self.steps)}{of} steps are intact: "
            "load_memory(path, recover=True) returns them",
            recoverable=len(self.steps),
        )

    def warn(self) -> None:
        """Say what was lost."""
        if self.losses:
            lost = "; ".join(self.losses[:8])
            warn_of_loss(f"{self.name}: {len(self.steps)} steps were read; lost: {lost}", stacklevel=5)


def load_records(path: Path, *, recover: bool, max_bytes: int | None = None, seal: Any = None) -> Loading:
    """Read a file of any form that this package knows."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no memory file {str(path)!r}")
    allowance = Allowance(path.stat().st_size, max_bytes)
    loading = Loading(path.name, recover=recover, allowance=allowance)
    file = readable(path, seal)
    lines = read_lines(file, allowance)
    first = next(lines, b"")
    if isinstance(first, OversizedError):
        raise OversizedFileError(f"{path.name}: {first}; nothing was read; max_bytes= allows more")
    if isinstance(first, DecodeError):
        raise DamagedFileError(f"{path.name} is damaged: {first}; nothing could be read")
    if not first.strip():
        raise DamagedFileError(f"{path.name} is empty: nothing could be read")
    try:
        header = parse_line(first)
    except DecodeError as error:
        if not _is_our_header(first):
            lines.close()
            _read_other_json(loading, file, first, Allowance(path.stat().st_size, max_bytes))
            return loading
        loading.losses.append(f"line 1: {error}")
    else:
        loading.read_header(header)
    loading.read_lines(lines)
    loading.finish()
    return loading


def _is_our_header(line: bytes) -> bool:
    """Whether a line that does not check was our header. What is JSON by itself may be an exported dictionary."""
    if b'"smolagents-memory"' not in line[:200]:
        return False
    try:
        return b',"crc":"' in line[-40:] or not isinstance(parse_json(line), dict)
    except DecodeError:
        return True


def _read_other_json(loading: Loading, path: Readable, first: bytes, allowance: Allowance) -> None:
    """An exported dictionary, or an old dump, as one JSON text."""
    if first.lstrip()[:1] not in (b"[", b"{"):
        raise ForeignFileError(f"{loading.name} is no memory file: it begins with {first[:20]!r}")
    try:
        data = parse_json(read_whole(path, allowance), constants=True)
    except OversizedError as error:
        raise OversizedFileError(f"{loading.name}: {error}; nothing was read; max_bytes= allows more") from error
    except DecodeError as error:
        raise MemoryFileError(f"{loading.name} cannot be read: {error}; nothing could be recovered") from error
    loading.read_exported(data)
