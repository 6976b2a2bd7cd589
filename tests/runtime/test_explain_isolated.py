"""``explain`` in a child process: the same words, errors that arrive, and a limit that holds."""

from __future__ import annotations

import queue
from typing import Any

import msgspec
import pytest

import chipmap
from chipmap.explanation import Explanation, Statement, Step
from chipmap.instances.ring import RingSolution
from chipmap.process import explaining
from chipmap.process.child import Child
from chipmap.process.worker import Failed, Looking, Told, ToParent
from chipmap.records import ChipmapError, InputError
from chipmap.run import SolveOptions

FIRST = Step(kind="change", what="with free links")


class FakeChild(Child):
    """A child that says ``script`` and then hangs (or ends, where the script ends in None)."""

    script: list[ToParent | None] = []
    killed = 0

    def __init__(self, module: str) -> None:
        self.lines = queue.SimpleQueue()
        for message in self.script:
            self.lines.put(None if message is None else msgspec.json.encode(message))

    def send(self, message: Any) -> None:
        """Nobody listens."""

    def kill(self) -> None:
        FakeChild.killed += 1


def so_far(message: str) -> Explanation:
    said = (Statement(topic="verdict", message=message),)
    return Explanation(instance="x", instance_hash="h", family="ring", status="feasible", objective=7, statements=said)


def told(explanation: Explanation, last: bool = False) -> Told:
    return Told(msgspec.Raw(msgspec.json.encode(explanation)), last)


def ask(monkeypatch: pytest.MonkeyPatch, *script: ToParent | None, limit: float | None = 0.1) -> Explanation:
    monkeypatch.setattr(explaining, "Child", FakeChild)
    monkeypatch.setattr(explaining, "GRACE", 0.1)
    monkeypatch.setattr(FakeChild, "script", list(script))
    monkeypatch.setattr(FakeChild, "killed", 0)
    heard: list[Step] = []
    try:
        return chipmap.explain(
            "ring/tiny-skip", options=SolveOptions(time_limit=limit), progress=heard.append, isolate=True
        )
    finally:
        assert FakeChild.killed == 1
        assert heard == [message.step for message in script if isinstance(message, Looking)]


def test_a_child_that_hangs_is_stopped_and_what_it_told_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ask(
        monkeypatch, Looking(FIRST), told(so_far("one")), Looking(FIRST.replace(again=True)), told(so_far("two"))
    )
    assert (found.statements[0].message, found.objective) == ("two", 7)
    assert "stopped at the time limit of 0.1 s" in found.notes[0].text


def test_a_child_that_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ask(monkeypatch)
    assert found.status == "unknown" and found.instance == "ring/tiny-skip" and found.family == "ring"
    assert "Nothing is known" in found.statements[0].message and found.notes[0].kind == "stopped"


def test_a_child_that_dies_and_one_that_ends_well(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ask(monkeypatch, told(so_far("one")), None, limit=None)
    assert found.statements[0].message == "one" and "ended before its time" in found.notes[0].text
    found = ask(monkeypatch, told(so_far("one")), told(so_far("all"), last=True), limit=None)
    assert found.statements[0].message == "all" and found.notes == ()


def test_errors_of_the_child_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="is wrong"):
        ask(monkeypatch, Failed("InputError", "", "is wrong", "here", "Mend it."))
    with pytest.raises(ChipmapError, match="the explanation failed: boom"):
        ask(monkeypatch, Failed("", "boom"))


def test_a_real_child_says_the_same() -> None:
    solution = RingSolution(chips=(0, 0, 1, 1, 1))
    options = SolveOptions(time_limit=120.0)
    here = chipmap.explain("ring/tiny-skip", solution, solution, options)
    there = chipmap.explain("ring/tiny-skip", solution, solution, options, isolate=True)
    assert there.replace(seconds=0.0) == here.replace(seconds=0.0)
    with pytest.raises(InputError, match="2 entries for 5 operations"):
        chipmap.explain("ring/tiny-skip", RingSolution(chips=(0, 0)), options=options, isolate=True)
