"""Compiling is told once: under a bar on a terminal, in a sentence elsewhere, not at all with --quiet."""

from __future__ import annotations

import io
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


def warming(family: Family, tell: Callable[[Compiling], None]) -> float:
    tell(FIRST)
    tell(LATER)
    return 1.0


@pytest.mark.parametrize("quiet", [False, True])
def test_before_a_run(stream: Terminal, quiet: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "warm", warming)
    assert progress.compile_first(get_family("ring"), quiet) == 1.0
    said = stream.getvalue()
    if quiet:
        assert not said
    elif stream.isatty():
        assert "[##########----------] 20 functions compiled, 20 to do, 10 s" in said and "--time-limit" not in said
        assert "\n" not in said and said.endswith("\r\033[K")
    else:
        assert said.count("\n") == 1 and "family ring" in said and "[" not in said


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
