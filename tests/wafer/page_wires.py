"""Sides, traffic and limits on lines as the page says it, and tiny instances with all of them at random."""

from __future__ import annotations

from random import Random

import numpy as np

from chipmap.instances.wafer import Crossing, Kernel, Side, WaferInstance
from tests.wafer import tiny
from tests.wafer.page_fabric import holed_instance
from tests.wafer.page_tables import ways

#: Columns of a kernel's table: time, x, y, width, height, and what adapters compare (h, w, first c, offered c).
TIME, X, Y, WIDTH, HEIGHT, FIRST, OFFERED = 0, 1, 2, 3, 4, 7, 8


def wired_instance(random: Random) -> WaferInstance:
    """A random tiny instance with inputs and outputs at sides, traffic and limits on lines; now and then with holes."""
    while True:
        base = tiny.instance(random, kernels=2, side=8, blocks=False)
        base = holed_instance(random) if random.random() < 0.2 else base
        if len(base.kernels) <= 2:
            break
    names, fabric = [kernel.name for kernel in base.kernels], base.fabric
    ends = [Kernel(name=name, kind="input" if name == "in" else "output", shape=(1,)) for name in ("in", "out")]
    edges = list(base.edges)
    edges += [("in", name) for name in names if random.random() < 0.6]
    edges += [(name, "out") for name in names if random.random() < 0.5]
    random.shuffle(edges)
    sides = tuple(
        Side(kernel=name, side=random.choice(("left", "right", "bottom", "top")), touch=random.random() < 0.35)
        for name in ("in", "out")
        if random.random() < 0.7
    )
    traffic = tuple(random.choice((0, 1, 1, 2, 7)) for _ in edges) if random.random() < 0.7 else ()
    lines = []
    for _ in range(random.choice((0, 0, 1, 2))):
        axis = random.choice(("x", "y"))
        at = random.randint(1, (fabric.width if axis == "x" else fabric.height) - 1)
        lines.append(Crossing(axis=axis, at=at, most=random.choice((0, 1, 3, 8))))  # type: ignore[arg-type]
    made = base.replace(
        kernels=(*base.kernels, *ends), edges=tuple(edges), sides=sides, traffic=traffic, crossing=tuple(lines)
    )
    made.check()
    return made


def optimum(instance: WaferInstance) -> int | None:
    """The least score in ticks of all floorplans of one or two kernels; None where there is none."""
    placed = [kernel for kernel in instance.kernels if kernel.kind not in ("input", "output")]
    bare = instance.replace(kernels=tuple(placed), edges=(), sides=(), traffic=(), crossing=())
    tables = [np.array([(time, *box, *how) for time, box, how in some]) for some in ways(bare)]  # type: ignore[misc]
    if not all(map(len, tables)):
        return None
    names, best = [kernel.name for kernel in placed], None
    for row in tables[0]:
        rest = tables[1] if len(tables) > 1 else row[None]
        pair = {names[0]: np.broadcast_to(row, rest.shape), names[-1]: rest}
        allowed = _legal(instance, pair)
        if allowed.any():
            least = int(_score(instance, pair)[allowed].min())
            best = least if best is None else min(best, least)
    return best


def _centre(table: np.ndarray) -> np.ndarray:
    """[rows, 2] twice the centre."""
    return 2 * table[:, [X, Y]] + table[:, [WIDTH, HEIGHT]]


def _end(instance: WaferInstance, side: str, centre: np.ndarray) -> np.ndarray:
    """Twice the point of a side straight across from a centre."""
    at, fabric = centre.copy(), instance.fabric
    at[:, 0 if side in ("left", "right") else 1] = {"left": 0, "bottom": 0, "right": 2 * fabric.width}.get(
        side, 2 * fabric.height
    )
    return at


def _wires(instance: WaferInstance, pair: dict[str, np.ndarray]) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Traffic and the two ends of each wire that counts."""
    sides, found = {one.kernel: one.side for one in instance.sides}, []
    for i, (u, v) in enumerate(instance.edges):
        amount = instance.traffic[i] if instance.traffic else 1
        if u in pair and v in pair:
            found.append((amount, _centre(pair[u]), _centre(pair[v])))
        elif u in sides or v in sides:
            kernel, end = (v, u) if u in sides else (u, v)
            centre = _centre(pair[kernel])
            found.append((amount, centre, _end(instance, sides[end], centre)))
    return found


def _legal(instance: WaferInstance, pair: dict[str, np.ndarray]) -> np.ndarray:
    """Which rows obey C2, C6 and C7."""
    tables, fabric = list(pair.values()), instance.fabric
    good = np.ones(len(tables[0]), dtype=bool)
    if len(tables) == 2:
        a, b = tables
        for corner, side in ((X, WIDTH), (Y, HEIGHT)):
            apart = (a[:, corner] + a[:, side] <= b[:, corner]) | (b[:, corner] + b[:, side] <= a[:, corner])
            good = apart if corner == X else good | apart
    for one in instance.sides:
        for edge in instance.edges:
            if one.touch and one.kernel in edge:
                (kernel,) = (name for name in edge if name != one.kernel)
                x, y, width, height = pair[kernel].T[X : HEIGHT + 1]
                gap = {"left": x, "right": fabric.width - x - width, "bottom": y, "top": fabric.height - y - height}
                good = good & (gap[one.side] == 0)
    for line in instance.crossing:
        axis, total = "xy".index(line.axis), np.zeros(len(good), dtype=np.int64)
        for amount, a, b in _wires(instance, pair):
            total += amount * ((a[:, axis] >= 2 * line.at) != (b[:, axis] >= 2 * line.at))
        good = good & (total <= line.most)
    return good


def _score(instance: WaferInstance, pair: dict[str, np.ndarray]) -> np.ndarray:
    weights = instance.weights
    score = weights.time * np.max([table[:, TIME] for table in pair.values()], axis=0)
    for amount, a, b in _wires(instance, pair):
        score = score + 2 * weights.wire * amount * np.abs(a - b).sum(axis=1)
    for u, v in instance.edges:
        if u in pair and v in pair:
            a, b = pair[u], pair[v]
            differ = (a[:, 5] != b[:, 5]).astype(int) + (a[:, 6] != b[:, 6]) + (a[:, OFFERED] != b[:, FIRST])
            score = score + 4 * weights.adapter * differ
    return score
