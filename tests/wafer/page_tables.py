"""Kernels with tables of choices as the page says: every choice, both ways round, at every corner."""

from __future__ import annotations

from itertools import product
from random import Random

from chipmap.instances.wafer import Choice, Kernel, WaferInstance
from tests.wafer import tiny
from tests.wafer.page_fabric import holed_instance, kept_out

#: time in quarters, (x, y, width, height), and what adapters compare: h, w, first c, offered c; None of a table.
Way = tuple[int, tuple[int, int, int, int], tuple[int, int, int, int] | None]


def tabled_instance(random: Random) -> WaferInstance:
    """A random tiny instance in which at least one kernel has a table; now and then with holes (C5)."""
    base = holed_instance(random) if random.random() < 0.3 else tiny.instance(random, kernels=2, side=8, blocks=False)
    kernels = []
    for i, kernel in enumerate(base.kernels):
        if i and random.random() < 0.5:
            kernels.append(kernel)
            continue
        choices = tuple(
            Choice(
                width=random.randint(1, 5),
                height=random.randint(1, 5),
                time=random.randint(0, 20),
                memory_words=random.choice((0, 20, 40, 10**6 + 1)),
            )
            for _ in range(random.randint(1, 4))
        )
        kernels.append(Kernel(name=kernel.name, kind="table", choices=choices))
    return base.replace(kernels=tuple(kernels))


def ways(instance: WaferInstance) -> list[list[Way]]:
    """Every way to run and place each kernel, alone on the fabric."""
    bare = instance.replace(kernels=tuple(kernel for kernel in instance.kernels if not kernel.choices), edges=())
    problem = tiny.wafer_problem(bare) if bare.kernels else None
    found, fabric = [], instance.fabric
    for kernel in instance.kernels:
        some: list[Way] = []
        if not kernel.choices:
            assert problem is not None
            for row in tiny.ways(problem, problem.names.index(kernel.name)).table.tolist():
                width, height, time, h, w, first, offered, x, y = row
                some.append((time, (x, y, width, height), (h, w, first, offered)))
        for one in kernel.choices:
            if one.memory_words <= fabric.memory_words:
                for width, height in {(one.width, one.height), (one.height, one.width)}:
                    for x, y in product(range(fabric.width - width + 1), range(fabric.height - height + 1)):
                        some.append((-(-4 * one.time * kernel.time_permille // 1000), (x, y, width, height), None))
        found.append([way for way in some if kept_out(instance, {kernel.name: way[1]})])
    return found


def optimum(instance: WaferInstance) -> int | None:
    """The least score in ticks of all floorplans of one or two kernels; None where there is none."""
    weights, listed = instance.weights, ways(instance)
    names, best = [kernel.name for kernel in instance.kernels], None
    edges = [(names.index(u), names.index(v)) for u, v in instance.edges]
    for chosen in product(*listed):
        boxes = [way[1] for way in chosen]
        if len(boxes) == 2:
            (x, y, a, b), (p, q, c, d) = boxes
            if x < p + c and p < x + a and y < q + d and q < y + b:
                continue
        score = weights.time * max(way[0] for way in chosen)
        for u, v in edges:
            (x, y, a, b), (p, q, c, d) = boxes[u], boxes[v]
            score += 2 * weights.wire * (abs(2 * x + a - 2 * p - c) + abs(2 * y + b - 2 * q - d))
            ours, theirs = chosen[u][2], chosen[v][2]
            if ours and theirs:
                differ = (ours[0] != theirs[0]) + (ours[1] != theirs[1]) + (ours[3] != theirs[2])
                score += 4 * weights.adapter * differ
        best = score if best is None else min(best, score)
    return best
