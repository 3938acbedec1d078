"""No password is printed: by no command, in no error and what it is made from, in no log, and by no object."""

from __future__ import annotations

import contextlib
import logging
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import code_agent
from databases import emptied
from program import command
from sqlalchemy.engine import make_url

from smolagents_memory import (
    EnhancedAgentMemory,
    PlaceError,
    RecallTool,
    RedisStore,
    RememberTool,
    Session,
    SessionManager,
    SmolagentsMemoryError,
    SqlStore,
    ToolStateError,
    UnsupportedValueError,
    VectorMemoryStore,
    open_store,
)
from smolagents_memory.database.engine import Database
from smolagents_memory.database.passwords import has_password, shown, shown_url
from smolagents_memory.database.places import Place


SECRETS = ("s3cret", "t0psecret", "keyw0rd", "hidden.pgpass")
QUERY = "password=t0psecret&sslpassword=keyw0rd&passfile=hidden.pgpass"


def gives_away(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


@pytest.fixture
def reachable(postgres: str) -> str:
    """A real server that lets everybody in, with passwords wherever one can stand in its URL."""
    emptied(postgres)
    url = make_url(postgres).set(username="postgres", password="s3cret").render_as_string(hide_password=False)
    return f"{url}{'&' if '?' in url else '?'}{QUERY}"


UNREACHABLE = {
    "nobody there": f"postgresql://ann:s3cret@127.0.0.1:1/name?{QUERY}&connect_timeout=1",
    "escaped": "postgresql://ann:s3cret%40%2Fs3cret@127.0.0.1:1/name?connect_timeout=1",
    "an option that is none": f"postgresql://ann:s3cret@127.0.0.1:1/name?{QUERY}&nosuch=1",
}
MALFORMED = {
    "an @ in it": "postgresql://ann:x@s3cret@127.0.0.1:1/name",
    "a slash and an @": "postgresql://ann:x@y/s3cret@127.0.0.1:1/name",
    "all of it": "postgresql://an/n:x@y/s3cret?t0psecret@127.0.0.1:1/name",
    "a port that is none": "postgresql://ann@127.0.0.1:s3cret/name",
    "one slash": "postgresql:/ann:s3cret@127.0.0.1/name",
    "a port and an @ in an option": "postgresql://127.0.0.1:1/name?user=ann&password=x@s3cret",
    "an @ in an option": "postgresql://127.0.0.1?user=ann&password=s3cret@x",
    "no colon": "postgresql//ann:s3cret@127.0.0.1/name",
    "no colon and no name": "postgresql//127.0.0.1/name?password=s3cret",
    "no scheme and a slash": "ann:x/s3cret@127.0.0.1/name",
    "no scheme and a backslash": "ann:x\\s3cret@127.0.0.1/name",
    "slashes alone": "//ann:x/s3cret@127.0.0.1/name",
    "another URL in it": "ann:s3cret@127.0.0.1/name?next=http://x",
    "no slash": "postgres:ann:s3cret@127.0.0.1/name",
    "no scheme": "ann:s3cret@127.0.0.1/name",
    "of libpq": "host=127.0.0.1 user=ann password=s3cret dbname=name",
    "another database": "mysql://ann:s3cret@127.0.0.1/name?password=t0psecret",
    "an unknown one": "nosuch://ann:s3cret@127.0.0.1/name?password=t0psecret",
    "no scheme at all": "a b://ann:s3cret@127.0.0.1/name",
    "bytes": b"postgresql://ann:s3cret@127.0.0.1/name",
}
STORES = {
    "redis": "redis://ann:s3cret@127.0.0.1:1/0?password=t0psecret",
    "a malformed one": "redis://ann:s3cret/t0psecret@127.0.0.1:1/0",
    "another malformed one": "redis://ann:x@127.0.0.1:s3cret/0",
    "no address": "redis://:[s3cret@127.0.0.1/0",
    "no address, in TLS": "rediss://:[s3cret@127.0.0.1/0",
    "no address of a socket": "unix://:[s3cret@/x.sock",
    "a socket": "unix://:x/s3cret@/x.sock",
    "half of it a port": "redis://ann:12/s3cret@127.0.0.1:1/0",
    "chroma without http": "chroma://ann:s3cret@127.0.0.1",
    "chroma with a slash": "chroma+http://ann:x/s3cret@127.0.0.1:1",
    "chroma without an address": "chroma+http://:[s3cret@127.0.0.1:1",
    "chroma": "chroma+http://ann:s3cret@127.0.0.1:1",
}
USES: dict[str, Callable[[Any], Any]] = {
    "Place": Place,
    "Session": lambda url: Session("s", url).steps(),
    "attach": lambda url: Session("s", url).attach(code_agent([])).detach(),
    "SessionManager": lambda url: SessionManager(url).sessions(),
    "purge": lambda url: SessionManager(url).purge(),
    "SqlStore": lambda url: SqlStore(url).purge(),
    "open_store": open_store,
    "EnhancedAgentMemory": lambda url: EnhancedAgentMemory(url, vector=False),
    "RecallTool": lambda url: RecallTool(url)("key"),
    "RememberTool": lambda url: RememberTool(url)("The key is under the mat."),
}


def told_by(use: Callable[[Any], Any], url: Any, caplog: pytest.LogCaptureFixture) -> str:
    """All that is said while something is used: given, raised (with what that is made from), warned and logged."""
    caplog.clear()
    with warnings.catch_warnings(record=True) as warned, caplog.at_level(logging.DEBUG):
        warnings.simplefilter("always")
        try:
            said = repr(use(url))
        except SmolagentsMemoryError as error:
            # the whole chain, without the lines of our own source, where a test's URL may stand
            chain = traceback.TracebackException.from_exception(error)
            said, seen = "", chain
            while seen is not None:
                said += "".join(seen.format_exception_only())
                seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    return said + caplog.text + "".join(str(each.message) for each in warned)


@pytest.mark.parametrize("named", [*UNREACHABLE, *MALFORMED])
def test_no_error_says_it(
    named: str, caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url: Any = {**UNREACHABLE, **MALFORMED}[named]
    for name, use in USES.items():
        if named not in UNREACHABLE or name in ("Place", "Session", "attach", "SqlStore", "RecallTool"):
            assert gives_away(told_by(use, url, caplog)) == [], name
    assert list(tmp_path.iterdir()) == []  # nor the name of a folder


@pytest.mark.parametrize("named", STORES)
def test_no_store_says_it(
    named: str, caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if STORES[named].startswith(("redis", "unix")):
        pytest.importorskip("redis")
    for name in ("open_store", "EnhancedAgentMemory", "RecallTool", "Session", "SessionManager"):
        assert gives_away(told_by(USES[name], STORES[named], caplog)) == [], name
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "named", [each for each in STORES if each.startswith(("no address", "a socket", "half", "chroma w"))]
)
def test_a_malformed_url_of_a_store_is_no_place(named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("redis")
    for use in (open_store, USES["EnhancedAgentMemory"], USES["RecallTool"]):
        with pytest.raises(PlaceError):
            use(STORES[named])
    with pytest.raises(PlaceError):
        VectorMemoryStore(STORES[named])
    assert list(tmp_path.iterdir()) == []


def test_a_url_of_redis_keeps_its_options_as_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    redis = pytest.importorskip("redis")
    asked: list[str] = []
    monkeypatch.setattr(RedisStore, "__init__", lambda _, url, **options: asked.append(url))
    open_store("redis://host/0?password=a%26b%3Dc&ttl=60")
    assert redis.connection.parse_url(asked[0])["password"] == "a&b=c"
    with pytest.raises(UnsupportedValueError, match="seconds"):
        open_store("redis://host/0?ttl=soon")


def test_no_object_says_it(reachable: str, caplog: pytest.LogCaptureFixture) -> None:
    database = Database.at(reachable)
    agent = code_agent([])
    with Session("s", reachable).attach(agent) as session, EnhancedAgentMemory(reachable, vector=False) as memory:
        memory.remember("The key is under the mat.")
        said = [database, database.place, database.engine, database.engine.pool, session, SessionManager(reachable)]
        said += [
            SqlStore(reachable),
            memory,
            memory.stats(),
            memory.long_term.keeper,
            agent.memory,
            RecallTool(memory),
        ]
        said += [RecallTool(memory), RecallTool(reachable), database.opened]
    assert gives_away(" ".join(f"{each!r} {each!s}" for each in said)) == []
    for use in USES.values():
        assert gives_away(told_by(use, reachable, caplog)) == []
    with contextlib.suppress(SmolagentsMemoryError):
        Session("s", reachable).fork("s")
    assert gives_away(caplog.text) == []


def test_a_saved_tool_does_not_hold_one(reachable: str) -> None:
    for tool in (RecallTool(reachable), RecallTool(Place(reachable)), RecallTool(make_url(reachable))):
        with pytest.raises(ToolStateError, match="password") as raised:
            tool.to_dict()
        assert gives_away(str(raised.value)) == []
    plain = make_url(reachable).set(password=None, query={}).render_as_string()
    assert "postgresql" in RecallTool(plain).to_dict()["code"]


def commands() -> list[list[str]]:
    """Every command, each once."""
    from typer.main import get_command

    from smolagents_memory.cli import doctor, key_commands, memories, people, sessions
    from smolagents_memory.cli.app import app

    assert doctor.doctor
    assert key_commands.keys
    assert memories.search
    assert people.people
    assert sessions.sessions
    given = {
        "show": ["s"], "replay": ["s"], "export": ["s", "out.jsonl"], "import": ["i", "in.jsonl"], "fork": ["s", "f"],
        "delete": ["f", "--yes"], "stats": ["s"], "backup": ["b.db"], "search": ["key"], "remember": ["A key."],
        "forget": ["k", "--yes"], "decay": ["--purge", "--yes"], "memories": [], "scopes": [], "migrate": [],
        "sessions": [], "doctor": [], "reindex": [], "demo": [], "consolidate": [], "separate": ["k"],
        "confirm": ["k"], "revoke": ["--source", "x", "--yes"],
        "people list": [], "people export": ["ann", "ann.zip"], "people erase": ["ann", "--yes"],
        "seal": [], "unseal": ["--yes"], "reseal": [], "rotate": [], "shred": ["--session", "s", "--yes"],
        "keys list": [], "keys export": ["keys.json"], "keys import": ["keys.json"], "keys drop": ["--yes"],
    }  # fmt: skip
    all_of_them: Any = get_command(app)
    groups = {name: getattr(each, "commands", None) for name, each in all_of_them.commands.items()}
    there = {f"{name} {inner}" if inner else name for name, group in groups.items() for inner in group or [""]}
    assert there <= set(given), "a new command: say here how it is called"
    return [[*name.split(), *given[name]] for name in given if name in there and name != "demo"]


@pytest.mark.slow
def test_no_command_prints_it(reachable: str, tmp_path: Path) -> None:
    agent = code_agent([])
    with Session("s", reachable, user="ann").attach(agent):
        pass
    Session("s", reachable).export(tmp_path / "in.jsonl")
    with EnhancedAgentMemory(reachable, vector=False) as memory:
        memory.remember("The key is under the mat.", key="k")
    for each in commands():
        for more in ([], ["--json"]):
            done = command(*each, *more, "--storage", reachable, cwd=tmp_path)
            assert gives_away(done.stdout + done.stderr) == [], each
            assert "Traceback" not in done.stderr, each
    named = command("migrate", "--storage", reachable, cwd=tmp_path).stdout
    assert "postgres:***@" in named
    spaced = reachable.replace("s3cret", "s3cret t0psecret").replace("keyw0rd", "keyw0rd t0psecret")
    for each in (
        "migrate",
        "backup b.db --yes",
        "doctor",
        "show nos",
        "stats nos",
        "delete nos",
        "memories --scope a=b",
    ):
        done = command(*each.split(), "--storage", spaced, cwd=tmp_path)
        assert gives_away(done.stdout + done.stderr) == [], each


@pytest.mark.slow
@pytest.mark.parametrize("named", ["nobody there", "an option that is none", "a slash and an @", "of libpq", "bytes"])
def test_no_command_prints_it_when_it_fails(named: str, tmp_path: Path) -> None:
    url = {**UNREACHABLE, **MALFORMED}[named]
    url = url.decode() if isinstance(url, bytes) else url
    for each in (["show", "s"], ["doctor"], ["search", "key"]):
        done = command(*each, "--storage", url, cwd=tmp_path, SMOLAGENTS_MEMORY_OFFLINE="1")
        assert done.returncode == 1
        assert gives_away(done.stdout + done.stderr) == [], each
        assert "Traceback" not in done.stderr, each


@pytest.mark.parametrize("line", ["doctor {}", "import i {}", "{}", "show a {}", "--{}"])
def test_a_url_where_none_belongs_is_not_repeated(line: str, tmp_path: Path) -> None:
    done = command(*line.format(UNREACHABLE["escaped"]).split(), cwd=tmp_path)
    assert done.returncode != 0
    assert gives_away(done.stdout + done.stderr) == []


def test_a_long_text_is_looked_through_in_proportion_to_its_length() -> None:
    took = []
    for length in (20_000, 200_000):
        begun = time.perf_counter()
        pieces = ("x", "password", "a://b:", "a://b:c ", "a://b:@", "://x:1 ", "secret=", "secret=a&", "?password=a&")
        for text in ("secret" + " " * length, *("@" + piece * (length // len(piece)) + " @" for piece in pieces)):
            shown(text)
            shown_url(text)
        took.append(time.perf_counter() - begun)
    assert took[1] < 40 * took[0] + 0.05


@pytest.mark.parametrize(
    ("text", "is_shown"),
    [
        ("postgresql://ann:pw@host/name", "postgresql://ann:***@host/name"),
        ("redis://:pw@host/0 and more", "redis://:***@host/0 and more"),
        ("postgresql://host/name?user=ann&password=pw&x=1", "postgresql://host/name?user=ann&password=***&x=1"),
        ("postgresql://ann:p@w/d@host/name", "postgresql://ann:***@host/name"),
        ("postgresql:/ann:pw@host/name", "postgresql:/ann:***@host/name"),
        ("sqlite:////home/a:b@c/memory.db", "sqlite:////home/a:b@c/memory.db"),
        ("max_tokens=100, nothing passes", "max_tokens=100, nothing passes"),
        ("(postgresql://ann:p w@host/name) is no file", "(postgresql://ann:***@host/name) is no file"),
        ("postgresql://ann:p\tw\nx@host/name", "postgresql://ann:***@host/name"),
        ("'redis://host/0?password=p w&x=1' is none", "'redis://host/0?password=***&x=1' is none"),
        ("redis://host/0?password=p&w&x=1", "redis://host/0?password=***&x=1"),
        ("redis://host:6379/0?password=p@w&x=1", "redis://host:***&x=1"),
        ("redis://:p&token=w@host/0", "redis://:***"),
        ("redis://host:6379 is not there; ask ann@host", "redis://host:6379 is not there; ask ann@host"),
        ("postgresql://ann:***@host cannot be read; ask b@c", "postgresql://ann:***@host cannot be read; ask b@c"),
    ],
)
def test_what_is_shown_of_a_url(text: str, is_shown: str) -> None:
    assert shown(text) == is_shown


@pytest.mark.parametrize("blank", [" ", "\t", "\n", " @ ", " & "])
@pytest.mark.parametrize("url", ["postgresql://ann:{}@host/name", "redis://:{}@host/0", "redis://host/0?password={}"])
def test_nothing_is_shown_of_a_password_with_a_blank_in_it(url: str, blank: str) -> None:
    url = url.format(f"s3cret{blank}t0psecret")
    assert gives_away(shown_url(url)) == []
    assert has_password(url)
    assert shown_url(url) == url.replace(f"s3cret{blank}t0psecret", "***")


@pytest.mark.parametrize(
    "url", ["postgresql://ann:{}@host/name", "redis://ann:{}@host/0", "redis://host/0?password={}"]
)
@pytest.mark.parametrize("blank", [" ", "\t", "\n"])
def test_a_password_with_a_blank_in_it_is_not_saved_with_a_tool(url: str, blank: str, tmp_path: Path) -> None:
    with pytest.raises(ToolStateError, match="password") as raised:
        RecallTool(url.format(f"s3cret{blank}t0psecret")).save(tmp_path / "saved")
    assert gives_away(str(raised.value)) == []


def test_options_with_an_at_sign_are_no_part_of_the_password() -> None:
    for url in ("postgresql://ann:pw@host/name?user=a@b", "postgresql://host/name?user=a@b", "sqlite:///a@b/c@d.db"):
        assert Place(url).url.query.get("user") in (None, "a@b")
    with pytest.raises(PlaceError, match="%40"):
        Place("postgresql://ann:p@w@host/name")
    for url in ("postgresql://host:5432/name?user=a@b", "postgresql://host?user=a@b"):  # it begins where a login may
        with pytest.raises(PlaceError, match="%40"):
            Place(url)
    assert Place("postgresql://ann:p%40w@host/name").url.password == "p@w"
    assert Place("postgresql://ann:p?w@host/name").url.password == "p?w"


def test_an_empty_url_of_a_store_is_refused() -> None:
    pytest.importorskip("redis")
    for kind in (RedisStore, lambda url: VectorMemoryStore(url), lambda url: VectorMemoryStore(url=url)):
        with pytest.raises((PlaceError, SmolagentsMemoryError)):
            kind("")
