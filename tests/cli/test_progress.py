"""Compiling is told once: under a bar on a terminal, in a sentence elsewhere, not at all with --quiet."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from chipmap.cli import progress
from chipmap.family import Family, get_family
from chipmap.process.demand import Compiling

FIRST, LATER = Compiling("ring", 0, 40, 0.0), Compiling("ring", 20, 20, 9.6)


class Terminal(io.StringIO):
    """Standard error that is one, or isn't."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.isatty = lambda: terminal  # type: ignore[method-assign]


@pytest.fixture(params=[True, False], ids=["terminal", "file"])
def stream(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    made = Terminal(request.param)
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=made))
    return made


def warming(family: Family, tell: Callable[[Compiling], None], stopped: Callable[[], bool]) -> float:
    for now in (FIRST, LATER):
        tell(now._replace(family=family.name))
    return 1.0


@pytest.mark.parametrize("quiet", [False, True])
def test_before_a_run(stream: Terminal, quiet: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "warm", warming)
    progress.compile_first(get_family("ring"), quiet=quiet)
    said = stream.getvalue()
    if quiet:
        assert not said
    elif stream.isatty():
        assert "[##########----------] 20 functions compiled, 20 to do, 10 s" in said and "--time-limit" not in said
        assert "\n" not in said and said.endswith("\r\033[K")
    else:
        assert said.count("\n") == 1 and "family ring" in said and "[" not in said


def test_families_side_by_side(stream: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """One bar with the sums; a sentence for each family where there is no terminal. A failure stops all of them."""
    monkeypatch.setattr(progress, "warm", warming)
    progress.compile_first(get_family("ring"), get_family("wafer"))
    said = stream.getvalue()
    if stream.isatty():
        assert "40 functions compiled, 40 to do, 19 s" in said and "\n" not in said
    else:
        assert sorted(line.split()[5] for line in said.splitlines()) == ["ring,", "wafer,"]

    begun = threading.Barrier(2, timeout=20)

    def failing(family: Family, tell: Callable[[Compiling], None], stopped: Callable[[], bool]) -> float:
        begun.wait()
        if family.name == "ring":
            raise KeyboardInterrupt
        while not stopped():
            pass
        return 1.0

    monkeypatch.setattr(progress, "cores", lambda: 2)
    monkeypatch.setattr(progress, "warm", failing)
    with pytest.raises(KeyboardInterrupt):
        progress.compile_first(get_family("ring"), get_family("wafer"))


@pytest.mark.parametrize("quiet", [False, True])
def test_during_a_run(stream: Terminal, quiet: bool) -> None:
    shown = progress.Progress(quiet)
    shown._begin("ring/tiny-skip", several=False)
    for now in (FIRST, LATER):
        shown.meanwhile(now)
    while shown.live and "compiled" not in stream.getvalue():
        pass
    shown.meanwhile(Compiling("ring", 40, 0, 19.0))
    shown.close()
    said = stream.getvalue()
    if quiet:
        assert not said
    elif stream.isatty():
        assert "[##########----------] 20 functions compiled, 20 to do, 10 s" in said and "while it is" not in said
    else:
        assert said == "compiling what family ring needs, once, while it is solved without\n"


def test_a_bar_of_one() -> None:
    assert progress.bar(Compiling("ring", 1, 0, 0.4)) == "[####################] 1 function compiled, 0 to do, 0 s"
