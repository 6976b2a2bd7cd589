"""A page of runs at this machine's loopback address; pictures are drawn when they are looked at."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from chipmap.report.collect import Entry
from chipmap.report.page.document import Wanted, page
from chipmap.report.page.pictures import draw

ADDRESS = "127.0.0.1"
#: Pictures kept; seconds between two looks at the clock, and that a client may take for its request.
KEPT, LOOK, PATIENCE = 32, 0.5, 10.0
#: What the page may load: itself alone.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src blob: data:; connect-src 'self'"
)


class Server(ThreadingHTTPServer):
    """Serves the page at ``/`` and the picture of run i at ``/picture/i``; nothing else, and no file."""

    daemon_threads = True

    def __init__(self, entries: Sequence[Entry], folder: Path) -> None:
        super().__init__((ADDRESS, 0), _Handler)
        self.address = f"http://{ADDRESS}:{self.server_port}/"
        self.asked = time.monotonic()
        whole = [entry for entry in entries if entry.result is not None]
        self.page = page(entries, folder, Wanted(picture_at=lambda number: f"picture/{number}")).encode()
        self._drawing = threading.Lock()  # matplotlib draws one picture at a time

        @lru_cache(KEPT)
        def drawn(number: int) -> bytes:
            found = draw(whole[number]) if number < len(whole) else None
            return (found.json() if found else json.dumps({"error": "this run has no picture"})).encode()

        self._drawn = drawn

    def picture(self, number: int) -> bytes:
        """The picture of a run as JSON."""
        with self._drawing:
            return self._drawn(number)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = PATIENCE

    def do_GET(self) -> None:
        """Answer what the page asks; 404 for all else, 403 for a name that isn't ours."""
        self.server.asked = time.monotonic()
        if self.headers.get("Host", "").partition(":")[0] not in (ADDRESS, "localhost"):
            self.send_error(403)  # another site's name that was pointed here
        elif self.path == "/":
            self._send(self.server.page, "text/html; charset=utf-8")
        elif (asked := re.fullmatch(r"/picture/(\d{1,6})", self.path)) is not None:
            self._send(self.server.picture(int(asked[1])), "application/json")
        else:
            self.send_error(404)

    def _send(self, data: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the terminal is the user's."""


def serve(entries: Sequence[Entry], folder: Path, idle: float, told: Callable[[str], None]) -> None:
    """Serve until nobody has asked for ``idle`` seconds; ``told`` gets the address. Ctrl-C ends it as well."""
    with Server(entries, folder) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            told(server.address)
            while time.monotonic() - server.asked < idle:
                time.sleep(LOOK)
        finally:
            server.shutdown()
