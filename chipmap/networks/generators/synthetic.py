"""Graphs that are no networks: chains, random graphs, and graphs given in words."""

from __future__ import annotations

import random
from collections.abc import Callable

from chipmap.networks.generators.parameters import Count, Many, Seed, Share, Whole, require
from chipmap.networks.graph import Operation, OperationGraph, Tensor

#: Edges of a layered graph: so many fit into memory as objects.
MOST_EDGES = 1_000_000


def chain(
    *,
    operations: Count = 100,
    flop: Whole = 4_000_000,
    tensor_bytes: Whole = 65_536,
    weight_bytes: Whole = 0,
    spread: Share = 0.5,
    seed: Seed = 0,
) -> OperationGraph:
    """``operations`` in a row; FLOP of each drawn evenly from ``flop`` · (1 ± ``spread``)."""
    draw = random.Random(seed)
    nodes = tuple(
        Operation(name=f"op{v}", kind="step", flop=_around(flop, spread, draw), weight_bytes=weight_bytes)
        for v in range(operations)
    )
    tensors = tuple(Tensor(producer=v, readers=(v + 1,), bytes=tensor_bytes) for v in range(operations - 1))
    return OperationGraph(name=f"chain-{operations}", operations=nodes, tensors=tensors)


def random_dag(
    *,
    operations: Count = 40,
    reach: Count = 6,
    density: Share = 0.3,
    flop: Whole = 4_000_000,
    tensor_bytes: Whole = 65_536,
    weight_bytes: Whole = 65_536,
    spread: Share = 0.9,
    seed: Seed = 0,
) -> OperationGraph:
    """A random graph: each operation reads one of the ``reach`` before it, and each other of these with probability
    ``density``.

    FLOP, bytes and weights are drawn evenly from their value · (1 ± ``spread``).
    """

    def read(v: int, draw: random.Random) -> list[int]:
        before = range(max(0, v - reach), v)
        sure = before[int(draw.random() * len(before))] if before else -1
        return [u for u in before if u == sure or draw.random() < density]

    return _drawn(f"random-{operations}-{seed}", operations, (flop, weight_bytes, tensor_bytes), spread, seed, read)


def layered(
    *,
    operations: Many = 200,
    width: Count = 8,
    reads: Count = 2,
    flop: Whole = 4_000_000,
    tensor_bytes: Whole = 65_536,
    weight_bytes: Whole = 65_536,
    spread: Share = 0.9,
    seed: Seed = 0,
) -> OperationGraph:
    """A random graph in layers of ``width`` operations (the last may have fewer): each operation reads ``reads`` drawn
    ones of the layer before, or all where there are no more.

    FLOP, bytes and weights are drawn evenly from their value · (1 ± ``spread``). It is wide: about 2^width sets of
    operations are closed under predecessors within each layer.
    """
    edges = operations * min(reads, width)
    require(
        edges <= MOST_EDGES,
        f"makes {edges:,} edges, more than {MOST_EDGES:,}",
        "reads",
        "Give fewer, or fewer operations.",
    )

    def read(v: int, draw: random.Random) -> list[int]:
        layer = v // width * width
        before = range(max(0, layer - width), layer)
        return sorted(draw.sample(before, min(reads, len(before))))

    name = f"layered-{operations}x{width}-{seed}"
    return _drawn(name, operations, (flop, weight_bytes, tensor_bytes), spread, seed, read)


def _drawn(
    name: str,
    operations: int,
    amounts: tuple[int, int, int],
    spread: float,
    seed: int,
    read: Callable[[int, random.Random], list[int]],
) -> OperationGraph:
    """A random graph: FLOP, weights and bytes around their ``amounts``, and what operation v ``read``s."""
    draw = random.Random(seed)
    nodes, sizes = [], []
    readers: list[list[int]] = [[] for _ in range(operations)]
    for v in range(operations):
        flop, weights, size = (_around(value, spread, draw) for value in amounts)
        nodes.append(Operation(name=f"op{v}", kind="random", flop=flop, weight_bytes=weights))
        sizes.append(size)
        for u in read(v, draw):
            readers[u].append(v)
    tensors = tuple(Tensor(producer=v, readers=tuple(to), bytes=sizes[v]) for v, to in enumerate(readers))
    return OperationGraph(name=name, operations=tuple(nodes), tensors=tensors)


def explicit(
    *,
    flop: dict[str, Whole],
    edges: list[tuple[str, str]],
    tensor_bytes: Whole = 0,
    sizes: dict[str, Whole] = {},  # noqa: B006 (read only)
    weight_bytes: dict[str, Whole] = {},  # noqa: B006
) -> OperationGraph:
    """The graph of the operations that ``flop`` names, with one tensor per operation.

    An operation's tensor has ``sizes[name]`` bytes, ``tensor_bytes`` where that is silent; weights are 0 likewise.
    """
    names = {name: v for v, name in enumerate(flop)}
    readers: dict[str, list[int]] = {name: [] for name in flop}
    named = {"edges": {x for edge in edges for x in edge}, "sizes": sizes, "weight_bytes": weight_bytes}
    for where, keys in named.items():
        for name in sorted(keys):
            require(name in names, f"no operation is called {name!r}", where, "Name the operations of `flop`.")
    for u, v in edges:
        readers[u].append(names[v])
    operations = (
        Operation(name=name, kind="given", flop=work, weight_bytes=weight_bytes.get(name, 0))
        for name, work in flop.items()
    )
    tensors = (
        Tensor(producer=names[name], readers=tuple(sorted(set(to))), bytes=sizes.get(name, tensor_bytes))
        for name, to in readers.items()
    )
    return OperationGraph.checked("explicit", operations, tensors)


def _around(value: int, spread: float, draw: random.Random) -> int:
    return round(value * (1 + spread * (2 * draw.random() - 1)))
