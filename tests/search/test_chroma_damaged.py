"""No damage to a Chroma folder ends a process: an index is made anew once, a store of one's own says what is wrong."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import textwrap
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from numbered_texts import ByNumber

from smolagents_memory import EnhancedAgentMemory, StoreUnavailableError, VectorMemoryStore


HERE = [os.path.dirname(os.path.dirname(__file__)), *sys.path]
COUNT = 1200  # so many that Chroma has written its graph

# it opens each place twice: the first time may make the folder anew, the second may not
OPENING = """
    import sys
    sys.path[:0], paths = VALUES
    from numbered_texts import ByNumber
    from smolagents_memory import EnhancedAgentMemory

    for path in paths:
        anew = []
        for _ in range(2):
            with EnhancedAgentMemory(path, embedder=ByNumber()) as memory:
                for n in (0, 7, 600, 1199):
                    assert memory.recall(f"pears{n}", 1)[0].key == str(n), (path, n)
                assert memory.stats()["index"] == "chroma", path
                anew.append(memory.long_term.keeper.vault.indexes.of_name("").rebuilt)
        print(path.rsplit("/", 1)[1], *anew, flush=True)
"""


def child(source: str, *values: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    program = f"VALUES = {(HERE, *values)!r}\n" + textwrap.dedent(source)
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300, **options
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with an index in Chroma, closed as it should be."""
    made = tmp_path_factory.mktemp("place")
    with EnhancedAgentMemory(made, embedder=ByNumber()) as memory:
        memory.remember_many({"text": f"{n} apples", "key": str(n)} for n in range(COUNT))
        assert memory.recall("pears7", 1)[0].key == "7"
        assert memory.stats()["index"] == "chroma"
    return made


def file_of(folder: Path, name: str) -> Path:
    """A file of Chroma's by its name, whatever the folder is called that it lies in."""
    return next(path for path in folder.rglob(name) if path.is_file())


def changed(name: str, change: Callable[[bytearray], None]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = file_of(folder, name)
        data = bytearray(path.read_bytes())
        change(data)
        path.write_bytes(data)

    return damage


def flip(at: float, bit: int) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[int(at * len(data))] ^= 1 << bit

    return change


def page(at: float, content: bytes) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        start = int(at * len(data))
        data[start : start + 4096] = content[: len(data) - start]

    return change


def cut(data: bytearray) -> None:
    del data[len(data) // 2 :]


def lengthened(data: bytearray) -> None:
    data.extend(b"more")


def as_link(folder: Path) -> None:
    path = file_of(folder, "data_level0.bin")
    target = folder.parent / "elsewhere.bin"
    shutil.move(path, target)
    path.symlink_to(target)


def as_folder(folder: Path) -> None:
    path = file_of(folder, "link_lists.bin")
    path.unlink()
    path.mkdir()


def as_pipe(name: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = file_of(folder, name)
        path.unlink()
        os.mkfifo(path)  # whoever opens it waits for ever

    return damage


def strange(folder: Path) -> None:
    """An inventory and a state that fit their checksums, and are not what they should be."""
    data = b'{"files": [1, [2, 3]], "counter": "x"}'
    (folder / "inventory.json").write_bytes(b'{"checksum": %d}\n' % zlib.crc32(data) + data)
    (folder / f"memory-{'9' * 30}-1.json").write_text('{"bank": "", "change": 1e400, "count": 1, "taken": 2}')


def swapped(folder: Path) -> None:
    one, other = file_of(folder, "link_lists.bin"), file_of(folder, "length.bin")
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)


def added(folder: Path) -> None:
    (folder / "chroma.sqlite3-journal").write_bytes(os.urandom(5000))


NOISE = random.Random(11).randbytes(4096)
FIRST = {
    "one bit of the links": changed("link_lists.bin", flip(0.1, 7)),
    "a page of the graph": changed("data_level0.bin", page(0.3, NOISE)),
    "one bit of the database": changed("chroma.sqlite3", flip(0.5, 1)),
    "a link for a file": as_link,
    "no inventory, as 0.1.0 left it": lambda folder: (folder / "inventory.json").unlink(),
}
MORE = {
    **{
        f"one bit of {name} at {at}": changed(name, flip(at, bit))
        for name in (
            "link_lists.bin", "data_level0.bin", "header.bin", "length.bin", "index_metadata.pickle", "chroma.sqlite3",
            "memory-*.json", "inventory.json",
        )
        for at, bit in ((0.0, 0), (0.35, 6), (0.7, 3))
    },
    **{
        f"{name} cut": changed(name, cut)
        for name in ("link_lists.bin", "data_level0.bin", "header.bin", "chroma.sqlite3", "index_metadata.pickle")
    },
    "zeros": changed("data_level0.bin", page(0.6, bytes(4096))),
    "noise in the database": changed("chroma.sqlite3", page(0.2, NOISE)),
    "lengthened": changed("header.bin", lengthened),
    "a folder for a file": as_folder,
    "swapped": swapped,
    "a pipe for the database": as_pipe("chroma.sqlite3"),
    "a pipe for the graph": as_pipe("data_level0.bin"),
    "a pipe for the inventory": as_pipe("inventory.json"),
    "strange notes": strange,
    "a file too many": added,
    "no database": lambda folder: (folder / "chroma.sqlite3").unlink(),
    "no graph": lambda folder: shutil.rmtree(file_of(folder, "header.bin").parent),
    "all files": lambda folder: [path.write_bytes(NOISE) for path in folder.rglob("*") if path.is_file()] and None,
}  # fmt: skip


def damaged_places(place: Path, into: Path, damages: dict[str, Callable[[Path], None]]) -> list[str]:
    paths = []
    for name, damage in damages.items():
        paths.append(str(into / name.replace("*", "n")))
        shutil.copytree(place, paths[-1])
        damage(Path(paths[-1]) / "chroma")
    return paths


@pytest.mark.slow
@pytest.mark.parametrize("damages", [FIRST, pytest.param(MORE, marks=pytest.mark.slow)], ids=["some", "many"])
def test_any_damage_to_an_index_costs_one_rebuild(place: Path, tmp_path: Path, damages: dict[str, Any]) -> None:
    """No process dies, recall gives what it should, and the next opening finds everything in order."""
    paths = damaged_places(place, tmp_path, damages)
    done = child(OPENING, paths)
    assert done.returncode == 0, f"{done.returncode}: {done.stdout}{done.stderr[-3000:]}"
    for line in done.stdout.splitlines():
        assert line.endswith(" 1 0"), line
    assert len(done.stdout.splitlines()) == len(paths)


@pytest.mark.slow
def test_a_kill_while_nothing_is_written_costs_no_rebuild(tmp_path: Path) -> None:
    """What the files are is noted after each write: no mark says "in use"."""
    source = """
        import os, signal, sys
        sys.path[:0], path = VALUES
        from numbered_texts import ByNumber
        from smolagents_memory import EnhancedAgentMemory

        memory = EnhancedAgentMemory(path, embedder=ByNumber())
        memory.remember_many({"text": f"{n} apples", "key": str(n)} for n in range(1200))
        assert memory.recall("pears7", 1)[0].key == "7"
        memory.long_term.keeper.vault.indexes.flush()
        memory.remember("1300 apples", key="1300")  # it waits in RAM, and is in SQL
        assert memory.recall("pears1300", 1)[0].key == "1300"
        os.kill(os.getpid(), signal.SIGKILL)
    """
    assert child(source, str(tmp_path / "killed")).returncode == -9
    assert child(OPENING, [str(tmp_path / "killed")]).stdout == "killed 0 0\n"


# -- a store of one's own: its texts are nowhere else ----------------------------------------------------------------

ASKING = """
    import sys
    sys.path[:0], paths = VALUES
    from numbered_texts import ByNumber
    from smolagents_memory import StoreUnavailableError, VectorMemoryStore

    for path in paths:
        try:
            with VectorMemoryStore(path, embedder=ByNumber()) as store:
                found = [store.search(f"pears{n}", 1)[0].key for n in (0, 7, 600, 1199)]
                assert found == ["0", "7", "600", "1199"], found
                assert len(store) == len(dict(zip(store, store))) == 1200
                print(path.rsplit("/", 1)[1], "opened", flush=True)
        except StoreUnavailableError as error:
            assert "is damaged" in str(error) and "Nothing was opened" in str(error), error
            print(path.rsplit("/", 1)[1], "refused", flush=True)
"""

KILLED = """
    import os, signal, sys
    sys.path[:0], path = VALUES
    from numbered_texts import ByNumber
    from smolagents_memory import VectorMemoryStore

    store = VectorMemoryStore(path, embedder=ByNumber())
    for _ in range(2):
        store.add_many((str(n), f"{n} apples") for n in range(1200))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def filled_store(path: Path) -> Path:
    with VectorMemoryStore(path, embedder=ByNumber()) as store:
        store.add_many((str(n), f"{n} apples") for n in range(COUNT))
    return path


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store's only copy, closed as it should be."""
    return filled_store(tmp_path_factory.mktemp("own") / "store")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("damages", [FIRST, MORE], ids=["some", "many"])
def test_a_damaged_store_is_refused_and_left_as_it_is(own: Path, tmp_path: Path, damages: dict[str, Any]) -> None:
    """An error of ours says so before anything is opened: whoever has a copy, or only the texts, loses no more."""
    damages = {name: damage for name, damage in damages.items() if "memory-" not in name}
    paths = []
    for name, damage in damages.items():
        paths.append(tmp_path / name)
        shutil.copytree(own, paths[-1])
        damage(paths[-1])
    before = [contents(path) for path in paths]
    done = child(ASKING, [str(path) for path in paths])
    assert done.returncode == 0, f"{done.returncode}: {done.stdout}{done.stderr[-3000:]}"
    said = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())
    assert set(said) == set(damages)
    for path, then in zip(paths, before, strict=True):
        if "inventory" in path.name or "strange" in path.name:  # all of it can be read
            assert said[path.name] == "opened"
        else:
            assert said[path.name] == "refused", path.name
            assert contents(path) == then


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store whose process was killed."""
    path = tmp_path_factory.mktemp("life") / "killed"
    assert child(KILLED, str(path)).returncode == -9
    return path


@pytest.mark.slow
def test_a_store_whose_process_was_killed_opens_as_before(killed: Path, tmp_path: Path) -> None:
    """What its files should be is not known then: a process of its own reads all of it, and no damage kills ours."""
    paths = [
        tmp_path / "killed",
        *(tmp_path / name for name in FIRST if "the links" not in name and "no inv" not in name),
    ]
    for path in paths:
        shutil.copytree(killed, path)
        if path.name in FIRST:
            FIRST[path.name](path)
    done = child(ASKING, [str(path) for path in paths])
    assert done.returncode == 0, f"{done.returncode}: {done.stdout}{done.stderr[-3000:]}"
    said = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())
    assert said.pop("a link for a file") == "opened"  # what it points to is whole
    assert said.pop("killed") == "opened"
    assert set(said.values()) == {"refused"}


@pytest.mark.slow
def test_another_program_may_have_worked_with_the_folder(own: Path, tmp_path: Path) -> None:
    """Chroma's own tools write into it: that is no damage."""
    shutil.copytree(own, tmp_path / "store")
    source = """
        import chromadb, sys
        client = chromadb.PersistentClient(VALUES[1])
        client.create_collection("another", embedding_function=None).add(ids=["a"], embeddings=[[1.0, 2.0]])
    """
    assert child(source, str(tmp_path / "store")).returncode == 0
    assert child(ASKING, [str(tmp_path / "store")]).stdout == "store opened\n"


@pytest.mark.slow
def test_the_texts_of_a_store_outlive_its_graph(own: Path, tmp_path: Path) -> None:
    """As the guide says: without the damaged graph they are embedded again."""
    path = tmp_path / "store"
    shutil.copytree(own, path)
    changed("data_level0.bin", page(0.3, NOISE))(path)
    with pytest.raises(StoreUnavailableError, match="is damaged"):
        VectorMemoryStore(path, embedder=ByNumber())
    shutil.rmtree(file_of(path, "header.bin").parent)
    (path / "inventory.json").unlink()
    with VectorMemoryStore(path, embedder=ByNumber()) as store:
        store.add_many(list(store.items()))
        assert store.search("pears7", 1)[0].key == "7"
    assert child(ASKING, [str(path)]).stdout == "store opened\n"


@pytest.mark.slow
def test_examining_needs_neither_a_home_nor_a_main_module(killed: Path, tmp_path: Path) -> None:
    """As in a script without `if __name__ == "__main__"`, a notebook, or a container."""
    shutil.copytree(killed, tmp_path / "killed")
    script = tmp_path / "script.py"
    script.write_text(f"VALUES = {(HERE, [str(tmp_path / 'killed')])!r}\n" + textwrap.dedent(ASKING))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, env={}, timeout=120
    )
    assert done.stdout == "killed opened\n", done.stderr
