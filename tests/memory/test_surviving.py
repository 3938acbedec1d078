"""Crashes, several processes, damaged folders, other embedders, no network."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing

import pytest

from smolagents_memory import EnhancedAgentMemory, MissingExtraError


def worker(source, *values, **options):
    """A process that runs `source` with VALUES."""
    folder = os.path.dirname(os.path.dirname(__file__))
    head = f"import sys; sys.path.insert(0, {folder!r})\nVALUES = {values!r}\n"
    return subprocess.Popen([sys.executable, "-c", head + textwrap.dedent(source)], text=True, **options)


BUSY = """
    import random, sys
    from quick_embedder import Hashed
    from smolagents_memory import EnhancedAgentMemory
    path, name, seed = VALUES
    chosen = random.Random(seed)
    memory = EnhancedAgentMemory(path, embedder=Hashed())
    for n in range(100000):
        if chosen.random() < 0.3:
            bulk = [{"text": f"{name} wrote bulk {n} {i}", "key": f"{name}-{n}-{i}"} for i in range(5)]
            keys = memory.remember_many(bulk)
        else:
            keys = [memory.remember(f"{name} wrote note {n}", key=f"{name}-{n}", source=name)]
        print(" ".join(keys), flush=True)   # acknowledged
        found = [hit.key for hit in memory.recall(f"{name} wrote note {n}", 3)]
        assert found, "nothing was recalled"
"""


@pytest.mark.endurance
def test_eight_processes_killed_and_restarted_at_random_lose_nothing_and_the_folder_still_opens(
    tmp_path, hashed, rounds, chance
):
    """No error, nothing acknowledged lost, everyone sees everything, nothing to repair."""
    chosen, wanted = chance, rounds(160)
    path, log = str(tmp_path / "m"), tmp_path / "log"
    log.mkdir()
    running = {}

    def start(slot, round_):
        name = f"w{slot}r{round_}"
        out, err = (log / f"{name}.out").open("w"), (log / f"{name}.err").open("w")
        running[slot] = worker(BUSY, path, name, slot * 100 + round_, stdout=out, stderr=err)

    for slot in range(8):
        start(slot, 0)

    def acknowledged():
        lines = [line for file in log.glob("*.out") for line in file.read_text().splitlines(keepends=True)]
        return {key for line in lines if line.endswith("\n") for key in line.split()}

    kills, deadline = 0, time.monotonic() + 60 + 2 * wanted  # on a busy machine it takes a while until all have begun
    while (kills < wanted or len(acknowledged()) < 300) and time.monotonic() < deadline:
        time.sleep(0.7 + chosen.random())
        for slot in chosen.sample(range(8), 2):
            kills += 1
            running[slot].send_signal(signal.SIGKILL)
            assert running[slot].wait(20) == -signal.SIGKILL
            start(slot, kills)
        if len(acknowledged()) < 20 * kills:
            time.sleep(2)
    for process in running.values():
        process.send_signal(signal.SIGKILL)
        process.wait(20)
    errors = [file.read_text() for file in log.glob("*.err") if "Traceback" in file.read_text()]
    assert not errors, errors[0]
    kept = acknowledged()
    assert len(kept) > 200
    with EnhancedAgentMemory(path, embedder=hashed) as memory:
        there = {record.key for record in memory.long_term.keeper.records()}
        assert kept <= there
        assert memory.stats().index == "chroma"
        assert memory.reindex() == {"embedded": 0, "rebuilt": 0}
        for key in chosen.sample(sorted(kept), 20):
            text = memory.long_term.get(key).value
            assert text in [hit.value for hit in memory.recall(text, 5)]


@pytest.mark.slow
def test_two_processes_see_each_others_memories_at_once(tmp_path, hashed):
    """The one that has Chroma and the one that has not."""
    source = """
        import sys
        from quick_embedder import Hashed
        from smolagents_memory import EnhancedAgentMemory
        memory = EnhancedAgentMemory(VALUES[0], embedder=Hashed())
        for line in sys.stdin:
            what, _, text = line.strip().partition(" ")
            if what == "add":
                memory.remember(text, key=text)
                print("ok", flush=True)
            elif what == "forget":
                print(memory.forget(text), flush=True)
            else:
                print([hit.key for hit in memory.recall(text, 3)], memory.stats().leads, flush=True)
    """
    with EnhancedAgentMemory(tmp_path, embedder=hashed) as mine:
        mine.remember("mine first", key="mine first")
        mine.recall("warm up")
        other = worker(source, str(tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def ask(line):
            other.stdin.write(line + "\n")
            other.stdin.flush()
            return other.stdout.readline().strip()

        assert ask("recall mine first") == "['mine first'] False"
        assert ask("add theirs second") == "ok"
        assert "theirs second" in [hit.key for hit in mine.recall("theirs second")]
        assert mine.stats().index == "chroma"
        mine.forget("mine first")
        assert ask("recall mine first") == "['theirs second'] False"
        assert ask("forget theirs second") == "True"
        assert mine.recall("theirs second") == []
        other.stdin.close()
        assert other.wait(20) == 0


@pytest.mark.slow
def test_when_the_process_that_has_chroma_closes_it_the_next_one_to_open_gets_it(tmp_path, hashed):
    """And what it wrote meanwhile is there when the first one opens again."""
    with EnhancedAgentMemory(tmp_path, embedder=hashed) as memory:
        memory.remember_many(f"note number {n}" for n in range(20))
        assert memory.stats().index == "chroma"
    source = """
        from quick_embedder import Hashed
        from smolagents_memory import EnhancedAgentMemory
        memory = EnhancedAgentMemory(VALUES[0], embedder=Hashed())
        memory.remember("written meanwhile", key="k")
        assert memory.recall("written meanwhile", 1)[0].key == "k"
        assert memory.stats().leads
        memory.close()
    """
    assert worker(source, str(tmp_path)).wait(60) == 0
    with EnhancedAgentMemory(tmp_path, embedder=hashed) as again:
        assert again.recall("written meanwhile", 1)[0].key == "k"
        assert again.stats().index == "chroma"
        assert again.reindex() == {"embedded": 0, "rebuilt": 0}
        assert again.long_term.keeper.vault.indexes.of_name("").rebuilt == 0


def test_a_forked_child_goes_on_by_itself(tmp_path, hashed):
    """It neither hangs in the parent's Chroma client nor keeps its lock."""
    memory = EnhancedAgentMemory(tmp_path, embedder=hashed)
    memory.remember_many(f"note number {n}" for n in range(30))
    memory.recall("note number 3")
    child = os.fork()
    if child == 0:
        try:
            memory.remember("written by the child", key="child")
            found = memory.recall("written by the child", 1)[0].key == "child" and memory.recall("note number 3")
            os._exit(0 if found else 3)
        except BaseException:  # noqa: BLE001 — a child must never come back into pytest
            os._exit(4)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.05)
    else:
        os.kill(child, signal.SIGKILL)
        pytest.fail("the child hung")
    assert os.waitstatus_to_exitcode(status) == 0
    assert memory.recall("written by the child", 1)[0].key == "child"
    assert memory.stats().index == "chroma"
    memory.close()


@pytest.fixture(scope="module")
def indexed_place(tmp_path_factory):
    """A place with an index in Chroma, left well by another process."""
    source = """
        from quick_embedder import Hashed
        from smolagents_memory import EnhancedAgentMemory
        memory = EnhancedAgentMemory(VALUES[0], embedder=Hashed())
        memory.remember_many([{"text": f"note number {n} of the log", "key": f"k{n}"} for n in range(1500)])
        memory.close()
    """
    place = tmp_path_factory.mktemp("indexed")
    assert worker(source, str(place)).wait(120) == 0
    return place


_MORE = [pytest.param(damage, marks=pytest.mark.slow) for damage in ("database", "segment", "state", "emptied")]


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["deleted", "garbage", *_MORE])
def test_a_damaged_chroma_folder_is_made_anew_without_embedding_again(tmp_path, indexed_place, damage, caplog):
    """SQL holds the vectors."""
    shutil.copytree(indexed_place, tmp_path, dirs_exist_ok=True)
    folder = tmp_path / "chroma"
    if damage == "deleted":
        shutil.rmtree(folder)
    elif damage == "database":
        (folder / "chroma.sqlite3").write_bytes(b"no database at all" * 100)
    elif damage == "garbage":
        for file in folder.rglob("*.bin"):
            file.write_bytes(os.urandom(file.stat().st_size))
    elif damage == "state":
        next(folder.glob("memory-*.json")).write_text("{")
    else:
        for file in [path for path in folder.iterdir() if path.is_dir()]:
            shutil.rmtree(file)
            if damage == "emptied":
                file.mkdir()
    source = """
        from quick_embedder import Hashed
        from smolagents_memory import EnhancedAgentMemory
        embedder = Hashed()
        memory = EnhancedAgentMemory(VALUES[0], embedder=embedder)
        for n in (0, 700, 1499):
            assert memory.recall(f"note number {n} of the log", 1)[0].key == f"k{n}"
        assert embedder.calls <= 4, embedder.calls
        assert memory.stats().index == "chroma", memory.stats()
        assert memory.reindex() == {"embedded": 0, "rebuilt": 0}
        memory.close()
    """
    for _ in range(3):  # where the files make Chroma itself crash, the third opening makes them anew
        process = worker(source, str(tmp_path), stderr=subprocess.PIPE)
        _, errors = process.communicate(timeout=120)
        if process.returncode >= 0:
            break
    assert process.returncode == 0, errors


REEMBED = """
    import sys, time
    from quick_embedder import Hashed
    from smolagents_memory import EnhancedAgentMemory

    class Slow(Hashed):
        def embed_documents(self, texts):
            time.sleep(VALUES[1] * len(texts))
            return super().embed_documents(texts)

    print("opening", flush=True)
    embedder = Slow("another", 32)
    memory = EnhancedAgentMemory(VALUES[0], embedder=embedder)
    print("whole", memory.stats().not_embedded, embedder.calls, flush=True)
    assert memory.recall("note number 7 of the log", 1)[0].key == "k7"
    memory.close()
"""


@pytest.mark.slow
def test_another_embedder_re_embeds_in_place_and_goes_on_where_it_was_killed(tmp_path, hashed):
    """Meanwhile recall works by words, in this process and in others; nothing is mixed."""
    count = 2000
    with EnhancedAgentMemory(tmp_path, embedder=hashed) as memory:
        memory.remember_many({"text": f"note number {n} of the log", "key": f"k{n}"} for n in range(count))
    memory.long_term.keeper.vault.close()
    process = worker(REEMBED, str(tmp_path), 0.02, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "opening\n"
    anew = "SELECT count(*) FROM memory_items JOIN memory_embedders e ON e.id = embedder_id WHERE e.name = 'another'"
    with closing(sqlite3.connect(tmp_path / "memory.db")) as base:
        while base.execute(anew).fetchone()[0] == 0:
            time.sleep(0.1)
    reader = worker(
        """
        from quick_embedder import Hashed
        from smolagents_memory import EnhancedAgentMemory
        memory = EnhancedAgentMemory(VALUES[0], embedder=Hashed("another", 32))
        assert memory.stats().not_embedded > 0
        hit = memory.recall("note number 1999 of the log", 1, explain=True)[0]
        assert hit.key == "k1999" and hit.parts["vector"] == 0, hit
        """,
        str(tmp_path),
    )
    assert reader.wait(60) == 0
    process.kill()
    process.wait(10)
    process = worker(REEMBED, str(tmp_path), 0.0, stdout=subprocess.PIPE)
    output, _ = process.communicate(timeout=60)
    whole, missing, calls = output.split()[1:]
    assert (whole, missing) == ("whole", "0")
    assert process.returncode == 0
    assert 0 < int(calls) < count  # the rest was done before the kill


@pytest.mark.measures
@pytest.mark.slow
def test_eight_threads_recall_and_remember_on_thousands(tmp_path, hashed, fill):
    """No error; the long form, a minute on 10,000, is in benchmarks/recall_threads.py."""
    memory = EnhancedAgentMemory(tmp_path, embedder=hashed)
    fill(memory, 3000)
    errors, times = [], []
    until = time.monotonic() + 3

    def work(number):
        chosen = random.Random(number)
        try:
            while time.monotonic() < until:
                if chosen.random() < 0.2:
                    memory.remember(f"thread {number} saw {chosen.random()}")
                else:
                    start = time.perf_counter()
                    assert memory.recall(f"backup server ticket {chosen.randrange(3000)}", 5)
                    times.append(time.perf_counter() - start)
        except BaseException as error:  # noqa: BLE001 — shown by the assert below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert len(times) > 50
    memory.close()


@pytest.mark.slow
def test_everything_works_without_any_network(tmp_path):
    """In a network namespace of its own, from the wheels alone."""
    source = """
        import socket
        from smolagents_memory import EnhancedAgentMemory, RecallTool
        memory = EnhancedAgentMemory(VALUES[0])
        memory.remember("The kitten sleeps on the sofa.", key="cat")
        memory.remember("The invoice was paid.", key="money")
        assert memory.recall("a pet that naps on furniture", 1)[0].key == "cat"
        assert memory.stats().index == "chroma"
        assert "kitten" in RecallTool(memory)("a pet that naps on the sofa")
    """
    if subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine allows no network namespace")
    head = f"VALUES = ({str(tmp_path)!r},)\n"
    done = subprocess.run(
        ["unshare", "-rn", sys.executable, "-c", head + textwrap.dedent(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_without_the_offline_extra_recall_is_lexical_and_says_once_what_to_install(monkeypatch, caplog):
    """With neither the wheel nor a download."""
    from smolagents_memory._errors import EmbeddingError
    from smolagents_memory.search import embedders, embedding, minilm

    def missing():
        raise MissingExtraError("The default embedder", "offline")

    def unreachable(timeout):
        raise EmbeddingError("Chroma's default model could not be fetched: no network")

    monkeypatch.setattr(minilm, "find_model", missing)
    monkeypatch.setattr(embedders, "_fetched", unreachable)
    monkeypatch.setattr(embedding, "_default", {})
    for _ in range(2):
        memory = EnhancedAgentMemory()
        memory.remember("The key is under the mat.", key="k")
        assert memory.recall("Where is the key?")[0].key == "k"
    assert caplog.text.count("pip install 'smolagents-memory[offline]'") == 1


def test_a_model_file_that_was_changed_is_not_loaded(monkeypatch, tmp_path):
    """Its SHA-256 is checked before use."""
    from smolagents_memory._errors import EmbeddingError
    from smolagents_memory.search import minilm

    (tmp_path / "model.onnx").write_bytes(b"something else")
    monkeypatch.setattr(minilm, "find_model", lambda: tmp_path / "model.onnx")
    with pytest.raises(EmbeddingError, match="is not the file that was checked"):
        minilm.MiniLMEmbedder()


CONSOLIDATES = """
    from smolagents_memory import EnhancedAgentMemory
    memory = EnhancedAgentMemory(VALUES[0], vector=False)
    print("ready", flush=True)
    memory.consolidate(show_progress=False)
    print("done", flush=True)
"""


@pytest.mark.slow
def test_a_process_killed_while_it_consolidates_leaves_each_memory_joined_or_as_it_was(tmp_path, chance):
    """Who consolidates again comes where nobody was killed, and all of it is undone."""
    texts = [f"Room {n} is {how}" for n in range(400) for how in ("locked", "LOCKED", "locked!")]
    with EnhancedAgentMemory(tmp_path, vector=False) as memory:
        memory.remember_many(texts)
        before = {each.key: (each.value, each.meta) for each in memory.items()}
    in_the_middle = 0
    for _ in range(6):
        process = worker(CONSOLIDATES, str(tmp_path), stdout=subprocess.PIPE)
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.05 + 0.4 * chance.random())
        process.kill()
        process.communicate()
        with EnhancedAgentMemory(tmp_path, vector=False) as memory:
            joined = {each.key: each for each in memory.items() if "repeated" in each.meta}
            in_the_middle += 0 < len(joined) < 400
            assert {each.meta["repeated"]["times"] for each in joined.values()} <= {3}
            assert memory.count() == len(before) - 2 * len(joined)
    assert in_the_middle
    with EnhancedAgentMemory(tmp_path, vector=False) as memory:
        memory.consolidate(show_progress=False)
        assert memory.count() == 400
        for each in memory.items():
            memory.separate(each.key)
        assert {each.key: (each.value, each.meta) for each in memory.items()} == before
