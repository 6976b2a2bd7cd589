"""Tiny random instances of family ``wafer`` and their optimum by plain enumeration of all arguments and corners."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any, NamedTuple

import numpy as np

from chipmap.instances.wafer import Fabric, Kernel, Placement, WaferInstance, WaferSolution, Weights
from chipmap.instances.wafer.problem import WaferProblem, evaluate, size, wafer_problem


def kernel(random: Random, name: str, blocks: bool = True) -> Kernel:
    """A convolution, now and then a block, with few multiplications."""
    kind = random.choice(("conv",) * 7 + ("dblock", "cblock")) if blocks else "conv"
    if kind == "conv":
        pick = random.choice
        arguments = {"H": pick((1, 2, 3)), "W": pick((1, 2)), "C": pick((1, 2, 3)), "K": pick((1, 2, 3, 5))}
        arguments |= {"R": pick((1, 3)), "S": 1, "T": pick((1, 2)), "U": 1}
    else:
        arguments = {"H": 2, "W": 2, "F": random.choice((4, 8))}
    return Kernel(name=name, kind=kind, arguments=arguments)  # type: ignore[arg-type]


def instance(random: Random, kernels: int = 3, side: int = 11, blocks: bool = True, **fields: Any) -> WaferInstance:
    """1 to ``kernels`` kernels and some edges on a fabric with sides of 6 or 7 to ``side`` tiles."""
    names = [f"k{i}" for i in range(random.randint(1, kernels))]
    pairs = [(u, v) for i, u in enumerate(names) for v in names[i + 1 :]]
    edges = tuple(pair for pair in pairs for _ in range(random.choice((0, 1, 1, 2))))
    side -= 2 * (len(names) > 2)  # or the enumeration takes too long
    width = random.randint(7, side)
    made: dict[str, Any] = {
        "name": "tiny",
        "kernels": tuple(kernel(random, name, blocks) for name in names),
        "edges": edges,
        "fabric": Fabric(
            width=width,
            height=random.choice((width, random.randint(6, side))),
            memory_words=random.choice((10**6, 10**6, 30)),
        ),
        "weights": Weights(
            time=random.choice((1, 1, 3, 0)), wire=random.choice((0, 1, 5, 20)), adapter=random.choice((0, 0, 3, 40))
        ),
        "protocol": random.choice(("c_n", "c_n", "min_c_k")),
    }
    made |= fields
    found = WaferInstance(**made)
    found.check()
    return found


class Ways(NamedTuple):
    """All ways to run and place one kernel: columns width, height, time, h, w, c_in, c_out, x, y; and the arguments."""

    table: np.ndarray
    how: list[tuple[Any, ...]]


def ways(problem: WaferProblem, v: int) -> Ways:
    """Every argument and corner of kernel ``v`` inside the fabric and the memory, straight from the page's formulas."""
    convs, limit = problem.convs[v], max(problem.width, problem.height)
    permille = next(one.time_permille for one in problem.instance.kernels if one.name == problem.names[v])
    rows, how, seen = [], [], set()
    for h, w in product(range(1, limit // 2 + 1), repeat=2):
        most_c, most_k = limit // (h * w) - 1, limit // 3
        if most_c < 1:
            continue
        for c in product(range(1, most_c + 1), repeat=len(convs)):
            for k in product(range(1, most_k - len(convs) + 2), repeat=len(convs)):
                time, words = 0, 0.0
                for a, ci, ki in zip(convs, c, k, strict=True):
                    steps = -(-a.H // h) * -(-a.W // w) * -(-a.C // ci) * -(-a.K // ki)
                    time = max(time, -(-4 * steps * a.R * a.S * permille // (1000 * a.T**2)))
                    halo = (a.W + a.S - 1) / w * (a.H + a.R - 1) / h
                    words = max(words, a.C / ci * a.K / ki * a.R * a.S + halo * a.K / ki)
                if words > problem.memory * (1 + 1e-9):
                    continue
                box = (3 * sum(k), h * w * (max(c) + 1))
                out = c[-1] if problem.instance.protocol == "c_n" else min(c[-1], k[-1])
                for rotated in (False, True):
                    width, height = box[::-1] if rotated else box
                    key = (width, height, time, h, w, c[0], out)
                    if key in seen:
                        continue
                    seen.add(key)
                    for x in range(problem.width - width + 1):
                        for y in range(problem.height - height + 1):
                            rows.append((*key, x, y))
                            how.append((h, w, c, k, x, y, rotated))
    return Ways(np.array(rows, dtype=np.int64).reshape(-1, 9), how)


#: Boxes (x, y, width, height) by kernel -> whether those of all kernels may stand so.
Allowed = Callable[[dict[str, tuple[int, int, int, int]]], bool]


def optimum(one: WaferInstance, allowed: Allowed | None = None) -> tuple[int, WaferSolution] | None:
    """The least score in ticks and a floorplan that has it; None if there is none. For up to four tiny kernels."""
    problem = wafer_problem(one)
    listed = [ways(problem, v) for v in range(problem.n)]
    weights = one.weights
    best: list[Any] = [None, None]
    if any(not len(one.table) for one in listed):
        return None
    fastest = [int(one.table[:, 2].min()) for one in listed]

    def extend(chosen: list[int], time: int, cost: int) -> None:
        v = len(chosen)
        table = listed[v].table
        good = np.ones(len(table), dtype=bool)
        extra = np.zeros(len(table), dtype=np.int64)
        for u, i in enumerate(chosen):
            row = listed[u].table[i]
            apart = (table[:, 7] + table[:, 0] <= row[7]) | (row[7] + row[0] <= table[:, 7])
            apart |= (table[:, 8] + table[:, 1] <= row[8]) | (row[8] + row[1] <= table[:, 8])
            good &= apart
            dx = np.abs(2 * table[:, 7] + table[:, 0] - 2 * row[7] - row[0])
            dy = np.abs(2 * table[:, 8] + table[:, 1] - 2 * row[8] - row[1])
            for first, second in problem.edges.tolist():
                if {first, second} == {u, v}:
                    ours, theirs = (5, 6) if second == v else (6, 5)
                    differ = (table[:, 3] != row[3]).astype(int) + (table[:, 4] != row[4])
                    differ = differ + (table[:, ours] != row[theirs])
                    extra += 2 * weights.wire * (dx + dy) + 4 * weights.adapter * differ
        times = np.maximum(table[:, 2], max(time, *fastest))
        total = cost + extra + weights.time * times
        good &= total < (best[0] if best[0] is not None else np.iinfo(np.int64).max)
        for i in np.flatnonzero(good)[np.argsort(total[good], kind="stable")].tolist():
            if best[0] is not None and total[i] >= best[0]:
                break
            if v + 1 == problem.n and allowed is not None:
                rows = [listed[u].table[j].tolist() for u, j in enumerate([*chosen, i])]
                boxes = zip(problem.names, rows, strict=True)
                if not allowed({name: (row[7], row[8], row[0], row[1]) for name, row in boxes}):
                    continue
            if v + 1 == problem.n:
                best[:] = [int(total[i]), [*chosen, i]]
            else:
                extend([*chosen, i], int(times[i]), cost + int(extra[i]))

    extend([], 0, 0)
    if best[0] is None:
        return None
    placements = []
    for v, i in enumerate(best[1]):
        h, w, c, k, x, y, rotated = listed[v].how[i]
        placements.append(Placement(kernel=problem.names[v], h=h, w=w, c=c, k=k, x=x, y=y, rotated=rotated))
    solution = WaferSolution(instance=one.name, placements=tuple(placements))
    assert valid(problem, solution) and score(problem, solution) == best[0]
    return best[0], solution


def ordered(problem: WaferProblem, solution: WaferSolution) -> list[Placement]:
    """The placements in the order of the problem."""
    by_name = {placement.kernel: placement for placement in solution.placements}
    return [by_name[name] for name in problem.names]


def score(problem: WaferProblem, solution: WaferSolution) -> int:
    """The score in ticks."""
    return evaluate(problem, ordered(problem, solution)).score


def valid(problem: WaferProblem, solution: WaferSolution) -> bool:
    """Whether the boxes lie inside the fabric and don't overlap, and the words fit."""
    used = np.zeros((problem.width, problem.height), dtype=int)
    for placement, convs in zip(ordered(problem, solution), problem.convs, strict=True):
        width, height = size(placement)
        x, y = placement.x, placement.y
        if min(x, y) < 0 or x + width > problem.width or y + height > problem.height:
            return False
        used[x : x + width, y : y + height] += 1
        for a, c, k in zip(convs, placement.c, placement.k, strict=True):
            words = a.C / c * a.K / k * a.R * a.S
            words += (a.W + a.S - 1) / placement.w * (a.H + a.R - 1) / placement.h * a.K / k
            if words > problem.memory * (1 + 1e-9):
                return False
    return bool((used <= 1).all())
