"""For each kind of bound an instance on which it is the optimum: a bound that is one tick too high fails here.

Where a part of a bound can be left out, the instance needs it: without it the bound is lower.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from chipmap.deadline import Deadline
from chipmap.formulations.wafer.options import least_time
from chipmap.heuristics.wafer.bounds import clusters
from chipmap.heuristics.wafer.bounds.elimination import ROWS, Elimination
from chipmap.heuristics.wafer.bounds.packing import FloatArray, Packing, Ranges
from chipmap.heuristics.wafer.bounds.score import bounds
from chipmap.heuristics.wafer.bounds.single_kernel import least_score, single_kernels
from chipmap.heuristics.wafer.exhaustive import solve as exhaust
from chipmap.heuristics.wafer.rows.single_row import RowProgram, path_bound
from chipmap.heuristics.wafer.slicing.sizing import Sizing
from chipmap.instances.wafer.problem import IntArray, WaferProblem, wafer_problem
from chipmap.run import SolveOptions
from chipmap.solve import solve
from tests.wafer.random_instances import made
from tests.wafer.test_bounds import GRAPHS as SMALL_GRAPHS
from tests.wafer.test_bounds import bound, make
from tests.wafer.test_bounds import optimum as enumerated

#: Graphs of the random instances, by number of kernels.
GRAPHS: dict[int, list[list[tuple[int, int]]]] = {
    1: [[]],
    2: [[(0, 1)], []],
    3: [[(0, 1), (1, 2)], [(0, 1), (1, 2), (0, 2)]],
    4: [[(0, 1), (1, 2), (0, 3), (3, 2)], [(0, 1), (1, 2), (0, 2), (2, 3)], [(0, 1), (1, 2), (2, 3)]],
}


def drawn(seed: int) -> WaferProblem:
    """A random tiny instance."""
    random = Random(seed)
    n = random.choice((1, 2, 2, 3, 3, 3, 4, 4))
    edges = random.choice(GRAPHS[n])
    return make(random, n, edges, (random.randint(3, 7), random.randint(2, 7)), blocks=False)


def square() -> WaferProblem:
    """Four kernels on a cycle: best in two rows of two, as the cases of 4-cycles say."""
    one = {"H": 1, "W": 1, "C": 1, "K": 1}
    return wafer_problem(made(6, 4, "ab bc cd da", dict.fromkeys("abcd", one), time_weight=0, wire_weight=1))


def optimum(problem: WaferProblem) -> int:
    """By branch and bound over all placements."""
    value, _ = exhaust(problem, None)
    assert value is not None
    return value


def every_bound(problem: WaferProblem) -> dict[str, int]:
    """What the method reports, by source; no floorplan is known that could cap a bound."""
    found: dict[str, int] = {}
    best = bounds(problem, None, Deadline(), lambda value, source: found.update({source: value}))
    assert best == max(found.values(), default=0)
    return found


def by_area(problem: WaferProblem) -> int:
    tau = least_time(problem)
    assert tau == Sizing(problem).area_time()
    return problem.instance.weights.time * (tau or 0)


def by_single_kernel(problem: WaferProblem) -> int:
    return least_score(problem, single_kernels(problem)[0])


def by_path(problem: WaferProblem) -> int:
    return path_bound(RowProgram(problem), Deadline(), Sizing(problem).area_time())


def by_packing(problem: WaferProblem) -> int:
    return every_bound(problem)["packing"]


@pytest.mark.parametrize(
    ("bound", "seed"),
    [
        *((by_area, seed) for seed in (4, 23, 46, 65)),
        *((by_single_kernel, seed) for seed in (2, 43, 57)),
        *((by_path, seed) for seed in (7, 14, 15, 18, 23, 28)),
        *((by_packing, seed) for seed in (33, 46, 82)),
    ],
)
def test_simple_bounds_are_reached(bound: Callable[[WaferProblem], int], seed: int) -> None:
    """Area, the slowest kernel by itself, the row program of a path, the packing inequalities."""
    problem = drawn(seed)
    assert bound(problem) == optimum(problem) > 0


def no_squares(monkeypatch: pytest.MonkeyPatch) -> None:
    cycles = clusters._cycles
    monkeypatch.setattr(clusters, "_cycles", lambda graph: [cycle for cycle in cycles(graph) if len(cycle) == 3])
    monkeypatch.setattr("networkx.bridges", lambda graph: list(graph.edges))  # nor that edges lie on cycles


def no_triangles(monkeypatch: pytest.MonkeyPatch) -> None:
    cycles = clusters._cycles
    monkeypatch.setattr(clusters, "_cycles", lambda graph: [cycle for cycle in cycles(graph) if len(cycle) == 4])


def no_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Elimination, "connected", property(lambda self: False))


def no_adapters(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = Elimination._mask_costs
    monkeypatch.setattr(Elimination, "_mask_costs", lambda *arguments: 0 * costs(*arguments))


def without_loads(monkeypatch: pytest.MonkeyPatch, rows: slice) -> None:
    """Inequalities that no box has a part in."""
    loads, penalty = Packing.loads, Packing.penalty

    def fewer_loads(packing: Packing, x: IntArray, y: IntArray, ranges: Ranges) -> FloatArray:
        found = loads(packing, x, y, ranges)
        found[rows] = 0
        return found

    def less_penalty(packing: Packing, x: IntArray, y: IntArray, ranges: Ranges, multipliers: FloatArray) -> FloatArray:
        some = np.array(multipliers)
        some[rows] = 0
        return penalty(packing, x, y, ranges, some)

    monkeypatch.setattr(Packing, "loads", fewer_loads)
    monkeypatch.setattr(Packing, "penalty", less_penalty)


def no_dual_feasible_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    without_loads(monkeypatch, slice(1, None))


def no_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packing inequalities that know nothing of the ranges of the centres."""
    sides = Packing._sides
    monkeypatch.setattr(Packing, "_sides", lambda packing, ranges: sides(packing, packing.whole))


def no_discounts(monkeypatch: pytest.MonkeyPatch) -> None:
    caps = Elimination.caps
    free = np.append(np.ones(ROWS), [0, 0, 1])
    monkeypatch.setattr(Elimination, "caps", lambda program, ranges: np.where(free > 0, caps(program, ranges), 0.0))


@pytest.mark.parametrize(
    ("problem", "leave_out"),
    [
        (drawn(53), no_triangles),
        (drawn(60), no_triangles),
        (square(), no_squares),
        (drawn(26), no_strips),
        (drawn(26), no_ranges),
        (drawn(13), no_discounts),
        (drawn(32), no_dual_feasible_functions),
        (drawn(125), no_dual_feasible_functions),
        (drawn(129), no_adapters),
        (drawn(739), no_adapters),
    ],
    ids=[
        "triangle",
        "triangle in a row",
        "4-cycle",
        "strips",
        "ranges of the centres",
        "discounts",
        "height",
        "width",
        "adapters",
        "one adapter",
    ],
)
def test_every_part_of_the_branch_and_bound_is_needed_and_reached(
    monkeypatch: pytest.MonkeyPatch, problem: WaferProblem, leave_out: Callable[[pytest.MonkeyPatch], None]
) -> None:
    """The bound by times and strips is the optimum; without one of its parts it is lower."""
    best = optimum(problem)
    assert max(every_bound(problem).values()) == best
    leave_out(monkeypatch)
    assert max(every_bound(problem).values(), default=0) < best


@pytest.mark.parametrize("method", ["wafer/cpsat", "wafer/mip", "wafer/exact"])
def test_models_of_small_fabrics_prove_the_optimum(method: str) -> None:
    """Their own bounds, not only the area's, reach it."""
    problem = drawn(28)
    result = solve(problem.instance, method, SolveOptions(warm_start="none", time_limit=60.0))
    own = [
        bound.value for bound in result.bounds if bound.source in (method.removeprefix("wafer/"), "branch and bound")
    ]
    assert result.status == "optimal" and max(own) == result.objective == optimum(problem)


#: What costs something -> number of kernels and seed of an instance on which the bound is the optimum.
TIGHT = {
    "time": (3, 105),
    "time of one": (1, 104),
    "wire": (3, 103),
    "time and wire": (2, 102),
    "time and wire of a triangle": (3, 106),
    "time and adapters": (3, 108),
    "time, wire and adapters": (3, 109),
    "all, heavy": (3, 110),
    "all, of two": (2, 101),
}


def tiny(n: int, seed: int) -> WaferProblem:
    """A random instance of ``n`` kernels on a fabric that brute force can fill."""
    random = Random(seed * 10 + n)
    side = (random.randint(4, 7), random.randint(4, 7)) if n < 3 else (6, 6)
    return make(random, n, random.choice(SMALL_GRAPHS[n]), side, blocks=False)


@pytest.mark.parametrize("name", TIGHT)
def test_the_bound_is_the_optimum(name: str) -> None:
    problem = tiny(*TIGHT[name])
    best = enumerated(problem)
    assert best is not None and bound(problem) == best > 0
