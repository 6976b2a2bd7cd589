"""An explanation in a child process keeps what it had told at an interrupt; small instances run as plain Python."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from chipmap.cli import main
from chipmap.explain import explain
from chipmap.explanation import Step
from chipmap.process import explaining
from chipmap.process.messages import Failed
from chipmap.run import SolveOptions


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


@pytest.mark.parametrize("plain", [60.0, 0.0])
def test_a_small_instance_compiles_only_where_plain_python_is_too_slow(
    monkeypatch: pytest.MonkeyPatch, plain: float
) -> None:
    """Without a second to spare the first kernel asks for all to be compiled; then the explanation begins anew."""
    module, warmed, said = sys.modules["chipmap.explain"], list[str](), list[Step]()

    def warm(family: Any, stopped: Callable[[], bool]) -> float:
        """Nothing is compiled: from now on there is time for plain Python."""
        assert not stopped()
        warmed.append(family.name)
        monkeypatch.setattr("chipmap.kernels.PLAIN", 60.0)
        return 0.0

    monkeypatch.setattr(module, "warm", warm)
    monkeypatch.setattr(module, "is_warm", lambda _: False)
    monkeypatch.setattr("chipmap.kernels.PLAIN", plain)
    found = explain("ring/tiny-skip", options=SolveOptions(time_limit=600.0), progress=said.append)
    assert found.status == "optimal" and all(one.standing == "proved" for one in found.changes)
    assert warmed == ([] if plain else ["ring"])
    assert [step.what for step in said if step.what.startswith("compiling")] == [
        "compiling what family ring needs, once" for _ in warmed
    ]


@pytest.mark.parametrize("name", ["placement/tiny-throughput", "placement/tiny-contiguous"])
def test_searches_that_always_run_compiled_come_after_a_refutation(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Loads are annealed by a function that is never plain Python: CP-SAT proves small instances before it."""
    module = sys.modules["chipmap.explain"]
    monkeypatch.setattr(module, "warm", lambda *_, **__: pytest.fail("something was to be compiled"))
    monkeypatch.setattr(module, "is_warm", lambda _: False)
    monkeypatch.setattr("chipmap.kernels.PLAIN", 60.0)
    found = explain(name, options=SolveOptions(time_limit=600.0))
    assert found.status == "optimal" and found.changes


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "term"])
def test_an_interrupt_ends_what_is_compiled_meanwhile(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, code: int
) -> None:
    """Compiling stops at once; the time limit counts from its end."""
    asked, ended = list[float](), list[float]()

    class Slow:
        """A child that needs compiled functions; after them it tells nothing."""

        def __init__(self, module: str) -> None:
            assert module

        def send(self, message: Any) -> None:
            """When the time of a question began."""
            asked.append(message.started)

        def received(self, seconds: float) -> tuple[list[Any], bool]:
            """At first that a function has to be compiled."""
            return ([Failed("Unready", "")] if len(asked) == 1 else []), False

        def kill(self) -> None:
            """Its end."""

    def warm(family: Any, stopped: Callable[[], bool]) -> float:
        assert family.name == "ring" and not stopped()
        signal.raise_signal(number)
        assert stopped()
        ended.append(time.monotonic())
        return 0.0

    monkeypatch.setattr(explaining, "Child", Slow)
    monkeypatch.setattr(sys.modules["chipmap.explain"], "warm", warm)
    assert main(["explain", "ring/tiny-skip"]) == code
    assert len(asked) == 2 and asked[0] < ended[0] <= asked[1]
    assert "interrupted; more was to be tried" in capsys.readouterr().out
