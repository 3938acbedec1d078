"""What can be read from a place, as plain JSON: what the released code read is the truth the goldens are held to.

Only public names are used, so that a room that moves does not reach here; `records_of` is the one exception.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import warnings
from collections.abc import Iterable
from enum import Enum
from typing import Any

from golden_memories import ANN, BOB, DAY, QUERIES, Clock, GoldenEmbedder
from golden_stories import NOW, PROBE, golden_coder, golden_states
from PIL import Image
from smolagents.agent_types import AgentImage
from smolagents.monitoring import AgentLogger

from smolagents_memory import EnhancedAgentMemory, MemoryLossWarning, Ranker, Session, SessionManager, SqlStore


INFO = ("session_id", "state", "created", "updated", "runs", "steps", "input_tokens", "output_tokens", "last_task")
RUN = (
    "number", "state", "task", "started", "ended", "steps", "input_tokens", "output_tokens", "max_steps", "error",
)  # fmt: skip
RECORD = ("key", "kind", "source", "importance", "created", "touched", "uses", "useful", "pinned", "archived")
STATS = ("memories", "archived", "embedder", "not embedded")
PROBED = ("code", "fork", "fork of an earlier step")  # sessions whose variables are tried out in a fresh agent


def records_of(memory: EnhancedAgentMemory) -> Iterable[Any]:
    """Every memory of a scope with the history of its use, archived ones too, in the order they were first added.

    The one thing here for which there is no public name: when it moves, mend this line.
    """
    return memory.long_term.keeper.records(archived=None)


# -- any value as plain JSON ---------------------------------------------------------------------------------------


def plain(value: Any, above: tuple[int, ...] = ()) -> Any:
    """A value as JSON that says all of it, by no code of the package: what would be wrong both in writing and in
    reading shows here. What is None in an object is left out, so that a newer smolagents may add fields."""
    if value is None or type(value) in (bool, int, str):
        return value
    if id(value) in above:
        return {"again": len(above) - above.index(id(value))}
    above = (*above, id(value))
    if isinstance(value, float):
        return {type(value).__name__: repr(float(value))}
    if isinstance(value, bytes):
        return {"bytes": len(value), "sha256": hashlib.sha256(value).hexdigest()}
    if isinstance(value, AgentImage):
        return {"AgentImage": plain(value.to_raw(), above)}
    if isinstance(value, Image.Image):
        return _picture(value)
    if isinstance(value, Enum):
        return {"enum": f"{type(value).__qualname__}.{value.name}"}
    if isinstance(value, dict):
        return {_kind(value): [[plain(key, above), plain(item, above)] for key, item in value.items()]}
    if isinstance(value, (set, frozenset)):
        return {_kind(value): sorted((plain(item, above) for item in value), key=json.dumps)}
    if isinstance(value, (list, tuple)):
        items = [plain(item, above) for item in value]
        return items if isinstance(value, list) else {_kind(value): items}
    if type(value).__module__.partition(".")[0] in ("numpy", "pandas", "datetime"):
        return {_kind(value): _table(value, above)}
    return {_kind(value): _fields(value, above)}


def _kind(value: Any) -> str:
    return type(value).__qualname__  # without its module: rooms may be renamed


def _picture(image: Image.Image) -> Any:
    palette = image.getpalette("RGBA") if image.mode in ("P", "PA") else None
    pixels = hashlib.sha256(image.tobytes()).hexdigest()
    return {"picture": [image.mode, list(image.size), pixels, palette, plain(image.info.get("transparency"))]}


def _table(value: Any, above: tuple[int, ...]) -> Any:
    if hasattr(value, "to_dict"):
        return [
            repr(dict(getattr(value, "dtypes", {}))),
            plain(list(value.index), above),
            plain(value.to_dict(), above),
        ]
    if hasattr(value, "tolist"):
        return [str(value.dtype), list(value.shape), plain(value.tolist(), above)]
    return repr(value)


def _fields(value: Any, above: tuple[int, ...]) -> Any:
    found: dict[str, Any] = {}
    if isinstance(value, str):
        found["content"] = str(value)
    if isinstance(value, BaseException):
        found["args"] = plain(list(value.args), above)
    names = [each.name for each in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
    for name in sorted({*names, *getattr(value, "__dict__", ())}):
        item = getattr(value, name, None)
        if item is not None and name != "raw" and not name.startswith("_") and not isinstance(item, AgentLogger):
            found[name] = plain(item, above)
    return found


def as_json(value: Any) -> Any:
    """As it is after a trip through a file."""
    return json.loads(json.dumps(value))


def _picked(value: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


# -- sessions ------------------------------------------------------------------------------------------------------


def read_sessions(storage: str) -> dict[str, Any]:
    """All there is to read of a place's sessions, nothing being written."""
    manager = SessionManager(storage)
    infos = [{**_picked(info, INFO), "agent": plain(info.agent)} for info in manager.sessions()]
    names = manager.list_sessions()
    return as_json({"names": names, "infos": infos, "sessions": {n: read_session(manager, n) for n in names}})


def read_session(manager: SessionManager, name: str) -> dict[str, Any]:
    """One session, and those of its managed agents' calls."""
    session = manager.session(name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MemoryLossWarning)
        steps = session.steps()
        found = {
            "steps": plain(steps),
            "originals": [plain(session.original(at)) for at in range(len(steps))],
            "prompt": session.system_prompt,
            "runs": [{**_picked(run, RUN), "answer": plain(run.answer)} for run in session.runs()],
            "after each run": [[len(left), plain(left[-1:])] for left in _left_by_runs(session)],
            "children": {name: read_session(manager, name) for name in session.children()},
        }
    found["losses"] = len([each for each in caught if issubclass(each.category, MemoryLossWarning)])
    return found


def _left_by_runs(session: Session) -> list[list[Any]]:
    """What each run left; of a session that was imported in one piece 0.1.0 knew that of the last one only."""
    if session.session_id == "imported":
        return []
    return [session.steps(run=run.number) for run in session.runs()]


def read_by_attaching(storage: str) -> dict[str, Any]:
    """What a fresh agent finds when it goes on: variables, `agent.state`, typed states. This writes."""
    manager = SessionManager(storage)
    found: dict[str, Any] = {}
    for name in PROBED:
        agent = golden_coder(PROBE)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MemoryLossWarning)
            with manager.session(name).attach(agent):
                answer = agent.run("What is there?", reset=False)
        state = {key: plain(value) for key, value in agent.state.items() if key in ("user", "given")}
        found[name] = {"answer": plain(answer), "state": state}
    states = golden_states()
    with manager.session("typed").attach(golden_coder()) as session:
        for state in states.values():
            session.keep(state)
    found["typed"] = {name: plain(state.get()) for name, state in states.items()}
    return as_json(found)


# -- memories ------------------------------------------------------------------------------------------------------

SCOPES: dict[str, dict[str, Any] | None] = {"nobody's": None, "ann": ANN, "bob": BOB}


# the weights of 0.1.0: what is kept must come back by them as it did, whatever is weighed otherwise today
_THEN = {"lexical": 0.35, "widened": 20, "short": 10**9, "covers": 0.0, "speaker": 0.0, "question": 0.0}
_THEN |= {"time": 0.0, "names": 0.0, "first": 0.0}
AS_THEN = Ranker(**{each.name: _THEN[each.name] for each in dataclasses.fields(Ranker) if each.name in _THEN})


def opened(place: str, scope: dict[str, Any] | None = None, *, embedder: Any = None) -> EnhancedAgentMemory:
    """The memory of a scope, at the time at which the goldens were made."""
    return EnhancedAgentMemory(
        place, scope=scope, embedder=embedder or GoldenEmbedder(), clock=Clock(NOW), ranker=AS_THEN
    )


def read_memories(place: str, *, scopes: Iterable[str] = SCOPES) -> dict[str, Any]:
    """All there is to read of a place's memories, scope by scope. Recalling counts as use: read a copy."""
    found = {}
    for name in scopes:
        embedder = GoldenEmbedder()
        with opened(place, SCOPES[name], embedder=embedder) as memory:
            found[name] = read_memory(memory)
        found[name]["embedded"] = embedder.documents  # a vector that was lost would come back unseen
    return as_json(found)


def read_words(place: str) -> dict[str, Any]:
    """The same of memories that have no vectors, and are to get none."""
    with EnhancedAgentMemory(place, embedder=None, clock=Clock(NOW), ranker=AS_THEN) as memory:
        return as_json(read_memory(memory))


def read_memory(memory: EnhancedAgentMemory) -> dict[str, Any]:
    """One scope's."""
    records = list(records_of(memory))
    stats = memory.stats()
    by_place: dict[str, list[tuple[Any, str]]] = {}
    for record in records:
        if record.source is not None:
            by_place.setdefault(record.source, []).append((record.place, record.key))
    recalled = []
    for query, where in QUERIES:
        recalled.append([_hit(hit) for hit in memory.recall(query, where=where, explain=True)])
        memory.stats()  # what was just used is written down
    return {
        "stats": {name: stats[name] for name in STATS},
        "records": [
            {**_picked(record, RECORD), "value": record.value, "meta": plain(record.meta)} for record in records
        ],
        "neighbours": {source: [key for _, key in sorted(there)] for source, there in by_place.items()},
        "recalled": recalled,
        "uses": {record.key: [record.uses, record.touched] for record in records_of(memory)},
    }


def _hit(hit: Any) -> dict[str, Any]:
    names = ("key", "value", "kind", "source", "created", "importance")
    scores = {"score": hit.score, "relevance": hit.relevance, **{f"part {name}": n for name, n in hit.parts.items()}}
    return {**_picked(hit, names), "meta": plain(hit.meta), "scores": {n: round(s, 4) for n, s in scores.items()}}


def read_values(file: str) -> dict[str, Any]:
    """What a store of values beside the memories holds."""
    store: SqlStore[Any] = SqlStore(file, scope={"store": "values"}, clock=Clock(NOW + DAY))
    hits = [[hit.key, round(hit.score, 4)] for hit in store.search("the key under the mat")]
    found = {"items": [[key, plain(value), plain(meta)] for key, value, meta in store.items()], "hits": hits}
    store.close()
    return as_json(found)
