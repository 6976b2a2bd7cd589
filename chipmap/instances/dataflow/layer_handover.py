"""Changes of layout between a layer and the next, where every layer has the same mapping (mode ``physical``).

The kernel that reads what a layer hands on (``workload.carries``) counts them in T3, in every layer. Its maker's scheme
is that of the same layer's kernel, mostly one of its last: once that is settled, what each scheme of the reader pays is
known, and the layer is a graph without a way back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod

from chipmap.instances.dataflow.problem import DataflowProblem, Option
from chipmap.records import InputError

#: Ways to shard what is handed on that are told apart at most.
MOST_WAYS = 1000


def handed(problem: DataflowProblem) -> list[tuple[int, int]]:
    """(maker, reader) of every tensor from a layer to the next whose change of layout counts in each layer.

    None in mode ``dfmodel``, of a single layer, and where partitions reach across layers (then these are tensors).
    """
    instance, workload = problem.instance, problem.instance.workload
    if instance.mode == "dfmodel" or instance.task.across_layers or workload.layers == 1:
        return []
    index = {kernel.name: i for i, kernel in enumerate(workload.kernels)}
    return [(index[u], index[v]) for u, v in workload.carries]


def ways(problem: DataflowProblem) -> Iterator[DataflowProblem]:
    """The problem once for every way in which what is handed on may lie, without changes between layers.

    Makers keep the options that are alike to all their readers; readers' options have the changes in ``collective``.
    Together these problems have all mappings, each in one of them and at its cost. Raises :class:`InputError` for more
    than ``MOST_WAYS``.
    """
    pairs = handed(problem)
    makers = sorted({u for u, v in pairs if u != v})
    kinds = [_kinds(problem, u, [v for w, v in pairs if w == u]) for u in makers]
    if prod(map(len, kinds)) > MOST_WAYS:
        names = ", ".join(problem.instance.workload.kernels[u].name for u in makers[:5])
        what = f"what {len(makers)} kernels hand on ({names}, …) may lie in {prod(map(len, kinds)):,} ways"
        remedy = f"Pin some in task.schemes (at most {MOST_WAYS:,} ways), or use dataflow/mip or dataflow/cpsat."
        raise InputError(what, "workload.carries", remedy)
    for choice in product(*kinds):
        made = dict(zip(makers, choice, strict=True))
        yield replace(problem, options=tuple(_options(problem, pairs, made, v) for v in range(problem.n)))


def _kinds(problem: DataflowProblem, u: int, readers: list[int]) -> list[list[int]]:
    """The options of u, parted by what a change of layout costs each reader under each of its options."""
    kinds: dict[tuple[int, ...], list[int]] = {}
    for s in range(len(problem.options[u])):
        row = tuple(problem.converts(u, v, s, t) for v in readers if v != u for t in range(len(problem.options[v])))
        kinds.setdefault(row, []).append(s)
    return list(kinds.values())


def _options(
    problem: DataflowProblem, pairs: list[tuple[int, int]], made: dict[int, list[int]], v: int
) -> tuple[Option, ...]:
    """The options of v that are left, each with the changes of what it reads of the layer before."""
    found = []
    for t in made.get(v, range(len(problem.options[v]))):
        changes = sum(problem.converts(u, v, t if u == v else made[u][0], t) for u, w in pairs if w == v)
        option = problem.options[v][t]
        found.append(option._replace(collective=option.collective + changes))
    return tuple(found)
