"""What 0.1.0 wrote is read by today's code as 0.1.0 read it: sessions, memories, both, half-made places, Postgres.

The places lie packed in `data`, beside what the released code found in them. Each test opens a copy.
"""

from __future__ import annotations

import itertools
import json
import lzma
import shutil
import socket
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from golden_memories import ANN, Clock, GoldenEmbedder
from golden_readings import (
    RECORD,
    SCOPES,
    as_json,
    opened,
    plain,
    read_by_attaching,
    read_memories,
    read_sessions,
    read_values,
    read_words,
    records_of,
)
from golden_stories import (
    AFTER_THE_KILL,
    ANSWER_AFTER_THE_KILL,
    LOST,
    NOW,
    ODD_ID,
    golden_coder,
    golden_states,
)
from PIL import Image
from smolagents.memory import AgentMemory

from smolagents_memory import (
    EnhancedAgentMemory,
    MemoryLossWarning,
    NoteStep,
    Session,
    SessionManager,
    import_memory,
    load_memory,
)
from smolagents_memory.testing import explain_difference


DATA = Path(__file__).parent / "data"
TRUTH: dict[str, Any] = json.loads(lzma.decompress((DATA / "truth.json.xz").read_bytes()))
MADE_ON = "golden-host"
HALF_MADE = sorted(TRUTH["half-made"])

Places = Callable[[str], str]


# -- places --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", autouse=True)
def the_same_machine() -> Iterator[None]:
    """The killed process was one of this machine: its sessions may be taken up without further questions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "gethostname", lambda: MADE_ON)
        yield


def unpacked(name: str, target: Path) -> Path:
    """An archive's content in a new folder."""
    shutil.unpack_archive(DATA / f"{name}.tar.xz", target, "xztar", filter="data")
    return target


@pytest.fixture(scope="session")  # once a server: what runs side by side may come back to this file
def golden_postgres(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Gives the URL of a database that was loaded from the dump, a new one each time."""
    url = request.getfixturevalue("postgres")
    psycopg = pytest.importorskip("psycopg", reason="pip install 'smolagents-memory[postgres]'")
    from sqlalchemy.engine import make_url

    def named(name: str) -> str:
        return make_url(url).set(database=name).render_as_string(hide_password=False)

    numbers = itertools.count()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE golden")
    with psycopg.connect(named("golden"), autocommit=True) as connection:
        connection.execute(lzma.decompress((DATA / "postgres.sql.xz").read_bytes()).decode())

    def another() -> str:
        name = f"golden_{next(numbers)}"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE golden")
        return named(name)

    return another


@pytest.fixture(scope="module")
def places(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Places:
    """Gives a fresh copy of a place by its name: a folder, or a URL of Postgres."""

    def fresh(name: str) -> str:
        if name == "postgres":
            url: str = request.getfixturevalue("golden_postgres")()
            return url
        return str(unpacked(name, tmp_path_factory.mktemp(name)) / "place")

    return fresh


on_postgres = pytest.param("postgres", marks=pytest.mark.slow)
with_sessions = pytest.mark.parametrize("name", ["sessions", "both", on_postgres])
with_memories = pytest.mark.parametrize("name", ["memories", "both", on_postgres])


@pytest.fixture(scope="module")
def found_sessions(places: Places) -> Callable[[str], Any]:
    """All that today's code reads of a place's sessions; read once."""
    found: dict[str, Any] = {}

    def read(name: str) -> Any:
        if name not in found:
            found[name] = read_sessions(places(name))
        return found[name]

    return read


@pytest.fixture(scope="module")
def found_memories(places: Places) -> Callable[[str], Any]:
    """All that today's code reads of a place's memories; read once."""
    found: dict[str, Any] = {}

    def read(name: str) -> Any:
        if name not in found:
            found[name] = read_memories(places(name))
        return found[name]

    return read


def url_of(place: str) -> str:
    """What a Session takes: a URL."""
    return place if "://" in place else f"sqlite:///{place}/memory.db"


def check(found: Any, truth: Any) -> None:
    """It is what the released code read; else the first difference is named."""
    assert explain_difference(found, truth) is None


# -- sessions ------------------------------------------------------------------------------------------------------


@with_sessions
def test_every_session_is_listed_as_it_was(name: str, found_sessions: Any) -> None:
    found, truth = found_sessions(name), TRUTH[name]["sessions"]
    check(found["names"], truth["names"])
    check(found["infos"], truth["infos"])


@with_sessions
@pytest.mark.parametrize("part", ["steps", "originals", "prompt", "runs", "after each run", "children", "losses"])
def test_a_session_is_what_it_was(name: str, part: str, found_sessions: Any) -> None:
    """Of a CodeAgent and a ToolCallingAgent, with images, edits, resets, forks, odd values; finished and not."""
    sessions, truth = found_sessions(name)["sessions"], TRUTH[name]["sessions"]["sessions"]
    check({each: session[part] for each, session in sessions.items()}, {each: truth[each][part] for each in truth})


@with_sessions
def test_steps_are_the_same_as_those_the_agent_had(name: str, places: Places, tmp_path: Path) -> None:
    """What `save_memory` wrote of the live agents, beside the database, is the same as what comes from it."""
    manager = SessionManager(places(name))
    files = sorted((unpacked(name, tmp_path) / "portable").iterdir())
    assert len(files) == 15
    for file in files:
        session_id = ODD_ID if file.name.startswith("odd.") else file.name.partition(".")[0]
        session, memory = manager.session(session_id), load_memory(file)
        assert explain_difference(session.steps(), memory.steps) is None, session_id
        assert session.system_prompt == memory.system_prompt.system_prompt
        assert explain_difference(rendered(session.memory()), rendered(memory)) is None, session_id


def rendered(memory: AgentMemory) -> list[Any]:
    """What a model would read of it."""
    messages = [message for step in memory.steps for message in step.to_messages()]
    return [(message.role, message.content) for message in messages]


@with_sessions
def test_a_fresh_agent_finds_variables_state_and_typed_state(name: str, places: Places) -> None:
    """Functions, classes, aliases, arrays and frames work in its own code; a fork has those of its own moment."""
    found, truth = read_by_attaching(places(name)), TRUTH[name]["attached"]
    for each in truth:
        assert explain_difference(found[each], truth[each]) is None, each


@with_sessions
def test_typed_state_outlives_a_reset(name: str, places: Places) -> None:
    """The one of the released code, which is in the data already, and one of today's."""
    manager = SessionManager(places(name))
    truth = TRUTH[name]["attached"]["typed"]
    for session_id, wanted in (("typed", truth["trip"]), ("typed and reset", None)):
        for _ in range(2):
            trip = golden_states()["trip"]
            with manager.session(session_id).attach(golden_coder("final_answer(1)")) as session:
                session.keep(trip)
                if wanted is not None:
                    check(as_json(plain(trip.get())), wanted)
                assert trip.get().city == ("Bern" if wanted is None else "Oslo")
                agent = golden_coder("final_answer(1)")
            with manager.session(session_id).attach(agent):
                agent.run("Once more, from the beginning.", reset=True)
                assert wanted is not None or agent.state["note"] == (1, "kept")


@with_sessions
def test_a_run_that_was_killed_goes_on_to_its_answer(name: str, places: Places) -> None:
    session = SessionManager(places(name)).session("killed")
    before = session.steps()
    agent = golden_coder(*AFTER_THE_KILL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MemoryLossWarning)
        assert session.resume(agent) == ANSWER_AFTER_THE_KILL
    (run,) = session.runs()
    assert (run.state, run.max_steps, run.task) == ("finished", 7, "Count, whatever happens.")
    steps = session.steps()
    assert explain_difference(steps[:3], before) is None
    (note,) = [step.to_messages()[0].content for step in steps if isinstance(step, NoteStep)]
    assert all(f"- {lost}:" in str(note) for lost in LOST)
    assert isinstance(agent.model.calls[0].images[0], Image.Image)


@with_sessions
def test_an_old_session_goes_on_being_written(name: str, places: Places) -> None:
    place = places(name)
    manager = SessionManager(place)
    before = manager.session("fork").steps()
    agent = golden_coder("more = kept + 1", "final_answer(more)")
    with manager.session("fork").attach(agent):
        agent.memory.steps[1].plan = "edited today"
        assert agent.run("Go on.", reset=False) == 43
    with Session("new", url_of(place)).attach(golden_coder("final_answer(2)")) as session:
        session.flush()
    session = SessionManager(place).session("fork")
    steps = session.steps()
    assert explain_difference([*before[:1], *before[2:]], [steps[0], *steps[2:-3]]) is None
    assert steps[1].plan == "edited today"
    assert session.original(1).plan == before[1].plan
    assert [run.state for run in session.runs()] == ["finished"] * 4
    assert len(session.fork("today", at=2).steps()) == 3
    assert manager.delete_session("code")  # what its forks share stays
    assert explain_difference(manager.session("fork").steps(), steps) is None
    names = [*TRUTH[name]["sessions"]["names"], "new", "today"]
    assert SessionManager(place).list_sessions() == sorted(each for each in names if each != "code")


# -- memories ------------------------------------------------------------------------------------------------------


@with_memories
@pytest.mark.parametrize("part", ["stats", "records", "neighbours", "uses", "embedded"])
def test_a_scope_is_what_it_was(name: str, part: str, found_memories: Any) -> None:
    """Texts, metadata, kinds, sources, importance, times, use; pinned, archived, gone; nothing is embedded anew."""
    found, truth = found_memories(name), TRUTH[name]["memories"]
    check({scope: found[scope][part] for scope in SCOPES}, {scope: truth[scope][part] for scope in SCOPES})


@with_memories
@pytest.mark.parametrize("scope", SCOPES)
def test_recall_ranks_as_it_did(name: str, scope: str, found_memories: Any) -> None:
    check_recalled(found_memories(name)[scope], TRUTH[name]["memories"][scope])


def check_recalled(found: Any, truth: Any) -> None:
    """The same memories in the same order, for the same reasons."""
    for hits, others in zip(found["recalled"], truth["recalled"], strict=True):
        assert [hit["key"] for hit in hits] == [hit["key"] for hit in others]
        for hit, other in zip(hits, others, strict=True):
            scores = hit.pop("scores")
            wanted = {name: score for name, score in other.pop("scores").items() if name != "relevance"}
            assert {name: scores[name] for name in wanted} == pytest.approx(wanted, abs=1e-3)
            check(hit, other)


@with_memories
def test_an_old_memory_goes_on_being_written(name: str, places: Places) -> None:
    place = places(name)
    with opened(place, ANN) as memory:
        before = {record.key: plain(record.value) for record in records_of(memory)}
        memory.remember("The zebra crossed at noon.", key="zebra", meta={"new": True})
        assert memory.restore("away")
        assert memory.forget("tea")
        assert memory.archive("friday")
        memory.remember("A pinned remark of Ann.", key="pinned", importance=9)
        memory.remember_document("Only one chapter is left.", "animals.txt")
    with opened(place, ANN) as memory:
        records = {record.key: record for record in records_of(memory)}
        old = {key for key in before if key.startswith("d-")}
        assert len(old) > 2
        assert records.keys() == ({*before, "zebra"} - {"tea"} - old) | {min(old)}
        assert (records["pinned"].importance, records["pinned"].pinned) == (9, True)
        assert memory.recall("Which zebra?")[0].key == "zebra"
        assert memory.recall("Something that was soon put away.")[0].key == "away"
        assert not {"tea", "friday"} & {hit.key for hit in memory.recall("green tea deploy Friday", 20)}
        assert memory.stats().not_embedded == 0
    with opened(place) as memory:  # another scope is none the wiser
        truth = TRUTH[name]["memories"]["nobody's"]["records"]
        check([record.value for record in records_of(memory)], [each["value"] for each in truth])
        assert "zebra" not in {hit.key for hit in memory.recall("Which zebra?", 50)}


def test_memories_without_vectors_are_what_they_were(places: Places) -> None:
    place, truth = places("words"), TRUTH["words"]
    found = read_words(place)
    check_recalled(found, truth["memories"])
    for part in ("stats", "records", "uses"):
        check(found[part], truth["memories"][part])
    check(read_values(f"{place}/memory.db"), truth["values"])


def test_memories_without_vectors_get_them_from_an_embedder(places: Places) -> None:
    found = read_memories(places("words"), scopes=["nobody's"])["nobody's"]
    truth = TRUTH["words"]["embedded"]["nobody's"]
    check_recalled(found, truth)
    check([found["stats"], found["embedded"]], [truth["stats"], truth["embedded"]])


# -- halves --------------------------------------------------------------------------------------------------------


def begin_what_is_missing(place: str) -> None:
    """A session and a memory, and both once more from their beginning."""
    agent = golden_coder("final_answer(7)")
    with SessionManager(place).session("late").attach(agent):
        assert agent.run("Be late.", reset=False) == 7
    with opened(place, ANN) as memory:
        memory.remember("A late memory.", key="late")
    assert len(SessionManager(place).session("late").steps()) == 2
    with opened(place, ANN) as memory:
        assert memory.recall("late memory")[0].key == "late"


@pytest.mark.parametrize("name", ["sessions", "memories"])
def test_a_place_with_one_half_gets_the_other(name: str, places: Places) -> None:
    place = places(name)
    begin_what_is_missing(place)
    check_the_half(name, place, TRUTH[name])


@pytest.mark.parametrize("name", ["sessions", "memories"])
def test_a_postgres_with_one_half_gets_the_other(name: str, places: Places) -> None:
    """The tables of the other half were never there."""
    from sqlalchemy import create_engine, inspect, text

    url = places("postgres")
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        for table in inspect(connection).get_table_names():
            if table.startswith("memory_") == (name == "sessions"):
                connection.execute(text(f"DROP TABLE {table} CASCADE"))
    engine.dispose()
    begin_what_is_missing(url)
    check_the_half(name, url, TRUTH["postgres"])


def check_the_half(name: str, place: str, truth: Any) -> None:
    """What was there is there."""
    if name == "sessions":
        found = read_sessions(place)["sessions"]
        check({each: found[each] for each in found if each != "late"}, truth["sessions"]["sessions"])
        return
    with opened(place) as memory:
        records = [{each: getattr(record, each) for each in RECORD} for record in records_of(memory)]
        wanted = [{each: record[each] for each in RECORD} for record in truth["memories"]["nobody's"]["records"]]
        check(as_json(records), wanted)


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked("half-made", tmp_path_factory.mktemp("half-made"))


@pytest.mark.slow
@pytest.mark.parametrize("name", HALF_MADE)
def test_a_place_whose_making_was_killed_is_read_and_made_whole(name: str, halves: Path, tmp_path: Path) -> None:
    """Each state that a kill between any two SQL statements left behind, from the first file to the first answer."""
    place, truth = str(tmp_path / "place"), TRUTH["half-made"][name]
    shutil.copytree(halves / name / "place", place)
    check(read_sessions(place), truth["sessions"])
    found = read_memories(place, scopes=["nobody's"])["nobody's"]
    for part in ("stats", "records"):
        check(found[part], truth["memories"]["nobody's"][part])
    begin_what_is_missing(place)
    for each in truth["sessions"]["names"]:  # and what had been begun goes on
        agent = golden_coder("final_answer(8)")
        before = len(SessionManager(place).session(each).steps())
        with SessionManager(place).session(each).attach(agent):
            assert agent.run("Go on.", reset=False) == 8
        assert len(SessionManager(place).session(each).steps()) == before + 2
    assert SessionManager(place).list_sessions() == [*truth["sessions"]["names"], "late"]


# -- portable files ------------------------------------------------------------------------------------------------


def test_files_that_sessions_exported_are_read_as_the_sessions_are(tmp_path: Path) -> None:
    truth = TRUTH["both"]["sessions"]["sessions"]
    files = sorted(unpacked("exports", tmp_path).glob("*.jsonl"))
    assert len(files) == 5
    for file in files:
        memory = load_memory(file)
        assert explain_difference(as_json(plain(list(memory.steps))), truth[file.stem]["steps"]) is None, file.stem
        assert memory.system_prompt.system_prompt == truth[file.stem]["prompt"]


def test_an_exported_dictionary_is_brought_into_an_agent(tmp_path: Path) -> None:
    data = json.loads((unpacked("exports", tmp_path) / "code.json").read_text())
    agent = golden_coder("final_answer('and on')")
    import_memory(agent, data)
    truth = TRUTH["both"]
    check(as_json(plain(list(agent.memory.steps))), truth["sessions"]["sessions"]["code"]["steps"])
    check(as_json({name: plain(agent.state[name]) for name in ("user", "given")}), truth["attached"]["code"]["state"])
    assert agent.run("Go on.", reset=False) == "and on"


def test_an_exported_file_begins_a_session(places: Places, tmp_path: Path) -> None:
    place = places("memories")
    file = unpacked("exports", tmp_path) / "images.jsonl"
    session = SessionManager(place).session("imported today").import_(file)
    check(as_json(plain(session.steps())), TRUTH["both"]["sessions"]["sessions"]["images"]["steps"])


# -- both at once --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["both", on_postgres])
def test_an_agent_goes_on_with_its_session_and_its_memories(name: str, places: Places) -> None:
    """One memory with one session in one place: steps come back, what was learnt is recalled, and both grow."""
    place = places(name)
    session = Session("code", url_of(place))
    options: dict[str, Any] = {"scope": ANN, "auto_recall": 3, "session": session, "clock": Clock(NOW)}
    agent = golden_coder("final_answer(kept)")
    with EnhancedAgentMemory(place, embedder=GoldenEmbedder(), **options) as memory:
        memory.attach(agent)
        assert agent.run("How is the staging server reached, through the VPN?", reset=False) == 42
        assert "reached through the VPN" in agent.model.calls[-1].text
    with opened(place, ANN) as memory:
        assert memory.stats().memories > TRUTH[name]["memories"]["ann"]["stats"]["memories"]
    before = len(TRUTH[name]["sessions"]["sessions"]["code"]["steps"])
    assert len(SessionManager(place).session("code").steps()) > before + 1
