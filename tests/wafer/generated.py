"""Generated kernel graphs on fabrics of real size: chains, trees, cycles, branches and stars, with tight memory."""

from __future__ import annotations

from random import Random

from chipmap.instances.wafer import Fabric, Kernel, WaferInstance, Weights
from chipmap.instances.wafer.problem import WaferProblem, wafer_problem
from chipmap.instances.wafer.shapes import least_tiles

#: Kinds of graphs, and fabrics with odd sides.
KINDS = ("chain", "tree", "cycle", "branches", "star")
FABRICS = ((633, 633), (301, 299), (97, 511), (420, 130), (257, 257), (733, 151), (180, 180), (63, 901))
WEIGHTS = ((1, 1, 0), (1, 4, 0), (1, 40, 0), (1, 1, 10), (1, 4, 100), (1, 0, 0))


def edges(kind: str, n: int, random: Random) -> list[tuple[int, int]]:
    """The edges of a graph of ``n`` kernels."""
    if kind == "tree":
        return [(random.randrange(max(0, i - 5), i), i) for i in range(1, n)]
    if kind == "star":
        return [(0, i) if i % 2 else (i, 0) for i in range(1, n)]
    if kind == "branches":
        width = random.choice((2, 3, 4))
        made = [(0, i) for i in range(1, width + 1)]
        made += [(i, i + width) for i in range(1, n - 1 - width)]
        return made + [(i, n - 1) for i in range(max(1, n - 1 - width), n - 1)]
    chain = [(i, i + 1) for i in range(n - 1)]
    return [*chain, (n - 1, 0)] if kind == "cycle" else chain


def kernels(n: int, random: Random) -> tuple[Kernel, ...]:
    """``n`` kernels of up to ten types, some of them blocks."""
    types = []
    for _ in range(random.randint(3, 10)):
        side = random.choice((7, 14, 28, 56))
        if random.random() < 0.2:
            kind, arguments = random.choice(("dblock", "cblock")), {"H": 2 * side, "W": 2 * side, "F": 64}
        else:
            size = random.choice((1, 1, 3))
            arguments = {"H": side, "W": side, "C": random.choice((32, 64, 256)), "K": random.choice((32, 64, 256))}
            kind, arguments = "conv", arguments | {"R": size, "S": size, "T": random.choice((1, 1, 2)), "U": 1}
        types.append((kind, arguments))
    chosen = [random.choice(types) for _ in range(n)]
    return tuple(
        Kernel(name=f"k{i}", kind=kind, arguments=arguments)  # type: ignore[arg-type]
        for i, (kind, arguments) in enumerate(chosen)
    )


def _tiles(problem: WaferProblem, memory: int) -> float:
    """The fewest tiles of all kernels with so many words; infinite where one fits nowhere."""
    each = [int(least_tiles(problem, convs, problem.longest, memory)) for convs in problem.type_arrays]
    return sum(each[t] for t in problem.types.tolist()) if all(each) else float("inf")


def generated(seed: int) -> WaferInstance:
    """A graph of 20 to 120 kernels; the memory of a tile makes their smallest boxes fill up to three quarters."""
    random = Random(seed)
    kind, n = KINDS[seed % len(KINDS)], random.randint(20, 120)
    width, height = random.choice(FABRICS)
    time, wire, adapter = random.choice(WEIGHTS)
    instance = WaferInstance(
        name=f"{kind}-{n}-{seed}",
        kernels=kernels(n, random),
        edges=tuple((f"k{u}", f"k{v}") for u, v in edges(kind, n, random)),
        fabric=Fabric(width=width, height=height, memory_words=10**9),
        weights=Weights(time=time, wire=wire, adapter=adapter),
    )
    problem, room = wafer_problem(instance), random.choice((0.3, 0.6, 0.75)) * width * height
    low, high = 0, 10**9
    if _tiles(problem, high) > room:  # the blocks alone are too wide
        return generated(seed + 1000)
    while high - low > 1 + low // 50:
        middle = (low + high) // 2
        low, high = (low, middle) if _tiles(problem, middle) <= room else (middle, high)
    return instance.replace(fabric=Fabric(width=width, height=height, memory_words=high))
