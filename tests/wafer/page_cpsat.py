"""The problem of the page as a CP-SAT model of its own, for up to nine tiny kernels, and random instances of that size.

Every kernel chooses one of its ways: arguments straight from the page's formulas, or a choice of its table.
"""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any, NamedTuple

from ortools.sat.python import cp_model

from chipmap.instances.wafer import Choice, Fabric, Kernel, WaferInstance, Weights


class Way(NamedTuple):
    """A box, what adapters compare (None of a table), and a time in quarters."""

    width: int
    height: int
    compared: tuple[int, int, int, int] | None
    time: int


def edges_of(kind: str, n: int, random: Random) -> list[tuple[int, int]]:
    """A graph: a hub in a star, a cycle (of two: an edge and one back), a path, a tree, or a cycle with a tail."""
    if kind == "star":
        pairs = [(0, i) for i in range(1, n)]
    elif kind == "cycle":
        pairs = [(i, (i + 1) % n) for i in range(n)]
    elif kind == "tail":
        pairs = [(0, 1), (1, 2), (2, 0)] + [(random.randrange(i), i) for i in range(3, n)]
    else:
        pairs = [(i - 1 if kind == "path" else random.randrange(i), i) for i in range(1, n)]
    return [pair if random.random() < 0.5 else pair[::-1] for pair in pairs]


def drawn(seed: int) -> WaferInstance:
    """Three to nine kernels of up to three types on a fabric of up to 12 tiles a side; one in five has tables."""
    random = Random(seed)
    kind = ("star", "star", "cycle", "path", "tree", "tail")[seed % 6]
    n = random.randint(7, 9) if kind == "star" and seed % 12 < 6 else random.randint(3, 6)
    tables = random.random() < 0.2
    types = [_kernel(random, tables and random.random() < 0.7) for _ in range(random.randint(1, 3))]
    edges = edges_of(kind, n, random)
    width = random.randint(6, 12)
    return WaferInstance(
        name=f"{kind}-{n}-{seed}",
        kernels=tuple(random.choice(types).replace(name=f"k{i}") for i in range(n)),
        edges=tuple((f"k{u}", f"k{v}") for u, v in edges),
        fabric=Fabric(
            width=width,
            height=random.choice((width, random.randint(4, 12))),
            memory_words=random.choice((10**6, 60, 24)),
        ),
        weights=Weights(
            time=random.choice((1, 1, 2, 0)), wire=random.choice((0, 1, 1, 4, 15)), adapter=random.choice((0, 0, 2, 20))
        ),
        protocol=random.choice(("c_n", "c_n", "min_c_k")),
    )


def _kernel(random: Random, table: bool) -> Kernel:
    pick = random.choice
    if table:
        each = [
            (random.randint(1, 5), random.randint(1, 4), random.randint(0, 12)) for _ in range(random.randint(1, 4))
        ]
        words = pick((0, 20))
        choices = tuple(Choice(width=a, height=b, time=t, memory_words=words) for a, b, t in each)
        return Kernel(name="", kind="table", choices=choices)
    if random.random() < 0.15:
        return Kernel(name="", kind="dblock", arguments={"H": 2, "W": 1, "F": 4})
    sizes = {"H": pick((1, 2, 4)), "W": pick((1, 2)), "C": pick((1, 2, 3, 6)), "K": pick((1, 2, 3, 4))}
    return Kernel(name="", kind="conv", arguments=sizes | {"R": pick((1, 3)), "S": 1, "T": pick((1, 1, 2)), "U": 1})


def convolutions(kernel: Kernel) -> list[tuple[int, ...]]:
    """(H, W, R, S, C, K, T) of each, as in the table of the page."""
    a = kernel.arguments
    if kernel.kind == "conv":
        return [tuple(a[key] for key in "HWRSCKT")]
    f, q = a["F"], a["F"] // 4
    shapes = [(1, 1, f, q, 1), (3, 3, q, q, 1), (1, 1, q, f, 1)]
    return [(a["H"], a["W"], *shape) for shape in shapes]


def ways(instance: WaferInstance, kernel: Kernel) -> list[Way]:
    """Of a kernel: the fastest way of each box and compared arguments, alone on the fabric."""
    fabric, fastest = instance.fabric, dict[tuple[int, int, Any], int]()

    def add(sides: tuple[int, int], compared: tuple[int, int, int, int] | None, time: int) -> None:
        for width, height in (sides, sides[::-1]):
            if width <= fabric.width and height <= fabric.height:
                key = width, height, compared
                fastest[key] = min(time, fastest.get(key, time))

    for one in kernel.choices:
        if one.memory_words <= fabric.memory_words:
            add((one.width, one.height), None, 4 * one.time)
    if not kernel.choices:
        convs, limit = convolutions(kernel), max(fabric.width, fabric.height)
        for h, w in product(range(1, limit // 2 + 1), repeat=2):
            for cs in product(range(1, limit // (h * w)), repeat=len(convs)):
                for ks in product(range(1, limit // 3 + 1), repeat=len(convs)):
                    if 3 * sum(ks) <= limit and (time := _time(convs, (h, w), cs, ks, fabric.memory_words)) is not None:
                        out = cs[-1] if instance.protocol == "c_n" else min(cs[-1], ks[-1])
                        add((3 * sum(ks), h * w * (max(cs) + 1)), (h, w, cs[0], out), time)
    if not instance.weights.adapter:
        boxes: dict[tuple[int, int, Any], int] = {}
        for (width, height, _), time in fastest.items():
            boxes[width, height, None] = min(time, boxes.get((width, height, None), time))
        fastest = boxes
    return [Way(*key, time) for key, time in fastest.items()]


def _time(
    convs: list[tuple[int, ...]], split: tuple[int, int], cs: tuple[int, ...], ks: tuple[int, ...], words: int
) -> int | None:
    """In quarters; None where the memory of a tile doesn't suffice (C3, in whole numbers)."""
    (h, w), slowest = split, 0
    for (H, W, R, S, C, K, T), c, k in zip(convs, cs, ks, strict=True):
        if C * K * R * S * h * w + (W + S - 1) * (H + R - 1) * K * c > words * c * k * h * w:
            return None
        slowest = max(slowest, -(-4 * -(-H // h) * -(-W // w) * -(-C // c) * -(-K // k) * R * S // T**2))
    return slowest


def optimum(instance: WaferInstance, work: float) -> tuple[int | None, bool]:
    """The least score in ticks and whether CP-SAT proves it with so much deterministic work; None where no
    floorplan was found."""
    model, weights, fabric = cp_model.CpModel(), instance.weights, instance.fabric
    sides, last, centres, compared = (fabric.width, fabric.height), [], {}, {}
    known, across, up = dict[str, list[Way]](), list[Any](), list[Any]()
    for kernel in instance.kernels:
        alike = repr(kernel.replace(name=""))
        listed = known[alike] = known.get(alike) or ways(instance, kernel)
        if not listed:
            return None, True
        chosen = [model.new_bool_var("") for _ in listed]
        model.add_exactly_one(chosen)
        last.append(sum(way.time * one for way, one in zip(listed, chosen, strict=True)))
        centre = []
        for axis, intervals in enumerate((across, up)):
            size, at = model.new_int_var(1, sides[axis], ""), model.new_int_var(0, sides[axis], "")
            long = [(way.width, way.height)[axis] for way in listed]
            model.add(size == sum(side * one for side, one in zip(long, chosen, strict=True)))
            end = model.new_int_var(0, sides[axis], "")
            intervals.append(model.new_interval_var(at, size, end, ""))
            centre.append(2 * at + size)
        centres[kernel.name] = centre
        if not kernel.choices:
            compared[kernel.name] = listed, chosen
    model.add_no_overlap_2d(across, up)
    slowest = model.new_int_var(0, 10**6, "")
    for time in last:
        model.add(slowest >= time)
    cost = weights.time * slowest
    for u, v in instance.edges:
        for axis in (0, 1):
            way = model.new_int_var(0, 2 * sides[axis], "")
            model.add_abs_equality(way, centres[u][axis] - centres[v][axis])
            cost += 2 * weights.wire * way
        if weights.adapter and u in compared and v in compared:
            cost += 4 * weights.adapter * sum(_differs(model, compared[u], compared[v], at) for at in range(3))
    model.minimize(cost)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers, solver.parameters.max_deterministic_time = 1, work
    solver.parameters.linearization_level = 0  # ortools 9.x ends with a fault in 1 of 25 of these models otherwise
    status = solver.solve(model)
    if status in (cp_model.INFEASIBLE, cp_model.UNKNOWN):
        return None, status == cp_model.INFEASIBLE
    return round(solver.objective_value), status == cp_model.OPTIMAL


def _differs(model: Any, producer: Any, consumer: Any, at: int) -> Any:
    """Whether h, w or the offered c of the producer is another than the consumer's."""
    ends = []
    for (listed, chosen), place in ((producer, (0, 1, 3)[at]), (consumer, (0, 1, 2)[at])):
        ends.append(sum(way.compared[place] * one for way, one in zip(listed, chosen, strict=True)))
    differs = model.new_bool_var("")
    model.add(ends[0] == ends[1]).only_enforce_if(~differs)
    return differs
