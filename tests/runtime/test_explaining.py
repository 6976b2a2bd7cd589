"""An explanation in a child process: an interrupt keeps what the child had told."""

from __future__ import annotations

import signal
import sys
from typing import Any

import pytest

from chipmap.cli import main
from chipmap.process import explaining


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "term"])
def test_an_interrupt_prints_what_is_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, code: int
) -> None:
    killed = list[bool]()

    class Silent:
        """A child that tells nothing; the user interrupts while it works."""

        def __init__(self, module: str) -> None:
            assert module

        def send(self, message: Any) -> None:
            """Heard."""

        def received(self, seconds: float) -> tuple[list[Any], bool]:
            """Nothing."""
            signal.raise_signal(number)
            return [], False

        def kill(self) -> None:
            """Its end."""
            killed.append(True)

    monkeypatch.setattr(explaining, "Child", Silent)
    monkeypatch.setattr("chipmap.cli.progress.compile_first", lambda *_, **__: None)
    monkeypatch.setattr(sys.modules["chipmap.explain"], "warm", lambda *_: 0.0)
    assert main(["explain", "ring/tiny-skip"]) == code
    assert killed and "interrupted; more was to be tried" in capsys.readouterr().out
