"""Changes of layout between a layer and the next, where every layer has the same mapping (mode ``physical``).

A tensor that a layer passes on (``workload.carries``) has a maker in one layer and a reader in the next. The reader
counts its change of layout in T3, in every layer. Which change it needs depends on the maker's scheme, which is the
same in all layers. So there is one case for each layout that these tensors can have: in a case, what each scheme of
the reader pays is known, and the layer is a graph without cycles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod

from chipmap.instances.dataflow.options import Option
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.records import InputError

#: Cases that are told apart at most.
MOST_CASES = 1000


def handovers(problem: DataflowProblem) -> list[tuple[int, int]]:
    """(maker, reader) of every tensor from a layer to the next whose change of layout counts in each layer.

    None in mode ``dfmodel``, of a single layer, and where partitions reach across layers (then these are tensors).
    """
    instance, workload = problem.instance, problem.instance.workload
    if instance.mode == "dfmodel" or instance.task.across_layers or workload.layers == 1:
        return []
    index = {kernel.name: i for i, kernel in enumerate(workload.kernels)}
    return [(index[u], index[v]) for u, v in workload.carries]


def handover_cases(problem: DataflowProblem) -> Iterator[DataflowProblem]:
    """The problem once for each case of the layouts that the tensors passed to the next layer can have.

    In a case, a maker keeps only the options that are alike to all its readers, and a reader's options have the changes
    of layout in ``collective``. No change between layers is left to count. Every mapping is in exactly one of these
    problems, at its cost. Raises :class:`InputError` for more than ``MOST_CASES``.
    """
    pairs = handovers(problem)
    makers = sorted({u for u, v in pairs if u != v})
    layouts = [_alike(problem, u, [v for w, v in pairs if w == u]) for u in makers]
    count = prod(map(len, layouts))
    if count > MOST_CASES:
        names = ", ".join(problem.instance.workload.kernels[u].name for u in makers[:5])
        what = f"the tensors that {len(makers)} kernels ({names}, …) pass to the next layer can have {count:,} layouts"
        remedy = f"Pin schemes in task.schemes (at most {MOST_CASES:,} layouts), or use dataflow/mip or dataflow/cpsat."
        raise InputError(what, "workload.carries", remedy)
    for choice in product(*layouts):
        made = dict(zip(makers, choice, strict=True))
        yield replace(problem, options=tuple(_options(problem, pairs, made, v) for v in range(problem.n)))


def _alike(problem: DataflowProblem, u: int, readers: list[int]) -> list[list[int]]:
    """The options of u, those together whose changes of layout cost each reader the same under each of its options."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for s in range(len(problem.options[u])):
        row = tuple(problem.converts(u, v, s, t) for v in readers if v != u for t in range(len(problem.options[v])))
        groups.setdefault(row, []).append(s)
    return list(groups.values())


def _options(
    problem: DataflowProblem, pairs: list[tuple[int, int]], made: dict[int, list[int]], v: int
) -> tuple[Option, ...]:
    """The options of v that are left, each with the changes of what it reads from the layer before."""
    found = []
    for t in made.get(v, range(len(problem.options[v]))):
        changes = sum(problem.converts(u, v, t if u == v else made[u][0], t) for u, w in pairs if w == v)
        option = problem.options[v][t]
        found.append(option._replace(collective=option.collective + changes))
    return tuple(found)
