"""Probing in passes: how many ancestors each one looks at, when it ends, and what is raised when its time is over."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from chipmap.deadline import Deadline
from chipmap.heuristics.placement.bounds import same_device_bound
from chipmap.heuristics.placement.bounds import simple as bounds
from chipmap.heuristics.placement.bounds.simple import HeadsAndTails
from chipmap.instances.placement.problem import PlacementProblem, placement_problem
from chipmap.kernels import uncompiled
from chipmap.methods.chain import Turn
from chipmap.methods.placement import bounding
from chipmap.methods.placement.chain_state import ChainState
from tests.placement.random_instances import made

LIMITED = Deadline.after(1e6)


@pytest.fixture(autouse=True)
def in_plain_python() -> Iterator[None]:
    with uncompiled():
        yield


class Told:
    """A run that keeps its largest bound."""

    def __init__(self) -> None:
        self.lower: Any = None
        self.upper = None

    def bound(self, value: int, source: str) -> None:
        self.lower = SimpleNamespace(value=max(value, 0 if self.lower is None else self.lower.value))


def passes(monkeypatch: pytest.MonkeyPatch, operations: int, deadline: Deadline, rising: int) -> list[int]:
    """How many ancestors each pass of probing looks at; the first ``rising`` ones raise the bound by 5, others by 1."""
    asked: list[int] = []

    def probed(_: PlacementProblem, w: HeadsAndTails, probing: bool, __: Deadline, nearest: int = 64) -> HeadsAndTails:
        asked.extend([nearest] * probing)
        return w._replace(tail=w.tail + (5 if len(asked) <= rising else 1)) if probing else w

    monkeypatch.setattr(same_device_bound, "raised", probed)
    rows, edges = [(1, 0, 0)] * operations, [(v, v + 1) for v in range(operations - 1)]
    told: Any = Told()
    bounding.bound_by_windows(ChainState(placement_problem(made(rows, edges))), Turn(told, deadline))
    return asked


@pytest.mark.parametrize(
    ("operations", "deadline", "rising", "expected"),
    [
        (300, LIMITED, 9, [64, 128, 256]),
        (300, LIMITED, 1, [64, 128]),
        (300, LIMITED, 0, [64]),
        (100, LIMITED, 9, [64, 128]),
        (64, LIMITED, 9, [64]),
        (300, Deadline(), 9, [64]),
    ],
)
def test_passes_widen_while_they_raise_the_bound(
    monkeypatch: pytest.MonkeyPatch, operations: int, deadline: Deadline, rising: int, expected: list[int]
) -> None:
    """The first pass is the only one without a time limit, and where it looks at all operations or gains below 0.5%."""
    assert passes(monkeypatch, operations, deadline, rising) == expected


def test_once_the_time_for_probing_is_over_the_others_are_raised_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """v3's tensor leaves and comes back (21 instead of 19, found without probing); v4 hears of it."""
    rows = [(1, 0, 20), (10, 0, 8), (10, 0, 8), (1, 0, 0), (1, 0, 0)]
    problem = placement_problem(made(rows, [(0, 1), (0, 2), (0, 3), (1, 3), (2, 3), (3, 4)]))
    asked: list[bool] = []
    plain = same_device_bound._refuted

    def refuted(limit: int, count: int, near: Any, devices: int, probing: bool) -> bool:
        asked.append(probing)
        return bool(plain(limit, count, near, devices, probing))

    monkeypatch.setattr(same_device_bound, "_refuted", refuted)
    monkeypatch.setattr(same_device_bound, "SHARES", (0.0, 0.0))
    w = bounds.heads_and_tails(problem, LIMITED)
    found = same_device_bound.raised(problem, w, True, LIMITED)
    assert found.head.tolist() == [0, 1, 1, 21, 22] and asked and not any(asked)
