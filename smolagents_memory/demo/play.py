"""The demo's acts, and the process that lives through all of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from filelock import FileLock, Timeout
from smolagents import Model

from smolagents_memory.demo.pictures import Camera
from smolagents_memory.demo.screen import Screen
from smolagents_memory.demo.service import Service, Shop
from smolagents_memory.demo.watcher import model_for


MONDAY, THURSDAY = "monday", "thursday"
WATCH, GO_ON, REMEMBER, OVER = 1, 2, 3, 4
_PATIENCE = 5  # how often a process that was killed is replaced


class _GivenUp(Exception):
    """The agent's process does not go on; says why."""


class Play:
    """One demo in one folder. What has been played stands in the folder, so that a killed demo goes on.

    The service and the pictures live in this process; the agent works in another one, which may be killed.
    """

    def __init__(self, folder: Path, model: str | None, api_base: str | None) -> None:
        self.folder, self.model, self.api_base = folder, model, api_base
        self.screen = Screen()
        self._worker: subprocess.Popen[bytes] | None = None

    def run(self, mode: str) -> int:
        """Play; returns the exit code."""
        made = model_for(self.model, self.api_base)  # a missing extra is told before anything begins
        for each in (self.folder.parent, self.folder):
            each.mkdir(0o700, parents=True, exist_ok=True)
        try:
            with FileLock(self.folder / "demo.lock", timeout=0), ExitStack() as stack:
                self._play(stack, mode, made)
        except Timeout:
            why, code = f"Another demo is being played in {self.folder}; give this one another --folder.", 1
        except _GivenUp as given_up:
            why, code = str(given_up), 1
        except KeyboardInterrupt:
            why, code = "Stopped. Run the demo again to go on.", 130
        else:
            return 0
        self.screen.say(why, "red")
        return code

    def _play(self, stack: ExitStack, mode: str, model: Model) -> None:
        from smolagents_memory.demo.extras import Extras

        began = time.monotonic()
        self._open(stack, mode)
        if mode == "full":
            self._to_the_end()
        else:
            self._monday()
        extras = Extras(self.folder, self.shop, self.service.url, model, self.screen)
        extras.play(mode)
        if mode == "full":
            extras.summary(self.camera.kind if self.pictures else "none", time.monotonic() - began)
            self.shop.begin(OVER)

    @property
    def pictures(self) -> bool:
        """Many local models cannot read pictures, so a real one gets none."""
        return self.model is None

    def _open(self, stack: ExitStack, mode: str) -> None:
        path = self.folder / "shop.json"
        self.shop = Shop.opened(path)
        if self.shop.act == OVER and mode == "full":  # played to its end before: all of it again, from nothing
            self._clear()
            self.shop = Shop(path)
        self.camera = Camera()
        self.service = stack.enter_context(Service(self.shop, self.camera, self._requested))
        if self.pictures:
            stack.callback(self.camera.close)
            self.camera.open(self.service.url)
        stack.callback(self._end_worker)

    def _clear(self) -> None:
        """Remove what an earlier demo left in its own folder; last of all, what says that it may be removed."""
        for path in sorted(self.folder.iterdir(), key=lambda path: path.name == "shop.json"):
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != "demo.lock":
                path.unlink()

    # -- the acts ----------------------------------------------------------------------------------------------

    def _to_the_end(self) -> None:
        if self.shop.act == 0:
            self.shop.begin(WATCH)
        if self.shop.act == WATCH:
            where = f"The shop is a real web service at {self.service.url}; it runs in process {os.getpid()}."
            self.screen.act(1, "Monday. An agent watches a shop", where)
            self._work(MONDAY)
            if self.shop.act == WATCH:
                self.shop.begin(GO_ON, deployed=False)  # a real model may never have read the log
        if self.shop.act == GO_ON:
            self.screen.act(2, "Another process goes on with the same run")
            self._work(MONDAY)
            self.shop.begin(REMEMBER)
        if self.shop.act == REMEMBER:
            self.screen.act(3, "Thursday. It fails again, and somebody remembers", "The same model, the same task.")
            self._work(THURSDAY)

    def _monday(self) -> None:
        """Have a saved run of Monday, without being killed. A full demo that was killed can still go on after it."""
        if self.shop.act not in (REMEMBER, OVER):
            afterwards = REMEMBER if self.shop.act in (WATCH, GO_ON) else OVER
            self.shop.begin(GO_ON)
            self.screen.act(None, "First a run to work with")
            self._work(MONDAY)
            self.shop.begin(afterwards)

    # -- the other process -------------------------------------------------------------------------------------

    def _requested(self, path: str) -> None:
        """The shop is asked for a page. In the first act, the agent that wants to read the log is killed."""
        if path == "/log" and self.shop.act == WATCH and self._worker is not None:
            self.shop.begin(GO_ON, deployed=False)
            self._worker.kill()
            self._worker.wait()

    def _work(self, session_id: str) -> None:
        """The agent's process, until the session's task has its answer; one that was killed is replaced."""
        pictures = "pictures" if self.pictures else "none"
        given = [str(self.folder), session_id, self.service.url, pictures, self.model or "", self.api_base or ""]
        for _ in range(_PATIENCE):
            act = self.shop.act
            command = [sys.executable, "-m", "smolagents_memory.demo", "work", *given]
            self._worker = subprocess.Popen(command, stdin=subprocess.PIPE)
            code, pid = self._worker.wait(), self._worker.pid
            if code == 0:
                return
            if self.shop.act != act:
                self.screen.say(f"kill -9 {pid}: the agent died while it read the log. The shop lives on.", "bold red")
                return
            if code > 0:
                raise _GivenUp(f"The agent's process ended with exit code {code}; see above.")
            self.screen.say(f"Process {pid} was killed (signal {-code}); another one goes on.", "bold red")
        raise _GivenUp(f"The agent's process was killed {_PATIENCE} times; run the demo again to go on.")

    def _end_worker(self) -> None:
        if self._worker is not None and self._worker.poll() is None:
            self._worker.kill()
            self._worker.wait()
