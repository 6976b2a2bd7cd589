"""Kernels in their places (C4, C6, C7): whether a floorplan obeys, and the fastest way to run a kernel in a box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chipmap.instances.wafer.instance import Placement, WaferInstance
from chipmap.instances.wafer.problem import WaferProblem, conv_time, least_ks
from chipmap.instances.wafer.wires import Crossing

#: A box: left, lower, width, height.
Tiles = tuple[int, int, int, int]


def free_of_rectangles(instance: WaferInstance, kernel: str, box: Tiles) -> bool:
    """Whether a kernel's box covers no tile that is forbidden to it."""
    x, y, width, height = box
    return all(
        x + width <= r.x or r.x + r.width <= x or y + height <= r.y or r.y + r.height <= y
        for one in instance.forbidden
        if one.kernel == kernel
        for r in one.rectangles
    )


def touch(a: Tiles, b: Tiles) -> bool:
    """Whether boxes that don't overlap share a piece of border."""
    across = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    up = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    return (across == 0 and up > 0) or (up == 0 and across > 0)


def obeys(instance: WaferInstance, boxes: Mapping[str, Tiles]) -> bool:
    """Whether the boxes of all kernels, which don't overlap, obey C4."""
    for pin in instance.pins:
        at = zip(boxes[pin.kernel], (pin.x, pin.y, pin.width, pin.height), strict=True)
        if any(wanted is not None and value != wanted for value, wanted in at):
            return False
    if not all(free_of_rectangles(instance, one.kernel, boxes[one.kernel]) for one in instance.forbidden):
        return False
    beside = (
        any(touch(boxes[name], boxes[other]) for other in group[:i])
        for group in instance.together
        for i, name in enumerate(group)
        if i
    )
    pairs = ((name, other) for group in instance.apart for i, name in enumerate(group) for other in group[:i])
    return all(beside) and not any(touch(boxes[one], boxes[other]) for one, other in pairs)


def obeys_wires(problem: WaferProblem, boxes: Sequence[Tiles]) -> bool:
    """Whether the boxes of all kernels, in the order of the problem, touch their sides (C6), and no line is crossed by
    too much (C7)."""
    extent = problem.width, problem.height
    for v, side in problem.touching:
        axis, far = side // 2, side % 2
        if (boxes[v][axis] + boxes[v][2 + axis] != extent[axis]) if far else boxes[v][axis]:
            return False
    return all(crossing(problem, boxes, line) <= line.most for line in problem.instance.crossing)


def crossing(problem: WaferProblem, boxes: Sequence[Tiles], line: Crossing) -> int:
    """The traffic that crosses a line: of wires whose ends lie on different sides of it. A centre on the line, and one
    beyond it, are behind."""
    axis = "xy".index(line.axis)
    behind = [2 * box[axis] + box[2 + axis] >= 2 * line.at for box in boxes]
    edges = zip(problem.edges.tolist(), problem.traffic.tolist(), strict=True)
    total = sum(traffic for (u, v), traffic in edges if behind[u] != behind[v])
    return total + sum(
        traffic for v, side, traffic in problem.stubs.tolist() if side // 2 == axis and behind[v] != bool(side % 2)
    )


def fastest_in(problem: WaferProblem, v: int, width: int, height: int, memory: int | None = None) -> Placement | None:
    """Kernel ``v`` in a box of just these sides, as fast as that can be, at (0, 0); None where it has no such box.

    ``memory``: words of a tile, those of the fabric by default.
    """
    memory = problem.memory if memory is None else memory
    convs = problem.type_arrays[int(problem.types[v])]
    best: tuple[int, Placement] | None = None
    for rotated, (across, up) in enumerate(((width, height), (height, width))):
        if (table := problem.tables[int(problem.types[v])]) is not None:
            rows = table[(table[:, 0] == across) & (table[:, 1] == up) & (table[:, 3] <= memory)]
            if len(rows) and (best is None or rows[:, 2].min() < best[0]):
                one = Placement(kernel=problem.names[v], h=up, w=across, c=(), k=(), x=0, y=0, rotated=bool(rotated))
                best = int(rows[:, 2].min()), one
            continue
        columns = across // 3
        if across % 3 or columns < len(convs):
            continue
        for h in (one for one in range(1, up // 2 + 1) if up % one == 0):
            for w in (one for one in range(1, up // (2 * h) + 1) if up // h % one == 0):
                c = (up // (h * w) - 1,) * len(convs)
                low, high = 0, problem.longest

                def columns_at(tau: int, h: int = h, w: int = w, c: tuple[int, ...] = c) -> tuple[int, ...] | None:
                    ks = least_ks(convs, h, w, c, tau, memory)
                    return ks if ks is not None and sum(ks) <= columns else None  # noqa: B023

                if c[0] < 1 or columns_at(high) is None:
                    continue
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (low, middle) if columns_at(middle) is not None else (middle, high)
                ks = columns_at(high)
                assert ks is not None
                k = (ks[0] + columns - sum(ks), *ks[1:])
                time = max(int(conv_time(conv, h, w, c[0], ki)) for conv, ki in zip(convs, k, strict=True))
                if best is None or time < best[0]:
                    name = problem.names[v]
                    best = time, Placement(kernel=name, h=h, w=w, c=c, k=k, x=0, y=0, rotated=bool(rotated))
    return None if best is None else best[1]
