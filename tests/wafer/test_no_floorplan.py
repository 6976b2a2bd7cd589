"""No floorplan: the enumeration hears the clock, bounds say so, and plain Python counts adapters as compiled code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from chipmap import heuristics
from chipmap.deadline import Deadline, Stop, StopReason
from chipmap.heuristics.wafer.exhaustive import TooLargeError, solve
from chipmap.instances.wafer import WaferInstance
from chipmap.instances.wafer.generators import explicit
from chipmap.instances.wafer.problem import wafer_problem
from chipmap.solve import solve as solve_by
from tests.wafer.random_instances import A, made

#: Looks at the clock after which it says that time is up, and executions that a block has on the fabric below.
LOOKS = 40


def blocks() -> WaferInstance:
    """Two cblocks and a dblock on a fabric of 5 x 16: the enumeration listed 10 million choices without a look."""
    kernels = {
        "a": {"kind": "cblock", "H": 4, "W": 4, "F": 8},
        "b": {"kind": "cblock", "H": 4, "W": 4, "F": 8},
        "c": {"kind": "dblock", "H": 4, "W": 4, "F": 4},
    }
    return explicit(kernels=kernels, edges=[["a", "b"], ["b", "c"]], width=5, height=16, name="blocks")


def test_the_enumeration_hears_the_clock() -> None:
    """It asks its deadline while it lists placements, and ends at once."""
    looks = list[int]()

    def ended() -> StopReason | None:
        looks.append(1)
        return "interrupted" if len(looks) >= LOOKS else None

    with pytest.raises(Stop):
        solve(wafer_problem(blocks()), None, Deadline(ended=ended))
    assert len(looks) == LOOKS


def test_the_enumeration_gives_up_on_many_placements() -> None:
    """Choices that make a box too wide are left where they begin: it used to take 27 CPU seconds."""
    looks = list[int]()
    with pytest.raises(TooLargeError):
        solve(wafer_problem(blocks()), None, Deadline(ended=lambda: looks.append(1)))  # type: ignore[func-returns-value]
    assert len(looks) < 100_000


def test_what_the_enumeration_found_is_kept() -> None:
    """Time is up once a floorplan is known."""
    instance = made(8, 3, "ab", {"a": A, "b": A}, wire_weight=3)
    problem, kept = wafer_problem(instance), list[object]()
    counted = list[int]()
    score, _ = solve(problem, None, Deadline(ended=lambda: counted.append(1)))  # type: ignore[func-returns-value]
    assert score is not None
    left = len(counted) - 1
    looks = list[int]()

    def ended() -> StopReason | None:
        looks.append(1)
        return "interrupted" if len(looks) > left else None

    with pytest.raises(Stop):
        solve(problem, None, Deadline(ended=ended), kept.append)
    assert len(kept) == 1


def test_bounds_say_that_there_is_no_floorplan() -> None:
    """Boxes that don't nest: their bound used to rise beyond any floorplan's score."""
    instance = made(5, 5, "ab", {"a": A, "b": A}, memory_words=50)
    result = solve_by(instance, "wafer/bounds", isolate=False)
    assert (result.status, result.bound) == ("infeasible", None)
    assert [(reason.label, reason.labels) for reason in result.infeasibility] == [("C2", ("C1", "C2", "C3"))]


def test_arguments_that_differ_are_counted_one_by_one() -> None:
    """NumPy adds booleans to one, compiled code to their number: no code adds comparisons."""
    kernels = {
        "a": {"H": 4, "W": 1, "C": 1, "K": 4, "R": 3, "S": 1, "T": 1},
        "b": {"H": 4, "W": 1, "C": 3, "K": 2, "R": 3, "S": 1, "T": 1},
    }
    instance = made(5, 5, "ab", kernels, memory_words=29, wire_weight=0, adapter_weight=5)
    assert solve_by(instance, "wafer/bounds", isolate=False).failure == ""
    found = []
    for path in sorted(Path(heuristics.__path__[0]).rglob("*kernel*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
                continue
            if isinstance(node.left, ast.Compare) and isinstance(node.right, ast.Compare):
                found.append(f"{path.name}:{node.lineno}")
    assert found == []
