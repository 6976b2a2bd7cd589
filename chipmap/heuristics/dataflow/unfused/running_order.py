"""Orders in which kernels run one after the other: what waits in DRAM meanwhile depends on them, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chipmap.instances.dataflow.problem import DataflowProblem, wires
from chipmap.networks.graph import neighbours, topological


def running_order(problem: DataflowProblem, chosen: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The place of each kernel in a few topological orders, forward kernels first: as they are listed; and always the
    kernel next that leaves least waiting in DRAM, or frees most. Where layouts are kept, the former alone (C0)."""
    layers = len(chosen) // problem.n
    tensors = wires(problem, layers)
    backward = [kernel.phase == "backward" for kernel in problem.instance.workload.kernels] * layers
    yield _places(topological(neighbours(len(chosen), tensors), backward.__getitem__))
    limited = problem.instance.system.memory.capacity_bytes is not None
    if limited and problem.instance.task.keep in (None, "none"):
        yield _places(_sparing(problem, chosen, tensors, backward))


def least_waiting(problem: DataflowProblem) -> int:
    """Bytes that wait in DRAM at least at some time, in any order: what a kernel makes and what it reads."""
    physical, waits = problem.instance.mode == "physical", [min(o.waits for o in one) for one in problem.options]
    layers = problem.instance.mapped_layers
    made, read = [0] * (problem.n * layers), [0] * (problem.n * layers)
    for u, v in wires(problem, layers):
        read[v] += waits[u % problem.n]
        made[u] = waits[u % problem.n] if physical else made[u] + waits[u % problem.n]
    return max((a + b for a, b in zip(made, read, strict=True)), default=0)


def _places(order: Sequence[int]) -> tuple[int, ...]:
    places = [0] * len(order)
    for i, v in enumerate(order):
        places[v] = i
    return tuple(places)


def _sparing(
    problem: DataflowProblem, chosen: Sequence[int], tensors: Sequence[tuple[int, int]], backward: Sequence[bool]
) -> list[int]:
    n = len(chosen)
    waits = [problem.options[v % problem.n][o].waits for v, o in enumerate(chosen)]
    makers: list[list[int]] = [[] for _ in range(n)]
    readers: list[list[int]] = [[] for _ in range(n)]
    for u, v in tensors:
        makers[v].append(u)
        readers[u].append(v)
    left, unread = [len(one) for one in makers], [len(one) for one in readers]
    ready, order = [v for v in range(n) if not left[v]], list[int]()

    def leaves(v: int) -> int:
        freed = sum(waits[u] for u in set(makers[v]) if unread[u] == 1)
        return (waits[v] if readers[v] else 0) - freed

    while ready:
        v = min(ready, key=lambda v: (backward[v], leaves(v), v))
        ready.remove(v)
        order.append(v)
        for u in makers[v]:
            unread[u] -= 1
        for w in readers[v]:
            left[w] -= 1
            if not left[w]:
                ready.append(w)
    return order
