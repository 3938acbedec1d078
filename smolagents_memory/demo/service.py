"""The web service that the demo's agent watches: real HTTP on loopback, and it begins to fail."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from http.client import responses
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from smolagents_memory.demo.pictures import page


HEALTHY_CHECKS = 2  # after a deployment the service is well for so many checks, while the customers come
ENOUGH = 32  # the connections that the customers of a day need
SIZES = (16, 32, 64)
_Heard = Callable[[str], object]


@dataclass
class Shop:
    """A shop whose checkout fails once more customers come than its pool of database connections can serve.

    All it knows stands in one file, so that it is the same after the demo was killed and is run again.
    """

    path: Path
    act: int = 0
    pool: int = 5
    checks: int = 0
    statuses: list[int] = field(default_factory=list)

    @classmethod
    def opened(cls, path: Path) -> Shop:
        """As it was left, or new."""
        return cls(path, **json.loads(path.read_text(encoding="utf-8"))) if path.exists() else cls(path)

    def begin(self, act: int, *, deployed: bool = True) -> None:
        """The play has come to an act. A deployment sets the pool back: the cause of all the trouble here."""
        self.act = act
        if deployed:
            self.pool, self.checks, self.statuses = 5, 0, []
        self.save()

    def save(self) -> None:
        """Write it down, whole or not at all."""
        data = {name: value for name, value in asdict(self).items() if name != "path"}
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(data), encoding="utf-8")
        part.replace(self.path)

    def check(self) -> int:
        """The status of one more health check."""
        self.checks += 1
        status = 200 if self.pool >= ENOUGH or self.checks <= HEALTHY_CHECKS else 503
        self.statuses = [*self.statuses, status][-40:]
        self.save()
        return status

    def resize(self, size: int) -> tuple[int, str]:
        """Set the number of connections."""
        if size not in SIZES:
            return 400, f"the pool takes 16, 32 or 64 connections, not {size}"
        self.pool = size
        self.save()
        return 200, f"the pool has {size} connections"

    def log(self) -> str:
        """The end of the log."""
        busy = min(self.pool, ENOUGH)
        if busy < ENOUGH:
            return f"connection pool exhausted: {busy} of {self.pool} in use, {ENOUGH - busy} requests waiting"
        return f"connection pool: {busy} of {self.pool} in use"


class Service:
    """The shop on a free port of loopback, served from the demo's own process: it lives on when an agent is killed.

    Args:
        shop: What is served.
        picture: Gives a PNG of the shop's page, for `/picture.png`.
        on_request: Called with each path before it is answered.
    """

    def __init__(
        self, shop: Shop, picture: Callable[[Shop], bytes] | None = None, on_request: _Heard | None = None
    ) -> None:
        self.shop, self.picture, self.on_request = shop, picture, on_request
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._lock = threading.Lock()

    def __enter__(self) -> Service:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, str, bytes]:
        """Status, content type and body."""
        if path == "/picture.png":
            return (200, "image/png", self.picture(self.shop)) if self.picture else (404, "text/plain", b"no camera")
        status, text, kind = 404, "there is no such page", "text/plain; charset=utf-8"
        with self._lock:
            if path == "/":
                status, text, kind = 200, page(self.shop.statuses, self.shop.pool), "text/html; charset=utf-8"
            elif path == "/health":
                status = self.shop.check()
                text = responses[status]
            elif path == "/log":
                status, text = 200, self.shop.log()
            elif path == "/restart":
                status, text = 200, "restarted"
            elif path == "/pool":
                status, text = self.shop.resize(int(query.get("size", ["0"])[0]))
        return status, kind, text.encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                address = urlsplit(self.path)
                if service.on_request is not None:
                    service.on_request(address.path)
                status, kind, body = service.answer(address.path, parse_qs(address.query))
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", kind)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:  # the agent that asked was killed meanwhile
                    self.close_connection = True

            do_POST = do_GET

            def log_message(self, format: str, *args: Any) -> None:
                """The demo has a log of its own."""

        return Handler
