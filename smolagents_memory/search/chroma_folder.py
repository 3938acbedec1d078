"""A Chroma folder is for one process: the client is opened under a lock that is held for its lifetime."""

from __future__ import annotations

import atexit
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from smolagents_memory._errors import PlaceError, SmolagentsMemoryError, StoreBusyError, StoreUnavailableError
from smolagents_memory._files import make_folder
from smolagents_memory._forks import Lock, in_child
from smolagents_memory._log import logger
from smolagents_memory.search.chroma_graphs import clear_remains
from smolagents_memory.search.examining import fault_of
from smolagents_memory.search.inventory import INVENTORY, Inventory, State


OWN_COLLECTION = 10_000  # memories from which on a named scope has a Chroma collection of its own

_open: WeakValueDictionary[str, ChromaFolder] = WeakValueDictionary()
_open_lock = Lock()
CHROMA = "chroma"  # what the folder is called in a place
DATABASE = "chroma.sqlite3"


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
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # what Rust calls a fault
            raise
        raise StoreUnavailableError(f"Chroma refused: {type(error).__name__}: {error}") from error
    return Guarded(answer) if hasattr(answer, "upsert") else answer


class ChromaFolder:
    """A folder that Chroma keeps, while this process has its lock.

    Two processes on one folder corrupt it without any error at the time, so a second one is never let in. Damaged
    files end the process that reads them: nothing is opened that is not, byte for byte, what it was left as, unless
    another process has read all of it and lived.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.process = os.getpid()
        self.generation = 0  # grows when the folder is made anew: collections opened before are void
        self._guard = Lock(threading.RLock)
        self._lock: Any = None
        self._client: Any = None
        self._inventory = Inventory(path, DATABASE)
        self._whole = True  # False while somebody writes, and if that failed

    def hold(self) -> bool:
        """Take the folder's lock if nobody else has it; whether this process has it now."""
        from filelock import FileLock, Timeout

        with self._guard:
            if self._lock is not None:
                return self.process == os.getpid()
            lock = FileLock(f"{self.path}.lock", mode=0o600, thread_local=False)
            try:
                make_folder(self.path.parent)
                lock.acquire(timeout=0)
            except Timeout:
                return False
            except OSError as error:
                raise StoreUnavailableError(f"{self.path} cannot be locked ({error}); nothing was written") from error
            self._lock = lock
            return True

    def client(self, *, only_copy: bool = False) -> Any:
        """Chroma's client for the folder; StoreBusyError when another process has it.

        A folder that is not as it was left raises StoreUnavailableError. One that holds the `only_copy` of something,
        and may have been written since, is examined first.
        """
        with self._guard:
            if self._client is None:
                if not self.hold():
                    raise StoreBusyError(
                        f"another process has the Chroma folder {self.path}; a second one would corrupt it, so it was "
                        f"not opened. To share it, serve it (chroma run --path '{self.path}') and open it by "
                        "url='http://localhost:8000' in every process"
                    )
                self._purge_if_asked()
                self._check(only_copy)
                self._client = self._opened()
                self._note()
            return self._client

    def make_anew(self) -> Any:
        """Throw the folder away and open an empty one: for indexes that can be made again."""
        with self._guard:
            if not self.hold():
                raise StoreBusyError(f"another process has the Chroma folder {self.path}; it was left as it is")
            self._empty()
            return self.client()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Whoever writes does it in here: what the files are afterwards is noted."""
        with self._guard:
            self._whole = False
            yield
            self._whole = True
            self._note()

    @contextmanager
    def closed(self) -> Iterator[Path]:
        """The folder while nobody has it open, for work on its files; collections opened before are void."""
        with self.writing():
            if not self.hold():
                raise StoreBusyError(f"another process has the Chroma folder {self.path}; it was left as it is")
            self._close_client()
            self.generation += 1
            yield self.path

    def purge(self) -> bool:
        """Throw all of it away, or have the process that has the folder do so at its next turn; whether it is done."""
        with self._guard:
            if not self.path.exists():
                return True
            held = self._lock is not None
            if not self.hold():
                self._asked().touch(mode=0o600)
                return False
            self._empty()
            if not held:
                self.close()
            return True

    def purge_if_asked(self) -> None:
        """Throw all of it away if another process has purged the place: what was deleted lies in these files."""
        if self._asked().exists():
            with self._guard:
                self._purge_if_asked()

    def close(self) -> None:
        """Close the client and give the lock back."""
        with self._guard:
            mine = self._lock is not None and self.process == os.getpid()
            if mine:
                try:
                    self._purge_if_asked()
                except StoreUnavailableError:
                    logger.exception("what was deleted is left in %s", self.path)
            self._close_client()
            if mine:
                self._lock.release()
            self._lock = None

    def __del__(self) -> None:
        self.close()  # Chroma keeps a client open for ever, and a folder without our lock must have none

    # -- inside ------------------------------------------------------------------------------------------------

    def _asked(self) -> Path:
        return Path(f"{self.path}.purge")

    def _purge_if_asked(self) -> None:
        if self._asked().exists():
            self._empty()
            self._asked().unlink(missing_ok=True)  # after it: killed in between, it is emptied once more

    def _check(self, only_copy: bool) -> None:
        try:
            state, reason = self._inventory.compare()
        except OSError as error:
            raise StoreUnavailableError(f"the Chroma folder {self.path} cannot be read: {error}") from error
        if state is State.AS_LEFT:
            return
        if not only_copy:
            raise StoreUnavailableError(reason)
        fault = fault_of(self.path) if state is State.WRITTEN else reason
        if fault is not None:
            raise StoreUnavailableError(
                f"the Chroma folder {self.path} is damaged ({fault}). Nothing was opened and nothing was changed: put "
                f"back a copy of it. Without one, delete {self.path / INVENTORY} to have it examined, and opened if "
                "all of it can still be read; where a graph is damaged (a folder in there), delete that too: the "
                f"texts lie in {DATABASE}, and can be embedded again"
            )

    def _opened(self) -> Any:
        import chromadb
        from chromadb.config import Settings

        settings = Settings(_env_file=None, anonymized_telemetry=False)  # type: ignore[call-arg]
        try:
            make_folder(self.path)
            return asked_of_chroma(lambda: Guarded(chromadb.PersistentClient(str(self.path), settings=settings)))
        except (StoreUnavailableError, OSError) as error:
            raise StoreUnavailableError(f"Chroma cannot open {self.path}: {error}") from error

    def _note(self) -> None:
        try:
            clear_remains(self.path)
            self._inventory.write()
        except (OSError, PlaceError) as error:  # it is then looked through, or made anew, by whoever opens it next
            logger.info("what the files of %s are could not be noted: %s", self.path, error)

    def _empty(self) -> None:
        """Remove all that is in the folder, whatever it is; a link is not followed but for the folder itself."""
        self._close_client()
        self.generation += 1
        try:
            if self.path.is_dir():
                for each in list(self.path.iterdir()):
                    if each.is_dir() and not each.is_symlink():
                        shutil.rmtree(each)
                    else:
                        each.unlink()
            else:
                self.path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreUnavailableError(f"{self.path} cannot be emptied: {error}") from error

    def _close_client(self) -> None:
        client, self._client = self._client, None
        if client is None or self.process != os.getpid():  # a parent's client hangs in a forked child
            return
        try:
            client.close()
        except StoreUnavailableError:
            logger.exception("closing Chroma's folder %s failed; everything in it is kept", self.path)
        if self._whole:
            self._note()


@atexit.register
def _close_all() -> None:
    for folder in list(_open.values()):
        folder.close()


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
