"""A Python process that runs a module of this very package, and the pipes to it."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from chipmap.process.messages import ToParent


class Child:
    """A Python in a process group of its own that runs a module of this very package, and the threads that serve its
    pipes (``lines``: what it says, None at its end; ``tail``: the log's end)."""

    def __init__(self, module: str, *arguments: str, log: BinaryIO | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            start_new_session=True,
        )
        self.lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.tail = b""
        self._log = log
        self._outbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        works = (self._read, self._pump, self._write)
        reader, pump, writer = (threading.Thread(target=work, daemon=True) for work in works)
        self._emptying = (reader, pump)
        for thread in (reader, pump, writer):
            thread.start()

    def send(self, message: msgspec.Struct) -> None:
        """Have one message sent; never waits, since a hung child reads nothing."""
        self._outbox.put(msgspec.json.encode(message) + b"\n")

    def received(self, wait: float) -> tuple[list[ToParent], bool]:
        """All messages that have come (waiting ``wait`` seconds for the first), and whether the pipe has closed."""
        messages: list[ToParent] = []
        while True:
            try:
                line = self.lines.get(timeout=0.0 if messages else wait)
            except queue.Empty:
                return messages, False
            if line is None:
                return messages, True
            # what can't be read is the last line of a child that was killed while it wrote
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                messages.append(msgspec.json.decode(line, type=ToParent))

    def wait(self, seconds: float) -> int | None:
        """The exit status, if the child ends within that time."""
        try:
            return self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End the child and all that it started, and let the pipes run dry."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.wait(0.3)
        until = time.monotonic() + 0.2
        for thread in self._emptying:
            thread.join(max(0.0, until - time.monotonic()))

    def _write(self) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError, ValueError):
            while True:
                self.process.stdin.write(self._outbox.get())
                self.process.stdin.flush()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def _pump(self) -> None:
        """Empty standard error into the log; when the log can't be written, go on emptying."""
        assert self.process.stderr is not None
        while chunk := self.process.stderr.read1(65536):  # type: ignore[attr-defined]
            self.tail = (self.tail + chunk)[-4096:]
            if self._log is not None:
                try:
                    self._log.write(chunk)
                except (OSError, ValueError):
                    self._log = None


def environment() -> dict[str, str]:
    """This process's environment, with the folder of this very package first on the child's path.

    The arrays here are small: threads of the linear-algebra library would only fight with the solver's for the cores.
    """
    package = str(Path(__file__).resolve().parents[2])
    paths = [package, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {"OPENBLAS_NUM_THREADS": "1", **os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
