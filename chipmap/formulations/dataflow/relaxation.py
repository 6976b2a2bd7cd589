"""Convex programs of family ``dataflow``: a lower bound over all mappings, balanced chips.

- :func:`bound`: schemes in shares. A group of kernels that is never in one partition with others (a phase; a kernel
  where they can't be fused) takes at least the longest of its compute, memory and network, and the groups run one after
  the other. Compute is spread over all tiles; memory is that of tensors between groups, or between pinned partitions,
  and of weights.
- :func:`balanced`: tiles and bandwidths under a budget: minimise Σ_p max(f_p/x, b_p/y, n_p/z + latency), which is
  convex in the numbers of tiles x and the rates y and z, with a price or power linear in them.

DFModel has none of these; the models are its equations 5 to 7 and section V-B.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Any

import cvxpy as cp
import numpy as np

from chipmap.formulations.dataflow.tables_exchanges import least_changes
from chipmap.instances.dataflow.floors import launch_ticks
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.layer_handover import handovers
from chipmap.instances.dataflow.partition_loads import Load, layer_share, loads
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.records import InputError

#: What is taken off the dual value, relative to it, for the tolerance of the conic solver (1e-8 by default).
MARGIN = 1e-6


def bound(problem: DataflowProblem) -> int | None:
    """Picoseconds: no mapping at these degrees has a shorter layer (None: the solver has no proof).

    With ``across_layers`` that of all layers.
    """
    relaxation = _Schemes(problem)
    scale = float(max(1, sum(max(o.compute for o in options) for options in problem.options)))
    total, constraints = relaxation.layer(scale)
    value = _dual_value(cp.Problem(cp.Minimize(total), constraints))
    return None if value is None else ceil(problem.instance.mapped_layers * scale * value) + launch_ticks(problem)


class _Schemes:
    """Shares of schemes s[v][o], and of pairs of them on every tensor, over the kernels of one layer."""

    def __init__(self, problem: DataflowProblem) -> None:
        self.problem = problem
        instance = problem.instance
        kernels = instance.workload.kernels
        fused = instance.task.fused and instance.system.chip.fused
        self.group = [kernel.phase if fused else kernel.name for kernel in kernels]
        self.pin = {name: g for g, names in enumerate(instance.task.together) for name in names}
        self.s = [cp.Variable(len(options), nonneg=True) for options in problem.options]
        self.constraints: list[Any] = [cp.sum(s) == 1 for s in self.s]

    def layer(self, scale: float) -> tuple[Any, list[Any]]:
        """Σ over groups of their time, in ``scale`` picoseconds, and what it must obey."""
        groups = sorted(set(self.group))
        time = {group: cp.Variable(nonneg=True) for group in groups}
        kinds = self._compute(), self._memory(), self._network()
        for group in groups:
            for kind in kinds:
                parts = [part / scale for key, part in kind if key == group]
                if parts:
                    self.constraints.append(time[group] >= cp.sum(parts))
        return cp.sum(list(time.values())), self.constraints

    def _column(self, v: int, field: str) -> Any:
        return self.s[v] @ np.array([float(getattr(option, field)) for option in self.problem.options[v]])

    def _compute(self) -> list[tuple[str, Any]]:
        return [(group, self._column(v, "compute")) for v, group in enumerate(self.group)]

    def _memory(self) -> list[tuple[str, Any]]:
        """Weights, unless they could stay on the chip, and both ends of tensors that can't stay inside a partition."""
        problem, physical = self.problem, self.problem.instance.mode == "physical"
        parts: list[tuple[str, Any]] = []
        layers = 1 if problem.instance.task.across_layers else problem.instance.workload.layers
        if physical and (layers > problem.degrees.pipeline or len(set(self.group)) > 1):
            parts += [(group, self._column(v, "stream")) for v, group in enumerate(self.group)]
        kernels = problem.instance.workload.kernels
        moved: dict[tuple[int, str, object], int] = {}
        for e, (u, v) in enumerate(problem.edges.tolist()):
            pins = self.pin.get(kernels[u].name), self.pin.get(kernels[v].name)
            if self.group[u] != self.group[v] or (None not in pins and pins[0] != pins[1]):
                for end, group in (("out", self.group[u]), ("in", self.group[v])):
                    moved[u, group, end if physical else (end, e)] = 1
        parts += [(group, self._moved(u, end)) for u, group, end in moved]
        return parts

    def _moved(self, u: int, end: object) -> Any:
        """Picoseconds to move what u makes; a reader may have it in a layout for which another one paid."""
        copies = [copy.dram for one in self.problem.shared if one.maker == u for copy in one.copies]
        if end == "out" or not copies or self.problem.instance.task.keep in (None, "none"):
            return self._column(u, "dram")
        return self.s[u] @ np.array([float(min(option.dram, *copies)) for option in self.problem.options[u]])

    def _network(self) -> list[tuple[str, Any]]:
        problem = self.problem
        parts = [(group, self._column(v, "collective")) for v, group in enumerate(self.group)]
        least = least_changes(problem)
        pairs = [(u, v, least.get((u, v))) for u, v in [*problem.edges.tolist(), *handovers(problem)]]
        for u, v, changes in [*pairs, *((use.owner, use.user, use.network) for use in problem.uses)]:
            made, taken = range(len(problem.options[u])), range(len(problem.options[v]))
            if changes is None:
                changes = np.array([[problem.converts(u, v, a, b) for b in taken] for a in made])
            if changes.any():
                pair = cp.Variable((len(made), len(taken)), nonneg=True)
                self.constraints += [cp.sum(pair, axis=1) == self.s[u], cp.sum(pair, axis=0) == self.s[v]]
                parts.append((self.group[v], cp.sum(cp.multiply(pair, changes.astype(float)))))
        return parts


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What a chip pays for one tile, for a GB/s of its DRAM, and for a GB/s of each of its links."""

    tile: float
    memory: float
    link: float


@dataclass(frozen=True, kw_only=True)
class Design:
    """A chip: tiles, GB/s of DRAM and of a link of the tensor-parallel dimension, and the seconds of the batch's
    layers (T4)."""

    tiles: float
    memory_gbps: float
    link_gbps: float
    seconds: float


def balanced(instance: DataflowInstance, solution: DataflowSolution, budgets: Sequence[tuple[Rates, float]]) -> Design:
    """The tiles and rates with which ``solution`` takes least time, each chip within every budget.

    ``budgets``: what tiles, DRAM and the links of the tensor-parallel dimension may cost together, in dollars or watts.
    The mapping stays as it is, tiles are spread at will and SRAM is unchanged: solve the instance again on the chip
    found. Raises :class:`InputError` for a budget or rates that leave something unlimited.
    """
    if not budgets or any(budget <= 0 for _, budget in budgets):
        raise InputError("no budget above 0 is given", "budgets", "Give a price or a power of a chip.")
    parts, chip, links = loads(instance, solution), instance.system.chip, tensor_links(instance, solution)
    if not chip.counts_cycles:
        raise InputError("states TFLOP/s or shares of its peak", "system.chip", "Give tiles, lanes, stages and ghz.")
    tiles, memory, link = (cp.Variable(pos=True) for _ in range(3))
    for name in ("tile", "memory", "link"):
        if not any(getattr(rates, name) > 0 for rates, _ in budgets):
            raise InputError(f"a {name} costs nothing", f"budgets.{name}", "Give it a price or a power.")
    limits = [
        (rates.tile * chip.tiles * tiles + rates.memory * instance.system.memory.bytes_per_ns * memory) / budget
        + rates.link * links * _link_rate(instance, solution) * link / budget
        <= 1
        for rates, budget in budgets
    ]
    scale = float(max(1, *(max(sum(one.compute), one.memory, one.network) for one in parts)))
    join = cp.maximum if instance.task.overlap else lambda *times: sum(times)
    launches = sum(one.runs * one.launch for one in parts) / scale
    total = launches + cp.sum([one.runs * join(*_times(one, scale, tiles, memory, link)) for one in parts])
    program = cp.Problem(cp.Minimize(total), limits)
    program.solve(solver=cp.CLARABEL)
    if program.status != cp.OPTIMAL:
        raise InputError(f"the solver ends as {program.status}", "budgets", "Give budgets of a usual size.")
    return Design(
        tiles=chip.tiles * _value(tiles),
        memory_gbps=instance.system.memory.bytes_per_ns * _value(memory),
        link_gbps=_link_rate(instance, solution) * _value(link),
        seconds=_value(total) * scale * layer_share(instance, solution),
    )


def _times(one: Load, scale: float, tiles: Any, memory: Any, link: Any) -> list[Any]:
    """compute / tiles, memory / rate, network / rate + latency, all relative to those of the instance."""
    times = [sum(one.compute) / scale * cp.inv_pos(tiles), one.memory / scale * cp.inv_pos(memory)]
    times.append((one.network - one.latency) / scale * cp.inv_pos(link) + one.latency / scale)
    return times


def tensor_links(instance: DataflowInstance, solution: DataflowSolution) -> float:
    """Links of a chip in the dimension of tensor parallelism."""
    return sum(dimension.links_per_chip for dimension in solution.degrees.carrying(instance.system, "tensor"))


def _link_rate(instance: DataflowInstance, solution: DataflowSolution) -> float:
    return next((one.bytes_per_ns for one in solution.degrees.carrying(instance.system, "tensor")), 1.0)


def _value(expression: Any) -> float:
    return float(np.asarray(expression.value).item())


def _dual_value(program: cp.Problem) -> float | None:
    """The dual value of a convex program, less :data:`MARGIN` of it; None unless it is solved to optimality."""
    data, chain, inverse = program.get_problem_data(cp.CLARABEL, solver_opts={})
    raw = chain.solve_via_data(program, data)
    try:
        program.unpack_results(raw, chain, inverse)
    except cp.error.SolverError:
        return None
    if program.status != cp.OPTIMAL or abs(raw.obj_val - raw.obj_val_dual) == inf:
        return None
    return float(program.value - abs(raw.obj_val - raw.obj_val_dual)) * (1 - MARGIN)
