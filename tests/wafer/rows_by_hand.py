"""Tiny wafer instances, every option of a kernel by plain enumeration, and a plain check of a floorplan."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np

from chipmap.instances.wafer import Fabric, Kernel, Placement, WaferInstance, Weights
from chipmap.instances.wafer.problem import WaferProblem, conv_time, memory_k, size, wafer_problem

#: Wires (producer, consumer) of small graphs.
PATH = ((0, 1), (1, 2))
TRIANGLE = ((0, 1), (1, 2), (0, 2), (2, 3))
DIAMOND = ((0, 1), (1, 3), (0, 2), (2, 3))


def conv(name: str, h: int, w: int, c: int, k: int, r: int = 1) -> Kernel:
    arguments = {"H": h, "W": w, "C": c, "K": k, "R": r, "S": r, "T": 1, "U": 1}
    return Kernel(name=name, kind="conv", arguments=arguments)


def tiny(
    seed: int, edges: Sequence[tuple[int, int]], side: int = 12, blocks: bool = False, weights: Weights | None = None
) -> WaferProblem:
    """A problem of random small kernels on a square fabric; with ``blocks`` one of them is a dblock."""
    draw = random.Random(seed)
    n = 1 + max(max(edge) for edge in edges)
    kernels = []
    for i in range(n):
        height, width, channels, features = (draw.choice((1, 2, 3, 4)) for _ in range(4))
        kernels.append(conv(f"k{i}", height, width, channels, features, r=draw.choice((1, 1, 2))))
    if blocks:
        kernels[draw.randrange(n)] = Kernel(name="block", kind="dblock", arguments={"H": 1, "W": 2, "F": 4})
    names = [kernel.name for kernel in kernels]
    instance = WaferInstance(
        name="tiny",
        kernels=tuple(kernels),
        edges=tuple((names[u], names[v]) for u, v in edges),
        fabric=Fabric(width=side, height=side),
        weights=weights
        or Weights(time=draw.choice((1, 2)), wire=draw.choice((1, 2, 5)), adapter=draw.choice((0, 1, 6))),
    )
    instance.check()
    return wafer_problem(instance)


def options(problem: WaferProblem, i: int, width: int, height: int, tau: int) -> list[Placement]:
    """Every choice of arguments and rotation of kernel i within ``width`` x ``height`` tiles and ``tau`` quarters."""
    convs = [np.array(c, dtype=np.int64) for c in problem.convs[i]]
    limit = max(width, height)
    found = []
    for h, w in itertools.product(range(1, limit // 2 + 1), repeat=2):
        highest = limit // (h * w) - 1
        for cs in itertools.product(range(1, highest + 1), repeat=len(convs)):
            for ks in itertools.product(range(1, limit // 3 + 1), repeat=len(convs)):
                if sum(ks) * 3 > limit or any(
                    conv_time(v, h, w, c, k) > tau or memory_k(v, h, w, c, problem.memory) > k
                    for v, c, k in zip(convs, cs, ks, strict=True)
                ):
                    continue
                for rotated in (False, True):
                    p = Placement(kernel=problem.names[i], h=h, w=w, c=cs, k=ks, x=0, y=0, rotated=rotated)
                    if size(p)[0] <= width and size(p)[1] <= height:
                        found.append(p)
    return found


def table(problem: WaferProblem, i: int, choices: Sequence[Placement], timed: bool = True) -> np.ndarray:
    """Columns h, w, first c, last c, parity across, time (0 unless ``timed``) and the least tiles along of each."""
    least: dict[tuple[int, ...], int] = {}
    for p in choices:
        times = [conv_time(np.array(v), p.h, p.w, c, k) for v, c, k in zip(problem.convs[i], p.c, p.k, strict=True)]
        width, height = size(p)
        key = (p.h, p.w, p.c[0], p.c[-1], height % 2, int(max(times)) if timed else 0)
        least[key] = min(width, least.get(key, width))
    return np.array([(*key, width) for key, width in least.items()], dtype=np.int64).reshape(-1, 7)


def legal(problem: WaferProblem, placements: Sequence[Placement]) -> bool:
    """Whether the floorplan is complete, fits the fabric and the memory, and nothing overlaps."""
    assert [p.kernel for p in placements] == list(problem.names)
    boxes = [(p.x, p.y, p.x + size(p)[0], p.y + size(p)[1]) for p in placements]
    inside = all(a >= 0 and b >= 0 and c <= problem.width and d <= problem.height for a, b, c, d in boxes)
    apart = all(
        p[2] <= q[0] or q[2] <= p[0] or p[3] <= q[1] or q[3] <= p[1] for p, q in itertools.combinations(boxes, 2)
    )
    held = all(
        k >= memory_k(np.array(v), p.h, p.w, c, problem.memory)
        for p, convs in zip(placements, problem.convs, strict=True)
        for v, c, k in zip(convs, p.c, p.k, strict=True)
    )
    return inside and apart and held
