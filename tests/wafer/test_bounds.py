"""The lower bounds against true optima of tiny instances and against random floorplans of small ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from numba import njit

from chipmap.deadline import Deadline, StopReason, Unready
from chipmap.heuristics.wafer.bounds.clusters import SHAPES, plan
from chipmap.heuristics.wafer.bounds.elimination import SIZE, Elimination
from chipmap.heuristics.wafer.bounds.packing import Ranges, Strip, functions
from chipmap.heuristics.wafer.bounds.score import FINE, BoundSearch, NoFloorplanError, bounds
from chipmap.heuristics.wafer.bounds.states import Tables
from chipmap.instances.wafer import Fabric, Kernel, Placement, WaferInstance, Weights
from chipmap.instances.wafer.problem import WaferProblem, conv_time, evaluate, least_ks, memory_k, wafer_problem
from tests.lanes import of_all

#: Edge lists of the graphs that the tests use, by number of kernels.
GRAPHS: dict[int, list[list[tuple[int, int]]]] = {
    1: [[]],
    2: [[(0, 1)], [(0, 1), (0, 1)], [(1, 0), (0, 1)], []],
    3: [[(0, 1), (1, 2)], [(0, 1), (1, 2), (0, 2)], [(0, 2)], [(0, 1), (1, 2), (0, 2), (0, 2)]],
    4: [[(0, 1), (1, 2), (0, 3), (3, 2)], [(0, 1), (1, 2), (0, 2), (2, 3)], [(0, 1), (0, 2), (0, 3)]],
}


def conv(name: str, sizes: tuple[int, ...]) -> Kernel:
    return Kernel(name=name, kind="conv", arguments=dict(zip("HWCKRSTU", (*sizes, sizes[-1]), strict=True)))


def make(random: Random, n: int, edges: list[tuple[int, int]], side: tuple[int, int], blocks: bool) -> WaferProblem:
    """A random instance with few types, small sizes and weights of any proportion."""
    choices: list[Kernel] = []
    for _ in range(2):
        sizes = (*(random.choice((1, 2, 3, 5)) for _ in range(4)), random.choice((1, 2)), 1, random.choice((1, 2)))
        choices.append(conv("", sizes))
    if blocks:
        choices.append(Kernel(name="", kind="dblock", arguments={"H": 2, "W": 2, "F": 4}))
    kernels = [random.choice(choices) for _ in range(n)]
    weights = Weights(
        time=random.choice((0, 1, 1, 3)), wire=random.choice((0, 1, 2, 5)), adapter=random.choice((0, 0, 1, 4, 9))
    )
    instance = WaferInstance(
        name="tiny",
        kernels=tuple(
            Kernel(name=f"k{i}", kind=kernel.kind, arguments=kernel.arguments) for i, kernel in enumerate(kernels)
        ),
        edges=tuple((f"k{u}", f"k{v}") for u, v in edges),
        fabric=Fabric(width=side[0], height=side[1], memory_words=random.choice((40, 300, 24_576))),
        weights=weights,
        protocol=random.choice(("c_n", "c_n", "min_c_k")),
    )
    instance.check()
    return wafer_problem(instance)


def options(problem: WaferProblem, i: int) -> list[tuple[int, int, int, int, int, int, int]]:
    """Every (time, width, height, h, w, what the adapter sees of a producer, of a consumer) that fits the fabric."""
    found = set()
    convs = [np.array(c, dtype=np.int64) for c in problem.convs[i]]
    limit = max(problem.width, problem.height)
    for h, w in product(range(1, limit // 2 + 1), repeat=2):
        most = limit // (h * w) - 1
        for cs in product(range(1, most + 1), repeat=len(convs)):
            for ks in product(range(1, limit // 3 + 1), repeat=len(convs)):
                if any(k < memory_k(c, h, w, cc, problem.memory) for c, cc, k in zip(convs, cs, ks, strict=True)):
                    continue
                time = max(int(conv_time(c, h, w, cc, k)) for c, cc, k in zip(convs, cs, ks, strict=True))
                out = cs[-1] if problem.instance.protocol == "c_n" else min(cs[-1], ks[-1])
                width, height = 3 * sum(ks), h * w * (max(cs) + 1)
                for x, y in ((width, height), (height, width)):
                    if x <= problem.width and y <= problem.height:
                        found.add((time, x, y, h, w, out, cs[0]))
    return sorted(found)


@njit
def least_wire(boxes: Any, edges: Any, width: int, height: int) -> int:
    """The least wire (half tiles) of boxes [n, 2] in the fabric by trying every place of every box; -1 if none fits."""
    n = len(boxes)
    at = np.full(n, -1)
    best, i = -1, 0
    while i >= 0:
        at[i] += 1
        across = width - boxes[i, 0] + 1
        if at[i] >= across * (height - boxes[i, 1] + 1):
            at[i] = -1
            i -= 1
            continue
        x, y = at[i] % across, at[i] // across
        clear = True
        for j in range(i):
            other = width - boxes[j, 0] + 1
            u, v = at[j] % other, at[j] // other
            if x < u + boxes[j, 0] and u < x + boxes[i, 0] and y < v + boxes[j, 1] and v < y + boxes[i, 1]:
                clear = False
                break
        if not clear:
            continue
        if i < n - 1:
            i += 1
            continue
        wire = 0
        for a, b in edges:
            s, t = width - boxes[a, 0] + 1, width - boxes[b, 0] + 1
            wire += abs(2 * (at[a] % s) + boxes[a, 0] - 2 * (at[b] % t) - boxes[b, 0])
            wire += abs(2 * (at[a] // s) + boxes[a, 1] - 2 * (at[b] // t) - boxes[b, 1])
        if best < 0 or wire < best:
            best = wire
    return best


def optimum(problem: WaferProblem) -> int | None:
    """The least score (ticks) of all floorplans; None if there is none."""
    choices = [options(problem, i) for i in range(problem.n)]
    wires: dict[tuple[tuple[int, int], ...], int] = {}
    best: int | None = None
    edges = problem.edges.tolist()
    for chosen in product(*choices):
        boxes = tuple(o[1:3] for o in chosen)
        if sum(x * y for x, y in boxes) > problem.width * problem.height:
            continue
        adapters = sum(
            (chosen[a][3] != chosen[b][3]) + (chosen[a][4] != chosen[b][4]) + (chosen[a][5] != chosen[b][6])
            for a, b in edges
        )
        time = max(o[0] for o in chosen)
        if best is not None and problem.score(time, 0, adapters) >= best:
            continue
        if boxes not in wires:
            wires[boxes] = least_wire(np.array(boxes), problem.edges, problem.width, problem.height)
        if wires[boxes] >= 0:
            score = problem.score(time, wires[boxes], adapters)
            best = score if best is None else min(best, score)
    return best


def bound(problem: WaferProblem, upper: int | None = None, checks: int = 120) -> int:
    """The bound after at most so many checks of the clock; reported bounds rise to it."""
    seen: list[int] = [0]
    left = iter(range(checks))

    def report(value: int, source: str) -> None:
        assert value > seen[-1] and source
        seen.append(value)

    result = bounds(problem, upper, Deadline(ended=lambda: "interrupted" if next(left, None) is None else None), report)
    assert result == seen[-1]
    return result


@pytest.mark.parametrize("seed", range(of_all(400, few=24)))
def test_not_above_the_optimum_of_tiny_instances(seed: int) -> None:
    random = Random(seed)
    n = random.choice((1, 2, 2, 3, 3, 3))
    side = (random.randint(4, 9), random.randint(4, 9)) if n < 3 else (random.randint(5, 7), random.randint(5, 7))
    problem = make(random, n, random.choice(GRAPHS[n]), side, blocks=n < 3 and side[0] < 8 and side[1] < 8)
    best = optimum(problem)
    if best is not None:
        assert bound(problem) <= best
        assert bound(problem, upper=best + 8) <= best
        return
    with suppress(NoFloorplanError):  # raised here alone
        bound(problem)


@pytest.mark.parametrize("seed", range(of_all(100, few=12)))
def test_a_search_left_at_any_moment_loses_nothing(seed: int) -> None:
    """Gone on with after the time was up or a function wasn't compiled, it still never exceeds the optimum."""
    random = Random(3000 + seed)
    problem = make(random, 2, [(0, 1)], (random.randint(5, 8), random.randint(5, 8)), blocks=False)
    best = optimum(problem)
    if best is None:
        return
    search, seen = BoundSearch(problem), [0]
    for upper in (None, None, best + 8, best + 8, best):
        left = iter(range(random.randint(3, 40)))

        def ended(left: Iterator[int] = left) -> StopReason | None:
            if next(left, None) is not None:
                return None
            if random.random() < 0.5:
                raise Unready
            return "interrupted"

        with suppress(Unready):
            seen.append(search.go_on(upper, Deadline(ended=ended), lambda value, source: None))
            assert seen[-2] <= seen[-1] <= best
    assert search.go_on(best, Deadline(), lambda value, source: None) >= seen[-1]


@pytest.mark.parametrize("seed", range(6))
def test_strips_and_multipliers_at_one_time(seed: int) -> None:
    """Any split of both ranges, any multipliers: the least of the parts is at most the least wire and adapters."""
    random = Random(500 + seed)
    side = random.randint(5, 8)
    problem = make(random, 3, random.choice(GRAPHS[3]), (side, side if seed % 2 else side + 1), blocks=False)
    weights = Weights(time=0, wire=random.choice((1, 3)), adapter=random.choice((0, 1, 5)))
    problem = wafer_problem(replace(problem.instance, weights=weights))
    best = optimum(problem)
    tables = Tables(problem)
    for arguments in (False, True) if tables.adapters else (False,):
        program = Elimination(problem, arguments)
        states = (tables.states if arguments else tables.fronts)(problem.longest)
        for _ in range(4):
            middles = [random.randint(1, 2 * side) for side in (problem.width, problem.height)]
            strips = [
                (Strip(0, middle), Strip(middle, 2 * side))
                for middle, side in zip(middles, (problem.width, problem.height), strict=True)
            ]
            multipliers = np.array([random.choice((0, 0, 0, 1, 5, 20)) for _ in range(SIZE)], dtype=np.float64)
            values = [
                program.evaluate(states, Ranges(across, up), multipliers, Deadline()).value
                for across, up in product(*strips)
            ]
            assert best is None or min(values) <= best + 1e-6


def test_bounds_are_often_the_optimum() -> None:
    """A bound that is always weak would pass the test above."""
    tight = 0
    for seed in range(100, 110):
        random = Random(seed)
        problem = make(random, 2, [(0, 1)], (random.randint(5, 8), random.randint(5, 8)), blocks=False)
        best = optimum(problem)
        tight += best is not None and bound(problem) >= 0.9 * best
    assert tight >= 6


@pytest.mark.parametrize("seed", range(12))
def test_not_above_random_floorplans(seed: int) -> None:
    """Wider fabrics and longer graphs: boxes of random arguments in rows never cost less than the bound."""
    random = Random(1000 + seed)
    n = random.randint(3, 8)
    edges = [(i, i + 1) for i in range(n - 1)] + [tuple(sorted(random.sample(range(n), 2))) for _ in range(n // 2)]
    problem = make(random, n, [(u, v) for u, v in edges], (40, random.choice((30, 40))), blocks=seed % 3 == 0)
    value = bound(problem, checks=150)
    found = [s for _ in range(60) if (s := random_floorplan(problem, random)) is not None]
    assert found
    assert value <= min(found)


def random_floorplan(problem: WaferProblem, random: Random) -> int | None:
    """The score of kernels of random shape set in rows; None if they don't fit. Often h, w, c are the same for all."""
    tau = 4 * random.choice((2, 5, 20, 100, 500))
    shared = random.randint(1, 3), random.randint(1, 3), random.randint(1, 5)
    placements, x, y, row = [], 0, 0, 0
    for i, name in enumerate(problem.names):
        h, w, c = (
            shared if random.random() < 0.8 else (random.randint(1, 4), random.randint(1, 4), random.randint(1, 6))
        )
        convs = problem.type_arrays[int(problem.types[i])]
        ks = least_ks(convs, h, w, [c] * len(convs), tau, problem.memory)
        if ks is None:
            return None
        width, height = 3 * sum(ks), h * w * (c + 1)
        if x + width > problem.width:
            x, y, row = 0, y + row, 0
        if x + width > problem.width or y + height > problem.height:
            return None
        placements.append(Placement(kernel=name, h=h, w=w, c=(c,) * len(convs), k=ks, x=x, y=y))
        x, row = x + width, max(row, height)
    return evaluate(problem, placements).score


@pytest.mark.parametrize("n", [2, 3, 4])
def test_cases_of_a_cluster_hold(n: int) -> None:
    """The least case never exceeds the least wire of rectangles on a wide fabric, and is often close."""
    random, close = Random(n), 0
    shape = SHAPES[n].every
    edges = np.array({2: [(0, 1)], 3: [(0, 1), (1, 2), (0, 2)], 4: [(0, 1), (1, 2), (2, 3), (0, 3)]}[n])
    for _ in range(40):
        boxes = np.array([(random.randint(1, 4), random.randint(1, 4)) for _ in range(n)])
        cases = shape.root[:, :2] @ boxes[-1]
        for j in range(n - 1):
            cases = cases + shape.coefficients[shape.chosen[:, j], :2] @ boxes[j]
        true = least_wire(boxes, edges, 8, 8) if n < 4 else least_wire(boxes, edges, 6, 6)
        assert true < 0 or cases.min() <= true
        close += int(cases.min() >= 0.8 * true)
    assert close >= 20


def test_functions_are_dual_feasible() -> None:
    """Whatever fits a side fits it by each function: all multisets of lengths on a side of 12 and of 13."""
    for side in (12, 13):
        table = functions(side)

        def extend(rest: int, largest: int, total: np.ndarray, table: np.ndarray = table) -> None:
            assert (total <= 1 + 1e-12).all()
            for x in range(1, min(rest, largest) + 1):
                extend(rest - x, x, total + table[:, x])

        extend(side, side, np.zeros(len(table)))


def test_next_time_against_all_times() -> None:
    random = Random(5)
    for _ in range(5):
        problem = make(random, 2, [(0, 1)], (8, 8), blocks=True)
        tables = Tables(problem)
        times = {
            int(conv_time(np.array(c, dtype=np.int64), h, w, cc, k))
            for convs in problem.convs
            for c in convs
            for h, w, cc, k in product(range(1, 6), repeat=4)
        }
        assert problem.longest == max(times)
        for least in range(1, max(times) + 1):
            assert tables.next_time(least) == min(t for t in times if t >= least)


def test_plan_covers_every_edge_once() -> None:
    random = Random(9)
    for _ in range(30):
        n = random.randint(2, 9)
        edges = [tuple(random.sample(range(n), 2)) for _ in range(random.randint(1, 2 * n))]
        problem = make(random, n, [(u, v) for u, v in edges], (20, 20), blocks=False)
        made = plan(problem)
        inside = sum({2: 1, 3: 3, 4: 4}[len(c.members)] for c in made.clusters)
        assert inside + int(made.loose.sum()) // 2 == len(edges)
        assert (made.loose >= 0).all()
        done: set[int] = set()
        for cluster in made.clusters:
            assert not done & set(cluster.members)
            done |= set(cluster.members[:-1])
        assert len(done) + len(made.roots) == n


def test_ranges_are_split_before_arguments_get_their_best_multipliers() -> None:
    """Sweeps over boxes with their arguments take most of the time: a part has few of them before its ranges split,
    even where more would help for ever."""
    kernels = tuple(conv(f"k{i}", (4, 4, 3, 3, 8, 8, 1)) for i in range(4))
    edges = tuple((f"k{i}", f"k{i + 1}") for i in range(3))
    fabric, weights = Fabric(width=30, height=30), Weights(time=1, wire=20, adapter=50)
    instance = WaferInstance(name="path", kernels=kernels, edges=edges, fabric=fabric, weights=weights)
    search, sweeps, before = BoundSearch(wafer_problem(instance)), dict[int, int](), list[int]()
    climb, split = search._climb, search._split_range

    def counting(part: Any, which: Any, program: Any, steps: int) -> None:
        if program.arguments:
            sweeps[id(part)] = sweeps.get(id(part), 0) + steps
            if sweeps[id(part)] > 40:
                raise Unready
        climb(part, which, program, steps)
        if program.arguments:
            which.rests = False

    def splitting(part: Any, at: int) -> None:
        before.append(sweeps.get(id(part), 0))
        split(part, at)
        if len(before) == 2:
            raise Unready

    vars(search).update(_climb=counting, _split_range=splitting)
    with suppress(Unready):
        search.go_on(None, Deadline(), lambda value, source: None)
    assert before
    assert max(before) <= FINE + 1
