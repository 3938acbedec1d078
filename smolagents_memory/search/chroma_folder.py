"""A Chroma folder is for one process: the client is opened under a lock that is held for its lifetime."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from smolagents_memory._errors import SmolagentsMemoryError, StoreBusyError, StoreUnavailableError
from smolagents_memory._files import make_folder, make_private
from smolagents_memory._forks import in_child
from smolagents_memory._log import logger


OWN_COLLECTION = 10_000  # memories from which on a named scope has a Chroma collection of its own

_open: WeakValueDictionary[str, ChromaFolder] = WeakValueDictionary()
_open_lock = threading.Lock()
_ATTEMPTS = 2  # openings in a row that died before the folder is given up and made anew


def chroma_folder(path: str | os.PathLike[str]) -> ChromaFolder:
    """The one ChromaFolder for a path in this process."""
    name = str(Path(path).absolute())
    with _open_lock:
        folder = _open.get(name)
        if folder is None or folder.process != os.getpid():
            folder = _open[name] = ChromaFolder(Path(name))
        return folder


class Guarded:
    """Chroma's client, or a collection. What it raises, and nothing else, is told as Chroma's refusal.

    It raises errors of any type, so it is not the type that tells whose fault something is, but where it comes from.
    """

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._theirs, name)
        return partial(asked_of_chroma, found) if callable(found) else found


def asked_of_chroma(what: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What Chroma answers; a collection is guarded too."""
    try:
        answer = what(*arguments, **options)
    except SmolagentsMemoryError:
        raise
    except Exception as error:
        raise StoreUnavailableError(f"Chroma refused: {type(error).__name__}: {error}") from error
    return Guarded(answer) if hasattr(answer, "upsert") else answer


class ChromaFolder:
    """A folder that Chroma keeps, while this process has its lock.

    Two processes on one folder corrupt it without any error at the time, so a second one is never let in.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.process = os.getpid()
        self.generation = 0  # grows when the folder is made anew: collections opened before are void
        self._guard = threading.RLock()
        self._lock: Any = None
        self._client: Any = None

    def hold(self) -> bool:
        """Take the folder's lock if nobody else has it; whether this process has it now."""
        from filelock import FileLock, Timeout

        with self._guard:
            if self._lock is not None:
                return self.process == os.getpid()
            make_folder(self.path.parent)
            lock = FileLock(f"{self.path}.lock", mode=0o600, thread_local=False)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                return False
            except OSError as error:
                raise StoreUnavailableError(f"{self.path} cannot be locked ({error}); nothing was written") from error
            self._lock = lock
            return True

    def client(self) -> Any:
        """Chroma's client for the folder. Raises StoreBusyError when another process has the folder."""
        with self._guard:
            if self._client is None:
                if not self.hold():
                    raise StoreBusyError(
                        f"another process has the Chroma folder {self.path}; a second one would corrupt it, so it was "
                        f"not opened. To share it, serve it (chroma run --path '{self.path}') and open it by "
                        "url='http://localhost:8000' in every process"
                    )
                self._client = self._opened()
            return self._client

    def make_anew(self) -> Any:
        """Throw the folder away and open an empty one: for indexes that can be made again."""
        with self._guard:
            self._close_client()
            if not self.hold():
                raise StoreBusyError(f"another process has the Chroma folder {self.path}; it was left as it is")
            shutil.rmtree(self.path, ignore_errors=True)
            self._marker().unlink(missing_ok=True)
            self.generation += 1
            return self.client()

    def close(self) -> None:
        """Close the client and give the lock back."""
        with self._guard:
            self._close_client()
            if self._lock is not None and self.process == os.getpid():
                self._lock.release()
            self._lock = None

    def __del__(self) -> None:
        self.close()  # Chroma keeps a client open for ever, and a folder without our lock must have none

    def died_opening(self) -> bool:
        """Whether processes died while they opened this folder, as they do when its files are corrupted."""
        marker = self._marker()
        return marker.exists() and marker.stat().st_size >= _ATTEMPTS

    def _opened(self) -> Any:
        import chromadb
        from chromadb.config import Settings

        marker = self._marker()
        settings = Settings(_env_file=None, anonymized_telemetry=False)  # type: ignore[call-arg]
        try:
            make_folder(self.path)
            make_private(marker)
            with marker.open("ab") as file:
                file.write(b".")
            try:
                return Guarded(chromadb.PersistentClient(str(self.path), settings=settings))
            finally:
                marker.unlink(missing_ok=True)  # an exception is an answer; only a death leaves the marker
        except Exception as error:
            raise StoreUnavailableError(f"Chroma cannot open {self.path}: {error}") from error

    def _marker(self) -> Path:
        return Path(f"{self.path}.opening")

    def _close_client(self) -> None:
        client, self._client = self._client, None
        if client is None or self.process != os.getpid():  # a parent's client hangs in a forked child
            return
        try:
            client.close()
        except StoreUnavailableError:
            logger.exception("closing Chroma's folder %s failed; everything in it is kept", self.path)


@in_child
def _let_go_in_child() -> None:
    """A forked child has the lock's file open as well, and would keep it locked after its parent's death."""
    for folder in list(_open.values()):
        descriptor = getattr(getattr(folder._lock, "_context", None), "lock_file_fd", None)
        if isinstance(descriptor, int):
            try:
                os.close(descriptor)
            except OSError:
                logger.debug("the lock of %s was closed already", folder.path)
            folder._lock._context.lock_file_fd = None
